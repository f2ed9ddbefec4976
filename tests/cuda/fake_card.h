/* The module over the fake card (fake/), opened as the library opens it. */
#ifndef SW_TESTS_FAKE_CARD_H
#define SW_TESTS_FAKE_CARD_H

#include "tests/cuda/fake/fake.h"

/* The controls of its card; STEPWELL_CUDA_MODULE names its file from the first call on. Fails
 * the test where it is not there. */
const sw_fake_api *sw_fake_card_api(void);

#endif
