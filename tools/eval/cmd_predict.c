/* stepwell predict: predictions of trained parameters for each sample. */
#include "tools/eval/eval.h"

static int predict(evaluation *e)
{
    const sw_status status = eval_write(e->opts.out, predict_write, e);
    if (status == SW_STOPPED && cli_interrupted())
        return cli_error(CLI_INTERRUPTED, "%s", sw_last_error());
    return status == SW_OK ? cli_finish(CLI_DONE) : cli_library_error(status, false);
}

int tool_predict(int argc, char **argv)
{
    evaluation e = {.loader = NULL};
    int status = eval_parse(&e, argc, argv, true);
    if (status != CLI_GO)
        return status;
    if (e.opts.job.kind->forward == NULL)
        return cli_error(CLI_USAGE,
                         "predict has no rows of %s, which reads sequences: stepwell sample "
                         "writes text from its parameters, stepwell eval tells its loss",
                         e.opts.job.model);
    status = eval_open(&e, tool_net_predict_step);
    if (status == CLI_GO)
        status = predict(&e);
    eval_close(&e);
    return status;
}
