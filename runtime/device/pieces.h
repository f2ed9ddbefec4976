/* Kernels of float32 on numbers of bf16, a piece at a time: operands are widened into scratch
 * that stays in the near cache, the kernel of the op runs, and what it made is rounded once.
 * Pieces follow from shapes alone, so no thread and no processor shows in the bits. */
#pragma once

#include "kernels/cuda/table.h"
#include "runtime/base/common.h"

/* Bytes of widened operands at a time, or one unit where that is more; tests change it. */
extern size_t swi_piece_bytes;

/* Is this kernel of the op run so, on the CPU or a card, where one of its operands is bf16? By
 * the word of its line in ops.def. */
bool swi_goes_in_pieces(uint32_t op, int grad, const sw_kernel_info *info, bool card);

/* Its scratch: widened pieces, and what the kernel asks for on a piece; of the queue on which a
 * card's is launched, NULL on the CPU. units: of a piece; 0: by the shapes. */
size_t swi_pieces_bytes(uint32_t op, int grad, const sw_kernel_info *info,
                        const sw_cuda_queue *queue, int64_t units);

/* Units of a piece, where the CPU's add to a result that is not cut; else 0. */
int64_t swi_pieces_that_add(uint32_t op, int grad, const sw_kernel_info *info);

/* The launch's op and grad say which kernel it is; queue and units as above. */
sw_status swi_pieces_run(const sw_launch *launch, const sw_cuda_queue *queue, int64_t units);
/* The same as kernels: of the CPU, and of a card. */
sw_status swi_in_pieces(const sw_launch *launch);
sw_status swi_pieces_on_card(const sw_launch *launch, const sw_cuda_queue *queue);
