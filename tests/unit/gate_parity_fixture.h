// gate_parity_fixture.h - one good night in BF16 and one in FP16 as evidence of parity, and rows that spoil
// them.
#ifndef FEDGATE_GATE_PARITY_FIXTURE_H
#define FEDGATE_GATE_PARITY_FIXTURE_H

#include "gate_fixture.h"

typedef enum Nights { BF16, FP16, BOTH, FP32 } Nights;   // the first two index values of a pair

// Objects of the evidence, one a line.
// clang-format off
#define OPERATION(name, reduction, error, reference) \
    "{\"name\":\"" name "\",\"shape\":\"64x64\",\"reduction\":" reduction ",\"error\":" error \
    ",\"reference_error\":" reference "}"
#define TENSOR(name, norm, error, cosine, reference) \
    "{\"name\":\"" name "\",\"norm\":" norm ",\"noise\":0.05,\"error\":" error \
    ",\"cosine\":" cosine ",\"reference_error\":" reference "}"
#define TENSORS_AT(w1, w2, b1, error, cosine) "[" TENSOR("w1", w1, error, cosine, "4e-7") "," \
    TENSOR("w2", w2, error, cosine, "3e-7") "," TENSOR("b1", b1, error, cosine, "9e-7") "," \
    TENSOR("off", "0", "0", "\"nan\"", "0") "]"
#define TENSORS(error, cosine) TENSORS_AT("0.5", "0.25", "0.1", error, cosine)
#define GRADIENTS(error, cosine) \
    "[{\"at\":\"start\",\"step\":0,\"rows\":128,\"tensors\":" TENSORS(error, cosine) \
    "},{\"at\":\"trained\",\"step\":900,\"rows\":128,\"tensors\":" \
    TENSORS_AT("0.51", "0.24", "0.09", error, cosine) "}]"
#define STEP(at, error, ratio, before, after) "{\"at\":\"" at "\",\"step\":4,\"update_error\":" error \
    ",\"moved\":0.98,\"moved_reference\":0.981,\"moment_ratio\":" ratio ",\"representable\":0.02" \
    ",\"scale_before\":" before ",\"scale_after\":" after ",\"scale_expected\":" after ",\"applied\":true}"
#define CONTROL(name, error) "{\"name\":\"" name "\",\"error\":" error "}"
#define SERIES(kind, seed, ratios) \
    "{\"kind\":\"" kind "\",\"seed\":" seed ",\"log_ratio\":[" ratios "]}"
#define METRIC_PAIR(seed, reference, candidate) \
    "{\"seed\":" seed ",\"run\":\"r\",\"reference\":" reference ",\"candidate\":" candidate "}"
#define GOOD_PAIRS \
    METRIC_PAIR("1", "0.910", "0.9105") "," METRIC_PAIR("2", "0.912", "0.9117") "," \
    METRIC_PAIR("3", "0.908", "0.9081") "," METRIC_PAIR("4", "0.911", "0.9106") "," \
    METRIC_PAIR("5", "0.909", "0.9092") "," METRIC_PAIR("6", "0.913", "0.9128") "," \
    METRIC_PAIR("7", "0.907", "0.9073") "," METRIC_PAIR("8", "0.914", "0.9137")
#define REPLAYED(name) "{\"name\":\"" name "\",\"first\":\"" DIGEST_A "\",\"again\":\"" DIGEST_A "\"}"
#define REPLAY_OF(from) \
    "{\"from_step\":" from ",\"steps\":20,\"tensors\":[" REPLAYED("w1") "," REPLAYED("w2") "," \
    REPLAYED("b1") "," REPLAYED("off") "]}"
// What a pass does but for the first three.
#define MORE_OPERATIONS(error) \
    OPERATION("dense, one output", "256", error, "5e-8") "," \
    OPERATION("dense, large values", "64", error, "5e-8") "," \
    OPERATION("dense, cancelling outputs", "256", error, "5e-8") "," \
    OPERATION("weight gradient", "256", error, "5e-8") "," \
    OPERATION("bias gradient", "256", error, "5e-8") "," \
    OPERATION("input gradient with mask", "256", error, "5e-8") "," \
    OPERATION("embedding gradient", "256", error, "5e-8") "," \
    OPERATION("optimizer, zero gradient", "256", error, "5e-8") "," \
    OPERATION("loss sum, classes", "32768", "2e-8", "2e-8") "," \
    OPERATION("loss sum, square", "32768", "2e-8", "2e-8")
#define OPERATIONS(dense, assemble, other) \
    {"parity.operations", "[" OPERATION("dense", "256", dense, "5e-8") "," \
     OPERATION("assemble", "1", assemble, "0") "," \
     OPERATION("loss sum, binary", "32768", "2e-8", "2e-8") "," MORE_OPERATIONS(other) "]"}
