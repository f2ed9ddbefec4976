/* The one table of ops: the ones inside, from ops.def, then the registered ones. */
#include "alloc/base/assert.h"
#include "runtime/base/common.h"
#include "runtime/base/structs.h"
#include <stdio.h>
#include <string.h>

/* The words of ops.def as a table. */

static const swi_op_traits inside_traits[] = {
#define SW_OP(op, call, work, duty, axes, noise, halves)                                       \
    {SWI_CALL_##call, SWI_WORK_##work,   SWI_DUTY_##duty,                                      \
     SWI_AXES_##axes, SWI_NOISE_##noise, SWI_HALVES_##halves},
#include "runtime/ops.def"
#undef SW_OP
};

static const swi_op_traits outside = {SWI_CALL_OWN,  SWI_WORK_LOOPS, SWI_DUTY_NONE,
                                      SWI_AXES_NONE, SWI_NOISE_NONE, SWI_HALVES_NONE};

const swi_op_traits *swi_op_traits_of(uint32_t op)
{
    return op < SW_OPS_INSIDE ? &inside_traits[op] : &outside;
}

uint32_t swi_op_with(swi_op_duty duty)
{
    uint32_t op = 0;
    while (op < SW_OPS_INSIDE && inside_traits[op].duty != duty)
        op++;
    SW_ASSERT(op < SW_OPS_INSIDE);
    return op;
}

int swi_stored_input(uint32_t op, int grad, const void *attrs)
{
    const swi_op_axes axes = swi_op_traits_of(op)->axes;
    if (op == SW_OP_in_strips) /* before a product its weight */
        return ((const swi_strips_attrs *)attrs)->kind == SWI_STRIPS_PRODUCT ? 1 : -1;
    if (grad >= 0)
        return axes == SWI_AXES_LINEAR && grad == 0 ? 0 : -1; /* of x */
    return axes == SWI_AXES_LINEAR || axes == SWI_AXES_LINEAR_LOSS || axes == SWI_AXES_LOOKUP
               ? 1
               : -1;
}

bool swi_op_is_private(uint32_t id)
{
    return swi_op_traits_of(id)->call == SWI_CALL_OPTIMIZER;
}

/* ---- op table ---------------------------------------------------------------------------- */

#define MAX_REGISTERED 256

static const sw_op_desc *const *inside; /* SW_OPS_INSIDE of them, once registered */
#define N_INSIDE ((uint32_t)SW_OPS_INSIDE)

/* Descriptors are copied into static storage: an op outlives every model and exec. */
static sw_op_desc registered[MAX_REGISTERED];
static uint32_t n_registered;

static uint32_t op_count(void)
{
    return N_INSIDE + __atomic_load_n(&n_registered, __ATOMIC_ACQUIRE);
}

const sw_op_desc *swi_op(uint32_t id)
{
    if (id < N_INSIDE) {
        SW_ASSERT(inside != NULL); /* swi_ops_register runs when the library is loaded */
        return inside[id];
    }
    return id < op_count() ? &registered[id - N_INSIDE] : NULL;
}

void swi_ops_register(const sw_op_desc *const *descs)
{
    inside = descs;
}

/* ---- descriptors from outside ------------------------------------------------------------ */

static bool all_zero(const uint64_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (words[i] != 0)
            return false;
    return true;
}

/* A mask of which only the first n bits may be set. */
static bool has_bits_above(uint32_t mask, int n)
{
    return n < 32 && mask >> n != 0;
}

static sw_status check_grads(const sw_op_desc *d)
{
    if (d->n_grads < 0 || d->n_grads > 32 || (d->n_grads > 0 && d->grads == NULL))
        SW_FAIL(SW_INVALID, "op %s: n_grads must be 0, or 1 to 32 with grads (got %d)", d->name,
                d->n_grads);
    if (d->n_grads > 0 && d->rule != NULL)
        SW_FAIL(SW_INVALID, "op %s: grads and rule exclude each other", d->name);
    if (d->n_grads > 0 && d->max_in > 32)
        SW_FAIL(SW_INVALID, "op %s: max_in must be at most 32 with grads (got %d)", d->name,
                d->max_in);
    if ((d->skips >> d->n_grads) != 0)
        SW_FAIL(SW_INVALID, "op %s: skips is 0x%llx with %d grads", d->name,
                (unsigned long long)d->skips, d->n_grads);
    for (int g = 0; g < d->n_grads; g++) {
        const sw_grad_desc *grad = &d->grads[g];
        if (grad->kernel == NULL && grad->select == NULL)
            SW_FAIL(SW_INVALID, "op %s: grads[%d] has neither kernel nor select", d->name, g);
        uint32_t made = 0;
        if (grad->n_makes < 1 || grad->n_makes > SWI_MAX_MAKES)
            SW_FAIL(SW_INVALID, "op %s: grads[%d].n_makes must be 1 to %d (got %d)", d->name, g,
                    SWI_MAX_MAKES, grad->n_makes);
        for (int k = 0; k < grad->n_makes; k++) {
            if (grad->makes[k] >= d->max_in)
                SW_FAIL(SW_INVALID, "op %s: grads[%d].makes[%d] is input %d, and the op has %d",
                        d->name, g, k, grad->makes[k], d->max_in);
            if ((made >> grad->makes[k] & 1u) != 0)
                SW_FAIL(SW_INVALID, "op %s: grads[%d].makes names input %d twice", d->name, g,
                        grad->makes[k]);
            made |= 1u << grad->makes[k];
        }

        const int most = (int)(sizeof grad->operands / sizeof *grad->operands);
        if (grad->n_operands < 0 || grad->n_operands > most)
            SW_FAIL(SW_INVALID, "op %s: grads[%d].n_operands must be 0 to %d (got %d)", d->name,
                    g, most, grad->n_operands);
        for (int j = 0; j < grad->n_operands; j++) {
            const uint32_t kind = SWI_OPERAND_KIND(grad->operands[j]);
            const int i = (int)SWI_OPERAND_INDEX(grad->operands[j]);
            const int n = kind == SW_IN(0)     ? d->max_in
                          : kind == SW_OUT(0)  ? d->n_out + d->n_extra
                          : kind == SW_DOUT(0) ? d->n_out
                                               : -1;
            if (n < 0)
                SW_FAIL(
                    SW_INVALID,
                    "op %s: grads[%d].operands[%d] must be SW_IN, SW_OUT or SW_DOUT (got 0x%x)",
                    d->name, g, j, grad->operands[j]);
            if (i >= n)
                SW_FAIL(SW_INVALID, "op %s: grads[%d].operands[%d] names %s(%d) of %d", d->name,
                        g, j,
                        kind == SW_IN(0)    ? "SW_IN"
                        : kind == SW_OUT(0) ? "SW_OUT"
                                            : "SW_DOUT",
                        i, n);
        }
        if (has_bits_above(grad->inplace, grad->n_operands))
            SW_FAIL(SW_INVALID, "op %s: grads[%d].inplace is 0x%x with %d operands", d->name, g,
                    grad->inplace, grad->n_operands);
    }
    return SW_OK;
}

static sw_status check_desc(const sw_op_desc *d)
{
    if (d->infer == NULL)
        SW_FAIL(SW_INVALID, "op %s: infer must not be NULL", d->name);
    if (d->forward == NULL && d->select == NULL && d->view == NULL)
        SW_FAIL(SW_INVALID, "op %s: one of forward, select and view must be set", d->name);
    /* Counts, before anything is measured by them. */
    const int most = SWI_MAX_OPERANDS - 4;
    if (d->n_in < 0 || d->n_in > 16)
        SW_FAIL(SW_INVALID, "op %s: n_in must be 0 to 16 (got %d)", d->name, d->n_in);
    if (d->max_in < d->n_in || d->max_in > most)
        SW_FAIL(SW_INVALID, "op %s: max_in must be n_in (%d) to %d (got %d)", d->name, d->n_in,
                most, d->max_in);
    if (d->n_out < 1 || d->n_out > 8)
        SW_FAIL(SW_INVALID, "op %s: n_out must be 1 to 8 (got %d)", d->name, d->n_out);
    if (d->n_extra < 0 || d->n_extra > 8)
        SW_FAIL(SW_INVALID, "op %s: n_extra must be 0 to 8 (got %d)", d->name, d->n_extra);
    if (d->max_in + d->n_out + d->n_extra > SWI_MAX_OPERANDS)
        SW_FAIL(SW_INVALID,
                "op %s: max_in, n_out and n_extra together must be at most %d (got %d)",
                d->name, SWI_MAX_OPERANDS, d->max_in + d->n_out + d->n_extra);
    if (d->attrs_bytes > 512)
        SW_FAIL(SW_INVALID, "op %s: attrs_bytes must be at most 512 (got %zu)", d->name,
                d->attrs_bytes);

    if (d->view != NULL) {
        if (d->n_in != 1 || d->max_in != 1 || d->n_out != 1 || d->n_extra != 0)
            SW_FAIL(SW_INVALID,
                    "op %s: a view must have one input, one output and no extra (got n_in %d, "
                    "max_in %d, n_out %d, n_extra %d)",
                    d->name, d->n_in, d->max_in, d->n_out, d->n_extra);
        if (d->forward != NULL || d->select != NULL || d->scratch_bytes != NULL ||
            d->inplace != 0)
            SW_FAIL(SW_INVALID,
                    "op %s: a view must leave forward, select, scratch_bytes and inplace empty",
                    d->name);
    }
    if (d->has_phase && (unsigned)d->phase >= SW_PHASES)
        SW_FAIL(SW_INVALID, "op %s: phase must be 0 to %d (got %d)", d->name, SW_PHASES - 1,
                (int)d->phase);
    if (has_bits_above(d->image_in, d->max_in))
        SW_FAIL(SW_INVALID, "op %s: image_in is 0x%x with %d inputs", d->name, d->image_in,
                d->max_in);
    if (has_bits_above(d->inplace, d->max_in))
        SW_FAIL(SW_INVALID, "op %s: inplace is 0x%x with %d inputs", d->name, d->inplace,
                d->max_in);
    SW_TRY(check_grads(d));
    if (d->n_cases < 0 || (d->n_cases > 0 && d->cases == NULL))
        SW_FAIL(SW_INVALID, "op %s: n_cases must be 0 without cases (got %d)", d->name,
                d->n_cases);
    for (int i = 0; i < d->n_cases; i++) {
        const sw_op_case *c = &d->cases[i];
        if (c->n_in < d->n_in || c->n_in > d->max_in)
            SW_FAIL(SW_INVALID, "op %s: cases[%d].n_in is %d, the op has %d to %d inputs",
                    d->name, i, c->n_in, d->n_in, d->max_in);
        if (c->attrs == NULL && d->attrs_bytes > 0)
            SW_FAIL(SW_INVALID, "op %s: cases[%d].attrs is NULL, attrs_bytes is %zu", d->name,
                    i, d->attrs_bytes);
        if (!all_zero(c->reserved, sizeof c->reserved / sizeof *c->reserved))
            SW_FAIL(SW_INVALID, "op %s: cases[%d].reserved must be zero", d->name, i);
    }
    return SW_OK;
}

sw_status swi_op_register(const sw_op_desc *desc, uint32_t *id)
{
    SW_TRY(swi_given(desc != NULL && id != NULL, "desc and id", "sw_op_register"));
    sw_op_desc d;
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_op_desc, &d, desc, "sw_op_register"));
    if (d.name == NULL || d.name[0] == '\0' || strlen(d.name) > 40)
        SW_FAIL(SW_INVALID, "sw_op_register: the name must have 1 to 40 bytes");
    if (d.max_in == 0)
        d.max_in = d.n_in;
    SW_TRY(check_desc(&d));
    for (uint32_t i = 0; i < op_count(); i++)
        if (strcmp(swi_op(i)->name, d.name) == 0)
            SW_FAIL(SW_INVALID, "an op named '%s' exists", d.name);
    const uint32_t n = __atomic_load_n(&n_registered, __ATOMIC_ACQUIRE);
    if (n == MAX_REGISTERED)
        SW_FAIL(SW_NOMEM, "op %s: at most %d ops can be registered from outside", d.name,
                MAX_REGISTERED);
    registered[n] = d;
    registered[n].size = sizeof d;
    __atomic_store_n(&n_registered, n + 1, __ATOMIC_RELEASE);
    *id = N_INSIDE + n;
    return SW_OK;
}

