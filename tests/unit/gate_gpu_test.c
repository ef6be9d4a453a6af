// gate_gpu_test - what only a GPU's run says: steps by the device's clock, several steps an entry, inputs
// counted on the device, the digest that came with the copies, residence, and a card's own bound.
#include "gate_fixture.h"

#define DEVICE_STEPS(covered, total, longest, slow)                                                          \
    "{\"count\":80,\"covered\":" covered ",\"apart\":2,\"apart_ns\":9,\"total_ns\":" total                   \
    ",\"median_ns\":1000000,\"p99_ns\":1100000,\"longest_ns\":" longest ",\"slow_ns\":" slow "}"
#define TIMED(count, covered, total, median, longest)                                                        \
    "{\"count\":" count ",\"covered\":" covered ",\"apart\":2,\"apart_ns\":9,\"total_ns\":" total            \
    ",\"median_ns\":" median ",\"p99_ns\":1100000,\"longest_ns\":" longest ",\"slow_ns\":0}"
#define GOOD_STEPS DEVICE_STEPS("78", "80000000", "2000000", "0")

// The good night as a card's, sampled in three windows: steps 0 to 29, 40 to 69 and 80 to 99.
static const Edit gpu[] = {
    {"device_class", "\"NVIDIA H200\""},
    {"plausible.device", "\"NVIDIA H200\""},
    {"plausible.peak_flops", "66.9e12"},
    {"timeline.source", "\"CUPTI activity, sampled windows\""},
    {"timeline.device_steps", GOOD_STEPS},
    {"loop.nonfinite_inputs", "0"},
    {"determinism.order.device_digest", "\"00ff\""},
};

static void judge_gpu_row(const Row *row)
{
    OWNED(Json, json_free) *evidence = good_evidence();
    OWNED(Config, config_free) *policy = load_policy(row->sets);
    for (size_t i = 0; i < sizeof gpu / sizeof gpu[0]; i++) {
        apply(evidence, &gpu[i]);
    }
    for (size_t i = 0; i < EDITS_MOST && row->edits[i].path != NULL; i++) {
        apply(evidence, &row->edits[i]);
    }
    Finding finding = {0};
    gate_find_check(row->check)->judge(evidence, policy, &finding);
    ck_assert_msg(finding.outcome == row->outcome && strstr(finding.reason, row->reason) != NULL,
                  "%s: %s: %s: '%s', wanted %s: '%s'", row->check, row->sentence,
                  gate_outcome_name(finding.outcome), finding.reason, gate_outcome_name(row->outcome),
                  row->reason);
}

