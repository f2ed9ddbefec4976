/* Planted faults: each is a plan that is wrong in one place, or a kernel that does one thing
 * that it does not say. The witness for it must report it, and name it. */
#include "tests/support/witness_program.h"
#include "tests/witness/fixture.h"
#include "tests/witness/probe.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

SW_TESTS("planted")

static const fixture_opts probes = {
    .net = NET_PROBES, .batch = 7, .optimizer = "sgd", .threads = 1};

/* ---- finding things in a program --------------------------------------------------------- */

/* The run position of the n-th op of that name; grad: of its gradient kernels. */
static uint32_t op_named(const swi_program *p, const char *name, bool grad, int nth)
{
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const swi_node *node = &p->trace.nodes[p->ops[i].node];
        if ((node->grad >= 0) == grad && strcmp(swi_op(node->op)->name, name) == 0 &&
            nth-- == 0)
            return i;
    }
    SW_CHECK(false, "no op '%s'", name);
    return 0;
}

static swi_node *node_at(swi_program *p, uint32_t op)
{
    return &p->trace.nodes[p->ops[op].node];
}

static uint32_t in_storage(swi_program *p, uint32_t op, uint32_t k)
{
    return swi_root_of(&p->trace, swi_operand(&p->trace, node_at(p, op), k)->storage);
}

static uint32_t out_storage(swi_program *p, uint32_t op)
{
    return in_storage(p, op, node_at(p, op)->n_in);
}

/* Kept from forward to the gradient of swish: what probe 0 makes. */
static swi_storage *kept(swi_program *p)
{
    return &p->trace.storages[out_storage(p, op_named(p, "test.probe", false, 0))];
}

static void move_root(swi_program *p, uint32_t root, size_t offset)
{
    for (uint32_t s = 0; s < p->trace.n_storages; s++)
        if (swi_root_of(&p->trace, s) == root && p->trace.storages[s].segment == SWI_SEG_STEP)
            p->trace.storages[s].offset = offset;
}

/* The plan's own lists and figures follow the planted fault, as if the planner had meant it. */
static void settle(swi_program *p)
{
    swi_program_bind(p);
    swi_program_measure(p);
}

/* ---- the frame --------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    void (*plant)(swi_program *p); /* NULL: the kernel misbehaves */
    probe_mischief does;
    uint32_t by;      /* the witness that must report it */
    const char *says; /* part of its first line */
} planted;

static void report(const planted *x)
{
    probe_does = PROBE_HONEST;
    fixture *f = fixture_create(&probes);
    swi_program *p = f != NULL ? fixture_clone(f) : NULL;
    if (p == NULL)
        return;
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    fixture_keep(f);
    SW_CHECK(sw_witness_program(f->exec, p, &f->args, SW_WITNESS_ALL, &seen) == SW_OK &&
                 seen.agreed == SW_WITNESS_ALL,
             "%s: before planting: %s %s", x->name, seen.first_fault, sw_last_error());
    if (x->plant != NULL)
        x->plant(p);
    probe_does = x->does;
    const sw_status status = sw_witness_program(f->exec, p, &f->args, x->by, &seen);
    probe_does = PROBE_HONEST;
    SW_CHECK(status == SW_OK, "%s: %s", x->name, sw_last_error());
    SW_CHECK(seen.n_faults > 0 && (seen.agreed & x->by) == 0, "%s: not reported", x->name);
    SW_CHECK(strstr(seen.first_fault, x->says) != NULL, "%s: '%s' does not say '%s'", x->name,
             seen.first_fault, x->says);
    if (sw_tests_full())
        sw_note("%s: %s", x->name, seen.first_fault);
    SW_CHECK(fixture_is_kept(f), "%s: the state has changed", x->name);
    /* The fault was in the clone: the program itself still agrees. */
    SW_CHECK(sw_witness(f->exec, &f->args, SW_WITNESS_ALL, &seen) == SW_OK &&
                 seen.agreed == SW_WITNESS_ALL,
             "%s: afterwards: %s", x->name, seen.first_fault);
}

/* ---- plans with a fault ------------------------------------------------------------------ */

static void death_early(swi_program *p)
{
    kept(p)->death--;
    settle(p);
}

static void death_late(swi_program *p)
{
    kept(p)->death++;
    settle(p);
}

static void birth_early(swi_program *p)
{
    kept(p)->birth--;
    settle(p);
}

static void birth_late(swi_program *p)
{
    kept(p)->birth++;
    settle(p);
}

