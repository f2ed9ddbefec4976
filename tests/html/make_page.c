/* Writes pages for the browser: make_page KIND FILE
 *
 *     odd      drawn programs and runs; names that break what does not escape them
 *     two      two of them, compared
 *     events   one program of a million births and deaths, as recorders of other tools give
 * them runs     100,000 runs of small programs: millions of ops one after another nothing  no
 * program and no run one      one op, one tensor, no clock */
#include "profiler/inspect/sink_html.h"
#include "tests/support/timeline.h"
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(sw_status status)
{
    if (status != SW_OK) {
        fprintf(stderr, "make_page: %s\n", sw_last_error());
        exit(1);
    }
}

static const char *text(sw_timeline *t, const char *kind, unsigned a, unsigned b)
{
    char line[80];
    const char *out;
    snprintf(line, sizeof line, kind, a, b);
    must(sw_timeline_string(t, &out, line));
    return out;
}

static sw_tl_program *add_program(sw_timeline *t, uint32_t n_ops, uint32_t n_values)
{
    sw_tl_program *p;
    void *ops, *values;
    must(sw_timeline_add_program(t, &p));
    must(sw_timeline_alloc(t, &ops, n_ops, sizeof *p->ops));
    must(sw_timeline_alloc(t, &values, n_values, sizeof *p->values));
    p->run = "train";
    p->batch = 32;
    p->ops = ops;
    p->n_ops = n_ops;
    p->values = values;
    return p;
}

static void add_run(sw_timeline *t, uint32_t program, sw_tl_clock clock, uint64_t ns)
{
    sw_tl_run *run;
    must(sw_timeline_add_run(t, &run));
    const sw_tl_program *p = &t->programs[program];
    run->program = program;
    run->step = t->n_runs;
    run->at_ns = SW_TL_AFTER;
    run->ns = ns;
    run->clock = clock;
    run->peak_bytes = p->peak_bytes;
    memcpy(run->phase, p->phase, sizeof run->phase);
    for (int i = 0; i < SW_PROF_PHASES && clock != SW_TL_UNTIMED; i++)
        run->phase[i].ns = ns / SW_PROF_PHASES;
}

static void predict(sw_tl_program *p)
{
    uint64_t *curve = calloc(p->n_ops, sizeof *curve);
    if (curve == NULL)
        exit(1);
    sw_timeline_curve(p, NULL, NULL, curve);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        sw_prof_phase *f = &p->phase[p->ops[i].phase];
        f->peak_bytes = curve[i] > f->peak_bytes ? (size_t)curve[i] : f->peak_bytes;
        if (curve[i] > p->peak_bytes) {
            p->peak_bytes = curve[i];
            p->peak_op = i;
        }
    }
    free(curve);
}

/* Blocks of eight sizes, freed ones used again: `waves` times a network forward and back, each
 * block of the forward half freed in reverse order. */
static void wave(sw_timeline *t, sw_tl_program *p, uint32_t from, uint32_t n,
                 uint32_t free_at[])
{
    static const char *const roles[] = {"activation", "saved", "workspace", "temporary"};
    static uint64_t top;
    static uint64_t spare[8][1 << 16];
    static uint32_t n_spare[8];
    for (uint32_t i = 0; i < 2 * n; i++) {
        sw_tl_op *op = &p->ops[from + i];
        const bool birth = i < n;
        const uint32_t k = birth ? i : 2 * n - 1 - i, layer = k * 48 / n;
        op->phase = birth ? 1 : 3;
        op->layer = text(t, "decoder/block%u/part%u", layer / 4, layer % 4);
        op->name = birth ? "alloc" : "free";
        const uint32_t size = k * 2654435761u >> 29;
        if (!birth) {
            spare[size][n_spare[size]++] = p->values[free_at[k]].offset;
            p->values[free_at[k]].death = from + i;
            continue;
        }
        sw_tensor *v = &p->values[p->n_values];
        free_at[k] = p->n_values;
        const uint64_t bytes = (uint64_t)512 << size;
        if (n_spare[size] > 0)
            v->offset = spare[size][--n_spare[size]];
        else {
            v->offset = top;
            top += bytes;
        }
        *v = (sw_tensor){.id = p->n_values,
                         .alias = SW_TL_NONE,
                         .segment = SW_SEGMENT_STEP,
                         .offset = v->offset,
                         .bytes = bytes,
                         .birth = from + i,
                         .death = p->n_ops,
                         .layer = op->layer,
                         .op = "alloc",
                         .name = text(t, "block%u.out%u", layer, k % 97),
                         .role = roles[k % 4],
                         .phase = "forward"};
        p->n_values++;
    }
}

