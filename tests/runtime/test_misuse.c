/* Misuse of the public functions: NULL for each pointer, objects that are gone, destruction in
 * a step function, and step functions that longjmp leaves. Each call that might crash is made
 * in a child, which says how far it came. */
#include "alloc/base/handle.h"
#include "alloc/base/poison.h"
#include "tests/runtime/nets.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    sw_exec *exec;
    sw_model *model;
    sw_optimizer *opt;
    sw_budget *budget;
    sw_dataset *data;
    sw_loader *loader;
    sw_profile *profile;
    sw_linear layer;
    sw_knob knob;
} things;

static float some[4];
static const sw_value no_value;
static const sw_param no_param;
static const sw_knob no_knob;
static const sw_member no_member;
static const sw_shape four = {1, {4}};

static void nothing(sw_ctx *c, void *user)
{
    (void)c, (void)user;
}

static things make_things(void)
{
    things t;
    memset(&t, 0, sizeof t);
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts);
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd");
    const sw_loader_opts batches = SW_OPTS(sw_loader_opts, .batch = 2);
    const sw_profile_opts profile = SW_OPTS(sw_profile_opts);
    OK(sw_budget_create(&t.budget, 1 << 20));
    OK(sw_exec_create(&t.exec, &opts));
    OK(sw_model_create(&t.model, "things"));
    t.layer = sw_linear_new(t.model, "l", 4, 4);
    t.knob = sw_knob_new(t.model, "factor", 1.0f);
    OK(sw_optimizer_create(&t.opt, t.model, &sgd));
    OK(sw_model_ready(t.model, t.exec, 1));
    OK(sw_dataset_synthetic(&t.data, 4, 1));
    OK(sw_loader_create(&t.loader, t.data, &batches));
    OK(sw_profile_create(&t.profile, &profile));
    return t;
}

/* ---- NULL -------------------------------------------------------------------------------- */

