/* A summary of the model: how `plan` and `train` show it. */
#ifndef STEPWELL_SUMMARY_H
#define STEPWELL_SUMMARY_H

#include "profiler/record/json.h"
#include "tools/job/job.h"

/* A table of the layers of the program that speaks for the job. */
SW_MUST_USE sw_status summary_print(job *j);
/* "summary": a list of {"layer", "op", "output", "parameters", "parameter_bytes",
 * "saved_bytes", "operations", "backward_operations"}. An error stays in the JSON writer. */
void summary_put(sw_json *json, job *j);

#endif
