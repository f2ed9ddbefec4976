/* A shared object with cblas_sgemm: opening it, its threads, products as it wants them. */
#include "tools/bench/library.h"
#include "alloc/base/sys.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Values of the interface. */
enum { ROW_MAJOR = 101, AS_IT_IS = 111, TURNED = 112 };

static bool find(void *library, const char *name, void **out)
{
    return sw_library_symbol(library, name, out) == SW_OK;
}

sw_status bench_library_open(bench_library *l, const char *file, int threads)
{
    static const char *const setters[] = {"MKL_Set_Num_Threads", "openblas_set_num_threads",
                                          "bli_thread_set_num_threads"};
    void *library, *found;
    /* How long idle threads turn before they sleep, 2 ms and about as much: by default they
     * would take a core for 200 ms. Settings of the user stay. */
    (void)setenv("KMP_BLOCKTIME", "2", 0);
    (void)setenv("OPENBLAS_THREAD_TIMEOUT", "22", 0);
    if (sw_library_open(&library, file) != SW_OK || !find(library, "cblas_sgemm", &found))
        return SW_IO; /* a file that is not what it ought to be; the message says it */
    memcpy(&l->sgemm, &found, sizeof found);
    l->threads_by = NULL;
    for (size_t i = 0; i < sizeof setters / sizeof *setters && l->threads_by == NULL; i++)
        if (find(library, setters[i], &found)) {
            void (*set)(int threads);
            memcpy(&set, &found, sizeof found);
            set(threads);
            l->threads_by = setters[i];
        }
    return SW_OK;
}

void bench_library_run(const bench_library *l, const sw_gemm *g)
{
    const bool turn_a = g->a_col != 1, turn_b = g->b_col != 1;
    l->sgemm(ROW_MAJOR, turn_a ? TURNED : AS_IT_IS, turn_b ? TURNED : AS_IT_IS, (int)g->m,
             (int)g->n, (int)g->k, 1.0f, g->a, (int)(turn_a ? g->a_col : g->a_row), g->b,
             (int)(turn_b ? g->b_col : g->b_row), g->accumulate ? 1.0f : 0.0f, g->c,
             (int)(g->c_row > 0 ? g->c_row : g->n));
}

static uint64_t process_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void bench_library_rest(void)
{
    const struct timespec while_ = {0, 500000};
    for (int i = 0; i < 2000; i++) {
        const uint64_t before = process_ns();
        nanosleep(&while_, NULL);
        if (process_ns() - before < 100000)
            return;
    }
}
