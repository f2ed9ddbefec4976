/* Search spaces: draws, all nodes, refusals, insertions. */
#include "runtime/population/evolve/search_space.h"
#include "tests/evolve/genome_texts.h"
#include "tests/evolve/net_scene.h"
#include "tests/support/files.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("search space")

static const sw_task image = {sizeof image, 1, 28, 28, 10},
                     vector = {sizeof vector, 64, 0, 0, 10};

static sw_search_space *space_of(const char *text)
{
    sw_search_space *s = NULL;
    if (OK(sw_search_space_parse(&s, text, strlen(text), "a space")))
        AFTER(sw_search_space_destroy, s);
    return s;
}

/* A space of this body alone. */
static sw_search_space *body_of(const char *body)
{
    char text[2000];
    snprintf(text, sizeof text, "{\"format\": \"stepwell search space 1\",\n\"body\": %s}",
             body);
    return space_of(text);
}

/* It ends with the test. */
static sw_genome *genome_drawn(const sw_search_space *s, const sw_task *task, uint64_t seed)
{
    sw_genome *g = NULL;
    OK(sw_genome_draw(&g, s, task, seed));
    CU_ASSERT_FATAL(g != NULL);
    AFTER(sw_genome_destroy, g);
    return g;
}

static bool same_again(const sw_genome *g)
{
    char *text, *second;
    size_t bytes, more;
    sw_genome *again = NULL;
    bool same = sw_genome_print(g, &text, &bytes) == SW_OK &&
                sw_genome_parse(&again, text, bytes, "a text") == SW_OK &&
                sw_genome_print(again, &second, &more) == SW_OK;
    if (!SW_CHECK(same, "%s", sw_last_error()))
        return false;
    same = more == bytes && memcmp(text, second, bytes) == 0 &&
           swi_genome_hash(g) == swi_genome_hash(again);
    sw_text_free(text, bytes);
    sw_text_free(second, more);
    sw_genome_destroy(again);
    return same;
}

static void draw_many(const sw_task *task, uint64_t from, int n)
{
    sw_search_space *s = genome_space(&image);
    uint64_t least = UINT64_MAX, most = 0, sum = 0, vertices = 0;
    int small = 0, large = 0;
    double macs = 0;
    for (int i = 0; i < n; i++) {
        sw_genome *g = NULL, *again = NULL;
        sw_genome_info info = SW_OPTS(sw_genome_info);
        if (!OK(sw_genome_draw(&g, s, task, from + (uint64_t)i)))
            return;
        OK(sw_genome_draw(&again, s, task, from + (uint64_t)i));
        const uint64_t hash = swi_genome_hash(g);
        CU_ASSERT_EQUAL_FATAL(swi_genome_hash(again), hash);
        OK(swi_genome_check(g, NULL));
        CU_ASSERT_EQUAL(swi_genome_hash(g), hash);
        CU_ASSERT_FATAL(same_again(g));
        OK(sw_genome_describe(g, &info));
        CU_ASSERT_EQUAL(info.classes, task->classes);
        least = info.parameters < least ? info.parameters : least;
        most = info.parameters > most ? info.parameters : most;
        small += info.parameters < 2000;
        large += info.parameters > 200000;
        sum += info.parameters;
        for (uint32_t v = 1; v < g->n; v++) {
            const swi_vertex *x = &g->vertices[v];
            macs += (double)swi_vertex_parameters(g, x) *
                    (x->height > 0 ? (double)(x->height * x->width) : 1.0);
        }
        vertices += info.n_vertices;
        sw_genome_destroy(g);
        sw_genome_destroy(again);
    }
    sw_note("%d draws: %llu to %llu parameters (mean %llu; %d below 2,000, %d above 200,000), "
            "%.1f vertices, %.2f million multiplications a sample",
            n, (unsigned long long)least, (unsigned long long)most,
            (unsigned long long)(sum / (uint64_t)n), small, large, (double)vertices / (double)n,
            macs / n * 1e-6);
    CU_ASSERT(large < n / 20);
    CU_ASSERT(most > 4 * least);
}

