/* Shared by the files of the HTML report. */
#ifndef SW_HTML_INTERNAL_H
#define SW_HTML_INTERNAL_H

#include "profiler/inspect/sink.h"
#include "profiler/inspect/maps.h"
#include <stdbool.h>

/* The page before its data and after them; made of html/ by html/pack.py. */
extern const char swi_html_front[], swi_html_back[];
extern const size_t swi_html_front_bytes, swi_html_back_bytes;

/* A list of numbers for the page. `get` is called for every i, twice: once to see which width
 * they need. It must give the same both times. */
typedef struct {
    uint64_t (*get)(void *context, size_t i);
    void *context;
    size_t n;
} swi_column;

#endif
