/* The model gpt through the program: it learns a text, its bits depend on nothing but the seed,
 * and `stepwell sample` continues what it is given. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NET "--layers 1 --width 32 --heads 2 --context 20 "
#define PHRASE "the well has steps " /* 19: windows of 20 begin anywhere in it */

#define LEARNS "--epochs 10 --lr 0.005 --warmup 50"

static sw_outcome outcome;

/* A text that says one thing again and again, and its path. */
static const char *text(void)
{
    static char path[1024], bytes[8000];
    snprintf(path, sizeof path, "%s", sw_temp_path("text"));
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = PHRASE[i % strlen(PHRASE)];
    CU_ASSERT(file_write(path, bytes, sizeof bytes));
    return path;
}

/* Train by `words`; the path of what was saved. */
static const char *train(const char *words)
{
    static char path[1024];
    char line[4000];
    snprintf(path, sizeof path, "%s", sw_temp_path("gpt.safetensors"));
    snprintf(line, sizeof line,
             "train --model gpt " NET "--data text:%s --batch 8 --json --quiet --save-params "
             "%s %s",
             text(), path, words);
    program_run(&outcome, line, NULL);
    SW_CHECK(outcome.status == 0, "%s: status %d: %s", words, outcome.status, outcome.err);
    return path;
}

static bool same_files(const void *a, size_t n_a, const char *path)
{
    size_t n;
    unsigned char *b = file_read(path, &n);
    const bool same = b != NULL && n == n_a && memcmp(a, b, n) == 0;
    free(b);
    return same;
}

static void gpt_learns_a_text(void)
{
    (void)train(LEARNS);
    const double loss = program_number(outcome.out, "validation_loss");
    SW_CHECK(loss < 0.3, "a loss of %g", loss);
    SW_CHECK(program_number(outcome.out, "predicted_peak_bytes") ==
                 program_number(outcome.out, "measured_peak_bytes"),
             "%s", outcome.out);
    CU_ASSERT_EQUAL(program_number(outcome.out, "allocations_after_warmup"), 0.0);
}

static void gpt_has_one_result_however_it_runs(void)
{
    static const char *const ways[] = {"--threads 2", "--threads 3", "--immediate",
                                       "--memory-budget 1MiB"};
    size_t n;
    unsigned char *first = file_read(train("--steps 6 --dropout 0.1"), &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(first);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char words[100];
        snprintf(words, sizeof words, "--steps 6 --dropout 0.1 %s", ways[i]);
        SW_CHECK(same_files(first, n, train(words)), "other parameters with %s", ways[i]);
    }
    SW_CHECK(!same_files(first, n, train("--steps 6")), "the same without dropout");
    free(first);
}

/* The output of `sample` with these options. */
static const char *sample(const char *path, const char *words)
{
    char line[3000];
    snprintf(line, sizeof line, "sample " NET "--load-params %s --tokens 60 --prompt the %s",
             path, words);
    program_run(&outcome, line, NULL);
    SW_CHECK(outcome.status == 0, "%s: status %d: %s", words, outcome.status, outcome.err);
    return outcome.out;
}

static void samples_go_on_as_the_text_does(void)
{
    const char *path = train(LEARNS);
    const char *got = sample(path, "--temperature 0");
    CU_ASSERT_EQUAL(strlen(got), 3 + 60);
    SW_CHECK(strncmp(got, PHRASE PHRASE PHRASE PHRASE, 3 + 60) == 0, "'%s'", got);
    SW_CHECK(strstr(outcome.err, "60 bytes in") != NULL, "%s", outcome.err);
    sample(path, "--quiet");
    SW_CHECK(outcome.err[0] == '\0', "%s", outcome.err);
}

static void samples_hang_on_the_seed_alone(void)
{
    static char first[200];
    const char *path = train("--steps 3"); /* knows next to nothing: draws are wild */
    snprintf(first, sizeof first, "%.*s", 150, sample(path, "--seed 5"));
    CU_ASSERT_EQUAL(memcmp(first, "the", 3), 0);
    CU_ASSERT_STRING_EQUAL(sample(path, "--seed 5"), first);
    CU_ASSERT_STRING_EQUAL(sample(path, "--seed 5 --threads 3"), first);
    CU_ASSERT(strcmp(sample(path, "--seed 6"), first) != 0);
    snprintf(first, sizeof first, "%.*s", 150, sample(path, "--temperature 0"));
    CU_ASSERT_STRING_EQUAL(sample(path, "--temperature 0 --seed 6"), first);
    CU_ASSERT_STRING_EQUAL(sample(path, "--top-k 1 --temperature 5 --seed 7"), first);
    CU_ASSERT(strcmp(sample(path, "--top-k 2 --temperature 5"), first) != 0);
}

/* ---- tokens ------------------------------------------------------------------------------ */

