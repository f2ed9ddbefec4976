/* Other widths: what is computed stays, what is narrowed again has the bits that it had, and a
 * plain check of chains agrees on every element; members, what it costs, optimizers' states,
 * what is refused, and failures. */
#include "kernels/dispatch.h"
#include "runtime/population/members_internal.h"
#include "tests/population/resize_nets.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("resize")

static const sw_resize_opts usual = {.size = sizeof usual, .seed = 77};

static sw_status resize(sw_exec *exec, resize_net *to, resize_net *from,
                        const sw_resize_opts *opts)
{
    const sw_run_args a = RESIZE_ARGS(to, SW_TRAIN), b = RESIZE_ARGS(from, SW_TRAIN);
    return sw_model_resize(to->model, from->model, exec, &a, &b, opts);
}

/* The units of that axis stay by these utilities. */
static void resize_by(sw_exec *exec, resize_net *to, resize_net *from, sw_param tensor,
                      int axis, int64_t n, const float *values)
{
    const sw_utility given = {.tensor = tensor, .axis = axis, .n = n, .values = values};
    sw_resize_opts opts = usual;
    opts.utilities = &given;
    opts.n_utilities = 1;
    OK(resize(exec, to, from, &opts));
}

static resize_net *ready(sw_exec *exec, const resize_spec *spec, uint64_t seed)
{
    resize_net *n = resize_net_for_test(spec);
    OK(sw_model_ready(n->model, exec, seed));
    return n;
}

/* ---- widened ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    resize_spec narrow, wide;
} pairs[] = {
    {"chain", {RN_CHAIN, 2, {24, 16}, NULL}, {RN_CHAIN, 2, {37, 21}, NULL}},
    {"chain, one layer", {RN_CHAIN, 3, {24, 16, 9}, NULL}, {RN_CHAIN, 3, {24, 40, 9}, NULL}},
    {"conv", {RN_CONV, 0, {5, 6, 11}, NULL}, {RN_CONV, 0, {8, 9, 20}, NULL}},
    {"residual", {RN_RESIDUAL, 0, {12, 20, 8}, NULL}, {RN_RESIDUAL, 0, {19, 33, 8}, NULL}},
    {"wide chain", {RN_CHAIN, 2, {300, 290}, NULL}, {RN_CHAIN, 2, {1100, 777}, NULL}},
    {"wide conv", {RN_CONV, 0, {33, 70, 300}, NULL}, {RN_CONV, 0, {80, 129, 300}, NULL}},
    {"gated", {RN_GATED, 0, {13}, NULL}, {RN_GATED, 0, {29}, NULL}},
    {"joined", {RN_JOINED, 0, {7, 9}, NULL}, {RN_JOINED, 0, {10, 9}, NULL}},
    {"joined, both", {RN_JOINED, 0, {7, 9}, NULL}, {RN_JOINED, 0, {11, 12}, NULL}},
    {"heads", {RN_ATTENTION, 0, {8, 5}, NULL}, {RN_ATTENTION, 0, {20, 5}, NULL}},
    {"heads and product", {RN_ATTENTION, 0, {8, 5}, NULL}, {RN_ATTENTION, 0, {12, 9}, NULL}},
    {"decoded", {RN_DECODED, 0, {6, 4}, NULL}, {RN_DECODED, 0, {11, 9}, NULL}},
    {"recurrent", {RN_RECURRENT, 0, {6, 4}, NULL}, {RN_RECURRENT, 0, {11, 9}, NULL}},
    {"squeezed", {RN_SQUEEZED, 0, {6, 4}, NULL}, {RN_SQUEEZED, 0, {11, 9}, NULL}},
    {"tokens", {RN_TOKENS, 0, {8, 5}, NULL}, {RN_TOKENS, 0, {14, 9}, NULL}},
    {"skipped", {RN_SKIPPED, 0, {8}, NULL}, {RN_SKIPPED, 0, {14}, NULL}},
    {"adafactor", {RN_CHAIN, 2, {24, 16}, "adafactor"}, {RN_CHAIN, 2, {37, 16}, "adafactor"}},
    {"conv, adafactor",
     {RN_CONV, 0, {5, 6, 11}, "adafactor"},
     {RN_CONV, 0, {8, 9, 20}, "adafactor"}},
    {"wide chain, 8 bits",
     {RN_CHAIN, 2, {300, 290}, "adamw", 8},
     {RN_CHAIN, 2, {1100, 400}, "adamw", 8}},
    {"wide conv, 8 bits",
     {RN_CONV, 0, {33, 70, 300}, NULL, 8},
     {RN_CONV, 0, {80, 129, 300}, NULL, 8}},
    {"lion", {RN_RESIDUAL, 0, {12, 20, 8}, "lion"}, {RN_RESIDUAL, 0, {19, 20, 8}, "lion"}},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

/* The largest difference as a share of the largest element; *same: it has no bit of it. */
static double difference(const float *a, const float *b, bool *same)
{
    double most = 0, largest = 0;
    *same = memcmp(a, b, RN_ROWS * RN_OUT * sizeof *a) == 0;
    for (int i = 0; i < RN_ROWS * RN_OUT; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        largest = fmax(largest, fabs((double)a[i]));
    }
    return most / largest;
}

static void compute_what_they_did(const char *isa)
{
    float before[RN_ROWS * RN_OUT], after[RN_ROWS * RN_OUT];
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .isa = isa));
    for (int i = 0; i < PAIRS; i++) {
        bool same = false;
        resize_net *from = ready(exec, &pairs[i].narrow, 1);
        resize_net *to = ready(exec, &pairs[i].wide, 2);
        resize_train(exec, from, 4);
        sw_knob_set(from->factor, 0.5f);
        resize_logits(exec, from, before);
        OK(resize(exec, to, from, &usual));
        resize_logits(exec, to, after);
        const double d = difference(before, after, &same);
        SW_CHECK(same, "%s, %s: %g", isa, pairs[i].name, d);
        CU_ASSERT_EQUAL(sw_knob_get(to->factor), 0.5f);
        resize_train(exec, to, sw_tests_full() ? 10 : 3);
        const double loss = net_metric(exec, "loss");
        resize_train(exec, to, sw_tests_full() ? 20 : 6);
        SW_CHECK(loss == 0.0 || net_metric(exec, "loss") < loss, "%s: %g, before %g",
                 pairs[i].name, net_metric(exec, "loss"), loss);
    }
}

