/* A card in the profile: what it is, who has its memory, and what its driver says of that. */
#ifndef SW_PROF_DEVICE_H
#define SW_PROF_DEVICE_H

#include "alloc/arena/arena.h"
#include "profiler/record/json.h"
#include "profiler/record/prof.h"

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
    size_t pinned_bytes; /* of the host, for all devices */
} sw_prof_device;

/* Of what was taken since it was opened, bytes that no arena of ours has: the libraries',
 * graphs, and other programs; below 0 where these have given some back. */
int64_t sw_prof_device_rest(const sw_prof_device *device);
/* Into the profile's file: a record of the type "device". */
void sw_prof_device_record(sw_profile *profile, const sw_prof_device *device);

#endif
