// packed - a row of a packed shard as fields: numbers as they are, categories as code and text.
//
// The arrays of a file made elsewhere may begin at any byte, so values are copied out, never pointed at.
#include "packed_internal.h"

#include <math.h>
#include <string.h>

static double number_at(const char *row, size_t at, TensorType type)
{
    float narrow;
    double wide;
    int32_t whole;
    switch (type) {
    case TENSOR_F32:
        memcpy(&narrow, row + at * sizeof narrow, sizeof narrow);
        return (double)narrow;
    case TENSOR_F64:
        memcpy(&wide, row + at * sizeof wide, sizeof wide);
        return wide;
    case TENSOR_I32:
        memcpy(&whole, row + at * sizeof whole, sizeof whole);
        return (double)whole;
    default:
        BUG("packed numbers of type %d", (int)type);
    }
}

static Field missing_field(const SchemaColumn *column, size_t mark)
{
    if (mark >= column->missing_count)   // only a file that is still being checked
        return (Field){.text = ""};
    return (Field){.text = column->missing[mark].text, .length = (uint32_t)column->missing[mark].length};
}

static Field number_field(const SchemaColumn *column, double number)
{
    Field field = isnan(number) ? missing_field(column, 0) : (Field){0};
    field.kind = FIELD_NUMBER;
    field.number = number;
    return field;
}

static Field code_field(const SchemaColumn *column, const Dictionary *dictionary, int32_t code)
{
    Field field = {.text = ""};
    if (code < 0)
        field = missing_field(column, (size_t)(-1 - (int64_t)code));
    else if ((size_t)code < dictionary->count)
        field = (Field){.text = dictionary->keys[code], .length = dictionary->lengths[code]};
    field.kind = FIELD_CODE;
    field.code = code;
    return field;
}

void packed_fields(const Dataset *dataset, const struct PackedFile *packed, const char *numeric,
                   const char *codes, const char *target, Field *fields)
{
    const Schema *schema = &dataset->schema;
    for (size_t c = 0; c < schema->count; c++) {
        const SchemaColumn *column = &schema->columns[c];
        if (c == schema->target) {
            fields[c] = (Field){.kind = FIELD_NUMBER, .number = number_at(target, 0, packed->target_type)};
        } else if (column->packed_number) {
            fields[c] = number_field(column, number_at(numeric, column->packed_at, packed->numeric_type));
        } else {
            int32_t code;
            memcpy(&code, codes + column->packed_at * sizeof code, sizeof code);
            fields[c] = code_field(column, &packed->dictionary[column->packed_at], code);
        }
    }
}
