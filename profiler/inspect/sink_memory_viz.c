/* PyTorch's memory snapshot, for its memory viewer and torch.cuda._memory_viz.
 *
 * Three segments: step arena, model, inputs; each is there from the first event to the end, as
 * large as it ever gets. Births and deaths are alloc and free events; a value that takes the
 * place of another is a free and an alloc, so that its role and its frames are its own. The
 * model is alive at the end. The viewers require:
 *
 * - an address belongs to one block at a time and lies in a segment that is listed, whose
 * blocks tile it; segments are found by the exact address and size of their segment_alloc event
 * - free_requested and free_completed stand together: only then they become one free, with the
 *   frames of the first
 * - where one event has a category, "unknown" must occur: segment_alloc events have it
 * - frames whose names contain parts of Python's own are hidden; such names are altered
 * - nothing is marked but strings and frames: viewers write into events and segments
 *
 * Frames go from the tensor outwards: its op, its scopes, its role, its phase; what a frame is
 * stands where a file's name would. */
#include "alloc/base/mem.h"
#include "profiler/inspect/sink_tree.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A value: where it is, and what was written of it. */
typedef struct {
    uint64_t address;
    uint32_t frames; /* mark */
    uint32_t holder; /* while it lives, who has its place (index + 1) */
} allocation;

typedef struct {
    uint64_t address, size, live, padding; /* of what lives */
} segment;

typedef struct {
    swi_tree tree;
    const sw_timeline *timeline;
    allocation *allocations; /* of all programs, one after another */
    size_t *first;           /* of each program */
    size_t n_allocations;    /* of all */
    segment segments[SW_SEGMENTS];
    size_t ended; /* runs */
    char step[48];
    uint32_t step_mark;
    char *name; /* room for a name that is altered */
    size_t name_bytes;
} writer;

/* ---- frames ------------------------------------------------------------------------------ */

/* Parts of names that make a viewer hide a frame; each has the character that is replaced. */
static const char *const hidden[] = {"unwind::unwind",  "CapturedTraceback::gather",
                                     "gather_with_cpp", "_start",
                                     "PyEval_",         "PyObject_",
                                     "PyFunction_"};

static char *find_hidden(char *text)
{
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        char *at = strstr(text, hidden[i]);
        if (at != NULL)
            return at + strcspn(at, "_:");
    }
    return NULL;
}

/* n bytes of text as a name; it is `text` itself where it can be. */
static const char *shown(writer *w, const char *text, size_t n)
{
    if (n + 1 > w->name_bytes) {
        const sw_status status =
            sw_heap_resize(&w->name, SW_HEAP_PROFILE, w->name_bytes, 2 * n + 64);
        if (status != SW_OK) {
            w->tree.out->status = status;
            return "";
        }
        w->name_bytes = 2 * n + 64;
    }
    memcpy(w->name, text, n);
    w->name[n] = '\0';
    char *at = find_hidden(w->name);
    if (at == NULL && text[n] == '\0')
        return text;
    for (; at != NULL; at = find_hidden(w->name))
        *at = '-';
    return w->name;
}

static void put_frame(writer *w, const char *kind, uint64_t line, const char *text, size_t n)
{
    swi_tree *t = &w->tree;
    const char *name = shown(w, text, n);
    swi_tree_begin(t, '{');
    swi_tree_put_text(t, "filename", kind);
    swi_tree_put_u64(t, "line", line);
    swi_tree_key(t, "name");
    if (name == text)
        swi_tree_text_kept(t, name);
    else
        swi_tree_text_once(t, name);
    swi_tree_end(t);
}

/* Scopes from the inside. */
static void put_layers(writer *w, const char *layer)
{
    uint64_t depth = 0;
    for (const char *c = layer; *c != '\0'; c++)
        depth += *c == '/';
    for (size_t end = strlen(layer); end > 0;) {
        size_t begin = end;
        while (begin > 0 && layer[begin - 1] != '/')
            begin--;
        put_frame(w, "layer", depth--, layer + begin, end - begin);
        end = begin > 0 ? begin - 1 : 0;
    }
}

