/* Frames: a program in one exec. A program stays as it was planned; what its runs write is its
 * frame: the launch of the op that is next, and what runs leave. So execs may run one program
 * at the same time, each by a frame of its own. A frame is made with the program, and has room
 * for all of its runs. */
#pragma once

#include "alloc/base/assert.h"
#include "runtime/plan/program.h"

/* Shared by the launches of ops that are alike: all but addresses, scratch and attributes. */
typedef struct {
    sw_launch launch;
    sw_buffer *buffers; /* inputs, then outputs */
} swi_template;

typedef struct swi_readback swi_readback; /* runtime/exec/queue.h */

typedef struct swi_frame {
    const swi_program *program;
    swi_program *owned; /* the same where it goes with the frame; NULL: it is another's */
    int refs;
    swi_template *templates; /* swi_run_op.like */
    size_t bytes;            /* of the block of frame, templates and buffers */
    swi_breakdown breakdown; /* by the plan; empty until somebody asks */
    sw_nvtx_table names;     /* for an NVTX tool; empty until it runs under one */
    swi_readback *readback;  /* on a card: what is copied out of a run; NULL before the first */
    void (*free_readback)(swi_readback *readback);
    bool profiled;  /* the exec's profile has its plan */
    bool ran;       /* at least once: later runs are warm */
    size_t reached; /* where what the launches of its first run as a member were given ends in
                       the step arena, rounded up; 0: there was none */
} swi_frame;

sw_status swi_frame_create(swi_frame **out, const swi_program *program);
void swi_frame_free(swi_frame *frame); /* NULL is fine */

/* The operands of op i point to where they are, base[segment] + offset: its launch, in use
 * until the next op is resolved. */
static inline sw_launch *swi_frame_resolve(swi_frame *f, uint32_t i, unsigned char *const *base,
                                           const swi_bind *binds)
{
    const swi_program *p = f->program;
    const swi_run_op *op = &p->ops[i];
    SW_ASSERT(i < p->n_ops && op->n_buffers <= SWI_MAX_OPERANDS);
    SW_ASSERT(op->like < p->n_templates && op->first + i + op->n_buffers < p->n_binds);
    swi_template *like = &f->templates[op->like];
    sw_buffer *buffers = like->buffers;
    const swi_bind *b = binds + op->first + i;
    for (uint32_t k = 0; k < op->n_buffers; k++) {
        SW_ASSERT((unsigned)b[k].segment <= SWI_SEG_COUNT);
        unsigned char *segment = base[b[k].segment];
        buffers[k].ptr = segment != NULL ? segment + b[k].offset : NULL;
    }
    unsigned char *segment = base[b[op->n_buffers].segment];
    like->launch.scratch = segment != NULL ? segment + b[op->n_buffers].offset : NULL;
    like->launch.scratch_bytes = op->scratch_bytes;
    like->launch.attrs = op->attrs;
    return &like->launch;
}

/* The launch of op i, which was resolved last. */
static inline sw_launch *swi_frame_launch(const swi_frame *frame, uint32_t op)
{
    return &frame->templates[frame->program->ops[op].like].launch;
}
