/* tools/packages/memory-gate.yml: its commands as they stand, each by `sh -e` as GitHub runs
 * it, pass where nothing grew and fail where the peak did. */
#include "tests/packages/packages.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 16

typedef struct {
    char name[100], run[2000];
    bool always;
} step;

typedef struct {
    step at[STEPS];
    int n;
    char env[1000]; /* lines "export NAME='value'" */
} workflow;

static size_t indent(const char *line)
{
    return strspn(line, " ");
}

/* The text after "KEY:" of a line, at that depth, without the dash of a list; NULL: another.
 */
static const char *value_of(const char *line, size_t depth, const char *key)
{
    const size_t n = strlen(key);
    const char *at = line + strspn(line, " -");
    if ((size_t)(at - line) != depth || strncmp(at, key, n) != 0 || at[n] != ':')
        return NULL;
    return at + n + 1 + strspn(at + n + 1, " ");
}

/* The lines after "|" that lie deeper, without their indent. */
static char *take_block(char *rest, size_t depth, char *to, size_t room)
{
    size_t used = 0, first = 0;
    while (*rest != '\0') {
        const size_t n = strcspn(rest, "\n");
        if (n > 0 && indent(rest) <= depth)
            break;
        first = first == 0 ? indent(rest) : first;
        used +=
            (size_t)snprintf(to + used, room - used, "%.*s\n", n > first ? (int)(n - first) : 0,
                             n > first ? rest + first : "");
        rest += n + (rest[n] == '\n');
    }
    return rest;
}

/* The part of YAML that this workflow needs: lists and mappings by indent, blocks by "|". */
static void read_workflow(workflow *w)
{
    char path[1100];
    size_t n;
    bool in_env = false;
    *w = (workflow){.n = 0};
    snprintf(path, sizeof path, "%s/tools/packages/memory-gate.yml", sw_source_root());
    char *text = (char *)file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    sw_after(free, text);
    CU_ASSERT_PTR_NULL(strchr(text, '\t'));
    for (char *line = text; *line != '\0';) {
        char *rest = line + strcspn(line, "\n");
        rest += *rest == '\n' ? (*rest = '\0', 1) : 0;
        step *s = &w->at[w->n > 0 ? w->n - 1 : 0];
        const char *value;
        if (strncmp(line, "      - ", 8) == 0) {
            CU_ASSERT_FATAL(w->n < STEPS);
            s = &w->at[w->n++];
        }
        if (indent(line) <= 4)
            in_env = value_of(line, 4, "env") != NULL;
        else if (in_env)
            snprintf(w->env + strlen(w->env), sizeof w->env - strlen(w->env),
                     "export %.*s='%s'\n", (int)strcspn(line + 6, ":"), line + 6,
                     strchr(line, ':') + 2);
        if ((value = value_of(line, 8, "name")) != NULL)
            snprintf(s->name, sizeof s->name, "%s", value);
        else if ((value = value_of(line, 8, "if")) != NULL)
            s->always = strcmp(value, "always()") == 0;
        else if ((value = value_of(line, 8, "run")) != NULL && w->n > 0) {
            if (strcmp(value, "|") == 0)
                rest = take_block(rest, 8, s->run, sizeof s->run);
            else
                snprintf(s->run, sizeof s->run, "%s\n", value);
        }
        line = rest;
    }
}

/* Runs the steps in `folder`; returns the index of the first that fails, -1 where none does.
 * After it come those that come always. */
static int run_steps(const workflow *w, const char *folder)
{
    int failed = -1;
    for (int i = 0; i < w->n; i++) {
        char script[1200];
        const step *s = &w->at[i];
        if (s->run[0] == '\0' || (failed >= 0 && !s->always))
            continue;
        snprintf(script, sizeof script, "%s/step.sh", folder);
        FILE *file = fopen(script, "w");
        CU_ASSERT_FATAL(file != NULL && fputs(s->run, file) >= 0 && fclose(file) == 0);
        const package_answer *a = package_ask("cd '%s' && %s export PATH='%s/tools':\"$PATH\" "
                                              "GITHUB_STEP_SUMMARY='%s/summary.md' "
                                              "&& sh -e step.sh",
                                              folder, w->env, sw_build_root(), folder);
        if (a->status != 0 && failed < 0) {
            failed = i;
            CU_ASSERT(file_write(path_of("why"), a->text, strlen(a->text)));
        } else
            SW_CHECK(a->status == 0, "%s: %s", s->name, a->text);
    }
    return failed;
}

