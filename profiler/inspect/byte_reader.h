/* Bytes of a file, one after another, counted: errors of readers of formats name the byte.
 * Bytes that gzip compressed are inflated on the way. */
#ifndef STEPWELL_BYTE_READER_H
#define STEPWELL_BYTE_READER_H

#include "alloc/base/gzip.h"

typedef struct {
    sw_file *file;
    sw_gzip *gzip; /* of a file that is compressed; NULL */
    const char *path;
    uint64_t at; /* of the next byte */
    size_t begin, end;
    char *text; /* of the latest byte_reader_take, grows */
    size_t text_capacity;
    unsigned char buffer[65536];
} byte_reader;

SW_MUST_USE sw_status byte_reader_open(byte_reader *r, const char *path);
void byte_reader_close(byte_reader *r);
/* All of them, at most: of a compressed file what it may hold. */
SW_MUST_USE sw_status byte_reader_bytes(byte_reader *r, uint64_t *out);
/* The next byte, 0 to 255; -1 at the end of the file. */
SW_MUST_USE sw_status byte_reader_next(byte_reader *r, int *out);
SW_MUST_USE sw_status byte_reader_peek(byte_reader *r, int *out);
/* The next n bytes, at r->text; SW_FORMAT where the file ends before. It never takes more than
 * the file turned out to have. */
SW_MUST_USE sw_status byte_reader_take(byte_reader *r, uint64_t n);
/* n bytes as a number, the lowest first; n is at most 8. */
SW_MUST_USE sw_status byte_reader_number(byte_reader *r, size_t n, uint64_t *out);

#endif
