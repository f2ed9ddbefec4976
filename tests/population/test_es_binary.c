/* Nets of bits under noise: each evaluation is the net with the bits of its direction; the same
 * bits however a generation is cut and run; what the estimate does to the logits; what cannot
 * be. */
#include "kernels/binary.h"
#include "kernels/dispatch.h"
#include "runtime/population/es/es_internal.h"
#include "tests/runtime/nets.h"

SW_TESTS("nets of bits")

enum { IN = 70, HIDDEN = 33, SIDE = 6, CHANNELS = 9, CLASSES = 3 };

typedef struct {
    bool image;
    int wrong; /* 1: a float layer reads the logits */
    sw_model *model;
    sw_optimizer *opt;
    sw_es *es;
    sw_binary_linear f1, f2;
    sw_binary_conv2d c1;
} bits_net;

static void step(sw_ctx *c, void *user)
{
    const bits_net *t = user;
    sw_value x = sw_input(c, 0), y;
    if (t->wrong) {
        const sw_value none = {0, 0};
        y = sw_linear_op(c, x, sw_use(c, t->f1.logits), none);
    } else if (t->image) {
        x = sw_apply_binary_conv2d(c, t->c1, sw_binarize(c, x, 0.5f), SW_BINARY_BITS);
        x = sw_binary_max_pool2d(c, x, 2, 2);
        y = sw_apply_binary_linear(c, t->f2, x, SW_BINARY_SUMS);
    } else {
        x = sw_apply_binary_linear(c, t->f1, sw_binarize(c, x, 0.0f), SW_BINARY_BITS);
        y = sw_apply_binary_linear(c, t->f2, x, SW_BINARY_SUMS);
    }
    sw_output(c, "y", y);
    sw_metric(c, "loss", sw_softmax_ce(c, y, sw_input(c, 1)));
}

static const sw_optimizer_opts sgd = {
    .size = sizeof(sw_optimizer_opts), .kind = "sgd", .lr = 1.0f};

static bits_net *net_of(bool image, const sw_es_opts *es)
{
    bits_net *t = sw_block(sizeof *t);
    t->image = image;
    t->model = made_model("bits");
    if (image) {
        t->c1 = sw_binary_conv2d_new(t->model, "c1", 2, CHANNELS, 3);
        t->c1.pad = 1;
        t->f2 = sw_binary_linear_new(t->model, "f2", CHANNELS, CLASSES, 9);
    } else {
        t->f1 = sw_binary_linear_new(t->model, "f1", IN, HIDDEN, 1);
        t->f2 = sw_binary_linear_new(t->model, "f2", HIDDEN, CLASSES, 1);
    }
    OK(sw_optimizer_create(&t->opt, t->model, &sgd));
    OK(sw_es_create(&t->es, t->opt, es));
    AFTER(sw_es_destroy, t->es);
    return t;
}

#define OPTS_OF(directions_, repeats_, slice_)                                                 \
    SW_OPTS(sw_es_opts, .shaping = "raw", .sigma = 0.3f, .directions = directions_,            \
            .repeats = repeats_, .slice = slice_, .seed = 5)

enum { ROWS = 200 };
static float inputs[ROWS * 2 * SIDE * SIDE];
static unsigned char labels[ROWS];

/* Rows in which class and numbers have to do with each other. */
static void batch_of(const bits_net *t, int64_t rows, sw_array in[2])
{
    sw_dice dice = {3};
    const int64_t width = t->image ? 2 * SIDE * SIDE : IN;
    CU_ASSERT_FATAL(rows <= ROWS);
    for (int64_t i = 0; i < rows; i++) {
        labels[i] = (unsigned char)(sw_dice_next(&dice) % CLASSES);
        for (int64_t k = 0; k < width; k++)
            inputs[i * width + k] = (float)(sw_dice_next(&dice) % 2001) / 1000.0f - 1.0f +
                                    (k % CLASSES == labels[i] ? 0.7f : 0.0f);
    }
    in[0] = (sw_array){SW_F32, t->image ? SW_SHAPE(rows, 2, SIDE, SIDE) : SW_SHAPE(rows, IN),
                       inputs};
    in[1] = (sw_array){SW_U8, SW_SHAPE(rows), labels};
}

