// gate_parity_metric_test - rungs 5 and 6 of the ladder: trajectory, metric of paired seeds, slices.
#include "../../src/gate/parity_internal.h"   // each rung with little memory
#include "gate_parity_fixture.h"

// clang-format off
#define BAD_PAIRS \
    METRIC_PAIR("1", "0.910", "0.9035") "," METRIC_PAIR("2", "0.912", "0.9062") "," \
    METRIC_PAIR("3", "0.908", "0.9018") "," METRIC_PAIR("4", "0.911", "0.9049") "," \
    METRIC_PAIR("5", "0.909", "0.9031") "," METRIC_PAIR("6", "0.913", "0.9070") "," \
    METRIC_PAIR("7", "0.907", "0.9008") "," METRIC_PAIR("8", "0.914", "0.9080")
// 20 of 100 positive: half a pair is 0.0003 of AUC
#define OF_100_ROWS \
    {"parity.metric.rows", "100"}, {"input.rows.validation", "100"}, {"parity.slices", NULL}, \
    {"parity.metric.quantum", "0.0003125"}, {"input.target_mean", "{\"validation\":0.2}"}
#define PAIRS_OF(all) {"parity.metric.pairs", "[" all "]"}
#define ULPS SERIES("ulp", "1", "1e-9,1e-9") "," SERIES("ulp", "2", "1e-9,2e-9")
#define NULLS NULLS_OF("0.02,0.02", "-0.02,-0.02") "," ULPS
#define TWO_BLOCKS(all) {"parity.trajectory.block", "200"}, {"parity.trajectory.pairs", "[" all "]"}

