// payload.c - one spooled payload as one line of COPY data for its table.
//
// The payload is JSON that spool.c wrote itself and a CRC protects, so this scanner only splits it: values
// are handed to PostgreSQL's own input functions as they stand ("nan" and "inf" become float8 values there).
// Turning a million payloads into rows on the server through jsonb took three times as long. Keys that are no
// columns go into the column `rest`, so nothing is lost in silence; 12.0 is accepted for an integer column.
#include "telemetry_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct Slice {
    const char *begin, *end;
} Slice;   // begin NULL: absent

typedef struct Scanner {
    const char *at, *end;
} Scanner;

static bool take(Scanner *scanner, char c)
{
    if (scanner->at >= scanner->end || *scanner->at != c)
        return false;
    scanner->at++;
    return true;
}

// A string token with its quotes.
static bool scan_string(Scanner *scanner, Slice *ret_slice)
{
    ret_slice->begin = scanner->at;
    if (!take(scanner, '"'))
        return false;
    while (scanner->at < scanner->end && *scanner->at != '"')
        scanner->at += *scanner->at == '\\' ? 2 : 1;
    if (!take(scanner, '"'))
        return false;
    ret_slice->end = scanner->at;
    return true;
}

// Any value as it stands: nested ones up to their closing bracket.
static bool scan_value(Scanner *scanner, Slice *ret_slice)
{
    Slice string;
    int depth = 0;
    ret_slice->begin = scanner->at;
    while (scanner->at < scanner->end) {
        char c = *scanner->at;
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            break;
        if (c == '"') {
            if (!scan_string(scanner, &string))
                return false;
            continue;
        }
        depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
        scanner->at++;
    }
    ret_slice->end = scanner->at;
    return depth == 0 && ret_slice->end > ret_slice->begin;
}

static int find_column(const KindColumns *columns, Slice key, int hint)
{
    size_t length = (size_t)(key.end - key.begin) - 2;   // without the quotes
    for (int i = 0; i < columns->count; i++) {
        int index = (hint + i) % columns->count;
        const char *name = columns->column[index].name;
        if (strncmp(name, key.begin + 1, length) == 0 && name[length] == '\0')
            return index;
    }
    return -1;
}

// -- COPY text

static void add_utf8(Text *line, uint32_t code)
{
    char bytes[4];
    size_t count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = count; i-- > 1; code >>= 6)
        bytes[i] = (char)(0x80 | (code & 0x3f));
    bytes[0] = (char)(lead[count] | code);
    text_add_bytes(line, bytes, count);
}

static bool hex4(const char *at, const char *end, uint32_t *ret_code)
{
    uint32_t code = 0;
    if (end - at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        const char *digit = at[i] == '\0' ? NULL : strchr("0123456789abcdefABCDEF", at[i]);
        if (digit == NULL)
            return false;
        long value = digit - "0123456789abcdefABCDEF";
        code = code * 16 + (uint32_t)(value < 16 ? value : value - 6);
    }
    *ret_code = code;
    return true;
}

// One byte that COPY may give a meaning to.
static void add_plain(Text *line, char c)
{
    switch (c) {
    case '\\':
        text_add(line, "\\\\");
        break;
    case '\t':
        text_add(line, "\\t");
        break;
    case '\n':
        text_add(line, "\\n");
        break;
    case '\r':
        text_add(line, "\\r");
        break;
    default:
        text_add_char(line, c);
    }
}

// What follows "\u" at `at`; returns the first byte after it. PostgreSQL has no zero character and no lone
// surrogates.
static const char *add_unicode(Text *line, const char *at, const char *end)
{
    uint32_t code = 0, low = 0;
    if (!hex4(at, end, &code))
        return at;
    at += 4;
    if (code >= 0xd800 && code < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u' &&
        hex4(at + 2, end, &low) && low >= 0xdc00 && low < 0xe000) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        at += 6;
    }
    if (code == 0 || (code >= 0xd800 && code < 0xe000))
        code = 0xfffd;
    if (code < 0x80)
        add_plain(line, (char)code);
    else
        add_utf8(line, code);
    return at;
}

