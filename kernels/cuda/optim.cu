/* Ops that optimizers append: elementwise updates, kept gradients, step counters, clipping,
 * finite checks. Learning rate and other knobs, corrections, scales, flags and finite checks
 * are read on the device: they change between replays of a graph. */
#include "kernels/attrs.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/entries.h"
#include "kernels/cuda/group.h"
#include "kernels/cuda/image.h"
#include "kernels/cuda/planes.h"
#include "kernels/cuda/reduce.h"
#include "kernels/optim_step.h"
#include "kernels/tile_launch.h"

/* Inputs of updates of a parameter after its states, all read on the device: they change
 * between replays of a graph. in {param, grad, lr, states..., [corrections], [scale], [flag],
 * [finite check]}. Those that parameters of one optimizer share: */
struct update_inputs {
    const float *lr, *scale;   /* lr: the rate and what `reads` says of knobs; scale NULL: 1 */
    const double *corrections; /* NULL: 1 */
    int32_t reads;

    __device__ float gradient_scale(void) const
    {
        return scale != nullptr ? *scale : 1.0f;
    }
};

/* And each one's own. */
struct update_conditions {
    const float *flag;          /* NULL: 1 */
    const double *finite_check; /* NULL: 0 */

    /* No update is made: no gradient waits for one, or there was one that is not finite. */
    __device__ bool off(void) const
    {
        return (flag != nullptr && *flag == 0.0f) ||
               (finite_check != nullptr && *finite_check != 0.0);
    }
};

static inline void update_inputs_of(const sw_launch *l, update_inputs *in,
                                    update_conditions *when)
{
    const swi_update_attrs *a = sw_cuda_attrs<swi_update_attrs>(l);
    int next = 3 + a->n_state;
    in->lr = sw_cuda_in(l, 2);
    in->reads = a->reads;
    in->corrections =
        a->has_corrections ? static_cast<const double *>(l->in[next++].ptr) : nullptr;
    in->scale = a->has_scale ? sw_cuda_in(l, next++) : nullptr;
    when->flag = a->has_flag ? sw_cuda_in(l, next++) : nullptr;
    when->finite_check =
        a->has_finite_check ? static_cast<const double *>(l->in[next].ptr) : nullptr;
}

/* ---- updates ----------------------------------------------------------------------------- */

/* Shared by the launches of a group. */
struct update_all {
    update_inputs in;
    int32_t states, signs; /* signs: of states in 8 bits */
    sw_optim_rule rule;    /* but for what is read on the device */
};

/* out {param, states...}. */
struct update {
    float *p, *state[SW_OPTIM_STATES];
    const float *g;
    update_conditions when;
    int64_t n, wide;
};

static __device__ __forceinline__ void step_of(sw_optim rule, const sw_optim_numbers *n,
                                               float *p, float *s, float g)
{
    switch (rule) {
#define SW_RULE(rule, kind, states, operations)                                                \
    case SW_OPTIM_##rule:                                                                      \
        sw_##rule##_step(p, s, g, n);                                                          \
        break;
#define SW_OPTIMIZER(kind, states, operations) SW_RULE(kind, kind, states, operations)
#include "kernels/optimizers.def"
    default:
        break;
    }
}

template <int W>
static __device__ __forceinline__ void update_at(sw_optim rule, const update &u,
                                                 const sw_optim_numbers *n, int64_t i)
{
    float p[W], g[W], state[SW_OPTIM_STATES][W] = {};
    sw_cuda_load(p, u.p + i);
    sw_cuda_load(g, u.g + i);
    for (int k = 0; k < SW_OPTIM_STATES; k++)
        if (u.state[k] != nullptr)
            sw_cuda_load(state[k], u.state[k] + i);
    for (int w = 0; w < W; w++) {
        float s[SW_OPTIM_STATES];
        for (int k = 0; k < SW_OPTIM_STATES; k++)
            s[k] = state[k][w];
        step_of(rule, n, &p[w], s, g[w]);
        for (int k = 0; k < SW_OPTIM_STATES; k++)
            state[k][w] = s[k];
    }
    sw_cuda_store(u.p + i, p);
    for (int k = 0; k < SW_OPTIM_STATES; k++)
        if (u.state[k] != nullptr)
            sw_cuda_store(u.state[k] + i, state[k]);
}

static __device__ __forceinline__ sw_optim_numbers numbers_of(const update_all &all)
{
    sw_optim_rule rule = all.rule;
    sw_optim_read(&rule, all.in.lr, all.in.reads);
    rule.correction1 = all.in.corrections != nullptr ? all.in.corrections[0] : 1.0;
    rule.correction2 = all.in.corrections != nullptr ? all.in.corrections[1] : 1.0;
    return sw_optim_numbers_of(&rule, all.in.gradient_scale());
}

