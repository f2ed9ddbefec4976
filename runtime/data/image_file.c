/* One image of a file: its window, the memory of its decoder, and the way out of it.
 *
 * libpng and libjpeg report by functions that may not return: swi_image_leave jumps to
 * swi_image_read, past their frames and nothing of ours that has to be undone. All that a
 * decoder holds is in the list that swi_image_read gives back. */
#include "runtime/data/image_internal.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
} held;

/* Memory for the decoder, zeros, aligned to 64; NULL where there is none (the error is set).
 * Given back one by one, or all at the end. */
static void *image_take(swi_image *image, size_t bytes)
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
    *h = (held){.next = image->held, .block = block, .bytes = bytes + more};
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
        image_fail(image, "it begins as neither PNG nor JPEG does: convert it to one of them");
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
    while (image->held != NULL)
        image_give(image, (held *)image->held + 1);
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
    void *at = image_take(image, bytes);
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

static void read_png(swi_image *image)
{
    records *r = image_take(image, sizeof *r);
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
    /* 8 bits, gray or colours, no transparency. */
    const int type = png_get_color_type(r->png, r->info);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(r->png);
    else if (type == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(r->png, r->info) < 8)
        png_set_expand_gray_1_2_4_to_8(r->png);
    png_set_strip_16(r->png);
    png_set_strip_alpha(r->png);
    const int channels = (type & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1;
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
    unsigned char *rows = image_take(image, (size_t)kept * row);
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

/* ---- image jpeg -------------------------------------------------------------------------- */

/* JPEG by libjpeg: gray and colours, with the slow integer transform and smooth upsampling, as
 * Pillow reads it. Data that the library warns of are damage here. Its memory is its own, and
 * begins to grow with the image once image_begin has bounded that. */

#if SW_HAVE_JPEG

#include <jpeglib.h>
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
    if (jpeg->err->msg_code == JERR_OUT_OF_MEMORY)
        image_leave(image_of(jpeg),
                    sw_error_set(SW_NOMEM, __FILE__, __LINE__, "%s: no memory to decode it",
                                 image_of(jpeg)->path));
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
    decoder *d = image_take(image, sizeof *d);
    if (d == NULL)
        image_leave(image, SW_NOMEM);
    d->jpeg.err = jpeg_std_error(&d->error);
    d->error.error_exit = on_error_jpeg;
    d->error.emit_message = on_message;
    d->jpeg.client_data = image;
    image->decoder = d; /* mem is NULL until there is something to give back */
    jpeg_create_decompress(&d->jpeg);
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
    unsigned char *at = image_take(image, row);
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