/* Outside of step functions: the status, or SW_INVALID where the function has none. */
#define OUTSIDE(X)                                                                             \
    X(sw_budget_create(NULL, 1))                                                               \
    X(sw_exec_create(NULL, NULL))                                                              \
    X(sw_exec_set_profile(NULL, t->profile))                                                   \
    X(sw_exec_set_profile(t->exec, NULL))                                                      \
    X(sw_exec_device(NULL, &device))                                                           \
    X(sw_exec_device(t->exec, NULL))                                                           \
    X(sw_model_create(NULL, "m"))                                                              \
    X(sw_model_create(&model, NULL))                                                           \
    X(sw_param_read(no_param, some, 4))                                                        \
    X(sw_param_read(t->layer.bias, NULL, sizeof some))                                         \
    X(sw_param_write(no_param, some, 4))                                                       \
    X(sw_param_write(t->layer.bias, NULL, sizeof some))                                        \
    X(sw_param_gradient(no_param, some, 4))                                                    \
    X(sw_param_gradient(t->layer.bias, NULL, sizeof some))                                     \
    X(sw_model_ready(NULL, t->exec, 1))                                                        \
    X(sw_model_ready(t->model, NULL, 1))                                                       \
    X(sw_model_copy(NULL, t->model))                                                           \
    X(sw_model_copy(t->model, NULL))                                                           \
    X(sw_model_bytes(NULL, &bytes))                                                            \
    X(sw_model_bytes(t->model, NULL))                                                          \
    X(sw_model_save(NULL, "x"))                                                                \
    X(sw_model_save(t->model, NULL))                                                           \
    X(sw_model_load(NULL, "x"))                                                                \
    X(sw_model_load(t->model, NULL))                                                           \
    X(sw_optimizer_create(NULL, t->model, &sgd))                                               \
    X(sw_optimizer_create(&opt, NULL, &sgd))                                                   \
    X(sw_optimizer_create(&opt, t->model, NULL))                                               \
    X(sw_optimizer_skipped(NULL, NULL, NULL))                                                  \
    X(sw_schedule_at(NULL, 0, some))                                                           \
    X(sw_schedule_at(&schedule, 0, NULL))                                                      \
    X(sw_item(NULL, no_value, &number))                                                        \
    X(sw_ctx_status(NULL))                                                                     \
    X(sw_run(NULL, &args))                                                                     \
    X(sw_run(t->exec, NULL))                                                                   \
    X(sw_plan(NULL, &args, &plan))                                                             \
    X(sw_plan(t->exec, NULL, &plan))                                                           \
    X(sw_plan(t->exec, &args, NULL))                                                           \
    X(sw_plan_visit(NULL, &args, &visitor))                                                    \
    X(sw_plan_visit(t->exec, NULL, &visitor))                                                  \
    X(sw_plan_visit(t->exec, &args, NULL))                                                     \
    X(sw_last_run(NULL, &run))                                                                 \
    X(sw_last_run(t->exec, NULL))                                                              \
    X(sw_run_past(NULL, 0, &run))                                                              \
    X(sw_run_past(t->exec, 0, NULL))                                                           \
    X(sw_plan_layers(NULL, &args, visit_layer, NULL))                                          \
    X(sw_plan_layers(t->exec, NULL, visit_layer, NULL))                                        \
    X(sw_plan_layers(t->exec, &args, NULL, NULL))                                              \
    X(sw_plan_shares(NULL, &args, visit_share, NULL))                                          \
    X(sw_plan_shares(t->exec, NULL, visit_share, NULL))                                        \
    X(sw_plan_shares(t->exec, &args, NULL, NULL))                                              \
    X(sw_last_shares(NULL, visit_share, NULL))                                                 \
    X(sw_last_shares(t->exec, NULL, NULL))                                                     \
    X(sw_witness_shares(NULL, visit_share, NULL))                                              \
    X(sw_witness_shares(t->exec, NULL, NULL))                                                  \
    X(sw_metric_get(NULL, "loss", &number))                                                    \
    X(sw_metric_get(t->exec, NULL, &number))                                                   \
    X(sw_metric_get(t->exec, "loss", NULL))                                                    \
    X(sw_metric_past(NULL, 0, "loss", &number))                                                \
    X(sw_metric_past(t->exec, 0, NULL, &number))                                               \
    X(sw_metric_past(t->exec, 0, "loss", NULL))                                                \
    X(sw_output_get(NULL, "y", &array))                                                        \
    X(sw_output_get(t->exec, NULL, &array))                                                    \
    X(sw_output_get(t->exec, "y", NULL))                                                       \
    X(sw_witness(NULL, &args, 1, &witness))                                                    \
    X(sw_witness(t->exec, NULL, 1, &witness))                                                  \
    X(sw_witness(t->exec, &args, 1, NULL))                                                     \
    X(sw_dataset_synthetic(NULL, 1, 1))                                                        \
    X(sw_dataset_vectors(NULL, 1, 1, 1))                                                       \
    X(sw_dataset_idx(NULL, "x", "train"))                                                      \
    X(sw_dataset_idx(&data, NULL, "train"))                                                    \
    X(sw_dataset_idx(&data, "x", NULL))                                                        \
    X(sw_dataset_cifar(NULL, "x", "train", NULL))                                              \
    X(sw_dataset_cifar(&data, NULL, "train", NULL))                                            \
    X(sw_dataset_cifar(&data, "x", NULL, NULL))                                                \
    X(sw_dataset_csv(NULL, NULL, "x", NULL))                                                   \
    X(sw_dataset_csv(&data, NULL, NULL, NULL))                                                 \
    X(sw_dataset_text(NULL, NULL, "x", NULL))                                                  \
    X(sw_dataset_text(&data, NULL, NULL, NULL))                                                \
    X(sw_dataset_tokens(NULL, NULL, "x", NULL))                                                \
    X(sw_dataset_tokens(&data, NULL, NULL, NULL))                                              \
    X(sw_dataset_npy(NULL, NULL, "x,y", NULL))                                                 \
    X(sw_dataset_npy(&data, NULL, NULL, NULL))                                                 \
    X(sw_dataset_npz(NULL, NULL, "x", NULL))                                                   \
    X(sw_dataset_npz(&data, NULL, NULL, NULL))                                                 \
    X(sw_dataset_arrays(NULL, 1, NULL, 1, NULL))                                               \
    X(sw_dataset_arrays(&data, 1, NULL, 1, NULL))                                              \
    X(sw_dataset_images(NULL, NULL, "x", NULL))                                                \
    X(sw_dataset_images(&data, NULL, NULL, NULL))                                              \
    X(sw_loader_create(NULL, t->data, &batches))                                               \
    X(sw_loader_create(&loader, NULL, &batches))                                               \
    X(sw_loader_create(&loader, t->data, NULL))                                                \
    X(sw_dataset_hash(NULL, NULL))                                                             \
    X(sw_loader_epoch(NULL, 0))                                                                \
    X(sw_loader_seek(NULL, 0, 0))                                                              \
    X(sw_loader_position(NULL, NULL, NULL))                                                    \
    X(sw_loader_next(NULL, &inputs, &n))                                                       \
    X(sw_loader_next(t->loader, NULL, &n))                                                     \
    X(sw_loader_next(t->loader, &inputs, NULL))                                                \
    X(sw_profile_create(NULL, NULL))                                                           \
    X(sw_profile_least(NULL, &args, 1, NULL, &bytes))                                          \
    X(sw_profile_least(t->exec, NULL, 1, NULL, &bytes))                                        \
    X(sw_profile_least(t->exec, &args, 1, NULL, NULL))                                         \
    X(sw_profile_flush(NULL))                                                                  \
    X(sw_profile_sync(NULL))                                                                   \
    X(sw_checkpoint_create(NULL, t->exec, NULL))                                               \
    X(sw_checkpoint_loader(NULL, t->loader))                                                   \
    X(sw_checkpoint_members(NULL, NULL, NULL, 1))                                              \
    X(sw_checkpoint_ready(NULL))                                                               \
    X(sw_checkpoint_put(NULL, "b", some, 4))                                                   \
    X(sw_checkpoint_take(NULL, 1))                                                             \
    X(sw_checkpoint_write(NULL))                                                               \
    X(sw_checkpoint_wait(NULL))                                                                \
    X(sw_checkpoint_save(NULL, 1))                                                             \
    X(sw_checkpoint_describe(NULL, NULL))                                                      \
    X(sw_checkpoint_state(NULL, NULL))                                                         \
    X(sw_checkpoint_find(NULL, "x", NULL))                                                     \
    X(sw_checkpoint_get(NULL, "b", NULL, &bytes))                                              \
    X(sw_checkpoint_load(NULL))                                                                \
    X(sw_checkpoint_bytes(NULL) == 0 ? SW_INVALID : SW_OK)                                     \
    X((sw_checkpoint_destroy(NULL), SW_INVALID))                                               \
    X(sw_members_create(NULL, t->exec, NULL))                                                  \
    X(sw_member_new(NULL, NULL, 1))                                                            \
    X(sw_member_copy(no_member, no_member))                                                    \
    X(sw_member_to_model(t->model, no_member))                                                 \
    X(sw_member_from_model(no_member, t->model))                                               \
    X(sw_member_read(no_member, t->layer.bias, some, 4))                                       \
    X(sw_member_write(no_member, t->layer.bias, some, 4))                                      \
    X(sw_member_knob_set(no_member, no_knob, 1.0f))                                            \
    X(sw_member_knob_get(no_member, no_knob, some))                                            \
    X(sw_model_resize(NULL, t->model, t->exec, &args, &args, NULL))                            \
    X(sw_model_resize(t->model, NULL, t->exec, &args, &args, NULL))                            \
    X(sw_model_resize(t->model, t->model, NULL, &args, &args, NULL))                           \
    X(sw_member_resize(no_member, no_member, NULL, NULL))                                      \
    X(sw_model_resize_plan(t->model, t->model, t->exec, NULL, NULL, NULL, NULL))               \
    X(sw_members_resize_plan(NULL, NULL, NULL, NULL, NULL))                                    \
    X(sw_members_run(NULL, NULL))                                                              \
    X(sw_members_metric(NULL, "loss", &number, 1))                                             \
    X(sw_members_status(NULL, NULL, 1))                                                        \
    X(sw_members_run_all(NULL, NULL, 1))                                                       \
    X(sw_members_plan(NULL, NULL, &bytes))                                                     \
    X(sw_members_visit(NULL, NULL))                                                            \
    X(sw_members_visit_step(NULL, NULL, NULL))                                                 \
    X(sw_members_shares(NULL, NULL, NULL, NULL))                                               \
    X(sw_members_profile(NULL, NULL, 0, NULL, "shape", NULL))                                  \
    X(sw_members_mean(NULL, "loss", &number, 1))                                               \
    X(sw_members_look(NULL, NULL, NULL))                                                       \
    X(sw_members_used(NULL, NULL))                                                             \
    X(sw_member_seed(no_member, NULL))                                                         \
    X(sw_member_seed_set(no_member, 1))                                                        \
    X(sw_pack(NULL, 1, 1, 1, &bytes, NULL))                                                    \
    X(sw_member_progress(no_member, NULL, NULL))                                               \
    X(sw_member_progress_set(no_member, 1, 1))                                                 \
    X(sw_member_pack(no_member, some, 4))                                                      \
    X(sw_member_unpack(no_member, some, 4))                                                    \
    X(sw_members_packed_bytes(NULL) == 0 ? SW_INVALID : SW_OK)                                 \
    X(sw_feed_create(NULL, t->data, NULL))                                                     \
    X(sw_feed_create(&feed, NULL, NULL))                                                       \
    X(sw_feed_create(&feed, t->data, NULL))                                                    \
    X(sw_feed_sample(NULL, 0, 0, 0, NULL))                                                     \
    X(sw_feed_batches(NULL) == 0 ? SW_INVALID : SW_OK)                                         \
    X(sw_feed_bytes(NULL) == 0 ? SW_INVALID : SW_OK)                                           \
    X((sw_feed_destroy(NULL), SW_INVALID))                                                     \
    X(sw_members_count(NULL) == 0 ? SW_INVALID : SW_OK)                                        \
    X(sw_members_bytes(NULL) == 0 ? SW_INVALID : SW_OK)                                        \
    X((sw_member_end(no_member), SW_INVALID))                                                  \
    X((sw_members_destroy(NULL), SW_INVALID))                                                  \
    X(sw_space_create(NULL))                                                                   \
    X(sw_space_add(NULL, NULL))                                                                \
    X(sw_space_parse(NULL, "x=int:1..2"))                                                      \
    X(sw_space_count(NULL) == 0 ? SW_INVALID : SW_OK)                                          \
    X(sw_space_find(NULL, "x") < 0 ? SW_INVALID : SW_OK)                                       \
    X(sw_space_at(NULL, 0, NULL))                                                              \
    X(sw_space_draw(NULL, 0, 1, 1, &number))                                                   \
    X(sw_space_has(NULL, 0, 1.0) ? SW_OK : SW_INVALID)                                         \
    X((sw_space_destroy(NULL), SW_INVALID))                                                    \
    X(sw_pbt_create(NULL, NULL))                                                               \
    X(sw_pbt_value(NULL, 0, 0, &number))                                                       \
    X(sw_pbt_value_set(NULL, 0, 0, 1.0))                                                       \
    X(sw_pbt_next(NULL, NULL, 1, NULL, &number))                                               \
    X(sw_pbt_report(NULL, 0, 1.0, 1.0))                                                        \
    X(sw_pbt_leave(NULL, 0))                                                                   \
    X(sw_pbt_next_event(NULL, NULL))                                                           \
    X(sw_pbt_describe(NULL, 0, NULL))                                                          \
    X(sw_pbt_look(NULL, 0, NULL))                                                              \
    X(sw_pbt_log(NULL, "."))                                                                   \
    X(sw_pbt_save(NULL, NULL, &bytes))                                                         \
    X((sw_pbt_free(NULL, 0), SW_INVALID))                                                      \
    X(sw_pbt_restore(NULL, some, 4))                                                           \
    X(sw_policy_changes(NULL, NULL, NULL))                                                     \
    X(sw_policy_change("x", NULL, 0, NULL, &number, NULL))                                     \
    X((sw_pbt_destroy(NULL), SW_INVALID))                                                      \
    X(sw_es_create(NULL, t->opt, NULL))                                                        \
    X(sw_es_create(&es, NULL, NULL))                                                           \
    X(sw_es_generation_set(NULL, 1))                                                           \
    X(sw_es_ask(NULL, 0, 0, NULL))                                                             \
    X(sw_es_tell(NULL, 0, 0, 1.0f))                                                            \
    X(sw_es_tell_slice(NULL, 0, some, 4))                                                      \
    X(sw_es_evaluate(NULL, t->exec, &args, 0, "loss"))                                         \
    X(sw_es_step(NULL, t->exec, NULL))                                                         \
    X(sw_es_plan(NULL, t->exec, &plan))                                                        \
    X(sw_es_member(NULL, 0, 1, t->model))                                                      \
    X(sw_es_sigma(NULL).index == UINT32_MAX ? SW_INVALID : SW_OK)                              \
    X(sw_es_generation(NULL) == 0 ? SW_INVALID : SW_OK)                                        \
    X(sw_es_slices(NULL) == 0 ? SW_INVALID : SW_OK)                                            \
    X(sw_es_rows(NULL) == 0 ? SW_INVALID : SW_OK)                                              \
    X(sw_es_bytes(NULL) == 0 ? SW_INVALID : SW_OK)                                             \
    X((sw_es_destroy(NULL), SW_INVALID))                                                       \
    X(sw_zo_create(NULL, t->model, NULL))                                                      \
    X(sw_zo_create(&zo, NULL, NULL))                                                           \
    X(sw_zo_step(NULL, t->exec, NULL, "loss", &number))                                        \
    X(sw_zo_steps(NULL) == 0 ? SW_INVALID : SW_OK)                                             \
    X(sw_zo_not_finite(NULL) == 0 ? SW_INVALID : SW_OK)                                        \
    X(sw_zo_save(NULL, "x"))                                                                   \
    X(sw_zo_replay(NULL, t->exec, "x", NULL, NULL))                                            \
    X(sw_zo_replay(t->model, NULL, "x", NULL, NULL))                                           \
    X(sw_zo_replay(t->model, t->exec, NULL, NULL, NULL))                                       \
    X((sw_zo_destroy(NULL), SW_INVALID))                                                       \
    X(sw_genome_parse(NULL, "{}", 2, "x"))                                                     \
    X(sw_genome_parse(&genome, NULL, 2, "x"))                                                  \
    X(sw_genome_load(NULL, "x"))                                                               \
    X(sw_genome_load(&genome, NULL))                                                           \
    X(sw_genome_save(NULL, "x"))                                                               \
    X(sw_genome_print(NULL, &text, &bytes))                                                    \
    X(sw_genome_copy(NULL, NULL))                                                              \
    X(sw_genome_copy(&genome, NULL))                                                           \
    X(sw_genome_describe(NULL, NULL))                                                          \
    X(sw_genome_look(NULL, NULL))                                                              \
    X(sw_genome_vertex(NULL, 0, NULL))                                                         \
    X((sw_text_free(NULL, 0), SW_INVALID))                                                     \
    X((sw_genome_destroy(NULL), SW_INVALID))                                                   \
    X(sw_vertex_kind_name((sw_vertex_kind)99) == NULL ? SW_INVALID : SW_OK)                    \
    X(sw_search_space_parse(NULL, "{}", 2, "x"))                                               \
    X(sw_search_space_parse(&found_space, NULL, 2, "x"))                                       \
    X(sw_search_space_load(NULL, "x"))                                                         \
    X(sw_search_space_load(&found_space, NULL))                                                \
    X(sw_search_space_default(NULL, &task))                                                    \
    X(sw_search_space_default(&found_space, NULL))                                             \
    X(sw_search_space_text(NULL) == NULL ? SW_INVALID : SW_OK)                                 \
    X(sw_genome_draw(&genome, NULL, &task, 1))                                                 \
    X(sw_search_space_draw(NULL, &task, 1, &genome))                                           \
    X((sw_search_space_destroy(NULL), SW_INVALID))                                             \
    X(sw_net_create(NULL, NULL, NULL))                                                         \
    X(sw_net_create(&net_made, NULL, NULL))                                                    \
    X(sw_net_model(NULL) == NULL ? SW_INVALID : SW_OK)                                         \
    X(sw_net_optimizer(NULL) == NULL ? SW_INVALID : SW_OK)                                     \
    X(sw_net_genome(NULL) == NULL ? SW_INVALID : SW_OK)                                        \
    X((sw_net_destroy(NULL), SW_INVALID))                                                      \
    X(sw_net_ready(NULL, t->exec, 1))                                                          \
    X(sw_dataset_split(NULL, NULL, t->data, 1, 1))                                             \
    X(sw_dataset_split(&data, &data, NULL, 1, 1))                                              \
    X(sw_genome_price(NULL, t->exec, NULL, SW_U8, NULL))                                       \
    X(sw_net_inherit(NULL, NULL, NULL, 1))                                                     \
    X(sw_mutation_kind_name((sw_mutation_kind)99) == NULL ? SW_INVALID : SW_OK)                \
    X(sw_genome_mutate(NULL, NULL, NULL))                                                      \
    X(sw_genome_mutate(&genome, NULL, NULL))                                                   \
    X(sw_genome_crossover(&genome, NULL, NULL, NULL, NULL))                                    \
    X(sw_select(NULL, 1, NULL, 1, 1, &id, NULL, &bytes))                                       \
    X(sw_pareto(NULL, 1, 1, &id, NULL))                                                        \
    X(sw_fitness_kind_name((sw_fitness_kind)99) == NULL ? SW_INVALID : SW_OK)                  \
    X(sw_evolution_create(NULL, t->exec, NULL))                                                \
    X(sw_evolution_advance(NULL, NULL))                                                        \
    X(sw_evolution_count(NULL) == 0 ? SW_INVALID : SW_OK)                                      \
    X(sw_evolution_member(NULL, 0, NULL))                                                      \
    X(sw_evolution_best(NULL, NULL))                                                           \
    X(sw_net_copy(&net_made, NULL, 0))                                                         \
    X(sw_evolution_net(NULL, 0, &net_made))                                                    \
    X(sw_evolution_used(NULL, NULL))                                                           \
    X(sw_evolution_resume(NULL, &n))                                                           \
    X(sw_evolution_rebuild(NULL, 1, &net_made))                                                \
    X((sw_evolution_destroy(NULL), SW_INVALID))                                                \
    X(sw_op_register(NULL, &id))                                                               \
    X(sw_op_register(sw_op_at(0), NULL))                                                       \
    X((sw_param_freeze(no_param, 1), SW_INVALID))                                              \
    X((sw_dataset_describe(t->data, NULL), SW_INVALID))                                        \
    X(sw_confusion_add(NULL, 2, NULL, NULL))                                                   \
    X(sw_confusion_add(&count, 1, NULL, NULL))                                                 \
    X(sw_confusion_class(NULL, 1, 0, NULL))                                                    \
    X(sw_confusion_class(&count, 1, 0, NULL))                                                  \
    X(sw_confusion_mean(NULL, 1, NULL))                                                        \
    X(sw_confusion_mean(&count, 1, NULL))                                                      \
    X((sw_knob_set(no_knob, 1.0f), SW_INVALID))                                                \
    X((sw_profile_end_status(NULL, SW_OK, NULL), SW_INVALID))                                  \
    X(sw_param_new(NULL, "p", SW_F32, four, "ones").index == 0 ? SW_INVALID : SW_OK)           \
    X(sw_param_new(t->model, NULL, SW_F32, four, "ones").index == 0 ? SW_INVALID : SW_OK)      \
    X(sw_buffer_new(NULL, "p", SW_F32, four, "ones").index == 0 ? SW_INVALID : SW_OK)          \
    X(sw_buffer_new(t->model, NULL, SW_F32, four, NULL).index == 0 ? SW_INVALID : SW_OK)       \
    X(sw_state_new(NULL, "p", SW_F32, four).index == 0 ? SW_INVALID : SW_OK)                   \
    X(sw_state_new(t->model, NULL, SW_F32, four).index == 0 ? SW_INVALID : SW_OK)              \
    X(sw_constant_new(NULL, "p", NULL).index == 0 ? SW_INVALID : SW_OK)                        \
    X(sw_constant_new(t->model, "p", NULL).index == 0 ? SW_INVALID : SW_OK)                    \
    X(sw_param_find(NULL, "p").index == 0 ? SW_INVALID : SW_OK)                                \
    X(sw_param_find(t->model, NULL).index == 0 ? SW_INVALID : SW_OK)                           \
    X(sw_param_count(NULL) == 0 ? SW_INVALID : SW_OK)                                          \
    X(sw_param_at(NULL, 0).index == 0 ? SW_INVALID : SW_OK)                                    \
    X(sw_param_name(no_param)[0] == '\0' ? SW_INVALID : SW_OK)                                 \
    X(sw_param_shape(no_param).rank == 0 ? SW_INVALID : SW_OK)                                 \
    X(sw_model_layout_hash(NULL) == 0 ? SW_INVALID : SW_OK)                                    \
    X(sw_knob_new(NULL, "k", 1.0f).index == UINT32_MAX ? SW_INVALID : SW_OK)                   \
    X(sw_knob_new(t->model, NULL, 1.0f).index == UINT32_MAX ? SW_INVALID : SW_OK)              \
    X(sw_knob_find(NULL, "k").index == UINT32_MAX ? SW_INVALID : SW_OK)                        \
    X(sw_knob_find(t->model, NULL).index == UINT32_MAX ? SW_INVALID : SW_OK)                   \
    X(sw_knob_get(no_knob) == 0.0f ? SW_INVALID : SW_OK)                                       \
    X(sw_optimizer_lr(NULL, 0).index == UINT32_MAX ? SW_INVALID : SW_OK)                       \
    X(sw_optimizer_knob(NULL, 0, "lr").index == UINT32_MAX ? SW_INVALID : SW_OK)               \
    X(sw_loader_bytes(NULL) == 0 ? SW_INVALID : SW_OK)                                         \
    X(sw_loader_batches(NULL) == 0 ? SW_INVALID : SW_OK)                                       \
    X(sw_linear_new(NULL, "l", 4, 4).weight.index == 0 ? SW_INVALID : SW_OK)                   \
    X(sw_linear_new(t->model, NULL, 4, 4).weight.index == 0 ? SW_INVALID : SW_OK)              \
    X(sw_conv2d_new(NULL, "l", 4, 4, 3).weight.index == 0 ? SW_INVALID : SW_OK)                \
    X(sw_conv2d_new(t->model, NULL, 4, 4, 3).weight.index == 0 ? SW_INVALID : SW_OK)           \
    X(sw_conv2d_new_with(NULL, NULL, 4, 4, 3, NULL).weight.index == 0 ? SW_INVALID : SW_OK)    \
    X(sw_conv_transpose2d_new(NULL, "l", 4, 4, 3, NULL).weight.index == 0 ? SW_INVALID         \
                                                                          : SW_OK)             \
    X(sw_lstm_new(NULL, "l", 4, 4).weight_ih.index == 0 ? SW_INVALID : SW_OK)                  \
    X(sw_lstm_new(t->model, NULL, 4, 4).weight_hh.index == 0 ? SW_INVALID : SW_OK)             \
    X(sw_gru_new(NULL, "l", 4, 4).weight_ih.index == 0 ? SW_INVALID : SW_OK)                   \
    X(sw_gru_new(t->model, NULL, 4, 4).bias_hh.index == 0 ? SW_INVALID : SW_OK)                \
    X(sw_embedding_new(NULL, "l", 4, 4).weight.index == 0 ? SW_INVALID : SW_OK)                \
    X(sw_embedding_new(t->model, NULL, 4, 4).weight.index == 0 ? SW_INVALID : SW_OK)           \
    X(sw_binary_linear_new(NULL, "l", 4, 4, 1).logits.index == 0 ? SW_INVALID : SW_OK)         \
    X(sw_binary_linear_new(t->model, NULL, 4, 4, 1).logits.index == 0 ? SW_INVALID : SW_OK)    \
    X(sw_binary_conv2d_new(NULL, "l", 4, 4, 3).logits.index == 0 ? SW_INVALID : SW_OK)         \
    X(sw_binary_conv2d_new(t->model, NULL, 4, 4, 3).logits.index == 0 ? SW_INVALID : SW_OK)    \
    X(sw_logits_new(NULL, "w", four, NULL).index == 0 ? SW_INVALID : SW_OK)                    \
    X(sw_logits_new(t->model, NULL, four, NULL).index == 0 ? SW_INVALID : SW_OK)               \
    X(sw_layer_norm_new(NULL, NULL, 4).weight.index == 0 ? SW_INVALID : SW_OK)                 \
    X(sw_rms_norm_new(NULL, NULL, 4).weight.index == 0 ? SW_INVALID : SW_OK)                   \
    X(sw_group_norm_new(NULL, NULL, 2, 4).weight.index == 0 ? SW_INVALID : SW_OK)              \
    X(sw_batch_norm2d_new(NULL, NULL, 4).weight.index == 0 ? SW_INVALID : SW_OK)               \
    X(sw_layer_norm_new(t->model, NULL, 4).weight.index == 0 ? SW_INVALID : SW_OK)             \
    X(sw_batch_norm2d_new(t->model, NULL, 4).weight.index == 0 ? SW_INVALID : SW_OK)           \
    X(sw_op_at(UINT32_MAX) == NULL ? SW_INVALID : SW_OK)                                       \
    X((sw_budget_destroy(NULL), SW_INVALID))                                                   \
    X((sw_exec_destroy(NULL), SW_INVALID))                                                     \
    X((sw_model_destroy(NULL), SW_INVALID))                                                    \
    X((sw_dataset_destroy(NULL), SW_INVALID))                                                  \
    X((sw_loader_destroy(NULL), SW_INVALID))                                                   \
    X(sw_type_elements(NULL) == 0 ? SW_INVALID : SW_OK)                                        \
    X(sw_type_bytes(NULL) == 0 ? SW_INVALID : SW_OK)

