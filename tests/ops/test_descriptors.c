/* Every descriptor keeps what it promises; ops from outside are held to the same; faults are
 * seen. */
#include "alloc/base/fault.h"
#include "alloc/base/mem.h"
#include "alloc/base/poison.h"
#include "runtime/exec/exec.h"
#include "runtime/verify/op_check.h"
#include "tests/ops/ops_outside.h"
#include "tests/support/suite.h"

SW_TESTS("descriptors")

typedef struct {
    char first[512], all[8192];
} lines;

static void keep(void *to, const char *line)
{
    lines *l = to;
    const size_t used = strlen(l->all);
    if (l->first[0] == '\0')
        snprintf(l->first, sizeof l->first, "%s", line);
    snprintf(l->all + used, sizeof l->all - used, "%s\n", line);
}

/* In float32 and in bf16; a case without a number of bf16 counts as float32 alone. */
SW_TEST("every case of every op passes, in both types")
{
    unsigned n_ops = 0, n_all = 0, n_cases[2] = {0, 0};
    for (uint32_t id = 0; sw_op_at(id) != NULL; id++) {
        const sw_op_desc *d = sw_op_at(id);
        if (strncmp(d->name, "planted.", 8) == 0)
            continue; /* registered by the tests below */
        if (d->n_cases == 0) {
            CU_ASSERT_EQUAL(sw_op_check(id, keep, NULL, NULL, NULL), SW_INVALID);
            continue;
        }
        for (int half = 0; half < 2; half++) {
            lines report = {{0}, {0}};
            uint32_t n_checks = 0, n_failures = 0, cases = 0;
            SW_CHECK(swi_op_check(id, half ? SW_BF16 : SW_F32, keep, &report, &n_checks,
                                  &n_failures, &cases) == SW_OK,
                     "%s: %s", d->name, sw_last_error());
            SW_CHECK(n_failures == 0, "%u of %u failed:\n%s", n_failures, n_checks, report.all);
            SW_CHECK(n_checks >= 5u * cases, "%s: only %u checks", d->name, n_checks);
            n_cases[half] += cases;
            n_all += n_checks;
        }
        n_ops++;
    }
    sw_note("%u ops, %u cases, %u of them in float32 alone, %u checks", n_ops, n_cases[0],
            n_cases[0] - n_cases[1], n_all);
    CU_ASSERT(n_cases[1] >= 300);
}

/* An op without a case is checked by no one. Only what cannot be used from a step function may
 * have none: the conversion from a layout that inputs never have, which stands after each case
 * of the image ops, and what optimizers append, which the tests of the runtime compare with
 * plain C. */
static bool is_usable(const char *name)
{
    static const char *const not [] = {
        "from_n16",      "sumsq",         "clip_scale",   "accumulate_into", "finite",
        "product_bound", "any_verdict",   "note_verdict", "count_skipped",   "adam_tick",
        "steps_tick",    "noise_move",    "in_strips",    "in_images",       "partial_sum",
        "shard_mean",    "agreed_verdict"};
    for (size_t i = 0; i < sizeof not / sizeof *not ; i++)
        if (strcmp(not [i], name) == 0)
            return false;
    return strstr(name, "_update") == NULL && strncmp(name, "planted.", 8) != 0;
}

SW_TEST("every op has cases and a double-precision forward")
{
    for (uint32_t id = 0; sw_op_at(id) != NULL; id++) {
        const sw_op_desc *d = sw_op_at(id);
        if (!is_usable(d->name))
            continue;
        SW_CHECK(d->n_cases > 0 && d->reference != NULL, "%s has %d cases", d->name,
                 d->n_cases);
        for (int i = 0; i < d->n_cases; i++) {
            SW_CHECK(d->cases[i].name != NULL, "%s: case %d has no name", d->name, i);
            SW_CHECK(d->cases[i].gradient_error <= 1e-3, "%s, %s: a bound of %g", d->name,
                     d->cases[i].name, d->cases[i].gradient_error);
        }
    }
}

static void check_outside(const sw_op_desc *desc)
{
    lines report = {{0}, {0}};
    uint32_t id = 0, n_checks = 0, n_failures = 1;
    CU_ASSERT_EQUAL_FATAL(sw_op_register(desc, &id), SW_OK);
    CU_ASSERT_PTR_NOT_NULL_FATAL(sw_op_at(id));
    CU_ASSERT_STRING_EQUAL(sw_op_at(id)->name, desc->name);
    CU_ASSERT_EQUAL(sw_op_check(id, keep, &report, &n_checks, &n_failures), SW_OK);
    SW_CHECK(n_failures == 0, "%s", report.all);
    CU_ASSERT(n_checks > 20);
}

