/* A snapshot of PyTorch as a timeline: its frames, its events, its file. */
#include "alloc/base/mem.h"
#include "profiler/inspect/numbers.h"
#include "profiler/inspect/replan/trace.h"
#include "profiler/inspect/snapshot.h"
#include "profiler/inspect/values.h"
#include <stdio.h>
#include <string.h>

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

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

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
        if (begins(text, "nn.Module: ")) {
            out->module = true;
            out->name = text + strlen("nn.Module: ");
        } else if (begins(text, "<built-in method ") || begins(text, "<built-in function ")) {
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
        if (begins(f->name, rules[i].name) && has(f->file, rules[i].file))
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
    if (f->module || f->builtin || begins(f->file, "torch/") ||
        has(f->file, "packages/torch/") || has(f->file, "pytorch/torch/") ||
        begins(f->file, "<frozen") ||
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
        (s->n_functions == 0 || !begins(f->name, "<module>"))) {
        put_scope(s->functions, scope);
        s->n_functions++;
    }
}

/* -1: it does not say. Work of a closure that the optimizer calls is no update. */
static int phase_of(const search *s, const frame *f)
{
    const bool inner = (s->facts & FRAMES_MODULE) != 0 || s->phase == 2 || s->phase == 3;
    if (begins(f->name, "Optimizer.step#") ||
        (!f->module && !f->builtin && has(f->file, "torch/optim/") &&
         !has(f->file, "lr_scheduler")))
        return inner ? -1 : 4;
    if ((s->facts & FRAMES_ENGINE) != 0 || has(f->file, "torch/autograd/__init__.py") ||
        (has(f->file, "torch/autograd/graph.py") && !has(f->name, "pack")) ||
        (has(f->file, "torch/_tensor.py") && begins(f->name, "backward")))
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
                has(f.file, "torch/autograd/function.py") && begins(f.name, "apply");
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

#define LATEST_US UINT32_MAX /* after the first event */

static const char before_trace[] = "from before the trace";

typedef struct {
    sw_timeline *t;
    snapshot_trace trace;
    trace_start start;
    trace_lives lives;
    trace_roles roles;
    address_space space;
    uint32_t *op_of; /* by event: the op that it is */
    sw_tl_program *p;
} reader;

static sw_status take_life(reader *r, uint32_t i, bool own)
{
    const trace_life *x = &r->lives.all[i];
    const trace_stack *by = &r->trace.stacks[x->stack];
    const int phase = own || x->born == 0 ? by->phase : r->roles.phase[x->born];
    sw_tensor *v = &r->p->values[i];
    const bool kept = x->dead == r->lives.n_positions;
    *v = (sw_tensor)SW_INIT(.id = i, .alias = SW_TL_NONE, .name = by->name, .layer = by->layer,
                            .op = by->op, .phase = phase >= 0 ? sw_prof_phase_name(phase) : "",
                            .segment = SW_SEGMENT_STEP, .bytes = x->bytes,
                            .offset = address_space_offset(&r->space, x->address),
                            .birth = x->born > 0 ? r->op_of[x->born - 1] : 0,
                            .death = kept ? r->p->n_ops : r->op_of[x->dead - 1] - 1);
    SW_TRY(sw_timeline_string(r->t, &v->role, x->role));
    if (x->note != NULL && by->name == by->op) /* ours has a name of its own */
        SW_TRY(sw_timeline_string(r->t, &v->name, x->note));
    if (v->name[0] == '\0')
        v->name = x->born == 0 ? before_trace : "no frames";
    if (x->born > 0)
        r->p->ops[v->birth] =
            (sw_tl_op){v->op[0] != '\0' ? v->op : "alloc", v->layer, r->p->ops[v->birth].phase};
    if (!kept && r->trace.events[x->dead - 1].action == TRACE_FREE_COMPLETED)
        r->p->ops[v->death + 1].layer = v->layer;
    return SW_OK;
}

/* The first one is before the trace; the time up to an event is that of the one before. */
static void take_ops(reader *r, sw_tl_run *run, uint64_t *op_ns)
{
    uint32_t now = 0, first = 0, n = 0;
    r->p->ops[n++] =
        (sw_tl_op){before_trace, "", (uint8_t)(r->roles.phase[0] < 0 ? 0 : r->roles.phase[0])};
    for (uint32_t i = 0; i < r->trace.n_events; i++) {
        const trace_event *e = &r->trace.events[i];
        const int phase = r->roles.phase[i + 1];
        r->op_of[i] = n;
        if (!trace_moves(e))
            continue;
        if (n == 1)
            first = now = e->us;
        if (e->us > now && e->us < LATEST_US) {
            op_ns[n - 1] = (uint64_t)(e->us - now) * 1000;
            now = e->us;
        }
        r->p->ops[n++] = (sw_tl_op){e->action == TRACE_ALLOC ? "alloc" : "free", "",
                                    (uint8_t)(phase < 0 ? 0 : phase)};
    }
    run->clock = now > first ? SW_TL_OPS : SW_TL_UNTIMED;
    run->op_ns = now > first ? op_ns : NULL;
    run->ns = (uint64_t)(now - first) * 1000;
}

/* ---- the program ------------------------------------------------------------------------- */

static sw_status add_program(reader *r, bool own)
{
    uint64_t *ns;
    sw_tl_step *steps;
    sw_tl_run *run;
    uint32_t n = 1;
    bool phases = false;
    for (uint32_t i = 0; i < r->trace.n_events; i++) {
        n += trace_moves(&r->trace.events[i]);
        phases |= r->roles.phase[i + 1] >= 0;
    }
    SW_TRY(sw_timeline_add_program(r->t, &r->p));
    SW_TRY(sw_timeline_alloc(r->t, &r->p->ops, n, sizeof *r->p->ops));
    SW_TRY(sw_timeline_alloc(r->t, &ns, n, sizeof(uint64_t)));
    SW_TRY(
        sw_timeline_alloc(r->t, &r->p->values, (size_t)r->lives.n + 1, sizeof *r->p->values));
    SW_TRY(sw_timeline_alloc(r->t, &r->op_of, (size_t)r->trace.n_events + 1, sizeof *r->op_of));
    r->p->run = "trace";
    r->p->n_ops = n;
    r->p->n_values = r->lives.n;
    uint32_t ignored;
    r->p->arena_bytes =
        trace_start_most(&r->start, &r->trace, r->trace.n_events, &ignored, NULL);
    r->p->total_bytes = r->p->arena_bytes;
    SW_TRY(sw_timeline_add_run(r->t, &run));
    take_ops(r, run, ns);
    for (uint32_t i = 0; i < r->lives.n; i++)
        SW_TRY(take_life(r, i, own));
    /* The peak of all, and of each phase where the frames tell them. */
    uint64_t *curve;
    SW_TRY(sw_heap_alloc(&curve, SW_HEAP_PROFILE, r->p->n_ops * sizeof(uint64_t)));
    sw_timeline_curve(r->p, NULL, NULL, curve);
    for (uint32_t j = 0; j < r->p->n_ops; j++) {
        sw_prof_phase *phase = &r->p->phase[r->p->ops[j].phase];
        if (curve[j] > r->p->peak_bytes) {
            r->p->peak_bytes = curve[j];
            r->p->peak_op = j;
        }
        if (phases && curve[j] > phase->peak_bytes)
            phase->peak_bytes = curve[j];
        if (phases)
            phase->end_bytes = curve[j];
    }
    sw_heap_free(curve, SW_HEAP_PROFILE, r->p->n_ops * sizeof(uint64_t));

    r->p->lower_bound_bytes = r->p->peak_bytes;
    SW_TRY(sw_timeline_alloc(r->t, &steps, (size_t)r->roles.n_steps + 1, sizeof *steps));
    if (r->roles.n_steps > 0)
        memcpy(steps, r->roles.steps, r->roles.n_steps * sizeof *steps);
    r->t->steps = steps;
    r->t->n_steps = r->roles.n_steps;
    r->t->passes = r->roles.passes;
    run->step = 1;
    run->peak_bytes = r->p->peak_bytes;
    memcpy(run->phase, r->p->phase, sizeof run->phase);
    return sw_timeline_finish(r->t);
}

/* ---- devices ----------------------------------------------------------------------------- */

/* The device whose segments take the most memory, then the one with the most events. */
static sw_status choose_device(reader *r, const snapshot_file *f, int64_t *out)
{
    const value traces = f->traces;
    const char *kind = f->device ? "cuda:" : "device ";
    uint64_t bytes[SNAPSHOT_DEVICES] = {0}, used = 0;
    const uint64_t n_traces =
        value_count(traces) < SNAPSHOT_DEVICES ? value_count(traces) : SNAPSHOT_DEVICES;
    for (uint64_t s = 0; s < value_count(f->segments); s++) {
        const value segment = value_item(f->segments, s);
        int64_t device, size;
        SW_TRY(snapshot_number(r->t->path, segment, "segment", s, "device",
                               SNAPSHOT_DEVICES - 1, &device));
        SW_TRY(snapshot_number(r->t->path, segment, "segment", s, "total_size",
                               SNAPSHOT_LARGEST(f), &size));
        bytes[device] += (uint64_t)size;
    }
    for (uint64_t d = 0; d < SNAPSHOT_DEVICES; d++) {
        const uint64_t best = (uint64_t)*out;
        const uint64_t events = d < n_traces ? value_count(value_item(traces, d)) : 0;
        const uint64_t most = value_count(value_item(traces, best));
        used += bytes[d] > 0 || events > 0;
        if (bytes[d] > bytes[best] || (bytes[d] == bytes[best] && events > most))
            *out = (int64_t)d;
    }
    char name[64];
    if (used > 1)
        snprintf(name, sizeof name, "%s%lld, the fullest of %llu", kind, (long long)*out,
                 (unsigned long long)used);
    else
        snprintf(name, sizeof name, "%s%lld", kind, (long long)*out);
    return sw_timeline_string(r->t, &r->t->device, name);
}

static sw_status take_snapshot(reader *r, const snapshot_file *f)
{
    int64_t device = 0;
    SW_TRY(choose_device(r, f, &device));
    if (f->own) { /* the run, as our own export describes it */
        const struct {
            const char *key, **to;
        } of[] = {{"model", &r->t->model}, {"device", &r->t->device}, {"data", &r->t->data}};
        for (int i = 0; i < 3; i++)
            SW_TRY(sw_timeline_string(r->t, of[i].to,
                                      value_text(value_at(f->settings, of[i].key))));
    }
    r->t->tool = "pytorch";
    if (r->t->model[0] == '\0')
        r->t->model = "PyTorch snapshot";
    SW_TRY(snapshot_trace_read(&r->trace, f, device));
    /* Texts of the trace become the timeline's. */
    for (uint32_t i = 0; i < r->trace.n_stacks; i++) {
        trace_stack *s = &r->trace.stacks[i];
        SW_TRY(sw_timeline_string(r->t, &s->name, s->name));
        SW_TRY(sw_timeline_string(r->t, &s->op, s->op));
        SW_TRY(sw_timeline_string(r->t, &s->layer, s->layer));
    }

    SW_TRY(trace_start_find(&r->start, &r->trace));
    SW_TRY(trace_lives_find(&r->lives, &r->trace, &r->start));
    SW_TRY(trace_roles_find(&r->roles, &r->trace, &r->lives));
    const snapshot_trace *t = &r->trace;
    for (uint32_t j = 0; j < t->n_segments && t->cuda; j++)
        SW_TRY(address_space_add(&r->space, t->segments[j].address, t->segments[j].bytes));
    for (uint32_t j = 0; j < t->n_events; j++)
        if (t->events[j].action != TRACE_OOM && t->events[j].action != TRACE_FREE_REQUESTED)
            SW_TRY(address_space_add(&r->space, t->events[j].address, t->events[j].bytes));
    for (uint32_t j = 0; j < r->lives.n; j++)
        SW_TRY(address_space_add(&r->space, r->lives.all[j].address, r->lives.all[j].bytes));
    address_space_close_up(&r->space);

    return add_program(r, f->own);
}

sw_status snapshot_read(sw_timeline *t)
{
    snapshot_file file;
    reader r = {.t = t};
    sw_status status = snapshot_file_open(&file, t->path);
    if (status == SW_OK)
        status = take_snapshot(&r, &file);
    snapshot_file_close(&file);
    trace_roles_free(&r.roles);
    trace_lives_free(&r.lives);
    trace_start_free(&r.start);
    snapshot_trace_free(&r.trace);
    address_space_free(&r.space);
    return status;
}

/* ---- the file ---------------------------------------------------------------------------- */

struct snapshot_tree {
    value_tree tree;
    byte_reader in;
};

sw_status snapshot_is(const char *path, bool *out)
{
    byte_reader r;
    SW_TRY(byte_reader_open(&r, path));
    static const char *const keys[] = {"\"segments\"", "\"device_traces\""};
    const bool empty = r.end == 0;
    char text[65] = ""; /* up to a zero byte, which no JSON has */
    memcpy(text, r.buffer, r.end < 64 ? r.end : 64);
    const char *key = text + 1 + strspn(text + (*text != '\0'), " \n\r\t");
    *out = r.end >= 2 && (unsigned char)text[0] == 0x80;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        *out |= text[0] == '{' && begins(key, keys[k]);
    byte_reader_close(&r);
    if (empty)
        SW_FAIL(SW_FORMAT, "%s: the file is empty", path);
    return SW_OK;
}

static sw_status read_tree(snapshot_file *f)
{
    byte_reader *in = &f->tree->in;
    value_tree *tree = &f->tree->tree;
    value top = 0;
    int first;
    SW_TRY(byte_reader_bytes(in, &f->bytes));
    SW_TRY(value_tree_open(tree, f->path, f->bytes));
    SW_TRY(byte_reader_peek(in, &first));
    SW_TRY(first == 0x80 ? pickle_read(tree, in, &top) : json_tree_read(tree, in, &top));
    const bool list = value_kind_of(top) == VALUE_LIST; /* of segments: memory_snapshot() */
    f->segments = list ? top : value_at(top, "segments");
    f->traces = value_at(top, "device_traces");
    f->settings = value_at(top, "allocator_settings");
    f->own = value_text(value_at(f->settings, "tool")) != NULL;
    if (value_kind_of(f->segments) != VALUE_LIST ||
        (f->traces != 0 && value_kind_of(f->traces) != VALUE_LIST))
        SW_FAIL(SW_FORMAT, "%s: not a snapshot of PyTorch: it has no list of segments",
                f->path);
    /* Those of the profiler have no settings; its last device is the CPU. Files of PyTorch 2.0
     * to 2.2 do not say the settings either: segments of a device say their type, and events of
     * devices the segments or their time; those of the profiler say none of it. */
    f->device =
        list || f->settings != 0 || value_at(value_item(f->segments, 0), "segment_type") != 0;
    for (uint64_t d = 0; d < value_count(f->traces) && !f->device; d++) {
        const value event = value_item(value_item(f->traces, d), 0);
        const char *action = value_text(value_at(event, "action"));
        f->device = value_at(event, "time_us") != 0 ||
                    (action != NULL && strncmp(action, "segment_", 8) == 0);
    }
    return SW_OK;
}

sw_status snapshot_file_open(snapshot_file *f, const char *path)
{
    *f = (snapshot_file){.path = path};
    SW_TRY(sw_heap_alloc(&f->tree, SW_HEAP_FILES, sizeof *f->tree));
    SW_TRY(byte_reader_open(&f->tree->in, path));
    const sw_status status = read_tree(f);
    byte_reader_close(&f->tree->in);
    return status;
}

void snapshot_file_close(snapshot_file *f)
{
    if (f->tree == NULL)
        return;
    value_tree_close(&f->tree->tree);
    sw_heap_free(f->tree, SW_HEAP_FILES, sizeof *f->tree);
    f->tree = NULL;
}

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

sw_status snapshot_block_request(const char *path, value of, uint64_t index, int64_t most,
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
