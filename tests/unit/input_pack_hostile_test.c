// input_pack_hostile_test - packed shards that lie: each claim of header and metadata, each value of the
// arrays, then bytes at random. Refused in words or read, never believed.
#include "input_pack_fixture.h"

#include <unistd.h>

static const char shard[] = "p/train-00000-of-00001.safetensors";

// A packed file taken apart: header as JSON, metadata values as JSON where they are, data as bytes.
typedef struct Parts {
    Json *header;
    char *data;
    size_t data_length;
} Parts;

static void pack_small(Bench *bench, const Kind *kind, Parts *ret_parts)
{
    char train[8192], test[8192];
    write_kind(bench, kind, "d.csv", 0, 120);
    KIND_CONFIG(bench, kind, "data.train=d.csv");
    json_free(pack_kind(bench, 0, train, test));
    KIND_CONFIG(bench, kind, train);
    SCOPED_TEXT file;
    text_init(&file, 1u << 20);
    ASSERT_OK(file_read(support_path(bench->folder, shard), &file, &bench->error), &bench->error);
    uint64_t length;
    memcpy(&length, file.data, 8);
    ret_parts->header = json_parse(file.data + 8, length, 1u << 20, &bench->error);
    ck_assert_msg(ret_parts->header != NULL, "%s", bench->error.message);
    ret_parts->data_length = file.length - 8 - length;
    ret_parts->data = malloc(ret_parts->data_length);
    memcpy(ret_parts->data, file.data + 8 + length, ret_parts->data_length);
}

static void write_parts(const Bench *bench, const Parts *parts)
{
    SCOPED_TEXT header;
    SCOPED_TEXT file;
    text_init(&header, 1u << 20);
    text_init(&file, 2u << 20);
    json_write(parts->header, JSON_COMPACT, &header);
    while (header.length % 8 != 0)
        text_add_char(&header, ' ');
    uint64_t length = header.length;
    text_add_bytes(&file, (const char *)&length, 8);
    text_add_bytes(&file, header.data, header.length);
    text_add_bytes(&file, parts->data, parts->data_length);
    bench_write(bench, shard, file.data, file.length);
}

static void parts_done(Parts *parts)
{
    json_free(parts->header);
    free(parts->data);
}

static void expect_refused(Bench *bench, const char *what, const char *words)
{
    Dataset *dataset = bench_open(bench);
    ck_assert_msg(dataset == NULL, "%s was taken", what);
    ck_assert_msg(bench->error.kind == ERROR_DATA, "%s: %s", what, bench->error.message);
    ck_assert_msg(strstr(bench->error.message, words) && strstr(bench->error.message, "train-00000"),
                  "%s: %s", what, bench->error.message);
    error_clear(&bench->error);
}

