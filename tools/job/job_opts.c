/* The options that `train` and `plan` share. */
#include "tools/job/job.h"
#include "tools/job/optimizer.h"
#include <string.h>

static const char *const update_words[] = {"release", "after", NULL};
static const char *const isa_words[] = {"avx512", "avx2", "base", NULL};

static const char *optimizer_help(void)
{
    static char text[600];
    snprintf(text, sizeof text, "%s (default: the model's own, mostly adam)",
             tool_optimizer_list());
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
    o->lr = o->momentum = -1.0; /* not given */
    const cli_option options[] = {
        {"--model", "NAME", CLI_WORD, &o->model, "lenet5", tool_model_help(), 0, 0,
         tool_model_words()},
        {"--data", "SOURCE", CLI_WORD, &o->data, "synthetic", job_file_help(), 0, 0, NULL},
        {"--normalise", "WORD", CLI_WORD, &o->normalise, NULL,
         "how pixels of 0 to 1 become numbers, (x - MEAN) / STD: MEAN,STD or for each channel "
         "M1/M2/M3,S1/S2/S3; none: they stay; auto: by mean and deviation of the training "
         "images (default as the file of --load-params says, else auto)",
         0, 0, NULL},
        {"--normalize", "WORD", CLI_WORD, &o->normalise, NULL, NULL, 0, 0, NULL},
        {"--synthetic-n", "N", CLI_COUNT, &o->synthetic_n, NULL,
         "synthetic training samples (default 10000, swishnet 1024); a fifth as many for "
         "testing",
         1, 10000000, NULL},
        {"--batch", one_batch ? "N" : "LIST", one_batch ? CLI_COUNT : CLI_LIST,
         one_batch ? (void *)&o->batch.at[0] : &o->batch, one_batch ? "128" : NULL,
         one_batch ? "samples per step"
                   : "samples per step, or several numbers: 1,32,128 (default 128)",
         1, JOB_BATCH_MAX, NULL},
        {"--optimizer", "NAME", CLI_WORD, &o->optimizer, NULL, optimizer_help(), 0, 0,
         tool_optimizer_words()},
        {"--lr", "X", CLI_REAL, &o->lr, NULL, rate_help(), 0, 0, NULL},
        {"--momentum", "X", CLI_REAL, &o->momentum, NULL,
         "momentum of the optimizers momentum and nesterov (default 0.9) and rmsprop (default "
         "0)",
         0, 0, NULL},
        {"--weight-decay", "X", CLI_REAL, &o->weight_decay, "0", "weight decay", 0, 0, NULL},
        {"--clip", "X", CLI_REAL, &o->clip, "0",
         "largest global norm of the gradients; 0: no clipping", 0, 0, NULL},
        {"--max-skipped", "N", CLI_COUNT, &o->max_skipped, "10",
         "end after N skipped updates in a row; an update is skipped when a gradient is not "
         "finite; 0: never",
         0, 1 << 30, NULL},
        {"--update", "WHEN", CLI_WORD, &o->update, NULL,
         "when parameters are updated. release: each right behind its gradient, which is freed "
         "there; after: all at the end of backward (default release; after with --clip, "
         "--keep-gradients or --accumulate, which need all gradients)",
         0, 0, update_words},
        {"--keep-gradients", NULL, CLI_FLAG, &o->keep_gradients, NULL,
         "keep the gradients in the model's memory from step to step", 0, 0, NULL},
        {"--accumulate", "N", CLI_COUNT, &o->accumulate, "1",
         "micro-batches for each step: --batch is the size of one, steps count updates", 1,
         1 << 20, NULL},
        {"--immediate", NULL, CLI_FLAG, &o->immediate, NULL, "run op by op, without a plan", 0,
         0, NULL},
        {"--seed", "N", CLI_COUNT, &o->seed, "1",
         "seed of the first parameters and of the order of samples", 0, 0, NULL},
        {"--threads", "N", CLI_COUNT, &o->threads, "1",
         "threads that compute; the bits are the same for any number", 1, 256, NULL},
        {"--device", "NAME", CLI_WORD, &o->device, "cpu",
         "cpu; cuda, or cuda:N for card N, where the CUDA module is installed", 0, 0, NULL},
        {"--tf32", NULL, CLI_FLAG, &o->tf32, NULL,
         "with --device cuda: matrix products and convolutions may round their factors to TF32",
         0, 0, NULL},
        {"--no-graphs", NULL, CLI_FLAG, &o->no_graphs, NULL,
         "with --device cuda: launch op by op instead of replaying whole steps", 0, 0, NULL},
        {"--sync-ops", NULL, CLI_FLAG, &o->sync_ops, NULL,
         "with --device cuda: wait for each op, so that a fault of the device names it (slow)",
         0, 0, NULL},
        {"--isa", "NAME", CLI_WORD, &o->isa, NULL,
         "avx512, avx2 or base (default the best of this machine)", 0, 0, isa_words},
        {"--memory-budget", "SIZE", CLI_BYTES, &o->budget_bytes, NULL,
         "hard limit for model, arena and data together; if needed, forward ops run again in "
         "backward (default none)",
         1, 0, NULL},
        {"--no-recompute", NULL, CLI_FLAG, &o->no_recompute, NULL,
         "refuse a plan above the budget instead of moving updates or running ops again", 0, 0,
         NULL},
        {"--no-chunks", NULL, CLI_FLAG, &o->no_chunks, NULL,
         "run no op over its rows in parts; parts lower the arena", 0, 0, NULL},
        {"--no-tiles", NULL, CLI_FLAG, &o->no_tiles, NULL,
         "make gradients of large weights whole, instead of updating tile by tile", 0, 0, NULL},
        {"--no-rebuild", NULL, CLI_FLAG, &o->no_rebuild, NULL,
         "keep the results of cheap ops for backward, instead of computing them again there", 0,
         0, NULL},
    };
    const int count = (int)(sizeof options / sizeof *options);
    memcpy(table + n, options, sizeof *options);
    n = tool_settings_options(&o->settings, table, n + 1); /* behind --model */
    memcpy(table + n, options + 1, sizeof options - sizeof *options);
    return job_file_options(&o->file, table, n + count - 1);
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
    const char *usual = o->kind->optimizer != NULL ? o->kind->optimizer : "adam";
    const int status = tool_settings_complete(o->kind, &o->settings);
    if (status != CLI_GO)
        return status;
    if (o->optimizer == NULL)
        o->optimizer = usual;
    double usual_momentum;
    const bool heavy = tool_optimizer_has_momentum(o->optimizer, &usual_momentum);
    if (o->lr < 0.0)
        o->lr = o->kind->lr > 0.0f && strcmp(o->optimizer, usual) == 0
                    ? (double)o->kind->lr
                    : tool_optimizer_lr(o->optimizer);
    if (o->synthetic_n > 0 && strcmp(o->data, "synthetic") != 0)
        return no_effect("--synthetic-n", "--data synthetic");
    if (o->momentum >= 0.0 && !heavy)
        return no_effect("--momentum", "--optimizer momentum, nesterov or rmsprop");
    if (o->momentum >= 1.0)
        return cli_error(CLI_USAGE, "--momentum must be at least 0 and below 1 (got %g)",
                         o->momentum);
    if (o->batch.at[0] == 0)
        o->batch = (cli_list){{128}, 1};
    if (o->synthetic_n == 0)
        o->synthetic_n = o->kind->synthetic_n > 0 ? o->kind->synthetic_n : 10000;
    if (o->momentum < 0.0)
        o->momentum = usual_momentum;
    return CLI_GO;
}