static const Row between_rows[] = {
    {"a good night",
     "overlap",
     {{0}},
     PASS,
     "95.00 % of copy time is hidden, 77 of 77 steps reach 80 %; kernels run 70.00 % of the time; of 78 "
     "steps by "
     "the device's clock 0.00 % of the time is slow",
     {0}},
    {"nothing known between the windows",
     "overlap",
     {{"timeline.device_steps", NULL}},
     ABSENT,
     "'timeline.device_steps' was not measured",
     {0}},
    {"exposed copies go before it",
     "overlap",
     {{"timeline.device_steps", NULL}, {"timeline.steps.hidden_ns", "@80:0"}},
     FAILS,
     "share of steps",
     {0}},
    {"the staging thread sees every step",
     "overlap",
     {{"timeline.device_steps", NULL}, {"timeline.source", "\"cpu staging thread\""}},
     PASS,
     "hidden",
     {0}},
    {"but what it says of them is judged",
     "overlap",
     {{"timeline.device_steps", DEVICE_STEPS("78", "100000000", "9000000", "9000000")},
      {"timeline.source", "\"cpu staging thread\""}},
     FAILS,
     "9.00 %",
     {0}},
    {"five percent of slow time",
     "overlap",
     {{"timeline.device_steps", DEVICE_STEPS("78", "100000000", "5000000", "5000000")}},
     PASS,
     "5.00 % of the time is slow",
     {0}},
    {"a stall between windows",
     "overlap",
     {{"timeline.device_steps", DEVICE_STEPS("78", "100000000", "5000001", "5000001")}},
     FAILS,
     "device time in steps longer than 3 x the median, windows or not is 5.00 %, may be at most 5.00 %",
     {0}},
    {"a stall in too few steps to pass anyway",
     "overlap",
     {{"timeline.steps",
       "{\"index\":[0],\"length_ns\":[10],\"copy_ns\":[4],\"hidden_ns\":[4],\"kernel_ns\":[9],"
       "\"busy_ns\":[9],\"starved_ns\":[0],\"h2d_bytes\":[8],\"pageable_bytes\":[0]}"},
      {"timeline.device_steps", DEVICE_STEPS("78", "100000000", "6000000", "6000000")}},
     FAILS,
     "6.00 %",
     {0}},
    {"steps of windows four times as long as the clock's",
     "overlap",
     {{"timeline.device_steps", TIMED("80", "78", "16000000", "249999", "700000")}},
     ERR,
     "contradict each other",
     {0}},
    {"and a quarter as long",
     "overlap",
     {{"timeline.device_steps", TIMED("80", "78", "300000000", "4000001", "6000000")}},
     ERR,
     "contradict each other",
     {0}},
    {"more time in the windows than in the run",
     "overlap",
     {{"timeline.device_steps", TIMED("80", "78", "73000000", "950000", "1000000")}},
     ERR,
     "contradict each other",
     {0}},
    {"more steps in the windows than in the run",
     "overlap",
     {{"timeline.device_steps", TIMED("60", "58", "80000000", "1300000", "1500000")},
      {"window.done_steps", "90"},
      {"resumed_from_step", "30"}},
     ERR,
     "contradict each other",
     {0}},
    {"another type", "overlap", {{"timeline.device_steps", "[]"}}, ERR, "not an object", {0}},
    {"a figure missing", "overlap", {{"timeline.device_steps.slow_ns", NULL}}, ABSENT, "slow_ns", {0}},
    {"a figure not an integer",
     "overlap",
     {{"timeline.device_steps.total_ns", "\"nan\""}},
     ERR,
     "integer",
     {0}},
    {"a negative figure", "overlap", {{"timeline.device_steps.slow_ns", "-1"}}, ERR, "is -1", {0}},
    {"more slow than time",
     "overlap",
     {{"timeline.device_steps", DEVICE_STEPS("78", "80000000", "9000000", "90000000")}},
     ERR,
     "impossible",
     {0}},
    {"a long step that is not slow",
     "overlap",
     {{"timeline.device_steps", DEVICE_STEPS("78", "80000000", "40000000", "0")}},
     ERR,
     "impossible",
     {0}},
    {"slow steps none of which is long",
     "overlap",
     {{"timeline.device_steps", DEVICE_STEPS("78", "80000000", "2000000", "2000000")}},
     ERR,
     "impossible",
     {0}},
    {"a sum larger than its parts",
     "overlap",
     {{"timeline.device_steps", DEVICE_STEPS("10", "80000000", "2000000", "0")}},
     ERR,
     "impossible",
     {0}},
    {"more lengths than steps",
     "overlap",
     {{"timeline.device_steps", DEVICE_STEPS("79", "80000000", "2000000", "0")}},
     ERR,
     "impossible",
     {0}},
    {"no length at all",
     "overlap",
     {{"timeline.device_steps", DEVICE_STEPS("0", "0", "0", "0")}},
     ERR,
     "impossible",
     {0}},
    {"steps that nobody timed",
     "overlap",
     {{"window.done_steps", "85"}},
     ABSENT,
     "at the end of 80 of 85 steps",
     {0}},
    {"of a resumed run those since",
     "overlap",
     {{"window.done_steps", "85"}, {"resumed_from_step", "5"}},
     PASS,
     "hidden",
     {0}},
    {"lengths of too few steps",
     "overlap",
     {{"timeline.device_steps", DEVICE_STEPS("73", "80000000", "2000000", "0")}},
     ABSENT,
     "tells the length of 75 of 80 steps",
     {0}},
    {"lengths of just enough steps",
     "overlap",
     {{"timeline.device_steps", DEVICE_STEPS("74", "80000000", "2000000", "0")}},
     PASS,
     "hidden",
     {0}},
    {"most steps set apart",
     "overlap",
     {{"timeline.device_steps.covered", "39"},
      {"timeline.device_steps.apart", "41"},
      {"timeline.device_steps.total_ns", "39000000"}},
     ABSENT,
     "41 of 80 steps lie beside",
     {0}},
    {"the slot of the profiler is taken",
     "overlap",
     {{"timeline.trust.reasons", "[\"another profiler holds the CUPTI slot\"]"}},
     ERR,
     "holds the CUPTI slot",
     {0}},
    {"dropped records", "overlap", {{"timeline.trust.dropped", "1"}}, ERR, "dropped is 1", {0}},
};

