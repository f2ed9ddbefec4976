/* A trace as its differences from another one, without loss. */
#ifndef SW_PACKED_H
#define SW_PACKED_H

#include "alloc/base/base.h"
#include <stddef.h>
#include <stdint.h>

struct swi_trace;

/* {0}: none. */
typedef struct {
    uint32_t *words;
    size_t n;
    uint32_t count[9]; /* elements of each array */
} swi_packed;

/* `other` must not change as long as the result lives. */
SW_MUST_USE sw_status swi_pack(swi_packed *to, const struct swi_trace *trace,
                               const struct swi_trace *other);
/* *to is empty before; the caller frees it, also on failure. */
SW_MUST_USE sw_status swi_unpack(struct swi_trace *to, const swi_packed *packed,
                                 const struct swi_trace *other);
void swi_packed_free(swi_packed *packed);

#endif