#define SMALL "--layers 1 --width 32 --heads 2 --context 12 "

/* "the cat sat", a line after the other, as ids of five tokens. */
static const char *train_tokens(void)
{
    static const unsigned char line[] = {0, 1, 2, 1, 3, 4};
    static char path[1200];
    unsigned char ids[2 * 1800];
    char words[3000];
    for (size_t i = 0; i < sizeof ids; i++)
        ids[i] = i % 2 == 0 ? line[i / 2 % 6] : 0;
    snprintf(path, sizeof path, "%s", path_of("tokens.bin"));
    CU_ASSERT(file_write(path, ids, sizeof ids));
    snprintf(words, sizeof words,
             "train --model gpt " SMALL "--data tokens:%s --batch 16 --epochs 6 --quiet "
             "--save-params %s",
             path, path_of("tokens.safetensors"));
    program_run(&outcome, words, NULL);
    SW_CHECK(outcome.status == 0, "%s", outcome.err);
    snprintf(path, sizeof path, "%s", path_of("tokens.safetensors"));
    return path;
}

static void texts_are_written_in_tokens(void)
{
    static const struct {
        const char *vocabulary, *begin, *says;
    } ways[] = {
        {"{\"the\":0,\" \":1,\"cat\":2,\"sat\":3,\"\\n\":4}", "--prompt the",
         "the cat sat\nthe"},
        {"{\"the\":0,\"\\u0120\":1,\"cat\":2,\"sat\":3,\"\\u010a\":4}", "--prompt the",
         "the cat sat\nthe"},
        {"the\n\xe2\x96\x81\ncat\nsat\n<n>\n", "--prompt the", "the cat sat<n>the"},
        {"the\n_\ncat\nsat\n.\n", "--prompt the_", "the_cat_sat.the_"},
        {"the\n_\ncat\nsat\n.\n", "--prompt-ids 0", "the_cat_sat.the"},
        {"the\n_\ncat\nsat\n.\n", "--top-k 1", "_cat_sat.the"}, /* after id 0 */
        {NULL, "--vocabulary 5 --prompt-ids 0", "0 1 2 1 3 4 0\n"},
    };
    const char *path = train_tokens(), *file = path_of("words.vocabulary");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char words[3000];
        const char *v = ways[i].vocabulary;
        CU_ASSERT(v == NULL || file_write(file, v, strlen(v)));
        snprintf(words, sizeof words,
                 "sample " SMALL "--load-params %s --temperature %s --tokens 6 %s%s %s", path,
                 strstr(ways[i].begin, "top-k") != NULL ? "1" : "0",
                 v != NULL ? "--vocab " : "", v != NULL ? file : "", ways[i].begin);
        program_run(&outcome, words, NULL);
        SW_CHECK(outcome.status == 0 && strcmp(outcome.out, ways[i].says) == 0,
                 "%s: status %d: '%s' must be '%s'; %s", words, outcome.status, outcome.out,
                 ways[i].says, outcome.err);
        SW_CHECK(strstr(outcome.err, "6 tokens in") != NULL, "%s", outcome.err);
    }
}

static void what_no_token_says_is_refused(void)
{
    static const struct {
        const char *words, *says;
    } ways[] = {
        {"--prompt the.dog", "no token of the vocabulary begins as byte 5 of the prompt"},
        {"--prompt the --prompt-ids 0", "are two beginnings"},
        {"--prompt-ids 5", "--prompt-ids has 5; the vocabulary of the model has 5 ids"},
        {"--top-k 6", "--top-k must be from 0 to 5 (got 6)"},
        {"--vocabulary 4", "--vocabulary must be at least 5, the tokens of"},
    };
    const char *path = train_tokens(), *file = path_of("words.vocabulary");
    CU_ASSERT(file_write(file, "the\n_\ncat\nsat\n.\n", 16));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char words[3000];
        snprintf(words, sizeof words, "sample " SMALL "--load-params %s --vocab %s %s", path,
                 file, ways[i].words);
        program_run(&outcome, words, NULL);
        SW_CHECK(program_failed_cleanly(&outcome, 2) &&
                     strstr(outcome.err, ways[i].says) != NULL,
                 "%s: status %d: %s", ways[i].words, outcome.status, outcome.err);
    }
    char words[3000];
    snprintf(words, sizeof words, "sample " SMALL "--load-params %s --vocab /no/such", path);
    program_run(&outcome, words, NULL);
    CU_ASSERT(program_failed_cleanly(&outcome, 3));
}

/* ---- what the file notes ----------------------------------------------------------------- */

#define SHORT "--layers 1 --width 32 --heads 2 " /* without --context */