#define STILL                                                                                                \
    {"timeline.steps.copy_ns", "@80:0"},                                                                     \
    {                                                                                                        \
        "timeline.steps.hidden_ns", "@80:0"                                                                  \
    }
#define STILL_STEPS(index, starved)                                                                          \
    {"timeline.steps", "{\"index\":" index ",\"length_ns\":" LENGTHS ",\"copy_ns\":" ZEROS                   \
                       ",\"hidden_ns\":" ZEROS ",\"kernel_ns\":" KERNELS ",\"busy_ns\":" KERNELS             \
                       ",\"starved_ns\":" starved ",\"h2d_bytes\":" ZEROS ",\"pageable_bytes\":" ZEROS "}"}, \
    {                                                                                                        \
        "timeline.resident", "true"                                                                          \
    }
#define ZEROS "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]"
#define LENGTHS                                                                                              \
    "[990000,990000,990000,990000,990000,990000,990000,990000,990000,990000,990000,990000,990000,990000,"    \
    "990000,990000,990000,990000,990000,990000,990000,990000,990000,990000]"
#define KERNELS                                                                                              \
    "[880000,880000,880000,880000,880000,880000,880000,880000,880000,880000,880000,880000,880000,880000,"    \
    "880000,880000,880000,880000,880000,880000,880000,880000,880000,880000]"
#define SOME        "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,90000,90000]"
#define ONE_WINDOW  "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23]"
#define TWO_WINDOWS "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,70,71]"
static const Row resident_rows[] = {
    {"nothing starves", "overlap", {STILL_STEPS(ONE_WINDOW, ZEROS)}, PASS, "of any of 1 windows", {0}},
    {"two windows by a gap of step numbers",
     "overlap",
     {STILL_STEPS(TWO_WINDOWS, ZEROS)},
     PASS,
     "of 2 windows",
     {0}},
    {"drowned in one window", "overlap", {STILL_STEPS(ONE_WINDOW, SOME)}, PASS, "at most 0.87 %", {0}},
    {"not in a window of its own",
     "overlap",
     {STILL_STEPS(TWO_WINDOWS, SOME)},
     FAILS,
     "worst sampled window is 9.09 %",
     {0}},
    {"copies in the steady state",
     "overlap",
     {{"timeline.resident", "true"}},
     ERR,
     "said to lie on the device, but 2601984 bytes were copied to it after warm-up",
     {0}},
    {"bytes in no time", "overlap", {STILL, {"timeline.resident", "true"}}, ERR, "in no time", {0}},
    {"a stall between the windows",
     "overlap",
     {STILL_STEPS(ONE_WINDOW, ZEROS),
      {"timeline.device_steps", DEVICE_STEPS("78", "100000000", "6000000", "6000000")}},
     FAILS,
     "6.00 %",
     {0}},
};

