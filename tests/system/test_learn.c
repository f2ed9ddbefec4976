/* The training loop of `stepwell train`: steps of several micro-batches, kept gradients,
 * validations and what hangs on them, metrics, and models that learn numbers. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MLP "--model mlp --hidden 16 --synthetic-n 150 "
#define SWISH "--model swishnet --width 24 --layers 3 --synthetic-n 70 --batch 32 "

static sw_outcome outcome;

static double number(const char *key)
{
    return program_number(outcome.out, key);
}

static bool says(const char *text)
{
    return strstr(outcome.out, text) != NULL;
}

/* Run what is to work; the JSON is in outcome.out. */
static void run(const char *words)
{
    program_run(&outcome, words, NULL);
    SW_CHECK(outcome.status == 0, "%s: status %d: %s", words, outcome.status, outcome.err);
}

/* The parameters that training by `words` saves, all numbers in a row. */
static float *trained(const char *words, size_t *n)
{
    (void)program_train(&outcome, words);
    return program_numbers(program_params(), n);
}

/* The distance of two runs' parameters by the norm of the first. */
static double distance(const char *words, const char *others)
{
    size_t n, m;
    double apart = 0.0, norm = 0.0;
    float *a = trained(words, &n), *b = trained(others, &m);
    CU_ASSERT(a != NULL && b != NULL && n == m && n > 0);
    for (size_t i = 0; a != NULL && b != NULL && i < n && i < m; i++) {
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)a[i] * (double)a[i];
    }
    free(a);
    free(b);
    return sqrt(apart / norm);
}

/* ---- micro-batches ----------------------------------------------------------------------- */

/* 150 samples: the last step has 22 in one large batch, and 8 + 8 + 6 in small ones. A wrong
 * weight of that rest, or of any micro-batch, shows by far more than rounding. */
static void micro_batches_are_the_large_batch(void)
{
    static const char *const kinds[] = {"--optimizer sgd", "--optimizer momentum --clip 0.5",
                                        "--optimizer adam --weight-decay 0.01",
                                        "--optimizer sgd --immediate",
                                        "--optimizer nesterov --threads 3"};
    char large[300], small[300];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(large, sizeof large, MLP "--epochs 2 %s --batch 32", kinds[i]);
        snprintf(small, sizeof small, MLP "--epochs 2 %s --batch 8 --accumulate 4", kinds[i]);
        const double apart = distance(large, small);
        CU_ASSERT_EQUAL(number("steps"), 10);
        SW_CHECK(apart < 2e-5, "%s: %g apart", small, apart);
    }
    snprintf(small, sizeof small, MLP "--epochs 2 --optimizer sgd --batch 8 --accumulate 3");
    CU_ASSERT(distance(MLP "--epochs 2 --optimizer sgd --batch 32", small) > 1e-3);
    CU_ASSERT(distance(SWISH "--lr 1", SWISH "--lr 1 --batch 16 --accumulate 2") < 2e-5);
}

/* A step of micro-batches takes what one of them takes, and the kept gradients. */
static void micro_batches_have_the_memory_of_one(void)
{
    static const char *const modes[] = {"", " --immediate"};
    char words[300];
    for (int i = 0; i < 2; i++) {
        snprintf(words, sizeof words, "plan --json --synthetic-n 4096 --batch 64%s", modes[i]);
        run(words);
        const double model = number("model_bytes"), small = number("predicted_peak_bytes");
        snprintf(words, sizeof words,
                 "plan --json --synthetic-n 4096 --batch 64 --accumulate 16%s", modes[i]);
        run(words);
        const double kept = number("model_bytes") - model;
        SW_CHECK(kept > 170e3 && kept < 190e3, "%g bytes of kept gradients", kept);
        SW_CHECK(number("predicted_peak_bytes") <= small + kept + 4096, "%s: %g, %g and %g",
                 words, number("predicted_peak_bytes"), small, kept);
    }
    run("train --json --quiet --synthetic-n 300 --batch 32 --accumulate 3 --witness");
    CU_ASSERT(says("\"name\":\"accumulate\"") && says("\"faults\":0"));
    CU_ASSERT_EQUAL(number("steps"), 4);
    CU_ASSERT_EQUAL(number("measured_peak_bytes"), number("predicted_peak_bytes"));
}

/* ---- kept and released gradients --------------------------------------------------------- */

