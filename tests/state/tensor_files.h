/* Shared by the tests of this folder: small models, lists of tensors as a checkpoint has them,
 * files of them, and damage. */
#ifndef SW_TESTS_TENSOR_FILES_H
#define SW_TESTS_TENSOR_FILES_H

#include "runtime/exec/exec.h"
#include "runtime/state/tensor_file.h"
#include "tests/data/data_files.h"
#include "tests/support/suite.h"

/* Ready, with parameters of several ranks, a buffer, a state, a knob, an optimizer, and chance
 * bytes in all of it. They end with the test. */
sw_model *chance_model(const char *name, uint64_t seed);
#define ALL_ROLES                                                                              \
    (1u << SWI_ROLE_PARAMETER | 1u << SWI_ROLE_BUFFER | 1u << SWI_ROLE_OPTIMIZER_STATE |       \
     1u << SWI_ROLE_STATE | 1u << SWI_ROLE_GRADIENT | 1u << SWI_ROLE_KNOB)

/* The notes and the run's tensor of a checkpoint, of one model. */
#define N_MARKS 2
extern const swi_tensors_note checkpoint_marks[N_MARKS];
extern const char one_model_run[];
void list_run(swi_tensor_list *list, const char *run);

/* Write the list at `path`. */
sw_status write_tensors(const char *path, const swi_tensor_list *list,
                        const swi_tensors_note *notes, uint32_t n);
/* A checkpoint of `model` and of a blob that makes it that large. */
void write_checkpoint(const char *path, sw_model *model, size_t n_bytes);

/* Open, and read all of it. */
sw_status open_and_verify(const char *path);

/* Set the digits of the header's checksum in the bytes of a file to what they must be. */
void reseal(bytes *file);
/* Replace the first `from` by `to`, which is as long. */
void replace(bytes *file, const char *from, const char *to);

#endif
