/* Arenas over one store. Counts are of rounded bytes; red zones exist with checks and are in no
 * count, so a bump's height equals what a trace predicts in every build. */
#include "alloc/arena/arena.h"
#include "alloc/base/address_map.h"
#include "alloc/base/assert.h"
#include "alloc/base/handle.h"
#include "alloc/base/mem.h"
#include "alloc/base/poison.h"
#include "alloc/base/size.h"
#include <stdatomic.h>
#include <string.h>

/* Budgets: one atomic number under a limit. */

struct sw_budget {
    sw_handle handle;
    atomic_uint users; /* the caller and each arena; the last one gives it back */
    size_t limit;
    atomic_size_t used;
    atomic_size_t slots; /* of those: batch slots of loaders */
};

sw_status sw_budget_new(sw_budget **out, size_t bytes)
{
    SW_TRY(sw_handle_take(out, SW_HANDLE_BUDGET, sizeof(sw_budget)));
    (*out)->limit = bytes;
    SW_ASSERT(atomic_load(&(*out)->used) == 0 && atomic_load(&(*out)->slots) == 0);
    atomic_store(&(*out)->users, 1);
    return SW_OK;
}

void sw_budget_share(sw_budget *budget)
{
    if (budget != NULL)
        atomic_fetch_add(&budget->users, 1);
    SW_ASSERT(budget == NULL ||
              atomic_load(&budget->users) > 1); /* only who has it shares it */
}

void sw_budget_leave(sw_budget *budget)
{
    SW_ASSERT(budget == NULL || atomic_load(&budget->users) > 0);
    if (budget != NULL && atomic_fetch_sub(&budget->users, 1) == 1)
        sw_handle_give(budget, SW_HANDLE_BUDGET, sizeof *budget);
}

void sw_budget_free(sw_budget *budget)
{
    if (budget == NULL)
        return;
    sw_handle_end(budget, SW_HANDLE_BUDGET);
    sw_budget_leave(budget);
}

sw_status sw_budget_take(sw_budget *budget, size_t bytes, const char *label)
{
    if (budget == NULL)
        return SW_OK;
    size_t used = atomic_load(&budget->used);
    SW_ASSERT(used <= budget->limit && label != NULL);
    do
        if (bytes > budget->limit - used)
            SW_FAIL(SW_NOMEM, "%s: needs %zu bytes; %zu of %zu are used", label, bytes, used,
                    budget->limit);
    while (!atomic_compare_exchange_weak(&budget->used, &used, used + bytes));
    return SW_OK;
}

void sw_budget_give(sw_budget *budget, size_t bytes)
{
    if (budget == NULL)
        return;
    const size_t before = atomic_fetch_sub(&budget->used, bytes);
    SW_ASSERT(bytes <= before);
    (void)before;
}

static void sw_budget_note_slots(sw_budget *budget, size_t more, size_t less)
{
    if (budget == NULL)
        return;
    atomic_fetch_add(&budget->slots, more);
    SW_ASSERT(less <= atomic_load(&budget->slots));
    atomic_fetch_sub(&budget->slots, less);
}

size_t sw_budget_slots(const sw_budget *budget)
{
    return budget != NULL ? atomic_load(&budget->slots) : 0;
}

size_t sw_budget_limit(const sw_budget *budget)
{
    return budget != NULL ? budget->limit : SIZE_MAX;
}

size_t sw_budget_used(const sw_budget *budget)
{
    return budget != NULL ? atomic_load(&budget->used) : 0;
}

/* ---- arena ------------------------------------------------------------------------------- */

#define RED_ZONE (SW_CHECKS >= 1 || SW_POISON ? (size_t)64 : (size_t)0)

struct sw_arena {
    swi_address_entry claim; /* first: describe() goes back from it */
    sw_arena_opts opts;
    size_t height;    /* promised and charged; whoever visits the claims reads it too */
    size_t top;       /* of the bump, red zones included */
    size_t live;      /* rounded bytes */
    size_t used;      /* of the bump, red zones left out */
    size_t committed; /* of the store; read as height is */
};

/* Bytes that a sanitizer may know of, and that host code may fill. */
static bool is_host(const sw_arena *a)
{
    return !a->opts.store->ops->device;
}

/* Does it hold the batch slots of a loader? */
static bool is_slots(const sw_arena *a)
{
    return a->opts.use == SW_ARENA_DATA && is_host(a);
}

static void poison(const sw_arena *a, size_t from, size_t bytes)
{
    SW_ASSERT(from <= SIZE_MAX - bytes && from + bytes <= a->opts.store->committed_bytes);
    if (is_host(a) && bytes > 0)
        sw_poison(a->opts.store->base + from, bytes);
}

/* [from, from + bytes) is in use now: filled with NaN until it is written, in builds with
 * checks. */
static void give(const sw_arena *a, size_t from, size_t bytes)
{
    SW_ASSERT(from <= SIZE_MAX - bytes && from + bytes <= a->opts.store->committed_bytes);
    SW_ASSERT(bytes == 0 || from % SW_ALIGN == 0);
    if (!is_host(a) || bytes == 0)
        return;
    sw_unpoison(a->opts.store->base + from, bytes);
    if (SW_CHECKS >= 1)
        memset(a->opts.store->base + from, 0xff, bytes);
}

