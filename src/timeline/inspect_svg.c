// inspect_svg - the timeline as a picture: a row a stream and kind, steps, gaps, exposed copies in red.
//
// Self-contained and without scripts. Time is cut into cells, so the picture stays small whatever the trace
// holds: a cell is drawn when anything of its row runs in it.
#include "inspect_internal.h"

#include <fedgate/text.h>
#include <string.h>

enum {
    CELLS = 2000,
    ROW_HEIGHT = 16,
    ROW_GAP = 6,
    LEFT = 150,
    RIGHT = 10,
    TOP = 50,
    STREAMS_MOST = 12,
    STEPS_MOST = 500
};

typedef struct Picture {
    const DeviceReport *device;
    Text *out;
    int y;
    uint8_t cells[CELLS];
} Picture;

static const struct RowKind {
    const char *label, *colour;
    SpanKind kind;
} row_kinds[] = {
    {"kernels", "#4878a8", SPAN_KERNEL},          {"copies to device", "#3a9a5b", SPAN_COPY_H2D},
    {"copies to host", "#8a6fb0", SPAN_COPY_D2H}, {"copies on device", "#b08d57", SPAN_COPY_D2D},
    {"memsets", "#999999", SPAN_MEMSET},
};

static size_t cell_of(const DeviceReport *device, int64_t at_ns)
{
    double share = ((double)at_ns - (double)device->span_begin_ns) / (double)device->span_ns;
    double cell = share * CELLS;
    return cell <= 0 ? 0 : cell >= CELLS ? CELLS - 1 : (size_t)cell;
}

static void mark(Picture *picture, int64_t begin_ns, int64_t end_ns)
{
    if (end_ns <= begin_ns) {
        return;
    }
    size_t first = cell_of(picture->device, begin_ns);
    size_t last = cell_of(picture->device, end_ns - 1);
    memset(picture->cells + first, 1, last - first + 1);
}

// Draws what was marked as one path, and forgets it.
static void draw_cells(Picture *picture, const char *colour)
{
    bool open = false;
    for (size_t i = 0; i < CELLS; i++) {
        if (picture->cells[i] == 0) {
            continue;
        }
        size_t first = i;
        while (i < CELLS && picture->cells[i] != 0) {
            i++;
        }
        text_add(picture->out, open ? "" : "<path d=\"");
        text_add_format(picture->out, "M%.1f %dh%.1fv%dh-%.1fz", LEFT + (double)first / 2, picture->y,
                        (double)(i - first) / 2, ROW_HEIGHT, (double)(i - first) / 2);
        open = true;
    }
    if (open) {
        text_add_format(picture->out, "\" fill=\"%s\"/>\n", colour);
    }
    memset(picture->cells, 0, sizeof picture->cells);
}

static void label(Picture *picture, const char *text, int32_t stream)
{
    text_add_format(picture->out, "<text x=\"4\" y=\"%d\">%s", picture->y + ROW_HEIGHT - 4, text);
    if (stream >= 0) {
        text_add_format(picture->out, ", %d", (int)stream);
    }
    text_add(picture->out, "</text>\n");
}

// The exposed part of the marked copies lies over them.
static void draw_exposed(Picture *picture, const DeviceReport *device, int32_t stream)
{
    for (size_t i = 0; i < device->op_count; i++) {
        const TraceOp *op = &device->ops[i];
        if (op->kind != SPAN_COPY_H2D || op->stream != stream) {
            continue;
        }
        size_t inside = interval_clip(device->work.kernels.intervals, device->work.kernels.count,
                                      (Interval){op->begin, op->end}, device->work.scratch_a);
        int64_t from = op->begin;
        for (size_t k = 0; k < inside; k++) {
            mark(picture, from, device->work.scratch_a[k].begin);
            from = device->work.scratch_a[k].end;
        }
        mark(picture, from, op->end);
    }
    draw_cells(picture, "#d03030");
}

