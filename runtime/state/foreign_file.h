/* Files of other programs that are taken for parameters. */
#ifndef SW_FOREIGN_FILE_H
#define SW_FOREIGN_FILE_H

#include <stddef.h>

/* The kind of a file that is no safetensors file, by its first `n` bytes, and how its tensors
 * become one: "a GGUF file, ...". NULL: not known. */
const char *swi_foreign_file(const unsigned char *first, size_t n);

#endif