// -- metadata: key, its new text; NULL: taken away
static const struct {
    const char *key, *text, *words;
} claims[] = {
    {"format", NULL, "not made by `fedgate pack`"},
    {"format", "fedgate.packed/9", "this program reads"},
    {"columns", NULL, "metadata 'columns' is missing"},
    {"columns", "{", "metadata 'columns'"},
    {"columns", "{}", "not a list"},
    {"columns", "[]", "has 0 columns"},
    {"columns", "[7]", "metadata 'columns'"},
    {"columns", "[{\"name\":\"\",\"role\":\"numeric\",\"stored\":\"numeric\",\"missing\":[]}]", "no name"},
    {"columns",
     "[{\"name\":\"a\",\"role\":\"numeric\",\"stored\":\"numeric\",\"missing\":[]},"
     "{\"name\":\"a\",\"role\":\"numeric\",\"stored\":\"numeric\",\"missing\":[]}]",
     "named twice"},
    {"columns", "[{\"name\":\"a\",\"role\":\"numeric\",\"stored\":\"text\",\"missing\":[]}]",
     "stored as 'text'"},
    {"columns", "[{\"name\":\"a\",\"role\":\"numeric\",\"stored\":\"categorical\",\"missing\":[]}]",
     "is stored as categorical"},
    {"columns", "[{\"name\":\"a\",\"role\":\"target\",\"stored\":\"numeric\",\"missing\":[]}]",
     "role 'target'"},
    {"columns", "[{\"name\":\"a\",\"role\":\"numeric\",\"stored\":\"numeric\"}]", "not a list"},
    {"columns", "[{\"name\":\"a\",\"role\":\"numeric\",\"stored\":\"numeric\",\"missing\":[\"?\",\"?\"]}]",
     "twice"},
    {"columns", "[{\"name\":\"a\",\"role\":\"numeric\",\"stored\":\"numeric\",\"missing\":[]}]", "metadata"},
    {"columns", "[{\"name\":\"income\",\"role\":\"unused\",\"stored\":\"numeric\",\"missing\":[]}]",
     "dictionaries"},
    {"dictionaries", "[]", "0 lists for 2"},
    {"dictionaries", "[[\"a\"],7]", "other than lists"},
    {"dictionaries", "[[\"a\",\"a\"],[]]", "there twice"},
    {"dictionaries", "[[\"a\",null],[]]", "neither a text nor hex"},
    {"dictionaries", "[[{\"hex\":\"0g\"}],[]]", "neither a text nor hex"},
    {"dictionaries", "[[],[]]", "its dictionary has 0 texts"},
    {"task", "clustering", "is no task"},
    {"classes", "-1", "not a whole number"},
    {"classes", "99999999999999999999", "not a whole number"},
    {"labels", "[[\"a\",9]]", "a class below 2"},
    {"labels", "[[\"a\"]]", "a class below 2"},
    {"labels", "[[\"a\",0],[\"a\",1]]", "there twice"},
    {"target", "age", "is a column too"},
    {"shards", "0", "not a whole number from 1"},
    {"shards", "2", "shard 1 is not after"},
    {"shard", "1", "not a whole number from 0 to 0"},
    {"first_record", "-5", "not a whole number"},
    {"first_record", "4294967290", "does not rise"},
    {"bad", "1", "left out when the data was packed"},
    {"bad", "many", "not a whole number"},
    {"sources", "7", "not a list"},
    {"bad_rows", NULL, "'bad_rows' is missing"},
    {"pack", NULL, "'pack' is missing"},
    {"part", NULL, "'part' is missing"},
    {"row_id", NULL, "'row_id' is missing"},
};

START_TEST(a_claim_of_the_metadata_is_checked)
{
    Bench bench = bench_new();
    Parts parts;
    pack_small(&bench, &kinds[0], &parts);
    Json *metadata = json_copy_deep(json_get(parts.header, "__metadata__"));
    if (claims[_i].text)
        json_put_text(metadata, claims[_i].key, claims[_i].text);
    else
        json_remove(metadata, claims[_i].key);
    json_put(parts.header, "__metadata__", metadata);
    write_parts(&bench, &parts);
    expect_refused(&bench, claims[_i].key, claims[_i].words);
    parts_done(&parts);
    bench_done(&bench);
}
END_TEST

