/* Digits drawn by this program: each class is a few strokes; every sample bends, slants, scales
 * and shifts them, draws them with its own pen and adds noise.
 *
 * All arithmetic is on integers, so the bytes are the same with every compiler and machine.
 * Lengths are in 1/256 of a pixel. Sample i depends on the seed and i alone. */
#include "kernels/rng.h"
#include "runtime/data/data_internal.h"
#include <string.h>

#define SIDE 28
#define PIXELS (SIDE * SIDE)
#define UNIT 256
#define MAX_POINTS 16
#define UP 255 /* x of a point that lifts the pen */

/* Points on a field of 100 x 100, y downwards. */
typedef struct {
    uint8_t x, y;
} point;
typedef struct {
    int n;
    point at[MAX_POINTS];
} glyph;

static const glyph glyphs[10] = {
    {9,
     {{50, 8}, {72, 18}, {80, 50}, {72, 82}, {50, 92}, {28, 82}, {20, 50}, {28, 18}, {50, 8}}},
    {3, {{32, 26}, {52, 8}, {52, 92}}},
    {8, {{24, 28}, {34, 12}, {54, 8}, {72, 18}, {72, 38}, {52, 58}, {22, 92}, {80, 92}}},
    {9,
     {{24, 14}, {50, 8}, {72, 20}, {68, 40}, {44, 48}, {70, 56}, {76, 76}, {54, 92}, {22, 84}}},
    {6, {{60, 8}, {20, 64}, {82, 64}, {UP, 0}, {62, 34}, {62, 92}}},
    {8, {{76, 10}, {32, 10}, {28, 46}, {52, 40}, {74, 54}, {74, 78}, {50, 92}, {24, 84}}},
    {9,
     {{66, 10},
      {42, 24},
      {26, 56},
      {30, 82},
      {50, 92},
      {70, 82},
      {72, 64},
      {54, 52},
      {30, 62}}},
    {3, {{22, 10}, {78, 10}, {44, 92}}},
    {13,
     {{50, 48},
      {30, 36},
      {30, 16},
      {50, 8},
      {70, 16},
      {70, 36},
      {50, 48},
      {74, 62},
      {72, 84},
      {50, 92},
      {28, 84},
      {26, 62},
      {50, 48}}},
    {9,
     {{34, 90}, {58, 76}, {74, 44}, {70, 18}, {50, 8}, {30, 18}, {28, 36}, {46, 48}, {70, 38}}},
};

/* A sample's own random words. */
typedef struct {
    uint64_t seed;
    uint32_t stream, sample, block;
    int left;
    uint32_t words[4];
} dice;

static uint32_t next_word(dice *d)
{
    if (d->left == 0) {
        sw_rng_words(d->words, d->seed, d->block++, d->stream, d->sample, 0);
        d->left = 4;
    }
    return d->words[--d->left];
}

/* from..to, both included. */
static int32_t between(dice *d, int32_t from, int32_t to)
{
    return from + (int32_t)(((uint64_t)next_word(d) * (uint32_t)(to - from + 1)) >> 32);
}

typedef struct {
    int32_t x, y;
} spot;

static int32_t clamp(int64_t x, int32_t most)
{
    return x < 0 ? 0 : x > most ? most : (int32_t)x;
}

/* The squared distance of (x, y) from the segment, `length` its squared length, rounded down;
 * `edge` where it is not below that, which most pixels need no division for. */
static int32_t squared_distance(spot a, spot b, int32_t length, int32_t edge, int32_t x,
                                int32_t y)
{
    const int32_t dx = b.x - a.x, dy = b.y - a.y;
    const int32_t along = (x - a.x) * dx + (y - a.y) * dy;
    if (along <= 0)
        return (x - a.x) * (x - a.x) + (y - a.y) * (y - a.y);
    if (along >= length)
        return (x - b.x) * (x - b.x) + (y - b.y) * (y - b.y);
    const int64_t across = (int64_t)(x - a.x) * dy - (int64_t)(y - a.y) * dx;
    return across * across >= (int64_t)edge * length ? edge
                                                     : (int32_t)(across * across / length);
}

/* Full ink up to `core` (squared), none from `edge` (squared) on, linear in the square between.
 * A pixel keeps the most that any stroke gives it. */
