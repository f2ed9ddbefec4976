/* A training job: exec, model, programs, their plans. */
#include "alloc/base/message.h"
#include "alloc/base/size.h"
#include "tools/job/job.h"
#include "tools/job/optimizer.h"
#include <string.h>

static sw_array batch_of(const sw_array *field, int64_t batch)
{
    sw_array a = {.dtype = field->dtype, .shape = {.rank = field->shape.rank + 1}};
    a.shape.dim[0] = batch;
    for (int i = 0; i < field->shape.rank; i++)
        a.shape.dim[i + 1] = field->shape.dim[i];
    return a;
}

int64_t job_slot_rows(const job_data *data, int64_t batch)
{
    return batch < data->n ? batch : data->n;
}

static size_t field_bytes(const sw_array *field)
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
        slot += sw_size_round(field_bytes(&data->info.field[i]) * (size_t)rows);
    return slot;
}

/* Bytes of the loader of `data`: one slot where it has no thread. */
static size_t ring_bytes(const job_data *data, int64_t batch)
{
    const size_t slot = slot_bytes(data, job_slot_rows(data, batch));
    return swi_loader_fills_inline(slot, 0) ? slot : slot * JOB_SLOTS;
}

size_t job_image_bytes(const job *j)
{
    size_t sum = 0;
    for (int i = 0; i < j->train.info.n_fields; i++)
        sum += field_bytes(&j->train.info.field[i]);
    return sum;
}

int64_t job_batch(const job *j)
{
    return j->opts->method == JOB_ES
               ? j->batch
               : job_slot_rows(j->opts->method == JOB_NONE ? &j->test : &j->train, j->batch);
}

/* A generation takes its samples one by one, so that every slice is whole. With --accumulate a
 * full batch updates where it is the last of its step: as the last of so many, or of the epoch.
 */
static int64_t batch_of_program(const job *j, job_which which)
{
    const job_data *data = which >= JOB_EVAL ? &j->test : &j->train;
    const int64_t full = data->n / j->batch, rest = data->n % j->batch;
    if (j->opts->method == JOB_NONE && which < JOB_EVAL)
        return 0;
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
        for (int k = 0; k < data->info.n_fields; k++)
            p->inputs[k] = batch_of(&data->info.field[k], p->batch);
        p->plan.size = sizeof p->plan;
    }
    const size_t ring = ring_bytes(&j->test, j->batch);
    j->data_bytes = j->opts->method == JOB_ES     ? slot_bytes(&j->train, j->batch)
                    : j->opts->method == JOB_NONE ? ring
                                                  : ring_bytes(&j->train, j->batch) + ring;
}

