/* Between lanes and ranges. */
#ifndef SW_MEMBER_POOL_INTERNAL_H
#define SW_MEMBER_POOL_INTERNAL_H

#include "runtime/population/member_pool.h"

/* An arena on the exec's device, under its budget. */
sw_status swi_member_pool_arena(sw_arena **out, const sw_exec *exec, const char *label,
                                sw_arena_use use);

#endif
