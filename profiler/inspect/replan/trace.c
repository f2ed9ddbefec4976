/* One device's part of a snapshot as flat arrays: what frames say, events and segments, and the
 * state before them. */
#include "alloc/base/mem.h"
#include "alloc/base/order.h"
#include "profiler/inspect/numbers.h"
#include "profiler/inspect/replan/trace.h"
#include <stdio.h>
#include <stdlib.h>

sw_status snapshot_number(const char *path, value of, const char *where, uint64_t index,
                          const char *key, int64_t most, int64_t *out)
{
    const value v = value_at(of, key);
    char got[64] = "no number";
    *out = value_number(v);
    if (value_kind_of(v) == VALUE_INT && *out >= 0 && *out <= most)
        return SW_OK;
    uint64_t whole;
    if (value_whole(v, &whole))
        snprintf(got, sizeof got, "%llu", (unsigned long long)whole);
    else if (value_is_number(v))
        snprintf(got, sizeof got, "%.17g", value_real(v));
    SW_FAIL(SW_FORMAT, "%s: %s %llu: '%s' must be a number from 0 to %lld (got %s)", path,
            where, (unsigned long long)index, key, (long long)most, v == 0 ? "nothing" : got);
}

/* ---- frames ------------------------------------------------------------------------------ */

#define LAYERS 4 /* functions of a layer's name */
#define NAME_BYTES 512

/* Pieces of the file's texts. */
typedef struct {
    char path[256]; /* the end of the file's, with slashes */
    const char *file, *name;
    int n_name;
    int64_t line;
    bool module, builtin; /* `name` is that of an nn.Module, or of a function without a file */
} frame;

/* Paths of Windows have slashes from here on. */
static void take_path(frame *f, const char *file, size_t n)
{
    const size_t over = n >= sizeof f->path ? n - sizeof f->path + 1 : 0;
    memcpy(f->path, file + over, n - over);
    f->path[n - over] = '\0';
    for (char *c = f->path; (c = strchr(c, '\\')) != NULL;)
        *c = '/';
    f->file = f->path;
}

static bool frame_at(value frames, uint64_t i, frame *out)
{
    const value f = value_item(frames, i);
    const char *file = value_text(value_at(f, "filename"));
    out->name = value_text(value_at(f, "name"));
    out->line = value_number(value_at(f, "line"));
    out->module = out->builtin = false;
    if (file == NULL || out->name == NULL)
        return false;
    out->n_name = (int)strnlen(out->name, INT32_MAX);
    take_path(out, file, strlen(file));
    if (strcmp(file, "none") == 0) {
        /* The frames of PyTorch's profiler have all in their name: "nn.Module: Linear_0",
         * "<built-in method relu of type object at 0x7f..>", "train.py(40): step". */
        const char *text = out->name, *behind = strstr(text, "): ");
        const char *open = behind != NULL ? behind : text;
        while (open > text && *open != '(')
            open--;
        if (trace_begins(text, "nn.Module: ")) {
            out->module = true;
            out->name = text + strlen("nn.Module: ");
        } else if (trace_begins(text, "<built-in method ") ||
                   trace_begins(text, "<built-in function ")) {
            out->builtin = true;
            out->name = strchr(strchr(text, ' ') + 1, ' ') + 1;
        } else if (open > text) {
            take_path(out, text, (size_t)(open - text));
            out->line = 0;
            for (const char *c = open + 1; *c >= '0' && *c <= '9' && out->line < 100000000; c++)
                out->line = out->line * 10 + (*c - '0');
            out->name = behind + 3;
        }
        out->n_name = (int)(out->builtin ? strcspn(out->name, " >") : strlen(out->name));
    }
    return true;
}

/* ---- frames of our own export ------------------------------------------------------------ */

/* One scope more around `layer`, of NAME_BYTES; what does not fit stays out. */
static void put_scope(char *layer, const char *scope)
{
    const size_t inner = strlen(layer), n = strlen(scope) + (inner > 0);
    if (n + inner >= NAME_BYTES)
        return;
    memmove(layer + n, layer, inner + 1);
    memcpy(layer, scope, strlen(scope));
    if (inner > 0)
        layer[n - 1] = '/';
}

static sw_status read_ours(sw_timeline *t, value frames, snapshot_frames *out)
{
    char layer[NAME_BYTES] = "";
    frame f;
    for (uint64_t i = 0; i < value_count(frames); i++) {
        if (!frame_at(frames, i, &f))
            continue;
        if (strcmp(f.file, "tensor") == 0)
            SW_TRY(sw_timeline_string(t, &out->name, f.name));
        else if (strcmp(f.file, "op") == 0)
            SW_TRY(sw_timeline_string(t, &out->op, f.name));
        else if (strcmp(f.file, "layer") == 0)
            put_scope(layer, f.name);
        for (int phase = 0; phase < SW_PROF_PHASES; phase++)
            if (strcmp(f.file, "phase") == 0 && strcmp(f.name, sw_prof_phase_name(phase)) == 0)
                out->phase = phase;
    }
    return sw_timeline_string(t, &out->layer, layer);
}

