// options - the command line: common options, those of the command's row, arguments; and the help made of the
// same rows.
//
// "--name value" and "--name=value" are one; "--" ends options; common options may stand before the command
// too.
#include "cli.h"
#include <stdlib.h>
#include <string.h>

enum { OPT_HOME, OPT_CONFIG, OPT_SET, OPT_FORMAT, OPT_QUIET, OPT_HELP, OPT_VERSION };

const CommandOption common_options[] = {
    [OPT_HOME] = {"home", "DIR", "the home; else the environment's FEDGATE_HOME"},
    [OPT_CONFIG] = {"config", "FILE", "configuration (default: fedgate.yaml in the home)"},
    [OPT_SET] = {"set", "KEY=VALUE", "one option; wins over file and environment; repeatable"},
    [OPT_FORMAT] = {"format", "text|json", "how to print (default text)"},
    [OPT_QUIET] = {"quiet", NULL, "print nothing when all is well"},
    [OPT_HELP] = {"help", NULL, "this help"},
    [OPT_VERSION] = {"version", NULL, "version of the program"},
};
const size_t common_option_count = sizeof common_options / sizeof common_options[0];

static size_t own_count(const Command *command)
{
    size_t count = 0;
    while (command && count < COMMAND_OPTIONS && command->options[count].name)
        count++;
    return count;
}

static bool fail_unknown_option(const Command *command, const char *name, Error *error)
{
    const char *candidates[16];
    size_t count = 0;
    for (size_t i = 0; i < own_count(command); i++)
        candidates[count++] = command->options[i].name;
    for (size_t i = 0; i < common_option_count; i++)
        candidates[count++] = common_options[i].name;
    const char *nearest = text_nearest(name, candidates, count);
    if (!command) {
        (void)FAIL(error, ERROR_USAGE, 0, "unknown option '--%s'", name);
        return error_hint(error,
                          nearest ? "Did you mean --%s?"
                                  : "Options of a command stand after it; try 'fedgate help'.",
                          nearest);
    }
    (void)FAIL(error, ERROR_USAGE, 0, "command '%s' has no option '--%s'", command->name, name);
    if (nearest)
        return error_hint(error, "Did you mean --%s?", nearest);
    return error_hint(error, "Try 'fedgate help %s'.", command->name);
}

static bool apply_common(size_t which, const char *value, Invocation *call, Error *error)
{
    switch (which) {
    case OPT_HOME: call->home = value; break;
    case OPT_CONFIG: call->config_path = value; break;
    case OPT_SET: call->sets[call->set_count++] = value; break;
    case OPT_QUIET: call->quiet = true; break;
    case OPT_HELP: call->help = true; break;
    case OPT_VERSION: call->version = true; break;
    case OPT_FORMAT:
        call->json = text_equal(value, "json");
        call->html = text_equal(value, "html");
        if (!text_equal(value, "text") && !call->json && !call->html)
            return FAIL(error, ERROR_USAGE, 0,
                        "unknown format '%s', known are 'text', 'json' and, of a verdict, 'html'", value);
        break;
    default: BUG("common option %zu has no meaning", which);
    }
    return true;
}

// One "--option" at argv[*index]; moves *index past its value.
static bool parse_option(int argc, char **argv, int *index, Invocation *call, Error *error)
{
    char name[64];
    const char *given = argv[*index] + 2, *equals = strchr(given, '=');
    size_t length = equals ? (size_t)(equals - given) : strlen(given);
    if (length >= sizeof name)
        return FAIL(error, ERROR_USAGE, 0, "unknown option '%.80s'", argv[*index]);
    memcpy(name, given, length);
    name[length] = '\0';

    const CommandOption *option = NULL;
    size_t own = own_count(call->command), common = common_option_count;
    size_t which = 0;
    for (size_t i = 0; i < own; i++)
        if (text_equal(call->command->options[i].name, name)) {
            option = &call->command->options[i];
            which = i;
        }
    for (size_t i = 0; i < common && !option; i++)
        if (text_equal(common_options[i].name, name)) {
            option = &common_options[i];
            which = i;
        }
    if (!option)
        return fail_unknown_option(call->command, name, error);
    const char *value = "";
    if (option->value) {
        if (!equals && *index + 1 >= argc)
            return FAIL(error, ERROR_USAGE, 0, "option '--%s' needs a value: %s", name, option->value);
        value = equals ? equals + 1 : argv[++*index];
    } else if (equals) {
        return FAIL(error, ERROR_USAGE, 0, "option '--%s' takes no value, '%s' was given", name, equals + 1);
    }
    if (option >= common_options && option < common_options + common)
        return apply_common(which, value, call, error);
    if (call->values[which])
        return FAIL(error, ERROR_USAGE, 0, "option '--%s' given twice", name);
    call->values[which] = value;
    return true;
}

