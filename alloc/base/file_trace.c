/* One listener for all files. */
#include "alloc/base/file_trace.h"
#include <stddef.h>

static void (*listener)(void *context, const sw_file_event *event);
static void *listener_context;

void sw_file_trace(void (*listen)(void *context, const sw_file_event *event), void *context)
{
    listener = listen;
    listener_context = context;
}

void swi_file_tell(const sw_file_event *event)
{
    if (listener != NULL)
        listener(listener_context, event);
}
