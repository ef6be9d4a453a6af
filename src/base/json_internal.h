// json_internal - the one way in to jansson: a Json is jansson's json_t, and out of memory ends the process.
#ifndef FEDGATE_BASE_JSON_INTERNAL_H
#define FEDGATE_BASE_JSON_INTERNAL_H

#include <jansson.h>
// jansson has macros of the names below; ours are functions and enum values.
#undef json_is_object
#undef json_is_array
#undef json_is_integer
#undef json_is_number
#undef json_is_null
#undef JSON_COMPACT
#include <fedgate/json.h>

static inline json_t *json_tree(const Json *value)
{
    return (json_t *)value;
}

// The value, or the end of the process with code 70 when jansson found no memory for it.
json_t *json_need(json_t *value);

#endif
