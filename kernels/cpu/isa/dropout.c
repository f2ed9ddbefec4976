/* Dropout by counter: forward and backward are the same launch, and no mask exists. Philox runs
 * on sixteen counters side by side, 64 elements at a time. */
#include "kernels/cpu/isa/isa.h"
#include "kernels/rng.h"
#include "kernels/scalar.h"

#define LANES 16
#define PART 16384 /* elements of a part: whole counters */
#define ROW 256    /* elements of one image that are drawn at once, where images are in lanes */

typedef struct {
    float *y;
    const float *x;
    const sw_drop *d;
    int64_t rows; /* of an image in blocks */
    uint32_t below;
    float scale;
    bool accumulate;
} drop_job;

/* One round of sw_philox for sixteen counters. */
static void round16(uint32_t c[4][LANES], uint32_t k0, uint32_t k1)
{
    uint32_t high_a[LANES], high_b[LANES];
    for (int l = 0; l < LANES; l++)
        high_a[l] = (uint32_t)(((uint64_t)0xd2511f53u * c[0][l]) >> 32);
    for (int l = 0; l < LANES; l++)
        high_b[l] = (uint32_t)(((uint64_t)0xcd9e8d57u * c[2][l]) >> 32);
    for (int l = 0; l < LANES; l++) {
        const uint32_t low_a = 0xd2511f53u * c[0][l], low_b = 0xcd9e8d57u * c[2][l];
        c[0][l] = high_b[l] ^ c[1][l] ^ k0;
        c[2][l] = high_a[l] ^ c[3][l] ^ k1;
        c[1][l] = low_b;
        c[3][l] = low_a;
    }
}

/* The words of counters block .. block + 15, four for each. */
static void draw(uint32_t to[4 * LANES], const sw_drop *d, uint32_t block)
{
    uint32_t c[4][LANES], k0 = (uint32_t)d->seed, k1 = (uint32_t)(d->seed >> 32);
    for (uint32_t l = 0; l < LANES; l++) {
        c[0][l] = block + l;
        c[1][l] = d->stream;
        c[2][l] = d->step;
        c[3][l] = d->run;
    }
    for (int round = 0; round < 10; round++) {
        round16(c, k0, k1);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    for (int l = 0; l < LANES; l++)
        for (int w = 0; w < 4; w++)
            to[4 * l + w] = c[w][l];
}

/* Multiplies each of n <= 64 elements by the scale, or drops it. */
static void apply(const drop_job *j, int64_t at, const uint32_t *words, int64_t n)
{
    float *y = j->y + at;
    const float *x = j->x + at;
    const uint32_t below = j->below;
    const float scale = j->scale;
    if (j->accumulate)
        for (int64_t i = 0; i < n; i++) {
            const float kept = x[i] * scale, gone = sw_dropped(x[i]);
            y[i] += words[i] >> 8 < below ? gone : kept;
        }
    else
        for (int64_t i = 0; i < n; i++) {
            const float kept = x[i] * scale, gone = sw_dropped(x[i]);
            y[i] = words[i] >> 8 < below ? gone : kept;
        }
}

static void plain_part(void *arg, int part)
{
    const drop_job *j = arg;
    const int64_t n = j->d->inner,
                  end = n - part * (int64_t)PART < PART ? n : (part + 1) * (int64_t)PART;
    uint32_t words[4 * LANES];
    for (int64_t i = part * (int64_t)PART; i < end; i += 4 * LANES) {
        draw(words, j->d, (uint32_t)(i / 4));
        apply(j, i, words, end - i < 4 * LANES ? end - i : 4 * LANES);
    }
}

/* ROW elements of each of the sixteen images of a block. */
static void blocks_part(void *arg, int part)
{
    const drop_job *j = arg;
    const sw_drop *d = j->d;
    const int64_t block = part / j->rows, first = part % j->rows * ROW;
    const int64_t n = d->inner - first < ROW ? d->inner - first : ROW;
    for (int64_t lane = 0; lane < LANES; lane++) {
        const int64_t image = block * LANES + lane, element = image * d->inner + first;
        const bool empty = image >= d->batch;
        uint32_t words[ROW + 8 * LANES];
        for (int64_t k = 0; k < n + element % 4 && !empty; k += 4 * LANES)
            draw(words + k, d, (uint32_t)((element + k) / 4));
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = (block * d->inner + first + i) * LANES + lane;
            const bool dropped = words[element % 4 + i] >> 8 < j->below;
            const float x = j->x[at];
            const float r = empty ? 0.0f : dropped ? sw_dropped(x) : x * j->scale;
            j->y[at] = j->accumulate ? j->y[at] + r : r;
        }
    }
}

void SW_KERNEL(axes, dropout)(float *y, const float *x, const sw_drop *d, bool accumulate,
                              const sw_par *par)
{
    drop_job j = {.y = y, .x = x, .d = d, .accumulate = accumulate};
    j.below = sw_drop_below(d->p);
    j.scale = sw_drop_scale(d->p);
    if (!d->blocks) {
        par->run(par, plain_part, &j, (int)((d->inner + PART - 1) / PART));
        return;
    }
    j.rows = (d->inner + ROW - 1) / ROW;
    par->run(par, blocks_part, &j, (int)((d->batch + LANES - 1) / LANES * j.rows));
}
