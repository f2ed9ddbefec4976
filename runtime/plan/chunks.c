/* The chunk pass: an op that can go through its rows a part at a time does so where it would
 * else raise the arena, in as few parts as keep the arena as low as the most parts would. Parts
 * change scratch bytes and no bits. */
#include "alloc/base/size.h"
#include "runtime/ops/ops.h"
#include "runtime/plan/program_internal.h"
#include <string.h>

#define LEAST_ROWS 32 /* below that products lose too much time */

/* The rows of what can be done in parts; 0: of nothing here. */
static int64_t rows_of(const swi_trace *t, const swi_node *node)
{
    if (swi_op_traits_of(node->op)->duty != SWI_DUTY_PARTS || node->grad >= 0)
        return 0;
    return t->values[t->operands[node->first]].type.shape.dim[0];
}

/* The rows at a time that its attributes begin with; 0: all. */
static int64_t asked_of(const swi_trace *t, const swi_node *node)
{
    int64_t rows;
    memcpy(&rows, t->attrs + node->attrs, sizeof rows);
    return rows;
}

int64_t swi_most_chunks(const swi_trace *t)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < t->n_nodes; i++)
        for (int64_t parts = 1; parts * LEAST_ROWS < rows_of(t, &t->nodes[i]); parts *= 2)
            most = parts * 2 > most ? parts * 2 : most;
    return most;
}

sw_status swi_chunk(swi_trace *t, const sw_exec *exec, int64_t parts, int64_t *largest)
{
    *largest = 0;
    for (uint32_t i = 0; parts >= 2 && i < t->n_nodes; i++) {
        const swi_node *node = &t->nodes[i];
        if (rows_of(t, node) == 0)
            continue;
        int64_t rows = (rows_of(t, node) + parts - 1) / parts;
        if (rows < LEAST_ROWS)
            rows = LEAST_ROWS;
        if (asked_of(t, node) > 0 && asked_of(t, node) < rows)
            continue; /* its own wish is smaller */
        *largest = rows > *largest ? rows : *largest;
        sw_type types[SWI_MAX_OPERANDS];
        sw_kernel_info info;
        memcpy(t->attrs + node->attrs, &rows, sizeof rows);
        swi_selected_kernel picked;
        swi_kernel_info(t, node, types, &info);
        SW_TRY(swi_select_kernel(exec, node->op, node->grad, &info, &picked));
        if (node->scratch == SWI_NONE)
            continue; /* it asked for none with all rows */
        swi_storage *scratch = &t->storages[node->scratch];
        scratch->bytes = picked.scratch_bytes;
        (void)sw_size_align(scratch->bytes, SW_ALIGN,
                            &scratch->rounded); /* smaller than it was */
    }
    return SW_OK;
}
