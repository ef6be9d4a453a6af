// text_internal - what base modules share about UTF-8.
#ifndef FEDGATE_BASE_TEXT_INTERNAL_H
#define FEDGATE_BASE_TEXT_INTERNAL_H

#include <fedgate/text.h>

// Bytes of the well-formed UTF-8 sequence at `string` (NUL-terminated), or 0 when there is none.
size_t text_sequence_length(const char *string);

// Appends `string` with only its ill-formed bytes as \xHH.
void text_add_valid(Text *text, const char *string);

#endif
