/* Planned failures: one counter and one plan for each kind of call. */
#include "alloc/base/fault.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    atomic_uint_fast64_t calls, hits;
    atomic_uint_fast64_t at;
    atomic_int mode;
} plan;

static plan plans[SW_FAULT_KINDS];
static const char *const names[SW_FAULT_KINDS] = {"memory", "file", "thread", "library",
                                                  "lock"};

const char *sw_fault_kind_name(sw_fault_kind kind)
{
    return (unsigned)kind < SW_FAULT_KINDS ? names[kind] : "?";
}

void sw_fault_plan(sw_fault_kind kind, uint64_t k, sw_fault_mode mode)
{
    atomic_store(&plans[kind].mode, SW_FAULT_OFF);
    atomic_store(&plans[kind].calls, 0);
    atomic_store(&plans[kind].hits, 0);
    atomic_store(&plans[kind].at, k);
    atomic_store(&plans[kind].mode, (int)mode);
}

sw_status sw_fault_parse(const char *text)
{
    for (int kind = 0; kind < SW_FAULT_KINDS; kind++) {
        const size_t length = strlen(names[kind]);
        if (strncmp(text, names[kind], length) != 0 || text[length] != ':')
            continue;
        const char *number = text + length + 1;
        if (strcmp(number, "count") == 0) {
            sw_fault_plan((sw_fault_kind)kind, 0, SW_FAULT_OFF);
            return SW_OK;
        }
        char *end;
        errno = 0;
        const unsigned long long k = strtoull(number, &end, 10);
        if (number[0] < '0' || number[0] > '9' || errno != 0 ||
            (*end != '\0' && strcmp(end, "+") != 0))
            break;
        sw_fault_plan((sw_fault_kind)kind, k, *end == '+' ? SW_FAULT_FROM : SW_FAULT_ONCE);
        return SW_OK;
    }
    SW_FAIL(SW_INVALID,
            "a fault plan must be kind:number, kind:number+ or kind:count, with memory, file, "
            "thread, library or lock as kind (got '%s')",
            text);
}

uint64_t sw_fault_calls(sw_fault_kind kind)
{
    return atomic_load(&plans[kind].calls);
}

uint64_t sw_fault_hits(sw_fault_kind kind)
{
    return atomic_load(&plans[kind].hits);
}

bool swi_fault_hit(sw_fault_kind kind)
{
    plan *p = &plans[kind];
    const uint64_t call = atomic_fetch_add_explicit(&p->calls, 1, memory_order_relaxed);
    const int mode = atomic_load_explicit(&p->mode, memory_order_relaxed);
    if (mode == SW_FAULT_OFF)
        return false;
    const uint64_t at = atomic_load_explicit(&p->at, memory_order_relaxed);
    if (mode == SW_FAULT_ONCE ? call != at : call < at)
        return false;
    atomic_fetch_add_explicit(&p->hits, 1, memory_order_relaxed);
    return true;
}

static atomic_uint_fast64_t coincidence;
static atomic_uint coincidences;

void sw_fault_random(uint64_t value, unsigned times)
{
    atomic_store(&coincidence, value);
    atomic_store(&coincidences, times);
}

bool swi_fault_random(uint64_t *value)
{
    unsigned left = atomic_load(&coincidences);
    while (left > 0 && !atomic_compare_exchange_weak(&coincidences, &left, left - 1)) {
    }
    if (left > 0)
        *value = atomic_load(&coincidence);
    return left > 0;
}

static atomic_int_fast64_t clock_shift;

void sw_fault_clock(int64_t ns)
{
    atomic_store(&clock_shift, ns);
}

int64_t swi_fault_clock_shift(void)
{
    return atomic_load_explicit(&clock_shift, memory_order_relaxed);
}

static atomic_bool all_named;

void sw_fault_unnamed(bool can)
{
    atomic_store(&all_named, !can);
}

bool swi_fault_unnamed(void)
{
    return !atomic_load_explicit(&all_named, memory_order_relaxed);
}

static atomic_bool no_second_names;

void sw_fault_second_names(bool can)
{
    atomic_store(&no_second_names, !can);
}

bool swi_fault_second_names(void)
{
    return !atomic_load_explicit(&no_second_names, memory_order_relaxed);
}

static atomic_uint file_system;

void sw_fault_file_system(uint32_t type)
{
    atomic_store(&file_system, type);
}

uint32_t swi_fault_file_system(void)
{
    return atomic_load_explicit(&file_system, memory_order_relaxed);
}
