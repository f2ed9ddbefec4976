/* The failure sweep of `stepwell train`: every allocation, file operation, thread start and
 * library opening of twenty steps fails once, and once from there on. Quick mode takes a sample
 * of the sites. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

SW_TESTS("faults")

#define SAMPLE 4 /* sites of a kind that quick mode tries */
#define MAX_SITES 5000

enum { MEMORY, FILES, THREAD, LIBRARY };
static const char *const kinds[] = {"memory", "file", "thread", "library"};

/* Two trainings: between them they use every part that can fail. */
typedef struct {
    const char *name, *options;
} job;

static char idx_options[1300];
static const job jobs[] = {
    {"lenet5",
     "train --json --quiet --model lenet5 --threads 2 --batch 16 --steps 20 --epochs 5"},
    {"mlp", "train --json --quiet --model mlp --hidden 512,512 --optimizer sgd --batch 128 "
            "--synthetic-n 512 --steps 20 --epochs 5"},
};

typedef struct {
    const job *job;
    char words[8192], folder[1024];
    char loaded[1024];     /* parameters to begin with: read, so never written */
    unsigned char *params; /* the parameter file of a run without failures */
    size_t params_bytes;
    uint64_t sites[4];
    int absorbed[4]; /* runs of a kind that ended well all the same, without a word */
    int noted;       /* that said so: the folder could not be synced */
} sweep;

static void empty_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return;
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        if (entry->d_name[0] != '.') {
            (void)unlink(sw_textf("%s/%s", folder, entry->d_name));
        }
    closedir(dir);
}

/* Besides the profile there may be the whole parameters, of the last step or of any, or none,
 * and nothing temporary - unless files cannot be removed either. */
static bool folder_is_tidy(const sweep *s, bool may_keep, bool any_step, char *found,
                           size_t room)
{
    bool tidy = true;
    DIR *dir = opendir(s->folder);
    *found = '\0';
    if (dir == NULL)
        return false;
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        size_t n = 0;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            strcmp(entry->d_name, "profile") == 0 ||
            (may_keep && strncmp(entry->d_name, "params.", 7) == 0))
            continue;
        unsigned char *bytes = file_read(sw_textf("%s/%s", s->folder, entry->d_name), &n);
        if (strcmp(entry->d_name, "params") != 0 || bytes == NULL || n != s->params_bytes ||
            (!any_step && memcmp(bytes, s->params, n) != 0)) {
            tidy = false;
            snprintf(found, room, "%s", entry->d_name);
        }
        free(bytes);
    }
    closedir(dir);
    return tidy;
}

/* Nothing, or one whole JSON object: what was trained before the profile failed is still said.
 */
static bool output_is_whole(const char *out)
{
    const size_t n = strlen(out);
    return n == 0 || (out[0] == '{' && n > 2 && out[n - 2] == '}' && sw_count_lines(out) == 1);
}

/* File operations that look for a limit of the memory: a limit that cannot be read is none, and
 * only --process says so. Four of each file at most. */
static int sites_of_limits(void)
{
    char line[4096];
    int files = 1;
    FILE *list = fopen("/proc/self/cgroup", "r");
    while (list != NULL && fgets(line, sizeof line, list) != NULL) {
        if (strstr(line, "::") == NULL && strstr(line, ":memory:") == NULL)
            continue;
        for (const char *c = line; *c != '\0'; c++)
            files += *c == '/';
        files++;
    }
    if (list != NULL)
        fclose(list);
    return 4 * files;
}

/* The status that belongs to a failure of the kind. Of files the message names which: an input
 * that cannot be read is as good as damaged, 3; what cannot be written, or what the system says
 * of itself, is a failure, 1. -1: it names none. */
static int status_of(const sweep *s, int kind, const char *error)
{
    if (kind == MEMORY)
        return 4;
    if (kind != FILES)
        return 1;
    if (strstr(error, s->loaded) != NULL || strstr(error, "-ubyte") != NULL)
        return 3;
    const bool own = strstr(error, ": /proc/") != NULL || strstr(error, ": /sys/") != NULL;
    return own || strstr(error, s->folder) != NULL ? 1 : -1;
}

/* Whether the folder has the parameters of a run without failures. */
static bool saved_all(const sweep *s)
{
    size_t n;
    unsigned char *bytes = file_read(sw_textf("%s/params", s->folder), &n);
    const bool same = bytes != NULL && n == s->params_bytes && memcmp(bytes, s->params, n) == 0;
    free(bytes);
    return same;
}

/* One run with one plan. It ends with the status of what failed and one line of error, or does
 * without it: then it saves the parameters of a run without failures. */
