// gate_fixture.h - one good night as evidence, edits that spoil it, and rows that say what a judge must
// answer.
#ifndef FEDGATE_GATE_FIXTURE_H
#define FEDGATE_GATE_FIXTURE_H

#include <fedgate/gate.h>
#include <fedgate/text.h>

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// -- evidence by edits: {dotted path, value}. A value is JSON, "@N:A" (N times A) or "@N:A+B" (A, A+B, ...);
// NULL removes.
typedef struct Edit {
    const char *path, *value;
} Edit;

static inline Json *parse_value(const char *value)
{
    long long count = 0;
    double first = 0;
    double step = 0;
    long long zeros = 0;
    if (value[0] == '@') {
        ck_assert_int_ge(sscanf(value, "@%lld:%lf%lf!%lld", &count, &first, &step, &zeros), 2);
        Json *array = json_make_array();
        for (long long i = 0; i < count; i++) {
            json_add_integer(array, i >= count - zeros ? 0 : (int64_t)(first + step * (double)i));
        }
        return array;
    }
    SCOPED_TEXT wrapped = {0};
    text_init(&wrapped, 100000);
    text_add_format(&wrapped, "{\"v\":%s}", value);
    Error error = ERROR_INIT;
    Json *object = json_parse(text_string(&wrapped), wrapped.length, 100000, &error);
    ck_assert_msg(object != NULL, "%s: %s", value, error.message);
    Json *copy = json_copy_deep(json_get(object, "v"));
    json_free(object);
    return copy;
}

static inline void apply(Json *root, const Edit *edit)
{
    char path[128];
    ck_assert(text_copy(path, sizeof path, edit->path));
    Json *at = root;
    char *rest = path;
    char *dot = NULL;
    while ((dot = strchr(rest, '.')) != NULL) {
        *dot = '\0';
        const Json *next = NULL;
        if (json_is_array(at)) {
            next = json_at(at, (size_t)strtoul(rest, NULL, 10));
            ck_assert_ptr_nonnull(next);
        } else {
            if (json_get(at, rest) == NULL) {
                json_put(at, rest, json_make_object());
            }
            next = json_get(at, rest);
        }
        at = (Json *)(uintptr_t)next;
        rest = dot + 1;
    }
    if (edit->value == NULL) {
        json_remove(at, rest);
    } else {
        json_put(at, rest, parse_value(edit->value));
    }
}

#define PAIR(against, b, difference, error, lower, upper)                                                    \
    "{\"against\":\"" against "\",\"value_a\":0.91,\"value_b\":" b ",\"difference\":" difference             \
    ",\"standard_error\":" error ",\"lower\":" lower ",\"upper\":" upper                                     \
    ",\"rows\":1000,\"identical\":false,"                                                                    \
    "\"constant\":false,\"utility_a\":0.12,\"utility_b\":0.1,\"utility_difference\":0.02,"                   \
    "\"utility_standard_error\":0.004,\"bootstrap\":{\"replicates\":400,\"lower\":" lower                    \
    ",\"upper\":" upper ",\"utility_lower\":0.014,\"utility_upper\":0.026}}"
#define COLUMN(name, role)                                                                                   \
    "{\"name\":\"" name "\",\"role\":\"" role                                                                \
    "\",\"missing_ratio\":0.01,\"unseen_ratio\":0.001,\"outside_ratio\":0,"                                  \
    "\"constant\":false,\"single_auc\":0.7,\"distinct_ratio\":0.1,\"order_ratio\":0.5}"
#define DIGEST_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define DIGEST_B "abababababababababababababababababababababababababababababababab"
#define REPLAY(from)                                                                                         \
    "{\"from_step\":" from ",\"steps\":16,\"tensors\":[{\"name\":\"w\",\"first\":\"" DIGEST_A                \
    "\",\"again\":\"" DIGEST_A "\"}]}"

#define PROBED(name, error)                                                                                  \
    "{\"name\":\"" name "\",\"shape\":\"8x8\",\"error\":" error ",\"limit\":1e-5,\"unit\":\"relative\"}"

#define ACCOUNT(name, kind, planned, peak, live)                                                             \
    "{\"name\":\"" name "\",\"kind\":\"" kind "\",\"planned_bytes\":" planned ",\"peak_bytes\":" peak        \
    ",\"live_bytes\":" live "}"
#define PROVEN(check)        "\"" check ".absent\",\"" check ".planted\""
#define WORKED(name, actual) "{\"name\":\"" name "\",\"actual\":" actual "}"
#define FORECAST(step, at, end, upper, blocks)                                                               \
    "{\"at_step\":" step ",\"inside\":true,\"at_wall_ns\":" at ",\"end_wall_ns\":" end                       \
    ",\"end_upper_wall_ns\":" upper ",\"blocks\":" blocks "}"

