/* Opening the CUDA module and its cards: what is refused and in which words, what is counted,
 * and what is kept of a fault. Each opening is in a process of its own: a module stays open. */
#include "runtime/device/device.h"
#include "tests/cuda/fake_card.h"
#include "tests/support/files.h"
#include "tests/support/suite.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

SW_TESTS("device")

/* ---- the module as nvcc made it ---------------------------------------------------------- */

/* The CUDA module as nvcc built it, read without a device: what ptxas says of registers and
 * stacks, the wide accesses in the PTX, what the file exports and needs. */

#define FOLDER SW_BUILD_ROOT "/kernels/cuda/"
static const char *const units[] = {
#define X(unit) #unit,
    SW_CUDA_UNITS(X)
#undef X
};
#define UNITS (sizeof units / sizeof *units)

/* The kernels that most bytes go through may have these registers, so that 2048 threads, or
 * 1536, live on a multiprocessor; tiles of products what two blocks, or three, leave each
 * other; others 64. */
static const struct {
    const char *name;
    int registers;
} hot[] = {
#define SW_HOT(name, registers) {name, registers},
#include "tests/cuda/hot.def"
#undef SW_HOT
};

static char *read_file(const char *name)
{
    const char *path = sw_textf("%s%s", FOLDER, name);
    return sw_file_text(path, NULL);
}

static bool built(void)
{
    char *text = read_file("link.log");
    free(text);
    return text != NULL;
}

static bool met[sizeof hot / sizeof *hot]; /* some kernel has this name */

static int allowed(const char *kernel)
{
    for (size_t i = 0; i < sizeof hot / sizeof *hot; i++)
        if (strstr(kernel, hot[i].name) != NULL) {
            met[i] = true;
            return hot[i].registers;
        }
    return 64;
}

/* One kernel for one card: the lines after its name. */
static void check_kernel(const char *at, uint32_t *n, uint32_t *n_hot)
{
    int stack, stores, loads, registers;
    const char *quote = strchr(at, '\''), *end = strchr(quote + 1, '\'');
    const char *kernel = sw_textf("%.*s", (int)(end - quote - 1), quote + 1);
    const char *frame = strstr(at, "bytes stack frame"), *used = strstr(at, "Used ");
    if (!SW_CHECK(frame != NULL && used != NULL, "%s: no figures", kernel))
        return;
    while (frame[-1] != '\n' && frame[-1] != ':')
        frame--;
    const bool good =
        sscanf(frame, " %d bytes stack frame, %d bytes spill stores, %d bytes spill loads",
               &stack, &stores, &loads) == 3 &&
        sscanf(used, "Used %d registers", &registers) == 1;
    if (!SW_CHECK(good, "%s: %.80s", kernel, frame))
        return;
    SW_CHECK(stack == 0 && stores == 0 && loads == 0, "%s: stack %d, spills %d and %d", kernel,
             stack, stores, loads);
    SW_CHECK(registers <= allowed(kernel), "%s: %d registers of %d", kernel, registers,
             allowed(kernel));
    ++*n;
    *n_hot += allowed(kernel) != 64;
}

SW_TEST("registers and stacks are within bounds")
{
    uint32_t n = 0, n_hot = 0;
    if (!built())
        SW_SKIP("built without nvcc");
    for (size_t i = 0; i < UNITS; i++) {
        const char *name = sw_textf("%s.ptxas", units[i]);
        char *text = read_file(name);
        if (!SW_CHECK(text != NULL, "%s is not built", name))
            continue;
        CU_ASSERT_PTR_NULL(strstr(text, "warning"));
        for (const char *at = text; (at = strstr(at, "Compiling entry function")) != NULL; at++)
            check_kernel(at, &n, &n_hot);
        free(text);
    }
    sw_note("%u kernels, %u of them hot", n, n_hot);
    CU_ASSERT(n > 100 && n_hot >= 12);
    for (size_t i = 0; i < sizeof hot / sizeof *hot; i++)
        SW_CHECK(met[i], "hot.def: no kernel is called %s", hot[i].name);
}

