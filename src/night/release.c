// release - what a person needs beside the checks to accept the release, before it is judged: a worked
// example, hand-checked results, the named fallback, owner, and what the night cost so far.
//
// Evidence: release, cost. release-evidence.json in the run directory holds the same with the rubric.
#include "night_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// -- the worked example: one real step of this night, so that a person can add it up

static int64_t at(const Json *steps, const char *key, size_t i)
{
    return json_integer_or(json_at(json_get(steps, key), i), 0);
}

static int64_t rest_of(const Json *steps, size_t i, Json *spans_or_null)
{
    const Json *rest = json_get(steps, "rest");
    int64_t sum = 0;
    for (size_t k = 0; k < json_count(rest); k++) {
        const char *name = json_key_at(rest, k);
        int64_t ns = at(rest, name, i);
        sum += ns;
        if (spans_or_null != NULL)
            json_put_integer(spans_or_null, name, ns);
    }
    return sum;
}

static bool closes(const Json *steps, size_t i)
{
    int64_t wall = at(steps, "wall_ns", i);
    int64_t sum = at(steps, "wait_ns", i) + at(steps, "exposed_copy_ns", i) + at(steps, "compute_ns", i) +
                  rest_of(steps, i, NULL);
    return fabs((double)(sum - wall)) <= fmax((double)wall / 100, 2000);
}

// Where the step of this index stands in the device timeline, which may be sampled.
static bool find_step(const Json *timeline, int64_t index, size_t *ret_at)
{
    const Json *indices = json_get(timeline, "index");
    for (size_t i = 0; i < json_count(indices); i++) {
        if (json_integer_or(json_at(indices, i), -1) == index) {
            *ret_at = i;
            return true;
        }
    }
    return false;
}

// The closing step nearest to the middle of the run that both clocks saw; `closure` judges the others.
static bool choose_step(const Json *steps, const Json *timeline, size_t *ret_step, size_t *ret_device)
{
    size_t count = json_count(json_get(steps, "index")), middle = count / 2;
    for (size_t k = 0; k < 2 * count; k++) {
        size_t away = (k + 1) / 2;
        if (k % 2 == 1 ? middle + away >= count : away > middle)
            continue;
        size_t i = k % 2 == 1 ? middle + away : middle - away;
        if (closes(steps, i) && find_step(timeline, at(steps, "index", i), ret_device)) {
            *ret_step = i;
            return true;
        }
    }
    return false;
}

static Json *worked_example(const Json *evidence)
{
    const Json *steps = json_find(evidence, "loop.steps"), *timeline = json_find(evidence, "timeline.steps");
    size_t i = 0, device = 0;
    if (!choose_step(steps, timeline, &i, &device))
        return NULL;
    Json *example = json_make_object(), *rest = json_make_object();
    static const char *const host[] = {"wall_ns", "wait_ns", "exposed_copy_ns", "compute_ns"};
    json_put_integer(example, "step", at(steps, "index", i));
    for (size_t k = 0; k < sizeof host / sizeof host[0]; k++)
        json_put_integer(example, host[k], at(steps, host[k], i));
    json_put_integer(example, "rest_ns", rest_of(steps, i, rest));
    json_put(example, "rest", rest);
    json_put_integer(example, "copy_ns", at(timeline, "copy_ns", device));
    json_put_integer(example, "hidden_ns", at(timeline, "hidden_ns", device));
    SCOPED_TEXT sum;
    text_init(&sum, 400);
    text_add_format(&sum, "wait %lld + exposed copy %lld + compute %lld + rest %lld = %lld ns, wall %lld ns",
                    (long long)at(steps, "wait_ns", i), (long long)at(steps, "exposed_copy_ns", i),
                    (long long)at(steps, "compute_ns", i), (long long)rest_of(steps, i, NULL),
                    (long long)(at(steps, "wait_ns", i) + at(steps, "exposed_copy_ns", i) +
                                at(steps, "compute_ns", i) + rest_of(steps, i, NULL)),
                    (long long)at(steps, "wall_ns", i));
    json_put_text(example, "sum", text_string(&sum));
    return example;
}

