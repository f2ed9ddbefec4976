/* One image of a file: its window, the memory of its decoder, and the way out of it.
 *
 * libpng and libjpeg report by functions that may not return: swi_image_leave jumps to
 * swi_image_read, past their frames and nothing of ours that has to be undone. All that a
 * decoder holds is in the list that swi_image_read gives back. */
#include "runtime/data/image_internal.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- image file -------------------------------------------------------------------------- */

/* ---- the way out ------------------------------------------------------------------------- */

/* End the decoding, with an error that is set; does not return. Memory that was taken by
 * image_take is given back; the decoder's own end comes first. */
static _Noreturn void image_leave(swi_image *image, sw_status status)
{
    image->status = status;
    longjmp(image->out, 1);
}

/* The same, with the file's name before the message. */
static _Noreturn void image_fail(swi_image *image, const char *format, ...)
{
    char what[256];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    image_leave(image,
                sw_error_set(SW_FORMAT, __FILE__, __LINE__, "%s: %s", image->path, what));
}

/* Fill the empty window; a file that has no more is cut. */
static void image_refill(swi_image *image)
{
    size_t got;
    const sw_status status =
        sw_file_read(image->file, image->window, sizeof image->window, &got);
    if (status != SW_OK)
        image_leave(image, status);
    if (got == 0 && image->seen == 0)
        image_fail(image, "empty; an image was expected");
    if (got == 0)
        image_fail(image, "cut after %llu bytes", (unsigned long long)image->seen);
    image->at = 0;
    image->n = got;
    image->seen += got;
}

/* The head is known: checks it, and begins. false: no more is to be read. */
static bool image_begin(swi_image *image, int64_t w, int64_t h, int channels)
{
    if (w < 1 || h < 1 || w > SWI_IMAGE_SIDE || h > SWI_IMAGE_SIDE || w * h > SWI_IMAGE_PIXELS)
        image_fail(image,
                   "an image must have at most %d pixels on a side and %lld in all (got "
                   "%lld x %lld)",
                   SWI_IMAGE_SIDE, (long long)SWI_IMAGE_PIXELS, (long long)w, (long long)h);
    image->head = (swi_image_head){w, h, channels};
    if (image->to->begin == NULL)
        return false;
    const sw_status status = image->to->begin(image->to->context, &image->head);
    if (status != SW_OK)
        image_leave(image, status);
    return true;
}

/* ---- memory of decoders ------------------------------------------------------------------ */

#define ALIGN 64

/* Before each block. */
typedef struct held {
    struct held *next, *before;
    void *block; /* what the heap gave */
    size_t bytes;
    int pool;
} held;

static void *image_take(swi_image *image, size_t bytes, int pool)
{
    const size_t more = sizeof(held) + ALIGN;
    void *block;
    if (bytes > SWI_IMAGE_BYTES - more || image->held_bytes > SWI_IMAGE_BYTES - more - bytes) {
        (void)sw_error_set(SW_NOMEM, __FILE__, __LINE__,
                           "%s: decoding it takes more than %zu bytes", image->path,
                           SWI_IMAGE_BYTES);
        return NULL;
    }
    if (sw_heap_alloc(&block, SW_HEAP_FILES, bytes + more) != SW_OK)
        return NULL;
    const size_t over = ((uintptr_t)block + sizeof(held)) % ALIGN;
    unsigned char *at = (unsigned char *)block + sizeof(held) + (ALIGN - over) % ALIGN;
    held *h = (held *)(void *)at - 1;
    *h = (held){.next = image->held, .block = block, .bytes = bytes + more, .pool = pool};
    if (h->next != NULL)
        h->next->before = h;
    image->held = h;
    image->held_bytes += h->bytes;
    return at;
}

static void image_give(swi_image *image, void *block)
{
    if (block == NULL)
        return;
    held *h = (held *)block - 1;
    if (h->before != NULL)
        h->before->next = h->next;
    else
        image->held = h->next;
    if (h->next != NULL)
        h->next->before = h->before;
    image->held_bytes -= h->bytes;
    sw_heap_free(h->block, SW_HEAP_FILES, h->bytes);
}

/* Memory for the decoder, zeros, aligned to 64; NULL where there is none (the error is set).
 * Given back one by one, or all at the end. */
static void image_give_pool(swi_image *image, int pool)
{
    for (held *h = image->held, *next; h != NULL; h = next) {
        next = h->next;
        if (h->pool == pool || pool < 0)
            image_give(image, h + 1);
    }
}

/* ---- reading ----------------------------------------------------------------------------- */

