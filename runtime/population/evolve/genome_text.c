/* Genomes as text: one vertex a line, so that a diff shows one line for each changed vertex. */
#include "alloc/base/message.h"
#include "alloc/base/sys.h"
#include "profiler/record/json.h"
#include "runtime/population/evolve/genome.h"
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define BIT(field) ((uint32_t)1 << (field))

static const char *const shields[] = {"size",   "remove",     "inputs",   "outputs",
                                      "kernel", "activation", "crossover"};

const char *swi_shield_name(uint32_t bit)
{
    return bit < sizeof shields / sizeof *shields ? shields[bit] : NULL;
}

/* ---- fields ------------------------------------------------------------------------------ */

#define OF(kind) ((uint32_t)1 << SW_VERTEX_##kind)
#define DEPTHWISE OF(KINDS)
#define ANY UINT32_MAX
#define CONV (OF(CONV2D) | DEPTHWISE)
#define WINDOW (CONV | OF(MAX_POOL) | OF(AVG_POOL))
#define LAYER (CONV | OF(LINEAR))
#define AT(field) .at = offsetof(swi_vertex, field)
#define NUMBERS(to) .low = 1, .high = to
#define FIELD(word, type) .name = word, .kind = SWI_FIELD_##type

/* clang-format off */
static const swi_text_field vertex_list[] = {
    {FIELD("name", OWN), .must = ANY},
    {FIELD("kind", OWN), .must = ANY},
    {FIELD("in", OWN), .must = ANY},
    {FIELD("size", WHOLE), AT(size), NUMBERS(SWI_MAX_UNITS), .must = OF(LINEAR) | OF(CONV2D)},
    {FIELD("kernel", SMALL), AT(kernel), NUMBERS(SWI_MAX_WINDOW), .must = WINDOW},
    {FIELD("stride", SMALL), AT(stride), NUMBERS(SWI_MAX_WINDOW), .may = WINDOW, .usual = 1},
    {FIELD("dilation", SMALL), AT(dilation), NUMBERS(SWI_MAX_WINDOW), .may = CONV, .usual = 1},
    {FIELD("groups", SMALL), AT(groups), NUMBERS(SWI_MAX_UNITS), .zero = "depthwise", .may = CONV, .usual = 1},
    {FIELD("activation", ACTIVATION), AT(activation), .must = OF(ACTIVATION)},
    {FIELD("rate", REAL), AT(rate), .low = 0, .high = 0.99, .must = OF(DROPOUT)},
    {FIELD("update", UPDATE), AT(update), .may = LAYER | OF(BATCH_NORM)},
    {FIELD("identity", BOOL), AT(identity), .may = LAYER},
    {FIELD("shield", SHIELD), AT(shield), .may = ANY},
};
const swi_fields swi_vertex_fields = SWI_FIELDS("a vertex", vertex_list);

#undef AT
#define AT(field) .at = offsetof(sw_genome, field)
#define ROOM(field) AT(field), .high = sizeof ((sw_genome *)0)->field
static const swi_text_field optimizer_list[] = {
    {FIELD("kind", WORD), ROOM(optimizer), .must = ANY},
    {FIELD("lr", REAL), AT(lr), .must = ANY},
    {FIELD("momentum", REAL), AT(momentum), .may = ANY},
    {FIELD("weight_decay", REAL), AT(weight_decay), .may = ANY},
    {FIELD("clip", REAL), AT(clip), .may = ANY},
    {FIELD("clip_norm", REAL), AT(clip_norm), .may = ANY},
    {FIELD("update", UPDATE), AT(update), .may = ANY},
};
static const swi_fields optimizer_fields = SWI_FIELDS("an optimizer", optimizer_list);

static const swi_text_field loss_list[] = {
    {FIELD("kind", WORD), ROOM(loss), .must = ANY},
    {FIELD("smoothing", REAL), AT(smoothing), .may = ANY},
};
static const swi_fields loss_fields = SWI_FIELDS("a loss", loss_list);

