/* Where the live blocks of the heap were taken: which line of the source holds how much.
 * Off until it is switched on. While it is off a block costs nothing; no block has a header.
 * Blocks that were taken before are not counted. Thread-safe. */
#pragma once

#include "alloc/base/mem.h"

typedef struct {
    const char *at; /* "runtime/exec/exec.c:91", from the root of the source; never freed */
    sw_heap heap;
    uint64_t blocks; /* live now */
    size_t bytes;    /* live now, as asked for */
} sw_alloc_site;

#define SW_SITES_MAX 768 /* lines that take blocks; there are some three hundred */

/* Begin and end nest: the first begin starts with nothing noted, the last end forgets all. */
SW_MUST_USE sw_status sw_sites_begin(void);
void sw_sites_end(void);

/* False where there is no such site. Blocks that found no room in the notes are in the counts
 * of the heap alone. */
bool sw_sites_read(uint32_t i, sw_alloc_site *out);

/* For the table of mem.h: a block is there; a block goes, still owned by the caller. */
bool swi_sites_on(void);