SW_TEST("widened nets compute what they did, and train on")
{
    for (sw_isa isa = SW_ISA_BASE; isa <= sw_cpu_isa(); isa++)
        compute_what_they_did(sw_isa_name(isa));
}

/* All bytes of the model: parameters, optimizer state, buffers, gradients, knobs. */
SW_TEST("what was widened has its bits when it is narrowed")
{
    sw_exec *exec = net_exec(NULL);
    for (int i = 0; i < PAIRS; i++) {
        resize_net *from = ready(exec, &pairs[i].narrow, 1);
        resize_net *to = ready(exec, &pairs[i].wide, 2);
        resize_net *back = ready(exec, &pairs[i].narrow, 3);
        resize_train(exec, from, 4);
        OK(resize(exec, to, from, &usual));
        SW_CHECK(!net_same(back->model, from->model), "%s", pairs[i].name);
        OK(resize(exec, back, to, &usual));
        SW_CHECK(net_same(back->model, from->model), "%s", pairs[i].name);
    }
}

/* ---- chains, element by element ---------------------------------------------------------- */

static const swi_entry *entry_named(const resize_net *n, const char *name)
{
    uint32_t entry = 1;
    while (entry < n->model->n_entries && strcmp(n->model->entries[entry].name, name) != 0)
        entry++;
    CU_ASSERT_FATAL(entry < n->model->n_entries);
    return &n->model->entries[entry];
}

static const float *values_in8(const char *name)
{
    return sw_state8_code_of(strcmp(name + strlen(name) - 2, ".v") != 0)->value;
}

static float scale_of(const resize_net *n, const swi_entry *state, int64_t i)
{
    const int64_t cols = sw_state8_cols(&state->shape);
    const float *scales = (const float *)(void *)(n->model->base + state[1].offset);
    return scales[i / cols * ((cols + 255) / 256) + i % cols / 256];
}

/* Those of a state in 8 bits are what its codes and scales say. */
static float *values_of(resize_net *n, const char *name, size_t count)
{
    float *values = sw_block(count * sizeof *values);
    const swi_entry *e = entry_named(n, name);
    CU_ASSERT_EQUAL_FATAL(e->bytes, count * sw_dtype_bytes(e->dtype));
    if (e->dtype != SW_U8)
        memcpy(values, n->model->base + e->offset, e->bytes);
    for (size_t i = 0; e->dtype == SW_U8 && i < count; i++)
        values[i] =
            values_in8(name)[n->model->base[e->offset + i]] * scale_of(n, e, (int64_t)i);
    return values;
}

enum { WIDEST = 300 };

typedef struct {
    int64_t n_from, n_to;
    int64_t from[WIDEST]; /* of each new position; -1: new */
} layer_map;

/* Codes and scales of the numbers `value`, which were elements `was` of `from`; -1: new. Counts
 * the blocks of which nothing but codes moved, and those that were quantised again. */
static uint64_t moved, again;
static bool codes_are(resize_net *to, resize_net *from, const char *name, const float *value,
                      const int64_t *was)
{
    const swi_entry *e = entry_named(to, name), *f = entry_named(from, name);
    const int64_t cols = sw_state8_cols(&e->shape), n = swi_elements(&e->shape);
    const int64_t cols_from = sw_state8_cols(&f->shape);
    const float *code = values_in8(name);
    const unsigned char *is = to->model->base + e->offset;
    bool same = true;
    for (int64_t at = 0, end; at < n; at = end) {
        int64_t block = -1;
        float scale = 0.0f;
        bool one = f->dtype == SW_U8;
        end = at + 256 < (at / cols + 1) * cols ? at + 256 : (at / cols + 1) * cols;
        for (int64_t i = at; i < end; i++) {
            const int64_t its = was[i] / cols_from * 1000 + was[i] % cols_from / 256;
            if (was[i] < 0)
                continue;
            one &= block < 0 || block == its;
            block = its;
            scale = fmaxf(scale, fabsf(value[i]));
        }
        scale = scale < 0x1p-126f ? 0.0f : scale;
        for (int64_t i = at; i < end && one; i++)
            if (was[i] >= 0)
                scale = scale_of(from, f, was[i]);
        same &= scale_of(to, e, at) == scale;
        *(one ? &moved : &again) += block >= 0;
        for (int64_t i = at; i < end; i++) {
            const float x = scale > 0.0f ? value[i] / scale : 0.0f;
            int best = 0;
            for (int k = 1; !one && k < 256; k++) {
                const double d = fabs((double)code[k] - (double)x),
                             least = fabs((double)code[best] - (double)x);
                if (d < least || (d == least && fabsf(code[k]) < fabsf(code[best])) ||
                    (best == 0 && x > 0.0f && code == sw_state8_code_of(false)->value))
                    best = k;
            }
            if (one && was[i] >= 0)
                best = from->model->base[f->offset + was[i]];
            same &= is[i] == best;
        }
    }
    return same;
}

/* Rows by `rows`, columns by `cols` (NULL: as they were). fresh: of a model of the new
 * widths. */
