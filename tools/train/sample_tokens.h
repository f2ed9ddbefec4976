/* The tokens of `stepwell sample`: which text an id stands for, and which ids a text becomes.
 */
#ifndef STEPWELL_SAMPLE_TOKENS_H
#define STEPWELL_SAMPLE_TOKENS_H

#include "runtime/data/vocabulary.h"
#include <stdio.h>

/* How tokens write what a text has. */
typedef enum {
    SAMPLE_PLAIN,      /* as it is */
    SAMPLE_BYTE_LEVEL, /* GPT-2's: a character for each byte, U+0120 for a blank */
    SAMPLE_PIECES      /* SentencePiece's: U+2581 for a blank */
} sample_style;

typedef struct {
    swi_vocabulary vocabulary;
    const char **token; /* n, in the order of their ids */
    sample_style style;
} sample_tokens;

SW_MUST_USE sw_status sample_tokens_open(sample_tokens *tokens, const char *path);
void sample_tokens_close(sample_tokens *tokens); /* all zero is fine */
/* Call `take` with the ids of a text: at each place the longest token that the text goes on
 * with. SW_INVALID where there is none. */
SW_MUST_USE sw_status sample_tokens_encode(const sample_tokens *tokens, const char *text,
                                           void (*take)(void *context, int id), void *context);
/* The text of an id; nothing of one that has none. */
void sample_tokens_write(const sample_tokens *tokens, int id, FILE *to);

#endif