/* ---- PyTorch's --------------------------------------------------------------------------- */

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

static bool is_python(const frame *f)
{
    const size_t n = strlen(f->file);
    return f->module || f->builtin || f->file[0] == '<' ||
           (n > 3 && strcmp(f->file + n - 3, ".py") == 0);
}

static const char *base_of(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash != NULL ? slash + 1 : file;
}

/* "net.py:12 forward"; a slash would divide layers. */
static void describe(const frame *f, char *to, size_t bytes)
{
    if (f->module || f->builtin)
        snprintf(to, bytes, "%.*s", f->n_name < 120 ? f->n_name : 120, f->name);
    else
        snprintf(to, bytes, "%.100s:%lld %.*s", base_of(f->file), (long long)f->line,
                 f->n_name < 120 ? f->n_name : 120, f->name);
    for (char *c = strchr(to, '/'); c != NULL; c = strchr(c, '/'))
        *c = '|';
}

/* Found so far, from the inside out. */
typedef struct {
    char op[NAME_BYTES], functions[NAME_BYTES], modules[NAME_BYTES], first[NAME_BYTES];
    char others[NAME_BYTES], latest[NAME_BYTES]; /* of libraries: all, and the latest frame */
    bool op_found, last_is_apply;
    int n_functions, n_others, phase;
    uint32_t facts;
} search;

static bool is_loss(const char *text)
{
    return has(text, "loss") || has(text, "Loss") || has(text, "cross_entropy") ||
           has(text, "criterion");
}

/* Facts by names, of C++ and of Python alike. */
static uint32_t facts_of(const frame *f)
{
    static const struct {
        const char *file, *name; /* the file has, the name begins with */
        uint32_t facts;
    } rules[] = {
        {"", "zero_grad", FRAMES_ZERO_GRAD},
        {"", "Optimizer.zero_grad", FRAMES_ZERO_GRAD},
        {"torch/nn/modules/module.py", "_apply", FRAMES_MOVE},
        {"torch/nn/parallel/replicate.py", "", FRAMES_MOVE},
        {"torch/nn/", "__init__", FRAMES_INIT},
        {"torch/nn/init.py", "", FRAMES_INIT},
        {"torch/nn/modules/module.py", "_call_impl", FRAMES_MODULE},
        {"torch/nn/modules/module.py", "_wrapped_call_impl", FRAMES_MODULE},
        {"parallel", "scatter", FRAMES_TRANSFER},
        {"", "pin_memory", FRAMES_TRANSFER},
        {"torch/optim/", "_multi_tensor", FRAMES_FOREACH},
    };
    static const struct {
        const char *part;
        uint32_t facts;
    } native[] = {
        {"autograd::Engine::", FRAMES_ENGINE},   {"autograd::engine::", FRAMES_ENGINE},
        {"AccumulateGrad", FRAMES_ACCUMULATE},   {"orkspace", FRAMES_WORKSPACE},
        {"at::_ops::_to_copy", FRAMES_TRANSFER}, {"aten::_to_copy", FRAMES_TRANSFER},
        {"at::_ops::_foreach", FRAMES_FOREACH},  {"aten::_foreach", FRAMES_FOREACH},
        {"THPVariable_cuda", FRAMES_TRANSFER},
    };
    uint32_t facts = f->module ? FRAMES_MODULE : 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (trace_begins(f->name, rules[i].name) && has(f->file, rules[i].file))
            facts |= rules[i].facts;
    if (is_python(f))
        return facts;
    for (size_t i = 0; i < sizeof native / sizeof *native; i++)
        if (has(f->name, native[i].part))
            facts |= native[i].facts;
    return facts | (has(f->name, "at::") || has(f->name, "c10::") ? FRAMES_NATIVE : 0);
}

/* The user's own code, and a library's function that a module calls. */
static void take_function(search *s, const frame *f)
{
    if (!is_python(f))
        return;
    const bool called = s->latest[0] != '\0' && has(f->file, "torch/nn/modules/module.py");
    if (called && s->n_functions < LAYERS) {
        put_scope(s->functions, s->latest);
        s->n_functions++;
    }
    s->latest[0] = '\0';
    const bool library = has(f->file, "-packages/");
    char scope[NAME_BYTES];
    if (f->module || f->builtin || trace_begins(f->file, "torch/") ||
        has(f->file, "packages/torch/") || has(f->file, "pytorch/torch/") ||
        trace_begins(f->file, "<frozen") ||
        (!library && (has(f->file, "/lib/python") || has(f->file, "/Lib/"))))
        return; /* PyTorch's and Python's own */
    describe(f, scope, sizeof scope);
    if (library)
        memcpy(s->latest, scope, sizeof scope);
    if (library && s->n_others < LAYERS) {
        put_scope(s->others, scope);
        s->n_others++;
    }
    if (!library && s->n_functions < LAYERS &&
        (s->n_functions == 0 || !trace_begins(f->name, "<module>"))) {
        put_scope(s->functions, scope);
        s->n_functions++;
    }
}