#define CANDIDATES(ratios) \
    SERIES("candidate", "1", ratios) "," SERIES("candidate", "2", ratios) "," \
    SERIES("candidate", "3", ratios) "," SERIES("candidate", "4", ratios) "," \
    SERIES("candidate", "5", ratios) "," SERIES("candidate", "6", ratios) "," \
    SERIES("candidate", "7", ratios) "," SERIES("candidate", "8", ratios)
#define SLICE(value, rows, positives, reference, candidate) \
    "{\"column\":\"job\",\"value\":\"" value "\",\"rows\":" rows ",\"positives\":" positives \
    ",\"reference\":[" reference "],\"candidate\":[" candidate "]}"
#define EIGHT(a, b) a "," b "," a "," b "," a "," b "," a "," b
#define NULLS_OF(up, down) \
    SERIES("seed", "1", up) "," SERIES("seed", "2", down) "," SERIES("seed", "3", up) "," \
    SERIES("seed", "4", down) "," SERIES("seed", "5", up) "," SERIES("seed", "6", down) "," \
    SERIES("seed", "7", up) "," SERIES("seed", "8", down)
#define SCALE(grows, initial, final, smallest, applied, skipped, longest, grown, lowered) \
    "{\"initial\":" initial ",\"final\":" final ",\"smallest\":" smallest ",\"attempted\":900" \
    ",\"applied\":" applied ",\"skipped\":" skipped ",\"schedule\":" applied ",\"longest\":" longest \
    ",\"at_floor\":0,\"bad_losses\":0,\"grown\":" grown ",\"lowered\":" lowered ",\"grows\":" grows \
    ",\"stopped\":false}"

// Index 0 and 1 of each array of objects is what single rows spoil.
static const Edit half_of_both[] = {
    {"parity.controls", "[" CONTROL("shuffled gradient", "1.41") "," CONTROL("zeroed gradient", "1") "]"},
    {"parity.trajectory.steps", "400"},
    {"parity.trajectory.block", "100"},
    {"parity.trajectory.pairs",
     "[" SERIES("candidate", "1", "0.0001,0.0004,0.0009,0.002") ","
     SERIES("candidate", "2", "-0.0002,0.0003,-0.0011,0.001") ","
     SERIES("ulp", "1", "1e-6,1e-5,0.0004,0.001") ","
     SERIES("ulp", "2", "-1e-6,2e-5,-0.0006,-0.001") ","
     SERIES("seed", "1", "0.02,0.006,0.004,0.003") ","
     SERIES("seed", "2", "-0.02,-0.006,-0.004,-0.003") ","
     SERIES("seed", "3", "0.02,0.006,0.004,0.003") ","
     SERIES("seed", "4", "-0.02,-0.006,-0.004,-0.003") ","
     SERIES("seed", "5", "0.02,0.006,0.004,0.003") ","
     SERIES("seed", "6", "-0.02,-0.006,-0.004,-0.003") ","
     SERIES("seed", "7", "0.02,0.006,0.004,0.003") ","
     SERIES("seed", "8", "-0.02,-0.006,-0.004,-0.003") ","
     SERIES("candidate", "3", "0.0001,0.0003,0.0005,0.001") "," SERIES("candidate", "4",
     "0,0,0.0001,-0.001") ","
     SERIES("candidate", "5", "0.0001,0,0.0005,0.001") "," SERIES("candidate", "6",
     "0,0.0003,0.0002,-0.001") ","
     SERIES("candidate", "7", "0.0002,0,0.0005,0.001") "," SERIES("candidate", "8",
     "0,0.0001,0.0001,-0.001") "]"},
    {"determinism.replays", "[" REPLAY_OF("0") "," REPLAY_OF("40") "]"},
    {"window.planned_steps", "900"},
    {"window.done_steps", "900"},
    {"input.rows.validation", "3000"},
    {"parity.metric.name", "\"auc\""},
    {"parity.metric.relative", "false"},
    {"parity.metric.higher_is_better", "true"},
    {"parity.metric.quantum", "3.0752198782212928e-07"},   // half a pair of 710 positives and 2290 negatives
    {"input.target_mean", "{\"train\":0.24,\"validation\":0.23666666666666666,\"test\":0.24}"},
    {"parity.metric.rows", "3000"},
    {"parity.metric.looks", "1"},
    {"parity.metric.pairs", "[" GOOD_PAIRS "]"},
    {"parity.metric.trained", "{\"reference\":0.915,\"candidate\":0.9152}"},
    {"parity.slices",
     "[" SLICE("a", "1500", "400", EIGHT("0.90", "0.91"), EIGHT("0.899", "0.9105")) ","
     SLICE("b", "1450", "300", EIGHT("0.88", "0.89"), EIGHT("0.881", "0.8895")) ","
     SLICE("c", "40", "10", EIGHT("0.75", "0.875"), EIGHT("0.7", "0.8")) ","
     "{\"column\":\"job\",\"value\":\"d\",\"rows\":10,\"positives\":0}]"},
};

