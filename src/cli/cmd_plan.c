// cmd_plan - `fedgate plan`: the arithmetic of a night with its substitutions; 10 when it does not fit, or
// cannot end before the deadline. `--against` puts a second plan beside it: which lines move, and why.
//
// Both plans are of one instant, and the exit code is the first one's.
#include "cli.h"
#include <fedgate/night.h>
#include <fedgate/plan.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_REFUSED = 10 };

static bool plan_of(const Config *config, Clock *clock, NightPlan *ret_plan, int *ret_exit, Error *error)
{
    Error absent;
    if (!night_plan(config, clock, ret_plan, &absent, error))
        return false;
    if (absent.kind != ERROR_NONE)   // beside the plan, whose form does not depend on this machine
        fprintf(stderr,
                "fedgate: the device was not asked, what follows from it is declared or assumed: %s\n",
                absent.message);
    double end_ns = (double)clock_wall_ns(clock) + ret_plan->forecast_seconds * 1e9;
    *ret_exit = ret_plan->memory.fits && end_ns <= (double)ret_plan->deadline_wall_ns ? 0 : EXIT_REFUSED;
    return true;
}

// A file, or one option of this configuration changed: "train.precision=bf16". --set holds for both plans.
static Config *config_against(const Invocation *call, const char *against, Error *error)
{
    if (!strchr(against, '=') || file_exists(against)) {
        Config *given = config_load(against, call->sets, call->set_count, environ, error);
        if (!given && !file_exists(against))
            (void)error_hint(error, "Give a configuration file, or one option as KEY=VALUE.");
        return given;
    }
    Invocation changed = *call;
    changed.sets = calloc(call->set_count + 1, sizeof *changed.sets);
    if (!changed.sets) {
        (void)FAIL(error, ERROR_MEMORY, 0, "out of memory for %zu options", call->set_count + 1);
        return NULL;
    }
    for (size_t i = 0; i < call->set_count; i++)
        changed.sets[i] = call->sets[i];
    changed.sets[changed.set_count++] = against;
    Config *config = call_config(&changed, error);
    free(changed.sets);
    return config;
}

static void print_plan(const Invocation *call, const PlanSide *own, const PlanSide *other)
{
    if (call->json) {
        OWNED(Json, json_free) *object = plan_to_json(own->plan);
        if (other)
            json_put(object, "against", plan_against_to_json(own, other));
        output_json(object);
        return;
    }
    SCOPED_TEXT text;
    text_init(&text, 4u << 20);
    if (other)
        plan_print_against(own, other, option_value(call, "all") != NULL, &text);
    else
        plan_print(own->plan, own->config, &text);
    output_text(&text);
}

static bool compare_plans(const Invocation *call, const char *against, const PlanSide *own, Clock *clock,
                          Error *error)
{
    NightPlan plan;
    int exit_code;
    OWNED(Config, config_free) *config = config_against(call, against, error);
    if (!config || !plan_of(config, clock, &plan, &exit_code, error))
        return error_prefix(error, "plan against '%s'", against);
    print_plan(call, own, &(PlanSide){&plan, config, against});
    return true;
}

bool cmd_plan(const Invocation *call, int *ret_exit, Error *error)
{
    const char *against = option_value(call, "against");
    if (option_value(call, "all") && !against)
        return FAIL(error, ERROR_USAGE, 0, "option '--all' needs '--against'");
    OWNED(Config, config_free) *config = call_config(call, error);
    if (!config)
        return false;
    Clock *clock =
        clock_simulated(clock_wall_ns(clock_real()));   // stands still: both plans begin at one instant
    if (!clock)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for a clock");
    NightPlan plan;
    const char *name = config_path(config);
    const PlanSide own = {&plan, config, name[0] ? name : "the defaults"};
    bool done = plan_of(config, clock, &plan, ret_exit, error);
    if (done && against)
        done = compare_plans(call, against, &own, clock, error);
    else if (done)
        print_plan(call, &own, NULL);
    clock_free(clock);
    return done;
}
