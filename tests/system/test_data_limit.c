/* --data-limit: small files that unpack to much. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char folder[700];

/* 2,739,137 black images of 28 x 28, 2.1 GB in 2.1 MB: a member with the header, then one of
 * 16 MiB of zeros many times. Only what train reads is whole: plan shall not look at it. */
static bool make_bomb(void)
{
    snprintf(folder, sizeof folder, "%s", sw_temp_path("bomb"));
    if (mkdir(folder, 0700) != 0)
        return false;
    for (int i = 0; i < 2; i++) {
        const char *part = i == 0 ? "train" : "t10k";
        if (sw_shell(
                "cd '%s' && { printf "
                "'\\0\\0\\010\\003\\0\\051\\313\\301\\0\\0\\0\\034\\0\\0\\0\\034'"
                " | gzip && head -c 16777216 /dev/zero | gzip; } > %s-images-idx3-ubyte.gz && "
                "{ printf '\\0\\0\\010\\001\\0\\051\\313\\301' && head -c 2739137 /dev/zero; } "
                "| gzip > %s-labels-idx1-ubyte.gz",
                folder, part, part) != 0)
            return false;
    }
    return true;
}

static const sw_outcome *run(const char *format)
{
    static sw_outcome out;
    char words[2000];
    snprintf(words, sizeof words, format, folder);
    program_run(&out, words, NULL);
    return &out;
}

static void what_unpacks_to_much_is_refused_by_its_size(void)
{
    if (!SW_HAVE_ZLIB)
        SW_SKIP("built without zlib");
    if (!make_bomb())
        SW_SKIP("gzip is not installed");
    static const char *const refused[] = {"train --quiet --model lenet5 --data idx:%s",
                                          "plan --model lenet5 --data idx:%s",
                                          "train --quiet --data idx:%s --data-limit 2GB"};
    for (int i = 0; i < 2; i++) {
        const sw_outcome *o = run(refused[i]);
        SW_CHECK(program_failed_cleanly(o, 4) &&
                     strstr(o->err,
                            "/train-images-idx3-ubyte.gz: unpacks to 2,147,483,424 bytes; "
                            "the limit is 1,073,741,824 (raise it with --data-limit "
                            "SIZE") != NULL,
                 "%s: status %d: %s", refused[i], o->status, o->err);
        SW_CHECK(o->peak_bytes < (size_t)100 << 20, "%zu bytes", o->peak_bytes);
    }
    const sw_outcome *o = run(refused[2]);
    CU_ASSERT(program_failed_cleanly(o, 2)); /* no such unit */
    o = run("plan --model lenet5 --data idx:%s --data-limit 2GiB");
    SW_CHECK(o->status == 0 && o->peak_bytes < (size_t)100 << 20, "status %d, %zu bytes: %s",
             o->status, o->peak_bytes, o->err);
    o = run("train --quiet --model lenet5 --data idx:%s --data-limit 2GiB --steps 1");
    SW_CHECK(program_failed_cleanly(o, 3) &&
                 strstr(o->err, "announces 2,147,483,408 bytes, 16,777,216 bytes are there") !=
                     NULL,
             "status %d: %s", o->status, o->err);
    o = run("train --quiet --synthetic-n 100 --data-limit 2GiB");
    SW_CHECK(program_failed_cleanly(o, 2) && strstr(o->err, "--data-limit") != NULL, "%s",
             o->err);
}

