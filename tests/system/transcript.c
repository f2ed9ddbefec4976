/* Transcripts: what the program says, as texts of transcripts/, each file a suite and each "==
 * promise" a test of it. A failure names file, line and command. transcripts/README.md has the
 * language. */
#include "tests/support/json.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include "tests/system/transcript.h"
#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    char path[1200], name[64];
    char **line; /* line[i] is line i + 1 of the file */
    size_t n;
    sw_suite suite;
} transcript;

static transcript all[64];
static size_t n_all;

/* The test that runs. */
static struct {
    const transcript *from;
    size_t line;      /* that is done */
    char text[8192];  /* it, with its names filled in */
    char folder[900]; /* @ */
    bool negated, ended;
    int checks;
    struct {
        char name[40], text[2000];
    } known[64];
    size_t n_known;
    char command[6000];
    pid_t started; /* 0: none runs beside the test */
    sw_outcome outcome;
    json_t *json; /* of outcome.out, once a line asked */
} now;

static void failed(bool passed, const char *why)
{
    const bool shown = strstr(now.text, now.command) != NULL;
    now.ended |= !passed;
    now.checks++;
    (void)sw_check(passed, now.from->path, (unsigned)now.line + 1, now.text,
                   "%s%s%s\n      status %d, signal %d: %.300s%.400s", why,
                   shown ? "" : "\n      $ ", shown ? "" : now.command, now.outcome.status,
                   now.outcome.signal, now.outcome.err, now.outcome.out);
}

/* A promise of this line; after "not" it must not hold. */
static void check(bool holds, const char *why)
{
    const bool passed = holds != now.negated;
    failed(passed, passed ? "" : now.negated ? "it holds" : why);
}

/* ---- texts ------------------------------------------------------------------------------- */

static const char *known(const char *name, size_t length)
{
    for (size_t i = now.n_known; i-- > 0;)
        if (strlen(now.known[i].name) == length &&
            strncmp(now.known[i].name, name, length) == 0)
            return now.known[i].text;
    return NULL;
}

static void know(const char *name, const char *text)
{
    size_t i = 0;
    while (i < now.n_known && strcmp(now.known[i].name, name) != 0)
        i++;
    CU_ASSERT_FATAL(i < sizeof now.known / sizeof *now.known);
    now.n_known += i == now.n_known;
    snprintf(now.known[i].name, sizeof now.known->name, "%s", name);
    snprintf(now.known[i].text, sizeof now.known->text, "%s", text);
}

/* @ is the folder of the test, {name} what is known by that name. */
static void fill(char *to, size_t room, const char *from)
{
    size_t used = 0;
    for (; *from != '\0' && used + 1 < room; from++) {
        const size_t name = *from == '{' ? strspn(from + 1, "abcdefghijklmnopqrstuvwxyz_"
                                                            "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
                                         : 0;
        const char *text = *from == '@'                        ? now.folder
                           : name > 0 && from[name + 1] == '}' ? known(from + 1, name)
                                                               : NULL;
        if (text == NULL) {
            to[used++] = *from;
            continue;
        }
        fill(to + used, room - used, text);
        used += strlen(to + used);
        from += *from == '{' ? name + 1 : 0;
    }
    to[used] = '\0';
}

size_t transcript_unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++)
        if (*from != '\\') {
            *to++ = *from;
        } else if (*++from == 'x') {
            const char two[] = {from[1], from[2], '\0'};
            *to++ = (char)strtol(two, NULL, 16);
            from += 2;
        } else {
            *to++ = *from == 'n' ? '\n' : *from == 'r' ? '\r' : *from == 't' ? '\t' : *from;
        }
    *to = '\0';
    return (size_t)(to - text);
}

const char *transcript_path(const char *name)
{
    static char paths[8][2000];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s%s%.1000s", *name == '/' ? "" : now.folder,
             *name == '/' ? "" : "/", name);
    return path;
}

char *transcript_word(char **rest)
{
    char *begin = *rest + strspn(*rest, " "), *end = begin + strcspn(begin, " ");
    *rest = *end != '\0' ? end + 1 : end;
    *end = '\0';
    return begin;
}

/* ---- running ----------------------------------------------------------------------------- */

static void forget(void)
{
    json_decref(now.json);
    now.json = NULL;
}

