// gate_parity_step_test - rungs 3 and 4 of the ladder: gradients, one step, the loss scale.
#include "gate_parity_fixture.h"

// clang-format off
#define ALL_ERRORS(value) \
    {"parity.gradients.0.tensors.0.error", value}, {"parity.gradients.0.tensors.1.error", value}, \
    {"parity.gradients.0.tensors.2.error", value}
#define TENSORS_OF(error, cosine, reference) \
    "[" TENSOR("w1", "0.5", error, cosine, reference) "," TENSOR("w2", "0.25", error, cosine, reference) "]"

#define NOISE \
     "[{\"name\":\"w\",\"norm\":0.1,\"noise\":0.2,\"error\":0.02,\"cosine\":0.9999,\"reference_error\":3e-7}]"
#define MORE_GRADIENTS \
    "[{\"at\":\"start\",\"step\":0,\"rows\":9,\"tensors\":" TENSORS("0.02", "0.9999") "}," \
    "{\"at\":\"trained\",\"step\":9,\"rows\":9,\"tensors\":" TENSORS("0.021", "0.9999") "}," \
    "{\"at\":\"later\",\"step\":99,\"rows\":9,\"tensors\":" TENSORS("0.02", "0.9999") "}]"

static const ParityRow gradient_rows[] = {
    {"absent", BOTH, {{"parity.gradients", NULL}}, ABSENT, "gradients: 'parity.gradients' was not measured",
     {0}},
    {"null", BOTH, {{"parity.gradients", "null"}}, ABSENT, "was not measured", {0}},
    {"empty", BOTH, {{"parity.gradients", "[]"}}, ABSENT, "'parity.gradients' is empty", {0}},
    {"of another type", BOTH, {{"parity.gradients", "3"}}, ERR, "not an array", {0}},
    {"holding another type", BOTH, {{"parity.gradients", "[3]"}}, ERR, "not an object", {0}},
    {"the same place twice", BOTH, {{"parity.gradients.1.at", "\"start\""}}, ERR, "holds at 'start' twice",
     {0}},
    {"not at the start", BOTH, {{"parity.gradients.0.at", "\"later\""}}, ABSENT,
     "gradients at 'start' were not compared", {0}},
    {"not at the trained candidate", BOTH, {{"parity.gradients.1.at", "\"later\""}}, ABSENT,
     "gradients at 'trained' were not", {0}},
    {"nowhere", BOTH, {{"parity.gradients.0.at", NULL}}, ABSENT, "parity.gradients.at", {0}},
    {"no step", BOTH, {{"parity.gradients.0.step", NULL}}, ABSENT, "step", {0}},
    {"no rows", BOTH, {{"parity.gradients.1.rows", NULL}}, ABSENT, "rows", {0}},
    {"no tensors", BOTH, {{"parity.gradients.0.tensors", NULL}}, ABSENT, "tensors", {0}},
    {"empty tensors", BOTH, {{"parity.gradients.0.tensors", "[]"}}, ABSENT,
     "no gradient at start differs from 0", {0}},
    {"tensors of another type", BOTH, {{"parity.gradients.0.tensors", "{}"}}, ERR, "not an array", {0}},
    {"a tensor of another type", BOTH, {{"parity.gradients.0.tensors", "[null]"}}, ERR, "not an object", {0}},
    {"a tensor twice", BOTH, {{"parity.gradients.0.tensors.1.name", "\"w1\""}}, ERR, "holds name 'w1' twice",
     {0}},
    {"no name", BOTH, {{"parity.gradients.0.tensors.1.name", NULL}}, ABSENT, "name", {0}},
    {"no norm", BOTH, {{"parity.gradients.0.tensors.1.norm", NULL}}, ABSENT, "norm", {0}},
    {"no error", BOTH, {{"parity.gradients.0.tensors.1.error", NULL}}, ABSENT, "error", {0}},
    {"no cosine", BOTH, {{"parity.gradients.0.tensors.1.cosine", NULL}}, ABSENT, "cosine", {0}},
    {"no arbiter", BOTH, {{"parity.gradients.0.tensors.1.reference_error", NULL}}, ABSENT, "reference_error",
     {0}},
    {"a negative norm", BOTH, {{"parity.gradients.0.tensors.1.norm", "-1"}}, ERR,
     "'parity.gradients.norm' is -1", {0}},
    {"a negative error", BOTH, {{"parity.gradients.0.tensors.1.error", "-1"}}, ERR, "is -1", {0}},
    {"a negative error of the reference", BOTH, {{"parity.gradients.0.tensors.1.reference_error", "-1"}},
     ERR, "is -1", {0}},
    {"a cosine beyond 1", BOTH, {{"parity.gradients.0.tensors.1.cosine", "1.1"}}, ERR,
     "gradient of 'w2' is impossible", {0}},
    {"a cosine below -1", BOTH, {{"parity.gradients.0.tensors.1.cosine", "-1.1"}}, ERR, "is impossible", {0}},
    {"a cosine below -1 and an error to it", BOTH,
     {{"parity.gradients.0.tensors.1.cosine", "-1.1"}, {"parity.gradients.0.tensors.1.error", "2.2"}}, ERR,
     "is impossible", {0}},
    {"no error and no cosine", BOTH,
     {{"parity.gradients.0.tensors.1.cosine", NULL}, {"parity.gradients.0.tensors.1.error", "0"}}, ABSENT,
     "cosine", {0}},
    {"an error smaller than its angle", BOTH,
     {{"parity.gradients.0.tensors.1.cosine", "0.9"}, {"parity.gradients.0.tensors.1.error", "0.4"}}, ERR,
     "gradient of 'w2' is impossible: error 0.4 at cosine 0.9", {0}},
    {"an error smaller than its reversal", BOTH,
     {{"parity.gradients.0.tensors.1.cosine", "-0.999999"}, {"parity.gradients.0.tensors.1.error", "0.5"}},
     ERR, "impossible", {0}},
    {"no gradient anywhere", BOTH,
     {{"parity.gradients.1.tensors", "[" TENSOR("off", "0", "0", "0", "0") "]"}}, ABSENT,
     "no gradient at trained differs", {0}},
    {"a gradient out of nothing", BOTH, {{"parity.gradients.0.tensors.3.error", "\"nan\""}}, FAILS,
     "error of the gradient 'off' start is nan", {0}},
    {"a gradient out of nothing, without cosine", BOTH,
     {{"parity.gradients.0.tensors.3.error", "\"nan\""}, {"parity.gradients.0.tensors.3.cosine", NULL}},
     FAILS,
     "error of the gradient 'off' start is nan", {0}},
    {"noise unsaid", BOTH, {{"parity.gradients.0.tensors.1.noise", NULL}}, ABSENT, "noise", {0}},
    {"noise that is not a number", BOTH, {{"parity.gradients.0.tensors.1.noise", "\"nan\""}}, ERR,
     "noise' is nan",
     {0}},
    {"infinite noise", BOTH, {{"parity.gradients.0.tensors.1.noise", "\"inf\""}}, ERR, "noise' is inf", {0}},
    {"an error below the noise", BF16,
     {{"parity.gradients.1.tensors.2.noise", "10"}, {"parity.gradients.1.tensors.2.error", "1.02"},
      {"parity.gradients.1.tensors.2.cosine", "-0.1"}}, PASS, "gives", {0}},
    {"an error above the noise", BF16,
     {{"parity.gradients.1.tensors.2.noise", "0.2"}, {"parity.gradients.1.tensors.2.error", "1.02"},
      {"parity.gradients.1.tensors.2.cosine", "-0.1"}}, FAILS,
      "error of the gradient 'b1' trained is 0.459", {0}},
    {"a direction at the noise counts", BF16,
     {{"parity.gradients.1.tensors.2.noise", "0.1"}, {"parity.gradients.1.tensors.2.error", "0.29"},
      {"parity.gradients.1.tensors.2.cosine", "0.96"}}, FAILS, "of the gradient", {0}},
    {"nothing but noise", BF16, {{"parity.gradients.0.tensors", NOISE}, {"parity.gradients.1.tensors", NOISE},
     {"determinism.replays", NULL}}, ABSENT, "every gradient is smaller than its noise", {0}},
    {"no row", BOTH, {{"parity.gradients.1.rows", "0"}}, ABSENT, "the gradient at trained is of no rows",
     {0}},
    {"a tensor left out at one place", BOTH, {{"parity.gradients.1.tensors", TENSORS_OF("0.0026",
     "0.999997", "4e-7")}},
     ERR, "gradients of 4 tensors at the start and 2 trained, 2 of the same names", {0}},
    {"a tensor of another name", BOTH, {{"parity.gradients.1.tensors.3.name", "\"on\""}}, ERR,
     "4 trained, 3 of the same names", {0}},
    {"a tensor left out everywhere", BOTH, {{"parity.gradients.0.tensors", TENSORS_OF("0.0026",
     "0.999997", "4e-7")},
     {"parity.gradients.1.tensors", TENSORS_OF("0.0026", "0.999997", "4e-7")}}, ERR,
     "2 tensors at the start and 4 replayed, 2 of the same names", {0}},
    {"no replay to compare with", BOTH, {{"determinism", NULL}}, PASS, "gives", {0}},
    {"a gradient that is not a number", BOTH,
     {{"parity.gradients.1.tensors.1.error", "\"nan\""}, {"parity.gradients.1.tensors.1.cosine", "\"nan\""}},
     FAILS,
     "error of the gradient 'w2' trained is nan", {0}},
    {"an infinite gradient", BOTH, {{"parity.gradients.1.tensors.1.error", "\"inf\""}}, FAILS,
     "'w2' trained is inf", {0}},
    {"a norm that is not a number", BOTH, {{"parity.gradients.0.tensors.0.norm", "\"nan\""}}, FAILS,
     "'w1' start is nan", {0}},
    {"a norm of 0 and an error", BOTH, {{"parity.gradients.0.tensors.0.norm", "0"}}, FAILS,
     "'w1' start is nan", {0}},
    {"an infinite norm", BOTH, {{"parity.gradients.0.tensors.0.norm", "\"inf\""}}, FAILS,
     "'w1' start is nan", {0}},
    {"a cosine that is not a number", BOTH, {{"parity.gradients.0.tensors.1.cosine", "\"nan\""}}, FAILS,
     "1 - cosine of the gradient 'w2' start is nan", {0}},
    {"the gradient of another batch", BOTH,
     {{"parity.gradients.1.tensors.1.error", "1.3"}, {"parity.gradients.1.tensors.1.cosine", "0.1"}}, FAILS,
     "gradients: 1 - cosine of the gradient 'w2' trained is 0.9", {0}},
    {"half of the tensors off", BF16, {ALL_ERRORS("0.09")}, FAILS,
     "error of the gradient, nearest tensor start is 0.09 relative, may be at most 0.0322 relative", {0}},
    {"7.9 % in all tensors, as a public test accepts", BOTH, {ALL_ERRORS("0.079")}, FAILS,
     "error of the gradient, nearest tensor start is 0.079 relative", {0}},
    {"7.9 % in one tensor of the FP32 arm", BOTH, {{"parity.gradients.1.tensors.0.reference_error", "0.079"}},
     FAILS, "error of the FP32 gradient from float64 'w1' trained is 0.079", {0}},
    {"two of three tensors off", BF16,
     {{"parity.gradients.0.tensors.0.error", "0.09"}, {"parity.gradients.0.tensors.1.error", "0.09"}}, FAILS,
     "error of the gradient, median tensor start is 0.09 relative, may be at most 0.083 relative", {0}},
    {"half of the tensors off", FP16, {ALL_ERRORS("0.04")}, FAILS, "nearest tensor start is 0.04", {0}},
    {"not unscaled", BOTH, {{"parity.gradients.0.tensors.0.error", "65535"}}, FAILS,
     "gradient of 'w1' start has the right direction and the wrong length: error 65535", {0}},
    {"not unscaled, and only at the start", BOTH,
     {{"parity.gradients.0.tensors.0.error", "65535"}, {"parity.gradients.1.at", "\"later\""}}, FAILS,
     "wrong length", {0}},
    {"more places than are needed", BF16, {{"parity.gradients", MORE_GRADIENTS}}, PASS, "gives", {0}},
    {"more controls than are needed", BOTH,
     {{"parity.controls", "[" CONTROL("shuffled gradient", "1.4") "," CONTROL("zeroed gradient", "1") ","
       CONTROL("doubled gradient", "1") "]"}}, PASS, "gives", {0}},
    {"identical arms", BOTH,
     {{"parity.gradients.0.tensors", TENSORS_OF("0", "1", "3e-7")}}, FAILS,
     "both arms give the same gradient to the last bit at start: nothing was compared", {0}},
    {"identical and rounded arms", BOTH,
     {{"parity.gradients.1.tensors", TENSORS_OF("0", "1", "0.02")}}, FAILS,
     "both arms give the same gradient to the last bit at trained", {0}},
    {"swapped arms", BOTH, {{"parity.gradients.0.tensors", TENSORS_OF("0.0201", "0.9998", "0.02")}}, FAILS,
     "the arms are swapped: at start the reference errs by 0.02 from float64, at most 0.0001, and the", {0}},
    {"a reference that rounds", BOTH, {{"parity.gradients.1.tensors", TENSORS_OF("0.02", "0.9998",
     "0.014")}}, FAILS,
     "the reference is not FP32: its gradients at trained err by 0.014 from float64, at most 0.0001", {0}},
    {"a reference that rounds more than the half arm differs", BOTH,
     {{"parity.gradients.1.tensors", TENSORS_OF("0.0145", "0.9999", "0.02")}}, FAILS,
     "the reference is not FP32: its", {0}},
    {"a reference at its bar", BOTH,
     {{"parity.gradients.1.tensors.0.reference_error", "1e-4"},
      {"parity.gradients.1.tensors.1.reference_error", "1e-4"},
      {"parity.gradients.1.tensors.2.reference_error", "1e-4"}}, PASS, "gives", {0}},
    {"a reference just over its bar", BOTH, {{"parity.gradients.1.tensors", TENSORS_OF("0.0142", "0.9999",
     "1.01e-4")}}, FAILS,
     "the reference is not FP32", {0}},
    {"a reference that is not a number", BOTH, {{"parity.gradients.1.tensors", TENSORS_OF("0.02", "0.9998",
     "\"nan\"")}},
     FAILS, "error of the FP32 gradient from float64 'w1' trained is nan", {0}},
    {"one tensor of the reference not a number", BOTH, {{"parity.gradients.1.tensors.0.reference_error",
     "\"nan\""}},
     FAILS, "error of the FP32 gradient from float64 'w1' trained is nan", {0}},
    {"one tensor of the reference rounds", BOTH, {{"parity.gradients.1.tensors.0.reference_error", "0.126"}},
     FAILS,
     "error of the FP32 gradient from float64 'w1' trained is 0.126", {0}},
    {"one tensor of the reference inside its bar", BOTH, {{"parity.gradients.1.tensors.0.reference_error",
     "0.0009"}}, PASS, "gives", {0}},
    {"no controls", BOTH, {{"parity.controls", NULL}}, ABSENT, "'parity.controls' was not measured", {0}},
    {"empty controls", BOTH, {{"parity.controls", "[]"}}, ABSENT, "'parity.controls' is empty", {0}},
    {"controls of another type", BOTH, {{"parity.controls", "\"x\""}}, ERR, "not an array", {0}},
    {"a control of another type", BOTH, {{"parity.controls", "[2]"}}, ERR, "not an object", {0}},
    {"a control without name", BOTH, {{"parity.controls.0.name", NULL}}, ABSENT, "name", {0}},
    {"a control without error", BOTH, {{"parity.controls.0.error", NULL}}, ABSENT, "error", {0}},
    {"a control twice", BOTH, {{"parity.controls.1.name", "\"shuffled gradient\""}}, ERR, "twice", {0}},
    {"nothing shuffled", BOTH, {{"parity.controls.0.name", "\"other\""}}, ABSENT,
     "control 'shuffled gradient' is missing", {0}},
    {"nothing zeroed", BOTH, {{"parity.controls.1.name", "\"other\""}}, ABSENT,
     "control 'zeroed gradient' is missing", {0}},
    {"a control that passes", BOTH, {{"parity.controls.0.error", "0.01"}}, ERR,
     "the comparison cannot fail: control 'shuffled gradient' errs by 0.01, more than", {0}},
    {"a control at the bar", BF16, {{"parity.controls.1.error", "0.26"}}, ERR,
     "cannot fail: control 'zeroed gradient'", {0}},
    {"a control just over it", BF16, {{"parity.controls.1.error", "0.2601"}}, PASS, "gives", {0}},
    {"a control that is not a number", BOTH, {{"parity.controls.1.error", "\"nan\""}}, ERR, "cannot fail",
     {0}},
    {"an infinite control", BOTH, {{"parity.controls.1.error", "\"inf\""}}, ERR, "cannot fail", {0}},
};

