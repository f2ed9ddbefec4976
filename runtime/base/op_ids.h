/* The numbers of the ops inside, in the order of ops.def. */
#ifndef SW_OP_IDS_H
#define SW_OP_IDS_H

#define SW_OP(name, ...) SW_OP_##name,
enum {
#include "runtime/ops.def"
    SW_OPS_INSIDE
};
#undef SW_OP

#endif
