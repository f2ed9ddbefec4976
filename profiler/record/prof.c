/* The profile's state, records and file. One lock around each record; nothing is counted,
 * written or formatted where there is no file.
 *
 * Two look after the 100 ms. A recording thread writes when its next record, at the pace of the
 * last two, would come too late for the oldest one that waits: steps that go on write for
 * themselves. A thread of the profile's own writes when none came by. It sleeps until the
 * oldest record is due, and without a deadline once that long nothing was recorded; only then
 * does a record have to wake it. */
#include "alloc/base/assert.h"
#include "profiler/record/process.h"
#include "profiler/record/prof_internal.h"
#include "profiler/record/record.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void prof_write_last(sw_profile *p);

static void begin_record(sw_profile *p, const char *type)
{
    sw_json_begin(&p->json, '{');
    sw_json_put_string(&p->json, "type", type);
}

static void end_record(sw_profile *p)
{
    sw_json_end(&p->json);
    sw_json_line(&p->json);
}

static void put_exec(sw_json *j, uint32_t exec)
{
    if (exec > 0)
        sw_json_put_u64(j, "exec", exec);
}

static void raise_to(size_t *most, size_t bytes)
{
    *most = bytes > *most ? bytes : *most;
}

static void put_rank(sw_json *j, const void *x)
{
    const sw_prof_rank *r = x;
    char run[24];
    snprintf(run, sizeof run, "%016" PRIx64, r->run);
    sw_json_put_string(j, "at", r->ends ? "end" : "begin");
    SW_JSON_PUT(j, r, rank, ranks, host);
    sw_json_put_string(j, "run", run);
    if (r->ends)
        SW_JSON_PUT(j, r, sent_bytes, waited_ns);
}

void sw_prof_rank_record(sw_profile *profile, const sw_prof_rank *rank)
{
    swi_prof_record(profile, "rank", put_rank, rank);
}

/* ---- populations: shapes, members in a turn, and what a turn takes ----------------------- */

uint32_t sw_prof_shape_begin(sw_profile *p, const sw_prof_shape *x)
{
    pthread_mutex_lock(&p->lock);
    const uint32_t number = p->n_shapes++;
    if (!swi_prof_writes(p))
        return number;
    begin_record(p, "shape");
    sw_json_put_u64(&p->json, "shape", number);
    SW_JSON_PUT(&p->json, x, name, member_bytes, batch_bytes);
    put_exec(&p->json, x->exec);
    sw_json_open(&p->json, "programs", '[');
    sw_json_u32s(&p->json, x->programs, x->n_programs);
    sw_json_end(&p->json);
    sw_json_open(&p->json, "values", '[');
    return number;
}

static void put_member(sw_json *j, const void *member)
{
    const sw_prof_member *x = member;
    SW_JSON_PUT(j, x, turn, member, shape, step, seed, place, status, range_bytes,
                waiting_bytes, kept_bytes, score, loss);
    sw_json_put_f64(j, "train_loss", x->train_loss);
    sw_json_put_known(j, "donor", x->donor >= 0, (uint64_t)x->donor);
    sw_json_open(j, "values", '{');
    for (uint32_t i = 0; i < x->n_values; i++)
        sw_json_put_f64(j, x->names[i], x->values[i]);
    sw_json_end(j);
}

void sw_prof_member_record(sw_profile *p, const sw_prof_member *x)
{
    swi_prof_record(p, "member", put_member, x);
}

static void put_turn(sw_json *j, const void *turn)
{
    const sw_prof_turn *x = turn;
    SW_JSON_PUT(j, x, turn, step, members, lanes, step_bytes, batch_bytes, range_bytes,
                live_bytes);
    sw_json_put_u64(j, "measured_bytes", x->step_bytes + x->batch_bytes + x->range_bytes);
    SW_JSON_PUT(j, x, predicted_bytes, outside_bytes);
}

void sw_prof_turn_record(sw_profile *p, const sw_prof_turn *x)
{
    pthread_mutex_lock(&p->lock);
    raise_to(&p->measured_peak_bytes, x->step_bytes + x->batch_bytes + x->range_bytes);
    raise_to(&p->predicted_peak_bytes, x->predicted_bytes);
    p->steps = x->step > p->steps ? x->step : p->steps;
    pthread_mutex_unlock(&p->lock);
    swi_prof_record(p, "turn", put_turn, x);
}

static const char statm_path[] = "/proc/self/statm";

#define DUE_NS (SW_PROF_FLUSH_NS / 4 * 3) /* the rest is for waking up and writing */

const char *sw_prof_phase_name(int phase)
{
    static const char *const names[] = {"data", "forward", "loss", "backward", "step"};
    return phase >= 0 && phase < SW_PROF_PHASES ? names[phase] : "?";
}

