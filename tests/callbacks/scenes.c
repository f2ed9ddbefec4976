/* Each callback of the library, and a call that has it called. */
#include "tests/callbacks/fixture.h"
#include "callbacks_functions.h"
#include "tests/support/png_make.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void calling_step(sw_ctx *ctx, void *user)
{
    fixture *f = user;
    f->ctx = ctx;
    (void)fixture_call(f);
    f->ctx = NULL;
}

static sw_run_args calling(fixture *f)
{
    sw_run_args args = f->run_args;
    args.fn = calling_step;
    return args;
}

static int traced(fixture *f)
{
    const sw_run_args args = calling(f);
    return (int)sw_run(f->exec, &args);
}

static int immediate(fixture *f)
{
    sw_run_args args = calling(f);
    args.immediate = 1;
    return (int)sw_run(f->exec, &args);
}

static int with_noise(fixture *f)
{
    sw_run_args args = calling(f);
    args.es = f->es;
    return (int)sw_run(f->exec, &args);
}

static sw_value hook(sw_ctx *ctx, sw_param param, sw_value gradient, void *user)
{
    (void)ctx, (void)param, (void)fixture_call(user);
    return gradient;
}

static sw_value loss(sw_ctx *ctx, sw_value logits, sw_value labels, void *user)
{
    (void)fixture_call(user);
    return sw_softmax_ce(ctx, logits, labels);
}

/* A net of the fixture's genome, priced with what calls. */
static int hooked(fixture *f)
{
    const sw_net_opts o = SW_OPTS(sw_net_opts, .hook = hook, .hook_user = f);
    return (int)sw_genome_price(f->genome, f->exec, &o, SW_U8, &SW_OPTS(sw_price));
}

static int lost(fixture *f)
{
    const sw_named_loss own = {.name = "cross_entropy_of_the_fixture", .fn = loss, .user = f};
    const sw_net_opts o = SW_OPTS(sw_net_opts, .losses = &own, .n_losses = 1);
    char *text = NULL, other[1 << 14];
    size_t n = 0;
    sw_genome *genome = NULL;
    if (sw_genome_print(f->genome, &text, &n) || n >= sizeof other / 2)
        return -1;
    char *at = strstr(text, "\"cross_entropy\"");
    if (at == NULL)
        return -1;
    snprintf(other, sizeof other, "%.*s\"%s\"%s", (int)(at - text), text, own.name,
             at + strlen("\"cross_entropy\""));
    sw_text_free(text, n);
    if (sw_genome_parse(&genome, other, strlen(other), "made"))
        return -1;
    const int status = (int)sw_genome_price(genome, f->exec, &o, SW_U8, &SW_OPTS(sw_price));
    sw_genome_destroy(genome);
    return status;
}

/* ---- visitors ---------------------------------------------------------------------------- */

static void see_op(void *to, uint32_t position, const char *name, sw_phase phase)
{
    (void)position, (void)name, (void)phase, (void)fixture_call(to);
}

static void see_storage(void *to, const sw_plan_storage *storage)
{
    (void)storage, (void)fixture_call(to);
}

static void see_layer(void *to, const sw_plan_layer *layer)
{
    (void)layer, (void)fixture_call(to);
}

static void see_share(void *to, const sw_share *share)
{
    (void)share, (void)fixture_call(to);
}

static int plan_ops(fixture *f)
{
    const sw_plan_visitor v = SW_OPTS(sw_plan_visitor, .to = f, .op = see_op);
    return (int)sw_plan_visit(f->exec, &f->run_args, &v);
}

static int plan_storages(fixture *f)
{
    const sw_plan_visitor v = SW_OPTS(sw_plan_visitor, .to = f, .storage = see_storage);
    return (int)sw_plan_visit(f->exec, &f->run_args, &v);
}

static int plan_layers(fixture *f)
{
    return (int)sw_plan_layers(f->exec, &f->run_args, see_layer, f);
}

static int plan_shares(fixture *f)
{
    return (int)sw_plan_shares(f->exec, &f->run_args, see_share, f);
}

static int last_shares(fixture *f)
{
    return (int)sw_last_shares(f->exec, see_share, f);
}

static int members_storages(fixture *f)
{
    const sw_plan_visitor v = SW_OPTS(sw_plan_visitor, .to = f, .storage = see_storage);
    return (int)sw_members_visit(f->members, &v);
}

/* ---- populations ------------------------------------------------------------------------- */

