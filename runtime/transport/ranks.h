/* Ranks: the processes of one run, which a launcher (mpirun, srun) started together.
 *
 * Bytes move through one buffer of fixed size by a module (module.h), and never straight from
 * or to what is exchanged. Every rank makes the same calls with the same sizes. A rank gives
 * the next one a sign of life each second: where none came for the time that was set, a call
 * fails and names the silent rank, instead of waiting for it for ever. */
#pragma once

#include "runtime/base/common.h"
#include "runtime/transport/module.h"

#define SWI_RANKS_MOST SW_TRANSPORT_RANKS
#define SWI_RANKS_PIECE ((size_t)256 << 10) /* bytes that an exchange gives each rank */

typedef struct sw_ranks swi_ranks;

/* How many processes a launcher says that it started: 1 without one. *by (or NULL): the
 * variable that says so. */
int swi_ranks_started(const char **by);
/* Which of them this process is, as the launcher says: 0 where it says nothing. */
int swi_ranks_started_as(void);

/* Join the others; each has a buffer of swi_ranks_bytes, which no budget pays for. timeout_s:
 * from the last sign of life on. SW_DEVICE: there is no module, or it is of another MPI than
 * the launcher; SW_INVALID: the ranks have different versions of the library; SW_UNSUPPORTED:
 * there are too many. */
SW_MUST_USE sw_status swi_ranks_open(swi_ranks **out, double timeout_s);
/* All ranks call it. After a failure of an exchange: swi_ranks_abort. NULL is fine. */
void swi_ranks_close(swi_ranks *r);
/* Ends the processes of all ranks with this status, this one too. */
void swi_ranks_abort(swi_ranks *r, int status);

/* Of NULL: rank 0 of 1. */
int swi_ranks_rank(const swi_ranks *r);
int swi_ranks_size(const swi_ranks *r);
const char *swi_ranks_host(const swi_ranks *r, int rank);
int swi_ranks_on_host(const swi_ranks *r);      /* this one too */
const char *swi_ranks_name(const swi_ranks *r); /* of the transport */
uint64_t swi_ranks_run(const swi_ranks *r); /* the same on all ranks; another for each run */
size_t swi_ranks_bytes(int ranks);          /* of the buffer of each rank */
/* That this rank sent since it joined; nanoseconds that it waited for others. */
uint64_t swi_ranks_sent(const swi_ranks *r);
uint64_t swi_ranks_waited(const swi_ranks *r);

/* In the order of ranks: `bytes` of each into `all`. */
SW_MUST_USE sw_status swi_ranks_gather(swi_ranks *r, const void *mine, size_t bytes, void *all);
/* Of `bytes` rank k has those from k `each` on, at most `each` of them: all get all. */
SW_MUST_USE sw_status swi_ranks_gather_in_place(swi_ranks *r, void *all, size_t bytes,
                                                size_t each);
/* data becomes that of rank 0. */
SW_MUST_USE sw_status swi_ranks_share(swi_ranks *r, void *data, size_t bytes);
/* `bytes` at `data` of rank `from` become those at `data` of rank `to`; others need none. */
SW_MUST_USE sw_status swi_ranks_copy(swi_ranks *r, int from, int to, void *data, size_t bytes);
/* Values become their sums over all ranks, the same bits on each: ranks are added in pairs of
 * neighbours, then pairs of these sums, and so on; one without a neighbour is carried up. A
 * rank sends 8 (ranks - 1) ceil(n / ranks) bytes. */
SW_MUST_USE sw_status swi_ranks_sum(swi_ranks *r, float *values, size_t n);
/* SW_INVALID, with the first rank that has another number than rank 0: `what` differs. */
SW_MUST_USE sw_status swi_ranks_same(swi_ranks *r, const char *what, uint64_t number);
/* A sign of life, and a look at that of the rank before; between pieces of work that are long.
 * Exchanges give them too. */
SW_MUST_USE sw_status swi_ranks_alive(swi_ranks *r);
/* Where this rank is, for messages: "step" 12. The text stays. */
void swi_ranks_at(swi_ranks *r, const char *unit, uint64_t number);
/* Bytes that became resident while the transport joined the others: its own, in no budget; 0
 * where the system does not say. */
size_t swi_ranks_taken(const swi_ranks *r);
/* A gradient was made and summed twice, since it might not have been finite; how many were. */
void swi_ranks_count_twice(swi_ranks *r);
uint64_t swi_ranks_twice(const swi_ranks *r);
