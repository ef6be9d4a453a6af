// values - text to value, by the option's type: each type is one function in a table, each message names
// place, value and limit.
#include "config_internal.h"

#include <fedgate/clock.h>
#include <stdio.h>
#include <string.h>

__extension__ typedef __int128 Wide;   // a byte count times its unit before it is known to fit

typedef struct Unit {
    const char *suffix;
    int64_t factor;
} Unit;

static const Unit byte_units[] = {
    {"kB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
    {"KiB", INT64_C(1) << 10},
    {"MiB", INT64_C(1) << 20},
    {"GiB", INT64_C(1) << 30},
    {"TiB", INT64_C(1) << 40},
    {"B", 1},
    {"", 1},
};

static const struct {
    const char *suffix;
    double seconds;
} duration_units[] = {
    {"ms", 1e-3},
    {"min", 60},
    {"s", 1},
    {"h", 3600},
};

void config_show_raw(const Option *option, const char *raw, char ret_shown[static CONFIG_SHOWN_SIZE])
{
    if (option && (option->flags & OPTION_SECRET)) {
        (void)snprintf(ret_shown, CONFIG_SHOWN_SIZE, "(secret)");
        return;
    }
    SCOPED_TEXT escaped;
    text_init(&escaped, 5 * CONFIG_TEXT_BYTES);
    text_add_escaped(&escaped, raw);
    if (escaped.length < CONFIG_SHOWN_SIZE)
        (void)snprintf(ret_shown, CONFIG_SHOWN_SIZE, "%s", text_string(&escaped));
    else
        (void)snprintf(ret_shown, CONFIG_SHOWN_SIZE, "%.*s...", CONFIG_SHOWN_SIZE - 4, text_string(&escaped));
}

static bool fail_value(const Option *option, const Given *given, const char *raw, const char *wanted,
                       Error *error)
{
    char shown[CONFIG_SHOWN_SIZE];
    config_show_raw(option, raw, shown);
    return FAIL(error, ERROR_CONFIG, 0, "%s: option '%s' is '%s', %s", given->source, option->name, shown,
                wanted);
}

// Written so that NaN is outside.
static bool check_range(const Option *option, const Given *given, const char *raw, double value, Error *error)
{
    if ((option->min == 0 && option->max == 0) || (value >= option->min && value <= option->max))
        return true;
    char low[32], high[32], wanted[160];
    text_from_double(low, option->min);
    text_from_double(high, option->max);
    (void)snprintf(wanted, sizeof wanted, "outside its limits %s to %s%s%s", low, high,
                   option->unit[0] ? " " : "", option->unit);
    return fail_value(option, given, raw, wanted, error);
}

// Text that can be shown, hashed and read back as itself: nothing in it needs an escape but tabs.
static bool is_printable(const char *raw)
{
    static const char tab[] = "\\x09";
    SCOPED_TEXT escaped;
    text_init(&escaped, 5 * CONFIG_TEXT_BYTES);
    text_add_escaped(&escaped, raw);
    size_t expected = 0;
    for (const char *c = raw; *c; c++)
        expected += *c == '\t' ? sizeof tab - 1 : 1;
    return !escaped.failed && escaped.length == expected;
}

static bool parse_text(const Option *option, const Given *given, const char *raw, Value *value, Error *error)
{
    if (strlen(raw) > CONFIG_TEXT_BYTES)
        return FAIL(error, ERROR_CONFIG, 0, "%s: option '%s' is %zu bytes long, the limit is %d",
                    given->source, option->name, strlen(raw), CONFIG_TEXT_BYTES);
    if (!is_printable(raw))
        return fail_value(option, given, raw, "which has a control character or is not UTF-8", error);
    value->text = raw;
    return true;
}

static bool parse_integer(const Option *option, const Given *given, const char *raw, Value *value,
                          Error *error)
{
    if (!text_to_int64(raw, &value->integer))
        return fail_value(option, given, raw, "which is not a whole number", error);
    value->real = (double)value->integer;
    return check_range(option, given, raw, value->real, error);
}

static bool parse_real(const Option *option, const Given *given, const char *raw, Value *value, Error *error)
{
    if (!text_to_double(raw, &value->real))
        return fail_value(option, given, raw, "which is not a finite number", error);
    return check_range(option, given, raw, value->real, error);
}

static bool parse_bool(const Option *option, const Given *given, const char *raw, Value *value, Error *error)
{
    value->flag = text_equal(raw, "true");
    return value->flag || text_equal(raw, "false") ||
           fail_value(option, given, raw, "neither true nor false", error);
}

static bool parse_choice(const Option *option, const Given *given, const char *raw, Value *value,
                         Error *error)
{
    size_t length = strlen(raw);
    for (const char *choice = option->choices;; choice++) {
        size_t size = strcspn(choice, "|");
        if (size == length && strncmp(choice, raw, size) == 0) {
            value->text = raw;
            return true;
        }
        choice += size;
        if (*choice == '\0')
            break;
    }
    char wanted[160];
    (void)snprintf(wanted, sizeof wanted, "not one of %s",
                   option->choices[0] == '|' ? option->choices + 1 : option->choices);
    return fail_value(option, given, raw, wanted, error);
}

// Decimal digits with at most one point, then a unit; exact, so that 0.34GB is 340000000 and 0.1KiB is
// refused.
static bool parse_bytes(const Option *option, const Given *given, const char *raw, Value *value, Error *error)
{
    static const char wanted[] = "not a number of bytes such as 24GB or 512MiB";
    Wide digits = 0, scale = 1;
    bool point = false;
    size_t seen = 0;
    const char *c = raw;
    for (; (*c >= '0' && *c <= '9') || (*c == '.' && !point); c++) {
        if (*c == '.') {
            point = true;
            continue;
        }
        if (++seen > 18)
            return fail_value(option, given, raw, wanted, error);
        digits = digits * 10 + (*c - '0');
        scale = point ? scale * 10 : scale;
    }
    if (seen == 0)
        return fail_value(option, given, raw, wanted, error);
    while (*c == ' ')
        c++;
    for (size_t i = 0; i < sizeof byte_units / sizeof byte_units[0]; i++) {
        if (!text_equal(c, byte_units[i].suffix))
            continue;
        Wide bytes = digits * byte_units[i].factor;
        if (bytes % scale != 0)
            return fail_value(option, given, raw, "which is not a whole number of bytes", error);
        bytes /= scale;
        if (bytes > INT64_MAX)
            return fail_value(option, given, raw, "more bytes than can be counted", error);
        value->integer = (int64_t)bytes;
        value->real = (double)value->integer;
        return check_range(option, given, raw, value->real, error);
    }
    return fail_value(option, given, raw, wanted, error);
}

static bool parse_duration(const Option *option, const Given *given, const char *raw, Value *value,
                           Error *error)
{
    static const char wanted[] = "not a duration such as 500ms, 20s, 90min or 6h";
    char number[64];
    size_t length = strlen(raw);
    double factor = 0;
    for (size_t i = 0; i < sizeof duration_units / sizeof duration_units[0] && factor == 0; i++) {
        size_t suffix = strlen(duration_units[i].suffix);
        if (!text_ends_with(raw, duration_units[i].suffix))
            continue;
        factor = duration_units[i].seconds;
        length -= suffix;
    }
    while (length > 0 && raw[length - 1] == ' ')
        length--;
    if (!text_print(number, sizeof number, "%.*s", (int)(length < sizeof number ? length : sizeof number),
                    raw) ||
        !text_to_double(number, &value->real))
        return fail_value(option, given, raw, wanted, error);
    if (factor == 0 && value->real != 0)   // only nothing needs no unit
        return fail_value(option, given, raw, wanted, error);
    value->real *= factor;
    return check_range(option, given, raw, value->real, error);
}

static bool parse_time(const Option *option, const Given *given, const char *raw, Value *value, Error *error)
{
    static const char shape[] = "00:00";
    bool good = strlen(raw) == sizeof shape - 1;
    for (size_t i = 0; good && i < sizeof shape - 1; i++)
        good = shape[i] == ':' ? raw[i] == ':' : raw[i] >= '0' && raw[i] <= '9';
    if (!good || strncmp(raw, "24", 2) >= 0 || raw[3] > '5')
        return fail_value(option, given, raw, "not a time of day from 00:00 to 23:59", error);
    value->text = raw;
    return true;
}

static bool parse_zone(const Option *option, const Given *given, const char *raw, Value *value, Error *error)
{
    if (!parse_text(option, given, raw, value, error))
        return false;
    return raw[0] == '\0' || clock_zone_check(raw, error) ||
           error_prefix(error, "%s: option '%s'", given->source, option->name);
}

static bool parse_list(const Option *option, const Given *given, const char *raw, Value *item, Error *error)
{
    return raw[0] == '\0' ? FAIL(error, ERROR_CONFIG, 0, "%s: an item of list '%s' is empty", given->source,
                                 option->name)
                          : parse_text(option, given, raw, item, error);
}

typedef struct TypeInfo {
    const char *name;
    bool (*parse)(const Option *, const Given *, const char *raw, Value *, Error *);   // lists: one item
    bool list, path, distinct;   // distinct: an item twice is a mistake
} TypeInfo;

static const TypeInfo types[] = {
    [OPTION_TEXT] = {"text", parse_text, false, false, false},
    [OPTION_PATH] = {"path", parse_text, false, true, false},
    [OPTION_INTEGER] = {"integer", parse_integer, false, false, false},
    [OPTION_REAL] = {"number", parse_real, false, false, false},
    [OPTION_BOOL] = {"true or false", parse_bool, false, false, false},
    [OPTION_CHOICE] = {"choice", parse_choice, false, false, false},
    [OPTION_LIST] = {"list", parse_list, true, false, true},
    [OPTION_INTEGERS] = {"list of integers", parse_integer, true, false, false},
    [OPTION_REALS] = {"list of numbers", parse_real, true, false, false},
    [OPTION_PATHS] = {"list of paths", parse_list, true, true, true},
    [OPTION_BYTES] = {"bytes", parse_bytes, false, false, false},
    [OPTION_DURATION] = {"duration", parse_duration, false, false, false},
    [OPTION_TIME] = {"time of day", parse_time, false, false, false},
    [OPTION_ZONE] = {"time zone", parse_zone, false, false, false},
};

bool config_is_list(OptionType type)
{
    return types[type].list;
}
bool config_is_path(OptionType type)
{
    return types[type].path;
}
const char *config_type_name(OptionType type)
{
    return types[type].name;
}

// Blanks round a text, and then one pair of `open` and `close`, taken off in place.
static char *unwrap(char *text, char open, char close)
{
    text += strspn(text, " ");
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == ' ')
        text[--length] = '\0';
    if (length < 2 || text[0] != open || text[length - 1] != close)
        return text;
    text[length - 1] = '\0';
    return text + 1;
}

