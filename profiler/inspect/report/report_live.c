/* What is live at the peak of a program, its curve, and its slowest ops. */
#include "alloc/base/mem.h"
#include "profiler/inspect/report/report.h"
#include "profiler/inspect/report/report_parts.h"
#include <string.h>

/* The groups that live at the peak, largest first. */
static sw_status shares_by(sw_timeline *t, const sw_tl_program *p, parts_by by,
                           const report_share **out, size_t *n)
{
    parts x = {0};
    uint32_t used = 0;
    void *order = NULL, *room = NULL;
    sw_status status = parts_make(&x, t, p, by);
    if (status == SW_OK)
        status = sw_timeline_alloc(t, &order, x.n, sizeof(uint32_t));
    if (status == SW_OK)
        status = sw_timeline_alloc(t, &room, x.n, sizeof(report_share));
    if (status == SW_OK)
        status = parts_order(&x, t, order, &used);
    report_share *breakdown = room;
    for (uint32_t i = 0; status == SW_OK && i < used; i++) {
        const parts_group *g = &x.at[((uint32_t *)order)[i]];
        if (g->at_peak > 0)
            breakdown[(*n)++] = (report_share){g->path, g->at_peak};
    }
    *out = breakdown;
    parts_free(&x);
    return status;
}

static void keep_largest(report_live *live, const sw_tensor *v)
{
    const uint64_t bytes = v->bytes + v->padding;
    size_t k = live->n_largest;
    if (k == REPORT_LARGEST) {
        const sw_tensor *least = live->largest[--k];
        if (least->bytes + least->padding >= bytes)
            return;
    }
    for (; k > 0 && live->largest[k - 1]->bytes + live->largest[k - 1]->padding < bytes; k--)
        live->largest[k] = live->largest[k - 1];
    live->largest[k] = v;
    if (live->n_largest < REPORT_LARGEST)
        live->n_largest++;
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
    void *curve;
    memset(live, 0, sizeof *live);
    live->program = p;
    live->op = p->peak_op < p->n_ops ? p->ops[p->peak_op].name : "";
    for (uint32_t i = 0; i < p->n_values; i++) {
        const sw_tensor *v = &p->values[i];
        if (v->alias != SW_TL_NONE || v->birth > p->peak_op || v->death < p->peak_op)
            continue;
        live->bytes += v->bytes + v->padding;
        live->padding += v->padding;
        keep_largest(live, v);
    }
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