template <int ROWS> __global__ void update_kernel(sw_cuda_table<update_all, update, ROWS> t)
{
    const sw_cuda_place at = sw_cuda_place_in(t);
    const update u = t.row[at.row];
    if (u.when.off())
        return;
    const sw_optim_numbers n = numbers_of(t.all);
    const int64_t fours = u.wide ? u.n / 4 : 0;
    for (int64_t i = at.thread; i < fours; i += at.threads)
        update_at<4>(t.all.rule.kind, u, &n, 4 * i);
    for (int64_t i = 4 * fours + at.thread; i < u.n; i += at.threads)
        update_at<1>(t.all.rule.kind, u, &n, i);
}

/* The same with states in 8 bits (kernels/state8.h): a warp has a block of them, and a lane
 * every 32nd element of it. */
enum { STATES8 = 2 }; /* no rule has more of them */
struct update8 {
    float *p;
    const float *g;
    sw_state8 state[STATES8];
    update_conditions when;
    int64_t cols, row_blocks, blocks; /* of a row; of all */
};

/* Without their signs floats are in the order of their bits. */
struct largest_bits {
    static __device__ __forceinline__ uint32_t of(uint32_t a, uint32_t b)
    {
        return a > b ? a : b;
    }
    template <class T> static __device__ __forceinline__ T none(void)
    {
        return 0;
    }
};

/* sw_state8_byte, whose table is too large here: the first value that does not end before. */
static __device__ __forceinline__ uint8_t byte_of(const uint32_t *last, uint32_t bits,
                                                  bool has_sign)
{
    const uint32_t size = bits & 0x7fffffffu;
    uint32_t k = 0;
    for (uint32_t by = 128; by > 0; by /= 2)
        k += last[k + by - 1] < size ? by : 0;
    if (!has_sign)
        return (uint8_t)(k == 0 && size != 0 ? 1 : k); /* above 0 stays above 0 */
    return (uint8_t)(bits >> 31 == 0 || k == 0 ? k : 128 + (k < 127 ? k : 127));
}

template <int ROWS>
__global__ void __launch_bounds__(SW_CUDA_THREADS, 4)
    update8_kernel(sw_cuda_table<update_all, update8, ROWS> t)
{
    enum { CODES = 256, EACH = SW_STATE8_BLOCK / 32 };
    SW_SHARED(float, value, 2 * CODES); /* without a sign, and with one */
    SW_SHARED(uint32_t, last, 2 * CODES);
    const sw_cuda_place place = sw_cuda_place_in(t);
    const update8 e = t.row[place.row];
    if (e.when.off())
        return;
    const sw_optim_numbers numbers = numbers_of(t.all);
    for (uint32_t i = threadIdx.x; i < 2 * CODES; i += blockDim.x) {
        const bool has_sign = i >= CODES, below = has_sign && i % CODES > 128;
        last[i] = sw_state8_last(i % CODES, has_sign);
        value[i] = below ? -sw_state8_value(i % CODES - 128, true)
                         : sw_state8_value(i % CODES, has_sign);
    }
    __syncthreads();
    const int lane = (int)threadIdx.x % 32;
    for (int64_t b = place.thread / 32; b < e.blocks; b += place.threads / 32) {
        const int64_t col = b % e.row_blocks * SW_STATE8_BLOCK;
        const int64_t at = b / e.row_blocks * e.cols + col, left = e.cols - col;
        float s[EACH][STATES8] = {};
        uint32_t most[STATES8] = {};
        for (int w = 0; w < EACH; w++) {
            const int64_t i = lane + 32 * w;
            if (i >= left)
                continue;
            float now[SW_OPTIM_STATES] = {};
            for (int k = 0; k < STATES8; k++)
                if (k < t.all.states)
                    now[k] = value[(t.all.signs >> k & 1) * CODES + e.state[k].codes[at + i]] *
                             e.state[k].scales[b];
            float p = e.p[at + i];
            step_of(t.all.rule.kind, &numbers, &p, now, e.g[at + i]);
            e.p[at + i] = p;
            for (int k = 0; k < STATES8; k++) {
                s[w][k] = now[k];
                most[k] = largest_bits::of(most[k], sw_bits_of(now[k]) & 0x7fffffffu);
            }
        }
        for (int k = 0; k < STATES8; k++) {
            if (k >= t.all.states)
                continue;
            const bool has_sign = (t.all.signs >> k & 1) != 0;
            const uint32_t size = sw_cuda_warp_reduce<largest_bits>(most[k]);
            const bool none = size < 0x00800000u || size >= 0x7f800000u;
            const float scale = sw_float_of(!none                ? size
                                            : size < 0x00800000u ? 0
                                                                 : 0x7fc00000u);
            for (int w = 0; w < EACH; w++)
                if (lane + 32 * w < left)
                    e.state[k].codes[at + lane + 32 * w] =
                        none ? 0
                             : byte_of(last + has_sign * CODES, sw_bits_of(s[w][k] / scale),
                                       has_sign);
            if (lane == 0)
                e.state[k].scales[b] = scale;
        }
    }
}

/* The ops by their rules, for messages. */
static const char *const ops[] = {
#define SW_RULE(rule, kind, states, operations) #kind "_update",
#define SW_OPTIMIZER(kind, states, operations) #kind "_update",
#include "kernels/optimizers.def"
};

