/* Zeroth-order training (sw_zo): options, and the step. MeZO: Malladi et al. 2023; LOZO: Chen
 * et al. 2024. A step is three moves of the parameters and two runs of the caller's; nothing is
 * kept of it but its slope c, so the most bytes that live at one time are those of a run. */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "kernels/noise.h"
#include "runtime/base/structs.h"
#include "runtime/graph/trace.h"
#include "runtime/model/model.h"
#include "runtime/model/noise_mode.h"
#include "runtime/population/es/zo_internal.h"
#include <math.h>
#include <string.h>

/* Little-endian. */
static void put(unsigned char *to, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(x >> 8 * i);
}

static void add_number(swi_checksum *sum, uint64_t x)
{
    unsigned char bytes[8];
    put(bytes, x, 8);
    swi_checksum_add(sum, bytes, sizeof bytes);
}

/* Of all parameters: names, shapes, which are frozen, elements. The model is ready and
 * taken. */
static sw_status zo_sum_model(const sw_model *model, uint64_t *out)
{
    swi_checksum sum;
    swi_checksum_begin(&sum);
    for (uint32_t i = 1; i < model->n_entries; i++) {
        const swi_entry *e = &model->entries[i];
        if (e->role != SWI_ROLE_PARAMETER)
            continue;
        swi_checksum_add(&sum, e->name, strlen(e->name) + 1);
        add_number(&sum, (uint64_t)e->shape.rank);
        for (int k = 0; k < e->shape.rank; k++)
            add_number(&sum, (uint64_t)e->shape.dim[k]);
        add_number(&sum, e->frozen);
        SW_TRY(swi_model_pour(model, e->offset, e->bytes, swi_checksum_piece, &sum));
    }
    *out = swi_checksum_end(&sum);
    return SW_OK;
}

/* Moves along the noise: one op for each parameter, on the parameter itself. The numbers of a
 * move are an input of its program, so that models that are ready already need nothing more. */

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

static bool is_moved(const swi_entry *e)
{
    return e->role == SWI_ROLE_PARAMETER && !e->frozen && e->bytes > 0;
}

/* Has the model a parameter that is not frozen? SW_INVALID else. */
static sw_status zo_has_parameters(const sw_model *model, const char *call)
{
    for (uint32_t i = 1; i < model->n_entries; i++)
        if (is_moved(&model->entries[i]))
            return SW_OK;
    SW_FAIL(SW_INVALID, "%s: model %s has no parameter that is not frozen", call, model->name);
}

static void move_all(sw_ctx *ctx, void *user)
{
    (void)user;
    const shape_of_move m = (shape_of_move){.move = (swi_move)(ctx->args->variant & 3),
                                            .decays = (ctx->args->variant >> 2 & 1) != 0,
                                            .rank = (int32_t)(ctx->args->variant >> 3 & 0x1ff),
                                            .window = (uint32_t)(ctx->args->variant >> 32)};
    sw_model *model = ctx->args->models[0];
    sw_set_phase(ctx, SW_STEP);
    const sw_value numbers = sw_input(ctx, 0);
    for (uint32_t i = 1; i < model->n_entries; i++)
        if (is_moved(&model->entries[i])) {
            const swi_entry *e = &model->entries[i];
            const sw_type type = {e->dtype, SW_PLAIN, e->shape};
            const uint32_t in[] = {swi_model_value(ctx, model, i), (numbers.id - 1)};
            swi_move_attrs attrs;
            uint32_t out;
            const sw_noise_spec like = {.kind = m.rank > 0 ? SW_NOISE_LOW_RANK : SW_NOISE_IID,
                                        .distribution = SW_NOISE_NORMAL,
                                        .rank = m.rank,
                                        .window = m.window};
            memset(&attrs, 0, sizeof attrs);
            swi_noise_spec(&attrs.noise, &like, 0.0f, 0.0f, &e->shape,
                           swi_noise_stream(e->name));
            attrs.move = (int32_t)m.move;
            attrs.decays = m.decays && e->shape.rank > 1 && m.move != SWI_MOVE_BY_NOISE;
            const swi_append_args args = SW_INIT(.op = SW_OP_noise_move, .grad = -1, .in = in,
                                                 .n_in = 2, .attrs = &attrs, .out_types = &type,
                                                 .into = in, .n_out = 1, .update = true);
            if (sw_ctx_status(ctx) == SW_OK)
                (void)swi_append(ctx, &args, &out);
        }
}

