/* See genome_texts.h. */
#include "tests/evolve/genome_texts.h"

const char genome_text[] =
    "{\n"
    " \"format\": \"stepwell genome 1\",\n"
    " \"name\": \"g3-17\",\n"
    " \"input\": [1, 28, 28],\n"
    " \"optimizer\": {\"kind\": \"adam\", \"lr\": 0.001, \"update\": \"release\"},\n"
    " \"batch\": 64,\n"
    " \"loss\": {\"kind\": \"cross_entropy\", \"smoothing\": 0.1},\n"
    " \"vertices\": [\n"
    "  {\"name\": \"conv1\", \"kind\": \"conv2d\", \"in\": [\"input\"], \"size\": 16, "
    "\"kernel\": 3},\n"
    "  {\"name\": \"norm1\", \"kind\": \"batch_norm\", \"in\": [\"conv1\"]},\n"
    "  {\"name\": \"act1\", \"kind\": \"activation\", \"in\": [\"norm1\"], "
    "\"activation\": \"relu\"},\n"
    "  {\"name\": \"pool1\", \"kind\": \"max_pool\", \"in\": [\"act1\"], \"kernel\": 2, "
    "\"stride\": 2},\n"
    "  {\"name\": \"a\", \"kind\": \"conv2d\", \"in\": [\"pool1\"], \"size\": 16, "
    "\"kernel\": 3, \"dilation\": 2, \"groups\": 4, \"identity\": true},\n"
    "  {\"name\": \"sum\", \"kind\": \"add\", \"in\": [\"pool1\", \"a\"]},\n"
    "  {\"name\": \"b\", \"kind\": \"conv2d\", \"in\": [\"sum\"], \"kernel\": 5, \"stride\": "
    "2, \"groups\": \"depthwise\", \"update\": \"after\"},\n"
    "  {\"name\": \"c\", \"kind\": \"avg_pool\", \"in\": [\"sum\"], \"kernel\": 3, "
    "\"stride\": 2},\n"
    "  {\"name\": \"join\", \"kind\": \"concat\", \"in\": [\"b\", \"c\"]},\n"
    "  {\"name\": \"gap\", \"kind\": \"global_avg_pool\", \"in\": [\"join\"]},\n"
    "  {\"name\": \"gmp\", \"kind\": \"global_max_pool\", \"in\": [\"join\"]},\n"
    "  {\"name\": \"flat\", \"kind\": \"flatten\", \"in\": [\"join\"]},\n"
    "  {\"name\": \"all\", \"kind\": \"concat\", \"in\": [\"gap\", \"gmp\", \"flat\"]},\n"
    "  {\"name\": \"drop\", \"kind\": \"dropout\", \"in\": [\"all\"], \"rate\": 0.25, "
    "\"shield\": [\"remove\", \"inputs\"]},\n"
    "  {\"name\": \"out\", \"kind\": \"linear\", \"in\": [\"drop\"], \"size\": 10, "
    "\"shield\": [\"all\"]}\n"
    " ]\n"
    "}\n";

sw_genome *genome_of(const char *text)
{
    sw_genome *g = NULL;
    if (OK(sw_genome_parse(&g, text, strlen(text), "a text")))
        AFTER(sw_genome_destroy, g);
    return g;
}

sw_search_space *genome_space(const sw_task *task)
{
    sw_search_space *space = NULL;
    if (OK(sw_search_space_default(&space, task)))
        AFTER(sw_search_space_destroy, space);
    return space;
}

static void put(sw_genome *g, swi_vertex v, uint32_t a, uint32_t b)
{
    const sw_vertex_kind kind = v.kind;
    v.in[0] = a;
    v.in[1] = b;
    v.n_in = kind == SW_VERTEX_ADD ? 2 : 1;
    swi_genome_fresh_name(g, v.name);
    OK(swi_genome_insert(g, g->n, &v));
}

sw_genome *genome_chain(uint32_t n)
{
    const sw_task task = {sizeof task, 3, 16, 16, 10};
    sw_genome *g = NULL;
    if (!OK(swi_genome_new(&g, &task)))
        return NULL;
    AFTER(sw_genome_destroy, g);
    uint32_t before = 0; /* the last add, or the first convolution */
    while (g->n + 2 < n) {
        static const sw_vertex_kind kinds[] = {SW_VERTEX_CONV2D, SW_VERTEX_BATCH_NORM,
                                               SW_VERTEX_ACTIVATION, SW_VERTEX_ADD};
        swi_vertex v = swi_vertex_of(kinds[(g->n - 1) % 4]);
        v.kernel = 3;
        v.size = v.kind == SW_VERTEX_CONV2D ? 8 : 0;
        put(g, v, g->n - 1, before);
        before = v.kind == SW_VERTEX_ADD || g->n == 2 ? g->n - 1 : before;
    }
    put(g, swi_vertex_of(SW_VERTEX_GLOBAL_AVG_POOL), g->n - 1, 0);
    swi_vertex last = swi_vertex_of(SW_VERTEX_LINEAR);
    last.size = 10;
    put(g, last, g->n - 1, 0);
    OK(swi_genome_check(g, NULL));
    return g;
}

const char *genome_print(const sw_genome *genome)
{
    char *text = NULL;
    size_t bytes = 0;
    if (!OK(sw_genome_print(genome, &text, &bytes)))
        return "";
    char *own = sw_block(bytes + 1);
    memcpy(own, text, bytes + 1);
    sw_text_free(text, bytes);
    return own;
}
