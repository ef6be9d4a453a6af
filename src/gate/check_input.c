// check_input - is tonight's data what the model may learn from?
//
// Numeric and categorical columns are judged, other roles are only listed. Every rule of every column must
// hold; the first that does not is named. Drift needs the data of a live version and is not applicable
// without one.
#include "gate_internal.h"

#include <fedgate/text.h>
#include <stdio.h>

typedef struct Context {
    const Config *policy;
    bool binary, has_reference;
    int64_t judged;   // figures inside their limits
    bool separable;   // some column tells the classes apart by itself
    double worst_share;   // largest value / limit so far, and where
    char worst[96];
} Context;

// One figure of a column and the option that limits it.
typedef struct ColumnRule {
    const char *key, *option, *what;
    bool numeric, categorical;   // roles it applies to
    bool needs_reference;
} ColumnRule;

static const ColumnRule column_rules[] = {
    {"missing_ratio", "input.missing", "share of missing values", true, true, false},
    {"unseen_ratio", "input.unseen", "share of categories not seen in training", false, true, false},
    {"outside_ratio", "input.outside", "share of values outside the training range", true, false, false},
    {"drift_psi", "input.drift", "drift (PSI) against the live version's data", true, true, true},
};

static bool judge_rule(const Section *column, const char *name, bool numeric, const ColumnRule *rule,
                       Context *context)
{
    bool applies =
        (numeric ? rule->numeric : rule->categorical) && (!rule->needs_reference || context->has_reference);
    double value = NAN;
    if (!applies) {
        return true;
    }
    char what[128];
    if (!section_number(column, rule->key, &value)) {
        return false;
    }
    snprintf(what, sizeof what, "column '%.48s': %s", name, rule->what);
    Figure figure = {value, config_real(context->policy, rule->option),
                     rule->needs_reference ? "PSI" : "ratio", 1};
    if (value < 0) {
        finding_set(column->finding, OUTCOME_ERROR, figure, "%s is %g", what, value);
        return false;
    }
    if (!require_at_most(column->finding, figure, what)) {
        return false;
    }
    context->judged++;
    if (value > context->worst_share * figure.limit) {
        snprintf(context->worst, sizeof context->worst, "'%.40s' %s %.4g", name, rule->key, value);
        context->worst_share = value / figure.limit;
    }
    return true;
}

// A single column that predicts the target almost perfectly knows the answer.
static bool judge_leakage(const Section *column, const char *name, Context *context)
{
    static const double SEPARABLE = 0.6;
    double auc = NAN;
    if (!context->binary) {
        return true;
    }
    if (!section_number(column, "single_auc", &auc)) {
        return false;
    }
    double limit = config_real(context->policy, "input.leakage");
    double oriented = auc < 0.5 ? 1 - auc : auc;   // outside 0..1: above every limit
    bool fine = isfinite(oriented) && oriented < limit;
    if (!fine) {
        finding_set(column->finding, OUTCOME_FAIL, (Figure){oriented, limit, "AUC", 1},
                    "column '%.48s' alone predicts the target with AUC %.4f, from %.4f on it is leakage",
                    name, oriented, limit);
    }
    context->judged += fine;
    context->separable = context->separable || oriented >= SEPARABLE;
    return fine;
}

// Roles that are listed and not judged; any other word would take a column out of sight.
static bool known_role(const Section *input, const char *name, const char *role)
{
    static const char *const unjudged[] = {"target", "unused"};
    for (size_t i = 0; i < sizeof unjudged / sizeof unjudged[0]; i++) {
        if (text_equal(role, unjudged[i])) {
            return true;
        }
    }
    finding_set(input->finding, OUTCOME_ERROR, NO_FIGURE, "column '%.60s' is of unknown role '%.40s'", name,
                role);
    return false;
}

// Every feature that the configuration lists was profiled, in its role.
static bool features_profiled(const Section *input, const Json *columns, const Config *policy)
{
    static const struct {
        const char *option, *role;
    } lists[] = {{"data.numeric", "numeric"}, {"data.categorical", "categorical"}};
    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
        for (size_t i = 0; i < config_list_count(policy, lists[l].option); i++) {
            const char *name = config_list_text(policy, lists[l].option, i);
            size_t found = 0;
            for (size_t j = 0; j < json_count(columns); j++) {
                const Json *column = json_at(columns, j);
                found += text_equal(json_text_or(json_get(column, "name"), NULL), name) &&
                         text_equal(json_text_or(json_get(column, "role"), NULL), lists[l].role);
            }
            if (found == 0) {
                finding_set(input->finding, OUTCOME_NOT_MEASURED, NO_FIGURE,
                            "the %s column '%.80s' was not profiled", lists[l].role, name);
                return false;
            }
        }
    }
    return true;
}

