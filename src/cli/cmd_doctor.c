// cmd_doctor - `fedgate doctor`: looks at everything a night needs and says what to do; changes nothing but
// starting the database.
//
// Every check is one row. A check that fails names the exit code it stands for: 78 configuration, 69
// something is missing; the whole ends with the code of the first failure, 0 with warnings only.
#include "cli.h"
#include <errno.h>
#include <fedgate/compute.h>
#include <fedgate/gate.h>
#include <fedgate/night.h>
#include <fedgate/remote.h>
#include <fedgate/telemetry.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

typedef enum Level { LEVEL_OK, LEVEL_WARN, LEVEL_FAIL, LEVEL_SKIP } Level;
static const char *const level_words[] = {"OK", "WARN", "FAIL", "SKIP"};

typedef struct Ward {   // what the checks share; later ones use what earlier ones found
    const Invocation *call;
    const char *home;
    Registry *registry;
    Config *config;
    Telemetry *telemetry;
    bool asked;   // the device answered
    DeviceTrial device;
} Ward;

typedef struct Diagnosis {
    Level level;
    int exit_code;   // of LEVEL_FAIL
    Text what, advice;   // both one line
} Diagnosis;

static void say(Diagnosis *ret, Level level, const char *advice)
{
    ret->level = level;
    text_add(&ret->advice, advice);
}

static void say_error(Diagnosis *ret, const Error *error)
{
    ret->level = LEVEL_FAIL;
    ret->exit_code =
        error->kind == ERROR_CONFIG ? error_exit_code(ERROR_CONFIG) : error_exit_code(ERROR_UNAVAILABLE);
    text_clear(&ret->what);
    text_add_escaped(&ret->what, error->message);
    text_add_escaped(&ret->advice, error->hint);
}

static void check_home(Ward *ward, Diagnosis *ret)
{
    Error error = ERROR_INIT;
    ward->registry = registry_open(ward->home, clock_real(), &error);
    if (!ward->registry)
        say_error(ret, &error);
    else
        text_add_escaped(&ret->what, ward->home);
}

static void check_config(Ward *ward, Diagnosis *ret)
{
    Error error = ERROR_INIT;
    ward->config = call_config(ward->call, &error);
    if (!ward->config || !config_check_needed(ward->config, &error) ||
        !gate_check_policy(ward->config, &error)) {
        say_error(ret, &error);
        return;
    }
    const char *path = config_path(ward->config);
    text_add_escaped(&ret->what, *path ? path : "defaults and flags, no file");
    struct stat status;
    if (*path && stat(path, &status) == 0 && (status.st_mode & (S_IWGRP | S_IWOTH)))
        say(ret, LEVEL_WARN, "Others can write the configuration: chmod go-w it.");
}

static void check_owner(Ward *ward, Diagnosis *ret)
{
    if (!ward->registry || !ward->config) {
        ret->level = LEVEL_SKIP;
        return;
    }
    const char *owner = config_text(ward->config, "owner");
    text_add_format(&ret->what, "owner %s", *owner ? owner : "as recorded in the home");
    if (!registry_duty_separated(ward->registry, owner))
        say(ret, LEVEL_WARN,
            "Separation of duty is off: run nights under an account that is not the owner's.");
}

static void check_disk(Ward *ward, Diagnosis *ret)
{
    static const double low_bytes = 1e9;
    struct statvfs disk;
    if (statvfs(ward->home, &disk) != 0) {
        ret->level = LEVEL_SKIP;
        return;
    }
    double free_bytes = (double)disk.f_bavail * (double)disk.f_frsize;
    text_add_format(&ret->what, "%.1f GB free", free_bytes / 1e9);
    if (free_bytes < low_bytes)
        say(ret, LEVEL_WARN, "Less than 1 GB is free in the home: free some before the night.");
}

static void check_zone(Ward *ward, Diagnosis *ret)
{
    if (!ward->config) {
        ret->level = LEVEL_SKIP;
        return;
    }
    const char *zone = config_text(ward->config, "window.zone");
    Error error = ERROR_INIT;
    if (!clock_zone_check(zone, &error)) {
        say_error(ret, &error);
        return;
    }
    text_add_format(&ret->what, "deadline %s %s", config_text(ward->config, "window.deadline"),
                    *zone ? zone : "(the system's zone)");
}

