/* Random tensors, by counter: nothing to store, the same numbers for every number of threads.
 */
#include "kernels/rng.h"
#include "runtime/ops/ops.h"
#include <stdio.h>
#include <string.h>

static sw_status random_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)in, (void)n_in;
    out[0] = (sw_type){SW_F32, SW_PLAIN, ((const swi_random_attrs *)attrs)->shape};
    if (sw_type_elements(&out[0]) < 0)
        SW_FAIL(SW_INVALID, "a random tensor of a bad shape");
    return SW_OK;
}

#define PART 16384

typedef void draw_fn(float *to, int64_t first, int64_t n, uint64_t seed, uint32_t stream,
                     uint32_t step, uint32_t run);
typedef struct {
    const sw_launch *l;
    draw_fn *draw;
    int64_t n;
} job;

static void draw_part(void *arg, int part)
{
    const job *j = arg;
    const int64_t first = (int64_t)part * PART, rest = j->n - first;
    j->draw(swi_out(j->l, 0) + first, first, rest < PART ? rest : PART, j->l->seed,
            j->l->stream, j->l->step, j->l->run);
}

static sw_status draw(const sw_launch *l, draw_fn *fn)
{
    job j = {l, fn, sw_type_elements(&l->out[0].type)};
    l->par->run(l->par, draw_part, &j, (int)((j.n + PART - 1) / PART));
    return SW_OK;
}

KERNEL(randn_forward, draw(l, sw_rng_normal))
KERNEL(rand_forward, draw(l, sw_rng_uniform))
COUNT(randn_operations, swi_count_per_element(&info->out[0], SWI_NORMAL))
COUNT(rand_operations, swi_count_per_element(&info->out[0], SWI_UNIFORM))

/* Element by element: each number must not depend on its neighbours. */
static sw_status reference(const sw_reference *r, draw_fn *fn)
{
    for (int64_t i = 0; i < swi_elements(&r->out_type[0].shape); i++) {
        float x;
        fn(&x, i, 1, r->seed, r->stream, r->step, r->run);
        r->out[0][i] = (double)x;
    }
    return SW_OK;
}

REFERENCE(randn_reference, reference(r, sw_rng_normal))
REFERENCE(rand_reference, reference(r, sw_rng_uniform))

static const swi_random_attrs case_attrs = {{2, {33, 7}}};
static const sw_op_case cases[] = {CASE("matrix", AT(case_attrs))};

OP(randn, 0, 0, 1, ATTRS(swi_random_attrs), .rebuild = 1, .infer = random_infer,
   .forward = randn_forward, .no_gradient = 1, .random = 1, .operations = randn_operations,
   CHECKS(randn_reference, cases));

OP(rand, 0, 0, 1, ATTRS(swi_random_attrs), .rebuild = 1, .infer = random_infer,
   .forward = rand_forward, .no_gradient = 1, .random = 1, .operations = rand_operations,
   CHECKS(rand_reference, cases));

void swi_name_stream(const sw_ctx *ctx, uint32_t op, uint32_t also, char to[SWI_STREAM_TEXT])
{
    const swi_trace *t = &ctx->trace;
    const char *name = swi_op(op)->name;
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_nodes; i++)
        n += (t->nodes[i].op == op || t->nodes[i].op == also) && t->nodes[i].grad < 0 &&
             strcmp(swi_string(t, t->nodes[i].layer), ctx->scope) == 0;
    snprintf(to, SWI_STREAM_TEXT, n > 0 ? "%s.%u" : "%s", name, n);
}

static sw_value random_value(sw_ctx *ctx, uint32_t op, const char *stream, sw_shape shape)
{
    swi_random_attrs attrs;
    if (stream == NULL) {
        sw_fail(ctx, SW_INVALID, "sw_randn, sw_rand: the stream's name must not be NULL");
        return (sw_value){0, 0};
    }
    swi_set_shape(&attrs.shape, &shape);
    uint32_t id = SWI_NONE;
    if (swi_apply(ctx, op, NULL, 0, &attrs, NULL, 0, stream, &id) != SW_OK)
        return (sw_value){0, 0};
    return swi_handle(ctx, id);
}

sw_value sw_randn(sw_ctx *ctx, const char *stream, sw_shape shape)
{
    return random_value(ctx, SW_OP_randn, stream, shape);
}

sw_value sw_rand(sw_ctx *ctx, const char *stream, sw_shape shape)
{
    return random_value(ctx, SW_OP_rand, stream, shape);
}
