// plan_test - what fits and what is refused, peaks and work, and how a plan is shown.
#include <fedgate/clock.h>
#include <fedgate/plan.h>

#include <math.h>
#include <string.h>

#include "support.h"

static const int64_t cardinality[] = {10, 20}, embedding[] = {4, 5}, hidden[] = {8, 6};
static const PlanShape small = {.numeric = 5,
                                .categorical = 2,
                                .cardinality = cardinality,
                                .embedding = embedding,
                                .hidden = hidden,
                                .layers = 2,
                                .outputs = 1,
                                .bytes_per_element = 4};   // 14 inputs, 8, 6, 1

static Config *with(const char *const *sets, size_t count)
{
    Error error = ERROR_INIT;
    Config *config = config_load(NULL, sets, count, NULL, &error);
    ck_assert_msg(config != NULL, "%s", error.message);
    return config;
}
#define WITH(...)                                                                                            \
    with((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

// -- memory

static const struct {
    const char *device, *reserve, *state, *sample, *batch, *microbatch;
    int64_t budget, largest, chosen, steps;
    const char *refusal;
} ledgers[] = {
    {"24GB", "0.1", "3.2GB", "0.34GB", "256", "0", 21600000000, 54, 32, 8, ""},
    {"24GB", "0.1", "3.2GB", "0.34GB", "256", "16", 21600000000, 54, 16, 16, ""},
    {"24GB", "0.1", "3.2GB", "0.34GB", "256", "64", 21600000000, 54, 64, 4,
     "microbatch 64 needs 24.96 GB, the budget is 21.6 GB; at most 54 samples fit, lower train.microbatch"},
    {"24GB", "0.1", "3.2GB", "0.34GB", "256", "48", 21600000000, 54, 48, 0,
     "microbatch 48 does not divide the batch of 256"},
    {"24GB", "0.1", "3.2GB", "0.34GB", "257", "0", 21600000000, 54, 1, 257, ""},
    {"24GB", "0.1", "3.2GB", "0.34GB", "54", "0", 21600000000, 54, 54, 1, ""},
    {"24GB", "0.1", "3.2GB", "0.34GB", "8", "0", 21600000000, 54, 8, 1, ""},
    {"24GB", "0.1", "21.6GB", "1", "8", "0", 21600000000, 0, 1, 8,
     "microbatch 1 needs 21.600000001 GB, the budget is 21.6 GB; no sample fits beside the state"},
    {"24GB", "0.1", "22GB", "1", "8", "0", 21600000000, 0, 1, 8,
     "the state alone needs 22 GB, the budget is 21.6 GB; its largest part is 'state (declared)' with 22 GB"},
    {"10GB", "0", "4GB", "3GB", "2", "0", 10000000000, 2, 2, 1, ""},   // to the last byte
    {"1000001", "0.3", "1", "1", "1", "0", 700000, 699999, 1, 1, ""},   // rounded down
    {"24GB", "0.1", "1000TB", "1000TB", "1048576", "1048576", 21600000000, 0, 1048576, 1,
     "the state alone needs 1000000 GB, the budget is 21.6 GB; its largest part is 'state (declared)' with "
     "1000000 GB"},
    {"1000TB", "0", "1", "1000TB", "1048576", "1048576", 1000000000000000, 0, 1048576, 1,
     "microbatch 1048576 needs 9223372036.85 GB, the budget is 1000000 GB; no sample fits beside the state"},
};

START_TEST(what_fits_is_planned_and_what_does_not_is_refused_with_both_figures)
{
    char sets[6][64];
    const char *names[] = {"device.memory",     "memory.reserve", "memory.state",
                           "memory.per_sample", "train.batch",    "train.microbatch"};
    const char *values[] = {ledgers[_i].device, ledgers[_i].reserve, ledgers[_i].state,
                            ledgers[_i].sample, ledgers[_i].batch,   ledgers[_i].microbatch};
    for (size_t i = 0; i < 6; i++)
        ck_assert(text_print(sets[i], sizeof sets[i], "%s=%s", names[i], values[i]));
    OWNED(Config, config_free) *config = WITH(sets[0], sets[1], sets[2], sets[3], sets[4], sets[5]);
    MemoryPlan plan;
    Error error = ERROR_INIT;
    ASSERT_OK(plan_memory(config, NULL, 0, &plan, &error), &error);
    ck_assert_int_eq(plan.budget_bytes, ledgers[_i].budget);
    ck_assert_int_eq(plan.largest_microbatch, ledgers[_i].largest);
    ck_assert_int_eq(plan.microbatch, ledgers[_i].chosen);
    ck_assert_int_eq(plan.accumulation, ledgers[_i].steps);
    ck_assert_str_eq(plan.refusal, ledgers[_i].refusal);
    ck_assert_int_eq(plan.fits, ledgers[_i].refusal[0] == '\0');
    ck_assert_int_eq(plan.fits, plan.planned_peak_bytes <= plan.budget_bytes && plan.accumulation > 0);
}
END_TEST

START_TEST(a_plan_without_anything_to_plan_is_refused)
{
    OWNED(Config, config_free) *config = WITH("memory.state=1GB");
    MemoryPlan plan;
    Error error = ERROR_INIT;
    ASSERT_FAILS(plan_memory(config, NULL, 0, &plan, &error), &error, ERROR_CONFIG,
                 "'memory.state' and 'memory.per_sample'");
    PlanShape deep = small;
    deep.layers = PLAN_BLOCKS;
    ASSERT_FAILS(plan_memory(config, &deep, 0, &plan, &error), &error, ERROR_CONFIG,
                 "64 hidden layers is more than the limit of 62");
}
END_TEST

START_TEST(equal_blocks_add_up_and_stop_being_resident_where_they_no_longer_fit)
{
    OWNED(Config, config_free) *config =
        WITH("memory.state=3.2GB", "memory.per_sample=0.34GB", "memory.blocks=5", "train.microbatch=64");
    MemoryPlan plan;
    Error error = ERROR_INIT;
    ASSERT_OK(plan_memory(config, NULL, 0, &plan, &error), &error);
    ck_assert_uint_eq(plan.block_count, 5);
    int64_t sum = 0;
    for (size_t i = 0; i < 5; i++) {
        sum += plan.blocks[i];
        ck_assert_int_eq(plan.resident[i], sum <= 18400000000);
    }
    ck_assert_int_eq(sum, 21760000000);
    ck_assert(plan.resident[3] && !plan.resident[4]);
}
END_TEST

// -- roofline

static const struct {
    const char *device, *precision;
    double peak, bandwidth;
} devices[] = {
    {"NVIDIA H200", "bf16", 989.4e12, 4.8e12},
    {"NVIDIA H200", "fp32", 66.9e12, 4.8e12},
    {"NVIDIA H100 80GB HBM3", "fp16", 989.4e12, 3.35e12},
    {"NVIDIA A100-SXM4-40GB", "tf32", 156e12, 1.555e12},
    {"Tesla V100-SXM2-32GB", "fp16", 125e12, 0.9e12},
    {"Tesla V100-SXM2-32GB", "bf16", 0, 0},
    {"NVIDIA H200 NVL", "bf16", 0, 0},
    {"NVIDIA H200 MIG 1g.18gb", "bf16", 0, 0},
    {"NVIDIA H200", "fp64", 0, 0},
    {"", "fp32", 0, 0},
};

START_TEST(a_device_has_its_datasheet_peak_or_none)
{
    const DevicePeak *peak = plan_device_peak(devices[_i].device, devices[_i].precision);
    ck_assert_int_eq(peak != NULL, devices[_i].peak > 0);
    if (!peak)
        return;
    ck_assert_double_eq(peak->peak_flops, devices[_i].peak);
    ck_assert_double_eq(peak->bandwidth, devices[_i].bandwidth);
    ck_assert_ptr_nonnull(strstr(peak->source, "NVIDIA"));
}
END_TEST

START_TEST(a_cpu_has_an_upper_bound_or_none)
{
    ck_assert_double_eq(plan_cpu_peak(2, "avx2"), 2 * 6e9 * 32);
    ck_assert_double_eq(plan_cpu_peak(1, "avx512"), 6e9 * 64);
    ck_assert_double_eq(plan_cpu_peak(4, "sse2"), 4 * 6e9 * 8);
    ck_assert_double_eq(plan_cpu_peak(3, "avx"), 3 * 6e9 * 16);
    ck_assert_double_eq(plan_cpu_peak(2, "neon"), 0);
    ck_assert_double_eq(plan_cpu_peak(2, ""), 0);
    ck_assert_double_eq(plan_cpu_peak(0, "avx2"), 0);
}
END_TEST

START_TEST(the_roof_is_the_lower_of_peak_and_slope)
{
    Roofline roof;
    plan_roofline(100, 10, 1000, 50, &roof);
    ck_assert_double_eq(roof.ridge, 20);
    ck_assert_double_eq(roof.attainable, 500);
    ck_assert(roof.memory_bound);
    plan_roofline(200, 10, 1000, 50, &roof);   // on the ridge
    ck_assert_double_eq(roof.attainable, 1000);
    ck_assert(!roof.memory_bound);
    plan_roofline(100, 10, 1000, 0, &roof);   // unknown bandwidth does not bind
    ck_assert_double_eq(roof.attainable, 1000);
    ck_assert_double_eq(roof.ridge, 0);
    ck_assert(!roof.memory_bound);
    plan_roofline_layer(2, 3, 4, 8, 1e12, 1e12, &roof);
    ck_assert_double_eq(roof.flop, 48);
    ck_assert_double_eq(roof.bytes, (6 + 12 + 8) * 8);
    ck_assert_int_eq(roof.rows * 100 + roof.in * 10 + roof.out, 234);
}
END_TEST

START_TEST(the_work_of_a_step_is_counted_product_by_product)
{
    double flop, bytes;
    plan_step_work(&small, 10, &flop, &bytes);
    // forward and weight gradient of each layer; input gradient of later layers and of the 9 embedding inputs
    ck_assert_double_eq(flop, 2 * 10 * (2 * (14 * 8 + 8 * 6 + 6 * 1) + (9 * 8 + 8 * 6 + 6 * 1)));
    ck_assert_double_eq(bytes, 10 * 8 * 4 + 2 * 10 * 15 * 4 + 2 * 3 * (15 * 8 + 9 * 6 + 7) * 4);
}
END_TEST

START_TEST(declared_peaks_win_over_the_table_and_unknown_stays_unknown)
{
    Error error = ERROR_INIT;
    NightPlan plan;
    const DevicePeak *row = plan_device_peak("NVIDIA H200", "fp32");
    OWNED(Config, config_free) *plain = WITH("model=m");
    OWNED(Config, config_free) *declared = WITH("device.peak_flops=1e12", "device.bandwidth=1e11");
    ASSERT_OK(plan_night(plain, &small, 0, row, &plan, &error), &error);
    ck_assert_double_eq(plan.roofline.peak_flops, 66.9e12);
    ck_assert_str_eq(plan.peak_source, row->source);
    ck_assert_uint_eq(plan.layer_count, 3);
    ck_assert_int_eq(plan.layers[0].in, 14);
    ck_assert_str_eq(plan.precision, "fp32");
    ASSERT_OK(plan_night(declared, &small, 0, row, &plan, &error), &error);
    ck_assert_double_eq(plan.roofline.peak_flops, 1e12);
    ck_assert_double_eq(plan.roofline.bandwidth, 1e11);
    ck_assert_str_eq(plan.peak_source, "declared: device.peak_flops");
    ASSERT_OK(plan_night(plain, &small, 0, NULL, &plan, &error), &error);
    ck_assert_double_eq(plan.roofline.peak_flops, 0);
    SCOPED_TEXT out;
    text_init(&out, 100000);
    plan_print(&plan, plain, &out);
    ck_assert_ptr_nonnull(
        strstr(text_string(&out), "unknown for this device and precision: not measured, not guessed"));
    OWNED(Json, json_free) *json = plan_to_json(&plan);
    ck_assert(json_is_null(json_find(json, "roofline.attainable")));
    ck_assert_str_eq(json_text_or(json_get(json, "schema"), ""), "fedgate.plan/1");
    ck_assert_int_eq(json_integer_or(json_find(json, "memory.microbatch"), 0), 256);
}
END_TEST

START_TEST(a_models_plan_is_shown_by_layer_with_its_window)
{
    Error error = ERROR_INIT;
    NightPlan plan;
    char slot[11];
    const PlanDevice card = {.context_bytes = 1000000};
    OWNED(Config, config_free) *config =
        WITH("window.zone=Europe/Berlin", "window.deadline=05:30", "train.microbatch=48");
    ASSERT_OK(plan_night(config, &small, &card, plan_device_peak("NVIDIA H200", "fp32"), &plan, &error),
              &error);
    plan.steps = 12345;
    plan.epochs = 20;
    plan.forecast_seconds = 61.25;
    ASSERT_OK(plan_deadline(config, INT64_C(1796000000000000000), &plan.deadline_wall_ns, slot, &error),
              &error);
    SCOPED_TEXT out;
    text_init(&out, 100000);
    plan_print(&plan, config, &out);
    static const char *const words[] = {
        "  weights ",
        "activations of microbatch 48 by layer",
        "hidden 2",
        "output",
        "48, as train.microbatch asks",
        "refused: microbatch 48 does not divide the batch of 256",
        "48 x 14 -> 8: FLOP 10,752",
        "12,345 at most, in 20 epochs",
        "61.2 s",
        "T05:30:00.000+01:00 (05:30 in Europe/Berlin)",
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        ck_assert_msg(strstr(text_string(&out), words[i]) != NULL, "no '%s' in\n%s", words[i],
                      text_string(&out));
    OWNED(Json, json_free) *json = plan_to_json(&plan);
    ck_assert_str_eq(json_text_or(json_find(json, "memory.refusal"), ""),
                     "microbatch 48 does not divide the batch of 256");
    ck_assert_int_eq(json_integer_or(json_get(json, "deadline_wall_ns"), 0), plan.deadline_wall_ns);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("plan");
    TCase *tests = tcase_create("plan");
    tcase_add_loop_test(tests, what_fits_is_planned_and_what_does_not_is_refused_with_both_figures, 0,
                        sizeof ledgers / sizeof ledgers[0]);
    tcase_add_test(tests, a_plan_without_anything_to_plan_is_refused);
    tcase_add_test(tests, equal_blocks_add_up_and_stop_being_resident_where_they_no_longer_fit);
    tcase_add_loop_test(tests, a_device_has_its_datasheet_peak_or_none, 0,
                        sizeof devices / sizeof devices[0]);
    tcase_add_test(tests, a_cpu_has_an_upper_bound_or_none);
    tcase_add_test(tests, the_roof_is_the_lower_of_peak_and_slope);
    tcase_add_test(tests, the_work_of_a_step_is_counted_product_by_product);
    tcase_add_test(tests, declared_peaks_win_over_the_table_and_unknown_stays_unknown);
    tcase_add_test(tests, a_models_plan_is_shown_by_layer_with_its_window);
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
