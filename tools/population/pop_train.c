/* stepwell train --members N: members that train side by side and learn nothing from each
 * other. The population of `stepwell pbt` without exploits: a turn is a validation. */
#include "tools/population/population.h"
#include "tools/train/train.h"
#include <math.h>
#include <string.h>

/* Options of train that say something about one model. */
static int check(void)
{
    const char *no =
        cli_given("--profile --heap-profile --load-params --witness --process --checks "
                  "--immediate --accumulate --keep-gradients --checkpoint-pauses");
    return no != NULL ? cli_error(CLI_USAGE, "%s is not supported with --members", no) : CLI_GO;
}

static void take_options(pop *p, const train_opts *o)
{
    pop_opts *to = &p->opts;
    *to = (pop_opts){.job = o->job,
                     .members = o->members,
                     .steps = o->job.steps,
                     .epochs = o->job.epochs,
                     .stop_score = (double)NAN,
                     .quantile = 0.0,
                     .replaced = -1.0,
                     .donors = -1.0,
                     .resample = 0.0,
                     .factor = {1.0, 1.0},
                     .exploit = "truncation",
                     .explore = "perturb",
                     .too_large = "refuse",
                     .synch = true,
                     .metric = "loss",
                     .same_data = o->same_data,
                     .metrics = o->metrics,
                     .save = o->save,
                     .every = o->every,
                     .keep = o->keep,
                     .resume = o->resume,
                     .json = o->json,
                     .quiet = o->quiet};
    p->independent = true;
    p->best_path = o->best;
    p->patience = o->patience;
    p->min_delta = o->min_delta;
    p->job.opts = &to->job;
}

/* The rate is the one number that a space needs; it has one choice. */
static sw_status make_space(pop *p)
{
    static char text[64];
    const double rate = p->opts.job.lr;
    snprintf(text, sizeof text, "lr=choice:%.17g", rate);
    p->opts.hyper[0] = text;
    p->opts.n_hypers = 1;
    const sw_hyper lr =
        SW_OPTS(sw_hyper, .name = "lr", .kind = SW_CHOICE, .choices = &rate, .n_choices = 1);
    SW_TRY(sw_space_create(&p->space));
    snprintf(p->hyper[0].name, sizeof p->hyper[0].name, "lr");
    p->n_hypers = 1;
    return sw_space_add(p->space, &lr);
}

/* Once the data are there. */
int pop_train_plan(pop *p)
{
    const job_opts *o = &p->opts.job;
    const uint64_t n = (uint64_t)p->job.train.n, batch = (uint64_t)o->batch.at[0];
    const uint64_t epoch = (n + batch - 1) / batch, all = (uint64_t)p->steps_to_do;
    if ((uint64_t)o->warmup >= all)
        return cli_error(CLI_USAGE,
                         "--warmup must be below the %llu steps of this run (got %lld)",
                         (unsigned long long)all, (long long)o->warmup);
    p->opts.interval = p->validate_every > 0 ? p->validate_every : (int64_t)epoch;
    p->schedule = SW_OPTS(sw_schedule, .kind = o->schedule, .base = (float)o->lr,
                          .warmup_steps = (uint64_t)o->warmup, .total_steps = all,
                          .every = o->lr_every > 0 ? (uint64_t)o->lr_every : (all + 2) / 3,
                          .gamma = (float)o->lr_gamma, .floor = (float)o->lr_floor);
    p->scheduled = strcmp(o->schedule, "constant") != 0;
    return CLI_GO;
}

int pop_train(const train *t)
{
    static pop p; /* large */
    const train_opts *o = &t->opts;
    int status = check();
    if (status != CLI_GO)
        return status;
    take_options(&p, o);
    p.validate_every = o->validate_every;
    p.options = t->options;
    p.n_options = t->n_options;
    snprintf(p.command, sizeof p.command, "%s", t->command);
    const sw_status made = make_space(&p);
    if (made != SW_OK)
        return cli_library_error(made, false);
    return pop_go(&p);
}
