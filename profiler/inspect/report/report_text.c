/* The report for people, 80 columns wide whatever the numbers and names are. Top to bottom: the
 * run, its steps, predicted against measured, what is live at the peak, time, and what lies
 * outside the plan. */
#include "profiler/inspect/report/print.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- live bytes by role and layer -------------------------------------------------------- */

#define LAYERS 10
#define STEP_ROWS 6 /* from each end */

/* Of `shown` lines, the last takes what is left. */
static void print_share(report_breakdown x, size_t i, size_t shown, uint64_t all,
                        const report_style *style)
{
    char more[32];
    if (i >= shown) {
        sw_writer_print(style->to, "%39s", "");
        return;
    }
    report_share share = x.at[i];
    if (i + 1 == shown && x.n > shown) {
        snprintf(more, sizeof more, "%zu more", x.n - shown + 1);
        share.name = more;
        for (size_t k = shown; k < x.n; k++)
            share.bytes += x.at[k].bytes;
    }
    sw_writer_print(style->to, "  ");
    const int left = sw_writer_fitted(style->to, share.name, strlen(share.name), 15);
    sw_writer_print(style->to, "%*s%15s%6.1f%%", left, "",
                    table_cell_bytes(share.bytes, 15).text,
                    all > 0 ? 100.0 * (double)share.bytes / (double)all : 0.0);
}

/* Names of other tools' scopes are long: one table below the other. */
static void print_wide(report_breakdown x, const char *head, uint64_t all,
                       const report_style *style)
{
    const int width = sw_writer_columns(style->to) - 26;
    sw_writer_print(style->to, "  %15s%7s  %s\n", "bytes", "", head);
    for (size_t i = 0; i < x.n && i < LAYERS; i++) {
        const report_share *s = &x.at[i];
        sw_writer_print(style->to, "  %15s%6.1f%%  ", table_cell_bytes(s->bytes, 15).text,
                        all > 0 ? 100.0 * (double)s->bytes / (double)all : 0.0);
        (void)sw_writer_scopes(style->to, s->name, width);
        sw_writer_text(style->to, "\n");
    }
    if (x.n > LAYERS)
        sw_writer_print(style->to, "  %24s%zu more\n", "", x.n - LAYERS);
}

void report_print_breakdown(report_breakdown roles, report_breakdown layers, uint64_t all,
                            const report_style *style)
{
    const size_t shown = layers.n < LAYERS ? layers.n : LAYERS;
    for (size_t i = 0; i < shown; i++)
        if (strstr(layers.at[i].name, ".py:") != NULL) {
            print_wide(roles, "by role", all, style);
            print_wide(layers, "by layer", all, style);
            return;
        }
    sw_writer_print(style->to, "  %-15s%15s%7s  %-15s%15s\n", "by role", "bytes", "",
                    "by layer", "bytes");
    for (size_t i = 0; i < roles.n || i < shown; i++) {
        print_share(roles, i, roles.n, all, style);
        if (i < shown)
            print_share(layers, i, shown, all, style);
        sw_writer_text(style->to, "\n");
    }
}

void report_put_breakdown(sw_json *j, const char *key, report_breakdown x)
{
    sw_json_open(j, key, '{');
    for (size_t i = 0; i < x.n; i++)
        sw_json_put_u64(j, x.at[i].name, x.at[i].bytes);
    sw_json_end(j);
}

void report_print_steps(const report_style *style, const sw_tl_step *steps, uint32_t n,
                        bool passes)
{
    if (n == 0)
        return;
    report_headline(style, passes ? "Phases of each pass: the most that lived"
                                  : "Phases of each step: the most that lived");
    sw_writer_print(style->to, "  %4s", "");
    for (int phase = 0; phase < SW_PROF_PHASES; phase++)
        sw_writer_print(style->to, "%15s", sw_prof_phase_name(phase));
    sw_writer_text(style->to, "\n");
    for (uint32_t i = 0; i < n; i++) {
        if (n > 2 * STEP_ROWS && i == STEP_ROWS) {
            sw_writer_text(style->to, "   ...\n");
            i = n - STEP_ROWS;
        }
        sw_writer_print(style->to, "  %4u", i + 1);
        for (int phase = 0; phase < SW_PROF_PHASES; phase++)
            sw_writer_print(style->to, "%15s",
                            steps[i].peak[phase] > 0 ? sw_text_digits(steps[i].peak[phase]).text
                                                     : "-");
        sw_writer_text(style->to, "\n");
    }
}

