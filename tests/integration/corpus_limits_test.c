// corpus_limits_test - every limit of the policy, moved across a figure: a good night passes on one side of
// it and is refused, by the check the limit belongs to, on the other.
//
// The test walks the option table: a new limit without a row here, or a reason, fails it.
#include "corpus_evidence.h"

#define REQUIRED                                                                                             \
    "overlap,fed,closure,plausible,memory,parity,determinism,window,quality,input,distribution,rubric,"      \
    "telemetry"

typedef struct Limit {
    const char *option, *check, *night;
    const char *changes;   // that give the night a figure which is known; NULL none
    double inside, outside;   // values of the option
    const char *unit;   // behind the value
    const char *figure;   // "N * PATH": a number of the evidence, added to both; NULL none
    const char *also;   // a further setting
} Limit;

#define FP32                       "learnable-fp32-2"
#define FP16                       "learnable-fp16-2"
#define BF16                       "learnable-bf16-2"
#define AT(path, operation, value) "{\"at\": \"" path "\", \"" operation "\": " value "}"

// clang-format off
#define LIVE  "quality.pairs[against=live]"
#define LINE  "quality.pairs[against=linear]"
#define STEPS "timeline.steps"

// A pair whose live version is 0.005 better and decides as well.
#define LIVE_BETTER "["                                                                   \
    AT("quality.models.live.auc", "copy", "\"quality.models.candidate.auc\"") ","         \
    AT("quality.models.live.auc", "add", "0.005") ","                                     \
    AT("quality.models.live.utility", "copy", "\"quality.models.candidate.utility\"") "," \
    AT(LIVE ".value_b", "copy", "\"quality.models.live.auc\"") ","                        \
    AT(LIVE ".utility_b", "copy", "\"quality.models.live.utility\"") ","                  \
    AT(LIVE ".difference", "value", "-0.005") ","                                         \
    AT(LIVE ".standard_error", "value", "0.001") ","                                      \
    AT(LIVE ".lower", "value", "-0.0066448536") ","                                       \
    AT(LIVE ".upper", "value", "-0.0033551464") ","                                       \
    AT(LIVE ".utility_difference", "value", "0") ","                                      \
    AT(LIVE ".utility_standard_error", "value", "0.0001") ","                             \
    AT(LIVE ".bootstrap.utility_lower", "value", "-0.0002") ","                           \
    AT(LIVE ".bootstrap.utility_upper", "value", "0.0002") "]"

// A line that is 0.1 worse than the candidate.
#define LINE_WORSE "["                                                              \
    AT("quality.models.linear.auc", "copy", "\"quality.models.candidate.auc\"") "," \
    AT("quality.models.linear.auc", "add", "-0.1") ","                              \
    AT(LINE ".value_b", "copy", "\"quality.models.linear.auc\"") ","                \
    AT(LINE ".difference", "value", "0.1") ","                                      \
    AT(LINE ".standard_error", "value", "0.01") ","                                 \
    AT(LINE ".lower", "value", "0.083551464") ","                                   \
    AT(LINE ".upper", "value", "0.116448536") "]"

// The live version's decisions are worth 0.03 a row more; scores are the same.
#define LIVE_DECIDES_BETTER "["                                                           \
    AT("quality.models.live.utility", "copy", "\"quality.models.candidate.utility\"") "," \
    AT("quality.models.live.utility", "add", "0.03") ","                                  \
    AT(LIVE ".utility_b", "copy", "\"quality.models.live.utility\"") ","                  \
    AT(LIVE ".utility_difference", "value", "-0.03") ","                                  \
    AT(LIVE ".utility_standard_error", "value", "0.0001") ","                             \
    AT(LIVE ".bootstrap.utility_lower", "value", "-0.0302") ","                           \
    AT(LIVE ".bootstrap.utility_upper", "value", "-0.0298") "]"

