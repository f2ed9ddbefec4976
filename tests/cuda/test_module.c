/* The CUDA module as nvcc built it, read without a device: what ptxas says of registers and
 * stacks, the wide accesses in the PTX, what the file exports and needs. */
#include "tests/support/files.h"
#include "tests/support/suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

SW_TESTS("module")

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
    char path[512];
    snprintf(path, sizeof path, "%s%s", FOLDER, name);
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
    char kernel[512];
    int stack, stores, loads, registers;
    const char *quote = strchr(at, '\''), *end = strchr(quote + 1, '\'');
    snprintf(kernel, sizeof kernel, "%.*s", (int)(end - quote - 1), quote + 1);
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
        char name[64];
        snprintf(name, sizeof name, "%s.ptxas", units[i]);
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

/* Accesses of four floats in the body of the kernel with `what` in its name. */
static void wide(const char *ptx, const char *what, int loads, int stores)
{
    int seen[2] = {0, 0};
    const char *at = ptx, *end;
    while ((at = strstr(at, ".entry ")) != NULL) {
        const char *paren = strchr(at, '(');
        const char *name = strstr(at, what);
        if (name != NULL && name < paren)
            break;
        at++;
    }
    if (!SW_CHECK(at != NULL, "no kernel %s", what))
        return;
    end = strstr(at, "\n}");
    for (const char *p = at; p != NULL && p < end; p = strchr(p + 1, '\n')) {
        const char *next = strchr(p + 1, '\n');
        const char *load = strstr(p, "ld.global.v4."), *store = strstr(p, "st.global.v4.");
        seen[0] += load != NULL && load < next;
        seen[1] += store != NULL && store < next;
    }
    SW_CHECK(seen[0] >= loads && seen[1] >= stores,
             "%s: %d wide loads of %d, %d wide stores of %d", what, seen[0], loads, seen[1],
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
        {"norm.ptx", "norm_kernelI12sw_cuda_rowsILi32ELi4EEE", 3, 1},
        {"losses.ptx", "cross_entropy_dx_kernelI12sw_cuda_rowsILi256ELi4EEE", 1, 1},
        {"optim.ptx", "update_kernel", 4, 3},
        {"gemm.ptx", "product_kernelI4tileILi128ELi8E", 4, 16},
        {"gemm.ptx", "parts_kernelILi4EE", 3, 1},
        {"attention.ptx", "forward_kernelILb1EEv13attention_job", 8, 0},
        {"attention.ptx", "backward_kernelILi4ELb1EEv13attention_job", 8, 2},
        {"embedding.ptx", "take_kernelI12sw_cuda_rowsILi32ELi4EEE", 1, 1},
        {"embedding.ptx", "add_rows_kernelILi4EE", 9, 1},
        {"channel_scale.ptx", "scale_kernelI12sw_cuda_rowsILi32ELi4EEE", 2, 1},
        {"random.ptx", "draw_kernelI7dropped", 2, 1},
        {"adafactor.ptx", "planes_elementwiseILi4E11step_of_all", 3, 1},
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

/* No C++ runtime, no driver and no CUDA library by name, other than cuBLASLt; one
 * symbol. */
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
        needed += strstr(line, "(NEEDED)") != NULL;
        SW_CHECK(strstr(line, "stdc++") == NULL && strstr(line, "cuda") == NULL, "%s", line);
    }
    pclose(out);
    CU_ASSERT_EQUAL(names, 1);
    CU_ASSERT(needed > 0);
}
