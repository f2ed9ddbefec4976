/* Arrays of NumPy's and archives: .npy, .npz, and what torch.save writes.
 *
 *   array     "\x93NUMPY", version, length of the header, a Python dict as text; elements
 *   archive   files; at its end a directory of them, and at the very end where that begins */
#include "alloc/base/mem.h"
#include "profiler/record/utf8.h"
#include "tools/info/info_found.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- an array ---------------------------------------------------------------------------- */

static sw_status wrong(const found *f, uint64_t at, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: byte %" PRIu64 ": %s", f->path, at, what);
}

/* Behind 'key': and blanks; NULL where there is no such key. */
static const char *value_of(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    if (at == NULL)
        return NULL;
    at += strlen(key);
    while (*at == ' ' || *at == ':')
        at++;
    return at;
}

static bool read_shape(const char *at, found_tensor *to)
{
    if (at == NULL || *at++ != '(')
        return false;
    to->rank = 0;
    while (*at != ')') {
        char *end;
        if (*at < '0' || *at > '9' || to->rank == FOUND_RANK)
            return false;
        to->dim[to->rank++] = strtoull(at, &end, 10);
        for (at = end; *at == ',' || *at == ' ' || *at == 'L';)
            at++;
        if (*at == '\0')
            return false;
    }
    return true;
}

/* '<f4' has elements of 4 bytes; 0: of a type with fields, or none. */
static uint64_t read_type(const char *at, found_tensor *to)
{
    size_t n = 0;
    snprintf(to->type, sizeof to->type, "fields");
    if (at == NULL || *at != '\'')
        return 0;
    for (at++; *at != '\'' && *at != '\0' && n + 1 < sizeof to->type; at++)
        to->type[n++] = *at;
    to->type[n] = '\0';
    const uint64_t bytes = n > 2 ? strtoull(to->type + 2, NULL, 10) : 0;
    return n > 2 && to->type[1] == 'U' ? 4 * bytes : bytes;
}

static bool multiply(uint64_t *all, uint64_t by)
{
    if (by > 0 && *all > UINT64_MAX / by)
        return false;
    *all *= by;
    return true;
}

/* The header as text, with an end; *data is the first byte behind it. */
static sw_status read_header(const found *f, sw_file *file, uint64_t at, char *text,
                             size_t room, uint64_t *data)
{
    unsigned char head[12];
    SW_TRY(found_read(f, file, at, head, 10));
    const bool wide = head[6] >= 2;
    if (memcmp(head, "\x93NUMPY", 6) != 0 || head[6] < 1 || head[6] > 3)
        return wrong(f, at, "no array of NumPy's, of version 1 to 3, begins here");
    if (wide)
        SW_TRY(found_read(f, file, at, head, 12));
    uint64_t length = (uint64_t)head[8] | (uint64_t)head[9] << 8;
    if (wide)
        length |= (uint64_t)head[10] << 16 | (uint64_t)head[11] << 24;
    const uint64_t begin = at + (wide ? 12 : 10);
    if (begin > f->bytes || length > f->bytes - begin)
        return wrong(f, at + 8, "the header is longer than the file");
    const size_t n = length < room ? (size_t)length : room - 1;
    SW_TRY(found_read(f, file, begin, text, n));
    text[n] = '\0';
    *data = begin + length;
    return SW_OK;
}

