// telemetry_spool_test - frames that are whole or not there, torn tails, thinning, two processes, and COPY
// lines.
#include "../../src/telemetry/telemetry_internal.h"
#include "support.h"

#include <fcntl.h>
#include <fedgate/file.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char run[] = "01936f5e-0000-7000-8000-000000000001";
static const char version[] = "adult-0123456789abcdef";
static char *home;

static void set_up(void)
{
    home = support_folder_new();
}

static void tear_down(void)
{
    support_folder_remove(home);
    home = NULL;
}

static Spool *open_spool(int64_t maximum_rows)
{
    Error error = ERROR_INIT;
    Spool *spool = spool_open(home, run, version, maximum_rows, &error);
    ck_assert_msg(spool != NULL, "%s", error.message);
    return spool;
}

static void append(Spool *spool, TelemetryKind kind, int64_t number)
{
    Error error = ERROR_INIT;
    OWNED(Json, json_free) *row = json_make_object();
    json_put_text(row, "name", "'; DROP TABLE fedgate.metric; --");
    json_put_integer(row, "number", number);
    ASSERT_OK(spool_append(spool, kind, row, &error), &error);
}

static const char *spool_file(void)
{
    static char path[FILE_PATH_SIZE];
    Error error = ERROR_INIT;
    ASSERT_OK(spool_path(home, run, path, &error), &error);
    return path;
}

static off_t size_of(const char *path)
{
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    return status.st_size;
}

// Reads the whole spool: every seq in order, every number what was appended. Returns the rows.
static int64_t check_rows(void)
{
    Error error = ERROR_INIT;
    OWNED(SpoolReader, reader_close) *reader = NULL;
    SpoolFrame frame;
    bool any = true;
    ASSERT_OK(reader_open(spool_file(), run, &reader, &error), &error);
    for (int64_t seq = 1;; seq++) {
        ASSERT_OK(reader_next(reader, &any, &frame, &error), &error);
        if (!any)
            return reader_rows(reader);
        ck_assert_int_eq(frame.seq, seq);
        ck_assert_str_eq(frame.version, version);
        OWNED(Json, json_free) *payload = json_parse(frame.payload, frame.payload_length, 1000, &error);
        ck_assert_ptr_nonnull(payload);
        ck_assert_int_eq(json_integer_or(json_get(payload, "number"), -1), seq);
    }
}

START_TEST(rows_are_numbered_from_one_and_a_spool_opened_again_goes_on)
{
    Spool *spool = open_spool(100);
    append(spool, TELEMETRY_RUN, 1);
    append(spool, TELEMETRY_METRIC, 2);
    ck_assert_int_eq(spool_rows(spool), 2);
    spool_close(spool);
    spool = open_spool(100);
    ck_assert_int_eq(spool_rows(spool), 2);
    ck_assert_int_eq(spool_torn_bytes(spool), 0);
    append(spool, TELEMETRY_METRIC, 3);
    spool_close(spool);
    ck_assert_int_eq(check_rows(), 3);
}
END_TEST

START_TEST(a_tail_torn_at_any_byte_of_the_last_frame_is_cut_and_counted)
{
    Spool *spool = open_spool(100);
    append(spool, TELEMETRY_METRIC, 1);
    append(spool, TELEMETRY_METRIC, 2);
    off_t good = size_of(spool_file());
    append(spool, TELEMETRY_METRIC, 3);
    spool_close(spool);
    off_t whole = size_of(spool_file());
    SCOPED_TEXT bytes;
    text_init(&bytes, 1 << 20);
    support_read(spool_file(), &bytes);
    for (off_t length = good + 1; length < whole; length++) {
        int fd = open(spool_file(), O_WRONLY | O_TRUNC);
        ck_assert_int_eq(write(fd, bytes.data, (size_t)length), length);
        close(fd);
        spool = open_spool(100);
        ck_assert_int_eq(spool_rows(spool), 2);
        ck_assert_int_eq(spool_torn_bytes(spool), length - good);
        ck_assert_int_eq(size_of(spool_file()), good);
        append(spool, TELEMETRY_METRIC, 3);
        spool_close(spool);
        ck_assert_int_eq(check_rows(), 3);
        spool = open_spool(100);
        ck_assert_int_eq(spool_torn_bytes(spool), length - good);   // remembered in the file
        spool_close(spool);
    }
}
END_TEST

