/* The guide, tools/docs/replan.md. The lines of its workflow as they stand, each by `sh -e`,
 * pass where nothing grew and fail where the least or the loss did. Its tables have all members
 * of the JSON and of the plan's file. */
#include "tests/snapshot/files.h"
#include "tests/snapshot/replanned.h"
#include "tests/support/process.h"
#include "tests/support/suite.h"

SW_TESTS("replan guide")

#define STEPS 4
#define RUN "- run: "

typedef struct {
    char run[STEPS][300];
    int n;
} workflow;

/* The steps after the guide's head "In a workflow", up to the next head. */
static void read_guide(workflow *w)
{
    char line[1000];
    bool in = false;
    w->n = 0;
    FILE *f = fopen(sw_textf("%s/tools/docs/replan.md", sw_source_root()), "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    while (fgets(line, sizeof line, f) != NULL) {
        const char *at = strstr(line, RUN);
        if (strncmp(line, "## ", 3) == 0)
            in = strcmp(line, "## In a workflow\n") == 0;
        if (!in || at == NULL)
            continue;
        CU_ASSERT_FATAL(w->n < STEPS);
        snprintf(w->run[w->n++], sizeof w->run[0], "%s", at + strlen(RUN));
    }
    fclose(f);
    CU_ASSERT_EQUAL_FATAL(w->n, 2);
}

/* The index of the first step that fails in the folder of the files, -1 where none does. */
static int run_steps(const workflow *w)
{
    const char *folder = sw_temp_path(".");
    for (int i = 0; i < w->n; i++) {
        const char *script = put_file("step.sh", w->run[i], strlen(w->run[i]));
        if (sw_shell("cd '%s' && PATH='%s/tools':\"$PATH\" sh -e '%s' > said.txt 2>&1", folder,
                     sw_build_root(), script) != 0)
            return i;
    }
    return -1;
}

/* A training, and then blocks that keep free memory of their segments from being used. */
static void write_run(const char *name, uint64_t weight, int pinned, uint64_t huge)
{
    const plain_training t = {6, 5, 3, weight, 2 * MIB, 0};
    plain_allocator *p = plain_new(7);
    plain_train(p, &t);
    for (int i = 0; i < pinned; i++) {
        const uint64_t both = plain_malloc(p, 64, 40 * MIB, 1);
        plain_free(p, both, false);
        (void)plain_malloc(p, 64, 12 * MIB, 2);
        plain_free(p, plain_malloc(p, 64, 100 * MIB, 3), false);
        plain_empty_cache(p);
    }
    if (huge > 0)
        plain_free(p, plain_malloc(p, 0, huge, 4), false);
    (void)plain_write(p, name, 0);
}

SW_TEST("the guide's gate opens where nothing grew")
{
    static workflow w;
    read_guide(&w);
    write_run("base.pickle", 5 * MIB, 1, 0);
    write_run("new.pickle", 5 * MIB, 1, 0);
    CU_ASSERT_EQUAL(run_steps(&w), -1);
    write_run("new.pickle", 5 * MIB, 0, 0); /* less is lost */
    CU_ASSERT_EQUAL(run_steps(&w), -1);
}

SW_TEST("the guide's gate closes where something grew")
{
    static workflow w;
    read_guide(&w);
    write_run("base.pickle", 5 * MIB, 0, 0);
    write_run("new.pickle", 6 * MIB, 0, 0);
    CU_ASSERT(run_steps(&w) == 0 &&
              replan_said("the least of .* more than --fail-on-increase 2%"));
    /* The same training, and a segment of another stream with a hole: the loss grew more. */
    write_run("base.pickle", 5 * MIB, 1, 0);
    write_run("new.pickle", 5 * MIB, 2, 0);
    CU_ASSERT(run_steps(&w) == 0 && replan_said("the loss .* more than --fail-on-increase 2%"));
    write_run("base.pickle", 5 * MIB, 0, 23 * 1024 * MIB);
    write_run("new.pickle", 5 * MIB, 0, 23 * 1024 * MIB);
    CU_ASSERT(run_steps(&w) == 1 && replan_said("is above --max-peak 23,622,320,128"));
    CU_ASSERT_EQUAL(sw_shell("rm '%s'", sw_temp_path("base.pickle")), 0);
    CU_ASSERT(run_steps(&w) == 0 && replan_said("base.pickle: No such file"));
}

/* A run that fails and has all else, with members of all parts. */
SW_TEST("the guide has all members")
{
    const plain_training t = {3, 4, 2, 3 * MIB, MIB, 0};
    plain_allocator *p = plain_new(7);
    p->capacity = 60 * MIB;
    plain_train(p, &t);
    (void)plain_malloc(p, 64, 100 * MIB, 1);
    const char *file = plain_write(p, "all.pickle", 0);
    const char *plan = sw_temp_path("all.plan");
    CU_ASSERT_EQUAL(
        replan_command("'%s' --replan --json --out '%s' --diff '%s' --fail-on-increase 0%%",
                       file, plan, file),
        0);
    CU_ASSERT(replan_said("\"oom\":{") && replan_said("\"step\":{") &&
              replan_said("\"gate\":{"));
    CU_ASSERT_EQUAL(sw_shell("missing=0; for key in $(cat '%s' '%s' | grep -o '\"[a-z_]*\":' | "
                             "tr -d '\":' | sort -u) arena offset born completed step_offset; "
                             "do grep -q \"\\`$key\\`\" '%s/tools/docs/replan.md' || { echo "
                             "\"the guide has no $key\"; missing=1; }; done; exit $missing",
                             sw_temp_path("said.txt"), plan, sw_source_root()),
                    0);
}
