/* Attention backward. A part takes heads, one after the other. Of a head it goes over blocks of
 * keys, and for each over the blocks of queries that see it: the tile of probabilities p and
 * its gradient are recomputed from lse and the row sums d = sum(dy y),
 *
 *   dv += p^T dy,  ds = p (dy v^T - d) scale,  dk += ds^T q,  dq += ds k.
 *
 * dk and dv of a block are complete when it is left, dq of the head at its end: so each may lie
 * where k, v and q lie. */
#include "kernels/cpu/isa/attention_internal.h"
#include "kernels/cpu/isa/dense_internal.h"
#include "kernels/scalar.h"

enum { QUERIES = 64 };

typedef struct {
    const sw_attention_grads *g;
    unsigned char *scratch;
    size_t slot_bytes;
    int parts;
} job;

/* One slot, as large as the shape and the gradients need. Widths are whole vectors. Parts that
 * each head fills whole lie last: a slot has no unused end. */
typedef struct {
    float *key_rows;           /* (n, width of size), for dq, where they cannot stay in place */
    float *q_rows, *dy_rows;   /* (m, width of size) for dk, (m, width of value_size) for dv */
    float *p, *ds;             /* (m, key_ld); ds for dq and dk */
    float *dk, *dv;            /* (n, width) */
    float *dq;                 /* (queries, width of size) */
    float *d;                  /* (queries), for dq and dk */
    float *values, *keys;      /* (value_size, key_ld) for dq and dk, (size, key_ld) */
    int64_t wide, value_wide;  /* widths of size and value_size */
    int64_t key_ld;            /* columns of what has a column for each key of a block */
    int64_t image, head;       /* that it works on */
    const float *q, *k, *v;    /* of that head */
    const float *y, *dy, *lse; /* of that head; rows of y and dy are `row` apart */
    int64_t row;
} scratch_of_tiles;

/* Give the parts of a room their addresses from `at` on; returns the floats of all. makes: bits
 * as in sw_attention_grads_of. m and n are queries and keys of the first blocks. */
static int64_t furnish(scratch_of_tiles *r, float *at, const sw_attention_shape *s,
                       unsigned makes)
{
    const int64_t m = s->queries < QUERIES ? s->queries : QUERIES;
    const int64_t keys = s->keys < SWI_KEYS ? s->keys : SWI_KEYS;
    const bool dq = makes & 1u, dk = makes & 2u, dv = makes & 4u, both = dq || dk;
    int64_t n = 0;
    r->wide = swi_whole(s->size);
    r->value_wide = swi_whole(s->value_size);
    r->key_ld = swi_whole(keys);
    n += swi_lay(&r->key_rows, at, n, dq ? keys * r->wide : 0);
    n += swi_lay(&r->q_rows, at, n, dk ? m * r->wide : 0);
    n += swi_lay(&r->dy_rows, at, n, dv ? m * r->value_wide : 0);
    n += swi_lay(&r->p, at, n, m * r->key_ld);
    n += swi_lay(&r->ds, at, n, both ? m * r->key_ld : 0);
    n += swi_lay(&r->dk, at, n, dk ? keys * r->wide : 0);
    n += swi_lay(&r->dv, at, n, dv ? keys * r->value_wide : 0);
    n += swi_lay(&r->dq, at, n, dq ? s->queries * r->wide : 0);
    n += swi_lay(&r->d, at, n, both ? s->queries : 0);
    n += swi_lay(&r->values, at, n, both ? s->value_size * r->key_ld : 0);
    n += swi_lay(&r->keys, at, n, s->size * r->key_ld);
    return n;
}

size_t SW_KERNEL(axes, attention_grad_bytes)(const sw_attention_shape *s, unsigned makes,
                                             int threads)
{
    scratch_of_tiles r;
    return swi_slot_bytes(furnish(&r, NULL, s, makes), swi_slots(s->batch * s->heads, threads));
}

static unsigned makes_of(const sw_attention_grads *g)
{
    return (g->dq.p != NULL ? 1u : 0) | (g->dk.p != NULL ? 2u : 0) | (g->dv.p != NULL ? 4u : 0);
}

static void clear(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = 0.0f;
}