static void run_site(sweep *s, int kind, uint64_t k, const char *mode)
{
    static sw_outcome outcome;
    char left[256];
    const char *plan =
        sw_textf("STEPWELL_FAULT=%s:%llu%s", kinds[kind], (unsigned long long)k, mode);
    empty_folder(s->folder);
    program_run(&outcome, s->words, plan);
    const int status = status_of(s, kind, outcome.err);
    /* A second line says that the training until then is not lost. */
    const bool saved = strstr(outcome.err, "the parameters of step") != NULL;
    /* A folder that cannot be synced costs no file, which a line says. */
    const bool noted = strstr(outcome.err, "/params: saved, durability unknown") != NULL;
    const int lines = sw_count_lines(outcome.err);
    const bool failed = outcome.status == status && lines == 1 + saved + noted;
    const bool absorbed = outcome.status == 0 && lines == noted && saved_all(s);
    /* The profile is flushed by the clock: a faster run may end before its last sites. */
    const bool missed = outcome.status == 0 && kind == FILES && saved_all(s) &&
                        strstr(outcome.err, "no call failed") != NULL;
    if (absorbed) {
        s->noted += noted;
        s->absorbed[kind] += !noted;
        sw_note("%s %s: done without", s->job->name, plan);
    }
    SW_CHECK(outcome.signal == 0 && (failed || absorbed || missed) &&
                 output_is_whole(outcome.out),
             "%s %s: status %d, must be %d, signal %d%s, %zu bytes of output, error: %.300s",
             s->job->name, plan, outcome.status, status, outcome.signal,
             outcome.timed_out ? " (hangs)" : "", strlen(outcome.out), outcome.err);
    SW_CHECK(folder_is_tidy(s, kind == FILES && *mode == '+', saved, left, sizeof left),
             "%s %s leaves %s", s->job->name, plan, left);
}

static bool count_sites(sweep *s)
{
    static sw_outcome outcome;
    unsigned long long n[4];
    program_run(&outcome, s->words, "STEPWELL_FAULT=memory:count");
    const char *line = strstr(outcome.err, "fault sites:");
    const bool counted =
        outcome.status == 0 && line != NULL &&
        sscanf(line, "fault sites: memory %llu file %llu thread %llu library %llu", &n[0],
               &n[1], &n[2], &n[3]) == 4;
    SW_CHECK(counted, "%s: status %d: %s", s->job->name, outcome.status, outcome.err);
    s->params = file_read(sw_textf("%s/params", s->folder), &s->params_bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(s->params);
    sw_after(free, s->params);
    for (int i = 0; i < 4; i++)
        s->sites[i] = n[i];
    return counted;
}

static void prepare(sweep *s, const job *j)
{
    memset(s, 0, sizeof *s);
    s->job = j;
    snprintf(s->folder, sizeof s->folder, "%s", sw_temp_path(j->name));
    (void)mkdir(s->folder, 0700);
    const char *data = strcmp(j->name, "lenet5") == 0 ? idx_options : "";
    char name[32];
    static sw_outcome outcome;
    snprintf(name, sizeof name, "%s-loaded", j->name);
    snprintf(s->loaded, sizeof s->loaded, "%s", sw_temp_path(name));
    const char *line = sw_textf("%s %s --save-params %s", j->options, data, s->loaded);
    program_run(&outcome, line, NULL);
    SW_CHECK(outcome.status == 0, "%s: %s", line, outcome.err);
    snprintf(s->words, sizeof s->words,
             "%s %s --load-params %s --profile %s/profile --save-params %s/params", j->options,
             data, s->loaded, s->folder, s->folder);
}

static void make_idx(void)
{
    idx_set set;
    const char *folder = sw_temp_path("sweep-idx");
    idx_make(&set, 128);
    idx_write(&set, folder);
    idx_free(&set);
    /* One of the four compressed, where both sides can. */
    static sw_outcome outcome;
    snprintf(idx_options, sizeof idx_options, "--data idx:%s", folder);
    if (sw_shell("gzip -kf '%s/t10k-images-idx3-ubyte' && rm '%s/t10k-images-idx3-ubyte'",
                 folder, folder) != 0)
        return;
    program_run(&outcome, sw_textf("plan --json --batch 16 %s", idx_options), NULL);
    if (outcome.status != 0)
        (void)sw_shell("gunzip '%s/t10k-images-idx3-ubyte.gz'", folder);
}

SW_TEST("every site of twenty training steps fails cleanly")
{
    make_idx();
    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
        static sweep s;
        prepare(&s, &jobs[j]);
        if (!count_sites(&s))
            return;
        sw_note("%s: %llu memory, %llu file, %llu thread, %llu library sites", jobs[j].name,
                (unsigned long long)s.sites[MEMORY], (unsigned long long)s.sites[FILES],
                (unsigned long long)s.sites[THREAD], (unsigned long long)s.sites[LIBRARY]);
        CU_ASSERT(s.sites[MEMORY] > 20 && s.sites[FILES] > 10 && s.sites[THREAD] > 0);
        uint64_t tried = 0;
        for (int kind = 0; kind < 4; kind++) {
            const uint64_t n = s.sites[kind] < MAX_SITES ? s.sites[kind] : MAX_SITES;
            const uint64_t step =
                sw_tests_full() || n <= SAMPLE ? 1 : (n + SAMPLE - 1) / SAMPLE;
            for (uint64_t k = step > 1 ? j : 0; k < n; k += step) {
                run_site(&s, kind, k, "");
                run_site(&s, kind, k, "+");
                tried++;
            }
        }
        sw_note("%s: %llu sites failed, once and from there on; done without: %d memory, %d "
                "library",
                jobs[j].name, (unsigned long long)tried, s.absorbed[MEMORY],
                s.absorbed[LIBRARY]);
        CU_ASSERT(s.absorbed[MEMORY] <= 4); /* a smaller range of addresses does as well */
        /* Opening what is not there, before its compressed form; locking the profile and the
         * temporary file; reading the folder for temporary files that a kill left. */
        CU_ASSERT(s.absorbed[FILES] <= 7 + sites_of_limits());
        /* The folder of a save: opened and synced, once and from there on. */
        CU_ASSERT(s.noted <= 4);
        CU_ASSERT_EQUAL(s.absorbed[THREAD], 0);
    }
}
