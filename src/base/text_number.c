// text_number - numbers to and from text, the same for every locale: the program never calls setlocale.
#include <errno.h>
#include <fedgate/text.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool text_to_int64(const char *string, int64_t *ret_value)
{
    if (!string)
        return false;
    const char *digits = string + (*string == '-' || *string == '+');
    if (*digits == '\0' || digits[strspn(digits, "0123456789")] != '\0')
        return false;
    errno = 0;
    long long value = strtoll(string, NULL, 10);
    if (errno != 0)
        return false;
    *ret_value = value;
    return true;
}

bool text_to_double(const char *string, double *ret_value)
{
    // strtod would also take blanks, hex, "nan" and "infinity": only plain decimal characters may reach it.
    if (!string || *string == '\0' || string[strspn(string, "+-.0123456789eE")] != '\0')
        return false;
    char *end = NULL;
    double value = strtod(string, &end);
    if (end == string || *end != '\0' || !isfinite(value))
        return false;
    *ret_value = value;
    return true;
}

void text_from_double(char to[static 32], double value)
{
    if (isnan(value)) {
        memcpy(to, "nan", 4);
        return;
    }
    if (isinf(value)) {
        snprintf(to, 32, "%s", value > 0 ? "inf" : "-inf");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(to, 32, "%.*g", digits, value);
        double again = strtod(to, NULL);
        if (memcmp(&again, &value, sizeof value) == 0)
            return;
    }
}

void text_from_count(char to[static 32], int64_t value)
{
    char digits[24];
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    snprintf(digits, sizeof digits, "%" PRIu64, size);
    size_t count = strlen(digits), out = 0;
    if (value < 0)
        to[out++] = '-';
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            to[out++] = ',';
        to[out++] = digits[i];
    }
    to[out] = '\0';
}
