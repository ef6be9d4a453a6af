// hash.h - SHA-256 digests, CRC32C for framing, and 64-bit mixing for stable splits and orders.
#ifndef FEDGATE_HASH_H
#define FEDGATE_HASH_H

#include <fedgate/error.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Digest { uint8_t bytes[32]; } Digest;   // SHA-256
enum { DIGEST_HEX_SIZE = 65 };                         // 64 hex digits and NUL

typedef struct Hash Hash;   // a running SHA-256

Hash *hash_begin(void);                                     // NULL when out of memory
void hash_add(Hash *hash, const void *bytes, size_t length);
// Length-prefixed (u64 LE), so "ab","c" differs from "a","bc".
void hash_add_string(Hash *hash, const char *string);
// Frees the running state; NULL hash gives an all-zero digest.
void hash_end(Hash *hash, Digest *ret_digest);
void hash_abort(Hash *hash);

void hash_bytes(const void *bytes, size_t length, Digest *ret_digest);
// HMAC-SHA256 (RFC 2104).
void hash_hmac(const void *key, size_t key_length, const void *bytes, size_t length, Digest *ret_digest);
// Whole file through one descriptor (opened O_NOFOLLOW); ret_size may be NULL. ERROR_IO, path named.
WARN_UNUSED bool hash_file(const char *path, Digest *ret_digest, uint64_t *ret_size, Error *error);
// From offset 0, by pread.
WARN_UNUSED bool hash_fd(int fd, Digest *ret_digest, uint64_t *ret_size, Error *error);

void digest_hex(const Digest *digest, char ret_hex[static DIGEST_HEX_SIZE]);
bool digest_parse(const char *hex, Digest *ret_digest);   // exactly 64 lower-case hex digits
bool digest_equal(const Digest *a, const Digest *b);

uint32_t hash_crc32c(uint32_t crc, const void *bytes, size_t length);   // Castagnoli; start with 0

// splitmix64 finaliser: a bijection on 64 bits. hash_mix2(a, b) mixes an ordered pair.
static inline uint64_t hash_mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}
uint64_t hash_mix2(uint64_t a, uint64_t b);
uint64_t hash_row(const void *bytes, size_t length);   // stable 64-bit content id of a record; fixed for ever

#endif
