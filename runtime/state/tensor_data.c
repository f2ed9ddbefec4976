/* The data of a file of tensors: read once and held against the checksums, given out, or put
 * into models. A model whose numbers were only drawn takes them as they are read, for they are
 * drawn again where something fails. All other data are read before anything changes: what goes
 * to host memory into a block, the rest through a small one. Then what is on a device is
 * written, which can still fail, then memory, which cannot. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "kernels/halves.h"
#include "profiler/record/utf8.h"
#include "runtime/base/checksum.h"
#include "runtime/device/device.h"
#include "runtime/state/tensor_internal.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Writing tensors: the data are read once for the checksums, which stand in the header, and
 * once more after it. */

typedef struct {
    const swi_tensor_list *list;
    const swi_tensors_note *notes;
    uint32_t n_notes;
    uint64_t *sums; /* in the order of the file */
} writing;

/* "F32" ... "U8". */
static const char *tensors_dtype(sw_dtype dtype)
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
    for (uint32_t m = 0; m < w->n_notes; m++) {
        const swi_tensors_note *note = &w->notes[m];
        if (!sw_utf8_whole(note->key) || !sw_utf8_whole(note->text) ||
            strcmp(note->key, "format") == 0 || strcmp(note->key, SWI_KEY_CHECKSUMS) == 0 ||
            strcmp(note->key, SWI_KEY_HEADER) == 0)
            SW_FAIL(SW_INVALID, "a safetensors file cannot hold the note '%s'", note->key);
        for (uint32_t k = 0; k < m; k++)
            if (strcmp(note->key, w->notes[k].key) == 0)
                SW_FAIL(SW_INVALID, "the note '%s' is there twice", note->key);
    }
    return SW_OK;
}

/* ---- the header -------------------------------------------------------------------------- */

/* Text that is counted when `to` is NULL and written otherwise. */
typedef struct {
    char *to;
    size_t bytes;
} header_text;

static void put(header_text *text, const char *from, size_t bytes)
{
    if (text->to != NULL)
        memcpy(text->to + text->bytes, from, bytes);
    text->bytes += bytes;
}

__attribute__((format(printf, 2, 3))) static void putf(header_text *text, const char *format,
                                                       ...)
{
    char piece[256];
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(piece, sizeof piece, format, list);
    va_end(list);
    SW_ASSERT(n >= 0 && (size_t)n < sizeof piece);
    put(text, piece, (size_t)n);
}

