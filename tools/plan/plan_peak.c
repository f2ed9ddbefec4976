/* stepwell plan --explain-peak: what lives at the peak of the program that speaks for the job,
 * and which options make it less. Each option is planned, in a job of its own beside this one:
 * its bytes are those that `plan` says with it. A tensor is "less by" an option where fewer
 * bytes of that name live at the peak of the plan with it. */
#include "alloc/base/mem.h"
#include "alloc/base/order.h"
#include "alloc/base/size.h"
#include "profiler/inspect/document.h"
#include "runtime/model/model.h"
#include "tools/plan/plan.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WAYS = 20, SHOWN = 12, NAME = 112 };

/* Changes of a job. A way to less is one of them, or several together. */
enum {
    HALF = 1 << 0,    /* of the batch */
    PARTS = 1 << 1,   /* as many samples in a step, in micro-batches of half a batch */
    SINGLES = 1 << 2, /* in micro-batches of one sample */
    STATE = 1 << 3,   /* from here to REBUILD: see change */
    HALVES = 1 << 4,
    ADAPTER = 1 << 5,
    BF16 = 1 << 6,
    INT8 = 1 << 7,
    NF4 = 1 << 8,
    CLIP = 1 << 9,
    KEEP = 1 << 10,
    RELEASE = 1 << 11,
    CHUNKS = 1 << 12,
    TILES = 1 << 13,
    STRIPS = 1 << 14,
    REBUILD = 1 << 15,
    MIDDLE = 1 << 16, /* a budget in the middle of what is taken and the least */
    LEAST = 1 << 17,  /* the least budget */
    BUDGET = MIDDLE | LEAST,
    OTHER_BITS = HALF | PARTS | STATE | HALVES | ADAPTER | BF16 | INT8 | NF4 | CLIP
};

typedef struct {
    char name[NAME], layer[NAME], op[NAME];
    const char *role, *segment;
    uint64_t bytes;
    int64_t birth, death; /* -1: it is always there */
    unsigned less;        /* bit k: by way k */
    uint32_t tensors;     /* of a row for several; else 0 */
} held;

typedef struct {
    held *at;
    uint32_t n, cap;
    sw_status status; /* of taking them down */
} holding;

typedef struct {
    char letter[2], option[160];
    uint64_t peak_bytes, total_bytes;
    int64_t change;   /* of the peak */
    double more_time; /* of a sample, in per cent; NaN: not known */
    bool same_bits;
} way;

typedef struct {
    const plan_opts *opts;
    job *job;
    uint32_t position; /* of the peak */
    holding here;
    way way[WAYS];
    int n;
    uint64_t least; /* budget; 0: not known */
    bool proved;    /* no schedule is below it */
} peak;

static const char model[] = "model", step[] = "step"; /* segments */

/* ---- what lives at the peak -------------------------------------------------------------- */

static held *add(holding *to, const char *name, const char *layer, const char *op)
{
    if (to->status == SW_OK)
        to->status = sw_heap_reserve(&to->at, SW_HEAP_FILES, &to->cap, to->n + 1);
    if (to->status != SW_OK)
        return NULL;
    held *x = &to->at[to->n++];
    *x = (held){.birth = -1, .death = -1};
    snprintf(x->name, sizeof x->name, "%s", name);
    snprintf(x->layer, sizeof x->layer, "%s", layer);
    snprintf(x->op, sizeof x->op, "%s", op != NULL ? op : "");
    return x;
}

static void see_storage(void *to, const sw_plan_storage *s)
{
    /* One that takes the place of another has its bytes. */
    held *x = s->alias == UINT32_MAX ? add(to, s->name, s->layer, s->op) : NULL;
    if (x == NULL)
        return;
    x->role = s->role;
    x->segment = s->input ? "input" : step;
    x->bytes = s->bytes + s->padding;
    x->birth = s->input ? -1 : (int64_t)s->birth;
    x->death = s->input ? -1 : (int64_t)s->death;
}

