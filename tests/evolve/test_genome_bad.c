/* Texts that are not genomes: refused by line; and any damage to a text. */
#include "tests/evolve/genome_texts.h"
#include "tests/support/heap_sweep.h"

SW_TESTS("bad genome")

/* genome_text with the first `from` after `after` replaced. */
static const char *changed(const char *behind, const char *from, const char *to)
{
    static char text[4096];
    const char *begin = strstr(genome_text, behind);
    const char *at = begin != NULL ? strstr(begin, from) : NULL;
    if (!SW_CHECK(at != NULL, "'%s' after '%s'", from, behind))
        return "";
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - genome_text), genome_text, to,
             at + strlen(from));
    return text;
}

static void refused(const char *behind, const char *from, const char *to, const char *why)
{
    sw_genome *g = NULL;
    const char *text = changed(behind, from, to);
    REFUSED(sw_genome_parse(&g, text, strlen(text), "a text"), SW_FORMAT, why);
    SW_CHECK(strncmp(sw_last_error(), "a text: line ", 13) == 0, "%s", sw_last_error());
    CU_ASSERT_PTR_NULL(g);
}

/* Each line that is damaged, unknown, missing or cannot be is named, with the reason. */
SW_TEST("damaged texts are refused by line")
{
    static const char *const bad[][4] = {
        /* after, what, becomes, message */
        {"{", "genome 1", "genome 2", "line 2: column"},
        {"{", " \"format\"", " \"batch\": 3, \"format\"", "the first must be \"format\""},
        {"{", "\"name\"", "\"title\"", "line 3: column 10: a genome has no \"title\""},
        {"{", "g3-17", "g3 17", "line 3: the name of a genome"},
        {"{", "[1, 28, 28]", "[1, 28]", "line 4: "},
        {"{", "[1, 28, 28]", "[1, 28, 28, 1]", "line 4: "},
        {"{", "[1, 28, 28]", "[0, 28, 28]", "line 4: "},
        {"{", "[1, 28, 28]", "[1, 28, 2000000]", "line 4: "},
        {"{", "\"input\": [1, 28, 28],", "", "must have \"input\""},
        {"{", "[1, 28, 28]", "[64]", "line 9: vertex 'conv1': conv2d reads an image"},
        {"{", "\"adam\"", "\"adamx\"", "line 5: 'adamx' is no optimizer"},
        {"{", "0.001", "0", "line 5: optimizer adam: lr must be above 0"},
        {"{", "0.001", "1e39", "line 5: optimizer adam: lr must be finite"},
        {"{", "0.001", "\"x\"", "line 5: column 38: \"lr\" must be a number"},
        {"{", "\"lr\": 0.001", "\"lr\": 0.001, \"momentum\": 0.9", "no momentum"},
        {"{", "\"kind\": \"adam\", ", "", "an optimizer must have \"kind\""},
        {"{", "\"update\": \"release\"", "\"update\": \"later\"", "one of release, after"},
        {"{", "\"lr\": 0.001", "\"lr\": 0.001, \"clip_norm\": 1",
         "line 9: vertex 'conv1': its update is released"},
        {"{", "\"batch\": 64", "\"batch\": 0", "line 6: "},
        {"{", "\"batch\": 64", "\"batch\": 65537", "line 6: "},
        {"{", "\"batch\": 64", "\"batch\": 6.5", "line 6: "},
        {"{", "\"batch\": 64", "\"batch\": 64, \"batch\": 64", "\"batch\" is there twice"},
        {"{", "0.1}", "1}", "line 7: smoothing"},
        {"{", "cross_entropy", "own", "line 7: smoothing is cross_entropy's"},
        {"vertices", "\"name\": \"conv1\", ", "",
         "line 9: column 63: a vertex must have \"name\""},
        {"vertices", "\"conv1\"", "\"conv 1\"", "line 9: column 20: a name must be of letters"},
        {"vertices", "\"conv1\"", "\"input\"", "vertex 'input': line 4 has this name too"},
        {"vertices", "\"conv1\"", "\"a-name-that-is-longer-than-31-bytes\"", "1 to 31 bytes"},
        {"vertices", "\"conv1\"", "7", "\"name\" must be a string"},
        {"vertices", "\"conv2d\"", "\"conv3d\"", "line 9: column 37: 'conv3d' is no kind"},
        {"vertices", "\"conv2d\"", "\"input\"", "the input is no line of its own"},
        {"vertices", "[\"input\"]", "[\"conv1\"]", "line 9: "},
        {"vertices", "[\"input\"]", "[\"norm1\"]", "no line before this one has the"},
        {"vertices", "[\"input\"]", "[]", "line 9: vertex 'conv1': conv2d reads 1"},
        {"vertices", "[\"input\"]", "[\"input\", \"input\"]",
         "conv2d reads 1 vertices (got 2)"},
        {"vertices", "[\"input\"]", "\"input\"", "line 9: "},
        {"vertices", "\"size\": 16, ", "", "a conv2d must have \"size\""},
        {"vertices", "\"size\": 16", "\"size\": 0", "\"size\" must be a whole number of 1 to"},
        {"vertices", "\"size\": 16", "\"size\": 1048577", "(got 1048577)"},
        {"vertices", "\"size\": 16", "\"size\": 16, \"size\": 16", "\"size\" is there twice"},
        {"vertices", "\"size\": 16", "\"width\": 16", "a vertex has no \"width\""},
        {"vertices", "\"size\": 16", "\"size\": 14", "line 13: vertex 'a': groups"},
        {"vertices", "\"size\": 16", "\"size\": 20", "line 14: vertex 'sum': what is added"},
        {"vertices", "\"kernel\": 3", "\"kernel\": 4",
         "line 9: vertex 'conv1': the kernel of a"},
        {"vertices", "\"kernel\": 3", "\"kernel\": 257", "1 to 255"},
        {"vertices", "\"kernel\": 3}", "\"kernel\": 3, \"rate\": 0.5}",
         "vertex 'conv1': a conv2d has no \"rate\""},
        {"\"norm1\"", "[\"conv1\"]", "[\"conv1\"], \"kernel\": 3", "line 10: "},
        {"\"act1\"", "\"relu\"", "\"rely\"", "line 11: column 79: 'rely' is no activation"},
        {"\"pool1\"", "\"kernel\": 2", "\"kernel\": 16", "at most 15 (got 16)"},
        {"\"c\"", "\"kernel\": 3", "\"kernel\": 30", "line 16: vertex 'c': a window of 30"},
        {"\"a\"", "\"groups\": 4", "\"groups\": 5", "line 13: vertex 'a': groups must divide"},
        {"\"a\"", "\"groups\": 4", "\"groups\": \"deep\"", "one of depthwise"},
        {"\"a\"", "\"groups\": 4", "\"groups\": \"depthwise\"",
         "depthwise conv2d has no \"size\""},
        {"\"a\"", "\"identity\": true", "\"identity\": 1",
         "\"identity\" must be true or false"},
        {"\"b\"", "\"stride\": 2", "\"stride\": 3", "line 17: vertex 'join': what is joined"},
        {"\"gap\"", "\"in\": [\"join\"]", "\"in\": [\"all\"]", "has the vertex 'all'"},
        {"\"flat\"", "\"flatten\"", "\"batch_norm\"", "line 21: vertex 'all': what is joined"},
        {"\"flat\"", "[\"join\"]", "[\"gap\"]",
         "line 20: vertex 'flat': flatten reads an image"},
        {"\"all\"", "[\"gap\", \"gmp\", \"flat\"]", "[\"gap\", \"gmp\"]",
         "line 20: vertex 'flat': no vertex reads it"},
        {"\"all\"", "[\"gap\", \"gmp\", \"flat\"]", "[\"gap\"]", "concat reads 2 to 16"},
        {"\"drop\"", "0.25", "1", "line 22: vertex 'drop': rate must be"},
        {"\"drop\"", "\"remove\"", "\"removal\"", "\"shield\" must be one of all, size"},
        {"\"drop\"", "\"remove\"", "\"all\"", "'inputs' is there already"},
        {"\"out\"", "[\"drop\"]", "[\"gap\"]", "line 22: vertex 'drop': no vertex reads it"},
        {"\"out\"", "\"linear\"", "\"activation\"", "line 23: "},
        {"vertices", "\"out\"", "\"stepwell\"", "line 23: vertex 15: the name 'stepwell' is"},
        {"\"out\"", "]\n}", "]\n} {", "line 25: column 3: the text must end here"},
        {"\"out\"", "]\n}", "]\n", "'}' was expected"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(bad[i][0], bad[i][1], bad[i][2], bad[i][3]);
}

SW_TEST("the last vertex is a vector")
{
    static const char text[] =
        "{\"format\": \"stepwell genome 1\", \"input\": [1, 8, 8],\n\"optimizer\": {\"kind\": "
        "\"sgd\", \"lr\": 0.1, \"momentum\": 0.9}, \"batch\": 1,\n\"loss\": {\"kind\": "
        "\"own\"}, \"vertices\": [\n{\"name\": \"a\", \"kind\": \"%s\", \"in\": [\"input\"]}]}";
    char own[500];
    sw_genome *g = NULL;
    snprintf(own, sizeof own, text, "batch_norm");
    REFUSED(sw_genome_parse(&g, own, strlen(own), "a text"), SW_FORMAT,
            "line 4: vertex 'a': the last vertex gives the logits");
    snprintf(own, sizeof own, text, "global_max_pool");
    REFUSED(sw_genome_parse(&g, own, strlen(own), "a text"), SW_FORMAT,
            "line 4: vertex 'a': a genome must have a vertex with parameters");
    char *tail = strstr(own, "}]}");
    snprintf(tail, 100,
             "},\n{\"name\": \"b\", \"kind\": \"linear\", \"in\": [\"a\"], \"size\": 3}]}");
    g = genome_of(own);
    CU_ASSERT_FATAL(g != NULL);
    CU_ASSERT_STRING_EQUAL(g->loss, "own");
    CU_ASSERT_EQUAL(g->momentum, 0.9f);
    const char *end = strstr(own, "\n{\"name\"");
    snprintf(own + (end - own), 100, "]}");
    g = NULL;
    REFUSED(sw_genome_parse(&g, own, strlen(own), "a text"), SW_FORMAT, "not the input");
}

/* Updates after backward make a bound of all gradients' norm possible; a vertex of its own
 * update is then named. */
SW_TEST("clip_norm needs updates after backward")
{
    static char text[4096];
    snprintf(text, sizeof text, "%s",
             changed("{", "0.001, \"update\": \"release\"",
                     "0.001, \"clip_norm\": 1.5, \"update\": \"after\""));
    CU_ASSERT_PTR_NOT_NULL(genome_of(text));
    char *at = strstr(text, "\"groups\": 4");
    CU_ASSERT_FATAL(at != NULL);
    memmove(at + 21, at, strlen(at) + 1);
    memcpy(at, "\"update\": \"release\", ", 21);
    sw_genome *g = NULL;
    REFUSED(sw_genome_parse(&g, text, strlen(text), "a text"), SW_FORMAT,
            "line 13: vertex 'a': its update is released");
}

/* As many as the kernel of the pool takes. */
SW_TEST("a global max pool takes 255 places")
{
    static const char text[] =
        "{\"format\": \"stepwell genome 1\", \"input\": [2, 15, %d], \"optimizer\": {\"kind\": "
        "\"sgd\", \"lr\": 0.1}, \"batch\": 2, \"loss\": {\"kind\": \"own\"}, \"vertices\": "
        "[\n{\"name\": \"a\", \"kind\": \"global_max_pool\", \"in\": [\"input\"]},\n{\"name\": "
        "\"b\", \"kind\": \"linear\", \"in\": [\"a\"], \"size\": 3}]}";
    char own[500];
    sw_genome *g = NULL;
    snprintf(own, sizeof own, text, 17);
    CU_ASSERT_PTR_NOT_NULL(genome_of(own));
    snprintf(own, sizeof own, text, 18);
    REFUSED(sw_genome_parse(&g, own, strlen(own), "a text"), SW_FORMAT,
            "line 2: vertex 'a': a global_max_pool takes at most 255 places (got 15 x 18)");
}

SW_TEST("batch norm needs two numbers")
{
    static const char text[] =
        "{\"format\": \"stepwell genome 1\", \"input\": [3, 1, %d], \"optimizer\": {\"kind\": "
        "\"sgd\", \"lr\": 0.1}, \"batch\": %d, \"loss\": {\"kind\": \"own\"}, \"vertices\": "
        "[\n{\"name\": \"a\", \"kind\": \"batch_norm\", \"in\": [\"input\"]},\n{\"name\": "
        "\"b\", \"kind\": \"flatten\", \"in\": [\"a\"]}]}";
    for (int width = 1; width <= 2; width++)
        for (int rows = 1; rows <= 2; rows++) {
            char own[500];
            sw_genome *g = NULL;
            snprintf(own, sizeof own, text, width, rows);
            if (width * rows > 1) {
                CU_ASSERT_PTR_NOT_NULL(genome_of(own));
                continue;
            }
            REFUSED(sw_genome_parse(&g, own, strlen(own), "a text"), SW_FORMAT,
                    "line 2: vertex 'a': batch_norm needs two");
        }
}

/* Sizes with products that pass 64 bits, or a memory, are refused and not computed. */
SW_TEST("large products are refused")
{
    static const char head[] = "{\"format\": \"stepwell genome 1\", \"optimizer\": {\"kind\": "
                               "\"sgd\", \"lr\": 0.1}, \"batch\": 1, \"loss\": {\"kind\": "
                               "\"own\"},\n\"input\": ";
    static const char *const bodies[][2] = {
        {"[1048576, 1048576, 1048576], \"vertices\": []}", "at most 2147483648 elements"},
        {"[1048576], \"vertices\": [{\"name\": \"a\", \"kind\": \"linear\", \"in\": "
         "[\"input\"], \"size\": 1048576}]}",
         "at most 2147483648 parameters"},
        {"[1024, 1024, 1024], \"vertices\": [{\"name\": \"a\", \"kind\": \"flatten\", \"in\": "
         "[\"input\"]}]}",
         "at most 1048576 channels"},
        {"[1048576], \"vertices\": [{\"name\": \"a\", \"kind\": \"concat\", \"in\": "
         "[\"input\", \"input\"]}]}",
         "at most 1048576 channels"}};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char text[600];
        sw_genome *g = NULL;
        snprintf(text, sizeof text, "%s%s", head, bodies[i][0]);
        REFUSED(sw_genome_parse(&g, text, strlen(text), "a text"), SW_FORMAT, bodies[i][1]);
    }
}

SW_TEST("too many vertices are refused")
{
    static char text[400000];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "{\"format\": \"stepwell genome 1\", \"input\": [3], "
                                "\"vertices\": [");
    for (int i = 0; i < SWI_MAX_VERTICES; i++)
        n += (size_t)snprintf(
            text + n, sizeof text - n,
            "\n{\"name\": \"a%d\", \"kind\": \"add\", \"in\": [\"input\", \"input\"]},", i);
    sw_genome *g = NULL;
    REFUSED(sw_genome_parse(&g, text, n, "a text"), SW_FORMAT,
            "line 4097: column 1: a genome has at most 4096 vertices");
}

