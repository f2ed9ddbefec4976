/* Runs of the table's rows: the op on parameters and inputs that hold the operands, its result
 * as an output of the run, the gradients of sum(result * given) as kept gradients. */
#include "tests/ops/special.h"
#include "tests/support/suite.h"
#include <float.h>

/* ---- the page ---------------------------------------------------------------------------- */

#define PAGE "tests/ops/special_values.txt"
enum { CELLS = 8, LINE = 65536, ROW = 32768 };

static float numbers[ROW]; /* of the row that is read */
static int n_numbers;

/* "(2,3)" before the values; none: no shape. */
static const char *read_shape(special_tensor *t, const char *s)
{
    t->shaped = *s == '(';
    if (!t->shaped)
        return s;
    for (s++; *s != ')' && *s != '\0' && t->shape.rank < SW_MAX_RANK; s += *s == ',') {
        char *end;
        t->shape.dim[t->shape.rank++] = strtol(s, &end, 10);
        s = end;
    }
    return *s == ')' ? s + 1 : NULL;
}

/* "1,nan,-0*3" */
static bool read_values(special_tensor *t, const char *s)
{
    for (t->v = numbers + n_numbers; *s != '\0';) {
        char *end;
        const float v = strtof(s, &end);
        const long copies = *end == '*' ? strtol(end + 1, &end, 10) : 1;
        if (end == s || copies < 1 || n_numbers + copies > ROW)
            return false;
        for (long i = 0; i < copies; i++, t->n++)
            numbers[n_numbers++] = v;
        if (*end != '\0' && *end != ',')
            return false;
        s = *end == ',' ? end + 1 : end;
    }
    return true;
}

static bool read_tensor(special_tensor *t, const char *s)
{
    memset(t, 0, sizeof *t);
    t->looked_at = strcmp(s, "~") != 0;
    t->kind = 'f';
    if (!t->looked_at)
        return true;
    if (*s == 'c' || *s == 'u' || (*s == 'i' && s[1] != 'n'))
        t->kind = *s++;
    s = read_shape(t, s);
    return s != NULL && read_values(t, s);
}

