/* Frames to names. */
#include "tools/snapshot_frames.h"
#include <stdio.h>
#include <string.h>

#define LAYERS 4
#define NAME_BYTES 512

typedef struct {
    const char *file, *name;
    int64_t line;
} frame;

static bool frame_at(value frames, uint64_t i, frame *out)
{
    const value f = value_item(frames, i);
    *out = (frame){value_text(value_at(f, "filename")), value_text(value_at(f, "name")),
                   value_number(value_at(f, "line"))};
    return out->file != NULL && out->name != NULL;
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
    return (n > 3 && strcmp(f->file + n - 3, ".py") == 0) || f->file[0] == '<';
}

static bool is_pytorch(const frame *f)
{
    return has(f->file, "packages/torch/") || has(f->file, "pytorch/torch/");
}

/* A function of the user or of a library that is neither PyTorch nor Python's own. */
static bool is_users(const frame *f)
{
    return is_python(f) && !is_pytorch(f) && strncmp(f->file, "<frozen", 7) != 0 &&
           (!has(f->file, "/lib/python") || has(f->file, "-packages/"));
}

static int phase_of(const frame *f)
{
    if (has(f->file, "torch/optim/"))
        return 4;
    if (has(f->file, "torch/autograd/") || has(f->name, "torch::autograd::Engine") ||
        (has(f->file, "torch/_tensor.py") && strcmp(f->name, "backward") == 0))
        return 3;
    return has(f->file, "torch/utils/data/") ? 0 : -1;
}

/* "net.py:12 forward"; a slash would divide layers. */
static void describe(const frame *f, char *to, size_t bytes)
{
    const char *slash = strrchr(f->file, '/');
    snprintf(to, bytes, "%.100s:%lld %.120s", slash != NULL ? slash + 1 : f->file,
             (long long)f->line, f->name);
    for (char *c = strchr(to, '/'); c != NULL; c = strchr(c, '/'))
        *c = '|';
}

/* at::_ops::addmm::call(...) is aten::addmm. */
static bool operator_of(const frame *f, char *to, size_t bytes)
{
    static const char mark[] = "at::_ops::";
    const char *at = strstr(f->name, mark);
    if (at == NULL)
        return false;
    at += sizeof mark - 1;
    snprintf(to, bytes, "aten::%.*s", (int)strcspn(at, ":(< "), at);
    return true;
}

static void read_op(value frames, char *op)
{
    frame f;
    for (uint64_t i = 0; i < value_count(frames); i++) {
        if (!frame_at(frames, i, &f))
            continue;
        if (is_python(&f)) {
            if (*op == '\0')
                describe(&f, op, NAME_BYTES);
            return;
        }
        (void)operator_of(&f, op, NAME_BYTES);
    }
    if (*op == '\0' && frame_at(frames, 0, &f))
        snprintf(op, NAME_BYTES, "%.200s", f.name);
}

static void read_layer(value frames, char *layer)
{
    char scope[NAME_BYTES];
    frame f;
    int found = 0;
    for (uint64_t i = 0; i < value_count(frames) && found < LAYERS; i++) {
        if (!frame_at(frames, i, &f) || !is_users(&f) ||
            (found > 0 && strcmp(f.name, "<module>") == 0))
            continue;
        describe(&f, scope, sizeof scope);
        put_scope(layer, scope);
        found++;
    }
}

sw_status snapshot_frames_read(sw_timeline *t, value frames, snapshot_frames *out)
{
    char op[NAME_BYTES] = "", layer[NAME_BYTES] = "";
    frame f;
    *out = (snapshot_frames){"", "", "", -1};
    if (value_count(frames) == 0)
        return SW_OK;
    if (frame_at(frames, 0, &f) && is_ours(&f))
        return read_ours(t, frames, out);
    read_op(frames, op);
    read_layer(frames, layer);
    for (uint64_t i = 0; i < value_count(frames) && out->phase < 0; i++)
        out->phase = frame_at(frames, i, &f) ? phase_of(&f) : -1;
    if (out->phase < 0)
        out->phase = 1;
    SW_TRY(sw_timeline_string(t, &out->op, op));
    out->name = out->op;
    return sw_timeline_string(t, &out->layer, layer);
}
