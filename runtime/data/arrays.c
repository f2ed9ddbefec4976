/* Data sets of the caller's own arrays: used where they lie where they can be, else copied. */
#include "alloc/base/size.h"
#include "runtime/base/structs.h"
#include "runtime/data/elements.h"
#include "runtime/data/windows.h"
#include <math.h>
#include <string.h>

static const char call[] = "sw_dataset_arrays";

#define MOST (PTRDIFF_MAX / 16) /* bytes, of a field and of the way along its strides */

typedef struct {
    const sw_samples *given;
    swi_take take;
    int64_t strides[1 + SW_MAX_RANK]; /* bytes: of samples, then of each axis */
    size_t elements, each;            /* of a sample: numbers, and bytes as they are written */
    bool packed;                      /* the numbers of a sample lie side by side */
    bool ids;                         /* classes or ids */
} column;

typedef struct {
    sw_arrays_opts opts;
    int64_t n;
    int n_fields;
    column field[SWI_MAX_FIELDS];
} arrays;

/* ---- arguments --------------------------------------------------------------------------- */

static sw_status check_shape(const arrays *a, int f, column *c)
{
    const sw_samples *s = c->given;
    size_t all;
    if (s->data == NULL)
        SW_FAIL(SW_INVALID, "%s: field %d has no data", call, f);
    if ((unsigned)s->type > SW_NUMBER_I64)
        SW_FAIL(SW_INVALID, "%s: the type of field %d must be an sw_number (got %d)", call, f,
                (int)s->type);
    if (s->shape.rank < 0 || s->shape.rank >= SW_MAX_RANK)
        SW_FAIL(SW_INVALID, "%s: a sample of field %d must have 0 to %d axes (got %d)", call, f,
                SW_MAX_RANK - 1, (int)s->shape.rank);
    c->elements = 1;
    for (int i = 0; i < s->shape.rank; i++) {
        if (s->shape.dim[i] < 1)
            SW_FAIL(SW_INVALID, "%s: axis %d of field %d must be at least 1 (got %lld)", call,
                    i, f, (long long)s->shape.dim[i]);
        if (!sw_size_mul(c->elements, (size_t)s->shape.dim[i], &c->elements))
            SW_FAIL(SW_NOMEM, "%s: a sample of field %d overflows", call, f);
    }
    if (!sw_size_mul(c->elements, swi_number_bytes(s->type), &c->each) ||
        !sw_size_mul(c->each, (size_t)a->n, &all) || all > (size_t)MOST)
        SW_FAIL(SW_NOMEM, "%s: %lld samples of field %d overflow", call, (long long)a->n, f);
    return SW_OK;
}

/* The strides that are given, or those of numbers side by side; packed or not. */
static sw_status read_strides(const arrays *a, int f, column *c)
{
    const sw_samples *s = c->given;
    const int rank = s->shape.rank;
    int64_t reach = 0, beside = (int64_t)swi_number_bytes(s->type);
    bool any = false;
    for (int i = 0; i <= rank; i++)
        any |= s->strides[i] != 0;
    c->packed = true;
    for (int i = rank; i >= 0; i--) {
        const int64_t dim = i > 0 ? s->shape.dim[i - 1] : a->n;
        int64_t far;
        c->strides[i] = any ? s->strides[i] : beside;
        if (__builtin_mul_overflow(c->strides[i], dim - 1, &far) || far > MOST || far < -MOST ||
            (reach += far < 0 ? -far : far) > MOST)
            SW_FAIL(SW_INVALID, "%s: the strides of field %d overflow", call, f);
        c->packed &= i == 0 || dim == 1 || c->strides[i] == beside;
        beside *= dim;
    }
    return SW_OK;
}

