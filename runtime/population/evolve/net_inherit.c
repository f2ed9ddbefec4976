/* sw_net_inherit: models of nets, wherever they lie. */
#include "alloc/base/assert.h"
#include "runtime/device/device.h"
#include "runtime/model/model_bytes.h"
#include "runtime/population/evolve/net.h"
#include <string.h>

/* The bytes of a model in host memory: its own, or a copy of a device's. */
typedef struct {
    unsigned char *bytes;
    void *copy; /* NULL: they are its own */
} host_bytes;

static bool is_on_host(const sw_model *model)
{
    return model->device->backend->host_memory;
}

static sw_status open_bytes(const sw_model *model, bool read, host_bytes *out)
{
    *out = (host_bytes){.bytes = model->base};
    if (is_on_host(model))
        return SW_OK;
    SW_TRY(sw_heap_alloc(&out->copy, SW_HEAP_FILES, model->bytes));
    out->bytes = out->copy;
    return read ? swi_model_read(model, out->bytes, 0, model->bytes) : SW_OK;
}

static void close_bytes(const sw_model *model, host_bytes *b)
{
    if (b->copy != NULL)
        sw_heap_free(b->copy, SW_HEAP_FILES, model->bytes);
}

static sw_status inherit(const sw_net *to, unsigned char *bytes, const sw_net *a,
                         const sw_net *b, uint64_t seed)
{
    host_bytes of_a = {NULL, NULL}, of_b = {NULL, NULL};
    sw_status status = open_bytes(a->model, true, &of_a);
    if (status == SW_OK && b != NULL)
        status = open_bytes(b->model, true, &of_b);
    if (status == SW_OK)
        status = swi_net_inherit(to, bytes, a, of_a.bytes, b, of_b.bytes, seed);
    close_bytes(a->model, &of_a);
    if (b != NULL)
        close_bytes(b->model, &of_b);
    return status;
}

/* On a device the whole is written at once; one that fails then leaves `to` damaged. */
static sw_status inherit_into(sw_net *to, const sw_net *a, const sw_net *b, uint64_t seed)
{
    host_bytes own;
    sw_status status = open_bytes(to->model, false, &own);
    if (status == SW_OK)
        status = inherit(to, own.bytes, a, b, seed);
    if (status == SW_OK && own.copy != NULL) {
        status = swi_model_write(to->model, 0, own.bytes, to->model->bytes);
        to->model->damaged |= status != SW_OK;
    }
    close_bytes(to->model, &own);
    SW_TRY(status);
    if (to->model->n_knobs > 0)
        swi_knobs_changed(to->model);
    to->model->damaged = false;
    return SW_OK;
}

static sw_status check_net(const sw_net *net, bool whole, const char *what, const char *call)
{
    SW_TRY(sw_handle_check(net, SW_HANDLE_NET, call));
    if (!net->model->ready)
        SW_FAIL(SW_INVALID, "%s: the model of %s, %s, must be ready: call sw_model_ready first",
                call, what, net->model->name);
    if (whole && net->model->damaged)
        SW_FAIL(SW_STALE, "%s: the model of %s, %s, failed after an update; restore it first",
                call, what, net->model->name);
    return SW_OK;
}

/* The models of all of them, each once. */
static sw_status take(sw_net *const nets[3], int *n)
{
    for (*n = 0; *n < 3; (*n)++) {
        const sw_net *net = nets[*n];
        if (net == NULL || (*n == 2 && net == nets[1]))
            continue;
        SW_TRY(swi_model_take(net->model));
    }
    return SW_OK;
}

static void give(sw_net *const nets[3], int n)
{
    for (int i = 0; i < n; i++)
        if (nets[i] != NULL && !(i == 2 && nets[2] == nets[1]))
            swi_model_give(nets[i]->model);
}

sw_status sw_net_inherit(sw_net *to, const sw_net *a, const sw_net *b, uint64_t seed)
{
    static const char call[] = "sw_net_inherit";
    int n;
    SW_TRY(check_net(to, false, "the net that inherits", call));
    SW_TRY(check_net(a, true, "a", call));
    SW_TRY(b != NULL ? check_net(b, true, "b", call) : SW_OK);
    if (to == a || to == b)
        SW_FAIL(SW_INVALID, "%s: a net cannot be its own parent", call);
    sw_net *const nets[3] = {to, (sw_net *)(uintptr_t)a, (sw_net *)(uintptr_t)b};
    sw_status status = take(nets, &n);
    if (status == SW_OK)
        status = inherit_into(to, a, b, seed);
    give(nets, n);
    return status;
}

/* ---- first values ------------------------------------------------------------------------ */

sw_status swi_net_fill(sw_net *net, const unsigned char *bytes, size_t n)
{
    sw_model *model = net->model;
    SW_ASSERT(model->bytes == n);
    SW_TRY(swi_model_write(model, 0, bytes, n));
    const swi_entry *knobs = model->n_knobs > 0 ? &model->entries[model->knob_entry] : NULL;
    for (uint32_t i = 0; i < model->n_knobs; i++) {
        memcpy(&model->knobs[i].value, bytes + knobs->offset + i * sizeof(uint32_t),
               sizeof(uint32_t));
        swi_knob_accept(model, i);
    }
    if (model->n_knobs > 0)
        swi_knobs_changed(model);
    return SW_OK;
}

static sw_status begin(sw_net *net, sw_exec *exec, uint64_t seed, unsigned char *bytes)
{
    SW_TRY(sw_model_ready(net->model, exec, seed));
    SW_TRY(swi_net_begin(net, bytes, seed));
    SW_TRY(swi_model_take(net->model));
    const sw_status status = swi_net_fill(net, bytes, net->model->bytes);
    swi_model_give(net->model);
    return status;
}

sw_status sw_net_ready(sw_net *net, sw_exec *exec, uint64_t seed)
{
    void *bytes;
    size_t n;
    SW_TRY(sw_handle_check(net, SW_HANDLE_NET, "sw_net_ready"));
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, "sw_net_ready"));
    SW_TRY(sw_model_bytes(net->model, &n));
    SW_TRY(sw_heap_alloc(&bytes, SW_HEAP_FILES, n));
    const sw_status status = begin(net, exec, seed, bytes);
    sw_heap_free(bytes, SW_HEAP_FILES, n);
    return status;
}
