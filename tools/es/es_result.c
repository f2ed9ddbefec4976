/* The output of `stepwell es` when it is done. */
#include "profiler/record/utf8.h"
#include "tools/es/es.h"
#include "tools/job/result.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- what is noise in the plan ----------------------------------------------------------- */

typedef struct {
    size_t lives, most; /* scratch of ops of noise: what outlives its op; the most of one */
} noise_seen;

/* An op of noise adds to what a layer gives, or is the layer's last step: of its own it has
 * scratch alone. */
static void see_storage(void *to, const sw_plan_storage *s)
{
    noise_seen *seen = to;
    if (s->op == NULL || strstr(s->op, "noise") == NULL || strcmp(s->role, "workspace") != 0)
        return;
    if (s->death > s->birth)
        seen->lives += s->bytes;
    seen->most = s->bytes + s->padding > seen->most ? s->bytes + s->padding : seen->most;
}

sw_status es_look_at_plan(es_run *r)
{
    noise_seen seen = {0};
    const sw_plan_visitor visitor =
        SW_OPTS(sw_plan_visitor, .to = &seen, .storage = see_storage);
    sw_run_args args = job_args(&r->job, JOB_TRAIN, r->job.program[JOB_TRAIN].inputs, 0);
    args.n_inputs = r->n_inputs;
    SW_TRY(sw_plan_visit(r->job.exec, &args, &visitor));
    const size_t evaluations = (size_t)r->opts.population, own = sw_es_bytes(r->job.es);
    r->noise_bytes = seen.lives + (own > 12 * evaluations ? own - 12 * evaluations : 0);
    r->scratch_bytes = seen.most;
    r->update = SW_OPTS(sw_plan_info);
    SW_TRY(sw_es_plan(r->job.es, r->job.exec, &r->update));
    /* The same batch without noise, forward alone; parameters and buffers are the same. */
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    args.es = NULL;
    args.mode = SW_EVAL;
    args.n_inputs = r->n_inputs;
    SW_TRY(sw_plan(r->job.exec, &args, &plan));
    r->inference_peak = plan.peak_bytes;
    return SW_OK;
}

size_t es_total_bytes(const es_run *r)
{
    const size_t runs = job_total_bytes(&r->job), update = r->update.total_bytes;
    return (runs > update ? runs : update) + sw_es_bytes(r->job.es);
}

/* ---- witnesses --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint32_t bit;
} witnesses[] = {{"access", SW_WITNESS_ACCESS},
                 {"extent", SW_WITNESS_EXTENT},
                 {"death", SW_WITNESS_DEATH},
                 {"need", SW_WITNESS_NEED}};

int es_check_witness(const es_run *r)
{
    for (int i = 0; i < JOB_PROGRAMS; i++) {
        const sw_witness_info *w = &r->measured[i].witness;
        if (w->size != 0 && (w->n_faults > 0 || w->agreed != SW_WITNESS_ALL))
            return cli_error(CLI_FAILED,
                             "%s: the witnesses found %u disagreements with the plan: %s",
                             r->job.program[i].name, w->n_faults, w->first_fault);
    }
    return CLI_DONE;
}

static void put_witness(sw_json *json, const es_run *r)
{
    uint32_t agreed = SW_WITNESS_ALL, faults = 0, n = 0;
    for (int i = 0; i < JOB_PROGRAMS; i++) {
        const sw_witness_info *w = &r->measured[i].witness;
        if (w->size == 0)
            continue;
        agreed &= w->agreed;
        faults += w->n_faults;
        n++;
    }
    if (!sw_json_open_known(json, "witness", n > 0))
        return;
    for (size_t i = 0; i < sizeof witnesses / sizeof *witnesses; i++)
        sw_json_put_bool(json, witnesses[i].name, (agreed & witnesses[i].bit) != 0);
    sw_json_put_u64(json, "faults", faults);
    sw_json_put_known(json, "access_peak_bytes", r->measured[JOB_TRAIN].witness.size != 0,
                      r->measured[JOB_TRAIN].witness.peak_bytes);
    sw_json_end(json);
}

/* ---- JSON -------------------------------------------------------------------------------- */

