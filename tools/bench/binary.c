/* bench binary: layers of bits, with bits of each direction drawn where they are used, beside
 * the float layer, bits that were drawn before and are stored, and the bits of one net. */
#include "alloc/base/mem.h"
#include "kernels/dispatch.h"
#include "runtime/base/common.h"
#include "tools/bench/bench.h"
#include <string.h>

typedef struct {
    int64_t directions, images, loops, threads;
    bool json, quiet;
} binary_opts;

/* They take turns. PAIRS: half as many directions, each with its mirrored draws. */
enum { FLOAT, DRAWN, PAIRS, STORED, ONE, VARIANTS };
static const char *const names[VARIANTS] = {"float", "drawn", "pairs", "stored", "one net"};
static const char *const keys[VARIANTS] = {"float", "drawn", "pairs", "stored", "one_net"};

enum { BLOCKS = 8 };
typedef struct {
    const binary_opts *opts;
    sw_isa isa;
    sw_pool *pool;
    const sw_par *par;
    int64_t batch, in, out, side, kernel; /* side, kernel 1: linear */
    float *x, *w, *bias, *y;
    void *bits, *result, *scratch;
    uint64_t *stored;
    swi_noise_attrs noise[VARIANTS];
    void *block[BLOCKS];
    size_t bytes[BLOCKS];
    int n_blocks;
} subject;

static sw_status take(subject *s, void *out, size_t bytes)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes));
    memset(block, 0, bytes);
    memcpy(out, &block, sizeof block);
    s->block[s->n_blocks] = block;
    s->bytes[s->n_blocks++] = bytes;
    return SW_OK;
}

static void end(subject *s)
{
    for (int i = 0; i < s->n_blocks; i++)
        sw_heap_free(s->block[i], SW_HEAP_RECORDS, s->bytes[i]);
    swi_pool_destroy(s->pool);
}

static sw_binary_layer layer_of(const subject *s, int variant)
{
    return (sw_binary_layer){.s = {.batch = s->batch,
                                   .in_h = s->side,
                                   .in_w = s->side,
                                   .out_h = s->side,
                                   .out_w = s->side,
                                   .channels = s->in,
                                   .outputs = s->out,
                                   .kernel_h = s->kernel,
                                   .kernel_w = s->kernel,
                                   .stride = 1,
                                   .pad = s->kernel / 2},
                             .a = &s->noise[variant],
                             .x = s->bits,
                             .logits = s->w,
                             .bias = s->bias,
                             .scale = 5.0f,
                             .sigma = 0.1f,
                             .seed = 1,
                             .bits = s->result,
                             .stored = variant == STORED ? s->stored : NULL};
}

static sw_conv conv_of(const subject *s)
{
    return (sw_conv){.batch = s->batch,
                     .in_c = s->in,
                     .in_h = s->side,
                     .in_w = s->side,
                     .out_c = s->out,
                     .out_h = s->side,
                     .out_w = s->side,
                     .kernel_h = s->kernel,
                     .kernel_w = s->kernel,
                     .stride = 1,
                     .pad = s->kernel / 2};
}

static void run_float(const subject *s)
{
    const sw_conv conv = conv_of(s);
    const sw_gemm g = {.c = s->y,
                       .a = s->x,
                       .a_row = s->in,
                       .a_col = 1,
                       .b = s->w,
                       .b_row = 1,
                       .b_col = s->in,
                       .bias = s->bias,
                       .m = s->batch,
                       .n = s->out,
                       .k = s->in};
    if (s->kernel == 1)
        sw_dense(s->isa)->gemm(&g, s->scratch, s->par);
    else
        sw_dense(s->isa)->conv(s->y, s->x, s->w, s->bias, &conv, false, s->scratch, s->par);
}

static sw_status turn(void *context, int i)
{
    const subject *s = context;
    const sw_binary_layer l = layer_of(s, i);
    if (i == FLOAT)
        run_float(s);
    else
        sw_binary(s->isa)->layer(&l, s->scratch, s->par);
    return SW_OK;
}

