/* Records of runs, measured and under witnesses. */
#include "profiler/record/prof_internal.h"
#include <stdlib.h>
#include <string.h>

/* Resident bytes as the system says; false where it cannot say, or was asked a moment ago. */
static bool process_bytes(sw_profile *p, uint64_t now, uint64_t *out)
{
    char text[128];
    size_t n = 0;
    if (p->statm == NULL || (p->asked != 0 && now - p->asked < SW_PROF_PROCESS_NS))
        return false;
    p->asked = now;
    sw_status status = sw_file_seek(p->statm, 0);
    if (status == SW_OK)
        status = sw_file_read(p->statm, text, sizeof text - 1, &n);
    if (swi_prof_stick(p, status) != SW_OK)
        return false;
    text[n] = '\0';
    const char *resident = strchr(text, ' ');
    if (resident == NULL)
        return false;
    *out = strtoull(resident, NULL, 10) * sw_page_bytes();
    return true;
}

static void count_step(sw_profile *p, const sw_prof_step *x)
{
    if (strcmp(x->run, "eval") == 0)
        p->evaluations++;
    else if (x->micro == 0)
        p->steps++;
    if (x->peak_bytes > p->measured_peak_bytes)
        p->measured_peak_bytes = x->peak_bytes;
}

static void open_step(sw_profile *p, const sw_prof_step *x)
{
    sw_prof_heap_look(&p->heap);
    if (x != NULL && x->events != NULL)
        swi_prof_events(p, x);
}

/* The process's own bytes are asked for as rarely as the system is. */
static void put_host(sw_profile *p, uint64_t now)
{
    uint64_t resident;
    size_t other;
    sw_json_put_u64(&p->json, "host_bytes", sw_prof_heap_sum(&p->heap));
    if (process_bytes(p, now, &resident)) {
        sw_json_put_u64(&p->json, "process_bytes", resident);
        if (sw_heap_other_bytes(&other))
            sw_json_put_u64(&p->json, "other_bytes", other);
    } else
        sw_json_put_null(&p->json, "process_bytes");
    sw_prof_heap_put(&p->heap, &p->json);
}

static void write_step(sw_profile *p, const sw_prof_step *x, uint64_t now)
{
    sw_json *j = &p->json;
    open_step(p, x);
    sw_json_begin(j, '{');
    sw_json_put_string(j, "type", "step");
    sw_json_put_u64(j, "step", x->step);
    if (x->micro > 0)
        sw_json_put_u64(j, "micro", x->micro);
    swi_prof_put_program(j, x->exec, x->program, x->trace);
    sw_json_put_u64(j, "at_ns", x->at_ns > p->start ? x->at_ns - p->start : 0);
    sw_json_put_string(j, "run", x->run);
    sw_json_put_string(j, "mode", x->mode);
    sw_json_put_known_f64(j, "loss", x->loss != NULL, x->loss != NULL ? *x->loss : 0.0);
    sw_json_put_string(j, "measured_by", x->measured_by);
    swi_prof_put_phases(j, x->phase, true);
    sw_json_put_u64(j, "peak_bytes", x->peak_bytes);
    sw_json_put_u64(j, "arena_bytes", x->arena_bytes);
    sw_json_put_u64(j, "model_bytes", x->model_bytes);
    put_host(p, now);
    sw_json_put_u64(j, "allocations", x->allocations);
    sw_json_put_u64(j, "ns", x->ns);
    sw_json_put_bool(j, "warm", x->warm);
    if (x->op_ns != NULL) {
        sw_json_open(j, "op_ns", '[');
        for (uint32_t i = 0; i < x->n_ops; i++)
            sw_json_u64(j, x->op_ns[i]);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_line(j);
}

/* The last step of a run has a record whatever --profile-every says; what it borrowed it has no
 * more. */
static void keep_last(sw_profile *p, const sw_prof_step *x)
{
    if (strcmp(x->run, "train") != 0)
        return;
    p->last = *x;
    p->last.op_ns = NULL;
    p->last.events = NULL;
    if (x->loss != NULL) {
        p->last_loss = *x->loss;
        p->last.loss = &p->last_loss;
    }
    p->last_waits = true;
}

void swi_prof_write_last(sw_profile *p)
{
    if (p->last_waits && swi_prof_writes(p))
        write_step(p, &p->last, sw_clock_ns());
    p->last_waits = false;
}

static void record_step(sw_profile *p, const sw_prof_step *x)
{
    if (p->file == NULL)
        return;
    count_step(p, x);
    if (x->sampled_out) {
        keep_last(p, x);
    } else if (swi_prof_writes(p)) {
        if (strcmp(x->run, "train") != 0)
            swi_prof_write_last(p); /* the training that is evaluated ended there */
        p->last_waits = false;
        write_step(p, x, sw_clock_ns());
        swi_prof_done(p, sw_clock_ns()); /* events may have taken long */
    }
}

void sw_prof_step_record(sw_profile *p, const sw_prof_step *x)
{
    pthread_mutex_lock(&p->lock);
    record_step(p, x);
    pthread_mutex_unlock(&p->lock);
}

static void write_witness(sw_profile *p, const sw_prof_witness *x, uint64_t now)
{
    sw_json *j = &p->json;
    open_step(p, NULL);
    sw_json_begin(j, '{');
    sw_json_put_string(j, "type", "step");
    sw_json_put_u64(j, "step", x->step);
    swi_prof_put_program(j, x->exec, x->program, SW_PROF_NONE);
    sw_json_put_string(j, "run", "witness");
    sw_json_put_string(j, "mode", "planned");
    sw_json_put_null(j, "loss");
    sw_json_put_string(j, "measured_by", x->measured_by);
    swi_prof_put_phases(j, x->phase, true);
    sw_json_put_u64(j, "peak_bytes", x->peak_bytes);
    put_host(p, now);
    sw_json_put_u64(j, "ns", x->ns);
    sw_json_open(j, "witnesses", '{');
    for (int i = 0; i < x->n; i++)
        sw_json_put_known_bool(j, x->names[i], x->witness_results[i] >= 0,
                               x->witness_results[i] > 0);
    sw_json_end(j);
    sw_json_put_u64(j, "faults", x->faults);
    sw_json_put_string(j, "first_fault", x->faults > 0 ? x->first_fault : NULL);
    sw_json_end(j);
    sw_json_line(j);
}

void sw_prof_witness_record(sw_profile *p, const sw_prof_witness *x)
{
    pthread_mutex_lock(&p->lock);
    if (x->peak_bytes > p->measured_peak_bytes)
        p->measured_peak_bytes = x->peak_bytes;
    if (swi_prof_writes(p)) {
        const uint64_t now = sw_clock_ns();
        write_witness(p, x, now);
        swi_prof_done(p, now);
    }
    pthread_mutex_unlock(&p->lock);
}
