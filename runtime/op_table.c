/* The one table of ops: the ones inside, from ops.def, then the registered ones. */
#include "runtime/ops/ops.h"
#include "runtime/runtime_internal.h"
#include <string.h>

#define MAX_REGISTERED 256

#define SW_OP(name) &sw_op_##name,
static const sw_op_desc *const inside[] = {
#include "runtime/ops.def"
};
#undef SW_OP

#define N_INSIDE ((uint32_t)(sizeof inside / sizeof *inside))

/* Descriptors are copied into static storage: an op outlives every model and exec. */
static sw_op_desc registered[MAX_REGISTERED];
static uint32_t n_registered;

uint32_t swi_op_count(void)
{
    return N_INSIDE + __atomic_load_n(&n_registered, __ATOMIC_ACQUIRE);
}

const sw_op_desc *swi_op(uint32_t id)
{
    if (id < N_INSIDE)
        return inside[id];
    return id < swi_op_count() ? &registered[id - N_INSIDE] : NULL;
}

const sw_op_desc *sw_op_at(uint32_t id)
{
    return swi_op(id);
}

static sw_status check_grads(const sw_op_desc *d)
{
    for (int g = 0; g < d->n_grads; g++) {
        const sw_grad_desc *grad = &d->grads[g];
        if (grad->kernel == NULL && grad->select == NULL)
            SW_FAIL(SW_INVALID, "op %s: gradient %d has no kernel", d->name, g);
        if (grad->n_makes < 1 || grad->n_makes > 3 || grad->n_operands < 0 ||
            grad->n_operands > 8)
            SW_FAIL(SW_INVALID, "op %s: gradient %d makes %d gradients of %d operands", d->name,
                    g, grad->n_makes, grad->n_operands);
    }
    return SW_OK;
}

sw_status sw_op_register(const sw_op_desc *desc, uint32_t *id)
{
    if (desc == NULL || id == NULL || desc->size == 0 || desc->size > sizeof *desc)
        SW_FAIL(SW_INVALID, "sw_op_register: a descriptor with its size is wanted");
    sw_op_desc d;
    memset(&d, 0, sizeof d);
    memcpy(&d, desc, desc->size);
    if (d.name == NULL || d.name[0] == '\0' || strlen(d.name) > 40)
        SW_FAIL(SW_INVALID, "sw_op_register: a name of 1 to 40 bytes is wanted");
    if (d.infer == NULL || (d.forward == NULL && d.select == NULL && d.view == NULL))
        SW_FAIL(SW_INVALID, "op %s: infer and a forward kernel are wanted", d.name);
    if (d.n_in < 0 || d.n_in > 16 || d.n_out < 1 || d.n_out > 8 || d.n_extra < 0 ||
        d.n_extra > 8 || d.attrs_bytes > 512)
        SW_FAIL(SW_INVALID, "op %s: %d inputs, %d outputs, %d extras, %zu bytes of attributes",
                d.name, d.n_in, d.n_out, d.n_extra, d.attrs_bytes);
    if (d.rule == NULL && d.n_grads == 0)
        d.no_gradient = 1;
    SW_TRY(check_grads(&d));
    for (uint32_t i = 0; i < swi_op_count(); i++)
        if (strcmp(swi_op(i)->name, d.name) == 0)
            SW_FAIL(SW_INVALID, "an op named '%s' exists", d.name);
    const uint32_t n = __atomic_load_n(&n_registered, __ATOMIC_ACQUIRE);
    if (n == MAX_REGISTERED)
        SW_FAIL(SW_NOMEM, "op %s: %d ops from outside are the most", d.name, MAX_REGISTERED);
    registered[n] = d;
    registered[n].size = sizeof d;
    __atomic_store_n(&n_registered, n + 1, __ATOMIC_RELEASE);
    *id = N_INSIDE + n;
    return SW_OK;
}