static void parse_any(const char *text, size_t n, int *good)
{
    sw_genome *g = NULL;
    const sw_status status = sw_genome_parse(&g, text, n, "a text");
    SW_CHECK(status == SW_OK || status == SW_FORMAT, "%s", sw_last_error());
    CU_ASSERT_EQUAL(g != NULL, status == SW_OK);
    *good += status == SW_OK;
    if (status == SW_OK)
        CU_ASSERT_EQUAL(swi_genome_check(g, NULL), SW_OK);
    sw_genome_destroy(g);
}

/* Every truncation, and damage of all kinds, is read or refused; nothing is left. */
SW_TEST("damage never crashes")
{
    const size_t bytes = strlen(genome_text);
    const uint64_t blocks = sw_heap_blocks();
    swi_draws d = swi_draws_of(17, 3);
    char text[4096];
    int good = 0, cut = 0;
    for (size_t n = 0; n <= bytes; n++)
        parse_any(genome_text, n, &cut);
    CU_ASSERT_EQUAL(cut, 2); /* with and without the last new line */
    for (int i = 0; i < (sw_tests_full() ? 100000 : 10000); i++) {
        memcpy(text, genome_text, bytes);
        for (uint32_t k = 0; k < 1 + swi_draw_below(&d, 3); k++) {
            char *at = &text[swi_draw_below(&d, (uint32_t)bytes)];
            const bool digit = *at >= '0' && *at <= '9' && swi_draw_happens(&d, 0.8);
            *at = digit ? (char)('0' + swi_draw_below(&d, 10)) : (char)swi_draw_bits(&d);
        }
        parse_any(text, bytes, &good);
    }
    sw_note("%d of the damaged texts are genomes", good);
    CU_ASSERT(good > 20);
    CU_ASSERT_EQUAL(sw_heap_blocks(), blocks);
}

