// record - the canonical record of a night, the version named after its digest, and the first field two
// records differ in.
//
// The record is compact JSON with its keys in a fixed order; adding an IDENTITY option moves every version,
// on purpose. The format number rises when a key is removed or changes its meaning.
#include <fedgate/identity.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define RECORD_FORMAT "fedgate.identity/1"
enum { RECORD_BYTES = 64 * 1000 * 1000, VERSION_HEX = 16 };

// These stand at the top of the record, where a person looks for them, and so not among the options.
static const char *const named_apart[] = {"model", "train.seed", "train.precision"};

static Json *machine_record(const MachineClass *machine)
{
    Json *object = json_make_object();
    json_put_text(object, "backend", machine->backend);
    json_put_text(object, "device", machine->device);
    json_put_text(object, "libraries", machine->libraries);
    return object;
}

static void put_digest(Json *object, const char *key, const Digest *digest)
{
    char hex[DIGEST_HEX_SIZE];
    digest_hex(digest, hex);
    json_put_text(object, key, hex);
}

Json *identity_record(const Config *config, const Digest *trainer, const Digest *data,
                      const MachineClass *machine)
{
    Json *options = config_to_json(config, OPTION_IDENTITY);
    for (size_t i = 0; i < sizeof named_apart / sizeof named_apart[0]; i++)
        json_remove(options, named_apart[i]);
    Json *record = json_make_object();
    json_put_text(record, "format", RECORD_FORMAT);
    json_put_text(record, "model", config_text(config, "model"));
    put_digest(record, "trainer", trainer);
    json_put(record, "options", options);
    put_digest(record, "data", data);
    json_put_integer(record, "seed", config_integer(config, "train.seed"));
    json_put_text(record, "precision", config_text(config, "train.precision"));
    json_put(record, "machine", machine_record(machine));
    return record;
}

void identity_digest(const Json *record, Digest *ret_digest)
{
    SCOPED_TEXT bytes;
    text_init(&bytes, RECORD_BYTES);
    json_write(record, JSON_COMPACT, &bytes);
    if (bytes.failed)   // a cut record would give two versions one name
        BUG("an identity record is longer than %d bytes", RECORD_BYTES);
    hash_bytes(text_string(&bytes), bytes.length, ret_digest);
}

void identity_version(const Json *record, char ret_version[static VERSION_SIZE])
{
    Digest digest;
    char hex[DIGEST_HEX_SIZE];
    identity_digest(record, &digest);
    digest_hex(&digest, hex);
    if (!text_print(ret_version, VERSION_SIZE, "%s-%.*s", json_text_or(json_get(record, "model"), ""),
                    VERSION_HEX, hex))
        BUG("a model name longer than a version can hold");
}

bool identity_is_version(const char *text)
{
    size_t length = text ? strlen(text) : 0;
    if (length < 1 + 1 + VERSION_HEX || length >= VERSION_SIZE || text[length - VERSION_HEX - 1] != '-')
        return false;
    const char *hex = text + length - VERSION_HEX;
    char model[VERSION_SIZE];
    return strspn(hex, "0123456789abcdef") == VERSION_HEX &&
           text_print(model, sizeof model, "%.*s", (int)(length - VERSION_HEX - 1), text) &&
           text_is_name(model);
}

static void set_value(Text *out, const Json *value)
{
    text_clear(out);
    if (value)
        json_write(value, JSON_COMPACT, out);
    else
        text_add(out, "absent");
}

// `path` grows on the way down and is the answer when true comes back; it is cut back otherwise.
static bool find_difference(const Json *a, const Json *b, Text *path, Text *ret_a, Text *ret_b)
{
    if (json_same(a, b))
        return false;
    if (!json_is_object(a) || !json_is_object(b)) {
        set_value(ret_a, a);
        set_value(ret_b, b);
        return true;
    }
    const Json *both[] = {a, b};
    size_t length = path->length;
    for (size_t side = 0; side < 2; side++) {   // a's fields in order, then those only b has
        const char *key;
        for (size_t i = 0; (key = json_key_at(both[side], i)) != NULL; i++) {
            const Json *in_a = json_get(a, key), *in_b = json_get(b, key);
            if (in_a && in_b && json_same(in_a, in_b))
                continue;
            text_add_format(path, "%s%s", length ? "." : "", key);
            if (find_difference(in_a, in_b, path, ret_a, ret_b))
                return true;
            path->length = length;
            if (path->data)
                path->data[length] = '\0';
        }
    }
    return false;
}

bool identity_difference(const Json *a, const Json *b, Text *ret_field, Text *ret_a, Text *ret_b)
{
    text_clear(ret_field);
    return find_difference(a, b, ret_field, ret_a, ret_b);
}

static bool program_digest(Digest *ret_digest, Error *error)
{
    // opened by hand: /proc/self/exe is a link, which hash_file refuses to follow
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return FAIL(error, ERROR_IO, errno, "could not open the running program");
    bool good = hash_fd(fd, ret_digest, NULL, error);
    (void)close(fd);
    return good || error_prefix(error, "running program");
}

// With a module: the digest of both digests, one behind the other.
bool identity_trainer_digest(const char *module, Digest *ret_digest, Error *error)
{
    Digest both[2];
    if (!program_digest(&both[0], error))
        return false;
    if (module[0] == '\0') {
        *ret_digest = both[0];
        return true;
    }
    if (!hash_file(module, &both[1], NULL, error))
        return error_prefix(error, "module of the back end");
    hash_bytes(both, sizeof both, ret_digest);
    return true;
}
