/* Genomes as text: one vertex a line, so that a diff shows one line for each changed vertex. */
#include "alloc/base/sys.h"
#include "profiler/record/json.h"
#include "runtime/population/evolve/genome_internal.h"
#include "runtime/population/evolve/text_read.h"

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
    void *block;
    if (sw_file_waits(file))
        SW_FAIL(SW_INVALID, "%s: %s must be a regular file", sw_file_path(file), is);
    SW_TRY(sw_file_size(file, &size));
    if (size > most)
        SW_FAIL(SW_FORMAT, "%s: %s has at most %zu bytes (got %llu)", sw_file_path(file), is,
                most, (unsigned long long)size);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)size + 1));
    sw_status status = sw_file_read(file, block, (size_t)size, &got);
    if (status == SW_OK && got < size)
        status = sw_error_set(SW_FORMAT, __FILE__, __LINE__,
                              "%s: it became shorter while it was read", sw_file_path(file));
    if (status != SW_OK) {
        sw_text_free(block, (size_t)size);
        return status;
    }
    *out = block;
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

static void print_shield(sw_json *j, uint32_t shield)
{
    if (shield == 0)
        return;
    sw_json_open(j, "shield", '[');
    if (shield == SW_SHIELD_ALL)
        sw_json_string(j, "all");
    for (uint32_t bit = 0; shield != SW_SHIELD_ALL && swi_shield_name(bit) != NULL; bit++)
        if ((shield >> bit & 1) != 0)
            sw_json_string(j, swi_shield_name(bit));
    sw_json_end(j);
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
    print_shield(j, v->shield);
    sw_json_end(j);
}

static void print_training(sw_json *j, const sw_genome *g)
{
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
}

static void print_input(sw_json *j, const swi_vertex *v)
{
    sw_json_break(j, 1);
    sw_json_open(j, "input", '[');
    sw_json_i64(j, v->channels);
    if (v->height > 0) {
        sw_json_i64(j, v->height);
        sw_json_i64(j, v->width);
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
    print_input(j, &g->vertices[0]);
    print_training(j, g);
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
    static const char call[] = "sw_genome_print";
    sw_json j;
    SW_TRY(sw_handle_check(g, SW_HANDLE_GENOME, call));
    if (text == NULL || bytes == NULL)
        SW_FAIL(SW_INVALID, "%s: text and bytes must not be NULL", call);
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
    static const char call[] = "sw_genome_save";
    whole w;
    SW_TRY(sw_handle_check(g, SW_HANDLE_GENOME, call));
    if (path == NULL)
        SW_FAIL(SW_INVALID, "%s: path must not be NULL", call);
    SW_TRY(sw_genome_print(g, &w.text, &w.bytes));
    const sw_status status = sw_file_replace(path, write_text, &w);
    sw_text_free(w.text, w.bytes);
    return status;
}
