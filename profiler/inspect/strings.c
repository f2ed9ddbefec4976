/* Strings by number. */
#include "profiler/inspect/strings.h"
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include <string.h>

void swi_strings_free(swi_strings *s)
{
    sw_heap_free(s->list, SW_HEAP_PROFILE, s->cap * sizeof *s->list);
    sw_heap_free(s->slots, SW_HEAP_PROFILE, s->n_slots * sizeof *s->slots);
    *s = (swi_strings){0};
}

static uint32_t *slot_of(const swi_strings *s, const char *text)
{
    uint64_t hash = (uint64_t)(uintptr_t)text * 0x9e3779b97f4a7c15u;
    SW_ASSERT(s->n_slots > 0 && (s->n_slots & (s->n_slots - 1)) == 0);
    SW_ASSERT(s->n < s->n_slots);
    for (uint32_t at = (uint32_t)(hash >> 32);; at++) {
        uint32_t *slot = &s->slots[at & (s->n_slots - 1)];
        if (*slot == 0 || s->list[*slot - 1] == text)
            return slot;
    }
}

static sw_status enter(swi_strings *s, const char *text, uint32_t *number)
{
    if (s->n >= s->n_slots / 2) {
        /* Twice the places; all strings move. */
        const uint32_t n = s->n_slots == 0 ? 1024 : s->n_slots * 2;
        if (n < s->n_slots)
            SW_FAIL(SW_NOMEM, "%u strings are too many", s->n);
        void *room = NULL;
        SW_TRY(sw_heap_alloc(&room, SW_HEAP_PROFILE, n * sizeof *s->slots));
        memset(room, 0, n * sizeof *s->slots);
        sw_heap_free(s->slots, SW_HEAP_PROFILE, s->n_slots * sizeof *s->slots);
        s->slots = room;
        s->n_slots = n;
        for (uint32_t i = 0; i < s->n; i++)
            *slot_of(s, s->list[i]) = i + 1;
    }
    uint32_t *slot = slot_of(s, text);
    if (*slot == 0) {
        void *list = s->list;
        SW_TRY(sw_heap_reserve(&list, SW_HEAP_PROFILE, &s->cap, s->n + 1, sizeof *s->list));
        s->list = list;
        s->list[s->n++] = text;
        *slot = s->n;
        SW_ASSERT(s->n <= s->cap && 2 * s->n <= s->n_slots);
    }
    *number = *slot - 1;
    SW_ASSERT(*number < s->n && s->list[*number] == text);
    return SW_OK;
}

uint32_t swi_strings_number(swi_strings *s, const char *text)
{
    uint32_t number = 0;
    if (s->status == SW_OK)
        s->status = enter(s, text, &number);
    return number;
}
