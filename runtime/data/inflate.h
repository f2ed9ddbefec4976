/* A stream of zlib's whose memory comes from our heap; with zlib alone (gzip.c). */
#ifndef SW_DATA_INFLATE_H
#define SW_DATA_INFLATE_H

#include "runtime/stepwell.h"
#include <zlib.h>

/* `bits` as inflateInit2 takes them; `name` in messages. Ended by inflateEnd. */
SW_MUST_USE sw_status swi_inflate_begin(z_stream *stream, int bits, const char *name);

#endif
