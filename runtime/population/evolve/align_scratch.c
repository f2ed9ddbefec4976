/* Memory of one alignment: blocks that end all at once. */
#include "runtime/population/evolve/align_internal.h"

#define BLOCK_BYTES ((size_t)1 << 15)
#define UNIT ((size_t)16)

struct swi_scratch_block {
    struct swi_scratch_block *next;
    size_t bytes, used; /* of the block, with this header */
};

#define HEADER ((sizeof(swi_scratch_block) + UNIT - 1) / UNIT * UNIT)

static sw_status add_block(swi_scratch *scratch, size_t n, size_t element)
{
    void *fresh;
    if (n > (SIZE_MAX / 2) / element)
        SW_FAIL(SW_NOMEM, "%zu elements of %zu bytes have no room", n, element);
    const size_t bytes = HEADER + UNIT + n * element;
    const size_t all = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    SW_TRY(sw_heap_alloc(&fresh, SW_HEAP_RECORDS, all));
    swi_scratch_block *block = fresh;
    *block = (swi_scratch_block){scratch->blocks, all, HEADER};
    scratch->blocks = block;
    return SW_OK;
}

void *swi_scratch_take(swi_scratch *scratch, size_t n, size_t element)
{
    swi_scratch_block *block = scratch->blocks;
    if (block == NULL || n > (block->bytes - block->used) / element) {
        if (add_block(scratch, n, element) != SW_OK)
            return NULL;
        block = scratch->blocks;
    }
    char *at = (char *)block + block->used;
    const size_t used = block->used + (n * element + UNIT - 1) / UNIT * UNIT;
    block->used = used < block->bytes ? used : block->bytes;
    return at;
}

void swi_scratch_end(swi_scratch *scratch)
{
    while (scratch->blocks != NULL) {
        swi_scratch_block *block = scratch->blocks;
        scratch->blocks = block->next;
        sw_heap_free(block, SW_HEAP_RECORDS, block->bytes);
    }
}