static const Edit half_of_one[2][8] = {
    [BF16] =
        {{"precision", "\"bf16\""},
         {"parity.precision", "\"bf16\""},
         {"parity.operations",
          "[" OPERATION("dense", "256", "7e-4", "5e-8") "," OPERATION("assemble", "1", "3.8e-3", "0") ","
          OPERATION("loss sum, binary", "32768", "2e-8", "2e-8") "," MORE_OPERATIONS("7e-4") "]"},
         {"parity.growth.reduction", "[256,1024,4096,16384]"},
         {"parity.growth.error", "[2.80e-3,2.86e-3,2.84e-3,2.87e-3]"},
         {"parity.gradients", GRADIENTS("0.021", "0.9998")},
         {"parity.step", "[" STEP("start", "0.1", "1.002", "1", "1") ","
          STEP("trained", "0.02", "0.999", "1", "1") "]"},
         {"parity.scale", SCALE("false", "1", "1", "1", "900", "0", "0", "0", "0")}},
    [FP16] =
        {{"precision", "\"fp16\""},
         {"parity.precision", "\"fp16\""},
         {"parity.operations",
          "[" OPERATION("dense", "256", "9e-5", "5e-8") "," OPERATION("assemble", "1", "4.8e-4", "0") ","
          OPERATION("loss sum, binary", "32768", "2e-8", "2e-8") "," MORE_OPERATIONS("9e-5") "]"},
         {"parity.growth.reduction", "[256,1024,4096,16384]"},
         {"parity.growth.error", "[3.50e-4,3.57e-4,3.55e-4,3.59e-4]"},
         {"parity.gradients", GRADIENTS("0.0026", "0.999997")},
         {"parity.step", "[" STEP("start", "0.03", "1.002", "65536", "65536") ","
          STEP("trained", "0.005", "0.999", "65536", "65536") ","
          STEP("growth", "0.005", "1.001", "32768", "65536") "]"},
         {"parity.scale", SCALE("true", "65536", "16384", "16384", "896", "4", "2",
          "0", "2")}},
};
// clang-format on

static inline Json *half_evidence(Nights night)
{
    Json *evidence = good_evidence();
    for (size_t i = 0; night != FP32 && i < sizeof half_of_both / sizeof half_of_both[0]; i++) {
        apply(evidence, &half_of_both[i]);
    }
    for (size_t i = 0; night != FP32 && i < 8; i++) {
        apply(evidence, &half_of_one[night][i]);
    }
    return evidence;
}

// FP32 runs beside these candidates: their circle closes, and the first two begin one ulp off.
static inline void follow_nulls(const Json *before, Json *series)
{
    size_t count = json_count(series);
    const Json *found[2] = {NULL, NULL};   // the first series of seeds, and of ulps
    for (size_t i = json_count(before); i-- > 0;) {
        const char *kind = json_text_or(json_get(json_at(before, i), "kind"), "");
        found[0] = text_equal(kind, "seed") ? json_at(before, i) : found[0];
        found[1] = text_equal(kind, "ulp") ? json_at(before, i) : found[1];
    }
    for (size_t i = 0; i < 2 * count; i++) {
        size_t at = i % count;
        const Json *from = found[i / count];
        if (from == NULL || (i >= count && at > 1)) {
            continue;
        }
        double sign = i >= count ? 1 : at + 1 == count && count % 2 == 1 ? 0 : at % 2 == 0 ? 1 : -1;
        Json *added = json_copy_deep(from);
        Json *ratios = json_make_array();
        for (size_t b = 0; b < json_count(json_get(from, "log_ratio")); b++) {
            json_add_number(ratios, sign * json_number_or(json_at(json_get(from, "log_ratio"), b), 0));
        }
        json_put(added, "log_ratio", ratios);
        json_put(added, "seed", json_copy_deep(json_get(json_at(series, at), "seed")));
        json_add(series, added);
    }
}

