/* Which copy of the kernels runs here. */
#include "kernels/dispatch.h"

extern const sw_dense_kernels sw_dense_kernels_table_base;
extern const sw_norm_kernels sw_norm_kernels_table_base;
extern const sw_pointwise_kernels sw_pointwise_kernels_table_base;
extern const sw_axes_kernels sw_axes_kernels_table_base;
extern const sw_noise_kernels sw_noise_kernels_table_base;
extern const sw_binary_kernels sw_binary_kernels_table_base;
#if SW_ISA_COUNT > 1
extern const sw_dense_kernels sw_dense_kernels_table_avx2, sw_dense_kernels_table_avx512;
extern const sw_pointwise_kernels sw_pointwise_kernels_table_avx2,
    sw_pointwise_kernels_table_avx512;
extern const sw_axes_kernels sw_axes_kernels_table_avx2, sw_axes_kernels_table_avx512;
extern const sw_noise_kernels sw_noise_kernels_table_avx2, sw_noise_kernels_table_avx512;
extern const sw_binary_kernels sw_binary_kernels_table_avx2, sw_binary_kernels_table_avx512;
extern const sw_norm_kernels sw_norm_kernels_table_avx2, sw_norm_kernels_table_avx512;
static const sw_norm_kernels *const norm[] = {
    &sw_norm_kernels_table_base, &sw_norm_kernels_table_avx2, &sw_norm_kernels_table_avx512};
static const sw_dense_kernels *const dense[] = {
    &sw_dense_kernels_table_base, &sw_dense_kernels_table_avx2, &sw_dense_kernels_table_avx512};
static const sw_pointwise_kernels *const point[] = {&sw_pointwise_kernels_table_base,
                                                    &sw_pointwise_kernels_table_avx2,
                                                    &sw_pointwise_kernels_table_avx512};
static const sw_axes_kernels *const axes[] = {
    &sw_axes_kernels_table_base, &sw_axes_kernels_table_avx2, &sw_axes_kernels_table_avx512};
static const sw_noise_kernels *const noise[] = {
    &sw_noise_kernels_table_base, &sw_noise_kernels_table_avx2, &sw_noise_kernels_table_avx512};
static const sw_binary_kernels *const binary[] = {&sw_binary_kernels_table_base,
                                                  &sw_binary_kernels_table_avx2,
                                                  &sw_binary_kernels_table_avx512};
#else
static const sw_binary_kernels *const binary[] = {&sw_binary_kernels_table_base};
static const sw_axes_kernels *const axes[] = {&sw_axes_kernels_table_base};
static const sw_noise_kernels *const noise[] = {&sw_noise_kernels_table_base};
static const sw_norm_kernels *const norm[] = {&sw_norm_kernels_table_base};
static const sw_dense_kernels *const dense[] = {&sw_dense_kernels_table_base};
static const sw_pointwise_kernels *const point[] = {&sw_pointwise_kernels_table_base};
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

const char *sw_isa_name(sw_isa isa)
{
    static const char *const names[] = {"base", "avx2", "avx512"};
    return (unsigned)isa < 3 ? names[isa] : "?";
}

static unsigned built(sw_isa isa)
{
    return (unsigned)isa < SW_ISA_COUNT ? (unsigned)isa : 0u;
}

const sw_dense_kernels *sw_dense(sw_isa isa)
{
    return dense[built(isa)];
}

const sw_norm_kernels *sw_norm(sw_isa isa)
{
    return norm[built(isa)];
}

const sw_pointwise_kernels *sw_pointwise(sw_isa isa)
{
    return point[built(isa)];
}

const sw_axes_kernels *sw_axes(sw_isa isa)
{
    return axes[built(isa)];
}

const sw_noise_kernels *sw_noise(sw_isa isa)
{
    return noise[built(isa)];
}

const sw_binary_kernels *sw_binary(sw_isa isa)
{
    return binary[built(isa)];
}

static void run_alone(const sw_par *par, void (*body)(void *arg, int part), void *arg,
                      int n_parts)
{
    (void)par;
    for (int i = 0; i < n_parts; i++)
        body(arg, i);
}

const sw_par sw_par_alone = {1, run_alone};
