/* bench es: NESgpu's table (its README: layers under noise, times their base) with all its
 * modes, and ours beside them; bytes of noise that a plan has, and the update beside a forward.
 * es_layer.c times; MEASURED.md has figures and peers. */
#include "tools/bench/es.h"
#include <string.h>

/* ---- layers and modes -------------------------------------------------------------------- */

static const es_layer layers[ES_LAYERS] = {
    {256, 256, 0, 0}, {512, 512, 0, 0}, {1024, 1024, 0, 0}, {16, 16, 3, 64},
    {32, 32, 3, 64},  {64, 64, 3, 32},  {32, 32, 1, 32},    {1024, 1024, 1, 1}};

/* Published: GTX 1080 Ti, batch 1024, fp32; its square PermutedLinear permutes the outputs. */
static const es_mode modes[] = {
    {.name = "base", .key = "base", .of = ES_DENSE | ES_CONV},
    {.name = "naive",
     .key = "naive",
     .of = ES_DENSE | ES_CONV,
     .published = {387.5f, 218.6f, 83.1f}},
    {.name = "perturbed",
     .key = "perturbed",
     .noise = "iid",
     .of = ES_DENSE | ES_CONV,
     .published = {14.85f, 29.52f, 44.86f}},
    {.name = "sparse k=1",
     .key = "sparse_1",
     .noise = "sparse",
     .in_share = -1.0f,
     .of = ES_DENSE | ES_CONV,
     .published = {3.54f, 3.45f, 2.10f}},
    {.name = "sparse k=2",
     .key = "sparse_2",
     .noise = "sparse",
     .in_share = -2.0f,
     .of = ES_DENSE | ES_CONV,
     .published = {4.77f, 4.62f, 3.79f}},
    {.name = "permuted",
     .key = "permuted",
     .noise = "permuted-out",
     .of = ES_DENSE | ES_CONV,
     .published = {3.41f, 2.93f, 2.72f, 2.45f, 2.50f, 2.51f, 3.38f, 2.18f}},
    {.name = "permuted in 50 %",
     .key = "permuted_in_50",
     .noise = "permuted-in",
     .in_share = 0.5f,
     .of = ES_DENSE,
     .published = {3.39f, 2.46f, 2.13f}},
    {.name = "permuted in 10 %",
     .key = "permuted_in_10",
     .noise = "permuted-in",
     .in_share = 0.1f,
     .of = ES_DENSE,
     .published = {3.42f, 2.52f, 1.67f}},
    {.name = "permuted out 50 %",
     .key = "permuted_out_50",
     .noise = "permuted-out",
     .out_share = 0.5f,
     .of = ES_CONV},
    {.name = "permuted out 10 %",
     .key = "permuted_out_10",
     .noise = "permuted-out",
     .out_share = 0.1f,
     .of = ES_CONV,
     .published = {[7] = 1.64f}},
    {.name = "permuted in and out",
     .key = "permuted_both",
     .noise = "permuted",
     .of = ES_DENSE | ES_CONV,
     .ours = true},
    {.name = "sign-flip",
     .key = "sign_flip",
     .noise = "sign-flip",
     .of = ES_DENSE | ES_CONV,
     .ours = true},
    {.name = "dropout",
     .key = "dropout",
     .noise = "dropout",
     .of = ES_DENSE | ES_CONV,
     .ours = true},
    {.name = "low-rank",
     .key = "low_rank",
     .noise = "low-rank",
     .of = ES_DENSE | ES_CONV,
     .ours = true},
    {.name = "  rademacher",
     .key = "low_rank_rademacher",
     .noise = "low-rank",
     .distribution = "rademacher",
     .of = ES_DENSE | ES_CONV,
     .ours = true},
    {.name = "  bits",
     .key = "low_rank_bits",
     .noise = "low-rank",
     .distribution = "bits",
     .of = ES_DENSE | ES_CONV,
     .ours = true},
    {.name = "low-rank, pairs",
     .key = "pairs",
     .noise = "low-rank",
     .pairs = true,
     .of = ES_DENSE | ES_CONV,
     .ours = true},
    {.name = "  rademacher",
     .key = "pairs_rademacher",
     .noise = "low-rank",
     .distribution = "rademacher",
     .pairs = true,
     .of = ES_DENSE | ES_CONV,
     .ours = true},
    {.name = "  bits",
     .key = "pairs_bits",
     .noise = "low-rank",
     .distribution = "bits",
     .pairs = true,
     .of = ES_DENSE | ES_CONV,
     .ours = true},
};
enum { MODES = sizeof modes / sizeof *modes };

