// compute_arena_test - pieces of one block: how they are cut, joined again and refused, alone, by many
// threads and under a device.
#include "compute_fixture.h"

#include <fedgate/random.h>
#include <pthread.h>
#include <signal.h>

#include "../../src/compute/arena.h"

enum { G = ARENA_GRANULE };

static DeviceArena *arena;

static void open_arena(void)
{
    arena = device_arena_new(100 * G + G - 1);
    ck_assert_ptr_nonnull(arena);
}

static void close_arena(void)
{
    ck_assert(device_arena_sound(arena));
    device_arena_free(arena);
}

static void expect_use(int64_t live, int64_t peak, int64_t largest_free, int64_t pieces)
{
    DeviceArenaUse use = device_arena_use(arena);
    ck_assert_int_eq(use.bytes, 100 * G);   // what is left of a granule is not used
    ck_assert_int_eq(use.live, live * G);
    ck_assert_int_eq(use.peak, peak * G);
    ck_assert_int_eq(use.largest_free, largest_free * G);
    ck_assert_int_eq(use.pieces, pieces);
    ck_assert(device_arena_sound(arena));
}

START_TEST(bytes_are_rounded_up_to_granules)
{
    static const int64_t rounds[][2] = {{0, 512},
                                        {1, 512},
                                        {511, 512},
                                        {512, 512},
                                        {513, 1024},
                                        {1024, 1024},
                                        {1025, 1536},
                                        {-1, 512},
                                        {INT64_MAX - 512, INT64_MAX / 512 * 512},
                                        {INT64_MAX, INT64_MAX}};
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++)
        ck_assert_int_eq(arena_round(rounds[i][0]), rounds[i][1]);
}
END_TEST

START_TEST(pieces_lie_side_by_side_and_the_first_gap_that_is_long_enough_is_taken)
{
    expect_use(0, 0, 100, 0);
    ck_assert_int_eq(device_arena_take(arena, 1), 0);
    ck_assert_int_eq(device_arena_take(arena, 10 * G), 1 * G);
    ck_assert_int_eq(device_arena_take(arena, 4 * G), 11 * G);
    ck_assert_int_eq(device_arena_take(arena, 10 * G - 1), 15 * G);
    expect_use(25, 25, 75, 4);
    device_arena_give(arena, 1 * G, 10 * G);
    device_arena_give(arena, 15 * G, 10 * G - 1);   // joins the rest of the block
    expect_use(5, 25, 85, 2);
    ck_assert_int_eq(device_arena_take(arena, 11 * G), 15 * G);   // the gap of 10 is too short
    ck_assert_int_eq(device_arena_take(arena, 3 * G), 1 * G);
    ck_assert_int_eq(device_arena_take(arena, 7 * G), 4 * G);   // to the end of the gap
    expect_use(26, 26, 74, 5);
}
END_TEST

START_TEST(neighbours_join_in_whatever_order_they_end)
{
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        int64_t at[3];
        for (int k = 0; k < 3; k++)
            at[k] = device_arena_take(arena, (k + 1) * G);
        int64_t last = device_arena_take(arena, 94 * G);
        ck_assert_int_ge(last, 0);
        expect_use(100, 100, 0, 4);
        for (int k = 0; k < 3; k++)
            device_arena_give(arena, at[orders[i][k]], (orders[i][k] + 1) * G);
        expect_use(94, 100, 6, 1);
        device_arena_give(arena, last, 94 * G);
        expect_use(0, 100, 100, 0);
    }
}
END_TEST

// Half of the block is free and nothing longer than a granule can be taken.
START_TEST(fragmentation_is_known)
{
    int64_t at[100];
    for (int i = 0; i < 100; i++)
        at[i] = device_arena_take(arena, G);
    ck_assert_int_eq(device_arena_take(arena, 1), -1);
    for (int i = 0; i < 100; i += 2)
        device_arena_give(arena, at[i], G);
    expect_use(50, 100, 1, 50);
    ck_assert_int_eq(device_arena_use(arena).most_pieces, 100);
    ck_assert_int_eq(device_arena_take(arena, G + 1), -1);
    ck_assert_int_eq(device_arena_take(arena, G), 0);
    for (int i = 0; i < 100; i++)
        if (i % 2 == 1 || i == 0)
            device_arena_give(arena, at[i], G);
    expect_use(0, 100, 100, 0);
}
END_TEST

START_TEST(an_empty_block_gives_nothing)
{
    DeviceArena *none = device_arena_new(G - 1);
    ck_assert_int_eq(device_arena_take(none, 1), -1);
    ck_assert_int_eq(device_arena_use(none).bytes, 0);
    ck_assert(device_arena_sound(none));
    device_arena_free(none);
    device_arena_free(NULL);
}
END_TEST

