/* The sigmas of separable natural evolution strategies: sigmas *= exp(rate / 2 sum over d of
 * w_d (e_d^2 - 1)), with the numbers e recomputed. Elementwise, so that bits are the CPU's. */
#include "kernels/cuda/noise_draw.h"

static constexpr int BLOCK = 64; /* directions that are summed apart */

struct snes_job {
    sw_noise_spec s;
    uint64_t seed;
    const sw_cuda_counters *counters;
    float *sigmas;
    const float *weights, *rate;
    const double *finite_check; /* NULL: 0 */
    int64_t n, directions;

    __device__ sw_noise_at at(int64_t d) const
    {
        return sw_noise_at{seed, counters->step, counters->run + (uint32_t)d};
    }
    __device__ bool off(void) const
    {
        return finite_check != nullptr && *finite_check != 0.0;
    }
};

/* Directions in order: those of a block, then blocks. */
struct snes_total {
    float block, sum;
    __device__ void add(float w, float e, int64_t d)
    {
        block += w * (e * e - 1.0f);
        if ((d + 1) % BLOCK == 0) {
            sum += block;
            block = 0.0f;
        }
    }
    __device__ float factor(float rate) const
    {
        return sw_expf(0.5f * rate * (sum + block));
    }
};

/* Normal iid noise: a thread has the four elements of a counter. */
__global__ void snes_iid_kernel(snes_job j)
{
    for (int64_t b = sw_cuda_thread(); 4 * b < j.n && !j.off(); b += sw_cuda_threads()) {
        snes_total total[4] = {};
        for (int64_t d = 0; d < j.directions; d++) {
            const sw_noise_at at = j.at(d);
            const float w = j.weights[d];
            uint32_t words[4];
            float four[4];
            sw_noise_words(words, &j.s, SW_NOISE_ELEMENTS, &at, (uint32_t)b);
            sw_noise_normal4(four, words);
            for (int k = 0; k < 4; k++)
                total[k].add(w, four[k], d);
        }
        for (int k = 0; k < 4; k++)
            if (4 * b + k < j.n)
                j.sigmas[4 * b + k] *= total[k].factor(*j.rate);
    }
}

/* Other numbers, each alone. */
__global__ void snes_element_kernel(snes_job j)
{
    for (int64_t i = sw_cuda_thread(); i < j.n && !j.off(); i += sw_cuda_threads()) {
        snes_total total = {};
        for (int64_t d = 0; d < j.directions; d++) {
            const sw_noise_at at = j.at(d);
            total.add(j.weights[d], sw_noise_number(&j.s, SW_NOISE_ELEMENTS, &at, i), d);
        }
        j.sigmas[i] *= total.factor(*j.rate);
    }
}

/* in: sigmas, weights, rate, [finite check]; out: sigmas, in their place */
SW_CUDA_ENTRY(snes_update, forward, NULL, 1)
{
    const swi_snes_attrs *a = sw_cuda_attrs<swi_snes_attrs>(l);
    snes_job j = {};
    j.s = a->spec;
    j.seed = l->seed;
    j.counters = queue->counters;
    j.sigmas = sw_cuda_out(l, 0);
    j.weights = sw_cuda_in(l, 1);
    j.rate = sw_cuda_in(l, 2);
    j.finite_check = a->has_finite_check != 0
                         ? static_cast<const double *>(l->in[l->n_in - 1].ptr)
                         : nullptr;
    j.n = sw_cuda_elements(&l->out[0].type);
    j.directions = l->in[1].type.shape.dim[0];
    if (j.n == 0)
        return SW_OK;
    if (j.s.distribution == SW_NOISE_NORMAL)
        SW_CUDA_LAUNCH_FOR(snes_iid_kernel, j.n, 4 * SW_CUDA_THREADS, queue, j);
    else
        SW_CUDA_LAUNCH_FOR(snes_element_kernel, j.n, SW_CUDA_THREADS, queue, j);
    return sw_cuda_launched("snes_update");
}
