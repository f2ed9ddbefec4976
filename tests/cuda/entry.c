#include "tests/cuda/entry.h"
#include "alloc/base/poison.h"
#include "kernels/halves.h"
#include "kernels/rng.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"

/* Relative to the largest element: sums of both sides are in other orders. */
#define TOLERANCE 3e-6
#define OF_HALVES                                                                              \
    0x1p-6 /* two steps of bf16, to which sums that differ a little may be rounded */

/* ---- memory ------------------------------------------------------------------------------ */

/* Before a block and after it, closed where a sanitizer listens: NaNs, as floats and as
 * doubles, that stay. Those of other blocks are others, and what is computed from a first one
 * is another number, so that no copy goes unseen. */
#define FENCE (SW_ENTRY_FENCE / 4)
typedef struct {
    uint32_t word[FENCE];
} fence;

static struct {
    unsigned char *block; /* a fence on both sides, `shift` bytes before that */
    size_t bytes, shift;
} blocks[1 << 14];
static size_t n_blocks;

static fence fence_of(size_t block)
{
    fence f;
    for (uint32_t i = 0; i < FENCE; i++)
        f.word[i] = (i % 2 == 0 ? 0xffa00000u : 0xfff40000u) + (uint32_t)block * 8u;
    return f;
}

void *sw_entry_block(size_t bytes, size_t shift)
{
    void *from = NULL;
    const fence f = fence_of(n_blocks);
    if (n_blocks == sizeof blocks / sizeof *blocks ||
        posix_memalign(&from, 64, shift + bytes + 2 * sizeof f) != 0)
        abort();
    unsigned char *block = (unsigned char *)from + shift + sizeof f;
    memset(from, 0xff, shift + bytes + 2 * sizeof f);
    memcpy(block - sizeof f, &f, sizeof f);
    memcpy(block + bytes, &f, sizeof f);
    sw_poison(from, shift + sizeof f);
    sw_poison(block + bytes, sizeof f);
    blocks[n_blocks].block = block;
    blocks[n_blocks].bytes = bytes;
    blocks[n_blocks++].shift = shift;
    return block;
}

/* No one wrote before a block or after it. A sanitizer has said so at once. */
static void fences_kept(const char *what)
{
    for (size_t i = 0; i < n_blocks && !SW_POISON; i++) {
        const unsigned char *block = blocks[i].block;
        const fence f = fence_of(i);
        if (memcmp(block - sizeof f, &f, sizeof f) != 0 ||
            memcmp(block + blocks[i].bytes, &f, sizeof f) != 0) {
            SW_CHECK(false, "%s: written outside of %zu bytes", what, blocks[i].bytes);
            return;
        }
    }
}

void sw_entry_free(void)
{
    fences_kept("a launch");
    while (n_blocks > 0) {
        n_blocks--;
        const size_t front = blocks[n_blocks].shift + sizeof(fence);
        unsigned char *from = blocks[n_blocks].block - front;
        sw_unpoison(from, front + blocks[n_blocks].bytes + sizeof(fence));
        free(from);
    }
}

bool sw_entry_block_at(const void *block, size_t *bytes, size_t *shift)
{
    for (size_t i = n_blocks; i-- > 0;)
        if (blocks[i].block == block) {
            *bytes = blocks[i].bytes;
            *shift = blocks[i].shift;
            return true;
        }
    return false;
}

const sw_cuda_entry *sw_side_entry(const char *op, int which)
{
    const sw_cuda_module *module = sw_side_module();
    for (uint32_t i = 0; i < module->n_entries; i++)
        if (strcmp(module->entries[i].op, op) == 0 && module->entries[i].which == which)
            return &module->entries[i];
    return NULL;
}

/* ---- operands ---------------------------------------------------------------------------- */

sw_buffer sw_entry_buffer(const sw_type *type, size_t shift)
{
    sw_buffer b = {.type = *type};
    int64_t step = 1;
    for (int i = type->shape.rank - 1; i >= 0; i--) {
        b.stride[i] = step;
        step *= type->shape.dim[i];
    }
    b.ptr = sw_entry_block(sw_type_bytes(type), shift * sw_dtype_bytes(type->dtype));
    return b;
}

