/* Folders of images and augmentation through the program: what trains, what is the same for any
 * number of threads and after a pause, what is refused. */
#include "tests/support/png_make.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char folder[900];

static void put_image(const char *class, unsigned i, png_image p)
{
    static unsigned char file[16384];
    char path[1200];
    const size_t n = png_make(file, sizeof file, &p);
    CU_ASSERT_FATAL(n > 0);
    snprintf(path, sizeof path, "%s/%s", folder, class);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s/%u.png", folder, class, i);
    CU_ASSERT_FATAL(file_write(path, file, n));
}

/* Three classes of 20 images of 30 x 24 to 32 x 26. */
static void begin(const char *name)
{
    static const char *const classes[] = {"cat", "dog", "eel"};
    snprintf(folder, sizeof folder, "%s", sw_temp_path(name));
    (void)mkdir(folder, 0700);
    for (unsigned i = 0; i < 60; i++)
        put_image(classes[i % 3], i,
                  (png_image){.w = 30 + i % 2 * 2,
                              .h = 24 + i % 5 / 2,
                              .depth = 8,
                              .type = i % 3 == 0 ? PNG_GRAY : PNG_COLOUR,
                              .seed = i % 6});
}

#define BEGIN(name)                                                                            \
    do {                                                                                       \
        if (!SW_HAVE_PNG)                                                                      \
            SW_SKIP("built without libpng");                                                   \
        begin(name);                                                                           \
    } while (0)

/* Work for two threads. */
static void begin_many(const char *name)
{
    begin(name);
    for (unsigned i = 60; i < 160; i++)
        put_image("cat", i,
                  (png_image){.w = 30, .h = 24, .depth = 8, .type = PNG_COLOUR, .seed = i});
}

/* `words` with every $ made the folder; lines of its output are joined. */
static const sw_outcome *run(const char *words)
{
    static sw_outcome outcome;
    static char full[4000];
    size_t n = 0;
    for (; *words != '\0' && n + sizeof folder < sizeof full; words++)
        if (*words == '$')
            n += (size_t)snprintf(full + n, sizeof full - n, "%s", folder);
        else
            full[n++] = *words;
    full[n] = '\0';
    program_run(&outcome, full, NULL);
    return &outcome;
}

#define TRAIN                                                                                  \
    "train --quiet --data images:$ --resize 20 --model mlp --hidden 8 --batch 16 --epochs 2 "

static double loss_of(const char *more)
{
    char words[800];
    snprintf(words, sizeof words, TRAIN "--json %s", more);
    const sw_outcome *o = run(words);
    SW_CHECK(o->status == 0 && o->err[0] == '\0', "%s: status %d: %s", words, o->status,
             o->err);
    return program_number(o->out, "final_loss");
}

static void a_folder_of_images_trains(void)
{
    BEGIN("images-trains");
    const sw_outcome *o = run(TRAIN "--augment flip,crop=2");
    CU_ASSERT_EQUAL(o->status, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(o->out, "48 + 12 samples"));
    CU_ASSERT_PTR_NOT_NULL(strstr(o->out, "2 whole epochs"));
    CU_ASSERT_PTR_NOT_NULL(strstr(o->out, "augment flip,crop=2, while training"));
    CU_ASSERT_PTR_NOT_NULL(strstr(o->out, "the same measured by arena"));
    o = run("train --quiet --data images:$ --resize 28 --channels 1 --model lenet5 --batch 16 "
            "--augment crop=3 --test-share 0.5");
    CU_ASSERT_EQUAL(o->status, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(o->out, "30 + 30 samples"));
    o = run("pbt --quiet --data images:$ --resize 20 --augment flip --model mlp --hidden 8 "
            "--members 2 --batch 16 --epochs 1 lr=log:0.001..0.01");
    SW_CHECK(o->status == 0, "%s", o->err);
}

static void a_plan_is_that_of_the_training(void)
{
    static const char *const more[] = {"", "--augment flip", "--augment flip,crop=2"};
    BEGIN("images-plan");
    for (int i = 0; i < 3; i++) {
        char words[400];
        snprintf(words, sizeof words, TRAIN "--json %s", more[i]);
        const sw_outcome *o = run(words);
        const double trained = program_number(o->out, "predicted_peak_bytes");
        CU_ASSERT_EQUAL(program_number(o->out, "measured_peak_bytes"), trained);
        snprintf(words, sizeof words,
                 "plan --data images:$ --resize 20 --model mlp --hidden 8 --batch 16 --json %s",
                 more[i]);
        o = run(words);
        CU_ASSERT_EQUAL(o->status, 0);
        SW_CHECK(program_number(o->out, "predicted_peak_bytes") == trained,
                 "'%s': %g planned, %g", more[i],
                 program_number(o->out, "predicted_peak_bytes"), trained);
    }
}

