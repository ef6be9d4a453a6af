// step_bench - how much of the rate of its own multiplications a training step reaches; JSON rows, never a
// pass or fail.
//
// One case: rows of the batch, inputs, hidden widths. The same multiplications are timed alone, in FP32
// (without bias, mask, loss and optimizer), then the whole step in each type; a 2-byte type is emulated here,
// and its row says how much of the rate of FP32 is left. The best of several rounds of each is used, and
// rounds of all take turns: the machine may be shared.
#include <fedgate/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../src/compute/cpu/blas.h"
#include "../../src/trainer/trainer_internal.h"

typedef struct Case {
    const char *name;
    int64_t rows;
    TrainShape shape;
} Case;
static const Case cases[] = {
    {"step.256", 256, {.numeric = 32, .hidden = {256, 256}, .layers = 2, .outputs = 1}},
    {"step.8192", 8192, {.numeric = 32, .hidden = {256, 256}, .layers = 2, .outputs = 1}},
};
enum { ROUNDS = 12 };
static const double round_seconds = 0.1;

static double seconds(void)
{
    return (double)clock_monotonic_ns(clock_real()) / 1e9;
}

static void row(const char *name, const char *unit, double value, const char *device)
{
    SCOPED_TEXT text;
    OWNED(Json, json_free) *json = json_make_object();
    text_init(&text, 4096);
    json_put_text(json, "case", name);
    json_put_text(json, "unit", unit);
    json_put_number(json, "value", value);
    json_put_text(json, "device", device);
    json_put_text(json, "commit", getenv("FEDGATE_COMMIT"));
    json_write(json, JSON_COMPACT, &text);
    puts(text_string(&text));
}

static const FedgateType types[] = {FEDGATE_FP32, FEDGATE_BF16, FEDGATE_FP16};
enum { TYPES = sizeof types / sizeof types[0], MULTIPLICATIONS = TYPES, TIMED };

static const Recipe recipe = {.rate = 1e-6,
                              .final_ratio = 1,
                              .beta1 = 0.9,
                              .beta2 = 0.999,
                              .epsilon = 1e-8,
                              .clip = 1,
                              .scale_initial = 1024,
                              .scale_floor = 1,
                              .scale_hysteresis = 1};

// Forward, weight and input gradients of every layer, in the blocks the back end uses when it has one thread.
static void multiply_only(const Network *n)
{
    for (int64_t first = 0; first < n->rows; first += 512) {
        int64_t rows = n->rows - first < 512 ? n->rows - first : 512;
        for (size_t i = 0; i <= n->shape.layers; i++) {
            int64_t in = layer_in(&n->layout, &n->shape, i), out = layer_out(&n->shape, i);
            const float *w = n->weights + n->layout.at[layout_matrix(&n->shape, i)].offset,
                        *x = (const float *)(i > 0 ? n->value[i - 1] : n->back[0]) + first * in;
            float *y = (float *)n->value[i] + first * out, *dy = (float *)n->back[i] + first * out,
                  *dw = n->gradients + n->layout.at[layout_matrix(&n->shape, i)].offset;
            blas_multiply(BLAS_PLAIN, BLAS_PLAIN, rows, out, in, x, in, w, out, 0, y, out);
            blas_multiply(BLAS_TRANSPOSED, BLAS_PLAIN, in, out, rows, x, in, dy, out, 0, dw, out);
            if (i > 0)
                blas_multiply(BLAS_PLAIN, BLAS_TRANSPOSED, rows, in, out, dy, out, w, out, 0,
                              (float *)n->back[i - 1] + first * in, in);
        }
    }
}

static void whole_step(Network *n, const Rows *rows)
{
    network_gradient(n, &recipe, rows, rows->count, 1, NULL);
    network_update(n, &recipe);
}

// Steps, or their multiplications, in a second.
static void measure(Network networks[static TYPES], const Rows *rows, double ret_best[static TIMED])
{
    for (int i = 0; i < TIMED * ROUNDS; i++) {
        int timed = i % TIMED;
        int64_t count = 0;
        double begin = seconds(), now = begin;
        for (; now - begin < round_seconds; count++, now = seconds())
            timed == MULTIPLICATIONS ? multiply_only(&networks[0]) : whole_step(&networks[timed], rows);
        double rate = (double)count / (now - begin);
        ret_best[timed] = i < TIMED || rate > ret_best[timed] ? rate : ret_best[timed];
    }
}

static void case_row(const Case *c, const char *type, const char *what, const char *unit, double value,
                     const Device *device)
{
    char text[64];
    snprintf(text, sizeof text, "%s%s%s.%s", c->name, *type ? "." : "", type, what);
    row(text, unit, value, device_info(device)->name);
}

static void print(const Case *c, const Network *n, const double best[static TIMED])
{
    double flop = network_flop(n, c->rows, false) + network_flop(n, c->rows, true);
    for (int i = 0; i < TYPES; i++) {
        const char *type = types[i] == FEDGATE_FP32 ? "" : device_type_name(types[i]);
        case_row(c, type, "samples", "samples/s", best[i] * (double)c->rows, n->device);
        case_row(c, type, "flops", "FLOP/s", best[i] * flop, n->device);
        if (types[i] != FEDGATE_FP32)
            case_row(c, type, "to_fp32", "ratio", best[i] / best[0], n->device);
    }
    case_row(c, "", "multiplications", "FLOP/s", best[MULTIPLICATIONS] * flop, n->device);
    case_row(c, "", "ratio", "ratio", best[0] / best[MULTIPLICATIONS], n->device);
}

static bool open_networks(const Case *c, Device *device, Network networks[static TYPES], Error *error)
{
    static const char *const prefixes[] = {"fp32 ", "bf16 ", "fp16 "};
    for (int i = 0; i < TYPES; i++)
        if (!network_open(&networks[i], device, &c->shape, FEDGATE_LOSS_BINARY, types[i], c->rows, true,
                          prefixes[i], error) ||
            !network_set_pace(&networks[i], &recipe, 1, error) ||
            !network_start(&networks[i], &recipe, 1, error))
            return false;
    return true;
}

static bool run(const Case *c, Device *device, Error *error)
{
    Network networks[TYPES] = {0};
    float *x = calloc((size_t)(c->rows * c->shape.numeric), sizeof *x),
          *target = calloc((size_t)c->rows, sizeof *target);
    for (int64_t i = 0; i < c->rows * c->shape.numeric; i++)
        x[i] = (float)(i * 37 % 101) / 50 - 1;
    Rows rows = {.numeric = x, .target = target, .count = c->rows};
    bool good = open_networks(c, device, networks, error);
    if (good) {
        double best[TIMED];
        measure(networks, &rows, best);
        print(c, &networks[0], best);
    }
    for (int i = 0; i < TYPES; i++)
        network_close(&networks[i]);
    free(x);
    free(target);
    return good;
}

int main(int argc, char **argv)
{
    if (device_pin_environment())
        execv("/proc/self/exe", argv);
    Error error = ERROR_INIT;
    int64_t threads = 1;   // the only argument
    OWNED(Ledger, ledger_free) *ledger = ledger_new();
    OWNED(Device, device_close) *device = device_open(
        "cpu", argc > 1 && text_to_int64(argv[1], &threads) ? (int)threads : 1, clock_real(), ledger, &error);
    bool good = device != NULL;
    for (size_t i = 0; good && i < sizeof cases / sizeof cases[0]; i++)
        good = run(&cases[i], device, &error);
    if (!good)
        fprintf(stderr, "step_bench: %s\n", error.message);
    return good ? 0 : 1;
}
