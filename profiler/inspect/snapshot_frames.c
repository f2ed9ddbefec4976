/* Frames to names. */
#include "profiler/inspect/snapshot_frames.h"
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

/* The frames of PyTorch's profiler have all in their name: "nn.Module: Linear_0", "<built-in
 * method relu of type object at 0x7f..>", "train.py(40): step". */
static void split_name(frame *f)
{
    const char *text = f->name, *behind = strstr(text, "): ");
    const char *open = behind != NULL ? behind : text;
    while (open > text && *open != '(')
        open--;
    if (begins(text, "nn.Module: ")) {
        f->module = true;
        f->name = text + strlen("nn.Module: ");
    } else if (begins(text, "<built-in method ") || begins(text, "<built-in function ")) {
        f->builtin = true;
        f->name = strchr(strchr(text, ' ') + 1, ' ') + 1;
    } else if (open > text) {
        take_path(f, text, (size_t)(open - text));
        f->line = 0;
        for (const char *c = open + 1; *c >= '0' && *c <= '9' && f->line < 100000000; c++)
            f->line = f->line * 10 + (*c - '0');
        f->name = behind + 3;
    }
    f->n_name = (int)(f->builtin ? strcspn(f->name, " >") : strlen(f->name));
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
    if (strcmp(file, "none") == 0)
        split_name(out);
    return true;
}

/* ---- frames of our own export ------------------------------------------------------------ */

static bool is_ours(const frame *f)
{
    return strcmp(f->file, "tensor") == 0;
}

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

static bool is_pytorch(const frame *f)
{
    return begins(f->file, "torch/") || has(f->file, "packages/torch/") ||
           has(f->file, "pytorch/torch/");
}

typedef enum { OF_OTHERS, OF_LIBRARY, OF_USER } owner;

/* The owner of the function: PyTorch's and Python's own are those of others. */
static owner owner_of(const frame *f)
{
    const bool library = has(f->file, "-packages/");
    if (!is_python(f) || f->module || f->builtin || is_pytorch(f) ||
        begins(f->file, "<frozen") ||
        (!library && (has(f->file, "/lib/python") || has(f->file, "/Lib/"))))
        return OF_OTHERS;
    return library ? OF_LIBRARY : OF_USER;
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

/* at::_ops::addmm::call(...) is aten::addmm. */
static void take_operator(const frame *f, char *to, size_t bytes)
{
    static const char mark[] = "at::_ops::";
    const char *at = strstr(f->name, mark);
    if (at == NULL)
        return;
    at += sizeof mark - 1;
    snprintf(to, bytes, "aten::%.*s", (int)strcspn(at, ":(< "), at);
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
    const owner of = owner_of(f);
    char scope[NAME_BYTES];
    if (of == OF_OTHERS)
        return;
    describe(f, scope, sizeof scope);
    if (of == OF_LIBRARY)
        memcpy(s->latest, scope, sizeof scope);
    if (of == OF_LIBRARY && s->n_others < LAYERS) {
        put_scope(s->others, scope);
        s->n_others++;
    }
    if (of == OF_USER && s->n_functions < LAYERS &&
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

static void look_at(search *s, const frame *f)
{
    char scope[NAME_BYTES];
    if (!s->op_found && is_python(f)) {
        s->op_found = true;
        if (s->op[0] == '\0')
            describe(f, s->op, sizeof s->op);
    } else if (!s->op_found) {
        take_operator(f, s->op, sizeof s->op);
    }
    if (s->first[0] == '\0')
        snprintf(s->first, sizeof s->first, "%.*s", f->n_name < 200 ? f->n_name : 200, f->name);
    const int phase = phase_of(s, f);
    s->facts |= facts_of(f);
    /* A call by backward or by the optimizer belongs there, whatever it is. */
    if (phase >= 3 || s->phase < 0)
        s->phase = phase >= 0 ? phase : s->phase;
    if (is_python(f))
        s->last_is_apply =
            has(f->file, "torch/autograd/function.py") && begins(f->name, "apply");
    take_function(s, f);
    if (f->module) {
        describe(f, scope, sizeof scope);
        put_scope(s->modules, scope);
    }
}

sw_status snapshot_frames_read(sw_timeline *t, value frames, snapshot_frames *out)
{
    search s = {.phase = -1};
    frame f;
    *out = (snapshot_frames){"", "", "", -1, 0};
    if (value_count(frames) == 0)
        return SW_OK;
    if (frame_at(frames, 0, &f) && is_ours(&f))
        return read_ours(t, frames, out);
    for (uint64_t i = 0; i < value_count(frames); i++)
        if (frame_at(frames, i, &f))
            look_at(&s, &f);
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
