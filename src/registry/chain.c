// chain - reading pointers/: every record, in sequence, each bound to the one before by its digest.
//
// A name in pointers/ is a record when it is a plain decimal number from 1. `.tmp-*` is one being written;
// anything else is nobody's and ignored. What is wrong with a record is ERROR_INCONSISTENT; not being able to
// look is ERROR_IO.
#include "registry_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <fedgate/fault.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Descriptor of pointers/<seq>, or -1.
static int open_record_directory(const Registry *registry, int64_t seq, Error *error)
{
    char name[32], path[FILE_PATH_SIZE];
    if (!text_print(name, sizeof name, "%lld", (long long)seq) ||
        !registry_path(registry, path, "pointers", name, error))
        return -1;
    int fd =
        fault_fires("look") ? (errno = EIO, -1) : open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        FAIL(error, ERROR_INCONSISTENT, 0, "it is not a directory");
    else if (fd < 0)
        FAIL(error, ERROR_IO, errno, "could not open directory '%s'", path);
    return fd;
}

static bool read_record_bytes(int fd, char to[static RECORD_BYTES_MAXIMUM], size_t *ret_length,
                              int64_t *ret_uid, Error *error)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return FAIL(error, ERROR_IO, errno, "could not look at record.json");
    if (!S_ISREG(status.st_mode) || status.st_size > RECORD_BYTES_MAXIMUM)
        return FAIL(error, ERROR_INCONSISTENT, 0, "record.json is not a plain file of at most %d bytes",
                    RECORD_BYTES_MAXIMUM);
    *ret_length = (size_t)status.st_size;
    *ret_uid = (int64_t)status.st_uid;
    return file_pread_all(fd, to, *ret_length, 0, error);
}

static bool parse_record_file(int fd, PointerRecord *ret_record, Error *error)
{
    char bytes[RECORD_BYTES_MAXIMUM];
    size_t length = 0;
    int64_t uid = -1;
    if (!read_record_bytes(fd, bytes, &length, &uid, error))
        return false;
    if (!record_parse(bytes, length, ret_record, error)) {
        if (error->kind == ERROR_DATA)
            error->kind = ERROR_INCONSISTENT;
        return error_prefix(error, "record.json");
    }
    if (uid != ret_record->actor_uid)
        return FAIL(error, ERROR_INCONSISTENT, 0,
                    "record.json belongs to uid %lld and names uid %lld as its actor", (long long)uid,
                    (long long)ret_record->actor_uid);
    return true;
}

