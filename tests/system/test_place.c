/* `stepwell place` and `stepwell bench place`: what is read, what is written, what is refused,
 * and that every placement holds. The check here is quadratic and plain. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static sw_outcome outcome;

static const char *at(const char *name)
{
    static char path[4][1024];
    static int turn;
    char *to = path[turn++ % 4];
    snprintf(to, sizeof path[0], "%s/%s", sw_temp_path("place"), name);
    return to;
}

static const char *put(const char *name, const char *text)
{
    (void)mkdir(sw_temp_path("place"), 0700);
    CU_ASSERT(file_write(at(name), text, strlen(text)));
    return at(name);
}

static bool has_text(const char *name, const char *text)
{
    size_t n = 0;
    char *found = (char *)file_read(at(name), &n);
    const bool same = found != NULL && n == strlen(text) && memcmp(found, text, n) == 0;
    free(found);
    return same;
}

/* Run `place INPUT` with more words. */
static void place(const char *input, const char *words)
{
    char line[4000];
    snprintf(line, sizeof line, "place %s %s", input, words);
    program_run(&outcome, line, NULL);
}

static void place_to(const char *input, const char *words, const char *output)
{
    char line[3000];
    (void)unlink(at(output));
    snprintf(line, sizeof line, "%s --out %s", words, at(output));
    place(input, line);
}

static bool is_true(const char *key)
{
    char text[64];
    snprintf(text, sizeof text, "\"%s\":true", key);
    return strstr(outcome.out, text) != NULL;
}

/* ---- a written placement ----------------------------------------------------------------- */

#define ROWS_MAX 30000
static struct {
    unsigned long long lower, upper, bytes, offset;
} rows[ROWS_MAX];

/* Read id,lower,upper,size,offset. Whether line by line it is `input` and an offset. */
static bool read_rows(const char *input, const char *output, size_t *n)
{
    static char a[4096], b[4096];
    FILE *in = fopen(input, "r"), *out = fopen(output, "r");
    bool good = in != NULL && out != NULL && fgets(a, sizeof a, in) != NULL &&
                fgets(b, sizeof b, out) != NULL &&
                strcmp(b, "id,lower,upper,size,offset\n") == 0;
    for (*n = 0; good && fgets(a, sizeof a, in) != NULL && *n < ROWS_MAX; ++*n) {
        const size_t length = strcspn(a, "\r\n");
        good = fgets(b, sizeof b, out) != NULL && strncmp(a, b, length) == 0 &&
               b[length] == ',' &&
               sscanf(a, "%*[^,],%llu,%llu,%llu", &rows[*n].lower, &rows[*n].upper,
                      &rows[*n].bytes) == 3 &&
               sscanf(b + length, ",%llu", &rows[*n].offset) == 1;
    }
    good = good && fgets(b, sizeof b, out) == NULL;
    if (in != NULL)
        fclose(in);
    if (out != NULL)
        fclose(out);
    return good;
}

/* Pairs that live together and overlap. */
static size_t overlaps(size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            found += rows[i].lower < rows[j].upper && rows[j].lower < rows[i].upper &&
                     rows[i].offset < rows[j].offset + rows[j].bytes &&
                     rows[j].offset < rows[i].offset + rows[i].bytes;
    return found;
}

static double height_of(size_t n)
{
    unsigned long long most = 0;
    for (size_t i = 0; i < n; i++)
        if (rows[i].offset + rows[i].bytes > most)
            most = rows[i].offset + rows[i].bytes;
    return (double)most;
}

/* After `place INPUT --json --out OUTPUT` that ended well. */
static void check_written(const char *input, const char *output)
{
    size_t n = 0;
    SW_CHECK(outcome.status == 0, "%s: status %d: %s", input, outcome.status, outcome.err);
    SW_CHECK(read_rows(input, output, &n), "%s: the rows are not those of the file", input);
    SW_CHECK(program_number(outcome.out, "buffers") == (double)n, "%s", outcome.out);
    SW_CHECK(program_number(outcome.out, "height") == height_of(n), "%s", outcome.out);
    CU_ASSERT(is_true("solved") && is_true("written"));
    if (is_true("optimal"))
        CU_ASSERT(program_number(outcome.out, "height") ==
                  program_number(outcome.out, "proved"));
    if (n <= 2000) {
        const size_t found = overlaps(n);
        SW_CHECK(found == 0, "%s: %zu pairs overlap", input, found);
    }
}

