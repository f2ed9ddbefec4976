/* Options: one table per command gives the parser, the defaults and the help. */
#include "alloc/base/fault.h"
#include "tools/cli/cli.h"
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Levenshtein distance, cut at 63 letters. */
static int distance(const char *a, const char *b)
{
    int row[64];
    const int n = (int)strnlen(a, 63), m = (int)strnlen(b, 63);
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = corner + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            corner = row[j];
            row[j] = best;
        }
    }
    return row[m];
}

const char *cli_nearest(const char *text, const void *names, size_t stride, int n)
{
    const char *best = NULL;
    int least = (int)strlen(text) / 3 + 2; /* further away is another word, not a slip */
    for (int i = 0; i < n; i++) {
        const char *name;
        memcpy(&name, (const char *)names + stride * (size_t)i, sizeof name);
        const size_t length = strlen(text);
        const bool prefix = length > 3 && strncmp(text, name, length) == 0;
        const int d = prefix ? 0 : distance(text, name);
        if (d < least) {
            least = d;
            best = name;
        }
    }
    return best;
}

/* ---- values ------------------------------------------------------------------------------ */

static bool read_count(const char *text, int64_t min, int64_t max, int64_t *out)
{
    char *end;
    errno = 0;
    const long long n = strtoll(text, &end, 10);
    const bool digits = *text >= '0' && *text <= '9';
    if (!digits || *end != '\0' || errno != 0 || n < min || (max != 0 && n > max))
        return false;
    *out = n;
    return true;
}

/* strtod reads 0x10 too; as a size or a rate it is a slip. */
static bool is_hex(const char *text)
{
    return text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
}

static bool read_real(const char *text, double min, double *out)
{
    char *end;
    const double x = strtod(text, &end);
    const bool digits = (*text >= '0' && *text <= '9') || *text == '.';
    if (!digits || is_hex(text) || *end != '\0' || !(x <= (double)FLT_MAX) || x < min)
        return false;
    *out = x;
    return true;
}

static int numbers_in(const char *text)
{
    int n = 1;
    for (; *text != '\0'; text++)
        n += *text == ',';
    return n;
}

static bool read_list(const char *text, int64_t min, int64_t max, cli_list *out)
{
    cli_list list = {{0}, 0};
    char copy[512];
    if (strlen(text) >= sizeof copy)
        return false;
    memcpy(copy, text, strlen(text) + 1);
    char *at = copy;
    for (bool more = true; more;) {
        char *comma = strchr(at, ',');
        more = comma != NULL;
        if (more)
            *comma = '\0';
        if (list.n == CLI_LIST_MAX || !read_count(at, min, max, &list.at[list.n]))
            return false;
        list.n++;
        if (more)
            at = comma + 1;
    }
    *out = list;
    return true;
}

/* Steps, or a time with its unit. */
static bool read_every(const char *text, cli_every *out)
{
    static const struct {
        char name;
        double seconds;
    } units[] = {{'s', 1.0}, {'m', 60.0}, {'h', 3600.0}};
    int64_t steps;
    char *end;
    if (read_count(text, 1, 0, &steps)) {
        *out = (cli_every){.steps = (uint64_t)steps};
        return true;
    }
    if (*text < '0' || *text > '9' || is_hex(text))
        return false;
    const double x = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (end[0] != units[i].name || end[1] != '\0')
            continue;
        const double ns = x * units[i].seconds * 1e9;
        if (!(ns >= 1.0 && ns < 9.0e18))
            return false;
        *out = (cli_every){.ns = (uint64_t)ns};
        return true;
    }
    return false;
}

static const char *digits(char to[32], int64_t n)
{
    const uint64_t size = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    snprintf(to, 32, "%s%.30s", n < 0 ? "-" : "", sw_text_digits(size).text);
    return to;
}

static int refuse_number(const cli_option *o, const char *text)
{
    const char *what = o->kind == CLI_LIST   ? "whole numbers with commas between them, each"
                       : o->kind == CLI_REAL ? "a number"
                                             : "a whole number";
    if (o->kind == CLI_LIST && numbers_in(text) > CLI_LIST_MAX)
        return cli_error(CLI_USAGE, "%s must have at most %d numbers (got %d)", o->name,
                         CLI_LIST_MAX, numbers_in(text));
    if (o->kind == CLI_BYTES)
        return cli_refuse_bytes(o->name, o->words != NULL ? "auto, or " : "", text);
    if (o->kind == CLI_EVERY)
        return cli_error(CLI_USAGE,
                         "%s must be steps such as 100, or a time such as 30s, 10m or 1.5h, "
                         "above 0 (got '%s')",
                         o->name, text);
    char least[32], most[32];
    if (o->max != 0)
        return cli_error(CLI_USAGE, "%s must be %s from %s to %s (got '%s')", o->name, what,
                         digits(least, o->min), digits(most, o->max), text);
    return cli_error(CLI_USAGE, "%s must be %s of at least %s (got '%s')", o->name, what,
                     digits(least, o->min), text);
}

