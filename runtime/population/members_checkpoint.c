/* Members in checkpoints: which slots they have, and what stands in their records. */
#include "alloc/base/assert.h"
#include "alloc/base/size.h"
#include "runtime/base/owner.h"
#include "runtime/population/members_internal.h"
#include "runtime/state/checkpoint_stack.h"

/* The list of a checkpoint, in one block. */
typedef struct {
    sw_members *of;
    size_t bytes; /* of the block */
    uint32_t n;
    uint32_t *slots, *generations;
    size_t places[];
} kept;

static sw_status check(const void *owner, const char *call)
{
    const kept *l = owner;
    SW_TRY(sw_handle_check(l->of, SW_HANDLE_MEMBERS, call));
    if (l->of->exec->busy != 0) /* they are in the middle of a step */
        SW_FAIL(SW_BUSY, "%s: the exec of members is in use by %s", call,
                swi_owner_text(&l->of->exec->busy));
    for (uint32_t k = 0; k < l->n; k++)
        if (l->of->slots[l->slots[k]].generation != l->generations[k])
            SW_FAIL(SW_INVALID, "%s: member %u of %s was ended", call, k, l->of->shape->name);
    return SW_OK;
}

/* Ranges move when others come and go. */
static unsigned char *base(void *owner)
{
    kept *l = owner;
    for (uint32_t k = 0; k < l->n; k++)
        l->places[k] = l->of->slots[l->slots[k]].offset;
    return sw_arena_base(l->of->member_pool->ranges);
}

static void read_records(const void *owner, swi_stack_record *to)
{
    const kept *l = owner;
    for (uint32_t k = 0; k < l->n; k++) {
        const swi_slot_record *slot = &l->of->slots[l->slots[k]];
        to[k] = (swi_stack_record){slot->seed, slot->steps, slot->batches, slot->damaged};
    }
}

static void write_records(void *owner, const swi_stack_record *from)
{
    const kept *l = owner;
    for (uint32_t k = 0; k < l->n; k++) {
        swi_slot_record *slot = &l->of->slots[l->slots[k]];
        slot->seed = from[k].seed;
        slot->steps = from[k].steps;
        slot->batches = from[k].batches;
        slot->damaged = from[k].damaged != 0;
    }
}

static void end(void *owner)
{
    kept *l = owner;
    sw_heap_free(l, SW_HEAP_RECORDS, l->bytes);
}

static sw_status keep(kept **out, sw_members *m, const sw_member *list, size_t n)
{
    size_t bytes;
    void *block;
    if (n > UINT32_MAX / 8 || !sw_size_mul(n, sizeof(size_t) + 2 * sizeof(uint32_t), &bytes) ||
        !sw_size_add(bytes, sizeof(kept), &bytes))
        SW_FAIL(SW_INVALID, "sw_checkpoint_members: %zu members are too many", n);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes));
    kept *l = block;
    l->of = m;
    l->bytes = bytes;
    l->n = (uint32_t)n;
    l->slots = (uint32_t *)(void *)(l->places + n);
    l->generations = l->slots + n;
    for (size_t k = 0; k < n; k++) {
        l->slots[k] = list[k].index;
        l->generations[k] = list[k].generation;
    }
    *out = l;
    return SW_OK;
}

sw_status sw_checkpoint_members(sw_checkpoint *c, sw_members *m, const sw_member *list,
                                size_t n)
{
    static const char call[] = "sw_checkpoint_members";
    kept *l = NULL;
    SW_TRY(sw_handle_check(c, SW_HANDLE_CHECKPOINT, call));
    SW_TRY(sw_handle_check(m, SW_HANDLE_MEMBERS, call));
    if (!swi_members_on_host(m))
        SW_FAIL(SW_UNSUPPORTED,
                "%s: members of %s lie in the memory of a device: pack them (sw_member_pack) "
                "and keep the bytes (sw_checkpoint_put)",
                call, m->shape->name);
    SW_TRY(swi_members_check_list(m, list, n, call));
    SW_TRY(keep(&l, m, list, n));
    const swi_stack_source source = {.exec = m->exec,
                                     .shape = &m->shape,
                                     .n = l->n,
                                     .stride = m->stride,
                                     .state_at = m->model_bytes,
                                     .state_bytes = m->opts.state_bytes,
                                     .places = l->places,
                                     .owner = l,
                                     .check = check,
                                     .base = base,
                                     .read = read_records,
                                     .write = write_records,
                                     .end = end};
    const sw_status status = swi_checkpoint_stack(c, &source, call);
    if (status != SW_OK)
        end(l);
    return status;
}