static void enter_head(scratch_of_tiles *r, const sw_attention_grads *g, int64_t unit)
{
    const sw_attention_shape *s = &g->s;
    r->image = unit / s->heads;
    r->head = unit % s->heads;
    r->row = s->heads * s->value_size;
    r->q = g->q.p + r->image * g->q.batch + r->head * s->size * g->q.col;
    r->k = g->k.p + r->image * g->k.batch + r->head * s->size * g->k.col;
    r->v = g->v.p + r->image * g->v.batch + r->head * s->value_size * g->v.col;
    const int64_t at = r->image * s->queries * r->row + r->head * s->value_size;
    r->y = g->dq.p != NULL || g->dk.p != NULL ? g->y + at : NULL; /* what d is made from */
    r->dy = g->dy + at;
    r->lse = g->lse + unit * s->queries;
    if (g->dq.p != NULL)
        clear(r->dq, s->queries * r->wide);
    for (int64_t i = 0; r->y != NULL && i < s->queries; i++) {
        const float *y = r->y + i * r->row, *dy = r->dy + i * r->row;
        float lane[VW] = {0}, sum = 0.0f;
        int64_t c = 0;
        for (; c + VW <= s->value_size; c += VW)
            for (int l = 0; l < VW; l++)
                lane[l] += y[c + l] * dy[c + l];
        for (int l = 0; c + l < s->value_size; l++)
            lane[l] += y[c + l] * dy[c + l];
        for (int l = 0; l < VW; l++)
            sum += lane[l];
        r->d[i] = sum;
    }
}

/* p and, where dq or dk are computed, ds of queries [i0, i0 + m) and keys [j0, j0 + n).
 * Columns that a query does not see are zero, up to whole vectors of n. */
static void make_tile(const sw_attention_grads *g, const scratch_of_tiles *r, int64_t i0,
                      int64_t m, int64_t j0, int64_t n)
{
    const sw_attention_shape *s = &g->s;
    const bool both = r->y != NULL;
    const int64_t width = swi_whole(n);
    for (int64_t at = 0; at < m; at += SWI_GROUP) {
        const int64_t rows = m - at < SWI_GROUP ? m - at : SWI_GROUP;
        const int64_t most = swi_whole(swi_seen(s, i0 + at + rows - 1, j0, n));
        swi_tile t = {.c = r->p + at * r->key_ld,
                      .ldc = r->key_ld,
                      .a = r->q + (i0 + at) * g->q.row,
                      .row = g->q.row,
                      .col = g->q.col,
                      .b = r->keys,
                      .ldb = r->key_ld,
                      .m = rows,
                      .n = most,
                      .k = s->size,
                      .factor = s->scale};
        swi_tile_product(&t);
        if (both) {
            t.c = r->ds + at * r->key_ld;
            t.a = r->dy + (i0 + at) * r->row;
            t.row = r->row;
            t.col = 1;
            t.b = r->values;
            t.k = s->value_size;
            t.factor = 1.0f;
            swi_tile_product(&t);
        }
        for (int64_t i = at; i < at + rows; i++) {
            float *p = r->p + i * r->key_ld;
            const int64_t seen = swi_seen(s, i0 + i, j0, n);
            swi_row_exp(p, r->lse[i0 + i], seen, most);
            clear(p + most, width - most);
            if (!both)
                continue;
            float *ds = r->ds + i * r->key_ld;
            const vf d = vset1(r->d[i0 + i]), scale = vset1(s->scale);
            for (int64_t c = 0; c < most; c += VW)
                vstore(ds + c, vmul(vmul(vload(p + c), vload(ds + c) - d), scale));
            clear(ds + seen, width - seen);
        }
    }
}

/* dk or dv of the block += the turned tile times rows of q or dy; queries that see none of
 * those keys are left out. */
static void add_turned(const sw_attention_shape *s, float *to, int64_t wide, const float *tile,
                       int64_t tile_ld, const float *rows, int64_t ld, int64_t i0, int64_t m,
                       int64_t j0, int64_t n)
{
    for (int64_t at = 0; at < n; at += SWI_GROUP) {
        int64_t from = s->causal ? j0 + at - i0 : 0;
        from = from < 0 ? 0 : from;
        if (from >= m)
            break;
        const swi_tile t = {.c = to + at * wide,
                            .ldc = wide,
                            .a = tile + from * tile_ld + at,
                            .row = 1,
                            .col = tile_ld,
                            .b = rows + from * ld,
                            .ldb = ld,
                            .m = n - at < SWI_GROUP ? n - at : SWI_GROUP,
                            .n = wide,
                            .k = m - from,
                            .factor = 1.0f,
                            .add = true};
        swi_tile_product(&t);
    }
}

static void add_dq(const sw_attention_shape *s, const scratch_of_tiles *r, const float *keys,
                   int64_t ld, int64_t i0, int64_t m, int64_t j0, int64_t n)
{
    for (int64_t at = 0; at < m; at += SWI_GROUP) {
        const int64_t rows = m - at < SWI_GROUP ? m - at : SWI_GROUP;
        const swi_tile t = {.c = r->dq + (i0 + at) * r->wide,
                            .ldc = r->wide,
                            .a = r->ds + at * r->key_ld,
                            .row = r->key_ld,
                            .col = 1,
                            .b = keys,
                            .ldb = ld,
                            .m = rows,
                            .n = r->wide,
                            .k = swi_seen(s, i0 + at + rows - 1, j0, n),
                            .factor = 1.0f,
                            .add = true};
        swi_tile_product(&t);
    }
}

