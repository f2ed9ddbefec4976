/* The one JSON writer. It streams into a buffer of the caller's (full: handed to `drain`, or an
 * error) or into one that grows on the heap. Commas and escapes are its business; whatever
 * bytes a string has, what comes out is valid UTF-8 and valid JSON. Numbers read back as the
 * same numbers; NaN and infinities are null. The first error stays, and later calls do nothing.
 *
 *     sw_json_begin(&j, '{');
 *     sw_json_put_u64(&j, "step", 7);
 *     sw_json_key(&j, "names");
 *     sw_json_begin(&j, '[');
 *     sw_json_string(&j, "conv1");
 *     sw_json_end(&j);
 *     sw_json_end(&j); */
#pragma once

#include "alloc/base/mem.h"

#define SW_JSON_DEPTH 60

typedef struct {
    char *bytes;
    size_t used, capacity;
    bool grows; /* the buffer is on the heap and ours */
    sw_heap heap;
    sw_status (*drain)(void *context, const char *bytes,
                       size_t n); /* NULL: a full buffer is an error */
    void *context;
    sw_status status; /* the first error; SW_INVALID for brackets or keys out of place */
    uint32_t depth;
    uint64_t arrays;   /* bit d: level d is an array */
    uint64_t nonempty; /* bit d: level d has a member, the next one needs a comma */
    bool keyed;        /* a key waits for its value */
    bool spaced;       /* set by the caller: a blank after each comma and colon */
    uint32_t breaks;   /* not 0: a new line and one blank less comes next */
} sw_json;

/* Write into `buffer`; a full buffer goes to drain(context, ...), or is SW_NOMEM when drain is
 * NULL. */
void sw_json_fixed(sw_json *json, char *buffer, size_t capacity,
                   sw_status (*drain)(void *context, const char *bytes, size_t n),
                   void *context);
/* Write into a buffer that grows; sw_json_free gives it back. */
void sw_json_growing(sw_json *json, sw_heap heap);
void sw_json_free(sw_json *json);

void sw_json_begin(sw_json *json, char bracket); /* '{' or '[' */
void sw_json_end(sw_json *json);
/* A new line and `indent` blanks before the next key, element or closing bracket. */
void sw_json_break(sw_json *json, uint32_t indent);
/* End of a top-level value: a newline. SW_INVALID when a bracket is open. */
void sw_json_line(sw_json *json);

void sw_json_key(sw_json *json, const char *key);
void sw_json_string(sw_json *json, const char *text); /* NULL: null */
/* n elements of an open array, as sw_json_u64 would write them one by one. */
void sw_json_u32s(sw_json *json, const uint32_t *x, size_t n);
void sw_json_u64(sw_json *json, uint64_t x);
void sw_json_i64(sw_json *json, int64_t x);
void sw_json_f64(sw_json *json, double x);
void sw_json_f32(sw_json *json, float x); /* as few digits as tell it from other floats */
void sw_json_bool(sw_json *json, bool x);
void sw_json_null(sw_json *json);

/* A key and its value; sw_json_put_known: the value where it is known, else null. */
#define sw_json_put_string(json, key, text) (sw_json_key(json, key), sw_json_string(json, text))
#define sw_json_put_u64(json, key, x) (sw_json_key(json, key), sw_json_u64(json, x))
#define sw_json_put_i64(json, key, x) (sw_json_key(json, key), sw_json_i64(json, x))
#define sw_json_put_f64(json, key, x) (sw_json_key(json, key), sw_json_f64(json, x))
#define sw_json_put_f32(json, key, x) (sw_json_key(json, key), sw_json_f32(json, x))
#define sw_json_put_bool(json, key, x) (sw_json_key(json, key), sw_json_bool(json, x))
#define sw_json_put_null(json, key) (sw_json_key(json, key), sw_json_null(json))
#define sw_json_put_known(json, key, known, x)                                                 \
    (sw_json_key(json, key), (known) ? sw_json_u64(json, x) : sw_json_null(json))
#define sw_json_put_known_f64(json, key, known, x)                                             \
    (sw_json_key(json, key), (known) ? sw_json_f64(json, x) : sw_json_null(json))
#define sw_json_put_known_bool(json, key, known, x)                                            \
    (sw_json_key(json, key), (known) ? sw_json_bool(json, x) : sw_json_null(json))
/* F(a, m), F(a, n), ...: for each of up to 12 names. */
#define SW_EACH(F, a, ...)                                                                     \
    SW_EACH_OF(__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)(F, a, __VA_ARGS__)
#define SW_EACH_OF(a, b, c, d, e, f, g, h, i, k, l, m, n, ...) SW_EACH_##n
#define SW_EACH_1(F, a, m) F(a, m)
#define SW_EACH_2(F, a, m, ...) F(a, m), SW_EACH_1(F, a, __VA_ARGS__)
#define SW_EACH_3(F, a, m, ...) F(a, m), SW_EACH_2(F, a, __VA_ARGS__)
#define SW_EACH_4(F, a, m, ...) F(a, m), SW_EACH_3(F, a, __VA_ARGS__)
#define SW_EACH_5(F, a, m, ...) F(a, m), SW_EACH_4(F, a, __VA_ARGS__)
#define SW_EACH_6(F, a, m, ...) F(a, m), SW_EACH_5(F, a, __VA_ARGS__)
#define SW_EACH_7(F, a, m, ...) F(a, m), SW_EACH_6(F, a, __VA_ARGS__)
#define SW_EACH_8(F, a, m, ...) F(a, m), SW_EACH_7(F, a, __VA_ARGS__)
#define SW_EACH_9(F, a, m, ...) F(a, m), SW_EACH_8(F, a, __VA_ARGS__)
#define SW_EACH_10(F, a, m, ...) F(a, m), SW_EACH_9(F, a, __VA_ARGS__)
#define SW_EACH_11(F, a, m, ...) F(a, m), SW_EACH_10(F, a, __VA_ARGS__)
#define SW_EACH_12(F, a, m, ...) F(a, m), SW_EACH_11(F, a, __VA_ARGS__)

/* Members of *x by their names, at most 12 of them: SW_JSON_PUT(j, x, step, bytes) writes
 * "step":...,"bytes":... as the functions above do. */
#define SW_JSON_PUT(j, x, ...) (SW_EACH(SW_JSON_PUT_OF, (j, x), __VA_ARGS__))
#define SW_JSON_PUT_OF(jx, m) SW_JSON_PUT_CALL(SW_JSON_PUT_BOTH jx, m)
#define SW_JSON_PUT_BOTH(j, x) j, x
#define SW_JSON_PUT_CALL(...) SW_JSON_PUT_1(__VA_ARGS__)
#define SW_JSON_PUT_1(j, x, m)                                                                 \
    (sw_json_key(j, #m), _Generic((x)->m,                                                      \
         double: sw_json_f64,                                                                  \
         float: sw_json_f32,                                                                   \
         bool: sw_json_bool,                                                                   \
         char *: sw_json_string,                                                               \
         const char *: sw_json_string,                                                         \
         int: sw_json_i64,                                                                     \
         int64_t: sw_json_i64,                                                                 \
         default: sw_json_u64)(j, (x)->m))
/* A key and an opened bracket. */
void sw_json_open(sw_json *json, const char *key, char bracket);
/* A key and an opened brace where the object is known, else null; says whether it is. */
bool sw_json_open_known(sw_json *json, const char *key, bool known);