SW_ORDER(by_bytes, held, SW_FALLS(bytes), strcmp(x->name, y->name))

/* Of the step's tensors those at the first op where most bytes live; the largest first. */
static sw_status keep_peak(holding *of, uint32_t n_ops, uint32_t *position)
{
    int64_t *change, live = 0, most = -1;
    const size_t bytes = ((size_t)n_ops + 2) * sizeof *change;
    SW_TRY(sw_heap_alloc(&change, SW_HEAP_FILES, bytes));
    for (uint32_t i = 0; i < of->n; i++)
        if (of->at[i].birth >= 0) {
            change[of->at[i].birth] += (int64_t)of->at[i].bytes;
            change[of->at[i].death + 1] -= (int64_t)of->at[i].bytes;
        }
    for (uint32_t i = 0; i < n_ops; i++)
        if ((live += change[i]) > most) {
            most = live;
            *position = i;
        }
    sw_heap_free(change, SW_HEAP_FILES, bytes);
    uint32_t n = 0;
    for (uint32_t i = 0; i < of->n; i++)
        if (of->at[i].birth < 0 ||
            (of->at[i].birth <= (int64_t)*position && of->at[i].death >= (int64_t)*position))
            of->at[n++] = of->at[i];
    of->n = n;
    qsort(of->at, n, sizeof *of->at, by_bytes);
    return SW_OK;
}

static sw_status hold(job *j, holding *to, uint32_t *position)
{
    const job_which which = (job_which)(job_main(j) - j->program);
    const sw_run_args args = job_args(j, which, j->program[which].inputs, 0);
    const sw_plan_visitor visitor = SW_OPTS(sw_plan_visitor, .to = to, .storage = see_storage);
    SW_TRY(sw_plan_visit(j->exec, &args, &visitor));
    for (int m = 0; m < args.n_models; m++)
        for (uint32_t i = 1; i < args.models[m]->n_entries; i++) {
            const swi_entry *e = &args.models[m]->entries[i];
            char name[SWI_SHOWN_BYTES], layer[SWI_SHOWN_BYTES];
            held *x = add(to, swi_entry_shown(&args, args.models[m], e->name, name),
                          swi_entry_layer(&args, args.models[m], e->name, layer), NULL);
            SW_TRY(to->status);
            x->role = swi_role_name(e->role);
            x->segment = model;
            x->bytes = sw_size_round(e->bytes);
        }
    SW_TRY(to->status);
    return keep_peak(to, job_main(j)->plan.n_ops, position);
}

/* Bytes of a tensor of one name, in the model or outside it. */
static uint64_t bytes_of(const holding *in, const held *like)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < in->n; i++)
        if ((in->at[i].segment == model) == (like->segment == model) &&
            strcmp(in->at[i].name, like->name) == 0)
            sum += in->at[i].bytes;
    return sum;
}

/* ---- ways to less ------------------------------------------------------------------------ */

