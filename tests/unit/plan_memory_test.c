// plan_memory_test - accounts by shape and precision, validation rows, and the budget to the last byte.
#include <fedgate/plan.h>

#include <string.h>

#include "support.h"

static const int64_t cardinality[] = {10, 20}, embedding[] = {4, 5}, hidden[] = {8, 6};
// 14 inputs, 8, 6, 1; weights: embeddings 40 + 100, layers 15 x 8, 9 x 6, 7 x 1
enum { WEIGHTS = 40 + 100 + 120 + 54 + 7, ROW = (5 + 2 + 1) * 4 };
static const PlanShape fp32 = {.numeric = 5,
                               .categorical = 2,
                               .cardinality = cardinality,
                               .embedding = embedding,
                               .hidden = hidden,
                               .layers = 2,
                               .outputs = 1,
                               .bytes_per_element = 4,
                               .steps = 100,
                               .step_bytes = 128,
                               .pace_bytes = 12,
                               .validation_rows = 50,
                               .sum_bytes = 16,
                               .operand_bytes = 984};

static MemoryPlan plan_on(const PlanShape *shape, const PlanDevice *known, const char *const *sets,
                          size_t count)
{
    Error error = ERROR_INIT;
    OWNED(Config, config_free) *config = config_load(NULL, sets, count, NULL, &error);
    ck_assert_msg(config != NULL, "%s", error.message);
    MemoryPlan plan;
    ASSERT_OK(plan_memory(config, shape, known, &plan, &error), &error);
    return plan;
}
#define PLAN_ON(shape, device, ...)                                                                          \
    plan_on(shape, device, (const char *const[]){__VA_ARGS__},                                               \
            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))
#define PLAN(shape, context, ...) PLAN_ON(shape, (&(PlanDevice){.context_bytes = (context)}), __VA_ARGS__)

typedef struct Expected {
    const char *account;   // of the ledger
    int64_t bytes;
} Expected;

// Every account of the ledger, and together the planned peak.
static void expect_accounts(const MemoryPlan *plan, const Expected *expected, int64_t context_bytes)
{
    int64_t sum = context_bytes;
    for (size_t i = 0; expected[i].account; i++) {
        ck_assert_msg(plan_ledger_bytes(plan, expected[i].account) == expected[i].bytes,
                      "account '%s': %lld bytes, wanted %lld", expected[i].account,
                      (long long)plan_ledger_bytes(plan, expected[i].account), (long long)expected[i].bytes);
        sum += expected[i].bytes;
    }
    ck_assert_int_eq(plan->planned_peak_bytes, sum);
    int64_t blocks = 0, state = 0, sample = 0, pinned = 0;
    for (size_t i = 0; i < plan->block_count; i++)
        blocks += plan->blocks[i];
    ck_assert_int_eq(blocks, plan->microbatch * plan->per_sample_bytes);
    for (size_t i = 0; i < plan->account_count; i++) {
        const PlanAccount *account = &plan->accounts[i];
        ck_assert_int_eq(account->bytes, account->count * account->each);
        *(account->pinned ? &pinned : account->per_sample ? &sample : &state) += account->bytes;
    }
    ck_assert_int_eq(pinned, plan->pinned_bytes);
    ck_assert_int_eq(state, plan->state_bytes);
    ck_assert_int_eq(sample, plan->per_sample_bytes);
}

