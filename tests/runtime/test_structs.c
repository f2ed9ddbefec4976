/* Structs that begin with their size: every size of every one, and that none is forgotten. */
#include "runtime/base/checksum.h"
#include "runtime/base/structs.h"
#include "tests/runtime/nets.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    sw_exec *exec;
    net *n;
    batch b;
    sw_run_args args;
    net *other; /* that is alike */
    sw_dataset *data;
    const char *text_path, *csv_path, *npy_path, *no_folder;
} scene;

/* Bytes of a struct of any size, with what it needs to be accepted. */
typedef union {
    size_t size;
    unsigned char bytes[8192];
    sw_exec_opts exec;
    sw_run_args run;
    sw_optimizer_opts optimizer;
    sw_schedule schedule;
    sw_loader_opts loader;
    sw_feed_opts feed;
    sw_op_desc op;
    sw_conv_opts conv;
    sw_conv_transpose_opts transpose;
    sw_checkpoint_opts checkpoint;
    sw_members_opts members;
    sw_members_args group;
    sw_hyper hyper;
    sw_pbt_opts pbt;
    sw_es_opts es;
    sw_zo_opts zo;
    sw_resize_opts resize;
    sw_task task;
    sw_net_opts net;
    sw_mutate_opts mutate;
    sw_crossover_opts crossover;
    sw_evolution_opts evolution;
} room;

static const char *a_file(const char *name, const char *text)
{
    const char *path = sw_temp_path(name);
    FILE *f = fopen(path, "w");
    if (f != NULL) {
        fputs(text, f);
        fclose(f);
    }
    return path;
}

/* Two arrays of two numbers, 0 and 0, as one name. */
static const char *two_arrays(void)
{
    static char both[2048];
    both[0] = 0;
    static const char head[] = "\x93NUMPY\1\0v\0{'descr': '|u1', 'fortran_order': False, "
                               "'shape': (2,), }",
                      *const names[] = {"sizes-x.npy", "sizes-y.npy"};
    char whole[130];
    memset(whole, ' ', sizeof whole);
    memcpy(whole, head, sizeof head - 1);
    whole[127] = '\n';
    whole[128] = whole[129] = 0;
    for (int i = 0; i < 2; i++) {
        const char *path = sw_temp_path(names[i]);
        FILE *f = fopen(path, "wb");
        snprintf(both + strlen(both), sizeof both - strlen(both), "%s%s", i > 0 ? "," : "",
                 path);
        if (f != NULL) {
            fwrite(whole, 1, sizeof whole, f);
            fclose(f);
        }
    }
    return both;
}

static scene scene_new(void)
{
    scene s = {.exec = net_exec(NULL), .n = net_new(false, NULL), .b = net_batch(false, 0, 4)};
    s.other = net_new(false, NULL);
    OK(sw_dataset_synthetic(&s.data, 16, 1));
    s.text_path = a_file("sizes.txt", "some bytes of a text that is long enough for windows");
    s.no_folder = sw_temp_path("no folder");
    s.npy_path = two_arrays();
    s.csv_path = a_file("sizes.csv", "1,2,0\n3,4,1\n5,6,0\n7,8,1\n9,8,1\n");
    return s;
}

/* ---- one call for each struct ------------------------------------------------------------ */

static sw_status try_exec(scene *s, room *r)
{
    sw_exec *made = NULL;
    (void)s;
    const sw_status status = sw_exec_create(&made, &r->exec);
    sw_exec_destroy(made);
    return status;
}

static sw_status try_device(scene *s, room *r)
{
    return sw_exec_device(s->exec, (sw_device_info *)(void *)r);
}

static void conv_step(sw_ctx *ctx, void *user)
{
    const sw_value x = sw_randn(ctx, "x", SW_SHAPE(2, 3, 5, 5)),
                   w = sw_randn(ctx, "w", SW_SHAPE(4, 3, 3, 3));
    (void)sw_conv2d_op_with(ctx, x, w, (sw_value){0, 0}, user);
}

/* Both that take it; they agree. */
static sw_status try_conv(scene *s, room *r)
{
    sw_model *m;
    size_t bytes;
    const sw_run_args a = SW_OPTS(sw_run_args, .fn = conv_step, .user = r, .immediate = 1);
    if (sw_model_create(&m, "conv") != SW_OK)
        return SW_NOMEM;
    (void)sw_conv2d_new_with(m, "c", 3, 4, 3, &r->conv);
    const sw_status declared = sw_model_bytes(m, &bytes);
    sw_model_destroy(m);
    const sw_status run = sw_run(s->exec, &a);
    CU_ASSERT_EQUAL(declared, run);
    return run;
}

