/* A genome's graph as a picture. */
#ifndef STEPWELL_EVOLVE_GRAPH_H
#define STEPWELL_EVOLVE_GRAPH_H

#include "tools/cli/svg.h"

/* A box for each vertex, a line for each edge; alone: a file of its own. The same genome gives
 * the same bytes. A failure is in to->status too. */
SW_MUST_USE sw_status evolve_graph_draw(const sw_genome *genome, svg *to, bool alone);
/* The picture as the file `path`. */
SW_MUST_USE sw_status evolve_graph_save(const sw_genome *genome, const char *path);
/* "conv2d 3 x 3, stride 2": what a vertex is, without its name; returns `text`. */
const char *evolve_vertex_text(const sw_vertex *v, char *text, size_t bytes);
/* "16 x 14 x 14", or "10". */
const char *evolve_shape_text(int64_t channels, int64_t height, int64_t width, char *text,
                              size_t bytes);

#endif
