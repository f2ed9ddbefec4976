/* A genome's graph as DOT text, which Graphviz draws (`dot -Tsvg best.dot`): a box for each
 * vertex with its name, kind, sizes and parameters, and a line for each edge. */
#include "tools/evolve/evolve.h"
#include <inttypes.h>

static const char *color_of(sw_vertex_kind kind)
{
    switch (kind) {
    case SW_VERTEX_LINEAR:
    case SW_VERTEX_CONV2D:
        return "#d5e6f7";
    case SW_VERTEX_BATCH_NORM:
        return "#e6e0f5";
    case SW_VERTEX_MAX_POOL:
    case SW_VERTEX_AVG_POOL:
    case SW_VERTEX_GLOBAL_MAX_POOL:
    case SW_VERTEX_GLOBAL_AVG_POOL:
    case SW_VERTEX_FLATTEN:
        return "#fbe6cd";
    case SW_VERTEX_ADD:
    case SW_VERTEX_CONCAT:
        return "#d6efdb";
    case SW_VERTEX_INPUT:
    case SW_VERTEX_ACTIVATION:
    case SW_VERTEX_DROPOUT:
        break;
    }
    return "#eef0f2";
}

sw_status evolve_graph_put(const sw_genome *genome, svg *to)
{
    sw_genome_info g = SW_OPTS(sw_genome_info);
    SW_TRY(sw_genome_describe(genome, &g));
    svg_print(to, "digraph genome {\n"
                  "  node [shape=box, style=\"rounded,filled\", fontname=sans]\n"
                  "  label=\"");
    svg_print(to, "%s\\n%u vertices, %u edges, %s parameters; ", g.name, g.n_vertices,
              g.n_edges, cli_digits(g.parameters).text);
    svg_print(to, "%s, rate %.4g, batch %" PRId64 "\"\n", g.optimizer, (double)g.lr, g.batch);
    for (uint32_t i = 0; i < g.n_vertices; i++) {
        sw_vertex v = SW_OPTS(sw_vertex);
        SW_TRY(sw_genome_vertex(genome, i, &v));
        svg_print(to, "  v%u [fillcolor=\"%s\", label=\"%s\\n", i, color_of(v.kind), v.name);
        /* "conv2d 3 x 3, stride 2\n16 x 14 x 14, 4,640 parameters" */
        const bool conv = v.kind == SW_VERTEX_CONV2D;
        svg_print(to, "%s", sw_vertex_kind_name(v.kind));
        if (conv || v.kind == SW_VERTEX_MAX_POOL || v.kind == SW_VERTEX_AVG_POOL) {
            svg_print(to, " %d x %d", v.kernel, v.kernel);
            if (v.stride != 1)
                svg_print(to, ", stride %d", v.stride);
        }
        if (conv && v.dilation > 1)
            svg_print(to, ", dilation %d", v.dilation);
        if (conv && v.groups != 1)
            svg_print(to, v.groups == 0 ? ", depthwise" : ", groups %d", v.groups);
        if (v.kind == SW_VERTEX_DROPOUT)
            svg_print(to, " %g", (double)v.rate);
        else if (v.activation != NULL)
            svg_print(to, "%s%s", v.kind == SW_VERTEX_ACTIVATION ? " " : ", ", v.activation);
        svg_print(to, "\\n%" PRId64, v.channels);
        if (v.height > 0)
            svg_print(to, " x %" PRId64 " x %" PRId64, v.height, v.width);
        if (v.parameters > 0)
            svg_print(to, ", %s parameters", cli_digits(v.parameters).text);
        svg_print(to, "\"]\n");
        for (int k = 0; k < v.n_inputs; k++)
            svg_print(to, "  v%u -> v%u\n", v.inputs[k], i);
    }
    svg_print(to, "}\n");
    return to->status;
}

sw_status evolve_graph_save(const sw_genome *genome, const char *path)
{
    svg to = {.status = SW_OK};
    sw_status status = evolve_graph_put(genome, &to);
    if (status == SW_OK)
        status = svg_save(&to, path);
    svg_free(&to);
    return status;
}