sw_run_args swi_zo_move_args(const swi_zo_rule *rule, sw_model *const *model, swi_move move,
                             const sw_array *numbers)
{
    return SW_OPTS(sw_run_args, .fn = move_all, .models = model, .n_models = 1,
                   .inputs = numbers, .n_inputs = 1, .mode = SW_EVAL,
                   .variant = variant_of(rule, move));
}

/* Its memory, before a step: what can be refused is refused before anything moves. */
static sw_status zo_prepare_move(const swi_zo_rule *rule, sw_model *model, sw_exec *exec,
                                 swi_move move)
{
    const float x[SWI_MOVE_NUMBERS] = {0};
    const sw_array numbers = {SW_F32, {1, {SWI_MOVE_NUMBERS}}, x};
    const sw_run_args args = swi_zo_move_args(rule, &model, move, &numbers);
    return swi_run_prepare(exec, &args, NULL, NULL, "sw_zo_step");
}

static sw_status zo_run_move(const swi_zo_rule *rule, sw_model *model, sw_exec *exec,
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

/* ---- options ----------------------------------------------------------------------------- */

static sw_status range(float x, bool above, const char *call, const char *what)
{
    if (!isfinite(x) || x < 0.0f || (above && x == 0.0f))
        SW_FAIL(SW_INVALID, "%s: %s must be finite and %s 0 (got %g)", call, what,
                above ? "above" : "at least", (double)x);
    return SW_OK;
}

/* The rate of a step, from 0. */
static sw_status zo_rate(const swi_zo_rule *rule, uint64_t step, float *out)
{
    if (rule->schedule.kind != NULL)
        return sw_schedule_at(&rule->schedule, step, out);
    *out = rule->lr;
    return SW_OK;
}

/* SW_INVALID names the number that is out of range; `call` begins the message. */
static sw_status zo_check(const swi_zo_rule *r, const char *call)
{
    float rate;
    SW_TRY(range(r->eps, true, call, "eps"));
    SW_TRY(range(r->lr, false, call, "lr"));
    SW_TRY(range(r->weight_decay, false, call, "weight_decay"));
    if (r->rank < 0 || r->rank > SWI_ZO_RANK_MAX)
        SW_FAIL(SW_INVALID, "%s: rank must be 1 to %d (got %d)", call, SWI_ZO_RANK_MAX,
                r->rank);
    return zo_rate(r, 0, &rate);
}

/* The schedule is copied, with the library's own name of its kind. */
static sw_status read_schedule(const sw_schedule *given, swi_zo_rule *to)
{
    float rate;
    if (given == NULL)
        return SW_OK;
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_schedule, &to->schedule, given, "sw_zo_create"));
    SW_TRY(sw_schedule_at(&to->schedule, 0, &rate));
    for (size_t i = 0; sw_schedule_kind(i) != NULL; i++)
        if (strcmp(sw_schedule_kind(i), given->kind) == 0)
            to->schedule.kind = sw_schedule_kind(i);
    return SW_OK;
}

static size_t slopes_bytes(uint64_t steps)
{
    return (size_t)steps * sw_dtype_bytes(SW_F32);
}

