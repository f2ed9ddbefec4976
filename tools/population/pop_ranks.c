/* A population over several processes.
 *
 * Every rank has the decisions, and gives them the same scores in the same order, so that all
 * decide alike. Member k is with rank k mod N, which alone has its state, trains and scores it;
 * all know its shape and its score. Rank 0 has the files. */
#include "alloc/base/mem.h"
#include "runtime/base/checksum.h"
#include "tools/population/population.h"
#include "tools/report/file_same.h"
#include <inttypes.h>
#include <string.h>

/* A rank says this after its part of a turn, before its members. */
typedef struct {
    uint64_t turn, steps; /* that it has made since it began */
    uint32_t interrupted, save;
} word;

/* A member of the turn. */
typedef struct {
    pop_score score;
    uint64_t steps;
    uint8_t diverged, failed, reserved[6];
} told_member;

/* Of each rank: as many members as the first has. */
static size_t told_each(const pop *p)
{
    const size_t ranks = (size_t)swi_ranks_size(p->ranks);
    const size_t most = ((size_t)p->opts.members + ranks - 1) / ranks;
    return sizeof(word) + most * sizeof(told_member);
}

size_t pop_ranks_bytes(const pop *p)
{
    const int ranks = swi_ranks_size(p->ranks);
    return ranks > 1 ? swi_ranks_bytes(ranks) + (size_t)(ranks + 1) * told_each(p) : 0;
}

size_t pop_budget(const pop *p)
{
    const size_t budget = p->opts.job.budget_bytes, taken = pop_ranks_bytes(p);
    return budget > taken ? budget - taken : budget > 0;
}

int pop_ranks_open(pop *p)
{
    static char path[FILE_PATH_BYTES]; /* of this one's profile */
    pop_opts *o = &p->opts;
    p->piece = 1;
    CLI_TRY(job_ranks_open(&p->ranks, &p->job, &o->job, o->rank_timeout));
    o->profile = job_ranks_profile_path(p->ranks, o->profile, path);
    if (swi_ranks_rank(p->ranks) > 0) {
        o->metrics = o->plot = o->logs = o->save = o->resume = o->job.checkpoint = NULL;
        o->quiet = true;
    }
    return CLI_GO;
}

sw_status pop_ranks_agree(pop *p, const job_identity *options)
{
    const pop_memory *m = &p->memory;
    const sw_dataset *data[] = {p->job.train.set, p->job.test.set, p->validation.set};
    const uint64_t plans[] = {m->most,   m->arena,       m->batch,
                              m->member, m->arena_limit, (uint64_t)m->n_refused};
    uint32_t files[] = {p->saves, p->params};
    void *block;
    SW_TRY(job_ranks_same(p->ranks, options, data, 3));
    SW_TRY(swi_ranks_same(p->ranks, "plans", swi_checksum_of(plans, sizeof plans)));
    SW_TRY(swi_ranks_share(p->ranks, files, sizeof files));
    p->saves = files[0] != 0;
    p->params = files[1];
    const size_t bytes = (size_t)(swi_ranks_size(p->ranks) + 1) * told_each(p);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes));
    p->said = block;
    p->said_bytes = bytes;
    return SW_OK;
}

/* ---- turns ------------------------------------------------------------------------------- */

/* Members of the turn that are with this rank, after its own word. */
static void tell(const pop *p, const int *turn, int n, size_t each)
{
    const word own = {.turn = p->turn,
                      .steps = p->own_steps,
                      .interrupted = cli_interrupted(),
                      .save = cli_save_asked() ||
                              (p->checkpoint != NULL && job_is_due(&p->due, p->turn + 1))};
    unsigned char *at = p->said + sizeof own;
    memset(p->said, 0, each);
    memcpy(p->said, &own, sizeof own);
    for (int i = 0; i < n; i++) {
        const pop_member *m = &p->members[turn[i]];
        const told_member its = {
            .score = m->score, .steps = m->steps, .diverged = m->diverged, .failed = m->failed};
        if (!pop_is_mine(p, turn[i]))
            continue;
        memcpy(at, &its, sizeof its);
        at += sizeof its;
    }
}

static sw_status hear(pop *p, const int *turn, int n, size_t each)
{
    const unsigned char *all = p->said + each;
    const int ranks = swi_ranks_size(p->ranks);
    p->member_steps = p->steps_before;
    p->save_now = false;
    for (int k = 0; k < ranks; k++) {
        const unsigned char *at = all + (size_t)k * each + sizeof(word);
        word of;
        memcpy(&of, at - sizeof of, sizeof of);
        if (of.turn != p->turn)
            SW_FAIL(SW_IO, "rank %d is in turn %" PRIu64 ", rank %d in %" PRIu64, k, of.turn,
                    swi_ranks_rank(p->ranks), p->turn);
        p->member_steps += of.steps;
        p->stopped |= of.interrupted != 0;
        p->save_now |= of.save != 0;
        for (int i = 0; i < n; i++) {
            pop_member *m = &p->members[turn[i]];
            told_member its;
            if (pop_owner(p, turn[i]) != k)
                continue;
            memcpy(&its, at, sizeof its);
            at += sizeof its;
            m->score = its.score;
            m->steps = its.steps;
            m->diverged = its.diverged;
            m->failed = its.failed;
        }
    }
    return SW_OK;
}

sw_status pop_ranks_turn(pop *p, const int *turn, int n)
{
    const size_t ranks = (size_t)swi_ranks_size(p->ranks);
    size_t most = 0, of[SWI_RANKS_MOST] = {0};
    if (p->ranks == NULL)
        return SW_OK;
    for (int i = 0; i < n; i++) {
        const size_t its = ++of[(size_t)turn[i] % ranks];
        most = its > most ? its : most;
    }
    const size_t each = sizeof(word) + most * sizeof(told_member);
    tell(p, turn, n, each);
    swi_ranks_at(p->ranks, "turn", p->turn);
    SW_TRY(swi_ranks_gather(p->ranks, p->said, each, p->said + each));
    SW_TRY(hear(p, turn, n, each));
    /* Why one failed is said, and kept, by rank 0. */
    for (int i = 0; i < n; i++) {
        pop_member *m = &p->members[turn[i]];
        if (m->failed || m->diverged)
            SW_TRY(swi_ranks_copy(p->ranks, pop_owner(p, turn[i]), 0, m->why, sizeof m->why));
    }
    return SW_OK;
}