static bool tensor_is(resize_net *to, resize_net *from, resize_net *fresh, const char *name,
                      const layer_map *rows, const layer_map *cols, int64_t n_rows,
                      int64_t n_cols, bool state)
{
    const int64_t r = rows != NULL ? rows->n_to : n_rows,
                  c = cols != NULL ? cols->n_to : n_cols;
    const int64_t was_r = rows != NULL ? rows->n_from : n_rows,
                  was_c = cols != NULL ? cols->n_from : n_cols;
    float *is = values_of(to, name, (size_t)(r * c));
    float *was = values_of(from, name, (size_t)(was_r * was_c));
    float *begins = values_of(fresh, name, (size_t)(r * c));
    int64_t *source = sw_block((size_t)(r * c) * sizeof *source);
    const bool in8 = entry_named(to, name)->dtype == SW_U8;
    bool same = true;
    for (int64_t i = 0; i < r * c; i++) {
        const int64_t y = rows != NULL ? rows->from[i / c] : i / c;
        const int64_t x = cols != NULL ? cols->from[i % c] : i % c;
        float expected = begins[i];
        if (y >= 0 && x >= 0)
            expected = was[y * was_c + x];
        else if (x < 0 || state)
            expected = 0.0f;
        same &= in8 || memcmp(&expected, &is[i], sizeof expected) == 0;
        source[i] = y >= 0 && x >= 0 ? y * was_c + x : -1;
        begins[i] = expected;
    }
    return same && (!in8 || codes_are(to, from, name, begins, source));
}

static bool layers_are(resize_net *to, resize_net *from, resize_net *fresh)
{
    static const char *const suffix[] = {"", ".m", ".v"};
    layer_map map[RN_LAYERS];
    bool same = true;
    for (int i = 0; i < from->spec.n; i++) {
        /* Plain: all pairs are compared, no sorting. */
        const int64_t n_to = to->spec.w[i];
        layer_map *m = &map[i];
        const int64_t n = from->spec.w[i], in = i > 0 ? from->spec.w[i - 1] : RN_IN,
                      out = i + 1 < from->spec.n ? from->spec.w[i + 1] : RN_OUT;
        char name[32];
        double utility[WIDEST];
        snprintf(name, sizeof name, "f%d.weight", i);
        float *w = values_of(from, name, (size_t)(n * in));
        snprintf(name, sizeof name, "f%d.bias", i);
        float *b = values_of(from, name, (size_t)n);
        snprintf(name, sizeof name, "f%d.weight", i + 1);
        float *next = values_of(from, name, (size_t)(out * n));
        for (int64_t u = 0; u < n; u++) {
            double incoming = 0, outgoing = 0;
            for (int64_t k = 0; k < in; k++)
                incoming += (double)w[u * in + k] * (double)w[u * in + k];
            incoming += (double)b[u] * (double)b[u];
            for (int64_t k = 0; k < out; k++)
                outgoing += (double)next[k * n + u] * (double)next[k * n + u];
            utility[u] = sqrt(incoming) * sqrt(outgoing);
        }
        *m = (layer_map){.n_from = n, .n_to = n_to};
        int64_t put = 0;
        for (int64_t u = 0; u < n; u++) {
            int64_t better = 0;
            for (int64_t k = 0; k < n; k++)
                better += utility[k] > utility[u] || (utility[k] == utility[u] && k < u);
            if (better < n_to)
                m->from[put++] = u;
        }
        while (put < n_to)
            m->from[put++] = -1;
    }
    for (int i = 0; i <= from->spec.n; i++)
        for (int k = 0; k < 3; k++) {
            const layer_map *rows = i < from->spec.n ? &map[i] : NULL;
            const layer_map *cols = i > 0 ? &map[i - 1] : NULL;
            char name[48];
            snprintf(name, sizeof name, "f%d.weight%s", i, suffix[k]);
            same &= tensor_is(to, from, fresh, name, rows, cols, RN_OUT, RN_IN, k > 0);
            snprintf(name, sizeof name, "f%d.bias%s", i, suffix[k]);
            same &= tensor_is(to, from, fresh, name, rows, NULL, RN_OUT, 1, k > 0);
        }
    return same;
}

/* Narrow, or in 8 bits: above the size from which states are in them, and below it. */
static int64_t width_of(sw_dice *dice, bool in8)
{
    const int64_t most = in8 && sw_dice_below(dice, 3) != 0 ? WIDEST : 20;
    return (most == WIDEST ? 230 : 1) + (int64_t)sw_dice_below(dice, most == WIDEST ? 70 : 20);
}

static void random_chain(sw_exec *exec, sw_dice *dice, bool in8)
{
    static const char *const kinds[] = {"adam", "adamw"};
    resize_spec was = {.kind = RN_CHAIN, .n = 1 + (int)sw_dice_below(dice, in8 ? 2 : 4)}, is;
    was.optimizer = kinds[in8];
    was.state_bits = in8 && sw_dice_below(dice, 4) != 0 ? 8 : 32;
    is = was;
    is.state_bits = in8 && sw_dice_below(dice, 4) != 0 ? 8 : 32;
    for (int i = 0; i < was.n; i++) {
        was.w[i] = width_of(dice, in8);
        is.w[i] = sw_dice_below(dice, 4) == 0 ? was.w[i] : width_of(dice, in8);
    }
    resize_net *from = resize_net_new(&was), *to = resize_net_new(&is),
               *fresh = resize_net_new(&is);
    OK(sw_model_ready(from->model, exec, sw_dice_next(dice)));
    OK(sw_model_ready(to->model, exec, 5));
    OK(sw_model_ready(fresh->model, exec, usual.seed));
    resize_train(exec, from, 2);
    OK(resize(exec, to, from, &usual));
    SW_CHECK(layers_are(to, from, fresh), "%d layers, %lld to %lld, %d to %d bits", was.n,
             (long long)was.w[0], (long long)is.w[0], (int)was.state_bits, (int)is.state_bits);
    resize_net_end(from);
    resize_net_end(to);
    resize_net_end(fresh);
}

SW_TEST("random chains agree with a plain check")
{
    sw_dice dice = {20};
    sw_exec *exec = net_exec(NULL);
    for (int i = 0; i < 300; i++)
        random_chain(exec, &dice, false);
}