static int64_t plain_elements(const sw_type *type)
{
    int64_t n = 1;
    for (int i = 0; i < type->shape.rank; i++)
        n *= type->shape.dim[i];
    return n;
}

/* Of element i in plain order, its place in the bytes. */
static int64_t place_of(const sw_buffer *b, int64_t i)
{
    const sw_shape *s = &b->type.shape;
    if (b->type.layout == SW_N16) {
        const int64_t inner = plain_elements(&b->type) / (s->dim[0] > 0 ? s->dim[0] : 1);
        const int64_t image = i / inner;
        return (image / 16 * inner + i % inner) * 16 + image % 16;
    }
    int64_t at = 0;
    for (int k = s->rank - 1; k >= 0; k--) {
        at += i % s->dim[k] * b->stride[k];
        i /= s->dim[k];
    }
    return at;
}

sw_buffer sw_entry_fill(const sw_type *type, const void *plain, bool strided, float pad,
                        size_t shift)
{
    sw_buffer b = sw_entry_buffer(type, shift);
    const size_t size = sw_dtype_bytes(type->dtype);
    const int64_t n = plain_elements(type);
    if (strided && type->layout == SW_PLAIN && n > 0) {
        int64_t step = 2;
        for (int i = 0; i < type->shape.rank; i++) {
            b.stride[i] = step;
            step *= type->shape.dim[i];
        }
        b.ptr = sw_entry_block(((size_t)place_of(&b, n - 1) + 1) * size, shift * size);
    }
    for (int64_t i = 0; type->layout == SW_N16 && i < sw_type_elements(type); i++)
        memcpy((unsigned char *)b.ptr + (size_t)i * size, &pad, size);
    for (int64_t i = 0; i < n; i++)
        memcpy((unsigned char *)b.ptr + (size_t)place_of(&b, i) * size,
               (const unsigned char *)plain + (size_t)i * size, size);
    return b;
}

/* All bytes that it reaches. */
static size_t bytes_of(const sw_buffer *b)
{
    const int64_t n = plain_elements(&b->type);
    if (b->type.layout != SW_PLAIN || n == 0)
        return sw_type_bytes(&b->type);
    return ((size_t)place_of(b, n - 1) + 1) * sw_dtype_bytes(b->type.dtype);
}

ptrdiff_t sw_entry_each(const sw_buffer *b, ptrdiff_t (*each)(const void *at, size_t bytes))
{
    const size_t size = sw_dtype_bytes(b->type.dtype), all = bytes_of(b);
    const bool together = all == sw_type_bytes(&b->type);
    const int64_t n = together ? 1 : plain_elements(&b->type);
    for (int64_t i = 0; i < n; i++) {
        const size_t at = together ? 0 : (size_t)place_of(b, i) * size;
        const ptrdiff_t found = each((const char *)b->ptr + at, together ? all : size);
        if (found >= 0)
            return (ptrdiff_t)at + found;
    }
    return -1;
}

static void *copy_of(const sw_buffer *from, size_t shift)
{
    void *to = sw_entry_block(bytes_of(from), shift * sw_dtype_bytes(from->type.dtype));
    memcpy(to, from->ptr, bytes_of(from));
    return to;
}

/* ---- one launch -------------------------------------------------------------------------- */

static void serial(const sw_par *par, void (*body)(void *arg, int part), void *arg, int n_parts)
{
    for (int i = 0; i < n_parts; i++)
        body(arg, i);
}
static const sw_par one_thread = {1, serial};

/* The CPU's kernels get the counters in the launch, the device's in its memory, which changes
 * between replays. */
static const sw_cuda_counters first_counters = {3, 1}, other_counters = {4, 0x90000001u};
#define SEED 0x5eed0f0900000001u
#define STREAM 77
uint32_t sw_entry_draws;

uint32_t sw_entry_word(int64_t element)
{
    uint32_t words[4];
    sw_rng_words(words, SEED, (uint32_t)(element / 4), STREAM, first_counters.step,
                 first_counters.run);
    return words[element % 4];
}

typedef struct {
    sw_buffer in[SW_ENTRY_OPERANDS], out[SW_ENTRY_OPERANDS];
    sw_launch launch;
} call;