/* ---- op words ---------------------------------------------------------------------------- */

/* Of ops inside: words after the layer, "%s" is input or gradient, and one word for what it
 * makes. Others have their name, with blanks: "noise_linear" is "noise linear". */
static const struct {
    uint32_t op;
    const char *words, *word;
} plain[] = {
    {SW_OP_to_n16, "%s repacked for SIMD", "repacked"},
    {SW_OP_from_n16, "%s unpacked from SIMD blocks", "unpacked"},
    {SW_OP_neuron_utility, "utility of its units", "utility"},
    {SW_OP_dropout_by, "dropout", "dropout"},
    {SW_OP_batch_norm_running, "running statistics", "running_statistics"},
    {SW_OP_batch_norm_fixed, "batch_norm by running statistics", "batch_norm"},
    {SW_OP_noise_linear, "linear under noise", "linear"},
    {SW_OP_noise_conv2d, "conv2d under noise", "conv2d"},
    {SW_OP_noise_embedding, "embedding under noise", "embedding"},
    {SW_OP_noise_table, "noise on rows", "noise"},
    {SW_OP_noise_affine, "scale and shift under noise", "affine"},
    {SW_OP_noise_linear_ce, "linear_ce under noise", "linear_ce"},
    {SW_OP_each, "a number for each evaluation", "numbers"},
    {SW_OP_es_gradient, "gradient estimated from fitness", "estimate"},
    {SW_OP_logit_scale, "scale of logits", "logit_scale"},
    {SW_OP_slice_grad, "gradient of a slice", "slice"},
    {SW_OP_sumsq, "sum of squares of gradients", "sum_of_squares"},
    {SW_OP_clip_scale, "factor of clipping", "clip_factor"},
    {SW_OP_accumulate_into, "gradient added to the kept one", "kept_gradient"},
    {SW_OP_product_bound, "bound of the gradient", "gradient_bound"},
    {SW_OP_finite, "check that gradients are finite", "finite_check"},
    {SW_OP_any_verdict, "finite checks joined", "finite_check"},
    {SW_OP_note_verdict, "finite check noted", "finite_check"},
    {SW_OP_count_skipped, "skipped updates counted", "skipped"},
    {SW_OP_partial_sum, "gradient added to partial sums", "partial_sums"},
    {SW_OP_shard_mean, "gradient's mean over shards", "mean_gradient"},
    {SW_OP_agreed_verdict, "finite checks of all ranks", "finite_check"},
    {SW_OP_adam_tick, "powers of beta advanced", "powers"},
    {SW_OP_steps_tick, "steps counted", "steps"},
    {SW_OP_tile_update, "gradient and update in tiles", "tile"},
    {SW_OP_in_images, "some images at a time", "images"},
    {SW_OP_noise_move, "parameters moved along noise", "moved"},
};

const char *swi_op_words(uint32_t op, bool gradient, char to[SWI_WORDS_BYTES])
{
    static const char end[] = "_update";
    const char *name = swi_op(op)->name;
    const size_t n = strlen(name), tail = sizeof end - 1;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (plain[i].op == op) {
            const char *blank = strstr(plain[i].words, "%s");
            if (blank == NULL)
                return plain[i].words;
            snprintf(to, SWI_WORDS_BYTES, "%s%s", gradient ? "gradient" : "input", blank + 2);
            return to;
        }
    if (swi_op_traits_of(op)->call < SWI_CALL_INSIDE)
        return name;
    if (n > tail && strcmp(name + n - tail, end) == 0) {
        snprintf(to, SWI_WORDS_BYTES, "update by %.*s", (int)(n - tail), name);
        return to;
    }
    snprintf(to, SWI_WORDS_BYTES, "%s", name);
    for (char *c = to; *c != '\0'; c++)
        *c = *c == '_' ? ' ' : *c;
    return to;
}

const char *swi_op_word(uint32_t op)
{
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (plain[i].op == op)
            return plain[i].word;
    return swi_op(op)->name;
}
