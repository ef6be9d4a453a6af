// compute_test - the contract of a back end, streams and events, and each operation against double
// arithmetic.
#include <check.h>
#include <fedgate/compute.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Ledger *ledger;
static Device *device;

static Device *open_cpu(int threads)
{
    Error error = ERROR_INIT;
    Device *opened = device_open("cpu", threads, clock_real(), ledger, &error);
    ck_assert_msg(opened != NULL, "%s", error.message);
    return opened;
}

static void setup(void)
{
    ledger = ledger_new();
    device = open_cpu(1);
}

static void teardown(void)
{
    device_close(device);
    for (int kind = 0; kind < LEDGER_KIND_COUNT; kind++)
        ck_assert_int_eq(ledger_live(ledger, (LedgerKind)kind), 0);
    ledger_free(ledger);
}

static float *take(int64_t count)
{
    Error error = ERROR_INIT;
    float *memory = device_take(device, "test", count * 4, &error);
    ck_assert_msg(memory != NULL, "%s", error.message);
    return memory;
}

static void give(float *memory, int64_t count)
{
    device_give(device, "test", memory, count * 4);
}

static float *take_noise(int64_t count, uint32_t seed)
{
    float *memory = take(count);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        memory[i] = (float)(seed >> 8) / 8388608.0f - 1;
    }
    return memory;
}

START_TEST(the_device_says_what_it_is)
{
    const DeviceInfo *info = device_info(device);
    ck_assert_str_eq(info->backend, "cpu");
    ck_assert_uint_eq(info->types, 1u << FEDGATE_FP32 | 1u << FEDGATE_BF16 | 1u << FEDGATE_FP16);
    ck_assert_int_gt(info->context_bytes, 0);   // scratch of one thread
    ck_assert_int_ge(info->cores, 1);
    ck_assert_int_eq(info->threads, 1);
    ck_assert_int_gt(info->memory_bytes, 0);
    ck_assert_ptr_nonnull(strstr(info->libraries, "openblas"));
    ck_assert_ptr_nonnull(strstr(info->libraries, info->core));
}
END_TEST

START_TEST(an_absent_back_end_is_said_to_be_absent)
{
    Error error = ERROR_INIT;
    ck_assert_ptr_null(device_open("tpu", 0, clock_real(), ledger, &error));
    ck_assert_int_eq(error.kind, ERROR_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(error.message, "'tpu' is absent"));
}
END_TEST

static int calls;
static bool count_probe(char *reason)
{
    calls++;
    snprintf(reason, FEDGATE_REASON_SIZE, "no such instruction");
    return false;
}
static int count_devices(void)
{
    calls++;
    return 0;
}
static bool pass_probe(char *reason)
{
    (void)reason;
    return true;
}

static const struct {
    const char *what;
    uint32_t abi, size;
    bool empty_slot;
} wrong[] = {
    {"another abi", FEDGATE_BACKEND_ABI + 1, sizeof(FedgateBackend), false},
    {"another size", FEDGATE_BACKEND_ABI, sizeof(FedgateBackend) - 8, false},
    {"an empty slot", FEDGATE_BACKEND_ABI, sizeof(FedgateBackend), true},
};

START_TEST(a_wrong_contract_is_refused_and_nothing_of_it_runs)
{
    FedgateBackend backend = fedgate_backend;
    backend.abi = wrong[_i].abi;
    backend.size = wrong[_i].size;
    backend.probe = count_probe;
    backend.device_count = count_devices;
    if (wrong[_i].empty_slot)
        backend.adam = NULL;
    Error error = ERROR_INIT;
    calls = 0;
    ck_assert_ptr_null(device_open_backend(&backend, 0, clock_real(), ledger, &error));
    ck_assert_int_eq(error.kind, ERROR_CONFIG);
    ck_assert_ptr_nonnull(strstr(error.message, "refused"));
    ck_assert_int_eq(calls, 0);
}
END_TEST

