/* Members in checkpoints: a stack of tensors by the name of their shape, "stepwell.members"
 * with seed, progress and damage of each, and "stepwell.bytes" with what callbacks have. */
#include "alloc/base/assert.h"
#include "alloc/base/size.h"
#include "runtime/state/checkpoint_internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PREFIX_BYTES 80

/* ---- making ------------------------------------------------------------------------------ */

static void end_stack(swi_stack *s)
{
    swi_snapshot_destroy(s->snapshot);
    sw_heap_free(s->records, SW_HEAP_RECORDS, s->source.n * sizeof *s->records);
}

void swi_stacks_end(sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_stacks; i++) {
        end_stack(&c->stacks[i]);
        c->stacks[i].source.end(c->stacks[i].source.owner);
    }
    sw_heap_free(c->stacks, SW_HEAP_RECORDS, c->cap_stacks * sizeof *c->stacks);
}

/* Their tensors, after those that are there. */
static sw_status list_tensors(sw_checkpoint *c, swi_stack *s)
{
    const uint32_t all = (1u << SWI_ROLE_COUNT) - 1;
    char prefix[PREFIX_BYTES], name[PREFIX_BYTES + 32];
    const swi_stack_source *of = &s->source;
    snprintf(prefix, sizeof prefix, "%s/", s->what.name);
    s->first = c->list.n;
    SW_TRY(swi_list_stack(&c->list, of->shape, of->n, all, prefix));
    s->entries_end = c->list.n;
    if (of->state_bytes > 0) {
        snprintf(name, sizeof name, "%s" SWI_OWN_PREFIX "bytes", prefix);
        SW_TRY(swi_list_parts(&c->list, name, name, of->state_bytes, of->n));
        c->list.at[c->list.n - 1].offset = of->state_at;
        c->list.at[c->list.n - 1].stacked = true;
        s->entries_end = c->list.n;
    }
    snprintf(name, sizeof name, "%s" SWI_OWN_PREFIX "members", prefix);
    SW_TRY(swi_list_parts(&c->list, name, s->records, sizeof *s->records, of->n));
    c->list.at[c->list.n - 1].stacked = true;
    uint64_t bytes; /* what no file can have is said now, and not at each save */
    return swi_tensors_bytes(&c->list, NULL, 0, &bytes);
}

static sw_status make_stack(sw_checkpoint *c, swi_stack *s)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, s->source.n * sizeof *s->records));
    s->records = block;
    if (!sw_size_mul(s->source.n, s->source.stride, &s->copy_bytes))
        SW_FAIL(SW_NOMEM, "%" PRIu32 " members of %s overflow", s->source.n, s->what.name);
    if (c->path != NULL && !c->no_copy)
        SW_TRY(swi_snapshot_create(&s->snapshot, swi_target_of(c->exec), s->copy_bytes));
    return list_tensors(c, s);
}

static sw_status check_source(const sw_checkpoint *c, const swi_stack_source *of,
                              const char *call)
{
    if (of->exec != c->exec)
        SW_FAIL(SW_INVALID, "%s: members of %s must be of the exec of the checkpoint", call,
                (*of->shape)->name);
    for (uint32_t i = 0; i < c->n_stacks; i++)
        if (strcmp(c->stacks[i].what.name, (*of->shape)->name) == 0)
            SW_FAIL(SW_INVALID, "%s: members of %s are kept already", call, (*of->shape)->name);
    return SW_OK;
}

sw_status swi_checkpoint_stack(sw_checkpoint *c, const swi_stack_source *source,
                               const char *call)
{
    SW_TRY(swi_checkpoint_check(c, call));
    SW_TRY(check_source(c, source, call));
    swi_checkpoint_give_up(c);
    void *stacks = c->stacks;
    SW_TRY(sw_heap_reserve(&stacks, SW_HEAP_RECORDS, &c->cap_stacks, c->n_stacks + 1,
                           sizeof *c->stacks));
    c->stacks = stacks;
    swi_list_cut(&c->list, c->models_end);
    swi_stack *s = &c->stacks[c->n_stacks];
    *s = (swi_stack){.source = *source};
    swi_run_describe(*source->shape, &s->what);
    s->what.members = source->n;
    s->what.state_bytes = source->state_bytes;
    const sw_status status = make_stack(c, s);
    if (status != SW_OK) {
        swi_list_cut(&c->list, c->models_end);
        end_stack(s);
        return status;
    }
    c->models_end = swi_list_end(&c->list);
    c->has_room = false;
    c->n_stacks++;
    return SW_OK;
}

/* ---- taking ------------------------------------------------------------------------------ */

sw_status swi_stacks_check(const sw_checkpoint *c, const char *call)
{
    for (uint32_t i = 0; i < c->n_stacks; i++)
        SW_TRY(c->stacks[i].source.check(c->stacks[i].source.owner, call));
    return SW_OK;
}

