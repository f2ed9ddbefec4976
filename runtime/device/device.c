/* Cards: opened, counted, closed; their copies and their first fault. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "alloc/base/message.h"
#include "runtime/base/module.h"
#include "runtime/device/device.h"
#include "runtime/device/device_module.h"
#include "runtime/device/pieces.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the module, the list, and the counts of users. Each card has a lock of its own besides,
 * which is taken last. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static swi_device *devices;
const sw_cuda_entry *swi_device_entries[SW_OPS_INSIDE][SWI_DEVICE_KERNELS];

/* ---- faults ------------------------------------------------------------------------------ */

/* With the device's lock. */
static sw_status fault_of(const swi_device *device)
{
    if (device->faulted)
        SW_FAIL(SW_DEVICE, "cuda:%d failed before: %s", device->ordinal, device->fault);
    return SW_OK;
}

/* A call that the card refused, and that still answers, has broken nothing: the caller gets the
 * refusal, later calls do not. */
static sw_status keep_fault(swi_device *device, sw_status status)
{
    sw_cuda_info now;
    if (status == SW_DEVICE && !device->faulted) {
        strncpy(device->fault, sw_last_error(), sizeof device->fault - 1);
        device->faulted = device->api->info(device->card, &now) != SW_OK;
        return sw_error_set(status, __FILE__, __LINE__, "%s", device->fault);
    }
    return status;
}

static sw_status first_fault(swi_device *device)
{
    pthread_mutex_lock(&device->lock);
    const sw_status status = fault_of(device);
    pthread_mutex_unlock(&device->lock);
    return status;
}

sw_status swi_device_faulted(swi_device *device, sw_status status)
{
    pthread_mutex_lock(&device->lock);
    (void)keep_fault(device, status);
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* ---- memory ------------------------------------------------------------------------------ */

static sw_status memory_reserve(void *context, void **base, size_t bytes)
{
    swi_device *d = context;
    SW_TRY(first_fault(d));
    return swi_device_faulted(d, d->api->reserve(d->card, base, bytes));
}

static sw_status memory_map(void *context, void *base, size_t from, size_t to)
{
    swi_device *d = context;
    SW_TRY(first_fault(d));
    return swi_device_faulted(d, d->api->map(d->card, base, from, to));
}

static void memory_release(void *context, void *base, size_t bytes)
{
    swi_device *d = context;
    d->api->release(d->card, base, bytes);
}

static sw_status memory_alloc(void *context, void **out, size_t bytes)
{
    swi_device *d = context;
    SW_TRY(first_fault(d));
    return swi_device_faulted(d, d->api->alloc(d->card, out, bytes));
}

static void memory_free(void *context, void *block)
{
    swi_device *d = context;
    d->api->free(d->card, block);
}

static sw_status copy_on(swi_device *device, void *to, const void *from, size_t bytes);

static sw_status memory_copy(void *context, void *to, const void *from, size_t bytes)
{
    return copy_on(context, to, from, bytes);
}

sw_status swi_device_pin(swi_device *device, void **out, size_t bytes)
{
    SW_TRY(first_fault(device));
    SW_TRY(swi_device_faulted(device, device->api->host_alloc(device->card, out, bytes)));
    sw_heap_note(*out, SW_HEAP_PINNED, bytes);
    return SW_OK;
}

void swi_device_unpin(swi_device *device, void *block, size_t bytes)
{
    sw_heap_note_end(block, SW_HEAP_PINNED, bytes);
    if (block != NULL)
        device->api->host_free(device->card, block);
}

size_t swi_device_graphs(swi_device *device, size_t more, size_t less)
{
    pthread_mutex_lock(&device->lock);
    SW_ASSERT(device->graph_bytes + more >= less);
    device->graph_bytes += more - less;
    const size_t bytes = device->graph_bytes;
    pthread_mutex_unlock(&device->lock);
    return bytes;
}

/* ---- opening ----------------------------------------------------------------------------- */

static sw_status parse(const char *name, int *ordinal)
{
    *ordinal = 0;
    if (strcmp(name, "cuda") == 0)
        return SW_OK;
    const char *digits = strncmp(name, "cuda:", 5) == 0 ? name + 5 : "";
    const size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > 4 || digits[n] != '\0')
        SW_FAIL(SW_INVALID, "the device must be cpu, cuda or cuda:N (got '%s')", name);
    *ordinal = atoi(digits);
    return SW_OK;
}

/* By the names of the module's table, once. */
static sw_status fill_entries(const sw_cuda_module *module)
{
    for (uint32_t i = 0; i < module->n_entries; i++) {
        const sw_cuda_entry *e = &module->entries[i];
        uint32_t op = 0;
        while (op < SW_OPS_INSIDE && strcmp(swi_op(op)->name, e->op) != 0)
            op++;
        if (op == SW_OPS_INSIDE || e->which < SW_CUDA_FORWARD ||
            e->which >= SWI_DEVICE_KERNELS - 1 || e->which >= swi_op(op)->n_grads)
            SW_FAIL(SW_DEVICE,
                    "CUDA module: entry %s, kernel %d: the library has no such kernel; install "
                    "both from one build",
                    e->op, e->which);
        swi_device_entries[op][e->which + 1] = e;
    }
    return SW_OK;
}

