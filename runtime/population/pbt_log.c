/* Logs of exploits: pbt_global.txt has them all, pbt_policy_<member>.txt those that the present
 * state of the member comes from, after a line with the first values. A line is one write, and
 * a policy is replaced by a rename: a process that is killed leaves whole lines. */
#include "alloc/base/hash.h"
#include "runtime/population/pbt_internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static sw_status pbt_log_restore(sw_pbt *p);

#define DIR_BYTES 900
#define LOG_PATH 1024      /* bytes of a path */
#define LOG_MOST (1 << 30) /* bytes of a log */

static void pbt_log_path(const sw_pbt *p, char *to, int64_t member, const char *behind)
{
    if (member < 0)
        (void)snprintf(to, LOG_PATH, "%s/pbt_global.txt%s", p->log, behind);
    else
        (void)snprintf(to, LOG_PATH, "%s/pbt_policy_%lld.txt%s", p->log, (long long)member,
                       behind);
}

static void write_line(sw_json *j, const sw_pbt *p, const uint32_t who[2],
                       const double times[2], const double *from, const double *to)
{
    sw_json_begin(j, '[');
    sw_json_u64(j, who[0]);
    sw_json_u64(j, who[1]);
    sw_json_f64(j, times[0]);
    sw_json_f64(j, times[1]);
    swi_values_write(j, p->space, from);
    swi_values_write(j, p->space, to);
    sw_json_end(j);
    sw_json_line(j);
}

/* The bytes of a whole file, on the heap; *bytes of them. */
static sw_status read_open(sw_file *f, void **out, size_t *bytes)
{
    uint64_t size;
    size_t got = 0;
    void *block;
    SW_TRY(sw_file_size(f, &size));
    if (size > LOG_MOST)
        SW_FAIL(SW_FORMAT, "%s: a log must have at most %d bytes (got %llu)", sw_file_path(f),
                LOG_MOST, (unsigned long long)size);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, (size_t)size));
    sw_status status = sw_file_read(f, block, (size_t)size, &got);
    if (status == SW_OK && got < size)
        status =
            sw_error_set(SW_FORMAT, __FILE__, __LINE__, "%s: became shorter", sw_file_path(f));
    if (status != SW_OK) {
        sw_heap_free(block, SW_HEAP_FILES, (size_t)size);
        return status;
    }
    *out = block;
    *bytes = (size_t)size;
    return SW_OK;
}

static sw_status log_read(const char *path, void **out, size_t *bytes)
{
    sw_file *f;
    SW_TRY(sw_file_open(&f, path, SW_FILE_READ));
    const sw_status status = read_open(f, out, bytes);
    sw_file_drop(f);
    return status;
}

/* Bytes of the line at `at`, with its end; `lines` are before it. */
static sw_status line_at(const char *text, size_t bytes, size_t at, const char *path,
                         uint64_t lines, size_t *out)
{
    const char *end = memchr(text + at, '\n', bytes - at);
    if (end == NULL)
        SW_FAIL(SW_FORMAT, "%s: line %llu: is cut, it has no end", path,
                (unsigned long long)lines + 1);
    *out = (size_t)(end - text) + 1 - at;
    return SW_OK;
}

/* One line, for messages by its number. */
static sw_json_in log_line(const char *text, size_t bytes, const char *path, uint64_t line)
{
    sw_json_in in = sw_json_in_text(text, bytes, path);
    in.line = line;
    in.strict = true;
    return in;
}

/* The begin of a line: "[TARGET,DONOR". */
static sw_status read_who(sw_json_in *in, uint64_t *target, uint64_t *donor)
{
    SW_TRY(sw_json_expect(in, '['));
    SW_TRY(sw_json_get_count(in, target));
    SW_TRY(sw_json_expect(in, ','));
    return sw_json_get_count(in, donor);
}

/* A new file of two parts, not yet in the place of the old one. */
static sw_status write_beside(const char *path, const void *a, size_t n, const void *b,
                              size_t m)
{
    sw_file *f;
    SW_TRY(sw_file_open(&f, path, SW_FILE_WRITE));
    sw_status status = sw_file_write(f, a, n);
    if (status == SW_OK)
        status = sw_file_write(f, b, m);
    if (status != SW_OK) {
        sw_file_drop(f);
        return status;
    }
    return sw_file_close(f);
}

