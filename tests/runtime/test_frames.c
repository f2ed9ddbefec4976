/* A program is const once it is planned: runs write into frames, so execs can share it. */
#include "alloc/base/poison.h"
#include "runtime/exec/run_internal.h"
#include "tests/runtime/nets.h"

SW_TESTS("frames")

static uint64_t add(uint64_t sum, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ p[i]) * 0x100000001b3ull;
    return sum;
}

/* Of the program and of all arrays of it that a run reads. */
static uint64_t sum_of(const swi_program *p)
{
    const swi_trace *t = &p->trace;
    uint64_t sum = add(0xcbf29ce484222325ull, p, sizeof *p);
    sum = add(sum, p->ops, p->n_ops * sizeof *p->ops);
    sum = add(sum, p->binds, p->n_binds * sizeof *p->binds);
    sum = add(sum, p->births, p->n_births * sizeof *p->births);
    sum = add(sum, t->nodes, t->n_nodes * sizeof *t->nodes);
    sum = add(sum, t->operands, t->n_operands * sizeof *t->operands);
    sum = add(sum, t->values, t->n_values * sizeof *t->values);
    return add(sum, t->storages, t->n_storages * sizeof *t->storages);
}

SW_TEST("a run writes nothing into its program")
{
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .threads = 2, .shares = 1));
    net *n = net_new(true, NULL);
    const batch b = net_batch(true, 0, 20);
    const sw_run_args args = net_args(n, &b);
    sw_witness_info info = SW_OPTS(sw_witness_info);
    OK(sw_plan(exec, &args, &SW_OPTS(sw_plan_info)));
    CU_ASSERT_EQUAL_FATAL(exec->n_frames, 1);
    const swi_frame *f = exec->frames[0];
    const uint64_t planned = sum_of(f->program);
    CU_ASSERT(!f->ran);
    net_train(exec, n, &b, 3);
    CU_ASSERT(f->ran && f->breakdown.n > 0 && exec->last == f->program);
    OK(sw_witness(exec, &args, SW_WITNESS_ALL, &info));
    CU_ASSERT_EQUAL(info.agreed, SW_WITNESS_ALL);
    CU_ASSERT_EQUAL(sum_of(f->program), planned);
}

/* Two execs, one program: each has a frame of its own. */
SW_TEST("two execs run one program")
{
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .threads = 1);
    sw_exec *exec[2] = {net_exec(&opts), net_exec(&opts)};
    net *n[2] = {net_new(false, NULL), net_new(false, NULL)};
    const batch b = net_batch(false, 0, 20);
    swi_frame *frame = NULL, *of[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        net_train(exec[i], n[i], &b, 1);
    const swi_program *p = exec[0]->last;
    const uint64_t planned = sum_of(p);
    OK(swi_frame_create(&frame, p));
    of[0] = exec[0]->last_frame;
    of[1] = frame;
    for (uint32_t i = 0; frame != NULL && i < 3 * p->n_ops; i++) /* op by op, in turns */
        for (int k = 0; k < 2; k++) {
            const sw_run_args args = net_args(n[k], &b);
            unsigned char *base[SWI_SEG_COUNT + 1];
            swi_bases(exec[k], &args, base);
            sw_launch *l = swi_frame_resolve(of[k], i % p->n_ops, base, p->binds);
            CU_ASSERT_PTR_EQUAL(l, swi_frame_launch(of[k], i % p->n_ops));
            CU_ASSERT_PTR_NOT_EQUAL(l, swi_frame_launch(of[1 - k], i % p->n_ops));
            CU_ASSERT(l->n_out == 0 ||
                      l->out != swi_frame_launch(of[1 - k], i % p->n_ops)->out);
        }
    const swi_hooks none = {0};
    for (int k = 0; frame != NULL && k < 2; k++) {
        const sw_run_args args = net_args(n[k], &b);
        unsigned char *base[SWI_SEG_COUNT + 1];
        bool updated = false;
        swi_bases(exec[k], &args, base);
        sw_unpoison(sw_arena_base(exec[k]->arena), p->height); /* no births are stated here */
        OK(swi_program_execute(exec[k], of[k], &args, base, p->binds, &none, &updated));
        CU_ASSERT(updated);
    }
    CU_ASSERT(net_same(n[0]->model, n[1]->model));
    CU_ASSERT_EQUAL(sum_of(p), planned);
    swi_frame_free(frame);
}
