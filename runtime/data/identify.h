/* What a file or folder is that was given as data, so that a message can say what to do. */
#ifndef SW_DATA_IDENTIFY_H
#define SW_DATA_IDENTIFY_H

#include "runtime/stepwell.h"
#include <stdbool.h>

/* By its first bytes: "a .npy file"; NULL where they are not known. */
const char *swi_identify_bytes(const unsigned char *head, size_t n);
/* Is there a file or folder at PATH? */
bool swi_identify_there(const char *path);
/* What stands at PATH and how to read it: "is a folder of IDX files: give idx:PATH". `text` has
 * room for `bytes`. Always a phrase. Takes no memory. */
const char *swi_identify(const char *path, char *text, size_t bytes);

#endif