static void put_frames(writer *w, const sw_tl_program *p, uint32_t index)
{
    swi_tree *t = &w->tree;
    const sw_tensor *v = &p->values[index];
    allocation *at = &w->allocations[w->first[p - w->timeline->programs] + index];
    swi_tree_key(t, "frames");
    if (swi_tree_again(t, at->frames))
        return;
    swi_tree_begin(t, '[');
    put_frame(w, "tensor", v->id, v->name, strlen(v->name));
    if (v->op[0] != '\0')
        put_frame(w, "op", v->birth, v->op, strlen(v->op));
    put_layers(w, v->layer);
    put_frame(w, "role", 0, v->role, strlen(v->role));
    if (v->phase[0] != '\0')
        put_frame(w, "phase", 0, v->phase, strlen(v->phase));
    swi_tree_end(t);
    swi_tree_mark(t, &at->frames);
}

/* ---- events ------------------------------------------------------------------------------ */

static void begin_event(writer *w, const char *action, uint64_t address, uint64_t size,
                        uint64_t ns)
{
    swi_tree *t = &w->tree;
    swi_tree_begin(t, '{');
    swi_tree_put_text(t, "action", action);
    swi_tree_put_u64(t, "addr", address);
    swi_tree_put_u64(t, "size", size);
    swi_tree_put_u64(t, "stream", 0);
    swi_tree_put_u64(t, "time_us", ns / 1000);
}

static void put_step(writer *w)
{
    swi_tree_key(&w->tree, "user_metadata");
    if (swi_tree_again(&w->tree, w->step_mark))
        return;
    swi_tree_text_once(&w->tree, w->step);
    swi_tree_mark(&w->tree, &w->step_mark);
}

static void put_event(writer *w, const sw_tl_event *e, const char *action, const allocation *at,
                      uint64_t size, uint32_t whose)
{
    begin_event(w, action, at->address, size, e->ns);
    if (strcmp(action, "free_completed") != 0) {
        swi_tree_put_text(&w->tree, "category", e->program->values[whose].role);
        put_frames(w, e->program, whose);
        put_step(w);
    }
    swi_tree_end(&w->tree);
}

static void put_free(writer *w, const sw_tl_event *e, allocation *at, uint64_t size)
{
    put_event(w, e, "free_requested", at, size, at->holder - 1);
    put_event(w, e, "free_completed", at, size, at->holder - 1);
    at->holder = 0;
}

/* The owner of the bytes of `index`. */
static uint32_t root_of(const sw_tl_program *p, uint32_t index)
{
    for (uint32_t i = 0; i < p->n_values && p->values[index].alias != SW_TL_NONE; i++)
        index = p->values[index].alias;
    return index;
}

static void take_value(writer *w, const sw_tl_event *e)
{
    const sw_tl_program *p = e->program;
    const uint32_t root = root_of(p, e->index);
    const sw_tensor *v = &p->values[root];
    const uint64_t size = v->bytes + v->padding;
    allocation *at = &w->allocations[w->first[p - w->timeline->programs] + root];
    const bool lived = at->holder != 0;
    if (size == 0 || (e->kind == SW_TL_ALLOC) == lived)
        return;
    if (lived)
        put_free(w, e, at, size);
    if (e->kind != SW_TL_FREE) {
        put_event(w, e, "alloc", at, size, e->index);
        at->holder = e->index + 1;
    }
    if (e->kind != SW_TL_REUSE) {
        segment *s = &w->segments[v->segment];
        s->live += lived ? -size : size;
        s->padding += lived ? -v->padding : v->padding;
    }
}

static sw_status take(void *context, const sw_tl_event *e)
{
    writer *w = context;
    if (e->kind == SW_TL_STEP_BEGIN) {
        snprintf(w->step, sizeof w->step, "%s", e->name);
        w->step_mark = 0;
    } else if (e->kind == SW_TL_STEP_END) {
        w->ended++;
        snprintf(w->step, sizeof w->step, "between steps");
        w->step_mark = 0;
    } else if (e->kind == SW_TL_ALLOC || e->kind == SW_TL_REUSE ||
               (e->kind == SW_TL_FREE && w->ended < w->timeline->n_runs)) {
        take_value(w, e);
    }
    return w->tree.out->status;
}

static sw_status put_trace(writer *w)
{
    swi_tree *t = &w->tree;
    swi_tree_key(t, "device_traces");
    swi_tree_begin(t, '[');
    swi_tree_begin(t, '[');
    for (int s = 0; s < SW_SEGMENTS; s++)
        if (w->segments[s].size > 0) {
            begin_event(w, "segment_alloc", w->segments[s].address, w->segments[s].size, 0);
            swi_tree_put_text(t, "category", "unknown");
            swi_tree_key(t, "frames");
            swi_tree_begin(t, '[');
            swi_tree_end(t);
            swi_tree_end(t);
        }
    SW_TRY(sw_timeline_walk(w->timeline, take, w));
    swi_tree_end(t);
    swi_tree_end(t);
    return t->out->status;
}

