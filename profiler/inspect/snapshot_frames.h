/* Facts about an allocation, from the frames of a snapshot. */
#ifndef STEPWELL_SNAPSHOT_FRAMES_H
#define STEPWELL_SNAPSHOT_FRAMES_H

#include "profiler/inspect/timeline.h"
#include "profiler/inspect/value_tree.h"

/* Facts that frames show besides names. */
enum {
    FRAMES_ENGINE = 1,     /* autograd's thread */
    FRAMES_ACCUMULATE = 2, /* a gradient goes to its parameter */
    FRAMES_ZERO_GRAD = 4,  /* zero_grad */
    FRAMES_MOVE = 8,       /* Module.to and what is like it; copies of a model */
    FRAMES_INIT = 16,      /* the making of a module */
    FRAMES_WORKSPACE = 32, /* of cuBLAS and cuDNN */
    FRAMES_TRANSFER = 64,  /* Tensor.to, Tensor.cuda, scattering of a batch */
    FRAMES_MODULE = 128,   /* inside of a module's call */
    FRAMES_NATIVE = 256,   /* C++ is in them */
    FRAMES_FOREACH = 512,  /* all tensors at once */
};

typedef struct {
    const char *name, *op, *layer; /* the timeline's; "" where the frames do not say */
    int phase;                     /* -1: they do not say */
    uint32_t facts;
} snapshot_frames;

/* Frames go from the inside out, as PyTorch writes them: dictionaries of filename, line, name.
 *
 * Those of our own export are what they are named. Of others: the op is the outermost PyTorch
 * operator before the first Python frame, "aten::addmm", else that frame; the layer is
 * made of the nn.Modules where PyTorch's profiler noted them, "Net_0/Linear_2", else of the
 * innermost four functions of the user's, "train.py:40 step/net.py:12 forward". Functions of
 * libraries count where they are a module's forward, or where there are no others. The phase is
 * step inside of torch/optim, backward inside of autograd, data inside of torch/utils/data,
 * loss inside of a function or file with loss, criterion or cross_entropy in its name that
 * calls no module, else forward. */
SW_MUST_USE sw_status snapshot_frames_read(sw_timeline *t, value frames, snapshot_frames *out);

#endif
