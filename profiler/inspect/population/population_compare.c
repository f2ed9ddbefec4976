/* Two turns compared, member by member. */
#include "profiler/inspect/population/population_view.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- pairs ------------------------------------------------------------------------------- */

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

/* How many members that both turns have changed their shape, and their values. */
static void population_pair_counts(population_pair_view *v, uint32_t *shapes, uint32_t *values)
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

/* ---- two turns --------------------------------------------------------------------------- */

/* ---- sums -------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    uint64_t bytes[2];
} total;
enum { TOTALS = 7 };

/* The first four add up to the fifth. */
static void totals_of(const population_pair *x, total *t)
{
    static const char *const names[TOTALS] = {"members",  "free",    "step arenas", "batches",
                                              "measured", "planned", "outside"};
    for (int k = 0; k < TOTALS; k++)
        t[k].name = names[k];
    for (int s = 0; s < 2; s++) {
        const population_turn *u = x->turn[s];
        const uint64_t bytes[TOTALS] = {u->live_bytes,          u->range_bytes - u->live_bytes,
                                        u->step_bytes,          u->batch_bytes,
                                        population_measured(u), u->predicted_bytes,
                                        u->outside_bytes};
        for (int k = 0; k < TOTALS; k++)
            t[k].bytes[s] = bytes[k];
    }
}

static int64_t total_difference(const population_pair *x, const total *t)
{
    const int64_t more = (int64_t)(t->bytes[1] - t->bytes[0]);
    return x->newer == 1 ? more : -more;
}

/* ---- output ------------------------------------------------------------------------------ */

static void print_text(population_pair_view *v, const table *t, const report_style *style)
{
    const population_pair *x = v->pair;
    const sw_writer *to = style->to;
    total sums[TOTALS];
    uint32_t shapes, values;
    totals_of(x, sums);
    population_pair_counts(v, &shapes, &values);
    for (int s = 0; s < 2; s++)
        sw_writer_say(to, 0, 2, "%c: turn %" PRIu64 ", step %" PRIu64 " of %s", 'A' + s,
                      x->turn[s]->turn, x->turn[s]->step, x->of[s]->shown);
    sw_writer_print(to, "\n  %-14s %17s %17s %18s\n", "bytes", "A", "B",
                    x->newer == 1 ? "B - A" : "A - B");
    for (int k = 0; k < TOTALS; k++) {
        const int64_t d = total_difference(x, &sums[k]);
        char text[48];
        snprintf(text, sizeof text, "%s%.40s",
                 d > 0   ? "+"
                 : d < 0 ? "-"
                         : "",
                 table_bytes((uint64_t)(d < 0 ? -d : d), style).text);
        sw_writer_print(to, "  %-14s %17s %17s %18s\n", sums[k].name,
                        table_bytes(sums[k].bytes[0], style).text,
                        table_bytes(sums[k].bytes[1], style).text, text);
    }
    sw_writer_print(to, "\n");
    sw_writer_say(to, 0, 2,
                  "of %" PRIu32 " members %" PRIu32 " changed shape and %" PRIu32 " values",
                  v->n, shapes, values);
    if (x->origin != NULL)
        sw_writer_say(to, 0, 2,
                      "%s copies were made between the turns; \"from\" is the member of the "
                      "earlier one that a member comes from",
                      sw_text_digits(x->copies).text);
    table_print(t, t->n, style);
}

static void put_side(sw_json *j, const char *key, const population_pair *x, int s)
{
    sw_json_open(j, key, '{');
    sw_json_put_string(j, "file", x->of[s]->shown);
    sw_json_put_u64(j, "turn", x->turn[s]->turn);
    sw_json_put_u64(j, "step", x->turn[s]->step);
    sw_json_end(j);
}

static void put_values(sw_json *j, const population_pair_view *v)
{
    static const char *const keys[] = {"a", "b"};
    sw_json_open(j, "values", '[');
    for (uint32_t i = 0; i < v->n; i++) {
        sw_json_begin(j, '{');
        sw_json_put_u64(j, "member", i);
        for (int s = 0; s < 2; s++)
            if (i < v->pair->turn[s]->n)
                population_put_values(j, keys[s], v->pair->of[s],
                                      population_values(v->pair->of[s], v->pair->turn[s], i));
            else
                sw_json_put_null(j, keys[s]);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static sw_status print_json(population_pair_view *v, const table *t, const report_tail *more,
                            const report_style *style)
{
    sw_json j;
    uint32_t shapes, values;
    population_pair_counts(v, &shapes, &values);
    sw_json_growing(&j, SW_HEAP_PROFILE);
    sw_json_begin(&j, '{');
    sw_json_put_string(&j, "kind", "population");
    put_side(&j, "a", v->pair, 0);
    put_side(&j, "b", v->pair, 1);
    sw_json_put_string(&j, "newer", v->pair->newer == 1 ? "b" : "a");
    total sums[TOTALS];
    totals_of(v->pair, sums);
    sw_json_open(&j, "totals", '[');
    for (int k = 0; k < TOTALS; k++) {
        sw_json_begin(&j, '{');
        sw_json_put_string(&j, "name", sums[k].name);
        sw_json_put_u64(&j, "a", sums[k].bytes[0]);
        sw_json_put_u64(&j, "b", sums[k].bytes[1]);
        sw_json_put_i64(&j, "difference", total_difference(v->pair, &sums[k]));
        sw_json_end(&j);
    }
    sw_json_end(&j);
    sw_json_put_u64(&j, "changed_shape", shapes);
    sw_json_put_u64(&j, "changed_values", values);
    sw_json_put_known(&j, "copies", v->pair->origin != NULL, v->pair->copies);
    table_put(&j, "members", t);
    put_values(&j, v);
    population_put_end(&j, v->pair->of[v->pair->newer], more);
    sw_json_end(&j);
    return report_print_object(&j, style);
}

sw_status population_compare(const population_pair *pair, population_format format,
                             const report_tail *more, const report_style *style)
{
    population_pair_view v = {.pair = pair};
    for (int s = 0; s < 2; s++)
        v.n = pair->turn[s]->n > v.n ? pair->turn[s]->n : v.n;
    /* A row for each member; `v` has the room for a row's text. */
    const table t = (table){.columns = columns,
                            .n_columns = (int)(sizeof columns / sizeof *columns),
                            .n = v.n,
                            .row = row,
                            .context = &v};
    if (format == POPULATION_JSON)
        return print_json(&v, &t, more, style);
    if (format == POPULATION_CSV)
        table_print_csv(style, &t);
    else
        print_text(&v, &t, style);
    return SW_OK;
}
