/* Other widths: what is computed stays, what is narrowed again has the bits that it had, and a
 * plain check of chains agrees on every element. */
#include "kernels/dispatch.h"
#include "tests/population/resize_nets.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const sw_resize_opts usual = {.size = sizeof usual, .seed = 77};

static sw_status resize(sw_exec *exec, resize_net *to, resize_net *from,
                        const sw_resize_opts *opts)
{
    const sw_run_args a = resize_args(to, SW_TRAIN), b = resize_args(from, SW_TRAIN);
    return sw_model_resize(to->model, from->model, exec, &a, &b, opts);
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
        resize_net *from = resize_net_for_test(&pairs[i].narrow);
        resize_net *to = resize_net_for_test(&pairs[i].wide);
        OK(sw_model_ready(from->model, exec, 1));
        OK(sw_model_ready(to->model, exec, 2));
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

static void widened_nets_compute_what_they_did(void)
{
    for (sw_isa isa = SW_ISA_BASE; isa <= sw_cpu_isa(); isa++)
        compute_what_they_did(sw_isa_name(isa));
}

/* All bytes of the model: parameters, optimizer state, buffers, gradients, knobs. */
static void narrowed_again_has_its_bits(void)
{
    sw_exec *exec = net_exec(NULL);
    for (int i = 0; i < PAIRS; i++) {
        resize_net *from = resize_net_for_test(&pairs[i].narrow);
        resize_net *to = resize_net_for_test(&pairs[i].wide);
        resize_net *back = resize_net_for_test(&pairs[i].narrow);
        OK(sw_model_ready(from->model, exec, 1));
        OK(sw_model_ready(to->model, exec, 2));
        OK(sw_model_ready(back->model, exec, 3));
        resize_train(exec, from, 4);
        OK(resize(exec, to, from, &usual));
        SW_CHECK(!net_same(back->model, from->model), "%s", pairs[i].name);
        OK(resize(exec, back, to, &usual));
        SW_CHECK(net_same(back->model, from->model), "%s", pairs[i].name);
    }
}

/* ---- chains, element by element ---------------------------------------------------------- */

static float *values_of(resize_net *n, const char *name, size_t count)
{
    float *values = calloc(count + 1, sizeof *values);
    uint32_t entry = 1;
    while (entry < n->model->n_entries && strcmp(n->model->entries[entry].name, name) != 0)
        entry++;
    CU_ASSERT_FATAL(entry < n->model->n_entries && values != NULL);
    const swi_entry *e = &n->model->entries[entry];
    CU_ASSERT_EQUAL_FATAL(e->bytes, count * sizeof *values);
    memcpy(values, n->model->base + e->offset, e->bytes);
    return values;
}

typedef struct {
    int64_t n_from, n_to;
    int64_t from[64]; /* of each new position; -1: new */
} layer_map;

/* Plain: all pairs are compared, no sorting. */
static void map_layer(resize_net *from, int i, int64_t n_to, layer_map *m)
{
    const int64_t n = from->spec.w[i], in = i > 0 ? from->spec.w[i - 1] : RN_IN,
                  out = i + 1 < from->spec.n ? from->spec.w[i + 1] : RN_OUT;
    char name[32];
    double utility[64];
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
    free(w);
    free(b);
    free(next);
}

/* Rows by `rows`, columns by `cols` (NULL: as they were). fresh: of a model of the new widths.
 */
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
    bool same = true;
    for (int64_t i = 0; i < r * c; i++) {
        const int64_t y = rows != NULL ? rows->from[i / c] : i / c;
        const int64_t x = cols != NULL ? cols->from[i % c] : i % c;
        float expected = begins[i];
        if (y >= 0 && x >= 0)
            expected = was[y * was_c + x];
        else if (x < 0 || state)
            expected = 0.0f;
        same &= memcmp(&expected, &is[i], sizeof expected) == 0;
    }
    free(is);
    free(was);
    free(begins);
    return same;
}

static bool layers_are(resize_net *to, resize_net *from, resize_net *fresh)
{
    static const char *const suffix[] = {"", ".m", ".v"};
    layer_map map[RN_LAYERS];
    bool same = true;
    for (int i = 0; i < from->spec.n; i++)
        map_layer(from, i, to->spec.w[i], &map[i]);
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

static void random_chain(sw_exec *exec, sw_dice *dice)
{
    resize_spec was = {.kind = RN_CHAIN, .n = 1 + (int)sw_dice_below(dice, 4)}, is;
    is = was;
    for (int i = 0; i < was.n; i++) {
        was.w[i] = 1 + (int64_t)sw_dice_below(dice, 20);
        is.w[i] = sw_dice_below(dice, 4) == 0 ? was.w[i] : 1 + (int64_t)sw_dice_below(dice, 20);
    }
    resize_net *from = resize_net_new(&was), *to = resize_net_new(&is),
               *fresh = resize_net_new(&is);
    OK(sw_model_ready(from->model, exec, sw_dice_next(dice)));
    OK(sw_model_ready(to->model, exec, 5));
    OK(sw_model_ready(fresh->model, exec, usual.seed));
    resize_train(exec, from, 2);
    OK(resize(exec, to, from, &usual));
    SW_CHECK(layers_are(to, from, fresh), "%d layers, %lld to %lld", was.n, (long long)was.w[0],
             (long long)is.w[0]);
    resize_net_end(from);
    resize_net_end(to);
    resize_net_end(fresh);
}

static void random_chains_agree_with_a_plain_check(void)
{
    sw_dice dice = {20};
    sw_exec *exec = net_exec(NULL);
    for (int i = 0; i < 300; i++)
        random_chain(exec, &dice);
}

/* ---- random nets and batches, widened ---------------------------------------------------- */

/* Logits of the first `rows` rows. */
static void logits_of(sw_exec *exec, resize_net *n, int64_t rows, sw_mode mode, float *out)
{
    sw_run_args args = resize_args(n, mode);
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

static void random_nets_compute_what_they_did(void)
{
    sw_dice dice = {31};
    sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts, .threads = 2));
    for (int i = 0; i < (sw_tests_full() ? 2000 : 100); i++)
        random_widening(exec, &dice);
}

