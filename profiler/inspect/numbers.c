/* See numbers.h. */
#include "profiler/inspect/numbers.h"
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"

struct number_map_slot {
    uint64_t key;
    uint32_t next; /* the number plus one; 0: the slot is free */
};

static uint32_t home_of(const number_map *m, uint64_t key)
{
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (m->n_slots - 1);
}

/* Where the key is, or would be. */
static uint32_t slot_of(const number_map *m, uint64_t key)
{
    uint32_t i = home_of(m, key);
    while (m->slots[i].next != 0 && m->slots[i].key != key)
        i = (i + 1) & (m->n_slots - 1);
    return i;
}

uint32_t number_map_at(const number_map *m, uint64_t key)
{
    return m->n_slots == 0 ? NUMBER_MAP_NONE : m->slots[slot_of(m, key)].next - 1;
}

sw_status number_map_reserve(number_map *m, uint32_t n)
{
    const number_map old = *m;
    if ((uint64_t)old.used + n <= old.n_slots / 2)
        return SW_OK;
    if (old.n_slots > UINT32_MAX / 4)
        SW_FAIL(SW_UNSUPPORTED, "more than 2^30 addresses");
    number_map larger = {.n_slots = old.n_slots > 0 ? 2 * old.n_slots : 256, .used = old.used};
    SW_TRY(sw_heap_alloc(&larger.slots, SW_HEAP_PROFILE, larger.n_slots * sizeof *m->slots));
    for (uint32_t i = 0; i < old.n_slots; i++)
        if (old.slots[i].next != 0)
            larger.slots[slot_of(&larger, old.slots[i].key)] = old.slots[i];
    number_map_free(m);
    *m = larger;
    return SW_OK;
}

void number_map_put(number_map *m, uint64_t key, uint32_t value)
{
    uint32_t hole = slot_of(m, key);
    struct number_map_slot *s = m->slots;
    SW_ASSERT(m->used < m->n_slots);
    m->used += (value != NUMBER_MAP_NONE) - (s[hole].next != 0);
    s[hole] = (struct number_map_slot){key, value + 1};
    if (value != NUMBER_MAP_NONE)
        return;
    /* Slots after it move up, so that no search ends too early. */
    const uint32_t mask = m->n_slots - 1;
    for (uint32_t i = (hole + 1) & mask; s[i].next != 0; i = (i + 1) & mask)
        if (((i - home_of(m, s[i].key)) & mask) >= ((i - hole) & mask)) {
            s[hole] = s[i];
            s[i].next = 0;
            hole = i;
        }
}

sw_status number_map_set(number_map *m, uint64_t key, uint32_t value)
{
    SW_TRY(number_map_reserve(m, 1));
    number_map_put(m, key, value);
    return SW_OK;
}

void number_map_free(number_map *m)
{
    sw_heap_free(m->slots, SW_HEAP_PROFILE, m->n_slots * sizeof *m->slots);
    *m = (number_map){0};
}

/* ---- strings by number ------------------------------------------------------------------- */

void swi_strings_free(swi_strings *s)
{
    sw_heap_free(s->list, SW_HEAP_PROFILE, s->cap * sizeof *s->list);
    number_map_free(&s->numbers);
    *s = (swi_strings){0};
}

uint32_t swi_strings_number(swi_strings *s, const char *text)
{
    const uint32_t known = number_map_at(&s->numbers, (uintptr_t)text);
    if (s->status == SW_OK && known != NUMBER_MAP_NONE)
        return known;
    if (s->status == SW_OK)
        s->status = sw_heap_reserve(&s->list, SW_HEAP_PROFILE, &s->cap, s->n + 1);
    if (s->status == SW_OK)
        s->status = number_map_set(&s->numbers, (uintptr_t)text, s->n);
    if (s->status != SW_OK)
        return 0;
    s->list[s->n] = text;
    return s->n++;
}
