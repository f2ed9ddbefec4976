/* Phases and totals in JSON and for people. */
#include "tools/job/result.h"
#include <string.h>

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

void result_put_batch(sw_json *json, int64_t runs, int64_t asked)
{
    sw_json_put_i64(json, "batch", runs);
    if (runs != asked)
        sw_json_put_i64(json, "batch_asked", asked);
}

cli_text result_batch(int64_t runs, int64_t asked)
{
    cli_text t;
    const int n = snprintf(t.text, sizeof t.text, "%lld", (long long)runs);
    if (runs != asked)
        snprintf(t.text + n, sizeof t.text - (size_t)n, " (%lld asked)", (long long)asked);
    return t;
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

void result_put_device(sw_json *json, const sw_exec *exec)
{
    sw_device_info d = SW_OPTS(sw_device_info);
    const bool known = sw_exec_device(exec, &d) == SW_OK && d.total_bytes > 0;
    if (!sw_json_open_known(json, "device_memory", known))
        return;
    sw_json_put_string(json, "name", d.name);
    sw_json_put_string(json, "card", d.card);
    sw_json_put_u64(json, "total_bytes", d.total_bytes);
    sw_json_put_u64(json, "open_bytes", d.open_bytes);
    sw_json_put_u64(json, "free_bytes", d.free_bytes);
    sw_json_put_u64(json, "model_bytes", d.model_bytes);
    sw_json_put_u64(json, "arena_bytes", d.arena_bytes);
    sw_json_put_u64(json, "data_bytes", d.data_bytes);
    sw_json_put_i64(json, "unexplained_bytes", d.unexplained_bytes);
    sw_json_put_u64(json, "pinned_bytes", d.pinned_bytes);
    sw_json_end(json);
}

void result_print_device(const char *label, const sw_exec *exec)
{
    sw_device_info d = SW_OPTS(sw_device_info);
    char text[320];
    if (sw_exec_device(exec, &d) != SW_OK || d.total_bytes == 0)
        return;
    snprintf(text, sizeof text, "%s, %s: %s free of %s", d.name, d.card,
             cli_bytes(d.free_bytes).text, cli_bytes(d.total_bytes).text);
    printf("%s", label);
    cli_wrap(stdout, (int)strlen(label), (int)strlen(label), text);
}

/* Values that backward recomputes without being asked to, since they are cheap. */
static void put_rebuilt(sw_json *json, const sw_plan_info *plan)
{
    sw_json_open(json, "rebuilt", '{');
    sw_json_put_u64(json, "ops", plan->n_rebuilt);
    sw_json_put_u64(json, "cost", plan->rebuild_cost);
    sw_json_put_u64(json, "of_cost", plan->cost);
    sw_json_end(json);
}

static void put_repeats(sw_json *json, const sw_plan_info *plan)
{
    if (!sw_json_open_known(json, "recompute", plan->method[0] != '\0'))
        return;
    sw_json_put_u64(json, "ops", plan->n_ops - plan->n_repeats);
    sw_json_put_u64(json, "released", plan->n_released);
    sw_json_put_u64(json, "repeats", plan->n_repeats);
    sw_json_put_u64(json, "operations", plan->operations);
    sw_json_put_u64(json, "repeat_operations", plan->repeat_operations);
    sw_json_put_u64(json, "cost", plan->cost);
    sw_json_put_u64(json, "repeat_cost", plan->repeat_cost);
    sw_json_put_u64(json, "budget_cost", plan->budget_cost);
    sw_json_put_u64(json, "chunk_rows", (uint64_t)plan->chunk_rows);
    sw_json_put_known(json, "least_repeat_cost", plan->least_repeat_cost != UINT64_MAX,
                      plan->least_repeat_cost);
    sw_json_put_string(json, "method", plan->method);
    sw_json_put_u64(json, "plain_arena_bytes", plan->plain_arena_bytes);
    sw_json_end(json);
}

void result_put_totals(sw_json *json, const job *j, const sw_plan_info *plan)
{
    sw_json_put_u64(json, "model_bytes", plan->model_bytes);
    sw_json_put_u64(json, "arena_bytes", plan->arena_bytes);
    sw_json_put_u64(json, "data_bytes", plan->data_bytes);
    sw_json_put_u64(json, "checkpoint_bytes", job_counted_checkpoint_bytes(j));
    sw_json_put_u64(json, "total_bytes", plan->total_bytes);
    sw_json_put_u64(json, "lower_bound_bytes", plan->lower_bound_bytes);
    sw_json_put_u64(json, "program_host_bytes", plan->program_host_bytes);
    sw_json_put_known(json, "launches", plan->launches > 0, plan->launches);
    sw_json_put_u64(json, "rebuilt_ops", plan->n_rebuilt);
    put_rebuilt(json, plan);
    put_repeats(json, plan);
}

/* Per cent of what a step takes without what the budget adds. */
static double share(uint64_t more, uint64_t all, uint64_t added)
{
    return all > added ? 100.0 * (double)more / (double)(all - added) : 0.0;
}

double result_more(const sw_plan_info *plan)
{
    return share(plan->budget_cost, plan->cost, plan->budget_cost);
}

static int add_words(char *text, size_t size, int n, const sw_plan_info *plan)
{
    if (plan->n_released > 0)
        n += snprintf(text + n, size - (size_t)n, "%u updates run right after their gradients",
                      plan->n_released);
    if (plan->n_repeats > 0)
        n +=
            snprintf(text + n, size - (size_t)n,
                     "%s%u of %u ops run again in backward: %.2f %% more arithmetic",
                     n > 0 ? "; " : "", plan->n_repeats, plan->n_ops - plan->n_repeats,
                     share(plan->repeat_operations, plan->operations, plan->repeat_operations));
    if (plan->budget_cost > plan->repeat_cost)
        n += snprintf(
            text + n, size - (size_t)n,
            "%sthe loss goes through its rows %lld at a time, which takes %.2f %%",
            n > 0 ? "; " : "", (long long)plan->chunk_rows,
            share(plan->budget_cost - plan->repeat_cost, plan->cost, plan->budget_cost));
    return n;
}

void result_print_repeats(const char *label, const sw_plan_info *plan)
{
    char text[500];
    if (plan->method[0] == '\0')
        return;
    int n = add_words(text, sizeof text, 0, plan);
    if (plan->budget_cost > 0)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "; %.2f %% more time estimated, chosen by %s", result_more(plan),
                      plan->method);
    if (plan->n_repeats > 0 && plan->least_repeat_cost != UINT64_MAX)
        snprintf(text + n, sizeof text - (size_t)n, "; no plan has less than %.2f %%",
                 share(plan->least_repeat_cost, plan->cost, plan->budget_cost));
    printf("%s", label);
    cli_wrap(stdout, (int)strlen(label), (int)strlen(label), text);
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

void result_print_copy(const char *label, const job *j)
{
    const size_t bytes = job_counted_checkpoint_bytes(j);
    if (bytes > 0)
        printf("%s%s of the model, for checkpoints\n", label, result_both(bytes).text);
}
