/* Records of requests that were denied into a report. */
#include "alloc/base/mem.h"
#include "profiler/inspect/report/report_host.h"
#include "profiler/inspect/report/report_parts.h"
#include "profiler/record/utf8.h"
#include <string.h>

/* Largest first; what has no name is called `none`. */
static sw_status take_shares(const profile_position *p, const char *key, const char *none,
                             sw_denied_share *to, size_t capacity, size_t *n)
{
    const value o = value_at(p->record, key);
    *n = 0;
    if (!value_is_dict(o) || value_count(o) > capacity)
        return profile_wrong(p, key, "an object of bytes");
    for (uint64_t i = 0; i < value_count(o); i++) {
        const char *name = value_key(o, i);
        uint64_t bytes;
        if (!value_whole(value_member(o, i), &bytes))
            return profile_wrong(p, key, "an object of bytes");
        size_t k = *n;
        for (; k > 0 && to[k - 1].bytes < bytes; k--)
            to[k] = to[k - 1];
        sw_utf8_clean(to[k].name, sizeof to[k].name, *name != '\0' ? name : none);
        to[k].bytes = (size_t)bytes;
        ++*n;
    }
    return SW_OK;
}

static sw_status take_holders(const profile_position *p, report_denied *d)
{
    const value all = value_at(p->record, "holders");
    if (!value_is_list(all) || value_count(all) > SW_DENIED_HOLDERS)
        return profile_wrong(p, "holders", "a list of holders");
    for (d->n_holders = 0; d->n_holders < value_count(all); d->n_holders++) {
        const value o = value_item(all, d->n_holders);
        sw_denied_holder *h = &d->holder[d->n_holders];
        uint64_t bytes;
        if (!value_is_dict(o))
            return profile_wrong(p, "holders", "a list of holders");
        SW_TRY(profile_get_text(p, o, "name", h->name, sizeof h->name));
        SW_TRY(profile_get_text(p, o, "layer", h->layer, sizeof h->layer));
        SW_TRY(profile_get_text(p, o, "role", d->role_of[d->n_holders],
                                sizeof d->role_of[d->n_holders]));
        SW_TRY(profile_need_u64(p, o, "bytes", &bytes));
        h->bytes = (size_t)bytes;
    }
    return SW_OK;
}

static sw_status take_request(const profile_position *p, report_denied *d)
{
    const value o = p->record;
    SW_TRY(profile_get_text(p, o, "run", d->run, sizeof d->run));
    SW_TRY(profile_get_text(p, o, "limited_by", d->limited_by, sizeof d->limited_by));
    SW_TRY(profile_get_text(p, o, "message", d->message, sizeof d->message));
    SW_TRY(profile_get_text(p, o, "label", d->label, sizeof d->label));
    SW_TRY(profile_get_text(p, o, "op", d->op, sizeof d->op));
    SW_TRY(profile_get_text(p, o, "phase", d->phase, sizeof d->phase));
    SW_TRY(profile_get_batch(p, &d->batch));
    SW_TRY(profile_need_u64(p, o, "step", &d->step));
    SW_TRY(profile_get_u64(p, o, "request_bytes", 0, &d->request));
    SW_TRY(profile_get_u64(p, o, "limit_bytes", 0, &d->limit));
    SW_TRY(profile_get_u64(p, o, "used_bytes", 0, &d->used));
    SW_TRY(profile_get_u64(p, o, "needed_bytes", 0, &d->needed));
    SW_TRY(profile_get_u64(p, o, "model_bytes", 0, &d->model));
    SW_TRY(profile_get_u64(p, o, "arena_bytes", 0, &d->arena));
    SW_TRY(profile_get_u64(p, o, "data_bytes", 0, &d->data));
    SW_TRY(profile_get_u64(p, o, "others_bytes", 0, &d->others));
    return profile_get_u64(p, o, "live_bytes", 0, &d->live);
}

/* Into what is there already: `fits` belongs to the denied record before it. */
sw_status report_take_denied(report_host *h, const profile_position *p)
{
    void *block = h->denied;
    const bool fits = strcmp(value_text(value_at(p->record, "type")), "fits") == 0;
    if (fits && h->denied == NULL)
        return profile_wrong(p, "type", "a record after a denied one");
    if (fits) {
        SW_TRY(profile_get_batch(p, &h->denied->fits_batch));
        return profile_get_u64(p, p->record, "needed_bytes", 0, &h->denied->fits_bytes);
    }
    if (block == NULL)
        SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, sizeof *h->denied));
    report_denied *d = h->denied = block;
    const uint64_t n = d->n + 1;
    *d = (report_denied){.n = n, .fits_batch = -1};
    SW_TRY(take_request(p, d));
    SW_TRY(take_shares(p, "by_role", "(no role)", d->role, sizeof d->role / sizeof *d->role,
                       &d->n_roles));
    SW_TRY(
        take_shares(p, "by_layer", REPORT_NO_LAYER, d->layer, SW_DENIED_SHARES, &d->n_layers));
    return take_holders(p, d);
}
