/* The file table, thread creation and library opening: the other calls into the operating
 * system that can fail. Each can be made to fail (fault.h). Messages name the path and the
 * reason. */
#pragma once

#include "alloc/base/base.h"
#include <stdbool.h>

typedef struct sw_file sw_file; /* an open file; its path is kept for messages */

typedef enum {
    SW_FILE_READ,
    SW_FILE_WRITE,  /* create or truncate */
    SW_FILE_CREATE, /* a new file: SW_IO where the name is taken, be it by a link */
    SW_FILE_KEEP,   /* for writing; created where it is not there, else as it is */
    SW_FILE_UNNAMED /* a new file in the folder of the name `path`, without a name until
                       sw_file_name(): what is closed before that is gone. It can be read, too.
                       SW_UNSUPPORTED where the system has no such files, or cannot name them
                       later */
} sw_file_mode;

/* Opening, reading and writing wait for the other end of a FIFO, pipe or terminal; where
 * sw_interrupt_set()'s function asks for it they end with SW_STOPPED when nothing has moved for
 * a second. Regular files are read and written to the end. A directory is SW_IO at open. "-"
 * with SW_FILE_WRITE is standard output. */
SW_MUST_USE sw_status sw_file_open(sw_file **out, const char *path, sw_file_mode mode);
const char *sw_file_path(const sw_file *file);
/* Is it a FIFO, pipe, socket or terminal? It has no size and is read once. */
bool sw_file_waits(const sw_file *file);
SW_MUST_USE sw_status sw_file_size(sw_file *file, uint64_t *bytes);
/* Read up to `bytes`; *got < bytes only at the end of the file. */
SW_MUST_USE sw_status sw_file_read(sw_file *file, void *to, size_t bytes, size_t *got);
/* Write all or fail; short writes go on. */
SW_MUST_USE sw_status sw_file_write(sw_file *file, const void *from, size_t bytes);
SW_MUST_USE sw_status sw_file_seek(sw_file *file, uint64_t offset);
SW_MUST_USE sw_status sw_file_sync(sw_file *file);
/* Sync the folder that the name `path` stands in. */
SW_MUST_USE sw_status sw_folder_sync(const char *path);
/* A lock says that a file is being written. It goes when the file is closed or the process
 * ends, however it ends. */
typedef enum {
    SW_LOCK_OURS,
    SW_LOCK_THEIRS, /* another process writes it */
    SW_LOCK_NONE,   /* no regular file, or a file system without locks */
    SW_LOCK_FAILED  /* the system says that something is wrong */
} sw_file_lock;
sw_file_lock sw_file_try_lock(sw_file *file);
/* SW_BUSY where another process writes it, SW_IO where locking failed; messages say
 * `path`. A file that cannot be locked is SW_OK. */
SW_MUST_USE sw_status sw_file_own(sw_file *file, const char *path);
/* Open `path` for writing with a lock. Where another process holds the lock the answer is
 * SW_BUSY and the file stays as it is. `empty`: truncate it after locking. A file that
 * cannot be locked, such as a pipe, is just opened. */
SW_MUST_USE sw_status sw_file_take(sw_file **out, const char *path, bool empty);
/* Remove the regular file at `path` unless it is locked, or locks are not known there. */
void sw_file_sweep(const char *path);
/* Always closes; the status says whether the data reached the system. NULL is fine. */
SW_MUST_USE sw_status sw_file_close(sw_file *file);
/* Close without asking, for error paths. NULL is fine. */
void sw_file_drop(sw_file *file);
/* Is what stands at `path` now this open file, and not another one that took its name? */
bool sw_file_is(const sw_file *file, const char *path);
/* Is anything at `path`? No, where it cannot be looked at. */
bool sw_file_there(const char *path);
/* Is a folder at `path`, be it by a link? */
bool sw_folder_there(const char *path);
/* Is the name taken, also by a link that leads nowhere? No, where it cannot be looked at. */
bool sw_file_taken(const char *path);
/* The same for who would lose a file that is there: SW_IO where it cannot be looked at. */
SW_MUST_USE sw_status sw_file_look(const char *path, bool *taken);
/* May a new file be renamed to `path`: is nothing there, or a regular file? A device, a pipe or
 * a link is to be written, not replaced. */
bool sw_file_replaceable(const char *path);
/* Give an open file the permissions of the file at `like`, where one is. */
SW_MUST_USE sw_status sw_file_take_mode(sw_file *file, const char *like);
SW_MUST_USE sw_status sw_file_rename(const char *from, const char *to);
SW_MUST_USE sw_status sw_file_remove(const char *path);
/* Give a file of SW_FILE_UNNAMED the name `path`, in the folder that it was opened in. SW_IO
 * where the name is taken. */
SW_MUST_USE sw_status sw_file_name(sw_file *file, const char *path);
/* Are both names those of one file? */
bool sw_file_same(const char *path, const char *also);
/* The file at `path` is at `also` too, in the place of what was there: one file with two names.
 * SW_UNSUPPORTED where the system has no second names. */
SW_MUST_USE sw_status sw_file_second_name(const char *path, const char *also);
/* The file system of an open file, where a sync does not say that the data will be there: "a
 * network file system (NFS)". NULL: none of those that are known. */
