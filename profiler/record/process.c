/* The owner of each mapping. See process.h. */
#include "alloc/base/address_map.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "profiler/record/process.h"
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

/* The places of this process: what alloc claims, the program and its libraries, and the few
 * mappings of the dynamic loader. */

#if defined __GLIBC__
#include <dlfcn.h>
#endif

typedef struct {
    sw_process_range *at; /* NULL: only count */
    size_t n, cap, page;
    uintptr_t loader; /* where the dynamic loader lies; 0: there is none */
} list;

static void append(list *l, sw_process_kind kind, const char *name, uintptr_t base,
                   size_t bytes, size_t promised)
{
    if (l->at != NULL && l->n == l->cap)
        return; /* made between counting and taking */
    if (l->at != NULL) {
        sw_process_range *p = &l->at[l->n];
        *p = (sw_process_range){
            .base = base, .bytes = bytes, .kind = kind, .promised_bytes = promised};
        snprintf(p->name, sizeof p->name, "%s", name);
    }
    l->n++;
}

/* The name of a file without its folder. */
static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static void take_claim(void *context, const sw_address_range *c)
{
    static const sw_process_kind kinds[] = {SW_PROCESS_ARENA, SW_PROCESS_STACK,
                                            SW_PROCESS_HEAP};
    if (c->device != NULL)
        return; /* its bytes are none of the process */
    append(context, kinds[c->kind], c->label, c->base, c->bytes, c->promised_bytes);
}

/* From the first to the last of its segments: files are mapped there, and zeroed data. */
static int take_object(struct dl_phdr_info *info, size_t size, void *context)
{
    list *l = context;
    uintptr_t from = UINTPTR_MAX, to = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        const uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        const uintptr_t end = at + info->dlpi_phdr[i].p_memsz;
        from = at < from ? at : from;
        to = end > to ? end : to;
        /* Memory that the loader allocated before there was a heap lies in small mappings of
         * its own. Whatever its variables point to is known to be its: one page is as good as
         * all. */
        const bool variables = l->loader != 0 && info->dlpi_addr == l->loader &&
                               (info->dlpi_phdr[i].p_flags & PF_W) != 0;
        uintptr_t x, before = 0;
        for (uintptr_t v = at + (0 - at) % sizeof x; variables && v + sizeof x <= end;
             v += sizeof x) {
            memcpy(&x, (const void *)v, sizeof x);
            if (x / l->page == 0 || x / l->page == before / l->page || x - at < end - at)
                continue;
            append(l, SW_PROCESS_CODE, "the loader's records", x, 0, 0);
            before = x;
        }
    }
    /* The main thread's own data of this object; the thread that asks is the main one. */
    if (size >= sizeof *info && info->dlpi_tls_data != NULL)
        append(l, SW_PROCESS_STACK, "main", (uintptr_t)info->dlpi_tls_data, 0, 0);
    if (to <= from)
        return 0;
    from -= from % l->page;
    to += (l->page - to % l->page) % l->page;
    const char *path = info->dlpi_name; /* the program itself has none */
    append(l, SW_PROCESS_CODE, *path == '\0' ? "the program" : last_part(path), from, to - from,
           0);
    return 0;
}

static void collect(list *l)
{
    l->n = 0;
    sw_address_map_visit(take_claim, l);
    (void)dl_iterate_phdr(take_object, l);
#if defined __GLIBC__
    /* The loader's records of what it loaded. */
    Dl_info info;
    void *found = NULL;
    (void)dladdr1((const void *)(uintptr_t)&dladdr1, &info, &found, RTLD_DL_LINKMAP);
    const struct link_map *map = found;
    while (map != NULL && map->l_prev != NULL)
        map = map->l_prev;
    for (; map != NULL; map = map->l_next) {
        append(l, SW_PROCESS_CODE, "the loader's records", (uintptr_t)map, 0, 0);
        append(l, SW_PROCESS_CODE, "the loader's records", (uintptr_t)map->l_name, 0, 0);
    }
#endif
    append(l, SW_PROCESS_STACK, "main", (uintptr_t)&errno, 0, 0);
}

