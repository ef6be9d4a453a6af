// night_memory_test - what a night plans of its device and feed, what the machine refuses, the arena of the
// training process, and what its driver counted: figures made by hand.
#include "../../src/night/night_internal.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

static Error error;
static Night night;
static Child child;
static Config *config;

static void set_up(void)
{
    static const char *const sets[] = {"train.batch=100", "input.slots=3", "input.prefetch=5",
                                       "memory.reserve=0.1"};
    error = ERROR_INIT;
    config = config_load(NULL, sets, sizeof sets / sizeof sets[0], NULL, &error);
    ck_assert_msg(config != NULL, "%s", error.message);
    night = (Night){.config = config, .ledger = ledger_new(), .evidence = json_make_object()};
    child = (Child){.night = &night, .evidence = json_make_object()};
}

static void tear_down(void)
{
    device_close(child.device);
    json_free(child.evidence);
    json_free(night.evidence);
    ledger_free(night.ledger);
    config_free(config);
}

// -- the plan

START_TEST(the_plan_knows_what_the_device_says_of_itself)
{
    DeviceInfo info = {.name = "NVIDIA H200",
                       .context_bytes = 5,
                       .workspace_bytes = 6,
                       .asynchronous = true,
                       .records = true};
    PlanDevice device = night_plan_device(&info);
    ck_assert(device.context_bytes == 5 && device.workspace_bytes == 6 && device.granule_bytes == 512);
    ck_assert(device.recording_bytes > 0 && !device.assumed);
    info.name[0] = '\0';   // nobody was asked
    info.records = false;
    device = night_plan_device(&info);
    ck_assert(device.assumed && device.recording_bytes == 0);
}
END_TEST

START_TEST(the_plan_knows_how_rows_come_to_the_device)
{
    PlanShape shape = {.numeric = 9, .categorical = 1};
    const DeviceInfo cpu = {.asynchronous = false}, card = {.asynchronous = true, .records = true},
                     bare = {.asynchronous = true};
    night_plan_feeding(config, &cpu, 100 * 40 + 7, &shape);
    ck_assert(shape.group == 1 && !shape.resident && shape.read_back_bytes == 0 && shape.resident_bytes == 0);
    night_plan_feeding(config, &bare, 100 * 40 + 7, &shape);
    ck_assert(shape.group == 1 && shape.read_back_bytes > 0);
    night_plan_feeding(config, &card, 100 * 40 + 7, &shape);
    ck_assert_int_eq(shape.group, 20);   // 40 batches in groups of at most 32: two of 20
    static const char *const sets[] = {"train.batch=100", "train.epochs=2", "input.resident=true"};
    OWNED(Config, config_free) *resident = config_load(NULL, sets, 3, NULL, &error);
    night_plan_feeding(resident, &card, 128, &shape);
    ck_assert(shape.resident);
    ck_assert_int_eq(shape.resident_bytes, 128 * 9 * 4 + 128 * 4 + 128 * 4);
    ck_assert_int_eq(shape.order_bytes, 2 * 128 * 4 + 2 * 2 * 8);   // two epochs, their order and digests
    night_plan_feeding(resident, &cpu, 128, &shape);   // the cpu trains from the ring all the same
    ck_assert(!shape.resident && shape.resident_bytes == 0);
}
END_TEST

static const struct {
    int64_t peak, memory, other;
    const char *refusal;   // "" fits
} machines[] = {
    {9000, 10000, 0, ""},
    {9001, 10000, 0,
     "planned peak is 9.001e-06 GB, the device has 1e-05 GB of which 9e-06 may be used: smaller "
     "train.microbatch"},
    {9000, 10000, 1000, ""},   // to the byte
    {9000, 10000, 1001,
     "planned peak is 9e-06 GB, other programs hold 1.001e-06 GB of the device's 1e-05 GB, of which "
     "8.999e-06 "
     "may be used: end what else uses the device"},
    {9000, 10000, 20000, "end what else uses the device, or take another one"},
    {INT64_MAX, 0, 0, ""},   // a machine nobody knows binds nothing
};

START_TEST(what_the_machine_has_left_binds_the_plan)
{
    const DeviceInfo device = {.memory_bytes = machines[_i].memory, .other_bytes = machines[_i].other};
    MemoryPlan plan = {.fits = true, .planned_peak_bytes = machines[_i].peak};
    night_bound_by_machine(config, &device, &plan);
    ck_assert_int_eq(plan.fits, machines[_i].refusal[0] == '\0');
    ck_assert_msg(strstr(plan.refusal, machines[_i].refusal) != NULL, "'%s'", plan.refusal);
}
END_TEST

// -- the arena: a cpu that says it is a card

