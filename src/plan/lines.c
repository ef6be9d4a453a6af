// lines - a plan as lines, each the result of a formula over terms: what two plans are compared by.
#include "plan_internal.h"

#include <fedgate/clock.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static PlanLine *add_line(PlanLines *lines, const char *name, const char *unit, double value,
                          const char *formula)
{
    if (lines->count == PLAN_LINES)
        BUG("more than %d lines in a plan, at '%s'", PLAN_LINES, name);
    PlanLine *line = &lines->at[lines->count++];
    *line = (PlanLine){.unit = unit, .value = value, .formula = formula};
    if (!text_copy(line->name, sizeof line->name, name))
        BUG("line '%s' has too long a name", name);
    return line;
}

static void add_term(PlanLine *line, const char *name, const char *figure)
{
    if (line->term_count == PLAN_TERMS)
        BUG("more than %d terms in line '%s'", PLAN_TERMS, line->name);
    PlanTerm *term = &line->terms[line->term_count++];
    (void)snprintf(term->name, sizeof term->name, "%s", name);
    (void)snprintf(term->figure, sizeof term->figure, "%s", figure);
}

const PlanLine *plan_find_line(const PlanLines *lines, const char *name)
{
    for (size_t i = 0; i < lines->count; i++)
        if (text_equal(lines->at[i].name, name))
            return &lines->at[i];
    return NULL;
}

// A term that is a line itself, by its figure.
static void add_line_term(const PlanLines *lines, PlanLine *line, const char *name)
{
    const PlanLine *other = plan_find_line(lines, name);
    if (!other)
        BUG("line '%s' follows from '%s', which comes later", line->name, name);
    char figure[FIGURE_SIZE];
    (void)snprintf(figure, sizeof figure, "%.*s", FIGURE_SIZE - 1, other->figure);
    add_term(line, name, figure);
}

static PlanLine *bytes_line(PlanLines *lines, const char *name, int64_t bytes, const char *formula)
{
    PlanLine *line = add_line(lines, name, "bytes", (double)bytes, formula);
    char figure[FIGURE_SIZE];
    plan_exact_bytes(figure, bytes);
    (void)snprintf(line->figure, sizeof line->figure, "%s", figure);
    return line;
}

static PlanLine *count_line(PlanLines *lines, const char *name, int64_t count, const char *unit,
                            const char *formula)
{
    PlanLine *line = add_line(lines, name, unit, (double)count, formula);
    char figure[32];
    text_from_count(figure, count);
    (void)snprintf(line->figure, sizeof line->figure, "%s", figure);
    return line;
}

// Unknown, never 0, where the value is not known.
static PlanLine *real_line(PlanLines *lines, const char *name, double value, const char *unit,
                           const char *formula)
{
    PlanLine *line = add_line(lines, name, unit, value > 0 ? value : (double)NAN, formula);
    char figure[FIGURE_SIZE];
    if (!(value > 0))
        (void)snprintf(figure, sizeof figure, "unknown");
    else if (unit[0] && strchr(unit, '/') && !text_equal(unit, "FLOP/byte"))
        plan_rate(figure, value, text_equal(unit, "bytes/s") ? "B/s" : unit);
    else
        (void)snprintf(figure, sizeof figure, "%.9g", value);
    (void)snprintf(line->figure, sizeof line->figure, "%s", figure);
    return line;
}

static PlanLine *text_line(PlanLines *lines, const char *name, const char *text, const char *formula)
{
    PlanLine *line = add_line(lines, name, "", (double)NAN, formula);
    (void)snprintf(line->figure, sizeof line->figure, "%s", text);
    return line;
}

#define TERMS(lines, line, ...) add_line_terms(lines, line, (const char *const[]){__VA_ARGS__, NULL})
static void add_line_terms(const PlanLines *lines, PlanLine *line, const char *const *names)
{
    for (size_t i = 0; names[i]; i++)
        add_line_term(lines, line, names[i]);
}

// -- memory

