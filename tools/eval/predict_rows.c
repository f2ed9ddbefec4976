/* The rows of `stepwell predict`: text, CSV, JSON, JSON Lines, or an array of NumPy's. */
#include "kernels/scalar.h"
#include "tools/eval/eval.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Rows on their way out. */
typedef struct {
    eval_out *out;
    int64_t n;   /* scores of a row */
    bool labels; /* rows have one */
    sw_json json;
    char room[1 << 12]; /* of the JSON writer */
} writing;

/* One row. */
typedef struct {
    int64_t number, label; /* label -1: it has none */
    int64_t best;
    const float *scores;
} row;

static int64_t label_at(const sw_array *labels, int64_t i)
{
    if (labels->dtype == SW_U8)
        return ((const uint8_t *)labels->data)[i];
    if (labels->dtype == SW_U16)
        return ((const uint16_t *)labels->data)[i];
    return labels->dtype == SW_I32 ? ((const int32_t *)labels->data)[i] : -1;
}

static int64_t best_of(const float *scores, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        best = sw_wins(scores[i], scores[best]) ? i : best;
    return best;
}

/* ---- text -------------------------------------------------------------------------------- */

static void text_head(const evaluation *e, writing *w)
{
    if (eval_has_classes(e) && w->labels)
        eval_print(w->out, "%10s  %-16s  %-16s  %s\n", "row", "label", "predicted",
                   "probability");
    else if (eval_has_classes(e))
        eval_print(w->out, "%10s  %-16s  %s\n", "row", "predicted", "probability");
    else
        eval_print(w->out, "%10s  %s\n", "row", "predicted");
}

static void text_row(const evaluation *e, writing *w, const row *r)
{
    char label[EVAL_NAME_BYTES], predicted[EVAL_NAME_BYTES];
    eval_print(w->out, "%10" PRId64, r->number);
    if (!eval_has_classes(e)) {
        for (int64_t i = 0; i < w->n; i++)
            eval_print(w->out, "%s%.6g", i == 0 ? "  " : " ", (double)r->scores[i]);
        eval_print(w->out, "\n");
        return;
    }
    if (w->labels)
        eval_print(w->out, "  %-16s", eval_class_name(e, r->label, label));
    eval_print(w->out, "  %-16s  %.4f%s\n", eval_class_name(e, r->best, predicted),
               (double)r->scores[r->best], !w->labels || r->best == r->label ? "" : "  *");
}

/* ---- CSV --------------------------------------------------------------------------------- */

static void csv_head(const evaluation *e, writing *w)
{
    const bool classes = eval_has_classes(e), named = e->job.test.info.class_names != NULL;
    eval_print(w->out, "row");
    if (classes)
        eval_print(w->out, "%s,predicted%s%s", w->labels ? ",label" : "",
                   named && w->labels ? ",label_name" : "", named ? ",predicted_name" : "");
    for (int64_t i = 0; i < w->n; i++)
        eval_print(w->out, ",%c%" PRId64, classes ? 'p' : 'y', i);
    eval_print(w->out, "\n");
}

static void csv_row(const evaluation *e, writing *w, const row *r)
{
    const char *const *names = e->job.test.info.class_names;
    eval_print(w->out, "%" PRId64, r->number);
    if (eval_has_classes(e) && w->labels)
        eval_print(w->out, ",%" PRId64, r->label);
    if (eval_has_classes(e))
        eval_print(w->out, ",%" PRId64, r->best);
    if (eval_has_classes(e) && names != NULL) {
        if (w->labels) {
            eval_put(w->out, ",", 1);
            eval_put_field(w->out, names[r->label]);
        }
        eval_put(w->out, ",", 1);
        eval_put_field(w->out, names[r->best]);
    }
    for (int64_t i = 0; i < w->n; i++) {
        eval_put(w->out, ",", 1);
        eval_put_float(w->out, r->scores[i]);
    }
    eval_put(w->out, "\n", 1);
}

/* ---- JSON -------------------------------------------------------------------------------- */

static sw_status drain(void *context, const char *bytes, size_t n)
{
    eval_out *out = context;
    eval_put(out, bytes, n);
    return out->status;
}

static void put_names(sw_json *json, const evaluation *e)
{
    const char *const *names = e->job.test.info.class_names;
    if (names == NULL) {
        sw_json_put_null(json, "class_names");
        return;
    }
    sw_json_open(json, "class_names", '[');
    for (int64_t k = 0; k < e->job.test.info.n_classes; k++)
        sw_json_string(json, names[k]);
    sw_json_end(json);
}

