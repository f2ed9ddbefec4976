/* Records of the host's memory. */
#include "profiler/record/prof_heap.h"
#include "alloc/base/address_map.h"
#include "profiler/record/prof_internal.h"
#include <stdio.h>
#include <string.h>

sw_status sw_prof_heap_begin(sw_prof_heap *h)
{
    SW_TRY(sw_sites_begin());
    h->begun = true;
    return SW_OK;
}

void sw_prof_heap_end(sw_prof_heap *h)
{
    if (h->begun)
        sw_sites_end();
    h->begun = false;
}

void sw_prof_heap_look(sw_prof_heap *h)
{
    for (int i = 0; i < SW_HEAP_KINDS; i++) {
        sw_heap_stats stats;
        sw_heap_read((sw_heap)i, &stats);
        h->heap[i] = stats.bytes;
    }
}

size_t sw_prof_heap_sum(const sw_prof_heap *h)
{
    size_t sum = 0;
    for (int i = 0; i < SW_HEAP_KINDS; i++)
        sum += h->heap[i];
    return sum;
}

static void put_purposes(sw_json *j, const size_t *bytes)
{
    sw_json_open(j, "heap", '{');
    for (int i = 0; i < SW_HEAP_KINDS; i++)
        sw_json_put_u64(j, sw_heap_name((sw_heap)i), bytes[i]);
    sw_json_end(j);
}

static const char *const uses[SW_ARENA_USES] = {"other", "step", "model", "data"};

static void put_arenas(sw_json *j, const size_t *bytes)
{
    sw_json_open(j, "arenas", '{');
    for (int i = 0; i < SW_ARENA_USES; i++)
        if (i != SW_ARENA_OTHER || bytes[i] > 0)
            sw_json_put_u64(j, uses[i], bytes[i]);
    sw_json_end(j);
}

#define SITES_AT_ONCE 100

void sw_prof_heap_put(sw_prof_heap *h, sw_json *j)
{
    const uint64_t claims = sw_address_map_version();
    if (!h->written || h->more || memcmp(h->heap, h->heap_written, sizeof h->heap) != 0) {
        memcpy(h->heap_written, h->heap, sizeof h->heap);
        put_purposes(j, h->heap);
        sw_alloc_site site;
        int n = 0;
        h->more = false;
        sw_json_open(j, "places", '[');
        for (uint32_t i = 0; h->begun && sw_sites_read(i, &site); i++) {
            if (site.bytes == h->sites[i])
                continue;
            h->more = n++ >= SITES_AT_ONCE;
            if (h->more)
                break;
            h->sites[i] = site.bytes;
            sw_json_begin(j, '{');
            sw_json_put_string(j, "at", site.at);
            sw_json_put_string(j, "heap", sw_heap_name(site.heap));
            SW_JSON_PUT(j, &site, bytes, blocks);
            sw_json_end(j);
        }
        sw_json_end(j);
    }
    if (!h->written || claims != h->claims) {
        h->claims = claims;
        sw_address_map_arenas(h->arenas);
        put_arenas(j, h->arenas);
    }
    h->written = true;
}

/* ---- the heap's backend ------------------------------------------------------------------ */

static void put_figures(sw_json *j, const sw_heap_figures *x)
{
    SW_JSON_PUT(j, x, allocated_bytes, active_bytes, resident_bytes, mapped_bytes);
}

