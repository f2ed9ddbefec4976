/* Between the files that give a net other widths.
 *
 * A net is the forward part of a trace: nodes in order, and values by a number of their own, so
 * that the nets of two widths have the same numbers. An axis is value * SW_MAX_RANK + d. First
 * axes that belong together are joined; then, in classes of axes of which one has another
 * length, positions. A class of positions is a unit. Units that lie in the same tensors in the
 * same way are a group, and are numbered as they come. */
#pragma once

#include "kernels/state8.h"
#include "runtime/exec/run_internal.h"

enum { SWI_FROM, SWI_TO };
#define SWI_OF_NO_TENSOR (SWI_NONE - 1) /* a class that no tensor has */

typedef enum { SWI_MADE, SWI_GIVEN, SWI_OF_MODEL, SWI_OF_BACKWARD } swi_origin;

typedef struct {
    sw_shape shape;
    swi_origin source;     /* SWI_MADE by a node of the net */
    uint32_t model, entry; /* of a model: the whole of that entry, by its number in `from`.
                              Given: the input's number */
} swi_net_value;

typedef struct {
    uint32_t op, n_in, n_out; /* outputs that users see and extras */
    uint32_t first;           /* operands: numbers of values */
    uint32_t attrs;
} swi_net_node;

typedef struct {
    swi_net_value *values;
    swi_net_node *nodes;
    uint32_t *operands, *outputs; /* outputs: values that leave the run */
    unsigned char *attrs;
    uint32_t n_values, n_nodes, n_operands, n_outputs, n_attrs;
    uint32_t cap_values, cap_nodes, cap_operands, cap_outputs, cap_attrs;
    size_t arena_bytes;
} swi_net;

/* Trace and plan; *net is empty before and for the caller to free, also on failure. The exec is
 * entered. */
sw_status swi_net_make(swi_net *net, sw_exec *exec, const sw_run_args *args);
void swi_net_free(swi_net *net);
/* SW_INVALID names the first difference that is more than a length. */
sw_status swi_nets_compare(const swi_net *from, const swi_net *to);

typedef struct {
    uint32_t n[2];     /* units of each side */
    uint32_t *unit[2]; /* class of each, in order */
    uint32_t cap[2];
    uint64_t like; /* where they lie */
} swi_group;

/* An axis of a tensor of the model that is resized. */
typedef struct {
    uint32_t entry, axis; /* of the entry; the axis's id */
    int dim;
    bool read;    /* ops sum over it: by it units are read */
    int64_t *map; /* for each position in `to` that in `from`; -1: new */
    size_t n_map;
} swi_sized;

/* An axis with positions that stay where they are: of an input, an output, a loss. */
typedef struct {
    uint32_t axis;
    const char *what, *who; /* as for swi_axis_refuse */
} swi_fixed;

typedef struct {
    const swi_net *net[2];
    const sw_model *model[2];
    uint32_t which; /* the model's place in the arguments */
    uint32_t
        *twin; /* by entry of `to`: that of `from`; SWI_NONE: scales of a state in 8 bits */
    bool approximate, exact;
    uint32_t *parent, n_axes;     /* of axes */
    unsigned char *resized;       /* by the root of a class of axes */
    unsigned char *read;          /* by axis */
    uint32_t *at[2];              /* of axes: their first position; SWI_NONE: not resized */
    uint32_t *joined[2], n_at[2]; /* parents of positions; later their classes */
    uint32_t n_classes[2];
    swi_sized *sized;
    uint32_t n_sized, cap_sized;
    swi_group *groups;
    uint32_t n_groups, cap_groups;
    swi_fixed *fixed;
    uint32_t n_fixed, cap_fixed;
    uint32_t *comes_from; /* by class of `to`: class of `from`; SWI_NONE: new */
} swi_axes;

/* Is there such an axis, in a class with new lengths? Is it one of a tensor of the model? */
int64_t swi_axis_length(const swi_axes *axes, int side, uint32_t axis);
void swi_axis_join(swi_axes *axes, uint32_t a, uint32_t b);
void swi_position_join(swi_axes *axes, int side, uint32_t a, uint32_t b);
/* SW_INVALID or so, by the name of a tensor of the axis's class: "axis 0 of 'f1.weight' ..." */
sw_status swi_axis_refuse(const swi_axes *axes, uint32_t axis, sw_status status,
                          const char *what, const char *who);

/* The axis is in a class that is resized: swi_axes_match refuses where its own positions do not
 * stay. */
sw_status swi_axis_fix(swi_axes *axes, uint32_t axis, const char *what, const char *who);

/* Tie what the ops tie: axes, or positions, of one side. The latter also refuses axes that
 * cannot be resized. */
sw_status swi_axes_tie(swi_axes *axes, int side, bool positions);

/* Choose who stays, and set `map` of each sized axis. bytes: of `from`; NULL: the first ones
 * stay. */
sw_status swi_axes_match(swi_axes *axes, const unsigned char *bytes,
                         const sw_resize_opts *opts);

/* The two sides of a change, matched. Nets and axes are for swi_resize_end to free, also on
 * failure. */
typedef struct {
    swi_net net[2];
    swi_axes axes;
} swi_resize;

/* The k-th tensor that an optimizer keeps for a parameter of `model`, and its scales: from a
 * state of another model. One of both is in 8 bits, or both are. */
void swi_state8_take(const sw_model *model, const swi_entry *param, int k, unsigned char *bytes,
                     const swi_entry *from, const unsigned char *was, sw_state8_origin *origin,
                     const void *context);
