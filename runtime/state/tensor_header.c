/* The header of a safetensors file: a JSON object {"NAME": {"dtype": "F32", "shape": [2, 3],
 * "data_offsets": [0, 24]}, "__metadata__": {"KEY": "TEXT"}}.
 *
 * The reader below takes this one shape of JSON and nothing else. Its texts go into room that
 * the caller has: none is longer than what it was read from, quotes included, so a header of n
 * bytes needs no more than n. */
#include "runtime/state/tensor_header.h"
#include "profiler/record/json_read.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- writing ----------------------------------------------------------------------------- */

static void put(swi_st_text *text, const char *from, size_t bytes)
{
    if (text->to != NULL)
        memcpy(text->to + text->bytes, from, bytes);
    text->bytes += bytes;
}

static void put_text(swi_st_text *text, const char *from)
{
    put(text, from, strlen(from));
}

static void put_string(swi_st_text *text, const char *from)
{
    put_text(text, "\"");
    for (; *from != '\0'; from++) {
        const unsigned char c = (unsigned char)*from;
        char code[8];
        if (c < 0x20) {
            snprintf(code, sizeof code, "\\u%04x", c);
            put_text(text, code);
            continue;
        }
        if (c == '"' || c == '\\')
            put_text(text, "\\");
        put(text, from, 1);
    }
    put_text(text, "\"");
}

static void put_number(swi_st_text *text, uint64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, number);
    put_text(text, digits);
}

void swi_st_hex(char *to, uint64_t number)
{
    for (int i = 15; i >= 0; i--, number >>= 4)
        to[i] = "0123456789abcdef"[number & 15];
}

bool swi_st_unhex(const char *from, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < 16; i++) {
        const char c = from[i];
        if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
            return false;
        *out = *out << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return true;
}

void swi_st_begin(swi_st_text *text)
{
    text->bytes = 0;
    put_text(text, "{\"__metadata__\":{\"format\":\"pt\"");
}

void swi_st_note(swi_st_text *text, const char *key, const char *note)
{
    put_text(text, ",");
    put_string(text, key);
    put_text(text, ":");
    put_string(text, note);
}

size_t swi_st_note_hex(swi_st_text *text, const char *key, const uint64_t *numbers, uint32_t n)
{
    put_text(text, ",");
    put_string(text, key);
    put_text(text, ":\"");
    const size_t first = text->bytes;
    for (uint32_t i = 0; i < n; i++) {
        char digits[16];
        swi_st_hex(digits, numbers[i]);
        put(text, digits, sizeof digits);
    }
    put_text(text, "\"");
    return first;
}

void swi_st_end_notes(swi_st_text *text)
{
    put_text(text, "}");
}

void swi_st_add(swi_st_text *text, const char *name, const char *dtype, const int64_t *dim,
                int rank, uint64_t begin, uint64_t end)
{
    put_text(text, ",");
    put_string(text, name);
    put_text(text, ":{\"dtype\":\"");
    put_text(text, dtype);
    put_text(text, "\",\"shape\":[");
    for (int i = 0; i < rank; i++) {
        if (i > 0)
            put_text(text, ",");
        put_number(text, (uint64_t)dim[i]);
    }
    put_text(text, "],\"data_offsets\":[");
    put_number(text, begin);
    put_text(text, ",");
    put_number(text, end);
    put_text(text, "]}");
}

void swi_st_end(swi_st_text *text)
{
    put_text(text, "}");
    while ((text->bytes + 8) % 64 != 0) /* 8: the length before it */
        put_text(text, " ");
}

/* ---- reading ----------------------------------------------------------------------------- */

typedef struct {
    sw_json_in json;
    char *room; /* what is left of it */
    size_t left;
    const swi_st_visit *visit;
    bool metadata; /* was there */
} reader;

static sw_status bad(const reader *r, const char *what)
{
    return sw_json_bad(&r->json, what);
}

static sw_status expect(reader *r, int c)
{
    return sw_json_expect(&r->json, c);
}

static sw_status accept(reader *r, int c, bool *there)
{
    return sw_json_accept(&r->json, c, there);
}

/* The next string, terminated, in the room. */
static sw_status get_text(reader *r, const char **out)
{
    sw_json_text text = {.to = r->room, .cap = r->left};
    SW_TRY(sw_json_get_string(&r->json, &text));
    if (text.length >= r->left) /* cannot be: it was read from more bytes than that */
        return bad(r, "more text than the header has");
    text.to[text.length] = '\0';
    *out = text.to;
    r->room += text.length + 1;
    r->left -= text.length + 1;
    return SW_OK;
}

