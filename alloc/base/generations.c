/* Moving generations up. Each change of a name is one call, so that a process that ends between
 * two of them leaves whole files, at most with one number free; the next replacing fills it. */
#include "alloc/base/generations.h"
#include "alloc/base/file_internal.h"
#include "alloc/base/sys.h"
#include <stdio.h>
#include <sys/stat.h>

bool sw_generation_name(char *to, size_t bytes, const char *path, int i)
{
    const int n =
        i == 0 ? snprintf(to, bytes, "%s", path) : snprintf(to, bytes, "%s.%d", path, i);
    return n >= 0 && (size_t)n < bytes;
}

static sw_status name(const swi_generations *g, char *to, int i)
{
    if (!sw_generation_name(to, g->bytes, g->path, i))
        SW_FAIL(SW_IO, "%s: its name is too long for generation %d", g->path, i);
    return SW_OK;
}

static bool is_folder(const char *path)
{
    struct stat now;
    return lstat(path, &now) == 0 && S_ISDIR(now.st_mode);
}

sw_status swi_generations_look(const swi_generations *g, int *free)
{
    *free = 1;
    for (int i = 1; i < g->keep; i++) {
        bool there;
        SW_TRY(name(g, g->to, i));
        SW_TRY(sw_file_look(g->to, &there));
        if (there && is_folder(g->to))
            SW_FAIL(SW_IO, "%s: is a folder, and cannot become an older generation", g->to);
        *free = i;
        if (!there)
            break;
    }
    return SW_OK;
}

sw_status swi_generations_move(const swi_generations *g, bool *kept)
{
    int free;
    bool there;
    *kept = true;
    if (g->keep <= 1)
        return SW_OK;
    SW_TRY(sw_file_look(g->path, &there));
    if (!there)
        return SW_OK;
    SW_TRY(name(g, g->to, 1));
    if (sw_file_same(g->path, g->to))
        return SW_OK;
    SW_TRY(swi_generations_look(g, &free));
    for (int i = free; i > 1; i--) {
        SW_TRY(name(g, g->from, i - 1));
        SW_TRY(name(g, g->to, i));
        SW_TRY(sw_file_rename(g->from, g->to));
    }
    SW_TRY(name(g, g->to, 1));
    const sw_status status = sw_file_second_name(g->path, g->to);
    *kept = status != SW_UNSUPPORTED;
    return *kept ? status : SW_OK;
}
