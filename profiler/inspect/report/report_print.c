/* The report of one run, for people and as one JSON object. The text is 80 columns wide
 * whatever the numbers and names are; top to bottom: the run, its steps, predicted against
 * measured, what is live at the peak, time, and what lies outside the plan. The keys of the
 * JSON are part of the interface. */
#include "profiler/inspect/report/report.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define N SW_PROF_PHASES

/* ---- live bytes by role and layer -------------------------------------------------------- */

#define LAYERS 10
#define ROLES 32 /* of other tools there may be more: the last has the rest */

typedef struct {
    const char *name;
    char bytes[24], share[8], more[32];
} share_line;
typedef struct {
    share_line role, layer;
} share_pair;

#define SHARE(of, head)                                                                        \
    COLUMN(share_pair, NULL, head, TABLE_TEXT, 15, of.name),                                   \
        COLUMN(share_pair, NULL, "bytes", TABLE_BYTES, 14, of.bytes),                          \
        COLUMN(share_pair, NULL, "", TABLE_SHARE, 6, of.share)
static const table_column share_columns[] = {SHARE(role, "by role"), SHARE(layer, "by layer")};
/* Names of other tools' scopes are long: one table below the other. */
#define WIDE(of, head)                                                                         \
    COLUMN(share_pair, NULL, head, TABLE_SCOPES, 54, of.name),                                 \
        COLUMN(share_pair, NULL, "bytes", TABLE_BYTES, 14, of.bytes),                          \
        COLUMN(share_pair, NULL, "", TABLE_SHARE, 6, of.share)
static const table_column wide_roles[] = {WIDE(role, "by role")},
                          wide_layers[] = {WIDE(layer, "by layer")};

/* Line i of `shown`, whose last takes what is left. */
static share_line share_of(report_breakdown x, size_t i, size_t shown, uint64_t all)
{
    share_line l = {.name = ""};
    if (i >= shown)
        return l;
    uint64_t bytes = x.at[i].bytes;
    l.name = x.at[i].name;
    for (size_t k = shown; i + 1 == shown && k < x.n; k++)
        bytes += x.at[k].bytes;
    if (i + 1 == shown && x.n > shown)
        snprintf(l.more, sizeof l.more, "%zu more", x.n - shown + 1);
    snprintf(l.bytes, sizeof l.bytes, "%.23s", table_cell_bytes(bytes, 15).text);
    snprintf(l.share, sizeof l.share, "%.1f%%",
             all > 0 ? 100.0 * (double)bytes / (double)all : 0.0);
    return l;
}

void report_print_breakdown(report_breakdown roles, report_breakdown layers, uint64_t all,
                            const report_style *style)
{
    share_pair lines[LAYERS + ROLES];
    const size_t shown = layers.n < LAYERS ? layers.n : LAYERS,
                 n_roles = roles.n < ROLES ? roles.n : ROLES,
                 n = n_roles > shown ? n_roles : shown;
    bool wide = false;
    for (size_t i = 0; i < n; i++) {
        share_pair *l = &lines[i];
        *l = (share_pair){share_of(roles, i, n_roles, all), share_of(layers, i, shown, all)};
        wide |= strstr(l->layer.name, ".py:") != NULL;
        if (l->role.more[0] != '\0')
            l->role.name = l->role.more;
        if (l->layer.more[0] != '\0')
            l->layer.name = l->layer.more;
    }
    if (wide) {
        table_print(&TABLE_OF(wide_roles, lines, n_roles), n_roles, style);
        table_print(&TABLE_OF(wide_layers, lines, shown), shown, style);
    } else
        table_print(&TABLE_OF(share_columns, lines, n), n, style);
}

void report_put_breakdown(sw_json *j, const char *key, report_breakdown x)
{
    sw_json_open(j, key, '{');
    for (size_t i = 0; i < x.n; i++)
        sw_json_put_u64(j, x.at[i].name, x.at[i].bytes);
    sw_json_end(j);
}

/* ---- common members of JSON -------------------------------------------------------------- */

void report_put_phases(sw_json *j, const char *key, const sw_prof_phase *phase)
{
    if (!sw_json_open_known(j, key, phase != NULL))
        return;
    for (int i = 0; i < N; i++) {
        sw_json_open(j, sw_prof_phase_name(i), '{');
        SW_JSON_PUT(j, &phase[i], peak_bytes, end_bytes);
        sw_json_end(j);
    }
    sw_json_end(j);
}

void report_put_by_phase(sw_json *j, const char *key, const uint64_t *x)
{
    sw_json_open(j, key, '{');
    for (int i = 0; i < N; i++)
        sw_json_put_u64(j, sw_prof_phase_name(i), x[i]);
    sw_json_end(j);
}