SW_CUDA_GROUP_KERNEL(update_launch, update_kernel);
SW_CUDA_GROUP_KERNEL(update8_launch, update8_kernel);

/* Any elementwise update, by the rule of its attributes. */
static sw_status update_run(const sw_launch *l, const sw_cuda_queue *queue)
{
    const swi_update_attrs *a = sw_cuda_attrs<swi_update_attrs>(l);
    const sw_shape *shape = &l->out[0].type.shape;
    const bool in8 = a->n_state > 0 && l->out[1].type.dtype == SW_U8;
    update_all all;
    update u = {};
    sw_cuda_zero(&all);
    u.p = sw_cuda_out(l, 0);
    u.g = sw_cuda_in(l, 1);
    u.n = sw_cuda_elements(&l->in[0].type);
    update_inputs_of(l, &all.in, &u.when);
    all.rule.kind = static_cast<sw_optim>(a->rule);
    all.rule.weight_decay = a->weight_decay;
    all.rule.momentum = a->momentum;
    all.rule.beta1 = a->beta1;
    all.rule.beta2 = a->beta2;
    all.rule.epsilon = a->epsilon;
    all.rule.decoupled = a->decoupled != 0;
    all.states = in8 ? a->n_state / 2 : a->n_state;
    if (in8) {
        update8 e = {};
        e.p = u.p;
        e.g = u.g;
        e.when = u.when;
        all.signs = sw_optim_state8(all.rule.kind);
        for (int k = 0; k < all.states; k++)
            e.state[k] = {static_cast<uint8_t *>(l->out[1 + 2 * k].ptr),
                          sw_cuda_out(l, 2 + 2 * k)};
        e.cols = sw_state8_cols(shape);
        e.row_blocks = sw_state8_blocks(e.cols);
        e.blocks = sw_state8_rows(shape) * e.row_blocks;
        return sw_cuda_group_add<update8_launch>(
            ops[a->rule], all, e, u.n > 0 ? sw_cuda_blocks(e.blocks, SW_CUDA_THREADS / 32) : 0,
            queue);
    }
    u.wide = sw_cuda_aligned(u.p) && sw_cuda_aligned(u.g);
    for (int k = 0; k < all.states; k++) {
        u.state[k] = sw_cuda_out(l, 1 + k);
        u.wide = u.wide && sw_cuda_aligned(u.state[k]);
    }
    return sw_cuda_group_add<update_launch>(
        ops[a->rule], all, u, u.n > 0 ? sw_cuda_blocks(u.n, 4 * SW_CUDA_THREADS) : 0, queue);
}

#define SW_OPTIMIZER(kind, states, operations)                                                 \
    extern "C" sw_status sw_cuda_##kind##_update_forward(const sw_launch *l,                   \
                                                         const sw_cuda_queue *queue)           \
    {                                                                                          \
        return update_run(l, queue);                                                           \
    }
#include "kernels/optimizers.def"

/* ---- kept gradients: in {kept, g, flag}, out {kept, flag} -------------------------------- */

struct keep {
    const float *flag;
    __device__ float operator()(float g, float kept) const
    {
        return *flag != 0.0f ? kept + g : g;
    }
};

__global__ void set_kernel(float *y, float value)
{
    if (sw_cuda_thread() == 0)
        *y = value;
}

/* The flag is set by a launch of its own: the first one's threads all read it. */
SW_CUDA_ENTRY(accumulate_into, forward, NULL, 1)
{
    SW_TRY(sw_cuda_elementwise_run<2>("accumulate_into", keep{sw_cuda_in(l, 2)},
                                      sw_cuda_out(l, 0), sw_cuda_in(l, 1), sw_cuda_out(l, 0),
                                      sw_cuda_elements(&l->in[1].type), 0, queue));
    SW_CUDA_LAUNCH(set_kernel, 1, 32, 0, queue, sw_cuda_out(l, 1), 1.0f);
    return sw_cuda_launched("accumulate_into");
}

/* ---- one thread's work ------------------------------------------------------------------- */

/* Some float scalars, doubles and attributes; what happens is F::run. */
template <class F> __global__ void alone_kernel(F f)
{
    if (sw_cuda_thread() == 0)
        f.run();
}
template <class F> static sw_status alone(const char *op, F f, const sw_cuda_queue *queue)
{
    const auto one = alone_kernel<F>;
    SW_CUDA_LAUNCH(one, 1, 32, 0, queue, f);
    return sw_cuda_launched(op);
}

static const double *doubles_in(const sw_launch *l, int i)
{
    return static_cast<const double *>(l->in[i].ptr);
}
static double *doubles_out(const sw_launch *l, int i)
{
    return static_cast<double *>(l->out[i].ptr);
}

