/* One tree of lists, dictionaries, texts and numbers, written as a pickle or as JSON. In a
 * pickle, texts that the timeline owns and values that were marked are written once. */
#ifndef SW_SINK_TREE_H
#define SW_SINK_TREE_H

#include "profiler/record/json.h"
#include "profiler/inspect/pickle.h"
#include "profiler/inspect/strings.h"

typedef struct {
    bool as_json;
    sw_pickle pickle;
    sw_json json;
    sw_sink_out *out;
    swi_strings texts;          /* that are in the pickle */
    uint32_t *memos, cap_memos; /* of each, where the pickle has it */
    char buffer[4096];          /* of the JSON writer */
} swi_tree;

void swi_tree_start(swi_tree *t, sw_sink_out *out, bool as_json);
/* Gives back what the tree took and, where *status is SW_OK, ends the file; *status becomes the
 * first error of it. */
void swi_tree_stop(swi_tree *t, sw_status *status);

void swi_tree_begin(swi_tree *t, char bracket); /* '{' or '[' */
void swi_tree_end(swi_tree *t);
void swi_tree_key(swi_tree *t, const char *key); /* a literal */
/* A text that stays where and what it is until the tree is stopped. */
void swi_tree_text_kept(swi_tree *t, const char *text);
void swi_tree_text_once(swi_tree *t, const char *text);
void swi_tree_u64(swi_tree *t, uint64_t x);
void swi_tree_bool(swi_tree *t, bool x);
void swi_tree_tuple2(swi_tree *t, uint32_t a, uint32_t b);
/* After a value: lets it come again. *mark is 0 for a value that was not written yet. */
void swi_tree_mark(swi_tree *t, uint32_t *mark);
/* Writes the marked value again and says so; false: it is to be written out. */
bool swi_tree_again(swi_tree *t, uint32_t mark);

/* A key and its value. */
void swi_tree_put_u64(swi_tree *t, const char *key, uint64_t x);
void swi_tree_put_text(swi_tree *t, const char *key, const char *kept);

#endif
