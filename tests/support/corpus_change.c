// corpus_change - see corpus_change.h.
#include "corpus_change.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MOST = 24, KEY_SIZE = 96, WHERE_MOST = 3, PATH_SIZE = 400, ARGUMENT_MAX = 200000 };

// -- paths

typedef enum StepKind { STEP_MEMBER, STEP_RANGE, STEP_WHERE } StepKind;

typedef struct Step {
    StepKind kind;
    char key[WHERE_MOST][KEY_SIZE], want[WHERE_MOST][KEY_SIZE];   // of a member only the first key
    size_t wheres;
    long begin, end, stride;   // negative: from the end
} Step;

typedef struct Path {
    Step steps[STEPS_MOST];
    size_t count;
} Path;

static bool copy_part(char *to, const char *from, size_t length)
{
    if (length == 0 || length >= KEY_SIZE)
        return false;
    memcpy(to, from, length);
    to[length] = '\0';
    return true;
}

static bool read_where(Step *step, const char *from, const char *end)
{
    step->kind = STEP_WHERE;
    while (from < end) {
        const char *next = memchr(from, '&', (size_t)(end - from));
        const char *stop = next == NULL ? end : next, *equal = memchr(from, '=', (size_t)(stop - from));
        if (equal == NULL || step->wheres == WHERE_MOST ||
            !copy_part(step->key[step->wheres], from, (size_t)(equal - from)) ||
            !copy_part(step->want[step->wheres], equal + 1, (size_t)(stop - equal - 1)))
            return false;
        step->wheres++;
        from = stop == end ? end : stop + 1;
    }
    return step->wheres > 0;
}

static bool read_range(Step *step, const char *from, const char *end)
{
    step->kind = STEP_RANGE;
    step->begin = 0;
    step->end = LONG_MAX;
    step->stride = 1;
    if (end - from == 1 && *from == '*')
        return true;
    long *const parts[] = {&step->begin, &step->end, &step->stride};
    for (size_t i = 0; i < 3; i++) {
        char *stop = NULL;
        long value = strtol(from, &stop, 10);
        if (stop > from)
            *parts[i] = value;
        if (stop == end) {
            if (i == 0)   // one entry
                step->end = value == -1 ? LONG_MAX : value + 1;
            return stop > from || i > 0;
        }
        if (*stop != ':')
            return false;
        from = stop + 1;
    }
    return false;
}

static bool parse_path(const char *text, Path *ret, Error *error)
{
    *ret = (Path){0};
    const char *at = text;
    while (*at != '\0') {
        Step *step = &ret->steps[ret->count];
        bool good = ret->count < STEPS_MOST;
        if (good && *at == '[') {
            const char *end = strchr(at, ']');
            good =
                end != NULL && (memchr(at, '=', (size_t)(end - at)) != NULL ? read_where(step, at + 1, end)
                                                                            : read_range(step, at + 1, end));
            at = end == NULL ? at : end + 1;
        } else if (good) {
            size_t length = strcspn(at, ".[");
            good = copy_part(step->key[0], at, length);
            at += length;
        }
        if (!good)
            return FAIL(error, ERROR_DATA, 0, "path '%s' cannot be read from '%s' on", text, at);
        ret->count++;
        at += *at == '.';
    }
    return ret->count > 0 || FAIL(error, ERROR_DATA, 0, "a path is empty");
}

static bool takes(const Step *step, const Json *item, size_t index, size_t count)
{
    if (step->kind == STEP_RANGE) {
        long begin = step->begin < 0 ? step->begin + (long)count : step->begin,
             end = step->end < 0 ? step->end + (long)count : step->end, at = (long)index;
        return at >= begin && at < end && step->stride > 0 && (at - begin) % step->stride == 0;
    }
    for (size_t i = 0; i < step->wheres; i++)
        if (!text_equal(json_text_or(json_get(item, step->key[i]), ""), step->want[i]))
            return false;
    return step->kind == STEP_WHERE;
}

// The one value at the path, NULL when there is none or more than one.
static const Json *one_at(const Json *value, const Step *step, const Step *end)
{
    if (value == NULL || step == end)
        return value;
    if (step->kind == STEP_MEMBER)
        return one_at(json_get(value, step->key[0]), step + 1, end);
    const Json *found = NULL;
    for (size_t i = 0; i < json_count(value); i++)
        if (takes(step, json_at(value, i), i, json_count(value))) {
            if (found != NULL)
                return NULL;
            found = one_at(json_at(value, i), step + 1, end);
        }
    return found;
}

