// cmd_plan - `fedgate plan`: the arithmetic of a night with its substitutions; 10 when it does not fit, or
// cannot end before the deadline.
#include "cli.h"
#include <fedgate/night.h>
#include <fedgate/plan.h>

enum { EXIT_REFUSED = 10 };

bool cmd_plan(const Invocation *call, int *ret_exit, Error *error)
{
    OWNED(Config, config_free) *config = call_config(call, error);
    if (!config)
        return false;
    NightPlan plan;
    if (!night_plan(config, clock_real(), &plan, error))
        return false;
    if (call->json) {
        OWNED(Json, json_free) *object = plan_to_json(&plan);
        output_json(object);
    } else {
        SCOPED_TEXT text;
        text_init(&text, 1u << 20);
        plan_print(&plan, config, &text);
        output_text(&text);
    }
    double end_ns = (double)clock_wall_ns(clock_real()) + plan.forecast_seconds * 1e9;
    *ret_exit = plan.memory.fits && end_ns <= (double)plan.deadline_wall_ns ? 0 : EXIT_REFUSED;
    return true;
}
