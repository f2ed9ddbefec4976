/* A training job: exec, model, programs, their plans. */
#include "alloc/arena/arena.h"
#include "alloc/base/message.h"
#include "alloc/base/size.h"
#include "alloc/base/sys.h"
#include "kernels/dispatch.h"
#include "runtime/exec/run_internal.h"
#include "tools/job/job.h"
#include "tools/text/chat.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

int64_t job_slot_rows(const job_data *data, int64_t batch)
{
    return batch < data->n ? batch : data->n;
}

size_t job_field_bytes(const sw_array *field)
{
    size_t bytes = sw_dtype_bytes(field->dtype);
    for (int d = 0; d < field->shape.rank; d++)
        bytes *= (size_t)field->shape.dim[d];
    return bytes;
}

/* A batch: each field begins at a multiple of the alignment. */
static size_t slot_bytes(const job_data *data, int64_t rows)
{
    size_t slot = 0;
    for (int i = 0; i < data->info.n_fields; i++)
        slot += sw_size_round(job_field_bytes(&data->info.field[i]) * (size_t)rows);
    return slot;
}

size_t job_image_bytes(const job *j)
{
    size_t sum = 0;
    for (int i = 0; i < j->train.info.n_fields; i++)
        sum += job_field_bytes(&j->train.info.field[i]);
    return sum;
}

int64_t job_batch(const job *j)
{
    return j->opts->method == JOB_ES
               ? j->batch
               : job_slot_rows(j->opts->method == JOB_NONE ? &j->test : &j->train, j->batch);
}

/* A generation takes its samples one by one, so that every slice is whole. Shards are whole,
 * too; all but the last of a rank update nothing. With --accumulate a full batch updates where
 * it is the last of its step: as the last of so many, or of the epoch. */
static int64_t batch_of_program(const job *j, job_which which)
{
    const job_data *data = which >= JOB_EVAL ? &j->test : &j->train;
    const int64_t full = data->n / j->batch, rest = data->n % j->batch;
    if (j->opts->method == JOB_NONE && which < JOB_EVAL)
        return 0;
    if (j->shards > 0 && which < JOB_EVAL)
        return which == JOB_TRAIN || (which == JOB_MICRO && j->shards_here > 1) ? j->batch : 0;
    if (j->opts->method == JOB_ES && which < JOB_EVAL)
        return which == JOB_TRAIN ? j->batch : 0;
    if (which == JOB_TRAIN_LAST || which == JOB_EVAL_LAST)
        return rest;
    if (which == JOB_MICRO)
        return j->opts->accumulate > 1 && data->n > j->batch ? j->batch : 0;
    if (which == JOB_TRAIN && full < j->opts->accumulate && rest > 0)
        return 0;
    return full > 0 ? j->batch : 0;
}

void job_set_batch(job *j, int64_t batch)
{
    static const char *const names[] = {"train", "train_last", "accumulate", "eval",
                                        "eval_last"};
    j->batch = batch;
    for (int i = 0; i < JOB_PROGRAMS; i++) {
        job_program *p = &j->program[i];
        const job_data *data = i >= JOB_EVAL ? &j->test : &j->train;
        const bool learns = i < JOB_EVAL && j->opts->method != JOB_MEZO;
        *p = (job_program){.name = names[i], .mode = learns ? SW_TRAIN : SW_EVAL};
        p->batch = batch_of_program(j, (job_which)i);
        for (int k = 0; k < data->info.n_fields; k++) {
            sw_array a = {.dtype = data->info.field[k].dtype,
                          .shape = {.rank = data->info.field[k].shape.rank + 1}};
            a.shape.dim[0] = p->batch;
            for (int m = 0; m < data->info.field[k].shape.rank; m++)
                a.shape.dim[m + 1] = data->info.field[k].shape.dim[m];
            p->inputs[k] = a;
        }
        p->plan.size = sizeof p->plan;
    }
    const job_data *data = j->opts->method == JOB_NONE ? &j->test : &j->train;
    const bool es = j->opts->method == JOB_ES;
    j->data_bytes = slot_bytes(data, es ? j->batch : job_slot_rows(data, j->batch));
    if (!es && data == &j->train && !swi_loader_fills_inline(j->data_bytes, 0))
        j->data_bytes *= SWI_SLOTS;
    if (tool_task_of(&j->train.info) == TOOL_DOCUMENTS) /* they are packed, and lie whole */
        j->data_bytes += slot_bytes(&j->train, j->train.n) + slot_bytes(&j->test, j->test.n);
}

