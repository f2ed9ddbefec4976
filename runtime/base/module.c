/* Modules: found, looked at, opened. */
#include "runtime/base/module.h"
#include "alloc/base/sys.h"
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sw_status read_at(sw_file *file, uint64_t at, void *to, size_t bytes, bool *whole)
{
    size_t got = 0;
    SW_TRY(sw_file_seek(file, at));
    SW_TRY(sw_file_read(file, to, bytes, &got));
    *whole = got == bytes;
    return SW_OK;
}

/* Does [at, at + bytes) lie in the file? */
static bool inside(uint64_t at, uint64_t bytes, uint64_t size)
{
    return at <= size && bytes <= size - at;
}

/* All that the headers speak of is in the file: *why stays NULL. */
static sw_status look_at(sw_file *file, const char **why)
{
    Elf64_Ehdr head;
    uint64_t size = 0;
    bool whole = false;
    SW_TRY(sw_file_size(file, &size));
    SW_TRY(read_at(file, 0, &head, sizeof head, &whole));
    if (!whole || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_type != ET_DYN ||
        head.e_phentsize != sizeof(Elf64_Phdr)) {
        *why = "is not a shared library";
        return SW_OK;
    }
    if (!inside(head.e_shoff, (uint64_t)head.e_shentsize * head.e_shnum, size))
        *why = "is cut off";
    for (uint16_t i = 0; i < head.e_phnum && *why == NULL; i++) {
        Elf64_Phdr part;
        SW_TRY(read_at(file, head.e_phoff + i * sizeof part, &part, sizeof part, &whole));
        if (!whole || !inside(part.p_offset, part.p_filesz, size))
            *why = "is cut off";
    }
    return SW_OK;
}

static sw_status check_file(const swi_module_kind *kind, const char *path, const char *way)
{
    sw_file *file;
    const char *why = NULL;
    sw_status status = sw_file_open(&file, path, SW_FILE_READ);
    if (status == SW_OK) {
        status = look_at(file, &why);
        sw_file_drop(file);
    }
    if (status == SW_NOMEM)
        return status;
    if (status != SW_OK)
        SW_FAIL(SW_DEVICE, "%s: %s; %s", kind->what, sw_last_error(), way);
    if (why != NULL)
        SW_FAIL(SW_DEVICE, "%s: %s %s; %s", kind->what, path, why, way);
    return SW_OK;
}

static sw_status find(const swi_module_kind *kind, char *out)
{
    static const char *const places[] = {
        "stepwell",                  /* of the library, installed */
        "../" SW_LIBDIR "/stepwell", /* of a program, installed */
    };
    char folder[PATH_MAX];
    if (sw_library_path((const void *)(uintptr_t)swi_module_open, folder, sizeof folder) !=
        SW_OK)
        snprintf(folder, sizeof folder, SW_PREFIX "/" SW_LIBDIR "/x");
    *strrchr(folder, '/') = '\0';
    for (int k = 0; k < 4; k++) {
        if (k < 2)
            snprintf(out, SWI_MODULE_PATH, "%s/%s/%s", folder, places[k], kind->file);
        else if (k == 2) /* either, where they were built */
            snprintf(out, SWI_MODULE_PATH, "%s/../%s/%s", folder, kind->built, kind->file);
        else
            snprintf(out, SWI_MODULE_PATH, SW_PREFIX "/" SW_LIBDIR "/stepwell/%s", kind->file);
        if (sw_file_there(out))
            return SW_OK;
    }
    SW_FAIL(SW_DEVICE,
            "no %s: neither %s/stepwell/%s nor %s/stepwell/%s is there; %s, or name the file "
            "in %s",
            kind->what, folder, kind->file, SW_PREFIX "/" SW_LIBDIR, kind->file, kind->missing,
            kind->variable);
}

sw_status swi_module_open(const swi_module_kind *kind, const char *named,
                          char path[SWI_MODULE_PATH], void **entry)
{
    char way[120];
    void *library;
    if (named == NULL)
        named = secure_getenv(kind->variable);
    if (named == NULL || *named == '\0') {
        SW_TRY(find(kind, path));
        snprintf(way, sizeof way, "install it again");
    } else { /* a name without a folder would be searched for */
        snprintf(path, SWI_MODULE_PATH, "%s%s", strchr(named, '/') == NULL ? "./" : "", named);
        snprintf(way, sizeof way, "%s names it: name another, or unset it", kind->variable);
    }
    SW_TRY(check_file(kind, path, way));
    if (sw_library_open(&library, path) != SW_OK)
        SW_FAIL(SW_DEVICE, "%s: %s; %s", kind->what, sw_last_error(), way);
    if (sw_library_symbol(library, kind->entry, entry) != SW_OK)
        SW_FAIL(SW_DEVICE, "%s: %s is another library: %s; %s", kind->what, path,
                sw_last_error(), way);
    return SW_OK;
}
