/* The profile of a population: its shapes, and in every turn who takes which bytes. Each sum is
 * checked as it is read: a member's range is that of its shape, ranges add up to what lives,
 * and parts to what was measured. So every byte of the budget has a member, a layer and a role,
 * or is a lane's. */
#pragma once

#include "profiler/inspect/profile_read.h"
#include "profiler/inspect/document.h"
#include "profiler/inspect/timeline.h"

/* Roles of a member's tensors in four groups. */
typedef enum {
    POPULATION_PARAMETERS,
    POPULATION_OPTIMIZER,
    POPULATION_BUFFERS, /* and states, and gradients that are kept */
    POPULATION_KNOBS,
    POPULATION_KINDS
} population_kind;
population_kind population_kind_of(const char *role);

/* Bytes, with padding, of one layer and role. */
typedef struct {
    const char *layer, *role; /* layer "": of none */
    uint64_t bytes;
} population_part;

typedef struct {
    population_part *at; /* by layers as they come, then roles */
    uint32_t n, cap;
} population_parts;

/* More bytes of that layer and role; the list belongs to the timeline, the strings stay the
 * caller's. */
SW_MUST_USE sw_status population_add(population_parts *parts, sw_timeline *t, const char *layer,
                                     const char *role, uint64_t bytes);

typedef struct {
    const char *name;
    uint64_t member_bytes, batch_bytes;
    uint64_t kind[POPULATION_KINDS]; /* of a member */
    population_parts parts;          /* of a member: add up to member_bytes */
    uint32_t highest; /* program with the largest arena; SW_TL_NONE: it has none */
} population_shape;

typedef struct {
    uint32_t member, shape; /* shape: index */
    uint64_t step, member_seed;
    bool resident;
    const char *place, *member_status;
    uint64_t range_bytes, waiting_bytes, kept_bytes;
    double score, loss, train_loss; /* NaN: none */
    int64_t donor;                  /* -1: it went on */
    const char *shape_name;
    uint64_t kind[POPULATION_KINDS], member_bytes; /* as of its shape */
} population_member;

typedef struct {
    uint64_t turn, step, lanes, line;
    uint64_t step_arena_bytes, batch_bytes, range_bytes, live_bytes, predicted_bytes,
        outside_bytes;
    uint64_t free_bytes, measured_bytes; /* range less live; step, batch and range */
    population_member *at;               /* by their numbers, from 0 */
    uint32_t n, cap;
    double *values; /* n_names of each member; NaN: none */
    uint32_t cap_values;
} population_turn;

typedef struct {
    sw_timeline *timeline; /* header and programs; owns the strings */
    char shown[512];       /* the file's name */
    uint64_t members, budget_bytes, planned_steps;
    population_shape *shapes;
    uint32_t n_shapes, cap_shapes;
    const char *const *names; /* of hyper-parameters */
    uint32_t n_names;
    population_turn *turns; /* those that were asked for, in their order */
    uint32_t n_turns, cap_turns;
    uint64_t first_turn, last_turn, seen_turns; /* of the file; seen 0: none has ended */
    uint32_t cut_members;                       /* records of a turn that the file lacks */
    uint32_t *origin; /* of two turns: for each member of the later one, whose descendant it is
                         in the earlier one; NULL: a turn is missing */
    uint64_t copies;  /* that were made between them */
    uint64_t peak_bytes, peak_turn;
    profile_reading file;
} population;

/* Turns that are kept: all; or the last one, and those of two numbers (0: none). */
typedef struct {
    bool all;
    uint64_t turn[2];
} population_want;

/* Whether the file begins as the profile of a population does. */
SW_MUST_USE sw_status population_is(const char *path, bool *is);
/* Owner: the caller, by population_free. Damage after the header ends the reading, and the part
 * before it stays. SW_FORMAT: it is no profile of a population. */
SW_MUST_USE sw_status population_open(population **out, const char *path,
                                      const population_want *want);
void population_free(population *p); /* NULL is fine */

/* NULL: the file has no such turn, or it was not asked for. */
const population_turn *population_find(const population *p, uint64_t turn);
const population_turn *population_last(const population *p); /* NULL: none has ended */

typedef enum { POPULATION_TEXT, POPULATION_JSON, POPULATION_CSV } population_format;
/* member: -1, or the one that is shown alone. more: members after the others of JSON, or
 * NULL. */
SW_MUST_USE sw_status population_print(population *p, int64_t member, population_format format,
                                       const report_tail *more, const report_style *style);
/* Member by member, what b has that a has not: turns of one file or two. `newer` 1: differences
 * are b less a; 0: a less b. */
typedef struct {
    population *of[2];
    const population_turn *turn[2];
    int newer;
    const uint32_t *origin; /* of turns of one file; NULL: not known */
    uint64_t copies;        /* where origin is known */
} population_pair;
SW_MUST_USE sw_status population_compare(const population_pair *pair, population_format format,
                                         const report_tail *more, const report_style *style);
/* A page of members and turns, for a timeline sink's output. */
SW_MUST_USE sw_status population_html(population *p,
                                      sw_status (*write)(void *context, const char *bytes,
                                                         size_t n),
                                      void *context);