void report_put_text(sw_json *j, const char *key, const char *text)
{
    sw_json_put_string(j, key, text[0] != '\0' ? text : NULL);
}

void report_put_batch(sw_json *j, int64_t batch)
{
    sw_json_put_known(j, "batch", batch >= 0, (uint64_t)batch);
}

void report_put_damaged(sw_json *j, const profile_reading *file)
{
    if (!sw_json_open_known(j, "damaged", file->damaged_line > 0))
        return;
    sw_json_put_u64(j, "line", file->damaged_line);
    sw_json_put_string(j, "why", file->damaged_why);
    sw_json_end(j);
}

/* ---- steps of a trace -------------------------------------------------------------------- */

#define STEP_ROWS 12 /* in text; of more steps the first and the last */

#define STEP(phase, key)                                                                       \
    COLUMN_KNOWN(sw_tl_step, key "_peak_bytes", key, TABLE_BYTES, 13, peak[phase])
static const table_column step_columns[] = {{.head = "step", .kind = TABLE_COUNT, .width = 5},
                                            FIELD(sw_tl_step, "from", first),
                                            FIELD(sw_tl_step, "to", last),
                                            STEP(0, "data"),
                                            STEP(1, "forward"),
                                            STEP(2, "loss"),
                                            STEP(3, "backward"),
                                            STEP(4, "step")};

static void number_step(const void *n, size_t i, table_cell *c)
{
    const uint32_t all = *(const uint32_t *)n;
    c[0].n = (all > STEP_ROWS && i >= STEP_ROWS / 2 ? all - STEP_ROWS : 0) + i + 1;
}

void report_print_steps(const report_style *style, const sw_tl_step *steps, uint32_t n,
                        bool passes)
{
    sw_tl_step ends[STEP_ROWS];
    const uint32_t shown = n < STEP_ROWS ? n : STEP_ROWS;
    for (uint32_t i = 0; i < shown; i++)
        ends[i] = steps[i < STEP_ROWS / 2 ? i : n - shown + i];
    if (n == 0)
        return;
    report_headline(style, passes ? "Phases of each pass: the most that lived"
                                  : "Phases of each step: the most that lived");
    const table t = TABLE_WITH(step_columns, ends, shown, number_step, &n);
    table_print(&t, shown, style);
}

void report_put_steps(sw_json *j, const sw_tl_step *steps, uint32_t n)
{
    table_put(j, "step_phases", &TABLE_OF(step_columns, steps, n));
}

/* ---- the run ----------------------------------------------------------------------------- */

#define BOLD "\033[1m"
#define PLAIN "\033[0m"

/* A paragraph whose first words are bold. */
static void begin(const report_style *style, const char *title, const char *format, ...)
    SW_PRINTF(3, 4);