/* In a step function, with the ctx of it and with NULL: an error sticks, or is one of no ctx.
 */
#define INSIDE(X)                                                                              \
    X(sw_input(c, 0))                                                                          \
    X(sw_rank(c, no_value))                                                                    \
    X(sw_dim(c, no_value, 0))                                                                  \
    X(sw_use(c, no_param))                                                                     \
    X(sw_assign(c, no_param, x))                                                               \
    X(sw_apply_linear(c, linear, x))                                                           \
    X(sw_apply_conv2d(c, conv, x))                                                             \
    X(sw_apply_conv_transpose2d(c, conv_transpose, x))                                         \
    X(sw_apply_lstm(c, lstm, no_value, NULL, NULL))                                            \
    X(sw_apply_lstm_step(c, lstm, x, NULL, NULL))                                              \
    X(sw_apply_gru(c, gru, x, NULL))                                                           \
    X(sw_apply_gru_step(c, gru, x, NULL))                                                      \
    X(sw_apply_embedding(c, embedding, x))                                                     \
    X(sw_apply_layer_norm(c, layer_norm, no_value))                                            \
    X(sw_apply_rms_norm(c, rms_norm, no_value))                                                \
    X(sw_apply_group_norm(c, group_norm, no_value))                                            \
    X(sw_apply_batch_norm2d(c, batch_norm, x))                                                 \
    X(sw_binarize(c, no_value, 0.0f))                                                          \
    X(sw_binary_max_pool2d(c, no_value, 2, 2))                                                 \
    X(sw_binary_linear_op(c, no_value, no_value, no_value, SW_BINARY_BITS))                    \
    X(sw_binary_conv2d_op(c, no_value, no_value, no_value, 1, 0, SW_BINARY_SUMS))              \
    X(sw_apply_binary_linear(c, binary_linear, x, SW_BINARY_BITS))                             \
    X(sw_apply_binary_conv2d(c, binary_conv, x, SW_BINARY_BITS))                               \
    X(sw_linear_op(c, no_value, no_value, no_value))                                           \
    X(sw_conv2d_op(c, no_value, no_value, no_value, 1, 0))                                     \
    X(sw_conv2d_op_with(c, no_value, no_value, no_value, NULL))                                \
    X(sw_conv_transpose2d_op(c, no_value, no_value, no_value, NULL))                           \
    X(sw_upsample(c, no_value, 2, SW_NEAREST))                                                 \
    X(sw_upsample_to(c, no_value, 4, 4, SW_BILINEAR))                                          \
    X(sw_embedding_op(c, no_value, no_value))                                                  \
    X(sw_matmul(c, no_value, no_value))                                                        \
    X(sw_dropout(c, no_value, 0.5f))                                                           \
    X(sw_dropout_knob(c, no_value, no_knob))                                                   \
    X(sw_random_flip(c, no_value, 0.5f))                                                       \
    X(sw_random_crop(c, no_value, 4))                                                          \
    X(sw_layer_norm_op(c, no_value, no_value, no_value, 1e-5f))                                \
    X(sw_rms_norm_op(c, no_value, no_value, 1e-5f))                                            \
    X(sw_group_norm_op(c, no_value, no_value, no_value, 2, 1e-5f))                             \
    X(sw_batch_norm_op(c, x, no_value, no_value, no_param, no_param, 0.1f, 1e-5f))             \
    X(sw_attention(c, no_value, no_value, no_value, 1, 0, 0.0f))                               \
    X(sw_relu(c, no_value))                                                                    \
    X(sw_leaky_relu(c, no_value, 0.1f))                                                        \
    X(sw_tanh(c, no_value))                                                                    \
    X(sw_sigmoid(c, no_value))                                                                 \
    X(sw_swish(c, no_value))                                                                   \
    X(sw_gelu(c, no_value))                                                                    \
    X(sw_gelu_tanh(c, no_value))                                                               \
    X(sw_mish(c, no_value))                                                                    \
    X(sw_softplus(c, no_value))                                                                \
    X(sw_hard_swish(c, no_value))                                                              \
    X(sw_elu(c, no_value, 1.0f))                                                               \
    X(sw_selu(c, no_value))                                                                    \
    X(sw_exp(c, no_value))                                                                     \
    X(sw_log(c, no_value))                                                                     \
    X(sw_sqrt(c, no_value))                                                                    \
    X(sw_rsqrt(c, no_value))                                                                   \
    X(sw_pow(c, no_value, 2.0f))                                                               \
    X(sw_abs(c, no_value))                                                                     \
    X(sw_clamp(c, no_value, 0.0f, 1.0f))                                                       \
    X(sw_add(c, no_value, x))                                                                  \
    X(sw_mul(c, no_value, x))                                                                  \
    X(sw_sub(c, no_value, x))                                                                  \
    X(sw_div(c, no_value, x))                                                                  \
    X(sw_where(c, no_value, x, x))                                                             \
    X(sw_lstm_cell(c, x, x, NULL))                                                             \
    X(sw_gru_cell(c, x, x, no_value))                                                          \
    X(sw_swiglu(c, no_value, x))                                                               \
    X(sw_scale(c, x, no_knob))                                                                 \
    X(sw_scale_by(c, no_value, 1.0f))                                                          \
    X(sw_to_f32(c, no_value, 1.0f, 0.0f))                                                      \
    X(sw_max_pool(c, no_value, 2))                                                             \
    X(sw_avg_pool(c, no_value, 2))                                                             \
    X(sw_max_pool2d(c, no_value, 2, 2, 0))                                                     \
    X(sw_avg_pool2d(c, no_value, 2, 2, 0))                                                     \
    X(sw_global_max_pool(c, no_value))                                                         \
    X(sw_global_avg_pool(c, no_value))                                                         \
    X(sw_channel_scale(c, no_value, no_value))                                                 \
    X(sw_reshape(c, no_value, four))                                                           \
    X(sw_flatten(c, no_value))                                                                 \
    X(sw_slice(c, no_value, 0, 0, 1))                                                          \
    X(sw_permute(c, x, NULL, 1))                                                               \
    X(sw_transpose(c, no_value, 0, 1))                                                         \
    X(sw_split(c, x, 2, 0, NULL, 2))                                                           \
    X(sw_concat(c, NULL, 2, 0))                                                                \
    X(sw_concat(c, NULL, 2, -1))                                                               \
    X(sw_stack(c, NULL, 0, 0))                                                                 \
    X(sw_full(c, SW_SHAPE(-1), 1.0f))                                                          \
    X(sw_detach(c, no_value))                                                                  \
    X(sw_sum(c, no_value, 0))                                                                  \
    X(sw_mean(c, no_value, 0))                                                                 \
    X(sw_max(c, no_value, 0))                                                                  \
    X(sw_sum_axes(c, x, NULL, 1, 0))                                                           \
    X(sw_mean_axes(c, x, NULL, 1, 0))                                                          \
    X(sw_max_axes(c, x, NULL, 1, 0))                                                           \
    X(sw_argmax(c, no_value, 0, 0))                                                            \
    X(sw_cumsum(c, no_value, 0))                                                               \
    X(sw_softmax(c, no_value))                                                                 \
    X(sw_log_softmax(c, no_value))                                                             \
    X(sw_softmax_ce(c, no_value, no_value))                                                    \
    X(sw_softmax_ce_with(c, no_value, no_value, 0.0f, -100))                                   \
    X(sw_linear_ce(c, no_value, no_value, no_value, no_value))                                 \
    X(sw_linear_ce_with(c, no_value, no_value, no_value, no_value, 0.0f, -100))                \
    X(sw_mse(c, no_value, no_value))                                                           \
    X(sw_bce(c, no_value, 1.0f))                                                               \
    X(sw_bce_with(c, no_value, no_value))                                                      \
    X(sw_huber(c, no_value, no_value, 1.0f))                                                   \
    X(sw_l1(c, no_value, no_value))                                                            \
    X(sw_kl_div(c, no_value, no_value))                                                        \
    X(sw_accuracy(c, no_value, no_value))                                                      \
    X(sw_randn(c, NULL, four))                                                                 \
    X(sw_rand(c, NULL, four))                                                                  \
    X(sw_gradient_hook(c, NULL, NULL, NULL))                                                   \
    X(sw_net_step(c, NULL))                                                                    \
    X(sw_backward(c, scalar, NULL, 1))                                                         \
    X(sw_backward(c, scalar, no_optimizers, 1))                                                \
    X(sw_accumulate(c, NULL))                                                                  \
    X(sw_clip_norm(c, NULL, no_knob))                                                          \
    X(sw_update(c, NULL))                                                                      \
    X(sw_metric(c, NULL, scalar))                                                              \
    X(sw_metric(c, "m", no_value))                                                             \
    X(sw_output(c, NULL, x))                                                                   \
    X(sw_output(c, "y", no_value))                                                             \
    X(sw_scope_begin(c, NULL))                                                                 \
    X(sw_scope_end(c))                                                                         \
    X(sw_fail(c, SW_INVALID, NULL))                                                            \
    X((void)!sw_item(c, scalar, NULL))                                                         \
    X(sw_op_apply(c, 0, NULL, 1, NULL))                                                        \
    X(sw_op_apply_all(c, 0, NULL, 1, NULL, NULL))