/* -1: it does not say. Work of a closure that the optimizer calls is no update. */
static int phase_of(const search *s, const frame *f)
{
    const bool inner = (s->facts & FRAMES_MODULE) != 0 || s->phase == 2 || s->phase == 3;
    if (trace_begins(f->name, "Optimizer.step#") ||
        (!f->module && !f->builtin && has(f->file, "torch/optim/") &&
         !has(f->file, "lr_scheduler")))
        return inner ? -1 : 4;
    if ((s->facts & FRAMES_ENGINE) != 0 || has(f->file, "torch/autograd/__init__.py") ||
        (has(f->file, "torch/autograd/graph.py") && !has(f->name, "pack")) ||
        (has(f->file, "torch/_tensor.py") && trace_begins(f->name, "backward")))
        return 3;
    if (has(f->file, "torch/utils/data/"))
        return 0;
    return !inner && is_python(f) && (is_loss(f->name) || is_loss(base_of(f->file))) ? 2 : -1;
}

sw_status snapshot_frames_read(sw_timeline *t, value frames, snapshot_frames *out)
{
    search s = {.phase = -1};
    frame f;
    *out = (snapshot_frames){"", "", "", -1, 0};
    if (value_count(frames) == 0)
        return SW_OK;
    if (frame_at(frames, 0, &f) && strcmp(f.file, "tensor") == 0)
        return read_ours(t, frames, out);
    for (uint64_t i = 0; i < value_count(frames); i++) {
        char scope[NAME_BYTES];
        if (!frame_at(frames, i, &f))
            continue;
        if (!s.op_found && is_python(&f)) {
            s.op_found = true;
            if (s.op[0] == '\0')
                describe(&f, s.op, sizeof s.op);
        } else if (!s.op_found) { /* at::_ops::addmm::call(...) is aten::addmm */
            static const char mark[] = "at::_ops::";
            const char *at = strstr(f.name, mark);
            if (at != NULL)
                snprintf(s.op, sizeof s.op, "aten::%.*s",
                         (int)strcspn(at + sizeof mark - 1, ":(< "), at + sizeof mark - 1);
        }
        if (s.first[0] == '\0')
            snprintf(s.first, sizeof s.first, "%.*s", f.n_name < 200 ? f.n_name : 200, f.name);
        const int phase = phase_of(&s, &f);
        s.facts |= facts_of(&f);
        /* A call by backward or by the optimizer belongs there, whatever it is. */
        if (phase >= 3 || s.phase < 0)
            s.phase = phase >= 0 ? phase : s.phase;
        if (is_python(&f))
            s.last_is_apply =
                has(f.file, "torch/autograd/function.py") && trace_begins(f.name, "apply");
        take_function(&s, &f);
        if (f.module) {
            describe(&f, scope, sizeof scope);
            put_scope(s.modules, scope);
        }
    }
    if (s.last_is_apply) /* nothing called it: autograd's thread */
        s.facts |= FRAMES_ENGINE;
    if ((s.facts & FRAMES_ENGINE) != 0 && s.phase != 4)
        s.phase = 3;
    out->facts = s.facts;
    out->phase = (s.facts & FRAMES_ZERO_GRAD) != 0 ? -1 : s.phase < 0 ? 1 : s.phase;
    SW_TRY(sw_timeline_string(t, &out->op, s.op[0] != '\0' ? s.op : s.first));
    out->name = out->op;
    return sw_timeline_string(t, &out->layer,
                              s.modules[0] != '\0'     ? s.modules
                              : s.functions[0] != '\0' ? s.functions
                                                       : s.others);
}

/* ---- stacks ------------------------------------------------------------------------------ */

typedef struct {
    snapshot_trace *t;
    const snapshot_file *f;
    number_map stacks; /* by a hash of frames, and by one of what they say */
    number_map made;   /* allocations that a note may come for, by address */
    int64_t first_us;
    bool timed;
} reader;

