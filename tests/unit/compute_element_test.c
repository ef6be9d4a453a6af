// compute_element_test - inputs, dropout, losses and scores against double arithmetic, in all three types.
#include "compute_fixture.h"

static const FedgateType types[] = {FEDGATE_FP32, FEDGATE_BF16, FEDGATE_FP16};
enum { TYPES = sizeof types / sizeof types[0] };

// -- inputs

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

// Two tables of odd widths between numbers, more rows than a block.
enum { ROWS = 777, NUMBERS = 5, WIDTH = NUMBERS + 3 + 9, FLOATS = 3 * 20 + 9 * 4, CODES = 2 };
static const FedgateEmbedding tables_of_two[CODES] = {
    {.offset = 0, .width = 3, .cardinality = 20, .column = NUMBERS},
    {.offset = 60, .width = 9, .cardinality = 4, .column = NUMBERS + 3},
};
static int32_t two_codes[ROWS * CODES];

static FedgateAssemble assembly(FedgateType type, void *x)
{
    for (int i = 0; i < ROWS; i++)
        two_codes[CODES * i] = i * 7 % 20, two_codes[CODES * i + 1] = i * i % 4;
    return (FedgateAssemble){.type = type,
                             .x = x,
                             .rows = ROWS,
                             .width = WIDTH,
                             .numeric_count = NUMBERS,
                             .codes = two_codes,
                             .embeddings = tables_of_two,
                             .embedding_count = CODES};
}

START_TEST(an_assembled_input_is_the_rounded_numbers_and_the_rows_of_the_tables)
{
    FedgateType type = types[_i];
    float *numeric = take_noise((int64_t)ROWS * NUMBERS, 1), *expected = take((int64_t)ROWS * WIDTH);
    Twin tables = twin_noise(type, FLOATS, 2);
    void *x = take_typed(type, (int64_t)ROWS * WIDTH);
    FedgateAssemble op = assembly(type, x);
    op.numeric = numeric, op.tables = tables.typed;
    device_assemble(device, &op);
    for (int i = 0; i < ROWS; i++) {
        memcpy(expected + i * WIDTH, numeric + i * NUMBERS, NUMBERS * sizeof *numeric);
        for (int c = 0; c < CODES; c++) {
            const FedgateEmbedding *e = &tables_of_two[c];
            memcpy(expected + i * WIDTH + e->column,
                   tables.plain + e->offset + two_codes[CODES * i + c] * e->width,
                   (size_t)e->width * sizeof *expected);
        }
    }
    Twin rounded = twin_of(type, expected, (int64_t)ROWS * WIDTH);   // rounding twice changes nothing
    ck_assert_mem_eq(x, rounded.typed, (size_t)(ROWS * WIDTH * fedgate_type_bytes(type)));
    give(numeric, (int64_t)ROWS * NUMBERS), give(expected, (int64_t)ROWS * WIDTH);
    give_typed(type, x, (int64_t)ROWS * WIDTH);
    twin_free(&tables), twin_free(&rounded);
}
END_TEST

START_TEST(the_gradient_of_the_tables_is_summed_in_fp32)
{
    FedgateType type = types[_i];
    Twin x = twin_noise(type, (int64_t)ROWS * WIDTH, 1);
    float gradient[FLOATS];
    double sum[FLOATS] = {0}, magnitude[FLOATS] = {0};
    FedgateAssemble op = assembly(type, x.typed);
    op.gradient = gradient;
    device_assemble_back(device, &op);
    op.accumulate = true;
    device_assemble_back(device, &op);
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < CODES; c++)
            for (int64_t j = 0; j < tables_of_two[c].width; j++) {
                const FedgateEmbedding *e = &tables_of_two[c];
                int64_t at = e->offset + two_codes[CODES * i + c] * e->width + j;
                double value = (double)x.plain[i * WIDTH + e->column + j];
                sum[at] += 2 * value;
                magnitude[at] += 2 * fabs(value);
            }
    for (int i = 0; i < FLOATS; i++)
        ck_assert_double_le(fabs((double)gradient[i] - sum[i]),
                            bar_of(FEDGATE_FP32, 2 * ROWS, magnitude[i], sum[i]));
    twin_free(&x);
}
END_TEST

// -- dropout

START_TEST(dropout_drops_its_share_and_depends_on_key_and_row_alone)
{
    enum { TALL = 100, BROAD = 50 };
    float *a = take(TALL * BROAD), *b = take(TALL * BROAD);
    for (int i = 0; i < TALL * BROAD; i++)
        a[i] = b[i] = 1;
    device_dropout(device,
                   &(FedgateDropout){.x = a, .rows = TALL, .width = BROAD, .key = 5, .row = 0, .keep = .75f});
    device_dropout(device,
                   &(FedgateDropout){.x = b, .rows = 60, .width = BROAD, .key = 5, .row = 0, .keep = .75f});
    device_dropout(device,
                   &(FedgateDropout){
                       .x = b + 60 * BROAD, .rows = 40, .width = BROAD, .key = 5, .row = 60, .keep = .75f});
    ck_assert_mem_eq(a, b, TALL * BROAD * 4);
    int kept = 0;
    for (int i = 0; i < TALL * BROAD; i++)
        kept += a[i] > 0;
    ck_assert_int_gt(kept, 3600);
    ck_assert_int_lt(kept, 3900);
    give(a, TALL * BROAD), give(b, TALL * BROAD);
}
END_TEST

