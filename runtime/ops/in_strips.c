/* A function of one number and what reads its result, strip by strip of the matrix that it is
 * a function of: no more than a strip of the result exists. Kernels and bits are those of the
 * ops that it takes the place of: elements of a function and of an update do not depend on
 * others, columns of an input gradient and of a weight's neither, rows of a product neither,
 * and the sum of a loss goes on where the last strip left it. Only the pass in plan/strips.c
 * makes such a node; its tests cover it. */
#include "runtime/ops/strip.h"
#include "kernels/dispatch.h"
#include <float.h>

static const swi_strips_attrs *attrs_of(const sw_launch *l)
{
    return l->attrs;
}

/* A launch of an op inside, and its operands; it must stay where it is. */
typedef struct {
    sw_buffer in[SWI_MAX_OPERANDS], out[SWI_MAX_OPERANDS];
    sw_launch launch;
} part;

static void begin(part *p, const sw_launch *l, const void *attrs, size_t scratch_at)
{
    p->launch = *l;
    p->launch.in = p->in;
    p->launch.out = p->out;
    p->launch.n_in = p->launch.n_out = 0;
    p->launch.attrs = attrs;
    p->launch.accumulate = 0;
    p->launch.scratch = (unsigned char *)l->scratch + scratch_at;
    p->launch.scratch_bytes = l->scratch_bytes - scratch_at;
}

static void add_in(part *p, const sw_buffer *b)
{
    p->in[p->launch.n_in++] = *b;
}

static void add_out(part *p, const sw_buffer *b)
{
    p->out[p->launch.n_out++] = *b;
}

/* A matrix of its own in scratch. */
static sw_buffer in_scratch(const sw_launch *l, size_t at, int64_t rows, int64_t columns)
{
    return (sw_buffer){.ptr = (unsigned char *)l->scratch + at,
                       .type = {SW_F32, SW_PLAIN, {2, {rows, columns}}},
                       .stride = {columns, 1}};
}

/* f of z, or f' of z and dy, element by element. Rows that do not lie side by side go one by
 * one. */
typedef struct {
    const sw_launch *l;
    sw_kernel *kernel;
    sw_buffer in[2], out;
    int n_in;
    int64_t parts;
} function_job;

static bool is_whole(const sw_buffer *b)
{
    return b->stride[0] == b->type.shape.dim[1];
}

static void function_rows(const function_job *j, int64_t first, int64_t rows, const sw_par *par)
{
    part p;
    begin(&p, j->l, &attrs_of(j->l)->number, 0);
    p.launch.par = par;
    for (int i = 0; i < j->n_in; i++) {
        const sw_buffer b = sw_tile_range(&j->in[i], 0, first, rows);
        add_in(&p, &b);
    }
    const sw_buffer out = sw_tile_range(&j->out, 0, first, rows);
    add_out(&p, &out);
    (void)j->kernel(&p.launch); /* functions of numbers do not fail */
}

static void function_part(void *arg, int i)
{
    const function_job *j = arg;
    const int64_t rows = j->out.type.shape.dim[0], to = rows * (i + 1) / j->parts;
    for (int64_t row = rows * i / j->parts; row < to; row++)
        function_rows(j, row, 1, &sw_par_alone);
}

static void run_function(function_job *j)
{
    const int64_t rows = j->out.type.shape.dim[0];
    bool whole = is_whole(&j->out);
    for (int i = 0; i < j->n_in; i++)
        whole = whole && is_whole(&j->in[i]);
    if (whole) {
        function_rows(j, 0, rows, j->l->par);
        return;
    }
    j->parts = rows < 16 * j->l->par->n_threads ? rows : 16 * j->l->par->n_threads;
    j->l->par->run(j->l->par, function_part, j, (int)j->parts);
}

static void value_of(const sw_launch *l, const sw_buffer *z, const sw_buffer *out)
{
    function_job j = {
        .l = l, .kernel = swi_op(attrs_of(l)->f)->forward, .in = {*z}, .out = *out, .n_in = 1};
    run_function(&j);
}

