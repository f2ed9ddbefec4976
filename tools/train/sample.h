/* Shared by the files of `stepwell sample`. */
#pragma once

#include "tools/job/job.h"

typedef struct {
    tool_settings settings;
    const char *model, *load, *prompt, *vocab, *chat, *chat_template, *merge;
    cli_list prompt_ids; /* n 0: none are given */
    job_opts job;        /* precision and order of products, budget */
    int64_t tokens, seed, threads;
    int64_t top_k; /* 0: all; below 0, here and below: not given */
    double temperature, top_p;
    bool quiet;
    job_trained trained; /* what the file says */
    bool noted;          /* and what --vocabulary would, which is not given */
} sample_opts;

/* Draws of ids by their scores. */
typedef struct {
    int64_t ids;    /* that may be drawn: the first ones */
    double *share;  /* of each */
    int32_t *best;  /* a heap: the worst of them at its top */
    int64_t n_best; /* in it */
} sample_draws;

SW_MUST_USE sw_status sample_draws_open(sample_draws *draws, int64_t ids);
void sample_draws_close(sample_draws *draws); /* all zero is fine */
/* The id of this number in the text, drawn as temperature, top_k, top_p and seed say. -1 where
 * the scores are no numbers. */
int sample_draw(sample_draws *draws, const sample_opts *opts, const float *scores,
                int64_t number);

/* The command with --model hf:DIR; the exit status. */
int sample_hf(sample_opts *opts);
