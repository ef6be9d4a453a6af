// gate_parity_test - rungs 1 and 2 of the ladder, what decides, and the table for people.
#include "gate_parity_fixture.h"

#include <fedgate/stats.h>

// clang-format off
#define PROBE PROBED("layer", "1e-7")
static const Row parity_rows[] = {
    {"a good night",
     "parity",
     {{0}},
     PASS,
     "worst of 6 probes 'long reduction' errs by 3e-07, at most 1e-05; rungs 2 to 6 not applicable",
     {0}},
    {"the first probe is the worst",
     "parity",
     {{"parity.probes.0.error", "9e-7"}},
     PASS,
     "worst of 6 probes 'values below TF32 resolution' errs by 9e-07",
     {0}},
    {"no section", "parity", {{"parity", NULL}}, ABSENT, "not measured", {0}},
    {"no precision", "parity", {{"parity.precision", NULL}}, ABSENT, "precision", {0}},
    {"trained in another precision",
     "parity",
     {{"precision", "\"bf16\""}},
     ABSENT,
     "trained in 'bf16', probed in 'fp32'",
     {0}},
    {"another precision throughout",
     "parity",
     {{"precision", "\"bf16\""}, {"parity.precision", "\"bf16\""}},
     ABSENT,
     "operations: 'parity.operations' was not measured",
     {0}},
    {"a precision without bars",
     "parity",
     {{"precision", "\"fp8\""}, {"parity.precision", "\"fp8\""}},
     ABSENT,
     "in 'fp8': there are no bars for it",
     {0}},
    {"no probes array", "parity", {{"parity.probes", NULL}}, ABSENT, "probes", {0}},
    {"no probes", "parity", {{"parity.probes", "[]"}}, ABSENT, "0 of 6 were asked", {0}},
    {"one probe",
     "parity",
     {{"parity.probes", "[" PROBED("layer", "1e-7") "]"}},
     ABSENT,
     "probe 'values below TF32 resolution' is missing: 1 of 6 were asked",
     {0}},
    {"the last probe left out",
     "parity",
     {{"parity.probes.1.name", "\"layer\""}, {"parity.probes.1.shape", "\"9\""}},
     ABSENT,
     "probe 'long reduction' is missing: 6 of 6",
     {0}},
    {"a probe that nobody knows",
     "parity",
     {{"parity.probes.0.name", "\"tf32\""}},
     ERR,
     "probe 'tf32' is none that shows FP32",
     {0}},
    {"another arbiter", "parity", {{"parity.reference", "\"fp32\""}}, ERR, "the arbiter is 'fp32'", {0}},
    {"a half night under the name of FP32",
     "parity",
     {{"parity.operations", "[]"}},
     ERR,
     "'parity.operations' is there in a night that is said to be FP32",
     {0}},
    {"slices of a half night under the name of FP32", "parity", {{"parity.slices", "[]"}}, ERR,
     "'parity.slices' is there", {0}},
    {"the loss scale is told of every night", "parity", {{"parity.scale", "{}"}}, PASS, "is FP32", {0}},
    {"TF32 in secret",
     "parity",
     {{"parity.probes.0.error", "4.9e-4"}},
     FAILS,
     "error of probe 'values below TF32 resolution' is 0.00049 relative, may be at most 1e-05",
     {0}},
    {"an error that is not a number", "parity", {{"parity.probes.1.error", "\"nan\""}}, FAILS, "is nan", {0}},
    {"an infinite error", "parity", {{"parity.probes.1.error", "\"inf\""}}, FAILS, "is inf", {0}},
    {"a negative error", "parity", {{"parity.probes.1.error", "-1e-9"}}, ERR, "is -1e-09", {0}},
    {"a limit that TF32 would pass",
     "parity",
     {{"parity.probes.0.limit", "25.0"}},
     ERR,
     "could not tell FP32 from TF32",
     {0}},
    {"a limit that is not a number",
     "parity",
     {{"parity.probes.0.limit", "\"nan\""}},
     ERR,
     "could not tell",
     {0}},
    {"the loosest limit",
     "parity",
     {{"parity.probes.0.limit", "1e-4"}},
     PASS,
     "worst of 6 probes 'long reduction'",
     {0}},
    {"a limit of zero", "parity", {{"parity.probes.0.limit", "0"}}, ERR, "allows an error of 0", {0}},
    {"a probe of another type", "parity", {{"parity.probes", "[1,2]"}}, ERR, "not an object", {0}},
    {"a probe twice", "parity", {{"parity.probes", "[" PROBE "," PROBE "]"}}, ERR, "twice", {0}},
    {"probes without any error",
     "parity",
     {{"parity.probes", "[" PROBED("values below TF32 resolution", "0") "," PROBED("long reduction", "0") ","
     PROBED(
         "values below TF32 resolution, one output",
         "0") "," PROBED("values below TF32 resolution, weight gradient",
                         "0") "," PROBED("values below TF32 resolution, input gradient",
                                         "0") "," PROBED("layer", "0") "]"}},
     ABSENT,
     "nothing was probed",
     {0}},
    {"precision trained in unsaid", "parity", {{"precision", NULL}}, ABSENT, "precision", {0}},
    {"precision trained in of another type", "parity", {{"precision", "5"}}, ERR, "not a text", {0}},
    {"reference unsaid", "parity", {{"parity.reference", NULL}}, ABSENT, "reference", {0}},
    {"a probe without shape", "parity", {{"parity.probes.0.shape", NULL}}, ABSENT, "shape", {0}},
    {"a probe without name", "parity", {{"parity.probes.0.name", NULL}}, ABSENT, "name", {0}},
    {"a probe without unit", "parity", {{"parity.probes.0.unit", NULL}}, ABSENT, "unit", {0}},
    {"a probe without error", "parity", {{"parity.probes.0.error", NULL}}, ABSENT, "error", {0}},
    {"a probe without limit", "parity", {{"parity.probes.0.limit", NULL}}, ABSENT, "limit", {0}},
};


