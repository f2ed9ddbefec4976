/* Moves along the noise: one op for each parameter, on the parameter itself. The numbers of a
 * move are an input of its program, so that models that are ready already need nothing more. */
#include "kernels/noise.h"
#include "runtime/graph/trace.h"
#include "runtime/model/noise_mode.h"
#include "runtime/population/es/zo_internal.h"
#include <string.h>

/* The variant of a model decides its program: the step function reads it from there. So
 * trainers of equal options share their programs. */
typedef struct {
    swi_move move;
    bool decays;
    int32_t rank; /* of noise of matrices; 0: theirs is that of vectors */
    uint32_t window;
} shape_of_move;

static uint64_t variant_of(const swi_zo_rule *rule, swi_move move)
{
    return (uint64_t)move | (uint64_t)(rule->weight_decay != 0.0f) << 2 |
           (uint64_t)rule->rank << 3 | (uint64_t)rule->window << 32;
}

static shape_of_move decode(uint64_t variant)
{
    return (shape_of_move){.move = (swi_move)(variant & 3),
                           .decays = (variant >> 2 & 1) != 0,
                           .rank = (int32_t)(variant >> 3 & 0x1ff),
                           .window = (uint32_t)(variant >> 32)};
}

static void set_attrs(const shape_of_move *m, const swi_entry *entry, swi_move_attrs *to)
{
    const sw_noise_spec like = {.kind = m->rank > 0 ? SW_NOISE_LOW_RANK : SW_NOISE_IID,
                                .distribution = SW_NOISE_NORMAL,
                                .rank = m->rank,
                                .window = m->window};
    memset(to, 0, sizeof *to);
    swi_noise_spec(&to->noise, &like, 0.0f, 0.0f, &entry->shape, swi_noise_stream(entry->name));
    to->move = (int32_t)m->move;
    to->decays = m->decays && entry->shape.rank > 1 && m->move != SWI_MOVE_BY_NOISE;
}

static bool is_moved(const swi_entry *e)
{
    return e->role == SWI_ROLE_PARAMETER && !e->frozen && e->bytes > 0;
}

sw_status swi_zo_has_parameters(const sw_model *model, const char *call)
{
    for (uint32_t i = 1; i < model->n_entries; i++)
        if (is_moved(&model->entries[i]))
            return SW_OK;
    SW_FAIL(SW_INVALID, "%s: model %s has no parameter that is not frozen", call, model->name);
}

static void append_move(sw_ctx *ctx, const shape_of_move *m, sw_model *model, uint32_t entry,
                        uint32_t numbers)
{
    const swi_entry *e = &model->entries[entry];
    const sw_type type = {e->dtype, SW_PLAIN, e->shape};
    const uint32_t in[] = {swi_model_value(ctx, model, entry), numbers};
    swi_move_attrs attrs;
    uint32_t out;
    set_attrs(m, e, &attrs);
    const swi_append_args args = {.op = SW_OP_noise_move,
                                  .grad = -1,
                                  .in = in,
                                  .n_in = 2,
                                  .attrs = &attrs,
                                  .out_types = &type,
                                  .into = in,
                                  .n_out = 1,
                                  .update = true};
    if (sw_ctx_status(ctx) == SW_OK)
        (void)swi_append(ctx, &args, &out);
}

static void move_all(sw_ctx *ctx, void *user)
{
    (void)user;
    const shape_of_move m = decode(ctx->args->variant);
    sw_model *model = ctx->args->models[0];
    sw_set_phase(ctx, SW_STEP);
    const sw_value numbers = sw_input(ctx, 0);
    for (uint32_t i = 1; i < model->n_entries; i++)
        if (is_moved(&model->entries[i]))
            append_move(ctx, &m, model, i, numbers.id - 1);
}

sw_run_args swi_zo_move_args(const swi_zo_rule *rule, sw_model *const *model, swi_move move,
                             const sw_array *numbers)
{
    return SW_OPTS(sw_run_args, .fn = move_all, .models = model, .n_models = 1,
                   .inputs = numbers, .n_inputs = 1, .mode = SW_EVAL,
                   .variant = variant_of(rule, move));
}

sw_status swi_zo_prepare_move(const swi_zo_rule *rule, sw_model *model, sw_exec *exec,
                              swi_move move)
{
    const float x[SWI_MOVE_NUMBERS] = {0};
    const sw_array numbers = {SW_F32, {1, {SWI_MOVE_NUMBERS}}, x};
    const sw_run_args args = swi_zo_move_args(rule, &model, move, &numbers);
    return swi_run_prepare(exec, &args, NULL, NULL, "sw_zo_step");
}

sw_status swi_zo_run_move(const swi_zo_rule *rule, sw_model *model, sw_exec *exec,
                          const swi_zo_move *move)
{
    const float x[SWI_MOVE_NUMBERS] = {[SWI_MOVE_A] = move->a,
                                       [SWI_MOVE_C] = move->c,
                                       [SWI_MOVE_LR] = move->lr,
                                       [SWI_MOVE_WD] = rule->weight_decay};
    const sw_array numbers = {SW_F32, {1, {SWI_MOVE_NUMBERS}}, x};
    sw_run_args args = swi_zo_move_args(rule, &model, move->move, &numbers);
    args.step = move->step;
    return swi_run_seeded(exec, &args, rule->seed);
}