/* min(1, max / (norm + 1e-6)); in {sum of squares, max} */
struct clip {
    const double *squares;
    const float *most;
    float *y;
    __device__ void run(void) const
    {
        const double scale = (double)*most / (sqrt(*squares) + 1e-6);
        *y = scale < 1.0 || scale != scale ? (float)scale : 1.0f;
    }
};
SW_CUDA_ENTRY_OF(clip_scale, forward, NULL, 1,
                 alone("clip_scale",
                       clip{doubles_in(l, 0), sw_cuda_in(l, 1), sw_cuda_out(l, 0)}, queue))

/* Is one of n flags set? No flags: yes. */
static __device__ bool any_flag(const float *flags, int64_t n)
{
    bool any = flags == nullptr;
    for (int64_t i = 0; !any && i < n; i++)
        any = flags[i] != 0.0f;
    return any;
}

/* Step counters: in {state f64[2], [flags], [lr], [finite check]}, out {corrections, state}.
 * With `powers` the state is 1 - beta^t of both betas (after lr where they are knobs), else t,
 * of which the corrections are t^-decay and 1 / sqrt(t). */
struct tick {
    const double *state, *finite_check;
    const float *flags, *lr;
    double *corrections, *next;
    int64_t n_flags;
    sw_optim_rule rule; /* its betas, but for what is read on the device */
    int32_t reads;
    int powers;
    __device__ void run(void) const
    {
        sw_optim_rule now = rule;
        if (reads != 0)
            sw_optim_read(&now, lr, reads);
        const double beta[2] = {(double)now.beta1, (double)now.beta2};
        const bool steps =
            any_flag(flags, n_flags) && (finite_check == nullptr || *finite_check == 0.0);
        double to[2] = {state[0] + 1.0, 0.0};
        for (int i = 0; i < 2 && powers; i++)
            to[i] = beta[i] * state[i] + (1.0 - beta[i]);
        corrections[0] = powers ? to[0] : pow(to[0], -beta[0]);
        corrections[1] = powers ? to[1] : 1.0 / sqrt(to[0]);
        if (steps)
            next[0] = to[0];
        if (steps && powers)
            next[1] = to[1];
    }
};
static sw_status tick_run(const char *op, const sw_launch *l, int powers,
                          const sw_cuda_queue *queue)
{
    const swi_tick_attrs *a = sw_cuda_attrs<swi_tick_attrs>(l);
    tick t = {};
    t.state = doubles_in(l, 0);
    t.flags = a->has_flags ? sw_cuda_in(l, 1) : nullptr;
    t.n_flags = a->has_flags ? sw_cuda_elements(&l->in[1].type) : 0;
    t.finite_check = a->has_finite_check ? doubles_in(l, l->n_in - 1) : nullptr;
    t.corrections = doubles_out(l, 0);
    t.next = doubles_out(l, 1);
    t.rule.beta1 = a->beta1;
    t.rule.beta2 = a->beta2;
    t.reads = a->reads;
    t.lr = a->reads != 0 ? sw_cuda_in(l, 1 + a->has_flags) : nullptr;
    t.powers = powers;
    return alone(op, t, queue);
}
SW_CUDA_ENTRY_OF(adam_tick, forward, NULL, 1, tick_run("adam_tick", l, 1, queue))
SW_CUDA_ENTRY_OF(steps_tick, forward, NULL, 0, tick_run("steps_tick", l, 0, queue))

/* ---- verdicts ---------------------------------------------------------------------------- */

/* The first of several that is not 0. */
struct any_verdict {
    const double *in[SWI_FINITE_CHECKS];
    int n;
    double *y;
    __device__ void run(void) const
    {
        double found = 0.0;
        for (int i = 0; i < n && found == 0.0; i++)
            found = *in[i];
        *y = found;
    }
};
SW_CUDA_ENTRY(any_verdict, forward, NULL, 1)
{
    any_verdict v = {};
    v.n = l->n_in;
    v.y = doubles_out(l, 0);
    for (int i = 0; i < l->n_in; i++)
        v.in[i] = doubles_in(l, i);
    return alone("any_verdict", v, queue);
}

/* in {counts, finite check}, out {counts} */
struct note_verdict {
    double *counts;
    const double *finite_check;
    __device__ void run(void) const
    {
        if (counts[SWI_SKIPPED_NEXT] == 0.0)
            counts[SWI_SKIPPED_NEXT] = *finite_check;
    }
};
SW_CUDA_ENTRY_OF(note_verdict, forward, NULL, 1,
                 alone("note_verdict", note_verdict{doubles_out(l, 0), doubles_in(l, 1)},
                       queue))