/* Each option is another training; threads and immediate mode are not. */
static void options_change_the_training_and_threads_do_not(void)
{
    static const char *const others[] = {"--augment flip",     "--augment crop=2",
                                         "--augment flip=0.9", "--augment flip,crop=2",
                                         "--channels 1",       "--split-seed 2"};
    double loss[6];
    BEGIN("images-options");
    const double plain = loss_of("");
    for (int i = 0; i < 6; i++) {
        loss[i] = loss_of(others[i]);
        SW_CHECK(loss[i] != plain, "'%s' changes nothing", others[i]);
        for (int k = 0; k < i; k++)
            SW_CHECK(loss[i] != loss[k], "'%s' is as '%s'", others[i], others[k]);
    }
    CU_ASSERT_EQUAL(loss_of("--augment flip,crop=2 --threads 3"), loss[3]);
    CU_ASSERT_EQUAL(loss_of("--augment flip,crop=2 --immediate"), loss[3]);
    CU_ASSERT_EQUAL(loss_of("--augment crop=2,flip=0.5"), loss[3]);
    CU_ASSERT_NOT_EQUAL(loss_of("--augment flip,crop=2 --seed 2"), loss[3]);
}

static bool same_files(const char *a, const char *b)
{
    static char one[1 << 20], two[1 << 20];
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", folder, a);
    FILE *f = fopen(path, "rb");
    snprintf(path, sizeof path, "%s/%s", folder, b);
    FILE *g = fopen(path, "rb");
    CU_ASSERT_FATAL(f != NULL && g != NULL);
    const size_t n = fread(one, 1, sizeof one, f), m = fread(two, 1, sizeof two, g);
    fclose(f);
    fclose(g);
    return n > 0 && n == m && memcmp(one, two, n) == 0;
}

#define FOUR                                                                                   \
    "train --quiet --data images:$ --resize 20 --model mlp --hidden 8 --batch 16 --schedule "  \
    "constant --augment flip,crop=2 "

/* Draws belong to the step: a run that goes on has those that it would have had. */
static void a_run_that_goes_on_has_the_same_bits(void)
{
    BEGIN("images-resume");
    if (!SW_HAVE_XXHASH)
        SW_SKIP("built without libxxhash, which checkpoints need");
    CU_ASSERT_EQUAL(run(FOUR "--epochs 4 --save-params $/whole.safetensors")->status, 0);
    CU_ASSERT_EQUAL(run(FOUR "--epochs 2 --checkpoint $/saved")->status, 0);
    const sw_outcome *o = run(FOUR "--epochs 4 --checkpoint $/saved --resume --threads 2 "
                                   "--save-params $/parts.safetensors");
    SW_CHECK(o->status == 0, "%s", o->err);
    CU_ASSERT(same_files("whole.safetensors", "parts.safetensors"));
    o = run("train --quiet --data images:$ --resize 20 --model mlp --hidden 8 --batch 16 "
            "--schedule constant --augment flip --epochs 6 --checkpoint $/saved --resume");
    CU_ASSERT(o->status != 0 && strstr(o->err, "--augment was 'flip,crop=2'") != NULL);
    o = run("train --quiet --data images:$ --resize 20 --model mlp --hidden 8 --batch 16 "
            "--schedule constant --epochs 6 --checkpoint $/saved --resume");
    CU_ASSERT(o->status != 0 && strstr(o->err, "--augment") != NULL);
}

