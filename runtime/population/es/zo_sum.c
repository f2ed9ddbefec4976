/* Sums of parameters and of records. */
#include "runtime/model/model_bytes.h"
#include "runtime/population/es/zo_internal.h"
#include <string.h>

static uint64_t word_of(const unsigned char *p)
{
    uint64_t word = 0;
    for (int i = 7; i >= 0; i--)
        word = word << 8 | p[i];
    return word;
}

static uint64_t turned(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

void swi_zo_sum_begin(swi_zo_sum *sum)
{
    memset(sum, 0, sizeof *sum);
    for (uint64_t i = 0; i < 4; i++)
        sum->lane[i] = 0x9e3779b97f4a7c15ull * (i + 1);
}

static void add_block(uint64_t lane[4], const unsigned char *p)
{
    for (int i = 0; i < 4; i++)
        lane[i] = turned((lane[i] ^ word_of(p + 8 * i)) * 0x9e3779b97f4a7c15ull, 29);
}

void swi_zo_sum_add(swi_zo_sum *sum, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    const size_t block = sizeof sum->waits;
    size_t waits = sum->n % block;
    sum->n += n;
    if (waits > 0) {
        const size_t more = n < block - waits ? n : block - waits;
        memcpy(sum->waits + waits, p, more);
        p += more;
        n -= more;
        if (waits + more < block)
            return;
        add_block(sum->lane, sum->waits);
    }
    for (; n >= block; n -= block, p += block)
        add_block(sum->lane, p);
    if (n > 0)
        memcpy(sum->waits, p, n);
}

/* The bytes that wait count as one block more, filled up with zeros; the number of bytes says
 * how many are meant. */
uint64_t swi_zo_sum_end(const swi_zo_sum *sum)
{
    uint64_t lane[4], end = sum->n;
    const size_t waits = sum->n % sizeof sum->waits;
    unsigned char last[sizeof sum->waits] = {0};
    memcpy(lane, sum->lane, sizeof lane);
    memcpy(last, sum->waits, waits);
    add_block(lane, last);
    for (int i = 0; i < 4; i++) {
        end = (end ^ lane[i]) * 0xd6e8feb86659fd93ull;
        end ^= end >> 32;
    }
    return end;
}

/* ---- models ------------------------------------------------------------------------------ */

static sw_status take(void *context, const void *bytes, size_t at, size_t n)
{
    (void)at;
    swi_zo_sum_add(context, bytes, n);
    return SW_OK;
}

static void add_number(swi_zo_sum *sum, uint64_t x)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(x >> 8 * i);
    swi_zo_sum_add(sum, bytes, sizeof bytes);
}

sw_status swi_zo_sum_model(const sw_model *model, uint64_t *out)
{
    swi_zo_sum sum;
    swi_zo_sum_begin(&sum);
    for (uint32_t i = 1; i < model->n_entries; i++) {
        const swi_entry *e = &model->entries[i];
        if (e->role != SWI_ROLE_PARAMETER)
            continue;
        swi_zo_sum_add(&sum, e->name, strlen(e->name) + 1);
        add_number(&sum, (uint64_t)e->shape.rank);
        for (int k = 0; k < e->shape.rank; k++)
            add_number(&sum, (uint64_t)e->shape.dim[k]);
        add_number(&sum, e->frozen);
        SW_TRY(swi_model_pour(model, e->offset, e->bytes, take, &sum));
    }
    *out = swi_zo_sum_end(&sum);
    return SW_OK;
}
