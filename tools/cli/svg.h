/* Pictures as text: what grows on the heap until it is whole, and axes with ticks at round
 * numbers. A picture needs no other file and no script, and follows the viewer's light or dark
 * setting. */
#pragma once

#include "tools/cli/cli.h"

typedef struct {
    char *bytes; /* on the heap: the file is opened when the picture is whole */
    size_t used, capacity;
    sw_status status; /* the first error; nothing is added after it */
} svg;

void svg_put(svg *to, const char *text, size_t n);
/* At most 511 bytes; the rest is cut. */
void svg_print(svg *to, const char *format, ...) SW_PRINTF(2, 3);
/* As text of an element. A byte that is no printable ASCII might be no UTF-8 either. */
void svg_escaped(svg *to, const char *text);
/* The root element, of so many pixels. Alone in a file it has a declaration in front. */
void svg_open(svg *to, int width, int height, bool alone);
void svg_paper(svg *to); /* the background, of class "paper" */
/* Colours of paper, text ("text"; "axis" ends and "mark" stands in the middle at its place) and
 * grid, and `classes`; `dark` are those that a dark setting has others of. Then the paper. */
void svg_style(svg *to, const char *classes, const char *dark);
/* Lengths are hundredths of a pixel. */
void svg_length(svg *to, const char *name, long long hundredths);
void svg_grid_line(svg *to, long long x1, long long y1, long long x2, long long y2);
void svg_open_text(svg *to, const char *class, long long x, long long y);
/* Replace the file at `path` by the text. */
SW_MUST_USE sw_status svg_save(const svg *s, const char *path);
void svg_free(svg *s);

/* Values from low to high lie on a line of `length` pixels that begins at `from`; a length
 * below 0 goes upward. */
typedef struct {
    double low, high; /* finite; of a logarithmic one above 0 */
    bool log, whole;  /* whole: no tick between whole numbers */
    int from, length;
} svg_axis;

/* An axis whose ends differ: where they do not, both are moved. */
svg_axis svg_axis_of(double low, double high, bool log, int from, int length);
long long svg_at(const svg_axis *axis, double value); /* hundredths; at an end where beyond */

#define SVG_TICKS 32
typedef struct {
    double value;
    char text[24];
} svg_tick;
/* Round numbers within the axis, about `about` of them (2 to 16), ascending. Returns how
 * many. */
int svg_ticks(const svg_axis *axis, int about, svg_tick *out);
/* Let a finite value be between both. */
void svg_widen(double *low, double *high, double value);

/* A plot, in pixels. */
typedef struct {
    int left, top, width, height;
    svg_axis x, y;
} svg_plot;
/* Lines down at about so many round numbers of x, which stand below; 0: none. */
void svg_grid_down(svg *to, const svg_plot *plot, int about);
/* The same across, of y, which stand on the left. */
void svg_grid_across(svg *to, const svg_plot *plot, int about);

/* A page of pictures and tables without a script, up to the begin of its body. */
void svg_page(svg *to, const char *title);
/* Cells of a table: text; a number by its column, "none" for NaN. */
void svg_cell(svg *to, const char *text);
void svg_cell_real(svg *to, const cli_column *column, double value);