static void visit_layer(void *to, const sw_plan_layer *layer)
{
    (void)to, (void)layer;
}

static void visit_share(void *to, const sw_share *share)
{
    (void)to, (void)share;
}

typedef struct {
    things *t;
    int which;
    bool without; /* the ctx is NULL */
    sw_status outside;
} inside;

#define ONE_MORE(call) +1
enum { N_OUTSIDE = 0 OUTSIDE(ONE_MORE), N_INSIDE = 0 INSIDE(ONE_MORE) };
#define TEXT(call) #call,
static const char *const texts[] = {OUTSIDE(TEXT) INSIDE(TEXT)};

static void call_inside(sw_ctx *ctx, void *user)
{
    static sw_optimizer *const no_optimizers[1];
    inside *i = user;
    const sw_value x = sw_rand(ctx, "x", four), scalar = sw_mean(ctx, x, 0);
    const sw_linear linear = {.reserved = {0}};
    const sw_conv2d conv = {.reserved = {0}};
    const sw_conv_transpose2d conv_transpose = {.reserved = {0}};
    const sw_lstm lstm = {.reserved = {0}};
    const sw_gru gru = {.reserved = {0}};
    const sw_binary_linear binary_linear = {.reserved = {0}};
    const sw_binary_conv2d binary_conv = {.reserved = {0}};
    const sw_embedding embedding = {.reserved = {0}};
    const sw_layer_norm layer_norm = {.reserved = {0}};
    const sw_rms_norm rms_norm = {.reserved = {0}};
    const sw_group_norm group_norm = {.reserved = {0}};
    const sw_batch_norm2d batch_norm = {.reserved = {0}};
    sw_ctx *const c = i->without ? NULL : ctx;
    int k = 0;
#define IF_THIS(call)                                                                          \
    if (i->which == k++)                                                                       \
        call;
    INSIDE(IF_THIS)
    i->outside = sw_ctx_status(ctx);
    if (i->without) { /* these need a ctx as well */
        sw_set_phase(NULL, SW_LOSS);
        sw_clear_phase(NULL);
        (void)sw_ctx_mode(NULL);
    }
}

