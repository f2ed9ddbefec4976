/* The report as one JSON object. Its keys are part of the interface. */
#include "profiler/record/json.h"
#include "profiler/inspect/report/print.h"
#include <stdio.h>
#include <string.h>

void report_put_phases(sw_json *j, const char *key, const sw_prof_phase *phase)
{
    if (!sw_json_open_known(j, key, phase != NULL))
        return;
    for (int i = 0; i < SW_PROF_PHASES; i++) {
        sw_json_open(j, sw_prof_phase_name(i), '{');
        sw_json_put_u64(j, "peak_bytes", phase[i].peak_bytes);
        sw_json_put_u64(j, "end_bytes", phase[i].end_bytes);
        sw_json_end(j);
    }
    sw_json_end(j);
}

void report_put_text(sw_json *j, const char *key, const char *text)
{
    sw_json_put_string(j, key, text[0] != '\0' ? text : NULL);
}

void report_put_batch(sw_json *j, int64_t batch)
{
    sw_json_put_known(j, "batch", batch >= 0, (uint64_t)batch);
}

sw_status report_print_object(sw_json *j, const report_style *style)
{
    sw_json_line(j);
    const sw_status status = j->status;
    if (status == SW_OK)
        style->to->put(style->to->context, j->bytes, j->used);
    sw_json_free(j);
    return status;
}

void report_put_damaged(sw_json *j, const report *r)
{
    if (!sw_json_open_known(j, "damaged", r->damaged_line > 0))
        return;
    sw_json_put_u64(j, "line", r->damaged_line);
    sw_json_put_string(j, "why", r->damaged_why);
    sw_json_end(j);
}

static void put_plan(sw_json *j, const report_plan *x, const sw_tl_program *p)
{
    sw_json_put_u64(j, "program", x->key & (UINT32_MAX >> 1));
    sw_json_put_u64(j, "exec", x->key >> 32);
    report_put_text(j, "run", x->run);
    report_put_batch(j, x->batch);
    sw_json_put_bool(j, "immediate", x->immediate);
    report_put_phases(j, "predicted", x->immediate ? NULL : x->phase);
    sw_json_put_known(j, "predicted_peak_bytes", !x->immediate, x->peak);
    sw_json_put_known(j, "measured_peak_bytes", p->measured, p->measured_bytes);
    sw_json_open(j, "measured", '[');
    for (int k = 0; k < x->n_seen; k++) {
        const report_seen *s = &x->seen[k];
        sw_json_begin(j, '{');
        sw_json_put_string(j, "measured_by", s->by);
        sw_json_put_u64(j, "runs", s->runs);
        sw_json_put_u64(j, "equal_runs", s->equal);
        sw_json_put_bool(j, "equal", s->equal == s->runs);
        sw_json_put_u64(j, "step", s->step);
        report_put_phases(j, "phases", s->phase);
        sw_json_end(j);
    }
    sw_json_end(j);
}

/* The program that holds the peak, at the top level, in the words of `train --json`. */
static void put_main(sw_json *j, const report_plan *x)
{
    const report_seen *best = report_best_seen(x);
    uint64_t peak = 0;
    report_put_phases(j, "predicted", x->immediate ? NULL : x->phase);
    for (int i = 0; best != NULL && i < SW_PROF_PHASES; i++)
        peak = best->phase[i].peak_bytes > peak ? best->phase[i].peak_bytes : peak;
    report_put_phases(j, "measured", best != NULL ? best->phase : NULL);
    sw_json_put_string(j, "measured_by", best != NULL ? best->by : NULL);
    sw_json_put_known(j, "measured_peak_bytes", best != NULL, peak);
    sw_json_put_known(j, "predicted_peak_bytes", !x->immediate, x->peak);
    sw_json_put_u64(j, "model_bytes", x->model);
    sw_json_put_u64(j, "arena_bytes", x->arena);
    sw_json_put_u64(j, "data_bytes", x->data);
    sw_json_put_u64(j, "total_bytes", x->total);
    sw_json_put_u64(j, "lower_bound_bytes", x->lower_bound);
    sw_json_put_known(j, "program_host_bytes", x->host > 0, x->host);
}