static const ParityRow step_rows[] = {
    {"absent", BOTH, {{"parity.step", NULL}}, ABSENT, "step: 'parity.step' was not measured", {0}},
    {"empty", BOTH, {{"parity.step", "[]"}}, ABSENT, "'parity.step' is empty", {0}},
    {"of another type", BOTH, {{"parity.step", "{}"}}, ERR, "not an array", {0}},
    {"holding another type", BOTH, {{"parity.step", "[[]]"}}, ERR, "not an object", {0}},
    {"the same place twice", BOTH, {{"parity.step.1.at", "\"start\""}}, ERR, "twice", {0}},
    {"not at the start", BOTH, {{"parity.step.0.at", "\"x\""}}, ABSENT, "no step was compared at 'start'",
     {0}},
    {"not at the trained candidate", BOTH, {{"parity.step.1.at", "\"x\""}}, ABSENT,
     "no step was compared at 'trained'", {0}},
    {"not where the scale grows", FP16, {{"parity.step.2.at", "\"x\""}}, ABSENT,
     "no step was compared at 'growth'", {0}},
    {"nowhere", BOTH, {{"parity.step.0.at", NULL}}, ABSENT, "parity.step.at", {0}},
    {"no number", BOTH, {{"parity.step.0.step", NULL}}, ABSENT, "parity.step.step", {0}},
    {"no update", BOTH, {{"parity.step.0.update_error", NULL}}, ABSENT, "update_error", {0}},
    {"nothing on moving", BOTH, {{"parity.step.0.moved", NULL}}, ABSENT, "moved", {0}},
    {"nothing on the reference's moving", BOTH, {{"parity.step.0.moved_reference", NULL}}, ABSENT,
     "moved_reference", {0}},
    {"no moment", BOTH, {{"parity.step.0.moment_ratio", NULL}}, ABSENT, "moment_ratio", {0}},
    {"nothing on masters", BOTH, {{"parity.step.0.representable", NULL}}, ABSENT, "representable", {0}},
    {"no scale before", BOTH, {{"parity.step.0.scale_before", NULL}}, ABSENT, "scale_before", {0}},
    {"no scale after", BOTH, {{"parity.step.0.scale_after", NULL}}, ABSENT, "scale_after", {0}},
    {"no scale expected", BOTH, {{"parity.step.0.scale_expected", NULL}}, ABSENT, "scale_expected", {0}},
    {"unknown whether applied", BOTH, {{"parity.step.0.applied", NULL}}, ABSENT, "applied", {0}},
    {"applied of another type", BOTH, {{"parity.step.0.applied", "1"}}, ERR, "not true or false", {0}},
    {"a negative update error", BOTH, {{"parity.step.0.update_error", "-0.1"}}, ERR, "is -0.1", {0}},
    {"more than all moved", BOTH, {{"parity.step.0.moved", "1.1"}}, ERR, "step at 'start' is impossible",
     {0}},
    {"more than all moved in the reference", BOTH, {{"parity.step.1.moved_reference", "1.1"}}, ERR,
     "'trained' is impossible", {0}},
    {"more than all exact", BOTH, {{"parity.step.0.representable", "1.1"}}, ERR, "impossible", {0}},
    {"a reference that does not move", BOTH, {{"parity.step.0.moved_reference", "0"}}, ERR,
     "0 in the reference", {0}},
    {"a scale of 0 before", BOTH, {{"parity.step.0.scale_before", "0"}}, ERR, "scale 0", {0}},
    {"a scale of 0 expected", BOTH, {{"parity.step.0.scale_expected", "0"}}, ERR, "expected 0", {0}},
    {"a skipped step", BOTH, {{"parity.step.1.applied", "false"}}, FAILS,
     "the step at 'trained' was skipped at loss scale", {0}},
    {"an update that is not a number", BOTH, {{"parity.step.0.update_error", "\"nan\""}}, FAILS,
     "step: error of one update start is nan", {0}},
    {"another update", BOTH, {{"parity.step.1.update_error", "0.3"}}, FAILS,
     "step: error of one update trained is 0.3", {0}},
    {"weights that stand still", BOTH, {{"parity.step.0.moved", "0.5"}}, FAILS,
     "share of weights that moved, difference start is 48.10 %, may be at most 1.00 %", {0}},
    {"weights that move too much", BOTH, {{"parity.step.0.moved_reference", "0.5"}}, FAILS,
     "difference start is 48.00 %", {0}},
    {"moved is not a number", BOTH, {{"parity.step.0.moved", "\"nan\""}}, FAILS,
     "moved, difference start is nan", {0}},
    {"no master weights", BF16, {{"parity.step.0.representable", "0.9998"}, {"parity.step.0.moved", "0"}},
     FAILS,
     "step: no FP32 master weights: at start 99.98 % of them are exact bf16 values, at most 50 %", {0}},
    {"no master weights", FP16, {{"parity.step.2.representable", "1"}}, FAILS,
     "at growth 100.00 % of them are exact fp16 values", {0}},
    {"masters not a number", BOTH, {{"parity.step.0.representable", "\"nan\""}}, FAILS,
     "exact half values start is nan", {0}},
    {"unscaled twice", FP16, {{"parity.step.0.moment_ratio", "1.55e-5"}}, FAILS,
     "step: gradients were unscaled twice: at start they reach the optimizer 2^-16 times", {0}},
    {"not unscaled", FP16, {{"parity.step.1.moment_ratio", "65000"}}, FAILS,
     "gradients were not unscaled: at trained they reach the optimizer 2^16", {0}},
    {"a wrong scale", BOTH, {{"parity.step.0.moment_ratio", "2.1"}}, FAILS,
     "gradients have a wrong scale: at start they reach the optimizer 2^1 ", {0}},
    {"another factor", BOTH, {{"parity.step.0.moment_ratio", "1.4"}}, FAILS,
     "first moment's change over the reference's, distance from 1 start is 0.4", {0}},
    {"near 1 but outside", BOTH, {{"parity.step.0.moment_ratio", "0.87"}}, FAILS,
     "distance from 1 start is 0.13", {0}},
    {"no moment at all", BOTH, {{"parity.step.0.moment_ratio", "0"}}, FAILS, "distance from 1 start is 1 ",
     {0}},
    {"a moment that is not a number", BOTH, {{"parity.step.0.moment_ratio", "\"nan\""}}, FAILS,
     "distance from 1 start is nan", {0}},
    {"a scale that did not grow", FP16, {{"parity.step.2.scale_after", "32768"}}, FAILS,
     "the loss scale went from 32768 to 32768 at growth, its rule says 65536", {0}},
    {"a scale that grew for nothing", BOTH, {{"parity.step.0.scale_after", "131072"}}, FAILS,
     "to 131072 at start, its rule says", {0}},
    {"a scale that is not a number", BOTH, {{"parity.step.0.scale_after", "\"nan\""}}, FAILS,
     "loss scale after the step, doublings from what was expected start is nan", {0}},
    {"a scale of 0 after", BOTH, {{"parity.step.0.scale_after", "0"}}, FAILS, "its rule says", {0}},
    {"the first cause is the one", FP16,
     {{"parity.step.0.representable", "1"}, {"parity.step.1.applied", "false"}}, FAILS,
     "no FP32 master weights: at start", {0}},
};

