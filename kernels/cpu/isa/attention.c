/* Attention forward. A part takes blocks of queries; each goes over the keys in tiles, with the
 * running maximum and sum of its rows. */
#include "kernels/cpu/isa/attention_internal.h"
#include "kernels/cpu/isa/dense_internal.h"
#include "kernels/scalar.h"

enum { QUERIES = 128 }; /* rows that share a packed block of keys */

typedef struct {
    const sw_attention_shape *s;
    const sw_heads *q, *k, *v;
    float *y, *lse;
    unsigned char *scratch;
    size_t slot_bytes;
    int64_t blocks, units; /* of queries of a head; of all */
    int parts;
} job;

/* One slot, as large as the shape needs. Each part fills its keys whole, so they lie last: a
 * slot has no unused end. */
typedef struct {
    int64_t key_ld; /* of keys and scores */
    float *values;  /* (keys of a tile, value_size in whole vectors), where they cannot stay in
                       position */
    float *sums;    /* (rows, value_size in whole vectors) */
    float *scores;  /* (SWI_GROUP, key_ld) */
    float *most, *total; /* (rows) */
    float *keys;         /* (size, key_ld) */
} scratch_of_tiles;

static int64_t rows_of(const sw_attention_shape *s)
{
    return s->queries < QUERIES ? s->queries : QUERIES;
}

/* Keys of the first tile: no later one has more, and each block of queries sees it whole. */
static int64_t tile_keys(const sw_attention_shape *s)
{
    const int64_t seen = swi_seen(s, rows_of(s) - 1, 0, s->keys);
    return seen < SWI_KEYS ? seen : SWI_KEYS;
}

/* Give the parts of a room their addresses from `at` on; returns the floats of all. */
static int64_t furnish(scratch_of_tiles *r, float *at, const sw_attention_shape *s)
{
    const int64_t wide = swi_whole(s->value_size), rows = rows_of(s);
    int64_t n = 0;
    r->key_ld = swi_whole(tile_keys(s));
    n += swi_lay(&r->values, at, n, tile_keys(s) * wide);
    n += swi_lay(&r->sums, at, n, rows * wide);
    n += swi_lay(&r->scores, at, n, (rows < SWI_GROUP ? rows : SWI_GROUP) * r->key_ld);
    n += swi_lay(&r->most, at, n, rows);
    n += swi_lay(&r->total, at, n, rows);
    n += swi_lay(&r->keys, at, n, s->size * r->key_ld);
    return n;
}

static int64_t scratch_floats(const sw_attention_shape *s)
{
    scratch_of_tiles r;
    return furnish(&r, NULL, s);
}

static int64_t blocks_of(const sw_attention_shape *s)
{
    return (s->queries + QUERIES - 1) / QUERIES;
}

size_t swi_attention_bytes(const sw_attention_shape *s, int threads)
{
    return swi_slot_bytes(scratch_floats(s),
                          swi_slots(s->batch * s->heads * blocks_of(s), threads));
}

/* The largest of n; a NaN wins. */
static float row_max(const float *x, int64_t n)
{
    const vf low = vset1(-sw_float_of(0x7f800000u));
    vf best = low;
    float lane[VW];
    for (int64_t c = 0; c < n; c += VW) {
        const vf v = vselect(vrange(0, n - c < VW ? n - c : VW), vload(x + c), low);
        best = vselect(vwins(v, best), v, best);
    }
    vstore(lane, best);
    for (int half = VW / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] = lane[i + half] > lane[i] || lane[i + half] != lane[i + half]
                          ? lane[i + half]
                          : lane[i];
    return lane[0];
}

static float row_sum(const float *x, int64_t width)
{
    vf sum = vzero();
    float four[4];
    for (int64_t c = 0; c < width; c += VW)
        sum = vadd(sum, vload(x + c));
    vsum4(four, sum, sum, sum, sum);
    return four[0];
}

/* One row of scores, n of them seen, becomes exponentials; what was summed before is brought to
 * the new maximum. */
static void soften(float *x, int64_t n, int64_t width, float *most, float *total, float *sums,
                   int64_t wide)
{
    if (n == 0) {
        swi_row_exp(x, 0.0f, 0, width);
        return;
    }
    const float here = row_max(x, n);
    const float now = here > *most || here != here ? here : *most;
    const float shrink = sw_expf(*most - now);
    swi_row_exp(x, now, n, width);
    *total = *total * shrink + row_sum(x, width);
    *most = now;
    for (int64_t c = 0; shrink != 1.0f && c < wide; c++)
        sums[c] *= shrink;
}

