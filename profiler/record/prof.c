/* The profile's state, records and file. One lock around each record; nothing is counted,
 * written or formatted where there is no file.
 *
 * Two look after the 100 ms. A recording thread writes when its next record, at the pace of the
 * last two, would come too late for the oldest one that waits: steps that go on write for
 * themselves. A thread of the profile's own writes when none came by. It sleeps until the
 * oldest record is due, and without a deadline once that long nothing was recorded; only then
 * does a record have to wake it. */
#include "profiler/record/process.h"
#include "alloc/base/assert.h"
#include "profiler/record/prof_internal.h"
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char statm_path[] = "/proc/self/statm";

#define DUE_NS (SW_PROF_FLUSH_NS / 4 * 3) /* the rest is for waking up and writing */

const char *sw_prof_phase_name(int phase)
{
    static const char *const names[] = {"data", "forward", "loss", "backward", "step"};
    return phase >= 0 && phase < SW_PROF_PHASES ? names[phase] : "?";
}

/* ---- file -------------------------------------------------------------------------------- */

sw_status swi_prof_stick(sw_profile *p, sw_status status)
{
    if (p->status == SW_OK && status != SW_OK) {
        p->status = status;
        snprintf(p->message, sizeof p->message, "%s", sw_last_error());
    }
    return status;
}

sw_status swi_prof_write(sw_profile *p, const char *bytes, size_t n)
{
    if (p->status != SW_OK || p->file == NULL)
        return p->status;
    return swi_prof_stick(p, sw_file_write(p->file, bytes, n));
}

static sw_status write_out(void *context, const char *bytes, size_t n)
{
    sw_profile *p = context;
    return swi_prof_write(p, bytes, n);
}

void swi_prof_flush(sw_profile *p)
{
    p->waiting = 0;
    const size_t n = p->json.used;
    p->json.used = 0;
    if (n > 0)
        (void)write_out(p, p->json.bytes, n);
}

/* After a record. */
void swi_prof_done(sw_profile *p, uint64_t now)
{
    SW_ASSERT(p->json.depth == 0 && p->json.used <= p->json.capacity);
    SW_ASSERT(now >= p->recorded);
    const uint64_t pace = now - p->recorded;
    p->recorded = now;
    (void)swi_prof_stick(p, p->json.status);
    if (p->waiting == 0)
        p->waiting = now;
    if (now - p->waiting + pace >= DUE_NS || p->json.used > SWI_PROF_BUFFER / 2)
        swi_prof_flush(p);
    else if (p->sleeping) {
        p->sleeping = false;
        pthread_cond_signal(&p->wake);
    }
}

/* After what it wrote, or found written by others, the writer_thread looks again a due time
 * later: while steps go on no one has to wake it. */
static void writer_thread(void *arg)
{
    sw_profile *p = arg;
    uint64_t idle_since = 0; /* the last look found nothing; 0: it found something */
    pthread_mutex_lock(&p->lock);
    while (!p->end) {
        const uint64_t now = sw_clock_ns();
        if (p->waiting != 0 && now >= p->waiting + DUE_NS)
            swi_prof_flush(p);
        if (p->waiting != 0)
            idle_since = 0;
        else if (idle_since == 0)
            idle_since = now;
        if (p->waiting == 0 && now >= idle_since + DUE_NS) {
            p->sleeping = true;
            pthread_cond_wait(&p->wake, &p->lock);
            p->sleeping = false;
            idle_since = 0;
        } else {
            const uint64_t due = (p->waiting != 0 ? p->waiting : idle_since) + DUE_NS;
            const struct timespec until = {(time_t)(due / 1000000000u),
                                           (long)(due % 1000000000u)};
            (void)pthread_cond_timedwait(&p->wake, &p->lock, &until);
        }
    }
    pthread_mutex_unlock(&p->lock);
}

static void stop_writer_thread(sw_profile *p)
{
    if (p->forks == sw_fork_number()) {
        pthread_mutex_lock(&p->lock);
        p->end = true;
        pthread_cond_signal(&p->wake);
        pthread_mutex_unlock(&p->lock);
    }
    sw_thread_join(p->writer_thread);
    p->writer_thread = NULL;
}