static const Json *find_one(const Json *root, const char *text, Error *error)
{
    Path path;
    if (!parse_path(text, &path, error))
        return NULL;
    const Json *found = one_at(root, path.steps, path.steps + path.count);
    if (found == NULL)
        (void)FAIL(error, ERROR_DATA, 0, "path '%s' is not one place of the evidence", text);
    return found;
}

const Json *corpus_find(const Json *evidence, const char *path)
{
    Error ignored = ERROR_INIT;
    return find_one(evidence, path, &ignored);
}

// -- operations: what stands there afterwards. NULL and `*ret_gone`: nothing; NULL alone: it cannot be done

typedef struct Change {
    const Json *root, *argument;
    const struct Operation *operation;
    const Json *other;   // of copy and share
    double factor;
    size_t taken;   // so far
    size_t index;   // in the innermost array
    bool failed;
} Change;

typedef Json *(*Apply)(const Change *change, const Json *old, bool *ret_gone);

typedef struct Operation {
    const char *name;
    Apply apply;
} Operation;

static Json *number_like(const Json *old, double value)
{
    bool whole = json_is_integer(old) && fabs(value) < 9.2e18;
    return whole ? json_make_integer((int64_t)llround(value)) : json_make_number(value);
}

static Json *apply_value(const Change *change, const Json *old, bool *ret_gone)
{
    (void)old;
    (void)ret_gone;
    return json_copy_deep(change->argument);
}

static Json *apply_factor(const Change *change, const Json *old, bool *ret_gone)
{
    (void)ret_gone;
    bool good = json_is_number(old) && json_is_number(change->argument);
    return good ? number_like(old, json_number_or(old, 0) * json_number_or(change->argument, 0)) : NULL;
}

static Json *apply_add(const Change *change, const Json *old, bool *ret_gone)
{
    (void)ret_gone;
    bool good = json_is_number(old) && json_is_number(change->argument);
    return good ? number_like(old, json_number_or(old, 0) + json_number_or(change->argument, 0)) : NULL;
}

static Json *apply_ramp(const Change *change, const Json *old, bool *ret_gone)
{
    (void)ret_gone;
    double rise = json_number_or(change->argument, NAN) * (double)change->taken;
    return json_is_number(old) ? number_like(old, json_number_or(old, 0) + rise) : NULL;
}

static Json *apply_remove(const Change *change, const Json *old, bool *ret_gone)
{
    (void)old;
    *ret_gone = json_bool_or(change->argument, false);
    return NULL;
}

static Json *apply_append(const Change *change, const Json *old, bool *ret_gone)
{
    (void)ret_gone;
    if (!json_is_array(old))
        return NULL;
    Json *longer = json_copy_deep(old);
    json_add(longer, json_copy_deep(change->argument));
    return longer;
}

static Json *apply_copy(const Change *change, const Json *old, bool *ret_gone)
{
    (void)old;
    (void)ret_gone;
    return json_copy_deep(change->other);
}

static Json *apply_share(const Change *change, const Json *old, bool *ret_gone)
{
    (void)ret_gone;
    const Json *entry = json_at(change->other, change->index);
    bool good = json_is_number(entry) && json_is_number(old);
    return good ? number_like(old, json_number_or(entry, 0) * change->factor) : NULL;
}

static const Operation operations[] = {
    {"value", apply_value},   {"new", apply_value}, {"factor", apply_factor},
    {"add", apply_add},       {"ramp", apply_ramp}, {"remove", apply_remove},
    {"append", apply_append}, {"copy", apply_copy}, {"share", apply_share},
};

// -- a new tree beside the old one

static Json *rebuild(Change *change, const Json *old, const Step *step, const Step *end, bool *ret_gone);

static Json *rebuild_object(Change *change, const Json *old, const Step *step, const Step *end)
{
    Json *built = json_make_object();
    bool fresh = text_equal(change->operation->name, "new");
    for (size_t i = 0; i < json_count(old); i++) {
        const char *key = json_key_at(old, i);
        const Json *member = json_get(old, key);
        bool here = text_equal(key, step->key[0]) && !(fresh && step + 1 == end), gone = false;
        Json *value = here ? rebuild(change, member, step + 1, end, &gone) : json_copy_deep(member);
        if (!gone)
            json_put(built, key, value);
    }
    if (fresh && step + 1 == end && json_get(old, step->key[0]) == NULL) {
        json_put(built, step->key[0], json_copy_deep(change->argument));
        change->taken++;
    }
    return built;
}

static Json *rebuild_array(Change *change, const Json *old, const Step *step, const Step *end)
{
    Json *built = json_make_array();
    size_t count = json_count(old);
    for (size_t i = 0; i < count; i++) {
        const Json *item = json_at(old, i);
        bool gone = false;
        change->index = i;
        Json *value =
            takes(step, item, i, count) ? rebuild(change, item, step + 1, end, &gone) : json_copy_deep(item);
        if (!gone)
            json_add(built, value);
    }
    return built;
}

