/* GGUF, the files of llama.cpp: properties by name, then the tensors, then their data.
 *
 *   "GGUF", version, number of tensors, number of properties; all numbers little endian
 *   property   name, type, value      tensor   name, rank, dims (innermost first), type, offset
 *
 * Layout and types: docs/gguf.md of ggml. */
#include "alloc/base/mem.h"
#include "profiler/inspect/byte_reader.h"
#include "profiler/record/utf8.h"
#include "tools/info/info_found.h"
#include <inttypes.h>
#include <string.h>

/* Elements come in blocks. */
static const struct {
    const char *name;
    uint32_t number, elements, bytes;
} types[] = {
    {"F32", 0, 1, 4},       {"F16", 1, 1, 2},       {"Q4_0", 2, 32, 18},
    {"Q4_1", 3, 32, 20},    {"Q5_0", 6, 32, 22},    {"Q5_1", 7, 32, 24},
    {"Q8_0", 8, 32, 34},    {"Q8_1", 9, 32, 36},    {"Q2_K", 10, 256, 84},
    {"Q3_K", 11, 256, 110}, {"Q4_K", 12, 256, 144}, {"Q5_K", 13, 256, 176},
    {"Q6_K", 14, 256, 210}, {"Q8_K", 15, 256, 292}, {"I8", 24, 1, 1},
    {"I16", 25, 1, 2},      {"I32", 26, 1, 4},      {"I64", 27, 1, 8},
    {"F64", 28, 1, 8},      {"BF16", 30, 1, 2},
};

