// field - what a field means to a schema: missing, a number, a label, a place in time; however it is stored.
#include "input_internal.h"

#include <fedgate/text.h>
#include <math.h>
#include <string.h>

bool schema_missing(const SchemaColumn *column, const Field *field)
{
    if (field->kind == FIELD_NUMBER)
        return isnan(field->number) || column->dropped;
    if (field->kind == FIELD_CODE)
        return field->code < 0 || column->dropped;
    for (size_t i = 0; i < column->missing_count; i++)
        if (column->missing[i].length == field->length &&
            memcmp(column->missing[i].text, field->text, field->length) == 0)
            return true;
    return column->dropped;
}

bool field_number(const Field *field, double *ret_value)
{
    if (field->kind != FIELD_NUMBER)
        return number_parse(field->text, field->length, ret_value);
    if (isnan(field->number))
        return false;
    *ret_value = field->number;
    return true;
}

const char *field_text(const Field *field, char buffer[static 32], size_t *ret_length)
{
    if (field->text) {
        *ret_length = field->length;
        return field->text;
    }
    text_from_double(buffer, field->number);
    *ret_length = strlen(buffer);
    return buffer;
}

bool schema_label(const Schema *schema, const Field *field, double *ret_target)
{
    if (field->kind != FIELD_TEXT) {   // checked when the file was opened
        *ret_target = field->number;
        return true;
    }
    if (schema->labels.count > 0) {
        int32_t code = dictionary_find(&schema->labels, field->text, field->length);
        if (code >= 0)
            *ret_target = schema->label_class[code];
        return code >= 0;
    }
    double value;
    if (!number_parse(field->text, field->length, &value))
        return false;
    if (schema->task != TASK_REGRESSION &&
        (value < 0 || value != floor(value) || value >= (schema->task == TASK_BINARY ? 2 : CLASSES_MAX)))
        return false;
    *ret_target = value;
    return true;
}

int schema_compare(const Field *a, const char *b, size_t b_length)
{
    double x, y;
    if (field_number(a, &x) && number_parse(b, b_length, &y))
        return (x > y) - (x < y);
    char buffer[32];
    size_t a_length;
    const char *text = field_text(a, buffer, &a_length);
    int order = memcmp(text, b, a_length < b_length ? a_length : b_length);
    return order != 0 ? order : (a_length > b_length) - (a_length < b_length);
}
