// yaml - the only libyaml: events of one configuration file, flattened to dotted option names.
//
// One document, a mapping at the top, at most CONFIG_DEPTH levels and CONFIG_FILE_BYTES bytes. Anchors,
// aliases and tags are refused: what a file says must be readable at the place where it says it. A name given
// twice is refused also when once nested and once dotted.
#include "config_internal.h"

#include <fedgate/file.h>
#include <string.h>
#include <yaml.h>

typedef struct Reader {
    yaml_parser_t parser;
    Config *config;
    const Text *bytes;
    const char *path;
    unsigned wanted;
    const char **first_source;   // [config_option_count]: where this file gave the option, or NULL
} Reader;

static int line_of(const yaml_event_t *event)
{
    return (int)event->start_mark.line + 1;
}

static bool fail_at(const Reader *reader, int line, const char *what, Error *error)
{
    return FAIL(error, ERROR_CONFIG, 0, "%s:%d: %s", reader->path, line, what);
}

// Anchors and tags can sit on any node; both are told from the event alone.
static bool check_plain(const Reader *reader, const yaml_event_t *event, Error *error)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return fail_at(reader, line_of(event), "a YAML alias is not allowed in a configuration", error);
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    default:
        break;
    }
    if (anchor)
        return fail_at(reader, line_of(event), "a YAML anchor is not allowed in a configuration", error);
    if (tag)
        return fail_at(reader, line_of(event), "a YAML tag is not allowed in a configuration", error);
    return true;
}

// libyaml knows the line of what it cannot parse, but of bytes it cannot read only the offset.
static int line_of_problem(const Reader *reader)
{
    if (reader->parser.error != YAML_READER_ERROR)
        return (int)reader->parser.problem_mark.line + 1;
    int line = 1;
    for (size_t i = 0; i < reader->bytes->length && i < reader->parser.problem_offset; i++)
        line += reader->bytes->data[i] == '\n';
    return line;
}

// Next event; the caller deletes it. On failure there is nothing to delete.
static bool next_event(Reader *reader, yaml_event_t *ret_event, Error *error)
{
    if (!yaml_parser_parse(&reader->parser, ret_event)) {
        int line = line_of_problem(reader);
        const char *problem = reader->parser.problem ? reader->parser.problem : "out of memory";
        return FAIL(error, ERROR_CONFIG, 0, "%s:%d: cannot read this as YAML: %s", reader->path, line,
                    problem);
    }
    if (check_plain(reader, ret_event, error))
        return true;
    yaml_event_delete(ret_event);
    return false;
}

// "Nothing" in YAML, which would be taken as a name here.
static bool is_null(const yaml_event_t *event)
{
    const char *bytes = (const char *)event->data.scalar.value;
    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (text_equal(bytes, "~") || text_equal(bytes, "null") || text_equal(bytes, "Null") ||
            text_equal(bytes, "NULL"));
}

// Copies a scalar into the arena; an embedded NUL would cut it silently.
static const char *scalar_text(Reader *reader, const yaml_event_t *event, Error *error)
{
    const char *bytes = (const char *)event->data.scalar.value;
    if (strlen(bytes) != event->data.scalar.length) {
        (void)fail_at(reader, line_of(event), "a NUL byte is not allowed in a value", error);
        return NULL;
    }
    if (is_null(event)) {
        (void)fail_at(reader, line_of(event), "a YAML null is not allowed in a configuration", error);
        (void)error_hint(error, "Leave the line out, write nothing after the colon, or quote the word.");
        return NULL;
    }
    const char *copy = arena_copy_string(reader->config->memory, bytes);
    if (!copy)
        (void)FAIL(error, ERROR_MEMORY, 0, "could not keep the configuration '%s'", reader->path);
    return copy;
}

static bool take_option(Reader *reader, const char *name, int line, Given *given, Error *error)
{
    const char *source = arena_format(reader->config->memory, "%s:%d", reader->path, line);
    if (!source)
        return FAIL(error, ERROR_MEMORY, 0, "could not keep the configuration '%s'", reader->path);
    const Option *option = config_find_option(name);
    if (!option)
        return config_fail_unknown(source, name, error);
    const char **first = &reader->first_source[option - config_options];
    if (*first)
        return FAIL(error, ERROR_CONFIG, 0, "%s: option '%s' is given twice, first at %s", source, name,
                    *first);
    *first = source;
    given->source = source;
    given->from_file = true;
    if (reader->wanted == 0 || (option->flags & reader->wanted))
        return config_assign(reader->config, option, given, error);

    // not wanted here, but still validated: a policy file with a wrong line is a wrong file
    OWNED(Arena, arena_free) *scratch = arena_new(CONFIG_ARENA_BYTES);
    Config discard = {scratch, scratch ? arena_take_array(scratch, config_option_count, sizeof(Value)) : NULL,
                      ""};
    if (!discard.values)
        return FAIL(error, ERROR_MEMORY, 0, "could not keep the configuration '%s'", reader->path);
    return config_assign(&discard, option, given, error);
}

