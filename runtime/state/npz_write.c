/* Writing NumPy's archive. For each tensor a zip header, NumPy's header and the data; behind
 * all of them the directory, which says it again with the offsets, and the end, which says
 * where the directory is. What does not fit the 32 bits of a field has all ones there, and 64
 * bits in an extra field ("zip64"). Numbers are little endian. */
#include "alloc/base/crc32.h"
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "profiler/record/utf8.h"
#include "runtime/state/npz.h"
#include "runtime/state/tensor_internal.h"
#include <stdio.h>
#include <string.h>

enum { LOCAL = 0x04034b50, CENTRAL = 0x02014b50, END = 0x06054b50 };
enum { END_64 = 0x06064b50, LOCATOR_64 = 0x07064b50 };
enum { LOCAL_BYTES = 30, CENTRAL_BYTES = 46, END_BYTES = 22 + 56 + 20 };
enum { EXTRA_64 = 1, EXTRA_64_MAX = 4 + 3 * 8, EXTRA_ALIGN = 0xd935, EXTRA_ALIGN_BYTES = 6 };
enum { VERSION = 20, VERSION_64 = 45, MADE_BY = 3 << 8 | VERSION_64 }; /* 3: Unix */
enum { IS_UTF8 = 1 << 11, DAY = 1 << 5 | 1 };                          /* 1980-01-01 */
#define ONES_32 UINT32_MAX
#define ONES_16 UINT16_MAX
#define NUMPY_BYTES 448 /* of NumPy's header, at most: eight dims of 20 digits */
#define NAME_MAX_BYTES (65535 - 4)
#define MODE (0100644u << 16) /* a regular file */

typedef struct {
    uint64_t at;    /* of its header in the file */
    uint64_t bytes; /* with NumPy's header */
    uint32_t crc;
} entry;

typedef struct {
    const swi_tensor_list *list;
    const swi_tensors_note *notes;
    uint32_t n_notes;
    sw_crc32_table table;
    sw_file *file;
    uint64_t at; /* of what is written next */
    entry *entries;
    unsigned char *to; /* the block */
    size_t used;
} writing;

bool swi_npz_is(const char *path)
{
    const size_t n = strlen(path), end = sizeof SWI_NPZ_ENDING - 1;
    return n > end && strcmp(path + n - end, SWI_NPZ_ENDING) == 0;
}

/* ---- what can be written ----------------------------------------------------------------- */

static size_t comment_bytes(const swi_tensors_note *notes, uint32_t n)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        bytes += strlen(notes[i].key) + strlen(notes[i].text) + 2;
    return bytes;
}

/* Of the data in the file; false where they are too many. */
static bool data_bytes(const swi_tensor *tensor, size_t *out)
{
    return sw_size_mul(tensor->part_bytes, tensor->n_parts, out) &&
           sw_size_mul(*out, tensor->dtype == SW_BF16 ? 2 : 1, out);
}

sw_status swi_npz_check(const swi_tensor_list *list, const swi_tensors_note *notes,
                        uint32_t n_notes)
{
    size_t all = 0, bytes;
    for (uint32_t i = 0; i < list->n; i++) {
        const swi_tensor *t = &list->at[i];
        if (!data_bytes(t, &bytes) || !sw_size_add(all, bytes, &all) || all > INT64_MAX / 2)
            SW_FAIL(SW_INVALID, "'%s': %u times %zu bytes are too many for a file", t->name,
                    t->n_parts, t->part_bytes);
        if (swi_tensor_stacked(t) && t->shape.rank == SW_MAX_RANK)
            SW_FAIL(SW_INVALID, "'%s' has %d dims, and no place for one more", t->name,
                    t->shape.rank);
        if (t->name[0] == '\0' || strlen(t->name) > NAME_MAX_BYTES || !sw_utf8_whole(t->name))
            SW_FAIL(SW_INVALID, "a .npz file cannot hold the name '%.100s'", t->name);
    }
    for (uint32_t i = 0; i < n_notes; i++)
        if (!sw_utf8_whole(notes[i].key) || !sw_utf8_whole(notes[i].text))
            SW_FAIL(SW_INVALID, "a .npz file cannot hold the note '%.100s'", notes[i].key);
    if (comment_bytes(notes, n_notes) > ONES_16)
        SW_FAIL(SW_INVALID, "the notes of a .npz file must have at most %d bytes (got %zu)",
                ONES_16, comment_bytes(notes, n_notes));
    return SW_OK;
}

/* ---- the block --------------------------------------------------------------------------- */

static void put(writing *w, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++)
        w->to[w->used++] = (unsigned char)(number >> 8 * i);
}

static void put_text(writing *w, const char *text)
{
    const size_t n = strlen(text);
    memcpy(w->to + w->used, text, n);
    w->used += n;
}

static sw_status flush(writing *w)
{
    SW_TRY(sw_file_write(w->file, w->to, w->used));
    w->at += w->used;
    w->used = 0;
    return SW_OK;
}

/* ---- NumPy's header ---------------------------------------------------------------------- */