static double per_second(const es_run *r)
{
    const uint64_t ns = r->evaluate_ns + r->update_ns;
    const uint64_t made = (r->generation - r->resumed) * (uint64_t)r->opts.population;
    return ns > 0 ? (double)made * 1e9 / (double)ns : 0.0;
}

static int print_json(es_run *r, int status)
{
    sw_json json;
    result_json_begin(&json);
    const es_opts *o = &r->opts;
    sw_json_put_string(&json, "model", o->job.model);
    sw_json_put_string(&json, "device", o->job.device);
    sw_json_put_string(&json, "data", r->on_environment ? NULL : r->job.train.info.name);
    sw_json_put_string(&json, "environment", o->environment);
    sw_json_put_i64(&json, "population", o->population);
    sw_json_put_i64(&json, "directions", es_directions(o));
    sw_json_put_i64(&json, "repeats", o->repeats);
    sw_json_put_i64(&json, "slice", o->slice);
    sw_json_put_i64(&json, "rows", r->rows);
    sw_json_put_i64(&json, "samples", o->samples);
    sw_json_put_string(&json, "strategy", o->strategy);
    sw_json_put_string(&json, "noise", es_noise(o));
    sw_json_put_f64(&json, "sigma", o->sigma);
    sw_json_put_string(&json, "optimizer", o->job.optimizer);
    sw_json_put_f64(&json, "lr", o->job.lr);
    sw_json_put_i64(&json, "seed", o->job.seed);
    sw_json_put_i64(&json, "threads", o->job.threads);
    sw_json_put_u64(&json, "generations", r->generation);
    sw_json_put_bool(&json, "reached", r->reached);
    sw_json_put_u64(&json, "evaluations", r->evaluations);
    sw_json_put_u64(&json, "not_finite", r->not_finite);
    const sw_es_info *g = &r->last;
    const bool ran = g->evaluations > 0, tested = r->test.there && r->tested == r->generation;
    sw_json_open(&json, "fitness", '{');
    sw_json_put_known_f64(&json, "mean", ran, g->mean);
    sw_json_put_known_f64(&json, "best", ran, g->best);
    sw_json_put_known_f64(&json, "worst", ran, g->worst);
    sw_json_put_known_f64(&json, "deviation", ran, g->deviation);
    sw_json_end(&json);
    if (!r->on_environment)
        sw_json_put_known_f64(&json, "test_loss", tested, r->test.loss);
    sw_json_put_known_f64(&json, r->on_environment ? "test_steps" : "test_accuracy",
                          tested && !isnan(r->test.score), r->test.score);
    sw_json_put_known(&json, "test_rows", tested, (uint64_t)r->test.rows);
    const sw_plan_info *p = &r->job.program[JOB_TRAIN].plan;
    const es_measured *m = &r->measured[JOB_TRAIN];
    sw_json_put_u64(&json, "predicted_peak_bytes", p->peak_bytes);
    sw_json_put_known(&json, "measured_peak_bytes", m->runs > 0, m->peak_bytes);
    sw_json_put_u64(&json, "inference_peak_bytes", r->inference_peak);
    sw_json_put_u64(&json, "model_bytes", p->model_bytes);
    sw_json_put_u64(&json, "arena_bytes", p->arena_bytes);
    sw_json_put_u64(&json, "data_bytes", p->data_bytes);
    sw_json_put_u64(&json, "total_bytes", es_total_bytes(r));
    sw_json_put_u64(&json, "lower_bound_bytes", p->lower_bound_bytes);
    sw_json_put_u64(&json, "update_arena_bytes", r->update.arena_bytes);
    sw_json_put_u64(&json, "update_peak_bytes", r->update.peak_bytes);
    sw_json_put_u64(&json, "es_bytes", sw_es_bytes(r->job.es));
    sw_json_put_u64(&json, "noise_bytes", r->noise_bytes);
    sw_json_put_u64(&json, "noise_scratch_bytes", r->scratch_bytes);
    sw_json_put_known_f64(&json, "evaluations_per_second", per_second(r) > 0.0, per_second(r));
    sw_json_put_u64(&json, "wall_ns", r->wall_ns);
    sw_json_put_u64(&json, "evaluate_ns", r->evaluate_ns);
    sw_json_put_u64(&json, "update_ns", r->update_ns);
    sw_json_put_u64(&json, "test_ns", r->test_ns);
    sw_json_put_known(&json, "resumed_from_generation", r->resumed > 0, r->resumed);
    sw_json_put_known(&json, "checkpoints", r->opts.checkpoint != NULL, r->saved);
    put_witness(&json, r);
    result_put_device(&json, r->job.exec);
    return result_json_end(&json, status);
}

