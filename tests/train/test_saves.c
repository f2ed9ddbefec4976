/* The state of a run in a checkpoint: what comes back, and what is refused by name. */
#include "tests/support/suite.h"
#include "tools/job/saves.h"

SW_TESTS("saves")

#define OK(call) SW_CHECK((call) == SW_OK, "%s", sw_last_error())

typedef struct {
    uint64_t step;
    int64_t waited;
    double loss;
    bool stopped;
} state;
static const job_field fields[] = {
    JOB_FIELD(JOB_U64, state, step), JOB_FIELD(JOB_I64, state, waited),
    JOB_FIELD(JOB_F64, state, loss), JOB_FIELD(JOB_BOOL, state, stopped)};
static const job_saved what = {"train", fields, 4, .loads = true};

static void end_exec(void *exec)
{
    sw_exec_destroy(exec);
}

static void end_checkpoint(void *checkpoint)
{
    sw_checkpoint_destroy(checkpoint);
}

/* A checkpoint without models, in a folder of its own. */
static sw_checkpoint *a_checkpoint(void)
{
    static char path[1024];
    sw_exec *exec = NULL;
    sw_checkpoint *c = NULL;
    snprintf(path, sizeof path, "%s", sw_temp_path("saves"));
    OK(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts)));
    sw_after(end_exec, exec);
    OK(sw_checkpoint_create(&c, exec, &SW_OPTS(sw_checkpoint_opts, .path = path)));
    sw_after(end_checkpoint, c);
    return c;
}

static void through_the_file(sw_checkpoint *c)
{
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    OK(sw_checkpoint_save(c, 1));
    OK(sw_checkpoint_find(c, NULL, &found));
    CU_ASSERT_FATAL(found.found);
}

/* Each kind of option and what is added; NULL is "none", and a real has as few digits as say
 * it. */
static const job_identity *identity_of(double rate, const char *word, int64_t count)
{
    static job_identity identity;
    static job_opts opts;
    static int on = 1;
    static bool flag = true;
    static double x;
    static const char *name;
    static int64_t n;
    const cli_option options[] = {
        {.name = "--lr", .kind = CLI_REAL, .to = &x, .decides = true},
        {.name = "--word", .kind = CLI_WORD, .to = &name, .decides = true},
        {.name = "--count", .kind = CLI_COUNT, .to = &n, .decides = true},
        {.name = "--flag", .kind = CLI_FLAG, .to = &flag, .decides = true},
        {.name = "--switch", .kind = CLI_SWITCH, .to = &on, .decides = true},
        {.name = "--threads", .kind = CLI_COUNT, .to = &n}};
    x = rate;
    name = word;
    n = count;
    opts.model = "lenet5";
    opts.kind = tool_model_find("lenet5");
    job_identify(&identity, &opts, options, 6);
    return &identity;
}

SW_TEST("what decides is written as it stands")
{
    const job_identity *i = identity_of(0.1, NULL, -3);
    CU_ASSERT(!i->full);
    const char *at = strstr(i->text, "--lr\t");
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    CU_ASSERT_STRING_EQUAL(
        at, "--lr\t0.1\n--word\tnone\n--count\t-3\n--flag\tyes\n--switch\tyes\n");
    CU_ASSERT_PTR_NOT_NULL(
        strstr(identity_of(1.0 / 3, "a", 1)->text, "--lr\t0.3333333333333333\n"));
}

SW_TEST("the state comes back to the bit")
{
    static const double losses[] = {0.1, -0.0, (double)INFINITY, (double)NAN, 5e-324};
    sw_checkpoint *c = a_checkpoint();
    const job_identity *i = identity_of(0.1, "a", 1);
    for (size_t k = 0; k < sizeof losses / sizeof *losses; k++) {
        const state was = {UINT64_MAX - k, -(int64_t)k, losses[k], k % 2 != 0};
        state is = {0, 0, 0, false};
        OK(job_state_put(c, &what, i, &was));
        through_the_file(c);
        CU_ASSERT_EQUAL(job_state_get(c, &what, i, "FILE", &is), CLI_GO);
        CU_ASSERT(is.step == was.step && is.waited == was.waited && is.stopped == was.stopped);
        CU_ASSERT_EQUAL(memcmp(&is.loss, &was.loss, sizeof is.loss), 0);
    }
}