void report_put_steps(sw_json *j, const sw_tl_step *steps, uint32_t n)
{
    sw_json_open(j, "step_phases", '[');
    for (uint32_t i = 0; i < n; i++) {
        sw_json_begin(j, '{');
        sw_json_put_u64(j, "from", steps[i].first);
        sw_json_put_u64(j, "to", steps[i].last);
        for (int phase = 0; phase < SW_PROF_PHASES; phase++) {
            char key[32];
            snprintf(key, sizeof key, "%s_peak_bytes", sw_prof_phase_name(phase));
            sw_json_put_known(j, key, steps[i].peak[phase] > 0, steps[i].peak[phase]);
        }
        sw_json_end(j);
    }
    sw_json_end(j);
}

/* ---- the report -------------------------------------------------------------------------- */

#define N SW_PROF_PHASES

static const char *on(const report_style *style)
{
    return style->to->colour ? "\033[1m" : "";
}

static const char *off(const report_style *style)
{
    return style->to->colour ? "\033[0m" : "";
}

static sw_text bytes_text(const report_style *style, uint64_t bytes)
{
    return table_bytes(bytes, style);
}

static void column(const report_style *style, const char *text, int width)
{
    const int left = sw_writer_fitted(style->to, text, strlen(text), width);
    sw_writer_print(style->to, "%*s", left, "");
}

/* ---- the run ----------------------------------------------------------------------------- */

/* How the run ended, after what it was. */
static const char *ending(const report *r)
{
    if (!r->ended)
        return "; the run did not finish";
    if (strcmp(r->status, "interrupted") == 0)
        return "; it was interrupted";
    return report_finished(r) ? "" : "; the run failed";
}

static void print_run(const report_style *style, const report *r)
{
    if (!sw_timeline_is_ours(r->timeline)) {
        sw_writer_say(style->to, 0, 2, "%s%s%s on %s, from %s: %s", on(style),
                      r->model[0] != '\0' ? r->model : "model", off(style),
                      r->device[0] != '\0' ? r->device : "an unnamed device", r->timeline->tool,
                      r->shown);
        return;
    }
    const sw_timeline *t = r->timeline;
    char batch[32] = "not given", seed[32] = "not given";
    if (t->batch >= 0)
        snprintf(batch, sizeof batch, "%" PRId64, t->batch);
    if (!t->no_seed)
        snprintf(seed, sizeof seed, "%" PRIu64, t->seed);
    sw_writer_say(style->to, 0, 2, "%s%s%s on %s, batch %s, seed %s%s%s%s%s", on(style),
                  r->model[0] != '\0' ? r->model : "model", off(style),
                  r->device[0] != '\0' ? r->device : "an unnamed device", batch, seed,
                  r->data[0] != '\0' ? ", data " : "", r->data,
                  r->normalise[0] != '\0' ? ", normalise " : "", r->normalise);
    char evaluations[64] = "";
    if (r->evaluations > 0)
        snprintf(evaluations, sizeof evaluations, ", %s evaluation run%s",
                 sw_text_digits(r->evaluations).text, r->evaluations == 1 ? "" : "s");
    char all[64] = "", several[64] = "";
    if (r->all_steps > r->n_steps) /* not every step is recorded */
        snprintf(all, sizeof all, " (of %s in all)", sw_text_digits(r->all_steps).text);
    if (r->runs > r->n_steps)
        snprintf(several, sizeof several, " in %s runs", sw_text_digits(r->runs).text);
    sw_writer_say(style->to, 0, 2, "%s training step%s%s%s%s%s%s%s%s%s",
                  sw_text_digits(r->n_steps).text, r->n_steps == 1 ? "" : "s", several, all,
                  evaluations, r->ended ? " in " : "",
                  r->ended ? sw_text_ns(r->wall_ns).text : "",
                  r->created[0] != '\0' ? ", begun " : "", r->created, ending(r));
}

