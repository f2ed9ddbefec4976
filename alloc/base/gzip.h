/* A gzip stream over an open file, which it borrows. */
#ifndef SW_GZIP_H
#define SW_GZIP_H

#include "alloc/base/sys.h"

typedef struct sw_gzip sw_gzip;
/* SW_UNSUPPORTED in a build without zlib. */
SW_MUST_USE sw_status sw_gzip_open(sw_gzip **out, sw_file *file);
void sw_gzip_close(sw_gzip *gzip); /* NULL is fine */
/* *got < bytes only at the end. A cut or damaged stream is SW_FORMAT. */
SW_MUST_USE sw_status sw_gzip_read(sw_gzip *gzip, void *to, size_t bytes, size_t *got);
/* Start again, where the file does. */
SW_MUST_USE sw_status sw_gzip_rewind(sw_gzip *gzip);

#endif