// The losses of the runs whose metric stands in the evidence, when a row changes the latter.
static inline void follow_pairs(Json *evidence)
{
    const Json *pairs = json_find(evidence, "parity.metric.pairs");
    Json *trajectory = (Json *)(uintptr_t)json_find(evidence, "parity.trajectory");
    if (json_count(pairs) == 0 || !json_is_object(trajectory)) {
        return;
    }
    Json *series = json_make_array();
    const Json *before = json_get(trajectory, "pairs");
    for (size_t i = 0; i < json_count(pairs); i++) {
        const Json *pair = json_at(pairs, i);
        if (!text_equal(json_text_or(json_get(pair, "run"), ""), "r")) {
            continue;
        }
        Json *candidate = json_copy_deep(json_at(before, i % 2));
        json_put(candidate, "seed", json_make_integer(json_integer_or(json_get(pair, "seed"), 0)));
        json_add(series, candidate);
    }
    follow_nulls(before, series);
    json_put(trajectory, "pairs", series);
}

// Rows, positives and the metric's step of the slices that the evidence has, when a row changes those.
static inline void follow_slices(Json *evidence)
{
    const Json *slices = json_find(evidence, "parity.slices");
    double rows = 0;
    double positives = 0;
    for (size_t i = 0; i < json_count(slices); i++) {
        rows += (double)json_integer_or(json_get(json_at(slices, i), "rows"), 0);
        positives += (double)json_integer_or(json_get(json_at(slices, i), "positives"), 0);
    }
    Json *metric = (Json *)(uintptr_t)json_find(evidence, "parity.metric");
    if (!json_is_object(metric) || rows == 0) {
        return;
    }
    json_put_number((Json *)(uintptr_t)json_find(evidence, "input.target_mean"), "validation",
                    positives / rows);
    json_put_integer((Json *)(uintptr_t)json_find(evidence, "input.rows"), "validation", (int64_t)rows);
    json_put_integer(metric, "rows", (int64_t)rows);
    if (text_equal(json_text_or(json_get(metric, "name"), ""), "auc") && positives > 0 && positives < rows) {
        json_put_number(metric, "quantum", 0.5 / (positives * (rows - positives)));
    }
}

enum { PARITY_EDITS = 10 };
typedef struct ParityRow {
    const char *sentence;   // what is shown
    Nights nights;
    Edit edits[PARITY_EDITS];
    Outcome outcome;
    const char *reason;   // part of the reason
    const char *sets[2];   // policy
} ParityRow;

static inline void judge_night(const ParityRow *row, Nights night)
{
    OWNED(Json, json_free) *evidence = half_evidence(night);
    OWNED(Config, config_free) *policy = load_policy(row->sets);
    bool follows = false;
    bool slices = false;
    bool said = false;   // the row says itself what the input holds
    for (size_t i = 0; i < PARITY_EDITS && row->edits[i].path != NULL; i++) {
        apply(evidence, &row->edits[i]);
        follows = follows || text_starts_with(row->edits[i].path, "parity.metric.pairs");
        slices = slices || text_starts_with(row->edits[i].path, "parity.slices");
        said = said || text_starts_with(row->edits[i].path, "input.");
    }
    if (slices && !said) {
        follow_slices(evidence);
    }
    if (follows) {
        follow_pairs(evidence);
    }
    Finding finding = {0};
    gate_find_check("parity")->judge(evidence, policy, &finding);
    ck_assert_msg(finding.outcome == row->outcome && strstr(finding.reason, row->reason) != NULL,
                  "%s: %s: %s: '%s', wanted %s: '%s'", night == BF16 ? "bf16" : "fp16", row->sentence,
                  gate_outcome_name(finding.outcome), finding.reason, gate_outcome_name(row->outcome),
                  row->reason);
    ck_assert(finding.reason[0] != '\0' && finding.unit != NULL);
    if (finding.outcome == OUTCOME_PASS) {
        ck_assert(isfinite(finding.value) && isfinite(finding.limit) && finding.n > 0);
    }
    OWNED(Json, json_free) *table = parity_table(evidence, policy);   // says no better than the judge
    int worst = OUTCOME_PASS;
    for (size_t i = 0; i < json_count(table); i++) {
        Outcome outcome = OUTCOME_PASS;
        ck_assert(gate_find_outcome(json_text_or(json_get(json_at(table, i), "outcome"), ""), &outcome));
        worst = outcome != OUTCOME_NOT_APPLICABLE && (int)outcome > worst ? (int)outcome : worst;
    }
    ck_assert_msg(worst == (int)row->outcome, "%s: the table says %s, the judge %s", row->sentence,
                  gate_outcome_name((Outcome)worst), gate_outcome_name(row->outcome));
}

static inline void judge_parity_row(const ParityRow *row)
{
    for (int night = BF16; night <= FP16; night++) {
        if (row->nights == BOTH || row->nights == (Nights)night) {
            judge_night(row, (Nights)night);
        }
    }
}

#define PARITY_ROW_TEST(name, rows)                                                                          \
    START_TEST(name)                                                                                         \
    {                                                                                                        \
        judge_parity_row(&(rows)[_i]);                                                                       \
    }                                                                                                        \
    END_TEST

#endif