static const int64_t wrong_gives[][2] = {{G, G},         {0, G},      {0, 3 * G},
                                         {4 * G, 2 * G}, {-G, 2 * G}, {200 * G, G}};

START_TEST(what_was_not_taken_like_this_is_not_given_back)
{
    ck_assert_int_eq(device_arena_take(arena, 2 * G), 0);
    device_arena_give(arena, wrong_gives[_i][0], wrong_gives[_i][1]);   // BUG
}
END_TEST

// -- anything at random: no piece touches another, and in the end the block is whole again

enum { HELD = 40, ROUNDS = 20000 };

typedef struct Worker {
    DeviceArena *arena;
    unsigned char *block;   // host memory of the same size
    uint64_t key;
    int64_t refused;
    bool good;
} Worker;

static bool keeps(const unsigned char *piece, int64_t bytes, unsigned char mark)
{
    return piece[0] == mark && piece[bytes / 2] == mark && piece[bytes - 1] == mark;
}

static void *take_and_give(void *context)
{
    Worker *worker = context;
    struct {
        int64_t offset, bytes;
    } held[HELD] = {{0, 0}};
    worker->good = true;
    for (uint64_t i = 0; i < ROUNDS + HELD; i++) {
        size_t k = i < ROUNDS ? random_bits(worker->key, 2 * i) % HELD : i - ROUNDS;
        unsigned char mark = (unsigned char)(worker->key * HELD + k);
        if (held[k].bytes > 0) {
            unsigned char *piece = worker->block + held[k].offset;
            worker->good = worker->good && keeps(piece, held[k].bytes, mark);
            device_arena_give(worker->arena, held[k].offset, held[k].bytes);
            held[k].bytes = 0;
        } else if (i < ROUNDS) {
            int64_t bytes = 1 + (int64_t)(random_bits(worker->key, 2 * i + 1) % (6 * G));
            int64_t offset = device_arena_take(worker->arena, bytes);
            if (offset < 0) {
                worker->refused++;
                continue;
            }
            worker->good = worker->good && offset % G == 0 && offset + bytes <= 100 * G;
            memset(worker->block + offset, mark, (size_t)bytes);
            held[k].offset = offset;
            held[k].bytes = bytes;
        }
        if (i % 1000 == 0)
            worker->good = worker->good && device_arena_sound(worker->arena);
    }
    return NULL;
}

START_TEST(nothing_overlaps_whoever_takes_and_gives)
{
    enum { WORKERS = 3 };
    Worker worker[WORKERS];
    pthread_t thread[WORKERS];
    unsigned char *block = malloc(100 * G);
    ck_assert_ptr_nonnull(block);
    for (uint64_t i = 0; i < WORKERS; i++) {
        worker[i] = (Worker){.arena = arena, .block = block, .key = i + 1};
        ck_assert_int_eq(pthread_create(&thread[i], NULL, take_and_give, &worker[i]), 0);
    }
    int64_t refused = 0;
    for (int i = 0; i < WORKERS; i++) {
        ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
        ck_assert(worker[i].good);
        refused += worker[i].refused;
    }
    ck_assert_int_gt(refused, 0);   // the block was full now and then
    DeviceArenaUse use = device_arena_use(arena);
    ck_assert(use.live == 0 && use.pieces == 0 && use.largest_free == use.bytes);
    free(block);
}
END_TEST

// -- under a device

enum { DEVICE_BYTES = 64 * 1024, PINNED_BYTES = 8 * 1024 };

static void setup_arena(void)
{
    Error error = ERROR_INIT;
    setup();
    ck_assert_msg(device_set_arena(device, DEVICE_BYTES, PINNED_BYTES, &error), "%s", error.message);
}

START_TEST(a_device_cuts_what_it_gives_from_its_arena)
{
    Error error = ERROR_INIT;
    DeviceArenaUse use;
    char *a = device_take(device, "a", 1000, &error), *b = device_take(device, "b", 1, &error);
    ck_assert_int_eq(b - a, 1024);
    ck_assert_uint_eq((uintptr_t)a % 64, 0);
    char *ring = device_take_pinned(device, "ring", 4096, &error);
    ck_assert_ptr_nonnull(ring);
    ck_assert(device_arena(device, LEDGER_DEVICE, &use));
    ck_assert_int_eq(use.live, 1536);
    ck_assert_int_eq(ledger_live(ledger, LEDGER_DEVICE), 1536);   // asked and rounded up by
    ck_assert(device_arena(device, LEDGER_PINNED, &use));
    ck_assert_int_eq(use.live, 4096);
    ck_assert(!device_arena(device, LEDGER_HOST, &use));
    memset(a, 7, 1000);
    memset(ring, 7, 4096);
    device_give(device, "a", a, 1000);
    device_give_pinned(device, "ring", ring, 4096);
    char *again = device_take(device, "again", 900, &error);
    ck_assert_ptr_eq(again, a);
    ck_assert(again[0] == 0 && again[899] == 0);   // zeroed at each take, not only with the block
    char *ring_again = device_take_pinned(device, "ring", 4000, &error);
    ck_assert(ring_again == ring && ring[0] == 0 && ring[3999] == 0);
    LedgerAccount accounts[LEDGER_ACCOUNTS];
    size_t count = ledger_accounts(ledger, accounts), found = 0;
    for (size_t i = 0; i < count; i++)
        if (accounts[i].kind == LEDGER_DEVICE && strcmp(accounts[i].name, "arena rounding") == 0) {
            ck_assert_int_eq(accounts[i].live_bytes, 124 + 511);
            found++;
        }
    ck_assert_uint_eq(found, 1);
    device_give(device, "again", again, 900);
    device_give(device, "b", b, 1);
    device_give_pinned(device, "ring", ring_again, 4000);
}
END_TEST