static const swi_image_format *format_of(const swi_image *image)
{
    static const unsigned char png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    static const unsigned char jpeg[] = {0xff, 0xd8, 0xff};
    if (image->n >= sizeof png && memcmp(image->window, png, sizeof png) == 0)
        return &swi_image_png;
    if (image->n >= sizeof jpeg && memcmp(image->window, jpeg, sizeof jpeg) == 0)
        return &swi_image_jpeg;
    return NULL;
}

/* The one frame that is jumped to. */
static sw_status guarded(swi_image *image)
{
    if (setjmp(image->out) != 0)
        return image->status;
    if (sw_file_waits(image->file))
        image_fail(image, "an image must be a regular file (this is a pipe or terminal)");
    image_refill(image);
    const swi_image_format *format = format_of(image);
    if (format == NULL)
        image_fail(image, "it begins as neither PNG nor JPEG does: convert it to one of "
                          "them");
    if (format->read == NULL)
        image_leave(image, sw_error_set(SW_UNSUPPORTED, __FILE__, __LINE__,
                                        "%s: this build reads no %s (lib%s is off): install "
                                        "its headers and configure again",
                                        image->path, format->name,
                                        format == &swi_image_png ? "png" : "jpeg"));
    format->read(image);
    return SW_OK;
}

sw_status swi_image_read(swi_image *image, const char *path, swi_image_head *head,
                         const swi_image_to *to)
{
    memset(image, 0, offsetof(swi_image, window));
    image->path = path;
    image->to = to;
    SW_TRY(sw_file_open(&image->file, path, SW_FILE_READ));
    const sw_status status = guarded(image);
    if (swi_image_png.end != NULL)
        swi_image_png.end(image);
    if (swi_image_jpeg.end != NULL)
        swi_image_jpeg.end(image);
    image_give_pool(image, -1);
    sw_file_drop(image->file);
    if (status == SW_OK && head != NULL)
        *head = image->head;
    return status;
}

/* ---- image png --------------------------------------------------------------------------- */

/* PNG by libpng: gray and palettes of any depth, colours, 16 bits cut to 8, transparency left
 * out, as Pillow's convert("RGB") and convert("L") have them. Sums of critical chunks are
 * checked. */

#if SW_HAVE_PNG

#include <png.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES                                                                            \
    ((size_t)8 << 20) /* of a chunk that is not the image: colour profile, text */
#define CHUNKS 128    /* that libpng may keep */

/* libpng's two records; the first is an allocation of its own. */
typedef struct {
    png_structp png;
    png_infop info;
} records;

static _Noreturn void on_error(png_structp png, png_const_charp text)
{
    swi_image *image = png_get_error_ptr(png);
    if (image->status != SW_OK) /* memory or the file: it is said */
        image_leave(image, image->status);
    image_fail(image, "damaged PNG near byte %llu: %s",
               (unsigned long long)(image->seen - (image->n - image->at)), text);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png, (void)text; /* of chunks that are not the image */
}

static png_voidp take(png_structp png, png_alloc_size_t bytes)
{
    swi_image *image = png_get_mem_ptr(png);
    void *at = image_take(image, bytes, 0);
    if (at == NULL)
        image->status = SW_NOMEM;
    return at;
}

static void give(png_structp png, png_voidp at)
{
    image_give(png_get_mem_ptr(png), at);
}

static void read_bytes(png_structp png, png_bytep to, size_t bytes)
{
    swi_image *image = png_get_io_ptr(png);
    while (bytes > 0) {
        if (image->at == image->n)
            image_refill(image);
        const size_t left = image->n - image->at, some = left < bytes ? left : bytes;
        memcpy(to, image->window + image->at, some);
        image->at += some;
        to += some;
        bytes -= some;
    }
}