static sw_status policy_write(const sw_pbt *p, uint32_t member, const void *bytes, size_t n)
{
    char beside[LOG_PATH], path[LOG_PATH];
    pbt_log_path(p, beside, member, ".tmp");
    pbt_log_path(p, path, member, "");
    SW_TRY(write_beside(beside, bytes, n, "", 0));
    return sw_file_rename(beside, path);
}

/* ---- beginning --------------------------------------------------------------------------- */

/* The first line of a policy; a policy in the place of the one that is there. */
static void policy_first(const sw_pbt *p, sw_json *j, uint32_t member, double time,
                         const double *values)
{
    write_line(j, p, (uint32_t[]){member, member}, (double[]){time, time}, values, values);
}

sw_status swi_pbt_log_begin(sw_pbt *p)
{
    if (p->log == NULL || p->s.logged)
        return SW_OK;
    SW_TRY(sw_file_cut(p->log_file, 0));
    for (uint32_t i = 0; i < p->n; i++) {
        sw_json j;
        sw_json_growing(&j, SW_HEAP_FILES);
        policy_first(p, &j, i, p->one[i].time, swi_pbt_values(p, i));
        sw_status status = j.status;
        if (status == SW_OK)
            status = policy_write(p, i, j.bytes, j.used);
        sw_json_free(&j);
        SW_TRY(status);
    }
    for (uint32_t i = 0; i < p->n; i++)
        p->one[i].first_time = p->one[i].time;
    memcpy(p->first, p->values, (size_t)p->n * p->h * sizeof *p->first);
    p->s.log_bytes = 0;
    p->s.log_sum = SW_FNV32;
    p->s.logged = 1;
    return SW_OK;
}

void swi_pbt_log_end(sw_pbt *p)
{
    sw_file_drop(p->log_file);
    if (p->log != NULL)
        sw_heap_free(p->log, SW_HEAP_FILES, strlen(p->log) + 1);
    p->log = NULL;
    p->log_file = NULL;
}

sw_status sw_pbt_log(sw_pbt *p, const char *dir)
{
    char path[LOG_PATH];
    void *block;
    SW_TRY(swi_pbt_check(p, __func__));
    if (dir == NULL) {
        swi_pbt_log_end(p);
        p->s.logged = 0;
        return SW_OK;
    }
    if (p->log != NULL)
        SW_FAIL(SW_INVALID, "%s: there are logs already, in %s", __func__, p->log);
    const size_t n = strnlen(dir, DIR_BYTES);
    if (n == 0 || n == DIR_BYTES)
        SW_FAIL(SW_INVALID, "%s: the folder's name must have 1 to %d bytes", __func__,
                DIR_BYTES - 1);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, n + 1));
    p->log = memcpy(block, dir, n);
    pbt_log_path(p, path, -1, "");
    const bool there = sw_file_there(path);
    sw_status status = sw_file_open(&p->log_file, path, SW_FILE_KEEP);
    if (status == SW_OK && p->s.logged)
        status = pbt_log_restore(p);
    if (status != SW_OK && p->log_file != NULL && !there)
        (void)!sw_file_remove(path); /* an empty one says nothing */
    if (status != SW_OK)
        swi_pbt_log_end(p);
    return status;
}

/* ---- an exploit -------------------------------------------------------------------------- */

/* The global log first: what was written there and not noted is cut when it is tried again. */
static sw_status append(sw_pbt *p, uint32_t target, const char *donors, const sw_json *line)
{
    char beside[LOG_PATH], path[LOG_PATH];
    void *lineage;
    size_t n;
    pbt_log_path(p, beside, target, ".tmp");
    pbt_log_path(p, path, target, "");
    SW_TRY(log_read(donors, &lineage, &n));
    const sw_status status = write_beside(beside, lineage, n, line->bytes, line->used);
    sw_heap_free(lineage, SW_HEAP_FILES, n);
    SW_TRY(status);
    SW_TRY(sw_file_cut(p->log_file, p->s.log_bytes));
    SW_TRY(sw_file_write(p->log_file, line->bytes, line->used));
    return sw_file_rename(beside, path);
}

