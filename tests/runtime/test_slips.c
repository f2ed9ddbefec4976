/* Slips of a caller, and of a clock: errors by name, or harmless. */
#include "alloc/base/fault.h"
#include "alloc/base/sys.h"
#include "tests/runtime/nets.h"

SW_TESTS("slips")

/* Numbers that strtod reads and no one means: hexadecimal, blanks, words. */
SW_TEST("numbers of initialisers are decimal")
{
    static const char *const bad[] = {
        "constant:0x10", "constant:-0X1p3", "constant: 1",  "constant:nan", "constant:inf",
        "normal:0x1",    "uniform:0,0x10",  "uniform:0, 1", "constant:",    "constant:1e999"};
    static const char *const good[] = {"constant:+1.5e-3", "constant:.5", "uniform:-1E0,2."};
    sw_exec *exec = net_exec(NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad + sizeof good / sizeof *good; i++) {
        const bool is_bad = i < sizeof bad / sizeof *bad;
        const char *init = is_bad ? bad[i] : good[i - sizeof bad / sizeof *bad];
        sw_model *m = made_model("m");
        const sw_param p = sw_param_new(m, "w", SW_F32, SW_SHAPE(2), init);
        SW_CHECK((p.index == 0) == is_bad, "%s", init);
        if (is_bad)
            REFUSED(sw_model_ready(m, exec, 1), SW_INVALID, init);
        else
            OK(sw_model_ready(m, exec, 1));
    }
}

static void phased(sw_ctx *c, void *user)
{
    sw_set_phase(c, (sw_phase) * (const int *)user);
    sw_output(c, "z", sw_tanh(c, sw_to_f32(c, sw_input(c, 0), 1.0f, 0.0f)));
}

SW_TEST("an unknown phase is refused")
{
    static const uint8_t x[4] = {1};
    static const int phases[] = {99, 5, -1, SW_STEP};
    const sw_array in = {SW_U8, SW_SHAPE(4), x};
    sw_exec *exec = net_exec(NULL);
    for (int i = 0; i < 8; i++) {
        int phase = phases[i / 2];
        char part[32];
        sw_run_args args = SW_OPTS(sw_run_args, .fn = phased, .user = &phase, .inputs = &in);
        args.n_inputs = 1;
        args.immediate = i % 2;
        args.variant = (uint64_t)i;
        snprintf(part, sizeof part, "(got %d)", phase);
        if (phase == SW_STEP)
            OK(sw_run(exec, &args));
        else
            REFUSED(sw_run(exec, &args), SW_INVALID, part);
    }
}

/* ---- the clock --------------------------------------------------------------------------- */

static void right_the_clock(void *unused)
{
    sw_fault_clock(0);
}

static void go_back(sw_ctx *c, void *user)
{
    sw_fault_clock(-3600000000000); /* an hour, in the middle of the run */
    sw_output(c, "z", sw_tanh(c, sw_to_f32(c, sw_input(c, 0), 1.0f, 0.0f)));
}

/* Durations are 0 then, never below 0, which would be 584 years. */
SW_TEST("a clock that runs backward does no harm")
{
    static const uint8_t x[4] = {1};
    const sw_array in = {SW_U8, SW_SHAPE(4), x};
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .op_clocks = 1));
    sw_after(right_the_clock, NULL);
    for (int i = 0; i < 4; i++) {
        sw_run_args args = SW_OPTS(sw_run_args, .fn = go_back, .inputs = &in, .n_inputs = 1);
        args.immediate = i % 2;
        sw_run_info info = SW_OPTS(sw_run_info);
        sw_fault_clock(0);
        const uint64_t before = sw_clock_ns();
        OK(sw_run(exec, &args));
        CU_ASSERT(sw_clock_ns() >= before);
        OK(sw_last_run(exec, &info));
        SW_CHECK(info.ns < 60000000000u, "%llu ns", (unsigned long long)info.ns);
        for (int p = 0; p < SW_PHASES; p++)
            SW_CHECK(info.phase[p].ns <= info.ns, "phase %d: %llu ns", p,
                     (unsigned long long)info.phase[p].ns);
    }
}
