/* Genomes of known sizes, as text, and batches for them. */
#include "tools/bench/evolve.h"
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define TEXT_BYTES (1 << 15)

typedef struct {
    char text[TEXT_BYTES];
    size_t used;
} writing;

static void add(writing *w, const char *format, ...) SW_PRINTF(2, 3);
static void add(writing *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(w->text + w->used, TEXT_BYTES - w->used, format, args);
    va_end(args);
    w->used += n > 0 && (size_t)n < TEXT_BYTES - w->used ? (size_t)n : 0;
}

static void begin(writing *w, const char *name, const char *shape, int batch)
{
    add(w,
        "{\n\"format\": \"stepwell genome 1\",\n\"name\": \"%s\",\n\"input\": [%s],\n"
        "\"optimizer\": {\"kind\": \"adam\", \"lr\": 0.001},\n\"batch\": %d,\n"
        "\"loss\": {\"kind\": \"cross_entropy\"},\n\"vertices\": [\n",
        name, shape, batch);
}

static void write_lenet5(writing *w)
{
    static const char *const vertices[] = {
        "\"c1\", \"kind\": \"conv2d\", \"in\": [\"input\"], \"size\": 6, \"kernel\": 5",
        "\"r1\", \"kind\": \"activation\", \"in\": [\"c1\"], \"activation\": \"relu\"",
        "\"p1\", \"kind\": \"max_pool\", \"in\": [\"r1\"], \"kernel\": 2, \"stride\": 2",
        "\"c2\", \"kind\": \"conv2d\", \"in\": [\"p1\"], \"size\": 16, \"kernel\": 5",
        "\"r2\", \"kind\": \"activation\", \"in\": [\"c2\"], \"activation\": \"relu\"",
        "\"p2\", \"kind\": \"max_pool\", \"in\": [\"r2\"], \"kernel\": 2, \"stride\": 2",
        "\"flat\", \"kind\": \"flatten\", \"in\": [\"p2\"]",
        "\"f1\", \"kind\": \"linear\", \"in\": [\"flat\"], \"size\": 64",
        "\"r3\", \"kind\": \"activation\", \"in\": [\"f1\"], \"activation\": \"relu\"",
        "\"f2\", \"kind\": \"linear\", \"in\": [\"r3\"], \"size\": 48",
        "\"r4\", \"kind\": \"activation\", \"in\": [\"f2\"], \"activation\": \"relu\"",
        "\"out\", \"kind\": \"linear\", \"in\": [\"r4\"], \"size\": 10"};
    begin(w, "lenet5", "1, 28, 28", 64);
    for (size_t i = 0; i < sizeof vertices / sizeof *vertices; i++)
        add(w, "%s{\"name\": %s}", i > 0 ? ",\n" : "", vertices[i]);
    add(w, "\n]\n}\n");
}

/* Input, stem, 19 blocks of five, pool, logits: 100 in all with the two last ones of the stem.
 */
static void write_deep(writing *w)
{
    char from[16] = "stem";
    begin(w, "deep", "3, 16, 16", 16);
    add(w, "{\"name\": \"stem\", \"kind\": \"conv2d\", \"in\": [\"input\"], \"size\": 8, "
           "\"kernel\": 3}");
    for (int i = 0; i < 19; i++) {
        add(w,
            ",\n{\"name\": \"a%d\", \"kind\": \"conv2d\", \"in\": [\"%s\"], \"size\": 8, "
            "\"kernel\": 3}",
            i, from);
        add(w, ",\n{\"name\": \"n%d\", \"kind\": \"batch_norm\", \"in\": [\"a%d\"]}", i, i);
        add(w,
            ",\n{\"name\": \"r%d\", \"kind\": \"activation\", \"in\": [\"n%d\"], "
            "\"activation\": \"relu\"}",
            i, i);
        add(w,
            ",\n{\"name\": \"b%d\", \"kind\": \"conv2d\", \"in\": [\"r%d\"], \"size\": 8, "
            "\"kernel\": 3}",
            i, i);
        add(w, ",\n{\"name\": \"s%d\", \"kind\": \"add\", \"in\": [\"%s\", \"b%d\"]}", i, from,
            i);
        snprintf(from, sizeof from, "s%d", i);
    }
    add(w, ",\n{\"name\": \"norm\", \"kind\": \"batch_norm\", \"in\": [\"%s\"]}", from);
    add(w,
        ",\n{\"name\": \"pool\", \"kind\": \"global_avg_pool\", \"in\": [\"norm\"]},\n"
        "{\"name\": \"out\", \"kind\": \"linear\", \"in\": [\"pool\"], \"size\": 10}\n]\n}\n");
}

static void write_wide(writing *w)
{
    begin(w, "wide", "1024", 64);
    add(w, "{\"name\": \"f1\", \"kind\": \"linear\", \"in\": [\"input\"], \"size\": 1024},\n"
           "{\"name\": \"r1\", \"kind\": \"activation\", \"in\": [\"f1\"], \"activation\": "
           "\"relu\"},\n"
           "{\"name\": \"f2\", \"kind\": \"linear\", \"in\": [\"r1\"], \"size\": 2048},\n"
           "{\"name\": \"r2\", \"kind\": \"activation\", \"in\": [\"f2\"], \"activation\": "
           "\"relu\"},\n"
           "{\"name\": \"out\", \"kind\": \"linear\", \"in\": [\"r2\"], \"size\": 10}\n]\n}\n");
}

const char *evolve_subject_name(evolve_subject which)
{
    static const char *const names[] = {"lenet5", "deep", "wide"};
    return names[which];
}

sw_status evolve_subject_make(sw_genome **out, evolve_subject which)
{
    static writing w;
    w.used = 0;
    if (which == EVOLVE_LENET5)
        write_lenet5(&w);
    else if (which == EVOLVE_DEEP)
        write_deep(&w);
    else
        write_wide(&w);
    return sw_genome_parse(out, w.text, w.used, evolve_subject_name(which));
}

/* ---- batches ----------------------------------------------------------------------------- */

sw_status evolve_batch_make(sw_array inputs[2], const sw_genome *genome)
{
    sw_genome_info g = {.size = sizeof g};
    SW_TRY(sw_genome_describe(genome, &g));
    inputs[0] = (sw_array){.dtype = SW_F32, .shape = SW_SHAPE(g.batch, g.channels)};
    if (g.height > 0)
        inputs[0].shape = SW_SHAPE(g.batch, g.channels, g.height, g.width);
    inputs[1] = (sw_array){.dtype = SW_U8, .shape = SW_SHAPE(g.batch)};
    return bench_batch_make(inputs, 2, g.classes);
}

sw_status evolve_args(sw_run_args *args, sw_net *net, sw_model **model,
                      const sw_array inputs[2])
{
    *model = sw_net_model(net);
    *args = (sw_run_args){.size = sizeof *args,
                          .fn = sw_net_step,
                          .user = net,
                          .models = model,
                          .n_models = 1,
                          .inputs = inputs,
                          .n_inputs = 2,
                          .mode = SW_TRAIN};
    return SW_OK;
}
