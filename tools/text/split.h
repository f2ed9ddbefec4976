/* Patterns that cut a text into words, by PCRE2 with Unicode's properties. */
#pragma once

#include "alloc/base/base.h"

typedef struct splitter splitter;

/* SW_FORMAT: `path` has a pattern that PCRE2 refuses; SW_UNSUPPORTED: this build lacks PCRE2.
 */
SW_MUST_USE sw_status splitter_new(splitter **out, const char *pattern, size_t bytes,
                                   const char *path);
void splitter_free(splitter *s); /* NULL is fine */

/* The first match of [text + from, text + bytes), which is UTF-8; *begin is `bytes` where there
 * is none. SW_UNSUPPORTED where the pattern takes too long. */
SW_MUST_USE sw_status splitter_next(const splitter *s, const char *text, size_t bytes,
                                    size_t from, size_t *begin, size_t *end);
