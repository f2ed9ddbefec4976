/* Boxes with name, kind, sizes and parameters, from the input at the top to the logits, and a
 * curve for each edge. */
#include "tools/evolve/evolve_graph.h"
#include "alloc/base/mem.h"
#include "tools/evolve/evolve_layout.h"
#include <inttypes.h>
#include <math.h>

enum { BOX_W = 216, BOX_H = 58, RISE = 34, ROW = BOX_H + RISE, HEAD = 62, FOOT = 20 };

typedef struct {
    const sw_genome *genome;
    sw_genome_info info;
    svg *to;
    layout at;
    int shift; /* of all places, so that a narrow graph is in the middle */
} drawing;

static long middle_of(const drawing *d, uint32_t node)
{
    return lround(d->at.nodes[node].x) + d->shift;
}

/* ---- words ------------------------------------------------------------------------------- */

const char *evolve_shape_text(int64_t channels, int64_t height, int64_t width, char *text,
                              size_t bytes)
{
    if (height > 0)
        snprintf(text, bytes, "%" PRId64 " x %" PRId64 " x %" PRId64, channels, height, width);
    else
        snprintf(text, bytes, "%" PRId64, channels);
    return text;
}

static bool has_window(sw_vertex_kind kind)
{
    return kind == SW_VERTEX_CONV2D || kind == SW_VERTEX_MAX_POOL || kind == SW_VERTEX_AVG_POOL;
}

const char *evolve_vertex_text(const sw_vertex *v, char *text, size_t bytes)
{
    const bool window = has_window(v->kind), conv = v->kind == SW_VERTEX_CONV2D;
    char part[5][40] = {""};
    if (window)
        snprintf(part[0], sizeof part[0], " %d x %d", v->kernel, v->kernel);
    if (window && v->stride != 1)
        snprintf(part[1], sizeof part[1], ", stride %d", v->stride);
    if (conv && v->dilation > 1)
        snprintf(part[2], sizeof part[2], ", dilation %d", v->dilation);
    if (conv && v->groups != 1)
        snprintf(part[3], sizeof part[3], v->groups == 0 ? ", depthwise" : ", groups %d",
                 v->groups);
    if (v->kind == SW_VERTEX_DROPOUT)
        snprintf(part[4], sizeof part[4], " %g", (double)v->rate);
    else if (v->activation != NULL)
        snprintf(part[4], sizeof part[4], "%s%.30s",
                 v->kind == SW_VERTEX_ACTIVATION ? " " : ", ", v->activation);
    const char *kind = sw_vertex_kind_name(v->kind);
    snprintf(text, bytes, "%s%s%s%s%s%s", kind != NULL ? kind : "?", part[0], part[1], part[2],
             part[3], part[4]);
    return text;
}

/* By which boxes are coloured. */
static const char *class_of(sw_vertex_kind kind)
{
    switch (kind) {
    case SW_VERTEX_LINEAR:
    case SW_VERTEX_CONV2D:
        return "v-weights";
    case SW_VERTEX_BATCH_NORM:
        return "v-norm";
    case SW_VERTEX_MAX_POOL:
    case SW_VERTEX_AVG_POOL:
    case SW_VERTEX_GLOBAL_MAX_POOL:
    case SW_VERTEX_GLOBAL_AVG_POOL:
    case SW_VERTEX_FLATTEN:
        return "v-pool";
    case SW_VERTEX_ADD:
    case SW_VERTEX_CONCAT:
        return "v-join";
    case SW_VERTEX_INPUT:
    case SW_VERTEX_ACTIVATION:
    case SW_VERTEX_DROPOUT:
        break;
    }
    return "v-plain";
}

/* ---- the frame --------------------------------------------------------------------------- */