sw_run_args job_args(job *j, job_which which, const sw_array *inputs, uint64_t step)
{
    sw_step_fn *fn = j->fn != NULL ? j->fn : tool_net_step;
    sw_run_args args = SW_OPTS(
        sw_run_args, .fn = which == JOB_MICRO ? tool_net_micro_step : fn, .user = &j->net,
        .models = j->net.models, .n_models = j->net.models[1] != NULL ? 2 : 1, .inputs = inputs,
        .n_inputs = (which < JOB_EVAL ? &j->train : &j->test)->info.n_fields,
        .mode = j->program[which].mode, .immediate = j->opts->immediate, .step = step,
        .run = which == JOB_TRAIN && j->shards > 0 ? (uint32_t)j->shards_here - 1 : 0,
        .data_bytes = j->data_bytes, .es = which < JOB_EVAL ? j->es : NULL);
    return args;
}

const job_program *job_main(const job *j)
{
    static const job_which order[] = {JOB_TRAIN, JOB_MICRO, JOB_TRAIN_LAST, JOB_EVAL,
                                      JOB_EVAL_LAST};
    int i = 0;
    while (i < JOB_PROGRAMS - 1 && j->program[order[i]].batch == 0)
        i++;
    return &j->program[order[i]];
}

size_t job_total_bytes(const job *j)
{
    size_t most = 0;
    for (int i = 0; i < JOB_PROGRAMS; i++)
        if (j->program[i].batch > 0 && j->program[i].plan.total_bytes > most)
            most = j->program[i].plan.total_bytes;
    return most;
}

uint64_t job_state_bits(const job_opts *o)
{
    return o->state != NULL && strcmp(o->state, "8bit") == 0 ? 8 : 32;
}

tool_net_opts job_net_opts(const job *j)
{
    const job_opts *o = j->opts;
    tool_net_opts net =
        SW_INIT(.model = o->kind, .settings = o->settings, .data = j->train.info,
                .pixels = j->normal.pixels, .augment = job_augment(o), .clip = (float)o->clip,
                .accumulate = o->accumulate > 1 ||
                              (j->shards > 0 && tool_task_of(&j->train.info) == TOOL_DOCUMENTS),
                .knobs = o->knobs, .frozen = o->method == JOB_NONE && o->params == NULL,
                .optimizer = {.size = sizeof net.optimizer,
                              .lr = (float)o->lr,
                              .weight_decay = (float)o->weight_decay,
                              .update = o->release ? SW_UPDATE_RELEASE : SW_UPDATE_AFTER,
                              .keep_gradients = o->keep_gradients || o->accumulate > 1,
                              .shards = (uint64_t)j->shards_here,
                              .state_bits = job_state_bits(o),
                              .max_skipped = o->max_skipped > 0 ? (int)o->max_skipped : -1,
                              .knobs = o->knobs});
    if (o->method == JOB_MEZO || o->method == JOB_NONE)
        net.optimizer.kind = NULL;
    else
        tool_optimizer_set(&net.optimizer, o->optimizer, o->momentum);
    return net;
}

/* In the order of sw_nvtx_level. */
const char *const job_nvtx_words[] = {"phases", "layers", "ops", "off", NULL};
const char *const job_save_types[] = {"f32", "bf16", NULL};

sw_status job_save_params(const job_opts *o, const sw_model *model, const char *path)
{
    const bool halves = o->save_type != NULL && strcmp(o->save_type, job_save_types[1]) == 0;
    return cli_saved(sw_model_save_as(model, path, halves ? SW_BF16 : SW_F32));
}

sw_status job_save(const job *j, const char *path)
{
    return j->opts->kind->save != NULL
               ? cli_saved(j->opts->kind->save(&j->net, strchr(j->opts->model, ':') + 1, path))
               : job_save_params(j->opts, j->net.model, path);
}

int job_set_shards(job *j, int64_t batch, int64_t asked, int ranks)
{
    const int64_t shards = asked > 0 ? asked : ranks;
    if (ranks == 1 && asked <= 1)
        return CLI_GO;
    if (swi_shards_check((int)shards, ranks) != SW_OK)
        return cli_error(CLI_USAGE, "--shards: %s", sw_last_error());
    if (batch % shards != 0)
        return cli_error(CLI_USAGE,
                         "--batch must be a multiple of the %lld shards of a step (got %lld; "
                         "%lld would do)",
                         (long long)shards, (long long)batch,
                         (long long)((batch / shards + 1) * shards));
    j->shards = (int)shards;
    j->shards_here = (int)shards / ranks;
    j->batch = batch / shards;
    if (ranks > 1) /* and room for the scores of a step of all ranks, mine first */
        j->transport_bytes = swi_ranks_bytes(ranks) + (size_t)(ranks + 1) *
                                                          (size_t)(1 + j->shards_here) *
                                                          JOB_SCORE_BYTES;
    return CLI_GO;
}

