/* Pairs of the module: one launch for two ops has the bits of the two, one after the other. */
#include "kernels/attrs.h"
#include "kernels/rng.h"
#include "runtime/ops/ops.h"
#include "tests/cuda/entry.h"
#include "tests/cuda/side.h"
#include "tests/support/suite.h"

SW_TESTS("pairs")

/* The pair that is tested, and its ops on both sides. */
static struct {
    const sw_cuda_fusion *fusion;
    const sw_cuda_entry *first, *then;
    const sw_op_desc *then_desc;
    const void *attrs; /* of the second */
} now;

static const sw_op_desc *desc_of(const char *name)
{
    for (uint32_t id = 0; id < SW_OPS_INSIDE; id++)
        if (strcmp(sw_op_at(id)->name, name) == 0)
            return sw_op_at(id);
    return NULL;
}

static void choose(const sw_cuda_fusion *fusion, const void *attrs)
{
    now.fusion = fusion;
    now.first = sw_side_entry(fusion->first, -1);
    now.then = sw_side_entry(fusion->then, -1);
    now.then_desc = desc_of(fusion->then);
    now.attrs = attrs;
    CU_ASSERT_FATAL(now.first != NULL && now.then != NULL && now.then_desc != NULL);
    CU_ASSERT_FATAL(now.then_desc->n_in == 1 && (now.then_desc->inplace & 1u) != 0);
}

/* ---- one launch, and two ----------------------------------------------------------------- */

static sw_launch then_of(const sw_launch *first)
{
    return SW_OPTS(sw_launch, .in = first->out, .n_in = 1, .out = first->out, .n_out = 1,
                   .attrs = now.attrs, .par = first->par, .isa = first->isa);
}
static sw_status together(const sw_launch *l, const sw_cuda_queue *queue)
{
    return now.fusion->kernel(l, now.attrs, queue);
}
static sw_status apart(const sw_launch *l, const sw_cuda_queue *queue)
{
    const sw_launch then = then_of(l);
    SW_TRY(now.first->kernel(l, queue));
    return now.then->kernel(&then, queue);
}
static sw_status on_cpu(const sw_launch *l)
{
    const sw_launch then = then_of(l);
    SW_TRY(sw_op_linear.forward(l));
    return now.then_desc->forward(&then);
}

/* ---- operands ---------------------------------------------------------------------------- */

enum { PLAIN, ODD, TINY, KINDS }; /* numbers; some of them no numbers; sums that are -0 */

static sw_buffer numbers(sw_type type, int kind, uint32_t stream, size_t shift)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, -0.0f, 3e38f, -3e38f};
    sw_buffer b = sw_entry_buffer(&type, shift);
    float *x = b.ptr;
    const int64_t n = sw_type_elements(&type);
    sw_rng_normal(x, 0, n, 41, 42, stream, 0);
    for (int64_t i = 0; i < n && kind == ODD; i += 5 + i % 17)
        x[i] = odd[(i + stream) % 6];
    for (int64_t i = 0; i < n && kind == TINY; i++)
        x[i] = stream == 1 ? -1e-30f : 1e-30f;
    return b;
}

typedef struct {
    int64_t m, n, k;
    int kind;
    bool bias;
    uint32_t add;
    size_t shift; /* of all operands, in elements */
} product;

static sw_entry_run run_of(const product *p, const char *label)
{
    const sw_type x = F32(p->m, p->k), w = F32(p->n, p->k), b = F32(p->n), y = F32(p->m, p->n);
    sw_entry_run r =
        SW_INIT(.label = label, .kernel = on_cpu, .scratch_bytes = sw_op_linear.scratch_bytes,
                .n_out = 1, .alias = {-1}, .accumulate = p->add, .shift = p->shift);
    r.in[r.n_in++] = numbers(x, p->kind, 1, p->shift);
    r.in[r.n_in++] = numbers(w, p->kind, 2, p->shift);
    if (p->bias)
        r.in[r.n_in++] = numbers(b, p->kind == TINY ? PLAIN : p->kind, 3, p->shift);
    r.out[0] = p->add != 0 ? numbers(y, p->kind == TINY ? PLAIN : p->kind, 4, p->shift)
                           : sw_entry_buffer(&y, p->shift);
    return r;
}

/* ---- comparisons ------------------------------------------------------------------------- */

typedef struct {
    int negative_zeros, nans; /* that the first op has left for the second */
    int joined;
} seen;

/* The results of `kernel` for the run's operands, in a block of its own. */
static float *made(const sw_entry_run *r, sw_cuda_kernel *kernel, uint64_t *launches)
{
    const sw_cuda_entry entry = {now.fusion->first, -1, kernel, now.first->scratch_bytes, 0};
    const sw_type types[] = {r->in[0].type, r->in[1].type, r->in[2].type};
    const sw_kernel_info info = {types, &r->out[0].type, r->n_in,      1, NULL,
                                 1,     SW_ISA_BASE,     r->accumulate};
    const size_t room = entry.scratch_bytes(&info, sw_side_queue());
    sw_buffer out = sw_entry_buffer(&r->out[0].type, r->shift);
    memcpy(out.ptr, r->out[0].ptr, sw_type_bytes(&out.type));
    const sw_launch l = SW_OPTS(sw_launch, .in = r->in, .n_in = r->n_in, .out = &out,
                                .n_out = 1, .scratch = sw_entry_block(room, 0),
                                .scratch_bytes = room, .accumulate = r->accumulate);
    uint64_t before = 0, after = 0;
    sw_side_counts(&before);
    const sw_status status = sw_side_launch(&entry, &l, (sw_cuda_counters){3, 1});
    sw_side_counts(&after);
    SW_CHECK(status == SW_OK, "%s: %s", r->label, sw_last_error());
    *launches = after - before;
    return out.ptr;
}