/* Call number k; SW_OK where it was refused as it should be. */
static sw_status call_number(things *t, int k, bool without)
{
    sw_model *model;
    sw_optimizer *opt;
    sw_dataset *data;
    sw_feed *feed;
    sw_es *es;
    sw_zo *zo;
    sw_genome *genome;
    sw_search_space *found_space;
    sw_net *net_made;
    char *text;
    const sw_task task = SW_OPTS(sw_task, .channels = 4, .classes = 2);
    sw_loader *loader;
    sw_array array;
    const sw_array *inputs;
    int n;
    uint32_t id;
    size_t bytes;
    double number;
    uint64_t count = 0;
    sw_device_info device = SW_OPTS(sw_device_info);
    sw_plan_info plan = SW_OPTS(sw_plan_info);
    sw_run_info run = SW_OPTS(sw_run_info);
    sw_witness_info witness = SW_OPTS(sw_witness_info);
    const sw_plan_visitor visitor = SW_OPTS(sw_plan_visitor);
    const sw_loader_opts batches = SW_OPTS(sw_loader_opts, .batch = 2);
    const sw_optimizer_opts sgd = SW_OPTS(sw_optimizer_opts, .kind = "sgd");
    const sw_schedule schedule = SW_OPTS(sw_schedule, .kind = "constant", .base = 1);
    const sw_run_args args = SW_OPTS(sw_run_args, .fn = nothing);
    int i = 0;
#define RETURN_IF_THIS(call)                                                                   \
    if (k == i++)                                                                              \
        return (call) == SW_INVALID ? SW_OK : SW_FORMAT;
    OUTSIDE(RETURN_IF_THIS)
    inside of = {.t = t, .which = k - N_OUTSIDE, .without = without};
    for (int immediate = 0; immediate < 2; immediate++) {
        const sw_run_args a =
            SW_OPTS(sw_run_args, .fn = call_inside, .user = &of, .immediate = immediate,
                    .variant = (uint64_t)(2 * k + without));
        const sw_status status = sw_run(t->exec, &a);
        if (without ? status != SW_OK : status == SW_OK || sw_last_error()[0] == '\0')
            return SW_FORMAT;
    }
    return SW_OK;
}

