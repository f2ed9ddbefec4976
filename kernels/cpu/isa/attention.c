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

size_t SW_KERNEL(axes, attention_bytes)(const sw_attention_shape *s, int threads)
{
    return swi_slot_bytes(scratch_floats(s),
                          swi_slots(s->batch * s->heads * blocks_of(s), threads));
}

/* Lane i: the largest of the first seen[i] numbers of row i; a NaN wins. -inf where none is
 * seen. */
static vf row_max(const float *x, int64_t ld, const int64_t *seen, int rows)
{
    const vf low = vset1(-sw_float_of(0x7f800000u));
    vf r[VW];
    for (int i = 0; i < VW; i++)
        r[i] = low;
    for (int i = 0; i < rows; i++, x += ld)
        for (int64_t c = 0; c < seen[i]; c += VW) {
            const int64_t left = seen[i] - c;
            const vf v = vload(x + c);
            r[i] = vlarger(r[i], left >= VW ? v : vselect(vrange(0, left), v, low));
        }
    vtranspose(r);
    for (int half = VW / 2; half > 0; half /= 2)
        SW_UNROLL for (int i = 0; i < half; i++) r[i] = vlarger(r[i], r[i + half]);
    return r[0];
}

/* Lane i: the sum of row i, `width` numbers. */
static vf row_sum(const float *x, int64_t ld, int64_t width, int rows)
{
    float sum[VW];
    for (int i = 0; i < VW; i += 4) {
        vf r[4];
        for (int k = 0; k < 4; k++) {
            r[k] = vzero();
            for (int64_t c = 0; i + k < rows && c < width; c += VW)
                r[k] = vadd(r[k], vload(x + (i + k) * ld + c));
        }
        vsum4(sum + i, r[0], r[1], r[2], r[3]);
    }
    return vload(sum);
}

/* Rows of scores become exponentials: lane i has a number of row i. Earlier sums are scaled to
 * the new maximum; a row that sees no key keeps what it has. */
static void soften_lanes(const scratch_of_tiles *r, int64_t at, int rows, float *x,
                         const int64_t *seen, int64_t width, int64_t wide)
{
    float now[VW], shrink[VW], before[VW] = {0};
    const vf here = row_max(x, r->key_ld, seen, rows), most = vload_n(r->most + at, rows);
    vstore(now, vlarger(most, here));
    vstore(before, most);
    for (int i = 0; i < VW; i++)
        shrink[i] = sw_expf(before[i] - now[i]);
    for (int i = 0; i < rows; i++) {
        shrink[i] = seen[i] == 0 ? 1.0f : shrink[i];
        swi_row_exp(x + i * r->key_ld, now[i], seen[i], width);
    }
    const vf total = vmul(vload_n(r->total + at, rows), vload(shrink));
    vstore_n(r->total + at, vadd(total, row_sum(x, r->key_ld, width, rows)), rows);
    vstore_n(r->most + at, vload(now), rows);
    for (int i = 0; i < rows; i++) {
        float *sums = r->sums + (at + i) * wide;
        for (int64_t c = 0; shrink[i] != 1.0f && c < wide; c += VW)
            vstore(sums + c, vmul(vload(sums + c), vset1(shrink[i])));
    }
}

/* The same for the rows of a group: queries [i, i + rows), which are rows of r from `at` on. */
static void soften(const job *j, const scratch_of_tiles *r, int64_t i, int64_t at, int64_t rows,
                   int64_t j0, int64_t n, int64_t width)
{
    for (int64_t k = 0; k < rows; k += VW) {
        const int lanes = rows - k < VW ? (int)(rows - k) : VW;
        int64_t seen[VW];
        for (int q = 0; q < lanes; q++)
            seen[q] = swi_seen(j->s, i + k + q, j0, n);
        soften_lanes(r, at + k, lanes, r->scores + k * r->key_ld, seen, width,
                     swi_whole(j->s->value_size));
    }
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
        soften(j, r, i0 + g, g, rows, j0, n, width);
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

void SW_KERNEL(axes, attention)(float *y, float *lse, const sw_heads *q, const sw_heads *k,
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
