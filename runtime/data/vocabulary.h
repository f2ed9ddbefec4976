/* Files of vocabularies: which token an id stands for. */
#ifndef SW_DATA_VOCABULARY_H
#define SW_DATA_VOCABULARY_H

#include "runtime/data/data_internal.h"

typedef struct {
    int64_t n;
    char *text; /* the tokens in the order of their ids, each ended by a zero byte */
    size_t used, room;
} swi_vocabulary;

/* Read PATH, or PATH.gz: a JSON object {token: id} with every id from 0 on once, where it
 * begins with '{'; else a token in each line. On failure nothing is kept. */
SW_MUST_USE sw_status swi_vocabulary_read(swi_vocabulary *out, const char *path,
                                          size_t unpack_bytes);
void swi_vocabulary_free(swi_vocabulary *vocabulary); /* all zero is fine */

#endif
