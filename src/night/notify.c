// notify - step 12: verdict files, the slot's entry, the last telemetry rows, notices and metrics. Nothing
// here changes a verdict.
#include "night_internal.h"

#include <fedgate/report.h>
#include <string.h>

static bool write_verdict(Night *night, Error *error)
{
    SCOPED_TEXT text;
    text_init(&text, 100000);
    char path[FILE_PATH_SIZE], last[FILE_PATH_SIZE];
    report_verdict_text(night->verdict, &text);
    if (!text_ok(&text, error) || !night_save(night, "verdict.json", night->verdict, error) ||
        !night_file(night, "verdict.txt", path, error) ||
        !file_write_atomic(path, text_string(&text), text.length, 0640, error))
        return false;
    OWNED(Json, json_free) *record = night_run_record(night);
    return night_save(night, "run.json", record, error) &&
           file_join(last, night->options->home, "last-verdict.json", error) &&
           json_write_file(night->verdict, JSON_INDENTED, last, error);
}

// The slot is judged after 0, 10 and 12, and after 11 unless only telemetry was missing; --no-promote leaves
// it open.
static bool is_judged(const Night *night)
{
    switch (night->outcome) {
    case NIGHT_PROMOTED:
    case NIGHT_REFUSED:
    case NIGHT_REVERTED:
        return true;
    case NIGHT_INCONCLUSIVE:
        return strcmp(night->decided_by, "telemetry") != 0;
    case NIGHT_PASSED:
    case NIGHT_INCONSISTENT:
    case NIGHT_FAILED:
        break;
    }
    return false;
}

// A night that broke off before it began the slot leaves the end of an earlier one: judged stays judged.
static bool close_slot(Night *night, bool judged, Error *error)
{
    Error unreadable = ERROR_INIT;
    OWNED(Json, json_free) *slot = NULL;
    if (!judged && !night->slot_begun &&
        (!registry_slot_read(night->registry, night->slot, &slot, &unreadable) || slot != NULL))
        return true;
    return night_slot_close(night, judged, error);
}

static void remove_scratch(Night *night)
{
    static const char *const scratch[] = {"checkpoints", "candidate", "progress.json"};
    Error ignored = ERROR_INIT;
    char path[FILE_PATH_SIZE];
    for (size_t i = 0; i < sizeof scratch / sizeof scratch[0]; i++) {
        if (night_file(night, scratch[i], path, &ignored) && !file_remove_tree(path, &ignored))
            log_event(night->log, LOG_WARN, "night.clean", ignored.message);
    }
}

// The rows about the end itself, and the copy of the pointer records; what fails here is shipped by the next
// night. Counts that are not known stay -1.
static void ship_the_end(Night *night, ShipResult *ret_shipped)
{
    Error failed = ERROR_INIT;
    *ret_shipped = (ShipResult){.rows = -1, .acknowledged = -1};
    if (night->spool == NULL)
        return;
    if (!night_spool_verdict(night, &failed) || !spool_sync(night->spool, &failed)) {
        log_event(night->log, LOG_WARN, "telemetry.spool", failed.message);
        return;
    }
    ret_shipped->rows = spool_rows(night->spool);
    if (night->telemetry == NULL)
        return;
    ShipResult shipped = {0};
    if (!telemetry_ship(night->telemetry, night->options->home, night->run, &shipped, &failed)) {
        log_event(night->log, LOG_WARN, "telemetry.ship", failed.message);
        return;
    }
    *ret_shipped = shipped;
    if (!night_mirror(night, &failed))
        log_event(night->log, LOG_WARN, "telemetry.ship", failed.message);
}

StepEnd night_step_notify(Night *night, Error *error)
{
    night->ended_wall_ns = clock_wall_ns(night->clock);
    night->verdict = night_verdict(night);
    bool judged = is_judged(night);
    bool written = write_verdict(night, error) && close_slot(night, judged, error);
    ShipResult shipped = {.rows = -1, .acknowledged = -1};
    if (written)
        ship_the_end(night, &shipped);
    if (written && judged)
        remove_scratch(night);
    // People hear of it also when nothing could be written; that a notice waits is added to what was.
    Error ignored = ERROR_INIT;
    if (night_tell(night, &shipped) > 0 && written && !write_verdict(night, &ignored))
        log_event(night->log, LOG_WARN, "night.notify", ignored.message);
    if (!written)
        return STEP_FAILED;
    SCOPED_TEXT sentence;
    text_init(&sentence, sizeof night->reason);
    report_verdict_sentence(night->verdict, &sentence);
    if (!sentence.failed)
        night_say(night, text_string(&sentence));
    log_event(night->log, LOG_INFO, "night.end", night_outcome_name(night->outcome),
              LOG_FIELD_INTEGER("exit", night->exit_code), LOG_FIELD_TEXT("reason", night->reason));
    return STEP_GO_ON;
}