/* in {counts, finite check, [flags]}, out {counts} */
struct count_skipped {
    double *counts;
    const double *finite_check;
    const float *flags;
    int64_t n_flags;
    __device__ void run(void) const
    {
        if (!any_flag(flags, n_flags))
            return; /* nothing was there to update */
        counts[SWI_SKIPPED_NEXT] = 0.0;
        if (*finite_check == 0.0) {
            counts[SWI_SKIPPED_NOW] = 0.0;
            return;
        }
        counts[SWI_SKIPPED_ALL] += 1.0;
        counts[SWI_SKIPPED_NOW] += 1.0;
        counts[SWI_SKIPPED_WHO] = *finite_check;
    }
};
SW_CUDA_ENTRY(count_skipped, forward, NULL, 1)
{
    const bool has = sw_cuda_attrs<swi_count_attrs>(l)->has_flags != 0;
    return alone("count_skipped",
                 count_skipped{doubles_out(l, 0), doubles_in(l, 1),
                               has ? sw_cuda_in(l, 2) : nullptr,
                               has ? sw_cuda_elements(&l->in[2].type) : 0},
                 queue);
}

/* ---- finite checks, and bounds that spare them ------------------------------------------- */

#define INFINITE_BITS 0x7f800000u /* those of a NaN are larger */

/* finite: in {x, [finite check before], [flag], [bound]}, is every element finite? Not looked
 * at where the flag is 0, nor where the bound says enough. product_bound
 * (runtime/ops/update.c): in {x, other}, terms times both largest magnitudes. */
struct magnitudes {
    const float *x, *other; /* other NULL: a finite check */
    const float *flag;
    const double *before, *bound;
    double *y;
    double number; /* the check's code, or the terms */
    int64_t n, n_other;
    int32_t wide, wide_other;
    __device__ bool looks(void) const
    {
        return (flag == nullptr || *flag != 0.0f) &&
               (bound == nullptr || (*bound >= SWI_SURELY_FINITE && *bound - *bound == 0.0));
    }
    __device__ void put(uint32_t most, uint32_t most_other) const
    {
        if (other != nullptr) {
            *y = number * (double)sw_float_of(most) * (double)sw_float_of(most_other);
            return;
        }
        const double said = before != nullptr ? *before : 0.0;
        const bool good = most < INFINITE_BITS && (bound == nullptr || *bound - *bound == 0.0);
        *y = said != 0.0 || good ? said : number;
    }
};
/* Of each row: how many of its blocks are done, and the largest that they have found. */
struct magnitudes_all {
    uint32_t *tickets;
};

template <int W>
static __device__ __forceinline__ uint32_t largest_at(const float *x, int64_t i)
{
    float v[W];
    uint32_t most = 0;
    sw_cuda_load(v, x + i);
    for (int k = 0; k < W; k++)
        most = largest_bits::of(most, sw_bits_of(v[k]) & 0x7fffffffu);
    return most;
}
static __device__ __forceinline__ uint32_t largest_of(const float *x, int64_t n, int wide,
                                                      const sw_cuda_place &at,
                                                      uint32_t *partials)
{
    const int64_t fours = wide ? n / 4 : 0;
    uint32_t most = 0;
    for (int64_t i = at.thread; i < fours; i += at.threads)
        most = largest_bits::of(most, largest_at<4>(x, 4 * i));
    for (int64_t i = 4 * fours + at.thread; i < n; i += at.threads)
        most = largest_bits::of(most, largest_at<1>(x, i));
    return sw_cuda_block_reduce<largest_bits>(most, partials);
}

template <int ROWS>
__global__ void largest_kernel(sw_cuda_table<magnitudes_all, magnitudes, ROWS> t)
{
    SW_SHARED(uint32_t, partials, 32);
    const sw_cuda_place at = sw_cuda_place_in(t);
    const magnitudes f = t.row[at.row];
    uint32_t most = largest_of(f.x, f.looks() ? f.n : 0, f.wide, at, partials), most_other = 0;
    if (f.other != nullptr)
        most_other = largest_of(f.other, f.n_other, f.wide_other, at, partials);
    if (at.blocks > 1) {
        uint32_t *ticket = t.all.tickets + 3 * at.row;
        if (threadIdx.x == 0 && (f.other != nullptr || most >= INFINITE_BITS))
            atomicMax(&ticket[1], most);
        if (threadIdx.x == 0 && f.other != nullptr)
            atomicMax(&ticket[2], most_other);
        if (!sw_cuda_is_last(ticket, at.blocks) || threadIdx.x > 0)
            return;
        most = atomicExch(&ticket[1], 0u);
        most_other = atomicExch(&ticket[2], 0u);
    }
    if (threadIdx.x == 0)
        f.put(most, most_other);
}
SW_CUDA_GROUP_KERNEL(largest_launch, largest_kernel);

