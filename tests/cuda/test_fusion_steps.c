/* Ops that are launched with the one before them, in whole steps on the card that is not there:
 * which are, that each way to run has the same bits, and that the figures of a run are true of
 * them. */
#include "profiler/record/record.h"
#include "runtime/exec/queue_internal.h"
#include "tests/cuda/fake_card.h"
#include "tests/cuda/device_scenes.h"
#include "tests/support/suite.h"

SW_TESTS("steps in pairs")

#define STEPS 3
#define NO_SUCH_FUNCTION 98 /* an error of CUDA that leaves the card as it is */

/* A card with a library of products, or without, where all of them are our own. */
static const sw_fake_api *fresh(uint64_t lazy, bool library)
{
    return sw_fake_card_new(&(sw_fake_card){.no_products = !library}, lazy);
}

/* ---- steps ------------------------------------------------------------------------------- */

/* The ops between a product and its relu, and around them. */
enum SW_INIT(PLAIN, LEAKY, TWICE, VIEW, TWO, RESULT, READ_BY_ANOTHER, READ_BY_A_VIEW, OUTPUT,
             PHASE, BETWEEN, PART, SUM, BITS, CURVE, KINDS);
static const struct {
    const char *name;
    uint32_t fusions; /* that there have to be */
} kinds[KINDS] = {{"relu", 1},
                  {"leaky relu", 1},
                  {"relu of relu, which keeps bits", 0},
                  {"relu of all, seen in another shape", 1},
                  {"two layers", 2},
                  {"the result is an output", 1},
                  {"another op reads the sum too", 0},
                  {"another op reads the sum by a view", 0},
                  {"the sum is an output", 0},
                  {"relu in another phase", 0},
                  {"an op between", 0},
                  {"relu of some rows", 0},
                  {"relu of two products' sum", 0},
                  {"relu keeps bits", 0},
                  {"another curve", 0}};
static int kind; /* of the scene that is built */
static sw_update_time when;

typedef struct {
    sw_linear in, side, more, out;
} net;

static void build(sw_model *model, void *to)
{
    *(net *)to =
        (net){sw_linear_new(model, "in", 20, 16), sw_linear_new(model, "side", 20, 16),
              sw_linear_new(model, "more", 16, 16), sw_linear_new(model, "out", 16, 5)};
}

static sw_value hidden(sw_ctx *c, const net *n, sw_value x)
{
    const sw_value y = sw_apply_linear(c, n->in, x);
    sw_value z = {0};
    switch (kind) {
    case LEAKY:
        return sw_leaky_relu(c, y, 0.1f);
    case TWICE:
        return sw_relu(c, sw_relu(c, y));
    case VIEW:
        z = sw_relu(c, sw_reshape(c, y, SW_SHAPE(3, 4, 16)));
        return sw_reshape(c, z, SW_SHAPE(12, 16));
    case TWO:
        return sw_relu(c, sw_apply_linear(c, n->more, sw_relu(c, y)));
    case RESULT:
        z = sw_relu(c, y);
        sw_output(c, "y", z);
        return z;
    case READ_BY_ANOTHER:
        return sw_add(c, sw_relu(c, y), y);
    case READ_BY_A_VIEW:
        z = sw_reshape(c, y, SW_SHAPE(192));
        return sw_add(c, sw_relu(c, y), sw_reshape(c, z, SW_SHAPE(12, 16)));
    case OUTPUT:
        sw_output(c, "y", y);
        return sw_relu(c, y);
    case PHASE:
        sw_set_phase(c, SW_LOSS);
        z = sw_relu(c, y);
        sw_clear_phase(c);
        return z;
    case BETWEEN:
        z = sw_apply_linear(c, n->side, x);
        return sw_add(c, sw_relu(c, y), sw_tanh(c, z));
    case PART:
        return sw_relu(c, sw_slice(c, y, 0, 0, 7));
    case SUM:
        return sw_relu(c, sw_add(c, y, sw_apply_linear(c, n->side, x)));
    case BITS:
        z = sw_relu(c, y);
        return sw_add(c, z, sw_apply_linear(c, n->side, x));
    case CURVE:
        return sw_swish(c, y);
    default:
        return sw_relu(c, y);
    }
}

static void step(sw_ctx *c, void *user)
{
    sw_scene_net *scene = user;
    const net *n = (const net *)scene->layers.bytes;
    const sw_value y = sw_apply_linear(c, n->out, hidden(c, n, sw_input(c, 0)));
    const sw_value loss = sw_mean(c, sw_mul(c, y, y), 3u);
    sw_metric(c, "loss", loss);
    sw_backward(c, loss, &scene->optimizer, 1);
    sw_update(c, scene->optimizer);
}

static const sw_scene *scene_of(int which)
{
    static sw_scene scene = {
        NULL,   "sgd", 0.05f,
        build,  step,  {{SW_F32, {2, {12, 20}}, NULL}, {SW_I32, {1, {12}}, NULL}},
        {0, 5},
    };
    kind = which;
    scene.name = kinds[which].name;
    scene.update = when;
    return &scene;
}

