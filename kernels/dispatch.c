/* Which copy of the kernels runs here. */
#include "kernels/dispatch.h"
#if SW_ISA_COUNT > 1
#include <cpuid.h>
#endif

sw_isa sw_cpu_isa(void)
{
#if SW_ISA_COUNT > 1
    /* The built-in asks the operating system too whether it saves the wide registers. */
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return SW_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return SW_ISA_AVX2;
#endif
    return SW_ISA_BASE;
}

bool sw_cpu_has_amx(void)
{
#if SW_ISA_COUNT > 1
    const unsigned tiles = 3u << 17, kinds = 1u << 24 | 1u << 22; /* XCR0; leaf 7, edx */
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c >> 27 & 1u) == 0)
        return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & tiles) == tiles && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
           (d & kinds) == kinds;
#else
    return false;
#endif
}

const char *sw_isa_name(sw_isa isa)
{
    static const char *const names[] = {"base", "avx2", "avx512"};
    return (unsigned)isa < 3 ? names[isa] : "?";
}

static unsigned built(sw_isa isa)
{
    return (unsigned)isa < SW_ISA_COUNT ? (unsigned)isa : 0u;
}

#if SW_ISA_COUNT > 1
#define TABLES(name) &name##_base, &name##_avx2, &name##_avx512
#else
#define TABLES(name) &name##_base
#endif
#define FAMILY(family)                                                                         \
    extern const sw_##family##_kernels sw_##family##_kernels_table_base;                       \
    extern const sw_##family##_kernels sw_##family##_kernels_table_avx2;                       \
    extern const sw_##family##_kernels sw_##family##_kernels_table_avx512;                     \
    const sw_##family##_kernels *sw_##family(sw_isa isa)                                       \
    {                                                                                          \
        static const sw_##family##_kernels *const of[] = {                                     \
            TABLES(sw_##family##_kernels_table)};                                              \
        return of[built(isa)];                                                                 \
    }
FAMILY(dense)
FAMILY(norm)
FAMILY(pointwise)
FAMILY(axes)
FAMILY(noise)
FAMILY(binary)

static void run_alone(const sw_par *par, void (*body)(void *arg, int part), void *arg,
                      int n_parts)
{
    (void)par;
    for (int i = 0; i < n_parts; i++)
        body(arg, i);
}

const sw_par sw_par_alone = {1, run_alone};
