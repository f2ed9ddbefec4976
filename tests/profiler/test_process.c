/* The process reconciled: what is read of kept mappings, worked out by hand, and of the process
 * of this test. */
#include "alloc/arena/arena.h"
#include "alloc/base/poison.h"
#include "alloc/base/sys.h"
#include "profiler/record/process.h"
#include "tests/support/files.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include <sys/mman.h>
#include <unistd.h>

SW_TESTS("process")

#if SW_POISON || defined __SANITIZE_THREAD__
#define SANITIZED 1
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define KIB ((size_t)1024)
#define MIB (KIB * 1024)

static const sw_process_line *line(const sw_process *p, sw_process_kind kind, const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->line[i].kind == kind && strcmp(p->line[i].name, name) == 0)
            return &p->line[i];
    return NULL;
}

/* Resident KiB of a line; SIZE_MAX where there is none. */
static size_t kib(const sw_process *p, sw_process_kind kind, const char *name)
{
    const sw_process_line *l = line(p, kind, name);
    return l != NULL ? l->resident_bytes / KIB : SIZE_MAX;
}

static size_t sum(const sw_process *p)
{
    size_t bytes = 0;
    for (size_t i = 0; i < p->n; i++)
        bytes += p->line[i].resident_bytes;
    return bytes;
}

/* ---- kept mappings ----------------------------------------------------------------------- */

/* How the line of /proc/self/smaps begins, its path, and KiB resident, of them in huge pages. A
 * mapping without a file is anonymous. */
typedef struct {
    const char *at, *path;
    unsigned resident, huge;
    const char *flags; /* NULL: "rd mr mw me " */
} mapping;

static const mapping plain_text[] = {
    {"558c198dc000-558c198e0000 r--p 00000000 fe:00 1001", "/opt/bin/trainer", 16},
    {"558c198e0000-558c198f0000 r-xp 00004000 fe:00 1001", "/opt/bin/trainer", 48},
    {"558c198f0000-558c198f2000 rw-p 00014000 fe:00 1001", "/opt/bin/trainer", 8},
    {"558c198f2000-558c198fa000 rw-p 00000000 00:00 0", "", 12},
    {"558c1a000000-558c1a021000 rw-p 00000000 00:00 0", "[heap]", 20},
    {"7f1000001000-7f1000101000 rw-p 00000000 00:00 0", "", 1024},
    {"7f1000101000-7f1040000000 ---p 00000000 00:00 0", "", 0},
    {"7f1050000000-7f1050400000 rw-p 00000000 00:00 0", "", 100},
    {"7f1060000000-7f1060008000 rw-p 00000000 00:00 0", "", 28},
    {"7f1070000000-7f1070100000 r-xp 00000000 fe:00 2002", "/usr/lib/libc.so.6", 600},
    {"7f1070100000-7f1070102000 rw-p 00100000 fe:00 2002", "/usr/lib/libc.so.6", 8},
    {"7f1070102000-7f1070110000 rw-p 00000000 00:00 0", "", 16},
    {"7f1080000000-7f1080300000 r--p 00000000 fe:00 3003", "/usr/lib/locale/locale-archive",
     200},
    {"7ffd1d2a0000-7ffd1d2c1000 rw-p 00000000 00:00 0", "[stack]", 40},
    {"7ffd1d3f0000-7ffd1d3f4000 r--p 00000000 00:00 0", "[vvar]", 0},
    {"7ffd1d3f4000-7ffd1d3f6000 r-xp 00000000 00:00 0", "[vdso]", 4},
    {"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0", "[vsyscall]", 0},
    {NULL},
};

/* Blanks in paths, deleted files, memory files, names that an allocator gave. */
static const mapping odd_text[] = {
    {"400000-410000 r-xp 00000000 fe:00 11", "/opt/my program/run it", 64},
    {"7f0000000000-7f0000010000 r-xp 00000000 fe:00 12",
     "/opt/lib (deleted)/lib one.so (deleted)", 32},
    {"7f0000020000-7f0000030000 rw-s 00000000 00:01 13", "/memfd:pool one (deleted)", 12},
    {"7f0000040000-7f0000050000 rw-s 00000000 00:05 14", "/dev/zero (deleted)", 4},
    {"7f0000060000-7f0000070000 r--p 00000000 fe:00 15", "/data/two\\012lines.idx", 8},
    {"7f0000080000-7f0000090000 rw-p 00000000 00:00 0", "[anon:another allocator]", 28},
    {"7f00000a0000-7f00000b0000 rw-p 00000000 00:00 16", "anon_inode:[io_uring]", 0},
    {"7f00000c0000-7f00000d0000 r--p 00000000 fe:00 17", "/data/(deleted)", 16},
    {NULL},
};