/* ---- step by step ------------------------------------------------------------------------ */

/* The cell of the phase that peaks has a star. */
static void print_cells(const report_style *style, const report_row *row, const table_unit *u)
{
    const int peak = report_peak_phase(row->phase);
    for (int i = 0; i < N; i++) {
        char cell[64] = "-"; /* no op belongs to the phase: released updates are backward's */
        if (row->phase[i].peak_bytes > 0)
            snprintf(cell, sizeof cell, "%s%.*f/%.*f", i == peak ? "*" : "", u->digits,
                     (double)row->phase[i].end_bytes / u->bytes, u->digits,
                     (double)row->phase[i].peak_bytes / u->bytes);
        sw_writer_print(style->to, "%14s", cell);
    }
    sw_writer_text(style->to, "\n");
}

/* Exact numbers need the width of a cell each: one line for the end, one for the peak. */
static void print_exact(const report_style *style, const report_row *row)
{
    const int peak = report_peak_phase(row->phase);
    sw_writer_print(style->to, " end");
    for (int i = 0; i < N; i++)
        sw_writer_print(style->to, "%13" PRIu64, row->phase[i].end_bytes);
    sw_writer_print(style->to, "\n          peak");
    for (int i = 0; i < N; i++) {
        char cell[32];
        snprintf(cell, sizeof cell, "%s%" PRIu64, i == peak ? "*" : "",
                 row->phase[i].peak_bytes);
        sw_writer_print(style->to, "%13s", cell);
    }
    sw_writer_text(style->to, "\n");
}

/* Which phase peaks, and whether the peak moves. */
static void print_moves(const report_style *style, const report *r)
{
    const report_moves *m = &r->moves;
    char text[512] = "";
    size_t used = 0;
    int phases = 0;
    for (int i = 0; i < N; i++)
        phases += m->runs[i] > 0;
    for (int i = 0; i < N; i++) {
        if (m->runs[i] == 0)
            continue;
        char where[64] = "";
        if (phases > 1)
            snprintf(where, sizeof where, " (first in step %" PRIu64 ")", m->first[i]);
        used += (size_t)snprintf(
            text + used, sizeof text - used, "%sin %s in %s%s run%s%s", used > 0 ? ", " : "",
            sw_prof_phase_name(i), phases == 1 && m->runs[i] > 1 ? "all " : "",
            sw_text_digits(m->runs[i]).text, m->runs[i] == 1 ? "" : "s", where);
    }
    sw_writer_say(style->to, 2, 2, "* the peak of a step is %s", text);
    if (m->low == m->high) {
        sw_writer_say(style->to, 2, 2, "same peak in every step: %s",
                      bytes_text(style, m->high).text);
        return;
    }
    sw_writer_say(style->to, 2, 2,
                  "it moves from %s (step %" PRIu64 ") to %s (step %" PRIu64 "):",
                  bytes_text(style, m->low).text, m->low_step, bytes_text(style, m->high).text,
                  m->high_step);
    sw_writer_print(style->to, "  %s\n",
                    bars_spark(m->bin, m->n_bins, m->low, m->high, style->ascii).text);
}

