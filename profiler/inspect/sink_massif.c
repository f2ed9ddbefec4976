/* Massif's output of one run of the program that holds the peak, for ms_print and
 * massif-visualizer. Time counts ops. Payload is heap, padding and alignment are "extra". Of
 * long programs the highest position of each of at most 400 stretches is shown. Trees (layers,
 * roles, tensors) stand at the peak and where each phase is highest. Readers end a line at a
 * number sign: in names it becomes a plus. */
#include "alloc/base/mem.h"
#include "profiler/inspect/sink_internal.h"
#include <inttypes.h>
#include <string.h>

#define SNAPSHOTS 400
#define SMALL 1000 /* of a tree: less than its bytes / SMALL is shown in one line */

typedef struct {
    sw_sink_out *out;
    const sw_tl_program *p;
    uint64_t *live, *padding; /* at each op */
    unsigned char *shown;     /* what stands there: one of these */
    uint32_t n_shown;
} writer;

enum { HIDDEN, PLAIN, DETAILED, PEAK };

/* ---- trees ------------------------------------------------------------------------------- */

static void put_text(sw_sink_out *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sw_sink_bytes(out, text[i] == '#' ? "+" : text + i, 1);
}

static void put_line(sw_sink_out *out, int depth, uint32_t n_children, uint64_t bytes)
{
    for (int i = 0; i < depth; i++)
        sw_sink_text(out, " ");
    sw_sink_print(out, "n%" PRIu32 ": %" PRIu64 " ", n_children, bytes);
}

/* The first child that is shown with all after it in one line; or none. Children come with
 * most bytes first, and one alone is not hidden. */
static uint32_t first_small(const swi_stacks *tree, const swi_frame *x, uint32_t *n_large)
{
    const uint64_t least = tree->nodes[0].bytes / SMALL;
    uint32_t i = x->first;
    for (*n_large = 0; i != SW_TL_NONE && tree->nodes[i].bytes > least; i = tree->nodes[i].next)
        ++*n_large;
    if (i == SW_TL_NONE || tree->nodes[i].next != SW_TL_NONE)
        return i;
    ++*n_large;
    return SW_TL_NONE;
}

/* A node is the place of code that readers know: "address: function (in file)"; the root says
 * which op runs. */
static void put_node(sw_sink_out *out, const swi_stacks *tree, uint32_t at, int depth,
                     const sw_tl_op *op)
{
    static const char *const kinds[] = {"layer", "role", "tensor"};
    const swi_frame *x = &tree->nodes[at];
    uint32_t n_large;
    const uint32_t last = first_small(tree, x, &n_large);
    put_line(out, depth, n_large + (last != SW_TL_NONE), x->bytes);
    if (at != 0) {
        sw_sink_text(out, "0x0: ");
        put_text(out, x->text, x->n);
        sw_sink_print(out, " (in %s)\n", kinds[x->kind]);
    } else {
        sw_sink_print(out, "(live: %s, ", sw_prof_phase_name(op->phase));
        put_text(out, op->name, strlen(op->name));
        sw_sink_text(out, ")\n");
    }
    for (uint32_t i = x->first; i != last; i = tree->nodes[i].next)
        put_node(out, tree, i, depth + 1, op);
    if (last == SW_TL_NONE)
        return;
    uint64_t small = 0;
    for (uint32_t i = last; i != SW_TL_NONE; i = tree->nodes[i].next)
        small += tree->nodes[i].bytes;
    put_line(out, depth + 1, 0, small);
    sw_sink_print(out, "in %" PRIu32 " places, all below massif's threshold (%.2f%%)\n",
                  x->n_children - n_large, 100.0 / SMALL);
}

/* ---- snapshots --------------------------------------------------------------------------- */

