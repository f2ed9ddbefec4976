/* The layers of a program: shapes, parameters and bytes that the net's own text says, and sums
 * that the plan says in other ways. */
#include "tests/runtime/nets.h"
#include "tests/support/heap_sweep.h"
#include "runtime/ops/ops.h"

SW_TESTS("plan layers")

enum { LAYERS = 16 };

typedef struct {
    sw_plan_layer at[LAYERS];
    char name[LAYERS][64], op[LAYERS][64];
    int n;
    uint64_t operations, parameters;
    size_t saved;
    sw_exec *exec;
    const sw_run_args *args;
    sw_status inside;
} layers;

static void see(void *to, const sw_plan_layer *layer)
{
    layers *l = to;
    CU_ASSERT_EQUAL(layer->size, sizeof *layer);
    CU_ASSERT_FATAL(l->n < LAYERS);
    snprintf(l->name[l->n], sizeof l->name[0], "%s", layer->name);
    snprintf(l->op[l->n], sizeof l->op[0], "%s", layer->op);
    l->at[l->n++] = *layer;
    l->operations += layer->operations + layer->backward_operations;
    l->parameters += layer->parameters;
    l->saved += layer->saved_bytes;
    l->inside = sw_plan(l->exec, l->args, &SW_OPTS(sw_plan_info));
}

static layers *seen(sw_exec *exec, const sw_run_args *args)
{
    static layers l;
    l = (layers){.exec = exec, .args = args};
    OK(sw_plan_layers(exec, args, see, &l));
    return &l;
}

static const sw_plan_layer *named(const layers *l, const char *name)
{
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->name[i], name) == 0)
            return &l->at[i];
    SW_CHECK(false, "there is no layer '%s'", name);
    return &l->at[0];
}

/* Storages of the role "saved", each place once. */
typedef struct {
    bool saved[400];
    size_t bytes;
} saved_sum;

static void add_saved(void *to, const sw_plan_storage *s)
{
    saved_sum *sum = to;
    if (strcmp(s->role, "saved") != 0)
        return;
    CU_ASSERT_FATAL(s->id < 400);
    sum->saved[s->id] = true;
    if (s->alias == UINT32_MAX || !sum->saved[s->alias])
        sum->bytes += s->bytes + s->padding;
}

static bool is(const sw_plan_layer *l, sw_shape shape, uint64_t parameters)
{
    return l->dtype == SW_F32 && l->shape.rank == shape.rank &&
           memcmp(l->shape.dim, shape.dim, (size_t)shape.rank * sizeof *shape.dim) == 0 &&
           l->parameters == parameters && l->parameter_bytes == parameters * 4;
}

SW_TEST("layers have what the net says")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 12);
    const sw_run_args args = net_args(n, &b);
    const layers *l = seen(exec, &args);
    const sw_shape w1 = sw_param_shape(n->f1.weight);
    const sw_plan_layer *f1 = named(l, "f1"), *f2 = named(l, "f2");
    CU_ASSERT(w1.dim[1] == NET_PIXELS);
    CU_ASSERT(is(f1, SW_SHAPE(12, w1.dim[0]), (uint64_t)(w1.dim[0] * (NET_PIXELS + 1))));
    CU_ASSERT(is(f2, SW_SHAPE(12, NET_CLASSES), (uint64_t)(NET_CLASSES * (w1.dim[0] + 1))));
    /* A product has a multiplication and an addition for each weight and row at least. */
    CU_ASSERT(f1->operations >= 2 * 12 * (uint64_t)(w1.dim[0] * NET_PIXELS));
    CU_ASSERT(f1->operations < 3 * 12 * (uint64_t)(w1.dim[0] * NET_PIXELS));
    CU_ASSERT_EQUAL(l->inside, SW_BUSY);
}

/* In training and in evaluation, which keeps nothing. */
SW_TEST("sums are those of the plan")
{
    for (int image = 0; image < 2; image++)
        for (int eval = 0; eval < 2; eval++) {
            sw_exec *exec = net_exec(&SW_OPTS(sw_exec_opts));
            net *n = net_new(image, NULL);
            const batch b = net_batch(image, 0, NET_BATCH);
            sw_run_args args = net_args(n, &b);
            args.mode = eval ? SW_EVAL : SW_TRAIN;
            sw_plan_info info = SW_OPTS(sw_plan_info);
            saved_sum sum = {.bytes = 0};
            OK(sw_plan(exec, &args, &info));
            const layers *l = seen(exec, &args);
            SW_CHECK(l->operations == info.operations, "%llu of %llu",
                     (unsigned long long)l->operations, (unsigned long long)info.operations);
            OK(sw_plan_visit(exec, &args,
                             &SW_OPTS(sw_plan_visitor, .to = &sum, .storage = add_saved)));
            SW_CHECK(l->saved == sum.bytes && (l->saved > 0) == !eval, "%zu, by storage %zu",
                     l->saved, sum.bytes);
            size_t all = 0;
            for (size_t i = 0; i < sw_param_count(n->model); i++) {
                const sw_shape s = sw_param_shape(sw_param_at(n->model, i));
                size_t elements = 1;
                for (int d = 0; d < s.rank; d++)
                    elements *= (size_t)s.dim[d];
                all += elements;
            }
            CU_ASSERT_EQUAL(l->parameters, all);
        }
}

typedef struct {
    sw_exec *exec;
    const sw_run_args *args;
} sweep_of;

static void nothing(void *to, const sw_plan_layer *layer)
{
}

static sw_status show_layers(void *arg)
{
    const sweep_of *s = arg;
    return sw_plan_layers(s->exec, s->args, nothing, NULL);
}

SW_TEST("every allocation can fail")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(true, NULL);
    const batch b = net_batch(true, 0, 12);
    const sw_run_args args = net_args(n, &b);
    sweep_of s = {exec, &args};
    OK(show_layers(&s)); /* planned from here on */
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, show_layers, &s) >= 2);
}

/* ---- plan visit -------------------------------------------------------------------------- */

/* The plan as a caller sees it, op by op and storage by storage; and the layouts that a search
 * over batches relies on. */
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
        l->inside = sw_plan(l->exec, l->args, &SW_OPTS(sw_plan_info));
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
    OK(sw_plan_visit(
        exec, args, &SW_OPTS(sw_plan_visitor, .to = &l, .op = see_op, .storage = see_storage)));
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

/* The largest sum that the storages have at one op is the peak above the model and the
 * batch. */
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
    sw_budget *budget = made_budget(1);
    sw_exec *exec = made_exec(&SW_OPTS(sw_exec_opts, .budget = budget));
    net *n = net_new(false, NULL);
    const batch b = net_batch(false, 0, 8);
    const sw_run_args args = net_args(n, &b);
    CU_ASSERT(visited(exec, &args)->n > 5);
    const sw_plan_visitor none = SW_OPTS(sw_plan_visitor), bad = {0};
    OK(sw_plan_visit(exec, &args, &none));
    REFUSED(sw_plan_visit(exec, &args, &bad), SW_INVALID, "visitor");
    CU_ASSERT_NOT_EQUAL(sw_plan_visit(exec, NULL, &none), SW_OK);
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
