/* A training job: options, data, exec, model, programs. */
#include "tools/job.h"
#include "tools/machine.h"
#include <string.h>

/* ---- options ----------------------------------------------------------------------------- */

static const char *const model_words[] = {"mlp", "lenet5", NULL};
static const char *const optimizer_words[] = {"sgd",  "momentum", "nesterov",
                                              "adam", "adamw",    NULL};
static const char *const isa_words[] = {"avx512", "avx2", "base", NULL};

int job_options(job_opts *o, cli_option *table, int n, bool one_batch)
{
    o->lr = o->momentum = -1.0; /* not given */
    const cli_option options[] = {
        {"--model", "NAME", CLI_WORD, &o->model, "lenet5", "mlp or lenet5", 0, 0, model_words},
        {"--hidden", "LIST", CLI_LIST, &o->hidden, NULL,
         "widths of the mlp's hidden layers (default 128,64)", 1, 1 << 20, NULL},
        {"--data", "SOURCE", CLI_WORD, &o->data, "synthetic",
         "synthetic, or idx:DIR for MNIST and its relatives", 0, 0, NULL},
        {"--synthetic-n", "N", CLI_COUNT, &o->synthetic_n, NULL,
         "synthetic training images (default 10000); a fifth as many for testing", 1, 10000000,
         NULL},
        {"--batch", one_batch ? "N" : "LIST", one_batch ? CLI_COUNT : CLI_LIST,
         one_batch ? (void *)&o->batch.at[0] : &o->batch, one_batch ? "128" : NULL,
         one_batch ? "images per step"
                   : "images per step, or several numbers: 1,32,128 (default 128)",
         1, JOB_BATCH_MAX, NULL},
        {"--optimizer", "NAME", CLI_WORD, &o->optimizer, "adam",
         "sgd, momentum, nesterov, adam or adamw", 0, 0, optimizer_words},
        {"--lr", "X", CLI_REAL, &o->lr, NULL,
         "learning rate (default 0.1 sgd, 0.02 momentum, 0.005 adam)", 0, 0, NULL},
        {"--momentum", "X", CLI_REAL, &o->momentum, NULL,
         "of momentum and nesterov (default 0.9)", 0, 0, NULL},
        {"--weight-decay", "X", CLI_REAL, &o->weight_decay, "0", "weight decay", 0, 0, NULL},
        {"--clip", "X", CLI_REAL, &o->clip, "0",
         "largest global norm of the gradients; 0: no clipping", 0, 0, NULL},
        {"--release", NULL, CLI_FLAG, &o->release, NULL,
         "update each parameter right behind its gradient", 0, 0, NULL},
        {"--immediate", NULL, CLI_FLAG, &o->immediate, NULL, "op by op, without a plan", 0, 0,
         NULL},
        {"--seed", "N", CLI_COUNT, &o->seed, "1",
         "of the first parameters and of the order of images", 0, 0, NULL},
        {"--threads", "N", CLI_COUNT, &o->threads, "1",
         "threads that compute; the same bits for all", 1, 256, NULL},
        {"--device", "NAME", CLI_WORD, &o->device, "cpu", "cpu", 0, 0, NULL},
        {"--isa", "NAME", CLI_WORD, &o->isa, NULL,
         "avx512, avx2 or base (default the best of this machine)", 0, 0, isa_words},
        {"--memory-budget", "SIZE", CLI_BYTES, &o->budget_bytes, NULL,
         "a hard limit for model, arena and data; where it must, forward ops run again in "
         "backward (default none)",
         1, 0, NULL},
        {"--no-recompute", NULL, CLI_FLAG, &o->no_recompute, NULL,
         "release no update and run no op again: refuse what is over the budget", 0, 0, NULL},
    };
    const int count = (int)(sizeof options / sizeof *options);
    memcpy(table + n, options, sizeof options);
    return n + count;
}

static float default_lr(const char *optimizer)
{
    if (strcmp(optimizer, "sgd") == 0)
        return 0.1f;
    if (strcmp(optimizer, "momentum") == 0 || strcmp(optimizer, "nesterov") == 0)
        return 0.02f;
    return 0.005f;
}

/* An option that another one leaves without effect is a mistake better said than passed over.
 */
static int no_effect(const char *option, const char *without)
{
    return cli_error(CLI_USAGE, "%s has no effect without %s", option, without);
}