/* How often a word stands in [from, to). */
static int occurs(const char *word, const char *from, const char *to)
{
    int n = 0;
    while ((from = strstr(from, word)) != NULL && from++ < to)
        n++;
    return n;
}

/* Accesses of four floats in the body of the kernel with `what` in its name. */
static void wide(const char *ptx, const char *what, int loads, int stores)
{
    const char *at = ptx;
    while ((at = strstr(at, ".entry ")) != NULL) {
        const char *paren = strchr(at, '(');
        const char *name = strstr(at, what);
        if (name != NULL && name < paren)
            break;
        at++;
    }
    if (!SW_CHECK(at != NULL, "no kernel %s", what))
        return;
    const char *end = strstr(at, "\n}");
    const int loaded = occurs("ld.global.v4.", at, end),
              stored = occurs("st.global.v4.", at, end);
    SW_CHECK(loaded >= loads && stored >= stores,
             "%s: %d wide loads of %d, %d wide stores of %d", what, loaded, loads, stored,
             stores);
}

SW_TEST("wide accesses are there")
{
    static const struct {
        const char *file, *kernel;
        int loads, stores;
    } cases[] = {
        {"unary.ptx", "elementwise_kernelILi1E11swish_value", 1, 1},
        {"unary.ptx", "elementwise_kernelILi2E11swish_slope", 2, 1},
        {"unary.ptx", "coded_kernelI9relu_bits", 2, 2},
        {"arith.ptx", "elementwise_kernelILi2E12without_mask", 2, 1},
        {"arith.ptx", "glu_kernelILi4EE", 3, 2},
        {"rows.ptx", "softmax_kernelI12sw_cuda_rowsILi256ELi4EEE", 3, 1},
        {"rows.ptx", "norm_kernelI12sw_cuda_rowsILi32ELi4EEE", 3, 1},
        {"losses.ptx", "cross_entropy_kernelI12sw_cuda_rowsILi256ELi4EEE", 5, 0},
        {"losses.ptx", "cross_entropy_dx_kernelI12sw_cuda_rowsILi256ELi4EEE", 3, 3},
        {"arith.ptx", "strided_kernelILi4ELi1E6of_oneI6itself", 1, 1},
        {"arith.ptx", "strided_kernelILi4ELi2E6add_of", 2, 1},
        {"optim.ptx", "update_kernel", 4, 3},
        {"gemm.ptx", "product_kernelI4tileILi128ELi8E", 4, 16},
        {"gemm.ptx", "parts_kernelILi4EE", 3, 1},
        {"attention.ptx", "forward_kernelILb1ELb0EEv13attention_job", 8, 0},
        {"attention.ptx", "backward_kernelILi4ELb1ELb0EEv13attention_job", 8, 2},
        {"embedding.ptx", "take_kernelI12sw_cuda_rowsILi32ELi4EEE", 1, 1},
        {"embedding.ptx", "add_rows_kernelILi4EE", 9, 1},
        {"pool.ptx", "scale_kernelI12sw_cuda_rowsILi32ELi4EEE", 2, 1},
        {"random.ptx", "draw_kernelI7dropped", 2, 1},
        {"optim.ptx", "planes_elementwiseILi4E11step_of_all", 3, 1},
        {"batch_norm.ptx", "planes_sumI12sw_cuda_rowsILi256ELi4EE11batch_stats", 1, 0},
        {"batch_norm.ptx", "planes_sumI12sw_cuda_rowsILi256ELi4EE12batch_slopes", 2, 0},
        {"batch_norm.ptx", "planes_elementwiseILi4E16sw_cuda_planes_y", 2, 1},
        {"batch_norm.ptx", "planes_elementwiseILi4E17sw_cuda_planes_dx", 4, 1},
    };
    if (!built())
        SW_SKIP("built without nvcc");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = read_file(cases[i].file);
        if (!SW_CHECK(text != NULL, "%s is not built", cases[i].file))
            continue;
        wide(text, cases[i].kernel, cases[i].loads, cases[i].stores);
        free(text);
    }
}

