/* Files of tests: read, written, and damaged in every way that a disk has. */
#ifndef SW_TESTS_FILES_H
#define SW_TESTS_FILES_H

#include <stdbool.h>
#include <stdlib.h>

/* The bytes of a file and a zero after them, to be freed; NULL where it cannot be read. `n` may
 * be NULL. */
char *sw_file_text(const char *path, size_t *n);
/* Bytes of a file; 0 where there is none. */
size_t sw_file_bytes(const char *path);
/* Write a file, or over it; the test ends where that fails. */
void sw_file_put(const char *path, const void *bytes, size_t n);

/* A file damaged in one way after the other, and sound again at the end:
 *
 *     sw_damage d = {path, .cuts = 1, .bits = sw_tests_full() ? 1 : 41};
 *     while (sw_damage_next(&d))
 *         SW_CHECK(read(path) == SW_FORMAT, "%s", d.what);
 *
 * It is cut to each length, or each of so many; then each bit is flipped, or each of so many,
 * or one bit of each byte; then each byte becomes each of the values. */
typedef struct {
    const char *path;
    size_t cuts, bits, bytes; /* 0: none */
    const char *values;       /* NULL: none */
    size_t n_values, from;    /* bytes before `from` stay */
    bool is_cut;
    size_t at, bit; /* the first byte that was cut off, or the one that is another */
    char what[60];
    size_t n, next, n_cuts, n_changes; /* bytes of the sound file; cases so far */
    int phase;
    char *sound;
} sw_damage;

bool sw_damage_next(sw_damage *d);

#endif