sw_status job_sent(job *j, uint64_t *gradients, uint64_t *scores)
{
    const int ranks = j->shards / j->shards_here;
    const sw_run_args args = job_args(j, JOB_TRAIN, j->program[JOB_TRAIN].inputs, 0);
    *scores = (uint64_t)(ranks - 1) * (uint64_t)(1 + j->shards_here) * JOB_SCORE_BYTES;
    return swi_run_sent(j->exec, &args, ranks, gradients);
}

sw_status job_make(job *j)
{
    const job_opts *o = j->opts;
    if (o->budget_bytes > 0) {
        SW_TRY(sw_budget_create(&j->budget, o->budget_bytes));
        SW_TRY(sw_budget_take(j->budget, j->transport_bytes, "exchanges between ranks"));
        j->transport_taken = true;
    }
    sw_exec_opts exec = o->exec;
    exec.size = sizeof exec;
    exec.device = o->device;
    exec.threads = (int)o->threads;
    exec.budget = j->budget;
    exec.seed = (uint64_t)o->seed;
    exec.max_programs = j->keep_programs;
    exec.isa = o->isa;
    exec.shares = o->shares;
    exec.ranks = j->ranks;
    exec.shards = j->shards;
    exec.nvtx = (sw_nvtx_level)cli_word_at(job_nvtx_words, o->nvtx);
    SW_TRY(sw_exec_create(&j->exec, &exec));
    if (j->shards > 0) /* without ranks: a plan of one of several */
        j->exec->target.shards_here = j->shards_here;
    const tool_net_opts net = job_net_opts(j);
    SW_TRY(tool_net_create(&j->net, &net));
    if (o->method == JOB_ES)
        SW_TRY(sw_es_create(&j->es, j->net.optimizer, &j->es_opts));
    /* Before all plans, so that the budget has its copy in it. */
    if (o->checkpoint != NULL && !o->checkpoint_pauses)
        SW_TRY(sw_model_bytes(j->net.model, &j->checkpoint_bytes));
    if (j->saves) {
        j->saving.models = &j->net.model;
        j->saving.n_models = 1;
        return cli_saved(sw_checkpoint_create(&j->checkpoint, j->exec, &j->saving));
    }
    return j->checkpoint_bytes > 0
               ? swi_snapshot_create(&j->copy, swi_target_of(j->exec), j->checkpoint_bytes)
               : SW_OK;
}

/* "batch 512: ", where several batches are planned and one of them is refused. */
static cli_text batch_name(const job *j)
{
    cli_text name = {""};
    if (j->opts->batch.n > 1)
        snprintf(name.text, sizeof name.text, "batch %lld: ", (long long)j->batch);
    return name;
}

/* ", checkpoint 1234": its copy, where one is counted. */
static cli_text checkpoint_part(const job *j)
{
    cli_text part = {""};
    if (job_counted_checkpoint_bytes(j) > 0)
        (void)sw_message(part.text, sizeof part.text, ", checkpoint %zu", j->checkpoint_bytes);
    return part;
}

static int no_fit(const job *j, const sw_plan_info *plan, const char *limit, size_t bytes)
{
    return cli_error(CLI_NO_FIT,
                     "%sdoes not fit: %zu bytes are needed (model %zu, arena %zu, data %zu%s), "
                     "%s %zu; the peak is at %s, held by %s",
                     batch_name(j).text, plan->total_bytes, plan->model_bytes,
                     plan->arena_bytes, plan->data_bytes, checkpoint_part(j).text, limit, bytes,
                     plan->peak_op, plan->holders);
}

sw_status job_plan(job *j, job_which which)
{
    job_program *p = &j->program[which];
    const sw_run_args args = job_args(j, which, p->inputs, 0);
    SW_TRY(sw_plan(j->exec, &args, &p->plan));
    if (which == JOB_MICRO && j->shards_here > 2) { /* the first writes buffers, too */
        sw_run_args later = args;
        sw_plan_info other = SW_OPTS(sw_plan_info);
        later.run = 1;
        SW_TRY(sw_plan(j->exec, &later, &other));
        if (other.peak_bytes > p->plan.peak_bytes || other.total_bytes > p->plan.total_bytes)
            p->plan = other;
    }
    if (j->opts->immediate) {
        /* Without a plan the arena is the bump, and everything that a run ever made lives at
         * its end. */
        p->plan.arena_bytes = p->plan.immediate_bytes;
        p->plan.total_bytes = p->plan.model_bytes + p->plan.arena_bytes + p->plan.data_bytes;
        p->plan.peak_bytes = p->plan.model_bytes + p->plan.slot_bytes + p->plan.immediate_bytes;
    }
    p->plan.total_bytes += job_counted_checkpoint_bytes(j) + j->transport_bytes;
    return SW_OK;
}

size_t job_needed_bytes(const job *j, const sw_plan_info *plan)
{
    const size_t arena = j->opts->immediate ? plan->immediate_bytes : plan->arena_bytes;
    return plan->model_bytes + arena + plan->data_bytes + job_counted_checkpoint_bytes(j) +
           j->transport_bytes;
}

