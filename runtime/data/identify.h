/* Identifies a file or folder that was given as data, so that a message can say what to do. */
#ifndef SW_DATA_IDENTIFY_H
#define SW_DATA_IDENTIFY_H

#include "runtime/stepwell.h"

/* By its first bytes: "a .npy file"; NULL where they are not known. */
const char *swi_identify_bytes(const unsigned char *head, size_t n);
/* Say what stands at PATH by its bytes, and how to read it: "is a folder of tokens: give
 * tokens:PATH". `text` has room for `bytes`. NULL where nothing is known. Takes no memory. */
const char *swi_identify(const char *path, char *text, size_t bytes);

#endif