/* In a child: how far it came and what it found is in memory that both see. */
typedef struct {
    volatile int at, wrong[2 * (N_OUTSIDE + N_INSIDE)];
} progress;

static void call_from(things *t, progress *p, int from)
{
    const int n = N_OUTSIDE + N_INSIDE;
    for (int k = from; k < n + N_INSIDE; k++) {
        p->at = k;
        const bool without = k >= n;
        p->wrong[k] = call_number(t, without ? k - N_INSIDE : k, without) != SW_OK;
    }
    p->at = n + N_INSIDE;
}

static void null_is_an_error_everywhere(void)
{
    const int end = N_OUTSIDE + 2 * N_INSIDE;
    progress *p =
        mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(p != MAP_FAILED);
    for (int from = 0; from < end;) {
        const pid_t child = fork();
        if (child == 0) {
            things t = make_things();
            call_from(&t, p, from);
            _exit(0);
        }
        int status;
        CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
        const int at = p->at, k = at < N_OUTSIDE + N_INSIDE ? at : at - N_INSIDE;
        SW_CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0) || at >= end, "%s%s crashes",
                 texts[at < end ? k : 0], at != k ? " with ctx NULL" : "");
        from = at + 1;
    }
    for (int i = 0; i < end; i++) {
        const int k = i < N_OUTSIDE + N_INSIDE ? i : i - N_INSIDE;
        SW_CHECK(p->wrong[i] == 0, "%s%s was not refused", texts[k],
                 i != k ? " with ctx NULL" : "");
    }
    sw_note("%d calls", end);
    munmap(p, sizeof *p);
}