START_TEST(over_the_arena_is_said_with_what_is_free)
{
    Error error = ERROR_INIT;
    void *a = device_take(device, "a", 4608, &error), *b = device_take(device, "b", 512, &error);
    device_give(device, "a", a, 4608);
    ck_assert_ptr_null(device_take(device, "more", 60417, &error));
    ck_assert_int_eq(error.kind, ERROR_MEMORY);
    ck_assert_str_eq(
        error.message,
        "account 'more' asks 60417 bytes of device memory, of the arena of 65536 are 65024 free, "
        "the longest piece 60416");
    ck_assert_int_eq(ledger_live(ledger, LEDGER_DEVICE), 512);   // nothing stays charged
    error_clear(&error);
    ck_assert_ptr_null(device_take_pinned(device, "ring", PINNED_BYTES + 1, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "of pinned memory, of the arena of 8192 are 8192 free"));
    error_clear(&error);
    ledger_set_budget(ledger, LEDGER_DEVICE, 1200);
    ck_assert_ptr_null(device_take(device, "c", 600, &error));   // 600 fit the budget, 1024 do not
    ck_assert_ptr_nonnull(strstr(error.message, "account 'arena rounding' asks 424 bytes"));
    ck_assert_int_eq(ledger_live(ledger, LEDGER_DEVICE), 512);
    device_give(device, "b", b, 512);
}
END_TEST

// A back end of which a test knows each call; the memory and all else are those of the cpu.
static int taken, refusing, zeroed, recorded, waited;
static void *workspace_at;
static bool late;
static void *count_take(void *handle, FedgateMemory memory, int64_t bytes)
{
    taken++;
    return taken == refusing ? NULL : fedgate_backend.take(handle, memory, bytes);
}
static void count_zero(void *handle, void *to, int64_t bytes)
{
    zeroed++;
    fedgate_backend.zero(handle, to, bytes);
}
static void count_record(void *handle, void *event)
{
    recorded++;
    fedgate_backend.event_record(handle, event);
}
static bool count_wait(void *event, int64_t timeout_ns)
{
    waited++;
    return !late && fedgate_backend.event_wait(event, timeout_ns);
}
static bool fail_to_synchronise(void *handle, char *reason)
{
    (void)handle;
    snprintf(reason, FEDGATE_REASON_SIZE, "Xid 79");
    return false;
}
static void *open_card(int index, int threads, const FedgateHost *host, FedgateFacts *facts, char *reason)
{
    void *handle = fedgate_backend.open(index, threads, host, facts, reason);
    facts->asynchronous = true;
    facts->workspace_bytes = 1000;
    return handle;
}
static void note_workspace(void *handle, void *memory)
{
    (void)handle;
    workspace_at = memory;
}
static bool say_memory(void *handle, FedgateMemoryUse *use)
{
    (void)handle;
    *use = (FedgateMemoryUse){.total = 24000, .used = 23000, .used_before = 22500, .own = 500};
    return true;
}

static Device *open_wrapped(void)
{
    static FedgateBackend card;
    Error error = ERROR_INIT;
    card = fedgate_backend;
    card.open = open_card;
    card.take = count_take;
    card.zero = count_zero;
    card.event_record = count_record;
    card.event_wait = count_wait;
    card.synchronise = late ? fail_to_synchronise : card.synchronise;
    card.workspace = note_workspace;
    card.memory = say_memory;
    Device *opened = device_open_backend(&card, 1, clock_real(), ledger, &error);
    ck_assert_msg(opened != NULL, "%s", error.message);
    ck_assert_int_eq(taken, 0);   // the workspace comes with the first memory
    return opened;
}