static bool judge_column(const Section *input, const Json *item, Context *context)
{
    Section column;
    const char *name = NULL;
    const char *role = NULL;
    bool constant = false;
    if (!section_inside(input, item, &column) || !section_text(&column, "name", &name) ||
        !section_text(&column, "role", &role)) {
        return false;
    }
    bool numeric = text_equal(role, "numeric");
    if (!numeric && !text_equal(role, "categorical")) {
        return known_role(input, name, role);
    }
    if (!section_bool(&column, "constant", &constant)) {
        return false;
    }
    if (constant) {
        finding_set(input->finding, OUTCOME_FAIL, NO_FIGURE, "column '%.80s' is constant or empty", name);
        return false;
    }
    for (size_t i = 0; i < sizeof column_rules / sizeof column_rules[0]; i++) {
        if (!judge_rule(&column, name, numeric, &column_rules[i], context)) {
            return false;
        }
    }
    return judge_leakage(&column, name, context) && judge_naming(&column, context->policy, name, numeric);
}

static bool none_listed(const Section *input, const char *key, const char *what)
{
    const Json *names = NULL;
    if (!section_array(input, key, &names)) {
        return false;
    }
    if (json_count(names) > 0) {
        finding_set(input->finding, OUTCOME_FAIL,
                    (Figure){(double)json_count(names), 0, "", (int64_t)json_count(names)}, "%s: '%.80s'%s",
                    what, json_text_or(json_at(names, 0), "not a text"),
                    json_count(names) > 1 ? " and more" : "");
    }
    return json_count(names) == 0;
}

static const struct {
    const char *key, *option, *what;   // option NULL: at least one row
} row_rules[] = {
    {"bad", "data.bad_rows", "malformed rows left out"},
    {"after_cutoff", "input.after_cutoff", "rows after the cutoff left out"},
    {"train", NULL, "training rows"},
    {"validation", NULL, "validation rows"},
    {"test", NULL, "test rows"},
};

static bool judge_rows(const Section *input, const Config *policy)
{
    Section rows;
    if (!section_child(input, "rows", "input.rows", &rows)) {
        return false;
    }
    for (size_t i = 0; i < sizeof row_rules / sizeof row_rules[0]; i++) {
        int64_t count = 0;
        if (!section_count(&rows, row_rules[i].key, &count)) {
            return false;
        }
        const char *option = row_rules[i].option;
        Figure figure = {(double)count, option == NULL ? 1 : (double)config_integer(policy, option), "rows",
                         count};
        if (option == NULL ? !require_at_least(input->finding, figure, row_rules[i].what)
                           : !require_at_most(input->finding, figure, row_rules[i].what)) {
            return false;
        }
    }
    return true;
}

// Numeric inputs that are no finite numbers, as counted on the device before a ReLU could hide them.
static bool finite_inputs(const Section *loop)
{
    int64_t count = 0;
    return !section_has(loop, "nonfinite_inputs") ||
           (section_count(loop, "nonfinite_inputs", &count) &&
            require_at_most(loop->finding, (Figure){(double)count, 0, "values", count},
                            "numeric training inputs that are no finite numbers"));
}

// The arithmetic of the cpu back end carries a NaN through to the loss, where it is seen as well.
static bool inputs_counted(const Json *evidence, const Section *loop)
{
    int64_t count = 0;
    return from_staging_thread(evidence) || section_count(loop, "nonfinite_inputs", &count);
}

void check_input(const Json *evidence, const Config *policy, Finding *ret)
{
    Section input;
    const Json *columns = NULL;
    const Section loop = {json_get(evidence, "loop"), "loop", ret, NULL, SIZE_MAX};
    if (!section_open(evidence, "input", NULL, ret, &input) || !judge_rows(&input, policy) ||
        !finite_inputs(&loop) || !none_listed(&input, "forbidden_used", "a forbidden column is a feature") ||
        !none_listed(&input, "schema_changes", "the schema changed") ||
        !section_array(&input, "columns", &columns) || !section_distinct(&input, columns, "name", NULL)) {
        return;
    }
    const char *task = json_text_or(json_get(evidence, "task"), "binary");   // absent: the stricter rule
    Context context = {.policy = policy,
                       .binary = text_equal(task, "binary"),
                       .has_reference = section_has(&input, "reference_version")};
    size_t count = json_count(columns);
    for (size_t i = 0; i < count; i++) {
        if (!judge_column(&input, json_at(columns, i), &context)) {
            return;
        }
    }
    if (!context.has_reference &&
        text_equal(json_text_or(json_find(evidence, "quality.live_kind"), ""), "release")) {
        finding_set(ret, OUTCOME_NOT_MEASURED, NO_FIGURE,
                    "drift against the live version's data was not measured, and a release is live");
        return;
    }
    if ((context.has_reference && !judge_label(&input, policy, task, context.separable)) ||
        !judge_split(&input, policy)) {
        return;
    }
    Figure figure = {context.worst_share, 1, "ratio", (int64_t)count};
    if (context.judged == 0) {
        finding_set(ret, OUTCOME_NOT_MEASURED, figure, "none of %zu columns is a feature", count);
        return;
    }
    if (!features_profiled(&input, columns, policy) || !inputs_counted(evidence, &loop)) {
        return;
    }
    finding_set(ret, OUTCOME_PASS, figure, "%lld figures of %zu columns are inside their limits%s%s%s",
                (long long)context.judged, count, context.worst[0] == '\0' ? "" : ", nearest ", context.worst,
                context.has_reference ? "" : "; drift not applicable, no version is live");
}