/* ---- segments ---------------------------------------------------------------------------- */

/* The values that live at the end. */
typedef struct {
    const sw_tl_program *program;
    uint32_t root, holder;
    uint64_t address;
} survivor;

static int by_address(const void *a, const void *b)
{
    const survivor *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

static size_t survivors(const writer *w, survivor *out)
{
    const sw_timeline *t = w->timeline;
    size_t n = 0;
    for (uint32_t i = 0; i < t->n_programs; i++)
        for (uint32_t k = 0; k < t->programs[i].n_values; k++) {
            const allocation *at = &w->allocations[w->first[i] + k];
            if (at->holder != 0 && out != NULL)
                out[n] = (survivor){&t->programs[i], k, at->holder - 1, at->address};
            n += at->holder != 0;
        }
    return n;
}

static void begin_block(swi_tree *t, uint64_t address, uint64_t size, uint64_t requested,
                        const char *state)
{
    swi_tree_begin(t, '{');
    swi_tree_put_u64(t, "address", address);
    swi_tree_put_u64(t, "size", size);
    swi_tree_put_u64(t, "requested_size", requested);
    swi_tree_put_text(t, "state", state);
}

static void put_hole(swi_tree *t, uint64_t from, uint64_t to)
{
    if (to <= from)
        return;
    begin_block(t, from, to - from, to - from, "inactive");
    swi_tree_key(t, "frames");
    swi_tree_begin(t, '[');
    swi_tree_end(t);
    swi_tree_end(t);
}

static sw_status put_blocks(writer *w, const segment *s, const survivor *of, size_t n)
{
    swi_tree *t = &w->tree;
    uint64_t end = s->address;
    for (size_t i = 0; i < n; i++) {
        const sw_tensor *v = &of[i].program->values[of[i].root];
        if (of[i].address < s->address || of[i].address >= s->address + s->size)
            continue;
        if (of[i].address < end)
            SW_FAIL(SW_FORMAT, "%s: value %" PRIu32 " (%s) lies on another one",
                    w->timeline->path, v->id, v->name);
        put_hole(t, end, of[i].address);
        begin_block(t, of[i].address, v->bytes + v->padding, v->bytes, "active_allocated");
        swi_tree_put_text(t, "category", of[i].program->values[of[i].holder].role);
        put_frames(w, of[i].program, of[i].holder);
        swi_tree_end(t);
        end = of[i].address + v->bytes + v->padding;
    }
    put_hole(t, end, s->address + s->size);
    return t->out->status;
}

static sw_status put_segment(writer *w, const segment *s, const survivor *of, size_t n)
{
    swi_tree *t = &w->tree;
    swi_tree_begin(t, '{');
    swi_tree_put_u64(t, "device", 0);
    swi_tree_put_u64(t, "address", s->address);
    swi_tree_put_u64(t, "total_size", s->size);
    swi_tree_put_u64(t, "allocated_size", s->live);
    swi_tree_put_u64(t, "active_size", s->live);
    swi_tree_put_u64(t, "requested_size", s->live - s->padding);
    swi_tree_put_u64(t, "stream", 0);
    swi_tree_put_text(t, "segment_type", s->size > 1 << 20 ? "large" : "small");
    swi_tree_key(t, "segment_pool_id");
    swi_tree_tuple2(t, 0, 0);
    swi_tree_key(t, "is_expandable");
    swi_tree_bool(t, false);
    swi_tree_key(t, "frames");
    swi_tree_begin(t, '[');
    swi_tree_end(t);
    swi_tree_key(t, "blocks");
    swi_tree_begin(t, '[');
    SW_TRY(put_blocks(w, s, of, n));
    swi_tree_end(t);
    swi_tree_end(t);
    return t->out->status;
}

static sw_status put_segments(writer *w)
{
    void *of;
    const size_t n = survivors(w, NULL);
    SW_TRY(sw_heap_alloc(&of, SW_HEAP_PROFILE, n * sizeof(survivor)));
    (void)survivors(w, of);
    qsort(of, n, sizeof(survivor), by_address);
    swi_tree_key(&w->tree, "segments");
    swi_tree_begin(&w->tree, '[');
    sw_status status = SW_OK;
    for (int s = 0; s < SW_SEGMENTS && status == SW_OK; s++)
        if (w->segments[s].size > 0)
            status = put_segment(w, &w->segments[s], of, n);
    swi_tree_end(&w->tree);
    sw_heap_free(of, SW_HEAP_PROFILE, n * sizeof(survivor));
    return status;
}

/* ---- the whole --------------------------------------------------------------------------- */

/* Where everything lies. Several models, and several inputs, each count from 0: they are set
 * one after another. */
static void set_allocations(writer *w)
{
    const sw_timeline *t = w->timeline;
    for (int s = 0; s < SW_SEGMENTS; s++)
        w->segments[s].address = (uint64_t)(s + 1) << 40;
    for (uint32_t i = 0; i < t->n_programs; i++) {
        const sw_tl_program *p = &t->programs[i];
        uint64_t next[SW_SEGMENTS] = {0};
        for (uint32_t k = 0; k < p->n_values; k++) {
            const sw_tensor *v = &p->values[k];
            segment *s = &w->segments[v->segment];
            const uint64_t offset =
                v->segment == SW_SEGMENT_STEP ? v->offset : next[v->segment];
            w->allocations[w->first[i] + k].address = s->address + offset;
            if (v->alias != SW_TL_NONE)
                continue;
            const uint64_t end = offset + v->bytes + v->padding;
            next[v->segment] = end;
            s->size = end > s->size ? end : s->size;
        }
        if (p->arena_bytes > w->segments[SW_SEGMENT_STEP].size)
            w->segments[SW_SEGMENT_STEP].size = p->arena_bytes;
    }
}

static sw_status write_tree(writer *w)
{
    swi_tree *t = &w->tree;
    swi_tree_begin(t, '{');
    SW_TRY(put_trace(w));
    SW_TRY(put_segments(w));
    swi_tree_key(t, "allocator_settings");
    swi_tree_begin(t, '{');
    swi_tree_put_text(t, "tool", w->timeline->tool);
    swi_tree_put_text(t, "model", w->timeline->model);
    swi_tree_put_text(t, "device", w->timeline->device);
    swi_tree_put_text(t, "data", w->timeline->data);
    swi_tree_end(t);
    swi_tree_end(t);
    return t->out->status;
}

static sw_status make_allocations(writer *w)
{
    const sw_timeline *t = w->timeline;
    SW_TRY(sw_heap_alloc(&w->first, SW_HEAP_PROFILE, t->n_programs * sizeof *w->first));
    for (uint32_t i = 0; i < t->n_programs; i++) {
        w->first[i] = w->n_allocations;
        w->n_allocations += t->programs[i].n_values;
    }
    SW_TRY(sw_heap_alloc(&w->allocations, SW_HEAP_PROFILE,
                         w->n_allocations * sizeof *w->allocations));
    set_allocations(w);
    return SW_OK;
}

static sw_status write_snapshot(const sw_timeline *t, sw_sink_out *out, bool as_json)
{
    writer *w;
    SW_TRY(sw_heap_alloc(&w, SW_HEAP_PROFILE, sizeof(writer)));
    w->timeline = t;
    snprintf(w->step, sizeof w->step, "before all steps");
    sw_status status = make_allocations(w);
    if (status == SW_OK) {
        swi_tree_start(&w->tree, out, as_json);
        status = write_tree(w);
        swi_tree_stop(&w->tree, &status);
    }
    sw_heap_free(w->allocations, SW_HEAP_PROFILE, w->n_allocations * sizeof *w->allocations);
    sw_heap_free(w->first, SW_HEAP_PROFILE, t->n_programs * sizeof *w->first);
    sw_heap_free(w->name, SW_HEAP_PROFILE, w->name_bytes);
    sw_heap_free(w, SW_HEAP_PROFILE, sizeof *w);
    return status;
}

static sw_status write_pickle(const sw_timeline *t, sw_sink_out *out)
{
    return write_snapshot(t, out, false);
}

static sw_status write_json(const sw_timeline *t, sw_sink_out *out)
{
    return write_snapshot(t, out, true);
}

const sw_sink sw_sink_memory_viz = {
    .name = "memory-viz",
    .about = "a PyTorch memory snapshot: pytorch.org/memory_viz, torch.cuda._memory_viz",
    .ending = ".pickle",
    .binary = true,
    .write = write_pickle,
};

const sw_sink sw_sink_memory_viz_json = {
    .name = "memory-viz-json",
    .about = "the same snapshot as JSON, for scripts",
    .ending = ".json",
    .write = write_json,
};