static void transpose_step(sw_ctx *ctx, void *user)
{
    const sw_value x = sw_randn(ctx, "x", SW_SHAPE(2, 3, 5, 5)),
                   w = sw_randn(ctx, "w", SW_SHAPE(3, 4, 3, 3));
    (void)sw_conv_transpose2d_op(ctx, x, w, (sw_value){0, 0}, user);
}

static sw_status try_transpose(scene *s, room *r)
{
    sw_model *m;
    size_t bytes;
    const sw_run_args a = SW_OPTS(sw_run_args, .fn = transpose_step, .user = r, .immediate = 1);
    if (sw_model_create(&m, "transpose") != SW_OK)
        return SW_NOMEM;
    (void)sw_conv_transpose2d_new(m, "c", 3, 4, 3, &r->transpose);
    const sw_status declared = sw_model_bytes(m, &bytes);
    sw_model_destroy(m);
    const sw_status run = sw_run(s->exec, &a);
    CU_ASSERT_EQUAL(declared, run);
    return run;
}

static sw_status try_optimizer(scene *s, room *r)
{
    sw_model *m;
    sw_optimizer *o;
    (void)s;
    if (sw_model_create(&m, "optimizer") != SW_OK)
        return SW_NOMEM;
    (void)sw_linear_new(m, "l", 2, 2);
    r->optimizer.kind = "sgd";
    const sw_status status = sw_optimizer_create(&o, m, &r->optimizer);
    sw_model_destroy(m);
    return status;
}

static sw_status try_schedule(scene *s, room *r)
{
    float rate;
    (void)s;
    r->schedule.kind = "constant";
    return sw_schedule_at(&r->schedule, 0, &rate);
}

static sw_status try_run(scene *s, room *r)
{
    const size_t size = r->size;
    r->run = net_args(s->n, &s->b);
    r->size = size;
    sw_plan_info info = SW_OPTS(sw_plan_info);
    const sw_status status = sw_run(s->exec, &r->run);
    CU_ASSERT_EQUAL(sw_plan(s->exec, &r->run, &info), status);
    return status;
}

static sw_status try_plan(scene *s, room *r)
{
    const sw_run_args a = net_args(s->n, &s->b);
    return sw_plan(s->exec, &a, (sw_plan_info *)(void *)r);
}

static sw_status try_visitor(scene *s, room *r)
{
    const sw_run_args a = net_args(s->n, &s->b);
    return sw_plan_visit(s->exec, &a, (const sw_plan_visitor *)(const void *)r);
}

static sw_status try_run_info(scene *s, room *r)
{
    const sw_run_args a = net_args(s->n, &s->b);
    room past = *r;
    if (sw_run(s->exec, &a) != SW_OK)
        return SW_IO;
    const sw_status status = sw_last_run(s->exec, (sw_run_info *)(void *)r);
    CU_ASSERT_EQUAL(sw_run_past(s->exec, 0, (sw_run_info *)(void *)&past), status);
    return status;
}

static sw_status try_witness(scene *s, room *r)
{
    const sw_run_args a = net_args(s->n, &s->b);
    return sw_witness(s->exec, &a, SW_WITNESS_EXTENT, (sw_witness_info *)(void *)r);
}

/* There is no such folder: what is accepted is then refused for that. */
static sw_status try_cifar(scene *s, room *r)
{
    sw_dataset *made;
    const sw_status status =
        sw_dataset_cifar(&made, s->no_folder, "train", (const sw_cifar_opts *)(const void *)r);
    return status == SW_IO ? SW_OK : status;
}

static sw_status try_idx(scene *s, room *r)
{
    sw_dataset *made;
    const sw_status status =
        sw_dataset_idx_with(&made, s->no_folder, "train", (const sw_idx_opts *)(const void *)r);
    return status == SW_IO ? SW_OK : status;
}

static sw_status try_csv(scene *s, room *r)
{
    sw_dataset *made = NULL;
    const sw_status status =
        sw_dataset_csv(&made, NULL, s->csv_path, (const sw_csv_opts *)(const void *)r);
    if (status == SW_OK)
        sw_dataset_destroy(made);
    return status;
}

static sw_status try_tokens(scene *s, room *r)
{
    sw_dataset *made = NULL;
    if (r->size >= swi_struct_least(SWI_STRUCT_sw_tokens_opts))
        ((sw_tokens_opts *)(void *)r)->context = 8;
    const sw_status status =
        sw_dataset_tokens(&made, NULL, s->text_path, (const sw_tokens_opts *)(const void *)r);
    if (status == SW_OK)
        sw_dataset_destroy(made);
    return status;
}