/* ---- text -------------------------------------------------------------------------------- */

int es_print(es_run *r, int status)
{
    if (r->opts.json)
        return print_json(r, status);
    const es_opts *o = &r->opts;
    char name[1024], title[1400];
    sw_utf8_clean(name, sizeof name, r->job.train.info.name);
    snprintf(title, sizeof title,
             "%s on %s by %s, %s noise of %g, %s evaluations (%s directions x %" PRId64
             "), %s of them and %" PRId64 " rows a run, %s %g, seed %" PRId64 ", %s, %" PRId64
             " thread%s",
             o->job.model, name, o->strategy, es_noise(o), o->sigma,
             cli_digits((uint64_t)o->population).text,
             cli_digits((uint64_t)es_directions(o)).text, o->repeats,
             cli_digits((uint64_t)o->slice).text, r->rows, o->job.optimizer,
             (double)(float)o->job.lr, o->job.seed, o->job.device, o->job.threads,
             o->job.threads == 1 ? "" : "s");
    cli_wrap(stdout, 0, 0, title);
    const sw_plan_info *p = &r->job.program[JOB_TRAIN].plan;
    const es_measured *m = &r->measured[JOB_TRAIN];
    char found[96] = "not measured", text[400];
    if (m->runs > 0)
        snprintf(found, sizeof found, "%s measured",
                 m->peak_bytes == p->peak_bytes ? "the same" : cli_digits(m->peak_bytes).text);
    snprintf(text, sizeof text, "%s predicted, %s; inference of the same batch has %s",
             result_both(p->peak_bytes).text, found, cli_digits(r->inference_peak).text);
    printf("\npeak    ");
    cli_wrap(stdout, 8, 8, text);
    printf("model   %s\n", result_both(p->model_bytes).text);
    printf("arena   %s\n", result_both(p->arena_bytes).text);
    printf("update  %s of arena\n", result_both(r->update.arena_bytes).text);
    printf("noise   %s; fitness and order of a generation %s\n",
           result_both(r->noise_bytes).text, cli_bytes(sw_es_bytes(r->job.es)).text);
    printf("data    %s\n", result_both(p->data_bytes).text);
    printf("total   %s\n", result_both(es_total_bytes(r)).text);
    result_print_device("card    ", r->job.exec);
    const sw_es_info *g = &r->last;
    printf("\n%s generation%s, %s, %s evaluations", cli_digits(r->generation).text,
           r->generation == 1 ? "" : "s", cli_ns(r->wall_ns).text,
           cli_digits(r->evaluations).text);
    if (per_second(r) > 0.0)
        printf(", %s a second", cli_digits((uint64_t)per_second(r)).text);
    putchar('\n');
    if (g->evaluations > 0)
        printf("%s   mean %.4f, best %.4f in the last generation\n",
               r->on_environment ? "steps" : "loss ", g->mean, g->best);
    if (r->not_finite > 0)
        printf("%s evaluations came to no finite number\n", cli_digits(r->not_finite).text);
    if (!r->test.there || r->tested != r->generation)
        printf("test    not made: the run was interrupted\n");
    else if (r->on_environment)
        printf("test    %.2f steps on average over %s episodes\n", r->test.score,
               cli_digits((uint64_t)r->test.rows).text);
    else if (isnan(r->test.score))
        printf("test    loss %.4f\n", r->test.loss);
    else
        printf("test    loss %.4f, accuracy %.2f %% (%s of %s)\n", r->test.loss,
               100.0 * r->test.score,
               cli_digits((uint64_t)llround(r->test.score * (double)r->test.rows)).text,
               cli_digits((uint64_t)r->test.rows).text);
    return cli_finish(status);
}
