// gate_overlap_test - copies hidden behind compute: every way to pass, to fail and to be unusable
#include "gate_fixture.h"

// clang-format off: one row a line
#define RESIDENT                                                                                             \
    {                                                                                                        \
        "timeline.resident", "true"                                                                          \
    }
#define NO_COPIES                                                                                            \
    {"timeline.steps.copy_ns", "@80:0"},                                                                     \
    {                                                                                                        \
        "timeline.steps.hidden_ns", "@80:0"                                                                  \
    }
static const Row resident_rows[] = {
    // h2d_bytes set to 0 by the row's own edit of the good night below
    {"good windows",
     "overlap",
     {{"timeline.sampled_windows", "[{\"begin_ns\":0,\"length_ns\":80000000,\"starved_ns\":4000000}]"}},
     PASS,
     "at most 5.00 % of any of 1 windows",
     {0}},
    {"one window starves",
     "overlap",
     {{"timeline.sampled_windows",
       "[{\"length_ns\":80000000,\"starved_ns\":0},{\"length_ns\":100,\"starved_ns\":6}]"}},
     FAILS,
     "worst sampled window is 6.00 %",
     {0}},
    {"windows shorter than their steps",
     "overlap",
     {{"timeline.sampled_windows", "[{\"length_ns\":100,\"starved_ns\":0}]"}},
     ERR,
     "the sampled windows last 100 ns, the steps in them 77000000",
     {0}},
    {"windows far longer than their steps",
     "overlap",
     {{"timeline.sampled_windows", "[{\"length_ns\":160000001,\"starved_ns\":0}]"}},
     ERR,
     "the sampled windows last 160000001 ns, the steps in them 77000000",
     {0}},
    {"steps starve",
     "overlap",
     {{"timeline.steps.starved_ns", "@80:50001"}},
     FAILS,
     "worst sampled window",
     {0}},
    {"a window that is not a number",
     "overlap",
     {{"timeline.sampled_windows", "[{\"length_ns\":\"nan\",\"starved_ns\":0}]"}},
     ERR,
     "starves 0 ns of nan",
     {0}},
    {"a window without length",
     "overlap",
     {{"timeline.sampled_windows", "[{\"length_ns\":0,\"starved_ns\":0}]"}},
     ERR,
     "starves",
     {0}},
    {"a window with negative starvation",
     "overlap",
     {{"timeline.sampled_windows", "[{\"length_ns\":9,\"starved_ns\":-1}]"}},
     ERR,
     "starves",
     {0}},
    {"a window longer starved than long",
     "overlap",
     {{"timeline.sampled_windows", "[{\"length_ns\":9,\"starved_ns\":10}]"}},
     ERR,
     "starves",
     {0}},
    {"a window of another type", "overlap", {{"timeline.sampled_windows", "[7]"}}, ERR, "not an object", {0}},
    {"a window without figure",
     "overlap",
     {{"timeline.sampled_windows", "[{\"length_ns\":9}]"}},
     ABSENT,
     "starved_ns",
     {0}},
    {"a window without any", "overlap", {{"timeline.sampled_windows", "[{}]"}}, ABSENT, "length_ns", {0}},
    {"no windows sampled", "overlap", {{"timeline.sampled_windows", "[]"}}, UNSURE, "in 0 windows", {0}},
    {"a plain count of windows means stretches of steps",
     "overlap",
     {{"timeline.sampled_windows", "4"}},
     PASS,
     "1 windows",
     {0}},
    {"few steps",
     "overlap",
     {{"timeline.steps", "{\"index\":[0],\"length_ns\":[10],\"copy_ns\":[0],\"hidden_ns\":[0],\"kernel_ns\":["
                         "9],\"busy_ns\":[9],\"starved_ns\":[0],\"h2d_bytes\":[0],\"pageable_bytes\":[0]}"}},
     UNSURE,
     "1 steps after warm-up",
     {0}},
};

#define TEN_STILL "0,0,0,0,0,0,0,0,0,0,"
#define BULK_COPIES                                                                                          \
    "[" TEN_STILL TEN_STILL TEN_STILL TEN_STILL "600000,600000,600000,0,0,0,0,0,0,0," TEN_STILL TEN_STILL    \
    "0,0,0,0,0,0,0,0,0,0]"
