// parity_pairs - rungs 5 and 6: short trainings in pairs, half precision and FP32 from the same initial
// weights on the same rows in the same order with the same dropout; and what FP32 does to itself.
//
// Chaos makes one changed bit grow like another seed, so single losses are not compared: blocks of steps are,
// with the band that FP32 runs span whose start is one ulp off or whose seed is another. The number of steps
// follows from counts: all of parity reads at most 0.7 of the rows that the candidate's training read. Where
// that leaves too few, the perturbed runs become fewer first; below LEAST_STEPS nothing is saved any more,
// and parity of so short a training takes longer than it (evidence parity.share says how much).
#include "parity_internal.h"

#include <fedgate/fault.h>
#include <fedgate/hash.h>
#include <fedgate/random.h>
#include <math.h>
#include <string.h>

enum { ULP_RUNS = 4, LEAST_ULP_RUNS = 2, BLOCKS = 8, LEAST_STEPS = 8 };
static const double share_of_training = 0.7;
// Rungs 1 to 4: some batches, and float64 that is worth a few thousand rows.
static const double rows_before = 4096, batches_before = 30;

typedef struct Pairs {
    Parity *parity;
    Recipe recipe;
    Scorer scorer;
    size_t count, ulps, blocks;   // ulps: runs of a perturbed start
    int64_t steps, block;
    uint64_t *seed;
    double *loss[ARM_COUNT], *ulp;   // mean of each block, [runs x blocks]
    double *metric[ARM_COUNT], *slice[ARM_COUNT];
} Pairs;

// -- how many steps

double parity_training_passes(const Trainer *trainer)
{
    const Progress *progress = &trainer->progress;
    double looks = (double)(progress->epoch + (progress->position > 0));
    return 3 * (double)progress->samples + looks * (double)trainer->validation.rows;
}

static int64_t steps_fitting(const Parity *parity, size_t pairs, size_t ulps)
{
    const Trainer *trainer = parity->trainer;
    double validation = (double)trainer->validation.rows, batch = (double)trainer->batch;
    double fixed = 3 * (rows_before + batches_before * batch) + (double)(2 * pairs + 2) * validation;
    double runs = (double)(2 * pairs + ulps);
    return (int64_t)((share_of_training * parity_training_passes(trainer) - fixed) / (3 * batch * runs));
}

static size_t choose_ulps(const Parity *parity, size_t pairs)
{
    size_t ulps = pairs < ULP_RUNS ? pairs : ULP_RUNS;
    bool asked = config_integer(parity->trainer->config, "parity.steps") > 0;   // then nothing is fitted
    while (!asked && ulps > LEAST_ULP_RUNS && steps_fitting(parity, pairs, ulps) < LEAST_STEPS)
        ulps--;
    return ulps;
}

// Down to a power of two, or half as much again: nights of about the same length train pairs of one length,
// and only such pairs add up.
static int64_t round_steps(int64_t steps)
{
    int64_t rounded = LEAST_STEPS;
    while (2 * rounded <= steps)
        rounded *= 2;
    return rounded + rounded / 2 <= steps ? rounded + rounded / 2 : rounded;
}

static int64_t choose_steps(const Parity *parity, size_t pairs, size_t ulps)
{
    const Trainer *trainer = parity->trainer;
    int64_t asked = config_integer(trainer->config, "parity.steps"), earlier = parity->spec->earlier_steps,
            fitting = steps_fitting(parity, pairs, ulps), steps = asked > 0 ? asked : round_steps(fitting);
    if (asked == 0 && earlier >= steps / 2 && (double)earlier * share_of_training <= (double)fitting)
        steps = earlier;   // nights whose length varies a little have pairs that add up
    return steps < trainer->planned ? steps : trainer->planned;
}

// -- one run

