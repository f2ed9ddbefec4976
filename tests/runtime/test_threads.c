/* Threads of the library: what a fork leaves of them, and that warm steps bring them no
 * page. */
#include "alloc/base/poison.h"
#include "alloc/base/sys.h"
#include "tests/runtime/nets.h"
#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

SW_TESTS("threads")

/* ---- forks ------------------------------------------------------------------------------- */

static void nothing(sw_ctx *c, void *user)
{
}

/* Bits of what went wrong in a child, which has 20 seconds; 255: it took longer or crashed. */
static int in_child(int (*body)(void *), void *arg)
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(body(arg));
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 255;
    return WEXITSTATUS(status);
}

typedef struct {
    sw_exec *many, *one, *recorded;
    sw_profile *profile;
    sw_dataset *data;
    sw_loader *loader, *inline_loader;
    net *n;
    batch b;
} family;

static int refused(sw_status status)
{
    return status == SW_BUSY && strstr(sw_last_error(), "fork") != NULL ? 0 : 1;
}

static int use_and_destroy(void *arg)
{
    family *f = arg;
    const sw_run_args a = net_args(f->n, &f->b);
    const sw_array *inputs;
    int n, wrong = 0;
    wrong |= refused(sw_run(f->many, &a)) << 0;
    wrong |= refused(sw_plan(f->many, &a, &SW_OPTS(sw_plan_info))) << 0;
    wrong |= (sw_run(f->one, &a) != SW_OK) << 1;
    wrong |= refused(sw_run(f->recorded, &a)) << 2;
    wrong |= refused(sw_loader_next(f->loader, &inputs, &n)) << 3;
    wrong |= refused(sw_loader_epoch(f->loader, 1)) << 3;
    wrong |= refused(sw_loader_seek(f->loader, 1, 1)) << 3;
    wrong |= (sw_loader_next(f->inline_loader, &inputs, &n) != SW_OK || n != 2) << 4;
    wrong |= refused(sw_profile_flush(f->profile)) << 5;
    wrong |= refused(sw_profile_sync(f->profile)) << 5;
    const sw_exec_opts three = SW_OPTS(sw_exec_opts, .threads = 3);
    sw_exec *own;
    wrong |= (sw_exec_create(&own, &three) != SW_OK || sw_run(own, &a) != SW_OK) << 6;
    sw_exec_destroy(own);
    sw_loader_destroy(f->loader);
    sw_loader_destroy(f->inline_loader);
    sw_exec_destroy(f->recorded);
    wrong |= refused(sw_profile_destroy(f->profile)) << 5;
    sw_exec_destroy(f->many);
    sw_exec_destroy(f->one);
    return wrong;
}

static off_t bytes_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : -1;
}

SW_TEST("a child hangs in nothing, and the parent goes on")
{
    const char *path = sw_temp_path("forked.jsonl");
    const sw_profile_opts profile = SW_OPTS(sw_profile_opts, .path = path);
    const sw_loader_opts batches = SW_OPTS(sw_loader_opts, .batch = 2, .shuffle = 1,
                                           .inline_fill = -1),
                         inlined = SW_OPTS(sw_loader_opts, .batch = 2, .inline_fill = 1);
    family f = {.n = net_new(false, NULL), .b = net_batch(false, 0, 8)};
    const sw_array *inputs;
    int n;
    const sw_run_args a = net_args(f.n, &f.b);
    OK(sw_profile_create(&f.profile, &profile));
    f.many = net_exec(&SW_OPTS(sw_exec_opts, .threads = 3));
    f.one = net_exec(NULL);
    f.recorded = NULL;
    OK(sw_exec_create(&f.recorded, &SW_OPTS(sw_exec_opts, .profile = f.profile)));
    OK(sw_dataset_synthetic(&f.data, 16, 1));
    OK(sw_loader_create(&f.loader, f.data, &batches));
    OK(sw_loader_create(&f.inline_loader, f.data, &inlined));
    OK(sw_loader_epoch(f.loader, 0));
    OK(sw_loader_epoch(f.inline_loader, 0));
    for (int i = 0; i < 8; i++) { /* asleep, at work, and between */
        OK(sw_run(f.many, &a));
        OK(sw_run(f.recorded, &a));
        OK(sw_loader_next(f.loader, &inputs, &n));
        OK(sw_profile_flush(f.profile));
        nanosleep(&(struct timespec){0, i * 4000000}, NULL);
        const off_t before = bytes_of(path);
        const int wrong = in_child(use_and_destroy, &f);
        SW_CHECK(wrong == 0, "round %d: what went wrong: 0x%x", i, wrong);
        SW_CHECK(bytes_of(path) == before, "the child wrote into the profile");
    }
    OK(sw_run(f.many, &a)); /* the parent goes on */
    OK(sw_run(f.recorded, &a));
    OK(sw_loader_epoch(f.loader, 1));
    OK(sw_loader_next(f.loader, &inputs, &n));
    sw_loader_destroy(f.loader);
    sw_loader_destroy(f.inline_loader);
    sw_dataset_destroy(f.data);
    sw_exec_destroy(f.recorded);
    OK(sw_profile_destroy(f.profile));
}

