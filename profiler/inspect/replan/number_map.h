/* Numbers by numbers: open addressing, grows by doubling. */
#ifndef STEPWELL_NUMBER_MAP_H
#define STEPWELL_NUMBER_MAP_H

#include "alloc/base/base.h"

#define NUMBER_MAP_NONE UINT32_MAX

typedef struct {
    struct number_map_slot *slots;
    uint32_t n_slots, used;
} number_map;

/* The number at the key, or NUMBER_MAP_NONE. */
uint32_t number_map_at(const number_map *m, uint64_t key);
/* NUMBER_MAP_NONE takes it out. */
SW_MUST_USE sw_status number_map_set(number_map *m, uint64_t key, uint32_t value);
void number_map_free(number_map *m);

#endif
