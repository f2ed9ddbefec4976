/* Attention, forward and backward.
 *
 * Forward, a part takes blocks of queries; each goes over the keys in tiles, with the running
 * maximum and sum of its rows. Queries that begin at one key go together, and their tiles are
 * counted from it: so a document has the bits that it has alone, wherever it lies.
 *
 * Backward, a part takes heads, one after the other. Of a head it goes over blocks of keys, and
 * for each over the blocks of queries that see it: the tile of probabilities p and its gradient
 * are recomputed from lse and the row sums d = sum(dy y),
 *
 *   dv += p^T dy,  ds = p (dy v^T - d) scale,  dk += ds^T q,  dq += ds k.
 *
 * dk and dv of a block are complete when it is left, dq of the head at its end: so each may lie
 * where k, v and q lie.
 *
 * Where several heads of q share one of k and v, dk and dv come first: a part takes blocks of
 * keys, each with all these heads in their order. Then dq, head by head as above. p and ds are
 * made twice, which is two products of five; sums that wait for other heads would take more
 * scratch, or fewer parts at one time. */
#include "kernels/cpu/isa/dense_internal.h"
#include "kernels/cpu/isa/lanes.h"
#include "kernels/halves.h"
#include "kernels/scalar.h"

#if SW_ISA_ID == 2
#define PANEL 4 /* vectors */
#else
#define PANEL 2
#endif

enum {
    LANES = 16,    /* of a sum, whatever the width of a vector */
    KEYS = 64,     /* of a tile, side by side */
    GROUP = 12,    /* rows whose products run together */
    QUERIES = 128, /* rows that share a packed block of keys forward, */
    QUERIES_BACK = 64
};

static int64_t whole(int64_t n) /* vectors' worth of lanes */
{
    return (n + VW - 1) / VW * VW;
}

/* A matrix on somebody's bytes: (i, k) is p[i * row + k * col]. */
typedef struct {
    const float *p;
    int64_t row, col;
} view;

/* The same where it may be bf16. */
typedef struct {
    const void *p;
    int64_t row, col;
    bool half;
} source;

static const void *element(const void *p, int64_t at, bool half)
{
    return (const char *)p + at * (half ? (int64_t)sizeof(uint16_t) : (int64_t)sizeof(float));
}

static source source_row(source s, int64_t i)
{
    s.p = element(s.p, i * s.row, s.half);
    return s;
}

/* The rows from `row` on of one head of an image. */
static source source_of(const sw_heads *h, bool half, int64_t image, int64_t head, int64_t size,
                        int64_t row)
{
    const int64_t at = image * h->batch + row * h->row + head * size * h->col;
    return (source){element(h->p, at, half), h->row, h->col, half};
}

/* Its numbers: where they are, or widened into `room`. */
static view widened(float *room, source s, int64_t rows, int64_t cols)
{
    if (!s.half)
        return (view){s.p, s.row, s.col};
    for (int64_t r = 0; r < rows; r++) {
        const uint16_t *x = element(s.p, r * s.row, true);
        float *to = room + r * cols;
        if (s.col == 1)
            for (int64_t c = 0; c < cols; c++)
                to[c] = sw_bf16_widen(x[c]);
        else
            for (int64_t c = 0; c < cols; c++)
                to[c] = sw_bf16_widen(x[c * s.col]);
    }
    return (view){room, cols, 1};
}

static view from_row(view v, int64_t i)
{
    v.p += i * v.row;
    return v;
}

/* ---- products: register blocks of rows by vectors, all of k at once ---------------------- */

/* C (m, n) = factor A B, or C += factor A B: n a multiple of VW; rows of B and C side by side.
 */
typedef struct {
    float *c;
    int64_t ldc;
    view a;
    const float *b;
    int64_t ldb, m, n, k;
    float factor;
    bool add;
} product;

/* mr rows by nv vectors from column j on; mr and nv are constants. */
SW_VEC_FN void block(const product *t, int64_t i, int64_t j, int mr, int nv)
{
    vf acc[GROUP][PANEL];
    SW_UNROLL
    for (int r = 0; r < mr; r++)
        SW_UNROLL
    for (int v = 0; v < nv; v++)
        acc[r][v] = vzero();
    const float *a = t->a.p + i * t->a.row, *b = t->b + j;
    const int64_t row = t->a.row, col = t->a.col, ldb = t->ldb;
    for (int64_t k = 0; k < t->k; k++) {
        vf x[PANEL];
        SW_UNROLL
        for (int v = 0; v < nv; v++)
            x[v] = vload(b + v * VW);
        SW_UNROLL
        for (int r = 0; r < mr; r++) {
            const vf y = vset1(a[r * row]);
            SW_UNROLL
            for (int v = 0; v < nv; v++)
                acc[r][v] = vfma(y, x[v], acc[r][v]);
        }
        a += col;
        b += ldb;
    }
    const vf factor = vset1(t->factor);
    SW_UNROLL
    for (int r = 0; r < mr; r++)
        SW_UNROLL
    for (int v = 0; v < nv; v++) {
        float *c = t->c + (i + r) * t->ldc + j + v * VW;
        const vf y = vmul(acc[r][v], factor);
        vstore(c, t->add ? vadd(vload(c), y) : y);
    }
}