/* All programs, whether they fit or not: of those that do not, the one that needs the most is
 * named, so that all of them fit what it says. Slots are counted although the loaders take
 * them later. */
static int plan_programs(job *j)
{
    char refused[600] = "";
    size_t most = 0;
    job_set_batch(j, j->batch);
    for (int i = 0; i < JOB_PROGRAMS; i++) {
        const job_program *p = &j->program[i];
        const sw_status status = p->batch > 0 ? job_plan(j, (job_which)i) : SW_OK;
        if (status != SW_OK && status != SW_NOMEM)
            return cli_library_error(status, false);
        if (status == SW_NOMEM && (most == 0 || job_needed_bytes(j, &p->plan) > most)) {
            most = job_needed_bytes(j, &p->plan);
            snprintf(refused, sizeof refused, "%s", sw_last_error());
        }
    }
    sw_heap_trim(); /* what planning took is free before weights are read */
    if (refused[0] == '\0')
        return CLI_GO;
    char copy[120] = ""; /* the library counts it to what others have of the budget */
    if (job_counted_checkpoint_bytes(j) > 0)
        snprintf(copy, sizeof copy,
                 "; the copy for --checkpoint takes %zu of it (--checkpoint-pauses takes none)",
                 j->checkpoint_bytes);
    return cli_error(CLI_NO_FIT, "%s%s%s", batch_name(j).text, refused, copy);
}

sw_status job_ready(job *j)
{
    SW_TRY(sw_model_ready(j->net.model, j->exec, (uint64_t)j->opts->seed));
    return j->opts->kind->load != NULL ? j->opts->kind->load(&j->net, j->exec) : SW_OK;
}

int job_begin(job *j)
{
    CLI_LIBRARY(job_make(j), false);
    return CLI_GO;
}

int job_open(job *j)
{
    CLI_TRY(job_begin(j));
    return plan_programs(j);
}

int job_check_machine(job *j, bool witness)
{
    sw_device_info device = SW_OPTS(sw_device_info);
    const size_t ranks = j->on_host > 1 ? (size_t)j->on_host : 1;
    const char *has = ranks > 1 ? "this machine has for each of its ranks" : "this machine has";
    sw_status status = machine_memory("", &j->machine);
    if (j->machine.bytes < SIZE_MAX)
        j->machine.bytes /= ranks;
    const size_t there = j->machine.bytes;
    if (status == SW_OK)
        status = sw_exec_device(j->exec, &device);
    CLI_LIBRARY(status, false);
    const size_t sets = j->train.info.bytes + j->test.info.bytes;
    if (device.total_bytes > 0) {
        if (sets > there)
            return cli_error(CLI_NO_FIT,
                             "does not fit: the data sets take %zu bytes, this machine has %zu",
                             sets, there);
        /* Model, arena and data lie on the card, which may have models of others already. */
        char limit[200];
        (void)sw_message(limit, sizeof limit, "%s (%s) has %zu bytes, of which are free",
                         device.name, device.card, device.total_bytes);
        for (int i = 0; i < JOB_PROGRAMS; i++) {
            const sw_plan_info *p = &j->program[i].plan;
            if (j->program[i].batch > 0 && p->total_bytes > device.free_bytes)
                return no_fit(j, p, limit, device.free_bytes);
        }
        return CLI_GO;
    }
    for (int i = 0; i < JOB_PROGRAMS; i++) {
        const sw_plan_info *p = &j->program[i].plan;
        if (j->program[i].batch == 0)
            continue;
        /* Witnesses give each storage pages of its own, three times at most, copies of model
         * and batch among them. */
        const size_t more =
            sets + (witness ? 3 * (p->immediate_bytes + p->model_bytes + p->slot_bytes) : 0);
        if (p->total_bytes > there)
            return no_fit(j, p, has, there);
        if (more > there - p->total_bytes)
            return cli_error(
                CLI_NO_FIT, "does not fit: %zu bytes are planned, %s take %zu more, %s %zu",
                p->total_bytes, witness ? "the data sets and witnesses" : "the data sets", more,
                has, there);
    }
    return CLI_GO;
}

void job_close(job *j)
{
    sw_checkpoint_destroy(j->checkpoint);
    swi_snapshot_destroy(j->copy);
    j->checkpoint = NULL;
    j->copy = NULL;
    sw_es_destroy(j->es);
    j->es = NULL;
    if (j->net.model != NULL)
        tool_net_destroy(&j->net);
    sw_exec_destroy(j->exec);
    if (j->transport_taken)
        sw_budget_give(j->budget, j->transport_bytes);
    j->transport_taken = false;
    sw_budget_destroy(j->budget);
    j->exec = NULL;
    j->budget = NULL;
}