static const mapping huge_text[] = {
    {"7f1000000000-7f1000800000 rw-p 00000000 00:00 0", "", 6144, 4096,
     "rd wr mr mw me nr hg "},
    {"7f1000800000-7f1040000000 ---p 00000000 00:00 0", "", 0},
    {"7f1050000000-7f1050400000 rw-p 00000000 00:00 0", "", 2048, 2048},
    {NULL},
};

static char text[64 << 10];

/* Them as the kernel writes them; how many bytes. */
static size_t write_text(const mapping *m)
{
    size_t n = 0;
    for (; m->at != NULL; m++) {
        unsigned long long begin = 0, end = 0;
        CU_ASSERT_EQUAL_FATAL(sscanf(m->at, "%llx-%llx", &begin, &end), 2);
        const unsigned resident = m->resident;
        const int width = m->path[0] != '\0' ? 73 : (int)strlen(m->at) + 1;
        n += (size_t)snprintf(
            text + n, sizeof text - n,
            "%-*s%s\n"
            "Size:           %8llu kB\nKernelPageSize:        4 kB\n"
            "MMUPageSize:           4 kB\nRss:            %8u kB\n"
            "Pss:            %8u kB\nPss_Dirty:             0 kB\n"
            "Shared_Clean:          0 kB\nShared_Dirty:          0 kB\n"
            "Private_Clean:         0 kB\nPrivate_Dirty:  %8u kB\nReferenced:     %8u kB\n"
            "Anonymous:      %8u kB\nKSM:                   0 kB\nLazyFree:              0 kB\n"
            "AnonHugePages:  %8u kB\nShmemPmdMapped:        0 kB\nFilePmdMapped:         0 kB\n"
            "Shared_Hugetlb:        0 kB\nPrivate_Hugetlb:       0 kB\n"
            "Swap:                  0 kB\nSwapPss:               0 kB\n"
            "Locked:                0 kB\nTHPeligible:           0\nVmFlags: %s\n",
            width, m->at, m->path, (end - begin) / KIB, resident, resident, resident, resident,
            m->path[0] == '/' ? 0 : resident, m->huge,
            m->flags != NULL ? m->flags : "rd mr mw me ");
    }
    return n;
}

static const char *kept(const mapping *m)
{
    const char *path = sw_temp_path("kept");
    sw_file_put(path, text, write_text(m));
    return path;
}

/* Not in order; the bss of the program and of libc is anonymous. */
static const sw_process_range plain[] = {
    {0x7f1070000000, 0x110000, SW_PROCESS_CODE, "libc.so.6", 0},
    {0x7f1060001040, 0, SW_PROCESS_STACK, "main", 0},
    {0x7f1000001000, 0x3ffff000, SW_PROCESS_ARENA, "step", MIB - 64},
    {0x558c198dc000, 0x1e000, SW_PROCESS_CODE, "the program", 0},
};

static sw_status read_plain(sw_process *p, size_t heap_bytes)
{
    sw_process_range ranges[4];
    memcpy(ranges, plain, sizeof ranges);
    return sw_process_sum(p, kept(plain_text), NULL, ranges, 4, heap_bytes);
}