static void state(const sw_arena *a, sw_event_kind kind, size_t offset, size_t bytes,
                  uint32_t id, const char *label)
{
    SW_ASSERT(a->used <= a->height && a->used <= a->top);
    if (a->opts.observer.event == NULL)
        return;
    const sw_event event = {kind, id, offset, bytes, label, a};
    a->opts.observer.event(a->opts.observer.context, &event);
}

static bool describe(const swi_address_entry *self, sw_address_range *out)
{
    const sw_arena *a = (const sw_arena *)(const void *)self;
    SW_ASSERT((unsigned)a->opts.use < SW_ARENA_USES);
    const sw_store *store = a->opts.store;
    const bool own = store->owner == NULL; /* the addresses are the process's */
    *out =
        (sw_address_range){.kind = SW_ADDRESS_ARENA,
                           .label = a->opts.label,
                           .base = own ? (uintptr_t)store->base : 0,
                           .bytes = own ? store->reserved_bytes : 0,
                           .promised_bytes = __atomic_load_n(&a->height, __ATOMIC_RELAXED),
                           .committed_bytes = __atomic_load_n(&a->committed, __ATOMIC_RELAXED),
                           .device = store->owner,
                           .use = a->opts.use};
    return true;
}

sw_status sw_arena_create(sw_arena **out, const sw_arena_opts *opts)
{
    SW_ASSERT(opts->store != NULL && opts->store->ops != NULL && opts->label != NULL);
    SW_ASSERT((unsigned)opts->use < SW_ARENA_USES);
    SW_ASSERT(opts->store->committed_bytes <= opts->store->reserved_bytes);
    const sw_status status = sw_heap_alloc(out, SW_HEAP_RECORDS, sizeof(sw_arena));
    if (status != SW_OK) {
        sw_store_destroy(opts->store);
        return status;
    }
    (*out)->opts = *opts;
    sw_budget_share(opts->budget);
    swi_address_map_add(&(*out)->claim, describe);
    return SW_OK;
}

void sw_arena_destroy(sw_arena *a)
{
    if (a == NULL)
        return;
    swi_address_map_remove(&a->claim);
    SW_ASSERT(a->used <= a->height);
    SW_ASSERT(a->opts.store->committed_bytes <= a->opts.store->reserved_bytes);
    if (is_host(a) && a->opts.store->committed_bytes > 0)
        sw_unpoison(a->opts.store->base, a->opts.store->committed_bytes);
    if (is_slots(a)) /* first: slots are never more than what is used */
        sw_budget_note_slots(a->opts.budget, 0, a->height);
    sw_budget_give(a->opts.budget, a->height);
    sw_budget_leave(a->opts.budget);
    sw_store_destroy(a->opts.store);
    sw_heap_free(a, SW_HEAP_RECORDS, sizeof *a);
}

/* How far to commit for `bytes` of a bump: in large steps where the store asks for them, as far
 * as the budget would allow. */
static size_t ahead(const sw_arena *a, size_t bytes)
{
    const sw_store *store = a->opts.store;
    const size_t limit = sw_budget_limit(a->opts.budget), used = sw_budget_used(a->opts.budget);
    const size_t left = limit > used ? limit - used : 0;
    size_t step = store->committed_bytes / 8, to = store->reserved_bytes;
    if (store->ops->stride == 0)
        return bytes;
    step = step > store->ops->stride ? step : store->ops->stride;
    step = step < left ? step : left;
    (void)sw_size_add(store->committed_bytes, step, &to);
    to = to < store->reserved_bytes ? to : store->reserved_bytes;
    SW_ASSERT(to >= store->committed_bytes);
    return to > bytes ? to : bytes;
}

/* Commit physical memory up to `bytes`; new bytes are poisoned until they are taken. A
 * bump that finds no room for a large step tries what it needs alone. */
static sw_status commit(sw_arena *a, size_t bytes, bool bump)
{
    sw_store *store = a->opts.store;
    const size_t before = store->committed_bytes;
    if (bytes <= before)
        return SW_OK;
    const size_t wanted = bump ? ahead(a, bytes) : bytes;
    sw_status status = store->ops->commit(store, wanted);
    if (status == SW_NOMEM && wanted > bytes)
        status = store->ops->commit(store, bytes);
    SW_TRY(status);
    SW_ASSERT(store->committed_bytes >= bytes && store->committed_bytes >= before);
    SW_ASSERT(store->committed_bytes <= store->reserved_bytes);
    SW_ASSERT(store->committed_bytes % store->granularity == 0);
    poison(a, before, store->committed_bytes - before);
    __atomic_store_n(&a->committed, store->committed_bytes, __ATOMIC_RELAXED);
    state(a, SW_EVENT_COMMIT, 0, store->committed_bytes, 0, a->opts.label);
    return SW_OK;
}