SW_TEST("an op from outside passes like an inside one")
{
    check_outside(&outside_square);
    check_outside(&outside_normalise);
    check_outside(&outside_fusion);
    check_outside(&outside_joint);
    check_outside(&outside_skips);
    uint32_t id = 0;
    CU_ASSERT_EQUAL(sw_op_register(&outside_square, &id), SW_INVALID); /* names are unique */
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "outside.square"));
}

/* For each fault, words that some line of the report must have. */
static const struct {
    const sw_op_desc *desc;
    const char *what;
} planted[] = {
    {&planted_formula, ": forward with "},
    {&planted_gradient, ": gradient with "},
    {&planted_overwrite, ": used twice: "},
    {&planted_undeclared, ": dead bytes: the gradient of input 0"},
    {&planted_needless, ": need: "},
    {&planted_inplace, ": in place"},
    {&planted_untried, ": in place: inputs 0x1 may be taken, the cases have tried 0x0"},
#if SW_CHECKS >= 1 && !SW_POISON
    {&planted_scratch, ": its kernel writes past scratch 0"}, /* guards see it first */
#else
    {&planted_scratch, ": stray write: planted.scratch"},
#endif
    {&planted_unwritten,
     "output 0"}, /* "forward" where checks fill what is born with NaN, else "dead bytes" */
    {&planted_isa, ": forward with base, "},
    {&planted_threads, ": three threads: output 0"},
    {&planted_memory, "differs in 1 of"},
    {&planted_refusal, ": run: unsupported: planted.refusal: 1 inputs are too many"},
    {&planted_one, ": one value for several inputs: the gradient of input 0"},
    {&planted_skips, ": gradient alone: the gradient of input 1"},
};

SW_TEST("every planted fault is reported")
{
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
        lines report = {{0}, {0}};
        uint32_t id = 0, n_checks = 0, n_failures = 0;
        CU_ASSERT_EQUAL_FATAL(sw_op_register(planted[i].desc, &id), SW_OK);
        SW_CHECK(sw_op_check(id, keep, &report, &n_checks, &n_failures) == SW_OK, "%s",
                 sw_last_error());
        SW_CHECK(n_failures > 0, "%s passed", planted[i].desc->name);
        SW_CHECK(strstr(report.all, planted[i].what) != NULL, "'%s' is not in:\n%s",
                 planted[i].what, report.all);
        CU_ASSERT_EQUAL(
            strncmp(report.first, planted[i].desc->name, strlen(planted[i].desc->name)), 0);
    }
}

static int lines_with(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        n++;
    return n;
}

/* Every direction, input and instruction set shows a wrong gradient: a case has one line of it,
 * which names all sets that this machine has. */
SW_TEST("a wrong gradient is reported once")
{
    static const char *const sets[] = {"with base, ", "with avx2 and base, ",
                                       "with avx512, avx2 and base, "};
    lines report = {{0}, {0}};
    uint32_t id = 0, n_failures = 0;
    while (sw_op_at(id) != NULL && strcmp(sw_op_at(id)->name, planted_gradient.name) != 0)
        id++;
    if (sw_op_at(id) == NULL)
        CU_ASSERT_EQUAL_FATAL(sw_op_register(&planted_gradient, &id), SW_OK);
    CU_ASSERT_EQUAL(sw_op_check(id, keep, &report, NULL, &n_failures), SW_OK);
    CU_ASSERT(n_failures > (uint32_t)planted_gradient.n_cases);
    SW_CHECK(lines_with(report.all, ": gradient with ") == planted_gradient.n_cases, "%s",
             report.all);
    sw_exec *exec;
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&exec, NULL), SW_OK);
    SW_CHECK(strstr(report.all, sets[exec->target.isa]) != NULL &&
                 strstr(report.all, " checks: along direction ") != NULL,
             "%s", report.all);
    sw_exec_destroy(exec);
}

/* Of two outputs one is used: the other's gradient is zero. */
typedef struct {
    uint32_t op;
    int used;
    sw_param a, b;
    sw_optimizer *opt;
} half;

static void use_half(sw_ctx *c, void *user)
{
    half *h = user;
    const sw_value in[] = {sw_use(c, h->a), sw_use(c, h->b)};
    sw_value out[2];
    sw_op_apply_all(c, h->op, in, 2, NULL, out);
    sw_backward(c, sw_sum(c, out[h->used], 0), &h->opt, 1);
    sw_accumulate(c, h->opt);
}

