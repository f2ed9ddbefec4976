/* Names of models and their tensors in what people read of a run: reports, profiles, plans,
 * errors. In a run of one model they have their own names; of several, their model's name comes
 * first, so that two "fc1.weight" can be distinguished. */
#ifndef SW_MODEL_LABEL_H
#define SW_MODEL_LABEL_H

#include "runtime/model/model.h"

#define SWI_LABEL_BYTES 80                      /* of a label, with its end */
#define SWI_SHOWN_BYTES (SWI_LABEL_BYTES + 112) /* of a tensor's name after it */

/* "" where `args` is NULL or has one model; else "teacher/", and "net#1/", "net#2/" of models
 * that share a name. Dots nest, as in scopes. */
const char *swi_model_label(const sw_run_args *args, const sw_model *model,
                            char to[SWI_LABEL_BYTES]);
/* The name of a tensor of a model: "fc1.weight", "teacher/fc1.weight". */
const char *swi_entry_shown(const sw_run_args *args, const sw_model *model, const char *name,
                            char to[SWI_SHOWN_BYTES]);
/* The layer that it belongs to: "conv1.weight" and "conv1.weight.momentum" to "conv1";
 * "block1.up.bias" to "block1/up", or "teacher/block1/up". */
const char *swi_entry_layer(const sw_run_args *args, const sw_model *model, const char *name,
                            char to[SWI_SHOWN_BYTES]);

/* The path of scopes that a name is: "block1.up" is in "block1/up". In place. */
void swi_path_of(char *name);

#endif