SW_TEST("random chains with states in 8 bits agree with a plain check")
{
    sw_dice dice = {22};
    sw_exec *exec = net_exec(NULL);
    moved = again = 0;
    for (int i = 0; i < (sw_tests_full() ? 200 : 30); i++)
        random_chain(exec, &dice, true);
    CU_ASSERT(moved > 1000 && again > 1000);
    sw_note("%llu blocks moved, %llu were quantised again", (unsigned long long)moved,
            (unsigned long long)again);
}

/* ---- random nets and batches, widened ---------------------------------------------------- */

/* Logits of the first `rows` rows. */
static void logits_of(sw_exec *exec, resize_net *n, int64_t rows, sw_mode mode, float *out)
{
    sw_run_args args = RESIZE_ARGS(n, mode);
    sw_array in[2] = {args.inputs[0], args.inputs[1]}, logits = {.data = NULL};
    in[0].shape.dim[0] = in[1].shape.dim[0] = rows;
    args.inputs = in;
    memset(out, 0, RN_ROWS * RN_OUT * sizeof *out);
    OK(sw_run(exec, &args));
    OK(sw_output_get(exec, "logits", &logits));
    memcpy(out, logits.data, (size_t)rows * RN_OUT * sizeof *out);
}

static void random_widening(sw_exec *exec, sw_dice *dice)
{
    float before[RN_ROWS * RN_OUT], after[RN_ROWS * RN_OUT];
    resize_spec was = {.kind = (resize_kind)sw_dice_below(dice, RN_NORMED), .n = 2}, is;
    const int64_t unit = was.kind == RN_ATTENTION ? 4 : 1;
    const int64_t rows = 1 + (int64_t)sw_dice_below(dice, RN_ROWS);
    bool same = false;
    is = was;
    for (int i = 0; i < 3; i++) {
        was.w[i] = unit * (1 + (int64_t)sw_dice_below(dice, 40));
        is.w[i] = was.w[i] + unit * (int64_t)sw_dice_below(dice, 70);
    }
    resize_net *from = resize_net_new(&was), *to = resize_net_new(&is);
    OK(sw_model_ready(from->model, exec, sw_dice_next(dice)));
    OK(sw_model_ready(to->model, exec, sw_dice_next(dice)));
    OK(resize(exec, to, from, &usual));
    /* Dropout draws other numbers. */
    const sw_mode mode =
        was.kind == RN_CHAIN || sw_dice_below(dice, 2) == 0 ? SW_EVAL : SW_TRAIN;
    logits_of(exec, from, rows, mode, before);
    logits_of(exec, to, rows, mode, after);
    const double d = difference(before, after, &same);
    SW_CHECK(same, "kind %d, %lld rows, widths %lld %lld %lld to %lld %lld %lld: %g",
             (int)was.kind, (long long)rows, (long long)was.w[0], (long long)was.w[1],
             (long long)was.w[2], (long long)is.w[0], (long long)is.w[1], (long long)is.w[2],
             d);
    resize_net_end(from);
    resize_net_end(to);
}

SW_TEST("random nets compute what they did, whatever the batch")
{
    sw_dice dice = {31};
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .threads = 2));
    for (int i = 0; i < (sw_tests_full() ? 2000 : 100); i++)
        random_widening(exec, &dice);
}

/* ---- other nets, narrowed ---------------------------------------------------------------- */

/* Channels 1 and 4 of six go: the linear after flatten loses their blocks of 9 columns, the
 * conv in front its rows, the depthwise one its own. */
SW_TEST("channels go with their places in a flattened axis")
{
    static const int64_t stay[] = {0, 2, 3, 5};
    const float utility[] = {3, 1, 5, 4, 1, 2};
    const resize_spec was = {RN_CONV, 0, {5, 6, 11}, NULL}, is = {RN_CONV, 0, {5, 4, 11}, NULL};
    sw_exec *exec = net_exec(NULL);
    resize_net *from = ready(exec, &was, 1), *to = ready(exec, &is, 2);
    resize_train(exec, from, 3);
    resize_by(exec, to, from, from->c[2].weight, 0, 6, utility);
    float *w = values_of(from, "f0.weight.v", 11 * 54),
          *v = values_of(to, "f0.weight.v", 11 * 36);
    float *c = values_of(from, "c1.weight", 6 * 45), *d = values_of(to, "c1.weight", 4 * 45);
    float *e = values_of(from, "c2.weight", 6 * 9), *f = values_of(to, "c2.weight", 4 * 9);
    float *b = values_of(from, "bn.running_mean", 5), *m = values_of(to, "bn.running_mean", 5);
    for (size_t k = 0; k < 4; k++) {
        for (int row = 0; row < 11; row++)
            CU_ASSERT(memcmp(v + row * 36 + k * 9, w + row * 54 + stay[k] * 9, 9 * sizeof *w) ==
                      0);
        CU_ASSERT(memcmp(d + k * 45, c + stay[k] * 45, 45 * sizeof *c) == 0);
        CU_ASSERT(memcmp(f + k * 9, e + stay[k] * 9, 9 * sizeof *e) == 0);
    }
    CU_ASSERT(memcmp(b, m, 5 * sizeof *b) == 0);
}

