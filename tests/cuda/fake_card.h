/* The module over the fake card (fake/), opened as the library opens it. */
#ifndef SW_TESTS_FAKE_CARD_H
#define SW_TESTS_FAKE_CARD_H

#include "tests/cuda/fake/fake.h"

/* The controls of its card; STEPWELL_CUDA_MODULE names its file from the first call on. Fails
 * the test where it is not there. */
const sw_fake_api *sw_fake_card_api(void);
/* A card as it is plugged in; NULL: the usual one. lazy: as in fake.h. All that was registered
 * (sw_after) since the card before ends first. When a card goes, at the next one or at the
 * end of the test, all must be given back, and nothing wrong. */
const sw_fake_api *sw_fake_card_new(const sw_fake_card *card, uint64_t lazy);
/* A card that is broken: what was made on it ends, and what it has left is not looked at. */
void sw_fake_card_lost(void);
sw_fake_counts sw_fake_card_counts(void);
/* The same check now; `what` names it in messages. */
void sw_fake_card_is_well(const char *what);

#endif
