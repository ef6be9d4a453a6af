// inspect_text - what a stored trace says, for people: the verdict first, then steps, gaps, copies and calls.
#include "inspect_internal.h"

#include <fedgate/text.h>

enum { SHOWN_STEPS = 12, SHOWN_ROWS = 6 };

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static double percent(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole * 100 : 0;
}

static void add_percent(Text *out, int64_t part, int64_t whole)
{
    if (whole > 0) {
        text_add_format(out, " %8.2f", percent(part, whole));
    } else {
        text_add(out, "        -");
    }
}

static void print_figures(const DeviceReport *device, Text *out)
{
    text_add_format(out,
                    "  span %.3f ms on %lld streams: %lld kernels (%lld of communication), %lld copies, %lld "
                    "memsets\n",
                    ms(device->span_ns), (long long)device->streams, (long long)device->kernels,
                    (long long)device->communication, (long long)device->copies, (long long)device->memsets);
    text_add_format(out, "  idle %.2f %% (counting kernels alone %.2f %%)\n",
                    percent(device->span_ns - device->busy_ns, device->span_ns),
                    percent(device->span_ns - device->kernel_ns, device->span_ns));
    if (device->h2d_ns == 0) {
        return;
    }
    text_add_format(out, "  copies to the device %.3f ms, hidden by kernels %.2f %%", ms(device->h2d_ns),
                    percent(device->h2d_hidden_ns, device->h2d_ns));
    if (device->communication > 0) {
        text_add_format(out, " (without communication kernels %.2f %%)",
                        percent(device->h2d_hidden_own_ns, device->h2d_ns));
    }
    char bytes[32];
    char pageable[32];
    text_from_count(bytes, device->h2d_bytes);
    text_from_count(pageable, device->pageable_bytes);
    text_add_format(out, "; %s bytes, %s of them from pageable memory\n", bytes, pageable);
}

static void print_steps(const DeviceReport *device, Text *out)
{
    if (device->step_count == 0) {
        return;
    }
    text_add_format(out, "  %zu steps on the device, the first %zu are warm-up\n", device->step_count,
                    device->warmup);
    text_add(out, "        step    length ms   busy %  copies ms  hidden %  starved %   wait ms\n");
    size_t skipped = device->step_count > SHOWN_STEPS ? device->step_count - SHOWN_STEPS : 0;
    for (size_t i = 0; i < device->step_count; i++) {
        if (skipped > 0 && i == SHOWN_STEPS / 2) {
            text_add_format(out, "         ... %zu more\n", skipped);
            i += skipped;
        }
        const StepOverlap *step = &device->steps[i];
        text_add_format(out, "  %10lld %12.3f", (long long)step->index, ms(step->length_ns));
        add_percent(out, step->busy_ns, step->length_ns);
        text_add_format(out, " %10.3f ", ms(step->copy_ns));
        add_percent(out, step->hidden_ns, step->copy_ns);
        text_add(out, "  ");
        add_percent(out, step->starved_ns, step->length_ns);
        if (device->waits_marked) {
            text_add_format(out, " %9.3f\n", ms(step->wait_ns));
        } else {
            text_add(out, "         -\n");
        }
    }
}

static void print_gaps(const DeviceReport *device, Text *out)
{
    if (device->starved_count == 0) {
        return;
    }
    int64_t count[GAP_CAUSE_COUNT] = {0};
    int64_t ns[GAP_CAUSE_COUNT] = {0};
    size_t listed = device->starved_count < INSPECT_LISTED_MOST ? device->starved_count : INSPECT_LISTED_MOST;
    for (size_t i = 0; i < listed; i++) {
        count[device->starved[i].cause]++;
        ns[device->starved[i].cause] += device->starved[i].length_ns;
    }
    text_add_format(out, "  %zu starvation gaps of at least %.3f ms, %.3f ms in all:", device->starved_count,
                    ms(device->work.starved_least_ns), ms(device->starved_ns));
    const char *separator = "";
    for (int i = 0; i < GAP_CAUSE_COUNT; i++) {
        if (count[i] > 0) {
            text_add_format(out, "%s %s %lld (%.3f ms)", separator, gap_cause_names[i], (long long)count[i],
                            ms(ns[i]));
            separator = ",";
        }
    }
    text_add(out, listed < device->starved_count ? " of the longest\n" : "\n");
}

static void print_exposed(const DeviceReport *device, Text *out)
{
    if (device->exposed_count > 0) {
        text_add_format(out, "  %zu copies from 100 us or 1 MiB on are exposed; the worst:\n",
                        device->exposed_count);
    }
    for (size_t i = 0; i < device->exposed_count && i < SHOWN_ROWS; i++) {
        const ExposedCopy *copy = &device->exposed[i];
        text_add_format(out, "    %.3f of %.3f ms, %lld bytes, %s memory, stream %d: %s\n",
                        ms(copy->exposed_ns), ms(copy->length_ns), (long long)copy->bytes,
                        memory_names[copy->memory], (int)copy->stream, exposed_cause_names[copy->cause]);
    }
    if (device->small_copies > 0) {
        text_add_format(out, "  %lld smaller copies, exposed for %.3f ms\n", (long long)device->small_copies,
                        ms(device->small_exposed_ns));
    }
}

static void print_calls(const DeviceReport *device, Text *out)
{
    const CallFigures *calls = &device->calls;
    const char *separator = "  synchronisations:";
    for (size_t i = 0; i < SYNC_NONE; i++) {
        if (calls->sync_count[i] > 0) {
            text_add_format(out, "%s %s %lld (%.3f ms)", separator, sync_names[i],
                            (long long)calls->sync_count[i], ms(calls->sync_ns[i]));
            separator = ",";
        }
    }
    text_add(out, separator[0] == ',' ? "\n" : "");
    if (calls->large > 0) {
        text_add_format(
            out,
            "  calls of copies to the device from 1 MiB on take %.2f of the copies' time, the longest "
            "%.3f ms\n",
            (double)calls->large_call_ns / (double)calls->large_copy_ns, ms(calls->large_call_longest_ns));
    }
}

void inspection_print(const Inspection *inspection, Text *out)
{
    for (size_t i = 0; i < inspection->device_count; i++) {
        const DeviceReport *device = &inspection->devices[i];
        text_add_escaped(out, inspection->path);
        if (device->number >= 0) {
            text_add_format(out, ", device %lld", (long long)device->number);
        }
        text_add_format(out, ": %s: %s\n", overlap_word(device->word), device->reason);
        if (device->op_count > 0) {
            print_figures(device, out);
            print_steps(device, out);
            print_gaps(device, out);
            print_exposed(device, out);
            print_calls(device, out);
        }
        for (size_t k = 0; k < device->note_count; k++) {
            text_add_format(out, "  %s\n", device->notes[k]);
        }
    }
}