static void set_noise(subject *s)
{
    const sw_noise_spec bits = {.kind = SW_NOISE_BITS_OF_LOGITS,
                                .rows = s->out,
                                .cols = s->in * s->kernel * s->kernel,
                                .taps = (int32_t)(s->kernel * s->kernel),
                                .stream = 1};
    const sw_noise_spec bias = {
        .kind = SW_NOISE_IID, .rows = 1, .cols = s->out, .taps = 1, .stream = 2};
    for (int i = 0; i < VARIANTS; i++) {
        const bool one = i == ONE;
        s->noise[i] = (swi_noise_attrs){.repeats = i == PAIRS ? 2 : 1,
                                        .directions = one          ? 1
                                                      : i == PAIRS ? s->batch / 2
                                                                   : s->batch,
                                        .antithetic = i == PAIRS};
        if (!one) {
            s->noise[i].weight = bits;
            s->noise[i].bias = bias;
        }
    }
}

static sw_status make(subject *s)
{
    const sw_conv conv = conv_of(s);
    const int threads = (int)s->opts->threads;
    const size_t area = (size_t)(s->side * s->side), real = sizeof *s->x;
    const size_t batch = (size_t)(s->batch + 15) / 16 * 16; /* blocks of sixteen */
    const size_t weight = (size_t)(s->in * s->out * s->kernel * s->kernel);
    s->isa = sw_cpu_isa();
    SW_TRY(swi_pool_create(&s->pool, threads, 1));
    s->par = swi_pool_par(s->pool);
    set_noise(s);
    const sw_binary_layer l = layer_of(s, DRAWN);
    size_t scratch = sw_binary(s->isa)->layer_bytes(&l.s, threads);
    const size_t plain = s->kernel == 1
                             ? sw_dense(s->isa)->gemm_bytes(s->batch, s->out, s->in, false)
                             : sw_dense(s->isa)->conv_bytes(&conv, threads);
    scratch = plain > scratch ? plain : scratch;
    SW_TRY(take(s, &s->x, batch * area * (size_t)s->in * real));
    SW_TRY(take(s, &s->y, batch * area * (size_t)s->out * real));
    SW_TRY(take(s, &s->w, weight * real));
    SW_TRY(take(s, &s->bias, (size_t)s->out * real));
    SW_TRY(take(s, &s->bits, batch * area * (size_t)sw_binary_words(s->in) * 8));
    SW_TRY(take(s, &s->result, batch * area * (size_t)sw_binary_words(s->out) * 8));
    SW_TRY(take(s, &s->scratch, scratch + 64));
    SW_TRY(take(s, &s->stored, sw_binary(s->isa)->stored_bytes(&l)));
    sw_rng_normal(s->x, 0, s->batch * s->in * s->side * s->side, 1, 1, 0, 0);
    sw_rng_uniform(s->w, 0, (int64_t)weight, 1, 2, 0, 0);
    for (size_t i = 0; i < weight; i++)
        s->w[i] = 2.0f * s->w[i] - 1.0f;
    sw_binary(s->isa)->pack(s->bits, s->x, s->batch * s->side * s->side, s->in, 1, 0.0f,
                            s->par);
    const sw_binary_layer drawn = layer_of(s, DRAWN);
    sw_binary(s->isa)->draw(s->stored, &drawn, s->scratch, s->par);
    for (int i = 0; i < VARIANTS; i++)
        SW_TRY(turn(s, i));
    return SW_OK;
}

/* ---- the table ----------------------------------------------------------------------------
 */

static void print(const subject *s, const bench_variant *v, size_t stored)
{
    char name[32];
    if (s->kernel == 1)
        snprintf(name, sizeof name, "%lld, %lld", (long long)s->in, (long long)s->out);
    else
        snprintf(name, sizeof name, "%lld, %lld, %lldx%lld, %lld^2", (long long)s->in,
                 (long long)s->out, (long long)s->kernel, (long long)s->kernel,
                 (long long)s->side);
    printf("%-18s %12s", name, cli_ns(v[FLOAT].summary.median).text);
    for (int i = DRAWN; i < VARIANTS; i++)
        printf(" %9.3f", (double)v[i].summary.median / (double)v[FLOAT].summary.median);
    printf(" %12s\n%-18s %12s", cli_bytes(stored).text, "  at least",
           cli_ns(v[FLOAT].summary.min).text);
    for (int i = DRAWN; i < VARIANTS; i++)
        printf(" %9.3f", (double)v[i].summary.min / (double)v[FLOAT].summary.min);
    printf("\n");
}

