/* Writing tensors: the data are read once for the checksums, which stand in the header, and
 * once more after it. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "profiler/record/utf8.h"
#include "runtime/base/checksum.h"
#include "runtime/state/tensor_internal.h"
#include <string.h>

typedef struct {
    const swi_tensor_list *list;
    const swi_tensors_note *notes;
    uint32_t n_notes;
    uint64_t *sums; /* in the order of the file; NULL: without checksums */
} writing;

const char *swi_tensors_dtype(sw_dtype dtype)
{
    static const char *const names[] = {"F32", "F64", "BF16", "I32", "U8", "U16"};
    return names[dtype];
}

/* The tensor that follows `i` in the file; n of the list is before the first, and the
 * answer after the last. The widest types come first, so that each tensor is aligned to its
 * type; else they come in the list's order. */
static uint32_t next_of(const swi_tensor_list *list, uint32_t i)
{
    size_t width = i == list->n ? 8 : sw_dtype_bytes(list->at[i].dtype);
    for (uint32_t k = i == list->n ? 0 : i + 1; width > 0; width /= 2, k = 0)
        for (; k < list->n; k++)
            if (sw_dtype_bytes(list->at[k].dtype) == width)
                return k;
    return list->n;
}

static uint64_t bytes_of(const swi_tensor *tensor)
{
    return (uint64_t)tensor->part_bytes * tensor->n_parts;
}

/* ---- what can be written ----------------------------------------------------------------- */

static sw_status check_notes(const writing *w)
{
    for (uint32_t i = 0; i < w->n_notes; i++) {
        const swi_tensors_note *note = &w->notes[i];
        if (!sw_utf8_whole(note->key) || !sw_utf8_whole(note->text) ||
            strcmp(note->key, "format") == 0 || strcmp(note->key, SWI_KEY_CHECKSUMS) == 0 ||
            strcmp(note->key, SWI_KEY_HEADER) == 0)
            SW_FAIL(SW_INVALID, "a safetensors file cannot hold the note '%s'", note->key);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(note->key, w->notes[k].key) == 0)
                SW_FAIL(SW_INVALID, "the note '%s' is there twice", note->key);
    }
    return SW_OK;
}

/* Names of our own promise checksums. */
static sw_status check_sums(const writing *w)
{
    bool own = false;
    for (uint32_t i = 0; i < w->n_notes; i++)
        own |= swi_is_own(w->notes[i].key);
    for (uint32_t i = 0; i < w->list->n; i++)
        own |= swi_is_own(w->list->at[i].name);
    if (own && !swi_checksum_there())
        SW_FAIL(SW_UNSUPPORTED, "a checkpoint needs checksums: built without libxxhash");
    return SW_OK;
}

static sw_status check(const writing *w)
{
    const swi_tensor_list *list = w->list;
    if (list->n > SWI_ST_TENSORS_MAX)
        SW_FAIL(SW_INVALID, "a file has at most %d tensors (got %u)", SWI_ST_TENSORS_MAX,
                list->n);
    uint64_t all = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        size_t bytes;
        if (!sw_size_mul(list->at[i].part_bytes, list->at[i].n_parts, &bytes) ||
            __builtin_add_overflow(all, bytes, &all) || all > INT64_MAX)
            SW_FAIL(SW_INVALID, "'%s': %u times %zu bytes are too many for a file",
                    list->at[i].name, list->at[i].n_parts, list->at[i].part_bytes);
        if (swi_tensor_stacked(&list->at[i]) && list->at[i].shape.rank == SW_MAX_RANK)
            SW_FAIL(SW_INVALID, "'%s' has %d dims, and no place for one more", list->at[i].name,
                    list->at[i].shape.rank);
    }
    SW_TRY(check_notes(w));
    return check_sums(w);
}

/* ---- the header -------------------------------------------------------------------------- */

static void put_tensor(swi_st_text *text, const swi_tensor *tensor, uint64_t *at)
{
    int64_t dim[SW_MAX_RANK];
    int rank = 0;
    if (swi_tensor_stacked(tensor))
        dim[rank++] = tensor->n_parts;
    for (int i = 0; i < tensor->shape.rank; i++)
        dim[rank++] = tensor->shape.dim[i];
    swi_st_add(text, tensor->name, swi_tensors_dtype(tensor->dtype), dim, rank, *at,
               *at + bytes_of(tensor));
    *at += bytes_of(tensor);
}

/* Returns where the digits of the header's own checksum lie. The keys of checksums come first:
 * no sector that is lost takes both of them and leaves the file's beginning as it was. */
static size_t put_header(const writing *w, swi_st_text *text)
{
    static const uint64_t zero = 0;
    size_t own = 0;
    uint64_t at = 0;
    swi_st_begin(text);
    if (w->sums != NULL) {
        own = swi_st_note_hex(text, SWI_KEY_HEADER, &zero, 1);
        (void)swi_st_note_hex(text, SWI_KEY_CHECKSUMS, w->sums, w->list->n);
    }
    for (uint32_t i = 0; i < w->n_notes; i++)
        swi_st_note(text, w->notes[i].key, w->notes[i].text);
    swi_st_end_notes(text);
    for (uint32_t i = next_of(w->list, w->list->n); i < w->list->n; i = next_of(w->list, i))
        put_tensor(text, &w->list->at[i], &at);
    swi_st_end(text);
    return own;
}