static int no_value(const cli_option *o)
{
    if (o->kind == CLI_OPTIONAL)
        return cli_error(CLI_USAGE, "%s= needs a value: %s; or give %s alone", o->name,
                         o->value, o->name);
    return cli_error(CLI_USAGE, "%s needs a value: %s", o->name, o->value);
}

int cli_set(const cli_option *o, const char *text)
{
    bool good = true;
    switch (o->kind) {
    case CLI_FLAG:
        *(bool *)o->to = true;
        break;
    case CLI_SWITCH:
        *(int *)o->to = 1;
        break;
    case CLI_COUNT:
        good = read_count(text, o->min, o->max, o->to);
        break;
    case CLI_REAL:
        good = read_real(text, (double)o->min, o->to);
        break;
    case CLI_BYTES:
        if (o->words != NULL && strcmp(o->words[0], text) == 0) {
            *(size_t *)o->to = SIZE_MAX;
            break;
        }
        good = cli_read_bytes(text, o->to) && *(const size_t *)o->to >= (size_t)o->min;
        break;
    case CLI_LIST:
        good = read_list(text, o->min, o->max, o->to);
        break;
    case CLI_EVERY:
        good = read_every(text, o->to);
        break;
    case CLI_OPTIONAL:
        memcpy(o->to, &text, sizeof text);
        break;
    case CLI_WORD:
        if (*text == '\0')
            return no_value(o);
        for (int i = 0; o->words != NULL; i++) {
            if (o->words[i] == NULL) {
                char known[256] = "";
                size_t used = 0;
                for (int j = 0; o->words[j] != NULL; j++) {
                    const int n = snprintf(known + used, sizeof known - used, "%s%s",
                                           j > 0 ? ", " : "", o->words[j]);
                    if (n < 0 || (size_t)n >= sizeof known - used)
                        break;
                    used += (size_t)n;
                }
                return cli_error(CLI_USAGE,
                                 "%s '%s' is unknown or not built yet: it is one of %s",
                                 o->name, text, known);
            }
            const size_t n = strlen(o->words[i]); /* "hf:" is the beginning of a word */
            if (strcmp(o->words[i], text) == 0 ||
                (n > 0 && o->words[i][n - 1] == ':' && strncmp(o->words[i], text, n) == 0))
                break;
        }
        memcpy(o->to, &text, sizeof text);
        break;
    }
    return good ? CLI_GO : refuse_number(o, text);
}

/* ---- help -------------------------------------------------------------------------------- */

#define HELP_COLUMN 27

static void print_option(const cli_option *o)
{
    char left[64], text[1400];
    const bool optional = o->kind == CLI_OPTIONAL;
    snprintf(left, sizeof left, "%s%s%s%s", o->name,
             o->value == NULL ? ""
             : optional       ? " ["
                              : " ",
             o->value != NULL ? o->value : "", optional ? "]" : "");
    snprintf(text, sizeof text, o->initial != NULL ? "%s (default %s)" : "%s", o->help,
             o->initial);
    printf("  %-*s", HELP_COLUMN - 2, left);
    if (strlen(left) > HELP_COLUMN - 3) /* no room for a gap: its text begins below */
        printf("\n%*s", HELP_COLUMN, "");
    cli_wrap(stdout, HELP_COLUMN, HELP_COLUMN, text);
}

static void (*put_page)(const cli_command *); /* what --help prints instead, or NULL */

void cli_set_help(void (*put)(const cli_command *))
{
    put_page = put;
}

static int print_page(const cli_command *c)
{
    put_page(c);
    return cli_finish(CLI_DONE);
}

static int print_help(const cli_command *c)
{
    printf("usage: stepwell %s %s\n\n", c->name, c->usage);
    cli_wrap(stdout, 0, 0, c->about);
    putchar('\n');
    for (int i = 0; i < c->n_options; i++)
        if (c->options[i].help != NULL)
            print_option(&c->options[i]);
    const cli_option help = {.name = "--help", .help = "this text"};
    print_option(&help);
    /* Paragraphs end with a newline. */
    const char *notes = c->notes;
    char text[2000];
    while (notes != NULL && *notes != '\0') {
        const size_t n = strcspn(notes, "\n");
        snprintf(text, sizeof text, "%.*s", (int)n, notes);
        putchar('\n');
        cli_wrap(stdout, 0, 0, text);
        notes += n + (notes[n] == '\n');
    }
    return cli_finish(CLI_DONE);
}

