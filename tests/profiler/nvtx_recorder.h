/* A tool that listens to NVTX ranges, linked into the test instead of injected. */
#ifndef SW_TESTS_NVTX_RECORDER_H
#define SW_TESTS_NVTX_RECORDER_H

#include <stdbool.h>

bool nvtx_recorder_is_built(void);
void nvtx_recorder_clear(void);
/* "name(" for a range that begins and " )" for one that ends, in order. */
const char *nvtx_recorder_text(void);

#endif