START_TEST(a_flipped_bit_ends_the_spool_before_its_frame)
{
    Spool *spool = open_spool(100);
    append(spool, TELEMETRY_METRIC, 1);
    off_t begin = size_of(spool_file());
    append(spool, TELEMETRY_METRIC, 2);
    off_t end = size_of(spool_file());
    append(spool, TELEMETRY_METRIC, 3);
    spool_close(spool);
    SCOPED_TEXT bytes;
    text_init(&bytes, 1 << 20);
    support_read(spool_file(), &bytes);
    for (off_t at = begin; at < end; at++) {
        char flipped = (char)(bytes.data[at] ^ (1 << (at % 8)));
        int fd = open(spool_file(), O_WRONLY);
        ck_assert_int_eq(pwrite(fd, &flipped, 1, at), 1);
        ck_assert_int_eq(check_rows(), 1);
        ck_assert_int_eq(pwrite(fd, bytes.data + at, 1, at), 1);
        close(fd);
    }
    ck_assert_int_eq(check_rows(), 3);
}
END_TEST

static const char *const tails[] = {"\0\0\0\0\0\0\0\0\0\0\0\0",
                                    "\x40\0\0\0\1\2\3\4 some text that is no frame", "x"};
static const size_t tail_lengths[] = {12, 36, 1};

START_TEST(bytes_that_are_no_frame_are_cut)
{
    Spool *spool = open_spool(100);
    append(spool, TELEMETRY_METRIC, 1);
    spool_close(spool);
    int fd = open(spool_file(), O_WRONLY | O_APPEND);
    ck_assert_int_eq(write(fd, tails[_i], tail_lengths[_i]), (ssize_t)tail_lengths[_i]);
    close(fd);
    spool = open_spool(100);
    ck_assert_int_eq(spool_torn_bytes(spool), (int64_t)tail_lengths[_i]);
    append(spool, TELEMETRY_METRIC, 2);
    spool_close(spool);
    ck_assert_int_eq(check_rows(), 2);
}
END_TEST

START_TEST(a_spool_killed_before_its_header_was_whole_begins_anew)
{
    Error error = ERROR_INIT;
    ASSERT_OK(file_make_directory(support_path(home, "spool"), 0755, &error), &error);
    support_write(spool_file(), "fgspo");
    Spool *spool = open_spool(100);
    append(spool, TELEMETRY_METRIC, 1);
    spool_close(spool);
    ck_assert_int_eq(check_rows(), 1);
}
END_TEST

START_TEST(thinning_drops_step_windows_only_and_remembers_how_many)
{
    Spool *spool = open_spool(3);
    for (unsigned kind = 0; kind < TELEMETRY_KIND_COUNT; kind++) {
        for (int i = 0; i < 5; i++)
            append(spool, (TelemetryKind)kind, spool_rows(spool) + 1);
    }
    int64_t thin = 0;
    for (unsigned kind = 0; kind < TELEMETRY_KIND_COUNT; kind++)
        thin += kind_may_be_thinned((TelemetryKind)kind) ? 5 : 0;
    ck_assert_int_gt(thin, 0);
    ck_assert_int_eq(spool_dropped(spool),
                     thin);   // the first three rows are of a kind that is never dropped
    ck_assert_int_eq(spool_rows(spool), 5 * TELEMETRY_KIND_COUNT - thin);
    spool_close(spool);
    spool = open_spool(3);
    ck_assert_int_eq(spool_dropped(spool), thin);
    spool_close(spool);
    ck_assert(!kind_may_be_thinned(TELEMETRY_CHECK) && !kind_may_be_thinned(TELEMETRY_METRIC) &&
              !kind_may_be_thinned(TELEMETRY_VERDICT));
}
END_TEST

START_TEST(a_forked_child_goes_on_with_the_spool_and_then_the_parent)
{
    Spool *spool = open_spool(100);
    append(spool, TELEMETRY_METRIC, 1);
    pid_t child = fork();
    if (child == 0) {
        append(spool, TELEMETRY_METRIC, 2);
        append(spool, TELEMETRY_METRIC, 3);
        spool_close(spool);
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    append(spool, TELEMETRY_METRIC, 4);
    ck_assert_int_eq(spool_rows(spool), 4);
    spool_close(spool);
    ck_assert_int_eq(check_rows(), 4);
}
END_TEST

START_TEST(two_processes_appending_at_once_leave_no_gap)
{
    Spool *spool = open_spool(100000);
    pid_t child = fork();
    for (int i = 0; i < 300; i++) {
        Error error = ERROR_INIT;
        OWNED(Json, json_free) *row = json_make_object();
        json_put_integer(row, "i", i);
        if (!spool_append(spool, TELEMETRY_METRIC, row, &error))
            _exit(1);
    }
    if (child == 0)
        _exit(0);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    spool_close(spool);
    spool = open_spool(100000);
    ck_assert_int_eq(spool_rows(spool), 600);
    ck_assert_int_eq(spool_torn_bytes(spool), 0);
    spool_close(spool);
}
END_TEST

// In a mount namespace of its own, as root only: elsewhere there is no small disk to fill.
START_TEST(on_a_full_disk_step_windows_are_dropped_and_gate_rows_fail)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", home, "tmpfs", 0, "size=64k") != 0)
        return;
    Error error = ERROR_INIT;
    Spool *spool = open_spool(100000);
    int64_t i;
    for (i = 0; i < 2000 && spool_dropped(spool) == 0; i++)
        append(spool, TELEMETRY_STEP_WINDOW, spool_rows(spool) + 1);
    ck_assert_int_eq(spool_dropped(spool), 1);
    int64_t rows = spool_rows(spool);
    OWNED(Json, json_free) *row = json_make_object();
    json_put_text(row, "name", "overlap");
    json_put_text(row, "reason",
                  "a reason that is longer than what is left of the page of this disk, so that it cannot be "
                  "kept there");
    ASSERT_FAILS(spool_append(spool, TELEMETRY_CHECK, row, &error), &error, ERROR_IO, "spool");
    ck_assert_int_eq(check_rows(), rows);   // no half frame is left
    spool_close(spool);
    umount(home);
}
END_TEST

