/* Facts stated by arenas. A listener is called when the arena is consistent again, on the
 * calling thread; it may not call an arena and cannot fail. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef enum {
    SW_EVENT_PUSH,    /* bytes taken from the top; offset and bytes of the range */
    SW_EVENT_RESET,   /* everything given back */
    SW_EVENT_PLACE,   /* a planned range becomes live; id is the caller's */
    SW_EVENT_RELEASE, /* a planned range dies */
    SW_EVENT_COMMIT,  /* physical bytes grew; bytes is the new total */
    SW_EVENT_DENIED   /* a request was refused; bytes is its size */
} sw_event_kind;

typedef struct {
    sw_event_kind kind;
    uint32_t id;
    size_t offset, bytes;
    const char *label; /* may be NULL */
    const void *arena; /* which arena states it */
} sw_event;

typedef struct {
    void (*event)(void *context, const sw_event *event); /* NULL: no observer */
    void *context;
} sw_observer;
