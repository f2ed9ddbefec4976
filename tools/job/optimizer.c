/* The names of optimizers and schedules: which there are is the library's list; here is what a
 * command line adds to it. */
#include "tools/job/optimizer.h"
#include <stdio.h>
#include <string.h>

#define NAMES 32
#define LIST 400

typedef struct {
    const char *text[NAMES + 1];
    int n;
    bool made;
    char list[LIST]; /* all of them, with commas */
} names;

static void add(names *to, const char *name)
{
    const size_t used = strlen(to->list);
    if (to->n == NAMES)
        return;
    to->text[to->n++] = name;
    snprintf(to->list + used, sizeof to->list - used, "%s%s", used > 0 ? ", " : "", name);
}

/* ---- optimizers -------------------------------------------------------------------------- */

/* Rates for small nets, found by trying on the built-in digits; of a kind that is not here the
 * library's. */
static const struct {
    const char *name;
    double lr;
    bool has_momentum, nesterov;
    double momentum; /* where none is given */
} known[] = {{"sgd", 0.1, false, false, 0.0},       {"momentum", 0.02, true, false, 0.9},
             {"nesterov", 0.02, true, true, 0.9},   {"adam", 0.005, false, false, 0.0},
             {"adamw", 0.005, false, false, 0.0},   {"rmsprop", 0.002, true, false, 0.0},
             {"adagrad", 0.03, false, false, 0.0},  {"lion", 0.002, false, false, 0.0},
             {"adafactor", 0.05, false, false, 0.0}};
enum { N_KNOWN = sizeof known / sizeof *known };

static int index_of(const char *name)
{
    int i = 0;
    while (i < N_KNOWN && strcmp(known[i].name, name) != 0)
        i++;
    return i;
}

static const names *optimizers(void)
{
    static names all;
    const char *kind;
    for (size_t i = 0; !all.made && (kind = sw_optimizer_kind(i)) != NULL; i++) {
        add(&all, kind);
        if (strcmp(kind, "sgd") == 0) {
            add(&all, "momentum");
            add(&all, "nesterov");
        }
    }
    all.made = true;
    return &all;
}

const char *const *tool_optimizer_words(void)
{
    return optimizers()->text;
}

const char *tool_optimizer_list(void)
{
    return optimizers()->list;
}

const char *tool_optimizer_rates(void)
{
    static char text[LIST];
    size_t used = 0;
    for (int i = 0; i < N_KNOWN && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %g", i > 0 ? ", " : "",
                                 known[i].name, known[i].lr);
    const names *all = optimizers();
    for (int i = 0; i < all->n && used < sizeof text; i++)
        if (index_of(all->text[i]) == N_KNOWN)
            used += (size_t)snprintf(text + used, sizeof text - used, ", %s the library's",
                                     all->text[i]);
    return text;
}

double tool_optimizer_lr(const char *name)
{
    const int i = index_of(name);
    return i < N_KNOWN ? known[i].lr : 0.0;
}

bool tool_optimizer_has_momentum(const char *name, double *usual)
{
    const int i = index_of(name);
    if (usual != NULL)
        *usual = i < N_KNOWN ? known[i].momentum : 0.0;
    return i < N_KNOWN && known[i].has_momentum;
}

void tool_optimizer_set(sw_optimizer_opts *o, const char *name, double momentum)
{
    const int i = index_of(name);
    const bool sgd = strcmp(name, "momentum") == 0 || strcmp(name, "nesterov") == 0;
    o->kind = sgd ? "sgd" : name;
    o->momentum = i < N_KNOWN && known[i].has_momentum ? (float)momentum : 0.0f;
    o->nesterov = i < N_KNOWN && known[i].nesterov;
}

/* ---- schedules --------------------------------------------------------------------------- */

unsigned tool_schedule_takes(const char *name)
{
    const bool cuts = strcmp(name, "step") == 0 || strcmp(name, "exponential") == 0;
    const bool constant = strcmp(name, "constant") == 0;
    return (cuts ? TOOL_LR_CUTS : 0u) | (constant ? 0u : TOOL_LR_FLOOR) |
           (constant || cuts ? 0u : TOOL_LR_TOTAL);
}

static const names *schedules(void)
{
    static names all;
    for (size_t i = 0; !all.made && sw_schedule_kind(i) != NULL; i++)
        add(&all, sw_schedule_kind(i));
    all.made = true;
    return &all;
}

const char *const *tool_schedule_words(void)
{
    return schedules()->text;
}

const char *tool_schedule_list(void)
{
    return schedules()->list;
}

const char *tool_schedule_takers(unsigned what)
{
    static char text[LIST];
    const names *all = schedules();
    size_t used = 0;
    for (int i = 0; i < all->n && used < sizeof text; i++)
        if ((tool_schedule_takes(all->text[i]) & what) != 0)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
                                     used > 0 ? " or " : "", all->text[i]);
    return text;
}