#define ARGS_OF(t_, in_)                                                                       \
    SW_OPTS(sw_run_args, .fn = step, .user = t_, .models = &(t_)->model, .n_models = 1,        \
            .inputs = in_, .n_inputs = 2, .mode = SW_EVAL)

static sw_exec *exec_of(int threads, const char *isa)
{
    return net_exec(&SW_OPTS(sw_exec_opts, .threads = threads, .isa = isa, .checks = 1));
}

/* The parameters of one evaluation, by the definition, into a net of its own: logits of 1 and
 * -1, biases with their noise. */
static void member_by_hand(const bits_net *t, bits_net *to, uint32_t direction, float sign)
{
    const swi_noise_mode *m = &t->es->mode;
    const sw_noise_at at = {m->seed, (uint32_t)m->generation, direction};
    for (uint32_t e = 1; e < t->model->n_entries; e++) {
        const swi_entry *entry = &t->model->entries[e];
        const sw_param from = {t->model, e}, into = {to->model, e};
        sw_noise_spec spec;
        if (entry->role != SWI_ROLE_PARAMETER)
            continue;
        float *w = malloc(entry->bytes);
        OK(sw_param_read(from, w, entry->bytes));
        swi_noise_spec_of(&spec, m, entry);
        const int64_t n = (int64_t)(entry->bytes / sizeof *w);
        double mean = 0.0;
        for (int64_t i = 0; i < n; i++)
            mean += fabs((double)w[i]) / (double)n;
        for (int64_t i = 0; i < n; i++)
            if (!entry->logits)
                w[i] += sign * 0.3f * sw_noise_number(&spec, SW_NOISE_ELEMENTS, &at, i);
            else
                w[i] = sw_binary_bit(&spec, &at, i / spec.cols, i % spec.cols,
                                     sw_binary_below(w[i], (float)(5.0 / (mean + 1e-5))),
                                     sign < 0.0f)
                           ? 1.0f
                           : -1.0f;
        OK(sw_param_write(into, w, entry->bytes));
        free(w);
    }
}

SW_TEST("evaluations are nets with their own bits")
{
    for (int image = 0; image < 2; image++) {
        const sw_es_opts o = OPTS_OF(6, 3, 0);
        sw_exec *exec = exec_of(2, NULL);
        bits_net *t = net_of(image, &o), *alone = net_of(image, &o);
        bits_net *by_library = net_of(image, &o);
        sw_array in[2];
        OK(sw_model_ready(t->model, exec, 1));
        OK(sw_model_ready(alone->model, exec, 2));
        OK(sw_model_ready(by_library->model, exec, 3));
        batch_of(t, 18 * 2, in);
        OK(sw_es_evaluate(t->es, exec, &ARGS_OF(t, in), 0, "loss"));
        for (size_t e = 0; e < 18; e++) {
            sw_es_evaluation of = SW_OPTS(sw_es_evaluation);
            double loss;
            OK(sw_es_ask(t->es, 0, e, &of));
            OK(sw_es_member(t->es, of.direction, (int)of.sign, by_library->model));
            member_by_hand(t, alone, of.direction, of.sign);
            CU_ASSERT(net_same(by_library->model, alone->model));
            sw_array part[2] = {in[0], in[1]};
            part[0].shape.dim[0] = part[1].shape.dim[0] = 2;
            part[0].data = inputs + (int64_t)e * 2 * (image ? 2 * SIDE * SIDE : IN);
            part[1].data = labels + e * 2;
            OK(sw_run(exec, &ARGS_OF(alone, part)));
            OK(sw_metric_get(exec, "loss", &loss));
            const double got = (double)t->es->fitness[of.repeat * 6 + of.direction];
            SW_CHECK(fabs(got - loss) < 1e-5 * (1.0 + loss), "%s, evaluation %zu: %g, not %g",
                     image ? "image" : "rows", e, got, loss);
        }
    }
}

