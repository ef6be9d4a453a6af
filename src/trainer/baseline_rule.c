// baseline_rule - a declared rule: clauses 'column op value -> score' separated by ';', the last 'else ->
// score'.
//
// Operators = != < <= > >=, with blanks round them; a column or value may stand in double quotes. < and >
// compare numbers; = and != compare texts, and numbers when both are. A missing value matches no clause but
// else. The first clause that matches gives the score: a probability, a class, or the value in target units.
#include "baseline_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const operators[RULE_OPERATOR_COUNT] = {
    [RULE_EQUAL] = "=", [RULE_DIFFERENT] = "!=",  [RULE_LESS] = "<",    [RULE_LESS_EQUAL] = "<=",
    [RULE_MORE] = ">",  [RULE_MORE_EQUAL] = ">=", [RULE_ELSE] = "else",
};

static bool wrong(const char *text, const char *at, const char *what, Error *error)
{
    return FAIL(error, ERROR_CONFIG, 0, "rule '%.100s' is wrong at position %zu: %s expected", text,
                (size_t)(at - text) + 1, what);
}

static const char *skip(const char *at)
{
    return at + strspn(at, " \t");
}

// A word in quotes, or all up to `end`, blanks at its end left out.
static bool take_word(const char **at, const char *end, char ret_word[static 128])
{
    const char *begin = *at;
    size_t length;
    if (*begin == '"') {
        const char *close = strchr(begin + 1, '"');
        if (!close || close > end || skip(close + 1) != skip(end))
            return false;
        length = (size_t)(close - begin - 1);
        begin++;
    } else {
        length = (size_t)(end - begin);
        while (length > 0 && isspace((unsigned char)begin[length - 1]))
            length--;
    }
    if (length == 0 || length >= 128)
        return false;
    memcpy(ret_word, begin, length);
    ret_word[length] = '\0';
    *at = end;
    return true;
}

// The next occurrence of " op " outside quotes.
static const char *find_operator(const char *at, const char *limit, RuleOperator *ret_operator)
{
    bool quoted = false;
    for (; at < limit; at++) {
        quoted ^= *at == '"';
        if (quoted || *at != ' ')
            continue;
        for (int op = 0; op < RULE_ELSE; op++) {
            size_t length = strlen(operators[op]);
            if (strncmp(at + 1, operators[op], length) == 0 && at[1 + length] == ' ') {
                *ret_operator = (RuleOperator)op;
                return at;
            }
        }
    }
    return NULL;
}

static bool parse_condition(const char *text, const char *at, const char *arrow, RuleClause *clause,
                            Error *error)
{
    if (strncmp(at, "else", 4) == 0 && skip(at + 4) == arrow) {
        clause->operator= RULE_ELSE;
        return true;
    }
    const char *operator= find_operator(at, arrow, &clause->operator);
    if (!operator)
        return wrong(text, at, "'column op value' or 'else'", error);
    if (!take_word(&at, operator, clause->column))
        return wrong(text, at, "a column", error);
    at = skip(operator + 1 + strlen(operators[clause->operator]));
    if (!take_word(&at, arrow, clause->value))
        return wrong(text, at, "a value", error);
    clause->number = NAN;
    if (!text_to_double(clause->value, &clause->number) && clause->operator>= RULE_LESS)
        return wrong(text, at, "a number", error);
    return true;
}

bool rule_parse(const char *text, Rule *ret_rule, Error *error)
{
    Rule *rule = calloc(1, sizeof *rule);
    if (!rule)
        return FAIL(error, ERROR_MEMORY, 0, "could not take memory for a rule");
    const char *at = skip(text);
    bool good = true;
    while (good && *at != '\0') {
        const char *arrow = strstr(at, "->"), *end = at + strcspn(at, ";");
        RuleClause *clause = &rule->clauses[rule->count];
        if (rule->count == RULE_CLAUSES)
            good = FAIL(error, ERROR_CONFIG, 0, "rule has more clauses than the limit of %d", RULE_CLAUSES);
        else if (!arrow || arrow > end)
            good = wrong(text, at, "'->'", error);
        else if (rule->count > 0 && rule->clauses[rule->count - 1].operator== RULE_ELSE)
            good = wrong(text, at, "the end after 'else'", error);
        else
            good = parse_condition(text, at, arrow, clause, error);
        if (!good)
            break;
        char score[128];
        const char *begin = skip(arrow + 2);
        if (!take_word(&begin, end, score) || !text_to_double(score, &clause->score))
            good = wrong(text, begin, "a score", error);
        rule->count++;
        at = *end == ';' ? skip(end + 1) : end;
    }
    if (good && (rule->count == 0 || rule->clauses[rule->count - 1].operator!= RULE_ELSE))
        good = wrong(text, at, "'else -> score' at the end", error);
    if (good)
        *ret_rule = *rule;
    free(rule);
    return good;
}

bool baseline_check_rule(const char *text, const Config *config, Error *error)
{
    Rule *rule = calloc(1, sizeof *rule);
    bool good = rule ? rule_parse(text, rule, error)
                     : FAIL(error, ERROR_MEMORY, 0, "could not take memory for a rule");
    bool binary = text_equal(config_text(config, "task"), "binary");
    for (size_t i = 0; good && i < rule->count; i++) {
        const RuleClause *clause = &rule->clauses[i];
        if (binary && !(clause->score >= 0 && clause->score <= 1))
            good = FAIL(error, ERROR_CONFIG, 0, "rule gives score %g, not a probability from 0 to 1",
                        clause->score);
        else if (clause->operator!= RULE_ELSE && config_list_has(config, "data.forbidden", clause->column))
            good = FAIL(error, ERROR_CONFIG, 0, "rule uses column '%s', which 'data.forbidden' names",
                        clause->column);
    }
    free(rule);
    return good;
}
