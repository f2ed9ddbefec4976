/* Parameters and buffers to and from a safetensors file: 8 bytes with the header's length
 * (little endian), the header (safetensors_header.c), the data without holes.
 *
 * Saving writes a new file beside PATH, has it synced, and renames it: PATH is the old file or
 * the new one, with the mode that it had. What is no regular file is written in place. Loading
 * checks the whole header and has all bytes in memory before the model changes; bytes for a
 * device are read piece by piece instead, once before to know that they can be read. */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "runtime/device/device.h"
#include "runtime/model/model_bytes.h"
#include "runtime/model/safetensors_internal.h"
#include <stdio.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files are little endian, and their bytes are copied as they are"
#endif

static const char *dtype_name(sw_dtype dtype)
{
    static const char *const names[] = {"F32", "F64", "BF16", "I32", "U8"};
    return names[dtype];
}

static bool is_saved(const swi_entry *entry)
{
    return entry->role == SWI_ROLE_PARAMETER || entry->role == SWI_ROLE_BUFFER;
}

/* ---- saving ------------------------------------------------------------------------------ */

/* Whether a name can stand in JSON: UTF-8 without overlong forms and surrogates. */
static bool is_utf8(const char *name)
{
    const unsigned char *p = (const unsigned char *)name;
    while (*p != 0) {
        const int more = *p < 0x80   ? 0
                         : *p < 0xc2 ? -1
                         : *p < 0xe0 ? 1
                         : *p < 0xf0 ? 2
                         : *p < 0xf5 ? 3
                                     : -1;
        if (more < 0)
            return false;
        uint32_t code = *p++;
        if (more > 0)
            code &= 0x3fu >> more;
        for (int i = 0; i < more; i++, p++) {
            if ((*p & 0xc0) != 0x80)
                return false;
            code = code << 6 | (*p & 0x3f);
        }
        static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
        if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            return false;
    }
    return true;
}

static sw_status check_savable(const sw_model *model)
{
    if (!model->ready)
        SW_FAIL(SW_INVALID, "sw_model_save: model %s must be ready: call sw_model_ready first",
                model->name);
    if (model->damaged)
        SW_FAIL(SW_STALE, "model %s: a run failed after an update; restore it first",
                model->name);
    for (int i = 0; i < model->n_notes; i++)
        if (!is_utf8(model->notes[i].key) || !is_utf8(model->notes[i].text))
            SW_FAIL(SW_INVALID, "model %s: a safetensors file cannot hold the note '%s'",
                    model->name, model->notes[i].key);
    for (uint32_t i = 1; i < model->n_entries; i++) {
        const swi_entry *entry = &model->entries[i];
        if (is_saved(entry) &&
            (!is_utf8(entry->name) || strcmp(entry->name, "__metadata__") == 0))
            SW_FAIL(SW_INVALID, "model %s: a safetensors file cannot hold the name '%s'",
                    model->name, entry->name);
    }
    return SW_OK;
}

/* The entry that follows `i` in the file (0 is before the first, and the answer behind the
 * last): the widest types first, so that each tensor is aligned to its type; else in the
 * model's order. */
static uint32_t next_saved(const sw_model *model, uint32_t i)
{
    size_t width = i == 0 ? 8 : sw_dtype_bytes(model->entries[i].dtype);
    for (; width > 0; width /= 2, i = 0)
        for (uint32_t k = i + 1; k < model->n_entries; k++)
            if (is_saved(&model->entries[k]) &&
                sw_dtype_bytes(model->entries[k].dtype) == width)
                return k;
    return 0;
}

static void write_header(const sw_model *model, swi_st_text *text)
{
    uint64_t at = 0;
    swi_st_begin(text, model->notes, model->n_notes);
    for (uint32_t i = next_saved(model, 0); i != 0; i = next_saved(model, i)) {
        const swi_entry *entry = &model->entries[i];
        swi_st_add(text, entry->name, dtype_name(entry->dtype), &entry->shape, at,
                   at + entry->bytes);
        at += entry->bytes;
    }
    swi_st_end(text);
}

