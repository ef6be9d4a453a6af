// inspect_test - `fedgate inspect` as it is used: exit codes, formats, pictures, hostile files, nothing that
// a trace says of people and machines; and every published figure of three real traces where they are at
// hand.
//
// The real traces are ../shared/traces beside the source tree.
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "support.h"
#include <fedgate/file.h>
#include <fedgate/json.h>
#include <math.h>

#define FIXTURE(name) FEDGATE_SOURCE_DIR "/fixtures/traces/" name

static Json *parsed(const SupportRun *run)
{
    Error error = ERROR_INIT;
    Json *json = json_parse(text_string(&run->output), run->output.length, 64u << 20, &error);
    ck_assert_msg(json != NULL, "%s", error.message);
    return json;
}

static const struct {
    const char *files[4];
    int exit_code;
} exits[] = {
    {{FIXTURE("hidden.json")}, 0},
    {{FIXTURE("exposed.json")}, 10},
    {{FIXTURE("few.json")}, 11},
    {{FIXTURE("cut.json")}, 65},
    {{FIXTURE("nowhere.json")}, 74},
    {{FIXTURE("hidden.json"), FIXTURE("few.json")}, 11},
    {{FIXTURE("few.json"), FIXTURE("exposed.json"), FIXTURE("hidden.json")}, 10},
    {{FIXTURE("exposed.json"), FIXTURE("cut.json"), FIXTURE("few.json")}, 65},
    {{FIXTURE("nowhere.json"), FIXTURE("cut.json")}, 65},
    {{FIXTURE("exposed.json"), FIXTURE("nowhere.json")}, 74},
    {{NULL}, 64},
};

START_TEST(several_files_end_with_the_worst)
{
    const char *const *f = exits[_i].files;
    SupportRun run;
    SUPPORT_RUN(&run, "inspect", "--format", "json", f[0], f[1], f[2]);
    ck_assert_int_eq(run.exit_code, exits[_i].exit_code);
    support_run_done(&run);
}
END_TEST

START_TEST(good_files_are_judged_beside_a_bad_one)
{
    SupportRun run;
    SUPPORT_RUN(&run, "inspect", "--format", "json", FIXTURE("cut.json"), FIXTURE("hidden.json"));
    ck_assert_int_eq(run.exit_code, 65);
    ck_assert_ptr_nonnull(strstr(text_string(&run.errors), "cut.json': cut short: it ends at offset 5000"));
    OWNED(Json, json_free) *said = parsed(&run);
    ck_assert_str_eq(json_text_or(json_get(said, "schema"), ""), "fedgate.inspect/1");
    ck_assert_uint_eq(json_count(json_get(said, "traces")), 1);
    static const char *const keys[] = {"file",
                                       "verdict",
                                       "reason",
                                       "steps",
                                       "span_ns",
                                       "kernel_busy_ns",
                                       "any_busy_ns",
                                       "idle_ratio",
                                       "idle_kernels_ratio",
                                       "h2d_ns",
                                       "h2d_hidden_ns",
                                       "hidden_ratio",
                                       "h2d_bytes",
                                       "pageable_h2d_bytes",
                                       "gaps",
                                       "trust"};
    const Json *entry = json_at(json_get(said, "traces"), 0);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        ck_assert_str_eq(json_key_at(entry, i), keys[i]);
    static const char *const step_keys[] = {"index", "length_ns", "hidden_ratio", "busy_ratio", "wait_ns"};
    for (size_t i = 0; i < sizeof step_keys / sizeof step_keys[0]; i++)
        ck_assert_str_eq(json_key_at(json_at(json_get(entry, "steps"), 0), i), step_keys[i]);
    support_run_done(&run);
}
END_TEST

START_TEST(quiet_says_nothing_of_what_is_good)
{
    SupportRun run;
    SUPPORT_RUN(&run, "inspect", "--quiet", FIXTURE("hidden.json"));
    ck_assert(run.exit_code == 0 && run.output.length == 0 && run.errors.length == 0);
    support_run_done(&run);
    SUPPORT_RUN(&run, "inspect", "--quiet", FIXTURE("hidden.json"), FIXTURE("exposed.json"));
    ck_assert(run.exit_code == 10 && strstr(text_string(&run.output), "not_sustained") != NULL);
    ck_assert_ptr_null(strstr(text_string(&run.output), "hidden.json"));
    support_run_done(&run);
}
END_TEST

