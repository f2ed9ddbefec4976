/* All that decisions depend on as bytes, and back. The options come first, so that a run with
 * others is refused by name; after them is the state, in the order of the machine. Bytes that
 * come back are checked before anything changes: no bytes can make a decision reach outside of
 * its arrays. */
#include "runtime/population/pbt_internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* FNV-1a. */
static uint64_t add(uint64_t sum, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ p[i]) * 0x100000001b3ull;
    return sum;
}

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
    r.words = add(r.words, h->choices, r.n_choices * sizeof *h->choices);
    for (int i = 0; h->labels != NULL && i < h->n_choices; i++)
        r.words = add(r.words, h->labels[i], strlen(h->labels[i]) + 1);
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
    static const char call[] = "sw_pbt_save";
    void *block;
    SW_TRY(swi_pbt_check(p, call));
    if (bytes == NULL || n == NULL)
        SW_FAIL(SW_INVALID, "%s: bytes and n must not be NULL", call);
    const size_t all = all_bytes(p);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, all));
    char *to = block;
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
    *bytes = block;
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

static sw_status check_members(const sw_pbt *p)
{
    uint64_t go_on = 0, ready = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const swi_pbt_one *m = &p->one[i];
        if ((m->due | m->ready | m->kept | m->ended | m->leaving) > 1 || !isfinite(m->time) ||
            !isfinite(m->clock) || !isfinite(m->last) || !isfinite(m->due_time) ||
            !isfinite(m->kept_time) || !isfinite(m->first_time))
            return damaged("a member");
        go_on += !m->ended;
        ready += m->ready;
        for (uint32_t k = 0; k < p->h; k++)
            if (!swi_hyper_has(&p->space->hypers[k].is, swi_pbt_values(p, i)[k]) ||
                (p->s.logged &&
                 !swi_hyper_has(&p->space->hypers[k].is, p->first[(size_t)i * p->h + k])))
                return damaged("a value outside of the space");
    }
    return go_on == p->s.n_go_on && ready == p->s.n_ready ? SW_OK : damaged("a count");
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
    return check_members(p);
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
    return t->log != NULL && t->s.logged ? swi_pbt_log_restore(t) : SW_OK;
}

/* Into a block of its own first. */
sw_status sw_pbt_restore(sw_pbt *p, const void *bytes, size_t n)
{
    static const char call[] = "sw_pbt_restore";
    SW_TRY(swi_pbt_check(p, call));
    if (bytes == NULL)
        SW_FAIL(SW_INVALID, "%s: bytes must not be NULL", call);
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