static sw_status open_card(swi_device *device)
{
    SW_TRY(device->api->open(&device->card, device->ordinal));
    SW_TRY(device->api->info(device->card, &device->info));
    device->memory = (sw_device_memory)SW_INIT(
        device, device->info.can_map ? device->info.granularity : 0, memory_reserve, memory_map,
        memory_release, memory_alloc, memory_free, memory_copy);
    return device->api->queue_create(device->card, &device->queue, false, 0);
}

static void free_device(swi_device *device)
{
    if (device->queue.stream != NULL)
        device->api->queue_destroy(device->card, &device->queue);
    if (device->card != NULL)
        device->api->close(device->card);
    pthread_mutex_destroy(&device->lock);
    sw_heap_free(device, SW_HEAP_RECORDS, sizeof *device);
}

static sw_status create(swi_device **out, int ordinal)
{
    const sw_cuda_module *module;
    swi_device *device;
    SW_TRY(swi_device_module(&module));
    SW_TRY(sw_heap_alloc(&device, SW_HEAP_RECORDS, sizeof(swi_device)));
    device->backend = &swi_backend_cuda;
    device->api = module->api;
    device->ordinal = ordinal;
    device->fusions = module->fusions;
    device->n_fusions = module->n_fusions;
    pthread_mutex_init(&device->lock, NULL);
    const sw_status status = open_card(device);
    if (status != SW_OK) {
        free_device(device);
        return status;
    }
    SW_ASSERT(device->card != NULL && device->queue.stream != NULL);
    device->next = devices;
    devices = device;
    *out = device;
    return SW_OK;
}

sw_status swi_device_open(swi_device **out, const char *name)
{
    int ordinal;
    sw_status status = SW_OK;
    SW_TRY(parse(name, &ordinal));
    pthread_mutex_lock(&list_lock);
    swi_device *device = devices;
    while (device != NULL && device->ordinal != ordinal)
        device = device->next;
    if (device == NULL)
        status = create(&device, ordinal);
    if (status == SW_OK) {
        device->users++;
        *out = device;
    }
    pthread_mutex_unlock(&list_lock);
    return status;
}

static swi_device *add_user(swi_device *device)
{
    pthread_mutex_lock(&list_lock);
    device->users++;
    pthread_mutex_unlock(&list_lock);
    return device;
}

static void end_user(swi_device *device)
{
    pthread_mutex_lock(&list_lock);
    SW_ASSERT(device->users > 0);
    if (--device->users == 0) {
        swi_device **at = &devices;
        while (*at != device)
            at = &(*at)->next;
        *at = device->next;
        free_device(device);
    }
    pthread_mutex_unlock(&list_lock);
}

const sw_cuda_entry *swi_device_entry(uint32_t op, int grad)
{
    const bool known = op < SW_OPS_INSIDE && grad >= -1 && grad < SWI_DEVICE_KERNELS - 1;
    return known ? swi_device_entries[op][grad + 1] : NULL;
}

const sw_cuda_fusion *swi_device_fusion(const swi_device *device, uint32_t first, uint32_t then)
{
    if (first >= SW_OPS_INSIDE || then >= SW_OPS_INSIDE)
        return NULL;
    for (uint32_t i = 0; i < device->n_fusions; i++)
        if (strcmp(device->fusions[i].first, swi_op(first)->name) == 0 &&
            strcmp(device->fusions[i].then, swi_op(then)->name) == 0)
            return &device->fusions[i];
    return NULL;
}

/* ---- copies ------------------------------------------------------------------------------ */

/* Zeros where there is nothing to copy from. With the device's lock. */
static sw_status copy_now(swi_device *d, void *to, const void *from, size_t bytes,
                          sw_cuda_way way)
{
    if (from != NULL)
        SW_TRY(d->api->copy(&d->queue, to, from, bytes, way));
    else
        SW_TRY(d->api->fill(&d->queue, to, 0, bytes));
    return d->api->queue_sync(d->card, &d->queue);
}

/* The card is waited for without the lock: that may take until another thread's capture ends,
 * which needs the lock where it fails. */
static sw_status copy(swi_device *d, void *to, const void *from, size_t bytes, sw_cuda_way way)
{
    SW_TRY(first_fault(d));
    if (bytes == 0)
        return SW_OK;
    SW_TRY(swi_device_faulted(d, d->api->sync(d->card))); /* and it is this thread's */
    pthread_mutex_lock(&d->lock);
    sw_status status = fault_of(d);
    if (status == SW_OK)
        status = keep_fault(d, copy_now(d, to, from, bytes, way));
    pthread_mutex_unlock(&d->lock);
    return status;
}

static sw_status to_host(swi_device *device, void *to, const void *from, size_t bytes)
{
    return copy(device, to, from, bytes, SW_CUDA_TO_HOST);
}

