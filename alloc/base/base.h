/* Shared by every folder: status codes, the error of the calling thread, and the attributes
 * of public declarations. Part of the public header; C and C++ read it. */
#ifndef STEPWELL_BASE_H
#define STEPWELL_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SW_API __attribute__((visibility("default")))
#define SW_MUST_USE __attribute__((warn_unused_result))
#define SW_PRINTF(format_index, first) __attribute__((format(printf, format_index, first)))
#ifdef __cplusplus
#define SW_RESTRICT __restrict__
#else
#define SW_RESTRICT restrict
#endif

/* Every address that an arena hands out is divisible by this, and every storage is counted
 * rounded up to it: one cache line, one AVX-512 register. */
#define SW_ALIGN 64

typedef enum {
    SW_OK = 0,
    SW_INVALID,     /* the caller's mistake: shapes, arguments, order of calls */
    SW_NOMEM,       /* does not fit the memory or the budget: an ordinary answer */
    SW_FORMAT,      /* a damaged or foreign file */
    SW_IO,          /* the operating system refused a file operation or a thread */
    SW_UNSUPPORTED, /* not built, or not on this device; the message names it */
    SW_STALE,       /* a handle of an earlier run, or a model that must be restored first */
    SW_BUSY,        /* in use by another thread, or by a call that goes on; after a fork */
    SW_DEVICE,      /* the device failed or is not there */
    SW_STOPPED      /* interrupted by the caller's request */
} sw_status;

/* The name of a status in lower case, "ok" to "stopped". Never NULL. */
SW_API const char *sw_status_name(sw_status status);

/* The message of the calling thread's latest failure: one line, with numbers, no newline. Valid
 * until that thread's next failure. "" before the first. For people and tools: the library
 * never decides anything by it. */
SW_API const char *sw_last_error(void);

/* A note that the calling thread's latest call added to its SW_OK: one line. Such
 * calls save or load a file (sw_model_save, sw_model_load), begin to (sw_checkpoint_create), or
 * make a model ready by themselves (sw_run); "" where there is nothing. Valid until that
 * thread's next such call. */
SW_API const char *sw_last_note(void);

/* `asked` is called, on any thread, while a call of the library waits for the other end of a
 * FIFO, pipe or terminal: to open it, to read or to write. Once it answers other than 0, such a
 * call ends with SW_STOPPED when nothing has moved for a second. It may look at a flag that a
 * signal handler has set. NULL: such calls wait without a limit. Regular files are always
 * read and written to the end. */
SW_API void sw_interrupt_set(int (*asked)(void));

/* Record a failure of the calling thread and return `status`; library code uses SW_FAIL. */
SW_API sw_status sw_error_set(sw_status status, const char *file, int line, const char *format,
                              ...) SW_PRINTF(4, 5);

#ifdef __cplusplus
}
#endif

/* Where a failure starts: records why, once, and returns the status from the function. */
#define SW_FAIL(status, ...) return sw_error_set((status), __FILE__, __LINE__, __VA_ARGS__)

/* Pass a failure on. */
#define SW_TRY(expr)                                                                           \
    do {                                                                                       \
        const sw_status sw_try_status = (expr);                                                \
        if (sw_try_status != SW_OK)                                                            \
            return sw_try_status;                                                              \
    } while (0)

#endif
