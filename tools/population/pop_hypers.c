/* The kind of each hyper-parameter: a knob of the member, or a part of its config. */
#include "tools/job/optimizer.h"
#include "tools/population/population.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const knobs[] = {"lr",    "momentum",     "beta1",
                                    "beta2", "weight_decay", "dropout"};
enum { N_KNOBS = sizeof knobs / sizeof *knobs };

static bool is_knob(const char *name)
{
    for (int i = 0; i < N_KNOBS; i++)
        if (strcmp(name, knobs[i]) == 0)
            return true;
    return false;
}

/* "hidden" is -1, "hidden2" 1; -2: neither. */
static int hidden_layer(const char *name)
{
    char *end;
    if (strncmp(name, "hidden", 6) != 0)
        return -2;
    if (name[6] == '\0')
        return -1;
    const long n = strtol(name + 6, &end, 10);
    return *end == '\0' && n >= 1 && n <= CLI_LIST_MAX ? (int)n - 1 : -2;
}

static int check_width(const pop *p, const pop_hyper *h)
{
    const cli_list *hidden = &p->opts.job.settings.hidden;
    if (hidden->n == 0)
        return cli_error(CLI_USAGE, "%s: --model %s has no hidden widths to explore", h->name,
                         p->opts.job.model);
    if (h->layer >= hidden->n)
        return cli_error(CLI_USAGE, "%s: --hidden has %d widths", h->name, hidden->n);
    return CLI_GO;
}

/* Of what is declared: bounds that the thing itself has. */
static int check_bounds(pop *p, const pop_hyper *h, const sw_hyper *is)
{
    double low = is->low, high = is->high;
    for (int i = 0; is->kind == SW_CHOICE && i < is->n_choices; i++) {
        low = i == 0 || is->choices[i] < low ? is->choices[i] : low;
        high = i == 0 || is->choices[i] > high ? is->choices[i] : high;
    }
    const bool whole = h->kind != POP_KNOB;
    const bool below_one =
        !whole && strcmp(h->name, "lr") != 0 && strcmp(h->name, "weight_decay") != 0;
    if (whole && is->kind != SW_INTEGER && is->kind != SW_CHOICE)
        return cli_error(CLI_USAGE, "%s must be int:LOW..HIGH or choice:A,B,C", h->name);
    for (int i = 0; whole && is->kind == SW_CHOICE && i < is->n_choices; i++)
        if (is->choices[i] != floor(is->choices[i]))
            return cli_error(CLI_USAGE, "%s: choices must be whole numbers (got %g)", h->name,
                             is->choices[i]);
    if (low < (whole ? 1.0 : 0.0) || (below_one && high >= 1.0) ||
        high > (whole ? 1 << 24 : (double)FLT_MAX))
        return cli_error(CLI_USAGE, "%s must be %s (got %g to %g)", h->name,
                         whole       ? "1 to 16777216"
                         : below_one ? "at least 0 and below 1"
                                     : "at least 0, and as a float holds",
                         low, high);
    if (h->kind == POP_BATCH)
        p->largest_batch = (int64_t)high;
    return CLI_GO;
}

/* Words are choices of a program that knows what they mean. */
static int check_words(const sw_hyper *is)
{
    if (is->kind == SW_CHOICE && is->labels != NULL)
        return cli_error(CLI_USAGE, "%s: choices must be numbers (got '%s')", is->name,
                         is->labels[0]);
    return CLI_GO;
}

/* All widths and those of one layer would both decide that one. */
static int check_widths(const pop *p)
{
    const pop_hyper *all = NULL, *one = NULL;
    for (int i = 0; i < p->n_hypers; i++) {
        const pop_hyper *h = &p->hyper[i];
        if (h->kind == POP_WIDTH)
            *(h->layer < 0 ? &all : &one) = h;
    }
    if (all != NULL && one != NULL)
        return cli_error(CLI_USAGE, "%s and %s exclude each other", all->name, one->name);
    return CLI_GO;
}