/* Operands of their own for each call; outputs begin as the run's are. */
static void call_fill(call *c, const sw_entry_run *r, bool alias, bool on_device)
{
    sw_type in[SW_ENTRY_OPERANDS], out[SW_ENTRY_OPERANDS];
    for (int i = 0; i < r->n_in; i++) {
        c->in[i] = r->in[i];
        c->in[i].ptr = copy_of(&r->in[i], r->shift);
        in[i] = r->in[i].type;
    }
    for (int i = 0; i < r->n_out; i++) {
        c->out[i] = r->out[i];
        out[i] = r->out[i].type;
        if (r->out[i].ptr == NULL)
            continue;
        if (alias && r->alias[i] >= 0)
            c->out[i].ptr = c->in[r->alias[i]].ptr;
        else
            c->out[i].ptr = copy_of(&r->out[i], r->shift);
    }
    const sw_kernel_info info = {in,       out, r->n_in,     r->n_out,
                                 r->attrs, 1,   SW_ISA_BASE, r->accumulate};
    size_t room = 0;
    if (on_device)
        room = r->entry->scratch_bytes != NULL ? r->entry->scratch_bytes(&info, sw_side_queue())
                                               : 0;
    else if (r->scratch_bytes != NULL)
        room = r->scratch_bytes(&info);
    c->launch =
        SW_OPTS(sw_launch, .in = c->in, .n_in = r->n_in, .out = c->out, .n_out = r->n_out,
                .scratch = sw_entry_block(room, 0), .scratch_bytes = room, .attrs = r->attrs,
                .accumulate = r->accumulate, .par = &one_thread, .isa = SW_ISA_BASE,
                .seed = SEED, .stream = STREAM, .step = on_device ? 0 : first_counters.step,
                .run = on_device ? 0 : first_counters.run, .op = r->op, .grad = r->grad,
                .order = on_device ? SW_ORDER_NONE : r->order);
}

/* Element i of a buffer's bytes as a number. */
static double number_at(const sw_buffer *b, int64_t i)
{
    switch (b->type.dtype) {
    case SW_F64:
        return ((const double *)b->ptr)[i];
    case SW_I32:
        return (double)((const int32_t *)b->ptr)[i];
    case SW_BF16:
        return (double)sw_bf16_widen(((const uint16_t *)b->ptr)[i]);
    case SW_U8:
        return (double)((const uint8_t *)b->ptr)[i];
    case SW_U16:
        return (double)((const uint16_t *)b->ptr)[i];
    default:
        return (double)((const float *)b->ptr)[i];
    }
}

static bool is_float(const sw_buffer *b)
{
    return b->type.dtype == SW_F32 || b->type.dtype == SW_F64 || b->type.dtype == SW_BF16;
}

/* The elements of an output against the CPU's. */
static void close_to(const sw_entry_run *r, int o, const sw_buffer *got, const sw_buffer *want)
{
    double most = r->terms;
    const int64_t n = plain_elements(&want->type);
    for (int64_t i = 0; i < n; i++) {
        const double w = fabs(number_at(want, place_of(want, i)));
        most = w > most && isfinite(w) ? w : most;
    }
    for (int64_t i = 0; i < n; i++) {
        const double g = number_at(got, place_of(got, i)),
                     w = number_at(want, place_of(want, i));
        const double factor = r->factor > 0.0 ? r->factor : 1.0;
        const double allowed = !is_float(want) ? 0.0
                               : r->op != 0    ? OF_HALVES * most
                                               : TOLERANCE * factor * most;
        if (!(fabs(g - w) <= allowed || g == w || (g != g && w != w))) {
            SW_CHECK(false, "%s: output %d, element %lld of %lld: %.9g, the CPU has %.9g",
                     r->label, o, (long long)i, (long long)n, g, w);
            return;
        }
    }
    for (int64_t i = 0; is_float(want) && i < sw_type_elements(&want->type); i++)
        if (isnan(number_at(got, i)) && !isnan(number_at(want, i))) {
            SW_CHECK(false, "%s: output %d: NaN in place %lld of memory", r->label, o,
                     (long long)i);
            return;
        }
}

