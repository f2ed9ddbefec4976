/* The output of `stepwell eval` as JSON and as CSV. */
#include "tools/eval/eval.h"
#include <inttypes.h>
#include <math.h>

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_run(sw_json *json, const evaluation *e)
{
    const job_opts *o = e->job.opts;
    sw_json_put_string(json, "model", o->model);
    sw_json_put_string(json, "device", o->device);
    sw_json_put_string(json, "data", e->job.test.info.name);
    sw_json_put_string(json, "part", e->opts.part);
    sw_json_put_string(json, "parameters", e->opts.load);
    sw_json_put_string(json, "normalise",
                       *e->job.normal.text != '\0' ? e->job.normal.text : NULL);
    result_put_batch(json, job_batch(&e->job), e->job.batch);
    sw_json_put_i64(json, "samples", e->rows);
    sw_json_put_i64(json, "threads", o->threads);
    sw_json_put_f64(json, "loss", e->loss);
}

static void put_score(sw_json *json, const sw_class_score *s)
{
    sw_json_put_u64(json, "support", s->support);
    sw_json_put_u64(json, "predicted", s->predicted);
    sw_json_put_u64(json, "right", s->right);
    sw_json_put_f64(json, "precision", s->precision);
    sw_json_put_f64(json, "recall", s->recall);
    sw_json_put_f64(json, "f1", s->f1);
}

static void put_mean(sw_json *json, const evaluation *e, int64_t n)
{
    sw_class_score s = SW_OPTS(sw_class_score);
    if (sw_confusion_mean(e->counts, n, &s) != SW_OK)
        return;
    sw_json_put_f64(json, "macro_precision", s.precision);
    sw_json_put_f64(json, "macro_recall", s.recall);
    sw_json_put_f64(json, "macro_f1", s.f1);
}

static void put_classes(sw_json *json, const evaluation *e)
{
    const int64_t n = e->job.test.info.n_classes;
    const char *const *names = e->job.test.info.class_names;
    sw_class_score s = SW_OPTS(sw_class_score);
    if (e->counts == NULL) {
        sw_json_put_null(json, "classes");
        sw_json_put_null(json, "confusion");
        return;
    }
    put_mean(json, e, n);
    sw_json_open(json, "classes", '[');
    for (int64_t k = 0; k < n && sw_confusion_class(e->counts, n, k, &s) == SW_OK; k++) {
        sw_json_begin(json, '{');
        sw_json_put_i64(json, "class", k);
        sw_json_put_string(json, "name", names != NULL ? names[k] : NULL);
        put_score(json, &s);
        sw_json_end(json);
    }
    sw_json_end(json);
    sw_json_open(json, "confusion", '[');
    for (int64_t k = 0; k < n; k++) {
        sw_json_begin(json, '[');
        for (int64_t i = 0; i < n; i++)
            sw_json_u64(json, e->counts[k * n + i]);
        sw_json_end(json);
    }
    sw_json_end(json);
}

static void put_scores(sw_json *json, const evaluation *e)
{
    if (eval_is_language(e)) {
        sw_json_put_f64(json, "perplexity", exp(e->loss));
        sw_json_put_f64(json, "bits_per_token", e->loss / log(2.0));
    } else if (eval_has_classes(e)) {
        sw_json_put_f64(json, "accuracy", (double)e->right / (double)e->rows);
        put_classes(json, e);
    } else {
        sw_json_put_f64(json, "rmse", sqrt(e->loss));
    }
}

static void put_measured(sw_json *json, const eval_measured *m)
{
    if (m->runs > 0)
        result_put_phases(json, "measured", m->phase);
    else
        sw_json_put_null(json, "measured");
}

static void put_programs(sw_json *json, const evaluation *e)
{
    sw_json_open(json, "programs", '[');
    for (int i = 0; i < 2; i++) {
        const job_program *p = &e->job.program[JOB_EVAL + i];
        const eval_measured *m = &e->measured[i];
        if (p->batch == 0)
            continue;
        sw_json_begin(json, '{');
        sw_json_put_string(json, "name", p->name);
        sw_json_put_i64(json, "batch", p->batch);
        sw_json_put_u64(json, "runs", m->runs);
        result_put_predicted(json, &e->job, p);
        put_measured(json, m);
        sw_json_put_u64(json, "predicted_peak_bytes", p->plan.peak_bytes);
        sw_json_put_known(json, "measured_peak_bytes", m->runs > 0, m->peak_bytes);
        sw_json_put_u64(json, "arena_bytes", p->plan.arena_bytes);
        sw_json_end(json);
    }
    sw_json_end(json);
}

void eval_put_json(sw_json *json, evaluation *e)
{
    const job_program *main = job_main(&e->job);
    const eval_measured *m = eval_main(e);
    sw_json_begin(json, '{');
    put_run(json, e);
    put_scores(json, e);
    result_put_predicted(json, &e->job, main);
    put_measured(json, m);
    sw_json_put_string(json, "measured_by", "arena");
    sw_json_put_u64(json, "predicted_peak_bytes", main->plan.peak_bytes);
    sw_json_put_u64(json, "measured_peak_bytes", m->peak_bytes);
    result_put_totals(json, &e->job, &main->plan);
    sw_json_put_known(json, "allocations_after_warmup", e->warm_runs > 0, e->allocations);
    sw_json_put_u64(json, "wall_ns", e->wall_ns);
    result_put_device(json, e->job.exec);
    put_programs(json, e);
    sw_json_end(json);
    sw_json_line(json);
}

/* ---- CSV --------------------------------------------------------------------------------- */

/* Nothing where there is none. */
static void put_share(eval_out *out, double x)
{
    if (isnan(x))
        eval_print(out, ",");
    else
        eval_print(out, ",%.9g", x);
}

static void put_line(eval_out *out, const evaluation *e, int64_t n, int64_t k)
{
    const char *const *names = e->job.test.info.class_names;
    sw_class_score s = SW_OPTS(sw_class_score);
    if (out->status == SW_OK)
        out->status = sw_confusion_class(e->counts, n, k, &s);
    eval_print(out, "%" PRId64 ",", k);
    eval_put_field(out, names != NULL ? names[k] : "");
    eval_print(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, s.support, s.predicted, s.right);
    put_share(out, s.precision);
    put_share(out, s.recall);
    put_share(out, s.f1);
    for (int64_t i = 0; i < n; i++)
        eval_print(out, ",%" PRIu64, e->counts[k * n + i]);
    eval_print(out, "\n");
}

static void put_one_line(eval_out *out, const evaluation *e)
{
    const bool classes = eval_has_classes(e), language = eval_is_language(e);
    eval_print(out, "samples,loss,%s\n%" PRId64 ",%.9g,%.9g\n",
               classes    ? "accuracy"
               : language ? "perplexity"
                          : "rmse",
               e->rows, e->loss,
               classes    ? (double)e->right / (double)e->rows
               : language ? exp(e->loss)
                          : sqrt(e->loss));
}

void eval_put_csv(eval_out *out, const evaluation *e)
{
    const int64_t n = e->job.test.info.n_classes;
    if (e->counts == NULL) {
        put_one_line(out, e);
        return;
    }
    eval_print(out, "class,name,support,predicted,right,precision,recall,f1");
    for (int64_t k = 0; k < n; k++)
        eval_print(out, ",as_%" PRId64, k);
    eval_print(out, "\n");
    for (int64_t k = 0; k < n; k++)
        put_line(out, e, n, k);
}