/* The text ends before `mark`; returns its rest after it, NULL where it has none. */
static char *cut(char *text, const char *mark)
{
    char *at_mark = strstr(text, mark);
    const size_t n = strlen(text),
                 bare = strcmp(mark, " => ") == 0 ? 3 : n + 1; /* a line may end with it */
    if (at_mark == NULL && n >= bare && strncmp(text + n - bare, mark, bare) == 0) {
        text[n - bare] = '\0';
        return text + n;
    }
    if (at_mark == NULL)
        return NULL;
    *at_mark = '\0';
    return at_mark + strlen(mark);
}

static void run_program(char *words)
{
    const char *env = NULL;
    if (isupper((unsigned char)*words) && strchr(words, '=') != NULL)
        env = transcript_word(&words);
    snprintf(now.command, sizeof now.command, "%s", words);
    (void)transcript_unescape(words);
    program_run(&now.outcome, words, env);
}

/* "WORDS", "WORDS > FILE" of the program alone, and "WORDS => TEXT => TEXT", which is refused:
 * that status, one line of error with the texts, and no output. */
static void run(char *words, int status, bool by_shell, bool refused)
{
    char *says = cut(words, " => "), *copy = by_shell ? NULL : cut(words, " > ");
    forget();
    if (by_shell) {
        char text[9000];
        const char *const argv[] = {"sh", "-c", text, NULL};
        snprintf(now.command, sizeof now.command, "%s", words);
        snprintf(text, sizeof text, "cd '%s' && P='%s' FULL=%d && { %s\n}", now.folder,
                 program_path(), sw_tests_full(), words);
        sw_process_run(&now.outcome, argv, NULL, 300);
    } else
        run_program(words);
    if (!refused && says == NULL) {
        check(now.outcome.status == status && now.outcome.signal == 0, "another status");
        if (copy != NULL)
            CU_ASSERT(
                file_write(transcript_path(copy), now.outcome.out, strlen(now.outcome.out)));
        return;
    }
    bool holds = program_failed_cleanly(&now.outcome, status);
    for (char *next; says != NULL; says = next) {
        next = cut(says, " => ");
        (void)transcript_unescape(says);
        holds = holds && strstr(now.outcome.err, says) != NULL;
    }
    check(holds, "that status and one line of error with the texts are due");
    now.ended = false; /* each refusal is one of its own */
}

/* ---- values ------------------------------------------------------------------------------ */

/* The value of a key: of the object itself, or wherever it comes first below. */
static const json_t *first_of(const json_t *in, const char *key, size_t length)
{
    const json_t *found = NULL;
    for (int deep = 0; deep < 2; deep++)
        for (size_t i = 0; json_is_object(in) && i < json_object_size(in) && found == NULL;
             i++) {
            const char *name = json_object_key(in, i);
            if (deep)
                found = first_of(json_object_member(in, i), key, length);
            else if (strlen(name) == length && strncmp(name, key, length) == 0)
                found = json_object_member(in, i);
        }
    for (size_t i = 0; json_is_array(in) && i < json_array_size(in) && found == NULL; i++)
        found = first_of(json_array_get(in, i), key, length);
    return found;
}

/* The element that has this text under the key: "name=saved". */
static const json_t *element_with(const json_t *in, const char *part, size_t length)
{
    char key[100];
    snprintf(key, sizeof key, "%.*s", (int)length, part);
    const char *text = cut(key, "=");
    for (size_t i = 0; i < json_array_size(in); i++) {
        const char *is = json_string_value(json_object_get(json_array_get(in, i), key));
        if (is != NULL && strcmp(is, text) == 0)
            return json_array_get(in, i);
    }
    return NULL;
}

/* "plans.1.predicted.peak_bytes", "roles.name=saved.predicted"; NULL where it is not. */
static const json_t *value_at(const char *path)
{
    if (now.json == NULL)
        now.json = json_loads(now.outcome.out);
    const json_t *in = now.json;
    while (in != NULL && *path != '\0') {
        const size_t length = strcspn(path, ".");
        in = isdigit((unsigned char)*path)       ? json_array_get(in, strtoul(path, NULL, 10))
             : memchr(path, '=', length) != NULL ? element_with(in, path, length)
                                                 : first_of(in, path, length);
        path += length + (path[length] == '.');
    }
    return in;
}

