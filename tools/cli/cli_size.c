/* Sizes in bytes, as options have them: read, and what is said of one that cannot be read. */
#include "tools/cli/cli.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
#define N_UNITS 5

/* "1,234,567" without its separators, which messages write; false: they stand at wrong places.
 */
static bool without_separators(const char *text, char *to, size_t bytes)
{
    size_t n = 0, group = 0;
    bool grouped = false;
    for (; n + 1 < bytes && (*text == ',' || (*text >= '0' && *text <= '9')); text++) {
        if (*text == ',' && (group < 1 || group > 3 || (grouped && group != 3)))
            return false;
        grouped |= *text == ',';
        group = *text == ',' ? 0 : group + 1;
        if (*text != ',')
            to[n++] = *text;
    }
    const size_t rest = strlen(text);
    if ((grouped && group != 3) || n + rest >= bytes)
        return false;
    memcpy(to + n, text, rest + 1);
    return true;
}

/* The number before the unit; false: there is none. */
static bool read_number(const char *text, double *x, const char **unit)
{
    char plain[64], *end;
    if (*text < '0' || *text > '9' || (text[0] == '0' && (text[1] | 32) == 'x') ||
        !without_separators(text, plain, sizeof plain))
        return false;
    *x = strtod(plain, &end);
    *unit = text + strlen(text) - strlen(end);
    return true;
}

static bool to_bytes(double x, int power, size_t *out)
{
    const double bytes = ldexp(x, 10 * power);
    if (!(bytes < 9.0e18) || (power == 0 && bytes != floor(bytes)))
        return false;
    *out = (size_t)bytes;
    return true;
}

bool cli_read_bytes(const char *text, size_t *out)
{
    double x;
    const char *unit;
    if (!read_number(text, &x, &unit))
        return false;
    for (int i = 0; i < N_UNITS; i++)
        if (strcmp(unit, units[i]) == 0 || (i == 0 && strcmp(unit, "B") == 0))
            return to_bytes(x, i, out);
    return false;
}

/* The power of 1024 of what is nearly a unit: "MB", "M", "mib", " MiB"; 0: of nothing. */
static int nearly(const char *unit)
{
    static const char *const ends[] = {"", "b", "ib"};
    char lower[8];
    while (*unit == ' ')
        unit++;
    size_t n = 0;
    for (; unit[n] != '\0' && n + 1 < sizeof lower; n++)
        lower[n] = (char)(unit[n] >= 'A' && unit[n] <= 'Z' ? unit[n] + 32 : unit[n]);
    lower[n] = '\0';
    for (int i = 1; i < N_UNITS; i++)
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
            if (lower[0] == (units[i][0] | 32) && strcmp(lower + 1, ends[k]) == 0)
                return i;
    return 0;
}

/* Does the unit stand for a power of 1000 to some and of 1024 to others? */
static bool is_ambiguous(const char *unit)
{
    return strpbrk(unit, "iI") == NULL;
}

int cli_refuse_bytes(const char *name, const char *also, const char *text)
{
    double x = 0.0;
    const char *unit = "";
    const int power = read_number(text, &x, &unit) ? nearly(unit) : 0;
    size_t bytes;
    if (power > 0 && to_bytes(x, power, &bytes)) {
        while (*unit == ' ')
            unit++;
        char other[96] = "";
        if (is_ambiguous(unit))
            snprintf(other, sizeof other, ", or %.0f if powers of 1000 are meant",
                     x * pow(1000.0, power));
        return cli_error(CLI_USAGE,
                         "%s: the unit '%s' is not taken (got '%s'): write %.*s%s, which is %s "
                         "bytes%s",
                         name, unit, text, (int)strcspn(text, " kKmMgGtT"), text, units[power],
                         sw_text_digits(bytes).text, other);
    }
    return cli_error(CLI_USAGE,
                     "%s must be %sa size in bytes, or with its unit, such as 4096, 64KiB, "
                     "1.5MiB, 2GiB or 1TiB, below 8000000TiB (got '%s')",
                     name, also, text);
}