// Every weight but the zeros one representable value up or down.
static bool move_one_ulp(Parity *parity, uint64_t key, Error *error)
{
    Network *network = parity->arm[ARM_REFERENCE];
    float *state = parity->state[ARM_REFERENCE];
    FedgateStepState step;
    if (!network_save(network, state, &step, error))
        return false;
    for (int64_t i = 0; i < network->layout.floats; i++)
        if (state[i] != 0)
            state[i] = nextafterf(state[i], random_bits(key, (uint64_t)i) & 1 ? INFINITY : -INFINITY);
    return network_load(network, state, &step, error);
}

static bool train_steps(Pairs *pairs, Arm arm, uint64_t seed, Feed *feed, double *ret_loss, Error *error)
{
    Network *network = pairs->parity->arm[arm];
    int64_t rows = 0;
    for (int64_t step = 0; step < pairs->steps; step++) {
        FeedBatch batch;
        int64_t wait_ns, exposed_ns;
        if (!parity_goes_on(pairs->parity, error))
            return false;
        int got = feed_next(feed, &batch, &wait_ns, &exposed_ns, error);
        if (got <= 0)
            return got == 0 ? FAIL(error, ERROR_INTERNAL, 0, "a parity run has no batch for step %lld",
                                   (long long)step)
                            : false;
        Rows given = {
            .numeric = batch.numeric, .codes = batch.codes, .target = batch.target, .count = batch.rows};
        feed_compute_begins(feed, &batch);
        parity_gradient(pairs->parity, arm, &pairs->recipe, &given, seed);
        network_update(network, &pairs->recipe);
        feed_release(feed, &batch);
        rows += batch.rows;
        if ((step + 1) % pairs->block != 0 && step + 1 != pairs->steps)
            continue;
        double sum;
        if (!network_read_loss(network, &sum, error))
            return false;
        *ret_loss++ = sum / (double)rows;
        rows = 0;
    }
    return true;
}

// ulp: key of a perturbed start, 0: none.
static bool run(Pairs *pairs, Arm arm, uint64_t seed, uint64_t ulp, double *ret_loss, Error *error)
{
    Parity *parity = pairs->parity;
    Progress start = {0};
    if (!network_start(parity->arm[arm], &pairs->recipe, seed, error) ||
        (ulp != 0 && !move_one_ulp(parity, ulp, error)))
        return false;
    OWNED(Feed, feed_close) *feed = trainer_feed_of(parity->trainer, seed, &start, error);
    return feed && train_steps(pairs, arm, seed, feed, ret_loss, error);
}

static bool score(Pairs *pairs, Arm arm, size_t pair, Error *error)
{
    double *metric = &pairs->metric[arm][pair];
    if (!scorer_run(&pairs->scorer, pairs->parity, arm, metric,
                    pairs->slice[arm] + pair * pairs->scorer.slices, error))
        return false;
    if (fault_set("parity.flat_metric"))   // planted: a metric that cannot tell anything apart
        *metric = 0.75;
    return true;
}

static bool pair_failed(const Pairs *pairs, const char *what, size_t number, Error *error)
{
    return !pairs->parity->left && error_prefix(error, "%s %zu", what, number);
}

static bool run_all(Pairs *pairs, Error *error)
{
    const size_t blocks = pairs->blocks;
    const bool scored = pairs->parity->trainer->validation.rows > 0;
    for (size_t i = 0; i < pairs->count; i++)
        for (int arm = 0; arm < ARM_COUNT; arm++)
            if (!run(pairs, (Arm)arm, pairs->seed[i], 0, pairs->loss[arm] + i * blocks, error) ||
                (scored && !score(pairs, (Arm)arm, i, error)))
                return pair_failed(pairs, "pair", i, error);
    for (size_t i = 0; i < pairs->ulps; i++) {
        uint64_t seed = pairs->seed[i];
        if (!run(pairs, ARM_REFERENCE, seed, hash_mix2(seed, i + 1) | 1, pairs->ulp + i * blocks, error))
            return pair_failed(pairs, "perturbed run", i, error);
    }
    return true;
}

