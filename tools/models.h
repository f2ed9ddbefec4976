/* The models that `stepwell` trains by name, on top of the public header: parameters, one step
 * function, an optimizer. */
#ifndef STEPWELL_MODELS_H
#define STEPWELL_MODELS_H

#include "runtime/stepwell.h"

#define TOOL_MAX_HIDDEN 64
#define TOOL_LENET5_SIDE 28 /* pixels of its images */

typedef struct tool_net tool_net;
typedef sw_value tool_forward(sw_ctx *ctx, const tool_net *net, sw_value x);

/* An open struct of handles; the sw_model owns what is behind them. It may not move while
 * programs are traced from it: its address is the step function's `user`. */
struct tool_net {
    sw_model *model;
    sw_optimizer *optimizer;
    tool_forward *forward;
    sw_conv2d conv[2];
    sw_linear fc[TOOL_MAX_HIDDEN + 1];
    int n_fc;
    sw_knob clip;       /* the largest global norm */
    int clipped;        /* 1: use it */
    float scale, shift; /* byte pixels become x * scale + shift */
};

typedef struct {
    const char *kind; /* "mlp", "lenet5" */
    sw_shape image;   /* of one sample */
    int64_t n_classes;
    const int64_t *hidden; /* widths of the mlp's hidden layers; borrowed for the call */
    int n_hidden;
    sw_optimizer_opts optimizer;
    float clip; /* 0: no clipping */
} tool_net_opts;

/* Declare model and optimizer; no tensor memory is taken. SW_INVALID where the model cannot
 * read such images. On failure nothing is left behind. */
SW_MUST_USE sw_status tool_net_create(tool_net *net, const tool_net_opts *opts);
void tool_net_destroy(tool_net *net);

/* Inputs: byte images and byte labels. Metrics "loss" and "accuracy". Updates in training mode.
 */
void tool_net_step(sw_ctx *ctx, void *net);

#endif
