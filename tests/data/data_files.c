#include "tests/data/data_files.h"
#include "tests/support/files.h"
#include "tests/support/heap_sweep.h"
#include "alloc/base/mem.h"
#include <sys/stat.h>
#include <unistd.h>

void bytes_put(bytes *b, const void *from, size_t n)
{
    if (n == 0)
        return;
    if (b->room - b->n < n || b->room == 0) {
        b->room = 2 * (b->n + n);
        const unsigned char *old = b->at;
        b->at = sw_block(b->room);
        if (b->n > 0)
            memcpy(b->at, old, b->n);
    }
    memcpy(b->at + b->n, from, n);
    b->n += n;
}

void bytes_byte(bytes *b, int value)
{
    const unsigned char byte = (unsigned char)value;
    bytes_put(b, &byte, 1);
}

void bytes_u32(bytes *b, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        bytes_byte(b, (int)(value >> shift & 255));
}

bytes file_get(const char *path)
{
    bytes b = {NULL, 0};
    b.at = (unsigned char *)sw_file_text(path, &b.n);
    sw_after(free, b.at);
    return b;
}

bool file_is_there(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f != NULL)
        fclose(f);
    return f != NULL;
}

static char dir[512];

void dir_new(void)
{
    static int n;
    snprintf(dir, sizeof dir, "%s", sw_temp_path(sw_textf("dir%d", n++)));
    if (mkdir(dir, 0777) != 0)
        perror(dir);
}

const char *dir_name(void)
{
    return dir;
}

const char *dir_file(const char *name)
{
    return sw_textf("%s/%s", dir, name);
}

void dir_put(const char *name, bytes content)
{
    sw_file_put(dir_file(name), content.at, content.n);
}

bytes idx_make(int rank, const uint32_t *dims, const void *data, size_t n)
{
    bytes b = {NULL, 0};
    bytes_u32(&b, 0x800u + (uint32_t)rank);
    for (int i = 0; i < rank; i++)
        bytes_u32(&b, dims[i]);
    bytes_put(&b, data, n);
    return b;
}

