/* The parts of a tokenizer, for its reader and its two directions. */
#pragma once

#include "alloc/base/map.h"
#include "tools/text/split.h"
#include "tools/text/tokenizer.h"

#define TOKEN_NONE UINT32_MAX
#define STAGES_MAX 8 /* patterns of a tokenizer, and special tokens on each side of a text */

typedef struct {
    const char *text; /* bytes; NULL: no token has this id */
    uint32_t n;
    bool special;
} token;

/* A token that is found in the text before it is split. */
typedef struct {
    const char *text;
    uint32_t n, id;
    bool single_word, lstrip, rstrip;
} added_token;

typedef struct {
    added_token *at; /* ordered by text */
    uint32_t n, cap;
} added_tokens;

typedef struct {
    uint64_t pair; /* left << 32 | right; UINT64_MAX: free */
    uint32_t rank, id;
} merge;

typedef struct {
    uint32_t id, n;        /* n: its bytes; 0: it is a part of the one before */
    uint32_t before, next; /* TOKEN_NONE: none */
} symbol;

/* Two neighbours that may become one: the lowest rank comes first, then the first place. */
typedef struct {
    uint32_t rank, at, id;
} pair;

struct tokenizer {
    char *texts; /* of all tokens */
    size_t texts_bytes;
    token *tokens; /* by id */
    uint32_t n_tokens, cap_tokens;
    sw_map vocabulary;     /* ids by bytes */
    uint32_t of_byte[256]; /* TOKEN_NONE: there is no such token */
    merge *merges;
    uint32_t n_merges; /* a power of two */
    bool whole_words;  /* `ignore_merges`: a word that is a token needs none */
    bool nfc;
    bool prefix_space;            /* the last stage puts a blank before a piece that has none */
    splitter *stages[STAGES_MAX]; /* NULL: it cuts nothing */
    uint32_t n_stages;
    added_tokens raw, normal; /* found before and after the text is normalized */
    splitter *word;           /* a character of words, which single_word asks; or NULL */
    uint32_t before[STAGES_MAX], after[STAGES_MAX]; /* special tokens around a text */
    uint32_t n_before, n_after;

    /* Scratch of encoding. */
    symbol *symbols;
    pair *pairs;
    char *normalized, *prefixed;
    int32_t *codes;
    uint32_t cap_symbols, cap_pairs, cap_normalized, cap_prefixed, cap_codes;
};

/* The slot of a pair, or the free one where it would be. */
merge *tokenizer_merge_slot(const tokenizer *t, uint64_t of);

/* Bytes of the blank (White_Space) at text, of `bytes`; 0: it is another character. */
size_t text_blank(const char *text, size_t bytes);
/* Where the character before text + at begins; at > 0. */
size_t text_back(const char *text, size_t at);

/* NFC: *out is `text` itself where nothing changes, else scratch of t. */
SW_MUST_USE sw_status tokenizer_normalize(tokenizer *t, const char *text, size_t bytes,
                                          const char **out, size_t *out_bytes);
