/* Names of ops in what people read. An op that a step function applies has the name of its
 * function, sw_<op>; what the runtime appends by itself has plain words. */
#ifndef SW_OP_WORDS_H
#define SW_OP_WORDS_H

#include "runtime/base/common.h"
#include <stdbool.h>

/* "linear", "input repacked for SIMD", "update by adam". The text is `to`, or lives as long as
 * the op; `gradient`: what it makes is one. */
#define SWI_WORDS_BYTES 64
const char *swi_op_words(uint32_t op, bool gradient, char to[SWI_WORDS_BYTES]);
/* One word for names of what it makes: "repacked". */
const char *swi_op_word(uint32_t op);

#endif