static void slope_of(const sw_launch *l, const sw_buffer *z, const sw_buffer *dy,
                     const sw_buffer *out)
{
    const swi_strips_attrs *a = l->attrs;
    function_job j = {.l = l,
                      .kernel = swi_op(a->f)->grads[a->f_grad].kernel,
                      .in = {*z, *dy},
                      .out = *out,
                      .n_in = 2};
    run_function(&j);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static sw_status product(const sw_launch *l)
{
    const swi_strips_attrs *a = l->attrs;
    const int64_t rows = l->in[0].type.shape.dim[0], columns = l->in[0].type.shape.dim[1];
    for (int64_t first = 0; first < rows; first += a->strip) {
        const int64_t n = least(a->strip, rows - first);
        const sw_buffer z = sw_tile_range(&l->in[0], 0, first, n);
        const sw_buffer y = sw_tile_range(&l->out[0], 0, first, n);
        const sw_buffer x = in_scratch(l, 0, n, columns);
        part p;
        value_of(l, &z, &x);
        begin(&p, l, NULL, swi_strips_bytes(a, &l->in[0].type));
        add_in(&p, &x);
        for (int i = 1; i < l->n_in; i++)
            add_in(&p, &l->in[i]);
        add_out(&p, &y);
        SW_TRY(swi_op(a->body)->forward(&p.launch));
    }
    return SW_OK;
}

/* Elements [first, first + n) as a row. */
static sw_buffer run_of(const sw_buffer *b, int64_t first, int64_t n)
{
    return (sw_buffer){.ptr = (float *)b->ptr + first,
                       .type = {SW_F32, SW_PLAIN, {2, {1, n}}},
                       .stride = {n, 1}};
}

static sw_status loss(const sw_launch *l, bool of_slope)
{
    const swi_strips_attrs *a = l->attrs;
    const int64_t all = sw_type_elements(&l->in[0].type);
    double sum = 0;
    for (int64_t first = 0; first < all; first += a->strip) {
        const int64_t n = least(a->strip, all - first);
        const sw_buffer z = run_of(&l->in[0], first, n), x = in_scratch(l, 0, 1, n);
        const float *target = swi_in(l, 1) + first;
        value_of(l, &z, &x);
        if (!of_slope) {
            sum = swi_mse_sum(sum, x.ptr, target, n);
            continue;
        }
        const sw_buffer dz = run_of(&l->out[0], first, n);
        sw_pointwise(l->isa)->difference(x.ptr, x.ptr, target, n,
                                         swi_mse_slope(swi_in(l, 2)[0], all), false, l->par);
        slope_of(l, &z, &x, &dz);
    }
    if (!of_slope)
        swi_out(l, 0)[0] = (float)(sum / (double)all);
    return SW_OK;
}

/* ---- a weight, its input gradient and its update ----------------------------------------- */

static sw_buffer columns_in(const sw_buffer *b, const sw_buffer *weight, int64_t first,
                            int64_t n)
{
    return swi_same_shape(&b->type.shape, &weight->type.shape) ? sw_tile_range(b, 1, first, n)
                                                               : *b;
}

/* tile_update of columns [first, first + n) of x. */
static void tile_of(part *p, const sw_launch *l, const sw_buffer *x, double *bound,
                    int64_t first, int64_t n)
{
    const swi_strips_attrs *a = l->attrs;
    const sw_buffer *weight = &l->out[1], of_bound = {.ptr = bound, .type = swi_strips_bound};
    const int bound_at = a->tile.n_make + a->tile.n_check - 1;
    begin(p, l, &a->tile, swi_strips_bytes(a, &l->in[0].type));
    add_in(p, x);
    add_in(p, &l->in[1]);
    for (int i = SWI_STRIPS_TILE; i < l->n_in; i++) {
        if (a->has_bound && p->launch.n_in == bound_at)
            add_in(p, &of_bound);
        const sw_buffer b = columns_in(&l->in[i], weight, first, n);
        add_in(p, &b);
    }
    for (int i = 1; i < l->n_out; i++) {
        const sw_buffer b = columns_in(&l->out[i], weight, first, n);
        add_out(p, &b);
    }
}

typedef struct {
    const sw_launch *l;
    int64_t first, n;
    sw_buffer z, x;
} strip;

static bool next_strip(strip *s)
{
    const sw_buffer *z = &s->l->in[0];
    s->first += s->n;
    s->n = least(attrs_of(s->l)->strip, z->type.shape.dim[1] - s->first);
    s->z = sw_tile_range(z, 1, s->first, s->n);
    s->x = in_scratch(s->l, 0, z->type.shape.dim[0], s->n);
    return s->n > 0;
}

/* As product_bound of f(z) and dy. */
static double bound_of(const sw_launch *l)
{
    const swi_strips_attrs *a = l->attrs;
    const sw_type factors[2] = {l->in[0].type, l->in[1].type};
    const bool reads = swi_bound_reads(factors, &a->bound);
    float most[2] = {0, 0};
    double bound = (double)a->bound.terms;
    if (!reads)
        return DBL_MAX;
    for (strip s = {.l = l}; next_strip(&s);) {
        value_of(l, &s.z, &s.x);
        most[1] = sw_pointwise(l->isa)->largest(s.x.ptr, sw_type_elements(&s.x.type), l->par);
        most[0] = sw_pointwise(l->isa)->largest(most, 2, &sw_par_alone);
    }
    bound *= (double)most[0];
    return bound * (double)sw_pointwise(l->isa)->largest(swi_in(l, 1),
                                                         sw_type_elements(&factors[1]), l->par);
}

/* The check of the whole gradient, before any of it is used. */
static sw_status judge(const sw_launch *l, double *bound)
{
    const double *verdict = l->out[l->n_out - 1].ptr;
    bool known = false;
    *bound = attrs_of(l)->has_bound ? bound_of(l) : DBL_MAX;
    for (strip s = {.l = l}; !known && next_strip(&s);) {
        part p;
        tile_of(&p, l, &s.x, bound, s.first, s.n);
        known = swi_tile_is_bounded(&p.launch);
        if (!known)
            value_of(l, &s.z, &s.x);
        SW_TRY(swi_tile_judge(&p.launch));
        known = known || *verdict != 0.0;
    }
    return SW_OK;
}

static sw_status input_gradient(const sw_launch *l, const strip *s, const sw_buffer *dx)
{
    const swi_strips_attrs *a = l->attrs;
    const size_t at = swi_strips_bytes(a, &l->in[0].type);
    const sw_buffer w = sw_tile_range(&l->out[1], 1, s->first, s->n);
    part p;
    begin(&p, l, NULL, 2 * at);
    add_in(&p, &w);
    add_in(&p, &l->in[1]);
    add_out(&p, dx);
    return swi_op(a->body)->grads[a->body_grad].kernel(&p.launch);
}

/* Columns of the weight are read for dx before they are updated, those of z for f(z) before dz
 * takes their place. */
static sw_status update(const sw_launch *l)
{
    const swi_strips_attrs *a = l->attrs;
    const sw_buffer *z = &l->in[0];
    double bound = 0;
    if (a->tile.has_check)
        SW_TRY(judge(l, &bound));
    for (strip s = {.l = l}; next_strip(&s);) {
        const sw_buffer dz = sw_tile_range(&l->out[0], 1, s.first, s.n);
        const sw_buffer dx =
            in_scratch(l, swi_strips_bytes(a, &z->type), z->type.shape.dim[0], s.n);
        part p;
        SW_TRY(input_gradient(l, &s, &dx));
        value_of(l, &s.z, &s.x);
        slope_of(l, &s.z, &dx, &dz);
        tile_of(&p, l, &s.x, &bound, s.first, s.n);
        SW_TRY(swi_tile_apply(&p.launch));
    }
    return SW_OK;
}

static sw_status forward(const sw_launch *l)
{
    switch ((swi_strips_kind)attrs_of(l)->kind) {
    case SWI_STRIPS_PRODUCT:
        return product(l);
    case SWI_STRIPS_LOSS:
    case SWI_STRIPS_LOSS_DX:
        return loss(l, attrs_of(l)->kind == SWI_STRIPS_LOSS_DX);
    case SWI_STRIPS_UPDATE:
        break;
    }
    return update(l);
}

static uint64_t operations(const sw_kernel_info *info)
{
    uint64_t products, others;
    swi_strips_operations(info, &products, &others);
    return swi_count_add(products, others);
}

static sw_status infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    (void)n_in, (void)attrs;
    out[0] = in[0];
    return SW_OK;
}

OP(in_strips, 2, 16, 1, ATTRS(swi_strips_attrs), .infer = infer,
   .scratch_bytes = swi_strips_scratch, .inplace = 1, .forward = forward,
   .operations = operations, .no_gradient = 1);
