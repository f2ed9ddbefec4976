/* The test frame: suites of tests over CUnit, and a main() that CUnit lacks - it fails when an
 * assert failed, shows skips and ends with one line of totals.
 *
 *     SW_TESTS("arena")
 *
 *     SW_TEST("a denied push changes nothing")
 *     {
 *         CU_ASSERT_EQUAL(...);
 *     }
 *     SW_TEST("every site fails once", .full = true) ...
 *
 * All files of one executable are linked with support/suite.c; suites register themselves. Run
 * it as test_alloc [quick|full|gpu] [PART] [K/N]      PART: only tests whose "suite: name"
 * contains it, K/N: the K-th of N shards of them, which together are all (gpu: full, and what
 * all tests need must be there, sw_suite_needs). Without a word
 * $STEPWELL_TESTS decides, else quick. Asserts belong to the main thread: threads of a test
 * report through variables that it checks after joining them. Tests need no include of the
 * standard headers below. */
#ifndef SW_TESTS_SUITE_H
#define SW_TESTS_SUITE_H

#include <CUnit/CUnit.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name; /* the promise, as a sentence */
    void (*run)(void);
    bool full; /* only where `full` was asked for */
} sw_test;

typedef struct sw_test_here {
    sw_test test;
    int line; /* tests run in the order of their file */
    struct sw_test_here *next;
} sw_test_here;

typedef struct sw_suite {
    const char *name;
    const sw_test *tests;
    size_t n;
    struct sw_suite *next;
    sw_test_here *first; /* those of SW_TEST */
} sw_suite;

void sw_suite_register(sw_suite *suite);
void sw_test_register(sw_suite *suite, sw_test_here *test);

/* The file's suite: once, before its tests. */
#define SW_TESTS(title)                                                                        \
    static sw_suite sw_suite_here = {.name = title};                                           \
    __attribute__((constructor)) static void sw_suite_enter(void)                              \
    {                                                                                          \
        sw_suite_register(&sw_suite_here);                                                     \
    }

/* A test: its promise, as a sentence, then members of sw_test; its body follows. */
#define SW_TEST(...) SW_TEST_ON(__LINE__, __VA_ARGS__)
#define SW_TEST_ON(at, ...) SW_TEST_AT(at, __VA_ARGS__)
#define SW_TEST_AT(at, ...)                                                                    \
    static void sw_test_##at(void);                                                            \
    __attribute__((constructor)) static void sw_test_enter_##at(void)                          \
    {                                                                                          \
        static sw_test_here here = {{.run = sw_test_##at, .name = __VA_ARGS__}, at, NULL};     \
        sw_test_register(&sw_suite_here, &here);                                               \
    }                                                                                          \
    static void sw_test_##at(void)

/* The same with a table of tests. */
#define SW_SUITE(title, table)                                                                 \
    static sw_suite sw_suite_here = {title, table, sizeof(table) / sizeof *(table), NULL,      \
                                     NULL};                                                    \
    __attribute__((constructor)) static void sw_suite_enter(void)                              \
    {                                                                                          \
        sw_suite_register(&sw_suite_here);                                                     \
    }

/* Whether `full` was asked for: for tests that do the same over fewer cases in quick mode. */
bool sw_tests_full(void);

/* A check before the first test: the reason why something that all tests need is missing skips
 * them all, in one line; where `gpu` was asked for, it fails. For constructors. */
void sw_suite_needs(const char *(*missing)(void));

/* {...}: members or elements in full lines, where the layout would give each a line. */
#define SW_INIT(...)                                                                           \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }

/* Leave the test: it is counted as skipped and the reason is printed. A test that has failed an
 * assert before stays failed. Only in the test function itself. */
#define SW_SKIP(reason)                                                                        \
    do {                                                                                       \
        sw_test_skip(reason);                                                                  \
        return;                                                                                \
    } while (0)
void sw_test_skip(const char *reason);

/* The whole number that a text begins with, with or without separators: "1,234,567 bytes". */
unsigned long long sw_number_of(const char *text);
/* A line under the running test: a measured number for the reader. */
void sw_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* An assert that says more than its expression: numbers, case names, sw_last_error(). */
#define SW_CHECK(condition, ...)                                                               \
    sw_check((condition), __FILE__, __LINE__, #condition, __VA_ARGS__)
bool sw_check(bool passed, const char *file, unsigned line, const char *condition,
              const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Call after(arg) when the running test has ended, also when a _FATAL assert left it. The last
 * one registered is called first. */
void sw_after(void (*after)(void *arg), void *arg);
/* Call it now: the one that was registered last with this argument. */
void sw_now(const void *arg);
/* Call now what was registered since the mark, but for `free`: memory stays until the end. */
size_t sw_after_mark(void);
void sw_after_since(size_t mark);
/* Zeros, freed when the running test has ended. */
void *sw_block(size_t bytes);
/* A text as printf writes it. Valid until the running test has ended. */
char *sw_textf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Full path of a file or folder of the data sets, or NULL where it is missing (then skip):
 * below $STEPWELL_DATA, else below shared/data beside the source tree. Valid until the next
 * call. */
const char *sw_data_path(const char *name);

/* The source tree's root; the build's root (where the library and program are). */
const char *sw_source_root(void);
const char *sw_build_root(void);

/* A path in a folder that is made for this process and removed with all in it at the end: a
 * sw_textf. "" is the folder itself. */
char *sw_temp_path(const char *name);

/* Reproducible numbers for tests (splitmix64). */
typedef struct {
    uint64_t state;
} sw_dice;
uint64_t sw_dice_next(sw_dice *dice);
uint64_t sw_dice_below(sw_dice *dice, uint64_t n); /* 0..n-1 */

#endif