static void style(svg *to)
{
    svg_print(to,
              "<style>\n"
              ".g-paper{fill:#fff}.g-text{fill:#1b1f24}.g-big{fill:#1b1f24;font-size:17px}"
              ".g-name{fill:#1b1f24;font-weight:bold}.g-small{fill:#4b535c;font-size:11px}\n"
              ".g-edge{fill:none;stroke:#6d757e;stroke-width:1.3}"
              ".g-tip{fill:#6d757e}.g-box{stroke:#6d757e;stroke-width:1}\n");
    svg_print(to, ".v-weights{fill:#d5e6f7}.v-norm{fill:#e6e0f5}.v-pool{fill:#fbe6cd}"
                  ".v-join{fill:#d6efdb}.v-plain{fill:#eef0f2}\n"
                  "@media (prefers-color-scheme:dark){.g-paper{fill:#14181d}"
                  ".g-text,.g-big,.g-name{fill:#e4e8ec}.g-small{fill:#aab2ba}");
    svg_print(to, ".v-weights{fill:#1f3a56}.v-norm{fill:#3a3157}.v-pool{fill:#553c1c}"
                  ".v-join{fill:#1f4a2b}.v-plain{fill:#2a3037}}\n</style>\n");
}

static void head(const drawing *d)
{
    const sw_genome_info *g = &d->info;
    svg_print(d->to, "<rect class=\"g-paper\" width=\"100%%\" height=\"100%%\"/>\n");
    const bool named = *g->name != '\0';
    if (named) {
        svg_open_text(d->to, "g-big", 2000, 2600);
        svg_escaped(d->to, g->name);
        svg_print(d->to, "</text>\n");
    }
    svg_open_text(d->to, "g-small", 2000, named ? 4600 : 3400);
    svg_print(d->to, "%u vertices, %u edges, %s parameters; ", g->n_vertices, g->n_edges,
              cli_digits(g->parameters).text);
    svg_escaped(d->to, g->optimizer);
    svg_print(d->to, ", rate %.4g, batch %" PRId64 "</text>\n", (double)g->lr, g->batch);
}

/* ---- boxes and edges --------------------------------------------------------------------- */

static int left_of(const drawing *d, uint32_t v)
{
    return (int)middle_of(d, v) - BOX_W / 2;
}

static int top_of(const drawing *d, uint32_t node)
{
    return HEAD + (int)d->at.nodes[node].layer * ROW;
}

static void line_of_text(const drawing *d, const char *class, uint32_t v, int down,
                         const char *text)
{
    svg_open_text(d->to, class, 100 * (left_of(d, v) + 9), 100 * (top_of(d, v) + down));
    svg_escaped(d->to, text);
    svg_print(d->to, "</text>\n");
}

/* At most so many letters, so that it stays in its box. */
static const char *cut(char *text, size_t letters)
{
    for (size_t i = 0; text[i] != '\0'; i++)
        if (i == letters) {
            text[i - 1] = text[i - 2] = '.';
            text[i] = '\0';
            break;
        }
    return text;
}

static void box(const drawing *d, uint32_t i, const sw_vertex *v)
{
    char what[200], shape[80], line[200], name[64];
    evolve_vertex_text(v, what, sizeof what);
    evolve_shape_text(v->channels, v->height, v->width, shape, sizeof shape);
    snprintf(name, sizeof name, "%s", v->name);
    snprintf(line, sizeof line, "%s", shape);
    if (v->parameters > 0)
        snprintf(line, sizeof line, "%s, %s parameters", shape, cli_digits(v->parameters).text);
    svg_print(d->to, "<g class=\"vertex\"><title>");
    svg_escaped(d->to, v->name);
    svg_print(d->to, ": %s, %s</title>\n", what, line);
    svg_print(d->to,
              "<rect class=\"g-box %s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
              "rx=\"6\"/>\n",
              class_of(v->kind), left_of(d, i), top_of(d, i), BOX_W, BOX_H);
    line_of_text(d, "g-name", i, 18, cut(name, 24));
    line_of_text(d, "g-small", i, 34, cut(what, 34));
    line_of_text(d, "g-small", i, 49, cut(line, 34));
    svg_print(d->to, "</g>\n");
}

