/* Where host code and the memory of models meet. */
#include "alloc/base/assert.h"
#include "runtime/model/model_bytes.h"
#include "runtime/device/device.h"

static unsigned char *range_of(const sw_model *model, size_t offset, size_t bytes)
{
    SW_ASSERT(bytes == 0 || model->base != NULL);
    SW_ASSERT(offset <= model->bytes && bytes <= model->bytes - offset);
    (void)bytes;
    return model->base + offset;
}

sw_status swi_model_read(const sw_model *model, void *to, size_t offset, size_t bytes)
{
    return swi_device_read(model->device, to, range_of(model, offset, bytes), bytes);
}

sw_status swi_model_write(sw_model *model, size_t offset, const void *from, size_t bytes)
{
    return swi_device_write(model->device, range_of(model, offset, bytes), from, bytes);
}

sw_status swi_model_zero(sw_model *model, size_t offset, size_t bytes)
{
    return swi_device_zero(model->device, range_of(model, offset, bytes), bytes);
}

/* Pieces of [0, bytes): the first failure ends them. */
typedef struct {
    void *block;
    size_t bytes, all;
    size_t at, n; /* of the present one */
} pieces;

static sw_status pieces_begin(pieces *p, size_t all)
{
    *p = (pieces){.bytes = all < SWI_PIECE_BYTES ? all : SWI_PIECE_BYTES, .all = all};
    return sw_heap_alloc(&p->block, SW_HEAP_FILES, p->bytes);
}

static bool pieces_next(pieces *p)
{
    p->at += p->n;
    p->n = p->all - p->at < p->bytes ? p->all - p->at : p->bytes;
    return p->n > 0;
}

static void pieces_end(pieces *p)
{
    sw_heap_free(p->block, SW_HEAP_FILES, p->bytes);
}

sw_status swi_model_pour(const sw_model *model, size_t offset, size_t bytes,
                         swi_take_piece *take, void *context)
{
    if (model->device->backend->host_memory)
        return take(context, model->base + offset, 0, bytes);
    pieces p;
    sw_status status = SW_OK;
    SW_TRY(pieces_begin(&p, bytes));
    while (status == SW_OK && pieces_next(&p)) {
        status = swi_model_read(model, p.block, offset + p.at, p.n);
        if (status == SW_OK)
            status = take(context, p.block, p.at, p.n);
    }
    pieces_end(&p);
    return status;
}

sw_status swi_model_fill(sw_model *model, size_t offset, size_t bytes, swi_make_piece *make,
                         void *context)
{
    if (model->device->backend->host_memory)
        return make(context, model->base + offset, 0, bytes);
    pieces p;
    sw_status status = SW_OK;
    SW_TRY(pieces_begin(&p, bytes));
    while (status == SW_OK && pieces_next(&p)) {
        status = make(context, p.block, p.at, p.n);
        if (status == SW_OK)
            status = swi_model_write(model, offset + p.at, p.block, p.n);
    }
    model->damaged |= status != SW_OK && (p.at > 0 || status == SW_DEVICE);
    pieces_end(&p);
    return status;
}

static sw_status read_piece(void *from, void *bytes, size_t at, size_t n)
{
    return swi_model_read(from, bytes, at, n);
}

sw_status swi_model_copy_bytes(sw_model *to, const sw_model *from)
{
    sw_status status;
    if (from->device->backend->host_memory)
        status = swi_model_write(to, 0, from->base, from->bytes);
    else if (to->device->backend->host_memory)
        status = swi_model_read(from, to->base, 0, from->bytes);
    else if (to->device == from->device)
        status = swi_device_copy(to->device, to->base, from->base, from->bytes);
    else /* from card to card */
        status = swi_model_fill(to, 0, to->bytes, read_piece, (void *)(uintptr_t)from);
    to->damaged |= status == SW_DEVICE;
    return status;
}
