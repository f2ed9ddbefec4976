/* Texts of a net of transformers, id by id: its keys and values of the ids before stay in a
 * cache, so an id costs one row. Two programs of fixed shapes: rows of the beginning, and one
 * row with its scores. */
#pragma once

#include "tools/models/hf_net.h"
#include "tools/models/models.h"

#define HF_PIECE 64 /* rows of the beginning at a time, where the context has so many */

typedef struct {
    tool_net net;        /* its own: hf_net */
    sw_model *models[3]; /* that of adapters, the base, the cache */
    hf_cached *cache;    /* of each layer */
    sw_exec *exec;       /* of the caller */
    int64_t context, piece;
    int32_t *ids, *places; /* `context` of each */
    int64_t n, done;       /* ids that are there; of them, in the cache */
} hf_sampler;

typedef enum { HF_PROGRAM_PIECE, HF_PROGRAM_TOKEN, HF_PROGRAMS } hf_program;

/* Settings are complete and settled. No tensor memory is taken; on failure nothing is left. */
SW_MUST_USE sw_status hf_sampler_create(hf_sampler *s, sw_exec *exec,
                                        const tool_settings *settings);
void hf_sampler_destroy(hf_sampler *s); /* all zero is fine */
/* The arguments of a program, whose rows begin at id `from`; inputs receives 2. */
sw_run_args hf_sampler_args(hf_sampler *s, hf_program which, int64_t from, sw_array inputs[2]);
/* Plan both programs, in the order of hf_program: SW_NOMEM where a budget refuses, before a
 * weight was read. */
SW_MUST_USE sw_status hf_sampler_plan(hf_sampler *s, sw_plan_info plans[HF_PROGRAMS]);
/* Take the memory, and read the weights. */
SW_MUST_USE sw_status hf_sampler_ready(hf_sampler *s);
/* Add an id; s->n must be below s->context. */
void hf_sampler_add(hf_sampler *s, int32_t id);
/* Scores of the id after the last one, one for each of the vocabulary; until the next call. At
 * least one id was added. `stop` (NULL: never) may end it between pieces: *scores is NULL
 * then. */
SW_MUST_USE sw_status hf_sampler_next(hf_sampler *s, bool (*stop)(void), const float **scores);
