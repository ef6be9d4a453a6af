// plan - step 3, and `fedgate plan`: what the night needs, before a device starts. A plan that cannot fit or
// cannot finish goes straight to the judges, who refuse it by `memory` or `window`.
#include "night_internal.h"

#include <math.h>
#include <string.h>

// Largest whole number of steps the night may take, as the trainer plans it.
static int64_t planned_steps(const Config *config, int64_t train_rows)
{
    int64_t batch = config_integer(config, "train.batch"), limit = config_integer(config, "train.max_steps");
    int64_t steps = (train_rows + batch - 1) / batch * config_integer(config, "train.epochs");
    return limit > 0 && limit < steps ? limit : steps;
}

void night_shape(const Config *config, const Dataset *dataset, const Maps *maps, TrainShape *ret_train,
                 PlanShape *ret_shape)
{
    trainer_shape(config, maps, ret_train);
    ret_train->outputs =
        dataset_classes(dataset);   // labels may be the tokens 0..k-1, known only from the rows
    *ret_shape = (PlanShape){.numeric = ret_train->numeric,
                             .categorical = ret_train->categorical,
                             .cardinality = ret_train->cardinality,
                             .embedding = ret_train->embedding,
                             .hidden = ret_train->hidden,
                             .layers = ret_train->layers,
                             .outputs = ret_train->outputs};
    FedgateType type;
    bool known = device_type_find(config_text(config, "train.precision"), &type);
    ret_shape->bytes_per_element = fedgate_type_bytes(known ? type : FEDGATE_FP32);
    ret_shape->steps = planned_steps(config, (int64_t)dataset_rows(dataset, SPLIT_TRAIN));
    ret_shape->validation_rows = (int64_t)dataset_rows(dataset, SPLIT_VALIDATION);
    const TrainFixed fixed = trainer_fixed_bytes();
    ret_shape->sum_bytes = fixed.sums;
    ret_shape->operand_bytes = fixed.operands;
    ret_shape->step_bytes = fixed.step_state;
    ret_shape->pace_bytes = fixed.pace;
    ScoreBytes score;
    trainer_score_bytes(ret_train, &score);
    ret_shape->score_weights = score.weights;
    ret_shape->score_activations = score.activations;
    ret_shape->score_input = score.input;
    ret_shape->score_workspace = score.workspace;
}

// Table row of the device, or the bound of a CPU; false when neither is known: then nothing is guessed. A CPU
// emulates half precision with instructions of FP32, so their bound holds for it too.
static bool peak_of(const DeviceInfo *device, const char *precision, DevicePeak *ret_peak)
{
    const DevicePeak *row = plan_device_peak(device->name, precision);
    if (row != NULL) {
        *ret_peak = *row;
        return true;
    }
    double bound = plan_cpu_peak(device->cores, device->instruction_set);
    *ret_peak = (DevicePeak){.device = device->name,
                             .precision = precision,
                             .peak_flops = bound,
                             .source = text_equal(precision, "fp32")
                                           ? "upper bound: cores x 6 GHz x FLOP per cycle"
                                           : "upper bound: cores x 6 GHz x FLOP per cycle of FP32, which "
                                             "emulates half precision"};
    return bound > 0;
}

bool night_make_plan(const Config *config, const PlanShape *shape, const DeviceInfo *device,
                     const Dataset *dataset, int64_t start_wall_ns, NightPlan *ret_plan, Error *error)
{
    int64_t train_rows = dataset == NULL ? 0 : (int64_t)dataset_rows(dataset, SPLIT_TRAIN);
    char slot[11];
    int64_t deadline = 0;
    DevicePeak peak;
    bool known = device != NULL && peak_of(device, config_text(config, "train.precision"), &peak);
    PlanShape fed = shape != NULL ? *shape : (PlanShape){0};
    PlanDevice figures = {0};
    if (device != NULL) {
        figures = night_plan_device(device);
        night_plan_feeding(config, device, (size_t)train_rows, &fed);
    }
    if (!plan_night(config, shape != NULL ? &fed : NULL, &figures, known ? &peak : NULL, ret_plan, error) ||
        !plan_deadline(config, start_wall_ns, &deadline, slot, error))
        return false;
    if (device != NULL)
        night_bound_by_machine(config, device, &ret_plan->memory);
    ret_plan->deadline_wall_ns = deadline;
    ret_plan->epochs = config_integer(config, "train.epochs");
    ret_plan->steps = train_rows > 0 ? planned_steps(config, train_rows) : 0;
    if (ret_plan->roofline.peak_flops >
        0)   // nothing can be faster than the roofline: a lower bound that needs no measurement
        ret_plan->forecast_seconds =
            (double)ret_plan->steps * ret_plan->step_flop / ret_plan->roofline.peak_flops;
    return true;
}

