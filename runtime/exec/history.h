/* Results of the last runs of an exec: their metrics, and what they measured. On a device a run
 * may still go on when sw_run returns: then these wait to be read. */
#ifndef SW_HISTORY_H
#define SW_HISTORY_H

#include "runtime/stepwell.h"
#include <stdbool.h>

#define SWI_HISTORY 4

typedef struct {
    char name[48];
    double value;
} swi_history_metric;

typedef struct {
    bool there; /* it went well */
    bool waits; /* on a device: values and times are not read yet */
    uint32_t n;
    swi_history_metric *metrics;
    sw_run_info info;
} swi_history_run;

typedef struct {
    swi_history_run run[SWI_HISTORY]; /* run k of the exec is at k % SWI_HISTORY */
    swi_history_metric *metrics;      /* of all, `cap` for each */
    uint32_t cap;
    uint64_t n; /* runs that began */
} swi_history;

/* Room for n metrics in all of them, so that later runs take no memory. */
sw_status swi_history_reserve(swi_history *history, uint32_t n);
/* A run begins: nothing of it is there yet. */
swi_history_run *swi_history_begin(swi_history *history);
/* That of `ago` runs ago; NULL: there was none. */
swi_history_run *swi_history_at(swi_history *history, int ago);
/* The value of a metric of this run; NULL: it has no such metric. */
const double *swi_history_metric_of(const swi_history_run *run, const char *name);

#endif
