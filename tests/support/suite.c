/* The runner of suite.h: registers the tests with CUnit, listens to its events, prints and
 * counts. */
#include "tests/support/suite.h"
#include <ftw.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static sw_suite *first_suite, **last_suite = &first_suite;
static bool full_run, gpu_run;
static const char *(*what_is_missing)(void);
static const char *skipped; /* why the running test was skipped, or NULL */
static unsigned n_passed, n_failed, n_skipped, n_left_for_full;
static unsigned this_shard = 1, n_shards = 1; /* K/N: tests K, K + N, K + 2 N... */
static bool line_open; /* the running test's name stands on an unfinished line */

static struct {
    void (*after)(void *arg);
    void *arg;
} * afters;
static size_t n_afters, cap_afters;

void sw_suite_register(sw_suite *suite)
{
    *last_suite = suite;
    last_suite = &suite->next;
}

void sw_test_register(sw_suite *suite, sw_test_here *test)
{
    sw_test_here **at = &suite->first;
    while (*at != NULL && (*at)->line < test->line)
        at = &(*at)->next;
    test->next = *at;
    *at = test;
}

void sw_suite_needs(const char *(*missing)(void))
{
    what_is_missing = missing;
}

bool sw_tests_full(void)
{
    return full_run;
}

void sw_test_skip(const char *reason)
{
    skipped = reason;
}

void sw_after(void (*after)(void *arg), void *arg)
{
    if (n_afters == cap_afters) {
        cap_afters = cap_afters == 0 ? 64 : 2 * cap_afters;
        afters = realloc(afters, cap_afters * sizeof *afters);
        CU_ASSERT_PTR_NOT_NULL_FATAL(afters);
    }
    afters[n_afters].after = after;
    afters[n_afters++].arg = arg;
}

void sw_now(const void *arg)
{
    size_t i = n_afters;
    while (i > 0 && afters[i - 1].arg != arg)
        i--;
    CU_ASSERT_FATAL(i > 0);
    void (*const after)(void *) = afters[i - 1].after;
    void *const its = afters[i - 1].arg;
    n_afters--;
    for (i--; i < n_afters; i++)
        afters[i] = afters[i + 1];
    after(its);
}

size_t sw_after_mark(void)
{
    return n_afters;
}

void sw_after_since(size_t mark)
{
    size_t kept = mark;
    for (size_t i = n_afters; i-- > mark;)
        if (afters[i].after != free)
            afters[i].after(afters[i].arg);
    for (size_t i = mark; i < n_afters; i++)
        if (afters[i].after == free)
            afters[kept++] = afters[i];
    n_afters = kept;
}

void *sw_block(size_t bytes)
{
    void *block = calloc(1, bytes > 0 ? bytes : 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    sw_after(free, block);
    return block;
}

/* The texts of the running test; a thread may add one. */
typedef struct kept_text {
    struct kept_text *next;
    char bytes[];
} kept_text;
static _Atomic(kept_text *) texts;

char *sw_textf(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(NULL, 0, format, list);
    va_end(list);
    kept_text *t = malloc(sizeof *t + (size_t)n + 1);
    if (t == NULL)
        abort();
    va_start(list, format);
    vsnprintf(t->bytes, (size_t)n + 1, format, list);
    va_end(list);
    t->next = texts;
    while (!atomic_compare_exchange_weak(&texts, &t->next, t))
        ;
    return t->bytes;
}

unsigned long long sw_number_of(const char *text)
{
    unsigned long long n = 0;
    for (; (*text >= '0' && *text <= '9') || (*text == ',' && text[1] >= '0' && text[1] <= '9');
         text++)
        n = *text == ',' ? n : 10 * n + (unsigned long long)(*text - '0');
    return n;
}

static void finish_line(const char *word)
{
    if (line_open)
        printf(" %s\n", word);
    line_open = false;
}

/* Seconds of the clock, and of processors: of this process and of the children that it waited
 * for. */
typedef struct {
    double wall, cpu;
} seconds;
static seconds started;

static double cpu_of(int who)
{
    struct rusage use;
    if (getrusage(who, &use) != 0)
        return 0;
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static seconds seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (seconds){(double)now.tv_sec + 1e-9 * (double)now.tv_nsec,
                     cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN)};
}