/* The sum over the elements of "plans.total_bytes". */
static double sum_of(const char *path)
{
    char list[200];
    snprintf(list, sizeof list, "%s", path);
    char *key = strrchr(list, '.');
    double sum = 0.0;
    *key++ = '\0';
    const json_t *in = value_at(list);
    const size_t n = json_is_object(in) ? json_object_size(in) : json_array_size(in);
    for (size_t i = 0; i < n; i++) {
        const json_t *x =
            first_of(json_is_object(in) ? json_object_member(in, i) : json_array_get(in, i),
                     key, strlen(key));
        sum += json_is_number(x) ? json_number_value(x) : (double)NAN;
    }
    return n > 0 ? sum : (double)NAN;
}

/* A hash of all that a value has, in its order. FNV-1a. */
static uint64_t hash_of(const json_t *x, uint64_t hash)
{
    char text[400];
    snprintf(text, sizeof text, "%.17g %s%d", json_is_number(x) ? json_number_value(x) : -0.5,
             json_is_string(x) ? json_string_value(x) : "", json_is_true(x));
    for (const char *c = text; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    for (size_t i = 0; json_is_array(x) && i < json_array_size(x); i++)
        hash = hash_of(json_array_get(x, i), hash);
    for (size_t i = 0; json_is_object(x) && i < json_object_size(x); i++) {
        for (const char *c = json_object_key(x, i); *c != '\0'; c++)
            hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
        hash = hash_of(json_object_member(x, i), hash);
    }
    return hash;
}

/* The longest line, in characters. */
static size_t widest(const char *text)
{
    size_t most = 0, n = 0;
    for (; *text != '\0'; text++) {
        n = *text == '\n' ? 0 : n + (((unsigned char)*text & 0xc0) != 0x80);
        most = n > most ? n : most;
    }
    return most;
}

/* "A:B": the distance of two files of parameters by the norm of the first. */
static double apart(const char *names)
{
    char a_name[200];
    snprintf(a_name, sizeof a_name, "%s", names);
    const char *b_name = cut(a_name, ":");
    size_t n, m;
    double off = 0.0, norm = 0.0;
    float *a = program_numbers(transcript_path(a_name), &n),
          *b = program_numbers(transcript_path(b_name), &m);
    for (size_t i = 0; a != NULL && b != NULL && i < n && i < m; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)a[i] * (double)a[i];
    }
    free(a);
    free(b);
    return n == m && n > 0 ? sqrt(off / norm) : (double)NAN;
}

static double operand(const char *text)
{
    char *end;
    const char *file = strchr(text, ':');
    const double literal = strtod(text, &end);
    if (end > text && *end == '\0')
        return literal;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return *text == 't';
    if (strncmp(text, "sqrt:", 5) == 0)
        return sqrt(operand(file + 1));
    if (strncmp(text, "exp:", 4) == 0)
        return exp(operand(file + 1));
    char part[200]; /* what stands after "count:" and its like */
    snprintf(part, sizeof part, "%s", file != NULL ? file + 1 : "");
    (void)transcript_unescape(part);
    const char *said = file != NULL ? strstr(now.outcome.err, part) : NULL;
    if (strncmp(text, "number:", 7) == 0) { /* after it on standard error, "1,234" too */
        char number[40] = "";
        size_t n = 0;
        for (said += said != NULL ? strlen(part) : 0; said != NULL && *said != '\0' && n < 39;
             said++)
            if (*said != ',' || !isdigit((unsigned char)said[1]))
                number[n++] = *said;
        const double x = strtod(number, &end);
        return end > number ? x : (double)NAN;
    }
    if (strncmp(text, "count:", 6) == 0) {
        double n = 0.0;
        for (const char *c = now.outcome.out; (c = strstr(c, part)) != NULL; c++)
            n++;
        return n;
    }
    if (strncmp(text, "apart:", 6) == 0)
        return apart(file + 1);
    if (strncmp(text, "sum:", 4) == 0)
        return sum_of(file + 1);
    if (strncmp(text, "size:", 5) == 0) {
        struct stat st;
        return stat(transcript_path(file + 1), &st) == 0 ? (double)st.st_size : (double)NAN;
    }
    const struct {
        const char *name;
        double value;
    } own[] = {{"status", now.outcome.status},
               {"rss", (double)now.outcome.peak_bytes},
               {"lines", sw_count_lines(now.outcome.out)},
               {"errlines", sw_count_lines(now.outcome.err)},
               {"width", (double)widest(now.outcome.out)},
               {"length", (double)strlen(now.outcome.out)}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(text, own[i].name) == 0)
            return own[i].value;
    const size_t length = strlen(text);
    if (length > 2 && strcmp(text + length - 2, ".#") == 0) {
        char path[200];
        snprintf(path, sizeof path, "%.*s", (int)length - 2, text);
        const json_t *in = value_at(path);
        return json_is_array(in)    ? (double)json_array_size(in)
               : json_is_object(in) ? (double)json_object_size(in)
                                    : (double)NAN;
    }
    const json_t *value = value_at(text);
    return json_is_boolean(value)  ? json_is_true(value)
           : json_is_number(value) ? json_number_value(value)
                                   : (double)NAN;
}

