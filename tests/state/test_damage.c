/* A checkpoint of 64 KiB that is damaged in every way that a disk has: each bit flipped, cut at
 * each byte, each sector lost, doubled or in another's place. */
#include "tests/state/tensor_files.h"
#include "tests/support/files.h"
#include <fcntl.h>
#include <unistd.h>

SW_TESTS("damage")

#define FILE_BYTES ((size_t)65536)
#define SECTOR ((size_t)512)
#define SECTORS (FILE_BYTES / SECTOR)

static char path[600];
static int there = -1; /* the file, to damage */
static unsigned char sound[FILE_BYTES];
static size_t before_bytes;
static swi_tensors *header; /* of the sound file */

static void close_it(void *unused)
{
    close(there);
    swi_tensors_close(header);
    header = NULL;
}

static void put_back(size_t at, size_t n)
{
    CU_ASSERT_EQUAL_FATAL(pwrite(there, sound + at, n, (off_t)at), (ssize_t)n);
}

static void begin(void)
{
    snprintf(path, sizeof path, "%s", sw_temp_path("damage"));
    write_checkpoint(path, chance_model("m", 3), FILE_BYTES);
    bytes file = file_get(path);
    CU_ASSERT_EQUAL_FATAL(file.n, FILE_BYTES);
    memcpy(sound, file.at, FILE_BYTES);
    OK(open_and_verify(path));
    OK(swi_tensors_open(&header, path));
    there = open(path, O_RDWR);
    CU_ASSERT_FATAL(there >= 0 && header != NULL);
    sw_after(close_it, NULL);
    sw_heap_stats stats;
    sw_heap_read(SW_HEAP_FILES, &stats);
    before_bytes = stats.bytes;
}

/* Memory at the highest, over all that was opened. */
static void little_memory(void)
{
    const size_t peak = heap_peak(SW_HEAP_FILES);
    SW_CHECK(peak - before_bytes <= 2 * FILE_BYTES + ((size_t)1 << 20), "%zu bytes", peak);
    sw_note("at most %zu bytes of memory", peak - before_bytes);
}

/* The tensor and range that byte `at` belongs to, as messages say them; "" in the header. */
static const char *owner_of(size_t at)
{
    static char text[200];
    const uint64_t begins =
        FILE_BYTES - swi_tensors_at(header, swi_tensors_count(header) - 1)->end;
    text[0] = '\0';
    for (uint32_t i = 0; i < swi_tensors_count(header); i++) {
        const swi_tensors_entry *entry = swi_tensors_at(header, i);
        if (at >= begins + entry->begin && at < begins + entry->end)
            snprintf(text, sizeof text, "'%s', bytes %zu to %zu", entry->name,
                     (size_t)(begins + entry->begin), (size_t)(begins + entry->end));
    }
    return text;
}

/* The file as it is now is refused by its name and by what `part` says. CUnit keeps each
 * assert: only what fails is one. */
static void is_refused(const char *what, const char *part)
{
    const sw_status status = open_and_verify(path);
    if (status != SW_FORMAT || strstr(sw_last_error(), path) == NULL ||
        strstr(sw_last_error(), part) == NULL)
        SW_CHECK(false, "%s: %s: '%s', must have '%s'", what, sw_status_name(status),
                 sw_last_error(), part);
}

/* Coprime to all that comes in powers of two. */
static size_t step(size_t quick)
{
    return sw_tests_full() ? 1 : quick;
}

SW_TEST("every flipped bit is noticed")
{
    begin();
    sw_damage d = {path, .bits = step(41)};
    while (sw_damage_next(&d))
        is_refused(d.what, owner_of(d.at));
    OK(open_and_verify(path));
    little_memory();
}

SW_TEST("every cut is noticed")
{
    begin();
    sw_damage d = {path, .cuts = step(7)};
    while (sw_damage_next(&d))
        is_refused(d.what, "");
    OK(open_and_verify(path));
    little_memory();
}

/* Sectors that are as they were are no damage. */
static void with_sectors(const char *what, size_t k, size_t a, const unsigned char *at_a,
                         size_t b, const unsigned char *at_b)
{
    if (memcmp(sound + a * SECTOR, at_a, SECTOR) == 0 &&
        memcmp(sound + b * SECTOR, at_b, SECTOR) == 0)
        return;
    CU_ASSERT_EQUAL_FATAL(pwrite(there, at_a, SECTOR, (off_t)(a * SECTOR)), (ssize_t)SECTOR);
    CU_ASSERT_EQUAL_FATAL(pwrite(there, at_b, SECTOR, (off_t)(b * SECTOR)), (ssize_t)SECTOR);
    char which[60];
    snprintf(which, sizeof which, "%s %zu", what, k);
    is_refused(which, "");
    put_back(a * SECTOR, SECTOR);
    put_back(b * SECTOR, SECTOR);
}

SW_TEST("every lost or doubled sector is noticed")
{
    static const unsigned char zeros[SECTOR];
    begin();
    for (size_t a = 0; a < SECTORS; a++) {
        with_sectors("zeros in sector", a, a, zeros, a, zeros);
        for (size_t b = a > 0 ? a - 1 : 1; b < SECTORS && b <= a + 1; b += 2)
            with_sectors("a copy of sector", a, b, sound + a * SECTOR, b, sound + a * SECTOR);
    }
    OK(open_and_verify(path));
    little_memory();
}

SW_TEST("every two exchanged sectors are noticed")
{
    size_t n = 0;
    begin();
    for (size_t pair = 0; pair < SECTORS * SECTORS; pair += step(5)) {
        const size_t a = pair / SECTORS, b = pair % SECTORS;
        if (a >= b)
            continue;
        with_sectors("exchanged with sector", a, a, sound + b * SECTOR, b, sound + a * SECTOR);
        n++;
    }
    OK(open_and_verify(path));
    sw_note("%zu pairs", n);
    little_memory();
}

/* The same of a file of parameters, by the call that programs use. */
SW_TEST("a model takes nothing of a damaged file")
{
    sw_model *model = chance_model("m", 3);
    snprintf(path, sizeof path, "%s", sw_temp_path("params"));
    OK(sw_model_save(model, path));
    for (int drawn = 0; drawn < 2; drawn++) {
        bytes before = {NULL, 0};
        if (drawn)
            OK(swi_model_redraw(model));
        bytes_put(&before, model->base, model->bytes);
        sw_damage d = {path, .bits = step(23)};
        while (sw_damage_next(&d)) {
            const sw_status status = sw_model_load(model, path);
            if (status != SW_FORMAT || strstr(sw_last_error(), path) == NULL ||
                memcmp(before.at, model->base, model->bytes) != 0)
                SW_CHECK(false, "%s: %s", d.what, sw_last_error());
        }
        OK(sw_model_load(model, path));
    }
}