/* The names of optimizers and schedules: which there are is the library's list; here is
 * what a command line adds to it. */

#define NAMES 32
#define LIST 400

typedef struct {
    const char *text[NAMES + 1];
    int n;
    bool made;
    char list[LIST]; /* all of them, with commas */
} name_list;

static void add(name_list *to, const char *name)
{
    const size_t used = strlen(to->list);
    if (to->n == NAMES)
        return;
    to->text[to->n++] = name;
    snprintf(to->list + used, sizeof to->list - used, "%s%s", used > 0 ? ", " : "", name);
}

/* ---- optimizers -------------------------------------------------------------------------- */

/* Rates for small nets, found by trying on the built-in digits; of a kind that is not here the
 * library's. */
static const struct {
    const char *name;
    double lr;
    bool has_momentum, nesterov;
    double momentum; /* where none is given */
} known[] = {{"sgd", 0.1, false, false, 0.0},       {"momentum", 0.02, true, false, 0.9},
             {"nesterov", 0.02, true, true, 0.9},   {"adam", 0.005, false, false, 0.0},
             {"adamw", 0.005, false, false, 0.0},   {"rmsprop", 0.002, true, false, 0.0},
             {"adagrad", 0.03, false, false, 0.0},  {"lion", 0.002, false, false, 0.0},
             {"adafactor", 0.05, false, false, 0.0}};
enum { N_KNOWN = sizeof known / sizeof *known };

static int index_of(const char *name)
{
    int i = 0;
    while (i < N_KNOWN && strcmp(known[i].name, name) != 0)
        i++;
    return i;
}

static const name_list *optimizers(void)
{
    static name_list all;
    const char *kind;
    for (size_t i = 0; !all.made && (kind = sw_optimizer_kind(i)) != NULL; i++) {
        add(&all, kind);
        if (strcmp(kind, "sgd") == 0) {
            add(&all, "momentum");
            add(&all, "nesterov");
        }
    }
    all.made = true;
    return &all;
}

const char *const *tool_optimizer_words(void)
{
    return optimizers()->text;
}

const char *tool_optimizer_rates(void)
{
    static char text[LIST];
    size_t used = 0;
    for (int i = 0; i < N_KNOWN && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %g", i > 0 ? ", " : "",
                                 known[i].name, known[i].lr);
    const name_list *all = optimizers();
    for (int i = 0; i < all->n && used < sizeof text; i++)
        if (index_of(all->text[i]) == N_KNOWN)
            used += (size_t)snprintf(text + used, sizeof text - used, ", %s the library's",
                                     all->text[i]);
    return text;
}

void tool_optimizer_set(sw_optimizer_opts *o, const char *name, double momentum)
{
    const int i = index_of(name);
    const bool sgd = strcmp(name, "momentum") == 0 || strcmp(name, "nesterov") == 0;
    o->kind = sgd ? "sgd" : name;
    o->momentum = i < N_KNOWN && known[i].has_momentum ? (float)momentum : 0.0f;
    o->nesterov = i < N_KNOWN && known[i].nesterov;
}

/* ---- schedules --------------------------------------------------------------------------- */

unsigned tool_schedule_takes(const char *name)
{
    const bool cuts = strcmp(name, "step") == 0 || strcmp(name, "exponential") == 0;
    const bool constant = strcmp(name, "constant") == 0;
    return (cuts ? TOOL_LR_CUTS : 0u) | (constant ? 0u : TOOL_LR_FLOOR) |
           (constant || cuts ? 0u : TOOL_LR_TOTAL);
}

static const name_list *schedules(void)
{
    static name_list all;
    for (size_t i = 0; !all.made && sw_schedule_kind(i) != NULL; i++)
        add(&all, sw_schedule_kind(i));
    all.made = true;
    return &all;
}

const char *const *tool_schedule_words(void)
{
    return schedules()->text;
}

const char *tool_schedule_help(void)
{
    static char text[500];
    snprintf(text, sizeof text, "of the learning rate: %s", schedules()->list);
    return text;
}

const char *tool_schedule_takers(unsigned what)
{
    static char text[LIST];
    const name_list *all = schedules();
    size_t used = 0;
    for (int i = 0; i < all->n && used < sizeof text; i++)
        if ((tool_schedule_takes(all->text[i]) & what) != 0)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
                                     used > 0 ? " or " : "", all->text[i]);
    return text;
}

/* ---- job opts ---------------------------------------------------------------------------- */

/* The options that `train` and `plan` share. */

static const char *const state_words[] = {"f32", "8bit", NULL};
static const char *const update_words[] = {"release", "after", NULL};
static const char *const isa_words[] = {"amx", "avx512-bf16", "avx512", "avx2", "base", NULL};
static const char *const precision_words[] = {"f32", "bf16", NULL};
static const char *const order_words[] = {"auto", "pair", "tile", NULL};
static const char *const ranks_words[] = {"off", NULL};
static const char *const auto_words[] = {"auto", NULL};
static const char *const header_words[] = {"auto", "yes", "no", NULL};

