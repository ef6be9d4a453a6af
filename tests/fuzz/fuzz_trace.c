// fuzz_trace - random changes of small traces through reader, judge and writers; with sanitizers a finding
// ends it.
//
// Built with clang's -fsanitize=fuzzer it is a libFuzzer target. Otherwise its own loop changes the seeds by
// bytes, numbers, words and pieces, and runs so many seconds: fuzz_trace SECONDS [SEED [FILE...]].
#include <fedgate/clock.h>
#include <fedgate/file.h>
#include <fedgate/timeline.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

// The first byte chooses the size of the blocks.
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static const OverlapLimits limits = {0.8, 0.95, 0.05, 0.01};
    Error error = ERROR_INIT;
    size_t block = length == 0 ? 1 : (size_t)(bytes[0] % 100) * 3 + 1;
    const char *from = length == 0 ? "" : (const char *)bytes + 1;
    Inspection *inspection = trace_inspect_bytes(from, length == 0 ? 0 : length - 1, block, &limits, &error);
    if (inspection == NULL) {
        return 0;
    }
    Json *said = json_make_array();
    Text out = {0};
    text_init(&out, 1u << 24);
    inspection_put_json(inspection, said);
    json_write(said, JSON_COMPACT, &out);
    inspection_print(inspection, &out);
    inspection_draw(inspection, &out);
    bool leaks = text_string(&out) != NULL && strstr(text_string(&out), "planted") != NULL;
    text_done(&out);
    json_free(said);
    inspection_free(inspection);
    return leaks ? (fprintf(stderr, "a text of the trace came out\n"), __builtin_trap(), 1) : 0;
}

#ifndef FUZZ_WITH_LIBFUZZER

enum { ROOM = 16 * 1024 };

// One event a line.
// clang-format off
#define E(cat, name, pid, ts, dur, args)                                                                   \
    "{\"ph\": \"X\", \"cat\": \"" cat "\", \"name\": \"" name "\", \"pid\": " pid                           \
    ", \"tid\": \"planted\", \"ts\": " ts ", \"dur\": " dur ", \"args\": {" args "}}"
#define CALL(name, ts, correlation) E("cuda_runtime", name, "9", ts, "20", "\"correlation\": " correlation)
#define ON(stream, correlation) "\"device\": 0, \"stream\": " stream ", \"correlation\": " correlation
#define OWN(step, bytes)        "\"step\": " step ", \"bytes\": " bytes
static const char *const seeds[] = {
    " {\"schemaVersion\": 1, \"a\": [{\"b\": \"\\\"]}\"}], \"traceEvents\": ["
    E("user_annotation", "ProfilerStep#5", "9", "100", "900.5", "\"External id\": 5") ","
    E("user_annotation", "ProfilerStep#6", "9", "1000.500", "900", "\"External id\": 6") ","
    CALL("cudaMemcpyAsync", "110", "1") ","
    CALL("cudaStreamSynchronize", "210", "7") ","
    E("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "0", "150", "300", ON("14", "1") ", \"bytes\": 1048576")
    "," E("kernel", "planted", "0", "200.123", "400", ON("7", "2")) ","
    CALL("cudaLaunchKernel", "1100", "3") ","
    E("kernel", "ncclKernel", "0", "1200", "0", ON("7", "3")) "],\"n\": N/A}",
    " ["
    E("Operator", "enumerate(DataLoader)#_S.__next__", "9", "5", "90", "\"s\": \"planted\"") ","
    E("Memcpy", "Memcpy DtoH (Device -> Pageable)", "0", "7", "9", "\"stream\": 7, \"bytes\": 5") ","
    E("Memset", "Memset (Device)", "0", "17", "9", "\"stream\": 7, \"bytes\": 5") ","
    E("Kernel", "planted", "1", "1e3", "9e-1", "\"stream\": 7") "]",
    " {\"dropped\":0,\"traceEvents\":["
    E("step", "step", "1", "5", "0", OWN("0", "0")) "," E("step", "step", "1", "105", "0", OWN("1", "0")) ","
    E("step", "step", "1", "205", "90", OWN("2", "0")) ","
    E("kernel", "k", "1", "5", "60", OWN("0", "0") ",\"pageable\":false,\"launched\":4") ","
    E("copy_h2d", "c", "1", "15", "60", OWN("0", "77") ",\"pageable\":true") ","
    E("host_wait", "w", "1", "25", "60", OWN("1", "0")) "]}",
};
// clang-format on
static const char *const words[] = {
    "1e308",
    "-1",
    "99999999999999999999",
    "4611686018427387.903",
    "NaN",
    "null",
    "\"\\u0074s\"",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ":",
    "0",
    "1e-400",
    "\"ts\"",
    "\"dur\"",
    "\"\\",
    "\"ph\": \"X\",",
    "kernel",
    "ProfilerStep#",
    "-4611686018427387.903",
};

