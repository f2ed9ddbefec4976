/* Noise added to a convolution, and to gains and shifts by channel.
 *
 * Blocks of sixteen images: each lane has the noise of its image's direction, so weights are
 * vectors. Low rank is a convolution to one channel for each rank, t = conv(x, B), whose result
 * goes to every channel of y times A. Other kinds make some channels of E, lane by lane. A part
 * of the work is one block and a tile of positions of y.
 *
 * Plain images: a part is a direction; rows of y are sums of rows of x. In one instruction set
 * the bits are those of the blocks: the same terms in the same order. */
#include "kernels/cpu/isa/dense_internal.h"
#include "kernels/cpu/isa/noise_internal.h"

enum {
    LANES = SWI_LANES,
    WEIGHTS = 1536, /* vectors of sixteen weights on the stack: 96 KiB */
    PLACES = 1024,  /* positions of a tile: 64 KiB */
    FACTORS = 4096, /* numbers of B of a plain image */
    SOME = 128,     /* numbers of a lane that are drawn at a time */
    CHANNELS = 128, /* of y whose factors are there at a time */
    OB = 4,         /* channels of y whose E is there at a time */
    WIDE = 8        /* positions of a register block of one channel; 4 of OB */
};

typedef struct {
    float *y;
    const float *x;
    const sw_noise_layer *l;
    sw_conv s;
    int64_t in_per, out_per, cols, per; /* channels of a group; in_per x taps; images */
    int64_t tile_rows, tile_cols, row_tiles, col_tiles;
} conv_job;

/* Factors of low rank; not where each element has a sigma of its own. */
static bool is_factored(const conv_job *j)
{
    const sw_noise_spec *s = &j->l->a->weight;
    return s->rows != 0 && s->kind == SW_NOISE_LOW_RANK && j->l->weight_sigmas == NULL;
}

/* ---- lanes ------------------------------------------------------------------------------- */

/* The directions of a block's lanes, and s sigma of each; 0 past the batch. */
typedef struct {
    const conv_job *j;
    int64_t direction[LANES];
    float factor[LANES];
    int n; /* images */
} lanes;

static lanes lanes_of(const conv_job *j, int64_t block)
{
    lanes v = {.j = j};
    for (int i = 0; i < LANES && block * LANES + i < j->s.batch; i++, v.n++) {
        const int64_t evaluation = (block * LANES + i) / j->per;
        v.direction[i] = evaluation % j->l->a->directions;
        v.factor[i] = sw_noise_sign(j->l->a, evaluation) * j->l->sigma;
    }
    return v;
}

/* rows (LANES, SOME) to columns: to[i * LANES + lane] = factor[lane] * rows[lane][i]. */
static void turn(float *to, float rows[LANES][SOME], const float factor[LANES], int64_t n)
{
    for (int group = 0; group < LANES; group += VW)
        for (int64_t i = 0; i < n; i += VW) {
            vf r[VW];
            for (int k = 0; k < VW; k++)
                r[k] = vmul(vload(&rows[group + k][i]), vset1(factor[group + k]));
            vtranspose(r);
            for (int k = 0; k < VW && i + k < n; k++)
                vstore(to + (i + k) * LANES + group, r[k]);
        }
}

/* to (n, LANES) = numbers [first, first + n) of each lane's direction, times factor. */
static void draw_lanes(float *to, const lanes *v, const float factor[LANES],
                       const sw_noise_spec *s, sw_noise_part part, int64_t first, int64_t n)
{
    _Alignas(64) float rows[LANES][SOME];
    swi_noise_source from;
    const sw_noise_at at = swi_noise_at(v->j->l, 0);
    memset(rows, 0, sizeof rows);
    swi_noise_source_of(&from, s, part, &at);
    for (int64_t i = 0; i < n; i += SOME) {
        const int64_t m = least(n - i, SOME);
        for (int k = 0; k < v->n; k++) {
            if (k > 0 && v->direction[k] == v->direction[k - 1]) {
                memcpy(rows[k], rows[k - 1], sizeof rows[k]);
                continue;
            }
            swi_noise_turn(&from, v->j->l->first + (uint32_t)v->direction[k]);
            swi_noise_draw(rows[k], first + i, m, &from);
        }
        turn(to + i * LANES, rows, factor, m);
    }
}

/* ---- sums over x of a tile --------------------------------------------------------------- */

/* Some channels [c, c_end) of a group's x by weights (ob, their columns, LANES), added to `to`
 * (ob, rows, cols, LANES), whose channels and rows are apart by to_channel and to_row. */