/* Tensors apart by blanks; "-": none. Their number, -1 for a fault. */
static int read_tensors(special_tensor *to, char *s)
{
    int n = 0;
    char *rest = NULL;
    if (strcmp(s, "-") == 0)
        return 0;
    for (char *word = strtok_r(s, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        if (n == SPECIAL_OPERANDS || !read_tensor(&to[n++], word))
            return -1;
    return n;
}

static bool read_name(special_row *row, const char *s)
{
    if (strlen(s) >= sizeof row->name)
        return false;
    memcpy(row->name, s, strlen(s) + 1);
    const char *at = strchr(s, ' ');
    for (int i = 0; at != NULL && i < 4; i++, at = strchr(at + 1, ' '))
        row->args[i] = strtod(at + 1, NULL);
    return true;
}

/* Cells of "a | b | c", trimmed. */
static int split(char *line, char *cell[CELLS])
{
    int n = 0;
    line[strcspn(line, "\n")] = '\0';
    for (char *next = line; next != NULL && n < CELLS; n++) {
        cell[n] = next;
        next = strstr(next, " | ");
        if (next != NULL) {
            *next = '\0';
            next += 3;
        }
    }
    return n;
}

static bool read_row(special_row *row, char *line)
{
    char *cell[CELLS];
    const int n = split(line, cell);
    if ((n != 5 && n != CELLS) || !read_name(row, cell[0]))
        return false;
    row->differs = n == CELLS;
    row->n_in = read_tensors(row->in, cell[1]);
    row->n_grads = read_tensors(row->dx, cell[4]);
    if (row->n_in < 1 || row->n_grads < 0 || !read_tensor(&row->y, cell[3]))
        return false;
    if (strcmp(cell[2], "-") != 0 && !read_tensor(&row->dy, cell[2]))
        return false;
    return !row->differs || (strlen(cell[7]) > 10 && read_tensor(&row->our_y, cell[5]) &&
                             read_tensors(row->our_dx, cell[6]) == row->n_grads);
}

/* Keep case k of n. */
static bool keep_case(special_tensor *t, int n_tensors, int k, int n)
{
    for (int i = 0; i < n_tensors; i++, t++) {
        int size = 1;
        for (int d = 0; d < t->shape.rank; d++)
            size *= (int)t->shape.dim[d];
        if (t->n == 0) /* there is none */
            continue;
        if (t->n != n * size || size > SPECIAL_NUMBERS)
            return false;
        t->v += k * size;
        t->n = size;
    }
    return true;
}

/* The row has a case in each place of its lists. */
static bool visit_cases(const special_row *row, void (*visit)(const special_row *, void *),
                        void *to)
{
    static special_row one;
    int n = row->in[0].n;
    for (int d = 0; d < row->in[0].shape.rank; d++)
        n /= row->in[0].shape.dim[d] > 0 ? (int)row->in[0].shape.dim[d] : 1;
    for (int k = 0; k < n; k++) {
        one = *row;
        one.place = k + 1;
        if (!keep_case(one.in, SPECIAL_OPERANDS, k, n) || !keep_case(&one.dy, 1, k, n) ||
            !keep_case(&one.y, 1, k, n) || !keep_case(one.dx, SPECIAL_OPERANDS, k, n) ||
            !keep_case(&one.our_y, 1, k, n) || !keep_case(one.our_dx, SPECIAL_OPERANDS, k, n))
            return false;
        visit(&one, to);
    }
    return n > 0;
}

/* Each row in turn; false where the table cannot be read. The row is valid during the call. */
static bool special_each(void (*visit)(const special_row *row, void *to), void *to)
{
    static char line[LINE];
    static special_row row;
    const char *path = sw_textf("%s/" PAGE, sw_source_root());
    FILE *file = fopen(path, "r");
    if (!SW_CHECK(file != NULL, "%s cannot be opened", path))
        return false;
    bool good = true;
    for (int n = 1; good && fgets(line, sizeof line, file) != NULL; n++) {
        if (*line == '#' || *line == '\n')
            continue;
        memset(&row, 0, sizeof row);
        row.line = n;
        n_numbers = 0;
        good = read_row(&row, line) && visit_cases(&row, visit, to);
        SW_CHECK(good, PAGE ":%d: this is no row", n);
    }
    fclose(file);
    return good;
}

/* ---- ops by name ------------------------------------------------------------------------- */

typedef struct {
    const special_row *row;
    sw_model *model;
    sw_param param[SPECIAL_OPERANDS]; /* index 0: an input */
    int input[SPECIAL_OPERANDS], dy_input;
    sw_param mean, variance; /* buffers of batch norm */
    sw_knob knob;
    sw_optimizer *optimizer;
} use;

typedef struct {
    sw_ctx *c;
    const use *u;
    const double *a;
    sw_value x, y, z, t; /* the operands */
} call;

static sw_value none(void)
{
    return (sw_value){0};
}

#define A0 ((float)r->a[0])
#define A1 ((float)r->a[1])
#define N0 ((int)r->a[0])
#define N1 ((int)r->a[1])
#define N2 ((int)r->a[2])
#define ONE(ROW, name) ROW(name, sw_##name(r->c, r->x))
#define TWO(ROW, name) ROW(name, sw_##name(r->c, r->x, r->y))
#define OPS(ROW)                                                                               \
    ONE(ROW, relu)                                                                             \
    ROW(leaky_relu, sw_leaky_relu(r->c, r->x, A0))                                             \
    ONE(ROW, tanh)                                                                             \
    ONE(ROW, sigmoid)                                                                          \
    ONE(ROW, swish)                                                                            \
    ONE(ROW, gelu)                                                                             \
    ONE(ROW, gelu_tanh)                                                                        \
    ONE(ROW, mish)                                                                             \
    ONE(ROW, softplus)                                                                         \
    ONE(ROW, hard_swish)                                                                       \
    ROW(elu, sw_elu(r->c, r->x, A0))                                                           \
    ONE(ROW, selu)                                                                             \
    ONE(ROW, exp)                                                                              \
    ONE(ROW, log)                                                                              \
    ONE(ROW, sqrt)                                                                             \
    ONE(ROW, rsqrt)                                                                            \
    ROW(pow, sw_pow(r->c, r->x, A0))                                                           \
    ONE(ROW, abs)                                                                              \
    ROW(clamp, sw_clamp(r->c, r->x, A0, A1))                                                   \
    ROW(scale_by, sw_scale_by(r->c, r->x, A0))                                                 \
    ROW(scale, sw_scale(r->c, r->x, r->u->knob))                                               \
    ROW(detach, sw_add(r->c, r->x, sw_detach(r->c, r->x)))                                     \
    TWO(ROW, add)                                                                              \
    TWO(ROW, sub)                                                                              \
    TWO(ROW, mul)                                                                              \
    TWO(ROW, div)                                                                              \
    TWO(ROW, swiglu)                                                                           \
    ROW(where, sw_where(r->c, r->x, r->y, r->z))                                               \
    ROW(dropout, sw_dropout(r->c, r->x, A0))                                                   \
    ROW(to_f32, sw_to_f32(r->c, r->x, A0, A1))                                                 \
    ROW(reshape, sw_reshape(r->c, r->x, SW_SHAPE(-1)))                                         \
    ROW(slice, sw_slice(r->c, r->x, 1, 1, 2))                                                  \
    ROW(permute, sw_transpose(r->c, r->x, 0, 1))                                               \
    ROW(concat, sw_concat(r->c, (sw_value[]){r->x, r->y}, 2, 1))                               \
    TWO(ROW, matmul)                                                                           \
    ROW(linear, sw_linear_op(r->c, r->x, r->y, r->z))                                          \
    ROW(linear_relu, sw_relu(r->c, sw_linear_op(r->c, r->x, r->y, r->z)))                      \
    ROW(linear_leaky_relu, sw_leaky_relu(r->c, sw_linear_op(r->c, r->x, r->y, r->z), A0))      \
    ROW(embedding, sw_embedding_op(r->c, r->x, r->y))                                          \
    ROW(sum, sw_sum(r->c, r->x, 0))                                                            \
    ROW(sum_axis, sw_sum(r->c, r->x, SW_AXIS(N0)))                                             \
    ROW(mean, sw_mean(r->c, r->x, 0))                                                          \
    ROW(mean_axis, sw_mean(r->c, r->x, SW_AXIS(N0)))                                           \
    ROW(max, sw_max(r->c, r->x, 0))                                                            \
    ROW(max_axis, sw_max(r->c, r->x, SW_AXIS(N0)))                                             \
    ROW(argmax, sw_to_f32(r->c, sw_argmax(r->c, r->x, N0, 0), 1.0f, 0.0f))                     \
    ROW(cumsum, sw_cumsum(r->c, r->x, N0))                                                     \
    ONE(ROW, softmax)                                                                          \
    ONE(ROW, log_softmax)                                                                      \
    TWO(ROW, softmax_ce)                                                                       \
    ROW(softmax_ce_with, sw_softmax_ce_with(r->c, r->x, r->y, A0, N1))                         \
    ROW(linear_ce, sw_linear_ce(r->c, r->x, r->y, r->z, r->t))                                 \
    TWO(ROW, mse)                                                                              \
    ROW(bce, sw_bce(r->c, r->x, A0))                                                           \
    TWO(ROW, bce_with)                                                                         \
    ROW(huber, sw_huber(r->c, r->x, r->y, A0))                                                 \
    TWO(ROW, l1)                                                                               \
    TWO(ROW, kl_div)                                                                           \
    TWO(ROW, accuracy)                                                                         \
    ROW(layer_norm, sw_layer_norm_op(r->c, r->x, none(), none(), 1e-5f))                       \
    ROW(layer_norm_affine, sw_layer_norm_op(r->c, r->x, r->y, r->z, 1e-5f))                    \
    ROW(rms_norm, sw_rms_norm_op(r->c, r->x, none(), 1e-5f))                                   \
    ROW(group_norm, sw_group_norm_op(r->c, r->x, none(), none(), N0, 1e-5f))                   \
    ROW(batch_norm,                                                                            \
        sw_batch_norm_op(r->c, r->x, none(), none(), r->u->mean, r->u->variance, 0.1f, 1e-5f)) \
    ROW(batch_norm_relu, sw_relu(r->c, run_batch_norm(r)))                                     \
    ROW(batch_norm_fixed,                                                                      \
        sw_batch_norm_op(r->c, r->x, r->y, r->z, r->u->mean, r->u->variance, 0.1f, 1e-5f))     \
    ROW(max_pool2d, sw_max_pool2d(r->c, r->x, N0, N1, N2))                                     \
    ROW(avg_pool2d, sw_avg_pool2d(r->c, r->x, N0, N1, N2))                                     \
    ROW(relu_max_pool, sw_max_pool(r->c, sw_relu(r->c, r->x), 2))                              \
    ROW(max_pool_relu, sw_relu(r->c, sw_max_pool(r->c, r->x, 2)))                              \
    TWO(ROW, channel_scale)                                                                    \
    ROW(conv2d, sw_conv2d_op(r->c, r->x, r->y, r->z, N0, N1))                                  \
    ROW(conv2d_relu, sw_relu(r->c, sw_conv2d_op(r->c, r->x, r->y, r->z, N0, N1)))              \
    ROW(upsample, sw_upsample_to(r->c, r->x, N1, N2, N0 == 0 ? SW_NEAREST : SW_BILINEAR))      \
    ROW(attention, sw_attention(r->c, r->x, r->y, r->z, N0, N1, (float)r->a[2]))

#define RUN(name, ...)                                                                         \
    static sw_value run_##name(const call *r)                                                  \
    {                                                                                          \
        return __VA_ARGS__;                                                                    \
    }
OPS(RUN)

static sw_value run_conv_transpose2d(const call *r)
{
    const sw_conv_transpose_opts o =
        SW_OPTS(sw_conv_transpose_opts, .stride = N0, .pad = N1, .output_pad = N2);
    return sw_conv_transpose2d_op(r->c, r->x, r->y, r->z, &o);
}

static sw_value run_depthwise(const call *r)
{
    const sw_conv_opts o = SW_OPTS(sw_conv_opts, .stride = N0, .pad = N1,
                                   .groups = (int)sw_dim(r->c, r->x, 1), .dilation = 1);
    return sw_conv2d_op_with(r->c, r->x, r->y, r->z, &o);
}

/* The parameter with its gradient: what an update makes of it is read after the run. */
static sw_value run_update(const call *r)
{
    return sw_sum(r->c, sw_mul(r->c, r->x, r->y), 0);
}

/* The kind of result: an output; the two buffers after the run; the parameter after it. */
typedef enum { AN_OUTPUT, BUFFERS, UPDATED } result_kind;

#define OP(name, ...) {#name, run_##name, AN_OUTPUT, NULL},
static const struct {
    const char *name;
    sw_value (*run)(const call *r);
    result_kind result;
    const char *optimizer;
} ops[] = {OPS(OP){"depthwise", run_depthwise, AN_OUTPUT, NULL},
           {"conv_transpose2d", run_conv_transpose2d, AN_OUTPUT, NULL},
           {"expand", run_add, AN_OUTPUT, NULL},
           {"batch_norm_stats", run_batch_norm, BUFFERS, NULL},
           {"clip_norm", run_update, UPDATED, "sgd"},
           {"sgd", run_update, UPDATED, "sgd"},
           {"momentum", run_update, UPDATED, "sgd"},
           {"adam", run_update, UPDATED, "adam"},
           {"adamw", run_update, UPDATED, "adamw"},
           {"rmsprop", run_update, UPDATED, "rmsprop"},
           {"adagrad", run_update, UPDATED, "adagrad"}};

static int op_of(const special_row *row)
{
    const size_t n = strcspn(row->name, " ");
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strlen(ops[i].name) == n && strncmp(ops[i].name, row->name, n) == 0)
            return (int)i;
    SW_CHECK(false, "line %d: there is no op '%s'", row->line, row->name);
    return -1;
}

static bool is_named(const special_row *row, const char *name)
{
    const int i = op_of(row);
    return i >= 0 && strcmp(ops[i].name, name) == 0;
}

/* ---- a run ------------------------------------------------------------------------------- */

static void step(sw_ctx *c, void *user)
{
    const use *u = user;
    const special_row *row = u->row;
    const int op = op_of(row);
    sw_value v[SPECIAL_OPERANDS] = {{0}};
    for (int i = 0; i < row->n_in; i++)
        if (u->input[i] != -1)
            v[i] = u->param[i].index != 0 ? sw_use(c, u->param[i]) : sw_input(c, u->input[i]);
    const call r = {c, u, row->args, v[0], v[1], v[2], v[3]};
    const sw_value y = ops[op].run(&r);
    if (ops[op].result != BUFFERS)
        sw_output(c, "y", y);
    if (ops[op].result == UPDATED) {
        sw_backward(c, y, (sw_optimizer *const *)&u->optimizer, 1);
        if (is_named(row, "clip_norm"))
            sw_clip_norm(c, u->optimizer, u->knob);
        sw_update(c, u->optimizer);
    } else if (row->n_grads > 0) {
        const sw_value given = sw_mul(c, y, sw_input(c, u->dy_input));
        sw_backward(c, sw_sum(c, given, 0), (sw_optimizer *const *)&u->optimizer, 1);
        sw_accumulate(c, u->optimizer);
    }
}

static sw_shape shape_of(const special_tensor *t)
{
    return t->shaped ? t->shape : SW_SHAPE(SPECIAL_COPIES);
}

static int count_of(const special_tensor *t)
{
    return t->shaped ? t->n : SPECIAL_COPIES;
}

static const float *floats_of(const special_tensor *t, float *room)
{
    for (int i = 0; i < count_of(t); i++)
        room[i] = t->v[t->shaped ? i : 0];
    return room;
}

/* The operand as the caller has it. */
static const void *bytes_of(const special_tensor *t, float *room)
{
    floats_of(t, room);
    for (int i = 0; i < count_of(t) && t->kind == 'i'; i++) {
        const int32_t v = room[i] >= 2147483648.0f ? INT32_MAX : (int32_t)room[i];
        memcpy(&room[i], &v, sizeof v);
    }
    for (int i = 0; i < count_of(t) && t->kind == 'u'; i++)
        ((uint8_t *)room)[i] = (uint8_t)room[i];
    return room;
}

typedef struct {
    void (*op)(void *to, const char *name);
    void *to;
} op_names;

static void name_op(void *to, uint32_t position, const char *name, sw_phase phase)
{
    const op_names *names = to;
    names->op(names->to, name);
}

/* Show the ops of the run that was. */
static sw_status name_ops(sw_exec *exec, const sw_run_args *args, const special_way *way)
{
    op_names names = {way->op, way->to};
    const sw_plan_visitor visitor = SW_OPTS(sw_plan_visitor, .to = &names, .op = name_op);
    return way->op != NULL ? sw_plan_visit(exec, args, &visitor) : SW_OK;
}

typedef struct {
    float y[SPECIAL_NUMBERS], dx[SPECIAL_OPERANDS][SPECIAL_NUMBERS];
} answers;

static sw_status declare(use *u, result_kind result, const char *kind)
{
    const special_row *row = u->row;
    SW_TRY(sw_model_create(&u->model, "special"));
    for (int i = 0; i < row->n_in; i++) {
        const bool param = row->in[i].kind == 'f' || (result == UPDATED && i == 0);
        if (param)
            u->param[i] = sw_param_new(u->model, sw_textf("x%d", i), SW_F32,
                                       shape_of(&row->in[i]), "zeros");
    }
    if (strncmp(row->name, "batch_norm", 10) == 0) {
        const sw_shape channels = SW_SHAPE(row->in[0].shape.dim[1]);
        u->mean = sw_buffer_new(u->model, "mean", SW_F32, channels, "zeros");
        u->variance = sw_buffer_new(u->model, "variance", SW_F32, channels, "ones");
    }
    u->knob = sw_knob_new(u->model, "knob", (float)row->args[0]);
    const bool clips = is_named(row, "clip_norm");
    const sw_optimizer_opts o =
        SW_OPTS(sw_optimizer_opts, .kind = kind != NULL ? kind : "sgd",
                .lr = result != UPDATED || clips ? 1.0f : (float)row->args[0],
                .momentum = is_named(row, "momentum") ? 0.9f : 0.0f,
                .weight_decay = is_named(row, "adamw") ? 0.01f : 0.0f,
                .keep_gradients = result != UPDATED, .no_check = result != UPDATED);
    if (row->n_grads > 0 || result == UPDATED)
        SW_TRY(sw_optimizer_create(&u->optimizer, u->model, &o));
    return SW_OK;
}

static sw_status fill(sw_exec *exec, use *u)
{
    const special_row *row = u->row;
    static float room[SPECIAL_NUMBERS];
    SW_TRY(sw_model_ready(u->model, exec, 1));
    for (int i = 0; i < row->n_in; i++)
        if (u->param[i].index != 0)
            SW_TRY(sw_param_write(u->param[i], floats_of(&row->in[i], room),
                                  (size_t)count_of(&row->in[i]) * sizeof(float)));
    if (is_named(row, "batch_norm_fixed")) {
        SW_TRY(sw_param_write(u->mean, row->in[3].v, (size_t)row->in[3].n * sizeof(float)));
        SW_TRY(sw_param_write(u->variance, row->in[4].v, (size_t)row->in[4].n * sizeof(float)));
    }
    return SW_OK;
}

static sw_status read_answers(sw_exec *exec, const use *u, result_kind result, answers *got)
{
    const special_row *row = u->row;
    sw_array y;
    if (result == UPDATED) {
        SW_TRY(sw_param_read(u->param[0], got->y, (size_t)row->in[0].n * sizeof(float)));
    } else if (result == BUFFERS) {
        const size_t bytes = (size_t)row->in[0].shape.dim[1] * sizeof(float);
        SW_TRY(sw_param_read(u->mean, got->y, bytes));
        SW_TRY(sw_param_read(u->variance, got->y + row->in[0].shape.dim[1], bytes));
    } else {
        SW_TRY(sw_output_get(exec, "y", &y));
        memcpy(got->y, y.data, (size_t)count_of(&row->y) * sizeof(float));
    }
    int g = 0;
    for (int i = 0; i < row->n_in && row->n_grads > 0; i++)
        if (row->in[i].kind == 'f') {
            SW_TRY(sw_param_gradient(u->param[i], got->dx[g],
                                     (size_t)count_of(&row->in[i]) * sizeof(float)));
            g++;
        }
    return SW_OK;
}

static sw_status run(sw_exec *exec, const special_way *way, use *u, answers *got)
{
    static float room[SPECIAL_OPERANDS + 1][SPECIAL_NUMBERS];
    const special_row *row = u->row;
    const int op = op_of(row);
    sw_array inputs[SPECIAL_OPERANDS + 1];
    int n = 0;
    SW_TRY(declare(u, ops[op].result, ops[op].optimizer));
    SW_TRY(fill(exec, u));
    const bool fixed = is_named(row, "batch_norm_fixed");
    for (int i = 0; i < row->n_in; i++) {
        const special_tensor *t = &row->in[i];
        u->input[i] = fixed && i >= 3 ? -1 : 0;
        if (u->param[i].index != 0 || u->input[i] == -1)
            continue;
        u->input[i] = n;
        inputs[n++] = (sw_array){t->kind == 'i'   ? SW_I32
                                 : t->kind == 'u' ? SW_U8
                                                  : SW_F32,
                                 shape_of(t), bytes_of(t, room[i])};
    }
    u->dy_input = n;
    if (row->n_grads > 0)
        inputs[n++] =
            (sw_array){SW_F32, shape_of(&row->dy), floats_of(&row->dy, room[SPECIAL_OPERANDS])};
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = step, .user = u, .models = &u->model, .n_models = 1,
                .inputs = inputs, .n_inputs = n, .mode = fixed ? SW_EVAL : SW_TRAIN,
                .immediate = way->immediate);
    SW_TRY(sw_run(exec, &args));
    SW_TRY(name_ops(exec, &args, way));
    return read_answers(exec, u, ops[op].result, got);
}