/* A unit of the stream has one column in each `up` and one row in each `down`. */
SW_TEST("what is shared by a residual goes everywhere")
{
    const resize_spec was = {RN_RESIDUAL, 0, {6, 3, 4}, NULL},
                      is = {RN_RESIDUAL, 0, {5, 3, 4}, NULL};
    const float utility[] = {3, 2, 2, 0.5f, 9, 1};
    static const int64_t stay[] = {0, 1, 2, 4, 5};
    sw_exec *exec = net_exec(NULL);
    resize_net *from = ready(exec, &was, 1), *to = ready(exec, &is, 2);
    resize_train(exec, from, 3);
    resize_by(exec, to, from, from->f[5].weight, 1, 6, utility);
    static const char *const rows[] = {"stem.weight", "a.down.weight", "b.down.weight.m"};
    static const size_t width[] = {RN_IN, 3, 4};
    for (int i = 0; i < 3; i++) {
        float *w = values_of(from, rows[i], 6 * width[i]),
              *v = values_of(to, rows[i], 5 * width[i]);
        for (size_t k = 0; k < 5; k++)
            CU_ASSERT(memcmp(v + k * width[i], w + (size_t)stay[k] * width[i],
                             width[i] * sizeof *w) == 0);
    }
    float *w = values_of(from, "b.up.weight", 24), *v = values_of(to, "b.up.weight", 20);
    for (size_t k = 0; k < 20; k++)
        CU_ASSERT_EQUAL(v[k], w[k / 5 * 6 + (size_t)stay[k % 5]]);
}

/* New channels: weight 1, bias 0, mean 0, variance 1; old ones have their own. */
SW_TEST("new channels of a batch norm begin")
{
    static const char *const names[] = {"bn.weight", "bn.bias", "bn.running_mean",
                                        "bn.running_var"};
    static const float begin[] = {1, 0, 0, 1};
    const resize_spec was = {RN_CONV, 0, {5, 6, 11}, NULL}, is = {RN_CONV, 0, {7, 6, 11}, NULL};
    sw_exec *exec = net_exec(NULL);
    resize_net *from = ready(exec, &was, 1), *to = ready(exec, &is, 2);
    resize_train(exec, from, 3);
    OK(resize(exec, to, from, &usual));
    for (int i = 0; i < 4; i++) {
        float *w = values_of(from, names[i], 5), *v = values_of(to, names[i], 7);
        CU_ASSERT(memcmp(v, w, 5 * sizeof *v) == 0);
        CU_ASSERT_NOT_EQUAL(v[0], begin[i]);
        CU_ASSERT(v[5] == begin[i] && v[6] == begin[i]);
    }
}

static const resize_spec narrow = {RN_CHAIN, 2, {24, 16}, NULL};
static const resize_spec wide = {RN_CHAIN, 2, {37, 21}, NULL};
static sw_status cost(sw_exec *exec, resize_net *to, resize_net *from, sw_resize_info *out)
{
    const sw_run_args a = RESIZE_ARGS(to, SW_TRAIN), b = RESIZE_ARGS(from, SW_TRAIN);
    *out = SW_OPTS(sw_resize_info);
    return sw_model_resize_plan(to->model, from->model, exec, &a, &b, &usual, out);
}

/* ---- members ----------------------------------------------------------------------------- */

static sw_members *group_of(sw_exec *exec, resize_net *n)
{
    sw_members *all = NULL;
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = n->model, .fn = resize_step, .user = n);
    OK(sw_members_create(&all, exec, &opts));
    AFTER(sw_members_destroy, all);
    return all;
}

#define GROUP_ARGS(members_, n_)                                                               \
    SW_OPTS(sw_members_args, .members = members_, .n = n_, .inputs = resize_batch(),           \
            .n_inputs = 2, .mode = SW_TRAIN)

static sw_member member_of(sw_members *all, uint64_t seed)
{
    sw_member member = {NULL, 0, 0};
    OK(sw_member_new(&member, all, seed));
    return member;
}

/* A member that moves from one group to the other is the model that does. */
SW_TEST("members are resized as models are")
{
    sw_exec *exec = net_exec(NULL);
    resize_net *small = ready(exec, &narrow, 1), *large = ready(exec, &wide, 2);
    sw_members *few = group_of(exec, small), *many = group_of(exec, large);
    const sw_member from[] = {member_of(few, 4), member_of(few, 5)};
    const sw_member to[] = {member_of(many, 6), member_of(many, 7)};
    sw_members_args args = GROUP_ARGS(from, 2);
    for (uint64_t k = 0; k < 3; k++) {
        args.step = k;
        OK(sw_members_run(few, &args));
    }
    OK(sw_member_knob_set(from[1], small->factor, 0.25f));
    OK(sw_member_resize(to[1], from[1], &args, &usual));
    OK(sw_member_to_model(small->model, from[1]));
    OK(resize(exec, large, small, &usual));
    CU_ASSERT_EQUAL(sw_knob_get(large->factor), 0.25f);
    void *bytes = net_copy_bytes(large->model);
    OK(sw_member_to_model(large->model, to[1]));
    CU_ASSERT(net_same_bytes(large->model, bytes));
    OK(sw_member_to_model(large->model, to[0]));
    CU_ASSERT(!net_same_bytes(large->model, bytes));
    /* It trains on, and goes back. */
    OK(sw_members_run(many, &GROUP_ARGS(to, 2)));
    OK(sw_member_resize(from[0], to[1], &args, &usual));
    OK(sw_members_run(few, &args));
}

/* Of one shape too: all of it is taken over. */
SW_TEST("equal widths are a copy")
{
    sw_exec *exec = net_exec(NULL);
    resize_net *from = ready(exec, &wide, 1), *to = ready(exec, &wide, 2);
    sw_resize_info info;
    resize_train(exec, from, 3);
    OK(resize(exec, to, from, NULL));
    CU_ASSERT(net_same(to->model, from->model));
    OK(cost(exec, to, from, &info));
    CU_ASSERT(info.exact == 1 && info.added == 0 && info.dropped == 0);
}

