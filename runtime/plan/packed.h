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

#endif
