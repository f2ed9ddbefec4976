/* The top of all folders: the ops and the observers are registered here, so that nothing
 * below names them. Public functions that need either stand here too: a program that is linked
 * statically has this file because it calls one of them. */
#include "runtime/observe/observe.h"
#include "runtime/ops/ops.h"

#define SW_OP(name, ...) &sw_op_##name,
static const sw_op_desc *const ops[] = {
#include "runtime/ops.def"
};
#undef SW_OP
_Static_assert(sizeof ops / sizeof *ops == SW_OPS_INSIDE, "ops.def is the list of ops");

static const swi_observer *const observers[] = {&swi_profile_observer, &swi_breakdown_observer,
                                                &swi_nvtx_observer, NULL};

__attribute__((constructor)) static void register_all(void)
{
    swi_ops_register(ops);
    swi_observers = observers;
}

sw_status sw_exec_create(sw_exec **out, const sw_exec_opts *opts)
{
    return swi_exec_create(out, opts);
}

sw_status sw_op_register(const sw_op_desc *desc, uint32_t *id)
{
    return swi_op_register(desc, id);
}

const sw_op_desc *sw_op_at(uint32_t id)
{
    return swi_op(id);
}