enum { FORMAT, TITLE, INPUT, OPTIMIZER, BATCH, LOSS, VERTICES, TOPS };
static const swi_text_field genome_list[TOPS] = {
    {FIELD("format", OWN), .must = ANY},
    {FIELD("name", WORD), ROOM(name), .may = ANY},
    {FIELD("input", OWN), .must = ANY},
    {FIELD("optimizer", OBJECT), .must = ANY, .inside = &optimizer_fields},
    {FIELD("batch", WHOLE), AT(batch), NUMBERS(SWI_MAX_BATCH), .must = ANY},
    {FIELD("loss", OBJECT), .must = ANY, .inside = &loss_fields},
    {FIELD("vertices", OWN), .must = ANY},
};
const swi_fields swi_genome_fields = SWI_FIELDS("a genome", genome_list);
/* clang-format on */

uint32_t swi_vertex_form(const swi_vertex *v)
{
    if ((unsigned)v->kind >= SW_VERTEX_KINDS)
        return 0; /* swi_genome_infer refuses it */
    return swi_vertex_is_depthwise(v) ? DEPTHWISE : (uint32_t)1 << v->kind;
}

bool swi_vertex_has(const swi_vertex *v, uint32_t field)
{
    return ((vertex_list[field].must | vertex_list[field].may) & swi_vertex_form(v)) != 0;
}

uint32_t swi_fields_of(const swi_fields *fields, uint32_t form, uint32_t *may)
{
    uint32_t must = 0;
    *may = 0;
    for (uint32_t i = 0; i < fields->n; i++) {
        must |= (fields->list[i].must & form) != 0 ? BIT(i) : 0;
        *may |= (fields->list[i].may & form) != 0 ? BIT(i) : 0;
    }
    return must;
}

const swi_text_field *swi_field_find(const swi_fields *fields, const char *name)
{
    const swi_text_field *found = NULL;
    for (uint32_t i = 0; i < fields->n && found == NULL; i++) {
        const swi_text_field *f = &fields->list[i];
        found = f->kind == SWI_FIELD_OBJECT  ? swi_field_find(f->inside, name)
                : strcmp(f->name, name) == 0 ? f
                                             : NULL;
    }
    return found;
}

bool swi_vertex_has_field(const swi_vertex *v, const char *name)
{
    const swi_text_field *f = swi_field_find(&swi_vertex_fields, name);
    return f != NULL && swi_vertex_has(v, (uint32_t)(f - vertex_list));
}

double swi_field_get(const swi_text_field *f, const void *of)
{
    const void *at = (const char *)of + f->at;
    switch (f->kind) {
    case SWI_FIELD_WHOLE:
        return (double)*(const int64_t *)at;
    case SWI_FIELD_REAL:
        return (double)*(const float *)at;
    case SWI_FIELD_BOOL:
        return *(const bool *)at;
    case SWI_FIELD_UPDATE:
        return *(const sw_update_time *)at;
    case SWI_FIELD_SHIELD:
        return *(const uint32_t *)at;
    default:
        return *(const int32_t *)at;
    }
}

void swi_field_set(const swi_text_field *f, void *to, double x)
{
    void *at = (char *)to + f->at;
    if (f->kind == SWI_FIELD_WHOLE)
        *(int64_t *)at = (int64_t)x;
    else if (f->kind == SWI_FIELD_SMALL)
        *(int32_t *)at = (int32_t)x;
    else
        *(float *)at = fabs(x) <= (double)FLT_MAX ? (float)x : x > 0 ? INFINITY : -INFINITY;
}

/* ---- printing ---------------------------------------------------------------------------- */

static void print_shield(sw_json *j, uint32_t shield)
{
    sw_json_begin(j, '[');
    if (shield == SW_SHIELD_ALL)
        sw_json_string(j, "all");
    for (uint32_t bit = 0; shield != SW_SHIELD_ALL && swi_shield_name(bit) != NULL; bit++)
        if ((shield >> bit & 1) != 0)
            sw_json_string(j, swi_shield_name(bit));
    sw_json_end(j);
}