// -- what stays live when this one is refused, hashed again from disk

static Json *fallback(const Night *night)
{
    if (!night->has_head)
        return NULL;
    Json *json = json_make_object();
    char name[2 * VERSION_SIZE], directory[FILE_PATH_SIZE];
    ReleaseCheck check = {0};
    Error failed = ERROR_INIT;
    bool verified = text_print(name, sizeof name, "releases/%s", night->head.to) &&
                    file_join(directory, night->options->home, name, &failed) &&
                    release_verify(directory, &check, &failed) &&
                    memcmp(&check.digest, &night->head.release_digest, sizeof check.digest) == 0;
    json_put_text(json, "kind", release_kind_name(night->head.to_kind));
    json_put_text(json, "version", night->head.to);
    json_put_bool(json, "verified", verified);
    json_put_text(json, "problem",
                  verified            ? NULL
                  : failed.message[0] ? failed.message
                                      : "its manifest is not the one that was promoted");
    return json;
}

// -- cost: what holds the device is the whole night so far, with the earlier starts of the same run. Steps
// that a start trained again are paid for and not counted.

void night_put_cost(const Night *night, Json *cost)
{
    double seconds = night->spent_seconds, rate = config_real(night->config, "cost.device_hour");
    int64_t samples = json_integer_or(json_get(night->train_result, "run_samples"), 0);
    for (size_t i = 0; i < json_count(night->seconds); i++)
        seconds += json_number_or(json_get(night->seconds, json_key_at(night->seconds, i)), 0);
    json_put_number(cost, "device_seconds", seconds);
    json_put_integer(cost, "samples", samples);
    json_put_number(cost, "rate_per_hour", rate);
    json_put_text(cost, "unit", rate > 0 ? "currency" : "device second");
    if (samples > 0)
        json_put_number(cost, "cost_per_sample", seconds * (rate > 0 ? rate / 3600 : 1) / (double)samples);
}

// The account of the configuration, else the one the home was made for.
static void put_owner(const Night *night, Json *release)
{
    char path[FILE_PATH_SIZE];
    Error unreadable = ERROR_INIT;
    const char *owner = config_text(night->config, "owner");
    OWNED(Json, json_free) *home =
        owner[0] == '\0' && file_join(path, night->options->home, "home.json", &unreadable)
            ? json_read_file(path, 100000, &unreadable)
            : NULL;
    json_put_text(release, "owner", owner[0] != '\0' ? owner : json_text_or(json_get(home, "owner"), ""));
}

bool night_put_release(Night *night, Error *error)
{
    Json *formal = night_formal_results(error);
    if (formal == NULL)
        return error_prefix(error, "hand-checked results");
    Json *release = night_section(night->evidence, "release");
    json_put(release, "worked_example", worked_example(night->evidence));
    json_put(release, "formal", formal);
    json_put(release, "fallback", fallback(night));
    put_owner(night, release);
    json_put(release, "simulation", NULL);
    night_put_cost(night, night_section(night->evidence, "cost"));
    return true;
}

bool night_save_release(const Night *night, Error *error)
{
    OWNED(Json, json_free) *file = json_make_object();
    const Json *release = json_get(night->evidence, "release"),
               *checks = json_get(night->judgement, "checks");
    json_put_text(file, "schema", "fedgate.release_evidence/1");
    json_put_text(file, "model", night->model);
    json_put_text(file, "run", night->run);
    json_put_text(file, "version", night->version);
    for (size_t i = 0; i < json_count(release); i++)
        json_put(file, json_key_at(release, i), json_copy_deep(json_get(release, json_key_at(release, i))));
    for (size_t i = 0; i < json_count(checks); i++) {
        if (text_equal(json_text_or(json_get(json_at(checks, i), "name"), ""), "overlap"))
            json_put(file, "checkpoint", json_copy_deep(json_at(checks, i)));
    }
    json_put(file, "cost", json_copy_deep(json_get(night->evidence, "cost")));
    json_put(file, "rubric", json_copy_deep(json_get(night->judgement, "rubric")));
    return night_save(night, "release-evidence.json", file, error);
}