typedef struct {
    const sw_model *model;
    const swi_st_text *header;
} saving;

static sw_status write_piece(void *file, const void *bytes, size_t at, size_t n)
{
    (void)at; /* they come in order */
    return sw_file_write(file, bytes, n);
}

static sw_status write_all(void *context, sw_file *file)
{
    const sw_model *model = ((const saving *)context)->model;
    const char *header = ((const saving *)context)->header->to;
    const uint64_t length = ((const saving *)context)->header->bytes;
    SW_TRY(sw_file_write(file, &length, sizeof length));
    SW_TRY(sw_file_write(file, header, (size_t)length));
    for (uint32_t i = next_saved(model, 0); i != 0; i = next_saved(model, i))
        SW_TRY(swi_model_pour(model, model->entries[i].offset, model->entries[i].bytes,
                              write_piece, file));
    return SW_OK;
}

static sw_status save(const sw_model *model, const char *path)
{
    SW_TRY(check_savable(model));
    swi_st_text text = {NULL, 0};
    write_header(model, &text);
    const size_t bytes = text.bytes;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, bytes));
    text = (swi_st_text){block, 0};
    write_header(model, &text);
    const sw_status status = sw_file_replace(path, write_all, &(saving){model, &text});
    sw_heap_free(block, SW_HEAP_FILES, bytes);
    return status;
}

sw_status sw_model_save(const sw_model *model, const char *path)
{
    SW_TRY(sw_handle_check(model, SW_HANDLE_MODEL, "sw_model_save"));
    if (path == NULL || path[0] == '\0')
        SW_FAIL(SW_INVALID, "sw_model_save: path must not be NULL or empty");
    SW_TRY(swi_model_take(model));
    const sw_status status = save(model, path);
    swi_model_give(model);
    return status;
}

/* ---- loading: the header against the model ----------------------------------------------- */

typedef struct {
    uint64_t begin, end;
    uint32_t entry;
    bool seen;
} piece;

typedef struct {
    const sw_model *model;
    const char *path;
    uint64_t data_bytes;
    piece *pieces; /* by entry while the header is read, then by offset */
    uint32_t n;    /* that were seen */
} check;

/* "f32 (3, 4)" for messages. */
static void describe(char *to, size_t bytes, const char *dtype, int rank, const int64_t *dim)
{
    size_t at = (size_t)snprintf(to, bytes, "%s (", dtype);
    for (int i = 0; i < rank && i < SW_MAX_RANK && at < bytes; i++)
        at += (size_t)snprintf(to + at, bytes - at, "%s%lld", i > 0 ? ", " : "",
                               (long long)dim[i]);
    if (at < bytes)
        snprintf(to + at, bytes - at, "%s)", rank > SW_MAX_RANK ? ", ..." : "");
}

static uint32_t find_entry(const check *c, const swi_st_tensor *tensor)
{
    const swi_entry *entries = c->model->entries;
    if (tensor->name_bytes < sizeof entries->name)
        for (uint32_t i = 1; i < c->model->n_entries; i++)
            if (is_saved(&entries[i]) && strlen(entries[i].name) == tensor->name_bytes &&
                memcmp(entries[i].name, tensor->name, tensor->name_bytes) == 0)
                return i;
    return 0;
}

/* A file's name for a message: what is not printable becomes '?'. */
static void printable(char *to, size_t bytes, const swi_st_tensor *tensor)
{
    size_t n =
        tensor->name_bytes < sizeof tensor->name ? tensor->name_bytes : sizeof tensor->name;
    n = n < bytes - 1 ? n : bytes - 1;
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)tensor->name[i] < 0x20 || tensor->name[i] == 0x7f
                    ? '?'
                    : tensor->name[i];
    to[n] = '\0';
}

