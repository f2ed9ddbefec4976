/* The models that `stepwell` trains by name, on top of the public header. Each has a file here
 * and one line in the table of settings.c; `train`, `plan` and `bench` ask the table and know
 * none of them. */
#pragma once

#include "tools/cli/cli.h"
#include "tools/models/gpt_net.h"

#define TOOL_LENET5_SIDE 28 /* pixels of its images */

/* One line each in the table of settings.c: the option's name, kind, bounds and help. */
typedef enum {
    TOOL_HIDDEN,
    TOOL_POOL,
    TOOL_LAYERS,
    TOOL_WIDTH,
    TOOL_HEADS,
    TOOL_CONTEXT,
    TOOL_VOCABULARY,
    TOOL_WIDTH_FACTOR,
    TOOL_DEPTH_FACTOR,
    TOOL_IMAGE_SIZE,
    TOOL_CLASSES,
    TOOL_DROPOUT,
    TOOL_ACTIVATION,
    TOOL_STEM_STRIDE,
    TOOL_BN_MOMENTUM,
    TOOL_LORA,
    TOOL_LORA_ALPHA,
    TOOL_WEIGHTS,
    TOOL_ADAPTER,
    TOOL_SETTINGS
} tool_setting;

/* Counts are 0, reals negative and words NULL where nothing was given and the model's default
 * is to come from the data. */
typedef struct {
    cli_list hidden;
    int64_t layers, width, heads, context, vocabulary, image_size, classes, stem_stride, pool;
    int64_t lora;
    double width_factor, depth_factor, dropout, bn_momentum, lora_alpha;
    const char *activation, *weights, *adapter;
    const char *folder; /* no option: of a model that is one */
    bool planned;       /* no option: its weights are not read, and need not be there */
} tool_settings;
#define TOOL_SETTINGS_NONE                                                                     \
    ((tool_settings){.width_factor = -1.0,                                                     \
                     .depth_factor = -1.0,                                                     \
                     .dropout = -1.0,                                                          \
                     .bn_momentum = -1.0,                                                      \
                     .lora_alpha = -1.0})

/* ---- the table --------------------------------------------------------------------------- */

/* The tasks of data sets; see tool_task_of(). A model says which it can. */
typedef enum {
    TOOL_CLASSIFY = 1, /* field 1 is a class: an integer for each sample */
    TOOL_REGRESS = 2,  /* field 1 is F32: numbers for each sample */
    TOOL_PREDICT = 4,  /* fields 0 and 1 are ids of one shape: each id and the one after it */
    TOOL_DOCUMENTS = 8 /* the same of documents in rows, with labels that do not count (-100);
                          fields 2 and 3: positions, and where a document begins */
} tool_task;

/* The data of `--data synthetic` for a model. */
typedef enum {
    TOOL_DIGITS,  /* images drawn by this program, with their classes */
    TOOL_VECTORS, /* random features, and targets of the same shape: `width` of them */
    TOOL_TOKENS   /* documents of random ids below `vocabulary`, `context` in a row */
} tool_synthetic;

typedef struct tool_net tool_net;
typedef struct tool_net_opts tool_net_opts;

typedef struct {
    const char *name;
    const char *about; /* a few words, for the help */
    unsigned learns;   /* bits of tool_task */
    tool_synthetic synthetic;
    int64_t synthetic_n;       /* without --synthetic-n; 0: 10,000 */
    const char *optimizer;     /* without --optimizer; NULL: adam */
    float lr;                  /* with that optimizer, without --lr; 0: as for any model */
    int64_t batch, accumulate; /* without --batch and --accumulate; 0: 128 and 1 */
    const char *otherwise;     /* for the help, a default that is ""; NULL: as the data have */
    /* The settings that it takes, with their defaults as a user would write them; "": the data
     * decide. NULL: not taken; given all the same it is an error. */
    const char *takes[TOOL_SETTINGS];
    /* Named with a folder, "hf:DIR": what it says of settings and what goes together. CLI_GO or
     * an exit status. NULL: the name has none. */
    int (*settle)(tool_settings *settings, const char *folder);
    /* Whether it can read such data: SW_INVALID with a reason that begins with its name. NULL:
     * any. Settings are complete. */
    sw_status (*accepts)(const tool_net_opts *opts);
    /* Register layers in net->model; handles go to net->own, see tool_net_own(). */
    sw_status (*declare)(tool_net *net, const tool_net_opts *opts);
    /* Of a folder: net->model is ready; make what lies beside it ready, and read all. */
    sw_status (*load)(tool_net *net, sw_exec *exec);
    /* Say what it is and what of it is trained, in lines for people. */
    void (*tell)(const tool_net *net, FILE *to);
    /* Write what was trained to `path`, which is a folder; `name` is the model's, after its
     * colon. */
    sw_status (*save)(const tool_net *net, const char *name, const char *path);
    /* Field 0, made F32 where it has bytes, to logits (batch, classes) or predictions (batch,
     * n) of all n numbers of a target. NULL with `loss`. */
    sw_value (*forward)(sw_ctx *ctx, const tool_net *net, sw_value x);
    /* Instead of `forward` and the loss of the task: reads the inputs and returns the loss. It
     * states further metrics itself. */
    sw_value (*loss)(sw_ctx *ctx, const tool_net *net);
} tool_model;

