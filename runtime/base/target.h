/* The target of an exec's programs: the part of an exec that models, traces and passes see. */
#pragma once

#include "alloc/base/handle.h"
#include "kernels/cuda/api.h"
#include "runtime/stepwell.h"

#define SWI_SHARDS_MOST 65536 /* of a step */

typedef struct swi_device swi_device; /* device/device.h */

typedef struct {
    swi_device *device;           /* never NULL; its table is device/backend.h */
    const sw_cuda_queue *compute; /* a card's stream that ops are launched in; NULL: the CPU */
    uint64_t queue;               /* the number by which models know it; 0: the CPU */
    int threads;
    sw_isa isa;
    sw_budget *budget;
    sw_ranks *ranks;         /* that run the same beside this exec; NULL: it is alone */
    int shards, shards_here; /* of a step, and those of each rank; 1: a step is a batch */
    sw_bf16_order order;     /* of products with an operand of bf16 */
    sw_bf16_order way;       /* the same with its instruction, for launches */
    const char *no_tiles;    /* why the way is not AMX, which is there; NULL */
    sw_exec_opts opts; /* as they were given: passes that are off; its pointers are not read */
} swi_target;

/* An exec begins like this (exec.c asserts it). */
typedef struct {
    sw_handle handle;
    swi_target target;
} swi_exec_head;

static inline const swi_target *swi_target_of(const sw_exec *exec)
{
    return &((const swi_exec_head *)(const void *)exec)->target;
}