/* One block where a queue has no tickets, and few where a bound spares the look. */
static sw_status magnitudes_add(const char *op, magnitudes f, const sw_launch *l,
                                const sw_cuda_queue *queue)
{
    f.x = sw_cuda_in(l, 0);
    f.n = sw_cuda_elements(&l->in[0].type);
    f.wide = sw_cuda_aligned(f.x);
    f.y = doubles_out(l, 0);
    const int64_t n = f.n > f.n_other ? f.n : f.n_other;
    const int64_t each = f.bound != nullptr ? 65536 : 8192;
    return sw_cuda_group_add<largest_launch>(
        op, magnitudes_all{queue->tickets}, f,
        queue->tickets != nullptr ? sw_cuda_blocks(n, each) : 1, queue);
}
SW_CUDA_ENTRY(finite, forward, NULL, 1 | SW_CUDA_MAGNITUDES)
{
    const swi_finite_attrs *a = sw_cuda_attrs<swi_finite_attrs>(l);
    magnitudes f = {};
    f.flag = a->has_flag ? sw_cuda_in(l, 1 + a->has_before) : nullptr;
    f.before = a->has_before ? doubles_in(l, 1) : nullptr;
    f.bound = a->is_bounded ? doubles_in(l, l->n_in - 1) : nullptr;
    f.number = a->code;
    return magnitudes_add("finite", f, l, queue);
}
SW_CUDA_ENTRY(product_bound, forward, NULL, 1 | SW_CUDA_MAGNITUDES)
{
    const swi_bound_attrs *a = sw_cuda_attrs<swi_bound_attrs>(l);
    magnitudes f = {};
    f.other = sw_cuda_in(l, 1);
    f.n_other = sw_cuda_elements(&l->in[1].type);
    f.wide_other = sw_cuda_aligned(f.other);
    f.number = (double)a->terms;
    if (sw_cuda_elements(&l->in[0].type) + f.n_other > a->worth)
        return SW_OK; /* it would say nothing, and no check looks at it (is_bounded) */
    return magnitudes_add("product_bound", f, l, queue);
}

/* ---- adafactor --------------------------------------------------------------------------- */

/* kernels/optim.h. The means of the squares of rows and of columns, the mean of each
 * matrix's rows, the sizes of parameter and update, the update: nothing is kept for each
 * element. A tensor that is not factored begins with the sizes, which make its second moment on
 * the way. */

struct factors {
    float *p, *row, *col; /* col NULL: row is the second moment of each element */
    const float *g;
    float *mean, *step; /* in scratch: of each matrix; the step and what is left of p */
    int64_t n, rows, cols;
    sw_cuda_divisor by_cols, by_rows;
    update_inputs in;
    update_conditions when;
    sw_adafactor_rule rule; /* but for what is read on the device */
    __device__ float share(void) const
    {
        return (float)in.corrections[0];
    }
    __device__ float least(void) const
    {
        return rule.epsilon * rule.epsilon;
    }
    /* The positions of W second moments, and what they are multiplied with. */
    __device__ float *moments(int64_t position, float *times) const
    {
        uint32_t c = (uint32_t)position;
        *times = 1.0f;
        if (col == nullptr)
            return row + position;
        const uint32_t r = sw_cuda_split(by_cols, &c), matrix = sw_cuda_divide(by_rows, r);
        *times = row[r] / mean[matrix];
        return col + (int64_t)matrix * cols + c;
    }
    /* g / sqrt(v) of W elements. */
    template <int W> __device__ void updates(float (&u)[W], int64_t position) const
    {
        float v[W], times;
        const float s = in.gradient_scale();
        sw_cuda_load(v, moments(position, &times));
        sw_cuda_load(u, g + position);
        for (int k = 0; k < W; k++)
            u[k] = sw_adafactor_update(u[k] * s, times * v[k], least());
    }
};

/* Of each row: the mean of the squares. */
struct row_squares {
    enum { N = 1 };
    factors f;
    template <int W> __device__ void add(int64_t at, int64_t, double (&sum)[N]) const
    {
        float g[W];
        const float s = f.in.gradient_scale();
        sw_cuda_load(g, f.g + at);
        for (int k = 0; k < W; k++)
            sum[0] += (double)((g[k] * s) * (g[k] * s));
    }
    __device__ void put(int64_t r, const double (&sum)[N]) const
    {
        if (!f.when.off())
            f.row[r] = sw_adafactor_mix(f.row[r], (float)(sum[0] / (double)f.cols), f.share());
    }
};

/* Of each column; short ones are summed by one thread. */
#define SHORT_COLUMN 32
struct column_squares {
    enum { N = 1 };
    factors f;
    __device__ void term(int64_t r, int64_t c, double (&v)[N]) const
    {
        const int64_t matrix = sw_cuda_divide(f.by_cols, (uint32_t)c);
        const float g = f.g[c + (matrix * (f.rows - 1) + r) * f.cols] * f.in.gradient_scale();
        v[0] = (double)(g * g);
    }
    __device__ void put(int64_t c, const double (&sum)[N]) const
    {
        if (!f.when.off())
            f.col[c] = sw_adafactor_mix(f.col[c], (float)(sum[0] / (double)f.rows), f.share());
    }
    __device__ void entry(int64_t c) const
    {
        double sum[N] = {}, v[N];
        for (int64_t r = 0; r < f.rows; r++) {
            term(r, c, v);
            sum[0] += v[0];
        }
        put(c, sum);
    }
};