sw_status found_array(found *f, sw_file *file, uint64_t at, uint64_t end, found_tensor *to)
{
    char text[1024];
    uint64_t data = 0, all;
    SW_TRY(read_header(f, file, at, text, sizeof text, &data));
    const char *order = value_of(text, "'fortran_order'");
    all = read_type(value_of(text, "'descr'"), to);
    if (order == NULL || !read_shape(value_of(text, "'shape'"), to))
        return wrong(f, at, "the header must have descr, fortran_order and shape");
    if (strncmp(order, "True", 4) == 0)
        strncat(to->type, " by columns", sizeof to->type - strlen(to->type) - 1);
    for (int i = 0; i < to->rank; i++)
        if (!multiply(&all, to->dim[i]))
            return wrong(f, at, "the shape has more elements than a size can say");
    to->bytes = all > 0 || strchr(to->type, '0') != NULL ? all : UINT64_MAX;
    if (to->bytes != UINT64_MAX && (data > end || end - data < to->bytes))
        SW_FAIL(SW_FORMAT,
                "%s: byte %" PRIu64 ": %" PRIu64 " bytes of elements must follow, %" PRIu64
                " are there",
                f->path, data, to->bytes, end > data ? end - data : 0);
    return SW_OK;
}

sw_status found_numpy(found *f, sw_file *file)
{
    found_tensor *t;
    f->kind = "npy";
    f->says = "an array of NumPy's";
    SW_TRY(found_add(f, &t));
    return found_array(f, file, 0, f->bytes, t);
}

/* ---- archives ---------------------------------------------------------------------------- */

#define END_BYTES 22
#define COMMENT_MAX 65535
#define ENTRY_BYTES 46
#define NAME_MAX_BYTES 300

typedef struct {
    uint64_t entries, begin; /* of the directory */
} directory;

typedef struct {
    char name[NAME_MAX_BYTES];
    unsigned method;
    uint64_t stored, bytes, begin; /* of its local header */
} entry;

static uint64_t get(const unsigned char *at, int bytes)
{
    uint64_t x = 0;
    for (int i = bytes - 1; i >= 0; i--)
        x = x << 8 | at[i];
    return x;
}

/* Large archives say in front of the end where a longer end is. */
static sw_status read_long_end(const found *f, sw_file *file, uint64_t end, directory *out)
{
    unsigned char where[20], tail[56];
    if (end < sizeof where)
        return wrong(f, end, "the end of a large archive must have a pointer in front of it");
    SW_TRY(found_read(f, file, end - sizeof where, where, sizeof where));
    if (memcmp(where, "PK\x06\x07", 4) != 0)
        return wrong(f, end - sizeof where,
                     "the pointer to the end of a large archive is missing");
    const uint64_t at = get(where + 8, 8);
    SW_TRY(found_read(f, file, at, tail, sizeof tail));
    if (memcmp(tail, "PK\x06\x06", 4) != 0)
        return wrong(f, at, "the end of a large archive must be here");
    out->entries = get(tail + 32, 8);
    out->begin = get(tail + 48, 8);
    return SW_OK;
}

static sw_status find_directory(const found *f, sw_file *file, directory *out)
{
    const uint64_t most = END_BYTES + COMMENT_MAX;
    const size_t n = (size_t)(f->bytes < most ? f->bytes : most);
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, n));
    const unsigned char *tail = block;
    sw_status status = found_read(f, file, f->bytes - n, block, n);
    size_t at = n;
    while (status == SW_OK && at-- > 0)
        if (n - at >= END_BYTES && memcmp(tail + at, "PK\x05\x06", 4) == 0)
            break;
    const bool there = status == SW_OK && at < n;
    if (there)
        *out = (directory){get(tail + at + 10, 2), get(tail + at + 16, 4)};
    sw_heap_free(block, SW_HEAP_FILES, n);
    SW_TRY(status);
    if (!there)
        return wrong(f, f->bytes, "the archive is cut: its directory, at the end, is missing");
    if (out->begin == UINT32_MAX || out->entries == UINT16_MAX)
        return read_long_end(f, file, f->bytes - n + at, out);
    return SW_OK;
}

