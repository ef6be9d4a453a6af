// gate_parity_sound_test - evidence of parity that a broken or lying producer hands in: each is an error, a
// fail or not measured, never a pass.
#include "../../src/gate/parity_internal.h"   // the rung alone, without what would go before it
#include "gate_parity_fixture.h"

// clang-format off
#define ERRORS(place, value) \
    {"parity.gradients." place ".tensors.0.error", value}, {"parity.gradients." place ".tensors.1.error", \
    value}, \
    {"parity.gradients." place ".tensors.2.error", value}
#define NOISES(place, value) \
    {"parity.gradients." place ".tensors.0.noise", value}, {"parity.gradients." place ".tensors.1.noise", \
    value}, \
    {"parity.gradients." place ".tensors.2.noise", value}
#define REFERENCES(place, value) \
    {"parity.gradients." place ".tensors.0.reference_error", value}, \
    {"parity.gradients." place ".tensors.1.reference_error", value}, \
    {"parity.gradients." place ".tensors.2.reference_error", value}
#define COSINES(place, value) \
    {"parity.gradients." place ".tensors.0.cosine", value}, {"parity.gradients." place \
    ".tensors.1.cosine", value}, \
    {"parity.gradients." place ".tensors.2.cosine", value}

static const ParityRow gradient_rows[] = {
    {"the start under the name of trained", BOTH,
     {{"parity.gradients.1.tensors.1.norm", "0.25"}}, ERR,
     "the gradient of 'w2' has the same figures at the start and trained, to the last digit", {0}},
    {"the same norm and another error", BF16,
     {{"parity.gradients.1.tensors.1.norm", "0.25"}, {"parity.gradients.1.tensors.1.error", "0.0211"}}, PASS,
     "gives", {0}},
    {"gradients of a later step as the start's", BOTH, {{"parity.gradients.0.step", "1"}}, ERR,
     "the gradient at start is of step 1, of 0 that were done", {0}},
    {"gradients of the start as trained", BOTH, {{"parity.gradients.1.step", "0"}}, ERR,
     "the gradient at trained is of step 0, of 900", {0}},
    {"gradients of a step that was not done", BOTH, {{"parity.gradients.1.step", "901"}}, ERR,
     "the gradient at trained is of step 901, of 900 that were done", {0}},
    {"of the last step", BOTH, {{"parity.gradients.1.step", "900"}}, PASS, "gives", {0}},
    {"of the first step", BOTH, {{"parity.gradients.1.step", "1"}}, PASS, "gives", {0}},
    {"gradients of more rows than there are", BOTH, {{"parity.gradients.1.rows", "701"}}, ERR,
     "the gradient at trained is of 701 rows, there are 700 to train on", {0}},
    {"gradients of all rows", BOTH, {{"parity.gradients.1.rows", "700"}}, PASS, "gives", {0}},
    {"nobody says how many rows there are", BOTH, {{"input.rows.train", NULL}}, PASS, "gives", {0}},
    {"noise that forgives anything", BOTH, {NOISES("1", "100")}, ABSENT,
     "most gradients at trained are under a 16th of their noise: nothing was compared", {0}},
    {"noise at the start", BOTH, {NOISES("0", "100")}, ABSENT, "most gradients at start are under a 16th",
     {0}},
    {"an error that noise forgives, in most of the gradient", BF16,
     {NOISES("1", "3"), ERRORS("1", "0.5"), COSINES("1", "0.9")}, FAILS,
     "error of the gradient, all tensors together trained is 0.25 relative, may be at most 0.23", {0}},
    {"noise counts twice the gradient at most", BF16,
     {NOISES("1", "3"), ERRORS("1", "0.45"), COSINES("1", "0.9")}, PASS, "gives", {0}},
    {"an arm that rounds nowhere", BF16, {ERRORS("1", "0.0009"), COSINES("1", "1")}, FAILS,
     "least error of the gradient, median tensor trained is 0.0009 relative, must be at least 0.00097656",
     {0}},
    {"an arm that rounds nowhere", FP16, {ERRORS("0", "0.00012"), COSINES("0", "1")}, FAILS,
     "least error of the gradient, median tensor start is 0.00012 relative", {0}},
    {"the least that rounding gives", BF16, {ERRORS("1", "0.00098"), COSINES("1", "1")}, PASS, "gives", {0}},
    {"an arbiter that agrees to the last bit", BOTH, {REFERENCES("0", "0")}, ABSENT,
     "the FP32 gradient at start errs by exactly 0 from float64: it was not compared", {0}},
    {"both places wrong", BOTH, {{"parity.gradients.0.step", "1"}, {"parity.gradients.1.step", "901"}}, ERR,
     "the gradient at start is of step 1", {0}},
    {"noise at both places", BOTH,
     {{"parity.gradients.0.tensors.0.noise", "100"}, {"parity.gradients.0.tensors.1.noise", "100"},
      {"parity.gradients.1.tensors.0.noise", "100"}, {"parity.gradients.1.tensors.1.noise", "100"}}, ABSENT,
     "most gradients at start are under a 16th", {0}},
    {"a gradient of 0 without noise that errs", BOTH, {{"parity.gradients.0.tensors.0.norm", "0"},
     {"parity.gradients.0.tensors.0.noise", "0"}}, FAILS, "'w1' start is nan", {0}},
    {"a nearest tensor that is not a number", BOTH, {{"parity.gradients.0.tensors.0.error", "\"nan\""}},
     FAILS, "is nan",
     {0}},
    {"an output layer at its bar", BF16, {ERRORS("0", "0.0322")}, PASS, "gives", {0}},
    {"an output layer just over it", BF16, {ERRORS("0", "0.03221")}, FAILS,
     "nearest tensor start is 0.03221", {0}},
    {"an output layer at its bar", FP16, {ERRORS("0", "0.00402")}, PASS, "gives", {0}},
    {"an output layer just over it", FP16, {ERRORS("0", "0.00403")}, FAILS,
     "nearest tensor start is 0.00403", {0}},
    {"one sound tensor is enough for it", BF16, {ERRORS("0", "0.05"), {"parity.gradients.0.tensors.1.error",
     "0.03"}}, PASS, "gives", {0}},
};

