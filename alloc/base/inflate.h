/* A stream of zlib's with memory from our heap; with zlib alone (gzip.c). */
#pragma once

#include "alloc/base/base.h"
#include <zlib.h>

/* `bits` as inflateInit2 takes them; `name` in messages. Ended by inflateEnd. */
SW_MUST_USE sw_status sw_inflate_begin(z_stream *stream, int bits, const char *name);