sw_run_args job_args(job *j, job_which which, const sw_array *inputs, uint64_t step)
{
    sw_step_fn *fn = j->fn != NULL ? j->fn : tool_net_step;
    sw_run_args args =
        SW_OPTS(sw_run_args, .fn = which == JOB_MICRO ? tool_net_micro_step : fn,
                .user = &j->net, .models = &j->net.model, .n_models = 1, .inputs = inputs,
                .n_inputs = (which < JOB_EVAL ? &j->train : &j->test)->info.n_fields,
                .mode = j->program[which].mode, .immediate = j->opts->immediate, .step = step,
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

tool_net_opts job_net_opts(const job *j)
{
    const job_opts *o = j->opts;
    tool_net_opts net = {
        .model = o->kind,
        .settings = o->settings,
        .data = j->train.info,
        .pixels = j->normal.pixels,
        .augment = job_augment(o),
        .clip = (float)o->clip,
        .accumulate = o->accumulate > 1,
        .knobs = o->knobs,
        .optimizer = {.size = sizeof net.optimizer,
                      .lr = (float)o->lr,
                      .weight_decay = (float)o->weight_decay,
                      .update = o->release ? SW_UPDATE_RELEASE : SW_UPDATE_AFTER,
                      .keep_gradients = o->keep_gradients || o->accumulate > 1,
                      .max_skipped = o->max_skipped > 0 ? (int)o->max_skipped : -1,
                      .knobs = o->knobs}};
    if (o->method == JOB_MEZO || o->method == JOB_NONE)
        net.optimizer.kind = NULL;
    else
        tool_optimizer_set(&net.optimizer, o->optimizer, o->momentum);
    return net;
}

/* In the order of sw_nvtx_level. */
const char *const job_nvtx_words[] = {"phases", "layers", "ops", "off", NULL};

static sw_nvtx_level nvtx_level(const char *word)
{
    int i = 0;
    while (word != NULL && strcmp(word, job_nvtx_words[i]) != 0)
        i++;
    return (sw_nvtx_level)i;
}

/* Before all plans, so that the budget has its copy in it. */
static sw_status make_checkpoint(job *j)
{
    const job_opts *o = j->opts;
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

sw_status job_make(job *j)
{
    const job_opts *o = j->opts;
    if (o->budget_bytes > 0)
        SW_TRY(sw_budget_create(&j->budget, o->budget_bytes));
    sw_exec_opts exec = o->exec;
    exec.size = sizeof exec;
    exec.device = o->device;
    exec.threads = (int)o->threads;
    exec.budget = j->budget;
    exec.seed = (uint64_t)o->seed;
    exec.max_programs = j->keep_programs;
    exec.isa = o->isa;
    exec.shares = o->shares;
    exec.nvtx = nvtx_level(o->nvtx);
    SW_TRY(sw_exec_create(&j->exec, &exec));
    const tool_net_opts net = job_net_opts(j);
    SW_TRY(tool_net_create(&j->net, &net));
    if (o->method == JOB_ES)
        SW_TRY(sw_es_create(&j->es, j->net.optimizer, &j->es_opts));
    return make_checkpoint(j);
}

/* Without a plan the arena is the bump, and everything that a run ever made lives at its end.
 */
static void use_bump(sw_plan_info *plan)
{
    plan->arena_bytes = plan->immediate_bytes;
    plan->total_bytes = plan->model_bytes + plan->arena_bytes + plan->data_bytes;
    plan->peak_bytes = plan->model_bytes + plan->slot_bytes + plan->immediate_bytes;
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
    if (j->opts->immediate)
        use_bump(&p->plan);
    p->plan.total_bytes += job_counted_checkpoint_bytes(j);
    return SW_OK;
}

size_t job_needed_bytes(const job *j, const sw_plan_info *plan)
{
    const size_t arena = j->opts->immediate ? plan->immediate_bytes : plan->arena_bytes;
    return plan->model_bytes + arena + plan->data_bytes + job_counted_checkpoint_bytes(j);
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
    if (refused[0] == '\0')
        return CLI_GO;
    char copy[120] = ""; /* the library counts it to what others have of the budget */
    if (job_counted_checkpoint_bytes(j) > 0)
        snprintf(copy, sizeof copy,
                 "; the copy for --checkpoint takes %zu of it (--checkpoint-pauses takes none)",
                 j->checkpoint_bytes);
    return cli_error(CLI_NO_FIT, "%s%s%s", batch_name(j).text, refused, copy);
}

int job_begin(job *j)
{
    const sw_status status = job_make(j);
    return status == SW_OK ? CLI_GO : cli_library_error(status, false);
}

int job_open(job *j)
{
    const int status = job_begin(j);
    return status == CLI_GO ? plan_programs(j) : status;
}

/* Witnesses give each storage pages of its own, three times at most, copies of model and batch
 * among them. */
static size_t witness_bytes(const sw_plan_info *plan)
{
    return 3 * (plan->immediate_bytes + plan->model_bytes + plan->slot_bytes);
}

/* Model, arena and data lie on the card, which may have models of others already. */
static int check_card(const job *j, const sw_device_info *d)
{
    char limit[200];
    (void)sw_message(limit, sizeof limit, "%s (%s) has %zu bytes, of which are free", d->name,
                     d->card, d->total_bytes);
    for (int i = 0; i < JOB_PROGRAMS; i++) {
        const sw_plan_info *p = &j->program[i].plan;
        if (j->program[i].batch > 0 && p->total_bytes > d->free_bytes)
            return no_fit(j, p, limit, d->free_bytes);
    }
    return CLI_GO;
}

int job_check_machine(job *j, bool witness)
{
    sw_device_info device = SW_OPTS(sw_device_info);
    sw_status status = machine_memory("", &j->machine);
    const size_t there = j->machine.bytes;
    if (status == SW_OK)
        status = sw_exec_device(j->exec, &device);
    if (status != SW_OK)
        return cli_library_error(status, false);
    const size_t sets = j->train.info.bytes + j->test.info.bytes;
    if (device.total_bytes > 0) {
        if (sets > there)
            return cli_error(CLI_NO_FIT,
                             "does not fit: the data sets take %zu bytes, this machine has %zu",
                             sets, there);
        return check_card(j, &device);
    }
    for (int i = 0; i < JOB_PROGRAMS; i++) {
        const sw_plan_info *p = &j->program[i].plan;
        if (j->program[i].batch == 0)
            continue;
        const size_t more = sets + (witness ? witness_bytes(p) : 0);
        if (p->total_bytes > there)
            return no_fit(j, p, "this machine has", there);
        if (more > there - p->total_bytes)
            return cli_error(CLI_NO_FIT,
                             "does not fit: %zu bytes are planned, %s take %zu more, this "
                             "machine has %zu",
                             p->total_bytes,
                             witness ? "the data sets and witnesses" : "the data sets", more,
                             there);
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
    sw_budget_destroy(j->budget);
    j->exec = NULL;
    j->budget = NULL;
}