static bool read_sequence(Reader *reader, const char *name, int line, Error *error)
{
    const char **items = arena_take_array(reader->config->memory, CONFIG_LIST_ITEMS, sizeof *items);
    if (!items)
        return FAIL(error, ERROR_MEMORY, 0, "could not keep the configuration '%s'", reader->path);
    for (size_t count = 0;; count++) {
        yaml_event_t event;
        if (!next_event(reader, &event, error))
            return false;
        bool end = event.type == YAML_SEQUENCE_END_EVENT, good = false;
        if (end)
            good = true;
        else if (event.type != YAML_SCALAR_EVENT)
            (void)FAIL(error, ERROR_CONFIG, 0, "%s:%d: an item of '%s' is not a plain value", reader->path,
                       line_of(&event), name);
        else if (count == CONFIG_LIST_ITEMS)
            (void)FAIL(error, ERROR_CONFIG, 0, "%s:%d: list '%s' has more than %d items", reader->path,
                       line_of(&event), name, CONFIG_LIST_ITEMS);
        else
            good = (items[count] = scalar_text(reader, &event, error)) != NULL;
        yaml_event_delete(&event);
        if (!good)
            return false;
        if (end)
            return take_option(reader, name, line, &(Given){.items = items, .count = count}, error);
    }
}

static bool read_mapping(Reader *reader, const char *prefix, int depth, int line, Error *error);

static bool read_value(Reader *reader, const char *name, int depth, int key_line, Error *error)
{
    yaml_event_t event;
    if (!next_event(reader, &event, error))
        return false;
    bool good = false;
    if (event.type == YAML_SCALAR_EVENT) {
        const char *text = scalar_text(reader, &event, error);
        good = text && take_option(reader, name, key_line, &(Given){.text = text}, error);
    } else if (event.type == YAML_SEQUENCE_START_EVENT) {
        good = read_sequence(reader, name, key_line, error);
    } else {
        good = read_mapping(reader, name, depth + 1, line_of(&event), error);
    }
    yaml_event_delete(&event);
    return good;
}

static bool read_mapping(Reader *reader, const char *prefix, int depth, int line, Error *error)
{
    if (depth > CONFIG_DEPTH)
        return FAIL(error, ERROR_CONFIG, 0, "%s:%d: nested %d levels deep, the limit is %d", reader->path,
                    line, depth, CONFIG_DEPTH);
    for (;;) {
        yaml_event_t event;
        if (!next_event(reader, &event, error))
            return false;
        int key_line = line_of(&event);
        bool end = event.type == YAML_MAPPING_END_EVENT;
        const char *key = NULL;
        if (!end && event.type != YAML_SCALAR_EVENT)
            (void)fail_at(reader, key_line, "a key is not a plain name", error);
        else if (!end)
            key = scalar_text(reader, &event, error);
        yaml_event_delete(&event);
        if (end)
            return true;
        if (!key)
            return false;
        const char *name = prefix[0] ? arena_format(reader->config->memory, "%s.%s", prefix, key) : key;
        if (!name)
            return FAIL(error, ERROR_MEMORY, 0, "could not keep the configuration '%s'", reader->path);
        if (!read_value(reader, name, depth, key_line, error))
            return false;
    }
}

static bool read_document(Reader *reader, Error *error)
{
    bool seen = false;
    for (;;) {
        yaml_event_t event;
        if (!next_event(reader, &event, error))
            return false;
        yaml_event_type_t type = event.type;
        int line = line_of(&event);
        bool empty =
            type == YAML_SCALAR_EVENT && event.data.scalar.length == 0 && event.data.scalar.plain_implicit;
        yaml_event_delete(&event);
        if (type == YAML_STREAM_END_EVENT)
            return true;
        if (type == YAML_DOCUMENT_START_EVENT) {
            if (seen)
                return fail_at(reader, line, "a second YAML document is not allowed in a configuration",
                               error);
            seen = true;
        } else if (type == YAML_MAPPING_START_EVENT) {
            if (!read_mapping(reader, "", 1, line, error))
                return false;
        } else if (type != YAML_STREAM_START_EVENT && type != YAML_DOCUMENT_END_EVENT && !empty) {
            return fail_at(reader, line, "a configuration is a list of 'name: value' lines", error);
        }
    }
}

static bool read_bytes(const char *path, Text *bytes, Error *error)
{
    if (file_read(path, bytes, error))
        return true;
    // an absent, unreadable or too long file is a mistake in how the gate was set up, whatever kind reading
    // it gave
    if (error->kind == ERROR_DATA)
        (void)FAIL(error, ERROR_CONFIG, 0, "'%s' is longer than the limit of %d bytes", path,
                   CONFIG_FILE_BYTES);
    error->kind = ERROR_CONFIG;
    return error_prefix(error, "configuration");
}

bool config_read_yaml(Config *config, const char *path, unsigned wanted, Error *error)
{
    SCOPED_TEXT bytes;
    text_init(&bytes, CONFIG_FILE_BYTES);
    if (!read_bytes(path, &bytes, error))
        return false;
    Reader reader = {.config = config, .bytes = &bytes, .path = path, .wanted = wanted};
    reader.first_source = arena_take_array(config->memory, config_option_count, sizeof *reader.first_source);
    if (!reader.first_source || !yaml_parser_initialize(&reader.parser))
        return FAIL(error, ERROR_MEMORY, 0, "could not read the configuration '%s'", path);
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text_string(&bytes), bytes.length);
    bool good = read_document(&reader, error);
    yaml_parser_delete(&reader.parser);
    return good;
}
