/* Ranks: joining, gathering, signs of life. */
#include "runtime/transport/ranks.h"
#include "alloc/base/handle.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "profiler/record/process.h"
#include "runtime/base/module.h"
#include "runtime/base/structs.h"
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000u
#define SOON 1000000u /* nanoseconds between two looks at signs of life */

/* All tell each other first. */
typedef struct {
    char version[24], host[64];
    uint64_t run; /* that of rank 0 counts */
} hello;

struct sw_ranks {
    sw_handle handle;
    const char *unit; /* where this rank is; NULL: not said */
    uint64_t at, twice;
    size_t taken;
    const sw_transport *t;
    hello *of;               /* by rank */
    size_t *counts;          /* of a trade: to each rank, and from each */
    unsigned char *out, *in; /* one block: what is sent, what has come */
    size_t piece;            /* bytes of each */
    bool leaving;
    uint64_t timeout_ns, period_ns, signed_at, heard_at, looked_at, signs, heard, sent, waited;
};

static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    const unsigned long n = text != NULL ? strtoul(text, NULL, 10) : 0;
    return n < INT_MAX ? (int)n : INT_MAX;
}

/* Size and rank, by launcher. */
static const char *const variables[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                           {"PMI_SIZE", "PMI_RANK"},
                                           {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
                                           {"WORLD_SIZE", "RANK"}};

static const char *const *launcher(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (number_of(variables[i][0]) > 1)
            return variables[i];
    return NULL;
}

int swi_ranks_started(const char **by)
{
    const char *const *of = launcher();
    if (of != NULL && by != NULL)
        *by = of[0];
    return of != NULL ? number_of(of[0]) : 1;
}

int swi_ranks_started_as(void)
{
    const char *const *of = launcher();
    return of != NULL ? number_of(of[1]) : 0;
}

int swi_ranks_rank(const swi_ranks *r)
{
    return r != NULL ? r->t->rank : 0;
}

int swi_ranks_size(const swi_ranks *r)
{
    return r != NULL ? r->t->ranks : 1;
}

int swi_ranks_on_host(const swi_ranks *r)
{
    int n = r == NULL;
    for (int k = 0; r != NULL && k < r->t->ranks; k++)
        n += strcmp(r->of[k].host, r->of[r->t->rank].host) == 0;
    return n;
}

const char *swi_ranks_host(const swi_ranks *r, int rank)
{
    return r->of[rank].host;
}

const char *swi_ranks_name(const swi_ranks *r)
{
    return r != NULL ? r->t->name : "none";
}

uint64_t swi_ranks_run(const swi_ranks *r)
{
    return r != NULL ? r->of[0].run : 0;
}

uint64_t swi_ranks_sent(const swi_ranks *r)
{
    return r != NULL ? r->sent : 0;
}

uint64_t swi_ranks_waited(const swi_ranks *r)
{
    return r != NULL ? r->waited : 0;
}

size_t swi_ranks_taken(const swi_ranks *r)
{
    return r != NULL ? r->taken : 0;
}

void swi_ranks_count_twice(swi_ranks *r)
{
    if (r != NULL)
        r->twice++;
}

uint64_t swi_ranks_twice(const swi_ranks *r)
{
    return r != NULL ? r->twice : 0;
}

/* ---- signs of life, and waiting ---------------------------------------------------------- */

static sw_status failed(const swi_ranks *r, int code)
{
    SW_FAIL(SW_IO, "rank %d of %d on host %s: %s: %s", r->t->rank, r->t->ranks,
            r->of[r->t->rank].host, r->t->name, r->t->why(code));
}

sw_status swi_ranks_alive(swi_ranks *r)
{
    if (r == NULL)
        return SW_OK;
    const uint64_t now = sw_clock_ns();
    uint64_t came = 0;
    int left = 0, code = 0;
    if (now - r->looked_at < SOON)
        return SW_OK;
    if (!r->leaving && now - r->signed_at >= r->period_ns) {
        code = r->t->sign(&left);
        r->signed_at = now;
        r->signs += left != 0;
    }
    if (code == 0)
        code = r->t->signs(&came);
    if (code != 0)
        return failed(r, code);
    r->heard += came;
    if (came > 0 || now - r->looked_at > r->timeout_ns / 2) /* it was this one that was away */
        r->heard_at = now;
    r->looked_at = now;
    if (now - r->heard_at <= r->timeout_ns)
        return SW_OK;
    const int before = (r->t->rank + r->t->ranks - 1) % r->t->ranks;
    char at[60] = "";
    if (r->unit != NULL)
        snprintf(at, sizeof at, "; the others are at %s %" PRIu64, r->unit, r->at);
    SW_FAIL(SW_IO, "rank %d of %d on host %s has given no sign of life for %.0f s%s", before,
            r->t->ranks, r->of[before].host, (double)(now - r->heard_at) * 1e-9, at);
}

void swi_ranks_at(swi_ranks *r, const char *unit, uint64_t number)
{
    if (r == NULL)
        return;
    r->unit = unit;
    r->at = number;
}

/* No call of the transport blocks: a processor that waits is free for ranks that do not. */
static sw_status wait(swi_ranks *r)
{
    const struct timespec pause = {.tv_nsec = 50000};
    const uint64_t begin = sw_clock_ns();
    for (int done = 0;;) {
        const int code = r->t->done(&done);
        if (code != 0)
            return failed(r, code);
        if (done)
            break;
        SW_TRY(swi_ranks_alive(r));
        (void)sched_yield();
        (void)nanosleep(&pause, NULL);
    }
    r->waited += sw_clock_ns() - begin;
    return SW_OK;
}

/* ---- exchanges --------------------------------------------------------------------------- */

/* The bytes that stand in `out`, those of all into `in`. */
static sw_status exchange(swi_ranks *r, size_t bytes)
{
    const int code = r->t->gather(r->out, r->in, bytes);
    if (code != 0)
        return failed(r, code);
    r->sent += (uint64_t)bytes * (uint64_t)(r->t->ranks - 1);
    return wait(r);
}

sw_status swi_ranks_gather(swi_ranks *r, const void *mine, size_t bytes, void *all)
{
    if (r == NULL) {
        memcpy(all, mine, bytes);
        return SW_OK;
    }
    const size_t n = (size_t)r->t->ranks, most = r->piece / n;
    for (size_t at = 0; at < bytes; at += most) {
        const size_t part = bytes - at < most ? bytes - at : most;
        memcpy(r->out, (const char *)mine + at, part);
        SW_TRY(exchange(r, part));
        for (size_t k = 0; k < n; k++)
            memcpy((char *)all + k * bytes + at, r->in + k * part, part);
    }
    return SW_OK;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

sw_status swi_ranks_gather_in_place(swi_ranks *r, void *all, size_t bytes, size_t each)
{
    const size_t n = (size_t)swi_ranks_size(r), own = (size_t)swi_ranks_rank(r);
    for (size_t at = 0, part; r != NULL && at < each; at += part) {
        const size_t mine = least(own * each + at, bytes);
        part = least(each - at, r->piece / n);
        memcpy(r->out, (char *)all + mine, least(part, bytes - mine));
        SW_TRY(exchange(r, part));
        for (size_t k = 0; k < n; k++) {
            const size_t to = least(k * each + at, bytes);
            if (k != own)
                memcpy((char *)all + to, r->in + k * part, least(part, bytes - to));
        }
    }
    return SW_OK;
}

sw_status swi_ranks_share(swi_ranks *r, void *data, size_t bytes)
{
    const size_t most = r->piece / (size_t)r->t->ranks;
    for (size_t at = 0; at < bytes; at += most) {
        const size_t part = bytes - at < most ? bytes - at : most;
        memcpy(r->out, (char *)data + at, part);
        SW_TRY(exchange(r, part));
        memcpy((char *)data + at, r->in, part);
    }
    return SW_OK;
}

/* counts[0..] and counts[ranks..] are set. */
static sw_status trade(swi_ranks *r)
{
    const int n = r->t->ranks;
    const int code = r->t->trade(r->out, r->counts, r->in, r->counts + n);
    if (code != 0)
        return failed(r, code);
    for (int k = 0; k < n; k++)
        r->sent += k != r->t->rank ? r->counts[k] : 0;
    return wait(r);
}

sw_status swi_ranks_copy(swi_ranks *r, int from, int to, void *data, size_t bytes)
{
    const int rank = swi_ranks_rank(r);
    for (size_t at = 0; from != to && at < bytes; at += r->piece) {
        const size_t part = bytes - at < r->piece ? bytes - at : r->piece;
        memset(r->counts, 0, 2 * (size_t)r->t->ranks * sizeof *r->counts);
        r->counts[to] = rank == from ? part : 0;
        r->counts[r->t->ranks + from] = rank == to ? part : 0;
        if (rank == from)
            memcpy(r->out, (const char *)data + at, part);
        SW_TRY(trade(r));
        if (rank == to)
            memcpy((char *)data + at, r->in, part);
    }
    return SW_OK;
}

/* `values`: n of each rank, one after the other; the sums come into the first. */
static void add_in_pairs(float *values, size_t n, size_t ranks)
{
    for (size_t apart = 1; apart < ranks; apart *= 2)
        for (size_t k = 0; k + apart < ranks; k += 2 * apart) {
            float *const to = values + k * n;
            const float *const from = values + (k + apart) * n;
            for (size_t i = 0; i < n; i++)
                to[i] += from[i];
        }
}

sw_status swi_ranks_sum(swi_ranks *r, float *values, size_t n)
{
    const size_t ranks = (size_t)swi_ranks_size(r);
    const size_t most = ranks > 1 ? r->piece / sizeof *values / ranks * ranks : n;
    for (size_t at = 0; ranks > 1 && at < n; at += most) {
        const size_t now = n - at < most ? n - at : most, part = (now + ranks - 1) / ranks;
        const size_t bytes = part * sizeof *values;
        memcpy(r->out, values + at, now * sizeof *values);
        memset(r->out + now * sizeof *values, 0, (part * ranks - now) * sizeof *values);
        for (size_t k = 0; k < 2 * ranks; k++)
            r->counts[k] = bytes;
        SW_TRY(trade(r));
        add_in_pairs((float *)(void *)r->in, part, ranks);
        memcpy(r->out, r->in, bytes);
        SW_TRY(exchange(r, bytes));
        memcpy(values + at, r->in, now * sizeof *values);
    }
    return SW_OK;
}

sw_status swi_ranks_same(swi_ranks *r, const char *what, uint64_t number)
{
    uint64_t of[SWI_RANKS_MOST];
    SW_TRY(swi_ranks_gather(r, &number, sizeof number, of));
    for (int k = 1; k < swi_ranks_size(r); k++)
        if (of[k] != of[0])
            SW_FAIL(SW_INVALID,
                    "all ranks must have the same %s: rank %d on host %s has another than rank "
                    "0 on host %s",
                    what, k, r->of[k].host, r->of[0].host);
    return SW_OK;
}

/* ---- joining and leaving ----------------------------------------------------------------- */

size_t swi_ranks_bytes(int ranks)
{
    return ranks > 1
               ? 2 * SWI_RANKS_PIECE + (size_t)ranks * (sizeof(hello) + 2 * sizeof(size_t))
               : 0;
}

static size_t resident(void)
{
    void *block;
    if (sw_heap_alloc(&block, SW_HEAP_RECORDS, sizeof(sw_process)) != SW_OK)
        return 0;
    sw_process *p = block;
    const size_t bytes = sw_process_read(p) == SW_OK ? p->resident_bytes : 0;
    sw_heap_free(block, SW_HEAP_RECORDS, sizeof *p);
    return bytes;
}

/* The module of the launcher's MPI. */
static sw_status open_module(const sw_transport **out, size_t *taken, const char *by,
                             int started)
{
    const bool open_mpi =
        strcmp(by, "OMPI_COMM_WORLD_SIZE") == 0 || getenv("PMIX_RANK") != NULL;
    const swi_module_kind kind = {.what = "MPI module",
                                  .file = open_mpi ? "libstepwell-openmpi.so"
                                                   : "libstepwell-mpich.so",
                                  .built = "runtime",
                                  .variable = "STEPWELL_MPI_MODULE",
                                  .entry = "sw_transport_open",
                                  .missing = "build it where that MPI's mpicc is"};
    char path[SWI_MODULE_PATH], why[300] = "no reason is known";
    void *entry;
    sw_transport_opener *opener;
    SW_TRY(swi_module_open(&kind, NULL, path, &entry));
    memcpy(&opener, &entry, sizeof opener);
    const size_t before = resident();
    const sw_transport *t = opener(why, sizeof why);
    const size_t after = resident();
    *taken = after > before && before > 0 ? after - before : 0;
    if (t == NULL)
        SW_FAIL(SW_DEVICE, "MPI module: %s could not join the other ranks: %s", path, why);
    if (t->abi != SW_TRANSPORT_ABI || t->size != sizeof *t)
        SW_FAIL(SW_DEVICE,
                "MPI module: %s is of another version than the library (which has ABI %u); "
                "install both from one build",
                path, SW_TRANSPORT_ABI);
    if (t->ranks != started)
        SW_FAIL(SW_DEVICE,
                "the launcher started %d processes (%s), and %s sees %d: it is of another MPI; "
                "start them by its own mpirun, or by srun --mpi=pmix, or name another module "
                "in STEPWELL_MPI_MODULE",
                started, by, t->name, t->ranks);
    *out = t;
    return SW_OK;
}

static sw_status greet(swi_ranks *r)
{
    hello mine = {.version = "", .run = sw_clock_ns()};
    snprintf(mine.version, sizeof mine.version, "%s", sw_version());
    if (gethostname(mine.host, sizeof mine.host - 1) != 0)
        snprintf(mine.host, sizeof mine.host, "unknown");
    SW_TRY(swi_ranks_gather(r, &mine, sizeof mine, r->of));
    for (int k = 1; k < r->t->ranks; k++)
        if (strcmp(r->of[k].version, r->of[0].version) != 0)
            SW_FAIL(SW_INVALID,
                    "all ranks must have the same version of stepwell: rank %d on host %s has "
                    "%s, rank 0 on host %s has %s",
                    k, r->of[k].host, r->of[k].version, r->of[0].host, r->of[0].version);
    return SW_OK;
}

static void free_all(swi_ranks *r)
{
    const size_t bytes = swi_ranks_bytes(r->t->ranks);
    sw_heap_free(r->out, SW_HEAP_RECORDS, bytes);
    sw_handle_give(r, SW_HANDLE_RANKS, sizeof *r);
}

static sw_status begin(swi_ranks *r)
{
    const size_t bytes = swi_ranks_bytes(r->t->ranks);
    SW_TRY(sw_heap_alloc(&r->out, SW_HEAP_RECORDS, bytes));
    r->in = r->out + r->piece;
    r->of = (hello *)(void *)(r->in + r->piece);
    r->counts = (size_t *)(void *)(r->of + r->t->ranks);
    memset(r->of, 0, (size_t)r->t->ranks * sizeof *r->of);
    r->signed_at = r->heard_at = r->looked_at = sw_clock_ns();
    return greet(r);
}

sw_status swi_ranks_open(swi_ranks **out, double timeout_s)
{
    const char *by = NULL;
    const int started = swi_ranks_started(&by);
    swi_ranks *r;
    *out = NULL;
    if (started == 1)
        return SW_OK;
    if (started > SWI_RANKS_MOST)
        SW_FAIL(SW_UNSUPPORTED, "there are at most %d ranks (%s says %d)", SWI_RANKS_MOST, by,
                started);
    SW_TRY(sw_handle_take(&r, SW_HANDLE_RANKS, sizeof *r));
    *r = (swi_ranks){.handle = r->handle,
                     .piece = SWI_RANKS_PIECE,
                     .timeout_ns = (uint64_t)(timeout_s * SECOND)};
    r->period_ns = r->timeout_ns / 8 < SECOND ? r->timeout_ns / 8 : SECOND;
    sw_status status = open_module(&r->t, &r->taken, by, started);
    if (status != SW_OK) {
        sw_handle_give(r, SW_HANDLE_RANKS, sizeof *r);
        return status;
    }
    status = begin(r);
    return SW_GIVE(status, out, r, free_all);
}

/* Signs that are still under way are waited for: an MPI that ends must have none. Once all are
 * here no one gives another. */
static sw_status take_leave(swi_ranks *r)
{
    uint64_t all[SWI_RANKS_MOST];
    SW_TRY(swi_ranks_gather(r, &r->signs, sizeof r->signs, all));
    r->leaving = true;
    const uint64_t mine = r->signs;
    SW_TRY(swi_ranks_gather(r, &mine, sizeof mine, all));
    const uint64_t due = all[(r->t->rank + r->t->ranks - 1) % r->t->ranks];
    while (r->heard < due) {
        SW_TRY(swi_ranks_alive(r));
        (void)sched_yield();
    }
    return SW_OK;
}

void swi_ranks_close(swi_ranks *r)
{
    if (r == NULL)
        return;
    if (take_leave(r) == SW_OK)
        r->t->close();
    free_all(r);
}

void swi_ranks_abort(swi_ranks *r, int status)
{
    if (r != NULL)
        r->t->abort(status);
}

/* ---- for programs ------------------------------------------------------------------------ */

static sw_status check(const sw_ranks *r, const char *call)
{
    return r != NULL ? sw_handle_check(r, SW_HANDLE_RANKS, call) : SW_OK;
}

sw_status sw_ranks_open(sw_ranks **out, double timeout_s)
{
    SW_TRY(swi_given(out != NULL, "out", "sw_ranks_open"));
    if (timeout_s != 0.0 && !(timeout_s >= 1.0 && timeout_s <= 1e6))
        SW_FAIL(SW_INVALID, "sw_ranks_open: timeout_s must be 0, or 1 to 1e6 (got %g)",
                timeout_s);
    return swi_ranks_open(out, timeout_s == 0.0 ? 300.0 : timeout_s);
}

void sw_ranks_close(sw_ranks *r)
{
    if (check(r, "sw_ranks_close") == SW_OK)
        swi_ranks_close(r);
}

void sw_ranks_abort(sw_ranks *r, int status)
{
    if (check(r, "sw_ranks_abort") == SW_OK)
        swi_ranks_abort(r, status);
}

int sw_ranks_rank(const sw_ranks *r)
{
    return check(r, "sw_ranks_rank") == SW_OK ? swi_ranks_rank(r) : 0;
}

int sw_ranks_size(const sw_ranks *r)
{
    return check(r, "sw_ranks_size") == SW_OK ? swi_ranks_size(r) : 0;
}

size_t sw_ranks_bytes(const sw_ranks *r)
{
    return check(r, "sw_ranks_bytes") == SW_OK ? swi_ranks_bytes(swi_ranks_size(r)) : 0;
}

sw_status sw_ranks_gather(sw_ranks *r, const void *mine, size_t bytes, void *all)
{
    SW_TRY(swi_given(mine != NULL && all != NULL, "mine and all", "sw_ranks_gather"));
    SW_TRY(check(r, "sw_ranks_gather"));
    return swi_ranks_gather(r, mine, bytes, all);
}

sw_status sw_ranks_alive(sw_ranks *r)
{
    SW_TRY(check(r, "sw_ranks_alive"));
    return swi_ranks_alive(r);
}