/* ---- comparing --------------------------------------------------------------------------- */

static bool is_near(float got, float want, double error)
{
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    if (got == want || (fabsf(want) < FLT_MIN && got == 0.0f))
        return true;
    return isfinite(got) && fabs((double)got - (double)want) <= error;
}

/* The first place where they differ; -1: none. */
static int first_other(const special_tensor *want, const float *got)
{
    double largest = 0.0;
    if (!want->looked_at)
        return -1;
    for (int i = 0; i < want->n; i++)
        if (isfinite(want->v[i]) && fabs((double)want->v[i]) > largest)
            largest = fabs((double)want->v[i]);
    const double error = 1e-5 * largest + (want->shaped ? 5e-7 : 0.0);
    for (int i = 0; i < count_of(want); i++)
        if (!is_near(got[i], want->v[want->shaped ? i : 0], error))
            return i;
    return -1;
}

typedef struct {
    bool same;
    char where[160];
} verdict;

static verdict compare(const special_row *row, const special_tensor *y,
                       const special_tensor *dx, const answers *got)
{
    verdict v = {.same = true};
    for (int k = -1; k < row->n_grads && v.same; k++) {
        const special_tensor *want = k < 0 ? y : &dx[k];
        const float *have = k < 0 ? got->y : got->dx[k];
        const int i = first_other(want, have);
        v.same = i < 0;
        if (!v.same)
            snprintf(v.where, sizeof v.where, "%s %d: place %d is %.9g, not %.9g",
                     k < 0 ? "result" : "gradient", k < 0 ? 0 : k, i, (double)have[i],
                     (double)want->v[want->shaped ? i : 0]);
    }
    return v;
}

