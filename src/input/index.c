// index - good rows in the order they are found, bad ones counted against the tolerance, those after the
// cutoff told apart; the same for text and packed files.
#include "input_internal.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN_TEXT = 60 };
static const char account[] = "input.index";

int field_shown(const Field *field)
{
    return field->length < SHOWN_TEXT ? (int)field->length : SHOWN_TEXT;
}

bool index_row(Dataset *dataset, const RowEntry *row, Error *error)
{
    if (dataset->row_count == dataset->row_capacity) {
        size_t capacity = dataset->row_capacity ? dataset->row_capacity * 2 : 4096;
        if (capacity > UINT32_MAX)
            return FAIL(error, ERROR_DATA, 0, "data has more than %u rows", UINT32_MAX / 2);
        int64_t more = (int64_t)((capacity - dataset->row_capacity) * sizeof *row);
        if (!ledger_charge(dataset->ledger, LEDGER_HOST, account, more, error))
            return false;
        RowEntry *grown = realloc(dataset->rows, capacity * sizeof *row);
        if (!grown) {
            ledger_return(dataset->ledger, LEDGER_HOST, account, more);
            return FAIL(error, ERROR_MEMORY, 0, "out of memory for the index of %zu rows", capacity);
        }
        dataset->rows = grown;
        dataset->row_capacity = capacity;
        if ((int64_t)(capacity * sizeof *row) > dataset->host_cap_bytes)
            return FAIL(error, ERROR_MEMORY, 0,
                        "index of the rows needs more than option 'input.host_memory' allows: %lld bytes",
                        (long long)dataset->host_cap_bytes);
    }
    dataset->rows[dataset->row_count++] = *row;
    return true;
}

bool index_bad(Dataset *dataset, const BadPlace *place, Error *error)
{
    if (dataset->bad < BAD_PLACES)
        dataset->places[dataset->bad] = *place;
    dataset->bad++;
    if (dataset->bad <= dataset->bad_allowed)
        return true;
    FAIL(error, ERROR_DATA, 0, "%s", place->reason);
    return error_hint(error,
                      "At most %lld bad rows are allowed by option 'data.bad_rows'; this is number %lld.",
                      (long long)dataset->bad_allowed, (long long)dataset->bad);
}

bool index_after_cutoff(const Dataset *dataset, const Field *fields)
{
    const Schema *schema = &dataset->schema;
    return !dataset->packing && schema->cutoff_value &&
           schema_compare(&fields[schema->cutoff], schema->cutoff_value, strlen(schema->cutoff_value)) > 0;
}

bool index_in_order(const Dataset *dataset, RowOrder *order, const Field *fields, Error *error)
{
    const Schema *schema = &dataset->schema;
    char buffer[32];
    size_t length;
    const char *text = field_text(&fields[schema->cutoff], buffer, &length);
    if (order->latest && schema_compare(&fields[schema->cutoff], order->latest, order->length) < 0)
        return FAIL(error, ERROR_DATA, 0, "rows are not in time order: column '%s' holds '%.*s' after '%.*s'",
                    schema->columns[schema->cutoff].name, (int)(length < SHOWN_TEXT ? length : SHOWN_TEXT),
                    text, (int)order->length, order->latest);
    if (!order->latest || length > order->capacity) {
        char *grown = realloc(order->latest, length + 1);
        if (!grown)
            return FAIL(error, ERROR_MEMORY, 0, "out of memory");
        order->latest = grown;
        order->capacity = length;
    }
    memcpy(order->latest, text, length);
    order->length = length;
    return true;
}