SW_TEST("each mapping has its line, and they add up")
{
    sw_process p;
    CU_ASSERT_EQUAL_FATAL(read_plain(&p, 4 * MIB), SW_OK);
    CU_ASSERT_EQUAL(p.resident_bytes, 2124 * KIB);
    CU_ASSERT_EQUAL(sum(&p), p.resident_bytes);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_ARENA, "step"), 1024);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_CODE, "the program"), 16 + 48 + 8 + 12);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_CODE, "libc.so.6"), 600 + 8 + 16);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_STACK, "main"), 40 + 28); /* and its thread's data */
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_HEAP, "malloc"), 20 + 100);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_FILE, "locale-archive"), 200);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_SYSTEM, "vdso, vvar"), 4);
    CU_ASSERT_EQUAL(sw_process_rest(&p), 0);
    const sw_process_line *step = line(&p, SW_PROCESS_ARENA, "step");
    CU_ASSERT_PTR_NOT_NULL_FATAL(step);
    CU_ASSERT(step->predicted && step->predicted_bytes == MIB); /* whole pages */
    CU_ASSERT_EQUAL(step->mapped_bytes, MIB); /* what may be touched, not what is reserved */
    CU_ASSERT(sw_process_arenas(&p).equal);
    sw_process_predict(&p, "step", MIB + 4096);
    CU_ASSERT_FALSE(sw_process_arenas(&p).equal);
    sw_process_predict(&p, "another", 4096); /* is not there: nothing happens */
    CU_ASSERT_EQUAL(sw_process_arenas(&p).predicted_bytes, MIB + 4096);
}

/* Memory that the heap did not report as mapped has no owner. */
SW_TEST("what no one claims is unexplained")
{
    sw_process p;
    CU_ASSERT_EQUAL_FATAL(read_plain(&p, 4 * MIB - 64 * KIB - 1), SW_OK);
    CU_ASSERT_EQUAL(sw_process_rest(&p), 100 * KIB);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_HEAP, "malloc"), 20);
    CU_ASSERT_EQUAL(sum(&p), p.resident_bytes);
    CU_ASSERT_EQUAL_FATAL(read_plain(&p, 4 * MIB - 64 * KIB), SW_OK); /* grown together */
    CU_ASSERT_EQUAL(sw_process_rest(&p), 0);
    CU_ASSERT_EQUAL_FATAL(sw_process_sum(&p, kept(plain_text), NULL, NULL, 0, 0), SW_OK);
    CU_ASSERT_EQUAL(sw_process_rest(&p), (12 + 1024 + 100 + 28 + 16) * KIB);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_FILE, "trainer"), 16 + 48 + 8);
    CU_ASSERT_EQUAL(sum(&p), p.resident_bytes);
    /* Two of the mappings are together what the heap has: 56 KiB, libc's zeroed data, and 1
     * MiB, the arena's. */
    CU_ASSERT_EQUAL_FATAL(
        sw_process_sum(&p, kept(plain_text), NULL, NULL, 0, (56 + 1024) * KIB), SW_OK);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_HEAP, "malloc"), 20 + 16 + 1024);
    CU_ASSERT_EQUAL(sum(&p), p.resident_bytes);
}

SW_TEST("huge pages are counted")
{
    sw_process p;
    sw_process_range step = {0x7f1000000000, 0x40000000, SW_PROCESS_ARENA, "step", 6 * MIB};
    CU_ASSERT_EQUAL_FATAL(sw_process_sum(&p, kept(huge_text), NULL, &step, 1, 0), SW_OK);
    const sw_process_line *l = line(&p, SW_PROCESS_ARENA, "step");
    CU_ASSERT_PTR_NOT_NULL_FATAL(l);
    CU_ASSERT_EQUAL(l->resident_bytes, 6 * MIB);
    CU_ASSERT_EQUAL(l->huge_bytes, 4 * MIB);
    CU_ASSERT_EQUAL(l->mapped_bytes, 8 * MIB);
    CU_ASSERT_EQUAL(sw_process_rest(&p), 2 * MIB);
    CU_ASSERT_EQUAL(sum(&p), p.resident_bytes);
}

SW_TEST("odd names are read")
{
    sw_process p;
    CU_ASSERT_EQUAL_FATAL(sw_process_sum(&p, kept(odd_text), NULL, NULL, 0, 0), SW_OK);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_FILE, "run it"), 64);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_FILE, "lib one.so"), 32);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_FILE, "memfd:pool one"), 12);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_FILE, "zero"), 4);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_FILE, "two\\012lines.idx"), 8);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_FILE, "(deleted)"), 16);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_SYSTEM, "[anon:another allocator]"), 28);
    CU_ASSERT_EQUAL(sum(&p), p.resident_bytes);
    CU_ASSERT_EQUAL(p.resident_bytes, 164 * KIB);
}

/* ---- damage ------------------------------------------------------------------------------ */

static sw_status read_text(const char *bytes, size_t n, sw_process *p)
{
    const char *path = sw_temp_path("smaps");
    sw_file_put(path, bytes, n);
    return sw_process_sum(p, path, NULL, NULL, 0, 0);
}

