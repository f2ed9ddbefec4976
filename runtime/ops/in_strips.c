/* A function of one number and what reads its result, strip by strip of the matrix that it is
 * a function of: no more than a strip of the result exists. Kernels and bits are those of the
 * ops that it takes the place of: elements of a function and of an update do not depend on
 * others, columns of an input gradient and of a weight's neither, rows of a product neither,
 * and the sum of a loss goes on where the last strip left it. Only the pass in plan/strips.c
 * makes such a node; its tests cover it. */
#include "alloc/base/size.h"
#include "kernels/dispatch.h"
#include "runtime/ops/tile.h"
#include <float.h>

/* ==== strip costs ========================================================================= */

/* Facts of in_strips for the pass that makes it: which ops go in strips, of what size; and its
 * operations and scratch, from those of the ops inside. */

enum {
    LEAST_BYTES = 4 << 20, /* of a matrix that is worth it */
    LEAST_ROWS = 512,      /* of a product: it packs its weight for each strip, */
    MOST_ROWS = 1152,      /* as it does anyway for so many */
    LEAST_COLUMNS = 512,   /* of a weight: dy is packed for each strip */
    LEAST_DEPTH = 512,     /* rows that a weight's gradient sums over: fewer are too little work
                              for what is packed */
    MOST_PARTS = 3,
    LOSS_STRIP = 1 << 18, /* elements */
    ROWS_UNIT = 24,       /* whole register blocks */
    COLUMNS_UNIT = 64     /* whole pieces of a packed matrix */
};

/* ---- what the pass asks ------------------------------------------------------------------ */

bool swi_strips_function(uint32_t op)
{
    const sw_op_desc *d = swi_op(op);
    return swi_op_traits_of(op)->halves == SWI_HALVES_FUNCTION && d->n_extra == 0 &&
           d->grads[0].operands[0] == SW_IN(0) && d->attrs_bytes <= sizeof(swi_number_attrs);
}

swi_strips_reader swi_strips_reads(uint32_t op, int32_t grad, const void *attrs)
{
    const swi_tile_attrs *tile = attrs;
    if (op == SW_OP_linear && grad < 0)
        return SWI_READS_PRODUCT;
    if (op == SW_OP_mse)
        return grad < 0 ? SWI_READS_LOSS : grad == 0 ? SWI_READS_LOSS_DX : SWI_READS_NOT;
    if (op == SW_OP_product_bound)
        return SWI_READS_BOUND;
    return op == SW_OP_tile_update && tile->shard.shards <= 1 &&
                   tile->make_op == SW_OP_linear && tile->make_grad == 1
               ? SWI_READS_TILES
               : SWI_READS_NOT;
}

bool swi_strips_makes_dx(uint32_t op, int32_t grad)
{
    return op == SW_OP_linear && grad == 0;
}

/* So many parts of about one size, in whole units. */
static int64_t part_of(int64_t n, int64_t parts, int64_t unit)
{
    return ((n + parts - 1) / parts + unit - 1) / unit * unit;
}

static int64_t rows_of(int64_t rows)
{
    const int64_t parts = (rows + MOST_ROWS - 1) / MOST_ROWS;
    return rows >= 2 * LEAST_ROWS ? part_of(rows, parts > 2 ? parts : 2, ROWS_UNIT) : 0;
}

static int64_t columns_of_strip(int64_t columns, int64_t unit)
{
    const int64_t parts = columns / LEAST_COLUMNS;
    return parts < 2 ? 0 : part_of(columns, parts < MOST_PARTS ? parts : MOST_PARTS, unit);
}

int64_t swi_strips_size(swi_strips_kind kind, const sw_shape *matrix, bool state8)
{
    const int64_t n = swi_elements(matrix);
    if (n * (int64_t)sw_dtype_bytes(SW_F32) < LEAST_BYTES)
        return 0;
    switch (kind) {
    case SWI_STRIPS_PRODUCT:
        return matrix->rank == 2 ? rows_of(matrix->dim[0]) : 0;
    case SWI_STRIPS_LOSS:
    case SWI_STRIPS_LOSS_DX:
        return n >= 2 * LOSS_STRIP ? LOSS_STRIP : 0;
    case SWI_STRIPS_UPDATE:
        break;
    }
    return matrix->rank == 2 && matrix->dim[0] >= LEAST_DEPTH
               ? columns_of_strip(matrix->dim[1], state8 ? SW_STATE8_BLOCK : COLUMNS_UNIT)
               : 0;
}

/* ---- what the ops inside are asked about ------------------------------------------------- */

