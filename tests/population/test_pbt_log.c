/* Logs: what lines say, that a file is a lineage, that a restored run has the logs of one that
 * never stopped, and what reading a policy refuses. */
#include "runtime/population/pbt_internal.h"
#include "tests/population/pbt_help.h"
#include "tests/support/json.h"
#include "tests/support/files.h"
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

SW_TESTS("pbt log")

static const char *const four[] = {"opt.lr=log:1e-4..1", "act=choice:relu,tanh,gelu",
                                   "net.width=int:4..40", "opt.momentum=uniform:0..0.9"};
enum { N = 6 };

#define OPTS_OF(s_, synch_)                                                                    \
    SW_OPTS(sw_pbt_opts, .space = s_, .members = N, .seed = 4, .interval = 10,                 \
            .quantile = 0.4, .synch = synch_)

static const char *new_dir(const char *name)
{
    const char *dir = sw_temp_path(name);
    (void)mkdir(dir, 0700);
    return dir;
}

static void path_of(char *to, const char *dir, int member)
{
    if (member < 0)
        snprintf(to, 1000, "%s/pbt_global.txt", dir);
    else
        snprintf(to, 1000, "%s/pbt_policy_%d.txt", dir, member);
}

/* The file's text, freed when the test ends. */
static char *text_of(const char *dir, int member)
{
    char path[1000];
    path_of(path, dir, member);
    char *text = sw_file_text(path, NULL);
    if (!SW_CHECK(text != NULL, "%s is not there", path))
        return sw_block(1);
    sw_after(free, text);
    return text;
}

/* ---- what lines say ---------------------------------------------------------------------- */

static bool are_values(const json_t *x, const double *v)
{
    static const char *const words[] = {"relu", "tanh", "gelu"};
    const json_t *opt = json_object_get(x, "opt"), *sizes = json_object_get(x, "net");
    const char *act = json_string_value(json_object_get(x, "act"));
    return json_object_size(x) == 3 && json_object_size(opt) == 2 && act != NULL &&
           json_number_value(json_object_get(opt, "lr")) == v[0] &&
           strcmp(act, words[(int)v[1]]) == 0 && json_object_size(sizes) == 1 &&
           (double)json_integer_value(json_object_get(sizes, "width")) == v[2] &&
           json_number_value(json_object_get(opt, "momentum")) == v[3];
}

static void check_line(const char *line, const sw_pbt_event *e, const double *now)
{
    json_t *j = json_loads(line);
    if (!SW_CHECK(json_is_array(j) && json_array_size(j) == 6, "%s", line))
        return;
    SW_CHECK(json_integer_value(json_array_get(j, 0)) == e->member &&
                 json_integer_value(json_array_get(j, 1)) == e->donor &&
                 json_number_value(json_array_get(j, 2)) == e->time &&
                 json_number_value(json_array_get(j, 3)) == e->donor_time &&
                 are_values(json_array_get(j, 5), now),
             "%s", line);
    json_decref(j);
}

/* The global log has each exploit; a policy, walked back, is the chain of its donors. */
SW_TEST("lines are the exploits, and a policy is a lineage")
{
    sw_space *s = help_space(four, 4);
    for (int synch = 0; synch < 2; synch++) {
        static help_list l;
        char dir[900], *line, *rest;
        strcpy(dir, new_dir(synch ? "synch" : "async"));
        sw_pbt *p = help_pbt(&OPTS_OF(s, synch));
        double first[N][4];
        for (int i = 0; i < N; i++)
            for (int k = 0; k < 4; k++)
                first[i][k] = help_value(p, i, k);
        l.n = 0;
        OK(sw_pbt_log(p, dir));
        REFUSED(sw_pbt_log(p, dir), SW_INVALID, "there are logs already");
        help_rounds(p, 30, &(help_run){0}, help_random, help_note, &l);
        char *text = text_of(dir, -1);
        int n = 0;
        for (line = strtok_r(text, "\n", &rest); line != NULL;
             line = strtok_r(NULL, "\n", &rest))
            if (SW_CHECK(n < l.n, "line %d", n))
                check_line(line, &l.e[n], l.now[n]), n++;
        SW_CHECK(n == l.n && n > 10, "%d lines of %d exploits", n, l.n);
        for (int i = 0; i < N; i++) { /* its schedule ends with its present values */
            char path[1000];
            double time, v[4], before = -1;
            int changes = 0;
            path_of(path, dir, i);
            OK(sw_policy_changes(path, s, &changes));
            CU_ASSERT(changes >= 1);
            for (int c = 0; c < changes; c++) {
                OK(sw_policy_change(path, s, c, NULL, &time, v));
                CU_ASSERT(c == 0 ? time == 0 : time >= before);
                before = time;
                OK(sw_policy_change(path, s, c, NULL, &time, NULL));
                bool known = c > 0;
                for (int m = 0; m < N && !known; m++)
                    known = memcmp(v, first[m], sizeof v) == 0;
                CU_ASSERT(known);
            }
            for (int k = 0; k < 4; k++)
                CU_ASSERT(v[k] == help_value(p, i, k));
            REFUSED(sw_policy_change(path, s, changes, NULL, &time, v), SW_INVALID,
                    "changes (got");
            REFUSED(sw_policy_change(path, s, -1, NULL, &time, v), SW_INVALID, "0 or more");
        }
    }
}

