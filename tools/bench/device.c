/* bench device: the command. */
#include "tools/bench/device.h"
#include <math.h>
#include <string.h>

enum { CASES_MAX = 16 };

typedef struct {
    bench_device_raw raw[BENCH_DEVICE_RAW];
    bench_device_figures net[CASES_MAX];
    int n_raw, n_net;
} figures;

static bool on_card(const bench_device_opts *o)
{
    return strncmp(o->device, "cuda", 4) == 0;
}

static bool wanted(const bench_device_opts *o, const char *name)
{
    return o->only == NULL || strcmp(o->only, name) == 0;
}

static sw_status measure(const bench_device_opts *o, figures *f)
{
    const bench_net_case *c;
    if (wanted(o, "card") && on_card(o)) {
        if (!o->quiet)
            cli_progress("%s", "card");
        SW_TRY(bench_device_card(o, f->raw, &f->n_raw));
    }
    for (int i = 0; (c = bench_device_case_at(i)) != NULL && !cli_interrupted(); i++) {
        if (!wanted(o, c->name))
            continue;
        if (!o->quiet)
            cli_progress("%s", c->name);
        SW_TRY(bench_device_net(c, o, &f->net[f->n_net]));
        f->n_net++;
    }
    return SW_OK;
}

/* ---- showing ----------------------------------------------------------------------------- */

static double per_ns(double amount, const cli_summary *s)
{
    return s->median > 0 ? amount / (double)s->median : 0.0;
}

static int as_json(const bench_device_opts *o, const figures *f, int status)
{
    sw_json j;
    result_json_begin(&j);
    sw_json_put_string(&j, "device", o->device);
    sw_json_put_bool(&j, "tf32", o->tf32);
    sw_json_put_bool(&j, "graphs", !o->no_graphs);
    sw_json_open(&j, "card", '{');
    for (int i = 0; i < f->n_raw; i++) {
        const bench_device_raw *r = &f->raw[i];
        sw_json_open(&j, r->name, '{');
        bench_put(&j, "time", &r->time);
        sw_json_put_f64(&j, "gigabytes_per_second", per_ns(r->bytes, &r->time));
        sw_json_put_f64(&j, "teraflops", per_ns(r->operations, &r->time) / 1e3);
        sw_json_put_u64(&j, "live_bytes", r->live_bytes);
        sw_json_end(&j);
    }
    sw_json_end(&j);
    sw_json_open(&j, "networks", '{');
    for (int i = 0; i < f->n_net; i++) {
        const bench_device_figures *n = &f->net[i];
        sw_json_open(&j, n->of->name, '{');
        sw_json_put_i64(&j, "batch", n->batch);
        bench_put(&j, "step", &n->step);
        sw_json_put_u64(&j, "in_a_loop_ns", n->free_ns);
        sw_json_put_u64(&j, "peak_bytes", n->peak_bytes);
        sw_json_put_u64(&j, "model_bytes", n->plan.model_bytes);
        sw_json_put_u64(&j, "arena_bytes", n->plan.arena_bytes);
        sw_json_put_u64(&j, "data_bytes", n->plan.data_bytes);
        sw_json_put_u64(&j, "total_bytes", n->plan.total_bytes);
        sw_json_put_known(&j, "launches", n->plan.launches > 0, n->plan.launches);
        if (n->taken_bytes > 0)
            sw_json_put_u64(&j, "card_bytes", n->taken_bytes);
        else
            sw_json_put_null(&j, "card_bytes");
        sw_json_put_f64(&j, "loss", n->loss);
        sw_json_end(&j);
    }
    sw_json_end(&j);
    return result_json_end(&j, status);
}

