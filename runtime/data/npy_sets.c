/* Two arrays become the fields of a data set. Numbers come through a window in the order of the
 * file, and go to where their sample and place say: nothing is held twice. */
#include "kernels/rng.h"
#include "runtime/data/data_internal.h"
#include "runtime/data/npy.h"
#include "runtime/base/structs.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TRAIN = SWI_NPY_TRAIN, TEST = SWI_NPY_TEST, PARTS = SWI_NPY_PARTS, FIELDS = 2 };
enum { WINDOW = 1 << 15, AXES = SW_MAX_RANK };
#define DEFAULT_SHARE 0.2

/* The field of a data set that an array becomes. */
typedef struct {
    const swi_npy *npy;
    swi_take take;
    sw_shape shape;            /* of a sample */
    ptrdiff_t to_stride[AXES]; /* bytes in a sample, for each axis after that of samples */
    size_t sample_bytes;
    bool ids;
} column;

typedef struct {
    const swi_npy_pair *pair;
    column column[PARTS][FIELDS];
    int64_t largest, n[PARTS];
    uint64_t *place; /* of each sample: its number in its part, twice, and one more for testing;
                        NULL: as they come */
    sw_dataset *part[PARTS];
} sets;

/* ---- what becomes of them ---------------------------------------------------------------- */

