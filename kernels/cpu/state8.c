/* The codes of 8-bit optimizer state. Compiled once: the same bytes everywhere. */
#include "kernels/state8.h"
#include <pthread.h>

static sw_state8_code codes[2];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void build(void)
{
    for (int i = 0; i < 2; i++)
        sw_state8_build(&codes[i], i != 0);
}

const sw_state8_code *sw_state8_code_of(bool has_sign)
{
    pthread_once(&once, build);
    return &codes[has_sign];
}