static const char *optimizer_help(void)
{
    static char text[600];
    snprintf(text, sizeof text, "%s (default: the model's own, mostly adam)",
             optimizers()->list);
    return text;
}

static const char *rate_help(void)
{
    static char text[600];
    snprintf(text, sizeof text, "learning rate (default %s)", tool_optimizer_rates());
    return text;
}

int job_options(job_opts *o, cli_option *table, int n, bool one_batch)
{
    o->lr = o->momentum = o->test_share = -1.0; /* not given */
    o->split_seed = o->epochs = -1;
    const cli_option options[] = {
#define JOB_ROW(field, name, value, kind, ...) {name, value, kind, &o->field, __VA_ARGS__},
#include "tools/job/job_options.def"
    };
    const int count = (int)(sizeof options / sizeof *options);
    memcpy(table + n, options, sizeof *options);
    n = tool_settings_options(&o->settings, table, n + 1); /* after --model */
    memcpy(table + n, options + 1, sizeof options - sizeof *options);
    return n + count - (one_batch ? 1 : 2); /* a plan is no run: it has no --ranks */
}

static bool is_among(const char *names, const char *name)
{
    const size_t n = strlen(name);
    const char *at = strstr(names, name);
    while (at != NULL && at[n] != ' ' && at[n] != '\0')
        at = strstr(at + n, name);
    return at != NULL;
}

int job_options_but(job_opts *o, cli_option *table, const char *names, bool but,
                    const job_help *help, int n_help)
{
    const int all = job_options(o, table, 0, true);
    int n = 0;
    for (int i = 0; i < all; i++) {
        if (is_among(names, table[i].name) == but)
            continue;
        table[n] = table[i];
        for (int k = 0; k < n_help; k++)
            if (help[k].to == table[n].to && table[n].help != NULL)
                table[n].help = help[k].help;
        n++;
    }
    o->accumulate = 1;
    return n;
}

/* An option that another one leaves without effect is a mistake better said than passed
 * over. */
static int no_effect(const char *option, const char *without)
{
    return cli_error(CLI_USAGE, "%s has no effect without %s", option, without);
}

/* Options that were not given get their defaults here, after it was seen that they were not. */
static int derive_options(job_opts *o)
{
    const char *usual = o->kind->optimizer != NULL ? o->kind->optimizer : "adam";
    CLI_TRY(tool_settings_complete(o->kind, &o->settings));
    if (o->kind->settle != NULL)
        CLI_TRY(o->kind->settle(&o->settings, strchr(o->model, ':') + 1));
    if (o->settings.weights != NULL && o->settings.lora == 0 && o->settings.adapter == NULL &&
        (o->method != JOB_NONE || o->params != NULL))
        return cli_error(CLI_USAGE, "--weights has no effect without --lora or --adapter: all "
                                    "parameters are f32");
    if (o->optimizer == NULL)
        o->optimizer = usual;
    const int at = index_of(o->optimizer);
    const bool heavy = at < N_KNOWN && known[at].has_momentum;
    if (o->lr < 0.0 && o->method == JOB_MEZO)
        o->lr = JOB_MEZO_RATE;
    if (o->lr < 0.0)
        o->lr = o->kind->lr > 0.0f && strcmp(o->optimizer, usual) == 0 ? (double)o->kind->lr
                : at < N_KNOWN                                         ? known[at].lr
                               : 0.0; /* 0: the library's */
    if (o->synthetic_n > 0 && strcmp(o->data, "synthetic") != 0)
        return no_effect("--synthetic-n", "--data synthetic");
    if (o->momentum >= 0.0 && !heavy)
        return no_effect("--momentum", "--optimizer momentum, nesterov or rmsprop");
    if (o->momentum >= 1.0)
        return cli_error(CLI_USAGE, "--momentum must be at least 0 and below 1 (got %g)",
                         o->momentum);
    if (o->batch.at[0] == 0)
        o->batch = (cli_list){
            {o->kind->batch > 0 ? o->kind->batch * (o->parts > 0 ? o->parts : 1) : 128}, 1};
    if (o->synthetic_n == 0)
        o->synthetic_n = o->kind->synthetic_n > 0 ? o->kind->synthetic_n : 10000;
    if (o->momentum < 0.0)
        o->momentum = at < N_KNOWN ? known[at].momentum : 0.0;
    return CLI_GO;
}

/* Options that need all gradients at once cannot have them released: the message names them,
 * nothing is settled in silence. Without --update the others decide. */