#define SCALED(before, expected, after) \
    {"parity.step.2.scale_before", before}, {"parity.step.2.scale_expected", expected}, \
    {"parity.step.2.scale_after", after}
#define AT_START(scale) \
    {"parity.step.0.scale_before", scale}, {"parity.step.0.scale_expected", scale}, \
    {"parity.step.0.scale_after", scale}

static const ParityRow step_rows[] = {
    {"both arms made the same update", BOTH, {{"parity.step.1.update_error", "0"}}, FAILS,
     "least error of one update trained is 0 relative, must be at least", {0}},
    {"an update nearer than rounding lets it", BF16, {{"parity.step.1.update_error", "0.0004"}}, FAILS,
     "least error of one update trained is 0.0004", {0}},
    {"an update as near as rounding lets it", BF16, {{"parity.step.1.update_error", "0.00043"}}, PASS,
     "gives", {0}},
    {"a growth in which nothing grows", FP16, {SCALED("65536", "65536", "65536")}, ERR,
     "the step at 'growth' expects the loss scale 65536 to become 65536: no growth is that", {0}},
    {"a growth by four", FP16, {SCALED("16384", "65536", "65536")}, ERR, "16384 to become 65536", {0}},
    {"a scale that falls where none is skipped", FP16,
     {{"parity.step.1.scale_expected", "32768"}, {"parity.step.1.scale_after", "32768"}}, ERR,
     "the step at 'trained' expects the loss scale 65536 to become 32768", {0}},
    {"a scale that grows at the start", FP16,
     {{"parity.step.0.scale_expected", "131072"}, {"parity.step.0.scale_after", "131072"}}, PASS, "gives",
     {0}},
    {"a scale that is no power of two", FP16, {AT_START("60000")}, ERR,
     "the step at 'start' has a loss scale of 60000, expected 60000: none in fp16", {0}},
    {"an expected scale that is no power of two", FP16, {SCALED("49152", "98304", "98304")}, ERR,
     "the step at 'growth' has a loss scale of 49152", {0}},
    {"a scale beyond 2^24", FP16, {AT_START("33554432")}, ERR, "a loss scale of 3.35544e+07", {0}},
    {"a growth beyond 2^24", FP16, {SCALED("16777216", "33554432", "33554432")}, ERR, "expected 3.35544e+07",
     {0}},
    {"a scale of 2^24", FP16, {AT_START("16777216")}, PASS, "gives", {0}},
    {"half of the lowest scale", FP16, {SCALED("0.5", "1", "1")}, PASS, "gives", {0}},
    {"a quarter of it", FP16, {SCALED("0.25", "0.5", "0.5")}, ERR, "a loss scale of 0.25", {0}},
    {"a scale in BF16", BF16, {AT_START("65536")}, ERR,
     "the step at 'start' has a loss scale of 65536, expected 65536: none in bf16", {0}},
    {"a scale that grows in BF16", BF16,
     {{"parity.step.0.scale_expected", "2"}, {"parity.step.0.scale_after", "2"}}, ERR,
     "expected 2: none in bf16",
     {0}},
    {"a step that was not done", BOTH, {{"parity.step.1.step", "901"}}, ERR,
     "the step at 'trained' is number 901, the training did 900", {0}},
    {"the last step", BOTH, {{"parity.step.1.step", "900"}}, PASS, "gives", {0}},
};

