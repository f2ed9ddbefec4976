/* See timeline.h. */
#include "tests/support/timeline.h"
#include "profiler/record/record.h"
#include "tests/support/suite.h"

static uint64_t state;

static uint64_t draw(uint64_t below)
{
    state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % below;
}

static void must(sw_status status)
{
    if (status != SW_OK)
        CU_FAIL_FATAL("a timeline for a test cannot be made");
}

static const char *keep(sw_timeline *t, const char *text)
{
    const char *out = "";
    must(sw_timeline_string(t, &out, text));
    return out;
}

static void *take(sw_timeline *t, size_t n, size_t size)
{
    void *out = NULL;
    must(sw_timeline_alloc(t, &out, n, size));
    return out;
}

/* "net/block1/conv", with what formats must escape in every fourth. */
static const char *layer_name(sw_timeline *t, bool odd)
{
    static const char *const strange[] = SW_INIT(
        "a \"quoted\" one", "semi;colon and blank", "</script><b>", "comma,and\\slash",
        "gr\xc3\xbc\xc3\x9f\x65 \xe2\x82\xac", "percent%s%n", "new\nline\ttab", "{brace: [1]}");
    char text[300];
    if (odd && draw(4) == 0)
        snprintf(text, sizeof text, "net/%s", strange[draw(8)]);
    else
        snprintf(text, sizeof text, "net/block%u/layer%u", (unsigned)draw(3),
                 (unsigned)draw(4));
    if (odd && draw(16) == 0)
        memset(text + strlen(text), 'x', sizeof text - 1 - strlen(text)),
            text[sizeof text - 1] = '\0';
    return draw(9) == 0 ? "" : keep(t, text);
}

static void make_ops(sw_timeline *t, sw_tl_program *p, uint32_t n, bool odd)
{
    p->ops = take(t, n, sizeof *p->ops);
    p->n_ops = n;
    uint8_t phase = (uint8_t)draw(2);
    for (uint32_t i = 0; i < n; i++) {
        char text[400];
        if (draw(n / 5 + 1) == 0 && phase < 4)
            phase++;
        p->ops[i].phase = phase;
        p->ops[i].layer = layer_name(t, odd);
        snprintf(text, sizeof text, "%s/op%u", p->ops[i].layer, (unsigned)draw(7));
        p->ops[i].name = keep(t, text);
    }
}

static void make_value(sw_timeline *t, const sw_tl_program *p, sw_tensor *v, uint32_t id,
                       uint64_t end[SW_SEGMENTS], bool odd)
{
    static const char *const roles[] = {"activation", "saved", "gradient", "workspace"};
    char text[400];
    const uint64_t kind = draw(10);
    v->segment = kind == 0 ? SW_SEGMENT_MODEL : kind == 1 ? SW_SEGMENT_INPUT : SW_SEGMENT_STEP;
    v->id = id * 3 + 1;
    v->alias = SW_TL_NONE;
    v->layer = layer_name(t, odd);
    snprintf(text, sizeof text, "%s.out%u", v->layer, id);
    v->name = keep(t, text);
    v->op = "op";
    v->role = kind == 0 ? "parameter" : kind == 1 ? "input" : roles[draw(4)];
    v->phase = "forward";
    v->bytes = 1 + draw(5000);
    v->padding = (64 - v->bytes % 64) % 64;
    v->offset = end[v->segment];
    end[v->segment] += v->bytes + v->padding;
    v->birth = v->segment == SW_SEGMENT_STEP ? (uint32_t)draw(p->n_ops) : 0;
    v->death = v->segment != SW_SEGMENT_STEP || draw(12) == 0
                   ? p->n_ops
                   : v->birth + (uint32_t)draw(p->n_ops - v->birth);
}

/* Some values take the place of one that lives as long. */
static void make_aliases(sw_tl_program *p)
{
    for (uint32_t i = 0; i < p->n_values; i++) {
        sw_tensor *v = &p->values[i];
        const sw_tensor *root = &p->values[draw(p->n_values)];
        if (draw(5) != 0 || root == v || v->segment != SW_SEGMENT_STEP ||
            root->segment != SW_SEGMENT_STEP || root->alias != SW_TL_NONE ||
            root->birth >= v->birth || root->death < v->death)
            continue;
        bool is_root = false;
        for (uint32_t k = 0; k < p->n_values; k++)
            is_root |= p->values[k].alias == v->id;
        if (is_root)
            continue;
        v->alias = root->id;
        v->offset = root->offset;
        v->bytes = root->bytes;
        v->padding = root->padding;
    }
}

static void make_program(sw_timeline *t, const sw_made_timeline *how, uint32_t number)
{
    sw_tl_program *p;
    uint64_t end[SW_SEGMENTS] = {0};
    must(sw_timeline_add_program(t, &p));
    p->key = number;
    p->run = draw(3) == 0 ? "eval" : "train";
    p->immediate = draw(8) == 0;
    p->batch = (int64_t)draw(64);
    make_ops(t, p, 1 + (uint32_t)draw(how->ops), how->odd_names);
    const uint32_t n = 1 + (uint32_t)draw(how->values);
    p->values = take(t, n, sizeof *p->values);
    for (; p->n_values < n; p->n_values++)
        make_value(t, p, &p->values[p->n_values], p->n_values, end, how->odd_names);
    make_aliases(p);
    p->arena_bytes = end[SW_SEGMENT_STEP];
    p->model_bytes = end[SW_SEGMENT_MODEL];
}