static void begin(const report_style *style, const char *title, const char *format, ...)
{
    char text[4096 + 512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sw_writer_say(style->to, 0, 2, "%s%s%s%s", style->to->colour ? BOLD : "", title,
                  style->to->colour ? PLAIN : "", text);
}

static const char *plural(uint64_t n, const char *one, const char *several)
{
    return n == 1 ? one : several;
}

static void print_run(const report_style *style, const report *r)
{
    const sw_timeline *t = r->timeline;
    const char *model = r->model[0] != '\0' ? r->model : "model",
               *device = r->device[0] != '\0' ? r->device : "an unnamed device";
    if (!sw_timeline_is_ours(t)) {
        begin(style, model, " on %s, from %s: %s", device, t->tool, r->shown);
        return;
    }
    char batch[32] = "not given", seed[32] = "not given";
    if (t->batch >= 0)
        snprintf(batch, sizeof batch, "%" PRId64, t->batch);
    if (!t->no_seed)
        snprintf(seed, sizeof seed, "%" PRIu64, t->seed);
    begin(style, model, " on %s, batch %s, seed %s%s%s%s%s", device, batch, seed,
          r->data[0] != '\0' ? ", data " : "", r->data,
          r->normalise[0] != '\0' ? ", normalise " : "", r->normalise);
    char evaluations[64] = "", all[64] = "", several[64] = "";
    if (r->evaluations > 0)
        snprintf(evaluations, sizeof evaluations, ", %s evaluation %s",
                 sw_text_digits(r->evaluations).text, plural(r->evaluations, "run", "runs"));
    if (r->file.all_steps > r->n_steps) /* not every step is recorded */
        snprintf(all, sizeof all, " (of %s in all)", sw_text_digits(r->file.all_steps).text);
    if (r->runs > r->n_steps)
        snprintf(several, sizeof several, " in %s runs", sw_text_digits(r->runs).text);
    sw_writer_say(style->to, 0, 2, "%s training %s%s%s%s%s%s%s%s%s",
                  sw_text_digits(r->n_steps).text, plural(r->n_steps, "step", "steps"), several,
                  all, evaluations, r->file.ended ? " in " : "",
                  r->file.ended ? sw_text_ns(r->file.wall_ns).text : "",
                  r->created[0] != '\0' ? ", begun " : "", r->created,
                  !r->file.ended                               ? "; the run did not finish"
                  : strcmp(r->file.status, "interrupted") == 0 ? "; it was interrupted"
                  : report_finished(r)                         ? ""
                                                               : "; the run failed");
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
    if (m->lowest_bytes == m->highest_bytes) {
        sw_writer_say(style->to, 2, 2, "same peak in every step: %s",
                      table_bytes(m->highest_bytes, style).text);
        return;
    }
    sw_writer_say(style->to, 2, 2,
                  "it moves from %s (step %" PRIu64 ") to %s (step %" PRIu64 "):",
                  table_bytes(m->lowest_bytes, style).text, m->lowest_step,
                  table_bytes(m->highest_bytes, style).text, m->highest_step);
    sw_writer_print(
        style->to, "  %s\n",
        bars_spark(m->bin, m->n_bins, m->lowest_bytes, m->highest_bytes, style->ascii).text);
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
                    style->to->colour ? BOLD : "", u.name,
                    style->exact ? ", and the " : " / at the ", style->to->colour ? PLAIN : "");
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
        sw_writer_print(style->to, style->exact ? "%9s  end" : "%9s ", text);
        /* Exact numbers need the width of a cell each: a line for the end, one for the peak.
         * The phase that peaks has a star. */
        const int peak = report_peak_phase(row->phase);
        for (int i = 0; i < N && style->exact; i++)
            sw_writer_print(style->to, "%13" PRIu64, row->phase[i].end_bytes);
        if (style->exact)
            sw_writer_text(style->to, "\n          peak");
        for (int i = 0; i < N; i++) {
            const sw_prof_phase *x = &row->phase[i];
            char cell[64] = "-"; /* no op belongs to it: released updates are backward's */
            if (style->exact)
                snprintf(cell, sizeof cell, "%s%" PRIu64, i == peak ? "*" : "", x->peak_bytes);
            else if (x->peak_bytes > 0)
                snprintf(cell, sizeof cell, "%s%.*f/%.*f", i == peak ? "*" : "", u.digits,
                         (double)x->end_bytes / u.bytes, u.digits,
                         (double)x->peak_bytes / u.bytes);
            sw_writer_print(style->to, style->exact ? "%13s" : "%14s", cell);
        }
        sw_writer_text(style->to, "\n");
    }
    print_moves(style, r);
}

/* ---- predicted against measured ---------------------------------------------------------- */

/* A phase of a program, predicted and as one witness measured it. */
typedef struct {
    const char *name;
    uint64_t peak[2], end[2];
    char differs[40];
} phase_line;

static const table_column compared_columns[] = {
    COLUMN(phase_line, NULL, "phase", TABLE_NAME, 8, name),
    COLUMN(phase_line, NULL, "peak planned", TABLE_BYTES, 13, peak[0]),
    COLUMN(phase_line, NULL, "measured", TABLE_BYTES, 13, peak[1]),
    COLUMN(phase_line, NULL, "end planned", TABLE_BYTES, 13, end[0]),
    COLUMN(phase_line, NULL, "measured", TABLE_BYTES, 13, end[1]),
    COLUMN(phase_line, NULL, "", TABLE_WRAP, 12, differs)};
/* Where nothing was predicted. */
static const table_column found_columns[] = {
    COLUMN(phase_line, NULL, "phase", TABLE_NAME, 8, name),
    COLUMN(phase_line, NULL, "peak", TABLE_BYTES, 15, peak[1]),
    COLUMN(phase_line, NULL, "end", TABLE_BYTES, 15, end[1])};

/* Phases without bytes are left out of what another tool recorded: their frames are unknown. */
static void print_phases(const report_style *style, const report_plan *plan,
                         const sw_prof_phase *seen, bool ours)
{
    phase_line lines[N];
    size_t n = 0;
    for (int i = 0; i < N; i++) {
        const sw_prof_phase *p = &plan->phase[i], *s = &seen[i];
        const bool peak = p->peak_bytes != s->peak_bytes;
        const int64_t more =
            (int64_t)(peak ? s->peak_bytes - p->peak_bytes : s->end_bytes - p->end_bytes);
        if (!ours && s->peak_bytes == 0)
            continue;
        phase_line *l = &lines[n++];
        *l = (phase_line){sw_prof_phase_name(i),
                          {p->peak_bytes, s->peak_bytes},
                          {p->end_bytes, s->end_bytes},
                          "equal"};
        if (more != 0)
            snprintf(l->differs, sizeof l->differs, "%s %c%.30s", peak ? "peak" : "end",
                     more > 0 ? '+' : '-',
                     sw_text_digits((uint64_t)(more > 0 ? more : -more)).text);
    }
    table_print(plan->immediate ? &TABLE_OF(found_columns, lines, n)
                                : &TABLE_OF(compared_columns, lines, n),
                n, style);
}