SW_TEST("members cost what their plans say")
{
    sw_exec *exec = net_exec(NULL);
    resize_net *small = ready(exec, &narrow, 1), *large = ready(exec, &wide, 2);
    sw_members *few = group_of(exec, small), *many = group_of(exec, large);
    sw_resize_info info = SW_OPTS(sw_resize_info), of_models;
    OK(sw_members_resize_plan(many, few, &GROUP_ARGS(NULL, 0), NULL, &info));
    CU_ASSERT_EQUAL(info.from_bytes, sw_members_bytes(few));
    CU_ASSERT_EQUAL(info.to_bytes, sw_members_bytes(many));
    OK(cost(exec, large, small, &of_models));
    CU_ASSERT(memcmp(&info, &of_models, offsetof(sw_resize_info, exact)) == 0);
    CU_ASSERT_EQUAL(info.added, 13 + 5);
    CU_ASSERT_EQUAL(info.dropped, 0);
    CU_ASSERT_EQUAL(info.exact, 1);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    OK(sw_plan(exec, &RESIZE_ARGS(large, SW_TRAIN), &plan));
    CU_ASSERT_EQUAL(info.to_arena_bytes, plan.arena_bytes);
    CU_ASSERT_EQUAL(info.to_bytes, plan.model_bytes);
    OK(cost(exec, small, large, &of_models));
    CU_ASSERT(of_models.dropped == 18 && of_models.added == 0 && of_models.exact == 0);
    CU_ASSERT_EQUAL(of_models.from_arena_bytes, info.to_arena_bytes);
    CU_ASSERT_EQUAL(of_models.to_arena_bytes, info.from_arena_bytes);
}

SW_TEST("members that failed or ended are refused")
{
    sw_exec *exec = net_exec(NULL);
    resize_net *small = ready(exec, &narrow, 1), *large = ready(exec, &wide, 2);
    sw_members *few = group_of(exec, small), *many = group_of(exec, large);
    const sw_member from = member_of(few, 4), to = member_of(many, 5);
    const sw_members_args args = GROUP_ARGS(NULL, 0);
    REFUSED(sw_member_resize(from, from, &args, NULL), SW_INVALID, "different");
    from.of->slots[from.index].damaged = true;
    REFUSED(sw_member_resize(to, from, &args, NULL), SW_STALE, "failed");
    from.of->slots[from.index].damaged = false;
    to.of->slots[to.index].damaged = true;
    OK(sw_member_resize(to, from, &args, NULL));
    CU_ASSERT_FALSE(to.of->slots[to.index].damaged);
    sw_member_end(from);
    REFUSED(sw_member_resize(to, from, &args, NULL), SW_INVALID, "ended");
}

/* ---- states of optimizers ---------------------------------------------------------------- */

static const float *entry_of(resize_net *n, const char *name)
{
    for (uint32_t i = 1; i < n->model->n_entries; i++)
        if (strcmp(n->model->entries[i].name, name) == 0)
            return (const float *)(void *)(n->model->base + n->model->entries[i].offset);
    CU_FAIL_FATAL("no such tensor");
    return NULL;
}

/* f0.weight is (24, 49) and becomes (23, 49); f1.weight (16, 24) becomes (16, 23). Unit 5 goes:
 * its numbers are nowhere, the others' where they belong. */
SW_TEST("states of optimizers go with their units")
{
    static const char *const kinds[] = {"adam", "adafactor", "rmsprop", "adagrad", "lion"};
    static const char *const of_rows[] = {"m", "rows", "v", "sum", "m"};
    float utility[24];
    for (int i = 0; i < 24; i++)
        utility[i] = i == 5 ? -1.0f : 1.0f;
    sw_exec *exec = net_exec(NULL);
    for (int k = 0; k < 5; k++) {
        const resize_spec was = {RN_CHAIN, 2, {24, 16}, kinds[k]},
                          is = {RN_CHAIN, 2, {23, 16}, kinds[k]};
        resize_net *from = ready(exec, &was, 1), *to = ready(exec, &is, 2);
        resize_train(exec, from, 3);
        resize_by(exec, to, from, from->f[0].bias, 0, 24, utility);
        char name[48];
        snprintf(name, sizeof name, "f0.weight.%s", of_rows[k]);
        const float *a = entry_of(from, name), *b = entry_of(to, name);
        const size_t width = k == 1 ? 1 : RN_IN;
        SW_CHECK(memcmp(a, b, 5 * width * sizeof *a) == 0, "%s", kinds[k]);
        SW_CHECK(memcmp(a + 6 * width, b + 5 * width, 18 * width * sizeof *a) == 0, "%s",
                 kinds[k]);
        SW_CHECK(a[0] != 0.0f && memcmp(a + 5 * width, b + 5 * width, width * sizeof *a) != 0,
                 "%s", kinds[k]);
        if (k == 1) {
            a = entry_of(from, "f1.weight.cols");
            b = entry_of(to, "f1.weight.cols");
            CU_ASSERT(memcmp(a, b, 5 * sizeof *a) == 0);
            CU_ASSERT(memcmp(a + 6, b + 5, 18 * sizeof *a) == 0);
            CU_ASSERT(memcmp(entry_of(from, "f1.weight.rows"), entry_of(to, "f1.weight.rows"),
                             16 * sizeof *a) == 0);
        }
        resize_train(exec, to, 3);
    }
}

/* ---- what is refused --------------------------------------------------------------------- */

static void refuse_pair(sw_exec *exec, const resize_spec *was, const resize_spec *is,
                        sw_status status, const char *part)
{
    resize_net *from = ready(exec, was, 1), *to = ready(exec, is, 2);
    void *bytes = net_copy_bytes(to->model);
    REFUSED(resize(exec, to, from, &usual), status, part);
    CU_ASSERT(net_same_bytes(to->model, bytes));
    sw_resize_info info;
    REFUSED(cost(exec, to, from, &info), status, part);
}