/* `bytes` of ids, trained on with these words; the path of the parameters. */
static const char *train_ids(const char *reader, const void *ids, size_t n, const char *words)
{
    static char path[1200];
    char line[4000];
    CU_ASSERT(file_write(path_of("ids.bin"), ids, n));
    snprintf(path, sizeof path, "%s", path_of("ids.safetensors"));
    snprintf(line, sizeof line,
             "train --model gpt " SHORT "--context 12 --data %s:%s --batch 16 --epochs 1 "
             "--quiet --save-params %s %s",
             reader, path_of("ids.bin"), path, words);
    program_run(&outcome, line, NULL);
    SW_CHECK(outcome.status == 0, "%s: %s", reader, outcome.err);
    return path;
}

/* As files of other programs are: without anything but tensors. */
static void forget_notes(const char *path)
{
    size_t n;
    char *file = (char *)file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    char *at = strstr(file + 8, "\"__metadata__\":{"), *end = strstr(file + 8, "},");
    CU_ASSERT_FATAL(at != NULL && end != NULL && end > at);
    memset(at, ' ', (size_t)(end + 2 - at));
    CU_ASSERT(file_write(path, file, n));
    free(file);
}

static const sw_outcome *sample_ids(const char *path, const char *words)
{
    char line[3000];
    snprintf(line, sizeof line,
             "sample " SHORT "--load-params %s --quiet --temperature 9 --tokens 300 %s", path,
             words);
    program_run(&outcome, line, NULL);
    return &outcome;
}

/* All ids that were written are below `ids`, and several of them occur. */
static void check_ids(const char *what, long ids)
{
    long most = -1, n = 0;
    SW_CHECK(outcome.status == 0, "%s: status %d: %s", what, outcome.status, outcome.err);
    for (char *at = outcome.out, *end; n < 301; at = end, n++) {
        const long id = strtol(at, &end, 10);
        if (end == at)
            break;
        most = id > most ? id : most;
    }
    SW_CHECK(n == 301 && most < ids && most > ids / 2, "%s: %ld ids, up to %ld of %ld", what, n,
             most, ids);
}

static void the_file_says_how_many_ids_there_are(void)
{
    enum { N = 1800 };
    static unsigned char bytes[N];
    static uint16_t words[N];
    static uint32_t wide[N];
    const struct {
        const char *reader;
        const void *at;
        size_t n;
        const char *more;
        long ids;
    } ways[] = {{"tokens", words, sizeof words, "", 200},
                {"tokens", words, sizeof words, "--vocabulary 1024", 200},
                {"tokens32", wide, sizeof wide, "", 300},
                {"text", bytes, sizeof bytes, "", 256},
                {"text", bytes, sizeof bytes, "--vocabulary 300", 256}};
    for (unsigned i = 0; i < N; i++) {
        bytes[i] = (unsigned char)('a' + i % 20);
        words[i] = (uint16_t)(i * 7 % 200);
        wide[i] = i * 7 % 300;
    }
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char said[200];
        const char *path = train_ids(ways[i].reader, ways[i].at, ways[i].n, ways[i].more);
        (void)sample_ids(path, "--prompt-ids 0");
        check_ids(ways[i].reader, ways[i].ids);
        snprintf(said, sizeof said, "%.*s", 180, outcome.out);
        (void)sample_ids(path, "--prompt-ids 0 --context 12");
        CU_ASSERT_EQUAL(strncmp(said, outcome.out, strlen(said)), 0);
        (void)sample_ids(path, "--prompt-ids 0 --context 13");
        CU_ASSERT(program_failed_cleanly(&outcome, 3)); /* what is given counts */
        snprintf(said, sizeof said, "--prompt-ids %s", i == 1 ? "1024" : "5000");
        (void)sample_ids(path, said);
        SW_CHECK(program_failed_cleanly(&outcome, 2) &&
                     strstr(outcome.err, "the vocabulary of the model has") != NULL,
                 "%s", outcome.err);
    }
}

/* Then options say it, as they did. */
static void a_file_without_notes_is_as_before(void)
{
    const char *path = train_tokens();
    forget_notes(path);
    (void)sample_ids(path, "--prompt-ids 0 --context 12 --vocabulary 5");
    check_ids("options", 5);
    (void)sample_ids(path, "--prompt-ids 0 --context 12");
    SW_CHECK(program_failed_cleanly(&outcome, 3) &&
                 strstr(outcome.err, "tokens.weight") != NULL,
             "%s", outcome.err);
    (void)sample_ids(path, "--prompt-ids 0 --vocabulary 5");
    SW_CHECK(program_failed_cleanly(&outcome, 3) &&
                 strstr(outcome.err, "places.weight") != NULL,
             "%s", outcome.err);
}