/* Every draw is a valid genome of the task; the same seed gives the same one; texts read back
 * as they are. */
SW_TEST("draws of the default space are valid, and come again")
{
    draw_many(&image, 0, sw_tests_full() ? 10000 : 1500);
    draw_many(&vector, 7000000, sw_tests_full() ? 10000 : 1500);
}

SW_TEST("draws train")
{
    sw_search_space *s = genome_space(&image);
    for (uint64_t seed = 0; seed < (sw_tests_full() ? 200 : 30); seed++) {
        sw_genome *g = NULL;
        sw_price price = SW_OPTS(sw_price);
        sw_exec *exec = scene_exec(1);
        if (!OK(sw_genome_draw(&g, s, seed % 4 == 0 ? &vector : &image, seed)))
            return;
        g->batch = 4;
        OK(sw_genome_price(g, exec, NULL, SW_F32, &price));
        CU_ASSERT_EQUAL(price.parameters, swi_genome_parameters(g));
        sw_net *made = scene_ready(g, NULL, exec, seed);
        const scene_batch data = scene_data(g, SW_F32, g->batch, seed);
        OK(sw_run(exec, &SCENE_ARGS(made, &data, SW_TRAIN)));
        sw_genome_destroy(g);
        scene_sweep();
    }
}

/* Tasks of other sizes have genomes too: one pixel, long images, one element, two classes. */
SW_TEST("the default space has genomes of any task")
{
    static const sw_task tasks[] = {
        {sizeof image, 3, 32, 32, 100}, {sizeof image, 1, 1, 1, 2},
        {sizeof image, 2, 3, 40, 3},    {sizeof image, 1, 0, 0, 2},
        {sizeof image, 7, 5, 1, 1},     {sizeof image, 1, 64, 64, 10}};
    sw_search_space *s = genome_space(&image);
    for (size_t t = 0; t < sizeof tasks / sizeof *tasks; t++)
        for (uint64_t seed = 0; seed < 100; seed++) {
            sw_genome *g = genome_drawn(s, &tasks[t], seed);
            OK(swi_genome_check(g, NULL));
            CU_ASSERT_EQUAL(g->vertices[0].channels, tasks[t].channels);
            CU_ASSERT_EQUAL(g->vertices[g->n - 1].channels, tasks[t].classes);
        }
}

SW_TEST("seeds differ")
{
    sw_search_space *s = genome_space(&image);
    uint64_t hashes[200];
    int same = 0;
    for (int i = 0; i < 200; i++) {
        hashes[i] = swi_genome_hash(genome_drawn(s, &image, (uint64_t)i));
        for (int k = 0; k < i; k++)
            same += hashes[k] == hashes[i];
    }
    CU_ASSERT_EQUAL(same, 0);
}

/* ---- nodes ------------------------------------------------------------------------------- */

/* The kinds of a genome's vertices after the input, one letter each: l c n m a M A
 * f(activation) d F + and |. */
static const char *letters(const sw_search_space *s, const sw_task *task, uint64_t seed)
{
    static char text[60];
    sw_genome *g = NULL;
    size_t n = 0;
    if (OK(sw_genome_draw(&g, s, task, seed)))
        for (uint32_t i = 1; i < g->n && n + 1 < sizeof text; i++)
            text[n++] = "ilcnmaMArdF+|"[g->vertices[i].kind];
    text[n] = '\0';
    sw_genome_destroy(g);
    return text;
}

#define RELU "{\"vertex\": \"activation\", \"activation\": \"relu\"}"
#define DROP "{\"vertex\": \"dropout\", \"rate\": 0.5}"
#define LINEAR "{\"vertex\": \"linear\", \"size\": 7}"
#define CONV "{\"vertex\": \"conv2d\", \"size\": {\"from\": 8, \"to\": 12}, \"kernel\": [3, 5]}"