START_TEST(an_unsupported_machine_is_said_with_its_reason)
{
    FedgateBackend backend = fedgate_backend;
    Error error = ERROR_INIT;
    backend.probe = count_probe;
    ck_assert_ptr_null(device_open_backend(&backend, 0, clock_real(), ledger, &error));
    ck_assert_int_eq(error.kind, ERROR_DEVICE);
    ck_assert_ptr_nonnull(strstr(error.message, "no such instruction"));
    backend.probe = pass_probe;
    backend.device_count = count_devices;
    ck_assert_ptr_null(device_open_backend(&backend, 0, clock_real(), ledger, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "no device"));
}
END_TEST

START_TEST(memory_is_charged_zeroed_and_refused_over_the_budget)
{
    Error error = ERROR_INIT;
    ledger_set_budget(ledger, LEDGER_DEVICE, 1000);
    float *a = take(200);
    ck_assert_float_eq(a[199], 0);
    ck_assert_int_eq(ledger_live(ledger, LEDGER_DEVICE), 800);
    ck_assert_ptr_null(device_take(device, "more", 400, &error));
    ck_assert_int_eq(error.kind, ERROR_MEMORY);
    give(a, 200);
    void *pinned = device_take_pinned(device, "ring", 64, &error);
    ck_assert_int_eq(ledger_live(ledger, LEDGER_PINNED), 64);
    device_give_pinned(device, "ring", pinned, 64);
}
END_TEST

START_TEST(a_copy_waits_for_its_event_and_then_passes_its_own)
{
    Error error = ERROR_INIT;
    Timeline *timeline = timeline_new(100);
    device_trace(device, timeline);
    DeviceEvent *after = device_event_new(device, &error), *done = device_event_new(device, &error);
    float from[4] = {1, 2, 3, 4}, *to = take(4);
    ck_assert(device_copy_in(device, to, from, 16, 7, false, after, done, &error));
    ck_assert(!device_event_wait(done, 2000000, &error));
    ck_assert_int_eq(error.kind, ERROR_DEVICE);
    device_record_compute(device, after);
    ck_assert(device_event_wait(done, 5000000000, &error));
    ck_assert(device_event_done(done));
    ck_assert_mem_eq(to, from, 16);
    ck_assert(device_synchronise(device, &error));
    device_trace(device, NULL);
    ck_assert_uint_eq(timeline_count(timeline), 1);
    const Span *span = timeline_spans(timeline);
    ck_assert_int_eq(span->kind, SPAN_COPY_H2D);
    ck_assert_int_eq(span->step, 7);
    ck_assert_int_eq(span->bytes, 16);
    ck_assert(!span->pageable);
    ck_assert_int_le(span->launched_ns, span->begin);
    device_event_free(after);
    device_event_free(done);
    timeline_free(timeline);
    give(to, 4);
}
END_TEST

START_TEST(a_device_closes_although_a_copy_waits_for_ever)
{
    Error error = ERROR_INIT;
    Device *other = open_cpu(1);
    DeviceEvent *after = device_event_new(other, &error);
    float from[4] = {1}, to[4] = {0};
    ck_assert(device_copy_in(other, to, from, 16, 0, true, after, NULL, &error));
    device_close(other);
    ck_assert_float_eq(to[0], 0);
    device_event_free(after);
}
END_TEST

#ifdef FEDGATE_FAULTS
START_TEST(the_fault_of_pageable_copies_shows_in_the_trace)
{
    Error error = ERROR_INIT;
    setenv("FEDGATE_FAULT", "copy.pageable=1,copy.slow_ns=2000000", 1);
    Timeline *timeline = timeline_new(100);
    device_trace(device, timeline);
    float from[4] = {1}, to[4];
    ck_assert(device_copy_in(device, to, from, 16, 0, false, NULL, NULL, &error));
    ck_assert(device_synchronise(device, &error));
    unsetenv("FEDGATE_FAULT");
    device_trace(device, NULL);
    const Span *span = timeline_spans(timeline);
    ck_assert(span->pageable);
    ck_assert_int_ge(span->end - span->begin, 2000000);
    timeline_free(timeline);
}
END_TEST
#endif