/* Innermost loops may have no scalar store beside loads of four numbers, and no loop a division
 * of 64 bits, but these kernels: those whose bytes go one by one for a reason, and those that
 * divide for more than an element. Each may have so many, and no more. */
static const struct {
    const char *name, *why;
    int stores, divisions;
} spared[] = {
    {"draw_kernel", "the last numbers, of both types, are one by one", 8, 0},
    {"drop_by_kernel", "as draw_kernel", 8, 0},
    {"planes_elementwiseILi1E", "what is wide is the table of planes", 4, 0},
    {"augment_kernel", "one for a piece of an image", 0, 1},
    {"conv_kernel", "the taps of a block, once", 0, 2},
    {"channel_sums", "a plane has one", 0, 2},
    {"row_sums_kernel", "a warp has a row", 0, 2},
    {"update8_kernel", "one for 256 numbers", 0, 1},
    {"es_low_rank_kernel", "of a tile", 0, 2},
    {"es_element_kernel", "where a number of another kind of noise is", 0, 3},
    {"move_low_rank_kernel", "of a tile", 0, 1},
    {"move_element_kernel", "as es_element_kernel", 0, 1},
    {"dense_low_rank_kernel", "of a block's piece", 0, 2},
    {"dense_element_kernel", "of a block's piece, and as es_element_kernel", 0, 6},
    {"images_low_rank_kernel", "of a block's piece", 0, 3},
    {"images_element_kernel", "as dense_element_kernel", 0, 4},
    {"lookup_kernel", "as dense_element_kernel", 0, 4},
    {"affine_kernel", "of a block's piece", 0, 5},
};

/* A loop is from a label to a branch back to it. */
typedef struct {
    const char *from, *to;
} loop;

static bool holds(const loop *a, const loop *b)
{
    return a->from <= b->from && b->to <= a->to;
}

/* Those of a kernel; a branch back to the end is none. */
static int find_loops(loop to[400], const char *body, const char *end)
{
    int n = 0;
    const char *label;
    for (const char *at = body; (at = strstr(at, "bra")) != NULL && at < end;) {
        at += strcspn(at, "$;");
        const char *name = sw_textf("\n%.*s:", (int)strcspn(at, ";"), at);
        if (*at != '$' || (label = strstr(body, name)) == NULL || label > at ||
            strncmp(label + strlen(name), "\n\tret;", 6) == 0)
            continue;
        CU_ASSERT_FATAL(n < 400);
        to[n++] = (loop){label, at};
    }
    return n;
}

/* Divisions of 64 bits in loops. */
static int divisions_in(const loop *l, int n, const char *body, const char *end)
{
    static const char *const words[] = {"div.s64", "div.u64", "rem.s64", "rem.u64"};
    int found = 0;
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        for (const char *at = body; (at = strstr(at, words[w])) != NULL && at < end; at++) {
            bool inside = false;
            for (int i = 0; i < n; i++)
                inside |= holds(&l[i], &(loop){at, at});
            found += inside;
        }
    return found;
}

