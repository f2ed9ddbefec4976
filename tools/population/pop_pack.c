/* The budget: what every shape that can be reached takes, how many lanes there are, and who
 * lies in it in each turn. All of it is arithmetic over plans, before anything runs. */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "tools/population/population.h"
#include <string.h>

/* Shapes: a net, a group of members and a feed of each part for each config that some member
 * has. */

cli_text pop_config_text(const pop_config *f)
{
    cli_text t;
    size_t used = (size_t)snprintf(t.text, sizeof t.text, "batch %lld", (long long)f->batch);
    for (int i = 0; i < f->hidden.n && used < sizeof t.text; i++)
        used += (size_t)snprintf(t.text + used, sizeof t.text - used, "%s%lld",
                                 i == 0 ? ", hidden " : ",", (long long)f->hidden.at[i]);
    return t;
}

sw_members_args pop_args(const pop_shape *s, pop_part part)
{
    return SW_OPTS(sw_members_args, .feed = s->feed[part],
                   .mode = part == POP_TRAIN ? SW_TRAIN : SW_EVAL,
                   .own_steps = part == POP_TRAIN);
}

bool pop_same_config(const pop_config *a, const pop_config *b)
{
    bool same = a->batch == b->batch && a->hidden.n == b->hidden.n;
    for (int i = 0; same && i < a->hidden.n; i++)
        same = a->hidden.at[i] == b->hidden.at[i];
    return same;
}

static sw_status make(pop *p, pop_shape *s)
{
    tool_net_opts net = job_net_opts(&p->job);
    net.settings.hidden = s->config.hidden;
    SW_TRY(tool_net_create(&s->net, &net));
    const sw_members_opts group =
        SW_OPTS(sw_members_opts, .shape = s->net.model, .fn = tool_net_step, .user = &s->net,
                .arena_bytes = p->memory.arena_limit);
    SW_TRY(sw_members_create(&s->group, p->job.exec, &group));
    for (int i = 0; i < POP_PARTS; i++) {
        const job_data *data = p->part[i];
        const int64_t batch = s->config.batch;
        const sw_feed_opts opts = SW_OPTS(sw_feed_opts, .batch = job_slot_rows(data, batch),
                                          .shuffle = i == POP_TRAIN);
        SW_TRY(sw_feed_create(&s->feed[i], data->set, &opts));
    }
    /* The bytes of one of its members in one lane. */
    s->member_bytes = sw_members_bytes(s->group);
    for (int j = 0; j < POP_PARTS; j++) {
        const sw_members_args args = pop_args(s, (pop_part)j);
        sw_plan_info info = SW_OPTS(sw_plan_info);
        SW_TRY(sw_members_look(s->group, &args, &info));
        s->arena_bytes = info.arena_bytes > s->arena_bytes ? info.arena_bytes : s->arena_bytes;
        s->batch_bytes = info.data_bytes > s->batch_bytes ? info.data_bytes : s->batch_bytes;
    }
    return SW_OK;
}

void pop_shape_free(pop_shape *s)
{
    if (s == NULL)
        return;
    sw_members_destroy(s->group);
    for (int i = 0; i < POP_PARTS; i++)
        sw_feed_destroy(s->feed[i]);
    if (s->net.model != NULL)
        tool_net_destroy(&s->net);
    sw_heap_free(s, SW_HEAP_RECORDS, sizeof *s);
}

static sw_status slot_for(pop *p, int *out)
{
    uint32_t cap = (uint32_t)p->cap_shapes;
    for (int i = 0; i < p->n_shapes; i++)
        if (p->shapes[i] == NULL) {
            *out = i;
            return SW_OK;
        }
    SW_TRY(sw_heap_reserve(&p->shapes, SW_HEAP_RECORDS, &cap, (uint32_t)p->n_shapes + 1));
    p->cap_shapes = (int)cap;
    p->shapes[p->n_shapes] = NULL;
    *out = p->n_shapes++;
    return SW_OK;
}

sw_status pop_shape_of(pop *p, const pop_config *config, int *out)
{
    pop_shape *s;
    int slot;
    for (int i = 0; i < p->n_shapes; i++)
        if (p->shapes[i] != NULL && pop_same_config(&p->shapes[i]->config, config)) {
            *out = i;
            return SW_OK;
        }
    SW_TRY(slot_for(p, &slot));
    SW_TRY(sw_heap_alloc(&s, SW_HEAP_RECORDS, sizeof(pop_shape)));
    s->config = *config;
    const sw_status status = make(p, s);
    if (status != SW_OK) {
        pop_shape_free(s);
        return status;
    }
    p->shapes[slot] = s;
    *out = slot;
    return SW_OK;
}