static sw_status check_field(const arrays *a, int f, column *c)
{
    const sw_samples *s = c->given;
    SW_TRY(check_shape(a, f, c));
    SW_TRY(read_strides(a, f, c));
    if (!isfinite(s->scale) || !isfinite(s->shift))
        SW_FAIL(SW_INVALID, "%s: scale and shift of field %d must be finite", call, f);
    if (s->scale == 0.0f && s->shift != 0.0f)
        SW_FAIL(SW_INVALID, "%s: the shift of field %d has no effect without a scale", call, f);
    c->take = swi_take_of(s->type);
    if (s->scale != 0.0f) {
        c->take.to = SW_F32;
        c->take.scaled = true;
        c->take.scale = s->scale;
        c->take.shift = s->shift;
    }
    return SW_OK;
}

static sw_status check_opts(const arrays *a)
{
    const sw_arrays_opts *o = &a->opts;
    if (o->n_classes < 0 || o->n_classes > INT32_MAX)
        SW_FAIL(SW_INVALID, "%s: n_classes must be 0 to %d (got %lld)", call, INT32_MAX,
                (long long)o->n_classes);
    if (o->class_names != NULL && o->n_classes == 0)
        SW_FAIL(SW_INVALID, "%s: n_classes must say how many class_names there are", call);
    for (int64_t i = 0; o->class_names != NULL && i < o->n_classes; i++)
        if (o->class_names[i] == NULL)
            SW_FAIL(SW_INVALID, "%s: class_names[%lld] must not be NULL", call, (long long)i);
    if (o->context < 0 || o->context > INT32_MAX)
        SW_FAIL(SW_INVALID, "%s: context must be 0 to %d (got %lld)", call, INT32_MAX,
                (long long)o->context);
    if (o->context > 0 && (a->n_fields != 1 || a->field[0].given->shape.rank != 0 ||
                           a->field[0].take.to == SW_F32))
        SW_FAIL(SW_INVALID,
                "%s: with a context there must be one field, of a whole number for each token",
                call);
    return SW_OK;
}

static sw_status read_arguments(arrays *a, const sw_samples *fields)
{
    if (fields == NULL || a->n_fields < 1 || a->n_fields > SWI_MAX_FIELDS)
        SW_FAIL(SW_INVALID, "%s: there must be 1 to %d fields (got %d)", call, SWI_MAX_FIELDS,
                fields == NULL ? 0 : a->n_fields);
    if (a->n < 1 || (a->opts.context == 0 && a->n > UINT32_MAX))
        SW_FAIL(SW_INVALID, "%s: n must be 1 to 4294967295 (got %lld)", call, (long long)a->n);
    for (int f = 0; f < a->n_fields; f++) {
        a->field[f].given = &fields[f];
        SW_TRY(check_field(a, f, &a->field[f]));
    }
    return check_opts(a);
}

/* ---- every number, once ------------------------------------------------------------------ */

static sw_status refuse(const column *c, int f, size_t sample, size_t number,
                        const unsigned char *at)
{
    char why[SWI_TAKE_TEXT];
    swi_take_reason(&c->take, at, why);
    if (c->elements == 1)
        SW_FAIL(SW_INVALID, "%s: field %d of sample %zu %s", call, f, sample, why);
    SW_FAIL(SW_INVALID, "%s: number %zu in field %d of sample %zu %s", call, number, f, sample,
            why);
}

/* Side by side over all samples: one walk. */
static sw_status take_all(const column *c, int f, size_t n, unsigned char *to, int64_t *largest)
{
    const unsigned char *from = c->given->data;
    const ptrdiff_t step = (ptrdiff_t)swi_number_bytes(c->given->type);
    const size_t all = n * c->elements;
    const size_t taken = swi_take_numbers(&c->take, to, (ptrdiff_t)sw_dtype_bytes(c->take.to),
                                          from, step, all, largest);
    if (taken == all)
        return SW_OK;
    return refuse(c, f, taken / c->elements, taken % c->elements,
                  from + (ptrdiff_t)taken * step);
}