/* ---- restored ---------------------------------------------------------------------------- */

static void same_logs(const char *a, const char *b)
{
    for (int i = -1; i < N; i++) {
        char *x = text_of(a, i), *y = text_of(b, i);
        SW_CHECK(strcmp(x, y) == 0, "log %d:\n%s\n%s", i, x, y);
    }
}

/* Saved at round 12, ten rounds more that are forgotten, restored: before and after
 * sw_pbt_log, in the same object and in a new one. */
SW_TEST("a restored run has the logs of one that never stopped")
{
    sw_space *s = help_space(four, 4);
    for (int way = 0; way < 6; way++) {
        const sw_pbt_opts o = OPTS_OF(s, way % 2);
        char straight[900], dir[900], name[40];
        snprintf(name, sizeof name, "straight %d", way);
        strcpy(straight, new_dir(name));
        snprintf(name, sizeof name, "restored %d", way);
        strcpy(dir, new_dir(name));
        sw_pbt *p = help_pbt(&o), *q = help_pbt(&o);
        void *bytes = NULL;
        size_t n = 0;
        OK(sw_pbt_log(p, straight));
        help_rounds(p, 30, &(help_run){0}, help_random, NULL, NULL);
        OK(sw_pbt_log(q, dir));
        help_rounds(q, 12, &(help_run){0}, help_random, NULL, NULL);
        OK(sw_pbt_save(q, &bytes, &n));
        help_rounds(q, 10, &(help_run){0}, help_index, NULL, NULL);
        if (way >= 2) {
            OK(sw_pbt_log(q, NULL));
            q = help_pbt(&o);
        }
        if (way / 2 == 1)
            OK(sw_pbt_log(q, dir));
        OK(sw_pbt_restore(q, bytes, n));
        if (way / 2 == 2)
            OK(sw_pbt_log(q, dir));
        help_rounds(q, 18, &(help_run){0}, help_random, NULL, NULL);
        sw_pbt_free(bytes, n);
        same_logs(straight, dir);
    }
}

/* An exploit that cannot be logged is not done. */
static void report_and_refuse(sw_pbt *p)
{
    int who[N], n = 0;
    double until;
    OK(sw_pbt_next(p, who, N, &n, &until));
    for (int i = 0; i < n; i++)
        OK(sw_pbt_report(p, who[i], until, i));
    sw_pbt_event e = SW_OPTS(sw_pbt_event);
    REFUSED(sw_pbt_next_event(p, &e), SW_FORMAT, "pbt_global.txt: has 40 bytes");
    CU_ASSERT_EQUAL(e.what, SW_PBT_NONE);
}

/* Lost lines and changed bits of the logs cannot come back: it is said, and the files stay as
 * they are. Bytes after the saved length go. */
