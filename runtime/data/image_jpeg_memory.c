/* Memory for libjpeg from our heap: it is counted, bounded, and can be made to fail. Arrays
 * that libjpeg calls virtual, the coefficients of progressive images, are whole in memory. */
#include "runtime/data/image_internal.h"

#if SW_HAVE_JPEG

#include "runtime/data/image_jpeg.h"

/* libjpeg's vector code goes past the ends of rows, up to this (its alloc_sarray). */
#define ROW_ALIGN 64

struct jvirt_sarray_control {
    struct jvirt_sarray_control *next;
    JSAMPARRAY rows;
    JDIMENSION width, n;
};
struct jvirt_barray_control {
    struct jvirt_barray_control *next;
    JBLOCKARRAY rows;
    JDIMENSION width, n;
};

typedef struct {
    struct jpeg_memory_mgr ours; /* jpeg->mem points here */
    struct jpeg_memory_mgr *library;
    swi_image *image;
    jvirt_sarray_ptr samples; /* asked for, to be made by realize */
    jvirt_barray_ptr blocks;
} memory;

static memory *memory_of(j_common_ptr jpeg)
{
    return (memory *)(void *)jpeg->mem; /* its first member */
}

static void *take(j_common_ptr jpeg, int pool, size_t bytes)
{
    swi_image *image = memory_of(jpeg)->image;
    void *at = swi_image_take(image, bytes, pool);
    if (at == NULL)
        swi_image_leave(image, SW_NOMEM);
    return at;
}

/* Rows of `bytes` after the pointers to them; `step` from one to the next. */
static void **take_rows(j_common_ptr jpeg, int pool, size_t bytes, JDIMENSION n)
{
    const size_t step = (bytes + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    if (n > 0 && step > SWI_IMAGE_BYTES / n)
        (void)take(jpeg, pool, SWI_IMAGE_BYTES); /* too much: says so, and leaves */
    void **rows = take(jpeg, pool, n * sizeof *rows);
    unsigned char *at = take(jpeg, pool, n * step + ROW_ALIGN);
    for (JDIMENSION i = 0; i < n; i++)
        rows[i] = at + i * step;
    return rows;
}

static JSAMPARRAY take_samples(j_common_ptr jpeg, int pool, JDIMENSION width, JDIMENSION n)
{
    return (JSAMPARRAY)take_rows(jpeg, pool, width * sizeof(JSAMPLE), n);
}

static JBLOCKARRAY take_blocks(j_common_ptr jpeg, int pool, JDIMENSION width, JDIMENSION n)
{
    return (JBLOCKARRAY)take_rows(jpeg, pool, width * sizeof(JBLOCK), n);
}

static jvirt_sarray_ptr request_samples(j_common_ptr jpeg, int pool, boolean zero,
                                        JDIMENSION width, JDIMENSION n, JDIMENSION at_once)
{
    jvirt_sarray_ptr v = take(jpeg, pool, sizeof *v);
    (void)zero, (void)at_once; /* memory is zeros, and whole */
    *v = (struct jvirt_sarray_control){memory_of(jpeg)->samples, NULL, width, n};
    memory_of(jpeg)->samples = v;
    return v;
}

static jvirt_barray_ptr request_blocks(j_common_ptr jpeg, int pool, boolean zero,
                                       JDIMENSION width, JDIMENSION n, JDIMENSION at_once)
{
    jvirt_barray_ptr v = take(jpeg, pool, sizeof *v);
    (void)zero, (void)at_once;
    *v = (struct jvirt_barray_control){memory_of(jpeg)->blocks, NULL, width, n};
    memory_of(jpeg)->blocks = v;
    return v;
}

static void realize(j_common_ptr jpeg)
{
    memory *m = memory_of(jpeg);
    for (; m->samples != NULL; m->samples = m->samples->next)
        m->samples->rows = take_samples(jpeg, JPOOL_IMAGE, m->samples->width, m->samples->n);
    for (; m->blocks != NULL; m->blocks = m->blocks->next)
        m->blocks->rows = take_blocks(jpeg, JPOOL_IMAGE, m->blocks->width, m->blocks->n);
}

static void check_access(j_common_ptr jpeg, bool is_made, JDIMENSION all, JDIMENSION first,
                         JDIMENSION n)
{
    if (!is_made || first > all || n > all - first)
        swi_image_fail(memory_of(jpeg)->image, "JPEG: rows %u to %u of %u are asked for", first,
                       first + n, all);
}

static JSAMPARRAY access_samples(j_common_ptr jpeg, jvirt_sarray_ptr v, JDIMENSION first,
                                 JDIMENSION n, boolean writes)
{
    (void)writes;
    check_access(jpeg, v->rows != NULL, v->n, first, n);
    return v->rows + first;
}

static JBLOCKARRAY access_blocks(j_common_ptr jpeg, jvirt_barray_ptr v, JDIMENSION first,
                                 JDIMENSION n, boolean writes)
{
    (void)writes;
    check_access(jpeg, v->rows != NULL, v->n, first, n);
    return v->rows + first;
}

static void free_pool(j_common_ptr jpeg, int pool)
{
    memory *m = memory_of(jpeg);
    if (pool == JPOOL_IMAGE) {
        m->samples = NULL;
        m->blocks = NULL;
    }
    swi_image_give_pool(m->image, pool);
}

/* The library's own record is still there, and knows what it took. */
static void end(j_common_ptr jpeg)
{
    memory *m = memory_of(jpeg);
    free_pool(jpeg, JPOOL_IMAGE);
    free_pool(jpeg, JPOOL_PERMANENT);
    jpeg->mem = m->library;
    jpeg->mem->self_destruct(jpeg);
}

void swi_jpeg_memory(struct jpeg_decompress_struct *jpeg, swi_image *image)
{
    memory *m = swi_image_take(image, sizeof *m, SWI_JPEG_OWN);
    if (m == NULL)
        swi_image_leave(image, SW_NOMEM);
    m->library = jpeg->mem;
    m->image = image;
    m->ours = (struct jpeg_memory_mgr){.alloc_small = take,
                                       .alloc_large = take,
                                       .alloc_sarray = take_samples,
                                       .alloc_barray = take_blocks,
                                       .request_virt_sarray = request_samples,
                                       .request_virt_barray = request_blocks,
                                       .realize_virt_arrays = realize,
                                       .access_virt_sarray = access_samples,
                                       .access_virt_barray = access_blocks,
                                       .free_pool = free_pool,
                                       .self_destruct = end,
                                       .max_memory_to_use = (long)SWI_IMAGE_BYTES,
                                       .max_alloc_chunk = (long)SWI_IMAGE_BYTES};
    jpeg->mem = &m->ours;
}

#endif