static void check_loops(const char *kernel, const char *body, const char *end, uint32_t *n_wide)
{
    loop l[400];
    const int n = find_loops(l, body, end), divisions = divisions_in(l, n, body, end);
    int most = 0, most_divisions = 0;
    for (size_t i = 0; i < sizeof spared / sizeof *spared; i++)
        if (strstr(kernel, spared[i].name) != NULL) {
            most = spared[i].stores;
            most_divisions = spared[i].divisions;
        }
    SW_CHECK(divisions <= most_divisions, "%s: %d divisions of 64 bits in loops, %d allowed",
             kernel, divisions, most_divisions);
    for (int i = 0; i < n; i++) {
        bool inner = true;
        for (int k = 0; k < n; k++)
            inner &= l[k].from <= l[i].from || !holds(&l[i], &l[k]);
        const int loads = occurs("ld.global.v4.", l[i].from, l[i].to) +
                          occurs("ld.global.v2.u32", l[i].from, l[i].to);
        const int stores = occurs("st.global.", l[i].from, l[i].to) -
                           occurs("st.global.v", l[i].from, l[i].to);
        if (!inner || loads == 0)
            continue;
        ++*n_wide;
        SW_CHECK(stores <= most, "%s: a loop with %d wide loads has %d scalar stores", kernel,
                 loads, stores);
    }
}

SW_TEST("loops that load four numbers store four, and none divides in 64 bits")
{
    uint32_t n = 0;
    if (!built())
        SW_SKIP("built without nvcc");
    for (size_t i = 0; i < UNITS; i++) {
        char *text = read_file(sw_textf("%s.ptx", units[i]));
        if (!SW_CHECK(text != NULL, "%s.ptx is not built", units[i]))
            continue;
        /* An address of shared memory that stores to global memory could get. */
        SW_CHECK(strstr(text, "cvta.shared") == NULL, "%s: cvta.shared", units[i]);
        for (const char *at = text; (at = strstr(at, ".entry ")) != NULL; at++) {
            const char *body = strchr(at, '{'),
                       *end = body != NULL ? strstr(body, "\n}") : NULL;
            if (SW_CHECK(end != NULL, "%s: %.40s has no end", units[i], at))
                check_loops(sw_textf("%.*s", (int)strcspn(at + 7, "("), at + 7), body, end, &n);
        }
        free(text);
    }
    sw_note("%u loops with wide loads", n);
    CU_ASSERT(n >= 100);
}

/* No C++ runtime, no driver and no CUDA library by name, other than cuBLASLt; one symbol. */
SW_TEST("the module needs nothing and exports one name")
{
    char line[512];
    int names = 0, needed = 0;
    if (!built())
        SW_SKIP("built without nvcc");
    FILE *out = popen("nm -D --defined-only " FOLDER "libstepwell-cuda.so", "r");
    while (out != NULL && fgets(line, sizeof line, out) != NULL) {
        names++;
        SW_CHECK(strstr(line, " sw_cuda_module_open") != NULL, "%s", line);
    }
    pclose(out);
    out = popen("readelf -d " FOLDER "libstepwell-cuda.so", "r");
    while (out != NULL && fgets(line, sizeof line, out) != NULL) {
        if (strstr(line, "(NEEDED)") == NULL)
            continue;
        needed++;
        SW_CHECK(strstr(line, "stdc++") == NULL && strstr(line, "cuda") == NULL, "%s", line);
    }
    pclose(out);
    CU_ASSERT_EQUAL(names, 1);
    CU_ASSERT(needed > 0);
}

/* ---- opening modules --------------------------------------------------------------------- */

#define VARIABLE "STEPWELL_CUDA_MODULE"
#define REAL SW_BUILD_ROOT "/kernels/cuda/libstepwell-cuda.so"
#define MODULE(name) SW_BUILD_ROOT "/tests/cuda/" name ".so"

typedef struct {
    sw_status status;
    char message[600];
} opened;

/* Two cards that are not there, in the process that calls it; it names their module. */
static const sw_fake_api *fake_cards(bool cannot_map)
{
    return sw_fake_card_new(&(sw_fake_card){.cards = 2, .cannot_map = cannot_map}, 0);
}

#define FAKE "fake" /* stands for fake_cards */

