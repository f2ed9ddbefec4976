/* Shared by the files of --plot. */
#ifndef STEPWELL_POP_PLOT_H
#define STEPWELL_POP_PLOT_H

#include "tools/population/population.h"

#define POP_SHADES 64  /* members beyond which lines are shades of one colour */
#define POP_COLOURS 12 /* of lines, which members take in turn */

typedef struct {
    const pop *p;
    svg *to;
    svg_axis x, y;
    int hyper; /* of the panel; -1: scores */
    sw_hyper is;
    int best, top, height;
} pop_plot;

/* pop_lines.c: all members in one panel, the best in front, then copies. */
void pop_plot_lines(const pop_plot *d);

#endif