static void add_string(Text *line, Slice string)
{
    static const char names[] = "bfnrt", values[] = "\b\f\n\r\t";
    const char *at = string.begin + 1, *end = string.end - 1;
    while (at < end) {
        size_t plain = 0;
        while (at + plain < end && at[plain] != '\\' && (unsigned char)at[plain] >= ' ')
            plain++;
        text_add_bytes(line, at, plain);
        at += plain;
        if (at >= end)
            break;
        char c = *at++;
        if (c == '\\' && at < end) {
            c = *at++;
            const char *name = strchr(names, c);
            if (c == 'u') {
                at = add_unicode(line, at, end);
                continue;
            }
            c = name == NULL || c == '\0' ? c : values[name - names];
        }
        add_plain(line, c);
    }
}

static void add_json(Text *line, const char *begin, const char *end)
{
    for (const char *at = begin; at < end; at++)
        add_plain(line, *at);
}

static void add_value(Text *line, const KindColumn *column, Slice value)
{
    size_t length = (size_t)(value.end - value.begin);
    if (value.begin == NULL || (length == 4 && memcmp(value.begin, "null", 4) == 0)) {
        text_add(line, "\\N");
    } else if (column->is_json || *value.begin == '{' || *value.begin == '[') {
        add_json(line, value.begin, value.end);
    } else if (*value.begin == '"') {
        add_string(line, value);
    } else {
        bool whole = column->is_integer && length > 2 && memcmp(value.end - 2, ".0", 2) == 0;
        text_add_bytes(line, value.begin, whole ? length - 2 : length);
    }
}

// -- the line

static bool split(const KindColumns *columns, Scanner scanner, Slice *values, Text *rest)
{
    int column = -1;
    Slice key, value;
    if (!take(&scanner, '{'))
        return false;
    while (scanner.at < scanner.end && *scanner.at != '}') {
        if (!scan_string(&scanner, &key) || !take(&scanner, ':') || !scan_value(&scanner, &value))
            return false;
        int found = find_column(columns, key, column + 1);
        if (found >= 0) {
            values[found] = value;
            column = found;
        } else {
            text_add_char(rest, rest->length == 0 ? '{' : ',');
            text_add_bytes(rest, key.begin, (size_t)(value.end - key.begin));
        }
        if (!take(&scanner, ','))
            break;
    }
    if (rest->length > 0)
        text_add_char(rest, '}');
    return take(&scanner, '}') && scanner.at == scanner.end && !rest->failed;
}

bool payload_add_line(const KindColumns *columns, const char *run, const SpoolFrame *frame, Text *rest,
                      Text *line, Error *error)
{
    Slice values[KIND_COLUMNS_MAXIMUM] = {{NULL, NULL}};
    Scanner scanner = {frame->payload, frame->payload + frame->payload_length};
    text_clear(rest);
    if (!split(columns, scanner, values, rest))
        return FAIL(error, ERROR_DATA, 0, "payload of row %lld is no JSON object", (long long)frame->seq);
    for (int i = 0; i < columns->count; i++) {
        const KindColumn *column = &columns->column[i];
        if (i > 0)
            text_add_char(line, '\t');
        switch (column->role) {
        case COLUMN_RUN:
            text_add(line, run);
            break;
        case COLUMN_SEQ:
            text_add_format(line, "%lld", (long long)frame->seq);
            break;
        case COLUMN_VERSION:
            text_add(line, frame->version);
            break;
        case COLUMN_REST:
            if (rest->length == 0)
                text_add(line, "\\N");
            else
                add_json(line, rest->data, rest->data + rest->length);
            break;
        case COLUMN_VALUE:
            add_value(line, column, values[i]);
            break;
        }
    }
    text_add_char(line, '\n');
    return true;
}
