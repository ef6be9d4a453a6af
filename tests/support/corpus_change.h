// corpus_change - a stored night made into another one: changes of evidence by path.
//
// A path is dotted; behind a key, [3] [-1] [*] [a:b] [a:b:stride] take entries of an array (as in Python),
// [key=value] or [key=value&key=value] the objects that have these texts. A change is one object: `at` and
// one operation,
//   value X      in place of what is there          new X      a member that is not there yet
//   factor X     numbers times X, integers stay so  add X      numbers plus X
//   ramp X       the i-th one taken plus i times X  remove true
//   append X     one more entry                     copy PATH  what one other place holds
//   share {of PATH, factor X}   X times the entry of the same index of another array
// and is refused when it takes nothing: a misspelt path would be a night that proves nothing.
#ifndef FEDGATE_TESTS_CORPUS_CHANGE_H
#define FEDGATE_TESTS_CORPUS_CHANGE_H

#include <fedgate/json.h>

// ERROR_DATA: no path, an unknown operation, nothing taken. The evidence itself is left alone.
WARN_UNUSED Json *corpus_change(const Json *evidence, const Json *change, Error *error);
// All of an array of them, in order.
WARN_UNUSED Json *corpus_changes(const Json *evidence, const Json *changes, Error *error);
// The same from texts: `operation` "value", "remove"..., `argument` JSON.
WARN_UNUSED Json *corpus_change_text(const Json *evidence, const char *path, const char *operation,
                                     const char *argument, Error *error);

// What one path leads to; NULL when that is nothing, or several things.
const Json *corpus_find(const Json *evidence, const char *path);

// Every path below `value` that one change may take away: members of objects (also whole sections), and of an
// array the first, the middle and the last entry.
typedef void (*CorpusVisit)(void *context, const char *path, const Json *value);
void corpus_walk(const Json *value, CorpusVisit visit, void *context);

#endif
