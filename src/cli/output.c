// output - stdout for results, stderr for errors; a reader that went away is not our failure, a full disk is.
#include "cli.h"
#include <errno.h>
#include <string.h>

static bool failed;

static void note_failure(void)
{
    if (errno != EPIPE)
        failed = true;
}

void output_text(const Text *text)
{
    const char *string = text_string(text);
    errno = 0;
    if (*string && fputs(string, stdout) == EOF)
        note_failure();
}

void output_json(const Json *value)
{
    SCOPED_TEXT text;
    text_init(&text, 256u << 20);
    json_write(value, JSON_INDENTED, &text);
    text_add_char(&text, '\n');
    output_text(&text);
}

void output_error(const Error *error)
{
    SCOPED_TEXT text;
    text_init(&text, 16384);
    text_add(&text, "fedgate: ");
    text_add_escaped(&text, error->message);
    if (*error->hint) {
        text_add(&text, "\nhint: ");
        text_add_escaped(&text, error->hint);
    }
    text_add_char(&text, '\n');
    fputs(text_string(&text), stderr);
}

bool output_failed(void)
{
    errno = 0;
    if (fflush(stdout) == EOF)
        note_failure();
    return failed;
}
