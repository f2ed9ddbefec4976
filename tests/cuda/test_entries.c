/* Every entry of the CUDA module against the CPU's kernel, over the cases that its op's
 * descriptor has: as they stand, grown along their first and last axes, images in blocks,
 * strided operands, addresses that allow no wide access, odd numbers, with and without what is
 * added to, in place where the descriptor allows it. */
#include "kernels/halves.h"
#include "kernels/noise.h"
#include "kernels/rng.h"
#include "runtime/device/device.h"
#include "runtime/device/pieces.h"
#include "runtime/verify/op_check.h"
#include "tests/cuda/entry.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"

SW_TESTS("entries")

typedef struct {
    const char *name;
    int grow; /* 0: as it is, 1: the first axis, 2: the last, 3: nothing at all */
    bool blocks, strided;
    size_t shift;
    bool odd; /* numbers at the ends of their ranges, equal ones, NaNs */
} variant;
static const variant variants[] = {
    {"", 0, false, false, 0, false},
    {" shifted", 0, false, false, 1, false},
    {" blocks", 0, true, false, 0, false},
    {" strided", 0, false, true, 0, false},
    {" long", 1, false, false, 0, false},
    {" long, shifted", 1, false, false, 1, false},
    {" long, blocks", 1, true, false, 0, false},
    {" wide", 2, false, false, 0, false},
    {" wide, strided", 2, false, true, 0, false},
    {" wide, shifted", 2, false, false, 1, false},
    {" odd numbers", 0, false, false, 0, true},
    {" empty", 3, false, false, 0, false},
};

/* ---- cases of a variant ------------------------------------------------------------------ */