SW_TEST("logs that are damaged are refused")
{
    const sw_pbt_opts o = OPTS_OF(help_space(four, 4), 1);
    char dir[900], path[1000];
    strcpy(dir, new_dir("cut"));
    path_of(path, dir, -1);
    sw_pbt *p = help_pbt(&o);
    void *bytes = NULL;
    size_t n = 0;
    OK(sw_pbt_log(p, dir));
    help_rounds(p, 12, &(help_run){0}, help_random, NULL, NULL);
    OK(sw_pbt_save(p, &bytes, &n));
    OK(sw_pbt_log(p, NULL));
    char *text = text_of(dir, -1), *policy = text_of(dir, 2);
    const size_t length = strlen(text);
    sw_pbt *q = help_pbt(&o);
    OK(sw_pbt_restore(q, bytes, n));
    for (size_t i = 0; i < length; i += sw_tests_full() ? 7 : 197)
        for (int bit = 0; bit < 8; bit++) {
            text[i] = (char)(text[i] ^ 1 << bit);
            sw_file_put(path, text, length);
            text[i] = (char)(text[i] ^ 1 << bit);
            REFUSED(sw_pbt_log(q, dir), SW_FORMAT, "pbt_global.txt is damaged: its first");
            char *now = text_of(dir, -1), *its = text_of(dir, 2);
            CU_ASSERT(strlen(now) <= length && strcmp(now, text) != 0);
            CU_ASSERT_STRING_EQUAL(its, policy);
        }
    text[length] = 'x';
    sw_file_put(path, text, length + 1);
    text[length] = '\0';
    OK(sw_pbt_log(q, dir));
    CU_ASSERT_STRING_EQUAL(text_of(dir, -1), text);
    /* Logs of older versions have no sum: lines are read, and the sum is made then. */
    char *sum = (char *)bytes + n - q->block_bytes - sizeof q->waiting - sizeof q->s +
                offsetof(swi_pbt_state, log_sum);
    CU_ASSERT(memcmp(sum, &q->s.log_sum, 4) == 0);
    memset(sum, 0, 4);
    OK(sw_pbt_restore(q, bytes, n));
    CU_ASSERT(q->s.log_sum != 0);
    sw_file_put(path, "[1,x", 4);
    CU_ASSERT_EQUAL(truncate(path, (off_t)length), 0);
    REFUSED(sw_pbt_restore(q, bytes, n), SW_FORMAT, "pbt_global.txt: line 1");
    CU_ASSERT_EQUAL(truncate(path, 40), 0);
    REFUSED(sw_pbt_restore(q, bytes, n), SW_FORMAT, "pbt_global.txt: has 40 bytes");
    report_and_refuse(q);
    sw_pbt_free(bytes, n);
}

SW_TEST("a killed process leaves whole lines")
{
    sw_space *s = help_space(four, 4);
    char dir[900];
    strcpy(dir, new_dir("killed"));
    for (int k = 0; k < 12; k++) {
        const pid_t child = fork();
        if (child == 0) {
            sw_pbt *p;
            help_run r = {0};
            if (sw_pbt_create(&p, &OPTS_OF(s, 1)) == SW_OK && sw_pbt_log(p, dir) == SW_OK)
                for (;;)
                    (void)help_round(p, &r, help_random, NULL, NULL);
            _exit(1);
        }
        usleep(20000 + 7919u * (unsigned)k);
        (void)kill(child, SIGKILL);
        CU_ASSERT_EQUAL(waitpid(child, NULL, 0), child);
        for (int i = 0; i < N; i++) {
            char path[1000];
            int changes = 0;
            path_of(path, dir, i);
            if (access(path, F_OK) == 0)
                OK(sw_policy_changes(path, s, &changes));
        }
        if (access(dir, F_OK) == 0 && k > 3) {
            char *text = text_of(dir, -1);
            SW_CHECK(*text == '\0' || text[strlen(text) - 1] == '\n', "a cut line");
        }
    }
}

/* ---- refused ----------------------------------------------------------------------------- */

