/* Initialisers, by Philox: the same numbers on every machine for (seed, name). */
#include "kernels/rng.h"
#include "runtime/base/common.h"
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { INIT_CONSTANT, INIT_NORMAL, INIT_UNIFORM } init_kind;
typedef struct {
    init_kind kind;
    double a, b; /* constant; standard deviation; lower and upper bound */
} init_rule;

/* Numbers have a decimal point whatever the program's locale is: this thread's locale is "C"
 * from enter to leave. The C locale is part of the C library; asking for it takes no memory. */
typedef struct {
    locale_t c, before;
} c_locale;

static c_locale enter_c(void)
{
    c_locale l = {newlocale(LC_ALL_MASK, "C", (locale_t)0), (locale_t)0};
    if (l.c != (locale_t)0)
        l.before = uselocale(l.c);
    return l;
}

static void leave_c(c_locale l)
{
    if (l.c == (locale_t)0)
        return;
    (void)uselocale(l.before);
    freelocale(l.c);
}

void swi_init_uniform(char *to, size_t bytes, double bound)
{
    const c_locale l = enter_c();
    snprintf(to, bytes, "uniform:%.17g,%.17g", -bound, bound);
    leave_c(l);
}

void swi_init_constant(char *to, size_t bytes, double value)
{
    const c_locale l = enter_c();
    snprintf(to, bytes, "constant:%.17g", value);
    leave_c(l);
}

/* Read "name:numbers"; the number of them must match and nothing may follow. They are decimal:
 * strtod reads 0x10, " 1" and "nan" too. */
static bool numbers_after(const char *text, const char *name, int n, double *out)
{
    const size_t length = strlen(name);
    if (strncmp(text, name, length) != 0 || text[length] != ':')
        return false;
    const char *p = text + length + 1;
    for (int i = 0; i < n; i++) {
        char *end;
        out[i] = strtod(p, &end);
        if (end == p || strspn(p, "+-.0123456789eE") != (size_t)(end - p) ||
            !isfinite(out[i]) || *end != (i + 1 < n ? ',' : '\0'))
            return false;
        p = end + 1;
    }
    return true;
}

static bool parse_rule(const char *text, double fan_in, double fan_out, init_rule *out)
{
    double v[2] = {0, 0};
    if (strcmp(text, "zeros") == 0)
        *out = (init_rule){INIT_CONSTANT, 0, 0};
    else if (strcmp(text, "ones") == 0)
        *out = (init_rule){INIT_CONSTANT, 1, 0};
    else if (numbers_after(text, "constant", 1, v))
        *out = (init_rule){INIT_CONSTANT, v[0], 0};
    else if (numbers_after(text, "normal", 1, v) && v[0] >= 0)
        *out = (init_rule){INIT_NORMAL, v[0], 0};
    else if (numbers_after(text, "uniform", 2, v) && v[0] <= v[1])
        *out = (init_rule){INIT_UNIFORM, v[0], v[1]};
    else if (strcmp(text, "kaiming_normal") == 0)
        *out = (init_rule){INIT_NORMAL, sqrt(2.0 / fan_in), 0};
    else if (strcmp(text, "kaiming_uniform") == 0)
        *out = (init_rule){INIT_UNIFORM, -sqrt(6.0 / fan_in), sqrt(6.0 / fan_in)};
    else if (strcmp(text, "xavier_normal") == 0)
        *out = (init_rule){INIT_NORMAL, sqrt(2.0 / (fan_in + fan_out)), 0};
    else if (strcmp(text, "xavier_uniform") == 0)
        *out = (init_rule){INIT_UNIFORM, -sqrt(6.0 / (fan_in + fan_out)),
                           sqrt(6.0 / (fan_in + fan_out))};
    else
        return false;
    return true;
}

static bool parse(const char *text, double fan_in, double fan_out, init_rule *out)
{
    const c_locale l = enter_c();
    const bool known = parse_rule(text, fan_in, fan_out, out);
    leave_c(l);
    return known;
}

sw_status swi_init_check(const char *init)
{
    init_rule rule;
    if (!parse(init, 1, 1, &rule))
        SW_FAIL(SW_INVALID, "unknown initialiser '%s'", init);
    return SW_OK;
}

sw_status swi_init_values(float *to, int64_t first, int64_t n, const sw_shape *shape,
                          const char *init, uint64_t seed, const char *name)
{
    double receptive = 1, all = 1;
    for (int i = 0; i < shape->rank; i++)
        all *= (double)shape->dim[i];
    for (int i = 2; i < shape->rank; i++)
        receptive *= (double)shape->dim[i];
    const double fan_in = (shape->rank >= 2 ? (double)shape->dim[1] : all) * receptive;
    const double fan_out = (shape->rank >= 1 ? (double)shape->dim[0] : 1) * receptive;
    init_rule rule;
    if (!parse(init, fan_in, fan_out, &rule))
        SW_FAIL(SW_INVALID, "'%s': unknown initialiser '%s'", name, init);
    const uint32_t stream = sw_rng_stream(name);
    if (rule.kind == INIT_CONSTANT) {
        for (int64_t i = 0; i < n; i++)
            to[i] = (float)rule.a;
    } else if (rule.kind == INIT_NORMAL) {
        sw_rng_normal(to, first, n, seed, stream, UINT32_MAX, 0);
        for (int64_t i = 0; i < n; i++)
            to[i] *= (float)rule.a;
    } else {
        sw_rng_uniform(to, first, n, seed, stream, UINT32_MAX, 0);
        for (int64_t i = 0; i < n; i++)
            to[i] = (float)rule.a + (float)(rule.b - rule.a) * to[i];
    }
    return SW_OK;
}
