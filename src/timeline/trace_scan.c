// trace_scan - over the bytes of a trace, 64 at a time: where a value ends, where a string ends.
//
// The bits of a block say where quotes, backslashes and brackets are; a running exclusive or over the quotes
// marks what lies inside strings (Langdale and Lemire, "Parsing gigabytes of JSON per second", 2019). A block
// with a backslash is walked byte by byte.
#include "trace_internal.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { BLOCK = 64 };
typedef struct BlockBits {
    uint64_t quote, backslash, open, close;
} BlockBits;

#ifdef __SSE2__
static BlockBits block_bits(const char *from)
{
    BlockBits bits = {0};
    for (int i = 0; i < BLOCK; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        __m128i folded =
            _mm_or_si128(bytes, _mm_set1_epi8(0x20));   // [ and { differ by this bit, ] and } too
        bits.quote |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'))) << i;
        bits.backslash |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')))
                          << i;
        bits.open |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(folded, _mm_set1_epi8('{'))) << i;
        bits.close |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(folded, _mm_set1_epi8('}'))) << i;
    }
    return bits;
}
#else
static BlockBits block_bits(const char *from)
{
    BlockBits bits = {0};
    for (int i = 0; i < BLOCK; i++) {
        char folded = (char)(from[i] | 0x20);
        bits.quote |= (uint64_t)(from[i] == '"') << i;
        bits.backslash |= (uint64_t)(from[i] == '\\') << i;
        bits.open |= (uint64_t)(folded == '{') << i;
        bits.close |= (uint64_t)(folded == '}') << i;
    }
    return bits;
}
#endif

// Bit i of the result: an odd number of bits at or below i is set.
static uint64_t running_parity(uint64_t bits)
{
    for (int shift = 1; shift < BLOCK; shift *= 2) {
        bits ^= bits << shift;
    }
    return bits;
}

// Byte by byte; NULL: the value goes on behind `end`.
static const char *skip_slowly(ScanSkip *skip, const char *from, const char *end)
{
    for (; from < end; from++) {
        char c = *from;
        if (skip->escaped) {
            skip->escaped = false;
        } else if (skip->in_string) {
            skip->escaped = c == '\\';
            skip->in_string = c != '"';
        } else if (c == '"') {
            skip->in_string = true;
        } else if (c == '{' || c == '[') {
            skip->depth++;
        } else if ((c == '}' || c == ']') && --skip->depth == 0) {
            return from + 1;
        }
    }
    return NULL;
}

const char *scan_skip(ScanSkip *skip, const char *from, const char *end)
{
    while (end - from >= BLOCK) {
        BlockBits bits = block_bits(from);
        const char *closed = NULL;
        if (bits.backslash != 0 || skip->escaped) {
            closed = skip_slowly(skip, from, from + BLOCK);
            if (closed != NULL) {
                return closed;
            }
            from += BLOCK;
            continue;
        }
        uint64_t inside = running_parity(bits.quote) ^ (skip->in_string ? ~UINT64_C(0) : 0);
        for (uint64_t brackets = (bits.open | bits.close) & ~inside; brackets != 0;
             brackets &= brackets - 1) {
            int at = __builtin_ctzll(brackets);
            if ((bits.open >> at & 1) != 0) {
                skip->depth++;
            } else if (--skip->depth == 0) {
                skip->in_string = false;
                return from + at + 1;
            }
        }
        skip->in_string = inside >> (BLOCK - 1) != 0;
        from += BLOCK;
    }
    return skip_slowly(skip, from, end);
}

const char *scan_string(const char *from, const char *end, bool *ret_escaped)
{
    *ret_escaped = false;
    while (from < end) {
#ifdef __SSE2__
        while (end - from >= 16) {
            __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)from);
            __m128i found = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                         _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
            int mask = _mm_movemask_epi8(found);
            if (mask != 0) {
                from += __builtin_ctz((unsigned)mask);
                break;
            }
            from += 16;
        }
#endif
        while (from < end && *from != '"' && *from != '\\') {
            from++;
        }
        if (from >= end || *from == '"') {
            break;
        }
        *ret_escaped = true;
        from += 2;   // the backslash and what it escapes
    }
    return from < end ? from : NULL;
}

const char *scan_blanks(const char *from, const char *end)
{
    while (from < end && (*from == ' ' || *from == '\n' || *from == '\t' || *from == '\r')) {
        from++;
    }
    return from;
}
