/* Shapes: a net, a group of members and a feed of each part for each config that some member
 * has.
 */
#include "alloc/base/mem.h"
#include "tools/population/population.h"
#include <string.h>

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

static sw_status make_feed(sw_feed **out, const job_data *data, int64_t batch, bool shuffle)
{
    const sw_feed_opts opts =
        SW_OPTS(sw_feed_opts, .batch = job_slot_rows(data, batch), .shuffle = shuffle);
    return sw_feed_create(out, data->set, &opts);
}

/* The bytes of one of its members in one lane. */
static sw_status look(pop_shape *s)
{
    s->member_bytes = sw_members_bytes(s->group);
    for (int i = 0; i < POP_PARTS; i++) {
        const sw_members_args args = pop_args(s, (pop_part)i);
        sw_plan_info info = SW_OPTS(sw_plan_info);
        SW_TRY(sw_members_look(s->group, &args, &info));
        s->arena_bytes = info.arena_bytes > s->arena_bytes ? info.arena_bytes : s->arena_bytes;
        s->batch_bytes = info.data_bytes > s->batch_bytes ? info.data_bytes : s->batch_bytes;
    }
    return SW_OK;
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
    for (int i = 0; i < POP_PARTS; i++)
        SW_TRY(make_feed(&s->feed[i], p->part[i], s->config.batch, i == POP_TRAIN));
    return look(s);
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
    SW_TRY(sw_heap_reserve(&p->shapes, SW_HEAP_RECORDS, &cap, (uint32_t)p->n_shapes + 1,
                           sizeof *p->shapes));
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