static void what_cannot_be_is_refused(void)
{
    static const struct {
        int status;
        const char *words, *says;
    } cases[] = {
        {2, "train --data images:", "must be followed by a folder"},
        {3, "train --model mlp --data images:$", "and images before it are"},
        {3, "train --model mlp --data images:$/nowhere --resize 8", "nowhere: No such file"},
        {3, "train --model mlp --data images:$/cat --resize 8", "a folder for each class"},
        {4, "train --model mlp --data images:$ --resize 8 --data-limit 59903",
         "60 images of 3 x 8 x 8 take 11,520 bytes, and their batches 48,384 more; the limit "
         "is 59,903: --data-limit 59,904 would do"},
        {2, "train --model lenet5 --data images:$ --resize 28", "--model lenet5"},
        {2, "train --model mlp --data images:$ --resize 8 --channels 2", "must be 1 or 3"},
        {2, "train --model mlp --data images:$ --resize 8 --label 2", "--data csv:FILE"},
        {2, "train --model mlp --data images:$ --resize 8 --test-share 1", "--test-share must"},
        {2, "train --resize 8", "without --data images:DIR"},
        {2, "train --channels 1", "without --data images:DIR"},
        {2, "train --test-share 0.1", "images:DIR"},
        {2, "train --augment spin", "must be flip, crop=N or both"},
        {2, "train --augment flip,flip", "must be flip, crop=N or both"},
        {2, "train --augment flip,", "must be flip, crop=N or both"},
        {2, "train --augment flip=0", "must be flip, crop=N or both"},
        {2, "train --augment flip=1.1", "must be flip, crop=N or both"},
        {2, "train --augment crop=1.5", "must be flip, crop=N or both"},
        {2, "train --augment crop", "must be flip, crop=N or both"},
        {2, "train --augment crop=28", "below the side of images, 28 x 28 (got 28)"},
        {2, "train --augment flip --method mezo", "no effect with --method mezo"},
        {2, "train --model swishnet --augment flip", "--augment is for images"},
        {2, "es --augment flip", "--augment"},
    };
    BEGIN("images-refused");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sw_outcome *o = run(cases[i].words);
        SW_CHECK(program_failed_cleanly(o, cases[i].status) &&
                     strstr(o->err, cases[i].says) != NULL,
                 "%s: status %d: %s; '%s' was expected", cases[i].words, o->status, o->err,
                 cases[i].says);
    }
}

static void damage(const char *image, size_t keep)
{
    static unsigned char file[4096];
    const png_image p = {.w = 30, .h = 24, .depth = 8, .type = PNG_COLOUR};
    char path[1200];
    const size_t n = png_make(file, sizeof file, &p);
    snprintf(path, sizeof path, "%s/%s", folder, image);
    CU_ASSERT(n > keep && file_write(path, file, keep > 0 ? keep : n / 2));
}

/* A plan reads the heads of images, and no pixel. */
static void damage_is_named(void)
{
    BEGIN("images-damage");
    damage("dog/1.png", 0);
    const sw_outcome *o = run(TRAIN);
    SW_CHECK(program_failed_cleanly(o, 3) && strstr(o->err, "dog/1.png: cut after") != NULL,
             "%s", o->err);
    CU_ASSERT_EQUAL(run("plan --data images:$ --resize 20 --model mlp --batch 16")->status, 0);
}

/* On a device, too, where nothing else is theirs to do. */
static void threads_decode(void)
{
    if (!SW_HAVE_PNG)
        SW_SKIP("built without libpng");
    begin_many("images-threads");
    CU_ASSERT_EQUAL(loss_of("--threads 4"), loss_of(""));
    const sw_outcome *o = run("plan --model mlp --data images:$ --resize 20 --device cuda:9999 "
                              "--threads 4");
    SW_CHECK(program_failed_cleanly(o, 5), "status %d: %s", o->status, o->err);
    damage("cat/120.png", 0);
    damage("cat/3.png", 0); /* after it in the order of names */
    damage("cat/121.png", 200);
    for (int threads = 1; threads <= 4; threads++) {
        char words[400];
        snprintf(words, sizeof words, TRAIN "--threads %d", threads);
        o = run(words);
        SW_CHECK(program_failed_cleanly(o, 3) &&
                     strstr(o->err, "cat/120.png: cut after") != NULL,
                 "%d threads: %s", threads, o->err);
    }
}

static const sw_test tests[] = {
    {"a folder of images trains", a_folder_of_images_trains},
    {"a plan is that of the training", a_plan_is_that_of_the_training},
    {"options change the training and threads do not",
     options_change_the_training_and_threads_do_not},
    {"a run that goes on has the same bits", a_run_that_goes_on_has_the_same_bits},
    {"what cannot be is refused", what_cannot_be_is_refused},
    {"damage is named", damage_is_named},
    {"threads decode", threads_decode},
};
SW_SUITE("images", tests)