/* Fields that may be missing are written where they are not as usual. */
static void print_fields(sw_json *j, const swi_fields *fields, uint32_t form, const void *of)
{
    for (const swi_text_field *f = fields->list; f < fields->list + fields->n; f++) {
        if (f->kind == SWI_FIELD_OWN || ((f->must | f->may) & form) == 0)
            continue;
        if (f->kind == SWI_FIELD_WORD) {
            sw_json_put_string(j, f->name, (const char *)of + f->at);
            continue;
        }
        const double x = swi_field_get(f, of);
        if ((f->must & form) == 0 && x == f->usual)
            continue;
        sw_json_key(j, f->name);
        switch (f->kind) {
        case SWI_FIELD_REAL:
            sw_json_f32(j, (float)x);
            break;
        case SWI_FIELD_BOOL:
            sw_json_bool(j, true);
            break;
        case SWI_FIELD_UPDATE:
            sw_json_string(j, x == SW_UPDATE_AFTER ? "after" : "release");
            break;
        case SWI_FIELD_ACTIVATION:
            sw_json_string(j, swi_activation_name((int)x));
            break;
        case SWI_FIELD_SHIELD:
            print_shield(j, (uint32_t)x);
            break;
        default:
            if (x == 0 && f->zero != NULL)
                sw_json_string(j, f->zero);
            else
                sw_json_i64(j, (int64_t)x);
        }
    }
}

static void print_vertex(sw_json *j, const sw_genome *g, const swi_vertex *v)
{
    sw_json_begin(j, '{');
    sw_json_put_string(j, "name", v->name);
    sw_json_put_string(j, "kind", sw_vertex_kind_name(v->kind));
    sw_json_open(j, "in", '[');
    for (uint32_t k = 0; k < v->n_in; k++)
        sw_json_string(j, g->vertices[v->in[k]].name);
    sw_json_end(j);
    print_fields(j, &swi_vertex_fields, swi_vertex_form(v), v);
    sw_json_end(j);
}

static void print_genome(sw_json *j, const sw_genome *g)
{
    j->spaced = true;
    sw_json_begin(j, '{');
    for (uint32_t top = 0; top < TOPS; top++) {
        const swi_text_field *f = &genome_list[top];
        if (top == TITLE && g->name[0] == '\0')
            continue;
        sw_json_break(j, 1);
        if (f->kind == SWI_FIELD_OBJECT) {
            sw_json_open(j, f->name, '{');
            print_fields(j, f->inside, ANY, g);
            sw_json_end(j);
        } else if (top == INPUT) {
            const int64_t dims[] = {g->vertices[0].channels, g->vertices[0].height,
                                    g->vertices[0].width};
            sw_json_open(j, f->name, '[');
            for (int k = 0; k < (dims[1] > 0 ? 3 : 1); k++)
                sw_json_i64(j, dims[k]);
            sw_json_end(j);
        } else if (top == VERTICES) {
            sw_json_open(j, f->name, '[');
            for (uint32_t i = 1; i < g->n; i++) {
                sw_json_break(j, 2);
                print_vertex(j, g, &g->vertices[i]);
            }
            sw_json_break(j, 1);
            sw_json_end(j);
        } else if (top == BATCH) {
            sw_json_put_i64(j, f->name, g->batch);
        } else {
            sw_json_put_string(j, f->name, top == FORMAT ? SWI_GENOME_FORMAT : g->name);
        }
    }
    sw_json_break(j, 0);
    sw_json_end(j);
    sw_json_line(j);
}

/* The buffer becomes a text of its own length and a zero. */
static sw_status take_text(sw_json *j, char **text, size_t *bytes)
{
    SW_TRY(j->status);
    void *block = j->bytes;
    SW_TRY(sw_heap_resize(&block, SW_HEAP_RECORDS, j->capacity, j->used + 1));
    *text = block;
    *bytes = j->used;
    (*text)[j->used] = '\0';
    *j = (sw_json){.grows = true, .heap = SW_HEAP_RECORDS};
    return SW_OK;
}

sw_status sw_genome_print(const sw_genome *g, char **text, size_t *bytes)
{
    sw_json j;
    SW_TRY(sw_handle_check(g, SW_HANDLE_GENOME, __func__));
    SW_TRY(swi_given(text != NULL && bytes != NULL, "text and bytes", __func__));
    sw_json_growing(&j, SW_HEAP_RECORDS);
    print_genome(&j, g);
    const sw_status status = take_text(&j, text, bytes);
    sw_json_free(&j);
    return status;
}

/* ---- saving ------------------------------------------------------------------------------ */