// 80 steps of 1 ms. Index 0 of each array of objects is what single rows spoil.
static const Edit good[] = {
    {"schema", "\"fedgate.evidence/1\""},
    {"model", "\"m\""},
    {"run", "\"r\""},
    {"version", "\"m-0123456789abcdef\""},
    {"device_class", "\"cpu\""},
    {"selftest",
     "{\"refused\":[" PROVEN("overlap") "," PROVEN("fed") "," PROVEN("plausible") "," PROVEN("closure") ","
     "" PROVEN("memory") "," PROVEN("parity") "," PROVEN("determinism") "," PROVEN(
         "window") "," PROVEN("quality") "," PROVEN("input") "," PROVEN("distributi"
                                                                        "on") "," PROVEN("cost") ","
                                                                        "" PROVEN("latency") ","
                                                                        "" PROVEN("rubric") ","
                                                                        "" PROVEN("telemetry") "],"
                                                                        "\"passed\":[]}"},
    {"precision", "\"fp32\""},
    {"task", "\"binary\""},
    {"timeline.source", "\"cpu staging thread\""},
    {"timeline.resident", "false"},
    {"timeline.step_marks", "true"},
    {"timeline.steps.index", "@80:0+1"},
    {"timeline.steps.length_ns", "@80:1000000"},
    {"timeline.steps.copy_ns", "@80:200000"},
    {"timeline.steps.hidden_ns", "@80:190000"},
    {"timeline.steps.kernel_ns", "@80:700000"},
    {"timeline.steps.busy_ns", "@80:930000"},
    {"timeline.steps.starved_ns", "@80:10000"},
    {"timeline.steps.wait_ns", "@80:5000"},
    {"timeline.steps.h2d_bytes", "@80:33792"},
    {"timeline.steps.pageable_bytes", "@80:0"},
    {"timeline.trust.dropped", "0"},
    {"timeline.trust.zero_timestamps", "0"},
    {"timeline.trust.causality", "0"},
    {"timeline.trust.reasons", "[]"},
    {"loop.steps.index", "@80:0+1"},
    {"loop.steps.wall_ns", "@80:1000000"},
    {"loop.steps.wait_ns", "@80:10000"},
    {"loop.steps.exposed_copy_ns", "@80:10000"},
    {"loop.steps.compute_ns", "@80:900000"},
    {"loop.steps.rest.optimizer", "@80:78000"},
    {"loop.steps.rest.wait_lock", "@80:1000"},
    {"stages", "[{\"name\":\"decode\",\"busy_ns\":1500000000,\"items\":80,\"threads\":2},"
               "{\"name\":\"compute\",\"busy_ns\":9,\"items\":80,\"threads\":1}]"},
    {"limiting_stage", "\"decode\""},
    {"plausible.device", "\"cpu\""},
    {"plausible.precision", "\"fp32\""},
    {"plausible.cores", "4"},
    {"plausible.peak_flops", "1e12"},
    {"plausible.bandwidth", "0"},
    {"plausible.claims",
     // 3 -> 256 -> 128 -> 1, 7000 rows: row FLOP 2 (3 256 + 256 128 + 128) forward, and as many again for the
     // gradients of weights, and of inputs but the first layer's
     "[{\"name\":\"forward\",\"flop\":471296000,\"bytes\":32388480,\"time_ns\":10000000,"
     "\"kernel_union_ns\":9000000,\"count\":80},{\"name\":\"backward\",\"flop\":931840000,"
     "\"bytes\":57279200,\"time_ns\":10000000,\"kernel_union_ns\":9000000,\"count\":80}]"},
    {"plausible.shape", "{\"numeric\":3,\"embedding\":[],\"hidden\":[256,128],\"outputs\":1,"
                        "\"element_bytes\":4,\"batch\":256}"},
    {"plausible.clock", "{\"host_ns\":1000000000,\"device_ns\":1000000001}"},
    {"memory.device_bytes", "24000000000"},
    {"memory.reserve", "0.1"},
    {"memory.budget_bytes", "21600000000"},
    {"memory.planned_peak_bytes", "14080000000"},
    {"memory.measured_peak_bytes", "14000000000"},
    {"memory.context_bytes", "500000000"},
    {"memory.unexplained_bytes", "0"},
    {"memory.accounts", "[" ACCOUNT("weights", "device", "0", "13600000000",
                                    "0") "," ACCOUNT("rows", "host", "0", "99", "0") "]"},
    {"memory.live.phase", "\"step begin\""},
    {"memory.live.index", "@80:0+1"},
    {"memory.live.bytes", "@80:13000000000"},
    {"memory.series.index", "@20:3+4"},
    {"memory.series.live_bytes", "@20:13000000000"},
    {"memory.series.workspace_bytes", "@20:1000"},
    {"memory.series.arena_peak_bytes", "@20:13500000000"},
    {"memory.series.largest_free_bytes", "@20:400000000"},
    {"memory.rehearsal", "{\"ok\":true,\"peak_bytes\":14000000000}"},
    {"parity.precision", "\"fp32\""},
    {"parity.reference", "\"float64\""},
    {"parity.probes",
     "[" PROBED("values below TF32 resolution", "2e-7") "," PROBED("long reduction", "3e-7") "," PROBED(
         "values below TF32 resolution, one output",
         "1e-7") "," PROBED("values below TF32 resolution, weight gradient",
                            "1e-7") "," PROBED("values below TF32 resolution, input gradient",
                                               "1e-7") "," PROBED("layer", "1e-7") "]"},
    {"determinism.replays", "[" REPLAY("0") "," REPLAY("40") "]"},
    {"determinism.order", "{\"epochs\":3,\"steps_per_epoch\":20,\"rows\":700,"
                          "\"expected_rows\":700,\"digest\":\"00ff\","
                          "\"expected_digest\":\"00ff\"}"},
    {"window.started", "\"2027-01-15T07:00:00.000+00:00\""},
    {"window.deadline", "\"2027-01-15T08:01:00.000+00:00\""},
    {"window.planned_steps", "80"},
    {"window.done_steps", "80"},
    {"window.stopped_early", "false"},
    {"window.end_reason", "\"planned\""},
    {"window.forecasts",
     "[" FORECAST("0", "1799999900000000000", "1800000000000000000", "1800000000000000000", "0") "," FORECAST(
         "40", "1799999950000000000", "1800000000000000000", "1800000010000000000", "4") "]"},
    {"window.blocks", "{\"steps\":10,\"seconds\":[10,10.1,10,10.1,10,10.1,10,10]}"},
    {"window.now_wall_ns", "1800000000000000000"},
    {"window.ended_wall_ns", "1800000005000000000"},
    {"window.deadline_wall_ns", "1800000060000000000"},
    {"quality.metric", "\"auc\""},
    {"quality.rows", "1000"},
    {"quality.live_kind", "\"none\""},
    {"quality.models.candidate.version", "\"m-0123456789abcdef\""},
    {"quality.models.candidate.auc", "0.91"},
    {"quality.models.candidate.utility", "0.12"},
    {"quality.models.prior", "{\"auc\":0.5,\"utility\":0.1}"},
    {"quality.models.linear", "{\"auc\":0.9,\"utility\":0.1}"},
    {"quality.pairs", "[" PAIR("prior", "0.5", "0.41", "0.01", "0.39355146373", "0.42644853627") "," PAIR(
                          "linear", "0.9", "0.01", "0.002", "0.006710292747", "0.013289707253") "]"},
    {"quality.slices", "[]"},
    {"quality.invalid", "[]"},
    {"quality.calibration.ece", "0.02"},
    {"input.rows", "{\"train\":700,\"validation\":100,\"test\":1000,\"after_cutoff\":0,\"bad\":0}"},
    {"input.columns",
     "[" COLUMN("age", "numeric") "," COLUMN("job", "categorical") "," COLUMN("y", "target") "]"},
    {"input.split", "{\"method\":\"hash\",\"train\":[0,1799],\"validation\":[4,1790],\"test\":[1,1798]}"},
    {"input.slices", "[]"},
    {"input.forbidden_used", "[]"},
    {"input.schema_changes", "[]"},
    {"input.reference_version", "null"},
    {"distribution.live_kind", "\"none\""},
    {"latency", "{\"calls\":200,\"rows_per_call\":1,\"p50_ns\":20000,\"p99_ns\":50000}"},
    {"cost", "{\"device_seconds\":7,\"samples\":14000,\"cost_per_sample\":5e-4,"
             "\"unit\":\"device second\",\"rate_per_hour\":0}"},
    {"release.worked_example", "{\"step\":7,\"wall_ns\":1000000,\"wait_ns\":10000,\"exposed_copy_ns\":10000,"
                               "\"compute_ns\":900000,\"rest_ns\":79000,\"copy_ns\":200000,"
                               "\"hidden_ns\":190000}"},
    // clang-format off
    {"release.formal", "["
     WORKED("ledger: budget", "21.6") ","
     WORKED("ledger: available", "18.4") ","
     WORKED("ledger: largest microbatch", "54") ","
     WORKED("ledger: 54 samples", "21.56") ","
     WORKED("ledger: 55 samples", "21.90") ","
     WORKED("ledger: activations of microbatch 16", "5.44") ","
     WORKED("ledger: microbatch 16", "8.64") ","
     WORKED("ledger: microbatch 64", "24.96") ","
     WORKED("ledger: microbatch 64 is refused", "1") ","
     WORKED("ledger: microbatch of a batch of 256", "32") ","
     WORKED("ledger: accumulation of a batch of 256", "8") ","
     WORKED("ledger: batch of 256", "14.08") ","
     WORKED("roofline: ridge", "206.25") ","
     WORKED("roofline: FLOP of a layer", "4194304") ","
     WORKED("roofline: bytes of a layer", "163840") ","
     WORKED("roofline: intensity", "25.6") ","
     WORKED("roofline: attainable", "122.88") ","
     WORKED("overlap: copies [0,4) [6,10), kernels [2,8)", "0.5") ","
     WORKED("closure: 9.999 us of 1 ms missing", "1") ","
     WORKED("closure: 10.001 us of 1 ms missing", "0") "]"},
    // clang-format on
    {"release.fallback", "{\"kind\":\"baseline\",\"version\":\"m-1\",\"verified\":true}"},
    {"release.owner", "\"owner\""},
    {"release.simulation", "null"},
    {"telemetry", "{\"rows\":120,\"acknowledged\":120}"},
};