/* Of each matrix: the mean of its rows. */
struct matrix_means {
    enum { N = 1 };
    factors f;
    template <int W> __device__ void add(int64_t at, int64_t, double (&sum)[N]) const
    {
        float v[W];
        sw_cuda_load(v, f.row + at);
        for (int k = 0; k < W; k++)
            sum[0] += (double)v[k];
    }
    __device__ void put(int64_t matrix, const double (&sum)[N]) const
    {
        const double mean = sum[0] / (double)f.rows, least = (double)f.rule.epsilon;
        f.mean[matrix] = (float)(mean > least ? mean : least);
    }
};

/* Of all: the squares of the parameter and of the update. */
struct sizes {
    enum { N = 2 };
    factors f;
    template <int W> __device__ void add(int64_t at, int64_t, double (&sum)[N]) const
    {
        float p[W], u[W];
        if (f.when.off())
            return;
        if (f.col == nullptr)
            mix<W>(at);
        sw_cuda_load(p, f.p + at);
        f.updates(u, at);
        for (int k = 0; k < W; k++) {
            sum[0] += (double)(p[k] * p[k]);
            sum[1] += (double)(u[k] * u[k]);
        }
    }
    template <int W> __device__ void mix(int64_t at) const
    {
        float g[W], v[W];
        const float s = f.in.gradient_scale(), share = f.share();
        sw_cuda_load(g, f.g + at);
        sw_cuda_load(v, f.row + at);
        for (int k = 0; k < W; k++)
            v[k] = sw_adafactor_mix(v[k], (g[k] * s) * (g[k] * s), share);
        sw_cuda_store(f.row + at, v);
    }
    __device__ void put(int64_t, const double (&sum)[N]) const
    {
        const double n = (double)f.n * (double)f.rows * (double)f.cols;
        sw_adafactor_rule rule = f.rule;
        rule.lr = f.in.lr[0];
        if (f.in.reads != 0)
            rule.weight_decay = f.in.lr[1];
        rule.most = f.in.corrections[1];
        f.step[0] = sw_adafactor_step(&rule, sqrt(sum[0] / n), sqrt(sum[1] / n));
        f.step[1] = 1.0f - rule.lr * rule.weight_decay;
    }
};

struct step_of_all {
    factors f;
    template <int W> __device__ void at(int64_t position, int64_t) const
    {
        float p[W], u[W];
        if (f.when.off())
            return;
        const float step = f.step[0], keep = f.step[1];
        sw_cuda_load(p, f.p + position);
        f.updates(u, position);
        for (int k = 0; k < W; k++)
            p[k] = p[k] * keep - step * u[k];
        sw_cuda_store(f.p + position, p);
    }
};

/* ---- operands ---------------------------------------------------------------------------- */

/* n matrices of the last two axes; a vector is one row. */
static void matrices_of(factors *f, const sw_shape *s)
{
    f->n = f->rows = f->cols = 1;
    for (int i = 0; i < s->rank; i++)
        *(i == s->rank - 1 ? &f->cols : i == s->rank - 2 ? &f->rows : &f->n) *= s->dim[i];
}
static sw_cuda_plane_shape all_of(const factors &f)
{
    return sw_cuda_planes_of(1, 1, f.n * f.rows * f.cols);
}
static sw_cuda_plane_shape adafactor_rows_of(const factors &f)
{
    return sw_cuda_planes_of(1, f.n * f.rows, f.cols);
}
static sw_cuda_plane_shape matrices(const factors &f)
{
    return sw_cuda_planes_of(1, f.n, f.rows);
}

/* The step, the means, and the sums that are needed at one time. */
static size_t head_bytes(const factors &f)
{
    return ((size_t)f.n * sizeof(float) + 31) / 16 * 16;
}
SW_CUDA_SCRATCH_SIZE(sw_cuda_adafactor_scratch)
{
    factors f = {};
    matrices_of(&f, &info->in[0].shape);
    const size_t each[] = {
        sw_cuda_planes_bytes(all_of(f), sizes::N),
        sw_cuda_planes_bytes(adafactor_rows_of(f), row_squares::N),
        sw_cuda_planes_bytes(matrices(f), matrix_means::N),
        f.rows <= SHORT_COLUMN ? 0 : sw_cuda_reduce_bytes(f.rows, f.n * f.cols, 1, true)};
    size_t most = 0;
    for (size_t bytes : each)
        most = bytes > most ? bytes : most;
    return head_bytes(f) + most;
}

static factors factors_of(const sw_launch *l)
{
    const swi_update_attrs *a = sw_cuda_attrs<swi_update_attrs>(l);
    factors f = {};
    matrices_of(&f, &l->in[0].type.shape);
    f.p = sw_cuda_out(l, 0);
    f.g = sw_cuda_in(l, 1);
    f.row = sw_cuda_out(l, 1);
    f.col = a->n_state > 1 ? sw_cuda_out(l, 2) : nullptr;
    f.step = static_cast<float *>(l->scratch);
    f.mean = f.step + 2;
    f.by_cols = sw_cuda_divisor_of(f.cols);
    f.by_rows = sw_cuda_divisor_of(f.rows);
    update_inputs_of(l, &f.in, &f.when);
    f.rule.weight_decay = a->weight_decay;
    f.rule.epsilon = a->epsilon;
    f.rule.least = a->least;
    f.rule.threshold = a->threshold;
    f.rule.fixed = a->fixed != 0;
    return f;
}