static bool used(const pop *p, int shape)
{
    for (int k = 0; k < p->n_members; k++) {
        const pop_member *m = &p->members[k];
        if (m->shape == shape || (m->waiting.there && m->waiting.shape == shape) ||
            (m->kept.there && m->kept.shape == shape))
            return true;
    }
    return false;
}

void pop_shapes_sweep(pop *p)
{
    for (int i = 0; i < p->n_shapes; i++)
        if (p->shapes[i] != NULL && !used(p, i)) {
            pop_shape_free(p->shapes[i]);
            p->shapes[i] = NULL;
        }
}

/* Members in the budget and outside of it. A member that waits, and a state that is kept for
 * who may copy it, are the bytes of sw_member_pack, in memory that the budget does not count or
 * in the file of --pause-to. */

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

/* ---- states ------------------------------------------------------------------------------ */

void pop_state_free(pop *p, pop_state *s)
{
    if (!s->there || s->away) {
        *s = (pop_state){.there = false};
        return;
    }
    if (p->pause.write != NULL) {
        /* Without memory for it the place is lost until the end. */
        if (sw_heap_reserve(&p->pause.free, SW_HEAP_RECORDS, &p->pause.cap_free,
                            p->pause.n_free + 1) == SW_OK)

            p->pause.free[p->pause.n_free++] = *s;
    } else
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

sw_status pop_scratch(pop *p, size_t n)
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
    SW_TRY(pop_scratch(p, s->n));
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
    SW_TRY(pop_scratch(p, n));
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
    if (!pop_is_mine(p, k)) {
        m->kept = (pop_state){.there = true, .away = true, .shape = m->shape};
        return SW_OK;
    }
    const size_t n = pop_state_bytes(p, k);
    SW_TRY(pop_scratch(p, n));
    SW_TRY(pop_state_of(p, k, p->scratch));
    return pop_state_put(p, &m->kept, p->scratch, n, m->shape);
}

void pop_drop(pop *p, int k)
{
    pop_state_free(p, &p->members[k].kept);
}

/* The donor's state, as it was kept or as it is, into p->scratch of the target's rank; `of`:
 * its shape. A donor has had its turn, so what it is has the shape that it is to have. */
static sw_status bring_state(pop *p, int target, int donor, size_t *n, int *of)
{
    const pop_member *from = &p->members[donor];
    const bool kept = from->kept.there;
    *of = kept ? from->kept.shape : from->shape;
    *n = sw_members_packed_bytes(p->shapes[*of]->group);
    if (pop_is_mine(p, donor) || pop_is_mine(p, target))
        SW_TRY(pop_scratch(p, *n));
    if (pop_is_mine(p, donor))
        SW_TRY(kept ? pop_state_read(p, &from->kept, p->scratch)
                    : pop_state_of(p, donor, p->scratch));
    return swi_ranks_copy(p->ranks, pop_owner(p, donor), pop_owner(p, target), p->scratch, *n);
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
        from->member.of == NULL || to->member.of == NULL) {
        size_t n;
        int of;
        SW_TRY(bring_state(p, target, donor, &n, &of));
        to->resized = of != shape;
        to->shape = shape;
        if (!pop_is_mine(p, target))
            return SW_OK;
        /* It waits in the place of the target's. */
        if (to->member.of != NULL)
            sw_member_end(to->member);
        to->member = (sw_member){.of = NULL};
        return pop_state_put(p, &to->waiting, p->scratch, n, of);
    }
    SW_TRY(sw_member_copy(to->member, from->member));
    return pop_set_knobs(p, target, values);
}

#define MOST_CONFIGS 100000

/* ---- configs ----------------------------------------------------------------------------- */

typedef struct {
    size_t arena, batch, member;
} need;

static size_t alone(const need *n)
{
    return n->arena + n->batch + n->member;
}

/* How many values a hyper-parameter can have that decides a config. */
static int64_t choices_of(const pop *p, int i)
{
    sw_hyper is = SW_OPTS(sw_hyper);
    if (p->hyper[i].kind == POP_KNOB || sw_space_at(p->space, i, &is) != SW_OK)
        return 1;
    return is.kind == SW_CHOICE ? is.n_choices : (int64_t)(is.high - is.low) + 1;
}