static void fork_inside(sw_ctx *c, void *user)
{
    const pid_t child = fork();
    *(int *)user = child == 0 ? -1 : child;
}

SW_TEST("a fork in a step function harms no one")
{
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .threads = 2));
    int child = 0, status;
    const sw_run_args a = SW_OPTS(sw_run_args, .fn = fork_inside, .user = &child),
                      b = SW_OPTS(sw_run_args, .fn = nothing);
    const sw_status first = sw_run(exec, &a);
    if (child == -1) { /* one run with its threads is over, the next is refused */
        alarm(20);
        _exit(refused(sw_run(exec, &b)));
    }
    CU_ASSERT_EQUAL(first, SW_OK);
    CU_ASSERT_EQUAL_FATAL(waitpid(child, &status, 0), child);
    SW_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status 0x%x", status);
    OK(sw_run(exec, &b));
}

/* ---- page faults ------------------------------------------------------------------------- */

/* Minor and major faults of all threads but this one. */
static long faults_of_others(int *n_threads)
{
    DIR *tasks = opendir("/proc/self/task");
    long sum = 0;
    *n_threads = 0;
    for (const struct dirent *x; tasks != NULL && (x = readdir(tasks)) != NULL;) {
        char path[300], line[1024];
        const long task = atol(x->d_name);
        if (task == 0 || task == (long)getpid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%ld/stat", task);
        FILE *f = fopen(path, "r");
        long minor = 0, major = 0;
        const char *end =
            f != NULL && fgets(line, sizeof line, f) != NULL ? strrchr(line, ')') : NULL;
        if (end != NULL &&
            sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %ld %*u %ld", &minor, &major) == 2) {
            sum += minor + major;
            ++*n_threads;
        }
        if (f != NULL)
            fclose(f);
    }
    if (tasks != NULL)
        closedir(tasks);
    return sum;
}

static void short_nap(void)
{
    nanosleep(&(struct timespec){0, 3000000}, NULL); /* the workers fall asleep */
}

SW_TEST("warm steps bring no page to workers")
{
    if (SW_SANITIZED)
        SW_SKIP("a sanitizer has pages of its own");
    int n_threads;
    for (int image = 0; image < 2; image++)
        for (int threads = 2; threads <= 4; threads++) {
            sw_exec *exec;
            OK(sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .threads = threads)));
            net *n = net_new(image != 0, NULL);
            const batch b = net_batch(image != 0, 0, NET_BATCH);
            const sw_run_args a = net_args(n, &b);
            for (int i = 0; i < 6; i++) {
                OK(sw_run(exec, &a));
                short_nap();
            }
            const long faults = faults_of_others(&n_threads);
            CU_ASSERT(n_threads >= threads - 1);
            for (int i = 0; i < 60; i++) {
                OK(sw_run(exec, &a));
                if (i % 10 == 0)
                    short_nap();
            }
            const long more = faults_of_others(&n_threads) - faults;
            SW_CHECK(more == 0, "%ld page faults of %d workers in 60 warm steps (%s)", more,
                     threads - 1, image ? "convolutions" : "linear layers");
            sw_exec_destroy(exec);
        }
}

/* All of the stated room can be used, and no page of it is new. */
typedef struct {
    long before, after;
    int n;
} deep;

static long own_faults(void)
{
    char line[1024];
    long minor = -1;
    FILE *f = fopen("/proc/thread-self/stat", "r");
    const char *end =
        f != NULL && fgets(line, sizeof line, f) != NULL ? strrchr(line, ')') : NULL;
    if (end != NULL)
        (void)!sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %ld", &minor);
    if (f != NULL)
        fclose(f);
    return minor;
}

__attribute__((noinline)) static int use_stack(void)
{
    volatile char room[SW_THREAD_STACK - 4096];
    int sum = 0;
    for (size_t i = 0; i < sizeof room; i += 512)
        room[i] = (char)i;
    for (size_t i = 0; i < sizeof room; i += 512)
        sum += room[i];
    return sum;
}

static void go_deep(void *arg)
{
    deep *d = arg;
    (void)own_faults();
    d->before = own_faults();
    d->n = use_stack();
    d->after = own_faults();
}

SW_TEST("stacks are touched when threads start")
{
    if (SW_SANITIZED)
        SW_SKIP("a sanitizer has stacks of its own");
    deep d = {0, 0, 0};
    sw_thread *thread;
    OK(sw_thread_start(&thread, go_deep, &d, "deep"));
    sw_thread_join(thread);
    CU_ASSERT(d.before >= 0);
    SW_CHECK(d.after - d.before <= 1, "%ld page faults", d.after - d.before);
}
