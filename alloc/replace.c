/* A file that is written whole or not at all. */
#include "alloc/mem.h"
#include "alloc/sys.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static sw_status write_to(sw_file *file, sw_status (*write)(void *context, sw_file *file),
                          void *context)
{
    const sw_status status = write(context, file);
    if (status == SW_OK)
        return sw_file_close(file);
    sw_file_drop(file);
    return status;
}

/* What failed, with the name that the caller knows in place of the temporary one. */
static void say(char *to, size_t bytes, const char *path, const char *temporary)
{
    const char *reason = sw_last_error();
    const size_t n = strlen(temporary);
    if (strncmp(reason, temporary, n) == 0)
        snprintf(to, bytes, "%s%s", path, reason + n);
    else
        snprintf(to, bytes, "%s", reason);
}

/* Take the unfinished file away and answer with the failure that came first. */
static sw_status give_up(sw_status status, const char *path, const char *temporary)
{
    char reason[512];
    say(reason, sizeof reason, path, temporary);
    if (sw_file_remove(temporary) != SW_OK)
        SW_FAIL(status, "%s; %s is left behind", reason, temporary);
    SW_FAIL(status, "%s", reason);
}

static sw_status replace(const char *path, const char *temporary,
                         sw_status (*write)(void *context, sw_file *file), void *context)
{
    char reason[512];
    sw_file *file;
    sw_status status = sw_file_open(&file, temporary, SW_FILE_CREATE);
    if (status != SW_OK) {
        say(reason, sizeof reason, path, temporary);
        SW_FAIL(status, "%s", reason);
    }
    status = sw_file_take_mode(file, path); /* before a byte of it can be read */
    if (status == SW_OK)
        status = write_to(file, write, context);
    else
        sw_file_drop(file);
    if (status == SW_OK)
        status = sw_file_rename(temporary, path);
    return status == SW_OK ? SW_OK : give_up(status, path, temporary);
}

sw_status sw_file_replace(const char *path, sw_status (*write)(void *context, sw_file *file),
                          void *context)
{
    static unsigned begun; /* by this process */
    if (strcmp(path, "-") == 0 || !sw_file_replaceable(path)) {
        sw_file *file;
        SW_TRY(sw_file_open(&file, path, SW_FILE_WRITE));
        return write_to(file, write, context);
    }
    void *block;
    const size_t bytes = strlen(path) + 64;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, bytes));
    /* Of this call alone: what lies there by another name or of another process stays. */
    snprintf(block, bytes, "%s.%ld-%u.tmp", path, (long)getpid(),
             __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED));
    const sw_status status = replace(path, block, write, context);
    sw_heap_free(block, SW_HEAP_FILES, bytes);
    return status;
}