typedef struct {
    const conv_job *j;
    const float *x, *w; /* this block and group; channel c */
    float *to;
    int64_t c, c_end, to_channel, to_row;
    int64_t row, rows, col, cols; /* of y */
} tile_sum;

/* ob channels by pb positions from ox on; both constants, as `edge`: whether one may leave
 * x. */
SW_VEC_FN void sum_places(const tile_sum *t, int64_t oy, int64_t ox, int lane, int ob, int pb,
                          bool edge)
{
    const sw_conv *s = &t->j->s;
    const int64_t taps = s->kernel_h * s->kernel_w, width = (t->c_end - t->c) * taps;
    const int64_t ix = ox * s->stride - s->pad;
    float *to = t->to + (oy - t->row) * t->to_row + (ox - t->col) * LANES + lane;
    vf acc[OB][WIDE];
    SW_UNROLL
    for (int o = 0; o < ob; o++) {
        SW_UNROLL
        for (int p = 0; p < pb; p++)
            acc[o][p] = vload(to + o * t->to_channel + p * LANES);
    }
    for (int64_t c = t->c; c < t->c_end; c++)
        for (int64_t ky = 0; ky < s->kernel_h; ky++) {
            const int64_t iy = oy * s->stride - s->pad + ky * s->dilation;
            if (iy < 0 || iy >= s->in_h)
                continue;
            const float *x = t->x + (c * s->in_h + iy) * s->in_w * LANES + lane;
            const float *w = t->w + ((c - t->c) * taps + ky * s->kernel_w) * LANES + lane;
            for (int64_t kx = 0; kx < s->kernel_w; kx++, w += LANES) {
                const int64_t at = ix + kx * s->dilation;
                vf weight[OB];
                SW_UNROLL
                for (int o = 0; o < ob; o++)
                    weight[o] = vload(w + o * width * LANES);
                SW_UNROLL
                for (int p = 0; p < pb; p++) {
                    if (edge && (uint64_t)(at + p * s->stride) >= (uint64_t)s->in_w)
                        continue;
                    const vf v = vload(x + (at + p * s->stride) * LANES);
                    SW_UNROLL
                    for (int o = 0; o < ob; o++)
                        acc[o][p] = vfma(weight[o], v, acc[o][p]);
                }
            }
        }
    SW_UNROLL
    for (int o = 0; o < ob; o++) {
        SW_UNROLL
        for (int p = 0; p < pb; p++)
            vstore(to + o * t->to_channel + p * LANES, acc[o][p]);
    }
}

SW_VEC_FN void sum_row(const tile_sum *t, int64_t oy, int lane, int ob, int wide)
{
    const sw_conv *s = &t->j->s;
    const int64_t end = t->col + t->cols, reach = (s->kernel_w - 1) * s->dilation;
    for (int64_t ox = t->col; ox < end;) {
        const int64_t ix = ox * s->stride - s->pad;
        if (end - ox < wide) {
            sum_places(t, oy, ox, lane, ob, 1, true);
            ox++;
            continue;
        }
        if (ix < 0 || ix + (wide - 1) * s->stride + reach >= s->in_w)
            sum_places(t, oy, ox, lane, ob, wide, true);
        else
            sum_places(t, oy, ox, lane, ob, wide, false);
        ox += wide;
    }
}

static void sum_one(const tile_sum *t)
{
    for (int lane = 0; lane < LANES; lane += VW)
        for (int64_t oy = t->row; oy < t->row + t->rows; oy++)
            sum_row(t, oy, lane, 1, WIDE);
}

static void sum_four(const tile_sum *t)
{
    for (int lane = 0; lane < LANES; lane += VW)
        for (int64_t oy = t->row; oy < t->row + t->rows; oy++)
            sum_row(t, oy, lane, OB, 4);
}

/* ---- a tile of a block ------------------------------------------------------------------- */

typedef struct {
    const conv_job *j;
    lanes v;
    int64_t block, row, rows, col, cols;
} tile;

static float *y_at(const tile *t, int64_t o)
{
    const sw_conv *s = &t->j->s;
    return t->j->y +
           (((t->block * s->out_c + o) * s->out_h + t->row) * s->out_w + t->col) * LANES;
}

