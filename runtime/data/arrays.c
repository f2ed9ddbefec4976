/* Data sets of the caller's own arrays: used where they lie where they can be, else copied. */
#include "alloc/base/size.h"
#include "runtime/base/structs.h"
#include "runtime/data/data_internal.h"
#include <math.h>
#include <stdio.h>
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
    if (c->packed && c->strides[0] == (int64_t)c->each) {
        /* Side by side over all samples: one walk. */
        const unsigned char *from = c->given->data;
        const ptrdiff_t step = (ptrdiff_t)swi_number_bytes(c->given->type);
        const size_t all = (size_t)a->n * c->elements;
        const size_t taken = swi_take_numbers(
            &c->take, to, (ptrdiff_t)sw_dtype_bytes(c->take.to), from, step, all, largest);
        if (taken == all)
            return SW_OK;
        return refuse(c, f, taken / c->elements, taken % c->elements,
                      from + (ptrdiff_t)taken * step);
    }
    for (size_t i = 0; i < (size_t)a->n; i++)
        SW_TRY(take_sample(c, f, i, to != NULL ? to + i * bytes : NULL, largest));
    return SW_OK;
}

/* ---- classes and ids --------------------------------------------------------------------- */

static bool is_whole(const column *c)
{
    return c->take.to != SW_F32;
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

static sw_status name_classes(const arrays *a, sw_dataset *d)
{
    const char *const *names = a->opts.class_names;
    size_t bytes = 0;
    char *text, *to;
    if (names == NULL)
        return SW_OK;
    for (int64_t i = 0; i < a->opts.n_classes; i++)
        bytes += strlen(names[i]) + 1;
    SW_TRY(sw_heap_alloc(&text, SW_HEAP_DATASETS, bytes));
    to = text;
    for (int64_t i = 0; i < a->opts.n_classes; i++)
        to = stpcpy(to, names[i]) + 1;
    const sw_status status = swi_dataset_name_classes(d, text, bytes);
    sw_heap_free(text, SW_HEAP_DATASETS, bytes);
    return status;
}

static sw_status fill(arrays *a, sw_dataset *d, int64_t n_classes)
{
    d->n_classes = n_classes;
    for (int f = 0; f < a->n_fields; f++)
        if (a->field[f].ids)
            a->field[f].take.to = swi_ids_type(a->field[f].take.from, n_classes);
    SW_TRY(name_classes(a, d));
    if (a->opts.context > 0) {
        const column *c = &a->field[0];
        int64_t largest = 0;
        const bool well = lies_well(a, 0);
        SW_TRY(swi_windows_fields(d, c->take.to, a->opts.context, (uint64_t)a->n,
                                  well ? c->given->data : NULL));
        return well ? SW_OK : take_field(a, 0, d->field[0].data, &largest);
    }
    for (int f = 0; f < a->n_fields; f++)
        SW_TRY(make_field(a, f, d));
    return SW_OK;
}

static sw_status make(sw_dataset **out, arrays *a)
{
    int64_t largest = -1, n = a->n;
    uint32_t places = 1;
    /* Which fields have classes or ids, and the bounds that they are held against. */
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
    SW_TRY(swi_given(out != NULL, "out", call));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_arrays_opts, &a.opts, opts, call));
    if (fields == NULL || a.n_fields < 1 || a.n_fields > SWI_MAX_FIELDS)
        SW_FAIL(SW_INVALID, "%s: there must be 1 to %d fields (got %d)", call, SWI_MAX_FIELDS,
                fields == NULL ? 0 : a.n_fields);
    if (a.n < 1 || (a.opts.context == 0 && a.n > UINT32_MAX))
        SW_FAIL(SW_INVALID, "%s: n must be 1 to 4294967295 (got %lld)", call, (long long)a.n);
    for (int f = 0; f < a.n_fields; f++) {
        a.field[f].given = &fields[f];
        const sw_samples *s = a.field[f].given;
        SW_TRY(check_shape(&a, f, &a.field[f]));
        /* The strides that are given, or those of numbers side by side; packed or not. */
        const int rank = s->shape.rank;
        int64_t reach = 0, beside = (int64_t)swi_number_bytes(s->type);
        bool any = false;
        for (int i = 0; i <= rank; i++)
            any |= s->strides[i] != 0;
        a.field[f].packed = true;
        for (int i = rank; i >= 0; i--) {
            const int64_t dim = i > 0 ? s->shape.dim[i - 1] : a.n;
            int64_t far;
            a.field[f].strides[i] = any ? s->strides[i] : beside;
            if (__builtin_mul_overflow(a.field[f].strides[i], dim - 1, &far) || far > MOST ||
                far < -MOST || (reach += far < 0 ? -far : far) > MOST)
                SW_FAIL(SW_INVALID, "%s: the strides of field %d overflow", call, f);
            a.field[f].packed &= i == 0 || dim == 1 || a.field[f].strides[i] == beside;
            beside *= dim;
        }

        if (!isfinite(s->scale) || !isfinite(s->shift))
            SW_FAIL(SW_INVALID, "%s: scale and shift of field %d must be finite", call, f);
        if (s->scale == 0.0f && s->shift != 0.0f)
            SW_FAIL(SW_INVALID, "%s: the shift of field %d has no effect without a scale", call,
                    f);
        a.field[f].take = swi_take_of(s->type);
        if (s->scale != 0.0f) {
            a.field[f].take.to = SW_F32;
            a.field[f].take.scaled = true;
            a.field[f].take.scale = s->scale;
            a.field[f].take.shift = s->shift;
        }
    }
    SW_TRY(check_opts(&a));
    const sw_status status = make(&made, &a);
    return SW_GIVE(status, out, made, sw_dataset_destroy);
}