#define COURSE(initial, final, smallest, skipped, longest, grown, lowered) \
    {"parity.scale.initial", initial}, {"parity.scale.final", final}, {"parity.scale.smallest", smallest}, \
    {"parity.scale.skipped", skipped}, {"parity.scale.longest", longest}, {"parity.scale.grown", grown}, \
    {"parity.scale.lowered", lowered}

static const ParityRow scale_rows[] = {
    {"another start than the policy's", FP16, {COURSE("32768", "8192", "8192", "4", "2", "0", "2")}, ERR,
     "the loss scale is said to go from 32768 by 8192 to 8192: it begins at 65536 in fp16, in powers of two",
     {0}},
    {"the policy's start", FP16, {COURSE("32768", "8192", "8192", "4", "2", "0", "2")}, PASS, "gives",
     {"train.scale_initial=32768"}},
    {"a scale in BF16", BF16, {COURSE("65536", "65536", "65536", "0", "0", "0", "0")}, ERR,
     "it begins at 1 in bf16",
     {0}},
    {"a final scale that is no power of two", FP16, {{"parity.scale.final", "20000"}}, ERR,
     "to 20000: it begins", {0}},
    {"a smallest scale that is no power of two", FP16, {{"parity.scale.smallest", "16000"}}, ERR,
     "by 16000 to 16384: it begins", {0}},
    {"a final scale beyond 2^24", FP16, {{"parity.scale.final", "33554432"}}, ERR,
     "to 3.35544e+07: it begins", {0}},
    {"a fall that was not counted", FP16, {{"parity.scale.lowered", "1"}}, ERR,
     "'parity.scale' contradicts itself: from 65536 by 16384 to 16384, grown 0 and lowered 1 times", {0}},
    {"a growth that was not counted", FP16, {{"parity.scale.final", "32768"}}, ERR, "contradicts itself",
     {0}},
    {"growth in fewer steps than it takes", FP16, {COURSE("65536", "32768", "16384", "4", "2", "1", "2")},
     ERR,
     "grown 1 and lowered 2 times in 900 steps", {0}},
    {"growth in as many steps as it takes", FP16, {COURSE("65536", "32768", "16384", "4", "2", "1", "2")},
     PASS,
     "gives", {"train.scale_growth=896"}},
    {"growth in one step more", FP16, {COURSE("65536", "32768", "16384", "4", "2", "1", "2")}, ERR,
     "contradicts itself", {"train.scale_growth=897"}},
    {"lower than its falls lead", FP16, {{"parity.scale.smallest", "8192"}}, ERR, "by 8192 to 16384", {0}},
    {"more falls than skips", FP16, {COURSE("65536", "2048", "2048", "4", "2", "0", "5")}, ERR,
     "lowered 5 times in 900 steps with 4 skipped", {0}},
    {"as many falls as skips", FP16, {COURSE("65536", "4096", "4096", "4", "2", "0", "4")}, PASS, "gives",
     {0}},
    {"more in a row than skipped at all", FP16, {{"parity.scale.longest", "5"}}, ERR, "5 in a row", {0}},
    {"all skips in a row", FP16, {{"parity.scale.longest", "4"}}, PASS, "gives", {0}},
    {"falls unsaid", BOTH, {{"parity.scale.lowered", NULL}}, ABSENT, "parity.scale.lowered", {0}},
    {"the longest row unsaid", BOTH, {{"parity.scale.longest", NULL}}, ABSENT, "parity.scale.longest", {0}},
};