sw_status sw_genome_save(const sw_genome *g, const char *path)
{
    char *text;
    size_t bytes;
    SW_TRY(sw_handle_check(g, SW_HANDLE_GENOME, __func__));
    SW_TRY(swi_given(path != NULL, "path", __func__));
    SW_TRY(sw_genome_print(g, &text, &bytes));
    const sw_status status = sw_file_replace_bytes(path, text, bytes);
    sw_text_free(text, bytes);
    return status;
}

/* Genomes out of text. Each line is checked as it is read, and lines together (shapes that do
 * not fit) after the last one. Both are refused by the line concerned. */

typedef struct {
    sw_genome *genome;
    swi_names names;
    swi_vertex vertex; /* that is being read */
    uint64_t lines[SWI_MAX_VERTICES];
} reader;

/* ---- a vertex ---------------------------------------------------------------------------- */

static sw_status read_kind(sw_json_in *in, swi_vertex *v)
{
    char word[24];
    SW_TRY(swi_read_word(in, "kind", word, sizeof word));
    const int kind = swi_vertex_kind_find(word);
    if (kind < 0)
        return swi_read_bad(in, "'%s' is no kind of vertex", word);
    if (kind == SW_VERTEX_INPUT)
        return sw_json_bad(in, "the input is no line of its own: \"input\" is its shape");
    v->kind = (sw_vertex_kind)kind;
    return SW_OK;
}

static sw_status read_input_name(sw_json_in *in, void *context)
{
    reader *r = context;
    char name[SWI_VERTEX_NAME];
    SW_TRY(swi_read_word(in, "in", name, sizeof name));
    const uint16_t slot = *swi_names_slot(&r->names, r->genome, name);
    if (slot == 0)
        return swi_read_bad(in, "no line before this one has the vertex '%s'", name);
    if (r->vertex.n_in == SWI_MAX_INPUTS)
        return swi_read_bad(in, "a vertex reads at most %d others", SWI_MAX_INPUTS);
    r->vertex.in[r->vertex.n_in++] = slot - 1u;
    return SW_OK;
}

static sw_status read_vertex_field(sw_json_in *in, swi_object *o, uint32_t which)
{
    swi_vertex *v = o->to;
    if (which == SWI_VERTEX_KIND)
        return read_kind(in, v);
    if (which == SWI_VERTEX_IN)
        return swi_read_list(in, read_input_name, o->context);
    SW_TRY(swi_read_word(in, "name", v->name, sizeof v->name));
    if (!swi_name_is_one(v->name, sizeof v->name, false))
        return swi_read_bad(in, "a name must be of letters, digits, '_' and '-' (got '%s')",
                            v->name);
    return SW_OK;
}

static sw_status read_vertex(sw_json_in *in, void *context)
{
    reader *r = context;
    sw_genome *g = r->genome;
    swi_vertex *v = &r->vertex;
    swi_object o = {
        .fields = &swi_vertex_fields, .to = v, .context = r, .own = read_vertex_field};
    char who[80] = "a vertex";
    uint32_t may;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    const uint64_t line = in->line;
    if (g->n == SWI_MAX_VERTICES)
        return swi_read_bad(in, "a genome has at most %d vertices", SWI_MAX_VERTICES);
    *v = swi_vertex_of(SW_VERTEX_INPUT);
    SW_TRY(swi_read_object(in, &o));
    const uint32_t form = swi_vertex_form(v);
    if (v->name[0] != '\0' && v->kind != SW_VERTEX_INPUT)
        snprintf(who, sizeof who, "vertex '%s': a %s", v->name,
                 form == DEPTHWISE ? "depthwise conv2d" : sw_vertex_kind_name(v->kind));
    const uint32_t must = swi_fields_of(o.fields, form, &may);
    SW_TRY(swi_read_complete(in, &o, must, may, who));
    uint16_t *slot = swi_names_slot(&r->names, g, v->name);
    if (*slot != 0)
        return swi_read_bad(in, "vertex '%s': line %llu has this name too", v->name,
                            (unsigned long long)r->lines[*slot - 1]);
    SW_TRY(swi_genome_insert(g, g->n, v));
    *slot = (uint16_t)g->n;
    r->lines[g->n - 1] = line;
    return SW_OK;
}

/* ---- the whole --------------------------------------------------------------------------- */

