/* A module of two cards with the host's memory, for tests of what stands on it. */
#ifndef SW_TESTS_PLAIN_H
#define SW_TESTS_PLAIN_H

#include "kernels/cuda/api.h"

typedef struct {
    int opens, closes, queues, syncs;
    sw_status answer; /* of the next copy or fill; then SW_OK again */
} plain_state;

plain_state *plain_module_state(void);

#endif
