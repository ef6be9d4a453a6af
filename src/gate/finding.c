// finding - what a judge says, and the numeric rule: pass only a finite value inside its limit.
#include "gate_internal.h"

#include <fedgate/text.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void finding_set(Finding *ret, Outcome outcome, Figure figure, const char *format, ...)
{
    *ret = (Finding){outcome, figure.value, figure.limit, figure.unit, figure.n, ""};
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(ret->reason, sizeof ret->reason, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof ret->reason) {
        memcpy(ret->reason + sizeof ret->reason - 4, "...", 4);
    }
}

void figure_text(double value, const char *unit, char ret_text[static 48])
{
    bool ratio = text_equal(unit, "ratio");
    bool whole = fabs(value) >= 1000 && fabs(value) < 1e15 && !ratio;
    if (ratio && isfinite(value)) {
        snprintf(ret_text, 48, "%.2f %%", value * 100);
    } else if (whole) {
        char digits[32];
        text_from_count(digits, (int64_t)value);
        snprintf(ret_text, 48, "%s%s%s", digits, unit[0] == '\0' ? "" : " ", unit);
    } else {
        snprintf(ret_text, 48, "%.5g%s%s", value, unit[0] == '\0' ? "" : " ", unit);
    }
}

static bool require(Finding *ret, bool holds, Figure figure, const char *what, const char *relation)
{
    if (!holds) {
        char value[48];
        char limit[48];
        figure_text(figure.value, figure.unit, value);
        figure_text(figure.limit, figure.unit, limit);
        finding_set(ret, OUTCOME_FAIL, figure, "%s is %s, %s %s", what, value, relation, limit);
    }
    return holds;
}

bool require_at_least(Finding *ret, Figure figure, const char *what)
{
    return require(ret, isfinite(figure.value) && figure.value >= figure.limit, figure, what,
                   "must be at least");
}

bool require_at_most(Finding *ret, Figure figure, const char *what)
{
    return require(ret, isfinite(figure.value) && figure.value <= figure.limit, figure, what,
                   "may be at most");
}