static sw_status read_dim(sw_json_in *in, void *context)
{
    swi_vertex *v = context; /* `was` counts them: nothing has lineage here */
    int64_t *const dims[] = {&v->channels, &v->height, &v->width};
    if (v->was == 3)
        return sw_json_bad(in, "\"input\" must be [channels, height, width] or [elements]");
    return swi_read_whole(in, "input", 1, SWI_MAX_UNITS, dims[v->was++]);
}

static sw_status read_top(sw_json_in *in, swi_object *o, uint32_t which)
{
    reader *r = o->context;
    if (which == VERTICES)
        return swi_read_list(in, read_vertex, r);
    swi_vertex *input = &r->genome->vertices[0];
    r->lines[0] = in->line;
    SW_TRY(swi_read_list(in, read_dim, input));
    const uint32_t n = input->was;
    input->was = 0;
    return n == 1 || n == 3
               ? SW_OK
               : sw_json_bad(in, "\"input\" must be [channels, height, width] or [elements]");
}

static sw_status read_all(sw_json_in *in, reader *r)
{
    static const int fields[SWI_PARTS] = {TITLE, OPTIMIZER, BATCH, LOSS};
    uint32_t may;
    swi_object o = SW_INIT(.fields = &swi_genome_fields, .to = r->genome, .context = r,
                           .own = read_top, .format = SWI_GENOME_FORMAT);
    swi_names_begin(&r->names, SWI_MAX_VERTICES);
    *swi_names_slot(&r->names, r->genome, "input") = 1;
    SW_TRY(swi_read_object(in, &o));
    const uint32_t must = swi_fields_of(o.fields, ANY, &may);
    SW_TRY(swi_read_complete(in, &o, must, may, o.fields->is));
    SW_TRY(swi_read_end(in));
    /* Check what no single line shows. The input is refused where its shape stands, the last
     * vertex where it does. */
    uint32_t bad = UINT32_MAX;
    uint64_t line = in->line;
    sw_genome *g = r->genome;
    const sw_status status = swi_genome_check(g, &bad);
    if (status != SW_INVALID)
        return status;
    if (bad != UINT32_MAX) {
        line = r->lines[bad];
    } else {
        swi_genome_part part = SWI_PART_NAME;
        while (part < SWI_PARTS && swi_genome_check_part(g, part) == SW_OK)
            part++;
        line = part < SWI_PARTS ? o.lines[fields[part]] : line;
    }
    return swi_read_bad_at(in, line, sw_last_error());
}

sw_status sw_genome_parse(sw_genome **out, const char *text, size_t bytes, const char *path)
{
    reader *r;
    SW_TRY(
        swi_given(out != NULL && text != NULL && path != NULL, "out, text and path", __func__));
    if (bytes > SWI_TEXT_MAX)
        SW_FAIL(SW_FORMAT, "%s: a genome has at most %zu bytes (got %zu)", path, SWI_TEXT_MAX,
                bytes);
    SW_TRY(sw_heap_alloc(&r, SW_HEAP_RECORDS, sizeof(reader)));
    sw_status status = swi_genome_new(&r->genome, &SW_OPTS(sw_task, .channels = 1));
    if (status == SW_OK) {
        sw_json_in in = swi_read_begin(text, bytes, path);
        status = read_all(&in, r);
        if (status != SW_OK)
            swi_genome_free(r->genome);
        else
            *out = r->genome;
    }
    sw_heap_free(r, SW_HEAP_RECORDS, sizeof *r);
    return status;
}

sw_status sw_genome_load(sw_genome **out, const char *path)
{
    char *text;
    size_t bytes;
    SW_TRY(swi_given(out != NULL && path != NULL, "out and path", __func__));
    SW_TRY(swi_text_load(&text, &bytes, path, "a genome", SWI_TEXT_MAX));
    const sw_status status = sw_genome_parse(out, text, bytes, path);
    sw_text_free(text, bytes);
    return status;
}

/* ---- values of all texts ----------------------------------------------------------------- */

sw_json_in swi_read_begin(const char *text, size_t bytes, const char *path)
{
    sw_json_in in = sw_json_in_text(text, bytes, path);
    in.line = 1;
    in.strict = true;
    return in;
}

