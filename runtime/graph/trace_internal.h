/* Between the files that write traces: room in the arrays. */
#ifndef SW_TRACE_INTERNAL_H
#define SW_TRACE_INTERNAL_H

#include "runtime/graph/trace.h"

/* Room for one more node; n more operands; n more bytes of attributes. */
sw_status swi_reserve_nodes(swi_trace *t);
sw_status swi_reserve_operands(swi_trace *t, uint32_t n);
sw_status swi_reserve_attrs(swi_trace *t, uint32_t n);
/* Strides of a value: SW_MAX_RANK of them, 0 past the rank. */
sw_status swi_set_strides(swi_trace *t, uint32_t value, const int64_t *stride);
/* Row-major strides of all SW_MAX_RANK axes; 0 past the rank. */
void swi_contiguous_strides(const sw_type *type, int64_t *stride);

/* The phase of an op over these inputs. */
sw_phase swi_phase_of(const sw_ctx *ctx, const sw_op_desc *desc, const uint32_t *in, int n_in);

/* Bring inputs into the layout that the op takes, and plain for all others. */
sw_status swi_lay_out_inputs(sw_ctx *ctx, const sw_op_desc *desc, uint32_t *in, int n_in,
                             const void *attrs);

/* In a run with noise on parameters: what takes the place of this op; *done false: nothing. */
sw_status swi_noise_apply(sw_ctx *ctx, uint32_t op, const uint32_t *in, int n_in,
                          const void *attrs, uint32_t *outs, bool *done);

#endif
