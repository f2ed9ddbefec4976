/* Records of cards into a report. */
#include "profiler/inspect/report/report_host.h"
#include <string.h>

static sw_status take_arena(const profile_position *p, value arenas, const char *name,
                            uint64_t total, uint64_t *committed, uint64_t *promised)
{
    const value o = value_at(arenas, name);
    if (o == 0)
        return SW_OK;
    if (!value_is_dict(o))
        return profile_wrong(p, "arenas", "an object of objects");
    SW_TRY(profile_get_in(p, o, "committed_bytes", total, 0, committed));
    return profile_get_u64(p, o, "promised_bytes", 0, promised);
}

static sw_status fill(const profile_position *p, report_device *d)
{
    static const char *const names[SW_ARENA_USES] = {"other", "step", "model", "data"};
    char at[8];
    const value o = p->record;
    SW_TRY(profile_get_text(p, o, "name", d->name, sizeof d->name));
    SW_TRY(profile_get_text(p, o, "at", at, sizeof at));
    SW_TRY(profile_get_text(p, o, "card", d->card, sizeof d->card));
    SW_TRY(profile_get_text(p, o, "capability", d->capability, sizeof d->capability));
    SW_TRY(profile_get_text(p, o, "driver", d->driver, sizeof d->driver));
    SW_TRY(profile_get_text(p, o, "runtime", d->runtime, sizeof d->runtime));
    SW_TRY(profile_get_u64(p, o, "cublas", 0, &d->blas));
    SW_TRY(profile_get_in(p, o, "total_bytes", (uint64_t)1 << 56, 0, &d->total));
    SW_TRY(profile_get_in(p, o, "open_bytes", d->total, 0, &d->open));
    SW_TRY(profile_get_in(p, o, "free_bytes", d->total, 0, &d->free));
    SW_TRY(profile_get_in(p, o, "pinned_bytes", (uint64_t)1 << 56, 0, &d->pinned));
    for (int i = 0; i < SW_ARENA_USES; i++)
        SW_TRY(take_arena(p, value_at(o, "arenas"), names[i], d->total, &d->committed[i],
                          &d->promised[i]));
    d->ended = strcmp(at, "end") == 0;
    return SW_OK;
}

/* The latest of a card counts; what is more than there is room for is passed over. */
sw_status report_take_device(report_host *h, const profile_position *p)
{
    report_device d = {0};
    size_t i = 0;
    SW_TRY(fill(p, &d));
    while (i < h->n_devices && strcmp(h->device[i].name, d.name) != 0)
        i++;
    if (i == REPORT_DEVICES)
        return SW_OK;
    h->device[i] = d;
    h->n_devices += i == h->n_devices;
    return SW_OK;
}