static const Row overlap_rows[] = {
    {"a good night", "overlap", {{0}}, PASS, "95.00 % of copy time is hidden, 77 of 77 steps", {0}},
    {"no section", "overlap", {{"timeline", NULL}}, ABSENT, "'timeline' was not measured", {0}},
    {"null section", "overlap", {{"timeline", "null"}}, ABSENT, "not measured", {0}},
    {"section of another type", "overlap", {{"timeline", "[]"}}, ERR, "not an object", {0}},
    {"no trust", "overlap", {{"timeline.trust", NULL}}, ABSENT, "trust", {0}},
    {"trust of another type",
     "overlap",
     {{"timeline.trust", "3"}},
     ERR,
     "'timeline.trust' is not an object",
     {0}},
    {"dropped records", "overlap", {{"timeline.trust.dropped", "1"}}, ERR, "dropped is 1", {0}},
    {"zero timestamps",
     "overlap",
     {{"timeline.trust.zero_timestamps", "2"}},
     ERR,
     "zero_timestamps is 2",
     {0}},
    {"effects before causes", "overlap", {{"timeline.trust.causality", "1"}}, ERR, "causality", {0}},
    {"not a number of drops", "overlap", {{"timeline.trust.dropped", "\"nan\""}}, ERR, "dropped is nan", {0}},
    {"drops not counted", "overlap", {{"timeline.trust.dropped", NULL}}, ABSENT, "dropped", {0}},
    {"a reason of distrust",
     "overlap",
     {{"timeline.trust.reasons", "[\"another profiler\"]"}},
     ERR,
     "another profiler",
     {0}},
    {"a reason of no type", "overlap", {{"timeline.trust.reasons", "[3]"}}, ERR, "not a text", {0}},
    {"no reasons array", "overlap", {{"timeline.trust.reasons", NULL}}, ABSENT, "reasons", {0}},
    {"no word on residence", "overlap", {{"timeline.resident", NULL}}, ABSENT, "resident", {0}},
    {"residence of another type", "overlap", {{"timeline.resident", "1"}}, ERR, "true or false", {0}},
    {"no step marks", "overlap", {{"timeline.step_marks", "false"}}, ABSENT, "no step marks", {0}},
    {"step marks unsaid", "overlap", {{"timeline.step_marks", NULL}}, ABSENT, "step_marks", {0}},
    {"no steps", "overlap", {{"timeline.steps", NULL}}, ABSENT, "'timeline.steps' was not measured", {0}},
    {"a series is missing", "overlap", {{"timeline.steps.hidden_ns", NULL}}, ABSENT, "hidden_ns", {0}},
    {"a series of another type", "overlap", {{"timeline.steps.hidden_ns", "{}"}}, ERR, "not an array", {0}},
    {"unequal lengths",
     "overlap",
     {{"timeline.steps.copy_ns", "@79:200000"}},
     ERR,
     "as long as the other arrays",
     {0}},
    {"a negative length", "overlap", {{"timeline.steps.copy_ns", "@80:-1"}}, ERR, "holds -1", {0}},
    {"more hidden than copied",
     "overlap",
     {{"timeline.steps.hidden_ns", "@80:200001"}},
     ERR,
     "impossible",
     {0}},
    {"more copied than time", "overlap", {{"timeline.steps.copy_ns", "@80:1000001"}}, ERR, "impossible", {0}},
    {"more starved than time",
     "overlap",
     {{"timeline.steps.starved_ns", "@80:1000001"}},
     ERR,
     "impossible",
     {0}},
    {"more pageable than copied",
     "overlap",
     {{"timeline.steps.pageable_bytes", "@80:33793"}},
     ERR,
     "impossible",
     {0}},
    {"steps without length",
     "overlap",
     {{"timeline.steps.length_ns", "@80:0"},
      {"timeline.steps.copy_ns", "@80:0"},
      {"timeline.steps.hidden_ns", "@80:0"},
      {"timeline.steps.starved_ns", "@80:0"}},
     ERR,
     "impossible",
     {0}},
    {"half of the copies exposed",
     "overlap",
     {{"timeline.steps.hidden_ns", "@80:100000"}},
     FAILS,
     "share of steps that hide their copies is 0.00 %, must be at least 95.00 %",
     {0}},
    {"exactly at the floor",
     "overlap",
     {{"timeline.steps.hidden_ns", "@80:160000"}, {"timeline.steps.copy_ns", "@80:200000"}},
     PASS,
     "80.00 %",
     {0}},
    {"a lower declared floor",
     "overlap",
     {{"timeline.steps.hidden_ns", "@80:120000"}},
     PASS,
     "60.00 %",
     {"overlap.floor=0.6", NULL}},
    {"exposed under 1 % of the step counts as hidden",
     "overlap",
     {{"timeline.steps.copy_ns", "@80:9999"}, {"timeline.steps.hidden_ns", "@80:0"}},
     PASS,
     "77 of 77",
     {0}},
    {"exposed 1 % of the step does not",
     "overlap",
     {{"timeline.steps.copy_ns", "@80:10000"}, {"timeline.steps.hidden_ns", "@80:0"}},
     FAILS,
     "0.00 %",
     {0}},
    {"starved",
     "overlap",
     {{"timeline.steps.starved_ns", "@80:50001"}, {"timeline.steps.busy_ns", "@80:910000"}},
     FAILS,
     "time without device work is 5.00 %",
     {0}},
    {"a step that counts twice", "overlap", {{"timeline.steps.index", "@80:5"}}, ERR, "does not rise", {0}},
    {"hidden under no kernel", "overlap", {{"timeline.steps.kernel_ns", "@80:0"}}, ERR, "impossible", {0}},
    {"busier than the step", "overlap", {{"timeline.steps.busy_ns", "@80:1000001"}}, ERR, "impossible", {0}},
    {"less busy than its work", "overlap", {{"timeline.steps.busy_ns", "@80:1"}}, ERR, "impossible", {0}},
    {"bytes copied in no time", "overlap", {NO_COPIES}, ERR, "bytes were copied in no time", {0}},
    {"all copies in a few steps, exposed",
     "overlap",
     {{"timeline.steps.hidden_ns", "@80:0"},
      {"timeline.steps.copy_ns", BULK_COPIES},
      {"timeline.steps.kernel_ns", "@80:300000"}},
     FAILS,
     "share of the steps with copies that hide them is 0.00 %, must be at least 95.00 %",
     {"overlap.floor=0.5", NULL}},
    {"starved at the limit",
     "overlap",
     {{"timeline.steps.starved_ns", "@80:50000"}, {"timeline.steps.busy_ns", "@80:910000"}},
     PASS,
     "",
     {0}},
    {"pageable by bytes",
     "overlap",
     {{"timeline.steps.pageable_bytes", "@80:340"}},
     FAILS,
     "pageable memory is 1.01 %",
     {0}},
    {"copies without bytes", "overlap", {{"timeline.steps.h2d_bytes", "@80:0"}}, FAILS, "pageable", {0}},
    {"a few steps far below, in a row",
     "overlap",
     {{"timeline.steps.hidden_ns", "@80:162000+0!3"}},
     FAILS,
     "lower bound of the mean hidden share of copy time is",
     {0}},
    {"a falling share",
     "overlap",
     {{"timeline.steps.hidden_ns", "@80:189000-100"}},
     FAILS,
     "fall of the hidden share of copy time over the run is 3.80 %",
     {0}},
    {"a fall too small to count", "overlap", {{"timeline.steps.hidden_ns", "@80:190000-20"}}, PASS, "", {0}},
    {"a rising share", "overlap", {{"timeline.steps.hidden_ns", "@80:180000+100"}}, PASS, "", {0}},
    {"few steps, all good",
     "overlap",
     {{"timeline.steps",
       "{\"index\":[0,1],\"length_ns\":[10,10],\"copy_ns\":[2,2],\"hidden_ns\":[2,2],\"kernel_ns\":[9,9],"
       "\"busy_ns\":[9,9],\"starved_ns\":[0,0],\"h2d_bytes\":[5,5],\"pageable_bytes\":[0,0]}"}},
     UNSURE,
     "1 of 1 steps after warm-up hide their copies, 20 steps are needed",
     {0}},
    {"few steps, certain to fail",
     "overlap",
     {{"timeline.steps", "{\"index\":[0,1,2],\"length_ns\":[10,10,10],\"copy_ns\":[2,2,2],\"hidden_ns\":[0,0,"
                         "0],\"kernel_ns\":[7,7,7],\"busy_ns\":[9,9,9],\"starved_ns\":[0,0,0],\"h2d_bytes\":["
                         "5,5,5],\"pageable_bytes\":[0,0,0]}"}},
     FAILS,
     "could no longer pass",
     {0}},
    {"no steps recorded",
     "overlap",
     {{"timeline.steps", "{\"index\":[],\"length_ns\":[],\"copy_ns\":[],\"hidden_ns\":[],\"kernel_ns\":[],"
                         "\"busy_ns\":[],\"starved_ns\":[],\"h2d_bytes\":[],\"pageable_bytes\":[]}"}},
     ABSENT,
     "no step was recorded",
     {0}},
    {"a step that is not a number",
     "overlap",
     {{"timeline.steps", "{\"index\":[0],\"length_ns\":[\"nan\"],\"copy_ns\":[1]}"}},
     ERR,
     "holds nan",
     {0}},
    {"an infinite step",
     "overlap",
     {{"timeline.steps", "{\"index\":[0],\"length_ns\":[\"inf\"],\"copy_ns\":[1]}"}},
     ERR,
     "holds inf",
     {0}},
    {"a text among the numbers",
     "overlap",
     {{"timeline.steps", "{\"index\":[0],\"length_ns\":[\"10\"],\"copy_ns\":[1]}"}},
     ERR,
     "array of numbers",
     {0}},
    {"a length beyond whole nanoseconds",
     "overlap",
     {{"timeline.steps.length_ns", "@80:1000000"},
      {"timeline.steps",
       "{\"index\":[0],\"length_ns\":[1e19],\"copy_ns\":[1],\"hidden_ns\":[1],\"kernel_ns\":[1],\"busy_ns\":["
       "1],\"starved_ns\":[0],\"h2d_bytes\":[1],\"pageable_bytes\":[0]}"}},
     UNSURE,
     "1 of 1",
     {0}},
    {"most steps of the staging thread are missing",
     "overlap",
     {{"window.done_steps", "85"}},
     ABSENT,
     "80 of 85 steps were recorded",
     {0}},
    {"a few are", "overlap", {{"window.done_steps", "84"}}, PASS, "hidden", {0}},
    {"all since the run was resumed",
     "overlap",
     {{"window.done_steps", "200"}, {"resumed_from_step", "120"}},
     PASS,
     "hidden",
     {0}},
    {"steps that were not done",
     "overlap",
     {{"window.done_steps", "78"}},
     ERR,
     "79 was recorded, 78 were done",
     {0}},
    {"faster than any device copies",
     "overlap",
     {{"timeline.steps.h2d_bytes", "@80:1e10"}},
     ERR,
     "which no device can",
     {0}},
    {"waits of no type", "overlap", {{"timeline.steps.wait_ns", "7"}}, ERR, "wait_ns", {0}},
    {"no copies",
     "overlap",
     {{"timeline.steps.copy_ns", "@80:0"},
      {"timeline.steps.hidden_ns", "@80:0"},
      {"timeline.steps.h2d_bytes", "@80:0"}},
     NOT_APPLICABLE,
     "nothing was copied",
     {0}},
    {"resident data, steps as windows",
     "overlap",
     {{"timeline.steps.copy_ns", "@80:0"},
      {"timeline.steps.hidden_ns", "@80:0"},
      {"timeline.steps.h2d_bytes", "@80:0"},
      {"timeline.resident", "true"}},
     PASS,
     "resident",
     {0}},
    {"copies of what is declared resident",
     "overlap",
     {{"timeline.resident", "true"}},
     ERR,
     "said to lie on the device",
     {0}},
};