static void same_bits(const sw_entry_run *r, int o, const sw_buffer *got, const sw_buffer *want,
                      const char *what)
{
    const size_t size = sw_dtype_bytes(want->type.dtype), n = bytes_of(want) / size;
    for (size_t i = 0; i < n; i++)
        if (memcmp((const char *)got->ptr + i * size, (const char *)want->ptr + i * size,
                   size) != 0) {
            const double g = number_at(got, (int64_t)i), w = number_at(want, (int64_t)i);
            if (isnan(g) && isnan(w))
                continue;
            SW_CHECK(false, "%s: output %d, %s: place %zu of %zu: %.9g for %.9g", r->label, o,
                     what, i, n, g, w);
            return;
        }
}

/* The way has been chosen. */
static bool go(const sw_entry_run *r, call *c, bool alias, bool replayed)
{
    call_fill(c, r, alias, true);
    const sw_status status =
        sw_side_launch(r->entry, &c->launch, replayed ? other_counters : first_counters);
    SW_CHECK(status == SW_OK, "%s: %s", r->label, sw_last_error());
    /* Inputs keep their bytes, but for those that an output took. */
    for (int i = 0; i < r->n_in; i++) {
        bool taken = false;
        for (int o = 0; alias && o < r->n_out; o++)
            taken |= r->alias[o] == i;
        SW_CHECK(taken || memcmp(c->in[i].ptr, r->in[i].ptr, bytes_of(&r->in[i])) == 0,
                 "%s: input %d was written", r->label, i);
    }
    fences_kept(r->label);
    return status == SW_OK;
}

bool sw_entry_can_add(const sw_entry_run *r)
{
    sw_entry_run with = *r, without = *r;
    call a, b;
    with.accumulate = 1;
    without.accumulate = 0;
    call_fill(&a, &with, false, false);
    call_fill(&b, &without, false, false);
    for (int64_t i = 0; i < sw_type_elements(&r->out[0].type); i++)
        ((float *)a.out[0].ptr)[i] = 100.0f;
    r->kernel(&a.launch);
    r->kernel(&b.launch);
    return sw_type_elements(&r->out[0].type) > 0 &&
           ((float *)a.out[0].ptr)[0] == 100.0f + ((float *)b.out[0].ptr)[0];
}

void sw_entry_cpu(sw_entry_run *r)
{
    static call cpu;
    call_fill(&cpu, r, r->must_alias, false);
    const sw_status status = r->kernel(&cpu.launch);
    SW_CHECK(status == SW_OK, "%s: %s", r->label, sw_last_error());
    for (int o = 0; o < r->n_out; o++)
        r->out[o].ptr = cpu.out[o].ptr;
}

/* Nothing is launched, and the message begins with the op. */
static void is_refused(const sw_entry_run *r)
{
    static call c;
    uint64_t before, after;
    sw_side_choose(0);
    call_fill(&c, r, false, true);
    sw_side_counts(&before);
    CU_ASSERT_EQUAL(sw_side_launch(r->entry, &c.launch, first_counters), SW_UNSUPPORTED);
    SW_CHECK(strncmp(sw_last_error(), r->entry->op, strlen(r->entry->op)) == 0, "%s: %s",
             r->label, sw_last_error());
    sw_side_counts(&after);
    CU_ASSERT_EQUAL(after, before);
}

/* The CPU's results for the counters of a replay: other numbers where it draws some. */
static void compare_draws(const sw_entry_run *r, const call *replayed, const call *before)
{
    static call cpu;
    bool same = true;
    call_fill(&cpu, r, r->must_alias, false);
    cpu.launch.step = other_counters.step;
    cpu.launch.run = other_counters.run;
    CU_ASSERT_EQUAL(r->kernel(&cpu.launch), SW_OK);
    for (int o = 0; o < r->n_out; o++) {
        if (sw_entry_is_exact(r->entry))
            same_bits(r, o, &replayed->out[o], &cpu.out[o], "a replay");
        else
            close_to(r, o, &replayed->out[o], &cpu.out[o]);
        same &= memcmp(cpu.out[o].ptr, before->out[o].ptr, bytes_of(&cpu.out[o])) == 0;
    }
    sw_entry_draws += !same;
}

static void compare_bits(const sw_entry_run *r, const call *got, const call *first,
                         const char *what)
{
    for (int o = 0; o < r->n_out; o++)
        if (got->out[o].ptr != NULL)
            same_bits(r, o, &got->out[o], &first->out[o], what);
}