#define ULPS SERIES("ulp", "1", "1e-9,1e-9") "," SERIES("ulp", "2", "1e-9,2e-9")
#define COURSES(all) {"parity.trajectory.block", "200"}, {"parity.trajectory.pairs", "[" \
    CANDIDATES("0.001,0.001") "," all "]"}

static const ParityRow trajectory_rows[] = {
    {"runs longer than the training", BOTH, {{"window.planned_steps", "399"}}, ERR,
     "trajectory: runs of 400 steps, a training has 399", {0}},
    {"runs as long as the training", BOTH, {{"window.planned_steps", "400"}}, PASS, "gives", {0}},
    {"no run one ulp off", BOTH, {COURSES(NULLS_OF("0.02,0.02", "-0.02,-0.02"))}, ABSENT,
     "0 FP32 runs begin one ulp off, 2 are needed", {0}},
    {"one run one ulp off", BOTH, {COURSES(NULLS_OF("0.02,0.02", "-0.02,-0.02") "," SERIES("ulp", "1",
     "0,1e-9"))},
     ABSENT, "1 FP32 runs begin one ulp off", {0}},
    {"an ulp run of a seed that nobody has", BOTH, {{"parity.trajectory.pairs.3.seed", "77"}}, ERR,
     "8 FP32 runs are compared with the next beside 8 half precision runs, 1 of other seeds", {0}},
    {"a run of another seed that nobody has", BOTH, {{"parity.trajectory.pairs.4.seed", "77"}}, ERR,
     "1 of other seeds", {0}},
    {"fewer runs of other seeds than half precision runs", BOTH,
     {COURSES(SERIES("seed", "1", "0.02,0.02") "," SERIES("seed", "2", "-0.02,-0.02") "," ULPS)}, ERR,
     "2 FP32 runs are compared with the next beside 8", {0}},
    {"a circle that does not close", BOTH, {{"parity.trajectory.pairs.4.log_ratio",
     "[0.02,0.006,0.005,0.003]"}}, ERR,
     "the FP32 runs, compared in a circle, differ by 0.001 from themselves in block 3", {0}},
    {"a circle that misses a digit", BOTH, {{"parity.trajectory.pairs.4.log_ratio",
     "[0.02,0.006,0.004,0.0030000011]"}}, ERR, "from themselves in block 4", {0}},
    {"a circle that closes up to rounding", BOTH, {{"parity.trajectory.pairs.4.log_ratio",
     "[0.02,0.006,0.004,0.0030000000001]"}}, PASS, "gives", {0}},
    {"a band so wide that nothing can fail", BOTH,
     {COURSES(NULLS_OF("0.6,0.6", "-0.6,-0.6") "," ULPS)}, ABSENT,
     "FP32 runs of other seeds differ by 0.6, more than 0.5: in a band as wide nothing can fail", {0}},
    {"a band just not as wide", BOTH, {COURSES(NULLS_OF("0.5,0.5", "-0.5,-0.5") "," ULPS)}, PASS, "gives",
     {0}},
    {"a band too wide of runs too long", BOTH,
     {COURSES(NULLS_OF("0.6,0.6", "-0.6,-0.6") "," ULPS), {"window.planned_steps", "399"}}, ERR,
     "a training has 399",
     {0}},
    {"identical arms and a run left out", BOTH,
     {{"parity.trajectory.block", "200"}, {"parity.trajectory.pairs", "[" SERIES("candidate", "1", "0,0") ","
      NULLS_OF("0.02,0.02", "-0.02,-0.02") "," ULPS "]"}}, FAILS, "nothing was compared", {0}},
    {"a bias of half a percent, in a wide band", BOTH,
     {{"parity.trajectory.block", "200"}, {"parity.trajectory.pairs", "["
      SERIES("candidate", "1", "0.0050,0") "," SERIES("candidate", "2", "0.0051,0") ","
      SERIES("candidate", "3", "0.0052,0") "," SERIES("candidate", "4", "0.0049,0") ","
      SERIES("candidate", "5", "0.0048,0") "," SERIES("candidate", "6", "0.0050,0") ","
      SERIES("candidate", "7", "0.0051,0") "," SERIES("candidate", "8", "0.0049,0") ","
      NULLS_OF("0.05,0.05", "-0.05,-0.05") "," ULPS "]"}}, FAILS,
     "log ratio of the loss, proven in the mean over pairs in block 1 of 2 is 0.0047", {0}},
    {"the same bias, lost in chance", BOTH,
     {{"parity.trajectory.block", "200"}, {"parity.trajectory.pairs", "["
      SERIES("candidate", "1", "0.0150,0") "," SERIES("candidate", "2", "-0.0051,0") ","
      SERIES("candidate", "3", "0.0152,0") "," SERIES("candidate", "4", "-0.0049,0") ","
      SERIES("candidate", "5", "0.0148,0") "," SERIES("candidate", "6", "-0.0050,0") ","
      SERIES("candidate", "7", "0.0151,0") "," SERIES("candidate", "8", "-0.0049,1e-9") ","
      NULLS_OF("0.05,0.05", "-0.05,-0.05") "," ULPS "]"}}, PASS, "gives", {0}},
};