static const ParityRow good_rows[] = {
    {"a good night", BF16, {{0}}, PASS,
     "bf16 gives the model of FP32: auc within 0.000", {0}},
    {"a good night", FP16, {{0}}, PASS,
     "; nearest its bar: rms error of long products", {0}},
    {"no slice declared nor measured", BOTH, {{"parity.slices", NULL}}, PASS, "gives the model of FP32", {0}},
    {"another precision trained", BF16, {{"precision", "\"fp16\""}}, ABSENT,
     "trained in 'fp16', probed in 'bf16'", {0}},
    {"a half night claimed in FP32", BOTH, {{"precision", "\"fp32\""}}, ABSENT, "probed in", {0}},
    {"a half night that cannot be opened", BOTH, {{"parity.precision", NULL}}, ABSENT, "parity.precision",
     {0}},
    {"TF32 in the reference", BOTH, {{"parity.probes.0.error", "4.9e-4"}}, FAILS,
     "reference: error of probe 'values below TF32 resolution'", {0}},
    {"no probes", BOTH, {{"parity.probes", NULL}}, ABSENT, "reference: 'parity.probes' was not measured",
     {0}},
    {"no section", BOTH, {{"parity", NULL}}, ABSENT, "not measured", {0}},
    {"a section of another type", BOTH, {{"parity", "[1]"}}, ERR, "not an object", {0}},
    {"a cause goes before a figure", BOTH,
     {{"parity.gradients.0.tensors.0.error", "0.7"}, {"parity.gradients.0.tensors.0.cosine", "0.8"},
      {"parity.step.0.representable", "0.9999"}}, FAILS,
     "step: no FP32 master weights", {0}},
    {"a fail goes before what is missing", BOTH, {{"parity.operations", NULL}, {"parity.scale.stopped",
     "true"}}, FAILS,
     "scale: training stopped", {0}},
    {"of two causes the first", BOTH, {{"parity.scale.stopped", "true"}, {"parity.step.0.representable",
     "1"}}, FAILS,
     "step: no FP32 master weights", {0}},
    {"an error goes before what is missing", BOTH,
     {{"parity.operations", NULL}, {"parity.scale.applied", "1"}}, ERR,
     "scale: 'parity.scale' does not add up", {0}},
    {"what is missing goes before what is undecided", BOTH,
     {{"parity.growth", NULL}, {"parity.metric.looks", "900000"}}, ABSENT,
     "operations: 'parity.growth' was not", {0}},
};

