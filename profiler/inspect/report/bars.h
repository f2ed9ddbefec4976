/* Bars and sparklines in a line of text: blocks of UTF-8 where the locale has them, else ASCII.
 */
#ifndef STEPWELL_BARS_H
#define STEPWELL_BARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BARS_COLUMNS 76 /* at most */

typedef struct {
    char text[3 * BARS_COLUMNS + 1];
} bars_text;

/* A bar of `share` (0 to 1) of `width` columns. Any share above 0 has a mark. */
bars_text bars_bar(double share, int width, bool ascii);
/* One column for each of n values, from the lowest mark at `low` to the full one at `high`; all
 * are full where those are equal. */
bars_text bars_spark(const uint64_t *values, size_t n, uint64_t low, uint64_t high, bool ascii);

#endif
