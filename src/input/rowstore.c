// rowstore - the rows of a split as the network takes them, decoded once, one record per row in one block.
//
// A record holds numeric inputs, codes, target and row id side by side, so that a row taken at random costs
// one or two cache lines and gathering is a few vector copies. Records up to a cache line never lie across
// two. What a record holds is what decoding the text gives, to the bit, however many threads made it.
#include "input_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    LINE = 64,   // bytes of a cache line
    FLIGHT_BYTES = 4096,   // asked for ahead while gathering: enough to cover the latency of memory
    FLIGHT_ROWS = 32,
    FILL_ROWS = 1024,   // rows a thread decodes at once
    HUGE_BYTES = 4 << 20,   // from here on pages of 2 MB pay: a random row otherwise misses the TLB
};
static const char account[] = "input.rows";

struct RowStore {
    char *block;
    size_t rows, numeric, categorical;
    size_t stride, codes_at, target_at, id_at;   // bytes; numeric inputs at 0
    size_t ahead;   // rows asked for ahead
    int64_t bytes;
    Ledger *ledger;
};

typedef struct Fill {
    RowStore *store;
    const RowDecoder *decoder;
    const uint32_t *rows;
    atomic_size_t next;   // first row nobody decodes yet
    pthread_mutex_t lock;
    size_t failed;   // first row of the block whose Error is kept: the lowest, whichever thread was first
    Error error;
} Fill;

static size_t round_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static void store_shape(RowStore *store, const Dataset *dataset, const Maps *maps, Split split)
{
    store->rows = dataset->split_count[split];
    store->numeric = maps_numeric(maps);
    store->categorical = maps->categorical_count;
    store->codes_at = store->numeric * sizeof(float);
    store->target_at = store->codes_at + store->categorical * sizeof(int32_t);
    store->id_at = round_up(store->target_at + sizeof(float), sizeof(uint64_t));
    size_t used = store->id_at + sizeof(uint64_t);
    store->stride = LINE;
    if (used > LINE)
        store->stride = round_up(used, LINE / 4);
    else
        while (store->stride / 2 >= used)
            store->stride /= 2;
    store->ahead = FLIGHT_BYTES / store->stride;
    store->ahead = store->ahead > FLIGHT_ROWS ? FLIGHT_ROWS : store->ahead < 1 ? 1 : store->ahead;
    store->bytes = (int64_t)round_up(store->rows * store->stride, LINE);
}

// Against the declared cap, before anything is taken: files and index of the dataset, other stores.
static bool check_host_memory(const RowStore *store, const Dataset *dataset, Error *error)
{
    LedgerAccount accounts[LEDGER_ACCOUNTS];
    int64_t taken = dataset_host_bytes(dataset);
    size_t count = ledger_accounts(dataset->ledger, accounts);
    for (size_t i = 0; i < count; i++)
        if (accounts[i].kind == LEDGER_HOST && strcmp(accounts[i].name, account) == 0)
            taken += accounts[i].live_bytes;
    if (taken + store->bytes <= dataset->host_cap_bytes)
        return true;
    FAIL(error, ERROR_MEMORY, 0,
         "%zu rows in memory need %lld bytes beside %lld taken, more than the %lld of option "
         "'input.host_memory'",
         store->rows, (long long)store->bytes, (long long)taken, (long long)dataset->host_cap_bytes);
    return error_hint(error, "Raise input.host_memory, or set input.rows to text.");
}