/* Open a card of the module, NULL: wherever one is found, in a child. */
static opened open_it(const char *module, const char *name)
{
    opened o = {SW_STOPPED, "the child did not answer"};
    int ends[2];
    if (pipe(ends) != 0)
        return o;
    fflush(stdout);
    CU_ASSERT_PTR_NOT_NULL(sw_op_at(0)); /* links library.c, which registers the ops */
    const pid_t child = fork();
    if (child == 0) {
        swi_device *device = NULL;
        opened mine = {SW_OK, ""};
        if (module != NULL && strcmp(module, FAKE) == 0)
            fake_cards(false);
        else if (module != NULL)
            setenv(VARIABLE, module, 1);
        else
            unsetenv(VARIABLE);
        mine.status = swi_device_open(&device, name);
        snprintf(mine.message, sizeof mine.message, "%s", sw_last_error());
        swi_device_close(device);
        _exit(write(ends[1], &mine, sizeof mine) == (ssize_t)sizeof mine ? 0 : 1);
    }
    close(ends[1]);
    if (read(ends[0], &o, sizeof o) != (ssize_t)sizeof o)
        snprintf(o.message, sizeof o.message, "the child died");
    close(ends[0]);
    waitpid(child, NULL, 0);
    return o;
}

static void refused(const char *module, const char *name, sw_status status, const char *what)
{
    const opened o = open_it(module, name);
    SW_CHECK(o.status == status && strstr(o.message, what) != NULL &&
                 strchr(o.message, '\n') == NULL,
             "%s, %s: %s: %s", module != NULL ? module : "none", name, sw_status_name(o.status),
             o.message);
}

static bool copy_file(const char *from, const char *to, long bytes)
{
    size_t n;
    char *text = sw_file_text(from, &n);
    if (text == NULL)
        return false;
    sw_file_put(to, text, (size_t)bytes < n ? (size_t)bytes : n);
    free(text);
    return true;
}

static long bytes_of(const char *path)
{
    return (long)sw_file_bytes(path);
}

SW_TEST("what is no module is refused in one line")
{
    refused("/nowhere/module.so", "cuda", SW_DEVICE, "/nowhere/module.so");
    refused("/tmp", "cuda", SW_DEVICE, "/tmp");
    refused(SW_SOURCE_ROOT "/README.md", "cuda", SW_DEVICE, "is not a shared library");
    refused("/proc/self/exe", "cuda", SW_DEVICE, "could not be opened");
    refused(MODULE("module_foreign"), "cuda", SW_DEVICE, "another library");
    static const char *const none[] = {"/nowhere/module.so", "/tmp",
                                       SW_SOURCE_ROOT "/README.md", "/proc/self/exe",
                                       MODULE("module_foreign")};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        refused(none[i], "cuda", SW_DEVICE, VARIABLE " names it");
    refused(NULL, "cuda", SW_DEVICE, "-Dcuda=enabled");
    refused(NULL, "cuda", SW_DEVICE, VARIABLE);
    refused("", "cuda", SW_DEVICE, "no CUDA module");
}

/* Whatever its length: the system would map it all the same, and the process die. */
SW_TEST("a file that is cut off is refused")
{
    const char *whole = bytes_of(REAL) > 0 ? REAL : MODULE("module_refuses");
    const long n = bytes_of(whole);
    const long cuts[] = {0, 1, 63, 64, 1000, n / 4, n / 2, n - 4096, n - 1};
    const char *path = sw_textf("%s", sw_temp_path("cut.so"));
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        CU_ASSERT(copy_file(whole, path, cuts[i]));
        refused(path, "cuda", SW_DEVICE, cuts[i] < 64 ? "not a shared library" : "is cut off");
    }
}

SW_TEST("modules of other builds are refused")
{
    refused(MODULE("module_other_abi"), "cuda", SW_DEVICE, "another version");
    refused(MODULE("module_refuses"), "cuda", SW_DEVICE, "another version");
    refused(MODULE("module_other_entries"), "cuda", SW_DEVICE, "tables of other sizes");
    refused(MODULE("module_other_functions"), "cuda", SW_DEVICE, "tables of other sizes");
    refused(MODULE("module_other_pairs"), "cuda", SW_DEVICE, "tables of other sizes");
    refused(MODULE("module_no_such_op"), "cuda", SW_DEVICE, "no_such_op");
    refused(MODULE("module_no_such_kernel"), "cuda", SW_DEVICE, "tanh, kernel 7");
}

