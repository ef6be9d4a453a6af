// launch.h - launches of an asynchronous device: what is in flight, and what was fetched behind it.
#ifndef FEDGATE_TRAINER_LAUNCH_H
#define FEDGATE_TRAINER_LAUNCH_H

#include "loop.h"

enum {
    LAUNCHES = 4,   // places for launches that were given and not yet told of
    LAUNCHES_AHEAD = 2,   // given and not passed
    LAUNCHES_WARM = 1,   // waited for and left out of the steady state: a device starts slowly
    LAUNCH_SLOTS = 64   // most of option input.slots
};

typedef struct ReadBack {   // pinned memory that the device writes
    StepBlock block;
    double loss;
    uint64_t digest[FEED_GROUP];
} ReadBack;
typedef struct Launch {
    DeviceEvent *passed;
    ReadBack *back;
    int64_t step, digests, attempted;   // attempted: optimizer steps given up to here
    uint64_t counted[FEED_GROUP];   // [digests]: what the host counted of the batches
    bool fetched, asked;   // the step block; the loss of `block`
    Block block;
} Launch;

typedef struct Launcher {
    Loop *loop;
    Trainer *trainer;
    Device *device;
    FeedGroup group;
    int64_t at;   // batches of the group that were given
    bool records, rehearses;   // rehearses: nothing is done between steps
    bool eager[LAUNCH_SLOTS];   // a full group of this slot was given step by step
    int64_t fresh;   // launches given when a recording was made, or became due, last
    DeviceRecording *recording[LAUNCH_SLOTS];
    int64_t warm;
    Launch launch[LAUNCHES];
    ReadBack *back;   // [LAUNCHES], then what copies out are staged in
    DeviceEvent *staged;
    int64_t given, passed, read, told;   // launches: given to the device, waited for, read, told of
    int64_t attempted, fetched, seen;   // optimizer steps: given, fetched behind, whose end was read
    int64_t step;   // of the run, of the next one whose end is read
    bool apart, apart_at[STEP_ENDED];
    int64_t timeout_ns;
} Launcher;

// -- readback.c
bool launcher_take_read_back(Launcher *launcher, Error *error);
void launcher_give_read_back(Launcher *launcher);
// Queues what is fetched behind the batches up to `to` of the group, and the mark that says they passed.
void launcher_fetch(Launcher *launcher, int64_t to);
// Waits until a launch may be given. ERROR_DEVICE after option device.timeout without progress.
bool launcher_throttle(Launcher *launcher, Error *error);
void launcher_read(Launcher *launcher);   // takes in what passed launches brought
bool launcher_drain(Launcher *launcher, Error *error);   // waits for all, reads and tells
void launcher_tell(Launcher *launcher);

#endif
