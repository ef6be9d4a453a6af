// show - the same table the other way: what is set and from where, sample, help, manual, JSON.
#include "config_internal.h"

#include <string.h>

// -- values

// Plain where YAML reads it back as the same text, double-quoted otherwise.
static void add_scalar(Text *out, const char *text)
{
    bool plain = text[0] &&
                 strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/+:%") ==
                     strlen(text) &&
                 !strchr("-:%", text[0]) && !strchr(":", text[strlen(text) - 1]);
    if (plain) {
        text_add(out, text);
        return;
    }
    text_add_char(out, '"');
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            text_add_char(out, '\\');
        if (*c == '\t')
            text_add(out, "\\t");
        else
            text_add_char(out, *c);
    }
    text_add_char(out, '"');
}

static void add_value(Text *out, const Option *option, const Value *value)
{
    if (!config_is_list(option->type)) {
        if (value->given || option->fallback)
            add_scalar(out, value->text);
        return;
    }
    text_add_char(out, '[');
    for (size_t i = 0; i < value->count; i++) {
        text_add(out, i ? ", " : "");
        add_scalar(out, value->items[i]);
    }
    text_add_char(out, ']');
}

void config_dump(const Config *config, Text *out)
{
    for (size_t i = 0; i < config_option_count; i++) {
        const Option *option = &config_options[i];
        const Value *value = &config->values[i];
        text_add_format(out, "%s = ", option->name);
        if ((option->flags & OPTION_SECRET) && value->text[0])
            text_add(out, "(secret)");
        else
            add_value(out, option, value);
        text_add_format(out, "  # %s\n", value->source);
    }
}

static Json *value_to_json(const Option *option, const Value *value)
{
    if (config_is_list(option->type)) {
        Json *array = json_make_array();
        for (size_t i = 0; i < value->count; i++)
            if (option->type == OPTION_INTEGERS)
                json_add_integer(array, value->integers[i]);
            else if (option->type == OPTION_REALS)
                json_add_number(array, config_item_real(value, i));
            else
                json_add_text(array, value->items[i]);
        return array;
    }
    switch (option->type) {
    case OPTION_INTEGER:
    case OPTION_BYTES:
        return json_make_integer(value->integer);
    case OPTION_REAL:
    case OPTION_DURATION:
        return json_make_number(value->real);
    case OPTION_BOOL:
        return json_make_bool(value->flag);
    default:
        return json_make_text(value->given || option->fallback ? value->text : NULL);
    }
}

Json *config_to_json(const Config *config, unsigned flags_any)
{
    Json *object = json_make_object();
    for (size_t i = 0; i < config_option_count; i++) {
        const Option *option = &config_options[i];
        if (!(option->flags & OPTION_SECRET) && (flags_any == 0 || (option->flags & flags_any)))
            json_put(object, option->name, value_to_json(option, &config->values[i]));
    }
    return object;
}

void config_policy_digest(const Config *config, Digest *ret_digest)
{
    SCOPED_TEXT bytes;
    text_init(&bytes, CONFIG_ARENA_BYTES);
    OWNED(Json, json_free) *policy = config_to_json(config, OPTION_POLICY);
    json_write(policy, JSON_COMPACT, &bytes);
    if (bytes.failed)
        BUG("the policy is longer than the configuration it came from");
    hash_bytes(text_string(&bytes), bytes.length, ret_digest);
}

// -- the table itself

static void add_range(const Option *option, Text *out)
{
    char low[32], high[32];
    if (option->choices) {
        const char *choices = option->choices[0] == '|' ? option->choices + 1 : option->choices;
        for (; *choices; choices++)
            if (*choices == '|')
                text_add(out, " or ");
            else
                text_add_char(out, *choices);
    } else if (option->min != 0 || option->max != 0) {
        text_from_double(low, option->min);
        text_from_double(high, option->max);
        text_add_format(out, "%s to %s", low, high);
    }
}

static const char *default_of(const Option *option)
{
    if (option->flags & OPTION_NEEDED)
        return "needed";
    return option->fallback && option->fallback[0] ? option->fallback : "empty";
}

