// report_live - the status line in every state, what is live, history, progress, failure modes.
#include "support.h"
#include <fedgate/report.h>
#include <math.h>
#include <string.h>

static const int64_t hour_ns = INT64_C(3600) * 1000000000;
static const int64_t now_ns = INT64_C(1796000000) * 1000000000;

static Json *make_verdict(const char *outcome, int64_t ended_ns)
{
    Json *verdict = json_make_object();
    char ended[CLOCK_TIME_SIZE];
    clock_format(ended_ns, "", ended);
    json_put_text(verdict, "model", "adult");
    json_put_text(verdict, "slot", "2026-11-30");
    json_put_text(verdict, "outcome", outcome);
    json_put_text(verdict, "reason", "because");
    json_put_text(verdict, "ended", ended);
    return verdict;
}

static const struct {
    const char *outcome;
    int64_t age_hours;
    bool held;
    int status;
    const char *words;
} status_rows[] = {
    {"promoted", 1, false, 0, "FEDGATE OK - promoted"},
    {"passed", 1, false, 0, "FEDGATE OK - passed"},
    {"promoted", 1, true, 1, "FEDGATE WARNING - on hold by root (rest)"},
    {"refused", 1, false, 1, "FEDGATE WARNING - refused"},
    {"inconclusive", 25, false, 1, "FEDGATE WARNING - inconclusive"},
    {"reverted", 1, false, 2, "FEDGATE CRITICAL - reverted"},
    {"reverted", 1, true, 2, "FEDGATE CRITICAL - reverted"},
    {"failed", 1, false, 2, "FEDGATE CRITICAL - failed"},
    {"inconsistent", 1, false, 2, "FEDGATE CRITICAL - inconsistent"},
    {"promoted", 27, false, 2, "FEDGATE CRITICAL - last verdict is 27 h old, limit 26 h"},
    {"refused", 27, true, 2, "FEDGATE CRITICAL - last verdict is 27 h old"},
    {"promoted", -2, false, 3, "FEDGATE UNKNOWN - last verdict ended in the future"},
    {"splendid", 1, false, 3, "FEDGATE UNKNOWN - splendid"},
};
enum { STATUS_ROWS = sizeof status_rows / sizeof status_rows[0] };

START_TEST(status_follows_outcome_age_and_hold)
{
    HoldState hold = {.held = status_rows[_i].held, .reason = "rest", .who = "root"};
    OWNED(Json, json_free) *verdict =
        make_verdict(status_rows[_i].outcome, now_ns - status_rows[_i].age_hours * hour_ns);
    SCOPED_TEXT line;
    text_init(&line, 8192);
    ck_assert_int_eq(report_status(verdict, &hold, NULL, now_ns, 26 * hour_ns, &line),
                     status_rows[_i].status);
    ck_assert_msg(text_starts_with(text_string(&line), status_rows[_i].words), "%s", text_string(&line));
    ck_assert_ptr_eq(strchr(text_string(&line), '\n'), text_string(&line) + line.length - 1);
}
END_TEST

START_TEST(no_verdict_is_critical_and_an_unreadable_one_unknown)
{
    SCOPED_TEXT line;
    text_init(&line, 8192);
    ck_assert_int_eq(report_status(NULL, NULL, NULL, now_ns, hour_ns, &line), 2);
    OWNED(Json, json_free) *verdict = make_verdict("promoted", now_ns);
    json_put_text(verdict, "ended", "yesterday");
    text_clear(&line);
    ck_assert_int_eq(report_status(verdict, NULL, NULL, now_ns, hour_ns, &line), 3);
}
END_TEST

START_TEST(a_pointer_moved_since_a_good_verdict_is_never_ok)
{
    SCOPED_TEXT line;
    text_init(&line, 8192);
    OWNED(Json, json_free) *verdict = make_verdict("promoted", now_ns);
    ck_assert_int_eq(report_status(verdict, NULL, "rollback #3 by root: bad", now_ns, hour_ns, &line), 1);
    ck_assert_ptr_nonnull(strstr(text_string(&line), "moved since the last verdict: rollback #3"));
}
END_TEST

static PointerRecord make_record(int64_t seq, MoveKind kind, const char *from, const char *to)
{
    PointerRecord record = {.seq = seq,
                            .previous = seq - 1,
                            .kind = kind,
                            .to_kind = RELEASE_MODEL,
                            .actor_uid = 7,
                            .wall_ns = now_ns + seq * hour_ns};
    ck_assert(text_copy(record.from, sizeof record.from, from));
    ck_assert(text_copy(record.to, sizeof record.to, to));
    ck_assert(text_copy(record.actor, sizeof record.actor, "night\033er"));
    ck_assert(text_copy(record.reason, sizeof record.reason, "all checks pass"));
    return record;
}