// rows, in, out: one block, several blocks, a remainder, one output, odd widths
static const int64_t shapes[][3] = {{3, 2, 4},     {256, 32, 16}, {513, 7, 5},
                                    {1100, 33, 1}, {1, 1, 1},     {1030, 140, 9}};

START_TEST(a_dense_layer_agrees_with_double_arithmetic)
{
    int64_t rows = shapes[_i][0], in = shapes[_i][1], out = shapes[_i][2];
    float *x = take_noise(rows * in, 1), *w = take_noise(in * out, 2), *b = take_noise(out, 3),
          *y = take(rows * out);
    for (int relu = 0; relu < 2; relu++) {
        device_dense(
            device, &(FedgateDense){
                        .x = x, .w = w, .bias = b, .y = y, .rows = rows, .in = in, .out = out, .relu = relu});
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < out; j++) {
                double sum = (double)b[j];
                for (int64_t k = 0; k < in; k++)
                    sum += (double)x[i * in + k] * (double)w[k * out + j];
                sum = relu && sum < 0 ? 0 : sum;
                ck_assert_double_eq_tol((double)y[i * out + j], sum, 1e-5);
            }
    }
    give(x, rows * in), give(w, in * out), give(b, out), give(y, rows * out);
}
END_TEST

START_TEST(the_gradients_of_a_layer_agree_with_double_arithmetic)
{
    int64_t rows = shapes[_i][0], in = shapes[_i][1], out = shapes[_i][2];
    float *x = take_noise(rows * in, 1), *w = take_noise(in * out, 2), *dy = take_noise(rows * out, 4);
    float *dx = take(rows * in), *dw = take(in * out), *db = take(out);
    for (int round = 0; round < 2; round++)   // the second adds to the first
        device_dense_back(device, &(FedgateDenseBack){.x = x,
                                                      .w = w,
                                                      .dy = dy,
                                                      .dx = dx,
                                                      .dw = dw,
                                                      .db = db,
                                                      .rows = rows,
                                                      .in = in,
                                                      .out = out,
                                                      .accumulate = round == 1,
                                                      .below_relu = true,
                                                      .below_scale = 2});
    for (int64_t j = 0; j < out; j++) {
        double bias = 0;
        for (int64_t i = 0; i < rows; i++)
            bias += (double)dy[i * out + j];
        ck_assert_double_eq_tol((double)db[j], 2 * bias, 1e-3);
        for (int64_t k = 0; k < in; k++) {
            double sum = 0;
            for (int64_t i = 0; i < rows; i++)
                sum += (double)x[i * in + k] * (double)dy[i * out + j];
            ck_assert_double_eq_tol((double)dw[k * out + j], 2 * sum, 1e-3);
        }
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < in; k++) {
            double sum = 0;
            for (int64_t j = 0; j < out; j++)
                sum += (double)dy[i * out + j] * (double)w[k * out + j];
            ck_assert_double_eq_tol((double)dx[i * in + k], x[i * in + k] > 0 ? 2 * sum : 0, 1e-5);
        }
    give(x, rows * in), give(w, in * out), give(dy, rows * out), give(dx, rows * in), give(dw, in * out),
        give(db, out);
}
END_TEST

START_TEST(any_number_of_threads_gives_the_same_bits)
{
    int64_t rows = 1700, in = 150, out = 40;
    float *x = take_noise(rows * in, 1), *w = take_noise(in * out, 2), *b = take_noise(out, 3),
          *dy = take_noise(rows * out, 4);
    float *y[3], *dx[3], *dw[3];
    for (int t = 0; t < 3; t++) {
        Device *other = open_cpu(t + 1);
        ck_assert_int_eq(device_info(other)->threads, t + 1);
        y[t] = take(rows * out), dx[t] = take(rows * in), dw[t] = take(in * out + out);
        device_dense(
            other,
            &(FedgateDense){
                .x = x, .w = w, .bias = b, .y = y[t], .rows = rows, .in = in, .out = out, .relu = true});
        device_dense_back(other, &(FedgateDenseBack){.x = x,
                                                     .w = w,
                                                     .dy = dy,
                                                     .dx = dx[t],
                                                     .dw = dw[t],
                                                     .db = dw[t] + in * out,
                                                     .rows = rows,
                                                     .in = in,
                                                     .out = out,
                                                     .below_scale = 1});
        device_close(other);
        ck_assert_mem_eq(y[t], y[0], (size_t)(rows * out) * 4);
        ck_assert_mem_eq(dx[t], dx[0], (size_t)(rows * in) * 4);
        ck_assert_mem_eq(dw[t], dw[0], (size_t)(in * out + out) * 4);
    }
    for (int t = 0; t < 3; t++)
        give(y[t], rows * out), give(dx[t], rows * in), give(dw[t], in * out + out);
    give(x, rows * in), give(w, in * out), give(b, out), give(dy, rows * out);
}
END_TEST