static void count_elements(swi_st_tensor *tensor, uint64_t dim, bool *zero)
{
    *zero |= dim == 0;
    if (dim > 0 && __builtin_mul_overflow(tensor->elements, dim, &tensor->elements))
        tensor->elements = UINT64_MAX;
}

static sw_status read_shape(reader *r, swi_st_tensor *tensor)
{
    bool more, zero = false;
    SW_TRY(expect(r, '['));
    tensor->rank = 0;
    tensor->elements = 1;
    SW_TRY(accept(r, ']', &more));
    if (more)
        return SW_OK;
    do {
        uint64_t dim = 0;
        SW_TRY(sw_json_get_count(&r->json, &dim));
        if (tensor->rank < SW_MAX_RANK)
            tensor->dim[tensor->rank] = (int64_t)dim;
        if (tensor->rank <= SW_MAX_RANK)
            tensor->rank++;
        count_elements(tensor, dim, &zero);
        SW_TRY(accept(r, ',', &more));
    } while (more);
    if (zero)
        tensor->elements = 0;
    return expect(r, ']');
}

static sw_status read_offsets(reader *r, swi_st_tensor *tensor)
{
    SW_TRY(expect(r, '['));
    SW_TRY(sw_json_get_count(&r->json, &tensor->begin));
    SW_TRY(expect(r, ','));
    SW_TRY(sw_json_get_count(&r->json, &tensor->end));
    return expect(r, ']');
}

/* One of the three members; `seen` has a bit for each. */
static sw_status read_member(reader *r, swi_st_tensor *tensor, unsigned *seen)
{
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    char word[16];
    sw_json_text key = {.to = word, .cap = sizeof word};
    SW_TRY(sw_json_get_string(&r->json, &key));
    unsigned which = 0;
    while (which < 3 &&
           (key.length != strlen(names[which]) || memcmp(word, names[which], key.length) != 0))
        which++;
    if (which == 3)
        return bad(r, "an unknown member of a tensor");
    if (*seen & 1u << which)
        return bad(r, "a member of a tensor twice");
    *seen |= 1u << which;
    SW_TRY(expect(r, ':'));
    return which == 0   ? get_text(r, &tensor->dtype)
           : which == 1 ? read_shape(r, tensor)
                        : read_offsets(r, tensor);
}

static sw_status read_tensor(reader *r, swi_st_tensor *tensor)
{
    unsigned seen = 0;
    bool end, more = true;
    SW_TRY(expect(r, '{'));
    SW_TRY(accept(r, '}', &end));
    while (!end && more) {
        SW_TRY(read_member(r, tensor, &seen));
        SW_TRY(accept(r, ',', &more));
    }
    if (!end)
        SW_TRY(expect(r, '}'));
    return seen == 7 ? SW_OK : bad(r, "a tensor without dtype, shape or data_offsets");
}

/* Texts by key. */
static sw_status read_metadata(reader *r)
{
    bool more;
    SW_TRY(expect(r, '{'));
    SW_TRY(accept(r, '}', &more));
    if (more)
        return SW_OK;
    do {
        const char *key = NULL, *text = NULL;
        SW_TRY(get_text(r, &key));
        SW_TRY(expect(r, ':'));
        SW_TRY(get_text(r, &text));
        SW_TRY(r->visit->note(r->visit->context, key, text, r->json.at - 1));
        SW_TRY(accept(r, ',', &more));
    } while (more);
    return expect(r, '}');
}

static sw_status read_entry(reader *r)
{
    swi_st_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    SW_TRY(get_text(r, &tensor.name));
    SW_TRY(expect(r, ':'));
    if (strcmp(tensor.name, "__metadata__") != 0) {
        SW_TRY(read_tensor(r, &tensor));
        return r->visit->tensor(r->visit->context, &tensor);
    }
    if (r->metadata)
        return bad(r, "__metadata__ twice");
    r->metadata = true;
    return read_metadata(r);
}

sw_status swi_st_parse(const char *text, size_t bytes, const char *path, char *room,
                       const swi_st_visit *visit)
{
    reader r = {sw_json_in_text(text, bytes, path), room, bytes, visit, false};
    bool end, more = true;
    int c;
    r.json.of = " of its header";
    r.json.strict = true;
    SW_TRY(expect(&r, '{'));
    SW_TRY(accept(&r, '}', &end));
    while (!end && more) {
        SW_TRY(read_entry(&r));
        SW_TRY(accept(&r, ',', &more));
    }
    if (!end)
        SW_TRY(expect(&r, '}'));
    SW_TRY(sw_json_peek(&r.json, &c));
    return c == -1 ? SW_OK : bad(&r, "text after the header's end");
}