/* Every beginning of a text is refused, by the number of the line where it ends, unless it
 * ends with a mapping. (In the first mapping the number of figures is not known yet.) */
SW_TEST("a cut text is refused by its line")
{
    static const char ending[] = "VmFlags: ";
    sw_process p;
    const size_t n = write_text(plain_text);
    const uint64_t blocks = sw_heap_blocks();
    size_t first = (size_t)(strstr(text, ending) - text);
    first += strcspn(text + first, "\n") + 1;
    int at_line = 25, bad = 0;
    for (size_t cut = first + 1; cut < n;
         cut += text[cut] == '\n' || text[cut - 1] == '\n' ? 1 : 7) {
        at_line = 1;
        for (size_t i = 0; i + 1 < cut; i++)
            at_line += text[i] == '\n';
        size_t begin = cut - 1;
        while (begin > 0 && text[begin - 1] != '\n')
            begin--;
        const bool whole = text[cut - 1] == '\n' && memcmp(text + begin, ending, 9) == 0;
        const char *wanted = sw_textf(": line %d: ", at_line);
        const sw_status status = read_text(text, cut, &p);
        bad += status != (whole ? SW_OK : SW_FORMAT) ||
               (!whole && strstr(sw_last_error(), wanted) == NULL);
        if (bad == 1)
            SW_CHECK(false, "cut at %zu, line %d: status %d, %s", cut, at_line, (int)status,
                     sw_last_error());
    }
    CU_ASSERT_EQUAL(bad, 0);
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
    CU_ASSERT_EQUAL(read_text("", 0, &p), SW_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "line 1: there is no mapping"));
}

SW_TEST("damage names the line")
{
    static const struct {
        const char *from, *to, *says;
    } changes[] = {
        {"Rss:                  16 kB", "Rss:                  1x kB", "line 5: "},
        {"Rss:                  16 kB", "Rss:                  16 MB", "line 5: "},
        {"Rss:                  16 kB", "Rsz:                  16 kB", "without 'Rss'"},
        {"Rss:                  16 kB", "Rss: 99999999999999999999 kB", "line 5: "},
        {"Rss:                  48 kB", "Rss:                 480 kB", "line 50: "},
        {"558c198e0000-", "558c198e0000_", "line 26: "},
        {"558c198e0000-558c198f0000", "558c198df000-558c198f0000", "line 26: "},
        {"558c198e0000-558c198f0000", "558c198e0000-558c198e0000", "line 26: "},
        {"558c198dc000", "Size:  16 kB\n558c198dc000", "line 1: "},
        {"Locked:                0 kB", "Locked", "line 23: "},
        {"r-xp 00004000 fe:00 1001", "r-xp", "line 26: "},
    };
    static char changed[sizeof text + 64];
    sw_process p;
    (void)write_text(plain_text);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const char *at = strstr(text, changes[i].from);
        CU_ASSERT_PTR_NOT_NULL_FATAL(at);
        const int n = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text,
                               changes[i].to, at + strlen(changes[i].from));
        const sw_status status = read_text(changed, (size_t)n, &p);
        SW_CHECK(status == SW_FORMAT && strstr(sw_last_error(), changes[i].says) != NULL,
                 "%s: status %d, %s", changes[i].to, (int)status, sw_last_error());
    }
}

SW_TEST("a text that is not there is named")
{
    sw_process p;
    CU_ASSERT_EQUAL(sw_process_sum(&p, "/nowhere/smaps", NULL, NULL, 0, 0), SW_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "/nowhere/smaps"));
}

/* More names than there are lines: each kind has one for the others, and nothing is lost. */
SW_TEST("many arenas share lines, and nothing is lost")
{
    enum { ARENAS = 300 };
    static sw_process_range ranges[ARENAS];
    sw_process p;
    for (size_t i = 0; i < ARENAS; i++) {
        ranges[i] =
            (sw_process_range){0x7f1000001000 + i * 4096, 4096, SW_PROCESS_ARENA, "", 64};
        snprintf(ranges[i].name, sizeof ranges[i].name, "member %zu", i);
    }
    CU_ASSERT_EQUAL_FATAL(sw_process_sum(&p, kept(plain_text), NULL, ranges, ARENAS, 4 * MIB),
                          SW_OK);
    CU_ASSERT(p.n <= SW_PROCESS_LINES);
    CU_ASSERT_EQUAL(sum(&p), p.resident_bytes);
    CU_ASSERT_EQUAL(sw_process_arenas(&p).predicted_bytes, (size_t)ARENAS * 4096);
    CU_ASSERT_PTR_NOT_NULL(line(&p, SW_PROCESS_ARENA, "(others)"));
}

