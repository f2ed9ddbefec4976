/* The owner of each mapping. See process.h. */
#include "profiler/record/process.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "profiler/record/smaps.h"
#include <stdio.h>
#include <string.h>

#define SPARE 64 /* mappings that no one claims; what is more counts as unexplained */
#define NEAR ((uintptr_t)256 << 10) /* the loader's mappings are smaller */
#define GROWN ((size_t)64 << 10)
#define PAGES 512 /* of the page map, read at once */

typedef struct {
    size_t mapped, resident, huge;
} share;

typedef struct {
    sw_process *out;
    sw_process_range *ranges;
    size_t n, n_points, page; /* of the places the last n_points have 0 bytes */
    sw_file *pagemap;         /* NULL: none */
    share spare[SPARE];
    size_t n_spare;
    uint64_t entries[PAGES];
} sorter;

const char *sw_process_kind_name(sw_process_kind kind)
{
    static const char *const names[] = {"arena", "stack",  "heap", "code",
                                        "file",  "system", "rest"};
    return (unsigned)kind < SW_PROCESS_KINDS ? names[kind] : "?";
}

/* ---- lines ------------------------------------------------------------------------------- */

static sw_process_line *find_line(sw_process *p, sw_process_kind kind, const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->line[i].kind == kind && strncmp(p->line[i].name, name, SW_PROCESS_NAME - 1) == 0)
            return &p->line[i];
    return NULL;
}

/* The line of that name; the last lines are for what found no room, one for each kind. */
static sw_process_line *line_for(sw_process *p, sw_process_kind kind, const char *name)
{
    sw_process_line *l = find_line(p, kind, name);
    if (l == NULL && p->n >= SW_PROCESS_LINES - SW_PROCESS_KINDS) {
        name = "(others)";
        l = find_line(p, kind, name);
    }
    if (l == NULL) {
        l = &p->line[p->n++];
        *l = (sw_process_line){.kind = kind};
        snprintf(l->name, sizeof l->name, "%s", name);
    }
    return l;
}

static void add(sw_process *p, sw_process_kind kind, const char *name, share x)
{
    sw_process_line *l = line_for(p, kind, name);
    l->mapped_bytes += x.mapped;
    l->resident_bytes += x.resident;
    l->huge_bytes += x.huge;
}

static void add_rest(sw_process *p, share x)
{
    add(p, SW_PROCESS_REST, "unexplained", x);
}

static void sort_lines(sw_process *p)
{
    for (size_t i = 1; i < p->n; i++) {
        const sw_process_line x = p->line[i];
        size_t k = i;
        for (; k > 0 && (p->line[k - 1].kind > x.kind ||
                         (p->line[k - 1].kind == x.kind &&
                          p->line[k - 1].resident_bytes < x.resident_bytes));
             k--)
            p->line[k] = p->line[k - 1];
        p->line[k] = x;
    }
}

/* ---- mappings ---------------------------------------------------------------------------- */

static share share_of(const sw_mapping *m)
{
    return (share){m->accessible ? m->end - m->start : 0, m->resident_bytes, m->huge_bytes};
}

static void keep_spare(sorter *s, share x)
{
    if (x.mapped == 0 && x.resident == 0)
        return; /* addresses that no one may touch */
    if (s->n_spare < SPARE)
        s->spare[s->n_spare++] = x;
    else
        add_rest(s->out, x);
}