static sw_status final_status(sw_profile *p)
{
    if (p->status == SW_OK)
        return SW_OK;
    return sw_error_set(p->status, __FILE__, __LINE__, "%s", p->message);
}

/* ---- small parts of records -------------------------------------------------------------- */

static void put_exec(sw_json *j, uint32_t exec)
{
    if (exec > 0)
        sw_json_put_u64(j, "exec", exec);
}

void swi_prof_put_program(sw_json *j, uint32_t exec, uint32_t program, uint32_t trace)
{
    sw_json_put_known(j, "program", program != SW_PROF_NONE, program);
    if (program == SW_PROF_NONE && trace != SW_PROF_NONE)
        sw_json_put_u64(j, "trace", trace);
    put_exec(j, exec);
}

void swi_prof_put_phases(sw_json *j, const sw_prof_phase *phase, bool clocked)
{
    sw_json_open(j, "phases", '{');
    for (int i = 0; i < SW_PROF_PHASES; i++) {
        sw_json_open(j, sw_prof_phase_name(i), '{');
        sw_json_put_u64(j, "peak_bytes", phase[i].peak_bytes);
        sw_json_put_u64(j, "end_bytes", phase[i].end_bytes);
        if (clocked)
            sw_json_put_u64(j, "ns", phase[i].ns);
        sw_json_end(j);
    }
    sw_json_end(j);
}

/* Coordinated universal time as 2026-01-31T23:59:59Z, without the time zone files of the C
 * library. Days to a date: years of 400-year eras that begin in March, so that leap days come
 * last. */
static void write_time(char *to, size_t bytes)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    const long long seconds = now.tv_sec, days = seconds / 86400 + 719468,
                    rest = seconds % 86400;
    const long long era = days / 146097, day = days % 146097;
    const long long year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    const long long in_year = day - (365 * year + year / 4 - year / 100);
    const long long month = (5 * in_year + 2) / 153;
    snprintf(to, bytes, "%04lld-%02lld-%02lldT%02lld:%02lld:%02lldZ",
             year + era * 400 + (month >= 10), month < 10 ? month + 3 : month - 9,
             in_year - (153 * month + 2) / 5 + 1, rest / 3600, rest / 60 % 60, rest % 60);
}

/* ---- header and end ---------------------------------------------------------------------- */

static void write_header(sw_profile *p, const sw_prof_header *h)
{
    sw_json *j = &p->json;
    char created[64];
    write_time(created, sizeof created);
    sw_json_begin(j, '{');
    sw_json_put_string(j, "type", "header");
    sw_json_put_string(j, "format", "stepwell-profile");
    sw_json_put_u64(j, "version", 1);
    sw_json_put_string(j, "model", h->model);
    sw_json_put_string(j, "device", h->device);
    sw_json_put_string(j, "data", h->data);
    if (h->normalise != NULL && *h->normalise != '\0')
        sw_json_put_string(j, "normalise", h->normalise);
    sw_json_put_i64(j, "batch", h->batch);
    sw_json_put_u64(j, "seed", h->seed);
    sw_json_put_string(j, "created", created);
    sw_json_put_string(j, "command", h->command);
    sw_json_put_string(j, "library", h->version);
    sw_json_put_string(j, "heap", sw_heap_backend());
    sw_json_put_u64(j, "alignment", SW_ALIGN);
    if (h->steps > 0)
        sw_json_put_u64(j, "planned_steps", h->steps);
    if (h->budget_bytes > 0)
        sw_json_put_u64(j, "budget_bytes", h->budget_bytes);
    if (h->members > 0)
        sw_json_put_u64(j, "members", h->members);
    if (h->scores != NULL)
        sw_json_put_string(j, "scores", h->scores);
    sw_json_end(j);
    sw_json_line(j);
}

static void write_heap(sw_profile *p)
{
    sw_json_begin(&p->json, '{');
    sw_json_put_string(&p->json, "type", "heap");
    swi_prof_heap_put_report(&p->json);
    sw_json_end(&p->json);
    sw_json_line(&p->json);
}