/* The text of "A", "hash:FILE" or "A + B * C", from left to right, and the rest of *rest from a
 * comparison on. */
static void evaluate(char *to, size_t room, char **rest)
{
    char op = '=';
    double sum = 0.0;
    for (;;) {
        const char *term = transcript_word(rest);
        if (strncmp(term, "0x", 2) == 0 || strcmp(term, "null") == 0) {
            snprintf(to, room, "%s", term);
            return;
        }
        if (strncmp(term, "hash:", 5) == 0) {
            snprintf(to, room, "0x%016llx",
                     (unsigned long long)program_tensors(transcript_path(term + 5)));
            failed(strcmp(to, "0x0000000000000000") != 0, "no tensors");
            return;
        }
        if (strncmp(term, "json:", 5) == 0) {
            snprintf(to, room, "0x%016llx",
                     (unsigned long long)hash_of(value_at(term + 5), 0xcbf29ce484222325u));
            failed(value_at(term + 5) != NULL, "there is no such value");
            return;
        }
        const json_t *value = value_at(term);
        if (json_is_null(value) && value != NULL && op == '=' &&
            isalpha((unsigned char)*term)) {
            snprintf(to, room, "null");
            return;
        }
        const double x = operand(term);
        sum = op == '+'   ? sum + x
              : op == '-' ? sum - x
              : op == '*' ? sum * x
              : op == '/' ? sum / x
                          : x;
        if (**rest == '\0' || strchr("+-*/", **rest) == NULL || (*rest)[1] != ' ')
            break;
        op = *transcript_word(rest);
    }
    snprintf(to, room, "%.17g", sum);
    failed(!isnan(sum), "there is no such number");
}

static void compare(char *rest)
{
    char left[100], right[100], why[300];
    evaluate(left, sizeof left, &rest);
    const char *op = transcript_word(&rest);
    evaluate(right, sizeof right, &rest);
    const bool numbers = strcmp(left, "null") != 0 && strcmp(right, "null") != 0;
    const double a = strtod(left, NULL), b = strtod(right, NULL);
    snprintf(why, sizeof why, "%s and %s", left, right);
    if (!now.ended)
        check(strcmp(op, "=") == 0    ? strcmp(left, right) == 0
              : strcmp(op, "!=") == 0 ? strcmp(left, right) != 0
              : !numbers              ? now.negated
              : strcmp(op, "<") == 0  ? a < b
              : strcmp(op, "<=") == 0 ? a <= b
              : strcmp(op, ">") == 0  ? a > b
              : strcmp(op, ">=") == 0 ? a >= b
              : *op == '~'            ? fabs(a - b) <= strtod(op + 1, NULL)
                                      : now.negated,
              why);
}

/* ---- files ------------------------------------------------------------------------------- */

/* The file becomes what the lines after it look at, as if it had been printed. */
static void look_at(char *name)
{
    size_t n;
    char *bytes = (char *)file_read(transcript_path(name), &n);
    forget();
    snprintf(now.command, sizeof now.command, "(the file %s)", name);
    failed(bytes != NULL && n < sizeof now.outcome.out, "the file is not there, or too large");
    snprintf(now.outcome.out, sizeof now.outcome.out, "%s", bytes != NULL ? bytes : "");
    free(bytes);
}

static void same(char *rest)
{
    size_t n[2];
    const char *a = transcript_word(&rest), *b = transcript_word(&rest);
    unsigned char *x = file_read(transcript_path(a), &n[0]),
                  *y = file_read(transcript_path(b), &n[1]);
    failed(x != NULL && y != NULL, "a file is not there");
    if (x != NULL && y != NULL)
        check(n[0] == n[1] && memcmp(x, y, n[0]) == 0, "the files differ");
    free(x);
    free(y);
}