static void updates_are_released_unless_all_gradients_are_needed(void)
{
    static const struct {
        const char *words, *update;
    } cases[] = {{"", "release"},
                 {"--update release", "release"},
                 {"--update after", "after"},
                 {"--clip 1", "after"},
                 {"--clip 1 --update after", "after"},
                 {"--keep-gradients", "after"},
                 {"--accumulate 2", "after"},
                 {"--accumulate 1", "release"}};
    char words[200], wanted[60];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(words, sizeof words, "train --json --quiet --steps 1 " MLP "%s",
                 cases[i].words);
        run(words);
        snprintf(wanted, sizeof wanted, "\"update\":\"%s\"", cases[i].update);
        SW_CHECK(says(wanted), "'%s': not %s", cases[i].words, wanted);
        const char *step = strstr(outcome.out, "\"step\":{");
        CU_ASSERT_FATAL(step != NULL);
        SW_CHECK((program_number(step, "peak_bytes") == 0) ==
                     (strcmp(cases[i].update, "release") == 0),
                 "'%s': the step phase has %g bytes", cases[i].words,
                 program_number(step, "peak_bytes"));
    }
}

/* Kept gradients count for the model: one number for each parameter. */
static void kept_gradients_lie_in_the_model(void)
{
    run("plan --json --model mlp --hidden 100 --optimizer sgd --update after");
    const double without = number("model_bytes"), peak = number("predicted_peak_bytes");
    run("plan --json --model mlp --hidden 100 --optimizer sgd --keep-gradients");
    const double kept = number("model_bytes") - without;
    const double parameters = 4.0 * (784 * 100 + 100 + 100 * 10 + 10);
    SW_CHECK(kept >= parameters && kept < parameters + 1024, "%g bytes more, %g kept", kept,
             parameters);
    CU_ASSERT(number("predicted_peak_bytes") >= peak);
}

/* ---- dropout ----------------------------------------------------------------------------- */

/* 0 is a program without; a rate changes what is learned, the same for every number of threads,
 * and measured is what was planned. */
static void dropout_of_an_mlp_is_its_share(void)
{
    const char *const plain = MLP "--steps 5 --batch 32";
    CU_ASSERT(distance(plain, MLP "--steps 5 --batch 32 --dropout 0") == 0.0);
    CU_ASSERT(distance(plain, MLP "--steps 5 --batch 32 --dropout 0.4") > 1e-4);
    CU_ASSERT(distance(MLP "--steps 5 --batch 32 --dropout 0.4",
                       MLP "--steps 5 --batch 32 --dropout 0.4 --threads 2") == 0.0);
    run("train --json --quiet --steps 2 --dropout 0.4 " MLP "--witness");
    CU_ASSERT_EQUAL(number("measured_peak_bytes"), number("predicted_peak_bytes"));
    static const char *const bad[] = {"plan --model mlp --dropout 1",
                                      "plan --model lenet5 --dropout 1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        program_run(&outcome, bad[i], NULL);
        CU_ASSERT_EQUAL(outcome.status, 2);
        SW_CHECK(strstr(outcome.err, "--dropout must be below 1 (got 1)") != NULL, "%s",
                 outcome.err);
    }
}

/* ---- validations ------------------------------------------------------------------------- */

/* Nothing is learned at rate 0: the first validation is the best, and none improves on it. */
static void patience_ends_a_run_that_does_not_improve(void)
{
    run("train --json --quiet " MLP "--lr 0 --epochs 50 --patience 3 --batch 50");
    CU_ASSERT_EQUAL(number("epochs"), 4);
    CU_ASSERT_EQUAL(number("steps"), 12);
    CU_ASSERT_EQUAL(number("validations"), 4);
    CU_ASSERT_EQUAL(number("best_step"), 3);
    CU_ASSERT(says("\"stopped_early\":true") && strstr(outcome.err, "3 in a row") != NULL);
    run("train --json --quiet " MLP
        "--lr 0 --epochs 50 --patience 2 --batch 50 --validate-every 2");
    CU_ASSERT_EQUAL(number("steps"), 4); /* validated after steps 2, 3 and 4 */
    CU_ASSERT_EQUAL(number("validations"), 3);
    run("train --json --quiet " MLP "--epochs 4 --patience 2 --batch 50");
    CU_ASSERT(number("epochs") == 4 && says("\"stopped_early\":false"));
    run("train --json --quiet " MLP "--epochs 9 --patience 2 --min-delta 1000 --batch 50");
    CU_ASSERT(number("epochs") == 3 && says("\"stopped_early\":true"));
    CU_ASSERT_EQUAL(number("best_step"), 9); /* better by less is still kept */
}

