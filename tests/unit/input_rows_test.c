// input_rows_test - from bytes to rows: records, fields, numbers, labels, bad rows, splits, cutoff, digests,
// the four real data sets.
#include "input_fixture.h"

#include <fedgate/hash.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

// -- records and fields: the raw values of column a, joined by '|'

typedef struct RecordCase {
    const char *name, *file;
    size_t length;
    const char *sets[4], *expected;
} RecordCase;
#define BYTES(text) (text), sizeof(text) - 1

static const RecordCase record_cases[] = {
    {"plain rows", BYTES("a,y\n1,0\n2,1\n3,0\n"), {0}, "1|2|3"},
    {"no newline at the end", BYTES("a,y\n1,0\n2,1\n3,0"), {0}, "1|2|3"},
    {"CR LF", BYTES("a,y\r\n1,0\r\n2,1\r\n3,0\r\n"), {0}, "1|2|3"},
    {"byte order mark",
     BYTES("\xEF\xBB\xBF"
           "a,y\n1,0\n2,1\n3,0\n"),
     {0},
     "1|2|3"},
    {"empty last lines", BYTES("a,y\n1,0\n2,1\n3,0\n\n\r\n"), {0}, "1|2|3"},
    {"empty fields", BYTES("a,y\n,0\n2,1\n,0\n"), {0}, "|2|"},
    {"quoted fields", BYTES("\"a\",\"y\"\n\"one\",\"0\"\n\"two\",1\n\"\",0\n"), {0}, "one|two|"},
    {"a delimiter in quotes", BYTES("a,y\n\"x,y\",0\n2,1\n3,0\n"), {0}, "x,y|2|3"},
    {"a newline in quotes", BYTES("a,y\n\"x\ny\",0\n\"\r\n\",1\n3,0\n"), {0}, "x\ny|\r\n|3"},
    {"doubled quotes",
     BYTES("a,y\n\"say \"\"no\"\"\",0\n\"\"\"\",1\n\"\"\"a\"\"\",0\n"),
     {0},
     "say \"no\"|\"|\"a\""},
    {"quotes inside unquoted fields",
     BYTES("a,y\n5\" pipe,0\nx\"\",1\na\"b\"c,0\n"),
     {0},
     "5\" pipe|x\"\"|a\"b\"c"},
    {"semicolons", BYTES("a;y\n1,5;0\n2;1\n3;0\n"), {"data.delimiter=;"}, "1,5|2|3"},
    {"tabs", BYTES("a\ty\n1\t0\n2\t1\n3\t0\n"), {"data.delimiter=tab"}, "1|2|3"},
    {"blanks kept", BYTES("a,y\n 1 ,0\n2,1\n3,0\n"), {0}, " 1 |2|3"},
    {"blanks trimmed outside quotes only",
     BYTES("a,y\n 1\t,0\n\" 2 \" , 1\n3,0\n"),
     {"data.trim=true"},
     "1| 2 |3"},
    {"skipped lines, one with an open quote",
     BYTES("|comment\n\"open\na,y\n1,0\n2,1\n3,0\n"),
     {"data.skip_lines=2"},
     "1|2|3"},
    {"no header", BYTES("1,0\n2,1\n3,0\n"), {"data.header=false", "data.columns=a,y"}, "1|2|3"},
    {"bytes that are not UTF-8", BYTES("a,y\ncaf\xe9,0\n2,1\n3,0\n"), {0}, "caf\xe9|2|3"},
};

// Three rows: the first trains, the second tests, the third validates.
#define THREE_WAYS "split.method=modulo", "split.modulo=2", "split.remainder=1", "split.validation=0.5"
static const Split three_ways[] = {SPLIT_TRAIN, SPLIT_TEST, SPLIT_VALIDATION};

