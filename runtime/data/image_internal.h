/* Images in files: what the reader of folders and the decoders share. Rows are decoded one
 * after the other and go where the data set keeps them, resized on the way, so that no image is
 * whole in memory but where its format has it so (interlaced PNG, progressive JPEG). */
#pragma once

#include "runtime/data/data_internal.h"
#include <setjmp.h>

/* The most that one image may have: larger is taken for damage or a bomb. */
#define SWI_IMAGE_SIDE 65536
#define SWI_IMAGE_PIXELS ((int64_t)1 << 26)
/* Memory that decoding one image may take. */
#define SWI_IMAGE_BYTES ((size_t)512 << 20)

typedef struct {
    int64_t w, h;
    int channels; /* 1 (gray) or 3 (red, green, blue) */
} swi_image_head;

/* Where an image goes: `begin` once its head is known, then each of its rows, h of w *
 * channels bytes. */
typedef struct {
    void *context;
    sw_status (*begin)(void *context,
                       const swi_image_head *head); /* NULL: the head is enough */
    void (*row)(void *context, const unsigned char *pixels);
} swi_image_to;

/* A file of an image being read: a window of it, and what was said of it. */
typedef struct {
    const char *path;
    sw_file *file;
    size_t at, n;  /* what is left of the window */
    uint64_t seen; /* bytes of the file so far */
    swi_image_head head;
    const swi_image_to *to;
    sw_status status; /* why swi_image_leave was called */
    size_t held_bytes;
    void *decoder; /* libjpeg's, which has an end of its own */
    void *held;    /* memory of our heap that the decoder has, a list */
    jmp_buf out;
    unsigned char window[16384];
} swi_image;

/* Read `path` from its head to its end. The format is what the file says, whatever its name.
 * Errors name the file: SW_FORMAT where it is damaged, cut, too large or of another format;
 * SW_UNSUPPORTED where this build does not read its format. `image` is room, and may be used
 * again. */
SW_MUST_USE sw_status swi_image_read(swi_image *image, const char *path, swi_image_head *head,
                                     const swi_image_to *to);

/* A thread's means to read images, one after the other. */
typedef struct {
    swi_image image;
    char *path; /* room of path_bytes */
} swi_image_hand;

typedef struct {
    int64_t n;
    int threads; /* at most so many, and no more than there are processors and images */
    size_t path_bytes;
    void *context;
    /* Before image k is begun, on the caller's thread: SW_OK to go on. */
    sw_status (*tell)(void *context, int64_t k);
    /* Image k, on any thread, of several at one time. */
    sw_status (*read)(void *context, int64_t k, swi_image_hand *hand);
} swi_image_work;

/* From the file's first byte on; NULL in builds without the library. `end` gives back what the
 * decoder holds, after errors too. */
typedef struct {
    const char *name;
    void (*read)(swi_image *image);
    void (*end)(swi_image *image);
} swi_image_format;
extern const swi_image_format swi_image_png, swi_image_jpeg;

/* Rows of one image become `side` x `side` x `channels` bytes in planes at `out`: gray and
 * colours as the data set has them, then resized and cut. side 0: as large as it is. */
typedef struct {
    const char *path; /* for messages */
    int64_t side;
    int channels;
    unsigned char *out;
    size_t most; /* bytes of it; an image that changed since its head was read may not fit */
    swi_image_head head;
    struct swi_resize *resize; /* tables and rows of the image at hand; NULL: as it is */
    void *block;               /* SW_HEAP_FILES */
    size_t bytes;
    unsigned char *row; /* of `channels` */
    int64_t y;          /* rows so far */
} swi_image_fit;
SW_MUST_USE sw_status swi_image_fit_begin(void *fit, const swi_image_head *head);
void swi_image_fit_row(void *fit, const unsigned char *pixels);
void swi_image_fit_end(swi_image_fit *fit); /* gives its memory back */

typedef struct {
    size_t path;     /* in `text`: "class/name.png" */
    uint32_t label;  /* which class */
    uint32_t sample; /* the reader's: which one it becomes */
} swi_image_entry;

/* The images below a folder by class and name, whatever order the file system has. */
typedef struct {
    const char *root;
    char *text; /* names of the classes, ended by zeros, and paths */
    size_t used, room;
    size_t *classes; /* where their names are, sorted */
    uint32_t n_classes, classes_room;
    swi_image_entry *images;
    uint32_t n, images_room;
} swi_image_list;
