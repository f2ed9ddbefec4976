/* Calls on a device, by the table of its backend. */
#include "alloc/base/assert.h"
#include "alloc/base/size.h"
#include "runtime/device/device.h"
#include "runtime/device/pieces.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The CPU as a backend: one device, which is always there and in host memory. */

swi_device *swi_device_cpu(void)
{
    static swi_device cpu = {.backend = &swi_backend_cpu};
    return &cpu;
}

static swi_device *share(swi_device *device)
{
    return device;
}

static void keep_open(swi_device *device)
{
    (void)device;
}

static sw_status no_fault(swi_device *device)
{
    (void)device;
    return SW_OK;
}

static void say_name(const swi_device *device, char *to, size_t bytes)
{
    (void)device;
    snprintf(to, bytes, "the CPU");
}

static void say_free(const swi_device *device, char *to, size_t bytes)
{
    (void)device;
    (void)bytes;
    to[0] = '\0';
}

/* Addresses for the step arena: twice the machine's memory, so that it never moves, less where
 * the system grants less. */
static sw_status reserve(sw_store **out)
{
    const size_t pages = (size_t)sysconf(_SC_PHYS_PAGES), page = sw_page_bytes();
    size_t bytes = (size_t)1 << 34;
    (void)sw_size_mul(pages, 2 * page, &bytes);
    for (;; bytes /= 2) {
        const sw_status status = sw_store_host_create(out, bytes);
        if (status == SW_OK || bytes < ((size_t)1 << 28))
            return status;
    }
}

static sw_status store(swi_device *device, sw_store **out, size_t bytes)
{
    (void)device;
    return bytes > 0 ? sw_store_host_create(out, bytes) : reserve(out);
}

static sw_status copy(swi_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    if (bytes > 0)
        memcpy(to, from, bytes);
    return SW_OK;
}

static sw_status zero(swi_device *device, void *to, size_t bytes)
{
    (void)device;
    if (bytes > 0)
        memset(to, 0, bytes);
    return SW_OK;
}

/* Every op has kernels for float32, those for bf16 by its word in ops.def; a program's own op
 * has looked at its types itself. */
static bool has(const swi_device *device, uint32_t op, int grad, sw_dtype dtype)
{
    (void)device;
    (void)grad;
    return dtype == SW_F32 || op >= SW_OPS_INSIDE ||
           swi_op_traits_of(op)->halves > SWI_HALVES_NEVER;
}

static bool select_kernel(const swi_target *target, uint32_t op, int grad, sw_dtype dtype,
                          const sw_kernel_info *info, swi_selected_kernel *out)
{
    const sw_op_desc *desc = swi_op(op);
    const sw_grad_desc *g = grad >= 0 ? &desc->grads[grad] : NULL;
    size_t (*bytes)(const sw_kernel_info *) =
        g != NULL ? g->scratch_bytes : desc->scratch_bytes;
    sw_kernel *(*choose)(const sw_kernel_info *) = g != NULL ? g->select : desc->select;
    sw_kernel *plain = g != NULL ? g->kernel : desc->forward;
    if (!has(target->device, op, grad, dtype))
        return false;
    out->on_device = NULL;
    out->kernel = choose != NULL ? choose(info) : plain;
    out->scratch_bytes = bytes != NULL ? bytes(info) : 0;
    if (dtype == SW_BF16 && swi_goes_in_pieces(op, grad, info, false)) {
        out->kernel = swi_in_pieces;
        out->scratch_bytes = swi_pieces_bytes(op, grad, info, NULL, 0);
    }
    return true;
}

const swi_backend swi_backend_cpu =
    SW_INIT(.name = "cpu", .fuses_channels = true, .host_memory = true, .survives_fork = true,
            .threads = true, .image_blocks = true, .chunks = true, .share = share,
            .close = keep_open, .fault = no_fault, .say_name = say_name, .say_free = say_free,
            .store = store, .read = copy, .write = copy, .copy = copy, .zero = zero,
            .select = select_kernel, .has = has, .snapshot = &swi_snapshot_at_once);

/* ---- backend ----------------------------------------------------------------------------- */

swi_device *swi_device_share(swi_device *device)
{
    SW_ASSERT(device != NULL && device->backend != NULL);
    return device->backend->share(device);
}

void swi_device_close(swi_device *device)
{
    if (device != NULL)
        device->backend->close(device);
}

sw_status swi_device_fault(swi_device *device)
{
    return device->backend->fault(device);
}

const char *swi_device_name(const swi_device *device, char *to, size_t bytes)
{
    SW_ASSERT(bytes > 0);
    device->backend->say_name(device, to, bytes);
    return to;
}

const char *swi_device_free_text(const swi_device *device, char *to, size_t bytes)
{
    SW_ASSERT(bytes > 0);
    device->backend->say_free(device, to, bytes);
    return to;
}

sw_status swi_device_store(swi_device *device, sw_store **out, size_t bytes)
{
    return device->backend->store(device, out, bytes);
}

sw_status swi_device_read(swi_device *device, void *to, const void *from, size_t bytes)
{
    SW_ASSERT(bytes == 0 || (to != NULL && from != NULL));
    return device->backend->read(device, to, from, bytes);
}

sw_status swi_device_write(swi_device *device, void *to, const void *from, size_t bytes)
{
    SW_ASSERT(bytes == 0 || (to != NULL && from != NULL));
    return device->backend->write(device, to, from, bytes);
}

sw_status swi_device_copy(swi_device *device, void *to, const void *from, size_t bytes)
{
    SW_ASSERT(bytes == 0 || (to != NULL && from != NULL));
    return device->backend->copy(device, to, from, bytes);
}

sw_status swi_device_zero(swi_device *device, void *to, size_t bytes)
{
    SW_ASSERT(bytes == 0 || to != NULL);
    return device->backend->zero(device, to, bytes);
}

bool swi_device_has(const swi_device *device, uint32_t op, int grad)
{
    return device->backend->has(device, op, grad, SW_F32);
}