static const ParityRow operation_rows[] = {
    {"absent", BOTH, {{"parity.operations", NULL}}, ABSENT,
     "operations: 'parity.operations' was not measured", {0}},
    {"null", BOTH, {{"parity.operations", "null"}}, ABSENT, "'parity.operations' was not measured", {0}},
    {"empty", BOTH, {{"parity.operations", "[]"}}, ABSENT, "'parity.operations' is empty", {0}},
    {"of another type", BOTH, {{"parity.operations", "{}"}}, ERR, "not an array", {0}},
    {"holding another type", BOTH, {{"parity.operations", "[1]"}}, ERR, "not an object", {0}},
    {"the same twice", BOTH,
     {{"parity.operations", "[" OPERATION("a", "4", "1e-4", "1e-8") "," OPERATION("a", "4", "1e-4",
     "1e-8") "]"}}, ERR,
     "twice", {0}},
    {"no name", BOTH, {{"parity.operations.0.name", NULL}}, ABSENT, "parity.operations.name", {0}},
    {"no shape", BOTH, {{"parity.operations.0.shape", NULL}}, ABSENT, "shape", {0}},
    {"no reduction", BOTH, {{"parity.operations.0.reduction", NULL}}, ABSENT, "reduction", {0}},
    {"a reduction of nothing", BOTH, {{"parity.operations.0.reduction", "0"}}, ERR,
     "'dense' reduces nothing", {0}},
    {"no error", BOTH, {{"parity.operations.0.error", NULL}}, ABSENT, "parity.operations.error", {0}},
    {"no reference error", BOTH, {{"parity.operations.0.reference_error", NULL}}, ABSENT, "reference_error",
     {0}},
    {"an error of another type", BOTH, {{"parity.operations.0.error", "true"}}, ERR, "not a number", {0}},
    {"a negative error", BOTH, {{"parity.operations.0.error", "-1e-9"}}, ERR,
     "'parity.operations.error' is -1e-09", {0}},
    {"a negative reference error", BOTH, {{"parity.operations.1.reference_error", "-1e-9"}}, ERR,
     "is -1e-09", {0}},
    {"NaN", BOTH, {{"parity.operations.0.error", "\"nan\""}}, FAILS,
     "error of an operation 'dense' 64x64 is nan", {0}},
    {"infinite: a half type ran over", BOTH, {{"parity.operations.0.error", "\"inf\""}}, FAILS,
     "'dense' 64x64 is inf", {0}},
    {"a reference that is not a number", BOTH, {{"parity.operations.0.reference_error", "\"nan\""}}, FAILS,
     "the reference is not FP32: operation 'dense' errs by nan", {0}},
    {"cancelling outputs are wrong", BOTH, {{"parity.operations.0.error", "0.4"}}, FAILS,
     "error of an operation 'dense' 64x64 is 0.4 of the norms, may be at most", {0}},
    {"the reference rounds", BOTH, {{"parity.operations.0.reference_error", "5e-4"}}, FAILS,
     "operations: the reference is not FP32: operation 'dense' errs by 0.0005 of the norms, at most", {0}},
    {"no half arm", BOTH, {OPERATIONS("5e-8", "0", "5e-8"), {"parity.growth.error",
     "[3e-7,5e-7,1e-6,2e-6]"}}, FAILS,
     "computes like FP32: its errors are at most 0.839 times", {0}},
    {"no half arm, and no growth", BOTH, {OPERATIONS("5e-8", "0", "5e-8"), {"parity.growth", NULL}}, FAILS,
     "error of an operation times the root of its length 'assemble' 64x64 is 0 of the norms, must be", {0}},
    {"one operation that is not rounded", BF16, {{"parity.operations.0.error", "6e-5"}}, FAILS,
     "error of an operation times the root of its length 'dense' 64x64 is 0.00096 of the norms, must be at",
     {0}},
    {"one operation without error", BOTH, {{"parity.operations.1.error", "0"}}, FAILS,
     "'assemble' 64x64 is 0 of",
     {0}},
    {"a reference that rounds, and long products that do not", BOTH,
     {{"parity.operations.0.reference_error", "5e-4"}, {"parity.growth.error", "[3e-7,3e-7,3e-7,3e-7]"}},
     FAILS,
     "the reference is not FP32: operation 'dense'", {0}},
    {"identical arms", BOTH, {OPERATIONS("5e-8", "0", "5e-8")},
     FAILS,
     "computes like FP32", {0}},
    {"all errors exactly 0", BOTH,
     {OPERATIONS("0", "0", "0"), {"parity.operations.0.reference_error", "0"}},
     FAILS, "computes like FP32: its errors are at most 0 times", {0}},
    {"swapped arms", BF16,
     {{"parity.operations", "[" OPERATION("dense", "256", "5e-8", "7e-4") "," OPERATION("assemble", "1", "0",
     "3.8e-3") ","
       OPERATION("loss sum", "9", "2e-8", "2e-8") "]"}, {"parity.growth.error", "[3e-7,5e-7,1e-6,2e-6]"}},
     FAILS,
     "the arms are swapped: 'assemble' errs by 0.0038 in the FP32 arm, at most 2.38e-07, while", {0}},
    {"swapped in single operations only", FP16,
     {{"parity.operations", "[" OPERATION("dense", "256", "5e-8", "9e-5") "," OPERATION("loss sum", "9",
     "2e-8", "2e-8") "]"}},
     FAILS, "the arms are swapped", {0}},
    {"a single operation runs over", FP16,
     {{"parity.operations", "[" OPERATION("dense", "256", "\"inf\"", "5e-8") "," OPERATION("loss sum", "9",
     "0", "0") "]"}},
     FAILS, "error of an operation 'dense' 64x64 is inf", {0}},
    {"long products without any error", BOTH, {{"parity.growth.error", "[0,0,0,0]"}}, FAILS,
     "more exact than it can be", {0}},
    {"three lengths", BF16, {{"parity.growth.reduction", "[256,1024,4096]"}, {"parity.growth.error",
     "[2.8e-3,2.8e-3,2.8e-3]"}},
     PASS, "gives", {0}},
    {"swapped arms", FP16,
     {{"parity.operations", "[" OPERATION("dense", "256", "5e-8", "9e-5") "," OPERATION("assemble", "1", "0",
     "4.8e-4") ","
       OPERATION("loss sum", "9", "2e-8", "2e-8") "]"}, {"parity.growth.error", "[3e-7,5e-7,1e-6,2e-6]"}},
     FAILS,
     "the arms are swapped", {0}},
    {"FP16 in the name of BF16", BF16, {{"parity.growth.error", "[3.5e-4,3.5e-4,3.6e-4,3.6e-4]"}}, FAILS,
     "claims bf16 is more exact than it can be: long products err by 0.00035, at least 0.000977 expected",
     {0}},
    {"BF16 in the name of FP16", FP16, {{"parity.growth.error", "[2.8e-3,2.8e-3,2.8e-3,2.8e-3]"}}, FAILS,
     "rms error of long products at length 256 is 0.0028 of the rms result, may be at most 0.00048828", {0}},
    {"a half accumulator", BF16, {{"parity.growth.error", "[1.9e-2,3.5e-2,6.5e-2,1.25e-1]"}}, FAILS,
     "operations: sums are accumulated in half precision: the error grows with the length", {0}},
    {"a half accumulator", FP16, {{"parity.growth.error", "[2.2e-3,5e-3,1.0e-2,2e-2]"}}, FAILS,
     "sums are accumulated in half precision", {0}},
    {"partial sums in half", BF16, {{"parity.growth.error", "[4.3e-3,4.4e-3,4.6e-3,5e-3]"}}, FAILS,
     "rms error of long products at length 16384 is 0.005 of the rms result, may be at most 0.0039062", {0}},
    {"growth that is not a number", BOTH, {{"parity.growth.error", "[\"nan\",1e-3,1e-3,1e-3]"}}, FAILS,
     "is nan", {0}},
    {"no growth section", BOTH, {{"parity.growth", NULL}}, ABSENT, "'parity.growth' was not measured", {0}},
    {"growth of another type", BOTH, {{"parity.growth", "[]"}}, ERR, "not an object", {0}},
    {"no reductions", BOTH, {{"parity.growth.reduction", NULL}}, ABSENT, "parity.growth.reduction", {0}},
    {"no errors", BOTH, {{"parity.growth.error", NULL}}, ABSENT, "parity.growth.error", {0}},
    {"arrays of other lengths", BOTH, {{"parity.growth.reduction", "[1,2,3]"}}, ERR, "as long as the other",
     {0}},
    {"empty arrays", BOTH, {{"parity.growth.reduction", "[]"}, {"parity.growth.error", "[]"}}, ABSENT,
     "0 reduction lengths cannot show growth", {0}},
    {"two lengths", BF16, {{"parity.growth.reduction", "[256,65536]"}, {"parity.growth.error",
     "[2.8e-3,2.8e-3]"}}, ABSENT,
     "2 reduction lengths", {0}},
    {"a short span", BOTH, {{"parity.growth.reduction", "[256,512,1024,4095]"}}, ABSENT,
     "the longest 16 times the shortest", {0}},
    {"a span that is just enough", BOTH, {{"parity.growth.reduction", "[256,512,1024,4096]"}}, PASS,
     "gives the model", {0}},
    {"lengths that do not rise", BOTH, {{"parity.growth.reduction", "[256,1024,1024,16384]"}}, ERR,
     "impossible at entry 2", {0}},
    {"a length of 0", BOTH, {{"parity.growth.reduction", "[0,1024,4096,16384]"}}, ERR,
     "impossible at entry 0", {0}},
    {"a negative error of growth", FP16, {{"parity.growth.error", "[3e-4,-1e-3,3e-4,3e-4]"}}, ERR,
     "impossible at entry 1", {0}},
    {"no loss sum", BF16, {{"parity.operations", "[" OPERATION("dense", "256", "7e-4", "5e-8") "]"}}, ABSENT,
     "'parity.operations' holds no 'loss sum'", {0}},
    {"only loss sums", BOTH, {{"parity.operations", "[" OPERATION("loss sum", "256", "1e-8", "1e-8") "]"}},
     ABSENT,
     "'parity.operations' holds no product", {0}},
    {"an operation left out", BOTH, {{"parity.operations.5.name", "\"other\""}}, ABSENT,
     "operations: operation 'dense, cancelling outputs' was not compared", {0}},
    {"a loss left out", BOTH, {{"parity.operations.12.name", "\"loss sum, other\""}}, ABSENT,
     "operation 'loss sum, square' was not compared", {0}},
    {"a reference that would be TF32, at a length that would let it pass", BOTH,
     {{"parity.operations.0.reduction", "100000000"}, {"parity.operations.0.reference_error", "1.1e-4"}},
     FAILS,
     "the reference is not FP32: operation 'dense' errs by 0.00011 of the norms, at most 0.0001", {0}},
    {"the loss is accumulated in half", BOTH, {{"parity.operations.2.error", "0.5"}}, FAILS,
     "the loss is accumulated in reduced precision: 'loss sum, binary' errs by 0.5, at most 1e-06", {0}},
    {"the loss of the reference too", BOTH, {{"parity.operations.2.reference_error", "1.01e-6"}}, FAILS,
     "the loss is accumulated in reduced precision", {0}},
    {"a loss sum that is not a number", BOTH, {{"parity.operations.2.error", "\"nan\""}}, FAILS,
     "error of a loss sum 'loss sum, binary' 64x64 is nan", {0}},
};