#define WITH_METRIC(name, relative, higher, quantum) \
    {"quality.metric", "\"" name "\""}, {"parity.slices", NULL}, {"parity.metric.name", "\"" name "\""}, \
    {"parity.metric.relative", relative}, {"parity.metric.higher_is_better", higher}, \
    {"parity.metric.quantum", quantum}

static const ParityRow metric_rows[] = {
    {"an AUC above 1", BOTH, {{"parity.metric.pairs.0.reference", "1.001"},
     {"parity.metric.pairs.0.candidate",
     "1.0011"}}, ERR, "metric: auc of 1.001 is none", {0}},
    {"an AUC below 0", BOTH, {{"parity.metric.pairs.0.candidate", "-0.001"},
     {"parity.metric.pairs.0.reference",
     "0.0001"}}, ERR, "auc of -0.001 is none", {0}},
    {"a trained AUC above 1", BOTH, {{"parity.metric.trained", "{\"reference\":1.1,\"candidate\":1.1}"}}, ERR,
     "auc of 1.1 is none", {0}},
    {"a perfect AUC in one pair", BOTH, {{"parity.metric.trained", "{\"reference\":1,\"candidate\":1}"}},
     PASS,
     "gives", {0}},
    {"an accuracy above 1", BOTH, {WITH_METRIC("accuracy", "false", "true", "0.0003333333333333333"),
     {"parity.metric.trained", "{\"reference\":1.1,\"candidate\":1.1}"}}, ERR, "accuracy of 1.1 is none",
     {0}},
    {"an accuracy", BOTH, {WITH_METRIC("accuracy", "false", "true", "0.0003333333333333333")}, PASS, "gives",
     {0}},
    {"an accuracy in finer steps than rows", BOTH, {WITH_METRIC("accuracy", "false", "true", "0.0001")}, ERR,
     "accuracy is said to move in steps of 0.0001, on these 3000 rows it moves in 0.000333333", {0}},
    {"a loss above 1", BOTH, {WITH_METRIC("logloss", "true", "false", "0"),
     {"parity.metric.trained", "{\"reference\":1.1,\"candidate\":1.1}"}}, PASS, "gives", {0}},
    {"a negative loss", BOTH, {WITH_METRIC("logloss", "true", "false", "0"),
     {"parity.metric.trained", "{\"reference\":-0.5,\"candidate\":-0.5}"}}, ERR, "logloss of -0.5 is none",
     {0}},
    {"a negative RMSE", BOTH, {WITH_METRIC("rmse", "true", "false", "0"),
     {"parity.metric.trained", "{\"reference\":-2,\"candidate\":-2}"}}, ERR, "rmse of -2 is none", {0}},
    {"a loss in steps", BOTH, {WITH_METRIC("rmse", "true", "false", "0.01")}, ERR,
     "rmse is said to move in steps of 0.01", {0}},
    {"a coarser AUC than its rows make", BOTH, {{"parity.metric.quantum", "0.0003"}}, ERR,
     "auc is said to move in steps of 0.0003, on these 3000 rows it moves in 3.07522e-07", {0}},
    {"a finer AUC", BOTH, {{"parity.metric.quantum", "3.07e-7"}}, ERR, "in steps of 3.07e-07", {0}},
    {"no rows in the input", BOTH, {{"input.rows", NULL}, {"parity.slices", NULL}}, ABSENT,
     "'input.rows' was not measured", {0}},
    {"positives unsaid", BOTH, {{"input.target_mean", NULL}, {"parity.slices", NULL}}, ABSENT,
     "'input.target_mean.validation' was not measured", {0}},
    {"a share of positives above 1", BOTH, {{"input.target_mean.validation", "1.5"}, {"parity.slices", NULL}},
     ABSENT, "'input.target_mean.validation' was not measured", {0}},
    {"no positives", BOTH, {{"input.target_mean.validation", "0"}, {"parity.slices", NULL}}, ERR,
     "moves in inf", {0}},
    {"undecided, and impossible", BOTH, {{"parity.metric.looks", "1000000"}, {"parity.metric.quantum",
     "0.0003"}}, ERR,
     "auc is said to move", {0}},
};