static const char *descr(sw_dtype dtype)
{
    static const char *const names[] = {"<f4", "<f8", "<f4", "<i4", "|u1"};
    return names[dtype];
}

/* "(2, 3)", "(3,)", "()" */
static void put_shape(const swi_tensor *t, char *to, size_t room)
{
    int64_t dim[SW_MAX_RANK];
    int rank = 0;
    if (swi_tensor_stacked(t))
        dim[rank++] = t->n_parts;
    for (int i = 0; i < t->shape.rank; i++)
        dim[rank++] = t->shape.dim[i];
    size_t used = (size_t)snprintf(to, room, "(");
    for (int i = 0; i < rank; i++)
        used += (size_t)snprintf(to + used, room - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)dim[i]);
    snprintf(to + used, room - used, rank == 1 ? ",)" : ")");
}

/* Ends at a multiple of 64 bytes with a line end. Returns its bytes. */
static size_t numpy_header(const swi_tensor *t, char *to)
{
    static const char magic[] = "\x93NUMPY\x01"; /* and its zero: version 1.0 */
    char shape[SW_MAX_RANK * 22 + 8];
    const size_t front = sizeof magic + 2;
    put_shape(t, shape, sizeof shape);
    size_t n =
        front + (size_t)snprintf(to + front, NUMPY_BYTES - front,
                                 "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                                 descr(t->dtype), shape);
    const size_t whole = sw_size_round(n + 1);
    memset(to + n, ' ', whole - n);
    to[whole - 1] = '\n';
    memcpy(to, magic, sizeof magic);
    to[front - 2] = (char)((whole - front) & 255);
    to[front - 1] = (char)((whole - front) >> 8);
    return whole;
}

/* ---- data -------------------------------------------------------------------------------- */

typedef sw_status take_data(writing *w, entry *e, const void *bytes, size_t n);
typedef struct {
    writing *w;
    entry *e;
    take_data *take;
} pouring;

static sw_status add_data(writing *w, entry *e, const void *bytes, size_t n)
{
    e->crc = sw_crc32(&w->table, e->crc, bytes, n);
    return SW_OK;
}

static sw_status write_data(writing *w, entry *e, const void *bytes, size_t n)
{
    (void)e;
    w->at += n;
    return n > 0 ? sw_file_write(w->file, bytes, n) : SW_OK;
}

static sw_status take_piece(void *context, const void *bytes, size_t at, size_t n)
{
    const pouring *p = context;
    (void)at; /* they come in order, here and below */
    return p->take(p->w, p->e, bytes, n);
}

/* The upper half of a float32 is a bfloat16. */
static sw_status widen_piece(void *context, const void *bytes, size_t at, size_t n)
{
    const pouring *p = context;
    const unsigned char *from = bytes;
    unsigned char wide[4096];
    (void)at;
    while (n > 0) {
        const size_t part = n < sizeof wide / 2 ? n : sizeof wide / 2;
        memset(wide, 0, sizeof wide);
        for (size_t i = 0; i < part; i += 2)
            memcpy(wide + 2 * i + 2, from + i, 2);
        SW_TRY(p->take(p->w, p->e, wide, 2 * part));
        from += part;
        n -= part;
    }
    return SW_OK;
}

static sw_status pour(writing *w, uint32_t i, take_data *take)
{
    const swi_tensor *t = &w->list->at[i];
    pouring p = {w, &w->entries[i], take};
    return swi_tensor_pour(t, t->dtype == SW_BF16 ? widen_piece : take_piece, &p);
}

static sw_status sum(writing *w, uint32_t i)
{
    char header[NUMPY_BYTES];
    size_t data = 0;
    entry *e = &w->entries[i];
    const size_t n = numpy_header(&w->list->at[i], header);
    (void)data_bytes(&w->list->at[i], &data); /* as it was checked */
    e->bytes = n + data;
    e->crc = sw_crc32(&w->table, 0, header, n);
    return pour(w, i, add_data);
}

/* ---- zip --------------------------------------------------------------------------------- */

static uint32_t low(uint64_t number)
{
    return number < ONES_32 ? (uint32_t)number : ONES_32;
}

/* What both headers of an entry have, up to the length of the name. */
static void put_common(writing *w, const entry *e, const char *name, bool is_64)
{
    put(w, is_64 ? VERSION_64 : VERSION, 2);
    put(w, IS_UTF8, 2);
    put(w, 0, 2); /* stored */
    put(w, 0, 2);
    put(w, DAY, 2);
    put(w, e->crc, 4);
    put(w, low(e->bytes), 4);
    put(w, low(e->bytes), 4);
    put(w, strlen(name) + 4, 2);
}

static void put_name(writing *w, const char *name)
{
    put_text(w, name);
    put_text(w, ".npy");
}

/* An extra field of zeros makes NumPy's header begin at a multiple of 64. */
static sw_status write_local(writing *w, uint32_t i)
{
    const char *name = w->list->at[i].name;
    entry *e = &w->entries[i];
    const bool is_64 = e->bytes >= ONES_32;
    e->at = w->at;
    const uint64_t end =
        w->at + LOCAL_BYTES + strlen(name) + 4 + (is_64 ? 20 : 0) + EXTRA_ALIGN_BYTES;
    const unsigned zeros = (unsigned)(-end & (SW_ALIGN - 1));
    put(w, LOCAL, 4);
    put_common(w, e, name, is_64);
    put(w, (is_64 ? 20u : 0u) + EXTRA_ALIGN_BYTES + zeros, 2);
    put_name(w, name);
    if (is_64) {
        put(w, EXTRA_64, 2);
        put(w, 16, 2);
        put(w, e->bytes, 8);
        put(w, e->bytes, 8);
    }
    put(w, EXTRA_ALIGN, 2);
    put(w, 2 + zeros, 2);
    put(w, SW_ALIGN, 2);
    for (unsigned k = 0; k < zeros; k++)
        put(w, 0, 1);
    w->used += numpy_header(&w->list->at[i], (char *)w->to + w->used);
    return flush(w);
}

static void put_central(writing *w, uint32_t i)
{
    const char *name = w->list->at[i].name;
    const entry *e = &w->entries[i];
    const bool large = e->bytes >= ONES_32, far = e->at >= ONES_32;
    const unsigned extra = (large ? 16u : 0u) + (far ? 8u : 0u);
    put(w, CENTRAL, 4);
    put(w, MADE_BY, 2);
    put_common(w, e, name, large || far);
    put(w, extra > 0 ? extra + 4 : 0, 2);
    put(w, 0, 6); /* comment, disk, internal attributes */
    put(w, MODE, 4);
    put(w, low(e->at), 4);
    put_name(w, name);
    if (extra == 0)
        return;
    put(w, EXTRA_64, 2);
    put(w, extra, 2);
    if (large) {
        put(w, e->bytes, 8);
        put(w, e->bytes, 8);
    }
    if (far)
        put(w, e->at, 8);
}

static void put_end_64(writing *w, uint64_t directory, uint64_t bytes, uint64_t end)
{
    put(w, END_64, 4);
    put(w, 56 - 12, 8);
    put(w, MADE_BY, 2);
    put(w, VERSION_64, 2);
    put(w, 0, 8); /* this disk, and the directory's */
    put(w, w->list->n, 8);
    put(w, w->list->n, 8);
    put(w, bytes, 8);
    put(w, directory, 8);
    put(w, LOCATOR_64, 4);
    put(w, 0, 4);
    put(w, end, 8);
    put(w, 1, 4); /* disks */
}

static sw_status write_directory(writing *w)
{
    const uint64_t directory = w->at;
    for (uint32_t i = 0; i < w->list->n; i++)
        put_central(w, i);
    const uint64_t bytes = w->used, n = w->list->n;
    if (n >= ONES_16 || bytes >= ONES_32 || directory >= ONES_32)
        put_end_64(w, directory, bytes, directory + bytes);
    put(w, END, 4);
    put(w, 0, 4); /* this disk, and the directory's */
    put(w, n < ONES_16 ? n : ONES_16, 2);
    put(w, n < ONES_16 ? n : ONES_16, 2);
    put(w, low(bytes), 4);
    put(w, low(directory), 4);
    put(w, comment_bytes(w->notes, w->n_notes), 2);
    for (uint32_t i = 0; i < w->n_notes; i++) {
        put_text(w, w->notes[i].key);
        put(w, '=', 1);
        put_text(w, w->notes[i].text);
        put(w, '\n', 1);
    }
    return flush(w);
}

static sw_status write_all(writing *w)
{
    for (uint32_t i = 0; i < w->list->n; i++) {
        SW_TRY(sum(w, i));
        SW_TRY(write_local(w, i));
        SW_TRY(pour(w, i, write_data));
    }
    return write_directory(w);
}

/* The directory is the longest of what goes through the block. */
static size_t block_bytes(const writing *w)
{
    size_t bytes = END_BYTES + comment_bytes(w->notes, w->n_notes), name = 0;
    for (uint32_t i = 0; i < w->list->n; i++) {
        const size_t n = strlen(w->list->at[i].name) + 4;
        bytes += CENTRAL_BYTES + EXTRA_64_MAX + n;
        name = n > name ? n : name;
    }
    const size_t local = LOCAL_BYTES + 20 + EXTRA_ALIGN_BYTES + SW_ALIGN + NUMPY_BYTES + name;
    return bytes > local ? bytes : local;
}

sw_status swi_npz_write(sw_file *file, const swi_tensor_list *list,
                        const swi_tensors_note *notes, uint32_t n_notes)
{
    writing w = {.list = list, .notes = notes, .n_notes = n_notes, .file = file};
    SW_TRY(swi_npz_check(list, notes, n_notes));
    const size_t entries = list->n * sizeof *w.entries, bytes = block_bytes(&w);
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, entries + bytes));
    w.entries = block;
    w.to = (unsigned char *)block + entries;
    sw_crc32_init(&w.table, SW_CRC32_ZIP);
    const sw_status status = write_all(&w);
    sw_heap_free(block, SW_HEAP_FILES, entries + bytes);
    return status;
}