// clang-format on

ROW_TEST(fp32_nights, parity_rows)
PARITY_ROW_TEST(half_nights, good_rows)
PARITY_ROW_TEST(operations, operation_rows)

// Each figure just inside its bar, and just outside it.
static const struct {
    const char *path;
    double limit[2];
    bool least;
    const char *name;
} bounds[] = {
    {"parity.operations.0.error", {3 * 0x1p-8, 3 * 0x1p-11}, false, "error of an operation 'dense'"},
    {"parity.operations.0.reference_error", {4 * 16 * 0x1p-24, 4 * 16 * 0x1p-24}, false, "not FP32"},
    {"parity.operations.2.error", {1e-6, 1e-6}, false, "the loss is accumulated"},
    {"parity.operations.2.reference_error", {1e-6, 1e-6}, false, "the loss is accumulated"},
    {"parity.growth.error.0", {0x1p-8, 0x1p-11}, false, "rms error of long products"},
    {"parity.growth.error.3", {0.25 * 0x1p-8, 0.25 * 0x1p-11}, true, "more exact than it can be"},
};

static void judge_with(Nights night, const char *path, double value, Finding *ret)
{
    OWNED(Json, json_free) *evidence = half_evidence(night);
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){0});
    char text[64];
    if (strstr(path, "growth") == NULL) {
        snprintf(text, sizeof text, "%.17g", value);
        apply(evidence, &(Edit){path, text});
    } else {   // an entry of an array of numbers; the others stay where the slope holds
        char all[160];
        snprintf(all, sizeof all, "[%.17g,%.17g,%.17g,%.17g]", value, value, value, value);
        apply(evidence, &(Edit){"parity.growth.error", all});
    }
    gate_find_check("parity")->judge(evidence, policy, ret);
}

