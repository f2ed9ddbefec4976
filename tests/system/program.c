/* See program.h. */
#include "tests/system/program.h"
#include "tests/support/files.h"
#include "tests/support/suite.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
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

void program_run_killed(sw_outcome *out, const char *words, const char *env, uint64_t us)
{
    const pid_t pid = program_start("killed", words, env);
    const struct timespec until = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    nanosleep(&until, NULL);
    (void)kill(pid, SIGKILL); /* not waited for yet, so the number is still its own */
    sw_process_wait(out, pid, "killed", 300);
}

bool program_failed_cleanly(const sw_outcome *out, int status)
{
    return out->status == status && out->signal == 0 && out->out[0] == '\0' &&
           sw_count_lines(out->err) == 1;
}

const char *program_params(void)
{
    return sw_textf("%s", sw_temp_path("params"));
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

uint64_t program_train(sw_outcome *out, const char *words)
{
    (void)unlink(program_params());
    program_run(out,
                sw_textf("train --json --quiet --save-params %s %s", program_params(), words),
                NULL);
    const uint64_t hash = program_tensors(program_params());
    SW_CHECK(out->status == 0 && hash != 0, "%s: status %d: %s", words, out->status, out->err);
    return hash;
}

double program_number(const char *json, const char *name)
{
    char *end;
    const char *key = sw_textf("\"%s\":", name);
    const char *at = strstr(json, key);
    if (at == NULL)
        return (double)NAN;
    at += strlen(key);
    const double number = strtod(at, &end);
    return end > at ? number : (double)NAN;
}

/* The child's side: the terminal becomes its own, as it is for a program started from a shell.
 */
static void enter_terminal(const char *name, const char *const *argv, const char *const *env)
{
    char *list[64] = {0};
    setsid();
    signal(SIGHUP, SIG_DFL); /* the tests may run under nohup */
    const int fd = open(name, O_RDWR);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(126);
    for (size_t i = 0; env[i] != NULL; i++)
        putenv(strdup(env[i]));
    for (size_t i = 0; i < 63 && argv[i] != NULL; i++)
        list[i] = strdup(argv[i]);
    execv(list[0], list);
    _exit(127);
}

int program_on_terminal(char *text, size_t room, const char *words, const char *const *env,
                        int columns)
{
    size_t used = 0;
    int status = 0;
    pid_t pid;
    *text = '\0';
    const struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
        return -1;
    const char *const name = ptsname(master);
    /* Held open here, so that the size stays and reading does not end before the child begins.
     */
    const int slave = name != NULL ? open(name, O_RDWR | O_NOCTTY | O_CLOEXEC) : -1;
    if (slave < 0 || ioctl(slave, TIOCSWINSZ, &size) != 0)
        return -1;
    fflush(stdout);
    pid = fork();
    if (pid == 0)
        enter_terminal(name, split(words), env);
    close(slave);
    for (;;) {
        char rest[512];
        const bool fits = used + 1 < room;
        const ssize_t n =
            fits ? read(master, text + used, room - 1 - used) : read(master, rest, sizeof rest);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break; /* EIO: the other side is closed */
        used += fits ? (size_t)n : 0;
    }
    text[used] = '\0';
    close(master);
    errno = 0;
    if (waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

const char *idx_name(int which)
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

const char *path_of(const char *name)
{
    static char path[8][1024];
    static unsigned next;
    char *to = path[next++ % 8];
    snprintf(to, sizeof path[0], "%s", sw_temp_path(name));
    return to;
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
