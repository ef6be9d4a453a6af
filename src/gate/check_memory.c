// check_memory - did plan and run stay in the budget, does anything grow, is every byte explained?
//
// A leak: live bytes at the same phase of each step grow (memory_causes.c says what that means, and what else
// may grow). A cache that fills in the first steps is warm-up, not a leak. An account that took more than was
// planned for it is named.
#include "memory_internal.h"

#include <fedgate/text.h>

enum { LIVE_WARMUP = 3, LIVE_LEAST = 10, LIVE_WARMUP_SHARE = 10 };
static const double LIVE_COVERS = 0.8;   // of the steps done: the last reading lies no earlier

// The budget of the policy, or of the smaller device that was really there. The evidence must agree with its
// own arithmetic.
static bool read_budget(const Section *memory, const Config *policy, double *ret_budget)
{
    double device = NAN;
    double reserve = NAN;
    double budget = NAN;
    if (!section_number(memory, "device_bytes", &device) || !section_number(memory, "reserve", &reserve) ||
        !section_number(memory, "budget_bytes", &budget)) {
        return false;
    }
    if (!(fabs(device * (1 - reserve) - budget) <= 1)) {
        finding_set(memory->finding, OUTCOME_ERROR, (Figure){budget, device * (1 - reserve), "bytes", 0},
                    "the budget of %.0f bytes is not %.0f x (1 - %g)", budget, device, reserve);
        return false;
    }
    double free_share = 1 - config_real(policy, "memory.reserve");
    *ret_budget = floor((double)config_integer(policy, "device.memory") * free_share);
    double physical = NAN;
    if (section_has(memory, "physical_bytes")) {
        if (!section_number(memory, "physical_bytes", &physical)) {
            return false;
        }
        *ret_budget =
            physical * free_share >= *ret_budget ? *ret_budget : floor(physical * free_share);   // NaN binds
    }
    return true;
}

static bool within_budget(const Section *memory, const char *key, double budget, const char *what,
                          double *ret_peak)
{
    if (!section_number(memory, key, ret_peak)) {
        return false;
    }
    if (*ret_peak <= 0) {   // nothing runs in no memory
        finding_set(memory->finding, OUTCOME_ERROR, NO_FIGURE, "'memory.%s' is %g", key, *ret_peak);
        return false;
    }
    return require_at_most(memory->finding, (Figure){*ret_peak, budget, "bytes", 1}, what);
}

// What the accounts of the device say, one by one.
typedef struct Accounts {
    int64_t count, of_device;
    double explained;   // sum of the peaks of the device
    double planned;   // sum of the planned bytes; 0: the plan was declared as a whole
    double over;   // taken beyond the plan, account by account
    const char *worst, *kept;   // furthest beyond its plan at its peak; at the end
    double worst_peak, worst_planned, kept_bytes;
} Accounts;

// A balance below nothing is a fault of the tool that kept the books.
static bool read_account(const Section *memory, const Json *item, double measured, Accounts *accounts)
{
    Section account;
    const char *name = NULL;
    const char *kind = NULL;
    double peak = NAN;
    if (!section_inside(memory, item, &account) || !section_text(&account, "name", &name) ||
        !section_text(&account, "kind", &kind) || !section_amount(&account, "peak_bytes", &peak)) {
        return false;
    }
    double planned = NAN;
    double live = NAN;
    if (!section_amount(&account, "planned_bytes", &planned) ||
        !section_amount(&account, "live_bytes", &live)) {
        return false;
    }
    bool device = text_equal(kind, "device");
    bool possible = peak >= live && !(device && peak > measured) &&
                    (device || text_equal(kind, "pinned") || text_equal(kind, "host"));
    if (!possible) {
        finding_set(
            memory->finding, OUTCOME_ERROR, (Figure){peak, measured, "bytes", accounts->count},
            "account '%.60s' of kind '%.20s' peaks at %g bytes, %g live, %g planned, the device in all at "
            "%.0f",
            name, kind, peak, live, planned, measured);
        return false;
    }
    if (!device) {
        return true;
    }
    accounts->of_device++;
    accounts->explained += peak;
    accounts->planned += planned;
    accounts->over += fmax(peak - planned, 0);
    if (peak - planned > accounts->worst_peak - accounts->worst_planned) {
        accounts->worst = name;
        accounts->worst_peak = peak;
        accounts->worst_planned = planned;
    }
    if (live - planned > accounts->kept_bytes) {
        accounts->kept = name;
        accounts->kept_bytes = live - planned;
    }
    return true;
}

