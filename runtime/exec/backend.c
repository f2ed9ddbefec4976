/* Calls by the table of an exec's backend that it need not have. */
#include "runtime/exec/backend.h"
#include "alloc/base/assert.h"
#include "alloc/base/error.h"
#include "runtime/device/backend.h"
#include "runtime/device/device.h"

sw_status swi_exec_collective(sw_exec *exec, const char *name, void *data, sw_dtype dtype,
                              int64_t n)
{
    SW_ASSERT(name != NULL && n >= 0 && (data != NULL || n == 0));
    if (exec->backend->collective == NULL)
        SW_FAIL(SW_UNSUPPORTED, "%s: not supported on %s for %s", name,
                exec->target.device->backend->name, sw_dtype_name(dtype));
    return exec->backend->collective(exec, name, data, dtype, n);
}
