/* The one reader and writer of public structs that begin with their size. */
#pragma once

#include "runtime/stepwell.h"
#include <stdbool.h>

#define SWI_STRUCT(type, first, now) SWI_STRUCT_##type,
#define SWI_SINCE(type, member)
typedef enum {
#include "runtime/base/structs.def"
    SWI_STRUCTS
} swi_struct;
#undef SWI_STRUCT
#undef SWI_SINCE

#define SWI_STRUCT_MOST ((size_t)4096) /* a larger size is no struct of any header */

/* SW_INVALID with `call` in front unless the arguments of these names were given. */
SW_MUST_USE sw_status swi_given(bool given, const char *names, const char *call);
/* `out` is not NULL, and its size is at least that of 0.1, at most SWI_STRUCT_MOST, not inside
 * a member. Else SW_INVALID, which begins with `call`, names the struct and says what to set.
 */
SW_MUST_USE sw_status swi_struct_check(swi_struct which, const void *out, const char *call);
/* Options and descriptors: *to is what the caller gave, with zeros after it; all zeros where
 * `given` is NULL. Its size is then this library's. */
SW_MUST_USE sw_status swi_struct_read(swi_struct which, void *to, const void *given,
                                      const char *call);
/* Results: as many bytes of `from` as the caller has room for. The caller's size was checked
 * before, and stays. */
void swi_struct_write(swi_struct which, void *out, const void *from);
