/* The codes of 8-bit optimizer state, and states that move. Compiled once: the same bytes
 * everywhere. */
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

void sw_state8_move(const sw_state8_tensor *to, int64_t n, const sw_state8_tensor *from,
                    bool has_sign, sw_state8_origin *origin, const void *context)
{
    const float *value = sw_state8_code_of(has_sign)->value;
    const int64_t row_blocks = sw_state8_blocks(from->cols);
    float s[SW_STATE8_BLOCK];
    uint8_t bytes[SW_STATE8_BLOCK];
    for (int64_t at = 0, block = 0, in; at < n; at += in, block++) {
        const int64_t left = to->cols - at % to->cols;
        int64_t one = -1; /* the block that all were in; -2: several */
        in = left < SW_STATE8_BLOCK ? left : SW_STATE8_BLOCK;
        for (int64_t i = 0; i < in; i++) {
            const int64_t was = origin(context, at + i);
            bytes[i] = 0;
            s[i] = 0.0f;
            if (was < 0)
                continue;
            if (from->values != NULL) {
                s[i] = from->values[was];
                one = -2;
                continue;
            }
            const int64_t its =
                was / from->cols * row_blocks + was % from->cols / SW_STATE8_BLOCK;
            bytes[i] = from->in8.codes[was];
            s[i] = value[bytes[i]] * from->in8.scales[its];
            one = one == -1 || one == its ? its : -2;
        }
        if (to->values != NULL) {
            memcpy(to->values + at, s, (size_t)in * sizeof *s);
        } else if (one == -2) {
            sw_state8_encode(s, in, to->in8.codes + at, &to->in8.scales[block], has_sign);
        } else {
            memcpy(to->in8.codes + at, bytes, (size_t)in);
            to->in8.scales[block] = one < 0 ? 0.0f : from->in8.scales[one];
        }
    }
}
