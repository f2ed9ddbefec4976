/* Records of the host's memory into a report. */
#include "alloc/base/mem.h"
#include "profiler/inspect/report/report_host.h"
#include <stdio.h>
#include <string.h>

void report_free_host(report_host *h)
{
    if (h == NULL)
        return;
    sw_heap_free(h->lines, SW_HEAP_PROFILE, h->cap_lines * sizeof *h->lines);
    sw_heap_free(h->denied, SW_HEAP_PROFILE, sizeof *h->denied);
    sw_heap_free(h, SW_HEAP_PROFILE, sizeof *h);
}

static sw_status take_purpose(report_host *h, const profile_position *p, value o,
                              const char *name)
{
    report_purpose *x = &h->purpose[h->n_purposes];
    SW_TRY(profile_get_text(p, o, "name", x->name, sizeof x->name));
    if (name != NULL)
        snprintf(x->name, sizeof x->name, "%s", name);
    SW_TRY(profile_get_u64(p, o, "bytes", 0, &x->bytes));
    SW_TRY(profile_get_u64(p, o, "peak_bytes", 0, &x->peak));
    SW_TRY(profile_get_u64(p, o, "blocks", 0, &x->blocks));
    SW_TRY(profile_get_u64(p, o, "allocated_bytes", 0, &x->allocated));
    SW_TRY(profile_get_u64(p, o, "active_bytes", 0, &x->active));
    SW_TRY(profile_get_u64(p, o, "resident_bytes", 0, &x->resident));
    SW_TRY(profile_get_u64(p, o, "mapped_bytes", 0, &x->mapped));
    h->n_purposes++;
    return SW_OK;
}

static sw_status take_heap(report_host *h, const profile_position *p)
{
    const value purposes = value_at(p->record, "purposes"),
                other = value_at(p->record, "other");
    if (!value_is_list(purposes) || value_count(purposes) > SW_HEAP_KINDS)
        return profile_wrong(p, "purposes", "a list of purposes");
    if (!value_is_dict(other))
        return profile_wrong(p, "other", "an object");
    SW_TRY(profile_get_text(p, p->record, "backend", h->backend, sizeof h->backend));
    SW_TRY(profile_get_u64(p, p->record, "kept_bytes", 0, &h->kept));
    h->n_purposes = 0;
    for (size_t i = 0; i < value_count(purposes); i++)
        SW_TRY(take_purpose(h, p, value_item(purposes, i), NULL));
    return take_purpose(h, p, other, "others");
}

sw_status report_take_host(report *r, const profile_position *p)
{
    const char *type = p->type;
    if (r->host == NULL)
        SW_TRY(sw_heap_alloc(&r->host, SW_HEAP_PROFILE, sizeof *r->host));
    if (strcmp(type, "step") == 0)
        return report_take_growth(r->host, p);
    if (strcmp(type, "heap") == 0)
        return take_heap(r->host, p);
    if (strcmp(type, "denied") == 0 || strcmp(type, "fits") == 0)
        return report_take_denied(r->host, p);
    if (strcmp(type, "device") == 0)
        return report_take_device(r->host, p);
    return SW_OK;
}