/* Generations of a net; all bytes of its model, freed when the test ends. */
static void *trained(bool image, int threads, const char *isa, uint32_t slice, int generations)
{
    sw_exec *exec = exec_of(threads, isa);
    bits_net *t = net_of(image, &OPTS_OF(6, 2, slice));
    OK(sw_model_ready(t->model, exec, 1));
    for (int g = 0; g < generations; g++) {
        for (uint32_t s = 0; s < sw_es_slices(t->es); s++) {
            sw_array in[2];
            batch_of(t, (int64_t)sw_es_rows(t->es), in);
            for (int64_t i = 1; i < in[0].shape.dim[0]; i++) { /* all read the same row */
                const int64_t width = image ? 2 * SIDE * SIDE : IN;
                memcpy(inputs + i * width, inputs, (size_t)width * sizeof *inputs);
                labels[i] = labels[0];
            }
            OK(sw_es_evaluate(t->es, exec, &ARGS_OF(t, in), s, "loss"));
        }
        OK(sw_es_step(t->es, exec, NULL));
    }
    return net_copy_bytes(t->model);
}

/* Bits, then: the model's, for any number of threads, any instruction set, any slices. */
SW_TEST("a generation has one result")
{
    static const struct {
        int threads;
        const char *isa;
        uint32_t slice;
    } ways[] = {{2, NULL, 0}, {3, NULL, 4}, {1, NULL, 1}, {2, "base", 0}, {1, "avx2", 5}};
    for (int image = 0; image < 2; image++) {
        const void *first = trained(image, 1, NULL, 0, 3);
        const size_t n = sizeof(float) * (image ? CHANNELS * 18 + 9 * CHANNELS * CLASSES
                                                : IN * HIDDEN + HIDDEN * CLASSES);
        for (int i = 0; i < 5; i++) {
            if (ways[i].isa != NULL && strcmp(ways[i].isa, "avx2") == 0 &&
                sw_cpu_isa() < SW_ISA_AVX2)
                continue;
            const void *other = trained(image, ways[i].threads, ways[i].isa, ways[i].slice, 3);
            SW_CHECK(memcmp(first, other, n) == 0, "%s: way %d has other bits",
                     image ? "image" : "rows", i);
        }
    }
}

/* The step of logits, with sgd and a rate of 1, is the mean of u (bit - P), or of mirrored
 * pairs; sigma is no factor. */
SW_TEST("the step is the mean score")
{
    for (int pairs = 0; pairs < 2; pairs++) {
        sw_es_opts o = OPTS_OF(40, pairs ? 2 : 1, 0);
        sw_exec *exec = exec_of(2, NULL);
        bits_net *t = net_of(false, &o);
        static float before[IN * HIDDEN], after[IN * HIDDEN];
        sw_noise_spec spec;
        double mean = 0.0, off = 0.0, all = 0.0;
        OK(sw_model_ready(t->model, exec, 1));
        OK(sw_param_read(t->f1.logits, before, sizeof before));
        for (uint32_t r = 0; r < o.repeats; r++)
            for (uint32_t d = 0; d < 40; d++)
                OK(sw_es_tell(t->es, d, r, (float)(d % 7) - (float)(3 * r)));
        OK(sw_es_step(t->es, exec, NULL));
        OK(sw_param_read(t->f1.logits, after, sizeof after));
        swi_noise_spec_of(&spec, &t->es->mode, &t->model->entries[t->f1.logits.index]);
        for (int64_t i = 0; i < IN * HIDDEN; i++)
            mean += fabs((double)before[i]) / (IN * HIDDEN);
        for (int64_t i = 0; i < IN * HIDDEN; i++) {
            const uint16_t below = sw_binary_below(before[i], (float)(5.0 / (mean + 1e-5)));
            const double p = below / 65536.0;
            double g = 0.0;
            for (uint32_t d = 0; d < 40; d++) {
                const sw_noise_at at = {5, 0, d};
                const double bit = sw_binary_bit(&spec, &at, i / IN, i % IN, below, false);
                const double other = sw_binary_bit(&spec, &at, i / IN, i % IN, below, true);
                const double u = d % 7, v = (double)(d % 7) - 3.0;
                g += pairs ? (u - v) / 80.0 * fmax(p, 1.0 - p) * (bit - other)
                           : u / 40.0 * (bit - p);
            }
            const double made = (double)before[i] - (double)after[i];
            off += (made - g) * (made - g);
            all += g * g;
        }
        SW_CHECK(all > 0.0 && sqrt(off / all) < 1e-5, "%s: off by %.2g",
                 pairs ? "pairs" : "alone", sqrt(off / all));
    }
}

