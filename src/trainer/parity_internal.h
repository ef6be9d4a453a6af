// parity_internal - what the rungs of the parity ladder share: two arms, a batch in hand, and the float64
// arbiter.
//
// The candidate's arm is the trainer's own network, whose state is kept in host memory and put back; the
// reference's is one more network in FP32. Arms run one after the other, never at once.
#ifndef FEDGATE_PARITY_INTERNAL_H
#define FEDGATE_PARITY_INTERNAL_H

#include "trainer_internal.h"

#include <fedgate/json.h>

// -- float64 on the host
typedef struct HostRows {
    const float *numeric;
    const int32_t *codes;
    const float *target;
    int64_t count;
} HostRows;
// Loss of one row; ret_gradient [outputs]: its derivative by the logits.
double arbiter_loss(FedgateLossKind kind, const double *logits, int64_t outputs, double target,
                    double *ret_gradient);
// Of the mean loss of the rows. ret_gradient [layout->floats]; ret_square [layout->count]: mean over rows of
// the squared norm of the row's own gradient, of each parameter.
bool arbiter_gradient(const Layout *layout, const TrainShape *shape, FedgateLossKind kind,
                      const float *weights, const HostRows *rows, double *ret_gradient, double *ret_square,
                      double *ret_loss, Error *error);

// -- rungs 1 and 2: operations with operands of our own
bool parity_probes(Trainer *trainer, Json *parity, Error *error);
// Errors of operations in the candidate's type and in the reference's.
bool parity_operations(Trainer *trainer, FedgateType candidate, FedgateType reference, Json *parity,
                       Error *error);

// -- rungs 3 to 6
typedef enum Arm { ARM_CANDIDATE, ARM_REFERENCE, ARM_COUNT } Arm;
enum { PARITY_HOLDS = 32 };
typedef struct Parity {
    Trainer *trainer;
    const ParitySpec *spec;   // of rungs 5 and 6
    FedgateType half;
    Network extra;
    Network *arm[ARM_COUNT];
    Recipe recipe;
    Rows batch;   // on the device while `feed` is open
    Feed *feed;
    FeedBatch taken;
    float *kept;   // of the trainer's network, [3 x floats]
    FedgateStepState kept_step;
    float *state[ARM_COUNT];   // scratch, [3 x floats] each
    double scale;   // loss scale at which this model's gradients are finite
    double row_passes;   // forward passes of a row done so far; forward and backward count as three
    int64_t begun_ns, modelled_ns;   // modelled: by how much the simulated clock was advanced
    bool left;   // out of time: what is missing is left out
    struct {
        void *memory;
        int64_t bytes;
    } held[PARITY_HOLDS];   // host memory, given back at the end
    size_t holds;
} Parity;
void *parity_take(Parity *parity, int64_t bytes, Error *error);   // host memory until the end
bool parity_take_batch(Parity *parity, Error *error);   // the first batch of the training's order
void parity_give_batch(Parity *parity);
void parity_prepare(Parity *parity, Arm arm);   // before its passes
// Between steps and runs. False: end here, out of time (parity->left, no error) or stopped (ERROR_BUSY).
bool parity_goes_on(Parity *parity, Error *error);
// Gradient of the mean loss into the network, as its arm computes it.
void parity_gradient(Parity *parity, Arm arm, const Recipe *recipe, const Rows *rows, uint64_t seed);

// weights [floats] on the host. Adds to gradients[]; ret_controls may be NULL.
bool parity_gradients(Parity *parity, const char *at, int64_t step, const float *weights, Json *gradients,
                      Json *controls, Error *error);
// One step (or several) of both arms from the same state [3 x floats]. Adds to step[]; sets parity->scale.
typedef struct ParityStep {
    const char *at;
    int64_t step, steps;   // steps: how many are taken before looking
    const float *state;
    FedgateStepState from;
} ParityStep;
bool parity_step(Parity *parity, const ParityStep *step, Json *steps, Error *error);

// Metric of a network's scores on the validation rows, whole and by slice, in its own arithmetic.
typedef struct Scorer {
    const ParitySpec *spec;
    double *score, *device_score;
    int64_t device_rows, device_bytes;
    double *slice_score, *slice_target;
    size_t slices;   // values of all columns
} Scorer;
bool scorer_open(Scorer *scorer, Parity *parity, Error *error);
void scorer_close(Scorer *scorer, Parity *parity);
// ret_slices [scorer->slices], may be NULL.
bool scorer_run(Scorer *scorer, Parity *parity, Arm arm, double *ret_metric, double *ret_slices,
                Error *error);
double scorer_quantum(const Parity *parity);   // smallest step of the metric, 0: none
// The metrics of each slice with rows: values [pairs x slices] of both arms.
void scorer_put_slices(const Scorer *scorer, const Parity *parity, size_t pairs,
                       const double *const values[ARM_COUNT], Json *slices);

// Forward passes of a row that the training took, its looks at the validation rows included.
double parity_training_passes(const Trainer *trainer);
bool parity_pairs(Parity *parity, const float *best, Json *section, Error *error);

#endif
