/* gpt: a decoder-only transformer over the bytes of a text, or ids of tokens. */
#include "alloc/base/mem.h"
#include "tools/models/models.h"

gpt_shape tool_gpt_shape(const tool_settings *s, int64_t classes)
{
    return (gpt_shape)SW_INIT(.layers = s->layers, .width = s->width, .heads = s->heads,
                              .context = s->context,
                              .vocabulary = s->vocabulary > 0 ? s->vocabulary : classes,
                              .dropout = (float)s->dropout);
}

static sw_status accepts(const tool_net_opts *o)
{
    const sw_array *ids = &o->data.field[0];
    const gpt_shape shape = tool_gpt_shape(&o->settings, o->data.n_classes);
    SW_TRY(gpt_shape_check(&shape));
    if (ids->shape.rank != 1 || ids->shape.dim[0] != shape.context)
        SW_FAIL(SW_INVALID, "gpt: %s has no sequences of %lld ids", o->data.name,
                (long long)shape.context);
    if (shape.vocabulary < o->data.n_classes)
        SW_FAIL(SW_INVALID, "gpt: a vocabulary of %lld is less than the %lld ids of %s",
                (long long)shape.vocabulary, (long long)o->data.n_classes, o->data.name);
    return SW_OK;
}

static sw_status declare(tool_net *net, const tool_net_opts *o)
{
    const gpt_shape shape = tool_gpt_shape(&o->settings, o->data.n_classes);
    SW_TRY(tool_net_own(net, gpt_net_bytes(shape.layers)));
    gpt_net_declare(net->own, net->model, &shape);
    return SW_OK;
}

static sw_value loss(sw_ctx *ctx, const tool_net *net)
{
    const sw_value ids = sw_input(ctx, 0), labels = sw_input(ctx, 1);
    return net->task == TOOL_DOCUMENTS
               ? gpt_net_documents_loss(ctx, net->own, ids, labels, sw_input(ctx, 2),
                                        sw_input(ctx, 3))
               : gpt_net_loss(ctx, net->own, ids, labels);
}

const tool_model tool_gpt = {
    .name = "gpt",
    .about = "transformer over text:FILE, tokens:FILE or ids:FILE",
    .learns = TOOL_PREDICT | TOOL_DOCUMENTS,
    .optimizer = "adamw",
    .lr = 0.002f,
    .takes = {[TOOL_LAYERS] = "4",
              [TOOL_WIDTH] = "128",
              [TOOL_HEADS] = "4",
              [TOOL_CONTEXT] = "128",
              [TOOL_VOCABULARY] = "",
              [TOOL_DROPOUT] = "0"},
    .accepts = accepts,
    .declare = declare,
    .loss = loss,
};