static int read_one(pop *p, const sw_hyper *is)
{
    pop_hyper *h = &p->hyper[p->n_hypers];
    snprintf(h->name, sizeof h->name, "%s", is->name);
    h->layer = hidden_layer(is->name);
    if (is_knob(is->name))
        h->kind = POP_KNOB;
    else if (strcmp(is->name, "batch") == 0)
        h->kind = POP_BATCH;
    else if (h->layer >= -1)
        h->kind = POP_WIDTH;
    else
        return cli_error(
            CLI_USAGE,
            "%s: there is no such hyper-parameter; there are lr, momentum, beta1, "
            "beta2, weight_decay, dropout, batch, hidden and hidden1, hidden2, ...",
            is->name);
    if (h->kind == POP_WIDTH) {
        const int status = check_width(p, h);
        if (status != CLI_GO)
            return status;
    }
    if (strcmp(h->name, "dropout") == 0 && p->opts.job.kind->takes[TOOL_DROPOUT] == NULL)
        return cli_error(CLI_USAGE, "dropout: --model %s has none", p->opts.job.model);
    p->n_hypers++;
    const int words = check_words(is);
    return words == CLI_GO ? check_bounds(p, h, is) : words;
}

int pop_hypers_read(pop *p)
{
    if (p->opts.n_hypers == 0)
        return cli_error(CLI_USAGE, "nothing to explore: give at least one NAME=RANGE, as "
                                    "lr=log:0.0001..0.1");
    sw_status status = sw_space_create(&p->space);
    for (int i = 0; i < p->opts.n_hypers && status == SW_OK; i++)
        status = sw_space_parse(p->space, p->opts.hyper[i]);
    if (status == SW_INVALID)
        return cli_error(CLI_USAGE, "%s", sw_last_error());
    if (status != SW_OK)
        return cli_library_error(status, false);
    for (int i = 0; i < p->opts.n_hypers; i++) {
        sw_hyper is = SW_OPTS(sw_hyper);
        status = sw_space_at(p->space, i, &is);
        if (status != SW_OK)
            return cli_library_error(status, false);
        const int read = read_one(p, &is);
        if (read != CLI_GO)
            return read;
    }
    return check_widths(p);
}

static sw_knob find_knob(const pop_shape *shape, const char *name)
{
    return strcmp(name, "dropout") == 0 ? sw_knob_find(shape->net.model, name)
                                        : sw_optimizer_knob(shape->net.optimizer, 0, name);
}

int pop_knobs_check(const pop *p, const pop_shape *shape)
{
    for (int i = 0; i < p->n_hypers; i++) {
        const char *name = p->hyper[i].name;
        if (p->hyper[i].kind != POP_KNOB || find_knob(shape, name).index != UINT32_MAX)
            continue;
        if (strcmp(name, "dropout") == 0)
            return cli_error(CLI_USAGE, "dropout: that of --model %s is fixed",
                             p->opts.job.model);
        return cli_error(CLI_USAGE, "%s: --optimizer %s has none", name, p->opts.job.optimizer);
    }
    return CLI_GO;
}

/* ---- values ------------------------------------------------------------------------------ */

sw_status pop_values(const pop *p, int member, double *values)
{
    for (int i = 0; i < p->n_hypers; i++)
        SW_TRY(sw_pbt_value(p->pbt, member, i, &values[i]));
    return SW_OK;
}

pop_config pop_config_of(const pop *p, const double *values)
{
    pop_config config = {.batch = p->opts.job.batch.at[0],
                         .hidden = p->opts.job.settings.hidden};
    for (int i = 0; i < p->n_hypers; i++) {
        const pop_hyper *h = &p->hyper[i];
        if (h->kind == POP_BATCH)
            config.batch = (int64_t)values[i];
        for (int k = 0; h->kind == POP_WIDTH && k < config.hidden.n; k++)
            if (h->layer < 0 || h->layer == k)
                config.hidden.at[k] = (int64_t)values[i];
    }
    return config;
}

bool pop_changes_config(const pop *p)
{
    for (int i = 0; i < p->n_hypers; i++)
        if (p->hyper[i].kind != POP_KNOB)
            return true;
    return false;
}

sw_status pop_set_rate(pop *p, int k, float rate)
{
    const pop_member *m = &p->members[k];
    return sw_member_knob_set(m->member, sw_optimizer_lr(p->shapes[m->shape]->net.optimizer, 0),
                              rate);
}

sw_status pop_set_knobs(pop *p, int k, const double *values)
{
    pop_member *m = &p->members[k];
    const pop_shape *shape = p->shapes[m->shape];
    for (int i = 0; i < p->n_hypers; i++) {
        if (p->hyper[i].kind == POP_KNOB)
            SW_TRY(sw_member_knob_set(m->member, find_knob(shape, p->hyper[i].name),
                                      (float)values[i]));
    }
    return SW_OK;
}