sw_status sw_zo_create(sw_zo **out, sw_model *model, const sw_zo_opts *given)
{
    sw_zo_opts opts;
    sw_zo *zo;
    SW_TRY(swi_given(out != NULL, "out", "sw_zo_create"));
    SW_TRY(sw_handle_check(model, SW_HANDLE_MODEL, "sw_zo_create"));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_zo_opts, &opts, given, "sw_zo_create"));
    const bool mezo = opts.kind == NULL || strcmp(opts.kind, "mezo") == 0;
    swi_zo_rule rule = {.eps = opts.eps != 0.0f ? opts.eps : 0.001f,
                        .lr = opts.lr != 0.0f ? opts.lr : 1e-6f,
                        .weight_decay = opts.weight_decay,
                        .rank = mezo             ? 0
                                : opts.rank != 0 ? opts.rank
                                                 : 2,
                        .window = mezo               ? 0
                                  : opts.window != 0 ? opts.window
                                                     : 50,
                        .seed = opts.seed};
    if (!mezo && strcmp(opts.kind, "lozo") != 0)
        SW_FAIL(SW_INVALID, "sw_zo_create: kind must be \"mezo\" or \"lozo\" (got \"%s\")",
                opts.kind);
    if (mezo && (opts.rank != 0 || opts.window != 0))
        SW_FAIL(SW_INVALID, "sw_zo_create: rank and window are of \"lozo\" (got %d and %u)",
                opts.rank, opts.window);
    if (opts.rank < 0)
        SW_FAIL(SW_INVALID, "sw_zo_create: rank must be 1 to %d (got %d)", SWI_ZO_RANK_MAX,
                opts.rank);
    SW_TRY(read_schedule(opts.schedule, &rule));
    SW_TRY(zo_check(&rule, "sw_zo_create"));
    if (opts.max_steps > SWI_ZO_STEPS_MAX)
        SW_FAIL(SW_INVALID, "sw_zo_create: max_steps must be at most %llu (got %llu)",
                (unsigned long long)SWI_ZO_STEPS_MAX, (unsigned long long)opts.max_steps);

    SW_TRY(sw_handle_take(&zo, SW_HANDLE_ZO, sizeof(sw_zo)));
    const sw_status status = opts.max_steps > 0 ? sw_heap_alloc(&zo->slopes, SW_HEAP_RECORDS,
                                                                slopes_bytes(opts.max_steps))
                                                : SW_OK;
    if (status != SW_OK) {
        sw_handle_give(zo, SW_HANDLE_ZO, sizeof *zo);
        return status;
    }
    zo->model = model;
    zo->model_generation = model->handle.generation;
    zo->rule = rule;
    zo->room = opts.max_steps;
    *out = zo;
    return SW_OK;
}

void sw_zo_destroy(sw_zo *zo)
{
    if (!sw_handle_ends(zo, SW_HANDLE_ZO, __func__))
        return;
    sw_heap_free(zo->slopes, SW_HEAP_RECORDS, slopes_bytes(zo->room));
    sw_handle_give(zo, SW_HANDLE_ZO, sizeof *zo);
}

uint64_t sw_zo_steps(const sw_zo *zo)
{
    return sw_handle_check(zo, SW_HANDLE_ZO, "sw_zo_steps") == SW_OK ? zo->steps : 0;
}

uint64_t sw_zo_not_finite(const sw_zo *zo)
{
    return sw_handle_check(zo, SW_HANDLE_ZO, "sw_zo_not_finite") == SW_OK ? zo->not_finite : 0;
}

/* ---- before a step ------------------------------------------------------------------ */

static sw_status check_step(const sw_zo *zo, const sw_run_args *args, const char *loss)
{
    static const char call[] = "sw_zo_step";
    bool found = false;
    if (!sw_handle_is(zo->model, SW_HANDLE_MODEL, zo->model_generation))
        SW_FAIL(SW_INVALID, "%s: the trainer's model was destroyed", call);
    SW_TRY(swi_given(loss != NULL, "the name of the loss", call));
    if (args->es != NULL)
        SW_FAIL(SW_INVALID,
                "%s: the noise of a strategy (es) and a zeroth-order step exclude each other",
                call);
    for (int i = 0; i < args->n_models; i++)
        found |= args->models[i] == zo->model;
    if (!found)
        SW_FAIL(SW_INVALID, "%s: model %s must be among the models of the run", call,
                zo->model->name);
    if (zo->room > 0 && zo->steps == zo->room)
        SW_FAIL(SW_INVALID, "%s: the record has room for %llu steps (max_steps), and is full",
                call, (unsigned long long)zo->room);
    if (zo->steps == SWI_ZO_STEPS_MAX)
        SW_FAIL(SW_INVALID, "%s: %llu steps are the most", call,
                (unsigned long long)SWI_ZO_STEPS_MAX);
    return SW_OK;
}

/* Nothing but the moves may change the parameters. */
static sw_status refuse_updates(const swi_trace *t)
{
    for (uint32_t i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].is_update)
            SW_FAIL(SW_INVALID,
                    "sw_zo_step: the step function updates by an optimizer; a zeroth-order "
                    "step does so itself: leave sw_update and sw_accumulate out");
    return SW_OK;
}

/* And the loss must be there. */
static sw_status look_at(void *context, const swi_program *program)
{
    const swi_trace *t = &program->trace;
    const char *loss = context;
    SW_TRY(refuse_updates(t));
    for (uint32_t i = 0; i < t->n_metrics; i++)
        if (strcmp(t->metrics[i].name, loss) == 0)
            return SW_OK;
    SW_FAIL(SW_INVALID, "sw_zo_step: the step function has no metric '%s'", loss);
}

