// hash - SHA-256 through libcrypto, CRC32C by table, and 64-bit mixing.
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <fedgate/hash.h>
#include <limits.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// A running SHA-256 is libcrypto's own context; a failure inside it cannot come from its input.
static EVP_MD_CTX *context_of(Hash *hash)
{
    return (EVP_MD_CTX *)hash;
}

Hash *hash_begin(void)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(context);
        return NULL;
    }
    return (Hash *)context;
}

void hash_add(Hash *hash, const void *bytes, size_t length)
{
    if (hash && length > 0 && EVP_DigestUpdate(context_of(hash), bytes, length) != 1)
        BUG("libcrypto refused %zu bytes for SHA-256", length);
}

void hash_add_string(Hash *hash, const char *string)
{
    uint64_t length = strlen(string), prefix = htole64(length);
    hash_add(hash, &prefix, sizeof prefix);
    hash_add(hash, string, length);
}

void hash_end(Hash *hash, Digest *ret_digest)
{
    *ret_digest = (Digest){{0}};
    if (hash && EVP_DigestFinal_ex(context_of(hash), ret_digest->bytes, NULL) != 1)
        BUG("libcrypto could not end a SHA-256");
    EVP_MD_CTX_free(context_of(hash));
}

void hash_abort(Hash *hash)
{
    EVP_MD_CTX_free(context_of(hash));
}

void hash_bytes(const void *bytes, size_t length, Digest *ret_digest)
{
    if (EVP_Digest(length > 0 ? bytes : "", length, ret_digest->bytes, NULL, EVP_sha256(), NULL) != 1)
        BUG("libcrypto could not compute a SHA-256");
}

void hash_hmac(const void *key, size_t key_length, const void *bytes, size_t length, Digest *ret_digest)
{
    unsigned written = 0;
    if (key_length > INT_MAX ||
        HMAC(EVP_sha256(), key_length > 0 ? key : "", (int)key_length, (const unsigned char *)bytes, length,
             ret_digest->bytes, &written) == NULL ||
        written != sizeof ret_digest->bytes)
        BUG("libcrypto could not compute an HMAC-SHA256");
}

bool hash_fd(int fd, Digest *ret_digest, uint64_t *ret_size, Error *error)
{
    enum { BLOCK_BYTES = 256 * 1024 };
    char *block = malloc(BLOCK_BYTES);
    Hash *hash = hash_begin();
    uint64_t size = 0;
    ssize_t got = -1;
    int code = ENOMEM;
    while (block && hash) {
        got = pread(fd, block, BLOCK_BYTES, (off_t)size);
        code = errno;
        if (got < 0 && code == EINTR)
            continue;
        if (got <= 0)
            break;
        hash_add(hash, block, (size_t)got);
        size += (uint64_t)got;
    }
    free(block);
    if (got < 0) {
        hash_abort(hash);
        return FAIL(error, ERROR_IO, code, "could not read the file to hash at offset %llu",
                    (unsigned long long)size);
    }
    hash_end(hash, ret_digest);
    if (ret_size)
        *ret_size = size;
    return true;
}

bool hash_file(const char *path, Digest *ret_digest, uint64_t *ret_size, Error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return FAIL(error, ERROR_IO, errno, "could not open file '%s'", path);
    struct stat status;
    bool ok = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    if (!ok)
        FAIL(error, ERROR_IO, 0, "file '%s' is not a regular file", path);
    else if (!(ok = hash_fd(fd, ret_digest, ret_size, error)))
        error_prefix(error, "file '%s'", path);
    close(fd);
    return ok;
}

void digest_hex(const Digest *digest, char ret_hex[static DIGEST_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof digest->bytes; i++) {
        ret_hex[2 * i] = digits[digest->bytes[i] >> 4];
        ret_hex[2 * i + 1] = digits[digest->bytes[i] & 15];
    }
    ret_hex[64] = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool digest_parse(const char *hex, Digest *ret_digest)
{
    Digest digest;
    if (!hex || strnlen(hex, DIGEST_HEX_SIZE) != DIGEST_HEX_SIZE - 1)
        return false;
    for (size_t i = 0; i < sizeof digest.bytes; i++) {
        int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        digest.bytes[i] = (uint8_t)(high * 16 + low);
    }
    *ret_digest = digest;
    return true;
}

bool digest_equal(const Digest *a, const Digest *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

// crc_table[k][b]: the CRC of byte b followed by k zero bytes, so that eight bytes are folded at once.
static uint32_t crc_table[8][256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void fill_crc_table(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
        crc_table[0][b] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t b = 0; b < 256; b++)
            crc_table[k][b] = (crc_table[k - 1][b] >> 8) ^ crc_table[0][crc_table[k - 1][b] & 255];
}

uint32_t hash_crc32c(uint32_t crc, const void *bytes, size_t length)
{
    pthread_once(&crc_once, fill_crc_table);
    const unsigned char *at = bytes;
    crc = ~crc;
    for (; length >= 8; at += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        word = le64toh(word) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc ^= crc_table[7 - k][(word >> (8 * k)) & 255];
    }
    for (; length > 0; at++, length--)
        crc = (crc >> 8) ^ crc_table[0][(crc ^ *at) & 255];
    return ~crc;
}

uint64_t hash_mix2(uint64_t a, uint64_t b)
{
    return hash_mix(hash_mix(a + 0x9e3779b97f4a7c15u) + b);
}

uint64_t hash_row(const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    uint64_t state = 0x6665646761746501u;
    for (size_t left = length; left > 0;) {
        size_t take = left < 8 ? left : 8;
        uint64_t word = 0;
        memcpy(&word, at, take);
        state = hash_mix2(state, le64toh(word));
        at += take;
        left -= take;
    }
    return hash_mix2(state, length);   // the length tells trailing zero bytes apart
}