// -- tensors: the entry of the header is replaced
static const struct {
    const char *name, *entry, *words;
} entries[] = {
    {"target", "{\"dtype\":\"F32\",\"shape\":[120]}", "has dtype F32"},
    {"target", "{\"dtype\":\"I32\",\"shape\":[120,1]}", "has rank 2"},
    {"target", "{\"dtype\":\"I32\",\"shape\":[2,60]}", "has rank 2"},
    {"numeric", "{\"dtype\":\"I64\",\"shape\":[120,3]}", "has dtype I64"},
    {"numeric", "{\"dtype\":\"F64\",\"shape\":[360]}", "has rank 1"},
    {"numeric", "{\"dtype\":\"F64\",\"shape\":[360,1]}", "has 360 rows"},
    {"numeric", "{\"dtype\":\"F32\",\"shape\":[120,6]}", "has 6 columns"},
    {"categorical", "{\"dtype\":\"I32\",\"shape\":[240,1]}", "has 240 rows"},
    {"categorical", "{\"dtype\":\"U8\",\"shape\":[120,8]}", "has dtype U8"},
    {"row_id", "{\"dtype\":\"I64\",\"shape\":[120]}", "has dtype I64"},
    {"row_id", "{\"dtype\":\"U64\",\"shape\":[120,1]}", "has rank 2"},
    {"row_id", "{\"dtype\":\"U8\",\"shape\":[960]}", "has dtype U8"},
    {"row_id", "{\"dtype\":\"U64\",\"shape\":[4611686018427387904,4]}", "overflows"},
    {"row_id", "{\"dtype\":\"U64\",\"shape\":[121]}", "bytes of data for a shape"},
};

START_TEST(a_tensor_that_does_not_fit_is_refused)
{
    Bench bench = bench_new();
    Parts parts;
    pack_small(&bench, &kinds[0], &parts);
    Json *entry = json_parse(entries[_i].entry, strlen(entries[_i].entry), 1000, &bench.error);
    json_put(entry, "data_offsets",
             json_copy_deep(json_find(json_get(parts.header, entries[_i].name), "data_offsets")));
    json_put(parts.header, entries[_i].name, entry);
    write_parts(&bench, &parts);
    expect_refused(&bench, entries[_i].entry, entries[_i].words);
    parts_done(&parts);
    bench_done(&bench);
}
END_TEST

START_TEST(a_tensor_that_is_not_there_is_missed)
{
    static const char *const names[] = {"categorical", "target", "numeric", "row_id"};
    Bench bench = bench_new();
    Parts parts;
    pack_small(&bench, &kinds[0], &parts);
    Json *entry = json_copy_deep(json_get(parts.header, names[_i]));
    json_remove(parts.header, names[_i]);
    json_put(parts.header, "zz", json_copy_deep(entry));   // another name; order of offsets is checked first
    write_parts(&bench, &parts);
    Dataset *dataset = bench_open(&bench);
    ck_assert_ptr_null(dataset);
    ck_assert_int_eq(bench.error.kind, ERROR_DATA);
    json_free(entry);
    parts_done(&parts);
    bench_done(&bench);
}
END_TEST

// -- values: bytes at an element of a tensor are replaced
static const struct {
    size_t kind;
    const char *tensor;
    size_t element, size;
    union {
        double wide;
        int32_t whole;
        int64_t large;
    } value;
    const char *words;
} values[] = {
    {0, "target", 5, 4, {.whole = 2}, "row 5: target 'income' is 2, not a class from 0 to 1"},
    {0, "target", 0, 4, {.whole = -1}, "row 0: target 'income' is -1"},
    {0, "numeric", 7, 8, {.wide = __builtin_inf()}, "row 2: column 'hours' holds inf"},
    {0, "numeric", 0, 8, {.wide = __builtin_nan("")}, "row 0: column 'age' holds NaN"},
    {0, "numeric", 6, 8, {.wide = 1e39}, "row 2: column 'age' holds 1e+39"},
    {0, "categorical", 0, 4, {.whole = 1000}, "column 'job' holds code 1000, but its dictionary has"},
    {0, "categorical", 2, 4, {.whole = -3}, "row 1: column 'job' holds code -3, but has 2 missing marks"},
    {0, "categorical", 2, 4, {.whole = INT32_MIN}, "code -2147483648"},
    {2, "target", 3, 8, {.wide = __builtin_nan("")}, "target 'y' is"},
    {2, "target", 3, 8, {.wide = __builtin_inf()}, "target 'y' is inf"},
    {1, "target", 3, 4, {.whole = 4}, "not a class from 0 to 3"},
};

