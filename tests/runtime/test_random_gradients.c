/* Gradients of random networks, two ways: against central differences of the program's forward
 * part in double precision, and against the same network written in another way. */
#include "kernels/dispatch.h"
#include "tests/runtime/random_net.h"

SW_TESTS("random gradients")

#define MOST_VALUES 2000
#define SEED 5
#define STEP 1e-6 /* of the differences: small, so that few numbers cross a kink */

static sw_exec *execs[3], *exec; /* one per instruction set; of the seed under test */

static void make_execs(void)
{
    static const char *const names[] = {NULL, "base", "avx2"};
    for (int i = 0; i < 3; i++) {
        const bool has = i < 2 || sw_cpu_isa() >= SW_ISA_AVX2;
        execs[i] = net_exec(&SW_OPTS(sw_exec_opts, .seed = SEED, .isa = has ? names[i] : NULL));
    }
}

/* ---- the forward part in doubles --------------------------------------------------------- */

typedef struct {
    const swi_trace *trace;
    const sw_run_args *args;
    double *value[MOST_VALUES]; /* NULL: not of the forward part */
} forward;

static int64_t elements_of(const sw_type *type)
{
    int64_t n = 1;
    for (int i = 0; i < type->shape.rank; i++)
        n *= type->shape.dim[i];
    return n;
}

static double *numbers(int64_t n)
{
    double *x = calloc((size_t)n + 1, sizeof *x);
    CU_ASSERT_PTR_NOT_NULL_FATAL(x);
    return x;
}

static void forget(forward *f)
{
    for (int i = 0; i < MOST_VALUES; i++)
        free(f->value[i]);
}

/* directions: per parameter, scaled by shift; NULL: none. States are zeros, as they are before
 * the first run. */
static double *given(const forward *f, const swi_value *v, float *const *directions,
                     double shift)
{
    const swi_storage *s = &f->trace->storages[v->storage];
    const int64_t n = elements_of(&v->type);
    double *to = numbers(n);
    if (s->segment < SWI_SEG_MODEL) {
        const sw_array *in = &f->args->inputs[s->segment - SWI_SEG_INPUT];
        for (int64_t i = 0; i < n; i++)
            to[i] = in->dtype == SW_U8 ? (double)((const uint8_t *)in->data)[i]
                                       : (double)((const float *)in->data)[i];
        return to;
    }
    if (s->role == SWI_ROLE_STATE || v->type.dtype != SW_F32)
        return to;
    const random_life *life = f->args->user;
    const sw_model *model = f->args->models[s->segment - SWI_SEG_MODEL];
    const float *from = (const float *)(const void *)(model->base + s->offset + v->offset);
    for (int64_t i = 0; i < n; i++)
        to[i] = (double)from[i];
    for (int p = 0; directions != NULL && p < life->net->n_params; p++)
        if (life->param[p].model == model && life->param[p].index == s->entry &&
            directions[p] != NULL)
            for (int64_t i = 0; i < n; i++)
                to[i] += shift * (double)directions[p][i];
    return to;
}

static void refer(forward *f, const swi_node *node, const sw_op_desc *desc)
{
    const swi_trace *t = f->trace;
    const uint32_t *operands = t->operands + node->first;
    const double *in[SWI_MAX_OPERANDS];
    double *out[4];
    sw_type in_type[SWI_MAX_OPERANDS], out_type[4];
    for (uint32_t i = 0; i < node->n_in; i++) {
        in[i] = f->value[operands[i]];
        in_type[i] = t->values[operands[i]].type;
        in_type[i].layout = SW_PLAIN;
        CU_ASSERT_PTR_NOT_NULL_FATAL(in[i]);
    }
    for (int i = 0; i < desc->n_out; i++) {
        const uint32_t v = operands[node->n_in + (uint32_t)i];
        out_type[i] = t->values[v].type;
        out_type[i].layout = SW_PLAIN;
        out[i] = f->value[v] = numbers(elements_of(&out_type[i]));
    }
    const sw_reference reference =
        SW_INIT(.in = in, .in_type = in_type, .n_in = (int)node->n_in, .out = out,
                .out_type = out_type, .attrs = t->attrs + node->attrs, .seed = SEED,
                .stream = node->stream, .step = (uint32_t)f->args->step, .run = f->args->run);
    seed_check(desc->reference != NULL, desc->name, "has no reference");
    if (desc->reference != NULL)
        (void)seed_well(desc->reference(&reference), desc->name);
}

