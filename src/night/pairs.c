// pairs - the paired short trainings of rung 6 accumulate over nights: parity/<key>.json in the home.
//
// Pairs of two nights may be taken together when nothing but data, seed and slot differs: the key is the
// identity record without those, and the metric. Every judged night keeps its pairs, refused or not: choosing
// among them would be choosing the answer. Each night that brings a pair which was not there with these
// values is one look at them, and the judge spends its error over the looks; of two pairs of one seed the
// newer stays. Pairs of another length replace those before, and are a look like any other. A pair that is no
// number fails its own night and stays out of later ones; its look counts. The file says only what
// runs/<run>/evidence.json says too.
#include "night_internal.h"

#include <math.h>
#include <string.h>

enum { PAIRS_FORMAT = 1, PAIRS_KEPT = 512, PAIRS_NAME_HEX = 16, PAIRS_LOOKS = 1000000 };

static bool pairs_path(const Night *night, const char *metric, char *ret_path, Error *error)
{
    // Known only after the data was read: what a later night changes without changing the question.
    static const char *const moving[] = {"data.cutoff", "train.epochs", "train.max_steps"};
    OWNED(Json, json_free) *record = json_copy_deep(night->record);
    json_remove(record, "data");
    json_remove(record, "seed");
    Json *options = night_section(record, "options");
    for (size_t i = 0; i < sizeof moving / sizeof moving[0]; i++)
        json_remove(options, moving[i]);
    json_put_text(record, "metric", metric);
    Digest digest;
    char hex[DIGEST_HEX_SIZE], folder[FILE_PATH_SIZE], name[PAIRS_NAME_HEX + 8];
    identity_digest(record, &digest);
    digest_hex(&digest, hex);
    return file_join(folder, night->options->home, "parity", error) &&
           (text_print(name, sizeof name, "%.*s.json", PAIRS_NAME_HEX, hex) ||
            FAIL(error, ERROR_INTERNAL, 0, "name of parity pairs too long")) &&
           file_join(ret_path, folder, name, error);
}

static const Json *find_seed(const Json *pairs, const Json *pair)
{
    for (size_t i = 0; i < json_count(pairs); i++) {
        if (json_same(json_get(json_at(pairs, i), "seed"), json_get(pair, "seed")))
            return json_at(pairs, i);
    }
    return NULL;
}

// The same version again makes the same values; another run's name changes nothing.
static bool holds(const Json *pairs, const Json *pair)
{
    const Json *found = find_seed(pairs, pair);
    return found != NULL && json_same(json_get(found, "reference"), json_get(pair, "reference")) &&
           json_same(json_get(found, "candidate"), json_get(pair, "candidate"));
}

// Earlier pairs first, then tonight's, which replace those of the same seed.
static Json *join_pairs(const Json *earlier, const Json *tonight, bool *ret_new)
{
    Json *joined = json_make_array();
    size_t count = json_count(earlier), skip = count > PAIRS_KEPT ? count - PAIRS_KEPT : 0;
    for (size_t i = skip; i < count; i++) {
        if (find_seed(tonight, json_at(earlier, i)) == NULL)
            json_add(joined, json_copy_deep(json_at(earlier, i)));
    }
    *ret_new = false;
    for (size_t i = 0; i < json_count(tonight); i++) {
        *ret_new = *ret_new || !holds(earlier, json_at(tonight, i));
        json_add(joined, json_copy_deep(json_at(tonight, i)));
    }
    return joined;
}

static bool is_pair(const Json *pair)
{
    int64_t seed = json_integer_or(json_get(pair, "seed"), -1);
    return seed >= 0 && json_text_or(json_get(pair, "run"), NULL) != NULL &&
           isfinite(json_number_or(json_get(pair, "reference"), (double)NAN)) &&
           isfinite(json_number_or(json_get(pair, "candidate"), (double)NAN));
}

// Number of the first entry that is no pair or whose seed stands before; their count when all are sound.
static size_t first_bad(const Json *pairs)
{
    size_t i = 0;
    while (i < json_count(pairs) && is_pair(json_at(pairs, i)) &&
           find_seed(pairs, json_at(pairs, i)) == json_at(pairs, i))
        i++;
    return i;
}

