/* Documents of ids, read and packed.
 *
 * A document is a block of its own: n, its n ids, its n labels, which are shifted here, once:
 * that of position t is the id that comes after it, where this counts. So it can be given to
 * another part without a copy. A file is read through a window, line by line; one line's
 * numbers are kept beside the documents.
 *
 * Packing is best fit by decreasing length (at most 11/9 of the fewest rows, and four more;
 * Johnson 1973): each document goes to the row with the least room that is enough. Rows with
 * the same room wait in a stack, and a bit for each room says whether one waits, so a document
 * costs context / 64 steps at most. */
#include "profiler/record/json_read.h"
#include "runtime/data/reader.h"
#include <stdio.h>
#include <string.h>

#define WINDOW_BYTES 65536

struct swi_documents {
    char *path;
    size_t path_bytes;
    int64_t context, n_ids, largest; /* largest: id or label; -1: none */
    int32_t **document;
    uint32_t n, room;
    swi_documents_info info;
};

/* ---- documents --------------------------------------------------------------------------- */

sw_status swi_documents_create(swi_documents **out, const char *path, int64_t context,
                               int64_t n_ids)
{
    const size_t bytes = strlen(path) + 1;
    swi_documents *d;
    if (context < 1 || context > INT32_MAX)
        SW_FAIL(SW_INVALID, "%s: context must be 1 to %d (got %lld)", path, INT32_MAX,
                (long long)context);
    SW_TRY(sw_heap_alloc(&d, SW_HEAP_DATASETS, sizeof(swi_documents)));
    const sw_status status = sw_heap_alloc(&d->path, SW_HEAP_DATASETS, bytes);
    if (status != SW_OK) {
        sw_heap_free(d, SW_HEAP_DATASETS, sizeof *d);
        return status;
    }
    memcpy(d->path, path, bytes);
    d->path_bytes = bytes;
    d->context = d->info.context = context;
    d->n_ids = n_ids > 0 && n_ids < INT32_MAX ? n_ids : INT32_MAX;
    d->largest = -1;
    *out = d;
    return SW_OK;
}

static size_t document_bytes(int32_t n)
{
    return (1 + 2 * (size_t)n) * sizeof(int32_t);
}

void swi_documents_destroy(swi_documents *d)
{
    if (d == NULL)
        return;
    for (uint32_t i = 0; i < d->n; i++)
        sw_heap_free(d->document[i], SW_HEAP_DATASETS, document_bytes(d->document[i][0]));
    sw_heap_free(d->document, SW_HEAP_DATASETS, d->room * sizeof *d->document);
    sw_heap_free(d->path, SW_HEAP_DATASETS, d->path_bytes);
    sw_heap_free(d, SW_HEAP_DATASETS, sizeof *d);
}

static void count(swi_documents_info *info, const int32_t *document, int64_t sign)
{
    const int32_t n = document[0], *labels = document + 1 + n;
    info->documents += sign;
    info->tokens += sign * n;
    for (int32_t t = 0; t < n; t++)
        info->counted += labels[t] != SWI_NOT_COUNTED ? sign : 0;
}

/* A place for one more. */
static sw_status reserve(swi_documents *d)
{
    if (d->n == UINT32_MAX)
        SW_FAIL(SW_FORMAT, "%s: must have at most %lu documents", d->path,
                (unsigned long)UINT32_MAX);
    return sw_heap_reserve(&d->document, SW_HEAP_DATASETS, &d->room, d->n + 1);
}

sw_status swi_documents_add(swi_documents *d, const int32_t *ids, const int32_t *labels,
                            int64_t n)
{
    const int32_t kept = (int32_t)(n < d->context ? n : d->context);
    int64_t largest = d->largest, counted = 0;
    int32_t *to;
    if (labels == NULL)
        labels = ids;
    for (int64_t t = 0; t < n; t++) {
        const bool counts = labels[t] != SWI_NOT_COUNTED;
        if (ids[t] < 0 || ids[t] >= d->n_ids ||
            (counts && (labels[t] < 0 || labels[t] >= d->n_ids)))
            SW_FAIL(SW_FORMAT, "ids and labels must be 0 to %lld (got %ld)",
                    (long long)d->n_ids - 1,
                    (long)(ids[t] < 0 || ids[t] >= d->n_ids ? ids[t] : labels[t]));
        largest = ids[t] > largest ? ids[t] : largest;
        largest = labels[t] > largest ? labels[t] : largest;
        counted += t > 0 && t < kept && counts;
    }
    if (counted > 0) {
        SW_TRY(reserve(d));
        SW_TRY(sw_heap_alloc(&to, SW_HEAP_DATASETS, document_bytes(kept)));
        to[0] = kept;
        memcpy(to + 1, ids, (size_t)kept * sizeof *to);
        memcpy(to + 1 + kept, labels + 1, (size_t)(kept - 1) * sizeof *to);
        to[2 * kept] = SWI_NOT_COUNTED;
        d->document[d->n++] = to;
        count(&d->info, to, 1);
    } else
        d->info.passed_over++;
    d->info.cut += n > kept;
    d->info.cut_tokens += n - kept;
    d->largest = largest;
    return SW_OK;
}

