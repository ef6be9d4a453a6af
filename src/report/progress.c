// progress - one line about a running night: steps, loss, wait, forecast against deadline.
#include "report_internal.h"
#include <math.h>

// "04:12" out of an RFC 3339 text.
static const char *hour_of(const Json *time, char ret_text[static 6])
{
    const char *text = json_text_or(time, "");
    int64_t wall_ns;
    if (!clock_parse(text, &wall_ns))
        return NULL;
    for (int i = 0; i < 5; i++)
        ret_text[i] = text[11 + i];
    ret_text[5] = '\0';
    return ret_text;
}

static void add_training(const Json *progress, Text *line)
{
    const Json *step = json_get(progress, "step");
    if (!json_is_integer(step))
        return;
    text_add_format(line, "  step %lld/%lld", (long long)json_integer_or(step, 0),
                    (long long)json_integer_or(json_get(progress, "planned_steps"), 0));
    double loss = json_number_or(json_get(progress, "train_loss"), NAN);
    if (isfinite(loss))
        text_add_format(line, "  loss %.4g", loss);
    double validation = json_number_or(json_get(progress, "validation_loss"), NAN);
    if (isfinite(validation))
        text_add_format(line, "/%.4g", validation);
    double wait = json_number_or(json_get(progress, "wait_ratio"), NAN);
    if (isfinite(wait))
        text_add_format(line, "  wait %.1f%%", 100 * wait);
}

void report_progress(const Json *progress, Text *out)
{
    SCOPED_TEXT line;
    text_init(&line, 4096);
    if (json_is_integer(json_get(progress, "night_step_number")))
        text_add_format(&line, "[%lld/%lld] ",
                        (long long)json_integer_or(json_get(progress, "night_step_number"), 0),
                        (long long)json_integer_or(json_get(progress, "night_steps"), 0));
    text_add(&line, json_text_or(json_get(progress, "outcome"),
                                 json_text_or(json_get(progress, "night_step"), "starting")));
    if (!json_is_text(json_get(progress, "outcome")))
        add_training(progress, &line);
    char end[6], deadline[6];
    if (hour_of(json_get(progress, "forecast_end"), end))
        text_add_format(&line, "  end %s", end);
    if (hour_of(json_get(progress, "deadline"), deadline))
        text_add_format(&line, "  by %s", deadline);
    render_cut(out, text_string(&line), REPORT_COLUMNS);
}