static double choice_at(const pop *p, int i, int64_t k)
{
    sw_hyper is = SW_OPTS(sw_hyper);
    if (sw_space_at(p->space, i, &is) != SW_OK)
        return 0.0;
    return is.kind == SW_CHOICE ? is.choices[k] : is.low + (double)k;
}

static pop_config config_at(const pop *p, int64_t k)
{
    double values[POP_HYPERS] = {0};
    for (int i = 0; i < p->n_hypers; i++) {
        const int64_t n = choices_of(p, i);
        if (p->hyper[i].kind != POP_KNOB)
            values[i] = choice_at(p, i, k % n);
        k /= n;
    }
    return pop_config_of(p, values);
}

static sw_status look_at(pop *p, const pop_config *config, need *out)
{
    int shape;
    SW_TRY(pop_shape_of(p, config, &shape));
    SW_TRY(swi_ranks_alive(p->ranks));
    const pop_shape *s = p->shapes[shape];
    if (p->memory.refused_knob == 0)
        p->memory.refused_knob = pop_knobs_check(p, s) == CLI_GO ? 0 : CLI_USAGE;
    *out = (need){s->arena_bytes, s->batch_bytes, s->member_bytes};
    return SW_OK;
}

/* ---- what fits --------------------------------------------------------------------------- */

/* The largest of those that need at most `most` alone. */
static need largest(const need *needs, int64_t n, size_t most)
{
    need all = {0, 0, 0};
    for (int64_t i = 0; i < n; i++) {
        if (alone(&needs[i]) > most)
            continue;
        all.arena = needs[i].arena > all.arena ? needs[i].arena : all.arena;
        all.batch = needs[i].batch > all.batch ? needs[i].batch : all.batch;
        all.member = needs[i].member > all.member ? needs[i].member : all.member;
    }
    return all;
}

/* With so many lanes, no one resident: each lane with its member, and where a width changes the
 * old one beside the new one. */
static size_t least(const pop *p, const need *all, int threads)
{
    const size_t members = (size_t)threads + pop_changes_config(p);
    return (size_t)threads * (all->arena + all->batch) + members * all->member;
}

size_t pop_least(const pop *p)
{
    const need all = {p->memory.arena, p->memory.batch, p->memory.member};
    return least(p, &all, p->memory.threads);
}

/* The largest `most` for which all that need no more fit together. */
static size_t find_most(const pop *p, const need *needs, int64_t n, size_t budget)
{
    size_t most = budget;
    for (;;) {
        size_t next = 0;
        const need all = largest(needs, n, most);
        if (least(p, &all, 1) <= budget)
            return most;
        for (int64_t i = 0; i < n; i++) {
            const size_t its = alone(&needs[i]);
            if (its <= most && its > next)
                next = its;
        }
        if (next == 0)
            return 0;
        most = next - 1;
    }
}

static void decide(pop *p, const need *needs, int64_t n)
{
    pop_memory *m = &p->memory;
    const size_t budget = pop_budget(p);
    m->most = budget > 0 ? find_most(p, needs, n, budget) : SIZE_MAX;
    const need all = largest(needs, n, m->most);
    m->arena = all.arena;
    m->batch = all.batch;
    m->member = all.member;
    m->staging = pop_changes_config(p) ? all.member : 0;
    m->threads = job_on_device(&p->opts.job) ? 1 : (int)p->opts.job.threads;
    while (budget > 0 && m->threads > 1 && least(p, &all, m->threads) > budget)
        m->threads--;
    m->n_configs = n;
    m->n_refused = 0;
    m->largest_bytes = 0;
    for (int64_t i = 0; i < n; i++) {
        const size_t its = alone(&needs[i]);
        if (its > m->most && m->n_refused++ == 0) {
            m->first_refused = config_at(p, i);
            m->first_refused_bytes = its;
        }
        if (its <= m->most && its > m->largest_bytes) {
            m->largest = config_at(p, i);
            m->largest_bytes = its;
        }
    }
}

static sw_status look_at_all(pop *p, need *needs, int64_t n)
{
    for (int64_t i = 0; i < n && !cli_interrupted() && p->memory.refused_knob == 0; i++) {
        const pop_config config = config_at(p, i);
        SW_TRY(look_at(p, &config, &needs[i]));
        pop_shapes_sweep(p);
        if (!p->opts.quiet && n > 1)
            cli_progress("planning  %lld/%lld shapes", (long long)(i + 1), (long long)n);
    }
    if (!p->opts.quiet)
        cli_progress("%s", "");
    return SW_OK;
}

