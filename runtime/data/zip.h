/* Zip archives, as NumPy and others write them: their list of files, and one file as a
 * stream. */
#pragma once

#include "runtime/data/data_internal.h"

typedef struct {
    const char *name; /* of name_bytes; not ended by a zero */
    size_t name_bytes;
    int method; /* 0: stored, 8: deflated */
    bool encrypted;
    uint32_t crc;
    uint64_t packed, bytes; /* in the archive, and unpacked */
    uint64_t header;        /* where its own header begins */
} swi_zip_file;

/* The list, which lies in memory; an open file. */
typedef struct {
    sw_file *file;
    uint64_t bytes; /* of the archive */
    unsigned char *list;
    size_t list_bytes, at;
} swi_zip;

/* Open PATH, which may be any regular file: the next byte of `file` is its first. On failure
 * nothing is kept. */
SW_MUST_USE sw_status swi_zip_open(swi_zip *zip, const char *path);
/* Read the list of an open one. A list that does not fit the file is SW_FORMAT. */
SW_MUST_USE sw_status swi_zip_list(swi_zip *zip);
void swi_zip_close(swi_zip *zip); /* all zero is fine */
/* One file after the other, from the first after opening or `zip->at` = 0; *more false after
 * the last. */
SW_MUST_USE sw_status swi_zip_next(swi_zip *zip, swi_zip_file *out, bool *more);

/* One file of an archive, unpacked on the way, by a file of its own. At its end its length and
 * checksum are held against the list's. */
typedef struct swi_zip_member swi_zip_member;
/* More than `unpack_bytes` (0: SWI_UNPACK_BYTES) to unpack is SW_NOMEM. */
SW_MUST_USE sw_status swi_zip_member_open(swi_zip_member **out, const swi_zip *zip,
                                          const swi_zip_file *file, size_t unpack_bytes);
void swi_zip_member_close(swi_zip_member *member);             /* NULL is fine */
const char *swi_zip_member_name(const swi_zip_member *member); /* "FILE: x.npy" */
SW_MUST_USE sw_status swi_zip_member_read(swi_zip_member *member, void *to, size_t bytes,
                                          size_t *got);
SW_MUST_USE sw_status swi_zip_member_rewind(swi_zip_member *member);
