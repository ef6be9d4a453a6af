// corpus_fuzz_test - the reader and the judges of evidence under hostile evidence: what is taken away, of
// another type, huge, not a number, doubled, nested or cut never ends the program, and is never promoted
// unless a judge does without it by design.
//
// fixtures/good/optional.tsv lists what every judge does without: path (with [*] for entries), why. Whatever
// else is taken away or null must not be promoted. FEDGATE_FUZZ_ROUNDS: more random rounds than the usual.
#include <fedgate/random.h>

#include "corpus_evidence.h"

enum { OPTIONAL_MOST = 300, ROUNDS = 400, PATHS_MOST = 20000, SEED = 20261201 };

static GoodNight nights[GOOD_MOST];
static const char *const bases[] = {"learnable-fp16-2", "learnable-stays-1", "housing-bf16-1"};

// -- what may be missing

static struct {
    char *path;
    bool used;
} optional[OPTIONAL_MOST];
static size_t optional_count;

static void read_optional(void)
{
    SCOPED_TEXT table;
    text_init(&table, TABLE_MAX);
    char *rest = text_duplicate(support_read(GOOD_FOLDER "/optional.tsv", &table)), *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        char *fields[2];
        if (line[0] == '\0' || line[0] == '#')
            continue;
        ck_assert_msg(split_tabs(line, fields, 2) == 2 && strlen(fields[1]) > 5, "optional.tsv: '%s'", line);
        ck_assert_uint_lt(optional_count, OPTIONAL_MOST);
        optional[optional_count++].path = fields[0];
    }
}

// "a.b[3].c" as "a.b[*].c".
static void general_path(const char *path, char *ret_path, size_t size)
{
    size_t length = 0;
    for (const char *at = path; *at != '\0' && length + 4 < size;) {
        ret_path[length++] = *at;
        if (*at++ != '[')
            continue;
        ret_path[length++] = '*';
        at = strchr(at, ']');
    }
    ret_path[length] = '\0';
}

// A listed path speaks for all that lies below it.
static bool listed(const char *path)
{
    char general[512];
    bool found = false;
    general_path(path, general, sizeof general);
    for (size_t i = 0; i < optional_count; i++) {
        size_t length = strlen(optional[i].path);
        bool here = strncmp(general, optional[i].path, length) == 0 &&
                    (general[length] == '\0' || general[length] == '.' || general[length] == '[');
        optional[i].used = optional[i].used || here;
        found = found || here;
    }
    return found;
}

// -- one good night

typedef struct Base {
    Json *evidence;
    Config *policy;
    size_t judged, holes;
    char **paths;   // of all that can be changed
    size_t count;
} Base;

static void add_path(void *context, const char *path, const Json *value)
{
    Base *base = context;
    (void)value;
    ck_assert_uint_lt(base->count, PATHS_MOST);
    base->paths[base->count++] = text_duplicate(path);
}

static void open_base(Base *base, const char *name)
{
    Error error = ERROR_INIT;
    *base = (Base){.evidence = good_read(name), .paths = calloc(PATHS_MOST, sizeof *base->paths)};
    base->policy = good_policy(good_find(nights, good_list(nights), name), NULL, NULL, &error);
    ck_assert_msg(base->policy != NULL && base->paths != NULL, "%s", error.message);
    corpus_walk(base->evidence, add_path, base);
}

static void close_base(Base *base)
{
    for (size_t i = 0; i < base->count; i++)
        free(base->paths[i]);
    free(base->paths);
    json_free(base->evidence);
    config_free(base->policy);
}

static int judged_code(Base *base, const Json *evidence)
{
    OWNED(Json, json_free) *judgement = gate_judge(evidence, base->policy, JUDGE_EARLY);
    int code = gate_exit_code(judgement);
    base->judged++;
    ck_assert_msg(code == 0 || code == 10 || code == 11, "a judgement ended %d", code);
    return code;
}

// -- every leaf and section taken away

static void take_away(Base *base, const char *path, const char *operation, const char *argument)
{
    Error error = ERROR_INIT;
    OWNED(Json, json_free) *changed = corpus_change_text(base->evidence, path, operation, argument, &error);
    ck_assert_msg(changed != NULL, "%s", error.message);
    bool same = json_same(changed, base->evidence), promoted = judged_code(base, changed) == 0;
    if (promoted && !same && !listed(path)) {
        base->holes++;
        printf("promoted without it: %s %s %s\n", path, operation, argument);
    }
}

START_TEST(test_what_is_taken_away_is_not_promoted)
{
    size_t holes = 0, judged = 0;
    read_optional();
    for (size_t b = 0; b < sizeof bases / sizeof bases[0]; b++) {
        Base base;
        open_base(&base, bases[b]);
        ck_assert_int_eq(judged_code(&base, base.evidence), 0);
        for (size_t i = 0; i < base.count; i++) {
            take_away(&base, base.paths[i], "remove", "true");
            take_away(&base, base.paths[i], "value", "null");
        }
        holes += base.holes;
        judged += base.judged;
        close_base(&base);
    }
    for (size_t i = 0; i < optional_count; i++)
        if (!optional[i].used) {
            printf("optional.tsv: '%s' is never promoted without\n", optional[i].path);
            holes++;
        }
    printf("%zu judged, %zu holes\n", judged, holes);
    fflush(stdout);
    ck_assert_uint_eq(holes, 0);
}
END_TEST

