#include "tests/callbacks/fixture.h"
#include "alloc/base/error.h"
#include "callbacks_functions.h"
#include "tests/support/suite.h"
#include <sys/stat.h>
#include <unistd.h>

static union {
    size_t size;
    char bytes[1 << 16];
    double align;
} rooms[8];

void *room(size_t size)
{
    static int next;
    next = (next + 1) % 8;
    memset(&rooms[next], 0, sizeof rooms[next]);
    rooms[next].size = size;
    return &rooms[next];
}

bool rooms_are_empty(void)
{
    bool empty = true;
    for (int i = 0; i < 8; i++)
        for (size_t k = sizeof(size_t); k < 1024; k++)
            empty &= rooms[i].bytes[k] == 0;
    return empty;
}

sw_status fixture_call(fixture *f)
{
    if (f->row != NULL && !f->called) {
        f->called = true;
        const uint64_t said = sw_error_count();
        f->status = f->row->call(f);
        f->failed = f->status > 0 || sw_error_count() != said;
        snprintf(f->text, sizeof f->text, "%s", f->failed ? sw_last_error() : "");
    }
    f->called = true;
    return (sw_status)f->answer;
}

/* ---- callbacks of objects ---------------------------------------------------------------- */

static void step(sw_ctx *ctx, void *user)
{
    fixture *f = user;
    sw_value y = sw_apply_linear(ctx, f->layer, sw_input(ctx, 0));
    sw_value loss = sw_mse(ctx, y, sw_input(ctx, 1));
    sw_metric(ctx, "loss", loss);
    sw_backward(ctx, loss, &f->optimizer, 1);
    sw_update(ctx, f->optimizer);
}

static sw_status member(sw_member_view *view, void *user)
{
    view->score = 1;
    return fixture_call(user);
}

static sw_status explore(int of, const double *donors, double *values, int n, void *user)
{
    return fixture_call(user);
}

static sw_status shape(float *fitness, size_t n, void *user)
{
    return fixture_call(user);
}

static sw_status before(void *user)
{
    return fixture_call(user);
}

static int stop(void *user)
{
    const fixture *f = user;
    return strstr(f->type, "stop") != NULL && fixture_call(user) != SW_OK;
}

static double fitness(const sw_candidate *c, void *user)
{
    fixture *f = user;
    sw_genome *own = f->genome;
    f->genome = (sw_genome *)(uintptr_t)c->genome; /* what it calls is of the candidate's */
    (void)fixture_call(f);
    f->genome = own;
    return 1;
}

static uint32_t parent(sw_evolution *e, uint64_t seed, void *user)
{
    (void)e, (void)seed, (void)fixture_call(user);
    return UINT32_MAX;
}

static double map(double x, void *user)
{
    (void)fixture_call(user);
    return x;
}

/* ---- objects ----------------------------------------------------------------------------- */

static bool base(fixture *f)
{
    const sw_exec_opts exec = SW_OPTS(sw_exec_opts, .threads = f->threads, .shares = 1);
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd");
    const sw_es_opts es =
        SW_OPTS(sw_es_opts, .directions = 2, .repeats = 2, .shape = shape, .shape_user = f);
    if (sw_exec_create(&f->exec, &exec) || sw_model_create(&f->model, "net"))
        return false;
    f->layer = sw_linear_new(f->model, "l", 4, 2);
    if (sw_optimizer_create(&f->optimizer, f->model, &sgd) ||
        sw_es_create(&f->es, f->optimizer, &es) || sw_model_ready(f->model, f->exec, 1) ||
        sw_zo_create(&f->zo, f->model, &SW_OPTS(sw_zo_opts, .max_steps = 4)))
        return false;
    f->param = f->layer.weight;
    f->knob = sw_optimizer_lr(f->optimizer, 0);
    f->bytes = 8 * sizeof(float);
    f->array = (sw_array){SW_F32, SW_SHAPE(4, 4), f->x};
    f->inputs[0] = f->array;
    f->inputs[1] = (sw_array){SW_F32, SW_SHAPE(4, 2), f->label};
    f->run_args = SW_OPTS(sw_run_args, .fn = step, .user = f, .models = &f->model,
                          .n_models = 1, .inputs = f->inputs, .n_inputs = 2);
    f->members_args = SW_OPTS(sw_members_args);
    return sw_run(f->exec, &f->run_args) == SW_OK;
}

static bool group(fixture *f)
{
    sw_members_opts o = SW_OPTS(sw_members_opts, .callback = member, .user = f,
                                .state_bytes = 64, .threads = 1);
    if (sw_model_create(&f->shape, "shape"))
        return false;
    f->shape_knob = sw_knob_new(f->shape, "rate", 0.5f);
    f->shape_param = sw_state_new(f->shape, "state", SW_F32, SW_SHAPE(8));
    o.shape = f->shape;
    if (sw_members_create(&f->members, f->exec, &o) || sw_member_new(&f->member, f->members, 1))
        return false;
    f->members_args.members = &f->member;
    f->members_args.n = 1;
    return true;
}

static bool population(fixture *f)
{
    sw_pbt_opts o = SW_OPTS(sw_pbt_opts, .space = f->space, .members = 4, .interval = 1,
                            .synch = 1, .custom = explore, .user = f);
    return sw_pbt_create(&f->pbt, &o) == SW_OK;
}