/* ---- small problems ---------------------------------------------------------------------- */

#define SMALL                                                                                  \
    "id,lower,upper,size\n"                                                                    \
    "first,0,4,10\n"                                                                           \
    "a b,2,6,20\n"                                                                             \
    "7,4,9,10\n"

static void a_placement_holds_and_keeps_the_rows(void)
{
    put("small.csv", SMALL);
    place_to(at("small.csv"), "--json", "out.csv");
    check_written(at("small.csv"), at("out.csv"));
    CU_ASSERT(is_true("optimal"));
    CU_ASSERT_EQUAL(program_number(outcome.out, "height"), 30);
    CU_ASSERT_EQUAL(program_number(outcome.out, "lower_bound"), 30);
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "\"capacity\":null"));
    CU_ASSERT_EQUAL(sw_count_lines(outcome.out), 1);
    place(at("small.csv"), "");
    SW_CHECK(outcome.status == 0 && outcome.err[0] == '\0' &&
                 strstr(outcome.out, "the optimum: the lower bound is reached") != NULL,
             "%s%s", outcome.out, outcome.err);
    place(at("small.csv"), "--quiet");
    CU_ASSERT_STRING_EQUAL(outcome.out, "30\n");
}

static void random_problems_are_placed_soundly(void)
{
    sw_dice dice = {5};
    const int rounds = sw_tests_full() ? 200 : 12;
    static char text[200000];
    for (int round = 0; round < rounds; round++) {
        const uint64_t n = 1 + sw_dice_below(&dice, 400), end = 2 + sw_dice_below(&dice, 300);
        const uint64_t scale = round % 2 == 0 ? 1 : UINT64_C(0x00ffffffffffff);
        size_t used = (size_t)snprintf(text, sizeof text, "id,lower,upper,size\n");
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t lower = sw_dice_below(&dice, end - 1);
            const uint64_t upper = lower + 1 + sw_dice_below(&dice, end - 1 - lower);
            used += (size_t)snprintf(text + used, sizeof text - used, "v%llu,%llu,%llu,%llu\n",
                                     (unsigned long long)i, (unsigned long long)(lower * scale),
                                     (unsigned long long)(upper * scale),
                                     (unsigned long long)(1 + sw_dice_below(&dice, 1000)));
        }
        put("random.csv", text);
        place_to(at("random.csv"), "--json --nodes 200", "out.csv");
        check_written(at("random.csv"), at("out.csv"));
    }
}