/* base: what gradients stop at keeps its numbers from there; NULL: none. */
static void compute(forward *f, const forward *base, float *const *directions, double shift)
{
    const swi_trace *t = f->trace;
    CU_ASSERT_FATAL(t->n_values <= MOST_VALUES);
    for (uint32_t v = 0; v < t->n_values; v++)
        if (t->values[v].node == SWI_NONE)
            f->value[v] = given(f, &t->values[v], directions, shift);
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        const swi_node *node = &t->nodes[i];
        const sw_op_desc *desc = swi_op(node->op);
        if (node->is_backward || node->is_update || node->grad >= 0 || node->writes_model)
            continue;
        const uint32_t v = t->operands[node->first + node->n_in];
        if (desc->no_gradient && base != NULL) {
            const size_t n = (size_t)elements_of(&t->values[v].type);
            f->value[v] = numbers((int64_t)n);
            memcpy(f->value[v], base->value[v], n * sizeof(double));
        } else {
            refer(f, node, desc);
        }
    }
}

/* The sum of the losses that an optimizer learns from; metrics have them. */
static double loss_of(const forward *f, int optimizer)
{
    const random_net *r = &seed_net;
    double sum = 0.0;
    for (int b = 0; b < r->n_ops; b++) {
        if (r->op[b].kind != RANDOM_BACKWARD || (r->op[b].what >> optimizer & 1) == 0)
            continue;
        for (int i = 0; i < r->n_ops; i++) {
            char name[8];
            snprintf(name, sizeof name, "v%d", i);
            if (r->op[i].kind != RANDOM_METRIC || r->op[i].in[0] != r->op[b].in[0])
                continue;
            for (uint32_t k = 0; k < f->trace->n_metrics; k++)
                if (strcmp(f->trace->metrics[k].name, name) == 0)
                    sum += f->value[f->trace->metrics[k].value][0];
            break;
        }
    }
    return sum;
}

/* ---- gradients of a life ----------------------------------------------------------------- */

/* Per parameter; NULL: no optimizer learns it in this network. */
typedef struct {
    float *of[RANDOM_PARAMS];
    int64_t n[RANDOM_PARAMS];
} gradients;

static bool learns(int optimizer)
{
    for (int i = 0; i < seed_net.n_ops; i++)
        if (seed_net.op[i].kind == RANDOM_BACKWARD &&
            (seed_net.op[i].what >> optimizer & 1) != 0)
            return true;
    return false;
}

static void read_gradients(gradients *g, const random_life *life)
{
    for (int p = 0; p < seed_net.n_params; p++) {
        if (seed_net.param[p].optimizer < 0 || !learns(seed_net.param[p].optimizer))
            continue;
        const sw_type type = {SW_F32, SW_PLAIN, seed_net.param[p].shape};
        g->n[p] = elements_of(&type);
        g->of[p] = calloc((size_t)g->n[p], sizeof(float));
        CU_ASSERT_PTR_NOT_NULL_FATAL(g->of[p]);
        (void)seed_well(sw_param_gradient(life->param[p], g->of[p], sw_type_bytes(&type)),
                        "gradient");
    }
}

static void free_gradients(gradients *g)
{
    for (int p = 0; p < RANDOM_PARAMS; p++)
        free(g->of[p]);
}

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Run once and read all gradients; false: it failed. */
static bool learn(random_life *life, sw_run_args *args, gradients *g, bool twin)
{
    memset(g, 0, sizeof *g);
    exec = execs[seed_net.seed % 3];
    if (!seed_well(random_life_begin(life, &seed_net, true, twin), "declare"))
        return false;
    *args = random_life_args(life, 0);
    if (!seed_well(sw_run(exec, args), "run"))
        return false;
    read_gradients(g, life);
    return !seed_failed;
}

