/* Which copy of the kernels runs here. */
#include "kernels/dispatch.h"
#include <errno.h>
#include <string.h>
#if SW_ISA_COUNT > 1
#include <cpuid.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
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

int sw_cpu_bf16(void)
{
    int has = 0;
#if SW_ISA_COUNT > 1
    const unsigned tiles = 3u << 17, kinds = 1u << 24 | 1u << 22; /* XCR0; leaf 7, edx */
    unsigned a, b, c, d, low, high, most = 0;
    if (sw_cpu_isa() < SW_ISA_AVX512 || !__get_cpuid_count(7, 0, &most, &b, &c, &d))
        return 0;
    const bool amx = (d & kinds) == kinds;
    if (most == 0 || !__get_cpuid_count(7, 1, &a, &b, &c, &d) || (a >> 5 & 1u) == 0)
        return 0;
    has = SW_BF16_DOT | (__builtin_cpu_is("amd") ? SW_BF16_DOT_PAYS : 0);
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if (amx && (low & tiles) == tiles)
        has |= SW_BF16_AMX;
#endif
    return has;
}

bool sw_cpu_packs_rows(void)
{
#if SW_ISA_COUNT > 1
    return sw_cpu_isa() == SW_ISA_AVX512 && __builtin_cpu_is("intel");
#else
    return false;
#endif
}

static const char *ask_tiles(void)
{
#if SW_ISA_COUNT > 1 && defined(__linux__)
    enum { ASK = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM */
    if (syscall(SYS_arch_prctl, ASK, TILE_DATA) == 0)
        return NULL;
    return errno == ENOSPC ? "a thread has a signal stack below 11,952 bytes"
                           : "the system refuses it";
#else
    return "it can be asked for on Linux alone";
#endif
}

sw_bf16_order sw_order_way(sw_bf16_order order, int bf16, const char **refused)
{
    *refused = NULL;
    if (order == SW_ORDER_PAIR && (bf16 & ~SW_BF16_AMX) != 0)
        return SW_ORDER_PAIR_DOT;
    if (order == SW_ORDER_TILE && (bf16 & SW_BF16_AMX) != 0 && (*refused = ask_tiles()) == NULL)
        return SW_ORDER_TILE_AMX;
    return order;
}

const char *sw_order_by(sw_bf16_order way, sw_isa isa)
{
    return way == SW_ORDER_PAIR_DOT   ? "VDPBF16PS"
           : way == SW_ORDER_TILE_AMX ? "AMX"
           : isa == SW_ISA_BASE       ? "product and sum"
                                      : "FMA";
}

static const char *const isa_names[] = {"base", "avx2", "avx512", "avx512-bf16", "amx"};

const char *sw_isa_name(sw_isa isa)
{
    return (unsigned)isa < 3 ? isa_names[isa] : "?";
}

const char *sw_isa_best(void)
{
    const int bf16 = sw_cpu_bf16();
    return isa_names[(bf16 & SW_BF16_AMX) != 0   ? 4
                     : (bf16 & SW_BF16_DOT) != 0 ? 3
                                                 : (int)sw_cpu_isa()];
}

bool sw_isa_named(const char *name, sw_isa *isa, int *bf16)
{
    *isa = sw_cpu_isa();
    *bf16 = sw_cpu_bf16() & (SW_BF16_DOT_PAYS | SW_BF16_AMX);
    for (int i = 0; name != NULL; i++) {
        if (i == 5)
            return false;
        if (strcmp(name, isa_names[i]) == 0) {
            *isa = (sw_isa)(i < 3 ? i : 2);
            *bf16 = i < 3 ? 0 : i == 3 ? SW_BF16_DOT : SW_BF16_AMX | (*bf16 & SW_BF16_DOT_PAYS);
            break;
        }
    }
    return true;
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
