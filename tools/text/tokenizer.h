/* Text to ids of tokens and back, as tokenizer.json of a Hugging Face folder says: byte-level
 * BPE, as of GPT-2, Llama 3, Qwen and SmolLM2. The ids are those of the package tokenizers.
 *
 * A tokenizer has scratch for its longest word: one thread uses it at a time. It takes some 20
 * MiB for 150,000 tokens, 40 bytes for each byte of the longest word, and where NFC changes a
 * text 9 for each byte of it. */
#pragma once

#include "alloc/base/base.h"
#include <stdbool.h>

typedef struct tokenizer tokenizer;

/* Read tokenizer.json, or a text (path is for messages; all of it is used only in the call).
 * SW_FORMAT where it is no such text; SW_UNSUPPORTED names what is not built, or what this
 * build lacks, and the way out: ids that were made elsewhere. */
SW_MUST_USE sw_status tokenizer_read(tokenizer **out, const char *path);
SW_MUST_USE sw_status tokenizer_parse(tokenizer **out, const char *text, size_t bytes,
                                      const char *path);
void tokenizer_free(tokenizer *t); /* NULL is fine */

uint32_t tokenizer_size(const tokenizer *t); /* one past the largest id */
/* The bytes of a token, which may be a part of a character; NULL: there is no such id. */
const char *tokenizer_token(const tokenizer *t, int32_t id, size_t *n);
/* The id of a token that was added to the vocabulary, such as <|im_end|>; -1: there is none. */
int32_t tokenizer_added(const tokenizer *t, const char *text, size_t n);

/* The alphabet of byte-level tokens: the character that a byte is written as, and the byte of a
 * character, -1 where it stands for none. */
int byte_character(int byte);
int character_byte(int code);

/* Begins as zeros; grows. */
typedef struct {
    int32_t *at;
    uint32_t n, cap;
} token_ids;
void token_ids_free(token_ids *ids);

/* Add the ids of a text, with a zero after its bytes, which must be UTF-8 (SW_FORMAT) of less
 * than 1 GiB.
 *
 * special   with the tokens that the file's post-processor puts around a text
 * bounds    where spans of the text begin and end, in turn: ascending, between characters
 * tokens    receives for each begin the first of `ids` that has a byte after it, for each end
 *           the first that has none before it, or their number
 *
 * On failure the ids are as before. */
SW_MUST_USE sw_status tokenizer_encode(tokenizer *t, token_ids *ids, const char *text,
                                       size_t bytes, bool special, const size_t *bounds,
                                       uint32_t *tokens, uint32_t n_bounds);

/* Text that comes id by id: `at` has whole characters of UTF-8 alone, and a zero after them. It
 * begins as zeros; the caller may take n back to 0. */
typedef struct {
    char *at;
    uint32_t n, cap;
    char held[4]; /* the begin of a character */
    uint32_t n_held;
} token_text;
void token_text_free(token_text *text);

/* Add the text of ids; `special`: with that of special tokens. Bytes that are no UTF-8 become
 * U+FFFD. SW_INVALID names an id that is not there. */
SW_MUST_USE sw_status tokenizer_decode(const tokenizer *t, token_text *out, const int32_t *ids,
                                       size_t n, bool special);
/* No more ids come: a character that has not ended is U+FFFD. */
SW_MUST_USE sw_status tokenizer_decode_end(token_text *out);
