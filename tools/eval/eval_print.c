/* The output of `stepwell eval` for people. */
#include "profiler/record/utf8.h"
#include "tools/eval/eval.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define NAME_COLUMNS 20   /* of a class in the table */
#define MATRIX_CLASSES 12 /* more do not fit 80 columns */
#define MISTAKES 10       /* of more classes so many are listed */

/* ---- memory ------------------------------------------------------------------------------ */

static void print_memory(const evaluation *e)
{
    const job_program *main = job_main(&e->job);
    const eval_measured *m = eval_main(e);
    const bool immediate = e->job.opts->immediate;
    char found[96], text[256];
    result_print_phases(immediate ? NULL : main->plan.phase, m->phase);
    if (m->peak_bytes == main->plan.peak_bytes &&
        (immediate || result_phases_equal(main->plan.phase, m->phase)))
        snprintf(found, sizeof found, "the same measured by arena%s",
                 immediate ? "" : ", in every phase");
    else
        snprintf(found, sizeof found, "%s measured by arena", cli_digits(m->peak_bytes).text);
    snprintf(text, sizeof text, "%s predicted, %s", result_both(main->plan.peak_bytes).text,
             found);
    printf("\npeak    ");
    cli_wrap(stdout, 8, 8, text);
    printf("model   %s\n", result_both(main->plan.model_bytes).text);
    printf("%s   %s\n", immediate ? "bump " : "arena",
           result_both(main->plan.arena_bytes).text);
    printf("data    %s\n", result_both(main->plan.data_bytes).text);
    printf("total   %s\n", result_both(job_total_bytes(&e->job)).text);
    result_print_device("card    ", e->job.exec);
}

/* ---- classes ----------------------------------------------------------------------------- */

/* "0.9876", or "-" where there is none. */
static cli_text share(double x)
{
    cli_text t = {"-"};
    if (!isnan(x))
        snprintf(t.text, sizeof t.text, "%.4f", x);
    return t;
}

/* The width that the names take. */
static int name_columns(const evaluation *e, int64_t n)
{
    char name[EVAL_NAME_BYTES];
    size_t width = strlen("class");
    for (int64_t k = 0; k < n; k++) {
        const size_t bytes = strlen(eval_class_name(e, k, name));
        width = bytes > width ? bytes : width;
    }
    return (int)(width < NAME_COLUMNS ? width : NAME_COLUMNS);
}

static void print_name(const char *name, int width)
{
    const int left = cli_fitted(stdout, name, strlen(name), width);
    printf("%*s", left, "");
}

static void print_class(const char *name, int width, const sw_class_score *s)
{
    print_name(name, width);
    printf("  %11s %11s %11s  %9s  %6s  %6s\n", cli_digits(s->support).text,
           cli_digits(s->predicted).text, cli_digits(s->right).text, share(s->precision).text,
           share(s->recall).text, share(s->f1).text);
}

static void print_classes(const evaluation *e, int64_t n, int width)
{
    const bool colour = cli_colour(stdout);
    char name[EVAL_NAME_BYTES];
    sw_class_score s = SW_OPTS(sw_class_score);
    printf("\n%s%-*s  %11s %11s %11s  %9s  %6s  %6s%s\n", colour ? "\033[1m" : "", width,
           "class", "support", "predicted", "right", "precision", "recall", "F1",
           colour ? "\033[0m" : "");
    for (int64_t k = 0; k < n; k++)
        if (sw_confusion_class(e->counts, n, k, &s) == SW_OK)
            print_class(eval_class_name(e, k, name), width, &s);
    if (sw_confusion_mean(e->counts, n, &s) == SW_OK)
        print_class("mean", width, &s);
}