static void refused(sw_checkpoint *c, const job_identity *i, int status, const char *says)
{
    state is;
    SW_CHECK(job_state_get(c, &what, i, "FILE", &is) == status &&
                 strstr(cli_last_line(), says) != NULL,
             "and not '%s': %s", says, cli_last_line());
}

SW_TEST("another run is refused by name")
{
    sw_checkpoint *c = a_checkpoint();
    job_identity more;
    const state was = {7, 1, 2, true};
    OK(job_state_put(c, &what, identity_of(0.1, "a", 1), &was));
    through_the_file(c);
    refused(c, identity_of(0.2, "a", 1), CLI_USAGE,
            "FILE: --lr was '0.1' in the run that saved it and is '0.2' now");
    refused(c, identity_of(0.1, NULL, 1), CLI_USAGE, "--word was 'a'");
    refused(c, identity_of(0.1, "a", 2), CLI_USAGE, "--load-params FILE");
    more = *identity_of(0.1, "a", 1);
    job_identity_add(&more, "--more", "%d", 3);
    refused(c, &more, CLI_USAGE, "--more is '3' now, and the run that saved it had no such");
    OK(job_state_put(c, &what, &more, &was));
    through_the_file(c);
    refused(c, identity_of(0.1, "a", 1), CLI_USAGE,
            "--more was '3' in the run that saved it, and has no part in this one");
    const job_saved other = {"pbt", fields, 4, .loads = false};
    state is;
    CU_ASSERT_EQUAL(job_state_get(c, &other, &more, "FILE", &is), CLI_USAGE);
    CU_ASSERT_PTR_NOT_NULL(strstr(cli_last_line(), "`stepwell pbt` did not save it"));
}

/* Cut anywhere; with a field that is no number; and what train wrote before. */
SW_TEST("damage is refused")
{
    sw_checkpoint *c = a_checkpoint();
    const job_identity *i = identity_of(0.1, "a", 1);
    const state was = {7, 1, 2, true};
    static const char old[] = "{\"options\":{\"--model\":\"lenet5\"},\"progress\":{}}";
    const void *text;
    size_t n;
    char copy[2048];
    OK(job_state_put(c, &what, i, &was));
    through_the_file(c);
    OK(sw_checkpoint_get(c, "train", &text, &n));
    CU_ASSERT_FATAL(n > 0 && n < sizeof copy);
    memcpy(copy, text, n);
    for (size_t k = 1; k < n; k++) {
        state is = {0, 0, 0, false};
        OK(sw_checkpoint_put(c, "train", copy, k));
        through_the_file(c);
        SW_CHECK(job_state_get(c, &what, i, "FILE", &is) != CLI_GO, "cut at %d", (int)k);
    }
    copy[n] = '\0';
    char *at = strstr(copy, "step\t7");
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    at[5] = 'x';
    OK(sw_checkpoint_put(c, "train", copy, n));
    through_the_file(c);
    refused(c, i, CLI_DAMAGED, "cut or damaged");
    OK(sw_checkpoint_put(c, "train", old, sizeof old - 1));
    through_the_file(c);
    refused(c, i, CLI_DAMAGED, "another version");
}

SW_TEST("saves are due by steps or by time")
{
    const cli_every steps = {.steps = 5}, time = {.ns = 3600000000000u}, none = {0, 0};
    job_due due = job_due_after(&steps, 7);
    CU_ASSERT(!job_is_due(&due, 9) && job_is_due(&due, 10) && job_is_due(&due, 11));
    due = job_due_after(&time, 7);
    CU_ASSERT(!job_is_due(&due, 1000));
    due.ns = 1;
    CU_ASSERT(job_is_due(&due, 0));
    CU_ASSERT_EQUAL(job_every_ns(&none), 600000000000u);
}