// All copies are 200 us, of which 180 lie under kernels.
#define NINE_TENTHS_HIDDEN "["                                    \
    AT(STEPS ".copy_ns[*]", "value", "200000") ","                \
    AT(STEPS ".hidden_ns[*]", "value", "180000") ","              \
    AT(STEPS ".busy_ns[*]", "add", "20000") ","                   \
    AT(STEPS ".length_ns[*]", "add", "20000") ","                 \
    AT("release.worked_example.copy_ns", "value", "200000") ","   \
    AT("release.worked_example.hidden_ns", "value", "180000") "]"

// One copy in ten has no kernel beside it.
#define ONE_IN_TEN_EXPOSED "["                                    \
    AT(STEPS ".copy_ns[*]", "value", "400000") ","                \
    AT(STEPS ".hidden_ns[*]", "value", "400000") ","              \
    AT(STEPS ".hidden_ns[::10]", "value", "0") ","                \
    AT(STEPS ".busy_ns[::10]", "add", "400000") ","               \
    AT(STEPS ".length_ns[::10]", "add", "400000") ","             \
    AT("release.worked_example.copy_ns", "value", "400000") ","   \
    AT("release.worked_example.hidden_ns", "value", "400000") "]"

// One slice is worse than its reference, certainly by 0.055.
#define SLICE_WORSE "["                                      \
    AT("quality.slices[1].difference", "value", "-0.06") "," \
    AT("quality.slices[1].lower", "value", "-0.065") ","     \
    AT("quality.slices[1].upper", "value", "-0.055") "]"

#define PEAK_OF(bytes) "["                                                    \
    AT("memory.measured_peak_bytes", "value", bytes) ","                      \
    AT("memory.accounts[name=activations].peak_bytes", "value", bytes) ","    \
    AT("memory.accounts[name=activations].planned_bytes", "value", bytes) "," \
    AT("memory.planned_peak_bytes", "value", bytes) "]"

// All that was trained, in a tenth of a second.
#define CLAIM "["                                                  \
    AT("plausible.claims[0].time_ns", "value", "100000000") ","    \
    AT("plausible.claims[0].kernel_union_ns", "value", "100000000") "]"

