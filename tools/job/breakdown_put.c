/* Roles and layers in JSON and for people. */
#include "tools/job/breakdown_put.h"
#include <string.h>

void share_list_add(void *to, const sw_share *share)
{
    share_list *list = to;
    if (list->status == SW_OK && list->n == list->cap) {
        const size_t cap = list->cap == 0 ? 32 : 2 * list->cap;
        list->status = sw_heap_resize(&list->at, SW_HEAP_FILES, list->cap * sizeof *list->at,
                                      cap * sizeof *list->at);
        if (list->status == SW_OK) {
            list->cap = cap;
        }
    }
    if (list->status != SW_OK)
        return;
    share_line *line = &list->at[list->n++];
    *line = (share_line){.kind = share->kind,
                         .at_peak_bytes = share->at_peak_bytes,
                         .peak_bytes = share->peak_bytes};
    snprintf(line->name, sizeof line->name, "%s", share->name);
}

void share_list_free(share_list *list)
{
    sw_heap_free(list->at, SW_HEAP_FILES, list->cap * sizeof *list->at);
    *list = (share_list){0};
}

static sw_status of_plan(job *j, job_which which, share_list *to)
{
    const sw_run_args args = job_args(j, which, j->program[which].inputs, 0);
    SW_TRY(sw_plan_shares(j->exec, &args, share_list_add, to));
    return to->status;
}

static const share_line *named(const share_list *list, const share_line *like)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->at[i].kind == like->kind && strcmp(list->at[i].name, like->name) == 0)
            return &list->at[i];
    return NULL;
}

static void put_bytes(sw_json *json, const char *key, const share_line *line)
{
    sw_json_open(json, key, '{');
    sw_json_put_u64(json, "at_peak_bytes", line != NULL ? line->at_peak_bytes : 0);
    sw_json_put_u64(json, "peak_bytes", line != NULL ? line->peak_bytes : 0);
    sw_json_end(json);
}

static void put_line(sw_json *json, const char *name, const share_line *said,
                     const share_line *seen, const share_list *measured)
{
    sw_json_begin(json, '{');
    sw_json_put_string(json, "name", name);
    put_bytes(json, "predicted", said);
    if (measured != NULL && measured->n == 0)
        sw_json_put_null(json, "measured");
    else if (measured != NULL)
        put_bytes(json, "measured", seen);
    sw_json_end(json);
}

/* The planned shares, and after them those that were measured and not planned. */
static void put_kind(sw_json *json, sw_share_kind kind, const share_list *said,
                     const share_list *measured)
{
    sw_json_open(json, kind == SW_SHARE_ROLE ? "roles" : "layers", '[');
    for (size_t i = 0; i < said->n; i++)
        if (said->at[i].kind == kind)
            put_line(json, said->at[i].name, &said->at[i],
                     measured != NULL ? named(measured, &said->at[i]) : NULL, measured);
    for (size_t i = 0; measured != NULL && i < measured->n; i++)
        if (measured->at[i].kind == kind && named(said, &measured->at[i]) == NULL)
            put_line(json, measured->at[i].name, NULL, &measured->at[i], measured);
    sw_json_end(json);
}

void breakdown_put_measured(sw_json *json, job *j, job_which which, const share_list *measured)
{
    share_list said = {0};
    const sw_status status = of_plan(j, which, &said);
    if (status != SW_OK && json->status == SW_OK)
        json->status = status;
    put_kind(json, SW_SHARE_ROLE, &said, measured);
    put_kind(json, SW_SHARE_LAYER, &said, measured);
    share_list_free(&said);
}

void breakdown_put(sw_json *json, job *j, job_which which)
{
    breakdown_put_measured(json, j, which, NULL);
}

sw_status breakdown_print(job *j, job_which which)
{
    share_list said = {0};
    const sw_status status = of_plan(j, which, &said);
    const bool colour = cli_colour(stdout);
    if (status == SW_OK)
        printf("%s%-15s %16s %16s%s\n", colour ? "\033[1m" : "", "role", "at the peak",
               "at its own peak", colour ? "\033[0m" : "");
    for (size_t i = 0; status == SW_OK && i < said.n; i++)
        if (said.at[i].kind == SW_SHARE_ROLE)
            printf("%-15s %16s %16s\n", said.at[i].name,
                   cli_digits(said.at[i].at_peak_bytes).text,
                   cli_digits(said.at[i].peak_bytes).text);
    share_list_free(&said);
    return status;
}