/* All ways; false: one of them could not be gone. */
static bool compare_ways(const sw_entry_run *r, const call *cpu, call *first)
{
    static call other;
    const sw_side_way *way;
    for (int i = 0; (way = sw_side_way_at(i)) != NULL; i++) {
        call *c = way->anew ? first : &other;
        sw_side_choose(i);
        if (!go(r, c, r->must_alias, way->replayed))
            return false;
        if (way->replayed && r->random)
            compare_draws(r, c, cpu);
        else if (!way->anew)
            compare_bits(r, c, first, way->what);
        else {
            for (int o = 0; o < r->n_out; o++) {
                if (cpu->out[o].ptr == NULL)
                    continue;
                if (sw_entry_is_exact(r->entry))
                    same_bits(r, o, &c->out[o], &cpu->out[o], "bits of the CPU");
                else
                    close_to(r, o, &c->out[o], &cpu->out[o]);
            }
        }
    }
    return true;
}

static void compare_in_place(const sw_entry_run *r, const call *first)
{
    static call other;
    bool aliased = false;
    int n_ways = 0;
    while (sw_side_way_at(n_ways) != NULL)
        n_ways++;
    sw_side_choose(n_ways);
    for (int o = 0; o < r->n_out; o++)
        aliased |= r->alias[o] >= 0;
    if (aliased && !r->must_alias && go(r, &other, true, false))
        compare_bits(r, &other, first, "in place");
}

void sw_entry_compare(sw_entry_run *r)
{
    static call cpu, first;
    const unsigned failures = CU_get_number_of_failures();
    if (r->refused) {
        is_refused(r);
        sw_entry_cpu(r);
        return;
    }
    call_fill(&cpu, r, r->must_alias, false);
    const sw_status status = r->kernel(&cpu.launch);
    if (!SW_CHECK(status == SW_OK, "%s: %s", r->label, sw_last_error()))
        return;
    if (compare_ways(r, &cpu, &first))
        compare_in_place(r, &first);
    sw_side_compared(r->entry, CU_get_number_of_failures() == failures);
    for (int o = 0; o < r->n_out; o++)
        r->out[o].ptr = cpu.out[o].ptr;
}

/* ---- of one op --------------------------------------------------------------------------- */

sw_entry_run sw_entry_of(const char *label, const sw_op_desc *desc, int which,
                         const void *attrs)
{
    const sw_grad_desc *g = which < 0 ? NULL : &desc->grads[which];
    sw_entry_run r = {
        .label = label, .entry = sw_side_entry(desc->name, which), .attrs = attrs};
    r.kernel = g != NULL ? g->kernel : desc->forward;
    r.scratch_bytes = g != NULL ? g->scratch_bytes : desc->scratch_bytes;
    for (int i = 0; i < SW_ENTRY_OPERANDS; i++)
        r.alias[i] = -1;
    SW_CHECK(r.entry != NULL, "no entry for %s", desc->name);
    CU_ASSERT_PTR_NOT_NULL_FATAL(r.entry);
    return r;
}

void sw_entry_launch(const sw_cuda_entry *entry, const sw_buffer *in, int n_in,
                     const sw_buffer *out, int n_out, const void *attrs)
{
    sw_type in_type[SW_ENTRY_OPERANDS], out_type[SW_ENTRY_OPERANDS];
    for (int i = 0; i < n_in; i++)
        in_type[i] = in[i].type;
    for (int i = 0; i < n_out; i++)
        out_type[i] = out[i].type;
    const sw_kernel_info info = {in_type, out_type, n_in, n_out, attrs, 1, SW_ISA_BASE, 0};
    const size_t room =
        entry->scratch_bytes != NULL ? entry->scratch_bytes(&info, sw_side_queue()) : 0;
    const sw_launch l =
        SW_OPTS(sw_launch, .in = in, .n_in = n_in, .out = out, .n_out = n_out,
                .scratch = sw_entry_block(room, 0), .scratch_bytes = room, .attrs = attrs);
    CU_ASSERT_EQUAL(sw_side_launch(entry, &l, (sw_cuda_counters){0}), SW_OK);
}