/* One sample, row by row of its last axis. */
static sw_status take_sample(const column *c, int f, size_t sample, unsigned char *to,
                             int64_t *largest)
{
    const sw_shape *shape = &c->given->shape;
    const int rank = shape->rank;
    const size_t row = rank > 0 ? (size_t)shape->dim[rank - 1] : 1;
    const ptrdiff_t step = (ptrdiff_t)c->strides[rank];
    const ptrdiff_t to_step = (ptrdiff_t)sw_dtype_bytes(c->take.to);
    const unsigned char *first =
        (const unsigned char *)c->given->data + (ptrdiff_t)sample * c->strides[0];
    for (size_t done = 0; done < c->elements; done += row) {
        const unsigned char *from = first;
        size_t rest = done / row;
        for (int i = rank - 2; i >= 0; i--) {
            from += (ptrdiff_t)(rest % (size_t)shape->dim[i]) * c->strides[i + 1];
            rest /= (size_t)shape->dim[i];
        }
        const size_t taken =
            swi_take_numbers(&c->take, to != NULL ? to + (ptrdiff_t)done * to_step : NULL,
                             to_step, from, rank > 0 ? step : 0, row, largest);
        if (taken < row)
            return refuse(c, f, sample, done + taken, from + (ptrdiff_t)taken * step);
    }
    return SW_OK;
}

static sw_status take_field(const arrays *a, int f, unsigned char *to, int64_t *largest)
{
    const column *c = &a->field[f];
    const size_t bytes = c->elements * sw_dtype_bytes(c->take.to);
    if (c->packed && c->strides[0] == (int64_t)c->each)
        return take_all(c, f, (size_t)a->n, to, largest);
    for (size_t i = 0; i < (size_t)a->n; i++)
        SW_TRY(take_sample(c, f, i, to != NULL ? to + i * bytes : NULL, largest));
    return SW_OK;
}

/* ---- classes and ids --------------------------------------------------------------------- */

static bool is_whole(const column *c)
{
    return c->take.to != SW_F32;
}

/* Which fields have classes or ids, and the bounds that they are held against. */
static sw_status find_ids(arrays *a)
{
    bool any = false;
    const column *x = &a->field[0], *y = &a->field[1];
    if (a->opts.context > 0)
        a->field[0].ids = true;
    if (a->n_fields > 1 && is_whole(y)) {
        const sw_shape *s = &x->given->shape, *t = &y->given->shape;
        a->field[1].ids = true;
        a->field[0].ids = is_whole(x) && t->rank > 0 && s->rank == t->rank &&
                          memcmp(s->dim, t->dim, (size_t)s->rank * sizeof s->dim[0]) == 0;
    }
    for (int f = 0; f < a->n_fields; f++) {
        swi_take *take = &a->field[f].take;
        any |= a->field[f].ids;
        if (!a->field[f].ids)
            continue;
        const int64_t most = a->opts.n_classes > 0 ? a->opts.n_classes - 1 : INT32_MAX - 1;
        take->low = 0;
        take->high = most < take->high ? most : take->high;
    }
    if (!any && a->opts.n_classes > 0)
        SW_FAIL(SW_INVALID,
                "%s: n_classes has no effect: field 1 has no whole numbers, and there is no "
                "context",
                call);
    return SW_OK;
}

/* Bytes of true and false may be used as they are where they are 1 and 0. */
static bool are_bits(const arrays *a, int f)
{
    arrays bytes = *a;
    int64_t largest = 0;
    sw_samples as = *bytes.field[f].given;
    as.type = SW_NUMBER_U8;
    bytes.field[f].given = &as;
    bytes.field[f].take.from = SW_NUMBER_U8;
    const sw_status status = take_field(&bytes, f, NULL, &largest);
    return status == SW_OK && largest <= 1;
}

/* ---- fields ------------------------------------------------------------------------------ */

static bool lies_well(const arrays *a, int f)
{
    const column *c = &a->field[f];
    const bool same =
        !c->take.scaled && swi_number_bytes(c->take.from) == sw_dtype_bytes(c->take.to);
    if (!same || !c->packed || (a->opts.context > 0 && c->strides[0] != (int64_t)c->each))
        return false;
    return c->take.from != SW_NUMBER_BOOL || are_bits(a, f);
}

