/* The pickle machine: a stack, marks on it, and a memo of values that may come again. Its
 * memory is a multiple of the bytes read: each opcode pushes one value or takes some away, and
 * the numbers of the memo go up one by one. There is no recursion. */
#include "alloc/base/message.h"
#include "profiler/inspect/values.h"
#include "alloc/base/mem.h"
#include <stdarg.h>
#include <string.h>

/* The work of the opcodes here. */
typedef enum {
    NOT_KNOWN, /* no opcode */
    WOULD_RUN, /* looks up or calls something */
    NOT_DATA,  /* data that a snapshot does not have, or text of protocols 0 and 1 */
    START,
    FRAME,
    STOP,
    MARK,
    POP,
    POP_MARK,
    DUP,
    SPECIAL,  /* None, true, false: no argument */
    INT,      /* `bytes` of argument, with a sign from 4 bytes on */
    LONG,     /* length in `bytes`, two's complement */
    REAL,     /* 8 bytes */
    TEXT,     /* length in `bytes` */
    NEW_LIST, /* and the empty tuple */
    NEW_DICT,
    ADD_ONE, /* `bytes` items to the container under them */
    ADD_MARKED,
    LIST_MARKED,
    DICT_MARKED,
    TUPLE, /* of `bytes` items */
    PUT,   /* number in `bytes`; 0: the next one */
    GET
} action;

typedef struct {
    const char *name;
    unsigned char action, bytes;
} opcode;

/* The names are those of Python's pickletools. */
static const opcode opcodes[256] = {
    [0x80] = {"PROTO", START, 1},
    [0x95] = {"FRAME", FRAME, 8},
    ['.'] = {"STOP", STOP, 0},
    ['('] = {"MARK", MARK, 0},
    ['0'] = {"POP", POP, 0},
    ['1'] = {"POP_MARK", POP_MARK, 0},
    ['2'] = {"DUP", DUP, 0},
    ['N'] = {"NONE", SPECIAL, 0},
    [0x88] = {"NEWTRUE", SPECIAL, 0},
    [0x89] = {"NEWFALSE", SPECIAL, 0},
    ['K'] = {"BININT1", INT, 1},
    ['M'] = {"BININT2", INT, 2},
    ['J'] = {"BININT", INT, 4},
    [0x8a] = {"LONG1", LONG, 1},
    [0x8b] = {"LONG4", LONG, 4},
    ['G'] = {"BINFLOAT", REAL, 8},
    ['U'] = {"SHORT_BINSTRING", TEXT, 1},
    ['T'] = {"BINSTRING", TEXT, 4},
    ['C'] = {"SHORT_BINBYTES", TEXT, 1},
    ['B'] = {"BINBYTES", TEXT, 4},
    [0x8e] = {"BINBYTES8", TEXT, 8},
    [0x8c] = {"SHORT_BINUNICODE", TEXT, 1},
    ['X'] = {"BINUNICODE", TEXT, 4},
    [0x8d] = {"BINUNICODE8", TEXT, 8},
    [']'] = {"EMPTY_LIST", NEW_LIST, 0},
    [')'] = {"EMPTY_TUPLE", NEW_LIST, 0},
    ['}'] = {"EMPTY_DICT", NEW_DICT, 0},
    ['a'] = {"APPEND", ADD_ONE, 1},
    ['s'] = {"SETITEM", ADD_ONE, 2},
    ['e'] = {"APPENDS", ADD_MARKED, 1},
    ['u'] = {"SETITEMS", ADD_MARKED, 2},
    ['l'] = {"LIST", LIST_MARKED, 0},
    ['t'] = {"TUPLE", LIST_MARKED, 0},
    ['d'] = {"DICT", DICT_MARKED, 0},
    [0x85] = {"TUPLE1", TUPLE, 1},
    [0x86] = {"TUPLE2", TUPLE, 2},
    [0x87] = {"TUPLE3", TUPLE, 3},
    ['q'] = {"BINPUT", PUT, 1},
    ['r'] = {"LONG_BINPUT", PUT, 4},
    [0x94] = {"MEMOIZE", PUT, 0},
    ['h'] = {"BINGET", GET, 1},
    ['j'] = {"LONG_BINGET", GET, 4},
    ['c'] = {"GLOBAL", WOULD_RUN, 0},
    [0x93] = {"STACK_GLOBAL", WOULD_RUN, 0},
    ['R'] = {"REDUCE", WOULD_RUN, 0},
    ['b'] = {"BUILD", WOULD_RUN, 0},
    ['i'] = {"INST", WOULD_RUN, 0},
    ['o'] = {"OBJ", WOULD_RUN, 0},
    [0x81] = {"NEWOBJ", WOULD_RUN, 0},
    [0x92] = {"NEWOBJ_EX", WOULD_RUN, 0},
    [0x82] = {"EXT1", WOULD_RUN, 0},
    [0x83] = {"EXT2", WOULD_RUN, 0},
    [0x84] = {"EXT4", WOULD_RUN, 0},
    ['P'] = {"PERSID", WOULD_RUN, 0},
    ['Q'] = {"BINPERSID", WOULD_RUN, 0},
    [0x97] = {"NEXT_BUFFER", NOT_DATA, 0},
    [0x98] = {"READONLY_BUFFER", NOT_DATA, 0},
    [0x96] = {"BYTEARRAY8", NOT_DATA, 0},
    [0x8f] = {"EMPTY_SET", NOT_DATA, 0},
    [0x90] = {"ADDITEMS", NOT_DATA, 0},
    [0x91] = {"FROZENSET", NOT_DATA, 0},
    ['I'] = {"INT", NOT_DATA, 0},
    ['L'] = {"LONG", NOT_DATA, 0},
    ['F'] = {"FLOAT", NOT_DATA, 0},
    ['S'] = {"STRING", NOT_DATA, 0},
    ['V'] = {"UNICODE", NOT_DATA, 0},
    ['p'] = {"PUT", NOT_DATA, 0},
    ['g'] = {"GET", NOT_DATA, 0},
};

