/* Shared by the programs that PyTorch is compared with. They end with a message where something
 * fails: one side alone is no comparison. */
#ifndef SW_PEER_H
#define SW_PEER_H

#include <stdio.h>
#include <stdlib.h>
#include <stepwell.h>

#define CHECK(call)                                                                            \
    do {                                                                                       \
        if ((call) != SW_OK) {                                                                 \
            fprintf(stderr, "%s: %s\n", #call, sw_last_error());                               \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

/* DIR/NAME, empty, to be closed by the caller. */
FILE *peer_create(const char *dir, const char *name);
void peer_put(FILE *to, const void *from, size_t bytes);
/* DIR/NAME: parameters and buffers. */
void peer_save(const sw_model *model, const char *dir, const char *name);
/* The kept gradients of all parameters in their order. Buffers have none: the names of running
 * statistics say what they are. */
void peer_put_gradients(sw_model *model, FILE *to);

#endif