/* The heads of n PNGs of 65536 x 1024 colours, and nothing that could be decoded. */
static void put_head(const char *class, int n)
{
    unsigned char png[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\1\0\0\0\0\4\0\x08\2\0\0\0....\0\0\0"
                          "\0IDAT\x35\xaf\x06\x1e";
    char path[900];
    uint32_t crc = UINT32_MAX;
    for (int i = 12; i < 29; i++) {
        crc ^= png[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    for (int i = 0; i < 4; i++)
        png[29 + i] = (unsigned char)(~crc >> (24 - 8 * i));
    snprintf(path, sizeof path, "%s/%s", folder, class);
    (void)mkdir(path, 0700);
    for (int i = 1; i <= n; i++) {
        snprintf(path, sizeof path, "%s/%s/%d.png", folder, class, i);
        CU_ASSERT_FATAL(file_write(path, png, sizeof png - 1));
    }
}

/* Of each of two classes `n` images. */
static void put_folder(const char *name, int n)
{
    snprintf(folder, sizeof folder, "%s", sw_temp_path(name));
    CU_ASSERT_FATAL(mkdir(folder, 0700) == 0);
    put_head("cat", n);
    put_head("dog", n);
}

/* Two images of 201 MB: with the slots of batches and their numbers they are 2.4 GB, which is
 * said before any is decoded, and is what would do. */
static void what_a_batch_of_images_becomes_counts(void)
{
    static const char *const refused[] = {
        "train --quiet --model resnet9 --data images:%s",
        "plan --model resnet9 --data images:%s",
        "plan --model resnet9 --data images:%s --batch 1 --data-limit 2415919103",
        "pbt --quiet --model resnet9 --data images:%s --members 2 --steps 1 lr=log:1e-3..1e-1"};
    if (!SW_HAVE_PNG)
        SW_SKIP("built without libpng");
    put_folder("large-images", 1);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const sw_outcome *o = run(refused[i]);
        SW_CHECK(program_failed_cleanly(o, 4) &&
                     strstr(o->err,
                            "2 images of 3 x 1024 x 65536 take 402,653,184 bytes, and "
                            "their batches 2,013,265,920 more; the limit is ") != NULL &&
                     strstr(o->err, "--data-limit 2,415,919,104 would do") != NULL,
                 "%s: status %d: %s", refused[i], o->status, o->err);
        SW_CHECK(o->peak_bytes < (size_t)100 << 20, "%zu bytes", o->peak_bytes);
    }
    const sw_outcome *o =
        run("plan --model resnet9 --data images:%s --data-limit 2,415,919,104 "
            "--resize 16");
    CU_ASSERT_EQUAL(o->status, 0);
    o = run("train --quiet --model resnet9 --data images:%s --data-limit 2,415,919,104");
    SW_CHECK(o->status == 3 && strstr(o->err, "1.png") != NULL, "status %d: %s", o->status,
             o->err); /* it is damaged, as far as it is there */
}

/* A population has the largest of its batches, and an evaluation of evolution strategies its
 * samples: of four images of 201 MB batches of three, and of eight. */
static void batches_of_populations_count(void)
{
    static const struct {
        const char *words;
        bool fits;
    } runs[] = {
        {"pbt --quiet --model resnet9 --data images:%s --members 2 --steps 1 --batch 1 "
         "batch=choice:1,3 --data-limit 5637144575",
         false},
        {"pbt --quiet --model resnet9 --data images:%s --members 2 --steps 1 --batch 1 "
         "batch=choice:1,3 --data-limit 5637144576",
         true},
        {"es --quiet --model resnet9 --data images:%s --population 8 --data-limit 8858370047",
         false},
        {"es --quiet --model resnet9 --data images:%s --population 8 --data-limit 8858370048",
         true},
        {"es --quiet --model resnet9 --data images:%s --population 80 --slice 8 --data-limit "
         "8858370048",
         true}};
    if (!SW_HAVE_PNG)
        SW_SKIP("built without libpng");
    put_folder("populations", 2);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const sw_outcome *o = run(runs[i].words);
        const char *says = runs[i].fits ? ".png" /* it is damaged, as far as it is there */
                           : i == 0     ? "--data-limit 5,637,144,576 would do"
                                        : "--data-limit 8,858,370,048 would do";
        SW_CHECK(program_failed_cleanly(o, runs[i].fits ? 3 : 4) &&
                     strstr(o->err, says) != NULL,
                 "%s: status %d: %s", runs[i].words, o->status, o->err);
        SW_CHECK(runs[i].fits || o->peak_bytes < (size_t)100 << 20, "%zu bytes", o->peak_bytes);
    }
}

static const sw_test tests[] = {
    {"what unpacks to much is refused by its size",
     what_unpacks_to_much_is_refused_by_its_size},
    {"what a batch of images becomes counts", what_a_batch_of_images_becomes_counts},
    {"batches of populations count", batches_of_populations_count},
};
SW_SUITE("data limit", tests)