static void print_steps(const report_style *style, const report *r)
{
    const report_row *rows[REPORT_ROWS];
    const size_t n = report_rows(r, rows);
    if (n == 0)
        return;
    uint64_t largest = 0;
    for (size_t k = 0; k < n; k++)
        for (int i = 0; i < N; i++) {
            const sw_prof_phase *x = &rows[k]->phase[i];
            largest = x->peak_bytes > largest ? x->peak_bytes : largest;
            largest = x->end_bytes > largest ? x->end_bytes : largest; /* in what is damaged */
        }
    const table_unit u = table_unit_for(largest, style);
    sw_writer_print(style->to,
                    "\n%sStep by step: %s live at the end of the phase%speak in it%s\n",
                    on(style), u.name, style->exact ? ", and the " : " / at the ", off(style));
    const bool several = r->runs > r->n_steps;
    sw_writer_print(style->to, style->exact ? "%9s     " : "%9s ",
                    several ? "step:run" : "step");
    for (int i = 0; i < N; i++)
        sw_writer_print(style->to, style->exact ? "%13s" : "%14s", sw_prof_phase_name(i));
    sw_writer_text(style->to, "\n");
    for (size_t k = 0; k < n; k++) {
        const report_row *row = rows[k];
        char text[48];
        if (several)
            snprintf(text, sizeof text, "%" PRIu64 ":%" PRIu64, row->step, row->micro + 1);
        else
            snprintf(text, sizeof text, "%" PRIu64, row->step);
        sw_writer_print(style->to, "%9s ", text);
        if (style->exact)
            print_exact(style, rows[k]);
        else
            print_cells(style, rows[k], &u);
    }
    print_moves(style, r);
}

/* ---- predicted against measured ---------------------------------------------------------- */

static const char *runs(uint64_t n)
{
    return n == 1 ? "run" : "runs";
}

static void print_witness_results(const report_style *style, const report_seen *s)
{
    char text[128] = "equal to the byte";
    if (s->equal != s->runs)
        snprintf(text, sizeof text, "%s%s differ%s (shown: step %" PRIu64 ")%s", on(style),
                 sw_text_digits(s->runs - s->equal).text, s->runs - s->equal == 1 ? "s" : "",
                 s->step, off(style));
    sw_writer_say(style->to, 2, 2, "measured by %s in %s %s: %s",
                  s->by[0] != '\0' ? s->by : "an unnamed witness", sw_text_digits(s->runs).text,
                  runs(s->runs), text);
}

static void print_compared(const report_style *style, const report_plan *plan,
                           const report_seen *s)
{
    sw_writer_print(style->to, "  %-9s%14s%14s%14s%14s\n", "", "peak", "peak", "end", "end");
    sw_writer_print(style->to, "  %-9s%14s%14s%14s%14s\n", "phase", "predicted", "measured",
                    "predicted", "measured");
    for (int i = 0; i < N; i++) {
        sw_writer_print(style->to, "  %-9s%14s%14s%14s%14s", sw_prof_phase_name(i),
                        sw_text_digits(plan->phase[i].peak_bytes).text,
                        sw_text_digits(s->phase[i].peak_bytes).text,
                        sw_text_digits(plan->phase[i].end_bytes).text,
                        sw_text_digits(s->phase[i].end_bytes).text);
        const bool peak = plan->phase[i].peak_bytes != s->phase[i].peak_bytes;
        const uint64_t p = peak ? plan->phase[i].peak_bytes : plan->phase[i].end_bytes,
                       m = peak ? s->phase[i].peak_bytes : s->phase[i].end_bytes;
        char text[64];
        snprintf(text, sizeof text, "%s %c%s", peak ? "peak" : "end", m > p ? '+' : '-',
                 sw_text_digits(m > p ? m - p : p - m).text);
        if (plan->phase[i].peak_bytes == s->phase[i].peak_bytes &&
            plan->phase[i].end_bytes == s->phase[i].end_bytes)
            sw_writer_print(style->to, "  equal\n");
        else if (strlen(text) <= 11) /* what the table leaves of 80 columns */
            sw_writer_print(style->to, "  %s\n", text);
        else
            sw_writer_print(style->to, "\n%*s\n", SW_WRITER_COLUMNS, text);
    }
    print_witness_results(style, s);
}

static void print_witnesses(const report_style *style, const report *r)
{
    static const char *const words[] = {"disagrees", "agrees"};
    sw_writer_print(style->to, "  witnesses:");
    for (int i = 0; i < 4; i++)
        sw_writer_print(style->to, "%s %s %s", i > 0 ? "," : "", report_witnesses[i],
                        r->witness_results[i] < 0 ? "not asked" : words[r->witness_results[i]]);
    sw_writer_text(style->to, "\n");
    if (r->faults > 0)
        sw_writer_say(style->to, 2, 2, "%s%s faults; the first: %s%s", on(style),
                      sw_text_digits(r->faults).text, r->first_fault, off(style));
}