/* The text of a file, the words, and what comes out. Each has one placement at the bottom. */
static const struct {
    const char *name, *text, *wanted;
} forms[] = {
    {"columns in another order", "size,upper,id,lower\n5,9,x,3\n",
     "size,upper,id,lower,offset\n5,9,x,3,0\n"},
    {"line ends of another system", "id,lower,upper,size\r\na,1,2,3\r\nb,2,3,4\r\n",
     "id,lower,upper,size,offset\r\na,1,2,3,0\r\nb,2,3,4,0\r\n"},
    {"no end of the last line", "id,lower,upper,size\na,1,2,3",
     "id,lower,upper,size,offset\n"
     "a,1,2,3,0\n"},
    {"empty lines at the end", "id,lower,upper,size\na,1,2,3\n\n\n",
     "id,lower,upper,size,offset\na,1,2,3,0\n"},
    {"blanks around numbers", "id, lower, upper, size\na, 1,2 ,\t3\n",
     "id, lower, upper, size,offset\na, 1,2 ,\t3,0\n"},
    {"no rows", "id,lower,upper,size\n", "id,lower,upper,size,offset\n"},
    {"a header without an end", "id,lower,upper,size", "id,lower,upper,size,offset\n"},
    {"a mark for UTF-8", "\xef\xbb\xbfid,lower,upper,size\na,1,2,3\n",
     "\xef\xbb\xbfid,lower,upper,size,offset\na,1,2,3,0\n"},
    {"an offset of before", "id,offset,lower,upper,size\na,what,1,2,3\nb,77,2,4,1\n",
     "id,offset,lower,upper,size\na,0,1,2,3\nb,0,2,4,1\n"},
    {"an offset of before at the end", "id,lower,upper,size,offset\na,1,2,3,77\n",
     "id,lower,upper,size,offset\na,1,2,3,0\n"},
    {"times and sizes of 64 bits",
     "id,lower,upper,size\n"
     "a,0,18446744073709551614,9223372036854775807\n"
     "b,18446744073709551614,18446744073709551615,9223372036854775807\n",
     "id,lower,upper,size,offset\n"
     "a,0,18446744073709551614,9223372036854775807,0\n"
     "b,18446744073709551614,18446744073709551615,9223372036854775807,0\n"},
    {"alignments that divide all sizes",
     "id,lower,upper,size,alignment\na,0,1,64,1\nb,1,2,128,64\n",
     "id,lower,upper,size,alignment,offset\na,0,1,64,1,0\nb,1,2,128,64,0\n"},
};

static void every_form_of_the_file_is_read(void)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        put("form.csv", forms[i].text);
        place_to(at("form.csv"), "--quiet", "out.csv");
        SW_CHECK(outcome.status == 0 && has_text("out.csv", forms[i].wanted),
                 "%s: status %d: %s", forms[i].name, outcome.status, outcome.err);
    }
}

static const struct {
    const char *name, *text, *says;
} damages[] = {
    {"nothing", "", "line 1, column 1: the file is empty"},
    {"a foreign file", "\x89PNG\r\n\x1a\n", "line 1, column 1: unknown column"},
    {"no size", "id,lower,upper\n", "line 1, column 4: the header has no column 'size'"},
    {"no header", "0,1,2,3\n1,2,3,4\n", "line 1, column 1: unknown column '0'"},
    {"an unknown column", "id,lower,upper,size,gaps\n",
     "line 1, column 5: unknown column 'gaps'"},
    {"a column twice", "id,lower,upper,size,lower\n",
     "line 1, column 5: 'lower' is column 2 already"},
    {"too few fields", SMALL "x,1,2\n", "line 5, column 4 (size): the line ends before it"},
    {"too many fields", SMALL "x,1,2,3,4\n", "line 5, column 5: the header has only 4"},
    {"a cut in a line", SMALL "x,1", "line 5, column 3 (upper): the line ends before it"},
    {"a word", SMALL "x,1,soon,3\n", "line 5, column 3 (upper): 'soon' must be a whole number"},
    {"a word after a number", SMALL "x,1,2,3kB\n", "line 5, column 4 (size): '3kB'"},
    {"a fraction", SMALL "x,1.5,2,3\n", "line 5, column 2 (lower): '1.5'"},
    {"a sign", SMALL "x,-1,2,3\n", "line 5, column 2 (lower): '-1'"},
    {"no number", SMALL "x,,2,3\n", "line 5, column 2 (lower): ''"},
    {"past 64 bits", SMALL "x,1,18446744073709551616,3\n", "line 5, column 3 (upper): '184467"},
    {"an empty lifetime", SMALL "x,2,2,3\n", "line 5, column 3 (upper): the lifetime from 2"},
    {"an end before the start", SMALL "x,3,2,3\n", "line 5, column 3 (upper): the lifetime"},
    {"no bytes", SMALL "x,2,3,0\n", "line 5, column 4 (size): a buffer of 0 bytes"},
    {"no id", SMALL ",2,3,1\n", "line 5, column 1 (id): the id is empty"},
    {"an id twice", SMALL "a b,2,3,1\n", "line 5, column 1 (id): line 3 has the id 'a b'"},
    {"an empty line", "id,lower,upper,size\n\nx,1,2,3\n",
     "line 2, column 1 (id): the line is empty"},
    {"more than 64 bits together", "id,lower,upper,size\na,0,1,18446744073709551615\nb,1,2,1\n",
     "line 3, column 4 (size): the sizes up to here"},
    {"no alignment", "id,alignment,lower,upper,size\na,0,0,1,1\n",
     "line 2, column 2 (alignment): an alignment of 0"},
    {"alignments past the range",
     "id,lower,upper,size,alignment\na,0,1,5,1\nb,0,1,5,9223372036854775808\n",
     "line 3, column 5 (alignment): the sizes and alignments up to here"},
    {"an alignment after sizes past its range",
     "id,lower,upper,size,alignment\na,0,1,4611686018427387904,1\nb,1,2,5,2\n",
     "line 3, column 5 (alignment): the sizes and alignments up to here"},
    {"alignments that overflow together",
     "id,lower,upper,size,alignment\na,0,1,1,1\nb,0,1,5,18446744073709551615\n",
     "line 3, column 5 (alignment): the sizes and alignments up to here"},
};

