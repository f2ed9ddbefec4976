/* The page of what ops keep, runtime/ops/SAVED.md, against the descriptors and against memory:
 * for each case of each op what its gradient kernels read of it, and the bytes that the death
 * witness has to leave alive between forward and backward. */
#include "runtime/verify/op_check.h"
#include "runtime/ops/ops.h"
#include "tests/ops/contract_page.h"
#include "tests/support/suite.h"
#include <stdarg.h>

SW_TESTS("contract")

#define PAGE "runtime/ops/SAVED.md"

typedef struct {
    int n;
    char first[12000]; /* messages, until it is full */
} faults;

static void fault(faults *f, const char *format, ...) SW_PRINTF(2, 3);
static void fault(faults *f, const char *format, ...)
{
    const size_t used = strlen(f->first);
    va_list list;
    va_start(list, format);
    vsnprintf(f->first + used, sizeof f->first - used, format, list);
    va_end(list);
    f->n++;
}

/* ---- what a use of an op keeps ----------------------------------------------------------- */

typedef struct {
    sw_type type[2 * CONTRACT_OUT]; /* of the operands as the kernel has them */
    int n_in, n_out;
    uint32_t kept;  /* what the ops of its gradient read of it */
    uint32_t there; /* operands outside of the step arena */
    size_t bytes;   /* by the death witness */
    bool agreed;
    char why[256];
} seen;

/* The op under test, not a copy that made its input: it has the case's attributes. */
static uint32_t find_node(const swi_check *c, const swi_trace *t)
{
    for (uint32_t n = 0; n < t->n_nodes; n++) {
        const swi_node *node = &t->nodes[n];
        if (node->op == c->id && node->grad < 0 && !node->is_backward &&
            (c->desc->attrs_bytes == 0 || c->spec->attrs == NULL ||
             memcmp(t->attrs + node->attrs, c->spec->attrs, c->desc->attrs_bytes) == 0))
            return n;
    }
    return SWI_NONE;
}

/* Run the case once and under the witness. */
static sw_status look(swi_check *c, uint32_t flags, uint32_t only, seen *to)
{
    swi_check_call call;
    swi_check_result result;
    sw_witness_info info = SW_OPTS(sw_witness_info);
    memset(to, 0, sizeof *to);
    SW_TRY(swi_check_run(c, c->plain, flags, only, &result));
    const swi_trace *t = &c->plain->last->trace;
    const uint32_t f = find_node(c, t);
    if (f == SWI_NONE)
        SW_FAIL(SW_INVALID, "the op is not in its own program");
    const swi_node *node = &t->nodes[f];
    to->n_in = (int)node->n_in;
    to->n_out = (int)node->n_out;
    for (uint32_t k = 0; k < node->n_in + node->n_out; k++) {
        const bool out = k >= node->n_in;
        const uint32_t i = out ? CONTRACT_OUT + k - node->n_in : k;
        const swi_value *v = &t->values[t->operands[node->first + k]];
        if (i % CONTRACT_OUT >= CONTRACT_OUT || i >= 2 * CONTRACT_OUT)
            continue;
        to->type[i] = v->type;
        if (t->storages[v->storage].segment != SWI_SEG_STEP)
            to->there |= 1u << i;
        for (uint32_t g = 0; g < t->n_nodes; g++)
            for (uint32_t r = 0; t->nodes[g].gradient_of == f + 1 && r < t->nodes[g].n_in; r++)
                if (t->values[t->operands[t->nodes[g].first + r]].storage == v->storage)
                    to->kept |= 1u << i;
    }
    SW_TRY(swi_check_call_fill(c, flags, only, &call));
    SW_TRY(sw_witness(c->plain, &call.args, SW_WITNESS_DEATH, &info));
    to->bytes = info.saved_bytes;
    to->agreed = info.agreed == SW_WITNESS_DEATH;
    snprintf(to->why, sizeof to->why, "%s", info.first_fault);
    return SW_OK;
}

/* ---- comparing --------------------------------------------------------------------------- */

/* Bytes of outputs that somebody else keeps and the row does not count. */
static size_t held_bytes(const swi_check *c, const seen *s, const contract_terms *terms)
{
    size_t sum = 0;
    for (int i = 0; i < c->desc->n_out; i++)
        if ((s->type[CONTRACT_OUT + i].dtype == SW_F32 ||
             s->type[CONTRACT_OUT + i].dtype == SW_BF16) &&
            (terms->shares || (terms->kept >> (CONTRACT_OUT + i) & 1u) == 0))
            sum += sw_type_bytes(&s->type[CONTRACT_OUT + i]);
    return sum;
}