typedef struct {
    value_tree *tree;
    byte_reader *in;
    uint64_t at; /* of the opcode */
    const opcode *op;
    value *stack, *memo;
    uint32_t *marks; /* heights of the stack */
    uint32_t n_stack, cap_stack, n_memo, cap_memo, n_marks, cap_marks;
    bool stopped;
} machine;

static sw_status damaged(const machine *m, const char *format, ...) SW_PRINTF(2, 3);

static sw_status damaged(const machine *m, const char *format, ...)
{
    char what[200];
    va_list args;
    va_start(args, format);
    (void)sw_message_list(what, sizeof what, format, args);
    va_end(args);
    SW_FAIL(SW_FORMAT, "%s: byte %llu: %s", m->in->path, (unsigned long long)m->at, what);
}

static sw_status push(machine *m, value v)
{
    if (m->n_stack == UINT32_MAX / 2)
        return damaged(m, "more than %u values wait", UINT32_MAX / 2);
    SW_TRY(sw_heap_reserve(&m->stack, SW_HEAP_FILES, &m->cap_stack, m->n_stack + 1, sizeof v));
    m->stack[m->n_stack++] = v;
    return SW_OK;
}

/* n values above the latest mark are there to be taken. */
static sw_status need(const machine *m, uint32_t n)
{
    const uint32_t floor = m->n_marks > 0 ? m->marks[m->n_marks - 1] : 0;
    if (m->n_stack - floor < n)
        return damaged(m, "%s needs %u values (got %u)", m->op->name, n, m->n_stack - floor);
    return SW_OK;
}

static sw_status pop_mark(machine *m, uint32_t *height)
{
    if (m->n_marks == 0)
        return damaged(m, "%s without a mark", m->op->name);
    *height = m->marks[--m->n_marks];
    return SW_OK;
}

/* Where the values begin that the opcode takes: `n` of them, or those above the latest mark. */
static sw_status operands(machine *m, bool marked, uint32_t n, uint32_t *height)
{
    if (marked)
        return pop_mark(m, height);
    SW_TRY(need(m, n));
    *height = m->n_stack - m->op->bytes;
    return SW_OK;
}

/* ---- opcodes ----------------------------------------------------------------------------- */

