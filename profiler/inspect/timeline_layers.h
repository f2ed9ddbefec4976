/* Layers of models among the scopes that they are called in. */
#ifndef STEPWELL_TIMELINE_LAYERS_H
#define STEPWELL_TIMELINE_LAYERS_H

#include "profiler/inspect/timeline.h"

/* A model may name its layers without the scopes that they are called in: what it holds for
 * "up", and the update of it, move to "block/up", where that is the only scope of the name and
 * no op of the forward pass runs in an "up" without a scope. For a program whose ops and values
 * are there. */
SW_MUST_USE sw_status timeline_assign_layers(sw_timeline *t, sw_tl_program *program);

#endif