sw_status swi_pbt_log_exploit(sw_pbt *p, uint32_t target, uint32_t donor)
{
    char path[LOG_PATH];
    sw_json j;
    if (p->log == NULL) {
        p->s.logged = 0; /* logs that begin later begin with what is then */
        return SW_OK;
    }
    const swi_pbt_one *m = &p->one[target], *d = &p->one[donor];
    const double times[2] = {m->time, p->opts.synch ? d->time : d->kept_time};
    pbt_log_path(p, path, donor, "");
    sw_json_growing(&j, SW_HEAP_FILES);
    write_line(&j, p, (uint32_t[]){target, donor}, times, swi_pbt_values(p, donor), p->fresh);
    sw_status status = j.status;
    if (status == SW_OK)
        status = append(p, target, path, &j);
    if (status == SW_OK) {
        p->s.log_bytes += j.used;
        p->s.log_sum = sw_fnv32(p->s.log_sum, j.bytes, j.used);
    }
    sw_json_free(&j);
    return status;
}

/* Logs as they were at a save: pbt_global.txt is cut, and the policies are made of it again. A
 * policy cannot be cut, since a later exploit may have put another one in its place. */

/* A line of the global log, and what its lineage was before. */
typedef struct {
    int64_t before; /* a node; -1 - m: the first values of member m */
    size_t at, bytes;
} node;

typedef struct {
    const sw_pbt *pbt;
    const char *path, *text;
    node *nodes;
    uint64_t n_nodes;
    int64_t *heads; /* of each member */
} lineages;

static sw_status read_line(lineages *l, size_t at, size_t bytes)
{
    uint64_t target, donor;
    sw_json_in in = log_line(l->text + at, bytes - 1, l->path, l->n_nodes + 1);
    SW_TRY(read_who(&in, &target, &donor));
    if (target >= l->pbt->n || donor >= l->pbt->n)
        return sw_json_bad(&in, "there is no such member");
    l->nodes[l->n_nodes] = (node){.before = l->heads[donor], .at = at, .bytes = bytes};
    l->heads[target] = (int64_t)l->n_nodes++;
    return SW_OK;
}

/* First values, then the lines of the chain from the oldest on. */
static sw_status write_policy(const lineages *l, uint32_t member)
{
    const sw_pbt *p = l->pbt;
    size_t lines = 0;
    int64_t at = l->heads[member];
    for (; at >= 0; at = l->nodes[at].before)
        lines += l->nodes[at].bytes;
    const uint32_t root = (uint32_t)(-1 - at);
    sw_json j;
    void *block = NULL;
    sw_json_growing(&j, SW_HEAP_FILES);
    policy_first(p, &j, root, p->one[root].first_time, p->first + (size_t)root * p->h);
    const size_t first = j.used, all = first + lines;
    sw_status status = j.status;
    if (status == SW_OK)
        status = sw_heap_alloc(&block, SW_HEAP_FILES, all);
    if (status == SW_OK) {
        char *end = (char *)block + all;
        memcpy(block, j.bytes, first);
        for (at = l->heads[member]; at >= 0; at = l->nodes[at].before) {
            end -= l->nodes[at].bytes;
            memcpy(end, l->text + l->nodes[at].at, l->nodes[at].bytes);
        }
        status = policy_write(p, member, block, all);
        sw_heap_free(block, SW_HEAP_FILES, all);
    }
    sw_json_free(&j);
    return status;
}

static sw_status rebuild(lineages *l, size_t bytes)
{
    for (uint32_t i = 0; i < l->pbt->n; i++)
        l->heads[i] = -1 - (int64_t)i;
    for (size_t at = 0; at < bytes;) {
        size_t line = 0;
        SW_TRY(line_at(l->text, bytes, at, l->path, l->n_nodes, &line));
        SW_TRY(read_line(l, at, line));
        at += line;
    }

    for (uint32_t i = 0; i < l->pbt->n; i++)
        SW_TRY(write_policy(l, i));
    return sw_file_cut(l->pbt->log_file, bytes);
}

static uint64_t lines_of(const char *text, size_t bytes)
{
    uint64_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += text[i] == '\n';
    return n;
}