static tile_sum sum_of(const tile *t, int64_t group)
{
    const conv_job *j = t->j;
    const sw_conv *s = &j->s;
    tile_sum sum = {.j = j, .row = t->row, .rows = t->rows, .col = t->col, .cols = t->cols};
    sum.x = j->x + (t->block * s->in_c + group * j->in_per) * s->in_h * s->in_w * LANES;
    return sum;
}

/* y of one channel += a t, or += a where t is NULL; a: sixteen lanes. */
static void add_channel(const tile *t, int64_t o, const float *a, const float *sums)
{
    float *y = y_at(t, o);
    for (int lane = 0; lane < LANES; lane += VW) {
        const vf v = vload(a + lane);
        for (int64_t r = 0; r < t->rows; r++) {
            float *to = y + r * t->j->s.out_w * LANES + lane;
            if (sums == NULL)
                for (int64_t i = 0; i < t->cols; i++)
                    vstore(to + i * LANES, vadd(vload(to + i * LANES), v));
            else
                for (int64_t i = 0; i < t->cols; i++)
                    vstore(to + i * LANES,
                           vfma(v, vload(sums + (r * t->cols + i) * LANES + lane),
                                vload(to + i * LANES)));
        }
    }
}

/* One rank and group, channels [c, c_end) of x: t = conv(x, B), then y += A t. */
static void low_rank_group(const tile *t, int32_t k, int64_t group, int64_t c, int64_t c_end)
{
    const conv_job *j = t->j;
    const sw_noise_spec *s = &j->l->a->weight;
    const int64_t taps = s->taps, most = WEIGHTS / taps > 0 ? WEIGHTS / taps : 1;
    _Alignas(64) float w[WEIGHTS * LANES], sums[PLACES * LANES];
    float one[LANES], factor[LANES];
    tile_sum sum = sum_of(t, group);
    for (int i = 0; i < LANES; i++) {
        one[i] = i < t->v.n ? 1.0f : 0.0f;
        factor[i] = t->v.factor[i] * sw_noise_scale(s);
    }
    memset(sums, 0, (size_t)(t->rows * t->cols * LANES) * sizeof *sums);
    sum.w = w;
    sum.to = sums;
    sum.to_row = t->cols * LANES;
    for (sum.c = c; sum.c < c_end; sum.c = sum.c_end) {
        sum.c_end = least(sum.c + most, c_end);
        draw_lanes(w, &t->v, one, s, SW_NOISE_COLS, k * j->cols + sum.c * taps,
                   (sum.c_end - sum.c) * taps);
        sum_one(&sum);
    }
    for (int64_t o = 0; o < j->out_per; o += CHANNELS) { /* w has A now */
        const int64_t n = least(j->out_per - o, CHANNELS), at = group * j->out_per + o;
        draw_lanes(w, &t->v, factor, s, SW_NOISE_ROWS, k * s->rows + at, n);
        for (int64_t i = 0; i < n; i++)
            add_channel(t, at + i, w + i * LANES, sums);
    }
}

/* Rows [o, o + n) and columns [col, col + cols) of E, s sigma included: to (n, cols, LANES). */
static void elements_lanes(float *to, const tile *t, int64_t o, int64_t n, int64_t col,
                           int64_t cols)
{
    const sw_noise_layer *l = t->j->l;
    swi_noise_elements e;
    float row[WEIGHTS];
    memset(to, 0, (size_t)(n * cols * LANES) * sizeof *to);
    for (int k = 0; k < t->v.n; k++) {
        const sw_noise_at at = swi_noise_at(t->j->l, t->v.direction[k]);
        const float factor = t->v.factor[k];
        swi_noise_elements_of(&e, &l->a->weight, &at, l->sigma);
        for (int64_t r = 0; r < n; r++) {
            if (!swi_noise_row(row, &e, o + r, col, cols, NULL))
                continue;
            swi_noise_times(row, l->weight_sigmas, (o + r) * t->j->cols + col, cols);
            for (int64_t i = 0; i < cols; i++)
                to[(r * cols + i) * LANES + k] = factor * row[i];
        }
    }
}

