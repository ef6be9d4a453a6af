// html - the one way in which a string from outside enters a page: neither markup nor the end of an
// attribute.
#include "report_internal.h"
#include <string.h>

// Marks that reorder what a reader sees behind them (Unicode UAX #9, section 2), U+061C, U+200E, U+200F,
// U+202A to U+202E and U+2066 to U+2069; the two separators before U+202A go with them.
static bool turns_direction(const unsigned char *c)
{
    if (c[0] == 0xd8)
        return c[1] == 0x9c;
    if (c[0] != 0xe2)
        return false;
    if (c[1] == 0x80)
        return c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xa8 && c[2] <= 0xae);
    return c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9;
}

static void add_byte(Text *out, const char *c)
{
    switch (*c) {
    case '&':
        text_add(out, "&amp;");
        break;
    case '<':
        text_add(out, "&lt;");
        break;
    case '>':
        text_add(out, "&gt;");
        break;
    case '"':
        text_add(out, "&quot;");
        break;
    case '\'':
        text_add(out, "&#39;");
        break;
    case '\n':
        text_add_char(out, ' ');
        break;
    default:
        if (turns_direction((const unsigned char *)c))
            text_add_format(out, "\\x%02x", (unsigned char)*c);   // what follows is then no UTF-8 either
        else
            text_add_char(out, *c);
    }
}

void html_add(Text *out, const char *string)
{
    SCOPED_TEXT safe;
    text_init(&safe, 8 * strlen(string) + 1);
    for (const char *c = string; *c; c++)
        add_byte(&safe, c);
    text_add_escaped(out, text_string(&safe));
}
