/* The header of a safetensors file: a JSON object {"NAME": {"dtype": "F32", "shape": [2, 3],
 * "data_offsets": [0, 24]}, "__metadata__": {"KEY": "TEXT"}}.
 *
 * The reader below takes this one shape of JSON and nothing else. It needs no memory, so a
 * hostile header cannot make it take any. */
#include "runtime/model/safetensors_internal.h"
#include "profiler/record/json_read.h"
#include <inttypes.h>
#include <stdbool.h>
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

void swi_st_begin(swi_st_text *text, const swi_note *notes, int n)
{
    text->bytes = 0;
    put_text(text, "{\"__metadata__\":{\"format\":\"pt\"");
    for (int i = 0; i < n; i++) {
        put_text(text, ",");
        put_string(text, notes[i].key);
        put_text(text, ":");
        put_string(text, notes[i].text);
    }
    put_text(text, "}");
}

void swi_st_add(swi_st_text *text, const char *name, const char *dtype, const sw_shape *shape,
                uint64_t begin, uint64_t end)
{
    put_text(text, ",");
    put_string(text, name);
    put_text(text, ":{\"dtype\":\"");
    put_text(text, dtype);
    put_text(text, "\",\"shape\":[");
    for (int i = 0; i < shape->rank; i++) {
        if (i > 0)
            put_text(text, ",");
        put_number(text, (uint64_t)shape->dim[i]);
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
    while ((text->bytes + 8) % 64 != 0) /* 8: the length in front of it */
        put_text(text, " ");
}

/* ---- reading ----------------------------------------------------------------------------- */

typedef struct {
    sw_json_in json;
    swi_note *note; /* receives the text of its key; NULL: no text is read */
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

static bool is(const sw_json_text *s, const char *word)
{
    return s->length == strlen(word) && memcmp(s->to, word, s->length) == 0;
}

static sw_status read_shape(reader *r, swi_st_tensor *tensor)
{
    bool more;
    SW_TRY(expect(r, '['));
    tensor->rank = 0;
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
        SW_TRY(accept(r, ',', &more));
    } while (more);
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

static sw_status read_dtype(reader *r, swi_st_tensor *tensor)
{
    sw_json_text dtype = {.to = tensor->dtype, .cap = sizeof tensor->dtype - 1};
    SW_TRY(sw_json_get_string(&r->json, &dtype));
    if (memchr(tensor->dtype, '\0', dtype.length < dtype.cap ? dtype.length : dtype.cap) !=
        NULL)
        return bad(r, "a zero character in a dtype");
    tensor->dtype[dtype.length < dtype.cap ? dtype.length : dtype.cap] = '\0';
    return SW_OK;
}

/* One of the three members; `seen` has a bit for each. */
static sw_status read_member(reader *r, swi_st_tensor *tensor, unsigned *seen)
{
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    char word[16];
    sw_json_text key = {.to = word, .cap = sizeof word};
    SW_TRY(sw_json_get_string(&r->json, &key));
    unsigned which = 0;
    while (which < 3 && !is(&key, names[which]))
        which++;
    if (which == 3)
        return bad(r, "an unknown member of a tensor");
    if (*seen & 1u << which)
        return bad(r, "a member of a tensor twice");
    *seen |= 1u << which;
    SW_TRY(expect(r, ':'));
    return which == 0   ? read_dtype(r, tensor)
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

/* Texts by key. Only that of the note's key is kept. */
static sw_status read_metadata(reader *r)
{
    char word[sizeof r->note->key];
    bool more;
    SW_TRY(expect(r, '{'));
    SW_TRY(accept(r, '}', &more));
    if (more)
        return SW_OK;
    do {
        sw_json_text key = {.to = word, .cap = sizeof word}, text = {.cap = 0};
        SW_TRY(sw_json_get_string(&r->json, &key));
        SW_TRY(expect(r, ':'));
        const bool wanted = r->note != NULL && is(&key, r->note->key);
        if (wanted)
            text = (sw_json_text){.to = r->note->text, .cap = sizeof r->note->text - 1};
        SW_TRY(sw_json_get_string(&r->json, &text));
        if (wanted)
            r->note->text[text.length < text.cap ? text.length : text.cap] = '\0';
        SW_TRY(accept(r, ',', &more));
    } while (more);
    return expect(r, '}');
}

static sw_status read_entry(reader *r, bool *metadata, swi_st_visit *visit, void *context)
{
    swi_st_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    sw_json_text name = {.to = tensor.name, .cap = sizeof tensor.name};
    SW_TRY(sw_json_get_string(&r->json, &name));
    tensor.name_bytes = name.length;
    SW_TRY(expect(r, ':'));
    if (!is(&name, "__metadata__")) {
        SW_TRY(read_tensor(r, &tensor));
        return visit(context, &tensor);
    }
    if (*metadata)
        return bad(r, "__metadata__ twice");
    *metadata = true;
    return read_metadata(r);
}

static sw_status parse(reader r, swi_st_visit *visit, void *context)
{
    bool metadata = false, end, more = true;
    int c;
    r.json.of = " of its header";
    SW_TRY(expect(&r, '{'));
    SW_TRY(accept(&r, '}', &end));
    while (!end && more) {
        SW_TRY(read_entry(&r, &metadata, visit, context));
        SW_TRY(accept(&r, ',', &more));
    }
    if (!end)
        SW_TRY(expect(&r, '}'));
    SW_TRY(sw_json_peek(&r.json, &c));
    return c == -1 ? SW_OK : bad(&r, "text behind the header's end");
}

sw_status swi_st_parse(const char *text, size_t bytes, const char *path, swi_st_visit *visit,
                       void *context)
{
    return parse((reader){sw_json_in_text(text, bytes, path), NULL}, visit, context);
}

static sw_status pass_over(void *context, const swi_st_tensor *tensor)
{
    (void)context, (void)tensor;
    return SW_OK;
}

sw_status swi_st_note(const char *text, size_t bytes, const char *path, swi_note *note)
{
    note->text[0] = '\0';
    return parse((reader){sw_json_in_text(text, bytes, path), note}, pass_over, NULL);
}
