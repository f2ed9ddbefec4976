/* The steps of zeroth-order training: theta along its noise, direction 0. Elementwise, so that
 * bits are the CPU's. */
#include "kernels/cuda/noise_draw.h"

static constexpr int CHUNK = SW_CUDA_NOISE_CHUNK; /* columns of a block */
static constexpr int ROWS = 16;                   /* and rows */
static constexpr int RANKS = 4;                   /* with more, each element is made alone */

struct move_job {
    swi_move_attrs a;
    uint64_t seed;
    const sw_cuda_counters *counters;
    float *theta;
    const float *numbers;
    int64_t rows, cols; /* of the matrix of noise */

    /* theta after the move by its noise z; each product and sum is rounded. */
    __device__ float moved(float theta_, float z) const
    {
        const float by = numbers[SWI_MOVE_A];
        float t = theta_ + by * z;
        if (a.move == SWI_MOVE_ALL) {
            t += -2.0f * by * z;
            t += by * z;
        }
        if (a.move == SWI_MOVE_BY_NOISE)
            return t;
        const float c = numbers[SWI_MOVE_C], lr = numbers[SWI_MOVE_LR];
        return a.decays != 0 ? t - lr * (c * z + numbers[SWI_MOVE_WD] * t) : t - lr * (c * z);
    }
};

/* Normal iid noise. */
__global__ void move_iid_kernel(move_job j)
{
    const sw_noise_at at = {j.seed, j.counters->step, 0};
    const int64_t n = j.rows * j.cols;
    for (int64_t b = sw_cuda_thread(); 4 * b < n; b += sw_cuda_threads()) {
        uint32_t words[4];
        float four[4];
        sw_noise_words(words, &j.a.noise, SW_NOISE_ELEMENTS, &at, (uint32_t)b);
        sw_noise_normal4(four, words);
        for (int k = 0; k < 4; k++)
            if (4 * b + k < n)
                j.theta[4 * b + k] = j.moved(j.theta[4 * b + k], four[k]);
    }
}

/* Few factors: a block has some rows and columns, and makes their numbers once. */
__global__ void move_low_rank_kernel(move_job j)
{
    SW_SHARED(float, a, RANKS *ROWS);
    SW_SHARED(float, b, RANKS *CHUNK);
    const sw_noise_spec &s = j.a.noise;
    const sw_noise_at at = {j.seed, j.counters->step, 0};
    const float scale = sw_noise_scale(&s);
    const int64_t across = (j.cols + CHUNK - 1) / CHUNK;
    for (int64_t w = blockIdx.x; w < across * ((j.rows + ROWS - 1) / ROWS); w += gridDim.x) {
        const int64_t row = w / across * ROWS, col = w % across * CHUNK;
        const unsigned rows = (unsigned)(j.rows - row < ROWS ? j.rows - row : ROWS);
        const unsigned cols = (unsigned)(j.cols - col < CHUNK ? j.cols - col : CHUNK);
        __syncthreads();
        for (int k = 0; k < s.rank; k++) {
            sw_cuda_noise_fill(a + k * ROWS, s, SW_NOISE_ROWS, at, k * s.rows + row, rows);
            sw_cuda_noise_fill(b + k * CHUNK, s, SW_NOISE_COLS, at, k * s.cols + col, cols);
        }
        __syncthreads();
        for (unsigned t = threadIdx.x; t < rows * cols; t += blockDim.x) {
            const unsigned r = t / cols, c = t % cols;
            float *theta = j.theta + (row + r) * j.cols + col + c, z = 0.0f;
            for (int k = 0; k < s.rank; k++)
                z = fmaf(a[k * ROWS + r], b[k * CHUNK + c], z);
            *theta = j.moved(*theta, z * scale);
        }
    }
}

__global__ void move_element_kernel(move_job j)
{
    SW_SHARED(sw_noise_direction, d, 1);
    const sw_noise_at at = {j.seed, j.counters->step, 0};
    sw_cuda_noise_begin(d, j.a.noise, at, 1.0f);
    for (int64_t i = sw_cuda_thread(); i < j.rows * j.cols; i += sw_cuda_threads())
        j.theta[i] =
            j.moved(j.theta[i], sw_noise_element(&j.a.noise, d, i / j.cols, i % j.cols, 0.0f));
}

/* in: param, numbers (swi_move); out: param, in its place */
SW_CUDA_ENTRY(noise_move, forward, NULL, 1)
{
    move_job j = {};
    j.a = *sw_cuda_attrs<swi_move_attrs>(l);
    const sw_noise_spec *s = &j.a.noise;
    j.seed = l->seed;
    j.counters = queue->counters;
    j.theta = sw_cuda_out(l, 0);
    j.numbers = sw_cuda_in(l, 1);
    j.rows = s->rows;
    j.cols = s->cols;
    const int64_t n = sw_cuda_elements(&l->out[0].type);
    if (n == 0)
        return SW_OK;
    if (s->kind == SW_NOISE_IID && s->distribution == SW_NOISE_NORMAL)
        SW_CUDA_LAUNCH_FOR(move_iid_kernel, n, 4 * SW_CUDA_THREADS, queue, j);
    else if (s->kind == SW_NOISE_LOW_RANK && s->rank <= RANKS)
        SW_CUDA_LAUNCH_FOR(move_low_rank_kernel,
                           (j.rows + ROWS - 1) / ROWS * ((j.cols + CHUNK - 1) / CHUNK), 1,
                           queue, j);
    else
        SW_CUDA_LAUNCH_FOR(move_element_kernel, n, SW_CUDA_THREADS, queue, j);
    return sw_cuda_launched("noise_move");
}