/* ---- other nets, narrowed ---------------------------------------------------------------- */

/* Channels 1 and 4 of six go: the linear after flatten loses their blocks of 9 columns, the
 * conv in front its rows, the depthwise one its own. */
static void channels_go_with_their_places(void)
{
    static const int64_t stay[] = {0, 2, 3, 5};
    const float utility[] = {3, 1, 5, 4, 1, 2};
    const resize_spec was = {RN_CONV, 0, {5, 6, 11}, NULL}, is = {RN_CONV, 0, {5, 4, 11}, NULL};
    sw_exec *exec = net_exec(NULL);
    resize_net *from = resize_net_for_test(&was), *to = resize_net_for_test(&is);
    OK(sw_model_ready(from->model, exec, 1));
    OK(sw_model_ready(to->model, exec, 2));
    resize_train(exec, from, 3);
    const sw_utility given = {
        .tensor = from->c[2].weight, .axis = 0, .n = 6, .values = utility};
    sw_resize_opts opts = usual;
    opts.utilities = &given;
    opts.n_utilities = 1;
    OK(resize(exec, to, from, &opts));
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
    float *const all[] = {w, v, c, d, e, f, b, m};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* A unit of the stream has one column in each `up` and one row in each `down`. */
static void what_is_shared_goes_everywhere(void)
{
    const resize_spec was = {RN_RESIDUAL, 0, {6, 3, 4}, NULL},
                      is = {RN_RESIDUAL, 0, {5, 3, 4}, NULL};
    const float utility[] = {3, 2, 2, 0.5f, 9, 1};
    static const int64_t stay[] = {0, 1, 2, 4, 5};
    sw_exec *exec = net_exec(NULL);
    resize_net *from = resize_net_for_test(&was), *to = resize_net_for_test(&is);
    OK(sw_model_ready(from->model, exec, 1));
    OK(sw_model_ready(to->model, exec, 2));
    resize_train(exec, from, 3);
    const sw_utility given = {
        .tensor = from->f[5].weight, .axis = 1, .n = 6, .values = utility};
    sw_resize_opts opts = usual;
    opts.utilities = &given;
    opts.n_utilities = 1;
    OK(resize(exec, to, from, &opts));
    static const char *const rows[] = {"stem.weight", "a.down.weight", "b.down.weight.m"};
    static const size_t width[] = {RN_IN, 3, 4};
    for (int i = 0; i < 3; i++) {
        float *w = values_of(from, rows[i], 6 * width[i]),
              *v = values_of(to, rows[i], 5 * width[i]);
        for (size_t k = 0; k < 5; k++)
            CU_ASSERT(memcmp(v + k * width[i], w + (size_t)stay[k] * width[i],
                             width[i] * sizeof *w) == 0);
        free(w);
        free(v);
    }
    float *w = values_of(from, "b.up.weight", 24), *v = values_of(to, "b.up.weight", 20);
    for (size_t k = 0; k < 20; k++)
        CU_ASSERT_EQUAL(v[k], w[k / 5 * 6 + (size_t)stay[k % 5]]);
    free(w);
    free(v);
}

/* New channels: weight 1, bias 0, mean 0, variance 1; old ones have their own. */
static void new_channels_of_batch_norm_begin(void)
{
    static const char *const names[] = {"bn.weight", "bn.bias", "bn.running_mean",
                                        "bn.running_var"};
    static const float begin[] = {1, 0, 0, 1};
    const resize_spec was = {RN_CONV, 0, {5, 6, 11}, NULL}, is = {RN_CONV, 0, {7, 6, 11}, NULL};
    sw_exec *exec = net_exec(NULL);
    resize_net *from = resize_net_for_test(&was), *to = resize_net_for_test(&is);
    OK(sw_model_ready(from->model, exec, 1));
    OK(sw_model_ready(to->model, exec, 2));
    resize_train(exec, from, 3);
    OK(resize(exec, to, from, &usual));
    for (int i = 0; i < 4; i++) {
        float *w = values_of(from, names[i], 5), *v = values_of(to, names[i], 7);
        CU_ASSERT(memcmp(v, w, 5 * sizeof *v) == 0);
        CU_ASSERT_NOT_EQUAL(v[0], begin[i]);
        CU_ASSERT(v[5] == begin[i] && v[6] == begin[i]);
        free(w);
        free(v);
    }
}

static const sw_test tests[] = {
    {"widened nets compute what they did, and train on", widened_nets_compute_what_they_did},
    {"what was widened has its bits when it is narrowed", narrowed_again_has_its_bits},
    {"random chains agree with a plain check", random_chains_agree_with_a_plain_check},
    {"random nets compute what they did, whatever the batch",
     random_nets_compute_what_they_did},
    {"channels go with their places in a flattened axis", channels_go_with_their_places},
    {"what is shared by a residual goes everywhere", what_is_shared_goes_everywhere},
    {"new channels of a batch norm begin", new_channels_of_batch_norm_begin},
};
SW_SUITE("resize", tests)