static void check_data(Ward *ward, Diagnosis *ret)
{
    if (!ward->config) {
        ret->level = LEVEL_SKIP;
        return;
    }
    static const char *const options[] = {"data.train", "data.test"};
    const char *directory = config_text(ward->config, "data.directory");
    size_t count = 0;
    for (size_t o = 0; o < 2; o++)
        for (size_t i = 0; i < config_list_count(ward->config, options[o]); i++, count++) {
            const char *name = config_list_text(ward->config, options[o], i);
            char path[FILE_PATH_SIZE];
            Error error = ERROR_INIT;
            uint64_t bytes;
            bool joined =
                *directory ? file_join(path, directory, name, &error) : text_copy(path, sizeof path, name);
            if (!joined || !file_size(path, &bytes, &error)) {
                if (error.kind == ERROR_NONE)
                    (void)FAIL(&error, ERROR_CONFIG, 0, "path of data file '%.60s' is too long", name);
                say_error(ret, &error);
                ret->exit_code = error_exit_code(ERROR_CONFIG);
                text_add(&ret->advice,
                         "Name existing files in data.train and data.test, their folder in data.directory.");
                return;
            }
        }
    text_add_format(&ret->what, "%zu files", count);
}

static void check_device(Ward *ward, Diagnosis *ret)
{
    if (!ward->config) {
        ret->level = LEVEL_SKIP;
        return;
    }
    Error error = ERROR_INIT;
    ward->asked = night_try_device(ward->config, &ward->device, &error);
    if (!ward->asked) {
        say_error(ret, &error);
        text_clear(&ret->advice);
        text_add(
            &ret->advice,
            "Absent: put fedgate_cuda.so beside the program or name its folder in FEDGATE_BACKENDS. Refused: "
            "build it with this program. Unsupported: a card and its driver are needed; nvidia-smi says "
            "more.");
        return;
    }
    const DeviceInfo *info = &ward->device.info;
    text_add_format(&ret->what, "%s, %s, %s", info->name,
                    info->asynchronous ? info->core : info->instruction_set, info->libraries);
}

// What a night on a GPU needs beside the card, one remedy each.
static void check_gpu(Ward *ward, Diagnosis *ret)
{
    char module[FILE_PATH_SIZE];
    const FedgateMemoryUse *use = &ward->device.memory;
    if (!ward->config || (!ward->asked && !text_equal(config_text(ward->config, "device.backend"), "cpu"))) {
        ret->level = LEVEL_SKIP;
        return;
    }
    device_module(ward->asked && ward->device.info.asynchronous ? ward->device.info.backend : "cuda", module);
    text_add(&ret->what, "module ");
    text_add_escaped(&ret->what, module[0] ? module : "absent");
    if (!ward->asked || !ward->device.info.asynchronous) {
        text_add(&ret->what, ", not used: device.backend is cpu");
        return;
    }
    text_add(&ret->what, "; profiler: ");
    text_add_escaped(&ret->what, ward->device.profiler[0] ? ward->device.profiler : "records");
    if (ward->device.counts && use->total >= 0 && use->used_before >= 0)
        text_add_format(&ret->what, "; %.1f GB, of which others hold %.1f", (double)use->total / 1e9,
                        (double)use->used_before / 1e9);
    if (ward->device.profiler[0]) {
        say(ret, LEVEL_FAIL,
            "overlap cannot be judged: end the other profiler, or install CUPTI of this toolkit and name its "
            "folder "
            "in FEDGATE_CUDA_LIBRARIES.");
        ret->exit_code = error_exit_code(ERROR_UNAVAILABLE);
    } else if (!ward->device.counts || use->own < 0) {
        say(ret, LEVEL_WARN,
            "The driver does not count this process: without NVML (libnvidia-ml.so.1) bytes that others take "
            "meanwhile "
            "are held to be ours. Name its folder in FEDGATE_CUDA_LIBRARIES.");
    } else if (use->used_before > 1000000000) {
        say(ret, LEVEL_WARN,
            "Another program holds memory of this card: end it before the night, or choose another card by "
            "CUDA_VISIBLE_DEVICES.");
    }
}

