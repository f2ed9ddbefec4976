/* `stepwell train --process`: the memory of the process, after the last step and before
 * anything is given back, against what the plans say will have been touched. */
#include "alloc/base/mem.h"
#include "alloc/base/size.h"
#include "tools/train/train.h"
#include <string.h>

/* Pages of the step arena that a storage of some plan lies in. */
typedef struct {
    unsigned char *marked; /* n flags */
    size_t n, page;
} pages;

static void mark(void *to, const sw_plan_storage *s)
{
    pages *p = to;
    if (s->input || s->bytes == 0)
        return;
    const size_t last = (s->offset + s->bytes - 1) / p->page;
    for (size_t i = s->offset / p->page; i <= last && i < p->n; i++)
        p->marked[i] = 1;
}

static sw_status mark_programs(train *t, pages *p)
{
    const sw_plan_visitor visitor = SW_OPTS(sw_plan_visitor, .to = p, .storage = mark);
    for (int i = 0; i < JOB_PROGRAMS; i++) {
        if (t->measured[i].runs == 0)
            continue;
        const sw_run_args args =
            job_args(&t->job, (job_which)i, t->job.program[i].inputs, t->now.step);
        SW_TRY(sw_plan_visit(t->job.exec, &args, &visitor));
    }
    return SW_OK;
}

/* The highest step arena of what has run. */
static size_t height(const train *t)
{
    size_t bytes = 0;
    for (int i = 0; i < JOB_PROGRAMS; i++)
        if (t->measured[i].runs > 0 && t->job.program[i].plan.arena_bytes > bytes)
            bytes = t->job.program[i].plan.arena_bytes;
    return bytes;
}

/* Whole pages that the runs so far must have touched. A bump has no holes; a plan may have some
 * that are larger than a page. */
static sw_status predict_step(train *t, size_t *bytes)
{
    pages p = {.page = sw_page_bytes()};
    p.n = (height(t) + p.page - 1) / p.page;
    *bytes = p.n * p.page;
    if (t->opts.job.immediate || p.n == 0)
        return SW_OK;
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_PROFILE, p.n));
    p.marked = block;
    const sw_status status = mark_programs(t, &p);
    size_t n = 0;
    for (size_t i = 0; i < p.n; i++)
        n += p.marked[i];
    *bytes = n * p.page;
    sw_heap_free(block, SW_HEAP_PROFILE, p.n);
    return status;
}

static size_t whole_pages(size_t bytes)
{
    size_t rounded = bytes;
    (void)sw_size_align(bytes, sw_page_bytes(), &rounded);
    return rounded;
}

static sw_status read_process(train *t, sw_process *process)
{
    size_t step = 0;
    SW_TRY(predict_step(t, &step));
    SW_TRY(sw_process_read(process));
    sw_process_predict(process, "step", step);
    sw_process_predict(process, t->opts.job.model,
                       whole_pages(job_main(&t->job)->plan.model_bytes));
    sw_process_predict(process, "loader",
                       whole_pages(sw_loader_bytes(t->train_loader)) +
                           whole_pages(sw_loader_bytes(t->test_loader)));
    return SW_OK;
}

void train_read_process(train *t)
{
    void *block = NULL;
    if (!t->opts.process)
        return;
    sw_status status = sw_heap_alloc(&block, SW_HEAP_PROFILE, sizeof *t->process);
    if (status == SW_OK)
        status = read_process(t, block);
    if (status != SW_OK) {
        cli_note("the memory of the process could not be read: %s", sw_last_error());
        sw_heap_free(block, SW_HEAP_PROFILE, sizeof *t->process);
        return;
    }
    t->process = block;
    if (t->profile != NULL)
        sw_prof_process_record(t->profile, t->process);
}

void train_free_process(train *t)
{
    sw_heap_free(t->process, SW_HEAP_PROFILE, sizeof *t->process);
}