static void text_of(const special_way *way, char *to, size_t bytes)
{
    snprintf(to, bytes, "%s%s%s", way->device != NULL ? way->device : "cpu ",
             way->isa != NULL ? way->isa : "", way->immediate ? ", immediate" : "");
}

static void judge(const special_way *way, const special_row *row, const answers *got,
                  special_count *count)
{
    char name[64];
    text_of(way, name, sizeof name);
    const verdict torch = compare(row, &row->y, row->dx, got);
    if (row->differs) {
        const verdict ours = compare(row, &row->our_y, row->our_dx, got);
        count->stale += torch.same;
        count->wrong += !ours.same;
        SW_CHECK(!torch.same,
                 "%s, line %d, %s, place %d: has a reason, and is as PyTorch has it", name,
                 row->line, row->name, row->place);
        SW_CHECK(ours.same, "%s, line %d, %s, place %d: %s (our own answer)", name, row->line,
                 row->name, row->place, ours.where);
        return;
    }
    count->wrong += !torch.same;
    SW_CHECK(torch.same, "%s, line %d, %s, place %d: %s", name, row->line, row->name,
             row->place, torch.where);
}

/* Run the row on the exec and hold it to the table. A check fails where it is not kept. */
static void special_hold(sw_exec *exec, const special_way *way, const special_row *row,
                         special_count *count)
{
    static answers got;
    use u = {.row = row};
    count->rows++;
    if (op_of(row) < 0)
        return;
    const sw_status status = run(exec, way, &u, &got);
    if (SW_CHECK(status == SW_OK, "line %d, %s, place %d: %s", row->line, row->name, row->place,
                 sw_last_error()))
        judge(way, row, &got, count);
    else
        count->wrong++;
    sw_model_destroy(u.model);
}

typedef struct {
    sw_exec *exec;
    const special_way *way;
    special_count count;
} holding;

static void hold_row(const special_row *row, void *to)
{
    holding *h = to;
    special_hold(h->exec, h->way, row, &h->count);
}

special_count special_run(const special_way *way)
{
    holding h = {.way = way};
    const sw_exec_opts o = SW_OPTS(sw_exec_opts, .device = way->device, .isa = way->isa,
                                   .threads = way->device == NULL ? 2 : 0, .max_programs = 4);
    if (SW_CHECK(sw_exec_create(&h.exec, &o) == SW_OK, "%s", sw_last_error()))
        special_each(hold_row, &h);
    sw_exec_destroy(h.exec);
    return h.count;
}
