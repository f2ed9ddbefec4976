/* The memory of the whole process, reconciled: each byte that the system says is resident
 * stands on one line that names its owner, and the lines add up to the system's figure.
 *
 * Our own ranges - arenas and the stacks of our threads - are known by their addresses; arenas
 * also by what they were promised, rounded up to pages. The heap's ranges for our purposes are
 * known by address too. The program, libraries and mapped files have names. The rest is the
 * heap's where it adds up to what the heap says it has mapped, and else unexplained. */
#pragma once

#include "profiler/record/json.h"
#include "profiler/record/prof.h"

typedef enum {
    SW_PROCESS_ARENA,
    SW_PROCESS_STACK,
    SW_PROCESS_HEAP,
    SW_PROCESS_CODE, /* the program and libraries: text, data and zeroed data */
    SW_PROCESS_FILE, /* other files that are mapped */
    SW_PROCESS_SYSTEM,
    SW_PROCESS_REST, /* unexplained; always there */
    SW_PROCESS_KINDS
} sw_process_kind;

#define SW_PROCESS_LINES 96
#define SW_PROCESS_NAME 48

typedef struct {
    sw_process_kind kind;
    char name[SW_PROCESS_NAME];
    uint32_t n;            /* ranges of that name */
    size_t mapped_bytes;   /* addresses that may be touched */
    size_t resident_bytes; /* of them, backed by memory */
    size_t huge_bytes;     /* of that, in huge pages */
    bool predicted;        /* arenas are */
    size_t predicted_bytes;
} sw_process_line;

typedef struct {
    size_t resident_bytes; /* of the process: the sum of the lines */
    size_t n;
    sw_process_line line[SW_PROCESS_LINES]; /* by kind, the largest first */
} sw_process;

/* "arena" to "rest". */
const char *sw_process_kind_name(sw_process_kind kind);

/* This process now. For a quiet moment: what other threads touch meanwhile may be seen or not.
 * SW_IO where the system does not say, as without /proc; SW_FORMAT where it says something
 * else. */
SW_MUST_USE sw_status sw_process_read(sw_process *out);
/* Bytes that an arena was predicted to touch, in whole pages, by one who knows better than its
 * promise. Nothing happens where there is no such arena. */
void sw_process_predict(sw_process *process, const char *arena, size_t bytes);
/* Sums over the arenas; whether each has what was predicted. */
typedef struct {
    size_t resident_bytes, predicted_bytes;
    bool equal;
} sw_process_own;
sw_process_own sw_process_arenas(const sw_process *process);
size_t sw_process_rest(const sw_process *process);

/* The members of a JSON object: `resident_bytes`, sums, and `lines`. */
void sw_process_put(sw_json *json, const sw_process *process);
/* Into the profile's file: a record of the type "process". */
void sw_prof_process_record(sw_profile *profile, const sw_process *process);

/* The parts, for tests: places are ranges whose owner is known, and may be given in any order.
 * Of a place of 0 bytes one address is known: it has what lies around, up to the next place or
 * the end of the mapping, where that is no more than 256 KiB. Other places do not overlap. */
typedef struct {
    uintptr_t base;
    size_t bytes;
    sw_process_kind kind;
    char name[SW_PROCESS_NAME];
    size_t promised_bytes;
} sw_process_range;
/* Of the text at `smaps`; `pagemap` tells pages apart where a mapping has several owners, and
 * may be NULL. `heap_bytes`: what the heap says it has mapped besides the places. Sorts and
 * changes the places. */
SW_MUST_USE sw_status sw_process_sum(sw_process *out, const char *smaps, const char *pagemap,
                                     sw_process_range *ranges, size_t n, size_t heap_bytes);
