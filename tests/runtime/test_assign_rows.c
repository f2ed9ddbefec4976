/* Rows of a state that are written in place, at a place that a run says. */
#include "tests/runtime/nets.h"

SW_TESTS("assign rows")

enum { BATCH = 2, ROWS = 7, NEW = 2, WIDTH = 3 };

typedef struct {
    sw_exec *exec;
    sw_model *model;
    sw_param state, w, flat;
    int calls;
    sw_value old;
} bench;

static bench b;
static float x[BATCH * NEW * WIDTH], was[BATCH * ROWS * WIDTH];

static void begin(const sw_exec_opts *opts)
{
    memset(&b, 0, sizeof b);
    b.exec = net_exec(opts);
    OK(sw_model_create(&b.model, "m"));
    AFTER(sw_model_destroy, b.model);
    b.state = sw_state_new(b.model, "cache", SW_F32, SW_SHAPE(BATCH, ROWS, WIDTH));
    b.flat = sw_state_new(b.model, "flat", SW_F32, SW_SHAPE(ROWS, WIDTH));
    b.w = sw_param_new(b.model, "w", SW_F32, SW_SHAPE(BATCH, ROWS, WIDTH), "ones");
    OK(sw_model_ready(b.model, b.exec, 1));
    for (int i = 0; i < BATCH * NEW * WIDTH; i++)
        x[i] = (float)(i + 1);
    for (int i = 0; i < BATCH * ROWS * WIDTH; i++)
        was[i] = -(float)(i + 1);
    OK(sw_param_write(b.state, was, sizeof was));
}

static sw_run_args args_of(sw_step_fn *fn, sw_array in[2], const int32_t *at, sw_mode mode)
{
    in[0] = (sw_array){SW_F32, SW_SHAPE(BATCH, NEW, WIDTH), x};
    in[1] = (sw_array){SW_I32, SW_SHAPE(1), at};
    return SW_OPTS(sw_run_args, .fn = fn, .user = &b, .models = &b.model, .n_models = 1,
                   .inputs = in, .n_inputs = 2, .mode = mode);
}

static sw_status run(sw_step_fn *fn, int32_t at, bool immediate, sw_mode mode)
{
    sw_array in[2];
    sw_run_args args = args_of(fn, in, &at, mode);
    args.immediate = immediate;
    return sw_run(b.exec, &args);
}

static void step(sw_ctx *c, void *user)
{
    bench *s = user;
    s->calls++;
    sw_output(c, "before", sw_scale_by(c, sw_use(c, s->state), 2.0f));
    sw_assign_rows(c, s->state, sw_input(c, 0), sw_input(c, 1));
    sw_output(c, "after", sw_use(c, s->state));
}

/* `now` gets the rows at `at`. */
static void expect(float *now, int32_t at)
{
    for (int k = 0; k < BATCH; k++)
        memcpy(now + (k * ROWS + at) * WIDTH, x + k * NEW * WIDTH, NEW * WIDTH * sizeof *x);
}

SW_TEST("rows are written in place at any place by one plan, and later reads see them")
{
    static const sw_exec_opts kinds[] = {{.size = sizeof kinds[0]},
                                         {.size = sizeof kinds[0], .checks = 1},
                                         {.size = sizeof kinds[0], .compute = SW_BF16}};
    for (int k = 0; k < 3; k++)
        for (int now = 0; now < 2; now++) {
            begin(&kinds[k]);
            float want[BATCH * ROWS * WIDTH], kept[BATCH * ROWS * WIDTH];
            memcpy(want, was, sizeof want);
            for (int32_t at = 0; at <= ROWS - NEW; at++) {
                sw_array before, after;
                sw_run_info info = SW_OPTS(sw_run_info);
                float twice[BATCH * ROWS * WIDTH];
                for (int i = 0; i < BATCH * ROWS * WIDTH; i++)
                    twice[i] = 2.0f * want[i];
                x[0] = (float)(at + 64);
                OK(run(step, at, now != 0, SW_EVAL));
                OK(sw_last_run(b.exec, &info));
                CU_ASSERT(at < 2 || now || k == 1 || (info.warm && info.allocations == 0));
                OK(sw_output_get(b.exec, "before", &before));
                OK(sw_output_get(b.exec, "after", &after));
                CU_ASSERT_EQUAL(memcmp(before.data, twice, sizeof twice), 0);
                expect(want, at);
                CU_ASSERT_EQUAL(memcmp(after.data, want, sizeof want), 0);
                OK(sw_param_read(b.state, kept, sizeof kept));
                CU_ASSERT_EQUAL(memcmp(kept, want, sizeof want), 0);
            }
            CU_ASSERT(b.calls == 1 || now || k == 1);
        }
}