SW_TEST("other nets are refused by the name of what differs")
{
    sw_exec *exec = net_exec(NULL);
    const resize_spec three = {RN_CHAIN, 3, {24, 16, 8}, NULL},
                      other = {RN_RESIDUAL, 0, {24, 16, 8}, NULL},
                      lion = {RN_CHAIN, 2, {37, 21}, "lion"},
                      adamw = {RN_CHAIN, 2, {37, 21}, "adamw"},
                      halves = {RN_GATED, 0, {12}, NULL}, normed = {RN_NORMED, 0, {12}, NULL},
                      more = {RN_NORMED, 0, {14}, NULL},
                      heads = {RN_ATTENTION, 0, {8, 5}, NULL};
    refuse_pair(exec, &narrow, &three, SW_INVALID, "'f3.weight'");
    refuse_pair(exec, &narrow, &other, SW_INVALID, "'stem.weight'");
    refuse_pair(exec, &narrow, &lion, SW_INVALID, "'optimizer0.");
    refuse_pair(exec, &narrow, &adamw, SW_INVALID, "adamw");
    refuse_pair(exec, &halves, &heads, SW_INVALID, "'both.weight'");
    refuse_pair(exec, &normed, &more, SW_UNSUPPORTED, "layer_norm");
    resize_net *from = ready(exec, &normed, 1), *to = ready(exec, &more, 2);
    sw_resize_opts opts = usual;
    opts.approximate = 1;
    OK(resize(exec, to, from, &opts));
    CU_ASSERT(memcmp(entry_of(to, "norm.weight"), entry_of(from, "norm.weight"), 48) == 0);
    resize_net *a = ready(exec, &narrow, 1), *b = ready(exec, &wide, 2);
    REFUSED(resize(exec, a, a, &usual), SW_INVALID, "different");
    a->model->damaged = true;
    REFUSED(resize(exec, b, a, &usual), SW_STALE, "restore");
    a->model->damaged = false;
    b->show_hidden = a->show_hidden = true;
    sw_run_args x = RESIZE_ARGS(b, SW_EVAL), y = RESIZE_ARGS(a, SW_EVAL);
    x.variant = y.variant = 1;
    REFUSED(sw_model_resize(b->model, a->model, exec, &x, &y, &usual), SW_INVALID, "output");
    REFUSED(resize(exec, resize_net_for_test(&wide), a, &usual), SW_INVALID, "ready");
    sw_array few[2] = {x.inputs[0], x.inputs[1]};
    few[0].shape.dim[0] = few[1].shape.dim[0] = 5;
    b->show_hidden = a->show_hidden = false;
    x = RESIZE_ARGS(b, SW_EVAL);
    y = RESIZE_ARGS(a, SW_EVAL);
    x.inputs = few;
    REFUSED(sw_model_resize(b->model, a->model, exec, &x, &y, &usual), SW_INVALID, "shape");
}

SW_TEST("bad utilities are refused")
{
    sw_exec *exec = net_exec(NULL);
    resize_net *from = ready(exec, &wide, 1), *to = ready(exec, &narrow, 2);
    float values[37] = {0};
    sw_utility u = {.tensor = from->f[0].bias, .axis = 0, .n = 37, .values = values};
    sw_resize_opts opts = usual;
    opts.n_utilities = 1;
    REFUSED(resize(exec, to, from, &opts), SW_INVALID, "NULL");
    opts.utilities = &u;
    OK(resize(exec, to, from, &opts));
    values[3] = NAN;
    REFUSED(resize(exec, to, from, &opts), SW_INVALID, "finite");
    values[3] = 0;
    u.n = 36;
    REFUSED(resize(exec, to, from, &opts), SW_INVALID, "'f0.bias'");
    u.n = 37;
    u.axis = 1;
    REFUSED(resize(exec, to, from, &opts), SW_INVALID, "'f0.bias'");
    u.axis = 0;
    u.reserved[1] = 1;
    REFUSED(resize(exec, to, from, &opts), SW_INVALID, "reserved");
    u.reserved[1] = 0;
    u.tensor = to->f[0].bias;
    REFUSED(resize(exec, to, from, &opts), SW_INVALID, "one of model");
}

/* ---- nets whose hidden axis goes where it cannot be resized ------------------------------ */

typedef enum SW_INIT(ODD_SOFTMAX, ODD_SUM, ODD_PRODUCT, ODD_GROUPS, ODD_CLASSES, ODD_ROWS,
                     ODD_TARGET, ODD_UNUSED, ODD_INPUT, ODD_RANK, ODD_KINDS) odd_kind;

typedef struct {
    odd_kind kind;
    sw_model *model;
    sw_linear f, g;
    sw_embedding e;
    sw_param unused;
} odd_net;

static void odd_step(sw_ctx *ctx, void *user)
{
    odd_net *n = user;
    sw_value x = sw_relu(ctx, sw_apply_linear(ctx, n->f, sw_input(ctx, 0)));
    const sw_value none = {0, 0};
    const int64_t rows = sw_dim(ctx, x, 0), width = sw_dim(ctx, x, 1);
    if (n->kind == ODD_INPUT)
        sw_metric(ctx, "some",
                  sw_mean(ctx,
                          sw_linear_op(ctx, sw_slice(ctx, sw_input(ctx, 0), 1, 0, width),
                                       sw_use(ctx, n->unused), none),
                          0));
    if (n->kind == ODD_SOFTMAX)
        x = sw_softmax(ctx, x);
    if (n->kind == ODD_SUM)
        sw_metric(ctx, "mean", sw_mean(ctx, x, 0));
    if (n->kind == ODD_PRODUCT)
        sw_metric(ctx, "size", sw_mean(ctx, sw_matmul(ctx, x, sw_transpose(ctx, x, 0, 1)), 0));
    if (n->kind == ODD_GROUPS)
        x = sw_flatten(ctx,
                       sw_group_norm_op(ctx, sw_reshape(ctx, x, SW_SHAPE(rows, width, 1, 1)),
                                        none, none, 2, 1e-5f));
    if (n->kind == ODD_TARGET)
        sw_metric(ctx, "loss", sw_mse(ctx, x, sw_tanh(ctx, x)));
    if (n->kind == ODD_ROWS)
        x = sw_add(ctx, x, sw_apply_embedding(ctx, n->e, sw_input(ctx, 1)));
    sw_metric(ctx, "ce", sw_softmax_ce(ctx, sw_apply_linear(ctx, n->g, x), sw_input(ctx, 1)));
}

