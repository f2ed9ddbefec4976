/* Ids and labels of rows, in the types that they come in. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* One of the three is given. */
typedef struct {
    const int32_t *i32;
    const uint16_t *u16;
    const uint8_t *u8;
    int64_t n;
} sw_ids;

static inline int64_t sw_id_at(const sw_ids *ids, int64_t i)
{
    return ids->u8 != NULL    ? (int64_t)ids->u8[i]
           : ids->u16 != NULL ? (int64_t)ids->u16[i]
                              : (int64_t)ids->i32[i];
}

/* The ids from `first` on. */
static inline sw_ids sw_ids_from(const sw_ids *ids, int64_t first)
{
    return (sw_ids){ids->i32 != NULL ? ids->i32 + first : NULL,
                    ids->u16 != NULL ? ids->u16 + first : NULL,
                    ids->u8 != NULL ? ids->u8 + first : NULL, ids->n - first};
}
