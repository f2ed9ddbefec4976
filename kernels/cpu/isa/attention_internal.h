/* Tiles of attention: products of a few rows with a packed operand, packing. */
#ifndef SW_ATTENTION_INTERNAL_H
#define SW_ATTENTION_INTERNAL_H

#include "kernels/attention.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/lanes.h"

enum { SWI_KEYS = 64 };  /* keys of a tile, side by side */
enum { SWI_GROUP = 12 }; /* rows whose products run together */

static inline int64_t swi_whole(int64_t n) /* vectors' worth of lanes */
{
    return (n + VW - 1) / VW * VW;
}

/* C (m, n) = factor A B, or C += factor A B: n a multiple of VW; B and C rows apart by ldb and
 * ldc, A(i, p) = a[i * row + p * col]. */
typedef struct {
    float *c;
    int64_t ldc;
    const float *a;
    int64_t row, col;
    const float *b;
    int64_t ldb;
    int64_t m, n, k;
    float factor;
    bool add;
} swi_tile;

#define swi_tile_product SW_ISA_FN(swi_tile_product)
#define swi_pack_rows SW_ISA_FN(swi_pack_rows)
#define swi_pack_turned SW_ISA_FN(swi_pack_turned)
#define swi_row_exp SW_ISA_FN(swi_row_exp)

void swi_tile_product(const swi_tile *t);
/* to (rows, ld) = from by its steps, zeros in columns cols..ld. */
void swi_pack_rows(float *to, int64_t ld, const float *from, int64_t row, int64_t col,
                   int64_t rows, int64_t cols);
/* to (cols, ld): column r is row r of `from`; zeros up to whole vectors of rows. */
void swi_pack_turned(float *to, int64_t ld, const float *from, int64_t row, int64_t col,
                     int64_t rows, int64_t cols);
/* x = e^(x - less), and zeros in n..width; width a multiple of VW. */
void swi_row_exp(float *x, float less, int64_t n, int64_t width);

/* B of a product over rows of head data: in place where rows are whole vectors, else packed
 * into `room`. */
static inline const float *swi_as_rows(float *scratch_of_tiles, const float *from, int64_t row,
                                       int64_t col, int64_t rows, int64_t cols, int64_t *ld)
{
    if (col == 1 && cols % VW == 0) {
        *ld = row;
        return from;
    }
    *ld = swi_whole(cols);
    swi_pack_rows(scratch_of_tiles, *ld, from, row, col, rows, cols);
    return scratch_of_tiles;
}

/* Parts that run at a time, each in a slot of scratch of its own. */
static inline int swi_slots(int64_t units, int threads)
{
    return units < 1 ? 1 : units < threads ? (int)units : threads;
}

/* Floats of one slot to bytes of all. */
static inline size_t swi_slot_bytes(int64_t floats, int slots)
{
    return ((size_t)floats * sizeof(float) + 63) / 64 * 64 * (size_t)slots;
}

/* A part of a slot: `to` is `floats` floats that begin n floats after `at`; NULL where `at`
 * is. Returns floats, rounded up to whole lines of 64 bytes, so that all parts begin on one. */
static inline int64_t swi_lay(float **to, float *at, int64_t n, int64_t floats)
{
    *to = at != NULL ? at + n : NULL;
    return (floats + 15) / 16 * 16;
}

/* Keys of the block from j0 on, n of them, that query i sees. */
static inline int64_t swi_seen(const sw_attention_shape *s, int64_t i, int64_t j0, int64_t n)
{
    const int64_t seen = s->causal ? i + 1 - j0 : n;
    return seen < 0 ? 0 : seen < n ? seen : n;
}

#endif
