/* `stepwell place` and `stepwell bench place`: what is read, what is written, what is refused,
 * and that every placement holds. The check here is quadratic and plain. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

SW_TESTS("place")

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
    program_run(&outcome, sw_textf("place %s %s", input, words), NULL);
}

static void place_to(const char *input, const char *words, const char *output)
{
    (void)unlink(at(output));
    place(input, sw_textf("%s --out %s", words, at(output)));
}

static bool is_true(const char *key)
{
    return strstr(outcome.out, sw_textf("\"%s\":true", key)) != NULL;
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

SW_TEST("a placement holds and keeps the rows")
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

SW_TEST("random problems are placed soundly")
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

/* Offsets are multiples of what each row asks for, and the check knows them. */
SW_TEST("alignments hold")
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

SW_TEST("a capacity is met or refused")
{
    put("tight.csv", TIGHT);
    put("kept.csv", "as it was");
    place(at("tight.csv"), sw_textf("--capacity 5 --out %s", at("kept.csv")));
    SW_CHECK(program_failed_cleanly(&outcome, 4) &&
                 strstr(outcome.err, " proved: no placement within 5 bytes") != NULL,
             "status %d: %s%s", outcome.status, outcome.out, outcome.err);
    CU_ASSERT(has_text("kept.csv", "as it was"));
    place(at("tight.csv"), sw_textf("--capacity 6 --json --out %s", at("kept.csv")));
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

/* The signal comes while the file is read from a pipe: the search ends at once. */
SW_TEST("an interrupt writes the best so far")
{
    static const char text[] = SMALL;
    const size_t half = 40, rest = sizeof text - 1 - half;
    put("small.csv", text);
    (void)unlink(at("pipe"));
    (void)unlink(at("out.csv"));
    CU_ASSERT_FATAL(mkfifo(at("pipe"), 0600) == 0);
    const pid_t pid = program_start(
        "place", sw_textf("place %s --json --out %s", at("pipe"), at("out.csv")), NULL);
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

/* The limit is over before the file is read: a whole placement all the same, and it says so. */
SW_TEST("a limit that is over leaves a placement")
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

/* ---- the problems that others use -------------------------------------------------------- */

SW_TEST("known problems are placed soundly")
{
    static const char *const files[] = {
        "minimalloc/A.1048576.csv", "minimalloc/B.1048576.csv",     "minimalloc/C.1048576.csv",
        "minimalloc/E.1048576.csv", "minimalloc/G.1048576.csv",     "minimalloc/I.1048576.csv",
        "placement-large/G_1.csv",  "placement-large/resnet50.csv", "placement-large/S_1.csv"};
    (void)mkdir(sw_temp_path("place"), 0700);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *found = sw_data_path(files[i]);
        if (found == NULL)
            SW_SKIP("the placement problems are not here");
        const char *input = sw_textf("%s", found);
        place_to(input, sw_tests_full() ? "--json --time-limit 5" : "--json --time-limit 0.2",
                 "out.csv");
        check_written(input, at("out.csv"));
    }
}