sw_status sw_process_read(sw_process *out)
{
    list l = {.page = sw_page_bytes(), .loader = getauxval(AT_BASE)};
    collect(&l);
    l.cap = l.n + 16;
    SW_TRY(sw_heap_alloc(&l.at, SW_HEAP_PROFILE, l.cap * sizeof *l.at));
    sw_status status = SW_OK;
    /* The first time has the heap map what the second needs: then nothing moves. */
    for (int i = 0; i < 2 && status == SW_OK; i++) {
        collect(&l);
        status = sw_process_sum(out, "/proc/self/smaps", "/proc/self/pagemap", l.at, l.n,
                                sw_heap_unclaimed_bytes());
    }
    sw_heap_free(l.at, SW_HEAP_PROFILE, l.cap * sizeof *l.at);
    return status;
}

/* ---- smaps ------------------------------------------------------------------------------- */

/* The text has one line per mapping that begins with its addresses, and below it one line for
 * each figure. All mappings have the same figures, so a text that was cut shows. */

/* A path may have 4096 bytes, of four characters each. */
#define LINE_BYTES ((size_t)20 << 10)
#define READ_BYTES ((size_t)8 << 10)
#define FIELD 32

typedef struct {
    uintptr_t start, end;
    bool accessible;  /* readable, writable or executable */
    const char *path; /* of the file, without " (deleted)"; "[stack]" and the like; "": none */
    size_t resident_bytes, huge_bytes; /* huge: of it, in huge pages */
} sw_mapping;

typedef struct {
    void (*take)(void *context, const sw_mapping *mapping);
    void *context;
    const char *file;
    unsigned long long line;
    bool open, has_rss; /* a mapping was begun; its Rss was read */
    sw_mapping now;
    uintptr_t before;                 /* end of the mapping before */
    char field[FIELD], ending[FIELD]; /* the latest figure's name; the last one of a mapping */
    size_t used;                      /* of line */
    char path[LINE_BYTES], text[LINE_BYTES];
} reader;

static sw_status damaged(const reader *r, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: line %llu: %s", r->file, r->line, what);
}

/* Once the next one begins, or the text ends. */
static sw_status finish_mapping(reader *r)
{
    if (!r->open)
        return SW_OK;
    if (!r->has_rss)
        return damaged(r, "a mapping without 'Rss'");
    if (r->ending[0] == '\0')
        memcpy(r->ending, r->field, FIELD);
    if (strcmp(r->ending, r->field) != 0)
        return damaged(r, "a mapping is cut");
    if (r->now.resident_bytes > r->now.end - r->now.start ||
        r->now.huge_bytes > r->now.resident_bytes)
        return damaged(r, "a mapping has more memory than addresses");
    r->before = r->now.end;
    r->take(r->context, &r->now);
    return SW_OK;
}

/* "55d0-55d8 r--p 00000000 fe:00 247134      /usr/bin/cat" */
static sw_status begin_mapping(reader *r)
{
    static const char gone[] = " (deleted)";
    char *end;
    sw_mapping *m = &r->now;
    *m = (sw_mapping){0};
    m->start = strtoull(r->text, &end, 16);
    if (*end != '-')
        return damaged(r, "a mapping must begin with its addresses and access");
    m->end = strtoull(end + 1, &end, 16);
    if (*end != ' ' || m->end <= m->start || m->start < r->before)
        return damaged(r, "a mapping must end above its start");
    const char *access = ++end;
    m->accessible = access[0] == 'r' || access[0] == 'w' || access[0] == 'x' ||
                    (access[0] == '-' && (access[1] == 'w' || access[2] == 'x'));
    for (int i = 0; i < 4; i++) { /* access, offset, device, inode */
        if (*end == '\0')
            return damaged(r, "a mapping is cut");
        end += strcspn(end, " ");
        end += strspn(end, " ");
    }
    size_t n = strlen(end);
    if (n > sizeof gone - 1 && strcmp(end + n - (sizeof gone - 1), gone) == 0)
        n -= sizeof gone - 1;
    memcpy(r->path, end, n);
    r->path[n] = '\0';
    m->path = r->path;
    r->open = true;
    r->has_rss = false;
    r->field[0] = '\0';
    return SW_OK;
}

static sw_status read_kilobytes(const reader *r, const char *at, size_t *bytes)
{
    char *end;
    at += strspn(at, " ");
    const unsigned long long n = strtoull(at, &end, 10);
    if (*at < '0' || *at > '9' || strcmp(end, " kB") != 0 || n > SIZE_MAX / 1024)
        return damaged(r, "a figure must be a number of kB");
    *bytes = (size_t)n * 1024;
    return SW_OK;
}