static const Row entry_rows[] = {
    {"four steps an entry",
     "closure",
     {{"loop.steps.index", "@80:0+4"}, {"loop.steps.steps", "@80:4"}, {"window.done_steps", "320"}},
     PASS,
     "320 of 320 steps",
     {0}},
    {"entries count as the steps they hold",
     "closure",
     {{"loop.steps", "{\"index\":[0,1],\"steps\":[1,199],\"wall_ns\":[1000000,199000000],\"wait_ns\":[0,0],"
                     "\"exposed_copy_ns\":[0,0],\"compute_ns\":[5,199000000],\"rest\":{}}"},
      {"window.done_steps", "200"}},
     PASS,
     "199 of 200 steps",
     {0}},
    {"one bad entry of many steps",
     "closure",
     {{"loop.steps", "{\"index\":[0,1],\"steps\":[1,199],\"wall_ns\":[1000000,199000000],\"wait_ns\":[0,0],"
                     "\"exposed_copy_ns\":[0,0],\"compute_ns\":[1000000,5],\"rest\":{}}"},
      {"window.done_steps", "200"}},
     FAILS,
     "is 0.50 %",
     {0}},
    {"an entry has one tolerance, not one a step",
     "closure",
     {{"loop.steps",
       "{\"index\":[0],\"steps\":[32],\"wall_ns\":[100000],\"wait_ns\":[0],\"exposed_copy_ns\":[0],"
       "\"compute_ns\":[97999],\"rest\":{}}"}},
     FAILS,
     "is 0.00 %",
     {0}},
    {"few entries of many steps",
     "closure",
     {{"loop.steps", "{\"index\":[0,32],\"steps\":[32,32],\"wall_ns\":[9,9],\"wait_ns\":[0,0],"
                     "\"exposed_copy_ns\":[0,0],\"compute_ns\":[9,9],\"rest\":{}}"}},
     PASS,
     "64 of 64",
     {0}},
    {"an entry of no step",
     "closure",
     {{"loop.steps.steps", "@80:0"}},
     ERR,
     "entry 0 of 'loop.steps' holds 0",
     {0}},
    {"an entry of less than none", "closure", {{"loop.steps.steps", "@80:-1"}}, ERR, "holds -1 steps", {0}},
    {"half a step",
     "closure",
     {{"loop.steps", "{\"index\":[0],\"steps\":[1.5],\"wall_ns\":[9],\"wait_ns\":[9],"
                     "\"exposed_copy_ns\":[0],\"compute_ns\":[0],\"rest\":{}}"}},
     ERR,
     "holds 1.5 steps",
     {0}},
    {"steps that are no number", "closure", {{"loop.steps.steps", "[\"nan\"]"}}, ERR, "as long as", {0}},
    {"steps of another type", "closure", {{"loop.steps.steps", "1"}}, ERR, "not an array", {0}},
    {"entries that overlap",
     "closure",
     {{"loop.steps.steps", "@80:2"}, {"window.done_steps", "160"}},
     ERR,
     "holds 2 steps from step 0 on, the next begins at step 1",
     {0}},
    {"more steps than were done",
     "closure",
     {{"loop.steps.index", "@80:0+2"}, {"loop.steps.steps", "@80:2"}},
     ERR,
     "hold 160 steps, 80 were done",
     {0}},
    {"more than were done since it was resumed",
     "closure",
     {{"resumed_from_step", "1"}},
     ERR,
     "hold 80 steps, 79 were done",
     {0}},
    {"four steps an entry",
     "fed",
     {{"loop.steps.index", "@80:0+4"}, {"loop.steps.steps", "@80:4"}, {"window.done_steps", "320"}},
     PASS,
     "over 308 steps",
     {0}},
    {"few entries of many steps",
     "fed",
     {{"loop.steps", "{\"index\":[0,32,64,96],\"steps\":[32,32,32,32],\"wall_ns\":[9,9,9,9],"
                     "\"wait_ns\":[0,0,0,0],\"rest\":{}}"},
      {"window.done_steps", "128"}},
     PASS,
     "over 64 steps",
     {0}},
    {"entries that wait",
     "fed",
     {{"loop.steps.index", "@80:0+4"}, {"loop.steps.steps", "@80:4"}, {"loop.steps.wait_ns", "@80:60000"}},
     FAILS,
     "6.10 %",
     {0}},
    {"an entry of no step", "fed", {{"loop.steps.steps", "@80:0"}}, ERR, "holds 0 steps", {0}},
    {"entries that overlap",
     "fed",
     {{"loop.steps.steps", "@80:2"}, {"window.done_steps", "160"}},
     ERR,
     "the next begins",
     {0}},
    {"more steps than were done",
     "fed",
     {{"loop.steps.index", "@80:0+2"}, {"loop.steps.steps", "@80:2"}},
     ERR,
     "80 were done",
     {0}},
};

