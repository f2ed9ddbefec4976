/* Two turns compared: what they take in sum, and member by member. */
#include "profiler/inspect/population/population_pair.h"
#include <inttypes.h>
#include <stdio.h>

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

static void put_totals(sw_json *j, const population_pair *x)
{
    total sums[TOTALS];
    totals_of(x, sums);
    sw_json_open(j, "totals", '[');
    for (int k = 0; k < TOTALS; k++) {
        sw_json_begin(j, '{');
        sw_json_put_string(j, "name", sums[k].name);
        sw_json_put_u64(j, "a", sums[k].bytes[0]);
        sw_json_put_u64(j, "b", sums[k].bytes[1]);
        sw_json_put_i64(j, "difference", total_difference(x, &sums[k]));
        sw_json_end(j);
    }
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
    put_totals(&j, v->pair);
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
    const table t = population_pair_table(&v);
    if (format == POPULATION_JSON)
        return print_json(&v, &t, more, style);
    if (format == POPULATION_CSV)
        table_print_csv(style, &t);
    else
        print_text(&v, &t, style);
    return SW_OK;
}