static void write_end(sw_profile *p)
{
    SW_ASSERT(p->json.depth == 0);
    sw_json *j = &p->json;
    if (!p->heap_recorded)
        write_heap(p);
    sw_json_begin(j, '{');
    sw_json_put_string(j, "type", "end");
    sw_json_put_string(j, "status", p->end_status[0] != '\0' ? p->end_status : "done");
    sw_json_put_string(j, "error", p->end_error[0] != '\0' ? p->end_error : NULL);
    sw_json_put_u64(j, "steps", p->steps);
    sw_json_put_u64(j, "evaluations", p->evaluations);
    sw_json_put_u64(j, "wall_ns", sw_clock_ns() - p->start);
    sw_json_put_u64(j, "predicted_peak_bytes", p->predicted_peak_bytes);
    sw_json_put_u64(j, "measured_peak_bytes", p->measured_peak_bytes);
    sw_json_end(j);
    sw_json_line(j);
    (void)swi_prof_stick(p, j->status);
}

/* The thread first: without it the file that is there stays. */
static sw_status open_files(sw_profile *p, const sw_prof_header *header)
{
    SW_TRY(sw_thread_start(&p->writer_thread, writer_thread, p, "sw-profile"));
    SW_TRY(sw_prof_heap_begin(&p->heap));
    SW_TRY(sw_file_take(&p->file, header->path, true));
    if (access(statm_path, R_OK) == 0)
        SW_TRY(sw_file_open(&p->statm, statm_path, SW_FILE_READ));
    pthread_mutex_lock(&p->lock);
    write_header(p, header);
    swi_prof_flush(p);
    const sw_status status = p->status;
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* A plain mutex has nothing that can fail, nor has a condition on a clock that is there. */
static void prepare_lock(sw_profile *p)
{
    pthread_condattr_t attr;
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* as sw_clock_ns */
    (void)pthread_cond_init(&p->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
}

static void discard(sw_profile *p)
{
    stop_writer_thread(p);
    sw_prof_heap_end(&p->heap);
    sw_file_drop(p->file);
    sw_file_drop(p->statm);
    if (p->forks == sw_fork_number()) { /* else the writer_thread waits there for ever */
        (void)pthread_cond_destroy(&p->wake);
        (void)pthread_mutex_destroy(&p->lock);
    }
    sw_handle_give(p, SW_HANDLE_PROFILE, sizeof *p);
}

sw_status sw_prof_create(sw_profile **out, const sw_prof_header *header)
{
    void *block;
    SW_TRY(sw_handle_take(&block, SW_HANDLE_PROFILE, sizeof(sw_profile)));
    sw_profile *p = block;
    p->forks = sw_fork_number();
    prepare_lock(p);
    p->start = p->recorded = sw_clock_ns();
    p->event_room = header->path != NULL ? header->event_room : 0;
    p->every = header->every > 0 ? header->every : 1;
    sw_json_fixed(&p->json, p->buffer, sizeof p->buffer, write_out, p);
    const sw_status status = header->path != NULL ? open_files(p, header) : SW_OK;
    if (status != SW_OK) {
        discard(p);
        return status;
    }
    *out = p;
    return SW_OK;
}

sw_status sw_prof_check_fork(const sw_profile *p)
{
    if (p->forks != sw_fork_number())
        SW_FAIL(SW_BUSY, "the profile was made before a fork: its file is the parent's");
    return SW_OK;
}

uint32_t sw_prof_join(sw_profile *p)
{
    pthread_mutex_lock(&p->lock);
    const uint32_t exec = p->n_execs++;
    pthread_mutex_unlock(&p->lock);
    return exec;
}

uint32_t sw_prof_event_capacity(const sw_profile *p)
{
    return p->event_room;
}

uint64_t sw_prof_every(const sw_profile *p)
{
    return p->every;
}

uint64_t sw_prof_start_ns(const sw_profile *p)
{
    return p->start;
}

sw_status sw_prof_flush(sw_profile *p)
{
    SW_TRY(sw_prof_check_fork(p));
    pthread_mutex_lock(&p->lock);
    if (swi_prof_writes(p))
        swi_prof_flush(p);
    const sw_status status = final_status(p);
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* The name is in the folder, where syncing may be impossible. */
static sw_status sync_file(const sw_profile *p)
{
    SW_TRY(sw_file_sync(p->file));
    (void)!sw_folder_sync(sw_file_path(p->file));
    return SW_OK;
}

/* The lock is held for the flush alone: recording goes on while the system syncs. */
sw_status sw_prof_sync(sw_profile *p)
{
    SW_TRY(sw_prof_check_fork(p));
    pthread_mutex_lock(&p->lock);
    if (swi_prof_writes(p))
        swi_prof_flush(p);
    sw_status status = final_status(p);
    pthread_mutex_unlock(&p->lock);
    if (status == SW_OK && p->file != NULL)
        status = sync_file(p);
    return status;
}

void sw_prof_end_status(sw_profile *p, const char *status, const char *why)
{
    if (p->forks != sw_fork_number())
        return;
    pthread_mutex_lock(&p->lock);
    snprintf(p->end_status, sizeof p->end_status, "%s", status);
    snprintf(p->end_error, sizeof p->end_error, "%s", why != NULL ? why : "");
    pthread_mutex_unlock(&p->lock);
}

/* ---- plans ------------------------------------------------------------------------------- */

static void put_plan_bytes(sw_json *j, const sw_prof_plan *x)
{
    sw_json_put_u64(j, "model_bytes", x->model_bytes);
    sw_json_put_u64(j, "arena_bytes", x->arena_bytes);
    sw_json_put_u64(j, "data_bytes", x->data_bytes);
    sw_json_put_u64(j, "slot_bytes", x->slot_bytes);
    if (x->trace)
        return;
    sw_json_put_u64(j, "total_bytes", x->total_bytes);
    sw_json_put_u64(j, "lower_bound_bytes", x->lower_bound_bytes);
    sw_json_put_u64(j, "padding_bytes", x->padding_bytes);
    sw_json_put_u64(j, "lanes_bytes", x->lanes_bytes);
    sw_json_put_u64(j, "model_padding_bytes", x->model_padding_bytes);
    sw_json_put_u64(j, "immediate_bytes", x->immediate_bytes);
    sw_json_put_u64(j, "peak_bytes", x->peak_bytes);
    sw_json_put_u64(j, "program_host_bytes", x->program_host_bytes);
}

void sw_prof_plan_begin(sw_profile *p, const sw_prof_plan *x)
{
    pthread_mutex_lock(&p->lock);
    if (!x->trace && x->peak_bytes > p->predicted_peak_bytes)
        p->predicted_peak_bytes = x->peak_bytes;
    if (!swi_prof_writes(p))
        return;
    sw_json *j = &p->json;
    sw_json_begin(j, '{');
    sw_json_put_string(j, "type", x->trace ? "trace" : "plan");
    sw_json_put_u64(j, x->trace ? "trace" : "program", x->program);
    put_exec(j, x->exec);
    sw_json_put_string(j, "run", x->run);
    sw_json_key(j, "batch");
    if (x->batch >= 0)
        sw_json_i64(j, x->batch);
    else
        sw_json_null(j);
    put_plan_bytes(j, x);
    if (!x->trace)
        swi_prof_put_phases(j, x->phase, false);
    sw_json_put_u64(j, "n_ops", x->n_ops);
    if (!x->trace) {
        sw_json_put_u64(j, "peak_position", x->peak_position);
        sw_json_put_string(j, "peak_op", x->peak_op);
    }
    sw_json_open(j, "ops", '[');
}

void sw_prof_plan_op(sw_profile *p, const char *name)
{
    if (swi_prof_writes(p))
        sw_json_string(&p->json, name);
}

void sw_prof_plan_layers(sw_profile *p)
{
    if (!swi_prof_writes(p))
        return;
    sw_json_end(&p->json);
    sw_json_open(&p->json, "layers", '[');
}

void sw_prof_plan_layer(sw_profile *p, const char *name)
{
    sw_prof_plan_op(p, name); /* one name more in the open list */
}

void sw_prof_plan_values(sw_profile *p, const uint32_t *op_layer, const char *op_phase,
                         uint32_t n)
{
    if (!swi_prof_writes(p))
        return;
    sw_json_end(&p->json);
    sw_json_open(&p->json, "op_layer", '[');
    sw_json_u32s(&p->json, op_layer, n);
    sw_json_end(&p->json);
    sw_json_put_string(&p->json, "op_phase", op_phase);
    sw_json_open(&p->json, "values", '[');
}

const char *sw_segment_name(sw_segment segment)
{
    static const char *const names[SW_SEGMENTS] = {
        [SW_SEGMENT_STEP] = "step", [SW_SEGMENT_MODEL] = "model", [SW_SEGMENT_INPUT] = "input"};
    return names[segment];
}

void sw_prof_plan_value(sw_profile *p, const sw_tensor *v)
{
    if (!swi_prof_writes(p))
        return;
    sw_json *j = &p->json;
    sw_json_begin(j, '{');
    sw_json_put_u64(j, "id", v->id);
    sw_json_put_string(j, "name", v->name);
    sw_json_put_string(j, "layer", v->layer);
    sw_json_put_string(j, "op", v->op);
    sw_json_put_string(j, "role", v->role);
    sw_json_put_string(j, "phase", v->phase);
    sw_json_put_string(j, "segment", sw_segment_name(v->segment));
    sw_json_put_u64(j, "bytes", v->bytes);
    sw_json_put_u64(j, "padding", v->padding);
    sw_json_put_u64(j, "offset", v->offset);
    sw_json_put_u64(j, "birth", v->birth);
    sw_json_put_u64(j, "death", v->death);
    if (v->alias != SW_TENSOR_NONE)
        sw_json_put_u64(j, "alias", v->alias);
    sw_json_end(j);
}

bool sw_prof_plan_end(sw_profile *p)
{
    const bool there = swi_prof_writes(p);
    if (there) {
        sw_json_end(&p->json);
        sw_json_end(&p->json);
        sw_json_line(&p->json);
        (void)swi_prof_stick(p, p->json.status);
        swi_prof_flush(p);
    }
    pthread_mutex_unlock(&p->lock);
    return there;
}

/* ---- records of others ------------------------------------------------------------------- */

void swi_prof_record(sw_profile *p, const char *type, void (*put)(sw_json *json, const void *x),
                     const void *x)
{
    pthread_mutex_lock(&p->lock);
    swi_prof_write_last(p);
    if (swi_prof_writes(p)) {
        const uint64_t now = sw_clock_ns();
        sw_json_begin(&p->json, '{');
        sw_json_put_string(&p->json, "type", type);
        put(&p->json, x);
        sw_json_end(&p->json);
        sw_json_line(&p->json);
        swi_prof_done(p, now);
        p->heap_recorded |= strcmp(type, "heap") == 0;
    }
    pthread_mutex_unlock(&p->lock);
}

static void put_process(sw_json *j, const void *process)
{
    sw_process_put(j, process);
}

void sw_prof_process_record(sw_profile *p, const sw_process *x)
{
    swi_prof_record(p, "process", put_process, x);
}

/* ---- the end of it all --------------------------------------------------------------------
 */

sw_status sw_prof_destroy(sw_profile *p)
{
    if (p == NULL)
        return SW_OK;
    if (p->forks != sw_fork_number()) { /* the file and the lines that wait are the parent's */
        sw_file_drop(p->file);
        p->file = NULL;
        discard(p);
        SW_FAIL(SW_BUSY, "the profile was made before a fork: its file is the parent's, and "
                         "nothing was written");
    }
    stop_writer_thread(p);
    if (swi_prof_writes(p)) {
        swi_prof_write_last(p);
        write_end(p);
        swi_prof_flush(p);
    }
    (void)swi_prof_stick(p, sw_file_close(p->file));
    p->file = NULL;
    const sw_status status = final_status(p);
    discard(p);
    return status;
}
