/* The one place where sizes are multiplied, added and rounded up. Every function returns 0 and
 * leaves *out alone when the exact result does not fit. */
#pragma once

#include "alloc/base/base.h"
#include <stdbool.h>

static inline bool sw_size_mul(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool sw_size_add(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

/* Round `a` up to a multiple of `align`, a power of two. */
static inline bool sw_size_align(size_t a, size_t align, size_t *out)
{
    size_t r;
    if (!sw_size_add(a, align - 1, &r))
        return false;
    *out = r & ~(align - 1);
    return true;
}

/* Rounded up to SW_ALIGN, as an arena counts it: of bytes that there are already, or whose sum
 * was checked, so that it fits. */
static inline size_t sw_size_round(size_t bytes)
{
    return (bytes + SW_ALIGN - 1) & ~(size_t)(SW_ALIGN - 1);
}

static inline size_t sw_size_larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* a - b; 0 where b is more. */
static inline size_t sw_size_less(size_t a, size_t b)
{
    return a > b ? a - b : 0;
}

/* A sum and a product that stay at SIZE_MAX. */
static inline size_t sw_size_sum(size_t a, size_t b)
{
    return b < SIZE_MAX - a ? a + b : SIZE_MAX;
}

static inline size_t sw_size_product(size_t a, size_t b)
{
    size_t r;
    return sw_size_mul(a, b, &r) ? r : SIZE_MAX;
}

/* The offset of the next part of a block whose parts so far take *sum bytes; each begins at a
 * multiple of 16. The sum of what a program holds many times over fits. */
static inline size_t sw_size_part(size_t *sum, size_t bytes)
{
    const size_t at = *sum;
    *sum += (bytes + 15) & ~(size_t)15;
    return at;
}

/* The greatest common divisor; that of 0 and b is b. */
static inline uint64_t sw_size_gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Elements of a shape: the product of n_dims dims, each >= 0. False on a negative dim or a
 * product past INT64_MAX / 16, so that bytes of any element type fit too. */
static inline bool sw_size_elements(const int64_t *dims, int n_dims, int64_t *out)
{
    int64_t n = 1;
    bool zero = false;
    for (int i = 0; i < n_dims; i++) {
        if (dims[i] < 0)
            return false;
        if (dims[i] == 0) {
            zero = true;
            continue;
        }
        if (__builtin_mul_overflow(n, dims[i], &n) || n > INT64_MAX / 16)
            return false;
    }
    *out = zero ? 0 : n;
    return true;
}
