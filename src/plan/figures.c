// figures - numbers as people write them in a plan: GB = 1e9 bytes, in integers to the last digit.
#include "plan_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int64_t from, bytes;
    int decimals;
    const char *name;
} units[] = {
    {100000000, 1000000000, 9, "GB"},
    {100000, 1000000, 6, "MB"},
    {1000, 1000, 3, "kB"},
    {0, 1, 0, "B"},
};

static size_t unit_of(uint64_t bytes)
{
    size_t i = 0;
    while (bytes < (uint64_t)units[i].from)
        i++;
    return i;
}

void plan_exact_bytes(char to[static FIGURE_SIZE], int64_t bytes)
{
    uint64_t size = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
    size_t unit = unit_of(size);
    uint64_t whole = size / (uint64_t)units[unit].bytes, rest = size % (uint64_t)units[unit].bytes;
    char digits[16] = "";
    if (rest)
        (void)snprintf(digits, sizeof digits, ".%0*" PRIu64, units[unit].decimals, rest);
    for (size_t length = strlen(digits); length && digits[length - 1] == '0'; length--)
        digits[length - 1] = '\0';
    (void)snprintf(to, FIGURE_SIZE, "%s%" PRIu64 "%s %s", bytes < 0 ? "-" : "", whole, digits,
                   units[unit].name);
}

void plan_round_bytes(char to[static FIGURE_SIZE], int64_t bytes)
{
    uint64_t size = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
    size_t unit = unit_of(size);
    uint64_t hundredth = (uint64_t)units[unit].bytes / 100;
    if (hundredth == 0) {
        plan_exact_bytes(to, bytes);
        return;
    }
    uint64_t count = size / hundredth + (size % hundredth >= (hundredth + 1) / 2);
    (void)snprintf(to, FIGURE_SIZE, "%s%" PRIu64 ".%02d %s", bytes < 0 ? "-" : "", count / 100,
                   (int)(count % 100), units[unit].name);
}

void plan_compared_bytes(char to[static FIGURE_SIZE], int64_t bytes, int64_t limit)
{
    const int64_t apart = 10 * 1000 * 1000;   // 0.01 GB; nearer, two decimals could show both as one figure
    int64_t off;
    if (!__builtin_sub_overflow(bytes, limit, &off) && off < apart && off > -apart)
        plan_exact_bytes(to, bytes);
    else
        plan_round_bytes(to, bytes);
}

void plan_number(char to[static FIGURE_SIZE], double value)
{
    (void)snprintf(to, FIGURE_SIZE, "%.6g", value);
}

void plan_rate(char to[static FIGURE_SIZE], double value, const char *unit)
{
    static const struct {
        double factor;
        const char *prefix;
    } prefixes[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1, ""}};
    size_t i = 0;
    while (i + 1 < sizeof prefixes / sizeof prefixes[0] && !(value >= prefixes[i].factor))
        i++;
    (void)snprintf(to, FIGURE_SIZE, "%.6g %s%s", value / prefixes[i].factor, prefixes[i].prefix, unit);
}