static uint64_t mix(uint64_t hash, uint64_t with)
{
    hash = (hash ^ with) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static sw_status stack_of(reader *r, value frames, uint32_t *out)
{
    snapshot_trace *t = r->t;
    snapshot_frames said;
    /* Frames are shared by the file where they come again. */
    uint64_t hash = 1;
    for (uint64_t i = 0; i < value_count(frames); i++)
        hash = mix(hash, value_item(frames, i));
    *out = number_map_at(&r->stacks, hash);
    if (*out != NUMBER_MAP_NONE)
        return SW_OK;
    SW_TRY(snapshot_frames_read(t->texts, frames, &said));
    const uint64_t words =
        mix(mix(mix(mix(2, (uintptr_t)said.op), (uintptr_t)said.layer), (uintptr_t)said.name),
            (uint64_t)(said.phase + 1) << 32 | said.facts);
    *out = number_map_at(&r->stacks, words);
    if (*out == NUMBER_MAP_NONE) {
        SW_TRY(sw_heap_reserve(&t->stacks, SW_HEAP_PROFILE, &t->cap_stacks, t->n_stacks + 1));
        *out = t->n_stacks;
        t->stacks[t->n_stacks++] = said;
        SW_TRY(number_map_set(&r->stacks, words, *out));
    }
    return number_map_set(&r->stacks, hash, *out);
}

/* ---- events ------------------------------------------------------------------------------ */

static uint64_t pool_of(value pair)
{
    const int64_t a = value_number(value_item(pair, 0)), b = value_number(value_item(pair, 1));
    if (value_count(pair) != 2)
        return TRACE_NO_POOL;
    return (uint64_t)a << 32 ^ (uint64_t)b;
}

/* The role of an allocation, as the file itself says it. */
static sw_status said_of(reader *r, value of, const char **note, const char **role)
{
    const char *category = value_text(value_at(of, "category")),
               *user = value_text(value_at(of, "user_metadata"));
    if (category != NULL && *category != '\0' && strcmp(category, "unknown") != 0)
        /* Results of a backward pass beside gradients have no role of their own here. */
        SW_TRY(sw_timeline_string(r->t->texts, role,
                                  strcmp(category, "autograd_detail") == 0 ? "temporary"
                                                                           : category));
    return user != NULL && *user != '\0' ? sw_timeline_string(r->t->texts, note, user) : SW_OK;
}

static sw_status take_event(reader *r, value event, uint64_t number)
{
    static const char *const names[] = {
        [TRACE_ALLOC] = "alloc",
        [TRACE_FREE_REQUESTED] = "free_requested",
        [TRACE_FREE_COMPLETED] = "free_completed",
        [TRACE_SEGMENT_ALLOC] = "segment_alloc",
        [TRACE_SEGMENT_FREE] = "segment_free",
        [TRACE_SEGMENT_MAP] = "segment_map",
        [TRACE_SEGMENT_UNMAP] = "segment_unmap",
        [TRACE_OOM] = "oom",
    };
    enum { ACTIONS = sizeof names / sizeof *names };
    trace_event e = {.number = (uint32_t)number};
    int64_t address, bytes;
    const char *action = value_text(value_at(event, "action"));
    while (action != NULL && e.action < ACTIONS && strcmp(action, names[e.action]) != 0)
        e.action++;
    const bool note = action != NULL && strcmp(action, "annotate") == 0;
    if (!note && (action == NULL || e.action == ACTIONS))
        return SW_OK; /* kinds to come */
    const char *where = e.action == TRACE_OOM ? "device_free" : "addr";
    SW_TRY(snapshot_number(r->f->path, event, "event", number, where, SNAPSHOT_LAST_ADDRESS,
                           &address));
    if (note) { /* on what lives at its address */
        const uint32_t at = number_map_at(&r->made, (uint64_t)address);
        const char *ignored = NULL;
        return at != NUMBER_MAP_NONE ? said_of(r, event, &r->t->events[at].note, &ignored)
                                     : SW_OK;
    }
    SW_TRY(snapshot_number(r->f->path, event, "event", number, "size", SNAPSHOT_LARGEST_BYTES,
                           &bytes));
    SW_TRY(stack_of(r, value_at(event, "frames"), &e.stack));
    e.address = (uint64_t)address;
    e.bytes = (uint64_t)bytes;
    e.stream = (uint64_t)value_number(value_at(event, "stream"));
    e.pool = pool_of(value_at(event, "pool_id"));
    const value said = value_at(event, "time_us");
    const int64_t us = value_number(said);
    if (value_kind_of(said) == VALUE_INT && !(r->timed && us < r->first_us)) {
        r->first_us = r->timed ? r->first_us : us;
        r->timed = true;
        e.us = us - r->first_us < UINT32_MAX ? (uint32_t)(us - r->first_us) : UINT32_MAX;
    }
    SW_TRY(said_of(r, event, &e.note, &e.role));
    if (e.action == TRACE_ALLOC)
        SW_TRY(number_map_set(&r->made, e.address, r->t->n_events));
    r->t->events[r->t->n_events++] = e;
    return SW_OK;
}

/* ---- segments ---------------------------------------------------------------------------- */

/* The requested bytes of an active block, at most `most`, and who asked for them. Blocks of
 * PyTorch 2.0 say both in "history", the latest first; a block that does not say is as large as
 * asked. */
static sw_status block_request(const char *path, value of, uint64_t index, int64_t most,
                               int64_t *bytes, value *frames)
{
    const value latest = value_item(value_at(of, "history"), 0);
    const bool said = value_kind_of(value_at(of, "requested_size")) == VALUE_INT;
    *frames = value_at(of, "frames");
    if (latest != 0 && *frames == 0)
        *frames = value_at(latest, "frames");
    if (latest != 0 && !said)
        return snapshot_number(path, latest, "block", index, "real_size", most, bytes);
    return snapshot_number(path, of, "block", index, said ? "requested_size" : "size", most,
                           bytes);
}

static sw_status take_block(reader *r, value o, uint64_t number, uint64_t address)
{
    snapshot_trace *t = r->t;
    trace_block b = {.address = address};
    int64_t bytes, requested = 0;
    const char *state = value_text(value_at(o, "state"));
    b.active = state != NULL && strncmp(state, "active", 6) == 0;
    b.pending = b.active && (strcmp(state, "active_pending_free") == 0 ||
                             strcmp(state, "active_awaiting_free") == 0);
    SW_TRY(snapshot_number(r->f->path, o, "block", number, "size", SNAPSHOT_LARGEST(r->f),
                           &bytes));
    if (b.active) {
        value frames;
        SW_TRY(block_request(r->f->path, o, number, bytes, &requested, &frames));
        SW_TRY(stack_of(r, frames, &b.stack));
        SW_TRY(said_of(r, o, &b.note, &b.role));
    }
    b.bytes = (uint64_t)bytes;
    b.requested = (uint64_t)requested;
    SW_TRY(sw_heap_reserve(&t->blocks, SW_HEAP_PROFILE, &t->cap_blocks, t->n_blocks + 1));
    t->blocks[t->n_blocks++] = b;
    return SW_OK;
}

static sw_status take_segment(reader *r, value segment, uint64_t number)
{
    snapshot_trace *t = r->t;
    int64_t device, address, bytes;
    SW_TRY(snapshot_number(r->f->path, segment, "segment", number, "device",
                           SNAPSHOT_DEVICES - 1, &device));
    if (device != t->device)
        return SW_OK;
    const value blocks = value_at(segment, "blocks");
    const char *kind = value_text(value_at(segment, "segment_type"));
    SW_TRY(snapshot_number(r->f->path, segment, "segment", number, "address",
                           SNAPSHOT_LAST_ADDRESS, &address));
    SW_TRY(snapshot_number(r->f->path, segment, "segment", number, "total_size",
                           SNAPSHOT_LARGEST(r->f), &bytes));
    const uint64_t pool = pool_of(value_at(segment, "segment_pool_id"));
    trace_segment s = SW_INIT(.address = (uint64_t)address, .bytes = (uint64_t)bytes,
                              .stream = (uint64_t)value_number(value_at(segment, "stream")),
                              .pool = pool == TRACE_NO_POOL ? 0 : pool, .first = t->n_blocks,
                              .small = kind != NULL && strcmp(kind, "small") == 0,
                              .expandable = value_at(segment, "is_expandable") == VALUE_TRUE);
    /* A file can name one list of blocks again and again: there are never more than bytes. */
    uint64_t end = s.address;
    for (uint64_t i = 0; i < value_count(blocks); i++) {
        if (t->n_blocks > r->f->bytes || t->n_blocks > SNAPSHOT_MOST)
            SW_FAIL(SW_FORMAT, "%s: segment %llu: more blocks than the file can hold",
                    r->f->path, (unsigned long long)number);
        SW_TRY(take_block(r, value_item(blocks, i), t->n_blocks, end));
        end += t->blocks[t->n_blocks - 1].bytes;
        if (end - s.address > s.bytes)
            SW_FAIL(SW_FORMAT, "%s: segment %llu: its blocks are larger than it is", r->f->path,
                    (unsigned long long)number);
    }
    s.n = t->n_blocks - s.first;
    SW_TRY(sw_heap_reserve(&t->segments, SW_HEAP_PROFILE, &t->cap_segments, t->n_segments + 1));
    t->segments[t->n_segments++] = s;
    return SW_OK;
}

/* ---- settings ---------------------------------------------------------------------------- */

/* "large_segment_size_mb:40,max_split_size_mb:512": the number after that key, in bytes. */
static uint64_t mib_or(const char *text, const char *key, uint64_t otherwise)
{
    const size_t n = strlen(key);
    uint64_t mib = 0;
    while (text != NULL && (strncmp(text, key, n) != 0 || text[n] != ':')) {
        text = strchr(text, ',');
        text = text != NULL ? text + 1 + strspn(text + 1, " ") : NULL;
    }
    for (const char *c = text != NULL ? text + n + 1 : ""; *c >= '0' && *c <= '9'; c++)
        mib = mib < 1 << 20 ? mib * 10 + (uint64_t)(*c - '0') : mib;
    return mib > 0 ? mib << 20 : otherwise;
}

static void take_settings(reader *r)
{
    snapshot_trace *t = r->t;
    const value all = r->f->settings;
    t->settings = (caching_settings){.max_split_bytes = UINT64_MAX,
                                     .max_rounding_bytes = UINT64_C(20) << 20,
                                     .large_page_bytes = UINT64_C(20) << 20};
    t->said_settings = value_at(all, "expandable_segments") != 0;
    if (!t->said_settings)
        return;
    t->settings.expandable = value_at(all, "expandable_segments") == VALUE_TRUE;
    uint64_t x;
    t->settings.max_split_bytes =
        value_whole(value_at(all, "max_split_size"), &x) ? x : UINT64_MAX;
    if (t->settings.max_split_bytes == 0 || t->settings.max_split_bytes > INT64_MAX)
        t->settings.max_split_bytes = UINT64_MAX;
    t->settings.unlocked = value_at(all, "release_lock_on_cudamalloc") == VALUE_TRUE;
    /* {"1": 8, "2": 8, ...} by MiB. */
    const value divisions = value_at(all, "roundup_power2_divisions");
    for (uint64_t i = 0; i < value_count(divisions) && value_kind_of(divisions) == VALUE_DICT;
         i++) {
        uint64_t mib = 0, by;
        const char *key = value_key(divisions, i);
        for (const char *c = key != NULL ? key : ""; *c >= '0' && *c <= '9' && mib < 1 << 20;
             c++)
            mib = mib * 10 + (uint64_t)(*c - '0');
        if (mib == 0 || !value_whole(value_member(divisions, i), &by) || by > 64)
            continue;
        const int at = 63 - __builtin_clzll(mib);
        if (at < CACHING_DIVISIONS)
            t->settings.divisions[at] = (uint8_t)by;
    }
    /* The members do not have all: the text has what the environment said. */
    const char *text = value_text(value_at(all, "PYTORCH_CUDA_ALLOC_CONF"));
    t->settings.max_rounding_bytes =
        mib_or(text, "max_non_split_rounding_mb", t->settings.max_rounding_bytes);
    t->settings.large_page_bytes =
        mib_or(text, "large_segment_size_mb", t->settings.large_page_bytes);
}

/* ---- the state before -------------------------------------------------------------------- */

uint32_t trace_below(const void *of, uint32_t n, size_t size, uint64_t address)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (*(const uint64_t *)((const char *)of + middle * size) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#define SMALL_SEGMENT (UINT64_C(2) << 20)
#define MOST_RANGES 4096 /* of expandable segments: they are looked through one by one */

typedef struct {
    trace_start *s;
    snapshot_trace *t;
    number_map at; /* segments that are not expandable, by address */
    uint32_t n_ranges;
} undoing;

static sw_status add_segment(undoing *f, const trace_segment *segment)
{
    trace_start *s = f->s;
    SW_TRY(sw_heap_reserve(&s->segments, SW_HEAP_PROFILE, &s->cap_segments, s->n_segments + 1));
    s->segments[s->n_segments++] = *segment;
    f->n_ranges += segment->expandable;
    return segment->expandable ? SW_OK
                               : number_map_set(&f->at, segment->address, s->n_segments - 1);
}

static void lost(undoing *f, const trace_event *e, const char *why)
{
    if (f->s->why[0] == '\0')
        snprintf(f->s->why, sizeof f->s->why, "the memory of event %u %s", e->number, why);
}

/* Ranges that it joins become one. */
static sw_status undo_unmap(undoing *f, trace_event *e)
{
    trace_segment made =
        SW_INIT(.address = e->address, .bytes = e->bytes, .stream = e->stream,
                .pool = e->pool == TRACE_NO_POOL ? 0 : e->pool,
                .small = e->bytes % f->t->settings.large_page_bytes != 0, .expandable = true);
    for (uint32_t i = 0; i < f->s->n_segments; i++) {
        trace_segment *x = &f->s->segments[i];
        if (!x->expandable || x->bytes == 0 || x->stream != e->stream ||
            !(x->address + x->bytes == made.address || made.address + made.bytes == x->address))
            continue;
        made.address = x->address < made.address ? x->address : made.address;
        made.bytes += x->bytes;
        made.pool = x->pool;
        made.small = x->small;
        x->bytes = 0;
    }
    if (e->pool == TRACE_NO_POOL)
        e->pool = made.pool;
    return add_segment(f, &made);
}

static sw_status undo(undoing *f, trace_event *e)
{
    if (f->n_ranges > MOST_RANGES)
        lost(f, e, "is one of more than 4,096 ranges of expandable segments");
    switch (e->action) {
    case TRACE_SEGMENT_ALLOC: {
        const uint32_t i = number_map_at(&f->at, e->address);
        if (i == NUMBER_MAP_NONE || f->s->segments[i].bytes != e->bytes) {
            lost(f, e, "is neither freed later nor there at the end");
            return SW_OK;
        }
        trace_segment *segment = &f->s->segments[i];
        if (e->pool == TRACE_NO_POOL)
            e->pool = segment->pool;
        segment->bytes = 0;
        return number_map_set(&f->at, e->address, NUMBER_MAP_NONE);
    }
    case TRACE_SEGMENT_FREE:
        if (e->pool == TRACE_NO_POOL)
            e->pool = 0;
        if (number_map_at(&f->at, e->address) != NUMBER_MAP_NONE) {
            lost(f, e, "is there later without an event that made it");
            return SW_OK;
        }
        return add_segment(f, &(trace_segment)SW_INIT(.address = e->address, .bytes = e->bytes,
                                                      .stream = e->stream, .pool = e->pool,
                                                      .small = e->bytes == SMALL_SEGMENT));
    case TRACE_SEGMENT_MAP: {
        if (f->n_ranges > MOST_RANGES)
            return SW_OK;
        trace_segment *x = NULL; /* the expandable range that has it */
        for (uint32_t i = 0; e->bytes > 0 && x == NULL && i < f->s->n_segments; i++) {
            trace_segment *s = &f->s->segments[i];
            if (s->expandable && s->address <= e->address && e->bytes <= s->bytes &&
                e->address - s->address <= s->bytes - e->bytes)
                x = s;
        }
        if (x == NULL) {
            lost(f, e, "is neither unmapped later nor there at the end");
            return SW_OK;
        }
        e->pool = e->pool == TRACE_NO_POOL ? x->pool : e->pool;
        trace_segment above = *x;
        above.address = e->address + e->bytes;
        above.bytes = x->address + x->bytes - above.address;
        x->bytes = e->address - x->address;
        return above.bytes > 0 ? add_segment(f, &above) : SW_OK;
    }
    case TRACE_SEGMENT_UNMAP:
        return f->n_ranges > MOST_RANGES ? SW_OK : undo_unmap(f, e);
    default:
        return SW_OK;
    }
}

static sw_status find_segments(undoing *f)
{
    trace_start *s = f->s;
    for (uint32_t i = 0; i < f->t->n_segments; i++)
        SW_TRY(add_segment(f, &f->t->segments[i]));
    for (uint32_t i = f->t->n_events; i-- > 0;)
        SW_TRY(undo(f, &f->t->events[i]));
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_segments; i++)
        if (s->segments[i].bytes > 0) {
            s->segments[n] = s->segments[i];
            s->segments[n].first = s->segments[n].n = 0;
            s->reserved += s->segments[n++].bytes;
        }
    s->n_segments = n;
    if (n > 0)
        qsort(s->segments, n, sizeof *s->segments, sw_order_u64);
    for (uint32_t i = 0; i + 1 < n && s->why[0] == '\0'; i++)
        if (s->segments[i].bytes > s->segments[i + 1].address - s->segments[i].address)
            snprintf(s->why, sizeof s->why, "segments overlap before the first event");
    return SW_OK;
}

static sw_status add_block(trace_start *s, trace_block b)
{
    SW_TRY(sw_heap_reserve(&s->blocks, SW_HEAP_PROFILE, &s->cap_blocks, s->n_blocks + 1));
    s->blocks[s->n_blocks++] = b;
    return SW_OK;
}

static sw_status find_blocks(trace_start *s, const snapshot_trace *t, number_map *live)
{
    /* Frees without an alloc: what live says is 1 after an alloc, 2 after a request to free. */
    for (uint32_t i = 0; i < t->n_events; i++) {
        const trace_event *e = &t->events[i];
        if (e->action == TRACE_ALLOC)
            SW_TRY(number_map_set(live, e->address, 1));
        const uint32_t is = number_map_at(live, e->address);
        if (e->action == TRACE_FREE_REQUESTED && is != 1)
            SW_TRY(number_map_set(live, e->address, 2));
        if (e->action != TRACE_FREE_COMPLETED)
            continue;
        if (is != 1)
            SW_TRY(add_block(
                s, (trace_block)SW_INIT(.address = e->address, .requested = e->bytes,
                                        .bytes = caching_round(&t->settings, e->bytes),
                                        .active = true, .freed = i, .role = e->role,
                                        .pending = is != 2)));
        SW_TRY(number_map_set(live, e->address, 0));
    }

    for (uint32_t i = 0; i < t->n_blocks; i++) {
        trace_block b = t->blocks[i];
        const uint32_t is = number_map_at(live, b.address);
        b.pending &= is != 2;
        b.kept = true;
        b.freed = TRACE_NONE;
        if (b.active && is != 1)
            SW_TRY(add_block(s, b));
    }

    if (s->n_blocks > 0)
        qsort(s->blocks, s->n_blocks, sizeof *s->blocks, sw_order_u64);
    /* Requests lie where free blocks begin. So the lowest of those above a block, while it
     * lives, lies where it ends: nothing else is between them. Where memory is mapped piece
     * by piece, and in segments of small blocks, there are no rests. */
    uint64_t *end;
    const size_t bytes = s->n_blocks * sizeof(uint64_t);
    SW_TRY(sw_heap_alloc(&end, SW_HEAP_PROFILE, bytes));
    for (uint32_t j = 0; j < t->n_events && s->n_blocks > 0; j++) {
        const trace_event *e = &t->events[j];
        const uint32_t below =
            trace_below(s->blocks, s->n_blocks, sizeof *s->blocks, e->address);
        const trace_block *b = &s->blocks[below > 0 ? below - 1 : 0];
        if (e->action != TRACE_ALLOC || below == 0 || b->freed < j || b->address == e->address)
            continue;
        uint64_t *of = &end[b - s->blocks];
        *of = *of == 0 || e->address < *of ? e->address : *of;
    }
    for (uint32_t k = 0, in = 0; k < s->n_blocks; k++) {
        trace_block *b = &s->blocks[k];
        while (in < s->n_segments &&
               b->address - s->segments[in].address >= s->segments[in].bytes &&
               s->segments[in].address <= b->address)
            in++;
        if (b->kept || in == s->n_segments || s->segments[in].small ||
            s->segments[in].expandable || end[k] < b->address + b->bytes ||
            end[k] - s->segments[in].address >= s->segments[in].bytes)
            continue;
        b->bytes = end[k] - b->address;
        b->kept = true;
    }
    sw_heap_free(end, SW_HEAP_PROFILE, bytes);

    for (uint32_t i = 0; i < s->n_blocks; i++)
        s->requested += s->blocks[i].requested;
    return SW_OK;
}

uint64_t trace_start_most(const snapshot_trace *t, uint32_t to, uint32_t *where, uint64_t *now)
{
    uint64_t is = t->start.reserved, most = is; /* hostile sums wrap */
    *where = TRACE_NONE;
    for (uint32_t i = 0; i < to; i++) {
        const trace_event *e = &t->events[i];
        if (e->action == TRACE_SEGMENT_ALLOC || e->action == TRACE_SEGMENT_MAP)
            is += e->bytes;
        else if (e->action == TRACE_SEGMENT_FREE || e->action == TRACE_SEGMENT_UNMAP)
            is -= e->bytes;
        if ((int64_t)(is - most) > 0) {
            most = is;
            *where = i;
        }
    }
    if (now != NULL)
        *now = is;
    return most;
}

/* ---- all of it --------------------------------------------------------------------------- */

bool trace_moves(const trace_event *e)
{
    return (e->action == TRACE_ALLOC || e->action == TRACE_FREE_COMPLETED) && e->bytes > 0;
}

sw_status snapshot_trace_devices(const snapshot_file *f, uint64_t out[SNAPSHOT_DEVICES / 64])
{
    memset(out, 0, SNAPSHOT_DEVICES / 8);
    for (uint64_t i = 0; i < value_count(f->segments); i++) {
        int64_t d;
        SW_TRY(snapshot_number(f->path, value_item(f->segments, i), "segment", i, "device",
                               SNAPSHOT_DEVICES - 1, &d));
        out[d / 64] |= UINT64_C(1) << d % 64;
    }
    for (uint64_t d = 0; d < value_count(f->traces) && d < SNAPSHOT_DEVICES; d++)
        if (value_count(value_item(f->traces, d)) > 0)
            out[d / 64] |= UINT64_C(1) << d % 64;
    return SW_OK;
}

static sw_status read_all(reader *r)
{
    uint32_t first;
    SW_TRY(sw_timeline_new(&r->t->texts));
    SW_TRY(stack_of(r, 0, &first));
    take_settings(r);
    const value trace = value_item(r->f->traces, (uint64_t)r->t->device);
    const uint64_t n = value_count(trace);
    if (n > SNAPSHOT_MOST)
        SW_FAIL(SW_UNSUPPORTED, "%s: more than %u events", r->f->path, SNAPSHOT_MOST);
    SW_TRY(sw_heap_alloc(&r->t->events, SW_HEAP_PROFILE, n * sizeof(trace_event)));
    r->t->cap_events = (uint32_t)n;
    for (uint64_t i = 0; i < n; i++)
        SW_TRY(take_event(r, value_item(trace, i), i));

    for (uint64_t j = 0; j < value_count(r->f->segments); j++)
        SW_TRY(take_segment(r, value_item(r->f->segments, j), j));

    if (!r->t->said_settings) {
        /* Files of PyTorch 2.0 to 2.2 do not say the settings; events and segments say one
         * of them. */
        for (uint32_t i = 0; i < r->t->n_segments; i++)
            r->t->settings.expandable |= r->t->segments[i].expandable;
        for (uint32_t i = 0; i < r->t->n_events; i++)
            r->t->settings.expandable |= r->t->events[i].action == TRACE_SEGMENT_MAP;
    }
    undoing f = {.s = &r->t->start, .t = r->t};
    number_map live = {0};
    sw_status status = find_segments(&f);
    if (status == SW_OK)
        status = find_blocks(f.s, f.t, &live);
    number_map_free(&live);
    number_map_free(&f.at);
    return status;
}

sw_status snapshot_trace_read(snapshot_trace *t, const snapshot_file *f, int64_t device)
{
    *t = (snapshot_trace){.path = f->path, .device = device, .cuda = f->device};
    reader r = {.t = t, .f = f};
    const sw_status status = read_all(&r);
    number_map_free(&r.stacks);
    number_map_free(&r.made);
    return status;
}

void snapshot_trace_free(snapshot_trace *t)
{
    sw_heap_free(t->events, SW_HEAP_PROFILE, t->cap_events * sizeof *t->events);
    sw_heap_free(t->segments, SW_HEAP_PROFILE, t->cap_segments * sizeof *t->segments);
    sw_heap_free(t->blocks, SW_HEAP_PROFILE, t->cap_blocks * sizeof *t->blocks);
    sw_heap_free(t->stacks, SW_HEAP_PROFILE, t->cap_stacks * sizeof *t->stacks);
    sw_heap_free(t->start.segments, SW_HEAP_PROFILE,
                 t->start.cap_segments * sizeof *t->start.segments);
    sw_heap_free(t->start.blocks, SW_HEAP_PROFILE,
                 t->start.cap_blocks * sizeof *t->start.blocks);
    sw_timeline_free(t->texts);
    *t = (snapshot_trace){0};
}
