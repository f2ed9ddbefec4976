/* The layers of a program: shapes, parameters and bytes that the net's own text says, and sums
 * that the plan says in other ways. */
#include "tests/runtime/nets.h"
#include "tests/support/heap_sweep.h"
#include <string.h>

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
    sw_plan_info info = SW_OPTS(sw_plan_info);
    CU_ASSERT_EQUAL(layer->size, sizeof *layer);
    CU_ASSERT_FATAL(l->n < LAYERS);
    snprintf(l->name[l->n], sizeof l->name[0], "%s", layer->name);
    snprintf(l->op[l->n], sizeof l->op[0], "%s", layer->op);
    l->at[l->n++] = *layer;
    l->operations += layer->operations + layer->backward_operations;
    l->parameters += layer->parameters;
    l->saved += layer->saved_bytes;
    l->inside = sw_plan(l->exec, l->args, &info);
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
            const sw_plan_visitor v =
                SW_OPTS(sw_plan_visitor, .to = &sum, .storage = add_saved);
            OK(sw_plan(exec, &args, &info));
            const layers *l = seen(exec, &args);
            SW_CHECK(l->operations == info.operations, "%llu of %llu",
                     (unsigned long long)l->operations, (unsigned long long)info.operations);
            OK(sw_plan_visit(exec, &args, &v));
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
    (void)to;
    (void)layer;
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