static void put_string(header_text *text, const char *from)
{
    put(text, "\"", 1);
    for (; *from != '\0'; from++) {
        const unsigned char c = (unsigned char)*from;
        if (c < 0x20)
            putf(text, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            putf(text, "\\%c", c);
        else
            put(text, from, 1);
    }
    put(text, "\"", 1);
}

/* In a file, parts are a dim before the shape. */
static int shape_of(const swi_tensor *tensor, int64_t *dim)
{
    int rank = 0;
    if (swi_tensor_stacked(tensor))
        dim[rank++] = tensor->n_parts;
    for (int i = 0; i < tensor->shape.rank; i++)
        dim[rank++] = tensor->shape.dim[i];
    return rank;
}

/* The metadata, "format" first, then the tensors; padded with spaces, so that the data after it
 * begin at a multiple of 64. Returns where the digits of the header's own checksum lie. The
 * keys of checksums come first: no sector that is lost takes both of them and leaves the file's
 * beginning as it was. */
static size_t put_header(const writing *w, header_text *text)
{
    uint64_t at = 0;
    text->bytes = 0;
    putf(text, "{\"__metadata__\":{\"format\":\"pt\",\"" SWI_KEY_HEADER "\":\"");
    const size_t own = text->bytes;
    putf(text, "%016d\",\"" SWI_KEY_CHECKSUMS "\":\"", 0);
    for (uint32_t i = 0; i < w->list->n; i++)
        putf(text, "%016" PRIx64, w->sums[i]);
    putf(text, "\"");
    for (uint32_t i = 0; i < w->n_notes; i++) {
        putf(text, ",");
        put_string(text, w->notes[i].key);
        putf(text, ":");
        put_string(text, w->notes[i].text);
    }
    putf(text, "}");
    for (uint32_t i = next_of(w->list, w->list->n); i < w->list->n; i = next_of(w->list, i)) {
        const swi_tensor *tensor = &w->list->at[i];
        const uint64_t end = at + bytes_of(tensor);
        int64_t dim[SW_MAX_RANK];
        const int rank = shape_of(tensor, dim);
        putf(text, ",");
        put_string(text, tensor->name);
        putf(text, ":{\"dtype\":\"%s\",\"shape\":[", tensors_dtype(tensor->dtype));
        for (int d = 0; d < rank; d++)
            putf(text, "%s%" PRId64, d > 0 ? "," : "", dim[d]);
        putf(text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, end);
        at = end;
    }
    putf(text, "}");
    while ((text->bytes + 8) % 64 != 0) /* 8: the length before it */
        putf(text, " ");
    return own;
}

static sw_status count_header(const writing *w, size_t *bytes)
{
    header_text text = {NULL, 0};
    (void)put_header(w, &text);
    if (text.bytes > SWI_ST_HEADER_MAX)
        SW_FAIL(SW_INVALID, "the header of %u tensors must have at most %zu bytes (it has %zu)",
                w->list->n, SWI_ST_HEADER_MAX, text.bytes);
    *bytes = text.bytes;
    return SW_OK;
}

/* ---- data -------------------------------------------------------------------------------- */

/* Give away the bytes of a tensor, wherever they lie, in order and in pieces of whole
 * elements. */
static sw_status tensor_pour(const swi_tensor *tensor, swi_take_piece *take, void *context)
{
    if (tensor->pour != NULL)
        return tensor->pour(tensor->owner, take, context);
    if (tensor->at != NULL) {
        /* Parts in host memory. Small ones are gathered, so that a file has few writes. */
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
    for (uint32_t k = 0; k < tensor->n_parts; k++)
        SW_TRY(swi_model_pour(tensor->models[k], tensor->offset, tensor->part_bytes, take,
                              context));
    return SW_OK;
}

static sw_status write_piece(void *file, const void *bytes, size_t at, size_t n)
{
    (void)at; /* they come in order */
    return n > 0 ? sw_file_write(file, bytes, n) : SW_OK;
}

static sw_status write_all(const writing *w, sw_file *file)
{
    uint64_t *to = w->sums;
    for (uint32_t i = next_of(w->list, w->list->n); i < w->list->n; i = next_of(w->list, i)) {
        swi_checksum sum;
        swi_checksum_begin(&sum);
        SW_TRY(tensor_pour(&w->list->at[i], swi_checksum_piece, &sum));
        *to++ = swi_checksum_end(&sum);
    }
    size_t bytes;
    void *block;
    SW_TRY(count_header(w, &bytes));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, bytes));
    header_text text = {block, 0};
    const size_t own = put_header(w, &text);
    char digits[17];
    snprintf(digits, sizeof digits, "%016" PRIx64, swi_checksum_of(block, bytes));
    memcpy(text.to + own, digits, 16);
    const uint64_t length = bytes;
    sw_status status = sw_file_write(file, &length, sizeof length);
    if (status == SW_OK)
        status = sw_file_write(file, block, bytes);
    sw_heap_free(block, SW_HEAP_FILES, bytes);
    SW_TRY(status);
    for (uint32_t i = next_of(w->list, w->list->n); i < w->list->n; i = next_of(w->list, i))
        SW_TRY(tensor_pour(&w->list->at[i], write_piece, file));
    return SW_OK;
}

