// cli.h - the command table and what one command line said; private to src/cli.
//
// A command is one row of `commands` and a handler in a file cmd_<name>.c. A handler returns true with its
// exit code, or false with an Error, whose kind gives the exit code; main prints it. Only this folder knows
// argv.
#ifndef FEDGATE_CLI_H
#define FEDGATE_CLI_H

#include <fedgate/config.h>
#include <fedgate/registry.h>
#include <stdio.h>

enum { COMMAND_OPTIONS = 6 };   // most options one command may have

typedef struct CommandOption {
    const char *name;       // without dashes
    const char *value;      // placeholder of its value in help; NULL: a switch
    const char *sentence;
} CommandOption;

typedef struct Invocation Invocation;

typedef struct Command {
    const char *name;
    const char *usage;      // arguments and options of its own, as in "[--to VERSION] --reason TEXT"; "" none
    const char *summary;    // one line
    const char *more;       // further help, whole lines; NULL none
    int minimum, maximum;   // count of arguments; maximum -1: any number
    CommandOption options[COMMAND_OPTIONS];   // up to the first without name
    bool (*handler)(const Invocation *call, int *ret_exit, Error *error);
    bool html;              // prints with --format html too
    bool light;             // multiplies no matrices: the program need not start again for its BLAS
} Command;

extern const Command commands[];   // in the order of help
extern const size_t command_count;
const Command *command_find(const char *name);           // NULL when unknown
bool command_unknown(const char *name, Error *error);    // false: ERROR_USAGE, the nearest one in the hint

// -- what the command line said
struct Invocation {
    const Command *command;    // NULL: none given
    const char *home;          // --home, else FEDGATE_HOME, else NULL
    const char *config_path;   // --config, else NULL
    const char **sets;         // --set, in order
    size_t set_count;
    const char **arguments;
    size_t argument_count;
    const char *values[COMMAND_OPTIONS];   // of the command's options: "" a given switch, NULL not given
    bool json, html, quiet, help, version;
};
WARN_UNUSED bool options_parse(int argc, char **argv, Invocation *ret_call, Error *error);   // ERROR_USAGE
void options_done(Invocation *call);
const char *option_value(const Invocation *call, const char *name);   // NULL not given; unknown name is a BUG
extern const CommandOption common_options[];
extern const size_t common_option_count;
void help_program(Text *out);
void help_command(const Command *command, Text *out);

// -- what most commands begin with
extern char **environ;
WARN_UNUSED bool call_home(const Invocation *call, const char **ret_home, Error *error);
// --config, else <home>/fedgate.yaml when there is one, else defaults; then environment and --set.
WARN_UNUSED Config *call_config(const Invocation *call, Error *error);
WARN_UNUSED Registry *call_registry(const Invocation *call, Error *error);
// Puts what is live now into the verdict's `current`; a move since that verdict is described in `moved`.
WARN_UNUSED bool call_refresh_live(const Registry *registry, Json *verdict, Text *moved, Error *error);
// The owner's account for what only the owner may do (owner.c). ERROR_DENIED when the caller is not it.
WARN_UNUSED bool call_owner(const Invocation *call, const Registry *registry, const char *action,
                            char ret_owner[static 64], Error *error);
WARN_UNUSED bool share_migrations(char *ret_directory, Error *error);   // [FILE_PATH_SIZE]
WARN_UNUSED bool parse_duration(const char *text, int64_t *ret_ns, Error *error);   // 90s, 15min, 26h, 2d
// RFC 3339, or "YYYY-MM-DD[ HH:MM]" in the zone.
WARN_UNUSED bool parse_instant(const char *text, const char *zone, int64_t *ret_wall_ns, Error *error);

// -- output: a closed stdout never breaks a command; output_failed tells main once, at the end, of a full one
void output_text(const Text *text);
void output_json(const Json *value);      // indented, newline at the end
void output_error(const Error *error);    // "fedgate: <message>" and "hint: ..." on stderr
bool output_failed(void);

// -- handlers
// clang-format off
#define COMMAND_HANDLERS(ROW)                                                            \
    ROW(init) ROW(run) ROW(verdict) ROW(status) ROW(current) ROW(history) ROW(at)        \
    ROW(rollback) ROW(hold) ROW(unhold) ROW(pin) ROW(unpin) ROW(prune) ROW(export)       \
    ROW(import) ROW(plan) ROW(judge) ROW(verify) ROW(migrate)    \
    ROW(doctor) ROW(watch) ROW(inspect) ROW(pack) ROW(config) ROW(help)
// clang-format on
#define COMMAND_DECLARE(name) bool cmd_##name(const Invocation *call, int *ret_exit, Error *error);
COMMAND_HANDLERS(COMMAND_DECLARE)
#undef COMMAND_DECLARE

#endif