static void print_matrix(const evaluation *e, int64_t n, int width)
{
    char name[EVAL_NAME_BYTES];
    uint64_t most = 0;
    for (int64_t i = 0; i < n * n; i++)
        most = e->counts[i] > most ? e->counts[i] : most;
    const int digits = snprintf(NULL, 0, "%" PRIu64, most);
    const int column = digits < 4 ? 4 : digits;
    printf("\nconfusion: a row for each label, a column for each prediction, in the order "
           "above\n");
    for (int64_t row = 0; row < n; row++) {
        print_name(eval_class_name(e, row, name), width);
        putchar(' ');
        for (int64_t k = 0; k < n; k++)
            printf(" %*" PRIu64, column, e->counts[row * n + k]);
        putchar('\n');
    }
}

/* The largest count off the diagonal that comes after `last` in the order of counts, then of
 * places; -1: none. */
static int64_t next_mistake(const evaluation *e, int64_t n, int64_t last)
{
    int64_t best = -1;
    for (int64_t i = 0; i < n * n; i++) {
        const uint64_t x = e->counts[i];
        if (i / n == i % n || x == 0)
            continue;
        const bool behind =
            last < 0 || x < e->counts[last] || (x == e->counts[last] && i > last);
        if (behind && (best < 0 || x > e->counts[best]))
            best = i;
    }
    return best;
}

static void print_mistakes(const evaluation *e, int64_t n)
{
    char label[EVAL_NAME_BYTES], taken[EVAL_NAME_BYTES];
    int64_t at = next_mistake(e, n, -1);
    if (at >= 0)
        printf("\nmost frequent mistakes; --format csv has all of the confusion\n");
    for (int i = 0; at >= 0 && i < MISTAKES; i++, at = next_mistake(e, n, at))
        printf("%11s of %s taken for %s\n", cli_digits(e->counts[at]).text,
               eval_class_name(e, at / n, label), eval_class_name(e, at % n, taken));
}

/* ---- all --------------------------------------------------------------------------------- */

static void print_scores(const evaluation *e)
{
    printf("\nloss        %.4f\n", e->loss);
    if (eval_is_language(e)) {
        printf("perplexity  %.4f\n", exp(e->loss));
        printf("bits        %.4f for each token\n", e->loss / log(2.0));
    } else if (eval_has_classes(e)) {
        printf("accuracy    %.2f %% (%s of %s)\n", 100.0 * (double)e->right / (double)e->rows,
               cli_digits((uint64_t)e->right).text, cli_digits((uint64_t)e->rows).text);
    } else {
        printf("rmse        %.4f\n", sqrt(e->loss));
    }
}

static void print_title(const evaluation *e)
{
    const job_opts *o = e->job.opts;
    char name[1024], path[1024], title[2400];
    sw_utf8_clean(name, sizeof name, e->job.test.info.name);
    sw_utf8_clean(path, sizeof path, e->opts.load);
    snprintf(title, sizeof title,
             "%s with %s on %s, %s samples for %s, batch %s, %s, %" PRId64 " thread%s",
             o->model, path, name, cli_digits((uint64_t)e->job.test.n).text,
             strcmp(e->opts.part, "train") == 0 ? "training" : "testing",
             result_batch(job_batch(&e->job), e->job.batch).text, o->device, o->threads,
             o->threads == 1 ? "" : "s");
    cli_wrap(stdout, 0, 0, title);
    if (*e->job.normal.text != '\0')
        printf("pixels  %s from %s\n", e->job.normal.text, e->job.normal.from);
    putchar('\n');
}

void eval_print_text(const evaluation *e)
{
    const int64_t n = e->job.test.info.n_classes;
    print_title(e);
    print_memory(e);
    printf("\n%s samples in %s", cli_digits((uint64_t)e->rows).text, cli_ns(e->wall_ns).text);
    if (e->warm_runs > 0)
        printf("; %s allocation%s after warm-up", cli_digits(e->allocations).text,
               e->allocations == 1 ? "" : "s");
    putchar('\n');
    print_scores(e);
    if (e->counts == NULL)
        return;
    const int width = name_columns(e, n);
    print_classes(e, n, width);
    if (n <= MATRIX_CLASSES)
        print_matrix(e, n, width);
    else
        print_mistakes(e, n);
}
