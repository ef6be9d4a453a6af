// check_telemetry - does the database hold every row of the run?
//
// Rows that are not acknowledged are not_measured, never a fail: the candidate may be good, and the same slot
// goes on from the bundle step when the database is back.
#include "gate_internal.h"

void check_telemetry(const Json *evidence, const Config *policy, Finding *ret)
{
    if (!config_bool(policy, "telemetry.required")) {
        finding_set(ret, OUTCOME_NOT_APPLICABLE, NO_FIGURE, "telemetry.required is false");
        return;
    }
    Section telemetry;
    int64_t rows = 0;
    int64_t acknowledged = 0;
    int64_t dropped = 0;
    if (!section_open(evidence, "telemetry", NULL, ret, &telemetry)) {
        return;
    }
    const char *reason = json_text_or(json_get(telemetry.at, "reason"), "");
    if (!section_has(&telemetry, "acknowledged") && reason[0] != '\0') {
        finding_set(ret, OUTCOME_NOT_MEASURED, NO_FIGURE, "no row is acknowledged: %.200s", reason);
        return;
    }
    if (!section_integer(&telemetry, "rows", &rows) ||
        !section_integer(&telemetry, "acknowledged", &acknowledged) ||
        (section_has(&telemetry, "dropped") && !section_count(&telemetry, "dropped", &dropped))) {
        return;
    }
    Figure figure = {(double)acknowledged, (double)rows, "rows", rows};
    if (rows < 0 || acknowledged < 0 || acknowledged > rows) {
        finding_set(ret, OUTCOME_ERROR, figure, "%lld of %lld rows acknowledged", (long long)acknowledged,
                    (long long)rows);
    } else if (rows == 0 || acknowledged < rows) {
        finding_set(ret, OUTCOME_NOT_MEASURED, figure, "%lld of %lld rows acknowledged%s%.120s",
                    (long long)acknowledged, (long long)rows, reason[0] == '\0' ? "" : ": ", reason);
    } else if (dropped > 0) {   // acknowledged is then all of what was left
        finding_set(ret, OUTCOME_NOT_MEASURED, (Figure){(double)dropped, 0, "rows", rows},
                    "%lld rows never reached the spool", (long long)dropped);
    } else {
        finding_set(ret, OUTCOME_PASS, figure, "all %lld rows acknowledged", (long long)rows);
    }
}