/* ---- lines of JSON ----------------------------------------------------------------------- */

typedef struct {
    swi_source *source;
    size_t at, got;
    bool line_ends, file_ends; /* nothing comes any more */
    unsigned char window[WINDOW_BYTES];
} lines;

/* The rest of the line in the window, or in the next one. */
static sw_status more_of_line(sw_json_in *in)
{
    lines *r = in->context;
    in->before += in->bytes;
    in->at = in->bytes = 0;
    if (r->line_ends)
        return SW_OK;
    if (r->at == r->got) {
        r->at = 0;
        SW_TRY(swi_source_read(r->source, r->window, sizeof r->window, &r->got));
        r->line_ends = r->file_ends = r->got == 0;
    }
    const unsigned char *from = r->window + r->at;
    const unsigned char *end = memchr(from, '\n', r->got - r->at);
    in->text = from;
    in->bytes = end != NULL ? (size_t)(end - from) : r->got - r->at;
    r->line_ends |= end != NULL;
    r->at += in->bytes + (end != NULL);
    return SW_OK;
}

static sw_status read_lines(lines *r, swi_json_line *each, void *context)
{
    int c;
    for (uint64_t line = 1; !r->file_ends; line++) {
        sw_json_in in = {.more = more_of_line,
                         .context = r,
                         .path = swi_source_path(r->source),
                         .of = "",
                         .line = line};
        r->line_ends = false;
        SW_TRY(sw_json_peek(&in, &c));
        if (c < 0) /* a blank one */
            continue;
        SW_TRY(each(&in, context));
        SW_TRY(sw_json_peek(&in, &c));
        if (c >= 0)
            return sw_json_bad(&in, "a line must have one object, and nothing after it");
    }
    return SW_OK;
}

sw_status swi_json_lines(const char *path, size_t unpack_bytes, swi_json_line *each,
                         void *context)
{
    lines *r;
    SW_TRY(sw_heap_alloc(&r, SW_HEAP_FILES, sizeof *r));
    sw_status status = swi_source_open(&r->source, path, unpack_bytes);
    if (status == SW_OK)
        status = read_lines(r, each, context);
    swi_source_close(r->source);
    sw_heap_free(r, SW_HEAP_FILES, sizeof *r);
    return status;
}

/* ---- ids --------------------------------------------------------------------------------- */

typedef struct {
    int32_t *at;
    uint32_t n, room;
    bool there;
} numbers;

typedef struct {
    swi_documents *to;
    numbers ids, labels; /* of this line */
} reading;

#define WAY_OUT                                                                                \
    "each line must be {\"input_ids\": [...], \"labels\": [...]}, which ten lines of Python "  \
    "make (the guide: documents of ids)"

/* The digits of most numbers are whole in the window. */
static bool take_digits(sw_json_in *in, int64_t *out)
{
    const unsigned char *at = in->text + in->at, *end = in->text + in->bytes, *from = at;
    int64_t x = 0;
    while (at < end && at - from < 10 && *at >= '0' && *at <= '9')
        x = x * 10 + (*at++ - '0');
    if (at == end || at == from || (*at != ',' && *at != ']') ||
        (*from == '0' && at - from > 1))
        return false;
    in->at += (size_t)(at - from);
    *out = x;
    return true;
}

static sw_status bad_number(const sw_json_in *in, const reading *r, const char *key,
                            const numbers *to, const sw_json_number *got)
{
    char text[40];
    if (got->whole)
        snprintf(text, sizeof text, "%s%llu", got->minus ? "-" : "",
                 (unsigned long long)got->magnitude);
    else
        snprintf(text, sizeof text, "%g", got->real);
    SW_FAIL(SW_FORMAT, "%s: line %llu: number %lu of %s must be an id, 0 to %lld%s (got %s)%s",
            in->path, (unsigned long long)in->line, (unsigned long)to->n + 1, key,
            (long long)r->to->n_ids - 1, to == &r->labels ? ", or -100" : "", text,
            r->to->n_ids < INT32_MAX
                ? ": the model knows no others, so make the file with its own tokenizer"
                : "");
}