/* The base and the loop always; then those that were asked for. */
static int modes_of(const es_opts *o, const es_layer *layer, const es_mode **to)
{
    int n = 0;
    for (int i = 0; i < MODES; i++) {
        const bool asked = i <= ES_NAIVE || strcmp(o->modes, "all") == 0 ||
                           modes[i].ours == (strcmp(o->modes, "ours") == 0);
        if (asked && (modes[i].of & (layer->kernel > 0 ? ES_CONV : ES_DENSE)) != 0)
            to[n++] = &modes[i];
    }
    return n;
}

/* ---- reports ----------------------------------------------------------------------------- */

static void name_layer(const es_layer *l, char *to, size_t bytes)
{
    if (l->kernel > 0)
        snprintf(to, bytes, "%lld,%lld,%dx%d,%lldx%lld", (long long)l->out, (long long)l->in,
                 l->kernel, l->kernel, (long long)l->side, (long long)l->side);
    else
        snprintf(to, bytes, "%lld,%lld", (long long)l->out, (long long)l->in);
}

static double over(uint64_t a, uint64_t b)
{
    return b > 0 ? (double)a / (double)b : 0.0;
}

static void put_ratios(sw_json *json, const char *key, const cli_summary *of,
                       const cli_summary *base)
{
    sw_json_open(json, key, '{');
    sw_json_put_f64(json, "min", over(of->min, base->min));
    sw_json_put_f64(json, "median", over(of->median, base->median));
    sw_json_end(json);
}

static void put_mode(sw_json *json, const es_found *f, const cli_summary *base,
                     double published)
{
    const bool update = f->update.n > 0;
    sw_json_open(json, f->mode->key, '{');
    bench_put(json, "layer", &f->layer);
    put_ratios(json, "times_base", &f->layer, base);
    sw_json_put_known_f64(json, "nesgpu_times_base", published > 0.0, published);
    if (f->mode->noise != NULL) {
        sw_json_put_u64(json, "noise_bytes", f->noise_bytes);
        sw_json_put_u64(json, "scratch_bytes", f->scratch_bytes);
        sw_json_put_i64(json, "above_inference_bytes", f->above_bytes);
    }
    if (update) {
        bench_put(json, "update", &f->update);
        put_ratios(json, "update_times_base", &f->update, base);
        bench_put(json, "update_program", &f->estimate);
        sw_json_put_u64(json, "update_arena_bytes", f->update_arena_bytes);
    }
    sw_json_end(json);
}

static void put_layer(sw_json *json, int at, const es_found *found, int n)
{
    char name[48];
    name_layer(&layers[at], name, sizeof name);
    sw_json_open(json, name, '{');
    for (int i = 0; i < n; i++)
        put_mode(json, &found[i], &found[ES_BASE].layer, (double)found[i].mode->published[at]);
    sw_json_end(json);
}

static void print_published(float published)
{
    if (published > 0.0f)
        printf(" %8.2f", (double)published);
    else
        printf(" %8s", "");
}

static void print_mode(const es_found *f, const cli_summary *base, float published)
{
    printf("%-20s %5llu %10s %10s %8.2f %8.2f", f->mode->name, (unsigned long long)f->layer.n,
           cli_ns(f->layer.min).text, cli_ns(f->layer.median).text,
           over(f->layer.min, base->min), over(f->layer.median, base->median));
    print_published(published);
    if (f->mode->noise != NULL)
        printf(" %7zu %10zu %10lld", f->noise_bytes, f->scratch_bytes,
               (long long)f->above_bytes);
    if (f->update.n > 0)
        printf(" %8.2f %8.2f", over(f->update.min, base->min),
               over(f->update.median, base->median));
    printf("\n");
}

static void print_layer(const es_opts *o, int at, const es_found *found, int n)
{
    char name[48];
    name_layer(&layers[at], name, sizeof name);
    if (!o->quiet)
        printf("\n%-20s %5s %10s %10s %8s %8s %8s %7s %10s %10s%s\n", name, "runs", "min",
               "median", "x min", "x median", "NESgpu", "stored", "scratch", "above",
               o->forward ? "" : "  upd min  upd med");
    for (int i = 0; i < n; i++)
        if (found[i].layer.n > 0)
            print_mode(&found[i], &found[ES_BASE].layer, found[i].mode->published[at]);
    cli_flush();
}

