/* --metrics: a line for each member and turn. --save-params: of the best member, or of all. */
#include "alloc/base/sys.h"
#include "profiler/record/json.h"
#include "tools/population/population.h"
#include "tools/train/train.h"
#include <math.h>
#include <string.h>

/* ---- metrics ----------------------------------------------------------------------------- */

static sw_status put(pop *p, const char *text, size_t n)
{
    SW_TRY(sw_file_write(p->metrics, text, n));
    p->metrics_bytes += n;
    return SW_OK;
}

static const char head[] = "member,step,score,train_loss,loss,accuracy"; /* then the values */

static sw_status put_head(pop *p)
{
    char line[POP_HYPERS * 50 + 100];
    size_t used = (size_t)snprintf(line, sizeof line, "%s", head);
    for (int i = 0; i < p->n_hypers; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, ",%s", p->hyper[i].name);
    used += (size_t)snprintf(line + used, sizeof line - used, "\n");
    return put(p, line, used);
}

sw_status pop_metrics_open(pop *p)
{
    const char *path = p->opts.metrics;
    if (path == NULL)
        return SW_OK;
    if (!p->resumed)
        p->metrics_bytes = 0; /* also where it begins again */
    SW_TRY(p->resumed ? train_rows_go_on(&p->metrics, path, head, &p->metrics_bytes)
                      : sw_file_take(&p->metrics, path, true));
    return p->metrics_bytes == 0 && cli_ends_with(path, ".csv") ? put_head(p) : SW_OK;
}

static sw_status csv_row(pop *p, int k, const double *values)
{
    const pop_score *s = &p->members[k].score;
    char line[POP_HYPERS * 40 + 300];
    size_t used = (size_t)snprintf(line, sizeof line, "%d,%llu,%.9g,%.9g,%.9g,%.9g", k,
                                   (unsigned long long)s->step, s->score, s->train_loss,
                                   s->loss, s->accuracy);
    for (int i = 0; i < p->n_hypers; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, ",%.9g", values[i]);
    used += (size_t)snprintf(line + used, sizeof line - used, "\n");
    return put(p, line, used);
}

static sw_status json_row(pop *p, int k, const double *values)
{
    const pop_score *s = &p->members[k].score;
    sw_json json;
    sw_json_growing(&json, SW_HEAP_RECORDS);
    sw_json_begin(&json, '{');
    sw_json_put_i64(&json, "member", k);
    sw_json_put_u64(&json, "step", s->step);
    sw_json_put_f64(&json, "score", s->score);
    sw_json_put_f64(&json, "train_loss", s->train_loss);
    sw_json_put_f64(&json, "loss", s->loss);
    sw_json_put_f64(&json, "accuracy", s->accuracy);
    sw_json_open(&json, "values", '{');
    for (int i = 0; i < p->n_hypers; i++)
        sw_json_put_f64(&json, p->hyper[i].name, values[i]);
    sw_json_end(&json);
    sw_json_end(&json);
    sw_json_line(&json);
    const sw_status status = json.status != SW_OK ? json.status : put(p, json.bytes, json.used);
    sw_json_free(&json);
    return status;
}

sw_status pop_metrics_row(pop *p, int k)
{
    double values[POP_HYPERS];
    if (p->metrics == NULL)
        return SW_OK;
    SW_TRY(pop_values(p, k, values));
    return cli_ends_with(p->opts.metrics, ".csv") ? csv_row(p, k, values)
                                                  : json_row(p, k, values);
}

sw_status pop_metrics_close(pop *p)
{
    sw_file *file = p->metrics;
    p->metrics = NULL;
    return sw_file_close(file);
}

/* ---- parameters -------------------------------------------------------------------------- */

/* A model of the member's config in an exec without a budget: `net` and `group` are its own. */
static sw_status to_model(pop *p, int k, sw_exec *exec, tool_net *net, sw_members **group)
{
    const pop_member *m = &p->members[k];
    const int shape = m->member.of == NULL && m->waiting.there ? m->waiting.shape : m->shape;
    tool_net_opts opts = job_net_opts(&p->job);
    sw_member member;
    opts.settings.hidden = p->shapes[shape]->config.hidden;
    SW_TRY(tool_net_create(net, &opts));
    SW_TRY(sw_model_ready(net->model, exec, m->seed));
    const sw_members_opts of =
        SW_OPTS(sw_members_opts, .shape = net->model, .fn = tool_net_step, .user = net);
    SW_TRY(sw_members_create(group, exec, &of));
    SW_TRY(sw_member_new(&member, *group, m->seed));
    if (m->member.of != NULL || m->waiting.there) {
        const size_t n = sw_members_packed_bytes(*group);
        void *bytes;
        SW_TRY(sw_heap_alloc(&bytes, SW_HEAP_RECORDS, n));
        sw_status status = pop_state_of(p, k, bytes);
        if (status == SW_OK)
            status = sw_member_unpack(member, bytes, n);
        sw_heap_free(bytes, SW_HEAP_RECORDS, n);
        SW_TRY(status);
    }
    SW_TRY(job_note(&p->job, net->model));
    return sw_member_to_model(net->model, member);
}

static sw_status save_one(pop *p, int k, const char *path)
{
    const sw_exec_opts opts = SW_OPTS(sw_exec_opts);
    sw_exec *exec;
    tool_net net = {0};
    sw_members *group = NULL;
    SW_TRY(sw_exec_create(&exec, &opts));
    sw_status status = to_model(p, k, exec, &net, &group);
    if (status == SW_OK)
        status = cli_saved(sw_model_save(net.model, path));
    sw_members_destroy(group);
    if (net.model != NULL)
        tool_net_destroy(&net);
    sw_exec_destroy(exec);
    return status;
}

sw_status pop_save_member(pop *p, int k, const char *path)
{
    const char *at = strstr(path, "%d");
    char name[600];
    if (at == NULL)
        return save_one(p, k, path);
    snprintf(name, sizeof name, "%.*s%d%s", (int)(at - path), path, k, at + 2);
    return save_one(p, k, name);
}

sw_status pop_save_params(pop *p)
{
    const char *save = p->opts.save, *at = save != NULL ? strstr(save, "%d") : NULL;
    const int best = pop_best(p);
    if (save == NULL || (at == NULL && best < 0))
        return SW_OK;
    if (at == NULL)
        return save_one(p, best, save);
    for (int k = 0; k < p->n_members; k++) {
        if (p->members[k].failed) { /* what an update left half done is no net */
            cli_note("member %d failed: its parameters are not saved", k);
            continue;
        }
        SW_TRY(pop_save_member(p, k, save));
    }
    return SW_OK;
}
