/* Bars and sparklines. */
#include "tools/report/bars.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool bars_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value == NULL || *value == '\0')
            continue;
        const char *set = strchr(value, '.');
        return set != NULL &&
               (strncasecmp(set, ".UTF-8", 6) == 0 || strncasecmp(set, ".UTF8", 5) == 0);
    }
    return false;
}

static void append(char **to, const char *mark)
{
    while (*mark != '\0')
        *(*to)++ = *mark++;
    **to = '\0';
}

bars_text bars_bar(double share, int width, bool ascii)
{
    static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    bars_text bar = {""};
    char *to = bar.text;
    width = width < BARS_COLUMNS ? width : BARS_COLUMNS;
    const double within = share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
    const int steps = ascii ? 1 : 8; /* of a column */
    int marks = (int)(within * width * steps + 0.5);
    if (marks == 0 && within > 0.0 && !ascii)
        marks = 1;
    for (int i = 0; i < marks / steps; i++)
        append(&to, ascii ? "#" : "█");
    if (marks == 0 && within > 0.0)
        append(&to, ".");
    append(&to, parts[marks % steps]);
    return bar;
}

bars_text bars_spark(const uint64_t *values, size_t n, uint64_t low, uint64_t high, bool ascii)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const marks[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
    bars_text spark = {""};
    char *to = spark.text;
    for (size_t i = 0; i < n && i < BARS_COLUMNS; i++) {
        const uint64_t v = values[i] < low ? low : values[i] > high ? high : values[i];
        const double up = high > low ? (double)(v - low) / (double)(high - low) : 1.0;
        append(&to, (ascii ? marks : blocks)[(int)(up * 7.0 + 0.5)]);
    }
    return spark;
}
