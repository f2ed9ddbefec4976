/* Augmentation of images (batch, c, h, w): which image is mirrored, and by how much each is
 * moved. Image i has the counter i of its stream (rng.h), so that a draw belongs to its row in
 * the batch, whichever thread makes it, and backward draws it again. */
#pragma once

#include "kernels/attrs.h"
#include "kernels/par.h"
#include "kernels/rng.h"

/* The draw for one image: y(r, c) = x(r, w - 1 - c) where `flip`, else x(r + down, c + right),
 * 0 where that is outside of x. */
typedef struct {
    int32_t flip;
    int64_t down, right;
} sw_move;

/* -pad..pad, each as probable as the others but for 2^-32 (2 pad + 1). */
SW_INLINE int64_t sw_shift_of(uint32_t word, int32_t pad)
{
    return (int64_t)((uint64_t)word * (2 * (uint64_t)pad + 1) >> 32) - pad;
}

/* words: those of the image's counter. back: of the gradient, which goes the other way; a
 * mirror is its own inverse. */
SW_INLINE sw_move sw_move_of(const uint32_t words[4], const swi_augment_attrs *a, int back)
{
    const int64_t down = sw_shift_of(words[0], a->pad), right = sw_shift_of(words[1], a->pad);
    sw_move m;
    m.flip = words[0] >> 8 < sw_drop_below(a->flip);
    m.down = back ? -down : down;
    m.right = back ? -right : right;
    return m;
}

/* Images of elements of 1 or 4 bytes; `accumulate` adds floats. */
typedef struct {
    void *y;
    const void *x;
    int64_t batch, planes, h, w;
    size_t element;
    swi_augment_attrs attrs;
    int back, accumulate;
    uint64_t seed;
    uint32_t stream, step, run;
} sw_augment;

/* One part for each image. */
void sw_cpu_augment(const sw_augment *s, const sw_par *par);