/* With a table where it differs, or where it is `first`. */
static void print_seen(const report_style *style, const report_plan *plan, const report_seen *s,
                       bool first)
{
    char text[128] = "equal to the byte";
    const uint64_t n = s->runs - s->equal;
    if (first || n > 0)
        print_phases(style, plan, s->phase, true);
    if (n > 0)
        snprintf(text, sizeof text, "%s%s %s (shown: step %" PRIu64 ")%s",
                 style->to->colour ? BOLD : "", sw_text_digits(n).text,
                 plural(n, "differs", "differ"), s->step, style->to->colour ? PLAIN : "");
    sw_writer_say(style->to, 2, 2, "measured by %s in %s %s: %s",
                  s->by[0] != '\0' ? s->by : "an unnamed witness", sw_text_digits(s->runs).text,
                  plural(s->runs, "run", "runs"), text);
}

static void print_main_plan(const report_style *style, const report *r, const report_plan *main)
{
    const report_seen *best = report_best_seen(main);
    const char *name = report_program_name(main).text;
    bool phases = false;
    for (int i = 0; i < N; i++)
        phases |= main->phase[i].peak_bytes > 0;
    if (!main->immediate) {
        begin(style, "Predicted and measured bytes", ", %s", name);
        if (best == NULL)
            sw_writer_print(style->to, "  predicted peak %s; it was not measured\n",
                            table_bytes(main->peak, style).text);
        else
            print_seen(style, main, best, true);
        for (int k = 0; k < main->n_seen; k++)
            if (&main->seen[k] != best)
                print_seen(style, main, &main->seen[k], false);
    } else if (!sw_timeline_is_ours(r->timeline)) {
        /* Phases are as its frames say; some remain unknown. */
        begin(style, "Recorded bytes", ", %s: %s at the peak, of at most %s reserved", name,
              sw_text_digits(main->peak).text, sw_text_digits(main->arena_bytes).text);
        sw_writer_say(style->to, 2, 2,
                      phases ? "by phase, as the frames tell:"
                             : "no frames tell what belongs to which phase");
        if (phases)
            print_phases(style, main, main->phase, false);
    } else {
        begin(style, "Measured bytes", ", %s", name);
        if (best == NULL)
            return;
        print_phases(style, main, best->phase, true);
        sw_writer_say(style->to, 2, 2, "measured by %s in %s %s%s", best->by,
                      sw_text_digits(best->runs).text, plural(best->runs, "run", "runs"),
                      best->runs == 1             ? ""
                      : best->equal == best->runs ? ": all alike"
                                                  : ": some differ from the first");
    }
}

void report_print_predicted(const report_style *style, const report *r, const report_plan *main)
{
    static const char *const words[] = {"not asked", "disagrees", "agrees"};
    const char *on = style->to->colour ? BOLD : "", *off = style->to->colour ? PLAIN : "";
    sw_writer_text(style->to, "\n");
    print_main_plan(style, r, main);
    if (r->witnessed > 0) {
        sw_writer_print(style->to, "  witnesses:");
        for (int i = 0; i < 4; i++)
            sw_writer_print(style->to, "%s %s %s", i > 0 ? "," : "", report_witnesses[i],
                            words[r->witness_results[i] + 1]);
        sw_writer_text(style->to, "\n");
        if (r->faults > 0)
            sw_writer_say(style->to, 2, 2, "%s%s faults; the first: %s%s", on,
                          sw_text_digits(r->faults).text, r->first_fault, off);
    }
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
                      x->immediate ? "measured" : "predicted",
                      table_bytes(x->peak, style).text);
        for (int k = 0; k < x->n_seen && !x->immediate; k++)
            print_seen(style, x, &x->seen[k], false);
    }
    if (silent > 0)
        sw_writer_print(style->to, "  %s more programs: all runs equal to the byte\n",
                        sw_text_digits(silent).text);
}

/* ---- what is live at the peak ------------------------------------------------------------ */

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
        const int left = sw_writer_fitted(style->to, v->role, strlen(v->role), 15);
        sw_writer_print(style->to, "%*s", left, "");
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