static void another_vocabulary_is_refused(void)
{
    static const struct {
        const char *vocabulary, *words, *says;
    } ways[] = {
        {"a\nb\nc\nd\n", "", "has 4 tokens, and "},
        {"a\nb\nc\nd\ne\nf\n", "", "was trained on 5 ids of 5: --vocab must be"},
        {"a\nb\nc\nd\ne\nf\n", "--vocabulary 5", "--vocabulary must be at least 6"},
        {NULL, "--prompt the", "was trained on 5 ids of tokens: --vocab FILE says"},
        {NULL, "", "--prompt-ids gives ids"},
    };
    const char *path = train_tokens();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char words[1500];
        const char *file = path_of("other.vocabulary"), *v = ways[i].vocabulary;
        CU_ASSERT(v == NULL || file_write(file, v, strlen(v)));
        snprintf(words, sizeof words, "%s%s %s", v != NULL ? "--vocab " : "",
                 v != NULL ? file : "", ways[i].words);
        (void)sample_ids(path, words);
        SW_CHECK(program_failed_cleanly(&outcome, 2) &&
                     strstr(outcome.err, ways[i].says) != NULL,
                 "%s: status %d: %s", words, outcome.status, outcome.err);
    }
}

/* Of data with fewer ids than the training's, without an option of the model's sizes. */
static void eval_takes_what_the_file_says(void)
{
    static const unsigned char few[400]; /* ids of 0 */
    static const char eval[] =
        "eval --model gpt " SHORT "--json --load-params %s --data tokens:%s %s";
    const char *path = train_tokens(), *data = path_of("few.bin");
    char line[3000];
    CU_ASSERT(file_write(data, few, sizeof few));
    snprintf(line, sizeof line, eval, path, data, "--context 12 --vocabulary 5");
    program_run(&outcome, line, NULL);
    const double loss = program_number(outcome.out, "loss");
    SW_CHECK(outcome.status == 0 && loss > 0.0, "%s", outcome.err);
    snprintf(line, sizeof line, eval, path, data, "");
    program_run(&outcome, line, NULL);
    SW_CHECK(outcome.status == 0 && program_number(outcome.out, "loss") == loss,
             "status %d: %s", outcome.status, outcome.err);
    forget_notes(path);
    program_run(&outcome, line, NULL);
    SW_CHECK(program_failed_cleanly(&outcome, 3), "status %d: %s", outcome.status, outcome.err);
}

static const struct {
    const char *words;
    int status;
    const char *says;
} refused[] = {
    {"sample", 2, "--load-params FILE must be given"},
    {"sample --load-params $ --heads 3", 2, "must be a multiple of --heads"},
    {"sample --load-params $ --tokens 0", 2, "from 1 to"},
    {"sample --load-params $ --temperature -1", 2, "--temperature must be"},
    {"sample --load-params $ --top-k 257", 2, "from 0 to 256"},
    {"sample --load-params $ --dropout 0.1", 2, "unknown option"},
    {"sample --load-params $ --vocabulary 100 --prompt hm", 2, "the byte 104"},
    {"sample --load-params nowhere", 3, "nowhere"},
    {"sample --load-params /dev/null", 3, "/dev/null"},
    {"sample --load-params $ --width 64 --heads 2", 3, "safetensors"},
    {"sample --load-params $ --layers 2", 3, "safetensors"},
    {"train --model gpt", 2, "gpt does not learn classes"},
    {"train --model mlp --heads 2", 2, "without --model gpt"},
};

static void what_cannot_be_is_refused(void)
{
    const char *path = train("--steps 1");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char line[3000];
        const char *at = strchr(refused[i].words, '$');
        const int before = at != NULL ? (int)(at - refused[i].words) : 1000;
        snprintf(line, sizeof line, "%.*s%s%s", before, refused[i].words,
                 at != NULL ? path : "", at != NULL ? at + 1 : "");
        program_run(&outcome, line, NULL);
        SW_CHECK(program_failed_cleanly(&outcome, refused[i].status), "%s: status %d: %s%s",
                 line, outcome.status, outcome.out, outcome.err);
        SW_CHECK(strstr(outcome.err, refused[i].says) != NULL, "%s: %s", line, outcome.err);
    }
}

static const sw_test tests[] = {
    {"gpt learns a text", gpt_learns_a_text, false},
    {"gpt has one result however it runs", gpt_has_one_result_however_it_runs, false},
    {"samples go on as the text does", samples_go_on_as_the_text_does, false},
    {"samples hang on the seed alone", samples_hang_on_the_seed_alone, false},
    {"texts are written in tokens", texts_are_written_in_tokens, false},
    {"what no token says is refused", what_no_token_says_is_refused, false},
    {"what cannot be is refused", what_cannot_be_is_refused, false},
    {"the file says how many ids there are", the_file_says_how_many_ids_there_are},
    {"a file without notes is as before", a_file_without_notes_is_as_before},
    {"another vocabulary is refused", another_vocabulary_is_refused},
    {"eval takes what the file says", eval_takes_what_the_file_says},
};
SW_SUITE("gpt", tests)