static sw_status do_opcode(machine *m, int byte)
{
    const opcode *op = m->op;
    uint32_t height = 0;
    uint64_t x = 0;
    value v;
    switch ((action)op->action) {
    case NOT_KNOWN:
        return damaged(m, "no pickle has the opcode 0x%02x", (unsigned)byte);
    case WOULD_RUN:
        return damaged(
            m, "%s would run code that the file chooses; a snapshot must hold data only",
            op->name);
    case NOT_DATA:
        return damaged(m, "%s, which no snapshot has%s", op->name,
                       byte < 0x80 ? " since protocol 2" : "");
    case START:
    case FRAME:
        SW_TRY(byte_reader_number(m->in, op->bytes, &x));
        if (op->action == START && (x < 2 || x > 5))
            return damaged(m, "pickle protocol %llu; 2 to 5 are read", (unsigned long long)x);
        return SW_OK;
    case STOP:
        if (m->n_stack != 1 || m->n_marks != 0)
            return damaged(m,
                           "STOP must find one value and no mark (got %u values and %u marks)",
                           m->n_stack, m->n_marks);
        m->stopped = true;
        return SW_OK;
    case MARK:
        SW_TRY(sw_heap_reserve(&m->marks, SW_HEAP_FILES, &m->cap_marks, m->n_marks + 1,
                               sizeof *m->marks));
        m->marks[m->n_marks++] = m->n_stack;
        return SW_OK;
    case POP_MARK:
        return pop_mark(m, &m->n_stack);
    case POP:
        SW_TRY(need(m, 1));
        m->n_stack--;
        return SW_OK;
    case DUP:
        SW_TRY(need(m, 1));
        return push(m, m->stack[m->n_stack - 1]);
    case SPECIAL:
        return push(m, byte == 'N' ? value_null() : value_bool(byte == 0x88));
    case INT:
        SW_TRY(byte_reader_number(m->in, op->bytes, &x));
        return push(m, value_int(op->bytes == 4 ? (int32_t)(uint32_t)x : (int64_t)x));
    case LONG: {
        uint64_t n;
        SW_TRY(byte_reader_number(m->in, op->bytes, &n));
        SW_TRY(byte_reader_take(m->in, n));
        if (n > 8)
            return push(m, value_other());
        for (uint64_t i = 0; i < n; i++)
            x |= (uint64_t)(unsigned char)m->in->text[i] << 8 * i;
        if (n > 0 && n < 8 && (m->in->text[n - 1] & 0x80) != 0)
            x |= UINT64_MAX << 8 * n;
        return push(m, value_int((int64_t)x));
    }
    case REAL: { /* eight bytes of a double, the highest first */
        double real;
        SW_TRY(byte_reader_take(m->in, 8));
        for (int i = 0; i < 8; i++)
            x = x << 8 | (unsigned char)m->in->text[i];
        memcpy(&real, &x, sizeof real);
        SW_TRY(value_real_new(m->tree, &v, real, false, 0));
        return push(m, v);
    }
    case TEXT:
        SW_TRY(byte_reader_number(m->in, op->bytes, &x));
        SW_TRY(byte_reader_take(m->in, x));
        SW_TRY(value_text_new(m->tree, &v, m->in->text, (size_t)x));
        return push(m, v);
    case NEW_LIST:
    case NEW_DICT:
        SW_TRY(op->action == NEW_DICT ? value_dict_new(m->tree, &v)
                                      : value_list_new(m->tree, &v));
        return push(m, v);
    case ADD_ONE:
    case ADD_MARKED: { /* to the container under them */
        const bool dict = op->bytes == 2;
        SW_TRY(operands(m, op->action == ADD_MARKED, op->bytes + 1u, &height));
        const uint32_t n = m->n_stack - height;
        m->n_stack = height;
        SW_TRY(need(m, 1));
        if (value_kind_of(m->stack[height - 1]) != (dict ? VALUE_DICT : VALUE_LIST))
            return damaged(m, "%s must be given a %s", op->name, dict ? "dict" : "list");
        if (n % op->bytes != 0)
            return damaged(m, "%s: a key without its value", op->name);
        return n > 0 ? value_add(m->tree, m->stack[height - 1], m->stack + height, n) : SW_OK;
    }
    case LIST_MARKED:
    case DICT_MARKED:
    case TUPLE: { /* the values become one */
        const bool dict = op->action == DICT_MARKED;
        SW_TRY(operands(m, op->action != TUPLE, op->bytes, &height));
        const uint32_t n = m->n_stack - height;
        if (dict && n % 2 != 0)
            return damaged(m, "%s: a key without its value", op->name);
        SW_TRY(dict ? value_dict_new(m->tree, &v) : value_list_new(m->tree, &v));
        if (n > 0)
            SW_TRY(value_add(m->tree, v, m->stack + height, n));
        m->n_stack = height;
        return push(m, v);
    }
    case PUT:
        x = m->n_memo;
        SW_TRY(need(m, 1));
        if (op->bytes > 0)
            SW_TRY(byte_reader_number(m->in, op->bytes, &x));
        if (x > (uint64_t)m->n_memo + 1 || x >= UINT32_MAX / 2) /* some writers count from 1 */
            return damaged(m, "%s of number %llu: only %u are in use", op->name,
                           (unsigned long long)x, m->n_memo);
        SW_TRY(sw_heap_reserve(&m->memo, SW_HEAP_FILES, &m->cap_memo, (uint32_t)x + 1,
                               sizeof *m->memo));
        m->n_memo = x >= m->n_memo ? (uint32_t)x + 1 : m->n_memo;
        m->memo[x] = m->stack[m->n_stack - 1];
        return SW_OK;
    case GET:
        SW_TRY(byte_reader_number(m->in, op->bytes, &x));
        if (x >= m->n_memo || m->memo[x] == 0)
            return damaged(m, "%s of number %llu, which nothing has", op->name,
                           (unsigned long long)x);
        return push(m, m->memo[x]);
    }
    return SW_OK;
}

static sw_status run(machine *m)
{
    while (!m->stopped) {
        int byte;
        m->at = m->in->at;
        SW_TRY(byte_reader_next(m->in, &byte));
        if (byte < 0)
            return damaged(m, "the file ends before STOP");
        m->op = &opcodes[byte];
        SW_TRY(do_opcode(m, byte));
    }
    return SW_OK;
}

sw_status pickle_read(value_tree *t, byte_reader *r, value *out)
{
    machine m = {.tree = t, .in = r};
    const sw_status status = run(&m);
    if (status == SW_OK)
        *out = m.stack[0];
    sw_heap_free(m.stack, SW_HEAP_FILES, m.cap_stack * sizeof *m.stack);
    sw_heap_free(m.memo, SW_HEAP_FILES, m.cap_memo * sizeof *m.memo);
    sw_heap_free(m.marks, SW_HEAP_FILES, m.cap_marks * sizeof *m.marks);
    return status;
}