static void check_database(Ward *ward, Diagnosis *ret)
{
    if (!ward->config || !ward->registry) {
        ret->level = LEVEL_SKIP;
        return;
    }
    Error error = ERROR_INIT;
    ward->telemetry = telemetry_connect(ward->config, ward->home, clock_real(), &error);
    if (!ward->telemetry)
        say_error(ret, &error);
    else
        text_add_escaped(&ret->what, telemetry_where(ward->telemetry));
}

static void check_migrations(Ward *ward, Diagnosis *ret)
{
    char migrations[FILE_PATH_SIZE];
    Error error = ERROR_INIT;
    if (!share_migrations(migrations, &error))
        say_error(ret, &error);
    else if (!ward->telemetry)
        ret->level = LEVEL_SKIP;
    else if (!telemetry_check_schema(ward->telemetry, migrations, &error))
        say_error(ret, &error);
    else
        text_add(&ret->what, "schema up to date");
}

static void check_notify(Ward *ward, Diagnosis *ret)
{
    if (!ward->config) {
        ret->level = LEVEL_SKIP;
        return;
    }
    Error error = ERROR_INIT;
    char outbox[FILE_PATH_SIZE];
    int waiting = 0, refused = 0;
    RemoteTarget target;
    if (!remote_target_read(ward->config, &target, &error) ||
        !file_join(outbox, ward->home, "outbox", &error) ||
        !remote_outbox_count(outbox, &waiting, &refused, &error)) {
        say_error(ret, &error);
        return;
    }
    text_add_format(&ret->what, "%s%s%s; outbox: %d waiting, %d refused",
                    target.url[0] ? "host " : "no receiver", target.host,
                    target.url[0] && !target.key_length ? ", unsigned" : "", waiting, refused);
    remote_target_done(&target);
    if (waiting > 0 && target.url[0])
        say(ret, LEVEL_WARN, "The next run posts them again; the log of the last one says why they wait.");
    else if (refused > 0)
        say(ret, LEVEL_WARN, "The receiver will not take outbox/*.refused.json: read and remove them.");
}

static const struct {
    const char *name;
    void (*look)(Ward *, Diagnosis *);
} checks[] = {
    {"home", check_home},         {"config", check_config},
    {"owner", check_owner},       {"disk", check_disk},
    {"zone", check_zone},         {"data", check_data},
    {"device", check_device},     {"gpu", check_gpu},
    {"database", check_database}, {"migrations", check_migrations},
    {"notify", check_notify},
};

static void print_diagnosis(const Invocation *call, const char *name, const Diagnosis *diagnosis, Json *rows)
{
    if (call->json) {
        Json *row = json_make_object();
        json_put_text(row, "check", name);
        json_put_text(row, "level", level_words[diagnosis->level]);
        json_put_text(row, "what", text_string(&diagnosis->what));
        json_put_text(row, "advice", text_string(&diagnosis->advice));
        json_add(rows, row);
        return;
    }
    if (call->quiet && diagnosis->level == LEVEL_OK)
        return;
    SCOPED_TEXT line;
    text_init(&line, 16384);
    text_add_format(&line, "%-4s  %-10s  %s\n", level_words[diagnosis->level], name,
                    diagnosis->level == LEVEL_SKIP ? "needs what failed above"
                                                   : text_string(&diagnosis->what));
    if (diagnosis->advice.length)
        text_add_format(&line, "                  %s\n", text_string(&diagnosis->advice));
    output_text(&line);
}

bool cmd_doctor(const Invocation *call, int *ret_exit, Error *error)
{
    Ward ward = {.call = call};
    if (!call_home(call, &ward.home, error))
        return false;
    *ret_exit = 0;
    OWNED(Json, json_free) *object = json_make_object();
    Json *rows = json_make_array();
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        Diagnosis diagnosis = {.level = LEVEL_OK};
        text_init(&diagnosis.what, 4096);
        text_init(&diagnosis.advice, 4096);
        checks[i].look(&ward, &diagnosis);
        print_diagnosis(call, checks[i].name, &diagnosis, rows);
        if (diagnosis.level == LEVEL_FAIL && *ret_exit == 0)
            *ret_exit = diagnosis.exit_code;
        text_done(&diagnosis.what);
        text_done(&diagnosis.advice);
    }
    json_put_text(object, "schema", "fedgate.doctor/1");
    json_put(object, "checks", rows);
    if (call->json)
        output_json(object);
    telemetry_close(ward.telemetry);
    config_free(ward.config);
    registry_close(ward.registry);
    return true;
}
