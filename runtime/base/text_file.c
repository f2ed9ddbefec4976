/* Texts of files. */
#include "runtime/base/text_file.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "runtime/stepwell.h"

void sw_text_free(char *text, size_t bytes)
{
    if (text != NULL)
        sw_heap_free(text, SW_HEAP_RECORDS, bytes + 1);
}

static sw_status read_text(char **out, size_t *bytes, sw_file *file, const char *is,
                           size_t most)
{
    uint64_t size;
    size_t got;
    char *text;
    if (sw_file_waits(file))
        SW_FAIL(SW_INVALID, "%s: %s must be a regular file", sw_file_path(file), is);
    SW_TRY(sw_file_size(file, &size));
    if (size > most)
        SW_FAIL(SW_FORMAT, "%s: %s has at most %zu bytes (got %llu)", sw_file_path(file), is,
                most, (unsigned long long)size);
    SW_TRY(sw_heap_alloc(&text, SW_HEAP_RECORDS, (size_t)size + 1));
    sw_status status = sw_file_read(file, text, (size_t)size, &got);
    if (status == SW_OK && got < size)
        status = sw_error_set(SW_FORMAT, __FILE__, __LINE__,
                              "%s: it became shorter while it was read", sw_file_path(file));
    if (status != SW_OK) {
        sw_text_free(text, (size_t)size);
        return status;
    }
    *out = text;
    *bytes = (size_t)size;
    return SW_OK;
}

sw_status swi_text_load(char **out, size_t *bytes, const char *path, const char *is,
                        size_t most)
{
    sw_file *file;
    SW_TRY(sw_file_open(&file, path, SW_FILE_READ));
    const sw_status status = read_text(out, bytes, file, is, most);
    sw_file_drop(file);
    return status;
}
