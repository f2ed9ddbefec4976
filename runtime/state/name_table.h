/* Names of things that are counted, found by a hash: whatever order they come in, and however
 * many they are. The table has numbers alone; their owner says the name of each. */
#ifndef SW_NAME_TABLE_H
#define SW_NAME_TABLE_H

#include "alloc/base/base.h"
#include <stdbool.h>

typedef const char *swi_name_of(const void *owner, uint32_t i);

/* Begins as zeros: no names, and no room for any. Twice as large as they are many; 0 is empty,
 * i + 1 stands for thing i. */
typedef struct {
    uint32_t *places;
    uint32_t n_places; /* a power of two */
} swi_name_table;

/* Room for n names. The table is empty afterwards, unless it had the room; *emptied says so. */
SW_MUST_USE sw_status swi_names_room(swi_name_table *t, uint32_t n, bool *emptied);
void swi_names_clear(swi_name_table *t);
void swi_names_free(swi_name_table *t);
/* There must be room. False, and nothing is added, where another has the name. */
bool swi_names_add(swi_name_table *t, uint32_t i, swi_name_of *name_of, const void *owner);
/* UINT32_MAX: none has it. */
uint32_t swi_names_find(const swi_name_table *t, const char *name, swi_name_of *name_of,
                        const void *owner);

#endif
