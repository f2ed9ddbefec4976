/* Frames: made of a program, resolved op by op. */
#include "runtime/plan/frame.h"
#include "alloc/base/assert.h"
#include "runtime/plan/program_internal.h"

/* The templates, of the first op of each kind; those come in the order of their numbers. */
static void fill(const swi_program *p, uint32_t op, swi_template *to, sw_buffer *buffers)
{
    const swi_trace *t = &p->trace;
    const swi_node *node = &t->nodes[p->ops[op].node];
    for (uint32_t k = 0; k < node->n_in + node->n_out; k++) {
        const swi_value *v = &t->values[t->operands[node->first + k]];
        buffers[k] = (sw_buffer){.type = v->type};
        swi_value_strides(t, v, buffers[k].stride);
    }
    to->buffers = buffers;
    to->launch = SW_OPTS(sw_launch, .in = buffers, .n_in = (int)node->n_in,
                         .out = buffers + node->n_in, .n_out = (int)node->n_out,
                         .accumulate = node->accumulate, .stream = node->stream);
}

static void fill_all(swi_frame *f)
{
    const swi_program *p = f->program;
    sw_buffer *buffers = (sw_buffer *)(void *)(f->templates + p->n_templates);
    uint32_t n = 0, used = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        SW_ASSERT(p->ops[i].like <= n && p->ops[i].like < p->n_templates);
        if (p->ops[i].like < n)
            continue;
        fill(p, i, &f->templates[n++], buffers + used);
        used += p->ops[i].n_buffers;
    }
    SW_ASSERT(n == p->n_templates && used == p->n_template_buffers);
}

size_t swi_frame_bytes(const swi_program *p)
{
    return sizeof(swi_frame) + p->n_templates * sizeof(swi_template) +
           p->n_template_buffers * sizeof(sw_buffer);
}

sw_status swi_frame_create(swi_frame **out, const swi_program *p)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROGRAMS, swi_frame_bytes(p)));
    swi_frame *f = block;
    f->program = p;
    f->refs = 1;
    f->bytes = swi_frame_bytes(p);
    f->templates = (swi_template *)(void *)(f + 1);
    fill_all(f);
    *out = f;
    return SW_OK;
}

void swi_frame_free(swi_frame *f)
{
    if (f == NULL)
        return;
    swi_breakdown_free(&f->breakdown);
    if (f->readback != NULL)
        f->free_readback(f->readback);
    sw_nvtx_table_free(&f->names);
    swi_program_free(f->owned);
    sw_heap_free(f, SW_HEAP_PROGRAMS, f->bytes);
}