static bool read_accounts(const Section *memory, double measured, Accounts *ret_accounts)
{
    const Json *items = NULL;
    *ret_accounts = (Accounts){0};
    if (!section_array(memory, "accounts", &items) || !section_distinct(memory, items, "name", "kind")) {
        return false;
    }
    ret_accounts->count = (int64_t)json_count(items);
    for (size_t i = 0; i < json_count(items); i++) {
        if (!read_account(memory, json_at(items, i), measured, ret_accounts)) {
            return false;
        }
    }
    if (ret_accounts->of_device == 0) {
        finding_set(memory->finding, OUTCOME_NOT_MEASURED, NO_FIGURE, "no account of device memory was kept");
        return false;
    }
    return true;
}

// A card has a driver that counts too: what it holds for this process must fit the budget, and what context,
// arena and recordings leave of it is the unexplained rest. The host's own processor has none.
static bool driver_agrees(const Json *evidence, const Section *memory, double budget, double context,
                          double unexplained)
{
    Section driver;
    double own = NAN;
    double arena = NAN;
    double captures = NAN;
    if (text_equal(json_text_or(json_get(evidence, "device_class"), ""), "cpu")) {
        return true;
    }
    if (!section_child(memory, "driver", "memory.driver", &driver) ||
        !section_amount(&driver, "own_bytes", &own) || !section_amount(&driver, "arena_bytes", &arena) ||
        !section_amount(&driver, "captures_bytes", &captures)) {
        return false;
    }
    double rest = own - context - arena - captures;
    if (!(fabs(rest - unexplained) <= 1)) {
        finding_set(memory->finding, OUTCOME_ERROR, (Figure){unexplained, rest, "bytes", 1},
                    "%.0f bytes are said to be unexplained: the driver counts %.0f, of them context %.0f, "
                    "arena %.0f, captures %.0f",
                    unexplained, own, context, arena, captures);
        return false;
    }
    return require_at_most(memory->finding, (Figure){own, budget, "bytes", 1},
                           "memory that the driver counts for this process");
}

// The peaks of the device accounts, the context and the unexplained rest must be able to make up the measured
// peak.
static bool reconciled(const Json *evidence, const Section *memory, const Config *policy, double budget,
                       double measured, Accounts *ret_accounts)
{
    const Json *items = NULL;
    double context = NAN;
    double unexplained = NAN;
    if (!section_array(memory, "accounts", &items) || !section_number(memory, "context_bytes", &context) ||
        !section_number(memory, "unexplained_bytes", &unexplained)) {
        return false;
    }
    Figure rest = {fabs(unexplained), config_real(policy, "memory.unexplained") * budget, "bytes",
                   (int64_t)json_count(items)};
    if (!require_at_most(memory->finding, rest, "memory that no account explains")) {
        return false;
    }
    bool sound = isfinite(context) && context >= 0 && context <= budget;
    if (!sound) {
        finding_set(memory->finding, OUTCOME_ERROR, NO_FIGURE, "'memory.context_bytes' is %g", context);
        return false;
    }
    if (!driver_agrees(evidence, memory, budget, context, unexplained)) {
        return false;
    }
    if (!read_accounts(memory, measured, ret_accounts)) {
        return false;
    }
    double explained = ret_accounts->explained + context + fabs(unexplained);
    if (!(explained >= measured)) {
        finding_set(memory->finding, OUTCOME_ERROR, (Figure){measured, explained, "bytes", rest.n},
                    "the accounts explain at most %.0f bytes of the measured peak of %.0f", explained,
                    measured);
        return false;
    }
    return true;
}