// A device that cannot be asked: what a plan needs of it, so that a plan can be made where there is none.
static DeviceInfo assumed_device(const Config *config)
{
    DeviceInfo assumed = {.context_bytes = 600 * 1000 * 1000,   // H200: 547 MB, and 13 for its profiler
                          .workspace_bytes = 80 * 1024 * 1024 + 4096,   // of the cuda module
                          .asynchronous = true,
                          .records = true,
                          .traces = true};
    if (!text_copy(assumed.backend, sizeof assumed.backend, config_text(config, "device.backend")))
        BUG("name of a back end too long");
    return assumed;
}

bool night_plan(const Config *config, Clock *clock, NightPlan *ret_plan, Error *ret_absent, Error *error)
{
    *ret_absent = ERROR_INIT;
    if (config_list_count(config, "data.train") == 0)
        return night_make_plan(config, NULL, NULL, NULL, clock_wall_ns(clock), ret_plan, error);
    if (!config_check_needed(config, error))
        return false;
    OWNED(Ledger, ledger_free) *ledger = ledger_new();
    OWNED(Dataset, dataset_close) *dataset = NULL;
    OWNED(Maps, maps_free) *maps = NULL;
    if (ledger == NULL)
        return FAIL(error, ERROR_MEMORY, 0, "could not allocate the ledger");
    DeviceInfo device;
    if (!night_device(config, &device, ret_absent))
        device = assumed_device(config);
    dataset = dataset_open(config, clock, ledger, error);
    maps = dataset == NULL ? NULL : maps_fit(dataset, config, error);
    if (maps == NULL)
        return false;
    TrainShape train = {0};
    PlanShape shape = {0};
    night_shape(config, dataset, maps, &train, &shape);
    return night_make_plan(config, &shape, &device, dataset, clock_wall_ns(clock), ret_plan, error);
}

// What the night that made what is live took, when it had the same shape and precision.
typedef struct Measured {
    double step_seconds;
    double around_seconds, after_seconds;   // of the steps around training; of those after it
} Measured;

static const struct {
    const char *step;
    bool after;
} around_training[] = {{"profile", false},    {"rehearse", false}, {"parity", false}, {"evaluate", true},
                       {"parity late", true}, {"judge", true},     {"bundle", true},  {"decide", true}};

static bool measured_night(const Night *night, Measured *ret_measured)
{
    Error ignored = ERROR_INIT;
    char live[UUID_SIZE], name[128], path[FILE_PATH_SIZE];
    if (!night_live_run(night, live) || !text_print(name, sizeof name, "runs/%s/run.json", live) ||
        !file_join(path, night->options->home, name, &ignored))
        return false;
    OWNED(Json, json_free) *run = json_read_file(path, NIGHT_JSON_MAX, &ignored);
    double flop = json_number_or(json_get(run, "step_flop"), 0);
    *ret_measured = (Measured){.step_seconds = json_number_or(json_get(run, "step_seconds"), 0)};
    for (size_t i = 0; i < sizeof around_training / sizeof around_training[0]; i++) {
        double seconds = json_number_or(json_get(json_get(run, "seconds"), around_training[i].step), 0);
        ret_measured->around_seconds += seconds;
        ret_measured->after_seconds += around_training[i].after ? seconds : 0;
    }
    return flop > 0 && fabs(flop / night->plan.step_flop - 1) < 0.01 && ret_measured->step_seconds > 0 &&
           text_equal(json_text_or(json_get(run, "precision"), ""), night->plan.precision);
}

double night_seconds_after_training(const Night *night, double training_seconds)
{
    const double least = 1;   // judging and bundling, where nothing was measured
    bool half = night->shape.bytes_per_element < fedgate_type_bytes(FEDGATE_FP32);
    if (night->rest_seconds > 0)
        return fmax(night->rest_seconds, least);
    return least + (half ? training_seconds : 0);
}

static void note_window(Night *night, bool inside, double seconds)
{
    Json *window = night_section(night->evidence, "window");
    char text[CLOCK_TIME_SIZE];
    night_time(night, night->started_wall_ns, text);
    json_put_text(window, "started", text);
    night_time(night, night->deadline_wall_ns, text);
    json_put_text(window, "deadline", text);
    json_put_integer(window, "deadline_wall_ns", night->deadline_wall_ns);
    char note[PLAN_NOTE_SIZE];
    plan_deadline_note(night->config, night->deadline_wall_ns, note);
    if (note[0] != '\0')
        json_put_text(window, "deadline_note", note);
    json_put_integer(window, "planned_steps", night->plan.steps);
    json_put_integer(window, "done_steps", 0);
    json_put_bool(window, "stopped_early", !inside);
    if (!inside)
        json_put_text(window, "end_reason", "deadline");
    Json *forecasts = json_make_array(), *forecast = json_make_object();
    json_put_integer(forecast, "at_step", 0);
    night_time(night, clock_wall_ns(night->clock) + (int64_t)(seconds * 1e9), text);
    json_put_text(forecast, "end", text);
    json_put_text(forecast, "end_upper", text);
    json_put_bool(forecast, "inside", inside);
    int64_t now = clock_wall_ns(night->clock), end = now + (int64_t)(seconds * 1e9);
    json_put_integer(forecast, "at_wall_ns", now);
    json_put_integer(forecast, "end_wall_ns", end);
    json_put_integer(forecast, "end_upper_wall_ns", end);
    json_put_integer(forecast, "blocks", 0);   // of an earlier night, or of the roofline
    json_add(forecasts, forecast);
    json_put(window, "forecasts", forecasts);
}