static bool same_sizes(const sw_shape *a, const sw_shape *b)
{
    return a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

static bool is_count_of_channels(int64_t n)
{
    return n == 1 || n == 3 || n == 4;
}

/* The sample's shape, and how far apart its numbers lie there. */
static void lay_out(column *c, bool image)
{
    const sw_shape *s = &c->npy->shape;
    const bool last = image && s->rank == 4 && is_count_of_channels(s->dim[3]) &&
                      !is_count_of_channels(s->dim[1]);
    const size_t one = sw_dtype_bytes(c->take.to);
    int64_t step = (int64_t)one;
    c->shape = (sw_shape){s->rank - 1, {0}};
    memcpy(c->shape.dim, &s->dim[1], (size_t)(s->rank - 1) * sizeof s->dim[0]);
    for (int i = s->rank - 2; i >= 0; i--) {
        c->to_stride[i] = (ptrdiff_t)step;
        step *= s->dim[i + 1];
    }
    c->sample_bytes = (size_t)step;
    if (last) { /* channels, rows, columns */
        c->shape = SW_SHAPE(s->dim[3], s->dim[1], s->dim[2]);
        c->to_stride[0] = (ptrdiff_t)one * s->dim[2];
        c->to_stride[1] = (ptrdiff_t)one;
        c->to_stride[2] = (ptrdiff_t)one * s->dim[1] * s->dim[2];
    } else if (image && s->rank == 3) {
        c->shape = SW_SHAPE(1, s->dim[1], s->dim[2]);
    }
}

static void use_ids(column *c)
{
    c->ids = true;
    c->take.low = 0;
    c->take.high = c->take.high < INT32_MAX ? c->take.high : INT32_MAX - 1;
}

static int fields_of(const sets *s, int p)
{
    return s->pair->unlabelled[p] ? 1 : FIELDS;
}

static sw_status plan_alone(sets *s, int p)
{
    column *x = &s->column[p][0];
    x->npy = &s->pair->x[p];
    x->take = swi_take_of(x->npy->type);
    if (x->npy->type != SW_NUMBER_U8)
        x->take.to = SW_F32;
    return swi_dataset_check_count(x->npy->source.name, (uint64_t)x->npy->shape.dim[0]);
}

static sw_status plan_pair(sets *s, int p)
{
    column *x = &s->column[p][0], *y = &s->column[p][1];
    x->npy = &s->pair->x[p];
    y->npy = &s->pair->y[p];
    const sw_shape *xs = &x->npy->shape, *ys = &y->npy->shape;
    x->take = swi_take_of(x->npy->type);
    y->take = swi_take_of(y->npy->type);
    if (xs->dim[0] != ys->dim[0])
        SW_FAIL(SW_FORMAT, "%s: has %lld samples, %s has %lld", y->npy->source.name,
                (long long)ys->dim[0], x->npy->source.name, (long long)xs->dim[0]);
    SW_TRY(swi_dataset_check_count(x->npy->source.name, (uint64_t)xs->dim[0]));
    const bool whole = swi_number_is_whole(y->npy->type);
    const bool one = ys->rank == 1 || (ys->rank == 2 && ys->dim[1] == 1);
    const bool sequence =
        whole && swi_number_is_whole(x->npy->type) && ys->rank > 1 && same_sizes(xs, ys);
    if (whole && !one && !sequence) {
        char text[SW_MAX_RANK * 24], *to = text;
        for (int i = 0; i < ys->rank; i++)
            to += snprintf(to, 24, "%s%lld", i > 0 ? ", " : "", (long long)ys->dim[i]);
        SW_FAIL(SW_FORMAT,
                "%s: targets must be classes (n) or (n, 1), ids of the inputs' own shape, or "
                "floats (got integers of (%s))",
                y->npy->source.name, text);
    }
    if (whole)
        use_ids(y);
    if (sequence)
        use_ids(x);
    else if (x->npy->type != SW_NUMBER_U8)
        x->take.to = SW_F32;
    return SW_OK;
}

/* ---- where a number goes ----------------------------------------------------------------- */

/* Axes from the one that runs fastest, of which the samples' is `samples`. */
typedef struct {
    const column *c;
    int rank, samples;
    int64_t size[AXES], index[AXES];
    ptrdiff_t stride[AXES];
} walk;

static void begin(walk *w, const column *c)
{
    const sw_shape *s = &c->npy->shape;
    *w = (walk){.c = c, .rank = s->rank};
    w->samples = c->npy->fortran ? 0 : s->rank - 1;
    for (int i = 0; i < s->rank; i++) {
        const int axis = c->npy->fortran ? i : s->rank - 1 - i;
        w->size[i] = s->dim[axis];
        w->stride[i] = axis > 0 ? c->to_stride[axis - 1] : 0;
    }
    /* Axes that follow each other in the sample too become one: long runs. */
    while (w->samples > 1 && w->stride[1] == w->stride[0] * w->size[0]) {
        w->size[0] *= w->size[1];
        w->samples--;
        w->rank--;
        for (int i = 1; i < w->rank; i++) {
            w->size[i] = w->size[i + 1];
            w->stride[i] = w->stride[i + 1];
        }
    }
}

/* On by n of the fastest axis. */
static void go_on(walk *w, int64_t n)
{
    w->index[0] += n;
    for (int i = 0; i + 1 < w->rank && w->index[i] == w->size[i]; i++) {
        w->index[i] = 0;
        w->index[i + 1]++;
    }
}

static unsigned char *target_of(const sets *s, int p, int f, const walk *w)
{
    size_t sample = (size_t)w->index[w->samples];
    ptrdiff_t at = 0;
    if (s->place != NULL) {
        p = s->place[sample] & 1 ? TEST : TRAIN;
        sample = (size_t)(s->place[sample] >> 1);
    }
    for (int i = 0; i < w->rank; i++)
        if (i != w->samples)
            at += (ptrdiff_t)w->index[i] * w->stride[i];
    return s->part[p]->field[f].data + sample * w->c->sample_bytes + at;
}

static sw_status refuse(const walk *w, int64_t behind, const unsigned char *at)
{
    char why[SWI_TAKE_TEXT];
    walk there = *w;
    go_on(&there, behind);
    swi_take_reason(&w->c->take, at, why);
    SW_FAIL(SW_FORMAT, "%s: a number of sample %lld %s", w->c->npy->source.name,
            (long long)there.index[there.samples], why);
}

/* Numbers of a window, in runs along the fastest axis. `fill` false: they are looked at. */
static sw_status take_window(sets *s, int p, int f, walk *w, const unsigned char *from,
                             size_t n, bool fill)
{
    const size_t width = swi_number_bytes(w->c->take.from);
    while (n > 0) {
        const int64_t left = w->samples == 0 && fill ? 1 : w->size[0] - w->index[0];
        const size_t run = n < (size_t)left ? n : (size_t)left;
        unsigned char *to = fill ? target_of(s, p, f, w) : NULL;
        const size_t taken = swi_take_numbers(&w->c->take, to, w->stride[0], from,
                                              (ptrdiff_t)width, run, &s->largest);
        if (taken < run)
            return refuse(w, (int64_t)taken, from + taken * width);
        go_on(w, (int64_t)run);
        from += run * width;
        n -= run;
    }
    return SW_OK;
}

/* All numbers, from the first, which comes next in the source. */
static sw_status go_through(sets *s, int p, int f, bool fill)
{
    const column *c = &s->column[p][f];
    const swi_npy_source *source = &c->npy->source;
    unsigned char window[WINDOW];
    uint64_t left = source->bytes - c->npy->head_bytes;
    walk w;
    begin(&w, c);
    while (left > 0) {
        const size_t bytes = left < sizeof window ? (size_t)left : sizeof window;
        size_t got;
        SW_TRY(source->read(source->of, window, bytes, &got));
        if (got < bytes)
            SW_FAIL(SW_FORMAT, "%s: changed while it was read", source->name);
        SW_TRY(take_window(s, p, f, &w, window, bytes / swi_number_bytes(c->take.from), fill));
        left -= bytes;
    }
    size_t more = 0; /* an archive holds the end against its checksum */
    SW_TRY(source->read(source->of, window, 1, &more));
    if (more > 0)
        SW_FAIL(SW_FORMAT, "%s: changed while it was read", source->name);
    return SW_OK;
}

/* Back to the first number. */
static sw_status rewind_to_numbers(const column *c)
{
    const swi_npy_source *source = &c->npy->source;
    unsigned char passed[512];
    size_t got;
    SW_TRY(source->rewind(source->of));
    for (size_t left = c->npy->head_bytes; left > 0; left -= got) {
        SW_TRY(source->read(source->of, passed, left < sizeof passed ? left : sizeof passed,
                            &got));
        if (got == 0)
            SW_FAIL(SW_FORMAT, "%s: changed while it was read", source->name);
    }
    return SW_OK;
}

/* ---- parts ------------------------------------------------------------------------------- */

/* Ids are looked at first: how many there are decides their type. */
static sw_status count_ids(sets *s)
{
    for (int p = 0; p < PARTS; p++)
        for (int f = 0; s->pair->given[p] && f < fields_of(s, p); f++)
            if (s->column[p][f].ids) {
                SW_TRY(go_through(s, p, f, false));
                SW_TRY(rewind_to_numbers(&s->column[p][f]));
            }
    for (int p = 0; p < PARTS; p++)
        for (int f = 0; s->pair->given[p] && f < fields_of(s, p); f++) {
            column *c = &s->column[p][f];
            if (c->ids && c->take.to == SW_I32)
                c->take.to = swi_ids_type(SW_NUMBER_I64, s->largest + 1);
            lay_out(c, f == 0 && !c->ids);
            if (f == 1 && c->npy->shape.rank == 2 && c->npy->shape.dim[1] == 1 && c->ids &&
                !s->column[p][0].ids)
                c->shape = SW_SCALAR;
        }
    return SW_OK;
}

static const char *describe(const column *c, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "%s (", sw_dtype_name(c->take.to));
    for (int i = 0; i < c->shape.rank && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)c->shape.dim[i]);
    if (used < bytes)
        snprintf(text + used, bytes - used, ")");
    return text;
}