static const Row input_rows[] = {
    {"a good night", "input", {{0}}, PASS, "inside their limits", {0}},
    {"an input that is no number",
     "input",
     {{"loop.nonfinite_inputs", "1"}},
     FAILS,
     "numeric training inputs that are no finite numbers is 1 values, may be at most 0",
     {0}},
    {"nobody counted them", "input", {{"loop.nonfinite_inputs", NULL}}, ABSENT, "nonfinite_inputs", {0}},
    {"nobody knows who measured",
     "input",
     {{"loop.nonfinite_inputs", NULL}, {"timeline", NULL}},
     ABSENT,
     "nonfinite_inputs",
     {0}},
    {"no loop", "input", {{"loop", NULL}}, ABSENT, "nonfinite_inputs", {0}},
    {"the cpu carries a NaN to the loss",
     "input",
     {{"loop.nonfinite_inputs", NULL}, {"timeline.source", "\"cpu staging thread\""}},
     PASS,
     "inside",
     {0}},
    {"but what it counts is judged",
     "input",
     {{"loop.nonfinite_inputs", "7"}, {"timeline.source", "\"cpu staging thread\""}},
     FAILS,
     "is 7 values",
     {0}},
    {"a negative count", "input", {{"loop.nonfinite_inputs", "-1"}}, ERR, "is -1", {0}},
    {"a count that is none", "input", {{"loop.nonfinite_inputs", "\"nan\""}}, ERR, "integer", {0}},
};

static const Row order_rows[] = {
    {"a good night", "determinism", {{0}}, PASS, "each of 700 rows once", {0}},
    {"a slot refilled early",
     "determinism",
     {{"determinism.order.device_digest", "\"00fe\""}},
     FAILS,
     "digest 00fe came with the copies, 00ff was counted: a slot was refilled before its copy had ended",
     {0}},
    {"which goes before the bits that follow from it",
     "determinism",
     {{"determinism.order.device_digest", "\"00fe\""},
      {"determinism.replays.0.tensors.0.again", "\"" DIGEST_B "\""}},
     FAILS,
     "came with the copies",
     {0}},
    {"the copies say nothing",
     "determinism",
     {{"determinism.order.device_digest", NULL}},
     ABSENT,
     "device_digest",
     {0}},
    {"resident rows are not copied",
     "determinism",
     {{"determinism.order.device_digest", NULL}, {"timeline.resident", "true"}},
     PASS,
     "once",
     {0}},
    {"another type", "determinism", {{"determinism.order.device_digest", "7"}}, ERR, "not a text", {0}},
    {"the staging thread copies at once",
     "determinism",
     {{"determinism.order.device_digest", NULL}, {"timeline.source", "\"cpu staging thread\""}},
     PASS,
     "once",
     {0}},
    {"but what it copied is judged",
     "determinism",
     {{"determinism.order.device_digest", "\"0\""}, {"timeline.source", "\"cpu staging thread\""}},
     FAILS,
     "came with the copies",
     {0}},
};

// Of so many steps of 256 rows, 200448 FLOP a row.
#define CLAIM(count, flop, bytes, time, kernels)                                                             \
    "[{\"name\":\"training step\",\"flop\":" flop ",\"bytes\":" bytes ",\"time_ns\":" time                   \
    ",\"kernel_union_ns\":" kernels ",\"count\":" count "}]"
#define BF16                                                                                                 \
    {"precision", "\"bf16\""}, {"plausible.precision", "\"bf16\""}, {"plausible.shape.element_bytes", "2"},  \
    {                                                                                                        \
        "plausible.peak_flops", "989.4e12"                                                                   \
    }