/* Promise `height` bytes and have `physical` of them committed, or change nothing. */
static sw_status promise(sw_arena *a, size_t height, size_t physical, bool bump)
{
    SW_ASSERT(height % SW_ALIGN == 0);
    SW_ASSERT(physical <= 1 || bump || physical <= height);
    const size_t more = height > a->height ? height - a->height : 0;
    SW_TRY(sw_budget_take(a->opts.budget, more, a->opts.label));
    const sw_status status = commit(a, physical, bump);
    if (status != SW_OK) {
        sw_budget_give(a->opts.budget, more);
        return status;
    }
    __atomic_store_n(&a->height, a->height + more, __ATOMIC_RELAXED);
    SW_ASSERT(a->height >= height && a->opts.store->committed_bytes >= physical);
    if (is_slots(a))
        sw_budget_note_slots(a->opts.budget, more, 0);
    if (more > 0)
        swi_address_map_changed();
    return SW_OK;
}

sw_status sw_arena_grow(sw_arena *a, size_t height, bool physical)
{
    size_t wanted;
    sw_status status = SW_NOMEM;
    if (sw_size_align(height, SW_ALIGN, &wanted))
        status = promise(a, wanted, physical ? wanted : 0, false);
    else
        status = sw_error_set(status, __FILE__, __LINE__, "%s: %zu bytes overflow",
                              a->opts.label, height);
    if (status != SW_OK)
        state(a, SW_EVENT_DENIED, 0, height, 0, a->opts.label);
    return status;
}

sw_status sw_arena_push(sw_arena *a, void **out, size_t bytes, const char *label)
{
    size_t rounded = 0, top = 0;
    sw_status status;
    /* Before its first commit a plain block of a device is nowhere. */
    if (sw_size_align(bytes, SW_ALIGN, &rounded) && sw_size_add(a->top, rounded, &top) &&
        sw_size_add(top, RED_ZONE, &top))
        status = promise(a, a->used + rounded,
                         (a->opts.store->base == NULL) && top == 0 ? 1 : top, true);
    else
        status = sw_error_set(SW_NOMEM, __FILE__, __LINE__, "%s: %zu bytes overflow",
                              a->opts.label, bytes);
    if (status != SW_OK) {
        state(a, SW_EVENT_DENIED, a->top, bytes, 0, label);
        SW_FAIL(status, "%s: %s", label, sw_last_error());
    }
    const size_t used = a->used + rounded;
    SW_ASSERT(used <= a->height && top >= a->top && top <= a->opts.store->committed_bytes);
    SW_ASSERT(a->top % SW_ALIGN == 0 && rounded >= bytes);
    SW_ASSERT(label != NULL && out != NULL);
    unsigned char *at = a->opts.store->base + a->top;
    const size_t offset = a->top;
    give(a, offset, bytes);
    a->top = top;
    a->used = used;
    a->live += rounded;
    *out = at;
    state(a, SW_EVENT_PUSH, offset, rounded, 0, label);
    return SW_OK;
}

void sw_arena_reset(sw_arena *a)
{
    poison(a, 0, a->opts.store->committed_bytes);
    const size_t bytes = a->live;
    a->top = a->used = a->live = 0;
    state(a, SW_EVENT_RESET, 0, bytes, 0, NULL);
}

sw_status sw_arena_place(sw_arena *a, size_t offset, size_t bytes, uint32_t id)
{
    const size_t rounded = sw_size_round(bytes);
    if (rounded < bytes || offset > a->height || rounded > a->height - offset)
        SW_FAIL(SW_INVALID, "%s: range %zu+%zu is outside the height %zu", a->opts.label,
                offset, bytes, a->height);
    const sw_status status = commit(a, offset + rounded, false);
    if (status != SW_OK) {
        state(a, SW_EVENT_DENIED, offset, rounded, id, NULL);
        return status;
    }
    SW_ASSERT(offset % SW_ALIGN == 0);
    give(a, offset, bytes);
    a->live += rounded;
    state(a, SW_EVENT_PLACE, offset, rounded, id, NULL);
    return SW_OK;
}

void sw_arena_release(sw_arena *a, size_t offset, size_t bytes, uint32_t id)
{
    const size_t rounded = sw_size_round(bytes);
    SW_ASSERT(rounded <= a->live);
    SW_ASSERT(rounded >= bytes && offset % SW_ALIGN == 0);
    SW_ASSERT(offset <= a->height && rounded <= a->height - offset);
    a->live -= rounded;
    poison(a, offset, rounded);
    state(a, SW_EVENT_RELEASE, offset, rounded, id, NULL);
}

unsigned char *sw_arena_base(const sw_arena *a)
{
    return a->opts.store->base;
}

size_t sw_arena_live(const sw_arena *a)
{
    return a->live;
}

size_t sw_arena_height(const sw_arena *a)
{
    return a->height;
}

sw_store *sw_arena_store(const sw_arena *a)
{
    return a->opts.store;
}

sw_budget *sw_arena_budget(const sw_arena *a)
{
    return a->opts.budget;
}
