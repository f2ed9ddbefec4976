/* `stepwell train` over several processes: which options it has there, what must be alike
 * before the first step, and the scores that all have of a step and of a validation.
 *
 * A step's shards are added in one order, on however many ranks they run
 * (runtime/ops/shards.c). The losses of a step are, too: all ranks have the same progress, and
 * decide alike. */
#include "alloc/base/mem.h"
#include "runtime/data/loader.h"
#include "runtime/exec/exec.h"
#include "tools/train/train.h"
#include <inttypes.h>
#include <string.h>

/* Each rank says where it is and whether it was interrupted, before the scores of its shards.
 */
typedef struct {
    uint64_t step;
    uint32_t interrupted, plan; /* of the program that ran last: its hash */
} word;
typedef struct {
    double loss;
    int64_t right;
} shard_score;

int train_ranks_check(const train_opts *o)
{
    const bool several = o->job.ranks == NULL && swi_ranks_started(NULL) > 1;
    if (o->members > 0)
        return job_check_ranks(&o->job);
    if (!several && o->shards <= 1)
        return job_ranks_check(&o->job, o->rank_timeout, "");
    const char *no = cli_given("--accumulate --immediate --keep-gradients --members --method "
                               "--replay --record --find-lr");
    if (no != NULL)
        return cli_error(CLI_USAGE, "%s is not there with --shards or several processes", no);
    if (job_on_device(&o->job))
        return cli_error(CLI_USAGE,
                         "--device %s is not there with --shards or several processes: they "
                         "train on the CPU alone",
                         o->job.device);
    return job_ranks_check(&o->job, o->rank_timeout, "");
}

bool train_interrupted(const train *t)
{
    return t->job.ranks != NULL ? t->interrupted : cli_interrupted();
}

_Static_assert(sizeof(word) == JOB_SCORE_BYTES && sizeof(shard_score) == JOB_SCORE_BYTES,
               "job_set_shards counts them");

static size_t each_found(const train *t)
{
    return (size_t)(1 + t->job.shards_here) * JOB_SCORE_BYTES;
}

int train_ranks_open(train *t)
{
    static char path[FILE_PATH_BYTES]; /* of this rank's profile */
    train_opts *o = &t->opts;
    CLI_TRY(job_ranks_open(&t->job.ranks, &t->job, &o->job, o->rank_timeout));
    const int ranks = swi_ranks_size(t->job.ranks);
    if (t->job.ranks == NULL)
        return CLI_GO;
    t->found_bytes = (size_t)(ranks + 1) * each_found(t);
    CLI_LIBRARY(sw_heap_alloc(&t->found, SW_HEAP_RECORDS, t->found_bytes), false);
    if (swi_ranks_rank(t->job.ranks) > 0) {
        o->profile = job_ranks_profile_path(t->job.ranks, o->profile, path);
        o->metrics = o->heap_profile = o->save = o->best = o->load = o->resume =
            o->job.checkpoint = NULL;
        o->quiet = true;
        o->summary = false;
    }
    return CLI_GO;
}

/* Rank 0 may have them from a file that others do not see. */
int train_ranks_normal(train *t)
{
    job_normal *n = &t->job.normal;
    if (t->job.ranks == NULL)
        return CLI_GO;
    CLI_LIBRARY(swi_ranks_share(t->job.ranks, &n->pixels, sizeof n->pixels), false);
    CLI_LIBRARY(swi_ranks_share(t->job.ranks, n->text, sizeof n->text), false);
    return CLI_GO;
}

static sw_status agree(train *t)
{
    static job_identity identity; /* large */
    swi_ranks *ranks = t->job.ranks;
    const sw_dataset *const data[] = {t->job.train.set, t->job.test.set};
    struct {
        train_progress now;
        bool inside;
    } at;
    memset(&at, 0, sizeof at);
    at.now = t->now;
    at.inside = t->inside;
    train_identify(t, &identity);
    SW_TRY(job_ranks_same(ranks, &identity, data, 2));
    SW_TRY(swi_ranks_share(ranks, &at, sizeof at));
    t->now = at.now;
    t->inside = at.inside;
    if (t->inside && swi_ranks_rank(ranks) > 0)
        SW_TRY(sw_loader_seek(t->train_loader, t->now.epoch, t->now.batches_taken));
    SW_TRY(job_ranks_share_model(ranks, t->job.net.model, false));
    t->agreed = true;
    return SW_OK;
}