SW_TEST("folders that cannot be are refused")
{
    static char far[1000];
    sw_pbt *p = help_pbt(&OPTS_OF(help_space(four, 4), 1));
    memset(far, 'd', sizeof far - 1);
    REFUSED(sw_pbt_log(p, sw_temp_path("no such folder")), SW_IO, "pbt_global.txt");
    REFUSED(sw_pbt_log(p, ""), SW_INVALID, "1 to 899 bytes");
    REFUSED(sw_pbt_log(p, far), SW_INVALID, "1 to 899 bytes");
    char dir[900], path[1000];
    strcpy(dir, new_dir("in the way"));
    path_of(path, dir, 3);
    CU_ASSERT_EQUAL(mkdir(path, 0700), 0); /* a folder where a policy should be */
    int who[N], n = 0;
    double until;
    OK(sw_pbt_log(p, dir));
    REFUSED(sw_pbt_next(p, who, N, &n, &until), SW_IO, "pbt_policy_3.txt");
    CU_ASSERT_EQUAL(rmdir(path), 0);
    OK(sw_pbt_next(p, who, N, &n, &until));
}

#define V "{\"opt\":{\"lr\":0.5,\"momentum\":0},\"act\":\"relu\",\"net\":{\"width\":8}}"
#define FIRST "[2,2,0,0," V "," V "]\n"
#define OTHER(values) FIRST "[1,2,20,10," V "," values "]\n"

SW_TEST("damaged policies are refused by file and line")
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "line 1: a policy must begin"},
        {FIRST "[1,2,20,10," V "," V "]", "line 2: is cut"},
        {"[2,1,0,0," V "," V "]\n", "line 1: column 5: the first line must have one member"},
        {FIRST "[1,3,20,10," V "," V "]\n", "line 2: column 5: the donor must be the target"},
        {FIRST "[1,2,20,10," V "," V "]\n[3,1,30,9," V "," V "]\n",
         "line 3: column 10: the donor's"},
        {FIRST "\n", "line 2: column 1: '[' was expected"},
        {FIRST "garbage\n", "line 2: column 1: '[' was expected"},
        {FIRST "[1,2,20]\n", "line 2: column 8: ',' was expected"},
        {FIRST "[1,2,20,10," V "," V ",1]\n", "line 2: column 137: ']' was expected"},
        {FIRST "[1,2,20,10," V "," V "]]\n", "the line must end here"},
        {OTHER("{\"opt\":{\"lr\":0.5,\"momentum\":0},\"act\":\"relu\"}"), "is missing"},
        {OTHER("{\"opt\":{\"lr\":2,\"momentum\":0}}"), "outside of the space"},
        {OTHER("{\"opt\":{\"lr\":0.5,\"lr\":0.5}}"), "was there already"},
        {OTHER("{\"act\":\"mish\"}"), "must be one of the choices"},
        {OTHER("{\"net\":{\"width\":8.5}}"), "outside of the space"},
        {OTHER("{\"depth\":8}"), "no hyper-parameter's"},
        {OTHER("{\"opt\":8}"), "no hyper-parameter's"},
        {OTHER("{\"opt\":{\"opt\":{\"opt\":{\"opt\":{\"opt\":{\"opt\":{\"opt\":{\"opt\":{"
               "\"opt\":{\"opt\":{\"opt\":{\"opt\":{\"opt\":{}}}}}}}}}}}}}}"),
         "no hyper-parameter's"},
    };
    sw_space *s = help_space(four, 4);
    char path[1000];
    int n = -1;
    strcpy(path, sw_temp_path("policy.txt"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sw_file_put(path, cases[i].text, strlen(cases[i].text));
        REFUSED(sw_policy_changes(path, s, &n), SW_FORMAT, cases[i].says);
        SW_CHECK(strstr(sw_last_error(), "policy.txt: line ") != NULL, "%s", sw_last_error());
        CU_ASSERT_EQUAL(n, -1);
    }
    REFUSED(sw_policy_changes(sw_temp_path("none"), s, &n), SW_IO, "none");
}

/* Any one byte of a good file changed: read, or refused by file and line. */
SW_TEST("flipped bytes of a policy do no harm")
{
    static const char good[] = OTHER(V);
    sw_space *s = help_space(four, 4);
    char path[1000];
    strcpy(path, sw_temp_path("flipped.txt"));
    sw_file_put(path, good, sizeof good - 1);
    sw_damage d = {path, .bits = 1};
    while (sw_damage_next(&d)) {
        int n;
        const sw_status status = sw_policy_changes(path, s, &n);
        SW_CHECK(status == SW_OK || (status == SW_FORMAT &&
                                     strstr(sw_last_error(), "flipped.txt: line ") != NULL),
                 "%s", sw_last_error());
    }
}