sw_status swi_tensors_write(sw_file *file, const swi_tensor_list *list,
                            const swi_tensors_note *notes, uint32_t n_notes)
{
    writing w = {list, notes, n_notes, NULL};
    const size_t bytes = list->n * sizeof *w.sums;
    void *block = NULL;
    SW_TRY(check(&w));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, bytes));
    w.sums = block;
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
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, bytes)); /* digits of zeros are as many */
    w.sums = block;
    const sw_status status = count_header(&w, &header);
    sw_heap_free(block, SW_HEAP_FILES, bytes);
    SW_TRY(status);
    *out = sizeof(uint64_t) + header;
    for (uint32_t i = 0; i < list->n; i++)
        *out += bytes_of(&list->at[i]);
    return SW_OK;
}

/* ---- tensor file load -------------------------------------------------------------------- */

#define TEXT 160

static sw_status seek_to(swi_tensors *file, const swi_tensors_entry *entry)
{
    return sw_file_seek(file->file, file->data_begin + entry->begin);
}

/* Compare the checksum of a tensor's bytes with the one that they must have. SW_FORMAT names
 * tensor and range. */
static sw_status tensors_check(const swi_tensors *file, const swi_tensors_entry *entry,
                               uint64_t got)
{
    char name[TEXT];
    if (got == entry->checksum)
        return SW_OK;
    sw_utf8_clean(name, sizeof name, entry->name);
    SW_FAIL(SW_FORMAT,
            "%s: '%s', bytes %" PRIu64 " to %" PRIu64 ", is damaged: checksum %016" PRIx64
            ", must be %016" PRIx64,
            swi_tensors_path(file), name, file->data_begin + entry->begin,
            file->data_begin + entry->end, got, entry->checksum);
}

/* ---- checking ---------------------------------------------------------------------------- */

/* The data of a tensor, which come next in the file, through a block. */
static sw_status pass_over(swi_tensors *file, const swi_tensors_entry *entry, void *block,
                           size_t room)
{
    swi_checksum sum;
    const bool sums = file->has_checksums;
    if (sums)
        swi_checksum_begin(&sum);
    for (uint64_t left = entry->end - entry->begin; left > 0;) {
        const size_t n = left < room ? (size_t)left : room;
        SW_TRY(swi_tensors_get(file, block, n));
        if (sums)
            swi_checksum_add(&sum, block, n);
        left -= n;
    }
    return sums ? tensors_check(file, entry, swi_checksum_end(&sum)) : SW_OK;
}

/* A block for the largest tensor, or SWI_VERIFY_BYTES. */
static size_t room_for(const swi_tensors *file)
{
    return file->data_bytes < SWI_VERIFY_BYTES ? (size_t)file->data_bytes : SWI_VERIFY_BYTES;
}

/* n entries whose data follow each other from `begin` on. */
static sw_status verify(swi_tensors *file, const swi_tensors_entry *entries, uint32_t n,
                        uint64_t begin)
{
    if (!file->has_checksums)
        return SW_OK;
    void *block;
    const size_t room = room_for(file);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, room));
    sw_status status = sw_file_seek(file->file, file->data_begin + begin);
    for (uint32_t i = 0; i < n && status == SW_OK; i++)
        status = pass_over(file, &entries[i], block, room);
    sw_heap_free(block, SW_HEAP_FILES, room);
    return status;
}

sw_status swi_tensors_verify(swi_tensors *file)
{
    return verify(file, file->entries, file->n, 0);
}

sw_status swi_tensors_verify_one(swi_tensors *file, const swi_tensors_entry *entry)
{
    return verify(file, entry, 1, entry->begin);
}

sw_status swi_tensors_read_part(swi_tensors *file, const swi_tensors_entry *entry, uint64_t at,
                                void *to, size_t bytes)
{
    const uint64_t all = entry->end - entry->begin;
    if (at > all || bytes > all - at)
        SW_FAIL(SW_INVALID,
                "%s: '%s' has %" PRIu64 " bytes (%zu from %" PRIu64 " are asked for)",
                swi_tensors_path(file), entry->name, all, bytes, at);
    SW_TRY(sw_file_seek(file->file, file->data_begin + entry->begin + at));
    return swi_tensors_get(file, to, bytes);
}

