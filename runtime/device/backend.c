/* Calls on a device, by the table of its backend. */
#include "alloc/base/assert.h"
#include "runtime/device/device.h"

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
