// registry_fixture.h - a home of its own for one test, on a simulated clock, and short words for what tests
// do with it.
#ifndef FEDGATE_REGISTRY_FIXTURE_H
#define FEDGATE_REGISTRY_FIXTURE_H

#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <fedgate/process.h>
#include <fedgate/registry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BASELINE "base-0000000000000000"
#define A        "model-000000000000000a"
#define B        "model-000000000000000b"
#define C        "model-000000000000000c"

static const int64_t fixture_begin_ns = INT64_C(1790000000) * 1000000000;
static const int64_t fixture_hour_ns = INT64_C(3600) * 1000000000;

typedef struct Fixture {
    char *folder;
    char home[FILE_PATH_SIZE];
    Clock *clock;
    Registry *registry;
    Error error;
} Fixture;

__attribute__((unused)) static void fixture_open(Fixture *f)
{
    *f = (Fixture){
        .folder = support_folder_new(), .clock = clock_simulated(fixture_begin_ns), .error = ERROR_INIT};
    ASSERT_OK(file_join(f->home, f->folder, "home", &f->error), &f->error);
    ASSERT_OK(registry_create(f->home, process_account(), f->clock, &f->error), &f->error);
    f->registry = registry_open(f->home, f->clock, &f->error);
    ASSERT_OK(f->registry != NULL, &f->error);
}

__attribute__((unused)) static void fixture_close(Fixture *f)
{
    registry_close(f->registry);
    clock_free(f->clock);
    support_folder_remove(f->folder);
}

__attribute__((unused)) static const char *fixture_path(const Fixture *f, const char *name)
{
    return support_path(f->home, name);
}

// A release whose one file holds `content`; the version alone when NULL.
__attribute__((unused)) static void fixture_publish(Fixture *f, const char *version, ReleaseKind kind,
                                                    const char *content)
{
    char releases[FILE_PATH_SIZE];
    bool existed;
    Digest digest;
    ASSERT_OK(file_join(releases, f->home, "releases", &f->error), &f->error);
    OWNED(ReleaseDraft, release_free) *draft = release_begin(releases, version, &f->error);
    ASSERT_OK(draft != NULL, &f->error);
    support_write(support_path(release_path(draft), "model.json"), content ? content : version);
    ASSERT_OK(release_seal(draft, version, "model", kind, &digest, &f->error), &f->error);
    ASSERT_OK(release_publish(draft, releases, &existed, &f->error), &f->error);
}

__attribute__((unused)) static bool fixture_try(Fixture *f, MoveKind kind, const char *version,
                                                int64_t expected_seq)
{
    const MoveRequest request = {
        .kind = kind, .version = version, .expected_seq = expected_seq, .reason = "test", .run = ""};
    PointerRecord record;
    return registry_move(f->registry, &request, &record, &f->error);
}

// Publishes and makes live, an hour after the last one.
__attribute__((unused)) static void fixture_live(Fixture *f, MoveKind kind, const char *version)
{
    clock_advance(f->clock, fixture_hour_ns);
    fixture_publish(f, version, kind == MOVE_ADOPT ? RELEASE_BASELINE : RELEASE_MODEL, NULL);
    ASSERT_OK(fixture_try(f, kind, version, -1), &f->error);
}

// Records 1 adopt baseline, 2 promote A, 3 promote B.
__attribute__((unused)) static void fixture_three(Fixture *f)
{
    fixture_open(f);
    fixture_live(f, MOVE_ADOPT, BASELINE);
    fixture_live(f, MOVE_PROMOTE, A);
    fixture_live(f, MOVE_PROMOTE, B);
}

__attribute__((unused)) static void fixture_expect_live(Fixture *f, const char *version, int64_t seq)
{
    bool any;
    PointerRecord record;
    ASSERT_OK(registry_current(f->registry, &any, &record, &f->error), &f->error);
    ck_assert(any);
    ck_assert_str_eq(record.to, version);
    ck_assert_int_eq(record.seq, seq);
}

__attribute__((unused)) static size_t fixture_count_records(Fixture *f)
{
    PointerRecord *records;
    size_t count;
    ASSERT_OK(registry_history(f->registry, &records, &count, &f->error), &f->error);
    free(records);
    return count;
}

// Damages the one file of a release without changing its size.
__attribute__((unused)) static void fixture_rot(Fixture *f, const char *version)
{
    char name[256];
    snprintf(name, sizeof name, "releases/%s/model.json", version);
    int fd = open(fixture_path(f, name), O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, "?", 1, 0), 1);
    close(fd);
}

// Runs `work` in a child on a registry of its own; its exit status.
typedef int (*FixtureWork)(Fixture *f, int number);
__attribute__((unused)) static pid_t fixture_fork(Fixture *f, FixtureWork work, int number)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child != 0)
        return child;
    Error error = ERROR_INIT;
    Fixture own = *f;
    own.registry = registry_open(f->home, f->clock, &error);
    _exit(own.registry ? work(&own, number) : 99);
}

__attribute__((unused)) static int fixture_wait(pid_t child)
{
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#endif