static void add_accounts(const MemoryPlan *memory, PlanLines *lines)
{
    for (size_t i = 0; i < memory->account_count; i++) {
        const PlanAccount *account = &memory->accounts[i];
        char name[LINE_SIZE], count[32], each[FIGURE_SIZE];
        (void)snprintf(name, sizeof name, "%s%s", account->name,
                       account->per_sample && account->ledger ? " a sample" : "");
        PlanLine *line = bytes_line(lines, name, account->bytes, account->count == 1 ? "" : "%1 x %2");
        text_from_count(count, account->count);
        plan_exact_bytes(each, account->each);
        if (account->count > 1) {
            add_term(line, account->of, count);
            add_term(line, "bytes of each", each);
        }
    }
}

static void add_sum(const MemoryPlan *memory, PlanLines *lines, const char *name, bool per_sample)
{
    PlanLine *line =
        bytes_line(lines, name, per_sample ? memory->per_sample_bytes : memory->state_bytes, "sum");
    for (size_t i = 0; i < memory->account_count; i++) {
        char figure[FIGURE_SIZE];
        plan_exact_bytes(figure, memory->accounts[i].bytes);
        if (memory->accounts[i].per_sample == per_sample && !memory->accounts[i].pinned)
            add_term(line, memory->accounts[i].name, figure);
    }
}

static void add_what_fits(const MemoryPlan *memory, PlanLines *lines)
{
    TERMS(lines, bytes_line(lines, "available", memory->available_bytes, "%1 - %2"), "budget", "state");
    TERMS(lines,
          count_line(lines, "largest microbatch", memory->largest_microbatch, "samples", "floor(%1 / %2)"),
          "available", "sample");
    (void)count_line(lines, "batch", memory->batch, "samples", "");
    PlanLine *chosen = count_line(lines, "microbatch", memory->microbatch, "samples",
                                  memory->asked ? "" : "largest divisor of %1 that is at most %2");
    if (!memory->asked)
        TERMS(lines, chosen, "batch", "largest microbatch");
    TERMS(lines, count_line(lines, "accumulation", memory->accumulation, "steps", "%1 / %2"), "batch",
          "microbatch");
    TERMS(
        lines,
        bytes_line(lines, "activations", plan_times(memory->microbatch, memory->per_sample_bytes), "%1 x %2"),
        "microbatch", "sample");
    TERMS(lines, bytes_line(lines, "peak", memory->planned_peak_bytes, "%1 + %2"), "state", "activations");
    int64_t left;
    if (__builtin_sub_overflow(memory->budget_bytes, memory->planned_peak_bytes, &left))
        left = INT64_MIN;
    TERMS(lines, bytes_line(lines, "left", left, "%1 - %2"), "budget", "peak");
    char answer[sizeof memory->refusal + 16];
    (void)snprintf(answer, sizeof answer, "%s%s", memory->fits ? "fits" : "refused: ", memory->refusal);
    TERMS(lines, text_line(lines, "memory", answer, ""), "peak", "budget");
}

static void add_memory(const NightPlan *plan, PlanLines *lines)
{
    const MemoryPlan *memory = &plan->memory;
    char reserve[32];
    text_from_double(reserve, memory->reserve_ratio);
    (void)bytes_line(lines, "device", memory->device_bytes, "");
    text_line(lines, "reserve", reserve, "")->value = memory->reserve_ratio;
    TERMS(lines, bytes_line(lines, "budget", memory->budget_bytes, "%1 x (1 - %2)"), "device", "reserve");
    (void)text_line(lines, "precision", plan->precision, "");
    if (memory->element_bytes)
        TERMS(lines, bytes_line(lines, "element of a pass", memory->element_bytes, "bytes of %1"),
              "precision");
    add_accounts(memory, lines);
    add_sum(memory, lines, "state", false);
    add_sum(memory, lines, "sample", true);
    add_what_fits(memory, lines);
}

// -- roofline and window