/* All rows of nv vectors; narrow ones take more rows, to keep enough sums in flight. */
SW_VEC_FN void columns(const product *t, int64_t j, int nv)
{
    int64_t i = 0;
    for (; 2 * nv <= PANEL && t->m - i >= 12; i += 12)
        block(t, i, j, 12, nv);
    for (; t->m - i >= 6; i += 6)
        block(t, i, j, 6, nv);
    for (; t->m - i >= 4; i += 4)
        block(t, i, j, 4, nv);
    for (; t->m - i >= 2; i += 2)
        block(t, i, j, 2, nv);
    for (; i < t->m; i++)
        block(t, i, j, 1, nv);
}

#define DEFINE_COLUMNS(nv)                                                                     \
    static void columns_##nv(const product *t, int64_t j)                                      \
    {                                                                                          \
        columns(t, j, nv);                                                                     \
    }
DEFINE_COLUMNS(1)
DEFINE_COLUMNS(2)
#if PANEL == 4
DEFINE_COLUMNS(4)
#endif

static void multiply(float *c, int64_t ldc, view a, const float *b, int64_t ldb, int64_t m,
                     int64_t n, int64_t k, float factor, bool add)
{
    const product p = {c, ldc, a, b, ldb, m, n, k, factor, add}, *t = &p;
    int64_t j = 0;
#if PANEL == 4
    for (; t->n - j >= 4 * VW; j += 4 * VW)
        columns_4(t, j);
#endif
    for (; t->n - j >= 2 * VW; j += 2 * VW)
        columns_2(t, j);
    for (; j < t->n; j += VW)
        columns_1(t, j);
}

/* ---- packing ----------------------------------------------------------------------------- */

/* B of a product over rows of head data: in place where rows are whole vectors, else packed
 * into `room`, with zeros up to whole vectors. *ld: between its rows. */
static const float *as_rows(float *room, view from, int64_t rows, int64_t cols, int64_t *ld)
{
    if (from.col == 1 && cols % VW == 0) {
        *ld = from.row;
        return from.p;
    }
    *ld = whole(cols);
    const int64_t width = *ld;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++)
            room[r * width + c] = from.p[r * from.row + c * from.col];
        for (int64_t c = cols; c < width; c++)
            room[r * width + c] = 0.0f;
    }
    return room;
}

/* Rows [r, r + VW), n of which exist. */
static void turn(float *to, int64_t ld, view v, int64_t n, int64_t cols)
{
    const float *from = v.p;
    const int64_t row = v.row, col = v.col;
    int64_t c = 0;
    for (; col == 1 && c + VW <= cols; c += VW) {
        vf x[VW];
        for (int i = 0; i < VW; i++)
            x[i] = i < n ? vload(from + i * row + c) : vzero();
        vtranspose(x);
        for (int i = 0; i < VW; i++)
            vstore(to + (c + i) * ld, x[i]);
    }
    for (; c < cols; c++)
        for (int i = 0; i < VW; i++)
            to[c * ld + i] = i < n ? from[i * row + c * col] : 0.0f;
}

/* to (cols, ld): column r is row r of `from`; zeros up to whole vectors of rows. */
static void pack_turned(float *to, int64_t ld, view from, int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r += VW)
        turn(to + r, ld, from_row(from, r), least(rows - r, VW), cols);
}

/* x = e^(x - less), and zeros in n..width; width a multiple of VW. Lanes past n are computed
 * too: no row ends in single elements. */
static __attribute__((noinline)) void row_exp(float *x, float less, int64_t n, int64_t width)
{
    for (int64_t c = 0; c < width; c += VW)
        for (int i = 0; i < VW; i++)
            x[c + i] = sw_expf(x[c + i] - less);
    for (int64_t c = n; c < width; c++)
        x[c] = 0.0f;
}