START_TEST(current_names_version_kind_time_and_hold)
{
    PointerRecord record = make_record(3, MOVE_PROMOTE, "m-0000000000000001", "m-0000000000000002");
    HoldState hold = {.held = true, .reason = "look first", .who = "ada", .since_wall_ns = now_ns};
    SCOPED_TEXT text;
    text_init(&text, 8192);
    report_current_text(&record, &hold, &text);
    ck_assert_ptr_nonnull(strstr(text_string(&text), "Live now:   m-0000000000000002 (release) since 2026-"));
    ck_assert_ptr_nonnull(strstr(text_string(&text), "#3 by night\\x1ber: all checks pass"));
    ck_assert_ptr_nonnull(strstr(text_string(&text), "On hold:    by ada"));
    OWNED(Json, json_free) *object = report_current_json(&record, &hold);
    ck_assert_str_eq(json_text_or(json_get(object, "schema"), ""), "fedgate.current/1");
    ck_assert_str_eq(json_text_or(json_get(object, "version"), ""), "m-0000000000000002");
    ck_assert_int_eq(json_integer_or(json_get(object, "seq"), 0), 3);
    ck_assert(json_bool_or(json_find(object, "hold.held"), false));
}
END_TEST

START_TEST(nothing_live_is_said_and_is_null_in_json)
{
    SCOPED_TEXT text;
    text_init(&text, 8192);
    report_current_text(NULL, NULL, &text);
    ck_assert_str_eq(text_string(&text), "Live now:   nothing yet\n");
    OWNED(Json, json_free) *object = report_current_json(NULL, NULL);
    ck_assert(json_is_null(json_get(object, "version")));
    ck_assert(!json_bool_or(json_find(object, "hold.held"), true));
}
END_TEST

START_TEST(history_shows_the_newest_first)
{
    PointerRecord records[] = {make_record(1, MOVE_ADOPT, "", "m-0000000000000001"),
                               make_record(2, MOVE_ROLLBACK, "m-0000000000000001", "m-0000000000000002")};
    SCOPED_TEXT text;
    text_init(&text, 8192);
    report_history_text(records, 2, &text);
    const char *out = text_string(&text);
    ck_assert(text_starts_with(out, "#2    rollback  2026-"));
    ck_assert_ptr_nonnull(strstr(out, "#1    adopt"));
    ck_assert_ptr_null(strchr(out, '\033'));
    OWNED(Json, json_free) *object = report_history_json(records, 2);
    ck_assert_uint_eq(json_count(json_get(object, "moves")), 2);
    ck_assert_int_eq(json_integer_or(json_get(json_at(json_get(object, "moves"), 0), "seq"), 0), 2);
    text_clear(&text);
    report_history_text(NULL, 0, &text);
    ck_assert_str_eq(text_string(&text), "no move yet: nothing was ever live\n");
}
END_TEST

START_TEST(progress_is_one_short_line)
{
    OWNED(Json, json_free) *progress = json_make_object();
    json_put_text(progress, "night_step", "train");
    json_put_integer(progress, "night_step_number", 7);
    json_put_integer(progress, "night_steps", 12);
    json_put_integer(progress, "step", 1200);
    json_put_integer(progress, "planned_steps", 4800);
    json_put_number(progress, "train_loss", 0.31234);
    json_put_number(progress, "validation_loss", NAN);
    json_put_number(progress, "wait_ratio", 0.0123);
    json_put_text(progress, "forecast_end", "2026-11-30T03:12:01.000+01:00");
    json_put_text(progress, "deadline", "2026-11-30T06:00:00.000+01:00");
    SCOPED_TEXT line;
    text_init(&line, 8192);
    report_progress(progress, &line);
    ck_assert_str_eq(text_string(&line),
                     "[7/12] train  step 1200/4800  loss 0.3123  wait 1.2%  end 03:12  by 06:00");
    json_put_text(progress, "outcome", "promoted");
    text_clear(&line);
    report_progress(progress, &line);
    ck_assert_str_eq(text_string(&line), "[7/12] promoted  end 03:12  by 06:00");
    OWNED(Json, json_free) *nothing = json_make_object();
    text_clear(&line);
    report_progress(nothing, &line);
    ck_assert_str_eq(text_string(&line), "starting");
}
END_TEST

START_TEST(every_check_names_its_failure_mode)
{
    SCOPED_TEXT text, table;
    text_init(&text, 1u << 20);
    text_init(&table, 1u << 20);
    report_failures_text(&text);
    report_failures_markdown(&table);
    OWNED(Json, json_free) *object = report_failures_json();
    const Json *rows = json_get(object, "failures");
    ck_assert_uint_eq(json_count(rows), gate_check_count);
    for (size_t i = 0; i < gate_check_count; i++) {
        static const char *const keys[] = {"mode", "detector", "owner", "mitigation", "stop", "question"};
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
            ck_assert_msg(strlen(json_text_or(json_get(json_at(rows, i), keys[k]), "")) > 2,
                          "check %s has no %s", gate_checks[i].name, keys[k]);
        ck_assert_ptr_nonnull(strstr(text_string(&text), gate_checks[i].name));
        ck_assert_ptr_nonnull(strstr(text_string(&table), gate_checks[i].name));
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("report_live");
    TCase *t = tcase_create("live");
    tcase_add_loop_test(t, status_follows_outcome_age_and_hold, 0, STATUS_ROWS);
    tcase_add_test(t, no_verdict_is_critical_and_an_unreadable_one_unknown);
    tcase_add_test(t, a_pointer_moved_since_a_good_verdict_is_never_ok);
    tcase_add_test(t, current_names_version_kind_time_and_hold);
    tcase_add_test(t, nothing_live_is_said_and_is_null_in_json);
    tcase_add_test(t, history_shows_the_newest_first);
    tcase_add_test(t, progress_is_one_short_line);
    tcase_add_test(t, every_check_names_its_failure_mode);
    suite_add_tcase(s, t);
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
