/* Between the witnesses. A witness runs a program with its own binding of memory, looks at what
 * the kernels really did, and compares that with what the plan says. It shares nothing with the
 * planner: from a program it takes the claims (lifetimes, sizes, offsets, figures) and what the
 * step function asked for (nodes, operands), never the planner's code. */
#pragma once

#include "alloc/base/size.h"
#include "runtime/observe/observe.h"

#define SWI_WITNESS_HEAP SW_HEAP_PROFILE

typedef enum {
    SWI_REGION_STEP,  /* a storage of the step arena */
    SWI_REGION_MODEL, /* one entry of a model */
    SWI_REGION_INPUT,
    SWI_REGION_NONE /* stands where the plan has no workspace */
} swi_region_kind;

/* [from, to) are whole pages with a guard page on each side; offsets in the range. */
typedef struct {
    uint32_t storage; /* SWI_NONE for SWI_REGION_NONE */
    swi_region_kind kind;
    size_t from, to;
    size_t at;                   /* the first byte of the payload */
    size_t bytes, rounded;       /* as the plan has them */
    const unsigned char *origin; /* contents of models and inputs; NULL for the others */
} swi_region;

typedef struct {
    unsigned char *base; /* one address range; all of it is writable unless a trap closes it */
    size_t bytes;
    swi_region *regions; /* by address */
    uint32_t n_regions, cap_regions;
    uint32_t *of; /* region of each storage */
    uint32_t n_storages;
    swi_bind *binds; /* for swi_program_execute with every used base at `base` */
    uint32_t n_binds;
} swi_regions;

/* ---- one witnessing ---------------------------------------------------------------------- */

typedef struct {
    sw_exec *exec;
    const swi_program *program;
    swi_frame *frame; /* of the program */
    const sw_run_args *args;
    sw_witness_info info;  /* being filled */
    uint32_t *root;        /* of each storage */
    swi_regions reference; /* holds the state after an undisturbed run, once made */
    uint64_t *hashes;      /* of each op's outputs in the reference run */
    bool referred;
    swi_breakdown breakdown; /* by role and by layer, as the access witness saw them */
} swi_witness;

/* HEAD: the payload starts at a page's start; TAIL: the rounded bytes end at a page's end. In
 * place: results that took another's place share its region as planned; APART: each storage has
 * its own. */
enum { SWI_REGIONS_HEAD = 0, SWI_REGIONS_TAIL = 1, SWI_REGIONS_APART = 2 };

/* Is the storage scratch of an op of bf16? Products ask for the same scratch in both orders, by
 * all instructions and for all mixtures of types, and may use less of it, or none. */
bool swi_asks_for_more(const swi_trace *t, uint32_t storage);

sw_status swi_regions_create(swi_regions *out, const swi_witness *w, int how);
void swi_regions_free(swi_regions *regions);
void swi_regions_fill(swi_regions *regions, unsigned char pattern); /* all bytes; then loads */
void swi_regions_load(swi_regions *regions); /* models and inputs as they are */
sw_status swi_regions_run(swi_witness *w, swi_regions *regions, const swi_hooks *hooks);
/* The first storage of the results (models, metrics, outputs) that differs, or SWI_NONE. */
uint32_t swi_regions_differ(const swi_witness *w, const swi_regions *a, const swi_regions *b);

/* The undisturbed run that the others are compared with; made once. Its regions are APART, so
 * that neither offsets nor in-place results of the plan decide what it computes. Unwritten
 * bytes hold SWI_PATTERN. */
#define SWI_PATTERN 0x55u
sw_status swi_witness_reference(swi_witness *w);

/* A number for the bytes of an op's outputs as they are now, by its launch's pointers. */
uint64_t swi_witness_hash(const swi_witness *w, uint32_t op);

/* Note a disagreement. op or storage may be SWI_NONE. */
void swi_witness_fault(swi_witness *w, uint32_t op, uint32_t storage, const char *format, ...)
    SW_PRINTF(4, 5);

/* A root in the step arena that the plan gives bytes. */
bool swi_witness_planned(const swi_witness *w, uint32_t storage);
/* The bytes leave the run: metrics and outputs. */
bool swi_witness_is_result(const swi_witness *w, uint32_t root);

typedef struct {
    uint32_t op, region;
    bool write;
    int8_t side; /* -1: the guard in front, 1: the guard after, 0: the region */
} swi_touch;

typedef struct {
    const swi_regions *regions;
    unsigned char *level; /* three zones per region: 0 closed, 1 readable, 2 writable */
    swi_touch *touches;   /* in the order of their happening; a region at most twice per op */
    uint32_t n_touches, cap_touches;
    uint32_t lost; /* touches that found no region in the list */
    uint32_t op;
} swi_access_recorder;

/* The access witness's record of one storage. */
typedef struct {
    uint32_t first, last; /* ops that it lived in; last is n_ops for what leaves the run */
    size_t bytes;         /* 0: it did not live */
    swi_role role;
    const char *layer;
} swi_life;
/* Add them up in w->shares; compare these with the plan's. */
sw_status swi_witness_share_out(swi_witness *w, const swi_life *lives, uint32_t n);
sw_status swi_witness_compare_breakdowns(swi_witness *w);

sw_status swi_witness_access(swi_witness *w);
sw_status swi_witness_extent(swi_witness *w);
sw_status swi_witness_death(swi_witness *w);
sw_status swi_witness_need(swi_witness *w);

/* The program of a frame. */
sw_status swi_witness_frame(sw_exec *exec, swi_frame *frame, const sw_run_args *args,
                            uint32_t which, sw_witness_info *out);