extern const tool_model tool_mlp, tool_lenet5, tool_swishnet, tool_gpt, tool_mbconv,
    tool_resnet9, tool_hf;

/* The models by position, NULL past the last; by name, NULL when there is none. */
const tool_model *tool_model_at(int i);
const tool_model *tool_model_find(const char *name);
/* Their names, NULL-terminated, for --model; and a sentence that has them all. */
const char *const *tool_model_words(void);
const char *tool_model_help(void);

/* Append an option for each setting that some model takes; returns the new n. */
int tool_settings_options(tool_settings *settings, cli_option *table, int n);
/* The same for what one model takes, with its defaults. */
int tool_settings_options_of(const tool_model *model, tool_settings *settings,
                             cli_option *table, int n);
/* The option of setting i, below TOOL_SETTINGS; whether the model takes it. */
bool tool_settings_option(const tool_model *model, tool_settings *settings, int i,
                          cli_option *out);
/* "mlp or lenet5": the models that take it. */
cli_text tool_settings_takers(int which);
/* Refuse what was given and the model does not take, and fill in its defaults. CLI_GO or an
 * exit status. */
int tool_settings_complete(const tool_model *model, tool_settings *settings);

/* ---- nets -------------------------------------------------------------------------------- */

/* Pixels of 0..1 become (x - mean) / deviation, by channel or (n 1) with one pair for all; n 0:
 * they stay. */
#define TOOL_CHANNELS 4
typedef struct {
    int n;
    float mean[TOOL_CHANNELS], deviation[TOOL_CHANNELS];
} tool_pixels;

/* Augmentation of images while a model is trained: mirrored with a probability, moved by up to
 * `crop` rows and columns; 0: not. */
typedef struct {
    float flip;
    int crop;
} tool_augment;

/* Handles of a model; the sw_model owns what they name. It may not move while programs are
 * traced from it: its address is the step function's `user`. */
struct tool_net {
    sw_model *model;
    char weights[24];    /* hash and kind of what was read from a folder; "": nothing */
    sw_model *models[2]; /* that steps use: `model`, and frozen weights beside it or NULL */
    sw_optimizer *optimizer;
    const tool_model *kind;
    tool_task task;
    tool_settings settings; /* complete */
    void *own;              /* the model's own handles */
    size_t own_bytes;
    sw_knob clip;    /* the largest global norm */
    int clipped;     /* 1: use it */
    sw_knob share;   /* of this micro-batch in the step's loss */
    int accumulates; /* 1: use it */
    sw_knob dropout; /* of chains: its rate */
    int drops;       /* 1: use it, and not that of the settings */
    int channels;    /* byte pixels become x * scale + shift, by channel or with one pair */
    float scale[TOOL_CHANNELS], shift[TOOL_CHANNELS]; /* channels 0: the input has no pixels */
    tool_augment augment;
};

struct tool_net_opts {
    const tool_model *model;
    tool_settings settings; /* complete */
    sw_dataset_info data;   /* shapes and types of one sample; nothing is read from it */
    sw_optimizer_opts optimizer;
    tool_pixels pixels;
    tool_augment augment; /* of images alone */
    float clip;           /* 0: no clipping */
    int frozen;           /* 1: nothing is trained */
    int accumulate; /* 1: a step may be several micro-batches; the optimizer keeps gradients */
    int knobs;      /* 1: the dropout of chains is the knob "dropout" */
};

