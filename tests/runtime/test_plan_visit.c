/* The plan as a caller sees it, op by op and storage by storage; and the layouts that a search
 * over batches relies on. */
#include "runtime/ops/ops.h"
#include "tests/runtime/nets.h"
#include <string.h>

SW_TESTS("plan_visit")

#define MOST 400
typedef struct {
    sw_exec *exec;
    const sw_run_args *args;
    uint32_t n_ops, n, n_inputs, next;
    sw_phase last;
    sw_plan_storage at[MOST];
    char name[MOST][64];
    sw_status inside;
} listing;

static void see_op(void *to, uint32_t position, const char *name, sw_phase phase)
{
    listing *l = to;
    SW_CHECK(position == l->n_ops, "op %u after %u", position, l->n_ops);
    CU_ASSERT(name[0] != '\0' && (unsigned)phase < SW_PHASES);
    l->n_ops++;
    if (position == 0) {
        sw_plan_info info = SW_OPTS(sw_plan_info);
        l->inside = sw_plan(l->exec, l->args, &info);
    }
}

static void see_storage(void *to, const sw_plan_storage *s)
{
    listing *l = to;
    CU_ASSERT_EQUAL(s->size, sizeof *s);
    SW_CHECK(s->id >= l->next, "%u is not in order", s->id);
    l->next = s->id + 1;
    if (s->input)
        l->n_inputs++;
    else if (SW_CHECK(l->n < MOST, "%u storages", l->n)) {
        snprintf(l->name[l->n], sizeof l->name[l->n], "%s", s->name);
        l->at[l->n++] = *s;
    }
}

static listing *visited(sw_exec *exec, const sw_run_args *args)
{
    static listing l;
    l = (listing){.exec = exec, .args = args};
    const sw_plan_visitor v =
        SW_OPTS(sw_plan_visitor, .to = &l, .op = see_op, .storage = see_storage);
    OK(sw_plan_visit(exec, args, &v));
    return &l;
}

/* Quadratic and plain: what lives at one time lies apart, and nothing lies above the arena. */
static void check_apart(const listing *l, size_t arena_bytes)
{
    size_t highest = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        const sw_plan_storage *a = &l->at[i];
        const size_t end = a->offset + a->bytes + a->padding;
        highest = end > highest ? end : highest;
        CU_ASSERT(a->birth <= a->death && a->death <= l->n_ops && a->offset % SW_ALIGN == 0);
        for (uint32_t k = 0; k < i; k++) {
            const sw_plan_storage *b = &l->at[k];
            const bool together = a->birth <= b->death && b->birth <= a->death;
            const bool over = a->offset < b->offset + b->bytes + b->padding && b->offset < end;
            if (a->alias == UINT32_MAX && b->alias == UINT32_MAX)
                SW_CHECK(!together || !over, "%s lies on %s", l->name[i], l->name[k]);
            if (a->alias == b->id)
                SW_CHECK(a->offset == b->offset, "%s takes not the place of %s", l->name[i],
                         l->name[k]);
        }
    }
    CU_ASSERT_EQUAL(highest, arena_bytes);
}

/* The largest sum that the storages have at one op is the peak above the model and the batch.
 */
static size_t peak_of(const listing *l)
{
    size_t most = 0;
    for (uint32_t t = 0; t < l->n_ops; t++) {
        size_t live = 0;
        for (uint32_t i = 0; i < l->n; i++)
            if (l->at[i].alias == UINT32_MAX && l->at[i].birth <= t && l->at[i].death >= t)
                live += l->at[i].bytes + l->at[i].padding;
        most = live > most ? live : most;
    }
    return most;
}

SW_TEST("a visit shows the plan")
{
    for (int image = 0; image < 2; image++) {
        sw_exec *exec = net_exec(NULL);
        net *n = net_new(image != 0, NULL);
        const batch b = net_batch(image != 0, 0, 33);
        const sw_run_args args = net_args(n, &b);
        sw_plan_info info = SW_OPTS(sw_plan_info);
        OK(sw_plan(exec, &args, &info));
        const listing *l = visited(exec, &args);
        CU_ASSERT_EQUAL(l->n_ops, info.n_ops);
        CU_ASSERT_EQUAL(l->n_inputs, 2);
        CU_ASSERT(l->n > 5);
        check_apart(l, info.arena_bytes);
        CU_ASSERT_EQUAL(peak_of(l), info.peak_bytes - info.model_bytes - info.slot_bytes);
        CU_ASSERT_EQUAL(peak_of(l), info.lower_bound_bytes);
        CU_ASSERT_EQUAL(l->inside, SW_BUSY);
        CU_ASSERT_EQUAL(n->times_called, 1); /* shown, not traced again */
    }
}

SW_TEST("a visit reserves nothing and refuses nonsense")
{
    sw_budget *budget;
    OK(sw_budget_create(&budget, 1));
    sw_exec_opts opts = SW_OPTS(sw_exec_opts, .budget = budget);
    sw_exec *exec;
    OK(sw_exec_create(&exec, &opts));
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 8);
    const sw_run_args args = net_args(n, &b);
    CU_ASSERT(visited(exec, &args)->n > 5);
    const sw_plan_visitor none = SW_OPTS(sw_plan_visitor), bad = {0};
    OK(sw_plan_visit(exec, &args, &none));
    REFUSED(sw_plan_visit(exec, &args, &bad), SW_INVALID, "visitor");
    CU_ASSERT_NOT_EQUAL(sw_plan_visit(exec, NULL, &none), SW_OK);
    sw_exec_destroy(exec);
    sw_budget_destroy(budget);
}

/* One less and it would not be so: 51 images leave 13 of 64 lanes empty, which is more than a
 * quarter of them. */
SW_TEST("large batches have one layout")
{
    int64_t last_plain = 0;
    for (int64_t images = 1; images < 200000; images++) {
        const sw_type image = {SW_F32, SW_PLAIN, {4, {images, 1, 28, 28}}};
        if (swi_layout_image(&image, 1, NULL) != SW_N16)
            last_plain = images;
    }
    CU_ASSERT_EQUAL(last_plain, 51);
    CU_ASSERT(last_plain < SWI_ONE_LAYOUT_FROM);
}
