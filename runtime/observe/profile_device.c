/* Records of the card that an exec works on. */
#include "alloc/base/address_map.h"
#include "profiler/record/prof_device.h"
#include "runtime/device/device.h"
#include "runtime/observe/observe.h"
#include "runtime/base/structs.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    const void *owner;
    sw_prof_device *out;
} summing;

static void add_arena(void *context, const sw_address_range *c)
{
    const summing *s = context;
    if (c->kind != SW_ADDRESS_ARENA || c->device != s->owner)
        return;
    s->out->committed_bytes[c->use] += c->committed_bytes;
    s->out->promised_bytes[c->use] += c->promised_bytes;
}

/* The name is put into `name`, 16 bytes; the card's stays the device's. */
static sw_status look(const swi_device *device, char *name, sw_prof_device *out)
{
    sw_cuda_info now;
    sw_heap_stats pinned;
    SW_TRY(device->api->info(device->card, &now));
    sw_heap_read(SW_HEAP_PINNED, &pinned);
    (void)swi_device_name(device, name, 16);
    *out = (sw_prof_device){.name = name,
                            .card = device->info.name,
                            .major = now.major,
                            .minor = now.minor,
                            .driver = now.driver,
                            .runtime = now.runtime,
                            .blas = now.blas,
                            .dnn = now.dnn,
                            .maps = device->memory.granularity > 0,
                            .total_bytes = now.total_bytes,
                            .open_bytes = device->info.open_bytes,
                            .free_bytes = now.free_bytes,
                            .pinned_bytes = pinned.bytes};
    sw_address_map_visit(add_arena, &(summing){device->memory.context, out});
    return SW_OK;
}

sw_status sw_exec_device(const sw_exec *exec, sw_device_info *out)
{
    char name[16];
    sw_prof_device d = {0};
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_exec_device"));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_exec_device: out must not be NULL");
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_device_info, out->size, "sw_exec_device"));
    sw_device_info info = SW_OPTS(sw_device_info, .name = "cpu");
    if (!exec->target.device->backend->host_memory) {
        SW_TRY(look(exec->target.device, name, &d));
        snprintf(info.name, sizeof info.name, "%s", d.name);
        snprintf(info.card, sizeof info.card, "%s", d.card);
        info.major = d.major;
        info.minor = d.minor;
        info.driver = d.driver;
        info.runtime = d.runtime;
        info.blas = d.blas;
        info.dnn = d.dnn;
        info.total_bytes = d.total_bytes;
        info.open_bytes = d.open_bytes;
        info.free_bytes = d.free_bytes;
        info.model_bytes = d.committed_bytes[SW_ARENA_MODEL];
        info.arena_bytes = d.committed_bytes[SW_ARENA_STEP];
        info.data_bytes = d.committed_bytes[SW_ARENA_DATA];
        info.unexplained_bytes = sw_prof_device_rest(&d);
        info.pinned_bytes = d.pinned_bytes;
    }
    swi_struct_write(SWI_STRUCT_sw_device_info, out, &info);
    return SW_OK;
}

void swi_profile_device(sw_exec *exec, bool ends)
{
    char name[16];
    sw_prof_device d;
    swi_recorder *r = &exec->rec;
    if (exec->target.device->backend->host_memory || r->profile == NULL || r->device_ended ||
        exec->forks != sw_fork_number() ||
        !sw_handle_is(r->profile, SW_HANDLE_PROFILE, r->profile_generation) ||
        look(exec->target.device, name, &d) != SW_OK)
        return; /* a card that has failed is asked nothing */
    d.when = ends ? "end" : "begin";
    d.exec = r->number;
    r->device_ended = ends;
    sw_prof_device_record(r->profile, &d);
}