/* Each node gives what it says: chain, repeat, fork, residual, choice, if, use, shields. */
SW_TEST("every node draws what it says")
{
    static const struct {
        const char *body;
        bool image;
        const char *wants; /* one of them, between blanks */
    } nodes[] = {
        {"{\"chain\": []}", true, " Al "},
        {"{\"chain\": []}", false, " l "},
        {LINEAR, false, " ll "},
        {"{\"chain\": [" LINEAR ", " RELU "]}", false, " lrl "},
        {"{\"repeat\": " RELU ", \"times\": 3}", false, " rrrl "},
        {"{\"repeat\": " RELU ", \"times\": [0, 2]}", false, " l rrl "},
        {"{\"fork\": [" RELU ", " DROP "]}", false, " rd|l "},
        {"{\"fork\": [{\"chain\": []}, " DROP "]}", false, " d|l "},
        {"{\"fork\": " RELU ", \"paths\": {\"from\": 1, \"to\": 3}}", false, " rl rr|l rrr|l "},
        {"{\"residual\": " CONV "}", true, " c+Al "},
        {"{\"residual\": {\"chain\": []}}", true, " Al "},
        {"{\"choice\": [" RELU ", " DROP "]}", false, " rl dl "},
        {"{\"choice\": [" RELU ", " DROP "], \"weights\": [1, 1e-9]}", false, " rl "},
        {"{\"if\": \"image\", \"then\": " RELU ", \"else\": " DROP "}", true, " rAl "},
        {"{\"if\": \"image\", \"then\": " RELU ", \"else\": " DROP "}", false, " dl "},
        {"{\"if\": \"vector\", \"then\": " RELU "}", true, " Al "},
        {"{\"if\": \"height >= 28\", \"then\": " RELU "}", true, " rAl "},
        {"{\"if\": \"height > 28\", \"else\": " RELU "}", true, " rAl "},
        {"{\"if\": \"width < 28\", \"then\": " RELU "}", true, " Al "},
        {"{\"if\": \"channels <= 1\", \"then\": " RELU "}", true, " rAl "},
        {"{\"repeat\": {\"if\": \"vertices < 4\", \"then\": " RELU "}, \"times\": 9}", false,
         " rrrl "},
        {"{\"shield\": [\"remove\"], \"node\": " RELU "}", false, " rl "},
        {"{\"vertex\": \"flatten\"}", true, " Fl "},
        {"{\"chain\": [{\"vertex\": \"max_pool\", \"kernel\": 2, \"stride\": 2}, {\"vertex\": "
         "\"global_max_pool\"}]}",
         true, " mMl "},
        {"{\"vertex\": \"avg_pool\", \"kernel\": 2, \"stride\": 2}", true, " aAl "},
        {"{\"vertex\": \"batch_norm\"}", true, " nAl "},
        {"{\"vertex\": \"linear\", \"size\": \"classes\"}", false, " l "},
        {"{\"vertex\": \"conv2d\", \"size\": \"classes\", \"kernel\": 1}", true, " cA "},
        {"{\"chain\": [{\"vertex\": \"linear\", \"size\": \"classes\"}, " LINEAR "]}", false,
         " lll "},
    };
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        sw_search_space *s = body_of(nodes[i].body);
        char all[200] = " ";
        for (uint64_t seed = 0; seed < 60; seed++) {
            char one[64];
            snprintf(one, sizeof one, " %s ",
                     letters(s, nodes[i].image ? &image : &vector, seed));
            SW_CHECK(strstr(nodes[i].wants, one) != NULL, "%s: %s", nodes[i].body, one);
            if (strstr(all, one) == NULL && strlen(all) < 100)
                strcat(all, one + 1);
        }
        SW_CHECK(strlen(all) == strlen(nodes[i].wants), "%s: only%s", nodes[i].body, all);
    }
}

