/* A tokenizer.json of 256 bytes, some merges and some added tokens. */
#ifndef SW_TESTS_SMALL_TOKENIZER_H
#define SW_TESTS_SMALL_TOKENIZER_H

#include "tests/support/made.h"
#include "tools/text/chat.h"

#define NEEDS_PCRE2()                                                                          \
    if (!SW_HAVE_PCRE2)                                                                        \
    SW_SKIP("built without pcre2")

#define LLAMA3_PATTERN                                                                         \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| "     \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

/* Parts of the file as JSON; NULL: as GPT-2 has it. */
typedef struct {
    const char *normalizer, *pre_tokenizer, *post_processor, *added, *model;
    bool old_merges; /* "a b" */
} small_parts;

/* Ids are bytes, then merges: he 256, ll 257, hell 258, hello 259, or 260, ld 261, orld 262,
 * " w" 263, " world" 264, "12" 265, two newlines 266, "ab" 267, "bc" 268; "<x>" 300 is added,
 * special, and what `added` has. */
enum {
    HE = 256,
    LL,
    HELL,
    HELLO,
    OR,
    LD,
    ORLD,
    SPACE_W,
    WORLD,
    ONE_TWO,
    LINES,
    AB,
    BC,
    X = 300
};
char *small_text(const small_parts *parts); /* a sw_textf */
/* Ends with the test. */
tokenizer *small_tokenizer(const small_parts *parts);

/* "259 264": the ids of a text. */
const char *ids_text(tokenizer *t, const char *text, bool special);

#endif
