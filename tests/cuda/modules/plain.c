/* See plain.h. Functions that no test calls are missing. */
#include "tests/cuda/modules/plain.h"
#include <stddef.h>
#include <string.h>

struct sw_cuda_device {
    int ordinal;
};
static struct sw_cuda_device cards[2] = {{0}, {1}};
static plain_state state;
static sw_cuda_host its;

SW_API plain_state *plain_module_state(void)
{
    return &state;
}

static sw_status answer(void)
{
    const sw_status status = state.answer;
    state.answer = SW_OK;
    if (status == SW_OK)
        return SW_OK;
    return its.fail(status, __FILE__, __LINE__, "planned: %d", (int)status);
}

static sw_status card_open(sw_cuda_device **out, int ordinal)
{
    if (ordinal >= 2)
        return its.fail(SW_DEVICE, __FILE__, __LINE__, "there is no device cuda:%d", ordinal);
    state.opens++;
    *out = &cards[ordinal];
    return SW_OK;
}

static void card_close(sw_cuda_device *device)
{
    (void)device;
    state.closes++;
}

static sw_status card_info(sw_cuda_device *device, sw_cuda_info *out)
{
    *out = (sw_cuda_info){.name = "plain", .major = 8, .minor = device->ordinal};
    return SW_OK;
}

static sw_status card_sync(sw_cuda_device *device)
{
    (void)device;
    state.syncs++;
    return SW_OK;
}

static sw_status queue_create(sw_cuda_device *device, sw_cuda_queue *out, bool compute,
                              uint32_t flags)
{
    (void)compute;
    *out = (sw_cuda_queue){.stream = device, .flags = flags, .device = device};
    state.queues++;
    return SW_OK;
}

static void queue_destroy(sw_cuda_device *device, sw_cuda_queue *queue)
{
    (void)device;
    queue->stream = NULL;
    state.queues--;
}

static sw_status queue_sync(sw_cuda_device *device, const sw_cuda_queue *queue)
{
    return queue->device == device ? SW_OK : SW_INVALID;
}

static sw_status copy(const sw_cuda_queue *queue, void *to, const void *from, size_t bytes,
                      sw_cuda_way way)
{
    (void)queue;
    (void)way;
    SW_TRY(answer());
    memcpy(to, from, bytes);
    return SW_OK;
}

static sw_status fill(const sw_cuda_queue *queue, void *to, int byte, size_t bytes)
{
    (void)queue;
    SW_TRY(answer());
    memset(to, byte, bytes);
    return SW_OK;
}

static sw_status nothing(const sw_launch *launch, const sw_cuda_queue *queue)
{
    (void)launch;
    (void)queue;
    return SW_OK;
}

static const sw_cuda_entry entries[] = {
    {"tanh", SW_CUDA_FORWARD, nothing, NULL, 1},
    {"tanh", 0, nothing, NULL, 1},
    {"relu", 1, nothing, NULL, 1},
};

static const sw_cuda_fusion fusions[] = {{"tanh", "relu", NULL, NULL}};

static const sw_cuda_api api = {.open = card_open,
                                .close = card_close,
                                .info = card_info,
                                .sync = card_sync,
                                .queue_create = queue_create,
                                .queue_destroy = queue_destroy,
                                .queue_sync = queue_sync,
                                .copy = copy,
                                .fill = fill};

const sw_cuda_module *sw_cuda_module_open(const sw_cuda_host *host)
{
    static const sw_cuda_module module = {
        SW_CUDA_ABI, sizeof module, sizeof *entries, sizeof entries / sizeof *entries, entries,
        sizeof api,  &api,          sizeof *fusions, sizeof fusions / sizeof *fusions, fusions};
    if (host == NULL || host->abi != SW_CUDA_ABI || host->size != sizeof *host)
        return NULL;
    its = *host;
    return &module;
}