static const ParityRow scale_rows[] = {
    {"absent", BOTH, {{"parity.scale", NULL}}, ABSENT, "scale: 'parity.scale' was not measured", {0}},
    {"of another type", BOTH, {{"parity.scale", "[]"}}, ERR, "not an object", {0}},
    {"no start", BOTH, {{"parity.scale.initial", NULL}}, ABSENT, "initial", {0}},
    {"no end", BOTH, {{"parity.scale.final", NULL}}, ABSENT, "final", {0}},
    {"no smallest", BOTH, {{"parity.scale.smallest", NULL}}, ABSENT, "smallest", {0}},
    {"attempted unsaid", BOTH, {{"parity.scale.attempted", NULL}}, ABSENT, "attempted", {0}},
    {"applied unsaid", BOTH, {{"parity.scale.applied", NULL}}, ABSENT, "applied", {0}},
    {"skipped unsaid", BOTH, {{"parity.scale.skipped", NULL}}, ABSENT, "skipped", {0}},
    {"schedule unsaid", BOTH, {{"parity.scale.schedule", NULL}}, ABSENT, "schedule", {0}},
    {"floor unsaid", BOTH, {{"parity.scale.at_floor", NULL}}, ABSENT, "at_floor", {0}},
    {"stop unsaid", BOTH, {{"parity.scale.stopped", NULL}}, ABSENT, "stopped", {0}},
    {"a scale that is not a number", BOTH, {{"parity.scale.final", "\"nan\""}}, ERR,
     "'parity.scale.final' is nan", {0}},
    {"steps that do not add up", BOTH, {{"parity.scale.attempted", "901"}}, ERR,
     "'parity.scale' does not add up: 901 steps attempted", {0}},
    {"a scale below 1", FP16, {{"parity.scale.smallest", "0.5"}}, ERR, "a loss scale of 0.5 is none", {0}},
    {"a smallest that is none", FP16, {{"parity.scale.smallest", "40000"}}, ERR,
     "a loss scale of 40000 is none", {0}},
    {"a start below the smallest", FP16, {{"parity.scale.initial", "2"}}, ERR, "is none", {0}},
    {"nothing applied", FP16,
     {{"parity.scale.applied", "0"}, {"parity.scale.skipped", "900"}, {"parity.scale.schedule", "0"},
      {"parity.scale.stopped", "true"}}, FAILS,
     "scale: 0 of 900 steps applied: the loss scale fell from 65536 to 16384", {0}},
    {"no step at all", FP16,
     {{"parity.scale.applied", "0"}, {"parity.scale.skipped", "0"}, {"parity.scale.schedule", "0"},
      {"parity.scale.attempted", "0"}}, FAILS, "0 of 0 steps applied", {0}},
    {"stopped", BOTH, {{"parity.scale.stopped", "true"}}, FAILS,
     "training stopped because step after step was skipped", {0}},
    {"losses that are not numbers", BOTH, {{"parity.scale.bad_losses", "2"}}, FAILS,
     "the training loss was not a number in 2 reports", {0}},
    {"losses not looked at", BOTH, {{"parity.scale.bad_losses", NULL}}, ABSENT, "bad_losses", {0}},
    {"at the floor", FP16, {{"parity.scale.at_floor", "1"}}, FAILS,
     "1 steps were skipped at the lowest loss scale (16384)", {0}},
    {"a schedule that runs on", FP16, {{"parity.scale.schedule", "900"}}, FAILS,
     "the learning rate went on for 900 steps, 896 were applied", {0}},
    {"a schedule that stands", BOTH, {{"parity.scale.schedule", "2"}}, FAILS, "went on for 2 steps", {0}},
    {"growth said of another type", FP16, {{"parity.scale.grows", "1"}}, ERR, "grows", {0}},
    {"a fixed scale that grew", FP16,
     {{"parity.scale.grows", "false"}, {"parity.scale.initial", "32768"}, {"parity.scale.final", "65536"}},
     ERR,
     "says that the loss scale does not grow, and that it grew 0 times, from 32768 to 65536", {0}},
    {"a fixed scale that grew and fell again", FP16, {{"parity.scale.grows", "false"},
     {"parity.scale.grown", "2"}},
     ERR, "and that it grew 2 times", {"train.scale_growth=0"}},
    {"growth unsaid", BOTH, {{"parity.scale.grows", NULL}}, ABSENT, "parity.scale.grows", {0}},
    {"growth uncounted", BOTH, {{"parity.scale.grown", NULL}}, ABSENT, "parity.scale.grown", {0}},
    {"a scale that should grow", FP16, {{"parity.scale.grows", "false"}}, ERR,
     "'parity.scale.grows' is false, train.scale_growth in fp16 asks for true", {0}},
    {"a scale that should be fixed", FP16, {{0}}, ERR,
     "grows' is true, train.scale_growth in fp16 asks for false",
     {"train.scale_growth=0"}},
    {"a scale that grows in BF16", BF16, {{"parity.scale.grows", "true"}}, ERR, "in bf16 asks for false",
     {0}},
    {"another training's scale", BOTH, {{"window.done_steps", "901"}}, ERR,
     "scale: 'parity.scale' is of 900 steps, the training did 901", {0}},
    {"steps done unsaid", BOTH, {{"window.done_steps", NULL}}, ABSENT, "window.done_steps", {0}},
    {"no window", BOTH, {{"window", NULL}}, ABSENT, "'window' was not measured", {0}},
    {"a fixed scale needs no growth", FP16,
     {{"parity.scale.grows", "false"}, {"parity.step.2.at", "\"later\""}}, PASS, "gives",
     {"train.scale_growth=0"}},
    {"too many skipped", FP16,
     {{"parity.scale.applied", "854"}, {"parity.scale.skipped", "46"}, {"parity.scale.schedule", "854"}},
     FAILS,
     "share of steps skipped is 5.11 %, may be at most 5.00 %", {0}},
    {"just few enough", FP16,
     {{"parity.scale.applied", "855"}, {"parity.scale.skipped", "45"}, {"parity.scale.schedule", "855"}},
     PASS, "gives", {0}},
    {"one skipped in BF16", BF16,
     {{"parity.scale.applied", "899"}, {"parity.scale.skipped", "1"}, {"parity.scale.schedule", "899"}},
     FAILS,
     "share of steps skipped is 0.11 %", {0}},
    {"one applied step is a training", FP16,
     {{"parity.scale", "{\"initial\":65536,\"final\":65536,\"smallest\":65536,\"attempted\":1,\"applied\":1,"
       "\"skipped\":0,\"schedule\":1,\"longest\":0,\"at_floor\":0,\"bad_losses\":0,\"grown\":0,\"lowered\":0,"
       "\"grows\":true,\"stopped\":false}"},
      {"window.done_steps", "1"}, {"parity.gradients.1.step", "1"}, {"parity.step.0.step", "1"},
      {"parity.step.1.step", "1"}, {"parity.step.2.step", "1"}}, PASS, "gives", {0}},
};
// clang-format on

