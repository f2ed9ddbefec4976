/* Messages of ops that fail: the op's name, once, wherever it fails. */
#include "tests/support/suite.h"
#include "runtime/base/common.h"

SW_TESTS("named once")

/* Ops with operands that many refuse, and labels and ids that their kernels refuse. */
typedef struct {
    uint32_t op;
    int n;
    sw_array in[4];
    const void *attrs;
    bool scope;
} job;

static void apply(sw_ctx *ctx, void *user)
{
    const job *j = user;
    sw_value in[4];
    for (int i = 0; i < j->n; i++)
        in[i] = sw_input(ctx, i);
    if (j->scope)
        sw_scope_begin(ctx, "block");
    sw_output(ctx, "y", sw_op_apply(ctx, j->op, in, j->n, j->attrs));
    if (j->scope)
        sw_scope_end(ctx);
}

/* A name that stands twice in a row: "softmax_ce: softmax_ce: ". */
static bool says_twice(const char *text, const char *name)
{
    char *words = sw_textf("%s", name);
    for (int k = 0; k < 2; k++) {
        if (strstr(text, sw_textf("%s: %s: ", words, name)) != NULL)
            return true;
        for (char *c = words; *c != '\0'; c++) /* as reports show it */
            *c = *c == '_' ? ' ' : *c;
    }
    return false;
}

static void check(sw_exec *exec, job *j, bool fails)
{
    static uint64_t variant;
    const char *name = sw_op_at(j->op)->name;
    for (int immediate = 0; immediate < 2; immediate++)
        for (int scope = 0; scope < 2; scope++) {
            j->scope = scope != 0;
            const sw_run_args args =
                SW_OPTS(sw_run_args, .fn = apply, .user = j, .inputs = j->in, .n_inputs = j->n,
                        .mode = SW_EVAL, .immediate = immediate, .variant = variant++);
            const sw_status status = sw_run(exec, &args);
            SW_CHECK(!fails || status == SW_INVALID, "%s: %s", name, sw_status_name(status));
            if (status != SW_OK)
                SW_CHECK(!says_twice(sw_last_error(), name) &&
                             strstr(sw_last_error(), name) != NULL,
                         "%s: '%s'", name, sw_last_error());
        }
}

SW_TEST("every op says its name once")
{
    static float x[64];
    static unsigned char zeros[4096];
    const sw_array given[] = {{SW_U16, SW_SHAPE(2, 3), x},
                              {SW_F32, SW_SCALAR, x},
                              {SW_F32, SW_SHAPE(2, 3), x},
                              {SW_U8, SW_SHAPE(1, 2, 3), x},
                              {SW_F32, SW_SHAPE(1, 2, 2, 3), x}};
    sw_exec *exec = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&exec, NULL), SW_OK);
    int refused = 0;
    for (uint32_t op = 0; sw_op_at(op) != NULL; op++) {
        const sw_op_desc *desc = sw_op_at(op);
        for (size_t k = 0; k < sizeof given / sizeof *given; k++) {
            job j = {.op = op, .attrs = desc->attrs_bytes > 0 ? zeros : NULL};
            if (swi_op_is_private(op) || desc->n_in > 4 ||
                strncmp(desc->name, "outside.", 8) == 0) /* these tests' own refuse little */
                continue;
            j.n = desc->n_in;
            for (int i = 0; i < j.n; i++)
                j.in[i] = given[(k + (size_t)(i > 1)) % 5];
            check(exec, &j, false);
            refused++;
        }
    }
    sw_note("%d trials", refused);
    sw_exec_destroy(exec);
}

SW_TEST("kernels say it once")
{
    static const float x[12];
    static const int32_t labels[] = {0, 99};
    static const swi_ce_attrs ce;
    sw_exec *exec = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&exec, NULL), SW_OK);
    job jobs[] = {{SW_OP_softmax_ce,
                   2,
                   {{SW_F32, SW_SHAPE(2, 3), x}, {SW_I32, SW_SHAPE(2), labels}},
                   &ce,
                   false},
                  {SW_OP_embedding,
                   2,
                   {{SW_I32, SW_SHAPE(2), labels}, {SW_F32, SW_SHAPE(4, 3), x}},
                   NULL,
                   false}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        check(exec, &jobs[i], true);
    sw_exec_destroy(exec);
}
