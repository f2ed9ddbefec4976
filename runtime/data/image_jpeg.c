/* JPEG by libjpeg: gray and colours, with the slow integer transform and smooth upsampling, as
 * Pillow reads it. Data that the library warns of are damage here, and the library's memory is
 * ours (image_jpeg_memory.c). */
#include "runtime/data/image_internal.h"

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
    swi_image_fail(image_of(jpeg), "damaged JPEG near byte %llu: %s",
                   (unsigned long long)image_of(jpeg)->seen, text);
}

static void on_error(j_common_ptr jpeg)
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
        swi_image_fail(image_of(jpeg), "JPEG: more than %d scans", SCANS);
}

/* ---- bytes of the file ------------------------------------------------------------------- */

static void nothing(j_decompress_ptr jpeg)
{
    (void)jpeg;
}

static boolean refill(j_decompress_ptr jpeg)
{
    swi_image *image = jpeg->client_data;
    swi_image_refill(image);
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
    decoder *d = swi_image_take(image, sizeof *d, SWI_JPEG_OWN);
    if (d == NULL)
        swi_image_leave(image, SW_NOMEM);
    d->jpeg.err = jpeg_std_error(&d->error);
    d->error.error_exit = on_error;
    d->error.emit_message = on_message;
    d->jpeg.client_data = image;
    image->decoder = d; /* mem is NULL until there is something to give back */
    jpeg_create_decompress(&d->jpeg);
    swi_jpeg_memory(&d->jpeg, image);
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

static void read_rows(swi_image *image, struct jpeg_decompress_struct *jpeg)
{
    const size_t row = (size_t)image->head.w * (size_t)image->head.channels;
    if (jpeg->output_width != image->head.w || jpeg->output_height != image->head.h ||
        jpeg->output_components != image->head.channels)
        swi_image_fail(image, "JPEG: rows of %u x %d bytes", jpeg->output_width,
                       jpeg->output_components);
    unsigned char *at = swi_image_take(image, row, SWI_JPEG_OWN);
    if (at == NULL)
        swi_image_leave(image, SW_NOMEM);
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW rows[1] = {at};
        (void)jpeg_read_scanlines(jpeg, rows, 1);
        image->to->row(image->to->context, at);
    }
}

static void read_jpeg(swi_image *image)
{
    decoder *d = open_jpeg(image);
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    (void)jpeg_read_header(jpeg, TRUE);
    if (jpeg->num_components != 1 && jpeg->num_components != 3)
        swi_image_fail(
            image,
            "JPEG: must have 1 or 3 components, gray or colours (got %d; CMYK has 4): "
            "convert it to RGB",
            jpeg->num_components);
    if (!swi_image_begin(image, jpeg->image_width, jpeg->image_height, jpeg->num_components))
        return;
    jpeg->out_color_space = jpeg->num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg->dct_method = JDCT_ISLOW;
    (void)jpeg_start_decompress(jpeg);
    read_rows(image, jpeg);
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
