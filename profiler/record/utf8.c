/* UTF-8. */
#include "profiler/record/utf8.h"
#include <stdbool.h>
#include <string.h>

size_t sw_utf8_sequence(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80)
        return 1;
    const size_t n = s[0] >= 0xc2 && s[0] <= 0xdf   ? 2
                     : (s[0] & 0xf0) == 0xe0        ? 3
                     : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                                    : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

/* C0, delete, and the C1 controls, which are two bytes in UTF-8. */
bool sw_utf8_whole(const char *s)
{
    for (size_t n; *s != '\0'; s += n)
        if ((n = sw_utf8_sequence(s)) == 0)
            return false;
    return true;
}

static bool is_control(const char *s, size_t n)
{
    const unsigned char c = (unsigned char)s[0];
    return c < 0x20 || c == 0x7f || (n == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0);
}

void sw_utf8_clean(char *to, size_t bytes, const char *from)
{
    size_t used = 0;
    while (*from != '\0') {
        const size_t sequence = sw_utf8_sequence(from), n = sequence > 0 ? sequence : 1;
        if (used + n + 1 > bytes)
            break;
        if (sequence == 0 || is_control(from, n))
            memset(to + used, '?', n);
        else
            memcpy(to + used, from, n);
        used += n;
        from += n;
    }
    to[used] = '\0';
}
