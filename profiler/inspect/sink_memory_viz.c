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
#include "alloc/base/order.h"
#include "profiler/inspect/numbers.h"
#include "profiler/inspect/pickle.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the writer of pickles --------------------------------------------------------------- */

/* Opcodes have the letters that Python's pickletools gives them. */

static void put(sw_pickle *p, char opcode)
{
    sw_sink_bytes(p->out, &opcode, 1);
}

/* An opcode and a number of n bytes, the lowest first. */
static void put_number(sw_pickle *p, char opcode, uint64_t x, size_t n)
{
    char bytes[9] = {opcode};
    for (size_t i = 0; i < n; i++)
        bytes[i + 1] = (char)(x >> 8 * i);
    sw_sink_bytes(p->out, bytes, n + 1);
}

/* Before every value: a list that has a full batch begins the next one. */
static void value(sw_pickle *p)
{
    if (p->depth == 0 || !p->list[p->depth])
        return;
    if (p->items[p->depth] == SW_PICKLE_BATCH) {
        put(p, 'e');
        put(p, '(');
        p->items[p->depth] = 0;
    }
    p->items[p->depth]++;
}

void sw_pickle_start(sw_pickle *p, sw_sink_out *out)
{
    *p = (sw_pickle){.out = out};
    sw_sink_bytes(out, "\x80\x02", 2);
}

void sw_pickle_stop(sw_pickle *p)
{
    put(p, '.');
}

void sw_pickle_begin(sw_pickle *p, char bracket)
{
    if (p->depth + 1 == SW_PICKLE_DEPTH) {
        p->out->status = p->out->status != SW_OK
                             ? p->out->status
                             : sw_error_set(SW_INVALID, __FILE__, __LINE__, "pickle: too deep");
        return;
    }
    value(p);
    p->depth++;
    p->list[p->depth] = bracket == '[';
    p->items[p->depth] = 0;
    put(p, bracket == '[' ? ']' : '}');
    put(p, '(');
}

void sw_pickle_end(sw_pickle *p)
{
    put(p, p->list[p->depth] ? 'e' : 'u');
    p->depth--;
}

void sw_pickle_string(sw_pickle *p, const char *text)
{
    const size_t n = strlen(text);
    value(p);
    put_number(p, 'X', n, 4);
    sw_sink_bytes(p->out, text, n);
}

/* The value itself, where its place is counted already. */
static void number(sw_pickle *p, uint64_t x)
{
    if (x <= UINT8_MAX)
        put_number(p, 'K', x, 1);
    else if (x <= UINT16_MAX)
        put_number(p, 'M', x, 2);
    else if (x <= INT32_MAX)
        put_number(p, 'J', x, 4);
    else {
        put(p, '\x8a');
        put_number(p, 8, x, 8);
    }
}

void sw_pickle_u64(sw_pickle *p, uint64_t x)
{
    value(p);
    number(p, x);
}

void sw_pickle_bool(sw_pickle *p, bool x)
{
    value(p);
    put(p, x ? '\x88' : '\x89');
}

void sw_pickle_tuple2(sw_pickle *p, uint32_t a, uint32_t b)
{
    value(p);
    number(p, a);
    number(p, b);
    put(p, '\x86');
}

uint32_t sw_pickle_keep(sw_pickle *p)
{
    if (p->n_kept <= UINT8_MAX)
        put_number(p, 'q', p->n_kept, 1);
    else
        put_number(p, 'r', p->n_kept, 4);
    return p->n_kept++;
}

void sw_pickle_again(sw_pickle *p, uint32_t kept)
{
    value(p);
    if (kept <= UINT8_MAX)
        put_number(p, 'h', kept, 1);
    else
        put_number(p, 'j', kept, 4);
}

/* ---- texts ------------------------------------------------------------------------------- */

/* Texts that the timeline owns and values that were marked are written once. */
typedef struct {
    sw_pickle pickle;
    sw_sink_out *out;
    swi_strings texts;          /* that are in the pickle */
    uint32_t *memos, cap_memos; /* of each, where the pickle has it */
} tree;

