/* Shared by the files of layers: declarations, and the scope that a layer's ops lie in. */
#ifndef SW_LAYER_H
#define SW_LAYER_H

#include "runtime/ops/ops.h"

/* Uniform in +-1/sqrt(fan_in), for weight and bias alike. */
void swi_layer_init(char *to, size_t bytes, int64_t fan_in);
/* A parameter "name.part" of a layer; of a name that is NULL an error of the declarations. */
sw_param swi_layer_param(sw_model *model, const char *name, const char *part, sw_shape shape,
                         const char *init);

/* May a layer of this type be applied? Then its scope has begun, which swi_layer_end() ends.
 * `named`: the parameter or buffer of this name. */
bool swi_layer_begin(sw_ctx *ctx, const char *type, const uint64_t *reserved, size_t n,
                     sw_param named);
sw_value swi_layer_end(sw_ctx *ctx, sw_value y);
#define SWI_LAYER_BEGIN(ctx, type, layer, named)                                               \
    swi_layer_begin(ctx, #type, (layer).reserved, SWI_COUNT((layer).reserved), (layer).named)

/* {0}: the layer has none. */
sw_value swi_layer_use(sw_ctx *ctx, sw_param param);

#endif