START_TEST(a_value_outside_its_range_is_named)
{
    Bench bench = bench_new();
    Parts parts;
    pack_small(&bench, &kinds[values[_i].kind], &parts);
    const Json *entry = json_get(parts.header, values[_i].tensor);
    size_t at = (size_t)json_integer_or(json_at(json_get(entry, "data_offsets"), 0), 0);
    ck_assert_uint_eq(strcmp(json_text_or(json_get(entry, "dtype"), ""), "F64") == 0 ? 8 : 4,
                      values[_i].size);
    memcpy(parts.data + at + values[_i].element * values[_i].size, &values[_i].value, values[_i].size);
    write_parts(&bench, &parts);
    expect_refused(&bench, values[_i].words, values[_i].words);
    parts_done(&parts);
    bench_done(&bench);
}
END_TEST

// -- bytes: cut anywhere, changed anywhere

static void take_or_refuse(Bench *bench, const char *bytes, size_t length, size_t *ret_taken)
{
    FILE *stream = fopen(support_path(bench->folder, shard), "wb");
    ck_assert(stream != NULL && fwrite(bytes, 1, length, stream) == length && fclose(stream) == 0);
    Dataset *dataset = bench_open(bench);
    *ret_taken += dataset != NULL;
    if (dataset) {   // what was taken can be used
        Maps *maps = maps_fit(dataset, bench->config, &bench->error);
        Table table = {0};
        if (maps && dataset_decode(dataset, maps, SPLIT_TEST, bench->ledger, &table, &bench->error))
            table_done(&table);
        maps_free(maps);
        dataset_close(dataset);
    } else {
        ck_assert_msg(bench->error.kind == ERROR_DATA || bench->error.kind == ERROR_CONFIG, "%s",
                      bench->error.message);
    }
    error_clear(&bench->error);
}

START_TEST(bytes_at_random_never_crash)
{
    Bench bench = bench_new();
    Parts parts;
    pack_small(&bench, &kinds[_i], &parts);
    parts_done(&parts);
    SCOPED_TEXT file;
    text_init(&file, 1u << 20);
    ASSERT_OK(file_read(support_path(bench.folder, shard), &file, &bench.error), &bench.error);
    char *copy = malloc(file.length);
    size_t taken = 0;
    uint64_t state = 4711 + (uint64_t)_i, length;
    memcpy(&length, file.data, 8);
    for (int round = 0; round < 300; round++) {
        memcpy(copy, file.data, file.length);
        for (int k = 0; k <= round % 3; k++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            size_t within = round % 2 ? file.length : 8 + (size_t)length;   // the header twice as often
            copy[(state >> 33) % within] = (char)(state >> 20);
        }
        take_or_refuse(&bench, copy, file.length, &taken);
    }
    ck_assert_uint_gt(taken, 0);   // a changed number, or a figure nobody reads, is no lie that can be seen
    taken = 0;
    for (size_t cut = 0; cut < file.length; cut += cut < 64 ? 1 : file.length / 97 + 1)
        take_or_refuse(&bench, file.data, cut, &taken);
    ck_assert_uint_eq(taken, 0);
    free(copy);
    bench_done(&bench);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("input pack hostile");
    TCase *t = tcase_create("hostile");
    tcase_add_loop_test(t, a_claim_of_the_metadata_is_checked, 0, sizeof claims / sizeof claims[0]);
    tcase_add_loop_test(t, a_tensor_that_does_not_fit_is_refused, 0, sizeof entries / sizeof entries[0]);
    tcase_add_loop_test(t, a_tensor_that_is_not_there_is_missed, 0, 4);
    tcase_add_loop_test(t, a_value_outside_its_range_is_named, 0, sizeof values / sizeof values[0]);
    tcase_add_loop_test(t, bytes_at_random_never_crash, 0, KINDS);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *r = srunner_create(suite());
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