PARITY_ROW_TEST(gradients, gradient_rows)
PARITY_ROW_TEST(steps, step_rows)
PARITY_ROW_TEST(scales, scale_rows)

// Each figure at its bar, and just outside it.
static const struct {
    const char *path;
    double from, limit[2];   // the figure is the distance from `from`
} bounds[] = {
    {"parity.gradients.1.tensors.2.error", 0, {0.26, 0.149}},
    {"parity.gradients.1.tensors.2.reference_error", 0, {1e-3, 1e-3}},
    {"parity.step.0.update_error", 0, {0.114, 0.065}},
    {"parity.step.1.moment_ratio", 1, {0.069, 0.0155}},
    {"parity.step.1.representable", 0, {0.5, 0.5}},
    {"parity.step.1.moved", 0.981, {0.01, 0.01}},
};

static Outcome judge_with(Nights night, const char *path, double value)
{
    OWNED(Json, json_free) *evidence = half_evidence(night);
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){0});
    char text[64];
    Finding finding;
    snprintf(text, sizeof text, "%.17g", value);
    apply(evidence, &(Edit){path, text});
    gate_find_check("parity")->judge(evidence, policy, &finding);
    return finding.outcome;
}

START_TEST(each_bar_stands_where_the_table_says)
{
    for (int night = BF16; night <= FP16; night++) {
        double from = bounds[_i].from;
        double limit = bounds[_i].limit[night];
        ck_assert_msg(judge_with((Nights)night, bounds[_i].path, from + 0.9999 * limit) == OUTCOME_PASS,
                      "%s inside", bounds[_i].path);
        ck_assert_msg(judge_with((Nights)night, bounds[_i].path, from + 1.0001 * limit) == OUTCOME_FAIL,
                      "%s outside", bounds[_i].path);
        if (from != 0 && from - 1.0001 * limit > 0) {
            ck_assert(judge_with((Nights)night, bounds[_i].path, from - 0.9999 * limit) == OUTCOME_PASS);
            ck_assert(judge_with((Nights)night, bounds[_i].path, from - 1.0001 * limit) == OUTCOME_FAIL);
        }
    }
}
END_TEST