// Scalar for a list: items between commas, the whole in brackets or not, items in double quotes or not, as
// `config show` prints them. Nothing at all is the empty list.
static bool split_list(Config *config, const Given *given, const char ***ret_items, size_t *ret_count)
{
    char *copy = arena_copy_string(config->memory, given->text);
    if (!copy)
        return false;
    copy = unwrap(copy, '[', ']');
    size_t count = 1;
    for (const char *c = copy; *c; c++)
        count += *c == ',';
    const char **items = arena_take_array(config->memory, count, sizeof *items);
    if (!items)
        return false;
    *ret_items = items;
    *ret_count = copy[strspn(copy, " ")] == '\0' ? 0 : count;
    for (size_t i = 0; i < count; i++) {
        char *next = copy + strcspn(copy, ",");
        bool last = *next == '\0';
        *next = '\0';
        items[i] = unwrap(copy, '"', '"');
        copy = last ? next : next + 1;
    }
    return true;
}

static bool assign_list(Config *config, const Option *option, const Given *given, Value *value, Error *error)
{
    const TypeInfo *type = &types[option->type];
    const char **items = NULL;
    size_t count = given->count,
           limit = option->type == OPTION_INTEGERS ? CONFIG_INTEGERS_ITEMS : CONFIG_LIST_ITEMS;
    if (!given->items && !split_list(config, given, &items, &count))
        return FAIL(error, ERROR_MEMORY, 0, "could not keep list '%s'", option->name);
    if (count > limit)
        return FAIL(error, ERROR_CONFIG, 0, "%s: list '%s' has %zu items, the limit is %zu", given->source,
                    option->name, count, limit);
    value->items = arena_take_array(config->memory, count + 1, sizeof *value->items);
    value->integers = option->type == OPTION_INTEGERS
                          ? arena_take_array(config->memory, count + 1, sizeof *value->integers)
                          : NULL;
    if (!value->items || (option->type == OPTION_INTEGERS && !value->integers))
        return FAIL(error, ERROR_MEMORY, 0, "could not keep list '%s'", option->name);
    for (size_t i = 0; i < count; i++) {
        const char *raw = given->items ? given->items[i] : items[i];
        Value item = {.text = raw};
        if (!type->parse(option, given, raw, &item, error))
            return false;
        for (size_t k = 0; type->distinct && k < i; k++)
            if (text_equal(value->items[k], raw))
                return FAIL(error, ERROR_CONFIG, 0, "%s: list '%s' has '%s' twice", given->source,
                            option->name, raw);
        if (!(value->items[i] = arena_copy_string(config->memory, raw)))
            return FAIL(error, ERROR_MEMORY, 0, "could not keep list '%s'", option->name);
        if (value->integers)
            value->integers[i] = item.integer;
    }
    value->count = count;
    return true;
}

bool config_assign(Config *config, const Option *option, const Given *given, Error *error)
{
    Value value = {.text = "", .source = given->source, .given = true, .from_file = given->from_file};
    bool absent =
        !option->fallback && !given->items && given->text[0] == '\0';   // 'model:' leaves it to be given
    if (given->items && !config_is_list(option->type))
        return FAIL(error, ERROR_CONFIG, 0, "%s: option '%s' is a list, it takes one value (%s)",
                    given->source, option->name, config_type_name(option->type));
    if (config_is_list(option->type)) {
        if (!assign_list(config, option, given, &value, error))
            return false;
    } else if (!absent) {
        const char *raw = arena_copy_string(config->memory, given->text);
        if (!raw)
            return FAIL(error, ERROR_MEMORY, 0, "could not keep option '%s'", option->name);
        value.text = raw;
        if (!types[option->type].parse(option, given, raw, &value, error))
            return false;
    }
    value.given = !absent;
    if (!absent && !config_check_rule(option, &value, error))
        return error_prefix(error, "%s: option '%s'", given->source, option->name);
    config->values[option - config_options] = value;
    return true;
}
