// csv - records and fields of RFC 4180: quotes, doubled quotes, newlines in quotes, LF or CR LF, optional
// trimming.
//
// A quote counts only where a field begins, so a bare quote inside a field is a character. A newline ends a
// record unless it lies inside such a quoted field. Finding records and cutting fields follow the same rule,
// so both always agree.
#include "input_internal.h"

#include <string.h>

static const char *const fault_texts[] = {
    [CSV_FINE] = "fine",
    [CSV_OPEN_QUOTE] = "a quoted field is not closed",
    [CSV_TEXT_AFTER_QUOTE] = "text follows the closing quote of a field",
    [CSV_NUL_BYTE] = "the record has a NUL byte",
};

const char *csv_fault_text(CsvFault fault)
{
    return fault_texts[fault];
}

static const char *skip_blanks(const CsvFormat *format, const char *p, const char *end)
{
    if (format->trim)
        while (p < end && (*p == ' ' || *p == '\t') && *p != format->delimiter)
            p++;
    return p;
}

// First byte after the closing quote of the field whose opening quote is before `p`; NULL when it is not
// closed.
static const char *quote_end(const char *p, const char *end)
{
    for (;;) {
        p = memchr(p, '"', (size_t)(end - p));
        if (!p)
            return NULL;
        if (p + 1 == end || p[1] != '"')
            return p + 1;
        p += 2;
    }
}

// The newline that ends the record, minding quotes; NULL when it is not among these bytes.
static const char *record_newline(const CsvFormat *format, const char *p, const char *end)
{
    for (;;) {
        p = skip_blanks(format, p, end);
        if (p < end && *p == '"') {
            p = quote_end(p + 1, end);
            if (!p)
                return NULL;
        }
        while (p < end && *p != format->delimiter && *p != '\n')
            p++;
        if (p == end)
            return NULL;
        if (*p == '\n')
            return p;
        p++;
    }
}

bool csv_next(const CsvFormat *format, const char *bytes, size_t available, bool last, size_t *ret_record,
              size_t *ret_consumed)
{
    const char *newline = memchr(bytes, '\n', available);
    if (newline && memchr(bytes, '"', (size_t)(newline - bytes)))
        newline = record_newline(format, bytes, bytes + available);
    if (!newline && !last)
        return false;
    size_t record = newline ? (size_t)(newline - bytes) : available;
    *ret_consumed = newline ? record + 1 : available;
    if (record > 0 && bytes[record - 1] == '\r')
        record--;
    *ret_record = record;
    return true;
}

// Copies what is between two quotes with doubled quotes made single; a field without any stays where it is.
static char *unquote(const char *p, const char *close, char *scratch, Field *ret_field)
{
    *ret_field = (Field){.text = p, .length = (uint32_t)(close - p), .quoted = true};
    if (!memchr(p, '"', (size_t)(close - p)))
        return scratch;
    char *to = scratch;
    for (; p < close; p++) {
        *to++ = *p;
        if (*p == '"')
            p++;
    }
    ret_field->text = scratch;
    ret_field->length = (uint32_t)(to - scratch);
    return to;
}

size_t csv_split(const CsvFormat *format, const char *record, size_t length, Field *fields, size_t max,
                 char *scratch, CsvFault *ret_fault)
{
    const char *p = record, *const end = record + length;
    const char delimiter = format->delimiter;
    size_t count = 0;
    CsvFault fault = CSV_FINE;
    for (;;) {
        Field field;
        const char *begin = skip_blanks(format, p, end);
        if (begin < end && *begin == '"') {
            p = quote_end(begin + 1, end);
            if (!p) {
                fault = CSV_OPEN_QUOTE;
                count++;
                break;
            }
            scratch = unquote(begin + 1, p - 1, scratch, &field);
            p = skip_blanks(format, p, end);
            if (p < end && *p != delimiter)
                fault = CSV_TEXT_AFTER_QUOTE;
        } else {
            p = begin;
            field = (Field){.text = begin};
        }
        while (p < end && *p != delimiter)
            p++;
        if (!field.quoted) {
            const char *stop = p;
            if (format->trim)
                while (stop > begin && (stop[-1] == ' ' || stop[-1] == '\t'))
                    stop--;
            field.length = (uint32_t)(stop - begin);
        }
        if (count < max)
            fields[count] = field;
        count++;
        if (p == end)
            break;
        p++;
    }
    *ret_fault = fault;
    return count;
}
