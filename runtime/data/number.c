/* Decimal numbers to floats, rounded to the nearest, the same in every locale.
 *
 * A double that is wrong by less than 2^-46 decides nearly all of them: it only leaves open on
 * which side of the middle between two floats a number lies when it is that close to it. Then
 * number and middle are compared exactly, as whole numbers of up to 1280 bits. */
#include "runtime/data/data_internal.h"
#include <math.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Whether n bytes are `word`, written in lower case, in any case. */
static bool is_word(const char *text, size_t n, const char *word)
{
    if (strlen(word) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((text[i] | 32) != word[i])
            return false;
    return true;
}

/* One digit of the mantissa; `after` the decimal point. Zeros count once another digit
 * follows. */
static void take_digit(swi_decimal *d, char digit, bool behind, int64_t *zeros)
{
    d->exponent -= behind;
    if (digit == '0') {
        *zeros += d->n_digits > 0;
        return;
    }
    for (; *zeros > 0 && d->n_digits < SWI_DIGITS; --*zeros)
        d->digit[d->n_digits++] = '0';
    if (*zeros == 0 && d->n_digits < SWI_DIGITS) {
        d->digit[d->n_digits++] = digit;
        return;
    }
    d->exponent += *zeros + 1; /* no room: what is after the digits only counts as there */
    *zeros = 0;
    d->more = true;
}

/* The exponent after an 'e'; false where there is none. Past a billion all are alike. */
static bool take_exponent(const char *text, size_t n, int64_t *out)
{
    const bool negative = n > 0 && text[0] == '-';
    size_t i = n > 0 && (text[0] == '-' || text[0] == '+');
    int64_t e = 0;
    if (i == n)
        return false;
    for (; i < n; i++) {
        if (!is_digit(text[i]))
            return false;
        e = e < 1000000000 ? e * 10 + (text[i] - '0') : e;
    }
    *out = negative ? -e : e;
    return true;
}

swi_number_kind swi_decimal_read(const char *text, size_t n, swi_decimal *d)
{
    int64_t zeros = 0, exponent = 0;
    size_t i = 0;
    bool any = false, behind = false;
    d->n_digits = 0;
    d->exponent = 0;
    d->more = false;
    d->negative = n > 0 && text[0] == '-';
    if (n > 0 && (text[0] == '-' || text[0] == '+'))
        i++;
    if (is_word(text + i, n - i, "nan") || is_word(text + i, n - i, "inf") ||
        is_word(text + i, n - i, "infinity"))
        return SWI_NOT_FINITE;
    for (; i < n && (is_digit(text[i]) || (text[i] == '.' && !behind)); i++) {
        if (text[i] == '.') {
            behind = true;
            continue;
        }
        take_digit(d, text[i], behind, &zeros);
        any = true;
    }
    if (!any || (i < n && (text[i] | 32) != 'e') ||
        (i < n && !take_exponent(text + i + 1, n - i - 1, &exponent)))
        return SWI_NO_NUMBER;
    d->exponent += zeros + exponent;
    return SWI_NUMBER;
}

bool swi_decimal_whole(const swi_decimal *d, char *text)
{
    if (d->n_digits == 0) {
        memcpy(text, "0", 2);
        return true;
    }
    if (d->more || d->exponent < 0 || d->exponent + d->n_digits > 18)
        return false;
    if (d->negative)
        *text++ = '-';
    memcpy(text, d->digit, (size_t)d->n_digits);
    memset(text + d->n_digits, '0', (size_t)d->exponent);
    text[d->n_digits + d->exponent] = '\0';
    return true;
}

/* ---- exact comparison -------------------------------------------------------------------- */

#define WORDS 40
typedef struct {
    uint32_t at[WORDS]; /* the lowest first */
} whole;

static void multiply(whole *a, uint32_t by, uint32_t add)
{
    uint64_t carry = add;
    for (int i = 0; i < WORDS; i++) {
        carry += (uint64_t)a->at[i] * by;
        a->at[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

static void multiply_power(whole *a, uint32_t base, int64_t power)
{
    for (int64_t i = 0; i < power; i++)
        multiply(a, base, 0);
}

/* Whether the number, without its sign, is below (-1), at (0) or above (1) middle * 2^power.
 * Both fit: they are close to each other, so both are below 2^130, with 128 digits at most and
 * 2^-150 at least. */
static int compare(const swi_decimal *d, uint64_t middle, int power)
{
    whole a = {{0}}, b = {{(uint32_t)middle, (uint32_t)(middle >> 32)}};
    for (int i = 0; i < d->n_digits; i++)
        multiply(&a, 10, (uint32_t)(d->digit[i] - '0'));
    const int64_t e = d->exponent;
    multiply_power(e > 0 ? &a : &b, 5, e > 0 ? e : -e);
    const int64_t shift = e - power;
    multiply_power(shift > 0 ? &a : &b, 2, shift > 0 ? shift : -shift);
    for (int i = WORDS; i-- > 0;)
        if (a.at[i] != b.at[i])
            return a.at[i] < b.at[i] ? -1 : 1;
    return d->more ? 1 : 0;
}

/* ---- rounding ---------------------------------------------------------------------------- */

/* The value but for its sign: the first 19 digits, then powers of ten, each rounded once. The
 * caller has seen to it that it lies between 1e-47 and 1e40. */
static double estimate(const swi_decimal *d)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const int n = d->n_digits < 19 ? d->n_digits : 19;
    uint64_t m = 0;
    for (int i = 0; i < n; i++)
        m = m * 10 + (uint64_t)(d->digit[i] - '0');
    double x = (double)m;
    int64_t e = d->exponent + d->n_digits - n;
    for (; e > 22; e -= 22)
        x *= 1e22;
    for (; e < -22; e += 22)
        x /= 1e22;
    return e < 0 ? x / tens[-e] : x * tens[e];
}

bool swi_decimal_float(const swi_decimal *d, float *out)
{
    const int64_t top = d->n_digits + d->exponent; /* the value is below 10^top */
    float f = 0.0f;
    if (top > 40 && d->n_digits > 0)
        return false;
    if (d->n_digits > 0 && top > -46) {
        const double x = estimate(d);
        int exponent;
        (void)frexp(x, &exponent);
        /* in units of the last place of floats like it, of which the smallest is 2^-149 */
        const int unit = exponent - 24 > -149 ? exponent - 24 : -149;
        const double scaled = ldexp(x, -unit), below = floor(scaled), rest = scaled - below;
        uint64_t k = (uint64_t)below;
        bool up = rest > 0.5;
        if (fabs(rest - 0.5) < 0x1p-16) {
            const int side = compare(d, 2 * k + 1, unit - 1);
            up = side > 0 || (side == 0 && (k & 1) != 0);
        }
        k += up;
        f = ldexpf((float)k, unit);
    }
    if (isinf(f))
        return false;
    *out = d->negative ? -f : f;
    return true;
}