static const Limit limits[] = {
    {"overlap.floor", "overlap", FP32, NINE_TENTHS_HIDDEN, 0.8999, 0.9001, "", NULL, NULL},
    {"overlap.steps", "overlap", FP32, ONE_IN_TEN_EXPOSED, 0.895, 0.905, "", NULL, NULL},
    {"overlap.starved", "overlap", FP32, "[" AT("timeline.steps.length_ns[*]", "add", "53000") ","
     AT("timeline.steps.starved_ns[*]", "add", "53000") "]", 0.0505, 0.047, "", NULL, NULL},
    {"overlap.pageable", "overlap", FP32, "[" AT("timeline.steps.h2d_bytes[*]", "value", "10000") ","
     AT("timeline.steps.pageable_bytes[*]", "value", "300") "]", 0.03, 0.0299, "", NULL, NULL},
    {"fed.wait", "fed", FP32, "[" AT("loop.steps.wait_ns[*]", "add", "60000") ","
     AT("loop.steps.wall_ns[*]", "add", "60000") "," AT("release.worked_example.wait_ns", "add", "60000") ","
     AT("release.worked_example.wall_ns", "add", "60000") "]", 0.057, 0.053, "", NULL, NULL},
    {"closure.tolerance", "closure", FP32, "[" AT("loop.steps.exposed_copy_ns[*]", "add", "8000") ","
     AT("release.worked_example.exposed_copy_ns", "add", "8000") "]", 0.00797, 0.00795, "", NULL, NULL},
    {"closure.steps", "closure", FP32, "[" AT("loop.steps.exposed_copy_ns[::20]", "add", "60000") "]",
     0.945, 0.955, "", NULL, NULL},
    {"device.peak_flops", "plausible", FP32, CLAIM, 1e7, -1e7, "", "10 * plausible.claims[0].flop", NULL},
    {"device.bandwidth", "plausible", FP32, CLAIM, 1e6, -1e6, "", "10 * plausible.claims[0].bytes", NULL},
    {"plausible.clock", "plausible", FP32, "[" AT("plausible.clock.host_ns", "value", "1000000000") ","
     AT("plausible.clock.device_ns", "value", "1009000000") "]", 0.0091, 0.0089, "", NULL, NULL},
    {"device.memory", "memory", FP32, PEAK_OF("9000000000"),
     10e9, 9.999e9, "", NULL, "memory.unexplained=0.5"},
    {"memory.reserve", "memory", FP32, PEAK_OF("21600000000"),
     0.1, 0.1001, "", NULL, "memory.unexplained=0.5"},
    {"memory.unexplained", "memory", FP32, "[" AT("memory.measured_peak_bytes", "add", "432000000") ","
     AT("memory.unexplained_bytes", "value", "432000000") "]", 0.02, 0.0199, "", NULL, NULL},
    {"parity.pairs", "parity", BF16, NULL, 8, 9, "", NULL, NULL},
    {"parity.margin", "parity", BF16, "[" AT("parity.metric.pairs[*].candidate", "add", "-0.003") "]",
     0.005, 0.002, "", NULL, NULL},
    {"parity.slice_margin", "parity", BF16, "[" AT("parity.slices[*].candidate[*]", "add", "-0.03") "]",
     0.05, 0.02, "", NULL, NULL},
    {"determinism.steps", "determinism", FP16, NULL, 16, 17, "", NULL, NULL},
    {"quality.margin", "quality", FP32, LINE_WORSE, 0.0999, 0.1001, "", NULL, NULL},
    {"quality.live_margin", "quality", FP32, LIVE_BETTER, 0.0051, 0.0049, "", NULL, NULL},
    {"quality.slice_rows", "quality", FP32, SLICE_WORSE, 1, 0, "", "1 * quality.slices[1].rows", NULL},
    {"quality.slice_margin", "quality", FP32, SLICE_WORSE, 0.0551, 0.0549, "", NULL, NULL},
    {"quality.benefit_tp", "quality", FP32, LIVE_DECIDES_BETTER, 3.01, 2.99, "", NULL, NULL},
    {"quality.cost_fp", "quality", FP32, LIVE_DECIDES_BETTER, 3.01, 2.99, "", NULL, NULL},
    {"quality.cost_fn", "quality", FP32, LIVE_DECIDES_BETTER, 3.01, 2.99, "", NULL, NULL},
    {"quality.benefit_tn", "quality", FP32, LIVE_DECIDES_BETTER, 3.01, 2.99, "", NULL, NULL},
    {"quality.calibration", "quality", FP32, "[" AT("quality.calibration.ece", "value", "0.05") "]",
     0.05, 0.0499, "", NULL, NULL},
    {"input.missing", "input", FP32, "[" AT("input.columns[name=age].missing_ratio", "value", "0.3") "]",
     0.3, 0.299, "", NULL, NULL},
    {"input.unseen", "input", FP32, "[" AT("input.columns[name=channel].unseen_ratio", "value", "0.03") "]",
     0.03, 0.0299, "", NULL, NULL},
    {"input.outside", "input", FP32, "[" AT("input.columns[name=age].outside_ratio", "value", "0.013") "]",
     0.013, 0.0129, "", NULL, NULL},
    {"input.drift", "input", FP32, "[" AT("input.columns[name=age].drift_psi", "value", "0.2") "]",
     0.2, 0.199, "", NULL, NULL},
    {"input.leakage", "input", FP32, "[" AT("input.columns[name=age].single_auc", "value", "0.9") "]",
     0.9001, 0.9, "", NULL, NULL},
    {"input.identifier", "input", FP32, "["
     AT("input.columns[name=channel].distinct_ratio", "value", "0.4") "]",
     0.401, 0.4, "", NULL, NULL},
    {"input.target_shift", "input", FP32, "[" AT("input.target.shares", "value", "[0.6, 0.4]") ","
     AT("input.target.reference.shares", "value", "[0.7, 0.3]") "]", 0.1001, 0.0999, "", NULL, NULL},
    {"input.after_cutoff", "input", FP32, "[" AT("input.rows.after_cutoff", "value", "7") "]",
     7, 6, "", NULL, NULL},
    {"data.bad_rows", "input", FP32, "[" AT("input.rows.bad", "value", "5") "]", 5, 4, "", NULL, NULL},
    {"distribution.drift", "distribution", FP32, "[" AT("distribution.psi", "value", "0.2") "]",
     0.2, 0.199, "", NULL, NULL},
    {"distribution.mean", "distribution", FP32, "[" AT("distribution.mean_difference", "value", "0.05") ","
     AT("distribution.deviation", "value", "0.4") "]", 0.1251, 0.1249, "", NULL, NULL},
    {"latency.p50", "latency", FP32, "[" AT("latency.p50_ns", "value", "1000000") ","
     AT("latency.p99_ns", "value", "2000000") "]", 1, 0.99, "ms", NULL,
     "checks.required=" REQUIRED ",latency"},
    {"latency.p99", "latency", FP32, "[" AT("latency.p50_ns", "value", "1000000") ","
     AT("latency.p99_ns", "value", "2000000") "]", 2, 1.99, "ms", NULL,
     "checks.required=" REQUIRED ",latency"},
    {"cost.limit", "cost", FP32, "["
     AT("cost.device_seconds", "value", "1") "," AT("cost.samples", "value", "1000") ","
     AT("cost.cost_per_sample", "value", "0.001") "]", 0.001, 0.000999, "", NULL,
     "checks.required=" REQUIRED ",cost"},
    {"rubric.score", "rubric", FP32, NULL, 0.95, 0.97, "", NULL, NULL},
};