START_TEST(embeddings_stand_beside_numbers_and_gather_their_gradients)
{
    const FedgateEmbedding embeddings[2] = {{.offset = 0, .width = 2, .cardinality = 3, .column = 1},
                                            {.offset = 6, .width = 1, .cardinality = 2, .column = 3}};
    float tables[8] = {1, 2, 3, 4, 5, 6, 7, 8}, numeric[2] = {.5f, .25f}, x[8], gradient[8];
    int32_t codes[4] = {2, 1, 2, 0};
    FedgateAssemble op = {.x = x,
                          .rows = 2,
                          .width = 4,
                          .numeric = numeric,
                          .numeric_count = 1,
                          .codes = codes,
                          .tables = tables,
                          .embeddings = embeddings,
                          .embedding_count = 2};
    device_assemble(device, &op);
    const float expected[8] = {.5f, 5, 6, 8, .25f, 5, 6, 7};
    ck_assert_mem_eq(x, expected, sizeof x);
    op.gradient = gradient;
    device_assemble_back(device, &op);
    const float sums[8] = {0, 0, 0, 0, 10, 12, 7, 8};
    ck_assert_mem_eq(gradient, sums, sizeof sums);
    op.accumulate = true;
    device_assemble_back(device, &op);
    ck_assert_float_eq(gradient[4], 20);
}
END_TEST

// kind, outputs, logits, target, loss
static const struct {
    FedgateLossKind kind;
    int64_t outputs;
    float logits[3], target;
    double loss;
} losses[] = {
    {FEDGATE_LOSS_BINARY, 1, {0}, 1, 0.6931471805599453},
    {FEDGATE_LOSS_BINARY, 1, {3}, 0, 3.048587351573742},
    {FEDGATE_LOSS_BINARY, 1, {-200}, 1, 200},
    {FEDGATE_LOSS_BINARY, 1, {800}, 1, 0},
    {FEDGATE_LOSS_SQUARE, 1, {2}, -1, 9},
    {FEDGATE_LOSS_CLASSES, 3, {1, 2, 3}, 0, 2.4076059644443806},
    {FEDGATE_LOSS_CLASSES, 3, {1000, 0, 0}, 1, 1000},
    {FEDGATE_LOSS_BINARY, 1, {NAN}, 1, NAN},
    {FEDGATE_LOSS_BINARY, 1, {1}, NAN, NAN},
    {FEDGATE_LOSS_CLASSES, 3, {1, NAN, 3}, 0, NAN},
    {FEDGATE_LOSS_CLASSES, 3, {1, 2, 3}, 3, NAN},
    {FEDGATE_LOSS_SQUARE, 1, {NAN}, 0, NAN},
};

