// gpu - arrays on the device that is tested, and rows of results.
#include "gpu.h"

#include <fedgate/json.h>
#include <fedgate/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gpu_need(bool good, const Error *error)
{
    if (good)
        return;
    fprintf(stderr, "failed: %s\n", error->message);
    exit(1);
}

static void *host_take(int64_t bytes)
{
    void *memory = calloc(1, (size_t)(bytes > 0 ? bytes : 1));
    if (!memory)
        fputs("out of memory\n", stderr), exit(1);
    return memory;
}

void gpu_open(Gpu *gpu, const char *backend)
{
    Error error = ERROR_INIT;
    *gpu = (Gpu){.ledger = ledger_new()};
    gpu->cpu = device_open("cpu", 1, clock_real(), gpu->ledger, &error);
    gpu_need(gpu->cpu != NULL, &error);
    gpu->device = device_open(backend, 1, clock_real(), gpu->ledger, &error);
    gpu_need(gpu->device != NULL, &error);
    const DeviceInfo *info = device_info(gpu->device);
    printf("%s: %s, %s, %s; %.1f GB, %.3f GB taken when opened\n", info->backend, info->name, info->core,
           info->libraries, (double)info->memory_bytes / 1e9, (double)info->context_bytes / 1e9);
}

int gpu_close(Gpu *gpu)
{
    printf("%d failed\n", gpu->failures);
    device_close(gpu->device);
    device_close(gpu->cpu);
    ledger_free(gpu->ledger);
    return gpu->failures > 0;
}

static void write_row(const Gpu *gpu, const char *name, double value, const char *unit)
{
    const char *path = getenv("FEDGATE_RESULTS");
    FILE *stream = path ? fopen(path, "a") : NULL;
    if (!stream)
        return;
    SCOPED_TEXT text;
    OWNED(Json, json_free) *json = json_make_object();
    text_init(&text, 4096);
    json_put_text(json, "case", name);
    json_put_number(json, "value", value);
    json_put_text(json, "unit", unit);
    json_put_text(json, "device", device_info(gpu->device)->name);
    json_put_text(json, "driver", getenv("FEDGATE_DRIVER"));
    json_put_text(json, "commit", getenv("FEDGATE_COMMIT"));
    json_put_text(json, "date", getenv("FEDGATE_DATE"));
    json_write(json, JSON_COMPACT, &text);
    fprintf(stream, "%s\n", text_string(&text));
    fclose(stream);
}

void gpu_row(Gpu *gpu, const char *name, double value, const char *unit, double bar)
{
    bool judged = !isnan(bar), bad = judged && !(value <= bar);
    gpu->failures += bad;
    printf("%-58s %12.4g %-10s", name, value, unit);
    if (judged)
        printf(" bar %-9.3g %s", bar, bad ? "FAILED" : "ok");
    putchar('\n');
    write_row(gpu, name, value, unit);
}

Array array_new(Gpu *gpu, FedgateType type, int64_t count, int64_t offset)
{
    Error error = ERROR_INIT;
    int64_t size = fedgate_type_bytes(type);
    Array array = {.type = type, .count = count, .bytes = count * size, .offset = offset};
    array.block = device_take(gpu->device, "test", array.bytes + offset * size, &error);
    gpu_need(array.block != NULL, &error);
    array.at = (char *)array.block + offset * size;
    array.host = host_take(array.bytes);
    array.before = host_take(array.bytes);
    array.plain = host_take(count * (int64_t)sizeof(float));
    memset(array.before, 0xff, (size_t)array.bytes);
    array_reset(gpu, &array);
    return array;
}

static void cast_host(Gpu *gpu, FedgateType to_type, void *to, FedgateType from_type, const void *from,
                      int64_t count)
{
    device_cast(
        gpu->cpu,
        &(FedgateCast){.to = to, .from = from, .to_type = to_type, .from_type = from_type, .count = count});
}

static void fill(Gpu *gpu, Array *array, const float *values)
{
    cast_host(gpu, array->type, array->before, FEDGATE_FP32, values, array->count);
    memcpy(array->host, array->before, (size_t)array->bytes);
    cast_host(gpu, FEDGATE_FP32, array->plain, array->type, array->before, array->count);
    array_reset(gpu, array);
}

Array array_of(Gpu *gpu, FedgateType type, const float *values, int64_t count)
{
    Array array = array_new(gpu, type, count, 0);
    fill(gpu, &array, values);
    return array;
}

Array array_noise(Gpu *gpu, FedgateType type, int64_t count, int64_t offset, uint64_t key, double scale)
{
    Array array = array_new(gpu, type, count, offset);
    float *values = host_take(count * (int64_t)sizeof(float));
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)(scale * (2 * random_unit(key, (uint64_t)i) - 1));
    fill(gpu, &array, values);
    free(values);
    return array;
}

void array_free(Gpu *gpu, Array *array)
{
    device_give(gpu->device, "test", array->block,
                array->bytes + array->offset * fedgate_type_bytes(array->type));
    free(array->host);
    free(array->before);
    free(array->plain);
    *array = (Array){0};
}

void array_reset(Gpu *gpu, Array *array)
{
    Error error = ERROR_INIT;
    gpu_need(device_load(gpu->device, array->at, array->before, array->bytes, &error), &error);
}

void array_fetch(Gpu *gpu, Array *array)
{
    Error error = ERROR_INIT;
    gpu_need(device_copy_out(gpu->device, array->host, array->at, array->bytes, &error), &error);
    cast_host(gpu, FEDGATE_FP32, array->plain, array->type, array->host, array->count);
}

int64_t gpu_twice(Gpu *gpu, GpuCall call, const void *op, Array *const *outs, int count)
{
    int64_t differ = 0;
    void *first[8];
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < count; i++)
            array_reset(gpu, outs[i]);
        call(gpu->device, op);
        for (int i = 0; i < count; i++) {
            array_fetch(gpu, outs[i]);
            if (pass == 0)
                first[i] = memcpy(host_take(outs[i]->bytes), outs[i]->host, (size_t)outs[i]->bytes);
        }
    }
    for (int i = 0; i < count; i++) {
        for (int64_t k = 0; k < outs[i]->bytes; k++)
            differ += ((const char *)first[i])[k] != ((const char *)outs[i]->host)[k];
        free(first[i]);
    }
    return differ;
}
