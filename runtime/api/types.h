/* Types and errors: the objects by name, values, handles and arrays. The status codes and
 * sw_last_error() are declared with them, in alloc/base/base.h.
 *
 *     static const float numbers[2 * 3] = {1, 2, 3, 4, 5, 6};
 *     const sw_array array = {SW_F32, SW_SHAPE(2, 3), numbers};
 *     sw_param weight = sw_constant_new(model, "table", &array);
 *     if (weight.index == 0)
 *         puts(sw_last_error());
 */

/* Names say what a function does to memory:
 *
 * sw_X_create, and all else with sw_X **out as the first argument (load, parse, draw, copy):
 *   makes an object that the caller owns; sw_X_destroy ends it
 * sw_X_new: a part of another object (a parameter, a layer, a member), which ends with that one
 * sw_X_describe: fills a struct with the figures of an object as it is now
 * sw_X_count, _at, _find: the parts of an object, by position and by name
 * sw_X_set, and the name without it or with _get: changes and reads a number
 *
 * An object that is made or changed comes first, then those that are read, the options and
 * numbers, and what is filled in last. `axis` is a number, -1 the last; `axes` is a mask of
 * SW_AXIS(i), or with n a list of numbers. New names give counts as uint64_t or size_t and dims
 * as int64_t. */

/* "0.2.0" */
SW_API const char *sw_version(void);

/* A struct that begins with its own size: `size` is set, the fields that are named have their
 * values, all others are zero, which means default.
 *
 *     sw_exec_opts opts = SW_OPTS(sw_exec_opts, .threads = 2);
 *     status = sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .threads = 2));
 *
 * C11: a compound literal, so it lives as long as its block and cannot initialize a static
 * object. C++20: a temporary, whose fields stand in the order of the struct; -Wextra of g++
 * names those that are left out. No comma ends the list of fields. */
#ifdef __cplusplus
#define SW_OPTS_OF(type, ...) (type{.size = sizeof(type), __VA_ARGS__})
#else
#define SW_OPTS_OF(type, ...) ((type){.size = sizeof(type), __VA_ARGS__})
#endif
#define SW_OPTS(...) SW_OPTS_OF(__VA_ARGS__, )

typedef enum { SW_TRAIN, SW_EVAL } sw_mode;
typedef enum { SW_DATA, SW_FORWARD, SW_LOSS, SW_BACKWARD, SW_STEP } sw_phase;
#define SW_PHASES 5

/* Bytes of one element; "f32" and so on; "data" to "step". */
SW_API size_t sw_dtype_bytes(sw_dtype dtype);
SW_API const char *sw_dtype_name(sw_dtype dtype);
SW_API const char *sw_phase_name(sw_phase phase);

typedef struct sw_budget sw_budget;
typedef struct sw_exec sw_exec;
typedef struct sw_model sw_model;
typedef struct sw_optimizer sw_optimizer;
typedef struct sw_ctx sw_ctx;
typedef struct sw_profile sw_profile;
typedef struct sw_dataset sw_dataset;
typedef struct sw_loader sw_loader;
typedef struct sw_checkpoint sw_checkpoint;
typedef struct sw_members sw_members;
typedef struct sw_feed sw_feed;
typedef struct sw_space sw_space;
typedef struct sw_pbt sw_pbt;
typedef struct sw_es sw_es;
typedef struct sw_zo sw_zo;
typedef struct sw_ranks sw_ranks;
typedef struct sw_genome sw_genome;
typedef struct sw_search_space sw_search_space;
typedef struct sw_net sw_net;
typedef struct sw_evolution sw_evolution;

/* A tensor of one run of one ctx; {0} after an error. */
typedef struct {
    uint32_t id, generation;
} sw_value;

/* A parameter, buffer or state: lives until its model is destroyed. index 0: not a
 * parameter. */
typedef struct {
    sw_model *model;
    uint32_t index;
} sw_param;

/* A float that may change between runs without a new plan. */
typedef struct {
    sw_model *model;
    uint32_t index;
} sw_knob;

/* The caller's memory, contiguous, row-major; borrowed for the call. */
typedef struct {
    sw_dtype dtype;
    sw_shape shape;
    const void *data;
} sw_array;
