// config_internal.h - what the files of this module share: the stored values and the one way to set them.
#ifndef FEDGATE_CONFIG_INTERNAL_H
#define FEDGATE_CONFIG_INTERNAL_H

#include <fedgate/config.h>

enum {
    CONFIG_FILE_BYTES = 256 * 1000,
    CONFIG_DEPTH = 16,   // nested mappings of a configuration file
    CONFIG_TEXT_BYTES = 4000,   // one value
    CONFIG_LIST_ITEMS = 4096,
    CONFIG_INTEGERS_ITEMS = 32,   // numbers in an INTEGERS list: layers of a model
    CONFIG_ARENA_BYTES = 16 * 1000 * 1000,
};

typedef struct Value {
    const char *text;   // as written, PATH made absolute; "" for lists
    int64_t integer;
    double real;
    bool flag;
    const char **items;   // lists; PATHS made absolute
    int64_t *integers;   // INTEGERS
    size_t count;
    const char *source;   // "default", "file:line", variable name, "--set"
    bool given;
    bool from_file;   // relative paths then start at the file's folder
} Value;

struct Config {
    Arena *memory;   // everything below lives here
    Value *values;   // [config_option_count], in the table's order
    const char *path;
};

// What somebody wrote for one option, before it is understood.
typedef struct Given {
    const char *text;   // scalar; a list option splits it at commas
    const char *const *items;   // sequence when not NULL
    size_t count;
    const char *source;
    bool from_file;
} Given;

// Parses `given` by the option's type, checks range, choices and the option's own rule, and stores it.
WARN_UNUSED bool config_assign(Config *config, const Option *option, const Given *given, Error *error);

// The option's own rule beyond type and range (rules.c): a row of a table, most options have none.
WARN_UNUSED bool config_check_rule(const Option *option, const Value *value, Error *error);

// Reads a YAML file into the configuration; `wanted` 0 stores all options, else only those with one of the
// flags.
WARN_UNUSED bool config_read_yaml(Config *config, const char *path, unsigned wanted, Error *error);

// ERROR_CONFIG "<source>: unknown option '<name>'" with the nearest name as hint; returns false.
bool config_fail_unknown(const char *source, const char *name, Error *error);

double config_item_real(const Value *value, size_t index);   // of a REALS list
const Value *config_value(const Config *config, const char *name,
                          unsigned types);   // BUG when unknown or another type
#define TYPE_BIT(type) (1u << (type))

bool config_is_list(OptionType type);
bool config_is_path(OptionType type);
const char *config_type_name(OptionType type);
// Printable form of a value for a message: escaped, cut, "(secret)" for secrets.
enum { CONFIG_SHOWN_SIZE = 96 };
void config_show_raw(const Option *option, const char *raw, char ret_shown[static CONFIG_SHOWN_SIZE]);

#endif
