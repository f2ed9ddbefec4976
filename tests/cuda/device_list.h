/* Which kernels a real device has checked last, with which sources: tests/cuda/DEVICE.md.
 *
 * A kernel's sources are the .cu files that its entries are in and all that they include of
 * this project, without comments; their hash is kept with the date, the card and its driver. A
 * kernel that no device has checked since its sources changed is stale: it is shown, never an
 * error. The suite that runs on a device marks what passed there (device_mark). */
#ifndef SW_TESTS_DEVICE_LIST_H
#define SW_TESTS_DEVICE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SW_DEVICE_KERNELS 256
#define SW_DEVICE_LIST SW_SOURCE_ROOT "/tests/cuda/DEVICE.md"

typedef struct {
    char op[48];
    char units[64];                       /* "norm", "rows+sum" */
    char now[20];                         /* hash of the sources as they are */
    char then[20];                        /* as they were checked; "": never */
    char date[16], card[128], driver[64]; /* of the check */
} sw_device_row;

typedef struct {
    sw_device_row row[SW_DEVICE_KERNELS];
    int n;
} sw_device_list;

/* Every op of the module's table with its sources, read from the tree and the objects that were
 * built of it; nothing is checked yet. False with a reason, where there are no objects or no
 * nm. */
bool sw_device_list_kernels(sw_device_list *out, const char **why);
/* Add what a file says of these kernels; others in it are dropped. False where a line of it
 * cannot be read, or there is none. */
bool sw_device_list_read(sw_device_list *list, const char *path);
bool sw_device_list_write(const sw_device_list *list, const char *path);
/* The sources as they are have been checked. False: no such op. */
bool sw_device_list_mark(sw_device_list *list, const char *op, const char *date,
                         const char *card, const char *driver);

typedef enum { SW_DEVICE_CHECKED, SW_DEVICE_CHANGED, SW_DEVICE_NEVER } sw_device_state;
sw_device_state sw_device_row_state(const sw_device_row *row);

/* Of one file and what it includes in quotes, below `root`; goes on from `hash`. 0 where it
 * cannot be read. */
uint64_t sw_device_hash(uint64_t hash, const char *root, const char *path);

#endif