/* The task of the data. */
tool_task tool_task_of(const sw_dataset_info *data);
/* Whether field 0 has pixels, bytes that become numbers. */
bool tool_has_pixels(const sw_dataset_info *data);
/* Whether the model can learn from such data: SW_INVALID, with a message that begins with its
 * name. */
SW_MUST_USE sw_status tool_net_accepts(const tool_net_opts *opts);
/* Declare model and optimizer; no tensor memory is taken. SW_INVALID where the model cannot
 * read such data. On failure nothing is left. */
SW_MUST_USE sw_status tool_net_create(tool_net *net, const tool_net_opts *opts);
void tool_net_destroy(tool_net *net);
/* Options for a model with its defaults, the synthetic digits and Adam: what `bench`
 * measures. */
SW_MUST_USE sw_status tool_net_digits(tool_net_opts *opts, const char *model);

/* Inputs: the fields of the data set. Metrics "loss", and "accuracy" where classes are learned.
 * Updates in training mode. */
void tool_net_step(sw_ctx *ctx, void *net);
/* A micro-batch whose gradients wait for those of the step's last one, which tool_net_step
 * takes: made for training alone, with `accumulate`. tool_net_share() goes before each of them:
 * the rows of the micro-batch by those of the step, or the tokens that count by theirs. */
void tool_net_micro_step(sw_ctx *ctx, void *net);
void tool_net_share(tool_net *net, double share);

/* Evaluation that shows what each sample came to: the metrics of tool_net_step, and as the
 * output TOOL_SCORES logits (batch, classes) or predictions (batch, n). A model with a loss of
 * its own has no such output. */
#define TOOL_SCORES "scores"
void tool_net_eval_step(sw_ctx *ctx, void *net);
/* The same output without loss and metrics, and probabilities where classes are learned: field
 * 1 is not looked at. For models with `forward`. */
void tool_net_predict_step(sw_ctx *ctx, void *net);

/* Of complete settings; `classes`: the vocabulary where they have none. */
gpt_shape tool_gpt_shape(const tool_settings *settings, int64_t classes);

/* ---- for the models' files --------------------------------------------------------------- */

/* Zeroed memory for the model's own handles, which net->own then points to; it goes with the
 * net. NULL where there is none: the failure is kept for tool_net_create. Once for each net. */
SW_MUST_USE sw_status tool_net_own(tool_net *net, size_t bytes);
/* Elements of field i of one sample. */
int64_t tool_field_elements(const tool_net_opts *opts, int field);
/* The activation that the settings name. */
sw_value tool_activate(sw_ctx *ctx, const tool_net *net, sw_value x);

/* The channels that --width-factor makes of these, by EfficientNet's rounding: to multiples of
 * 8, at least 8, not more than a tenth down. */
int64_t tool_widened(int64_t channels, const tool_settings *settings);

/* A convolution without bias, as wide as its images, batch norm with the momentum of the
 * settings, and where it is `active` their activation, which counts as part of it in
 * reports. */
typedef struct {
    sw_conv2d conv;
    sw_batch_norm2d norm;
    char name[32];
} tool_conv_norm;
tool_conv_norm tool_conv_norm_new(tool_net *net, const char *name, int64_t in, int64_t out,
                                  int kernel, int stride, int64_t groups);
sw_value tool_conv_norm_apply(sw_ctx *ctx, const tool_net *net, const tool_conv_norm *layer,
                              sw_value x, int active);

/* Layers "fc1", "fc2"... with the activation of the settings between them, and with
 * `active_end` after the last one too; an activation counts as part of the layer before it. */
typedef struct {
    int n, active_end;
    sw_linear *layer; /* room for all of them, of the model's own handles */
} tool_chain;
/* The dropout after each activation is a knob where the options ask for it. A model that takes
 * --dropout calls it where it declares its chain. */
void tool_chain_drop(tool_net *net, const tool_net_opts *opts);
void tool_chain_add(tool_net *net, tool_chain *chain, int64_t in, int64_t out);
sw_value tool_chain_apply(sw_ctx *ctx, const tool_net *net, const tool_chain *chain,
                          sw_value x);
