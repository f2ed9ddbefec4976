/* Texts by a hash. */
#include "alloc/base/map.h"
#include "alloc/base/assert.h"
#include "alloc/base/hash.h"
#include <string.h>

/* The slot of the text, or the free one where it would be. */
static sw_map_slot *slot_of(const sw_map *map, const char *text, size_t n)
{
    const uint64_t hash = sw_fnv64(SW_FNV64, text, n);
    for (uint64_t at = hash ^ hash >> 32;; at++) {
        sw_map_slot *slot = &map->slots[at & (map->n_slots - 1)];
        if (slot->text == NULL || (slot->n == n && memcmp(slot->text, text, n) == 0))
            return slot;
    }
}

sw_status sw_map_room(sw_map *map, sw_heap heap, uint32_t n)
{
    sw_map larger = {NULL, 8, map->n};
    SW_ASSERT(n <= UINT32_MAX / 4);
    while (larger.n_slots < 2 * n)
        larger.n_slots *= 2;
    if (larger.n_slots <= map->n_slots)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&larger.slots, heap, larger.n_slots * sizeof *larger.slots));
    for (uint32_t i = 0; i < map->n_slots; i++)
        if (map->slots[i].text != NULL)
            *slot_of(&larger, map->slots[i].text, map->slots[i].n) = map->slots[i];
    sw_map_free(map, heap);
    *map = larger;
    return SW_OK;
}

bool sw_map_add(sw_map *map, const char *text, size_t n, uint32_t thing)
{
    SW_ASSERT(2 * map->n < map->n_slots && n <= UINT32_MAX);
    sw_map_slot *slot = slot_of(map, text, n);
    if (slot->text != NULL)
        return false;
    *slot = (sw_map_slot){text, (uint32_t)n, thing};
    map->n++;
    return true;
}

const sw_map_slot *sw_map_find(const sw_map *map, const char *text, size_t n)
{
    const sw_map_slot *slot = map->n > 0 ? slot_of(map, text, n) : NULL;
    return slot != NULL && slot->text != NULL ? slot : NULL;
}

void sw_map_clear(sw_map *map)
{
    if (map->n > 0)
        memset(map->slots, 0, map->n_slots * sizeof *map->slots);
    map->n = 0;
}

void sw_map_free(sw_map *map, sw_heap heap)
{
    sw_heap_free(map->slots, heap, map->n_slots * sizeof *map->slots);
    *map = (sw_map){NULL, 0, 0};
}