/* Sizes that do not fit 32 bits stand in an extra field. */
static void read_extra(const unsigned char *x, size_t n, entry *e)
{
    for (size_t at = 0; at + 4 <= n;) {
        const size_t bytes = (size_t)get(x + at + 2, 2);
        size_t k = at + 4;
        if (get(x + at, 2) == 1) {
            uint64_t *const fields[] = {&e->bytes, &e->stored, &e->begin};
            for (int i = 0; i < 3; i++)
                if (*fields[i] == UINT32_MAX && k + 8 <= n && k + 8 <= at + 4 + bytes) {
                    *fields[i] = get(x + k, 8);
                    k += 8;
                }
        }
        at += 4 + bytes;
    }
}

static sw_status read_entry(const found *f, sw_file *file, uint64_t *at, entry *e)
{
    unsigned char head[ENTRY_BYTES], extra[256];
    SW_TRY(found_read(f, file, *at, head, sizeof head));
    if (memcmp(head, "PK\x01\x02", 4) != 0)
        return wrong(f, *at, "a line of the archive's directory must begin here");
    const size_t n_name = (size_t)get(head + 28, 2), n_extra = (size_t)get(head + 30, 2);
    const size_t name = n_name < sizeof e->name ? n_name : sizeof e->name - 1;
    const size_t more = n_extra < sizeof extra ? n_extra : sizeof extra;
    e->method = (unsigned)get(head + 10, 2);
    e->stored = get(head + 20, 4);
    e->bytes = get(head + 24, 4);
    e->begin = get(head + 42, 4);
    SW_TRY(found_read(f, file, *at + ENTRY_BYTES, e->name, name));
    e->name[name] = '\0';
    SW_TRY(found_read(f, file, *at + ENTRY_BYTES + n_name, extra, more));
    read_extra(extra, more, e);
    *at += ENTRY_BYTES + n_name + n_extra + get(head + 32, 2);
    return SW_OK;
}

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* An array that is stored as it is says what it is; of a compressed one its name is known. */
static sw_status take_array(found *f, sw_file *file, const entry *e)
{
    unsigned char local[30];
    found_tensor *t;
    SW_TRY(found_add(f, &t));
    sw_utf8_clean(t->name, sizeof t->name, e->name);
    if (ends_with(t->name, ".npy"))
        t->name[strlen(t->name) - strlen(".npy")] = '\0';
    snprintf(t->type, sizeof t->type, "compressed");
    if (e->method != 0)
        return SW_OK;
    SW_TRY(found_read(f, file, e->begin, local, sizeof local));
    if (memcmp(local, "PK\x03\x04", 4) != 0)
        return wrong(f, e->begin, "a file of the archive must begin here");
    const uint64_t data = e->begin + sizeof local + get(local + 26, 2) + get(local + 28, 2);
    if (data > f->bytes || e->stored > f->bytes - data)
        return wrong(f, data, "a file of the archive ends behind its end");
    return found_array(f, file, data, data + e->stored, t);
}

sw_status found_zip(found *f, sw_file *file)
{
    directory d = {0, 0};
    entry e;
    uint64_t arrays = 0, bytes = 0;
    bool torch = false;
    f->kind = "zip";
    f->says = "an archive (zip)";
    SW_TRY(find_directory(f, file, &d));
    uint64_t at = d.begin;
    for (uint64_t i = 0; i < d.entries; i++) {
        SW_TRY(read_entry(f, file, &at, &e));
        torch |= ends_with(e.name, "/data.pkl") || strcmp(e.name, "data.pkl") == 0;
        bytes += e.bytes;
        if (!ends_with(e.name, ".npy"))
            continue;
        arrays++;
        SW_TRY(take_array(f, file, &e));
    }
    if (torch) {
        f->kind = "torch";
        f->says = "a file of torch.save";
        f->advice = "safetensors.torch.save_file(torch.load(FILE), OUT) in Python writes the "
                    "tensors as a file that --load-params and info read";
    } else if (arrays > 0 && arrays == d.entries) {
        f->kind = "npz";
        f->says = "arrays of NumPy's";
    }
    found_note(f, "files", "%" PRIu64, d.entries);
    found_note(f, "unpacked_bytes", "%" PRIu64, bytes);
    return SW_OK;
}
