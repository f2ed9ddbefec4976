/* Members in the budget and outside of it. A member that waits, and a state that is kept for
 * who may copy it, are the bytes of sw_member_pack, in memory that the budget does not count or
 * in the file of --pause-to. */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "tools/population/population.h"
#include <string.h>

/* ---- the file ---------------------------------------------------------------------------- */

sw_status pop_pause_open(pop *p)
{
    char path[600];
    if (p->opts.pause_to == NULL)
        return SW_OK;
    snprintf(path, sizeof path, "%s/stepwell-%llx.paused", p->opts.pause_to,
             (unsigned long long)(cli_clock_ns() ^ (uint64_t)(uintptr_t)p));
    const sw_status unnamed = sw_file_open(&p->pause.write, path, SW_FILE_UNNAMED);
    if (unnamed == SW_OK)
        p->pause.read = p->pause.write;
    if (unnamed != SW_UNSUPPORTED)
        return unnamed;
    SW_TRY(sw_file_open(&p->pause.write, path, SW_FILE_CREATE));
    const sw_status opened = sw_file_open(&p->pause.read, path, SW_FILE_READ);
    const sw_status removed = sw_file_remove(path);
    return opened != SW_OK ? opened : removed;
}

void pop_pause_close(pop *p)
{
    if (p->pause.read != p->pause.write)
        sw_file_drop(p->pause.read);
    sw_file_drop(p->pause.write);
    sw_heap_free(p->pause.free, SW_HEAP_RECORDS, p->pause.cap_free * sizeof *p->pause.free);
    p->pause = (pop_pause_file){0};
}

/* A place of that size that was given back, else a new one at the end. */
static uint64_t take_place(pop *p, size_t n)
{
    pop_pause_file *f = &p->pause;
    for (uint32_t i = 0; i < f->n_free; i++)
        if (f->free[i].n == n) {
            const uint64_t offset = f->free[i].offset;
            f->free[i] = f->free[--f->n_free];
            return offset;
        }
    f->end += n;
    return f->end - n;
}

/* Without memory for it the place is lost until the end. */
static void give_place(pop *p, const pop_state *s)
{
    if (sw_heap_reserve(&p->pause.free, SW_HEAP_RECORDS, &p->pause.cap_free,
                        p->pause.n_free + 1, sizeof *p->pause.free) != SW_OK)
        return;
    p->pause.free[p->pause.n_free++] = *s;
}

/* ---- states ------------------------------------------------------------------------------ */

void pop_state_free(pop *p, pop_state *s)
{
    if (!s->there)
        return;
    if (p->pause.write != NULL)
        give_place(p, s);
    else
        sw_heap_free(s->bytes, SW_HEAP_RECORDS, s->n);
    p->memory.paused -= s->n;
    *s = (pop_state){.there = false};
}

static sw_status room(pop *p, pop_state *s, size_t n)
{
    void *block = NULL;
    if (s->there && s->n == n)
        return SW_OK;
    if (p->pause.write == NULL)
        SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, n));
    pop_state_free(p, s);
    *s = (pop_state){.bytes = block, .n = n, .there = true};
    if (p->pause.write != NULL)
        s->offset = take_place(p, n);
    p->memory.paused += n;
    if (p->memory.paused > p->memory.paused_peak)
        p->memory.paused_peak = p->memory.paused;
    return SW_OK;
}

sw_status pop_state_put(pop *p, pop_state *s, const void *bytes, size_t n, int shape)
{
    SW_TRY(room(p, s, n));
    s->shape = shape;
    if (p->pause.write == NULL) {
        memcpy(s->bytes, bytes, n);
        return SW_OK;
    }
    SW_TRY(sw_file_seek(p->pause.write, s->offset));
    return sw_file_write(p->pause.write, bytes, n);
}

sw_status pop_state_read(pop *p, const pop_state *s, void *to)
{
    size_t got = 0;
    if (p->pause.write == NULL) {
        memcpy(to, s->bytes, s->n);
        return SW_OK;
    }
    SW_TRY(sw_file_seek(p->pause.read, s->offset));
    SW_TRY(sw_file_read(p->pause.read, to, s->n, &got));
    if (got != s->n)
        SW_FAIL(SW_FORMAT, "%s: a paused member has %zu bytes, %zu were written",
                sw_file_path(p->pause.read), got, s->n);
    return SW_OK;
}

static sw_status scratch(pop *p, size_t n)
{
    if (n <= p->scratch_bytes)
        return SW_OK;
    SW_TRY(sw_heap_resize(&p->scratch, SW_HEAP_RECORDS, p->scratch_bytes, n));
    p->scratch_bytes = n;
    return SW_OK;
}

size_t pop_state_bytes(const pop *p, int k)
{
    const pop_member *m = &p->members[k];
    return m->member.of != NULL ? sw_members_packed_bytes(m->member.of) : m->waiting.n;
}

sw_status pop_state_of(pop *p, int k, void *to)
{
    pop_member *m = &p->members[k];
    if (m->member.of == NULL)
        return pop_state_read(p, &m->waiting, to);
    return sw_member_pack(m->member, to, sw_members_packed_bytes(m->member.of));
}

/* ---- in and out -------------------------------------------------------------------------- */

