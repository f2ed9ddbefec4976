/* Messages of a run while it goes on, and at its end. */
#include "tools/evolve/evolve.h"
#include <inttypes.h>
#include <math.h>

/* ---- on the way -------------------------------------------------------------------------- */

static bool is_silent(const evolve *e)
{
    return e->opts.quiet || e->opts.json;
}

void evolve_say_head(const evolve *e)
{
    const evolve_opts *o = &e->opts;
    if (is_silent(e))
        return;
    printf("%s: %s samples for training, %s for validation; %s of %" PRId64
           " members, seed %" PRId64 "\n\n",
           o->job.data, cli_digits((uint64_t)e->train.n).text,
           cli_digits((uint64_t)e->validation.n).text, cli_bytes(o->job.budget_bytes).text,
           o->population, o->job.seed);
    printf("%5s %9s %9s %8s %10s %10s %10s %7s %7s\n", "gen", "best", "mean", "accuracy",
           "parameters", "best MiB", "most MiB", "refused", "seconds");
    cli_flush();
}

/* A fitness, "none" where there is none. The first one of the run says what suits all of them:
 * four decimals, none where they are large (bytes, say), an exponent where they are small. */
static cli_text number(const evolve *e, double x)
{
    cli_text t = {"none"};
    const double first = e->n_rows > 0 && e->n_fitness > 0 ? fabs(e->rows[0].best) : 1.0;
    const char *format = first > 1e9 || (first > 0.0 && first < 0.01) ? "%.2e"
                         : first >= 1000.0                            ? "%.0f"
                                                                      : "%.4f";
    if (isfinite(x))
        snprintf(t.text, sizeof t.text, format, x);
    return t;
}

static cli_text percent(double x)
{
    cli_text t = {"none"};
    if (isfinite(x))
        snprintf(t.text, sizeof t.text, "%.2f %%", 100.0 * x);
    return t;
}

void evolve_say_row(const evolve *e, const evolve_row *r)
{
    if (is_silent(e))
        return;
    cli_progress("%s", "");
    if (evolve_row_lost(r)) {
        printf("%5" PRIu64 " its line of generations.jsonl is lost\n", r->generation);
        return;
    }
    printf("%5" PRIu64 " %9s %9s %8s %10s %10s %10s %7" PRIu64 " %7.1f\n", r->generation,
           number(e, r->best).text, number(e, r->mean).text, percent(r->accuracy).text,
           cli_digits(r->parameters).text, sw_text_mib(r->best_bytes).text,
           sw_text_mib(r->largest_bytes).text, r->refused, (double)r->ns / 1e9);
    cli_flush();
}

void evolve_say_progress(const evolve *e)
{
    const sw_evolve_progress *p = &e->progress;
    if (e->opts.quiet || p->all == 0)
        return;
    cli_progress("generation %" PRIu64 ": %.0f %% trained, %s steps so far", p->generation,
                 100.0 * (double)p->done / (double)p->all, cli_digits(p->steps).text);
}

/* ---- at the end, as JSON ----------------------------------------------------------------- */

static void put_best(sw_json *json, const evolve *e)
{
    const evolve_member *b = &e->best;
    if (!e->has_best) {
        sw_json_put_null(json, "best");
        return;
    }
    sw_json_open(json, "best", '{');
    sw_json_put_u64(json, "id", b->id);
    sw_json_put_u64(json, "born", b->born);
    sw_json_put_f64(json, "fitness", b->fitness);
    sw_json_put_f64(json, "accuracy", b->accuracy);
    sw_json_put_f64(json, "loss", b->loss);
    sw_json_put_u64(json, "parameters", b->parameters);
    sw_json_put_u64(json, "vertices", b->vertices);
    sw_json_put_u64(json, "predicted_bytes", b->predicted_bytes);
    sw_json_put_known(json, "measured_bytes", b->measured_bytes > 0, b->measured_bytes);
    sw_json_put_u64(json, "operations", b->operations);
    sw_json_end(json);
}

static void put_history(sw_json *json, const evolve *e)
{
    sw_json_open(json, "history", '[');
    for (size_t i = 0; i < e->n_rows; i++) {
        sw_json_begin(json, '{');
        evolve_row_put(json, &e->rows[i]);
        sw_json_end(json);
    }
    sw_json_end(json);
}

