/* The page on which each op states what it keeps for backward, runtime/ops/SAVED.md, as the
 * tests read it. */
#ifndef SW_TESTS_OPS_CONTRACT_PAGE_H
#define SW_TESTS_OPS_CONTRACT_PAGE_H

#include "runtime/stepwell.h"
#include <stdbool.h>

#define CONTRACT_ROWS 128
#define CONTRACT_OUT 16 /* bit of output 0 in a set of operands; inputs come first */

/* A row of the table, its cells without what stands around them. */
typedef struct {
    int line;
    char op[40], keeps[320], bytes[160], half[160], again[40], plain[320];
} contract_row;

typedef struct {
    contract_row row[CONTRACT_ROWS];
    int n;
    char error[200]; /* of the first line that cannot be read; "" */
} contract_page;

/* One use of an op: what conditions and formulas ask for. */
typedef struct {
    const sw_type *in, *out;
    int n_in, n_out; /* outputs with extras */
    const void *attrs;
    const char *name; /* of the op */
    bool half;        /* the run computes in bf16 */
    bool held;        /* somebody else keeps the output */
    bool alone;       /* no input but the first has a gradient */
} contract_use;

/* The alternative of a row that holds for a use. */
typedef struct {
    uint32_t kept;  /* set of operands that it names */
    uint32_t there; /* those in brackets: parameters and inputs of the run */
    bool shares;    /* its bytes are those beside an output that is kept anyway */
    size_t bytes;
} contract_terms;

void contract_read(contract_page *to, const char *text);
const contract_row *contract_find(const contract_page *page, const char *op);
/* All operands in brackets of a row, in any of its alternatives. */
uint32_t contract_there(const contract_row *row);
/* Has the row a condition that asks whether other inputs than the first have gradients? */
bool contract_asks_who(const contract_row *row);
/* False, and why, where the row's cells cannot be read. */
bool contract_choose(const contract_row *row, const contract_use *use, contract_terms *to,
                     char *why, size_t room);
/* "in0, out1" */
const char *contract_set(uint32_t set, uint32_t there, char *to, size_t room);

#endif
