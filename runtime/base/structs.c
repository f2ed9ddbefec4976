/* Public structs grow by members at their end. Members that a caller's header did not have are
 * zero, those that ours does not have are ignored, and no size may cut a member. */
#include "runtime/base/structs.h"
#include <string.h>

#define END(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))
#define WHOLE(type, end) (((end) + _Alignof(type) - 1) / _Alignof(type) * _Alignof(type))

#define SWI_SINCE(type, member)
#define SWI_STRUCT(type, first, now)                                                           \
    _Static_assert(offsetof(type, size) == 0, #type " must begin with its size");              \
    _Static_assert(WHOLE(type, END(type, now)) == sizeof(type),                                \
                   #type " has a member that structs.def does not have");
#include "runtime/base/structs.def"
#undef SWI_STRUCT

#define SWI_STRUCT(type, first, now) {#type, sizeof(type), WHOLE(type, END(type, first))},
static const struct {
    const char *name;
    size_t bytes, least;
} structs[] = {
#include "runtime/base/structs.def"
};
#undef SWI_STRUCT
#undef SWI_SINCE

/* Members since 0.1. The row in front keeps the array from being empty. */
#define SWI_STRUCT(type, first, now) enum { type##_least = WHOLE(type, END(type, first)) };
#define SWI_SINCE(type, member)                                                                \
    _Static_assert(offsetof(type, member) >= type##_least, #type "." #member " is in "         \
                                                                 "padding");
#include "runtime/base/structs.def"
#undef SWI_STRUCT
#undef SWI_SINCE
#define SWI_STRUCT(type, first, now)
#define SWI_SINCE(type, member)                                                                \
    {SWI_STRUCT_##type, #member, offsetof(type, member), END(type, member)},
static const struct {
    swi_struct of;
    const char *name;
    size_t from, end;
} since[] = {
    {SWI_STRUCTS, "", 0, 0},
#include "runtime/base/structs.def"
};

const char *swi_struct_name(swi_struct which)
{
    return structs[which].name;
}

size_t swi_struct_bytes(swi_struct which)
{
    return structs[which].bytes;
}

size_t swi_struct_least(swi_struct which)
{
    return structs[which].least;
}

sw_status swi_struct_check(swi_struct which, size_t size, const char *call)
{
    const char *name = structs[which].name;
    if (size == 0)
        SW_FAIL(SW_INVALID, "%s: %s.size is 0: set it to sizeof(%s)", call, name, name);
    if (size < structs[which].least || size > SWI_STRUCT_MOST)
        SW_FAIL(SW_INVALID, "%s: %s.size must be %zu to %zu (got %zu): set it to sizeof(%s)",
                call, name, structs[which].least, SWI_STRUCT_MOST, size, name);
    for (size_t i = 0; i < sizeof since / sizeof *since; i++)
        if (since[i].of == which && size > since[i].from && size < since[i].end)
            SW_FAIL(SW_INVALID, "%s: %s.size is %zu, inside of `%s`: set it to sizeof(%s)",
                    call, name, size, since[i].name, name);
    return SW_OK;
}

sw_status swi_struct_read(swi_struct which, void *to, const void *given, const char *call)
{
    const size_t bytes = structs[which].bytes;
    size_t size = 0;
    if (given != NULL) {
        memcpy(&size, given, sizeof size);
        SW_TRY(swi_struct_check(which, size, call));
    }
    memset(to, 0, bytes);
    if (given != NULL)
        memcpy(to, given, size < bytes ? size : bytes);
    memcpy(to, &bytes, sizeof bytes);
    return SW_OK;
}

void swi_struct_write(swi_struct which, void *out, const void *from)
{
    const size_t bytes = structs[which].bytes;
    size_t size;
    memcpy(&size, out, sizeof size);
    memcpy(out, from, size < bytes ? size : bytes);
    memcpy(out, &size, sizeof size);
}
