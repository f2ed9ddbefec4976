/* Whether two names are one file. */
#include "tools/report/file_same.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where a name leads: a file that is there, or a folder and the name in it that would be
 * made. */
typedef struct {
    bool known, there;
    dev_t device;
    ino_t inode; /* of the file, or of its folder */
    const char *last;
} place;

/* The path that a link leads to, one link at a time; false where it is no link. */
static bool follow(char *path)
{
    char target[FILE_PATH_BYTES];
    const ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0)
        return false;
    target[n] = '\0';
    char *slash = strrchr(path, '/');
    const size_t folder = target[0] == '/' || slash == NULL ? 0 : (size_t)(slash + 1 - path);
    if (folder + (size_t)n >= FILE_PATH_BYTES)
        return false;
    memcpy(path + folder, target, (size_t)n + 1);
    return true;
}

/* `path` has FILE_PATH_BYTES and is changed: the answer points into it. */
static place find(char *path)
{
    struct stat st;
    for (int links = 0; stat(path, &st) != 0; links++)
        if (links == 40 || !follow(path)) { /* nothing there: its folder decides */
            char *slash = strrchr(path, '/');
            const char *folder = slash == NULL ? "." : slash == path ? "/" : path;
            const char *last = slash == NULL ? path : slash + 1;
            if (slash != NULL && slash != path)
                *slash = '\0';
            if (stat(folder, &st) != 0)
                return (place){0};
            return (place){true, false, st.st_dev, st.st_ino, last};
        }
    if (!S_ISREG(st.st_mode)) /* a device has nothing that could be lost */
        return (place){0};
    return (place){true, true, st.st_dev, st.st_ino, ""};
}

bool file_same(const char *a, const char *b)
{
    char path[2][FILE_PATH_BYTES];
    if (a == NULL || b == NULL || strlen(a) >= FILE_PATH_BYTES || strlen(b) >= FILE_PATH_BYTES)
        return false;
    memcpy(path[0], a, strlen(a) + 1);
    memcpy(path[1], b, strlen(b) + 1);
    const place x = find(path[0]), y = find(path[1]);
    return x.known && y.known && x.there == y.there && x.device == y.device &&
           x.inode == y.inode && strcmp(x.last, y.last) == 0;
}
