/* A population as text. */
#include "profiler/inspect/population/population_view.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_HOLDERS 10
#define SHOWN_MEMBERS 50

static const char *const kind_words[POPULATION_KINDS] = {"parameters", "optimizer state",
                                                         "buffers", "knobs"};

void population_head_text(const population *p, const report_style *style)
{
    const sw_timeline *t = p->timeline;
    const sw_writer *to = style->to;
    sw_writer_say(to, 0, 2,
                  "%" PRIu64 " members of %s on %s, batch %" PRId64 ", seed %" PRIu64
                  "%s%s%s%s",
                  p->members, *t->model != '\0' ? t->model : "a model",
                  *t->device != '\0' ? t->device : "cpu", t->batch, t->seed,
                  *t->data != '\0' ? ", data " : "", t->data,
                  *t->scores != '\0' ? ", scores: " : "", t->scores);
    sw_writer_print(to, "%s turns%s", sw_text_digits(p->seen_turns).text,
                    p->ended ? "" : " so far: the file has no end");
    if (p->ended)
        sw_writer_print(to, " in %s", sw_text_ns(p->wall_ns).text);
    if (p->ended && strcmp(p->status, "done") != 0)
        sw_writer_print(to, "; the run was %s", p->status);
    sw_writer_print(to, ", begun %s\n", t->created);
    if (p->cut_members > 0 && !style->quiet)
        sw_writer_say(to, 0, 2,
                      "the turn after that lacks its end: %" PRIu32
                      " records of members are left out",
                      p->cut_members);
}

void population_print_parts(const population_shape *s, const report_style *style)
{
    sw_writer_print(style->to, "  %-24s %-18s %15s\n", "layer", "role", "bytes");
    for (uint32_t i = 0; i < s->parts.n; i++) {
        const population_part *x = &s->parts.at[i];
        sw_writer_print(style->to, "  ");
        const char *layer = *x->layer != '\0' ? x->layer : "(no layer)";
        int left = sw_writer_fitted(style->to, layer, strlen(layer), 24);
        sw_writer_print(style->to, "%*s %-18s %15s\n", left, "", x->role,
                        sw_text_digits(x->bytes).text);
    }
}

void population_print_step(const population_step *s, const sw_tl_program *p,
                           const report_style *style)
{
    const sw_writer *to = style->to;
    sw_writer_print(to, "  its step takes %s at most, by phase (%s, batch %" PRId64 "):\n   ",
                    table_bytes(s->peak, style).text, p->run, p->batch);
    for (int i = 0; i < SW_PROF_PHASES; i++)
        if (s->phase[i] > 0)
            sw_writer_print(to, " %s %s", sw_prof_phase_name(i),
                            table_bytes(s->phase[i], style).text);
    sw_writer_print(to, "\n");
    if (s->peak_op < p->n_ops)
        sw_writer_say(to, 2, 4, "at its highest, while %s runs, it is held by",
                      p->ops[s->peak_op].name);
    for (uint32_t i = 0; i < s->holders.n && i < SHOWN_HOLDERS; i++) {
        const population_part *x = &s->holders.at[i];
        const char *layer = *x->layer != '\0' ? x->layer : "(no layer)";
        sw_writer_print(to, "  ");
        int left = sw_writer_fitted(to, layer, strlen(layer), 24);
        sw_writer_print(to, "%*s %-18s %15s\n", left, "", x->role,
                        sw_text_digits(x->bytes).text);
    }
    if (s->holders.n > SHOWN_HOLDERS)
        sw_writer_print(to, "  and %" PRIu32 " more\n", s->holders.n - SHOWN_HOLDERS);
}

/* The shape with the highest step in full: it decides the lanes. */
static void print_shapes(const population_view *v)
{
    const table t = population_shape_table(v);
    uint32_t highest = 0;
    report_headline(v->style, "Shapes");
    table_print(&t, t.n, v->style);
    for (uint32_t i = 1; i < v->n_shapes; i++)
        if (v->step[i].peak > v->step[highest].peak)
            highest = i;
    if (v->n_shapes == 0)
        return;
    const population_shape *s = &v->p->shapes[v->shape[highest]];
    sw_writer_print(v->style->to, "\n");
    sw_writer_say(v->style->to, 0, 2, "A member of %s%s", s->name,
                  v->n_shapes > 1 ? ", whose step is the highest" : "");
    population_print_parts(s, v->style);
    if (population_program(v, s) != NULL)
        population_print_step(&v->step[highest], population_program(v, s), v->style);
}

static uint64_t sum_of(const population_view *v, const char *kind, int group)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < v->rows.n; i++) {
        const population_row *r = &v->rows.at[i];
        if (strcmp(r->kind, kind) == 0 &&
            (group < 0 || population_kind_of(r->role) == (population_kind)group))
            sum += r->bytes;
    }
    return sum;
}

static void print_line(const population_view *v, const char *what, uint64_t bytes)
{
    sw_writer_print(v->style->to, "  %-44s %15s\n", what, sw_text_digits(bytes).text);
}

/* Exact or not, the lines and their sum are those of one turn. */
static void print_budget(const population_view *v)
{
    const population_turn *t = v->turn;
    char text[80];
    uint64_t resident = 0;
    for (uint32_t i = 0; i < t->n; i++)
        resident += t->at[i].resident;
    report_headline(v->style, "Held by the budget");
    for (int k = 0; k < POPULATION_KINDS; k++) {
        snprintf(text, sizeof text, "%s of %" PRIu64 " resident members", kind_words[k],
                 resident);
        print_line(v, text, sum_of(v, "member", k));
    }
    print_line(v, "ranges that are free, for members that come in", sum_of(v, "free", -1));
    snprintf(text, sizeof text, "step arenas of %" PRIu64 " lanes", t->lanes);
    print_line(v, text, sum_of(v, "step arena", -1));
    snprintf(text, sizeof text, "batches of %" PRIu64 " lanes", t->lanes);
    print_line(v, text, sum_of(v, "batch", -1));
    print_line(v, "together", v->rows.sum);
    print_line(v, "measured", population_measured(t));
    print_line(v, "planned for this turn, at most", t->predicted_bytes);
    if (v->p->budget_bytes > 0)
        print_line(v, "budget", v->p->budget_bytes);
    print_line(v, "outside of the budget: waiting and kept", t->outside_bytes);
    if (v->p->peak_bytes > population_measured(t) && !v->style->quiet)
        sw_writer_say(v->style->to, 2, 4, "the most that was measured is %s, in turn %" PRIu64,
                      table_bytes(v->p->peak_bytes, v->style).text, v->p->peak_turn);
}

void population_print_text(const population_view *v)
{
    char head[80];
    population_head_text(v->p, v->style);
    if (v->turn == NULL) {
        sw_writer_text(v->style->to, "no turn has ended in this file\n");
        print_shapes(v);
        return;
    }
    const table t = population_member_table(v);
    snprintf(head, sizeof head, "Members in turn %" PRIu64 ", step %" PRIu64, v->turn->turn,
             v->turn->step);
    report_headline(v->style, head);
    table_print(&t, t.n < SHOWN_MEMBERS ? t.n : SHOWN_MEMBERS, v->style);
    if (t.n > SHOWN_MEMBERS && !v->style->quiet)
        sw_writer_say(v->style->to, 2, 4, "%zu members more: --json and --format csv have them",
                      t.n - SHOWN_MEMBERS);
    print_shapes(v);
    print_budget(v);
}
