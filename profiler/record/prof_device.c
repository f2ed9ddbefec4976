/* Records of a card. */
#include "profiler/record/prof_device.h"
#include "profiler/record/prof_internal.h"
#include <stdio.h>

int64_t sw_prof_device_rest(const sw_prof_device *d)
{
    size_t ours = 0;
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

static void put_arenas(sw_json *j, const sw_prof_device *d)
{
    static const char *const names[SW_ARENA_USES] = {"other", "step", "model", "data"};
    sw_json_open(j, "arenas", '{');
    for (int i = 0; i < SW_ARENA_USES; i++) {
        if (i == SW_ARENA_OTHER && d->committed_bytes[i] + d->promised_bytes[i] == 0)
            continue;
        sw_json_open(j, names[i], '{');
        sw_json_put_u64(j, "committed_bytes", d->committed_bytes[i]);
        sw_json_put_u64(j, "promised_bytes", d->promised_bytes[i]);
        sw_json_end(j);
    }
    sw_json_end(j);
}

void sw_prof_device_put(sw_json *j, const sw_prof_device *d)
{
    char capability[24];
    snprintf(capability, sizeof capability, "%d.%d", d->major, d->minor);
    sw_json_put_string(j, "name", d->name);
    sw_json_put_string(j, "card", d->card);
    sw_json_put_string(j, "capability", capability);
    put_version(j, "driver", d->driver);
    put_version(j, "runtime", d->runtime);
    sw_json_put_known(j, "cublas", d->blas != 0, (uint64_t)d->blas);
    sw_json_put_known(j, "cudnn", d->dnn != 0, (uint64_t)d->dnn);
    sw_json_put_bool(j, "maps", d->maps);
    sw_json_put_u64(j, "total_bytes", d->total_bytes);
    sw_json_put_u64(j, "open_bytes", d->open_bytes);
    sw_json_put_u64(j, "free_bytes", d->free_bytes);
    put_arenas(j, d);
    sw_json_put_i64(j, "unexplained_bytes", sw_prof_device_rest(d));
    sw_json_put_u64(j, "pinned_bytes", d->pinned_bytes);
}

static void put_record(sw_json *j, const void *device)
{
    const sw_prof_device *d = device;
    sw_json_put_string(j, "at", d->when);
    if (d->exec > 0)
        sw_json_put_u64(j, "exec", d->exec);
    sw_prof_device_put(j, d);
}

void sw_prof_device_record(sw_profile *profile, const sw_prof_device *device)
{
    swi_prof_record(profile, "device", put_record, device);
}