static void same_numbers(const sw_entry_run *r, const char *what, const float *got,
                         const float *want)
{
    const int64_t n = sw_type_elements(&r->out[0].type);
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0 && !(isnan(got[i]) && isnan(want[i]))) {
            SW_CHECK(false, "%s, %s: place %d of %d: %.9g (%a) for %.9g (%a)", r->label, what,
                     (int)i, (int)n, (double)got[i], (double)got[i], (double)want[i],
                     (double)want[i]);
            return;
        }
}

/* In each way in which the pair is one: the bits of the two, and a launch less. */
static void same_as_two(const sw_entry_run *r, seen *s)
{
    const sw_side_way *way;
    const sw_type types[] = {r->in[0].type, r->in[1].type, r->in[2].type};
    const sw_kernel_info info = {types, &r->out[0].type, r->n_in,      1, NULL,
                                 1,     SW_ISA_BASE,     r->accumulate};
    for (int i = 0; (way = sw_side_way_at(i)) != NULL; i++) {
        uint64_t one, two, first;
        sw_side_choose(i);
        if (!now.fusion->joins(&info, sw_side_queue()))
            continue;
        const float *got = made(r, together, &one), *want = made(r, apart, &two);
        same_numbers(r, way->what, got, want);
        const float *x = made(r, now.first->kernel, &first);
        for (int64_t j = 0; j < sw_type_elements(&r->out[0].type); j++) {
            s->negative_zeros += x[j] == 0.0f && signbit(x[j]);
            s->nans += isnan(x[j]);
        }
        SW_CHECK(one == first && (two == 0 || two == first + 1),
                 "%s: %d launches for %d and %d", r->label, (int)one, (int)first,
                 (int)(two - first));
        s->joined++;
    }
}

static const swi_number_attrs slopes[] = {{0.1f}, {-0.25f}, {0.0f}};

static void one_product(const product *p, seen *s)
{
    static sw_cuda_entry entry; /* known by its address */
    entry = (sw_cuda_entry){now.fusion->first, -1, together, now.first->scratch_bytes, 0};
    const char *label = sw_textf("%s, %s: (%d, %d, %d), kind %d, bias %d, add %d, shift %d",
                                 now.fusion->first, now.fusion->then, (int)p->m, (int)p->n,
                                 (int)p->k, p->kind, p->bias, (int)p->add, (int)p->shift);
    sw_entry_run r = run_of(p, label);
    r.entry = &entry;
    same_as_two(&r, s);
    if (p->kind != ODD) /* 3e38 and its like overflow in one order and not in another */
        sw_entry_compare(&r);
    sw_entry_free();
}

/* ---- tests ------------------------------------------------------------------------------- */

/* About the sizes of tiles, of fours, of parts of long sums; no terms; nothing at all. */
enum { SMALL = 8, SIZES = 15 };
static const int64_t sizes[SIZES][3] = {
    {1, 1, 1},    {3, 5, 7},      {32, 32, 32}, {33, 31, 36},   {8, 4, 200},
    {9, 7, 333},  {5, 6, 0},      {0, 6, 4},    {64, 64, 16},   {68, 60, 100},
    {65, 130, 9}, {128, 136, 24}, {129, 96, 8}, {132, 128, 49}, {128, 128, 8}};

SW_TEST("a pair has the bits of its ops")
{
    const sw_cuda_module *module = sw_side_module();
    CU_ASSERT(module->n_fusions > 0 && module->fusion_size == sizeof(sw_cuda_fusion));
    for (uint32_t k = 0; k < module->n_fusions; k++)
        for (size_t a = 0; a < sizeof slopes / sizeof *slopes; a++) {
            seen s = {0};
            choose(&module->fusions[k], &slopes[a]);
            if (now.then_desc->attrs_bytes == 0 && a > 0)
                break;
            for (size_t i = 0; i < (a == 0 ? SIZES : 5); i++)
                for (int mode = 0; mode < 4 * KINDS; mode++) {
                    const product p = {sizes[i][0],     sizes[i][1],     sizes[i][2],
                                       mode / 4,        (mode & 2) != 0, (uint32_t)mode & 1u,
                                       (i + a) % 3 == 2};
                    if (i >= SMALL && !sw_tests_full() && mode != 4 * ODD + 2 &&
                        mode != 4 * TINY)
                        continue;
                    one_product(&p, &s);
                }
            sw_note("%s, %s: %d NaNs, %d negative zeros", now.fusion->first, now.fusion->then,
                    s.nans, s.negative_zeros);
            CU_ASSERT(s.joined > 0 && s.nans > 100 && s.negative_zeros > 100);
        }
}

/* Ops that the table has, each pair once. */
SW_TEST("pairs are of ops of the table")
{
    const sw_cuda_module *module = sw_side_module();
    for (uint32_t i = 0; i < module->n_fusions; i++) {
        choose(&module->fusions[i], NULL);
        for (uint32_t k = 0; k < i; k++)
            CU_ASSERT(strcmp(module->fusions[k].first, module->fusions[i].first) != 0 ||
                      strcmp(module->fusions[k].then, module->fusions[i].then) != 0);
    }
}
