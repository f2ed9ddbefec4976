/* A key that was taken out keeps its slot: keys of traces come again. */
#include "profiler/inspect/replan/number_map.h"
#include "alloc/base/mem.h"

struct number_map_slot {
    uint64_t key;
    uint32_t value, used;
};

static struct number_map_slot *slot_of(const number_map *m, uint64_t key)
{
    uint32_t i = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (m->n_slots - 1);
    while (m->slots[i].used != 0 && m->slots[i].key != key)
        i = (i + 1) & (m->n_slots - 1);
    return &m->slots[i];
}

uint32_t number_map_at(const number_map *m, uint64_t key)
{
    if (m->n_slots == 0)
        return NUMBER_MAP_NONE;
    const struct number_map_slot *s = slot_of(m, key);
    return s->used != 0 ? s->value : NUMBER_MAP_NONE;
}

static sw_status grow(number_map *m)
{
    const number_map old = *m;
    if (old.n_slots > UINT32_MAX / 4)
        SW_FAIL(SW_UNSUPPORTED, "more than 2^30 addresses");
    m->n_slots = old.n_slots > 0 ? 2 * old.n_slots : 256;
    if (sw_heap_alloc(&m->slots, SW_HEAP_PROFILE, m->n_slots * sizeof *m->slots) != SW_OK) {
        *m = old;
        return SW_NOMEM;
    }
    m->used = 0;
    for (uint32_t i = 0; i < old.n_slots; i++)
        if (old.slots[i].used != 0 && old.slots[i].value != NUMBER_MAP_NONE) {
            *slot_of(m, old.slots[i].key) = old.slots[i];
            m->used++;
        }
    sw_heap_free(old.slots, SW_HEAP_PROFILE, old.n_slots * sizeof *old.slots);
    return SW_OK;
}

sw_status number_map_set(number_map *m, uint64_t key, uint32_t value)
{
    if (m->used >= m->n_slots / 2)
        SW_TRY(grow(m));
    struct number_map_slot *s = slot_of(m, key);
    m->used += s->used == 0;
    *s = (struct number_map_slot){key, value, 1};
    return SW_OK;
}

void number_map_free(number_map *m)
{
    sw_heap_free(m->slots, SW_HEAP_PROFILE, m->n_slots * sizeof *m->slots);
    *m = (number_map){0};
}
