/* Genomes out of text. Each line is checked as it is read, and lines together (shapes that do
 * not fit) after the last one. Both are refused by the line concerned. */
#include "runtime/population/evolve/genome_internal.h"
#include "runtime/population/evolve/text_read.h"

typedef struct {
    sw_genome *genome;
    swi_names names;
    uint32_t seen; /* fields of the text, and of the object that is being read */
    uint32_t seen_inside;
    bool depthwise;
    swi_vertex vertex;
    uint64_t lines[SWI_MAX_VERTICES], parts[SWI_PARTS];
} reader;

static const char *const updates[] = {"release", "after"};
static const sw_update_time update_times[] = {SW_UPDATE_RELEASE, SW_UPDATE_AFTER};

static sw_status read_update(sw_json_in *in, sw_update_time *out)
{
    uint32_t which;
    SW_TRY(swi_read_choice(in, "update", updates, 2, &which));
    *out = update_times[which];
    return SW_OK;
}

/* ---- a vertex ---------------------------------------------------------------------------- */

enum {
    NAME,
    KIND,
    IN,
    SIZE,
    KERNEL,
    STRIDE,
    DILATION,
    GROUPS,
    ACTIVATION,
    RATE,
    UPDATE,
    IDENTITY,
    SHIELD,
    FIELDS
};
static const char *const fields[FIELDS] = {
    "name",   "kind",       "in",   "size",   "kernel",   "stride", "dilation",
    "groups", "activation", "rate", "update", "identity", "shield"};

#define BIT(field) ((uint32_t)1 << (field))
#define ALWAYS (BIT(NAME) | BIT(KIND) | BIT(IN))
#define WINDOW (BIT(KERNEL) | BIT(STRIDE))

/* The fields that a kind must have, and all that it may have. */
static uint32_t fields_needed(const swi_vertex *v)
{
    return ALWAYS | (swi_vertex_is_sized(v) ? BIT(SIZE) : 0) |
           (swi_vertex_has_window(v) ? BIT(KERNEL) : 0) |
           (v->kind == SW_VERTEX_ACTIVATION ? BIT(ACTIVATION) : 0) |
           (v->kind == SW_VERTEX_DROPOUT ? BIT(RATE) : 0);
}

static uint32_t fields_allowed(const swi_vertex *v)
{
    const bool conv = v->kind == SW_VERTEX_CONV2D;
    return fields_needed(v) | BIT(SHIELD) | (swi_vertex_has_window(v) ? WINDOW : 0) |
           (conv ? BIT(DILATION) | BIT(GROUPS) : 0) |
           (swi_vertex_has_parameters(v) ? BIT(UPDATE) : 0) |
           (conv || v->kind == SW_VERTEX_LINEAR ? BIT(IDENTITY) : 0);
}

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

static sw_status read_groups(sw_json_in *in, swi_vertex *v)
{
    static const char *const depthwise[] = {"depthwise"};
    int c;
    uint32_t which;
    int64_t x;
    SW_TRY(sw_json_peek(in, &c));
    if (c == '"') {
        v->groups = 0;
        return swi_read_choice(in, "groups", depthwise, 1, &which);
    }
    SW_TRY(swi_read_whole(in, "groups", 1, SWI_MAX_UNITS, &x));
    v->groups = (int32_t)x;
    return SW_OK;
}

static sw_status read_small(sw_json_in *in, const char *field, int32_t *out)
{
    int64_t x;
    SW_TRY(swi_read_whole(in, field, 1, SWI_MAX_WINDOW, &x));
    *out = (int32_t)x;
    return SW_OK;
}

static sw_status read_activation(sw_json_in *in, swi_vertex *v)
{
    char word[24];
    SW_TRY(swi_read_word(in, "activation", word, sizeof word));
    v->activation = swi_activation_find(word);
    return v->activation >= 0 ? SW_OK : swi_read_bad(in, "'%s' is no activation", word);
}

static sw_status read_name(sw_json_in *in, swi_vertex *v)
{
    SW_TRY(swi_read_word(in, "name", v->name, sizeof v->name));
    if (!swi_name_is_one(v->name, sizeof v->name, false))
        return swi_read_bad(in, "a name must be of letters, digits, '_' and '-' (got '%s')",
                            v->name);
    return SW_OK;
}

