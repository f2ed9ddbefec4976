/* A replan as a page for a browser: the text, and PyTorch's addresses above planned ones, on
 * the same axes. */
#ifndef STEPWELL_REPLAN_PAGE_H
#define STEPWELL_REPLAN_PAGE_H

#include "profiler/inspect/replan/replan.h"
#include "tools/cli/svg.h"

void replan_page_begin(svg *to, const char *file);
SW_MUST_USE sw_status replan_page_add(svg *to, const replan *r);
void replan_page_end(svg *to);

#endif
