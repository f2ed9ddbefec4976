/* A snapshot of PyTorch as a timeline, and what its frames say. */
#pragma once

#include "profiler/inspect/timeline.h"
#include "profiler/inspect/values.h"

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

/* PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot, or their JSON) as timelines.
 *
 * One device becomes one program: that whose segments take the most memory. Its positions are
 * "before the trace" and then each alloc and each completed free; what was alive before
 *  the trace - freed in it without an alloc, or a block at its end that no event made - is
 * born at the first. Bytes are as they were requested, as the viewer draws them; the peak of
 * what the segments had reserved is the arena. Frames tell op and layer: the op is the PyTorch
 * operator or the innermost frame, the layer the user's functions outside of PyTorch's files.
 * Phases and roles are those of replan/trace.h, of our own export as it says them. */

/* Fill a new timeline that has its path. SW_FORMAT names the byte or the event. */
SW_MUST_USE sw_status snapshot_read(sw_timeline *t);

/* The file of a PyTorch memory snapshot as a tree: a pickle, or its JSON. Nothing in it is
 * executed. */

#define SNAPSHOT_LARGEST_BYTES ((int64_t)1 << 40) /* of one event, block or segment */
/* A profile has one segment, from the lowest address of the process to the highest. */
#define SNAPSHOT_LARGEST(f) ((f)->device ? SNAPSHOT_LARGEST_BYTES : SNAPSHOT_LAST_ADDRESS)
#define SNAPSHOT_DEVICES 1024
#define SNAPSHOT_MOST ((uint32_t)1 << 28) /* events, and blocks */
#define SNAPSHOT_LAST_ADDRESS (INT64_MAX / 4)

typedef struct {
    const char *path;
    uint64_t bytes; /* of the file */
    value segments; /* a list */
    value traces;   /* a list of lists, or absent */
    value settings; /* a dictionary, or absent */
    bool device;    /* of a device's allocator; else of PyTorch's profiler */
    bool own;       /* our own export, which has a plan already */
    value_tree *tree;
} snapshot_file;

/* Whether the file at `path` begins like a snapshot: a pickle, or JSON with its first keys. */
SW_MUST_USE sw_status snapshot_is(const char *path, bool *out);
/* SW_FORMAT names the byte, or what is missing. `path` is borrowed. Close it too after a
 * failure. */
SW_MUST_USE sw_status snapshot_file_open(snapshot_file *f, const char *path);
void snapshot_file_close(snapshot_file *f);

/* The value at `key`, which must be a number from 0 to `most`: SW_FORMAT names it, "event
 * 12". */
SW_MUST_USE sw_status snapshot_number(const char *path, value of, const char *where,
                                      uint64_t index, const char *key, int64_t most,
                                      int64_t *out);
/* Ranges of addresses of another process: what lay in one range keeps its distances, and what
 * lay between ranges takes no room. */
typedef struct {
    uint64_t from, to, offset; /* offset: where it begins here */
} address_range;

typedef struct {
    address_range *ranges;
    uint32_t n, cap;
} address_space;

/* Ranges may overlap and come in any order; from + bytes must not overflow. */
SW_MUST_USE sw_status address_space_add(address_space *s, uint64_t from, uint64_t bytes);
/* When all were added. */
void address_space_close_up(address_space *s);
/* Where an address of an added range is; after all others where it is of none. */
uint64_t address_space_offset(const address_space *s, uint64_t address);
void address_space_free(address_space *s);