static const ParityRow trajectory_rows[] = {
    {"absent", BOTH, {{"parity.trajectory", NULL}}, ABSENT,
     "trajectory: 'parity.trajectory' was not measured", {0}},
    {"of another type", BOTH, {{"parity.trajectory", "[]"}}, ERR, "not an object", {0}},
    {"steps unsaid", BOTH, {{"parity.trajectory.steps", NULL}}, ABSENT, "steps", {0}},
    {"block unsaid", BOTH, {{"parity.trajectory.block", NULL}}, ABSENT, "block", {0}},
    {"no pairs array", BOTH, {{"parity.trajectory.pairs", NULL}}, ABSENT, "pairs", {0}},
    {"no pairs", BOTH, {{"parity.trajectory.pairs", "[]"}}, ABSENT, "'parity.trajectory.pairs' is empty",
     {0}},
    {"a pair of another type", BOTH, {{"parity.trajectory.pairs", "[1]"}}, ERR, "not an object", {0}},
    {"kind unsaid", BOTH, {{"parity.trajectory.pairs.0.kind", NULL}}, ABSENT, "kind", {0}},
    {"seed unsaid", BOTH, {{"parity.trajectory.pairs.0.seed", NULL}}, ABSENT, "seed", {0}},
    {"no ratios", BOTH, {{"parity.trajectory.pairs.0.log_ratio", NULL}}, ABSENT, "log_ratio", {0}},
    {"another kind", BOTH, {{"parity.trajectory.pairs.0.kind", "\"fp8\""}}, ERR, "a series is of kind 'fp8'",
     {0}},
    {"empty ratios", BOTH, {{"parity.trajectory.pairs", "[" SERIES("ulp", "1", "") "]"}}, ERR,
     "of kind 'ulp' has no block", {0}},
    {"ratios of other lengths", BOTH, {{"parity.trajectory.pairs.1.log_ratio", "[0.1]"}}, ERR, "as long as",
     {0}},
    {"ratios of another type", BOTH, {{"parity.trajectory.pairs.1.log_ratio", "[null,1,1,1]"}}, ERR,
     "not an array of numbers", {0}},
    {"no half precision run", BOTH, {{"parity.trajectory.pairs", "[" NULLS "]"}}, ABSENT,
     "0 half precision runs and 8 FP32 runs", {0}},
    {"no FP32 run", BOTH, {{"parity.trajectory.pairs", "[" SERIES("candidate", "1", "0.001,0.001") "]"}},
     ABSENT,
     "1 half precision runs and 0 FP32 runs of other seeds span no band", {0}},
    {"one FP32 run", BOTH,
     {{"parity.trajectory.pairs", "[" SERIES("candidate", "1", "0.001,0.001") "," SERIES("ulp", "1",
     "0.1,0.1") "]"}}, ABSENT,
     "0 FP32 runs of other seeds span no band: at least 1 and 2", {0}},
    {"two FP32 runs", BOTH, {TWO_BLOCKS(CANDIDATES("0.001,0.001") "," NULLS)}, PASS, "gives", {0}},
    {"one FP32 run of another seed", BOTH,
     {TWO_BLOCKS(CANDIDATES("0.001,0.001") "," SERIES("seed", "1", "0.02,0.02") "," SERIES("ulp", "1",
     "0.01,0.01"))},
     ABSENT, "1 FP32 runs of other seeds", {0}},
    {"7 steps", BOTH, {{"parity.trajectory.steps", "7"}}, ABSENT,
     "at least 8 are needed: option parity.steps", {0}},
    {"8 steps", BOTH, {{"parity.trajectory.steps", "8"}, {"parity.trajectory.block", "2"}}, PASS, "gives",
     {0}},
    {"no steps at all", BOTH, {{"parity.trajectory.steps", "0"}, {"parity.trajectory.block", "0"}}, ABSENT,
     "runs of 0 steps", {0}},
    {"a block of no steps", BOTH, {{"parity.trajectory.block", "0"}}, ERR,
     "4 blocks of 0 steps are not the 400", {0}},
    {"blocks that end too early", BOTH, {{"parity.trajectory.steps", "401"}}, ERR,
     "4 blocks of 100 steps", {0}},
    {"blocks that go on too long", BOTH, {{"parity.trajectory.steps", "300"}}, ERR,
     "are not the 300 steps", {0}},
    {"a last block that is shorter", BOTH, {{"parity.trajectory.steps", "301"}}, PASS, "gives", {0}},
    {"half precision runs of other seeds than the metric's", BOTH, {{"parity.trajectory.pairs.0.seed",
     "9"}}, ERR,
     "trajectory: losses of 8 half precision runs and metrics of 8 pairs, 7 with the same seed", {0}},
    {"a half precision run left out", BOTH, {TWO_BLOCKS(SERIES("candidate", "1", "0.001,0.001") ","
     NULLS)}, ERR,
     "losses of 1 half precision runs and metrics of 8 pairs, 1 with", {0}},
    {"a seed of half precision twice", BOTH, {{"parity.trajectory.pairs.1.seed", "1"}}, ERR,
     "two series of kind 'candidate' have seed 1", {0}},
    {"a seed of FP32 twice", BOTH, {{"parity.trajectory.pairs.5.seed", "1"}}, ERR,
     "two series of kind 'seed' have seed 1", {0}},
    {"a harmful course goes before a run left out", BOTH,
     {TWO_BLOCKS(SERIES("candidate", "1", "0.9,0.9") "," NULLS)}, FAILS, "log ratio of the loss", {0}},
    {"a loss that is not a number", BOTH, {{"parity.trajectory.pairs.1.log_ratio", "[0,0,\"nan\",0]"}}, FAILS,
     "trajectory: log ratio of the loss 'seed 2' in block 3 of 4 is nan", {0}},
    {"an infinite loss", BOTH, {{"parity.trajectory.pairs.0.log_ratio", "[0,0,0,\"inf\"]"}}, FAILS,
     "'seed 1' in block 4 of 4 is inf", {0}},
    {"FP32 that does not train", BOTH, {{"parity.trajectory.pairs.4.log_ratio", "[0,\"nan\",0,0]"}}, ERR,
     "FP32 itself does not train: log ratio nan in block 1 of seed 1", {0}},
    {"an infinite FP32 loss", BOTH, {{"parity.trajectory.pairs.2.log_ratio", "[0,\"inf\",0,0]"}}, ERR,
     "FP32 itself does not train", {0}},
    {"FP32 runs that do not differ", BOTH,
     {TWO_BLOCKS(CANDIDATES("0.001,0.001") "," SERIES("seed", "2", "0,0") "," SERIES("seed", "1",
     "0,0"))}, ERR,
     "the band is empty", {0}},
    {"identical arms", BOTH,
     {TWO_BLOCKS(CANDIDATES("0,0") "," NULLS)}, FAILS,
     "both arms have the same losses to the last bit in all 2 blocks: nothing was compared", {0}},
    {"outside the band", BOTH, {{"parity.trajectory.pairs.0.log_ratio", "[0,0,0,0.0051]"}}, FAILS,
     "'seed 1' in block 4 of 4 is 0.0051, may be at most 0.004", {0}},
    {"below the band", BOTH, {{"parity.trajectory.pairs.0.log_ratio", "[0,0,0,-0.0051]"}}, FAILS,
     "is 0.0051", {0}},
    {"inside a neighbour's band after", BOTH, {{"parity.trajectory.pairs.0.log_ratio", "[0,0.019,0,0]"}},
     PASS, "gives", {0}},
    {"inside a neighbour's band before", BOTH,
     {{"parity.trajectory.pairs.0.log_ratio", "[0,0,0,0.0039]"}, {"parity.trajectory.pairs.1.log_ratio",
     "[0,0,0,0]"}}, PASS, "gives", {0}},
    {"two blocks away", BOTH, {{"parity.trajectory.pairs.0.log_ratio", "[0,0,0.01,0]"}}, FAILS,
     "block 3 of 4 is 0.01, may be at most 0.006", {0}},
    {"never wider than 0.1", BOTH,
     {TWO_BLOCKS(CANDIDATES("0.11,0.01") "," NULLS_OF("0.5,0.5", "-0.5,-0.5") "," ULPS)}, FAILS,
     "in the mean over pairs in block 1 of 2 is 0.11, may be at most 0.0025", {0}},
    {"a run never outside 0.1", BOTH,
     {{"parity.trajectory.pairs.0.log_ratio", "[0.11,0,0,0]"}, {"parity.trajectory.pairs.4.log_ratio",
     "[0.5,0.006,0.004,0.003]"}, {"parity.trajectory.pairs.5.log_ratio", "[-0.5,-0.006,-0.004,-0.003]"}},
     FAILS, "'seed 1' in block 1 of 4 is 0.11, may be at most 0.1", {0}},
    {"never narrower than 0.0025", BOTH,
     {TWO_BLOCKS(CANDIDATES("0.0024,0.0001") "," NULLS_OF("1e-8,1e-8", "-1e-8,-1e-8") "," ULPS)}, PASS,
     "gives", {0}},
    {"beyond the narrowest", BOTH,
     {TWO_BLOCKS(CANDIDATES("0.0026,0.0001") "," NULLS_OF("1e-8,1e-8", "-1e-8,-1e-8") "," ULPS)}, FAILS,
     "is 0.0026, may be at most 0.0025", {0}},
    {"a bias in all pairs", BOTH,
     {TWO_BLOCKS(CANDIDATES("0.0145,0") "," NULLS)}, FAILS,
     "proven in the mean over pairs in block 1 of 2 is 0.0145, may be at most 0.0025", {0}},
    {"a bias below", BOTH,
     {TWO_BLOCKS(CANDIDATES("-0.0145,0") "," NULLS)}, FAILS, "mean over pairs in block 1 of 2 is 0.0145",
     {0}},
    {"chance in both directions", BOTH,
     {{"parity.trajectory.pairs.0.log_ratio", "[0.019,0,0,0]"}, {"parity.trajectory.pairs.1.log_ratio",
     "[-0.019,0,0,0]"}}, PASS, "gives", {0}},
};

