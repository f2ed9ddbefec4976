/* bench members --case lenet5: some LeNet5 side by side, an epoch of each, every one in an
 * order of its own.
 *
 * Threads take a member each for some steps, then the next ones: the members go round. So all
 * threads work to the end of the epoch, also where their number does not divide the members'.
 */
#include "alloc/base/mem.h"
#include "tools/bench/members.h"
#include <math.h>
#include <string.h>

enum { MOST_THREADS = 256, IMAGES = 60000 };

typedef struct {
    const members_opts *opts;
    sw_exec *exec;
    sw_dataset *set;
    sw_feed *feed;
    members_lenets nets;
    cli_times epochs;
    double first_loss, last_loss; /* means of the first and of the last epoch */
} subject;

sw_status members_lenets_make(members_lenets *lenets, sw_exec *exec, int64_t n, int64_t threads)
{
    tool_net_opts net;
    void *block;
    SW_TRY(tool_net_digits(&net, "lenet5"));
    SW_TRY(tool_net_create(&lenets->net, &net));
    const sw_members_opts group = {.size = sizeof group,
                                   .shape = lenets->net.model,
                                   .fn = tool_net_step,
                                   .user = &lenets->net,
                                   .threads = (int)threads};
    SW_TRY(sw_members_create(&lenets->group, exec, &group));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)n * sizeof *lenets->members));
    lenets->members = block;
    lenets->n = n;
    for (int64_t i = 0; i < n; i++)
        SW_TRY(sw_member_new(&lenets->members[i], lenets->group, (uint64_t)i));
    return SW_OK;
}

void members_lenets_destroy(members_lenets *lenets)
{
    sw_members_destroy(lenets->group);
    sw_heap_free(lenets->members, SW_HEAP_RECORDS, (size_t)lenets->n * sizeof *lenets->members);
    if (lenets->net.model != NULL)
        tool_net_destroy(&lenets->net);
}

static sw_status open_data(subject *s)
{
    const char *data = s->opts->data;
    const sw_feed_opts feed = {
        .size = sizeof feed, .batch = s->opts->common.batch, .shuffle = 1};
    if (strcmp(data, "synthetic") == 0)
        SW_TRY(sw_dataset_synthetic(&s->set, IMAGES, 1));
    else
        SW_TRY(sw_dataset_idx(&s->set, data + strlen("idx:"), "train"));
    return sw_feed_create(&s->feed, s->set, &feed);
}

static sw_status make(subject *s)
{
    const members_opts *o = s->opts;
    const sw_exec_opts exec = {.size = sizeof exec, .threads = (int)o->common.threads};
    SW_TRY(open_data(s));
    SW_TRY(cli_times_init(&s->epochs, (uint64_t)o->loops));
    SW_TRY(sw_exec_create(&s->exec, &exec));
    return members_lenets_make(&s->nets, s->exec, o->members, o->member_threads);
}

/* ---- an epoch ---------------------------------------------------------------------------- */

/* Turn u is of member u mod n. Its steps: those of a slice, or what the epoch still has. */
static int64_t steps_of(const subject *s, int64_t u)
{
    const int64_t done = u / s->opts->members * s->opts->slice,
                  left = sw_feed_batches(s->feed) - done;
    return left < s->opts->slice ? left : s->opts->slice;
}

/* Run n members for some steps; add their losses. */
static sw_status run(subject *s, const sw_member *members, int64_t n, int64_t steps,
                     double *loss)
{
    double means[MOST_THREADS];
    const sw_members_args args = {.size = sizeof args,
                                  .members = members,
                                  .n = (size_t)n,
                                  .mode = SW_TRAIN,
                                  .feed = s->feed,
                                  .own_steps = 1,
                                  .steps = (uint32_t)steps};
    SW_TRY(sw_members_run(s->nets.group, &args));
    SW_TRY(sw_members_mean(s->nets.group, "loss", means, (size_t)n));
    for (int64_t k = 0; k < n; k++)
        *loss += means[k] * (double)steps;
    return SW_OK;
}

static sw_status epoch(subject *s, double *mean)
{
    const int64_t n = s->opts->members, batches = sw_feed_batches(s->feed),
                  turns = (batches + s->opts->slice - 1) / s->opts->slice * n;
    double loss = 0.0;
    for (int64_t u = 0; u < turns && !cli_interrupted();) {
        sw_member members[MOST_THREADS];
        const int64_t steps = steps_of(s, u);
        int64_t count = 0;
        while (u < turns && count < s->opts->common.threads && count < n &&
               steps_of(s, u) == steps)
            members[count++] = s->nets.members[u++ % n];
        SW_TRY(run(s, members, count, steps, &loss));
    }
    *mean = loss / (double)(batches * n);
    return isnan(loss) ? sw_error_set(SW_INVALID, __FILE__, __LINE__, "a member failed")
                       : SW_OK;
}

/* The first epoch traces and plans, and is not among the times. */
static sw_status measure(subject *s)
{
    SW_TRY(epoch(s, &s->first_loss));
    for (int64_t i = 0; i < s->opts->loops && !cli_interrupted(); i++) {
        const uint64_t start = cli_clock_ns();
        SW_TRY(epoch(s, &s->last_loss));
        if (!cli_interrupted())
            cli_times_add(&s->epochs, cli_clock_ns() - start);
    }
    return SW_OK;
}

static int report(subject *s)
{
    const members_opts *o = s->opts;
    const cli_summary found = cli_times_summary(&s->epochs);
    const int status = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (o->common.json) {
        sw_json json;
        result_json_begin(&json);
        sw_json_put_i64(&json, "members", o->members);
        sw_json_put_i64(&json, "batches", sw_feed_batches(s->feed));
        bench_put(&json, "epoch", &found);
        sw_json_put_f64(&json, "first_loss", s->first_loss);
        sw_json_put_f64(&json, "last_loss", s->last_loss);
        return result_json_end(&json, status);
    }
    if (!o->common.quiet)
        printf("%lld lenet5, an epoch of %lld batches of %lld each, own orders, Adam, %lld "
               "threads, %lld steps at a time\n\n",
               (long long)o->members, (long long)sw_feed_batches(s->feed),
               (long long)o->common.batch, (long long)o->common.threads, (long long)o->slice);
    printf("%-12s %12s %12s %12s %12s\n", "", "min", "median", "p99", "max");
    bench_print("epoch", &found);
    printf("\nmean loss %.4f in the first epoch, %.4f in the last one (epoch %s)\n",
           s->first_loss, s->last_loss, cli_digits(found.n + 1).text);
    return cli_finish(status);
}

static void end(subject *s)
{
    members_lenets_destroy(&s->nets);
    sw_feed_destroy(s->feed);
    sw_dataset_destroy(s->set);
    sw_exec_destroy(s->exec);
    cli_times_free(&s->epochs);
}

int members_lenet5(const members_opts *o)
{
    if (strcmp(o->data, "synthetic") != 0 && strncmp(o->data, "idx:", 4) != 0)
        return cli_error(CLI_USAGE, "--data must be synthetic or idx:DIR (got %s)", o->data);
    subject s = {.opts = o};
    sw_status status = make(&s);
    if (status == SW_OK)
        status = measure(&s);
    const int code = status == SW_OK ? report(&s) : cli_library_error(status, s.feed == NULL);
    end(&s);
    return code;
}
