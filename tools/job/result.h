/* How `train` and `plan` show phases and totals: to the byte in JSON, and for people. */
#ifndef STEPWELL_RESULT_H
#define STEPWELL_RESULT_H

#include "profiler/record/json.h"
#include "tools/job/job.h"

/* One JSON object, collected first: standard output gets all of it or nothing. */
void result_json_begin(sw_json *json);
/* Closes the object, prints it and frees it. `status`, or that of the failure, with a
 * message. */
int result_json_end(sw_json *json, int status);

/* "batch": the one that runs; "batch_asked" too, where the data have fewer samples than
 * that. */
void result_put_batch(sw_json *json, int64_t runs, int64_t asked);
/* "128", "100 (128 asked)" */
cli_text result_batch(int64_t runs, int64_t asked);
/* "key": {"data": {"peak_bytes", "end_bytes"}, ..} */
void result_put_phases(sw_json *json, const char *key, const sw_phase_info *phases);
/* "predicted": the phases as planned; null in immediate mode, which gives nothing back before
 * the end of a run: it has no phases to predict. */
void result_put_predicted(sw_json *json, const job *j, const job_program *program);
/* model_bytes, arena_bytes, data_bytes, checkpoint_bytes (of the copy that checkpoints take,
 * where total_bytes counts it, else 0), total_bytes, lower_bound_bytes, launches (of a step on
 * a device, null for the CPU), rebuilt_ops (cheap ops that run again in backward instead of
 * keeping their results); and "recompute", null where the budget asks for nothing. */
void result_put_totals(sw_json *json, const job *j, const sw_plan_info *plan);
/* "device_memory": what sw_exec_device says, null for the CPU. */
void result_put_device(sw_json *json, const sw_exec *exec);
/* The same as one line after `label`; nothing for the CPU. */
void result_print_device(const char *label, const sw_exec *exec);
/* The operations that the budget adds to a step, weighed by their time, in per cent. */
double result_more(const sw_plan_info *plan);
/* The measures that make the budget hold, in one sentence after `label`; nothing where there
 * are none. */
void result_print_repeats(const char *label, const sw_plan_info *plan);

/* The copy that checkpoints take, as one line after `label`; nothing where none is counted. */
void result_print_copy(const char *label, const job *j);

/* "1.23 MiB (1,289,748 bytes)" */
typedef struct {
    char text[96];
} result_text;
result_text result_both(size_t bytes);

/* A table of phases; either may be NULL. */
void result_print_phases(const sw_phase_info *predicted, const sw_phase_info *measured);
/* Whether peaks and ends are the same in all phases. */
bool result_phases_equal(const sw_phase_info *a, const sw_phase_info *b);

#endif