// -- at random

static const char *const hostile[] = {
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1",
    "1e300",
    "-1e300",
    "1e-300",
    "9223372036854775807",
    "-9223372036854775808",
    "\"nan\"",
    "\"inf\"",
    "\"-inf\"",
    "\"\"",
    "\"x\"",
    "[]",
    "{}",
    "[[]]",
    "[{}]",
    "{\"a\": {}}",
    "[null, null]",
    "[1, \"nan\", {}]",
    "\"\\u0000\\u202e\"",
};

START_TEST(test_random_changes_never_end_the_program)
{
    const char *more = getenv("FEDGATE_FUZZ_ROUNDS");
    size_t rounds = more == NULL ? ROUNDS : (size_t)strtoul(more, NULL, 10),
           choices = sizeof hostile / sizeof *hostile;
    Base base;
    open_base(&base, bases[_i]);
    for (size_t round = 0; round < rounds; round++) {
        Json *evidence = json_copy_deep(base.evidence);
        for (size_t k = 0; k < 1 + round % 3; k++) {
            Error error = ERROR_INIT;
            uint64_t at = random_bits(SEED, 4 * round + k);
            const char *path = base.paths[at % base.count], *argument = hostile[(at >> 32) % choices];
            bool remove = (at >> 60) == 0;
            Json *changed = corpus_change_text(evidence, path, remove ? "remove" : "value",
                                               remove ? "true" : argument, &error);
            if (changed == NULL)   // an earlier change took the place away
                continue;
            json_free(evidence);
            evidence = changed;
        }
        (void)judged_code(&base, evidence);
        json_free(evidence);
    }
    close_base(&base);
}
END_TEST

// -- bytes that are no evidence

typedef void (*Spoil)(const char *text, Text *out);

static void cut(const char *text, Text *out)
{
    text_add_bytes(out, text, strlen(text) * 2 / 3);
}

static void add_key_twice(const char *text, Text *out)
{
    text_add(out, "{\"schema\":\"fedgate.evidence/1\",");
    text_add(out, text + 1);
}

static void nest(const char *text, Text *out)
{
    (void)text;
    for (int i = 0; i < 100000; i++)
        text_add(out, "[");
}

static void add_raw_nan(const char *text, Text *out)
{
    text_add(out, "{\"x\":NaN,");
    text_add(out, text + 1);
}

static void add_more_behind(const char *text, Text *out)
{
    text_add(out, text);
    text_add(out, "{}");
}

static void leave_nothing(const char *text, Text *out)
{
    (void)text;
    (void)out;
}

static void make_huge_number(const char *text, Text *out)
{
    text_add(out, "{\"x\":");
    for (int i = 0; i < 5000; i++)
        text_add(out, "9");
    text_add(out, ",");
    text_add(out, text + 1);
}

static const struct {
    Spoil spoil;
    const char *what;
} spoils[] = {
    {cut, "cut"},
    {add_key_twice, "a key twice"},
    {nest, "nested"},
    {add_raw_nan, "a bare NaN"},
    {add_more_behind, "bytes behind"},
    {leave_nothing, "empty"},
    {make_huge_number, "a huge number"},
};

START_TEST(test_bytes_that_are_no_evidence_end_65)
{
    char *folder = support_folder_new();
    SCOPED_TEXT text;
    SCOPED_TEXT spoilt;
    text_init(&text, EVIDENCE_MAX_BYTES);
    text_init(&spoilt, EVIDENCE_MAX_BYTES);
    OWNED(Json, json_free) *evidence = good_read(bases[0]);
    json_write(evidence, JSON_COMPACT, &text);
    spoils[_i].spoil(text_string(&text), &spoilt);
    support_write(support_path(folder, "evidence.json"), text_string(&spoilt));
    SupportRun run;
    SUPPORT_RUN(&run, "judge", support_path(folder, "evidence.json"));
    ck_assert_msg(run.exit_code == 65, "%s: ended %d by signal %d: %s", spoils[_i].what, run.exit_code,
                  run.signal, text_string(&run.errors));
    ck_assert_ptr_nonnull(strstr(text_string(&run.errors), "evidence.json"));
    support_run_done(&run);
    support_folder_remove(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("corpus fuzz");
    TCase *all = tcase_create("hostile");
    tcase_set_timeout(all, 600);
    tcase_add_test(all, test_what_is_taken_away_is_not_promoted);
    tcase_add_loop_test(all, test_random_changes_never_end_the_program, 0,
                        (int)(sizeof bases / sizeof bases[0]));
    tcase_add_loop_test(all, test_bytes_that_are_no_evidence_end_65, 0,
                        (int)(sizeof spoils / sizeof spoils[0]));
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