START_TEST(nothing_planted_comes_out)
{
    char *folder = support_folder_new();
    const char *picture = support_path(folder, "picture.svg");
    SupportRun run;
    SCOPED_TEXT all = {0};
    text_init(&all, 16u << 20);
    static const char *const files[] = {FIXTURE("hidden.json"), FIXTURE("exposed.json"), FIXTURE("few.json")};
    for (size_t i = 0; i < 3; i++) {
        for (int json = 0; json < 2; json++) {
            SUPPORT_RUN(&run, "inspect", "--format", json ? "json" : "text", "--svg", picture, files[i]);
            text_add(&all, text_string(&run.output));
            text_add(&all, text_string(&run.errors));
            support_run_done(&run);
        }
        SCOPED_TEXT svg = {0};
        text_init(&svg, 16u << 20);
        text_add(&all, support_read(picture, &svg));
    }
    ck_assert_ptr_nonnull(strstr(text_string(&all), "<svg"));
    static const char *const planted[] = {"planted", "secret", "/srv", "python"};
    for (size_t i = 0; i < sizeof planted / sizeof planted[0]; i++)
        ck_assert_msg(strstr(text_string(&all), planted[i]) == NULL, "'%s' came out", planted[i]);
    SUPPORT_RUN(&run, "inspect", "--svg", picture, files[0], files[1]);
    ck_assert_int_eq(run.exit_code, 64);
    support_run_done(&run);
    SUPPORT_RUN(&run, "inspect", "--svg", support_path(folder, "none/picture.svg"), files[0]);
    ck_assert_int_eq(run.exit_code, 74);
    support_run_done(&run);
    support_folder_remove(folder);
}
END_TEST

// -- gzip

static void write_gzip(const char *path, const char *mode, const char *bytes, size_t length)
{
    gzFile file = gzopen(path, mode);
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(gzwrite(file, bytes, (unsigned)length), (int)length);
    ck_assert_int_eq(gzclose(file), Z_OK);
}

static int exit_of(const char *path, const char *words)
{
    SupportRun run;
    SUPPORT_RUN(&run, "inspect", path);
    ck_assert_msg(strstr(text_string(&run.errors), words) != NULL, "%s, wanted '%s'",
                  text_string(&run.errors), words);
    int code = run.exit_code;
    support_run_done(&run);
    return code;
}

START_TEST(compressed_traces_are_read_whole_or_not_at_all)
{
    char *folder = support_folder_new();
    const char *path = support_path(folder, "trace.json.gz");
    SCOPED_TEXT plain = {0};
    SCOPED_TEXT packed = {0};
    text_init(&plain, 1u << 20);
    text_init(&packed, 1u << 20);
    support_read(FIXTURE("hidden.json"), &plain);
    write_gzip(path, "wb9", plain.data, plain.length);
    ck_assert_int_eq(exit_of(path, ""), 0);
    write_gzip(path, "wb9", plain.data, 7000);   // two members
    write_gzip(path, "ab1", plain.data + 7000, plain.length - 7000);
    ck_assert_int_eq(exit_of(path, ""), 0);
    Error error = ERROR_INIT;
    ASSERT_OK(file_read(path, &packed, &error), &error);
    ASSERT_OK(file_write_atomic(path, packed.data, packed.length - 9, 0600, &error), &error);
    ck_assert_int_eq(exit_of(path, "cut short"), 65);
    packed.data[packed.length / 2] ^= 4;
    ASSERT_OK(file_write_atomic(path, packed.data, packed.length, 0600, &error), &error);
    ck_assert_int_eq(exit_of(path, "damaged"), 65);
    packed.data[packed.length / 2] ^= 4;
    text_add(&packed, "xyz");
    ASSERT_OK(file_write_atomic(path, packed.data, packed.length, 0600, &error), &error);
    ck_assert_int_eq(exit_of(path, "after its last gzip member"), 65);
    char *blanks = calloc(1, 64u << 20);   // zeros are no JSON: a bomb of them ends at its first byte
    ck_assert_ptr_nonnull(blanks);
    write_gzip(path, "wb1", blanks, 64u << 20);
    ck_assert_int_eq(exit_of(path, "not a trace: neither an object nor an array at offset 0"), 65);
    free(blanks);
    support_folder_remove(folder);
}
END_TEST

