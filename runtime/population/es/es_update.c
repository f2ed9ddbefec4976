/* The program that updates by an estimate: es_internal.h. */
#include "runtime/population/es/es_internal.h"

void swi_es_update(sw_ctx *ctx, void *user)
{
    (void)user;
    sw_fail(ctx, SW_UNSUPPORTED, "sw_es_step: the estimate is not there yet");
}