static sw_status try_npy(scene *s, room *r)
{
    sw_dataset *made = NULL;
    const sw_status status =
        sw_dataset_npy(&made, NULL, s->npy_path, (const sw_npy_opts *)(const void *)r);
    if (status == SW_OK)
        sw_dataset_destroy(made);
    return status;
}

static sw_status try_arrays(scene *s, room *r)
{
    static const unsigned char tokens[8];
    const sw_samples row = {.data = tokens, .type = SW_NUMBER_U8};
    sw_dataset *made = NULL;
    (void)s;
    const sw_status status =
        sw_dataset_arrays(&made, 8, &row, 1, (const sw_arrays_opts *)(const void *)r);
    if (status == SW_OK)
        sw_dataset_destroy(made);
    return status;
}

static sw_status try_text(scene *s, room *r)
{
    sw_dataset *made = NULL;
    if (r->size >= swi_struct_least(SWI_STRUCT_sw_text_opts))
        ((sw_text_opts *)(void *)r)->context = 8;
    const sw_status status =
        sw_dataset_text(&made, NULL, s->text_path, (const sw_text_opts *)(const void *)r);
    if (status == SW_OK)
        sw_dataset_destroy(made);
    return status;
}

static sw_status try_images(scene *s, room *r)
{
    sw_dataset *made;
    const sw_status status =
        sw_dataset_images(&made, NULL, s->no_folder, (const sw_images_opts *)(const void *)r);
    return status == SW_IO ? SW_OK : status;
}

/* It returns nothing: whether it wrote says whether it was accepted. */
static sw_status try_describe(scene *s, room *r)
{
    sw_dataset_info *info = (sw_dataset_info *)(void *)r;
    sw_dataset_describe(s->data, info);
    return info->n == 16 ? SW_OK : SW_INVALID;
}

static sw_status try_class_score(scene *s, room *r)
{
    const uint64_t counts[4] = {1, 0, 0, 1};
    room mean = *r;
    (void)s;
    const sw_status status = sw_confusion_class(counts, 2, 0, (sw_class_score *)(void *)r);
    CU_ASSERT_EQUAL(sw_confusion_mean(counts, 2, (sw_class_score *)(void *)&mean), status);
    return status;
}

static sw_status try_loader(scene *s, room *r)
{
    sw_loader *made = NULL;
    r->loader.batch = 4;
    const sw_status status = sw_loader_create(&made, s->data, &r->loader);
    if (status == SW_OK)
        sw_loader_destroy(made);
    return status;
}

static sw_status try_feed(scene *s, room *r)
{
    sw_feed *made = NULL;
    r->feed.batch = 4;
    const sw_status status = sw_feed_create(&made, s->data, &r->feed);
    if (status == SW_OK)
        sw_feed_destroy(made);
    return status;
}

static sw_status try_profile(scene *s, room *r)
{
    sw_profile *made = NULL;
    (void)s;
    SW_TRY(sw_profile_create(&made, (const sw_profile_opts *)(const void *)r));
    return sw_profile_destroy(made);
}

static sw_status try_members(scene *s, room *r)
{
    sw_members *made = NULL;
    r->members.shape = s->n->model;
    r->members.fn = net_step;
    r->members.user = s->n;
    const sw_status status = sw_members_create(&made, s->exec, &r->members);
    if (status == SW_OK)
        sw_members_destroy(made);
    return status;
}

static sw_status try_group(scene *s, room *r)
{
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = s->n->model, .fn = net_step, .user = s->n);
    sw_members *made;
    sw_member one = {NULL, 0, 0};
    SW_TRY(sw_members_create(&made, s->exec, &opts));
    sw_status status = sw_member_new(&one, made, 1);
    r->group.members = &one;
    r->group.n = 1;
    r->group.inputs = s->b.in;
    r->group.n_inputs = 2;
    if (status == SW_OK)
        status = sw_members_run(made, &r->group);
    sw_members_destroy(made);
    return status;
}

static sw_status try_hyper(scene *s, room *r)
{
    sw_space *made;
    (void)s;
    SW_TRY(sw_space_create(&made));
    r->hyper.name = "x";
    const sw_status status = sw_space_add(made, &r->hyper);
    sw_space_destroy(made);
    return status;
}

/* The call with a space and a population of two. */
static sw_status with_pbt(sw_status (*call)(sw_pbt_opts *o, room *r), room *r)
{
    sw_space *made;
    SW_TRY(sw_space_create(&made));
    sw_status status = sw_space_parse(made, "x=uniform:0..1");
    sw_pbt_opts o = SW_OPTS(sw_pbt_opts, .space = made, .members = 2, .interval = 1);
    if (status == SW_OK)
        status = call(&o, r);
    sw_space_destroy(made);
    return status;
}

