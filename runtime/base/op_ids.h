/* The numbers of the ops inside, in the order of ops.def. */
#pragma once

#define SW_OP(name, ...) SW_OP_##name,
enum {
#include "runtime/ops.def"
    SW_OPS_INSIDE
};
#undef SW_OP