static bool check_release_link(int directory_fd, const PointerRecord *record, Error *error)
{
    char target[FILE_PATH_SIZE], expected[VERSION_SIZE + 32];
    ssize_t length = readlinkat(directory_fd, "release", target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    if (text_print(expected, sizeof expected, "../../releases/%s", record->to) &&
        text_equal(target, expected))
        return true;
    return FAIL(error, ERROR_INCONSISTENT, 0, "its link 'release' does not name release '%s'", record->to);
}

bool record_load(const Registry *registry, int64_t seq, PointerRecord *ret_record, Error *error)
{
    int directory = open_record_directory(registry, seq, error);
    if (directory < 0)
        return error_prefix(error, "pointer record '%lld'", (long long)seq);
    PointerRecord record;
    bool good = false;
    int fd = openat(directory, "record.json", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        good = parse_record_file(fd, &record, error) && check_release_link(directory, &record, error);
        close(fd);
    } else if (errno == ENOENT || errno == ELOOP)
        FAIL(error, ERROR_INCONSISTENT, 0, "record.json is missing or a link");
    else
        FAIL(error, ERROR_IO, errno, "could not open record.json");
    close(directory);
    if (good && record.seq != seq)
        good = FAIL(error, ERROR_INCONSISTENT, 0, "record.json holds sequence %lld", (long long)record.seq);
    if (!good)
        return error_prefix(error, "pointer record '%lld'", (long long)seq);
    *ret_record = record;
    return true;
}

static int compare_sequences(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

// Only digits, but not how we write a number: a second record for one sequence in disguise.
static bool read_sequence(const char *name, bool *ret_is_record, int64_t *ret_seq, Error *error)
{
    *ret_is_record = name[0] != '\0' && strspn(name, "0123456789") == strlen(name);
    if (*ret_is_record && (name[0] == '0' || !text_to_int64(name, ret_seq)))
        return FAIL(error, ERROR_INCONSISTENT, 0, "pointer record '%.64s' is not the name of a sequence",
                    name);
    return true;
}

static bool list_sequences(const Registry *registry, int64_t **ret_sequences, size_t *ret_count, Error *error)
{
    char path[FILE_PATH_SIZE];
    FileList names;
    if (!registry_path(registry, path, "pointers", "", error) || !file_list(path, &names, error))
        return false;
    int64_t *sequences = calloc(names.count + 1, sizeof *sequences);
    bool good =
        sequences || FAIL(error, ERROR_MEMORY, 0, "out of memory for %zu pointer records", names.count);
    size_t count = 0;
    for (size_t i = 0; good && i < names.count; i++) {
        bool is_record;
        good = read_sequence(names.names[i], &is_record, &sequences[count], error);
        count += good && is_record;
    }
    file_list_done(&names);
    if (!good) {
        free(sequences);
        return false;
    }
    qsort(sequences, count, sizeof *sequences, compare_sequences);
    *ret_sequences = sequences;
    *ret_count = count;
    return true;
}

static bool check_link(const PointerRecord *before, const PointerRecord *record, Error *error)
{
    static const Digest none;
    const Digest *expected = before ? &before->digest : &none;
    if (record->previous != record->seq - 1)
        return FAIL(error, ERROR_INCONSISTENT, 0, "pointer record '%lld': its previous sequence is %lld",
                    (long long)record->seq, (long long)record->previous);
    if (!digest_equal(&record->previous_digest, expected)) {
        char said[DIGEST_HEX_SIZE], found[DIGEST_HEX_SIZE];
        digest_hex(&record->previous_digest, said);
        digest_hex(expected, found);
        return FAIL(error, ERROR_INCONSISTENT, 0,
                    "pointer record '%lld' follows a record of digest %.16s, record '%lld' has %.16s",
                    (long long)record->seq, said, (long long)record->previous, found);
    }
    const char *from = before ? before->to : "";
    if (!text_equal(record->from, from))
        return FAIL(error, ERROR_INCONSISTENT, 0, "pointer record '%lld' moves from '%s', live was '%s'",
                    (long long)record->seq, record->from, from);
    return true;
}

static bool read_records(const Registry *registry, const int64_t *sequences, Chain *chain, Error *error)
{
    for (size_t i = 0; i < chain->count; i++) {
        int64_t expected = (int64_t)i + 1;
        if (sequences[i] != expected)
            return FAIL(error, ERROR_INCONSISTENT, 0,
                        "pointer record '%lld' is missing, record '%lld' is there", (long long)expected,
                        (long long)sequences[i]);
        if (!record_load(registry, expected, &chain->records[i], error) ||
            !check_link(i ? &chain->records[i - 1] : NULL, &chain->records[i], error))
            return false;
    }
    return true;
}

bool chain_read(const Registry *registry, Chain *ret_chain, Error *error)
{
    int64_t *sequences;
    size_t count;
    if (!list_sequences(registry, &sequences, &count, error))
        return false;
    Chain chain = {.records = calloc(count + 1, sizeof *chain.records), .count = count};
    bool good = chain.records ? read_records(registry, sequences, &chain, error)
                              : FAIL(error, ERROR_MEMORY, 0, "out of memory for %zu pointer records", count);
    free(sequences);
    if (!good) {
        chain_done(&chain);
        if (error->kind == ERROR_INCONSISTENT)
            return error_hint(error, "Nothing was changed: restore the record from a backup, or move the "
                                     "records from it on away.");
        return false;
    }
    *ret_chain = chain;
    return true;
}

void chain_done(Chain *chain)
{
    free(chain->records);
    *chain = (Chain){.records = NULL};
}

const PointerRecord *chain_top(const Chain *chain)
{
    return chain->count ? &chain->records[chain->count - 1] : NULL;
}

const PointerRecord *chain_find(const Chain *chain, const char *version)
{
    for (size_t i = chain->count; i-- > 0;)
        if (text_equal(chain->records[i].to, version))
            return &chain->records[i];
    return NULL;
}