static void has_text(char *rest)
{
    size_t n;
    const char *name = transcript_word(&rest);
    char *bytes = (char *)file_read(transcript_path(name), &n);
    const size_t length = transcript_unescape(rest);
    check(bytes != NULL && n == length && memcmp(bytes, rest, n) == 0, "the file has not it");
    free(bytes);
}

/* "A B", or the first N bytes with "A B N", all but so many where N is negative. */
static void copy_file(char *rest)
{
    size_t n;
    const char *from = transcript_word(&rest), *to = transcript_word(&rest);
    unsigned char *bytes = file_read(transcript_path(from), &n);
    const long long some = atoll(rest);
    failed(bytes != NULL, "the file is not there");
    if (bytes != NULL)
        CU_ASSERT(file_write(transcript_path(to), bytes,
                             *rest == '\0' ? n
                             : some < 0    ? n - (size_t)-some
                                           : (size_t)some));
    free(bytes);
}

/* "FILE OFFSET BITS": these bits of that byte, from the end where it is negative; 1 without. */
static void flip(char *rest)
{
    size_t n;
    const char *name = transcript_word(&rest);
    unsigned char *bytes = file_read(transcript_path(name), &n);
    const long long offset = atoll(transcript_word(&rest));
    const int bits = *rest != '\0' ? atoi(rest) : 1;
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    const size_t byte = offset < 0 ? n - (size_t)-offset : (size_t)offset;
    CU_ASSERT_FATAL(byte < n);
    bytes[byte] ^= (unsigned char)bits;
    CU_ASSERT(file_write(transcript_path(name), bytes, n));
    free(bytes);
}

/* "NAME TEXT", or "NAME <<" and the lines up to ">>". */
static void put(char *rest)
{
    const char *name = transcript_word(&rest);
    char folder[2000];
    snprintf(folder, sizeof folder, "%s", transcript_path(name));
    *strrchr(folder, '/') = '\0';
    (void)mkdir(folder, 0700);
    if (strcmp(rest, "<<") != 0) {
        const size_t n = transcript_unescape(rest);
        CU_ASSERT_FATAL(file_write(transcript_path(name), rest, n));
        return;
    }
    FILE *file = fopen(transcript_path(name), "w");
    CU_ASSERT_FATAL(file != NULL);
    while (strcmp(now.from->line[++now.line], ">>") != 0)
        fprintf(file, "%s\n", now.from->line[now.line]);
    fclose(file);
}

/* Whether something is there that a test needs. */
static bool there(const char *what)
{
    if (strncmp(what, "no /", 4) == 0)
        return access(what + 3, F_OK) != 0;
    if (strcmp(what, "png") == 0)
        return SW_HAVE_PNG;
    if (strcmp(what, "zlib") == 0)
        return SW_HAVE_ZLIB;
    if (strcmp(what, "no sanitizer") == 0)
        return SANITIZED == 0;
    if (*what == '/')
        return access(what, F_OK) == 0;
    if (strncmp(what, "sh ", 3) == 0)
        return sw_shell("P='%s'; %s", program_path(), what + 3) == 0;
    if (strncmp(what, "data ", 5) == 0)
        return sw_data_path(what + 5) != NULL;
    return sw_shell("command -v '%s' >/dev/null", what) == 0;
}

/* ---- lines ------------------------------------------------------------------------------- */

static void run_lines(size_t end);

/* The line of the "end" of the block that begins at `begin`. */
static size_t end_of(size_t begin)
{
    int deep = 1;
    for (size_t i = begin + 1; i < now.from->n; i++) {
        const char *line = now.from->line[i] + strspn(now.from->line[i], " ");
        deep += strncmp(line, "for ", 4) == 0 || strcmp(line, "full") == 0;
        deep -= strcmp(line, "end") == 0;
        if (deep == 0)
            return i;
    }
    failed(false, "there is no end");
    return begin;
}

/* "for NAMES in A | B || C", or a line "| VALUES" or "|| VALUES" for each turn; after "||"
 * stands what quick leaves out. */