/* ---- this process ------------------------------------------------------------------------ */

static void destroy(void *arena)
{
    sw_arena_destroy(arena);
}

static sw_arena *arena_of(size_t bytes, const char *label)
{
    sw_store *store = NULL;
    sw_arena *arena = NULL;
    CU_ASSERT_EQUAL_FATAL(sw_store_host_create(&store, 64 * MIB), SW_OK);
    const sw_arena_opts opts = {.label = label, .store = store};
    CU_ASSERT_EQUAL_FATAL(sw_arena_create(&arena, &opts), SW_OK);
    sw_after(destroy, arena);
    CU_ASSERT_EQUAL_FATAL(sw_arena_grow(arena, bytes, true), SW_OK);
    return arena;
}

/* False, and a skip, where the system says nothing. */
static bool readable(void)
{
    return access("/proc/self/smaps", R_OK) == 0;
}

#define HALF (3 * MIB)

SW_TEST("an arena is resident where it was touched")
{
    sw_process p;
    if (!readable())
        SW_SKIP("no /proc/self/smaps");
    sw_arena *arena = arena_of(2 * HALF, "half");
    CU_ASSERT_EQUAL_FATAL(sw_process_read(&p), SW_OK);
    CU_ASSERT_EQUAL(kib(&p, SW_PROCESS_ARENA, "half"), 0);
    CU_ASSERT_EQUAL_FATAL(sw_arena_place(arena, 0, HALF, 1), SW_OK);
    memset(sw_arena_base(arena), 1, HALF);
    CU_ASSERT_EQUAL_FATAL(sw_process_read(&p), SW_OK);
    const sw_process_line *l = line(&p, SW_PROCESS_ARENA, "half");
    CU_ASSERT_PTR_NOT_NULL_FATAL(l);
    CU_ASSERT_EQUAL(l->resident_bytes, HALF);
    CU_ASSERT_EQUAL(l->predicted_bytes, 2 * HALF);
    CU_ASSERT_EQUAL(l->mapped_bytes, 2 * HALF);
    CU_ASSERT_EQUAL(sum(&p), p.resident_bytes);
    sw_process_predict(&p, "half", HALF);
    CU_ASSERT_EQUAL(line(&p, SW_PROCESS_ARENA, "half")->predicted_bytes, HALF);
}

/* A huge page stands for all its addresses, however few were touched; where the system gives
 * none, a page for each. */
SW_TEST("huge pages of an arena are reported")
{
    sw_process p;
    if (!readable())
        SW_SKIP("no /proc/self/smaps");
    sw_arena *arena = arena_of(16 * MIB, "huge");
    if (madvise(sw_arena_base(arena), 16 * MIB, MADV_HUGEPAGE) != 0)
        SW_SKIP("this system has no huge pages");
    sw_unpoison(sw_arena_base(arena), 16 * MIB);
    for (size_t at = 0; at < 16 * MIB; at += 2 * MIB)
        sw_arena_base(arena)[at] = 1;
    CU_ASSERT_EQUAL_FATAL(sw_process_read(&p), SW_OK);
    const sw_process_line *l = line(&p, SW_PROCESS_ARENA, "huge");
    CU_ASSERT_PTR_NOT_NULL_FATAL(l);
    CU_ASSERT(l->resident_bytes <= l->mapped_bytes && l->huge_bytes <= l->resident_bytes);
    CU_ASSERT(l->resident_bytes - l->huge_bytes <= 8 * 2 * MIB / 4);
    CU_ASSERT_EQUAL(sum(&p), p.resident_bytes);
    sw_note("8 pages touched: %zu bytes resident, %zu of them in huge pages", l->resident_bytes,
            l->huge_bytes);
}

/* Many blocks of a purpose, and a mapping beside them without an owner: each has its own
 * line. */
