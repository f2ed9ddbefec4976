/* Damaged and foreign data through the program: status 3 and one line that names the file. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IMAGES 64

static idx_set set;

static void free_set(void *unused)
{
    (void)unused;
    idx_free(&set);
}

static const char *train_words(const char *folder)
{
    static char words[1200];
    snprintf(words, sizeof words, "train --quiet --data idx:%s --batch 16 --steps 2", folder);
    return words;
}

/* Train from the set as it is now; it must be refused with a line that names the file. */
static void refused(const char *what, int which)
{
    static sw_outcome outcome;
    const char *folder = sw_temp_path("idx");
    idx_write(&set, folder);
    program_run(&outcome, train_words(folder), NULL);
    SW_CHECK(program_failed_cleanly(&outcome, 3), "%s %s: status %d, signal %d: %s%s",
             idx_name(which), what, outcome.status, outcome.signal, outcome.out, outcome.err);
    SW_CHECK(strstr(outcome.err, idx_name(which)) != NULL, "%s %s is not named: %s",
             idx_name(which), what, outcome.err);
}

static void sound_set(void)
{
    idx_make(&set, IMAGES);
    sw_after(free_set, NULL);
}

static void a_sound_set_trains(void)
{
    static sw_outcome outcome;
    sound_set();
    const char *folder = sw_temp_path("idx");
    idx_write(&set, folder);
    program_run(&outcome, train_words(folder), NULL);
    SW_CHECK(outcome.status == 0, "%s", outcome.err);
}

static void missing_and_empty_files_are_named(void)
{
    sound_set();
    for (int which = 0; which < IDX_FILES; which++) {
        const idx_file kept = set.file[which];
        set.file[which].bytes = NULL;
        refused("missing", which);
        set.file[which] = kept;
        set.file[which].n = 0;
        refused("empty", which);
        set.file[which] = kept;
    }
}

static void every_cut_is_found(void)
{
    sound_set();
    for (int which = 0; which < IDX_FILES; which++) {
        idx_file *file = &set.file[which];
        const size_t whole = file->n, header = which % 2 == 0 ? 16 : 8;
        for (size_t n = 1; n <= header; n++) {
            char what[64];
            snprintf(what, sizeof what, "cut after byte %zu", n);
            file->n = n;
            refused(what, which);
        }
        file->n = whole - 1;
        refused("cut before its last byte", which);
        file->n = whole;
    }
}

static void every_wrong_header_byte_is_found(void)
{
    sound_set();
    for (int which = 0; which < IDX_FILES; which++) {
        unsigned char *bytes = set.file[which].bytes;
        for (int i = 0; i < (which % 2 == 0 ? 16 : 8); i++) {
            char what[64];
            const unsigned char kept = bytes[i];
            snprintf(what, sizeof what, "byte %d changed", i);
            bytes[i] = (unsigned char)(kept + 1);
            refused(what, which);
            bytes[i] = kept;
        }
    }
}

static void impossible_counts_are_refused(void)
{
    static const unsigned char huge[12] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                           0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const unsigned char wraps[12] = {0x80, 0, 0, 0, 0x80, 0,
                                            0,    0, 0, 0, 0,    4}; /* 2^64 in all */
    static const unsigned char many[12] = {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 28, 0, 0, 0, 28};
    static const unsigned char none[12] = {0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 28};
    static const unsigned char flat[12] = {0, 0, 0, IMAGES, 0, 0, 0, 0, 0, 0, 0, 28};
    const unsigned char *const headers[] = {huge, wraps, many, none, flat};
    static const char *const names[] = {"dims of 2^32-1", "dims that wrap around",
                                        "a count beyond the file", "no images", "no rows"};
    sound_set();
    for (size_t i = 0; i < 5; i++) {
        unsigned char kept[12];
        memcpy(kept, set.file[TRAIN_IMAGES].bytes + 4, 12);
        memcpy(set.file[TRAIN_IMAGES].bytes + 4, headers[i], 12);
        refused(names[i], TRAIN_IMAGES);
        memcpy(set.file[TRAIN_IMAGES].bytes + 4, kept, 12);
    }
}

static void trailing_bytes_are_refused(void)
{
    sound_set();
    for (int which = 0; which < IDX_FILES; which++) {
        idx_file *file = &set.file[which];
        unsigned char *longer = realloc(file->bytes, file->n + 1);
        CU_ASSERT_PTR_NOT_NULL_FATAL(longer);
        longer[file->n] = 0;
        file->bytes = longer;
        file->n++;
        refused("with a byte too many", which);
        file->n--;
    }
}

static void labels_out_of_range_are_refused(void)
{
    static const unsigned char bad[] = {10, 255};
    sound_set();
    for (int which = TRAIN_LABELS; which < IDX_FILES; which += 2)
        for (size_t k = 0; k < 2; k++)
            for (int last = 0; last < 2; last++) {
                unsigned char *at = set.file[which].bytes + (last ? set.file[which].n - 1 : 8);
                const unsigned char kept = *at;
                *at = bad[k];
                refused("with a label out of range", which);
                *at = kept;
            }
}

static void different_counts_are_refused(void)
{
    sound_set();
    for (int which = TRAIN_LABELS; which < IDX_FILES; which += 2) {
        idx_file *file = &set.file[which];
        file->bytes[7]--;
        file->n--;
        refused("with one label fewer than images", which);
        file->bytes[7]++;
        file->n++;
    }
}

