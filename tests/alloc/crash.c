/* Events are copied as they come; states are found by running them again from the beginning. */
#include "alloc/base/fault.h"
#include "tests/alloc/crash.h"
#include "tests/support/suite.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTOR = 512, FILES = 16, NAMES = 16, CHANGES = 12, MIXES = 40 };

typedef struct {
    sw_file_event event;
    char path[256], to[256]; /* without the folder */
    unsigned char *data;
} recorded;

/* Bytes of a file, and what was done to it since it was last synced. */
typedef struct {
    unsigned char *bytes, *durable;
    size_t n, n_durable, most; /* most: the longest it was since then */
    struct {
        size_t from, n;
        const unsigned char *data;
    } * writes;
    int n_writes;
    bool nameless; /* it was opened without a name and has none yet */
} content;

typedef struct {
    char name[256];
    int file; /* -1: not there */
} entry;

/* One change of names; remove: -1 or the entry that goes with it. */
typedef struct {
    int entry, file, gone;
} change;

typedef struct {
    content files[FILES];
    int n_files;
    entry names[NAMES]; /* as they are on the disk */
    int n_names;
    change changes[CHANGES]; /* not synced yet */
    int n_changes;
} disk;

struct sw_crash {
    char folder[1024];
    recorded *events;
    int n, cap;
    struct {
        char name[256];
        unsigned char *bytes;
        size_t n;
    } first[NAMES];
    int n_first;
    size_t room; /* no file is ever longer */
};

/* ---- recording --------------------------------------------------------------------------- */

static void copy_name(char *to, const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    snprintf(to, 256, "%s", path == NULL ? "" : slash != NULL ? slash + 1 : path);
}

static void listen(void *context, const sw_file_event *event)
{
    sw_crash *c = context;
    if (c->n == c->cap) {
        c->cap = c->cap * 2 + 16;
        c->events = realloc(c->events, (size_t)c->cap * sizeof *c->events);
    }
    recorded *r = &c->events[c->n++];
    *r = (recorded){.event = *event};
    copy_name(r->path, event->path);
    copy_name(r->to, event->to);
    if (event->kind == SW_FILE_WRITTEN) {
        r->data = malloc(event->bytes);
        memcpy(r->data, event->data, event->bytes);
        c->room += event->bytes;
    }
}

static bool keep_first(void *context, const char *name)
{
    sw_crash *c = context;
    uint64_t bytes = 0;
    size_t got = 0;
    sw_file *file = NULL;
    CU_ASSERT_FATAL(c->n_first < NAMES &&
                    sw_file_open(&file, sw_textf("%s/%s", c->folder, name), SW_FILE_READ) ==
                        SW_OK);
    CU_ASSERT_FATAL(sw_file_size(file, &bytes) == SW_OK);
    unsigned char *to = malloc(bytes + 1);
    CU_ASSERT_FATAL(sw_file_read(file, to, bytes, &got) == SW_OK && got == bytes);
    sw_file_drop(file);
    snprintf(c->first[c->n_first].name, sizeof c->first[0].name, "%s", name);
    c->first[c->n_first].bytes = to;
    c->first[c->n_first++].n = bytes;
    c->room = c->room > bytes ? c->room : bytes;
    return true;
}

sw_crash *sw_crash_begin(const char *folder)
{
    sw_crash *c = calloc(1, sizeof *c);
    snprintf(c->folder, sizeof c->folder, "%s", folder);
    CU_ASSERT_EQUAL_FATAL(sw_folder_for_each(folder, keep_first, c), SW_OK);
    sw_file_trace(listen, c);
    return c;
}

void sw_crash_stop(void)
{
    sw_file_trace(NULL, NULL);
}

void sw_crash_free(sw_crash *c)
{
    for (int i = 0; i < c->n; i++)
        free(c->events[i].data);
    for (int i = 0; i < c->n_first; i++)
        free(c->first[i].bytes);
    free(c->events);
    free(c);
}

int sw_crash_events(const sw_crash *c)
{
    return c->n;
}

sw_file_event_kind sw_crash_kind(const sw_crash *c, int event)
{
    return c->events[event].event.kind;
}

const sw_file *sw_crash_handle(const sw_crash *c, int event)
{
    return c->events[event].event.file;
}

void sw_crash_move(sw_crash *c, int from, int behind)
{
    const recorded moved = c->events[from];
    CU_ASSERT_FATAL(from <= behind && behind < c->n);
    memmove(&c->events[from], &c->events[from + 1],
            (size_t)(behind - from) * sizeof *c->events);
    c->events[behind] = moved;
}

