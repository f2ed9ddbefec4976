/* The layers of a job's model, as sw_plan_layers shows them. */
#include "tools/job/summary.h"
#include "profiler/record/utf8.h"
#include <inttypes.h>
#include <string.h>

#define NAME_COLUMNS 19
#define SHAPE_COLUMNS 19

typedef struct {
    sw_json *json; /* NULL: text */
    uint64_t parameters, operations, backward_operations;
    size_t saved_bytes;
    int n;
} summary;

/* "1.23 M": thousands, as sizes of arithmetic are written. */
static cli_text count_of(uint64_t n)
{
    static const char units[] = " kMGTPE";
    cli_text t;
    double x = (double)n;
    int i = 0;
    while (x >= 999.5 && units[i + 1] != '\0') {
        x /= 1000.0;
        i++;
    }
    if (i == 0)
        snprintf(t.text, sizeof t.text, "%" PRIu64, n);
    else
        snprintf(t.text, sizeof t.text, "%.3g %c", x, units[i]);
    return t;
}

static cli_text shape_of(const sw_plan_layer *l)
{
    cli_text t = {"-"};
    size_t used = 0;
    for (int i = 0; i < l->shape.rank && used < sizeof t.text; i++)
        used += (size_t)snprintf(t.text + used, sizeof t.text - used, "%s%" PRId64,
                                 i > 0 ? " x " : "", l->shape.dim[i]);
    if (l->op[0] != '\0' && l->shape.rank == 0)
        snprintf(t.text, sizeof t.text, "number");
    return t;
}

static void print_line(const char *name, const char *shape, uint64_t parameters, size_t saved,
                       uint64_t operations, uint64_t backward)
{
    const int left = cli_fitted(stdout, name, strlen(name), NAME_COLUMNS);
    printf("%*s %-*s %11s %10s %8s %8s\n", left, "", SHAPE_COLUMNS, shape,
           cli_digits(parameters).text, cli_bytes(saved).text, count_of(operations).text,
           count_of(backward).text);
}

static void put_layer(sw_json *json, const sw_plan_layer *l)
{
    sw_json_begin(json, '{');
    sw_json_put_string(json, "layer", l->name);
    sw_json_put_string(json, "op", l->op[0] != '\0' ? l->op : NULL);
    sw_json_open(json, "output", '[');
    for (int i = 0; i < l->shape.rank; i++)
        sw_json_i64(json, l->shape.dim[i]);
    sw_json_end(json);
    sw_json_put_u64(json, "parameters", l->parameters);
    sw_json_put_u64(json, "parameter_bytes", l->parameter_bytes);
    sw_json_put_u64(json, "saved_bytes", l->saved_bytes);
    sw_json_put_u64(json, "operations", l->operations);
    sw_json_put_u64(json, "backward_operations", l->backward_operations);
    sw_json_end(json);
}

static void take(void *to, const sw_plan_layer *l)
{
    summary *s = to;
    char name[256];
    s->parameters += l->parameters;
    s->operations += l->operations;
    s->backward_operations += l->backward_operations;
    s->saved_bytes += l->saved_bytes;
    s->n++;
    if (s->json != NULL) {
        put_layer(s->json, l);
        return;
    }
    sw_utf8_clean(name, sizeof name, l->name[0] != '\0' ? l->name : "(no layer)");
    print_line(name, shape_of(l).text, l->parameters, l->saved_bytes, l->operations,
               l->backward_operations);
}

static sw_status visit(job *j, summary *s)
{
    const job_program *main = job_main(j);
    const sw_run_args args = job_args(j, (job_which)(main - j->program), main->inputs, 0);
    return sw_plan_layers(j->exec, &args, take, s);
}

sw_status summary_print(job *j)
{
    summary s = {.json = NULL};
    const bool colour = cli_colour(stdout);
    printf("%s%-*s %-*s %11s %10s %8s %8s%s\n", colour ? "\033[1m" : "", NAME_COLUMNS, "layer",
           SHAPE_COLUMNS, "output", "parameters", "saved", "forward", "backward",
           colour ? "\033[0m" : "");
    SW_TRY(visit(j, &s));
    print_line("all", "", s.parameters, s.saved_bytes, s.operations, s.backward_operations);
    cli_wrap(stdout, 0, 0,
             "forward and backward: operations of a step; a multiplication and an addition are "
             "two");
    return SW_OK;
}

void summary_put(sw_json *json, job *j)
{
    summary s = {.json = json};
    sw_json_open(json, "summary", '[');
    const sw_status status = visit(j, &s);
    if (status != SW_OK && json->status == SW_OK)
        json->status = status;
    sw_json_end(json);
}