/* ---- parts: each runs in a slot of scratch of its own ------------------------------------ */
static int slots(int64_t units, int threads)
{
    return units < 1 ? 1 : (int)least(units, threads);
}

/* Floats of one slot to bytes of all. */
static size_t slot_bytes(int64_t floats, int slots)
{
    return ((size_t)floats * sizeof(float) + 63) / 64 * 64 * (size_t)slots;
}

/* A part of a slot: `to` is `floats` floats that begin n floats after `at`; NULL where `at`
 * is. Returns floats, rounded up to whole lines of 64 bytes, so that all parts begin on one. */
static int64_t lay(float **to, float *at, int64_t n, int64_t floats)
{
    *to = at != NULL ? at + n : NULL;
    return (floats + 15) / 16 * 16;
}

/* Keys of the block from j0 on, n of them, up to the last that query i sees. */
static int64_t seen_of(const sw_attention_shape *s, int64_t i, int64_t j0, int64_t n)
{
    const int64_t seen = s->causal ? s->past + i + 1 - j0 : n;
    return seen < 0 ? 0 : least(seen, n);
}

/* The first key that query i of an image sees. */
static int64_t first_of(const sw_attention_shape *s, int64_t image, int64_t i)
{
    return s->first == NULL
               ? 0
               : least(s->first[image * s->queries + i], seen_of(s, i, 0, s->keys) - 1);
}

/* ---- forward ----------------------------------------------------------------------------- */

typedef struct {
    const sw_attention_shape *s;
    const sw_heads *q, *k, *v;
    void *y;
    float *lse;
    unsigned char *scratch;
    size_t slot_bytes;
    int64_t blocks, units; /* of queries of a head; of all */
    int parts;
} forward_job;

/* One slot, as large as the shape needs. Each part fills its keys whole, so they lie last: a
 * slot has no unused end. */
typedef struct {
    int64_t key_ld; /* of keys and scores */
    float *values;  /* (keys of a tile, value_size in whole vectors), where they cannot stay in
                       position */
    float *sums;    /* (rows, value_size in whole vectors) */
    float *scores;  /* (GROUP, key_ld) */
    float *most, *total; /* (rows) */
    float *q, *k, *v;    /* widened: queries of a block, keys and values of a tile */
    float *keys;         /* (size, key_ld) */
} forward_room;

/* Give the parts of a room their addresses from `at` on; returns the floats of all. Unless it
 * is counted from other keys, the first tile has the most, and each block of queries sees it
 * whole. */
static int64_t furnish(forward_room *r, float *at, const sw_attention_shape *s)
{
    const int64_t wide = whole(s->value_size), rows = least(s->queries, QUERIES);
    const int64_t keys = least(s->has_past ? s->keys : seen_of(s, rows - 1, 0, s->keys), KEYS);
    int64_t n = 0;
    r->key_ld = whole(keys);
    n += lay(&r->values, at, n, keys * wide);
    n += lay(&r->sums, at, n, rows * wide);
    n += lay(&r->scores, at, n, least(rows, GROUP) * r->key_ld);
    n += lay(&r->most, at, n, rows);
    n += lay(&r->total, at, n, rows);
    n += lay(&r->q, at, n, s->half ? rows * s->size : 0);
    n += lay(&r->k, at, n, s->half ? keys * s->size : 0);
    n += lay(&r->v, at, n, s->half ? keys * s->value_size : 0);
    n += lay(&r->keys, at, n, s->size * r->key_ld);
    return n;
}

/* The job without its operands: cuts, and bytes of a slot. */
static forward_job plan(const sw_attention_shape *s, int threads)
{
    forward_room r;
    forward_job j = {.s = s, .slot_bytes = slot_bytes(furnish(&r, NULL, s), 1)};
    j.blocks = (s->queries + QUERIES - 1) / QUERIES;
    j.units = s->batch * s->heads * j.blocks;
    j.parts = slots(j.units, threads);
    return j;
}

