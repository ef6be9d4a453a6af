// rules - what one value must satisfy beyond its type and range, checked where it is given: one row each.
#include "config_internal.h"

#include <string.h>

// Names that may stand in checks.required, in the order of the gate's table. The gate sits above config, so
// the names are said here too; tests of the gate hold both lists together.
static const struct {
    const char *name;
    bool always;
} check_names[] = {
    {"overlap", true},  {"fed", false},    {"closure", false},      {"plausible", true},
    {"memory", true},   {"parity", true},  {"determinism", false},  {"window", true},
    {"quality", true},  {"input", false},  {"distribution", false}, {"cost", false},
    {"latency", false}, {"rubric", false}, {"telemetry", false},
};
enum { CHECK_NAMES = sizeof check_names / sizeof check_names[0] };

static bool has_item(const Value *value, const char *item)
{
    for (size_t i = 0; i < value->count; i++)
        if (text_equal(value->items[i], item))
            return true;
    return false;
}

// Every item is one of the names; else the nearest is suggested.
static bool check_known(const Value *value, const char *const *names, size_t count, const char *kind,
                        Error *error)
{
    for (size_t i = 0; i < value->count; i++) {
        bool known = false;
        for (size_t k = 0; k < count && !known; k++)
            known = text_equal(value->items[i], names[k]);
        if (known)
            continue;
        char shown[CONFIG_SHOWN_SIZE];
        config_show_raw(NULL, value->items[i], shown);
        (void)FAIL(error, ERROR_CONFIG, 0, "unknown %s '%s'", kind, shown);
        const char *nearest = text_nearest(value->items[i], names, count);
        return nearest ? error_hint(error, "Did you mean '%s'?", nearest) : false;
    }
    return true;
}

// Words of a verdict (design.md section 2).
static bool check_outcomes(const Value *value, Error *error)
{
    static const char *const outcomes[] = {"promoted", "passed",       "refused", "inconclusive",
                                           "reverted", "inconsistent", "failed"};
    return check_known(value, outcomes, sizeof outcomes / sizeof outcomes[0], "outcome", error);
}

static bool check_required(const Value *value, Error *error)
{
    const char *names[CHECK_NAMES];
    for (size_t k = 0; k < CHECK_NAMES; k++)
        names[k] = check_names[k].name;
    if (value->count == 0) {
        (void)FAIL(error, ERROR_CONFIG, 0, "the policy is empty, nothing would be judged");
        return error_hint(error, "Leave the option out to require every check.");
    }
    if (!check_known(value, names, CHECK_NAMES, "check", error))
        return false;
    for (size_t k = 0; k < CHECK_NAMES; k++)
        if (check_names[k].always && !has_item(value, names[k])) {
            (void)FAIL(error, ERROR_CONFIG, 0, "check '%s' cannot be switched off", names[k]);
            return error_hint(
                error,
                "overlap, plausible, memory, parity, window and quality are required in every policy.");
        }
    return true;
}

static bool check_model(const Value *value, Error *error)
{
    if (text_is_name(value->text))
        return true;
    char shown[CONFIG_SHOWN_SIZE];
    config_show_raw(NULL, value->text, shown);
    (void)FAIL(error, ERROR_CONFIG, 0,
               "'%s' is not a model name, the limit is [a-z0-9][a-z0-9._-]* of at most 64 bytes", shown);
    return error_hint(error,
                      "Choose a name in lower case without blanks; it becomes the prefix of every version.");
}

// A password in the URL would be in the process list, in backups of the file, and sooner or later in a log.
static bool check_database_url(const Value *value, Error *error)
{
    const char *url = value->text, *scheme = strstr(url, "://");
    bool inside = false;
    for (const char *word = url; !inside && (word = strstr(word, "password")) != NULL; word++)
        inside = word[strlen("password") + strspn(word + strlen("password"), " ")] == '=';
    if (scheme) {
        const char *host = scheme + strlen("://");
        size_t account = strcspn(host, "@/?");
        inside = inside || (host[account] == '@' && memchr(host, ':', account) != NULL);
    }
    if (!inside)
        return true;
    (void)FAIL(error, ERROR_CONFIG, 0, "a password inside the connection string is not allowed");
    return error_hint(error, "Put it into a file of mode 0600 and name it with passfile=FILE.");
}

