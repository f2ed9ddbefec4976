/* A device for tests: memory of the host under the functions of one, counted, and made to fail
 * at one call. New bytes are 0xd5. */
#ifndef SW_TESTS_DEVICE_MEMORY_H
#define SW_TESTS_DEVICE_MEMORY_H

#include "alloc/arena/store.h"

#define SW_TEST_RANGES 8

typedef struct {
    size_t step;           /* of mapping; 0: plain blocks */
    size_t capacity_bytes; /* 0: no limit */
    int64_t fail_at;       /* that call, from 1, fails; 0: none does */
    sw_status fails;       /* with that */
    int64_t calls;         /* that may fail */
    int maps;              /* of them, maps and blocks */
    int ranges;            /* reserved or taken now */
    size_t live_bytes;     /* with memory now */
    struct {
        unsigned char *base;
        size_t mapped_bytes;
    } range[SW_TEST_RANGES]; /* that map */
} sw_test_device;

sw_device_memory sw_test_device_memory(sw_test_device *device);
/* A store over it. The device outlives it. */
SW_MUST_USE sw_status sw_test_device_store(sw_store **out, size_t bytes,
                                           sw_test_device *device);

#endif
