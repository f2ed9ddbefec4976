/* The files that a transcript cannot write as a text: "make WHAT ..." of transcripts/README.md.
 */
#include "tests/support/png_make.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include "tests/system/transcript.h"
#include <sys/stat.h>

/* "FOLDER N TRAIN TEST": a set in MNIST's format of N random images, half as many for testing,
 * and labels that go round so many classes; 32 and random labels without. */
static void put_idx(char *rest)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    char name[100];
    snprintf(name, sizeof name, "%s", transcript_word(&rest));
    const uint32_t n = *rest != '\0' ? (uint32_t)atoi(transcript_word(&rest)) : 32;
    (void)transcript_unescape(name);
    const char *folder = transcript_path(name);
    (void)mkdir(folder, 0700);
    for (unsigned which = 0; which < 4; which++) {
        const bool images = which % 2 == 0;
        const uint32_t head[] = {images ? 0x803 : 0x801, which < 2 ? n : n / 2, 28, 28};
        const size_t begin = images ? 16 : 8, size = begin + head[1] * (images ? 28u * 28 : 1);
        const size_t classes =
            !images && *rest != '\0' ? strtoul(transcript_word(&rest), NULL, 10) : 0;
        sw_dice dice = {which + 1};
        unsigned char *file = malloc(size);
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        for (size_t i = 0; i < begin; i++)
            file[i] = (unsigned char)(head[i / 4] >> (24 - i % 4 * 8));
        for (size_t i = begin; i < size; i++)
            file[i] = (unsigned char)(classes > 0 ? (i - begin) % classes
                                                  : sw_dice_below(&dice, images ? 256 : 10));
        CU_ASSERT(file_write(sw_textf("%s/%s", folder, names[which]), file, size));
        free(file);
    }
}

/* Three classes of images of 30 x 24 to 32 x 26, and 100 more of the first with `many`. */
static void put_images(char *rest)
{
    const bool many = strcmp(rest, "many") == 0;
    static const char *const classes[] = {"cat", "dog", "eel"};
    static unsigned char file[16384];
    for (unsigned i = 0; i < (many ? 160 : 60); i++) {
        const bool odd = i % 2 != 0 && i < 60;
        const png_image p = {.w = odd ? 32 : 30,
                             .h = 24 + (i < 60 ? i % 5 / 2 : 0),
                             .depth = 8,
                             .type = i % 3 == 0 && i < 60 ? PNG_GRAY : PNG_COLOUR,
                             .seed = i < 60 ? i % 6 : i};
        char name[100];
        const char *class = i < 60 ? classes[i % 3] : "cat";
        (void)mkdir(transcript_path(class), 0700);
        snprintf(name, sizeof name, "%s/%u.png", class, i);
        CU_ASSERT_FATAL(
            file_write(transcript_path(name), file, png_make(file, sizeof file, &p)));
    }
}

/* "FILE N": records of CIFAR-10. */
static void put_cifar(char *rest)
{
    enum { RECORD = 3073 };
    static unsigned char records[40 * RECORD];
    const char *name = transcript_word(&rest);
    for (size_t i = 0; i < sizeof records; i++)
        records[i] = (unsigned char)(i % RECORD == 0 ? i / RECORD % 10 : i * 31);
    CU_ASSERT(file_write(transcript_path(name), records, strtoul(rest, NULL, 10) * RECORD));
}

/* "FILE N WIDTH": ids below 331 that repeat themselves, in so many bytes each. */
static void put_tokens(char *rest)
{
    static unsigned char ids[16000];
    const char *name = transcript_word(&rest);
    const size_t n = strtoul(transcript_word(&rest), NULL, 10), width = strtoul(rest, NULL, 10);
    memset(ids, 0, sizeof ids);
    for (size_t i = 0; i < n; i++) {
        ids[i * width] = (unsigned char)(i * i % 331 & 255);
        ids[i * width + 1] = (unsigned char)(i * i % 331 >> 8);
    }
    CU_ASSERT(file_write(transcript_path(name), ids, n * width));
}

/* "FILE DIMS MODULUS SHIFT": an array of bytes; they are (i + SHIFT) % MODULUS, pixels without.
 */
static void put_npy(char *rest)
{
    static char file[70000];
    const char *name = transcript_word(&rest);
    char *dims = transcript_word(&rest);
    size_t n = 1;
    for (char *dim = dims; *dim >= '0' && *dim <= '9'; dim += *dim == ',')
        n *= strtoul(dim, &dim, 10);
    const unsigned long modulus = strtoul(transcript_word(&rest), NULL, 10),
                        shift = strtoul(rest, NULL, 10);
    memset(file, ' ', 128);
    memcpy(file, "\x93NUMPY\1\0v\0", 10);
    const int head = snprintf(
        file + 10, 118, "{'descr': '|u1', 'fortran_order': False, 'shape': (%s), }", dims);
    file[10 + head] = ' ';
    file[127] = '\n';
    for (size_t i = 0; i < n; i++)
        file[128 + i] = (char)(modulus > 0 ? (i + shift) % modulus : i * 31 + i / 784);
    CU_ASSERT(file_write(transcript_path(name), file, 128 + n));
}

/* "N": the heads of N PNGs of 65536 x 1024 colours in each of two classes, and nothing to
 * decode. */
static void put_heads(char *rest)
{
    static const char png[] =
        "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\1\0\0\0\0\4\0\x08\2\0\0\0\333\003\203\071\0"
        "\0\0\0IDAT\x35\xaf\x06\x1e";
    static const char *const classes[] = {"cat", "dog"};
    for (int i = 0; i < 2 * atoi(rest); i++) {
        char name[40];
        (void)mkdir(transcript_path(classes[i % 2]), 0700);
        snprintf(name, sizeof name, "%s/%d.png", classes[i % 2], i / 2 + 1);
        CU_ASSERT_FATAL(file_write(transcript_path(name), png, sizeof png - 1));
    }
}

/* The file of parameters has nothing but tensors, as those of other programs. */
static void forget_notes(char *rest)
{
    size_t n;
    char *file = (char *)file_read(transcript_path(rest), &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    char *from = strstr(file + 8, "\"__metadata__\":{"), *end = strstr(file + 8, "},");
    CU_ASSERT_FATAL(from != NULL && end != NULL && end > from);
    memset(from, ' ', (size_t)(end + 2 - from));
    CU_ASSERT(file_write(transcript_path(rest), file, n));
    free(file);
}

bool transcript_make(char *rest)
{
    static const struct {
        const char *what;
        void (*put)(char *rest);
    } makes[] = {{"idx", put_idx},       {"images", put_images}, {"cifar", put_cifar},
                 {"tokens", put_tokens}, {"npy", put_npy},       {"bare", forget_notes},
                 {"heads", put_heads}};
    const char *what = transcript_word(&rest);
    size_t i = 0;
    while (i < sizeof makes / sizeof *makes && strcmp(makes[i].what, what) != 0)
        i++;
    if (i == sizeof makes / sizeof *makes)
        return false;
    makes[i].put(rest);
    return true;
}