static void damaged_files_are_named_by_line_and_column(void)
{
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        put("damaged.csv", damages[i].text);
        place_to(at("damaged.csv"), "--json", "out.csv");
        SW_CHECK(program_failed_cleanly(&outcome, 3) &&
                     strstr(outcome.err, "damaged.csv: ") != NULL &&
                     strstr(outcome.err, damages[i].says) != NULL &&
                     access(at("out.csv"), F_OK) != 0,
                 "%s: status %d: %s", damages[i].name, outcome.status, outcome.err);
    }
}

static void every_cut_is_told_or_a_smaller_problem(void)
{
    for (size_t cut = 0; cut < strlen(SMALL); cut++) {
        char text[sizeof SMALL] = SMALL;
        text[cut] = '\0';
        put("cut.csv", text);
        place(at("cut.csv"), "--json");
        SW_CHECK(outcome.status == 0 || program_failed_cleanly(&outcome, 3),
                 "cut at %zu: status %d, signal %d: %s", cut, outcome.status, outcome.signal,
                 outcome.err);
    }
}

/* Offsets are multiples of what each row asks for, and the check knows them. */
static void alignments_hold(void)
{
    static const unsigned long long asked[] = {64, 1, 48, 7};
    size_t n = 0;
    put("aligned.csv", "id,lower,upper,size,alignment\n"
                       "a,0,4,128,64\nb,2,6,65,1\nc,4,9,64,48\nd,0,9,3,7\n");
    put("plain.csv", "id,lower,upper,size\na,0,4,128\nb,2,6,65\nc,4,9,64\nd,0,9,3\n");
    place_to(at("aligned.csv"), "--json", "out.csv");
    SW_CHECK(outcome.status == 0, "status %d: %s", outcome.status, outcome.err);
    CU_ASSERT(is_true("optimal") && program_number(outcome.out, "lower_bound") == 196);
    FILE *file = fopen(at("out.csv"), "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    bool good = fscanf(file, "%*s") == 0;
    for (; good && fscanf(file, " %*[^,],%llu,%llu,%llu,%*u,%llu", &rows[n].lower,
                          &rows[n].upper, &rows[n].bytes, &rows[n].offset) == 4;
         n++)
        CU_ASSERT_EQUAL(rows[n].offset % asked[n], 0);
    fclose(file);
    CU_ASSERT(n == 4 && overlaps(n) == 0);
    CU_ASSERT_EQUAL(program_number(outcome.out, "height"), height_of(n));
    place(at("plain.csv"), "--json");
    CU_ASSERT_EQUAL(program_number(outcome.out, "height"), 196);
}

/* ---- capacities -------------------------------------------------------------------------- */

/* Seven buffers of which no placement has the lower bound of 6: found by trying them all. */
#define TIGHT                                                                                  \
    "id,lower,upper,size\n"                                                                    \
    "a,3,5,1\nb,0,3,3\nc,5,7,3\nd,2,4,1\ne,2,5,2\nf,4,6,3\ng,1,2,3\n"

static void a_capacity_is_met_or_refused(void)
{
    put("tight.csv", TIGHT);
    put("kept.csv", "as it was");
    char words[1500];
    snprintf(words, sizeof words, "--capacity 5 --out %s", at("kept.csv"));
    place(at("tight.csv"), words);
    SW_CHECK(program_failed_cleanly(&outcome, 4) &&
                 strstr(outcome.err, " proved: no placement within 5 bytes") != NULL,
             "status %d: %s%s", outcome.status, outcome.out, outcome.err);
    CU_ASSERT(has_text("kept.csv", "as it was"));
    snprintf(words, sizeof words, "--capacity 6 --json --out %s", at("kept.csv"));
    place(at("tight.csv"), words);
    const bool proved = strstr(outcome.out, "\"end\":\"no_fit\"") != NULL;
    SW_CHECK(outcome.status == 4 && !is_true("solved") && !is_true("written") &&
                 program_number(outcome.out, "height") > 6 &&
                 (proved || strstr(outcome.out, "\"end\":\"gave_up\"") != NULL) &&
                 strstr(outcome.err, proved ? ": proved: no" : "not proved: no") != NULL,
             "status %d: %s%s", outcome.status, outcome.out, outcome.err);
    CU_ASSERT(has_text("kept.csv", "as it was"));
    place_to(at("tight.csv"), "--capacity 8 --json", "out.csv");
    check_written(at("tight.csv"), at("out.csv"));
    CU_ASSERT(program_number(outcome.out, "height") <= 8);
    place_to(at("tight.csv"), "--prove --json", "out.csv");
    check_written(at("tight.csv"), at("out.csv"));
    SW_CHECK(program_number(outcome.out, "height") == 7, "%s", outcome.out);
}

static const struct {
    const char *words;
    int status;
    const char *says;
} refused[] = {
    {"place", 2, "FILE must be given"},
    {"place a b", 2, "'b' is one argument too many"},
    {"place a --capacity 0", 2, "--capacity must be a size"},
    {"place a --time-limit 0", 2, "must be above 0 seconds"},
    {"place a --time-limit soon", 2, "--time-limit must be a number"},
    {"place a --prove --nodes 5", 2, "exclude each other"},
    {"place a --json --out -", 2, "both write to standard output"},
    {"place a --capcity 5", 2, "did you mean --capacity?"},
    {"place /nowhere/at/all", 3, "/nowhere/at/all: "},
    {"place /", 3, "/: "},
    {"bench plan --largest 5", 2, "are for --prove"},
    {"bench speed --prove", 2, "--prove"},
    {"bench place", 2, "must be given"},
    {"bench place --runs 0 a", 2, "--runs must be"},
    {"bench place /nowhere/at/all", 3, "/nowhere/at/all: "},
    {"bench place --perturbed 5", 2, "FILE or --random N must be given"},
    {"bench place a --perturbed 5 --seeds 3", 2, "excludes --random and --seeds"},
    {"bench place /nowhere/at/all --perturbed 5", 3, "/nowhere/at/all: "},
};

static void what_means_nothing_is_refused(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        program_run(&outcome, refused[i].words, NULL);
        SW_CHECK(program_failed_cleanly(&outcome, refused[i].status) &&
                     strstr(outcome.err, refused[i].says) != NULL,
                 "'%s': status %d: %s", refused[i].words, outcome.status, outcome.err);
    }
}

