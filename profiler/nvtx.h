/* Named ranges for Nsight Systems. Where the NVTX headers were not there at build time these do
 * nothing; where they were, a range without a tool attached costs about two nanoseconds and
 * allocates nothing. Ranges nest and belong to the calling thread. */
#ifndef SW_NVTX_H
#define SW_NVTX_H

/* `name` is copied by the tool. */
void sw_nvtx_push(const char *name);
void sw_nvtx_pop(void);

#endif
