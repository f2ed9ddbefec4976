/* How the programs of this folder end where a call fails: they say where, and end with 1. */
#ifndef SW_TESTS_API_CHECK_H
#define SW_TESTS_API_CHECK_H

#include <stdio.h>
#include <stepwell.h>

#define TRY(call)                                                                              \
    do {                                                                                       \
        if ((call) != SW_OK) {                                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, sw_last_error());               \
            return 1;                                                                          \
        }                                                                                      \
    } while (0)
#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);            \
            return 1;                                                                          \
        }                                                                                      \
    } while (0)

#endif