/* ---- the disk ---------------------------------------------------------------------------- */

static int new_file(disk *d, size_t room, int n_writes)
{
    CU_ASSERT_FATAL(d->n_files < FILES);
    content *f = &d->files[d->n_files];
    *f = (content){.bytes = calloc(1, room + 1), .durable = calloc(1, room + 1)};
    f->writes = calloc((size_t)n_writes + 1, sizeof *f->writes);
    return d->n_files++;
}

static entry *entry_of(disk *d, const char *name)
{
    for (int i = 0; i < d->n_names; i++)
        if (strcmp(d->names[i].name, name) == 0)
            return &d->names[i];
    CU_ASSERT_FATAL(d->n_names < NAMES);
    entry *e = &d->names[d->n_names++];
    snprintf(e->name, sizeof e->name, "%s", name);
    e->file = -1;
    return e;
}

/* The file that a name leads to, synced or not; -1: none. */
static int file_now(disk *d, const char *name)
{
    const int at = (int)(entry_of(d, name) - d->names);
    int file = d->names[at].file;
    for (int i = 0; i < d->n_changes; i++)
        file = d->changes[i].entry == at  ? d->changes[i].file
               : d->changes[i].gone == at ? -1
                                          : file;
    return file;
}

static void change_name(disk *d, const char *name, int file, const char *gone)
{
    CU_ASSERT_FATAL(d->n_changes < CHANGES);
    const int at = (int)(entry_of(d, name) - d->names);
    const int with = gone != NULL ? (int)(entry_of(d, gone) - d->names) : -1;
    d->changes[d->n_changes++] = (change){at, file, with};
}

/* Of a file without a name a sync promises nothing: Btrfs leaves it out. */
static void sync_file(content *f)
{
    if (f->nameless)
        return;
    memcpy(f->durable, f->bytes, f->n);
    f->n_durable = f->most = f->n;
    f->n_writes = 0;
}

static void empty(content *f)
{
    memset(f->bytes, 0, f->n);
    f->n = 0;
}

/* Where the file grows again, zeros come after the cut. */
static void cut(content *f, size_t n)
{
    if (n < f->n)
        memset(f->bytes + n, 0, f->n - n);
    f->n = n;
}

static void put(content *f, size_t from, const unsigned char *data, size_t n)
{
    memcpy(f->bytes + from, data, n);
    f->n = from + n > f->n ? from + n : f->n;
    f->most = f->n > f->most ? f->n : f->most;
    f->writes[f->n_writes].from = from;
    f->writes[f->n_writes].n = n;
    f->writes[f->n_writes++].data = data;
}

/* Files that are open, by the caller's handle. */
typedef struct {
    const sw_file *handle[FILES];
    int file[FILES];
    size_t at[FILES];
    int n;
} opened;

static int open_at(const opened *o, const sw_file *handle)
{
    for (int i = o->n - 1; i >= 0; i--)
        if (o->handle[i] == handle)
            return i;
    return -1;
}

static void apply_open(const sw_crash *c, disk *d, opened *o, const recorded *r)
{
    const bool unnamed = r->event.mode == SW_FILE_UNNAMED;
    int file = unnamed ? -1 : file_now(d, r->path);
    if (unnamed) {
        file = new_file(d, c->room, c->n);
        d->files[file].nameless = true;
    } else if (file < 0) {
        if (r->event.mode == SW_FILE_READ)
            return;
        file = new_file(d, c->room, c->n);
        change_name(d, r->path, file, NULL);
    } else if (r->event.mode == SW_FILE_WRITE) {
        empty(&d->files[file]);
    }
    CU_ASSERT_FATAL(o->n < FILES);
    o->handle[o->n] = r->event.file;
    o->at[o->n] = 0;
    o->file[o->n++] = file;
}

