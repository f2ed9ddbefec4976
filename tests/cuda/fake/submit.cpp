/* Launches of the emulator as work of the fake's streams. */
#include "internal.h"
#include <cuda_emulator.h>
#include <stdio.h>

namespace
{
struct alignas(16) kernel { /* so that what lies after it is aligned */
    swi_emu_launch_info info;
    char name[96];
    void (*run)(void *body);
    size_t bytes; /* the body lies after this struct */
};

cudaError_t run_kernel(swi_work *work)
{
    kernel *k = static_cast<kernel *>(work->body);
    k->info.kernel = k->name;
    swi_emu_clear();
    const cudaError_t error = swi_emu_run(&k->info, k->run, k + 1);
    if (error != cudaSuccess)
        swi_fake_violation("%s", swi_emu_error());
    return error;
}

/* A word of a parameter: an address of the card's, one of the host's, or a number. Where
 * padding was not cleared it may hold half of an old address: structs are then believed only as
 * far as they point to memory. */
void look_at(const swi_emu_launch_info *info, uint64_t word, bool is_pointer,
             sw_fake_launch *out)
{
    const void *at = reinterpret_cast<const void *>(word);
    const bool sure = is_pointer || info->no_padding;
    if (swi_fake_in_window(at)) {
        const bool there = swi_fake_there(at, 1);
        if (!there && sure)
            swi_fake_violation("%s is given %p, where the card has no memory", info->kernel,
                               at);
        if (there && out->n < SW_FAKE_POINTERS)
            out->pointer[out->n++] = at;
    } else if (sure && word != 0 && !swi_fake_pinned(at, 1) &&
               (is_pointer || swi_fake_on_host(word))) {
        swi_fake_violation("%s is given %p, which is no memory of the card", info->kernel, at);
    }
}

void note(const swi_emu_launch_info *info, bool captured)
{
    sw_fake_launch l = {};
    snprintf(l.kernel, sizeof l.kernel, "%s", info->kernel);
    const dim3 sizes[2] = {info->grid, info->block};
    unsigned *to[2] = {l.grid, l.block};
    for (int i = 0; i < 2; i++)
        to[i][0] = sizes[i].x, to[i][1] = sizes[i].y, to[i][2] = sizes[i].z;
    l.shared_bytes = info->shared_bytes;
    l.captured = captured;
    for (int i = 0; i < info->n; i++)
        for (size_t k = 0; k + 8 <= info->bytes[i]; k += 8) {
            uint64_t word;
            memcpy(&word, static_cast<const char *>(info->at[i]) + k, sizeof word);
            look_at(info, word, info->is_pointer[i], &l);
        }
    swi_fake_log(&l);
}

cudaError_t submit(const swi_emu_launch_info *info, void (*run)(void *body), const void *body,
                   size_t bytes)
{
    cudaStream_t stream = static_cast<cudaStream_t>(info->stream);
    cudaError_t error = swi_stream_of(&stream);
    if (error == cudaSuccess && stream->card != swi_fake_current())
        error = cudaErrorInvalidResourceHandle; /* of another card than the thread's */
    swi_emu_clear();
    if (error == cudaSuccess)
        error = swi_emu_can_be(info);
    if (error != cudaSuccess)
        return error;
    note(info, stream->capture != nullptr);
    swi_work *work = swi_work_new(SWI_KERNEL, sizeof(kernel) + bytes);
    kernel *k = static_cast<kernel *>(work->body);
    k->info = *info;
    k->info.n = 0;
    snprintf(k->name, sizeof k->name, "%s", info->kernel);
    k->run = run;
    k->bytes = bytes;
    memcpy(static_cast<void *>(k + 1), body, bytes);
    work->run = run_kernel;
    work->cost_ns = 2000 + 100 * (uint64_t)info->grid.x;
    swi_fake.counts.launches += stream->capture == nullptr;
    if (stream->capture == nullptr && swi_fake.seed == 0)
        swi_fake_hold_memory();
    return swi_stream_put(stream, work);
}
} // namespace

void swi_emu_submit(const swi_emu_launch_info *info, void (*run)(void *body), const void *body,
                    size_t body_bytes)
{
    cudaError_t error = swi_fake_enter(SWI_FN_launch);
    if (error == cudaSuccess)
        error = submit(info, run, body, body_bytes);
    (void)swi_fake_leave(error);
}