static bool store_take(RowStore *store, Ledger *ledger, Error *error)
{
    if (!ledger_charge(ledger, LEDGER_HOST, account, store->bytes, error))
        return false;
    store->ledger = ledger;
    void *block =
        mmap(NULL, (size_t)store->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return FAIL(error, ERROR_MEMORY, errno, "out of memory for %zu rows of %zu bytes", store->rows,
                    store->stride);
    store->block = block;
    if (store->bytes >= HUGE_BYTES)
        (void)madvise(block, (size_t)store->bytes, MADV_HUGEPAGE);   // only speed depends on it
    return true;
}

static bool fill_block(Fill *fill, RowReader *reader, size_t first, Error *error)
{
    RowStore *store = fill->store;
    const Maps *maps = fill->decoder->maps;
    const uint32_t *rows = fill->rows + first;
    size_t count = store->rows - first < FILL_ROWS ? store->rows - first : FILL_ROWS;
    if (!reader_fetch(reader, rows, count, error))
        return false;
    for (size_t i = 0; i < count; i++) {
        char *record = store->block + (first + i) * store->stride;
        double target;
        if (!reader_split(reader, rows, i, error) ||
            !decoder_row(fill->decoder, reader->fields, rows[i], (float *)(void *)record,
                         (int32_t *)(void *)(record + store->codes_at), &target, error))
            return false;
        *(float *)(void *)(record + store->target_at) =
            (float)((target - maps->target_mean) / maps->target_deviation);
        *(uint64_t *)(void *)(record + store->id_at) = reader->dataset->rows[rows[i]].id;
    }
    return true;
}

static void fill_fail(Fill *fill, size_t first, const Error *error)
{
    pthread_mutex_lock(&fill->lock);
    if (first < fill->failed) {
        fill->failed = first;
        fill->error = *error;
    }
    pthread_mutex_unlock(&fill->lock);
    atomic_store(&fill->next,
                 fill->store->rows);   // what is before is being decoded, what is after is not needed
}

static void *fill_main(void *context)
{
    Fill *fill = context;
    RowReader reader;
    Error error = ERROR_INIT;
    if (!reader_init(&reader, fill->decoder->dataset, FILL_ROWS, &error)) {
        fill_fail(fill, 0, &error);
        return NULL;
    }
    for (;;) {
        size_t first = atomic_fetch_add(&fill->next, FILL_ROWS);
        if (first >= fill->store->rows)
            break;
        if (!fill_block(fill, &reader, first, &error)) {
            fill_fail(fill, first, &error);
            break;
        }
    }
    reader_done(&reader);
    return NULL;
}

// This thread works too, so fewer threads than asked for only take longer.
static bool store_fill(RowStore *store, const Dataset *dataset, const RowDecoder *decoder, Split split,
                       Error *error)
{
    Fill fill = {.store = store,
                 .decoder = decoder,
                 .rows = dataset->split_rows[split],
                 .lock = PTHREAD_MUTEX_INITIALIZER,
                 .failed = SIZE_MAX};
    size_t blocks = (store->rows + FILL_ROWS - 1) / FILL_ROWS, wanted = (size_t)dataset->workers, started = 0;
    wanted = wanted < blocks ? wanted : blocks;
    pthread_t *threads = wanted > 1 ? calloc(wanted, sizeof *threads) : NULL;
    while (threads && started + 1 < wanted && pthread_create(&threads[started], NULL, fill_main, &fill) == 0)
        started++;
    fill_main(&fill);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    if (fill.failed == SIZE_MAX)
        return true;
    *error = fill.error;
    return error_prefix(error, "decoding rows into memory");
}

RowStore *rowstore_open(const Dataset *dataset, const Maps *maps, Split split, Error *error)
{
    RowStore *store = calloc(1, sizeof *store);
    RowDecoder decoder;
    if (!store) {
        FAIL(error, ERROR_MEMORY, 0, "out of memory for rows in memory");
        return NULL;
    }
    store_shape(store, dataset, maps, split);
    if (check_host_memory(store, dataset, error) && decoder_init(&decoder, dataset, maps, error)) {
        bool good =
            store_take(store, dataset->ledger, error) && store_fill(store, dataset, &decoder, split, error);
        decoder_done(&decoder);
        if (good)
            return store;
    }
    rowstore_free(store);
    return NULL;
}

void rowstore_free(RowStore *store)
{
    if (!store)
        return;
    if (store->block)
        munmap(store->block, (size_t)store->bytes);
    if (store->ledger)
        ledger_return(store->ledger, LEDGER_HOST, account, store->bytes);
    free(store);
}

int64_t rowstore_bytes(const RowStore *store)
{
    return store->bytes;
}

// -- gathering

// Fixed sizes become vector moves; a call of memcpy for each section costs more than most sections.
static inline void copy_words(char *restrict to, const char *restrict from, size_t bytes)
{
    for (; bytes >= 64; bytes -= 64, to += 64, from += 64)
        memcpy(to, from, 64);
    if (bytes & 32) {
        memcpy(to, from, 32);
        to += 32;
        from += 32;
    }
    if (bytes & 16) {
        memcpy(to, from, 16);
        to += 16;
        from += 16;
    }
    if (bytes & 8) {
        memcpy(to, from, 8);
        to += 8;
        from += 8;
    }
    if (bytes & 4)
        memcpy(to, from, 4);
}

static inline void ask_for(const char *record, size_t stride)
{
    for (size_t at = 0; at < stride; at += LINE)
        __builtin_prefetch(record + at, 0, 0);
}

void rowstore_gather(const RowStore *store, const uint32_t *numbers, size_t count, float *ret_numeric,
                     int32_t *ret_codes, float *ret_target, uint64_t *ret_row_id)
{
    const size_t stride = store->stride, numeric = store->codes_at,
                 codes = store->target_at - store->codes_at;
    const char *const block = store->block;
    for (size_t i = 0; i < count && i < store->ahead; i++)
        ask_for(block + numbers[i] * stride, stride);
    for (size_t i = 0; i < count; i++) {
        if (i + store->ahead < count)
            ask_for(block + numbers[i + store->ahead] * stride, stride);
        const char *record = block + numbers[i] * stride;
        copy_words((char *)ret_numeric + i * numeric, record, numeric);
        copy_words((char *)ret_codes + i * codes, record + store->codes_at, codes);
        memcpy(&ret_target[i], record + store->target_at, sizeof *ret_target);
        memcpy(&ret_row_id[i], record + store->id_at, sizeof *ret_row_id);
    }
}