size_t SW_KERNEL(axes, attention_bytes)(const sw_attention_shape *s, int threads)
{
    const forward_job j = plan(s, threads);
    return j.slot_bytes * (size_t)j.parts;
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

/* Lane i: the sum of row i, `width` numbers, of which each sixteenth is added to the same. */
static vf row_sum(const float *x, int64_t ld, int64_t width, int rows)
{
    float sum[VW] = {0}, four[4];
    for (int i = 0; i < VW; i += 4)
        for (int lane = 0; lane < LANES; lane += VW) {
            vf r[4];
            for (int k = 0; k < 4; k++) {
                r[k] = vzero();
                for (int64_t c = lane; i + k < rows && c < width; c += LANES)
                    r[k] = vadd(r[k], vload(x + (i + k) * ld + c));
            }
            vsum4(four, r[0], r[1], r[2], r[3]);
            for (int k = 0; k < 4; k++)
                sum[i + k] += four[k];
        }
    return vload(sum);
}

/* Rows of scores become exponentials: lane i has a number of row i. Earlier sums are scaled to
 * the new maximum; a row that sees no key keeps what it has. */
static void soften_lanes(const forward_room *r, int64_t at, int rows, float *x,
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
        row_exp(x + i * r->key_ld, now[i], seen[i], width);
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
static void soften(const forward_job *j, const forward_room *r, int64_t i, int64_t at,
                   int64_t rows, int64_t j0, int64_t n, int64_t width)
{
    for (int64_t k = 0; k < rows; k += VW) {
        const int lanes = (int)least(rows - k, VW);
        int64_t seen[VW];
        for (int q = 0; q < lanes; q++)
            seen[q] = seen_of(j->s, i + k + q, j0, n);
        soften_lanes(r, at + k, lanes, r->scores + k * r->key_ld, seen, width,
                     whole(j->s->value_size));
    }
}

/* Queries [i0, i0 + m) against the packed keys [j0, j0 + n). */
static void tile(const forward_job *j, const forward_room *r, view q, const float *values,
                 int64_t ldv, int64_t i0, int64_t m, int64_t j0, int64_t n)
{
    const sw_attention_shape *s = j->s;
    const int64_t wide = whole(s->value_size);
    for (int64_t g = 0; g < m; g += GROUP) {
        const int64_t rows = least(m - g, GROUP);
        const int64_t seen = seen_of(s, i0 + g + rows - 1, j0, n), width = whole(seen);
        if (seen == 0)
            continue;
        multiply(r->scores, r->key_ld, from_row(q, g), r->keys, r->key_ld, rows, width, s->size,
                 s->scale, false);
        soften(j, r, i0 + g, g, rows, j0, n, width);
        multiply(r->sums + g * wide, wide, (view){r->scores, r->key_ld, 1}, values, ldv, rows,
                 wide, seen, 1.0f, true);
    }
}

/* Queries [i0, i0 + m) of a head, which begin at the key `first`. */
static void go_over_keys(const forward_job *j, const forward_room *r, int64_t image,
                         int64_t head, int64_t i0, int64_t m, int64_t first)
{
    const sw_attention_shape *s = j->s;
    const int64_t keys = seen_of(s, i0 + m - 1, 0, s->keys), wide = whole(s->value_size);
    const int64_t of_kv = head / (s->heads / s->heads_kv);
    const view q =
        widened(r->q, source_of(j->q, s->half, image, head, s->size, i0), m, s->size);
    const source k = source_of(j->k, s->half, image, of_kv, s->size, 0);
    const source v = source_of(j->v, s->half, image, of_kv, s->value_size, 0);
    for (int64_t i = 0; i < m; i++) {
        r->most[i] = -sw_float_of(0x7f800000u);
        r->total[i] = 0.0f;
    }
    for (int64_t i = 0; i < m * wide; i++)
        r->sums[i] = 0.0f;
    for (int64_t j0 = first; j0 < keys; j0 += KEYS) {
        const int64_t n = least(keys - j0, KEYS);
        int64_t ldv;
        pack_turned(r->keys, r->key_ld, widened(r->k, source_row(k, j0), n, s->size), n,
                    s->size);
        const float *values =
            as_rows(r->values, widened(r->v, source_row(v, j0), n, s->value_size), n,
                    s->value_size, &ldv);
        tile(j, r, q, values, ldv, i0, m, j0, n);
    }
    float *lse = j->lse != NULL ? j->lse + (image * s->heads + head) * s->queries + i0 : NULL;
    const int64_t row = s->heads * s->value_size;
    for (int64_t i = 0; i < m; i++) {
        const int64_t at = (image * s->queries + i0 + i) * row + head * s->value_size;
        const float inverse = 1.0f / r->total[i];
        float *y = (float *)j->y + at;
        uint16_t *half = (uint16_t *)j->y + at;
        if (s->half)
            for (int64_t c = 0; c < s->value_size; c++)
                half[c] = sw_bf16_round(r->sums[i * wide + c] * inverse);
        else
            for (int64_t c = 0; c < s->value_size; c++)
                y[c] = r->sums[i * wide + c] * inverse;
        if (lse != NULL)
            lse[i] = sw_row_lse(r->most[i], r->total[i]);
    }
}

static void unit(const forward_job *j, const forward_room *r, int64_t u)
{
    const sw_attention_shape *s = j->s;
    const int64_t head = u / j->blocks % s->heads, image = u / j->blocks / s->heads;
    int64_t i = u % j->blocks * QUERIES;
    const int64_t end = i + least(s->queries - i, QUERIES);
    while (i < end) {
        const int64_t first = first_of(s, image, i);
        int64_t next = s->first == NULL ? end : i + 1;
        while (next < end && first_of(s, image, next) == first)
            next++;
        go_over_keys(j, r, image, head, i, next - i, first);
        i = next;
    }
}

static void forward_part(void *arg, int number)
{
    const forward_job *j = arg;
    forward_room r;
    (void)furnish(&r, (float *)(void *)(j->scratch + j->slot_bytes * (size_t)number), j->s);
    for (int64_t u = number; u < j->units; u += j->parts)
        unit(j, &r, u);
}

void SW_KERNEL(axes, attention)(float *y, float *lse, const sw_heads *q, const sw_heads *k,
                                const sw_heads *v, const sw_attention_shape *s, void *scratch,
                                const sw_par *par)
{
    forward_job j = plan(s, par->n_threads);
    j.q = q, j.k = k, j.v = v;
    j.y = y, j.lse = lse, j.scratch = scratch;
    const double work = (double)s->queries * (double)s->keys * (double)s->size;
    vparts(par, forward_part, &j, j.parts, work * (double)(s->batch * s->heads) >= SWI_WORTH);
}

/* ---- backward ---------------------------------------------------------------------------- */

typedef struct {
    const sw_attention_grads *g;
    unsigned char *scratch;
    size_t slot_bytes;
    int64_t blocks; /* of keys of a head */
    int parts;
} backward_job;

/* One slot, as large as the shape and the gradients need. Widths are whole vectors. Parts that
 * each head fills whole lie last: a slot has no unused end. */
typedef struct {
    float *key_rows;          /* (n, width of size), for dq, where they cannot stay in place */
    float *q_rows, *dy_rows;  /* (m, width of size) for dk, (m, width of value_size) for dv */
    float *p, *ds;            /* (m, key_ld); ds for dq and dk */
    float *dk, *dv;           /* (n, width) */
    float *dq;                /* (queries, width of size) */
    float *d;                 /* (queries), for dq and dk */
    float *q_wide, *dy_wide;  /* widened: of a block of queries; y of it too, before them */
    float *k_wide, *v_wide;   /* of a block of keys */
    float *values, *keys;     /* (value_size, key_ld) for dq and dk, (size, key_ld) */
    int64_t wide, value_wide; /* widths of size and value_size */
    int64_t key_ld;           /* columns of what has a column for each key of a block */
    int64_t image, head;      /* that it works on */
    int64_t of_kv;            /* the head of k and v */
    source q, k, v, dy;       /* of that head */
    view q_block, dy_block;   /* of the queries that it works on */
    const float *lse;
    bool both; /* ds is made, for dq or dk */
} backward_room;

/* Give the parts of a room their addresses from `at` on; returns the floats of all. makes: bits
 * as in sw_attention_grads_of. m and n are queries and keys of the first blocks. */
static int64_t furnish_back(backward_room *r, float *at, const sw_attention_shape *s,
                            unsigned makes)
{
    const int64_t m = least(s->queries, QUERIES_BACK), keys = least(s->keys, KEYS);
    const bool dq = makes & 1u, dk = makes & 2u, dv = makes & 4u, both = dq || dk;
    int64_t n = 0;
    r->wide = whole(s->size);
    r->value_wide = whole(s->value_size);
    r->key_ld = whole(keys);
    n += lay(&r->key_rows, at, n, dq ? keys * r->wide : 0);
    n += lay(&r->q_rows, at, n, dk ? m * r->wide : 0);
    n += lay(&r->dy_rows, at, n, dv ? m * r->value_wide : 0);
    n += lay(&r->p, at, n, m * r->key_ld);
    n += lay(&r->ds, at, n, both ? m * r->key_ld : 0);
    n += lay(&r->dk, at, n, dk ? keys * r->wide : 0);
    n += lay(&r->dv, at, n, dv ? keys * r->value_wide : 0);
    n += lay(&r->dq, at, n, dq ? s->queries * r->wide : 0);
    n += lay(&r->d, at, n, both ? s->queries : 0);
    n += lay(&r->q_wide, at, n,
             s->half ? m * (s->size > s->value_size ? s->size : s->value_size) : 0);
    n += lay(&r->dy_wide, at, n, s->half ? m * s->value_size : 0);
    n += lay(&r->k_wide, at, n, s->half ? keys * s->size : 0);
    n += lay(&r->v_wide, at, n, s->half ? keys * s->value_size : 0);
    n += lay(&r->values, at, n, both ? s->value_size * r->key_ld : 0);
    n += lay(&r->keys, at, n, s->size * r->key_ld);
    return n;
}

size_t SW_KERNEL(axes, attention_grad_bytes)(const sw_attention_shape *s, unsigned makes,
                                             int threads)
{
    backward_room r;
    int64_t floats = furnish_back(&r, NULL, s, makes);
    if (s->heads_kv < s->heads) { /* dq and the others use it one after the other */
        const int64_t dq = furnish_back(&r, NULL, s, makes & 1u);
        floats = furnish_back(&r, NULL, s, makes & 6u);
        floats = (makes & 1u) != 0 && dq > floats ? dq : floats;
    }
    return slot_bytes(floats, slots(s->batch * s->heads, threads));
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

static void enter_head(backward_room *r, const sw_attention_grads *g, int64_t unit)
{
    const sw_attention_shape *s = &g->s;
    r->image = unit / s->heads;
    r->head = unit % s->heads;
    r->of_kv = r->head / (s->heads / s->heads_kv);
    r->q = source_of(&g->q, s->half, r->image, r->head, s->size, 0);
    r->k = source_of(&g->k, s->half, r->image, r->of_kv, s->size, 0);
    r->v = source_of(&g->v, s->half, r->image, r->of_kv, s->value_size, 0);
    const int64_t row = s->heads * s->value_size;
    const int64_t at = r->image * s->queries * row + r->head * s->value_size;
    r->both = g->dq.p != NULL || g->dk.p != NULL;
    r->dy = (source){element(g->dy, at, s->half), row, 1, s->half};
    r->lse = g->lse + unit * s->queries;
    if (g->dq.p != NULL)
        clear(r->dq, s->queries * r->wide);
    for (int64_t i = 0; r->both && i < s->queries; i++) { /* d is made from y */
        const source from = {element(g->y, at + i * row, s->half), row, 1, s->half};
        const float *y = widened(r->q_wide, from, 1, s->value_size).p;
        const float *dy = widened(r->dy_wide, source_row(r->dy, i), 1, s->value_size).p;
        float lane[LANES] = {0}, sum = 0.0f;
        int64_t c = 0;
        for (; c + LANES <= s->value_size; c += LANES)
            for (int l = 0; l < LANES; l++)
                lane[l] += y[c + l] * dy[c + l];
        for (int l = 0; c + l < s->value_size; l++)
            lane[l] += y[c + l] * dy[c + l];
        for (int l = 0; l < LANES; l++)
            sum += lane[l];
        r->d[i] = sum;
    }
}

/* Does a query of [i, i + m) see a key of the block from j0 on? */
static bool meet(const sw_attention_shape *s, int64_t image, int64_t i, int64_t m, int64_t j0,
                 int64_t n)
{
    for (int64_t end = i + m; i < end; i++)
        if (first_of(s, image, i) < j0 + seen_of(s, i, j0, n))
            return true;
    return false;
}

/* p and, where dq or dk are computed, ds of queries [i0, i0 + m) and keys [j0, j0 + n).
 * Columns that a query does not see are zero, up to whole vectors of n. */
static void make_tile(const sw_attention_grads *g, const backward_room *r, int64_t i0,
                      int64_t m, int64_t j0, int64_t n)
{
    const sw_attention_shape *s = &g->s;
    const bool both = r->both;
    const int64_t width = whole(n);
    for (int64_t at = 0; at < m; at += GROUP) {
        const int64_t rows = least(m - at, GROUP);
        const int64_t most = whole(seen_of(s, i0 + at + rows - 1, j0, n));
        if (s->first != NULL && !meet(s, r->image, i0 + at, rows, j0, n)) {
            clear(r->p + at * r->key_ld, rows * r->key_ld);
            if (both)
                clear(r->ds + at * r->key_ld, rows * r->key_ld);
            continue;
        }
        multiply(r->p + at * r->key_ld, r->key_ld, from_row(r->q_block, at), r->keys, r->key_ld,
                 rows, most, s->size, s->scale, false);
        if (both)
            multiply(r->ds + at * r->key_ld, r->key_ld, from_row(r->dy_block, at), r->values,
                     r->key_ld, rows, most, s->value_size, 1.0f, false);
        for (int64_t i = at; i < at + rows; i++) {
            float *p = r->p + i * r->key_ld;
            const int64_t seen = seen_of(s, i0 + i, j0, n);
            const int64_t before = least(first_of(s, r->image, i0 + i) - j0, most);
            row_exp(p, r->lse[i0 + i], seen, most);
            clear(p, before);
            clear(p + most, width - most);
            if (!both)
                continue;
            float *ds = r->ds + i * r->key_ld;
            const vf d = vset1(r->d[i0 + i]), scale = vset1(s->scale);
            for (int64_t c = 0; c < most; c += VW)
                vstore(ds + c, vmul(vmul(vload(p + c), vload(ds + c) - d), scale));
            clear(ds, before);
            clear(ds + seen, width - seen);
        }
    }
}

/* dk or dv of the block += the turned tile times rows of q or dy; queries that see none of
 * those keys are left out. */
static void add_turned(const sw_attention_shape *s, float *to, int64_t wide,
                       const float *tile_of, int64_t tile_ld, const float *rows, int64_t ld,
                       int64_t i0, int64_t m, int64_t j0, int64_t n)
{
    for (int64_t at = 0; at < n; at += GROUP) {
        int64_t from = s->causal ? j0 + at - s->past - i0 : 0;
        from = from < 0 ? 0 : from;
        if (from >= m)
            break;
        multiply(to + at * wide, wide, (view){tile_of + from * tile_ld + at, 1, tile_ld},
                 rows + from * ld, ld, least(n - at, GROUP), wide, m - from, 1.0f, true);
    }
}

static void add_dq(const sw_attention_shape *s, const backward_room *r, const float *keys,
                   int64_t ld, int64_t i0, int64_t m, int64_t j0, int64_t n)
{
    for (int64_t at = 0; at < m; at += GROUP) {
        const int64_t rows = least(m - at, GROUP);
        multiply(r->dq + (i0 + at) * r->wide, r->wide,
                 (view){r->ds + at * r->key_ld, r->key_ld, 1}, keys, ld, rows, r->wide,
                 seen_of(s, i0 + at + rows - 1, j0, n), 1.0f, true);
    }
}

static void put_rows(const sw_heads_out *to, int64_t at, const float *from, int64_t wide,
                     int64_t rows, int64_t cols, bool is_half)
{
    for (int64_t i = 0; i < rows; i++) {
        float *y = to->p + at + i * to->row;
        uint16_t *half = (uint16_t *)(void *)to->p + at + i * to->row;
        const float *x = from + i * wide;
        for (int64_t c = 0; c < cols && is_half; c++)
            half[c] = sw_bf16_round(to->accumulate ? sw_bf16_widen(half[c]) + x[c] : x[c]);
        for (int64_t c = 0; c < cols && !is_half; c++)
            y[c] = to->accumulate ? y[c] + x[c] : x[c];
    }
}

/* Of the head against the keys [j0, j0 + n): all queries that see them. keys: as rows. */
static void add_queries(const sw_attention_grads *g, backward_room *r, const float *keys,
                        int64_t ldk, int64_t j0, int64_t n)
{
    const sw_attention_shape *s = &g->s;
    const int64_t from = s->causal && j0 > s->past ? j0 - s->past : 0;
    for (int64_t i0 = from / QUERIES_BACK * QUERIES_BACK; i0 < s->queries; i0 += QUERIES_BACK) {
        const int64_t m = least(s->queries - i0, QUERIES_BACK);
        int64_t ldq, ldy;
        if (s->first != NULL && !meet(s, r->image, i0, m, j0, n))
            continue;
        r->q_block = widened(r->q_wide, source_row(r->q, i0), m, s->size);
        r->dy_block = widened(r->dy_wide, source_row(r->dy, i0), m, s->value_size);
        make_tile(g, r, i0, m, j0, n);
        if (g->dv.p != NULL) {
            const float *dy = as_rows(r->dy_rows, r->dy_block, m, s->value_size, &ldy);
            add_turned(s, r->dv, r->value_wide, r->p, r->key_ld, dy, ldy, i0, m, j0, n);
        }
        if (g->dk.p != NULL) {
            const float *q = as_rows(r->q_rows, r->q_block, m, s->size, &ldq);
            add_turned(s, r->dk, r->wide, r->ds, r->key_ld, q, ldq, i0, m, j0, n);
        }
        if (g->dq.p != NULL)
            add_dq(s, r, keys, ldk, i0, m, j0, n);
    }
}

/* Keys [j0, j0 + n) of the head of k and v against its head of q, or the first of `heads`. */
static void key_block(const sw_attention_grads *g, backward_room *r, int64_t heads, int64_t j0,
                      int64_t n)
{
    const sw_attention_shape *s = &g->s;
    const view k = widened(r->k_wide, source_row(r->k, j0), n, s->size);
    const float *keys = NULL;
    int64_t ldk = 0;
    pack_turned(r->keys, r->key_ld, k, n, s->size);
    if (r->both)
        pack_turned(r->values, r->key_ld,
                    widened(r->v_wide, source_row(r->v, j0), n, s->value_size), n,
                    s->value_size);
    if (g->dq.p != NULL)
        keys = as_rows(r->key_rows, k, n, s->size, &ldk);
    if (g->dk.p != NULL)
        clear(r->dk, n * r->wide);
    if (g->dv.p != NULL)
        clear(r->dv, n * r->value_wide);
    for (int64_t h = 0; h < heads; h++) {
        if (h > 0)
            enter_head(r, g, r->image * s->heads + r->head + 1);
        add_queries(g, r, keys, ldk, j0, n);
    }
    if (g->dk.p != NULL)
        put_rows(&g->dk, r->image * g->dk.batch + j0 * g->dk.row + r->of_kv * s->size, r->dk,
                 r->wide, n, s->size, s->half);
    if (g->dv.p != NULL)
        put_rows(&g->dv, r->image * g->dv.batch + j0 * g->dv.row + r->of_kv * s->value_size,
                 r->dv, r->value_wide, n, s->value_size, s->half);
}

static void backward_part(void *arg, int number)
{
    const backward_job *j = arg;
    const sw_attention_grads *g = j->g;
    const sw_attention_shape *s = &g->s;
    backward_room r = {.image = 0};
    (void)furnish_back(&r, (float *)(void *)(j->scratch + j->slot_bytes * (size_t)number), s,
                       makes_of(g));
    for (int64_t u = number; u < s->batch * s->heads; u += j->parts) {
        enter_head(&r, g, u);
        for (int64_t j0 = 0; j0 < s->keys; j0 += KEYS)
            key_block(g, &r, 1, j0, least(s->keys - j0, KEYS));
        if (g->dq.p != NULL)
            put_rows(&g->dq, r.image * g->dq.batch + r.head * s->size, r.dq, r.wide, s->queries,
                     s->size, s->half);
    }
}

/* dk and dv of blocks of keys whose heads are shared. */
static void shared_part(void *arg, int number)
{
    const backward_job *j = arg;
    const sw_attention_grads *g = j->g;
    const sw_attention_shape *s = &g->s;
    const int64_t heads = s->heads / s->heads_kv;
    backward_room r = {.image = 0};
    (void)furnish_back(&r, (float *)(void *)(j->scratch + j->slot_bytes * (size_t)number), s,
                       makes_of(g));
    for (int64_t u = number; u < s->batch * s->heads_kv * j->blocks; u += j->parts) {
        const int64_t j0 = u % j->blocks * KEYS;
        enter_head(&r, g, u / j->blocks * heads);
        key_block(g, &r, heads, j0, least(s->keys - j0, KEYS));
    }
}

static void run_back(const sw_attention_grads *g, void (*part)(void *arg, int number),
                     int64_t units, void *scratch, const sw_par *par)
{
    const sw_attention_shape *s = &g->s;
    backward_room r;
    backward_job j = {.g = g,
                      .scratch = scratch,
                      .slot_bytes = slot_bytes(furnish_back(&r, NULL, s, makes_of(g)), 1),
                      .blocks = (s->keys + KEYS - 1) / KEYS,
                      .parts = slots(least(units, s->batch * s->heads), par->n_threads)};
    const double work = (double)s->queries * (double)s->keys * (double)s->size;
    vparts(par, part, &j, j.parts, work * (double)(s->batch * s->heads) >= SWI_WORTH);
}

void SW_KERNEL(axes, attention_grad)(const sw_attention_grads *g, void *scratch,
                                     const sw_par *par)
{
    const sw_attention_shape *s = &g->s;
    sw_attention_grads rest = *g;
    if (s->heads_kv < s->heads && (g->dk.p != NULL || g->dv.p != NULL)) {
        rest.dq.p = NULL;
        run_back(&rest, shared_part, s->batch * s->heads_kv * ((s->keys + KEYS - 1) / KEYS),
                 scratch, par);
        rest.dq.p = g->dq.p;
        rest.dk.p = rest.dv.p = NULL;
    }
    if (rest.dq.p != NULL || rest.dk.p != NULL || rest.dv.p != NULL)
        run_back(&rest, backward_part, s->batch * s->heads, scratch, par);
}
