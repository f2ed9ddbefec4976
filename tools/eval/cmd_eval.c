/* stepwell eval: how good trained parameters are on a data set. */
#include "alloc/base/mem.h"
#include "tools/eval/eval.h"
#include <math.h>

/* As `train` weighs its batches, so that both say the same loss to the bit. */
static void add_loss(evaluation *e, double loss, int64_t rows)
{
    e->loss = e->rows == 0 ? loss
                           : (e->loss * (double)e->rows + loss * (double)rows) /
                                 (double)(e->rows + rows);
}

static sw_status take(evaluation *e, const sw_array *inputs, const sw_array *scores, void *to)
{
    const int64_t rows = inputs[0].shape.dim[0];
    double loss, accuracy = 0.0;
    (void)to;
    SW_TRY(sw_metric_get(e->job.exec, "loss", &loss));
    if (eval_has_classes(e))
        SW_TRY(sw_metric_get(e->job.exec, "accuracy", &accuracy));
    add_loss(e, loss, rows);
    e->right += llround(accuracy * (double)rows); /* a share of rows: whole again */
    if (e->counts == NULL)
        return SW_OK;
    return sw_confusion_add(e->counts, scores->shape.dim[1], scores, &inputs[1]);
}

static sw_status take_counts(evaluation *e)
{
    const int64_t n = e->job.test.info.n_classes;
    void *block;
    if (!eval_has_classes(e) || n > EVAL_COUNTED)
        return SW_OK;
    e->counts_bytes = (size_t)(n * n) * sizeof *e->counts;
    const sw_status status = sw_heap_alloc(&block, SW_HEAP_RECORDS, e->counts_bytes);
    e->counts = status == SW_OK ? block : NULL;
    return status;
}

static sw_status write_csv(void *context, eval_out *out)
{
    eval_put_csv(out, context);
    return out->status;
}

static sw_status write_json(void *context, eval_out *out)
{
    sw_json json;
    sw_json_growing(&json, SW_HEAP_FILES);
    eval_put_json(&json, context);
    if (json.status == SW_OK)
        eval_put(out, json.bytes, json.used);
    const sw_status status = json.status;
    sw_json_free(&json);
    return status == SW_OK ? out->status : status;
}

static int show(evaluation *e)
{
    const eval_format format = e->opts.format;
    if (format == EVAL_TEXT) {
        eval_print_text(e);
        return cli_finish(CLI_DONE);
    }
    const sw_status status =
        eval_write(e->opts.out, format == EVAL_CSV ? write_csv : write_json, e);
    return status == SW_OK ? cli_finish(CLI_DONE) : cli_library_error(status, false);
}

static int evaluate(evaluation *e)
{
    sw_status status = take_counts(e);
    if (status == SW_OK)
        status = eval_all(e, take, NULL);
    if (status == SW_STOPPED && cli_interrupted())
        return cli_error(CLI_INTERRUPTED, "%s", sw_last_error());
    return status == SW_OK ? show(e) : cli_library_error(status, false);
}

int tool_eval(int argc, char **argv)
{
    evaluation e = {.loader = NULL};
    int status = eval_parse(&e, argc, argv, false);
    if (status != CLI_GO)
        return status;
    status = eval_open(&e, tool_net_eval_step);
    if (status == CLI_GO)
        status = evaluate(&e);
    eval_close(&e);
    return status;
}