static sw_status check_type(const check *c, const swi_entry *entry, const swi_st_tensor *tensor)
{
    bool same = strcmp(tensor->dtype, dtype_name(entry->dtype)) == 0 &&
                tensor->rank == entry->shape.rank;
    for (int i = 0; same && i < tensor->rank; i++)
        same = tensor->dim[i] == entry->shape.dim[i];
    if (same)
        return SW_OK;
    char there[120], wanted[120];
    describe(there, sizeof there, tensor->dtype, tensor->rank, tensor->dim);
    describe(wanted, sizeof wanted, dtype_name(entry->dtype), entry->shape.rank,
             entry->shape.dim);
    SW_FAIL(SW_FORMAT, "%s: '%s' is %s; model %s needs %s", c->path, entry->name, there,
            c->model->name, wanted);
}

static sw_status check_tensor(void *context, const swi_st_tensor *tensor)
{
    check *c = context;
    const uint32_t i = find_entry(c, tensor);
    if (i == 0) {
        char name[sizeof tensor->name + 1];
        printable(name, sizeof name, tensor);
        SW_FAIL(SW_FORMAT, "%s: '%s' is not in model %s", c->path, name, c->model->name);
    }
    const swi_entry *entry = &c->model->entries[i];
    if (c->pieces[i].seen)
        SW_FAIL(SW_FORMAT, "%s: '%s' is there twice", c->path, entry->name);
    SW_TRY(check_type(c, entry, tensor));
    if (tensor->begin > tensor->end || tensor->end > c->data_bytes ||
        tensor->end - tensor->begin != entry->bytes)
        SW_FAIL(
            SW_FORMAT, "%s: '%s' lies at %llu to %llu; it has %zu bytes, the file's data %llu",
            c->path, entry->name, (unsigned long long)tensor->begin,
            (unsigned long long)tensor->end, entry->bytes, (unsigned long long)c->data_bytes);
    c->pieces[i] = (piece){tensor->begin, tensor->end, i, true};
    return SW_OK;
}

/* Seen pieces to the front, by offset (Shell's sort: no memory, no recursion). */
static void sort_pieces(check *c)
{
    for (uint32_t i = 1; i < c->model->n_entries; i++)
        if (c->pieces[i].seen)
            c->pieces[c->n++] = c->pieces[i];
    for (uint32_t gap = c->n / 2; gap > 0; gap /= 2)
        for (uint32_t i = gap; i < c->n; i++) {
            const piece moved = c->pieces[i];
            uint32_t k = i;
            for (; k >= gap && c->pieces[k - gap].begin > moved.begin; k -= gap)
                c->pieces[k] = c->pieces[k - gap];
            c->pieces[k] = moved;
        }
}

/* Nothing missing; every byte of the data belongs to one tensor. */
static sw_status check_cover(check *c)
{
    const swi_entry *entries = c->model->entries;
    for (uint32_t i = 1; i < c->model->n_entries; i++)
        if (is_saved(&entries[i]) && !c->pieces[i].seen)
            SW_FAIL(SW_FORMAT, "%s: '%s' is missing", c->path, entries[i].name);
    sort_pieces(c);
    uint64_t at = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->pieces[i].begin != at)
            SW_FAIL(SW_FORMAT, "%s: '%s' must begin at %llu (got %llu): %s", c->path,
                    entries[c->pieces[i].entry].name, (unsigned long long)at,
                    (unsigned long long)c->pieces[i].begin,
                    c->pieces[i].begin < at ? "tensors overlap" : "a hole");
        at = c->pieces[i].end;
    }
    if (at != c->data_bytes)
        SW_FAIL(SW_FORMAT, "%s: %llu bytes behind its last tensor", c->path,
                (unsigned long long)(c->data_bytes - at));
    return SW_OK;
}

/* ---- loading: bytes ---------------------------------------------------------------------- */

static sw_status read_exactly(sw_file *file, void *to, size_t bytes)
{
    size_t got;
    SW_TRY(sw_file_read(file, to, bytes, &got));
    if (got < bytes)
        SW_FAIL(SW_FORMAT, "%s: changed while it was read", sw_file_path(file));
    return SW_OK;
}

