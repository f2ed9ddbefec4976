/* SW_ASSERT is for our own mistakes: it stops a build with checks >= 1 and is nothing in
 * others. */
#pragma once

#if SW_CHECKS >= 1
#define SW_ASSERT(condition) ((condition) ? (void)0 : __builtin_trap())
#else
#define SW_ASSERT(condition) ((void)0)
#endif
