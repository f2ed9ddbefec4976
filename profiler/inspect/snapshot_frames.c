/* Frames to names. */
#include "profiler/inspect/snapshot_frames.h"
#include <stdio.h>
#include <string.h>

#define LAYERS 4 /* functions of a layer's name */
#define NAME_BYTES 512

/* Pieces of the file's texts. */
typedef struct {
    const char *file, *name;
    int n_file, n_name;
    int64_t line;
    bool module, builtin; /* `name` is that of an nn.Module, or of a function without a file */
} frame;

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
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
        f->file = text;
        f->n_file = (int)(open - text);
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
    *out = (frame){.file = value_text(value_at(f, "filename")),
                   .name = value_text(value_at(f, "name")),
                   .line = value_number(value_at(f, "line"))};
    if (out->file == NULL || out->name == NULL)
        return false;
    out->n_file = (int)strnlen(out->file, INT32_MAX);
    out->n_name = (int)strnlen(out->name, INT32_MAX);
    if (strcmp(out->file, "none") == 0)
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
    return f->module || f->builtin || f->file[0] == '<' ||
           (f->n_file > 3 && memcmp(f->file + f->n_file - 3, ".py", 3) == 0);
}

static bool is_pytorch(const frame *f)
{
    return begins(f->file, "torch/") || has(f->file, "packages/torch/") ||
           has(f->file, "pytorch/torch/");
}

/* A function of the user or of a library that is neither PyTorch nor Python's own. */
static bool is_users(const frame *f)
{
    return is_python(f) && !f->module && !f->builtin && !is_pytorch(f) &&
           !begins(f->file, "<frozen") &&
           (!has(f->file, "/lib/python") || has(f->file, "-packages/"));
}

static int phase_of(const frame *f)
{
    if (f->module || f->builtin)
        return -1;
    if (has(f->file, "torch/optim/"))
        return 4;
    if (has(f->file, "torch/autograd/") || has(f->name, "torch::autograd::Engine") ||
        (has(f->file, "torch/_tensor.py") && begins(f->name, "backward")))
        return 3;
    return has(f->file, "torch/utils/data/") ? 0 : -1;
}

/* "net.py:12 forward"; a slash would divide layers. */
static void describe(const frame *f, char *to, size_t bytes)
{
    const char *file = f->file;
    for (int i = 0; i < f->n_file; i++)
        if (f->file[i] == '/')
            file = f->file + i + 1;
    const int n_file = (int)(f->file + f->n_file - file);
    if (f->module || f->builtin)
        snprintf(to, bytes, "%.*s", f->n_name < 120 ? f->n_name : 120, f->name);
    else
        snprintf(to, bytes, "%.*s:%lld %.*s", n_file < 100 ? n_file : 100, file,
                 (long long)f->line, f->n_name < 120 ? f->n_name : 120, f->name);
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

/* What was found so far, from the inside out. */
typedef struct {
    char op[NAME_BYTES], functions[NAME_BYTES], modules[NAME_BYTES], first[NAME_BYTES];
    bool op_found;
    int n_functions, phase;
} search;

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
    if (s->phase < 0)
        s->phase = phase_of(f);
    const bool function = is_users(f) && s->n_functions < LAYERS &&
                          (s->n_functions == 0 || !begins(f->name, "<module>"));
    if (!f->module && !function)
        return;
    describe(f, scope, sizeof scope);
    put_scope(f->module ? s->modules : s->functions, scope);
    s->n_functions += function;
}

sw_status snapshot_frames_read(sw_timeline *t, value frames, snapshot_frames *out)
{
    search s = {.phase = -1};
    frame f;
    *out = (snapshot_frames){"", "", "", -1};
    if (value_count(frames) == 0)
        return SW_OK;
    if (frame_at(frames, 0, &f) && is_ours(&f))
        return read_ours(t, frames, out);
    for (uint64_t i = 0; i < value_count(frames); i++)
        if (frame_at(frames, i, &f))
            look_at(&s, &f);
    out->phase = s.phase < 0 ? 1 : s.phase;
    SW_TRY(sw_timeline_string(t, &out->op, s.op[0] != '\0' ? s.op : s.first));
    out->name = out->op;
    return sw_timeline_string(t, &out->layer, s.modules[0] != '\0' ? s.modules : s.functions);
}