SW_TEST("one output of two is enough, the other has no gradient")
{
    sw_op_desc desc = outside_fusion;
    desc.name = "outside.pair again";
    half h = {.used = 0};
    sw_exec *exec;
    sw_model *model;
    CU_ASSERT_EQUAL_FATAL(sw_op_register(&desc, &h.op), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&exec, NULL), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_model_create(&model, "half"), SW_OK);
    h.a = sw_param_new(model, "a", SW_F32, SW_SHAPE(2), "constant:3");
    h.b = sw_param_new(model, "b", SW_F32, SW_SHAPE(2), "constant:5");
    const sw_optimizer_opts opts =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .keep_gradients = 1);
    CU_ASSERT_EQUAL(sw_optimizer_create(&h.opt, model, &opts), SW_OK);
    for (h.used = 0; h.used < 2; h.used++) {
        float da[2] = {0}, db[2] = {0};
        const sw_run_args args =
            SW_OPTS(sw_run_args, .fn = use_half, .user = &h, .models = &model, .n_models = 1,
                    .variant = (uint64_t)h.used);
        CU_ASSERT_EQUAL(sw_model_ready(model, exec, 1), SW_OK);
        SW_CHECK(sw_run(exec, &args) == SW_OK, "%s", sw_last_error());
        CU_ASSERT_EQUAL(sw_param_gradient(h.a, da, sizeof da), SW_OK);
        CU_ASSERT_EQUAL(sw_param_gradient(h.b, db, sizeof db), SW_OK);
        CU_ASSERT_EQUAL(da[1], h.used == 0 ? 1.0f : 5.0f);
        CU_ASSERT_EQUAL(db[1], h.used == 0 ? 1.0f : 3.0f);
    }
    sw_model_destroy(model);
    sw_exec_destroy(exec);
}

static uint64_t live_blocks(void)
{
    uint64_t n = 0;
    for (int i = 0; i < SW_HEAP_KINDS; i++) {
        sw_heap_stats stats;
        sw_heap_read((sw_heap)i, &stats);
        n += stats.blocks;
    }
    return n;
}

static void stop_faults(void *arg)
{
    sw_fault_plan(SW_FAULT_MEMORY, 0, SW_FAULT_OFF);
}

/* Not fitting the memory is no verdict about an op. */
SW_TEST("a check that gets no memory says so and leaks nothing")
{
    static uint32_t id;
    sw_op_desc desc = outside_normalise;
    desc.name = "outside.normalise again";
    if (id == 0)
        CU_ASSERT_EQUAL_FATAL(sw_op_register(&desc, &id), SW_OK);
    sw_after(stop_faults, NULL);
    const uint64_t before = live_blocks();
    unsigned n_refused = 0;
    for (uint64_t k = 0;; k += sw_tests_full() ? 1 : 7) {
        uint32_t n_checks = 0, n_failures = 0;
        sw_fault_plan(SW_FAULT_MEMORY, k, SW_FAULT_ONCE);
        const sw_status status = sw_op_check(id, NULL, NULL, &n_checks, &n_failures);
        const bool done = sw_fault_calls(SW_FAULT_MEMORY) <= k;
        stop_faults(NULL);
        SW_CHECK(n_failures == 0 && (status == SW_OK || status == SW_NOMEM),
                 "call %u: %s, %u failures", (unsigned)k, sw_status_name(status), n_failures);
        SW_CHECK(live_blocks() == before, "call %u: %u blocks are left", (unsigned)k,
                 (unsigned)(live_blocks() - before));
        n_refused += status == SW_NOMEM;
        if (done)
            break;
    }
    CU_ASSERT(n_refused > 10);
}

SW_TEST("bad descriptors are refused and change nothing")
{
    const sw_grad_desc none = {.n_makes = 1, .n_operands = 1, .operands = {SW_DOUT(0)}};
    sw_op_desc bad[6];
    uint32_t id = 12345;
    for (int i = 0; i < 6; i++) {
        bad[i] = outside_square;
        bad[i].name = i == 0 ? "" : "outside.bad";
    }
    bad[1].size = 0;
    bad[2].infer = NULL;
    bad[3].forward = NULL;
    bad[4].n_out = 0;
    bad[5].grads = &none; /* no kernel */
    for (int i = 0; i < 6; i++)
        SW_CHECK(sw_op_register(&bad[i], &id) == SW_INVALID, "descriptor %d", i);
    CU_ASSERT_EQUAL(sw_op_register(NULL, &id), SW_INVALID);
    CU_ASSERT_EQUAL(id, 12345); /* untouched on failure */
    CU_ASSERT_PTR_NULL(sw_op_at(1000000));
    CU_ASSERT_EQUAL(sw_op_check(1000000, NULL, NULL, NULL, NULL), SW_INVALID);
}