/* ---- what was launched ------------------------------------------------------------------- */

typedef struct {
    uint32_t fusions, ops;
    uint32_t grouped;         /* ops that go out with one after them */
    int apart;                /* 1: from the second step on launch all ops by themselves */
    uint64_t launched[STEPS]; /* by each step, captures left out */
    sw_plan_info plan;        /* made before the first step */
    uint32_t told, reused;    /* ops in the log of the last step; results in another's place */
} seen;

static void look(void *context, sw_exec *exec, const sw_model *model, int at)
{
    seen *s = context;
    const swi_program *p = exec->last;
    sw_fake_counts c;
    sw_fake_card_api()->counts(&c);
    s->launched[at] = sw_fake_all_run(&c);
    for (int i = 0; i < at; i++)
        s->launched[at] -= s->launched[i];
    if (p == NULL)
        return;
    s->fusions = s->told = s->reused = s->grouped = 0;
    s->ops = p->n_ops;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        s->fusions += p->ops[i].fusion != NULL;
        s->grouped += p->ops[i].left > 0;
    }
    for (uint32_t i = 0; exec->rec.log != NULL && i < exec->rec.log->n; i++) {
        s->told += exec->rec.log->ring[i].kind == SW_RECORD_OP;
        s->reused += exec->rec.log->ring[i].kind == SW_RECORD_REUSE;
    }
    for (uint32_t i = 0; i < p->n_ops && s->apart != 0; i++) {
        p->ops[i].fusion = NULL;
        p->ops[i].left = 0;
    }
}

/* ---- which, and the same bits ------------------------------------------------------------ */

static const struct {
    const char *what;
    sw_scene_run run;
    uint64_t lazy;
} ways[] = {{"immediate", {.immediate = true}, 0}, /* the first for all, others for pairs */
            {"op by op", {.no_graphs = true}, 0},
            {"each op waited for", {.sync_ops = true}, 0},
            {"nothing in place", {.no_inplace = true}, 0},
            {"late", {0}, 1},
            {"in between", {0}, 3}};

/* Steps on a card; which pairs there were, and what it left. */
static sw_scene_end went(const sw_scene *scene, sw_scene_run run, bool library, uint64_t lazy,
                         seen *s)
{
    fresh(lazy, library);
    run.device = "cuda";
    run.steps = STEPS;
    run.plan = run.immediate ? NULL : &s->plan;
    run.after = look;
    run.context = s;
    const sw_scene_end end = sw_scene_trained(scene, run);
    return end;
}

static void each_way_has_the_bits(const sw_scene *scene, uint32_t fusions)
{
    seen s = {0};
    sw_scene_end first = went(scene, (sw_scene_run){0}, false, 0, &s);
    SW_CHECK(s.fusions == fusions, "%s: %d pairs", scene->name, (int)s.fusions);
    for (size_t w = 0; w < (fusions > 0 ? sizeof ways / sizeof *ways : 1); w++) {
        seen other = {0};
        sw_scene_end end = went(scene, ways[w].run, false, ways[w].lazy, &other);
        SW_CHECK(sw_scene_same_bits(&first, &end), "%s, %s: %g apart", scene->name,
                 ways[w].what, sw_scene_apart(&first, &end));
        const bool one = ways[w].run.immediate || ways[w].run.no_inplace;
        SW_CHECK(other.fusions == (one ? 0 : fusions), "%s, %s: %d pairs", scene->name,
                 ways[w].what, (int)other.fusions);
    }
}

SW_TEST("each kind is launched as it may be")
{
    for (int i = 0; i < KINDS; i++) {
        each_way_has_the_bits(scene_of(i), kinds[i].fusions);
        sw_scene_end cpu = sw_scene_trained(scene_of(i), (sw_scene_run){.steps = STEPS});
        seen s = {0};
        sw_scene_end card = went(scene_of(i), (sw_scene_run){0}, false, 0, &s);
        const double d = sw_scene_apart(&card, &cpu);
        SW_CHECK(d < 2e-5, "%s: parameters are %g apart", kinds[i].name, d);
    }
}

SW_TEST("whole nets have the same bits")
{
    each_way_has_the_bits(sw_scene_of("mlp"), 0); /* dropout keeps no result: relu keeps bits */
    each_way_has_the_bits(sw_scene_of("lenet5"), 2);
}

/* Products that the library computes are in no pair. */
SW_TEST("a library has its products alone")
{
    for (int i = 0; i < KINDS; i++) {
        seen s = {0};
        (void)went(scene_of(i), (sw_scene_run){0}, true, 0, &s);
        CU_ASSERT(s.fusions == 0 && s.ops > 0);
    }
}

/* ---- what is launched, told and blamed --------------------------------------------------- */

/* A launch less for each pair and each op of a group but the last, replayed too, than the same
 * program with all ops apart. */