sw_status swi_stacks_room(const sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_stacks; i++)
        if (c->stacks[i].snapshot != NULL)
            SW_TRY(swi_snapshot_room(c->stacks[i].snapshot));
    return SW_OK;
}

sw_status swi_stacks_copy(const sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_stacks; i++) {
        const swi_stack *s = &c->stacks[i];
        const swi_stack_source *of = &s->source;
        const unsigned char *base = of->base(of->owner);
        for (size_t k = 0; k < of->n; k++)
            SW_TRY(swi_snapshot_copy(s->snapshot, k * of->stride, base + of->places[k],
                                     of->stride));
        SW_TRY(swi_snapshot_end(s->snapshot));
    }
    return SW_OK;
}

sw_status swi_stacks_wait(const sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_stacks; i++)
        if (c->stacks[i].snapshot != NULL)
            SW_TRY(swi_snapshot_wait(c->stacks[i].snapshot));
    return SW_OK;
}

void swi_stacks_read(const sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_stacks; i++)
        c->stacks[i].source.read(c->stacks[i].source.owner, c->stacks[i].records);
}

/* The copy, or the members' own ranges, are where the tensors are. */
void swi_stacks_aim(const sw_checkpoint *c, bool copy)
{
    for (uint32_t i = 0; i < c->n_stacks; i++) {
        const swi_stack *s = &c->stacks[i];
        unsigned char *base =
            copy ? swi_snapshot_bytes(s->snapshot) : s->source.base(s->source.owner);
        for (uint32_t t = s->first; t < s->entries_end; t++) {
            c->list.at[t].at = base + c->list.at[t].offset;
            c->list.at[t].stride = s->source.stride;
            c->list.at[t].places = copy ? NULL : s->source.places;
        }
    }
}

/* ---- loading ----------------------------------------------------------------------------- */

static const swi_tensors_entry *entry_of(const sw_checkpoint *c, const swi_tensor *t)
{
    const swi_tensors_entry *entry = swi_tensors_find(c->found, t->name);
    return entry != NULL && entry->end - entry->begin == t->part_bytes * t->n_parts ? entry
                                                                                    : NULL;
}

/* A knob in a file may be a number that no knob can have. */
static sw_status check_knobs(const sw_checkpoint *c, const swi_stack *s, const float *values,
                             size_t n)
{
    const sw_model *shape = *s->source.shape;
    for (size_t k = 0; k < n; k++) {
        const swi_knob *knob = &shape->knobs[k % shape->n_knobs];
        if (!swi_knob_can_be(knob, values[k]))
            SW_FAIL(SW_INVALID, "%s: knob '%s' of member %zu of %s cannot be %g",
                    swi_tensors_path(c->found), knob->name, k / shape->n_knobs, shape->name,
                    (double)values[k]);
    }
    return SW_OK;
}

static sw_status look_at_knobs(const sw_checkpoint *c, const swi_stack *s, const swi_tensor *t)
{
    const swi_tensors_entry *entry = entry_of(c, t);
    const size_t bytes = t->part_bytes * t->n_parts;
    void *block;
    if (entry == NULL) /* swi_tensors_load says so */
        return SW_OK;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, bytes));
    sw_status status = swi_tensors_read(c->found, entry, block, bytes);
    if (status == SW_OK)
        status = check_knobs(c, s, block, bytes / sizeof *c->knobs);
    sw_heap_free(block, SW_HEAP_FILES, bytes);
    return status;
}

static sw_status look_at_records(const sw_checkpoint *c, const swi_stack *s)
{
    const swi_tensor *t = &c->list.at[s->entries_end];
    const swi_tensors_entry *entry = entry_of(c, t);
    SW_ASSERT(t->at == (unsigned char *)s->records);
    if (entry == NULL)
        return SW_OK;
    SW_TRY(swi_tensors_read(c->found, entry, s->records, s->source.n * sizeof *s->records));
    for (uint32_t k = 0; k < s->source.n; k++)
        if (s->records[k].damaged > 1)
            SW_FAIL(SW_FORMAT, "%s: '%s' has no record of member %" PRIu32,
                    swi_tensors_path(c->found), t->name, k);
    return SW_OK;
}

sw_status swi_stacks_look(const sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_stacks; i++) {
        const swi_stack *s = &c->stacks[i];
        SW_TRY(look_at_records(c, s));
        for (uint32_t t = s->first; t < s->entries_end; t++)
            if (c->list.at[t].role == SWI_ROLE_KNOB)
                SW_TRY(look_at_knobs(c, s, &c->list.at[t]));
    }
    return SW_OK;
}

void swi_stacks_write(const sw_checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_stacks; i++)
        c->stacks[i].source.write(c->stacks[i].source.owner, c->stacks[i].records);
}