sw_status swi_tensors_read(swi_tensors *file, const swi_tensors_entry *entry, void *to,
                           size_t bytes)
{
    if (bytes != entry->end - entry->begin)
        SW_FAIL(SW_INVALID, "%s: '%s' has %" PRIu64 " bytes (room for %zu is given)",
                swi_tensors_path(file), entry->name, entry->end - entry->begin, bytes);
    SW_TRY(seek_to(file, entry));
    SW_TRY(swi_tensors_get(file, to, bytes));
    return file->has_checksums ? tensors_check(file, entry, swi_checksum_of(to, bytes)) : SW_OK;
}

/* ---- loading: what the file must have ---------------------------------------------------- */

/* Where the data of a tensor of the file go. */
typedef struct {
    enum {
        PASSED_OVER, /* the list does not have it */
        AT_ONCE,     /* into models that can be drawn again */
        KEPT,        /* for host memory: in a block until all is read */
        LATER        /* for a device: read twice */
    } way;
    uint32_t of; /* of the list */
} target;

typedef struct {
    swi_tensors *file;
    const swi_tensor_list *list;
    const char *who;
    target *target; /* by tensor of the file */
    size_t kept;    /* bytes of those */
} loading;

void swi_tensors_describe(char *to, size_t bytes, const char *dtype, int rank,
                          const int64_t *dim)
{
    size_t at = (size_t)snprintf(to, bytes, "%.20s (", dtype);
    for (int i = 0; i < rank && i < SW_MAX_RANK && at < bytes; i++)
        at += (size_t)snprintf(to + at, bytes - at, "%s%lld", i > 0 ? ", " : "",
                               (long long)dim[i]);
    if (at < bytes)
        snprintf(to + at, bytes - at, "%s)", rank > SW_MAX_RANK ? ", ..." : "");
}

swi_widen *swi_widen_of(const char *dtype)
{
    return strcmp(dtype, "BF16") == 0  ? sw_bf16_widen
           : strcmp(dtype, "F16") == 0 ? sw_f16_widen
                                       : NULL;
}

/* Number i is written at or before where it is read. */
void swi_widen_in_place(swi_widen *widen, void *to, size_t n)
{
    unsigned char *at = to;
    const unsigned char *from = at + n * sizeof(uint16_t);
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, from + i * sizeof half, sizeof half);
        const float x = widen(half);
        memcpy(at + i * sizeof x, &x, sizeof x);
    }
}

/* NULL: bytes are taken as they are. */
static swi_widen *widened_by(const swi_tensor *tensor, const swi_tensors_entry *entry)
{
    return tensor->dtype == SW_F32 ? swi_widen_of(entry->dtype) : NULL;
}

/* entry: of the file; NULL: it has none. */
static sw_status check_type(const loading *l, const swi_tensor *tensor,
                            const swi_tensors_entry *entry)
{
    int64_t dim[SW_MAX_RANK + 1] = {0};
    const int rank = shape_of(tensor, dim);
    const char *dtype = tensors_dtype(tensor->dtype);
    if (entry != NULL &&
        (strcmp(entry->dtype, dtype) == 0 || widened_by(tensor, entry) != NULL) &&
        entry->rank == rank && rank <= SW_MAX_RANK &&
        memcmp(dim, entry->dim, (size_t)rank * sizeof *dim) == 0)
        return SW_OK;
    char there[TEXT], needed[TEXT];
    swi_tensors_describe(needed, sizeof needed, dtype, rank, dim);
    if (entry == NULL)
        SW_FAIL(SW_FORMAT, "%s: '%s' is missing; %s needs %s", swi_tensors_path(l->file),
                tensor->name, l->who, needed);
    swi_tensors_describe(there, sizeof there, entry->dtype, entry->rank, entry->dim);
    SW_FAIL(SW_FORMAT, "%s: '%s' is %s; %s needs %s", swi_tensors_path(l->file), tensor->name,
            there, l->who, needed);
}