START_TEST(dropout_drops_the_same_elements_in_each_type_and_rounds_the_rest_once)
{
    enum { TALL = 9, BROAD = 1100 };
    FedgateType type = types[_i];
    Twin x = twin_noise(type, TALL * BROAD, 4);
    FedgateDropout op = {
        .type = type, .x = x.typed, .rows = TALL, .width = BROAD, .key = 5, .row = 3, .keep = .7f};
    device_dropout(device, &op);
    op.type = FEDGATE_FP32, op.x = x.plain;
    device_dropout(device, &op);
    Twin expected = twin_of(type, x.plain, TALL * BROAD);
    ck_assert_mem_eq(x.typed, expected.typed, (size_t)(TALL * BROAD * fedgate_type_bytes(type)));
    int dropped = 0;
    for (int i = 0; i < TALL * BROAD; i++)
        dropped += x.plain[i] == 0;
    ck_assert_int_gt(dropped, TALL * BROAD / 4);
    twin_free(&x), twin_free(&expected);
}
END_TEST

// -- losses

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

// kind, outputs
static const struct {
    FedgateLossKind kind;
    int64_t outputs;
} kinds[] = {{FEDGATE_LOSS_BINARY, 1}, {FEDGATE_LOSS_CLASSES, 3}, {FEDGATE_LOSS_SQUARE, 1}};
enum { KINDS = sizeof kinds / sizeof kinds[0], EXAMPLES = 600 };

START_TEST(a_gradient_is_scaled_by_the_state_and_rounded_to_its_type)
{
    FedgateType type = types[_i % TYPES];
    int64_t outputs = kinds[_i / TYPES].outputs, count = EXAMPLES * outputs;
    float *logits = take_noise(count, 1), *plain = take(count), target[EXAMPLES];
    for (int i = 0; i < EXAMPLES; i++)
        target[i] = (float)(i % (outputs > 1 ? outputs : 2));
    void *gradient = take_typed(type, count);
    double loss[2] = {0};
    FedgateStepState state = {.scale = 4096};
    FedgateLoss op = {.kind = kinds[_i / TYPES].kind,
                      .logits = logits,
                      .target = target,
                      .gradient = plain,
                      .loss = &loss[0],
                      .rows = EXAMPLES,
                      .outputs = outputs,
                      .scale = 1.0f / EXAMPLES};
    device_loss(device, &op);
    op.gradient_type = type, op.gradient = gradient, op.loss = &loss[1], op.state = &state;
    device_loss(device, &op);
    ck_assert_double_eq(loss[0], loss[1]);   // the loss itself is never scaled
    for (int64_t i = 0; i < count; i++)
        plain[i] *= 4096;   // a power of two: exact
    Twin expected = twin_of(type, plain, count);
    ck_assert_mem_eq(gradient, expected.typed, (size_t)(count * fedgate_type_bytes(type)));
    give(logits, count), give(plain, count), give_typed(type, gradient, count), twin_free(&expected);
}
END_TEST

START_TEST(a_small_gradient_is_lost_in_fp16_without_its_scale)
{
    float logit = 0, target = 1;
    double loss = 0;
    uint16_t gradient = 0;
    FedgateStepState state = {.scale = 65536};
    FedgateLoss op = {.kind = FEDGATE_LOSS_BINARY,
                      .logits = &logit,
                      .target = &target,
                      .gradient_type = FEDGATE_FP16,
                      .gradient = &gradient,
                      .loss = &loss,
                      .rows = 1,
                      .outputs = 1,
                      .scale = 0x1p-25f};
    device_loss(device, &op);
    ck_assert_uint_eq(gradient, 0x8000);   // -2^-26: minus nothing
    op.state = &state;
    device_loss(device, &op);
    ck_assert_uint_eq(gradient, 0x9400);   // -2^-10
    op.scale = 4;
    device_loss(device, &op);
    ck_assert_uint_eq(gradient, 0xfc00);   // -131072: minus infinity
}
END_TEST

static double mean_loss(void)
{
    enum { MANY = 20000 };
    float *logits = take(MANY), *target = take(MANY);
    double sum = 0;
    for (int batch = 0; batch < 2; batch++)
        device_loss(
            device,
            &(FedgateLoss){
                .logits = logits, .target = target, .loss = &sum, .rows = MANY, .outputs = 1, .scale = 1});
    give(logits, MANY), give(target, MANY);
    return sum / (2 * MANY);
}

START_TEST(losses_are_summed_in_double)
{
    ck_assert_double_eq_tol(mean_loss(), 0.6931471805599453, 1e-12);
#ifdef FEDGATE_FAULTS
    setenv("FEDGATE_FAULT", "compute.metric_bf16=1", 1);
    ck_assert_double_lt(mean_loss(), 0.1);   // the sum stops growing at 256 times what is added
    unsetenv("FEDGATE_FAULT");
#endif
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("compute_element");
    TCase *t = tcase_create("elements");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, embeddings_stand_beside_numbers_and_gather_their_gradients);
    tcase_add_loop_test(t, an_assembled_input_is_the_rounded_numbers_and_the_rows_of_the_tables, 0, TYPES);
    tcase_add_loop_test(t, the_gradient_of_the_tables_is_summed_in_fp32, 0, TYPES);
    tcase_add_test(t, dropout_drops_its_share_and_depends_on_key_and_row_alone);
    tcase_add_loop_test(t, dropout_drops_the_same_elements_in_each_type_and_rounds_the_rest_once, 0, TYPES);
    tcase_add_loop_test(t, a_loss_has_its_value_and_its_gradient, 0, sizeof losses / sizeof losses[0]);
    tcase_add_test(t, scores_are_probabilities_or_values);
    tcase_add_loop_test(t, a_gradient_is_scaled_by_the_state_and_rounded_to_its_type, 0, KINDS * TYPES);
    tcase_add_test(t, a_small_gradient_is_lost_in_fp16_without_its_scale);
    tcase_add_test(t, losses_are_summed_in_double);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