/* The header's length, held against the file's; the position is then the header's first byte.
 */
static sw_status read_length(sw_file *file, size_t *header_bytes, uint64_t *data_bytes)
{
    const char *path = sw_file_path(file);
    uint64_t size = 0, length = 0;
    SW_TRY(sw_file_size(file, &size));
    if (size < sizeof length)
        SW_FAIL(
            SW_FORMAT,
            "%s: %llu bytes are not a safetensors file: the length of its header alone takes 8",
            path, (unsigned long long)size);
    SW_TRY(read_exactly(file, &length, sizeof length));
    if (length > size - sizeof length)
        SW_FAIL(SW_FORMAT, "%s: a header of %llu bytes is announced, %llu are there", path,
                (unsigned long long)length, (unsigned long long)(size - sizeof length));
    if (length > SWI_ST_HEADER_MAX)
        SW_FAIL(SW_FORMAT, "%s: the header must have at most %zu bytes (got %llu)", path,
                SWI_ST_HEADER_MAX, (unsigned long long)length);
    *header_bytes = (size_t)length;
    *data_bytes = size - sizeof length - length;
    return SW_OK;
}

static sw_status check_header(check *c, sw_file *file, size_t bytes)
{
    void *text;
    SW_TRY(sw_heap_alloc(&text, SW_HEAP_FILES, bytes));
    sw_status status = read_exactly(file, text, bytes);
    if (status == SW_OK)
        status = swi_st_parse(text, bytes, c->path, check_tensor, c);
    sw_heap_free(text, SW_HEAP_FILES, bytes);
    return status == SW_OK ? check_cover(c) : status;
}

/* What the file does not hold is half written in a damaged model: it begins anew, as
 * sw_model_ready leaves it; knobs are not written by runs. */
static sw_status begin_anew(sw_model *model)
{
    for (uint32_t i = 1; i < model->n_entries; i++) {
        const swi_entry *entry = &model->entries[i];
        if (!is_saved(entry) && entry->role != SWI_ROLE_KNOB)
            SW_TRY(swi_init_entry(model, entry, 0)); /* constants: nothing is drawn */
    }
    return SW_OK;
}

static sw_status finish_load(sw_model *model, bool damaged)
{
    if (damaged)
        SW_TRY(begin_anew(model));
    model->damaged = false;
    return SW_OK;
}

/* Into host memory: the only step that changes the model, after the last one that can fail. */
static sw_status take_data(const check *c, sw_model *model, sw_file *file)
{
    void *data;
    const size_t bytes = (size_t)c->data_bytes;
    SW_TRY(sw_heap_alloc(&data, SW_HEAP_FILES, bytes));
    sw_status status = read_exactly(file, data, bytes);
    if (status == SW_OK) {
        for (uint32_t i = 0; i < c->n; i++) {
            const swi_entry *entry = &model->entries[c->pieces[i].entry];
            memcpy(model->base + entry->offset, (const char *)data + c->pieces[i].begin,
                   entry->bytes);
        }
        status = finish_load(model, model->damaged);
    }
    sw_heap_free(data, SW_HEAP_FILES, bytes);
    return status;
}

static sw_status read_piece(void *file, void *to, size_t at, size_t n)
{
    (void)at; /* the pieces of an entry follow each other, and so do the entries */
    return read_exactly(file, to, n);
}

/* Can all of the data be read? The position is its first byte, before and after. */
static sw_status try_data(const check *c, sw_file *file, uint64_t begin)
{
    void *block;
    sw_status status = SW_OK;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, SWI_PIECE_BYTES));
    for (uint64_t at = 0; at < c->data_bytes && status == SW_OK; at += SWI_PIECE_BYTES)
        status =
            read_exactly(file, block,
                         c->data_bytes - at < SWI_PIECE_BYTES ? (size_t)(c->data_bytes - at)
                                                              : SWI_PIECE_BYTES);
    sw_heap_free(block, SW_HEAP_FILES, SWI_PIECE_BYTES);
    return status == SW_OK ? sw_file_seek(file, begin) : status;
}