// -- evidence

static void put_ratios(const Pairs *pairs, const char *kind, uint64_t seed, const double *loss,
                       const double *reference, Json *array)
{
    Json *json = json_make_object(), *ratios = json_make_array();
    json_put_text(json, "kind", kind);
    json_put_integer(json, "seed", (int64_t)seed);
    for (size_t i = 0; i < pairs->blocks; i++)
        json_add_number(ratios, log(loss[i] / reference[i]));
    json_put(json, "log_ratio", ratios);
    json_add(array, json);
}

static Json *trajectory(const Pairs *pairs)
{
    const size_t blocks = pairs->blocks, count = pairs->count;
    const double *reference = pairs->loss[ARM_REFERENCE];
    Json *json = json_make_object(), *array = json_make_array();
    json_put_integer(json, "steps", pairs->steps);
    json_put_integer(json, "block", pairs->block);
    for (size_t i = 0; i < count; i++)
        put_ratios(pairs, "candidate", pairs->seed[i], pairs->loss[ARM_CANDIDATE] + i * blocks,
                   reference + i * blocks, array);
    for (size_t i = 0; i < pairs->ulps; i++)
        put_ratios(pairs, "ulp", pairs->seed[i], pairs->ulp + i * blocks, reference + i * blocks, array);
    for (size_t i = 0; i < count; i++)
        put_ratios(pairs, "seed", pairs->seed[i], reference + i * blocks,
                   reference + (i + 1) % count * blocks, array);
    json_put(json, "pairs", array);
    return json;
}

static Json *metric(const Pairs *pairs, const double trained[ARM_COUNT])
{
    const Parity *parity = pairs->parity;
    const MetricInfo *info = &stats_metrics[parity->spec->metric];
    Json *json = json_make_object(), *array = json_make_array(), *both = json_make_object();
    json_put_text(json, "name", info->name);
    json_put_bool(json, "relative", info->relative_margin);
    json_put_bool(json, "higher_is_better", info->higher_is_better);
    json_put_number(json, "quantum", scorer_quantum(parity));
    json_put_integer(json, "rows", (int64_t)parity->trainer->validation.rows);
    json_put_integer(json, "looks", 1);
    for (size_t i = 0; i < pairs->count; i++) {
        Json *pair = json_make_object();
        json_put_integer(pair, "seed", (int64_t)pairs->seed[i]);
        json_put_text(pair, "run", parity->spec->run);
        json_put_number(pair, "reference", pairs->metric[ARM_REFERENCE][i]);
        json_put_number(pair, "candidate", pairs->metric[ARM_CANDIDATE][i]);
        json_add(array, pair);
    }
    json_put(json, "pairs", array);
    json_put_number(both, "reference", trained[ARM_REFERENCE]);
    json_put_number(both, "candidate", trained[ARM_CANDIDATE]);
    json_put(json, "trained", both);
    return json;
}

// -- all of it

// Follows from the training's seed, the files, and which of their rows each split has: nights that move only
// the cutoff, or the split, draw other seeds. So do nights of one version, by their slot.
static uint64_t seed_key(const Trainer *trainer, const char *draw)
{
    Digest drawn;
    uint64_t night = 0;
    const Dataset *dataset = trainer->spec.dataset;
    Digest digest;
    uint64_t data = 0;
    dataset_digest(dataset, &digest);
    memcpy(&data, digest.bytes, sizeof data);
    uint64_t rows = hash_mix2(trainer->order_digest, dataset_row_digest(dataset, SPLIT_VALIDATION));
    if (draw) {
        hash_bytes(draw, strlen(draw), &drawn);
        memcpy(&night, drawn.bytes, sizeof night);
    }
    return hash_mix2(hash_mix2(hash_mix2(trainer->seed, data), rows), hash_mix2(0x7061697273u, night));
}

