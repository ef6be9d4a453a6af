// random - keyed counters through the splitmix64 finaliser, and a keyed permutation.
#include <fedgate/hash.h>
#include <fedgate/random.h>
#include <math.h>

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
    enum { ROUNDS = 6 };
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