typedef struct NameRow {
    const char *run, *version, *words;
    ErrorKind kind;
} NameRow;

static const NameRow names[] = {
    {"../../../etc/passwd", version, "run id", ERROR_USAGE},
    {"01936F5E-0000-7000-8000-000000000001", version, "run id", ERROR_USAGE},
    {"01936f5e-0000-7000-8000-00000000000", version, "run id", ERROR_USAGE},
    {"", version, "run id", ERROR_USAGE},
    {run, "'; drop table fedgate.run; --", "version", ERROR_DATA},
    {run, "", "version", ERROR_DATA},
    {run,
     "a-name-that-has-more-than-ninety-five-characters-and-so-is-none-of-ours-"
     "0123456789012345678901234567890",
     "version", ERROR_DATA},
};

START_TEST(names_that_are_none_are_refused_and_nothing_is_made)
{
    Error error = ERROR_INIT;
    ASSERT_FAILS(spool_open(home, names[_i].run, names[_i].version, 10, &error) != NULL, &error,
                 names[_i].kind, names[_i].words);
    ck_assert(!file_exists(support_path(home, "spool")));
}
END_TEST

START_TEST(a_file_of_another_kind_is_not_touched)
{
    Error error = ERROR_INIT;
    ASSERT_OK(file_make_directory(support_path(home, "spool"), 0755, &error), &error);
    support_write(spool_file(), "this is somebody's text and no spool\n");
    ASSERT_FAILS(spool_open(home, run, version, 10, &error) != NULL, &error, ERROR_DATA, "is not a spool");
    ck_assert_int_eq(size_of(spool_file()), 37);
}
END_TEST

START_TEST(a_row_over_the_limit_is_refused_and_the_next_one_is_kept)
{
    Error error = ERROR_INIT;
    Spool *spool = open_spool(10);
    char *huge = malloc(SPOOL_PAYLOAD_MAXIMUM + 2);
    memset(huge, 'x', SPOOL_PAYLOAD_MAXIMUM + 1);
    huge[SPOOL_PAYLOAD_MAXIMUM + 1] = '\0';
    OWNED(Json, json_free) *row = json_make_object();
    json_put_text(row, "reason", huge);
    free(huge);
    ASSERT_FAILS(spool_append(spool, TELEMETRY_CHECK, row, &error), &error, ERROR_DATA, "over the limit");
    append(spool, TELEMETRY_CHECK, 1);
    spool_close(spool);
    ck_assert_int_eq(check_rows(), 1);
}
END_TEST

START_TEST(a_spool_cut_behind_the_writer_is_noticed)
{
    Error error = ERROR_INIT;
    Spool *spool = open_spool(10);
    append(spool, TELEMETRY_CHECK, 1);
    ck_assert_int_eq(truncate(spool_file(), SPOOL_HEADER_BYTES), 0);
    OWNED(Json, json_free) *row = json_make_object();
    ASSERT_FAILS(spool_append(spool, TELEMETRY_CHECK, row, &error), &error, ERROR_DATA, "were written");
    spool_close(spool);
}
END_TEST

// -- COPY lines

static const KindColumns columns = {.count = 8,
                                    .column = {{"run", COLUMN_RUN, false, false},
                                               {"seq", COLUMN_SEQ, false, true},
                                               {"version", COLUMN_VERSION, false, false},
                                               {"name", COLUMN_VALUE, false, false},
                                               {"value", COLUMN_VALUE, false, false},
                                               {"n", COLUMN_VALUE, false, true},
                                               {"shapes", COLUMN_VALUE, true, false},
                                               {"rest", COLUMN_REST, true, false}}};

typedef struct LineRow {
    const char *payload, *line;   // line without run, seq and version; NULL: refused
} LineRow;