static void put_integers(Json *object, const char *key, const int64_t *values, size_t count)
{
    Json *array = json_make_array();
    for (size_t i = 0; i < count; i++)
        json_add_integer(array, values[i]);
    json_put(object, key, array);
}

// What the work of a step follows from: the judge works out FLOP and bytes by itself.
static void note_shape(const Night *night, Json *plausible)
{
    const PlanShape *shape = &night->shape;
    Json *json = night_section(plausible, "shape");
    json_put_integer(json, "numeric", shape->numeric);
    put_integers(json, "embedding", shape->embedding, (size_t)shape->categorical);
    put_integers(json, "hidden", shape->hidden, shape->layers);
    json_put_integer(json, "outputs", shape->outputs);
    json_put_integer(json, "element_bytes", shape->bytes_per_element);
    json_put_integer(json, "batch", config_integer(night->config, "train.batch"));
}

static void note_memory(Night *night)
{
    const MemoryPlan *plan = &night->plan.memory;
    Json *memory = night_section(night->evidence, "memory");
    json_put_integer(memory, "device_bytes", plan->device_bytes);
    if (night->device.memory_bytes > 0)
        json_put_integer(memory, "physical_bytes", night->device.memory_bytes);
    json_put_integer(memory, "budget_bytes", plan->budget_bytes);
    json_put_number(memory, "reserve", plan->reserve_ratio);
    json_put_integer(memory, "planned_peak_bytes", plan->planned_peak_bytes);
    json_put_integer(memory, "validation_bytes", plan->validation_bytes);
    if (plan->refusal[0] != '\0')
        json_put_text(memory, "refusal", plan->refusal);
    Json *plausible = night_section(night->evidence, "plausible");
    json_put_text(plausible, "device", night->device.name);
    json_put_text(plausible, "precision", night->plan.precision);
    json_put_integer(plausible, "cores", night->device.cores);
    json_put_number(plausible, "peak_flops", night->plan.has_roofline ? night->plan.roofline.peak_flops : 0);
    json_put_text(plausible, "peak_source", night->plan.peak_source);
    double bandwidth = night->plan.has_roofline ? night->plan.roofline.bandwidth : 0;
    json_put_number(plausible, "bandwidth", bandwidth);
    json_put_text(plausible, "bandwidth_source",
                  bandwidth > 0 ? "declared or device table" : "unknown: does not bind");
    json_put_text(plausible, "memory_level", "device memory");
    note_shape(night, plausible);
}

static bool save_plan(Night *night, Error *error)
{
    OWNED(Json, json_free) *json = plan_to_json(&night->plan);
    SCOPED_TEXT text;
    text_init(&text, 1000000);
    plan_print(&night->plan, night->config, &text);
    char path[FILE_PATH_SIZE];
    return night_save(night, "plan.json", json, error) && text_ok(&text, error) &&
           night_file(night, "plan.txt", path, error) &&
           file_write_atomic(path, text_string(&text), text.length, 0640, error);
}

StepEnd night_step_plan(Night *night, Error *error)
{
    night->plan.deadline_wall_ns = night->deadline_wall_ns;
    Measured measured;
    if (measured_night(night, &measured)) {
        night->rest_seconds = measured.after_seconds;
        night->plan.forecast_seconds =
            fmax(night->plan.forecast_seconds,
                 measured.step_seconds * (double)night->plan.steps + measured.around_seconds);
    }
    note_memory(night);
    int64_t end = clock_wall_ns(night->clock) + (int64_t)(night->plan.forecast_seconds * 1e9);
    note_window(night, end <= night->deadline_wall_ns, night->plan.forecast_seconds);
    if (!save_plan(night, error))
        return STEP_FAILED;
    night_plan_accounts(night);
    if (!night->plan.memory.fits || end > night->deadline_wall_ns) {
        log_event(night->log, LOG_WARN, "night.plan",
                  night->plan.memory.fits ? "cannot finish before the deadline" : night->plan.memory.refusal);
        night->plan_refused =
            true;   // the profile comes first: a first night still adopts its named baseline
    }
    return STEP_GO_ON;
}
