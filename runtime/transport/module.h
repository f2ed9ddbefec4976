/* A transport module: calls that move bytes between the ranks that a launcher started.
 * One of them exists for each MPI (mpi.c), since programs link none. No call blocks but `open`,
 * `abort` and `close`. One exchange is under way at a time, which all ranks start in the same
 * order with the same bytes. All are called by one thread. Codes: 0 is success; `why` says what
 * another one means. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SW_TRANSPORT_ABI 2u
#define SW_TRANSPORT_RANKS 4096 /* at most */

typedef struct {
    uint32_t abi, size;
    const char *name; /* of what moves the bytes, with its version */
    int rank, ranks;
    /* Start an exchange: `bytes` of each rank, in the order of ranks, to all. */
    int (*gather)(const void *mine, void *all, size_t bytes);
    /* Start an exchange: to rank k the next out_bytes[k] of `out`, from rank k in_bytes[k],
     * which are what it sends to this one; the counts stay until it is over. */
    int (*trade)(const void *out, const size_t *out_bytes, void *in, const size_t *in_bytes);
    int (*done)(int *done); /* is it over? */
    /* Signs of life: one to the next rank, unless the last has not left yet (*sent 0); how many
     * came from the one before since this was asked last. */
    int (*sign)(int *sent);
    int (*signs)(uint64_t *came);
    const char *(*why)(int code);
    void (*abort)(int status); /* ends the processes of all ranks */
    void (*close)(void);       /* all ranks call it */
} sw_transport;

/* The one function of a module, sw_transport_open: joins the others, and waits for them. NULL:
 * `why` has the reason. */
typedef const sw_transport *sw_transport_opener(char *why, size_t room);