/* A tenth of events and runs is asked for. */
static bool small(void)
{
    const char *tests = getenv("STEPWELL_TESTS");
    return tests != NULL && strcmp(tests, "quick") == 0;
}

static void make_events(sw_timeline *t)
{
    enum { HALF = 2000 };
    const uint32_t n_waves = small() ? 25 : 250;
    static uint32_t free_at[HALF];
    sw_tl_program *p = add_program(t, n_waves * 2 * HALF, n_waves * HALF);
    for (uint32_t i = 0; i < n_waves; i++)
        wave(t, p, i * 2 * HALF, HALF - (i * 37 % 200), free_at);
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].name == NULL) /* waves are of different lengths */
            p->ops[i] = (sw_tl_op){"idle", "", 4};
    t->tool = "pytorch";
    t->model = small() ? "a tenth of a million events" : "a million events";
    predict(p);
    p->immediate = true;
    add_run(t, 0, SW_TL_UNTIMED, p->n_ops);
}

static void make_runs(sw_timeline *t)
{
    static uint32_t free_at[64];
    for (uint32_t k = 0; k < 2; k++) {
        sw_tl_program *p = add_program(t, 64, 32);
        p->key = k;
        p->run = k ? "eval" : "train";
        wave(t, p, 0, 32 - 8 * k, free_at);
        for (uint32_t i = 64 - 16 * k; i < 64; i++)
            p->ops[i] = (sw_tl_op){"update", "", 4};
        predict(p);
    }
    t->model = "many runs";
    for (uint32_t i = 0; i < (small() ? 10000 : 100000); i++)
        add_run(t, i % 100 == 99, SW_TL_PHASES, 50000 + i * 7919 % 1000);
}

static void make_one(sw_timeline *t)
{
    sw_tl_program *p = add_program(t, 1, 1);
    p->ops[0] = (sw_tl_op){"op", "", 1};
    p->values[p->n_values++] = (sw_tensor){.alias = SW_TL_NONE,
                                           .name = "x",
                                           .layer = "",
                                           .op = "op",
                                           .role = "mystery",
                                           .phase = "forward",
                                           .bytes = 1000,
                                           .padding = 24};
    predict(p);
    add_run(t, 0, SW_TL_UNTIMED, 1);
}

static sw_status to_file(void *file, const void *bytes, size_t n)
{
    return fwrite(bytes, 1, n, file) == n ? SW_OK : SW_IO;
}

int main(int argc, char **argv)
{
    static sw_sink_out out;
    sw_timeline *t = NULL, *other = NULL;
    const sw_made_timeline how = {3, 12, 60, 120, true, true};
    const char *kind = argc == 3 ? argv[1] : "";
    if (strcmp(kind, "odd") == 0 || strcmp(kind, "two") == 0) {
        t = sw_make_timeline(7, &how);
        other = strcmp(kind, "two") == 0 ? sw_make_timeline(8, &how) : NULL;
    } else {
        must(sw_timeline_new(&t));
        t->path = kind;
        if (strcmp(kind, "events") == 0)
            make_events(t);
        else if (strcmp(kind, "runs") == 0)
            make_runs(t);
        else if (strcmp(kind, "one") == 0)
            make_one(t);
        else if (strcmp(kind, "nothing") != 0)
            return fprintf(stderr, "usage: make_page KIND FILE\n"), 2;
        must(sw_timeline_finish(t));
    }
    out.context = fopen(argv[2], "wb");
    out.write = to_file;
    if (out.context == NULL)
        return perror(argv[2]), 1;
    must(sw_html_write(t, other, &out));
    sw_timeline_free(t);
    sw_timeline_free(other);
    return fclose(out.context) == 0 ? 0 : 1;
}
