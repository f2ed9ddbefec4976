/* The lines of a picture: of members, and of copies. */
#include "tools/population/pop_plot.h"
#include <math.h>

static void number(const pop_plot *d, long long hundredths)
{
    const long long tenths = (hundredths + 5) / 10;
    svg_print(d->to, "%lld.%lld", tenths / 10, tenths % 10);
}

static void point(const pop_plot *d, const char *before, double x, long long y)
{
    svg_print(d->to, "%s", before);
    number(d, svg_at(&d->x, x));
    svg_print(d->to, " ");
    number(d, y);
}

/* A line of one point is a dot: it goes to where it is. */
static void go_on(const pop_plot *d, bool *down, double step, double score)
{
    if (!isfinite(score)) {
        *down = false;
        return;
    }
    if (!*down)
        point(d, "M", step, svg_at(&d->y, score));
    point(d, *down ? " " : "L", step, svg_at(&d->y, score));
    *down = true;
}

/* After a copy it begins anew, at the donor's place. */
static void score_line(const pop_plot *d, int k)
{
    bool down = false;
    for (uint32_t i = 0; i < d->p->history[k].n; i++) {
        const double *row = pop_history_row(d->p, k, i);
        go_on(d, &down, row[POP_ROW_STEP], row[POP_ROW_SCORE]);
        down = down && row[POP_ROW_DONOR] < 0.0;
        if (row[POP_ROW_DONOR] >= 0.0)
            go_on(d, &down, row[POP_ROW_DONOR_STEP], row[POP_ROW_DONOR_SCORE]);
    }
}

/* Where the value of the panel lies that a member has after its i-th row. */
static long long value_at(const pop_plot *d, int k, uint32_t i)
{
    double values[POP_HYPERS] = {0};
    if (i < d->p->history[k].n)
        values[d->hyper] = pop_history_row(d->p, k, i)[POP_ROW_VALUES + d->hyper];
    else if (pop_values(d->p, k, values) != SW_OK)
        return svg_at(&d->y, d->y.low);
    const double v = values[d->hyper];
    int level = 0;
    if (d->is.kind != SW_CHOICE)
        return svg_at(&d->y, v);
    while (level + 1 < d->is.n_choices && d->is.choices[level] != v)
        level++;
    return svg_at(&d->y, level);
}

/* A value stays from turn to turn, until the member copies a donor. */
static void value_line(const pop_plot *d, int k)
{
    const uint32_t n = d->p->history[k].n;
    double from = 0.0, to = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        const double *row = pop_history_row(d->p, k, i);
        const long long y = value_at(d, k, i);
        const bool copied = row[POP_ROW_DONOR] >= 0.0;
        to = row[POP_ROW_STEP];
        if (!copied && i + 1 < n && value_at(d, k, i + 1) == y)
            continue;
        point(d, "M", from, y);
        svg_print(d->to, "H");
        number(d, svg_at(&d->x, to));
        from = copied ? row[POP_ROW_DONOR_STEP] : to;
    }
}

static void member_line(const pop_plot *d, int k, const char *class)
{
    if (d->p->history[k].n == 0)
        return;
    svg_print(d->to, "<path class=\"m %s\" d=\"", class);
    if (d->hyper < 0)
        score_line(d, k);
    else
        value_line(d, k);
    svg_print(d->to, "\"><title>member %d</title></path>\n", k);
}

/* Where the line of a member is on both sides of a copy. False: it has no place there. */
static bool copy_at(const pop_plot *d, int k, uint32_t i, long long *before, long long *behind)
{
    const double *row = pop_history_row(d->p, k, i);
    if (row[POP_ROW_DONOR] < 0.0)
        return false;
    if (d->hyper >= 0) {
        *before = value_at(d, k, i);
        *behind = value_at(d, k, i + 1);
        return true;
    }
    if (!isfinite(row[POP_ROW_DONOR_SCORE]))
        return false;
    *behind = svg_at(&d->y, row[POP_ROW_DONOR_SCORE]);
    *before = isfinite(row[POP_ROW_SCORE]) ? svg_at(&d->y, row[POP_ROW_SCORE]) : *behind;
    return true;
}

/* Copies: dots at the donor's score, or at the member's new value; and thin lines that lead
 * there, which are left out where there are too many to be seen. */
static void copies(const pop_plot *d, bool dots)
{
    const char *small = d->p->n_members > POP_SHADES ? " small" : "";
    svg_print(d->to, "<path class=\"%s%s\" d=\"", dots ? "jump" : "leap", small);
    for (int k = 0; k < d->p->n_members; k++)
        for (uint32_t i = 0; i < d->p->history[k].n; i++) {
            const double *row = pop_history_row(d->p, k, i);
            long long before, behind;
            if (!copy_at(d, k, i, &before, &behind))
                continue;
            if (!dots)
                point(d, "M", row[POP_ROW_STEP], before);
            point(d, dots ? "M" : "L", row[POP_ROW_DONOR_STEP], behind);
            if (dots)
                svg_print(d->to, "h0");
        }
    svg_print(d->to, "\"/>\n");
}

void pop_plot_lines(const pop_plot *d)
{
    for (int k = 0; k < d->p->n_members; k++) {
        char class[16];
        snprintf(class, sizeof class, d->p->n_members > POP_SHADES ? "shade" : "c%d",
                 k % POP_COLOURS);
        if (k != d->best)
            member_line(d, k, class);
    }
    if (d->best >= 0)
        member_line(d, d->best, "best");
    if (d->p->n_members <= POP_SHADES)
        copies(d, false);
    copies(d, true);
}