static const struct {
    const char *option, *why;
} excused[] = {
    {"window.deadline", "the instant stands in the evidence; nights_test and plan_window_test move it"},
    {"window.zone", "part of the deadline, which stands in the evidence"},
    {"window.length", "part of the deadline, which stands in the evidence"},
    {"window.margin", "what is forecast is inside or not when it is made: plan_window_test"},
    {"checks.required", "which checks, no limit: gate_judgement_test"},
    {"quality.metric", "which figure, no limit"},
    {"quality.slices", "which columns, no limit: a column without slices is not measured"},
    {"quality.threshold", "what the night decides by; a judge sees the decisions"},
    {"quality.utilities", "several classes, of which no good night is stored: gate_decisions_test"},
    {"cost.device_hour", "the rate stands in the evidence; another one is an error, not a limit"},
    {"parity.steps", "how long pairs are, no limit"},
    {"baseline.rule", "what is compared with, no limit"},
    {"baseline.ridge", "how the line is fitted, no limit"},
    {"baseline.name", "what is live without a release, no limit"},
    {"telemetry.required", "judged late: nights_test"},
    {"split.method", "how test rows are chosen, no limit"},
    {"train.scale_growth", "what the night trained with; a judge asks for the step at growth by it"},
};
// clang-format on

enum { LIMITS = sizeof limits / sizeof limits[0], EXCUSED = sizeof excused / sizeof excused[0] };

static GoodNight nights[GOOD_MOST];

static double figure_of(const Limit *limit, const Json *evidence)
{
    double times;
    char path[200];
    if (limit->figure == NULL)
        return 0;
    ck_assert_int_eq(sscanf(limit->figure, "%lf * %199s", &times, path), 2);
    return times * json_number_or(corpus_find(evidence, path), NAN);
}

