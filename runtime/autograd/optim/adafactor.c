/* Adafactor: Shazeer and Stern 2018, without a first moment. The second moment of a matrix is
 * kept as that of its rows and of its columns. */
#include "runtime/autograd/optim/optimizer_internal.h"

static float or_default(float given, float otherwise, const sw_optimizer_opts *opts)
{
    return given != 0.0f || opts->as_given ? given : otherwise;
}

static void set_attrs(const sw_optimizer_opts *opts, swi_update_attrs *attrs)
{
    attrs->beta1 = or_default(opts->beta2_decay, 0.8f, opts); /* as its tick has it */
    attrs->least = or_default(opts->least_scale, 1e-3f, opts);
    attrs->threshold = opts->clip_threshold != 0.0f ? opts->clip_threshold : 1.0f;
    attrs->fixed = opts->fixed_rate != 0;
}

static int states(const sw_optimizer_opts *opts, const sw_shape *shape, swi_state *out)
{
    (void)opts;
    out[0].suffix = "v";
    if (shape->rank < 2)
        return 1;
    out[0].suffix = "rows";
    out[1].suffix = "cols";
    for (int k = 0; k < 2; k++)
        out[k].shape.rank = shape->rank - 1;
    out[1].shape.dim[shape->rank - 2] = shape->dim[shape->rank - 1];
    return 2;
}

const swi_optimizer_kind swi_adafactor = {.name = "adafactor",
                                          .op = SW_OP_adafactor_update,
                                          .tick = SW_OP_steps_tick,
                                          .has = SWI_HAS_EPSILON | SWI_HAS_SCALES,
                                          .lr = 0.01f,
                                          .epsilon = 0x1p-23f,
                                          .set_attrs = set_attrs,
                                          .states = states};