static int members(fixture *f)
{
    sw_status status = SW_OK;
    const sw_status ran = sw_members_run(f->members, &f->members_args);
    return ran != SW_OK || sw_members_status(f->members, &status, 1) != SW_OK ? (int)ran
                                                                              : (int)status;
}

/* With two threads, of which the second runs a part. */
static int members_aside(fixture *f)
{
    sw_member many[8];
    sw_status status[8] = {SW_OK}, worst = SW_OK;
    sw_members_args args = f->members_args;
    many[0] = f->member;
    for (int i = 1; i < 8; i++)
        if (sw_member_new(&many[i], f->members, (uint64_t)i) != SW_OK)
            return -1;
    args.members = many;
    args.n = 8;
    const sw_status ran = sw_members_run(f->members, &args);
    if (ran != SW_OK || sw_members_status(f->members, status, 8) != SW_OK)
        return (int)ran;
    for (int i = 0; i < 8; i++)
        worst = status[i] != SW_OK ? status[i] : worst;
    return (int)worst;
}

static int explored(fixture *f)
{
    sw_pbt_event e = SW_OPTS(sw_pbt_event);
    sw_status status = SW_OK;
    int who[4], n;
    double until;
    status = sw_pbt_next(f->pbt, who, 4, &n, &until);
    for (int i = 0; i < n && status == SW_OK; i++)
        status = sw_pbt_report(f->pbt, who[i], until, i);
    while (status == SW_OK) {
        status = sw_pbt_next_event(f->pbt, &e);
        if (e.what == SW_PBT_NONE)
            break;
    }
    return (int)status;
}

static int shaped(fixture *f)
{
    for (uint32_t d = 0; d < 2; d++)
        for (uint32_t r = 0; r < 2; r++)
            if (sw_es_tell(f->es, d, r, (float)(d + r)) != SW_OK)
                return -1;
    return (int)sw_es_step(f->es, f->exec, NULL);
}

static sw_status behind_step(void *user, uint64_t step, uint64_t steps)
{
    return fixture_call(user);
}

static void forward(sw_ctx *ctx, void *user)
{
    const fixture *f = user;
    const sw_value y = sw_apply_linear(ctx, f->layer, sw_input(ctx, 0));
    sw_metric(ctx, "loss", sw_mse(ctx, y, sw_input(ctx, 1)));
}

/* The record of two steps, and the model as it was before. */
static int replayed(fixture *f)
{
    float first[8];
    char path[300];
    snprintf(path, sizeof path, "%s/record", f->folder);
    sw_run_args args = f->run_args;
    args.mode = SW_EVAL;
    args.fn = forward;
    sw_param bias = f->layer.bias;
    float bias_first[2];
    if (sw_param_read(f->param, first, sizeof first) ||
        sw_param_read(bias, bias_first, sizeof bias_first))
        return -1;
    for (int i = 0; i < 2; i++)
        if (sw_zo_step(f->zo, f->exec, &args, "loss", NULL) != SW_OK)
            return -1;
    if (sw_zo_save(f->zo, path) || sw_param_write(f->param, first, sizeof first) ||
        sw_param_write(bias, bias_first, sizeof bias_first))
        return -1;
    return (int)sw_zo_replay(f->model, f->exec, path, behind_step, f);
}

/* ---- genomes ----------------------------------------------------------------------------- */

static int filter(const sw_genome *genome, uint32_t vertex, void *user)
{
    (void)genome, (void)vertex, (void)fixture_call(user);
    return 1;
}

static void record(const sw_mutation_record *record, void *user)
{
    (void)record, (void)fixture_call(user);
}

static int fits(const sw_genome *genome, void *user)
{
    return -(int)fixture_call(user) == 0;
}

static int mutated(fixture *f, sw_vertex_filter *by, sw_mutation_fn *noted, sw_genome_fits *ask)
{
    const sw_mutation rate[2] = {
        {.kind = SW_MUTATE_ACTIVATION, .probability = 1, .filter = by, .user = f},
        {.kind = SW_MUTATE_SIZE, .probability = 1, .filter = by, .user = f}};
    const sw_mutate_opts o =
        SW_OPTS(sw_mutate_opts, .mutations = rate, .n_mutations = 2, .space = f->search_space,
                .record = noted, .record_user = f, .fits = ask, .fits_user = f);
    sw_genome *child = NULL;
    const sw_status status = sw_genome_mutate(&child, f->genome, &o);
    if (status == SW_OK)
        sw_genome_destroy(child);
    return (int)status;
}