#define LOSS_SLICES(more, reference, candidate) \
    {"quality.metric", "\"logloss\""}, {"parity.metric.name", "\"logloss\""}, {"parity.metric.relative", \
    "true"}, \
    {"parity.metric.higher_is_better", "false"}, {"parity.metric.quantum", "0"}, \
    {"parity.slices", "[{\"column\":\"job\",\"value\":\"a\",\"rows\":3000," more "\"reference\":[" reference \
     "],\"candidate\":[" candidate "]}]"}
static const ParityRow slice_rows[] = {
    {"a slice left out", BOTH, {{"parity.metric.rows", "3100"}, {"input.rows.validation", "3100"},
     {"input.target_mean.validation", "0.229032258064516129"}, {"parity.metric.quantum",
     "2.9465495904296e-07"}}, ERR,
     "slices of column 'job' hold 3000 rows, there are 3100 for validation", {0}},
    {"positives called fewer than there are", BOTH, {{"input.target_mean.validation", "0.3"},
     {"parity.metric.quantum", "2.645502645502646e-07"}}, ERR,
     "slices of column 'job' hold 710 positives, the input has 900 among these rows", {0}},
    {"a second column that does not add up", BOTH,
     {{"parity.slices", "[" SLICE("a", "2000", "400", EIGHT("0.90", "0.91"), EIGHT("0.899", "0.9105")) ","
       "{\"column\":\"age\",\"value\":\"old\",\"rows\":1000,\"positives\":0}]"}}, ERR,
     "slices of column 'job' hold 2000 rows, there are 3000", {0}},
    {"all called too small to tell", BOTH,
     {{"parity.slices", "[{\"column\":\"job\",\"value\":\"a\",\"rows\":40,\"positives\":0}]"},
      {"input.rows.validation", "3000"}}, ERR, "slices of column 'job' hold 40 rows, there are 3000", {0}},
    {"a slice metric above 1", BOTH, {{"parity.slices.0.reference",
     "[1.01,1.02,1.01,1.02,1.01,1.02,1.01,1.02]"},
     {"parity.slices.0.candidate", "[1.01,1.02,1.01,1.02,1.01,1.02,1.01,1.02]"}}, ERR,
     "slices: auc of 1.01 is none",
     {0}},
    {"a slice metric below 0", BOTH, {{"parity.slices.0.reference",
     "[-0.1,-0.1,-0.1,-0.1,-0.1,-0.1,-0.1,-0.1]"},
     {"parity.slices.0.candidate", "[-0.1,-0.1,-0.1,-0.1,-0.1,-0.1,-0.1,-0.1]"}}, ERR, "auc of -0.1 is none",
     {0}},
    {"slices without counts of classes, of a loss", BOTH,
     {{"quality.metric", "\"logloss\""}, {"parity.metric.name", "\"logloss\""}, {"parity.metric.relative",
     "true"},
      {"parity.metric.higher_is_better", "false"}, {"parity.metric.quantum", "0"},
      {"parity.slices", "[{\"column\":\"job\",\"value\":\"a\",\"rows\":3000,\"reference\":[" EIGHT("0.90",
     "0.91")
       "],\"candidate\":[" EIGHT("0.899", "0.9105") "]}]"}}, PASS, "no slice is harmed by as much as", {0}},
    {"counts of classes of another type, of a loss", BOTH,
     {LOSS_SLICES("\"positives\":\"x\",", EIGHT("0.90", "0.91"), EIGHT("0.899", "0.9105"))}, ERR,
     "positives", {0}},
    {"a loss that is the same in both arms", BOTH,
     {LOSS_SLICES("", EIGHT("0.90", "0.91"), EIGHT("0.90", "0.91"))}, PASS, "gives", {0}},
    {"a loss that is worse by the same in all pairs", BOTH,
     {LOSS_SLICES("", EIGHT("0.5", "0.5"), EIGHT("0.75", "0.75"))}, FAILS, "is harmed by 0.5 in 8 pairs",
     {0}},
    {"a loss that is better by the same in all pairs", BOTH,
     {LOSS_SLICES("", EIGHT("0.5", "0.5"), EIGHT("0.25", "0.25"))}, PASS, "gives", {0}},
    {"slices of an accuracy", BOTH,
     {WITH_METRIC("accuracy", "false", "true", "0.0003333333333333333"),
      {"parity.slices", "[{\"column\":\"job\",\"value\":\"a\",\"rows\":3000,\"reference\":[" EIGHT("0.90",
     "0.91")
       "],\"candidate\":[" EIGHT("0.90", "0.91") "]}]"}}, PASS, "no slice is harmed by as much as 0.000333",
     {0}},
    {"one class with numbers in both arms", BOTH,
     {{"parity.slices", "[" SLICE("a", "2000", "400", EIGHT("0.90", "0.91"), EIGHT("0.899", "0.9105")) ","
       SLICE("b", "1000", "1000", EIGHT("0.90", "0.91"), EIGHT("0.90", "0.91")) "]"}}, PASS, "gives", {0}},
    {"one class, all positive, undefined in both arms", BOTH,
     {{"parity.slices", "[" SLICE("a", "2000", "400", EIGHT("0.90", "0.91"), EIGHT("0.899", "0.9105")) ","
       SLICE("b", "1000", "1000", EIGHT("\"nan\"", "\"nan\""), EIGHT("\"nan\"", "\"nan\"")) "]"}}, PASS,
     "gives", {0}},
    {"one class, undefined in FP32 alone", BOTH,
     {{"parity.slices", "[" SLICE("a", "2000", "400", EIGHT("0.90", "0.91"), EIGHT("0.899", "0.9105")) ","
       SLICE("b", "1000", "1000", EIGHT("\"nan\"", "\"nan\""), EIGHT("0.9", "0.9")) "]"}}, FAILS,
     "auc of slice job 'b' is 0.9 in half precision and nan in FP32", {0}},
    {"undecided, and impossible", BOTH, {{"parity.metric.rows", "3100"}, {"input.rows.validation", "3100"},
     {"parity.slices.0.rows", "1501"}, {"parity.metric.quantum", "2.9465495904296e-07"},
     {"input.target_mean.validation", "0.229032258064516129"}}, ERR, "hold 3001 rows",
     {"parity.slice_margin=0"}},
};
// clang-format on