/* ---- gone -------------------------------------------------------------------------------- */

static void what_is_gone_is_refused(void)
{
    if (SW_SANITIZED)
        SW_SKIP("a sanitizer finds it");
    things t = make_things();
    const sw_run_args a =
        SW_OPTS(sw_run_args, .fn = nothing, .models = &t.model, .n_models = 1);
    const sw_array *inputs;
    const sw_exec_opts under = SW_OPTS(sw_exec_opts, .budget = t.budget);
    sw_exec *other;
    sw_dataset_info info = SW_OPTS(sw_dataset_info);
    int n;
    OK(sw_run(t.exec, &a));
    sw_model_destroy(t.model);
    sw_model_destroy(t.model);
    CU_ASSERT_STRING_EQUAL(sw_last_error(), "sw_model_destroy: the model was destroyed");
    REFUSED(sw_run(t.exec, &a), SW_INVALID, "sw_run: model 0 was destroyed");
    REFUSED(sw_model_ready(t.model, t.exec, 1), SW_INVALID, "the model was destroyed");
    REFUSED(sw_param_read(t.layer.bias, some, sizeof some), SW_INVALID, "was destroyed");
    sw_knob_set(t.knob, 2.0f);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "was destroyed"));
    CU_ASSERT_EQUAL(sw_knob_get(t.knob), 0.0f);
    CU_ASSERT_STRING_EQUAL(sw_param_name(t.layer.bias), "");
    REFUSED(sw_optimizer_skipped(t.opt, NULL, NULL), SW_INVALID, "optimizer was destroyed");
    sw_dataset_destroy(t.data); /* before its loader */
    sw_dataset_destroy(t.data);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "data set was destroyed"));
    sw_dataset_describe(t.data, &info);
    CU_ASSERT_EQUAL(info.n, 0);
    OK(sw_loader_epoch(t.loader, 0));
    OK(sw_loader_next(t.loader, &inputs, &n));
    CU_ASSERT_EQUAL(n, 2);
    sw_loader_destroy(t.loader);
    sw_loader_destroy(t.loader);
    REFUSED(sw_loader_next(t.loader, &inputs, &n), SW_INVALID, "loader was destroyed");
    OK(sw_exec_create(&other, &under));
    sw_budget_destroy(t.budget); /* before its exec */
    sw_budget_destroy(t.budget);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "budget was destroyed"));
    sw_exec_destroy(other);
    REFUSED(sw_exec_create(&other, &under), SW_INVALID, "budget was destroyed");
    OK(sw_exec_set_profile(t.exec, t.profile));
    OK(sw_profile_destroy(t.profile));
    REFUSED(sw_profile_destroy(t.profile), SW_INVALID, "profile was destroyed");
    const sw_run_args alone = SW_OPTS(sw_run_args, .fn = nothing);
    REFUSED(sw_run(t.exec, &alone), SW_INVALID, "the exec's profile was destroyed");
    sw_exec_destroy(t.exec);
    sw_exec_destroy(t.exec);
    CU_ASSERT_STRING_EQUAL(sw_last_error(), "sw_exec_destroy: the exec was destroyed");
    REFUSED(sw_run(t.exec, &alone), SW_INVALID, "sw_run: the exec was destroyed");
    REFUSED(sw_run((sw_exec *)(void *)some, &alone), SW_INVALID, "not point to any exec");
}

/* The memory of an object is the last that is used again; then it has another generation. */
static void memory_is_used_again_last(void)
{
    if (SW_SANITIZED)
        SW_SKIP("a sanitizer finds it");
    sw_model *first, *m = NULL;
    OK(sw_model_create(&first, "first"));
    const uint32_t generation = first->handle.generation;
    sw_model_destroy(first);
    int n = 0;
    do {
        CU_ASSERT_EQUAL(sw_param_count(first), 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "was destroyed"));
        OK(sw_model_create(&m, "next"));
        if (m != first)
            sw_model_destroy(m);
    } while (m != first && ++n < 100000); /* all that tests before this one have destroyed */
    CU_ASSERT_PTR_EQUAL_FATAL(m, first);
    CU_ASSERT(n >= SW_HANDLE_KEPT - 1);
    CU_ASSERT(!sw_handle_is(first, SW_HANDLE_MODEL, generation));
    sw_model_destroy(m);
}

/* ---- in a step function ------------------------------------------------------------------ */

typedef struct {
    things *t;
    int what;
} ending;

static void destroy_one(sw_ctx *c, void *user)
{
    const ending *e = user;
    (void)c;
    switch (e->what) {
    case 0:
        sw_exec_destroy(e->t->exec);
        break;
    case 1:
        sw_model_destroy(e->t->model);
        break;
    case 2:
        sw_loader_destroy(e->t->loader);
        break;
    default:
        (void)!sw_profile_destroy(e->t->profile);
    }
}

static void nothing_is_destroyed_in_a_step_function(void)
{
    things t = make_things();
    for (int what = 0; what < 4; what++)
        for (int immediate = 0; immediate < 2; immediate++) {
            ending e = {&t, what};
            const sw_run_args a =
                SW_OPTS(sw_run_args, .fn = destroy_one, .user = &e, .models = &t.model,
                        .n_models = 1, .immediate = immediate, .variant = (uint64_t)what);
            REFUSED(sw_run(t.exec, &a), SW_INVALID, "must be destroyed in a step function");
        }
    const sw_run_args good = SW_OPTS(sw_run_args, .fn = nothing);
    OK(sw_run(t.exec, &good));
    OK(sw_loader_epoch(t.loader, 0));
    OK(sw_profile_flush(t.profile));
    OK(sw_param_read(t.layer.bias, some, sizeof some));
    sw_loader_destroy(t.loader);
    sw_dataset_destroy(t.data);
    sw_model_destroy(t.model);
    OK(sw_profile_destroy(t.profile));
    sw_exec_destroy(t.exec);
    sw_budget_destroy(t.budget);
}