/* A loss that is no number is never the best, and counts as no improvement. */
static void a_diverged_run_has_no_best(void)
{
    run("train --json --quiet " MLP "--lr 1e38 --epochs 50 --patience 2 --batch 50");
    CU_ASSERT(number("epochs") < 50 && says("\"stopped_early\":true"));
    CU_ASSERT(says("\"best_step\":null") && says("\"best_validation_loss\":null"));
}

/* Gradients that are no numbers change nothing: they are counted, and end the run when there
 * are too many in a row. Metrics and what was trained stay. */
static void updates_that_are_no_numbers_are_skipped(void)
{
    char words[2400];
    size_t n;
    (void)program_train(&outcome, MLP "--lr 1e38 --batch 50 --epochs 3 --optimizer sgd");
    const double skipped = number("skipped");
    SW_CHECK(skipped > 0 && skipped < 9 && says("\"diverged\":true"), "%g skipped", skipped);
    float *numbers = program_numbers(program_params(), &n);
    size_t bad = 0;
    for (size_t i = 0; i < n; i++)
        bad += !isfinite(numbers[i]);
    free(numbers);
    SW_CHECK(n > 1000 && bad == 0, "%zu of %zu numbers are none", bad, n);
    snprintf(words, sizeof words,
             "train --quiet --json %s--lr 1e38 --batch 50 --epochs 99 --optimizer sgd "
             "--max-skipped 4 --metrics %s.csv --save-params %s",
             MLP, sw_temp_path("skipped"), program_params());
    program_run(&outcome, words, NULL);
    SW_CHECK(outcome.status == 1 && outcome.out[0] == '\0' &&
                 strstr(outcome.err, "4 updates in a row") != NULL,
             "status %d: %s", outcome.status, outcome.err);
    CU_ASSERT(program_tensors(program_params()) != 0);
    run("train --json --quiet " MLP
        "--lr 1e38 --batch 50 --epochs 9 --optimizer sgd --max-skipped 0");
    CU_ASSERT(number("steps") == 27 && number("skipped") > 10);
}

/* A rate that is too high at the end: the best parameters are not the last ones, and the file
 * has those. */
static void the_best_parameters_are_kept(void)
{
    char words[2400], best[1024];
    snprintf(best, sizeof best, "%s", sw_temp_path("best"));
    snprintf(words, sizeof words,
             "train --json --quiet %s--optimizer sgd --lr 0.9 --schedule constant --epochs 12 "
             "--batch 10 --save-best %s --save-params %s",
             MLP, best, program_params());
    run(words);
    const double loss = number("best_validation_loss"), last = number("validation_loss");
    const double accuracy = number("best_accuracy");
    SW_CHECK(loss < last && number("best_step") < number("steps"), "%g, last %g", loss, last);
    CU_ASSERT(program_tensors(best) != 0 &&
              program_tensors(best) != program_tensors(program_params()));
    snprintf(words, sizeof words, "train --json --quiet %s--lr 0 --load-params %s", MLP, best);
    run(words);
    SW_CHECK(fabs(number("validation_loss") - loss) < 1e-6, "%g, loaded %g", loss,
             number("validation_loss"));
    CU_ASSERT_EQUAL(number("test_accuracy"), accuracy);
}

/* ---- metrics ----------------------------------------------------------------------------- */

typedef struct {
    int trains, validations, epochs;
    double epoch_sum, rights; /* of the steps of an epoch; all have as many samples */
    double last_loss, loss_sum, last_rate, first_rate;
} lines;