/* ---- execs ------------------------------------------------------------------------------- */

static sw_status make_exec(pop *p, int threads, sw_budget *budget)
{
    const job_opts *o = &p->opts.job;
    sw_exec_opts exec = o->exec;
    exec.size = sizeof exec;
    exec.device = o->device;
    exec.threads = threads;
    exec.budget = budget;
    exec.seed = (uint64_t)o->seed;
    exec.isa = o->isa;
    exec.nvtx = SW_NVTX_OFF;
    return sw_exec_create(&p->job.exec, &exec);
}

static sw_status look_again(pop *p, need *needs, int64_t n)
{
    SW_TRY(make_exec(p, 1, NULL));
    const sw_status status = look_at_all(p, needs, n);
    for (int i = 0; i < p->n_shapes; i++) {
        pop_shape_free(p->shapes[i]);
        p->shapes[i] = NULL;
    }
    sw_exec_destroy(p->job.exec);
    p->job.exec = NULL;
    return status;
}

/* Where the largest shape does not fit as it is planned, every plan has what is left beside its
 * member and batch: it then runs ops again. */
static sw_status look(pop *p, need *needs, int64_t n)
{
    const size_t budget = pop_budget(p);
    SW_TRY(look_again(p, needs, n));
    decide(p, needs, n);
    if (p->memory.n_refused == 0 || budget == 0 || p->opts.job.exec.no_recompute ||
        cli_interrupted())
        return SW_OK;
    const need all = largest(needs, n, SIZE_MAX);
    const size_t others = all.batch + (pop_changes_config(p) ? 2 : 1) * all.member;
    if (others >= budget)
        return SW_OK;
    p->memory.arena_limit = (budget - others) / 64 * 64;
    sw_status status = look_again(p, needs, n);
    if (status == SW_NOMEM) { /* not even so: as it was */
        p->memory.arena_limit = 0;
        status = look_again(p, needs, n);
    }
    if (status == SW_OK)
        decide(p, needs, n);
    return status;
}

/* The least budget of all, for the smallest shape as it is planned without one. */
static int refuse(const pop *p, const need *needs)
{
    size_t smallest = SIZE_MAX;
    int64_t at = 0;
    for (int64_t i = 0; i < p->memory.n_configs; i++)
        if (alone(&needs[i]) < smallest) {
            smallest = alone(&needs[i]);
            at = i;
        }
    const need all = largest(needs, p->memory.n_configs, smallest);
    const pop_config config = config_at(p, at);
    return cli_error(CLI_NO_FIT,
                     "no shape fits --memory-budget %zu: the smallest, %s, needs %zu bytes%s; "
                     "raise the budget, or lower --batch or the widths",
                     p->opts.job.budget_bytes, pop_config_text(&config).text,
                     least(p, &all, 1) + pop_ranks_bytes(p),
                     pop_changes_config(p) ? " with a second member to change it" : "");
}

static int look_into(pop *p, need *needs, int64_t n)
{
    const sw_status status = look(p, needs, n);
    if (p->memory.refused_knob != 0)
        return p->memory.refused_knob;
    if (cli_interrupted())
        return cli_error(CLI_INTERRUPTED, "interrupted before the first step");
    CLI_LIBRARY(status, false);
    return p->memory.n_refused == p->memory.n_configs ? refuse(p, needs) : CLI_GO;
}

int pop_open(pop *p)
{
    const size_t budget = pop_budget(p);
    double n = 1.0;
    void *needs;
    for (int i = 0; i < p->n_hypers; i++)
        n *= (double)choices_of(p, i);
    if (n > MOST_CONFIGS)
        return cli_error(CLI_USAGE,
                         "the ranges reach %.0f shapes, and %d can be planned ahead: give "
                         "fewer batches and widths, as choice:64,128,256",
                         n, MOST_CONFIGS);
    CLI_LIBRARY(sw_heap_alloc(&needs, SW_HEAP_RECORDS, (size_t)n * sizeof(need)), false);
    const int found = look_into(p, needs, (int64_t)n);
    sw_heap_free(needs, SW_HEAP_RECORDS, (size_t)n * sizeof(need));
    CLI_TRY(found);
    /* Ranges under a budget are never higher than what lives at one time, so there always is
     * one. */
    CLI_LIBRARY(sw_budget_create(&p->job.budget, budget > 0 ? budget : SIZE_MAX / 2), false);
    CLI_LIBRARY(make_exec(p, p->memory.threads, p->job.budget), false);
    return CLI_GO;
}