/* Both parts go to the same program. */
static sw_status check_parts(sets *s)
{
    char a[200], b[200];
    if (!s->pair->given[TEST])
        return SW_OK;
    for (int f = 0; f < fields_of(s, TRAIN) && f < fields_of(s, TEST); f++) {
        column *x = &s->column[TRAIN][f], *y = &s->column[TEST][f];
        if (!same_sizes(&x->shape, &y->shape) || x->take.to != y->take.to)
            SW_FAIL(SW_FORMAT, "%s: its samples are %s, those of %s are %s",
                    y->npy->source.name, describe(y, a, sizeof a), x->npy->source.name,
                    describe(x, b, sizeof b));
    }
    return SW_OK;
}

static sw_status choose_samples(sets *s)
{
    const int64_t all = s->n[TRAIN];
    const double share = s->pair->share > 0.0 ? s->pair->share : DEFAULT_SHARE;
    int64_t filled[PARTS] = {0, 0};
    void *block;
    if (all < 2)
        SW_FAIL(SW_FORMAT,
                "%s: one sample cannot be split into a part for training and one for testing: "
                "name data for testing",
                s->pair->x[TRAIN].source.name);
    const int64_t test = llround(share * (double)all);
    s->n[TEST] = test < 1 ? 1 : test > all - 1 ? all - 1 : test;
    s->n[TRAIN] = all - s->n[TEST];
    if (s->pair->shapes_only)
        return SW_OK;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, (size_t)all * sizeof(uint64_t)));
    s->place = block;
    for (int64_t i = 0; i < all; i++) {
        const bool to = swi_split_takes(s->pair->seed, (uint64_t)i, (uint64_t)(all - i),
                                        (uint64_t)(s->n[TEST] - filled[TEST]));
        s->place[i] = (uint64_t)filled[to ? TEST : TRAIN]++ * 2 + to;
    }
    return SW_OK;
}