int train_ranks_agree(train *t)
{
    if (t->job.ranks != NULL)
        CLI_LIBRARY(agree(t), false);
    return CLI_GO;
}

void train_ranks_keep(train *t, uint32_t shard, double loss, int64_t right)
{
    const shard_score score = {loss, right};
    memcpy(t->found + sizeof(word) + shard * sizeof score, &score, sizeof score);
}

/* The scores of all shards of the step, in their order. */
sw_status train_ranks_step(train *t, train_step *s)
{
    const size_t each = each_found(t);
    const int ranks = swi_ranks_size(t->job.ranks);
    if (t->job.ranks == NULL)
        return SW_OK;
    unsigned char *all = t->found + each;
    const swi_program *ran = t->job.exec->last;
    const word own = {.step = s->step,
                      .interrupted = cli_interrupted(),
                      .plan = ran != NULL ? (uint32_t)ran->hash : 0};
    memcpy(t->found, &own, sizeof own);
    swi_ranks_at(t->job.ranks, "step", s->step);
    SW_TRY(swi_ranks_gather(t->job.ranks, t->found, each, all));
    s->score = (result_score){0};
    for (int k = 0; k < ranks; k++) {
        word of;
        memcpy(&of, all + (size_t)k * each, sizeof of);
        t->interrupted |= of.interrupted != 0;
        if (of.step != s->step || of.plan != own.plan)
            SW_FAIL(SW_IO,
                    "rank %d is at step %" PRIu64 " of plan %08x, this rank at step %" PRIu64
                    " of plan %08x",
                    k, of.step, of.plan, s->step, own.plan);
        for (int j = 0; j < t->job.shards_here; j++) {
            shard_score score;
            memcpy(&score, all + (size_t)k * each + sizeof of + (size_t)j * sizeof score,
                   sizeof score);
            const int64_t shard = k * t->job.shards_here + j;
            result_score_add(
                &s->score, score.loss, score.right, t->job.batch,
                train_has_documents(t)
                    ? swi_loader_counted(t->train_loader, t->now.batches_taken + shard, 1)
                    : t->job.batch);
        }
    }
    return SW_OK;
}

sw_status train_ranks_validate(train *t, const result_score *own, result_score *to)
{
    struct {
        result_score score;
        uint64_t interrupted;
    } mine = {*own, cli_interrupted()}, of[SWI_RANKS_MOST];
    SW_TRY(swi_ranks_gather(t->job.ranks, &mine, sizeof mine, of));
    for (int k = 0; k < swi_ranks_size(t->job.ranks); k++) {
        t->interrupted |= of[k].interrupted != 0;
        if (of[k].score.rows > 0)
            result_score_add(to, of[k].score.loss, of[k].score.right, of[k].score.rows,
                             of[k].score.weight);
    }
    return SW_OK;
}

job_rank train_ranks_own(const train *t)
{
    const job_program *main = job_main(&t->job);
    return (job_rank){.done = t->measured[JOB_TRAIN].runs + t->measured[JOB_MICRO].runs,
                      .predicted_peak_bytes = main->plan.peak_bytes,
                      .measured_peak_bytes =
                          t->measured[main - t->job.program].bytes.peak_bytes};
}

bool train_ranks_skipped(const train *t)
{
    const int64_t most = t->opts.job.max_skipped;
    uint64_t row = 0;
    return t->job.ranks != NULL && most > 0 &&
           sw_optimizer_skipped(t->job.net.optimizer, NULL, &row) == SW_OK &&
           row >= (uint64_t)most;
}