static sw_status to_card(swi_device *device, void *to, const void *from, size_t bytes)
{
    return copy(device, to, from, bytes, SW_CUDA_TO_DEVICE);
}

static sw_status copy_on(swi_device *device, void *to, const void *from, size_t bytes)
{
    return copy(device, to, from, bytes, SW_CUDA_ON_DEVICE);
}

static sw_status zero(swi_device *device, void *to, size_t bytes)
{
    return copy(device, to, NULL, bytes, SW_CUDA_ON_DEVICE);
}

/* ---- the table --------------------------------------------------------------------------- */

static void say_name(const swi_device *d, char *to, size_t bytes)
{
    snprintf(to, bytes, "cuda:%d", d->ordinal);
}

static void say_free(const swi_device *d, char *to, size_t bytes)
{
    sw_cuda_info now;
    to[0] = '\0';
    if (d->api->info(d->card, &now) == SW_OK)
        (void)sw_message(to, bytes, ", cuda:%d (%s) has %zu bytes free of %zu", d->ordinal,
                         d->info.name, now.free_bytes, now.total_bytes);
}

static sw_status store(swi_device *d, sw_store **out, size_t bytes)
{
    return sw_store_device_create(out, bytes > 0 ? bytes : d->info.total_bytes, &d->memory);
}

/* The entries of the module are for float32, and go over bf16 in pieces. */
static bool has(const swi_device *device, uint32_t op, int grad, sw_dtype dtype)
{
    (void)device;
    return swi_device_entry(op, grad) != NULL &&
           (dtype == SW_F32 || swi_op_traits_of(op)->halves > SWI_HALVES_NEVER);
}

static bool select_kernel(const swi_target *target, uint32_t op, int grad, sw_dtype dtype,
                          const sw_kernel_info *info, swi_selected_kernel *out)
{
    if (!has(target->device, op, grad, dtype))
        return false;
    const sw_cuda_entry *entry = swi_device_entry(op, grad);
    out->kernel = NULL;
    out->on_device = entry->kernel;
    out->scratch_bytes =
        entry->scratch_bytes != NULL ? entry->scratch_bytes(info, target->compute) : 0;
    if (swi_goes_in_pieces(op, grad, info, true)) {
        out->on_device = swi_pieces_on_card;
        out->scratch_bytes = swi_pieces_bytes(op, grad, info, target->compute, 0);
    }
    return true;
}

const swi_backend swi_backend_cuda =
    SW_INIT(.name = "cuda", .fuses_launches = true, .share = add_user, .close = end_user,
            .fault = first_fault, .say_name = say_name, .say_free = say_free, .store = store,
            .read = to_host, .write = to_card, .copy = copy_on, .zero = zero,
            .select = select_kernel, .has = has, .snapshot = &swi_snapshot_by_stream);

/* The CUDA module. */

static sw_status take(void **out, size_t bytes)
{
    return sw_heap_alloc(out, SW_HEAP_RECORDS, bytes);
}
static void give(void *block, size_t bytes)
{
    sw_heap_free(block, SW_HEAP_RECORDS, bytes);
}

sw_status swi_device_module(const sw_cuda_module **out)
{
    static const sw_cuda_host host = {SW_CUDA_ABI, sizeof host, sw_error_set, take, give};
    static const swi_module_kind kind = {.what = "CUDA module",
                                         .file = "libstepwell-cuda.so",
                                         .built = "kernels/cuda",
                                         .variable = "STEPWELL_CUDA_MODULE",
                                         .entry = "sw_cuda_module_open",
                                         .missing = "build with -Dcuda=enabled"};
    static const sw_cuda_module *opened;
    if (opened == NULL) {
        char path[SWI_MODULE_PATH];
        void *entry;
        sw_cuda_module_opener *opener;
        SW_TRY(swi_module_open(&kind, NULL, path, &entry));
        memcpy(&opener, &entry, sizeof opener);
        const sw_cuda_module *module = opener(&host);
        if (module == NULL || module->abi != SW_CUDA_ABI || module->size != sizeof *module)
            SW_FAIL(SW_DEVICE,
                    "CUDA module: %s is of another version than the library (which has ABI "
                    "%u); install both from one build",
                    path, SW_CUDA_ABI);
        if (module->entry_size != sizeof(sw_cuda_entry) ||
            module->api_size != sizeof(sw_cuda_api) ||
            module->fusion_size != sizeof(sw_cuda_fusion) || module->entries == NULL ||
            module->api == NULL || (module->fusions == NULL && module->n_fusions > 0))
            SW_FAIL(SW_DEVICE,
                    "CUDA module: %s has ABI %u as the library, but tables of other sizes: "
                    "entries %u for %zu bytes, functions %u for %zu, pairs %u for %zu; install "
                    "both from one build",
                    path, module->abi, module->entry_size, sizeof(sw_cuda_entry),
                    module->api_size, sizeof(sw_cuda_api), module->fusion_size,
                    sizeof(sw_cuda_fusion));
        SW_TRY(fill_entries(module));
        opened = module;
    }
    *out = opened;
    return SW_OK;
}
