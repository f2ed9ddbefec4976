/* Models: names, initialisers, knobs, ownership by one thread, and restoring. */
#include "kernels/rng.h"
#include "tests/runtime/nets.h"
#include "tests/support/heap_sweep.h"
#include <locale.h>
#include <sys/stat.h>

SW_TESTS("models")

static sw_model *new_model(void)
{
    sw_model *m = made_model("m");
    return m;
}

/* ---- names ------------------------------------------------------------------------------- */

/* Names that the library keeps in a model are not taken from its user. */
SW_TEST("any name can be declared")
{
    static const char *const names[] = {
        "knobs", "w", "w.m", "w.v", "w.grad", "optimizer0.powers", "optimizer0.kept"};
    sw_exec *exec = net_exec(NULL);
    sw_model *m = new_model();
    sw_optimizer *o;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)sw_param_new(m, names[i], SW_F32, SW_SHAPE(2), "ones");
    char longest[96];
    memset(longest, 'x', 95);
    longest[95] = '\0';
    (void)sw_param_new(m, longest, SW_F32, SW_SHAPE(2), "ones");
    const sw_knob user = sw_knob_new(m, "optimizer0.lr0", 3.0f);
    OK(sw_optimizer_create(&o, m,
                           &SW_OPTS(sw_optimizer_opts, .kind = "adam", .keep_gradients = 1)));
    OK(sw_model_ready(m, exec, 1));
    CU_ASSERT_EQUAL(sw_knob_get(user), 3.0f);
    CU_ASSERT_EQUAL(sw_knob_get(sw_optimizer_lr(o, 0)), 0.001f);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        float x[2] = {0.0f, 0.0f};
        OK(sw_param_read(sw_param_find(m, names[i]), x, sizeof x)); /* the user's */
        CU_ASSERT_EQUAL(x[0], 1.0f);
    }
}

SW_TEST("what the library keeps cannot be reached by name or number")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, &SW_OPTS(sw_optimizer_opts, .kind = "adam", .keep_gradients = 1));
    OK(sw_model_ready(n->model, exec, 1));
    static const char *const names[] = {"knobs", "f1.bias.m", "f1.bias.grad",
                                        "optimizer0.powers"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CU_ASSERT_EQUAL(sw_param_find(n->model, names[i]).index, 0);
    float x = 0.0f;
    for (uint32_t i = 1; i < n->model->n_entries; i++)
        if (n->model->entries[i].role == SWI_ROLE_KNOB ||
            n->model->entries[i].role == SWI_ROLE_OPTIMIZER_STATE)
            REFUSED(sw_param_write((sw_param){n->model, i}, &x, sizeof x), SW_INVALID,
                    "must be one of");
}

static void step_that_uses(sw_ctx *c, void *user)
{
    (void)sw_use(c, *(const sw_param *)user);
}

SW_TEST("step functions cannot use it either")
{
    sw_exec *exec = net_exec(NULL);
    net *n = net_new(false, NULL);
    OK(sw_model_ready(n->model, exec, 1));
    sw_param inside = {n->model, n->model->knob_entry};
    const sw_run_args args = SW_OPTS(sw_run_args, .fn = step_that_uses, .user = &inside,
                                     .models = &n->model, .n_models = 1);
    REFUSED(sw_run(exec, &args), SW_INVALID, "must be one of");
    inside = sw_param_find(n->model, "f1.weight");
    OK(sw_run(exec, &args));
}

SW_TEST("states are found by name too")
{
    sw_model *m = new_model();
    const sw_param s = sw_state_new(m, "h", SW_F32, SW_SHAPE(2));
    const sw_param b = sw_buffer_new(m, "b", SW_F32, SW_SHAPE(2), "ones");
    CU_ASSERT_EQUAL(sw_param_find(m, "h").index, s.index);
    CU_ASSERT_EQUAL(sw_param_find(m, "b").index, b.index);
    CU_ASSERT_EQUAL(sw_param_find(m, NULL).index, 0);
    CU_ASSERT_EQUAL(sw_param_count(m), 1);
}

