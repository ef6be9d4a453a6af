// export_chrome - the timeline as a trace that chrome://tracing and Perfetto open.
//
// Format of Chrome's trace events: "X" is a complete event, ts and dur are microseconds; written from integer
// nanoseconds with three decimals, so nothing is rounded.
#include "timeline_internal.h"

#include <fedgate/file.h>
#include <fedgate/text.h>

static const char *const kind_names[SPAN_KIND_COUNT] = {
    [SPAN_KERNEL] = "kernel",       [SPAN_COPY_H2D] = "copy_h2d", [SPAN_COPY_D2H] = "copy_d2h",
    [SPAN_COPY_D2D] = "copy_d2d",   [SPAN_MEMSET] = "memset",     [SPAN_STEP_MARK] = "step",
    [SPAN_HOST_WAIT] = "host_wait",
};

static void add_quoted(Text *out, const char *string)
{
    Json *quoted = json_make_text(string);
    json_write(quoted, JSON_COMPACT, out);
    json_free(quoted);
}

static void add_microseconds(Text *out, const char *key, int64_t ns)
{
    uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    text_add_format(out, ",\"%s\":%s%llu.%03llu", key, ns < 0 ? "-" : "", (unsigned long long)(size / 1000),
                    (unsigned long long)(size % 1000));
}

static void add_span(Text *out, const Span *span)
{
    text_add(out, ",\n{\"ph\":\"X\",\"name\":");
    add_quoted(out, span->name != NULL ? span->name : kind_names[span->kind]);
    text_add_format(out, ",\"cat\":\"%s\",\"pid\":1,\"tid\":%d", kind_names[span->kind], (int)span->stream);
    add_microseconds(out, "ts", span->begin);
    add_microseconds(out, "dur", span->end - span->begin);
    text_add_format(out, ",\"args\":{\"step\":%lld,\"bytes\":%lld,\"pageable\":%s", (long long)span->step,
                    (long long)span->bytes, span->pageable ? "true" : "false");
    if (span->launched_ns > 0) {
        add_microseconds(out, "launched", span->launched_ns);
    }
    text_add(out, "}}");
}

bool timeline_export_chrome(const Timeline *timeline, const char *process_name, const char *path,
                            Error *error)
{
    size_t count = timeline_count(timeline);
    SCOPED_TEXT out = {0};
    text_init(&out, 64 * 1024 + count * 1024);   // a span takes about 200 bytes without its name
    text_add_format(&out, "{\"displayTimeUnit\":\"ns\",\"dropped\":%lld,\"traceEvents\":[\n",
                    (long long)timeline_dropped(timeline));
    text_add(&out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":");
    add_quoted(&out, process_name);
    text_add(&out, "}}");
    for (size_t i = 0; i < count; i++) {
        add_span(&out, &timeline_spans(timeline)[i]);
    }
    text_add(&out, "\n]}\n");
    return text_ok(&out, error) && file_write_atomic(path, out.data, out.length, 0640, error);
}
