/* `stepwell evolve`: whom it names, and its tables. The rest is in transcripts/evolve.txt. */
#include "tests/support/json.h"
#include "tests/support/suite.h"
#include "tests/system/populations.h"
#include "tests/system/well_formed.h"

SW_TESTS("architectures")

#define PAGE_BEGINS "<!doctype html>\n<html lang=\"en\">"

static const char space[] =
    "{\"format\": \"stepwell search space 1\",\n"
    " \"body\": {\"chain\": [\n"
    "  {\"vertex\": \"conv2d\", \"size\": {\"from\": 2, \"to\": 6}, \"kernel\": 3, \"stride\": "
    "4},\n"
    "  {\"vertex\": \"activation\"},\n"
    "  {\"residual\": {\"vertex\": \"conv2d\", \"size\": [2, 3], \"kernel\": [1, 3]}},\n"
    "  {\"vertex\": \"global_avg_pool\"}]},\n"
    " \"insert\": [{\"if\": \"image\", \"then\": {\"vertex\": \"conv2d\", \"size\": 3, "
    "\"kernel\": 1},\n"
    "  \"else\": {\"vertex\": \"activation\"}}],\n"
    " \"optimizers\": [\"adam\", \"sgd\"],\n"
    " \"lr\": {\"from\": 0.001, \"to\": 0.05},\n"
    " \"batch\": [8, 12],\n"
    " \"activations\": [\"relu\", \"swish\"]\n}\n";

/* A folder with the space in it. */
static void new_folder(const char *name)
{
    going_new_folder(name);
    going_put("S", space);
}

static const sw_outcome *good(const char *words, const char *more)
{
    const sw_outcome *o = going_run("%s %s", words, more);
    SW_CHECK(o->status == 0, "%s %s: status %d: %s", words, more, o->status, o->err);
    return o;
}

static void drop_json(void *x)
{
    json_decref(x);
}

static const json_t *parsed(const char *text)
{
    json_t *x = json_loads(text);
    SW_CHECK(x != NULL, "%s: %.200s", sw_last_error(), text);
    if (x != NULL)
        sw_after(drop_json, x);
    return x;
}

/* Selection rounds accuracy; whom the program names, in each generation and in all, does not.
 */
SW_TEST("the best is named by accuracy itself")
{
    int rounded = 0;
    new_folder("named");
    for (int seed = 1; seed <= 4; seed++) {
        double of_all = -1.0, most[2] = {-1.0, -1.0}, fittest[2] = {-1.0, -1.0}, its[2] = {0};
        const json_t *result = parsed(
            good(sw_textf("evolve --quiet --json --synthetic-n 2000 --space @/S --population "
                          "16 --samples 16 --generations 2 --seed %d --out @/R%d",
                          seed, seed),
                 "")
                ->out);
        char *line = text_of(going_at(sw_textf("R%d/history.jsonl", seed)));
        for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            const json_t *member = parsed(line);
            const size_t g = (size_t)json_integer_value(json_object_get(member, "generation"));
            const double accuracy = json_number_value(json_object_get(member, "accuracy"));
            const double fitness = json_number_value(json_object_get(member, "fitness"));
            CU_ASSERT_FATAL(g < 2);
            most[g] = accuracy > most[g] ? accuracy : most[g];
            of_all = accuracy > of_all ? accuracy : of_all;
            its[g] = fitness > fittest[g] ? accuracy : its[g];
            fittest[g] = fitness > fittest[g] ? fitness : fittest[g];
        }
        const json_t *best = json_object_get(result, "best");
        CU_ASSERT_EQUAL(json_number_value(json_object_get(best, "accuracy")), of_all);
        for (size_t g = 0; g < 2; g++) {
            const json_t *row = json_array_get(json_object_get(result, "history"), g);
            CU_ASSERT_EQUAL(json_number_value(json_object_get(row, "accuracy")), most[g]);
            rounded += its[g] < most[g];
        }
    }
    CU_ASSERT(rounded > 0);
}

/* The table of generations and that of the page. */
SW_TEST("columns have one number of decimals")
{
    new_folder("columns");
    const sw_outcome *o = going_run("evolve --synthetic-n 100 --space @/S --population 6 "
                                    "--samples 48 --generations 5 --out @/R");
    CU_ASSERT_EQUAL_FATAL(o->status, 0);
    for (int column = 1; column < 3; column++)
        CU_ASSERT_EQUAL(population_column(o->out, "  gen ", "\n", " ", column), 5);
    const char *page = text_of(going_at("R/report.html"));
    static const int of_page[] = {3, 5}; /* fitness and loss */
    for (int i = 0; i < 2; i++)
        CU_ASSERT_EQUAL(population_column(page, "<th>born</th>", "<tr", "<td>", of_page[i]), 6);
}