/* ---- the command ------------------------------------------------------------------------- */

static bool is_asked(const es_opts *o, int at)
{
    const bool conv = layers[at].kernel > 0;
    if (o->layer > 0)
        return at + 1 == o->layer;
    return strcmp(o->layers, "all") == 0 || conv == (strcmp(o->layers, "conv") == 0);
}

static sw_status measure(const es_opts *o, sw_json *json)
{
    for (int at = 0; at < ES_LAYERS && !cli_interrupted(); at++) {
        es_found found[ES_MODES_MAX];
        const es_mode *asked[ES_MODES_MAX];
        if (!is_asked(o, at))
            continue;
        const int n = modes_of(o, &layers[at], asked);
        SW_TRY(es_measure(o, &layers[at], asked, n, found));
        if (json != NULL)
            put_layer(json, at, found, n);
        else
            print_layer(o, at, found, n);
    }
    return SW_OK;
}

static int run(const es_opts *o)
{
    sw_json json;
    cli_catch_interrupt();
    if (o->json) {
        result_json_begin(&json);
        sw_json_put_i64(&json, "batch", o->batch);
        sw_json_put_i64(&json, "threads", o->threads);
        sw_json_open(&json, "layers", '{');
    } else if (!o->quiet)
        printf("layers with bias, batch %lld, %lld threads: each row of the batch is an "
               "evaluation with noise of its own (pairs: two rows); times of the layer alone, "
               "over those of base; NESgpu as published, over its base; stored: bytes of noise "
               "besides scratch; above: peak of the layer's phase less that of base%s\n",
               (long long)o->batch, (long long)o->threads,
               o->forward ? "" : "; upd: sw_es_step over a forward of base");
    const sw_status status = measure(o, o->json ? &json : NULL);
    const int code = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (o->json && status == SW_OK) {
        sw_json_end(&json);
        return result_json_end(&json, code);
    }
    if (o->json)
        sw_json_free(&json);
    return status != SW_OK ? cli_library_error(status, false) : cli_finish(code);
}

int bench_es(int argc, char **argv)
{
    static const char *const kinds[] = {"dense", "conv", "all", NULL};
    static const char *const groups[] = {"nesgpu", "ours", "all", NULL};
    es_opts o = {0};
    const cli_option options[] = {
        {"--layers", "NAME", CLI_WORD, &o.layers, "all", "dense, conv or all", 0, 0, kinds},
        {"--layer", "K", CLI_COUNT, &o.layer, NULL,
         "that one alone: 256, 512, 1024; then the convolutions, 4 to 8", 1, ES_LAYERS, NULL},
        {"--modes", "NAME", CLI_WORD, &o.modes, "all",
         "those of NESgpu's table, ours, or all; base and naive always", 0, 0, groups},
        {"--runs", "N", CLI_COUNT, &o.runs, "100", "of each mode, taking turns", 1, 100000,
         NULL},
        {"--seconds", "N", CLI_COUNT, &o.seconds, "60",
         "a mode that has taken so long has no more runs; the table says how many it had", 1,
         100000, NULL},
        {"--batch", "N", CLI_COUNT, &o.batch, "1024", "rows: evaluations", 2, 1 << 16, NULL},
        {"--threads", "N", CLI_COUNT, &o.threads, "2", "threads that compute", 1, 256, NULL},
        {"--forward", NULL, CLI_FLAG, &o.forward, NULL, "no updates", 0, 0, NULL},
        {"--json", NULL, CLI_FLAG, &o.json, NULL, "one JSON object on standard output", 0, 0,
         NULL},
        {"--quiet", NULL, CLI_FLAG, &o.quiet, NULL, "no heading", 0, 0, NULL},
    };
    const cli_command command = {
        .name = "bench es",
        .usage = "[options]",
        .about = "Layers under the noise of evolution strategies, beside the plain layer.",
        .options = options,
        .n_options = sizeof options / sizeof *options};
    const int parsed = cli_parse(&command, argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    if (o.batch % 2 != 0)
        return cli_error(CLI_USAGE, "--batch must be even, for the pairs (got %lld)",
                         (long long)o.batch);
    return run(&o);
}