/* ---- files ------------------------------------------------------------------------------- */

static const char small_placed[] = "id,lower,upper,size,offset\n";

static void rows_go_to_standard_output_or_over_the_input(void)
{
    char words[1500];
    place(put("small.csv", SMALL), "--out -");
    SW_CHECK(outcome.status == 0 && sw_count_lines(outcome.out) == 4 &&
                 strncmp(outcome.out, small_placed, strlen(small_placed)) == 0 &&
                 strstr(outcome.err, "lower bound") != NULL,
             "%s%s", outcome.out, outcome.err);
    static char rows_out[sizeof outcome.out];
    memcpy(rows_out, outcome.out, sizeof rows_out);
    snprintf(words, sizeof words, "--quiet --out %s", at("small.csv"));
    place(at("small.csv"), words);
    CU_ASSERT(outcome.status == 0 && outcome.out[0] == '\0');
    CU_ASSERT(has_text("small.csv", rows_out));
    place(at("small.csv"), words); /* its own output is its input */
    CU_ASSERT(outcome.status == 0 && has_text("small.csv", rows_out));
    place(at("small.csv"), "--out /nowhere/at/all");
    SW_CHECK(program_failed_cleanly(&outcome, 1) &&
                 strstr(outcome.err, "/nowhere/at/all") != NULL,
             "status %d: %s", outcome.status, outcome.err);
}

