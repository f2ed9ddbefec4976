/* Kernels from outside that misbehave: what an exec with checks finds, and what every exec
 * says. */
#include "tests/runtime/nets.h"

SW_TESTS("guards")

typedef enum SW_INIT(HONEST, PAST, FAR_PAST, IN_FRONT, INTO_INPUT, NOTHING, PAST_SCRATCH,
                     NO_STATUS, NO_REASON, A_REASON, NO_STATUS_FOR_TYPES,
                     NO_REASON_FOR_TYPES) mischief;

static mischief does;
static uint32_t op;

static sw_status like_input(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    out[0] = in[0];
    if (does == NO_STATUS_FOR_TYPES)
        return (sw_status)99;
    return does == NO_REASON_FOR_TYPES ? SW_UNSUPPORTED : SW_OK;
}

static size_t some_scratch(const sw_kernel_info *info)
{
    return sw_type_bytes(&info->in[0]);
}

static sw_status twice(const sw_launch *l)
{
    const int64_t n = sw_type_elements(&l->out[0].type);
    const float *x = l->in[0].ptr;
    float *y = l->out[0].ptr, *scratch = l->scratch;
    for (int64_t i = 0; i < n && does != NOTHING; i++)
        y[i] = 2.0f * x[i];
    switch (does) {
    case PAST:
        ((unsigned char *)y)[(size_t)n * sizeof *y] = 1;
        break;
    case FAR_PAST:
        y[n + 20] = 1.0f;
        break;
    case IN_FRONT:
        y[-1] = 1.0f;
        break;
    case INTO_INPUT:
        ((float *)(uintptr_t)x)[2] = 7.0f;
        break;
    case PAST_SCRATCH:
        scratch[n] = 1.0f;
        break;
    case NO_STATUS:
        return (sw_status)77;
    case NO_REASON:
        return SW_FORMAT;
    case A_REASON:
        SW_FAIL(SW_FORMAT, "seven of them");
    default:
        break;
    }
    return SW_OK;
}

static void step(sw_ctx *c, void *user)
{
    const sw_value x = sw_scale_by(c, sw_input(c, 0), 3.0f);
    const sw_value y = sw_op_apply(c, op, &x, 1, NULL);
    sw_output(c, "y", sw_add(c, y, x)); /* x is read after, too */
}

static bool is_registered(void)
{
    static const sw_op_desc desc =
        SW_INIT(.size = sizeof desc, .name = "planted_twice", .n_in = 1, .n_out = 1,
                .infer = like_input, .scratch_bytes = some_scratch, .forward = twice,
                .no_gradient = 1);
    return op != 0 || SW_CHECK(sw_op_register(&desc, &op) == SW_OK, "%s", sw_last_error());
}

static float numbers[21];

static sw_status run(mischief what, bool checks, bool immediate)
{
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .checks = checks));
    const sw_array in = {SW_F32, SW_SHAPE(3, 7), numbers};
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = step, .inputs = &in, .n_inputs = 1, .immediate = immediate);
    for (int i = 0; i < 21; i++)
        numbers[i] = (float)i - 9.0f;
    does = what;
    const sw_status status = sw_run(exec, &args);
    does = HONEST;
    if (status != SW_OK)
        return status;
    sw_array y;
    SW_TRY(sw_output_get(exec, "y", &y));
    for (int i = 0; i < 21; i++)
        CU_ASSERT_EQUAL(((const float *)y.data)[i], 9.0f * numbers[i]);
    sw_run_info info = SW_OPTS(sw_run_info);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    SW_TRY(sw_last_run(exec, &info));
    SW_TRY(sw_plan(exec, &args, &plan));
    CU_ASSERT(immediate || info.arena_bytes == plan.arena_bytes); /* bands are in no figure */
    return SW_OK;
}

SW_TEST("checks find what a kernel must not do")
{
    static const struct {
        mischief what;
        const char *says;
    } all[] = {
        {PAST, "planted_twice: its kernel writes past output 0: byte 84 of 84"},
        {FAR_PAST, "planted_twice: its kernel writes past output 0: byte 164 of 84"},
        {IN_FRONT, "planted_twice: its kernel writes 4 bytes before output 0"},
        {INTO_INPUT, "planted_twice: its kernel writes into input 0: byte 10 of 84"},
        {NOTHING, "planted_twice: its kernel writes nothing of output 0 (84 bytes)"},
        {PAST_SCRATCH, "planted_twice: its kernel writes past scratch 0: byte 84 of 84"},
    };
    if (!is_registered())
        return;
    for (int immediate = 0; immediate < 2; immediate++) {
        OK(run(HONEST, true, immediate != 0));
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            REFUSED(run(all[i].what, true, immediate != 0), SW_INVALID, all[i].says);
    }
    OK(run(HONEST, false, false));
}

SW_TEST("a failure has a status and a reason")
{
    if (!is_registered())
        return;
    for (int checks = 0; checks < 2; checks++)
        for (int immediate = 0; immediate < 2; immediate++) {
            (void)sw_error_set(SW_IO, __FILE__, __LINE__, "an older failure");
            REFUSED(run(NO_STATUS, checks != 0, immediate != 0), SW_INVALID,
                    "planted_twice: its kernel must return an sw_status (got 77)");
            REFUSED(run(NO_REASON, checks != 0, immediate != 0), SW_FORMAT,
                    "planted_twice: its kernel failed (format) and gave no reason");
            REFUSED(run(NO_STATUS_FOR_TYPES, checks != 0, immediate != 0), SW_INVALID,
                    "planted_twice: its infer must return an sw_status (got 99)");
            REFUSED(run(NO_REASON_FOR_TYPES, checks != 0, immediate != 0), SW_UNSUPPORTED,
                    "planted_twice: its infer failed (unsupported) and gave no reason");
            REFUSED(run(A_REASON, checks != 0, immediate != 0), SW_FORMAT,
                    "planted_twice: seven of them");
        }
}

SW_TEST("an op without cases is not checked")
{
    uint32_t n_checks = 5, n_failures = 5;
    if (!is_registered())
        return;
    REFUSED(sw_op_check(op, NULL, NULL, &n_checks, &n_failures), SW_INVALID,
            "planted_twice has no cases");
}

/* Whole nets under guards: the same bits, in both modes. */
SW_TEST("guards change no bit")
{
    for (int image = 0; image < 2; image++)
        for (int immediate = 0; immediate < 2; immediate++) {
            net *n[2];
            for (int checks = 0; checks < 2; checks++) {
                sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .seed = 11, .checks = checks));
                const batch b = net_batch(image != 0, 0, 20);
                n[checks] = net_new(image != 0, NULL);
                sw_run_args args = net_args(n[checks], &b);
                args.immediate = immediate;
                for (args.step = 0; args.step < 4; args.step++)
                    OK(sw_run(exec, &args));
            }
            CU_ASSERT(net_same(n[0]->model, n[1]->model));
        }
}
