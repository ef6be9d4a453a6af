// clerk - tells the loader that compute has begun, beside it: waking loader and staging threads costs as much
// as several small kernels, and the thread that computes would leave the device without work for so long.
//
// The clerk looks for duty at short intervals instead of being woken, for the same reason; having done one it
// sleeps for half of a step, so it takes little of a processor. What it has not begun when the step ends, the
// training thread does itself, so a step shorter than an interval is served too.
#include "trainer_internal.h"

#include <stdatomic.h>
#include <sys/prctl.h>

enum { DUTY_NONE, DUTY_POSTED, DUTY_TAKEN };
static const int64_t interval_ns = 40000, longest_ns = 20000000;

// ret_step is the batch's: once the duty is done, `before` belongs to whoever takes the next one.
static bool take_duty(Clerk *clerk, int64_t *ret_step)
{
    int posted = DUTY_POSTED;
    if (!atomic_compare_exchange_strong(&clerk->duty, &posted, DUTY_TAKEN))
        return false;
    feed_compute_begins(clerk->feed, &clerk->batch);
    if (clerk->releases)
        feed_release(clerk->feed, &clerk->before);
    clerk->before = clerk->batch;
    clerk->releases = true;
    *ret_step = clerk->before.step;
    atomic_store(&clerk->duty, DUTY_NONE);
    return true;
}

static void *look(void *context)
{
    Clerk *clerk = context;
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);   // ns; the default of 50 us would double the interval
    int64_t last_ns = clock_monotonic_ns(clock_real()), last_step = -1;
    while (!atomic_load(&clerk->closing)) {
        int64_t sleep_ns = interval_ns, step;
        if (take_duty(clerk, &step)) {
            int64_t now_ns = clock_monotonic_ns(clock_real());
            int64_t half_ns = (now_ns - last_ns) / (step > last_step ? step - last_step : 1) / 2;
            last_ns = now_ns;
            last_step = step;
            sleep_ns = half_ns > longest_ns ? longest_ns : half_ns > interval_ns ? half_ns : interval_ns;
        }
        clock_sleep_ns(clock_real(), sleep_ns);
    }
    return NULL;
}

bool clerk_open(Clerk *clerk, Feed *feed, bool threaded, Error *error)
{
    *clerk = (Clerk){.feed = feed};
    clerk->started = threaded && pthread_create(&clerk->thread, NULL, look, clerk) == 0;
    return clerk->started || !threaded ||
           FAIL(error, ERROR_UNAVAILABLE, 0, "could not start the thread that serves the loader");
}

void clerk_close(Clerk *clerk)
{
    if (clerk->started) {
        atomic_store(&clerk->closing, true);
        pthread_join(clerk->thread, NULL);
    }
    clerk->started = false;
}

void clerk_post(Clerk *clerk, const FeedBatch *batch)
{
    clerk->batch = *batch;
    atomic_store(&clerk->duty, DUTY_POSTED);
}

void clerk_settle(Clerk *clerk)
{
    int64_t ignored;
    take_duty(clerk, &ignored);
    while (atomic_load(&clerk->duty) == DUTY_TAKEN)
        clock_sleep_ns(clock_real(), 1000);
}