static const ParityRow metric_rows[] = {
    {"absent", BOTH, {{"parity.metric", NULL}, {"parity.slices", NULL}}, ABSENT,
     "metric: 'parity.metric' was not measured", {0}},
    {"of another type", BOTH, {{"parity.metric", "1"}}, ERR, "not an object", {0}},
    {"no name", BOTH, {{"parity.metric.name", NULL}}, ABSENT, "parity.metric.name", {0}},
    {"an unknown name", BOTH, {{"parity.metric.name", "\"f1\""}}, ERR, "'parity.metric' is no metric: 'f1'",
     {0}},
    {"relative unsaid", BOTH, {{"parity.metric.relative", NULL}}, ABSENT, "relative", {0}},
    {"a margin of the other kind", BOTH, {{"parity.metric.relative", "true"}}, ERR, "'auc', relative margin",
     {0}},
    {"direction unsaid", BOTH, {{"parity.metric.higher_is_better", NULL}}, ABSENT, "higher_is_better", {0}},
    {"the other direction", BOTH, {{"parity.metric.higher_is_better", "false"}}, ERR, "lower is better", {0}},
    {"looks unsaid", BOTH, {{"parity.metric.looks", NULL}}, ABSENT, "looks", {0}},
    {"no look", BOTH, {{"parity.metric.looks", "0"}}, ERR,
     "'parity.metric.looks' is 0: this night looks too", {0}},
    {"a negative look", BOTH, {{"parity.metric.looks", "-1"}}, ERR, "'parity.metric.looks' is -1", {0}},
    {"step unsaid", BOTH, {{"parity.metric.quantum", NULL}}, ABSENT, "quantum", {0}},
    {"a negative step", BOTH, {{"parity.metric.quantum", "-1"}}, ERR, "quantum' is -1", {0}},
    {"a step that is not a number", BOTH, {{"parity.metric.quantum", "\"nan\""}}, ERR, "quantum' is nan",
     {0}},
    {"no pairs array", BOTH, {{"parity.metric.pairs", NULL}, {"parity.slices", NULL}}, ABSENT, "pairs", {0}},
    {"no pairs", BOTH, {{"parity.metric.pairs", "[]"}, {"parity.slices", NULL}}, ABSENT,
     "'parity.metric.pairs' is empty", {0}},
    {"a pair of another type", BOTH, {{"parity.metric.pairs", "[1]"}}, ERR, "not an object", {0}},
    {"seed unsaid", BOTH, {{"parity.metric.pairs.0.seed", NULL}, {"parity.trajectory", NULL}}, ABSENT,
     "parity.trajectory", {0}},
    {"run unsaid", BOTH, {{"parity.metric.pairs.0.run", NULL}, {"parity.slices", NULL}}, ABSENT, "run", {0}},
    {"reference unsaid", BOTH, {{"parity.metric.pairs.0.reference", NULL}}, ABSENT, "reference", {0}},
    {"candidate unsaid", BOTH, {{"parity.metric.pairs.0.candidate", NULL}}, ABSENT, "candidate", {0}},
    {"one pair", BOTH, {PAIRS_OF(METRIC_PAIR("1", "0.91", "0.9101")), {"parity.slices", NULL}}, ABSENT,
     "1 half precision runs and 1 FP32 runs of other seeds", {0}},
    {"two pairs of eight", BOTH, {PAIRS_OF(METRIC_PAIR("1", "0.91", "0.9101") "," METRIC_PAIR("2", "0.92",
     "0.9203")), {"parity.slices", NULL}}, ABSENT, "2 of the 8 declared pairs were run this night", {0}},
    {"a pair left out", BOTH, {{"parity.metric.pairs.0.run", "\"yesterday\""}, {"parity.slices", NULL}},
     ABSENT,
     "7 of the 8 declared pairs", {0}},
    {"more pairs declared", BOTH, {{0}}, ABSENT, "metric: 8 of the 9 declared pairs", {"parity.pairs=9"}},
    {"fewer pairs declared", BOTH, {{0}}, PASS, "(8 pairs, 2 needed)", {"parity.pairs=7"}},
    {"evidence without run", BOTH, {{"run", NULL}, {"parity.slices", NULL}}, ERR,
     "losses of 8 half precision runs and metrics of 0 pairs", {0}},
    {"a metric that does not decide the night", BOTH, {{"quality.metric", "\"logloss\""}}, ERR,
     "metric: pairs were compared by 'auc', the night is decided by 'logloss'", {0}},
    {"what decides unsaid", BOTH, {{"quality.metric", NULL}}, ABSENT,
     "metric: 'quality.metric' was not measured", {0}},
    {"quality unsaid", BOTH, {{"quality", NULL}}, ABSENT, "'quality' was not measured", {0}},
    {"rows unsaid", BOTH, {{"parity.metric.rows", NULL}}, ABSENT, "parity.metric.rows", {0}},
    {"other rows than those of validation", BOTH, {{"parity.metric.rows", "2999"}}, ERR,
     "pairs were compared on 2999 rows, there are 3000 for validation", {0}},
    {"validation rows unsaid", BOTH, {{"input.rows.validation", NULL}}, ABSENT, "input.rows.validation", {0}},
    {"49 rows", BOTH, {{"parity.metric.rows", "49"}, {"input.rows.validation", "49"}, {"parity.slices",
     NULL}}, ABSENT,
     "49 validation rows are too few to compare a metric on, 50 are needed", {0}},
    {"50 rows", BOTH, {{"parity.metric.rows", "50"}, {"input.rows.validation", "50"}, {"parity.slices", NULL},
     {"parity.metric.quantum", "0.00125"}, {"input.target_mean", "{\"validation\":0.2}"}}, PASS, "gives",
     {0}},
    {"fewer looks than nights", BOTH,
     {PAIRS_OF("{\"seed\":91,\"run\":\"q\",\"reference\":0.91,\"candidate\":0.9101}," GOOD_PAIRS)}, ERR,
     "'parity.metric.looks' is 1, the pairs are of 2 nights", {0}},
    {"pairs of earlier nights count", BOTH,
     {PAIRS_OF("{\"seed\":91,\"run\":\"q\",\"reference\":0.91,\"candidate\":0.9101}," GOOD_PAIRS),
     {"parity.metric.looks", "2"}}, PASS,
     "(9 pairs, 3 needed)", {0}},
    {"a bad night after good ones", BOTH,
     {PAIRS_OF("{\"seed\":91,\"run\":\"q\",\"reference\":0.91,\"candidate\":0.9101}," BAD_PAIRS),
     {"parity.metric.looks", "2"}}, FAILS, "of tonight's 8 pairs differs by -0.00", {0}},
    {"a seed twice", BOTH, {{"parity.metric.pairs.1.seed", "1"}}, ERR,
     "two series of kind 'candidate' have seed 1", {0}},
    {"a seed of another night again", BOTH,
     {PAIRS_OF("{\"seed\":1,\"run\":\"q\",\"reference\":0.91,\"candidate\":0.9101}," GOOD_PAIRS)}, ERR,
     "seed 1 stands in two pairs", {0}},
    {"a metric that is not a number", BOTH, {{"parity.metric.pairs.2.candidate", "\"nan\""}}, FAILS,
     "metric: auc of seed 3 is nan in half precision and 0.908 in FP32", {0}},
    {"a reference that is not a number", BOTH, {{"parity.metric.pairs.2.reference", "\"nan\""}}, FAILS,
     "and nan in FP32", {0}},
    {"an infinite metric", BOTH, {{"parity.metric.pairs.2.candidate", "\"inf\""}}, FAILS,
     "auc of seed 3 is inf", {0}},
    {"identical arms", BOTH,
     {PAIRS_OF(METRIC_PAIR("1", "0.91", "0.91") "," METRIC_PAIR("2", "0.92", "0.92") "," METRIC_PAIR("3",
     "0.90", "0.90"))}, FAILS,
     "metric: auc is the same in both arms in every pair: nothing was compared (3 pairs)", {0}},
    {"zero variance", BOTH,
     {PAIRS_OF(METRIC_PAIR("1", "0.75", "0.75") "," METRIC_PAIR("2", "0.75", "0.75"))}, FAILS,
     "auc has zero variance: it is the same for every seed (2 pairs)", {0}},
    {"zero variance of one arm", BOTH,
     {PAIRS_OF(METRIC_PAIR("1", "0.75", "0.7501") "," METRIC_PAIR("2", "0.7503", "0.7501"))}, FAILS,
     "the same for every seed", {0}},
    {"zero variance of the difference", BOTH,
     {PAIRS_OF(METRIC_PAIR("1", "0.75", "0.875") "," METRIC_PAIR("2", "0.5", "0.625") "," METRIC_PAIR("3",
     "0.25", "0.375"))}, FAILS,
     "auc has zero variance: it differs by the same in every pair (3 pairs)", {0}},
    {"a coarse metric may be the same", BOTH,
     {PAIRS_OF(METRIC_PAIR("1", "0.91", "0.91") "," METRIC_PAIR("2", "0.92", "0.92") "," METRIC_PAIR("3",
     "0.90", "0.90") ","
       METRIC_PAIR("4", "0.95", "0.95") "," METRIC_PAIR("5", "0.96", "0.96")), OF_100_ROWS},
     PASS, "(5 pairs", {"parity.pairs=5"}},
    {"a metric too coarse for its margin", BOTH,
     {PAIRS_OF(METRIC_PAIR("1", "0.91", "0.91") "," METRIC_PAIR("2", "0.92", "0.92") "," METRIC_PAIR("3",
     "0.90", "0.90")),
      {"parity.metric.quantum", "0.05"}, {"parity.slices", NULL}}, ERR,
     "no number of pairs can show that auc is the same within 0.005", {"parity.pairs=3"}},
    {"the same difference in a coarse metric", BOTH,
     {PAIRS_OF(METRIC_PAIR("1", "0.75", "0.875") "," METRIC_PAIR("2", "0.5", "0.625")),
     {"parity.metric.quantum", "0.0003"}}, FAILS,
     "it differs by the same", {0}},
    {"worse beyond the margin", BOTH,
     {PAIRS_OF(METRIC_PAIR("1", "0.91", "0.90") "," METRIC_PAIR("2", "0.92", "0.909") "," METRIC_PAIR("3",
     "0.90", "0.8905") ","
       METRIC_PAIR("4", "0.915", "0.9049")), {"parity.slices", NULL}}, FAILS,
     "metric: auc differs by -0.0102 +- 0.00", {"parity.pairs=4"}},
    {"better beyond the margin is another model too", BOTH,
     {PAIRS_OF(METRIC_PAIR("1", "0.90", "0.91") "," METRIC_PAIR("2", "0.909", "0.92") "," METRIC_PAIR("3",
     "0.8905", "0.90") ","
       METRIC_PAIR("4", "0.9049", "0.915")), {"parity.slices", NULL}}, FAILS, "outside the margin of 0.005",
     {"parity.pairs=4"}},
    {"too few pairs to tell", BOTH,
     {PAIRS_OF(METRIC_PAIR("1", "0.91", "0.915") "," METRIC_PAIR("2", "0.92", "0.915") "," METRIC_PAIR("3",
     "0.90", "0.903")),
      {"parity.slices", NULL}}, UNSURE,
     "metric: auc differs by 0.001 +- 0.0", {"parity.pairs=3"}},
    {"it says how many are needed", BOTH,
     {PAIRS_OF(METRIC_PAIR("1", "0.91", "0.915") "," METRIC_PAIR("2", "0.92", "0.915") "," METRIC_PAIR("3",
     "0.90", "0.903")),
      {"parity.slices", NULL}}, UNSURE, "not surely within 0.005: about 14 pairs are needed",
     {"parity.pairs=3"}},
    {"a narrower margin", BOTH, {{0}}, UNSURE, "not surely within 0.0002", {"parity.margin=0.0002"}},
    {"a wider margin", BOTH,
     {PAIRS_OF(METRIC_PAIR("1", "0.91", "0.90") "," METRIC_PAIR("2", "0.92", "0.909") "," METRIC_PAIR("3",
     "0.90", "0.8905") ","
       METRIC_PAIR("4", "0.915", "0.9049")), {"parity.slices", NULL}}, PASS, "margin 0.02 (4 pairs",
     {"parity.pairs=4", "parity.margin=0.02"}},
    {"a margin that is none", BOTH, {{0}}, ERR, "metric: parity.margin is 0.021, for auc at most 0.02",
     {"parity.margin=0.021"}},
    {"a margin of 0", BOTH, {{"parity.metric.trained.candidate", "0.915"}}, ERR,
     "no number of pairs can show that auc is the same within 0", {"parity.margin=0"}},
    {"many looks", BOTH, {{"parity.metric.looks", "1000000"}}, UNSURE, "not surely within 0.005", {0}},
    {"the candidate scored", BOTH, {{"parity.metric.trained", NULL}}, ABSENT,
     "'parity.metric.trained' was not measured", {0}},
    {"of another type", BOTH, {{"parity.metric.trained", "[]"}}, ERR, "not an object", {0}},
    {"half of it", BOTH, {{"parity.metric.trained.reference", NULL}}, ABSENT,
     "parity.metric.trained.reference", {0}},
    {"the other half", BOTH, {{"parity.metric.trained.candidate", NULL}}, ABSENT,
     "parity.metric.trained.candidate", {0}},
    {"a candidate that is another model in FP32", BOTH, {{"parity.metric.trained.candidate", "0.9"}}, FAILS,
     "difference of the candidate scored in both arithmetics 'auc' is 0.015, may be at most 0.005", {0}},
    {"or better", BOTH, {{"parity.metric.trained.candidate", "0.93"}}, FAILS, "is 0.015", {0}},
    {"not a number", BOTH, {{"parity.metric.trained.candidate", "\"nan\""}}, FAILS,
     "both arithmetics 'auc' is nan", {0}},
    {"a fail of the candidate goes before what is undecided", BOTH,
     {{"parity.metric.trained.candidate", "0.9"}}, FAILS, "scored in both arithmetics",
     {"parity.margin=0.0002"}},
};

