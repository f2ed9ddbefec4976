/* Where text for people goes: whoever asks for it gives a function that takes the bytes. And
 * the shape of that text: numbers, and lines of 80 columns or of a wider terminal. */
#pragma once

#include "alloc/base/base.h"
#include <stdbool.h>

typedef struct {
    void (*put)(void *context, const char *bytes, size_t n); /* errors are for who gave it */
    void *context;
    bool colour; /* the text may have colours */
    int columns; /* of the terminal; 0: SW_WRITER_COLUMNS, which tables of figures keep to */
} sw_writer;

void sw_writer_text(const sw_writer *to, const char *text);
/* At most 8 KiB; the rest is cut. */
void sw_writer_print(const sw_writer *to, const char *format, ...) SW_PRINTF(2, 3);

#define SW_WRITER_COLUMNS 80
/* Text in at most `width` columns; what is too long loses its middle. Returns the columns that
 * are left. */
int sw_writer_fitted(const sw_writer *to, const char *text, size_t n, int width);
int sw_writer_columns(const sw_writer *to);
/* The same for scopes, "a/b.py:4 c": the outer ones go first; the line's number stays. */
int sw_writer_scopes(const sw_writer *to, const char *text, int width);
/* Words to the end of a line, of which `column` columns are taken; what does not fit goes to
 * new lines after `indent` blanks. */
void sw_writer_wrap(const sw_writer *to, int column, int indent, const char *text);
/* A sentence after `indent` blanks; what does not fit one line goes to new ones after `hang`
 * blanks. */
void sw_writer_say(const sw_writer *to, int indent, int hang, const char *format, ...)
    SW_PRINTF(4, 5);

typedef struct {
    char text[40];
} sw_text;
sw_text sw_text_bytes(size_t bytes); /* "1.23 MiB", "640 B" */
sw_text sw_text_mib(size_t bytes);   /* "1,289.75", for a column whose head says MiB */
sw_text sw_text_ns(uint64_t ns);     /* "1.23 ms" */
sw_text sw_text_digits(uint64_t n);  /* "1,234,567" */
