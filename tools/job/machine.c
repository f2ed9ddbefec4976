/* See machine.h. /proc/self/cgroup has a line "ID:CONTROLLERS:PATH" per hierarchy; the limit of
 * a group is in a file of its folder. Where a container sees its own group as the root, the
 * path may lead nowhere: its parents, up to the root, are looked at all the same. */
#include "tools/job/machine.h"
#include "alloc/base/sys.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096

static sw_status read_file(const char *path, char *to, size_t capacity)
{
    sw_file *file;
    size_t n = 0;
    bool there;
    SW_TRY(sw_file_look(path, &there));
    if (!there)
        return SW_OK;
    SW_TRY(sw_file_open(&file, path, SW_FILE_READ));
    const sw_status status = sw_file_read(file, to, capacity - 1, &n);
    to[status == SW_OK ? n : 0] = '\0';
    sw_file_drop(file);
    return status;
}

/* The beginning of a small file; "" where there is none, and where it cannot be read, which is
 * said in `m` the first time. */
static sw_status read_text(machine *m, const char *path, char *to, size_t capacity)
{
    to[0] = '\0';
    const sw_status status = read_file(path, to, capacity);
    if (status != SW_IO)
        return status;
    if (m->limit_unknown[0] == '\0')
        snprintf(m->limit_unknown, sizeof m->limit_unknown, "%s", sw_last_error());
    return SW_OK;
}

/* The number of a file, or after `key` in it; *known is false where it has none, which is said
 * in `m`. */
static sw_status read_number(machine *m, const char *path, const char *key, size_t *out,
                             bool *known)
{
    char text[8192];
    SW_TRY(read_text(m, path, text, sizeof text));
    const char *at = strstr(text, key);
    at = at != NULL ? at + strlen(key) + strspn(at + strlen(key), " ") : "";
    *known = *at >= '0' && *at <= '9';
    if (*known)
        *out = (size_t)strtoull(at, NULL, 10);
    else if (m->limit_unknown[0] == '\0')
        snprintf(m->limit_unknown, sizeof m->limit_unknown, "%s: no number%s%s", path,
                 *key != '\0' ? " after " : "", key);
    return SW_OK;
}

/* The limit of one group; a text that is no number ("max") is none. */
static sw_status take_limit(const char *folder, bool second, machine *m)
{
    char path[PATH_BYTES + 32], text[64];
    snprintf(path, sizeof path, "%s/%s", folder,
             second ? "memory.max" : "memory.limit_in_bytes");
    SW_TRY(read_text(m, path, text, sizeof text));
    if (text[0] < '0' || text[0] > '9')
        return SW_OK;
    const size_t limit = (size_t)strtoull(text, NULL, 10);
    if (limit < m->bytes)
        m->bytes = limit;
    if (m->left == 0 || limit > SIZE_MAX / 4) /* version 1 has such a number for none */
        return SW_OK;
    size_t used = 0, files = 0;
    bool known;
    snprintf(path, sizeof path, "%s/%s", folder,
             second ? "memory.current" : "memory.usage_in_bytes");
    SW_TRY(read_number(m, path, "", &used, &known));
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (known)
        SW_TRY(read_number(m, path, second ? "inactive_file" : "total_inactive_file", &files,
                           &known));
    used -= files < used ? files : used;
    const size_t left = used < limit ? limit - used : 0;
    if (left < m->left) {
        m->left = left;
        m->group = true;
    }
    return SW_OK;
}

/* `group` and all its parents; it is cut on the way. */
static sw_status take_groups(const char *base, char *group, bool second, machine *m)
{
    char path[PATH_BYTES];
    for (;;) {
        char *slash = strrchr(group, '/');
        if (slash != NULL && slash[1] == '\0')
            *slash = '\0';
        const int n = snprintf(path, sizeof path, "%s%s", base, group);
        if (n > 0 && n < PATH_BYTES)
            SW_TRY(take_limit(path, second, m));
        slash = strrchr(group, '/');
        if (slash == NULL)
            return SW_OK;
        *slash = '\0';
    }
}

static sw_status take_line(const char *root, char *line, machine *m)
{
    char base[PATH_BYTES];
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL)
        return SW_OK;
    *controllers++ = *group++ = '\0';
    const bool second = *controllers == '\0';
    if (!second && strcmp(controllers, "memory") != 0)
        return SW_OK;
    const int n =
        snprintf(base, sizeof base, "%s/sys/fs/cgroup%s", root, second ? "" : "/memory");
    if (n < 0 || n >= PATH_BYTES)
        return SW_OK;
    return take_groups(base, group, second, m);
}

static sw_status look(const char *root, machine *out, bool left)
{
    char path[PATH_BYTES], text[8192];
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    machine m = {.bytes = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : SIZE_MAX};
    bool known = false;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (left)
        SW_TRY(read_number(&m, path, "MemAvailable:", &m.left, &known));
    if (known)
        m.left *= 1024;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    SW_TRY(read_text(&m, path, text, sizeof text));
    char *next;
    for (char *line = strtok_r(text, "\n", &next); line != NULL;
         line = strtok_r(NULL, "\n", &next))
        SW_TRY(take_line(root, line, &m));
    *out = m;
    return SW_OK;
}

sw_status machine_memory(const char *root, machine *out)
{
    return look(root, out, false);
}

sw_status machine_left(const char *root, machine *out)
{
    return look(root, out, true);
}