/* A key, or a text that stays where and what it is until the tree is stopped. */
static void tree_text(tree *t, const char *text)
{
    const uint32_t known = t->texts.n, number = swi_strings_number(&t->texts, text);
    if (t->out->status == SW_OK)
        t->out->status = t->texts.status;
    if (t->out->status != SW_OK)
        return;
    if (number < known) {
        sw_pickle_again(&t->pickle, t->memos[number]);
        return;
    }
    const sw_status room =
        sw_heap_reserve(&t->memos, SW_HEAP_PROFILE, &t->cap_memos, number + 1);
    sw_pickle_string(&t->pickle, text);
    if (room == SW_OK)
        t->memos[number] = sw_pickle_keep(&t->pickle);
    else if (t->out->status == SW_OK)
        t->out->status = room;
}

/* After a value: lets it come again. *mark is 0 for a value that was not written yet. */
static void tree_mark(tree *t, uint32_t *mark)
{
    *mark = sw_pickle_keep(&t->pickle) + 1;
}

/* Writes the marked value again and says so; false: it is to be written out. */
static bool tree_again(tree *t, uint32_t mark)
{
    if (mark != 0)
        sw_pickle_again(&t->pickle, mark - 1);
    return mark != 0;
}

static void tree_put_u64(tree *t, const char *key, uint64_t x)
{
    tree_text(t, key);
    sw_pickle_u64(&t->pickle, x);
}

static void tree_put_text(tree *t, const char *key, const char *kept)
{
    tree_text(t, key);
    tree_text(t, kept);
}

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
    tree tree;
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
    tree *t = &w->tree;
    const char *name = shown(w, text, n);
    sw_pickle_begin(&t->pickle, '{');
    tree_put_text(t, "filename", kind);
    tree_put_u64(t, "line", line);
    tree_text(t, "name");
    if (name == text)
        tree_text(t, name);
    else
        sw_pickle_string(&t->pickle, name);
    sw_pickle_end(&t->pickle);
}

static void put_frames(writer *w, const sw_tl_program *p, uint32_t index)
{
    tree *t = &w->tree;
    const sw_tensor *v = &p->values[index];
    allocation *at = &w->allocations[w->first[p - w->timeline->programs] + index];
    tree_text(t, "frames");
    if (tree_again(t, at->frames))
        return;
    sw_pickle_begin(&t->pickle, '[');
    put_frame(w, "tensor", v->id, v->name, strlen(v->name));
    if (v->op[0] != '\0')
        put_frame(w, "op", v->birth, v->op, strlen(v->op));
    /* Scopes from the inside. */
    uint64_t depth = 0;
    for (const char *c = v->layer; *c != '\0'; c++)
        depth += *c == '/';
    for (size_t end = strlen(v->layer); end > 0;) {
        size_t begin = end;
        while (begin > 0 && v->layer[begin - 1] != '/')
            begin--;
        put_frame(w, "layer", depth--, v->layer + begin, end - begin);
        end = begin > 0 ? begin - 1 : 0;
    }
    put_frame(w, "role", 0, v->role, strlen(v->role));
    if (v->phase[0] != '\0')
        put_frame(w, "phase", 0, v->phase, strlen(v->phase));
    sw_pickle_end(&t->pickle);
    tree_mark(t, &at->frames);
}

/* ---- events ------------------------------------------------------------------------------ */

static void begin_event(writer *w, const char *action, uint64_t address, uint64_t size,
                        uint64_t ns)
{
    tree *t = &w->tree;
    sw_pickle_begin(&t->pickle, '{');
    tree_put_text(t, "action", action);
    tree_put_u64(t, "addr", address);
    tree_put_u64(t, "size", size);
    tree_put_u64(t, "stream", 0);
    tree_put_u64(t, "time_us", ns / 1000);
}

static void put_event(writer *w, const sw_tl_event *e, const char *action, const allocation *at,
                      uint64_t size, uint32_t whose)
{
    begin_event(w, action, at->address, size, e->ns);
    if (strcmp(action, "free_completed") != 0) {
        tree_put_text(&w->tree, "category", e->program->values[whose].role);
        put_frames(w, e->program, whose);
        tree_text(&w->tree, "user_metadata");
        if (!tree_again(&w->tree, w->step_mark)) {
            sw_pickle_string(&w->tree.pickle, w->step);
            tree_mark(&w->tree, &w->step_mark);
        }
    }
    sw_pickle_end(&w->tree.pickle);
}