static sw_status take_numbers(sw_json_in *in, reading *r, const char *key, numbers *to)
{
    const bool labels = to == &r->labels;
    bool more;
    int c;
    if (to->there)
        return sw_json_bad(in, labels ? "labels twice" : "input_ids twice");
    to->there = true;
    SW_TRY(sw_json_accept(in, '[', &more));
    if (!more)
        return sw_json_bad(in, labels ? "labels must be a list of ids and -100"
                                      : "input_ids must be a list of ids");
    SW_TRY(sw_json_accept(in, ']', &more));
    if (more)
        return SW_OK;
    do {
        sw_json_number x = {.whole = true};
        int64_t id;
        SW_TRY(sw_json_peek(in, &c));
        if (!take_digits(in, &id)) {
            if (c >= 0 && c != '-' && (c < '0' || c > '9'))
                return sw_json_bad(in, labels ? "labels must have ids and -100 alone"
                                              : "input_ids must have ids alone");
            SW_TRY(sw_json_get_number(in, &x));
            id = !x.whole || x.magnitude > INT32_MAX ? INT32_MAX
                 : x.minus                           ? -(int64_t)x.magnitude
                                                     : (int64_t)x.magnitude;
        } else
            x.magnitude = (uint64_t)id;
        if ((id < 0 || id >= r->to->n_ids) && !(labels && id == SWI_NOT_COUNTED))
            return bad_number(in, r, key, to, &x);
        if (to->n == INT32_MAX)
            return sw_json_bad(in, "a list that is too long");
        SW_TRY(sw_heap_reserve(&to->at, SW_HEAP_FILES, &to->room, to->n + 1));
        to->at[to->n++] = (int32_t)id;
        SW_TRY(sw_json_accept(in, ',', &more));
    } while (more);
    return sw_json_expect(in, ']');
}

static sw_status take_member(sw_json_in *in, const char *key, void *context)
{
    reading *r = context;
    if (strcmp(key, "input_ids") == 0)
        return take_numbers(in, r, key, &r->ids);
    if (strcmp(key, "labels") == 0)
        return take_numbers(in, r, key, &r->labels);
    return sw_json_skip(in);
}

static sw_status read_line(sw_json_in *in, void *context)
{
    reading *r = context;
    int c;
    in->python = true;
    r->ids.n = r->labels.n = 0;
    r->ids.there = r->labels.there = false;
    SW_TRY(sw_json_peek(in, &c));
    if (c != '{')
        return sw_json_bad(in, WAY_OUT);
    SW_TRY(sw_json_get_object(in, take_member, r));
    if (r->ids.n == 0)
        SW_FAIL(SW_FORMAT, "%s: line %llu: %s: %s", in->path, (unsigned long long)in->line,
                r->ids.there ? "input_ids is empty" : "there is no input_ids", WAY_OUT);
    if (r->labels.there && r->labels.n != r->ids.n)
        SW_FAIL(SW_FORMAT,
                "%s: line %llu: labels must be as many as input_ids, -100 where a token does "
                "not count (got %lu and %lu)",
                in->path, (unsigned long long)in->line, (unsigned long)r->labels.n,
                (unsigned long)r->ids.n);
    return swi_documents_add(r->to, r->ids.at, r->labels.there ? r->labels.at : NULL, r->ids.n);
}

sw_status swi_documents_read(swi_documents *d, const char *path, size_t unpack_bytes)
{
    reading r = {.to = d};
    sw_status status = swi_json_lines(path, unpack_bytes, read_line, &r);
    if (status == SW_OK && d->n == 0 && d->info.passed_over == 0)
        status = sw_error_set(SW_FORMAT, __FILE__, __LINE__, "%s: there is no document: %s",
                              path, WAY_OUT);
    sw_heap_free(r.ids.at, SW_HEAP_FILES, r.ids.room * sizeof *r.ids.at);
    sw_heap_free(r.labels.at, SW_HEAP_FILES, r.labels.room * sizeof *r.labels.at);
    return status;
}

/* ---- two parts --------------------------------------------------------------------------- */

static sw_status check_some(const swi_documents *d)
{
    if (d->n == 0)
        SW_FAIL(SW_FORMAT,
                "%s: no document has a token that counts (%lld were passed over): labels must "
                "have ids after the first token and before the context of %lld ends",
                d->path, (long long)d->info.passed_over, (long long)d->context);
    return SW_OK;
}