/* Numbers are drawn from all of their range or list, and from nothing else. */
SW_TEST("numbers are within their ranges")
{
    sw_search_space *s = body_of("{\"vertex\": \"conv2d\", \"size\": {\"from\": 8, \"to\": 21, "
                                 "\"step\": 4}, \"kernel\": [1, 5], \"dilation\": {\"from\": "
                                 "1, \"to\": 2}, \"shield\": [\"size\", \"kernel\"]}");
    int sizes[40] = {0}, kernels[8] = {0}, dilations[4] = {0};
    for (uint64_t seed = 0; seed < 300; seed++) {
        sw_genome *g = genome_drawn(s, &image, seed);
        const swi_vertex *v = &g->vertices[1];
        CU_ASSERT_EQUAL(v->shield, SW_SHIELD_SIZE | SW_SHIELD_KERNEL);
        sizes[v->size]++;
        kernels[v->kernel]++;
        dilations[v->dilation]++;
    }
    CU_ASSERT(sizes[8] > 30 && sizes[12] > 30 && sizes[16] > 30 && sizes[20] > 30);
    CU_ASSERT_EQUAL(sizes[8] + sizes[12] + sizes[16] + sizes[20], 300);
    CU_ASSERT(kernels[1] > 100 && kernels[5] > 100 && kernels[1] + kernels[5] == 300);
    CU_ASSERT(dilations[1] > 100 && dilations[2] > 100);
}

/* The body of a residual gets the channels of what it is added to: over norms, forks and inner
 * residuals; groups divide. */
SW_TEST("residuals tie sizes")
{
    sw_search_space *s =
        body_of("{\"chain\": [" CONV ", {\"residual\": {\"fork\": [" CONV ", {\"chain\": [" CONV
                ", {\"vertex\": \"batch_norm\"}, {\"residual\": " CONV "}]}]}}, {\"vertex\": "
                "\"conv2d\", \"size\": 9, \"kernel\": 1, \"groups\": [2, 4]}]}");
    for (uint64_t seed = 0; seed < 200; seed++) {
        sw_genome *g = genome_drawn(s, &image, seed);
        const swi_vertex *v =
            g->vertices; /* 1 conv, 2 conv, 3 conv, 4 norm, 5 conv, 6 +, 7 | */
        const int64_t c = v[1].channels;
        CU_ASSERT_EQUAL(v[2].size, c - c / 2);
        CU_ASSERT_EQUAL(v[3].size, c / 2);
        CU_ASSERT_EQUAL(v[5].size, c / 2);
        CU_ASSERT_EQUAL(v[8].channels, c);
        CU_ASSERT_EQUAL(v[8].kind, SW_VERTEX_ADD);
        CU_ASSERT(c % v[9].groups == 0 && v[9].size % v[9].groups == 0 && v[9].size >= 9);
    }
}

/* A space that no draw can meet is refused, by node and reason. */
SW_TEST("impossible draws name the node")
{
    static const struct {
        const char *body, *why;
    } bodies[] = {
        {"{\"chain\": [\n\n{\"vertex\": \"batch_norm\"}]}", "a space: line 4: "},
        {"{\"residual\":\n " LINEAR "}", "the last: a space: line 2: "},
        {"{\"repeat\": " RELU ", \"times\": 4096}", "4096 vertices"},
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        sw_search_space *s = body_of(bodies[i].body);
        sw_genome *g = NULL;
        if (i == 1) { /* of a vector a residual can be; of an image it cannot */
            OK(sw_genome_draw(&g, s, &vector, 1));
            sw_genome_destroy(g);
            g = NULL;
            continue;
        }
        REFUSED(sw_genome_draw(&g, s, &vector, 1), SW_INVALID, bodies[i].why);
        CU_ASSERT_PTR_NULL(g);
    }
    sw_genome *g = NULL;
    sw_search_space *s =
        body_of("{\"residual\":\n {\"vertex\": \"max_pool\", \"kernel\": 2, \"stride\": 2}}");
    REFUSED(sw_genome_draw(&g, s, &image, 1), SW_INVALID, "line 2: a residual must keep");
    const sw_task none = {sizeof none, 1, 28, 0, 10};
    REFUSED(sw_genome_draw(&g, s, &none, 1), SW_INVALID, "28");
}

