// plan_reference_test - the tables of the brief worked again by hand, apart from src/plan, and compared with
// what a person is shown. Everything here is integers in the tables' own units (10 MB, FLOP, bytes,
// hundredths), so nothing is shared with the code under test but the printed text. Tolerance: none, every
// digit shown must be this one.
#include <fedgate/plan.h>

#include <stdio.h>
#include <string.h>

#include "support.h"

// 0.01 GB is the smallest figure of the ledger; everything given is a whole number of them.
enum { DEVICE = 2400, STATE = 320, SAMPLE = 34, BATCH = 256, BLOCKS = 5 };
enum { BUDGET = DEVICE - DEVICE / 10, AVAILABLE = BUDGET - STATE };

static char shown[64000];

static void setup(void)
{
    Error error = ERROR_INIT;
    NightPlan plan;
    SCOPED_TEXT out;
    text_init(&out, sizeof shown - 1);
    OWNED(Config, config_free) *config =
        config_load(FEDGATE_SOURCE_DIR "/fixtures/configs/ledger-example.yaml", NULL, 0, NULL, &error);
    ck_assert_msg(config != NULL, "%s", error.message);
    ASSERT_OK(plan_night(config, NULL, 0, NULL, &plan, &error), &error);
    plan_print(&plan, config, &out);
    ck_assert(text_copy(shown, sizeof shown, text_string(&out)));
}

// One line that has all of these words in this order.
static void expect_line(const char *first, const char *second, const char *third)
{
    const char *const words[] = {first, second, third};
    for (const char *line = shown; *line;) {
        const char *end = strchr(line, '\n'), *at = line;
        ck_assert_ptr_nonnull(end);
        size_t found = 0;
        for (; found < 3; found++) {
            at = strstr(at, words[found]);
            if (!at || at + strlen(words[found]) > end)
                break;
            at += strlen(words[found]);
        }
        if (found == 3)
            return;
        line = end + 1;
    }
    ck_abort_msg("no line has '%s' .. '%s' .. '%s' in:\n%s", first, second, third, shown);
}

static void gigabytes(char to[static 32], int hundredths)
{
    (void)snprintf(to, 32, "%d.%02d GB", hundredths / 100, hundredths % 100);
}

static void expect_use(int samples)
{
    char name[32], total[32];
    int bytes = STATE + samples * SAMPLE;
    (void)snprintf(name, sizeof name, "  %d use ", samples);
    gigabytes(total, bytes);
    expect_line(name, total, bytes <= BUDGET ? "<= 21.6 GB" : "> 21.6 GB");
}

START_TEST(the_ledger_comes_out_to_the_digit)
{
    int most = 0;
    while (STATE + (most + 1) * SAMPLE <= BUDGET)   // by counting up, not by dividing
        most++;
    ck_assert_int_eq(most, 54);
    expect_line("budget", "24 GB x (1 - 0.10)", "= 21.6 GB");
    expect_line("available", "21.6 GB - 3.2 GB", "= 18.4 GB");
    expect_line("largest", "18.4 GB / 0.34 GB", "= 54 samples at most");
    expect_use(most);
    expect_use(most + 1);
    ck_assert_ptr_nonnull(strstr(shown, "= 21.56 GB <="));
    ck_assert_ptr_nonnull(strstr(shown, "= 21.90 GB >"));
}
END_TEST

static const struct {
    int microbatch;
    const char *cumulative[BLOCKS];
    const char *total;
    bool fits;
} tables[] = {
    {16, {"1.09", "2.18", "3.26", "4.35", "5.44"}, "8.64", true},
    {64, {"4.35", "8.70", "13.06", "17.41", "21.76"}, "24.96", false},
    {32, {"2.18", "4.35", "6.53", "8.70", "10.88"}, "14.08", true},
};

