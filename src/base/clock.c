// clock - the real and the simulated clock, and identifiers made from an instant.
#include <errno.h>
#include <fedgate/clock.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

struct Clock {
    bool simulated;
    pthread_mutex_t mutex;   // guards the two times of a simulated clock
    int64_t monotonic_ns, wall_ns;
};

static const int64_t second_ns = 1000000000;

Clock *clock_real(void)
{
    static Clock real;
    return &real;
}

Clock *clock_simulated(int64_t wall_ns)
{
    Clock *clock = calloc(1, sizeof *clock);
    if (!clock)
        return NULL;
    clock->simulated = true;
    clock->monotonic_ns = second_ns;
    clock->wall_ns = wall_ns;
    pthread_mutex_init(&clock->mutex, NULL);
    return clock;
}

void clock_free(Clock *clock)
{
    if (!clock || !clock->simulated)
        return;
    pthread_mutex_destroy(&clock->mutex);
    free(clock);
}

bool clock_is_simulated(const Clock *clock)
{
    return clock->simulated;
}

void clock_advance(Clock *clock, int64_t duration_ns)
{
    if (!clock->simulated)
        BUG("the real clock cannot be advanced");
    pthread_mutex_lock(&clock->mutex);
    clock->wall_ns += duration_ns;
    if (duration_ns > 0)
        clock->monotonic_ns += duration_ns;
    pthread_mutex_unlock(&clock->mutex);
}

static int64_t read_system(clockid_t id)
{
    struct timespec now;
    if (clock_gettime(id, &now) != 0)
        BUG("clock %d cannot be read", (int)id);
    return now.tv_sec * second_ns + now.tv_nsec;
}

static int64_t read_simulated(Clock *clock, const int64_t *time)
{
    pthread_mutex_lock(&clock->mutex);
    int64_t value = *time;
    pthread_mutex_unlock(&clock->mutex);
    return value;
}

int64_t clock_monotonic_ns(Clock *clock)
{
    return clock->simulated ? read_simulated(clock, &clock->monotonic_ns) : read_system(CLOCK_MONOTONIC);
}

int64_t clock_wall_ns(Clock *clock)
{
    return clock->simulated ? read_simulated(clock, &clock->wall_ns) : read_system(CLOCK_REALTIME);
}

void clock_sleep_ns(Clock *clock, int64_t duration_ns)
{
    if (duration_ns <= 0)
        return;
    if (clock->simulated) {
        clock_advance(clock, duration_ns);
        return;
    }
    // Towards an instant, so that interruptions do not add up.
    int64_t end_ns = read_system(CLOCK_MONOTONIC) + duration_ns;
    struct timespec end = {.tv_sec = end_ns / second_ns, .tv_nsec = end_ns % second_ns};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        continue;
}

void clock_uuid7(Clock *clock, char ret_uuid[static UUID_SIZE])
{
    uint8_t bytes[16];
    for (size_t have = 0; have < sizeof bytes;) {
        ssize_t got = getrandom(bytes + have, sizeof bytes - have, 0);
        if (got < 0 && errno != EINTR)
            BUG("the kernel gives no random bytes");
        have += got > 0 ? (size_t)got : 0;
    }
    uint64_t milliseconds = (uint64_t)(clock_wall_ns(clock) / 1000000);
    for (int i = 0; i < 6; i++)
        bytes[i] = (uint8_t)(milliseconds >> (8 * (5 - i)));
    bytes[6] = (uint8_t)(0x70 | (bytes[6] & 0x0f));   // version 7
    bytes[8] = (uint8_t)(0x80 | (bytes[8] & 0x3f));   // RFC variant
    static const char digits[] = "0123456789abcdef";
    char *out = ret_uuid;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = '\0';
}