uint32_t crc32_of(const unsigned char *at, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

void bytes_le(bytes *b, uint64_t x, int n)
{
    for (int i = 0; i < n; i++)
        bytes_byte(b, (int)(x >> 8 * i & 255));
}

bytes gzip_make(const void *from, size_t n)
{
    static const unsigned char head[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255};
    bytes b = {NULL, 0};
    bytes_put(&b, head, sizeof head);
    size_t at = 0;
    do {
        const size_t part = n - at < 65535 ? n - at : 65535;
        bytes_byte(&b, at + part == n); /* the last block; stored */
        bytes_le(&b, (uint32_t)part, 2);
        bytes_le(&b, ~(uint32_t)part, 2);
        bytes_put(&b, (const unsigned char *)from + at, part);
        at += part;
    } while (at < n);
    bytes_le(&b, crc32_of(from, n), 4);
    bytes_le(&b, (uint32_t)n, 4);
    return b;
}

bytes zipped(bytes plain)
{
    return gzip_make(plain.at, plain.n);
}

heap_watch heap_now(void)
{
    heap_watch sum = {0, 0};
    for (int i = 0; i < SW_HEAP_KINDS; i++) {
        sw_heap_stats stats;
        sw_heap_read((sw_heap)i, &stats);
        sum.blocks += stats.blocks;
        sum.bytes += stats.bytes;
    }
    return sum;
}

bool failed_as(sw_status status, sw_status expected, const char *part)
{
    return SW_CHECK(status == expected && strstr(sw_last_error(), part) != NULL &&
                        strchr(sw_last_error(), '\n') == NULL,
                    "%s: '%s', must be %s with '%s'", sw_status_name(status), sw_last_error(),
                    sw_status_name(expected), part);
}

size_t heap_peak(sw_heap heap)
{
    sw_heap_stats stats;
    sw_heap_read(heap, &stats);
    return stats.peak_bytes;
}

sw_dataset *data_made(sw_status status, sw_dataset *const *set)
{
    OK(status);
    CU_ASSERT_PTR_NOT_NULL_FATAL(*set);
    AFTER(sw_dataset_destroy, *set);
    return *set;
}

sw_dataset *data_digits(int64_t n, uint64_t seed)
{
    sw_dataset *set = NULL;
    return data_made(sw_dataset_synthetic(&set, n, seed), &set);
}

sw_loader *data_loader(const sw_dataset *set, sw_loader_opts opts)
{
    sw_loader *loader = NULL;
    opts.size = sizeof opts;
    OK(sw_loader_create(&loader, set, &opts));
    CU_ASSERT_PTR_NOT_NULL_FATAL(loader);
    AFTER(sw_loader_destroy, loader);
    return loader;
}

/* ---- readers ----------------------------------------------------------------------------- */

sw_dataset_info data_info(const sw_dataset *dataset)
{
    sw_dataset_info info = SW_OPTS(sw_dataset_info);
    sw_dataset_describe(dataset, &info);
    return info;
}

static void destroy(void *dataset)
{
    sw_dataset_destroy(dataset);
}

sw_dataset *sets[2];

bool data_read_both(data_read *read, sw_dataset *part[2])
{
    part[0] = part[1] = NULL;
    const sw_status status = read(part);
    for (int i = 0; i < 2; i++)
        if (part[i] != NULL)
            sw_after(destroy, part[i]);
    return SW_CHECK(status == SW_OK, "%s: %s", sw_status_name(status), sw_last_error());
}

sw_dataset_info data_first(data_read *read)
{
    CU_ASSERT_FATAL(data_read_both(read, sets));
    return data_info(sets[0]);
}

void data_within(data_read *read, size_t of_sets, size_t of_files)
{
    const size_t had = heap_peak(SW_HEAP_DATASETS), files = heap_peak(SW_HEAP_FILES);
    CU_ASSERT_FATAL(data_read_both(read, sets));
    CU_ASSERT(heap_peak(SW_HEAP_DATASETS) <= (had > of_sets ? had : of_sets));
    CU_ASSERT(heap_peak(SW_HEAP_FILES) <= (files > of_files ? files : of_files));
}

void data_refused(data_read *read, sw_status status, const char *file, const char *reason)
{
    const heap_watch before = heap_now();
    sw_dataset *part[2] = {NULL, NULL};
    failed_as(read(part), status, file);
    SW_CHECK(strstr(sw_last_error(), reason) != NULL, "'%s' without '%s'", sw_last_error(),
             reason);
    CU_ASSERT(part[0] == NULL && part[1] == NULL);
    CHECK_NO_LEAK(before);
}

void data_refused_unreadable(data_read *read, const char *path)
{
    const uid_t nobody = 65534;
    const bool root = geteuid() == 0;
    if (root && seteuid(nobody) != 0)
        SW_SKIP("root may read everything, and can be no one else");
    CU_ASSERT(root || chmod(path, 0) == 0);
    data_refused(read, SW_IO, strrchr(path, '/') + 1, "Permission denied");
    CU_ASSERT(!root || seteuid(0) == 0);
}

/* A plain name that could not be opened is looked for compressed: not each call fails one. */
static uint64_t sweep(data_read *read, sw_fault_kind kind, sw_fault_mode mode)
{
    const heap_watch before = heap_now();
    sw_sites sites = {kind, mode};
    while (sw_sites_next(&sites)) {
        sw_dataset *part[2] = {NULL, NULL};
        const sw_status status = SW_AT_SITE(&sites, read(part));
        CU_ASSERT((status == SW_OK) == (part[0] != NULL));
        sw_dataset_destroy(part[0]);
        sw_dataset_destroy(part[1]);
        CHECK_NO_LEAK(before);
    }
    return sites.failed;
}

void data_sweep(data_read *read, uint64_t memory, uint64_t files)
{
    static const sw_fault_mode modes[] = {SW_FAULT_ONCE, SW_FAULT_FROM};
    for (int i = 0; i < 2; i++) {
        const uint64_t m = sweep(read, SW_FAULT_MEMORY, modes[i]);
        const uint64_t f = sweep(read, SW_FAULT_FILE, modes[i]);
        CU_ASSERT(m >= memory && f >= files);
    }
}

/* Change a byte, cut, take bytes out, or repeat some. */
static void damage(bytes *b, sw_dice *dice)
{
    const size_t at = (size_t)sw_dice_below(dice, b->n);
    const size_t left = b->n - at;
    const size_t some = 1 + (size_t)sw_dice_below(dice, left < 64 ? left : 64);
    switch (sw_dice_below(dice, 6)) {
    case 0:
        b->n = at;
        break;
    case 1:
        memmove(b->at + at, b->at + at + some, left - some);
        b->n -= some;
        break;
    case 2: {
        unsigned char repeated[64];
        memcpy(repeated, b->at + at, some);
        bytes_put(b, repeated, some);
        memmove(b->at + at + some, b->at + at, b->n - at - some);
        break;
    }
    case 3:
        b->at[at] ^= (unsigned char)(1u << sw_dice_below(dice, 8));
        break;
    default: /* what means something in some format */
        b->at[at] = (unsigned char)"\"\n\r,;\t -.eE+0\377\200\0"[sw_dice_below(dice, 16)];
    }
}

void data_damage(data_read *read, const char *path, bytes sound, int rounds)
{
    sw_dice dice = {.state = 7};
    int refused = 0;
    bytes b = {NULL, 0};
    const heap_watch before = heap_now();
    for (int round = 0; round < rounds; round++) {
        b.n = 0;
        bytes_put(&b, sound.at, sound.n);
        for (uint64_t n = 1 + sw_dice_below(&dice, 3); n > 0 && b.n > 0; n--)
            damage(&b, &dice);
        sw_file_put(path, b.at, b.n);
        sw_dataset *part[2] = {NULL, NULL};
        const sw_status status = read(part);
        if (status != SW_OK) {
            CU_ASSERT(part[0] == NULL && part[1] == NULL);
            failed_as(status, SW_FORMAT, strrchr(path, '/') + 1);
            refused++;
        }
        sw_dataset_destroy(part[0]);
        sw_dataset_destroy(part[1]);
        CHECK_NO_LEAK(before);
    }
    sw_note("%d of %d damaged files refused", refused, rounds);
    CU_ASSERT(refused > 0);
    sw_file_put(path, sound.at, sound.n);
}
