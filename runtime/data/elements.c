/* Numbers of every type, read byte by byte: nothing has to be aligned. */
#include "runtime/data/elements.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [SW_NUMBER_F32] = {"f32", 4}, [SW_NUMBER_F64] = {"f64", 8},   [SW_NUMBER_U8] = {"u8", 1},
    [SW_NUMBER_I8] = {"i8", 1},   [SW_NUMBER_BOOL] = {"bool", 1}, [SW_NUMBER_U16] = {"u16", 2},
    [SW_NUMBER_I16] = {"i16", 2}, [SW_NUMBER_U32] = {"u32", 4},   [SW_NUMBER_I32] = {"i32", 4},
    [SW_NUMBER_U64] = {"u64", 8}, [SW_NUMBER_I64] = {"i64", 8}};

size_t swi_number_bytes(sw_number type)
{
    return types[type].bytes;
}

const char *swi_number_name(sw_number type)
{
    return types[type].name;
}

bool swi_number_is_whole(sw_number type)
{
    return type != SW_NUMBER_F32 && type != SW_NUMBER_F64;
}

swi_take swi_take_of(sw_number from)
{
    swi_take take = {.from = from, .to = SW_F32};
    if (!swi_number_is_whole(from))
        return take;
    const size_t bytes = swi_number_bytes(from);
    take.to = bytes == 1 ? SW_U8 : bytes == 2 ? SW_U16 : SW_I32;
    take.low = bytes < 4 ? 0 : INT32_MIN;
    take.high = bytes == 1 ? UINT8_MAX : bytes == 2 ? UINT16_MAX : INT32_MAX;
    return take;
}

sw_dtype swi_ids_type(sw_number from, int64_t n)
{
    if (swi_number_bytes(from) < 8)
        return swi_take_of(from).to;
    return n <= UINT8_MAX + 1 ? SW_U8 : n <= UINT16_MAX + 1 ? SW_U16 : SW_I32;
}

/* ---- one number -------------------------------------------------------------------------- */

#define READ(type)                                                                             \
    {                                                                                          \
        type x;                                                                                \
        memcpy(&x, at, sizeof x);                                                              \
        return (int64_t)x;                                                                     \
    }

/* A number above the largest int64_t becomes that. */
static int64_t whole_at(sw_number type, const unsigned char *at)
{
    uint64_t u64;
    switch (type) {
    case SW_NUMBER_I8:
        READ(int8_t)
    case SW_NUMBER_BOOL:
        return *at != 0;
    case SW_NUMBER_U16:
        READ(uint16_t)
    case SW_NUMBER_I16:
        READ(int16_t)
    case SW_NUMBER_U32:
        READ(uint32_t)
    case SW_NUMBER_I32:
        READ(int32_t)
    case SW_NUMBER_I64:
        READ(int64_t)
    case SW_NUMBER_U64:
        memcpy(&u64, at, sizeof u64);
        return u64 > INT64_MAX ? INT64_MAX : (int64_t)u64;
    default:
        return *at;
    }
}

static double real_at(sw_number type, const unsigned char *at)
{
    float f32;
    double f64;
    uint64_t u64;
    switch (type) {
    case SW_NUMBER_F32:
        memcpy(&f32, at, sizeof f32);
        return (double)f32;
    case SW_NUMBER_F64:
        memcpy(&f64, at, sizeof f64);
        return f64;
    case SW_NUMBER_U64:
        memcpy(&u64, at, sizeof u64);
        return (double)u64;
    default:
        return (double)whole_at(type, at);
    }
}

static float float_at(const swi_take *t, const unsigned char *at)
{
    const float x = (float)real_at(t->from, at);
    return t->scaled ? x * t->scale + t->shift : x;
}

static void put_whole(sw_dtype dtype, unsigned char *to, int64_t x)
{
    const uint16_t u16 = (uint16_t)x;
    const int32_t i32 = (int32_t)x;
    if (dtype == SW_U8)
        *to = (unsigned char)x;
    else if (dtype == SW_U16)
        memcpy(to, &u16, sizeof u16);
    else
        memcpy(to, &i32, sizeof i32);
}

/* ---- many -------------------------------------------------------------------------------- */

static size_t take_floats(const swi_take *t, unsigned char *to, ptrdiff_t to_step,
                          const unsigned char *from, ptrdiff_t from_step, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float x = float_at(t, from + (ptrdiff_t)i * from_step);
        if (!isfinite(x))
            return i;
        if (to != NULL)
            memcpy(to + (ptrdiff_t)i * to_step, &x, sizeof x);
    }
    return n;
}

size_t swi_take_numbers(const swi_take *t, unsigned char *to, ptrdiff_t to_step,
                        const unsigned char *from, ptrdiff_t from_step, size_t n,
                        int64_t *largest)
{
    if (t->to == SW_F32)
        return take_floats(t, to, to_step, from, from_step, n);
    for (size_t i = 0; i < n; i++) {
        const int64_t x = whole_at(t->from, from + (ptrdiff_t)i * from_step);
        if (x < t->low || x > t->high)
            return i;
        *largest = x > *largest ? x : *largest;
        if (to != NULL)
            put_whole(t->to, to + (ptrdiff_t)i * to_step, x);
    }
    return n;
}

static const char *number_text(const swi_take *t, const unsigned char *from, char *text,
                               size_t bytes)
{
    uint64_t u64;
    if (t->from == SW_NUMBER_U64) {
        memcpy(&u64, from, sizeof u64);
        snprintf(text, bytes, "%llu", (unsigned long long)u64);
    } else if (swi_number_is_whole(t->from)) {
        snprintf(text, bytes, "%lld", (long long)whole_at(t->from, from));
    } else {
        snprintf(text, bytes, "%g", real_at(t->from, from));
    }
    return text;
}

const char *swi_take_reason(const swi_take *t, const unsigned char *from, char *text)
{
    char number[40];
    number_text(t, from, number, sizeof number);
    if (t->to != SW_F32)
        snprintf(text, SWI_TAKE_TEXT, "must be %lld to %lld (got %s)", (long long)t->low,
                 (long long)t->high, number);
    else if (isfinite(real_at(t->from, from)))
        snprintf(text, SWI_TAKE_TEXT, "must be finite as f32 (got %s)", number);
    else
        snprintf(text, SWI_TAKE_TEXT, "must be finite (got %s)", number);
    return text;
}