/* 8 bits, gray or colours, no transparency. */
static int make_plain(records *r)
{
    const int type = png_get_color_type(r->png, r->info);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(r->png);
    else if (type == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(r->png, r->info) < 8)
        png_set_expand_gray_1_2_4_to_8(r->png);
    png_set_strip_16(r->png);
    png_set_strip_alpha(r->png);
    return (type & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1;
}

static void read_png(swi_image *image)
{
    records *r = image_take(image, sizeof *r, 0);
    if (r == NULL)
        image_leave(image, SW_NOMEM);
    r->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, image, on_error, on_warning, image,
                                      take, give);
    if (r->png != NULL)
        r->info = png_create_info_struct(r->png);
    if (r->info == NULL)
        image_leave(image, image->status != SW_OK
                               ? image->status
                               : sw_error_set(SW_NOMEM, __FILE__, __LINE__,
                                              "%s: libpng cannot begin", image->path));
    png_set_read_fn(r->png, image, read_bytes);
    png_set_user_limits(r->png, SWI_IMAGE_SIDE, SWI_IMAGE_SIDE);
    png_set_chunk_malloc_max(r->png, CHUNK_BYTES);
    png_set_chunk_cache_max(r->png, CHUNKS);
    png_read_info(r->png, r->info);
    const int channels = make_plain(r);
    if (!image_begin(image, png_get_image_width(r->png, r->info),
                     png_get_image_height(r->png, r->info), channels))
        return;
    (void)png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    /* Rows as they come; of an interlaced image when all are there. */
    const size_t row = png_get_rowbytes(r->png, r->info);
    const int passes = png_set_interlace_handling(r->png);
    const int64_t h = image->head.h, kept = passes > 1 ? h : 1;
    if (row != (size_t)image->head.w * (size_t)image->head.channels)
        image_fail(image, "PNG: rows of %zu bytes", row);
    unsigned char *rows = image_take(image, (size_t)kept * row, 0);
    if (rows == NULL)
        image_leave(image, SW_NOMEM);
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < h; y++) {
            unsigned char *at = rows + (passes > 1 ? (size_t)y * row : 0);
            png_read_row(r->png, at, NULL);
            if (passes == 1)
                image->to->row(image->to->context, at);
        }
    for (int64_t y = 0; y < h && passes > 1; y++)
        image->to->row(image->to->context, rows + (size_t)y * row);
    png_read_end(r->png, NULL);
}

/* All that libpng holds is in the image's list, which needs no order. */
const swi_image_format swi_image_png = {"PNG", read_png, NULL};

#else

const swi_image_format swi_image_png = {"PNG", NULL, NULL};

#endif

/* ---- image jpeg memory ------------------------------------------------------------------- */

/* Memory for libjpeg from our heap: it is counted, bounded, and can be made to fail. Arrays
 * that libjpeg calls virtual, the coefficients of progressive images, are whole in memory. */

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

static void *take_memory(j_common_ptr jpeg, int pool, size_t bytes)
{
    swi_image *image = memory_of(jpeg)->image;
    void *at = image_take(image, bytes, pool);
    if (at == NULL)
        image_leave(image, SW_NOMEM);
    return at;
}