static void put(sw_json *json, const subject *s, const bench_variant *v, size_t stored)
{
    sw_json_begin(json, '{');
    sw_json_put_i64(json, "in", s->in);
    sw_json_put_i64(json, "out", s->out);
    sw_json_put_i64(json, "kernel", s->kernel);
    sw_json_put_i64(json, "side", s->side);
    sw_json_put_i64(json, "batch", s->batch);
    sw_json_put_u64(json, "stored_bytes", stored);
    for (int i = 0; i < VARIANTS; i++)
        bench_put(json, v[i].key, &v[i].summary);
    sw_json_end(json);
}

static const struct {
    int64_t in, out, side, kernel;
} shapes[] = {{256, 256, 1, 1}, {512, 512, 1, 1}, {1024, 1024, 1, 1}, {64, 64, 32, 3}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static sw_status measure(const binary_opts *o, int shape, sw_json *json)
{
    const bool image = shapes[shape].kernel > 1;
    subject s = {.opts = o,
                 .batch = image ? o->images : o->directions,
                 .in = shapes[shape].in,
                 .out = shapes[shape].out,
                 .side = shapes[shape].side,
                 .kernel = shapes[shape].kernel};
    bench_variant v[VARIANTS];
    for (int i = 0; i < VARIANTS; i++)
        v[i] = (bench_variant){.name = names[i], .key = keys[i]};
    sw_status status = make(&s);
    if (status == SW_OK)
        status = bench_take_turns(v, VARIANTS, o->loops, turn, &s);
    if (status == SW_OK && json != NULL)
        put(json, &s, v, s.bytes[s.n_blocks - 1]);
    else if (status == SW_OK && v[FLOAT].summary.median > 0)
        print(&s, v, s.bytes[s.n_blocks - 1]);
    end(&s);
    return status;
}

static int run(const binary_opts *o)
{
    sw_json json;
    sw_status status = SW_OK;
    if (o->json) {
        result_json_begin(&json);
        sw_json_open(&json, "shapes", '[');
    } else {
        if (!o->quiet)
            printf(
                "%lld rows, or %lld images, a direction each; medians and minima over the "
                "float layer's\n"
                "drawn: bits of each direction, made where they are used; pairs: half as many "
                "directions, mirrored;\nstored: drawn before, in as many bytes; one net: the "
                "same bits for all\n\n",
                (long long)o->directions, (long long)o->images);
        printf("%-18s %12s %9s %9s %9s %9s %12s\n", "in, out", "float", names[1], names[2],
               names[3], names[4], "stored");
    }
    for (int i = 0; i < SHAPES && status == SW_OK && !cli_interrupted(); i++)
        status = measure(o, i, o->json ? &json : NULL);
    const int code = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (status != SW_OK) {
        if (o->json)
            sw_json_free(&json);
        return cli_library_error(status, false);
    }
    if (o->json)
        sw_json_end(&json);
    return o->json ? result_json_end(&json, code) : cli_finish(code);
}

int bench_binary(int argc, char **argv)
{
    binary_opts o = {0};
    const cli_option options[] = {
        {"--directions", "N", CLI_COUNT, &o.directions, "1024",
         "rows of the linear layers, a direction each", 2, 1 << 16, NULL},
        {"--images", "N", CLI_COUNT, &o.images, "64", "images of the convolution", 2, 1 << 12,
         NULL},
        {"--loops", "N", CLI_COUNT, &o.loops, "100", "forward passes of each", 1, 1 << 20,
         NULL},
        {"--threads", "N", CLI_COUNT, &o.threads, "1", "threads that compute", 1, 256, NULL},
        {"--json", NULL, CLI_FLAG, &o.json, NULL, "one JSON object on standard output", 0, 0,
         NULL},
        {"--quiet", NULL, CLI_FLAG, &o.quiet, NULL, "no heading", 0, 0, NULL},
    };
    const cli_command command = {.name = "bench binary",
                                 .usage = "[options]",
                                 .about = "Layers of bits: drawn, stored, and of one net, over "
                                          "the float layer.",
                                 .options = options,
                                 .n_options = (int)(sizeof options / sizeof *options)};
    const int parsed = cli_parse(&command, argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    if (o.directions % 2 != 0 || o.images % 2 != 0)
        return cli_error(CLI_USAGE, "--directions and --images must be even: pairs halve them");
    cli_catch_interrupt();
    return run(&o);
}