/* ---- one turn ---------------------------------------------------------------------------- */

/* A member of this rank that goes on, of the shape. */
static bool may_stay(const pop *p, int k, int shape)
{
    return pop_is_mine(p, k) && p->members[k].shape == shape && !p->members[k].ended;
}

/* Lanes as large as for any shape, so that what is reserved never changes. */
static sw_status pack(pop *p, sw_pack_shape *shapes, size_t *resident, int *of, int n)
{
    const size_t budget = pop_budget(p);
    int used = 0;
    for (int i = 0; i < n; i++) {
        size_t members = 0;
        for (int k = 0; k < p->n_members; k++)
            members += may_stay(p, k, i);
        if (members == 0)
            continue;
        of[used] = i;
        shapes[used++] = (sw_pack_shape){.member_bytes = p->shapes[i]->member_bytes,
                                         .arena_bytes = p->memory.arena,
                                         .batch_bytes = p->memory.batch,
                                         .members = members};
    }
    p->memory.packing = SW_OPTS(sw_packing);
    size_t room = budget == 0 ? SIZE_MAX / 2 : budget;
    room -= p->memory.staging < room ? p->memory.staging : 0;
    if (used == 0)
        return SW_OK;
    SW_TRY(
        sw_pack(shapes, (size_t)used, room, p->memory.threads, resident, &p->memory.packing));
    for (int i = 0; i < used; i++)
        for (int k = 0; k < p->n_members; k++)
            if (may_stay(p, k, of[i]) && resident[i] > 0) {
                p->members[k].stays = true;
                resident[i]--;
            }
    return SW_OK;
}

size_t pop_predicted(const pop *p)
{
    const size_t packed = p->memory.packing.bytes;
    return packed > 0 ? packed + p->memory.staging : 0;
}

sw_status pop_arrange(pop *p)
{
    const size_t n = (size_t)p->n_shapes;
    const size_t bytes = n * (sizeof(sw_pack_shape) + sizeof(size_t) + sizeof(int));
    sw_pack_shape *shapes;
    for (int k = 0; k < p->n_members; k++)
        p->members[k].stays = false;
    SW_TRY(sw_heap_alloc(&shapes, SW_HEAP_RECORDS, bytes));
    size_t *resident = (size_t *)(shapes + n);
    const sw_status status = pack(p, shapes, resident, (int *)(resident + n), (int)n);
    sw_heap_free(shapes, SW_HEAP_RECORDS, bytes);
    SW_TRY(status);
    const size_t predicted = pop_predicted(p);
    if (predicted > p->memory.predicted_peak) {
        p->memory.predicted_peak = predicted;
        p->memory.most_of = p->memory.packing;
    }
    for (int k = 0; k < p->n_members; k++)
        if (!p->members[k].stays)
            SW_TRY(pop_pause(p, k));
    for (int k = 0; k < p->n_members; k++)
        if (p->members[k].stays)
            SW_TRY(pop_bring(p, k));
    return SW_OK;
}

sw_status pop_measure(pop *p)
{
    for (int i = 0; i < p->n_shapes; i++) {
        sw_members_memory used = SW_OPTS(sw_members_memory);
        if (p->shapes[i] == NULL)
            continue;
        SW_TRY(sw_members_used(p->shapes[i]->group, &used));
        if (used.lane_bytes + used.range_bytes > p->memory.measured_peak)
            p->memory.measured_peak = used.lane_bytes + used.range_bytes;
        return SW_OK;
    }
    return SW_OK;
}

sw_status pop_config_bytes(pop *p, const pop_config *config, size_t *member, size_t *lane)
{
    need its;
    SW_TRY(look_at(p, config, &its));
    *member = its.member;
    *lane = its.arena + its.batch;
    pop_shapes_sweep(p);
    return SW_OK;
}

sw_status pop_fit(pop *p, pop_config *config, bool *changed, bool *fits)
{
    need its;
    const bool halve = strcmp(p->opts.too_large, "batch") == 0;
    *changed = *fits = false;
    for (; config->batch > 0; config->batch /= 2, *changed = true) {
        SW_TRY(look_at(p, config, &its));
        *fits = alone(&its) <= p->memory.most && its.arena <= p->memory.arena &&
                its.batch <= p->memory.batch && its.member <= p->memory.member;
        if (*fits || !halve)
            break;
    }
    pop_shapes_sweep(p);
    return SW_OK;
}