/* Other kinds: OB or one channel of y, and as many of x as fit, at a time. */
static void any_kind(const tile *t)
{
    const conv_job *j = t->j;
    const int64_t taps = j->l->a->weight.taps, out_c = j->s.out_c;
    _Alignas(64) float w[WEIGHTS * LANES];
    for (int64_t o = 0; o < out_c;) {
        const int64_t group = o / j->out_per, left = (group + 1) * j->out_per - o;
        const int n = left >= OB && taps * OB <= WEIGHTS ? OB : 1;
        const int64_t most = least(WEIGHTS / n, swi_noise_piece(&j->l->a->weight)) / taps;
        tile_sum sum = sum_of(t, group);
        sum.w = w;
        sum.to = y_at(t, o);
        sum.to_channel = j->s.out_h * j->s.out_w * LANES;
        sum.to_row = j->s.out_w * LANES;
        for (sum.c = 0; sum.c < j->in_per; sum.c = sum.c_end) {
            sum.c_end = least(sum.c + most, j->in_per);
            elements_lanes(w, t, o, n, sum.c * taps, (sum.c_end - sum.c) * taps);
            (n == OB ? sum_four : sum_one)(&sum);
        }
        o += n;
    }
}

static void bias_lanes(const tile *t)
{
    const conv_job *j = t->j;
    const float *sigmas = j->l->bias_sigmas;
    _Alignas(64) float e[CHANNELS * LANES];
    float one[LANES];
    for (int k = 0; k < LANES; k++)
        one[k] = 1.0f;
    for (int64_t o = 0; o < j->s.out_c; o += CHANNELS) {
        const int64_t n = least(j->s.out_c - o, CHANNELS);
        draw_lanes(e, &t->v, one, &j->l->a->bias, SW_NOISE_ELEMENTS, o, n);
        for (int64_t i = 0; i < n; i++) {
            for (int k = 0; k < LANES; k++)
                e[i * LANES + k] =
                    t->v.factor[k] *
                    (sigmas != NULL ? e[i * LANES + k] * sigmas[o + i] : e[i * LANES + k]);
            add_channel(t, o + i, e + i * LANES, NULL);
        }
    }
}

static void block_part(void *arg, int part)
{
    const conv_job *j = arg;
    const int64_t tiles = j->row_tiles * j->col_tiles, in = part % tiles;
    const sw_noise_spec *s = &j->l->a->weight;
    tile t = {.j = j, .block = part / tiles};
    t.v = lanes_of(j, t.block);
    t.row = in / j->col_tiles * j->tile_rows;
    t.col = in % j->col_tiles * j->tile_cols;
    t.rows = least(j->s.out_h - t.row, j->tile_rows);
    t.cols = least(j->s.out_w - t.col, j->tile_cols);
    if (is_factored(j)) {
        for (int32_t k = 0; k < s->rank; k++)
            for (int64_t c = 0; c < j->in_per; c += FACTORS / s->taps)
                for (int64_t g = 0; g < j->s.groups; g++)
                    low_rank_group(&t, k, g, c, least(c + FACTORS / s->taps, j->in_per));
    } else if (s->rows != 0) {
        any_kind(&t);
    }
    if (j->l->a->bias.rows != 0)
        bias_lanes(&t);
}

/* ---- plain images ------------------------------------------------------------------------ */