/* ---- refusals ---------------------------------------------------------------------------- */

SW_TEST("damaged spaces are refused by line")
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"{\"format\": \"stepwell search space 2\"}", "line 1: "},
        {"{\"body\": " RELU "}", "line 1: column 9: the first must be \"format\""},
        {"{\"format\": \"stepwell search space 1\"}", "a search space must have \"body\""},
#define SPACE(rest) "{\"format\": \"stepwell search space 1\",\n" rest "}"
        {SPACE("\"body\": {}"), "line 2: column 11: a node must be one of"},
        {SPACE("\"body\":\n{\"vertex\": \"conv3d\"}"), "line 3: "},
        {SPACE("\"body\": {\"vertex\": \"input\"}"), "no kind of vertex"},
        {SPACE("\"body\": {\"vertex\": \"add\"}"), "drawn by \"residual\""},
        {SPACE("\"body\": {\"vertex\": \"conv2d\", \"size\": 8}"), "must have \"kernel\""},
        {SPACE("\"body\": {\"vertex\": \"linear\", \"size\": 8, \"kernel\": 3}"),
         "has no \"kernel\""},
        {SPACE("\"body\": {\"vertex\": \"linear\", \"size\": 0}"), "1 to 1048576 (got 0)"},
        {SPACE("\"body\": {\"vertex\": \"linear\", \"size\": [8, 1.5]}"), "whole number"},
        {SPACE("\"body\": {\"vertex\": \"linear\", \"size\": []}"), "a choice at least"},
        {SPACE("\"body\": {\"vertex\": \"linear\", \"size\": {\"from\": 9, \"to\": 8}}"),
         "from must not be above to"},
        {SPACE("\"body\": {\"vertex\": \"linear\", \"size\": {\"from\": 9}}"),
         "must have \"from\" and \"to\""},
        {SPACE("\"body\": {\"vertex\": \"linear\", \"size\": \"many\"}"), "one of classes"},
        {SPACE("\"body\": {\"vertex\": \"linear\", \"size\": true}"), "must be a number"},
        {SPACE("\"body\": {\"vertex\": \"activation\", \"activation\": \"rely\"}"),
         "no activation"},
        {SPACE("\"body\": {\"chain\": [], \"choice\": []}"), "not both"},
        {SPACE("\"body\": {\"choice\": []}"), "a node at least"},
        {SPACE("\"body\": {\"fork\": [" RELU "]}"), "2 to 16 paths"},
        {SPACE("\"body\": {\"fork\": " RELU "}"), "must have \"paths\""},
        {SPACE("\"body\": {\"repeat\": " RELU "}"), "must have \"times\""},
        {SPACE("\"body\": {\"choice\": [" RELU "], \"weights\": [1, 2]}"), "a weight for each"},
        {SPACE("\"body\": {\"choice\": [" RELU "], \"weights\": [0]}"), "above 0"},
        {SPACE("\"body\": {\"if\": \"height = 8\"}"), "\"if\" must be"},
        {SPACE("\"body\": {\"if\": \"height < \"}"), "\"if\" must be"},
        {SPACE("\"body\": {\"use\": \"x\"}"), "line 2: there is no part 'x'"},
        {SPACE("\"parts\": {\"x\":\n{\"use\": \"y\"},\n\"y\": {\"chain\": [\n{\"use\": "
               "\"x\"}]}},\n\"body\": {\"use\": \"x\"}"),
         "uses itself"},
        {SPACE("\"parts\": {\"x\": " RELU ",\n\"x\": " RELU "}, \"body\": {\"use\": \"x\"}"),
         "line 3: column 5: part 'x' is there twice"},
        {SPACE("\"body\": " RELU ",\n\"optimizers\": [\"adamx\"]"), "line 3: "},
        {SPACE("\"body\": " RELU ", \"optimizers\": []"), "a name at least"},
        {SPACE("\"body\": " RELU ", \"lr\": 0"), "\"lr\" must be"},
        {SPACE("\"body\": " RELU ", \"lr\": {\"from\": 1, \"to\": 0.5}"), "must not be above"},
        {SPACE("\"body\": " RELU ", \"batch\": [0]"), "1 to 65536 (got 0)"},
        {SPACE("\"body\": " RELU ", \"body\": " RELU), "there twice"},
        {SPACE("\"body\": " RELU ", \"color\": 1"), "has no \"color\""},
        {SPACE("\"body\": " RELU) " x", "the text must end here"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sw_search_space *s = NULL;
        REFUSED(sw_search_space_parse(&s, bad[i].text, strlen(bad[i].text), "a space"),
                SW_FORMAT, bad[i].why);
        CU_ASSERT(strncmp(sw_last_error(), "a space: line ", 14) == 0);
        CU_ASSERT_PTR_NULL(s);
    }
}