static odd_net *odd_new(odd_kind kind, bool more)
{
    odd_net *n = sw_block(sizeof *n);
    n->kind = kind;
    n->model = made_model("odd");
    const int64_t width = more && kind != ODD_CLASSES && kind != ODD_ROWS ? 12 : 8;
    n->f = sw_linear_new(n->model, "f", RN_IN, width);
    n->g = sw_linear_new(n->model, "g", width, RN_OUT + (more && kind == ODD_CLASSES));
    if (kind == ODD_ROWS)
        n->e = sw_embedding_new(n->model, "e", RN_OUT + more, width);
    if (kind == ODD_UNUSED)
        n->unused = sw_param_new(n->model, "unused", SW_F32, SW_SHAPE(3 + more), "zeros");
    if (kind == ODD_INPUT)
        n->unused = sw_param_new(n->model, "mask", SW_F32, SW_SHAPE(4, width), "ones");
    if (kind == ODD_RANK)
        n->unused =
            sw_param_new(n->model, "flat", SW_F32, more ? SW_SHAPE(3, 1) : SW_SHAPE(3), "ones");
    return n;
}

SW_TEST("axes that cannot be resized are named")
{
    static const struct {
        sw_status status;
        const char *part;
    } answers[] = {
        {SW_UNSUPPORTED, "softmax"},
        {SW_UNSUPPORTED, "sum"},
        {SW_UNSUPPORTED, "matmul"},
        {SW_UNSUPPORTED, "group_norm"},
        {SW_INVALID, "'g.weight'"},
        {SW_INVALID, "'e.weight'"},
        {SW_INVALID, "the loss mse"},
        {SW_INVALID, "'unused'"},
        {SW_INVALID, "axis 1 of 'mask' cannot have another length: it reaches an input"},
        {SW_INVALID, "'flat'"}};
    sw_exec *exec = net_exec(NULL);
    for (int k = 0; k < ODD_KINDS; k++) {
        odd_net *from = odd_new((odd_kind)k, false), *to = odd_new((odd_kind)k, true);
        sw_run_args a = SW_OPTS(sw_run_args, .fn = odd_step, .user = to, .models = &to->model,
                                .n_models = 1, .inputs = resize_batch(), .n_inputs = 2);
        sw_run_args b = a;
        b.user = from;
        b.models = &from->model;
        sw_resize_info info = SW_OPTS(sw_resize_info);
        REFUSED(sw_model_resize_plan(to->model, from->model, exec, &a, &b, NULL, &info),
                answers[k].status, answers[k].part);
    }
}

/* A width that no table of positions could have, planned without memory. */
SW_TEST("too many positions are refused")
{
    const resize_spec huge = {RN_CHAIN, 1, {(int64_t)1 << 33}, "sgd"},
                      small = {RN_CHAIN, 1, {8}, "sgd"};
    sw_exec *exec = net_exec(NULL);
    resize_net *from = resize_net_for_test(&small), *to = resize_net_for_test(&huge);
    sw_resize_info info;
    REFUSED(cost(exec, to, from, &info), SW_NOMEM, "too many");
}

/* ---- failures ---------------------------------------------------------------------------- */

typedef struct {
    resize_net *from, *to;
    sw_member member[2];
    unsigned char *bytes; /* of `to`, as it was */
    sw_exec *exec;        /* NULL: one of its own each time */
} scene;

static sw_status resize_model(void *arg)
{
    scene *s = arg;
    sw_exec *exec = s->exec;
    if (exec == NULL)
        SW_TRY(sw_exec_create(&exec, NULL));
    /* An exec may do without some of its memory: such a failure is none of the call's. */
    const bool spent = s->exec == NULL && sw_fault_hits(SW_FAULT_MEMORY) > 0;
    sw_status status = resize(exec, s->to, s->from, &usual);
    if (status == SW_OK)
        memcpy(s->to->model->base, s->bytes, s->to->model->bytes);
    SW_CHECK(net_same_bytes(s->to->model, s->bytes), "a failure changed the model");
    if (spent && status == SW_OK)
        status = sw_error_set(SW_NOMEM, __FILE__, __LINE__, "memory that was not needed");
    if (s->exec == NULL)
        sw_exec_destroy(exec);
    return status;
}

static sw_status resize_member(void *arg)
{
    scene *s = arg;
    const sw_members_args args = GROUP_ARGS(NULL, 0);
    const sw_status status = sw_member_resize(s->member[1], s->member[0], &args, &usual);
    unsigned char *base = swi_member_base(s->member[1].of, s->member[1].index);
    const size_t bytes = sw_members_bytes(s->member[1].of);
    if (status == SW_OK)
        memcpy(base, s->bytes, bytes);
    SW_CHECK(memcmp(base, s->bytes, bytes) == 0, "a failure changed the member");
    return status;
}

SW_TEST("failures change nothing")
{
    sw_exec *exec = net_exec(NULL);
    scene s = {.exec = exec};
    s.from = ready(exec, &narrow, 1);
    s.to = ready(exec, &wide, 2);
    resize_train(exec, s.from, 2);
    s.bytes = net_copy_bytes(s.to->model);
    OK(resize_model(&s)); /* its programs are there */
    sw_note("%llu sites, planned",
            (unsigned long long)sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, resize_model, &s));
    s.exec = NULL;
    sw_note("%llu sites, from the beginning",
            (unsigned long long)sw_sweep(SW_FAULT_MEMORY, SW_OK, resize_model, &s));
    s.member[0] = member_of(group_of(exec, s.from), 3);
    s.member[1] = member_of(group_of(exec, s.to), 4);
    OK(sw_member_from_model(s.member[1], s.to->model));
    OK(resize_member(&s));
    sw_note("%llu sites, members",
            (unsigned long long)sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, resize_member, &s));
}
