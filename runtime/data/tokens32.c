/* Tokens of 32 bits, as a reader of its own. */
#include "runtime/data/tokens.h"

static sw_status read_named(sw_dataset **train, sw_dataset **validation, const char *path,
                            const swi_reader_opts *o)
{
    return swi_tokens_read(train, validation, path, 32, o);
}

const swi_reader swi_reader_tokens32 = {.name = "tokens32",
                                        .path = "FILE|DIR",
                                        .about = "for ids of 32 bits",
                                        .takes = SWI_TAKES_TEST | SWI_TAKES_VOCABULARY,
                                        .name_file = swi_tokens_name_file,
                                        .both = read_named};