static sw_status create_pbt(sw_pbt_opts *o, room *r)
{
    sw_pbt *made = NULL;
    r->pbt.space = o->space;
    r->pbt.members = o->members;
    r->pbt.interval = o->interval;
    const sw_status status = sw_pbt_create(&made, &r->pbt);
    if (status == SW_OK)
        sw_pbt_destroy(made);
    return status;
}

static sw_status try_pbt(scene *s, room *r)
{
    (void)s;
    return with_pbt(create_pbt, r);
}

static sw_status ask_pbt_event(sw_pbt_opts *o, room *r)
{
    sw_pbt *made;
    SW_TRY(sw_pbt_create(&made, o));
    const sw_status status = sw_pbt_next_event(made, (sw_pbt_event *)(void *)r);
    sw_pbt_destroy(made);
    return status;
}

static sw_status try_pbt_event(scene *s, room *r)
{
    (void)s;
    return with_pbt(ask_pbt_event, r);
}

static sw_status ask_pbt_member(sw_pbt_opts *o, room *r)
{
    sw_pbt *made;
    SW_TRY(sw_pbt_create(&made, o));
    const sw_status status = sw_pbt_describe(made, 1, (sw_pbt_member *)(void *)r);
    sw_pbt_destroy(made);
    return status;
}

static sw_status try_pbt_member(scene *s, room *r)
{
    (void)s;
    return with_pbt(ask_pbt_member, r);
}

/* A strategy of a model of its own, with 2 directions; `opts` NULL: the plainest. */
static sw_status with_es(sw_status (*ask)(scene *s, sw_es *es, room *r), scene *s, room *r,
                         const sw_es_opts *opts)
{
    const sw_es_opts plain = SW_OPTS(sw_es_opts, .directions = 2);
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd");
    sw_model *model = NULL;
    sw_optimizer *optimizer;
    sw_es *es = NULL;
    OK(sw_model_create(&model, "es"));
    (void)sw_linear_new(model, "l", 2, 2);
    OK(sw_optimizer_create(&optimizer, model, &sgd));
    sw_status status = sw_es_create(&es, optimizer, opts != NULL ? opts : &plain);
    if (status == SW_OK && ask != NULL)
        status = ask(s, es, r);
    if (es != NULL)
        sw_es_destroy(es);
    sw_model_destroy(model);
    return status;
}

static sw_status try_es(scene *s, room *r)
{
    r->es.directions = 2;
    return with_es(NULL, s, r, &r->es);
}

static sw_status ask_es(scene *s, sw_es *es, room *r)
{
    (void)s;
    return sw_es_ask(es, 0, 1, (sw_es_evaluation *)(void *)r);
}

static sw_status try_es_evaluation(scene *s, room *r)
{
    return with_es(ask_es, s, r, NULL);
}

static sw_status step_es(scene *s, sw_es *es, room *r)
{
    const float fitness[] = {1, 2, 3, 4};
    OK(sw_es_tell_slice(es, 0, fitness, 4));
    return sw_es_step(es, s->exec, (sw_es_info *)(void *)r);
}

static sw_status try_es_info(scene *s, room *r)
{
    return with_es(step_es, s, r, NULL);
}

static sw_status try_zo(scene *s, room *r)
{
    sw_zo *made;
    SW_TRY(sw_zo_create(&made, s->n->model, &r->zo));
    sw_zo_destroy(made);
    return SW_OK;
}

/* Of the scene's model to one that is alike. */
static sw_status plan_resize(scene *s, const sw_resize_opts *opts, sw_resize_info *info)
{
    const sw_run_args from = net_args(s->n, &s->b), to = net_args(s->other, &s->b);
    return sw_model_resize_plan(s->other->model, s->n->model, s->exec, &to, &from, opts, info);
}

static sw_status try_resize(scene *s, room *r)
{
    sw_resize_info info = SW_OPTS(sw_resize_info);
    return plan_resize(s, &r->resize, &info);
}

static sw_status try_resize_info(scene *s, room *r)
{
    return plan_resize(s, NULL, (sw_resize_info *)(void *)r);
}

static sw_status try_packing(scene *s, room *r)
{
    const sw_pack_shape shape = {.member_bytes = 64, .members = 1};
    size_t resident;
    (void)s;
    return sw_pack(&shape, 1, 64, 1, &resident, (sw_packing *)(void *)r);
}

