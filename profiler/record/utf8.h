/* UTF-8: what is well formed, and text that is safe to print. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the well-formed sequence at s (no overlong forms, surrogates or codes past
 * U+10FFFF), 0 when there is none. The terminating zero is no continuation, so this stops at
 * the end. */
size_t sw_utf8_sequence(const char *s);
/* Whether all of a text is such sequences. */
bool sw_utf8_whole(const char *s);
/* `from` without control characters and broken sequences: each such byte becomes a question
 * mark. Cut between characters where `to` has no room for all; `bytes` counts the zero. */
void sw_utf8_clean(char *to, size_t bytes, const char *from);