SW_TEST("knob names are unique and fit")
{
    char too_long[64];
    memset(too_long, 'k', 48);
    too_long[48] = '\0';
    const struct {
        const char *name, *part;
    } bad[] = {{"rate", "two knobs are named 'rate'"},
               {"", "1 to 47 bytes"},
               {NULL, "1 to 47 bytes"},
               {too_long, "1 to 47 bytes"}};
    sw_exec *exec = net_exec(NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sw_model *m = new_model();
        const sw_knob rate = sw_knob_new(m, "rate", 0.5f);
        too_long[47] = '\0';
        const sw_knob longest = sw_knob_new(m, too_long, 0.25f);
        too_long[47] = 'k';
        CU_ASSERT_EQUAL(sw_knob_find(m, "rate").index, rate.index);
        CU_ASSERT_EQUAL(sw_knob_get(longest), 0.25f);
        CU_ASSERT_EQUAL(sw_knob_find(m, "none").index, UINT32_MAX);
        CU_ASSERT_EQUAL(sw_knob_new(m, bad[i].name, 1.0f).index, UINT32_MAX);
        REFUSED(sw_model_ready(m, exec, 1), SW_INVALID, bad[i].part);
    }
}

/* ---- initialisers ------------------------------------------------------------------------ */

SW_TEST("initialisers that do not fit are refused")
{
    /* 77 bytes of a number that ends in e-70: cut, it would be another number. */
    static const char text[] =
        "constant:1000000000000000000000000000000000000000000000000000000000000000e-63";
    sw_exec *exec = net_exec(NULL);
    sw_model *m = new_model();
    (void)sw_param_new(m, "w", SW_F32, SW_SHAPE(2), text);
    REFUSED(sw_model_ready(m, exec, 1), SW_INVALID, "71 bytes");
    m = new_model();
    char fits[72];
    snprintf(fits, sizeof fits, "constant:%062d", 7);
    const sw_param w = sw_param_new(m, "w", SW_F32, SW_SHAPE(1), fits);
    OK(sw_model_ready(m, exec, 1));
    float x = 0.0f;
    OK(sw_param_read(w, &x, sizeof x));
    CU_ASSERT_EQUAL(x, 7.0f);
}

static void put_locale_back(void *arg)
{
    setlocale(LC_ALL, "C");
}

/* The program's locale has no part in numbers: the bits are those of the C locale. */
SW_TEST("a decimal comma changes no initialiser")
{
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE",
                                         "ru_RU.UTF-8"};
    sw_exec *exec = net_exec(NULL);
    net *a = net_new(false, NULL);
    OK(sw_model_ready(a->model, exec, 5));
    const char *set = NULL;
    for (size_t i = 0; set == NULL && i < sizeof commas / sizeof *commas; i++)
        set = setlocale(LC_ALL, commas[i]);
    if (set == NULL)
        SW_SKIP("no locale with a decimal comma is installed");
    sw_after(put_locale_back, NULL);
    net *b = net_new(false, NULL); /* layers write their bounds as text */
    OK(sw_model_ready(b->model, exec, 5));
    CU_ASSERT(net_same(a->model, b->model));
    sw_model *m = new_model();
    const sw_param w = sw_param_new(m, "w", SW_F32, SW_SHAPE(1), "constant:0.25");
    OK(sw_model_ready(m, exec, 1));
    float x = 0.0f;
    OK(sw_param_read(w, &x, sizeof x));
    CU_ASSERT_EQUAL(x, 0.25f);
    CU_ASSERT_STRING_EQUAL(setlocale(LC_ALL, NULL), set); /* and it is left alone */
}

/* ---- random streams ---------------------------------------------------------------------- */

static void step_that_draws(sw_ctx *c, void *user)
{
    sw_output(c, "x", sw_randn(c, user, SW_SHAPE(4)));
}

/* Names that were cut would share their numbers. */
SW_TEST("stream names that do not fit are refused")
{
    static char name[300];
    sw_exec *exec = net_exec(NULL);
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = step_that_draws, .user = name, .variant = 1);
    sw_run_args longer = args;
    longer.variant = 2;
    memset(name, 'n', 254);
    OK(sw_run(exec, &args));
    name[254] = 'n';
    REFUSED(sw_run(exec, &longer), SW_INVALID, "255 bytes");
}