static sw_status put_snapshot(const writer *w, uint32_t number, uint32_t at)
{
    static const char *const trees[] = {
        [PLAIN] = "empty", [DETAILED] = "detailed", [PEAK] = "peak"};
    sw_sink_print(w->out,
                  "#-----------\nsnapshot=%" PRIu32 "\n#-----------\ntime=%" PRIu32
                  "\nmem_heap_B=%" PRIu64 "\nmem_heap_extra_B=%" PRIu64
                  "\nmem_stacks_B=0\nheap_tree=%s\n",
                  number, at, w->live[at] - w->padding[at], w->padding[at],
                  trees[w->shown[at]]);
    if (w->shown[at] == PLAIN)
        return w->out->status;
    swi_stacks tree = {0};
    const sw_status status = swi_stacks_live(&tree, w->p, at);
    if (status == SW_OK)
        put_node(w->out, &tree, 0, 0, &w->p->ops[at]);
    swi_stacks_free(&tree);
    return status != SW_OK ? status : w->out->status;
}

static void add_padding(writer *w)
{
    const sw_tl_program *p = w->p;
    for (uint32_t i = 0; i < p->n_values; i++) {
        const sw_tensor *v = &p->values[i];
        if (v->alias != SW_TL_NONE || v->birth >= p->n_ops)
            continue;
        w->padding[v->birth] += v->padding;
        if (v->death < p->n_ops - 1)
            w->padding[v->death + 1] -= v->padding; /* modulo 2^64, as the sum below */
    }
    for (uint32_t i = 1; i < p->n_ops; i++)
        w->padding[i] += w->padding[i - 1];
}

static void choose(writer *w)
{
    const sw_tl_program *p = w->p;
    const uint32_t n = p->n_ops, stretches = n < SNAPSHOTS ? n : SNAPSHOTS;
    uint32_t highest[SW_PROF_PHASES], best = 0;
    memset(highest, 0xff, sizeof highest);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *of = &highest[p->ops[i].phase];
        if (*of == SW_TL_NONE || w->live[i] > w->live[*of])
            *of = i;
        if (i == 0 || (uint64_t)i * stretches / n != (uint64_t)(i - 1) * stretches / n)
            best = i;
        else if (w->live[i] > w->live[best])
            w->shown[best] = HIDDEN, best = i;
        w->shown[best] = PLAIN;
    }
    for (int f = 0; f < SW_PROF_PHASES; f++)
        if (highest[f] != SW_TL_NONE)
            w->shown[highest[f]] = DETAILED;
    w->shown[p->peak_op] = PEAK;
}

static void put_head(sw_sink_out *out, const sw_timeline *t, const sw_tl_program *p)
{
    const char *words[] = {"desc: ",
                           t->tool,
                           ", ",
                           p->run,
                           "; time counts ops\ncmd: ",
                           t->command[0] != '\0' ? t->command : t->model,
                           "\ntime_unit: i\n"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (i % 2 == 0)
            sw_sink_text(out, words[i]);
        else
            put_text(out, words[i], strlen(words[i]));
}

static sw_status write_massif(const sw_timeline *t, sw_sink_out *out)
{
    writer w = {.out = out};
    SW_TRY(swi_peak_program(t, &w.p));
    if (w.p->n_ops == 0)
        SW_FAIL(SW_FORMAT, "%s: its program has no ops, so there is no time to show", t->path);
    const size_t n = w.p->n_ops, bytes = n * (2 * sizeof(uint64_t) + 1);
    SW_TRY(sw_heap_alloc(&w.live, SW_HEAP_PROFILE, bytes));
    w.padding = w.live + n;
    w.shown = (unsigned char *)(w.padding + n);
    sw_timeline_curve(w.p, NULL, NULL, w.live);
    add_padding(&w);
    choose(&w);
    put_head(out, t, w.p);
    sw_status status = out->status;
    uint32_t number = 0;
    for (uint32_t i = 0; i < n && status == SW_OK; i++)
        if (w.shown[i] != HIDDEN)
            status = put_snapshot(&w, number++, i);
    sw_heap_free(w.live, SW_HEAP_PROFILE, bytes);
    return status;
}

const sw_sink sw_sink_massif = {
    .name = "massif",
    .about = "one run as Massif shows it, for ms_print and massif-visualizer",
    .ending = ".massif",
    .write = write_massif,
};