/* The log that the runtime would have recorded of that run. */
static void make_log(sw_timeline *t, const sw_tl_program *p, sw_tl_run *run)
{
    sw_record *log = take(t, 2 * (size_t)p->n_values + p->n_ops + 8, sizeof *log);
    size_t n = 0;
    uint64_t now = run->at_ns;
    int phase = -1;
    log[n++] = (sw_record){
        (uint32_t)now, (uint32_t)(now >> 32), (uint32_t)run->step, SW_RECORD_RUN, 0, 0};
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const uint8_t f = p->ops[i].phase;
        if (f != phase)
            log[n++] =
                (sw_record){(uint32_t)now, (uint32_t)(now >> 32), f, SW_RECORD_PHASE, f, 0};
        phase = f;
        log[n++] = (sw_record){(uint32_t)now, (uint32_t)(now >> 32), i, SW_RECORD_OP, f, 0};
        for (int dying = 0; dying < 2; dying++)
            for (uint32_t k = 0; k < p->n_values; k++) {
                const sw_tensor *v = &p->values[k];
                if (v->segment != SW_SEGMENT_STEP || (dying ? v->death : v->birth) != i ||
                    (dying && v->alias != SW_TL_NONE))
                    continue;
                log[n++] = (sw_record){(uint32_t)(v->offset / SW_ALIGN),
                                       (uint32_t)((v->bytes + v->padding) / SW_ALIGN),
                                       v->id,
                                       (uint8_t)(dying                    ? SW_RECORD_RELEASE
                                                 : v->alias != SW_TL_NONE ? SW_RECORD_REUSE
                                                                          : SW_RECORD_PLACE),
                                       f,
                                       0};
            }
        now += run->ns / p->n_ops;
    }
    now = run->at_ns + run->ns;
    log[n++] = (sw_record){(uint32_t)now, (uint32_t)(now >> 32), 0, SW_RECORD_END, 0, 0};
    run->log = log;
    run->n_log = n;
}

static void make_run(sw_timeline *t, const sw_made_timeline *how, uint64_t number)
{
    sw_tl_run *run;
    must(sw_timeline_add_run(t, &run));
    run->program = (uint32_t)draw(t->n_programs);
    const sw_tl_program *p = &t->programs[run->program];
    run->step = number + 1;
    run->at_ns = t->n_runs > 1
                     ? t->runs[t->n_runs - 2].at_ns + t->runs[t->n_runs - 2].ns + draw(5000)
                     : draw(1u << 20);
    run->clock = (sw_tl_clock)draw(3);
    run->has_loss = true;
    run->loss = 1.0 / (double)(number + 1);
    uint64_t *op_ns = take(t, p->n_ops, sizeof *op_ns);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        op_ns[i] = draw(3000);
        run->phase[p->ops[i].phase].ns += op_ns[i];
        run->ns += op_ns[i];
    }
    if (run->clock == SW_TL_UNTIMED)
        run->ns = (uint64_t)p->n_ops * 1000;
    if (run->clock == SW_TL_OPS)
        run->op_ns = op_ns;
    if (how->logs && draw(2) == 0)
        make_log(t, p, run);
}

sw_timeline *sw_make_timeline(uint64_t seed, const sw_made_timeline *how)
{
    sw_timeline *t = NULL;
    state = seed;
    must(sw_timeline_new(&t));
    t->path = "made.jsonl";
    t->model = how->odd_names ? keep(t, "net \"of\" <tests>") : "net";
    t->device = "cpu";
    for (uint32_t i = 0; i < how->programs; i++)
        make_program(t, how, i);
    for (uint32_t i = 0; i < how->runs; i++)
        make_run(t, how, i);
    must(sw_timeline_finish(t));
    for (uint32_t i = 0; i < t->n_programs; i++) { /* predicted: what lives, by the curve */
        sw_tl_program *p = &t->programs[i];
        uint64_t *curve = take(t, p->n_ops, sizeof *curve);
        sw_timeline_curve(p, NULL, NULL, curve);
        for (uint32_t k = 0; k < p->n_ops; k++) {
            sw_prof_phase *f = &p->phase[p->ops[k].phase];
            f->peak_bytes = curve[k] > f->peak_bytes ? (size_t)curve[k] : f->peak_bytes;
            if (curve[k] > p->peak_bytes) {
                p->peak_bytes = curve[k];
                p->peak_op = k;
            }
        }
    }
    for (size_t i = 0; i < t->n_runs; i++) {
        const sw_tl_program *p = &t->programs[t->runs[i].program];
        for (int f = 0; f < SW_PROF_PHASES; f++)
            t->runs[i].phase[f].peak_bytes = p->phase[f].peak_bytes;
        t->runs[i].peak_bytes = t->programs[t->runs[i].program].peak_bytes;
    }
    return t;
}