static sw_status take_line(reader *r)
{
    const char c = r->text[0];
    r->text[r->used] = '\0';
    r->used = 0;
    r->line++;
    if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) {
        /* "Rss:                 640 kB" */
        const size_t n = strcspn(r->text, ":");
        if (r->text[n] != ':' || n == 0 || n >= FIELD)
            return damaged(r, "neither a mapping nor a figure");
        if (!r->open)
            return damaged(r, "a figure before the first mapping");
        memcpy(r->field, r->text, n);
        r->field[n] = '\0';
        if (strcmp(r->field, "Rss") == 0) {
            r->has_rss = true;
            return read_kilobytes(r, r->text + n + 1, &r->now.resident_bytes);
        }
        if (strcmp(r->field, "AnonHugePages") == 0)
            return read_kilobytes(r, r->text + n + 1, &r->now.huge_bytes);
        return SW_OK;
    }
    r->line--; /* what is wrong with the mapping before stands there */
    SW_TRY(finish_mapping(r));
    r->line++;
    return begin_mapping(r);
}

static sw_status read_all(reader *r, sw_file *file, char *buffer)
{
    for (size_t n = 1; n > 0;) {
        SW_TRY(sw_file_read(file, buffer, READ_BYTES, &n));
        for (size_t i = 0; i < n; i++) {
            if (buffer[i] == '\n') {
                SW_TRY(take_line(r));
                continue;
            }
            if (r->used == LINE_BYTES - 1 || buffer[i] == '\0') {
                r->line++;
                return damaged(r,
                               "a line must be text: this one is too long or has a zero byte");
            }
            r->text[r->used++] = buffer[i];
        }
    }
    if (r->used > 0) {
        r->line++;
        return damaged(r, "the line is cut");
    }
    if (!r->open) {
        r->line = 1;
        return damaged(r, "there is no mapping");
    }
    return finish_mapping(r);
}

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

/* ---- mappings ---------------------------------------------------------------------------- */

static share share_of(const sw_mapping *m)
{
    return (share){m->accessible ? m->end - m->start : 0, m->resident_bytes, m->huge_bytes};
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
    size_t i = 0, most = s->n; /* the first place that ends after `from` */
    while (i < most) {
        const size_t middle = i + (most - i) / 2;
        if (s->ranges[middle].base + s->ranges[middle].bytes <= from)
            i = middle + 1;
        else
            most = middle;
    }
    if (i == s->n || s->ranges[i].base >= end)
        return (piece){from, end, NULL};
    const sw_process_range *p = &s->ranges[i];
    if (p->base > from)
        return (piece){from, p->base, NULL};
    return (piece){from, earlier(end, p->base + p->bytes), p};
}

static void add_piece(sorter *s, const piece *x, share bytes)
{
    const sw_process_range *range = x->range;
    /* Of what no place has, one address may be known. */
    for (size_t i = s->n; range == NULL && x->to - x->from <= NEAR && i < s->n + s->n_points;
         i++)
        if (s->ranges[i].base >= x->from && s->ranges[i].base < x->to)
            range = &s->ranges[i];
    if (range != NULL)
        add(s->out, range->kind, range->name, bytes);
    else if (bytes.mapped == 0 && bytes.resident == 0)
        return; /* addresses that no one may touch */
    else if (s->n_spare < SPARE)
        s->spare[s->n_spare++] = bytes;
    else
        add_rest(s->out, bytes);
}

static void take_anonymous(sorter *s, const sw_mapping *m)
{
    const piece first = next_piece(s, m->start, m->end);
    if (first.to < m->end) {
        /* A mapping with several owners, page by page; the largest owner has it all where
         * pages look alike. */
        share whole = share_of(m);
        /* Which of the two counts adds up to what the system says of the whole: 0, 1, or -1 for
         * none; 2 where nothing is to be counted: addresses without end, perhaps. */
        int which = whole.resident / s->page == 0 ? 2 : -1;
        size_t all[2];
        if (which < 0 && s->pagemap != NULL && count_pages(s, m->start, m->end, all) == SW_OK)
            for (int i = 1; i >= 0; i--)
                which = all[i] == whole.resident / s->page ? i : which;
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
        return;
    }
    add_piece(s, &first, share_of(m));
}