static bool read_pairs(const Night *night, const char *metric, Json **ret_stored, Error *error)
{
    char path[FILE_PATH_SIZE];
    if (!pairs_path(night, metric, path, error))
        return false;
    if (!file_exists(path)) {
        *ret_stored = NULL;
        return true;
    }
    OWNED(Json, json_free) *stored = json_read_file(path, NIGHT_JSON_MAX, error);
    bool sound = stored != NULL && json_integer_or(json_get(stored, "format"), 0) == PAIRS_FORMAT &&
                 json_is_array(json_get(stored, "pairs")) &&
                 json_integer_or(json_get(stored, "looks"), 0) >= 1 &&
                 json_integer_or(json_get(stored, "looks"), 0) <= PAIRS_LOOKS &&
                 json_integer_or(json_get(stored, "steps"), 0) >= 1;
    size_t bad = sound ? first_bad(json_get(stored, "pairs")) : 0;
    if (stored != NULL && !sound)
        (void)FAIL(error, ERROR_DATA, 0, "file '%s' does not hold parity pairs of format %d", path,
                   PAIRS_FORMAT);
    if (sound && bad < json_count(json_get(stored, "pairs"))) {
        sound = FAIL(error, ERROR_DATA, 0,
                     "file '%s' does not hold parity pairs: entry %zu is none, or of a seed before it", path,
                     bad);
    }
    if (!sound)
        return error_hint(error, "Without the pairs of earlier nights this one cannot be judged: restore the "
                                 "file, or remove it to begin again.");
    *ret_stored = stored;
    stored = NULL;
    return true;
}

bool night_pairs_steps(const Night *night, Metric metric, int64_t *ret_steps, Error *error)
{
    OWNED(Json, json_free) *stored = NULL;
    if (!read_pairs(night, stats_metrics[metric].name, &stored, error))
        return false;
    *ret_steps = json_integer_or(json_get(stored, "steps"), 0);
    return true;
}

bool night_pairs_join(const Night *night, Json *parity, Error *error)
{
    if (!json_is_object(json_get(parity, "metric")))
        return true;
    OWNED(Json, json_free) *stored = NULL;
    if (!read_pairs(night, json_text_or(json_find(parity, "metric.name"), ""), &stored, error))
        return false;
    bool same_length = json_same(json_get(stored, "steps"), json_find(parity, "trajectory.steps"));
    const Json *earlier = same_length ? json_get(stored, "pairs") : NULL;
    int64_t looks = json_integer_or(json_get(stored, "looks"), 0);
    Json *metric = night_section(parity, "metric");
    bool new = false;
    json_put(metric, "pairs", join_pairs(earlier, json_get(metric, "pairs"), &new));
    json_put_integer(metric, "looks", looks < PAIRS_LOOKS ? looks + (new || looks == 0) : looks);
    return true;
}

static Json *sound_pairs(const Json *pairs)
{
    Json *sound = json_make_array();
    for (size_t i = 0; i < json_count(pairs); i++) {
        if (is_pair(json_at(pairs, i)))
            json_add(sound, json_copy_deep(json_at(pairs, i)));
    }
    return sound;
}

bool night_pairs_keep(const Night *night, Error *error)
{
    const Json *parity = json_get(night->evidence, "parity"), *metric = json_get(parity, "metric");
    if (!json_is_array(json_get(metric, "pairs")))
        return true;
    char path[FILE_PATH_SIZE], folder[FILE_PATH_SIZE];
    OWNED(Json, json_free) *kept = json_make_object();
    json_put_integer(kept, "format", PAIRS_FORMAT);
    json_put(kept, "looks", json_copy_deep(json_get(metric, "looks")));
    json_put(kept, "steps", json_copy_deep(json_find(parity, "trajectory.steps")));
    json_put(kept, "pairs", sound_pairs(json_get(metric, "pairs")));
    return file_join(folder, night->options->home, "parity", error) &&
           file_make_directories(folder, 0750, error) &&
           pairs_path(night, json_text_or(json_get(metric, "name"), ""), path, error) &&
           json_write_file(kept, JSON_INDENTED, path, error);
}