SW_TEST("names of devices are checked")
{
    static const char *const bad[] = {"",       "tpu",     "cuda:",   "cuda:x",      "cuda:1x",
                                      "cuda 1", "cuda:-1", "cuda1.0", "cuda:123456", "CUDA"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(FAKE, bad[i], SW_INVALID, "must be cpu, cuda or cuda:N");
    CU_ASSERT_EQUAL(open_it(FAKE, "cuda:1").status, SW_OK);
    refused(FAKE, "cuda:2", SW_DEVICE, "cuda:2");
}

/* The module as nvcc made it, where there is a driver or none. */
SW_TEST("the real module says what is missing")
{
    if (bytes_of(REAL) == 0)
        SW_SKIP("built without nvcc");
    const opened o = open_it(REAL, "cuda");
    sw_note("%s: %s", sw_status_name(o.status), o.message);
    CU_ASSERT(o.status == SW_OK || o.status == SW_DEVICE);
    CU_ASSERT(o.status == SW_OK || strstr(o.message, "driver") != NULL ||
              strstr(o.message, "cuda:0") != NULL);
}

/* ---- cards ------------------------------------------------------------------------------- */

/* Run body in a child with these cards, and take its asserts over as one. */
static void with_cards(void (*body)(const sw_fake_api *f), bool cannot_map)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const unsigned before = CU_get_number_of_failures();
        body(fake_cards(cannot_map));
        fflush(stdout);
        _exit(CU_get_number_of_failures() == before ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A test in such a child; its body follows. */
#define CARDS_TEST(name, promise, cannot_map)                                                  \
    static void name(const sw_fake_api *f);                                                    \
    SW_TEST(promise)                                                                           \
    {                                                                                          \
        with_cards(name, cannot_map);                                                          \
    }                                                                                          \
    static void name(const sw_fake_api *f)

/* For children: an assert that is fatal would go on with the next test there. */
static swi_device *card(const char *name)
{
    swi_device *device = NULL;
    if (SW_CHECK(swi_device_open(&device, name) == SW_OK, "%s", sw_last_error()))
        return device;
    fflush(stdout);
    _exit(1);
}

/* Each card that is open has a stream of its own. */
static int64_t opens(const sw_fake_api *f)
{
    return (int64_t)f->calls("cudaStreamCreateWithFlags");
}

static int64_t closes(const sw_fake_api *f)
{
    return (int64_t)f->calls("cudaStreamDestroy");
}

CARDS_TEST(count_cards, "cards are opened once and closed after the last user", false)
{
    swi_device *a = card("cuda"), *b = NULL, *c = NULL;
    CU_ASSERT_EQUAL(swi_device_open(&b, "cuda:0"), SW_OK);
    CU_ASSERT_PTR_EQUAL(a, b);
    CU_ASSERT_EQUAL(swi_device_open(&c, "cuda:1"), SW_OK);
    CU_ASSERT_PTR_NOT_EQUAL(a, c);
    CU_ASSERT_STRING_EQUAL(c->info.name, "card that is not there 1");
    CU_ASSERT_EQUAL(opens(f), 2);
    CU_ASSERT_PTR_EQUAL(swi_device_share(a), a);
    swi_device_close(a);
    swi_device_close(b);
    CU_ASSERT_EQUAL(closes(f), 0);
    swi_device_close(a);
    CU_ASSERT_EQUAL(closes(f), 1);
    CU_ASSERT_EQUAL(swi_device_open(&b, "cuda"), SW_OK);
    CU_ASSERT_EQUAL(opens(f), 3);
    swi_device_close(b);
    swi_device_close(c);
    swi_device_close(NULL);
    CU_ASSERT_EQUAL(closes(f), 3);
}

static void *open_and_close(void *failures)
{
    for (int i = 0; i < 200; i++) {
        swi_device *device = NULL;
        if (swi_device_open(&device, i % 2 == 0 ? "cuda" : "cuda:1") != SW_OK)
            __atomic_fetch_add((int *)failures, 1, __ATOMIC_RELAXED);
        swi_device_close(device);
    }
    return NULL;
}

CARDS_TEST(open_from_threads, "cards are counted over threads", false)
{
    pthread_t threads[6];
    int failures = 0;
    swi_device *held = card("cuda");
    for (int i = 0; i < 6; i++)
        pthread_create(&threads[i], NULL, open_and_close, &failures);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    CU_ASSERT_EQUAL(failures, 0);
    CU_ASSERT_EQUAL(opens(f), closes(f) + 1); /* cuda is held */
    swi_device_close(held);
    CU_ASSERT_EQUAL(opens(f), closes(f));
}

CARDS_TEST(look_up_entries, "entries are found by op and kernel", false)
{
    (void)f;
    swi_device *d = card("cuda");
    const sw_cuda_entry *forward = swi_device_entry(SW_OP_tanh, -1);
    CU_ASSERT(forward != NULL && strcmp(forward->op, "tanh") == 0 && forward->which == -1);
    const sw_cuda_entry *grad = swi_device_entry(SW_OP_linear, 1);
    CU_ASSERT(grad != NULL && strcmp(grad->op, "linear") == 0 && grad->which == 1);
    CU_ASSERT_PTR_NULL(swi_device_entry(SW_OP_tanh, 1)); /* it has one gradient */
    CU_ASSERT_PTR_NULL(swi_device_entry(SW_OP_tanh, -2));
    CU_ASSERT_PTR_NULL(swi_device_entry(SW_OP_tanh, SWI_DEVICE_KERNELS));
    CU_ASSERT_PTR_NULL(swi_device_entry(SW_OPS_INSIDE, -1));
    CU_ASSERT_PTR_NULL(swi_device_entry(UINT32_MAX, -1));
    swi_device_close(d);
}

CARDS_TEST(look_up_pairs, "pairs are found by both ops", false)
{
    (void)f;
    swi_device *d = card("cuda");
    const sw_cuda_fusion *fusion = swi_device_fusion(d, SW_OP_linear, SW_OP_relu);
    CU_ASSERT(fusion != NULL && strcmp(fusion->first, "linear") == 0 &&
              strcmp(fusion->then, "relu") == 0);
    CU_ASSERT_PTR_NULL(swi_device_fusion(d, SW_OP_relu, SW_OP_linear));
    CU_ASSERT_PTR_NULL(swi_device_fusion(d, SW_OP_tanh, SW_OP_tanh));
    CU_ASSERT_PTR_NULL(swi_device_fusion(d, SW_OPS_INSIDE, SW_OP_relu));
    CU_ASSERT_PTR_NULL(swi_device_fusion(d, SW_OP_linear, UINT32_MAX));
    swi_device_close(d);
}

CARDS_TEST(copy_bytes, "bytes are copied after what was launched", true)
{
    swi_device *d = card("cuda");
    char back[8] = "";
    void *block = NULL;
    CU_ASSERT_EQUAL(d->memory.alloc(d->memory.context, &block, 8), SW_OK);
    char *there = block;
    const uint64_t syncs = f->calls("cudaDeviceSynchronize");
    CU_ASSERT_EQUAL(swi_device_write(d, there, "12345678", 8), SW_OK);
    CU_ASSERT_EQUAL(swi_device_copy(d, there, there + 4, 2), SW_OK);
    CU_ASSERT_EQUAL(swi_device_zero(d, there + 6, 1), SW_OK);
    CU_ASSERT_EQUAL(swi_device_read(d, back, there, 8), SW_OK);
    CU_ASSERT(memcmp(back, "563456\0008", 8) == 0);
    CU_ASSERT_EQUAL(f->calls("cudaDeviceSynchronize"), syncs + 4); /* before each */
    f->fail("cudaMemcpyAsync", 0, 2);
    CU_ASSERT_EQUAL(swi_device_read(d, back, there, 8), SW_NOMEM);
    CU_ASSERT_EQUAL(swi_device_fault(d), SW_OK); /* is no fault */
    CU_ASSERT_EQUAL(d->memory.copy(d->memory.context, there + 1, there, 1), SW_OK);
    CU_ASSERT_EQUAL(swi_device_read(d, back, there, 8), SW_OK);
    CU_ASSERT_EQUAL(back[1], '5');
    CU_ASSERT_EQUAL(d->memory.granularity, 0); /* it maps nothing */
    d->memory.free(d->memory.context, block);
    swi_device_close(d);
}

CARDS_TEST(fail_once, "the first fault is kept and answers all later calls", false)
{
    swi_device *d = card("cuda"), *other = card("cuda:1");
    char back[8] = "kept";
    void *there = NULL, *block = &back;
    CU_ASSERT_EQUAL(d->memory.alloc(d->memory.context, &there, 8), SW_OK);
    f->fail("cudaMemcpyAsync", 0, 1); /* refused: the card still answers */
    CU_ASSERT_EQUAL(swi_device_read(d, back, there, 8), SW_DEVICE);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "cudaErrorInvalidValue"));
    CU_ASSERT_EQUAL(swi_device_fault(d), SW_OK);
    CU_ASSERT_EQUAL(swi_device_write(d, there, back, 8), SW_OK);
    CU_ASSERT_EQUAL(swi_device_read(d, back, there, 8), SW_OK);
    CU_ASSERT_STRING_EQUAL(back, "kept");
    f->fail("cudaMemcpyAsync", 0, 700);
    CU_ASSERT_EQUAL(swi_device_read(d, back, there, 8), SW_DEVICE);
    const char *before = sw_textf("cuda:0 failed before: %s", sw_last_error());
    CU_ASSERT_PTR_NOT_NULL(strstr(before, "cudaMemcpyAsync"));
    CU_ASSERT_EQUAL(swi_device_read(d, back, there, 8), SW_DEVICE);
    CU_ASSERT_STRING_EQUAL(sw_last_error(), before);
    CU_ASSERT_EQUAL(sw_error_set(SW_DEVICE, __FILE__, __LINE__, "a later one"), SW_DEVICE);
    CU_ASSERT_EQUAL(swi_device_faulted(d, SW_DEVICE), SW_DEVICE);
    CU_ASSERT_EQUAL(swi_device_fault(d), SW_DEVICE);
    CU_ASSERT_STRING_EQUAL(sw_last_error(), before);
    CU_ASSERT_EQUAL(swi_device_write(d, there, back, 8), SW_DEVICE);
    CU_ASSERT_EQUAL(swi_device_copy(d, there, back, 8), SW_DEVICE);
    CU_ASSERT_EQUAL(swi_device_zero(d, there, 8), SW_DEVICE);
    CU_ASSERT_EQUAL(d->memory.alloc(d->memory.context, &block, 8), SW_DEVICE);
    CU_ASSERT_EQUAL(d->memory.reserve(d->memory.context, &block, 8), SW_DEVICE);
    CU_ASSERT_EQUAL(d->memory.map(d->memory.context, block, 0, 8), SW_DEVICE);
    CU_ASSERT_PTR_EQUAL(block, &back);
    CU_ASSERT_STRING_EQUAL(back, "kept");
    CU_ASSERT_EQUAL(swi_device_faulted(other, SW_NOMEM), SW_NOMEM);
    CU_ASSERT_EQUAL(swi_device_fault(other), SW_OK);
    d->memory.free(d->memory.context, there);
    swi_device_close(d);
    swi_device_close(other);
}
