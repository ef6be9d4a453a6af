// random - keyed counters through the splitmix64 finaliser, and a keyed permutation.
#include <fedgate/hash.h>
#include <fedgate/random.h>
#include <math.h>

enum { ROUNDS = 6 };   // of a pass of a permutation
static const uint64_t golden = 0x9e3779b97f4a7c15u;

uint64_t random_bits(uint64_t key, uint64_t counter)
{
    return hash_mix(hash_mix(key + golden) + counter * golden);
}

double random_unit(uint64_t key, uint64_t counter)
{
    return (double)(random_bits(key, counter) >> 11) * 0x1p-53;
}

double random_normal(uint64_t key, uint64_t counter)
{
    double radius = sqrt(-2.0 * log(1.0 - random_unit(key, 2 * counter)));   // 1 - u is in (0, 1]
    return radius * cos(6.283185307179586 * random_unit(key, 2 * counter + 1));
}

void permutation_init(Permutation *permutation, uint64_t count, uint64_t key)
{
    unsigned bits = 0;
    while (bits < 64 && count > 0 && ((count - 1) >> bits) > 0)
        bits++;
    *permutation = (Permutation){.count = count, .key = hash_mix(key + golden), .bits = bits};
}

// One pass is a bijection of 0..2^bits-1: each round changes one half by a function of the other half only.
static uint64_t scramble(const Permutation *permutation, uint64_t value)
{
    unsigned low_bits = permutation->bits / 2, high_bits = permutation->bits - low_bits;
    uint64_t low_mask = (UINT64_C(1) << low_bits) - 1, high_mask = (UINT64_C(1) << high_bits) - 1;
    uint64_t low = value & low_mask, high = (value >> low_bits) & high_mask;
    for (uint64_t round = 0; round < ROUNDS; round += 2) {
        high ^= hash_mix(permutation->key + round * golden + low) & high_mask;
        low ^= hash_mix(permutation->key + (round + 1) * golden + high) & low_mask;
    }
    return high << low_bits | low;
}

uint64_t permutation_at(const Permutation *permutation, uint64_t position)
{
    // Walking the cycle until it comes back below count restricts the bijection to 0..count-1; fewer than two
    // passes on average, because 2^bits < 2 * count.
    do
        position = scramble(permutation, position);
    while (position >= permutation->count);
    return position;
}

// The same bits on each instruction set; sanitizers cannot run what chooses one before main.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "default"), optimize("O3")))
#else
#define CLONES
#endif

// One pass of many values: round by round, so that the long chain of one value hides behind the others.
CLONES static void scramble_all(const Permutation *permutation, size_t count, uint64_t *values)
{
    const unsigned low_bits = permutation->bits / 2;
    const uint64_t low_mask = (UINT64_C(1) << low_bits) - 1,
                   high_mask = ((UINT64_C(1) << (permutation->bits - low_bits)) - 1) << low_bits;
    for (uint64_t round = 0; round < ROUNDS; round += 2) {
        const uint64_t to_high = permutation->key + round * golden, to_low = to_high + golden;
        for (size_t i = 0; i < count; i++)
            values[i] ^= hash_mix(to_high + (values[i] & low_mask)) << low_bits & high_mask;
        for (size_t i = 0; i < count; i++)
            values[i] ^= hash_mix(to_low + (values[i] >> low_bits)) & low_mask;
    }
}

void permutation_range(const Permutation *permutation, uint64_t first, size_t rows, uint32_t *ret_index)
{
    enum { STRIP = 256 };
    for (size_t begin = 0; begin < rows; begin += STRIP) {
        uint64_t values[STRIP];
        uint32_t place[STRIP];   // of a value that walks on
        size_t walking = rows - begin < STRIP ? rows - begin : STRIP;
        for (size_t i = 0; i < walking; i++) {
            values[i] = first + begin + i;
            place[i] = (uint32_t)i;
        }
        while (walking > 0) {
            scramble_all(permutation, walking, values);
            size_t left = 0;
            for (size_t i = 0; i < walking; i++) {   // no branch: which values walk on cannot be foretold
                const uint64_t value = values[i];
                ret_index[begin + place[i]] = (uint32_t)value;
                values[left] = value;
                place[left] = place[i];
                left += value >= permutation->count;
            }
            walking = left;
        }
    }
}