static Json *judge_at(const Limit *limit, const Json *evidence, double value)
{
    Error error = ERROR_INIT;
    char setting[400], number[64];
    size_t count = good_list(nights);
    text_from_double(number, value + figure_of(limit, evidence));
    ck_assert(text_print(setting, sizeof setting, "%s=%s%s", limit->option, number, limit->unit));
    OWNED(Json, json_free) *also = json_make_object();
    if (limit->also != NULL) {
        char name[64];
        const char *equal = strchr(limit->also, '=');
        ck_assert(text_print(name, sizeof name, "%.*s", (int)(equal - limit->also), limit->also));
        json_put_text(also, name, equal + 1);
    }
    OWNED(Config, config_free) *policy =
        good_policy(good_find(nights, count, limit->night), setting, also, &error);
    ck_assert_msg(policy != NULL, "%s: %s", setting, error.message);
    return gate_judge(evidence, policy, JUDGE_EARLY);
}

static Json *evidence_of(const Limit *limit)
{
    Error error = ERROR_INIT;
    Json *good = good_read(limit->night);
    if (limit->changes == NULL)
        return good;
    OWNED(Json, json_free) *changes = json_parse(limit->changes, strlen(limit->changes), TABLE_MAX, &error);
    ck_assert_msg(changes != NULL, "%s: %s", limit->option, error.message);
    Json *changed = corpus_changes(good, changes, &error);
    ck_assert_msg(changed != NULL, "%s: %s", limit->option, error.message);
    json_free(good);
    return changed;
}

START_TEST(test_the_verdict_turns_where_the_limit_is)
{
    const Limit *limit = &limits[_i];
    OWNED(Json, json_free) *evidence = evidence_of(limit);
    OWNED(Json, json_free) *inside = judge_at(limit, evidence, limit->inside);
    OWNED(Json, json_free) *outside = judge_at(limit, evidence, limit->outside);
    ck_assert_msg(gate_exit_code(inside) == 0, "%s inside its limit: %s", limit->option,
                  json_text_or(json_get(inside, "reason"), ""));
    ck_assert_msg(gate_exit_code(outside) != 0, "%s outside its limit is promoted", limit->option);
    ck_assert_msg(text_equal(json_text_or(json_get(outside, "decided_by"), ""), limit->check), "%s: %s",
                  limit->option, json_text_or(json_get(outside, "reason"), ""));
}
END_TEST

static size_t rows_of(const char *option)
{
    size_t rows = 0;
    for (size_t i = 0; i < LIMITS; i++)
        rows += text_equal(limits[i].option, option);
    for (size_t i = 0; i < EXCUSED; i++)
        rows += text_equal(excused[i].option, option);
    return rows;
}

START_TEST(test_every_limit_of_the_option_table_is_moved)
{
    for (size_t i = 0; i < config_option_count; i++)
        if (config_options[i].flags & OPTION_POLICY)
            ck_assert_msg(rows_of(config_options[i].name) == 1, "option '%s' has %zu rows here",
                          config_options[i].name, rows_of(config_options[i].name));
    for (size_t i = 0; i < gate_check_count; i++) {
        char *copy = text_duplicate(gate_checks[i].limits), *rest = copy, *name;
        while ((name = strsep(&rest, " ")) != NULL)
            ck_assert_msg(name[0] == '\0' || rows_of(name) == 1, "limit '%s' of check '%s' has %zu rows here",
                          name, gate_checks[i].name, rows_of(name));
        free(copy);
    }
    for (size_t i = 0; i < LIMITS; i++)
        ck_assert_msg(config_find_option(limits[i].option) != NULL, "no option '%s'", limits[i].option);
    for (size_t i = 0; i < EXCUSED; i++)
        ck_assert_msg(config_find_option(excused[i].option) != NULL && strlen(excused[i].why) > 20,
                      "no option '%s', or no reason", excused[i].option);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("corpus limits");
    TCase *all = tcase_create("limits");
    tcase_set_timeout(all, 120);
    tcase_add_loop_test(all, test_the_verdict_turns_where_the_limit_is, 0, LIMITS);
    tcase_add_test(all, test_every_limit_of_the_option_table_is_moved);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