static bool check_arguments(const Invocation *call, Error *error)
{
    const Command *command = call->command;
    if (!command || call->help || call->version)
        return true;
    if (call->html && !command->html)
        return FAIL(error, ERROR_USAGE, 0, "command '%s' has no format 'html', known are 'text' and 'json'",
                    command->name);
    if (call->argument_count < (size_t)command->minimum) {
        (void)FAIL(error, ERROR_USAGE, 0, "command '%s' needs %s", command->name, command->usage);
        return error_hint(error, "Try 'fedgate help %s'.", command->name);
    }
    if (command->maximum >= 0 && call->argument_count > (size_t)command->maximum)
        return FAIL(error, ERROR_USAGE, 0, "command '%s' takes at most %d arguments, '%s' is one too many",
                    command->name, command->maximum, call->arguments[command->maximum]);
    return true;
}

bool options_parse(int argc, char **argv, Invocation *ret_call, Error *error)
{
    Invocation call = {0};
    size_t room = argc > 0 ? (size_t)argc : 1;
    call.sets = calloc(room, sizeof *call.sets);
    call.arguments = calloc(room, sizeof *call.arguments);
    *ret_call = call;
    if (!call.sets || !call.arguments)
        return FAIL(error, ERROR_MEMORY, 0, "out of memory for %d arguments", argc);
    bool options_ended = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!options_ended && text_equal(word, "--")) {
            options_ended = true;
        } else if (!options_ended && text_equal(word, "-h")) {
            ret_call->help = true;
        } else if (!options_ended && text_starts_with(word, "--")) {
            if (!parse_option(argc, argv, &i, ret_call, error))
                return false;
        } else if (!options_ended && word[0] == '-' && word[1]) {
            (void)FAIL(error, ERROR_USAGE, 0, "unknown option '%s'", word);
            return error_hint(error, "Options are long: --home, --config, --help.");
        } else if (!ret_call->command) {
            ret_call->command = command_find(word);
            if (!ret_call->command)
                return command_unknown(word, error);
        } else {
            ret_call->arguments[ret_call->argument_count++] = word;
        }
    }
    if (!ret_call->home) {
        const char *home = getenv("FEDGATE_HOME");
        ret_call->home = home && *home ? home : NULL;
    }
    return check_arguments(ret_call, error);
}

void options_done(Invocation *call)
{
    free(call->sets);
    free(call->arguments);
}

const char *option_value(const Invocation *call, const char *name)
{
    for (size_t i = 0; i < own_count(call->command); i++)
        if (text_equal(call->command->options[i].name, name))
            return call->values[i];
    BUG("command '%s' has no option '%s'", call->command->name, name);
}

static void add_option_line(const CommandOption *option, Text *out)
{
    SCOPED_TEXT left;
    text_init(&left, 256);
    text_add_format(&left, "--%s%s%s", option->name, option->value ? " " : "",
                    option->value ? option->value : "");
    text_add_format(out, "  %-20s %s\n", text_string(&left), option->sentence);
}

void help_program(Text *out)
{
    text_add(out, "fedgate: the nightly release gate of a trained model.\n\nusage: fedgate COMMAND "
                  "[ARGUMENTS] [OPTIONS]\n\n");
    for (size_t i = 0; i < command_count; i++)
        text_add_format(out, "  %-9s %s\n", commands[i].name, commands[i].summary);
    text_add(out, "\nOptions of every command:\n");
    for (size_t i = 0; i < common_option_count; i++)
        add_option_line(&common_options[i], out);
    text_add(out, "\n'fedgate help COMMAND' tells more. Begin with: fedgate init --home DIR\n");
}

void help_command(const Command *command, Text *out)
{
    text_add_format(out, "usage: fedgate %s%s%s\n\n%s\n", command->name, *command->usage ? " " : "",
                    command->usage, command->summary);
    if (command->more)
        text_add_format(out, "\n%s", command->more);
    if (own_count(command) > 0) {
        text_add(out, "\nOptions:\n");
        for (size_t i = 0; i < own_count(command); i++)
            add_option_line(&command->options[i], out);
    }
    text_add(out, "\nOptions of every command:\n");
    for (size_t i = 0; i < common_option_count; i++)
        add_option_line(&common_options[i], out);
}