static size_t streams_of(const DeviceReport *device, SpanKind kind, int32_t *ret)
{
    size_t count = 0;
    for (size_t i = 0; i < device->op_count; i++) {
        size_t at = 0;
        while (at < count && ret[at] != device->ops[i].stream) {
            at++;
        }
        if (device->ops[i].kind == kind && at == count && count < STREAMS_MOST) {
            ret[count++] = device->ops[i].stream;
        }
    }
    return count;
}

static void draw_rows(Picture *picture, const struct RowKind *row)
{
    int32_t streams[STREAMS_MOST];
    const DeviceReport *device = picture->device;
    size_t count = streams_of(device, row->kind, streams);
    for (size_t s = 0; s < count; s++) {
        label(picture, row->label, streams[s]);
        for (size_t i = 0; i < device->op_count; i++) {
            if (device->ops[i].kind == row->kind && device->ops[i].stream == streams[s]) {
                mark(picture, device->ops[i].begin, device->ops[i].end);
            }
        }
        draw_cells(picture, row->colour);
        if (row->kind == SPAN_COPY_H2D) {
            draw_exposed(picture, device, streams[s]);
        }
        picture->y += ROW_HEIGHT + ROW_GAP;
    }
}

static void draw_set(Picture *picture, const IntervalSet *set, const char *text, const char *colour)
{
    if (set->count == 0) {
        return;
    }
    label(picture, text, -1);
    for (size_t i = 0; i < set->count; i++) {
        mark(picture, set->intervals[i].begin, set->intervals[i].end);
    }
    draw_cells(picture, colour);
    picture->y += ROW_HEIGHT + ROW_GAP;
}

static void draw_steps(Picture *picture, int top)
{
    const DeviceReport *device = picture->device;
    for (size_t i = 0; i < device->step_count && device->step_count <= STEPS_MOST; i++) {
        double x = LEFT + (double)cell_of(device, device->steps[i].begin_ns) / 2;
        text_add_format(picture->out, "<path d=\"M%.1f %dV%d\" stroke=\"#666\" stroke-dasharray=\"3 3\"/>\n",
                        x, top, picture->y);
        if (device->step_count <= 24) {
            text_add_format(picture->out, "<text x=\"%.1f\" y=\"%d\" fill=\"#666\">%lld%s</text>\n", x + 2,
                            top - 2, (long long)device->steps[i].index,
                            i < device->warmup ? " (warm-up)" : "");
        }
    }
}

static void draw_device(Picture *picture)
{
    const DeviceReport *device = picture->device;
    int top = picture->y + 20;
    text_add_format(picture->out, "<text x=\"4\" y=\"%d\" font-weight=\"bold\">", picture->y);
    if (device->number >= 0) {
        text_add_format(picture->out, "device %lld: ", (long long)device->number);
    }
    text_add_format(picture->out, "%s; %.3f ms", overlap_word(device->word), (double)device->span_ns / 1e6);
    text_add(picture->out, "</text>\n");
    picture->y = top;
    if (device->span_ns > 0) {
        for (size_t i = 0; i < sizeof row_kinds / sizeof row_kinds[0]; i++) {
            draw_rows(picture, &row_kinds[i]);
        }
        draw_set(picture, &device->work.waits, "host waits for batch", "#e0a030");
        draw_set(picture, &device->work.gaps, "starvation gaps", "#e08080");
        draw_steps(picture, top);
    }
    picture->y += 30;
}

void inspection_draw(const Inspection *inspection, Text *out)
{
    SCOPED_TEXT body = {0};
    text_init(&body, 64u << 20);
    Picture picture = {.out = &body, .y = TOP};
    for (size_t i = 0; i < inspection->device_count; i++) {
        picture.device = &inspection->devices[i];
        draw_device(&picture);
    }
    int width = LEFT + CELLS / 2 + RIGHT;
    text_add_format(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
        "font-family=\"sans-serif\" font-size=\"11\">\n"
        "<title>copies and kernels on the device</title>\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
        "<text x=\"4\" y=\"20\">rows: kind, stream; red: copy time that no kernel hides; dashed: steps"
        "</text>\n",
        width, picture.y, width, picture.y);
    text_add(out, text_string(&body));
    text_add(out, "</svg>\n");
}