void config_help_option(const Option *option, Text *out)
{
    text_add_format(out, "%s  %s, ", option->name, config_type_name(option->type));
    text_add_format(out, option->flags & OPTION_NEEDED ? "%s" : "default %s", default_of(option));
    if (option->choices || option->min != 0 || option->max != 0) {
        text_add(out, ", ");
        add_range(option, out);
    }
    if (option->unit[0])
        text_add_format(out, " %s", option->unit);
    text_add_format(out, ": %s\n", option->sentence);
}

// Comment lines begin with "# ", options with "#name:", so that taking away one '#' before a name is all it
// needs.
static void add_comment(const char *text, Text *out)
{
    enum { COLUMNS = 100 };
    while (*text) {
        size_t length = strlen(text), cut = length;
        if (length > COLUMNS - 2) {
            for (cut = COLUMNS - 2; cut > 0 && text[cut] != ' '; cut--)
                continue;
            cut = cut ? cut : COLUMNS - 2;
        }
        text_add(out, "# ");
        text_add_bytes(out, text, cut);
        text_add_char(out, '\n');
        text += cut;
        text += *text == ' ';
    }
}

static void add_default(const Option *option, Text *out)
{
    const char *text = option->fallback;
    if (!text)
        return;
    text_add_char(out, ' ');
    if (!config_is_list(option->type)) {
        add_scalar(out, text);
        return;
    }
    text_add_char(out, '[');
    for (const char *item = text; *item;) {
        size_t length = strcspn(item, ",");
        text_add_bytes(out, item, length);
        item += length;
        if (*item) {
            text_add(out, ", ");
            item++;
        }
    }
    text_add_char(out, ']');
}

void config_sample(Text *out)
{
    add_comment(
        "Configuration of fedgate: every option with its default. Take away the '#' before a name to change "
        "it; model, "
        "data.train and data.target are needed, and at least one column in data.numeric or data.categorical.",
        out);
    add_comment(
        "'train.batch: 256' may also be written nested: 'train:' and below it, indented, 'batch: 256'.", out);
    const char *section = "";
    for (size_t i = 0; i < config_option_count; i++) {
        const Option *option = &config_options[i];
        size_t length = strcspn(option->name, ".");
        if (i == 0 || strlen(section) < length || strncmp(section, option->name, length) != 0 ||
            (section[length] != '.' && section[length]))
            text_add_char(out, '\n');
        section = option->name;
        SCOPED_TEXT comment;
        text_init(&comment, 2000);
        text_add_format(&comment, "%s (%s", option->sentence, config_type_name(option->type));
        if (option->choices || option->min != 0 || option->max != 0) {
            text_add(&comment, ": ");
            add_range(option, &comment);
        }
        text_add_format(&comment, "%s%s%s)", option->unit[0] ? " " : "", option->unit,
                        option->flags & OPTION_NEEDED ? ", needed" : "");
        add_comment(text_string(&comment), out);
        text_add_format(out, "#%s:", option->name);
        add_default(option, out);
        text_add_char(out, '\n');
    }
}

static void add_cell(const char *text, Text *out)
{
    text_add(out, " ");
    for (; *text; text++) {
        if (*text == '|')
            text_add_char(out, '\\');
        text_add_char(out, *text);
    }
    text_add(out, " |");
}

void config_manual(Text *out)
{
    static const struct {
        unsigned flag;
        const char *word;
    } marks[] = {
        {OPTION_IDENTITY, "version"},
        {OPTION_POLICY, "policy"},
        {OPTION_SECRET, "secret"},
        {OPTION_NEEDED, "needed"},
    };
    text_add(out, "| option | type | default | range | unit | enters | what it does "
                  "|\n|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < config_option_count; i++) {
        const Option *option = &config_options[i];
        SCOPED_TEXT range, words;
        text_init(&range, 500);
        text_init(&words, 100);
        add_range(option, &range);
        for (size_t k = 0; k < sizeof marks / sizeof marks[0]; k++)
            if (option->flags & marks[k].flag)
                text_add_format(&words, "%s%s", words.length ? ", " : "", marks[k].word);
        text_add_format(out, "| `%s` |", option->name);
        add_cell(config_type_name(option->type), out);
        add_cell(default_of(option), out);
        add_cell(text_string(&range), out);
        add_cell(option->unit, out);
        add_cell(text_string(&words), out);
        add_cell(option->sentence, out);
        text_add_char(out, '\n');
    }
}