static inline Json *good_evidence(void)
{
    Json *evidence = json_make_object();
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        apply(evidence, &good[i]);
    }
    return evidence;
}

static inline Config *load_policy(const char *const sets[2])
{
    Error error = ERROR_INIT;
    const char *all[4] = {"model=m", "data.target=y", sets[0], sets[1]};
    size_t count = sets[0] == NULL ? 2 : sets[1] == NULL ? 3 : 4;
    Config *policy = config_load(NULL, all, count, NULL, &error);
    ck_assert_msg(policy != NULL, "%s", error.message);
    return policy;
}

enum { EDITS_MOST = 6 };
typedef struct Row {
    const char *sentence;   // what is shown
    const char *check;
    Edit edits[EDITS_MOST];
    Outcome outcome;
    const char *reason;   // part of the reason
    const char *sets[2];   // policy
} Row;

static inline void judge_row(const Row *row)
{
    OWNED(Json, json_free) *evidence = good_evidence();
    OWNED(Config, config_free) *policy = load_policy(row->sets);
    for (size_t i = 0; i < EDITS_MOST && row->edits[i].path != NULL; i++) {
        apply(evidence, &row->edits[i]);
    }
    const GateCheck *check = gate_find_check(row->check);
    ck_assert_ptr_nonnull(check);
    Finding finding = {0};
    Finding before[32] = {{0}};
    for (size_t i = 0; check->judge_after != NULL && &gate_checks[i] != check; i++) {
        gate_checks[i].judge(evidence, policy, &before[i]);
    }
    if (check->judge_after != NULL) {
        check->judge_after(evidence, policy, before, &finding);
    } else {
        check->judge(evidence, policy, &finding);
    }
    if (check->judge_late != NULL && finding.outcome == OUTCOME_PASS) {
        check->judge_late(evidence, policy, &finding);
    }
    ck_assert_msg(finding.outcome == row->outcome && strstr(finding.reason, row->reason) != NULL,
                  "%s: %s: %s: '%s', wanted %s: '%s'", row->check, row->sentence,
                  gate_outcome_name(finding.outcome), finding.reason, gate_outcome_name(row->outcome),
                  row->reason);
    ck_assert(finding.reason[0] != '\0' && finding.unit != NULL);
    if (finding.outcome == OUTCOME_PASS) {
        ck_assert(isfinite(finding.value) && isfinite(finding.limit) && finding.n > 0);
    }
}

#define PASS           OUTCOME_PASS
#define FAILS          OUTCOME_FAIL
#define ERR            OUTCOME_ERROR
#define ABSENT         OUTCOME_NOT_MEASURED
#define UNSURE         OUTCOME_INCONCLUSIVE
#define NOT_APPLICABLE OUTCOME_NOT_APPLICABLE

#define COUNT(rows) (int)(sizeof(rows) / sizeof(rows)[0])
#define ROW_TEST(name, rows)                                                                                 \
    START_TEST(name)                                                                                         \
    {                                                                                                        \
        judge_row(&(rows)[_i]);                                                                              \
    }                                                                                                        \
    END_TEST

static inline int run_suite(Suite *suite)
{
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}

#endif