static int64_t up(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

START_TEST(an_fp32_night_keeps_one_network_and_its_rows)
{
    MemoryPlan plan = PLAN(&fp32, 777, "train.batch=32", "train.microbatch=16", "input.slots=3");
    const Expected expected[] = {
        {"weights", WEIGHTS * 4},
        {"gradients", WEIGHTS * 4},
        {"optimizer", WEIGHTS * 8},
        {"best weights", WEIGHTS * 4},
        {"step state", 128 + 100 * 12},
        {"input.slots",   // the batch, not a microbatch, and its digest on a cache line
         3 * (32 * 20 + 32 * 8 + 32 * 4 + 64)},
        {"validation", 50 * ROW},
        {"workspace", 1000},
        {"activations", 16 * 2 * 4 * (14 + 8 + 6 + 1)},   // 16 rows of 4 bytes: every array ends on 64
        {"pass weights", 0},
        {"parity weights", 0},
        {NULL, 0},
    };
    expect_accounts(&plan, expected, 777);
    ck_assert_int_eq(plan.validation_rows, 50);
    ck_assert_int_eq(plan.validation_bytes, 50 * ROW);
}
END_TEST

START_TEST(a_half_night_rounds_the_passes_and_keeps_the_reference_arm_beside_them)
{
    PlanShape half = fp32;
    half.bytes_per_element = 2;
    MemoryPlan plan = PLAN(&half, 0, "train.batch=32", "train.microbatch=32", "input.slots=3");
    const int64_t weights4 = (int64_t)WEIGHTS * 4;
    const Expected expected[] = {
        {"weights", weights4},
        {"pass weights", (int64_t)WEIGHTS * 2},
        {"gradients", weights4},
        {"optimizer", 2 * weights4},
        {"best weights", weights4},
        {"step state", 128 + 100 * 12},
        {"input.slots", 3 * (32 * 20 + 32 * 8 + 32 * 4 + 64)},
        {"validation", 50 * ROW},
        {"workspace", 1000},
        {"activations", 32 * (2 * 2 * (14 + 8 + 6) + 4 + 2)},   // logits are FP32, their gradient is not
        {"parity weights", weights4},
        {"parity gradients", weights4},
        {"parity optimizer", 2 * weights4},
        {"parity step state", 128 + 100 * 12},
        {"parity workspace", 16},
        {"parity activations", 32 * 2 * 4 * (14 + 8 + 6 + 1)},
        {NULL, 0},
    };
    expect_accounts(&plan, expected, 0);
}
END_TEST

START_TEST(arrays_inside_an_allocation_end_on_cache_lines)
{
    MemoryPlan plan = PLAN(&fp32, 0, "train.batch=9", "train.microbatch=3");
    ck_assert_int_eq(plan_ledger_bytes(&plan, "activations"),
                     2 * (up(3 * 4 * 14) + up(3 * 4 * 8) + up(3 * 4 * 6) + up(3 * 4)));
    ck_assert_int_eq(plan_ledger_bytes(&plan, "input.slots"),
                     3 * (up(9 * 20) + up(9 * 8) + up(9 * 4) + 64));   // input.slots is 3 by default
}
END_TEST

START_TEST(without_embeddings_a_pass_reads_the_batch_itself)
{
    PlanShape plain = fp32, half;
    plain.categorical = 0;
    half = plain;
    half.bytes_per_element = 2;
    MemoryPlan whole = PLAN(&plain, 0, "train.batch=16"), rounded = PLAN(&half, 0, "train.batch=32");
    ck_assert_int_eq(plan_ledger_bytes(&whole, "activations"), 16 * 2 * 4 * (8 + 6 + 1));
    // rounded inputs are values of their own, and nothing asks for their gradient
    ck_assert_int_eq(plan_ledger_bytes(&rounded, "activations"), up(32 * 2 * 5) + 32 * (4 * (8 + 6) + 4 + 2));
    ck_assert_int_eq(plan_ledger_bytes(&rounded, "parity activations"), 32 * 2 * 4 * (8 + 6 + 1));
}
END_TEST

START_TEST(validation_rows_come_a_microbatch_at_a_time_where_they_would_crowd_out)
{
    PlanShape many = fp32;
    many.validation_rows = 100000;   // 3.2 MB
    MemoryPlan roomy = PLAN(&many, 0, "device.memory=20MB", "train.batch=32"),
               tight = PLAN(&many, 0, "device.memory=10MB", "train.batch=32");
    ck_assert_int_eq(roomy.validation_rows, 100000);
    ck_assert_int_eq(roomy.validation_bytes, 100000 * ROW);
    ck_assert_int_eq(tight.validation_rows, 32);
    ck_assert_int_eq(tight.validation_bytes, 32 * ROW);
    ck_assert_int_eq(plan_ledger_bytes(&tight, "validation"), 32 * ROW);
    ck_assert(roomy.fits && tight.fits);
    ck_assert_int_eq(roomy.planned_peak_bytes - tight.planned_peak_bytes, (100000 - 32) * ROW);
}
END_TEST

START_TEST(the_budget_is_exact_to_the_byte)
{
    char memory[64];
    PlanShape few = fp32;
    few.validation_rows = 32;   // less than a microbatch: they stay at any budget
    MemoryPlan plan =
        PLAN(&few, 0, "train.batch=1024", "train.microbatch=32", "memory.reserve=0", "input.slots=64");
    ck_assert_int_gt(plan.planned_peak_bytes, 1000000);
    for (int64_t less = 0; less <= 1; less++) {
        ck_assert(text_print(memory, sizeof memory, "device.memory=%lld",
                             (long long)(plan.planned_peak_bytes - less)));
        MemoryPlan again = PLAN(&few, 0, "train.batch=1024", "train.microbatch=32", "memory.reserve=0",
                                "input.slots=64", memory);
        ck_assert_int_eq(again.planned_peak_bytes, plan.planned_peak_bytes);
        ck_assert_int_eq(again.fits, less == 0);
        ck_assert((strstr(again.refusal, "the budget is") != NULL) == (less == 1));
    }
}
END_TEST

static const struct {
    const char *device, *microbatch;
    int64_t context, rows;
    const char *refusal;
} refusals[] = {
    {"device.memory=1MB", "train.microbatch=0", 900001, 50,
     "driver and libraries alone take 0.900001 MB, the budget is 0.9 MB; take a larger device or a smaller "
     "memory.reserve"},
    {"device.memory=1MB", "train.microbatch=0", 895000, 50, "the state alone needs"},
    {"device.memory=1MB", "train.microbatch=0", 895000, 50, "its largest part is 'context' with 0.895 MB"},
    {"device.memory=1MB", "train.microbatch=5", 0, 50, "microbatch 5 does not divide the batch of 8192"},
    {"device.memory=2MB", "train.microbatch=8192", 0, 0, "at most 5460 samples fit"},
    {"device.memory=2MB", "train.microbatch=8192", 0, 0, "lower train.microbatch"},
    {"device.memory=2800kB", "train.microbatch=8192", 0, 8192,
     "MB of them validation rows), the budget is 2.52 MB; at most "},
};

START_TEST(a_refusal_says_what_does_not_fit_and_what_to_change)
{
    PlanShape shape = fp32;
    shape.validation_rows = refusals[_i].rows;
    MemoryPlan plan = PLAN(&shape, refusals[_i].context, refusals[_i].device, refusals[_i].microbatch,
                           "train.batch=8192", "input.slots=2");
    ck_assert(!plan.fits);
    ck_assert_msg(strstr(plan.refusal, refusals[_i].refusal) != NULL, "'%s' has no '%s'", plan.refusal,
                  refusals[_i].refusal);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("plan memory");
    TCase *tests = tcase_create("plan memory");
    tcase_add_test(tests, an_fp32_night_keeps_one_network_and_its_rows);
    tcase_add_test(tests, a_half_night_rounds_the_passes_and_keeps_the_reference_arm_beside_them);
    tcase_add_test(tests, arrays_inside_an_allocation_end_on_cache_lines);
    tcase_add_test(tests, without_embeddings_a_pass_reads_the_batch_itself);
    tcase_add_test(tests, validation_rows_come_a_microbatch_at_a_time_where_they_would_crowd_out);
    tcase_add_test(tests, the_budget_is_exact_to_the_byte);
    tcase_add_loop_test(tests, a_refusal_says_what_does_not_fit_and_what_to_change, 0,
                        sizeof refusals / sizeof refusals[0]);
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