static void loop(char *rest)
{
    const size_t end = end_of(now.line), n_known = now.n_known;
    const char *names = transcript_word(&rest);
    char *turn = transcript_word(&rest) != NULL && *rest != '\0' ? rest : NULL;
    size_t body = now.line + 1;
    while (*now.from->line[body] == '|')
        body++;
    for (size_t row = now.line + 1; turn != NULL || row < body;) {
        char values[8192];
        bool full = false;
        if (turn == NULL) {
            const char *line = now.from->line[row++];
            full = line[1] == '|';
            line += strspn(line, "|");
            fill(values, sizeof values, line + (*line == ' ' && line[1] != '='));
        } else {
            char *bar = strstr(turn, "|");
            snprintf(values, sizeof values, "%.*s", bar != NULL ? (int)(bar - turn) : 8000,
                     turn);
            full = bar != NULL && bar[1] == '|' && !sw_tests_full();
            turn = bar != NULL && !full ? bar + 1 + (bar[1] == '|') : NULL;
            turn = turn != NULL ? turn + strspn(turn, " ") : NULL;
            full = false;
            for (size_t n = strlen(values); n > 0 && values[n - 1] == ' '; n--)
                values[n - 1] = '\0';
        }
        if ((full && !sw_tests_full()) || now.ended)
            continue;
        now.n_known = n_known; /* what is found out in the loop goes */
        now.line = body;
        /* One value, or as many as there are names, parted by " => ". */
        char name_list[200], value_list[4000], *value = value_list;
        snprintf(name_list, sizeof name_list, "%s", names);
        snprintf(value_list, sizeof value_list, "%s", values);
        for (char *name = name_list, *next; name != NULL; name = next) {
            next = cut(name, ",");
            char *more = next != NULL ? cut(value, " => ") : NULL;
            if (next != NULL && more == NULL)
                failed(false, "a turn has fewer values than there are names");
            know(name, value);
            value = more != NULL ? more : value;
        }
        run_lines(end);
    }
    now.n_known = n_known;
    now.line = end;
}

/* ---- a program beside the test ----------------------------------------------------------- */

static void start(char *words)
{
    snprintf(now.command, sizeof now.command, "%s", words);
    (void)signal(SIGHUP, SIG_DFL); /* the tests may run under nohup */
    now.started = program_start("started", words, NULL);
}

/* "FILE BYTES": until it has so many. */
static void until(char *rest)
{
    const struct timespec pause = {0, 1000000};
    const char *name = transcript_word(&rest);
    const long long bytes = atoll(rest);
    struct stat st;
    int turns = 20000;
    while ((stat(transcript_path(name), &st) != 0 || st.st_size < bytes) && turns-- > 0)
        nanosleep(&pause, NULL);
    failed(turns > 0, "it does not come");
}

/* "INT 130": the signal, and the status after it; KILL has none. */
static void end_by_signal(char *rest)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"INT", SIGINT}, {"TERM", SIGTERM}, {"HUP", SIGHUP}, {"KILL", SIGKILL}};
    const char *name = transcript_word(&rest);
    size_t i = 0;
    while (strcmp(signals[i].name, name) != 0)
        i++;
    (void)kill(now.started, signals[i].number);
    forget();
    sw_process_wait(&now.outcome, now.started, "started", 60);
    now.started = 0;
    if (signals[i].number == SIGKILL)
        check(now.outcome.signal == SIGKILL, "it had ended before");
    else
        check(now.outcome.status == atoi(rest) && !now.outcome.timed_out, "another status");
}

typedef void verb_does(char *rest);

static bool lines_are_objects(const char *out)
{
    bool hold = out[0] != '\0';
    for (const char *line = out; hold && *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        json_t *json = json_loadb(line, n);
        hold = json_is_object(json);
        json_decref(json);
        line += n + (line[n] == '\n');
    }
    return hold;
}

/* Where a text ceases to be well-formed XML: tags nest, attributes are quoted, and nothing
 * stands bare that would begin a tag or an entity. NULL: it is. Enough for what has neither
 * CDATA nor comments. `begins` is how the text must begin. */
