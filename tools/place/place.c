/* See place.h. */
#include "tools/place/place.h"
#include <stdatomic.h>

typedef struct {
    const place_request *request;
    atomic_bool timed_out;
} watch;

/* Asked by each thread of the search. */
static bool stop(void *context)
{
    watch *w = context;
    if (w->request->until_ns > 0 && cli_clock_ns() >= w->request->until_ns)
        atomic_store(&w->timed_out, true);
    return atomic_load(&w->timed_out) || cli_interrupted();
}

static sw_status check(const place_csv *csv, size_t capacity, place_answer *a)
{
    const sw_placement_result *r = &a->result;
    SW_TRY(place_check(csv, &a->checked));
    if (r->height != a->checked.height || r->lower_bound != a->checked.lower_bound)
        SW_FAIL(SW_INVALID, "height %zu and lower bound %zu, and they are %llu and %llu",
                r->height, r->lower_bound, (unsigned long long)a->checked.height,
                (unsigned long long)a->checked.lower_bound);
    if (r->proved > r->height)
        SW_FAIL(SW_INVALID, "nothing below %zu proved, and this is as low as %zu", r->proved,
                r->height);
    if (r->end != sw_placement_end_of(r, capacity))
        SW_FAIL(SW_INVALID, "height %zu and %zu proved, and it ended otherwise", r->height,
                r->proved);
    return SW_OK;
}

sw_status place_solve(place_csv *csv, const place_request *request, place_answer *a)
{
    *a = (place_answer){0};
    watch w = {.request = request};
    const sw_placement_opts opts = {.capacity = request->capacity,
                                    .nodes = request->nodes,
                                    .seed = request->seed,
                                    .threads = request->threads,
                                    .stop = stop,
                                    .context = &w};
    const uint64_t start = cli_clock_ns();
    SW_TRY(sw_placement_solve(csv->items, csv->n, &opts, &a->result));
    const uint64_t solved = cli_clock_ns();
    a->timed_out = atomic_load(&w.timed_out);
    a->interrupted = cli_interrupted(); /* though it may be done: no one waits any more */
    SW_TRY(check(csv, request->capacity, a));
    a->solve_ns = solved - start;
    a->check_ns = cli_clock_ns() - solved;
    const sw_placement_result *r = &a->result;
    a->holds = r->end == SW_PLACEMENT_OPTIMAL || r->end == SW_PLACEMENT_FITS;
    a->optimal = r->height == r->proved;
    return SW_OK;
}

double place_gap_percent(const place_answer *a)
{
    const double bound = (double)a->result.lower_bound;
    return bound > 0.0 ? 100.0 * ((double)a->result.height - bound) / bound : 0.0;
}

int place_status(const place_answer *a)
{
    if (a->interrupted && a->result.end != SW_PLACEMENT_NO_FIT)
        return CLI_INTERRUPTED;
    return a->holds ? CLI_DONE : CLI_NO_FIT;
}
