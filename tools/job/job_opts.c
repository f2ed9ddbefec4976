/* The options that `train` and `plan` share. */
#include "tools/job/job.h"
#include "tools/job/optimizer.h"
#include <string.h>

static const char *const update_words[] = {"release", "after", NULL};
static const char *const isa_words[] = {"avx512", "avx2", "base", NULL};
static const char *const header_words[] = {"auto", "yes", "no", NULL};

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
    return n + count - 1;
}

/* An option that another one leaves without effect is a mistake better said than passed over.
 */
static int no_effect(const char *option, const char *without)
{
    return cli_error(CLI_USAGE, "%s has no effect without %s", option, without);
}

/* Options that were not given get their defaults here, after it was seen that they were not. */
static int derive_options(job_opts *o)
{
    const char *usual = o->kind->optimizer != NULL ? o->kind->optimizer : "adam";
    const int status = tool_settings_complete(o->kind, &o->settings);
    if (status != CLI_GO)
        return status;
    if (o->optimizer == NULL)
        o->optimizer = usual;
    double usual_momentum;
    const bool heavy = tool_optimizer_has_momentum(o->optimizer, &usual_momentum);
    if (o->lr < 0.0 && o->method == JOB_MEZO)
        o->lr = JOB_MEZO_RATE;
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

/* Options that need all gradients at once cannot have them released: the message names them,
 * nothing is settled in silence. Without --update the others decide. */
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

int job_check(job_opts *o)
{
    o->kind = tool_model_find(o->model);
    if (o->epochs == 0)
        return cli_error(CLI_USAGE, "--epochs must be at least 1 (got 0): 'stepwell plan' says "
                                    "what memory a run takes, without a step");
    int status = check_device(o);
    if (status == CLI_GO)
        status = job_file_check(o);
    if (status == CLI_GO)
        status = job_normal_check(o);
    if (status == CLI_GO)
        status = job_augment_check(o);
    if (status == CLI_GO)
        status = when_to_update(o);
    return status == CLI_GO ? derive_options(o) : status;
}