START_TEST(the_blocks_of_a_microbatch_come_out_to_the_digit)
{
    char heading[80], total[32];
    int activations = tables[_i].microbatch * SAMPLE;
    (void)snprintf(heading, sizeof heading, "activations of microbatch %d in 5 equal blocks\n",
                   tables[_i].microbatch);
    const char *at = strstr(shown, heading);
    ck_assert_msg(at != NULL, "no '%s'", heading);
    for (int block = 1; block <= BLOCKS; block++) {
        char figure[32], own[32], name[32];
        int fifths = activations * block;   // in 0.01 GB / 5, so nothing is lost before it is rounded
        gigabytes(own, (fifths * 2 + BLOCKS) / (BLOCKS * 2));
        (void)snprintf(figure, sizeof figure, "%s GB", tables[_i].cumulative[block - 1]);
        ck_assert_str_eq(own, figure);
        (void)snprintf(name, sizeof name, "block %d", block);
        at = strstr(at, name);
        ck_assert_msg(at != NULL, "no '%s'", name);
        const char *end = strchr(at, '\n'), *found = strstr(at, figure);
        ck_assert_msg(found && found < end, "block %d of microbatch %d is not %s", block,
                      tables[_i].microbatch, figure);
        bool resident = fifths <= AVAILABLE * BLOCKS;
        const char *words = resident ? ": resident" : "> 18.4 GB: not resident";
        ck_assert_msg(strncmp(end - strlen(words), words, strlen(words)) == 0, "block %d of microbatch %d",
                      block, tables[_i].microbatch);
        at = end;
    }
    gigabytes(total, STATE + activations);
    ck_assert(strncmp(total, tables[_i].total, strlen(tables[_i].total)) == 0);
    at = strstr(at, "total");
    ck_assert_ptr_nonnull(at);
    ck_assert_int_eq(STATE + activations <= BUDGET, tables[_i].fits);
    char words[64];
    (void)snprintf(words, sizeof words, "= %s %s", total,
                   tables[_i].fits ? "<= 21.6 GB: fits\n" : "> 21.6 GB: refused\n");
    const char *found = strstr(at, words);
    ck_assert_msg(found && found < strchr(at, '\n'), "total of microbatch %d is not '%s'",
                  tables[_i].microbatch, words);
}
END_TEST

START_TEST(the_global_batch_keeps_its_size)
{
    int divisor = 0;
    for (int size = 1; size <= 54; size++)
        divisor = BATCH % size == 0 ? size : divisor;
    ck_assert_int_eq(divisor, 32);
    expect_line("microbatch", "largest divisor of 256 that is at most 54", "= 32");
    expect_line("(54 does not divide 256)", "", "");
    expect_line("steps", "256 / 32 = 8", "256 = 32 x 8");
    expect_use(divisor);
    ck_assert_ptr_nonnull(strstr(shown, "= 14.08 GB <= 21.6 GB\n  fits\n"));
}
END_TEST

START_TEST(the_roofline_comes_out_to_the_digit)
{
    const long rows = 256, in = 32, out = 256, element = 2;
    long flop = 0, bytes = (rows * in + in * out + rows * out) * element;
    for (long row = 0; row < rows; row++)   // one multiply and one add for each input of each output
        for (long k = 0; k < out; k++)
            flop += in + in;
    ck_assert_int_eq(flop, 4194304);
    ck_assert_int_eq(bytes, 163840);
    ck_assert_int_eq(flop * 10 / bytes, 256);   // I = 25.6, in tenths
    ck_assert_int_eq(99000 * 10 / 48, 20625);   // ridge 990 / 4.8, in hundredths
    ck_assert_int_eq(256 * 48, 12288);   // I x B_mem, in hundredths of TFLOP/s
    expect_line("ridge", "990 TFLOP/s / 4.8 TB/s", "= 206.25 FLOP/byte");
    expect_line("FLOP", "2 x 256 x 32 x 256", "= 4,194,304");
    expect_line("(8,192 + 8,192 + 65,536) x 2", "= 163,840", "");
    expect_line("I ", "4,194,304 / 163,840", "= 25.6 FLOP/byte");
    expect_line("attainable", "min(990 TFLOP/s, 25.6 FLOP/byte x 4.8 TB/s)", "122.88 TFLOP/s)");
    expect_line("= 122.88 TFLOP/s: memory-bound", "", "");
}
END_TEST

START_TEST(a_plan_is_read_on_a_hundred_columns)
{
    for (const char *line = shown; *line; line = strchr(line, '\n') + 1)
        ck_assert_msg(strcspn(line, "\n") <= 100, "%.*s", (int)strcspn(line, "\n"), line);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("plan reference");
    TCase *tests = tcase_create("tables");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, the_ledger_comes_out_to_the_digit);
    tcase_add_loop_test(tests, the_blocks_of_a_microbatch_come_out_to_the_digit, 0,
                        sizeof tables / sizeof tables[0]);
    tcase_add_test(tests, the_global_batch_keeps_its_size);
    tcase_add_test(tests, the_roofline_comes_out_to_the_digit);
    tcase_add_test(tests, a_plan_is_read_on_a_hundred_columns);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int bad = srunner_ntests_failed(runner);
    srunner_free(runner);
    return bad != 0;
}
