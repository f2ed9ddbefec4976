/* Two turns member by member: who changed shape, bytes, values and score. */
#include "profiler/inspect/population/population_pair.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- one member -------------------------------------------------------------------------- */

static const population_member *member_at(const population_pair_view *v, int side, size_t i)
{
    const population_turn *t = v->pair->turn[side];
    return i < t->n ? &t->at[i] : NULL;
}

static const char *shape_of(const population_pair_view *v, int side, const population_member *m)
{
    return m != NULL ? v->pair->of[side]->shapes[m->shape].name : NULL;
}

/* Of side 1 less side 0, or the other way about. */
static double difference(const population_pair_view *v, double a, double b)
{
    return v->pair->newer == 1 ? b - a : a - b;
}

/* The place of a hyper-parameter of one side among those of the other; -1: it has none. */
static int64_t find_name(const population *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_names; i++)
        if (strcmp(p->names[i], name) == 0)
            return i;
    return -1;
}

static double value_of(const population_pair_view *v, int side, size_t i, const char *name)
{
    const int64_t k = find_name(v->pair->of[side], name);
    return k < 0 ? (double)NAN
                 : population_values(v->pair->of[side], v->pair->turn[side], (uint32_t)i)[k];
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static size_t note_value(char *to, size_t bytes, const char *between, const char *name,
                         double a, double b)
{
    char text[2][32];
    snprintf(text[0], sizeof text[0], "%.5g", a);
    snprintf(text[1], sizeof text[1], "%.5g", b);
    return (size_t)snprintf(to, bytes, "%s%.40s %s to %s", between, name,
                            isnan(a) ? "none" : text[0], isnan(b) ? "none" : text[1]);
}

/* "lr 0.01 to 0.012, batch 64 to 32"; a side that lacks the member has no values. */
static const char *values_note(population_pair_view *v, size_t i)
{
    const population *p = v->pair->of[1];
    size_t used = 0;
    v->note[0] = '\0';
    if (member_at(v, 0, i) == NULL || member_at(v, 1, i) == NULL)
        return v->note;
    for (uint32_t k = 0; k < p->n_names && used < sizeof v->note; k++) {
        const double a = value_of(v, 0, i, p->names[k]), b = value_of(v, 1, i, p->names[k]);
        if (!same(a, b))
            used += note_value(v->note + used, sizeof v->note - used, used > 0 ? ", " : "",
                               p->names[k], a, b);
    }
    return v->note;
}

static uint64_t bytes_of(const population_member *m)
{
    return m != NULL ? m->range_bytes + m->waiting_bytes + m->kept_bytes : 0;
}

/* ---- table ------------------------------------------------------------------------------- */

static const table_column columns[] = {{"member", "member", TABLE_COUNT, 6},
                                       {"score_a", "score A", TABLE_REAL, 9},
                                       {"score_b", "score B", TABLE_REAL, 9},
                                       {"score_difference", "change", TABLE_REAL, 11},
                                       {"range_bytes_a", "range A", TABLE_BYTES, 11},
                                       {"range_bytes_b", "range B", TABLE_BYTES, 11},
                                       {"range_difference_bytes", "change", TABLE_CHANGE, 12},
                                       {"all_bytes_a", NULL, TABLE_BYTES, 0},
                                       {"all_bytes_b", NULL, TABLE_BYTES, 0},
                                       {"place_a", NULL, TABLE_TEXT, 0},
                                       {"place_b", NULL, TABLE_TEXT, 0},
                                       {"donor_b", "donor", TABLE_COUNT, 6},
                                       {"origin", "from", TABLE_COUNT, 6},
                                       {"shape_a", NULL, TABLE_TEXT, 0},
                                       {"shape_b", NULL, TABLE_TEXT, 0},
                                       {"shape", "shape", TABLE_TEXT, 64},
                                       {"changed_values", "values", TABLE_TEXT, 70}};

static table_cell score_cell(const population_member *m)
{
    return (table_cell){.share = m != NULL ? m->score : 0.0,
                        .none = m == NULL || isnan(m->score)};
}

static table_cell range_cell(const population_member *m)
{
    return (table_cell){.n = m != NULL ? m->range_bytes : 0, .none = m == NULL};
}

static const char *shapes_note(population_pair_view *v, const char *a, const char *b)
{
    if (a != NULL && b != NULL && strcmp(a, b) == 0)
        return "the same";
    snprintf(v->shapes, sizeof v->shapes, "%.44s to %.44s", a != NULL ? a : "none",
             b != NULL ? b : "none");
    return v->shapes;
}

static void row(const void *context, size_t i, table_cell *c)
{
    population_pair_view *v =
        (population_pair_view *)(uintptr_t)context; /* has the room for the row's text */
    const population_member *a = member_at(v, 0, i), *b = member_at(v, 1, i);
    const bool scores = a != NULL && b != NULL && !isnan(a->score) && !isnan(b->score);
    *c++ = (table_cell){.n = i};
    *c++ = score_cell(a);
    *c++ = score_cell(b);
    *c++ = (table_cell){.share = scores ? difference(v, a->score, b->score) : 0.0,
                        .none = !scores};
    *c++ = range_cell(a);
    *c++ = range_cell(b);
    *c++ = (table_cell){.share = difference(v, a != NULL ? (double)a->range_bytes : 0.0,
                                            b != NULL ? (double)b->range_bytes : 0.0)};
    *c++ = (table_cell){.n = bytes_of(a)};
    *c++ = (table_cell){.n = bytes_of(b)};
    *c++ = (table_cell){.text = a != NULL ? a->place : NULL};
    *c++ = (table_cell){.text = b != NULL ? b->place : NULL};
    *c++ = (table_cell){.n = b != NULL ? (uint64_t)b->donor : 0,
                        .none = b == NULL || b->donor < 0};
    const uint32_t *origin = v->pair->origin;
    *c++ = (table_cell){.n = origin != NULL ? origin[i] : 0, .none = origin == NULL};
    *c++ = (table_cell){.text = shape_of(v, 0, a)};
    *c++ = (table_cell){.text = shape_of(v, 1, b)};
    *c++ = (table_cell){.text = shapes_note(v, shape_of(v, 0, a), shape_of(v, 1, b))};
    *c++ =
        (table_cell){.text = values_note(v, i), .shown = *v->note != '\0' ? NULL : "the same"};
}

table population_pair_table(population_pair_view *v)
{
    return (table){.columns = columns,
                   .n_columns = (int)(sizeof columns / sizeof *columns),
                   .n = v->n,
                   .row = row,
                   .context = v};
}

void population_pair_counts(population_pair_view *v, uint32_t *shapes, uint32_t *values)
{
    *shapes = *values = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        const population_member *a = member_at(v, 0, i), *b = member_at(v, 1, i);
        if (a == NULL || b == NULL)
            continue;
        *shapes += strcmp(shape_of(v, 0, a), shape_of(v, 1, b)) != 0;
        *values += *values_note(v, i) != '\0';
    }
}