START_TEST(a_million_events_are_read)
{
    char *folder = support_folder_new();
    const char *path = support_path(folder, "trace.json.gz");
    gzFile file = gzopen(path, "wb1");
    gzputs(file, "[");
    for (int i = 0; i < 1000000; i++)
        gzprintf(file, "%s{\"ph\":\"X\",\"cat\":\"kernel\",\"pid\":0,\"tid\":7,\"ts\":%d,\"dur\":1}",
                 i ? "," : "", 2 * i + 1);
    gzputs(file, "]");
    ck_assert_int_eq(gzclose(file), Z_OK);
    SupportRun run;
    SUPPORT_RUN(&run, "inspect", "--format", "json", path);
    ck_assert_int_eq(run.exit_code, 11);
    OWNED(Json, json_free) *said = parsed(&run);
    const Json *entry = json_at(json_get(said, "traces"), 0);
    ck_assert_int_eq(json_integer_or(json_get(entry, "kernels"), 0), 1000000);
    ck_assert_int_eq(json_integer_or(json_get(entry, "kernel_busy_ns"), 0), 1000000000);
    support_run_done(&run);
    support_folder_remove(folder);
}
END_TEST

// -- the real traces

typedef struct PublishedStep {
    double length_us, busy, hidden, more;   // per cent; of the host: wait; of the device: copies in us
} PublishedStep;
static const struct Published {
    const char *file;
    struct {
        const char *key;
        double value;   // whole numbers exactly, ratios to four decimals
    } figures[40];
    PublishedStep host[6], device[6];
    int first_step;
    const char *reason;
} published[] = {
    {"kineto_resnet50_nw0.json.gz",
     {{"kernels", 8772},
      {"communication_kernels", 0},
      {"zero_length_kernels", 636},
      {"copies", 12},
      {"memsets", 312},
      {"streams", 1},
      {"span_ns", 996477000},
      {"kernel_busy_ns", 591532000},
      {"any_busy_ns", 603558000},
      {"idle_kernels_ratio", 0.4064},
      {"idle_ratio", 0.3943},
      {"copy_totals.0.count", 12},
      {"copy_totals.0.bytes", 115607040},
      {"copy_totals.0.time_ns", 11492000},
      {"h2d_ns", 11492000},
      {"h2d_hidden_ns", 0},
      {"hidden_ratio", 0},
      {"pageable_h2d_bytes", 115607040},
      {"calls.async_host_copies", 12},
      {"calls.async_host_copies_pageable", 12},
      {"idle_gaps", 8285},
      {"idle_gap_longest_ns", 62339000},
      {"idle_gaps_from_1ms", 6},
      {"idle_gaps_from_1ms_ns", 287264000},
      {"calls.h2d_from_100us", 6},
      {"calls.h2d_from_100us_under_half_hidden", 6},
      {"calls.synchronisations.0.count", 12},
      {"calls.synchronisations.0.time_ns", 551000},
      {"calls.synchronisations.1.count", 1},
      {"calls.synchronisations.1.time_ns", 16194000},
      {"calls.batch_waits", 6},
      {"calls.batch_wait_ns", 415791000},
      {"calls.large_call_per_copy_time", 1.0424},
      {"calls.large_call_median_ns", 2020500},
      {"calls.large_copy_median_ns", 1936500},
      {"calls.large_call_longest_ns", 2027000},
      {"calls.h2d_called", 12},
      {"calls.h2d_inside_call", 0}},
     {{176078, 50.76, 0, 39.01},
      {173992, 57.16, 0, 39.53},
      {176918, 55.30, 0, 41.50},
      {181259, 59.18, 0, 39.40},
      {176468, 53.77, 0, 40.15},
      {164261, 60.15, 0, 38.13}},
     {{176219, 57.10, 0, 1941},
      {178718, 56.29, 0, 1947},
      {174983, 57.50, 0, 1931},
      {180741, 55.69, 0, 1938},
      {168287, 59.74, 0, 1937},
      {117529, 85.53, 0, 1798}},
     5,
     "starved of input"},
    {"kineto_resnet50_nw4.json.gz",
     {{"kernels", 8868},
      {"zero_length_kernels", 639},
      {"copies", 12},
      {"memsets", 378},
      {"streams", 1},
      {"span_ns", 801550000},
      {"kernel_busy_ns", 594868000},
      {"any_busy_ns", 614413000},
      {"idle_kernels_ratio", 0.2579},
      {"idle_ratio", 0.2335},
      {"copy_totals.0.time_ns", 18959000},
      {"h2d_ns", 18959000},
      {"h2d_hidden_ns", 0},
      {"h2d_bytes", 115607040},
      {"pageable_h2d_bytes", 115607040},
      {"calls.async_host_copies_pageable", 12},
      {"idle_gaps", 8517},
      {"idle_gap_longest_ns", 6018000},
      {"idle_gaps_from_1ms", 8},
      {"idle_gaps_from_1ms_ns", 19217000},
      {"calls.h2d_from_100us_under_half_hidden", 6},
      {"calls.synchronisations.0.time_ns", 386000},
      {"calls.synchronisations.1.time_ns", 7950000},
      {"calls.batch_wait_ns", 8522000},
      {"calls.large_call_per_copy_time", 2.9634},
      {"calls.large_call_median_ns", 3101000},
      {"calls.large_copy_median_ns", 2961000},
      {"calls.large_call_longest_ns", 39996000},
      {"calls.h2d_called", 12},
      {"calls.h2d_inside_call", 0}},
     {{181565, 56.64, 0, 2.39},
      {123884, 81.06, 0, 0.07},
      {126824, 80.27, 0, 0.07},
      {126272, 82.94, 0, 0.99},
      {163461, 62.70, 0, 0.84},
      {116146, 81.36, 0, 1.21}},
     {{139665, 74.09, 0, 3606},
      {123979, 82.48, 0, 2948},
      {128020, 79.80, 0, 2949},
      {128003, 79.76, 0, 2975},
      {162050, 63.24, 0, 3596},
      {119833, 85.07, 0, 2885}},
     5,
     "100.00 % of the bytes to the device come from pageable memory; 2 of 6 steps take more than 1.25 "
     "medians: #5, #9"},
    {"hta_v100_pinned_cudagraph.json.gz",
     {{"kernels", 9876},
      {"communication_kernels", 64},
      {"zero_length_kernels", 0},
      {"copies", 4856},
      {"memsets", 900},
      {"streams", 4},
      {"span_ns", 745239000},
      {"kernel_busy_ns", 621446000},
      {"kernel_busy_without_communication_ns", 548148000},
      {"any_busy_ns", 717943000},
      {"idle_kernels_ratio", 0.1661},
      {"idle_ratio", 0.0366},
      {"copy_totals.0.count", 151},
      {"copy_totals.0.bytes", 423923264},
      {"copy_totals.0.time_ns", 66643000},
      {"copy_totals.1.count", 60},
      {"copy_totals.1.bytes", 117936},
      {"copy_totals.1.time_ns", 124000},
      {"copy_totals.2.count", 4645},
      {"copy_totals.2.bytes", 27916597296.0},
      {"copy_totals.2.time_ns", 92932000},
      {"h2d_hidden_ns", 53038000},
      {"hidden_ratio", 0.7959},
      {"h2d_hidden_without_communication_ns", 51894000},
      {"pageable_h2d_bytes", 0},
      {"calls.async_host_copies", 210},
      {"calls.async_host_copies_pageable", 60},
      {"idle_gaps", 8954},
      {"idle_gap_longest_ns", 408000},
      {"idle_gaps_from_1ms", 0},
      {"calls.h2d_from_100us", 19},
      {"calls.h2d_from_100us_under_half_hidden", 3},
      {"calls.synchronisations.0.count", 60},
      {"calls.synchronisations.1.time_ns", 582000},
      {"calls.batch_wait_ns", 570000},
      {"calls.large_call_median_ns", 8500},
      {"calls.h2d_called", 150},
      {"calls.h2d_inside_call", 0},
      {"calls.d2h_inside_call", 60},
      {"calls.operations_without_call", 614}},
     {{100298, 97.02, 87.02, 0.10},
      {122149, 96.20, 89.99, 0.07},
      {166403, 96.05, 92.64, 0.05},
      {81971, 97.00, 77.42, 0.14},
      {107230, 97.04, 25.48, 0.10},
      {166350, 95.53, 93.73, 0.05}},
     {{100079, 97.27, 87.02, 12909},
      {122214, 96.17, 89.99, 11444},
      {166690, 95.80, 92.62, 11111},
      {81821, 97.48, 77.44, 11744},
      {107217, 97.04, 25.48, 8926},
      {166493, 95.53, 93.70, 10509}},
     1009,
     "1 of 3 steps after warm-up"},
};

