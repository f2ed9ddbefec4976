/* Named tensors as NumPy's archive: a zip file that stores NAME.npy for each tensor, packed by
 * nothing, as numpy.savez writes it. For programs of others: nothing of ours reads it.
 *
 * The array of each tensor begins at a multiple of 64 bytes of the file, so that the file can
 * be mapped. NumPy has no bfloat16: such tensors become float32, which holds their values
 * exactly. Notes are the archive's comment, a line KEY=TEXT each. There is no time in the file:
 * the same tensors are the same bytes. */
#ifndef SW_NPZ_H
#define SW_NPZ_H

#include "runtime/state/tensor_file.h"

#define SWI_NPZ_ENDING ".npz"

/* Whether a file of this name is written as an archive. */
bool swi_npz_is(const char *path);
/* Whether all of it can be written: SW_INVALID names what cannot. */
SW_MUST_USE sw_status swi_npz_check(const swi_tensor_list *list, const swi_tensors_note *notes,
                                    uint32_t n_notes);
/* Write the tensors of the list into `file`, in the list's order. Reads all bytes twice: once
 * for the check of each tensor, which stands in front of it. */
SW_MUST_USE sw_status swi_npz_write(sw_file *file, const swi_tensor_list *list,
                                    const swi_tensors_note *notes, uint32_t n_notes);

#endif