/* From the bottom of `from` by its passes to the top of `to`. */
static void edge(const drawing *d, uint32_t from, uint32_t to, const char *title)
{
    long x = middle_of(d, from), y = top_of(d, from) + BOX_H;
    svg_print(d->to, "<path class=\"g-edge\" d=\"M%ld %ld", x, y);
    const uint32_t end = d->at.nodes[to].layer;
    for (uint32_t k = d->at.nodes[from].layer + 1; k <= end; k++) {
        const uint32_t node = k < end ? layout_pass(&d->at, from, k) : to;
        if (node == from) /* no place to pass: straight on */
            continue;
        const long at = middle_of(d, node), top = top_of(d, node);
        const long half = (y + top) / 2;
        svg_print(d->to, "C%ld %ld %ld %ld %ld %ld", x, half, at, half, at, top);
        x = at;
        y = top;
        if (node != to)
            svg_print(d->to, "V%ld", y += BOX_H);
    }
    svg_print(d->to, "\"><title>%s</title></path>\n", title);
    svg_print(d->to, "<path class=\"g-tip\" d=\"M%ld %ldl-4 -7h8z\"/>\n", x, y);
}

static sw_status edges_of(const drawing *d, uint32_t i)
{
    sw_vertex v = SW_OPTS(sw_vertex), from = SW_OPTS(sw_vertex);
    char title[160];
    SW_TRY(sw_genome_vertex(d->genome, i, &v));
    for (int k = 0; k < v.n_inputs; k++) {
        SW_TRY(sw_genome_vertex(d->genome, v.inputs[k], &from));
        snprintf(title, sizeof title, "%.60s to %.60s", from.name, v.name);
        edge(d, v.inputs[k], i, title);
    }
    return SW_OK;
}

/* ---- the picture ------------------------------------------------------------------------- */

static sw_status draw(drawing *d, bool alone)
{
    const int width = d->at.width > 420 ? d->at.width : 420;
    d->shift = (width - d->at.width) / 2;
    svg_open(d->to, width, HEAD + (int)d->at.n_layers * ROW - RISE + FOOT, alone);
    style(d->to);
    head(d);
    for (uint32_t i = 0; i < d->info.n_vertices; i++)
        SW_TRY(edges_of(d, i));
    for (uint32_t i = 0; i < d->info.n_vertices; i++) {
        sw_vertex v = SW_OPTS(sw_vertex);
        SW_TRY(sw_genome_vertex(d->genome, i, &v));
        box(d, i, &v);
    }
    svg_print(d->to, "</svg>\n");
    return d->to->status;
}

static sw_status read_edges(const drawing *d, layout_edge *edges)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->info.n_vertices; i++) {
        sw_vertex v = SW_OPTS(sw_vertex);
        SW_TRY(sw_genome_vertex(d->genome, i, &v));
        for (int k = 0; k < v.n_inputs; k++)
            edges[n++] = (layout_edge){v.inputs[k], i};
    }
    return SW_OK;
}

sw_status evolve_graph_draw(const sw_genome *genome, svg *to, bool alone)
{
    drawing d = {.genome = genome, .info = {.size = sizeof d.info}, .to = to};
    void *edges;
    SW_TRY(sw_genome_describe(genome, &d.info));
    const size_t bytes = (size_t)d.info.n_edges * sizeof(layout_edge);
    SW_TRY(sw_heap_alloc(&edges, SW_HEAP_RECORDS, bytes));
    sw_status status = read_edges(&d, edges);
    if (status == SW_OK)
        status = layout_make(&d.at, d.info.n_vertices, edges, d.info.n_edges, BOX_W);
    sw_heap_free(edges, SW_HEAP_RECORDS, bytes);
    if (status == SW_OK)
        status = draw(&d, alone);
    layout_free(&d.at);
    return status;
}

sw_status evolve_graph_save(const sw_genome *genome, const char *path)
{
    svg to = {.status = SW_OK};
    sw_status status = evolve_graph_draw(genome, &to, true);
    if (status == SW_OK)
        status = svg_save(&to, path);
    svg_free(&to);
    return status;
}
