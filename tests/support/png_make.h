/* PNG files made by hand: any kind of pixel, interlaced or not, stored without compression. */
#ifndef SW_TESTS_PNG_MAKE_H
#define SW_TESTS_PNG_MAKE_H

#include <stddef.h>
#include <stdint.h>

enum { PNG_GRAY = 0, PNG_COLOUR = 2, PNG_PALETTE = 3, PNG_GRAY_ALPHA = 4, PNG_ALPHA = 6 };

typedef struct {
    uint32_t w, h;
    int depth, type;
    int interlaced;
    unsigned seed; /* of the pixels */
} png_image;

/* Sample c of pixel (x, y), of `depth` bits. */
unsigned png_sample(const png_image *image, uint32_t x, uint32_t y, int c);
/* The value that a reader gives it: channel c of 1 (gray) or 3, 8 bits. */
unsigned char png_pixel(const png_image *image, uint32_t x, uint32_t y, int c);
int png_channels(const png_image *image); /* 1 or 3 */
/* The file into `to`; its bytes. `room` is enough, or 0 is the answer. */
size_t png_make(unsigned char *to, size_t room, const png_image *image);

#endif
