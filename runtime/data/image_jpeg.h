/* The memory of libjpeg: its record of functions that give memory, filled with ours. */
#ifndef SW_IMAGE_JPEG_H
#define SW_IMAGE_JPEG_H

#include "runtime/data/image_internal.h"
#include <stdio.h> /* jpeglib.h needs FILE */
#include <jpeglib.h>

#define SWI_JPEG_OWN JPOOL_NUMPOOLS /* a pool of ours beside libjpeg's */

#endif