static sw_status try_members_memory(scene *s, room *r)
{
    const sw_members_opts opts =
        SW_OPTS(sw_members_opts, .shape = s->n->model, .fn = net_step, .user = s->n);
    sw_members *made;
    SW_TRY(sw_members_create(&made, s->exec, &opts));
    const sw_status status = sw_members_used(made, (sw_members_memory *)(void *)r);
    sw_members_destroy(made);
    return status;
}

/* ---- genomes and what is made of them ---------------------------------------------------- */

static sw_genome *a_genome(void)
{
    static const char text[] =
        "{\"format\": \"stepwell genome 1\", \"name\": \"g\", \"input\": [1, 28, 28], "
        "\"optimizer\": {\"kind\": \"sgd\", \"lr\": 0.01}, \"batch\": 4, \"loss\": {\"kind\": "
        "\"cross_entropy\"}, \"vertices\": "
        "[\n{\"name\": \"c\", \"kind\": \"conv2d\", \"in\": [\"input\"], \"size\": 2, "
        "\"kernel\": 3},\n{\"name\": \"p\", \"kind\": \"global_avg_pool\", \"in\": "
        "[\"c\"]},\n{\"name\": \"out\", \"kind\": \"linear\", \"in\": [\"p\"], \"size\": "
        "10}]}";
    sw_genome *g = NULL;
    OK(sw_genome_parse(&g, text, sizeof text - 1, "text"));
    return g;
}

static sw_status try_vertex(scene *s, room *r)
{
    sw_genome *g = a_genome();
    (void)s;
    const sw_status status = sw_genome_vertex(g, 1, (sw_vertex *)(void *)r);
    sw_genome_destroy(g);
    return status;
}

static sw_status try_genome_info(scene *s, room *r)
{
    sw_genome *g = a_genome();
    (void)s;
    const sw_status status = sw_genome_describe(g, (sw_genome_info *)(void *)r);
    sw_genome_destroy(g);
    return status;
}

static sw_status try_task(scene *s, room *r)
{
    sw_search_space *made = NULL;
    (void)s;
    r->task.channels = 1;
    r->task.height = r->task.width = 28;
    r->task.classes = 10;
    const sw_status status = sw_search_space_default(&made, &r->task);
    sw_search_space_destroy(made);
    return status;
}

static sw_status try_net(scene *s, room *r)
{
    sw_genome *g = a_genome();
    sw_net *made = NULL;
    (void)s;
    const sw_status status = sw_net_create(&made, g, &r->net);
    sw_net_destroy(made);
    sw_genome_destroy(g);
    return status;
}

static sw_status try_price(scene *s, room *r)
{
    sw_genome *g = a_genome();
    const sw_status status = sw_genome_price(g, s->exec, NULL, SW_U8, (sw_price *)(void *)r);
    sw_genome_destroy(g);
    return status;
}

static sw_status try_mutate(scene *s, room *r)
{
    sw_genome *g = a_genome(), *made = NULL;
    (void)s;
    const sw_status status = sw_genome_mutate(&made, g, &r->mutate);
    sw_genome_destroy(made);
    sw_genome_destroy(g);
    return status;
}

static sw_status try_crossover(scene *s, room *r)
{
    sw_genome *g = a_genome(), *made = NULL;
    (void)s;
    const sw_status status = sw_genome_crossover(&made, NULL, g, g, &r->crossover);
    sw_genome_destroy(made);
    sw_genome_destroy(g);
    return status;
}

static sw_status try_evolution(scene *s, room *r)
{
    sw_genome *g = a_genome();
    sw_evolution *made = NULL;
    r->evolution.train = r->evolution.validation = s->data;
    r->evolution.first = (const sw_genome *const *)&g;
    r->evolution.n_first = r->evolution.population = 1;
    const sw_status status = sw_evolution_create(&made, s->exec, &r->evolution);
    sw_evolution_destroy(made);
    sw_genome_destroy(g);
    return status;
}

/* The call with a population of one genome. */
static sw_status with_evolution(scene *s, sw_status (*call)(sw_evolution *e, room *r), room *r)
{
    sw_genome *g = a_genome();
    const sw_genome *const first[] = {g};
    sw_evolution *made = NULL;
    const sw_evolution_opts opts =
        SW_OPTS(sw_evolution_opts, .train = s->data, .validation = s->data, .first = first,
                .n_first = 1, .population = 1, .samples = 4);
    sw_status status = sw_evolution_create(&made, s->exec, &opts);
    sw_genome_destroy(g);
    if (status == SW_OK)
        status = call(made, r);
    sw_evolution_destroy(made);
    return status;
}

static sw_status ask_candidate(sw_evolution *e, room *r)
{
    return sw_evolution_member(e, 0, (sw_candidate *)(void *)r);
}

