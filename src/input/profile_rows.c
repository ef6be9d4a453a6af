// profile_rows - which rows are where: the slices that quality will judge, counted apart from it, and where
// the splits lie in the files.
#include "profile_internal.h"

#include <fedgate/text.h>

bool profile_slices(const Dataset *dataset, const Config *config, const ColumnSet *test, Json *slices,
                    Error *error)
{
    for (size_t c = 0; c < config_list_count(config, "quality.slices"); c++) {
        const char *name = config_list_text(config, "quality.slices", c);
        Column values = {0};
        if (!dataset_column(dataset, SPLIT_TEST, name, &values, error))
            return error_prefix(error, "slice column '%s'", name);
        for (size_t code = 0; code < values.name_count; code++) {
            int64_t rows = 0, positives = 0;
            for (size_t i = 0; i < values.rows && i < test->rows; i++) {
                rows += values.codes[i] == (int32_t)code;
                positives += values.codes[i] == (int32_t)code && test->target[i] == 1.0;
            }
            if (rows == 0)
                continue;
            Json *slice = json_make_object();
            json_put_text(slice, "column", name);
            json_put_text(slice, "value", values.names[code]);
            json_put_integer(slice, "rows", rows);
            if (dataset->schema.task == TASK_BINARY)
                json_put_integer(slice, "positives", positives);
            json_add(slices, slice);
        }
        column_done(&values);
    }
    return true;
}

Json *profile_split(const Dataset *dataset, const Config *config)
{
    Json *split = json_make_object();
    json_put_text(split, "method", config_text(config, "split.method"));
    for (int s = 0; s < SPLIT_COUNT; s++) {
        const uint32_t *rows = dataset->split_rows[s];
        size_t count = dataset->split_count[s];
        Json *range = json_make_array();
        json_add_integer(range, count > 0 ? (int64_t)dataset->rows[rows[0]].ordinal : 0);
        json_add_integer(range, count > 0 ? (int64_t)dataset->rows[rows[count - 1]].ordinal : 0);
        json_put(split, split_name((Split)s), range);
    }
    return split;
}
