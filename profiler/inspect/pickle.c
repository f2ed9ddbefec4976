/* The pickle writer. Opcodes have the letters that Python's pickletools gives them. */
#include "profiler/inspect/pickle.h"
#include <string.h>

static void put(sw_pickle *p, char opcode)
{
    sw_sink_bytes(p->out, &opcode, 1);
}

/* An opcode and a number of n bytes, the lowest first. */
static void put_number(sw_pickle *p, char opcode, uint64_t x, size_t n)
{
    char bytes[9] = {opcode};
    for (size_t i = 0; i < n; i++)
        bytes[i + 1] = (char)(x >> 8 * i);
    sw_sink_bytes(p->out, bytes, n + 1);
}

/* Before every value: a list that has a full batch begins the next one. */
static void value(sw_pickle *p)
{
    if (p->depth == 0 || !p->list[p->depth])
        return;
    if (p->items[p->depth] == SW_PICKLE_BATCH) {
        put(p, 'e');
        put(p, '(');
        p->items[p->depth] = 0;
    }
    p->items[p->depth]++;
}

void sw_pickle_start(sw_pickle *p, sw_sink_out *out)
{
    *p = (sw_pickle){.out = out};
    sw_sink_bytes(out, "\x80\x02", 2);
}

void sw_pickle_stop(sw_pickle *p)
{
    put(p, '.');
}

void sw_pickle_begin(sw_pickle *p, char bracket)
{
    if (p->depth + 1 == SW_PICKLE_DEPTH) {
        p->out->status = p->out->status != SW_OK
                             ? p->out->status
                             : sw_error_set(SW_INVALID, __FILE__, __LINE__, "pickle: too deep");
        return;
    }
    value(p);
    p->depth++;
    p->list[p->depth] = bracket == '[';
    p->items[p->depth] = 0;
    put(p, bracket == '[' ? ']' : '}');
    put(p, '(');
}

void sw_pickle_end(sw_pickle *p)
{
    put(p, p->list[p->depth] ? 'e' : 'u');
    p->depth--;
}

void sw_pickle_string(sw_pickle *p, const char *text)
{
    const size_t n = strlen(text);
    value(p);
    put_number(p, 'X', n, 4);
    sw_sink_bytes(p->out, text, n);
}

/* The value itself, where its place is counted already. */
static void number(sw_pickle *p, uint64_t x)
{
    if (x <= UINT8_MAX)
        put_number(p, 'K', x, 1);
    else if (x <= UINT16_MAX)
        put_number(p, 'M', x, 2);
    else if (x <= INT32_MAX)
        put_number(p, 'J', x, 4);
    else {
        put(p, '\x8a');
        put_number(p, 8, x, 8);
    }
}

void sw_pickle_u64(sw_pickle *p, uint64_t x)
{
    value(p);
    number(p, x);
}

void sw_pickle_bool(sw_pickle *p, bool x)
{
    value(p);
    put(p, x ? '\x88' : '\x89');
}

void sw_pickle_tuple2(sw_pickle *p, uint32_t a, uint32_t b)
{
    value(p);
    number(p, a);
    number(p, b);
    put(p, '\x86');
}

uint32_t sw_pickle_keep(sw_pickle *p)
{
    if (p->n_kept <= UINT8_MAX)
        put_number(p, 'q', p->n_kept, 1);
    else
        put_number(p, 'r', p->n_kept, 4);
    return p->n_kept++;
}

void sw_pickle_again(sw_pickle *p, uint32_t kept)
{
    value(p);
    if (kept <= UINT8_MAX)
        put_number(p, 'h', kept, 1);
    else
        put_number(p, 'j', kept, 4);
}