SW_TEST("witnesses agree with the plan")
{
    const int32_t at = 3;
    sw_array in[2];
    begin(NULL);
    const sw_run_args args = args_of(step, in, &at, SW_EVAL);
    sw_witness_info seen = SW_OPTS(sw_witness_info);
    OK(sw_witness(b.exec, &args, SW_WITNESS_ALL, &seen));
    SW_CHECK(seen.agreed == SW_WITNESS_ALL, "%s", seen.first_fault);
}

SW_TEST("a place out of range is refused in the run, and no row changes")
{
    for (int now = 0; now < 2; now++) {
        static const int32_t wrong[] = {-1, ROWS - NEW + 1, INT32_MAX, INT32_MIN};
        for (int i = 0; i < 4; i++) {
            float kept[BATCH * ROWS * WIDTH];
            begin(NULL);
            REFUSED(run(step, wrong[i], now != 0, SW_EVAL), SW_INVALID, "at must be 0 to 5");
            CU_ASSERT(sw_param_read(b.state, kept, sizeof kept) != SW_OK ||
                      memcmp(kept, was, sizeof was) == 0);
            OK(sw_model_ready(b.model, b.exec, 1));
            OK(run(step, 0, now != 0, SW_EVAL));
        }
    }
}

static void only(sw_ctx *c, void *user)
{
    sw_assign_rows(c, ((bench *)user)->state, sw_input(c, 0), sw_input(c, 1));
}

static void read_old(sw_ctx *c, void *user)
{
    bench *s = user;
    const sw_value old = sw_use(c, s->state);
    only(c, s);
    sw_output(c, "old", sw_relu(c, old));
}

static void into_parameter(sw_ctx *c, void *user)
{
    sw_assign_rows(c, ((bench *)user)->w, sw_input(c, 0), sw_input(c, 1));
}

static void into_flat(sw_ctx *c, void *user)
{
    sw_assign_rows(c, ((bench *)user)->flat, sw_input(c, 0), sw_input(c, 1));
}

static void of_ids(sw_ctx *c, void *user)
{
    sw_assign_rows(c, ((bench *)user)->state, sw_input(c, 0), sw_input(c, 0));
}

static void after_assign(sw_ctx *c, void *user)
{
    bench *s = user;
    sw_assign(c, s->state, sw_scale_by(c, sw_use(c, s->state), 2.0f));
    only(c, s);
}

SW_TEST("what cannot be is refused before anything runs")
{
    static const struct {
        sw_step_fn *fn;
        sw_mode mode;
        const char *says;
    } wrong[] = {
        {only, SW_TRAIN, "'cache' is written in evaluation alone"},
        {read_old, SW_EVAL, "which assign_rows has overwritten"},
        {into_parameter, SW_EVAL, "'w' is a parameter"},
        {into_flat, SW_EVAL, "must be (batch, rows, width)"},
        {of_ids, SW_EVAL, "at must be one i32 number"},
        {after_assign, SW_EVAL, "'cache' was assigned as a whole"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        begin(NULL);
        const void *before = net_copy_bytes(b.model);
        REFUSED(run(wrong[i].fn, 0, false, wrong[i].mode), SW_INVALID, wrong[i].says);
        CU_ASSERT(net_same_bytes(b.model, before));
    }
}

/* The rows, then all of it doubled; a second row in the same run. */
static void several(sw_ctx *c, void *user)
{
    bench *s = user;
    only(c, s);
    const sw_value at = sw_input(c, 1);
    const sw_value row = sw_slice(c, sw_use(c, s->state), 1, 5, 1);
    sw_assign_rows(c, s->state, row, at);
    sw_assign(c, s->state, sw_scale_by(c, sw_use(c, s->state), 2.0f));
}

SW_TEST("one run may write several times, from the state itself, and as a whole after it")
{
    for (int now = 0; now < 2; now++) {
        float want[BATCH * ROWS * WIDTH], kept[BATCH * ROWS * WIDTH];
        begin(NULL);
        memcpy(want, was, sizeof want);
        expect(want, 1);
        for (int k = 0; k < BATCH; k++)
            memcpy(want + (k * ROWS + 1) * WIDTH, want + (k * ROWS + 5) * WIDTH,
                   WIDTH * sizeof *want);
        for (int i = 0; i < BATCH * ROWS * WIDTH; i++)
            want[i] *= 2.0f;
        OK(run(several, 1, now != 0, SW_EVAL));
        OK(sw_param_read(b.state, kept, sizeof kept));
        CU_ASSERT_EQUAL(memcmp(kept, want, sizeof want), 0);
    }
}
