/* The tensor "stepwell.run" of a checkpoint, for those who list it: JSON of one object; members
 * that are not known are passed over. */
#ifndef SW_RUN_SUMMARY_H
#define SW_RUN_SUMMARY_H

#include "runtime/state/tensor_file.h"

typedef struct {
    char name[64], layout[24];
    char optimizers[256];          /* their kinds: "adam,sgd" */
    uint64_t members, state_bytes; /* state_bytes: of groups of members alone */
} swi_run_model;

typedef struct {
    uint64_t epoch, batch_index, batch_rows, samples;
    char seed[24], data[24];
    bool begun, shuffle, keyed, drop_last;
} swi_run_loader;

typedef struct {
    uint64_t version, step, seed;
    char isa[16], device[16];
    swi_run_model *models;
    uint32_t n_models, cap_models;
    swi_run_model *groups; /* of members */
    uint32_t n_groups, cap_groups;
    swi_run_loader *loaders;
    uint32_t n_loaders, cap_loaders;
} swi_run_summary;

/* Of a checkpoint; SW_FORMAT where it is no such text. Texts are cut to their room. */
SW_MUST_USE sw_status swi_run_summary_read(swi_tensors *file, swi_run_summary *out);
void swi_run_summary_free(swi_run_summary *run);

#endif
