/* How `train` and `plan` show phases and totals: to the byte in JSON, and for people. */
#pragma once

#include "profiler/record/json.h"
#include "tools/job/job.h"

/* One JSON object, collected first: standard output gets all of it or nothing. */
void result_json_begin(sw_json *json);
/* Closes the object, prints it and frees it. `status`, or that of the failure, with a
 * message. */
int result_json_end(sw_json *json, int status);

/* Figures of documents, of training and of testing; nothing for other data. */
void result_put_documents(sw_json *json, const job *j);

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
/* No plan under the budget has less; infinite where none is within it, whatever runs again. */
double result_least_more(const sw_plan_info *plan);
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

/* The bytes of runs: of each phase the highest peak of all, and the live bytes at its end in
 * the last. */
typedef struct {
    sw_phase_info phase[SW_PHASES];
    size_t peak_bytes;
} result_bytes;
void result_bytes_add(result_bytes *to, const sw_phase_info *phase, size_t peak_bytes);

/* A program, as `by` ("arena", "access") measured it; phase NULL: it never ran. */
typedef struct {
    const sw_phase_info *phase;
    size_t peak_bytes;
    const char *by;
} result_measured;
/* "predicted" and "measured": phases, null where there are none to say. */
void result_put_both(sw_json *json, const job *j, const job_program *program,
                     const result_measured *measured);
/* The begin of the object of one program: name, batch, runs, the phases, peaks, arena_bytes. */
void result_put_program(sw_json *json, const job *j, const job_program *program, uint64_t runs,
                        const result_measured *measured);
/* Of the program that speaks for the job: phases, peak, and the parts of the total. */
void result_print_memory(const job *j, const result_measured *measured);

/* Over some samples; begins as zeros. */
typedef struct {
    double loss;         /* mean */
    int64_t right, rows; /* right is 0 where there are no classes */
    int64_t weight;      /* that the mean is over: rows, or tokens that count */
} result_score;
/* Weighted, so that a smaller batch counts as what it is. One batch has the loss that its run
 * said, to the bit. */
void result_score_add(result_score *to, double loss, int64_t right, int64_t rows,
                      int64_t weight);

/* Over programs, or of one: a witness agrees when it agrees on each. */
typedef struct {
    uint32_t n, agreed, faults; /* n: programs that were witnessed */
    const char *first_fault;    /* "": there is none */
} result_witnesses;
/* Begins as zeros. One whose size is 0 was not witnessed. */
void result_witnesses_add(result_witnesses *to, const sw_witness_info *w);
/* "access", "extent", "death", "need" and "faults", into an open object. */
void result_put_witnesses(sw_json *json, const result_witnesses *w);
/* "access agrees, extent DISAGREES, .." */
result_text result_witnesses_text(const sw_witness_info *w);

/* A summary of the model: how `plan` and `train` show it. */

/* A table of the layers of the program that speaks for the job. */
SW_MUST_USE sw_status summary_print(job *j);
/* "summary": a list of {"layer", "op", "output", "parameters", "parameter_bytes",
 * "saved_bytes", "operations", "backward_operations"}. An error stays in the JSON writer. */
void summary_put(sw_json *json, job *j);

/* The bytes of a program by role and by layer: how `plan` and `train` show them. */

typedef struct {
    sw_share_kind kind;
    char name[192];
    size_t at_peak_bytes, peak_bytes;
} share_line;

/* Begins as zeros. */
typedef struct {
    share_line *at;
    size_t n, cap;
    sw_status status; /* of taking them down */
} share_list;

/* A visitor; `to` is a share_list. */
void share_list_add(void *to, const sw_share *share);
void share_list_free(share_list *list);

/* Observations of the runs of one program; begins as zeros. */
typedef struct {
    uint64_t runs;
    result_bytes bytes;
    size_t bump_bytes;       /* the most of all runs */
    sw_witness_info witness; /* size 0: none */
    share_list shares;       /* of the first run, where the result shows them */
} result_runs;
/* Where it is asked for, witness what would be the first run. */
SW_MUST_USE sw_status result_witness(result_runs *runs, bool asked, sw_exec *exec,
                                     const sw_run_args *args);
/* CLI_DONE, or CLI_FAILED with a line where a witness disagrees with the plan of a program:
 * `of` has those of the job. */
int result_check_witnesses(const job *j, const result_runs *of);

/* "roles" and "layers": lists of {"name", "predicted": {"at_peak_bytes", "peak_bytes"}}, and
 * with `measured` the same under "measured", null where nothing ran. An error stays in the JSON
 * writer. */
void breakdown_put(sw_json *json, sw_exec *exec, const sw_run_args *args);
void breakdown_put_measured(sw_json *json, job *j, job_which which, const share_list *measured);
/* A table of the roles in the plan of a program. */
SW_MUST_USE sw_status breakdown_print(sw_exec *exec, const sw_run_args *args);