static bool check_delimiter(const Value *value, Error *error)
{
    const char *text = value->text;
    if (text_equal(text, "tab") || (strlen(text) == 1 && !strchr("\"\r\n", text[0])))
        return true;
    return FAIL(error, ERROR_CONFIG, 0, "'%s' is neither one character other than a quote nor 'tab'", text);
}

static bool check_missing(const Value *value, Error *error)
{
    for (size_t i = 0; i < value->count; i++)
        if (value->items[i][0] == '=' || !strchr(value->items[i], '='))
            return FAIL(error, ERROR_CONFIG, 0, "'%s' is not of the form COLUMN=TOKEN", value->items[i]);
    return true;
}

// Tokens may hold '=' themselves ("<=50K"), so the class is what follows the last one.
static bool check_labels(const Value *value, Error *error)
{
    bool seen[1000] = {false};
    int64_t largest = -1;
    for (size_t i = 0; i < value->count; i++) {
        const char *label = value->items[i], *equals = strrchr(label, '=');
        int64_t class_index = 0;
        if (!equals || equals == label || !text_to_int64(equals + 1, &class_index) || class_index < 0 ||
            class_index > 999)
            return FAIL(error, ERROR_CONFIG, 0,
                        "'%s' is not of the form TOKEN=CLASS with a class from 0 to 999", label);
        size_t length = (size_t)(equals - label);
        for (size_t k = 0; k < i; k++) {
            const char *other = strrchr(value->items[k], '=');
            if ((size_t)(other - value->items[k]) == length && memcmp(value->items[k], label, length) == 0)
                return FAIL(error, ERROR_CONFIG, 0, "token '%.*s' has two classes", (int)length, label);
        }
        seen[class_index] = true;
        largest = class_index > largest ? class_index : largest;
    }
    for (int64_t class_index = 0; class_index <= largest; class_index++)
        if (!seen[class_index])
            return FAIL(error, ERROR_CONFIG, 0, "class %d of 0 to %d has no token", (int)class_index,
                        (int)largest);
    return true;
}

// k x k utilities, a row for each true class; how many classes there are is known from the rows only.
static bool check_utilities(const Value *value, Error *error)
{
    size_t side = 2;
    while (side * side < value->count)
        side++;
    if (value->count > 0 && side * side != value->count)
        return FAIL(error, ERROR_CONFIG, 0, "%zu utilities are no square of at least 2 x 2 classes",
                    value->count);
    return true;
}

// What lies between -1 and 0 would be a margin that the worse side keeps.
static bool check_quality_margin(const Value *value, Error *error)
{
    if (value->real >= 0 || value->real == -1)
        return true;
    return FAIL(error, ERROR_CONFIG, 0, "%g is no margin, the limit is at least 0, or -1 for the usual one",
                value->real);
}

static bool check_parity_margin(const Value *value, Error *error)
{
    if (value->real >= 0 || value->real == -1)
        return true;
    return FAIL(error, ERROR_CONFIG, 0, "%g is no margin: 0 to 0.05, or -1 for the usual one", value->real);
}

// Fewer steps show neither a course of the loss nor a metric that was learned.
static bool check_parity_steps(const Value *value, Error *error)
{
    enum { LEAST = 8 };
    if (value->integer == 0 || value->integer >= LEAST)
        return true;
    return FAIL(error, ERROR_CONFIG, 0, "%lld steps are too short to compare, the limit is at least %d, or 0",
                (long long)value->integer, LEAST);
}

static const struct {
    const char *name;
    bool (*check)(const Value *value, Error *error);
} rules[] = {
    {"model", check_model},
    {"checks.required", check_required},
    {"notify.on", check_outcomes},
    {"database.url", check_database_url},
    {"data.delimiter", check_delimiter},
    {"data.missing", check_missing},
    {"data.labels", check_labels},
    {"quality.utilities", check_utilities},
    {"quality.margin", check_quality_margin},
    {"quality.live_margin", check_quality_margin},
    {"parity.margin", check_parity_margin},
    {"parity.steps", check_parity_steps},
};

bool config_check_rule(const Option *option, const Value *value, Error *error)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (text_equal(rules[i].name, option->name))
            return rules[i].check(value, error);
    return true;
}
