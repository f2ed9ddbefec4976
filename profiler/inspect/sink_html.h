/* The report as one HTML page: the page's own files (html/), with the data of one run or of two
 * that are compared. It asks nothing of a network. html/README.md has the data's format. */
#pragma once

#include "profiler/inspect/sink.h"

/* other: the run to compare with, or NULL. Takes room for one pointer for each string; SW_NOMEM
 * where there is none. The page does not depend on addresses or on the clock. */
SW_MUST_USE sw_status sw_html_write(const sw_timeline *t, const sw_timeline *other,
                                    sw_sink_out *out);

/* The page before its data and after them; made of html/ by html/pack.py. */
extern const char swi_html_front[], swi_html_back[];
extern const size_t swi_html_front_bytes, swi_html_back_bytes;
