/* Weights updated tile by tile: the pass. */
#ifndef SW_TILE_UPDATE_H
#define SW_TILE_UPDATE_H

#include "runtime/ops/tile.h"
#include "runtime/plan/program_internal.h"

/* The pass, after the release pass: where a gradient is read by nothing but an update that
 * goes element by element, and the kernel can make it in rows, one node takes the place of
 * both, and no more than a tile of the gradient exists. The same bits: a row does not depend on
 * others. Small gradients stay whole. */
SW_MUST_USE sw_status swi_pass_tiles(swi_trace *t, swi_order *order, const sw_exec *exec);

#endif
