/* PNG by libpng: gray and palettes of any depth, colours, 16 bits cut to 8, transparency left
 * out, as Pillow's convert("RGB") and convert("L") have them. Sums of critical chunks are
 * checked. */
#include "runtime/data/image_internal.h"

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
        swi_image_leave(image, image->status);
    swi_image_fail(image, "damaged PNG near byte %llu: %s",
                   (unsigned long long)(image->seen - (image->n - image->at)), text);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png, (void)text; /* of chunks that are not the image */
}

static png_voidp take(png_structp png, png_alloc_size_t bytes)
{
    swi_image *image = png_get_mem_ptr(png);
    void *at = swi_image_take(image, bytes, 0);
    if (at == NULL)
        image->status = SW_NOMEM;
    return at;
}

static void give(png_structp png, png_voidp at)
{
    swi_image_give(png_get_mem_ptr(png), at);
}

static void read_bytes(png_structp png, png_bytep to, size_t bytes)
{
    swi_image *image = png_get_io_ptr(png);
    while (bytes > 0) {
        if (image->at == image->n)
            swi_image_refill(image);
        const size_t left = image->n - image->at, some = left < bytes ? left : bytes;
        memcpy(to, image->window + image->at, some);
        image->at += some;
        to += some;
        bytes -= some;
    }
}

static void open_png(swi_image *image, records *r)
{
    r->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, image, on_error, on_warning, image,
                                      take, give);
    if (r->png != NULL)
        r->info = png_create_info_struct(r->png);
    if (r->info == NULL)
        swi_image_leave(image, image->status != SW_OK
                                   ? image->status
                                   : sw_error_set(SW_NOMEM, __FILE__, __LINE__,
                                                  "%s: libpng cannot begin", image->path));
    png_set_read_fn(r->png, image, read_bytes);
    png_set_user_limits(r->png, SWI_IMAGE_SIDE, SWI_IMAGE_SIDE);
    png_set_chunk_malloc_max(r->png, CHUNK_BYTES);
    png_set_chunk_cache_max(r->png, CHUNKS);
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

/* Rows as they come; of an interlaced image when all are there. */
static void read_rows(swi_image *image, records *r)
{
    const size_t row = png_get_rowbytes(r->png, r->info);
    const int passes = png_set_interlace_handling(r->png);
    const int64_t h = image->head.h, kept = passes > 1 ? h : 1;
    if (row != (size_t)image->head.w * (size_t)image->head.channels)
        swi_image_fail(image, "PNG: rows of %zu bytes", row);
    unsigned char *rows = swi_image_take(image, (size_t)kept * row, 0);
    if (rows == NULL)
        swi_image_leave(image, SW_NOMEM);
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < h; y++) {
            unsigned char *at = rows + (passes > 1 ? (size_t)y * row : 0);
            png_read_row(r->png, at, NULL);
            if (passes == 1)
                image->to->row(image->to->context, at);
        }
    for (int64_t y = 0; y < h && passes > 1; y++)
        image->to->row(image->to->context, rows + (size_t)y * row);
}

static void read_png(swi_image *image)
{
    records *r = swi_image_take(image, sizeof *r, 0);
    if (r == NULL)
        swi_image_leave(image, SW_NOMEM);
    open_png(image, r);
    png_read_info(r->png, r->info);
    const int channels = make_plain(r);
    if (!swi_image_begin(image, png_get_image_width(r->png, r->info),
                         png_get_image_height(r->png, r->info), channels))
        return;
    (void)png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    read_rows(image, r);
    png_read_end(r->png, NULL);
}

/* All that libpng holds is in the image's list, which needs no order. */
const swi_image_format swi_image_png = {"PNG", read_png, NULL};

#else

const swi_image_format swi_image_png = {"PNG", NULL, NULL};

#endif
