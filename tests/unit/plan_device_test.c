// plan_device_test - what a card and feeding it add to a plan: every account by integers computed apart, the
// largest microbatch beside them all, and how a plan says what was assumed.
#include <fedgate/plan.h>

#include <string.h>

#include "support.h"

static const int64_t cardinality[] = {10, 20}, embedding[] = {4, 5}, hidden[] = {8, 130};
// 14 inputs, 8, 130, 1; weights: embeddings 40 + 100, layers 15 x 8, 9 x 130, 131 x 1
enum { WEIGHTS = 40 + 100 + 120 + 1170 + 131, ROW = (5 + 2 + 1) * 4, GRANULE = 512 };
static const PlanShape shape = {.numeric = 5,
                                .categorical = 2,
                                .cardinality = cardinality,
                                .embedding = embedding,
                                .hidden = hidden,
                                .layers = 2,
                                .outputs = 1,
                                .bytes_per_element = 2,
                                .steps = 100,
                                .step_bytes = 128,
                                .pace_bytes = 12,
                                .validation_rows = 50,
                                .sum_bytes = 16,
                                .operand_bytes = 984,
                                .score_weights = 4 * WEIGHTS,
                                .score_activations = 4096,
                                .score_input = 700,
                                .score_workspace = 80,
                                .group = 4,
                                .read_back_bytes = 1000};
static const PlanDevice card = {.context_bytes = 700000000,
                                .workspace_bytes = 72 << 20,
                                .recording_bytes = 4 << 20,
                                .granule_bytes = GRANULE};