START_TEST(each_bar_stands_where_the_table_says)
{
    for (int night = BF16; night <= FP16; night++) {
        double limit = bounds[_i].limit[night];
        double inside = bounds[_i].least ? limit * 1.0001 : limit * 0.9999;
        double outside = bounds[_i].least ? limit * 0.9999 : limit * 1.0001;
        Finding finding;
        judge_with((Nights)night, bounds[_i].path, limit, &finding);
        ck_assert_msg(finding.outcome == OUTCOME_PASS, "%s at its bar: %s", bounds[_i].path, finding.reason);
        judge_with((Nights)night, bounds[_i].path, inside, &finding);
        ck_assert_msg(finding.outcome == OUTCOME_PASS, "%s: %s", bounds[_i].path, finding.reason);
        judge_with((Nights)night, bounds[_i].path, outside, &finding);
        ck_assert_msg(finding.outcome == OUTCOME_FAIL && strstr(finding.reason, bounds[_i].name) != NULL,
                      "%s: %s", bounds[_i].path, finding.reason);
    }
}
END_TEST

static const Json *find_row(const Json *table, const char *rung, const char *name)
{
    for (size_t i = 0; i < json_count(table); i++) {
        const Json *row = json_at(table, i);
        if (text_equal(json_text_or(json_get(row, "rung"), ""), rung) &&
            strstr(json_text_or(json_get(row, "name"), ""), name) != NULL) {
            return row;
        }
    }
    ck_abort_msg("no row '%s' of rung '%s'", name, rung);
    return NULL;
}

