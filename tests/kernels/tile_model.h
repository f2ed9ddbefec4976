/* The tiles of AMX in memory: gemm.c is compiled with this before it, so that its way by
 * TDPBF16PS runs on every processor with AVX-512. Functions of that copy end in _model. A tile
 * that is not configured, or of sizes that do not meet, ends the program, as the processor
 * would.
 *
 * Sources: "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 2, TILELOADD,
 * TDPBF16PS; the order of its sums is that of kernels/par.h. */
#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define swi_dense_gemm_avx512 swi_dense_gemm_model
#define swi_dense_gemm_bytes_avx512 swi_dense_gemm_bytes_model
#define swi_axes_products_avx512 swi_axes_products_model
#define swi_gemm_pack_strips_avx512 swi_gemm_pack_strips_model
#define swi_gemm_strips_avx512 swi_gemm_strips_model
#define swi_gemm_pack_avx512 swi_gemm_pack_model
#define swi_gemm_along_avx512 swi_gemm_along_model

typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_set;

static struct {
    tile_set set;
    uint32_t cell[8][16][16];
} tiles_of; /* one thread at a time */

static int tile_rows(int tile)
{
    const int rows = tiles_of.set.rows[tile], bytes = tiles_of.set.bytes[tile];
    if (tiles_of.set.palette != 1 || rows < 1 || rows > 16 || bytes < 4 || bytes > 64 ||
        bytes % 4 != 0)
        abort();
    return rows;
}

static void tile_move(int tile, void *at, int64_t step, int stores)
{
    for (int r = 0; r < tile_rows(tile); r++) {
        void *row = (char *)at + r * step * 4, *cells = tiles_of.cell[tile][r];
        memcpy(stores ? row : cells, stores ? cells : row, tiles_of.set.bytes[tile]);
    }
}

/* For each pair of k the even numbers to one chain and the odd ones to another; then their sum.
 */
static void tile_dot(int sum, int a, int b)
{
    const int k = tiles_of.set.bytes[a] / 4;
    const __m512i high = _mm512_set1_epi32((int)0xffff0000u);
    if (tile_rows(sum) != tile_rows(a) || tile_rows(b) != k ||
        tiles_of.set.bytes[sum] != tiles_of.set.bytes[b])
        abort();
    for (int m = 0; m < tile_rows(sum); m++) {
        __m512 even = _mm512_setzero_ps(), odd = even,
               c = _mm512_loadu_ps(tiles_of.cell[sum][m]);
        for (int q = 0; q < k; q++) {
            const __m512i x = _mm512_set1_epi32((int)tiles_of.cell[a][m][q]);
            const __m512i y = _mm512_loadu_si512(tiles_of.cell[b][q]);
            even = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)),
                                   _mm512_castsi512_ps(_mm512_slli_epi32(y, 16)), even);
            odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(x, high)),
                                  _mm512_castsi512_ps(_mm512_and_si512(y, high)), odd);
        }
        c = _mm512_add_ps(c, _mm512_add_ps(even, odd));
        memcpy(tiles_of.cell[sum][m], &c, tiles_of.set.bytes[sum]);
    }
}

#define TILE_SET(from) memcpy(&tiles_of.set, &(from), sizeof tiles_of.set)
#define TILE_RELEASE() memset(&tiles_of, 0, sizeof tiles_of)
#define TILE_LOAD(tile, at, step) tile_move(tile, (void *)(uintptr_t)(at), step, 0)
#define TILE_STORE(at, step, t) tile_move(t, at, step, 1)
#define TILE_ZERO(tile) memset(tiles_of.cell[tile], 0, 64 * (size_t)tile_rows(tile))
#define TILE_DOT(sum, a, b) tile_dot(sum, a, b)