typedef struct {
    sw_type in[SWI_MAX_OPERANDS], out[SWI_MAX_OPERANDS];
    sw_kernel_info info;
} part_info;

static void begin_info(part_info *p, const sw_kernel_info *info, const void *attrs)
{
    p->info = (sw_kernel_info){
        .in = p->in, .out = p->out, .attrs = attrs, .threads = info->threads, .isa = info->isa};
}

static void put_in(part_info *p, const sw_type *type)
{
    p->in[p->info.n_in++] = *type;
}

static void put_out(part_info *p, const sw_type *type)
{
    p->out[p->info.n_out++] = *type;
}

/* A tensor with the weight's shape, as the range of so many columns. */
static sw_type columns_of(const sw_type *type, const sw_type *weight, int64_t columns)
{
    sw_type t = *type;
    if (swi_same_shape(&type->shape, &weight->shape))
        t.shape.dim[1] = columns;
    else if (sw_tile_is_scales(&type->shape, &weight->shape))
        t.shape.dim[1] = sw_state8_blocks(columns);
    return t;
}

static const sw_type strips_bound = {SW_F64, SW_PLAIN, {0, {0}}};

static void ask_tile(part_info *p, const sw_kernel_info *info, int64_t columns)
{
    const swi_strips_attrs *a = info->attrs;
    const sw_type *weight = &info->out[1];
    const int bound_at = a->tile.n_make + a->tile.n_check - 1;
    begin_info(p, info, &a->tile);
    put_in(p, &info->in[0]);
    p->in[0].shape.dim[1] = columns;
    put_in(p, &info->in[1]);
    for (int i = SWI_STRIPS_TILE; i < info->n_in; i++) {
        if (a->has_bound && p->info.n_in == bound_at)
            put_in(p, &strips_bound);
        const sw_type t = columns_of(&info->in[i], weight, columns);
        put_in(p, &t);
    }
    for (int i = 1; i < info->n_out; i++) {
        const sw_type t = columns_of(&info->out[i], weight, columns);
        put_out(p, &t);
    }
}

/* dx {weight, dy}. */
static void ask_dx(part_info *p, const sw_kernel_info *info)
{
    begin_info(p, info, NULL);
    put_in(p, &info->out[1]);
    put_in(p, &info->in[1]);
    put_out(p, &info->in[0]);
}

static uint64_t function_operations(const sw_kernel_info *info, bool slope)
{
    const swi_strips_attrs *a = info->attrs;
    const sw_op_desc *f = swi_op(a->f);
    part_info p;
    begin_info(&p, info, &a->number);
    put_in(&p, &info->in[0]);
    if (slope)
        put_in(&p, &info->in[0]);
    put_out(&p, &info->in[0]);
    return slope ? f->grads[a->f_grad].operations(&p.info) : f->operations(&p.info);
}

/* Of the bound: f once more, and a look at both factors. */
static uint64_t bound_operations(const sw_kernel_info *info)
{
    const swi_strips_attrs *a = info->attrs;
    const sw_type factors[2] = {info->in[0], info->in[1]};
    part_info p;
    if (!a->has_bound)
        return 0;
    begin_info(&p, info, &a->bound);
    put_in(&p, &factors[0]);
    put_in(&p, &factors[1]);
    put_out(&p, &strips_bound);
    return swi_count_add(sw_op_product_bound.operations(&p.info),
                         swi_bound_reads(factors, &a->bound) ? function_operations(info, false)
                                                             : 0);
}

/* Of the loss: its operands are those of the node, f(z) for z. */
static uint64_t body_operations(const sw_kernel_info *info)
{
    const swi_strips_attrs *a = info->attrs;
    sw_kernel_info body = *info;
    body.attrs = NULL;
    return a->body_grad < 0 ? swi_op(a->body)->operations(&body)
                            : swi_op(a->body)->grads[a->body_grad].operations(&body);
}

void swi_strips_operations(const sw_kernel_info *info, uint64_t *products, uint64_t *others)
{
    const swi_strips_attrs *a = info->attrs;
    *others = function_operations(info, false);
    *products = 0;
    if (a->kind == SWI_STRIPS_PRODUCT) {
        *products = body_operations(info);
        return;
    }
    if (a->kind != SWI_STRIPS_LOSS)
        *others = swi_count_add(*others, function_operations(info, true));
    if (a->kind != SWI_STRIPS_UPDATE) {
        *others = swi_count_add(*others, body_operations(info));
        return;
    }
    part_info p;
    uint64_t update;
    ask_tile(&p, info, info->in[0].shape.dim[1]);
    swi_tile_operations(&p.info, products, &update);
    *others = swi_count_add(swi_count_add(*others, update), bound_operations(info));
    ask_dx(&p, info);
    *products =
        swi_count_add(*products, swi_op(a->body)->grads[a->body_grad].operations(&p.info));
}

