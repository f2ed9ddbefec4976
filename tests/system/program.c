/* See program.h. */
#include "tests/system/program.h"
#include "tests/support/files.h"
#include "tests/support/suite.h"
#include <sys/stat.h>
#include <unistd.h>

const char *program_path(void)
{
    return sw_textf("%s/tools/stepwell", sw_build_root());
}

/* The program and the words, split in a copy of its own. */
static const char *const *split(const char *words)
{
    static char text[8192];
    static const char *argv[64];
    size_t n = 0;
    argv[n++] = program_path();
    snprintf(text, sizeof text, "%s", words);
    for (char *word = strtok(text, " "); word != NULL && n < 63; word = strtok(NULL, " "))
        argv[n++] = word;
    argv[n] = NULL;
    return argv;
}

pid_t program_start(const char *tag, const char *words, const char *env)
{
    const char *const list[] = {env, NULL};
    return sw_process_start(tag, split(words), list);
}

void program_run(sw_outcome *out, const char *words, const char *env)
{
    const pid_t pid = program_start("stepwell", words, env);
    sw_process_wait(out, pid, "stepwell", 300);
}

bool program_failed_cleanly(const sw_outcome *out, int status)
{
    return out->status == status && out->signal == 0 && out->out[0] == '\0' &&
           sw_count_lines(out->err) == 1;
}

float *program_numbers(const char *path, size_t *n)
{
    uint64_t header;
    size_t bytes;
    unsigned char *all = file_read(path, &bytes);
    *n = 0;
    if (all == NULL || bytes < 8 || (memcpy(&header, all, 8), header >= bytes - 8)) {
        free(all);
        return NULL;
    }
    *n = (bytes - 8 - (size_t)header) / sizeof(float);
    memmove(all, all + 8 + header, *n * sizeof(float));
    return (float *)(void *)all;
}

/* FNV-1a */
uint64_t program_tensors(const char *path)
{
    size_t n;
    uint64_t hash = 0xcbf29ce484222325u;
    float *numbers = program_numbers(path, &n);
    const unsigned char *bytes = (const unsigned char *)numbers;
    for (size_t i = 0; i < n * sizeof(float); i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    free(numbers);
    return n > 0 ? hash : 0;
}

static const char *idx_name(int which)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    return names[which];
}

static void put_u32(unsigned char *at, uint32_t x)
{
    at[0] = (unsigned char)(x >> 24);
    at[1] = (unsigned char)(x >> 16);
    at[2] = (unsigned char)(x >> 8);
    at[3] = (unsigned char)x;
}

static idx_file make_file(bool images, uint32_t n, uint64_t seed)
{
    const size_t header = images ? 16 : 8, each = images ? 28 * 28 : 1;
    idx_file file = {calloc(header + n * each, 1), header + n * each};
    sw_dice dice = {seed};
    if (file.bytes == NULL)
        exit(1);
    put_u32(file.bytes, images ? 0x803 : 0x801);
    put_u32(file.bytes + 4, n);
    if (images) {
        put_u32(file.bytes + 8, 28);
        put_u32(file.bytes + 12, 28);
    }
    for (size_t i = header; i < file.n; i++)
        file.bytes[i] = (unsigned char)sw_dice_below(&dice, images ? 256 : 10);
    return file;
}

void idx_make(idx_set *set, uint32_t n)
{
    set->file[TRAIN_IMAGES] = make_file(true, n, 1);
    set->file[TRAIN_LABELS] = make_file(false, n, 2);
    set->file[TEST_IMAGES] = make_file(true, n / 2, 3);
    set->file[TEST_LABELS] = make_file(false, n / 2, 4);
}

void idx_free(idx_set *set)
{
    for (int i = 0; i < IDX_FILES; i++)
        free(set->file[i].bytes);
}

void idx_write(const idx_set *set, const char *folder)
{
    (void)mkdir(folder, 0700);
    for (int i = 0; i < IDX_FILES; i++) {
        const char *path = sw_textf("%s/%s", folder, idx_name(i));
        if (set->file[i].bytes == NULL)
            (void)unlink(path);
        else
            CU_ASSERT(file_write(path, set->file[i].bytes, set->file[i].n));
    }
}

unsigned char *file_read(const char *path, size_t *n)
{
    return (unsigned char *)sw_file_text(path, n);
}

bool file_write(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return false;
    const bool written = fwrite(bytes, 1, n, file) == n;
    return fclose(file) == 0 && written;
}
