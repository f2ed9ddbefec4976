/* TensorBoard's event file of a run: an event for each step of training, with its loss, its
 * time and its bytes; one for the evaluations after a step; and before all the bytes that
 * live while each op of the program that holds the peak runs, where the op's position stands
 * for the step. */
#include "alloc/base/mem.h"
#include "profiler/inspect/sink_internal.h"
#include "profiler/inspect/tfevents.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    sw_tfevents e;
    sw_sink_out *out;
    double began_s;   /* of the profile, since 1970 */
    uint64_t trained; /* the last step of training: evaluations stand there */
} writer;

/* 2026-01-31T23:59:59Z as seconds since 1970; 0 where it is no such time. Years begin in March,
 * so that leap days come last. */
static double seconds_of(const char *created)
{
    int year, month, day, hour, minute, second;
    if (sscanf(created, "%4d-%2d-%2dT%2d:%2d:%2d", &year, &month, &day, &hour, &minute,
               &second) != 6 ||
        year < 1970 || month < 1 || month > 12)
        return 0.0;
    const int y = month > 2 ? year : year - 1, m = month > 2 ? month - 3 : month + 9;
    const int days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
    return (double)days * 86400.0 + hour * 3600.0 + minute * 60.0 + second;
}

static sw_status end_record(writer *w)
{
    sw_tfevents_end(&w->e);
    sw_sink_bytes(w->out, w->e.bytes, w->e.n);
    return w->out->status;
}

static bool is_evaluation(const sw_timeline *t, const sw_tl_run *r)
{
    return strcmp(t->programs[r->program].run, "eval") == 0;
}

/* The runs of one step, or evaluations after it, from `first` on. */
static size_t group_end(const sw_timeline *t, size_t first)
{
    const sw_tl_run *r = &t->runs[first];
    size_t i = first + 1;
    while (i < t->n_runs && t->runs[i].step == r->step &&
           is_evaluation(t, &t->runs[i]) == is_evaluation(t, r))
        i++;
    return i;
}

/* Weighted by their batches. */
static bool mean_loss(const sw_timeline *t, size_t first, size_t end, double *out)
{
    double sum = 0.0, weight = 0.0;
    for (size_t i = first; i < end; i++) {
        const sw_tl_run *r = &t->runs[i];
        const int64_t batch = t->programs[r->program].batch;
        if (!r->has_loss)
            continue;
        sum += r->loss * (double)(batch > 0 ? batch : 1);
        weight += (double)(batch > 0 ? batch : 1);
    }
    *out = weight > 0.0 ? sum / weight : 0.0;
    return weight > 0.0;
}

static void put_phases(writer *w, const sw_tl_run *runs, size_t n)
{
    uint64_t live = 0;
    for (int k = 0; k < SW_PROF_PHASES; k++) {
        char tag[64];
        uint64_t peak = 0;
        for (size_t i = 0; i < n; i++)
            peak = runs[i].phase[k].peak_bytes > peak ? runs[i].phase[k].peak_bytes : peak;
        if (peak == 0)
            continue;
        live = runs[n - 1].phase[k].end_bytes;
        snprintf(tag, sizeof tag, "memory/%s_peak_bytes", sw_prof_phase_name(k));
        sw_tfevents_scalar(&w->e, tag, (double)peak);
    }
    sw_tfevents_scalar(&w->e, "memory/live_bytes", (double)live);
}

static sw_status write_group(writer *w, const sw_timeline *t, size_t first, size_t end)
{
    const bool evaluation = is_evaluation(t, &t->runs[first]);
    const sw_tl_run *last = &t->runs[end - 1];
    uint64_t peak = 0, ns = 0;
    double loss;
    for (size_t i = first; i < end; i++) {
        peak = t->runs[i].peak_bytes > peak ? t->runs[i].peak_bytes : peak;
        ns += t->runs[i].ns;
    }
    const double at = w->began_s + (double)(last->at_ns + last->ns) * 1e-9;
    w->trained = evaluation ? w->trained : last->step;
    sw_tfevents_begin(&w->e, at, w->trained);
    if (mean_loss(t, first, end, &loss))
        sw_tfevents_scalar(&w->e, evaluation ? "loss/validation" : "loss/train", loss);
    sw_tfevents_scalar(&w->e, evaluation ? "time/validation_ms" : "time/step_ms",
                       (double)ns * 1e-6);
    sw_tfevents_scalar(&w->e, evaluation ? "memory/validation_peak_bytes" : "memory/peak_bytes",
                       (double)peak);
    if (!evaluation)
        put_phases(w, &t->runs[first], end - first);
    return end_record(w);
}

static sw_status write_plan(writer *w, const sw_tl_program *p, const uint64_t *live)
{
    for (uint32_t i = 0; i < p->n_ops; i++) {
        sw_tfevents_begin(&w->e, w->began_s, i);
        sw_tfevents_scalar(&w->e, "plan/live_bytes_by_op", (double)live[i]);
        SW_TRY(end_record(w));
    }
    return SW_OK;
}

static sw_status write_curve(writer *w, const sw_timeline *t)
{
    const sw_tl_program *p = sw_timeline_peak(t);
    void *block;
    if (p == NULL || p->n_ops == 0)
        return SW_OK;
    const size_t bytes = p->n_ops * sizeof(uint64_t);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, bytes));
    sw_timeline_curve(p, NULL, NULL, block);
    const sw_status status = write_plan(w, p, block);
    sw_heap_free(block, SW_HEAP_PROFILE, bytes);
    return status;
}

static sw_status write_tensorboard(const sw_timeline *t, sw_sink_out *out)
{
    writer w = {.out = out, .began_s = seconds_of(t->created)};
    sw_tfevents_init(&w.e);
    sw_tfevents_version(&w.e, w.began_s);
    sw_sink_bytes(out, w.e.bytes, w.e.n);
    SW_TRY(write_curve(&w, t));
    for (size_t i = 0, end; i < t->n_runs; i = end) {
        end = group_end(t, i);
        SW_TRY(write_group(&w, t, i, end));
    }
    return out->status;
}

const sw_sink sw_sink_tensorboard = {
    .name = "tensorboard",
    .about = "losses, times and bytes of the steps as scalars, for TensorBoard: name the file "
             "DIR/" SW_TFEVENTS_NAME ".NAME",
    .ending = ".tfevents",
    .binary = true,
    .part = "tfevents",
    .max_events = 20000000, /* a run takes some numbers, however many events it has */
    .write = write_tensorboard,
};
