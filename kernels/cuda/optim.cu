/* Ops that optimizers append: elementwise updates, kept gradients, step counters, clipping,
 * finite checks. Learning rate and other knobs, corrections, scales, flags and finite checks
 * are read on the device: they change between replays of a graph. */
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/updates.h"
#include "kernels/optim_step.h"

/* ---- updates ----------------------------------------------------------------------------- */

/* in: updates.h; out {param, states...}. */
struct update {
    float *p, *state[SW_OPTIM_STATES];
    const float *g;
    sw_cuda_update_inputs in;
    int64_t n;
    sw_optim_rule rule; /* but for what is read on the device */
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
static __device__ __forceinline__ void update_at(const update &u, const sw_optim_numbers *n,
                                                 int64_t i)
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
        step_of(u.rule.kind, n, &p[w], s, g[w]);
        for (int k = 0; k < SW_OPTIM_STATES; k++)
            state[k][w] = s[k];
    }
    sw_cuda_store(u.p + i, p);
    for (int k = 0; k < SW_OPTIM_STATES; k++)
        if (u.state[k] != nullptr)
            sw_cuda_store(u.state[k] + i, state[k]);
}

__global__ void update_kernel(update u, int wide)
{
    if (u.in.off())
        return;
    sw_optim_rule rule = u.rule;
    sw_optim_read(&rule, u.in.lr, u.in.reads);
    rule.correction1 = u.in.corrections != nullptr ? u.in.corrections[0] : 1.0;
    rule.correction2 = u.in.corrections != nullptr ? u.in.corrections[1] : 1.0;
    const sw_optim_numbers n = sw_optim_numbers_of(&rule, u.in.gradient_scale());
    const int64_t fours = wide ? u.n / 4 : 0;
    for (int64_t i = sw_cuda_thread(); i < fours; i += sw_cuda_threads())
        update_at<4>(u, &n, 4 * i);
    for (int64_t i = 4 * fours + sw_cuda_thread(); i < u.n; i += sw_cuda_threads())
        update_at<1>(u, &n, i);
}

/* The ops by their rules, for messages. */
static const char *const ops[] = {
#define SW_RULE(rule, kind, states, operations) #kind "_update",
#define SW_OPTIMIZER(kind, states, operations) #kind "_update",
#include "kernels/optimizers.def"
};

sw_status sw_cuda_update_run(const sw_launch *l, const sw_cuda_queue *queue)
{
    const swi_update_attrs *a = sw_cuda_attrs<swi_update_attrs>(l);
    update u = {};
    u.p = sw_cuda_out(l, 0);
    u.g = sw_cuda_in(l, 1);
    u.in = sw_cuda_update_inputs_of(l);
    u.n = sw_cuda_elements(&l->in[0].type);
    bool wide = sw_cuda_aligned(u.p) && sw_cuda_aligned(u.g);
    for (int k = 0; k < a->n_state; k++) {
        u.state[k] = sw_cuda_out(l, 1 + k);
        wide = wide && sw_cuda_aligned(u.state[k]);
    }
    u.rule.kind = static_cast<sw_optim>(a->rule);
    u.rule.weight_decay = a->weight_decay;
    u.rule.momentum = a->momentum;
    u.rule.beta1 = a->beta1;
    u.rule.beta2 = a->beta2;
    u.rule.epsilon = a->epsilon;
    u.rule.decoupled = a->decoupled != 0;
    if (u.n == 0)
        return SW_OK;
    SW_CUDA_LAUNCH_FOR(update_kernel, u.n, 4 * SW_CUDA_THREADS, queue, u, wide);
    return sw_cuda_launched(ops[a->rule]);
}

#define SW_OPTIMIZER(kind, states, operations)                                                 \
    extern "C" sw_status sw_cuda_##kind##_update_forward(const sw_launch *l,                   \
                                                         const sw_cuda_queue *queue)           \
    {                                                                                          \
        return sw_cuda_update_run(l, queue);                                                   \
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

/* ---- finite checks
 * ---------------------------------------------------------------------------- */

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

/* In {x, [finite check before], [flag], [bound]}: is every element finite? Not looked at where
 * the flag is 0, nor where the bound says enough. */
struct finiteness {
    enum { N = 1 };
    const float *x, *flag;
    const double *before, *bound;
    double *y;
    double code;
    __device__ bool looks(void) const
    {
        return (flag == nullptr || *flag != 0.0f) &&
               (bound == nullptr || (*bound >= SWI_SURELY_FINITE && *bound - *bound == 0.0));
    }
    __device__ void term(int64_t r, int64_t, double (&v)[N]) const
    {
        v[0] = 0.0;
        if (looks())
            v[0] = x[r] - x[r] == 0.0f ? 0.0 : 1.0;
    }
    __device__ void put(int64_t, const double (&sum)[N]) const
    {
        const double said = before != nullptr ? *before : 0.0;
        const bool good = sum[0] == 0.0 && (bound == nullptr || *bound - *bound == 0.0);
        *y = said != 0.0 || good ? said : code;
    }
};
SW_CUDA_SCRATCH_SIZE(sw_cuda_finite_scratch)
{
    return sw_cuda_reduce_bytes(sw_cuda_elements(&info->in[0]), 1, finiteness::N, false);
}
SW_CUDA_ENTRY(finite, forward, sw_cuda_finite_scratch, 1)
{
    const swi_finite_attrs *a = sw_cuda_attrs<swi_finite_attrs>(l);
    const finiteness f = {sw_cuda_in(l, 0),
                          a->has_flag ? sw_cuda_in(l, 1 + a->has_before) : nullptr,
                          a->has_before ? doubles_in(l, 1) : nullptr,
                          a->has_bound ? doubles_in(l, l->n_in - 1) : nullptr,
                          doubles_out(l, 0),
                          a->code};
    return sw_cuda_reduce("finite", f, sw_cuda_elements(&l->in[0].type), 1, false, l->scratch,
                          queue);
}