PARITY_ROW_TEST(gradients, gradient_rows)
PARITY_ROW_TEST(steps, step_rows)
PARITY_ROW_TEST(scales, scale_rows)
PARITY_ROW_TEST(trajectories, trajectory_rows)
PARITY_ROW_TEST(metrics, metric_rows)
PARITY_ROW_TEST(slices, slice_rows)

// Of each slice large enough to judge: how small a harm would have shown.
START_TEST(the_table_says_what_each_slice_can_tell)
{
    OWNED(Json, json_free) *evidence = half_evidence(BF16);
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){0});
    OWNED(Json, json_free) *table = parity_table(evidence, policy);
    size_t found = 0;
    for (size_t i = 0; i < json_count(table); i++) {
        const Json *row = json_at(table, i);
        if (!text_equal(json_text_or(json_get(row, "name"), ""), "smallest margin that can be told")) {
            continue;
        }
        const char *value = found == 0 ? "a" : "b";   // c and d are too small
        double told = json_number_or(json_get(row, "value"), NAN);
        ck_assert_str_eq(json_text_or(json_get(row, "worst"), ""), value);
        ck_assert_str_eq(json_text_or(json_get(row, "at"), ""), "job");
        ck_assert_str_eq(json_text_or(json_get(row, "outcome"), ""), "pass");
        ck_assert(fabs(told - (found == 0 ? 0.0025 : 1.0 / 300)) < 1e-12);   // one positive of 400, of 300
        ck_assert_int_eq(json_integer_or(json_get(row, "n"), 0), 8);
        found++;
    }
    ck_assert_uint_eq(found, 2);
}
END_TEST