static void compare_use(swi_check *c, const contract_row *row, uint32_t flags, uint32_t only,
                        faults *to)
{
    const bool held = (flags & SWI_CHECK_HELD) != 0;
    char why[200], a[200], b[200];
    contract_terms terms;
    seen s;
    const char *where =
        sw_textf(PAGE ":%d: %s, case %s%s%s%s", row->line, row->op, c->spec->name,
                 held ? ", output kept" : "", only == 1 ? ", in0 alone" : "",
                 c->dtype == SW_BF16 ? ", in bf16" : "");
    if (look(c, flags, only, &s) != SW_OK) {
        fault(to, "%s: %s\n", where, sw_last_error());
        return;
    }
    const contract_use use =
        SW_INIT(.in = s.type, .out = s.type + CONTRACT_OUT, .n_in = s.n_in, .n_out = s.n_out,
                .attrs = c->spec->attrs, .name = row->op, .half = c->dtype == SW_BF16,
                .held = held, .alone = only == 1 || (c->n_wanted == 1 && c->in[0].wanted));
    if (!contract_choose(row, &use, &terms, why, sizeof why)) {
        fault(to, "%s: %s\n", where, why);
        return;
    }
    /* Optional operands that the case does not have are not kept. */
    for (uint32_t i = 0; i < 2 * CONTRACT_OUT; i++)
        if (i % CONTRACT_OUT >= (uint32_t)(i < CONTRACT_OUT ? s.n_in : s.n_out) ||
            sw_type_elements(&s.type[i]) == 0)
            terms.kept &= ~(1u << i);
    if (terms.kept != s.kept)
        fault(to, "%s: the page says that %s is kept, its gradient reads %s\n", where,
              contract_set(terms.kept, terms.there, a, sizeof a),
              contract_set(s.kept, s.there, b, sizeof b));
    const size_t bytes = terms.bytes + (held ? held_bytes(c, &s, &terms) : 0);
    if (bytes != s.bytes)
        fault(to, "%s: the page says %zu bytes, the death witness leaves %zu alive\n", where,
              bytes, s.bytes);
    if (!s.agreed)
        fault(to, "%s: the witness: %s\n", where, s.why);
}

/* "4 of in0 + 4 of out1" */
static const char *bytes_kept(const seen *s, char *to, size_t room)
{
    snprintf(to, room, "0");
    for (uint32_t i = 0, n = 0; i < 2 * CONTRACT_OUT; i++)
        if ((s->kept & ~s->there) >> i & 1u) {
            const size_t used = n++ > 0 ? strlen(to) : 0;
            snprintf(to + used, room - used, "%s%zu of %s%u", used > 0 ? " + " : "",
                     sw_dtype_bytes(s->type[i].dtype), i < CONTRACT_OUT ? "in" : "out",
                     i % CONTRACT_OUT);
        }
    return to;
}

static void open_check(swi_check *c, uint32_t id, sw_dtype dtype)
{
    const sw_exec_opts opts =
        SW_OPTS(sw_exec_opts, .seed = 7, .no_rebuild = 1, .compute = dtype);
    *c = (swi_check){.id = id, .desc = sw_op_at(id), .dtype = dtype};
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&c->plain, &opts), SW_OK);
}

/* The row that an op without one needs, by its first case; "" where that does not run. Whoever
 * reviews it writes what plain autograd keeps. */
static const char *propose(uint32_t id, char *to, size_t room)
{
    static swi_check c;
    char set[200] = "nothing", bytes[2][200] = {"0", "0"};
    const sw_op_desc *d = sw_op_at(id);
    bool runs = true;
    for (int half = 0; half < 2 && d->n_cases > 0; half++) {
        seen s = {.kept = 0};
        open_check(&c, id, half ? SW_BF16 : SW_F32);
        runs &= swi_check_begin(&c, 0) == SW_OK &&
                look(&c, SWI_CHECK_TRAIN | SWI_CHECK_MADE, SWI_CHECK_ALL, &s) == SW_OK;
        contract_set(s.kept, s.there, set, sizeof set);
        bytes_kept(&s, bytes[half], sizeof bytes[half]);
        swi_check_end(&c);
        sw_exec_destroy(c.plain);
    }
    snprintf(to, runs ? room : 1, "| %s | %s | %s | %s | %s | ? |", d->name, set, bytes[0],
             bytes[1], d->rebuild != 0 ? "yes" : "dear");
    return to;
}

static bool has_gradient(const sw_op_desc *d)
{
    return d->rule != NULL || d->n_grads > 0;
}

/* Does its forward kernel leave operands unread for these shapes? Then less is kept than the
 * page says, down to nothing; tests/witness/test_outside.c has what. */