SW_TEST("a planted mapping is unexplained, to the byte")
{
    enum { BLOCKS = 50 };
    sw_process before, after;
    void *blocks[BLOCKS];
    if (!readable())
        SW_SKIP("no /proc/self/smaps");
    if (SANITIZED)
        SW_SKIP("a sanitizer has mappings of its own");
    CU_ASSERT_EQUAL_FATAL(sw_process_read(&before), SW_OK);
    sw_note("%zu bytes resident, %zu of them unexplained", before.resident_bytes,
            sw_process_rest(&before));
    for (size_t i = 0; i < BLOCKS; i++) {
        CU_ASSERT_EQUAL_FATAL(sw_heap_alloc(&blocks[i], SW_HEAP_DATASETS, 100 * KIB), SW_OK);
        memset(blocks[i], 1, 100 * KIB);
    }
    /* Too large for a gap between libraries, where it would join a mapping of the loader. */
    void *planted =
        mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(planted != MAP_FAILED);
    memset(planted, 1, MIB / 2);
    CU_ASSERT_EQUAL_FATAL(sw_process_read(&after), SW_OK);
    (void)munmap(planted, 64 * MIB);
    for (size_t i = 0; i < BLOCKS; i++)
        sw_heap_free(blocks[i], SW_HEAP_DATASETS, 100 * KIB);
    SW_CHECK(sw_process_rest(&after) == sw_process_rest(&before) + MIB / 2,
             "unexplained: %zu before, %zu after", sw_process_rest(&before),
             sw_process_rest(&after));
    CU_ASSERT_EQUAL(sum(&after), after.resident_bytes);
    if (strncmp(sw_heap_backend(), "jemalloc", 8) == 0) {
        const size_t held = kib(&after, SW_PROCESS_HEAP, "datasets");
        SW_CHECK(held >= BLOCKS * 100 && held < BLOCKS * 100 + 2048, "%zu KiB", held);
    }
}

typedef struct {
    int go[2];
} sleeper;

static void sleep_with_a_stack(void *arg)
{
    volatile char touched[256 << 10];
    char byte;
    for (size_t i = 0; i < sizeof touched; i += 4096)
        touched[i] = 1;
    (void)!write(((sleeper *)arg)->go[1], (char[]){1}, 1);
    while (touched[0] == 1 && read(((sleeper *)arg)->go[0], &byte, 1) == 0)
        ;
}

SW_TEST("a thread has its stack")
{
    sw_process p;
    sw_thread *thread;
    int in[2], out[2];
    char byte = 1;
    if (!readable())
        SW_SKIP("no /proc/self/smaps");
    CU_ASSERT_FATAL(pipe(in) == 0 && pipe(out) == 0);
    sleeper s = {{in[0], out[1]}};
    CU_ASSERT_EQUAL_FATAL(sw_thread_start(&thread, sleep_with_a_stack, &s, "sw-sleeper"),
                          SW_OK);
    CU_ASSERT_EQUAL(read(out[0], &byte, 1), 1);
    const sw_status status = sw_process_read(&p);
    CU_ASSERT_EQUAL(write(in[1], &byte, 1), 1);
    sw_thread_join(thread);
    for (int i = 0; i < 2; i++) {
        close(in[i]);
        close(out[i]);
    }
    CU_ASSERT_EQUAL_FATAL(status, SW_OK);
    const size_t held = kib(&p, SW_PROCESS_STACK, "sw-sleeper");
    SW_CHECK(held >= 256 && held < 1024, "%zu KiB", held);
    CU_ASSERT_EQUAL_FATAL(sw_process_read(&p), SW_OK);
    CU_ASSERT_PTR_NULL(line(&p, SW_PROCESS_STACK, "sw-sleeper"));
}

/* Whatever fails while it reads, no block is lost and the next time works. */
static sw_status read_once(void *arg)
{
    return sw_process_read(arg);
}

SW_TEST("failures leave nothing")
{
    sw_process p;
    if (!readable())
        SW_SKIP("no /proc/self/smaps");
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, read_once, &p) > 3);
    sw_sites sites = {SW_FAULT_FILE};
    while (sw_sites_next(&sites)) /* without the page map it goes on */
        if (SW_AT_SITE(&sites, sw_process_read(&p)) == SW_OK)
            SW_CHECK(sum(&p) == p.resident_bytes, "file call %d", (int)sites.k);
    CU_ASSERT(sites.failed > 3 && sites.k - sites.failed > 1);
    CU_ASSERT_EQUAL(sw_process_read(&p), SW_OK);
}