/* a * b + c as vfma has it. */
static inline float multiply_add(float a, float b, float c)
{
#if SW_ISA_ID >= 1
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

/* to += a x, n numbers. */
static void add_times(float *to, float a, const float *x, int64_t n)
{
    const vf v = vset1(a);
    int64_t i = 0;
    for (; i + VW <= n; i += VW)
        vstore(to + i, vfma(v, vload(x + i), vload(to + i)));
    for (; i < n; i++)
        to[i] = multiply_add(a, x[i], to[i]);
}

/* to (n), columns [col, col + n) of y, += w times a row of x, for tap kx. */
static void add_tap(const sw_conv *s, float *to, int64_t col, int64_t n, const float *x,
                    float w, int64_t kx)
{
    const int64_t first = (col * s->stride) + kx * s->dilation - s->pad;
    int64_t lo = 0, hi = n;
    while (lo < hi && lo * s->stride + first < 0)
        lo++;
    while (hi > lo && (hi - 1) * s->stride + first >= s->in_w)
        hi--;
    if (s->stride == 1)
        add_times(to + lo, w, x + lo + first, hi - lo);
    else
        for (int64_t i = lo; i < hi; i++)
            to[i] = multiply_add(w, x[i * s->stride + first], to[i]);
}

/* The same of all taps of channels [c, c_end) of a group of x, by weights w times f. */
static void add_row(const conv_job *j, float *to, int64_t col, int64_t n, const float *x,
                    const float *w, float f, int64_t c, int64_t c_end, int64_t oy)
{
    const sw_conv *s = &j->s;
    for (; c < c_end; c++)
        for (int64_t ky = 0; ky < s->kernel_h; ky++, w += s->kernel_w) {
            const int64_t iy = oy * s->stride - s->pad + ky * s->dilation;
            if (iy < 0 || iy >= s->in_h)
                continue;
            for (int64_t kx = 0; kx < s->kernel_w; kx++)
                add_tap(s, to, col, n, x + (c * s->in_h + iy) * s->in_w, f * w[kx], kx);
        }
}

/* Images of a direction, in the order of repeats. */
typedef struct {
    const conv_job *j;
    int64_t direction, images;
} plain_part;

static int64_t image_at(const plain_part *p, int64_t q, float *factor)
{
    const conv_job *j = p->j;
    const int64_t evaluation = q / j->per * j->l->a->directions + p->direction;
    *factor = sw_noise_sign(j->l->a, evaluation) * j->l->sigma;
    return evaluation * j->per + q % j->per;
}

static float *plane_of(const conv_job *j, int64_t image, int64_t o)
{
    return j->y + (image * j->s.out_c + o) * j->s.out_h * j->s.out_w;
}

static const float *group_of(const conv_job *j, int64_t image, int64_t group)
{
    return j->x + (image * j->s.in_c + group * j->in_per) * j->s.in_h * j->s.in_w;
}

/* Channels [c, c_end) of each group, by weights b of one rank: rows of t, then y += A t, for
 * columns of y in pieces of PLACES. */
static void plain_low_rank(const plain_part *p, int32_t k, int64_t c, int64_t c_end,
                           const float *b)
{
    const conv_job *j = p->j;
    const sw_conv *s = &j->s;
    const sw_noise_spec *spec = &j->l->a->weight;
    const sw_noise_at at = swi_noise_at(j->l, p->direction);
    const int64_t pieces = (s->out_w + PLACES - 1) / PLACES;
    float a[CHANNELS], t[PLACES];
    swi_noise_source from;
    swi_noise_source_of(&from, spec, SW_NOISE_ROWS, &at);
    for (int64_t o = 0; o < s->out_c;) {
        const int64_t group = o / j->out_per;
        const int64_t n = least((group + 1) * j->out_per - o, CHANNELS);
        swi_noise_draw(a, k * spec->rows + o, n, &from);
        for (int64_t q = 0; q < p->images; q++) {
            float factor;
            const int64_t image = image_at(p, q, &factor);
            factor *= sw_noise_scale(spec);
            for (int64_t i = 0; i < s->out_h * pieces; i++) {
                const int64_t oy = i / pieces, col = i % pieces * PLACES;
                const int64_t m = least(s->out_w - col, PLACES);
                memset(t, 0, (size_t)m * sizeof *t);
                add_row(j, t, col, m, group_of(j, image, group), b, 1.0f, c, c_end, oy);
                for (int64_t k_o = 0; k_o < n; k_o++)
                    add_times(plane_of(j, image, o + k_o) + oy * s->out_w + col,
                              factor * a[k_o], t, m);
            }
        }
        o += n;
    }
}

/* Row by row of E. */
static void plain_any(const plain_part *p)
{
    const conv_job *j = p->j;
    const sw_noise_layer *l = j->l;
    const sw_noise_at at = swi_noise_at(j->l, p->direction);
    const int64_t taps = l->a->weight.taps, most = swi_noise_piece(&l->a->weight) / taps;
    swi_noise_elements e;
    float row[SWI_NOISE_KEPT / 2];
    swi_noise_elements_of(&e, &l->a->weight, &at, l->sigma);
    for (int64_t c = 0; c < j->in_per; c += most)
        for (int64_t o = 0; o < j->s.out_c; o++) {
            const int64_t end = least(c + most, j->in_per), n = (end - c) * taps;
            if (!swi_noise_row(row, &e, o, c * taps, n, NULL))
                continue;
            swi_noise_times(row, l->weight_sigmas, o * j->cols + c * taps, n);
            for (int64_t q = 0; q < p->images; q++) {
                float factor;
                const int64_t image = image_at(p, q, &factor);
                const float *x = group_of(j, image, o / j->out_per);
                for (int64_t oy = 0; oy < j->s.out_h; oy++)
                    add_row(j, plane_of(j, image, o) + oy * j->s.out_w, 0, j->s.out_w, x, row,
                            factor, c, end, oy);
            }
        }
}

static void plain_bias(const plain_part *p)
{
    const conv_job *j = p->j;
    const sw_noise_at at = swi_noise_at(j->l, p->direction);
    float e[CHANNELS];
    for (int64_t o = 0; o < j->s.out_c; o += CHANNELS) {
        const int64_t n = least(j->s.out_c - o, CHANNELS);
        swi_noise_fill(e, o, n, &j->l->a->bias, SW_NOISE_ELEMENTS, &at);
        swi_noise_times(e, j->l->bias_sigmas, o, n);
        for (int64_t q = 0; q < p->images; q++) {
            float factor;
            const int64_t image = image_at(p, q, &factor);
            for (int64_t i = 0; i < n; i++) {
                float *y = plane_of(j, image, o + i);
                for (int64_t x = 0; x < j->s.out_h * j->s.out_w; x++)
                    y[x] += factor * e[i];
            }
        }
    }
}

static void plain_direction(void *arg, int part)
{
    const conv_job *j = arg;
    const sw_noise_spec *s = &j->l->a->weight;
    const plain_part p = {j, part, j->l->a->repeats * j->per};
    if (is_factored(j)) {
        const sw_noise_at at = swi_noise_at(j->l, part);
        const int64_t most = FACTORS / s->taps;
        float b[FACTORS];
        for (int32_t k = 0; k < s->rank; k++)
            for (int64_t c = 0; c < j->in_per; c += most) {
                const int64_t end = least(c + most, j->in_per);
                swi_noise_fill(b, k * j->cols + c * s->taps, (end - c) * s->taps, s,
                               SW_NOISE_COLS, &at);
                plain_low_rank(&p, k, c, end, b);
            }
    } else if (s->rows != 0) {
        plain_any(&p);
    }
    if (j->l->a->bias.rows != 0)
        plain_bias(&p);
}

/* ---- enormous kernels: number by number -------------------------------------------------- */

/* Where position `place` of a plane of an image lies. */
static int64_t element_at(const conv_job *j, int64_t image, int64_t channels, int64_t channel,
                          int64_t plane, int64_t place)
{
    if (j->s.plain)
        return (image * channels + channel) * plane + place;
    return ((image / LANES * channels + channel) * plane + place) * LANES + image % LANES;
}

static float sum_by_number(const conv_job *j, const sw_noise_direction *d, int64_t image,
                           int64_t o, int64_t place)
{
    const sw_conv *s = &j->s;
    const int64_t taps = s->kernel_h * s->kernel_w, first = o / j->out_per * j->in_per;
    float sum = 0.0f;
    for (int64_t i = 0; i < j->cols; i++) {
        const int64_t ky = i % taps / s->kernel_w, kx = i % s->kernel_w;
        const int64_t iy = place / s->out_w * s->stride - s->pad + ky * s->dilation;
        const int64_t ix = place % s->out_w * s->stride - s->pad + kx * s->dilation;
        if (iy < 0 || iy >= s->in_h || ix < 0 || ix >= s->in_w)
            continue;
        float e = sw_noise_element(&j->l->a->weight, d, o, i, 0.0f);
        if (j->l->weight_sigmas != NULL)
            e *= j->l->weight_sigmas[o * j->cols + i];
        sum += e * j->x[element_at(j, image, s->in_c, first + i / taps, s->in_h * s->in_w,
                                   iy * s->in_w + ix)];
    }
    return sum;
}

static void image_by_number(void *arg, int part)
{
    const conv_job *j = arg;
    const int64_t evaluation = part / j->per, plane = j->s.out_h * j->s.out_w;
    const float factor = sw_noise_sign(j->l->a, evaluation) * j->l->sigma;
    const sw_noise_at at = swi_noise_at(j->l, evaluation % j->l->a->directions);
    sw_noise_direction d;
    sw_noise_prepare(&d, &j->l->a->weight, &at, j->l->sigma);
    for (int64_t o = 0; o < j->s.out_c; o++) {
        float e = 0.0f;
        if (j->l->a->bias.rows != 0)
            e = sw_noise_number(&j->l->a->bias, SW_NOISE_ELEMENTS, &at, o) *
                (j->l->bias_sigmas != NULL ? j->l->bias_sigmas[o] : 1.0f);
        for (int64_t i = 0; i < plane; i++)
            j->y[element_at(j, part, j->s.out_c, o, plane, i)] +=
                factor * (sum_by_number(j, &d, part, o, i) + e);
    }
}

void SW_KERNEL(noise, conv)(float *y, const float *x, const sw_conv *given,
                            const sw_noise_layer *l, const sw_par *par)
{
    conv_job j = {.y = y, .x = x, .l = l, .s = swi_conv_whole(given)};
    j.in_per = swi_in_per(&j.s);
    j.out_per = swi_out_per(&j.s);
    j.cols = j.in_per * j.s.kernel_h * j.s.kernel_w;
    j.per = j.s.batch / (l->a->repeats * l->a->directions);
    if (j.s.batch < 1 || j.s.out_h < 1 || j.s.out_w < 1)
        return;
    if (l->a->weight.rows != 0 &&
        (l->a->weight.taps > WEIGHTS || l->a->weight.taps > swi_noise_piece(&l->a->weight))) {
        vparts(par, image_by_number, &j, (int)j.s.batch, true);
        return;
    }
    if (j.s.plain) {
        vparts(par, plain_direction, &j, (int)l->a->directions, true);
        return;
    }
    const int64_t blocks = swi_blocks(j.s.batch);
    j.tile_cols = least(j.s.out_w, PLACES);
    j.tile_rows = least(j.s.out_h, PLACES / j.tile_cols);
    while (par != NULL &&
           blocks * ((j.s.out_h + j.tile_rows - 1) / j.tile_rows) < 2 * par->n_threads &&
           par->n_threads > 1 && j.tile_rows > 1)
        j.tile_rows = (j.tile_rows + 1) / 2;
    j.row_tiles = (j.s.out_h + j.tile_rows - 1) / j.tile_rows;
    j.col_tiles = (j.s.out_w + j.tile_cols - 1) / j.tile_cols;
    vparts(par, block_part, &j, (int)(blocks * j.row_tiles * j.col_tiles), true);
}

/* ---- gains and shifts -------------------------------------------------------------------- */

/* y = x (g + s sigma e) + (b + s sigma f) by channel. Plain rows: a part is a direction, whose
 * numbers are drawn once, DRAWN at a time, and become gains and shifts where the sign of a
 * repeat changes. Blocks of sixteen: a part is a block, and gains and shifts are vectors of its
 * lanes' directions. */
enum { DRAWN = 1024, WORTH = 1 << 15 };

typedef struct {
    const sw_noise_affine *f;
    const sw_noise_layer *l;
    int64_t per; /* rows of an evaluation */
} affine_job;

/* e and f of channels [c, c + n) of a direction; c is a multiple of four. */
static void draw_channels(float *e, float *f, const affine_job *j, int64_t direction, int64_t c,
                          int64_t n)
{
    const sw_noise_layer *l = j->l;
    const sw_noise_spec *w = &l->a->weight, *b = &l->a->bias;
    const sw_noise_at at = swi_noise_at(l, direction);
    if (w->rows == 0)
        memset(e, 0, (size_t)n * sizeof *e);
    else if (w->kind != SW_NOISE_DROPOUT)
        swi_noise_fill(e, c, n, w, SW_NOISE_ELEMENTS, &at);
    if (w->rows != 0 && w->kind == SW_NOISE_DROPOUT) {
        uint32_t words[DRAWN + 32];
        swi_noise_source from;
        sw_noise_direction d;
        sw_noise_prepare(&d, w, &at, l->sigma);
        swi_noise_source_of(&from, w, SW_NOISE_ROWS, &at);
        swi_noise_words(words, c / 4, (n + 3) / 4, &from);
        for (int64_t i = 0; i < n; i++)
            e[i] = words[i] < d.drop_below ? -1.0f / d.sigma : d.sigma;
    }
    if (b->rows == 0)
        memset(f, 0, (size_t)n * sizeof *f);
    else
        swi_noise_fill(f, c, n, b, SW_NOISE_ELEMENTS, &at);
    swi_noise_times(e, l->weight_sigmas, c, n);
    swi_noise_times(f, l->bias_sigmas, c, n);
}

/* n numbers: y = or += x gain + shift, where gain and shift go along, or are one number. */
SW_VEC_FN void apply(const affine_job *j, int64_t at, const float *gain, const float *shift,
                     int64_t n, bool along)
{
    float *y = j->f->y + at;
    const float *x = j->f->x + at;
    const bool add = j->f->accumulate;
    const vf g = vset1(gain[0]), h = vset1(shift[0]);
    int64_t i = 0;
    for (; i + VW <= n; i += VW) {
        vf v = vfma(vload(x + i), along ? vload(gain + i) : g, along ? vload(shift + i) : h);
        vstore(y + i, add ? vadd(vload(y + i), v) : v);
    }
    if (i < n) {
        const int m = (int)(n - i);
        vf v = vfma(vload_n(x + i, m), along ? vload_n(gain + i, m) : g,
                    along ? vload_n(shift + i, m) : h);
        vstore_n(y + i, add ? vadd(vload_n(y + i, m), v) : v, m);
    }
}

/* Channels [c, c + n) of one row of the batch. */
static void one_row(const affine_job *j, int64_t row, int64_t c, int64_t n, const float *gain,
                    const float *shift)
{
    const sw_noise_affine *f = j->f;
    for (int64_t m = 0; m < f->middle; m++) {
        const int64_t at = ((row * f->middle + m) * f->channels + c) * f->inner;
        if (f->inner == 1) {
            apply(j, at, gain, shift, n, true);
            continue;
        }
        for (int64_t i = 0; i < n; i++)
            apply(j, at + i * f->inner, gain + i, shift + i, f->inner, false);
    }
}

static void affine_plain_part(void *arg, int part)
{
    const affine_job *j = arg;
    const swi_noise_attrs *a = j->l->a;
    float e[DRAWN], f[DRAWN], gain[DRAWN], shift[DRAWN];
    for (int64_t c = 0; c < j->f->channels; c += DRAWN) {
        const int64_t n = least(j->f->channels - c, DRAWN);
        float last = 0.0f;
        draw_channels(e, f, j, part, c, n);
        for (int64_t q = 0; q < a->repeats * j->per; q++) {
            const int64_t evaluation = q / j->per * a->directions + part;
            const float sign = sw_noise_sign(a, evaluation), scale = sign * j->l->sigma;
            for (int64_t i = 0; i < n && sign != last; i++) {
                gain[i] = (j->f->gain != NULL ? j->f->gain[c + i] : 1.0f) + scale * e[i];
                shift[i] = (j->f->shift != NULL ? j->f->shift[c + i] : 0.0f) + scale * f[i];
            }
            last = sign;
            one_row(j, evaluation * j->per + q % j->per, c, n, gain, shift);
        }
    }
}

/* to (n, LANES): of each lane base + scale times its numbers. */
static void spread(float *to, float rows[LANES][SOME], const float scale[LANES],
                   const float *base, float otherwise, int64_t n, int64_t used)
{
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < LANES; k++)
            to[i * LANES + k] =
                k < used ? (base != NULL ? base[i] : otherwise) + scale[k] * rows[k][i]
                         : otherwise; /* past the batch */
}