// Bytes beyond their account's plan were not there when the plan was held against the budget: with them the
// planned peak must still fit, and they may not be more than what nobody need explain.
static bool as_planned(const Section *memory, const Config *policy, double budget, double planned,
                       double measured, const Accounts *accounts)
{
    double share = config_real(policy, "memory.unexplained") * budget;
    if (accounts->planned <= 0) {   // the plan was declared as a whole
        return require_at_most(memory->finding,
                               (Figure){measured - planned, share, "bytes", accounts->of_device},
                               "measured peak beyond the planned one");
    }
    bool fits = planned + accounts->over <= budget;
    bool small = accounts->over <= share;
    if (fits && small) {
        return true;
    }
    Figure figure = {fits ? accounts->over : planned + accounts->over, fits ? share : budget, "bytes",
                     accounts->of_device};
    char took[32];
    char sum[32];
    char limit[32];
    char where[64] = "that no plan names";
    text_from_count(took, (int64_t)accounts->worst_peak);
    text_from_count(sum, (int64_t)figure.value);
    text_from_count(limit, (int64_t)figure.limit);
    if (accounts->worst_planned > 0 &&
        !text_print(where, sizeof where, "where %.0f were planned", accounts->worst_planned)) {
        where[0] = '\0';
    }
    finding_set(memory->finding, OUTCOME_FAIL, figure,
                "account '%.32s' took %s bytes %s: %s %s, may be at most %s", accounts->worst, took, where,
                fits ? "bytes beyond their plan are" : "with the planned peak that is", sum, limit);
    return false;
}

// The live bytes can never be more than the peak, nor none after warm-up.
static bool within_peak(const Section *memory, const double *bytes, size_t skipped, size_t count,
                        double measured)
{
    for (size_t i = 0; i < count; i++) {
        if (!(bytes[i] <= measured && (bytes[i] > 0 || i < skipped))) {
            finding_set(memory->finding, OUTCOME_ERROR, (Figure){bytes[i], measured, "bytes", (int64_t)count},
                        "%.0f bytes are live at reading %zu, the peak is %.0f", bytes[i], i, measured);
            return false;
        }
    }
    return true;
}

// A leak that begins after the last reading would never be seen.
static bool covers_run(const Json *evidence, const Section *live, const double *index)
{
    double done = json_number_or(json_find(evidence, "window.done_steps"), NAN);
    double last = index[live->length - 1];
    bool covers = isnan(done) || (last <= done && last >= LIVE_COVERS * done - 1);
    if (!covers) {
        finding_set(live->finding, last <= done ? OUTCOME_NOT_MEASURED : OUTCOME_ERROR,
                    (Figure){last, done, "steps", (int64_t)live->length},
                    "live memory was last read at step %.0f, %.0f were done", last, done);
    }
    return covers;
}

static bool settles(const Json *evidence, const Section *memory, double budget, double measured,
                    const Accounts *accounts)
{
    Section live;
    const double *bytes = NULL;
    const double *index = NULL;
    if (!section_child(memory, "live", "memory.live", &live) || !section_amounts(&live, "bytes", &bytes)) {
        return false;
    }
    size_t skipped =
        live.length / LIVE_WARMUP_SHARE > LIVE_WARMUP ? live.length / LIVE_WARMUP_SHARE : LIVE_WARMUP;
    size_t count = live.length > skipped ? live.length - skipped : 0;
    if (count < LIVE_LEAST) {
        finding_set(memory->finding, OUTCOME_INCONCLUSIVE,
                    (Figure){(double)count, LIVE_LEAST, "steps", (int64_t)count},
                    "live memory was read at %zu steps after warm-up, %d are needed to see growth", count,
                    LIVE_LEAST);
        return false;
    }
    if (!section_series(&live, "index", &index)) {
        return false;
    }
    bytes += skipped;
    Growth growth = memory_growth(bytes, index + skipped, count, budget);
    if (growth.grows) {
        char when[64];
        memory_forecast(&growth, when);
        finding_set(memory->finding, OUTCOME_FAIL, (Figure){growth.bytes, 0, "bytes", (int64_t)count},
                    "live memory grows by %.0f bytes over %zu steps, %.1f a step, %s: %s%.32s%s%s",
                    growth.bytes, count, growth.a_step, memory_growing_part(evidence, growth.bytes),
                    accounts->kept == NULL ? "something is kept" : "account '",
                    accounts->kept == NULL ? "" : accounts->kept,
                    accounts->kept == NULL ? "" : "' keeps what no plan names", when);
    }
    return !growth.grows && section_index(&live) && covers_run(evidence, &live, index) &&
           within_peak(memory, bytes - skipped, skipped, live.length, measured);
}

