/* Counting every call of the heap in a whole process: the executable's own malloc and its
 * relatives stand before those of all libraries, so calls from inside the C library and
 * jemalloc's own interface are seen too. Not for sanitizer builds, which have their own. */
#ifndef SW_TESTS_HEAP_WATCH_H
#define SW_TESTS_HEAP_WATCH_H

#include <stdint.h>

void heap_watch_begin(void);
/* Calls from any thread since the beginning. */
uint64_t heap_watch_end(void);
/* Where the first of them came from, for a person with addr2line; NULL when there was none. */
const void *heap_watch_first(void);

#endif