static const LineRow lines[] = {
    {"{}", "\\N\t\\N\t\\N\t\\N\t\\N"},
    {"{\"name\":\"a\",\"value\":0.5,\"n\":3}", "a\t0.5\t3\t\\N\t\\N"},
    {"{\"n\":3.0,\"value\":3.0}", "\\N\t3.0\t3\t\\N\t\\N"},
    {"{\"value\":\"nan\"}", "\\N\tnan\t\\N\t\\N\t\\N"},
    {"{\"value\":\"-inf\",\"name\":null}", "\\N\t-inf\t\\N\t\\N\t\\N"},
    {"{\"name\":\"tab\\tnewline\\nquote\\\"slash\\\\ \\u0001\"}",
     "tab\\tnewline\\nquote\"slash\\\\ \001\t\\N\t\\N\t\\N\t\\N"},
    {"{\"name\":\"\\\\N\"}", "\\\\N\t\\N\t\\N\t\\N\t\\N"},
    {"{\"name\":\"\\u00e9\\ud83d\\ude00\\ud800\\u0000\"}",
     "\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbd\xef\xbf\xbd\t\\N\t\\N\t\\N\t\\N"},
    {"{\"shapes\":{\"a\":[1,\"}\\\"]\"]},\"n\":1}", "\\N\t\\N\t1\t{\"a\":[1,\"}\\\\\"]\"]}\t\\N"},
    {"{\"shapes\":\"text\"}", "\\N\t\\N\t\\N\t\"text\"\t\\N"},
    {"{\"more\":{\"x\":1},\"n\":2,\"b\":true}", "\\N\t\\N\t2\t\\N\t{\"more\":{\"x\":1},\"b\":true}"},
    {"{\"run\":\"other\",\"seq\":9,\"version\":\"other\"}", "\\N\t\\N\t\\N\t\\N\t\\N"},
    {"{\"name\":\"a\"", NULL},
    {"[1]", NULL},
    {"{\"name\"}", NULL},
    {"{\"name\":}", NULL},
    {"{\"name\":\"a}", NULL},
    {"{\"name\":[1}", NULL},
};

START_TEST(a_payload_becomes_one_line_of_copy_data)
{
    Error error = ERROR_INIT;
    SpoolFrame frame = {.seq = 7,
                        .version = version,
                        .payload = lines[_i].payload,
                        .payload_length = strlen(lines[_i].payload)};
    SCOPED_TEXT rest;
    SCOPED_TEXT line;
    SCOPED_TEXT expected;
    text_init(&rest, 1000);
    text_init(&line, 1000);
    text_init(&expected, 1000);
    if (lines[_i].line == NULL) {
        ASSERT_FAILS(payload_add_line(&columns, run, &frame, &rest, &line, &error), &error, ERROR_DATA,
                     "payload of row 7");
        return;
    }
    ASSERT_OK(payload_add_line(&columns, run, &frame, &rest, &line, &error), &error);
    text_add_format(&expected, "%s\t7\t%s\t%s\n", run, version, lines[_i].line);
    ck_assert_str_eq(text_string(&line), text_string(&expected));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("telemetry_spool");
    TCase *frames = tcase_create("frames");
    tcase_add_checked_fixture(frames, set_up, tear_down);
    tcase_add_test(frames, rows_are_numbered_from_one_and_a_spool_opened_again_goes_on);
    tcase_add_test(frames, a_tail_torn_at_any_byte_of_the_last_frame_is_cut_and_counted);
    tcase_add_test(frames, a_flipped_bit_ends_the_spool_before_its_frame);
    tcase_add_loop_test(frames, bytes_that_are_no_frame_are_cut, 0, sizeof(tails) / sizeof(tails[0]));
    tcase_add_test(frames, a_spool_killed_before_its_header_was_whole_begins_anew);
    tcase_add_test(frames, thinning_drops_step_windows_only_and_remembers_how_many);
    tcase_add_test(frames, a_forked_child_goes_on_with_the_spool_and_then_the_parent);
    tcase_add_test(frames, two_processes_appending_at_once_leave_no_gap);
    tcase_add_test(frames, on_a_full_disk_step_windows_are_dropped_and_gate_rows_fail);
    tcase_add_loop_test(frames, names_that_are_none_are_refused_and_nothing_is_made, 0,
                        sizeof(names) / sizeof(names[0]));
    tcase_add_test(frames, a_file_of_another_kind_is_not_touched);
    tcase_add_test(frames, a_row_over_the_limit_is_refused_and_the_next_one_is_kept);
    tcase_add_test(frames, a_spool_cut_behind_the_writer_is_noticed);
    suite_add_tcase(s, frames);
    TCase *copy = tcase_create("copy");
    tcase_add_loop_test(copy, a_payload_becomes_one_line_of_copy_data, 0, sizeof(lines) / sizeof(lines[0]));
    suite_add_tcase(s, copy);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int bad = srunner_ntests_failed(runner);
    srunner_free(runner);
    return bad != 0;
}