START_TEST(records_are_read_as_rfc_4180_says)
{
    const RecordCase *c = &record_cases[_i];
    Bench bench = bench_new();
    bench_write(&bench, "d.csv", c->file, c->length);
    bench_config(&bench, "data.train=d.csv", "data.categorical=a", THREE_WAYS, c->sets[0], c->sets[1], NULL);
    Dataset *dataset = bench_open(&bench);
    ck_assert_msg(dataset != NULL, "%s: %s", c->name, bench.error.message);
    SCOPED_TEXT joined;
    text_init(&joined, 1000);
    for (int row = 0; row < 3; row++) {
        Column column;
        ck_assert_uint_eq(dataset_rows(dataset, three_ways[row]), 1);
        ASSERT_OK(dataset_column(dataset, three_ways[row], "a", &column, &bench.error), &bench.error);
        text_add_format(&joined, "%s%s", row > 0 ? "|" : "", column.names[column.codes[0]]);
        column_done(&column);
    }
    ck_assert_msg(text_equal(text_string(&joined), c->expected), "%s: '%s', not '%s'", c->name,
                  text_string(&joined), c->expected);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

// -- what is refused, and in which words

typedef struct RefusedCase {
    const char *name, *file;
    size_t length;
    const char *sets[6];
    ErrorKind kind;
    const char *words;
} RefusedCase;

static const RefusedCase refused_cases[] = {
    {"too few fields", BYTES("a,y\n1,0\n2\n3,0\n"), {0}, ERROR_DATA, "line 3: record has 1 fields, not 2"},
    {"too many fields",
     BYTES("a,y\n1,0,9\n2,1\n3,0\n"),
     {0},
     ERROR_DATA,
     "line 2: record has 3 fields, not 2"},
    {"a word for a number", BYTES("a,y\n1,0\n\nx,1\n"), {0}, ERROR_DATA, "line 3: line is empty"},
    {"an undeclared missing value",
     BYTES("a,y\n1,0\n,1\n"),
     {0},
     ERROR_DATA,
     "line 3: column 'a' holds '', not a number"},
    {"nan is not a number", BYTES("a,y\n1,0\nnan,1\n"), {0}, ERROR_DATA, "column 'a' holds 'nan'"},
    {"overflow is not a number", BYTES("a,y\n1,0\n1e999,1\n"), {0}, ERROR_DATA, "column 'a' holds '1e999'"},
    {"what single precision cannot hold is not a number",
     BYTES("a,y\n1,0\n-4e38,1\n"),
     {0},
     ERROR_DATA,
     "line 3: column 'a' holds '-4e38'"},
    {"a NUL byte in the header",
     BYTES("a\0b,y\n1,0\n2,1\n"),
     {0},
     ERROR_DATA,
     "line 1: header cannot be read"},
    {"hex is not a number", BYTES("a,y\n1,0\n0x10,1\n"), {0}, ERROR_DATA, "column 'a' holds '0x10'"},
    {"a decimal comma is not a number",
     BYTES("a;y\n1;0\n1,5;1\n"),
     {"data.delimiter=;"},
     ERROR_DATA,
     "column 'a' holds '1,5'"},
    {"an open quote",
     BYTES("a,y\n1,0\n\"2,1\n3,0\n"),
     {"data.bad_rows=9"},
     ERROR_DATA,
     "line 3: a quoted field is not closed"},
    {"text after a quote",
     BYTES("a,y\n1,0\n\"2\"x,1\n3,0\n"),
     {0},
     ERROR_DATA,
     "line 3: text follows the closing quote"},
    {"a NUL byte", BYTES("a,y\n1\0,0\n2,1\n"), {0}, ERROR_DATA, "line 2: the record has a NUL byte"},
    {"lines count newlines in quotes",
     BYTES("a,b,y\n1,\"x\n\ny\",0\n2,z,7\n"),
     {0},
     ERROR_DATA,
     "line 5: target column 'y' holds '7'"},
    {"one bad row too many",
     BYTES("a,y\n1,0\nx,1\ny,1\n"),
     {"data.bad_rows=1"},
     ERROR_DATA,
     "line 4: column 'a' holds 'y'"},
    {"an unknown label, whatever the tolerance",
     BYTES("a,y\n1,yes\n2,maybe\n"),
     {"data.labels=no=0,yes=1", "data.bad_rows=9"},
     ERROR_DATA,
     "line 3: target column 'y' holds 'maybe', which is not in option 'data.labels'"},
    {"an empty label", BYTES("a,y\n1,\n2,1\n"), {0}, ERROR_DATA, "line 2: target column 'y' holds ''"},
    {"a class number that is none", BYTES("a,y\n1,0.5\n"), {0}, ERROR_DATA, "which is not a class number"},
    {"a column that is not there",
     BYTES("aa,y\n1,0\n"),
     {0},
     ERROR_DATA,
     "column 'a' of option 'data.numeric' is not in the data"},
    {"no target column",
     BYTES("a,z\n1,0\n"),
     {0},
     ERROR_DATA,
     "column 'y' of option 'data.target' is not in the data"},
    {"a header that names a column twice",
     BYTES("a,a,y\n1,2,0\n"),
     {0},
     ERROR_DATA,
     "column 'a' is named twice"},
    {"only a header", BYTES("a,y\n"), {0}, ERROR_DATA, "has no usable row"},
    {"an empty file", BYTES(""), {0}, ERROR_DATA, "has no header"},
    {"one row cannot be split", BYTES("a,y\n1,0\n"), {0}, ERROR_DATA, "no row of 1 falls into"},
    {"the target as a feature",
     BYTES("a,y\n1,0\n"),
     {"data.categorical=y"},
     ERROR_CONFIG,
     "column 'y' of option 'data.categorical' is already target"},
    {"nothing to learn from", BYTES("a,y\n1,0\n"), {"data.numeric="}, ERROR_CONFIG, "name no column"},
    {"three classes of two",
     BYTES("a,y\n1,0\n"),
     {"data.labels=n=0,m=1,x=2"},
     ERROR_CONFIG,
     "names 3 classes, but the task is binary"},
    {"a remainder beyond the modulus",
     BYTES("a,y\n1,0\n2,1\n"),
     {"split.method=modulo", "split.remainder=5"},
     ERROR_CONFIG,
     "must be below 'split.modulo' 5"},
    {"test files without their method",
     BYTES("a,y\n1,0\n2,1\n"),
     {"data.test=d.csv"},
     ERROR_CONFIG,
     "'split.method' is 'hash', not 'file'"},
    {"the method without test files",
     BYTES("a,y\n1,0\n2,1\n"),
     {"split.method=file"},
     ERROR_CONFIG,
     "'data.test' names no file"},
    {"a cutoff without a column",
     BYTES("a,y\n1,0\n2,1\n"),
     {"data.cutoff=3"},
     ERROR_CONFIG,
     "needs 'data.cutoff_column'"},
    {"time that goes back",
     BYTES("a,y\n1,0\n3,1\n2,0\n"),
     {"split.method=time", "data.cutoff_column=a"},
     ERROR_DATA,
     "line 4: rows are not in time order: column 'a' holds '2' after '3'"},
    {"a regression target that is a word",
     BYTES("a,y\n1,0\n2,high\n"),
     {"task=regression"},
     ERROR_DATA,
     "holds 'high', which is not a number"},
    {"labels of a regression",
     BYTES("a,y\n1,0\n"),
     {"task=regression", "data.labels=x=0,z=1"},
     ERROR_CONFIG,
     "no meaning for a regression"},
};

START_TEST(what_cannot_be_read_is_refused_with_its_place)
{
    const RefusedCase *c = &refused_cases[_i];
    Bench bench = bench_new();
    bench_write(&bench, "d.csv", c->file, c->length);
    bench_config(&bench, "data.train=d.csv", "data.numeric=a", c->sets[0], c->sets[1], c->sets[2], NULL);
    ASSERT_FAILS(bench_open(&bench) != NULL, &bench.error, c->kind, c->words);
    bench_done(&bench);
}
END_TEST

START_TEST(tolerated_bad_rows_are_counted_and_named)
{
    Bench bench = bench_new();
    static const char file[] = "a,y\n1,0\nx,1\n2,1\n\n3,0\n4,1,5\n5,0\n6,1\n7,0\n";
    bench_write(&bench, "d.csv", file, sizeof file - 1);
    bench_config(&bench, "data.train=d.csv", "data.numeric=a", "data.bad_rows=3", "split.method=modulo",
                 "split.modulo=3", "split.remainder=0", "split.validation=0.4", NULL);
    Dataset *dataset = bench_open(&bench);
    ck_assert_msg(dataset != NULL, "%s", bench.error.message);
    Json *description = dataset_describe(dataset);
    ck_assert_int_eq(json_integer_or(json_get(description, "bad"), -1), 3);
    ck_assert_int_eq(json_integer_or(json_get(json_at(json_get(description, "bad_rows"), 1), "line"), -1), 5);
    ck_assert_str_eq(json_text_or(json_get(json_at(json_get(description, "bad_rows"), 2), "reason"), ""),
                     "record has 3 fields, not 2");
    // Records are numbered with the bad ones, so a row keeps its split when a row before it is repaired: 1,
    // x, 2, 3, 4, 5, 6, 7.
    Column column;
    ASSERT_OK(dataset_column(dataset, SPLIT_TEST, "a", &column, &bench.error), &bench.error);
    ck_assert_uint_eq(column.rows, 3);
    ck_assert(column.numbers[0] == 1 && column.numbers[1] == 3 && column.numbers[2] == 6);
    column_done(&column);
    json_free(description);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

START_TEST(the_nearest_column_is_suggested)
{
    Bench bench = bench_new();
    bench_write(&bench, "d.csv", "income,y\n1,0\n", 13);
    bench_config(&bench, "data.train=d.csv", "data.numeric=incone", NULL);
    ck_assert(bench_open(&bench) == NULL);
    ck_assert_str_eq(bench.error.hint, "Did you mean column 'income'?");
    bench_done(&bench);
}
END_TEST

// -- numbers

typedef struct NumberCase {
    const char *text;
    double value;
} NumberCase;
static const NumberCase number_cases[] = {
    {"0", 0},
    {"-0", -0.0},
    {"+7", 7},
    {"007", 7},
    {".5", .5},
    {"5.", 5},
    {"1e3", 1e3},
    {"1E-3", 1e-3},
    {"-12.5e+2", -1250},
    {"0.1", 0.1},
    {"34028234663852886e22", 3.4028234663852886e38},
    {"18446744073709551616", 18446744073709551616.0},   // 2^64: the sum of digits wraps to 0
    {"-18446744073709551616000", -18446744073709551616000.0},
    {"4.9e-324", 4.9e-324},
    {"2.2250738585072011e-308", 2.2250738585072011e-308},
    {"9007199254740993", 9007199254740992.0},
    {"9007199254740991", 9007199254740991.0},
    {"123456789012345678901234567890", 1.2345678901234568e29},
    {"0.000000000000000000000000000001", 1e-30},
    {"8.2999999999999998", 8.2999999999999998},
    {"100000000000000000000000", 1e23},
    {"1e-400", 0},
    {"3.1415926535897932384626433832795028841971", 3.141592653589793},
};

START_TEST(numbers_are_rounded_correctly)
{
    const NumberCase *c = &number_cases[_i];
    Bench bench = bench_new();
    char file[200];
    int length = snprintf(file, sizeof file, "a,y\n1,0\n%s,1\n2,0\n", c->text);
    bench_write(&bench, "d.csv", file, (size_t)length);
    bench_config(&bench, "data.train=d.csv", "data.numeric=a", THREE_WAYS, NULL);
    Dataset *dataset = bench_open(&bench);
    ck_assert_msg(dataset != NULL, "%s", bench.error.message);
    Column column;
    ASSERT_OK(dataset_column(dataset, SPLIT_TEST, "a", &column, &bench.error), &bench.error);
    ck_assert_msg(memcmp(&column.numbers[0], &c->value, sizeof(double)) == 0, "%s gives %.17g", c->text,
                  column.numbers[0]);
    column_done(&column);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

// -- splits

static void write_rows(const Bench *bench, const char *name, int first, int count, const char *line_end)
{
    SCOPED_TEXT file;
    text_init(&file, 1 << 20);
    text_add_format(&file, "a,b,y%s", line_end);
    for (int i = first; i < first + count; i++)
        text_add_format(&file, "%d,%s,%d%s", i, i % 3 == 0 ? "\"x, \"\"z\"\"\"" : "w", i % 2, line_end);
    bench_write(bench, name, text_string(&file), file.length);
}

// Values of column a in a split, as a set of flags by value.
static size_t split_values(Bench *bench, const Dataset *dataset, Split split, bool *ret_there, size_t size)
{
    Column column;
    memset(ret_there, 0, size);
    ASSERT_OK(dataset_column(dataset, split, "a", &column, &bench->error), &bench->error);
    for (size_t i = 0; i < column.rows; i++)
        ret_there[(size_t)column.numbers[i]] = true;
    size_t rows = column.rows;
    column_done(&column);
    return rows;
}

START_TEST(a_row_keeps_its_hash_split_when_others_come)
{
    enum { ROWS = 2000 };
    Bench bench = bench_new();
    write_rows(&bench, "old.csv", 0, ROWS, "\n");
    write_rows(&bench, "new.csv", ROWS, ROWS / 2, "\r\n");
    bool before[ROWS], after[2 * ROWS];
    for (int s = 0; s < SPLIT_COUNT; s++) {
        bench_config(&bench, "data.train=old.csv", "data.numeric=a", "data.categorical=b", NULL);
        Dataset *old = bench_open(&bench);
        bench_config(&bench, "data.train=new.csv,old.csv", "data.numeric=a", "data.categorical=b", NULL);
        Dataset *both = bench_open(&bench);
        ck_assert_msg(old && both, "%s", bench.error.message);
        size_t rows = split_values(&bench, old, (Split)s, before, sizeof before);
        split_values(&bench, both, (Split)s, after, sizeof after);
        double share = (double)rows / ROWS, expected = s == SPLIT_TEST         ? 0.2
                                                       : s == SPLIT_VALIDATION ? 0.08
                                                                               : 0.72;
        ck_assert_msg(fabs(share - expected) < 0.03, "%s: %.3f", split_name((Split)s), share);
        ck_assert_int_eq(memcmp(before, after, ROWS), 0);
        dataset_close(old);
        dataset_close(both);
    }
    bench_done(&bench);
}
END_TEST

START_TEST(equal_rows_share_a_split_and_a_declared_id_decides)
{
    Bench bench = bench_new();
    SCOPED_TEXT file;
    text_init(&file, 1 << 20);
    text_add(&file, "id,a,y\n");
    for (int i = 0; i < 1000; i++)   // each id twice, with other values
        text_add_format(&file, "%d,%d,%d\n", i / 2, i / 2, i % 2);
    bench_write(&bench, "d.csv", text_string(&file), file.length);
    bench_config(&bench, "data.train=d.csv", "data.numeric=a", "data.row_id=id", NULL);
    Dataset *dataset = bench_open(&bench);
    bool there[SPLIT_COUNT][500];
    for (int s = 0; s < SPLIT_COUNT; s++)
        ck_assert_uint_eq(split_values(&bench, dataset, (Split)s, there[s], sizeof there[s]) % 2, 0);
    for (int i = 0; i < 500; i++)
        ck_assert_int_eq(there[0][i] + there[1][i] + there[2][i], 1);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

START_TEST(modulo_and_time_cut_exact_shares)
{
    Bench bench = bench_new();
    write_rows(&bench, "d.csv", 0, 1000, "\n");
    bench_config(&bench, "data.train=d.csv", "data.numeric=a", "split.method=modulo", "split.modulo=5",
                 "split.remainder=4", "split.validation=0.25", NULL);
    Dataset *dataset = bench_open(&bench);
    ck_assert_uint_eq(dataset_rows(dataset, SPLIT_TEST), 200);
    ck_assert_uint_eq(dataset_rows(dataset, SPLIT_VALIDATION), 200);
    ck_assert_uint_eq(dataset_rows(dataset, SPLIT_TRAIN), 600);
    Column column;
    ASSERT_OK(dataset_column(dataset, SPLIT_TEST, "a", &column, &bench.error), &bench.error);
    for (size_t i = 0; i < column.rows; i++)
        ck_assert((size_t)column.numbers[i] == 5 * i + 4);
    column_done(&column);
    dataset_close(dataset);
    bench_config(&bench, "data.train=d.csv", "data.numeric=a", "split.method=time", "split.test=0.2",
                 "split.validation=0.1", "data.cutoff_column=a", NULL);
    dataset = bench_open(&bench);
    ck_assert_uint_eq(dataset_rows(dataset, SPLIT_TRAIN), 720);
    ASSERT_OK(dataset_column(dataset, SPLIT_VALIDATION, "a", &column, &bench.error), &bench.error);
    ck_assert(column.rows == 80 && column.numbers[0] == 720 && column.numbers[79] == 799);
    column_done(&column);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

START_TEST(test_files_are_the_test_rows)
{
    Bench bench = bench_new();
    write_rows(&bench, "train.csv", 0, 300, "\n");
    write_rows(&bench, "test.csv", 300, 100, "\r\n");
    bench_config(&bench, "data.train=train.csv", "data.test=test.csv", "data.numeric=a", "split.method=file",
                 NULL);
    Dataset *dataset = bench_open(&bench);
    bool there[400];
    ck_assert_uint_eq(split_values(&bench, dataset, SPLIT_TEST, there, sizeof there), 100);
    for (int i = 0; i < 400; i++)
        ck_assert(there[i] == (i >= 300));
    dataset_close(dataset);
    bench_write(&bench, "test.csv", "b,a,y\nw,1,0\n", 12);
    ASSERT_FAILS(bench_open(&bench) != NULL, &bench.error, ERROR_DATA, "another header");
    bench_done(&bench);
}
END_TEST

START_TEST(rows_after_the_cutoff_are_left_out_and_counted)
{
    Bench bench = bench_new();
    SCOPED_TEXT file;
    text_init(&file, 1 << 20);
    text_add(&file, "day,a,y\n");
    for (int i = 1; i <= 28; i++)
        text_add_format(&file, "2026-02-%02d,%d,%d\n", i, i, i % 2);
    bench_write(&bench, "d.csv", text_string(&file), file.length);
    bench_config(&bench, "data.train=d.csv", "data.numeric=a", "data.cutoff_column=day",
                 "data.cutoff=2026-02-20", "split.method=time", NULL);
    Dataset *dataset = bench_open(&bench);
    Json *description = dataset_describe(dataset);
    ck_assert_int_eq(json_integer_or(json_get(description, "after_cutoff"), -1), 8);
    ck_assert_str_eq(json_text_or(json_get(description, "cutoff"), ""), "2026-02-20");
    Column column;
    ASSERT_OK(dataset_column(dataset, SPLIT_TEST, "a", &column, &bench.error), &bench.error);
    ck_assert(column.rows == 4 && column.numbers[3] == 20);
    column_done(&column);
    json_free(description);
    dataset_close(dataset);
    bench_config(&bench, "data.train=d.csv", "data.numeric=a", "data.cutoff_column=a", "data.cutoff=9",
                 NULL);   // as numbers: 10 is after 9
    dataset = bench_open(&bench);
    ck_assert_msg(dataset != NULL, "%s", bench.error.message);
    description = dataset_describe(dataset);
    ck_assert_int_eq(json_integer_or(json_get(description, "after_cutoff"), -1), 19);
    json_free(description);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

// -- snapshot

static void digest_of(Bench *bench, char ret_hex[static DIGEST_HEX_SIZE])
{
    Dataset *dataset = bench_open(bench);
    ck_assert_msg(dataset != NULL, "%s", bench->error.message);
    Digest digest;
    dataset_digest(dataset, &digest);
    digest_hex(&digest, ret_hex);
    dataset_close(dataset);
}

START_TEST(the_digest_is_of_names_and_plain_bytes)
{
    Bench bench = bench_new();
    char a[DIGEST_HEX_SIZE], b[DIGEST_HEX_SIZE];
    write_rows(&bench, "d.csv", 0, 300, "\n");
    write_rows(&bench, "e.csv", 0, 300, "\n");
    bench_config(&bench, "data.train=d.csv", "data.numeric=a", NULL);
    digest_of(&bench, a);
    digest_of(&bench, b);
    ck_assert_str_eq(a, b);
    bench_config(&bench, "data.train=e.csv", "data.numeric=a", NULL);
    digest_of(&bench, b);
    ck_assert_str_ne(a, b);
    write_rows(&bench, "e.csv", 0, 300, "\r\n");
    digest_of(&bench, a);
    ck_assert_str_ne(a, b);
    bench_done(&bench);
}
END_TEST

START_TEST(line_ends_do_not_change_row_ids_or_splits)
{
    Bench bench = bench_new();
    write_rows(&bench, "d.csv", 0, 500, "\n");
    bench_config(&bench, "data.train=d.csv", "data.numeric=a", NULL);
    Dataset *lf = bench_open(&bench);
    write_rows(&bench, "d.csv", 0, 500, "\r\n");
    Dataset *crlf = bench_open(&bench);
    Maps *maps = maps_fit(lf, bench.config, &bench.error);
    for (int s = 0; s < SPLIT_COUNT; s++) {
        Table x, y;
        ASSERT_OK(dataset_decode(lf, maps, (Split)s, bench.ledger, &x, &bench.error), &bench.error);
        ASSERT_OK(dataset_decode(crlf, maps, (Split)s, bench.ledger, &y, &bench.error), &bench.error);
        ck_assert_uint_eq(x.rows, y.rows);
        ck_assert_int_eq(memcmp(x.row_id, y.row_id, x.rows * sizeof *x.row_id), 0);
        ck_assert_int_eq(memcmp(x.x, y.x, x.rows * x.numeric * sizeof *x.x), 0);
        table_done(&x);
        table_done(&y);
    }
    maps_free(maps);
    dataset_close(lf);
    dataset_close(crlf);
    bench_done(&bench);
}
END_TEST

START_TEST(a_file_changed_in_place_is_found_and_one_replaced_is_not_read)
{
    Bench bench = bench_new();
    write_rows(&bench, "d.csv", 0, 300, "\n");
    bench_config(&bench, "data.train=d.csv", "data.numeric=a", NULL);
    Dataset *dataset = bench_open(&bench);
    ASSERT_OK(dataset_still_same(dataset, &bench.error), &bench.error);
    write_rows(&bench, "d.csv", 5, 300, "\n");   // by rename: the descriptor still reads the old file
    ASSERT_OK(dataset_still_same(dataset, &bench.error), &bench.error);
    dataset_close(dataset);
    dataset = bench_open(&bench);
    FILE *file = fopen(support_path(bench.folder, "d.csv"), "r+");
    fseek(file, 10, SEEK_SET);
    fputc('9', file);
    fclose(file);
    ASSERT_FAILS(dataset_still_same(dataset, &bench.error), &bench.error, ERROR_DATA,
                 "changed while it was in use");
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

START_TEST(files_that_are_absent_or_no_files_are_refused)
{
    Bench bench = bench_new();
    bench_config(&bench, "data.train=absent.csv", "data.numeric=a", NULL);
    ASSERT_FAILS(bench_open(&bench) != NULL, &bench.error, ERROR_DATA, "absent.csv' does not exist");
    ASSERT_OK(file_make_directory(support_path(bench.folder, "folder.csv"), 0700, &bench.error),
              &bench.error);
    bench_config(&bench, "data.train=folder.csv", "data.numeric=a", NULL);
    ASSERT_FAILS(bench_open(&bench) != NULL, &bench.error, ERROR_DATA, "not a regular file");
    ck_assert_int_eq(mkfifo(support_path(bench.folder, "pipe.csv"), 0600), 0);   // must not wait for a writer
    bench_config(&bench, "data.train=pipe.csv", "data.numeric=a", NULL);
    ASSERT_FAILS(bench_open(&bench) != NULL, &bench.error, ERROR_DATA, "not a regular file");
    write_rows(&bench, "d.csv", 0, 50000, "\n");
    bench_config(&bench, "data.train=d.csv", "data.numeric=a", "input.host_memory=1MB", NULL);
    Dataset *dataset = bench_open(&bench);
    ck_assert_msg(dataset == NULL && strstr(bench.error.message, "input.host_memory"), "%s",
                  bench.error.message);
    error_clear(&bench.error);
    bench_done(&bench);
}
END_TEST

START_TEST(damaged_gzip_names_the_file)
{
    Bench bench = bench_new();
    SCOPED_TEXT packed;
    text_init(&packed, 1 << 20);
    ASSERT_OK(file_read(FEDGATE_SOURCE_DIR "/fixtures/fed_loader/rows.csv.gz", &packed, &bench.error),
              &bench.error);
    bench_write(&bench, "d.csv.gz", packed.data, packed.length - 100);
    bench_config(&bench, "data.train=d.csv.gz", "data.numeric=x01", NULL);
    ASSERT_FAILS(bench_open(&bench) != NULL, &bench.error, ERROR_DATA,
                 "d.csv.gz': gzip member 1 at offset 0: compressed file is cut short");
    bench_done(&bench);
}
END_TEST

// -- the fixtures and the four real data sets

typedef struct SetCase {
    const char *config, *directory;
    size_t train_validation, test;
    double positive_test;
    int64_t categories[10];
} SetCase;
static const SetCase set_cases[] = {
    {"fed_loader", NULL, 5120, 1024, NAN, {0}},
    {"learnable", NULL, 4500, 1500, NAN, {4, 3, 7}},
    {"adult", "adult", 32561, 16281, 0.2362, {8, 16, 7, 14, 6, 5, 2, 41}},
    {"magic_gamma", "magic_gamma", 15216, 3804, 0.6483, {0}},
    {"california_housing", "california_housing", 16512, 4128, NAN, {5}},
    {"bank_marketing", "bank_marketing", 32951, 8237, 0.3084, {11, 3, 7, 2, 2, 2, 2, 10, 5, 3}},
};

START_TEST(known_data_sets_have_the_rows_their_readme_says)
{
    const SetCase *c = &set_cases[_i];
    char path[FILE_PATH_SIZE], set[FILE_PATH_SIZE] = "train.seed=1";
    if (c->directory) {
        const char *shared = getenv("FEDGATE_SHARED");
        snprintf(path, sizeof path, "%s/data/%s", shared ? shared : FEDGATE_SOURCE_DIR "/../shared",
                 c->directory);
        if (!file_is_directory(path))
            return;   // the data are not part of the sources
        snprintf(set, sizeof set, "data.directory=%.4000s", path);
    }
    Bench bench = bench_new();
    snprintf(path, sizeof path, FEDGATE_SOURCE_DIR "/fixtures/configs/%s.yaml", c->config);
    bench.config = config_load(path, (const char *const[]){set}, 1, NULL, &bench.error);
    ck_assert_msg(bench.config != NULL, "%s", bench.error.message);
    Dataset *dataset = bench_open(&bench);
    ck_assert_msg(dataset != NULL, "%s", bench.error.message);
    size_t rest = dataset_rows(dataset, SPLIT_TRAIN) + dataset_rows(dataset, SPLIT_VALIDATION);
    if (text_equal(c->config, "learnable")) {   // by hash: about the share
        ck_assert_uint_eq(rest + dataset_rows(dataset, SPLIT_TEST), c->train_validation + c->test);
        ck_assert(rest > 4300 && rest < 4700);
    } else {
        ck_assert_uint_eq(rest, c->train_validation);
        ck_assert_uint_eq(dataset_rows(dataset, SPLIT_TEST), c->test);
    }
    Maps *maps = maps_fit(dataset, bench.config, &bench.error);
    ck_assert_msg(maps != NULL, "%s", bench.error.message);
    for (size_t i = 0; i < maps_categorical(maps); i++)
        ck_assert_msg(maps_cardinality(maps, i) <= c->categories[i] + 1 &&
                          maps_cardinality(maps, i) >= c->categories[i],
                      "%s, column %zu: %lld", c->config, i, (long long)maps_cardinality(maps, i));
    Table table;
    ASSERT_OK(dataset_decode(dataset, maps, SPLIT_TEST, bench.ledger, &table, &bench.error), &bench.error);
    double positive = 0;
    for (size_t i = 0; i < table.rows; i++)
        positive += table.target[i] / (double)table.rows;
    if (!isnan(c->positive_test))
        ck_assert_msg(fabs(positive - c->positive_test) < 0.0001, "%s: %.5f positive", c->config, positive);
    for (size_t i = 0; i < table.rows * table.numeric; i++)
        ck_assert(isfinite(table.x[i]) && fabs((double)table.x[i]) < 1000);
    table_done(&table);
    maps_free(maps);
    dataset_close(dataset);
    bench_done(&bench);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("input rows");
    TCase *t = tcase_create("rows");
    tcase_add_loop_test(t, records_are_read_as_rfc_4180_says, 0,
                        sizeof record_cases / sizeof record_cases[0]);
    tcase_add_loop_test(t, what_cannot_be_read_is_refused_with_its_place, 0,
                        sizeof refused_cases / sizeof refused_cases[0]);
    tcase_add_test(t, tolerated_bad_rows_are_counted_and_named);
    tcase_add_test(t, the_nearest_column_is_suggested);
    tcase_add_loop_test(t, numbers_are_rounded_correctly, 0, sizeof number_cases / sizeof number_cases[0]);
    tcase_add_test(t, a_row_keeps_its_hash_split_when_others_come);
    tcase_add_test(t, equal_rows_share_a_split_and_a_declared_id_decides);
    tcase_add_test(t, modulo_and_time_cut_exact_shares);
    tcase_add_test(t, test_files_are_the_test_rows);
    tcase_add_test(t, rows_after_the_cutoff_are_left_out_and_counted);
    tcase_add_test(t, the_digest_is_of_names_and_plain_bytes);
    tcase_add_test(t, line_ends_do_not_change_row_ids_or_splits);
    tcase_add_test(t, a_file_changed_in_place_is_found_and_one_replaced_is_not_read);
    tcase_add_test(t, files_that_are_absent_or_no_files_are_refused);
    tcase_add_test(t, damaged_gzip_names_the_file);
    tcase_add_loop_test(t, known_data_sets_have_the_rows_their_readme_says, 0,
                        sizeof set_cases / sizeof set_cases[0]);
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