static void take_value(writer *w, const sw_tl_event *e)
{
    const sw_tl_program *p = e->program;
    uint32_t root = e->index; /* the owner of its bytes */
    for (uint32_t i = 0; i < p->n_values && p->values[root].alias != SW_TL_NONE; i++)
        root = p->values[root].alias;
    const sw_tensor *v = &p->values[root];
    const uint64_t size = v->bytes + v->padding;
    allocation *at = &w->allocations[w->first[p - w->timeline->programs] + root];
    const bool lived = at->holder != 0;
    if (size == 0 || (e->kind == SW_TL_ALLOC) == lived)
        return;
    if (lived) {
        put_event(w, e, "free_requested", at, size, at->holder - 1);
        put_event(w, e, "free_completed", at, size, at->holder - 1);
        at->holder = 0;
    }
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

/* ---- segments ---------------------------------------------------------------------------- */

/* The values that live at the end. */
typedef struct {
    const sw_tl_program *program;
    uint32_t root, holder;
    uint64_t address;
} survivor;

SW_ORDER(by_address, survivor, SW_RISES(address), 0)

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

static void begin_block(tree *t, uint64_t address, uint64_t size, uint64_t requested,
                        const char *state)
{
    sw_pickle_begin(&t->pickle, '{');
    tree_put_u64(t, "address", address);
    tree_put_u64(t, "size", size);
    tree_put_u64(t, "requested_size", requested);
    tree_put_text(t, "state", state);
}

static void put_no_frames(tree *t)
{
    tree_text(t, "frames");
    sw_pickle_begin(&t->pickle, '[');
    sw_pickle_end(&t->pickle);
}

static void put_hole(tree *t, uint64_t from, uint64_t to)
{
    if (to <= from)
        return;
    begin_block(t, from, to - from, to - from, "inactive");
    put_no_frames(t);
    sw_pickle_end(&t->pickle);
}

static sw_status put_segment(writer *w, const segment *s, const survivor *of, size_t n)
{
    tree *t = &w->tree;
    sw_pickle_begin(&t->pickle, '{');
    tree_put_u64(t, "device", 0);
    tree_put_u64(t, "address", s->address);
    tree_put_u64(t, "total_size", s->size);
    tree_put_u64(t, "allocated_size", s->live);
    tree_put_u64(t, "active_size", s->live);
    tree_put_u64(t, "requested_size", s->live - s->padding);
    tree_put_u64(t, "stream", 0);
    tree_put_text(t, "segment_type", s->size > 1 << 20 ? "large" : "small");
    tree_text(t, "segment_pool_id");
    sw_pickle_tuple2(&t->pickle, 0, 0);
    tree_text(t, "is_expandable");
    sw_pickle_bool(&t->pickle, false);
    put_no_frames(t);
    tree_text(t, "blocks");
    sw_pickle_begin(&t->pickle, '[');
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
        tree_put_text(t, "category", of[i].program->values[of[i].holder].role);
        put_frames(w, of[i].program, of[i].holder);
        sw_pickle_end(&t->pickle);
        end = of[i].address + v->bytes + v->padding;
    }
    put_hole(t, end, s->address + s->size);
    SW_TRY(t->out->status);
    sw_pickle_end(&t->pickle);
    sw_pickle_end(&t->pickle);
    return t->out->status;
}

/* ---- the whole --------------------------------------------------------------------------- */

