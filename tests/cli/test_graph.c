/* Pictures of genomes: all that is there is drawn, and no box hides another. */
#include "tests/support/suite.h"
#include "tests/system/well_formed.h"
#include "tools/evolve/evolve_graph.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

typedef struct {
    long x, y, w, h;
} box;

static long number_behind(const char *at, const char *name)
{
    const char *found = strstr(at, name);
    CU_ASSERT_PTR_NOT_NULL_FATAL(found);
    return strtol(found + strlen(name), NULL, 10);
}

/* All boxes of a picture; at most `room`. */
static size_t boxes_of(const char *picture, box *out, size_t room)
{
    static const char begins[] = "<rect class=\"g-box ";
    size_t n = 0;
    for (const char *at = strstr(picture, begins); at != NULL && n < room;
         at = strstr(at + 1, begins))
        out[n++] = (box){number_behind(at, " x=\""), number_behind(at, " y=\""),
                         number_behind(at, " width=\""), number_behind(at, " height=\"")};
    return n;
}

static bool apart(const box *a, const box *b)
{
    return a->x + a->w <= b->x || b->x + b->w <= a->x || a->y + a->h <= b->y ||
           b->y + b->h <= a->y;
}

static int count(const char *in, const char *part)
{
    int n = 0;
    for (; (in = strstr(in, part)) != NULL; in += strlen(part))
        n++;
    return n;
}

/* The picture as text, until the test ends. */
static const char *drawn(const sw_genome *g)
{
    static svg pictures[4];
    static int next;
    svg *to = &pictures[next++ % 4];
    svg_free(to);
    OK(evolve_graph_draw(g, to, true));
    svg_put(to, "", 1);
    sw_after(end_picture, to);
    return to->bytes;
}

static void check_all_is_there(const sw_genome *g, const char *picture)
{
    sw_genome_info info = SW_OPTS(sw_genome_info);
    char part[200];
    int lost = 0;
    OK(sw_genome_describe(g, &info));
    for (uint32_t i = 0; i < info.n_vertices; i++) {
        sw_vertex v = SW_OPTS(sw_vertex), from = SW_OPTS(sw_vertex);
        OK(sw_genome_vertex(g, i, &v));
        snprintf(part, sizeof part, "<g class=\"vertex\"><title>%s: ", v.name);
        lost += count(picture, part) != 1;
        for (int k = 0; k < v.n_inputs; k++) {
            OK(sw_genome_vertex(g, v.inputs[k], &from));
            snprintf(part, sizeof part, "<title>%s to %s</title>", from.name, v.name);
            lost += count(picture, part) < 1;
        }
    }
    SW_CHECK(lost == 0, "%d vertices or edges are not there", lost);
    CU_ASSERT_EQUAL(count(picture, "<path class=\"g-edge\""), (int)info.n_edges);
    const char *wrong = malformed(picture, SVG_BEGINS);
    SW_CHECK(wrong == NULL, "%.80s", wrong);
}

static void check_boxes(const sw_genome *g, const char *picture)
{
    static box boxes[500];
    sw_genome_info info = SW_OPTS(sw_genome_info);
    OK(sw_genome_describe(g, &info));
    const size_t n = boxes_of(picture, boxes, 500);
    const long width = number_behind(picture, "\" width=\""),
               height = number_behind(picture, "\" height=\"");
    int touch = 0, outside = 0;
    CU_ASSERT_EQUAL(n, info.n_vertices);
    for (size_t i = 0; i < n; i++) {
        outside += boxes[i].x < 0 || boxes[i].y < 0 || boxes[i].x + boxes[i].w > width ||
                   boxes[i].y + boxes[i].h > height;
        for (size_t k = 0; k < i; k++)
            touch += !apart(&boxes[i], &boxes[k]);
    }
    SW_CHECK(touch == 0 && outside == 0, "%d boxes touch, %d are outside", touch, outside);
}

static void every_graph_is_drawn_whole(void)
{
    sw_dice dice = {5};
    for (int i = 0; i < (sw_tests_full() ? 100 : 30); i++) {
        const sw_genome *g = random_graph(&dice, 1 + (int)sw_dice_below(&dice, 60));
        const char *picture = drawn(g);
        check_all_is_there(g, picture);
        check_boxes(g, picture);
    }
}

static void large_graphs_are_drawn_whole(void)
{
    sw_dice dice = {7};
    const sw_genome *g = random_graph(&dice, 200);
    const char *picture = drawn(g);
    check_all_is_there(g, picture);
    check_boxes(g, picture);
}

/* The line of a skip passes beside what it skips. */
static void a_long_edge_goes_around(void)
{
    used = 0;
    add(BEGIN, "skip", "4");
    add("{\"name\": \"a\", \"kind\": \"linear\", \"in\": [\"input\"], \"size\": 4}");
    for (int i = 0; i < 5; i++)
        add(",\n{\"name\": \"%c\", \"kind\": \"linear\", \"in\": [\"%c\"], \"size\": 4}",
            'b' + i, 'a' + i);
    add(",\n{\"name\": \"sum\", \"kind\": \"add\", \"in\": [\"a\", \"f\"]}");
    add(",\n{\"name\": \"out\", \"kind\": \"linear\", \"in\": [\"sum\"], \"size\": 3}\n]\n}\n");
    const char *picture = drawn(genome_of_text());
    box boxes[16];
    const size_t n = boxes_of(picture, boxes, 16);
    const char *title = strstr(picture, "<title>a to sum</title>");
    CU_ASSERT_FATAL(title != NULL && n == 9);
    const char *line = title;
    while (strncmp(line, " d=\"", 4) != 0)
        line--;
    int passes = 0;
    for (const char *at = strchr(line, 'V'); at != NULL && at < title;
         at = strchr(at + 1, 'V'), passes++) {
        const char *x = at; /* "... X Y" before it */
        for (int blanks = 0; blanks < 2;)
            blanks += *--x == ' ';
        const long where = strtol(x, NULL, 10);
        const box *beside = &boxes[2 + passes]; /* b to f, in their layers */
        SW_CHECK(where < beside->x || where > beside->x + beside->w,
                 "the line at %ld is in box %d", where, 2 + passes);
    }
    CU_ASSERT_EQUAL(passes, 5);
}

static void the_same_genome_has_the_same_picture(void)
{
    sw_dice dice = {9};
    const sw_genome *g = random_graph(&dice, 40);
    CU_ASSERT_STRING_EQUAL(drawn(g), drawn(g));
}

static void boxes_say_what_layers_are(void)
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
        "conv2d 5 x 5, stride 2", "8 x 8 x 8, 608 parameters", "conv2d 3 x 3, depthwise",
        "max_pool 2 x 2",         "activation relu",           "<title>out: linear, 10, 90 "};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        SW_CHECK(strstr(picture, parts[i]) != NULL, "no '%s'", parts[i]);
}

static const sw_test tests[] = {
    {"every graph is drawn whole", every_graph_is_drawn_whole},
    {"large graphs are drawn whole", large_graphs_are_drawn_whole},
    {"a long edge goes around", a_long_edge_goes_around},
    {"the same genome has the same picture", the_same_genome_has_the_same_picture},
    {"boxes say what layers are", boxes_say_what_layers_are},
};
SW_SUITE("graph", tests)