static const char *malformed(const char *text, const char *begins)
{
    char open[32][32];
    int depth = 0;
    const char *at = text;
    if (strncmp(at, begins, strlen(begins)) != 0)
        return at;
    for (at = strchr(at, '\n') + 1; *at != '\0';) {
        if (*at == '&' && strncmp(at, "&amp;", 5) != 0 && strncmp(at, "&#10;", 5) != 0 &&
            strncmp(at, "&lt;", 4) != 0 && strncmp(at, "&gt;", 4) != 0)
            return at;
        if ((unsigned char)*at > 0x7e || ((unsigned char)*at < 0x20 && *at != '\n') ||
            *at == '>' || (depth == 0 && *at != '<' && *at != '\n'))
            return at;
        if (*at++ != '<')
            continue;
        const bool closes = *at == '/';
        at += closes;
        const size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz123456");
        if (n == 0 || n >= sizeof open[0] || depth == 32)
            return at;
        if (closes) {
            if (depth == 0 || strncmp(open[--depth], at, n) != 0 || open[depth][n] != '\0' ||
                at[n] != '>')
                return at;
            at += n + 1;
            continue;
        }
        memcpy(open[depth], at, n);
        open[depth++][n] = '\0';
        for (at += n; *at == ' ';) {
            at += 1 + strcspn(at + 1, "=<>&\"");
            if (at[0] != '=' || at[1] != '"')
                return at;
            at += 2 + strcspn(at + 2, "<&\"");
            if (*at++ != '"')
                return at;
        }
        if (*at == '/') {
            depth--;
            at++;
        }
        if (*at++ != '>')
            return at;
    }
    return depth == 0 ? NULL : at;
}

