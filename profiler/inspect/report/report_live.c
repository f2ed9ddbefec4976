/* The live values at the peak of a program, its curve, and its slowest ops. */
#include "alloc/base/mem.h"
#include "profiler/inspect/report/report.h"
#include "profiler/inspect/report/report_parts.h"
#include <stdlib.h>
#include <string.h>

/* The groups that live at the peak, largest first. */
static sw_status shares_by(sw_timeline *t, const sw_tl_program *p, parts_by by,
                           const report_share **out, size_t *n)
{
    parts x = {0};
    uint32_t used = 0, *order = NULL;
    report_share *breakdown = NULL;
    sw_status status = parts_make(&x, t, p, by);
    if (status == SW_OK)
        status = sw_timeline_alloc(t, &order, x.n, sizeof(uint32_t));
    if (status == SW_OK)
        status = sw_timeline_alloc(t, &breakdown, x.n, sizeof(report_share));
    if (status == SW_OK)
        status = parts_order(&x, t, order, &used);
    for (uint32_t i = 0; status == SW_OK && i < used; i++) {
        const parts_group *g = &x.at[order[i]];
        if (g->at_peak > 0)
            breakdown[(*n)++] = (report_share){g->path, g->at_peak};
    }
    *out = breakdown;
    parts_free(&x);
    return status;
}

/* By name, layer, op, role and bytes: texts are kept once, so equal ones have one address. */
static int compare_what(const sw_tensor *x, const sw_tensor *y)
{
    const uint64_t of_x[] = {(uintptr_t)x->name, (uintptr_t)x->layer, (uintptr_t)x->op,
                             (uintptr_t)x->role, x->bytes + x->padding},
                   of_y[] = {(uintptr_t)y->name, (uintptr_t)y->layer, (uintptr_t)y->op,
                             (uintptr_t)y->role, y->bytes + y->padding};
    return memcmp(of_x, of_y, sizeof of_x);
}

static int by_what(const void *a, const void *b)
{
    const sw_tensor *x = *(const sw_tensor *const *)a, *y = *(const sw_tensor *const *)b;
    const int what = compare_what(x, y);
    return what != 0 ? what : (x > y) - (x < y);
}

static uint64_t bytes_of(const report_same *s)
{
    return s->n * (s->first->bytes + s->first->padding);
}

static bool is_less(const report_same *a, const report_same *b)
{
    return bytes_of(a) != bytes_of(b) ? bytes_of(a) < bytes_of(b) : a->first > b->first;
}

static void keep_largest(report_live *live, report_same same)
{
    size_t k = live->n_largest;
    if (k == REPORT_LARGEST && !is_less(&live->largest[--k], &same))
        return;
    for (; k > 0 && is_less(&live->largest[k - 1], &same); k--)
        live->largest[k] = live->largest[k - 1];
    live->largest[k] = same;
    live->n_largest += live->n_largest < REPORT_LARGEST;
}

static void find_largest(report_live *live, const sw_tensor **of, size_t n)
{
    qsort(of, n, sizeof *of, by_what);
    for (size_t i = 0, to; i < n; i = to) {
        for (to = i + 1; to < n && compare_what(of[i], of[to]) == 0;)
            to++;
        keep_largest(live, (report_same){of[i], to - i});
    }
}

static void keep_slowest(report_live *live, const report_op *op)
{
    size_t k = live->n_slowest;
    if (k == REPORT_SLOWEST && live->slowest[--k].ns >= op->ns)
        return;
    for (; k > 0 && live->slowest[k - 1].ns < op->ns; k--)
        live->slowest[k] = live->slowest[k - 1];
    live->slowest[k] = *op;
    if (live->n_slowest < REPORT_SLOWEST)
        live->n_slowest++;
}

/* In columns, each as high as the highest of its ops; few ops have several columns each. */
static void draw_curve(report_live *live, const sw_tl_program *p, const uint64_t *all)
{
    const size_t ops = p->n_ops, each = ops > 0 && ops < REPORT_CURVE ? REPORT_CURVE / ops : 1;
    const size_t n = ops < REPORT_CURVE ? ops * each : REPORT_CURVE;
    int before = -1;
    live->n_curve = n;
    for (size_t k = 0; k < n; k++) {
        const size_t from = k * ops / n, to = (k + 1) * ops / n;
        uint64_t high = all[from];
        for (size_t i = from; i < to; i++)
            high = all[i] > high ? all[i] : high;
        live->curve[k] = high;
        const int phase = p->ops[from].phase;
        live->phase[k] = phase != before ? sw_prof_phase_name(phase)[0] : ' ';
        before = phase;
    }
}

sw_status report_find_live(const report *r, const report_plan *plan, report_live *live)
{
    const sw_tl_program *p = report_program(r, plan);
    uint64_t *curve;
    const sw_tensor **at_peak;
    size_t n = 0;
    SW_TRY(sw_timeline_alloc(r->timeline, &at_peak, (size_t)p->n_values + 1, sizeof(void *)));
    memset(live, 0, sizeof *live);
    live->program = p;
    live->op = p->peak_op < p->n_ops ? p->ops[p->peak_op].name : "";
    for (uint32_t i = 0; i < p->n_values; i++) {
        const sw_tensor *v = &p->values[i];
        if (v->alias != SW_TL_NONE || v->birth > p->peak_op || v->death < p->peak_op)
            continue;
        live->bytes += v->bytes + v->padding;
        live->padding += v->padding;
        at_peak[n++] = v;
    }
    find_largest(live, at_peak, n);
    SW_TRY(shares_by(r->timeline, p, PARTS_ROLE, &live->role, &live->n_roles));
    SW_TRY(shares_by(r->timeline, p, PARTS_LAYER, &live->layer, &live->n_layers));
    for (size_t i = 0; i < plan->n_ops && i < p->n_ops && plan->op_runs > 0; i++) {
        const report_op op = {p->ops[i].name, plan->op_ns[i] / plan->op_runs};
        live->ops_ns += op.ns;
        keep_slowest(live, &op);
    }
    SW_TRY(sw_timeline_alloc(r->timeline, &curve, (size_t)p->n_ops + 1, sizeof(uint64_t)));
    sw_timeline_curve(p, NULL, NULL, curve);
    draw_curve(live, p, curve);
    return SW_OK;
}
