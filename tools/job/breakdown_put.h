/* The bytes of a program by role and by layer: how `plan` and `train` show them. */
#ifndef STEPWELL_BREAKDOWN_PUT_H
#define STEPWELL_BREAKDOWN_PUT_H

#include "profiler/record/json.h"
#include "tools/job/job.h"

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

/* "roles" and "layers": lists of {"name", "predicted": {"at_peak_bytes", "peak_bytes"}}, and
 * with `measured` the same under "measured", null where nothing ran. An error stays in the JSON
 * writer. */
void breakdown_put(sw_json *json, job *j, job_which which);
void breakdown_put_measured(sw_json *json, job *j, job_which which, const share_list *measured);
/* A table of the roles in the plan of a program. */
SW_MUST_USE sw_status breakdown_print(job *j, job_which which);

#endif