/* The record of another tool. Phases are as its frames say; some remain unknown. */
static void print_recorded(const report_style *style, const report_plan *plan)
{
    bool phases = false;
    sw_writer_say(style->to, 0, 2,
                  "%sRecorded bytes%s, %s: %s at the peak, of at most %s reserved", on(style),
                  off(style), report_program_name(plan).text, sw_text_digits(plan->peak).text,
                  sw_text_digits(plan->arena).text);
    for (int i = 0; i < N; i++)
        phases = phases || plan->phase[i].peak_bytes > 0;
    if (!phases) {
        sw_writer_say(style->to, 2, 2, "no frames tell what belongs to which phase");
        return;
    }
    sw_writer_print(style->to, "  %-9s%16s%16s   as the frames tell\n", "phase", "peak", "end");
    for (int i = 0; i < N; i++)
        if (plan->phase[i].peak_bytes > 0)
            sw_writer_print(style->to, "  %-9s%16s%16s\n", sw_prof_phase_name(i),
                            sw_text_digits(plan->phase[i].peak_bytes).text,
                            sw_text_digits(plan->phase[i].end_bytes).text);
}

static void print_main_plan(const report_style *style, const report_plan *main,
                            const report_seen *best)
{
    sw_writer_say(style->to, 0, 2, "%sPredicted and measured bytes%s, %s", on(style),
                  off(style), report_program_name(main).text);
    if (best == NULL) {
        sw_writer_print(style->to, "  predicted peak %s; it was not measured\n",
                        bytes_text(style, main->peak).text);
        return;
    }
    print_compared(style, main, best);
    for (int k = 0; k < main->n_seen; k++) {
        if (&main->seen[k] == best)
            continue;
        if (main->seen[k].equal == main->seen[k].runs)
            print_witness_results(style, &main->seen[k]);
        else
            print_compared(style, main, &main->seen[k]);
    }
}

void report_print_predicted(const report_style *style, const report *r, const report_plan *main)
{
    const report_seen *best = report_best_seen(main);
    sw_writer_text(style->to, "\n");
    if (!main->immediate) {
        print_main_plan(style, main, best);
    } else if (!sw_timeline_is_ours(r->timeline)) {
        print_recorded(style, main);
    } else {
        sw_writer_say(style->to, 0, 2, "%sMeasured bytes%s, %s", on(style), off(style),
                      report_program_name(main).text);
        if (best != NULL) {
            /* Of immediate runs: there is no plan to compare with. */
            sw_writer_print(style->to, "  %-9s%16s%16s\n", "phase", "peak", "end");
            for (int i = 0; i < N; i++)
                sw_writer_print(style->to, "  %-9s%16s%16s\n", sw_prof_phase_name(i),
                                sw_text_digits(best->phase[i].peak_bytes).text,
                                sw_text_digits(best->phase[i].end_bytes).text);
            sw_writer_say(style->to, 2, 2, "measured by %s in %s %s%s", best->by,
                          sw_text_digits(best->runs).text, runs(best->runs),
                          best->runs == 1             ? ""
                          : best->equal == best->runs ? ": all alike"
                                                      : ": some differ from the first");
        }
    }
    if (r->witnessed > 0)
        print_witnesses(style, r);
    /* Other programs, a line each; those that differ are never left out. */
    uint64_t shown = 0, silent = 0;
    for (size_t i = 0; i < r->n_plans; i++) {
        const report_plan *x = &r->plans[i];
        bool equal = true;
        for (int k = 0; k < x->n_seen; k++)
            equal &= x->seen[k].equal == x->seen[k].runs;
        if (x == main || x->n_seen == 0 || (equal && shown == 4 && ++silent > 0))
            continue;
        shown++;
        sw_writer_say(style->to, 2, 2, "%s: %s peak %s", report_program_name(x).text,
                      x->immediate ? "measured" : "predicted", bytes_text(style, x->peak).text);
        for (int k = 0; k < x->n_seen && !x->immediate; k++) {
            if (x->seen[k].equal != x->seen[k].runs)
                print_compared(style, x, &x->seen[k]);
            else
                print_witness_results(style, &x->seen[k]);
        }
    }
    if (silent > 0)
        sw_writer_print(style->to, "  %s more programs: all runs equal to the byte\n",
                        sw_text_digits(silent).text);
}