static int when_to_update(job_opts *o)
{
    const bool asked = o->update != NULL && strcmp(o->update, "release") == 0;
    const bool all = o->clip > 0.0 || o->keep_gradients || o->accumulate > 1;
    if (asked && o->clip > 0.0)
        return cli_error(CLI_USAGE, "--update release and --clip exclude each other: the "
                                    "global norm is known only when all gradients are");
    if (asked && o->keep_gradients)
        return cli_error(CLI_USAGE, "--update release and --keep-gradients exclude each other: "
                                    "a released gradient does not outlive its update");
    if (asked && o->accumulate > 1)
        return cli_error(CLI_USAGE,
                         "--update release and --accumulate exclude each other: an update "
                         "needs the gradients of all %lld micro-batches",
                         (long long)o->accumulate);
    if (o->update == NULL)
        o->update = all ? "after" : "release";
    o->release = strcmp(o->update, "release") == 0;
    return CLI_GO;
}

int64_t job_all_threads(void)
{
    const int all = sw_thread_processors();
    return all < 256 ? all : 256; /* that an exec takes */
}

bool job_on_device(const job_opts *o)
{
    return strcmp(o->device, "cpu") != 0;
}

/* "cuda", "cuda:3" */
static bool is_card(const char *name)
{
    const char *number = name + strlen("cuda:");
    if (strcmp(name, "cuda") == 0)
        return true;
    return strncmp(name, "cuda:", strlen("cuda:")) == 0 && *number != '\0' &&
           strlen(number) <= 4 && strspn(number, "0123456789") == strlen(number);
}

/* Options of devices alone, and of the CPU alone. */
static int check_device(const job_opts *o)
{
    if (strcmp(o->device, "sim") == 0)
        return cli_error(CLI_NO_DEVICE, "--device sim is not built yet: cpu and cuda are");
    if (job_on_device(o) && !is_card(o->device))
        return cli_error(CLI_USAGE, "--device %s is unknown: cpu, cuda and cuda:N are known",
                         o->device);
    if (!job_on_device(o))
        return CLI_GO;
    const bool idle = o->threads > 1 && !job_decodes(o);
    if (idle || o->isa != NULL)
        return cli_error(CLI_USAGE, "%s has no effect with --device %s",
                         idle ? "--threads" : "--isa", o->device);
    if (o->exec.no_graphs && (o->exec.sync_ops || o->immediate))
        return cli_error(CLI_USAGE, "--no-graphs has no effect with %s, which replays nothing",
                         o->exec.sync_ops ? "--sync-ops" : "--immediate");
    if (o->exec.op_clocks && !o->exec.sync_ops)
        return cli_error(CLI_USAGE,
                         "--op-clocks with --device %s needs --sync-ops: without it the clock "
                         "measures launches only",
                         o->device);
    return CLI_GO;
}

int job_check_ranks(const job_opts *o)
{
    const char *by = NULL;
    const int n = o->ranks == NULL ? swi_ranks_started(&by) : 1;
    if (n == 1)
        return CLI_GO;
    if (swi_ranks_started_as() > 0) /* the first says it */
        return CLI_USAGE;
    return cli_error(
        CLI_USAGE,
        "%s says that %d processes are started together, and a run over several is "
        "there for train (of one model), es, pbt and evolve on the CPU alone: start one, or "
        "give --ranks off for as many runs, each with files of its own",
        by, n);
}

/* The note of the training, "bf16 pair", in the file of parameters; there is none for f32. The
 * order of a card is no other device's. */
static int take_precision(job_opts *o, const char *params)
{
    char noted[32];
    CLI_LIBRARY(sw_params_note(params, JOB_PRECISION_KEY, noted, sizeof noted), true);
    const bool pair = strcmp(noted, "bf16 pair") == 0, cuda = strcmp(noted, "bf16 cuda") == 0;
    if (!pair && !cuda && strcmp(noted, "bf16 tile") != 0)
        return *noted == '\0'
                   ? CLI_GO
                   : cli_error(CLI_DAMAGED,
                               "%s: precision must be bf16 pair, tile or cuda (got '%s')",
                               params, noted);
    o->precision = precision_words[1];
    if (o->bf16_order == NULL && !cuda && !job_on_device(o))
        o->bf16_order = pair ? "pair" : "tile";
    return CLI_GO;
}

