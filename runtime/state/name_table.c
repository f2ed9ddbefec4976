#include "runtime/state/name_table.h"
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include <string.h>

static uint32_t hash_of(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3ull;
    return (uint32_t)(hash ^ hash >> 32);
}

sw_status swi_names_room(swi_name_table *t, uint32_t n, bool *emptied)
{
    uint32_t places = 4;
    void *block;
    SW_ASSERT(n <= UINT32_MAX / 4);
    while (places < 2 * n)
        places *= 2;
    *emptied = places > t->n_places;
    if (!*emptied)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, places * sizeof *t->places));
    swi_names_free(t);
    *t = (swi_name_table){block, places};
    return SW_OK;
}

void swi_names_clear(swi_name_table *t)
{
    if (t->n_places > 0)
        memset(t->places, 0, t->n_places * sizeof *t->places);
}

void swi_names_free(swi_name_table *t)
{
    sw_heap_free(t->places, SW_HEAP_FILES, t->n_places * sizeof *t->places);
    *t = (swi_name_table){0};
}

/* The place of the name, or the empty one where it would be. */
static uint32_t place_of(const swi_name_table *t, const char *name, swi_name_of *name_of,
                         const void *owner)
{
    uint32_t at = hash_of(name) & (t->n_places - 1);
    while (t->places[at] != 0 && strcmp(name_of(owner, t->places[at] - 1), name) != 0)
        at = (at + 1) & (t->n_places - 1);
    return at;
}

bool swi_names_add(swi_name_table *t, uint32_t i, swi_name_of *name_of, const void *owner)
{
    SW_ASSERT(t->n_places > 0);
    const uint32_t at = place_of(t, name_of(owner, i), name_of, owner);
    if (t->places[at] != 0)
        return false;
    t->places[at] = i + 1;
    return true;
}

uint32_t swi_names_find(const swi_name_table *t, const char *name, swi_name_of *name_of,
                        const void *owner)
{
    return t->n_places > 0 ? t->places[place_of(t, name, name_of, owner)] - 1 : UINT32_MAX;
}