static int64_t elements(const sw_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

/* Axes as long as the first input's first (last) one, by `to`. */
static void stretch(sw_op_case *c, bool first, int64_t to)
{
    const sw_shape *s = &c->in[0].shape;
    const int64_t old = s->rank == 0 ? 0 : first ? s->dim[0] : s->dim[s->rank - 1];
    for (int i = 0; i < 4; i++) {
        sw_shape *t = &c->in[i].shape;
        if (t->rank > 0 && t->dim[first ? 0 : t->rank - 1] == old)
            t->dim[first ? 0 : t->rank - 1] = to;
    }
}

static bool is_good(const sw_op_desc *d, const sw_op_case *c)
{
    sw_type in[SWI_CHECK_INPUTS], out[2 * SWI_CHECK_OUTPUTS];
    memset(out, 0, sizeof out);
    for (int i = 0; i < c->n_in; i++)
        in[i] = c->in[i < 4 ? i : 3];
    return d->infer(in, c->n_in, c->attrs, out) == SW_OK;
}

/* Ops that have no kernel for images in blocks: with a device all images of a program are
 * plain. */
static bool is_for_plain(const char *op)
{
    static const char *const ops[] = {
        "conv2d",     "channel_scale", "max_pool2d",  "avg_pool2d", "conv_transpose2d",
        "upsample",   "dropout",       "dropout_by",  "batch_norm", "batch_norm_fixed",
        "group_norm", "noise_conv2d",  "noise_affine"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(ops[i], op) == 0)
            return true;
    return false;
}

/* Images in the layout that a trace would give them: what the op wants, plain for all others.
 * Ops that change layouts have the one that they change. */
static void settle(const sw_op_desc *d, sw_op_case *c, bool blocks)
{
    sw_type in[SWI_CHECK_INPUTS];
    for (int i = 0; i < c->n_in; i++)
        in[i] = c->in[i < 4 ? i : 3];
    sw_layout want = d->layout != NULL ? d->layout(in, c->n_in, c->attrs) : SW_PLAIN;
    if (is_for_plain(d->name))
        want = blocks ? SW_N16 : SW_PLAIN;
    for (int i = 0; i < c->n_in && strcmp(d->name, "from_n16") != 0; i++) {
        const bool image = (d->image_in == 0 || (d->image_in >> i & 1u) != 0) &&
                           in[i].shape.rank == 4 && in[i].dtype == SW_F32;
        c->in[i < 4 ? i : 3].layout = image ? want : SW_PLAIN;
    }
}

/* Elements of the largest operand after growing, about: less where each of them is made of
 * random numbers. */
static int64_t grown_elements(const sw_op_desc *d)
{
    return strncmp(d->name, "noise_", 6) == 0 || strcmp(d->name, "es_gradient") == 0 ? 200
                                                                                     : 2600;
}

/* false: the variant says nothing about this case. */
static bool vary(const sw_op_desc *d, const variant *v, sw_op_case *c)
{
    const sw_shape *s = &c->in[0].shape;
    int64_t n = 0; /* of the largest operand */
    for (int i = 0; i < 4; i++)
        n = elements(&c->in[i].shape) > n ? elements(&c->in[i].shape) : n;
    for (int i = 0; v->blocks && i < 4; i++) {
        if (c->in[i].layout == SW_N16)
            return is_for_plain(d->name) && is_good(d, c); /* it is so as it stands */
        c->in[i].layout = s->rank == 4 && c->in[i].shape.rank == 4 ? SW_N16 : SW_PLAIN;
    }
    settle(d, c, v->blocks);
    bool blocks = false;
    for (int i = 0; i < c->n_in && i < 4; i++)
        blocks |= c->in[i].layout == SW_N16;
    if (v->blocks && !blocks)
        return false;
    if (v->strided && d->strided_in == 0)
        return false;
    const sw_cuda_entry *entry = sw_side_entry(d->name, SW_CUDA_FORWARD);
    if (v->odd && (entry == NULL ||
                   !sw_entry_is_exact(entry))) /* there is no tolerance for sums of them */
        return false;
    if (v->grow == 0)
        return is_good(d, c);
    /* Ops whose blocks do much work for each element: their descriptors have cases of several
     * blocks and tiles, and nothing is grown. */
    if (v->grow != 3 && strcmp(d->name, "attention") == 0)
        return false;
    if (s->rank == 0 || c->n_in == 0)
        return false;
    const bool first = v->grow != 2;
    const int64_t old = first ? s->dim[0] : s->dim[s->rank - 1], by = grown_elements(d) / n + 1;
    if (old < 2 && v->grow != 3)
        return false;
    sw_op_case odd = *c;
    stretch(&odd, first, v->grow == 3 ? 0 : old * by + 3);
    if (is_good(d, &odd)) {
        *c = odd;
        return true;
    }
    stretch(c, first, v->grow == 3 ? 0 : old * by);
    return is_good(d, c);
}

/* ---- one case ---------------------------------------------------------------------------- */

/* Outputs with NaNs, or with numbers where they are added to. */
static void fill_outputs(sw_entry_run *r, const sw_type *types)
{
    for (int o = 0; o < r->n_out; o++) {
        r->out[o] = sw_entry_buffer(&types[o], r->shift);
        if ((r->accumulate >> o & 1u) != 0)
            sw_rng_normal(r->out[o].ptr, 0, sw_type_elements(&types[o]), 5, 6, (uint32_t)o, 0);
    }
}

static bool same_bytes(const sw_type *a, const sw_type *b)
{
    return a->dtype == b->dtype && a->layout == b->layout && a->shape.rank == b->shape.rank &&
           memcmp(a->shape.dim, b->shape.dim, (size_t)a->shape.rank * sizeof *a->shape.dim) ==
               0;
}

static bool is_packed(const sw_buffer *b)
{
    int64_t step = 1;
    for (int i = b->type.shape.rank - 1; i >= 0; i--) {
        if (b->stride[i] != step)
            return false;
        step *= b->type.shape.dim[i];
    }
    return true;
}

/* As it is, and with out[0] in the place of each input that `inplace` names. */
static void compare_places(sw_entry_run *r, const sw_type *types, uint32_t inplace)
{
    bool done = false;
    for (int k = 0; k < r->n_in; k++) {
        if ((inplace >> k & 1u) == 0 || !same_bytes(&types[0], &r->in[k].type) ||
            !is_packed(&r->in[k]) || (r->accumulate & 1u) != 0)
            continue;
        r->alias[0] = k;
        fill_outputs(r, types);
        sw_entry_compare(r);
        r->alias[0] = -1;
        done = true;
    }
    if (done)
        return;
    fill_outputs(r, types);
    sw_entry_compare(r);
}

static void no_alias(sw_entry_run *r)
{
    for (int i = 0; i < SW_ENTRY_OPERANDS; i++)
        r->alias[i] = -1;
}

/* Types of outputs and extras. */
static void forward_types(const swi_check *c, const sw_entry_run *r, sw_type *types)
{
    sw_type in[SWI_CHECK_INPUTS];
    memset(types, 0, 2 * SWI_CHECK_OUTPUTS * sizeof *types);
    for (int i = 0; i < r->n_in; i++)
        in[i] = r->in[i].type;
    CU_ASSERT_EQUAL_FATAL(c->desc->infer(in, r->n_in, c->spec->attrs, types), SW_OK);
}

static sw_kernel *kernel_of(sw_kernel *plain, sw_kernel *(*select)(const sw_kernel_info *info),
                            const sw_entry_run *r, const sw_type *out)
{
    sw_type in[SWI_CHECK_INPUTS];
    for (int i = 0; i < r->n_in; i++)
        in[i] = r->in[i].type;
    const sw_kernel_info info = {in, out, r->n_in, r->n_out, r->attrs, 1, SW_ISA_BASE, 0};
    return select != NULL ? select(&info) : plain;
}

/* Cases with results that are next to nothing beside the terms that they are sums of. */
static double terms_of(const swi_check *c)
{
    static const struct {
        const char *op, *name;
        double size;
    } cases[] = {
        {"batch_norm", "one image, one channel", 1.0},
        {"group_norm", "one element a group", 1.0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(c->desc->name, cases[i].op) == 0 &&
            strcmp(c->spec->name, cases[i].name) == 0)
            return cases[i].size;
    return 0.0;
}

/* ---- in bf16 ----------------------------------------------------------------------------- */

static uint32_t halves_op;
static int halves_grad;
static uint32_t n_halves; /* comparisons */

static size_t pieces_bytes(const sw_kernel_info *info, const sw_cuda_queue *queue)
{
    return swi_pieces_bytes(halves_op, halves_grad, info, queue, 0);
}
static size_t cpu_pieces_bytes(const sw_kernel_info *info)
{
    return swi_pieces_bytes(halves_op, halves_grad, info, NULL, 0);
}

/* Which inputs of the forward op are bf16, and which of its results. */
static bool half_in(uint32_t op, int i)
{
    const swi_op_halves word = swi_op_traits_of(op)->halves;
    const bool weighs = op == SW_OP_linear || op == SW_OP_linear_ce ||
                        word == SWI_HALVES_ROWS || word == SWI_HALVES_LOOKUP ||
                        word == SWI_HALVES_GROUPS || word == SWI_HALVES_CONV ||
                        word == SWI_HALVES_CHANNELS;
    return !(weighs && i > 0) && !(word == SWI_HALVES_LOOKUP && i == 0);
}
static bool half_out(uint32_t op, const sw_op_desc *d, int i)
{
    const swi_op_halves word = swi_op_traits_of(op)->halves;
    return word == SWI_HALVES_LOSS ? i == d->n_out : word != SWI_HALVES_READS && i < d->n_out;
}

static void round_buffer(sw_buffer *b, size_t shift)
{
    sw_type type = b->type;
    type.dtype = SW_BF16;
    int64_t n = 1; /* places that it reaches */
    for (int i = 0; i < type.shape.rank; i++)
        n += (type.shape.dim[i] - 1) * b->stride[i];
    if (sw_type_elements(&type) == 0)
        n = 0;
    uint16_t *to = sw_entry_block((size_t)n * sizeof *to, shift * sizeof *to);
    for (int64_t i = 0; i < n; i++)
        to[i] = sw_bf16_round(((const float *)b->ptr)[i]);
    b->ptr = to;
    b->type = type;
}

/* The same launch with numbers of bf16, in pieces or as they are: bits of the CPU's where the
 * entry has them, else numbers that are near. in, out: those that are bf16. */
static void compare_halves(uint32_t op, int grad, const sw_entry_run *as, uint32_t in,
                           uint32_t out)
{
    sw_entry_run r = *as;
    sw_cuda_entry entry = *as->entry;
    sw_type in_type[SW_ENTRY_OPERANDS], out_type[SW_ENTRY_OPERANDS];
    for (int i = 0; i < r.n_in; i++) {
        const bool knob = i > 0 && r.in[i].type.shape.rank == 0;
        if ((in >> i & 1u) != 0 && r.in[i].type.dtype == SW_F32 && !knob)
            round_buffer(&r.in[i], r.shift);
        in_type[i] = r.in[i].type;
    }
    for (int i = 0; i < r.n_out; i++) {
        if ((out >> i & 1u) != 0 && r.out[i].type.dtype == SW_F32 && r.out[i].ptr != NULL)
            round_buffer(&r.out[i], r.shift);
        out_type[i] = r.out[i].type;
    }
    sw_side_choose(0); /* with a library the runtime copies what lies otherwise */
    const bool strides =
        swi_op_traits_of(op)->halves >= SWI_HALVES_PRODUCT && sw_side_queue()->blas == NULL;
    for (int i = 0; i < r.n_in + r.n_out; i++) {
        const sw_buffer *b = i < r.n_in ? &r.in[i] : &r.out[i - r.n_in];
        if (b->type.layout != SW_PLAIN || (!strides && !is_packed(b)))
            return;
    }
    const sw_kernel_info info = {in_type, out_type, r.n_in,      r.n_out,
                                 r.attrs, 1,        SW_ISA_BASE, r.accumulate};
    const bool pieces = swi_goes_in_pieces(op, grad, &info, true);
    if (!pieces && entry.exact < 2)
        return;
    if (swi_goes_in_pieces(op, grad, &info, false)) {
        r.kernel = swi_in_pieces;
        r.scratch_bytes = cpu_pieces_bytes;
    }
    if (pieces) {
        entry.kernel = swi_pieces_on_card;
        entry.scratch_bytes = pieces_bytes;
    }
    r.entry = &entry;
    r.op = halves_op = op;
    r.grad = halves_grad = grad;
    r.order = SW_ORDER_PAIR;
    r.label = sw_textf("%s, bf16", as->label);
    for (int i = 0; i < r.n_out; i++)
        r.alias[i] = -1;
    n_halves++;
    sw_entry_compare(&r);
}

/* Leaves the CPU's outputs in f->out. */
static void forward_case(swi_check *c, const variant *v, const char *label, sw_entry_run *f)
{
    sw_type types[2 * SWI_CHECK_OUTPUTS];
    const sw_op_desc *d = c->desc;
    *f = (sw_entry_run){
        .label = label, .attrs = c->spec->attrs, .shift = v->shift, .random = d->random != 0};
    /* Logits of both sides, sums of hundreds of products, differ by several millionths, and
     * their exponentials do too, by their own size. */
    f->factor = strcmp(d->name, "linear_ce") == 0 ? 5.0 : 1.0;
    /* Layers of bits, and the estimates of their logits, stay on the CPU. */
    f->refused =
        (v->blocks && is_for_plain(d->name)) ||
        (strcmp(d->name, "es_gradient") == 0 &&
         ((const swi_es_gradient_attrs *)c->spec->attrs)->spec.kind == SW_NOISE_BITS_OF_LOGITS);
    no_alias(f);
    f->terms = terms_of(c);
    f->n_in = c->n_in;
    for (int i = 0; i < c->n_in; i++) {
        sw_type t = c->in[i].type;
        t.layout = c->in[i].layout;
        f->in[i] = sw_entry_fill(&t, c->in[i].data,
                                 v->strided && (d->strided_in >> i & 1u) != 0, 1.5f, v->shift);
    }
    forward_types(c, f, types);
    f->n_out = d->n_out + d->n_extra;
    uint32_t in = 0, out = 0; /* bf16 */
    for (int i = 0; i < f->n_in; i++)
        in |= (uint32_t)half_in(c->id, i) << i;
    for (int i = 0; i < f->n_out; i++)
        out |= (uint32_t)half_out(c->id, d, i) << i;
    f->kernel = kernel_of(d->forward, d->select, f, types);
    f->scratch_bytes = d->scratch_bytes;
    f->entry = sw_side_entry(d->name, SW_CUDA_FORWARD);
    if (f->entry == NULL) { /* gradients want its outputs all the same */
        static sw_cuda_entry none;
        f->entry = &none;
    } else if (d->n_extra > 0) { /* extras that no one reads: not there */
        fill_outputs(f, types);
        for (int o = d->n_out; o < f->n_out; o++)
            f->out[o].ptr = NULL;
        sw_entry_compare(f);
    }
    if (f->entry->kernel != NULL && types[0].dtype == SW_F32) {
        fill_outputs(f, types);
        if (sw_entry_can_add(f)) {
            f->accumulate = 1;
            fill_outputs(f, types);
            sw_entry_compare(f);
            fill_outputs(f, types);
            compare_halves(c->id, -1, f, in, out);
            f->accumulate = 0;
        }
    }
    if (f->entry->kernel != NULL && !f->refused) {
        fill_outputs(f, types);
        compare_halves(c->id, -1, f, in, out);
    }
    if (f->entry->kernel != NULL) {
        compare_places(f, types, d->inplace);
        return;
    }
    fill_outputs(f, types);
    sw_entry_cpu(f);
}

/* The operands of gradient kernel g; false where the op has none of it with these inputs. */
static bool gradient_operands(const swi_check *c, const sw_entry_run *f, int g, sw_entry_run *r,
                              uint32_t *halves)
{
    const sw_grad_desc *d = &c->desc->grads[g];
    for (int k = 0; k < d->n_operands; k++) {
        const int i = d->operands[k] & 0xff, kind = d->operands[k] & 0xf00;
        const bool half = kind == SW_IN(0) ? half_in(c->id, i) : half_out(c->id, c->desc, i);
        if (kind != SW_IN(0) || i < f->n_in)
            *halves |= (uint32_t)half << r->n_in;
        if (kind == SW_IN(0)) {
            if (i < f->n_in)
                r->in[r->n_in++] = f->in[i];
        } else if (kind == SW_OUT(0)) {
            r->in[r->n_in++] = f->out[i];
        } else {
            const sw_type *t = &f->out[i].type;
            float *plain = sw_entry_block((size_t)sw_type_elements(t) * sizeof(float), 0);
            sw_rng_normal(plain, 0, sw_type_elements(t), 9, 10, (uint32_t)k, 0);
            r->in[r->n_in++] = sw_entry_fill(t, plain, false, 0.0f, f->shift);
        }
    }
    for (int k = 0; k < d->n_makes; k++)
        if (d->makes[k] >= f->n_in || f->in[d->makes[k]].type.dtype != SW_F32)
            return false;
    return d->applies == NULL || d->applies(f->attrs);
}

static void gradient_case(swi_check *c, int g, const char *label, const sw_entry_run *f)
{
    const sw_grad_desc *d = &c->desc->grads[g];
    sw_type types[8];
    sw_entry_run r = {
        .label = label, .attrs = f->attrs, .shift = f->shift, .refused = f->refused};
    r.random = f->random;
    no_alias(&r);
    r.terms = f->terms;
    r.entry = sw_side_entry(c->desc->name, g);
    uint32_t in = 0, out = 0; /* bf16 */
    if (r.entry == NULL || !gradient_operands(c, f, g, &r, &in))
        return;
    r.n_out = d->n_makes;
    for (int k = 0; k < d->n_makes; k++)
        types[k] = f->in[d->makes[k]].type;
    for (int k = 0; k < d->n_makes; k++)
        out |= (uint32_t)half_in(c->id, d->makes[k]) << k;
    r.kernel = kernel_of(d->kernel, d->select, &r, types);
    r.scratch_bytes = d->scratch_bytes;
    const uint32_t all = (1u << d->n_makes) - 1u;
    const uint32_t masks[] = {0, all, 1, 2 & all};
    for (int m = 0; m < (all == 1 ? 2 : 4); m++) {
        r.accumulate = masks[m];
        compare_places(&r, types, d->inplace);
        fill_outputs(&r, types);
        if (!r.refused)
            compare_halves(c->id, g, &r, in, out);
    }
    if ((c->desc->skips >> g & 1u) != 0) {
        /* Without some of its gradients: every mask of them. */
        r.accumulate = 0;
        for (uint32_t none = 1; none + 1 < 1u << r.n_out; none++) {
            fill_outputs(&r, types);
            for (int o = 0; o < r.n_out; o++)
                if ((none >> o & 1u) != 0)
                    r.out[o].ptr = NULL;
            sw_entry_compare(&r);
        }
    }
}

/* Numbers with a mean much larger than their differences. */
static void far_from_zero(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] += 0x1p21f;
}

/* Eights with a mean less than the rounding of their distances to it. */
static void nearly_balanced(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = i % 8 == 6 ? 1.0f + 5.0f * 0x1p-23f : i % 2 == 0 ? 1.0f : -1.0f;
}

/* Attributes for which descriptors have no cases. */
static const swi_norm_attrs usual_norm = {.epsilon = 1e-5f, .groups = 1};
static const swi_conv_attrs near_strides = {.stride = 1, .dilation = 1, .groups = 1};
static const swi_conv_attrs both_apart = {.stride = 2, .pad = 1, .dilation = 2, .groups = 3};
static const swi_conv_attrs far_strides = {.stride = 3, .dilation = 1, .groups = 1};
static const swi_random_attrs long_random = {{2, {71, 73}}}, no_random = {{2, {3, 0}}};
static const struct {
    const char *op;
    sw_op_case one;
    void (*change)(float *x, int64_t n); /* the first input, of this size; NULL: it stays */
} more_cases[] = {
    {"from_n16", {.name = "tail", .n_in = 1, .in = {{SW_F32, SW_N16, {4, {19, 3, 5, 4}}}}}},
    {"from_n16", {.name = "one", .n_in = 1, .in = {{SW_F32, SW_N16, {4, {1, 2, 3, 3}}}}}},
    {"rand", {.name = "long", .attrs = &long_random}},
    {"rand", {.name = "nothing", .attrs = &no_random}},
    {"randn", {.name = "long", .attrs = &long_random}},
    {"batch_norm", SW_INIT(.name = "several parts", .n_in = 3,
                           .in = {{SW_F32, SW_PLAIN, {3, {3, 2, 2804}}},
                                  {SW_F32, SW_PLAIN, {1, {2}}},
                                  {SW_F32, SW_PLAIN, {1, {2}}}},
                           .attrs = &usual_norm)},
    {"group_norm", SW_INIT(.name = "several parts", .n_in = 3,
                           .in = {{SW_F32, SW_PLAIN, {3, {1, 2, 8316}}},
                                  {SW_F32, SW_PLAIN, {1, {2}}},
                                  {SW_F32, SW_PLAIN, {1, {2}}}},
                           .fill = {SW_FILL_UNIT}, .attrs = &usual_norm)},
    {"layer_norm",
     SW_INIT(.name = "far from 0", .n_in = 1, .in = {{SW_F32, SW_PLAIN, {2, {5, 36}}}},
             .attrs = &usual_norm),
     far_from_zero},
    {"layer_norm",
     SW_INIT(.name = "nearly balanced", .n_in = 1, .in = {{SW_F32, SW_PLAIN, {2, {3, 8}}}},
             .attrs = &usual_norm),
     nearly_balanced},
    {"conv2d",
     {.name = "a stride beyond the image",
      .n_in = 2,
      .in = {{SW_F32, SW_PLAIN, {4, {2, 3, 2, 5}}}, {SW_F32, SW_PLAIN, {4, {4, 3, 2, 2}}}},
      .attrs = &far_strides}},
    {"conv2d", SW_INIT(.name = "several tiles of channels", .n_in = 3,
                       .in = {{SW_F32, SW_PLAIN, {4, {1, 2, 3, 3}}},
                              {SW_F32, SW_PLAIN, {4, {130, 2, 2, 2}}},
                              {SW_F32, SW_PLAIN, {1, {130}}}},
                       .attrs = &near_strides)},
    {"conv2d",
     {.name = "depthwise, places and taps apart",
      .n_in = 2,
      .in = {{SW_F32, SW_PLAIN, {4, {2, 3, 7, 8}}}, {SW_F32, SW_PLAIN, {4, {3, 1, 3, 3}}}},
      .attrs = &both_apart}},
    {"copy", {.name = "bytes", .n_in = 1, .in = {{SW_U8, SW_PLAIN, {2, {5, 7}}}}}},
    {"copy", {.name = "doubles", .n_in = 1, .in = {{SW_F64, SW_PLAIN, {2, {5, 7}}}}}},
};

/* Few different ones, so that neighbours are equal and limits are met; NaNs and infinities
 * among them, and -inf alone for a while, as a window may find it. */
static void odd_numbers(float *x, int64_t n)
{
    static const float few[] = {0.0f, -0.5f, 1.0f, -0.0f, 0.9f, 2.0f, -1.0f, 0.5f};
    for (int64_t i = 0; i < n; i++) {
        x[i] = few[(i + i / 5) % 8];
        if (i % 41 == 7 || i % 53 == 11)
            x[i] = i % 41 == 7 ? NAN : INFINITY;
        if (i % 120 >= 90)
            x[i] = -INFINITY;
    }
}

static bool run_case(uint32_t id, const sw_op_desc *desc, const sw_op_case *as,
                     const variant *v, void (*change)(float *x, int64_t n))
{
    static swi_check c;
    if (getenv("STEPWELL_CUDA_OPS") != NULL && CU_get_number_of_failures() > 0)
        return false; /* one is enough to catch a mutant */
    sw_op_case spec = *as;
    if ((change != NULL && v->grow != 0) || !vary(desc, v, &spec))
        return false;
    sw_op_desc with = *desc;
    with.cases = &spec;
    with.n_cases = 1;
    with.no_gradient = 1; /* of the check: no model is needed */
    with.rule = NULL;
    memset(&c, 0, sizeof c);
    c.id = id;
    c.desc = &with;
    if (!SW_CHECK(swi_check_begin(&c, 0) == SW_OK, "%s, %s%s: %s", desc->name, spec.name,
                  v->name, sw_last_error()))
        return false;
    for (int i = 0; i < c.n_in && v->odd; i++)
        if (c.in[i].type.dtype == SW_F32)
            odd_numbers(c.in[i].data, c.in[i].n);
    if (change != NULL)
        change(c.in[0].data, c.in[0].n);
    sw_entry_run f;
    forward_case(&c, v, sw_textf("%s, %s%s", desc->name, spec.name, v->name), &f);
    for (int g = 0; g < desc->n_grads; g++) {
        gradient_case(&c, g,
                      sw_textf("%s, %s%s, gradient %d", desc->name, spec.name, v->name, g), &f);
    }
    swi_check_end(&c);
    sw_entry_free();
    return true;
}

/* ---- tests ------------------------------------------------------------------------------- */

static const sw_op_desc *op_named(const char *name, uint32_t *id)
{
    for (*id = 0; sw_op_at(*id) != NULL; (*id)++)
        if (strcmp(sw_op_at(*id)->name, name) == 0)
            return sw_op_at(*id);
    return NULL;
}

/* $STEPWELL_CUDA_OPS, ",add,mul,": these alone (mutate.py). */
static bool is_asked_for(const char *op)
{
    const char *only = getenv("STEPWELL_CUDA_OPS");
    const char *word = sw_textf(",%s,", op);
    return only == NULL || strstr(only, word) != NULL;
}

#define VARIANTS (sizeof variants / sizeof *variants)

/* Quick mode takes each variant with one case, and as they stand every fourth case. Mutants
 * meet all. */
static bool is_quick(int k, int n_cases, size_t v)
{
    return (v == 0 && k % 4 == 0) || sw_tests_full() || getenv("STEPWELL_CUDA_OPS") != NULL ||
           (size_t)k == v % (size_t)(n_cases < 4 ? n_cases : 4);
}

static uint32_t cases_of(uint32_t id, const sw_op_desc *desc)
{
    uint32_t n = 0;
    for (int k = 0; k < desc->n_cases; k++)
        for (size_t v = 0; v < VARIANTS; v++)
            if (is_quick(k, desc->n_cases, v))
                n += run_case(id, desc, &desc->cases[k], &variants[v], NULL);
    for (size_t k = 0; k < sizeof more_cases / sizeof *more_cases; k++)
        for (size_t v = 0; strcmp(more_cases[k].op, desc->name) == 0 && v < VARIANTS; v++)
            if (is_quick((int)k % 4, 4, v))
                n += run_case(id, desc, &more_cases[k].one, &variants[v], more_cases[k].change);
    return n;
}

SW_TEST("entries do what the CPU does")
{
    const sw_cuda_module *module = sw_side_module();
    const char *last = "";
    const uint32_t drawn = sw_entry_draws;
    uint32_t id, n_cases = 0, n_ops = 0, n_random = 0;
    n_halves = 0;
    for (uint32_t e = 0; e < module->n_entries; e++) /* pieces find their kernels there */
        if (op_named(module->entries[e].op, &id) != NULL)
            swi_device_entries[id][module->entries[e].which + 1] = &module->entries[e];
    for (uint32_t e = 0; e < module->n_entries && !sw_side_broken(); e++) {
        const char *name = module->entries[e].op;
        const sw_op_desc *desc = op_named(name, &id);
        if (strcmp(name, last) == 0 || !is_asked_for(name) ||
            !SW_CHECK(desc != NULL, "no op %s", name))
            continue;
        last = name;
        n_ops++;
        n_random += desc->random != 0 && desc->n_cases > 0;
        n_cases += cases_of(id, desc);
    }
    CU_ASSERT(sw_entry_draws - drawn >= 2 * n_random);
    CU_ASSERT(n_halves > n_cases || getenv("STEPWELL_CUDA_OPS") != NULL || sw_side_broken());
    sw_note("%u entries of %u ops, %u cases, %u launches in bf16", module->n_entries, n_ops,
            n_cases, n_halves);
    sw_side_tell();
}

/* The table names ops and gradient kernels that there are, each once. */
SW_TEST("the table is of this list of ops")
{
    const sw_cuda_module *module = sw_side_module();
    uint32_t id;
    for (uint32_t e = 0; e < module->n_entries; e++) {
        const sw_cuda_entry *entry = &module->entries[e];
        const sw_op_desc *desc = op_named(entry->op, &id);
        SW_CHECK(desc != NULL && entry->which < desc->n_grads, "%s %d", entry->op,
                 entry->which);
        CU_ASSERT_PTR_EQUAL(sw_side_entry(entry->op, entry->which), entry);
        CU_ASSERT_PTR_NOT_NULL(entry->kernel);
    }
}

static bool is_listed_as_missing(const char *op)
{
    static const char *const ops[] = {
#define SW_MISSING(op) #op,
#include "tests/cuda/missing.def"
#undef SW_MISSING
        NULL};
    for (size_t i = 0; ops[i] != NULL; i++)
        if (strcmp(ops[i], op) == 0)
            return true;
    return false;
}

/* Each op but views has an entry for its forward kernel and for each gradient kernel, or stands
 * in missing.def; none stands there that has them all. */
SW_TEST("what a device has not is listed")
{
    uint32_t listed = 0;
    for (uint32_t id = 0; sw_op_at(id) != NULL; id++) {
        const sw_op_desc *d = sw_op_at(id);
        int missing = d->n_grads;
        for (int g = SW_CUDA_FORWARD; d->view == NULL && g < d->n_grads; g++)
            if (sw_side_entry(d->name, g) == NULL && missing == d->n_grads)
                missing = g;
        const bool is = missing < d->n_grads;
        listed += is;
        if (is_listed_as_missing(d->name))
            SW_CHECK(is, "%s has all of its entries: missing.def need not name it", d->name);
        else
            SW_CHECK(!is, "%s: no entry for its kernel %d, and no line in missing.def", d->name,
                     missing);
    }
    sw_note("%u ops have no kernels on a device", listed);
}