#define LOSS \
    {"quality.metric", "\"rmse\""}, {"parity.slices", NULL}, \
    {"parity.metric.name", "\"rmse\""}, {"parity.metric.relative", "true"}, \
    {"parity.metric.higher_is_better", "false"}, {"parity.metric.quantum", "0"}
static const ParityRow loss_rows[] = {
    {"a loss has a relative margin", BOTH,
     {LOSS, PAIRS_OF(METRIC_PAIR("1", "58846", "58697") "," METRIC_PAIR("2", "58822",
     "59006") "," METRIC_PAIR("3", "58419", "58441")
       "," METRIC_PAIR("4", "58789", "58669"))}, FAILS, "scored in both arithmetics 'rmse'",
     {"parity.pairs=4", "parity.margin=0.0001"}},
    {"relative to the reference", BOTH, {LOSS, {"parity.metric.trained",
     "{\"reference\":100,\"candidate\":102.01}"}}, FAILS,
     "'rmse' is 0.0201, may be at most 0.02", {0}},
    {"within the relative margin", BOTH, {LOSS, {"parity.metric.trained",
     "{\"reference\":100,\"candidate\":101.9}"}}, PASS, "rmse within", {0}},
    {"a metric without steps", BOTH, {LOSS, {0}}, PASS, "rmse within", {0}},
    {"a reference of 0", BOTH, {LOSS, {"parity.metric.trained", "{\"reference\":0,\"candidate\":1}"}}, FAILS,
     "'rmse' is inf", {0}},
    {"a relative margin may be wider", BOTH, {LOSS}, PASS, "margin 0.05", {"parity.margin=0.05"}},
    {"both 0", BOTH, {LOSS, {"parity.metric.trained", "{\"reference\":0,\"candidate\":0}"}}, PASS,
     "rmse within", {0}},
};

