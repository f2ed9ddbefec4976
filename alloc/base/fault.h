/* Failure on request: the k-th call of a kind fails, or every call from the k-th on. The tables
 * of mem.h and sys.h ask here before they do anything. Process-wide, thread-safe, free when
 * off. */
#pragma once

#include "alloc/base/base.h"
#include <stdbool.h>

typedef enum {
    SW_FAULT_MEMORY,  /* heap blocks, address ranges, commits */
    SW_FAULT_FILE,    /* open, read, write, seek, cut, stat, sync, lock, rename, link, close,
                         unlink */
    SW_FAULT_THREAD,  /* thread creation */
    SW_FAULT_LIBRARY, /* opening a shared library, finding a symbol in it */
    SW_FAULT_LOCK,    /* locking a file: the system has no locks (ENOLCK) */
    SW_FAULT_KINDS
} sw_fault_kind;

typedef enum { SW_FAULT_OFF, SW_FAULT_ONCE, SW_FAULT_FROM } sw_fault_mode;

/* Plan a failure of call number k (0 is the next) of one kind, and count calls from 0 again. */
void sw_fault_plan(sw_fault_kind kind, uint64_t k, sw_fault_mode mode);

/* Read a plan from text: "memory:17" fails call 17 once, "file:3+" fails every call from 3 on,
 * "thread:count" only counts. SW_INVALID on anything else. */
SW_MUST_USE sw_status sw_fault_parse(const char *text);

/* Calls of a kind since the last plan (or the start of the process). */
uint64_t sw_fault_calls(sw_fault_kind kind);

/* Calls of a kind that failed on purpose since the last plan. */
uint64_t sw_fault_hits(sw_fault_kind kind);

const char *sw_fault_kind_name(sw_fault_kind kind);

/* Plan a coincidence: the next `times` numbers of sw_random() are `value`. */
void sw_fault_random(uint64_t value, unsigned times);

/* Shift what the system's clock says, also back, as no clock should. */
void sw_fault_clock(int64_t ns);

/* Whether files without a name can be opened: false as on a file system that has none. */
void sw_fault_unnamed(bool can);

/* Whether a file can have a second name: false as on a file system without hard links. */
void sw_fault_second_names(bool can);

/* The file system of all files, as statfs's f_type has it; 0: the real one. */
void sw_fault_file_system(uint32_t type);

/* For the tables only. */
bool swi_fault_unnamed(void);
bool swi_fault_second_names(void);
uint32_t swi_fault_file_system(void);
int64_t swi_fault_clock_shift(void);

/* For the tables only: is a planned number due? */
bool swi_fault_random(uint64_t *value);

/* For the tables only: count one call and say whether it must fail. */
bool swi_fault_hit(sw_fault_kind kind);
