/* Manual pages and completions: they come from the tables of --help, and have what it has. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

SW_TESTS("pages")

static const char *const commands[] = {"train",   "pbt",    "evolve", "plan",  "eval",
                                       "predict", "report", "bench",  "place", "sample",
                                       "info",    "top",    "help"};
#define N_COMMANDS (sizeof commands / sizeof *commands)

/* The output of the program for these words; give back by free(). */
static char *printed(const char *words)
{
    const char *path = sw_temp_path("page");
    size_t n;
    SW_CHECK(sw_shell("'%s' %s >'%s'", program_path(), words, path) == 0, "%s fails", words);
    char *text = (char *)file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    sw_after(free, text);
    return text;
}

static char *printed_of(const char *format, const char *name)
{
    return printed(sw_textf(format, name));
}

/* The options of a help: lines "  --name ...". Calls `has` for each; returns how many it does
 * not have. */
typedef bool has_option(const char *text, const char *command, const char *name);
static int missing(const char *help, const char *text, const char *command, has_option *has,
                   bool report)
{
    int n = 0, bad = 0;
    for (const char *at = strstr(help, "\n  --"); at != NULL; at = strstr(at + 1, "\n  --")) {
        const char *name = sw_textf("%.*s", (int)strcspn(at + 3, " \n"), at + 3);
        const bool there = has(text, command, name);
        n++;
        bad += !there;
        if (report)
            SW_CHECK(there, "%s: no %s", command, name);
    }
    if (report)
        SW_CHECK(n > 0, "%s: no option in its help", command);
    return bad;
}

/* As roff has it: "\fB\-\-batch\fR". */
static bool man_has(const char *text, const char *command, const char *name)
{
    char roff[200] = "\\fB";
    size_t used = 3;
    (void)command;
    for (const char *at = name; *at != '\0' && used + 8 < sizeof roff; at++)
        used +=
            (size_t)snprintf(roff + used, sizeof roff - used, *at == '-' ? "\\-" : "%c", *at);
    snprintf(roff + used, sizeof roff - used, "\\fR");
    return strstr(text, roff) != NULL;
}

/* Between "'train') " and the end of its part. */
static bool bash_has(const char *text, const char *command, const char *name)
{
    const char *from = strstr(text, sw_textf("'%s')\n", command)),
               *to = from != NULL ? strstr(from, "esac\n") : NULL;
    for (const char *at = from; at != NULL && (at = strstr(at, name)) != NULL && at < to;
         at++) {
        const char last = at[strlen(name)];
        if ((at[-1] == ' ' || at[-1] == '\'') && (last == ' ' || last == '\''))
            return true;
    }
    return false;
}

SW_TEST("every option of a help is in its page and completions")
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const char *help = printed_of("%s --help", commands[i]);
        if (strcmp(commands[i], "bench") == 0) /* its help is a list of names */
            continue;
        (void)missing(help, printed_of("help --man %s", commands[i]), commands[i], man_has,
                      true);
        (void)missing(help, printed("help --completion bash"), commands[i], bash_has, true);
    }
    const char *help = printed("bench place --help");
    (void)missing(help, printed("help --man bench"), "bench place", man_has, true);
    (void)missing(help, printed("help --completion bash"), "bench place", bash_has, true);
}

/* An option that is in another page only, or in none, is missed. */
SW_TEST("a missing option is found")
{
    static const char help[] = "usage\n\n  --batch N   rows\n  --prompt TEXT   text\n";
    CU_ASSERT_EQUAL(missing(help, printed("help --man train"), "train", man_has, false), 1);
    CU_ASSERT_EQUAL(missing(help, printed("help --completion bash"), "train", bash_has, false),
                    1);
}

/* Options in the user guide: `--name` at the beginning of inline code. Each is in some help. */
SW_TEST("options of the guide exist")
{
    static const char *const guide[] = {"README",        "training",  "budgets",  "memory",
                                        "formats",       "gpu",       "programs", "ops",
                                        "architectures", "evaluation"};
    static char all[1 << 18];
    char name[64];
    size_t used = 0, n;
    int seen = 0;
    for (size_t i = 0; i < N_COMMANDS; i++)
        used += (size_t)snprintf(all + used, sizeof all - used, "%s",
                                 printed_of("%s --help", commands[i]));
    CU_ASSERT_FATAL(used < sizeof all);
    for (size_t i = 0; i < sizeof guide / sizeof *guide; i++) {
        char *text =
            (char *)file_read(sw_textf("%s/tools/docs/%s.md", sw_source_root(), guide[i]), &n);
        CU_ASSERT_PTR_NOT_NULL_FATAL(text);
        for (const char *at = strstr(text, "`--"); at != NULL;
             at = strstr(at + 1, "`--"), seen++) {
            const int length = (int)strspn(at + 1, "-abcdefghijklmnopqrstuvwxyz0123456789");
            snprintf(name, sizeof name, "  %.*s ", length, at + 1);
            if (strstr(all, name) == NULL) {
                name[length + 2] = '\n';
                SW_CHECK(strstr(all, name) != NULL, "%s.md: no option %.*s", guide[i], length,
                         at + 1);
            }
        }
        free(text);
    }
    CU_ASSERT(seen > 50);
    CU_ASSERT_PTR_NULL(strstr(all, "  --nonsense "));
}