/* ---- elements ---------------------------------------------------------------------------- */

/* Numbers of every type, read byte by byte: nothing has to be aligned. */

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [SW_NUMBER_F32] = {"f32", 4}, [SW_NUMBER_F64] = {"f64", 8},   [SW_NUMBER_U8] = {"u8", 1},
    [SW_NUMBER_I8] = {"i8", 1},   [SW_NUMBER_BOOL] = {"bool", 1}, [SW_NUMBER_U16] = {"u16", 2},
    [SW_NUMBER_I16] = {"i16", 2}, [SW_NUMBER_U32] = {"u32", 4},   [SW_NUMBER_I32] = {"i32", 4},
    [SW_NUMBER_U64] = {"u64", 8}, [SW_NUMBER_I64] = {"i64", 8}};

size_t swi_number_bytes(sw_number type)
{
    return types[type].bytes;
}

bool swi_number_is_whole(sw_number type)
{
    return type != SW_NUMBER_F32 && type != SW_NUMBER_F64;
}

swi_take swi_take_of(sw_number from)
{
    swi_take take = {.from = from, .to = SW_F32};
    if (!swi_number_is_whole(from))
        return take;
    const size_t bytes = swi_number_bytes(from);
    take.to = bytes == 1 ? SW_U8 : bytes == 2 ? SW_U16 : SW_I32;
    take.low = bytes < 4 ? 0 : INT32_MIN;
    take.high = bytes == 1 ? UINT8_MAX : bytes == 2 ? UINT16_MAX : INT32_MAX;
    return take;
}

sw_dtype swi_ids_type(sw_number from, int64_t n)
{
    if (swi_number_bytes(from) < 8)
        return swi_take_of(from).to;
    return n <= UINT8_MAX + 1 ? SW_U8 : n <= UINT16_MAX + 1 ? SW_U16 : SW_I32;
}

/* ---- one number -------------------------------------------------------------------------- */

#define READ(type)                                                                             \
    {                                                                                          \
        type x;                                                                                \
        memcpy(&x, at, sizeof x);                                                              \
        return (int64_t)x;                                                                     \
    }

