// text - growable text that never passes its maximum, and its escaped forms.
#include "text_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_init(Text *text, size_t maximum)
{
    *text = (Text){.maximum = maximum};
}

void text_done(Text *text)
{
    if (!text)
        return;
    free(text->data);
    *text = (Text){.maximum = text->maximum};
}

void text_clear(Text *text)
{
    text->length = 0;
    text->failed = false;
    if (text->data)
        text->data[0] = '\0';
}

// Room for `length` more bytes and the NUL; false (and failed set) when that passes the maximum or memory
// ends.
static bool reserve(Text *text, size_t length)
{
    if (length > text->maximum - text->length) {
        text->failed = true;
        return false;
    }
    size_t needed = text->length + length + 1;
    if (needed <= text->capacity)
        return true;
    size_t capacity = text->capacity > 0 ? text->capacity : 64;
    while (capacity < needed)
        capacity = capacity > SIZE_MAX / 2 ? needed : capacity * 2;
    if (capacity - 1 > text->maximum)
        capacity = text->maximum + 1;
    char *data = realloc(text->data, capacity);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void text_add_bytes(Text *text, const char *bytes, size_t length)
{
    if (!reserve(text, length))
        return;
    if (length > 0)
        memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void text_add(Text *text, const char *string)
{
    if (string)
        text_add_bytes(text, string, strlen(string));
}

void text_add_char(Text *text, char c)
{
    text_add_bytes(text, &c, 1);
}

void text_add_format(Text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    va_list again;
    va_copy(again, arguments);
    char small[256];
    int length = vsnprintf(small, sizeof small, format, arguments);
    va_end(arguments);
    if (length < 0)
        text->failed = true;
    else if ((size_t)length < sizeof small)
        text_add_bytes(text, small, (size_t)length);
    else if (reserve(text, (size_t)length)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

const char *text_string(const Text *text)
{
    return text->data ? text->data : "";
}

bool text_ok(const Text *text, Error *error)
{
    if (!text->failed)
        return true;
    return FAIL(error, ERROR_MEMORY, 0, "text was cut: it cannot pass %zu bytes or memory ran out",
                text->maximum);
}

char *text_take(Text *text)
{
    char *taken = NULL;
    if (!text->failed && reserve(text, 0)) {
        text->data[text->length] = '\0';
        taken = text->data;
        text->data = NULL;
    }
    text_done(text);
    return taken;
}

size_t text_sequence_length(const char *string)
{
    const unsigned char *s = (const unsigned char *)string;
    if (s[0] < 0x80)
        return s[0] != 0;
    size_t length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    // Overlong forms, surrogates and values above U+10FFFF show in the second byte.
    unsigned low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

static bool is_control(const char *string)
{
    unsigned char c = (unsigned char)string[0];
    bool c1 = c == 0xc2 && (unsigned char)string[1] < 0xa0;   // U+0080..U+009F drive terminals too
    return c < 0x20 || c == 0x7f || c1;
}

void text_add_escaped(Text *text, const char *string)
{
    while (string && *string) {
        size_t length = text_sequence_length(string);
        if (length > 0 && !is_control(string)) {
            text_add_bytes(text, string, length);
            string += length;
        } else {
            text_add_format(text, "\\x%02x", (unsigned)(unsigned char)*string++);
        }
    }
}

void text_add_valid(Text *text, const char *string)
{
    while (*string) {
        size_t length = text_sequence_length(string);
        if (length > 0)
            text_add_bytes(text, string, length);
        else
            text_add_format(text, "\\x%02x", (unsigned)(unsigned char)*string);
        string += length > 0 ? length : 1;
    }
}