// "calls.synchronisations.0.count", where a number is a place in an array.
static double found(const Json *at, const char *dotted)
{
    char path[96];
    ck_assert(text_copy(path, sizeof path, dotted));
    char *rest = path;
    for (char *dot = path; dot != NULL; rest = dot + 1) {
        dot = strchr(rest, '.');
        if (dot != NULL)
            *dot = '\0';
        at = json_is_array(at) ? json_at(at, (size_t)strtoul(rest, NULL, 10)) : json_get(at, rest);
        if (dot == NULL)
            break;
    }
    return json_number_or(at, NAN);
}

static void check_steps(const Json *steps, const PublishedStep *wanted, int first, bool host)
{
    ck_assert_uint_eq(json_count(steps), 6);
    for (size_t i = 0; i < 6; i++) {
        const Json *step = json_at(steps, i);
        double more = host ? found(step, "wait_ratio") * 100 : found(step, "copy_ns") / 1000;
        ck_assert(found(step, "index") == first + (int)i);
        ck_assert_msg(found(step, "length_ns") == wanted[i].length_us * 1000, "step %zu: %g ns", i,
                      found(step, "length_ns"));
        ck_assert(fabs(found(step, "busy_ratio") * 100 - wanted[i].busy) <= 0.00501);
        ck_assert(fabs(found(step, "hidden_ratio") * 100 - wanted[i].hidden) <= 0.00501);
        ck_assert(host ? fabs(more - wanted[i].more) <= 0.00501 : more == wanted[i].more);
    }
}

