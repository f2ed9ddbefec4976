/* Running the program `stepwell` of this build. */
#ifndef SW_TESTS_PROGRAM_H
#define SW_TESTS_PROGRAM_H

#include "tests/support/process.h"
#include <stdint.h>

/* Whether this build is sanitized: programs of others then cannot link its library. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

const char *program_path(void);
/* The text of `words` split at blanks becomes the arguments. */
void program_run(sw_outcome *out, const char *words, const char *env);
pid_t program_start(const char *tag, const char *words, const char *env);
/* Whether the outcome is one line of error on standard error, nothing on standard output, no
 * signal. */
bool program_failed_cleanly(const sw_outcome *out, int status);

/* The hash of a safetensors file's tensors, not of their names; 0 when it is not such a file.
 */
uint64_t program_tensors(const char *path);
/* Its *n numbers, all tensors in a row. NULL when it is not one; give back by free(). */
float *program_numbers(const char *path, size_t *n);

/* Whole files; *n is set. NULL when it is not there. Give back by free(). */
unsigned char *file_read(const char *path, size_t *n);
bool file_write(const char *path, const void *bytes, size_t n);

#endif
