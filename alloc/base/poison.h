/* Poisoning of dead arena bytes, where a sanitizer listens. Addresses are multiples of 64. */
#pragma once

#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SW_POISON 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SW_POISON 1
#endif
#ifndef SW_POISON
#define SW_POISON 0
#endif

/* Any sanitizer that looks after memory or threads. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SW_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define SW_SANITIZED 1
#endif
#ifndef SW_SANITIZED
#define SW_SANITIZED SW_POISON
#endif

#if SW_POISON
#ifdef __cplusplus
extern "C" {
#endif
void __asan_poison_memory_region(void const volatile *address, size_t bytes);
void __asan_unpoison_memory_region(void const volatile *address, size_t bytes);
#ifdef __cplusplus
}
#endif
#endif

static inline void sw_poison(const void *address, size_t bytes)
{
#if SW_POISON
    __asan_poison_memory_region(address, bytes);
#else
    (void)address;
    (void)bytes;
#endif
}

static inline void sw_unpoison(const void *address, size_t bytes)
{
#if SW_POISON
    __asan_unpoison_memory_region(address, bytes);
#else
    (void)address;
    (void)bytes;
#endif
}