/* End the test's line; a test that took a tenth of a second or more says so. */
static void finish_test(const char *word)
{
    const seconds now = seconds_now();
    const double wall = now.wall - started.wall;
    printf(line_open ? " %s" : "      %s", word);
    if (wall >= 0.1)
        printf(" (%.1f s, CPU %.1f s)", wall, now.cpu - started.cpu);
    putchar('\n');
    line_open = false;
}

void sw_note(const char *format, ...)
{
    va_list list;
    finish_line("...");
    printf("      ");
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    putchar('\n');
    fflush(stdout);
}

bool sw_check(bool passed, const char *file, unsigned line, const char *condition,
              const char *format, ...)
{
    if (passed)
        return CU_assertImplementation(CU_TRUE, line, condition, file, "", CU_FALSE);
    char text[1024];
    const int n = snprintf(text, sizeof text, "%s: ", condition);
    if (n >= 0 && (size_t)n < sizeof text) {
        va_list list;
        va_start(list, format);
        vsnprintf(text + n, sizeof text - (size_t)n, format, list);
        va_end(list);
    }
    return CU_assertImplementation(CU_FALSE, line, text, file, "", CU_FALSE);
}

/* ---- CUnit's events ---------------------------------------------------------------------- */

static void test_starts(const CU_pTest test, const CU_pSuite suite)
{
    skipped = NULL;
    started = seconds_now();
    printf("%s: %s", suite->pName, test->pName);
    line_open = true;
    fflush(stdout); /* a crash then shows where */
}

static void test_ends(const CU_pTest test, const CU_pSuite suite,
                      const CU_pFailureRecord failures)
{
    while (n_afters > 0) {
        n_afters--;
        afters[n_afters].after(afters[n_afters].arg);
    }
    for (kept_text *t = atomic_exchange(&texts, NULL), *next; t != NULL; t = next) {
        next = t->next;
        free(t);
    }
    if (failures != NULL) {
        n_failed++;
        finish_test("FAILED");
        for (const CU_FailureRecord *f = failures; f != NULL; f = f->pNext)
            printf("   %s:%u: %s\n", f->strFileName, f->uiLineNumber, f->strCondition);
    } else if (skipped != NULL) {
        n_skipped++;
        if (line_open)
            printf(" SKIPPED: %s\n", skipped);
        else
            printf("      SKIPPED: %s\n", skipped);
        line_open = false;
    } else {
        n_passed++;
        finish_test("ok");
    }
    fflush(stdout);
}

static unsigned n_chosen; /* tests with the part, in all shards */

/* False when CUnit refused. */
static bool choose(CU_pSuite cu, const sw_test *test, const char *part)
{
    if ((part != NULL && strstr(sw_textf("%s: %s", cu->pName, test->name), part) == NULL) ||
        n_chosen++ % n_shards + 1 != this_shard)
        return true;
    if (test->full && !full_run) {
        n_left_for_full++;
        return true;
    }
    return CU_add_test(cu, test->name, test->run) != NULL;
}

/* Every file's suite becomes one of CUnit, of the tests that run now. */
static bool register_all(const char *part)
{
    for (const sw_suite *suite = first_suite; suite != NULL; suite = suite->next) {
        CU_pSuite cu = CU_add_suite(suite->name, NULL, NULL);
        if (cu == NULL)
            return false;
        for (size_t i = 0; i < suite->n; i++)
            if (!choose(cu, &suite->tests[i], part))
                return false;
        for (const sw_test_here *here = suite->first; here != NULL; here = here->next)
            if (!choose(cu, &here->test, part))
                return false;
    }
    return true;
}

/* ---- paths ------------------------------------------------------------------------------- */

const char *sw_source_root(void)
{
    return SW_SOURCE_ROOT;
}

const char *sw_build_root(void)
{
    return SW_BUILD_ROOT;
}

