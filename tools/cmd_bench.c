/* stepwell bench: becomes the program stepwell-bench, with the same words. It lies beside this
 * program, in the build folder and where both are installed; else under the prefix that was
 * configured. Signals and the exit status are then its own. */
#include "tools/cli/cli.h"
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define NAME "stepwell-bench"
#define INSTALLED SW_PREFIX "/" SW_BINDIR "/" NAME

/* Its path in the folder of this program; false where the system does not tell that folder. */
static bool beside(char *to, size_t capacity)
{
    const ssize_t n = readlink("/proc/self/exe", to, capacity);
    const char *end = n > 0 ? memrchr(to, '/', (size_t)n) : NULL;
    const size_t folder = end != NULL ? (size_t)(end - to) + 1 : 0;
    if (folder == 0 || folder + sizeof NAME > capacity)
        return false;
    memcpy(to + folder, NAME, sizeof NAME);
    return true;
}

/* Returns only where it cannot be run. */
static void become(char *path, char **argv)
{
    argv[0] = path;
    execv(path, argv);
}

int tool_bench(int argc, char **argv)
{
    char path[PATH_MAX], installed[] = INSTALLED;
    (void)argc;
    cli_set_command("bench");
    const bool known = beside(path, sizeof path);
    if (known)
        become(path, argv);
    const int why = errno;
    if (!known || why == ENOENT)
        become(installed, argv);
    return cli_error(CLI_FAILED,
                     "cannot run %s: %s; build or install all of stepwell, this program is a "
                     "part of it",
                     known ? path : installed, strerror(known ? why : errno));
}
