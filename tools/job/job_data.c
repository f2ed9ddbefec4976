/* The data sets of a job, and whether both parts and the model agree about them. */
#include "tools/job/job.h"
#include <string.h>

/* The seeds of the built-in data are fixed: --seed changes a run, not its data. */
enum { SEED_TRAIN = 1, SEED_TEST = 2 };

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
    if (data->n == 0) /* else shapes stand for more samples than were made */
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

/* A class that a single training image shows, and no test image, is a wild label: -1 where
 * there is none. The fields of a data set are contiguous. */
static int64_t wild_class(const job *j)
{
    const unsigned char *label = j->train.info.field[1].data;
    if (label == NULL) /* shapes only */
        return -1;
    int64_t count[256] = {0};
    for (int64_t i = 0; i < j->train.n; i++)
        count[label[i]]++;
    for (int64_t i = j->test.info.n_classes; i < j->train.info.n_classes; i++)
        if (count[i] == 1)
            return i;
    return -1;
}

/* Each part of IDX was read by itself; what the test images have and those for training have
 * not is damage. The other way round it need be none: few images do not show every class. */
static int check_parts(const job *j)
{
    const char *dir = j->opts->data + 4;
    if (strncmp(j->opts->data, "idx:", 4) != 0)
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
    return CLI_GO;
}

int job_load(job *j, bool shapes_only)
{
    sw_status status = load(j, false, shapes_only);
    if (status == SW_OK && !cli_interrupted())
        status = load(j, true, shapes_only);
    if (status == SW_INVALID) /* a column that is not there */
        return cli_error(CLI_USAGE, "%s", sw_last_error());
    if (status != SW_OK)
        return cli_library_error(status, true);
    if (cli_interrupted())
        return cli_error(CLI_INTERRUPTED, "interrupted while the data were loaded: no file was "
                                          "written");
    describe(&j->train);
    describe(&j->test);
    int checked = check_parts(j);
    if (checked == CLI_GO)
        checked = check_model(j);
    return checked == CLI_GO ? job_normalise(j, shapes_only) : checked;
}

void job_unload(job *j)
{
    sw_dataset_destroy(j->train.set);
    sw_dataset_destroy(j->test.set);
    j->train = j->test = (job_data){0};
}