/* Trees that are too deep, and parts that grow without end, end. */
SW_TEST("large trees end")
{
    char text[8000];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "{\"format\": \"%s\", \"body\": ", SWI_SPACE_FORMAT);
    for (int i = 0; i < 60; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "{\"residual\": ");
    sw_search_space *s = NULL;
    REFUSED(sw_search_space_parse(&s, text, n, "a space"), SW_FORMAT, "at most 40 deep");
    n = (size_t)snprintf(text, sizeof text,
                         "{\"format\": \"%s\", \"parts\": {\"p0\": {\"chain\": []}",
                         SWI_SPACE_FORMAT);
    for (int i = 1; i < 50; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              ",\n\"p%d\": {\"repeat\": {\"use\": \"p%d\"}, \"times\": 4000}",
                              i, i - 1);
    n += (size_t)snprintf(text + n, sizeof text - n, "}, \"body\": {\"use\": \"p49\"}}");
    s = space_of(text);
    sw_genome *g = NULL;
    REFUSED(sw_genome_draw(&g, s, &image, 1), SW_INVALID, "visits more than");
}

/* Any damage to the text of the default space is read or refused, and leaves nothing. */
SW_TEST("damage never crashes")
{
    const size_t bytes = strlen(swi_space_default_text);
    const uint64_t blocks = sw_heap_blocks();
    swi_draws d = swi_draws_of(11, 3);
    char text[6000];
    CU_ASSERT_FATAL(bytes < sizeof text);
    int refused = 0, good = 0;
    for (int i = 0; i < (sw_tests_full() ? 20000 : 2000); i++) {
        size_t n = bytes;
        memcpy(text, swi_space_default_text, bytes);
        if (i % 4 == 0)
            n = swi_draw_below(&d, (uint32_t)bytes);
        for (uint32_t k = 0; i % 4 != 0 && k < 1 + swi_draw_below(&d, 3); k++) {
            char *at = &text[swi_draw_below(&d, (uint32_t)bytes)];
            const bool digit = *at >= '0' && *at <= '9';
            *at = digit ? (char)('0' + swi_draw_below(&d, 10)) : (char)swi_draw_bits(&d);
        }
        sw_search_space *s = NULL;
        sw_genome *g = NULL;
        const sw_status status = sw_search_space_parse(&s, text, n, "a space");
        SW_CHECK(status == SW_OK || status == SW_FORMAT, "%s", sw_last_error());
        refused += status != SW_OK;
        if (status != SW_OK)
            continue;
        const sw_status drawn = sw_genome_draw(&g, s, &image, 1);
        SW_CHECK(drawn == SW_OK || drawn == SW_INVALID, "%s", sw_last_error());
        good += drawn == SW_OK;
        sw_genome_destroy(g);
        sw_search_space_destroy(s);
    }
    sw_note("%d refused, %d still draw", refused, good);
    CU_ASSERT(refused > 500 && good > 10);
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
}