/* The signal comes while the file is read from a pipe: the search ends at once. */
static void an_interrupt_writes_the_best_so_far(void)
{
    static const char text[] = SMALL;
    const size_t half = 40, rest = sizeof text - 1 - half;
    char line[3000];
    put("small.csv", text);
    (void)unlink(at("pipe"));
    (void)unlink(at("out.csv"));
    CU_ASSERT_FATAL(mkfifo(at("pipe"), 0600) == 0);
    snprintf(line, sizeof line, "place %s --json --out %s", at("pipe"), at("out.csv"));
    const pid_t pid = program_start("place", line, NULL);
    const int fd = open(at("pipe"), O_WRONLY); /* waits for the reader, which heeds signals */
    CU_ASSERT(fd >= 0 && write(fd, text, half) == (ssize_t)half);
    CU_ASSERT(kill(pid, SIGINT) == 0);
    CU_ASSERT(write(fd, &text[half], rest) == (ssize_t)rest);
    close(fd);
    sw_process_wait(&outcome, pid, "place", 60);
    SW_CHECK(outcome.status == 130 && is_true("interrupted") && is_true("written"),
             "status %d: %s%s", outcome.status, outcome.out, outcome.err);
    outcome.status = 0;
    check_written(at("small.csv"), at("out.csv"));
}

static int temporary_files(void)
{
    int n = 0;
    DIR *dir = opendir(sw_temp_path("place"));
    for (const struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL;
         e = readdir(dir))
        n += strstr(e->d_name, ".tmp") != NULL;
    if (dir != NULL)
        closedir(dir);
    return n;
}

