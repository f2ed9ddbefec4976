/* Memory of one alignment: blocks that end all at once. */
#include "runtime/population/evolve/align_internal.h"

#define BLOCK_BYTES ((size_t)1 << 15)
#define UNIT ((size_t)16)

struct swi_scratch_block {
    struct swi_scratch_block *next;
    size_t bytes, used; /* of the block, with this header */
};

#define HEADER ((sizeof(swi_scratch_block) + UNIT - 1) / UNIT * UNIT)

sw_status swi_scratch_take(swi_scratch *scratch, void **out, size_t n, size_t element)
{
    const size_t bytes = (n * element + UNIT - 1) / UNIT * UNIT;
    swi_scratch_block *block = scratch->blocks;
    if (n > SIZE_MAX / 2 / element)
        SW_FAIL(SW_NOMEM, "%zu elements of %zu bytes have no room", n, element);
    if (block == NULL || block->bytes - block->used < bytes) {
        void *fresh;
        const size_t all =
            HEADER + (bytes > BLOCK_BYTES - HEADER ? bytes : BLOCK_BYTES - HEADER);
        SW_TRY(sw_heap_alloc(&fresh, SW_HEAP_RECORDS, all));
        block = fresh;
        *block = (swi_scratch_block){scratch->blocks, all, HEADER};
        scratch->blocks = block;
    }
    *out = (char *)block + block->used;
    block->used += bytes;
    return SW_OK;
}

void swi_scratch_end(swi_scratch *scratch)
{
    while (scratch->blocks != NULL) {
        swi_scratch_block *block = scratch->blocks;
        scratch->blocks = block->next;
        sw_heap_free(block, SW_HEAP_RECORDS, block->bytes);
    }
}
