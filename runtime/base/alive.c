#include "runtime/base/alive.h"
#include "alloc/base/mem.h"

struct swi_alive {
    uint32_t holders; /* atomic */
    int ended;        /* atomic */
};

static uint64_t ended; /* atomic: lives so far */

sw_status swi_alive_begin(swi_alive **out)
{
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, sizeof(swi_alive)));
    *out = block;
    (*out)->holders = 1;
    return SW_OK;
}

void swi_alive_end(swi_alive *life)
{
    if (life == NULL)
        return;
    __atomic_store_n(&life->ended, 1, __ATOMIC_RELEASE);
    __atomic_add_fetch(&ended, 1, __ATOMIC_RELEASE);
    swi_alive_drop(life);
}

void swi_alive_hold(swi_alive *life)
{
    __atomic_add_fetch(&life->holders, 1, __ATOMIC_RELAXED);
}

void swi_alive_drop(swi_alive *life)
{
    if (__atomic_sub_fetch(&life->holders, 1, __ATOMIC_ACQ_REL) == 0)
        sw_heap_free(life, SW_HEAP_RECORDS, sizeof *life);
}

bool swi_alive_has_ended(const swi_alive *life)
{
    return __atomic_load_n(&life->ended, __ATOMIC_ACQUIRE) != 0;
}

uint64_t swi_alive_ended(void)
{
    return __atomic_load_n(&ended, __ATOMIC_ACQUIRE);
}
