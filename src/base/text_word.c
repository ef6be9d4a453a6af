// text_word - copying, comparing and naming short strings.
#include <fedgate/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool text_copy(char *to, size_t to_size, const char *from)
{
    size_t length = strlen(from);
    if (length >= to_size) {
        if (to_size > 0)
            to[0] = '\0';
        return false;
    }
    memcpy(to, from, length + 1);
    return true;
}

bool text_print(char *to, size_t to_size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(to, to_size, format, arguments);
    va_end(arguments);
    return length >= 0 && (size_t)length < to_size;
}

char *text_duplicate(const char *string)
{
    return string ? strdup(string) : NULL;
}

bool text_equal(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool text_starts_with(const char *string, const char *prefix)
{
    return strncmp(string, prefix, strlen(prefix)) == 0;
}

bool text_ends_with(const char *string, const char *suffix)
{
    size_t length = strlen(string), tail = strlen(suffix);
    return tail <= length && memcmp(string + length - tail, suffix, tail) == 0;
}

enum { DISTANCE_LIMIT = 16, DISTANCE_WORD = 64 };

static int minimum(int a, int b)
{
    return a < b ? a : b;
}

int text_distance(const char *a, const char *b)
{
    size_t rows = strlen(a), columns = strlen(b);
    if (rows > DISTANCE_WORD || columns > DISTANCE_WORD)
        return text_equal(a, b) ? 0 : DISTANCE_LIMIT;
    int cost[DISTANCE_WORD + 1][DISTANCE_WORD + 1];
    for (size_t i = 0; i <= rows; i++)
        cost[i][0] = (int)i;
    for (size_t j = 0; j <= columns; j++)
        cost[0][j] = (int)j;
    for (size_t i = 1; i <= rows; i++) {
        for (size_t j = 1; j <= columns; j++) {
            int best = minimum(cost[i - 1][j], cost[i][j - 1]) + 1;
            best = minimum(best, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = minimum(best, cost[i - 2][j - 2] + 1);
            cost[i][j] = best;
        }
    }
    return minimum(cost[rows][columns], DISTANCE_LIMIT);
}

const char *text_nearest(const char *word, const char *const *candidates, size_t count)
{
    size_t third = strlen(word) / 3;
    int best_distance = (int)(third > 2 ? third : 2) + 1;
    const char *best = NULL;
    for (size_t i = 0; i < count; i++) {
        int distance = text_distance(word, candidates[i]);
        if (distance < best_distance && distance < DISTANCE_LIMIT) {
            best_distance = distance;
            best = candidates[i];
        }
    }
    return best;
}

bool text_is_name(const char *string)
{
    if (!string)
        return false;
    size_t length = strlen(string);
    if (length == 0 || length > 64 || strstr(string, ".."))
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = string[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        bool joint = c == '.' || c == '_' || c == '-';
        if (!plain && !(joint && i > 0))
            return false;
    }
    return true;
}
