/* What the last runs of an exec left: their metrics, and what they measured. On a device a run
 * may still go on when sw_run returns: then these wait to be read. */
#ifndef SW_PAST_H
#define SW_PAST_H

#include "runtime/stepwell.h"
#include <stdbool.h>

#define SWI_PAST 4

typedef struct {
    char name[48];
    double value;
} swi_past_metric;

typedef struct {
    bool there; /* it went well */
    bool waits; /* on a device: values and times are not read yet */
    uint32_t n;
    swi_past_metric *metrics;
    sw_run_info info;
} swi_past_run;

typedef struct {
    swi_past_run run[SWI_PAST]; /* run k of the exec is at k % SWI_PAST */
    swi_past_metric *metrics;   /* of all, `cap` for each */
    uint32_t cap;
    uint64_t n; /* runs that began */
} swi_past;

/* Room for n metrics in all of them, so that later runs take no memory. */
sw_status swi_past_room(swi_past *past, uint32_t n);
void swi_past_free(swi_past *past);
/* A run begins: nothing of it is there yet. */
swi_past_run *swi_past_begin(swi_past *past);
/* That of `ago` runs ago; NULL: there was none. */
swi_past_run *swi_past_at(swi_past *past, int ago);
/* The value of a metric of this run; NULL: it has no such metric. */
const double *swi_past_metric_of(const swi_past_run *run, const char *name);

#endif
