/* --metrics: a line for each step and each validation, as CSV or as JSON Lines. Each line is
 * handed to the system at once, so that neither Ctrl-C nor a killed process loses any. */
#include "profiler/record/json.h"
#include "tools/train/train.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define LINE_BYTES 512

static bool ends_with(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n > m && strcmp(path + n - m, end) == 0;
}

int train_metrics_check(const char *path)
{
    if (path == NULL || ends_with(path, ".csv") || ends_with(path, ".jsonl"))
        return CLI_GO;
    return cli_error(CLI_USAGE,
                     "--metrics must be a file that ends in .csv or .jsonl (got '%s')", path);
}

/* What could not be written is told once and fails the run at its end; training goes on. */
static void put(train *t, const char *text, size_t n)
{
    const sw_status status = sw_file_write(t->metrics, text, n);
    if (status == SW_OK)
        return;
    t->trouble = t->trouble == CLI_DONE ? cli_library_error(status, false) : t->trouble;
    sw_file_drop(t->metrics);
    t->metrics = NULL;
}

sw_status train_metrics_open(train *t)
{
    static const char heads[] = "kind,step,epoch,loss,accuracy,rate,ms\n";
    if (t->opts.metrics == NULL)
        return SW_OK;
    SW_TRY(sw_file_take(&t->metrics, t->opts.metrics, true)); /* as the only writer */
    return ends_with(t->opts.metrics, ".csv")
               ? sw_file_write(t->metrics, heads, sizeof heads - 1)
               : SW_OK;
}

static double accuracy_of(const train_row *row)
{
    return (double)row->score.right / (double)row->score.rows;
}

/* Numbers are as long as it takes to read them back; what a line does not have is empty. */
static size_t write_csv(const train *t, const train_row *row, char *text)
{
    char accuracy[40] = "", rate[40] = "", ms[40] = "", loss[40];
    snprintf(loss, sizeof loss, "%.9g", row->score.loss);
    if (train_has_classes(t))
        snprintf(accuracy, sizeof accuracy, "%.9g", accuracy_of(row));
    if (!row->validation)
        snprintf(rate, sizeof rate, "%.9g", row->rate);
    if (row->ns > 0)
        snprintf(ms, sizeof ms, "%.6f", (double)row->ns * 1e-6);
    return (size_t)snprintf(text, LINE_BYTES, "%s,%" PRIu64 ",%" PRIu64 ",%s,%s,%s,%s\n",
                            row->validation ? "validation" : "train", row->step, row->epoch + 1,
                            isnan(row->score.loss) ? "nan" : loss, accuracy, rate, ms);
}

static size_t write_json(const train *t, const train_row *row, char *text)
{
    sw_json json;
    sw_json_fixed(&json, text, LINE_BYTES, NULL, NULL);
    sw_json_begin(&json, '{');
    sw_json_put_string(&json, "kind", row->validation ? "validation" : "train");
    sw_json_put_u64(&json, "step", row->step);
    sw_json_put_u64(&json, "epoch", row->epoch + 1);
    sw_json_put_f64(&json, "loss", row->score.loss);
    if (train_has_classes(t))
        sw_json_put_f64(&json, "accuracy", accuracy_of(row));
    if (!row->validation)
        sw_json_put_f64(&json, "rate", row->rate);
    sw_json_put_known_f64(&json, "ms", row->ns > 0, (double)row->ns * 1e-6);
    sw_json_end(&json);
    sw_json_line(&json);
    return json.used;
}

void train_metrics_row(train *t, const train_row *row)
{
    char text[LINE_BYTES];
    if (t->metrics == NULL)
        return;
    put(t, text,
        ends_with(t->opts.metrics, ".csv") ? write_csv(t, row, text)
                                           : write_json(t, row, text));
}

void train_metrics_close(train *t)
{
    const sw_status status = sw_file_close(t->metrics);
    t->metrics = NULL;
    if (status != SW_OK && t->trouble == CLI_DONE)
        t->trouble = cli_library_error(status, false);
}
