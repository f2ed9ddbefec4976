/* Budgets: one atomic number under a limit. */
#include "alloc/arena/arena.h"
#include "alloc/base/assert.h"
#include "alloc/base/handle.h"
#include <stdatomic.h>
#include <stdio.h>

struct sw_budget {
    sw_handle handle;
    atomic_uint users; /* the caller and each arena; the last one gives it back */
    size_t limit;
    atomic_size_t used;
    atomic_size_t slots; /* of those: batch slots of loaders */
};

sw_status sw_budget_new(sw_budget **out, size_t bytes)
{
    void *block;
    SW_TRY(sw_handle_take(&block, SW_HANDLE_BUDGET, sizeof(sw_budget)));
    *out = block;
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

void sw_budget_note_slots(sw_budget *budget, size_t more, size_t less)
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