static void json_head(const evaluation *e, writing *w)
{
    sw_json *json = &w->json;
    sw_json_begin(json, '{');
    sw_json_put_string(json, "model", e->job.opts->model);
    sw_json_put_string(json, "data", e->job.test.info.name);
    sw_json_put_string(json, "part", e->opts.part);
    sw_json_put_string(json, "parameters", e->opts.load);
    sw_json_put_i64(json, "samples", e->job.test.n);
    put_names(json, e);
    sw_json_open(json, "rows", '[');
}

static void json_row(const evaluation *e, writing *w, const row *r)
{
    const char *const *names = e->job.test.info.class_names;
    sw_json *json = &w->json;
    sw_json_begin(json, '{');
    sw_json_put_i64(json, "row", r->number);
    if (eval_has_classes(e)) {
        if (w->labels)
            sw_json_put_i64(json, "label", r->label);
        sw_json_put_i64(json, "predicted", r->best);
        if (names != NULL)
            sw_json_put_string(json, "name", names[r->best]);
    }
    sw_json_open(json, eval_has_classes(e) ? "probabilities" : "values", '[');
    for (int64_t i = 0; i < w->n; i++)
        sw_json_f32(json, r->scores[i]);
    sw_json_end(json);
    sw_json_end(json);
    if (e->opts.format == EVAL_JSONL)
        sw_json_line(json);
}

static sw_status json_end(writing *w, eval_format format)
{
    if (format == EVAL_JSON) {
        sw_json_end(&w->json);
        sw_json_end(&w->json);
        sw_json_line(&w->json);
    }
    if (w->json.status == SW_OK)
        eval_put(w->out, w->json.bytes, w->json.used);
    return w->json.status;
}

/* ---- an array of NumPy's ----------------------------------------------------------------- */

/* Version 1.0: the header, newline included, ends at a multiple of 64. */
static void npy_head(const evaluation *e, writing *w)
{
    char text[118];
    const int n = snprintf(text, sizeof text,
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRId64
                           ", %" PRId64 "), }",
                           e->job.test.n, w->n);
    memset(text + n, ' ', sizeof text - (size_t)n);
    text[sizeof text - 1] = '\n';
    eval_put(w->out, "\x93NUMPY\x01\x00\x76\x00", 10);
    eval_put(w->out, text, sizeof text);
}

static void npy_row(const evaluation *e, writing *w, const row *r)
{
    (void)e;
    for (int64_t i = 0; i < w->n; i++) {
        uint32_t bits;
        memcpy(&bits, &r->scores[i], sizeof bits);
        const unsigned char at[4] = {(unsigned char)bits, (unsigned char)(bits >> 8),
                                     (unsigned char)(bits >> 16), (unsigned char)(bits >> 24)};
        eval_put(w->out, at, sizeof at);
    }
}

/* ---- all --------------------------------------------------------------------------------- */

static void nothing(const evaluation *e, writing *w)
{
    (void)e;
    (void)w;
}

static const struct {
    void (*head)(const evaluation *e, writing *w);
    void (*row)(const evaluation *e, writing *w, const row *r);
} formats[] = {[EVAL_TEXT] = {text_head, text_row},
               [EVAL_JSON] = {json_head, json_row},
               [EVAL_CSV] = {csv_head, csv_row},
               [EVAL_JSONL] = {nothing, json_row},
               [EVAL_NPY] = {npy_head, npy_row}};

static sw_status take(evaluation *e, const sw_array *inputs, const sw_array *scores, void *to)
{
    writing *w = to;
    const int64_t rows = inputs[0].shape.dim[0];
    int64_t all = 1;
    for (int i = 0; i < scores->shape.rank; i++)
        all *= scores->shape.dim[i];
    if (e->rows == 0) {
        w->n = all / rows;
        formats[e->opts.format].head(e, w);
    }
    for (int64_t i = 0; i < rows; i++) {
        const float *x = (const float *)scores->data + i * w->n;
        const row r = {e->rows + i, w->labels ? label_at(&inputs[1], i) : -1, best_of(x, w->n),
                       x};
        formats[e->opts.format].row(e, w, &r);
    }
    return w->out->status != SW_OK ? w->out->status : w->json.status;
}

sw_status predict_write(void *context, eval_out *out)
{
    evaluation *e = context;
    writing w = {.out = out, .labels = e->job.test.info.n_fields > 1};
    sw_json_fixed(&w.json, w.room, sizeof w.room, drain, out);
    SW_TRY(eval_all(e, take, &w));
    return json_end(&w, e->opts.format);
}
