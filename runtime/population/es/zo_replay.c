/* A record's steps again, without data: each is one pass over the parameters, which makes the
 * three moves of the recorded step one after the other with one z. */
#include "alloc/base/mem.h"
#include "runtime/population/es/zo_internal.h"

/* The sum of a model that no one uses meanwhile. */
static sw_status sum_of(sw_model *model, uint64_t *out)
{
    SW_TRY(swi_model_take(model));
    const sw_status status = swi_zo_sum_model(model, out);
    swi_model_give(model);
    return status;
}

static sw_status check_start(sw_model *model, const swi_zo_record *r, const char *path)
{
    uint64_t sum;
    if (model->damaged)
        SW_FAIL(SW_STALE, "sw_zo_replay: model %s is damaged: restore it first", model->name);
    if (!model->ready)
        SW_FAIL(SW_INVALID, "sw_zo_replay: model %s must be ready, with the first parameters",
                model->name);
    SW_TRY(sum_of(model, &sum));
    if (sum != r->before)
        SW_FAIL(SW_INVALID,
                "sw_zo_replay: model %s is not what %s begins with: the sum over its "
                "parameters is %016llx, must be %016llx",
                model->name, path, (unsigned long long)sum, (unsigned long long)r->before);
    return SW_OK;
}

static sw_status make_steps(sw_model *model, sw_exec *exec, const swi_zo_record *r,
                            sw_zo_progress_fn *progress, void *user)
{
    sw_call call = {.name = "sw_zo_replay",
                    .callback = "`progress`",
                    .keeps = {SW_CALL_ONE(model), SW_CALL_ONE(exec)}};
    if (r->steps > 0)
        SW_TRY(swi_zo_has_parameters(model, "sw_zo_replay"));
    for (uint64_t i = 0; i < r->steps; i++) {
        swi_zo_move m = {.move = SWI_MOVE_ALL, .step = i, .a = r->rule.eps, .c = r->slopes[i]};
        SW_TRY(swi_zo_rate(&r->rule, i, &m.lr));
        SW_TRY(swi_zo_run_move(&r->rule, model, exec, &m));
        if (progress == NULL)
            continue;
        SW_TRY(sw_call_begin(&call, SW_FRAME));
        SW_TRY(sw_call_end(&call, progress(user, i + 1, r->steps)));
    }
    return SW_OK;
}

static sw_status check_end(sw_model *model, const swi_zo_record *r, const char *path)
{
    uint64_t sum;
    SW_TRY(sum_of(model, &sum));
    if (sum == r->behind)
        return SW_OK;
    model->damaged = true;
    SW_FAIL(SW_FORMAT,
            "sw_zo_replay: the steps of %s do not lead to its last parameters: the sum over "
            "them is %016llx, must be %016llx (model %s must be restored)",
            path, (unsigned long long)sum, (unsigned long long)r->behind, model->name);
}

sw_status sw_zo_replay(sw_model *model, sw_exec *exec, const char *path,
                       sw_zo_progress_fn *progress, void *user)
{
    static const char call[] = "sw_zo_replay";
    swi_zo_record r;
    SW_TRY(sw_handle_check(model, SW_HANDLE_MODEL, call));
    SW_TRY(sw_call_may_end(model, "model", call)); /* nor go on from the middle of another */
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, call));
    if (path == NULL)
        SW_FAIL(SW_INVALID, "%s: path must not be NULL", call);
    SW_TRY(swi_zo_record_read(&r, path));
    sw_status status = check_start(model, &r, path);
    if (status == SW_OK)
        status = make_steps(model, exec, &r, progress, user);
    if (status == SW_OK)
        status = check_end(model, &r, path);
    swi_zo_record_free(&r);
    return status;
}
