// plausible_work - the work of every claim, worked out again from the declared shape of the network.
//
// A claim says FLOP and bytes; both follow from how many rows went through which layers. The rows are what
// its FLOP come to, and must be whole, no more than its executions hold and, of training steps, no fewer than
// batches have. The shape is that of the policy, so neither can be chosen to fit a time.
#include "plausible_internal.h"

#include <fedgate/text.h>

enum { LAYERS_MOST = 32, EMBEDDINGS_MOST = 256 };
static const double SAME = 1e-9;   // relative: sums of doubles

typedef struct Shape {
    PlanShape plan;
    int64_t embedding[EMBEDDINGS_MOST], hidden[LAYERS_MOST];
    int64_t batch;
} Shape;

static bool read_widths(const Section *shape, const char *key, size_t most, int64_t *ret_widths,
                        size_t *ret_count)
{
    const Json *array = NULL;
    if (!section_array(shape, key, &array)) {
        return false;
    }
    bool sound = json_count(array) <= most;
    for (size_t i = 0; sound && i < json_count(array); i++) {
        ret_widths[i] = json_integer_or(json_at(array, i), 0);
        sound = ret_widths[i] >= 1 && ret_widths[i] <= 1 << 20;
    }
    if (!sound) {
        finding_set(shape->finding, OUTCOME_ERROR, NO_FIGURE,
                    "'%s.%s' is not a list of at most %zu widths from 1 to %d", shape->name, key, most,
                    1 << 20);
    }
    *ret_count = json_count(array);
    return sound;
}

static bool read_shape(const Section *plausible, Shape *ret)
{
    Section shape;
    size_t embeddings = 0;
    PlanShape *plan = &ret->plan;
    if (!section_child(plausible, "shape", "plausible.shape", &shape) ||
        !section_count(&shape, "numeric", &plan->numeric) ||
        !section_count(&shape, "outputs", &plan->outputs) ||
        !section_count(&shape, "element_bytes", &plan->bytes_per_element) ||
        !section_count(&shape, "batch", &ret->batch) ||
        !read_widths(&shape, "embedding", EMBEDDINGS_MOST, ret->embedding, &embeddings) ||
        !read_widths(&shape, "hidden", LAYERS_MOST, ret->hidden, &plan->layers)) {
        return false;
    }
    plan->categorical = (int64_t)embeddings;
    plan->embedding = ret->embedding;
    plan->hidden = ret->hidden;
    return true;
}

// A numeric column is one input, or two: its value, and whether it is there. The columns of packed shards are
// named by themselves, so none may be named in the policy.
static bool counts_agree(const Config *policy, const char *option, int64_t columns, int64_t inputs_most)
{
    int64_t named = (int64_t)config_list_count(policy, option);
    bool packed =
        config_list_count(policy, "data.numeric") + config_list_count(policy, "data.categorical") == 0;
    return packed || (columns >= named && columns <= inputs_most * named);
}

// Another network than the policy's would make any time look possible.
static bool is_declared(const Json *evidence, const Section *plausible, const Config *policy,
                        const Shape *shape)
{
    const char *precision = json_text_or(json_get(evidence, "precision"), "");
    bool half = text_equal(precision, "bf16") || text_equal(precision, "fp16");
    bool same = shape->batch == config_integer(policy, "train.batch") &&
                shape->plan.layers == config_list_count(policy, "train.hidden") &&
                shape->plan.bytes_per_element == (half ? 2 : 4) && shape->plan.outputs >= 1 &&
                shape->plan.numeric + shape->plan.categorical >= 1 && shape->plan.numeric <= 1 << 20 &&
                shape->plan.outputs <= 1 << 20 &&
                counts_agree(policy, "data.numeric", shape->plan.numeric, 2) &&
                counts_agree(policy, "data.categorical", shape->plan.categorical, 1);
    for (size_t i = 0; same && i < shape->plan.layers; i++) {
        same = shape->hidden[i] == config_list_integer(policy, "train.hidden", i);
    }
    if (!same) {
        finding_set(
            plausible->finding, OUTCOME_ERROR, NO_FIGURE,
            "the declared shape, %lld + %lld columns, %zu layers, %lld outputs of %lld bytes, batches of "
            "%lld, is not the policy's",
            (long long)shape->plan.numeric, (long long)shape->plan.categorical, shape->plan.layers,
            (long long)shape->plan.outputs, (long long)shape->plan.bytes_per_element,
            (long long)shape->batch);
    }
    return same;
}

static const struct {
    const char *name;
    bool forward, backward, steps;
} passes[] = {
    {"forward", true, false, false},
    {"backward", false, true, false},
    {"training step", true, true, true},
};

static void add_pass(const Shape *shape, bool backward, PassWork *sum)
{
    PassWork one;
    plan_pass_work(&shape->plan, backward, &one);
    sum->row_flop += one.row_flop;
    sum->row_bytes += one.row_bytes;
    sum->pass_bytes += one.pass_bytes;
}

// An epoch's last batch is shorter; over whole epochs steps have so many rows each.
static double rows_a_step(const Json *evidence, const Shape *shape)
{
    double rows = json_number_or(json_find(evidence, "input.rows.train"), (double)shape->batch);
    return rows / ceil(rows / (double)shape->batch);
}

static bool claim_follows(const Json *evidence, const Section *plausible, const Shape *shape,
                          const Claim *claim)
{
    PassWork work = {0};
    bool steps = false;
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        if (text_equal(claim->name, passes[i].name)) {
            steps = passes[i].steps;
            if (passes[i].forward) {
                add_pass(shape, false, &work);
            }
            if (passes[i].backward) {
                add_pass(shape, true, &work);
            }
        }
    }
    if (work.row_flop == 0) {
        finding_set(plausible->finding, OUTCOME_ERROR, NO_FIGURE, "claim '%.60s' is of no known pass",
                    claim->name);
        return false;
    }
    double rows = round(claim->flop / work.row_flop);
    double bytes = rows * work.row_bytes + (double)claim->count * work.pass_bytes;
    double most = (double)claim->count * (double)shape->batch;
    double least = steps ? (double)claim->count * rows_a_step(evidence, shape) / 2 : (double)claim->count;
    bool follows = fabs(rows * work.row_flop - claim->flop) <= SAME * claim->flop &&
                   fabs(bytes - claim->bytes) <= SAME * bytes && rows <= most && rows >= least;
    if (!follows) {
        finding_set(
            plausible->finding, OUTCOME_ERROR,
            (Figure){claim->flop, rows * work.row_flop, "FLOP", claim->count},
            "claim '%.40s' of %.9g FLOP and %.9g bytes: %lld executions of %.9g FLOP a row make %.0f rows, "
            "from %.0f to %.0f, and %.9g bytes",
            claim->name, claim->flop, claim->bytes, (long long)claim->count, work.row_flop, rows, least, most,
            bytes);
    }
    return follows;
}

bool work_follows(const Json *evidence, const Section *plausible, const Config *policy, const Claim *claims,
                  size_t count, double *ret_working_set)
{
    Shape shape = {0};
    if (!read_shape(plausible, &shape) || !is_declared(evidence, plausible, policy, &shape)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!claim_follows(evidence, plausible, &shape, &claims[i])) {
            return false;
        }
    }
    PassWork step = {0};
    add_pass(&shape, false, &step);
    add_pass(&shape, true, &step);
    *ret_working_set = (double)shape.batch * step.row_bytes + step.pass_bytes;
    return true;
}
