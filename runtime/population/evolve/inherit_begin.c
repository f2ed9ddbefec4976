/* How what is new in a net begins. */
#include "alloc/base/assert.h"
#include "alloc/base/size.h"
#include "runtime/population/evolve/inherit.h"
#include <float.h>
#include <string.h>

/* Initialisers were checked when they were declared. */
void swi_write_first(const swi_heir *h, const swi_entry *e, float *to, int64_t first, int64_t n)
{
    const sw_status status =
        swi_init_values(to, first, n, &e->shape, e->init, h->seed, e->name);
    SW_ASSERT(status == SW_OK);
    (void)status;
}

/* An entry's place, which is all to be written; what pads it is zero, as in a model that is
 * made ready. */
float *swi_place(const swi_heir *h, const swi_entry *e)
{
    memset(h->bytes + e->offset + e->bytes, 0, sw_size_round(e->bytes) - e->bytes);
    return (float *)(void *)(h->bytes + e->offset);
}

int64_t swi_entry_elements(const swi_entry *e)
{
    return (int64_t)(e->bytes / sw_dtype_bytes(e->dtype));
}

void swi_begin_entry(const swi_heir *h, const swi_entry *e)
{
    float *to = swi_place(h, e);
    if (e->dtype != SW_F32 || strcmp(e->init, "zeros") == 0)
        memset(to, 0, e->bytes);
    else
        swi_write_first(h, e, to, 0, swi_entry_elements(e));
}

/* Ones where input c of a group is what output r of the group shall be, in the middle tap. */
void swi_begin_identity(const swi_heir *h, const swi_vertex *v, const swi_entry *weight)
{
    float *to = swi_place(h, weight);
    const int64_t groups = v->kind != SW_VERTEX_CONV2D ? 1
                           : v->groups == 0            ? v->channels
                                                       : v->groups;
    const int64_t cols = swi_vertex_reads(h->to->genome, v) / groups;
    const int64_t rows = v->channels / groups;
    const int64_t taps = v->kind == SW_VERTEX_CONV2D ? (int64_t)v->kernel * v->kernel : 1;
    memset(to, 0, weight->bytes);
    for (int64_t r = 0; r < v->channels; r++)
        if (r % rows < cols)
            to[(r * cols + r % rows) * taps + taps / 2] = 1;
}

void swi_begin_utility(const swi_heir *h, const swi_entry *e)
{
    float *to = swi_place(h, e);
    for (int64_t i = 0; i < swi_entry_elements(e); i++)
        to[i] = FLT_EPSILON;
}