static void aim(loading *l, uint32_t of, target *to)
{
    const swi_tensor *tensor = &l->list->at[of];
    bool drawn = tensor->at == NULL;
    for (uint32_t k = 0; k < tensor->n_parts && drawn; k++)
        drawn = tensor->models[k]->drawn && !tensor->models[k]->damaged;
    const bool memory = tensor->at != NULL || tensor->models[0]->device->backend->host_memory;
    *to = (target){drawn ? AT_ONCE : memory ? KEPT : LATER, of};
    if (to->way == KEPT)
        l->kept += (size_t)bytes_of(tensor);
}

static sw_status match(loading *l)
{
    for (uint32_t i = 0; i < l->list->n; i++) {
        const swi_tensor *tensor = &l->list->at[i];
        const swi_tensors_entry *entry = swi_tensors_find(l->file, tensor->name);
        SW_TRY(check_type(l, tensor, entry));
        aim(l, i, &l->target[entry - l->file->entries]);
    }
    return SW_OK;
}

static sw_status check_no_more(const loading *l)
{
    for (uint32_t i = 0; i < l->file->n; i++)
        if (l->target[i].way == PASSED_OVER) {
            const swi_tensors_entry *entry = &l->file->entries[i];
            char name[TEXT], there[TEXT];
            sw_utf8_clean(name, sizeof name, entry->name);
            swi_tensors_describe(there, sizeof there, entry->dtype, entry->rank, entry->dim);
            SW_FAIL(SW_FORMAT, "%s: '%s', %s, is not in %s", swi_tensors_path(l->file), name,
                    there, l->who);
        }
    return SW_OK;
}

/* ---- loading: bytes ---------------------------------------------------------------------- */

static const swi_tensor *target_of(const loading *l, uint32_t i)
{
    return &l->list->at[l->target[i].of];
}

/* `n` bytes of a tensor, whose numbers follow those before in the file, piece by piece, so that
 * each is summed and widened while it is in the cache. */
static sw_status get_numbers(swi_tensors *file, swi_widen *widen, void *to, size_t n,
                             swi_checksum *sum)
{
    unsigned char *at = to;
    for (size_t left = n, k; left > 0; left -= k, at += k) {
        k = left < SWI_VERIFY_BYTES ? left : SWI_VERIFY_BYTES;
        const size_t there = widen != NULL ? k / 2 : k;
        SW_TRY(swi_tensors_get(file, at + (k - there), there));
        if (file->has_checksums)
            swi_checksum_add(sum, at + (k - there), there);
        if (widen != NULL)
            swi_widen_in_place(widen, at, k / sw_dtype_bytes(SW_F32));
    }
    return SW_OK;
}

typedef struct {
    swi_tensors *file;
    swi_widen *widened;
    swi_checksum sum;
} stream;

static sw_status make_piece(void *context, void *to, size_t at, size_t n)
{
    stream *s = context;
    (void)at; /* the pieces of a tensor follow each other */
    return get_numbers(s->file, s->widened, to, n, &s->sum);
}

/* The parts of a tensor, whose data come next in the file, into its models. A part that was
 * written is damaged where what follows fails. */
static sw_status stream_one(swi_tensors *file, const swi_tensors_entry *entry,
                            const swi_tensor *tensor)
{
    stream s = {.file = file, .widened = widened_by(tensor, entry)};
    sw_status status = SW_OK;
    if (file->has_checksums)
        swi_checksum_begin(&s.sum);
    uint32_t k = 0;
    for (; k < tensor->n_parts && status == SW_OK; k++)
        status = swi_model_fill(tensor->models[k], tensor->offset, tensor->part_bytes,
                                make_piece, &s);
    if (status == SW_OK && file->has_checksums)
        status = tensors_check(file, entry, swi_checksum_end(&s.sum));
    else if (status != SW_OK && k > 0)
        k--; /* swi_model_fill has marked that one where it had to */
    for (uint32_t i = 0; status != SW_OK && i < k; i++)
        tensor->models[i]->damaged = true;
    return status;
}