/* Options that were not given get their defaults here, after it was seen that they were not. */
static int settle(job_opts *o)
{
    const bool heavy =
        strcmp(o->optimizer, "momentum") == 0 || strcmp(o->optimizer, "nesterov") == 0;
    if (o->hidden.n > 0 && strcmp(o->model, "mlp") != 0)
        return no_effect("--hidden", "--model mlp");
    if (o->synthetic_n > 0 && strcmp(o->data, "synthetic") != 0)
        return no_effect("--synthetic-n", "--data synthetic");
    if (o->momentum >= 0.0 && !heavy)
        return no_effect("--momentum", "--optimizer momentum or nesterov");
    if (o->momentum >= 1.0)
        return cli_error(CLI_USAGE, "--momentum wants a number from 0 to below 1, not %g",
                         o->momentum);
    if (o->hidden.n == 0)
        o->hidden = (cli_list){{128, 64}, 2};
    if (o->batch.at[0] == 0)
        o->batch = (cli_list){{128}, 1};
    if (o->synthetic_n == 0)
        o->synthetic_n = 10000;
    if (o->momentum < 0.0)
        o->momentum = 0.9;
    return CLI_GO;
}

int job_check(job_opts *o)
{
    if (strcmp(o->device, "cpu") != 0) {
        const bool known = strcmp(o->device, "cuda") == 0 || strcmp(o->device, "sim") == 0;
        return cli_error(known ? CLI_NO_DEVICE : CLI_USAGE, "--device %s %s", o->device,
                         known ? "is not built yet: cpu is" : "is unknown: cpu is known");
    }
    if (strcmp(o->data, "synthetic") != 0 && strncmp(o->data, "idx:", 4) != 0)
        return cli_error(CLI_USAGE,
                         "--data '%s' is unknown or not built yet: it is synthetic or idx:DIR",
                         o->data);
    if (strcmp(o->data, "idx:") == 0)
        return cli_error(CLI_USAGE, "--data idx: wants a folder behind it");
    if (o->release && o->clip > 0.0)
        return cli_error(CLI_USAGE,
                         "--release and --clip exclude each other: the global norm is known "
                         "only when all gradients are");
    return settle(o);
}

/* ---- data -------------------------------------------------------------------------------- */

/* The seeds of the built-in digits are fixed: --seed changes a run, not its data. */
enum { SEED_TRAIN = 1, SEED_TEST = 2 };

static sw_status load(job_data *data, const job_opts *o, bool test, bool shapes_only)
{
    const bool synthetic = strcmp(o->data, "synthetic") == 0;
    const int64_t fifth = o->synthetic_n / 5 > 0 ? o->synthetic_n / 5 : 1;
    const int64_t n = test ? fifth : o->synthetic_n;
    if (synthetic)
        SW_TRY(sw_dataset_synthetic(&data->set, shapes_only ? 1 : n,
                                    test ? SEED_TEST : SEED_TRAIN));
    else
        SW_TRY(sw_dataset_idx(&data->set, o->data + 4, test ? "t10k" : "train"));
    data->info.size = sizeof data->info;
    sw_dataset_describe(data->set, &data->info);
    data->n = synthetic ? n : data->info.n;
    return SW_OK;
}

/* lenet5 is made for one size of images: what the data have decides here, before any model. */
static int check_model(const job *j)
{
    const sw_shape *image = &j->train.info.field[0].shape;
    if (strcmp(j->opts->model, "lenet5") != 0 ||
        (image->dim[1] == TOOL_LENET5_SIDE && image->dim[2] == TOOL_LENET5_SIDE))
        return CLI_GO;
    return cli_error(CLI_USAGE,
                     "--model lenet5 reads images of %d x %d, and those of "
                     "%s/train-images-idx3-ubyte are %lld x %lld; --model mlp takes any",
                     TOOL_LENET5_SIDE, TOOL_LENET5_SIDE, j->opts->data + 4,
                     (long long)image->dim[1], (long long)image->dim[2]);
}

/* A class that a single training image shows, and no test image, is a wild label: -1 where
 * there is none. The fields of a data set are contiguous. */
static int64_t wild_class(const job *j)
{
    const unsigned char *label = j->train.info.field[1].data;
    int64_t count[256] = {0};
    for (int64_t i = 0; i < j->train.n; i++)
        count[label[i]]++;
    for (int64_t i = j->test.info.n_classes; i < j->train.info.n_classes; i++)
        if (count[i] == 1)
            return i;
    return -1;
}

/* Each part was read by itself; what the test images have and those for training have not is
 * damage. The other way round it need be none: few images do not show every class. */