/* All memory of a step, and what the record begins with. Nothing has moved. */
static sw_status prepare(sw_zo *zo, sw_exec *exec, const sw_run_args *args, const char *loss)
{
    SW_TRY(swi_run_prepare(exec, args, look_at, (void *)(uintptr_t)loss, "sw_zo_step"));
    SW_TRY(zo_has_parameters(zo->model, "sw_zo_step"));
    SW_TRY(zo_prepare_move(&zo->rule, zo->model, exec, SWI_MOVE_BY_NOISE));
    SW_TRY(zo_prepare_move(&zo->rule, zo->model, exec, SWI_MOVE_STEP));
    if (zo->room == 0)
        return SW_OK;
    if (zo->steps > 0) {
        if (zo->frozen != zo->model->frozen_hash)
            SW_FAIL(SW_INVALID,
                    "sw_zo_step: other parameters are frozen than in the first step of the "
                    "record");
        return SW_OK;
    }
    SW_TRY(swi_model_take(zo->model));
    zo->frozen = zo->model->frozen_hash;
    const sw_status status = zo_sum_model(zo->model, &zo->before);
    swi_model_give(zo->model);
    return status;
}

/* ---- the step ---------------------------------------------------------------------------- */

static sw_status move(const sw_zo *zo, sw_exec *exec, float a)
{
    const swi_zo_move m = {.move = SWI_MOVE_BY_NOISE, .step = zo->steps, .a = a};
    return zo_run_move(&zo->rule, zo->model, exec, &m);
}

/* The slope along z; 0 where a loss is not finite, or they lie too far apart for a float. */
static float slope_of(sw_zo *zo, double plus, double minus)
{
    const float c = (float)((plus - minus) / (2.0 * (double)zo->rule.eps));
    if (isfinite(plus) && isfinite(minus) && isfinite(c))
        return c;
    zo->not_finite++;
    return 0.0f;
}

/* After the first move: the runs, and the moves back and down. Both losses are asked for at
 * the end, so that a device has the second run while the first goes on. */
static sw_status go_on(sw_zo *zo, sw_exec *exec, const sw_run_args *args, const char *loss,
                       double *out)
{
    double plus, minus;
    swi_zo_move m = {.move = SWI_MOVE_STEP, .step = zo->steps, .a = zo->rule.eps};
    SW_TRY(sw_run(exec, args));
    if (args->immediate) /* that was not seen before */
        SW_TRY(refuse_updates(&exec->immediate_trace));
    SW_TRY(move(zo, exec, -2.0f * zo->rule.eps));
    SW_TRY(sw_run(exec, args));
    SW_TRY(sw_metric_past(exec, 2, loss, &plus));
    SW_TRY(sw_metric_past(exec, 0, loss, &minus));
    SW_TRY(zo_rate(&zo->rule, zo->steps, &m.lr));
    const uint64_t not_finite = zo->not_finite;
    m.c = slope_of(zo, plus, minus);
    const sw_status status = zo_run_move(&zo->rule, zo->model, exec, &m);
    if (status != SW_OK) {
        zo->not_finite = not_finite;
        return status;
    }
    if (zo->room > 0)
        zo->slopes[zo->steps] = m.c;
    zo->steps++;
    if (out != NULL)
        *out = 0.5 * (plus + minus);
    return SW_OK;
}

/* No one knows what is left of the perturbation. */
static sw_status damaged(sw_zo *zo, sw_status status)
{
    zo->model->damaged = true;
    zo->cut = zo->steps > 0;
    SW_FAIL(status, "%s (within a zeroth-order step: model %s must be restored)",
            sw_last_error(), zo->model->name);
}

sw_status sw_zo_step(sw_zo *zo, sw_exec *exec, const sw_run_args *given, const char *loss,
                     double *out)
{
    sw_run_args args;
    SW_TRY(sw_handle_check(zo, SW_HANDLE_ZO, __func__));
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, __func__));
    SW_TRY(swi_read_args(&args, given, true, __func__));
    if (swi_target_of(exec)->shards > 1)
        SW_FAIL(SW_UNSUPPORTED, "%s: an exec with shards or ranks has no steps of zeroth order",
                __func__);
    SW_TRY(check_step(zo, &args, loss));
    SW_TRY(prepare(zo, exec, &args, loss));
    sw_status status = move(zo, exec, zo->rule.eps);
    if (status != SW_OK && !zo->model->damaged)
        return status;
    if (status == SW_OK)
        status = go_on(zo, exec, &args, loss, out);
    return status == SW_OK ? SW_OK : damaged(zo, status);
}