/* The limit is over before the file is read: a whole placement all the same, and it says so. */
static void a_limit_that_is_over_leaves_a_placement(void)
{
    const size_t n = 20000;
    (void)mkdir(sw_temp_path("place"), 0700);
    FILE *file = fopen(at("many.csv"), "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs("id,lower,upper,size\n", file);
    for (size_t i = 0; i < n; i++)
        fprintf(file, "%zu,%zu,%zu,%zu\n", i, i / 3, i / 3 + 1 + i * 7919 % 40,
                1 + i * 104729 % 1000);
    fclose(file);
    place_to(at("many.csv"), "--time-limit 0.000001 --json", "out.csv");
    check_written(at("many.csv"), at("out.csv"));
    SW_CHECK(is_true("hurried") && is_true("timed_out") && !is_true("optimal"), "%s",
             outcome.out);
    place(at("many.csv"), "--time-limit 0.000001");
    SW_CHECK(outcome.status == 0 && strstr(outcome.out, "when it had to end") != NULL, "%s",
             outcome.out);
}

/* Each allocation and file operation fails once: an error, and the old file or the new one. */
static void a_failure_anywhere_costs_no_file(void)
{
    static const char *const kinds[] = {"memory", "file"};
    char line[3000], fault[64], placed[1024];
    place_to(put("small.csv", SMALL), "--quiet", "placed.csv");
    size_t n = 0;
    char *whole = (char *)file_read(at("placed.csv"), &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(whole);
    snprintf(placed, sizeof placed, "%s", whole);
    free(whole);
    snprintf(line, sizeof line, "--quiet --out %s", at("kept.csv"));
    for (int kind = 0; kind < 2; kind++) {
        int failed = 0;
        for (int site = 1; site < 100; site++) {
            char words[4000];
            put("kept.csv", "as it was");
            snprintf(fault, sizeof fault, "STEPWELL_FAULT=%s:%d", kinds[kind], site);
            snprintf(words, sizeof words, "place %s %s", at("small.csv"), line);
            program_run(&outcome, words, fault);
            if (strstr(outcome.err, "no call failed") != NULL)
                break;
            const char *text = outcome.status == 0 ? placed : "as it was";
            SW_CHECK(outcome.signal == 0 && has_text("kept.csv", text) &&
                         (outcome.status == 0 || sw_count_lines(outcome.err) == 1) &&
                         temporary_files() == 0,
                     "%s: status %d, signal %d: %s", fault, outcome.status, outcome.signal,
                     outcome.err);
            failed += outcome.status != 0;
        }
        CU_ASSERT(failed >= 4);
    }
}

static void equal_input_gives_equal_output(void)
{
    static char text[60000];
    sw_dice dice = {9};
    size_t n = 0, used = (size_t)snprintf(text, sizeof text, "id,lower,upper,size\n");
    for (int i = 0; i < 300; i++) {
        const uint64_t lower = sw_dice_below(&dice, 100);
        used += (size_t)snprintf(text + used, sizeof text - used, "%d,%d,%d,%d\n", i,
                                 (int)lower, (int)(lower + 1 + sw_dice_below(&dice, 30)),
                                 (int)(1 + sw_dice_below(&dice, 99)));
    }
    put("twice.csv", text);
    place_to(at("twice.csv"), "--nodes 300 --quiet", "once.csv");
    CU_ASSERT_EQUAL(outcome.status, 0);
    char *once = (char *)file_read(at("once.csv"), &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(once);
    place_to(at("twice.csv"), "--nodes 300 --quiet", "again.csv");
    CU_ASSERT(outcome.status == 0 && has_text("again.csv", once));
    free(once);
}

/* ---- the problems that others use -------------------------------------------------------- */

static void known_problems_are_placed_soundly(void)
{
    static const char *const files[] = {
        "minimalloc/A.1048576.csv", "minimalloc/B.1048576.csv",     "minimalloc/C.1048576.csv",
        "minimalloc/E.1048576.csv", "minimalloc/G.1048576.csv",     "minimalloc/I.1048576.csv",
        "placement-large/G_1.csv",  "placement-large/resnet50.csv", "placement-large/S_1.csv"};
    (void)mkdir(sw_temp_path("place"), 0700);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char input[2000];
        const char *found = sw_data_path(files[i]);
        if (found == NULL)
            SW_SKIP("the placement problems are not here");
        snprintf(input, sizeof input, "%s", found);
        place_to(input, sw_tests_full() ? "--json --time-limit 5" : "--json --time-limit 0.2",
                 "out.csv");
        check_written(input, at("out.csv"));
    }
}

static void the_bench_solves_each_way(void)
{
    char line[2000];
    snprintf(line, sizeof line,
             "bench place %s --random 60 --runs 2 --seeds 3 --nodes 50 --json",
             put("small.csv", SMALL));
    program_run(&outcome, line, NULL);
    SW_CHECK(outcome.status == 0 && sw_count_lines(outcome.out) == 1, "status %d: %s",
             outcome.status, outcome.err);
    static const char *const keys[] = {"as_it_is",       "reversed",       "shuffled", "seeds",
                                       "seeds_reversed", "seeds_shuffled", "all_seeds"};
    const char *p = outcome.out;
    for (int problem = 0; problem < 2; problem++)
        for (int i = 0; i < 7; i++) {
            char key[64];
            snprintf(key, sizeof key, "\"%s\":{\"solve\":{\"n\":%d,", keys[i],
                     i == 6  ? 9
                     : i > 2 ? 3
                             : 2);
            p = p != NULL ? strstr(p, key) : NULL;
            SW_CHECK(p != NULL, "problem %d has no %s: %s", problem, key, outcome.out);
            if (problem == 0 && p != NULL)
                SW_CHECK(program_number(p, "worst_height") == 30, "%s", p);
        }
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "\"file\":null"));
    CU_ASSERT(program_number(outcome.out, "heap_peak_bytes") > 0);
}

