// ask - values by name and type, and names by resemblance.
#include "config_internal.h"

#include <string.h>

const Option *config_find_option(const char *name)
{
    for (size_t i = 0; i < config_option_count; i++)
        if (text_equal(config_options[i].name, name))
            return &config_options[i];
    return NULL;
}

// The part after the section is what people remember: 'epochs' means 'train.epochs' before it means a near
// spelling.
const char *config_nearest(const char *name)
{
    enum { MOST = 256 };
    const char *names[MOST], *ends[MOST];
    if (config_option_count > MOST)
        BUG("%zu options, config_nearest holds %d", config_option_count, MOST);
    for (size_t i = 0; i < config_option_count; i++) {
        const char *dot = strrchr(config_options[i].name, '.');
        names[i] = config_options[i].name;
        ends[i] = dot ? dot + 1 : names[i];
        if (text_equal(ends[i], name))
            return names[i];
    }
    const char *nearest = text_nearest(name, names, config_option_count);
    if (nearest)
        return nearest;
    const char *end = strrchr(name, '.');
    nearest = text_nearest(end ? end + 1 : name, ends, config_option_count);
    for (size_t i = 0; nearest && i < config_option_count; i++)
        if (ends[i] == nearest)
            return names[i];
    return NULL;
}

const Value *config_value(const Config *config, const char *name, unsigned types)
{
    const Option *option = config_find_option(name);
    if (!option)
        BUG("option '%s' does not exist", name);
    if (!(TYPE_BIT(option->type) & types))
        BUG("option '%s' is of type %s, asked for as another", name, config_type_name(option->type));
    return &config->values[option - config_options];
}

enum {
    TEXTS = TYPE_BIT(OPTION_TEXT) | TYPE_BIT(OPTION_PATH) | TYPE_BIT(OPTION_CHOICE) | TYPE_BIT(OPTION_TIME) |
            TYPE_BIT(OPTION_ZONE),
    WHOLE = TYPE_BIT(OPTION_INTEGER) | TYPE_BIT(OPTION_BYTES),
    NUMBERS = WHOLE | TYPE_BIT(OPTION_REAL) | TYPE_BIT(OPTION_DURATION),
    LISTS =
        TYPE_BIT(OPTION_LIST) | TYPE_BIT(OPTION_PATHS) | TYPE_BIT(OPTION_INTEGERS) | TYPE_BIT(OPTION_REALS),
    ANY = TEXTS | NUMBERS | LISTS | TYPE_BIT(OPTION_BOOL),
};

const char *config_text(const Config *config, const char *name)
{
    return config_value(config, name, TEXTS)->text;
}
int64_t config_integer(const Config *config, const char *name)
{
    return config_value(config, name, WHOLE)->integer;
}
double config_real(const Config *config, const char *name)
{
    return config_value(config, name, NUMBERS)->real;
}
bool config_bool(const Config *config, const char *name)
{
    return config_value(config, name, TYPE_BIT(OPTION_BOOL))->flag;
}
size_t config_list_count(const Config *config, const char *name)
{
    return config_value(config, name, LISTS)->count;
}
bool config_given(const Config *config, const char *name)
{
    return config_value(config, name, ANY)->given;
}
const char *config_source(const Config *config, const char *name)
{
    return config_value(config, name, ANY)->source;
}

static const Value *item_of(const Config *config, const char *name, size_t index, unsigned types)
{
    const Value *value = config_value(config, name, types);
    if (index >= value->count)
        BUG("item %zu of list '%s', which has %zu", index, name, value->count);
    return value;
}

const char *config_list_text(const Config *config, const char *name, size_t index)
{
    return item_of(config, name, index, LISTS)->items[index];
}

double config_item_real(const Value *value, size_t index)
{
    double real = 0;
    if (!text_to_double(value->items[index], &real))
        BUG("'%s' was a number when it was read", value->items[index]);
    return real;
}

int64_t config_list_integer(const Config *config, const char *name, size_t index)
{
    return item_of(config, name, index, TYPE_BIT(OPTION_INTEGERS))->integers[index];
}

double config_list_real(const Config *config, const char *name, size_t index)
{
    return config_item_real(item_of(config, name, index, TYPE_BIT(OPTION_REALS)), index);
}

bool config_list_has(const Config *config, const char *name, const char *item)
{
    const Value *value = config_value(config, name, LISTS);
    for (size_t i = 0; i < value->count; i++)
        if (text_equal(value->items[i], item))
            return true;
    return false;
}
