// step_bench - how much of the rate of its own multiplications a training step reaches; JSON rows, never a
// pass or fail.
//
// One case: rows of the batch, inputs, hidden widths. The same multiplications are timed alone (through the
// same back end, without bias, mask, loss and optimizer), then the whole step. The best of several rounds of
// each is used: the machine may be shared.
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

// Forward, weight and input gradients of every layer, in the blocks the back end uses when it has one thread.
static void multiply_only(const Network *n)
{
    for (int64_t first = 0; first < n->rows; first += 512) {
        int64_t rows = n->rows - first < 512 ? n->rows - first : 512;
        for (size_t i = 0; i <= n->shape.layers; i++) {
            int64_t in = layer_in(&n->layout, &n->shape, i), out = layer_out(&n->shape, i);
            const float *w = n->weights + n->layout.at[layout_matrix(&n->shape, i)].offset,
                        *x = (i > 0 ? n->value[i - 1] : n->back[0]) + first * in;
            blas_multiply(BLAS_PLAIN, BLAS_PLAIN, rows, out, in, x, in, w, out, 0, n->value[i] + first * out,
                          out);
            blas_multiply(BLAS_TRANSPOSED, BLAS_PLAIN, in, out, rows, x, in, n->back[i] + first * out, out, 0,
                          n->gradients + n->layout.at[layout_matrix(&n->shape, i)].offset, out);
            if (i > 0)
                blas_multiply(BLAS_PLAIN, BLAS_TRANSPOSED, rows, in, out, n->back[i] + first * out, out, w,
                              out, 0, n->back[i - 1] + first * in, in);
        }
    }
}

static void whole_step(Network *n, const Rows *rows)
{
    network_forward(n, rows, NULL);
    network_loss(n, rows, 1 / (float)rows->count, true);
    network_backward(n, rows, NULL, false);
    device_square_sum(n->device, n->gradients, n->layout.floats, &n->sums[SUM_SQUARES]);
    device_adam(n->device, &(FedgateAdam){.weights = n->weights,
                                          .gradient = n->gradients,
                                          .first = n->moments,
                                          .second = n->moments + n->layout.floats,
                                          .count = n->layout.floats,
                                          .rate = 1e-6f,
                                          .beta1 = 0.9f,
                                          .beta2 = 0.999f,
                                          .epsilon = 1e-8f,
                                          .correction1 = 1,
                                          .correction2 = 1,
                                          .clip = 1,
                                          .square_sum = &n->sums[SUM_SQUARES]});
}

static double best_rate(Network *n, const Rows *rows, bool multiplications)
{
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t count = 0;
        double begin = seconds(), now = begin;
        for (; now - begin < round_seconds; count++, now = seconds())
            multiplications ? multiply_only(n) : whole_step(n, rows);
        best = (double)count / (now - begin) > best ? (double)count / (now - begin) : best;
    }
    return best;
}

static bool run(const Case *c, Device *device, Error *error)
{
    Network network;
    if (!network_open(&network, device, &c->shape, FEDGATE_LOSS_BINARY, c->rows, true, error))
        return false;
    float *x = calloc((size_t)(c->rows * c->shape.numeric), sizeof *x),
          *target = calloc((size_t)c->rows, sizeof *target);
    for (int64_t i = 0; i < c->rows * c->shape.numeric; i++)
        x[i] = (float)(i * 37 % 101) / 50 - 1;
    layout_fill(&network.layout, &c->shape, 1, network.weights);
    Rows rows = {.numeric = x, .target = target, .count = c->rows};
    whole_step(&network, &rows);
    double step = best_rate(&network, &rows, false), multiply = best_rate(&network, &rows, true);
    const char *name = device_info(device)->name;
    double flop = network_flop(&network, c->rows, false) + network_flop(&network, c->rows, true);
    char text[64];
    snprintf(text, sizeof text, "%s.samples", c->name);
    row(text, "samples/s", step * (double)c->rows, name);
    snprintf(text, sizeof text, "%s.flops", c->name);
    row(text, "FLOP/s", step * flop, name);
    snprintf(text, sizeof text, "%s.multiplications", c->name);
    row(text, "FLOP/s", multiply * flop, name);
    snprintf(text, sizeof text, "%s.ratio", c->name);
    row(text, "ratio", step / multiply, name);
    network_close(&network);
    free(x);
    free(target);
    return true;
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