static sw_status count_header(const writing *w, size_t *bytes)
{
    swi_st_text text = {NULL, 0};
    (void)put_header(w, &text);
    if (text.bytes > SWI_ST_HEADER_MAX)
        SW_FAIL(SW_INVALID, "the header of %u tensors must have at most %zu bytes (it has %zu)",
                w->list->n, SWI_ST_HEADER_MAX, text.bytes);
    *bytes = text.bytes;
    return SW_OK;
}

/* ---- data -------------------------------------------------------------------------------- */

/* Parts in host memory. Small ones are gathered, so that a file has few writes. */
static sw_status pour_memory(const swi_tensor *tensor, swi_take_piece *take, void *context)
{
    unsigned char block[16384];
    const size_t bytes = tensor->part_bytes;
    size_t used = 0;
    if (tensor->places == NULL && (tensor->stride == bytes || tensor->n_parts == 1))
        return take(context, tensor->at, 0, bytes * tensor->n_parts);
    for (uint32_t k = 0; k < tensor->n_parts; k++) {
        if (bytes > sizeof block / 2) {
            SW_TRY(take(context, swi_tensor_part(tensor, k), 0, bytes));
            continue;
        }
        memcpy(block + used, swi_tensor_part(tensor, k), bytes);
        used += bytes;
        if (bytes > sizeof block - used || k + 1 == tensor->n_parts) {
            SW_TRY(take(context, block, 0, used));
            used = 0;
        }
    }
    return SW_OK;
}

sw_status swi_tensor_pour(const swi_tensor *tensor, swi_take_piece *take, void *context)
{
    if (tensor->at != NULL)
        return pour_memory(tensor, take, context);
    for (uint32_t k = 0; k < tensor->n_parts; k++)
        SW_TRY(swi_model_pour(tensor->models[k], tensor->offset, tensor->part_bytes, take,
                              context));
    return SW_OK;
}

static sw_status add_piece(void *sum, const void *bytes, size_t at, size_t n)
{
    (void)at; /* they come in order, here and below */
    swi_checksum_add(sum, bytes, n);
    return SW_OK;
}

static sw_status write_piece(void *file, const void *bytes, size_t at, size_t n)
{
    (void)at;
    return n > 0 ? sw_file_write(file, bytes, n) : SW_OK;
}

static sw_status sum_all(const writing *w)
{
    uint64_t *to = w->sums;
    for (uint32_t i = next_of(w->list, w->list->n); i < w->list->n; i = next_of(w->list, i)) {
        swi_checksum sum;
        swi_checksum_begin(&sum);
        SW_TRY(swi_tensor_pour(&w->list->at[i], add_piece, &sum));
        *to++ = swi_checksum_end(&sum);
    }
    return SW_OK;
}

static sw_status write_header(const writing *w, sw_file *file)
{
    size_t bytes;
    void *block;
    SW_TRY(count_header(w, &bytes));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, bytes));
    swi_st_text text = {block, 0};
    const size_t own = put_header(w, &text);
    if (w->sums != NULL)
        swi_st_hex(text.to + own, swi_checksum_of(block, bytes));
    const uint64_t length = bytes;
    sw_status status = sw_file_write(file, &length, sizeof length);
    if (status == SW_OK)
        status = sw_file_write(file, block, bytes);
    sw_heap_free(block, SW_HEAP_FILES, bytes);
    return status;
}

static sw_status write_all(const writing *w, sw_file *file)
{
    if (w->sums != NULL)
        SW_TRY(sum_all(w));
    SW_TRY(write_header(w, file));
    for (uint32_t i = next_of(w->list, w->list->n); i < w->list->n; i = next_of(w->list, i))
        SW_TRY(swi_tensor_pour(&w->list->at[i], write_piece, file));
    return SW_OK;
}

sw_status swi_tensors_write(sw_file *file, const swi_tensor_list *list,
                            const swi_tensors_note *notes, uint32_t n_notes)
{
    writing w = {list, notes, n_notes, NULL};
    const size_t bytes = list->n * sizeof *w.sums;
    void *block = NULL;
    SW_TRY(check(&w));
    if (swi_checksum_there()) {
        SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, bytes));
        w.sums = block;
    }
    const sw_status status = write_all(&w, file);
    sw_heap_free(block, SW_HEAP_FILES, bytes);
    return status;
}

sw_status swi_tensors_bytes(const swi_tensor_list *list, const swi_tensors_note *notes,
                            uint32_t n_notes, uint64_t *out)
{
    writing w = {list, notes, n_notes, NULL};
    const size_t bytes = list->n * sizeof *w.sums;
    size_t header = 0;
    void *block = NULL;
    SW_TRY(check(&w));
    if (swi_checksum_there()) { /* digits of zeros are as many as any */
        SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, bytes));
        w.sums = block;
    }
    const sw_status status = count_header(&w, &header);
    sw_heap_free(block, SW_HEAP_FILES, bytes);
    SW_TRY(status);
    *out = sizeof(uint64_t) + header;
    for (uint32_t i = 0; i < list->n; i++)
        *out += bytes_of(&list->at[i]);
    return SW_OK;
}