/* ---- the command line -------------------------------------------------------------------- */

static const cli_option *find(const cli_command *c, const char *name, size_t length)
{
    for (int i = 0; i < c->n_options; i++)
        if (strlen(c->options[i].name) == length &&
            strncmp(c->options[i].name, name, length) == 0)
            return &c->options[i];
    return NULL;
}

/* Options that were given another value than the default one. */
static const char *given[128];
static int n_given;

static bool is_given(const char *name, size_t length)
{
    for (int i = 0; i < n_given; i++)
        if (strlen(given[i]) == length && strncmp(given[i], name, length) == 0)
            return true;
    return false;
}

const char *cli_given(const char *names)
{
    static char found[64];
    for (size_t n; *(names += strspn(names, " ")) != '\0'; names += n) {
        n = strcspn(names, " ");
        if (is_given(names, n)) {
            snprintf(found, sizeof found, "%.*s", (int)n, names);
            return found;
        }
    }
    return NULL;
}

/* The last one counts. */
static int take(const cli_option *o, const char *text)
{
    const int status = cli_set(o, text);
    int n = 0;
    for (int i = 0; i < n_given; i++)
        if (given[i] != o->name)
            given[n++] = given[i];
    n_given = n;
    if (n < (int)(sizeof given / sizeof *given) &&
        (text == NULL || o->initial == NULL || strcmp(text, o->initial) != 0))
        given[n_given++] = o->name;
    return status;
}

/* Is what it needs there? An option that another command has is no matter here. */
static bool has_effect(const cli_command *c, const char *with)
{
    const size_t n = strcspn(with, " ");
    const cli_option *o = find(c, with, n);
    const char *value;
    if (o == NULL || (with[n] == '\0' && is_given(with, n)))
        return true;
    if (with[n] == '\0')
        return false;
    memcpy(&value, o->to, sizeof value);
    for (size_t k; value != NULL && *(with += strcspn(with, " ")) != '\0';) {
        with += strspn(with, " ");
        k = strcspn(with, " ");
        if (strncmp(value, with, k) == 0)
            return true;
    }
    return false;
}

void cli_command_line(char *to, size_t bytes, int argc, char **argv)
{
    size_t used = (size_t)snprintf(to, bytes, "stepwell");
    for (int i = 0; i < argc; i++) {
        const int n = snprintf(to + used, bytes - used, " %s", argv[i]);
        if (n < 0 || (size_t)n >= bytes - used) {
            to[used] = '\0';
            return;
        }
        used += (size_t)n;
    }
}

static int read_optional(const cli_option *o, const char *equals, int argc, char **argv, int *i)
{
    if (equals != NULL)
        return equals[1] == '\0' ? no_value(o) : take(o, equals + 1);
    if (*i + 1 >= argc || argv[*i + 1][0] == '-' || argv[*i + 1][0] == '\0')
        return take(o, "");
    *i += 1;
    return take(o, argv[*i]);
}

/* Read the option at argv[*i], and its value after it. */
static int read_option(const cli_command *c, int argc, char **argv, int *i)
{
    const char *name = argv[*i], *equals = strchr(name, '=');
    const size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const cli_option *o = find(c, name, length);
    if (o == NULL) {
        char text[64];
        snprintf(text, sizeof text, "%.*s", (int)length, name);
        const char *near = cli_nearest(text, c->options, sizeof *c->options, c->n_options);
        if (near != NULL)
            return cli_error(CLI_USAGE, "unknown option %s; did you mean %s?", text, near);
        return cli_error(CLI_USAGE, "unknown option %s; see stepwell %s --help", text, c->name);
    }
    if (o->value == NULL)
        return equals != NULL ? cli_error(CLI_USAGE, "%s takes no value", o->name)
                              : take(o, NULL);
    if (o->kind == CLI_OPTIONAL)
        return read_optional(o, equals, argc, argv, i);
    if (equals != NULL)
        return take(o, equals + 1);
    if (*i + 1 >= argc || strncmp(argv[*i + 1], "--", 2) == 0) /* --name=--value can say it */
        return no_value(o);
    *i += 1;
    return take(o, argv[*i]);
}