static sw_status try_candidate(scene *s, room *r)
{
    return with_evolution(s, ask_candidate, r);
}

static sw_status ask_advance(sw_evolution *e, room *r)
{
    return sw_evolution_advance(e, (sw_evolve_progress *)(void *)r);
}

static sw_status try_progress(scene *s, room *r)
{
    return with_evolution(s, ask_advance, r);
}

static sw_status ask_used(sw_evolution *e, room *r)
{
    return sw_evolution_used(e, (sw_evolution_memory *)(void *)r);
}

static sw_status try_evolution_memory(scene *s, room *r)
{
    return with_evolution(s, ask_used, r);
}

/* Made without a path: it takes no name and no thread. */
static sw_status try_checkpoint(scene *s, room *r)
{
    sw_checkpoint *made = NULL;
    r->checkpoint.models = &s->n->model;
    r->checkpoint.n_models = 1;
    const sw_status status = sw_checkpoint_create(&made, s->exec, &r->checkpoint);
    if (status == SW_OK)
        sw_checkpoint_destroy(made);
    return status;
}

/* The call with a checkpoint that reads and writes nothing. */
static sw_status with_checkpoint(scene *s, sw_status (*call)(sw_checkpoint *c, room *r),
                                 room *r)
{
    const sw_checkpoint_opts opts =
        SW_OPTS(sw_checkpoint_opts, .models = &s->n->model, .n_models = 1);
    sw_checkpoint *made;
    SW_TRY(sw_checkpoint_create(&made, s->exec, &opts));
    const sw_status status = call(made, r);
    sw_checkpoint_destroy(made);
    return status;
}

static sw_status ask_state(sw_checkpoint *c, room *r)
{
    return sw_checkpoint_describe(c, (sw_checkpoint_info *)(void *)r);
}

static sw_status try_checkpoint_info(scene *s, room *r)
{
    return with_checkpoint(s, ask_state, r);
}

static sw_status ask_find(sw_checkpoint *c, room *r)
{
    return sw_checkpoint_find(c, sw_temp_path("no checkpoint"),
                              (sw_checkpoint_found *)(void *)r);
}

static sw_status try_checkpoint_found(scene *s, room *r)
{
    return with_checkpoint(s, ask_find, r);
}

/* An op can be registered once: what is accepted is refused for its name. */
static sw_status try_op(scene *s, room *r)
{
    uint32_t id;
    (void)s;
    r->op.name = "";
    const sw_status status = sw_op_register(&r->op, &id);
    return status == SW_INVALID && strstr(sw_last_error(), "1 to 40 bytes") != NULL ? SW_OK
                                                                                    : status;
}