static void larger(swi_program *p)
{
    kept(p)->bytes += 64;
    kept(p)->rounded += 64;
    settle(p);
}

static void smaller(swi_program *p)
{
    kept(p)->bytes -= 64;
    kept(p)->rounded -= 64;
    settle(p);
}

static void rounded_up_too_far(swi_program *p)
{
    kept(p)->rounded += 64;
    settle(p);
}

static void rounded_down(swi_program *p)
{
    kept(p)->rounded -= 64;
    settle(p);
}

/* Two storages that are live together get one place. */
static void overlap(swi_program *p)
{
    const uint32_t swish = op_named(p, "swish", false, 0);
    move_root(p, in_storage(p, swish, 0), p->trace.storages[out_storage(p, swish)].offset);
    settle(p);
}

/* They share 64 bytes only. */
static void slight_overlap(swi_program *p)
{
    const uint32_t swish = op_named(p, "swish", false, 0), moved = in_storage(p, swish, 0);
    const swi_storage *out = &p->trace.storages[out_storage(p, swish)];
    move_root(p, moved, out->offset + out->rounded - 64);
    size_t height = 0;
    for (uint32_t s = 0; s < p->trace.n_storages; s++) {
        const swi_storage *x = &p->trace.storages[s];
        if (x->segment == SWI_SEG_STEP && x->birth != SWI_NONE &&
            x->offset + x->rounded > height)
            height = x->offset + x->rounded;
    }
    p->info.arena_bytes = p->height = height;
    settle(p);
}

static void arena_too_low(swi_program *p)
{
    p->info.arena_bytes -= 64;
}

static void arena_too_high(swi_program *p)
{
    p->info.arena_bytes += 64;
}

static void no_workspace(swi_program *p)
{
    swi_node *node = node_at(p, op_named(p, "test.probe", false, 0));
    p->trace.storages[node->scratch].birth = p->trace.storages[node->scratch].death = SWI_NONE;
    node->scratch = SWI_NONE;
    settle(p);
}

/* The gradient of swish is bound to its output where it names its input. */
static void wrong_binding(swi_program *p)
{
    const uint32_t grad = op_named(p, "swish", true, 0);
    const uint32_t kept_root = out_storage(p, op_named(p, "test.probe", false, 0));
    const uint32_t other = out_storage(p, op_named(p, "swish", false, 0));
    for (uint32_t k = 0; k < node_at(p, grad)->n_in; k++)
        if (in_storage(p, grad, k) == kept_root)
            p->binds[p->ops[grad].first + grad + k].offset = p->trace.storages[other].offset;
}

/* A view, or a value, that is counted as if it had bytes of its own. */
static void counted_twice(swi_program *p)
{
    swi_trace *t = &p->trace;
    void *block = t->storages;
    const uint32_t n = t->n_storages;
    const uint32_t of = out_storage(p, op_named(p, "test.probe", false, 0));
    CU_ASSERT_EQUAL_FATAL(sw_heap_resize(&block, SW_HEAP_PROGRAMS, n * sizeof *t->storages,
                                         (n + 1) * sizeof *t->storages),
                          SW_OK);
    t->storages = block;
    t->storages[n] = t->storages[of];
    t->storages[n].alias = n;
    t->n_storages = t->cap_storages = n + 1;
    settle(p);
}

static void wrong_phase(swi_program *p)
{
    p->ops[op_named(p, "swish", false, 0)].phase = SW_LOSS;
    swi_program_measure(p);
}

static void wrong_peak(swi_program *p)
{
    p->info.phase[SW_BACKWARD].peak_bytes += 64;
}

static void wrong_end(swi_program *p)
{
    p->info.phase[SW_FORWARD].end_bytes -= 64;
}

static void saved_called_activation(swi_program *p)
{
    kept(p)->role = SWI_ROLE_ACTIVATION;
}

static void scratch_called_gradient(swi_program *p)
{
    const swi_node *node = node_at(p, op_named(p, "test.probe", false, 0));
    p->trace.storages[node->scratch].role = SWI_ROLE_GRADIENT;
}

static void wrong_layer(swi_program *p)
{
    kept(p)->layer = p->trace.storages[out_storage(p, op_named(p, "linear", false, 1))].layer;
}