/* The first `bytes` are those that were there: the state has their number and sum. */
static sw_status check_sum(sw_pbt *p, const char *path, const char *text, size_t bytes)
{
    const uint32_t sum = sw_fnv32(SW_FNV32, text, bytes);
    if (bytes < p->s.log_bytes)
        SW_FAIL(SW_FORMAT, "%s: has %zu bytes, and had %llu when the run was saved", path,
                bytes, (unsigned long long)p->s.log_bytes);
    if (p->s.log_sum != 0 && p->s.log_sum != sum)
        SW_FAIL(SW_FORMAT,
                "%s is damaged: its first %zu bytes are not those that it had when the run "
                "was saved",
                path, bytes);
    p->s.log_sum = sum;
    return SW_OK;
}

/* The logs as they were when the state was saved. SW_FORMAT where they have other bytes. */
static sw_status pbt_log_restore(sw_pbt *p)
{
    char path[LOG_PATH];
    void *text, *nodes = NULL, *heads = NULL;
    size_t bytes;
    pbt_log_path(p, path, -1, "");
    SW_TRY(log_read(path, &text, &bytes));
    const size_t cut = bytes < p->s.log_bytes ? bytes : (size_t)p->s.log_bytes;
    const size_t n_nodes = (size_t)lines_of(text, cut) * sizeof(node);
    const size_t n_heads = p->n * sizeof(int64_t);
    sw_status status = check_sum(p, path, text, cut);
    if (status == SW_OK)
        status = sw_heap_alloc(&nodes, SW_HEAP_FILES, n_nodes);
    if (status == SW_OK)
        status = sw_heap_alloc(&heads, SW_HEAP_FILES, n_heads);
    if (status == SW_OK) {
        lineages l = {.pbt = p, .path = path, .text = text, .nodes = nodes, .heads = heads};
        status = rebuild(&l, cut);
    }
    sw_heap_free(heads, SW_HEAP_FILES, n_heads);
    sw_heap_free(nodes, SW_HEAP_FILES, n_nodes);
    sw_heap_free(text, SW_HEAP_FILES, bytes);
    return status;
}

/* ---- policies ------------------------------------------------------------------------ */

/* The schedule of one lineage, read from a policy file. */
typedef struct {
    const sw_space *space;
    const char *path, *text;
    size_t bytes;
    double *from, *to; /* one line's values; of to those of change k */
    uint64_t before;   /* the line before: who goes on */
    double time;       /* its change */
} policy;

/* Line `k`, from 0: the first says who it begins with, each other one goes on from the one
 * before. */
static sw_status read_change(policy *p, const char *text, size_t bytes, uint64_t k)
{
    uint64_t target, donor;
    sw_json_in in = log_line(text, bytes, p->path, k + 1);
    SW_TRY(read_who(&in, &target, &donor));
    if (k == 0 ? target != donor : donor != p->before)
        return sw_json_bad(&in, k == 0
                                    ? "the first line must have one member as target and donor"
                                    : "the donor must be the target of the line before");
    sw_json_number time; /* the target's, then the donor's */
    for (int i = 0; i < 2; i++) {
        SW_TRY(sw_json_expect(&in, ','));
        SW_TRY(sw_json_get_number(&in, &time));
    }
    if (time.real < 0 || (k > 0 && time.real < p->time))
        return sw_json_bad(&in, "the donor's time must not be before that of the line before");
    int c;
    SW_TRY(sw_json_expect(&in, ','));
    SW_TRY(swi_values_read(&in, p->space, p->from));
    SW_TRY(sw_json_expect(&in, ','));
    SW_TRY(swi_values_read(&in, p->space, p->to));
    SW_TRY(sw_json_expect(&in, ']'));
    SW_TRY(sw_json_peek(&in, &c));
    SW_TRY(c < 0 ? SW_OK : sw_json_bad(&in, "the line must end here"));
    p->before = target;
    p->time = time.real;
    return SW_OK;
}

/* All lines up to line `last`; *n is how many there were. */
static sw_status read_lines(policy *p, uint64_t last, uint64_t *n)
{
    *n = 0;
    for (size_t at = 0; at < p->bytes && *n <= last;) {
        size_t line = 0;
        SW_TRY(line_at(p->text, p->bytes, at, p->path, *n, &line));
        SW_TRY(read_change(p, p->text + at, line - 1, (*n)++));
        at += line;
    }
    if (*n == 0)
        SW_FAIL(SW_FORMAT, "%s: line 1: a policy must begin with its first values", p->path);
    return SW_OK;
}

