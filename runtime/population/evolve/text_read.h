/* Reading texts of genomes and spaces: fields of objects that are known, of the right type, and
 * there once. A refusal is SW_FORMAT, by line. */
#ifndef SW_TEXT_READ_H
#define SW_TEXT_READ_H

#include "profiler/record/json_read.h"

/* A whole file: *bytes and a zero after them, for sw_text_free. SW_FORMAT where it has more
 * than `most`; `is` says what it should be. */
sw_status swi_text_load(char **out, size_t *bytes, const char *path, const char *is,
                        size_t most);
/* A text by lines. */
sw_json_in swi_read_begin(const char *text, size_t bytes, const char *path);
/* Nothing follows but blanks. */
sw_status swi_read_end(sw_json_in *in);
/* SW_FORMAT: as sw_json_bad. */
sw_status swi_read_bad(const sw_json_in *in, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* SW_FORMAT at a line that was read: "PATH: line N: what". */
sw_status swi_read_bad_at(const sw_json_in *in, uint64_t line, const char *what);

/* *which: the number of `key` among the n fields; its bit in *seen is set. SW_FORMAT: `of` (as
 * messages call it) has no such field, or the field was there before. */
sw_status swi_read_field(const sw_json_in *in, const char *key, const char *const *fields,
                         uint32_t n, const char *of, uint32_t *seen, uint32_t *which);
/* A string of 1 to room - 1 bytes. */
sw_status swi_read_word(sw_json_in *in, const char *field, char *to, size_t room);
/* One of n words: its number. */
sw_status swi_read_choice(sw_json_in *in, const char *field, const char *const *words,
                          uint32_t n, uint32_t *out);
sw_status swi_read_whole(sw_json_in *in, const char *field, int64_t low, int64_t high,
                         int64_t *out);
sw_status swi_read_real(sw_json_in *in, double *out);
sw_status swi_read_f32(sw_json_in *in, const char *field, float *out);
sw_status swi_read_bool(sw_json_in *in, const char *field, bool *out);
/* `element` is called before each element and reads it. */
typedef sw_status swi_read_element(sw_json_in *in, void *context);
sw_status swi_read_list(sw_json_in *in, swi_read_element *element, void *context);
/* A list of names of SW_SHIELD_*. */
sw_status swi_read_shield(sw_json_in *in, uint32_t *out);

#endif