static FedgateMemoryUse use;
static bool say_memory(void *handle, FedgateMemoryUse *ret_use)
{
    (void)handle;
    *ret_use = use;
    return true;
}

static int64_t left;   // of the card
static void *take_what_is_left(void *handle, FedgateMemory memory, int64_t bytes)
{
    return bytes > left ? NULL : fedgate_backend.take(handle, memory, bytes);
}

static void open_device(bool card)
{
    static FedgateBackend backend;
    backend = fedgate_backend;
    backend.take = card ? take_what_is_left : backend.take;
    left = INT64_MAX;
    backend.memory = card ? say_memory : NULL;
    use = (FedgateMemoryUse){.total = 24000, .used = 0, .used_before = 0, .own = -1};
    child.device = device_open_backend(&backend, 1, clock_real(), night.ledger, &error);
    ck_assert_msg(child.device != NULL, "%s", error.message);
    night.device = *device_info(child.device);
    ck_assert(text_copy(night.device.backend, sizeof night.device.backend, card ? "cuda" : "cpu"));
}

#define MIB (INT64_C(1) << 20)
static const struct {
    int64_t budget, planned, captures, plan_budget, arena;
} arenas[] = {
    {1000 * MIB, 10 * MIB, 0, 5000 * MIB, (10 + 16) * MIB},   // room of at least 16 MiB
    {1000 * MIB, 40 * MIB, 0, 5000 * MIB, (40 + 40) * MIB},   // or of the plan again
    {1000 * MIB, 100 * MIB, 0, 5000 * MIB, (100 + 50) * MIB},   // at most what nobody need explain
    {60 * MIB, 40 * MIB, 0, 5000 * MIB, 60 * MIB},   // inside the budget
    {60 * MIB, 40 * MIB, 7 * MIB, 5000 * MIB, 53 * MIB},   // in which the driver keeps recordings
};

START_TEST(the_arena_holds_the_plan_and_a_little_room)
{
    DeviceArenaUse arena;
    open_device(true);
    night.plan.memory.budget_bytes = arenas[_i].plan_budget;
    ledger_set_budget(night.ledger, LEDGER_DEVICE, arenas[_i].budget);
    ledger_plan(night.ledger, LEDGER_DEVICE, "weights", arenas[_i].planned - 4096);
    ledger_plan(night.ledger, LEDGER_DEVICE, "arena rounding", 4096);
    ledger_plan(night.ledger, LEDGER_DEVICE, "captures", arenas[_i].captures);
    ledger_plan(night.ledger, LEDGER_PINNED, "input.ring", 8192);
    ledger_plan(night.ledger, LEDGER_PINNED, "arena rounding", 1024);
    ASSERT_OK(child_set_arena(&child, &error), &error);
    ck_assert(device_arena(child.device, LEDGER_DEVICE, &arena));
    ck_assert_int_eq(arena.bytes, arenas[_i].arena);
    ck_assert(device_arena(child.device, LEDGER_PINNED, &arena));
    ck_assert_int_eq(arena.bytes, 9216);
}
END_TEST

START_TEST(a_card_that_others_filled_has_room_for_the_plan_or_is_refused)
{
    DeviceArenaUse arena;
    open_device(true);
    night.plan.memory.budget_bytes = 5000 * MIB;
    ledger_set_budget(night.ledger, LEDGER_DEVICE, 1000 * MIB);
    ledger_plan(night.ledger, LEDGER_DEVICE, "weights", 10 * MIB);
    left = 10 * MIB - 1;
    ASSERT_FAILS(
        child_set_arena(&child, &error), &error, ERROR_MEMORY,
        "could not take an arena of 10485760 bytes of device memory: 24000 of the card's 24000 are free");
    left = 10 * MIB;
    ASSERT_OK(child_set_arena(&child, &error), &error);
    ck_assert(device_arena(child.device, LEDGER_DEVICE, &arena));
    ck_assert_int_eq(arena.bytes, 10 * MIB);
}
END_TEST

static int64_t number(const char *dotted)
{
    return json_integer_or(json_find(child.evidence, dotted), -12345);
}

// Everything that a card holds for the process, as its driver counts it: by process where it can.
static const struct {
    FedgateMemoryUse first, last;
    int64_t own;
    const char *source;   // NULL: the driver cannot say
} drivers[] = {
    {{24000, 23000, 900, 22000}, {24000, 22500, 900, 21000}, 22000, "process"},
    {{24000, 100, 90, 5}, {24000, 22500, 900, 21000}, 21000, "process"},   // the most that was seen
    {{24000, 23000, 900, -1}, {24000, 22500, 900, -1}, 22100, "card before and after"},
    {{24000, 23000, -1, -1}, {24000, -1, 900, -1}, 0, NULL},
};