/* ---- insertions -------------------------------------------------------------------------- */

static bool insert_once(const sw_search_space *s, sw_genome *g, bool identity, swi_draws *d)
{
    const uint32_t behind = swi_draw_below(d, g->n - 1), before = g->n;
    const uint64_t hash = swi_genome_hash(g);
    const uint64_t parent = g->parents[0];
    const swi_vertex was = g->vertices[behind];
    uint32_t first = 0, n = 0;
    const sw_status status = swi_space_insert(s, g, behind, identity, d, &first, &n);
    if (status == SW_UNSUPPORTED) {
        CU_ASSERT_EQUAL_FATAL(swi_genome_hash(g), hash);
        return false;
    }
    if (!SW_CHECK(status == SW_OK, "%s", sw_last_error()) || !OK(swi_genome_check(g, NULL)))
        return false;
    CU_ASSERT_FATAL(first == behind + 1 && n > 0 && g->n == before + n);
    CU_ASSERT_EQUAL(g->parents[0], parent);
    const swi_vertex *last = &g->vertices[first + n - 1];
    CU_ASSERT_EQUAL(last->channels, was.channels);
    CU_ASSERT_EQUAL(last->height, was.height);
    CU_ASSERT_EQUAL(last->width, was.width);
    for (uint32_t i = first; i < first + n; i++) {
        const swi_vertex *v = &g->vertices[i];
        CU_ASSERT_EQUAL(v->parent, SWI_NO_PARENT);
        CU_ASSERT_PTR_NULL(v->rows);
        if (identity)
            CU_ASSERT(v->kind == SW_VERTEX_ACTIVATION ||
                      (v->identity && v->channels == was.channels && v->stride == 1));
    }
    for (uint32_t i = first + n; i < g->n; i++)
        for (uint32_t k = 0; k < g->vertices[i].n_in; k++)
            CU_ASSERT(g->vertices[i].in[k] != behind);
    return true;
}

/* Insertions leave a valid genome with the same shapes, or the genome as it was. */
SW_TEST("insertions fit")
{
    sw_search_space *s = genome_space(&image);
    swi_draws d = swi_draws_of(21, 2);
    int done[2] = {0, 0};
    for (int round = 0; round < 150; round++) {
        const bool identity = round % 2 == 1;
        sw_genome *g = genome_drawn(s, round % 3 == 0 ? &vector : &image, (uint64_t)round);
        OK(swi_genome_begin_lineage(g));
        for (int i = 0; i < 8; i++)
            done[identity] += insert_once(s, g, identity, &d);
    }
    sw_note("%d of 600 insertions were done, %d of 600 as the identity", done[0], done[1]);
    CU_ASSERT(done[0] > 500 && done[1] > 400);
}

/* As the identity an activation stands only where it was applied already. */
SW_TEST("an activation is inserted where it changes nothing")
{
    sw_search_space *s = space_of("{\"format\": \"stepwell search space 1\", \"body\": "
                                  "{\"chain\": []},\n\"insert\": [" RELU "]}");
    sw_genome *g = genome_of(genome_text);
    swi_draws d = swi_draws_of(1, 1);
    uint32_t first, n;
    REFUSED(swi_space_insert(s, g, swi_genome_find(g, "conv1"), true, &d, &first, &n),
            SW_UNSUPPORTED, "conv1");
    OK(swi_space_insert(s, g, swi_genome_find(g, "act1"), true, &d, &first, &n));
    CU_ASSERT_EQUAL(n, 1);
    CU_ASSERT_EQUAL(g->vertices[first].kind, SW_VERTEX_ACTIVATION);
    OK(swi_space_insert(s, g, swi_genome_find(g, "conv1"), false, &d, &first, &n));
    REFUSED(swi_space_insert(s, g, g->n - 1, false, &d, &first, &n), SW_UNSUPPORTED, "out");
}

