/* Initialisers, by Philox: the same numbers on every machine for (seed, name). */
#include "alloc/base/mem.h"
#include "kernels/rng.h"
#include "runtime/base/owner.h"
#include "runtime/base/run_observer.h"
#include "runtime/base/common.h"
#include "runtime/base/structs.h"
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

/* ---- alive ------------------------------------------------------------------------------- */

struct swi_alive {
    uint32_t holders; /* atomic */
    int ended;        /* atomic */
};

static uint64_t ended; /* atomic: lives so far */

sw_status swi_alive_begin(swi_alive **out)
{
    SW_TRY(sw_heap_alloc(out, SW_HEAP_RECORDS, sizeof(swi_alive)));
    (*out)->holders = 1;
    return SW_OK;
}

void swi_alive_end(swi_alive *life)
{
    if (life == NULL)
        return;
    __atomic_store_n(&life->ended, 1, __ATOMIC_RELEASE);
    __atomic_add_fetch(&ended, 1, __ATOMIC_RELEASE);
    swi_alive_drop(life);
}

void swi_alive_hold(swi_alive *life)
{
    __atomic_add_fetch(&life->holders, 1, __ATOMIC_RELAXED);
}

void swi_alive_drop(swi_alive *life)
{
    if (__atomic_sub_fetch(&life->holders, 1, __ATOMIC_ACQ_REL) == 0)
        sw_heap_free(life, SW_HEAP_RECORDS, sizeof *life);
}

bool swi_alive_has_ended(const swi_alive *life)
{
    return __atomic_load_n(&life->ended, __ATOMIC_ACQUIRE) != 0;
}

uint64_t swi_alive_ended(void)
{
    return __atomic_load_n(&ended, __ATOMIC_ACQUIRE);
}

/* ---- owner ------------------------------------------------------------------------------- */

/* Owners. */

static uintptr_t me(void)
{
    static _Thread_local char here;
    return (uintptr_t)&here;
}

bool swi_owner_take(swi_owner *owner)
{
    swi_owner nobody = 0;
    return __atomic_compare_exchange_n(owner, &nobody, me(), false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

void swi_owner_give(swi_owner *owner)
{
    __atomic_store_n(owner, 0, __ATOMIC_RELEASE);
}

const char *swi_owner_text(const swi_owner *owner)
{
    return __atomic_load_n(owner, __ATOMIC_RELAXED) == me()
               ? "this thread: by a call that goes on, whose step function or visitor made "
                 "this one, or that longjmp left"
               : "another thread";
}

/* ---- structs ----------------------------------------------------------------------------- */

/* Public structs grow by members at their end. Members that a caller's header did not have are
 * zero, those that ours does not have are ignored, and no size may cut a member. */

#define END(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))
#define WHOLE(type, end) (((end) + _Alignof(type) - 1) / _Alignof(type) * _Alignof(type))

#define SWI_SINCE(type, member)
#define SWI_STRUCT(type, first, now)                                                           \
    _Static_assert(offsetof(type, size) == 0, #type " must begin with its size");              \
    _Static_assert(WHOLE(type, END(type, now)) == sizeof(type),                                \
                   #type " has a member that structs.def does not have");
#include "runtime/base/structs.def"
#undef SWI_STRUCT

#define SWI_STRUCT(type, first, now) {#type, sizeof(type), WHOLE(type, END(type, first))},
static const struct {
    const char *name;
    size_t bytes, least;
} structs[] = {
#include "runtime/base/structs.def"
};
#undef SWI_STRUCT
#undef SWI_SINCE

/* Members since 0.1. The row in front keeps the array from being empty. */
#define SWI_STRUCT(type, first, now) enum { type##_least = WHOLE(type, END(type, first)) };
#define SWI_SINCE(type, member)                                                                \
    _Static_assert(offsetof(type, member) >= type##_least, #type "." #member " is in "         \
                                                                 "padding");
#include "runtime/base/structs.def"
#undef SWI_STRUCT
#undef SWI_SINCE
#define SWI_STRUCT(type, first, now)
#define SWI_SINCE(type, member)                                                                \
    {SWI_STRUCT_##type, #member, offsetof(type, member), END(type, member)},
static const struct {
    swi_struct of;
    const char *name;
    size_t from, end;
} since[] = {
    {SWI_STRUCTS, "", 0, 0},
#include "runtime/base/structs.def"
};

sw_status swi_given(bool given, const char *names, const char *call)
{
    if (!given)
        SW_FAIL(SW_INVALID, "%s: %s must not be NULL", call, names);
    return SW_OK;
}

sw_status swi_struct_check(swi_struct which, const void *out, const char *call)
{
    const char *name = structs[which].name;
    size_t size;
    SW_TRY(swi_given(out != NULL, "out", call));
    memcpy(&size, out, sizeof size);
    if (size == 0)
        SW_FAIL(SW_INVALID, "%s: %s.size is 0: set it to sizeof(%s)", call, name, name);
    if (size < structs[which].least || size > SWI_STRUCT_MOST)
        SW_FAIL(SW_INVALID, "%s: %s.size must be %zu to %zu (got %zu): set it to sizeof(%s)",
                call, name, structs[which].least, SWI_STRUCT_MOST, size, name);
    for (size_t i = 0; i < sizeof since / sizeof *since; i++)
        if (since[i].of == which && size > since[i].from && size < since[i].end)
            SW_FAIL(SW_INVALID, "%s: %s.size is %zu, inside of `%s`: set it to sizeof(%s)",
                    call, name, size, since[i].name, name);
    return SW_OK;
}

sw_status swi_struct_read(swi_struct which, void *to, const void *given, const char *call)
{
    const size_t bytes = structs[which].bytes;
    size_t size = 0;
    if (given != NULL) {
        SW_TRY(swi_struct_check(which, given, call));
        memcpy(&size, given, sizeof size);
    }
    memset(to, 0, bytes);
    if (given != NULL)
        memcpy(to, given, size < bytes ? size : bytes);
    memcpy(to, &bytes, sizeof bytes);
    return SW_OK;
}

void swi_struct_write(swi_struct which, void *out, const void *from)
{
    const size_t bytes = structs[which].bytes;
    size_t size;
    memcpy(&size, out, sizeof size);
    memcpy(out, from, size < bytes ? size : bytes);
    memcpy(out, &size, sizeof size);
}

static const swi_observer *const none[] = {NULL};
const swi_observer *const *swi_observers = none;