START_TEST(every_published_figure_is_met)
{
    const struct Published *trace = &published[_i];
    char path[FILE_PATH_SIZE];
    ck_assert(text_print(path, sizeof path, "%s/../shared/traces/%s", FEDGATE_SOURCE_DIR, trace->file));
    if (!file_exists(path))
        return;
    SupportRun run;
    SUPPORT_RUN(&run, "inspect", "--format", "json", path);
    ck_assert_int_eq(run.exit_code, 10);
    OWNED(Json, json_free) *said = parsed(&run);
    const Json *entry = json_at(json_get(said, "traces"), 0);
    for (size_t i = 0; i < 40 && trace->figures[i].key != NULL; i++) {
        double value = found(entry, trace->figures[i].key);
        double wanted = trace->figures[i].value;
        bool whole = wanted == floor(wanted);
        ck_assert_msg(whole ? value == wanted : fabs(value - wanted) <= 0.0000501,
                      "'%s' is %.17g, wanted %.17g", trace->figures[i].key, value, wanted);
    }
    check_steps(json_get(entry, "host_steps"), trace->host, trace->first_step, true);
    check_steps(json_get(entry, "steps"), trace->device, trace->first_step, false);
    ck_assert_str_eq(json_text_or(json_get(entry, "verdict"), ""), "not_sustained");
    ck_assert_ptr_nonnull(strstr(json_text_or(json_get(entry, "reason"), ""), trace->reason));
    ck_assert_ptr_null(strstr(text_string(&run.output), "/home"));
    support_run_done(&run);
    // Of its six steps one is under 60 %, which could still pass; of the others all are.
    SUPPORT_RUN(&run, "inspect", "--set", "overlap.floor=0.6", path);
    ck_assert_int_eq(run.exit_code, _i == 2 ? 11 : 10);
    support_run_done(&run);
}
END_TEST

#define LOOP(test, rows) tcase_add_loop_test(c, test, 0, (int)(sizeof rows / sizeof rows[0]))
int main(void)
{
    Suite *s = suite_create("inspect");
    TCase *c = tcase_create("all");
    LOOP(several_files_end_with_the_worst, exits);
    tcase_add_test(c, good_files_are_judged_beside_a_bad_one);
    tcase_add_test(c, quiet_says_nothing_of_what_is_good);
    tcase_add_test(c, nothing_planted_comes_out);
    tcase_add_test(c, compressed_traces_are_read_whole_or_not_at_all);
    tcase_add_test(c, a_million_events_are_read);
    LOOP(every_published_figure_is_met, published);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