static bool leaves_unread(const sw_op_desc *d, const sw_op_case *c)
{
    sw_type in[8], out[8];
    for (int i = 0; i < c->n_in && i < 8; i++)
        in[i] = c->in[i < 4 ? i : 3];
    if (d->unread == NULL || c->n_in > 8 || d->n_out + d->n_extra > 8 ||
        d->infer(in, c->n_in, c->attrs, out) != SW_OK)
        return false;
    const sw_kernel_info info = {
        .in = in, .out = out, .n_in = c->n_in, .n_out = d->n_out, .attrs = c->attrs};
    return d->unread(&info, -1) != 0;
}

/* Every case, as the row says it for numbers of this type. */
static void compare_cases(const contract_row *row, uint32_t id, sw_dtype dtype, faults *to)
{
    static swi_check c;
    open_check(&c, id, dtype);
    c.as_is = contract_there(row);
    for (int i = 0; i < c.desc->n_cases; i++)
        if (!leaves_unread(c.desc, &c.desc->cases[i])) {
            const uint32_t use = SWI_CHECK_TRAIN | SWI_CHECK_MADE;
            if (swi_check_begin(&c, i) != SW_OK) {
                fault(to, "%s, case %d: %s\n", row->op, i, sw_last_error());
            } else if (c.n_wanted > 0) {
                compare_use(&c, row, use, SWI_CHECK_ALL, to);
                if (c.desc->view == NULL)
                    compare_use(&c, row, use | SWI_CHECK_HELD, SWI_CHECK_ALL, to);
                if (contract_asks_who(row) && c.in[0].wanted)
                    compare_use(&c, row, use, 1, to);
            }
            swi_check_end(&c);
        }
    sw_exec_destroy(c.plain);
}

static void compare_op(const contract_page *page, uint32_t id, faults *to)
{
    char missing[800];
    const sw_op_desc *d = sw_op_at(id);
    const contract_row *row = contract_find(page, d->name);
    if (row == NULL) {
        fault(to,
              PAGE ": a row is missing (STEPWELL_WRITE_PAGES=1 writes it, by the first case): "
                   "%s\n",
              propose(id, missing, sizeof missing));
        return;
    }
    /* All that gradient kernels may read stands on the page in some alternative, also where no
     * case shows it. */
    for (int g = 0; g < d->n_grads; g++)
        for (int k = 0; k < d->grads[g].n_operands; k++) {
            const uint32_t kind = SWI_OPERAND_KIND(d->grads[g].operands[k]);
            if (kind == SW_DOUT(0))
                continue;
            const char *name = sw_textf("%s%u", kind == SW_IN(0) ? "in" : "out",
                                        SWI_OPERAND_INDEX(d->grads[g].operands[k]));
            if (strstr(row->keeps, name) == NULL)
                fault(to, PAGE ":%d: %s: gradient %d names %s\n", row->line, row->op, g, name);
        }
    compare_cases(row, id, SW_F32, to);
    compare_cases(row, id, SW_BF16, to);
}

/* `only`: one op; NULL: all, and every row. */
static faults compare(const contract_page *page, const char *only)
{
    faults to = {0, ""};
    if (page->error[0] != '\0')
        fault(&to, PAGE ": %s\n", page->error);
    for (int i = 0; i < page->n; i++) {
        bool known = false;
        for (uint32_t id = 0; id < SW_OPS_INSIDE; id++)
            known |=
                has_gradient(sw_op_at(id)) && strcmp(sw_op_at(id)->name, page->row[i].op) == 0;
        if (!known || contract_find(page, page->row[i].op) != &page->row[i])
            fault(&to, PAGE ":%d: %s %s\n", page->row[i].line, page->row[i].op,
                  known ? "has two rows" : "is no op with a gradient");
    }
    for (uint32_t id = 0; id < SW_OPS_INSIDE; id++)
        if (has_gradient(sw_op_at(id)) &&
            (only == NULL || strcmp(sw_op_at(id)->name, only) == 0))
            compare_op(page, id, &to);
    return to;
}

/* ---- the tests --------------------------------------------------------------------------- */

#define PAGE_BYTES (1 << 16)