/* Queries [i0, i0 + m) against the packed keys [j0, j0 + n). */
static void tile(const job *j, const scratch_of_tiles *r, const float *q, const float *values,
                 int64_t ldv, int64_t i0, int64_t m, int64_t j0, int64_t n)
{
    const sw_attention_shape *s = j->s;
    const int64_t wide = swi_whole(s->value_size);
    for (int64_t g = 0; g < m; g += SWI_GROUP) {
        const int64_t rows = m - g < SWI_GROUP ? m - g : SWI_GROUP;
        const int64_t seen = swi_seen(s, i0 + g + rows - 1, j0, n), width = swi_whole(seen);
        if (seen == 0)
            continue;
        const swi_tile scores = {.c = r->scores,
                                 .ldc = r->key_ld,
                                 .a = q + g * j->q->row,
                                 .row = j->q->row,
                                 .col = j->q->col,
                                 .b = r->keys,
                                 .ldb = r->key_ld,
                                 .m = rows,
                                 .n = width,
                                 .k = s->size,
                                 .factor = s->scale};
        swi_tile_product(&scores);
        for (int64_t i = 0; i < rows; i++)
            soften(r->scores + i * r->key_ld, swi_seen(s, i0 + g + i, j0, n), width,
                   r->most + g + i, r->total + g + i, r->sums + (g + i) * wide, wide);
        const swi_tile sums = {.c = r->sums + g * wide,
                               .ldc = wide,
                               .a = r->scores,
                               .row = r->key_ld,
                               .col = 1,
                               .b = values,
                               .ldb = ldv,
                               .m = rows,
                               .n = wide,
                               .k = seen,
                               .factor = 1.0f,
                               .add = true};
        swi_tile_product(&sums);
    }
}

static void unit(const job *j, const scratch_of_tiles *r, int64_t u)
{
    const sw_attention_shape *s = j->s;
    const int64_t i0 = u % j->blocks * QUERIES, head = u / j->blocks % s->heads;
    const int64_t image = u / j->blocks / s->heads;
    const int64_t m = s->queries - i0 < QUERIES ? s->queries - i0 : QUERIES;
    const int64_t keys = swi_seen(s, i0 + m - 1, 0, s->keys), wide = swi_whole(s->value_size);
    const float *q =
        j->q->p + image * j->q->batch + i0 * j->q->row + head * s->size * j->q->col;
    const float *k = j->k->p + image * j->k->batch + head * s->size * j->k->col;
    const float *v = j->v->p + image * j->v->batch + head * s->value_size * j->v->col;
    for (int64_t i = 0; i < m; i++) {
        r->most[i] = -sw_float_of(0x7f800000u);
        r->total[i] = 0.0f;
    }
    for (int64_t i = 0; i < m * wide; i++)
        r->sums[i] = 0.0f;
    for (int64_t j0 = 0; j0 < keys; j0 += SWI_KEYS) {
        const int64_t n = keys - j0 < SWI_KEYS ? keys - j0 : SWI_KEYS;
        int64_t ldv;
        swi_pack_turned(r->keys, r->key_ld, k + j0 * j->k->row, j->k->row, j->k->col, n,
                        s->size);
        const float *values = swi_as_rows(r->values, v + j0 * j->v->row, j->v->row, j->v->col,
                                          n, s->value_size, &ldv);
        tile(j, r, q, values, ldv, i0, m, j0, n);
    }
    float *lse = j->lse != NULL ? j->lse + (image * s->heads + head) * s->queries + i0 : NULL;
    const int64_t row = s->heads * s->value_size;
    for (int64_t i = 0; i < m; i++) {
        float *y = j->y + (image * s->queries + i0 + i) * row + head * s->value_size;
        const float inverse = 1.0f / r->total[i];
        for (int64_t c = 0; c < s->value_size; c++)
            y[c] = r->sums[i * wide + c] * inverse;
        if (lse != NULL)
            lse[i] = sw_row_lse(r->most[i], r->total[i]);
    }
}

static void part(void *arg, int number)
{
    const job *j = arg;
    scratch_of_tiles r;
    (void)furnish(&r, (float *)(void *)(j->scratch + j->slot_bytes * (size_t)number), j->s);
    for (int64_t u = number; u < j->units; u += j->parts)
        unit(j, &r, u);
}

void swi_attention(float *y, float *lse, const sw_heads *q, const sw_heads *k,
                   const sw_heads *v, const sw_attention_shape *s, void *scratch,
                   const sw_par *par)
{
    job j = {.s = s,
             .q = q,
             .k = k,
             .v = v,
             .y = y,
             .lse = lse,
             .scratch = scratch,
             .slot_bytes = swi_slot_bytes(scratch_floats(s), 1),
             .blocks = blocks_of(s)};
    j.units = s->batch * s->heads * j.blocks;
    j.parts = swi_slots(j.units, par->n_threads);
    const double work = (double)s->queries * (double)s->keys * (double)s->size;
    vparts(par, part, &j, j.parts, work * (double)(s->batch * s->heads) >= SWI_WORTH);
}