int cli_parse(const cli_command *c, int argc, char **argv)
{
    cli_set_command(c->name);
    n_given = 0;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return put_page != NULL ? print_page(c) : print_help(c);
    for (int i = 0; i < c->n_options; i++) {
        const cli_option *o = &c->options[i];
        const int status = o->initial != NULL ? cli_set(o, o->initial) : CLI_GO;
        if (status != CLI_GO)
            return status;
    }
    int operands = 0;
    bool options = true;
    for (int i = 1; i < argc; i++) {
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && argv[i][0] == '-' && argv[i][1] != '\0') {
            const int status = read_option(c, argc, argv, &i);
            if (status != CLI_GO)
                return status;
        } else if (operands < c->max_operands) {
            c->operand[operands++] = argv[i];
        } else {
            return cli_error(CLI_USAGE, "'%s' is one argument too many; usage: stepwell %s %s",
                             argv[i], c->name, c->usage);
        }
    }
    for (int j = 0; j < c->n_options; j++) {
        const cli_option *o = &c->options[j];
        if (!is_given(o->name, strlen(o->name)))
            continue;
        if (o->with != NULL && !has_effect(c, o->with))
            return cli_error(CLI_USAGE, "%s has no effect without %s", o->name, o->with);
        const char *other = o->excludes != NULL ? cli_given(o->excludes) : NULL;
        if (other != NULL)
            return cli_error(CLI_USAGE, "%s and %s exclude each other", o->name, other);
    }
    return CLI_GO;
}

/* ---- cli size ---------------------------------------------------------------------------- */

/* Sizes in bytes, as options have them: read, and what is said of one that cannot be read. */

static const char *const size_units[] = {"", "KiB", "MiB", "GiB", "TiB"};
#define N_UNITS 5

/* "1,234,567" without its separators, which messages write; false: they stand at wrong
 * places. */
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
        if (strcmp(unit, size_units[i]) == 0 || (i == 0 && strcmp(unit, "B") == 0))
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
            if (lower[0] == (size_units[i][0] | 32) && strcmp(lower + 1, ends[k]) == 0)
                return i;
    return 0;
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
        /* Does the unit stand for a power of 1000 to some and of 1024 to others? */
        if (strpbrk(unit, "iI") == NULL)
            snprintf(other, sizeof other, ", or %.0f if powers of 1000 are meant",
                     x * pow(1000.0, power));
        return cli_error(CLI_USAGE,
                         "%s: the unit '%s' is not taken (got '%s'): write %.*s%s, which is %s "
                         "bytes%s",
                         name, unit, text, (int)strcspn(text, " kKmMgGtT"), text,
                         size_units[power], sw_text_digits(bytes).text, other);
    }
    return cli_error(CLI_USAGE,
                     "%s must be %sa size in bytes, or with its unit, such as 4096, 64KiB, "
                     "1.5MiB, 2GiB or 1TiB, below 8000000TiB (got '%s')",
                     name, also, text);
}

/* ---- cli main ---------------------------------------------------------------------------- */

/* Work of main around that of a program: planned failures. */

/* STEPWELL_FAULT=memory:17 fails one call, file:3+ all from one on; KIND:count shows how
 * many there are. A plan that no call reached says so. For the tests of failures; see
 * alloc/base/fault.h. */
static int with_faults(const char *plan, int argc, char **argv,
                       int (*run)(int argc, char **argv))
{
    if (sw_fault_parse(plan) != SW_OK)
        return cli_error(CLI_USAGE, "STEPWELL_FAULT: %s", sw_last_error());
    const int status = run(argc, argv);
    const char *colon = strchr(plan, ':');
    if (colon == NULL || strcmp(colon, ":count") != 0) {
        uint64_t hits = 0;
        for (int kind = 0; kind < SW_FAULT_KINDS; kind++)
            hits += sw_fault_hits((sw_fault_kind)kind);
        if (hits == 0)
            fprintf(stderr, "fault plan %s: no call failed\n", plan);
        return status;
    }
    fputs("fault sites:", stderr);
    for (int kind = 0; kind < SW_FAULT_KINDS; kind++)
        fprintf(stderr, " %s %" PRIu64, sw_fault_kind_name((sw_fault_kind)kind),
                sw_fault_calls((sw_fault_kind)kind));
    fputc('\n', stderr);
    return status;
}

int cli_main(int argc, char **argv, int (*run)(int argc, char **argv))
{
    const char *plan = getenv("STEPWELL_FAULT");
    return plan != NULL && *plan != '\0' ? with_faults(plan, argc, argv, run) : run(argc, argv);
}
