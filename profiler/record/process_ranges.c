/* The places of this process: what alloc claims, the program and its libraries, and the few
 * mappings of the dynamic loader. */
#include "alloc/base/address_map.h"
#include "profiler/record/process.h"
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#if defined __GLIBC__
#include <dlfcn.h>
#endif

typedef struct {
    sw_process_range *at; /* NULL: only count */
    size_t n, cap, page;
    uintptr_t loader; /* where the dynamic loader lies; 0: there is none */
} list;

static void append(list *l, sw_process_kind kind, const char *name, uintptr_t base,
                   size_t bytes, size_t promised)
{
    if (l->at != NULL && l->n == l->cap)
        return; /* made between counting and taking */
    if (l->at != NULL) {
        sw_process_range *p = &l->at[l->n];
        *p = (sw_process_range){
            .base = base, .bytes = bytes, .kind = kind, .promised_bytes = promised};
        snprintf(p->name, sizeof p->name, "%s", name);
    }
    l->n++;
}

static void take_claim(void *context, const sw_address_range *c)
{
    static const sw_process_kind kinds[] = {SW_PROCESS_ARENA, SW_PROCESS_STACK,
                                            SW_PROCESS_HEAP};
    if (c->device != NULL)
        return; /* its bytes are none of the process */
    append(context, kinds[c->kind], c->label, c->base, c->bytes, c->promised_bytes);
}

/* The name of the file without its folder; the program itself has none here. */
static const char *object_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return path[0] == '\0' ? "the program" : slash != NULL ? slash + 1 : path;
}

/* Memory that the loader allocated before there was a heap lies in small mappings of its own.
 * Whatever its variables point to is known to be its: one page is as good as all. */
static void take_pointers(list *l, uintptr_t from, uintptr_t to)
{
    uintptr_t x, before = 0;
    for (uintptr_t at = from + (0 - from) % sizeof x; at + sizeof x <= to; at += sizeof x) {
        memcpy(&x, (const void *)at, sizeof x);
        if (x / l->page == 0 || x / l->page == before / l->page || x - from < to - from)
            continue;
        append(l, SW_PROCESS_CODE, "the loader's records", x, 0, 0);
        before = x;
    }
}

/* From the first to the last of its segments: files are mapped there, and zeroed data. */
static int take_object(struct dl_phdr_info *info, size_t size, void *context)
{
    list *l = context;
    uintptr_t from = UINTPTR_MAX, to = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        const uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        const uintptr_t end = at + info->dlpi_phdr[i].p_memsz;
        from = at < from ? at : from;
        to = end > to ? end : to;
        if (l->loader != 0 && info->dlpi_addr == l->loader &&
            (info->dlpi_phdr[i].p_flags & PF_W) != 0)
            take_pointers(l, at, end);
    }
    /* The main thread's own data of this object; the thread that asks is the main one. */
    if (size >= sizeof *info && info->dlpi_tls_data != NULL)
        append(l, SW_PROCESS_STACK, "main", (uintptr_t)info->dlpi_tls_data, 0, 0);
    if (to <= from)
        return 0;
    from -= from % l->page;
    to += (l->page - to % l->page) % l->page;
    append(l, SW_PROCESS_CODE, object_name(info->dlpi_name), from, to - from, 0);
    return 0;
}

/* Its records of what it loaded. */
static void take_loader(list *l)
{
#if defined __GLIBC__
    Dl_info info;
    void *found = NULL;
    if (dladdr1((const void *)(uintptr_t)&dladdr1, &info, &found, RTLD_DL_LINKMAP) == 0)
        return;
    const struct link_map *map = found;
    while (map != NULL && map->l_prev != NULL)
        map = map->l_prev;
    for (; map != NULL; map = map->l_next) {
        append(l, SW_PROCESS_CODE, "the loader's records", (uintptr_t)map, 0, 0);
        append(l, SW_PROCESS_CODE, "the loader's records", (uintptr_t)map->l_name, 0, 0);
    }
#else
    (void)l;
#endif
}

static void collect(list *l)
{
    l->n = 0;
    sw_address_map_visit(take_claim, l);
    (void)dl_iterate_phdr(take_object, l);
    take_loader(l);
    append(l, SW_PROCESS_STACK, "main", (uintptr_t)&errno, 0, 0);
}

sw_status sw_process_read(sw_process *out)
{
    list l = {.page = sw_page_bytes(), .loader = getauxval(AT_BASE)};
    collect(&l);
    l.cap = l.n + 16;
    SW_TRY(sw_heap_alloc(&l.at, SW_HEAP_PROFILE, l.cap * sizeof *l.at));
    sw_status status = SW_OK;
    /* The first time has the heap map what the second needs: then nothing moves. */
    for (int i = 0; i < 2 && status == SW_OK; i++) {
        collect(&l);
        status = sw_process_sum(out, "/proc/self/smaps", "/proc/self/pagemap", l.at, l.n,
                                sw_heap_unclaimed_bytes());
    }
    sw_heap_free(l.at, SW_HEAP_PROFILE, l.cap * sizeof *l.at);
    return status;
}
