/* Phases and totals in JSON and for people. */
#include "profiler/record/utf8.h"
#include "runtime/data/documents.h"
#include "tools/job/job_ranks.h"
#include "tools/job/result.h"
#include <inttypes.h>
#include <math.h>
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

void result_put_documents(sw_json *json, const job *j)
{
    if (tool_task_of(&j->train.info) != TOOL_DOCUMENTS)
        return;
    sw_json_open(json, "documents", '[');
    for (int i = 0; i < 2; i++) {
        const swi_documents_info d =
            swi_dataset_documents((i == 0 ? &j->train : &j->test)->set);
        sw_json_begin(json, '{');
        SW_JSON_PUT(json, &d, documents, tokens, counted, rows, context, cut, cut_tokens,
                    passed_over);
        sw_json_end(json);
    }
    sw_json_end(json);
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
        SW_JSON_PUT(json, &phases[i], peak_bytes, end_bytes);
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
    SW_JSON_PUT(json, &d, name, card, total_bytes, open_bytes, free_bytes, model_bytes,
                arena_bytes, data_bytes, graph_bytes, unexplained_bytes, pinned_bytes);
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

void result_put_totals(sw_json *json, const job *j, const sw_plan_info *plan)
{
    SW_JSON_PUT(json, plan, model_bytes, arena_bytes, data_bytes);
    sw_json_put_u64(json, "checkpoint_bytes", job_counted_checkpoint_bytes(j));
    SW_JSON_PUT(json, plan, total_bytes, lower_bound_bytes, program_host_bytes);
    sw_json_put_known(json, "launches", plan->launches > 0, plan->launches);
    sw_json_put_u64(json, "rebuilt_ops", plan->n_rebuilt);
    /* Values that backward recomputes without being asked to, since they are cheap. */
    sw_json_open(json, "rebuilt", '{');
    sw_json_put_u64(json, "ops", plan->n_rebuilt);
    sw_json_put_u64(json, "cost", plan->rebuild_cost);
    sw_json_put_u64(json, "of_cost", plan->cost);
    sw_json_end(json);
    if (sw_json_open_known(json, "recompute", plan->method[0] != '\0')) {
        sw_json_put_u64(json, "ops", plan->n_ops - plan->n_repeats);
        sw_json_put_u64(json, "released", plan->n_released);
        sw_json_put_u64(json, "repeats", plan->n_repeats);
        SW_JSON_PUT(json, plan, operations, repeat_operations, cost, repeat_cost, budget_cost);
        sw_json_put_u64(json, "chunk_rows", (uint64_t)plan->chunk_rows);
        sw_json_put_known(json, "least_repeat_cost", plan->least_repeat_cost != UINT64_MAX,
                          plan->least_repeat_cost);
        SW_JSON_PUT(json, plan, method, plain_arena_bytes);
        sw_json_end(json);
    }
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

double result_least_more(const sw_plan_info *plan)
{
    return plan->least_repeat_cost == UINT64_MAX
               ? HUGE_VAL
               : share(plan->least_repeat_cost, plan->cost, plan->budget_cost);
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
                 result_least_more(plan));
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

/* Whether peaks and ends are the same in all phases. */
static bool result_phases_equal(const sw_phase_info *a, const sw_phase_info *b)
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

void result_bytes_add(result_bytes *to, const sw_phase_info *phase, size_t peak_bytes)
{
    for (int i = 0; i < SW_PHASES; i++) {
        if (phase[i].peak_bytes > to->phase[i].peak_bytes)
            to->phase[i].peak_bytes = phase[i].peak_bytes;
        to->phase[i].end_bytes = phase[i].end_bytes;
    }
    if (peak_bytes > to->peak_bytes)
        to->peak_bytes = peak_bytes;
}

void result_put_both(sw_json *json, const job *j, const job_program *program,
                     const result_measured *m)
{
    result_put_predicted(json, j, program);
    if (m->phase != NULL)
        result_put_phases(json, "measured", m->phase);
    else
        sw_json_put_null(json, "measured");
}

void result_put_program(sw_json *json, const job *j, const job_program *p, uint64_t runs,
                        const result_measured *m)
{
    sw_json_begin(json, '{');
    SW_JSON_PUT(json, p, name, batch);
    sw_json_put_u64(json, "runs", runs);
    result_put_both(json, j, p, m);
    sw_json_put_u64(json, "predicted_peak_bytes", p->plan.peak_bytes);
    sw_json_put_known(json, "measured_peak_bytes", m->phase != NULL, m->peak_bytes);
    sw_json_put_u64(json, "arena_bytes", p->plan.arena_bytes);
}

void result_print_memory(const job *j, const result_measured *m)
{
    const sw_plan_info *plan = &job_main(j)->plan;
    const bool immediate = j->opts->immediate;
    result_print_phases(immediate ? NULL : plan->phase, m->phase);
    char found[96] = "not measured", text[256];
    if (m->phase != NULL && m->peak_bytes == plan->peak_bytes &&
        (immediate || result_phases_equal(plan->phase, m->phase)))
        snprintf(found, sizeof found, "the same measured by %s%s", m->by,
                 immediate ? "" : ", in every phase");
    else if (m->phase != NULL)
        snprintf(found, sizeof found, "%s measured by %s", cli_digits(m->peak_bytes).text,
                 m->by);
    snprintf(text, sizeof text, "%s predicted, %s", result_both(plan->peak_bytes).text, found);
    printf("\npeak    ");
    cli_wrap(stdout, 8, 8, text);
    printf("model   %s\n", result_both(plan->model_bytes).text);
    printf("%s   %s\n", immediate ? "bump " : "arena", result_both(plan->arena_bytes).text);
    result_print_repeats("again   ", plan);
    printf("data    %s\n", result_both(plan->data_bytes).text);
    result_print_copy("copy    ", j);
    job_ranks_print(j->ranks, j->transport_bytes);
    printf("total   %s\n", result_both(job_total_bytes(j)).text);
    result_print_device("card    ", j->exec);
}

void result_score_add(result_score *to, double loss, int64_t right, int64_t rows,
                      int64_t weight)
{
    to->loss = to->rows == 0 ? loss
                             : (to->loss * (double)to->weight + loss * (double)weight) /
                                   (double)(to->weight + weight);
    to->right += right;
    to->rows += rows;
    to->weight += weight;
}

/* ---- witnesses --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint32_t bit;
} witnesses[] = {{"access", SW_WITNESS_ACCESS},
                 {"extent", SW_WITNESS_EXTENT},
                 {"death", SW_WITNESS_DEATH},
                 {"need", SW_WITNESS_NEED}};
enum { WITNESSES = sizeof witnesses / sizeof *witnesses };

void result_witnesses_add(result_witnesses *to, const sw_witness_info *w)
{
    if (w->size == 0)
        return;
    to->agreed = to->n++ == 0 ? w->agreed : to->agreed & w->agreed;
    to->faults += w->n_faults;
    if (to->first_fault == NULL || *to->first_fault == '\0')
        to->first_fault = w->first_fault;
}

void result_put_witnesses(sw_json *json, const result_witnesses *w)
{
    for (int i = 0; i < WITNESSES; i++)
        sw_json_put_bool(json, witnesses[i].name, (w->agreed & witnesses[i].bit) != 0);
    sw_json_put_u64(json, "faults", w->faults);
}

result_text result_witnesses_text(const sw_witness_info *w)
{
    result_text t;
    size_t n = 0;
    for (int i = 0; i < WITNESSES; i++)
        n += (size_t)snprintf(t.text + n, sizeof t.text - n, "%s%s %s", i > 0 ? ", " : "",
                              witnesses[i].name,
                              (w->agreed & witnesses[i].bit) != 0 ? "agrees" : "DISAGREES");
    return t;
}

sw_status result_witness(result_runs *runs, bool asked, sw_exec *exec, const sw_run_args *args)
{
    if (!asked || runs->runs > 0)
        return SW_OK;
    runs->witness.size = sizeof runs->witness;
    return sw_witness(exec, args, SW_WITNESS_ALL, &runs->witness);
}

int result_check_witnesses(const job *j, const result_runs *of)
{
    for (int i = 0; i < JOB_PROGRAMS; i++) {
        const job_program *p = &j->program[i];
        const sw_witness_info *w = &of[i].witness;
        if (w->size != 0 && (w->n_faults > 0 || w->agreed != SW_WITNESS_ALL))
            return cli_error(CLI_FAILED,
                             "%s: the witnesses found %u disagreements with the plan: %s",
                             p->name, w->n_faults, w->first_fault);
        if (w->size != 0 && !result_phases_equal(w->phase, p->plan.phase))
            return cli_error(CLI_FAILED,
                             "%s: the access witness observed other bytes than were planned",
                             p->name);
    }
    return CLI_DONE;
}

/* ---- summary ----------------------------------------------------------------------------- */

/* The layers of a job's model, as sw_plan_layers shows them. */

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
        sw_json_begin(s->json, '{');
        sw_json_put_string(s->json, "layer", l->name);
        sw_json_put_string(s->json, "op", l->op[0] != '\0' ? l->op : NULL);
        sw_json_open(s->json, "output", '[');
        for (int i = 0; i < l->shape.rank; i++)
            sw_json_i64(s->json, l->shape.dim[i]);
        sw_json_end(s->json);
        SW_JSON_PUT(s->json, l, parameters, parameter_bytes, saved_bytes, operations,
                    backward_operations);
        sw_json_end(s->json);
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

/* ---- breakdown put ----------------------------------------------------------------------- */

/* Roles and layers in JSON and for people. */

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

static sw_status planned(sw_exec *exec, const sw_run_args *args, share_list *to)
{
    SW_TRY(sw_plan_shares(exec, args, share_list_add, to));
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

static void put_shares(sw_json *json, sw_exec *exec, const sw_run_args *args,
                       const share_list *measured)
{
    share_list said = {0};
    const sw_status status = planned(exec, args, &said);
    if (status != SW_OK && json->status == SW_OK)
        json->status = status;
    put_kind(json, SW_SHARE_ROLE, &said, measured);
    put_kind(json, SW_SHARE_LAYER, &said, measured);
    share_list_free(&said);
}

void breakdown_put_measured(sw_json *json, job *j, job_which which, const share_list *measured)
{
    const sw_run_args args = job_args(j, which, j->program[which].inputs, 0);
    put_shares(json, j->exec, &args, measured);
}

void breakdown_put(sw_json *json, sw_exec *exec, const sw_run_args *args)
{
    put_shares(json, exec, args, NULL);
}

sw_status breakdown_print(sw_exec *exec, const sw_run_args *args)
{
    share_list said = {0};
    const sw_status status = planned(exec, args, &said);
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
