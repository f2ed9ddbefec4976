/* Genomes as text: one vertex a line, so that a diff shows one line for each changed vertex. */
#include "alloc/base/message.h"
#include "alloc/base/sys.h"
#include "profiler/record/json.h"
#include "runtime/population/evolve/genome.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static sw_status read_f32(sw_json_in *in, const char *field, float *out);

/* ---- texts ------------------------------------------------------------------------------- */

void sw_text_free(char *text, size_t bytes)
{
    if (text != NULL)
        sw_heap_free(text, SW_HEAP_RECORDS, bytes + 1);
}

static sw_status read_text(char **out, size_t *bytes, sw_file *file, const char *is,
                           size_t most)
{
    uint64_t size;
    size_t got;
    char *text;
    if (sw_file_waits(file))
        SW_FAIL(SW_INVALID, "%s: %s must be a regular file", sw_file_path(file), is);
    SW_TRY(sw_file_size(file, &size));
    if (size > most)
        SW_FAIL(SW_FORMAT, "%s: %s has at most %zu bytes (got %llu)", sw_file_path(file), is,
                most, (unsigned long long)size);
    SW_TRY(sw_heap_alloc(&text, SW_HEAP_RECORDS, (size_t)size + 1));
    sw_status status = sw_file_read(file, text, (size_t)size, &got);
    if (status == SW_OK && got < size)
        status = sw_error_set(SW_FORMAT, __FILE__, __LINE__,
                              "%s: it became shorter while it was read", sw_file_path(file));
    if (status != SW_OK) {
        sw_text_free(text, (size_t)size);
        return status;
    }
    *out = text;
    *bytes = (size_t)size;
    return SW_OK;
}

sw_status swi_text_load(char **out, size_t *bytes, const char *path, const char *is,
                        size_t most)
{
    sw_file *file;
    SW_TRY(sw_file_open(&file, path, SW_FILE_READ));
    const sw_status status = read_text(out, bytes, file, is, most);
    sw_file_drop(file);
    return status;
}

/* ---- printing ---------------------------------------------------------------------------- */

static const char *const shields[] = {"size",   "remove",     "inputs",   "outputs",
                                      "kernel", "activation", "crossover"};

const char *swi_shield_name(uint32_t bit)
{
    return bit < sizeof shields / sizeof *shields ? shields[bit] : NULL;
}

static const char *update_name(sw_update_time update)
{
    return update == SW_UPDATE_AFTER ? "after" : "release";
}

static void put_unless_1(sw_json *j, const char *key, int32_t x)
{
    if (x != 1)
        sw_json_put_i64(j, key, x);
}

static void put_unless_0(sw_json *j, const char *key, float x)
{
    if (x != 0)
        sw_json_put_f32(j, key, x);
}

