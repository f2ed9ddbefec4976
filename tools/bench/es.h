/* One layer under every kind of noise: what bench es runs. */
#ifndef STEPWELL_BENCH_ES_H
#define STEPWELL_BENCH_ES_H

#include "tools/bench/bench.h"

typedef struct {
    const char *layers; /* "dense", "conv", "all" */
    const char *modes;  /* "nesgpu", "ours", "all" */
    int64_t layer;      /* 1 to ES_LAYERS: that one alone; 0: all */
    int64_t runs;       /* of each mode */
    int64_t seconds;    /* after which a mode has no more of them */
    int64_t batch, threads;
    bool forward, json, quiet; /* forward: no updates */
} es_opts;

/* A layer of NESgpu's table: dense (kernel 0), or a convolution of images of side x side. */
typedef struct {
    int64_t out, in;
    int kernel;
    int64_t side;
} es_layer;
enum { ES_DENSE = 1, ES_CONV = 2, ES_LAYERS = 8 };

/* A way to run it. */
typedef struct {
    const char *name, *key;
    const char *noise; /* NULL: none */
    const char *distribution;
    float in_share, out_share;  /* below 0: so many channels, not a share */
    bool pairs;                 /* antithetic: half as many directions, two rows of each */
    bool ours;                  /* not in NESgpu's table */
    int of;                     /* ES_DENSE, ES_CONV */
    float published[ES_LAYERS]; /* of NESgpu, times its base, by layer; 0: not known */
} es_mode;
/* The first is the base, the second the loop over members. */
enum { ES_BASE, ES_NAIVE };

/* Results of a mode. Times of the layer alone: the phase of it within a run. */
typedef struct {
    const es_mode *mode;
    cli_summary layer, update; /* update: sw_es_step as a whole; n 0: none */
    cli_summary estimate;      /* its program alone */
    size_t noise_bytes;        /* that live in the plan, besides scratch */
    size_t scratch_bytes;      /* of its ops in the phase of the layer */
    int64_t above_bytes;       /* peak of the layer's phase less that of the base */
    size_t update_arena_bytes; /* of the program of the update */
} es_found;
enum { ES_MODES_MAX = 24 };

/* Run n modes of a layer (at most ES_MODES_MAX), taking turns. */
SW_MUST_USE sw_status es_measure(const es_opts *opts, const es_layer *layer,
                                 const es_mode *const *modes, int n, es_found *found);

#endif