typedef struct Random {
    uint64_t state;
} Random;

static size_t below(Random *random, size_t limit)
{
    random->state = random->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)((random->state >> 33) % limit);
}

// Replaces `out` bytes at a place by `in` others, as far as there is room.
static void splice(uint8_t *bytes, size_t *length, size_t at, size_t out, const void *from, size_t in)
{
    out = out > *length - at ? *length - at : out;
    if (*length - out + in > ROOM) {
        return;
    }
    memmove(bytes + at + in, bytes + at + out, *length - at - out);
    memcpy(bytes + at, from, in);
    *length = *length - out + in;
}

static void change(Random *random, uint8_t *bytes, size_t *length)
{
    uint8_t piece[256];
    size_t at = below(random, *length);
    size_t size = 1 + below(random, sizeof piece - 1);
    const char *word = words[below(random, sizeof words / sizeof words[0])];
    switch (below(random, 6)) {
    case 0:
        bytes[at] = (uint8_t)below(random, 256);
        break;
    case 1:
        bytes[at] ^= (uint8_t)(1u << below(random, 8));
        break;
    case 2:
        splice(bytes, length, at, below(random, 8), word, strlen(word));
        break;
    case 3:
        splice(bytes, length, at, size, "", 0);
        break;
    case 4:
        *length = at + 1;
        break;   // a cut
    default:   // a piece again elsewhere
        size = size > *length - at ? *length - at : size;
        memcpy(piece, bytes + at, size);
        splice(bytes, length, below(random, *length), 0, piece, size);
    }
    bytes[0] = *length > 0 ? bytes[0] : ' ';
    *length = *length > 0 ? *length : 1;
}

static size_t take_seed(Random *random, int files, char **paths, uint8_t *bytes)
{
    size_t which = below(random, sizeof seeds / sizeof seeds[0] + (size_t)files);
    Error error = ERROR_INIT;
    Text text = {0};
    text_init(&text, ROOM - 1);
    if (which < sizeof seeds / sizeof seeds[0]) {
        text_add(&text, seeds[which]);
    } else if (!file_read(paths[which - sizeof seeds / sizeof seeds[0]], &text, &error)) {
        text_add(&text, seeds[0]);
    }
    size_t length = text.length > 0 ? text.length : 1;
    memcpy(bytes, text.length > 0 ? text_string(&text) : " ", length);
    text_done(&text);
    return length;
}

int main(int argc, char **argv)
{
    static uint8_t bytes[ROOM];
    char *end = NULL;
    long seconds = argc > 1 ? strtol(argv[1], &end, 10) : 1;
    Random random = {argc > 2 ? strtoull(argv[2], &end, 10) : 1};
    int64_t until = clock_monotonic_ns(clock_real()) + seconds * INT64_C(1000000000);
    long runs = 0;
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        (void)LLVMFuzzerTestOneInput((const uint8_t *)seeds[i], strlen(seeds[i]));
    }
    while (runs % 64 != 0 || clock_monotonic_ns(clock_real()) < until) {
        size_t length = take_seed(&random, argc > 3 ? argc - 3 : 0, argv + 3, bytes);
        for (size_t changes = below(&random, 8); changes > 0; changes--) {
            change(&random, bytes, &length);
        }
        (void)LLVMFuzzerTestOneInput(bytes, length);
        runs++;
    }
    printf("%ld traces, no finding\n", runs);
    return 0;
}
#endif
