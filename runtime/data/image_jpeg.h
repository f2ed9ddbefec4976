/* The memory of libjpeg: its record of functions that give memory, filled with ours. */
#ifndef SW_IMAGE_JPEG_H
#define SW_IMAGE_JPEG_H

#include "runtime/data/image_internal.h"
#include <stdio.h> /* jpeglib.h needs FILE */
#include <jpeglib.h>

#define SWI_JPEG_OWN JPOOL_NUMPOOLS /* a pool of ours beside libjpeg's */

/* From here on jpeg's memory comes from the image's heap, within SWI_IMAGE_BYTES. Memory that
 * jpeg_create_decompress took before stays with the library, which gets it back at the end. */
void swi_jpeg_memory(struct jpeg_decompress_struct *jpeg, swi_image *image);

#endif