/* Move a share of them (0: the library's), one at least, to *second. */
static sw_status swi_documents_split(swi_documents *d, swi_documents **second, double share,
                                     uint64_t seed)
{
    swi_documents *s;
    int64_t train = 0, test = 0;
    uint32_t stay = 0;
    SW_TRY(check_some(d));
    SW_TRY(swi_split_sizes(d->path, "document", share, d->n, &train, &test));
    SW_TRY(swi_documents_create(&s, d->path, d->context, d->n_ids));
    const sw_status status =
        sw_heap_reserve(&s->document, SW_HEAP_DATASETS, &s->room, (uint32_t)test);
    if (status != SW_OK) {
        swi_documents_destroy(s);
        return status;
    }
    for (uint32_t i = 0; i < d->n; i++) {
        int32_t *document = d->document[i];
        if (!swi_split_takes(seed, i, d->n - i, (uint64_t)(test - s->n))) {
            d->document[stay++] = document;
            continue;
        }
        s->document[s->n++] = document;
        count(&s->info, document, 1);
        count(&d->info, document, -1);
    }
    d->n = stay;
    s->largest = d->largest;
    *second = s;
    return SW_OK;
}

/* ---- packing ----------------------------------------------------------------------------- */

/* Where each document lies; four bytes for each number. */
typedef struct {
    uint32_t *order, *row, *next; /* by length; of a document; the row under a row */
    uint32_t *top;                /* of the rows with so much room, + 1; 0: none */
    uint64_t *waits;              /* a bit for each room */
    int32_t *at;                  /* of a document, in its row */
    uint32_t n;                   /* rows */
    void *block;
    size_t bytes;
} places;

/* The least room that is enough and has a row; context + 1: none. */
static size_t find_room(const places *p, size_t enough, size_t context)
{
    uint64_t bits = p->waits[enough / 64] & ~(uint64_t)0 << enough % 64;
    for (size_t i = enough / 64;; bits = p->waits[i]) {
        if (bits != 0)
            return i * 64 + (size_t)__builtin_ctzll(bits);
        if (++i > context / 64)
            return context + 1;
    }
}

static void place_all(const swi_documents *d, places *p)
{
    const size_t context = (size_t)d->context;
    /* By length, the longest first, those of one length as they came: `top` counts. */
    for (uint32_t i = 0; i < d->n; i++)
        p->top[context - (size_t)d->document[i][0] + 1]++;
    for (size_t k = 1; k <= context; k++)
        p->top[k] += p->top[k - 1];
    for (uint32_t i = 0; i < d->n; i++)
        p->order[p->top[context - (size_t)d->document[i][0]]++] = i;
    memset(p->top, 0, (context + 2) * sizeof *p->top);
    for (uint32_t k = 0; k < d->n; k++) {
        const uint32_t i = p->order[k];
        const size_t length = (size_t)d->document[i][0];
        size_t room = find_room(p, length, context);
        uint32_t row = p->n;
        if (room <= context) {
            row = p->top[room] - 1;
            p->top[room] = p->next[row];
            if (p->top[room] == 0)
                p->waits[room / 64] &= ~((uint64_t)1 << room % 64);
        } else {
            room = context;
            p->n++;
        }
        p->row[i] = row;
        p->at[i] = (int32_t)(context - room);
        room -= length;
        if (room > 0) {
            p->next[row] = p->top[room];
            p->top[room] = row + 1;
            p->waits[room / 64] |= (uint64_t)1 << room % 64;
        }
    }
}

static void fill_rows(const swi_documents *d, const places *p, sw_dataset *set)
{
    const size_t context = (size_t)d->context;
    int32_t *field[4];
    for (int f = 0; f < 4; f++)
        field[f] = set->field[f].block;
    for (size_t k = 0; k < context * p->n; k++) {
        field[1][k] = SWI_NOT_COUNTED;
        field[3][k] = (int32_t)(k % context);
    }
    for (uint32_t i = 0; i < d->n; i++) {
        const int32_t *document = d->document[i], n = document[0], at = p->at[i];
        const size_t from = (size_t)p->row[i] * context + (size_t)at;
        memcpy(field[0] + from, document + 1, (size_t)n * sizeof *document);
        memcpy(field[1] + from, document + 1 + n, (size_t)n * sizeof *document);
        for (int32_t t = 0; t < n; t++) {
            field[2][from + (size_t)t] = t;
            field[3][from + (size_t)t] = at;
            set->counts[p->row[i]] += document[1 + n + t] != SWI_NOT_COUNTED;
        }
    }
}

