/* Folded stacks of what lives at the peak of the run: a line for each tensor, its
 * frames from the outside in, and its bytes. Frames are the run, the layer's scopes, the role
 * and the tensor; padding is a frame of its own on top of its tensor, so that the lines add up
 * to the peak. Readers part frames at semicolons and take the last number after a blank, two
 * numbers as a difference: in names a semicolon becomes a comma, a blank an underscore. */
#include "alloc/base/mem.h"
#include "profiler/inspect/sink.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 60 /* deeper scopes are part of the last: readers of trees call themselves */

static void put_frame(sw_sink_out *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char c = text[i] == ';' ? ',' : text[i] == ' ' ? '_' : text[i];
        sw_sink_bytes(out, &c, 1);
    }
}

static void put_line(sw_sink_out *out, const char *run, const sw_tensor *v, const char *last,
                     uint64_t bytes)
{
    const char *scope = *v->layer != '\0' ? v->layer : "(no layer)";
    if (bytes == 0)
        return;
    put_frame(out, run, strlen(run));
    for (int depth = 0; *scope != '\0'; depth++) {
        const size_t n = depth < DEPTH ? strcspn(scope, "/") : strlen(scope);
        sw_sink_text(out, n > 0 ? ";" : "");
        put_frame(out, scope, n);
        scope += n + (scope[n] == '/');
    }
    sw_sink_text(out, ";");
    put_frame(out, v->role, strlen(v->role));
    sw_sink_text(out, ";");
    put_frame(out, v->name, strlen(v->name));
    sw_sink_print(out, "%s %" PRIu64 "\n", last, bytes);
}

static int by_stack(const void *a, const void *b)
{
    const sw_tensor *x = *(const sw_tensor *const *)a, *y = *(const sw_tensor *const *)b;
    int order = strcmp(x->layer, y->layer);
    order = order != 0 ? order : strcmp(x->role, y->role);
    return order != 0 ? order : strcmp(x->name, y->name);
}

/* Tensors of one name in one place are one line. */
static sw_status write_folded(const sw_timeline *t, sw_sink_out *out)
{
    const sw_tl_program *p = sw_timeline_peak(t);
    const sw_tensor **live;
    size_t n = 0;
    if (p == NULL)
        SW_FAIL(SW_FORMAT, "%s: it has no plan and no trace, so there is nothing to show",
                t->path);
    SW_TRY(sw_heap_alloc(&live, SW_HEAP_PROFILE, (p->n_values + 1) * sizeof(sw_tensor *)));
    for (uint32_t i = 0; i < p->n_values; i++) {
        const sw_tensor *v = &p->values[i];
        if (v->alias == SW_TL_NONE && v->birth <= p->peak_op && p->peak_op <= v->death)
            live[n++] = v;
    }
    qsort(live, n, sizeof *live, by_stack);
    uint64_t bytes = 0, padding = 0;
    for (size_t i = 0; i < n && out->status == SW_OK; i++) {
        bytes += live[i]->bytes;
        padding += live[i]->padding;
        if (i + 1 < n && by_stack(&live[i], &live[i + 1]) == 0)
            continue;
        put_line(out, p->run, live[i], "", bytes);
        put_line(out, p->run, live[i], ";(padding)", padding);
        bytes = padding = 0;
    }
    sw_heap_free(live, SW_HEAP_PROFILE, (p->n_values + 1) * sizeof(sw_tensor *));
    return out->status;
}

const sw_sink sw_sink_folded =
    SW_INIT(.name = "folded",
            .about = "folded stacks of the peak, for flamegraph.pl, inferno and speedscope",
            .ending = ".folded", .write = write_folded);