sw_status swi_read_end(sw_json_in *in)
{
    int c;
    SW_TRY(sw_json_peek(in, &c));
    return c < 0 ? SW_OK : sw_json_bad(in, "the text must end here");
}

sw_status swi_read_bad(const sw_json_in *in, const char *format, ...)
{
    char what[400];
    va_list args;
    va_start(args, format);
    (void)sw_message_list(what, sizeof what, format, args);
    va_end(args);
    return sw_json_bad(in, what);
}

sw_status swi_read_bad_at(const sw_json_in *in, uint64_t line, const char *what)
{
    char text[600];
    snprintf(text, sizeof text, "%s", what); /* it may be the last error */
    SW_FAIL(SW_FORMAT, "%s: line %llu: %s", in->path, (unsigned long long)line, text);
}

/* ---- values ------------------------------------------------------------------------------ */

/* The next value begins so; else which type it must have. */
static sw_status need(sw_json_in *in, const char *field, const char *begins, const char *type)
{
    int c;
    SW_TRY(sw_json_peek(in, &c));
    return c > 0 && strchr(begins, c) != NULL
               ? SW_OK
               : swi_read_bad(in, "\"%s\" must be %s", field, type);
}

sw_status swi_read_word(sw_json_in *in, const char *field, char *to, size_t room)
{
    sw_json_text text = {.to = to, .cap = room - 1};
    SW_TRY(need(in, field, "\"", "a string"));
    SW_TRY(sw_json_get_string(in, &text));
    if (text.length == 0 || text.length >= room)
        return swi_read_bad(in, "\"%s\" must be a string of 1 to %zu bytes (got %zu)", field,
                            room - 1, text.length);
    to[text.length] = '\0';
    return SW_OK;
}

sw_status swi_read_choice(sw_json_in *in, const char *field, const char *const *words,
                          uint32_t n, uint32_t *out)
{
    char word[40], known[320] = "";
    size_t used = 0;
    SW_TRY(swi_read_word(in, field, word, sizeof word));
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(words[i], word) == 0) {
            *out = i;
            return SW_OK;
        }
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                     i > 0 ? ", " : "", words[i]);
    }
    return swi_read_bad(in, "\"%s\" must be one of %s (got '%s')", field, known, word);
}

sw_status swi_read_whole(sw_json_in *in, const char *field, int64_t low, int64_t high,
                         int64_t *out)
{
    sw_json_number x;
    SW_TRY(need(in, field, "-0123456789", "a whole number"));
    SW_TRY(sw_json_get_number(in, &x));
    if (!x.whole || x.real < (double)low || x.real > (double)high)
        return swi_read_bad(in, "\"%s\" must be a whole number of %lld to %lld (got %.12g)",
                            field, (long long)low, (long long)high, x.real);
    *out = x.minus ? -(int64_t)x.magnitude : (int64_t)x.magnitude;
    return SW_OK;
}

sw_status swi_read_real(sw_json_in *in, double *out)
{
    sw_json_number x;
    SW_TRY(sw_json_get_number(in, &x));
    *out = x.real;
    return SW_OK;
}

sw_status swi_read_list(sw_json_in *in, swi_read_element *element, void *context)
{
    bool end, more = true;
    SW_TRY(sw_json_expect(in, '['));
    SW_TRY(sw_json_accept(in, ']', &end));
    while (!end && more) {
        SW_TRY(element(in, context));
        SW_TRY(sw_json_accept(in, ',', &more));
    }
    return end ? SW_OK : sw_json_expect(in, ']');
}

/* ---- shields ----------------------------------------------------------------------------- */