static void draw(unsigned char *image, spot a, spot b, int32_t radius, int32_t ink)
{
    const int32_t edge = radius * radius, core = edge / 4;
    const int32_t length = (b.x - a.x) * (b.x - a.x) + (b.y - a.y) * (b.y - a.y);
    const int32_t left = clamp(((a.x < b.x ? a.x : b.x) - radius) / UNIT, SIDE - 1);
    const int32_t right = clamp(((a.x > b.x ? a.x : b.x) + radius) / UNIT, SIDE - 1);
    const int32_t top = clamp(((a.y < b.y ? a.y : b.y) - radius) / UNIT, SIDE - 1);
    const int32_t bottom = clamp(((a.y > b.y ? a.y : b.y) + radius) / UNIT, SIDE - 1);
    for (int32_t row = top; row <= bottom; row++)
        for (int32_t column = left; column <= right; column++) {
            const int32_t d = squared_distance(a, b, length, edge, column * UNIT + UNIT / 2,
                                               row * UNIT + UNIT / 2);
            if (d >= edge)
                continue;
            const int32_t value =
                d <= core ? ink : (int32_t)((int64_t)ink * (edge - d) / (edge - core));
            unsigned char *pixel = &image[row * SIDE + column];
            if (value > *pixel)
                *pixel = (unsigned char)value;
        }
}

static void draw_digit(unsigned char *image, int digit, uint64_t seed, uint32_t sample)
{
    dice d = {.seed = seed, .stream = sw_rng_stream("digits"), .sample = sample};
    const glyph *g = &glyphs[digit];
    spot at[MAX_POINTS] = {{0, 0}};
    /* The glyph's points on the image. Factors are in 1/256. The ranges here and in
     * draw_digit were chosen by trying: after one epoch of 10,000 digits, batch 128, lenet5
     * knows about 96 in 100 of new ones. */
    const int32_t xx = between(&d, 180, 245), xy = between(&d, -64, 48);
    const int32_t yx = between(&d, -32, 32), yy = between(&d, 200, 260);
    const int32_t shift_x = 14 * UNIT + between(&d, -340, 340);
    const int32_t shift_y = 14 * UNIT + between(&d, -340, 340);
    for (int i = 0; i < g->n; i++) {
        if (g->at[i].x == UP)
            continue;
        /* 100 of the field are 20 pixels: 51 is 20 * 256 / 100 */
        const int32_t x = (g->at[i].x - 50 + between(&d, -4, 4)) * 51;
        const int32_t y = (g->at[i].y - 50 + between(&d, -4, 4)) * 51;
        at[i].x = (x * xx + y * xy) / UNIT + shift_x;
        at[i].y = (x * yx + y * yy) / UNIT + shift_y;
    }
    const int32_t radius = between(&d, 370, 560), ink = between(&d, 180, 255);
    for (int i = 1; i < g->n; i++)
        if (g->at[i].x != UP && g->at[i - 1].x != UP)
            draw(image, at[i - 1], at[i], radius, ink);
    /* Grain: up to +-`grain` on every pixel, clamped to a byte. */
    const int32_t grain = between(&d, 0, 40);
    for (int j = 0; j < PIXELS; j += 4) {
        uint32_t word = next_word(&d);
        for (int k = 0; k < 4; k++, word >>= 8) {
            const int32_t noise = ((int32_t)(word & 255) * (2 * grain + 1)) / 256 - grain;
            image[j + k] = (unsigned char)clamp(image[j + k] + noise, 255);
        }
    }
}

/* Each run of ten samples has every class once, in an order of its own. */
static void draw_labels(unsigned char *labels, int64_t n, uint64_t seed)
{
    for (int64_t first = 0; first < n; first += 10) {
        dice d = {
            .seed = seed, .stream = sw_rng_stream("labels"), .sample = (uint32_t)(first / 10)};
        unsigned char ten[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
        for (int i = 9; i > 0; i--) {
            const int j = between(&d, 0, i);
            const unsigned char swap = ten[i];
            ten[i] = ten[j];
            ten[j] = swap;
        }
        memcpy(labels + first, ten, (size_t)(n - first < 10 ? n - first : 10));
    }
}

sw_status sw_dataset_synthetic(sw_dataset **out, int64_t n, uint64_t seed)
{
    if (out == NULL || n < 1 || n > UINT32_MAX)
        SW_FAIL(SW_INVALID,
                "sw_dataset_synthetic: out must not be NULL, and n must be 1 to 4294967295 "
                "(got %lld)",
                (long long)n);
    const sw_shape image = {3, {1, SIDE, SIDE}}, label = {0, {0}};
    sw_dataset *dataset;
    SW_TRY(swi_dataset_new(&dataset, "synthetic", n));
    sw_status status = swi_dataset_field(dataset, SW_U8, image);
    if (status == SW_OK)
        status = swi_dataset_field(dataset, SW_U8, label);
    if (status != SW_OK) {
        sw_dataset_destroy(dataset);
        return status;
    }
    unsigned char *images = dataset->field[0].data, *labels = dataset->field[1].data;
    draw_labels(labels, n, seed);
    for (int64_t i = 0; i < n; i++)
        draw_digit(images + (size_t)i * PIXELS, labels[i], seed, (uint32_t)i);
    *out = dataset;
    return SW_OK;
}
