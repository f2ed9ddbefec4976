/* Shares as tests want them: collected by a visitor, added up, compared. */
#ifndef SW_TESTS_SEEN_BREAKDOWN_H
#define SW_TESTS_SEEN_BREAKDOWN_H

#include "runtime/stepwell.h"
#include "tests/support/suite.h"

#define SW_SEEN_LINES 200
typedef struct {
    sw_share_kind kind;
    char name[192];
    size_t at_peak, peak;
} sw_seen_share;
typedef struct {
    sw_seen_share at[SW_SEEN_LINES];
    uint32_t n;
} sw_seen_breakdown;

/* A visitor; `to` is a sw_seen_breakdown that begins empty. */
void sw_see_share(void *to, const sw_share *share);
/* The share of that name; one of no bytes where there is none. */
sw_seen_share sw_share_named(const sw_seen_breakdown *of, sw_share_kind kind, const char *name);
/* All at_peak of a kind. */
size_t sw_share_sum(const sw_seen_breakdown *of, sw_share_kind kind);
/* Whether `a` and `b` have the same lines, in any order; `why` says which differs. */
bool sw_same_breakdown(const sw_seen_breakdown *a, const sw_seen_breakdown *b, char *why,
                       size_t bytes);

#endif
