/* The host's memory in the profile: by purpose and by line in step records, where it has
 * changed; as the heap's backend sees it in a record of its own; and who held what when a
 * request was denied. And the memory of cards. */
#pragma once

#include "alloc/arena/arena.h"
#include "alloc/base/allocation_sites.h"
#include "profiler/record/json.h"
#include "profiler/record/prof.h"

/* As the file has it. Belongs to a profile, under its lock. */
typedef struct {
    bool begun, written;        /* written: the file has them */
    bool more;                  /* places that found no room in the record before */
    size_t heap[SW_HEAP_KINDS]; /* by purpose: now, and as written */
    size_t heap_written[SW_HEAP_KINDS];
    size_t arenas[SW_ARENA_USES];
    uint64_t claims; /* the version that `arenas` is of */
    size_t sites[SW_SITES_MAX];
} sw_prof_heap;

/* Blocks are noted by the line that takes them, from here on. */
SW_MUST_USE sw_status sw_prof_heap_begin(sw_prof_heap *h);
void sw_prof_heap_end(sw_prof_heap *h);
/* Looks at the counts: all below is about what they were then. */
void sw_prof_heap_look(sw_prof_heap *h);
size_t sw_prof_heap_sum(const sw_prof_heap *h); /* of all purposes */
/* The members of a step record, as far as they changed: `heap`, `places`, `arenas`. Few
 * bytes where nothing changed since the last look; places beyond what a record has room for
 * come in the next one. */
void sw_prof_heap_put(sw_prof_heap *h, sw_json *json);

/* A record of the type "heap": what the backend says of each purpose and of the rest of the
 * process. The end of a profile writes one where none was written. */
void sw_prof_heap_record(sw_profile *profile);

/* ---- what was denied --------------------------------------------------------------------- */

#define SW_DENIED_SHARES 128
#define SW_DENIED_HOLDERS 10
#define SW_DENIED_NAME 96

typedef struct {
    char name[SW_DENIED_NAME];
    size_t bytes;
} sw_denied_share;

typedef struct {
    char name[SW_DENIED_NAME], layer[SW_DENIED_NAME];
    const char *role;
    size_t bytes;
} sw_denied_holder;

/* A request that was refused, and what was, or would have been, live beside it. Sizes that are
 * not known are 0, texts NULL. */
typedef struct {
    uint32_t exec, program; /* SW_PROF_NONE: none */
    uint64_t step;          /* counted from 1; 0: while planning */
    int64_t batch;          /* -1: none */
    const char *run;        /* "train" or "eval" */
    const char *limited_by; /* "budget", "machine" or "memory": the system or the heap */
    const char *message;    /* as the caller gets it */
    const char *label;      /* of the request */
    size_t request_bytes, limit_bytes, used_bytes;
    const char *op, *phase;                      /* that it was for, or that peaks */
    size_t needed_bytes;                         /* the least that would do */
    size_t model_bytes, arena_bytes, data_bytes; /* of that */
    size_t others_bytes;                         /* and what others have of the budget */
    size_t live_bytes;                           /* sum of the shares */
    sw_denied_share role[SW_DENIED_SHARES / 4], layer[SW_DENIED_SHARES];
    size_t n_roles, n_layers;
    sw_denied_holder holder[SW_DENIED_HOLDERS]; /* largest first */
    size_t n_holders;
} sw_prof_denied;

/* Count bytes of a role and layer, and keep the holder where it is one of the largest. Those
 * too many share the last line. */
void sw_denied_add(sw_prof_denied *d, const char *role, const char *layer, const char *name,
                   size_t bytes);
/* A record of the type "denied", with what the heap and arenas hold; in the file when it
 * returns. */
void sw_prof_denied_record(sw_profile *profile, const sw_prof_denied *denied);
/* A record of the type "fits": the largest batch within the limit of the denied record. */
void sw_prof_fits_record(sw_profile *profile, int64_t batch, size_t bytes, size_t limit_bytes);

/* A card: what it is, who has its memory, and what its driver says of that. */
typedef struct {
    const char *when; /* "begin" or "end" */
    uint32_t exec;    /* as sw_prof_join gave it */
    const char *name; /* "cuda:0" */
    const char *card;
    int major, minor;    /* compute capability */
    int driver, runtime; /* 1000 * major + 10 * minor */
    int blas;            /* as the library counts; 0: none */
    bool maps;           /* arenas grow in place */
    size_t total_bytes;
    size_t
        open_bytes; /* free when it was opened: the context and other programs had the rest */
    size_t free_bytes; /* now, other programs included */
    /* Of our arenas, by use: that have memory, and that were promised. */
    size_t committed_bytes[SW_ARENA_USES], promised_bytes[SW_ARENA_USES];
    size_t graph_bytes;  /* of captured runs */
    size_t pinned_bytes; /* of the host, for all devices */
} sw_prof_device;

/* Of what was taken since it was opened, bytes that no arena and no graph of ours has: the
 * libraries', and other programs; below 0 where these have given some back. */
int64_t sw_prof_device_rest(const sw_prof_device *device);
/* Into the profile's file: a record of the type "device". */
void sw_prof_device_record(sw_profile *profile, const sw_prof_device *device);
