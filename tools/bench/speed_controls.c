/* Controls of bench speed: arithmetic on registers, and reads and writes over as many bytes as
 * a step has. */
#include "alloc/base/mem.h"
#include "tools/bench/speed.h"

/* ---- arithmetic -------------------------------------------------------------------------- */

static volatile uint64_t sink; /* written by all threads, never read */

/* Each thread has a chain of its own, which no compiler can shorten. */
static void chain(void *arg, int part)
{
    const uint64_t turns = *(const uint64_t *)arg;
    uint64_t x = (uint64_t)part;
    for (uint64_t i = 0; i < turns; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    sink = x;
}

uint64_t speed_control_arithmetic(speed_controls *c)
{
    const uint64_t start = cli_clock_ns();
    c->par->run(c->par, chain, &c->turns, c->par->n_threads);
    return cli_clock_ns() - start;
}

/* ---- memory ------------------------------------------------------------------------------ */

enum { LINE = 16 }; /* numbers of a cache line */

/* Line after line of a share, round and round; x = x a + b stays near b / (1 - a). */
static void walk(void *arg, int part)
{
    typedef float line __attribute__((vector_size(64)));
    const speed_controls *c = arg;
    line *x = (line *)(void *)(c->x + part * c->share);
    const int64_t all = c->share / LINE;
    int64_t at = c->at;
    for (int64_t left = c->lines; left > 0;) {
        const int64_t n = all - at < left ? all - at : left;
        for (int64_t i = at; i < at + n; i++)
            x[i] = x[i] * 0.5f + 1.0f;
        left -= n;
        at = at + n < all ? at + n : 0;
    }
}

uint64_t speed_control_memory(speed_controls *c)
{
    const uint64_t start = cli_clock_ns();
    c->par->run(c->par, walk, c, c->par->n_threads);
    const uint64_t ns = cli_clock_ns() - start;
    c->at = (c->at + c->lines) % (c->share / LINE);
    return ns;
}

/* ---- their lengths ----------------------------------------------------------------------- */

static uint64_t least_of(speed_controls *c, uint64_t (*control)(speed_controls *c))
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        const uint64_t ns = control(c);
        least = ns < least ? ns : least;
    }
    return least > 0 ? least : 1;
}

static sw_status take_memory(speed_controls *c, size_t bytes)
{
    const size_t threads = (size_t)c->par->n_threads, unit = threads * LINE * sizeof(float);
    c->bytes = (bytes + unit - 1) / unit * unit;
    c->block_bytes = c->bytes + SW_ALIGN;
    SW_TRY(sw_heap_alloc(&c->block, SW_HEAP_DATASETS, c->block_bytes));
    c->x = (float *)(((uintptr_t)c->block + SW_ALIGN - 1) / SW_ALIGN * SW_ALIGN);
    c->share = (int64_t)(c->bytes / sizeof(float) / threads);
    for (int64_t i = 0; i < c->share * (int64_t)threads; i++) /* pages of zeros may be one */
        c->x[i] = (float)(i % LINE);
    return SW_OK;
}

sw_status speed_controls_make(speed_controls *c, const sw_par *par, size_t bytes, uint64_t ns)
{
    enum { TURNS = 1000000 };
    *c = (speed_controls){.par = par, .turns = TURNS};
    const double of_turns = (double)least_of(c, speed_control_arithmetic);
    c->turns = (uint64_t)(TURNS * (double)ns / of_turns) + 1;
    SW_TRY(take_memory(c, bytes > 0 ? bytes : 1));
    c->lines = c->share / LINE; /* all of it once; of what fits into a cache more often */
    while (least_of(c, speed_control_memory) < ns / 4)
        c->lines *= 2;
    c->lines =
        (int64_t)((double)c->lines * (double)ns / (double)least_of(c, speed_control_memory)) +
        1;
    return SW_OK;
}

void speed_controls_free(speed_controls *c)
{
    sw_heap_free(c->block, SW_HEAP_DATASETS, c->block_bytes);
    *c = (speed_controls){0};
}