/* What needs all gradients at once cannot have them released: said by name, never settled in
 * silence. Without --update the others decide. */
static int when_to_update(job_opts *o)
{
    const bool asked = o->update != NULL && strcmp(o->update, "release") == 0;
    const bool all = o->clip > 0.0 || o->keep_gradients || o->accumulate > 1;
    if (asked && o->clip > 0.0)
        return cli_error(CLI_USAGE,
                         "--update release and --clip exclude each other: the global norm is "
                         "known only when all gradients are");
    if (asked && o->keep_gradients)
        return cli_error(CLI_USAGE,
                         "--update release and --keep-gradients exclude each other: a "
                         "released gradient does not outlive its update");
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

/* What is of devices alone, what of the CPU alone. */
static int check_device(const job_opts *o)
{
    const char *of_device = o->tf32        ? "--tf32"
                            : o->sync_ops  ? "--sync-ops"
                            : o->no_graphs ? "--no-graphs"
                                           : NULL;
    if (strcmp(o->device, "sim") == 0)
        return cli_error(CLI_NO_DEVICE, "--device sim is not built yet: cpu and cuda are");
    if (job_on_device(o) && !is_card(o->device))
        return cli_error(CLI_USAGE, "--device %s is unknown: cpu, cuda and cuda:N are known",
                         o->device);
    if (!job_on_device(o))
        return of_device != NULL ? no_effect(of_device, "--device cuda") : CLI_GO;
    if (o->threads > 1 || o->isa != NULL)
        return cli_error(CLI_USAGE, "%s has no effect with --device %s",
                         o->threads > 1 ? "--threads" : "--isa", o->device);
    if (o->no_graphs && (o->sync_ops || o->immediate))
        return cli_error(CLI_USAGE, "--no-graphs has no effect with %s, which replays nothing",
                         o->sync_ops ? "--sync-ops" : "--immediate");
    if (o->op_clocks && !o->sync_ops)
        return cli_error(CLI_USAGE,
                         "--op-clocks with --device %s needs --sync-ops: without it the clock "
                         "measures launches only",
                         o->device);
    return CLI_GO;
}

int job_check(job_opts *o)
{
    o->kind = tool_model_find(o->model);
    int status = check_device(o);
    if (status == CLI_GO)
        status = job_file_check(o);
    if (status == CLI_GO)
        status = job_normal_check(o);
    if (status == CLI_GO)
        status = when_to_update(o);
    return status == CLI_GO ? settle(o) : status;
}