static const table_column tensor_columns[] = {
    COLUMN(sw_tensor, NULL, "largest tensors", TABLE_NAME, 24, name),
    COLUMN(sw_tensor, NULL, "role", TABLE_TEXT, 15, role),
    {.head = "bytes", .kind = TABLE_BYTES, .width = 12},
    COLUMN_KNOWN(sw_tensor, NULL, "made by", TABLE_WRAP, 23, op)};
static void add_padding(const void *tensors, size_t i, table_cell *c)
{
    const sw_tensor *v = (const sw_tensor *)tensors + i;
    c[2].n = v->bytes + v->padding;
}

static void print_live(const report_style *style, const report *r, const report_plan *plan,
                       const report_live *live)
{
    const report_gate_peak highest = report_highest(r);
    const bool ours = sw_timeline_is_ours(r->timeline);
    const char *on = style->to->colour ? BOLD : "", *off = style->to->colour ? PLAIN : "";
    sw_writer_text(style->to, "\n");
    begin(style, "Live at the peak",
          "%s%s: %s (%s of it padding), while op %" PRIu32 " of %" PRIu32 " runs:",
          ours ? ", " : "", ours ? report_program_name(plan).text : "",
          table_bytes(live->bytes, style).text, table_bytes(live->padding, style).text,
          live->program->peak_op + 1, live->program->n_ops);
    sw_writer_say(style->to, 2, 2, "%s", live->op);
    if (live->bytes != plan->peak && !plan->immediate)
        sw_writer_say(style->to, 2, 2,
                      "%sthe plan's peak is %s: the values do not add up to it%s", on,
                      table_bytes(plan->peak, style).text, off);
    if (highest.measured && highest.bytes != live->bytes)
        sw_writer_say(style->to, 2, 2, "%sthe highest peak that was measured is %s%s%s", on,
                      table_bytes(highest.bytes, style).text,
                      *highest.in != '\0' ? "" : ", in a run that is not in the file", off);
    /* Live bytes of a run from its first op to its last, and where phases begin. */
    if (live->n_curve != 0) {
        uint64_t high = 0;
        for (size_t i = 0; i < live->n_curve; i++)
            high = live->curve[i] > high ? live->curve[i] : high;
        sw_writer_say(style->to, 2, 2,
                      "live bytes op by op, from 0 to %s; phases by their first letters:",
                      table_bytes(high, style).text);
        sw_writer_print(style->to, "  %s\n",
                        bars_spark(live->curve, live->n_curve, 0, high, style->ascii).text);
        int n = (int)live->n_curve;
        while (n > 1 && live->phase[n - 1] == ' ')
            n--;
        sw_writer_print(style->to, "  %.*s\n", n, live->phase);
    }
    report_print_breakdown((report_breakdown){live->role, live->n_roles},
                           (report_breakdown){live->layer, live->n_layers}, live->bytes, style);
    if (ours) {
        sw_tensor tensors[REPORT_LARGEST];
        for (size_t i = 0; i < live->n_largest; i++)
            tensors[i] = *live->largest[i].first;
        const table t =
            TABLE_WITH(tensor_columns, tensors, live->n_largest, add_padding, tensors);
        table_print(&t, t.n, style);
    } else
        print_equal(style, live);
    report_print_steps(style, r->timeline->steps, r->timeline->n_steps, r->timeline->passes);
    if (!plan->immediate)
        sw_writer_say(style->to, 2, 2,
                      "arena %s of at least %s; model %s, data %s, together %s",
                      table_bytes(plan->arena_bytes, style).text,
                      table_bytes(plan->lower_bound_bytes, style).text,
                      table_bytes(plan->model_bytes, style).text,
                      table_bytes(plan->data_bytes, style).text,
                      table_bytes(plan->total_bytes, style).text);
    if (plan->program_host_bytes > 0)
        sw_writer_say(style->to, 2, 2, "beside that the program's records: %s of the heap",
                      table_bytes(plan->program_host_bytes, style).text);
}