static int check_parts(const job *j)
{
    const char *dir = j->opts->data + 4;
    if (strcmp(j->opts->data, "synthetic") == 0)
        return CLI_GO;
    const sw_shape *a = &j->train.info.field[0].shape, *b = &j->test.info.field[0].shape;
    if (a->rank != b->rank || memcmp(a->dim, b->dim, sizeof a->dim[0] * (size_t)a->rank) != 0)
        return cli_error(CLI_DAMAGED,
                         "%s/t10k-images-idx3-ubyte: its images are not as large as those of "
                         "train-images-idx3-ubyte",
                         dir);
    if (j->test.info.n_classes > j->train.info.n_classes)
        return cli_error(CLI_DAMAGED,
                         "%s/t10k-labels-idx1-ubyte: label %lld is out of range: those of "
                         "train-labels-idx1-ubyte are 0 to %lld",
                         dir, (long long)j->test.info.n_classes - 1,
                         (long long)j->train.info.n_classes - 1);
    const int64_t wild = wild_class(j);
    if (wild >= 0)
        return cli_error(
            CLI_DAMAGED,
            "%s/train-labels-idx1-ubyte: label %lld is out of range: one image has "
            "it, and those of t10k-labels-idx1-ubyte are 0 to %lld",
            dir, (long long)wild, (long long)j->test.info.n_classes - 1);
    return check_model(j);
}

int job_load(job *j, bool shapes_only)
{
    sw_status status = load(&j->train, j->opts, false, shapes_only);
    if (status == SW_OK && !cli_interrupted())
        status = load(&j->test, j->opts, true, shapes_only);
    if (status != SW_OK)
        return cli_library_error(status, true);
    if (cli_interrupted())
        return cli_error(CLI_INTERRUPTED, "interrupted while the data were loaded: no file was "
                                          "written");
    return check_parts(j);
}

void job_unload(job *j)
{
    sw_dataset_destroy(j->train.set);
    sw_dataset_destroy(j->test.set);
    j->train = j->test = (job_data){0};
}

/* ---- programs ---------------------------------------------------------------------------- */

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

/* A loader's ring: each field of a slot begins at a multiple of the alignment. */
static size_t ring_bytes(const job_data *data, int64_t batch)
{
    size_t slot = 0;
    for (int i = 0; i < data->info.n_fields; i++) {
        const size_t bytes =
            field_bytes(&data->info.field[i]) * (size_t)job_slot_rows(data, batch);
        slot += (bytes + SW_ALIGN - 1) / SW_ALIGN * SW_ALIGN;
    }
    return slot * JOB_SLOTS;
}

size_t job_image_bytes(const job *j)
{
    size_t sum = 0;
    for (int i = 0; i < j->train.info.n_fields; i++)
        sum += field_bytes(&j->train.info.field[i]);
    return sum * JOB_SLOTS;
}

void job_set_batch(job *j, int64_t batch)
{
    static const char *const names[] = {"train", "train_last", "eval", "eval_last"};
    j->batch = batch;
    for (int i = 0; i < JOB_PROGRAMS; i++) {
        job_program *p = &j->program[i];
        const job_data *data = i >= JOB_EVAL ? &j->test : &j->train;
        const bool last = i == JOB_TRAIN_LAST || i == JOB_EVAL_LAST;
        *p = (job_program){.name = names[i], .mode = i >= JOB_EVAL ? SW_EVAL : SW_TRAIN};
        p->batch = last ? data->n % j->batch : data->n >= j->batch ? j->batch : 0;
        for (int k = 0; k < 2; k++)
            p->inputs[k] = batch_of(&data->info.field[k], p->batch);
        p->plan.size = sizeof p->plan;
    }
    j->data_bytes = ring_bytes(&j->train, j->batch) + ring_bytes(&j->test, j->batch);
}

sw_run_args job_args(job *j, job_which which, const sw_array *inputs, uint64_t step)
{
    sw_run_args args = {.size = sizeof args,
                        .fn = tool_net_step,
                        .user = &j->net,
                        .models = &j->net.model,
                        .n_models = 1,
                        .inputs = inputs,
                        .n_inputs = 2,
                        .mode = j->program[which].mode,
                        .immediate = j->opts->immediate,
                        .step = step,
                        .data_bytes = j->data_bytes};
    return args;
}

const job_program *job_main(const job *j)
{
    return &j->program[j->program[JOB_TRAIN].batch > 0 ? JOB_TRAIN : JOB_TRAIN_LAST];
}

size_t job_total_bytes(const job *j)
{
    size_t most = 0;
    for (int i = 0; i < JOB_PROGRAMS; i++)
        if (j->program[i].batch > 0 && j->program[i].plan.total_bytes > most)
            most = j->program[i].plan.total_bytes;
    return most;
}

