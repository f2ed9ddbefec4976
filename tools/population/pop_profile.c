/* --profile: the shapes that occur, and who takes which bytes in every turn. */
#include "alloc/base/mem.h"
#include "profiler/record/prof.h"
#include "tools/population/population.h"
#include "tools/train/train.h"
#include <float.h>
#include <math.h>

/* ---- the file ---------------------------------------------------------------------------- */

/* The profile of a run before this one is not replaced where it goes on. */
static sw_status keep_before(const pop *p)
{
    char kept[600];
    if (!p->resumed)
        return SW_OK;
    SW_TRY(train_keep_profile(p->opts.profile, p->turn, kept, sizeof kept));
    if (kept[0] != '\0')
        cli_note("the profile of the turns before is in %s", kept);
    return SW_OK;
}

sw_status pop_profile_open(pop *p)
{
    const job_opts *j = &p->opts.job;
    if (p->opts.profile == NULL)
        return SW_OK;
    SW_TRY(keep_before(p));
    const sw_prof_header header = {.path = p->opts.profile,
                                   .model = j->model,
                                   .device = j->device,
                                   .data = j->data,
                                   .command = p->command,
                                   .version = sw_version(),
                                   .normalise = p->job.normal.text,
                                   .batch = job_slot_rows(&p->job.train, j->batch.at[0]),
                                   .seed = (uint64_t)j->seed,
                                   .steps = (uint64_t)p->steps_to_do,
                                   .budget_bytes = j->budget_bytes,
                                   .members = (uint64_t)p->n_members,
                                   .scores = pop_metric_name(p)};
    return sw_prof_create(&p->profile, &header);
}

int pop_profile_close(pop *p, int status)
{
    sw_profile *profile = p->profile;
    sw_heap_free(p->told, SW_HEAP_RECORDS, p->cap_told * sizeof *p->told);
    p->told = NULL;
    p->n_told = p->cap_told = 0;
    p->profile = NULL;
    if (profile == NULL)
        return status;
    if (status == CLI_INTERRUPTED)
        sw_profile_end_status(profile, SW_STOPPED, NULL);
    else if (status != CLI_DONE)
        sw_profile_end_status(profile, SW_IO, cli_last_line());
    const sw_status closed = sw_profile_destroy(profile);
    return closed != SW_OK && status == CLI_DONE ? cli_library_error(closed, false) : status;
}

/* ---- shapes ------------------------------------------------------------------------------ */

/* Shapes of one config have the same plans, whenever they are made: they are written once. */
static sw_status shape_number(pop *p, pop_shape *s, uint32_t *out)
{
    for (uint32_t i = 0; i < p->n_told; i++)
        if (pop_same_config(&p->told[i], &s->config)) {
            *out = i;
            return SW_OK;
        }
    SW_TRY(sw_heap_reserve(&p->told, SW_HEAP_RECORDS, &p->cap_told, p->n_told + 1,
                           sizeof *p->told));
    sw_members_args args[POP_PARTS];
    for (int i = 0; i < POP_PARTS; i++)
        args[i] = pop_args(s, (pop_part)i);
    SW_TRY(sw_members_profile(s->group, args, POP_PARTS, p->profile,
                              pop_config_text(&s->config).text, out));
    p->told[p->n_told++] = s->config;
    return SW_OK;
}

/* ---- turns ------------------------------------------------------------------------------- */

static sw_status write_member(pop *p, int k)
{
    pop_member *m = &p->members[k];
    pop_shape *s = p->shapes[m->shape];
    const bool resident = m->member.of != NULL;
    const char *names[POP_HYPERS];
    double values[POP_HYPERS];
    sw_prof_member x = {.turn = p->turn,
                        .member = (uint32_t)k,
                        .step = m->steps,
                        .seed = m->seed,
                        .place = resident           ? "resident"
                                 : m->waiting.there ? "waiting"
                                                    : "none",
                        .range_bytes = resident ? s->member_bytes : 0,
                        .waiting_bytes = m->waiting.there ? m->waiting.n : 0,
                        .kept_bytes = m->kept.there ? m->kept.n : 0,
                        .score = fabs(m->score.score) < DBL_MAX ? m->score.score : (double)NAN,
                        .loss = m->score.loss,
                        .train_loss = m->score.train_loss,
                        .donor = m->copied - 1,
                        .status = m->failed  ? "failed"
                                  : m->ended ? "ended"
                                             : "runs",
                        .names = names,
                        .values = values,
                        .n_values = (uint32_t)p->n_hypers};
    SW_TRY(shape_number(p, s, &x.shape));
    SW_TRY(pop_values(p, k, values));
    for (int i = 0; i < p->n_hypers; i++)
        names[i] = p->hyper[i].name;
    sw_prof_member_record(p->profile, &x);
    m->copied = 0;
    return SW_OK;
}

static sw_status write_total(pop *p)
{
    sw_members_memory used = SW_OPTS(sw_members_memory);
    sw_prof_turn x = {.turn = p->turn, .members = (uint32_t)p->n_members};
    for (int k = 0; k < p->n_members; k++)
        x.step = p->members[k].steps > x.step ? p->members[k].steps : x.step;
    SW_TRY(sw_members_used(p->shapes[p->members[0].shape]->group, &used));
    x.lanes = (uint32_t)used.lanes;
    x.step_bytes = used.step_bytes;
    x.batch_bytes = used.batch_bytes;
    x.range_bytes = used.range_bytes;
    x.live_bytes = used.live_bytes;
    x.predicted_bytes = p->memory.packing.bytes + p->memory.staging;
    x.outside_bytes = p->memory.paused;
    sw_prof_turn_record(p->profile, &x);
    return SW_OK;
}

sw_status pop_profile_turn(pop *p)
{
    if (p->profile == NULL)
        return SW_OK;
    for (int k = 0; k < p->n_members; k++)
        SW_TRY(write_member(p, k));
    return write_total(p);
}