/* Problems with a known placement: of each kind, and the same ones each time. */
static void the_bench_makes_families_of_problems(void)
{
    char line[4000];
    const char *file = sw_data_path("minimalloc/C.1048576.csv");
    if (file == NULL)
        SW_SKIP("the placement problems are not here");
    snprintf(line, sizeof line,
             "bench place %s --capacity 1048576 --perturbed 14 --first 7 --nodes 300 --json",
             file);
    program_run(&outcome, line, NULL);
    SW_CHECK(outcome.status == 0 && sw_count_lines(outcome.out) == 1, "status %d: %s",
             outcome.status, outcome.err);
    static const char *const kinds[] = {"sizes", "lifetimes", "split",  "merged",
                                        "mixed", "joined",    "stacked"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char key[64];
        snprintf(key, sizeof key, "\"%s\":{\"n\":2,", kinds[i]);
        SW_CHECK(strstr(outcome.out, key) != NULL, "no %s: %s", key, outcome.out);
    }
    const char *all = strstr(outcome.out, "\"all\":{\"n\":14,");
    CU_ASSERT_PTR_NOT_NULL_FATAL(all);
    CU_ASSERT(program_number(all, "most_buffers") > 300); /* two of 203 */
    const double nodes = program_number(all, "median_nodes");
    const double most = program_number(all, "most_nodes");
    program_run(&outcome, line, NULL);
    all = strstr(outcome.out, "\"all\":{\"n\":14,");
    CU_ASSERT_PTR_NOT_NULL_FATAL(all);
    CU_ASSERT(program_number(all, "median_nodes") == nodes &&
              program_number(all, "most_nodes") == most);
}

/* The arenas of all training programs, by the plan's own offsets. */
static void the_bench_judges_every_program(void)
{
    program_run(&outcome, "bench plan --prove --largest 3 --json", NULL);
    SW_CHECK(outcome.status == 0 && sw_count_lines(outcome.out) == 1, "status %d: %s",
             outcome.status, outcome.err);
    const double programs = program_number(outcome.out, "programs");
    CU_ASSERT_EQUAL(programs, 2 * 5 * 2 * 3);
    CU_ASSERT_EQUAL(program_number(outcome.out, "reached") +
                        program_number(outcome.out, "reached_by_longer_search") +
                        program_number(outcome.out, "proved_unreachable") +
                        program_number(outcome.out, "open"),
                    programs);
    CU_ASSERT(program_number(outcome.out, "above_percent") <= 0.2);
    CU_ASSERT_PTR_NOT_NULL(strstr(outcome.out, "\"optimizer\":\"adamw\",\"release\":true"));
}

static const sw_test tests[] = {
    {"a placement holds and keeps the rows", a_placement_holds_and_keeps_the_rows},
    {"random problems are placed soundly", random_problems_are_placed_soundly},
    {"every form of the file is read", every_form_of_the_file_is_read},
    {"damaged files are named by line and column", damaged_files_are_named_by_line_and_column},
    {"every cut is reported or a smaller problem", every_cut_is_told_or_a_smaller_problem},
    {"alignments hold", alignments_hold},
    {"a capacity is met or refused", a_capacity_is_met_or_refused},
    {"what means nothing is refused", what_means_nothing_is_refused},
    {"rows go to standard output or over the input",
     rows_go_to_standard_output_or_over_the_input},
    {"an interrupt writes the best so far", an_interrupt_writes_the_best_so_far},
    {"a limit that is over leaves a placement", a_limit_that_is_over_leaves_a_placement},
    {"a failure anywhere costs no file", a_failure_anywhere_costs_no_file},
    {"equal input gives equal output", equal_input_gives_equal_output},
    {"known problems are placed soundly", known_problems_are_placed_soundly},
    {"the bench solves each way", the_bench_solves_each_way},
    {"the bench makes families of problems", the_bench_makes_families_of_problems},
    {"the bench judges every program", the_bench_judges_every_program},
};
SW_SUITE("place", tests)