/* ---- scratch: a strip of f(z); of UPDATE after it one of dx, and in its place the tiles -- */

static size_t strips_bytes(const swi_strips_attrs *a, const sw_type *matrix)
{
    const int64_t of_one = a->kind == SWI_STRIPS_PRODUCT  ? matrix->shape.dim[1]
                           : a->kind == SWI_STRIPS_UPDATE ? matrix->shape.dim[0]
                                                          : 1;
    return sw_size_round((size_t)(a->strip * of_one) * sw_dtype_bytes(matrix->dtype));
}

static size_t asked_scratch(size_t (*bytes)(const sw_kernel_info *), const part_info *p)
{
    return bytes != NULL ? bytes(&p->info) : 0;
}

/* Scratch: a strip of f(z); of UPDATE after it one of dx, and in its place the tiles. */
static size_t strips_scratch(const sw_kernel_info *info)
{
    const swi_strips_attrs *a = info->attrs;
    const size_t one = strips_bytes(a, &info->in[0]);
    part_info p;
    if (a->kind == SWI_STRIPS_PRODUCT) {
        begin_info(&p, info, NULL);
        for (int i = 0; i < info->n_in; i++)
            put_in(&p, &info->in[i]);
        put_out(&p, &info->out[0]);
        p.in[0].shape.dim[0] = p.out[0].shape.dim[0] = a->strip;
        return one + asked_scratch(swi_op(a->body)->scratch_bytes, &p);
    }
    if (a->kind != SWI_STRIPS_UPDATE)
        return one;
    ask_dx(&p, info);
    p.in[0].shape.dim[1] = p.out[0].shape.dim[1] = a->strip;
    const size_t dx =
        one + asked_scratch(swi_op(a->body)->grads[a->body_grad].scratch_bytes, &p);
    ask_tile(&p, info, a->strip);
    const size_t tile = swi_tile_bytes(&p.info);
    return one + (dx > tile ? dx : tile);
}

/* ==== runs ================================================================================ */

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

/* A matrix of its own in scratch, of z's type. */
static sw_buffer in_scratch(const sw_launch *l, size_t at, int64_t rows, int64_t columns)
{
    return (sw_buffer){.ptr = (unsigned char *)l->scratch + at,
                       .type = {l->in[0].type.dtype, SW_PLAIN, {2, {rows, columns}}},
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
    function_job j = SW_INIT(.l = l, .kernel = swi_op(a->f)->grads[a->f_grad].kernel,
                             .in = {*z, *dy}, .out = *out, .n_in = 2);
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
        begin(&p, l, NULL, strips_bytes(a, &l->in[0].type));
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
    if (swi_same_shape(&b->type.shape, &weight->type.shape))
        return sw_tile_range(b, 1, first, n);
    return sw_tile_is_scales(&b->type.shape, &weight->type.shape)
               ? sw_tile_range(b, 1, first / SW_STATE8_BLOCK, sw_state8_blocks(n))
               : *b;
}

/* tile_update of columns [first, first + n) of x. */
static void tile_of(part *p, const sw_launch *l, const sw_buffer *x, double *bound,
                    int64_t first, int64_t n)
{
    const swi_strips_attrs *a = l->attrs;
    const sw_buffer *weight = &l->out[1], of_bound = {.ptr = bound, .type = strips_bound};
    const int bound_at = a->tile.n_make + a->tile.n_check - 1;
    begin(p, l, &a->tile, strips_bytes(a, &l->in[0].type));
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
        most[1] = sw_pointwise(l->isa)->largest(s.x.ptr, swi_is_half(&s.x),
                                                sw_type_elements(&s.x.type), l->par);
        most[0] = sw_pointwise(l->isa)->largest(most, false, 2, &sw_par_alone);
    }
    bound *= (double)most[0];
    return bound * (double)sw_pointwise(l->isa)->largest(l->in[1].ptr, swi_is_half(&l->in[1]),
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
    const size_t at = strips_bytes(a, &l->in[0].type);
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
            in_scratch(l, strips_bytes(a, &z->type), z->type.shape.dim[0], s.n);
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

TYPE(infer, in[0])

OP(in_strips, 2, 16, 1, ATTRS(swi_strips_attrs), .infer = infer,
   .scratch_bytes = strips_scratch, .inplace = 1, .forward = forward, .operations = operations,
   .no_gradient = 1);
