/* The program and CUDA where there may be no card: it starts without a trace of CUDA, opens the
 * module when a device is asked for, and says in one line what is missing. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "STEPWELL_CUDA_MODULE"
#define REAL SW_BUILD_ROOT "/kernels/cuda/libstepwell-cuda.so"
#define MODULE(name) VARIABLE "=" SW_BUILD_ROOT "/tests/cuda/" name ".so"

static bool built(void)
{
    size_t n;
    unsigned char *bytes = file_read(REAL, &n);
    free(bytes);
    return bytes != NULL;
}

static bool here(const char *tool)
{
    return sw_shell("command -v %s", tool) == 0;
}

/* ---- without a device -------------------------------------------------------------------- */

static void neither_library_nor_program_names_cuda(void)
{
    static const char *const files[] = {"runtime/libstepwell.so", "tools/stepwell"};
    if (!here("readelf"))
        SW_SKIP("readelf is not installed");
    for (int i = 0; i < 2; i++) {
        const char *root = sw_build_root(), *file = files[i];
        CU_ASSERT_EQUAL(sw_shell("readelf -d '%s/%s' | grep -q NEEDED", root, file), 0);
        SW_CHECK(sw_shell("readelf -d '%s/%s' | grep -iE 'cuda|cublas|cudnn|nvidia'", root,
                          file) == 1,
                 "%s", file);
        SW_CHECK(
            sw_shell("readelf -Ws --dyn-syms '%s/%s' | grep -E ' UND +(cu[A-Z]|cuda[A-Z])'",
                     root, file) == 1,
            "%s", file);
    }
}

/* The loader tells which files it opens. */
static int opens_the_module(const char *words)
{
    return sw_shell("LD_DEBUG=files '%s' %s 2>&1 | grep -q libstepwell-cuda", program_path(),
                    words);
}

static void the_module_is_opened_only_for_a_device(void)
{
    if (sw_shell("LD_DEBUG=files '%s' --version 2>&1 | grep -q libc", program_path()) != 0)
        SW_SKIP("the loader of this system does not tell what it opens");
    CU_ASSERT_EQUAL(opens_the_module("--version"), 1);
    CU_ASSERT_EQUAL(opens_the_module("train --help"), 1);
    CU_ASSERT_EQUAL(opens_the_module("train --synthetic-n 8 --steps 1 --quiet"), 1);
    if (!built())
        SW_SKIP("built without nvcc");
    CU_ASSERT_EQUAL(opens_the_module("train --device cuda --synthetic-n 8 --steps 1 --quiet"),
                    0);
}

/* ---- what is missing --------------------------------------------------------------------- */

static const char *const commands[] = {
    "train --device cuda --synthetic-n 8 --steps 1",
    "train --device cuda:0 --immediate --synthetic-n 8 --steps 1",
    "plan --device cuda --synthetic-n 8 --batch 8",
};
#define COMMANDS ((int)(sizeof commands / sizeof *commands))

static void all_refused(const char *module, const char *what)
{
    static sw_outcome outcome;
    for (int i = 0; i < COMMANDS; i++) {
        program_run(&outcome, commands[i], module);
        SW_CHECK(program_failed_cleanly(&outcome, 5) && strstr(outcome.err, what) != NULL,
                 "%s, %s: status %d, signal %d: %s%s", commands[i], module, outcome.status,
                 outcome.signal, outcome.out, outcome.err);
    }
}

static void a_module_that_is_none_is_one_line_and_status_5(void)
{
    char cut[1100];
    size_t n;
    all_refused(VARIABLE "=/nowhere/at/all.so", "/nowhere/at/all.so");
    all_refused(VARIABLE "=" SW_SOURCE_ROOT "/LICENSE", "not a shared library");
    all_refused(MODULE("module_foreign"), "another library");
    all_refused(MODULE("module_other_abi"), "another version");
    unsigned char *bytes = file_read(SW_BUILD_ROOT "/tests/cuda/module_plain.so", &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    CU_ASSERT(file_write(sw_temp_path("cut.so"), bytes, n / 2));
    free(bytes);
    snprintf(cut, sizeof cut, VARIABLE "=%s", sw_temp_path("cut.so"));
    all_refused(cut, "cut off");
}

/* Status 5 where there is no driver or no card; on a machine with one it works. */
static void without_a_driver_it_is_one_line_and_status_5(void)
{
    static sw_outcome outcome;
    program_run(&outcome, commands[0], VARIABLE "=");
    sw_note("status %d: %.*s", outcome.status, (int)strcspn(outcome.err, "\n"), outcome.err);
    if (built() && outcome.status == 0)
        SW_SKIP("there is a card");
    all_refused(VARIABLE "=", built() ? "driver" : "no CUDA module");
}

static void devices_that_are_none_are_wrong_usage(void)
{
    static sw_outcome outcome;
    static const char *const names[] = {"cuda:", "cuda:x", "cuda:12345", "cuda0", "gpu"};
    char words[100];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(words, sizeof words, "train --device %s --steps 1", names[i]);
        program_run(&outcome, words, NULL);
        SW_CHECK(program_failed_cleanly(&outcome, 2) && strstr(outcome.err, names[i]) != NULL,
                 "%s: status %d: %s", names[i], outcome.status, outcome.err);
    }
}

static const sw_test tests[] = {
    {"neither library nor program names CUDA", neither_library_nor_program_names_cuda},
    {"the module is opened only for a device", the_module_is_opened_only_for_a_device},
    {"a file that is not a module is one line and status 5",
     a_module_that_is_none_is_one_line_and_status_5},
    {"without a driver it is one line and status 5",
     without_a_driver_it_is_one_line_and_status_5},
    {"unknown devices are wrong usage", devices_that_are_none_are_wrong_usage},
};
SW_SUITE("cuda", tests)