START_TEST(a_loss_has_its_value_and_its_gradient)
{
    double loss = 0;
    float gradient[3] = {0};
    FedgateLoss op = {.kind = losses[_i].kind,
                      .logits = losses[_i].logits,
                      .target = &losses[_i].target,
                      .gradient = gradient,
                      .loss = &loss,
                      .rows = 1,
                      .outputs = losses[_i].outputs,
                      .scale = 1};
    device_loss(device, &op);
    if (isnan(losses[_i].loss)) {
        ck_assert(isnan(loss));
        return;
    }
    ck_assert_double_eq_tol(loss, losses[_i].loss, 1e-12 * (1 + losses[_i].loss));
    for (int64_t k = 0; k < op.outputs; k++) {
        double difference[2];
        for (int side = 0; side < 2; side++) {
            float moved[3];
            memcpy(moved, losses[_i].logits, sizeof moved);
            moved[k] += side ? 0.0078125f : -0.0078125f;
            op.logits = moved, op.loss = &difference[side], op.gradient = NULL, difference[side] = 0;
            device_loss(device, &op);
        }
        ck_assert_double_eq_tol((double)gradient[k], (difference[1] - difference[0]) / 0.015625, 1e-4);
    }
}
END_TEST

START_TEST(scores_are_probabilities_or_values)
{
    float logits[6] = {0, 1, 2, 5, 5, 5};
    double score[6];
    device_score(
        device, &(FedgateScore){
                    .kind = FEDGATE_LOSS_CLASSES, .logits = logits, .score = score, .rows = 2, .outputs = 3});
    ck_assert_double_eq_tol(score[0] + score[1] + score[2], 1, 1e-15);
    ck_assert_double_eq_tol(score[2], 0.6652409557748219, 1e-14);
    ck_assert_double_eq_tol(score[4], 1.0 / 3, 1e-15);
    device_score(device,
                 &(FedgateScore){
                     .kind = FEDGATE_LOSS_BINARY, .logits = logits, .score = score, .rows = 6, .outputs = 1});
    for (int i = 0; i < 6; i++)
        ck_assert_double_eq_tol(score[i], 1 / (1 + exp(-(double)logits[i])), 1e-15);
    device_score(device,
                 &(FedgateScore){
                     .kind = FEDGATE_LOSS_SQUARE, .logits = logits, .score = score, .rows = 6, .outputs = 1});
    ck_assert_double_eq(score[3], 5);
}
END_TEST

START_TEST(an_optimizer_step_follows_the_published_rule_and_clips_by_the_norm)
{
    enum { COUNT = 37 };
    float *w = take_noise(COUNT, 1), *g = take_noise(COUNT, 2), *m = take_noise(COUNT, 3), *v = take(COUNT),
          old[COUNT], old_m[COUNT];
    memcpy(old, w, sizeof old);
    memcpy(old_m, m, sizeof old_m);
    double square_sum, expected = 0;
    device_square_sum(device, g, COUNT, &square_sum);
    for (int i = 0; i < COUNT; i++)
        expected += (double)g[i] * (double)g[i];
    ck_assert_double_eq_tol(square_sum, expected, 1e-12);
    FedgateStepState state = {.scale = 1};
    FedgatePace pace = {.rate = .01f, .correction1 = 10, .correction2 = 100};
    device_settle(device, &(FedgateSettle){.state = &state, .square_sum = &square_sum, .clip = .5});
    device_adam(device, &(FedgateAdam){.weights = w,
                                       .gradient = g,
                                       .first = m,
                                       .second = v,
                                       .count = COUNT,
                                       .beta1 = .9f,
                                       .beta2 = .99f,
                                       .epsilon = 1e-8f,
                                       .decay = .1f,
                                       .pace = &pace,
                                       .pace_count = 1,
                                       .state = &state});
    for (int i = 0; i < COUNT; i++) {
        double gradient = (double)g[i] * .5 / sqrt(expected), first = .9 * (double)old_m[i] + .1 * gradient,
               second = .01 * gradient * gradient;
        double step = .01 * (10 * first / (sqrt(100 * second) + 1e-8) + .1 * (double)old[i]);
        ck_assert_double_eq_tol((double)w[i], (double)old[i] - step, 1e-4 * (1 + fabs(step)));
    }
    give(w, COUNT), give(g, COUNT), give(m, COUNT), give(v, COUNT);
}
END_TEST