/* ---- one thread at a time ---------------------------------------------------------------- */

SW_TEST("a model in use is left alone")
{
    sw_exec *exec = net_exec(NULL);
    const sw_optimizer_opts keep =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .keep_gradients = 1);
    net *a = net_new(false, &keep), *b = net_new(false, &keep);
    OK(sw_model_ready(a->model, exec, 1));
    OK(sw_model_ready(b->model, exec, 2));
    float x[24];
    size_t bytes = 0;
    const void *before = net_copy_bytes(a->model), *of_b = net_copy_bytes(b->model);
    __atomic_store_n(&a->model->busy, 1,
                     __ATOMIC_RELEASE); /* as a run of another thread does */
    REFUSED(sw_model_ready(a->model, exec, 3), SW_BUSY, "in use");
    REFUSED(sw_model_copy(a->model, b->model), SW_BUSY, "in use");
    REFUSED(sw_model_copy(b->model, a->model), SW_BUSY, "in use");
    REFUSED(sw_model_copy(a->model, a->model), SW_BUSY, "in use");
    REFUSED(sw_param_read(a->f1.bias, x, sizeof x), SW_BUSY, "in use");
    memset(x, 0, sizeof x);
    REFUSED(sw_param_write(a->f1.bias, x, sizeof x), SW_BUSY, "in use");
    REFUSED(sw_param_gradient(a->f1.bias, x, sizeof x), SW_BUSY, "in use");
    REFUSED(sw_model_save(a->model, sw_temp_path("busy")), SW_BUSY, "in use");
    REFUSED(sw_model_load(a->model, sw_temp_path("busy")), SW_BUSY, "in use");
    REFUSED(sw_model_bytes(a->model, &bytes), SW_BUSY, "in use");
    CU_ASSERT(net_same_bytes(a->model, before) && net_same_bytes(b->model, of_b));
    __atomic_store_n(&a->model->busy, 0, __ATOMIC_RELEASE);

    /* Each gives back what it took, also when it refuses. */
    REFUSED(sw_param_write(a->f1.bias, x, 3), SW_INVALID, "bytes");
    OK(sw_param_write(a->f1.bias, x, sizeof x));
    OK(sw_param_read(a->f1.bias, x, sizeof x));
    OK(sw_param_gradient(a->f1.bias, x, sizeof x));
    OK(sw_model_copy(a->model, a->model));
    OK(sw_model_copy(b->model, a->model));
    OK(sw_model_save(a->model, sw_temp_path("busy")));
    OK(sw_model_load(a->model, sw_temp_path("busy")));
    OK(sw_model_bytes(a->model, &bytes));
    OK(sw_model_ready(a->model, exec, 3));
    CU_ASSERT_EQUAL(a->model->busy, 0);
    CU_ASSERT_EQUAL(b->model->busy, 0);
}

/* ---- copies and files -------------------------------------------------------------------- */

/* No knobs, no optimizer: there is nothing to copy but the parameter. */
SW_TEST("a model without knobs is copied")
{
    sw_exec *exec = net_exec(NULL);
    sw_model *m[2];
    for (int i = 0; i < 2; i++) {
        m[i] = new_model();
        (void)sw_param_new(m[i], "w", SW_F32, SW_SHAPE(3), "normal:1");
        OK(sw_model_ready(m[i], exec, (uint64_t)i));
    }
    CU_ASSERT(!net_same(m[0], m[1]));
    OK(sw_model_copy(m[0], m[1]));
    CU_ASSERT(net_same(m[0], m[1]));
}

/* A damaged model is whole again after a load: what the file does not hold is as it was when
 * the model was made ready. An undamaged model keeps it. */