/* A member of the shape with the bytes of a state, and a seed of its own. */
static sw_status unpack(pop *p, const pop_state *s, sw_member member, uint64_t seed)
{
    SW_TRY(scratch(p, s->n));
    SW_TRY(pop_state_read(p, s, p->scratch));
    SW_TRY(sw_member_unpack(member, p->scratch, s->n));
    return sw_member_seed_set(member, seed);
}

/* The waiting state has another shape's widths: it is unpacked beside the new one. */
static sw_status bring_resized(pop *p, pop_member *m)
{
    pop_shape *shape = p->shapes[m->shape], *old = p->shapes[m->waiting.shape];
    const sw_resize_opts opts = SW_OPTS(sw_resize_opts, .seed = m->seed + m->steps);
    sw_member from, to;
    job_set_batch(&p->job, shape->config.batch);
    const sw_members_args args =
        SW_OPTS(sw_members_args, .inputs = job_main(&p->job)->inputs,
                .n_inputs = p->job.train.info.n_fields, .mode = SW_TRAIN);
    SW_TRY(sw_member_new(&from, old->group, m->seed));
    sw_status status = unpack(p, &m->waiting, from, m->seed);
    if (status == SW_OK)
        status = sw_member_new(&to, shape->group, m->seed);
    if (status != SW_OK) {
        sw_member_end(from);
        return status;
    }
    uint64_t batches = 0;
    status = sw_member_resize(to, from, &args, &opts);
    if (status == SW_OK)
        status = sw_member_progress(from, NULL, &batches);
    sw_member_end(from);
    if (status != SW_OK) {
        sw_member_end(to);
        return status;
    }
    m->member = to;
    return sw_member_progress_set(to, m->steps, batches);
}

sw_status pop_bring(pop *p, int k)
{
    pop_member *m = &p->members[k];
    if (m->member.of != NULL)
        return SW_OK;
    if (m->waiting.there && m->resized) {
        SW_TRY(bring_resized(p, m));
    } else {
        sw_member fresh;
        SW_TRY(sw_member_new(&fresh, p->shapes[m->shape]->group, m->seed));
        const sw_status status =
            m->waiting.there ? unpack(p, &m->waiting, fresh, m->seed) : SW_OK;
        if (status != SW_OK) {
            sw_member_end(fresh);
            return status;
        }
        m->member = fresh;
    }
    m->resized = false;
    pop_state_free(p, &m->waiting);
    double values[POP_HYPERS];
    if (p->pbt == NULL)
        return SW_OK;
    SW_TRY(pop_values(p, k, values));
    return pop_set_knobs(p, k, values);
}

sw_status pop_pause(pop *p, int k)
{
    pop_member *m = &p->members[k];
    if (m->member.of == NULL)
        return SW_OK;
    const size_t n = sw_members_packed_bytes(m->member.of);
    SW_TRY(scratch(p, n));
    SW_TRY(sw_member_pack(m->member, p->scratch, n));
    SW_TRY(pop_state_put(p, &m->waiting, p->scratch, n, m->shape));
    sw_member_end(m->member);
    m->member = (sw_member){.of = NULL};
    return SW_OK;
}

/* ---- copies ------------------------------------------------------------------------------ */

sw_status pop_keep(pop *p, int k)
{
    pop_member *m = &p->members[k];
    const size_t n = pop_state_bytes(p, k);
    SW_TRY(scratch(p, n));
    SW_TRY(pop_state_of(p, k, p->scratch));
    return pop_state_put(p, &m->kept, p->scratch, n, m->shape);
}

void pop_drop(pop *p, int k)
{
    pop_state_free(p, &p->members[k].kept);
}

/* The donor's state, as it was kept or as it is, waits in the place of the target's. */
static sw_status copy_state(pop *p, pop_member *to, int donor, int shape)
{
    const pop_member *from = &p->members[donor];
    const bool kept = from->kept.there;
    const int of = kept || from->member.of == NULL
                       ? (kept ? &from->kept : &from->waiting)->shape
                       : from->shape;
    const size_t n = kept ? from->kept.n : pop_state_bytes(p, donor);
    SW_TRY(scratch(p, n));
    SW_TRY(kept ? pop_state_read(p, &from->kept, p->scratch)
                : pop_state_of(p, donor, p->scratch));
    if (to->member.of != NULL)
        sw_member_end(to->member);
    to->member = (sw_member){.of = NULL};
    to->resized = of != shape;
    to->shape = shape;
    return pop_state_put(p, &to->waiting, p->scratch, n, of);
}

/* Where both are in the budget and of one shape it is one copy of a range. */
sw_status pop_copy(pop *p, int target, int donor)
{
    pop_member *to = &p->members[target];
    const pop_member *from = &p->members[donor];
    double values[POP_HYPERS];
    int shape;
    SW_TRY(pop_values(p, target, values));
    const pop_config config = pop_config_of(p, values);
    SW_TRY(pop_shape_of(p, &config, &shape));
    if (from->kept.there || from->shape != shape || to->shape != shape ||
        from->member.of == NULL || to->member.of == NULL)
        return copy_state(p, to, donor, shape);
    SW_TRY(sw_member_copy(to->member, from->member));
    return pop_set_knobs(p, target, values);
}
