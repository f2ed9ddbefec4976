/* Graphs of genomes as DOT text: all that is there stands in it. */
#include "tests/support/suite.h"
#include "tools/evolve/evolve.h"
#include <stdarg.h>

SW_TESTS("graph")

#define OK(call) SW_CHECK((call) == SW_OK, "%s", sw_last_error())
#define BEGIN                                                                                  \
    "{\n\"format\": \"stepwell genome 1\",\n\"name\": \"%s\",\n\"input\": [%s],\n"             \
    "\"optimizer\": {\"kind\": \"adam\", \"lr\": 0.001},\n\"batch\": 8,\n"                     \
    "\"loss\": {\"kind\": \"cross_entropy\"},\n\"vertices\": [\n"

static char text[1 << 18];
static size_t used;

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    used += (size_t)vsnprintf(text + used, sizeof text - used, format, args);
    va_end(args);
    CU_ASSERT_FATAL(used < sizeof text);
}

static void end_genome(void *genome)
{
    sw_genome_destroy(genome);
}

static void end_picture(void *picture)
{
    svg_free(picture);
}

static sw_genome *genome_of_text(void)
{
    sw_genome *g = NULL;
    OK(sw_genome_parse(&g, text, used, "text"));
    CU_ASSERT_PTR_NOT_NULL_FATAL(g);
    sw_after(end_genome, g);
    return g;
}

/* Vectors of 4: each vertex reads one or two before it; the last one reads all that no
 * other does, two at a time. */
static sw_genome *random_graph(sw_dice *dice, int n)
{
    bool read[400] = {false};
    used = 0;
    add(BEGIN, "random", "4");
    add("{\"name\": \"n0\", \"kind\": \"linear\", \"in\": [\"input\"], \"size\": 4}");
    for (int i = 1; i < n; i++) {
        const int a = (int)sw_dice_below(dice, (uint64_t)i);
        const int b = (int)sw_dice_below(dice, (uint64_t)i);
        read[a] = read[b] = true;
        if (a == b)
            add(",\n{\"name\": \"n%d\", \"kind\": \"linear\", \"in\": [\"n%d\"], \"size\": 4}",
                i, a);
        else
            add(",\n{\"name\": \"n%d\", \"kind\": \"add\", \"in\": [\"n%d\", \"n%d\"]}", i, a,
                b);
    }
    char last[16] = "";
    for (int i = 0; i < n; i++)
        if (!read[i] && *last == '\0')
            snprintf(last, sizeof last, "n%d", i);
        else if (!read[i]) {
            add(",\n{\"name\": \"e%d\", \"kind\": \"add\", \"in\": [\"%s\", \"n%d\"]}", i, last,
                i);
            snprintf(last, sizeof last, "e%d", i);
        }
    add(",\n{\"name\": \"out\", \"kind\": \"linear\", \"in\": [\"%s\"], \"size\": 3}\n]\n}\n",
        last);
    return genome_of_text();
}

static int count(const char *in, const char *part)
{
    int n = 0;
    for (; (in = strstr(in, part)) != NULL; in += strlen(part))
        n++;
    return n;
}

/* The text of a graph, until the test ends. */
static const char *drawn(const sw_genome *g)
{
    static svg pictures[4];
    static int next;
    svg *to = &pictures[next++ % 4];
    svg_free(to);
    OK(evolve_graph_put(g, to));
    svg_put(to, "", 1);
    sw_after(end_picture, to);
    return to->bytes;
}

SW_TEST("every vertex and edge is there")
{
    sw_dice dice = {5};
    for (int i = 0; i < (sw_tests_full() ? 100 : 30); i++) {
        const sw_genome *g = random_graph(&dice, 1 + (int)sw_dice_below(&dice, 200));
        const char *picture = drawn(g);
        sw_genome_info info = SW_OPTS(sw_genome_info);
        int lost = 0;
        OK(sw_genome_describe(g, &info));
        for (uint32_t v = 0; v < info.n_vertices; v++) {
            sw_vertex is = SW_OPTS(sw_vertex);
            OK(sw_genome_vertex(g, v, &is));
            lost += count(picture, sw_textf("label=\"%s\\n", is.name)) != 1;
            for (int k = 0; k < is.n_inputs; k++) {
                lost += count(picture, sw_textf("  v%u -> v%u\n", is.inputs[k], v)) < 1;
            }
        }
        SW_CHECK(lost == 0, "%d vertices or edges are not there", lost);
        CU_ASSERT_EQUAL(count(picture, " -> "), (int)info.n_edges);
        CU_ASSERT_STRING_EQUAL(drawn(g), picture);
    }
}

SW_TEST("boxes say what layers are")
{
    used = 0;
    add(BEGIN, "image", "3, 16, 16");
    add("{\"name\": \"c1\", \"kind\": \"conv2d\", \"in\": [\"input\"], \"size\": 8, "
        "\"kernel\": "
        "5, \"stride\": 2},\n"
        "{\"name\": \"dw\", \"kind\": \"conv2d\", \"in\": [\"c1\"], \"kernel\": 3, "
        "\"groups\": \"depthwise\"},\n"
        "{\"name\": \"p\", \"kind\": \"max_pool\", \"in\": [\"dw\"], \"kernel\": 2},\n"
        "{\"name\": \"r\", \"kind\": \"activation\", \"in\": [\"p\"], \"activation\": "
        "\"relu\"},\n"
        "{\"name\": \"g\", \"kind\": \"global_avg_pool\", \"in\": [\"r\"]},\n"
        "{\"name\": \"out\", \"kind\": \"linear\", \"in\": [\"g\"], \"size\": 10}\n]\n}\n");
    const char *picture = drawn(genome_of_text());
    static const char *const parts[] = {
        "conv2d 5 x 5, stride 2",  "8 x 8 x 8, 608 parameters",
        "conv2d 3 x 3, depthwise", "max_pool 2 x 2",
        "activation relu",         "label=\"out\\nlinear\\n10, 90 parameters\"]"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        SW_CHECK(strstr(picture, parts[i]) != NULL, "no '%s'", parts[i]);
}