/* ---- what is live at the peak ------------------------------------------------------------ */

/* Live bytes of a run from its first op to its last, and where phases begin. */
static void print_curve(const report_style *style, const report_live *live)
{
    if (live->n_curve == 0)
        return;
    uint64_t high = 0;
    for (size_t i = 0; i < live->n_curve; i++)
        high = live->curve[i] > high ? live->curve[i] : high;
    sw_writer_say(style->to, 2, 2,
                  "live bytes op by op, from 0 to %s; phases by their first letters:",
                  bytes_text(style, high).text);
    sw_writer_print(style->to, "  %s\n",
                    bars_spark(live->curve, live->n_curve, 0, high, style->ascii).text);
    int n = (int)live->n_curve;
    while (n > 1 && live->phase[n - 1] == ' ')
        n--;
    sw_writer_print(style->to, "  %.*s\n", n, live->phase);
}

#define MADE_BY 57 /* column of the op that makes it */
/* "24 x aten::exp, net.py:41 forward/parts.py:6 softmax": names of other tools are long. */
static void print_equal(const report_style *style, const report_live *live)
{
    sw_writer_print(style->to, "  %15s  %-15s  largest tensors, equal ones in one line\n",
                    "bytes", "role");
    for (size_t i = 0; i < live->n_largest; i++) {
        const sw_tensor *v = live->largest[i].first;
        const uint64_t n = live->largest[i].n;
        sw_writer_print(style->to, "  %15s  ",
                        table_cell_bytes(n * (v->bytes + v->padding), 15).text);
        column(style, v->role, 15);
        char text[1200];
        const bool once = *v->layer == '\0' || strstr(v->layer, v->name) != NULL;
        snprintf(text, sizeof text, n > 1 ? "  %s x " : "  ", sw_text_digits(n).text);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%.500s%s",
                 once && *v->layer != '\0' ? "" : v->name, once ? "" : ", ");
        sw_writer_text(style->to, text);
        const int room = sw_writer_columns(style->to) - 34 - (int)strlen(text);
        (void)sw_writer_scopes(style->to, v->layer, room > 20 ? room : 20);
        sw_writer_text(style->to, "\n");
    }
}

