/* The data sets of a job, and whether both parts and the model agree about them. */
#include "tools/job/job.h"
#include <math.h>
#include <string.h>

/* The seeds of the built-in data are fixed: --seed changes a run, not its data. */
enum { SEED_TRAIN = 1, SEED_TEST = 2, SEED_SPLIT = 1 };

static sw_status load_synthetic(job *j, bool test, bool shapes_only)
{
    const job_opts *o = j->opts;
    job_data *data = test ? &j->test : &j->train;
    const int64_t fifth = o->synthetic_n / 5 > 0 ? o->synthetic_n / 5 : 1;
    const int64_t n = test ? fifth : o->synthetic_n;
    const int64_t made = shapes_only ? 1 : n;
    const uint64_t seed = test ? SEED_TEST : SEED_TRAIN;
    data->n = n;
    if (o->kind->synthetic == TOOL_VECTORS)
        return sw_dataset_vectors(&data->set, made, o->settings.width, seed);
    return sw_dataset_synthetic(&data->set, made, seed);
}

static sw_status load(job *j, bool test, bool shapes_only)
{
    const bool synthetic = strcmp(j->opts->data, "synthetic") == 0;
    return synthetic ? load_synthetic(j, test, shapes_only)
                     : job_file_load(j, test, shapes_only);
}

static void describe(job_data *data)
{
    data->info.size = sizeof data->info;
    sw_dataset_describe(data->set, &data->info);
    if (data->set != NULL &&
        data->n == 0) /* else shapes stand for more samples than were made */
        data->n = data->info.n;
}

/* Some models are made for one kind of data: known here, before any model. */
static int check_model(const job *j)
{
    const tool_net_opts opts = job_net_opts(j);
    return tool_net_accepts(&opts) == SW_OK
               ? CLI_GO
               : cli_error(CLI_USAGE, "--model %s", sw_last_error());
}

int job_load(job *j, bool shapes_only)
{
    sw_status status = SW_OK;
    if (j->opts->unlabelled) /* before the data: they are read by what it says */
        status = job_trained_read(&j->trained, j->opts->params);
    if (status == SW_OK)
        status = load(j, false, shapes_only);
    if (status == SW_OK && !cli_interrupted())
        status = load(j, true, shapes_only);
    cli_progress("%s", "");
    if (status == SW_INVALID) /* a column that is not there */
        return cli_error(CLI_USAGE, "%s", sw_last_error());
    if (status != SW_OK && status != SW_STOPPED)
        return cli_library_error(status, true);
    if (cli_interrupted())
        return cli_error(CLI_INTERRUPTED, "interrupted while the data were loaded: no file was "
                                          "written");
    describe(&j->train);
    describe(&j->test);
    if (j->train.info.n_fields == 1) {
        const int known = job_unlabelled(j);
        if (known != CLI_GO)
            return known;
    }
    status = job_file_agree(j);
    if (status != SW_OK)
        return cli_library_error(status, true);
    const int checked = check_model(j);
    return checked == CLI_GO ? job_normalise(j, shapes_only) : checked;
}

int job_validation_check(double share)
{
    if (share > 0.0 && share < 1.0)
        return CLI_GO;
    return cli_error(CLI_USAGE, "--validation-share must be above 0 and below 1 (got %g)",
                     share);
}

sw_status job_split(const sw_dataset *from, int64_t n_second, job_data *first, job_data *second)
{
    *first = *second = (job_data){0};
    SW_TRY(sw_dataset_split(&first->set, &second->set, from, n_second, SEED_SPLIT));
    describe(first);
    describe(second);
    return SW_OK;
}

int job_validation(const job *j, double share, job_data *train, job_data *validation)
{
    const int64_t all = j->train.n;
    int64_t n = llround(share * (double)all);
    n = n < 1 ? 1 : n >= all ? all - 1 : n;
    if (all < 2)
        return cli_error(CLI_USAGE,
                         "--data %s has 1 sample for training, and must have 2: one of them is "
                         "for validation",
                         j->opts->data);
    const sw_status status = job_split(j->train.set, n, train, validation);
    return status == SW_OK ? CLI_GO : cli_library_error(status, false);
}

void job_unload(job *j)
{
    sw_dataset_destroy(j->train.set);
    sw_dataset_destroy(j->test.set);
    j->train = j->test = (job_data){0};
}