/* A result takes the place of an input that backward still needs. */
static void wrong_in_place(swi_program *p)
{
    const uint32_t swish = op_named(p, "swish", false, 0);
    const uint32_t in = in_storage(p, swish, 0), out = out_storage(p, swish);
    swi_trace *t = &p->trace;
    if (t->storages[out].death > t->storages[in].death)
        t->storages[in].death = t->storages[out].death;
    t->storages[out].alias = in;
    t->storages[out].offset = t->storages[in].offset;
    move_root(p, in, t->storages[in].offset);
    settle(p);
}

/* Something that only forward needs lives on to the end, over the peak. */
static void kept_too_long(swi_program *p)
{
    const uint32_t s = in_storage(p, op_named(p, "test.probe", false, 0), 0);
    p->trace.storages[s].death = p->n_ops - 1;
    settle(p);
}

/* Made long before it is first used: lives at the peak with nothing in it. */
static void born_too_soon(swi_program *p)
{
    for (uint32_t s = 0; s < p->trace.n_storages; s++) {
        swi_storage *x = &p->trace.storages[s];
        if (x->segment == SWI_SEG_STEP && x->alias == s && x->birth != SWI_NONE &&
            x->birth > p->peak_op && x->birth < x->death) {
            x->birth = 0;
            settle(p);
            return;
        }
    }
    CU_FAIL("nothing is born after the peak");
}

#define A SW_WITNESS_ACCESS
#define E SW_WITNESS_EXTENT
#define D SW_WITNESS_DEATH
#define N SW_WITNESS_NEED

static const planted lifetimes[] = {
    {"a death one op early", death_early, 0, A, "after its death"},
    {"a death one op early, in the arena", death_early, 0, D, "dead bytes are lost"},
    {"a death one op late", death_late, 0, A, "its planned death is"},
    {"a birth one op early", birth_early, 0, A, "its planned birth is"},
    {"a birth one op late", birth_late, 0, A, "before its birth"},
    {"a birth one op late, in the arena", birth_late, 0, D, "dead bytes are lost"},
    {"a tensor kept over the peak", kept_too_long, 0, N, "nothing changes"},
    {"a tensor born before the peak", born_too_soon, 0, N, "nothing changes"},
};
static const planted places[] = {
    {"64 bytes too many", larger, 0, E, "bytes are used; the plan counts"},
    {"64 bytes too few", smaller, 0, A, "past its end"},
    {"64 bytes too few, by extent", smaller, 0, E, "is written; the plan gives it"},
    {"64 bytes of padding too many", rounded_up_too_far, 0, E,
     "bytes are used; the plan counts"},
    {"64 bytes too few by rounding", rounded_down, 0, A, "past its end"},
    {"64 bytes too few by rounding, by extent", rounded_down, 0, E,
     "bytes are used; the plan counts"},
    {"two storages in one place", overlap, 0, D, "and both are live"},
    {"two storages that share 64 bytes", slight_overlap, 0, D, "and both are live"},
    {"an arena that is too low", arena_too_low, 0, D, "ends at byte"},
    {"an arena that is too high", arena_too_high, 0, D, "its storages end at"},
};
static const planted lists[] = {
    {"a workspace that is not planned", no_workspace, 0, A, "workspace that was never planned"},
    {"a workspace that is not planned, by extent", no_workspace, 0, E, "never planned"},
    {"an operand that is bound to another place", wrong_binding, 0, D, "dead bytes are lost"},
    {"a view that is counted twice", counted_twice, 0, A, "never touched"},
    {"a view that is counted twice, by extent", counted_twice, 0, E, "0 bytes are used"},
    {"an op in the wrong phase", wrong_phase, 0, A, "phase"},
    {"a wrong peak", wrong_peak, 0, A, "phase backward"},
    {"a wrong end", wrong_end, 0, A, "phase forward"},
    {"a kept tensor called activation", saved_called_activation, 0, A, "kept for backward"},
    {"a workspace called gradient", scratch_called_gradient, 0, A, "is scratch"},
    {"a tensor of another layer", wrong_layer, 0, A, "belongs to layer"},
    {"a result in place of what is still needed", wrong_in_place, 0, D, "dead bytes are lost"},
};
static const planted kernels[] = {
    {"a kernel that writes past its workspace", NULL, PROBE_PAST_SCRATCH, A, "past its end"},
    {"the same, by extent", NULL, PROBE_PAST_SCRATCH, E, "is written; the plan gives it"},
    {"a kernel that writes past its output", NULL, PROBE_PAST_OUTPUT, A, "past its end"},
    {"a kernel that writes before its output", NULL, PROBE_BEFORE_OUTPUT, A,
     "past its beginning"},
    {"a kernel that writes before its output, by extent", NULL, PROBE_BEFORE_OUTPUT, E,
     "before its beginning"},
    {"a kernel that writes into the padding", NULL, PROBE_PADDING, E,
     "is written; the plan gives it"},
    {"a kernel that writes its input", NULL, PROBE_WRITES_INPUT, A, "lists it as read"},
    {"a kernel that reads what it does not list", NULL, PROBE_PEEKS, A,
     "is read, and the op does not"},
    {"a kernel that writes what it does not list", NULL, PROBE_POKES, A,
     "is written, and the op does not"},
    {"a kernel that reads its workspace first", NULL, PROBE_STALE, A,
     "before anything was written"},
    {"the same, by extent", NULL, PROBE_STALE, E, "that were never written"},
    {"the same, in the arena", NULL, PROBE_STALE, D, "dead bytes are lost"},
    {"a kernel that reads its output first", NULL, PROBE_BLEND, E, "that were never written"},
    {"a kernel that leaves bytes unwritten", NULL, PROBE_LAZY, E, "is never written"},
};

