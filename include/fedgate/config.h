// config.h - one option table feeds YAML, environment, --set, help, sample, validation, dump and manual.
//
// Precedence: defaults < file < environment (FEDGATE_SET_<NAME>, dots as '__') < --set flags. Everything
// wrong is ERROR_CONFIG (78) naming source and line, the value and the limit: unknown key (nearest name
// suggested), duplicate key, YAML alias, wrong type, out of range, unknown check, required check switched
// off, empty policy. Nothing is ever ignored. YAML nesting is flattened with dots; a sequence is a LIST
// (elsewhere items stand between commas). Every PATH and PATHS value comes back absolute: relative ones start
// at the configuration file's folder when they came from it, else at the working directory; PATHS start at
// their section's `directory` option when that is given.
#ifndef FEDGATE_CONFIG_H
#define FEDGATE_CONFIG_H

#include <fedgate/arena.h>
#include <fedgate/hash.h>
#include <fedgate/json.h>

typedef enum OptionType {
    OPTION_TEXT,
    OPTION_PATH,
    OPTION_INTEGER,
    OPTION_REAL,
    OPTION_BOOL,       // true or false
    OPTION_CHOICE,     // one of `choices`, separated by '|'
    OPTION_LIST,       // texts
    OPTION_INTEGERS,   // list of integers, each inside min..max
    OPTION_REALS,      // list of finite numbers, each inside min..max
    OPTION_PATHS,      // list of paths
    OPTION_BYTES,      // integer with optional decimal suffix kB MB GB TB (1e3) or KiB MiB GiB TiB (2^10)
    OPTION_DURATION,   // number with suffix ms, s, min, h; kept in seconds
    OPTION_TIME,       // HH:MM
    OPTION_ZONE,       // name in the tz database; "" = the system's
} OptionType;

typedef enum OptionFlag {
    OPTION_IDENTITY = 1,  // changes the result: enters the exact version
    OPTION_POLICY = 2,    // judge's limits: enters the policy digest, may be replaced by `judge --policy`
    OPTION_SECRET = 4,    // never logged, dumped or hashed
    OPTION_NEEDED = 8,    // no default: `run` refuses without it
} OptionFlag;

typedef struct Option {
    const char *name;      // dotted
    OptionType type;
    const char *fallback;  // default as text; a list is comma-separated; NULL = none
    double min, max;       // numbers; both 0 = no range
    const char *choices;   // CHOICE: "a|b|c"
    const char *unit;      // "samples", "ratio", "bytes", "" ...
    const char *sentence;  // what it does, for help and sample
    unsigned flags;
} Option;

extern const Option config_options[];   // grouped by the part before the first dot, in printing order
extern const size_t config_option_count;

typedef struct Config Config;

// -- make
// path NULL: no file. sets: "name=value" from --set, in order. environment: `environ`-style, may be NULL.
WARN_UNUSED Config *config_load(const char *path, const char *const *sets, size_t set_count,
                                char *const *environment, Error *error);
// Base with the POLICY options this file gives; it may be a whole configuration, whose other options are
// checked and not taken.
WARN_UNUSED Config *config_load_policy(const Config *base, const char *path, Error *error);
// Every NEEDED option given, sections consistent.
WARN_UNUSED bool config_check_needed(const Config *config, Error *error);
const char *config_path(const Config *config);   // the file read, "" when none

// -- ask; an unknown name or another type is a BUG; values are borrowed from the configuration
// TEXT PATH CHOICE TIME ZONE; "" when not given.
const char *config_text(const Config *config, const char *name);
int64_t config_integer(const Config *config, const char *name);      // INTEGER BYTES
double config_real(const Config *config, const char *name);          // REAL, DURATION (seconds), INTEGER too
bool config_bool(const Config *config, const char *name);
size_t config_list_count(const Config *config, const char *name);    // LIST PATHS INTEGERS REALS
double config_list_real(const Config *config, const char *name, size_t index);   // REALS
const char *config_list_text(const Config *config, const char *name, size_t index);
int64_t config_list_integer(const Config *config, const char *name, size_t index);
bool config_list_has(const Config *config, const char *name, const char *item);
bool config_given(const Config *config, const char *name);           // set by file, environment or flag
// "default", "fedgate.yaml:12", "FEDGATE_SET_...", "--set".
const char *config_source(const Config *config, const char *name);
const Option *config_find_option(const char *name);                  // NULL when unknown
const char *config_nearest(const char *name);                        // nearest option name or NULL

// -- show
void config_dump(const Config *config, Text *out);   // "name = value  # source", secrets as "(secret)"
// Options having any of the flags (0: all but secrets), canonical order.
Json *config_to_json(const Config *config, unsigned flags_any);
void config_policy_digest(const Config *config, Digest *ret_digest);
void config_sample(Text *out);                                  // a commented YAML file with every option
// One line: name, type, default, range, unit, sentence.
void config_help_option(const Option *option, Text *out);
void config_manual(Text *out);                                  // Markdown table of all options

void config_free(Config *config);
OWNED_RELEASE(Config, config_free)

#endif