START_TEST(what_the_driver_counts_beside_context_and_arena_is_unexplained)
{
    open_device(true);
    ASSERT_OK(device_set_arena(child.device, 8192, 0, &error), &error);
    void *weights = device_take(child.device, "weights", 5000, &error);
    ASSERT_OK(ledger_charge(night.ledger, LEDGER_DEVICE, "captures", 3000, &error), &error);
    ledger_return(night.ledger, LEDGER_DEVICE, "captures", 3000);   // freed, and still what they took
    use = drivers[_i].first;
    child_look_at_driver(&child);
    use = drivers[_i].last;
    json_put_integer(night_section(child.evidence, "memory"), "measured_peak_bytes", 1);
    child_note_memory(&child);
    const int64_t context = device_info(child.device)->context_bytes;
    ck_assert_int_eq(number("memory.context_bytes"), context);
    ck_assert_int_eq(number("memory.measured_peak_bytes"), 5120 + 3000 + context);
    ck_assert_int_eq(number("memory.arena.bytes"), 8192);
    ck_assert_int_eq(number("memory.arena.peak_bytes"), 5120);
    ck_assert_int_eq(number("memory.arena.largest_free_bytes"), 8192 - 5120);
    ck_assert_ptr_null(json_find(child.evidence, "memory.pinned_arena"));
    if (drivers[_i].source) {
        ck_assert_int_eq(number("memory.driver.own_bytes"), drivers[_i].own);
        ck_assert_int_eq(number("memory.driver.arena_bytes"), 8192);
        ck_assert_int_eq(number("memory.driver.captures_bytes"), 3000);
        ck_assert_int_eq(number("memory.driver.total_bytes"), 24000);
        ck_assert_str_eq(json_text_or(json_find(child.evidence, "memory.driver.source"), ""),
                         drivers[_i].source);
        ck_assert_int_eq(number("memory.unexplained_bytes"), drivers[_i].own - context - 8192 - 3000);
    } else {   // never the process's memory, which says nothing of a card
        ck_assert_ptr_null(json_find(child.evidence, "memory.driver"));
        ck_assert_ptr_null(json_find(child.evidence, "memory.unexplained_bytes"));
    }
    device_give(child.device, "weights", weights, 5000);
}
END_TEST

START_TEST(on_the_host_the_process_is_reconciled_with_arenas_and_accounts)
{
    open_device(false);
    ASSERT_OK(device_set_arena(child.device, 8192, 4096, &error), &error);
    void *weights = device_take(child.device, "weights", 5000, &error),
         *rows = ledger_take(night.ledger, LEDGER_HOST, "rows", 70000, &error);
    child.context_bytes = 1000;
    child.context_live[LEDGER_HOST] = 20000;
    child_note_memory(&child);
    int64_t process = number("memory.process_peak_bytes");
    ck_assert_int_eq(number("memory.unexplained_bytes"),
                     process - 1000 - device_info(child.device)->context_bytes - 8192 - 4096 - 50000);
    ck_assert_ptr_null(json_find(child.evidence, "memory.driver"));
    device_give(child.device, "weights", weights, 5000);
    ledger_give(night.ledger, LEDGER_HOST, "rows", rows, 70000);
}
END_TEST

START_TEST(without_a_device_there_is_nothing_to_explain_but_the_process)
{
    ck_assert(text_copy(night.device.backend, sizeof night.device.backend, "cpu"));
    child_look_at_driver(&child);
    child_note_memory(&child);
    ck_assert_int_eq(number("memory.context_bytes"), 0);
    ck_assert_ptr_null(json_find(child.evidence, "memory.arena"));
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("night memory");
    TCase *tests = tcase_create("night memory");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, the_plan_knows_what_the_device_says_of_itself);
    tcase_add_test(tests, the_plan_knows_how_rows_come_to_the_device);
    tcase_add_loop_test(tests, what_the_machine_has_left_binds_the_plan, 0,
                        sizeof machines / sizeof machines[0]);
    tcase_add_loop_test(tests, the_arena_holds_the_plan_and_a_little_room, 0,
                        sizeof arenas / sizeof arenas[0]);
    tcase_add_test(tests, a_card_that_others_filled_has_room_for_the_plan_or_is_refused);
    tcase_add_loop_test(tests, what_the_driver_counts_beside_context_and_arena_is_unexplained, 0,
                        sizeof drivers / sizeof drivers[0]);
    tcase_add_test(tests, on_the_host_the_process_is_reconciled_with_arenas_and_accounts);
    tcase_add_test(tests, without_a_device_there_is_nothing_to_explain_but_the_process);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    int bad = srunner_ntests_failed(runner);
    srunner_free(runner);
    return bad != 0;
}