static void put_live(sw_json *j, const report_plan *plan, const report_live *live)
{
    sw_json_open(j, "peak", '{');
    sw_json_put_string(j, "program", report_program_name(plan).text);
    report_put_text(j, "op", live->op);
    sw_json_put_u64(j, "position", live->program->peak_op);
    sw_json_put_u64(j, "n_ops", live->program->n_ops);
    sw_json_put_u64(j, "bytes", live->bytes);
    sw_json_put_u64(j, "padding_bytes", live->padding);
    report_put_breakdown(j, "by_role", (report_breakdown){live->role, live->n_roles});
    report_put_breakdown(j, "by_layer", (report_breakdown){live->layer, live->n_layers});
    sw_json_open(j, "largest", '[');
    for (size_t i = 0; i < live->n_largest; i++) {
        const sw_tensor *v = live->largest[i].first;
        sw_json_begin(j, '{');
        PUT(j, v, FIELDS(sw_tensor, name, role), FIELDS_KNOWN(sw_tensor, layer, op, phase));
        sw_json_put_u64(j, "bytes", v->bytes + v->padding);
        sw_json_put_u64(j, "count", live->largest[i].n);
        SW_JSON_PUT(j, v, padding, birth, death);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_end(j);
}

/* ---- time and the rest ------------------------------------------------------------------- */

/* With op clocks. The clocks themselves take time: shares say more than sums. */
static const table_column slowest_columns[] = {
    COLUMN(report_op, "op", "op", TABLE_NAME, 56, name),
    COLUMN(report_op, "mean_ns", "on average", TABLE_NS, 12, ns),
    COLUMN(report_op, NULL, "share", TABLE_SHARE, 6, share)};

static void print_resident(const report_style *style, const report *r, const report_plan *plan)
{
    char where[80] = "";
    if (r->allocating > 0)
        snprintf(where, sizeof where, " in %s %s, first at step %" PRIu64,
                 sw_text_digits(r->allocating).text, plural(r->allocating, "run", "runs"),
                 r->allocating_step);
    begin(style, "Allocations after warm-up", ": %s%s",
          r->warm_runs > 0 ? sw_text_digits(r->allocations).text
                           : "not counted, no run was warm",
          where);
    if (!r->has_process)
        return;
    const bool elsewhere = r->host != NULL && r->host->n_devices > 0;
    const uint64_t known = (plan != NULL && !elsewhere ? plan->total_bytes : 0) + r->host_max;
    begin(style, "Process", ": %s resident at most (first %s, last %s)",
          table_bytes(r->process_max, style).text, table_bytes(r->process_first, style).text,
          table_bytes(r->process_last, style).text);
    if (plan == NULL)
        return;
    char rest[160] = "; some of that was never touched";
    if (r->process_max > known)
        snprintf(rest, sizeof rest,
                 "; the other %s are code, libraries, stacks and what they keep for themselves",
                 table_bytes(r->process_max - known, style).text);
    if (elsewhere) /* what is planned is in the device's memory */
        sw_writer_say(style->to, 2, 2, "of it %s host heap%s",
                      table_bytes(r->host_max, style).text, rest);
    else
        sw_writer_say(style->to, 2, 2, "of it %s %s and %s host heap%s",
                      table_bytes(plan->total_bytes, style).text,
                      plan->immediate ? "in arenas" : "planned",
                      table_bytes(r->host_max, style).text, rest);
}

static void print_notes(const report_style *style, const report *r)
{
    if (style->quiet)
        return;
    if (r->file.damaged_line > 0)
        sw_writer_say(style->to, 0, 2,
                      "note: line %" PRIu64 " is damaged; only what stands before it is shown",
                      r->file.damaged_line);
    if (r->file.cut)
        sw_writer_print(style->to, "note: the last line is cut; all before it was used\n");
    if (r->dropped > 0)
        sw_writer_say(style->to, 0, 2,
                      "note: the event logs had no room for %s events; what they have is whole "
                      "from the front of each run",
                      sw_text_digits(r->dropped).text);
    if (!r->file.ended)
        sw_writer_print(
            style->to, "note: there is no end record: the run did not finish, or still runs\n");
    else if (!report_finished(r)) {
        /* Why is said above where a request was denied. */
        const bool said = r->host != NULL && r->host->denied != NULL;
        sw_writer_say(style->to, 0, 2, "note: the run ended as '%s'%s%s", r->file.status,
                      said || r->file.error[0] == '\0' ? "" : ": ", said ? "" : r->file.error);
    }
    if (r->immediate > 0)
        sw_writer_say(style->to, 0, 2,
                      "note: %s %s in immediate mode follow%s no plan: nothing was predicted",
                      sw_text_digits(r->immediate).text, plural(r->immediate, "run", "runs"),
                      r->immediate == 1 ? "s" : "");
    if (r->unplanned > 0)
        sw_writer_print(style->to, "note: %s measured runs have no plan in this file\n",
                        sw_text_digits(r->unplanned).text);
    if (r->runs == 0 && sw_timeline_is_ours(r->timeline))
        sw_writer_print(style->to, "note: there is no training step in this file\n");
}

void report_print_text(report *r, const report_live *live, const report_style *style)
{
    uint64_t median[N + 1];
    char text[160] = "";
    const report_plan *plan = report_peak_plan(r);
    const document d = {.style = style};
    report_print_denied(r, style);
    print_run(style, r);
    print_steps(style, r);
    if (plan != NULL) {
        report_print_predicted(style, r, plan);
        print_live(style, r, plan, live);
    }
    if (report_medians(r, median)) {
        sw_writer_text(style->to, "\n");
        begin(style, "Median time", " of %s warm %s: %s", sw_text_digits(r->warm).text,
              r->runs > r->n_steps ? "runs" : "steps", sw_text_ns(median[N]).text);
        for (int i = 0; i < N; i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s %s",
                     i > 0 ? ", " : "", sw_prof_phase_name(i), sw_text_ns(median[i]).text);
        sw_writer_say(style->to, 2, 2, "%s", text);
    }
    if (live->n_slowest > 0) {
        sw_writer_text(style->to, "\n");
        begin(style, "Slowest ops", " of %s warm %s of %s:", sw_text_digits(plan->op_runs).text,
              plural(plan->op_runs, "run", "runs"), report_program_name(plan).text);
        table_print(&TABLE_OF(slowest_columns, live->slowest, live->n_slowest), live->n_slowest,
                    style);
    }
    if (sw_timeline_is_ours(r->timeline))
        print_resident(style, r, plan);
    report_host_sections(&d, r);
    if (r->process != NULL) {
        sw_writer_text(style->to, "\n");
        process_print(style->to, r->process, "Resident bytes of the process at the end");
    }
    print_notes(style, r);
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void put_plan(sw_json *j, const report_plan *x, const sw_tl_program *p)
{
    sw_json_put_u64(j, "program", x->key & (UINT32_MAX >> 1));
    sw_json_put_u64(j, "exec", x->key >> 32);
    report_put_text(j, "run", x->run);
    report_put_batch(j, x->batch);
    sw_json_put_bool(j, "immediate", x->immediate);
    report_put_phases(j, "predicted", x->immediate ? NULL : x->phase);
    sw_json_put_known(j, "predicted_peak_bytes", !x->immediate, x->peak);
    sw_json_put_known(j, "measured_peak_bytes", p->measured, p->measured_bytes);
    sw_json_open(j, "measured", '[');
    for (int k = 0; k < x->n_seen; k++) {
        const report_seen *s = &x->seen[k];
        sw_json_begin(j, '{');
        sw_json_put_string(j, "measured_by", s->by);
        sw_json_put_u64(j, "runs", s->runs);
        sw_json_put_u64(j, "equal_runs", s->equal);
        sw_json_put_bool(j, "equal", s->equal == s->runs);
        sw_json_put_u64(j, "step", s->step);
        report_put_phases(j, "phases", s->phase);
        sw_json_end(j);
    }
    sw_json_end(j);
}

static void put_rows(sw_json *j, const report *r)
{
    const report_row *rows[REPORT_ROWS];
    const size_t n = report_rows(r, rows);
    sw_json_open(j, "rows", '[');
    for (size_t k = 0; k < n; k++) {
        sw_json_begin(j, '{');
        SW_JSON_PUT(j, rows[k], step, micro);
        sw_json_put_known_f64(j, "loss", rows[k]->has_loss, rows[k]->loss);
        report_put_phases(j, "phases", rows[k]->phase);
        const int peak = report_peak_phase(rows[k]->phase);
        sw_json_put_string(j, "peak_phase", sw_prof_phase_name(peak));
        sw_json_put_u64(j, "peak_bytes", rows[k]->phase[peak].peak_bytes);
        sw_json_end(j);
    }
    sw_json_end(j);
}

/* Which phase peaks in how many training runs, and where the peak goes. */
static void put_moves(sw_json *j, const report *r)
{
    const report_moves *m = &r->moves;
    sw_json_open(j, "peaks", '{');
    report_put_by_phase(j, "phases", m->runs);
    sw_json_put_bool(j, "moves", m->lowest_bytes != m->highest_bytes);
    PUT(j, m,
        FIELDS(report_moves, lowest_bytes, lowest_step, highest_bytes, highest_step,
               runs_per_bin));
    sw_json_open(j, "bins", '[');
    for (size_t k = 0; k < m->n_bins; k++)
        sw_json_u64(j, m->bin[k]);
    sw_json_end(j);
    sw_json_end(j);
}

sw_status report_print_json(report *r, const report_live *live, const report_tail *more,
                            const report_style *style)
{
    const report_plan *peak = report_peak_plan(r);
    uint64_t median[N + 1];
    const bool timed = report_medians(r, median);
    sw_json j;
    report_begin_object(&j);
    sw_json_put_string(&j, "file", r->path);
    sw_json_put_string(&j, "tool", r->timeline->tool);
    PUT(&j, r, FIELDS_KNOWN(report, model, device, data, normalise));
    report_put_batch(&j, r->timeline->batch);
    sw_json_put_known(&j, "seed", !r->timeline->no_seed, r->timeline->seed);
    PUT(&j, r, FIELDS_KNOWN(report, created, command));
    sw_json_put_u64(&j, "steps", r->n_steps);
    sw_json_put_u64(&j, "training_runs", r->runs);
    sw_json_put_known(&j, "all_steps", r->file.all_steps > 0,
                      r->file.all_steps); /* recorded or not */
    sw_json_put_u64(&j, "part", 1);       /* a profile is one file */
    sw_json_put_u64(&j, "evaluations", r->evaluations);
    sw_json_put_bool(&j, "finished", report_finished(r));
    PUT(&j, &r->file, FIELDS_KNOWN(profile_reading, status, error),
        FIELDS(profile_reading, cut));
    sw_json_put_bool(&j, "goes_on", false);
    sw_json_put_u64(&j, "dropped_events", r->dropped);
    report_put_damaged(&j, &r->file);
    sw_json_put_known(&j, "wall_ns", r->file.ended, r->file.wall_ns);
    if (peak != NULL) {
        /* The program that holds the peak, in the words of `train --json`. */
        const report_seen *best = report_best_seen(peak);
        report_put_phases(&j, "predicted", peak->immediate ? NULL : peak->phase);
        report_put_phases(&j, "measured", best != NULL ? best->phase : NULL);
        sw_json_put_string(&j, "measured_by", best != NULL ? best->by : NULL);
        sw_json_put_known(&j, "measured_peak_bytes", best != NULL,
                          best != NULL ? profile_peak(best->phase) : 0);
        sw_json_put_known(&j, "predicted_peak_bytes", !peak->immediate, peak->peak);
        PUT(&j, peak,
            FIELDS(report_plan, model_bytes, arena_bytes, data_bytes, total_bytes,
                   lower_bound_bytes),
            FIELDS_KNOWN(report_plan, program_host_bytes));
        put_live(&j, peak, live);
        /* Means over the warm runs of that program; empty without op clocks. */
        table_put(&j, "slowest_ops",
                  &TABLE_OF(slowest_columns, live->slowest, live->n_slowest));
        sw_json_put_u64(&j, "ops_mean_ns", live->ops_ns);
    }
    /* Whether each measured run of each program was as planned; null when none was measured. */
    bool equal = true, any = false;
    for (size_t i = 0; i < r->n_plans; i++)
        for (int k = 0; k < r->plans[i].n_seen && !r->plans[i].immediate; k++) {
            any = true;
            equal &= r->plans[i].seen[k].equal == r->plans[i].seen[k].runs;
        }
    sw_json_put_known_bool(&j, "equal", any, equal);
    sw_json_open(&j, "witnesses", '{');
    for (int m = 0; m < 4; m++)
        sw_json_put_known_bool(&j, report_witnesses[m], r->witness_results[m] >= 0,
                               r->witness_results[m] == 1);
    sw_json_end(&j);
    PUT(&j, r, FIELDS(report, faults), FIELDS_KNOWN(report, first_fault));
    if (timed)
        report_put_by_phase(&j, "median_ns", median);
    else
        sw_json_put_null(&j, "median_ns");
    sw_json_put_known(&j, "median_step_ns", timed, median[N]);
    sw_json_put_u64(&j, "warm_steps", r->warm);
    sw_json_put_known(&j, "allocations_after_warmup", r->warm_runs > 0, r->allocations);
    sw_json_put_u64(&j, "host_bytes", r->host_max);
    sw_json_put_known(&j, "process_bytes", r->has_process, r->process_max);
    sw_json_put_u64(&j, "immediate_runs", r->immediate);
    sw_json_put_u64(&j, "unplanned_runs", r->unplanned);
    if (sw_json_open_known(&j, "process", r->process != NULL)) {
        sw_process_put(&j, r->process);
        sw_json_end(&j);
    }
    report_host_sections(&(document){style, &j}, r);
    sw_json_open(&j, "programs", '[');
    for (size_t i = 0; i < r->n_plans; i++) {
        sw_json_begin(&j, '{');
        put_plan(&j, &r->plans[i], report_program(r, &r->plans[i]));
        sw_json_end(&j);
    }
    sw_json_end(&j);
    put_rows(&j, r);
    put_moves(&j, r);
    if (!sw_timeline_is_ours(r->timeline))
        report_put_steps(&j, r->timeline->steps, r->timeline->n_steps);
    return report_end_object(&j, more, style);
}
