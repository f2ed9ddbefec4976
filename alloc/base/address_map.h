/* Which address ranges of the process are ours, and their owners: the stores of arenas,
 * the stacks of threads, and the ranges that the heap has mapped for each purpose. Arenas
 * and threads enter themselves. An entry costs nothing until the map is read. */
#pragma once

#include "alloc/base/mem.h"

/* The use of an arena's bytes. */
typedef enum { SW_ARENA_OTHER, SW_ARENA_STEP, SW_ARENA_MODEL, SW_ARENA_DATA } sw_arena_use;
#define SW_ARENA_USES 4

typedef enum { SW_ADDRESS_ARENA, SW_ADDRESS_STACK, SW_ADDRESS_HEAP } sw_address_kind;

typedef struct {
    sw_address_kind kind;
    const char *label; /* of the arena, the thread, or the heap's purpose */
    uintptr_t base;
    size_t bytes;           /* addresses, with those that have no memory yet */
    size_t promised_bytes;  /* height of an arena; else 0 */
    size_t committed_bytes; /* that the store of an arena has memory for */
    const void *device;     /* the owner of its memory (store.h), which then has no base here */
    sw_heap heap;           /* of SW_ADDRESS_HEAP */
    sw_arena_use use;       /* of SW_ADDRESS_ARENA */
} sw_address_range;

/* Every claim, in no order. The claim of an arena that another thread works with may be out of
 * date. `visit` may allocate nothing, nor create or destroy arenas or threads. */
void sw_address_map_visit(void (*visit)(void *context, const sw_address_range *claim),
                          void *context);

/* Bytes that were promised to the arenas of the process, by their use. */
void sw_address_map_arenas(size_t bytes[SW_ARENA_USES]);
/* Another number whenever an arena or thread came, went or grew. */
uint64_t sw_address_map_version(void);

/* Addresses that the heap's backend has mapped besides the claims, for the program's own malloc
 * and for its records, as it says itself. 0 where it cannot say. */
size_t sw_heap_unclaimed_bytes(void);

/* For arenas and threads: a place in the list, inside of what makes the claim. */
typedef struct swi_address_entry {
    struct swi_address_entry *next, *before;
    bool (*describe)(const struct swi_address_entry *self,
                     sw_address_range *out); /* false: none now */
} swi_address_entry;
void swi_address_map_add(swi_address_entry *c, bool (*describe)(const swi_address_entry *self,
                                                                sw_address_range *out));
void swi_address_map_remove(swi_address_entry *c);
void swi_address_map_changed(void); /* an arena grew */
