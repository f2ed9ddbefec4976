/* Finding and opening libstepwell-cuda.so.
 *
 * STEPWELL_CUDA_MODULE names the file, and then nothing else is tried. Otherwise it lies where
 * it was installed: seen from the library, seen from a program that has the library inside, or
 * under the prefix that was configured; or, not yet installed, in the folder that it was built
 * in. A file is opened by its path, never searched by name. Before that it is looked at: the
 * system maps a file that was cut off without a word, and the process dies where it is read. */
#include "runtime/device/device_module.h"
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "libstepwell-cuda.so"
#define VARIABLE "STEPWELL_CUDA_MODULE"

/* ---- the file ---------------------------------------------------------------------------- */

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

static sw_status check_file(const char *path, const char *way)
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
        SW_FAIL(SW_DEVICE, "CUDA module: %s; %s", sw_last_error(), way);
    if (why != NULL)
        SW_FAIL(SW_DEVICE, "CUDA module: %s %s; %s", path, why, way);
    return SW_OK;
}

/* ---- what it offers ---------------------------------------------------------------------- */

static sw_status take(void **out, size_t bytes)
{
    return sw_heap_alloc(out, SW_HEAP_RECORDS, bytes);
}
static void give(void *block, size_t bytes)
{
    sw_heap_free(block, SW_HEAP_RECORDS, bytes);
}

static sw_status check_offer(const char *path, const sw_cuda_module *m)
{
    if (m == NULL || m->abi != SW_CUDA_ABI || m->size != sizeof *m)
        SW_FAIL(SW_DEVICE,
                "CUDA module: %s is of another version than the library (which has ABI %u); "
                "install both from one build",
                path, SW_CUDA_ABI);
    if (m->entry_size != sizeof(sw_cuda_entry) || m->api_size != sizeof(sw_cuda_api) ||
        m->fusion_size != sizeof(sw_cuda_fusion) || m->entries == NULL || m->api == NULL ||
        (m->fusions == NULL && m->n_fusions > 0))
        SW_FAIL(SW_DEVICE,
                "CUDA module: %s has ABI %u as the library, but tables of other sizes: entries "
                "%u for %zu bytes, functions %u for %zu, pairs %u for %zu; install both from "
                "one build",
                path, m->abi, m->entry_size, sizeof(sw_cuda_entry), m->api_size,
                sizeof(sw_cuda_api), m->fusion_size, sizeof(sw_cuda_fusion));
    return SW_OK;
}

static sw_status open_file(const sw_cuda_module **out, const char *path, const char *way)
{
    static const sw_cuda_host host = {SW_CUDA_ABI, sizeof host, sw_error_set, take, give};
    void *library, *symbol;
    SW_TRY(check_file(path, way));
    if (sw_library_open(&library, path) != SW_OK)
        SW_FAIL(SW_DEVICE, "CUDA module: %s; %s", sw_last_error(), way);
    if (sw_library_symbol(library, "sw_cuda_module_open", &symbol) != SW_OK)
        SW_FAIL(SW_DEVICE, "CUDA module: %s is another library: %s; %s", path, sw_last_error(),
                way);
    sw_cuda_module_opener *opener;
    memcpy(&opener, &symbol, sizeof opener);
    const sw_cuda_module *module = opener(&host);
    SW_TRY(check_offer(path, module));
    *out = module;
    return SW_OK;
}

/* ---- where it lies ----------------------------------------------------------------------- */

/* Place k for a library or program in `folder`; false past the last. */
static bool place(int k, const char *folder, char *out, size_t bytes)
{
    static const char *const beside[] = {
        "stepwell/" FILE_NAME,                  /* the library, installed */
        "../" SW_LIBDIR "/stepwell/" FILE_NAME, /* a program, installed */
        "../kernels/cuda/" FILE_NAME,           /* either, where they were built */
    };
    const int n = (int)(sizeof beside / sizeof *beside);
    if (k < n)
        snprintf(out, bytes, "%s/%s", folder, beside[k]);
    else
        snprintf(out, bytes, "%s/stepwell/" FILE_NAME, SW_PREFIX "/" SW_LIBDIR);
    return k <= n;
}

static sw_status find(char *out, size_t bytes)
{
    char folder[PATH_MAX];
    if (sw_library_path((const void *)(uintptr_t)swi_device_module, folder, sizeof folder) !=
        SW_OK)
        snprintf(folder, sizeof folder, SW_PREFIX "/" SW_LIBDIR "/x");
    *strrchr(folder, '/') = '\0';
    for (int k = 0; place(k, folder, out, bytes); k++)
        if (sw_file_there(out))
            return SW_OK;
    SW_FAIL(SW_DEVICE,
            "no CUDA module: neither %s/stepwell/" FILE_NAME " nor %s/stepwell/" FILE_NAME
            " is there; build with -Dcuda=enabled, or name the file in " VARIABLE,
            folder, SW_PREFIX "/" SW_LIBDIR);
}

sw_status swi_device_module(const sw_cuda_module **out)
{
    static const sw_cuda_module *opened;
    if (opened == NULL) {
        char path[2 * PATH_MAX];
        const char *named = secure_getenv(VARIABLE);
        const char *way = VARIABLE " names it: name another, or unset it";
        if (named == NULL || *named == '\0') {
            SW_TRY(find(path, sizeof path));
            way = "install it again";
        } else { /* a name without a folder would be searched for */
            snprintf(path, sizeof path, "%s%s", strchr(named, '/') == NULL ? "./" : "", named);
        }
        SW_TRY(open_file(&opened, path, way));
    }
    *out = opened;
    return SW_OK;
}