START_TEST(dropout_drops_its_share_and_depends_on_key_and_row_alone)
{
    enum { ROWS = 100, WIDTH = 50 };
    float *a = take(ROWS * WIDTH), *b = take(ROWS * WIDTH);
    for (int i = 0; i < ROWS * WIDTH; i++)
        a[i] = b[i] = 1;
    device_dropout(device,
                   &(FedgateDropout){.x = a, .rows = ROWS, .width = WIDTH, .key = 5, .row = 0, .keep = .75f});
    device_dropout(device,
                   &(FedgateDropout){.x = b, .rows = 60, .width = WIDTH, .key = 5, .row = 0, .keep = .75f});
    device_dropout(device,
                   &(FedgateDropout){
                       .x = b + 60 * WIDTH, .rows = 40, .width = WIDTH, .key = 5, .row = 60, .keep = .75f});
    ck_assert_mem_eq(a, b, ROWS * WIDTH * 4);
    int kept = 0;
    for (int i = 0; i < ROWS * WIDTH; i++)
        kept += a[i] > 0;
    ck_assert_int_gt(kept, 3600);
    ck_assert_int_lt(kept, 3900);
    give(a, ROWS * WIDTH), give(b, ROWS * WIDTH);
}
END_TEST

START_TEST(not_a_number_passes_through_a_layer)
{
    float x[2] = {NAN, 1}, w[4] = {1, 1, 1, 1}, b[2] = {0, 0}, y[2];
    device_dense(device, &(FedgateDense){
                             .x = x, .w = w, .bias = b, .y = y, .rows = 1, .in = 2, .out = 2, .relu = true});
    ck_assert(isnan(y[0]) && isnan(y[1]));
    device_dense(device, &(FedgateDense){
                             .x = x, .w = w, .bias = b, .y = y, .rows = 1, .in = 2, .out = 1, .relu = true});
    ck_assert(isnan(y[0]));
}
END_TEST

START_TEST(pinning_the_environment_is_done_once)
{
    setenv("OPENBLAS_CORETYPE", "Prescott", 1);
    ck_assert(device_pin_environment());
    ck_assert(!device_pin_environment());
    ck_assert_str_ne(getenv("OPENBLAS_CORETYPE"), "Prescott");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("compute");
    TCase *t = tcase_create("device");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, the_device_says_what_it_is);
    tcase_add_test(t, an_absent_back_end_is_said_to_be_absent);
    tcase_add_loop_test(t, a_wrong_contract_is_refused_and_nothing_of_it_runs, 0,
                        sizeof wrong / sizeof wrong[0]);
    tcase_add_test(t, an_unsupported_machine_is_said_with_its_reason);
    tcase_add_test(t, memory_is_charged_zeroed_and_refused_over_the_budget);
    tcase_add_test(t, a_copy_waits_for_its_event_and_then_passes_its_own);
    tcase_add_test(t, a_device_closes_although_a_copy_waits_for_ever);
#ifdef FEDGATE_FAULTS
    tcase_add_test(t, the_fault_of_pageable_copies_shows_in_the_trace);
#endif
    tcase_add_test(t, pinning_the_environment_is_done_once);
    suite_add_tcase(s, t);
    t = tcase_create("operations");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, a_dense_layer_agrees_with_double_arithmetic, 0, sizeof shapes / sizeof shapes[0]);
    tcase_add_loop_test(t, the_gradients_of_a_layer_agree_with_double_arithmetic, 0,
                        sizeof shapes / sizeof shapes[0]);
    tcase_add_test(t, any_number_of_threads_gives_the_same_bits);
    tcase_add_test(t, embeddings_stand_beside_numbers_and_gather_their_gradients);
    tcase_add_loop_test(t, a_loss_has_its_value_and_its_gradient, 0, sizeof losses / sizeof losses[0]);
    tcase_add_test(t, scores_are_probabilities_or_values);
    tcase_add_test(t, an_optimizer_step_follows_the_published_rule_and_clips_by_the_norm);
    tcase_add_test(t, dropout_drops_its_share_and_depends_on_key_and_row_alone);
    tcase_add_test(t, not_a_number_passes_through_a_layer);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *r = srunner_create(suite());
    srunner_run_all(r, CK_ENV);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