/* A number above the largest int64_t becomes that. */
static int64_t whole_at(sw_number type, const unsigned char *at)
{
    uint64_t u64;
    switch (type) {
    case SW_NUMBER_I8:
        READ(int8_t)
    case SW_NUMBER_BOOL:
        return *at != 0;
    case SW_NUMBER_U16:
        READ(uint16_t)
    case SW_NUMBER_I16:
        READ(int16_t)
    case SW_NUMBER_U32:
        READ(uint32_t)
    case SW_NUMBER_I32:
        READ(int32_t)
    case SW_NUMBER_I64:
        READ(int64_t)
    case SW_NUMBER_U64:
        memcpy(&u64, at, sizeof u64);
        return u64 > INT64_MAX ? INT64_MAX : (int64_t)u64;
    default:
        return *at;
    }
}

static double real_at(sw_number type, const unsigned char *at)
{
    float f32;
    double f64;
    uint64_t u64;
    switch (type) {
    case SW_NUMBER_F32:
        memcpy(&f32, at, sizeof f32);
        return (double)f32;
    case SW_NUMBER_F64:
        memcpy(&f64, at, sizeof f64);
        return f64;
    case SW_NUMBER_U64:
        memcpy(&u64, at, sizeof u64);
        return (double)u64;
    default:
        return (double)whole_at(type, at);
    }
}

static float float_at(const swi_take *t, const unsigned char *at)
{
    const float x = (float)real_at(t->from, at);
    return t->scaled ? x * t->scale + t->shift : x;
}

static void put_whole(sw_dtype dtype, unsigned char *to, int64_t x)
{
    const uint16_t u16 = (uint16_t)x;
    const int32_t i32 = (int32_t)x;
    if (dtype == SW_U8)
        *to = (unsigned char)x;
    else if (dtype == SW_U16)
        memcpy(to, &u16, sizeof u16);
    else
        memcpy(to, &i32, sizeof i32);
}

/* ---- many -------------------------------------------------------------------------------- */

static size_t take_floats(const swi_take *t, unsigned char *to, ptrdiff_t to_step,
                          const unsigned char *from, ptrdiff_t from_step, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float x = float_at(t, from + (ptrdiff_t)i * from_step);
        if (!isfinite(x))
            return i;
        if (to != NULL)
            memcpy(to + (ptrdiff_t)i * to_step, &x, sizeof x);
    }
    return n;
}

size_t swi_take_numbers(const swi_take *t, unsigned char *to, ptrdiff_t to_step,
                        const unsigned char *from, ptrdiff_t from_step, size_t n,
                        int64_t *largest)
{
    if (t->to == SW_F32)
        return take_floats(t, to, to_step, from, from_step, n);
    for (size_t i = 0; i < n; i++) {
        const int64_t x = whole_at(t->from, from + (ptrdiff_t)i * from_step);
        if (x < t->low || x > t->high)
            return i;
        *largest = x > *largest ? x : *largest;
        if (to != NULL)
            put_whole(t->to, to + (ptrdiff_t)i * to_step, x);
    }
    return n;
}

static const char *number_text(const swi_take *t, const unsigned char *from, char *text,
                               size_t bytes)
{
    uint64_t u64;
    if (t->from == SW_NUMBER_U64) {
        memcpy(&u64, from, sizeof u64);
        snprintf(text, bytes, "%llu", (unsigned long long)u64);
    } else if (swi_number_is_whole(t->from)) {
        snprintf(text, bytes, "%lld", (long long)whole_at(t->from, from));
    } else {
        snprintf(text, bytes, "%g", real_at(t->from, from));
    }
    return text;
}

const char *swi_take_reason(const swi_take *t, const unsigned char *from, char *text)
{
    char number[40];
    number_text(t, from, number, sizeof number);
    if (t->to != SW_F32)
        snprintf(text, SWI_TAKE_TEXT, "must be %lld to %lld (got %s)", (long long)t->low,
                 (long long)t->high, number);
    else if (isfinite(real_at(t->from, from)))
        snprintf(text, SWI_TAKE_TEXT, "must be finite as f32 (got %s)", number);
    else
        snprintf(text, SWI_TAKE_TEXT, "must be finite (got %s)", number);
    return text;
}