#define REPORT(table)                                                                          \
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)                                  \
    report(&table[i])

SW_TEST("wrong lifetimes are reported")
{
    REPORT(lifetimes);
}

SW_TEST("wrong sizes and places are reported")
{
    REPORT(places);
}

SW_TEST("wrong lists and figures are reported")
{
    REPORT(lists);
}

SW_TEST("misbehaving kernels are reported")
{
    REPORT(kernels);
}

/* ---- faults that need a step of their own ------------------------------------------------ */

static void hoarding_step(sw_ctx *ctx, void *user)
{
    fixture *f = user;
    sw_value x = sw_to_f32(ctx, sw_input(ctx, 0), 1.0f / 255.0f, 0.0f);
    x = hoarder_apply(ctx, sw_apply_linear(ctx, f->linear[0], sw_flatten(ctx, x)));
    x = sw_tanh(ctx, sw_apply_linear(ctx, f->linear[1], x));
    const sw_value loss =
        sw_softmax_ce(ctx, sw_apply_linear(ctx, f->linear[2], x), sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &f->optimizer, 1);
    sw_update(ctx, f->optimizer);
}

/* A save policy that names what its gradient does not read holds memory for nothing. */
SW_TEST("a save policy that is too large is reported")
{
    fixture *f =
        fixture_create(&(fixture_opts){.net = NET_SMALL, .batch = 7, .optimizer = "sgd"});
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    f->args.fn = hoarding_step;
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    CU_ASSERT_EQUAL(sw_witness(f->exec, &f->args, SW_WITNESS_ALL, &seen), SW_OK);
    CU_ASSERT_EQUAL(seen.agreed & SW_WITNESS_ACCESS, 0);
    CU_ASSERT_EQUAL(seen.agreed & (SW_WITNESS_EXTENT | SW_WITNESS_DEATH),
                    SW_WITNESS_EXTENT | SW_WITNESS_DEATH);
    SW_CHECK(strstr(seen.first_fault, "its planned death is") != NULL, "%s", seen.first_fault);
}

/* ---- faults of others -------------------------------------------------------------------- */

static unsigned char *closed_page;
static volatile int others;

static void open_page(int signal_number, siginfo_t *info, void *context)
{
    others++;
    (void)mprotect(closed_page, 4096, PROT_READ);
}

/* A fault outside of the regions goes to whoever had the signal before, and the handler comes
 * back. */
SW_TEST("faults elsewhere are passed on")
{
    fixture *f = fixture_create(&probes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    struct sigaction ours, old, now;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = open_page;
    ours.sa_flags = SA_SIGINFO;
    CU_ASSERT_EQUAL_FATAL(sigaction(SIGSEGV, &ours, &old), 0);
    closed_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    probe_elsewhere = closed_page;
    others = 0;
    probe_does = PROBE_TOUCHES;
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    CU_ASSERT_EQUAL(sw_witness(f->exec, &f->args, SW_WITNESS_ACCESS, &seen), SW_OK);
    probe_does = PROBE_HONEST;
    CU_ASSERT_EQUAL(seen.agreed, SW_WITNESS_ACCESS);
    CU_ASSERT_EQUAL(others, 1);
    CU_ASSERT_EQUAL(sigaction(SIGSEGV, &old, &now), 0);
    CU_ASSERT(now.sa_sigaction == open_page);
    (void)munmap(closed_page, 4096);
}
