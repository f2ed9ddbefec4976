/* Results that are recomputed in backward rather than kept: each op with a cheap result is
 * marked `rebuild`, or runtime/ops/SAVED.md says why not, in its column "again". */
#include "runtime/verify/op_check.h"
#include "runtime/ops/ops.h"
#include "tests/ops/contract_page.h"
#include "tests/support/suite.h"

SW_TESTS("again")

#define PAGE "runtime/ops/SAVED.md"

/* Units (sixteenths of a nanosecond) for each four bytes of the result: cheap is what takes a
 * third of the linear layer before it, of 128 inputs, forward and backward: three products
 * of 256 operations, 12 a unit. */
#define LAYER (3.0 * 256.0 / 12.0)
#define SHARE (1.0 / 3.0)

/* The properties that the cases of an op show. */
typedef struct {
    size_t result;  /* bytes of the largest result; 0: it runs in no case */
    double cost;    /* of that, for each four bytes, launches left out */
    double smaller; /* the most that a result is smaller than what is read */
    bool one;       /* each result is one number */
} seen;

static const swi_node *forward_of(const swi_check *c, const swi_trace *t)
{
    for (uint32_t n = 0; n < t->n_nodes; n++)
        if (t->nodes[n].op == c->id && t->nodes[n].grad < 0 && !t->nodes[n].is_backward)
            return &t->nodes[n];
    return NULL;
}

/* Payload of operands k to k + n. */
static size_t bytes_of(const swi_trace *t, const swi_node *node, uint32_t k, uint32_t n)
{
    size_t sum = 0;
    for (uint32_t i = k; i < k + n; i++)
        sum += sw_type_bytes(&t->values[t->operands[node->first + i]].type);
    return sum;
}

/* The cost of no operations and no bytes. */
static uint64_t launch_cost(void)
{
    static const sw_shape empty = {1, {0}};
    sw_type none = {SW_F32, SW_PLAIN, empty};
    swi_value v[2] = {{.type = none}, {.type = none}};
    uint32_t ids[] = {0, 1};
    const swi_trace t = {.values = v, .operands = ids};
    const swi_node node = {.op = SW_OP_copy, .grad = -1, .n_in = 1, .n_out = 1};
    return swi_node_cost(&t, &node);
}

static void look_at_case(swi_check *c, seen *to)
{
    swi_check_call call;
    swi_frame *frame;
    bool fresh;
    CU_ASSERT_EQUAL_FATAL(swi_check_call_fill(c, SWI_CHECK_GIVE, SWI_CHECK_ALL, &call), SW_OK);
    CU_ASSERT_EQUAL_FATAL(swi_check_model_fill(c, c->plain, SWI_CHECK_GIVE), SW_OK);
    CU_ASSERT_EQUAL_FATAL(swi_exec_program(c->plain, &call.args, &frame, &fresh), SW_OK);
    const swi_trace *t = &frame->program->trace;
    const swi_node *node = forward_of(c, t);
    if (node == NULL || node->is_view)
        return;
    const size_t out = bytes_of(t, node, node->n_in, (uint32_t)c->desc->n_out);
    const size_t in = bytes_of(t, node, 0, node->n_in);
    const double smaller = out > 0 ? (double)in / (double)out : 0.0;
    to->one &= out <= 8;
    to->smaller = smaller > to->smaller ? smaller : to->smaller;
    if (out <= to->result)
        return;
    to->result = out;
    to->cost = 4.0 * (double)(swi_node_cost(t, node) - launch_cost()) / (double)out;
}

static seen look_at(uint32_t id)
{
    static swi_check c;
    seen to = {.one = true};
    c = (swi_check){.id = id, .desc = sw_op_at(id)};
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&c.plain, NULL), SW_OK);
    for (int i = 0; i < c.desc->n_cases; i++) {
        if (SW_CHECK(swi_check_begin(&c, i) == SW_OK, "%s", sw_last_error()))
            look_at_case(&c, &to);
        swi_check_end(&c);
    }
    sw_exec_destroy(c.plain);
    return to;
}

static bool is_product(const char *op)
{
    static const char *const ops[] = {"linear", "conv2d",    "conv_transpose2d",
                                      "matmul", "attention", "linear_ce"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(ops[i], op) == 0)
            return true;
    return false;
}

/* Does the cell say what is so? */
static bool is_true(const char *again, const sw_op_desc *d, const seen *s)
{
    const bool cheap = s->cost <= SHARE * LAYER;
    if (d->rebuild != 0) /* one without cases has the cost of a copy */
        return strcmp(again, "yes") == 0 && cheap;
    if (strcmp(again, "a view") == 0)
        return d->view != NULL;
    if (strcmp(again, "dear") == 0)
        return s->result > 0 && !cheap;
    if (strcmp(again, "a product") == 0)
        return is_product(d->name);
    if (strcmp(again, "reads more") == 0)
        return s->smaller >= 4.0;
    if (strcmp(again, "one number") == 0)
        return s->result > 0 && s->one;
    return strcmp(again, "in backward") == 0 && strcmp(d->name, "slice_grad") == 0;
}

SW_TEST("what is cheap is recomputed, or the page says why not")
{
    static contract_page page;
    static char text[1 << 16];
    int marked = 0;
    FILE *file = fopen(sw_textf("%s/" PAGE, sw_source_root()), "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    contract_read(&page, text);
    CU_ASSERT_EQUAL(page.error[0], '\0');
    for (uint32_t id = 0; id < SW_OPS_INSIDE; id++) {
        const sw_op_desc *d = sw_op_at(id);
        const contract_row *row = contract_find(&page, d->name);
        if (d->rule == NULL && d->n_grads == 0)
            continue;
        const seen s = look_at(id);
        SW_CHECK(row != NULL && is_true(row->again, d, &s),
                 PAGE ":%d: %s: '%s'; rebuild is %d, the result of %zu bytes costs %.1f units "
                      "for each four (cheap: %.1f), %.1f times as much is read",
                 row != NULL ? row->line : 0, d->name, row != NULL ? row->again : "",
                 d->rebuild, s.result, s.cost, SHARE * LAYER, s.smaller);
        marked += d->rebuild != 0;
    }
    CU_ASSERT(marked > 40);
    sw_note("%d of %d ops are recomputed", marked, page.n);
}

/* False words are reported. */
SW_TEST("false words are found")
{
    static const struct {
        const char *op, *word;
    } rows[] = {{"swish", "dear"},       {"swish", "a view"},      {"softmax", "yes"},
                {"softmax", ""},         {"linear", "one number"}, {"max_pool2d", "dear"},
                {"slice", "dear"},       {"mse", "a product"},     {"add", "reads more"},
                {"softmax", "a product"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (uint32_t id = 0; id < SW_OPS_INSIDE; id++)
            if (strcmp(sw_op_at(id)->name, rows[i].op) == 0) {
                const seen s = look_at(id);
                SW_CHECK(!is_true(rows[i].word, sw_op_at(id), &s), "%s: '%s'", rows[i].op,
                         rows[i].word);
            }
}