static void print_live(const report_style *style, const report *r, const report_plan *plan,
                       const report_live *live)
{
    const report_gate_peak highest = report_highest(r);
    sw_writer_text(style->to, "\n");
    sw_writer_say(style->to, 0, 2,
                  "%sLive at the peak%s%s%s: %s (%s of it padding), while op %" PRIu32
                  " of %" PRIu32 " runs:",
                  on(style), off(style), sw_timeline_is_ours(r->timeline) ? ", " : "",
                  sw_timeline_is_ours(r->timeline) ? report_program_name(plan).text : "",
                  bytes_text(style, live->bytes).text, bytes_text(style, live->padding).text,
                  live->program->peak_op + 1, live->program->n_ops);
    sw_writer_say(style->to, 2, 2, "%s", live->op);
    if (live->bytes != plan->peak && !plan->immediate)
        sw_writer_say(style->to, 2, 2,
                      "%sthe plan's peak is %s: the values do not add up to it%s", on(style),
                      bytes_text(style, plan->peak).text, off(style));
    if (highest.measured && highest.bytes != live->bytes)
        sw_writer_say(style->to, 2, 2, "%sthe highest peak that was measured is %s%s%s",
                      on(style), bytes_text(style, highest.bytes).text,
                      *highest.in != '\0' ? "" : ", in a run that is not in the file",
                      off(style));
    print_curve(style, live);
    report_print_breakdown((report_breakdown){live->role, live->n_roles},
                           (report_breakdown){live->layer, live->n_layers}, live->bytes, style);
    if (sw_timeline_is_ours(r->timeline)) {
        sw_writer_print(style->to, "  %-24s %-15s %12s  %s\n", "largest tensors", "role",
                        "bytes", "made by");
        for (size_t i = 0; i < live->n_largest; i++) {
            const sw_tensor *v = live->largest[i].first;
            sw_writer_print(style->to, "  ");
            column(style, v->name, 24);
            sw_writer_text(style->to, " ");
            column(style, v->role, 15);
            sw_writer_print(style->to, "%13s  ",
                            table_cell_bytes(v->bytes + v->padding, 13).text);
            sw_writer_wrap(style->to, MADE_BY, MADE_BY + 1, v->op[0] != '\0' ? v->op : "-");
        }
    } else
        print_equal(style, live);
    report_print_steps(style, r->timeline->steps, r->timeline->n_steps, r->timeline->passes);
    if (!plan->immediate)
        sw_writer_say(
            style->to, 2, 2, "arena %s of at least %s; model %s, data %s, together %s",
            bytes_text(style, plan->arena).text, bytes_text(style, plan->lower_bound).text,
            bytes_text(style, plan->model).text, bytes_text(style, plan->data).text,
            bytes_text(style, plan->total).text);
    if (plan->host > 0)
        sw_writer_say(style->to, 2, 2, "beside that the program's records: %s of the heap",
                      bytes_text(style, plan->host).text);
}

/* ---- time and the rest ------------------------------------------------------------------- */

static void print_times(const report_style *style, report *r)
{
    uint64_t median[N + 1];
    if (!report_medians(r, median))
        return;
    sw_writer_text(style->to, "\n");
    sw_writer_say(style->to, 0, 2, "%sMedian time%s of %s warm %s: %s", on(style), off(style),
                  sw_text_digits(r->warm).text, r->runs > r->n_steps ? "runs" : "steps",
                  sw_text_ns(median[N]).text);
    char text[2][128] = {"", ""}; /* what fits the first line, and the rest */
    for (int i = 0; i < N; i++) {
        char one[48];
        snprintf(one, sizeof one, "%s %s%s", sw_prof_phase_name(i), sw_text_ns(median[i]).text,
                 i + 1 < N ? "," : "");
        char *to =
            text[text[1][0] != '\0' || strlen(text[0]) + 3 + strlen(one) > SW_WRITER_COLUMNS];
        const size_t used = strlen(to);
        snprintf(to + used, sizeof text[0] - used, "%s%s", used > 0 ? " " : "", one);
    }
    sw_writer_print(style->to, "  %s\n", text[0]);
    if (text[1][0] != '\0')
        sw_writer_print(style->to, "  %s\n", text[1]);
}

static void print_process(const report_style *style, const report *r, const report_plan *plan)
{
    char where[80] = "";
    if (r->allocating > 0)
        snprintf(where, sizeof where, " in %s %s, first at step %" PRIu64,
                 sw_text_digits(r->allocating).text, runs(r->allocating), r->allocating_step);
    sw_writer_say(style->to, 0, 2, "%sAllocations after warm-up%s: %s%s", on(style), off(style),
                  r->warm_runs > 0 ? sw_text_digits(r->allocations).text
                                   : "not counted, no run was warm",
                  where);
    if (!r->has_process)
        return;
    const bool elsewhere = r->host != NULL && r->host->n_devices > 0;
    const uint64_t known = (plan != NULL && !elsewhere ? plan->total : 0) + r->host_max;
    sw_writer_say(style->to, 0, 2, "%sProcess%s: %s resident at most (first %s, last %s)",
                  on(style), off(style), bytes_text(style, r->process_max).text,
                  bytes_text(style, r->process_first).text,
                  bytes_text(style, r->process_last).text);
    if (plan == NULL)
        return;
    char rest[160] = "; some of that was never touched";
    if (r->process_max > known)
        snprintf(rest, sizeof rest,
                 "; the other %s are code, libraries, stacks and what they keep for themselves",
                 bytes_text(style, r->process_max - known).text);
    if (elsewhere) /* what is planned is in the device's memory */
        sw_writer_say(style->to, 2, 2, "of it %s host heap%s",
                      bytes_text(style, r->host_max).text, rest);
    else
        sw_writer_say(style->to, 2, 2, "of it %s %s and %s host heap%s",
                      bytes_text(style, plan->total).text,
                      plan->immediate ? "in arenas" : "planned",
                      bytes_text(style, r->host_max).text, rest);
}

