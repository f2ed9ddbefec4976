/* An observer that counts: what arena tests compare the arena's own figures with. */
#ifndef SW_TESTS_EVENT_WATCH_H
#define SW_TESTS_EVENT_WATCH_H

#include "alloc/arena/arena.h"

typedef struct {
    int count[SW_EVENT_DENIED + 1]; /* by kind */
    size_t live, committed;         /* summed from events alone */
    sw_event last;
} sw_watch;

sw_observer sw_watch_by(sw_watch *watch);

#define SW_TEST_ARENA_BYTES ((size_t)1 << 20)

/* An arena over a store of its own ("host" or "device"), destroyed when the test ends. budget
 * may be NULL. */
sw_arena *sw_watched_arena(const char *kind, sw_budget *budget, sw_watch *watch);
/* A budget that is freed when the test ends. */
sw_budget *sw_test_budget(size_t bytes);

#endif
