// load - puts a configuration together: defaults, then the file, then the environment, then --set flags.
#include "config_internal.h"

#include <fedgate/file.h>
#include <string.h>
#include <unistd.h>

#define ENVIRONMENT_PREFIX "FEDGATE_SET_"

static bool fail_memory(Error *error)
{
    return FAIL(error, ERROR_MEMORY, 0, "could not keep the configuration in memory");
}

bool config_fail_unknown(const char *source, const char *name, Error *error)
{
    char shown[CONFIG_SHOWN_SIZE];
    config_show_raw(NULL, name, shown);
    (void)FAIL(error, ERROR_CONFIG, 0, "%s: unknown option '%s'", source, shown);
    size_t length = strlen(name);
    for (size_t i = 0; i < config_option_count; i++)
        if (length && strncmp(config_options[i].name, name, length) == 0 &&
            config_options[i].name[length] == '.')
            return error_hint(error, "'%s' is a section; write its options below it, for example '%s'.",
                              shown, config_options[i].name);
    const char *nearest = config_nearest(name);
    return nearest ? error_hint(error, "Did you mean '%s'?", nearest)
                   : error_hint(error, "The command 'fedgate config sample' lists every option.");
}

static Config *config_new(Error *error)
{
    Arena *memory = arena_new(CONFIG_ARENA_BYTES);
    Config *config = memory ? arena_take(memory, sizeof *config) : NULL;
    Value *values = config ? arena_take_array(memory, config_option_count, sizeof *values) : NULL;
    if (!values) {
        arena_free(memory);
        (void)fail_memory(error);
        return NULL;
    }
    config->memory = memory;
    config->values = values;
    config->path = "";
    return config;
}

static bool assign_defaults(Config *config, Error *error)
{
    for (size_t i = 0; i < config_option_count; i++) {
        const Option *option = &config_options[i];
        const Given given = {.text = option->fallback ? option->fallback : "", .source = "default"};
        config->values[i].text = "";
        config->values[i].source = "default";
        if (option->fallback && !config_assign(config, option, &given, error)) {
            if (error->kind != ERROR_CONFIG)
                return false;
            BUG("default of option '%s' is not valid: %s", option->name, error->message);
        }
        config->values[i].given = false;
    }
    return true;
}