static bool rehearsed(const Section *memory, double budget)
{
    Section rehearsal;
    bool ok = false;
    double peak = NAN;
    if (!section_child(memory, "rehearsal", "memory.rehearsal", &rehearsal) ||
        !section_bool(&rehearsal, "ok", &ok)) {
        return false;
    }
    if (!ok) {
        const char *why = json_text_or(json_get(memory->at, "refusal"), "");
        finding_set(memory->finding, OUTCOME_FAIL, NO_FIGURE,
                    "the rehearsal of one full cycle did not fit the budget of %.0f bytes%s%.150s", budget,
                    why[0] == '\0' ? "" : ": ", why);
        return false;
    }
    return within_budget(&rehearsal, "peak_bytes", budget, "peak of the rehearsal", &peak);
}

// The plan's own refusal, which says what to change: such a night never rehearsed.
static bool was_refused(const Section *memory, double budget, double *ret_planned)
{
    if (!section_number(memory, "planned_peak_bytes", ret_planned)) {
        return true;
    }
    const char *why = json_text_or(json_get(memory->at, "refusal"), "");
    if (why[0] != '\0' && !section_has(memory, "rehearsal")) {
        finding_set(memory->finding, OUTCOME_FAIL, (Figure){*ret_planned, budget, "bytes", 1},
                    "refused before training: %.200s", why);
        return true;
    }
    return false;
}

// Whatever else the evidence says, a night that was refused memory has not passed.
static bool refused_all_the_same(const Section *memory)
{
    const char *why = json_text_or(json_get(memory->at, "refusal"), "");
    if (why[0] != '\0') {
        finding_set(memory->finding, OUTCOME_FAIL, NO_FIGURE, "memory was refused: %.200s", why);
    }
    return why[0] != '\0';
}

// Validation rows are part of what was planned.
static bool validation_planned(const Section *memory, double planned)
{
    double bytes = 0;
    if (!section_has(memory, "validation_bytes")) {
        return true;
    }
    if (!section_amount(memory, "validation_bytes", &bytes)) {
        return false;
    }
    if (!(bytes <= planned)) {
        finding_set(memory->finding, OUTCOME_ERROR, (Figure){bytes, planned, "bytes", 1},
                    "validation takes %.0f bytes of a planned peak of %.0f", bytes, planned);
        return false;
    }
    return true;
}

void check_memory(const Json *evidence, const Config *policy, Finding *ret)
{
    OWNED(Arena, arena_free) *judge = arena_new(JUDGE_MEMORY_BYTES);
    Section memory;
    Accounts accounts;
    char said[96] = "";
    double budget = NAN;
    double planned = NAN;
    double measured = NAN;
    if (!section_open(evidence, "memory", judge, ret, &memory) || !read_budget(&memory, policy, &budget) ||
        was_refused(&memory, budget, &planned) ||
        !within_budget(&memory, "planned_peak_bytes", budget, "planned peak", &planned) ||
        !validation_planned(&memory, planned) ||
        (section_has(&memory, "rehearsal") &&
         !rehearsed(&memory, budget)) ||   // a failed one ended the night
        !within_budget(&memory, "measured_peak_bytes", budget, "measured peak", &measured) ||
        !rehearsed(&memory, budget) || !reconciled(evidence, &memory, policy, budget, measured, &accounts) ||
        !settles(evidence, &memory, budget, measured, &accounts) ||
        !memory_causes(evidence, &memory, budget, measured, said) ||
        !as_planned(&memory, policy, budget, planned, measured, &accounts) || refused_all_the_same(&memory)) {
        return;
    }
    finding_set(ret, OUTCOME_PASS, (Figure){fmax(planned, measured), budget, "bytes", 1},
                "peak is %.4g GB measured, %.4g GB planned, of a budget of %.4g GB; live memory does not "
                "grow%s%.32s%s%s",
                measured / 1e9, planned / 1e9, budget / 1e9,
                accounts.over > 0 && accounts.planned > 0 ? "; beyond its plan: account '" : "",
                accounts.over > 0 && accounts.planned > 0 ? accounts.worst : "",
                accounts.over > 0 && accounts.planned > 0 ? "'" : "", said);
}