static const char *page_text(void)
{
    static char text[PAGE_BYTES];
    FILE *file = fopen(sw_textf("%s/" PAGE, sw_source_root()), "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    const size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    CU_ASSERT_FATAL(n > 0 && n < sizeof text - 1);
    text[n] = '\0';
    return text;
}

static const char *behind_line(const char *text, int line)
{
    while (line-- > 0 && strchr(text, '\n') != NULL)
        text = strchr(text, '\n') + 1;
    return text;
}

/* The row of the op `id`, after the line of the page. */
static void write_row(uint32_t id, const char *text, int line)
{
    char row[800];
    propose(id, row, sizeof row);
    FILE *file = fopen(sw_textf("%s/" PAGE, sw_source_root()), "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    const char *rest = behind_line(text, line);
    fprintf(file, "%.*s%s\n%s", (int)(rest - text), text, row, rest);
    fclose(file);
}

/* Rows of ops that have none, each after that of the op before it in the list. */
static void write_missing_rows(void)
{
    static contract_page page;
    int behind = 0;
    for (uint32_t id = 0; id < SW_OPS_INSIDE; id++) {
        const sw_op_desc *d = sw_op_at(id);
        contract_read(&page, page_text());
        const contract_row *known = contract_find(&page, d->name);
        if (known == NULL && has_gradient(d))
            write_row(id, page_text(), behind++);
        else if (known != NULL)
            behind = known->line;
    }
}

SW_TEST("the page of what ops keep is true, to the byte")
{
    static contract_page page;
    if (getenv("STEPWELL_WRITE_PAGES") != NULL)
        write_missing_rows();
    contract_read(&page, page_text());
    faults found = compare(&page, NULL);
    for (char *line = strtok(found.first, "\n"); line != NULL; line = strtok(NULL, "\n"))
        SW_CHECK(false, "%s", line);
    CU_ASSERT_EQUAL(found.n, 0);
    CU_ASSERT(page.n > 40);
    sw_note("%d ops", page.n);
}

/* A row of the page put into other words. */
typedef struct {
    const char *op, *row;
    const char *says; /* in what is reported */
} planted;

static void check_planted(const char *text, const planted *p)
{
    static contract_page page;
    static char other[PAGE_BYTES + 512];
    const char *at = strstr(text, sw_textf("\n| %s |", p->op));
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    const char *rest = strchr(at + 1, '\n');
    CU_ASSERT_FATAL(rest != NULL && strlen(text) + 400 < sizeof other);
    snprintf(other, sizeof other, "%.*s\n%s%s", (int)(at - text), text, p->row, rest + 1);
    contract_read(&page, other);
    const faults found = compare(&page, p->op);
    SW_CHECK(found.n > 0 && strstr(found.first, p->says) != NULL,
             "'%s' in place of %s: %d faults:\n%s", p->row, p->op, found.n, found.first);
}

SW_TEST("planted rows are found")
{
    static const planted rows[] = {
        {"swish", "| swish | out0 | 4 | 2 | yes | 8 |\n", "gradient 0 names in0"},
        {"swish", "| swish | in0 | 8 | 2 | yes | 8 |\n",
         "case one: the page says 8 bytes, the death witness leaves 4 alive"},
        {"swish", "| swish | in0 | 4 | 2 | yes | 8 |\n| swish | in0 | 4 | 2 | yes | 8 |\n",
         "swish has two rows"},
        {"swish", "",
         "a row is missing (STEPWELL_WRITE_PAGES=1 writes it, by the first case): | swish | "
         "in0 | 4 of in0 | 2 of in0 | yes | ? |"},
        {"swish", "| swish | in0 | 4 | 4 | yes | 8 |\n",
         "case one, in bf16: the page says 4 bytes, the death witness leaves 2 alive"},
        {"swish", "| swish | in0, in1 | 4 | 2 | yes | 8 |\n| swiss | in0 | 4 | 2 | yes | 8 |\n",
         "swiss is no op with a gradient"},
        {"swish", "| swish | in0 | 4 per head | 2 | yes | 8 |\n", "is not a sum"},
        {"swish", "| swish | in0 where it rains | 4 | 2 | yes | 8 |\n", "'it rains'"},
        {"swish", "| swish | in0 | 4 |\n", "has not six cells"},
        {"mul", "| mul | in1 | 4 of in1 | 2 of in1 | yes | 8 |\n",
         "its gradient reads in0, in1"},
        {"mul",
         "| mul | in0, in1, out0 | 4 of in0 + 4 of in1 | 2 of in0 + 2 of in1 | yes | 8 |\n",
         "in0, in1, out0 is kept, its gradient reads in0, in1"},
        {"relu", "| relu | out1 | 1/8 | 1/8 | yes | 4 |\n", "names out0"},
        {"relu",
         "| relu | out0 where the output is kept anyway; else out1 | 0; else 1/4 | 0; else 1/8 "
         "| yes | 4 |\n",
         "case matrix: the page says 47 bytes, the death witness leaves 24 alive"},
        {"tanh",
         "| tanh | out0 where the output is kept anyway; else out0 | 4; else 4 | 2; else 2 | "
         "yes | 4 |\n",
         "output kept: the page says"},
    };
    const char *text = page_text();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_planted(text, &rows[i]);
}