START_TEST(the_table_shows_the_worst_beside_its_bar)
{
    OWNED(Json, json_free) *evidence = half_evidence(BF16);
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){0});
    apply(evidence, &(Edit){"parity.gradients.1.tensors.1.error", "0.05"});
    OWNED(Json, json_free) *table = parity_table(evidence, policy);
    const Json *row = find_row(table, "gradients", "error of the gradient");
    ck_assert_str_eq(json_text_or(json_get(row, "worst"), ""), "w2");
    ck_assert_str_eq(json_text_or(json_get(row, "at"), ""), "trained");
    ck_assert_str_eq(json_text_or(json_get(row, "outcome"), ""), "pass");
    ck_assert_str_eq(json_text_or(json_get(row, "bound"), ""), "at most");
    ck_assert_str_eq(json_text_or(json_get(row, "unit"), ""), "relative");
    ck_assert(json_number_or(json_get(row, "value"), 0) == 0.05);
    ck_assert(json_number_or(json_get(row, "limit"), 0) == 0.26);
    ck_assert_int_eq(json_integer_or(json_get(row, "n"), 0),
                     6);   // 2 checkpoints x 3 tensors with a gradient
    ck_assert_int_eq(json_integer_or(json_get(row, "number"), 0), 3);
    row = find_row(table, "gradients", "gradient, median");
    ck_assert(strstr(json_text_or(json_get(row, "source"), ""), "2506.09280") != NULL);
    ck_assert_str_eq(json_text_or(json_get(find_row(table, "gradients", "cosine"), "bound"), ""), "at most");
    ck_assert_int_eq(json_integer_or(json_get(find_row(table, "metric", "paired difference"), "n"), 0), 8);
    find_row(table, "slices", "harm");
    find_row(table, "scale", "steps applied");
    find_row(table, "trajectory", "log ratio");
    find_row(table, "reference", "probe");
}
END_TEST

START_TEST(a_bar_speaks_for_its_own_rung)
{
    OWNED(Json, json_free) *evidence = half_evidence(BF16);
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){0});
    apply(evidence, &(Edit){"parity.step.0.update_error", "0.2"});
    OWNED(Json, json_free) *table = parity_table(evidence, policy);
    size_t failed = 0;
    for (size_t i = 0; i < json_count(table); i++) {
        failed += text_equal(json_text_or(json_get(json_at(table, i), "outcome"), ""), "fail");
    }
    ck_assert_uint_eq(failed, 1);
}
END_TEST