#define SLICES_OF(all) {"parity.slices", "[" all "]"}
static const ParityRow slice_rows[] = {
    {"declared, absent", BOTH, {{"parity.slices", NULL}}, ABSENT, "slices: 'parity.slices' was not measured",
     {"quality.slices=[job]"}},
    {"declared, covered", BOTH, {{0}}, PASS, "gives", {"quality.slices=[job]"}},
    {"declared, another column", BOTH, {{0}}, ABSENT, "'parity.slices' holds no slice of column 'city'",
     {"quality.slices=[city]"}},
    {"undeclared, empty", BOTH, {{"parity.slices", "[]"}}, PASS, "gives", {0}},
    {"undeclared, null", BOTH, {{"parity.slices", "null"}}, PASS, "gives", {0}},
    {"of another type", BOTH, {{"parity.slices", "{}"}}, ERR, "not an array", {0}},
    {"a slice of another type", BOTH, {{"parity.slices", "[1]"}}, ERR, "not an object", {0}},
    {"a slice twice", BOTH, {{"parity.slices.1.value", "\"a\""}}, ERR, "twice", {0}},
    {"no column", BOTH, {{"parity.slices.0.column", NULL}}, ABSENT, "parity.slices.column", {0}},
    {"no value", BOTH, {{"parity.slices.0.value", NULL}}, ABSENT, "value", {0}},
    {"no rows", BOTH, {{"parity.slices.0.rows", NULL}}, ABSENT, "rows", {0}},
    {"negative positives", BOTH, {{"parity.slices.0.positives", "-1"}}, ERR, "positives' is -1", {0}},
    {"more positives than rows", BOTH, {{"parity.slices.0.positives", "1501"}}, ERR,
     "slice job 'a' has 1501 positives in 1500 rows", {0}},
    {"no reference", BOTH, {{"parity.slices.0.reference", NULL}}, ABSENT, "reference", {0}},
    {"no candidate", BOTH, {{"parity.slices.0.candidate", NULL}}, ABSENT, "candidate", {0}},
    {"a candidate of another length", BOTH, {{"parity.slices.0.candidate", "[0.9]"}}, ERR, "as long as", {0}},
    {"no class counts", BOTH, {{"parity.slices.0.positives", NULL}}, ABSENT, "parity.slices.positives", {0}},
    {"all positive without metric", BOTH,
     {SLICES_OF("{\"column\":\"job\",\"value\":\"d\",\"rows\":1000,\"positives\":1000},"
      SLICE("a", "2000", "400", EIGHT("0.90", "0.91"), EIGHT("0.899", "0.9105")))}, PASS, "gives", {0}},
    {"no rows in a slice", BOTH,
     {SLICES_OF("{\"column\":\"job\",\"value\":\"d\",\"rows\":0,\"positives\":0}")}, ERR,
     "slices of column 'job' hold 0 rows, there are 3000 for validation", {0}},
    {"one class with a metric is judged", BOTH, {{"parity.slices.0.positives", "0"}}, PASS, "gives", {0}},
    {"other pairs than this night's", BOTH, {{"parity.slices.0.reference", "[1,2]"},
     {"parity.slices.0.candidate", "[1,2]"}}, ERR,
     "slice job 'a' has 2 pairs, this night ran 8", {0}},
    {"one pair", BOTH, {{"parity.slices.0.reference", "[1]"}, {"parity.slices.0.candidate", "[1]"}}, ERR,
     "has 1 pairs", {0}},
    {"one pair in a night of one", BOTH,
     {{"parity.slices.0.reference", "[1]"}, {"parity.slices.0.candidate", "[1]"}, PAIRS_OF(METRIC_PAIR("1",
     "0.91", "0.9101"))}, ERR,
     "has 1 pairs, this night ran 1", {0}},
    {"NaN in one slice only", BOTH,
     {{"parity.slices.1.candidate", "[\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\"]"}},
     FAILS,
     "slices: auc of slice job 'b' is nan in half precision and 0.88 in FP32", {0}},
    {"NaN in one pair of one slice", BOTH, {{"parity.slices.0.candidate",
     "[0.9,0.9,0.9,\"nan\",0.9,0.9,0.9,0.9]"}}, FAILS,
     "auc of slice job 'a' is nan", {0}},
    {"NaN in the reference", BOTH, {{"parity.slices.0.reference", "[\"nan\",0.9,0.9,0.9,0.9,0.9,0.9,0.9]"}},
     FAILS, "nan in FP32", {0}},
    {"NaN in a small slice", BOTH, {{"parity.slices.2.candidate", "[0.7,0.8,0.7,\"inf\",0.7,0.8,0.7,0.8]"}},
     FAILS,
     "auc of slice job 'c' is inf", {0}},
    {"NaN in both arms of a large slice", BOTH,
     {{"parity.slices.1.candidate", "[\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\"]"},
      {"parity.slices.1.reference", "[\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\"]"}},
     FAILS, "auc of slice job 'b' is nan", {0}},
    {"undefined in both arms of a slice just large enough", BOTH, {{"parity.slices.2.rows", "200"},
     {"parity.slices.2.candidate", "[\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\"]"},
     {"parity.slices.2.reference", "[\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\"]"}},
     FAILS,
     "auc of slice job 'c' is nan", {0}},
    {"two pairs are enough", BOTH,
     {PAIRS_OF(METRIC_PAIR("1", "0.91", "0.91001") "," METRIC_PAIR("2", "0.92", "0.92002")),
      SLICES_OF(SLICE("a", "500", "100", "0.8,0.9", "0.8,0.901"))}, PASS, "gives", {"parity.pairs=2"}},
    {"undefined in FP32 only", BOTH,
     {{"parity.slices.2.reference", "[\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\"]"}},
     FAILS,
     "auc of slice job 'c' is 0.7 in half precision and nan", {0}},
    {"not a number in both arms of a small slice of both classes", BOTH,
     {{"parity.slices.2.candidate", "[\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\"]"},
      {"parity.slices.2.reference", "[\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\"]"}},
     FAILS, "auc of slice job 'c' is nan", {0}},
    {"undefined in both arms of a slice of one class", BOTH, {{"parity.slices.2.positives", "0"},
      {"parity.slices.2.candidate", "[\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\"]"},
      {"parity.slices.2.reference", "[\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\",\"nan\"]"}},
     PASS, "gives", {0}},
    {"a slice is harmed", BOTH, {{"parity.slices.0.candidate",
     "[0.87,0.876,0.868,0.878,0.871,0.874,0.866,0.879]"}}, FAILS,
     "slices: slice job 'a' is harmed by 0.0323 in 8 pairs, at most 0.02 (p ", {0}},
    {"harmed within a wider margin", BOTH, {{"parity.slices.0.candidate",
     "[0.87,0.876,0.868,0.878,0.871,0.874,0.866,0.879]"}}, PASS, "gives",
     {"parity.slice_margin=0.05"}},
    {"harmed over the margin, not proven", BOTH, {{"parity.slices.0.candidate",
     "[0.7,0.99,0.99,0.8,0.7,0.99,0.99,0.8]"}}, UNSURE,
     "slices: slice job 'a' is harmed by 0.035, at most 0.124 in 8 pairs: not surely within 0.02", {0}},
    {"far over the margin, not proven", BOTH, {{"parity.slices.0.candidate",
     "[0.2,0.99,0.9,0.3,0.2,0.99,0.99,0.3]"}}, UNSURE, "slice job 'a' is harmed by 0.2", {0}},
    {"inside the margin, not surely", BOTH, {{"parity.slices.0.candidate",
     "[0.85,0.93,0.88,0.91,0.86,0.93,0.86,0.93]"}}, UNSURE, "not surely within 0.02", {0}},
    {"undecided in one slice, proven in another", BOTH,
     {{"parity.slices.0.candidate", "[0.7,0.99,0.99,0.8,0.7,0.99,0.99,0.8]"},
      {"parity.slices.1.candidate", "[0.82,0.826,0.818,0.828,0.821,0.824,0.816,0.829]"}}, FAILS,
     "slice job 'b' is harmed", {0}},
    {"a margin of 0 is proven by no slice", BOTH, {{0}}, UNSURE, "not surely within 0",
     {"parity.slice_margin=0"}},
    {"harmed by the same in every pair", BOTH,
     {{"parity.slices.0.reference", "[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5]"}, {"parity.slices.0.candidate",
     "[0.25,0.25,0.25,0.25,0.25,0.25,0.25,0.25]"}},
     FAILS, "harmed by 0.25 in 8 pairs", {0}},
    {"not harmed at all", BOTH,
     {{"parity.slices.0.reference", "[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5]"}, {"parity.slices.0.candidate",
     "[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5]"}},
     PASS, "gives", {0}},
    {"two slices harmed", BOTH,
     {{"parity.slices.0.candidate", "[0.87,0.876,0.868,0.878,0.871,0.874,0.866,0.879]"},
      {"parity.slices.1.candidate", "[0.82,0.826,0.818,0.828,0.821,0.824,0.816,0.829]"}}, FAILS,
     "slice job 'a' is harmed by 0.0323", {0}},
    {"undecided in a slice of 49 positives", BOTH, {{"parity.slices.0.positives", "49"},
     {"parity.slices.0.candidate", "[0.7,0.99,0.99,0.8,0.7,0.99,0.99,0.8]"}}, PASS, "gives", {0}},
    {"undecided in a slice of 50 positives", BOTH, {{"parity.slices.0.positives", "50"},
     {"parity.slices.0.candidate", "[0.7,0.99,0.99,0.8,0.7,0.99,0.99,0.8]"}}, UNSURE, "not surely", {0}},
    {"undecided in a slice of 49 negatives", BOTH, {{"parity.slices.0.positives", "1451"},
     {"parity.slices.0.candidate", "[0.7,0.99,0.99,0.8,0.7,0.99,0.99,0.8]"}}, PASS, "gives", {0}},
    {"proven in a slice of 49 positives", BOTH, {{"parity.slices.0.positives", "49"},
     {"parity.slices.0.candidate", "[0.87,0.876,0.868,0.878,0.871,0.874,0.866,0.879]"}}, FAILS,
     "slice job 'a' is harmed by 0.0323 in 8 pairs, at most 0.0204 (p ", {0}},
    {"a harmed slice whatever quality.slice_rows says", BOTH,
     {{"parity.slices.0.candidate", "[0.87,0.876,0.868,0.878,0.871,0.874,0.866,0.879]"}}, FAILS, "harmed",
     {"quality.slice_rows=10000"}},
    {"a small slice harmed by less than one row can", BOTH,
     {{"parity.slices.2.candidate", "[0.66,0.79,0.66,0.79,0.66,0.79,0.66,0.79]"}}, PASS, "gives", {0}},
    {"a small slice harmed by more than one row can", BOTH,
     {{"parity.slices.2.candidate", "[0.6,0.72,0.6,0.72,0.6,0.72,0.6,0.72]"}}, FAILS,
     "slice job 'c' is harmed by 0.153 in 8 pairs, at most 0.1 (p ", {0}},
    {"only small slices", BOTH, {{"parity.slices.0.positives", "10"}, {"parity.slices.1.positives",
     "10"}}, PASS,
     "gives", {0}},
};
// clang-format on

