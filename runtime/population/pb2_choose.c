/* PB2's next values: of random candidates the one with the highest upper confidence bound.
 *
 *     mean + sqrt(beta) deviation,   beta = 0.2 + max(0, log(0.4 n)),   n outcomes
 *
 * as the authors' program has it. Half of the candidates are anywhere in the space; the others
 * are near the best so far, nearer and nearer. */
#include "kernels/rng.h"
#include "runtime/population/pb2_internal.h"
#include <math.h>
#include <string.h>

#define ANYWHERE 128
#define ROUNDS 4
#define NEAR 32

double swi_pb2_value(const sw_hyper *h, double share)
{
    double x;
    if (h->kind == SW_LOG_UNIFORM) {
        const double low = swi_log(h->low);
        x = swi_exp(low + share * (swi_log(h->high) - low));
    } else {
        x = h->low * (1 - share) + h->high * share;
    }
    if (h->kind == SW_INTEGER)
        x = floor(x + 0.5);
    return x < h->low ? h->low : x > h->high ? h->high : x;
}

/* Members that were explored and had no turn since are rows without an outcome. */
static uint32_t add_recent(sw_pbt *p, uint32_t but)
{
    uint32_t rows = p->pb2->n;
    for (uint64_t i = 0; i < p->s.n_recent; i++) {
        const uint32_t member = p->recent[i];
        const swi_pbt_one *m = &p->one[member];
        if (!m->fresh || m->ended || member == but)
            continue;
        swi_pb2_row(p, rows, m->base_time, m->base_seen, swi_pbt_values(p, member));
        swi_pb2_append(p->pb2, 0, rows);
        rows++;
    }
    return rows;
}

typedef struct {
    sw_pbt *pbt;
    uint32_t member, rows;
    double time, seen, root; /* context; sqrt(beta) */
    double best;
    double *best_unit, *unit; /* (h) each */
} search;

/* Is the candidate better than all before? Then its values are the fresh ones. */
static void try_values(search *s, const double *values)
{
    double mean, variance;
    sw_pbt *p = s->pbt;
    swi_pb2_row(p, s->rows, s->time, s->seen, values);
    swi_pb2_predict(p->pb2, s->rows, s->rows, &mean, &variance);
    const double bound = mean + s->root * sqrt(variance);
    if (!(bound > s->best))
        return;
    s->best = bound;
    memcpy(p->fresh, values, p->h * sizeof *values);
    memcpy(s->best_unit, s->unit, p->h * sizeof *values);
}

/* Candidate c: uniform, or within `near` of the best. */
static void try_candidate(search *s, uint32_t c, double near, double *values)
{
    const sw_pbt *p = s->pbt;
    for (uint32_t k = 0; k < p->h; k++) {
        const sw_hyper *h = &p->space->hypers[k].is;
        uint32_t w[4];
        if (h->kind == SW_CHOICE)
            continue;
        swi_pbt_words(w, p, s->member, "sw_pbt pb2", c * SWI_HYPERS + k);
        const double u = swi_unit53(w[0], w[1]);
        const double at = near > 0 ? s->best_unit[k] + (2 * u - 1) * near : u;
        s->unit[k] = at < 0 ? 0 : at > 1 ? 1 : at;
        values[k] = swi_pb2_value(h, s->unit[k]);
    }
    try_values(s, values);
}

/* pbt->fresh has the donor's values, with choices that were perturbed already. */
void swi_pb2_explore(sw_pbt *p, uint32_t member, uint32_t donor)
{
    swi_pb2 *g = p->pb2;
    swi_pb2_fit(p);
    const swi_pbt_one *d = &p->one[donor];
    const double log_n = g->n > 0 ? swi_log(0.4 * g->n) : 0;
    search s = {.pbt = p,
                .member = member,
                .rows = add_recent(p, member),
                .time = p->opts.synch ? d->time : d->kept_time,
                .seen = d->score,
                .root = sqrt(0.2 + (log_n > 0 ? log_n : 0)),
                .best = -(double)INFINITY,
                .best_unit = g->unit,
                .unit = g->unit + p->h};
    double *values = p->trial;
    memcpy(values, p->fresh, p->h * sizeof *values);
    for (uint32_t k = 0; k < p->h; k++) /* the donor's own values are a candidate too */
        s.unit[k] = p->space->hypers[k].is.kind == SW_CHOICE
                        ? 0
                        : swi_pb2_share(&p->space->hypers[k].is, values[k]);
    try_values(&s, values);
    uint32_t c = 0;
    for (; c < ANYWHERE; c++)
        try_candidate(&s, c, 0, values);
    double near = 0.2;
    for (int round = 0; round < ROUNDS; round++, near /= 2)
        for (int i = 0; i < NEAR; i++)
            try_candidate(&s, c++, near, values);
}

void swi_pb2_explored(sw_pbt *p, uint32_t member)
{
    uint64_t n = 0;
    if (p->pb2 == NULL)
        return;
    for (uint64_t i = 0; i < p->s.n_recent; i++)
        if (p->recent[i] != member && p->one[p->recent[i]].fresh)
            p->recent[n++] = p->recent[i];
    if (n == SWI_RECENT) {
        memmove(p->recent, p->recent + 1, (SWI_RECENT - 1) * sizeof *p->recent);
        n--;
    }
    p->recent[n++] = member;
    p->s.n_recent = n;
}