static int filtered(fixture *f)
{
    return mutated(f, filter, NULL, NULL);
}

static int recorded(fixture *f)
{
    return mutated(f, NULL, record, NULL);
}

static int fitted(fixture *f)
{
    return mutated(f, NULL, NULL, fits);
}

/* Calls are of the genome that it is given. */
static sw_status edit(sw_genome *genome, uint64_t seed, void *user)
{
    fixture *f = user;
    sw_genome *own = f->genome;
    (void)seed;
    f->genome = genome;
    const sw_status status = fixture_call(f);
    f->genome = own;
    return status;
}

static int edited(fixture *f)
{
    const sw_mutation own = {.kind = SW_MUTATE_CUSTOM, .probability = 1, .user = f, .fn = edit};
    sw_genome *child = NULL;
    const sw_status status = sw_genome_mutate(
        &child, f->genome, &SW_OPTS(sw_mutate_opts, .mutations = &own, .n_mutations = 1));
    if (status == SW_OK)
        sw_genome_destroy(child);
    return (int)status;
}

static int advanced(fixture *f)
{
    sw_status status = SW_OK;
    for (int i = 0; i < 200 && status == SW_OK && !f->called; i++)
        status = sw_evolution_advance(f->evolution, &SW_OPTS(sw_evolve_progress));
    return (int)status;
}

/* ---- files and ops ----------------------------------------------------------------------- */

static int saved(fixture *f)
{
    return (int)sw_checkpoint_save(f->checkpoint, 1);
}

static int looked_at(void *user, int64_t done, int64_t all)
{
    return fixture_call(user) != SW_OK;
}

static int images(fixture *f)
{
    static unsigned char png[4096];
    const png_image image = {.w = 2, .h = 2, .depth = 8, .type = PNG_GRAY};
    const sw_images_opts o = SW_OPTS(sw_images_opts, .progress = looked_at, .user = f);
    sw_dataset *d = NULL;
    char at[300];
    snprintf(at, sizeof at, "%s/a", f->folder);
    if (mkdir(at, 0700) != 0)
        return -1;
    snprintf(at, sizeof at, "%s/a/a.png", f->folder);
    FILE *file = fopen(at, "wb");
    const size_t n = png_make(png, sizeof png, &image);
    if (file == NULL || fwrite(png, 1, n, file) != n || fclose(file) != 0)
        return -1;
    const sw_status status = sw_dataset_images(&d, NULL, f->folder, &o);
    sw_dataset_destroy(d);
    return (int)status;
}

static fixture *of_ops; /* ops have no user */
static const char *calling_part;

static void call_from(const char *part)
{
    if (of_ops != NULL && strcmp(part, calling_part) == 0)
        (void)fixture_call(of_ops);
}

static sw_status twice_infer(const sw_type *in, int n_in, const void *attrs, sw_type *out)
{
    *out = in[0];
    call_from("infer");
    return of_ops != NULL && strcmp("infer", calling_part) == 0 ? (sw_status)of_ops->answer
                                                                : SW_OK;
}

static sw_status twice_forward(const sw_launch *l)
{
    const float *x = l->in[0].ptr;
    float *y = l->out[0].ptr;
    for (int64_t i = 0; i < sw_type_elements(&l->in[0].type); i++)
        y[i] = 2 * x[i];
    call_from("kernel");
    return of_ops != NULL && strcmp("kernel", calling_part) == 0 ? (sw_status)of_ops->answer
                                                                 : SW_OK;
}

static sw_status twice_reference(const sw_reference *r)
{
    for (int64_t i = 0; i < sw_type_elements(r->in_type); i++)
        r->out[0][i] = 3 * r->in[0][i]; /* so that the check has something to report */
    return SW_OK;
}

static uint32_t twice(void)
{
    static const sw_op_case some = {
        .name = "matrix", .n_in = 1, .in = {{SW_F32, SW_PLAIN, {2, {3, 5}}}}};
    static const sw_op_desc desc = {.size = sizeof desc,
                                    .name = "callbacks.twice",
                                    .n_in = 1,
                                    .n_out = 1,
                                    .infer = twice_infer,
                                    .forward = twice_forward,
                                    .no_gradient = 1,
                                    .reference = twice_reference,
                                    .cases = &some,
                                    .n_cases = 1};
    uint32_t id = 0;
    return sw_op_register(&desc, &id) == SW_OK ? id : 0;
}