static void put_rows(const sw_heads_out *to, int64_t at, const float *from, int64_t wide,
                     int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++) {
        float *y = to->p + at + i * to->row;
        const float *x = from + i * wide;
        for (int64_t c = 0; c < cols; c++)
            y[c] = to->accumulate ? y[c] + x[c] : x[c];
    }
}

/* Keys [j0, j0 + n) of the head against all queries that see them. */
static void key_block(const sw_attention_grads *g, const scratch_of_tiles *r, int64_t j0,
                      int64_t n)
{
    const sw_attention_shape *s = &g->s;
    const float *k = r->k + j0 * g->k.row, *keys = NULL;
    int64_t ldk = 0, ldq, ldy;
    swi_pack_turned(r->keys, r->key_ld, k, g->k.row, g->k.col, n, s->size);
    if (r->y != NULL)
        swi_pack_turned(r->values, r->key_ld, r->v + j0 * g->v.row, g->v.row, g->v.col, n,
                        s->value_size);
    if (g->dq.p != NULL)
        keys = swi_as_rows(r->key_rows, k, g->k.row, g->k.col, n, s->size, &ldk);
    if (g->dk.p != NULL)
        clear(r->dk, n * r->wide);
    if (g->dv.p != NULL)
        clear(r->dv, n * r->value_wide);
    for (int64_t i0 = s->causal ? j0 / QUERIES * QUERIES : 0; i0 < s->queries; i0 += QUERIES) {
        const int64_t m = s->queries - i0 < QUERIES ? s->queries - i0 : QUERIES;
        make_tile(g, r, i0, m, j0, n);
        if (g->dv.p != NULL) {
            const float *dy =
                swi_as_rows(r->dy_rows, r->dy + i0 * r->row, r->row, 1, m, s->value_size, &ldy);
            add_turned(s, r->dv, r->value_wide, r->p, r->key_ld, dy, ldy, i0, m, j0, n);
        }
        if (g->dk.p != NULL) {
            const float *q = swi_as_rows(r->q_rows, r->q + i0 * g->q.row, g->q.row, g->q.col, m,
                                         s->size, &ldq);
            add_turned(s, r->dk, r->wide, r->ds, r->key_ld, q, ldq, i0, m, j0, n);
        }
        if (g->dq.p != NULL)
            add_dq(s, r, keys, ldk, i0, m, j0, n);
    }
    if (g->dk.p != NULL)
        put_rows(&g->dk, r->image * g->dk.batch + j0 * g->dk.row + r->head * s->size, r->dk,
                 r->wide, n, s->size);
    if (g->dv.p != NULL)
        put_rows(&g->dv, r->image * g->dv.batch + j0 * g->dv.row + r->head * s->value_size,
                 r->dv, r->value_wide, n, s->value_size);
}

static void part(void *arg, int number)
{
    const job *j = arg;
    const sw_attention_grads *g = j->g;
    const sw_attention_shape *s = &g->s;
    scratch_of_tiles r = {.image = 0};
    (void)furnish(&r, (float *)(void *)(j->scratch + j->slot_bytes * (size_t)number), s,
                  makes_of(g));
    for (int64_t u = number; u < s->batch * s->heads; u += j->parts) {
        enter_head(&r, g, u);
        for (int64_t j0 = 0; j0 < s->keys; j0 += SWI_KEYS)
            key_block(g, &r, j0, s->keys - j0 < SWI_KEYS ? s->keys - j0 : SWI_KEYS);
        if (g->dq.p != NULL)
            put_rows(&g->dq, r.image * g->dq.batch + r.head * s->size, r.dq, r.wide, s->queries,
                     s->size);
    }
}

void SW_KERNEL(axes, attention_grad)(const sw_attention_grads *g, void *scratch,
                                     const sw_par *par)
{
    job j = {.g = g,
             .scratch = scratch,
             .slot_bytes = SW_KERNEL(axes, attention_grad_bytes)(&g->s, makes_of(g), 1),
             .parts = swi_slots(g->s.batch * g->s.heads, par->n_threads)};
    const double work = (double)g->s.queries * (double)g->s.keys * (double)g->s.size;
    vparts(par, part, &j, j.parts, work * (double)(g->s.batch * g->s.heads) >= SWI_WORTH);
}
