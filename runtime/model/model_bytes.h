/* The bytes of a model, wherever they lie. Of a model in host memory they are passed as they
 * are; a device's go through a block of host memory of at most SWI_PIECE_BYTES, piece by piece
 * from the front, and after all that was launched on the card. The model is ready and the
 * caller has taken it; ranges are inside of it. */
#ifndef SW_MODEL_BYTES_H
#define SW_MODEL_BYTES_H

#include "runtime/model/model.h"

#define SWI_PIECE_BYTES ((size_t)4 << 20) /* whole elements, and blocks of random numbers */

sw_status swi_model_read(const sw_model *model, void *to, size_t offset, size_t bytes);
sw_status swi_model_write(sw_model *model, size_t offset, const void *from, size_t bytes);
sw_status swi_model_zero(sw_model *model, size_t offset, size_t bytes);
/* Of models with one layout. A card that fails in the middle of it leaves `to` damaged. */
sw_status swi_model_copy_bytes(sw_model *to, const sw_model *from);

/* `n` bytes, which begin `at` bytes after the first one. */
typedef sw_status swi_take_piece(void *context, const void *bytes, size_t at, size_t n);
typedef sw_status swi_make_piece(void *context, void *bytes, size_t at, size_t n);
/* Give the bytes away, or have them made. A failure ends it; what was made before stays, and
 * the model is damaged where pieces of it were. */
sw_status swi_model_pour(const sw_model *model, size_t offset, size_t bytes,
                         swi_take_piece *take, void *context);
sw_status swi_model_fill(sw_model *model, size_t offset, size_t bytes, swi_make_piece *make,
                         void *context);

#endif
