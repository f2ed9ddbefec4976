/* Damaged checkpoints, logs and policies of `stepwell pbt`; options are in
 * transcripts/pbt-refused.txt. */
#include "tests/support/suite.h"
#include "tests/system/populations.h"

SW_TESTS("pbt refused")

#define LR " lr=log:0.01..1"

/* Cut at many places and with bytes changed: refused as damaged, or the generation before is
 * used; never a crash. */
SW_TEST("damaged checkpoints are refused")
{
    sw_dice dice = {.state = 11};
    size_t n;
    going_new_folder("damaged");
    const sw_outcome *o = population_only("--optimizer momentum" LR " hidden=int:4..20",
                                          "--checkpoint @/S --checkpoint-every 1");
    CU_ASSERT_EQUAL(o->status, 0);
    unsigned char *whole = file_read(going_at("S"), &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(whole);
    sw_after(free, whole);
    for (int i = 0; i < (sw_tests_full() ? 400 : 24); i++) {
        unsigned char *bytes = malloc(n);
        size_t length = n;
        memcpy(bytes, whole, n);
        if (i % 2 == 0)
            length = (size_t)sw_dice_below(&dice, n);
        else
            bytes[sw_dice_below(&dice, n)] ^= (unsigned char)(1 + sw_dice_below(&dice, 255));
        CU_ASSERT(file_write(going_at("D"), bytes, length));
        free(bytes);
        o = population_only("--optimizer momentum" LR " hidden=int:4..20", "--resume=@/D");
        SW_CHECK(program_failed_cleanly(o, 3), "%d: %zu bytes: status %d, signal %d: %s", i,
                 length, o->status, o->signal, o->err);
    }
}

/* A log that is not as it was is refused before any file is changed, with the way out, which is
 * one; with the log as it was the run goes on. */
SW_TEST("damaged logs are refused")
{
    static const char words[] = "--optimizer momentum" LR, log[] = "L/pbt_global.txt";
    size_t n;
    const sw_outcome *o = population_run(words, "--steps 12 --checkpoint @/C");
    unsigned char *whole = file_read(going_at(log), &n);
    CU_ASSERT_FATAL(o->status == 0 && whole != NULL && n > 100);
    sw_after(free, whole);
    going_put("M.csv", "not the metrics\n");
    for (size_t i = 0; i < n; i += n / 9) {
        whole[i] ^= (unsigned char)(1 << i % 8);
        CU_ASSERT(file_write(going_at(log), whole, n));
        whole[i] ^= (unsigned char)(1 << i % 8);
        going_copy("M.csv", "before");
        o = population_only(words, "--steps 12 --resume=@/C --metrics @/M.csv --log-dir @/L");
        SW_CHECK(o->status == 3 && o->signal == 0 &&
                     strstr(o->err, "pbt_global.txt is damaged: its first") != NULL &&
                     strstr(o->err, "or go on without --log-dir") != NULL &&
                     going_same_file("M.csv", "before"),
                 "byte %zu: status %d: %s", i, o->status, o->err);
    }
    o = population_only(words, "--steps 12 --resume=@/C --log-dir @/new");
    SW_CHECK(o->status == 3 && strstr(o->err, "pbt_global.txt: has 0 bytes, and had") != NULL &&
                 !going_exists("new"),
             "status %d: %s", o->status, o->err);
    o = population_only(words, "--steps 12 --resume=@/C");
    CU_ASSERT_EQUAL(o->status, 0);
    CU_ASSERT(file_write(going_at(log), whole, n));
    o = population_only(words, "--steps 12 --resume=@/C --log-dir @/L");
    CU_ASSERT_EQUAL(o->status, 0);
}

/* A policy that is cut, or of another space. */
SW_TEST("damaged policies are refused")
{
    size_t n;
    (void)population_run("--optimizer momentum --synch" LR, "");
    unsigned char *whole = NULL;
    for (int k = 0; k < POPULATION && whole == NULL; k++) { /* one with two lines at least */
        whole = file_read(going_at(sw_textf("L/pbt_policy_%d.txt", k)), &n);
        if (whole != NULL && memchr(whole, '\n', n - 1) == NULL) {
            free(whole);
            whole = NULL;
        }
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(whole);
    sw_after(free, whole);
    for (size_t i = 0; i < n; i += sw_tests_full() ? 1 : 37) {
        const bool line = i > 0 && whole[i - 1] == '\n';
        CU_ASSERT(file_write(going_at("cut"), whole, i));
        const sw_outcome *o =
            population_only("--optimizer momentum --synch" LR, "--replay @/cut");
        SW_CHECK(line ? o->status == 0 : program_failed_cleanly(o, 3),
                 "%zu bytes: status %d: %s", i, o->status, o->err);
    }
    CU_ASSERT(file_write(going_at("cut"), whole, n));
    const sw_outcome *o =
        population_only("--optimizer momentum" LR " momentum=uniform:0..0.9", "--replay @/cut");
    SW_CHECK(program_failed_cleanly(o, 3), "status %d: %s", o->status, o->err);
    going_put("wide", "[0,0,0,0,{\"hidden\":900},{\"hidden\":900}]\n");
    o = population_only("hidden=choice:8,900", "--replay @/wide --memory-budget 300,000");
    SW_CHECK(program_failed_cleanly(o, 4) &&
                 strstr(o->err, "hidden 900 does not fit --memory-budget 300,000") != NULL,
             "status %d: %s", o->status, o->err);
}