static void affine_block_part(void *arg, int part)
{
    const affine_job *j = arg;
    const sw_noise_affine *f = j->f;
    const swi_noise_attrs *a = j->l->a;
    _Alignas(64) float e[LANES][SOME], h[LANES][SOME];
    _Alignas(64) float gain[SOME * LANES], shift[SOME * LANES];
    float scale[LANES] = {0};
    const int64_t used = least(f->batch - part * (int64_t)LANES, LANES);
    memset(e, 0, sizeof e);
    memset(h, 0, sizeof h);
    for (int64_t c = 0; c < f->channels; c += SOME) {
        const int64_t n = least(f->channels - c, SOME);
        for (int64_t k = 0; k < used; k++) {
            const int64_t evaluation = (part * (int64_t)LANES + k) / j->per;
            scale[k] = sw_noise_sign(a, evaluation) * j->l->sigma;
            draw_channels(e[k], h[k], j, evaluation % a->directions, c, n);
        }
        spread(gain, e, scale, f->gain != NULL ? f->gain + c : NULL, 1.0f, n, used);
        spread(shift, h, scale, f->shift != NULL ? f->shift + c : NULL, 0.0f, n, used);
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = ((part * f->channels + c + i) * f->inner) * LANES;
            for (int64_t p = 0; p < f->inner; p++)
                apply(j, at + p * LANES, gain + i * LANES, shift + i * LANES, LANES, true);
        }
    }
}

void SW_KERNEL(noise, affine)(const sw_noise_affine *f, const sw_noise_layer *l,
                              const sw_par *par)
{
    affine_job j = {f, l, f->batch / (l->a->repeats * l->a->directions)};
    const int64_t size = f->batch * f->middle * f->channels * f->inner;
    if (size < 1)
        return;
    if (f->blocks)
        vparts(par, affine_block_part, &j, (int)((f->batch + LANES - 1) / LANES),
               size >= WORTH);
    else
        vparts(par, affine_plain_part, &j, (int)l->a->directions, size >= WORTH);
}