static void add_roofline(const NightPlan *plan, PlanLines *lines)
{
    const Roofline *roofline = &plan->roofline;
    char rows[32], in[32], out[32], element[FIGURE_SIZE];
    TERMS(lines, real_line(lines, "P_peak", roofline->peak_flops, "FLOP/s", ""), "precision");
    (void)real_line(lines, "B_mem", roofline->bandwidth, "bytes/s", "");
    TERMS(lines, real_line(lines, "ridge", roofline->ridge, "FLOP/byte", "%1 / %2"), "P_peak", "B_mem");
    bool layer = roofline->rows > 0;
    text_from_count(rows, roofline->rows);
    text_from_count(in, roofline->in);
    text_from_count(out, roofline->out);
    plan_exact_bytes(element, roofline->element_bytes);
    const char *const names[] = {"rows", "in", "out", "bytes of each"}, *const figures[] = {rows, in, out,
                                                                                            element};
    PlanLine *flop =
        count_line(lines, "FLOP", (int64_t)roofline->flop, "FLOP", layer ? "2 x %1 x %2 x %3" : "");
    for (size_t i = 0; layer && i < 3; i++)
        add_term(flop, names[i], figures[i]);
    PlanLine *bytes = count_line(lines, "bytes moved", (int64_t)roofline->bytes, "bytes",
                                 layer ? "(%1 x %2 + %2 x %3 + %1 x %3) x %4" : "");
    for (size_t i = 0; layer && i < 4; i++)
        add_term(bytes, names[i], figures[i]);
    if (!layer) {
        add_line_term(lines, flop, "batch");
        add_line_term(lines, bytes, "batch");
        if (plan_find_line(lines, "element of a pass"))
            add_line_term(lines, bytes, "element of a pass");
    }
    TERMS(lines, real_line(lines, "I", roofline->intensity, "FLOP/byte", "%1 / %2"), "FLOP", "bytes moved");
    bool slope = roofline->bandwidth > 0;
    PlanLine *roof =
        real_line(lines, "attainable", roofline->attainable, "FLOP/s", slope ? "min(%1, %2 x %3)" : "%1");
    TERMS(lines, roof, "P_peak", "I", "B_mem");
    PlanLine *bound = text_line(lines, "bound",
                                !(roofline->peak_flops > 0) ? "unknown"
                                : roofline->memory_bound    ? "memory-bound"
                                                            : "compute-bound",
                                "");
    TERMS(lines, bound, "I", "ridge");
}

static void add_window(const NightPlan *plan, const Config *config, PlanLines *lines)
{
    char zone[PLAN_ZONE_SIZE], deadline[CLOCK_TIME_SIZE];
    if (plan->steps) {
        (void)count_line(lines, "steps", plan->steps, "steps", "");
        TERMS(lines, count_line(lines, "FLOP of a step", (int64_t)plan->step_flop, "FLOP", ""), "batch");
    }
    if (plan->forecast_seconds > 0 && plan->has_roofline) {
        PlanLine *forecast = real_line(lines, "least seconds", plan->forecast_seconds, "s", "%1 x %2 / %3");
        TERMS(lines, forecast, "steps", "FLOP of a step", "P_peak");
    }
    plan_zone(config, zone);
    clock_format(plan->deadline_wall_ns, zone, deadline);
    if (plan->deadline_wall_ns)
        (void)text_line(lines, "deadline", deadline, "");
}

void plan_to_lines(const NightPlan *plan, const Config *config, PlanLines *ret_lines)
{
    ret_lines->count = 0;
    add_memory(plan, ret_lines);
    if (plan->has_roofline)
        add_roofline(plan, ret_lines);
    add_window(plan, config, ret_lines);
}

bool plan_write_formula(const PlanLine *line, bool figures, Text *out)
{
    if (!strchr(line->formula, '%'))
        return false;
    for (const char *at = line->formula; *at; at++) {
        if (*at != '%') {
            text_add_char(out, *at);
            continue;
        }
        size_t term = (size_t)(*++at - '1');
        if (term >= line->term_count)
            BUG("formula '%s' of line '%s' has %zu terms", line->formula, line->name, line->term_count);
        text_add(out, figures ? line->terms[term].figure : line->terms[term].name);
    }
    return true;
}