/* Second moments of rows and columns. */
static sw_status moments_run(const char *op, const factors &f, void *parts,
                             const sw_cuda_queue *queue)
{
    SW_TRY(sw_cuda_planes_reduce(op, row_squares{f}, adafactor_rows_of(f), sw_cuda_aligned(f.g),
                                 parts, queue));
    if (f.rows <= SHORT_COLUMN)
        SW_TRY(sw_cuda_planes_fill(op, column_squares{f}, f.n * f.cols, queue));
    else
        SW_TRY(sw_cuda_reduce<true>(op, column_squares{f}, f.rows, f.n * f.cols, parts, queue));
    return sw_cuda_planes_reduce(op, matrix_means{f}, matrices(f), sw_cuda_aligned(f.row),
                                 parts, queue);
}

SW_CUDA_ENTRY(adafactor_update, forward, sw_cuda_adafactor_scratch, 0)
{
    static const char op[] = "adafactor_update";
    const int64_t n = sw_cuda_elements(&l->in[0].type);
    if (n == 0)
        return SW_OK;
    if (n > INT32_MAX)
        return sw_cuda_its_host.fail(
            SW_UNSUPPORTED, __FILE__, __LINE__,
            "%s: a parameter must have at most %d elements on this device (got %lld)", op,
            INT32_MAX, (long long)n);
    const factors f = factors_of(l);
    void *parts = static_cast<unsigned char *>(l->scratch) + head_bytes(f);
    const bool wide = f.cols % 4 == 0 && sw_cuda_aligned(f.p) && sw_cuda_aligned(f.g) &&
                      sw_cuda_aligned(f.col != nullptr ? f.col : f.row);
    if (f.col != nullptr)
        SW_TRY(moments_run(op, f, parts, queue));
    SW_TRY(sw_cuda_planes_reduce(op, sizes{f}, all_of(f), wide, parts, queue));
    return sw_cuda_planes_run(op, step_of_all{f}, all_of(f), wide, queue);
}

/* ---- gradient and update, tile by tile --------------------------------------------------- */

/* Launches of other entries for some rows at
 * a time, as on the CPU (runtime/ops/update_tile.c). The gradient is dw of linear: the runtime
 * makes such nodes of it alone (its list of row ranges). The cut operand is dy, by columns.
 *
 * Tiles are larger than the CPU's: a product should keep the card busy. They are those in which
 * dw is made without it, so bits are the same. No such gradient is looked at: the finite check
 * would come before any of it is used. */

#define DY 1 /* in linear's dw: the operand whose columns are rows of dw */

static int64_t tile_rows_of(const sw_type *param)
{
    const int64_t all = param->shape.dim[0];
    return sw_cuda_dw_rows(all, sw_cuda_elements(param) / all);
}

static size_t gradient_bytes(const sw_type *param, int64_t rows)
{
    sw_type tile = *param;
    tile.shape.dim[0] = rows;
    return sw_cuda_round((size_t)sw_cuda_elements(&tile) * sizeof(float));
}

/* The gradient, then what its product wants. */
SW_CUDA_SCRATCH_SIZE(sw_cuda_tile_update_scratch)
{
    const int64_t rows = tile_rows_of(&info->out[0]), all = info->out[0].shape.dim[0];
    const int64_t last = all % rows != 0 ? all % rows : rows;
    sw_type in[2] = {info->in[0], info->in[DY]}, gradient = info->out[0];
    size_t most = 0;
    for (int k = 0; k < 2; k++) {
        in[DY].shape.dim[1] = gradient.shape.dim[0] = k == 0 ? rows : last;
        const sw_kernel_info make = {in,        &gradient, 2, 1, nullptr, info->threads,
                                     info->isa, 0,         0};
        const size_t bytes = sw_cuda_linear_grad1_scratch(&make, queue);
        most = bytes > most ? bytes : most;
    }
    if (most == SIZE_MAX) /* no product of this type */
        return SIZE_MAX;
    return gradient_bytes(&info->out[0], rows) + most;
}

SW_CUDA_ENTRY(tile_update, forward, sw_cuda_tile_update_scratch, 0)
{
    const sw_type *param = &l->out[0].type;
    const int64_t rows = tile_rows_of(param);
    const size_t tile = gradient_bytes(param, rows);
    for (int64_t first = 0; first < param->shape.dim[0]; first += rows) {
        const sw_buffer gradient = sw_tile_gradient(l, first, rows);
        sw_tile_part p;
        sw_tile_make(&p, l, DY, 1, &gradient, first, tile);
        SW_TRY(sw_cuda_linear_grad1(&p.launch, queue));
        sw_tile_step(&p, l, &gradient, first);
        SW_TRY(update_run(&p.launch, queue));
    }
    return SW_OK;
}
