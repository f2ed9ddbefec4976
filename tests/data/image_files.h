/* Images for the tests of the reader of folders: PNG made by hand, JPEG by libjpeg. */
#ifndef SW_TESTS_IMAGE_FILES_H
#define SW_TESTS_IMAGE_FILES_H

#include "tests/data/data_files.h"
#include "tests/support/png_make.h"

/* Make the folder of the test's folder that `path` ("cat/more") names, and what it is in. */
void folder_make(const char *path);
/* A PNG at "cat/1.png"; its folder is made where it is not there. */
void put_png(const char *path, png_image image);
bytes png_bytes(png_image image);

/* The properties of JPEG files. */
typedef struct {
    unsigned w, h;
    int components; /* 1, 3, or 4 for CMYK */
    int quality, progressive;
    int scans; /* of a progressive gray one, instead of the usual; 0: those */
    unsigned seed;
} jpeg_image;
/* Builds without libjpeg have none: n 0. */
bytes jpeg_bytes(jpeg_image image);
void put_jpeg(const char *path, jpeg_image image);

/* How the test's folder is read: data_read of one part and of two. */
extern sw_images_opts image_opts;
sw_status images_read_one(sw_dataset *part[2]);
sw_status images_read_both(sw_dataset *part[2]);
/* A new folder, and the defaults. */
void images_begin(void);
#define IMAGES_BEGIN()                                                                         \
    do {                                                                                       \
        if (!SW_HAVE_PNG)                                                                      \
            SW_SKIP("built without libpng");                                                   \
        images_begin();                                                                        \
    } while (0)

#endif