const char *sw_data_path(const char *name)
{
    static char path[1024];
    const char *given = getenv("STEPWELL_DATA");
    const int n =
        given != NULL && *given != '\0'
            ? snprintf(path, sizeof path, "%s/%s", given, name)
            : snprintf(path, sizeof path, "%s/../shared/data/%s", SW_SOURCE_ROOT, name);
    struct stat st;
    return n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0 ? path : NULL;
}

static char temp_folder[512];

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    return remove(path);
}

static void remove_temp(void)
{
    if (temp_folder[0] != '\0')
        (void)nftw(temp_folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    temp_folder[0] = '\0';
}

char *sw_temp_path(const char *name)
{
    if (temp_folder[0] == '\0') {
        const char *base = getenv("TMPDIR");
        snprintf(temp_folder, sizeof temp_folder, "%s/stepwell-test-XXXXXX",
                 base != NULL && *base != '\0' ? base : "/tmp");
        if (mkdtemp(temp_folder) == NULL) {
            perror(temp_folder);
            exit(1);
        }
    }
    return sw_textf("%s%s%s", temp_folder, *name != '\0' ? "/" : "", name);
}

/* ---- numbers and main -------------------------------------------------------------------- */

uint64_t sw_dice_next(sw_dice *dice)
{
    uint64_t x = dice->state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t sw_dice_below(sw_dice *dice, uint64_t n)
{
    return sw_dice_next(dice) % n; /* the bias does not matter to a test */
}

/* "2/3": whether it is the name of a shard, which then is this process's. */
static bool is_shard(const char *word)
{
    unsigned shard = 0, of = 0;
    int n = 0;
    if (sscanf(word, "%u/%u%n", &shard, &of, &n) != 2 || word[n] != '\0' || shard < 1 ||
        shard > of)
        return false;
    this_shard = shard;
    n_shards = of;
    return true;
}

/* Nothing runs: the status. */
static int leave_out(const char *missing)
{
    const unsigned n = CU_get_registry()->uiNumberOfTests;
    CU_cleanup_registry();
    printf("%s: %s\n", gpu_run ? "FAILED" : "skipped", missing);
    printf("0 passed, %u failed, %u skipped\n", gpu_run ? n : 0, gpu_run ? 0 : n);
    return gpu_run ? 1 : 77;
}

int main(int argc, char **argv)
{
    /* A shell's background ignores them, and what it starts would inherit that. */
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGQUIT, SIG_DFL);
    const char *wanted = getenv("STEPWELL_TESTS"), *part = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "quick") == 0 || strcmp(argv[i], "full") == 0 ||
            strcmp(argv[i], "gpu") == 0)
            wanted = argv[i];
        else if (!is_shard(argv[i]))
            part = argv[i];
    }
    gpu_run = wanted != NULL && strcmp(wanted, "gpu") == 0;
    full_run = gpu_run || (wanted != NULL && strcmp(wanted, "full") == 0);
    if (CU_initialize_registry() != CUE_SUCCESS || !register_all(part)) {
        fprintf(stderr, "CUnit: %s\n", CU_get_error_msg());
        return 1;
    }
    const char *missing = what_is_missing != NULL ? what_is_missing() : NULL;
    if (missing != NULL)
        return leave_out(missing);
    CU_set_test_start_handler(test_starts);
    CU_set_test_complete_handler(test_ends);
    (void)CU_run_all_tests();
    const unsigned registered = CU_get_run_summary()->nTestsRun;
    const bool all_ran = registered == n_passed + n_failed + n_skipped;
    CU_cleanup_registry();
    remove_temp();
    if (n_left_for_full > 0)
        printf("%u more in full\n", n_left_for_full);
    printf("%u passed, %u failed, %u skipped\n", n_passed, n_failed, n_skipped);
    if (n_failed > 0 || !all_ran)
        return 1;
    if (n_passed == 0)
        return n_skipped + n_left_for_full > 0 ? 77 : 1; /* 1: no test has that name */
    return 0;
}