/* Records of zeroth-order training: a head of 256 bytes, one f32 for each step, a sum of all
 * that. Numbers are little-endian.
 *
 *     0 "swzo 2\0\0"    8 kind[8]        16 eps  20 lr  24 weight_decay (f32)  28 rank (u32)
 *    32 window (u32)   36 0             40 seed          48 steps      56 losses not finite
 *    64 sum of the parameters before    72 and after
 *    80 schedule[16]   96 base 100 gamma 104 floor (f32) 108 0
 *   112 warmup_steps  120 total_steps  128 every        136 to 255: 0 */

#define HEAD 256
#define SUM 8
#define NUMBER 4 /* bytes of a slope in the file */
static const char magic[8] = "swzo 2";

/* ---- numbers ----------------------------------------------------------------------------- */

static uint64_t get(const unsigned char *from, int bytes)
{
    uint64_t x = 0;
    for (int i = bytes - 1; i >= 0; i--)
        x = x << 8 | from[i];
    return x;
}

static float get_f32(const unsigned char *from)
{
    const uint32_t bits = (uint32_t)get(from, 4);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- the head ---------------------------------------------------------------------------- */

/* Where its numbers stand, in the file and in a record; of 4 or 8 bytes. */
#define NUMBER_AT(at, member)                                                                  \
    {                                                                                          \
        at, offsetof(swi_zo_record, member), sizeof(((swi_zo_record *)0)->member)              \
    }
static const struct {
    size_t at, in, bytes;
} numbers[] = {NUMBER_AT(16, rule.eps),
               NUMBER_AT(20, rule.lr),
               NUMBER_AT(24, rule.weight_decay),
               NUMBER_AT(28, rule.rank),
               NUMBER_AT(32, rule.window),
               NUMBER_AT(40, rule.seed),
               NUMBER_AT(48, steps),
               NUMBER_AT(56, not_finite),
               NUMBER_AT(64, before),
               NUMBER_AT(72, behind),
               NUMBER_AT(96, rule.schedule.base),
               NUMBER_AT(100, rule.schedule.gamma),
               NUMBER_AT(104, rule.schedule.floor),
               NUMBER_AT(112, rule.schedule.warmup_steps),
               NUMBER_AT(120, rule.schedule.total_steps),
               NUMBER_AT(128, rule.schedule.every)};
enum { SCHEDULE = 80 }; /* its name, and its numbers from there on */

static void write_head(unsigned char *to, const swi_zo_record *r)
{
    memset(to, 0, HEAD);
    memcpy(to, magic, sizeof magic);
    memcpy(to + 8, r->rule.rank > 0 ? "lozo" : "mezo", 4);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uint64_t x = 0;
        memcpy(&x, (const char *)r + numbers[i].in, numbers[i].bytes);
        if (numbers[i].at < SCHEDULE || r->rule.schedule.kind != NULL)
            put(to + numbers[i].at, x, (int)numbers[i].bytes);
    }
    if (r->rule.schedule.kind != NULL)
        memcpy(to + SCHEDULE, r->rule.schedule.kind, strlen(r->rule.schedule.kind));
}

/* Is the head what write_head makes of what was read, so that no byte of it is ignored? Then
 * its numbers must be those of a trainer. */
static sw_status check_head(const swi_zo_record *r, const unsigned char *head, const char *path)
{
    unsigned char again[HEAD];
    write_head(again, r);
    const bool kinds = (r->rule.rank > 0) == (r->rule.window > 0) && r->rule.rank >= 0;
    if (memcmp(again, head, HEAD) != 0 || !kinds || r->not_finite > r->steps)
        SW_FAIL(SW_FORMAT, "%s: its head has options that no record has", path);
    if (zo_check(&r->rule, "an option") == SW_OK)
        return SW_OK;
    SW_FAIL(SW_FORMAT, "%s: its head has options that no record has: %s", path,
            sw_last_error());
}