// Error at the least that the angle allows, so that the cosine alone decides.
START_TEST(the_cosine_has_its_own_bar)
{
    const double limit[2] = {0.034, 0.011};
    for (int night = BF16; night <= FP16; night++) {
        for (int outside = 0; outside < 2; outside++) {
            double cosine = 1 - limit[night] * (outside ? 1.001 : 0.999);
            double error = sqrt(1 - cosine * cosine) * 1.00001;
            OWNED(Json, json_free) *evidence = half_evidence((Nights)night);
            OWNED(Config, config_free) *policy = load_policy((const char *const[2]){0});
            char text[64];
            Finding finding;
            snprintf(text, sizeof text, "%.17g", cosine);
            apply(evidence, &(Edit){"parity.gradients.0.tensors.1.cosine", text});
            snprintf(text, sizeof text, "%.17g", error);
            apply(evidence, &(Edit){"parity.gradients.0.tensors.1.error", text});
            gate_find_check("parity")->judge(evidence, policy, &finding);
            ck_assert_msg((finding.outcome == OUTCOME_FAIL) == (outside == 1), "%s", finding.reason);
        }
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gate_parity_step_test");
    TCase *c = tcase_create("rows");
    tcase_add_loop_test(c, gradients, 0, COUNT(gradient_rows));
    tcase_add_loop_test(c, steps, 0, COUNT(step_rows));
    tcase_add_loop_test(c, scales, 0, COUNT(scale_rows));
    tcase_add_loop_test(c, each_bar_stands_where_the_table_says, 0, COUNT(bounds));
    tcase_add_test(c, the_cosine_has_its_own_bar);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
