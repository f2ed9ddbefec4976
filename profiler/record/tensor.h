/* A tensor of a program, as the profile writes it and as readers keep it. */
#ifndef SW_TENSOR_H
#define SW_TENSOR_H

#include "alloc/base/base.h"

#define SW_TENSOR_NONE UINT32_MAX

/* The start that an offset counts from. */
typedef enum { SW_SEGMENT_STEP, SW_SEGMENT_MODEL, SW_SEGMENT_INPUT, SW_SEGMENTS } sw_segment;

/* One storage. Bytes without padding. */
typedef struct {
    uint32_t id; /* its number in the program; events name it so */
    /* The tensor whose place it takes, which has the bytes and outlives it; or none. In a file
     * its id; in a timeline, after sw_timeline_finish, its index. */
    uint32_t alias;
    const char *name, *layer, *op, *role, *phase;
    sw_segment segment;
    uint64_t bytes, padding, offset; /* offset within its segment */
    uint32_t birth, death;           /* op positions, both included; n_ops: to the end */
} sw_tensor;

/* "step", "model" or "input". */
const char *sw_segment_name(sw_segment segment);

#endif
