/* What the tests of this folder share: files with chosen bytes, IDX and gzip made by hand, and
 * a watch over what is live on the heaps. */
#ifndef SW_TESTS_DATA_FILES_H
#define SW_TESTS_DATA_FILES_H

#include "runtime/stepwell.h"
#include "tests/support/suite.h"

/* Bytes that grow; the test frees them with bytes_free. */
typedef struct {
    unsigned char *at;
    size_t n;
} bytes;

void bytes_put(bytes *b, const void *from, size_t n);
void bytes_byte(bytes *b, int value);
void bytes_u32(bytes *b, uint32_t value); /* big endian */
void bytes_free(bytes *b);

/* Write a file of the test's own folder; ends the process when that fails. */
void file_put(const char *path, const void *from, size_t n);
bytes file_get(const char *path); /* n = 0, at = NULL when it is not there */
bool file_is_there(const char *path);

/* IDX of `rank` dims in a row and `n` bytes of data. */
bytes idx_make(int rank, const uint32_t *dims, const void *data, size_t n);
/* One gzip member of stored blocks around `n` bytes. */
bytes gzip_make(const void *from, size_t n);

/* Live blocks and bytes of all heaps together. */
typedef struct {
    uint64_t blocks;
    size_t bytes;
} heap_watch;
heap_watch heap_now(void);
/* Nothing more is live than then. */
#define CHECK_NO_LEAK(then)                                                                    \
    do {                                                                                       \
        const heap_watch now_ = heap_now();                                                    \
        SW_CHECK(now_.blocks == (then).blocks && now_.bytes == (then).bytes,                   \
                 "%llu blocks of %zu bytes before, %llu of %zu after",                         \
                 (unsigned long long)(then).blocks, (then).bytes,                              \
                 (unsigned long long)now_.blocks, now_.bytes);                                 \
    } while (0)

/* A failure of `expected`, whose one-line message has `part` in it. */
bool failed_as(sw_status status, sw_status expected, const char *part);

#endif