static sw_status read_one_shield(sw_json_in *in, void *context)
{
    uint32_t *shield = context, which;
    const char *names[] = {"all", NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    uint32_t n = 1;
    for (; swi_shield_name(n - 1) != NULL; n++)
        names[n] = swi_shield_name(n - 1);
    SW_TRY(swi_read_choice(in, "shield", names, n, &which));
    const uint32_t bits = which == 0 ? SW_SHIELD_ALL : (uint32_t)1 << (which - 1);
    if ((*shield & bits) != 0)
        return swi_read_bad(in, "\"shield\": '%s' is there already", names[which]);
    *shield |= bits;
    return SW_OK;
}

/* ---- objects ----------------------------------------------------------------------------- */

static sw_status read_value(sw_json_in *in, swi_object *o, const swi_text_field *f)
{
    static const char *const updates[] = {"release", "after"};
    void *at = o->to != NULL ? (char *)o->to + f->at : NULL; /* of fields that others read */
    uint32_t which = 0;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    switch (f->kind) {
    case SWI_FIELD_WORD:
        return swi_read_word(in, f->name, at, (size_t)f->high);
    case SWI_FIELD_SMALL:
    case SWI_FIELD_WHOLE: {
        int64_t x = 0;
        if (f->zero != NULL && c == '"')
            SW_TRY(swi_read_choice(in, f->name, &f->zero, 1, &which));
        else
            SW_TRY(swi_read_whole(in, f->name, (int64_t)f->low, (int64_t)f->high, &x));
        swi_field_set(f, o->to, (double)x);
        return SW_OK;
    }
    case SWI_FIELD_REAL: {
        double x;
        SW_TRY(need(in, f->name, "-0123456789", "a number"));
        SW_TRY(swi_read_real(in, &x));
        swi_field_set(f, o->to, x);
        return SW_OK;
    }
    case SWI_FIELD_BOOL: {
        sw_json_word word;
        SW_TRY(need(in, f->name, "tf", "true or false"));
        SW_TRY(sw_json_get_word(in, &word));
        *(bool *)at = word == SW_JSON_TRUE;
        return SW_OK;
    }
    case SWI_FIELD_UPDATE:
        SW_TRY(swi_read_choice(in, f->name, updates, 2, &which));
        *(sw_update_time *)at = which == 0 ? SW_UPDATE_RELEASE : SW_UPDATE_AFTER;
        return SW_OK;
    case SWI_FIELD_ACTIVATION: {
        char word[24];
        SW_TRY(swi_read_word(in, f->name, word, sizeof word));
        *(int *)at = swi_activation_find(word);
        return *(int *)at >= 0 ? SW_OK : swi_read_bad(in, "'%s' is no activation", word);
    }
    case SWI_FIELD_SHIELD:
        *(uint32_t *)at = 0;
        return swi_read_list(in, read_one_shield, at);
    case SWI_FIELD_OBJECT: {
        swi_object inside = {.fields = f->inside, .to = o->to};
        SW_TRY(swi_read_object(in, &inside));
        const uint32_t must = swi_fields_of(f->inside, ANY, &which);
        return swi_read_complete(in, &inside, must, which, f->inside->is);
    }
    default:
        return o->own(in, o, (uint32_t)(f - o->fields->list));
    }
}

static sw_status read_member(sw_json_in *in, const char *key, void *context)
{
    swi_object *o = context;
    const swi_fields *fields = o->fields;
    uint32_t i = 0, which;
    int c;
    while (i < fields->n && strcmp(fields->list[i].name, key) != 0)
        i++;
    if (i == fields->n)
        return swi_read_bad(in, "%s has no \"%.40s\"", fields->is, key);
    if ((o->seen & BIT(i)) != 0)
        return swi_read_bad(in, "\"%s\" is there twice", key);
    o->seen |= BIT(i);
    if (o->format != NULL && (o->seen & 1) == 0)
        return swi_read_bad(in, "the first must be \"format\": \"%s\"", o->format);
    SW_TRY(sw_json_peek(in, &c));
    o->lines[i] = in->line;
    return o->format != NULL && i == 0 ? swi_read_choice(in, key, &o->format, 1, &which)
                                       : read_value(in, o, &fields->list[i]);
}

sw_status swi_read_object(sw_json_in *in, swi_object *o)
{
    return sw_json_get_object(in, read_member, o);
}

sw_status swi_read_complete(const sw_json_in *in, const swi_object *o, uint32_t must,
                            uint32_t may, const char *who)
{
    const uint32_t missing = must & ~o->seen, surplus = o->seen & ~(must | may);
    if (missing == 0 && surplus == 0)
        return SW_OK;
    return swi_read_bad(in, "%s %s \"%s\"", who, missing != 0 ? "must have" : "has no",
                        o->fields->list[__builtin_ctz(missing != 0 ? missing : surplus)].name);
}
