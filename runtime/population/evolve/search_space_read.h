/* Between the files that read search spaces. */
#ifndef SW_SEARCH_SPACE_READ_H
#define SW_SEARCH_SPACE_READ_H

#include "runtime/population/evolve/search_space_internal.h"
#include "runtime/population/evolve/text_read.h"

typedef struct {
    sw_search_space *space;
    uint32_t seen, depth; /* fields of the text; objects that are open */
} swi_space_reader;

/* ---- search_space_number.c ---- */

/* A number, a list of choices, or a range; of `low` to `high`. */
sw_status swi_space_read_drawn(sw_json_in *in, swi_space_reader *r, const char *field,
                               double low, double high, bool whole, swi_drawn *out);
sw_status swi_space_read_whole(sw_json_in *in, swi_space_reader *r, const char *field,
                               int64_t low, int64_t high, swi_drawn *out);
/* The word, which stands for `value`, or a size. */
sw_status swi_space_read_or_word(sw_json_in *in, swi_space_reader *r, const char *field,
                                 const char *word, double value, swi_drawn *out);

/* ---- search_space_node.c ---- */

sw_status swi_space_read_node(sw_json_in *in, swi_space_reader *r, uint32_t *out);
/* A list of nodes, as a choice; 0 where it is empty. */
sw_status swi_space_read_nodes(sw_json_in *in, swi_space_reader *r, uint32_t *out);
/* An object of nodes by name. */
sw_status swi_space_read_parts(sw_json_in *in, swi_space_reader *r);
/* One name of an activation or a list of them, as bits. */
sw_status swi_space_read_activations(sw_json_in *in, uint32_t *bits);

#endif