static void put_report(sw_json *j, const void *report)
{
    const sw_heap_report *r = report;
    sw_json_put_string(j, "backend", sw_heap_backend());
    sw_json_open(j, "purposes", '[');
    for (int i = 0; i < SW_HEAP_KINDS; i++) {
        sw_heap_stats stats;
        sw_heap_read((sw_heap)i, &stats);
        sw_json_begin(j, '{');
        sw_json_put_string(j, "name", sw_heap_name((sw_heap)i));
        SW_JSON_PUT(j, &stats, bytes, peak_bytes, blocks);
        put_figures(j, &r->purpose[i]);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_open(j, "other", '{');
    put_figures(j, &r->other);
    sw_json_end(j);
    sw_json_put_u64(j, "kept_bytes", r->kept_bytes);
}

void sw_prof_heap_record(sw_profile *profile)
{
    sw_heap_report report;
    sw_heap_report_read(&report);
    swi_prof_record(profile, "heap", put_report, &report);
}

/* ---- what was denied --------------------------------------------------------------------- */

static void add_share(sw_denied_share *shares, size_t *n, size_t capacity, const char *name,
                      size_t bytes)
{
    size_t i = 0;
    while (i < *n && strcmp(shares[i].name, name) != 0)
        i++;
    if (i == capacity)
        snprintf(shares[--i].name, sizeof shares[i].name, "(others)");
    if (i == *n) {
        snprintf(shares[i].name, sizeof shares[i].name, "%s", name);
        shares[i].bytes = 0;
        (*n)++;
    }
    shares[i].bytes += bytes;
}

void sw_denied_add(sw_prof_denied *d, const char *role, const char *layer, const char *name,
                   size_t bytes)
{
    char short_layer[SW_DENIED_NAME];
    if (bytes == 0)
        return;
    snprintf(short_layer, sizeof short_layer, "%s", layer);
    d->live_bytes += bytes;
    add_share(d->role, &d->n_roles, sizeof d->role / sizeof *d->role, role, bytes);
    add_share(d->layer, &d->n_layers, SW_DENIED_SHARES, short_layer, bytes);
    size_t k = d->n_holders;
    if (k == SW_DENIED_HOLDERS && d->holder[--k].bytes >= bytes)
        return;
    for (; k > 0 && d->holder[k - 1].bytes < bytes; k--)
        d->holder[k] = d->holder[k - 1];
    d->holder[k] = (sw_denied_holder){.role = role, .bytes = bytes};
    snprintf(d->holder[k].name, sizeof d->holder[k].name, "%s", name);
    snprintf(d->holder[k].layer, sizeof d->holder[k].layer, "%s", layer);
    if (d->n_holders < SW_DENIED_HOLDERS)
        d->n_holders++;
}

static void put_shares(sw_json *j, const char *key, const sw_denied_share *shares, size_t n)
{
    sw_json_open(j, key, '{');
    for (size_t i = 0; i < n; i++)
        sw_json_put_u64(j, shares[i].name, shares[i].bytes);
    sw_json_end(j);
}

static void put_denied(sw_json *j, const void *denied)
{
    const sw_prof_denied *d = denied;
    sw_prof_heap now = {0};
    if (d->exec > 0)
        sw_json_put_u64(j, "exec", d->exec);
    if (d->program != SW_PROF_NONE)
        sw_json_put_u64(j, "program", d->program);
    SW_JSON_PUT(j, d, step, run);
    sw_json_put_known(j, "batch", d->batch >= 0, (uint64_t)d->batch);
    SW_JSON_PUT(j, d, limited_by, message, label);
    sw_json_put_known(j, "request_bytes", d->request_bytes > 0, d->request_bytes);
    sw_json_put_known(j, "limit_bytes", d->limit_bytes > 0, d->limit_bytes);
    SW_JSON_PUT(j, d, used_bytes, op, phase);
    sw_json_put_known(j, "needed_bytes", d->needed_bytes > 0, d->needed_bytes);
    sw_json_put_known(j, "model_bytes", d->model_bytes > 0, d->model_bytes);
    sw_json_put_known(j, "arena_bytes", d->arena_bytes > 0, d->arena_bytes);
    sw_json_put_known(j, "data_bytes", d->data_bytes > 0 || d->needed_bytes > 0, d->data_bytes);
    if (d->others_bytes > 0)
        sw_json_put_u64(j, "others_bytes", d->others_bytes);
    sw_json_put_u64(j, "live_bytes", d->live_bytes);
    put_shares(j, "by_role", d->role, d->n_roles);
    put_shares(j, "by_layer", d->layer, d->n_layers);
    sw_json_open(j, "holders", '[');
    for (size_t i = 0; i < d->n_holders; i++) {
        sw_json_begin(j, '{');
        SW_JSON_PUT(j, &d->holder[i], name, role, layer, bytes);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_prof_heap_look(&now);
    put_purposes(j, now.heap);
    sw_address_map_arenas(now.arenas);
    put_arenas(j, now.arenas);
}

void sw_prof_denied_record(sw_profile *profile, const sw_prof_denied *denied)
{
    swi_prof_record(profile, "denied", put_denied, denied);
    if (sw_prof_flush(profile) != SW_OK)
        return; /* the error stays for the end */
}

typedef struct {
    int64_t batch;
    size_t needed_bytes, limit_bytes;
} fitting;

static void put_fits(sw_json *j, const void *fits)
{
    const fitting *f = fits;
    SW_JSON_PUT(j, f, batch, needed_bytes, limit_bytes);
}

void sw_prof_fits_record(sw_profile *profile, int64_t batch, size_t bytes, size_t limit_bytes)
{
    const fitting f = {batch, bytes, limit_bytes};
    swi_prof_record(profile, "fits", put_fits, &f);
}

/* ---- cards ------------------------------------------------------------------------------- */

int64_t sw_prof_device_rest(const sw_prof_device *d)
{
    size_t ours = d->graph_bytes;
    for (int i = 0; i < SW_ARENA_USES; i++)
        ours += d->committed_bytes[i];
    return (int64_t)d->open_bytes - (int64_t)d->free_bytes - (int64_t)ours;
}

/* "13.2" of 13020. */
static void put_version(sw_json *j, const char *key, int version)
{
    char text[24];
    snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
    sw_json_put_string(j, key, text);
}

static void put_device(sw_json *j, const void *device)
{
    const sw_prof_device *d = device;
    sw_json_put_string(j, "at", d->when);
    if (d->exec > 0)
        sw_json_put_u64(j, "exec", d->exec);
    /* The members of a JSON object but the type, `at` and the exec. */
    char capability[24];
    snprintf(capability, sizeof capability, "%d.%d", d->major, d->minor);
    SW_JSON_PUT(j, d, name, card);
    sw_json_put_string(j, "capability", capability);
    put_version(j, "driver", d->driver);
    put_version(j, "runtime", d->runtime);
    sw_json_put_known(j, "cublas", d->blas != 0, (uint64_t)d->blas);
    sw_json_put_known(j, "cudnn", false, 0);
    SW_JSON_PUT(j, d, maps, total_bytes, open_bytes, free_bytes);
    sw_json_open(j, "arenas", '{');
    for (int i = 0; i < SW_ARENA_USES; i++) {
        if (i == SW_ARENA_OTHER && d->committed_bytes[i] + d->promised_bytes[i] == 0)
            continue;
        sw_json_open(j, uses[i], '{');
        sw_json_put_u64(j, "committed_bytes", d->committed_bytes[i]);
        sw_json_put_u64(j, "promised_bytes", d->promised_bytes[i]);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_put_i64(j, "unexplained_bytes", sw_prof_device_rest(d));
    SW_JSON_PUT(j, d, graph_bytes, pinned_bytes);
}

void sw_prof_device_record(sw_profile *profile, const sw_prof_device *device)
{
    swi_prof_record(profile, "device", put_device, device);
}