// Distinct from each other and from the training's own; below 2^53, so that any reader of JSON holds them.
static void draw_seeds(Pairs *pairs)
{
    const Trainer *trainer = pairs->parity->trainer;
    const uint64_t key = seed_key(trainer, pairs->parity->spec->draw);
    for (size_t i = 0, counter = 0; i < pairs->count; counter++) {
        uint64_t seed = random_bits(key, counter) >> 11;
        bool taken = seed == trainer->seed;
        for (size_t k = 0; k < i; k++)
            taken = taken || pairs->seed[k] == seed;
        if (!taken)
            pairs->seed[i++] = seed;
    }
}

static bool open_pairs(Pairs *pairs, Parity *parity, Error *error)
{
    *pairs = (Pairs){.parity = parity,
                     .recipe = parity->recipe,
                     .count = (size_t)config_integer(parity->trainer->config, "parity.pairs")};
    if (!scorer_open(&pairs->scorer, parity, error))
        return false;
    pairs->ulps = choose_ulps(parity, pairs->count);
    pairs->steps = choose_steps(parity, pairs->count, pairs->ulps);
    pairs->block = pairs->steps > BLOCKS ? pairs->steps / BLOCKS : 1;
    pairs->blocks = (size_t)((pairs->steps + pairs->block - 1) / pairs->block);
    // A night settles its loss scale in its first steps, a share of these runs that would not be its own.
    if (parity->scale < pairs->recipe.scale_initial)
        pairs->recipe.scale_initial = parity->scale;
    const size_t losses = pairs->blocks, slices = pairs->scorer.slices, count = pairs->count;
    double *memory = parity_take(
        parity, (int64_t)((count * (1 + 2 * (losses + 1 + slices)) + pairs->ulps * losses) * sizeof(double)),
        error);
    if (!memory)
        return false;
    pairs->seed = (uint64_t *)(void *)memory;
    memory += count;
    for (int arm = 0; arm < ARM_COUNT; arm++) {
        pairs->loss[arm] = memory;
        pairs->metric[arm] = pairs->loss[arm] + count * losses;
        pairs->slice[arm] = pairs->metric[arm] + count;
        memory = pairs->slice[arm] + count * slices;
    }
    pairs->ulp = memory;
    draw_seeds(pairs);
    for (int arm = 0; arm < ARM_COUNT; arm++)
        if (!network_set_pace(parity->arm[arm], &pairs->recipe, pairs->steps, error))
            return false;
    return true;
}

static bool score_trained(Pairs *pairs, const float *best, double ret_metric[ARM_COUNT], Error *error)
{
    Parity *parity = pairs->parity;
    FedgateStepState step = {.scale = 1, .smallest = 1};
    for (int arm = 0; arm < ARM_COUNT; arm++) {
        memcpy(parity->state[arm], best, (size_t)trainer_floats(parity->trainer) * sizeof *best);
        if (!network_load(parity->arm[arm], parity->state[arm], &step, error) ||
            !scorer_run(&pairs->scorer, parity, (Arm)arm, &ret_metric[arm], NULL, error))
            return false;
    }
    return true;
}

bool parity_pairs(Parity *parity, const float *best, Json *section, Error *error)
{
    Pairs pairs;
    double trained[ARM_COUNT];
    bool good = open_pairs(&pairs, parity, error) && score_trained(&pairs, best, trained, error) &&
                run_all(&pairs, error);
    if (good)
        json_put(section, "trajectory", trajectory(&pairs));
    if (good && parity->trainer->validation.rows > 0) {   // else there is nothing to take a metric of
        Json *slices = json_make_array();
        const double *const values[ARM_COUNT] = {pairs.slice[ARM_CANDIDATE], pairs.slice[ARM_REFERENCE]};
        json_put(section, "metric", metric(&pairs, trained));
        scorer_put_slices(&pairs.scorer, parity, pairs.count, values, slices);
        json_put(section, "slices", slices);
    }
    scorer_close(&pairs.scorer, parity);
    return good;
}