/* Rows of `bytes` after the pointers to them; `step` from one to the next. */
static void **take_rows(j_common_ptr jpeg, int pool, size_t bytes, JDIMENSION n)
{
    const size_t step = (bytes + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    if (n > 0 && step > SWI_IMAGE_BYTES / n)
        (void)take_memory(jpeg, pool, SWI_IMAGE_BYTES); /* too much: says so, and leaves */
    void **rows = take_memory(jpeg, pool, n * sizeof *rows);
    unsigned char *at = take_memory(jpeg, pool, n * step + ROW_ALIGN);
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
    jvirt_sarray_ptr v = take_memory(jpeg, pool, sizeof *v);
    (void)zero, (void)at_once; /* memory is zeros, and whole */
    *v = (struct jvirt_sarray_control){memory_of(jpeg)->samples, NULL, width, n};
    memory_of(jpeg)->samples = v;
    return v;
}

static jvirt_barray_ptr request_blocks(j_common_ptr jpeg, int pool, boolean zero,
                                       JDIMENSION width, JDIMENSION n, JDIMENSION at_once)
{
    jvirt_barray_ptr v = take_memory(jpeg, pool, sizeof *v);
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
        image_fail(memory_of(jpeg)->image, "JPEG: rows %u to %u of %u are asked for", first,
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
    image_give_pool(m->image, pool);
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

#endif

/* ---- image jpeg -------------------------------------------------------------------------- */

/* JPEG by libjpeg: gray and colours, with the slow integer transform and smooth upsampling, as
 * Pillow reads it. Data that the library warns of are damage here, and the library's memory is
 * ours (image_jpeg_memory.c). */

#if SW_HAVE_JPEG

#include "runtime/data/image_jpeg.h"
#include <jerror.h>

#define SCANS 200 /* of a progressive image: each is a pass over all of it */

typedef struct {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr error;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
} decoder;

static swi_image *image_of(j_common_ptr jpeg)
{
    return jpeg->client_data;
}

static _Noreturn void fail(j_common_ptr jpeg)
{
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    image_fail(image_of(jpeg), "damaged JPEG near byte %llu: %s",
               (unsigned long long)image_of(jpeg)->seen, text);
}

static void on_error_jpeg(j_common_ptr jpeg)
{
    fail(jpeg);
}

/* Levels from 0 on are traces. Bytes between segments and odd versions change no pixel. */
static void on_message(j_common_ptr jpeg, int level)
{
    const int code = jpeg->err->msg_code;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_JFIF_MAJOR &&
        code != JWRN_ADOBE_XFORM)
        fail(jpeg);
}

static void on_progress(j_common_ptr jpeg)
{
    if (((j_decompress_ptr)jpeg)->input_scan_number > SCANS)
        image_fail(image_of(jpeg), "JPEG: more than %d scans", SCANS);
}

/* ---- bytes of the file ------------------------------------------------------------------- */

static void nothing(j_decompress_ptr jpeg)
{
    (void)jpeg;
}

static boolean refill(j_decompress_ptr jpeg)
{
    swi_image *image = jpeg->client_data;
    image_refill(image);
    jpeg->src->next_input_byte = image->window;
    jpeg->src->bytes_in_buffer = image->n;
    return TRUE;
}

static void skip(j_decompress_ptr jpeg, long bytes)
{
    while (bytes > 0 && (size_t)bytes > jpeg->src->bytes_in_buffer) {
        bytes -= (long)jpeg->src->bytes_in_buffer;
        (void)refill(jpeg);
    }
    if (bytes > 0) {
        jpeg->src->next_input_byte += bytes;
        jpeg->src->bytes_in_buffer -= (size_t)bytes;
    }
}

/* ---- decoding ---------------------------------------------------------------------------- */

static decoder *open_jpeg(swi_image *image)
{
    decoder *d = image_take(image, sizeof *d, SWI_JPEG_OWN);
    if (d == NULL)
        image_leave(image, SW_NOMEM);
    d->jpeg.err = jpeg_std_error(&d->error);
    d->error.error_exit = on_error_jpeg;
    d->error.emit_message = on_message;
    d->jpeg.client_data = image;
    image->decoder = d; /* mem is NULL until there is something to give back */
    jpeg_create_decompress(&d->jpeg);
    /* From here on jpeg's memory comes from the image's heap, within SWI_IMAGE_BYTES. Memory
     * that jpeg_create_decompress took before stays with the library, which gets it back at
     * the end. */
    memory *m = image_take(image, sizeof *m, SWI_JPEG_OWN);
    if (m == NULL)
        image_leave(image, SW_NOMEM);
    m->library = d->jpeg.mem;
    m->image = image;
    m->ours = (struct jpeg_memory_mgr){.alloc_small = take_memory,
                                       .alloc_large = take_memory,
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
    d->jpeg.mem = &m->ours;
    d->source = (struct jpeg_source_mgr){.next_input_byte = image->window,
                                         .bytes_in_buffer = image->n,
                                         .init_source = nothing,
                                         .fill_input_buffer = refill,
                                         .skip_input_data = skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = nothing};
    d->jpeg.src = &d->source;
    d->progress.progress_monitor = on_progress;
    d->jpeg.progress = &d->progress;
    return d;
}

static void read_jpeg(swi_image *image)
{
    decoder *d = open_jpeg(image);
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    (void)jpeg_read_header(jpeg, TRUE);
    if (jpeg->num_components != 1 && jpeg->num_components != 3)
        image_fail(image,
                   "JPEG: must have 1 or 3 components, gray or colours (got %d; CMYK has 4): "
                   "convert it to RGB",
                   jpeg->num_components);
    if (!image_begin(image, jpeg->image_width, jpeg->image_height, jpeg->num_components))
        return;
    jpeg->out_color_space = jpeg->num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg->dct_method = JDCT_ISLOW;
    (void)jpeg_start_decompress(jpeg);
    const size_t row = (size_t)image->head.w * (size_t)image->head.channels;
    if (jpeg->output_width != image->head.w || jpeg->output_height != image->head.h ||
        jpeg->output_components != image->head.channels)
        image_fail(image, "JPEG: rows of %u x %d bytes", jpeg->output_width,
                   jpeg->output_components);
    unsigned char *at = image_take(image, row, SWI_JPEG_OWN);
    if (at == NULL)
        image_leave(image, SW_NOMEM);
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW rows[1] = {at};
        (void)jpeg_read_scanlines(jpeg, rows, 1);
        image->to->row(image->to->context, at);
    }
    (void)jpeg_finish_decompress(jpeg);
}

static void end_jpeg(swi_image *image)
{
    decoder *d = image->decoder;
    if (d != NULL)
        jpeg_destroy_decompress(&d->jpeg);
    image->decoder = NULL;
}

const swi_image_format swi_image_jpeg = {"JPEG", read_jpeg, end_jpeg};

#else

const swi_image_format swi_image_jpeg = {"JPEG", NULL, NULL};

#endif
