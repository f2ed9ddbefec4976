/* Every kernel that takes bf16, over the cases of its op, against the float32 kernel on the
 * same numbers, whose results are rounded. Pieces have the same bits, but for sums over them;
 * they are one unit, a few, and all. Products, in both orders, are near. */
#include "kernels/dispatch.h"
#include "kernels/halves.h"
#include "runtime/device/pieces.h"
#include "runtime/ops/ops.h"
#include "tests/support/suite.h"
#include <math.h>
#include <string.h>

SW_TESTS("ops in bf16")

static uint32_t state;
static sw_bf16_order order; /* NONE: pieces alone */
static bool stored;         /* the weight alone is bf16, and all bits count */
static int n_direct;        /* kernels that ran on bf16 themselves */

static uint32_t draw(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

typedef struct {
    sw_type type, wide; /* wide: with float32 in the place of bf16 */
    void *bytes;        /* of type */
    float *floats;      /* of wide, where numbers */
    bool counted;       /* a bf16 result, or one of float32 that is cut: bits count */
} tensor;

typedef struct {
    uint32_t op;
    const sw_op_desc *desc;
    const sw_op_case *c;
    tensor in[8], out[8], dout[8]; /* of the forward op */
    int n_out;
} subject;

static bool is_weight(uint32_t op, int i)
{
    const swi_op_halves word = swi_op_traits_of(op)->halves;
    return i > 0 && (op == SW_OP_linear || op == SW_OP_linear_ce || word == SWI_HALVES_ROWS ||
                     word == SWI_HALVES_LOOKUP || word == SWI_HALVES_GROUPS ||
                     word == SWI_HALVES_CONV || word == SWI_HALVES_CHANNELS);
}

static tensor make(const sw_type *wide, bool half, sw_fill fill, int64_t limit, bool gradient)
{
    tensor t = {.type = *wide, .wide = *wide};
    const int64_t n = sw_type_elements(wide);
    if (half)
        t.type.dtype = SW_BF16;
    t.bytes = sw_block(sw_type_bytes(&t.type) + 64);
    if (wide->dtype != SW_F32) {
        for (int64_t i = 0; i < n; i++) {
            const int64_t id = draw() % (uint32_t)(fill == SW_FILL_BYTES ? 256
                                                   : limit > 0           ? limit
                                                                         : 2);
            if (wide->dtype == SW_I32)
                ((int32_t *)t.bytes)[i] = (int32_t)id;
            else if (wide->dtype == SW_U16)
                ((uint16_t *)t.bytes)[i] = (uint16_t)id;
            else
                ((uint8_t *)t.bytes)[i] = (uint8_t)id;
        }
        return t;
    }
    t.floats = sw_block(sw_type_bytes(wide) + 64);
    for (int64_t i = 0; i < n; i++) {
        const int64_t lane = i % 16, images = wide->shape.dim[0];
        const int64_t block = wide->layout == SW_N16 ? i / (n / ((images + 15) / 16)) : 0;
        float x = (float)(int)(draw() % 2001) * 1e-3f;
        x = fill == SW_FILL_UNIT ? x / 2.0f : fill == SW_FILL_AWAY ? x + 0.1f : x - 1.0f;
        if (fill == SW_FILL_AWAY && draw() % 2 != 0)
            x = -x;
        if (gradient && wide->layout == SW_N16 && block * 16 + lane >= images)
            x = 0.0f;
        t.floats[i] = sw_bf16_widen(sw_bf16_round(x));
        if (half)
            ((uint16_t *)t.bytes)[i] = sw_bf16_round(x);
        else
            ((float *)t.bytes)[i] = t.floats[i];
    }
    return t;
}

static sw_buffer buffer_of(const tensor *t, bool half)
{
    sw_buffer b = {
        half || t->floats == NULL ? t->bytes : t->floats, half ? t->type : t->wide, {0}};
    int64_t step = 1;
    for (int i = b.type.shape.rank - 1; i >= 0; i--) {
        b.stride[i] = step;
        step *= b.type.shape.dim[i];
    }
    return b;
}

static void *copy_of(const void *bytes, size_t n)
{
    return memcpy(sw_block(n + 64), bytes, n);
}

/* Parts of the work in another order: no piece may need what the one before it left. */
static void run_last_first(const sw_par *par, void (*body)(void *, int), void *arg, int n)
{
    (void)par;
    while (n-- > 0)
        body(arg, n);
}

static const sw_par last_first = {1, run_last_first};

/* One kernel, both ways; results begin at random numbers, which it may add to. */
static void hold(subject *s, int grad, tensor *const *in, int n_in, tensor *made, int n_made,
                 const bool *summed, bool adds, bool keep)
{
    sw_buffer wide[16], half[16];
    sw_type types[16];
    sw_kernel_info info = {.in = types,
                           .out = types + n_in,
                           .n_in = n_in,
                           .n_out = n_made,
                           .attrs = s->c->attrs,
                           .threads = 1,
                           .isa = sw_cpu_isa(),
                           .accumulate = adds ? (1u << n_made) - 1 : 0};
    const sw_grad_desc *g = grad >= 0 ? &s->desc->grads[grad] : NULL;
    tensor twin[8];
    for (int i = 0; i < n_in; i++) {
        wide[i] = buffer_of(in[i], false);
        half[i] = buffer_of(in[i], true);
    }
    for (int i = 0; i < n_made; i++) {
        twin[i] = made[i];
        twin[i].bytes = copy_of(made[i].bytes, sw_type_bytes(&made[i].type));
        wide[n_in + i] = buffer_of(&made[i], false); /* codes: both ways write them */
        half[n_in + i] = buffer_of(&twin[i], true);
    }
    for (int i = 0; i < n_in + n_made; i++)
        types[i] = half[i].type;
    const swi_op_halves word = swi_op_traits_of(s->op)->halves;
    const bool pieces = swi_goes_in_pieces(s->op, grad, &info, false);
    const bool depthwise = s->op == SW_OP_conv2d && s->c->in[1].shape.dim[1] == 1;
    const bool exact = pieces || depthwise || word == SWI_HALVES_FUNCTION ||
                       word == SWI_HALVES_CHANNELS || word == SWI_HALVES_PLANES;
    if (!stored && !exact && (order == SW_ORDER_NONE || word == SWI_HALVES_MOVES))
        return;
    n_direct += !pieces;
    sw_launch l = {.size = sizeof l,
                   .in = half,
                   .n_in = n_in,
                   .out = half + n_in,
                   .n_out = n_made,
                   .attrs = s->c->attrs,
                   .accumulate = info.accumulate,
                   .par = pieces ? &last_first : &sw_par_alone,
                   .isa = info.isa,
                   .seed = 7,
                   .stream = 3,
                   .step = 5,
                   .op = s->op,
                   .grad = grad,
                   .order = order};
    size_t (*bytes)(const sw_kernel_info *) =
        g != NULL ? g->scratch_bytes : s->desc->scratch_bytes;
    sw_kernel *kernel = g != NULL ? g->kernel : s->desc->forward;
    l.scratch_bytes = pieces          ? swi_pieces_bytes(s->op, grad, &info, NULL, 0)
                      : bytes != NULL ? bytes(&info)
                                      : 0;
    l.scratch = aligned_alloc(64, (l.scratch_bytes + 127) / 64 * 64);
    CU_ASSERT_EQUAL(pieces ? swi_in_pieces(&l) : kernel(&l), SW_OK);
    free(l.scratch);
    for (int i = 0; i < n_in + n_made; i++)
        types[i] = wide[i].type;
    l.par = &sw_par_alone;
    l.in = wide, l.out = wide + n_in;
    CU_ASSERT(!stored || l.scratch_bytes == (bytes != NULL ? bytes(&info) : 0));
    l.scratch_bytes = bytes != NULL ? bytes(&info) : 0;
    l.scratch = aligned_alloc(64, (l.scratch_bytes + 127) / 64 * 64);
    CU_ASSERT_EQUAL(kernel(&l), SW_OK);
    free(l.scratch);
    for (int i = 0; i < n_made; i++) {
        const int64_t n = sw_type_elements(&made[i].type);
        const char *where =
            sw_textf("%s '%s' grad %d output %d, pieces of %zu bytes, %s", s->desc->name,
                     s->c->name, grad, i, swi_piece_bytes, adds ? "added" : "written");
        int64_t wrong = -1;
        float largest = 0.0f;
        for (int64_t k = 0; k < n && made[i].floats != NULL; k++)
            largest = fmaxf(largest, fabsf(made[i].floats[k]));
        for (int64_t k = 0; k < n && wrong < 0; k++) {
            if (made[i].floats == NULL) {
                const size_t size = sw_dtype_bytes(made[i].type.dtype);
                if (memcmp((char *)twin[i].bytes + (size_t)k * size,
                           (char *)made[i].bytes + (size_t)k * size, size) != 0)
                    wrong = k;
                continue;
            }
            const float want = made[i].floats[k];
            const float got = made[i].type.dtype == SW_BF16
                                  ? sw_bf16_widen(((uint16_t *)twin[i].bytes)[k])
                                  : ((float *)twin[i].bytes)[k];
            const float rounded =
                made[i].type.dtype == SW_BF16 ? sw_bf16_widen(sw_bf16_round(want)) : want;
            const float error =
                stored      ? 0.0f
                : !exact    ? 1e-4f + largest / 64.0f
                : summed[i] ? 1e-5f * (1.0f + (float)sqrt((double)n)) +
                                  fabsf(rounded) / 128.0f * (made[i].type.dtype == SW_BF16)
                            : 0.0f;
            if (!(fabsf(got - rounded) <= error) && !(isnan(got) && isnan(rounded)))
                wrong = k;
        }
        SW_CHECK(wrong < 0, "%s: element %lld of %lld: %g, not %g", where, (long long)wrong,
                 (long long)n,
                 wrong >= 0 && made[i].floats != NULL && made[i].type.dtype == SW_BF16
                     ? (double)sw_bf16_widen(((uint16_t *)twin[i].bytes)[wrong])
                 : wrong >= 0 && made[i].floats != NULL
                     ? (double)((float *)twin[i].bytes)[wrong]
                     : 0.0,
                 wrong >= 0 && made[i].floats != NULL ? (double)made[i].floats[wrong] : 0.0);
        if (keep && made[i].type.dtype == SW_BF16)
            for (int64_t k = 0; k < n; k++) {
                ((uint16_t *)made[i].bytes)[k] = sw_bf16_round(made[i].floats[k]);
                made[i].floats[k] = sw_bf16_widen(((uint16_t *)made[i].bytes)[k]);
            }
        else if (keep && made[i].floats != NULL)
            memcpy(made[i].bytes, made[i].floats, sw_type_bytes(&made[i].type));
    }
}

static void gradients(subject *s, bool adds)
{
    for (int g = 0; g < s->desc->n_grads; g++) {
        const sw_grad_desc *grad = &s->desc->grads[g];
        tensor *in[16], made[8];
        bool summed[8], there = true;
        int n = 0;
        for (int k = 0; k < grad->n_operands; k++) {
            const uint32_t i = SWI_OPERAND_INDEX(grad->operands[k]);
            const uint32_t kind = SWI_OPERAND_KIND(grad->operands[k]);
            if (kind == SW_IN(0) && (int)i >= s->c->n_in)
                continue;
            in[n++] = kind == SW_IN(0)    ? &s->in[i]
                      : kind == SW_OUT(0) ? &s->out[i]
                                          : &s->dout[i];
        }
        for (int k = 0; k < grad->n_makes; k++) {
            there &= grad->makes[k] < s->c->n_in;
            if (!there)
                break;
            const tensor *x = &s->in[grad->makes[k]];
            there &= x->floats != NULL && (!stored || x->type.dtype == SW_F32);
            made[k] = make(&x->wide, x->type.dtype == SW_BF16, SW_FILL_NORMAL, 0, true);
            summed[k] = is_weight(s->op, grad->makes[k]) ||
                        swi_op_traits_of(s->op)->halves == SWI_HALVES_PRODUCT;
        }
        if (there && (grad->applies == NULL || grad->applies(s->c->attrs)))
            hold(s, g, in, n, made, grad->n_makes, summed, adds, false);
    }
}

static void hold_case(uint32_t op, const sw_op_case *c)
{
    const sw_op_desc *desc = swi_op(op);
    subject s = {.op = op, .desc = desc, .c = c, .n_out = desc->n_out + desc->n_extra};
    sw_type wide[8], out[8] = {0};
    tensor *in[8];
    const bool none[8] = {false}, loss = swi_op_traits_of(op)->halves == SWI_HALVES_LOSS;
    const bool reads = swi_op_traits_of(op)->halves == SWI_HALVES_READS;
    if (c->n_in > 8)
        return;
    for (int i = 0; i < c->n_in; i++)
        wide[i] = c->in[i < 4 ? i : 3];
    const sw_layout layout =
        desc->layout != NULL ? desc->layout(wide, c->n_in, c->attrs) : SW_PLAIN;
    for (int i = 0; i < c->n_in; i++) {
        const bool image = desc->image_in == 0 || (desc->image_in >> i & 1u) != 0;
        if (wide[i].shape.rank == 4 && image)
            wide[i].layout = op == SW_OP_from_n16 ? SW_N16 : layout;
        s.in[i] = make(&wide[i],
                       stored ? i == swi_stored_input(op, -1, c->attrs)
                              : wide[i].dtype == SW_F32 && !is_weight(op, i) &&
                                    wide[i].shape.rank > 0,
                       c->fill[i < 4 ? i : 3], c->limit, false);
        in[i] = &s.in[i];
    }
    CU_ASSERT_EQUAL_FATAL(desc->infer(wide, c->n_in, c->attrs, out), SW_OK);
    for (int i = 0; i < s.n_out; i++) {
        const bool half =
            !stored && out[i].dtype == SW_F32 && !reads && (loss ? i == 1 : i < desc->n_out);
        s.out[i] = make(&out[i], half, SW_FILL_NORMAL, 0, false);
        s.dout[i] = make(&out[i], half, SW_FILL_NORMAL, 0, true);
    }
    hold(&s, -1, in, c->n_in, s.out, s.n_out, none, false, true);
    gradients(&s, false);
    gradients(&s, true);
}

SW_TEST("pieces have the bits of the whole, and products are near")
{
    const size_t sizes[] = {1, 4096, swi_piece_bytes}, usual = swi_piece_bytes;
    int cases = 0;
    n_direct = 0;
    for (int k = 0; k < 3; k++) {
        swi_piece_bytes = sizes[k];
        order = (sw_bf16_order)k;
        for (uint32_t op = 0; op < SW_OPS_INSIDE; op++) {
            const swi_op_halves word = swi_op_traits_of(op)->halves;
            const sw_op_desc *desc = swi_op(op);
            if (word <= SWI_HALVES_NEVER || desc->forward == NULL)
                continue;
            for (int i = 0; i < desc->n_cases; i++, cases++) {
                const size_t mark = sw_after_mark();
                state = (uint32_t)(op * 1000 + (uint32_t)i);
                hold_case(op, &desc->cases[i]);
                sw_after_since(mark);
            }
        }
    }
    swi_piece_bytes = usual;
    CU_ASSERT(cases > 300);
    CU_ASSERT(n_direct > 100);
    sw_note("%d kernels read bf16 themselves", n_direct);
}

SW_TEST("a stored weight has the bits and the scratch of float32")
{
    static const uint32_t ops[] = {SW_OP_linear, SW_OP_embedding, SW_OP_linear_ce};
    stored = true;
    order = SW_ORDER_PAIR;
    n_direct = 0;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < swi_op(ops[k])->n_cases; i++) {
            state = (uint32_t)(k * 1000 + i);
            hold_case(ops[k], &swi_op(ops[k])->cases[i]);
        }
    stored = false;
    CU_ASSERT(n_direct >= 16);
}