static void apply(const sw_crash *c, disk *d, opened *o, const recorded *r)
{
    const int at = open_at(o, r->event.file);
    content *f = at >= 0 ? &d->files[o->file[at]] : NULL;
    switch (r->event.kind) {
    case SW_FILE_OPENED:
        apply_open(c, d, o, r);
        break;
    case SW_FILE_SOUGHT:
        if (f != NULL)
            o->at[at] = r->event.offset;
        break;
    case SW_FILE_WRITTEN:
        if (f != NULL) {
            put(f, o->at[at], r->data, r->event.bytes);
            o->at[at] += r->event.bytes;
        }
        break;
    case SW_FILE_EMPTIED:
        if (f != NULL)
            empty(f);
        break;
    case SW_FILE_CUT:
        if (f != NULL) {
            cut(f, r->event.offset);
            o->at[at] = r->event.offset;
        }
        break;
    case SW_FILE_NAMED:
        if (f != NULL) {
            f->nameless = false;
            change_name(d, r->path, o->file[at], NULL);
        }
        break;
    case SW_FILE_SYNCED:
        if (f != NULL)
            sync_file(f);
        break;
    case SW_FILE_RENAMED:
        change_name(d, r->to, file_now(d, r->path), r->path);
        break;
    case SW_FILE_REMOVED:
        change_name(d, r->path, -1, NULL);
        break;
    case SW_FILE_LINKED:
        change_name(d, r->to, file_now(d, r->path), NULL);
        break;
    case SW_FILE_FOLDER_SYNCED:
        for (int i = 0; i < d->n_changes; i++) {
            d->names[d->changes[i].entry].file = d->changes[i].file;
            if (d->changes[i].gone >= 0)
                d->names[d->changes[i].gone].file = -1;
        }
        d->n_changes = 0;
        break;
    }
}

static void start(const sw_crash *c, disk *d)
{
    *d = (disk){.n_files = 0};
    for (int i = 0; i < c->n_first; i++) {
        const int file = new_file(d, c->room, c->n);
        put(&d->files[file], 0, c->first[i].bytes, c->first[i].n);
        sync_file(&d->files[file]);
        entry_of(d, c->first[i].name)->file = file;
    }
}

static void stop(disk *d)
{
    for (int i = 0; i < d->n_files; i++) {
        free(d->files[i].bytes);
        free(d->files[i].durable);
        free(d->files[i].writes);
    }
}

/* ---- what may be left -------------------------------------------------------------------- */

typedef struct {
    const sw_crash *crash;
    disk disk;
    bool done, go_on;
    bool (*see)(void *context, const sw_crash_file *files, int n, bool done);
    void *context;
    uint64_t states, random;
    unsigned char *left[FILES]; /* of each file */
    size_t n_left[FILES];
    int names[NAMES]; /* the files after them */
} search;