static lines read_csv(const char *path)
{
    lines found = {0};
    size_t n;
    char *text = (char *)file_read(path, &n), *next = NULL;
    CU_ASSERT_FATAL(text != NULL && n > 0 && text[n - 1] == '\n');
    char *line = strtok_r(text, "\n", &next);
    CU_ASSERT_STRING_EQUAL(line, "kind,step,epoch,loss,accuracy,rate,ms");
    while ((line = strtok_r(NULL, "\n", &next)) != NULL) {
        char kind[20];
        long long step, epoch;
        double loss, accuracy, rate = 0.0, ms;
        if (sscanf(line, "%19[a-z],%lld,%lld,%lf,%lf,%lf,%lf", kind, &step, &epoch, &loss,
                   &accuracy, &rate, &ms) == 7) {
            found.first_rate = found.trains++ == 0 ? rate : found.first_rate;
            SW_CHECK(step == found.trains && ms > 0, "%s", line);
            found.last_loss = loss;
            found.last_rate = rate;
            found.epoch_sum += loss;
            found.rights += accuracy;
        } else if (strncmp(line, "epoch,", 6) == 0) {
            SW_CHECK(sscanf(line, "epoch,%lld,%lld,%lf,%lf,,", &step, &epoch, &loss,
                            &accuracy) == 4 &&
                         step == found.trains && line[strlen(line) - 1] == ',',
                     "%s", line);
            SW_CHECK(fabs(loss - found.epoch_sum / 3) < 1e-7 &&
                         fabs(accuracy - found.rights / 3) < 1e-7,
                     "%s: %g, %g", line, found.epoch_sum / 3, found.rights / 3);
            found.epoch_sum = found.rights = 0.0;
            found.epochs++;
        } else {
            SW_CHECK(sscanf(line, "validation,%lld,%lld,%lf,%lf,,%lf", &step, &epoch, &loss,
                            &accuracy, &ms) == 5 &&
                         step == found.trains,
                     "%s", line);
            found.validations++;
        }
        SW_CHECK(epoch == (found.trains + 2) / 3 && accuracy >= 0 && accuracy <= 1, "%s", line);
        found.loss_sum += loss;
    }
    free(text);
    return found;
}

/* Both formats have a line for each step and each validation, with the same numbers, and cost
 * no bit of the parameters. */
static void metrics_have_each_step_and_each_validation(void)
{
    char words[2400], csv[1100], json[1100];
    snprintf(csv, sizeof csv, "%s.csv", sw_temp_path("metrics"));
    snprintf(json, sizeof json, "%s.jsonl", sw_temp_path("metrics"));
    const uint64_t plain = program_train(&outcome, MLP "--epochs 4 --batch 50");
    snprintf(words, sizeof words, MLP "--epochs 4 --batch 50 --validate-every 2 --metrics %s",
             csv);
    CU_ASSERT_EQUAL(program_train(&outcome, words), plain);
    const lines found = read_csv(csv);
    CU_ASSERT_EQUAL(found.trains, 12);
    CU_ASSERT_EQUAL(found.validations, 8); /* after 2 3 4 6 8 9 10 12 */
    CU_ASSERT_EQUAL(found.epochs, 4);
    CU_ASSERT_EQUAL(number("validations"), 8);
    CU_ASSERT(fabs(found.last_loss - number("final_loss")) < 1e-6);
    CU_ASSERT(fabs(found.first_rate - 0.005) < 1e-8 && found.last_rate < 1e-3);
    snprintf(words, sizeof words, MLP "--epochs 4 --batch 50 --validate-every 2 --metrics %s",
             json);
    CU_ASSERT_EQUAL(program_train(&outcome, words), plain);
    size_t n;
    double sum = 0.0;
    int count = 0;
    char *text = (char *)file_read(json, &n), *next = NULL;
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    for (char *line = strtok_r(text, "\n", &next); line != NULL;
         line = strtok_r(NULL, "\n", &next), count++) {
        sum += program_number(line, "loss");
        const bool step = strstr(line, "\"kind\":\"train\"") != NULL;
        const bool epoch = strstr(line, "\"kind\":\"epoch\"") != NULL;
        SW_CHECK(isnan(program_number(line, "rate")) == !step &&
                     (program_number(line, "ms") > 0) == !epoch &&
                     line[strlen(line) - 1] == '}',
                 "%s", line);
    }
    free(text);
    CU_ASSERT_EQUAL(count, 24);
    SW_CHECK(fabs(sum - found.loss_sum) < 1e-5, "%g in CSV, %g in JSON", found.loss_sum, sum);
}

/* ---- numbers to learn -------------------------------------------------------------------- */

static void a_model_of_numbers_has_no_accuracy(void)
{
    run("train --json --quiet " SWISH "--epochs 2");
    CU_ASSERT(!says("test_accuracy") && !says("best_accuracy"));
    const double loss = number("validation_loss");
    SW_CHECK(loss > 0.7 && loss < 1.3, "loss %g of targets with variance 1", loss);
    const double first = number("final_loss");
    run("train --json --quiet " SWISH "--epochs 400 --lr 5 --schedule constant");
    SW_CHECK(number("final_loss") < 0.9 * first, "%g, then %g", first, number("final_loss"));
}