/* ---- against differences ----------------------------------------------------------------- */

/* along: a random direction in the parameters of one optimizer. */
static void compare_along(const forward *base, const gradients *g, const gradients *along,
                          int optimizer)
{
    float *directions[RANDOM_PARAMS] = {NULL};
    double slope = 0.0, norm = 0.0;
    for (int p = 0; p < seed_net.n_params; p++)
        if (seed_net.param[p].optimizer == optimizer) {
            directions[p] = along->of[p];
            slope += dot(g->of[p], along->of[p], g->n[p]);
            norm += dot(g->of[p], g->of[p], g->n[p]);
        }
    double loss[2];
    for (int i = 0; i < 2; i++) {
        forward f = {.trace = base->trace, .args = base->args};
        compute(&f, base, directions, i == 0 ? STEP : -STEP);
        loss[i] = loss_of(&f, optimizer);
        forget(&f);
    }
    const double wanted = (loss[0] - loss[1]) / (2.0 * STEP);
    char detail[120];
    snprintf(detail, sizeof detail, "optimizer %d: slope %.9g, differences %.9g, norm %.3g",
             optimizer, slope, wanted, sqrt(norm));
    seed_check(fabs(slope - wanted) <= 2e-3 * sqrt(norm) + 2e-5, "gradient", detail);
}

static void differences(void)
{
    random_life life;
    sw_run_args args;
    gradients g, along = {0};
    sw_dice dice = {seed_net.seed};
    random_net_untie(&seed_net);
    if (learn(&life, &args, &g, false)) {
        swi_trace room = {0};
        forward base = {.args = &args};
        seed_well(swi_program_traced(exec->last, &room, &base.trace), "what was traced");
        compute(&base, NULL, NULL, 0.0);
        for (int p = 0; p < seed_net.n_params; p++) {
            along.of[p] = calloc((size_t)g.n[p] + 1, sizeof(float));
            CU_ASSERT_PTR_NOT_NULL_FATAL(along.of[p]);
            for (int64_t i = 0; i < g.n[p]; i++)
                along.of[p][i] = (float)sw_dice_below(&dice, 2001) / 1000.0f - 1.0f;
        }
        for (int o = 0; o < seed_net.n_optimizers; o++)
            if (learns(o))
                compare_along(&base, &g, &along, o);
        forget(&base);
        swi_trace_free(&room);
    }
    free_gradients(&along);
    free_gradients(&g);
    random_life_end(&life);
}

SW_TEST("gradients are those of the losses")
{
    make_execs();
    seed_each(60, 3000, differences);
}

/* ---- against a twin ---------------------------------------------------------------------- */

static void twins(void)
{
    random_life life[2];
    sw_run_args args;
    gradients g[2];
    const bool well = learn(&life[0], &args, &g[0], false);
    if (learn(&life[1], &args, &g[1], true) && well) {
        double all = 0.0;
        for (int p = 0; p < seed_net.n_params; p++)
            if (g[0].of[p] != NULL)
                all += dot(g[0].of[p], g[0].of[p], g[0].n[p]);
        for (int p = 0; p < seed_net.n_params; p++) {
            if (g[0].of[p] == NULL)
                continue;
            const double norm = sqrt(dot(g[0].of[p], g[0].of[p], g[0].n[p]));
            for (int64_t i = 0; i < g[0].n[p]; i++)
                g[1].of[p][i] -= g[0].of[p][i];
            const double apart = sqrt(dot(g[1].of[p], g[1].of[p], g[1].n[p]));
            char detail[100];
            snprintf(detail, sizeof detail, "p%d: %.3g apart, norm %.3g, of all %.3g", p, apart,
                     norm, sqrt(all));
            seed_check(apart <= 1e-5 * norm + 1e-6 * sqrt(all) + 1e-9, "twin", detail);
        }
    }
    for (int i = 0; i < 2; i++) {
        free_gradients(&g[i]);
        random_life_end(&life[i]);
    }
}

/* Copies of what is used twice, sums and products turned round: other nodes, other order. */
SW_TEST("another way to write it has the same gradients")
{
    make_execs();
    seed_each(60, 3000, twins);
}