static const Row card_rows[] = {
    {"a good night", "plausible", {{0}}, PASS, "of what 6.69e+13 FLOP/s allow", {0}},
    {"what a card does",
     "plausible",
     {BF16, {"plausible.claims", CLAIM("126668", "6499928899584", "167388215296", "10000000", "9000000")}},
     PASS,
     "'training step' is 6.5e+14 FLOP/s, 65.70 % of what 9.894e+14",
     {0}},
    {"three PFLOP/s",
     "plausible",
     {BF16, {"plausible.claims", CLAIM("584621", "29999644213248", "772560282112", "10000000", "9000000")}},
     FAILS,
     "impossible: claim 'training step' is 3e+15 FLOP/s, 303.21 % of",
     {0}},
    {"a timer that did not wait",
     "plausible",
     {BF16, {"plausible.claims", CLAIM("80", "1e9", "1e6", "1000", "9000000")}},
     FAILS,
     "the timer was stopped before the device had finished",
     {0}},
    {"a card the table does not know",
     "plausible",
     {{"plausible.device", "\"NVIDIA X1\""}},
     ABSENT,
     "the peak of this device is unknown",
     {0}},
    {"a known card of another precision",
     "plausible",
     {{"precision", "\"int4\""}, {"plausible.precision", "\"int4\""}},
     ABSENT,
     "is unknown",
     {0}},
    {"its timer is doubted even so",
     "plausible",
     {{"plausible.device", "\"NVIDIA X1\""},
      {"plausible.claims", CLAIM("80", "1e9", "1e6", "1000", "9000000")}},
     FAILS,
     "the timer was stopped",
     {0}},
    {"a peak above that of the card",
     "plausible",
     {{"plausible.peak_flops", "67e12"}},
     ERR,
     "a peak of 6.7e+13 FLOP/s is more than 'NVIDIA H200' has, 6.69e+13",
     {0}},
    {"declared by the policy",
     "plausible",
     {{"plausible.device", "\"NVIDIA X1\""}},
     PASS,
     "of what 1e+13",
     {"device.peak_flops=1e13", NULL}},
    {"no card named", "plausible", {{"plausible.device", NULL}}, ABSENT, "device", {0}},
};

#define GPU_TEST(name, rows)                                                                                 \
    START_TEST(name)                                                                                         \
    {                                                                                                        \
        judge_gpu_row(&(rows)[_i]);                                                                          \
    }                                                                                                        \
    END_TEST
GPU_TEST(a_stall_between_windows_does_not_hide, between_rows)
GPU_TEST(resident_data_passes_window_by_window, resident_rows)
GPU_TEST(entries_count_as_their_steps, entry_rows)
GPU_TEST(inputs_are_counted_on_the_device, input_rows)
GPU_TEST(the_device_gets_what_was_counted, order_rows)
GPU_TEST(a_card_has_the_bound_of_the_table, card_rows)

// Every planted candidate of the self-test is refused of a card's evidence as well.
START_TEST(the_self_test_refuses_all_of_a_cards_night)
{
    OWNED(Json, json_free) *evidence = good_evidence(), *refused = json_make_array(),
                           *passed = json_make_array();
    OWNED(Config, config_free) *policy = load_policy((const char *const[2]){NULL, NULL});
    for (size_t i = 0; i < sizeof gpu / sizeof gpu[0]; i++) {
        apply(evidence, &gpu[i]);
    }
    ck_assert_msg(gate_self_test(evidence, policy, refused, passed), "'%s' passed",
                  json_text_or(json_at(passed, 0), "?"));
    static const char *const names[] = {"overlap.resident", "overlap.between",    "overlap.slot",
                                        "closure.entries",  "determinism.copied", "input.nonfinite"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t found = 0;
        for (size_t k = 0; k < json_count(refused); k++) {
            found += text_equal(json_text_or(json_at(refused, k), ""), names[i]);
        }
        ck_assert_msg(found == 1, "%s was shown %zu times", names[i], found);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gate_gpu_test");
    TCase *c = tcase_create("rows");
    tcase_add_loop_test(c, a_stall_between_windows_does_not_hide, 0, COUNT(between_rows));
    tcase_add_loop_test(c, resident_data_passes_window_by_window, 0, COUNT(resident_rows));
    tcase_add_loop_test(c, entries_count_as_their_steps, 0, COUNT(entry_rows));
    tcase_add_loop_test(c, inputs_are_counted_on_the_device, 0, COUNT(input_rows));
    tcase_add_loop_test(c, the_device_gets_what_was_counted, 0, COUNT(order_rows));
    tcase_add_loop_test(c, a_card_has_the_bound_of_the_table, 0, COUNT(card_rows));
    tcase_add_test(c, the_self_test_refuses_all_of_a_cards_night);
    suite_add_tcase(s, c);
    return run_suite(s);
}