static int as_text(const bench_device_opts *o, const figures *f, int status)
{
    if (f->n_raw > 0)
        printf("%-16s %12s %12s %12s %12s\n", o->device, "min", "median", "GB/s", "TFLOP/s");
    for (int i = 0; i < f->n_raw; i++) {
        const bench_device_raw *r = &f->raw[i];
        printf("%-16s %12s %12s %12.1f %12.2f\n", r->name, cli_ns(r->time.min).text,
               cli_ns(r->time.median).text, per_ns(r->bytes, &r->time),
               per_ns(r->operations, &r->time) / 1e3);
    }
    printf("%s%-16s %6s %12s %12s %12s %12s %12s\n", f->n_raw > 0 ? "\n" : "", "step", "batch",
           "min", "median", "in a loop", "peak", "card");
    for (int i = 0; i < f->n_net; i++) {
        const bench_device_figures *n = &f->net[i];
        printf("%-16s %6lld %12s %12s %12s %12s %12s\n", n->of->name, (long long)n->batch,
               cli_ns(n->step.min).text, cli_ns(n->step.median).text, cli_ns(n->free_ns).text,
               cli_bytes(n->peak_bytes).text,
               n->taken_bytes > 0 ? cli_bytes(n->taken_bytes).text : "-");
    }
    return cli_finish(status);
}

/* ---- command ----------------------------------------------------------------------------- */

static int run(const bench_device_opts *o)
{
    figures f = {0};
    cli_catch_interrupt();
    const sw_status status = measure(o, &f);
    if (!o->quiet)
        cli_progress("%s", "");
    if (status != SW_OK)
        return cli_library_error(status, false);
    const int code = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    return o->json ? as_json(o, &f, code) : as_text(o, &f, code);
}

static const char *const *words(void)
{
    static const char *names[CASES_MAX + 2] = {"card"};
    const bench_net_case *c;
    for (int i = 0; (c = bench_device_case_at(i)) != NULL && i < CASES_MAX; i++)
        names[i + 1] = c->name;
    return names;
}

int bench_device(int argc, char **argv)
{
    bench_device_opts o = {0};
    const cli_option options[] = {
        {"--device", "NAME", CLI_WORD, &o.device, "cuda", "cuda, cuda:N or cpu", 0, 0, NULL},
        {"--only", "NAME", CLI_WORD, &o.only, NULL, "one of them (default: all)", 0, 0,
         words()},
        {"--steps", "N", CLI_COUNT, &o.steps, "50", "steps of each, twice", 1, 1 << 20, NULL},
        {"--warmup", "N", CLI_COUNT, &o.warmup, "5", "steps before them", 1, 1 << 20, NULL},
        {"--share", "N", CLI_COUNT, &o.share, "1", "batches are an Nth of what they would be",
         1, 1 << 20, NULL},
        {"--copy-bytes", "N", CLI_COUNT, &o.raw_bytes, "1073741824",
         "bytes of the tensors that card copies", 64, (int64_t)1 << 40, NULL},
        {"--side", "N", CLI_COUNT, &o.raw_side, "8192", "of the matrices that card multiplies",
         1, 1 << 17, NULL},
        {"--threads", "N", CLI_COUNT, &o.threads, "2", "threads of cpu", 1, 256, NULL},
        {"--tf32", NULL, CLI_FLAG, &o.tf32, NULL, "products may round their factors to TF32", 0,
         0, NULL},
        {"--no-graphs", NULL, CLI_FLAG, &o.no_graphs, NULL, "launch each kernel by itself", 0,
         0, NULL},
        {"--json", NULL, CLI_FLAG, &o.json, NULL, "one JSON object on standard output", 0, 0,
         NULL},
        {"--quiet", NULL, CLI_FLAG, &o.quiet, NULL, "no progress", 0, 0, NULL},
    };
    const cli_command command = {
        .name = "bench device",
        .usage = "[options]",
        .about = "Whole steps of networks on a device, fixed batches from the host included, "
                 "and kernels of the card by themselves (card).",
        .options = options,
        .n_options = (int)(sizeof options / sizeof *options),
        .notes = "Times of steps are the device's, each step waited for; \"in a loop\" is what "
                 "one costs where none is. tools/bench/device.py sets PyTorch beside them."};
    const int status = cli_parse(&command, argc, argv);
    return status == CLI_GO ? run(&o) : status;
}