static void print_notes(const report_style *style, const report *r)
{
    if (style->quiet)
        return;
    if (r->damaged_line > 0)
        sw_writer_say(style->to, 0, 2,
                      "note: line %" PRIu64 " is damaged; only what stands before it is shown",
                      r->damaged_line);
    if (r->cut)
        sw_writer_print(style->to, "note: the last line is cut; all before it was used\n");
    if (r->dropped > 0)
        sw_writer_say(style->to, 0, 2,
                      "note: the event logs had no room for %s events; what they have is whole "
                      "from the front of each run",
                      sw_text_digits(r->dropped).text);
    if (!r->ended)
        sw_writer_print(
            style->to, "note: there is no end record: the run did not finish, or still runs\n");
    else if (!report_finished(r)) {
        /* Why is said above where a request was denied. */
        const bool said = r->host != NULL && r->host->denied != NULL;
        sw_writer_say(style->to, 0, 2, "note: the run ended as '%s'%s%s", r->status,
                      said || r->error[0] == '\0' ? "" : ": ", said ? "" : r->error);
    }
    if (r->immediate > 0)
        sw_writer_say(style->to, 0, 2,
                      "note: %s %s in immediate mode follow%s no plan: nothing was predicted",
                      sw_text_digits(r->immediate).text, runs(r->immediate),
                      r->immediate == 1 ? "s" : "");
    if (r->unplanned > 0)
        sw_writer_print(style->to, "note: %s measured runs have no plan in this file\n",
                        sw_text_digits(r->unplanned).text);
    if (r->runs == 0 && sw_timeline_is_ours(r->timeline))
        sw_writer_print(style->to, "note: there is no training step in this file\n");
}

void report_print_text(report *r, const report_live *live, const report_style *style)
{
    const report_plan *plan = report_peak_plan(r);
    report_print_denied(r, style);
    print_run(style, r);
    print_steps(style, r);
    if (plan != NULL) {
        report_print_predicted(style, r, plan);
        print_live(style, r, plan, live);
    }
    print_times(style, r);
    if (plan != NULL) {
        /* With op clocks. The clocks themselves take time: shares say more than sums. */
        if (live->n_slowest != 0) {
            sw_writer_text(style->to, "\n");
            sw_writer_say(style->to, 0, 2,
                          "%sSlowest ops%s of %s warm %s of %s, on average:", on(style),
                          off(style), sw_text_digits(plan->op_runs).text, runs(plan->op_runs),
                          report_program_name(plan).text);
            const bool long_ops = live->slowest[0].ns >= 10000000; /* one unit for all */
            for (size_t i = 0; i < live->n_slowest; i++) {
                const report_op *op = &live->slowest[i];
                sw_writer_print(style->to, "  ");
                column(style, op->name, 57);
                sw_writer_print(style->to, "%9.*f %s%6.1f%%\n", long_ops ? 3 : 2,
                                (double)op->ns / (long_ops ? 1e6 : 1e3), long_ops ? "ms" : "us",
                                live->ops_ns > 0 ? 100.0 * (double)op->ns / (double)live->ops_ns
                                                 : 0.0);
            }
        }
    }
    if (sw_timeline_is_ours(r->timeline))
        print_process(style, r, plan);
    report_print_host(r, style);
    if (r->process != NULL) {
        sw_writer_text(style->to, "\n");
        process_print(style->to, r->process, "Resident bytes of the process at the end");
    }
    print_notes(style, r);
}