/* A change of the options, in their words; NULL where it changes nothing or they exclude it. */
static const char *change(job_opts *o, unsigned bit)
{
    const bool frozen = o->settings.lora > 0 || o->settings.adapter != NULL;
    const bool eight = job_state_bits(o) == 8, kept = o->keep_gradients,
               clipped = o->clip > 0.0;
    switch (bit) {
    case STATE:
        o->state = "8bit";
        return eight ? NULL : "--state 8bit";
    case HALVES:
        o->precision = "bf16";
        o->bf16_order = NULL;
        return o->exec.compute != SW_BF16 && job_precision(o, NULL) == CLI_GO
                   ? "--precision bf16"
                   : NULL;
    case ADAPTER:
        o->settings.lora = 8;
        return o->kind->settle != NULL && !frozen ? "--lora 8" : NULL;
    case BF16:
        o->settings.weights = "bf16";
        return frozen ? "--weights bf16" : NULL;
    case INT8:
        o->settings.weights = "int8";
        return frozen ? "--weights int8" : NULL;
    case NF4:
        o->settings.weights = "4bit";
        return frozen ? "--weights 4bit" : NULL;
    case CLIP:
        o->clip = 0.0;
        return clipped ? "without --clip" : NULL;
    case KEEP:
        o->keep_gradients = false;
        return kept ? "without --keep-gradients" : NULL;
    case RELEASE:
        return o->release || clipped || kept || o->accumulate > 1 ? NULL : "--update release";
#define SWITCH(bit, word)                                                                      \
    case bit:                                                                                  \
        if (o->exec.no_##word == 0)                                                            \
            return NULL;                                                                       \
        o->exec.no_##word = 0;                                                                 \
        return "without --no-" #word;
        SWITCH(CHUNKS, chunks)
        SWITCH(TILES, tiles)
        SWITCH(STRIPS, strips)
        SWITCH(REBUILD, rebuild)
    default:
        return NULL;
    }
}

/* All changes of `what` but a budget; false where one of them cannot be. */
static bool change_all(const peak *p, unsigned what, job_opts *o, int64_t *batch, char *option,
                       size_t bytes)
{
    int n = 0;
    if ((what & (HALF | PARTS)) != 0) {
        const int64_t parts = (what & SINGLES) != 0 ? *batch : 2;
        if (*batch < 2 || ((what & PARTS) != 0 &&
                           (*batch % parts != 0 || (p->opts->update != NULL && o->release))))
            return false;
        *batch /= parts;
        o->accumulate *= (what & PARTS) != 0 ? parts : 1;
        n = snprintf(option, bytes, "--batch %lld", (long long)*batch);
        if ((what & PARTS) != 0)
            n += snprintf(option + n, bytes - (size_t)n, " --accumulate %lld",
                          (long long)o->accumulate);
    }
    for (unsigned bit = STATE; bit <= REBUILD; bit *= 2) {
        const char *words = (what & bit) != 0 ? change(o, bit) : "";
        if (words == NULL)
            return false;
        n += snprintf(option + n, bytes - (size_t)n, "%s%s", n > 0 && *words != '\0' ? " " : "",
                      words);
    }
    if (p->opts->update == NULL ||
        (what & RELEASE) != 0) /* as --update is where it is not given */
        o->release = o->clip <= 0.0 && !o->keep_gradients && o->accumulate <= 1;
    return true;
}

/* The estimated time of a sample. */
static double time_of(const job *j)
{
    const job_program *micro = &j->program[JOB_MICRO], *main = job_main(j);
    const double n = (double)j->opts->accumulate;
    const double others = (double)(micro->batch > 0 ? micro : main)->plan.cost;
    return ((n - 1.0) * others + (double)main->plan.cost) / (n * (double)job_batch(j));
}

/* Plan all programs of the job with these options. *fits is false where there is no such job,
 * or where it is over its budget: *most is then the program that needs the most, *needs. */
static sw_status plan_with(const peak *p, job *look, const job_opts *opts, int64_t batch,
                           bool *fits, size_t *needs, const job_program **most)
{
    *look = plan_beside(p->job, opts, batch);
    *needs = 0;
    sw_status status = job_make(look);
    const bool there = status == SW_OK;
    *fits = there;
    if (status == SW_NOMEM && opts->budget_bytes > 0 &&
        look->checkpoint_bytes > opts->budget_bytes)
        return SW_OK; /* for its copy */
    if (there)
        job_set_batch(look, batch);
    for (int i = 0; i < JOB_PROGRAMS && status == SW_OK; i++) {
        const job_program *program = &look->program[i];
        bool within = true;
        if (program->batch > 0)
            status = plan_program(look, (job_which)i, &within);
        *fits &= within;
        if (!within && status == SW_OK && job_needed_bytes(look, &program->plan) > *needs) {
            *needs = job_needed_bytes(look, &program->plan);
            *most = program;
        }
    }
    return status == SW_INVALID || status == SW_UNSUPPORTED ? SW_OK : status;
}

/* The least budget that is found; 0: none. A refusal of almost nothing names one with a plan,
 * and less may have another. *proved, unless that is NULL, where such a plan will do: it is
 * proved that a byte less is not enough. */
static sw_status least_budget(const peak *p, job_opts *opts, int64_t batch, uint64_t *least,
                              bool *proved)
{
    bool fits = false;
    opts->budget_bytes = 1;
    for (int i = 0; i == 0 || (fits && i < 9 && proved != NULL); i++) {
        job look;
        size_t needs;
        const job_program *most = NULL;
        const size_t tried = opts->budget_bytes;
        const sw_status status = plan_with(p, &look, opts, batch, &fits, &needs, &most);
        const size_t total = job_total_bytes(&look), copy = look.checkpoint_bytes;
        if (i == 0)
            *least = needs;
        else if (fits)
            *least = tried;
        else
            *proved = tried + 1 == *least && most != NULL &&
                      most->plan.least_repeat_cost == UINT64_MAX;
        job_close(&look);
        if (status != SW_OK || (*least == 0 && copy < tried))
            return status;
        opts->budget_bytes = i > 0 && total < tried ? total : (size_t)*least - 1;
        fits |= i == 0;
        if (copy >= tried) { /* it is taken before there is a plan */
            opts->budget_bytes = copy + 1;
            i = -1;
        }
    }
    return SW_OK;
}

/* The job with a budget; *use is false where there is none that makes it less. */
static sw_status set_budget(peak *p, unsigned what, job_opts *opts, int64_t batch, bool *use)
{
    const bool alone = (what & ~(unsigned)BUDGET) == 0;
    const uint64_t total = job_total_bytes(p->job);
    uint64_t least = alone ? p->least : 0;
    *use = false;
    if (opts->exec.no_recompute != 0)
        return SW_OK;
    if (least == 0)
        SW_TRY(least_budget(p, opts, batch, &least, alone ? &p->proved : NULL));
    if (alone)
        p->least = least;
    opts->budget_bytes = (what & MIDDLE) != 0 ? least + (total - least) / 2 : least;
    /* Between two budgets that are nearly one there is no middle. */
    *use = least > 0 && total > least + ((what & MIDDLE) != 0 ? total / 100 : 0);
    return SW_OK;
}

/* Note the way `what`, where peak or total are less with it. */
static sw_status note_way(peak *p, unsigned what)
{
    way w = {.letter = {(char)('a' + p->n)}, .same_bits = (what & OTHER_BITS) == 0};
    job_opts opts = *p->job->opts;
    int64_t batch = p->job->batch;
    bool use = p->n < WAYS;
    size_t needs;
    const job_program *most;
    if (!use || !change_all(p, what, &opts, &batch, w.option, sizeof w.option))
        return SW_OK;
    if ((what & BUDGET) != 0) {
        SW_TRY(set_budget(p, what, &opts, batch, &use));
        const size_t n = strlen(w.option);
        snprintf(w.option + n, sizeof w.option - n, "%s--memory-budget %zu", n > 0 ? " " : "",
                 opts.budget_bytes);
    }
    if (!use)
        return SW_OK;
    job look;
    holding there = {.n = 0};
    sw_status status = plan_with(p, &look, &opts, batch, &use, &needs, &most);
    const sw_plan_info *now = &job_main(p->job)->plan, *then = &job_main(&look)->plan;
    if (status == SW_OK && use &&
        (then->peak_bytes < now->peak_bytes || then->total_bytes < now->total_bytes)) {
        uint32_t position;
        w.peak_bytes = then->peak_bytes;
        w.total_bytes = then->total_bytes;
        w.change = (int64_t)then->peak_bytes - (int64_t)now->peak_bytes;
        w.more_time = (what & HALVES) != 0 /* as the processor is */
                          ? (double)NAN
                          : round(1e4 * (time_of(&look) / time_of(p->job) - 1.0)) / 100.0;
        status = hold(&look, &there, &position);
        for (uint32_t i = 0; i < p->here.n; i++) {
            held *x = &p->here.at[i];
            x->less |= bytes_of(&there, x) < bytes_of(&p->here, x) ? 1u << p->n : 0;
        }
        p->way[p->n++] = w;
    }
    job_close(&look);
    sw_heap_free(there.at, SW_HEAP_FILES, there.cap * sizeof *there.at);
    return status;
}

/* All ways, and last those together that leave a step its samples. */
static sw_status note_ways(peak *p)
{
    unsigned together = 0;
    for (unsigned bit = HALF; bit <= LEAST; bit *= 2) {
        const int before = p->n;
        SW_TRY(bit != SINGLES ? note_way(p, bit) : SW_OK);
        if (p->n > before && p->way[before].change < 0)
            together |= bit & ~(unsigned)(HALF | BF16 | INT8 | MIDDLE);
    }
    if ((together & (together - 1)) == 0)
        return SW_OK;
    together |= (together & ADAPTER) != 0 ? NF4 : 0;
    return note_way(p, together | LEAST | ((together & PARTS) != 0 ? SINGLES : 0));
}

/* ---- telling ----------------------------------------------------------------------------- */

/* Made: letters and words of a row. */
enum { LESS = 2, WORDS = 9 };
static const table_column held_columns[] = {
    COLUMN(held, "bytes", "bytes", TABLE_BYTES, 13, bytes),
    COLUMN(held, "role", "role", TABLE_TEXT, 15, role),
    {.key = "less_by", .head = "less by", .kind = TABLE_TEXT, .width = 9},
    FIELDS(held, name, segment),
    FIELDS_KNOWN(held, op, layer),
    COLUMN_KNOWN(held, "birth", NULL, TABLE_COUNT, 0, birth),
    COLUMN_KNOWN(held, "death", NULL, TABLE_COUNT, 0, death),
    {.head = "tensor, and the op that makes it", .kind = TABLE_WRAP, .width = 36}};

static const table_column way_columns[] = {
    COLUMN(way, "letter", "", TABLE_TEXT, 1, letter),
    COLUMN(way, "peak_bytes", "peak", TABLE_BYTES, 13, peak_bytes),
    COLUMN(way, "change_bytes", "change", TABLE_CHANGE, 13, change),
    COLUMN_KNOWN(way, "more_time_percent", "time, %", TABLE_REAL, 7, more_time),
    COLUMN(way, "same_bits", "bits", TABLE_BOOL, 4, same_bits),
    FIELDS(way, total_bytes),
    COLUMN(way, "option", "with", TABLE_WRAP, 32, option)};

static void write_row(const void *rows, size_t i, table_cell *cells)
{
    static char letters[WAYS + 1], words[2 * NAME + 8]; /* until the next row */
    const held *x = (const held *)rows + i;
    const size_t layer = strlen(x->layer);
    const bool within = layer > 0 && strncmp(x->op, x->layer, layer) == 0;
    int n = 0;
    for (int k = 0; k < WAYS; k++)
        if ((x->less >> k & 1u) != 0)
            letters[n++] = (char)('a' + k);
    letters[n] = '\0';
    if (x->tensors > 0)
        snprintf(words, sizeof words, "%u %stensor%s", x->tensors,
                 x->segment == model ? "" : "other ", x->tensors == 1 ? "" : "s");
    else
        snprintf(words, sizeof words, "%s%s%s", x->name, x->op[0] != '\0' ? " by " : "",
                 x->op + (within ? layer + 1 : 0));
    cells[LESS].text = letters;
    cells[WORDS].text = words;
}

/* The largest tensors of step and inputs one by one; the others, and those of the model, in a
 * row for each role. */
static uint32_t gather(const peak *p, held *to)
{
    uint32_t n = 0, own = 0;
    for (uint32_t i = 0; i < p->here.n; i++) {
        const held *x = &p->here.at[i];
        const char *segment = x->segment == model ? model : step;
        uint32_t k = 0;
        if (segment == step && own < SHOWN && x->bytes >= p->here.at[0].bytes / 100) {
            own++;
            to[n++] = *x;
            continue;
        }
        while (k < n &&
               (to[k].tensors == 0 || to[k].role != x->role || to[k].segment != segment))
            k++;
        if (k == n)
            to[n++] = (held){.role = x->role, .segment = segment};
        to[k].bytes += x->bytes;
        to[k].tensors++;
        to[k].less |= x->less;
    }
    qsort(to, n, sizeof *to, by_bytes);
    return n;
}

static void print(const peak *p)
{
    const sw_plan_info *now = &job_main(p->job)->plan;
    const sw_writer to = cli_writer(stdout);
    const report_style style = {.to = &to, .ascii = !cli_utf8()};
    held rows[SHOWN + 2 * SWI_ROLE_COUNT];
    const uint32_t n = gather(p, rows);
    uint64_t fixed = 0;
    for (uint32_t i = 0; i < p->here.n; i++)
        fixed += p->here.at[i].less == 0 ? p->here.at[i].bytes : 0;
    sw_writer_say(&to, 0, 2, "\nAt the peak %s bytes live, while op %u of %u runs: %s",
                  cli_digits(now->peak_bytes).text, p->position + 1, now->n_ops, now->peak_op);
    table_print(&TABLE_WITH(held_columns, rows, n, write_row, rows), n, &style);
    if (p->n > 0) {
        sw_writer_say(&to, 0, 0,
                      "\nPlanned with each of these. Less by a letter: fewer bytes of that "
                      "name live at the peak with it. Time: the estimate for a sample. Bits: "
                      "whether results stay the same.");
        table_print(&TABLE_OF(way_columns, p->way, (size_t)p->n), (size_t)p->n, &style);
        putchar('\n');
    }
    sw_writer_say(&to, 0, 0, "No option here makes less of %s bytes.", cli_digits(fixed).text);
    if (now->arena_bytes == now->lower_bound_bytes)
        sw_writer_say(&to, 0, 0,
                      "No placement is lower: all %s bytes of the arena live at that op.",
                      cli_digits(now->arena_bytes).text);
    if (p->least > 0)
        sw_writer_say(&to, 0, 0, "The least --memory-budget that was found is %s bytes%s.",
                      cli_digits(p->least).text,
                      p->proved ? "; it is proved that running ops again cannot make it less"
                                : "; less is not excluded");
}

int plan_peak_tell(const plan_opts *opts, job *j, sw_json *json)
{
    peak p = {.opts = opts, .job = j};
    const held *at;
    sw_status status = hold(j, &p.here, &p.position);
    if (status == SW_OK)
        status = note_ways(&p);
    at = p.here.at;
    if (status == SW_OK && json == NULL)
        print(&p);
    if (status == SW_OK && json != NULL) {
        sw_json_open(json, "peak", '{');
        SW_JSON_PUT(json, &job_main(j)->plan, peak_bytes, peak_op);
        sw_json_put_u64(json, "position", p.position);
        table_put(json, "tensors", &TABLE_WITH(held_columns, at, p.here.n, write_row, at));
        table_put(json, "options", &TABLE_OF(way_columns, p.way, (size_t)p.n));
        sw_json_put_known(json, "least_budget_bytes", p.least > 0, p.least);
        sw_json_put_known(json, "least_budget_proved", p.least > 0, p.proved);
        sw_json_end(json);
    }
    sw_heap_free(p.here.at, SW_HEAP_FILES, p.here.cap * sizeof *p.here.at);
    return status == SW_OK ? CLI_GO : cli_library_error(status, false);
}