START_TEST(nothing_is_taken_from_the_driver_after_the_arena)
{
    Error error = ERROR_INIT;
    Device *card = open_wrapped();
    ck_assert_int_eq(device_info(card)->other_bytes, 22500);
    ck_assert(device_set_arena(card, DEVICE_BYTES, PINNED_BYTES, &error));
    ck_assert_int_eq(taken, 2);
    char *a = device_take(card, "a", 600, &error), *ring = device_take_pinned(card, "ring", 64, &error);
    ck_assert_int_eq(a - (char *)workspace_at, 1024);   // the workspace is the first piece
    ck_assert(taken == 2 && zeroed == 2 && recorded == 2 && waited == 2);   // pinned memory is the host's
    device_give(card, "a", a, 600);
    device_give_pinned(card, "ring", ring, 64);
    device_close(card);
}
END_TEST

START_TEST(without_an_arena_the_workspace_comes_first_all_the_same)
{
    Error error = ERROR_INIT;
    Device *card = open_wrapped();
    void *a = device_take(card, "a", 600, &error);
    ck_assert_ptr_nonnull(workspace_at);
    ck_assert(taken == 2 && zeroed == 0);
    ck_assert_int_eq(ledger_live(ledger, LEDGER_DEVICE), 1600);
    device_give(card, "a", a, 600);
    device_close(card);
}
END_TEST

START_TEST(a_workspace_that_does_not_fit_is_asked_again)
{
    Error error = ERROR_INIT;
    Device *card = open_wrapped();
    ledger_set_budget(ledger, LEDGER_DEVICE, 999);
    ck_assert_ptr_null(device_take(card, "a", 1, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "account 'workspaces' asks 1000 bytes"));
    error_clear(&error);
    ledger_set_budget(ledger, LEDGER_DEVICE, 0);
    void *a = device_take(card, "a", 1, &error);
    ck_assert(a != NULL && workspace_at != NULL);
    device_give(card, "a", a, 1);
    device_close(card);
}
END_TEST

START_TEST(a_card_without_room_for_the_arena_says_what_it_has)
{
    Error error = ERROR_INIT;
    refusing = 1 + _i;   // the first block, or the second
    Device *card = open_wrapped();
    ck_assert(!device_set_arena(card, DEVICE_BYTES, PINNED_BYTES, &error));
    ck_assert_int_eq(error.kind, ERROR_MEMORY);
    ck_assert_str_eq(error.message,
                     _i == 0 ? "could not take an arena of 65536 bytes of device memory: 1000 of the card's "
                               "24000 are free, other programs held 22500 when it opened"
                             : "could not take an arena of 8192 bytes of pinned memory");
    device_close(card);
}
END_TEST

START_TEST(a_device_that_does_not_zero_in_time_is_named)
{
    Error error = ERROR_INIT;
    late = true;
    Device *card = open_wrapped();
    ck_assert(device_set_arena(card, DEVICE_BYTES, 0, &error));
    ck_assert_ptr_null(device_take(card, "a", 600, &error));
    ck_assert_int_eq(error.kind, ERROR_DEVICE);
    ck_assert_str_eq(error.message, "could not zero 1000 bytes of device memory: Xid 79");
    device_close(card);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("compute arena");
    TCase *block = tcase_create("block"), *whole = tcase_create("device"), *card = tcase_create("card");
    tcase_add_checked_fixture(block, open_arena, close_arena);
    tcase_add_test(block, bytes_are_rounded_up_to_granules);
    tcase_add_test(block, pieces_lie_side_by_side_and_the_first_gap_that_is_long_enough_is_taken);
    tcase_add_test(block, neighbours_join_in_whatever_order_they_end);
    tcase_add_test(block, fragmentation_is_known);
    tcase_add_test(block, an_empty_block_gives_nothing);
    tcase_add_loop_test_raise_signal(block, what_was_not_taken_like_this_is_not_given_back, SIGABRT, 0,
                                     sizeof wrong_gives / sizeof wrong_gives[0]);
    tcase_add_test(block, nothing_overlaps_whoever_takes_and_gives);
    tcase_add_checked_fixture(whole, setup_arena, teardown);
    tcase_add_test(whole, a_device_cuts_what_it_gives_from_its_arena);
    tcase_add_test(whole, over_the_arena_is_said_with_what_is_free);
    tcase_add_checked_fixture(card, setup, teardown);
    tcase_add_test(card, nothing_is_taken_from_the_driver_after_the_arena);
    tcase_add_test(card, without_an_arena_the_workspace_comes_first_all_the_same);
    tcase_add_test(card, a_workspace_that_does_not_fit_is_asked_again);
    tcase_add_loop_test(card, a_card_without_room_for_the_arena_says_what_it_has, 0, 2);
    tcase_add_test(card, a_device_that_does_not_zero_in_time_is_named);
    suite_add_tcase(s, block);
    suite_add_tcase(s, whole);
    suite_add_tcase(s, card);
    return s;
}

int main(void)
{
    return run_suite(suite());
}
