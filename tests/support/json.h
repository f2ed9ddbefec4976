/* JSON that programs and the library write, for tests: read by json_read.h; its own tests are
 * tests/profiler/test_json.c. A key twice in one object is refused. */
#ifndef SW_TESTS_JSON_H
#define SW_TESTS_JSON_H

#include "alloc/base/base.h" /* sw_last_error */
#include <stdbool.h>
#include <stddef.h>

/* A value. NULL is one too: it has no kind, no text, no members, and is the number 0. */
typedef struct json_t json_t;
typedef long long json_int_t;

/* NULL where the text is no JSON, and sw_last_error() says why. Owner: the caller, by
 * json_decref of this value or of an object or array in it: all go together. */
json_t *json_loadb(const char *text, size_t n);
json_t *json_loads(const char *text);
void json_decref(const json_t *x);

bool json_is_object(const json_t *x);
bool json_is_array(const json_t *x);
bool json_is_string(const json_t *x);
bool json_is_number(const json_t *x);
bool json_is_integer(const json_t *x);
bool json_is_real(const json_t *x);
bool json_is_true(const json_t *x);
bool json_is_false(const json_t *x);
bool json_is_null(const json_t *x);
bool json_is_boolean(const json_t *x);
bool json_equal(const json_t *a, const json_t *b); /* objects in any order */

const char *json_string_value(const json_t *x);
json_int_t json_integer_value(const json_t *x);
double json_number_value(const json_t *x);
size_t json_array_size(const json_t *x);
json_t *json_array_get(const json_t *x, size_t i);
size_t json_object_size(const json_t *x);
json_t *json_object_get(const json_t *x, const char *key);
/* The i-th member. */
const char *json_object_key(const json_t *x, size_t i);
json_t *json_object_member(const json_t *x, size_t i);

#define json_object_foreach(object, key, x)                                                    \
    for (size_t json_i = 0; json_i < json_object_size(object) &&                               \
                            ((key) = json_object_key((object), json_i)) != NULL &&             \
                            ((x) = json_object_member((object), json_i)) != NULL;              \
         json_i++)

#endif