/* Swish is the same function either way, and the others are not; what is rebuilt has the bits
 * of what is kept. */
static void activations_are_chosen_by_name(void)
{
    static const char *const names[] = {"swish",     "relu", "leaky-relu", "hard-swish",
                                        "gelu",      "mish", "softplus",   "elu",
                                        "gelu-tanh", "selu", "tanh",       "sigmoid"};
    enum { N = sizeof names / sizeof *names };
    uint64_t hash[N];
    char words[300];
    CU_ASSERT(distance(SWISH "--lr 1 --epochs 5",
                       SWISH "--lr 1 --epochs 5 --activation swish-naive") < 1e-6);
    for (int i = 0; i < N; i++) {
        snprintf(words, sizeof words, SWISH "--activation %s", names[i]);
        hash[i] = program_train(&outcome, words);
        for (int k = 0; k < i; k++)
            SW_CHECK(hash[i] != hash[k], "%s is %s", names[i], names[k]);
        snprintf(words, sizeof words, SWISH "--activation %s --no-rebuild", names[i]);
        SW_CHECK(program_train(&outcome, words) == hash[i], "%s: other bits", words);
    }
    run("plan --json " SWISH);
    const double peak = number("predicted_peak_bytes");
    CU_ASSERT(number("rebuilt_ops") > 0);
    run("plan --json --no-rebuild " SWISH);
    CU_ASSERT_EQUAL(number("rebuilt_ops"), 0);
    CU_ASSERT(number("predicted_peak_bytes") > peak);
}

/* ---- the Swish experiment ---------------------------------------------------------------- */

/* The page has the peaks that plan says. */
static void the_swish_page_has_the_planned_peaks(void)
{
    size_t n;
    char page[1024], row[200];
    if (sw_shell("python3 -c pass") != 0)
        SW_SKIP("no python3");
    snprintf(page, sizeof page, "%s", sw_temp_path("swish"));
    CU_ASSERT_EQUAL(sw_shell("python3 '%s/tools/bench/swish.py' '%s' --batches 16,256 --width "
                             "192 --layers 3 --rounds 2 --python false --out '%s'",
                             sw_source_root(), program_path(), page),
                    0);
    char *text = (char *)file_read(page, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    static const struct {
        const char *name, *words;
    } rows[] = {{"naive", "--activation swish-naive --update after --no-rebuild"},
                {"released", ""},
                {"kept", "--activation swish-naive --keep-gradients --no-rebuild"}};
    char *second = strstr(text, "## Batch 256");
    CU_ASSERT_PTR_NOT_NULL_FATAL(second);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char words[300];
        snprintf(words, sizeof words,
                 "plan --json --model swishnet --width 192 --layers 3 --batch 256 "
                 "--synthetic-n 256 --threads 2 %s",
                 rows[i].words);
        run(words);
        snprintf(row, sizeof row, "| stepwell, %s | %.1f |", rows[i].name,
                 number("predicted_peak_bytes") / 1048576.0);
        SW_CHECK(strstr(second, row) != NULL, "no '%s' in %s", row, text);
    }
    CU_ASSERT(strstr(text, "| stepwell, kept | 1 |") != NULL);
    CU_ASSERT(strstr(text, "PyTorch was not installed") != NULL);
    free(text);
}

static const sw_test tests[] = {
    {"micro-batches are the large batch within rounding", micro_batches_are_the_large_batch},
    {"micro-batches have the memory of one", micro_batches_have_the_memory_of_one},
    {"updates are released unless all gradients are needed",
     updates_are_released_unless_all_gradients_are_needed},
    {"kept gradients lie in the model", kept_gradients_lie_in_the_model},
    {"dropout of an mlp is its share", dropout_of_an_mlp_is_its_share},
    {"patience ends a run that does not improve", patience_ends_a_run_that_does_not_improve},
    {"a diverged run has no best parameters", a_diverged_run_has_no_best},
    {"updates that are no numbers are skipped", updates_that_are_no_numbers_are_skipped},
    {"the best parameters are kept", the_best_parameters_are_kept},
    {"metrics have each step and each validation", metrics_have_each_step_and_each_validation},
    {"a model of numbers has no accuracy", a_model_of_numbers_has_no_accuracy},
    {"activations are chosen by name", activations_are_chosen_by_name},
    {"the Swish page has the planned peaks", the_swish_page_has_the_planned_peaks},
};
SW_SUITE("learning", tests)