static bool why_has(const char *part)
{
    size_t n;
    char *text = (char *)file_read(path_of("why"), &n);
    const bool found = text != NULL && strstr(text, part) != NULL;
    SW_CHECK(found, "%s", text);
    free(text);
    return found;
}

static const step *named(const workflow *w, const char *name)
{
    for (int i = 0; i < w->n; i++)
        if (strcmp(w->at[i].name, name) == 0)
            return &w->at[i];
    return NULL;
}

/* The profile of the accepted state, by the line that the file's head and the guide name; with
 * other words where the state is another. */
static void make_base(const workflow *w, const char *folder, const char *words)
{
    const step *train = named(w, "Train");
    CU_ASSERT_PTR_NOT_NULL_FATAL(train);
    const package_answer *a = package_ask("mkdir -p '%s/memory' && cd '%s' && %s "
                                          "TRAIN=\"$TRAIN %s\" && PATH='%s/tools':\"$PATH\" && "
                                          "%.*s && mv run.jsonl memory/base.jsonl",
                                          folder, folder, w->env, words, sw_build_root(),
                                          (int)strcspn(train->run, "\n"), train->run);
    SW_CHECK(a->status == 0, "%s", a->text);
}

static void the_gate_opens_where_nothing_grew(void)
{
    static workflow w;
    char folder[600];
    read_workflow(&w);
    snprintf(folder, sizeof folder, "%s", path_of("gate-open"));
    CU_ASSERT(w.n == 7 && strstr(w.env, "export TRAIN='--model ") != NULL);
    make_base(&w, folder, "");
    const int failed = run_steps(&w, folder);
    SW_CHECK(failed == -1 || !why_has(""), "step %d failed", failed);
    CU_ASSERT_EQUAL(sw_shell("test -s '%s/run.html' && grep -q 'peak in each phase' "
                             "'%s/summary.md'",
                             folder, folder),
                    0);
}

static void the_gate_closes_where_the_peak_grew(void)
{
    static workflow w;
    char folder[600];
    read_workflow(&w);
    snprintf(folder, sizeof folder, "%s", path_of("gate-closed"));
    /* The state that was accepted had smaller batches: the last word counts. */
    make_base(&w, folder, "--batch 32");
    const int failed = run_steps(&w, folder);
    CU_ASSERT_FATAL(failed >= 0);
    CU_ASSERT_STRING_EQUAL(w.at[failed].name, "Fail where the peak grew");
    CU_ASSERT(why_has("more than --fail-on-increase 2%") && why_has("what grew most"));
    CU_ASSERT_EQUAL(sw_shell("test -s '%s/run.html'", folder), 0); /* drawn all the same */
    CU_ASSERT_EQUAL(sw_shell("rm '%s/memory/base.jsonl'", folder), 0);
    CU_ASSERT_STRING_EQUAL(w.at[run_steps(&w, folder)].name, "Say what changed");
    CU_ASSERT(why_has("memory/base.jsonl"));
    char *limit = strstr(w.env, "4MiB"); /* no budget that the plan fits */
    CU_ASSERT_PTR_NOT_NULL_FATAL(limit);
    memcpy(limit, "4KiB", 4);
    const int refused = run_steps(&w, folder);
    CU_ASSERT(refused >= 0 && strncmp(w.at[refused].name, "Plan", 4) == 0);
}

static const sw_test tests[] = {
    {"the gate opens where nothing grew", the_gate_opens_where_nothing_grew},
    {"the gate closes where the peak grew", the_gate_closes_where_the_peak_grew},
};
SW_SUITE("memory gate", tests)