static void twice_step(sw_ctx *ctx, void *user)
{
    const sw_value x = sw_input(ctx, 0);
    sw_output(ctx, "twice", sw_op_apply(ctx, *(const uint32_t *)user, &x, 1, NULL));
}

static int of_an_op(fixture *f, const char *part)
{
    uint32_t id = twice();
    sw_run_args args = f->run_args;
    args.fn = twice_step;
    args.user = &id;
    args.mode = SW_EVAL;
    of_ops = f;
    calling_part = part;
    const sw_status status = id != 0 ? sw_run(f->exec, &args) : SW_INVALID;
    of_ops = NULL;
    return (int)status;
}

static int inferred(fixture *f)
{
    return of_an_op(f, "infer");
}

static int kernel(fixture *f)
{
    return of_an_op(f, "kernel");
}

static void report(void *to, const char *line)
{
    (void)line, (void)fixture_call(to);
}

static int checked(fixture *f)
{
    uint32_t checks, failures;
    return (int)sw_op_check(twice(), report, f, &checks, &failures);
}

/* ---- the table --------------------------------------------------------------------------- */

const scene scenes[] = {
    {"a step function, traced", "sw_step_fn", 0, 0, EXEC | MODEL, true, false, traced},
    {"a step function, immediate", "sw_step_fn", 0, 0, EXEC | MODEL, true, false, immediate},
    {"a step function with noise", "sw_step_fn", ES, ES, EXEC | MODEL, true, false, with_noise},
    {"the gradient hook of a net", "sw_gradient_fn", GENOME, 0, EXEC | GENOME, true, false,
     hooked},
    {"the loss of a net", "sw_loss_fn", GENOME, 0, EXEC, true, false, lost},
    {"op of a plan", "sw_plan_visitor.op", 0, 0, EXEC | MODEL, true, false, plan_ops},
    {"storage of a plan", "sw_plan_visitor.storage", 0, 0, EXEC | MODEL, true, false,
     plan_storages},
    {"layers", "sw_plan_layer_visitor", 0, 0, EXEC | MODEL, true, false, plan_layers},
    {"shares of a plan", "sw_share_visitor", 0, 0, EXEC | MODEL, true, false, plan_shares},
    {"shares of the last run", "sw_share_visitor", 0, 0, EXEC, true, false, last_shares},
    {"tensors of members", "sw_plan_visitor.storage", MEMBERS, 0, EXEC | MEMBERS, true, false,
     members_storages},
    {"a member", "sw_member_fn", MEMBERS, MEMBERS, EXEC, true, true, members},
    {"a member on any thread", "sw_member_fn", MEMBERS, MEMBERS, EXEC, true, true,
     members_aside},
    {"custom", "sw_explore_fn", PBT, PBT, 0, false, true, explored},
    {"shape", "sw_es_shape_fn", ES, ES, EXEC | MODEL, false, true, shaped},
    {"progress of a replay", "sw_zo_progress_fn", ZO, 0, EXEC | MODEL, false, true, replayed},
    {"filter", "sw_vertex_filter", GENOME, 0, GENOME | SEARCH_SPACE, false, false, filtered},
    {"record", "sw_mutation_fn", GENOME, 0, GENOME | SEARCH_SPACE, false, false, recorded},
    {"fits", "sw_genome_fits", GENOME, 0, GENOME | SEARCH_SPACE, false, false, fitted},
    {"edit", "sw_edit_fn", GENOME, 0, GENOME, false, false, edited},
    {"stop", "sw_evolution_opts.stop", EVOLUTION, EVOLUTION, EXEC, false, false, advanced},
    {"fitness", "sw_fitness_fn", EVOLUTION, EVOLUTION, EXEC | GENOME, false, false, advanced},
    {"parent", "sw_parent_fn", EVOLUTION, EVOLUTION, EXEC, false, false, advanced},
    {"map", "sw_fitness.map", EVOLUTION, EVOLUTION, EXEC, false, false, advanced},
    {"before", "sw_checkpoint_opts.before", CHECKPOINT, CHECKPOINT, EXEC | MODEL, false, true,
     saved},
    {"progress of images", "sw_images_opts.progress", 0, 0, 0, false, false, images},
    {"infer", "sw_op_desc.infer", 0, 0, EXEC | MODEL, true, true, inferred},
    {"kernel", "sw_kernel", 0, 0, EXEC | MODEL, true, true, kernel},
    {"report", "sw_op_check.report", 0, 0, 0, false, false, checked},
};
const size_t n_scenes = sizeof scenes / sizeof *scenes;