/* With room for two rows of values. */
static sw_status read_policy(const char *path, const sw_space *space, uint64_t last,
                             uint64_t *n, int *member, double *time, double *values)
{
    void *text;
    const size_t row = space->n * sizeof(double);
    policy p = {.space = space, .path = path};
    SW_TRY(log_read(path, &text, &p.bytes));
    p.text = text;
    sw_status status = sw_heap_alloc(&p.from, SW_HEAP_FILES, 2 * row);
    if (status == SW_OK) {
        p.to = p.from + space->n;
        status = read_lines(&p, last, n);
        if (status == SW_OK && *n > last) {
            if (member != NULL)
                *member = (int)p.before;
            if (time != NULL)
                *time = p.time;
            if (values != NULL)
                memcpy(values, p.to, row);
        }
        sw_heap_free(p.from, SW_HEAP_FILES, 2 * row);
    }
    sw_heap_free(text, SW_HEAP_FILES, p.bytes);
    return status;
}

static sw_status check_policy(const char *path, const sw_space *space, const void *out,
                              const char *call)
{
    SW_TRY(swi_given(path != NULL && out != NULL, "path and results", call));
    return sw_handle_check(space, SW_HANDLE_SPACE, call);
}

sw_status sw_policy_changes(const char *path, const sw_space *space, int *n)
{
    uint64_t count;
    SW_TRY(check_policy(path, space, n, "sw_policy_changes"));
    SW_TRY(read_policy(path, space, UINT64_MAX, &count, NULL, NULL, NULL));
    *n = (int)count; /* a file has less than 2^30 bytes */
    return SW_OK;
}

sw_status sw_policy_change(const char *path, const sw_space *space, int k, int *member,
                           double *time, double *values)
{
    uint64_t count;
    SW_TRY(check_policy(path, space, path, __func__));
    if (k < 0)
        SW_FAIL(SW_INVALID, "%s: the change must be 0 or more (got %d)", __func__, k);
    SW_TRY(read_policy(path, space, (uint64_t)k, &count, member, time, values));
    if (count <= (uint64_t)k)
        SW_FAIL(SW_INVALID, "%s: %s has %llu changes (got %d)", __func__, path,
                (unsigned long long)count, k);
    return SW_OK;
}

/* All that decisions depend on as bytes, and back. The options come first, so that a run with
 * others is refused by name; after them is the state, in the order of the machine. Bytes that
 * come back are checked before anything changes: no bytes can make a decision reach outside of
 * its arrays. */

/* ---- options ----------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    size_t at, bytes;
} option;
#define OPTION(name)                                                                           \
    {                                                                                          \
#name, offsetof(sw_pbt_opts, name), sizeof(((sw_pbt_opts *)0)->name)                   \
    }
static const option options[] = {
    OPTION(members),        OPTION(minimize),  OPTION(seed),
    OPTION(interval),       OPTION(burn_in),   OPTION(quantile),
    OPTION(replaced),       OPTION(donors),    OPTION(resample_probability),
    OPTION(factors),        OPTION(synch),     OPTION(exploit),
    OPTION(explore),        OPTION(stop_time), OPTION(stop_score),
    OPTION(has_stop_score), OPTION(without)};
#define N_OPTIONS (sizeof options / sizeof *options)

typedef struct {
    char magic[8];
    uint64_t bytes;
    uint8_t opts[sizeof(sw_pbt_opts)]; /* the options above; other bytes are zero */
    uint64_t custom, n_hypers;
} head;
static const char magic[8] = "swpbt 2";

/* A hyper-parameter, with all that it may be as one number: enough to see a difference. */
typedef struct {
    char name[SWI_HYPER_NAME];
    uint64_t kind, n_choices, resample, words;
    double low, high;
} hyper;