/* ---- file -------------------------------------------------------------------------------- */

/* The first error stays. */
static sw_status prof_stick(sw_profile *p, sw_status status)
{
    if (p->status == SW_OK && status != SW_OK) {
        p->status = status;
        snprintf(p->message, sizeof p->message, "%s", sw_last_error());
    }
    return status;
}

static sw_status write_out(void *context, const char *bytes, size_t n)
{
    sw_profile *p = context;
    if (p->status != SW_OK || p->file == NULL)
        return p->status;
    return prof_stick(p, sw_file_write(p->file, bytes, n));
}

/* The lines that wait go to the file. */
static void prof_flush(sw_profile *p)
{
    p->waiting = 0;
    const size_t n = p->json.used;
    p->json.used = 0;
    if (n > 0)
        (void)write_out(p, p->json.bytes, n);
}

/* After a record. */
static void prof_done(sw_profile *p, uint64_t now)
{
    SW_ASSERT(p->json.depth == 0 && p->json.used <= p->json.capacity);
    SW_ASSERT(now >= p->recorded);
    const uint64_t pace = now - p->recorded;
    p->recorded = now;
    (void)prof_stick(p, p->json.status);
    if (p->waiting == 0)
        p->waiting = now;
    if (now - p->waiting + pace >= DUE_NS || p->json.used > SWI_PROF_BUFFER / 2)
        prof_flush(p);
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
            prof_flush(p);
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

/* The program or trace that a record is about; an exec but the first. */
static void prof_put_program(sw_json *j, uint32_t exec, uint32_t program, uint32_t trace)
{
    sw_json_put_known(j, "program", program != SW_PROF_NONE, program);
    if (program == SW_PROF_NONE && trace != SW_PROF_NONE)
        sw_json_put_u64(j, "trace", trace);
    put_exec(j, exec);
}

static void prof_put_phases(sw_json *j, const sw_prof_phase *phase, bool clocked)
{
    sw_json_open(j, "phases", '{');
    for (int i = 0; i < SW_PROF_PHASES; i++) {
        sw_json_open(j, sw_prof_phase_name(i), '{');
        SW_JSON_PUT(j, &phase[i], peak_bytes, end_bytes);
        if (clocked)
            sw_json_put_u64(j, "ns", phase[i].ns);
        sw_json_end(j);
    }
    sw_json_end(j);
}

/* ---- header and end ---------------------------------------------------------------------- */

static void write_header(sw_profile *p, const sw_prof_header *h)
{
    sw_json *j = &p->json;
    char created[64];
    /* Coordinated universal time as 2026-01-31T23:59:59Z, without the time zone files of the
     * C library. Days to a date: years of 400-year eras that begin in March, so that leap
     * days come last. */
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    const long long seconds = now.tv_sec, days = seconds / 86400 + 719468,
                    rest = seconds % 86400;
    const long long era = days / 146097, day = days % 146097;
    const long long year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    const long long in_year = day - (365 * year + year / 4 - year / 100);
    const long long month = (5 * in_year + 2) / 153;
    snprintf(created, sizeof created, "%04lld-%02lld-%02lldT%02lld:%02lld:%02lldZ",
             year + era * 400 + (month >= 10), month < 10 ? month + 3 : month - 9,
             in_year - (153 * month + 2) / 5 + 1, rest / 3600, rest / 60 % 60, rest % 60);
    begin_record(p, "header");
    sw_json_put_string(j, "format", "stepwell-profile");
    sw_json_put_u64(j, "version", 1);
    SW_JSON_PUT(j, h, model, device, data);
    if (h->normalise != NULL && *h->normalise != '\0')
        sw_json_put_string(j, "normalise", h->normalise);
    SW_JSON_PUT(j, h, batch, seed);
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
    end_record(p);
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
    prof_flush(p);
    const sw_status status = p->status;
    pthread_mutex_unlock(&p->lock);
    return status;
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
    sw_profile *p;
    SW_TRY(sw_handle_take(&p, SW_HANDLE_PROFILE, sizeof(sw_profile)));
    p->forks = sw_fork_number();
    /* A plain mutex has nothing that can fail, nor has a condition on a clock that is there. */
    pthread_condattr_t attr;
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* as sw_clock_ns */
    (void)pthread_cond_init(&p->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    p->start = p->recorded = sw_clock_ns();
    p->event_room = header->path != NULL ? header->event_room : 0;
    p->every = header->every > 0 ? header->every : 1;
    sw_json_fixed(&p->json, p->buffer, sizeof p->buffer, write_out, p);
    const sw_status status = header->path != NULL ? open_files(p, header) : SW_OK;
    return SW_GIVE(status, out, p, discard);
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
        prof_flush(p);
    const sw_status status = final_status(p);
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* The lock is held for the flush alone: recording goes on while the system syncs. The name is
 * in the folder, where syncing may be impossible. */
sw_status sw_prof_sync(sw_profile *p)
{
    SW_TRY(sw_prof_flush(p));
    if (p->file == NULL)
        return SW_OK;
    SW_TRY(sw_file_sync(p->file));
    (void)!sw_folder_sync(sw_file_path(p->file));
    return SW_OK;
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

void sw_prof_plan_begin(sw_profile *p, const sw_prof_plan *x)
{
    pthread_mutex_lock(&p->lock);
    raise_to(&p->predicted_peak_bytes, x->trace ? 0 : x->peak_bytes);
    if (!swi_prof_writes(p))
        return;
    sw_json *j = &p->json;
    begin_record(p, x->trace ? "trace" : "plan");
    sw_json_put_u64(j, x->trace ? "trace" : "program", x->program);
    put_exec(j, x->exec);
    sw_json_put_string(j, "run", x->run);
    sw_json_put_known(j, "batch", x->batch >= 0, (uint64_t)x->batch);
    SW_JSON_PUT(j, x, model_bytes, arena_bytes, data_bytes, slot_bytes);
    if (!x->trace) {
        SW_JSON_PUT(j, x, total_bytes, lower_bound_bytes, padding_bytes, lanes_bytes,
                    model_padding_bytes, immediate_bytes, peak_bytes, program_host_bytes);
        prof_put_phases(j, x->phase, false);
    }
    sw_json_put_u64(j, "n_ops", x->n_ops);
    if (!x->trace)
        SW_JSON_PUT(j, x, peak_position, peak_op);
    sw_json_open(j, "ops", '[');
}

void sw_prof_plan_name(sw_profile *p, const char *name)
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
    SW_JSON_PUT(j, v, id, name, layer, op, role, phase, dtype);
    sw_json_put_string(j, "segment", sw_segment_name(v->segment));
    SW_JSON_PUT(j, v, bytes, padding, offset, birth, death);
    if (v->alias != SW_TENSOR_NONE)
        sw_json_put_u64(j, "alias", v->alias);
    sw_json_end(j);
}

bool sw_prof_plan_end(sw_profile *p)
{
    const bool there = swi_prof_writes(p);
    if (there) {
        sw_json_end(&p->json);
        end_record(p);
        (void)prof_stick(p, p->json.status);
        prof_flush(p);
    }
    pthread_mutex_unlock(&p->lock);
    return there;
}

/* ---- records of others ------------------------------------------------------------------- */

void swi_prof_record(sw_profile *p, const char *type, void (*put)(sw_json *json, const void *x),
                     const void *x)
{
    pthread_mutex_lock(&p->lock);
    prof_write_last(p);
    if (swi_prof_writes(p)) {
        const uint64_t now = sw_clock_ns();
        begin_record(p, type);
        put(&p->json, x);
        end_record(p);
        prof_done(p, now);
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
        prof_write_last(p);
        SW_ASSERT(p->json.depth == 0);
        sw_json *j = &p->json;
        if (!p->heap_recorded)
            sw_prof_heap_record(p);
        begin_record(p, "end");
        sw_json_put_string(j, "status", p->end_status[0] != '\0' ? p->end_status : "done");
        sw_json_put_string(j, "error", p->end_error[0] != '\0' ? p->end_error : NULL);
        SW_JSON_PUT(j, p, steps, evaluations);
        sw_json_put_u64(j, "wall_ns", sw_clock_ns() - p->start);
        SW_JSON_PUT(j, p, predicted_peak_bytes, measured_peak_bytes);
        end_record(p);
        (void)prof_stick(p, j->status);
        prof_flush(p);
    }
    (void)prof_stick(p, sw_file_close(p->file));
    p->file = NULL;
    const sw_status status = final_status(p);
    discard(p);
    return status;
}

/* ---- runs, measured and under witnesses -------------------------------------------------- */

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
    if (prof_stick(p, status) != SW_OK)
        return false;
    text[n] = '\0';
    const char *resident = strchr(text, ' ');
    if (resident == NULL)
        return false;
    *out = strtoull(resident, NULL, 10) * sw_page_bytes();
    return true;
}

/* A step's events: flat numbers, at most 4096 events a line. */
static void write_events(sw_profile *p, const sw_prof_step *x)
{
    enum { LINE_EVENTS = 4096, CHUNK = 256, NUMBERS = 5 };
    uint32_t numbers[CHUNK * NUMBERS];
    sw_json *j = &p->json;
    const size_t n = x->events != NULL ? x->events->n : 0;
    uint64_t part = 0;
    for (size_t from = 0; from < n && swi_prof_writes(p); part++) {
        const size_t end = n - from < LINE_EVENTS ? n : from + LINE_EVENTS;
        begin_record(p, "events");
        prof_put_program(j, x->exec, x->program, x->trace);
        sw_json_put_u64(j, "step", x->step);
        if (x->micro > 0)
            sw_json_put_u64(j, "micro", x->micro);
        sw_json_put_u64(j, "part", part);
        sw_json_put_u64(j, "dropped", x->events->dropped);
        sw_json_open(j, "log", '[');
        while (from < end) {
            uint32_t *to = numbers;
            for (const size_t to_here = end - from < CHUNK ? end : from + CHUNK; from < to_here;
                 from++) {
                const sw_record *e = &x->events->log[from];
                *to++ = e->offset;
                *to++ = e->bytes;
                *to++ = e->id;
                *to++ = e->kind;
                *to++ = e->phase;
            }
            sw_json_u32s(j, numbers, (size_t)(to - numbers));
        }
        sw_json_end(j);
        end_record(p);
        prof_done(p, sw_clock_ns());
    }
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
    sw_prof_heap_look(&p->heap);
    write_events(p, x);
    begin_record(p, "step");
    sw_json_put_u64(j, "step", x->step);
    if (x->micro > 0)
        sw_json_put_u64(j, "micro", x->micro);
    prof_put_program(j, x->exec, x->program, x->trace);
    sw_json_put_u64(j, "at_ns", x->at_ns > p->start ? x->at_ns - p->start : 0);
    SW_JSON_PUT(j, x, run, mode);
    sw_json_put_known_f64(j, "loss", x->loss != NULL, *x->loss);
    sw_json_put_string(j, "measured_by", x->measured_by);
    prof_put_phases(j, x->phase, true);
    SW_JSON_PUT(j, x, peak_bytes, arena_bytes, model_bytes);
    put_host(p, now);
    SW_JSON_PUT(j, x, allocations, ns, warm);
    if (x->op_ns != NULL) {
        sw_json_open(j, "op_ns", '[');
        for (uint32_t i = 0; i < x->n_ops; i++)
            sw_json_u64(j, x->op_ns[i]);
        sw_json_end(j);
    }
    end_record(p);
}

/* Before whatever follows the last step for good. */
static void prof_write_last(sw_profile *p)
{
    if (p->last_waits && swi_prof_writes(p))
        write_step(p, &p->last, sw_clock_ns());
    p->last_waits = false;
}

void sw_prof_step_record(sw_profile *p, const sw_prof_step *x)
{
    pthread_mutex_lock(&p->lock);
    if (p->file != NULL) {
        if (strcmp(x->run, "eval") == 0)
            p->evaluations++;
        else if (x->micro == 0)
            p->steps++;
        raise_to(&p->measured_peak_bytes, x->peak_bytes);
        if (x->sampled_out) {
            /* The last step of a run has a record whatever --profile-every says; what it
             * borrowed it has no more. */
            if (strcmp(x->run, "train") == 0) {
                p->last = *x;
                p->last.op_ns = NULL;
                p->last.events = NULL;
                if (x->loss != NULL) {
                    p->last_loss = *x->loss;
                    p->last.loss = &p->last_loss;
                }
                p->last_waits = true;
            }
        } else if (swi_prof_writes(p)) {
            if (strcmp(x->run, "train") != 0)
                prof_write_last(p); /* the training that is evaluated ended there */
            p->last_waits = false;
            write_step(p, x, sw_clock_ns());
            prof_done(p, sw_clock_ns()); /* events may have taken long */
        }
    }
    pthread_mutex_unlock(&p->lock);
}

void sw_prof_witness_record(sw_profile *p, const sw_prof_witness *x)
{
    pthread_mutex_lock(&p->lock);
    raise_to(&p->measured_peak_bytes, x->peak_bytes);
    if (swi_prof_writes(p)) {
        const uint64_t now = sw_clock_ns();
        sw_json *j = &p->json;
        sw_prof_heap_look(&p->heap);
        begin_record(p, "step");
        sw_json_put_u64(j, "step", x->step);
        prof_put_program(j, x->exec, x->program, SW_PROF_NONE);
        sw_json_put_string(j, "run", "witness");
        sw_json_put_string(j, "mode", "planned");
        sw_json_put_null(j, "loss");
        sw_json_put_string(j, "measured_by", x->measured_by);
        prof_put_phases(j, x->phase, true);
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
        end_record(p);
        prof_done(p, now);
    }
    pthread_mutex_unlock(&p->lock);
}
