/* See program.h. */
#include "tests/system/program.h"
#include "tests/support/files.h"
#include "tests/support/suite.h"

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