SW_TEST("a pair is a launch less, and a group one launch")
{
    const sw_scene *const scenes[] = {
        scene_of(TWO), sw_scene_of("lenet5"), sw_scene_of("mlp adam"),
        sw_scene_of("mlp, adam in 8 bits"), sw_scene_of("batch norm")};
    static const uint32_t pairs[] = {2, 2, 0, 0, 0};
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        seen graphs = {0}, ops = {0}, apart = {.apart = 1};
        sw_scene_end ends[] = {
            went(scenes[i], (sw_scene_run){0}, false, 0, &graphs),
            went(scenes[i], (sw_scene_run){.no_graphs = true}, false, 0, &ops),
            went(scenes[i], (sw_scene_run){.no_graphs = true}, false, 0, &apart)};
        CU_ASSERT(ops.fusions == pairs[i] && apart.fusions == 0 && ops.ops == apart.ops);
        CU_ASSERT(ops.grouped > 4 && apart.grouped == 0);
        CU_ASSERT_EQUAL(apart.launched[0], ops.launched[0]); /* not yet */
        for (int k = 1; k < STEPS; k++) {
            SW_CHECK(ops.launched[k] + ops.fusions + ops.grouped == apart.launched[k],
                     "%s: %d launches, %d apart, %d pairs, %d in groups", scenes[i]->name,
                     (int)ops.launched[k], (int)apart.launched[k], (int)ops.fusions,
                     (int)ops.grouped);
            CU_ASSERT_EQUAL(graphs.launched[k], ops.launched[k]);
            CU_ASSERT_EQUAL(ops.plan.launches, ops.launched[k]);
        }
        CU_ASSERT(sw_scene_same_bits(&ends[0], &ends[1]) &&
                  sw_scene_same_bits(&ends[0], &ends[2]));
    }
}

/* Checks and updates that are released wait for each other on a card, below the arena that
 * they had without; in immediate mode none does. */
SW_TEST("released updates go out together, in no more memory")
{
    seen after = {0}, released = {0}, immediate = {0};
    sw_scene_end ends[] = {went(scene_of(TWO), (sw_scene_run){0}, false, 0, &after), {0}, {0}};
    when = SW_UPDATE_RELEASE;
    ends[1] = went(scene_of(TWO), (sw_scene_run){0}, false, 0, &released);
    ends[2] = went(scene_of(TWO), (sw_scene_run){.immediate = true}, false, 0, &immediate);
    when = SW_UPDATE_DEFAULT;
    SW_CHECK(released.grouped >= 6 && after.grouped == 2 * (6 - 1), /* of six parameters */
             "%d ops go out with others, %d after backward", (int)released.grouped,
             (int)after.grouped);
    CU_ASSERT(released.plan.arena_bytes <= after.plan.arena_bytes);
    CU_ASSERT(sw_scene_same_bits(&ends[0], &ends[1]) && sw_scene_same_bits(&ends[0], &ends[2]));
}

/* A profile has each op of each run, and each result that takes another's place, launched by
 * itself or not; and the run the same bits. */
SW_TEST("a profile has all ops")
{
    sw_profile *profile = NULL;
    const sw_profile_opts opts = {sizeof opts, .path = sw_temp_path("pairs.jsonl"),
                                  .events = 1};
    CU_ASSERT_EQUAL_FATAL(sw_profile_create(&profile, &opts), SW_OK);
    seen with = {0}, without = {0};
    sw_scene_end a = went(scene_of(TWO), (sw_scene_run){.profile = profile}, false, 0, &with);
    sw_scene_end b = went(scene_of(TWO), (sw_scene_run){0}, false, 0, &without);
    CU_ASSERT_EQUAL(sw_profile_destroy(profile), SW_OK);
    CU_ASSERT(sw_scene_same_bits(&a, &b));
    CU_ASSERT(with.fusions == 2 && with.told == with.ops && with.ops == without.ops);
    CU_ASSERT(with.reused >= with.fusions);
    CU_ASSERT_EQUAL(with.launched[STEPS - 1], without.launched[STEPS - 1]);
}

/* Waited for op by op, a launch that fails is said to be that of its first op. */
SW_TEST("a fault is of the first op")
{
    uint32_t named = 0;
    for (uint64_t k = 0;; k++) {
        const sw_fake_api *f = fresh(0, false);
        const sw_scene_run run = {.device = "cuda", .steps = 1, .sync_ops = true};
        f->fail("launch", k, NO_SUCH_FUNCTION);
        const sw_status status = sw_scene_train(scene_of(TWO), &run, NULL);
        if (f->failed() == NULL)
            break;
        CU_ASSERT_EQUAL(status, SW_DEVICE);
        const char *said = strstr(sw_last_error(), "linear, relu");
        named += said != NULL && strstr(sw_last_error(), " linear: ") != NULL;
        SW_CHECK(strstr(sw_last_error(), " relu: relu") == NULL, "%s", sw_last_error());
    }
    CU_ASSERT_EQUAL(named, 2);
}