/* Over generations a net of bits learns what it is shown, and without noise keeps it. */
SW_TEST("a net of bits learns")
{
    sw_es_opts o = OPTS_OF(48, 2, 0);
    o.shaping = "ranks";
    sw_exec *exec = exec_of(2, NULL);
    bits_net *t = net_of(false, &o);
    sw_array in[2];
    double first = 0.0, last = 0.0;
    OK(sw_model_ready(t->model, exec, 1));
    sw_array small[2];
    batch_of(t, 192, in);
    small[0] = in[0], small[1] = in[1];
    const sw_run_args test = ARGS_OF(t, small);
    OK(sw_run(exec, &test));
    OK(sw_metric_get(exec, "loss", &first));
    for (int g = 0; g < 60; g++) {
        OK(sw_es_evaluate(t->es, exec, &ARGS_OF(t, in), 0, "loss"));
        OK(sw_es_step(t->es, exec, NULL));
    }
    OK(sw_run(exec, &test));
    OK(sw_metric_get(exec, "loss", &last));
    SW_CHECK(last < 0.7 * first, "the loss went from %.3f to %.3f", first, last);
}

SW_TEST("what cannot be is said by name")
{
    sw_es_opts o = OPTS_OF(4, 2, 0);
    sw_exec *exec = exec_of(1, NULL);
    sw_array in[2];
    bits_net *t = net_of(false, &o);
    OK(sw_model_ready(t->model, exec, 1));
    batch_of(t, 8, in);
    sw_run_args args = ARGS_OF(t, in);
    t->wrong = 1;
    args.variant = 1;
    REFUSED(sw_es_evaluate(t->es, exec, &args, 0, "loss"), SW_UNSUPPORTED, "f1.logits");
    o = SW_OPTS(sw_es_opts, .strategy = "snes", .directions = 4, .seed = 5);
    bits_net *snes = net_of(false, &o);
    OK(sw_model_ready(snes->model, exec, 1));
    args = ARGS_OF(snes, in);
    REFUSED(sw_es_evaluate(snes->es, exec, &args, 0, "loss"), SW_UNSUPPORTED, "snes");
}

/* Nothing of a population has bytes: the arena of a slice is the same for any number of
 * directions after it, and scratch is that of eight filters for each thread. */
SW_TEST("noise has no bytes")
{
    size_t seen = 0;
    for (uint32_t directions = 8; directions <= 1u << 20; directions *= 16) {
        sw_exec *exec = exec_of(2, NULL);
        bits_net *t = net_of(false, &OPTS_OF(directions, 2, 8));
        sw_plan_info info = SW_OPTS(sw_plan_info);
        sw_array in[2];
        batch_of(t, 16, in);
        sw_run_args args = ARGS_OF(t, in);
        args.es = t->es;
        OK(sw_plan(exec, &args, &info));
        SW_CHECK(seen == 0 || info.arena_bytes == seen, "%u directions: %zu bytes, not %zu",
                 directions, info.arena_bytes, seen);
        seen = info.arena_bytes;
    }
}
