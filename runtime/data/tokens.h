/* Shared by the readers of tokens of both widths. */
#ifndef SW_DATA_TOKENS_H
#define SW_DATA_TOKENS_H

#include "runtime/data/reader.h"

SW_MUST_USE sw_status swi_tokens_read(sw_dataset **train, sw_dataset **validation,
                                      const char *path, int bits, const swi_reader_opts *opts);
/* The file, and those of a folder. */
bool swi_tokens_name_file(const char *path, int i, char *to, size_t bytes);

#endif
