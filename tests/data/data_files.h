/* Shared by the tests of this folder: files with chosen bytes, IDX and gzip made by hand, a
 * watch over what is live on the heaps, and what every reader of data sets promises. */
#ifndef SW_TESTS_DATA_FILES_H
#define SW_TESTS_DATA_FILES_H

#include "alloc/base/mem.h"
#include "tests/support/files.h"
#include "tests/support/made.h"

/* Bytes that grow; they end with the running test. */
typedef struct {
    unsigned char *at;
    size_t n, room; /* room 0: not known */
} bytes;

void bytes_put(bytes *b, const void *from, size_t n);
void bytes_byte(bytes *b, int value);
void bytes_u32(bytes *b, uint32_t value);             /* big endian */
void bytes_le(bytes *b, uint64_t x, int n);           /* n bytes, little endian */
uint32_t crc32_of(const unsigned char *at, size_t n); /* that of zip, bit by bit */

bytes file_get(const char *path); /* n = 0, at = NULL when it is not there */
bool file_is_there(const char *path);

/* A folder of the running test's own: make the next, name it, name a file in it (a sw_textf),
 * put a file there. */
void dir_new(void);
const char *dir_name(void);
const char *dir_file(const char *name);
void dir_put(const char *name, bytes content);

/* IDX of `rank` dims in a row and `n` bytes of data. */
bytes idx_make(int rank, const uint32_t *dims, const void *data, size_t n);
/* One gzip member of stored blocks around `n` bytes. */
bytes gzip_make(const void *from, size_t n);
bytes zipped(bytes plain);

/* Live blocks and bytes of all heaps together. */
typedef struct {
    uint64_t blocks;
    size_t bytes;
} heap_watch;
heap_watch heap_now(void);
/* Nothing more is live than then. */
#define CHECK_NO_LEAK(then)                                                                    \
    do {                                                                                       \
        const heap_watch now_ = heap_now();                                                    \
        SW_CHECK(now_.blocks == (then).blocks && now_.bytes == (then).bytes,                   \
                 "%llu blocks of %zu bytes before, %llu of %zu after",                         \
                 (unsigned long long)(then).blocks, (then).bytes,                              \
                 (unsigned long long)now_.blocks, now_.bytes);                                 \
    } while (0)

/* A failure of `expected` with `part` in its one-line message. */
bool failed_as(sw_status status, sw_status expected, const char *part);

/* The most bytes that a heap ever had. */
size_t heap_peak(sw_heap heap);

/* ---- objects that end with the test ------------------------------------------------------ */

/* The data set that a call made. */
sw_dataset *data_made(sw_status status, sw_dataset *const *set);
sw_dataset *data_digits(int64_t n, uint64_t seed);
sw_loader *data_loader(const sw_dataset *set, sw_loader_opts opts);

/* ---- readers ----------------------------------------------------------------------------- */

/* Read the files of the running test; a part that the reader has not, or that failed, stays
 * NULL. */
typedef sw_status data_read(sw_dataset *part[2]);
/* Room for the parts of a test that reads one after the other. */
extern sw_dataset *sets[2];

sw_dataset_info data_info(const sw_dataset *dataset);
/* Read; the parts are given back at the end of the test. */
bool data_read_both(data_read *read, sw_dataset *part[2]);
/* Read into `sets`, or end the test; what the first is. */
sw_dataset_info data_first(data_read *read);
/* Read into `sets`; the heaps of data sets and of files had no more than that, if no earlier
 * test took more. */
void data_within(data_read *read, size_t of_sets, size_t of_files);
/* Reading fails with `status`, naming a file and a reason; nothing is left. */
void data_refused(data_read *read, sw_status status, const char *file, const char *reason);
/* The same for a file that this process may not read; as root, who may, it takes another user's
 * rights for that long. Skips the test where it cannot. */
void data_refused_unreadable(data_read *read, const char *path);
/* Fail the k-th call of memory and of files, alone and all from there on, until reading
 * succeeds without having met it: nothing is left, and reading works again. At least that
 * many failures of each. */
void data_sweep(data_read *read, uint64_t memory, uint64_t files);
/* Damage `path` in `rounds` random ways; its sound content is given. Reading succeeds or is
 * SW_FORMAT with one line that names the file, and leaves nothing. Sound at the end. */
void data_damage(data_read *read, const char *path, bytes sound, int rounds);

#endif