static hyper hyper_of(const sw_hyper *h)
{
    hyper r;
    memset(&r, 0, sizeof r);
    memcpy(r.name, h->name, strlen(h->name));
    r.kind = (uint64_t)h->kind;
    r.words = 0xcbf29ce484222325ull;
    if (h->kind != SW_CHOICE) {
        r.low = h->low;
        r.high = h->high;
        return r;
    }
    r.resample = h->resample != 0;
    r.n_choices = (uint64_t)h->n_choices;
    r.words = sw_fnv64(r.words, h->choices, r.n_choices * sizeof *h->choices);
    for (int i = 0; h->labels != NULL && i < h->n_choices; i++)
        r.words = sw_fnv64(r.words, h->labels[i], strlen(h->labels[i]) + 1);
    return r;
}

static head head_of(const sw_pbt *p, size_t bytes)
{
    head h;
    memset(&h, 0, sizeof h);
    memcpy(h.magic, magic, sizeof magic);
    h.bytes = bytes;
    for (size_t i = 0; i < N_OPTIONS; i++)
        memcpy(h.opts + options[i].at, (const char *)&p->opts + options[i].at,
               options[i].bytes);
    h.custom = p->opts.custom != NULL;
    h.n_hypers = p->h;
    return h;
}

static size_t front_bytes(const sw_pbt *p)
{
    return sizeof(head) + p->h * sizeof(hyper);
}

static size_t all_bytes(const sw_pbt *p)
{
    return front_bytes(p) + sizeof p->s + sizeof p->waiting + p->block_bytes;
}

/* ---- saving ------------------------------------------------------------------------------ */

sw_status sw_pbt_save(const sw_pbt *p, void **bytes, size_t *n)
{
    SW_TRY(swi_pbt_check(p, __func__));
    SW_TRY(swi_given(bytes != NULL && n != NULL, "bytes and n", __func__));
    const size_t all = all_bytes(p);
    SW_TRY(sw_heap_alloc(bytes, SW_HEAP_RECORDS, all));
    char *to = *bytes;
    const head h = head_of(p, all);
    memcpy(to, &h, sizeof h);
    to += sizeof h;
    for (uint32_t i = 0; i < p->h; i++, to += sizeof(hyper)) {
        const hyper r = hyper_of(&p->space->hypers[i].is);
        memcpy(to, &r, sizeof r);
    }
    memcpy(to, &p->s, sizeof p->s);
    memcpy(to + sizeof p->s, p->waiting, sizeof p->waiting);
    memcpy(to + sizeof p->s + sizeof p->waiting, p->block, p->block_bytes);
    *n = all;
    return SW_OK;
}

void sw_pbt_free(void *bytes, size_t n)
{
    sw_heap_free(bytes, SW_HEAP_RECORDS, n);
}

/* ---- restoring --------------------------------------------------------------------------- */

static sw_status damaged(const char *what)
{
    SW_FAIL(SW_FORMAT, "sw_pbt_restore: the bytes are no saved population, or damaged: %s",
            what);
}

static sw_status check_front(const sw_pbt *p, const char *from, size_t n)
{
    head is, own = head_of(p, n);
    if (n < sizeof is)
        return damaged("they are too few");
    memcpy(&is, from, sizeof is);
    if (memcmp(is.magic, magic, sizeof magic) != 0 || is.bytes != n)
        return damaged("their beginning");
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (memcmp(is.opts + options[i].at, own.opts + options[i].at, options[i].bytes) != 0)
            SW_FAIL(SW_INVALID, "sw_pbt_restore: %s is another than in the run that saved",
                    options[i].name);
    if (is.custom != own.custom)
        SW_FAIL(SW_INVALID, "sw_pbt_restore: custom is another than in the run that saved");
    if (is.n_hypers != own.n_hypers)
        SW_FAIL(SW_INVALID,
                "sw_pbt_restore: the space has %u hyper-parameters, and had %llu "
                "in the run that saved",
                p->h, (unsigned long long)is.n_hypers);
    if (n != all_bytes(p))
        return damaged("their number");
    for (uint32_t i = 0; i < p->h; i++) {
        const hyper r = hyper_of(&p->space->hypers[i].is);
        if (memcmp(from + sizeof is + i * sizeof r, &r, sizeof r) != 0)
            SW_FAIL(SW_INVALID, "sw_pbt_restore: '%s' is another than in the run that saved",
                    r.name);
    }
    return SW_OK;
}