static sw_status read_member(sw_json_in *in, const char *key, void *context)
{
    reader *r = context;
    swi_vertex *v = &r->vertex;
    uint32_t which;
    SW_TRY(swi_read_field(in, key, fields, FIELDS, "a vertex", &r->seen_inside, &which));
    switch (which) {
    case NAME:
        return read_name(in, v);
    case KIND:
        return read_kind(in, v);
    case IN:
        return swi_read_list(in, read_input_name, r);
    case SIZE:
        return swi_read_whole(in, "size", 1, SWI_MAX_UNITS, &v->size);
    case KERNEL:
        return read_small(in, "kernel", &v->kernel);
    case STRIDE:
        return read_small(in, "stride", &v->stride);
    case DILATION:
        return read_small(in, "dilation", &v->dilation);
    case GROUPS:
        return read_groups(in, v);
    case ACTIVATION:
        return read_activation(in, v);
    case RATE:
        return swi_read_f32(in, "rate", &v->rate);
    case UPDATE:
        return read_update(in, &v->update);
    case IDENTITY:
        return swi_read_bool(in, "identity", &v->identity);
    default:
        return swi_read_shield(in, &v->shield);
    }
}

/* The fields are those of the kind. */
static sw_status check_fields(const sw_json_in *in, const reader *r)
{
    const swi_vertex *v = &r->vertex;
    const uint32_t missing = ALWAYS & ~r->seen_inside;
    if (missing != 0)
        return swi_read_bad(in, "this vertex has no \"%s\"", fields[__builtin_ctz(missing)]);
    const uint32_t needed = fields_needed(v) & ~r->seen_inside;
    const uint32_t more = r->seen_inside & ~fields_allowed(v);
    const char *what =
        swi_vertex_is_depthwise(v) ? "depthwise conv2d" : sw_vertex_kind_name(v->kind);
    if (needed != 0)
        return swi_read_bad(in, "vertex '%s': a %s must have \"%s\"", v->name, what,
                            fields[__builtin_ctz(needed)]);
    if (more != 0)
        return swi_read_bad(in, "vertex '%s': a %s has no \"%s\"", v->name, what,
                            fields[__builtin_ctz(more)]);
    return SW_OK;
}

static sw_status read_vertex(sw_json_in *in, void *context)
{
    reader *r = context;
    sw_genome *g = r->genome;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    const uint64_t line = in->line;
    if (g->n == SWI_MAX_VERTICES)
        return swi_read_bad(in, "a genome has at most %d vertices", SWI_MAX_VERTICES);
    r->vertex = swi_vertex_of(SW_VERTEX_INPUT);
    r->seen_inside = 0;
    SW_TRY(sw_json_get_object(in, read_member, r));
    SW_TRY(check_fields(in, r));
    uint16_t *slot = swi_names_slot(&r->names, g, r->vertex.name);
    if (*slot != 0)
        return swi_read_bad(in, "vertex '%s': line %llu has this name too", r->vertex.name,
                            (unsigned long long)r->lines[*slot - 1]);
    SW_TRY(swi_genome_insert(g, g->n, &r->vertex));
    *slot = (uint16_t)g->n;
    r->lines[g->n - 1] = line;
    return SW_OK;
}

/* ---- training ---------------------------------------------------------------------------- */

static sw_status read_optimizer_member(sw_json_in *in, const char *key, void *context)
{
    static const char *const names[] = {"kind", "lr",        "momentum", "weight_decay",
                                        "clip", "clip_norm", "update"};
    reader *r = context;
    sw_genome *g = r->genome;
    float *const to[] = {NULL,     &g->lr,        &g->momentum, &g->weight_decay,
                         &g->clip, &g->clip_norm, NULL};
    uint32_t which;
    SW_TRY(swi_read_field(in, key, names, 7, "an optimizer", &r->seen_inside, &which));
    if (which == 0)
        return swi_read_word(in, "kind", g->optimizer, sizeof g->optimizer);
    return to[which] == NULL ? read_update(in, &g->update)
                             : swi_read_f32(in, names[which], to[which]);
}

static sw_status read_optimizer(sw_json_in *in, reader *r)
{
    r->seen_inside = 0;
    SW_TRY(sw_json_get_object(in, read_optimizer_member, r));
    return (r->seen_inside & 3) == 3
               ? SW_OK
               : sw_json_bad(in, "an optimizer must have \"kind\" and \"lr\"");
}

static sw_status read_loss_member(sw_json_in *in, const char *key, void *context)
{
    static const char *const names[] = {"kind", "smoothing"};
    reader *r = context;
    uint32_t which;
    SW_TRY(swi_read_field(in, key, names, 2, "a loss", &r->seen_inside, &which));
    return which == 0 ? swi_read_word(in, "kind", r->genome->loss, sizeof r->genome->loss)
                      : swi_read_f32(in, "smoothing", &r->genome->smoothing);
}

static sw_status read_loss(sw_json_in *in, reader *r)
{
    r->seen_inside = 0;
    SW_TRY(sw_json_get_object(in, read_loss_member, r));
    return (r->seen_inside & 1) != 0 ? SW_OK : sw_json_bad(in, "a loss must have \"kind\"");
}

/* ---- the whole --------------------------------------------------------------------------- */

