// dictionary - byte strings to dense codes, with counts: categories and label tokens.
#include "input_internal.h"

#include <fedgate/hash.h>
#include <stdlib.h>
#include <string.h>

// Eight bytes at a time; only speed depends on it, never a result.
static uint64_t key_hash(const char *text, size_t length)
{
    uint64_t state = length * UINT64_C(0x9e3779b97f4a7c15);
    while (length >= 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        state = (state ^ word) * UINT64_C(0xff51afd7ed558ccd);
        state ^= state >> 32;
        text += 8;
        length -= 8;
    }
    uint64_t word = 0;
    for (size_t i = 0; i < length; i++)
        word |= (uint64_t)(unsigned char)text[i] << 8 * i;
    state = (state ^ word) * UINT64_C(0xff51afd7ed558ccd);
    return state ^ state >> 29;
}

// The slot that holds this key, or the empty one where it belongs.
static size_t slot_of(const Dictionary *dictionary, uint64_t hash, const char *text, size_t length)
{
    size_t mask = dictionary->slot_count - 1, slot = hash & mask;
    for (;; slot = (slot + 1) & mask) {
        int32_t code = dictionary->slots[slot];
        if (code < 0)
            return slot;
        size_t at = (size_t)code;
        if (dictionary->hashes[at] == hash && dictionary->lengths[at] == length &&
            memcmp(dictionary->keys[at], text, length) == 0)
            return slot;
    }
}

int32_t dictionary_find(const Dictionary *dictionary, const char *text, size_t length)
{
    if (dictionary->count == 0)
        return -1;
    return dictionary->slots[slot_of(dictionary, key_hash(text, length), text, length)];
}

static bool grow_array(void **array, size_t count, size_t size)
{
    void *grown = realloc(*array, count * size);
    if (grown)
        *array = grown;
    return grown != NULL;
}

static bool dictionary_grow(Dictionary *dictionary)
{
    size_t capacity = dictionary->capacity ? dictionary->capacity * 2 : 16, slots = capacity * 2;
    if (!grow_array((void **)&dictionary->keys, capacity, sizeof *dictionary->keys) ||
        !grow_array((void **)&dictionary->lengths, capacity, sizeof *dictionary->lengths) ||
        !grow_array((void **)&dictionary->counts, capacity, sizeof *dictionary->counts) ||
        !grow_array((void **)&dictionary->hashes, capacity, sizeof *dictionary->hashes) ||
        !grow_array((void **)&dictionary->slots, slots, sizeof *dictionary->slots))
        return false;
    dictionary->capacity = capacity;
    dictionary->slot_count = slots;
    memset(dictionary->slots, 0xff, slots * sizeof *dictionary->slots);
    for (size_t i = 0; i < dictionary->count; i++)
        dictionary
            ->slots[slot_of(dictionary, dictionary->hashes[i], dictionary->keys[i], dictionary->lengths[i])] =
            (int32_t)i;
    return true;
}

bool dictionary_add(Dictionary *dictionary, const char *text, size_t length, int64_t times, int32_t *ret_code)
{
    uint64_t hash = key_hash(text, length);
    if (dictionary->count > 0) {
        int32_t code = dictionary->slots[slot_of(dictionary, hash, text, length)];
        if (code >= 0) {
            dictionary->counts[code] += times;
            *ret_code = code;
            return true;
        }
    }
    if (dictionary->count == dictionary->capacity && !dictionary_grow(dictionary))
        return false;
    char *key = malloc(length + 1);
    if (!key)
        return false;
    memcpy(key, text, length);
    key[length] = '\0';
    size_t at = dictionary->count;
    dictionary->slots[slot_of(dictionary, hash, text, length)] = (int32_t)at;
    dictionary->keys[at] = key;
    dictionary->lengths[at] = (uint32_t)length;
    dictionary->hashes[at] = hash;
    dictionary->counts[at] = times;
    dictionary->count++;
    *ret_code = (int32_t)at;
    return true;
}

void dictionary_done(Dictionary *dictionary)
{
    for (size_t i = 0; i < dictionary->count; i++)
        free(dictionary->keys[i]);
    free(dictionary->keys);
    free(dictionary->lengths);
    free(dictionary->counts);
    free(dictionary->hashes);
    free(dictionary->slots);
    *dictionary = (Dictionary){0};
}

typedef struct SortKey {
    const char *text;
    uint32_t length;
    int64_t count;
} SortKey;

static int compare_keys(const void *a, const void *b)
{
    const SortKey *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);
    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

bool dictionary_sorted(const Dictionary *from, int64_t least_count, Dictionary *ret_sorted)
{
    SortKey *keys = malloc((from->count + 1) * sizeof *keys);
    if (!keys)
        return false;
    for (size_t i = 0; i < from->count; i++)
        keys[i] = (SortKey){from->keys[i], from->lengths[i], from->counts[i]};
    qsort(keys, from->count, sizeof *keys, compare_keys);
    Dictionary sorted = {0};
    bool good = true;
    for (size_t i = 0; i < from->count && good; i++) {
        int32_t code;
        if (keys[i].count >= least_count)
            good = dictionary_add(&sorted, keys[i].text, keys[i].length, keys[i].count, &code);
    }
    free(keys);
    if (good)
        *ret_sorted = sorted;
    else
        dictionary_done(&sorted);
    return good;
}