// The bound is the end of the interval that lies further out, on either side.
START_TEST(the_bound_is_the_further_end)
{
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){"parity.pairs=3"});
    for (int side = -1; side <= 1; side += 2) {
        OWNED(Json, json_free) *evidence = half_evidence(BF16);
        double difference[] = {0.001 * side, 0.0012 * side, 0.0008 * side};
        EquivalenceTest test;
        apply(evidence, &(Edit){"parity.slices", NULL});
        apply(evidence,
              &(Edit){"parity.metric.pairs", "[" METRIC_PAIR("1", "0.5", "0") "," METRIC_PAIR(
                                                 "2", "0.6", "0") "," METRIC_PAIR("3", "0.7", "0") "]"});
        const Json *pairs = json_find(evidence, "parity.metric.pairs");
        for (size_t i = 0; i < 3; i++) {
            Json *pair = (Json *)(uintptr_t)json_at(pairs, i);
            json_put_number(pair, "candidate", 0.5 + 0.1 * (double)i + difference[i]);
        }
        stats_equivalence(difference, 3, 0.005, stats_alpha_of_look(0.05, 1), 0, &test);
        OWNED(Json, json_free) *table = parity_table(evidence, policy);
        double bound = json_number_or(json_get(find_row(table, "metric", "paired difference"), "value"), 0);
        ck_assert(fabs(bound - fmax(fabs(test.lower), fabs(test.upper))) < 1e-9 && bound > 0.001);
    }
}
END_TEST

START_TEST(the_table_says_what_is_missing)
{
    OWNED(Json, json_free) *evidence = half_evidence(FP16);
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){0});
    apply(evidence, &(Edit){"parity.scale", NULL});
    OWNED(Json, json_free) *table = parity_table(evidence, policy);
    const Json *row = find_row(table, "scale", "'parity.scale' was not measured");
    ck_assert_str_eq(json_text_or(json_get(row, "outcome"), ""), "not_measured");
    ck_assert(json_is_null(json_get(row, "value")));
    OWNED(Json, json_free) *fp32 = half_evidence(FP32);
    OWNED(Json, json_free) *short_table = parity_table(fp32, policy);
    ck_assert_uint_eq(json_count(short_table), 8);
    row = find_row(short_table, "metric", "an FP32 night has rung 1 only");
    ck_assert_str_eq(json_text_or(json_get(row, "outcome"), ""), "not_applicable");
    ck_assert_str_eq(json_text_or(json_get(json_at(short_table, 0), "worst"), ""), "long reduction");
}
END_TEST

START_TEST(a_half_night_without_parity_is_no_fp32_night)
{
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){0});
    for (int night = BF16; night <= FP16; night++) {
        OWNED(Json, json_free) *evidence = half_evidence((Nights)night);
        apply(evidence, &(Edit){"parity", NULL});
        OWNED(Json, json_free) *table = parity_table(evidence, policy);
        const Json *row = find_row(table, "metric", "not judged: rung 1 says why");
        ck_assert_str_eq(json_text_or(json_get(row, "outcome"), ""), "not_measured");
    }
}
END_TEST

START_TEST(the_judgement_carries_the_table)
{
    OWNED(Json, json_free) *evidence = half_evidence(BF16);
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){0});
    OWNED(Json, json_free) *judgement = gate_judge(evidence, policy, JUDGE_EARLY);
    const Json *checks = json_get(judgement, "checks");
    size_t tables = 0;
    for (size_t i = 0; i < json_count(checks); i++) {
        tables += json_count(json_get(json_at(checks, i), "rungs")) > 15;
    }
    ck_assert_uint_eq(tables, 1);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gate_parity_test");
    TCase *c = tcase_create("rows");
    tcase_add_loop_test(c, fp32_nights, 0, COUNT(parity_rows));
    tcase_add_loop_test(c, half_nights, 0, COUNT(good_rows));
    tcase_add_loop_test(c, operations, 0, COUNT(operation_rows));
    tcase_add_loop_test(c, each_bar_stands_where_the_table_says, 0, COUNT(bounds));
    tcase_add_test(c, the_table_shows_the_worst_beside_its_bar);
    tcase_add_test(c, a_bar_speaks_for_its_own_rung);
    tcase_add_test(c, the_bound_is_the_further_end);
    tcase_add_test(c, the_table_says_what_is_missing);
    tcase_add_test(c, a_half_night_without_parity_is_no_fp32_night);
    tcase_add_test(c, the_judgement_carries_the_table);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
