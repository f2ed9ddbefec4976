/* Texts and the numbers of what has them, found by a hash in whatever order they come. The map
 * has no text of its own: each must stay where it is. */
#pragma once

#include "alloc/base/mem.h"

typedef struct {
    const char *text; /* of n bytes; NULL: free */
    uint32_t n, thing;
} sw_map_slot;

/* Begins as zeros: no texts, and no room for any. Open addressing, at most half full. */
typedef struct {
    sw_map_slot *slots;
    uint32_t n_slots, n; /* a power of two; texts */
} sw_map;

/* Room for n texts, which are then added without a failure. */
SW_MUST_USE sw_status sw_map_room(sw_map *map, sw_heap heap, uint32_t n);
/* False, and nothing is added, where the text is there. There must be room. */
bool sw_map_add(sw_map *map, const char *text, size_t n, uint32_t thing);
/* NULL: it is not there. Valid until the next text is added. */
const sw_map_slot *sw_map_find(const sw_map *map, const char *text, size_t n);
void sw_map_clear(sw_map *map);
void sw_map_free(sw_map *map, sw_heap heap);