static sw_status draw_and_insert(void *arg)
{
    sw_search_space *s;
    sw_genome *g;
    swi_draws d = swi_draws_of(5, 5);
    uint32_t first, n;
    SW_TRY(sw_search_space_default(&s, &image));
    sw_status status = sw_genome_draw(&g, s, &image, 4);
    if (status == SW_OK) {
        status = swi_space_insert(s, g, 2, false, &d, &first, &n);
        if (status != SW_OK && swi_genome_check(g, NULL) != SW_OK)
            status = SW_OK; /* which the sweep does not take */
        sw_genome_destroy(g);
    }
    sw_search_space_destroy(s);
    return status;
}

SW_TEST("draws survive failing allocations")
{
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, draw_and_insert, NULL) > 10);
}

/* The text is kept as it was read; what a space says of training is what is drawn. */
SW_TEST("training is drawn as it is said")
{
    static const char text[] =
        "{\"format\": \"stepwell search space 1\", \"body\": {\"chain\": []},"
        "\"optimizers\": [\"sgd\", \"lion\"], \"lr\": {\"from\": 0.001, "
        "\"to\": 0.1}, \"batch\": {\"from\": 3, \"to\": 5}}";
    sw_search_space *s = space_of(text);
    const swi_space_training *t = &s->training;
    CU_ASSERT_STRING_EQUAL(sw_search_space_text(s), text);
    CU_ASSERT_EQUAL(t->n_optimizers, 2);
    CU_ASSERT_EQUAL(t->n_batches, 0);
    CU_ASSERT_EQUAL(t->n_activations, 1);
    int sgd = 0, low = 0, batches[6] = {0};
    for (uint64_t seed = 0; seed < 300; seed++) {
        sw_genome *g = genome_drawn(s, &vector, seed);
        sgd += strcmp(g->optimizer, "sgd") == 0;
        CU_ASSERT(g->lr >= 0.00099f && g->lr < 0.101f);
        low += g->lr < 0.01f; /* half of a logarithmic range */
        CU_ASSERT_FATAL(g->batch >= 3 && g->batch <= 5);
        batches[g->batch]++;
    }
    CU_ASSERT(sgd > 110 && sgd < 190);
    CU_ASSERT(low > 110 && low < 190);
    CU_ASSERT(batches[3] > 60 && batches[4] > 60 && batches[5] > 60);
}

/* Block number k of JSON in the guide, with a zero after it. */
static char *guide_block(char *guide, int k)
{
    char *at = guide, *end;
    for (int i = 0; at != NULL && i <= k; i++) {
        at = strstr(at, "```json\n");
        at = at != NULL ? at + 8 : NULL;
    }
    end = at != NULL ? strstr(at, "```") : NULL;
    if (end == NULL)
        return NULL;
    *end = '\0';
    return at;
}

/* The texts that the guide shows are read, and its genome is printed as it stands there. */
SW_TEST("examples of the guide are read")
{
    char *guide[2];
    for (int k = 0; k < 2; k++) {
        guide[k] = sw_file_text(SW_SOURCE_ROOT "/tools/docs/genomes.md", NULL);
        if (guide[k] == NULL)
            SW_SKIP("the sources are not here");
        sw_after(free, guide[k]);
    }
    const char *genome = guide_block(guide[0], 0), *space = guide_block(guide[1], 1);
    CU_ASSERT_FATAL(genome != NULL && space != NULL);
    sw_genome *g = genome_of(genome);
    CU_ASSERT_STRING_EQUAL(genome_print(g), genome);
    sw_search_space *s = space_of(space);
    for (uint64_t seed = 0; seed < 50; seed++) {
        g = NULL;
        OK(sw_genome_draw(&g, s, &image, seed));
        sw_genome_destroy(g);
    }
}