enum { STRING = 8, ARRAY = 9, VALUE_TYPES = 13 };
static const unsigned char value_bytes[VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static sw_status wrong(const byte_reader *r, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: byte %" PRIu64 ": %s", r->path, r->at, what);
}

/* Into `text`, cut to `room`. */
static sw_status read_text(byte_reader *r, char *text, size_t room)
{
    uint64_t n;
    SW_TRY(byte_reader_number(r, 8, &n));
    SW_TRY(byte_reader_take(r, n));
    const size_t kept = n < room ? (size_t)n : room - 1;
    memcpy(text, r->text, kept);
    text[kept] = '\0';
    return SW_OK;
}

static sw_status pass_over(byte_reader *r, uint64_t n)
{
    for (; n > 0; n -= n < 65536 ? n : 65536)
        SW_TRY(byte_reader_take(r, n < 65536 ? n : 65536));
    return SW_OK;
}

static sw_status pass_array(byte_reader *r, char *shown, size_t room)
{
    uint64_t type, n;
    SW_TRY(byte_reader_number(r, 4, &type));
    SW_TRY(byte_reader_number(r, 8, &n));
    snprintf(shown, room, "%" PRIu64 " values", n);
    if (type >= VALUE_TYPES || type == ARRAY)
        return wrong(r, "an array must have values of a known type, and no arrays");
    if (type != STRING) {
        if (n > UINT64_MAX / value_bytes[type])
            return wrong(r, "an array has more values than a size can say");
        return pass_over(r, n * value_bytes[type]);
    }
    for (uint64_t i = 0; i < n; i++) {
        char text[2];
        SW_TRY(read_text(r, text, sizeof text));
    }
    return SW_OK;
}

static void show_number(uint64_t type, uint64_t bits, char *shown, size_t room)
{
    float f32;
    double f64;
    const uint32_t low = (uint32_t)bits;
    memcpy(&f32, &low, sizeof f32);
    memcpy(&f64, &bits, sizeof f64);
    if (type == 6)
        snprintf(shown, room, "%g", (double)f32);
    else if (type == 12)
        snprintf(shown, room, "%g", f64);
    else if (type == 7)
        snprintf(shown, room, "%s", bits != 0 ? "true" : "false");
    else if (type == 1 || type == 3 || type == 5 || type == 11) {
        const int unused = 64 - 8 * value_bytes[type];
        snprintf(shown, room, "%" PRId64, (int64_t)(bits << unused) >> unused);
    } else
        snprintf(shown, room, "%" PRIu64, bits);
}

/* The keys that are shown: general.*, and the sizes of the net. */
static bool is_shown(const char *key)
{
    return strncmp(key, "tokenizer.", 10) != 0;
}

static sw_status read_property(found *f, byte_reader *r, uint64_t *align)
{
    char key[100], shown[200];
    uint64_t type, bits = 0;
    SW_TRY(read_text(r, key, sizeof key));
    SW_TRY(byte_reader_number(r, 4, &type));
    if (type >= VALUE_TYPES)
        return wrong(r, "a property must have a known type");
    if (type == STRING)
        SW_TRY(read_text(r, shown, sizeof shown));
    else if (type == ARRAY)
        SW_TRY(pass_array(r, shown, sizeof shown));
    else {
        SW_TRY(byte_reader_number(r, value_bytes[type], &bits));
        show_number(type, bits, shown, sizeof shown);
    }
    if (strcmp(key, "general.alignment") == 0 && bits > 0)
        *align = bits;
    if (is_shown(key))
        found_note(f, "property", "%s: %s", key, shown);
    return SW_OK;
}

/* Bytes of a tensor, or UINT64_MAX where its type is not known or no size can say it. */
static uint64_t bytes_of(uint64_t type, found_tensor *t)
{
    uint64_t all = 1;
    snprintf(t->type, sizeof t->type, "type %" PRIu64, type);
    for (int i = 0; i < t->rank; i++) {
        if (t->dim[i] > 0 && all > (UINT64_MAX >> 10) / t->dim[i])
            return UINT64_MAX;
        all *= t->dim[i];
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == type) {
            snprintf(t->type, sizeof t->type, "%s", types[i].name);
            return all / types[i].elements * types[i].bytes;
        }
    return UINT64_MAX;
}

/* Dims are shown from the outside, as everywhere here. *most: where the data of all end. */
static sw_status read_tensor(found *f, byte_reader *r, uint64_t *most)
{
    found_tensor *t;
    char name[160];
    uint64_t rank, type, offset, dim[FOUND_RANK];
    SW_TRY(read_text(r, name, sizeof name));
    SW_TRY(byte_reader_number(r, 4, &rank));
    if (rank > FOUND_RANK)
        return wrong(r, "a tensor must have at most 8 dims");
    for (uint64_t i = 0; i < rank; i++)
        SW_TRY(byte_reader_number(r, 8, &dim[i]));
    SW_TRY(byte_reader_number(r, 4, &type));
    SW_TRY(byte_reader_number(r, 8, &offset));
    SW_TRY(found_add(f, &t));
    sw_utf8_clean(t->name, sizeof t->name, name);
    t->rank = (int)rank;
    for (int i = 0; i < t->rank; i++)
        t->dim[i] = dim[t->rank - 1 - i];
    t->bytes = bytes_of(type, t);
    if (t->bytes == UINT64_MAX)
        return SW_OK;
    if (offset > UINT64_MAX - t->bytes)
        return wrong(r, "a tensor ends past the last address");
    *most = offset + t->bytes > *most ? offset + t->bytes : *most;
    return SW_OK;
}

static sw_status read_all(found *f, byte_reader *r)
{
    uint64_t version, n_tensors, n_properties, align = 32, most = 0;
    SW_TRY(byte_reader_take(r, 4));
    SW_TRY(byte_reader_number(r, 4, &version));
    if (version < 2 || version > 3)
        return wrong(r, "the version must be 2 or 3");
    SW_TRY(byte_reader_number(r, 8, &n_tensors));
    SW_TRY(byte_reader_number(r, 8, &n_properties));
    found_note(f, "version", "%" PRIu64, version);
    for (uint64_t i = 0; i < n_properties; i++)
        SW_TRY(read_property(f, r, &align));
    for (uint64_t i = 0; i < n_tensors; i++)
        SW_TRY(read_tensor(f, r, &most));
    const uint64_t begin = (r->at + align - 1) / align * align;
    if (most > 0 && (begin > f->bytes || most > f->bytes - begin))
        SW_FAIL(SW_FORMAT,
                "%s: byte %" PRIu64 ": %" PRIu64 " bytes of tensors must follow, the file has "
                "%" PRIu64 " in all",
                f->path, begin, most, f->bytes);
    return SW_OK;
}

sw_status found_gguf(found *f)
{
    byte_reader *r;
    f->kind = "gguf";
    f->says = "GGUF, the format of llama.cpp";
    f->advice = "tensors of F32 can be written as safetensors by the gguf package of Python; "
                "quantised ones are for inference alone";
    SW_TRY(sw_heap_alloc(&r, SW_HEAP_FILES, sizeof(byte_reader)));
    sw_status status = byte_reader_open(r, f->path);
    if (status == SW_OK) {
        status = read_all(f, r);
        byte_reader_close(r);
    }
    sw_heap_free(r, SW_HEAP_FILES, sizeof(byte_reader));
    return status;
}
