/* Texts for people: as snprintf, but what `%zu` prints has separators, 1,234,567. In this
 * project a size_t in a message is a number of bytes or of things, so all of them read
 * alike. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SW_MESSAGE_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define SW_MESSAGE_PRINTF(at, first)
#endif

/* At most bytes - 1 characters and the end; the length that the whole has, as of snprintf.
 * Knows the conversions that messages use: d i u x c s p e f g and %, with flags, width,
 * precision and the lengths hh h l ll j z t. */
int sw_message(char *to, size_t bytes, const char *format, ...) SW_MESSAGE_PRINTF(3, 4);
int sw_message_list(char *to, size_t bytes, const char *format, va_list list)
    SW_MESSAGE_PRINTF(3, 0);

/* "1,234,567"; to: room for 32. */
const char *sw_digits(char *to, uint64_t n);