static sw_status read_dim(sw_json_in *in, void *context)
{
    reader *r = context;
    swi_vertex *v = &r->genome->vertices[0];
    int64_t *const dims[] = {&v->channels, &v->height, &v->width};
    if (v->was == 3)
        return sw_json_bad(in, "\"input\" must be [channels, height, width] or [elements]");
    return swi_read_whole(in, "input", 1, SWI_MAX_UNITS, dims[v->was++]);
}

static sw_status read_shape(sw_json_in *in, reader *r)
{
    swi_vertex *v = &r->genome->vertices[0];
    SW_TRY(swi_read_list(in, read_dim, r)); /* `was` counts them: nothing has lineage here */
    const uint32_t n = v->was;
    v->was = 0;
    return n == 1 || n == 3 ? SW_OK
                            : sw_json_bad(in, "\"input\" must be [channels, height, width] "
                                              "or [elements]");
}

static sw_status read_format(sw_json_in *in)
{
    static const char *const formats[] = {SWI_GENOME_FORMAT};
    uint32_t which;
    return swi_read_choice(in, "format", formats, 1, &which);
}

enum { FORMAT, TITLE, INPUT, OPTIMIZER, BATCH, LOSS, VERTICES, TOPS };
static const char *const tops[TOPS] = {"format", "name", "input",   "optimizer",
                                       "batch",  "loss", "vertices"};

static sw_status read_top(sw_json_in *in, const char *key, void *context)
{
    reader *r = context;
    sw_genome *g = r->genome;
    uint32_t which;
    int c;
    SW_TRY(swi_read_field(in, key, tops, TOPS, "a genome", &r->seen, &which));
    if ((r->seen & BIT(FORMAT)) == 0)
        return sw_json_bad(in, "the first must be \"format\": \"" SWI_GENOME_FORMAT "\"");
    SW_TRY(sw_json_peek(in, &c));
    switch (which) {
    case FORMAT:
        return read_format(in);
    case TITLE:
        r->parts[SWI_PART_NAME] = in->line;
        return swi_read_word(in, "name", g->name, sizeof g->name);
    case INPUT:
        r->lines[0] = in->line;
        return read_shape(in, r);
    case OPTIMIZER:
        r->parts[SWI_PART_OPTIMIZER] = in->line;
        return read_optimizer(in, r);
    case BATCH:
        r->parts[SWI_PART_BATCH] = in->line;
        return swi_read_whole(in, "batch", 1, SWI_MAX_BATCH, &g->batch);
    case LOSS:
        r->parts[SWI_PART_LOSS] = in->line;
        return read_loss(in, r);
    default:
        return swi_read_list(in, read_vertex, r);
    }
}

/* Check what no single line shows. The input is refused where its shape stands, the last vertex
 * where it does. */
static sw_status check_whole(const sw_json_in *in, reader *r)
{
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
        line = part < SWI_PARTS ? r->parts[part] : line;
    }
    return swi_read_bad_at(in, line, sw_last_error());
}

static sw_status read_all(sw_json_in *in, reader *r)
{
    swi_names_begin(&r->names, SWI_MAX_VERTICES);
    *swi_names_slot(&r->names, r->genome, "input") = 1;
    SW_TRY(sw_json_get_object(in, read_top, r));
    const uint32_t needed =
        BIT(FORMAT) | BIT(INPUT) | BIT(OPTIMIZER) | BIT(BATCH) | BIT(LOSS) | BIT(VERTICES);
    const uint32_t missing = needed & ~r->seen;
    if (missing != 0)
        return swi_read_bad(in, "a genome must have \"%s\"", tops[__builtin_ctz(missing)]);
    SW_TRY(swi_read_end(in));
    return check_whole(in, r);
}

sw_status sw_genome_parse(sw_genome **out, const char *text, size_t bytes, const char *path)
{
    static const char call[] = "sw_genome_parse";
    const sw_task task = SW_OPTS(sw_task, .channels = 1);
    void *block;
    if (out == NULL || text == NULL || path == NULL)
        SW_FAIL(SW_INVALID, "%s: out, text and path must not be NULL", call);
    if (bytes > SWI_TEXT_MAX)
        SW_FAIL(SW_FORMAT, "%s: a genome has at most %zu bytes (got %zu)", path, SWI_TEXT_MAX,
                bytes);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, sizeof(reader)));
    reader *r = block;
    sw_status status = swi_genome_new(&r->genome, &task);
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
    static const char call[] = "sw_genome_load";
    char *text;
    size_t bytes;
    if (out == NULL || path == NULL)
        SW_FAIL(SW_INVALID, "%s: out and path must not be NULL", call);
    SW_TRY(swi_text_load(&text, &bytes, path, "a genome", SWI_TEXT_MAX));
    const sw_status status = sw_genome_parse(out, text, bytes, path);
    sw_text_free(text, bytes);
    return status;
}