static Json *rebuild(Change *change, const Json *old, const Step *step, const Step *end, bool *ret_gone)
{
    if (step == end) {
        Json *value = change->operation->apply(change, old, ret_gone);
        change->taken++;
        change->failed = change->failed || (value == NULL && !*ret_gone);
        return value;
    }
    if (step->kind == STEP_MEMBER && json_is_object(old))
        return rebuild_object(change, old, step, end);
    if (step->kind != STEP_MEMBER && json_is_array(old))
        return rebuild_array(change, old, step, end);
    return json_copy_deep(old);   // takes nothing, which is said at the end
}

static const Operation *find_operation(const Json *change)
{
    const Operation *found = NULL;
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        if (json_get(change, operations[i].name) != NULL) {
            if (found != NULL)
                return NULL;
            found = &operations[i];
        }
    return json_count(change) == 2 ? found : NULL;   // beside `at`
}

static bool find_other(Change *change, Error *error)
{
    bool share = change->operation->apply == apply_share;
    if (!share && change->operation->apply != apply_copy)
        return true;
    const Json *path = share ? json_get(change->argument, "of") : change->argument;
    change->factor = json_number_or(json_get(change->argument, "factor"), 1);
    change->other = find_one(change->root, json_text_or(path, ""), error);
    return change->other != NULL;
}

Json *corpus_change(const Json *evidence, const Json *given, Error *error)
{
    const char *at = json_text_or(json_get(given, "at"), "");
    Change change = {.root = evidence, .operation = find_operation(given)};
    Path path;
    if (change.operation == NULL) {
        (void)FAIL(error, ERROR_DATA, 0, "the change at '%s' is not one operation that is known", at);
        return NULL;
    }
    change.argument = json_get(given, change.operation->name);
    if (!parse_path(at, &path, error) || !find_other(&change, error))
        return NULL;
    bool gone = false;
    Json *built = rebuild(&change, evidence, path.steps, path.steps + path.count, &gone);
    if (change.taken > 0 && !change.failed)
        return built;
    json_free(built);
    (void)FAIL(error, ERROR_DATA, 0, "the change '%s' at '%s' %s", change.operation->name, at,
               change.failed ? "does not fit what is there" : "takes nothing");
    return NULL;
}

Json *corpus_changes(const Json *evidence, const Json *changes, Error *error)
{
    Json *current = json_copy_deep(evidence);
    for (size_t i = 0; current != NULL && i < json_count(changes); i++) {
        Json *next = corpus_change(current, json_at(changes, i), error);
        json_free(current);
        current = next;
    }
    return current;
}

Json *corpus_change_text(const Json *evidence, const char *path, const char *operation, const char *argument,
                         Error *error)
{
    SCOPED_TEXT text;
    text_init(&text, ARGUMENT_MAX);
    text_add_format(&text, "{\"v\": %s}", argument);
    OWNED(Json, json_free) *parsed = json_parse(text_string(&text), text.length, ARGUMENT_MAX, error);
    if (parsed == NULL)
        return NULL;
    OWNED(Json, json_free) *change = json_make_object();
    json_put_text(change, "at", path);
    json_put(change, operation, json_copy_deep(json_get(parsed, "v")));
    return corpus_change(evidence, change, error);
}

// -- all paths

static void walk(const Json *value, const char *path, CorpusVisit visit, void *context)
{
    char below[PATH_SIZE];
    for (size_t i = 0; json_is_object(value) && i < json_count(value); i++) {
        const char *key = json_key_at(value, i);
        if (strpbrk(key, ".[]=") != NULL ||
            !text_print(below, sizeof below, "%s%s%s", path, path[0] == '\0' ? "" : ".", key))
            continue;   // no path leads there
        visit(context, below, json_get(value, key));
        walk(json_get(value, key), below, visit, context);
    }
    size_t count = json_is_array(value) ? json_count(value) : 0;
    const size_t picks[] = {0, count / 2, count - 1};
    for (size_t i = 0; count > 0 && i < 3; i++) {
        if (i > 0 && picks[i] <= picks[i - 1])
            continue;
        if (text_print(below, sizeof below, "%s[%zu]", path, picks[i])) {
            visit(context, below, json_at(value, picks[i]));
            walk(json_at(value, picks[i]), below, visit, context);
        }
    }
}

void corpus_walk(const Json *value, CorpusVisit visit, void *context)
{
    walk(value, "", visit, context);
}