static double share_of(const evolve_test *t)
{
    return t->there ? (double)t->right / (double)t->rows : 0.0;
}

static int print_json(const evolve *e, int status)
{
    const evolve_opts *o = &e->opts;
    const evolve_row total = evolve_total(e);
    sw_json json;
    result_json_begin(&json);
    sw_json_put_string(&json, "data", o->job.data);
    sw_json_put_string(&json, "out", o->out);
    sw_json_put_u64(&json, "generations", e->done);
    sw_json_put_i64(&json, "population", o->population);
    sw_json_put_i64(&json, "samples", o->samples);
    sw_json_put_i64(&json, "seed", o->job.seed);
    sw_json_put_i64(&json, "threads", o->job.threads);
    sw_json_put_bool(&json, "resumed", e->resumed);
    sw_json_put_bool(&json, "timed_out", e->timed_out);
    sw_json_put_u64(&json, "budget_bytes", o->job.budget_bytes);
    sw_json_put_u64(&json, "peak_bytes", total.population_bytes);
    put_best(&json, e);
    sw_json_put_known_f64(&json, "test_accuracy", e->test.there, share_of(&e->test));
    sw_json_put_known(&json, "test_rows", e->test.there, (uint64_t)e->test.rows);
    sw_json_put_known_f64(&json, "retrained_accuracy", e->retrained.there,
                          share_of(&e->retrained));
    sw_json_put_u64(&json, "steps", total.steps);
    sw_json_put_u64(&json, "mutants", total.mutants);
    sw_json_put_u64(&json, "refused", total.refused);
    sw_json_put_u64(&json, "compared", total.compared);
    sw_json_put_u64(&json, "differ", total.differ);
    sw_json_put_u64(&json, "longest_gap_ns", e->progress.longest_gap_ns);
    sw_json_put_u64(&json, "wall_ns", e->wall_ns);
    put_history(&json, e);
    return result_json_end(&json, status);
}

/* ---- at the end, as text ----------------------------------------------------------------- */

static void print_test(const char *name, const evolve_test *t)
{
    if (t->there)
        printf("%-8s accuracy %.2f %% (%s of %s)\n", name, 100.0 * share_of(t),
               cli_digits((uint64_t)t->right).text, cli_digits((uint64_t)t->rows).text);
}

static void print_best(const evolve *e)
{
    const evolve_member *b = &e->best;
    if (!e->has_best) {
        printf("best     none: no generation was complete\n");
        return;
    }
    printf("best     member %" PRIu64 ", born in generation %" PRIu64
           ": fitness %s, accuracy %s\n",
           b->id, b->born, number(e, b->fitness).text, percent(b->accuracy).text);
    printf("         %" PRIu64
           " vertices, %s parameters; a training step takes %s, %s operations\n",
           b->vertices, cli_digits(b->parameters).text, result_both(b->predicted_bytes).text,
           cli_digits(b->operations).text);
    print_test("test", &e->test);
    print_test("again", &e->retrained);
}

static void print_memory(const evolve *e, const evolve_row *total)
{
    printf("memory   at most %s of %s\n", result_both(total->population_bytes).text,
           cli_bytes(e->opts.job.budget_bytes).text);
    if (total->differ > 0)
        printf("         %s of %s members took other bytes than predicted\n",
               cli_digits(total->differ).text, cli_digits(total->compared).text);
    else if (total->compared > 0)
        printf("         %s members took the bytes that were predicted\n",
               cli_digits(total->compared).text);
}

int evolve_print(evolve *e, int status)
{
    const evolve_row total = evolve_total(e);
    if (e->opts.json)
        return print_json(e, status);
    printf("%s", e->opts.quiet ? "" : "\n");
    print_best(e);
    print_memory(e, &total);
    printf("search   %s generations, %s steps in %.1f s; %s mutants priced, %s did not fit\n",
           cli_digits(e->done).text, cli_digits(total.steps).text, (double)total.ns / 1e9,
           cli_digits(total.mutants).text, cli_digits(total.refused).text);
    printf("         longest pause between two batches %s\n",
           cli_ns(e->progress.longest_gap_ns).text);
    if (e->has_best)
        printf("files    best.json, best.safetensors, best.dot, report.html in %s\n",
               e->opts.out);
    return cli_finish(status);
}