/* A checkpoint binds the order that "auto" chose. */
int job_precision(job_opts *o, const char *params)
{
    if (o->precision == NULL && params != NULL && sw_file_taken(params))
        CLI_TRY(take_precision(o, params));
    if (o->precision == NULL)
        o->precision = precision_words[0];
    const bool halves = strcmp(o->precision, precision_words[1]) == 0;
    o->exec.compute = halves ? SW_BF16 : SW_F32;
    o->exec.bf16_order = SW_ORDER_NONE;
    if (!halves)
        return o->bf16_order == NULL
                   ? CLI_GO
                   : cli_error(CLI_USAGE,
                               "--bf16-order has no effect without --precision bf16");
    if (o->method == JOB_ES)
        return cli_error(CLI_USAGE,
                         "--precision bf16: es computes in f32 alone, since its noise "
                         "is made of float32 numbers");
    if (job_on_device(o)) {
        if (o->bf16_order != NULL && strcmp(o->bf16_order, "auto") != 0)
            return cli_error(CLI_USAGE,
                             "--bf16-order %s is there on the CPU alone: with --device %s the "
                             "order is that of its library",
                             o->bf16_order, o->device);
        o->bf16_order = "cuda";
        return CLI_GO;
    }
    o->order_auto = o->bf16_order == NULL || strcmp(o->bf16_order, "auto") == 0;
    if (o->order_auto)
        o->bf16_order = (sw_cpu_bf16() & SW_BF16_AMX) != 0 ? "tile" : "pair";
    o->exec.bf16_order = strcmp(o->bf16_order, "tile") == 0 ? SW_ORDER_TILE : SW_ORDER_PAIR;
    return CLI_GO;
}

const char *job_precision_words(const job *j)
{
    static char text[160];
    const swi_target *target = swi_target_of(j->exec);
    if (target->order == SW_ORDER_CUDA)
        return ", bf16, products in the order of the card";
    if (target->order != SW_ORDER_NONE)
        snprintf(text, sizeof text, ", bf16 in %s order, products by %s%s%s%s",
                 target->order == SW_ORDER_TILE ? "tile" : "pair",
                 sw_order_by(target->way, target->isa),
                 target->way == target->order ? ", no faster than f32" : "",
                 target->no_tiles != NULL ? ": AMX cannot be used, since " : "",
                 target->no_tiles != NULL ? target->no_tiles : "");
    return text;
}

int job_take_budget(job_opts *o)
{
    machine m;
    const char *by = NULL;
    if (o->budget_bytes != SIZE_MAX)
        return CLI_GO;
    if (job_on_device(o))
        return cli_error(CLI_USAGE,
                         "--memory-budget auto is of this machine's memory: with --device %s "
                         "give a size",
                         o->device);
    if (o->ranks == NULL && swi_ranks_started(&by) > 1)
        return cli_error(CLI_USAGE,
                         "--memory-budget auto is of one process, and %s says that several are "
                         "started together: give a size for each",
                         by);
    CLI_LIBRARY(machine_left("", &m), false);
    if (m.limit_unknown[0] != '\0')
        return cli_error(CLI_USAGE,
                         "--memory-budget auto: what is left is not known (%s): give a size",
                         m.limit_unknown);
    o->budget_bytes = m.left / 16 * 15 + 1; /* 0 would be no budget */
    cli_note("--memory-budget auto is %zu bytes, 15/16 of the %zu that %s leaves",
             o->budget_bytes, m.left, m.group ? "the control group" : "this machine");
    return CLI_GO;
}

int job_check(job_opts *o)
{
    CLI_TRY(job_take_budget(o));
    o->kind = tool_model_find(o->model);
    if (o->threads == 0)
        o->threads = o->kind->settle != NULL && !job_on_device(o) ? job_all_threads() : 1;
    if (o->accumulate == 0)
        o->accumulate = o->kind->accumulate > 0 && o->method == JOB_BACKPROP && o->parts == 0
                            ? o->kind->accumulate
                            : 1;
    if (o->epochs == 0)
        return cli_error(CLI_USAGE, "--epochs must be at least 1 (got 0): 'stepwell plan' says "
                                    "what memory a run takes, without a step");
    CLI_TRY(check_device(o));
    CLI_TRY(job_precision(o, o->method == JOB_NONE ? o->params : NULL));
    CLI_TRY(job_file_check(o));
    CLI_TRY(job_normal_check(o));
    CLI_TRY(job_augment_check(o));
    CLI_TRY(when_to_update(o));
    return derive_options(o);
}

/* Names of files of parameters: what is written is safetensors, whatever the name says. */

/* Ends of names that other programs read as something else. */
static const char *const others[] = {".ckpt",   ".gguf", ".ggml", ".h5",   ".hdf5",
                                     ".keras",  ".npy",  ".npz",  ".onnx", ".pb",
                                     ".pickle", ".pkl",  ".pt",   ".pth",  ".tflite"};

int job_check_params_name(const char *option, const char *path)
{
    const size_t n = path != NULL ? strlen(path) : 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const size_t end = strlen(others[i]);
        if (n >= end && strcasecmp(path + n - end, others[i]) == 0)
            return cli_error(
                CLI_USAGE,
                "%s writes safetensors files, no '%s' (got '%s'): give a name that "
                "ends in .safetensors, which Python and others read and convert",
                option, others[i], path);
    }
    return CLI_GO;
}
