/* Modules: shared libraries that are opened while a program runs.
 *
 * A variable of the environment names the file, and then nothing else is tried. Otherwise it
 * lies where it was installed: seen from the library, seen from a program that has the library
 * inside, or under the prefix that was configured; or, not yet installed, in the folder that it
 * was built in. A file is opened by its path, never searched by name. Before that it is looked
 * at: the system maps a file that was cut off without a word, and the process dies where it is
 * read. */
#pragma once

#include "alloc/base/base.h"
#include <limits.h>

#define SWI_MODULE_PATH (2 * PATH_MAX)

typedef struct {
    const char *what;     /* as messages name it */
    const char *file;     /* its name */
    const char *built;    /* folder of the build that it is made in */
    const char *variable; /* that names another file */
    const char *entry;    /* the function that it exports */
    const char *missing;  /* what to do where there is none */
} swi_module_kind;

/* `named` NULL: what the variable says. path receives the file, *entry its function. It is
 * never closed. SW_DEVICE: where it was looked for, or what is wrong with the file. */
SW_MUST_USE sw_status swi_module_open(const swi_module_kind *kind, const char *named,
                                      char path[SWI_MODULE_PATH], void **entry);