static sw_status open_net(job *j)
{
    const job_opts *o = j->opts;
    const bool heavy = strcmp(o->optimizer, "momentum") == 0;
    const bool nesterov = strcmp(o->optimizer, "nesterov") == 0;
    j->lr = o->lr >= 0.0 ? (float)o->lr : default_lr(o->optimizer);
    const tool_net_opts net = {
        .kind = o->model,
        .image = j->train.info.field[0].shape,
        .n_classes = j->train.info.n_classes,
        .hidden = o->hidden.at,
        .n_hidden = o->hidden.n,
        .clip = (float)o->clip,
        .optimizer = {.size = sizeof net.optimizer,
                      .kind = heavy || nesterov ? "sgd" : o->optimizer,
                      .lr = j->lr,
                      .weight_decay = (float)o->weight_decay,
                      .momentum = heavy || nesterov ? (float)o->momentum : 0.0f,
                      .nesterov = nesterov,
                      .release = o->release},
    };
    return tool_net_create(&j->net, &net);
}

static sw_status open_exec(job *j)
{
    const job_opts *o = j->opts;
    if (o->budget_bytes > 0)
        SW_TRY(sw_budget_create(&j->budget, o->budget_bytes));
    const sw_exec_opts exec = {.size = sizeof exec,
                               .device = o->device,
                               .threads = (int)o->threads,
                               .budget = j->budget,
                               .seed = (uint64_t)o->seed,
                               .checks = o->checks,
                               .op_clocks = o->op_clocks,
                               .max_programs = j->keep_programs,
                               .isa = o->isa,
                               .no_recompute = o->no_recompute,
                               .shares = o->shares};
    SW_TRY(sw_exec_create(&j->exec, &exec));
    return open_net(j);
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

static int no_fit(const job *j, const sw_plan_info *plan, const char *limit, size_t bytes)
{
    return cli_error(CLI_NO_FIT,
                     "%sdoes not fit: %zu bytes are needed (model %zu, arena %zu, data %zu), "
                     "%s %zu; the peak is at %s, held by %s",
                     batch_name(j).text, plan->total_bytes, plan->model_bytes,
                     plan->arena_bytes, plan->data_bytes, limit, bytes, plan->peak_op,
                     plan->holders);
}

sw_status job_plan(job *j, job_which which)
{
    job_program *p = &j->program[which];
    const sw_run_args args = job_args(j, which, p->inputs, 0);
    SW_TRY(sw_plan(j->exec, &args, &p->plan));
    if (j->opts->immediate)
        use_bump(&p->plan);
    return SW_OK;
}

static int refuse_plan(const job *j, sw_status status)
{
    if (status != SW_NOMEM)
        return cli_library_error(status, false);
    return cli_error(CLI_NO_FIT, "%s%s", batch_name(j).text, sw_last_error());
}

static int plan_programs(job *j)
{
    job_set_batch(j, j->batch);
    for (int i = 0; i < JOB_PROGRAMS; i++) {
        job_program *p = &j->program[i];
        if (p->batch == 0)
            continue;
        const sw_status status = job_plan(j, (job_which)i);
        if (status != SW_OK)
            return refuse_plan(j, status);
        /* The loaders take their part of the budget later; refuse now what could not fit then.
         */
        if (j->budget != NULL && p->plan.total_bytes > j->opts->budget_bytes)
            return no_fit(j, &p->plan, "the budget is", j->opts->budget_bytes);
    }
    return CLI_GO;
}

int job_begin(job *j)
{
    const sw_status status = open_exec(j);
    return status == SW_OK ? CLI_GO : cli_library_error(status, false);
}

int job_open(job *j)
{
    const int status = job_begin(j);
    return status == CLI_GO ? plan_programs(j) : status;
}

/* What the fields of a data set hold in memory. */
static size_t set_bytes(const job_data *data)
{
    size_t sum = 0;
    for (int i = 0; i < data->info.n_fields; i++)
        sum += field_bytes(&data->info.field[i]) * (size_t)data->n;
    return sum;
}

/* Witnesses give each storage pages of its own, three times at most, copies of model and batch
 * among them. */
static size_t witness_bytes(const sw_plan_info *plan)
{
    return 3 * (plan->immediate_bytes + plan->model_bytes + plan->slot_bytes);
}

int job_check_machine(const job *j, bool witness)
{
    size_t there;
    const sw_status status = machine_memory("", &there);
    if (status != SW_OK)
        return cli_library_error(status, false);
    const size_t sets = set_bytes(&j->train) + set_bytes(&j->test);
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
    if (j->net.model != NULL)
        tool_net_destroy(&j->net);
    sw_exec_destroy(j->exec);
    sw_budget_destroy(j->budget);
    j->exec = NULL;
    j->budget = NULL;
}
