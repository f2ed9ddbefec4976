/* The part of models that outlives a run, as one list of named tensors: for saving, loading,
 * copying and checkpoints. A list knows where the bytes lie: in models, or in host memory. */
#ifndef SW_RANGES_H
#define SW_RANGES_H

#include "alloc/base/map.h"
#include "runtime/model/model.h"

/* A tensor of n_parts parts of part_bytes: those of one entry in models of one layout. With one
 * part the shape is the entry's, with more they stand in front: (parts, dims...). */
typedef struct {
    const char *name; /* UTF-8; in the list's memory */
    swi_role role;
    sw_dtype dtype;
    sw_shape shape;
    size_t part_bytes;
    uint32_t n_parts;
    bool stacked;      /* one part stands in a stack too: (1, dims...) */
    unsigned char *at; /* host memory: part k begins k * stride after it; NULL: in the models */
    size_t stride;
    const size_t *places;    /* with `at`: part k begins places[k] after it; NULL: as above */
    sw_model *const *models; /* part k is in models[k]; borrowed */
    size_t offset;           /* there */
    uint32_t group; /* of the call of swi_list_models that appended it; SWI_NONE: none */
} swi_tensor;

typedef struct {
    swi_tensor *at;
    uint32_t n, cap;
    uint32_t n_groups;
    char **texts; /* blocks that names lie in */
    uint32_t n_texts, cap_texts;
    sw_map names;  /* of the tensors */
} swi_tensor_list; /* begins as zeros */

/* Append the entries of these roles (bit 1 << role) of n models that have one layout, in the
 * model's order, under prefix (or "") and their name: parameters and buffers bare, the others
 * as SWI_OWN_PREFIX and "optimizer/", "state/", "gradient/" before the entry's name, and
 * "knobs". SW_INVALID where a name is no UTF-8, stands in the list already or begins with
 * SWI_OWN_PREFIX, and where several models have an entry of SW_MAX_RANK dims. Knobs lie in the
 * model; a caller who saves the values as they were set gives them by `at`. */
SW_MUST_USE sw_status swi_list_models(swi_tensor_list *list, sw_model *const *models,
                                      uint32_t n, uint32_t roles, const char *prefix);
/* The same of n members with the layout of `shape`, one too in a stack: their bytes are given
 * by `at`. */
SW_MUST_USE sw_status swi_list_stack(swi_tensor_list *list, sw_model *const *shape, uint32_t n,
                                     uint32_t roles, const char *prefix);
/* Append `n` bytes of host memory, borrowed, as a U8 tensor (n) with this name, copied. */
SW_MUST_USE sw_status swi_list_bytes(swi_tensor_list *list, const char *name, const void *bytes,
                                     size_t n);
/* The same of n_parts parts of `n` bytes each, one after the other. */
SW_MUST_USE sw_status swi_list_parts(swi_tensor_list *list, const char *name, const void *bytes,
                                     size_t n, uint32_t n_parts);
/* Where a list ends now; and make it end there again. */
typedef struct {
    uint32_t n, n_groups, n_texts;
} swi_list_mark;
swi_list_mark swi_list_end(const swi_tensor_list *list);
void swi_list_cut(swi_tensor_list *list, swi_list_mark end);
const swi_tensor *swi_list_find(const swi_tensor_list *list, const char *name);
void swi_list_free(swi_tensor_list *list);

static inline bool swi_tensor_stacked(const swi_tensor *tensor)
{
    return tensor->stacked || tensor->n_parts > 1;
}

/* Of a tensor with `at`. */
static inline unsigned char *swi_tensor_part(const swi_tensor *tensor, uint32_t k)
{
    return tensor->at + (tensor->places != NULL ? tensor->places[k] : k * tensor->stride);
}

#endif
