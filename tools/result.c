/* Phases and totals in JSON and for people. */
#include "tools/result.h"

void result_json_begin(sw_json *json)
{
    sw_json_growing(json, SW_HEAP_FILES);
    sw_json_begin(json, '{');
}

int result_json_end(sw_json *json, int status)
{
    sw_json_end(json);
    sw_json_line(json);
    const sw_status built = json->status;
    if (built == SW_OK)
        fwrite(json->bytes, 1, json->used, stdout);
    sw_json_free(json);
    if (built == SW_OK)
        return cli_finish(status);
    const int failed = cli_library_error(built, false);
    return status == CLI_DONE ? failed : status;
}

void result_put_phases(sw_json *json, const char *key, const sw_phase_info *phases)
{
    sw_json_open(json, key, '{');
    for (int i = 0; i < SW_PHASES; i++) {
        sw_json_open(json, sw_phase_name((sw_phase)i), '{');
        sw_json_put_u64(json, "peak_bytes", phases[i].peak_bytes);
        sw_json_put_u64(json, "end_bytes", phases[i].end_bytes);
        sw_json_end(json);
    }
    sw_json_end(json);
}

void result_put_predicted(sw_json *json, const job *j, const job_program *program)
{
    if (j->opts->immediate)
        sw_json_put_null(json, "predicted");
    else
        result_put_phases(json, "predicted", program->plan.phase);
}

void result_put_totals(sw_json *json, const sw_plan_info *plan)
{
    sw_json_put_u64(json, "model_bytes", plan->model_bytes);
    sw_json_put_u64(json, "arena_bytes", plan->arena_bytes);
    sw_json_put_u64(json, "data_bytes", plan->data_bytes);
    sw_json_put_u64(json, "total_bytes", plan->total_bytes);
    sw_json_put_u64(json, "lower_bound_bytes", plan->lower_bound_bytes);
}

result_text result_both(size_t bytes)
{
    result_text t;
    snprintf(t.text, sizeof t.text, "%s (%s bytes)", cli_bytes(bytes).text,
             cli_digits(bytes).text);
    return t;
}

static void print_columns(const sw_phase_info *phase)
{
    if (phase != NULL)
        printf(" %16s %16s", cli_digits(phase->peak_bytes).text,
               cli_digits(phase->end_bytes).text);
}

void result_print_phases(const sw_phase_info *predicted, const sw_phase_info *measured)
{
    const bool colour = cli_colour(stdout);
    printf("%s%-10s", colour ? "\033[1m" : "", "phase");
    if (predicted != NULL)
        printf(" %16s %16s", "predicted peak", "at its end");
    if (measured != NULL)
        printf(" %16s %16s", "measured peak", "at its end");
    printf("%s\n", colour ? "\033[0m" : "");
    for (int i = 0; i < SW_PHASES; i++) {
        printf("%-10s", sw_phase_name((sw_phase)i));
        print_columns(predicted != NULL ? &predicted[i] : NULL);
        print_columns(measured != NULL ? &measured[i] : NULL);
        putchar('\n');
    }
}

bool result_phases_equal(const sw_phase_info *a, const sw_phase_info *b)
{
    for (int i = 0; i < SW_PHASES; i++)
        if (a[i].peak_bytes != b[i].peak_bytes || a[i].end_bytes != b[i].end_bytes)
            return false;
    return true;
}