static Config *with(const char *const *sets, size_t count)
{
    Error error = ERROR_INIT;
    Config *config = config_load(NULL, sets, count, NULL, &error);
    ck_assert_msg(config != NULL, "%s", error.message);
    return config;
}
#define WITH(...)                                                                                            \
    with((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

typedef struct Expected {
    const char *account;   // of the ledger
    int64_t bytes;
} Expected;

static void expect_device(const MemoryPlan *plan, const Expected *expected, int64_t context_bytes)
{
    int64_t sum = context_bytes;
    for (size_t i = 0; expected[i].account; i++) {
        ck_assert_msg(plan_ledger_bytes(plan, expected[i].account) == expected[i].bytes,
                      "account '%s': %lld bytes, wanted %lld", expected[i].account,
                      (long long)plan_ledger_bytes(plan, expected[i].account), (long long)expected[i].bytes);
        sum += expected[i].bytes;
    }
    ck_assert_int_eq(plan->planned_peak_bytes, sum);
    ck_assert(plan->fits);
}

static void expect_pinned(const MemoryPlan *plan, const Expected *expected)
{
    int64_t sum = 0;
    for (size_t i = 0; expected[i].account; i++) {
        int64_t found = -1;
        for (size_t k = 0; k < plan->account_count; k++)
            if (plan->accounts[k].pinned && strcmp(plan->accounts[k].ledger, expected[i].account) == 0)
                found = plan->accounts[k].bytes;
        ck_assert_msg(found == expected[i].bytes, "pinned account '%s': %lld bytes, wanted %lld",
                      expected[i].account, (long long)found, (long long)expected[i].bytes);
        sum += expected[i].bytes;
    }
    ck_assert_int_eq(plan->pinned_bytes, sum);
}

// A slot of four batches of 32 rows and their digests, each array on cache lines.
enum { SLOT = 4 * (32 * 20 + 32 * 8 + 32 * 4) + 64 };

START_TEST(a_card_is_planned_with_everything_that_is_on_it)
{
    Error error = ERROR_INIT;
    MemoryPlan plan;
    OWNED(Config, config_free) *config =
        WITH("train.batch=32", "train.microbatch=16", "input.slots=3", "input.prefetch=5");
    ASSERT_OK(plan_memory(config, &shape, &card, &plan, &error), &error);
    const int64_t weights4 = (int64_t)WEIGHTS * 4;
    const Expected device[] = {
        {"weights", weights4},
        {"pass weights", (int64_t)WEIGHTS * 2},
        {"gradients", weights4},
        {"optimizer", 2 * weights4},
        {"best weights", weights4},
        {"step state", 128 + 100 * 12},
        {"input.slots", 3 * SLOT},
        {"validation", 50 * ROW},
        {"workspace", 1000},
        // values and gradients of 16 rows; the gradient of the logits fills half a line
        {"activations", 16 * (2 * 2 * (14 + 8 + 130) + 4 + 2) + 32},
        {"parity weights", weights4},
        {"parity gradients", weights4},
        {"parity optimizer", 2 * weights4},
        {"parity step state", 128 + 100 * 12},
        {"parity workspace", 16},
        {"parity activations", 16 * (2 * 4 * (14 + 8 + 130 + 1))},
        {"score weights", weights4},
        {"score activations", 4096},
        {"score input", 700},
        {"score workspace", 80},
        {"workspaces", 72 << 20},
        {"captures", 3 * (4 << 20)},
        // own arm 8 (two moments, the pace table beside the state), its activations 1, the reference 8,
        // scoring 6, validation 3, sums and operands 2, slots 3, workspaces 1
        {"arena rounding", 32 * GRANULE},
        {NULL, 0},
    };
    expect_device(&plan, device, 700000000);
    const Expected pinned[] = {{"input.ring", (3 + 2) * SLOT},   // five prefetched batches are two groups
                               {"read-back", 1000},
                               {"arena rounding", (3 + 5 + 1) * GRANULE},   // one by one, five are five
                               {NULL, 0}};
    expect_pinned(&plan, pinned);
    int64_t blocks = 0;
    for (size_t i = 0; i < plan.block_count; i++)
        blocks += plan.blocks[i];
    ck_assert_int_eq(blocks, 16 * plan.per_sample_bytes);
}
END_TEST

START_TEST(resident_rows_leave_the_ring_single_batches)
{
    Error error = ERROR_INIT;
    MemoryPlan plan;
    PlanShape resident = shape;
    resident.resident = true;
    resident.resident_bytes = 32000;
    resident.order_bytes = 4000;
    OWNED(Config, config_free) *config =
        WITH("train.batch=32", "train.microbatch=16", "input.slots=2", "input.prefetch=5");
    ASSERT_OK(plan_memory(config, &resident, &card, &plan, &error), &error);
    ck_assert_int_eq(plan_ledger_bytes(&plan, "input.resident"), 32000);
    ck_assert_int_eq(plan_ledger_bytes(&plan, "input.order"), 4000);
    ck_assert_int_eq(plan_ledger_bytes(&plan, "input.slots"), 2 * SLOT);
    ck_assert_int_eq(plan_ledger_bytes(&plan, "arena rounding"), (31 + 1 + 1) * GRANULE);
    // What is not the training streams, a batch at a time.
    const Expected pinned[] = {{"input.ring", (2 + 5) * (32 * 32 + 64)},
                               {"read-back", 1000},
                               {"arena rounding", (2 + 5 + 1) * GRANULE},
                               {NULL, 0}};
    expect_pinned(&plan, pinned);
}
END_TEST

START_TEST(without_a_device_nothing_of_it_is_counted)
{
    Error error = ERROR_INIT;
    MemoryPlan plan;
    PlanShape plain = shape;
    plain.group = plain.read_back_bytes = 0;
    OWNED(Config, config_free) *config = WITH("train.batch=32", "input.slots=3", "input.prefetch=5");
    ASSERT_OK(plan_memory(config, &plain, NULL, &plan, &error), &error);
    ck_assert_int_eq(plan_ledger_bytes(&plan, "workspaces"), 0);
    ck_assert_int_eq(plan_ledger_bytes(&plan, "captures"), 0);
    ck_assert_int_eq(plan_ledger_bytes(&plan, "arena rounding"), 0);
    ck_assert_int_eq(plan_ledger_bytes(&plan, "input.slots"), 3 * (32 * 32 + 64));   // a batch a slot
    ck_assert_int_eq(plan.pinned_bytes, (3 + 5) * (32 * 32 + 64));
}
END_TEST

// The biggest one that fits, by what a sample and what the rest takes; a card without the accounts of a card
// would have let more in.
START_TEST(the_largest_microbatch_leaves_room_for_all_of_it)
{
    static const int64_t wide[] = {4096, 4096, 4096};
    Error error = ERROR_INIT;
    MemoryPlan plan;
    PlanShape large = {.numeric = 1024,
                       .hidden = wide,
                       .layers = 3,
                       .outputs = 1,
                       .bytes_per_element = 4,
                       .steps = 1,
                       .step_bytes = 128,
                       .pace_bytes = 12,
                       .group = 1};
    // context and workspaces fill what twice the microbatch would need
    PlanDevice full = card;
    OWNED(Config, config_free) *config = WITH("train.batch=262144", "input.slots=2", "input.prefetch=1");
    const int64_t budget = 21600000000, sample = 4 * 2 * (3 * 4096 + 1),
                  weights = 1025 * 4096 + 2 * (4097 * 4096) + 4097, pieces = 5 + 2 + 1 + 2 + 1,
                  slots = 2 * (INT64_C(262144) * 1025 * 4 + 64),
                  state = 5 * 4 * weights + 128 + 12 + slots + (72 << 20) + 2 * (4 << 20) + 700000000 +
                          pieces * GRANULE;
    int64_t expected = 262144;
    while (state + expected * sample > budget)
        expected /= 2;
    ASSERT_OK(plan_memory(config, &large, &full, &plan, &error), &error);
    ck_assert_int_eq(plan.microbatch, expected);
    ck_assert_int_eq(plan.per_sample_bytes, sample);
    ck_assert_int_eq(plan.planned_peak_bytes, state + expected * sample);   // no array needs filling up
    ck_assert(plan.fits && plan.planned_peak_bytes <= budget);
    full.context_bytes += budget - plan.planned_peak_bytes;   // to the byte
    ASSERT_OK(plan_memory(config, &large, &full, &plan, &error), &error);
    ck_assert(plan.microbatch == expected || plan.microbatch == expected / 2);
    full.context_bytes += 1;
    ASSERT_OK(plan_memory(config, &large, &full, &plan, &error), &error);
    ck_assert_int_eq(plan.microbatch, expected / 2);
    ck_assert(plan.fits);
}
END_TEST

START_TEST(what_was_assumed_is_said)
{
    Error error = ERROR_INIT;
    NightPlan plan;
    PlanDevice assumed = card;
    assumed.assumed = true;
    OWNED(Config, config_free) *config = WITH("train.batch=32", "input.slots=3", "input.prefetch=5");
    for (int i = 0; i < 2; i++) {
        SCOPED_TEXT out;
        text_init(&out, 100000);
        ASSERT_OK(plan_night(config, &shape, i ? &assumed : &card, NULL, &plan, &error), &error);
        plan_print(&plan, config, &out);
        const char *text = text_string(&out);
        OWNED(Json, json_free) *json = plan_to_json(&plan);
        const Json *accounts = json_find(json, "memory.accounts");
        int marked = 0;
        for (size_t k = 0; k < json_count(accounts); k++)
            marked += json_bool_or(json_get(json_at(accounts, k), "assumed"), false);
        ck_assert_int_eq(marked, i ? 3 : 0);
        ck_assert_int_eq(json_integer_or(json_find(json, "memory.pinned_bytes"), -1),
                         5 * SLOT + 1000 + 9 * GRANULE);
        static const char *const lines[] = {
            "  workspaces           75.497472 MB (assumed: no device was asked)\n",
            "  captures             12.582912 MB = 3 recordings at most x 4.194304 MB (assumed: no device "
            "was "
            "asked)\n",
            "  context              0.7 GB (assumed: no device was asked)\n"};
        for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++)
            ck_assert_msg((strstr(text, lines[k]) != NULL) == (i == 1), "'%s' in:\n%s", lines[k], text);
        static const char *const always[] = {
            "  arena rounding       16.384 kB = 32 pieces at most x 512 B\n",
            "  ring (pinned)        20.8 kB = 5 slots of a group of batches x 4.16 kB\n",
            "  rounding (pinned)    4.608 kB = 9 pieces at most x 512 B\n"};
        for (size_t k = 0; k < sizeof always / sizeof always[0]; k++)
            ck_assert_msg(strstr(text, always[k]) != NULL, "no '%s' in:\n%s", always[k], text);
    }
}
END_TEST

START_TEST(a_context_beyond_the_budget_is_refused_before_anything_else)
{
    Error error = ERROR_INIT;
    MemoryPlan plan;
    OWNED(Config, config_free) *config = WITH("device.memory=500MB");
    ASSERT_OK(plan_memory(config, &shape, &card, &plan, &error), &error);
    ck_assert(!plan.fits);
    ck_assert_ptr_nonnull(
        strstr(plan.refusal, "driver and libraries alone take 0.7 GB, the budget is 0.45 GB"));
}
END_TEST

// Pinned memory is the host's: neither the peak nor the refusal names it.
START_TEST(pinned_memory_is_no_part_of_the_peak)
{
    Error error = ERROR_INIT;
    MemoryPlan plan, more;
    PlanShape longer = shape;
    longer.read_back_bytes = INT64_C(1) << 40;
    OWNED(Config, config_free) *config = WITH("train.batch=32");
    ASSERT_OK(plan_memory(config, &shape, &card, &plan, &error), &error);
    ASSERT_OK(plan_memory(config, &longer, &card, &more, &error), &error);
    ck_assert_int_eq(plan.planned_peak_bytes, more.planned_peak_bytes);
    ck_assert_int_eq(more.pinned_bytes - plan.pinned_bytes, (INT64_C(1) << 40) - 1000);
    ck_assert(more.fits);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("plan device");
    TCase *tests = tcase_create("plan device");
    tcase_add_test(tests, a_card_is_planned_with_everything_that_is_on_it);
    tcase_add_test(tests, resident_rows_leave_the_ring_single_batches);
    tcase_add_test(tests, without_a_device_nothing_of_it_is_counted);
    tcase_add_test(tests, the_largest_microbatch_leaves_room_for_all_of_it);
    tcase_add_test(tests, what_was_assumed_is_said);
    tcase_add_test(tests, a_context_beyond_the_budget_is_refused_before_anything_else);
    tcase_add_test(tests, pinned_memory_is_no_part_of_the_peak);
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
