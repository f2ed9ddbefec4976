/* Between lanes and ranges. */
#ifndef SW_CREW_INTERNAL_H
#define SW_CREW_INTERNAL_H

#include "runtime/population/crew.h"

/* An arena on the exec's device, under its budget. */
sw_status swi_crew_arena(sw_arena **out, const sw_exec *exec, const char *label,
                         sw_arena_use use);

#endif