static bool named(const char *path, const char *name)
{
    return strncmp(path, name, strlen(name)) == 0;
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

/* All memory is taken before the text is read, and no mapping is seen between two states as
 * long as no other thread maps memory. SW_FORMAT names the line of what is no such text, or is
 * cut; mappings before it were taken. */
static sw_status read_smaps(sorter *s, const char *path)
{
    reader *r;
    sw_file *file;
    SW_TRY(sw_heap_alloc(&r, SW_HEAP_FILES, sizeof(reader) + READ_BYTES));
    r->take = take_mapping;
    r->context = s;
    r->file = path;
    sw_status status = sw_file_open(&file, path, SW_FILE_READ);
    if (status == SW_OK) {
        status = read_all(r, file, (char *)r + sizeof *r);
        sw_file_drop(file);
    }
    sw_heap_free(r, SW_HEAP_FILES, sizeof(reader) + READ_BYTES);
    return status;
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
        size_t largest = SPARE;
        for (size_t i = 0; i < s->n_spare; i++)
            if ((chosen >> i & 1) != 0 &&
                (largest == SPARE || s->spare[i].mapped > s->spare[largest].mapped))
                largest = i;
        if (largest == SPARE)
            break;
        chosen &= ~((uint64_t)1 << largest);
        all -= s->spare[largest].mapped;
    }
    return chosen;
}

/* ---- all of it --------------------------------------------------------------------------- */

sw_status sw_process_sum(sw_process *out, const char *smaps, const char *pagemap,
                         sw_process_range *ranges, size_t n, size_t heap_bytes)
{
    sorter *s;
    SW_TRY(sw_heap_alloc(&s, SW_HEAP_PROFILE, sizeof(sorter)));
    s->out = out;
    s->ranges = ranges;
    s->page = sw_page_bytes();
    for (size_t gap = n / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < n; i++) {
            const sw_process_range v = ranges[i];
            size_t k = i;
            for (; k >= gap && ranges[k - gap].base > v.base; k -= gap)
                ranges[k] = ranges[k - gap];
            ranges[k] = v;
        }
    /* Places of 0 bytes after the others; both stay in order. The two lie in one array, which
     * is turned piece by piece: there are few. */
    s->n = 0;
    for (size_t i = 0; i < n; i++) {
        const sw_process_range x = ranges[i];
        if (x.bytes == 0)
            continue;
        memmove(&ranges[s->n + 1], &ranges[s->n], (i - s->n) * sizeof x);
        ranges[s->n++] = x;
    }
    s->n_points = n - s->n;
    /* Arenas have a line also where nothing of them is mapped. */
    memset(s->out, 0, sizeof *s->out);
    for (size_t m = 0; m < s->n; m++) {
        const sw_process_range *p = &s->ranges[m];
        if (p->kind != SW_PROCESS_ARENA && p->kind != SW_PROCESS_STACK)
            continue;
        sw_process_line *l = line_for(s->out, p->kind, p->name);
        l->n++;
        l->predicted = p->kind == SW_PROCESS_ARENA;
        l->predicted_bytes += (p->promised_bytes + s->page - 1) / s->page * s->page;
    }
    add_rest(s->out, (share){0});
    sw_status status = SW_OK;
    if (pagemap != NULL)
        status = sw_file_open(&s->pagemap, pagemap, SW_FILE_READ);
    if (status == SW_OK || status == SW_IO) /* without it pages are not told apart */
        status = read_smaps(s, smaps);
    const uint64_t heap = heap_share(s, heap_bytes);
    for (size_t i = 0; i < s->n_spare; i++)
        if ((heap >> i & 1) != 0)
            add(s->out, SW_PROCESS_HEAP, "malloc", s->spare[i]);
        else
            add_rest(s->out, s->spare[i]);
    for (size_t j = 1; j < out->n; j++) {
        const sw_process_line x = out->line[j];
        size_t k = j;
        for (; k > 0 && (out->line[k - 1].kind > x.kind ||
                         (out->line[k - 1].kind == x.kind &&
                          out->line[k - 1].resident_bytes < x.resident_bytes));
             k--)
            out->line[k] = out->line[k - 1];
        out->line[k] = x;
    }
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
        SW_JSON_PUT(j, l, mapped_bytes, resident_bytes, huge_bytes);
        if (l->predicted)
            sw_json_put_u64(j, "predicted_bytes", l->predicted_bytes);
        sw_json_end(j);
    }
    sw_json_end(j);
}
