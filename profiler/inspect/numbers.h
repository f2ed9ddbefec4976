/* Small numbers for large ones: numbers by number, texts by their address. */
#pragma once

#include "alloc/base/base.h"

#define NUMBER_MAP_NONE UINT32_MAX

/* Numbers by numbers: open addressing, grows by doubling. */
typedef struct {
    struct number_map_slot *slots;
    uint32_t n_slots, used;
} number_map;

/* The number at the key, or NUMBER_MAP_NONE. */
uint32_t number_map_at(const number_map *m, uint64_t key);
/* NUMBER_MAP_NONE takes it out. */
SW_MUST_USE sw_status number_map_set(number_map *m, uint64_t key, uint32_t value);
/* Room for n keys more: number_map_put, which is number_map_set, cannot fail for them. */
SW_MUST_USE sw_status number_map_reserve(number_map *m, uint32_t n);
void number_map_put(number_map *m, uint64_t key, uint32_t value);
void number_map_free(number_map *m);

/* Strings by number, in the order in which they are first asked for, for formats that write
 * each text once. Addresses distinguish them: a timeline keeps each text once. */
typedef struct {
    const char **list;
    uint32_t n, cap;
    number_map numbers;
    sw_status status; /* the first error; numbers are 0 from there on */
} swi_strings;

void swi_strings_free(swi_strings *s);
uint32_t swi_strings_number(swi_strings *s, const char *text);
