/* Jobs that ask for knobs: the numbers of the optimizer and the dropout of mlp and lenet5, with
 * the bits of a job without. */
#include "alloc/base/mem.h"
#include "tests/support/suite.h"
#include "tools/job/job.h"

SW_TESTS("job knobs")

#define OK(call) SW_CHECK((call) == SW_OK, "%s", sw_last_error())

enum { BATCH = 20, PIXELS = 28 * 28, STEPS = 4, MOST = 200000 };

typedef struct {
    job_opts opts;
    job j;
} scene;

static void end_scene(void *at)
{
    scene *s = at;
    job_close(&s->j);
    job_unload(&s->j);
}

/* A job by these words, which blanks divide. */
static void begin(scene *s, const char *words, bool knobs)
{
    static char text[2][300];
    static int next;
    static cli_option table[JOB_OPTIONS_MAX];
    static char name[] = "job";
    char *to = text[next++ % 2], *argv[32] = {name};
    int argc = 1;
    memset(s, 0, sizeof *s);
    snprintf(to, sizeof text[0], "--batch 20 --synthetic-n 100 %s", words);
    for (char *word = strtok(to, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;
    const cli_command command =
        SW_INIT(.name = "job", .usage = "[options]", .about = "a job", .options = table,
                .n_options = job_options(&s->opts, table, 0, false));
    CU_ASSERT_EQUAL_FATAL(cli_parse(&command, argc, argv), CLI_GO);
    CU_ASSERT_EQUAL_FATAL(job_check(&s->opts), CLI_GO);
    s->opts.knobs = knobs;
    s->j.opts = &s->opts;
    s->j.batch = s->opts.batch.at[0];
    sw_after(end_scene, s);
    CU_ASSERT_EQUAL_FATAL(job_load(&s->j, true), CLI_GO);
    CU_ASSERT_EQUAL_FATAL(job_open(&s->j), CLI_GO);
    OK(sw_model_ready(s->j.net.model, s->j.exec, 3));
}

static void step(scene *s, uint64_t at)
{
    static unsigned char pixels[BATCH * PIXELS], labels[BATCH];
    sw_array in[2] = {s->j.program[JOB_TRAIN].inputs[0], s->j.program[JOB_TRAIN].inputs[1]};
    sw_dice dice = {at + 1};
    for (int i = 0; i < BATCH * PIXELS; i++)
        pixels[i] = (unsigned char)sw_dice_below(&dice, 256);
    for (int i = 0; i < BATCH; i++)
        labels[i] = (unsigned char)sw_dice_below(&dice, 10);
    in[0].data = pixels;
    in[1].data = labels;
    const sw_run_args args = job_args(&s->j, JOB_TRAIN, in, at);
    OK(sw_run(s->j.exec, &args));
}

/* Parameters in a row; how many. */
static size_t parameters(const scene *s, float *to)
{
    size_t n = 0;
    for (size_t i = 0; i < sw_param_count(s->j.net.model); i++) {
        const sw_param p = sw_param_at(s->j.net.model, i);
        const sw_shape shape = sw_param_shape(p);
        size_t its = 1;
        for (int k = 0; k < shape.rank; k++)
            its *= (size_t)shape.dim[k];
        CU_ASSERT_FATAL(n + its <= MOST);
        OK(sw_param_read(p, to + n, its * sizeof *to));
        n += its;
    }
    return n;
}

SW_TEST("knobs have the bits of constants")
{
    static const char *const jobs[] = {
        "--model mlp --hidden 24,16 --dropout 0.25 --optimizer momentum",
        "--model mlp --hidden 24,16 --optimizer sgd --weight-decay 0.01",
        "--model mlp --hidden 24,16 --dropout 0.5 --optimizer adamw --weight-decay 0.1",
        "--model lenet5 --dropout 0.125 --optimizer rmsprop --threads 2",
        "--model mlp --hidden 24 --dropout 0.1 --optimizer nesterov --keep-gradients"};
    static float numbers[2][MOST];
    for (size_t k = 0; k < sizeof jobs / sizeof *jobs; k++) {
        static scene s[5][2];
        size_t n[2];
        for (int i = 0; i < 2; i++) {
            begin(&s[k][i], jobs[k], i == 1);
            for (uint64_t at = 0; at < STEPS; at++)
                step(&s[k][i], at);
            n[i] = parameters(&s[k][i], numbers[i]);
        }
        CU_ASSERT(n[0] > 0 && n[0] == n[1]);
        SW_CHECK(memcmp(numbers[0], numbers[1], n[0] * sizeof(float)) == 0, "%s", jobs[k]);
    }
}

SW_TEST("a job without knobs has none")
{
    static scene s;
    begin(&s, "--model mlp --hidden 24 --dropout 0.25 --optimizer momentum", false);
    CU_ASSERT_EQUAL(sw_knob_find(s.j.net.model, "dropout").index, UINT32_MAX);
    CU_ASSERT_EQUAL(sw_optimizer_knob(s.j.net.optimizer, 0, "momentum").index, UINT32_MAX);
}

/* No new plan: the numbers of a warm job change what it learns, and take no memory. */
SW_TEST("numbers of a job change while it runs")
{
    static scene s[2];
    static float numbers[2][MOST];
    for (int i = 0; i < 2; i++) {
        begin(&s[i], "--model mlp --hidden 24,16 --dropout 0.25 --optimizer momentum", true);
        const sw_knob dropout = sw_knob_find(s[i].j.net.model, "dropout");
        const sw_knob momentum = sw_optimizer_knob(s[i].j.net.optimizer, 0, "momentum");
        CU_ASSERT_EQUAL(sw_knob_get(dropout), 0.25f);
        CU_ASSERT_EQUAL(sw_knob_get(momentum), 0.9f);
        step(&s[i], 0);
        step(&s[i], 1);
        const uint64_t calls = sw_mem_calls();
        if (i == 1) {
            sw_knob_set(dropout, 0.5f);
            sw_knob_set(momentum, 0.0f);
        }
        step(&s[i], 2);
        CU_ASSERT_EQUAL(sw_mem_calls(), calls);
    }
    const size_t n = parameters(&s[0], numbers[0]);
    CU_ASSERT_EQUAL(parameters(&s[1], numbers[1]), n);
    CU_ASSERT(memcmp(numbers[0], numbers[1], n * sizeof(float)) != 0);
}