/* Onto a device, with no more than a piece in host memory. A failure behind the first piece
 * leaves the model damaged. */
static sw_status stream_data(const check *c, sw_model *model, sw_file *file, uint64_t begin)
{
    const bool damaged = model->damaged;
    SW_TRY(try_data(c, file, begin));
    for (uint32_t i = 0; i < c->n; i++) {
        const swi_entry *entry = &model->entries[c->pieces[i].entry];
        const sw_status status =
            swi_model_fill(model, entry->offset, entry->bytes, read_piece, file);
        model->damaged |= status != SW_OK && i > 0;
        SW_TRY(status);
    }
    return finish_load(model, damaged);
}

static sw_status load_from(sw_model *model, sw_file *file)
{
    check c = {.model = model, .path = sw_file_path(file)};
    size_t header_bytes = 0;
    SW_TRY(read_length(file, &header_bytes, &c.data_bytes));
    void *pieces;
    const size_t bytes = model->n_entries * sizeof(piece);
    SW_TRY(sw_heap_alloc(&pieces, SW_HEAP_FILES, bytes));
    c.pieces = pieces;
    sw_status status = check_header(&c, file, header_bytes);
    if (status == SW_OK)
        status = model->device->backend->host_memory
                     ? take_data(&c, model, file)
                     : stream_data(&c, model, file, sizeof(uint64_t) + header_bytes);
    sw_heap_free(pieces, SW_HEAP_FILES, bytes);
    return status;
}

static sw_status read_note(sw_file *file, swi_note *note)
{
    size_t bytes = 0;
    uint64_t data_bytes;
    void *text;
    SW_TRY(read_length(file, &bytes, &data_bytes));
    SW_TRY(sw_heap_alloc(&text, SW_HEAP_FILES, bytes));
    sw_status status = read_exactly(file, text, bytes);
    if (status == SW_OK)
        status = swi_st_note(text, bytes, sw_file_path(file), note);
    sw_heap_free(text, SW_HEAP_FILES, bytes);
    return status;
}

sw_status sw_params_note(const char *path, const char *key, char *text, size_t bytes)
{
    swi_note note = {{0}, {0}};
    if (path == NULL || path[0] == '\0' || key == NULL || strlen(key) >= sizeof note.key ||
        text == NULL || bytes == 0)
        SW_FAIL(SW_INVALID, "sw_params_note: path, key (1 to %zu bytes) and text must be given",
                sizeof note.key - 1);
    memcpy(note.key, key, strlen(key));
    sw_file *file;
    SW_TRY(sw_file_open(&file, path, SW_FILE_READ));
    const sw_status status = read_note(file, &note);
    sw_file_drop(file);
    if (status == SW_OK)
        snprintf(text, bytes, "%s", note.text);
    return status;
}

static sw_status load(sw_model *model, const char *path)
{
    if (!model->ready)
        SW_FAIL(SW_INVALID, "sw_model_load: model %s must be ready: call sw_model_ready first",
                model->name);
    sw_file *file;
    SW_TRY(sw_file_open(&file, path, SW_FILE_READ));
    const sw_status status =
        sw_file_waits(file)
            ? sw_error_set(SW_FORMAT, __FILE__, __LINE__,
                           "%s: parameters must be a regular file (this is a pipe or terminal)",
                           path)
            : load_from(model, file);
    sw_file_drop(file); /* nothing was written: closing has nothing to say */
    return status;
}

sw_status sw_model_load(sw_model *model, const char *path)
{
    SW_TRY(sw_handle_check(model, SW_HANDLE_MODEL, "sw_model_load"));
    if (path == NULL || path[0] == '\0')
        SW_FAIL(SW_INVALID, "sw_model_load: path must not be NULL or empty");
    SW_TRY(swi_model_take(model));
    const sw_status status = load(model, path);
    swi_model_give(model);
    return status;
}