/* The pictures of the README, each drawn by a command that stands there too. */
SW_TEST("pictures of the README are current")
{
    size_t n, n_shown, n_drawn;
    int shown = 0, drawn = 0;
    const char *path = sw_textf("%s/README.md", sw_source_root());
    char *text = (char *)file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    sw_after(free, text);
    for (const char *at = text; (at = strstr(at, "](tools/docs/")) != NULL; at++)
        shown += strncmp(at + strcspn(at, ")") - 4, ".svg", 4) == 0;
    for (char *at = text; (at = strstr(at, "stepwell p")) != NULL; at++) {
        sw_outcome outcome;
        char *file = strstr(at, " tools/docs/");
        if (file == NULL || file > at + strcspn(at, "`\n"))
            continue;
        const int name = (int)strcspn(++file, "`\n");
        path = sw_textf("%s/%.*s", sw_source_root(), name, file);
        char *kept = (char *)file_read(path, &n_shown);
        CU_ASSERT_PTR_NOT_NULL_FATAL(kept);
        sw_after(free, kept);
        path = sw_temp_path("picture.svg");
        const char *line = sw_textf("%.*s%s", (int)(file - at) - 9, at + 9, path);
        program_run(&outcome, line, NULL);
        SW_CHECK(outcome.status == 0, "%s: %s", line, outcome.err);
        char *now = (char *)file_read(path, &n_drawn);
        CU_ASSERT_PTR_NOT_NULL_FATAL(now);
        sw_after(free, now);
        SW_CHECK(n_drawn == n_shown && memcmp(now, kept, n_shown) == 0,
                 "%.*s is out of date: run its command in the README again", name, file);
        SW_CHECK(n_shown < 100 << 10, "%.*s: %zu bytes", name, file, n_shown);
        drawn++;
    }
    CU_ASSERT(shown == 2 && drawn == 2);
}

static bool is_here(const char *tool)
{
    return sw_shell("command -v %s >/dev/null 2>&1", tool) == 0;
}

SW_TEST("the pages are sound roff")
{
    if (!is_here("groff"))
        SW_SKIP("groff is not installed");
    for (size_t i = 0; i <= N_COMMANDS; i++) {
        const char *name = i < N_COMMANDS ? commands[i] : "";
        CU_ASSERT_EQUAL(
            sw_shell(
                "test -z \"$('%s' help --man %s | groff -man -ww -Tutf8 2>&1 >/dev/null)\"",
                program_path(), name),
            0);
        CU_ASSERT_EQUAL(
            sw_shell("'%s' help --man %s | groff -man -Tascii | grep -q 'does not fit'",
                     program_path(), name),
            0);
    }
    CU_ASSERT_NOT_EQUAL(sw_shell("test -z \"$(printf '.TH A 1\\n.nonsense\\n' | groff -man -ww "
                                 "-Tutf8 2>&1 >/dev/null)\""),
                        0);
}

SW_TEST("words are completed in bash")
{
    static const struct {
        const char *words, *answer;
    } asked[] = {{"stepwell pl", "plan place"},
                 {"stepwell train --optimizer ada", "adam adamw adagrad adafactor"},
                 {"stepwell train --save-p", "--save-params"},
                 {"stepwell train --save-params page-o", "page-of-a-file"},
                 {"stepwell report page-o", "page-of-a-file"},
                 {"stepwell bench sp", "speed"},
                 {"stepwell bench place --ra", "--random"},
                 {"stepwell train --batch 1", ""},
                 {"stepwell help --completion b", "bash"},
                 {"stepwell nonsense --", ""}};
    if (!is_here("bash"))
        SW_SKIP("bash is not installed");
    const char *script = path_of("stepwell.bash"), *file = path_of("page-of-a-file");
    CU_ASSERT(file_write(file, "", 0));
    CU_ASSERT_EQUAL_FATAL(sw_shell("'%s' help --completion bash >'%s'", program_path(), script),
                          0);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        SW_CHECK(sw_shell("cd \"$(dirname '%s')\" && bash -c 'source \"$0\" || exit 1; "
                          "COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _stepwell; "
                          "[ \"${COMPREPLY[*]}\" = \"%s\" ]' '%s' %s",
                          script, asked[i].answer, script, asked[i].words) == 0,
                 "%s: not '%s'", asked[i].words, asked[i].answer);
}