PARITY_ROW_TEST(trajectories, trajectory_rows)
PARITY_ROW_TEST(metrics, metric_rows)
PARITY_ROW_TEST(losses, loss_rows)
PARITY_ROW_TEST(slices, slice_rows)

// Nights in which pairs accumulate: undecided with few, decided with more, each look at a smaller error.
START_TEST(pairs_of_three_nights_decide)
{
    static const double differences[] = {0.003, -0.002, 0.002, -0.003, 0.002, -0.002};
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){"parity.pairs=2"});
    const Outcome wanted[] = {OUTCOME_INCONCLUSIVE, OUTCOME_INCONCLUSIVE, OUTCOME_PASS};
    for (size_t night = 1; night <= 3; night++) {
        OWNED(Json, json_free) *evidence = half_evidence(BF16);
        apply(evidence, &(Edit){"parity.slices", NULL});
        apply(evidence, &(Edit){"parity.metric.pairs", "[]"});
        Json *metric = (Json *)(uintptr_t)json_find(evidence, "parity.metric");
        Json *pairs = (Json *)(uintptr_t)json_get(metric, "pairs");
        json_put_integer(metric, "looks", (int64_t)night);
        for (size_t i = 0; i < 2 * night; i++) {
            Json *pair = json_make_object();
            json_put_integer(pair, "seed", (int64_t)i);
            json_put_text(pair, "run", i / 2 + 1 == night ? "r" : "earlier");
            json_put_number(pair, "reference", 0.9 + 0.001 * (double)i);
            json_put_number(pair, "candidate", 0.9 + 0.001 * (double)i + differences[i]);
            json_add(pairs, pair);
        }
        follow_pairs(evidence);
        Finding finding;
        gate_find_check("parity")->judge(evidence, policy, &finding);
        ck_assert_msg(finding.outcome == wanted[night - 1], "night %zu: %s", night, finding.reason);
    }
}
END_TEST