static const struct {
    swi_struct which;
    sw_status (*of)(scene *s, room *r);
    bool result;
} calls[] = {
    {SWI_STRUCT_sw_exec_opts, try_exec, false},
    {SWI_STRUCT_sw_device_info, try_device, true},
    {SWI_STRUCT_sw_conv_opts, try_conv, false},
    {SWI_STRUCT_sw_conv_transpose_opts, try_transpose, false},
    {SWI_STRUCT_sw_optimizer_opts, try_optimizer, false},
    {SWI_STRUCT_sw_schedule, try_schedule, false},
    {SWI_STRUCT_sw_run_args, try_run, false},
    {SWI_STRUCT_sw_plan_info, try_plan, true},
    {SWI_STRUCT_sw_plan_visitor, try_visitor, false},
    {SWI_STRUCT_sw_run_info, try_run_info, true},
    {SWI_STRUCT_sw_members_opts, try_members, false},
    {SWI_STRUCT_sw_members_args, try_group, false},
    {SWI_STRUCT_sw_members_memory, try_members_memory, true},
    {SWI_STRUCT_sw_resize_opts, try_resize, false},
    {SWI_STRUCT_sw_resize_info, try_resize_info, true},
    {SWI_STRUCT_sw_feed_opts, try_feed, false},
    {SWI_STRUCT_sw_packing, try_packing, true},
    {SWI_STRUCT_sw_hyper, try_hyper, false},
    {SWI_STRUCT_sw_pbt_opts, try_pbt, false},
    {SWI_STRUCT_sw_pbt_event, try_pbt_event, true},
    {SWI_STRUCT_sw_pbt_member, try_pbt_member, true},
    {SWI_STRUCT_sw_es_opts, try_es, false},
    {SWI_STRUCT_sw_es_evaluation, try_es_evaluation, true},
    {SWI_STRUCT_sw_es_info, try_es_info, true},
    {SWI_STRUCT_sw_zo_opts, try_zo, false},
    {SWI_STRUCT_sw_vertex, try_vertex, true},
    {SWI_STRUCT_sw_genome_info, try_genome_info, true},
    {SWI_STRUCT_sw_task, try_task, false},
    {SWI_STRUCT_sw_net_opts, try_net, false},
    {SWI_STRUCT_sw_price, try_price, true},
    {SWI_STRUCT_sw_mutate_opts, try_mutate, false},
    {SWI_STRUCT_sw_crossover_opts, try_crossover, false},
    {SWI_STRUCT_sw_candidate, try_candidate, true},
    {SWI_STRUCT_sw_evolution_opts, try_evolution, false},
    {SWI_STRUCT_sw_evolve_progress, try_progress, true},
    {SWI_STRUCT_sw_evolution_memory, try_evolution_memory, true},
    {SWI_STRUCT_sw_witness_info, try_witness, true},
    {SWI_STRUCT_sw_idx_opts, try_idx, false},
    {SWI_STRUCT_sw_cifar_opts, try_cifar, false},
    {SWI_STRUCT_sw_csv_opts, try_csv, false},
    {SWI_STRUCT_sw_text_opts, try_text, false},
    {SWI_STRUCT_sw_tokens_opts, try_tokens, false},
    {SWI_STRUCT_sw_npy_opts, try_npy, false},
    {SWI_STRUCT_sw_arrays_opts, try_arrays, false},
    {SWI_STRUCT_sw_images_opts, try_images, false},
    {SWI_STRUCT_sw_dataset_info, try_describe, true},
    {SWI_STRUCT_sw_class_score, try_class_score, true},
    {SWI_STRUCT_sw_loader_opts, try_loader, false},
    {SWI_STRUCT_sw_checkpoint_opts, try_checkpoint, false},
    {SWI_STRUCT_sw_checkpoint_info, try_checkpoint_info, true},
    {SWI_STRUCT_sw_checkpoint_found, try_checkpoint_found, true},
    {SWI_STRUCT_sw_profile_opts, try_profile, false},
    {SWI_STRUCT_sw_op_desc, try_op, false},
};

/* ---- promises ---------------------------------------------------------------------------- */

static bool all_are(const unsigned char *p, size_t n, unsigned char wanted)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != wanted)
            return false;
    return true;
}

/* Members since 0.1, as the list has them. The row in front keeps the array from being empty.
 */
#define SWI_STRUCT(type, first, now)
#define SWI_SINCE(type, member)                                                                \
    {SWI_STRUCT_##type, offsetof(type, member),                                                \
     offsetof(type, member) + sizeof(((type *)0)->member)},
static const struct {
    swi_struct of;
    size_t from, end;
} later[] = {
    {SWI_STRUCTS, 0, 0},
#include "runtime/base/structs.def"
};
#undef SWI_STRUCT
#undef SWI_SINCE

static bool is_cut(swi_struct which, size_t size)
{
    bool cut = false;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        cut |= later[i].of == which && size > later[i].from && size < later[i].end;
    return cut;
}

static void try_size(scene *s, size_t c, size_t size)
{
    const swi_struct which = calls[c].which;
    static room r;
    const bool of_checkpoint = strncmp(swi_struct_name(which), "sw_checkpoint_", 14) == 0;
    if (of_checkpoint && !swi_checksum_there())
        return; /* checkpoints are refused before anything is written */
    memset(&r, 0, sizeof r);
    if (calls[c].result)
        memset(r.bytes, 0xa5, sizeof r);
    else /* what this library does not know has no meaning to it */
        memset(r.bytes + swi_struct_bytes(which), 0xa5, sizeof r - swi_struct_bytes(which));
    r.size = size;
    const bool good =
        size >= swi_struct_least(which) && size <= SWI_STRUCT_MOST && !is_cut(which, size);
    const sw_status status = calls[c].of(s, &r);
    SW_CHECK(status == (good ? SW_OK : SW_INVALID), "%s of %zu bytes: %s: %s",
             swi_struct_name(which), size, sw_status_name(status), sw_last_error());
    if (!good) {
        char set[80];
        snprintf(set, sizeof set, "set it to sizeof(%s)", swi_struct_name(which));
        SW_CHECK(strstr(sw_last_error(), set) != NULL, "%s", sw_last_error());
    }
    if (!calls[c].result)
        return;
    size_t room_for = size < swi_struct_bytes(which) ? size : swi_struct_bytes(which);
    room_for = good ? room_for : sizeof r.size;
    SW_CHECK(r.size == size && all_are(r.bytes + room_for, sizeof r - room_for, 0xa5),
             "%s of %zu bytes: something was written after it", swi_struct_name(which), size);
}