/* All data once, in order; those that are kept lie in `kept`, one after the other. */
static sw_status read_all(const loading *l, unsigned char *kept, void *block, size_t room)
{
    swi_tensors *file = l->file;
    SW_TRY(sw_file_seek(file->file, file->data_begin));
    for (uint32_t i = 0; i < file->n; i++) {
        const swi_tensors_entry *entry = &file->entries[i];
        switch (l->target[i].way) {
        case PASSED_OVER:
        case LATER:
            SW_TRY(pass_over(file, entry, block, room));
            break;
        case AT_ONCE:
            SW_TRY(stream_one(file, entry, target_of(l, i)));
            break;
        case KEPT: {
            const swi_tensor *tensor = target_of(l, i);
            stream s = {.file = file};
            const size_t bytes = (size_t)bytes_of(tensor);
            swi_checksum_begin(&s.sum);
            SW_TRY(get_numbers(file, widened_by(tensor, entry), kept, bytes, &s.sum));
            if (file->has_checksums)
                SW_TRY(tensors_check(file, entry, swi_checksum_end(&s.sum)));
            kept += bytes;
            break;
        }
        }
    }
    return SW_OK;
}

static sw_status stream_all(const loading *l)
{
    sw_status status = SW_OK;
    uint32_t i = 0;
    for (; i < l->file->n && status == SW_OK; i++)
        if (l->target[i].way == LATER) {
            status = seek_to(l->file, &l->file->entries[i]);
            if (status == SW_OK)
                status = stream_one(l->file, &l->file->entries[i], target_of(l, i));
        }
    for (uint32_t before = 0; status != SW_OK && before + 1 < i; before++)
        if (l->target[before].way == LATER)
            for (uint32_t k = 0; k < target_of(l, before)->n_parts; k++)
                target_of(l, before)->models[k]->damaged = true;
    return status;
}

static void put_all(const loading *l, const unsigned char *kept)
{
    for (uint32_t i = 0; i < l->file->n; i++) {
        if (l->target[i].way != KEPT)
            continue;
        const swi_tensor *tensor = target_of(l, i);
        for (uint32_t k = 0; k < tensor->n_parts; k++, kept += tensor->part_bytes) {
            if (tensor->at == NULL)
                tensor->models[k]->drawn = false;
            if (tensor->part_bytes > 0)
                memcpy(tensor->at != NULL ? swi_tensor_part(tensor, k)
                                          : tensor->models[k]->base + tensor->offset,
                       kept, tensor->part_bytes);
        }
    }
}

/* Models that were written as the file was read, as they were. */
static void draw_again(const loading *l)
{
    for (uint32_t i = 0; i < l->file->n; i++)
        for (uint32_t k = 0; l->target[i].way == AT_ONCE && k < target_of(l, i)->n_parts; k++)
            if (!target_of(l, i)->models[k]->drawn)
                (void)swi_model_redraw(target_of(l, i)->models[k]); /* else it is damaged */
}

sw_status swi_tensors_load(swi_tensors *file, const swi_tensor_list *list, bool more,
                           const char *who)
{
    loading l = {file, list, who, NULL, 0};
    void *kept = NULL, *piece = NULL;
    const size_t bytes = file->n * sizeof *l.target;
    SW_TRY(sw_heap_alloc(&l.target, SW_HEAP_FILES, bytes));
    sw_status status = match(&l);
    if (status == SW_OK && !more)
        status = check_no_more(&l);
    const size_t room = room_for(file);
    if (status == SW_OK)
        status = sw_heap_alloc(&kept, SW_HEAP_FILES, l.kept);
    if (status == SW_OK)
        status = sw_heap_alloc(&piece, SW_HEAP_FILES, room);
    if (status == SW_OK)
        status = read_all(&l, kept, piece, room);
    /* The small block is given back before data are put on a device, which takes one too. */
    sw_heap_free(piece, SW_HEAP_FILES, room);
    if (status == SW_OK)
        status = stream_all(&l);
    if (status == SW_OK)
        put_all(&l, kept);
    else
        draw_again(&l);
    sw_heap_free(kept, SW_HEAP_FILES, l.kept);
    sw_heap_free(l.target, SW_HEAP_FILES, bytes);
    return status;
}