const char *sw_file_far(const sw_file *file);
/* Have `write` fill a new file beside `path`, which then takes its name and the old one's mode:
 * what is there is the old file or the whole new one, synced. A device, a pipe or "-" takes the
 * bytes as they come. Returns the first failure, of `write` too. Where the folder could not be
 * synced, or the file system is a network's, the new file is there and sw_last_note() says that
 * its durability is unknown.
 *
 * The new file has no name until it is synced, then PATH.<16 hexadecimal digits>.tmp for the
 * moment before it is PATH. Where the system has no files without a name it has that one from
 * the start. It is locked all the while, so one that is not locked was left by a process
 * that was ended: it is removed. */
SW_MUST_USE sw_status sw_file_replace(const char *path,
                                      sw_status (*write)(void *context, sw_file *file),
                                      void *context);
/* The same with these bytes. */
SW_MUST_USE sw_status sw_file_replace_bytes(const char *path, const void *bytes, size_t n);
/* The same with more to say. */
typedef struct {
    sw_status (*write)(void *context, sw_file *file);
    /* NULL: none. Called when the new file is synced, before any change of names: what
     * must be durable before it is synced here. Its failure ends the replacing. */
    sw_status (*before)(void *context);
    void *context;
    int keep; /* generations: `path`, then path.1 (the one before), path.2 ...; 0 and 1: one */
    bool drop_old; /* what stands at `path` is damaged: it is replaced, and path.1 stays */
} sw_replace_opts;
/* path is at every moment the old file or the whole new one. The old one is path.1 by a hard
 * link before the new one takes its name; older ones move up first, to the first that is
 * missing. A failure before the new file is synced moves nothing. After a later one, another
 * try makes no second generation of the same file. Files from path.`keep` on are left alone.
 * Where the system has no second names there is one generation, and the note says so. A folder
 * at one of the names is SW_IO, and nothing has changed. */
SW_MUST_USE sw_status sw_file_replace_with(const char *path, const sw_replace_opts *opts);
/* `to` receives the name of generation i (0: path itself). False where it has no room. */
bool sw_generation_name(char *to, size_t bytes, const char *path, int i);

/* Hold a name: PATH.lock is there and locked until sw_file_let_go, or until the process ends,
 * however it does. SW_BUSY: another process has it (or this one, by another call). The lock of
 * a dead process is taken over; a PATH.lock that is no regular file, or not empty, is not ours:
 * SW_IO. Where files cannot be locked nothing is held, *out is NULL, and sw_last_note() says
 * so. */
SW_MUST_USE sw_status sw_file_hold(sw_file **out, const char *path);
void sw_file_let_go(sw_file *held); /* removes PATH.lock; NULL is fine */

/* Cut an open file to `bytes` and go on writing there. SW_FORMAT where it is shorter, or no
 * regular file. */
SW_MUST_USE sw_status sw_file_cut(sw_file *file, uint64_t bytes);
/* Make the folder `path` in one that is there; one that is there already is fine. */
SW_MUST_USE sw_status sw_folder_make(const char *path);
/* Call `take` with each name in a folder, in no order and without "." and "..", until it
 * returns false. */
SW_MUST_USE sw_status sw_folder_for_each(const char *path,
                                         bool (*take)(void *context, const char *name),
                                         void *context);

typedef struct sw_thread sw_thread;
/* Room that a thread has for its frames: touched when it starts, so that no page of it comes
 * later. Builds for sanitizers have what the system gives. */
#define SW_THREAD_STACK ((size_t)384 << 10)
/* `name`, at most 15 bytes, is kept and must outlive the thread. */
SW_MUST_USE sw_status sw_thread_start(sw_thread **out, void (*body)(void *arg), void *arg,
                                      const char *name);
/* Processors that the calling thread may run on; at least 1. */
int sw_thread_processors(void);
/* Keep `thread` off a processor, usually sw_thread_processor(), that of the caller: else it may
 * run where the caller does. It may use the caller's others; where there is none, or the system
 * refuses, nothing changes. */
int sw_thread_processor(void);
void sw_thread_keep_off(sw_thread *thread, int processor);
/* The calling thread gives way to others from now on: what wakes it does not put it in the
 * place of one that computes. Where the system refuses, nothing changes. */
void sw_thread_yield_to_others(void);
/* Waits for the end and frees the handle; of a thread that a fork left in the parent, the
 * latter alone. NULL is fine. */
void sw_thread_join(sw_thread *thread);

/* dlopen / dlsym with our messages. A library is never closed. */
SW_MUST_USE sw_status sw_library_open(void **out, const char *name);
SW_MUST_USE sw_status sw_library_symbol(void *library, const char *symbol, void **out);
/* The file, links resolved, that holds the code at `address`: a library or the program. SW_IO
 * where the system cannot tell, or `bytes` are too few. */
SW_MUST_USE sw_status sw_library_path(const void *address, char *out, size_t bytes);

/* A random number of the system's; never fails. For names, not for secrets. */
uint64_t sw_random(void);

/* CLOCK_MONOTONIC in nanoseconds; never less than an answer before, whatever the system
 * says. */
uint64_t sw_clock_ns(void);

/* Waiting for a FIFO, pipe, socket or terminal, so that sw_interrupt_set()'s answer ends
 * it. The function is called before each slice of the wait, so a request that comes
 * between that call and the system call is not lost. */

/* Wait until `fd` has something to read or its other end is closed, or until it takes
 * something. False: interrupted, and nothing moved for a second since. */
bool swi_wait_input(int fd);
bool swi_wait_output(int fd);
/* Sleep for a slice; false: interrupted for a second. *slices is 0 before the first call. */
bool swi_wait_slice(unsigned *slices);