static sw_status write_tree(writer *w)
{
    tree *t = &w->tree;
    sw_pickle_begin(&t->pickle, '{');
    tree_text(t, "device_traces");
    sw_pickle_begin(&t->pickle, '[');
    sw_pickle_begin(&t->pickle, '[');
    for (int s = 0; s < SW_SEGMENTS; s++)
        if (w->segments[s].size > 0) {
            begin_event(w, "segment_alloc", w->segments[s].address, w->segments[s].size, 0);
            tree_put_text(t, "category", "unknown");
            put_no_frames(t);
            sw_pickle_end(&t->pickle);
        }
    SW_TRY(sw_timeline_walk(w->timeline, take, w));
    sw_pickle_end(&t->pickle);
    sw_pickle_end(&t->pickle);
    SW_TRY(t->out->status);
    void *of;
    const size_t n = survivors(w, NULL);
    SW_TRY(sw_heap_alloc(&of, SW_HEAP_PROFILE, n * sizeof(survivor)));
    (void)survivors(w, of);
    qsort(of, n, sizeof(survivor), by_address);
    tree_text(&w->tree, "segments");
    sw_pickle_begin(&w->tree.pickle, '[');
    sw_status status = SW_OK;
    for (int s = 0; s < SW_SEGMENTS && status == SW_OK; s++)
        if (w->segments[s].size > 0)
            status = put_segment(w, &w->segments[s], of, n);
    sw_pickle_end(&w->tree.pickle);
    sw_heap_free(of, SW_HEAP_PROFILE, n * sizeof(survivor));
    SW_TRY(status);
    tree_text(t, "allocator_settings");
    sw_pickle_begin(&t->pickle, '{');
    tree_put_text(t, "tool", w->timeline->tool);
    tree_put_text(t, "model", w->timeline->model);
    tree_put_text(t, "device", w->timeline->device);
    tree_put_text(t, "data", w->timeline->data);
    sw_pickle_end(&t->pickle);
    sw_pickle_end(&t->pickle);
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
    /* Where everything lies. Several models, and several inputs, each count from 0: they are
     * set one after another. */
    for (int s = 0; s < SW_SEGMENTS; s++)
        w->segments[s].address = (uint64_t)(s + 1) << 40;
    for (uint32_t j = 0; j < t->n_programs; j++) {
        const sw_tl_program *p = &t->programs[j];
        uint64_t next[SW_SEGMENTS] = {0};
        for (uint32_t k = 0; k < p->n_values; k++) {
            const sw_tensor *v = &p->values[k];
            segment *s = &w->segments[v->segment];
            const uint64_t offset =
                v->segment == SW_SEGMENT_STEP ? v->offset : next[v->segment];
            w->allocations[w->first[j] + k].address = s->address + offset;
            if (v->alias != SW_TL_NONE)
                continue;
            const uint64_t end = offset + v->bytes + v->padding;
            next[v->segment] = end;
            s->size = end > s->size ? end : s->size;
        }
        if (p->arena_bytes > w->segments[SW_SEGMENT_STEP].size)
            w->segments[SW_SEGMENT_STEP].size = p->arena_bytes;
    }
    return SW_OK;
}

static sw_status write_snapshot(const sw_timeline *t, sw_sink_out *out)
{
    writer *w;
    SW_TRY(sw_heap_alloc(&w, SW_HEAP_PROFILE, sizeof(writer)));
    w->timeline = t;
    snprintf(w->step, sizeof w->step, "before all steps");
    sw_status status = make_allocations(w);
    if (status == SW_OK) {
        w->tree = (tree){.out = out};
        sw_pickle_start(&w->tree.pickle, out);
        status = write_tree(w);
    }
    if (status == SW_OK) {
        sw_pickle_stop(&w->tree.pickle);
        status = out->status;
    }
    swi_strings_free(&w->tree.texts);
    sw_heap_free(w->tree.memos, SW_HEAP_PROFILE, w->tree.cap_memos * sizeof *w->tree.memos);
    sw_heap_free(w->allocations, SW_HEAP_PROFILE, w->n_allocations * sizeof *w->allocations);
    sw_heap_free(w->first, SW_HEAP_PROFILE, t->n_programs * sizeof *w->first);
    sw_heap_free(w->name, SW_HEAP_PROFILE, w->name_bytes);
    sw_heap_free(w, SW_HEAP_PROFILE, sizeof *w);
    return status;
}

const sw_sink sw_sink_memory_viz =
    SW_INIT(.name = "memory-viz",
            .about =
                "a PyTorch memory snapshot: pytorch.org/memory_viz, torch.cuda._memory_viz",
            .ending = ".pickle", .binary = true, .write = write_snapshot);