static sw_status make_field(const arrays *a, int f, sw_dataset *d)
{
    const column *c = &a->field[f];
    int64_t largest = 0;
    if (!lies_well(a, f)) {
        SW_TRY(swi_dataset_field(d, c->take.to, c->given->shape));
        return take_field(a, f, d->field[f].data, &largest);
    }
    if (!c->ids) /* those were looked at for their number */
        SW_TRY(take_field(a, f, NULL, &largest));
    d->field[d->n_fields++] = (swi_field){.dtype = c->take.to,
                                          .shape = c->given->shape,
                                          .sample_bytes = c->each,
                                          .stride = (ptrdiff_t)c->strides[0],
                                          .data = (unsigned char *)(uintptr_t)c->given->data};
    return SW_OK;
}

static sw_status make_windows(const arrays *a, sw_dataset *d)
{
    const column *c = &a->field[0];
    int64_t largest = 0;
    const bool well = lies_well(a, 0);
    SW_TRY(swi_windows_fields(d, c->take.to, a->opts.context, (uint64_t)a->n,
                              well ? c->given->data : NULL));
    return well ? SW_OK : take_field(a, 0, d->field[0].data, &largest);
}

static sw_status name_classes(const arrays *a, sw_dataset *d)
{
    const char *const *names = a->opts.class_names;
    size_t bytes = 0;
    void *block;
    if (names == NULL)
        return SW_OK;
    for (int64_t i = 0; i < a->opts.n_classes; i++)
        bytes += strlen(names[i]) + 1;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_DATASETS, bytes));
    char *to = block;
    for (int64_t i = 0; i < a->opts.n_classes; i++) {
        const size_t length = strlen(names[i]) + 1;
        memcpy(to, names[i], length);
        to += length;
    }
    const sw_status status = swi_dataset_name_classes(d, block, bytes);
    sw_heap_free(block, SW_HEAP_DATASETS, bytes);
    return status;
}

static sw_status fill(arrays *a, sw_dataset *d, int64_t n_classes)
{
    d->n_classes = n_classes;
    for (int f = 0; f < a->n_fields; f++)
        if (a->field[f].ids)
            a->field[f].take.to = swi_ids_type(a->field[f].take.from, n_classes);
    SW_TRY(name_classes(a, d));
    if (a->opts.context > 0)
        return make_windows(a, d);
    for (int f = 0; f < a->n_fields; f++)
        SW_TRY(make_field(a, f, d));
    return SW_OK;
}

static sw_status make(sw_dataset **out, arrays *a)
{
    int64_t largest = -1, n = a->n;
    uint32_t places = 1;
    SW_TRY(find_ids(a));
    for (int f = 0; f < a->n_fields; f++)
        if (a->field[f].ids)
            SW_TRY(take_field(a, f, NULL, &largest));
    if (a->opts.context > 0) {
        if (a->n <= a->opts.context)
            SW_FAIL(SW_INVALID, "%s: a context of %lld needs at least %lld tokens (got %lld)",
                    call, (long long)a->opts.context, (long long)a->opts.context + 1,
                    (long long)a->n);
        const swi_windows w = swi_windows_of((uint64_t)a->n, (uint64_t)a->opts.context, true);
        if (w.n > UINT32_MAX)
            SW_FAIL(SW_INVALID, "%s: there must be at most 4294967295 windows (got %llu)", call,
                    (unsigned long long)w.n);
        n = (int64_t)w.n;
        places = w.places;
    }
    SW_TRY(swi_dataset_new(out, a->opts.name != NULL ? a->opts.name : "arrays", n));
    (*out)->places = places;
    return fill(a, *out, a->opts.n_classes > 0 ? a->opts.n_classes : largest + 1);
}

sw_status sw_dataset_arrays(sw_dataset **out, int64_t n, const sw_samples *fields, int n_fields,
                            const sw_arrays_opts *opts)
{
    arrays a = {.n = n, .n_fields = n_fields};
    sw_dataset *made = NULL;
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_arrays_opts, &a.opts, opts, call));
    SW_TRY(read_arguments(&a, fields));
    const sw_status status = make(&made, &a);
    if (status != SW_OK) {
        sw_dataset_destroy(made);
        return status;
    }
    *out = made;
    return SW_OK;
}
