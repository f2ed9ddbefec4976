/* Objects of the library that end with the running test, the last that was made first; what a
 * test asserts of each call. */
#ifndef SW_TESTS_MADE_H
#define SW_TESTS_MADE_H

#include "runtime/stepwell.h"
#include "tests/support/suite.h"

/* Fail the running test with the library's reason. */
#define OK(call) SW_CHECK((call) == SW_OK, "%s", sw_last_error())
/* A refusal with this status and a message that names `part`. */
#define REFUSED(call, wanted, part)                                                            \
    do {                                                                                       \
        const sw_status refused_with = (call);                                                 \
        SW_CHECK(refused_with == (wanted), "%s: %s", sw_status_name(refused_with),             \
                 sw_last_error());                                                             \
        SW_CHECK(strstr(sw_last_error(), part) != NULL, "'%s' is not in '%s'", part,           \
                 sw_last_error());                                                             \
    } while (0)

/* A function of the library that ends its object, for lists of things to end: of the object's
 * own type. */
#define ENDS(destroy, object)                                                                  \
    ((void)sizeof((destroy)(object), 0), (void (*)(void *))(void (*)(void))(destroy))
/* When the test ends, destroy(object). */
#define AFTER(destroy, object) sw_after(ENDS(destroy, object), object)

/* Made by sw_<name>_create; the test ends where that fails. */
#define SW_MADE(name, argument)                                                                \
    static inline sw_##name *made_##name(argument of)                                          \
    {                                                                                          \
        sw_##name *made = NULL;                                                                \
        OK(sw_##name##_create(&made, of));                                                     \
        CU_ASSERT_PTR_NOT_NULL_FATAL(made);                                                    \
        AFTER(sw_##name##_destroy, made);                                                      \
        return made;                                                                           \
    }
SW_MADE(exec, const sw_exec_opts *)
SW_MADE(model, const char *)
SW_MADE(budget, size_t)
#undef SW_MADE

#endif
