/* The table of readers. */
#include "runtime/data/reader.h"
#include <string.h>

static const swi_reader *const readers[] = {
#define SW_READER(name) &swi_reader_##name,
#include "runtime/data/readers.def"
#undef SW_READER
};

const swi_reader *swi_reader_at(size_t i)
{
    return i < sizeof readers / sizeof *readers ? readers[i] : NULL;
}

const swi_reader *swi_reader_of(const char *source, const char **path)
{
    const size_t n = strcspn(source, ":");
    for (size_t i = 0; source[n] == ':' && i < sizeof readers / sizeof *readers; i++)
        if (strlen(readers[i]->name) == n && strncmp(readers[i]->name, source, n) == 0) {
            *path = source + n + 1;
            return readers[i];
        }
    return NULL;
}