static bool is_list(const uint32_t *list, uint64_t n, uint32_t all)
{
    for (uint64_t i = 0; i < n; i++)
        if (list[i] >= all)
            return false;
    return true;
}

/* Without synch the ranking has all that go on and have a score. */
static bool is_ranked(const sw_pbt *p)
{
    uint64_t scored = 0;
    for (uint32_t i = 0; i < p->n; i++)
        scored += !p->one[i].ended && !isnan(p->one[i].score);
    if (!p->opts.synch && scored != p->s.n_rank)
        return false;
    for (uint64_t i = 0; i < p->s.n_rank; i++)
        if (isnan(p->one[p->rank[i]].score) || (!p->opts.synch && p->one[p->rank[i]].ended) ||
            swi_pbt_rank_of(p, p->rank[i]) != i)
            return false;
    return true;
}

static sw_status check_state(const sw_pbt *p)
{
    const swi_pbt_state *s = &p->s;
    const uint64_t n = p->n;
    const bool turn = s->turn_at < s->turn_last;
    if (s->n_rank > n || s->n_queue > n || s->queue_at >= n || s->turn_top > s->n_rank ||
        (turn && (s->turn_last > s->n_rank || s->n_rank < 2)) ||
        (turn && p->opts.exploit == SW_TRUNCATION && s->turn_top == 0))
        return damaged("a count");
    if (s->target < -1 || s->donor < -1 || s->target >= (int64_t)n || s->donor >= (int64_t)n ||
        (s->target < 0) != (s->donor < 0) || s->n_events > 4)
        return damaged("a count");
    for (uint64_t i = 0; i < s->n_events; i++)
        if (p->waiting[i].member >= n || p->waiting[i].what > SW_PBT_STOP)
            return damaged("an event");
    if (!is_list(p->rank, s->n_rank, p->n) || (p->opts.synch && !is_list(p->queue, n, p->n)) ||
        !is_ranked(p))
        return damaged("an order");
    uint64_t go_on = 0, ready = 0;
    for (uint32_t j = 0; j < p->n; j++) {
        const swi_pbt_one *m = &p->one[j];
        if ((m->due | m->ready | m->kept | m->ended | m->leaving) > 1 || !isfinite(m->time) ||
            !isfinite(m->clock) || !isfinite(m->last) || !isfinite(m->due_time) ||
            !isfinite(m->kept_time) || !isfinite(m->first_time))
            return damaged("a member");
        go_on += !m->ended;
        ready += m->ready;
        for (uint32_t k = 0; k < p->h; k++)
            if (!swi_hyper_has(&p->space->hypers[k].is, swi_pbt_values(p, j)[k]) ||
                (p->s.logged &&
                 !swi_hyper_has(&p->space->hypers[k].is, p->first[(size_t)j * p->h + k])))
                return damaged("a value outside of the space");
    }
    return go_on == p->s.n_go_on && ready == p->s.n_ready ? SW_OK : damaged("a count");
}

static sw_status take(sw_pbt *t, const char *from)
{
    from += front_bytes(t);
    memcpy(&t->s, from, sizeof t->s);
    memcpy(t->waiting, from + sizeof t->s, sizeof t->waiting);
    memcpy(t->block, from + sizeof t->s + sizeof t->waiting, t->block_bytes);
    SW_TRY(check_state(t));
    if (!t->opts.synch)
        swi_pbt_heap_fill(t);
    return t->log != NULL && t->s.logged ? pbt_log_restore(t) : SW_OK;
}

/* Into a block of its own first. */
sw_status sw_pbt_restore(sw_pbt *p, const void *bytes, size_t n)
{
    SW_TRY(swi_pbt_check(p, __func__));
    SW_TRY(swi_given(bytes != NULL, "bytes", __func__));
    SW_TRY(check_front(p, bytes, n));
    sw_pbt t = *p;
    SW_TRY(sw_heap_alloc(&t.block, SW_HEAP_RECORDS, t.block_bytes));
    (void)swi_pbt_lay_out(&t, t.block);
    const sw_status status = take(&t, bytes);
    sw_heap_free(status == SW_OK ? p->block : t.block, SW_HEAP_RECORDS, p->block_bytes);
    if (status == SW_OK)
        *p = t;
    return status;
}