static void every_size_of_every_struct(void)
{
    scene s = scene_new();
    CU_ASSERT_EQUAL(sizeof calls / sizeof *calls, SWI_STRUCTS);
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        CU_ASSERT_EQUAL(calls[c].which, c);
        for (size_t size = 0; size <= swi_struct_bytes(calls[c].which) + 64; size++)
            try_size(&s, c, size);
        try_size(&s, c, SWI_STRUCT_MOST);
        try_size(&s, c, SWI_STRUCT_MOST + 1);
        try_size(&s, c, SIZE_MAX);
    }
    sw_dataset_destroy(s.data);
}

/* The way that ended in a crash: nine bytes are half of a pointer. */
static void cut_pointers_are_refused(void)
{
    scene s = scene_new();
    sw_run_args a = net_args(s.n, &s.b);
    a.size = 9;
    REFUSED(sw_run(s.exec, &a), SW_INVALID, "sw_run: sw_run_args.size must be ");
    a.size = 0;
    REFUSED(sw_run(s.exec, &a), SW_INVALID,
            "sw_run_args.size is 0: set it to sizeof(sw_run_args)");
    a.size = sizeof(void *); /* sizeof of the pointer to it: all the rest would be dropped */
    REFUSED(sw_run(s.exec, &a), SW_INVALID, "(got 8)");
    sw_dataset_destroy(s.data);
}

/* ---- the header against the list --------------------------------------------------------- */

static char *read_header(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/runtime/installed/stepwell.h", sw_build_root());
    FILE *f = fopen(path, "r");
    char *text = f != NULL ? calloc(1, 1 << 20) : NULL;
    if (text != NULL)
        CU_ASSERT(fread(text, 1, (1 << 20) - 1, f) > 0);
    if (f != NULL)
        fclose(f);
    return text;
}

/* The word that ends before `end`, arrays left out. */
static void word_before(const char *end, char *to, size_t bytes)
{
    while (end[-1] == ']') {
        while (*--end != '[')
            ;
    }
    const char *from = end;
    if (from[-1] == ')') { /* void (*storage)(void *to, ...) */
        for (int depth = 0; depth >= 0; from--)
            depth += from[-1] == ')'                 ? 1
                     : from[-1] == '(' && depth == 1 ? -2
                     : from[-1] == '('               ? -1
                                                     : 0;
        end = from;
        while (end[-1] != ')')
            end--;
        end--;
        from = end;
    }
    while (isalnum((unsigned char)from[-1]) || from[-1] == '_')
        from--;
    snprintf(to, bytes, "%.*s", (int)(end - from), from);
}

/* The last member of a struct in stepwell.h; "" where there is no such struct. */
static void last_member(char *text, const char *name, char *to, size_t bytes)
{
    char end[96];
    snprintf(end, sizeof end, "\n} %s;", name);
    to[0] = '\0';
    char *at = strstr(text, end);
    if (at == NULL)
        return;
    while (at[-1] != ';')
        at--;
    word_before(at - 1, to, bytes);
}

static void drop_comments(char *text)
{
    for (char *from; (from = strstr(text, "/*")) != NULL;) {
        const char *end = strstr(from, "*/") + 2;
        memset(from, ' ', (size_t)(end - from));
    }
}

#define SWI_STRUCT(type, first, now) {#type, #now},
#define SWI_SINCE(type, member)
static const char *const listed[][2] = {
#include "runtime/base/structs.def"
};

/* So that a member that somebody appends cannot be forgotten, be it in the padding. */
static void list_is_the_headers(void)
{
    char *text = read_header();
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    drop_comments(text);
    size_t found = 0;
    for (size_t i = 0; i < SWI_STRUCTS; i++) {
        char member[96];
        last_member(text, listed[i][0], member, sizeof member);
        SW_CHECK(strcmp(member, listed[i][1]) == 0, "%s ends with '%s' in stepwell.h",
                 listed[i][0], member);
    }
    for (const char *p = text; (p = strstr(p, "{\n    size_t size;")) != NULL; p++)
        found++;
    /* The library fills five itself: sw_launch, sw_plan_storage, sw_plan_layer, sw_share and
     * sw_mutation_record. */
    CU_ASSERT_EQUAL(found, SWI_STRUCTS + 5);
    free(text);
}

static const sw_test tests[] = {
    {"every size of every struct is accepted or refused, none is cut",
     every_size_of_every_struct},
    {"a size that cuts a pointer, or is a pointer's, is refused with the way out",
     cut_pointers_are_refused},
    {"structs.def has every struct of the header with its last member", list_is_the_headers},
};
SW_SUITE("structs", tests)
