/* See report_heap.h. A record is read, looked at and dropped: single pieces are never freed. */
#include "tools/report_heap.h"

#if defined SW_HAVE_JANSSON && SW_HAVE_JANSSON
#include "alloc/base/mem.h"
#include <jansson.h>
#include <stdbool.h>

#define FIRST_BYTES ((size_t)64 << 10)
#define PIECE 16 /* alignment */

typedef struct block {
    struct block *before;
    size_t bytes, used; /* this header included */
} block;

static struct {
    block *top;
    size_t bytes; /* of all blocks */
    size_t next;  /* of the next block, at least */
    bool ceiling;
    sw_status refused;
    json_malloc_t malloc_before;
    json_free_t free_before;
} heap;

static bool add_block(size_t piece)
{
    const size_t header = (sizeof(block) + PIECE - 1) / PIECE * PIECE;
    const size_t wanted = header + piece, bytes = wanted > heap.next ? wanted : heap.next;
    void *fresh;
    if (bytes > REPORT_HEAP_BYTES || heap.bytes > REPORT_HEAP_BYTES - bytes) {
        heap.ceiling = true;
        return false;
    }
    const sw_status status = sw_heap_alloc(&fresh, SW_HEAP_FILES, bytes);
    if (status != SW_OK) {
        heap.refused = status; /* jansson's lexer may go on without what it could not save */
        return false;
    }
    block *b = fresh;
    *b = (block){heap.top, bytes, header};
    heap.top = b;
    heap.bytes += bytes;
    heap.next = bytes;
    return true;
}

static void *take(size_t bytes)
{
    if (bytes > REPORT_HEAP_BYTES) {
        heap.ceiling = true;
        return NULL;
    }
    const size_t piece = (bytes + PIECE - 1) / PIECE * PIECE;
    if ((heap.top == NULL || heap.top->bytes - heap.top->used < piece) && !add_block(piece))
        return NULL;
    char *at = (char *)heap.top + heap.top->used;
    heap.top->used += piece;
    return at;
}

static void keep(void *piece)
{
    (void)piece;
}

static void drop_blocks(void)
{
    while (heap.top != NULL) {
        block *b = heap.top;
        heap.top = b->before;
        sw_heap_free(b, SW_HEAP_FILES, b->bytes);
    }
    heap.bytes = 0;
}

void report_heap_begin(void)
{
    json_get_alloc_funcs(&heap.malloc_before, &heap.free_before);
    heap.next = FIRST_BYTES;
    heap.ceiling = false;
    heap.refused = SW_OK;
    json_set_alloc_funcs(take, keep);
}

/* One block as large as those before serves the next record: records are much alike. */
void report_heap_reset(void)
{
    if (heap.top != NULL && heap.top->before == NULL) {
        heap.top->used = (sizeof(block) + PIECE - 1) / PIECE * PIECE;
    } else if (heap.top != NULL) {
        heap.next = heap.bytes;
        drop_blocks();
    }
    heap.ceiling = false;
    heap.refused = SW_OK;
}

sw_status report_heap_status(const char *path, uint64_t line)
{
    if (heap.ceiling)
        SW_FAIL(SW_FORMAT, "%s: line %llu takes more than %zu bytes of memory to read", path,
                (unsigned long long)line, REPORT_HEAP_BYTES);
    return heap.refused;
}

void report_heap_end(void)
{
    drop_blocks();
    json_set_alloc_funcs(heap.malloc_before, heap.free_before);
}

#endif