/* Callers' arguments that are not genomes are refused. */
SW_TEST("misuse is refused")
{
    sw_genome *g = genome_of(genome_text);
    REFUSED(sw_genome_vertex(g, 16, &SW_OPTS(sw_vertex)), SW_INVALID, "16 vertices (got 16)");
    sw_genome *gone = NULL;
    OK(sw_genome_copy(&gone, g));
    sw_genome_destroy(gone);
    sw_genome_destroy(NULL);
    sw_text_free(NULL, 0);
    CU_ASSERT_PTR_NULL(sw_vertex_kind_name((sw_vertex_kind)SW_VERTEX_KINDS));
    CU_ASSERT_STRING_EQUAL(sw_vertex_kind_name(SW_VERTEX_CONV2D), "conv2d");
}

/* Pools that a genome may have are pools that the op takes: the same bounds, one by one. */
SW_TEST("pools are those of the op")
{
    for (int kind = SW_VERTEX_MAX_POOL; kind <= SW_VERTEX_AVG_POOL; kind++)
        for (int kernel = 1; kernel <= 20; kernel++)
            for (int stride = 1; stride <= 3; stride++)
                for (int64_t size = 1; size <= 20; size++) {
                    const sw_task task = {sizeof task, 2, size, 20, 2};
                    sw_genome *g = NULL;
                    OK(swi_genome_new(&g, &task));
                    CU_ASSERT_FATAL(g != NULL);
                    swi_vertex v = swi_vertex_of((sw_vertex_kind)kind);
                    v.kernel = kernel;
                    v.stride = stride;
                    v.n_in = 1;
                    snprintf(v.name, sizeof v.name, "pool");
                    OK(swi_genome_insert(g, 1, &v));
                    const int pad = swi_vertex_pad(&v);
                    const bool takes = 2 * pad <= kernel && size + 2 * pad >= kernel &&
                                       20 + 2 * pad >= kernel &&
                                       (kind == SW_VERTEX_AVG_POOL || kernel * kernel <= 255);
                    CU_ASSERT_EQUAL_FATAL(swi_genome_infer(g, NULL) == SW_OK, takes);
                    if (takes) {
                        CU_ASSERT_EQUAL(g->vertices[1].height,
                                        (size + 2 * pad - kernel) / stride + 1);
                        CU_ASSERT_EQUAL(g->vertices[1].width,
                                        (20 + 2 * pad - kernel) / stride + 1);
                    }
                    sw_genome_destroy(g);
                }
}