static sw_ctx *kept;
static void keep_ctx(sw_ctx *c, void *user)
{
    (void)user;
    kept = c;
}

static void a_ctx_ends_with_its_step_function(void)
{
    sw_exec *exec = net_exec(NULL);
    const sw_run_args a = SW_OPTS(sw_run_args, .fn = keep_ctx);
    OK(sw_run(exec, &a));
    CU_ASSERT_EQUAL(sw_ctx_status(kept), SW_STALE);
    CU_ASSERT_EQUAL(sw_rand(kept, "x", four).id, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "after the end of its step function"));
    OK(sw_run(exec, &a));
}

/* ---- longjmp ----------------------------------------------------------------------------- */

static jmp_buf out;
static bool jumps;

static void jump_out(sw_ctx *c, void *user)
{
    const net *n = user;
    (void)sw_use(c, n->f1.bias);
    if (jumps)
        longjmp(out, 1);
}

/* Calls from a frame that is deeper than that of sw_run. */
__attribute__((noinline)) static sw_status run_deeper(sw_exec *exec, const sw_run_args *a)
{
    volatile char room[4096];
    room[0] = 1;
    const sw_status status = sw_run(exec, a);
    return room[0] == 1 ? status : SW_IO; /* used after the call: the frame stays */
}

static void a_step_function_may_be_left(void)
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL);
    sw_run_args a =
        SW_OPTS(sw_run_args, .fn = jump_out, .user = n, .models = &n->model, .n_models = 1);
    for (volatile int immediate = 0; immediate < 2; immediate++) {
        a.immediate = immediate;
        const uint32_t fp = swi_fp_enter();
        swi_fp_leave(fp);
        jumps = true;
        if (setjmp(out) == 0)
            (void)!sw_run(exec, &a);
        jumps = false;
        REFUSED(run_deeper(exec, &a), SW_BUSY, "or that longjmp left");
        OK(sw_run(exec, &a));
        const uint32_t now = swi_fp_enter();
        swi_fp_leave(now);
        CU_ASSERT_EQUAL(now, fp);
        OK(sw_run(exec, &a));
    }
    jumps = true;
    if (setjmp(out) == 0)
        (void)!sw_run(exec, &a);
    /* Both are destroyed after it, by the test's end. */
}

/* A call from a deeper frame, where that of sw_run was. */
__attribute__((noinline)) static sw_status set_deeper(sw_es *es)
{
    volatile char room[4096];
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = 0;
    const sw_status status = sw_es_generation_set(es, 1);
    return room[0] == 0 ? status : SW_IO;
}

static void the_noise_of_a_run_that_was_left(void)
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL);
    const sw_es_opts opts = SW_OPTS(sw_es_opts, .directions = 2);
    sw_es *es;
    OK(sw_es_create(&es, n->opt, &opts));
    sw_run_args a = SW_OPTS(sw_run_args, .fn = jump_out, .user = n, .models = &n->model,
                            .n_models = 1, .es = es);
    for (volatile int deeper = 1; deeper >= 0; deeper--) {
        jumps = true;
        if (setjmp(out) == 0)
            (void)!sw_run(exec, &a);
        jumps = false;
        if (deeper) /* taken for the step function itself */
            REFUSED(set_deeper(es), SW_BUSY, "the evolution strategy is in use by a run");
        OK(sw_es_generation_set(es, 2));
    }
    sw_es_destroy(es);
}

/* ---- whose thread ------------------------------------------------------------------------ */

typedef struct {
    sw_exec *exec;
    const sw_run_args *args;
    sw_status inner, foreign;
    char inner_text[300], foreign_text[300];
} callers;

static void *call_foreign(void *arg)
{
    callers *c = arg;
    c->foreign = sw_run(c->exec, c->args);
    snprintf(c->foreign_text, sizeof c->foreign_text, "%s", sw_last_error());
    return NULL;
}

static void call_again(sw_ctx *ctx, void *user)
{
    callers *c = user;
    pthread_t thread;
    (void)ctx;
    c->inner = sw_run(c->exec, c->args);
    snprintf(c->inner_text, sizeof c->inner_text, "%s", sw_last_error());
    if (pthread_create(&thread, NULL, call_foreign, c) == 0)
        pthread_join(thread, NULL);
}

static void another_thread_is_another(void)
{
    callers c = {.exec = net_exec(NULL)};
    const sw_run_args a = SW_OPTS(sw_run_args, .fn = call_again, .user = &c);
    c.args = &a;
    OK(sw_run(c.exec, &a));
    CU_ASSERT_EQUAL(c.inner, SW_BUSY);
    CU_ASSERT_EQUAL(c.foreign, SW_BUSY);
    SW_CHECK(strstr(c.inner_text, "this thread") != NULL, "%s", c.inner_text);
    SW_CHECK(strstr(c.inner_text, "another") == NULL, "%s", c.inner_text);
    SW_CHECK(strstr(c.foreign_text, "another thread") != NULL, "%s", c.foreign_text);
}

static void late_declarations_change_nothing(void)
{
    things t = make_things();
    size_t before, after;
    const sw_run_args a =
        SW_OPTS(sw_run_args, .fn = nothing, .models = &t.model, .n_models = 1);
    OK(sw_model_bytes(t.model, &before));
    CU_ASSERT_EQUAL(sw_param_new(t.model, "late", SW_F32, four, "ones").index, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "after the layout was fixed"));
    CU_ASSERT_EQUAL(sw_knob_new(t.model, "late", 1.0f).index, UINT32_MAX);
    CU_ASSERT_EQUAL(sw_param_new(t.model, "late", SW_U8, four, "?").index, 0);
    (void)sw_conv2d_new(t.model, "late", 3, -1, 0);
    OK(sw_model_bytes(t.model, &after));
    CU_ASSERT_EQUAL(before, after);
    CU_ASSERT_EQUAL(sw_param_find(t.model, "late").index, 0);
    OK(sw_run(t.exec, &a));
    OK(sw_model_ready(t.model, t.exec, 2));
    sw_loader_destroy(t.loader);
    sw_dataset_destroy(t.data);
    sw_model_destroy(t.model);
    OK(sw_profile_destroy(t.profile));
    sw_exec_destroy(t.exec);
    sw_budget_destroy(t.budget);
}

static const sw_test tests[] = {
    {"NULL for any pointer of any function is an error", null_is_an_error_everywhere},
    {"what is gone is refused by name", what_is_gone_is_refused},
    {"the memory of what is gone is used again last", memory_is_used_again_last},
    {"nothing is destroyed in a step function", nothing_is_destroyed_in_a_step_function},
    {"a ctx ends with its step function", a_ctx_ends_with_its_step_function},
    {"a step function may be left by longjmp", a_step_function_may_be_left},
    {"the noise of a run that longjmp left is free", the_noise_of_a_run_that_was_left},
    {"another thread is said of another thread alone", another_thread_is_another},
    {"declarations after the layout change nothing", late_declarations_change_nothing},
};
SW_SUITE("misuse", tests)