/* ---- writing ----------------------------------------------------------------------------- */

static sw_status write_all(void *context, sw_file *file)
{
    const swi_zo_record *r = context;
    unsigned char block[4096];
    swi_checksum sum;
    swi_checksum_begin(&sum);
    write_head(block, r);
    swi_checksum_add(&sum, block, HEAD);
    SW_TRY(sw_file_write(file, block, HEAD));
    for (uint64_t i = 0; i < r->steps;) {
        size_t n = 0;
        for (; i < r->steps && n < sizeof block; i++, n += NUMBER) {
            uint32_t bits;
            memcpy(&bits, &r->slopes[i], sizeof bits);
            put(block + n, bits, 4);
        }
        swi_checksum_add(&sum, block, n);
        SW_TRY(sw_file_write(file, block, n));
    }
    put(block, swi_checksum_end(&sum), SUM);
    return sw_file_write(file, block, SUM);
}

static sw_status check_save(const sw_zo *zo)
{
    static const char call[] = "sw_zo_save";
    if (zo->room == 0)
        SW_FAIL(SW_INVALID, "%s: the trainer was made without a record: set max_steps", call);
    if (!sw_handle_is(zo->model, SW_HANDLE_MODEL, zo->model_generation))
        SW_FAIL(SW_INVALID, "%s: the trainer's model was destroyed", call);
    if (zo->cut)
        SW_FAIL(SW_INVALID,
                "%s: a step failed after step %llu, so the model is no longer what these "
                "steps make",
                call, (unsigned long long)zo->steps);
    return SW_OK;
}

static sw_status sum_ready(const sw_model *model, uint64_t *out, const char *call)
{
    if (model->damaged)
        SW_FAIL(SW_STALE, "%s: model %s is damaged: restore it first", call, model->name);
    if (!model->ready)
        SW_FAIL(SW_INVALID, "%s: model %s must be ready", call, model->name);
    return zo_sum_model(model, out);
}

sw_status sw_zo_save(const sw_zo *zo, const char *path)
{
    SW_TRY(sw_handle_check(zo, SW_HANDLE_ZO, "sw_zo_save"));
    SW_TRY(swi_given(path != NULL, "path", "sw_zo_save"));
    SW_TRY(check_save(zo));
    swi_zo_record r =
        SW_INIT(.rule = zo->rule, .steps = zo->steps, .not_finite = zo->not_finite,
                .before = zo->before, .slopes = zo->slopes);
    SW_TRY(swi_model_take(zo->model));
    const sw_status status = sum_ready(zo->model, &r.behind, "sw_zo_save");
    swi_model_give(zo->model);
    SW_TRY(status);
    if (zo->steps == 0)
        r.before = r.behind;
    return sw_file_replace(path, write_all, &r);
}

/* ---- reading ----------------------------------------------------------------------------- */

static sw_status get_bytes(sw_file *file, void *to, size_t bytes)
{
    size_t got;
    SW_TRY(sw_file_read(file, to, bytes, &got));
    if (got < bytes)
        SW_FAIL(SW_FORMAT, "%s: it became shorter while it was read", sw_file_path(file));
    return SW_OK;
}

static sw_status read_slopes(swi_zo_record *r, const unsigned char *from, const char *path)
{
    for (uint64_t i = 0; i < r->steps; i++) {
        const float c = get_f32(from + i * NUMBER);
        if (!isfinite(c))
            SW_FAIL(SW_FORMAT, "%s: the number of step %llu is not finite", path,
                    (unsigned long long)i);
        r->slopes[i] = c; /* of the bytes there, or of bytes in front */
    }
    return SW_OK;
}

/* Head, numbers and sum of an open file. */
static sw_status read_all(swi_zo_record *r, sw_file *file)
{
    unsigned char head[HEAD], end[SUM];
    const char *path = sw_file_path(file);
    swi_checksum sum;
    SW_TRY(get_bytes(file, head, HEAD));
    SW_TRY(get_bytes(file, r->slopes, (size_t)r->steps * NUMBER));
    SW_TRY(get_bytes(file, end, SUM));
    swi_checksum_begin(&sum);
    swi_checksum_add(&sum, head, HEAD);
    swi_checksum_add(&sum, r->slopes, (size_t)r->steps * NUMBER);
    if (get(end, SUM) != swi_checksum_end(&sum))
        SW_FAIL(SW_FORMAT, "%s: it is damaged: the sum over it is %016llx, must be %016llx",
                path, (unsigned long long)swi_checksum_end(&sum),
                (unsigned long long)get(end, SUM));
    SW_TRY(check_head(r, head, path));
    return read_slopes(r, (const unsigned char *)r->slopes, path);
}