static void a_false_count_takes_no_memory(void)
{
    static sw_outcome sound, lying;
    sound_set();
    const char *folder = sw_temp_path("idx");
    idx_write(&set, folder);
    program_run(&sound, train_words(folder), NULL);
    set.file[TRAIN_IMAGES].bytes[5] = 0x10; /* a million images: 822 MB */
    idx_write(&set, folder);
    program_run(&lying, train_words(folder), NULL);
    CU_ASSERT(program_failed_cleanly(&lying, 3));
    SW_CHECK(lying.peak_bytes < sound.peak_bytes + (8u << 20),
             "%zu bytes, a sound file takes %zu", lying.peak_bytes, sound.peak_bytes);
}

/* ---- compressed -------------------------------------------------------------------------- */

static void compressed_refused(const char *what, const unsigned char *bytes, size_t n)
{
    static sw_outcome outcome;
    char path[1024];
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte.gz", sw_temp_path("gz"));
    CU_ASSERT(file_write(path, bytes, n));
    program_run(&outcome, train_words(sw_temp_path("gz")), NULL);
    SW_CHECK(program_failed_cleanly(&outcome, 3), "%s: status %d, signal %d: %s", what,
             outcome.status, outcome.signal, outcome.err);
    SW_CHECK(strstr(outcome.err, "train-images-idx3-ubyte") != NULL, "%s: %s", what,
             outcome.err);
}

static void damaged_compressed_files_are_refused(void)
{
    static sw_outcome outcome;
    char path[1024];
    size_t n = 0;
    sound_set();
    const char *folder = sw_temp_path("gz");
    idx_write(&set, folder);
    if (sw_shell("gzip -f '%s'/*-ubyte", folder) != 0)
        SW_SKIP("gzip is not installed");
    program_run(&outcome, train_words(folder), NULL);
    if (strstr(outcome.err, "zlib is off") != NULL)
        SW_SKIP("built without zlib");
    SW_CHECK(outcome.status == 0, "%s", outcome.err);
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte.gz", folder);
    unsigned char *bytes = file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    sw_after(free, bytes);
    for (size_t cut = 0; cut < 20; cut++)
        compressed_refused("cut in its header", bytes, cut);
    for (size_t part = 1; part < 8; part++)
        compressed_refused("cut", bytes, n * part / 8);
    for (size_t last = 1; last <= 8; last++)
        compressed_refused("cut in its checksum", bytes, n - last);
    bytes[n - 6] ^= 1;
    compressed_refused("with a wrong checksum", bytes, n);
    bytes[n - 6] ^= 1;
    bytes[n / 2] ^= 0x10;
    compressed_refused("with a changed bit", bytes, n);
    bytes[n / 2] ^= 0x10;
    bytes[0] = 'P';
    compressed_refused("that is something else", bytes, n);
}

/* ---- parameters -------------------------------------------------------------------------- */

static void damaged_parameters_are_refused(void)
{
    static sw_outcome outcome;
    char words[3000], good[1024], bad[1024];
    size_t n = 0;
    snprintf(good, sizeof good, "%s", sw_temp_path("good.safetensors"));
    snprintf(bad, sizeof bad, "%s", sw_temp_path("bad.safetensors"));
    snprintf(words, sizeof words,
             "train --quiet --model mlp --hidden 8 --synthetic-n 40 --batch 16 --steps 1 "
             "--save-params %s",
             good);
    program_run(&outcome, words, NULL);
    if (outcome.status != 0 && strstr(outcome.err, "not built") != NULL)
        SW_SKIP("built without JSON");
    SW_CHECK(outcome.status == 0, "%s", outcome.err);
    unsigned char *bytes = file_read(good, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    sw_after(free, bytes);
    uint64_t header = 0;
    memcpy(&header, bytes, 8);
    CU_ASSERT_FATAL(n > 8 && header < n - 8);
    const size_t step = sw_tests_full() ? 1 : 37;
    snprintf(words, sizeof words,
             "train --quiet --model mlp --hidden 8 --synthetic-n 40 --batch 16 --steps 1 "
             "--load-params %s",
             bad);
    (void)unlink(bad);
    for (size_t cut = 0; cut < 8 + header + step; cut += cut < 8 ? 1 : step) {
        CU_ASSERT(file_write(bad, bytes, cut));
        program_run(&outcome, words, NULL);
        SW_CHECK(program_failed_cleanly(&outcome, 3) &&
                     strstr(outcome.err, "bad.safetensors") != NULL,
                 "cut after byte %zu: status %d, signal %d: %s", cut, outcome.status,
                 outcome.signal, outcome.err);
    }
    CU_ASSERT(file_write(bad, bytes, n - 1));
    program_run(&outcome, words, NULL);
    SW_CHECK(program_failed_cleanly(&outcome, 3), "one byte short: %s", outcome.err);
    (void)unlink(bad);
    program_run(&outcome, words, NULL);
    SW_CHECK(program_failed_cleanly(&outcome, 3), "missing: status %d: %s", outcome.status,
             outcome.err);
    CU_ASSERT(file_write(bad, bytes, n));
    program_run(&outcome, words, NULL);
    SW_CHECK(outcome.status == 0, "whole again: %s", outcome.err);
}

static const sw_test tests[] = {
    {"a sound set trains", a_sound_set_trains},
    {"missing and empty files are named", missing_and_empty_files_are_named},
    {"a cut at every header byte is found", every_cut_is_found},
    {"every wrong header byte is found", every_wrong_header_byte_is_found},
    {"impossible counts and dimensions are refused", impossible_counts_are_refused},
    {"trailing bytes are refused", trailing_bytes_are_refused},
    {"labels out of range are refused", labels_out_of_range_are_refused},
    {"images and labels of different counts are refused", different_counts_are_refused},
    {"a false count takes no memory", a_false_count_takes_no_memory},
    {"damaged compressed files are refused", damaged_compressed_files_are_refused},
    {"damaged parameter files are refused", damaged_parameters_are_refused},
};
SW_SUITE("input", tests)
