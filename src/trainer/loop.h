// loop.h - what the loop over single steps and the launches of many share: the state of a training in
// progress and what is done between its steps.
#ifndef FEDGATE_TRAINER_LOOP_H
#define FEDGATE_TRAINER_LOOP_H

#include "trainer_internal.h"

// Steps since the last report, in host time; the last line is set when the block ends.
typedef struct Block {
    int64_t begin_ns, first, samples, wait_ns, exposed_ns, compute_ns, rest_ns;
    int64_t step, epoch, elapsed_ns, live_bytes;
} Block;

struct Launcher;
typedef struct Loop {
    Trainer *trainer;
    Feed *feed;
    Clerk clerk;
    struct Launcher *launcher;   // of an asynchronous device; NULL: steps are given one by one
    FeedBatch batch;   // trained on last
    Block block;
    double train_loss;
    bool stopped, patience_over;
} Loop;

int64_t loop_now(const Loop *loop);
int64_t loop_stall_ns(int64_t step);   // planted
bool loop_keep_books(Trainer *trainer, int64_t step, Error *error);
void loop_note(Loop *loop, const StepTimes *times, int64_t samples);   // into meter and block
bool loop_ended(const Loop *loop);
// Between steps: witnesses; where an epoch or the run ends, validation; loss scale, checkpoint, report.
bool loop_after(Loop *loop, Error *error);
bool loop_look_at_scale(Trainer *trainer, Error *error);
Block loop_end_block(Loop *loop);   // and begins the next
void loop_tell(Loop *loop, const Block *block, double loss_sum, bool epoch_ended);   // to the watch

// -- launches of an asynchronous device
bool launches_run(Loop *loop, Error *error);   // to the end; launches_end is the caller's
struct Launcher *launcher_open(Loop *loop, Error *error);
void launches_end(Loop *loop);   // closes launcher and feed, or leaves them to a device that hangs
// Told when the device has passed here.
void launcher_ask_loss(struct Launcher *launcher, const Block *block);

#endif
