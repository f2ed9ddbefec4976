/* Between the files of genomes and of search spaces. */
#ifndef SW_GENOME_INTERNAL_H
#define SW_GENOME_INTERNAL_H

#include "runtime/population/evolve/genome.h"
#include <string.h>

/* ---- names ------------------------------------------------------------------------------- */

/* A table to find vertices by name. Open addressing; 0: free, else a position and 1. */
typedef struct {
    uint16_t slot[2 * SWI_MAX_VERTICES];
    uint32_t mask;
} swi_names;

/* For up to n names. */
static inline void swi_names_begin(swi_names *t, uint32_t n)
{
    t->mask = 15;
    while (t->mask < 2 * n - 1 && t->mask < 2 * SWI_MAX_VERTICES - 1)
        t->mask = t->mask << 1 | 1;
    memset(t->slot, 0, (t->mask + 1) * sizeof *t->slot);
}

/* The slot of the name, or the free one where it belongs. */
static inline uint16_t *swi_names_slot(swi_names *t, const sw_genome *g, const char *name)
{
    uint32_t h = 2166136261u;
    for (const char *c = name; *c != '\0'; c++)
        h = (h ^ (unsigned char)*c) * 16777619u;
    h ^= h >> 15;
    for (;; h++) {
        uint16_t *slot = &t->slot[h & t->mask];
        if (*slot == 0 || strcmp(g->vertices[*slot - 1].name, name) == 0)
            return slot;
    }
}

/* 1 to room - 1 letters, digits, "_" and "-", or "." where `dots`. */
static inline bool swi_name_is_one(const char *name, size_t room, bool dots)
{
    const size_t n = strnlen(name, room);
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)name[i], low = c | 32;
        if (!((low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
              (dots && c == '.')))
            return false;
    }
    return n > 0 && n < room;
}

/* ---- texts ------------------------------------------------------------------------------- */

#define SWI_GENOME_FORMAT "stepwell genome 1"
#define SWI_TEXT_MAX ((size_t)8 << 20) /* bytes of a genome's or a space's text */

/* The subjects of swi_genome_check beside the vertices, one by one. */
typedef enum {
    SWI_PART_NAME,
    SWI_PART_OPTIMIZER,
    SWI_PART_BATCH,
    SWI_PART_LOSS,
    SWI_PARTS
} swi_genome_part;
/* As swi_genome_infer, where all before `first` is known. */
sw_status swi_genome_infer_from(sw_genome *genome, uint32_t first, uint32_t *bad);
sw_status swi_genome_check_part(const sw_genome *genome, swi_genome_part part);

/* Bits of SW_SHIELD_* by name: "size" is bit 0; "all" is all of them. NULL past the end. */
const char *swi_shield_name(uint32_t bit);

#endif