static bool evolution(fixture *f)
{
    static sw_fitness term;
    term = strstr(f->type, "map") != NULL
               ? (sw_fitness){.kind = SW_FITNESS_PARAMETERS, .map = map, .user = f}
           : strstr(f->type, "parent") != NULL
               ? (sw_fitness){.kind = SW_FITNESS_PARAMETERS}
               : (sw_fitness){.kind = SW_FITNESS_CUSTOM, .fn = fitness, .user = f};
    if (sw_dataset_synthetic(&f->train, 64, 3))
        return false;
    const sw_evolution_opts o =
        SW_OPTS(sw_evolution_opts, .train = f->train, .validation = f->train,
                .first = (const sw_genome *const *)(void *)&f->genome, .n_first = 1,
                .samples = 64, .validation_samples = 8, .start = 1, .fresh = -1,
                .fitness = &term, .n_fitness = 1, .stop = stop, .stop_user = f,
                .parent = strstr(f->type, "parent") != NULL ? parent : NULL, .parent_user = f);
    return sw_evolution_create(&f->evolution, f->exec, &o) == SW_OK;
}

static bool genome(fixture *f)
{
    const sw_task task =
        SW_OPTS(sw_task, .channels = 1, .height = 28, .width = 28, .classes = 10);
    return sw_search_space_default(&f->search_space, &task) == SW_OK &&
           sw_genome_draw(&f->genome, f->search_space, &task, 1) == SW_OK;
}

bool fixture_make(fixture *f, uint32_t of)
{
    snprintf(f->folder, sizeof f->folder, "%s.%d", sw_temp_path("of"), (int)getpid());
    if (mkdir(f->folder, 0700) != 0 || !base(f))
        return false;
    snprintf(f->path, sizeof f->path, "%s/file", f->folder);
    if (of & (EVOLUTION | NET))
        of |= GENOME;
    if (of & (LOADER | FEED))
        of |= DATASET;
    if (of & PBT)
        of |= SPACE;
    const sw_profile_opts profile = SW_OPTS(sw_profile_opts, .path = NULL);
    const sw_loader_opts loader = SW_OPTS(sw_loader_opts, .batch = 4, .inline_fill = 1);
    const sw_feed_opts feed = SW_OPTS(sw_feed_opts, .batch = 4);
    const sw_checkpoint_opts checkpoint =
        SW_OPTS(sw_checkpoint_opts, .path = f->path, .models = &f->model, .n_models = 1,
                .before = before, .user = f);
    const sw_hyper rate =
        SW_OPTS(sw_hyper, .name = "rate", .kind = SW_UNIFORM, .low = 0, .high = 1);
    return (!(of & BUDGET) || sw_budget_create(&f->budget, 1u << 20) == SW_OK) &&
           (!(of & PROFILE) || sw_profile_create(&f->profile, &profile) == SW_OK) &&
           (!(of & DATASET) || sw_dataset_vectors(&f->dataset, 16, 4, 1) == SW_OK) &&
           (!(of & LOADER) || sw_loader_create(&f->loader, f->dataset, &loader) == SW_OK) &&
           (!(of & FEED) || sw_feed_create(&f->feed, f->dataset, &feed) == SW_OK) &&
           (!(of & CHECKPOINT) ||
            sw_checkpoint_create(&f->checkpoint, f->exec, &checkpoint) == SW_OK) &&
           (!(of & MEMBERS) || group(f)) &&
           (!(of & SPACE) ||
            (sw_space_create(&f->space) == SW_OK && sw_space_add(f->space, &rate) == SW_OK)) &&
           (!(of & PBT) || population(f)) && (!(of & (GENOME | SEARCH_SPACE)) || genome(f)) &&
           (!(of & NET) || sw_net_create(&f->net, f->genome, NULL) == SW_OK) &&
           (!(of & EVOLUTION) || evolution(f));
}

/* An object that the callback destroyed is gone. */
static bool was_ended(const fixture *f, uint32_t of)
{
    return f->row != NULL && f->row->ends && (f->row->of & of) != 0 && !f->failed;
}

void fixture_end(fixture *f)
{
#define END(of, destroy, object)                                                               \
    if (!was_ended(f, of))                                                                     \
    destroy(object)
    END(EVOLUTION, sw_evolution_destroy, f->evolution);
    END(NET, sw_net_destroy, f->net);
    END(GENOME, sw_genome_destroy, f->genome);
    END(SEARCH_SPACE, sw_search_space_destroy, f->search_space);
    END(PBT, sw_pbt_destroy, f->pbt);
    END(SPACE, sw_space_destroy, f->space);
    if (!was_ended(f, MEMBERS))
        sw_members_destroy(f->members);
    sw_model_destroy(f->shape);
    END(CHECKPOINT, sw_checkpoint_destroy, f->checkpoint);
    END(FEED, sw_feed_destroy, f->feed);
    END(LOADER, sw_loader_destroy, f->loader);
    END(DATASET, sw_dataset_destroy, f->dataset);
    sw_dataset_destroy(f->train);
    END(ZO, sw_zo_destroy, f->zo);
    END(ES, sw_es_destroy, f->es);
    END(MODEL, sw_model_destroy, f->model);
    END(EXEC, sw_exec_destroy, f->exec);
    if (!was_ended(f, PROFILE) && f->profile != NULL)
        (void)!sw_profile_destroy(f->profile);
    END(BUDGET, sw_budget_destroy, f->budget);
}