static uint64_t draw(search *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

static void show(search *s)
{
    sw_crash_file files[NAMES];
    int n = 0;
    for (int i = 0; i < s->disk.n_names; i++)
        if (s->names[i] >= 0)
            files[n++] = (sw_crash_file){s->disk.names[i].name, s->left[s->names[i]],
                                         s->n_left[s->names[i]]};
    s->states++;
    s->go_on = s->go_on && s->see(s->context, files, n, s->done);
}

static int sectors(const content *f)
{
    return (int)((f->most + SECTOR - 1) / SECTOR);
}

/* Sectors for which `there` is set are as they were written, the others as they were synced. */
static void leave(search *s, int file, const unsigned char *there, size_t n)
{
    const content *f = &s->disk.files[file];
    unsigned char *to = s->left[file];
    memset(to, 0, f->most > f->n_durable ? f->most : f->n_durable);
    memcpy(to, f->durable, f->n_durable);
    for (int k = 0; k < sectors(f); k++) {
        const size_t from = (size_t)k * SECTOR;
        const size_t bytes = f->most - from < SECTOR ? f->most - from : SECTOR;
        if (there[k])
            memcpy(to + from, f->bytes + from, bytes);
    }
    s->n_left[file] = n;
}

enum { FIRST_ONES, ALONE, LOST, MIXED, KINDS };

static bool is_there(search *s, int kind, int sector, int turn)
{
    switch (kind) {
    case FIRST_ONES:
        return sector < turn;
    case ALONE:
        return sector == turn;
    case LOST:
        return sector != turn;
    default:
        return draw(s) % 2 != 0;
    }
}

/* All sectors, none, each alone, each lost, each number of first ones, and mixes; with the
 * length as it is, and as it was synced. */
static void vary(search *s, int file)
{
    const content *f = &s->disk.files[file];
    const int n = sectors(f);
    unsigned char *there = calloc(1, (size_t)n + 1);
    for (int kind = 0; kind < KINDS && s->go_on; kind++) {
        const int turns = kind != MIXED ? n + 1 : MIXES;
        for (int k = 0; k < turns && s->go_on; k++) {
            for (int i = 0; i < n; i++)
                there[i] = is_there(s, kind, i, k);
            leave(s, file, there, f->n);
            show(s);
            const size_t mixed = f->n_durable + (size_t)(draw(s) % (f->most + 1));
            leave(s, file, there, mixed < f->most ? mixed : f->n_durable);
            show(s);
        }
    }
    memset(there, 1, (size_t)n);
    leave(s, file, there, f->n);
    free(there);
}

/* The names with those changes of which the bit is set. */
static void choose_names(search *s, unsigned chosen)
{
    for (int i = 0; i < s->disk.n_names; i++)
        s->names[i] = s->disk.names[i].file;
    for (int i = 0; i < s->disk.n_changes; i++) {
        const change *c = &s->disk.changes[i];
        if ((chosen >> i & 1) == 0)
            continue;
        s->names[c->entry] = c->file;
        if (c->gone >= 0)
            s->names[c->gone] = -1;
    }
}

static void enumerate(search *s)
{
    disk *d = &s->disk;
    for (int i = 0; i < d->n_files; i++) {
        s->left[i] = calloc(1, s->crash->room + 1);
        memcpy(s->left[i], d->files[i].bytes, d->files[i].n);
        s->n_left[i] = d->files[i].n;
    }
    for (unsigned chosen = 0; chosen < 1u << d->n_changes && s->go_on; chosen++) {
        choose_names(s, chosen);
        show(s);
        for (int i = 0; i < d->n_files; i++)
            if (d->files[i].n_writes > 0 || d->files[i].n != d->files[i].n_durable)
                vary(s, i);
    }
    for (int i = 0; i < d->n_files; i++)
        free(s->left[i]);
}

uint64_t sw_crash_states(const sw_crash *c, int left_out,
                         bool (*see)(void *context, const sw_crash_file *files, int n,
                                     bool done),
                         void *context)
{
    search s = SW_INIT(.crash = c, .see = see, .context = context, .go_on = true,
                       .random = 88172645463325252u);
    opened o = {.n = 0};
    start(c, &s.disk);
    for (int i = 0; i <= c->n && s.go_on; i++) {
        s.done = i == c->n;
        enumerate(&s);
        if (i < c->n && i != left_out)
            apply(c, &s.disk, &o, &c->events[i]);
    }
    stop(&s.disk);
    return s.states;
}

const sw_crash_file *sw_crash_find(const sw_crash_file *files, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}

void sw_crash_leave_each_out(const sw_crash *crash,
                             bool (*see)(void *context, const sw_crash_file *files, int n,
                                         bool done),
                             uint64_t *wrong, int kinds[SW_FILE_FOLDER_SYNCED + 1])
{
    memset(kinds, 0, (SW_FILE_FOLDER_SYNCED + 1) * sizeof *kinds);
    for (int i = 0; i < sw_crash_events(crash); i++) {
        const sw_file_event_kind kind = sw_crash_kind(crash, i);
        if (kind != SW_FILE_SYNCED && kind != SW_FILE_RENAMED && kind != SW_FILE_NAMED &&
            kind != SW_FILE_LINKED && kind != SW_FILE_FOLDER_SYNCED)
            continue;
        kinds[kind]++;
        *wrong = 0;
        (void)sw_crash_states(crash, i, see, NULL);
        SW_CHECK(*wrong > 0, "event %d of kind %d is not missed", i, (int)kind);
    }
}

/* ---- folders of tests of saves ----------------------------------------------------------- */

char saves_folder[1024];

void saves_begin(const char *name)
{
    snprintf(saves_folder, sizeof saves_folder, "%s", sw_temp_path(name));
    CU_ASSERT_EQUAL_FATAL(mkdir(saves_folder, 0700), 0);
}

const char *saves_at(const char *name)
{
    return sw_textf("%s/%s", saves_folder, name);
}

static bool count_name(void *context, const char *name)
{
    ++*(int *)context;
    return true;
}

int saves_count(void)
{
    int n = 0;
    CU_ASSERT_EQUAL(sw_folder_for_each(saves_folder, count_name, &n), SW_OK);
    return n;
}

void saves_put(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CU_ASSERT_FATAL(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

bool saves_has(const char *path, const char *text)
{
    char got[256] = {0};
    const int fd = open(path, O_RDONLY);
    const ssize_t n = fd >= 0 ? read(fd, got, sizeof got - 1) : -1;
    close(fd);
    return n >= 0 && strcmp(got, text) == 0;
}

void saves_both_ways(void (*run)(const char *name), const char *name)
{
    run(name);
    sw_fault_unnamed(false);
    run(sw_textf("%s, named", name));
    sw_fault_unnamed(true);
}