SW_TEST("loading restores a damaged model")
{
    sw_exec *exec = net_exec(NULL);
    sw_model *m[2];
    sw_optimizer *o;
    for (int i = 0; i < 2; i++) {
        m[i] = new_model();
        (void)sw_param_new(m[i], "w", SW_F32, SW_SHAPE(5), "normal:1");
        (void)sw_buffer_new(m[i], "b", SW_F32, SW_SHAPE(3), "normal:1");
        (void)sw_state_new(m[i], "s", SW_I32, SW_SHAPE(7));
        (void)sw_knob_new(m[i], "k", 0.5f);
        OK(sw_optimizer_create(
            &o, m[i], &SW_OPTS(sw_optimizer_opts, .kind = "adam", .keep_gradients = 1)));
        OK(sw_model_ready(m[i], exec, 1));
    }
    const char *path = sw_temp_path("restored");
    OK(sw_model_save(m[0], path));
    sw_model *d = m[1];
    const size_t knobs = d->entries[d->knob_entry].offset;
    for (int damaged = 0; damaged < 2; damaged++) {
        memset(d->base, 0x41, knobs); /* all but the knobs, which no run writes */
        d->damaged = damaged != 0;
        OK(sw_model_load(d, path));
        CU_ASSERT(!d->damaged);
        for (uint32_t i = 1; i < d->n_entries; i++) {
            const swi_entry *e = &d->entries[i];
            unsigned char as_left[64];
            memset(as_left, 0x41, sizeof as_left);
            const bool held = e->role == SWI_ROLE_PARAMETER || e->role == SWI_ROLE_BUFFER ||
                              e->role == SWI_ROLE_KNOB;
            const void *wanted =
                damaged || held ? (const void *)(m[0]->base + e->offset) : as_left;
            CU_ASSERT_FATAL(e->bytes <= sizeof as_left);
            SW_CHECK(memcmp(d->base + e->offset, wanted, e->bytes) == 0, "damaged %d: %s",
                     damaged, e->name);
        }
    }
    d->damaged = true; /* a refused load restores nothing */
    REFUSED(sw_model_load(d, sw_temp_path("missing")), SW_IO, "missing");
    CU_ASSERT(d->damaged);
}

SW_TEST("saving over a file keeps its mode")
{
    sw_exec *exec = net_exec(NULL);
    sw_model *m = new_model();
    (void)sw_param_new(m, "w", SW_F32, SW_SHAPE(3), "normal:1");
    OK(sw_model_ready(m, exec, 1));
    const char *path = sw_temp_path("mode");
    static const mode_t modes[] = {0600, 0640, 0666, 0755};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct stat st;
        OK(sw_model_save(m, path));
        CU_ASSERT_EQUAL_FATAL(chmod(path, modes[i]), 0);
        OK(sw_model_save(m, path));
        CU_ASSERT_EQUAL_FATAL(stat(path, &st), 0);
        SW_CHECK((st.st_mode & 07777) == modes[i], "%o, not %o", (unsigned)st.st_mode & 07777u,
                 (unsigned)modes[i]);
    }
}

/* ---- many entries ------------------------------------------------------------------------ */

enum { MANY = 300 }; /* names of 64 and more are found by a table */
static sw_exec *shared_exec;

static sw_status declare_many(void *arg)
{
    sw_model *m;
    char name[32];
    SW_TRY(sw_model_create(&m, "many"));
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "w%d", i);
        (void)sw_param_new(m, name, SW_F32, SW_SHAPE(2), "ones");
    }
    const sw_status status = sw_model_ready(m, shared_exec, 1);
    sw_model_destroy(m);
    return status;
}

SW_TEST("many names are found")
{
    sw_model *m = new_model();
    char name[32];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "w%d", i);
        sw_param p;
        if (i % 3 == 0)
            p = sw_state_new(m, name, SW_F32, SW_SHAPE(1));
        else
            p = sw_param_new(m, name, SW_F32, SW_SHAPE(2), "ones");
        CU_ASSERT(sw_param_find(m, name).index == p.index && p.index != 0);
        CU_ASSERT_EQUAL(sw_param_find(m, "w").index, 0);
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "w%d", i);
        CU_ASSERT_STRING_EQUAL(sw_param_name(sw_param_find(m, name)), name);
    }
    sw_exec *exec = net_exec(NULL);
    (void)sw_param_new(m, "w17", SW_F32, SW_SHAPE(2), "ones");
    REFUSED(sw_model_ready(m, exec, 1), SW_INVALID, "two entries are named 'w17'");
    shared_exec = exec;
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, declare_many, NULL) >= 10);
}
