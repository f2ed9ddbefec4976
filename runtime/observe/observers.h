/* The observers of runs; library.c registers them in this order. */
#ifndef SW_OBSERVERS_H
#define SW_OBSERVERS_H

#include "runtime/base/run_observer.h"

extern const swi_observer
    swi_profile_observer;                    /* profile.c: records of plans, steps, refusals */
extern const swi_observer swi_nvtx_observer; /* run_nvtx.c: names for an NVTX tool */
extern const swi_observer swi_breakdown_observer; /* breakdown.c: bytes by role and layer */

#endif