/* The promises of one look; false where the word is no promise. */
static bool look(const char *verb, char *text)
{
    const char *const out = now.outcome.out, *const err = now.outcome.err, *wrong = NULL;
    if (strcmp(verb, "svg") == 0)
        wrong = malformed(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg ");
    if (strcmp(verb, "html") == 0)
        wrong = malformed(out, "<!doctype html>\n<html lang=\"en\">");
    if (strcmp(verb, "out") == 0 || strcmp(verb, "err") == 0 || strcmp(verb, "starts") == 0)
        (void)transcript_unescape(text);
    const struct {
        const char *verb, *why;
        bool holds;
    } promises[] = {
        {"out", "the output lacks it", strstr(out, text) != NULL},
        {"err", "standard error lacks it", strstr(err, text) != NULL},
        {"starts", "the output begins otherwise", strncmp(out, text, strlen(text)) == 0},
        {"quiet", "there is something on standard error", *err == '\0'},
        {"silent", "there is something on standard output", *out == '\0'},
        {"there", "it is not there", access(transcript_path(text), F_OK) == 0},
        {"svg", wrong, wrong == NULL},
        {"html", wrong, wrong == NULL},
        {"jsonl", "a line is no object", strcmp(verb, "jsonl") == 0 && lines_are_objects(out)},
    };
    for (size_t i = 0; i < sizeof promises / sizeof *promises; i++)
        if (strcmp(promises[i].verb, verb) == 0) {
            check(promises[i].holds, promises[i].why != NULL ? promises[i].why : "");
            return true;
        }
    return false;
}

/* Each key of the object is in the file. */
static void has_keys(char *rest)
{
    size_t n;
    char *text = (char *)file_read(transcript_path(rest), &n);
    now.json = now.json != NULL ? now.json : json_loads(now.outcome.out);
    failed(text != NULL && json_object_size(now.json) > 0, "no file, or no object");
    const char *missing = NULL;
    for (size_t i = 0; i < json_object_size(now.json) && text != NULL; i++)
        if (strstr(text, json_object_key(now.json, i)) == NULL)
            missing = json_object_key(now.json, i);
    check(missing == NULL, missing != NULL ? missing : "");
    free(text);
}

static void let(char *rest)
{
    char text[100];
    const char *name = transcript_word(&rest);
    evaluate(text, sizeof text, &rest);
    know(name, text);
}

static void define(char *rest)
{
    const char *name = transcript_word(&rest);
    know(name, rest);
}

static void make(char *rest)
{
    failed(transcript_make(rest), "it cannot be made");
}

static void needs(char *rest)
{
    static char reason[300];
    snprintf(reason, sizeof reason, "%s is not there", rest);
    if (there(rest))
        return;
    sw_test_skip(reason);
    now.ended = true;
}

static void only_full(char *rest)
{
    if (!sw_tests_full())
        now.line = end_of(now.line);
}

static void no_more(char *rest)
{
}

static const struct {
    const char *name;
    verb_does *does;
} verbs[] = {
    {"is", compare},     {"let", let},       {"def", define},         {"put", put},
    {"make", make},      {"same", same},     {"text", has_text},      {"read", look_at},
    {"needs", needs},    {"for", loop},      {"full", only_full},     {"end", no_more},
    {"start", start},    {"until", until},   {"kill", end_by_signal}, {"flip", flip},
    {"copy", copy_file}, {"keys", has_keys},
};

static void run_line(void)
{
    const char *raw = now.from->line[now.line] + strspn(now.from->line[now.line], " ");
    fill(now.text, sizeof now.text, raw);
    char text[sizeof now.text], *rest = text;
    snprintf(text, sizeof text, "%s", now.text);
    now.negated = strncmp(text, "not ", 4) == 0;
    rest += now.negated ? 4 : 0;
    if (*rest == '\0' || *rest == '#')
        return;
    const char *first = transcript_word(&rest);
    const bool numbered = isdigit((unsigned char)*first);
    if (numbered)
        run(rest, atoi(first), false, true);
    else if (*first == '$' || *first == '!')
        run(rest, atoi(first + 1), *first == '!', false);
    else if (!look(first, rest)) {
        size_t i = 0;
        while (i < sizeof verbs / sizeof *verbs && strcmp(verbs[i].name, first) != 0)
            i++;
        if (i == sizeof verbs / sizeof *verbs)
            failed(false, "there is no such word");
        else
            verbs[i].does(rest);
    }
}

static void run_lines(size_t end)
{
    for (; now.line < end && !now.ended; now.line++)
        run_line();
}

/* ---- tests ------------------------------------------------------------------------------- */

/* Texts before the first test are for all: "def" of their names. */
static void run_test(void)
{
    static int n_tests;
    char folder[40];
    const char *suite = CU_get_current_suite()->pName, *name = CU_get_current_test()->pName;
    size_t f = 0, i = 0;
    while (strcmp(all[f].name, suite) != 0)
        f++;
    memset(&now, 0, sizeof now);
    now.from = &all[f];
    snprintf(folder, sizeof folder, "transcript-%d", n_tests++);
    snprintf(now.folder, sizeof now.folder, "%s", sw_temp_path(folder));
    CU_ASSERT_EQUAL_FATAL(mkdir(now.folder, 0700), 0);
    know("BUILD", sw_build_root());
    know("SOURCE", sw_source_root());
    know("PREFIX", SW_PREFIX);
    know("DATA", sw_data_path("") != NULL ? sw_data_path("") : "");
    while (i < all[f].n && strncmp(all[f].line[i], "== ", 3) != 0)
        i++;
    run_lines(i);
    while (i < all[f].n &&
           (strncmp(all[f].line[i], "== ", 3) != 0 || strcmp(all[f].line[i] + 3, name) != 0))
        i++;
    size_t end = i + 1;
    while (end < all[f].n && strncmp(all[f].line[end], "== ", 3) != 0)
        end++;
    now.line = i + 1;
    run_lines(end);
    if (now.started != 0) {
        (void)kill(now.started, SIGKILL);
        sw_process_wait(&now.outcome, now.started, "started", 60);
    }
    SW_CHECK(now.checks > 0 || now.ended, "%s:%zu: it promises nothing", now.from->path, i + 1);
    forget();
}

static void read_transcript(const char *folder, const char *name)
{
    size_t n;
    transcript *t = &all[n_all];
    snprintf(t->path, sizeof t->path, "%s/%s", folder, name);
    snprintf(t->name, sizeof t->name, "%.*s", (int)(strlen(name) - 4), name);
    char *text = (char *)file_read(t->path, &n);
    if (text == NULL)
        return;
    const size_t most = (size_t)sw_count_lines(text);
    t->line = calloc(most + 1, sizeof *t->line);
    sw_test *tests = calloc(most + 1, sizeof *tests);
    t->suite = (sw_suite){t->name, tests, 0, NULL};
    for (char *line = text; line != NULL && t->n < most; t->n++) {
        char *end = strchr(line, '\n');
        if (end != NULL)
            *end++ = '\0';
        t->line[t->n] = line;
        if (strncmp(line, "== ", 3) == 0)
            tests[t->suite.n++] =
                (sw_test){line + 3, run_test, strstr(line, " (full)") != NULL};
        line = end;
    }
    n_all++;
    sw_suite_register(&t->suite);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

__attribute__((constructor)) static void read_transcripts(void)
{
    char folder[1024];
    struct dirent **entries;
    snprintf(folder, sizeof folder, "%s/tests/system/transcripts", sw_source_root());
    const int n = scandir(folder, &entries, NULL, by_name);
    for (int i = 0; i < n; i++) {
        const size_t length = strlen(entries[i]->d_name);
        if (length > 4 && strcmp(entries[i]->d_name + length - 4, ".txt") == 0)
            read_transcript(folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
}