static void zo_record_free(swi_zo_record *r)
{
    sw_heap_free(r->slopes, SW_HEAP_RECORDS, (size_t)r->steps * NUMBER);
    r->slopes = NULL;
}

/* SW_FORMAT names the file and what is wrong with it. The record is to be freed on success. */
static sw_status read_open(swi_zo_record *r, sw_file *file)
{
    uint64_t bytes;
    if (sw_file_waits(file))
        SW_FAIL(SW_INVALID, "%s: a record must be a regular file", sw_file_path(file));
    SW_TRY(sw_file_size(file, &bytes));
    /* The steps, by the size: before memory is taken for them. */
    unsigned char head[HEAD];
    const char *path = sw_file_path(file);
    if (bytes < HEAD + SUM)
        SW_FAIL(SW_FORMAT, "%s: it has %llu bytes, and a record has at least %d", path,
                (unsigned long long)bytes, HEAD + SUM);
    SW_TRY(get_bytes(file, head, sizeof head));
    if (memcmp(head, magic, sizeof magic) != 0)
        SW_FAIL(SW_FORMAT, "%s: it is no record of zeroth-order training%s", path,
                memcmp(head, magic, 5) == 0 ? " by this version of the library" : "");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const uint64_t x = get(head + numbers[i].at, (int)numbers[i].bytes);
        memcpy((char *)r + numbers[i].in, &x, numbers[i].bytes);
    }
    r->rule.schedule.size = sizeof r->rule.schedule;
    for (size_t i = 0; sw_schedule_kind(i) != NULL; i++)
        if (strncmp((const char *)head + SCHEDULE, sw_schedule_kind(i), 16) == 0)
            r->rule.schedule.kind = sw_schedule_kind(i);
    if (r->steps > SWI_ZO_STEPS_MAX || bytes != HEAD + SUM + r->steps * NUMBER)
        SW_FAIL(SW_FORMAT, "%s: it has %llu bytes, and should have %llu for %llu steps", path,
                (unsigned long long)bytes, (unsigned long long)(HEAD + SUM + r->steps * NUMBER),
                (unsigned long long)r->steps);
    SW_TRY(sw_file_seek(file, 0));
    SW_TRY(sw_heap_alloc(&r->slopes, SW_HEAP_RECORDS, (size_t)r->steps * NUMBER));
    const sw_status status = read_all(r, file);
    if (status != SW_OK)
        zo_record_free(r);
    return status;
}

/* A record's steps again, without data: each is one pass over the parameters, which makes the
 * three moves of the recorded step one after the other with one z. */

/* The sum of a model that no one uses meanwhile. */
static sw_status sum_of(sw_model *model, uint64_t *out)
{
    SW_TRY(swi_model_take(model));
    const sw_status status = zo_sum_model(model, out);
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
        SW_TRY(zo_has_parameters(model, "sw_zo_replay"));
    for (uint64_t i = 0; i < r->steps; i++) {
        swi_zo_move m = {.move = SWI_MOVE_ALL, .step = i, .a = r->rule.eps, .c = r->slopes[i]};
        SW_TRY(zo_rate(&r->rule, i, &m.lr));
        SW_TRY(zo_run_move(&r->rule, model, exec, &m));
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
    swi_zo_record r;
    sw_file *file;
    SW_TRY(sw_handle_check(model, SW_HANDLE_MODEL, __func__));
    /* Nor go on from the middle of another. */
    SW_TRY(sw_call_may_end(model, "model", __func__));
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, __func__));
    SW_TRY(swi_given(path != NULL, "path", __func__));
    memset(&r, 0, sizeof r);
    SW_TRY(sw_file_open(&file, path, SW_FILE_READ));
    sw_status status = read_open(&r, file);
    sw_file_drop(file);
    SW_TRY(status);
    status = check_start(model, &r, path);
    if (status == SW_OK)
        status = make_steps(model, exec, &r, progress, user);
    if (status == SW_OK)
        status = check_end(model, &r, path);
    zo_record_free(&r);
    return status;
}