/* The first place that ends after `at`; the number of places where there is none. */
static size_t range_behind(const sorter *s, uintptr_t at)
{
    size_t from = 0, to = s->n;
    while (from < to) {
        const size_t mid = from + (to - from) / 2;
        if (s->ranges[mid].base + s->ranges[mid].bytes <= at)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static uintptr_t earlier(uintptr_t a, uintptr_t b)
{
    return a < b ? a : b;
}

/* Pages of [from, to) that are there: present[0] of them, present[1] but for those that are the
 * system's shared page of zeros or are shared with another process. */
static sw_status count_pages(sorter *s, uintptr_t from, uintptr_t to, size_t *present)
{
    present[0] = present[1] = 0;
    SW_TRY(sw_file_seek(s->pagemap, from / s->page * sizeof *s->entries));
    for (size_t left = (to - from) / s->page; left > 0;) {
        const size_t n = left < PAGES ? left : PAGES;
        size_t got;
        SW_TRY(sw_file_read(s->pagemap, s->entries, n * sizeof *s->entries, &got));
        if (got != n * sizeof *s->entries)
            SW_FAIL(SW_IO, "%s: it ends early", sw_file_path(s->pagemap));
        for (size_t i = 0; i < n; i++) {
            const bool there = s->entries[i] >> 63 != 0;
            present[0] += there;
            present[1] +=
                there && (s->entries[i] & ((uint64_t)1 << 61 | (uint64_t)1 << 56)) != 0;
        }
        left -= n;
    }
    return SW_OK;
}

/* A part of a mapping: of one place, or of none. */
typedef struct {
    uintptr_t from, to;
    const sw_process_range *range; /* NULL: none */
} piece;

/* The piece of [from, end) that begins at `from`. */
static piece next_piece(const sorter *s, uintptr_t from, uintptr_t end)
{
    const size_t i = range_behind(s, from);
    if (i == s->n || s->ranges[i].base >= end)
        return (piece){from, end, NULL};
    const sw_process_range *p = &s->ranges[i];
    if (p->base > from)
        return (piece){from, p->base, NULL};
    return (piece){from, earlier(end, p->base + p->bytes), p};
}

/* Of what no place has, one address may be known. */
static const sw_process_range *point_in(const sorter *s, const piece *x)
{
    for (size_t i = s->n; x->to - x->from <= NEAR && i < s->n + s->n_points; i++)
        if (s->ranges[i].base >= x->from && s->ranges[i].base < x->to)
            return &s->ranges[i];
    return NULL;
}

static void add_piece(sorter *s, const piece *x, share bytes)
{
    const sw_process_range *range = x->range != NULL ? x->range : point_in(s, x);
    if (range != NULL)
        add(s->out, range->kind, range->name, bytes);
    else
        keep_spare(s, bytes);
}

/* Which of the two counts adds up to what the system says of the whole: 0, 1, or -1 for none; 2
 * where nothing is to be counted. */
static int fitting_count(sorter *s, const sw_mapping *m)
{
    size_t all[2], resident = m->resident_bytes / s->page;
    if (resident == 0) /* addresses without end, perhaps */
        return 2;
    if (s->pagemap == NULL || count_pages(s, m->start, m->end, all) != SW_OK)
        return -1;
    return all[0] == resident ? 0 : all[1] == resident ? 1 : -1;
}

/* A mapping with several owners, page by page; the largest owner has it all where pages look
 * alike. */
static void split(sorter *s, const sw_mapping *m)
{
    const int which = fitting_count(s, m);
    share whole = share_of(m);
    piece largest = {0};
    for (uintptr_t at = m->start; at < m->end;) {
        const piece x = next_piece(s, at, m->end);
        share part = {m->accessible ? x.to - x.from : 0, 0, 0};
        size_t pages[2];
        if ((which == 0 || which == 1) && count_pages(s, x.from, x.to, pages) == SW_OK)
            part.resident = earlier(pages[which] * s->page, whole.resident);
        if (x.to - x.from > largest.to - largest.from)
            largest = x;
        whole.resident -= part.resident;
        if (which >= 0)
            add_piece(s, &x, part);
        at = x.to;
    }
    if (which >= 0)
        whole.mapped = 0; /* and what came or went meanwhile is resident yet */
    if (whole.mapped > 0 || whole.resident > 0 || whole.huge > 0)
        add_piece(s, &largest, whole);
}

static void take_anonymous(sorter *s, const sw_mapping *m)
{
    const piece first = next_piece(s, m->start, m->end);
    if (first.to < m->end) {
        split(s, m);
        return;
    }
    add_piece(s, &first, share_of(m));
}

static bool named(const char *path, const char *name)
{
    return strncmp(path, name, strlen(name)) == 0;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static void take_mapping(void *context, const sw_mapping *m)
{
    sorter *s = context;
    s->out->resident_bytes += m->resident_bytes;
    const piece first = next_piece(s, m->start, m->end);
    if (m->path[0] == '\0') {
        take_anonymous(s, m);
    } else if (named(m->path, "[stack")) {
        add(s->out, SW_PROCESS_STACK, "main", share_of(m));
    } else if (named(m->path, "[heap]")) {
        add(s->out, SW_PROCESS_HEAP, "malloc", share_of(m));
    } else if (named(m->path, "[anon:")) { /* whoever gave it a name may still be one of us */
        if (first.range != NULL)
            take_anonymous(s, m);
        else
            add(s->out, SW_PROCESS_SYSTEM, m->path, share_of(m));
    } else if (m->path[0] == '[') {
        add(s->out, SW_PROCESS_SYSTEM, "vdso, vvar", share_of(m));
    } else if (first.range != NULL && first.range->kind == SW_PROCESS_CODE) {
        add(s->out, SW_PROCESS_CODE, first.range->name, share_of(m));
    } else
        add(s->out, SW_PROCESS_FILE, last_part(m->path), share_of(m));
}

/* ---- what no one claims ------------------------------------------------------------------ */

/* Choose of spare[i..] what has `bytes` addresses in all, and at most `slack` more, by search;
 * `tries` bounds it. */
static bool choose(const sorter *s, size_t i, size_t bytes, size_t slack, uint64_t *chosen,
                   int *tries)
{
    if (bytes == 0)
        return true;
    if (i == s->n_spare || --*tries < 0)
        return false;
    const size_t mapped = s->spare[i].mapped;
    if (mapped <= bytes + slack) {
        const size_t over = mapped > bytes ? mapped - bytes : 0;
        *chosen |= (uint64_t)1 << i;
        if (choose(s, i + 1, bytes + over - mapped, slack - over, chosen, tries))
            return true;
        *chosen &= ~((uint64_t)1 << i);
    }
    return choose(s, i + 1, bytes, slack, chosen, tries);
}

static size_t largest_of(const sorter *s, uint64_t chosen)
{
    size_t largest = SPARE;
    for (size_t i = 0; i < s->n_spare; i++)
        if ((chosen >> i & 1) != 0 &&
            (largest == SPARE || s->spare[i].mapped > s->spare[largest].mapped))
            largest = i;
    return largest;
}

/* The heap says how many addresses it has mapped, not which. Mappings that add up to that are
 * its own, also where one has grown together with a mapping of the loader; where none do, as
 * many as it can have, the smaller ones first. */
static uint64_t heap_share(const sorter *s, size_t bytes)
{
    size_t all = 0;
    uint64_t chosen = 0;
    for (size_t i = 0; i < s->n_spare; i++)
        all += s->spare[i].mapped;
    for (size_t slack = 0; all > bytes && slack <= GROWN; slack += GROWN) {
        int tries = 100000;
        if (choose(s, 0, bytes, slack, &chosen, &tries))
            return chosen;
    }
    chosen = ~(uint64_t)0;
    while (all > bytes) {
        const size_t i = largest_of(s, chosen);
        if (i == SPARE)
            break;
        chosen &= ~((uint64_t)1 << i);
        all -= s->spare[i].mapped;
    }
    return chosen;
}

static void assign_spare(sorter *s, size_t heap_bytes)
{
    const uint64_t heap = heap_share(s, heap_bytes);
    for (size_t i = 0; i < s->n_spare; i++)
        if ((heap >> i & 1) != 0)
            add(s->out, SW_PROCESS_HEAP, "malloc", s->spare[i]);
        else
            add_rest(s->out, s->spare[i]);
}

/* ---- all of it --------------------------------------------------------------------------- */

static void sort_ranges(sw_process_range *x, size_t n)
{
    for (size_t gap = n / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < n; i++) {
            const sw_process_range v = x[i];
            size_t k = i;
            for (; k >= gap && x[k - gap].base > v.base; k -= gap)
                x[k] = x[k - gap];
            x[k] = v;
        }
}

/* Places of 0 bytes after the others; both stay in order. The two lie in one array, which is
 * turned piece by piece: there are few. */
static void part_points(sorter *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        const sw_process_range x = s->ranges[i];
        if (x.bytes == 0)
            continue;
        memmove(&s->ranges[n + 1], &s->ranges[n], (i - n) * sizeof x);
        s->ranges[n++] = x;
    }
    s->n_points = s->n - n;
    s->n = n;
}

/* Arenas have a line also where nothing of them is mapped. */
static void begin_lines(sorter *s)
{
    memset(s->out, 0, sizeof *s->out);
    for (size_t i = 0; i < s->n; i++) {
        const sw_process_range *p = &s->ranges[i];
        if (p->kind != SW_PROCESS_ARENA && p->kind != SW_PROCESS_STACK)
            continue;
        sw_process_line *l = line_for(s->out, p->kind, p->name);
        l->n++;
        l->predicted = p->kind == SW_PROCESS_ARENA;
        l->predicted_bytes += (p->promised_bytes + s->page - 1) / s->page * s->page;
    }
    add_rest(s->out, (share){0});
}

sw_status sw_process_sum(sw_process *out, const char *smaps, const char *pagemap,
                         sw_process_range *ranges, size_t n, size_t heap_bytes)
{
    sorter *s;
    SW_TRY(sw_heap_alloc(&s, SW_HEAP_PROFILE, sizeof(sorter)));
    s->out = out;
    s->ranges = ranges;
    s->n = n;
    s->page = sw_page_bytes();
    sort_ranges(ranges, n);
    part_points(s);
    begin_lines(s);
    sw_status status = SW_OK;
    if (pagemap != NULL)
        status = sw_file_open(&s->pagemap, pagemap, SW_FILE_READ);
    if (status == SW_OK || status == SW_IO) /* without it pages are not told apart */
        status = sw_smaps_read(smaps, take_mapping, s);
    assign_spare(s, heap_bytes);
    sort_lines(out);
    sw_file_drop(s->pagemap);
    sw_heap_free(s, SW_HEAP_PROFILE, sizeof(sorter));
    return status;
}

void sw_process_predict(sw_process *process, const char *arena, size_t bytes)
{
    sw_process_line *l = find_line(process, SW_PROCESS_ARENA, arena);
    if (l != NULL)
        l->predicted_bytes = bytes;
}

sw_process_own sw_process_arenas(const sw_process *process)
{
    sw_process_own own = {.equal = true};
    for (size_t i = 0; i < process->n; i++) {
        const sw_process_line *l = &process->line[i];
        if (!l->predicted)
            continue;
        own.resident_bytes += l->resident_bytes;
        own.predicted_bytes += l->predicted_bytes;
        own.equal &= l->resident_bytes == l->predicted_bytes;
    }
    return own;
}

size_t sw_process_rest(const sw_process *process)
{
    size_t rest = 0;
    for (size_t i = 0; i < process->n; i++)
        if (process->line[i].kind == SW_PROCESS_REST)
            rest += process->line[i].resident_bytes;
    return rest;
}

void sw_process_put(sw_json *j, const sw_process *p)
{
    const sw_process_own own = sw_process_arenas(p);
    sw_json_put_u64(j, "resident_bytes", p->resident_bytes);
    sw_json_put_u64(j, "arenas_bytes", own.resident_bytes);
    sw_json_put_u64(j, "arenas_predicted_bytes", own.predicted_bytes);
    sw_json_put_bool(j, "equal", own.equal);
    sw_json_put_u64(j, "unexplained_bytes", sw_process_rest(p));
    sw_json_open(j, "lines", '[');
    for (size_t i = 0; i < p->n; i++) {
        const sw_process_line *l = &p->line[i];
        sw_json_begin(j, '{');
        sw_json_put_string(j, "kind", sw_process_kind_name(l->kind));
        sw_json_put_string(j, "name", l->name);
        if (l->n > 0)
            sw_json_put_u64(j, "n", l->n);
        sw_json_put_u64(j, "mapped_bytes", l->mapped_bytes);
        sw_json_put_u64(j, "resident_bytes", l->resident_bytes);
        sw_json_put_u64(j, "huge_bytes", l->huge_bytes);
        if (l->predicted)
            sw_json_put_u64(j, "predicted_bytes", l->predicted_bytes);
        sw_json_end(j);
    }
    sw_json_end(j);
}