// clang-format on

ROW_TEST(overlap_judges, overlap_rows)

START_TEST(resident_runs_pass_only_by_their_substitute)
{
    Row row = resident_rows[_i];
    ck_assert_ptr_null(row.edits[1].path);
    OWNED(Json, json_free) *evidence = good_evidence();
    const Edit base[] = {
        RESIDENT, NO_COPIES, {"timeline.steps.h2d_bytes", "@80:0"}, {"timeline.steps.busy_ns", "@80:900000"}};
    for (size_t i = 0; i < sizeof base / sizeof base[0]; i++) {
        apply(evidence, &base[i]);
    }
    apply(evidence, &row.edits[0]);
    OWNED(Config, config_free) *policy = load_policy(row.sets);
    Finding finding = {0};
    gate_find_check("overlap")->judge(evidence, policy, &finding);
    ck_assert_msg(finding.outcome == row.outcome && strstr(finding.reason, row.reason) != NULL,
                  "%s: %s: '%s'", row.sentence, gate_outcome_name(finding.outcome), finding.reason);
}
END_TEST

static const char *const series[] = {"index",   "length_ns",  "copy_ns",   "hidden_ns",     "kernel_ns",
                                     "busy_ns", "starved_ns", "h2d_bytes", "pageable_bytes"};

START_TEST(every_series_is_needed)
{
    char path[64];
    snprintf(path, sizeof path, "timeline.steps.%s", series[_i]);
    Row row = {"a series is missing", "overlap", {{path, NULL}}, ABSENT, series[_i], {0}};
    judge_row(&row);
    row = (Row){"a series is no array", "overlap", {{path, "1"}}, ERR, series[_i], {0}};
    judge_row(&row);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gate_overlap_test");
    TCase *c = tcase_create("rows");
    tcase_add_loop_test(c, overlap_judges, 0, COUNT(overlap_rows));
    tcase_add_loop_test(c, resident_runs_pass_only_by_their_substitute, 0, COUNT(resident_rows));
    tcase_add_loop_test(c, every_series_is_needed, 0, COUNT(series));
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