static sw_status make_rows(const swi_documents *d, const places *p, bool shapes_only,
                           sw_dataset *set)
{
    const sw_shape row = {1, {d->context}};
    set->shapes_only = shapes_only;
    set->n_classes = d->largest + 1;
    set->documents = d->info;
    set->documents.rows = p->n;
    for (int f = 0; f < 4; f++)
        SW_TRY(swi_dataset_field(set, SW_I32, row));
    if (shapes_only)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&set->counts, SW_HEAP_DATASETS, p->n * sizeof *set->counts));
    fill_rows(d, p, set);
    return SW_OK;
}

sw_status swi_documents_pack(const swi_documents *d, bool shapes_only, sw_dataset **out)
{
    const size_t n = d->n, context = (size_t)d->context, words = context / 64 + 1;
    sw_dataset *set;
    SW_TRY(check_some(d));
    places p = {.n = 0, .bytes = words * sizeof *p.waits + (4 * n + context + 2) * 4};
    SW_TRY(sw_heap_alloc(&p.block, SW_HEAP_DATASETS, p.bytes));
    p.waits = p.block;
    p.top = (uint32_t *)(void *)(p.waits + words);
    p.order = p.top + context + 2;
    p.row = p.order + n;
    p.next = p.row + n;
    p.at = (int32_t *)(void *)(p.next + n);
    place_all(d, &p);
    sw_status status = swi_dataset_new(&set, d->path, p.n);
    if (status == SW_OK) {
        status = make_rows(d, &p, shapes_only, set);
        if (status == SW_OK)
            *out = set;
        else
            sw_dataset_destroy(set);
    }
    sw_heap_free(p.block, SW_HEAP_DATASETS, p.bytes);
    return status;
}

swi_documents_info swi_dataset_documents(const sw_dataset *dataset)
{
    return dataset != NULL ? dataset->documents : (swi_documents_info){0};
}

/* ---- as readers -------------------------------------------------------------------------- */

/* Read, split where there is no file for testing, and pack: what a reader's `both` does.
 * `read` adds the documents of one file. */
static sw_status swi_documents_both(sw_dataset **train, sw_dataset **test, const char *path,
                                    const swi_reader_opts *o,
                                    sw_status (*read)(swi_documents *d, const char *path,
                                                      const swi_reader_opts *o))
{
    const int64_t context = o->context > 0 ? o->context : SWI_CONTEXT;
    swi_documents *d[2] = {NULL, NULL};
    sw_dataset *part[2] = {NULL, NULL};
    SW_TRY(swi_documents_create(&d[0], path, context, o->n_ids));
    sw_status status = read(d[0], path, o);
    if (status == SW_OK && o->test_path == NULL)
        status = swi_documents_split(d[0], &d[1], o->test_share, o->seed);
    else if (status == SW_OK)
        status = swi_documents_create(&d[1], o->test_path, context, o->n_ids);
    if (status == SW_OK && o->test_path != NULL)
        status = read(d[1], o->test_path, o);
    for (int i = 0; i < 2 && status == SW_OK; i++) {
        d[i]->largest = d[i]->largest > d[!i]->largest ? d[i]->largest : d[!i]->largest;
        status = swi_documents_pack(d[i], o->shapes_only, &part[i]);
    }
    swi_documents_destroy(d[0]);
    swi_documents_destroy(d[1]);
    return swi_parts_give(status, part, train, test);
}

static sw_status read_ids(swi_documents *d, const char *path, const swi_reader_opts *o)
{
    return swi_documents_read(d, path, o->unpack_bytes);
}

static sw_status read_named(sw_dataset **train, sw_dataset **test, const char *path,
                            const swi_reader_opts *o)
{
    return swi_documents_both(train, test, path, o, read_ids);
}

const swi_reader swi_reader_ids = {.name = "ids",
                                   .path = "FILE",
                                   .about = "for documents of ids, a line of JSON each",
                                   .takes = SWI_TAKES_TEST | SWI_TAKES_SHARE,
                                   .both = read_named};

static sw_status chat_named(sw_dataset **train, sw_dataset **test, const char *path,
                            const swi_reader_opts *o)
{
    if (o->chat == NULL)
        SW_FAIL(
            SW_UNSUPPORTED,
            "%s: chat: is there for --model hf:DIR alone, whose folder says how texts become "
            "ids; ids:FILE takes ids that were made elsewhere",
            path);
    return swi_documents_both(train, test, path, o, o->chat);
}

const swi_reader swi_reader_chat = {.name = "chat",
                                    .path = "FILE",
                                    .about = "for conversations and texts, a line of JSON each "
                                             "(--model hf)",
                                    .takes = SWI_TAKES_TEST | SWI_TAKES_SHARE,
                                    .both = chat_named};
