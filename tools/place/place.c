/* See place.h. */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "tools/place/place.h"
#include "tools/place/place_csv.h"
#include <stdatomic.h>
#include <string.h>

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

sw_status place_solve(place_csv *csv, const place_request *request, place_answer *a)
{
    *a = (place_answer){0};
    watch w = {.request = request};
    const sw_placement_opts opts =
        SW_INIT(.capacity = request->capacity, .nodes = request->nodes, .seed = request->seed,
                .threads = request->threads, .stop = stop, .context = &w);
    const uint64_t start = cli_clock_ns();
    SW_TRY(sw_placement_solve(csv->items, csv->n, &opts, &a->result));
    const uint64_t solved = cli_clock_ns();
    a->timed_out = atomic_load(&w.timed_out);
    a->interrupted = cli_interrupted(); /* though it may be done: no one waits any more */
    const sw_placement_result *r = &a->result;
    SW_TRY(place_check(csv, &a->checked));
    if (r->height != a->checked.height || r->lower_bound != a->checked.lower_bound)
        SW_FAIL(SW_INVALID, "height %zu and lower bound %zu, and they are %llu and %llu",
                r->height, r->lower_bound, (unsigned long long)a->checked.height,
                (unsigned long long)a->checked.lower_bound);
    if (r->proved > r->height)
        SW_FAIL(SW_INVALID, "nothing below %zu proved, and this is as low as %zu", r->proved,
                r->height);
    if (r->end != sw_placement_end_of(r, request->capacity))
        SW_FAIL(SW_INVALID, "height %zu and %zu proved, and it ended otherwise", r->height,
                r->proved);
    a->solve_ns = solved - start;
    a->check_ns = cli_clock_ns() - solved;
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

/* ---- place write ------------------------------------------------------------------------- */

/* Writing a placement: the file's own lines with an offset each. See place_csv.h. */

#define ROOM ((size_t)1 << 18)

typedef struct {
    sw_file *file;
    char *bytes;
    size_t used;
    sw_status status; /* the first failure; then nothing more is written */
} writer;

static void flush(writer *w)
{
    if (w->status == SW_OK && w->used > 0)
        w->status = sw_file_write(w->file, w->bytes, w->used);
    w->used = 0;
}

static void put(writer *w, const char *from, size_t n)
{
    while (n > 0) {
        const size_t free = ROOM - w->used, part = n < free ? n : free;
        memcpy(w->bytes + w->used, from, part);
        w->used += part;
        from += part;
        n -= part;
        if (w->used == ROOM)
            flush(w);
    }
}

/* A line without its end, `field` in place of the one of the offset column or after the last;
 * NULL: the number. */
static void put_line(writer *w, const char *from, const char *end, int column, const char *name,
                     uint64_t offset)
{
    const char *behind = end; /* of the field that is replaced */
    if (column >= 0) {
        const char *p = from;
        for (int c = 0; c < column; c++)
            p = (const char *)memchr(p, ',', (size_t)(end - p)) + 1;
        const char *comma = memchr(p, ',', (size_t)(end - p));
        behind = comma != NULL ? comma : end;
        put(w, from, (size_t)(p - from));
    } else {
        put(w, from, (size_t)(end - from));
        put(w, ",", 1);
    }
    if (name != NULL)
        put(w, name, strlen(name));
    else {
        uint64_t x = offset;
        char digits[20];
        size_t at = sizeof digits;
        do {
            digits[--at] = (char)('0' + x % 10);
            x /= 10;
        } while (x > 0);
        put(w, digits + at, sizeof digits - at);
    }
    put(w, behind, (size_t)(end - behind));
}

static void put_all(writer *w, const place_csv *csv)
{
    const char *p = csv->text, *end = p + csv->text_bytes;
    int column = -1;
    for (int c = 0; c < csv->n_columns; c++)
        column = csv->role[c] == PLACE_OFFSET ? c : column;
    const char *line_end = "\n";
    for (size_t line = 0; line <= csv->n && w->status == SW_OK; line++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p) + 1);
        const bool returns = newline > p && newline[-1] == '\r';
        if (line == 0 && returns)
            line_end = "\r\n";
        put_line(w, p, newline - returns, column, line == 0 ? "offset" : NULL,
                 line == 0 ? 0 : csv->items[line - 1].offset);
        put(w, line_end, strlen(line_end));
        p = newline + 1;
    }
    flush(w);
}

static sw_status write_rows(void *context, sw_file *file)
{
    const place_csv *const *csv = context;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, ROOM));
    writer w = {.file = file, .bytes = block};
    put_all(&w, *csv);
    sw_heap_free(block, SW_HEAP_FILES, ROOM);
    return w.status;
}

sw_status place_csv_write(const place_csv *csv, const char *path)
{
    return sw_file_replace(path, write_rows, &csv);
}
