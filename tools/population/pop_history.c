/* The members' turns so far, for --plot. A member has at most pop_history_most turns: once it
 * has more, every second one is dropped, and of those that come every second is kept, then
 * every fourth, and so on; the last one always is. So what is kept is a function of the turns
 * alone, whether the run was interrupted or not. */
#include "alloc/base/mem.h"
#include "tools/population/population.h"
#include <float.h>
#include <math.h>
#include <string.h>

#define MEMBER_TURNS 4096
#define ALL_TURNS 262144 /* of large populations */

uint32_t pop_history_most(const pop *p)
{
    const uint32_t share = ALL_TURNS / (uint32_t)p->n_members;
    return share > MEMBER_TURNS ? MEMBER_TURNS : share < 4 ? 4 : share;
}

/* A row: step, score, donor (-1: none), the donor's step and score, then the values that the
 * member had in the steps up to here. */
size_t pop_history_width(const pop *p)
{
    return POP_ROW_VALUES + (size_t)p->n_hypers;
}

const double *pop_history_row(const pop *p, int member, uint32_t i)
{
    return p->history[member].rows + i * pop_history_width(p);
}

sw_status pop_history_open(pop *p)
{
    const pop_opts *o = &p->opts;
    if (o->replay != NULL || (o->plot == NULL && o->job.checkpoint == NULL))
        return SW_OK;
    SW_TRY(
        sw_heap_alloc(&p->history, SW_HEAP_RECORDS, (size_t)p->n_members * sizeof *p->history));
    return SW_OK;
}

static void forget(pop *p, int member)
{
    pop_history *h = &p->history[member];
    sw_heap_free(h->rows, SW_HEAP_RECORDS, h->cap * pop_history_width(p) * sizeof *h->rows);
    *h = (pop_history){.n = 0};
}

void pop_history_clear(pop *p)
{
    for (int k = 0; k < p->n_members && p->history != NULL; k++)
        forget(p, k);
}

void pop_history_close(pop *p)
{
    pop_history_clear(p);
    if (p->history != NULL)
        sw_heap_free(p->history, SW_HEAP_RECORDS, (size_t)p->n_members * sizeof *p->history);
    p->history = NULL;
}

/* ---- turns ------------------------------------------------------------------------------- */

static sw_status reserve(const pop *p, pop_history *h, uint32_t n)
{
    const size_t row = pop_history_width(p) * sizeof *h->rows;
    uint32_t cap = h->cap > 0 ? h->cap : 16;
    while (cap < n)
        cap *= 2;
    if (cap == h->cap)
        return SW_OK;
    SW_TRY(sw_heap_resize(&h->rows, SW_HEAP_RECORDS, h->cap * row, cap * row));
    h->cap = cap;
    return SW_OK;
}

/* Of rows 0, 1, 2, ... those with an even number stay. */
static void thin(const pop *p, pop_history *h)
{
    const size_t width = pop_history_width(p);
    const uint32_t n = h->n;
    h->apart *= 2;
    h->n = 0;
    for (uint32_t i = 0; i < n; i += 2, h->n++)
        memmove(h->rows + h->n * width, h->rows + i * width, width * sizeof *h->rows);
}

/* Row i is of turn i x apart; after those stands the last turn, until the next one comes. */
static sw_status next_row(const pop *p, pop_history *h, double **out)
{
    if (h->apart == 0)
        h->apart = 1;
    if (h->n > 0 && (h->turns - 1) % h->apart != 0)
        h->n--;
    if (h->n >= pop_history_most(p))
        thin(p, h);
    SW_TRY(reserve(p, h, h->n + 1));
    *out = h->rows + h->n * pop_history_width(p);
    return SW_OK;
}

sw_status pop_history_turn(pop *p, int member)
{
    const pop_member *m = &p->members[member];
    const bool scored = !m->failed && !m->diverged && fabs(m->score.score) < DBL_MAX;
    double *row;
    if (p->history == NULL)
        return SW_OK;
    pop_history *h = &p->history[member];
    SW_TRY(next_row(p, h, &row));
    row[POP_ROW_STEP] = (double)m->steps;
    row[POP_ROW_SCORE] = scored ? m->score.score : (double)NAN;
    row[POP_ROW_DONOR] = -1.0;
    row[POP_ROW_DONOR_STEP] = row[POP_ROW_DONOR_SCORE] = 0.0;
    SW_TRY(pop_values(p, member, row + POP_ROW_VALUES));
    h->n++;
    h->turns++;
    return SW_OK;
}

void pop_history_copied(pop *p, int member, int donor, double step, double score)
{
    if (p->history == NULL || p->history[member].n == 0)
        return;
    double *row = p->history[member].rows + (p->history[member].n - 1) * pop_history_width(p);
    row[POP_ROW_DONOR] = donor;
    row[POP_ROW_DONOR_STEP] = step;
    row[POP_ROW_DONOR_SCORE] = fabs(score) < DBL_MAX ? score : (double)NAN;
}

/* ---- in a checkpoint --------------------------------------------------------------------- */

typedef struct {
    uint64_t turns;
    uint32_t n, apart;
} saved_history;

size_t pop_history_bytes(const pop *p)
{
    size_t n = 0;
    for (int k = 0; k < p->n_members && p->history != NULL; k++)
        n += sizeof(saved_history) +
             p->history[k].n * pop_history_width(p) * sizeof *p->history[k].rows;
    return n;
}

void pop_history_save(const pop *p, unsigned char *to)
{
    for (int k = 0; k < p->n_members && p->history != NULL; k++) {
        const pop_history *h = &p->history[k];
        const saved_history s = {h->turns, h->n, h->apart};
        const size_t rows = h->n * pop_history_width(p) * sizeof *h->rows;
        memcpy(to, &s, sizeof s);
        to += sizeof s;
        if (rows > 0)
            memcpy(to, h->rows, rows);
        to += rows;
    }
}

/* Whether the head of a member's rows says what this program would have written. */
static bool is_sound(const pop *p, const saved_history *s, size_t left)
{
    const size_t row = pop_history_width(p) * sizeof(double);
    return s->n <= pop_history_most(p) + 1 && s->n <= s->turns && s->n <= left / row &&
           (s->n == 0 || (s->apart > 0 && (s->apart & (s->apart - 1)) == 0));
}

sw_status pop_history_restore(pop *p, const unsigned char *at, size_t n, const char *path)
{
    for (int k = 0; k < p->n_members && p->history != NULL && n > 0; k++) {
        pop_history *h = &p->history[k];
        saved_history s = {0, 0, 0};
        if (n >= sizeof s)
            memcpy(&s, at, sizeof s);
        if (n < sizeof s || !is_sound(p, &s, n - sizeof s))
            SW_FAIL(SW_FORMAT, "%s: the turns of member %d are damaged", path, k);
        const size_t rows = s.n * pop_history_width(p) * sizeof *h->rows;
        at += sizeof s;
        if (s.n > 0) {
            SW_TRY(reserve(p, h, s.n));
            memcpy(h->rows, at, rows);
        }
        h->n = s.n;
        h->turns = s.turns;
        h->apart = s.apart;
        at += rows;
        n -= sizeof s + rows;
    }
    return SW_OK;
}