// Memory for the judge that ends at every possible place: said, never a pass of its own.
START_TEST(short_memory_is_an_error)
{
    static void (*const rungs[])(Ladder *, const Section *) = {rung_gradients, rung_trajectory, rung_metric,
                                                               rung_slices, rung_operations};
    OWNED(Json, json_free) *evidence = half_evidence(BF16);
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){0});
    bool enough = false;
    for (size_t bytes = 0; !enough; bytes += 16) {
        OWNED(Arena, arena_free) *judge = bytes == 0 ? NULL : arena_new(bytes);
        Finding finding = {OUTCOME_PASS, NAN, NAN, "", 0, ""};
        Ladder ladder = {.evidence = evidence, .policy = policy, .judge = judge, .precision = "bf16"};
        Section parity = {json_get(evidence, "parity"), "parity", &finding, judge, SIZE_MAX};
        rungs[_i](&ladder, &parity);
        enough = finding.outcome == OUTCOME_PASS;
        ck_assert_msg(enough || strstr(finding.reason, "do not fit the memory of the judge") != NULL, "%s",
                      finding.reason);
        ck_assert(enough == (bytes > 0 && finding.outcome == OUTCOME_PASS) && bytes < 1000000);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gate_parity_metric_test");
    TCase *c = tcase_create("rows");
    tcase_add_loop_test(c, trajectories, 0, COUNT(trajectory_rows));
    tcase_add_loop_test(c, metrics, 0, COUNT(metric_rows));
    tcase_add_loop_test(c, losses, 0, COUNT(loss_rows));
    tcase_add_loop_test(c, slices, 0, COUNT(slice_rows));
    tcase_add_test(c, pairs_of_three_nights_decide);
    tcase_add_loop_test(c, short_memory_is_an_error, 0, 5);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