static sw_status make_part(sets *s, int p)
{
    const int from = s->pair->given[p] ? p : TRAIN;
    const column *c = s->column[from];
    SW_TRY(swi_dataset_new(&s->part[p], s->pair->name, s->n[p]));
    s->part[p]->n_classes = s->column[TRAIN][1].ids ? s->largest + 1 : 0;
    s->part[p]->shapes_only = s->pair->shapes_only;
    for (int f = 0; f < fields_of(s, from); f++)
        SW_TRY(swi_dataset_field(s->part[p], c[f].take.to, c[f].shape));
    return SW_OK;
}

static sw_status read_all(sets *s)
{
    const swi_npy_pair *pair = s->pair;
    for (int p = 0; p < PARTS; p++) {
        if (!pair->given[p])
            continue;
        SW_TRY(pair->unlabelled[p] ? plan_alone(s, p) : plan_pair(s, p));
        s->n[p] = pair->x[p].shape.dim[0];
    }
    SW_TRY(count_ids(s));
    SW_TRY(check_parts(s));
    if (pair->split)
        SW_TRY(choose_samples(s));
    for (int p = 0; p < PARTS; p++)
        if (s->n[p] > 0)
            SW_TRY(make_part(s, p));
    for (int p = 0; p < PARTS && !pair->shapes_only; p++)
        for (int f = 0; pair->given[p] && f < fields_of(s, p); f++)
            SW_TRY(go_through(s, p, f, true));
    return SW_OK;
}

static sw_status make_sets(sw_dataset *part[PARTS], const swi_npy_pair *pair)
{
    sets s = {.pair = pair, .largest = -1};
    const sw_status status = read_all(&s);
    if (s.place != NULL)
        sw_heap_free(s.place, SW_HEAP_FILES,
                     (size_t)pair->x[TRAIN].shape.dim[0] * sizeof(uint64_t));
    for (int p = 0; p < PARTS; p++) {
        if (status != SW_OK)
            sw_dataset_destroy(s.part[p]);
        else
            part[p] = s.part[p];
    }
    return status;
}

/* ---- calls ------------------------------------------------------------------------------- */

static sw_status check_opts(sw_npy_opts *to, const sw_npy_opts *given, const char *path,
                            bool train, bool test, const char *call)
{
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_npy_opts, to, given, call));
    if (!train || path == NULL || path[0] == '\0')
        SW_FAIL(SW_INVALID, "%s: train and path must not be NULL, path not empty", call);
    if (!(to->test_share >= 0.0 && to->test_share < 1.0))
        SW_FAIL(SW_INVALID, "%s: test_share must be above 0 and below 1 (got %g)", call,
                to->test_share);
    if (to->unlabelled < 0 || to->unlabelled > 1)
        SW_FAIL(SW_INVALID, "%s: unlabelled must be 0 or 1 (got %lld)", call,
                (long long)to->unlabelled);
    if (to->test_path != NULL && (to->test_share > 0.0 || !test))
        SW_FAIL(SW_INVALID, "%s: test_path and %s exclude each other", call,
                test ? "test_share" : "no data set for testing");
    return SW_OK;
}

sw_status swi_npy_call(sw_dataset **train, sw_dataset **test, const char *path,
                       const sw_npy_opts *given, const char *call, swi_npy_open *open_all,
                       void *context)
{
    sw_npy_opts o;
    sw_dataset *part[PARTS] = {NULL, NULL};
    swi_npy_pair pair = {.name = path};
    void *room;
    SW_TRY(check_opts(&o, given, path, train != NULL, test != NULL, call));
    pair.shapes_only = o.shapes_only != 0;
    pair.share = o.test_share;
    pair.seed = o.seed;
    const size_t bytes = strlen(path) + (o.test_path != NULL ? strlen(o.test_path) : 0) + 1;
    SW_TRY(sw_heap_alloc(&room, SW_HEAP_FILES, bytes));
    const sw_status opened = open_all(context, &pair, path, &o, test != NULL, room);
    sw_heap_free(room, SW_HEAP_FILES, bytes);
    SW_TRY(opened);
    pair.split = test != NULL && !pair.given[TEST] && !pair.unlabelled[TRAIN];
    SW_TRY(make_sets(part, &pair));
    *train = part[TRAIN];
    if (test != NULL)
        *test = part[TEST];
    return SW_OK;
}

sw_npy_opts swi_npy_opts_of(const swi_reader_opts *o)
{
    return SW_OPTS(sw_npy_opts, .unlabelled = o->unlabelled, .shapes_only = o->shapes_only,
                   .test_path = o->test_path, .test_share = o->test_share, .seed = o->seed,
                   .unpack_bytes = o->unpack_bytes);
}
