/* What the frames of a snapshot say of an allocation. */
#ifndef STEPWELL_SNAPSHOT_FRAMES_H
#define STEPWELL_SNAPSHOT_FRAMES_H

#include "profiler/inspect/timeline.h"
#include "profiler/inspect/value_tree.h"

typedef struct {
    const char *name, *op, *layer; /* the timeline's; "" where the frames do not say */
    int phase;                     /* -1: they do not say */
} snapshot_frames;

/* Frames go from the inside out, as PyTorch writes them: dictionaries of filename, line, name.
 *
 * Those of our own export are what they are named. Of others: the op is the outermost PyTorch
 * operator in front of the first Python frame, "aten::addmm", else that frame; the layer is
 * made of the nn.Modules where PyTorch's profiler noted them, "Net_0/Linear_2", else of the
 * innermost four functions outside of PyTorch and Python, "train.py:40 step/net.py:12 forward";
 * the phase is step inside of torch/optim, backward inside of autograd, data inside of
 * torch/utils/data, else forward. */
SW_MUST_USE sw_status snapshot_frames_read(sw_timeline *t, value frames, snapshot_frames *out);

#endif