START_TEST(a_slice_that_cannot_tell_its_margin_is_shown_as_such)
{
    OWNED(Json, json_free) *evidence = half_evidence(BF16);
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){"parity.slice_margin=0.003"});
    OWNED(Json, json_free) *table = parity_table(evidence, policy);
    size_t rows[2] = {0, 0};
    for (size_t i = 0; i < json_count(table); i++) {
        const Json *row = json_at(table, i);
        if (text_equal(json_text_or(json_get(row, "name"), ""), "smallest margin that can be told")) {
            rows[text_equal(json_text_or(json_get(row, "outcome"), ""), "pass")]++;
        }
    }
    ck_assert(rows[0] == 1 && rows[1] == 1);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gate_parity_sound_test");
    TCase *c = tcase_create("rows");
    tcase_add_loop_test(c, gradients, 0, COUNT(gradient_rows));
    tcase_add_loop_test(c, steps, 0, COUNT(step_rows));
    tcase_add_loop_test(c, scales, 0, COUNT(scale_rows));
    tcase_add_loop_test(c, trajectories, 0, COUNT(trajectory_rows));
    tcase_add_loop_test(c, metrics, 0, COUNT(metric_rows));
    tcase_add_loop_test(c, slices, 0, COUNT(slice_rows));
    tcase_add_test(c, the_table_says_what_each_slice_can_tell);
    tcase_add_test(c, a_slice_that_cannot_tell_its_margin_is_shown_as_such);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