// FEDGATE_SET_TRAIN__LEARNING_RATE -> train.learning_rate; false when it has a character that no such name
// has.
static bool option_name_of(const char *variable, size_t length, char *ret_name, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        char c = variable[i];
        if (used + 1 >= size || !((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'))
            return false;
        if (c == '_' && i + 1 < length && variable[i + 1] == '_') {
            c = '.';
            i++;
        } else if (c >= 'A' && c <= 'Z') {
            c = (char)(c - 'A' + 'a');
        }
        ret_name[used++] = c;
    }
    ret_name[used] = '\0';
    return true;
}

static bool read_environment(Config *config, char *const *environment, Error *error)
{
    for (; environment && *environment; environment++) {
        const char *equals = strchr(*environment, '=');
        if (!equals || !text_starts_with(*environment, ENVIRONMENT_PREFIX))
            continue;
        const char *variable = *environment + strlen(ENVIRONMENT_PREFIX);
        char name[128];
        const char *source = arena_format(config->memory, "%.*s", (int)(equals - *environment), *environment);
        if (!source)
            return fail_memory(error);
        if (!option_name_of(variable, (size_t)(equals - variable), name, sizeof name)) {
            char shown[CONFIG_SHOWN_SIZE];
            config_show_raw(NULL, source, shown);
            (void)FAIL(error, ERROR_CONFIG, 0, "environment variable '%s' does not name an option", shown);
            return error_hint(error, "Write the option's name in upper case with '__' for each dot.");
        }
        const Option *option = config_find_option(name);
        if (!option)
            return config_fail_unknown(source, name, error);
        if (!config_assign(config, option, &(Given){.text = equals + 1, .source = source}, error))
            return false;
    }
    return true;
}

static bool read_sets(Config *config, const char *const *sets, size_t set_count, Error *error)
{
    for (size_t i = 0; i < set_count; i++) {
        const char *equals = strchr(sets[i], '=');
        char name[128];
        if (!equals || !text_print(name, sizeof name, "%.*s", (int)(equals - sets[i]), sets[i])) {
            char shown[CONFIG_SHOWN_SIZE];
            config_show_raw(NULL, sets[i], shown);
            (void)FAIL(error, ERROR_CONFIG, 0, "--set: '%s' is not of the form name=value", shown);
            return error_hint(error, "Write for example --set train.epochs=10.");
        }
        const Option *option = config_find_option(name);
        if (!option)
            return config_fail_unknown("--set", name, error);
        if (!config_assign(config, option, &(Given){.text = equals + 1, .source = "--set"}, error))
            return false;
    }
    return true;
}

static bool make_absolute(Config *config, size_t index, const char *folder, const char **path, Error *error)
{
    char joined[FILE_PATH_SIZE];
    if ((*path)[0] == '\0' || (*path)[0] == '/')
        return true;
    if (!file_join(joined, folder, *path, error)) {
        error->kind = ERROR_CONFIG;   // whoever wrote the option can help, not whoever typed the command
        return error_prefix(error, "%s: option '%s'", config->values[index].source,
                            config_options[index].name);
    }
    *path = arena_copy_string(config->memory, joined);
    return *path || fail_memory(error);
}

// The folder of the file that was read, absolute, so that paths mean the same after a change of working
// directory.
static bool folder_of(const char *path, const char *working, char *ret_folder, Error *error)
{
    const char *slash = strrchr(path, '/');
    char folder[FILE_PATH_SIZE];
    if (!slash)
        return file_join(ret_folder, working, "", error);
    if (!text_print(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path))
        return FAIL(error, ERROR_CONFIG, 0, "configuration path is longer than %d bytes", FILE_PATH_SIZE - 1);
    return file_join(ret_folder, working, folder, error);
}

// Single paths first: PATHS of a section start at its '<section>.directory' when that is given.
static bool resolve_paths(Config *config, Error *error)
{
    char working[FILE_PATH_SIZE], folder[FILE_PATH_SIZE];
    if (!getcwd(working, sizeof working))
        return FAIL(error, ERROR_CONFIG, 0, "the working directory cannot be named");
    if (!folder_of(config->path, working, folder, error))
        return false;
    for (size_t i = 0; i < config_option_count; i++)
        if (config_options[i].type == OPTION_PATH &&
            !make_absolute(config, i, config->values[i].from_file ? folder : working, &config->values[i].text,
                           error))
            return false;
    for (size_t i = 0; i < config_option_count; i++) {
        if (config_options[i].type != OPTION_PATHS)
            continue;
        Value *value = &config->values[i];
        char name[128];
        int section = (int)strcspn(config_options[i].name, ".");
        const Option *home = text_print(name, sizeof name, "%.*s.directory", section, config_options[i].name)
                                 ? config_find_option(name)
                                 : NULL;
        const char *start = home ? config->values[home - config_options].text : "";
        if (start[0] == '\0')
            start = value->from_file ? folder : working;
        for (size_t k = 0; k < value->count; k++)
            if (!make_absolute(config, i, start, &value->items[k], error))
                return false;
    }
    return true;
}

Config *config_load(const char *path, const char *const *sets, size_t set_count, char *const *environment,
                    Error *error)
{
    OWNED(Config, config_free) *config = config_new(error);
    if (!config || !assign_defaults(config, error))
        return NULL;
    if (path) {
        config->path = arena_copy_string(config->memory, path);
        if (!config->path) {
            (void)fail_memory(error);
            return NULL;
        }
        if (!config_read_yaml(config, path, 0, error))
            return NULL;
    }
    if (!read_environment(config, environment, error) || !read_sets(config, sets, set_count, error) ||
        !resolve_paths(config, error))
        return NULL;
    Config *done = config;
    config = NULL;
    return done;
}

// Copies one value whole, so that both configurations can be freed in any order.
static bool copy_value(Config *to, const Value *from, Value *ret_value)
{
    Value copy = *from;
    copy.text = arena_copy_string(to->memory, from->text);
    copy.source = arena_copy_string(to->memory, from->source);
    copy.items = from->count ? arena_take_array(to->memory, from->count, sizeof *copy.items) : NULL;
    copy.integers = from->integers ? arena_take_array(to->memory, from->count, sizeof *copy.integers) : NULL;
    if (!copy.text || !copy.source || (from->count && !copy.items) || (from->integers && !copy.integers))
        return false;
    for (size_t i = 0; i < from->count; i++) {
        if (!(copy.items[i] = arena_copy_string(to->memory, from->items[i])))
            return false;
        if (copy.integers)
            copy.integers[i] = from->integers[i];
    }
    *ret_value = copy;
    return true;
}

Config *config_load_policy(const Config *base, const char *path, Error *error)
{
    OWNED(Config, config_free) *config = config_new(error);
    if (!config)
        return NULL;
    for (size_t i = 0; i < config_option_count; i++)
        if (!copy_value(config, &base->values[i], &config->values[i])) {
            (void)fail_memory(error);
            return NULL;
        }
    config->path = arena_copy_string(config->memory, path);
    if (!config->path) {
        (void)fail_memory(error);
        return NULL;
    }
    if (!config_read_yaml(config, path, OPTION_POLICY, error))
        return NULL;
    Config *done = config;
    config = NULL;
    return done;
}

const char *config_path(const Config *config)
{
    return config->path;
}

void config_free(Config *config)
{
    if (config)
        arena_free(config->memory);
}