static void put_live(sw_json *j, const report_plan *plan, const report_live *live)
{
    sw_json_open(j, "peak", '{');
    sw_json_put_string(j, "program", report_program_name(plan).text);
    report_put_text(j, "op", live->op);
    sw_json_put_u64(j, "position", live->program->peak_op);
    sw_json_put_u64(j, "n_ops", live->program->n_ops);
    sw_json_put_u64(j, "bytes", live->bytes);
    sw_json_put_u64(j, "padding_bytes", live->padding);
    report_put_breakdown(j, "by_role", (report_breakdown){live->role, live->n_roles});
    report_put_breakdown(j, "by_layer", (report_breakdown){live->layer, live->n_layers});
    sw_json_open(j, "largest", '[');
    for (size_t i = 0; i < live->n_largest; i++) {
        const sw_tensor *v = live->largest[i].first;
        sw_json_begin(j, '{');
        sw_json_put_string(j, "name", v->name);
        sw_json_put_string(j, "role", v->role);
        report_put_text(j, "layer", v->layer);
        report_put_text(j, "op", v->op);
        report_put_text(j, "phase", v->phase);
        sw_json_put_u64(j, "bytes", v->bytes + v->padding);
        sw_json_put_u64(j, "count", live->largest[i].n);
        sw_json_put_u64(j, "padding", v->padding);
        sw_json_put_u64(j, "birth", v->birth);
        sw_json_put_u64(j, "death", v->death);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_end(j);
}

static void put_rest(sw_json *j, report *r)
{
    uint64_t median[SW_PROF_PHASES + 1];
    const bool timed = report_medians(r, median);
    if (sw_json_open_known(j, "median_ns", timed)) {
        for (int i = 0; i < SW_PROF_PHASES; i++)
            sw_json_put_u64(j, sw_prof_phase_name(i), median[i]);
        sw_json_end(j);
    }
    sw_json_put_known(j, "median_step_ns", timed, median[SW_PROF_PHASES]);
    sw_json_put_u64(j, "warm_steps", r->warm);
    sw_json_put_known(j, "allocations_after_warmup", r->warm_runs > 0, r->allocations);
    sw_json_put_u64(j, "host_bytes", r->host_max);
    sw_json_put_known(j, "process_bytes", r->has_process, r->process_max);
    sw_json_put_u64(j, "immediate_runs", r->immediate);
    sw_json_put_u64(j, "unplanned_runs", r->unplanned);
}

static void put_rows(sw_json *j, const report *r)
{
    const report_row *rows[REPORT_ROWS];
    const size_t n = report_rows(r, rows);
    sw_json_open(j, "rows", '[');
    for (size_t k = 0; k < n; k++) {
        sw_json_begin(j, '{');
        sw_json_put_u64(j, "step", rows[k]->step);
        sw_json_put_u64(j, "micro", rows[k]->micro);
        sw_json_put_known_f64(j, "loss", rows[k]->has_loss, rows[k]->loss);
        report_put_phases(j, "phases", rows[k]->phase);
        const int peak = report_peak_phase(rows[k]->phase);
        sw_json_put_string(j, "peak_phase", sw_prof_phase_name(peak));
        sw_json_put_u64(j, "peak_bytes", rows[k]->phase[peak].peak_bytes);
        sw_json_end(j);
    }
    sw_json_end(j);
}

/* Which phase peaks in how many training runs, and where the peak goes. */
static void put_moves(sw_json *j, const report *r)
{
    const report_moves *m = &r->moves;
    sw_json_open(j, "peaks", '{');
    sw_json_open(j, "phases", '{');
    for (int i = 0; i < SW_PROF_PHASES; i++)
        sw_json_put_u64(j, sw_prof_phase_name(i), m->runs[i]);
    sw_json_end(j);
    sw_json_put_bool(j, "moves", m->low != m->high);
    sw_json_put_u64(j, "lowest_bytes", m->low);
    sw_json_put_u64(j, "lowest_step", m->low_step);
    sw_json_put_u64(j, "highest_bytes", m->high);
    sw_json_put_u64(j, "highest_step", m->high_step);
    sw_json_put_u64(j, "runs_per_bin", m->stride);
    sw_json_open(j, "bins", '[');
    for (size_t k = 0; k < m->n_bins; k++)
        sw_json_u64(j, m->bin[k]);
    sw_json_end(j);
    sw_json_end(j);
}

sw_status report_print_json(report *r, const report_live *live, const report_tail *more,
                            const report_style *style)
{
    const report_plan *peak = report_peak_plan(r);
    sw_json j;
    sw_json_growing(&j, SW_HEAP_PROFILE);
    sw_json_begin(&j, '{');
    sw_json_put_string(&j, "file", r->path);
    sw_json_put_string(&j, "tool", r->timeline->tool);
    report_put_text(&j, "model", r->model);
    report_put_text(&j, "device", r->device);
    report_put_text(&j, "data", r->data);
    report_put_text(&j, "normalise", r->normalise);
    report_put_batch(&j, r->timeline->batch);
    sw_json_put_known(&j, "seed", !r->timeline->no_seed, r->timeline->seed);
    report_put_text(&j, "created", r->created);
    report_put_text(&j, "command", r->command);
    sw_json_put_u64(&j, "steps", r->n_steps);
    sw_json_put_u64(&j, "training_runs", r->runs);
    sw_json_put_known(&j, "all_steps", r->all_steps > 0, r->all_steps); /* recorded or not */
    sw_json_put_u64(&j, "part", 1); /* a profile is one file */
    sw_json_put_u64(&j, "evaluations", r->evaluations);
    sw_json_put_bool(&j, "finished", report_finished(r));
    report_put_text(&j, "status", r->status);
    report_put_text(&j, "error", r->error);
    sw_json_put_bool(&j, "cut", r->cut);
    sw_json_put_bool(&j, "goes_on", false);
    sw_json_put_u64(&j, "dropped_events", r->dropped);
    report_put_damaged(&j, r);
    sw_json_put_known(&j, "wall_ns", r->ended, r->wall_ns);
    if (peak != NULL) {
        put_main(&j, peak);
        put_live(&j, peak, live);
        /* Means over the warm runs of that program; empty without op clocks. */
        sw_json_open(&j, "slowest_ops", '[');
        for (size_t i = 0; i < live->n_slowest; i++) {
            sw_json_begin(&j, '{');
            sw_json_put_string(&j, "op", live->slowest[i].name);
            sw_json_put_u64(&j, "mean_ns", live->slowest[i].ns);
            sw_json_end(&j);
        }
        sw_json_end(&j);
        sw_json_put_u64(&j, "ops_mean_ns", live->ops_ns);
    }
    /* Whether each measured run of each program was as planned; null when none was
     * measured. */
    bool equal = true, any = false;
    for (size_t i = 0; i < r->n_plans; i++)
        for (int k = 0; k < r->plans[i].n_seen && !r->plans[i].immediate; k++) {
            any = true;
            equal &= r->plans[i].seen[k].equal == r->plans[i].seen[k].runs;
        }
    sw_json_put_known_bool(&j, "equal", any, equal);
    sw_json_open(&j, "witnesses", '{');
    for (int m = 0; m < 4; m++)
        sw_json_put_known_bool(&j, report_witnesses[m], r->witness_results[m] >= 0,
                               r->witness_results[m] == 1);
    sw_json_end(&j);
    sw_json_put_u64(&j, "faults", r->faults);
    report_put_text(&j, "first_fault", r->first_fault);
    put_rest(&j, r);
    if (sw_json_open_known(&j, "process", r->process != NULL)) {
        sw_process_put(&j, r->process);
        sw_json_end(&j);
    }
    report_put_host(&j, r);
    sw_json_open(&j, "programs", '[');
    for (size_t i = 0; i < r->n_plans; i++) {
        sw_json_begin(&j, '{');
        put_plan(&j, &r->plans[i], report_program(r, &r->plans[i]));
        sw_json_end(&j);
    }
    sw_json_end(&j);
    put_rows(&j, r);
    put_moves(&j, r);
    if (!sw_timeline_is_ours(r->timeline))
        report_put_steps(&j, r->timeline->steps, r->timeline->n_steps);
    if (more != NULL)
        more->put(&j, more->context);
    sw_json_end(&j);
    return report_print_object(&j, style);
}