static void print_window(sw_json *j, const swi_vertex *v)
{
    sw_json_put_i64(j, "kernel", v->kernel);
    put_unless_1(j, "stride", v->stride);
    if (v->kind != SW_VERTEX_CONV2D)
        return;
    put_unless_1(j, "dilation", v->dilation);
    if (v->groups == 0)
        sw_json_put_string(j, "groups", "depthwise");
    else
        put_unless_1(j, "groups", v->groups);
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
    if (swi_vertex_is_sized(v))
        sw_json_put_i64(j, "size", v->size);
    if (swi_vertex_has_window(v))
        print_window(j, v);
    if (v->kind == SW_VERTEX_ACTIVATION)
        sw_json_put_string(j, "activation", swi_activation_name(v->activation));
    if (v->kind == SW_VERTEX_DROPOUT)
        sw_json_put_f32(j, "rate", v->rate);
    if (swi_vertex_has_parameters(v) && v->update != SW_UPDATE_DEFAULT)
        sw_json_put_string(j, "update", update_name(v->update));
    if (swi_vertex_is_identity(v))
        sw_json_put_bool(j, "identity", true);
    if (v->shield != 0) {
        sw_json_open(j, "shield", '[');
        if (v->shield == SW_SHIELD_ALL)
            sw_json_string(j, "all");
        for (uint32_t bit = 0; v->shield != SW_SHIELD_ALL && swi_shield_name(bit) != NULL;
             bit++)
            if ((v->shield >> bit & 1) != 0)
                sw_json_string(j, swi_shield_name(bit));
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void print_genome(sw_json *j, const sw_genome *g)
{
    j->spaced = true;
    sw_json_begin(j, '{');
    sw_json_break(j, 1);
    sw_json_put_string(j, "format", SWI_GENOME_FORMAT);
    if (g->name[0] != '\0') {
        sw_json_break(j, 1);
        sw_json_put_string(j, "name", g->name);
    }
    sw_json_break(j, 1);
    sw_json_open(j, "input", '[');
    sw_json_i64(j, g->vertices[0].channels);
    if (g->vertices[0].height > 0) {
        sw_json_i64(j, g->vertices[0].height);
        sw_json_i64(j, g->vertices[0].width);
    }
    sw_json_end(j);
    sw_json_break(j, 1);
    sw_json_open(j, "optimizer", '{');
    sw_json_put_string(j, "kind", g->optimizer);
    sw_json_put_f32(j, "lr", g->lr);
    put_unless_0(j, "momentum", g->momentum);
    put_unless_0(j, "weight_decay", g->weight_decay);
    put_unless_0(j, "clip", g->clip);
    put_unless_0(j, "clip_norm", g->clip_norm);
    sw_json_put_string(j, "update", update_name(g->update));
    sw_json_end(j);
    sw_json_break(j, 1);
    sw_json_put_i64(j, "batch", g->batch);
    sw_json_break(j, 1);
    sw_json_open(j, "loss", '{');
    sw_json_put_string(j, "kind", g->loss);
    put_unless_0(j, "smoothing", g->smoothing);
    sw_json_end(j);
    sw_json_break(j, 1);
    sw_json_open(j, "vertices", '[');
    for (uint32_t i = 1; i < g->n; i++) {
        sw_json_break(j, 2);
        print_vertex(j, g, &g->vertices[i]);
    }
    sw_json_break(j, 1);
    sw_json_end(j);
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
    if (text == NULL || bytes == NULL)
        SW_FAIL(SW_INVALID, "%s: text and bytes must not be NULL", __func__);
    sw_json_growing(&j, SW_HEAP_RECORDS);
    print_genome(&j, g);
    const sw_status status = take_text(&j, text, bytes);
    sw_json_free(&j);
    return status;
}

/* ---- saving ------------------------------------------------------------------------------ */

typedef struct {
    char *text;
    size_t bytes;
} whole;

static sw_status write_text(void *context, sw_file *file)
{
    const whole *w = context;
    return sw_file_write(file, w->text, w->bytes);
}

sw_status sw_genome_save(const sw_genome *g, const char *path)
{
    whole w;
    SW_TRY(sw_handle_check(g, SW_HANDLE_GENOME, __func__));
    if (path == NULL)
        SW_FAIL(SW_INVALID, "%s: path must not be NULL", __func__);
    SW_TRY(sw_genome_print(g, &w.text, &w.bytes));
    const sw_status status = sw_file_replace(path, write_text, &w);
    sw_text_free(w.text, w.bytes);
    return status;
}

/* Genomes out of text. Each line is checked as it is read, and lines together (shapes that do
 * not fit) after the last one. Both are refused by the line concerned. */

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
static const char *const vertex_fields[FIELDS] = {
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

bool swi_vertex_has_field(const swi_vertex *v, const char *name)
{
    uint32_t i = 0;
    while (i < FIELDS && strcmp(vertex_fields[i], name) != 0)
        i++;
    return i < FIELDS && (fields_allowed(v) & BIT(i)) != 0;
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
    uint32_t which = 0;
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
    uint32_t which = 0;
    SW_TRY(swi_read_field(in, key, vertex_fields, FIELDS, "a vertex", &r->seen_inside, &which));
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
        return read_f32(in, "rate", &v->rate);
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
        return swi_read_bad(in, "this vertex has no \"%s\"",
                            vertex_fields[__builtin_ctz(missing)]);
    const uint32_t needed = fields_needed(v) & ~r->seen_inside;
    const uint32_t more = r->seen_inside & ~fields_allowed(v);
    const char *what =
        swi_vertex_is_depthwise(v) ? "depthwise conv2d" : sw_vertex_kind_name(v->kind);
    if (needed != 0)
        return swi_read_bad(in, "vertex '%s': a %s must have \"%s\"", v->name, what,
                            vertex_fields[__builtin_ctz(needed)]);
    if (more != 0)
        return swi_read_bad(in, "vertex '%s': a %s has no \"%s\"", v->name, what,
                            vertex_fields[__builtin_ctz(more)]);
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
    uint32_t which = 0;
    SW_TRY(swi_read_field(in, key, names, 7, "an optimizer", &r->seen_inside, &which));
    if (which == 0)
        return swi_read_word(in, "kind", g->optimizer, sizeof g->optimizer);
    return to[which] == NULL ? read_update(in, &g->update)
                             : read_f32(in, names[which], to[which]);
}

static sw_status read_loss_member(sw_json_in *in, const char *key, void *context)
{
    static const char *const names[] = {"kind", "smoothing"};
    reader *r = context;
    uint32_t which = 0;
    SW_TRY(swi_read_field(in, key, names, 2, "a loss", &r->seen_inside, &which));
    return which == 0 ? swi_read_word(in, "kind", r->genome->loss, sizeof r->genome->loss)
                      : read_f32(in, "smoothing", &r->genome->smoothing);
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

static sw_status read_format(sw_json_in *in)
{
    static const char *const formats[] = {SWI_GENOME_FORMAT};
    uint32_t which = 0;
    return swi_read_choice(in, "format", formats, 1, &which);
}

enum { FORMAT, TITLE, INPUT, OPTIMIZER, BATCH, LOSS, VERTICES, TOPS };
static const char *const tops[TOPS] = {"format", "name", "input",   "optimizer",
                                       "batch",  "loss", "vertices"};

static sw_status read_top(sw_json_in *in, const char *key, void *context)
{
    reader *r = context;
    sw_genome *g = r->genome;
    uint32_t which = 0;
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
        swi_vertex *v = &r->genome->vertices[0];
        SW_TRY(
            swi_read_list(in, read_dim, r)); /* `was` counts them: nothing has lineage here */
        const uint32_t n = v->was;
        v->was = 0;
        return n == 1 || n == 3 ? SW_OK
                                : sw_json_bad(in, "\"input\" must be [channels, height, width] "
                                                  "or [elements]");
    case OPTIMIZER:
        r->parts[SWI_PART_OPTIMIZER] = in->line;
        r->seen_inside = 0;
        SW_TRY(sw_json_get_object(in, read_optimizer_member, r));
        return (r->seen_inside & 3) == 3
                   ? SW_OK
                   : sw_json_bad(in, "an optimizer must have \"kind\" and \"lr\"");
    case BATCH:
        r->parts[SWI_PART_BATCH] = in->line;
        return swi_read_whole(in, "batch", 1, SWI_MAX_BATCH, &g->batch);
    case LOSS:
        r->parts[SWI_PART_LOSS] = in->line;
        r->seen_inside = 0;
        SW_TRY(sw_json_get_object(in, read_loss_member, r));
        return (r->seen_inside & 1) != 0 ? SW_OK : sw_json_bad(in, "a loss must have \"kind\"");
    default:
        return swi_read_list(in, read_vertex, r);
    }
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
        line = part < SWI_PARTS ? r->parts[part] : line;
    }
    return swi_read_bad_at(in, line, sw_last_error());
}

sw_status sw_genome_parse(sw_genome **out, const char *text, size_t bytes, const char *path)
{
    reader *r;
    if (out == NULL || text == NULL || path == NULL)
        SW_FAIL(SW_INVALID, "%s: out, text and path must not be NULL", __func__);
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
    if (out == NULL || path == NULL)
        SW_FAIL(SW_INVALID, "%s: out and path must not be NULL", __func__);
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

sw_status swi_read_field(const sw_json_in *in, const char *key, const char *const *fields,
                         uint32_t n, const char *of, uint32_t *seen, uint32_t *which)
{
    uint32_t i = 0;
    while (i < n && strcmp(fields[i], key) != 0)
        i++;
    if (i == n)
        return swi_read_bad(in, "%s has no \"%.40s\"", of, key);
    if ((*seen >> i & 1) != 0)
        return swi_read_bad(in, "\"%s\" is there twice", key);
    *seen |= (uint32_t)1 << i;
    *which = i;
    return SW_OK;
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

static sw_status read_f32(sw_json_in *in, const char *field, float *out)
{
    double x;
    SW_TRY(need(in, field, "-0123456789", "a number"));
    SW_TRY(swi_read_real(in, &x));
    *out = fabs(x) <= 3.4028234663852886e38 ? (float)x : x > 0 ? INFINITY : -INFINITY;
    return SW_OK;
}

sw_status swi_read_bool(sw_json_in *in, const char *field, bool *out)
{
    sw_json_word word;
    SW_TRY(need(in, field, "tf", "true or false"));
    SW_TRY(sw_json_get_word(in, &word));
    *out = word == SW_JSON_TRUE;
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

sw_status swi_read_shield(sw_json_in *in, uint32_t *out)
{
    *out = 0;
    return swi_read_list(in, read_one_shield, out);
}
