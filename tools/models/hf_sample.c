#include "tools/models/hf_sample.h"
#include "alloc/base/mem.h"

/* ---- programs ---------------------------------------------------------------------------- */

/* The scores of a piece are never asked for: its last id is a row of its own. */
static void step(sw_ctx *ctx, void *user)
{
    const hf_sampler *s = user;
    const sw_value ids = sw_input(ctx, 0), none = {0, 0};
    const sw_value x = hf_net_features(ctx, s->net.own, ids, sw_input(ctx, 1), none, s->cache);
    if (sw_dim(ctx, ids, 1) == 1)
        sw_output(ctx, "scores", hf_net_logits(ctx, s->net.own, x));
}

sw_run_args hf_sampler_args(hf_sampler *s, hf_program which, int64_t from, sw_array inputs[2])
{
    const sw_shape shape = SW_SHAPE(1, which == HF_PROGRAM_PIECE ? s->piece : 1);
    inputs[0] = (sw_array){SW_I32, shape, s->ids + from};
    inputs[1] = (sw_array){SW_I32, shape, s->places + from};
    return SW_OPTS(sw_run_args, .fn = step, .user = s, .models = s->models, .n_models = 3,
                   .inputs = inputs, .n_inputs = 2, .mode = SW_EVAL);
}

sw_status hf_sampler_plan(hf_sampler *s, sw_plan_info plans[HF_PROGRAMS])
{
    for (int i = 0; i < HF_PROGRAMS; i++) {
        sw_array inputs[2];
        const sw_run_args args = hf_sampler_args(s, (hf_program)i, 0, inputs);
        plans[i] = SW_OPTS(sw_plan_info);
        SW_TRY(sw_plan(s->exec, &args, &plans[i]));
    }
    return SW_OK;
}

/* ---- before and after -------------------------------------------------------------------- */

static sw_status declare(hf_sampler *s, const tool_settings *settings)
{
    const sw_array row = {SW_I32, SW_SHAPE(settings->context), NULL};
    tool_net_opts opts = {
        .model = &tool_hf,
        .settings = *settings,
        .frozen = 1,
        .data = SW_INIT(.size = sizeof opts.data, .n_fields = 4, .name = "a text",
                        .n_classes = settings->vocabulary, .field = {row, row, row, row}),
    };
    const size_t room = (size_t)settings->context * sizeof *s->ids;
    SW_TRY(tool_net_create(&s->net, &opts));
    const hf_config *config = &((const hf_net *)s->net.own)->config;
    SW_TRY(
        sw_heap_alloc(&s->cache, SW_HEAP_RECORDS, (size_t)config->layers * sizeof *s->cache));
    SW_TRY(sw_heap_alloc(&s->ids, SW_HEAP_RECORDS, room));
    SW_TRY(sw_heap_alloc(&s->places, SW_HEAP_RECORDS, room));
    for (int64_t i = 0; i < s->context; i++) {
        s->ids[i] = 0;
        s->places[i] = (int32_t)i;
    }
    SW_TRY(sw_model_create(&s->models[2], "cache"));
    s->models[0] = s->net.models[0];
    s->models[1] = s->net.models[1];
    hf_net_cache(s->cache, config, s->models[2], s->context);
    return SW_OK;
}

sw_status hf_sampler_create(hf_sampler *s, sw_exec *exec, const tool_settings *settings)
{
    *s = (hf_sampler){.exec = exec, .context = settings->context};
    s->piece = s->context < HF_PIECE ? s->context : HF_PIECE;
    const sw_status status = declare(s, settings);
    if (status != SW_OK)
        hf_sampler_destroy(s);
    return status;
}

void hf_sampler_destroy(hf_sampler *s)
{
    const size_t room = (size_t)s->context * sizeof *s->ids;
    sw_model_destroy(s->models[2]);
    if (s->cache != NULL)
        sw_heap_free(s->cache, SW_HEAP_RECORDS,
                     (size_t)((const hf_net *)s->net.own)->config.layers * sizeof *s->cache);
    sw_heap_free(s->ids, SW_HEAP_RECORDS, room);
    sw_heap_free(s->places, SW_HEAP_RECORDS, room);
    tool_net_destroy(&s->net);
    *s = (hf_sampler){.exec = NULL};
}

sw_status hf_sampler_ready(hf_sampler *s)
{
    SW_TRY(sw_model_ready(s->models[2], s->exec, 0));
    SW_TRY(sw_model_ready(s->net.model, s->exec, 0));
    return tool_hf.load(&s->net, s->exec);
}

/* ---- ids --------------------------------------------------------------------------------- */

void hf_sampler_add(hf_sampler *s, int32_t id)
{
    s->ids[s->n++] = id;
}

/* All but the last id go in by pieces. One that is not full has rows of no meaning at its end:
 * each is written again, by its id, before a row sees it. The last piece of the context begins
 * among ids that are there already, and makes them again. */
sw_status hf_sampler_next(hf_sampler *s, bool (*stop)(void), const float **scores)
{
    sw_array inputs[2], made;
    *scores = NULL;
    while (s->done < s->n - 1) {
        const int64_t last = s->context - s->piece, from = s->done < last ? s->done : last;
        const sw_run_args args = hf_sampler_args(s, HF_PROGRAM_PIECE, from, inputs);
        if (stop != NULL && stop())
            return SW_OK;
        SW_TRY(sw_run(s->exec, &args));
        s->done = from + s->piece < s->n - 1 ? from + s->piece : s->n - 1;
    }
    const sw_run_args args = hf_sampler_args(s, HF_PROGRAM_TOKEN, s->n - 1, inputs);
    SW_TRY(sw_run(s->exec, &args));
    SW_TRY(sw_output_get(s->exec, "scores", &made));
    s->done = s->n;
    *scores = made.data;
    return SW_OK;
}
