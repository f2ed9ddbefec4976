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

/* ---- the way out ------------------------------------------------------------------------- */

_Noreturn void swi_image_leave(swi_image *image, sw_status status)
{
    image->status = status;
    longjmp(image->out, 1);
}

_Noreturn void swi_image_fail(swi_image *image, const char *format, ...)
{
    char what[256];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    swi_image_leave(image,
                    sw_error_set(SW_FORMAT, __FILE__, __LINE__, "%s: %s", image->path, what));
}

void swi_image_refill(swi_image *image)
{
    size_t got;
    const sw_status status =
        sw_file_read(image->file, image->window, sizeof image->window, &got);
    if (status != SW_OK)
        swi_image_leave(image, status);
    if (got == 0 && image->seen == 0)
        swi_image_fail(image, "empty; an image was expected");
    if (got == 0)
        swi_image_fail(image, "cut after %llu bytes", (unsigned long long)image->seen);
    image->at = 0;
    image->n = got;
    image->seen += got;
}

bool swi_image_begin(swi_image *image, int64_t w, int64_t h, int channels)
{
    if (w < 1 || h < 1 || w > SWI_IMAGE_SIDE || h > SWI_IMAGE_SIDE || w * h > SWI_IMAGE_PIXELS)
        swi_image_fail(image,
                       "an image must have at most %d pixels on a side and %lld in all (got "
                       "%lld x %lld)",
                       SWI_IMAGE_SIDE, (long long)SWI_IMAGE_PIXELS, (long long)w, (long long)h);
    image->head = (swi_image_head){w, h, channels};
    if (image->to->begin == NULL)
        return false;
    const sw_status status = image->to->begin(image->to->context, &image->head);
    if (status != SW_OK)
        swi_image_leave(image, status);
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

void *swi_image_take(swi_image *image, size_t bytes, int pool)
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

void swi_image_give(swi_image *image, void *block)
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

void swi_image_give_pool(swi_image *image, int pool)
{
    for (held *h = image->held, *next; h != NULL; h = next) {
        next = h->next;
        if (h->pool == pool || pool < 0)
            swi_image_give(image, h + 1);
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

static void read_open(swi_image *image)
{
    if (sw_file_waits(image->file))
        swi_image_fail(image, "an image must be a regular file (this is a pipe or terminal)");
    swi_image_refill(image);
    const swi_image_format *format = format_of(image);
    if (format == NULL)
        swi_image_fail(image, "it begins as neither PNG nor JPEG does: convert it to one of "
                              "them");
    if (format->read == NULL)
        swi_image_leave(image,
                        sw_error_set(SW_UNSUPPORTED, __FILE__, __LINE__,
                                     "%s: this build reads no %s (lib%s is off): install "
                                     "its headers and configure again",
                                     image->path, format->name,
                                     format == &swi_image_png ? "png" : "jpeg"));
    format->read(image);
}

/* The one frame that is jumped to. */
static sw_status guarded(swi_image *image)
{
    if (setjmp(image->out) != 0)
        return image->status;
    read_open(image);
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
    swi_image_give_pool(image, -1);
    sw_file_drop(image->file);
    if (status == SW_OK && head != NULL)
        *head = image->head;
    return status;
}
