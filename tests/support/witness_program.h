/* Witness of a program as it stands, in a frame of its own: tests plant faults in a copy first.
 */
#ifndef SW_TESTS_SUPPORT_WITNESS_PROGRAM_H
#define SW_TESTS_SUPPORT_WITNESS_PROGRAM_H

#include "runtime/verify/witness_internal.h"

static inline sw_status sw_witness_program(sw_exec *exec, const swi_program *program,
                                           const sw_run_args *args, uint32_t which,
                                           sw_witness_info *out)
{
    swi_frame *frame;
    SW_TRY(swi_frame_create(&frame, program));
    const sw_status status = swi_witness_frame(exec, frame, args, which, out);
    swi_frame_free(frame);
    return status;
}

#endif
