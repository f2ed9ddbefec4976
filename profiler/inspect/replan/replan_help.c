/* Changes, tried one by one. Functions composed by hand are found by calls: requests of one
 * function that follow each other, as long as its lines go down the file. Such a function keeps
 * parts for backward; one kernel in its place keeps its inputs, which others made, and at most
 * what comes out. */
#include "alloc/base/order.h"
#include "profiler/inspect/replan/replan.h"
#include "alloc/base/mem.h"
#include "profiler/inspect/numbers.h"
#include "profiler/inspect/snapshot.h"
#include <stdlib.h>

#define WORTH 256 /* of the peak */
#define NEAR 64   /* requests between an operator and what it belongs to */

const replan_change_words replan_changes[REPLAN_CHANGES] = {
    [HELP_ZERO_GRAD] = {"zero_grad", "call zero_grad(set_to_none=True) before forward: "
                                     "gradients of the last step live through it"},
    [HELP_ATTENTION] = {"attention", "fused attention, which keeps no scores "
                                     "(scaled_dot_product_attention)"},
    [HELP_SOFTMAX] = {"softmax", "a softmax of one kernel, which keeps its result alone"},
    [HELP_ACTIVATION] =
        {"activation", "an activation of one kernel, which keeps its input alone (silu, gelu)"},
    [HELP_NORM] = {"norm", "a normalisation of one kernel, which keeps its input and a number "
                           "for each row"},
    [HELP_LOSS] = {"loss", "a loss of one kernel, which makes one copy of the logits "
                           "(cross_entropy), or none (in chunks)"},
    [HELP_FOREACH] = {"foreach", "an optimizer with foreach=False or fused=True: temporaries "
                                 "of one parameter at a time"},
    [HELP_EXPANDABLE] = {"expandable", "expandable segments (PYTORCH_CUDA_ALLOC_CONF="
                                       "expandable_segments:True)"},
};

/* A function of a layer's name, "a.py:4 b/c.py:2 d": its file, its name and who called it, and
 * its line. */
typedef struct {
    uint64_t key; /* 0: none */
    unsigned long line;
    bool named;
} scope;

typedef struct {
    const snapshot_trace *t;
    const trace_lives *l;
    const trace_roles *r;
    uint64_t *live; /* by position */
    int64_t *less;  /* by position: what changes there */
    uint32_t *ends; /* by region: the position after it */
    uint64_t peak;
    replan_help now;
    number_map written; /* by size and backward pass: the life up to which gradients are */
    uint64_t looks;     /* that may still be taken for it */
    scope *scopes;      /* by stack, of the latest pattern */
    uint32_t *flags;    /* by stack: what its operator does */
} search;

/* ---- trying ------------------------------------------------------------------------------ */

/* A life is without the positions from..to. */
static void drop(search *s, const trace_life *x, uint32_t from, uint32_t to)
{
    if (from >= to)
        return;
    s->less[from] += (int64_t)x->bytes;
    s->less[to] -= (int64_t)x->bytes;
    s->now.held += x->bytes;
    s->now.stack = s->now.n++ == 0 ? x->stack : s->now.stack;
}

static void drop_all(search *s, const trace_life *x)
{
    drop(s, x, x->born, x->dead);
}

/* The lowered peak; all is as it was then. */
static void judge(search *s, replan_change change, replan_help *out, uint32_t *n)
{
    uint64_t most = 0;
    int64_t less = 0;
    for (uint32_t i = 0; i <= s->l->n_positions; i++) {
        less += s->less[i];
        s->less[i] = 0;
        if (s->live[i] - (uint64_t)less > most)
            most = s->live[i] - (uint64_t)less;
    }
    s->now.change = change;
    s->now.bytes = s->peak - most;
    if (s->now.n > 0 && s->now.bytes > s->peak / WORTH)
        out[(*n)++] = s->now;
    s->now = (replan_help){.stack = TRACE_NONE};
}

/* Where backward writes a gradient again that was kept: after the tensor of its size that it
 * makes next, a different one for each; else where the pass begins. */
static sw_status write_again(search *s, const trace_life *x, uint32_t from, uint32_t *out)
{
    const uint64_t key = x->bytes * UINT64_C(0x9e3779b97f4a7c15) ^ s->r->region[from];
    uint32_t i = number_map_at(&s->written, key);
    *out = from;
    for (i = i == NUMBER_MAP_NONE ? s->l->n_before : i + 1; i < s->l->n && s->looks > 0; i++) {
        const trace_life *made = &s->l->all[i];
        s->looks--;
        if (made->born < from || made->bytes != x->bytes || made->rule != RULE_TEMPORARY)
            continue;
        if (s->r->region[made->born] == s->r->region[from])
            *out = made->born;
        break;
    }
    return number_map_set(&s->written, key, i);
}

/* ---- what is composed by hand ------------------------------------------------------------ */

/* FUSED: one kernel does it all. HIDDEN: a Python function's, which shows no operator. */
enum { EXP = 1, DIV = 2, SIGMOID = 4, MUL = 8, RSQRT = 16, SOFTMAX = 32, PRODUCT = 64 };
enum { MEAN = 128, FUSED = 256, HIDDEN = 512 };

/* "aten::exp", or "functional.py:9 softmax"; a user's function is not fused. */
static uint32_t flag_of(const char *op)
{
    static const struct {
        uint32_t flag;
        const char *words; /* a name begins with one of them */
    } of[] = {
        {EXP, "exp"},
        {DIV, "div"},
        {SIGMOID, "sigmoid tanh erf"},
        {MUL, "mul"},
        {RSQRT, "rsqrt sqrt std"},
        {SOFTMAX | FUSED, "softmax _softmax"},
        {PRODUCT, "linear matmul mm bmm addmm baddbmm einsum conv"},
        {MEAN, "mean var pow square std norm linalg_vector_norm"},
        {FUSED, "scaled_dot _scaled_dot flash _flash native_ layer_norm batch_norm group_norm"},
        {FUSED, "rms_norm _fused silu gelu mish hardswish"},
    };
    const bool native = trace_begins(op, "aten::"),
               library = trace_begins(op, "functional.py:");
    const char *blank = strrchr(op, ' ');
    const char *name = native ? op + 6 : blank != NULL ? blank + 1 : op;
    uint32_t flags = 0;
    for (uint32_t k = 0; k < sizeof of / sizeof *of && !trace_begins(name, "expand"); k++)
        for (const char *at = of[k].words; *at != '\0'; at += strspn(at, " ")) {
            const size_t n = strcspn(at, " ");
            flags |= strncmp(name, at, n) == 0 ? of[k].flag : 0;
            at += n;
        }
    return native || library ? flags : (flags & ~FUSED) != 0 ? flags & ~FUSED : HIDDEN;
}

/* A function, known by the end of its name or by its operators: the result of `part` is
 * superfluous where `whole` follows with as many bytes, or, without a `whole`, after a mean
 * where no product is beside it. */
typedef struct {
    replan_change change;
    const char *names[4]; /* a function's has one of them */
    uint32_t part, whole;
    bool outer; /* also functions that call others */
    bool keeps; /* its one kernel keeps what comes out */
} pattern;
static const pattern patterns[] = {
    {HELP_ATTENTION, {"attention", "attn", "Attention"}, 0, 0, true, false},
    {HELP_SOFTMAX, {"softmax", "Softmax"}, EXP, DIV, false, true},
    {HELP_ACTIVATION, {"silu", "gelu", "swish", "mish"}, SIGMOID, MUL, false, false},
    {HELP_NORM, {"norm", "Norm"}, RSQRT, 0, false, false},
};

static uint64_t hash(uint64_t key, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        key = (key ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return key;
}

static bool is_saved(const trace_life *x)
{
    return x->rule == RULE_SAVED || x->rule == RULE_ACTIVATION;
}

static uint32_t flag_at(const search *s, uint32_t life)
{
    return s->flags[s->l->all[life].stack];
}

static bool may_go(const search *s, uint32_t i)
{
    return is_saved(&s->l->all[i]) && (flag_at(s, i) & PRODUCT) == 0;
}

/* Lives from..to of a function that is nothing else: what is kept for backward goes, but for
 * products, for what comes out and for what is small beside it. */
static void close_named(search *s, const pattern *p, uint32_t from, uint32_t to)
{
    uint64_t most = 0;
    uint32_t last = to - 1;
    for (uint32_t i = from; i < to; i++)
        if (may_go(s, i) && s->l->all[i].bytes > most)
            most = s->l->all[i].bytes;
    while (p->keeps && last > from && (s->l->all[last].bytes <= most / 4 || !may_go(s, last)))
        last--;
    for (uint32_t i = from; i < to; i++)
        if (i != last && may_go(s, i) && s->l->all[i].bytes > most / 4)
            drop_all(s, &s->l->all[i]);
}

static unsigned long line_at(const search *s, uint32_t life)
{
    return s->scopes[s->l->all[life].stack].line;
}

/* As many numbers, maybe of a type of half or twice the size. */
static bool alike(uint64_t a, uint64_t b)
{
    return a == b || a == b / 2 || a / 2 == b;
}

/* Whether the input lives on: nothing of its size is freed in forward after it. */
static bool keeps_input(const search *s, uint32_t life)
{
    const trace_life *of = &s->l->all[life];
    bool kept = false;
    for (uint32_t i = life; i-- > s->l->n_before && life - i < NEAR;) {
        const trace_life *x = &s->l->all[i];
        if (x->bytes != of->bytes || x->dead <= of->born)
            continue;
        if (!is_saved(x))
            return false;
        kept = true;
    }
    return kept;
}

static void close_call(search *s, const pattern *p, uint32_t from, uint32_t to, bool named)
{
    uint32_t flags = 0, mean = to;
    for (uint32_t i = to; i-- > from;) {
        flags |= flag_at(s, i);
        mean = (flag_at(s, i) & MEAN) != 0 ? i : mean;
    }
    if (p->outer) {
        /* Attention, whatever its name: a softmax of scores, which products come before and
         * after. Lives of the scores' size between these go. */
        const uint32_t product = named ? PRODUCT | HIDDEN : PRODUCT;
        uint64_t bytes = 0;
        uint32_t at = to, first = to, last;
        for (uint32_t m = from; m < to; m++)
            if ((flag_at(s, m) & (SOFTMAX | EXP)) != 0 && may_go(s, m) &&
                s->l->all[m].bytes > bytes)
                bytes = s->l->all[at = m].bytes;
        for (uint32_t m = from; m < at && first == to; m++)
            first = (flag_at(s, m) & product) != 0 && alike(s->l->all[m].bytes, bytes) ? m : to;
        for (last = at; last < to && (flag_at(s, last) & product) == 0;)
            last++;
        /* Copies of what goes in come before the result. */
        while (last + 1 < to && flag_at(s, last + 1) == flag_at(s, last) &&
               line_at(s, last + 1) == line_at(s, last))
            last++;
        for (uint32_t m = first; m < last && last < to; m++)
            if ((m > at ? is_saved(&s->l->all[m]) : may_go(s, m)) &&
                alike(s->l->all[m].bytes, bytes))
                drop_all(s, &s->l->all[m]);
    } else if (!named && p->whole != 0) {
        for (uint32_t j = from; j < to; j++) {
            uint32_t k = j + 1;
            if ((flag_at(s, j) & p->part) == 0 || !is_saved(&s->l->all[j]) ||
                !(p->keeps || keeps_input(s, j)))
                continue;
            const uint32_t end = to - j < NEAR ? to : j + NEAR;
            while (k < end && ((flag_at(s, k) & p->whole) == 0 || !is_saved(&s->l->all[k]) ||
                               s->l->all[k].bytes != s->l->all[j].bytes))
                k++;
            if (k < end)
                drop_all(s, &s->l->all[j]);
        }
    } else if ((flags & FUSED) == 0 && named)
        close_named(s, p, from, to);
    else if ((flags & (FUSED | PRODUCT)) == 0 && mean < to && (flags & p->part) != 0)
        close_named(s, p, mean, to);
}

static void try_pattern(search *s, const pattern *p)
{
    scope of = {0};
    uint32_t from = s->l->n_before;
    for (uint32_t i = 0; i < s->t->n_stacks; i++) {
        /* The innermost function that has such a name, else the innermost. */
        const char *layer = s->t->stacks[i].layer;
        scope found = {0};
        const char *caller = layer;
        for (const char *at = layer, *next; *at != '\0'; caller = at, at = next) {
            const size_t n = strcspn(at, "/"), file = strcspn(at, ":"),
                         name = strcspn(at, " ") + 1;
            next = at + n + (at[n] == '/');
            if (file >= n || name >= n)
                continue;
            const bool inner = *next == '\0';
            bool named = false;
            for (int k = 0; k < 4 && p->names[k] != NULL; k++)
                for (size_t c = name, has = strlen(p->names[k]); c + has <= n; c++)
                    named |= strncmp(at + c, p->names[k], has) == 0 &&
                             (p->outer || c + has == n || at[c + has] == '.');
            if (!(named && (p->outer || inner)) && !(inner && !found.named))
                continue;
            found = (scope){hash(1, caller, (size_t)(at - caller)),
                            strtoul(at + file + 1, NULL, 10), named};
            found.key = hash(hash(found.key, at, file), at + name, n - name) | 1;
        }
        s->scopes[i] = found;
    }
    for (uint32_t i = from; i <= s->l->n; i++) {
        scope is = {0};
        if (i < s->l->n && s->r->phase[s->l->all[i].born] == RUN_FORWARD)
            is = s->scopes[s->l->all[i].stack];
        if (of.key != is.key || is.line < of.line) {
            if (of.key != 0)
                close_call(s, p, from, i, of.named);
            from = i;
        }
        of = is;
    }
}

/* One kernel keeps one copy of the logits: of what a loss makes, the largest that is kept. Of
 * its backward goes what has the size of the logits, and what is small beside them; the last of
 * those is the gradient that any loss makes. */
static void try_loss(search *s)
{
    const trace_lives *l = s->l;
    for (uint32_t from = l->n_before, to; from < l->n; from = to) {
        const trace_life *most = NULL;
        for (to = from; to < l->n && s->r->phase[l->all[to].born] == RUN_LOSS; to++) {
            const trace_life *x = &l->all[to];
            if (x->rule == RULE_SAVED && (most == NULL || x->bytes > most->bytes))
                most = x;
        }
        if (most == NULL) {
            to += to == from;
            continue;
        }
        for (uint32_t k = from; k < to; k++)
            if (&l->all[k] != most &&
                (l->all[k].rule == RULE_SAVED || l->all[k].rule == RULE_TEMPORARY))
                drop_all(s, &l->all[k]);
        uint32_t last = to, end = to;
        for (; end < l->n && s->r->kind[l->all[end].born] == RUN_BACKWARD; end++) {
            if (l->all[end].bytes != most->bytes && l->all[end].bytes > most->bytes / 16)
                break;
            last = l->all[end].bytes == most->bytes ? end : last;
        }
        for (uint32_t k = to; k < last; k++)
            if (l->all[k].rule == RULE_TEMPORARY)
                drop_all(s, &l->all[k]);
    }
}

/* ---- all of it --------------------------------------------------------------------------- */

SW_ORDER(by_gain, replan_help, SW_FALLS(bytes), SW_RISES(change))

static sw_status try_all(search *s, replan_help *found, uint32_t *n, uint64_t reserved,
                         uint64_t expandable)
{
    *n = 0;
    s->now = (replan_help){.stack = TRACE_NONE};
    for (uint32_t i = 0; i <= s->l->n_positions; i++)
        s->peak = s->live[i] > s->peak ? s->live[i] : s->peak;
    s->looks = 1000 * (uint64_t)s->l->n; /* a file may have as many sizes as tensors */
    for (uint32_t j = 0; j < s->r->n_positions; j++)
        s->ends[s->r->region[j]] = j + 1;
    for (uint32_t j = 0; j < s->l->n; j++)
        if (s->l->all[j].rule == RULE_GRADIENT) {
            /* Forward that follows an update, or that the trace begins in. */
            const uint32_t end =
                s->l->all[j].dead < s->r->n_positions ? s->l->all[j].dead : s->r->n_positions;
            const bool zeroed = s->l->all[j].dead < s->l->n_positions &&
                                (s->t->stacks[s->t->events[s->l->all[j].dead - 1].stack].facts &
                                 FRAMES_ZERO_GRAD) != 0;
            for (uint32_t from = s->l->all[j].born, to; from < end && s->looks > 0; from = to) {
                to = s->ends[s->r->region[from]] < end ? s->ends[s->r->region[from]] : end;
                s->looks--;
                const bool updated = from > 0 && s->r->region[from] != s->r->region[from - 1] &&
                                     s->r->kind[from - 1] == RUN_UPDATE;
                if (s->r->kind[from] != RUN_FORWARD ||
                    !(updated || (from == 0 && zeroed && to == s->l->all[j].dead)))
                    continue;
                if (to < end)
                    SW_TRY(write_again(s, &s->l->all[j], to, &to));
                drop(s, &s->l->all[j], from, to);
            }
        }
    s->now.n = s->looks > 0 ? s->now.n : 0; /* the rest is not cut */
    judge(s, HELP_ZERO_GRAD, found, n);
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
        try_pattern(s, &patterns[p]);
        judge(s, patterns[p].change, found, n);
    }
    try_loss(s);
    judge(s, HELP_LOSS, found, n);
    /* Of each update all temporaries but the largest. */
    const trace_life *largest = NULL;
    for (uint32_t k = s->l->n_before; k < s->l->n; k++) {
        const trace_life *x = &s->l->all[k];
        if (x->rule != RULE_TEMPORARY || s->r->kind[x->born] != RUN_UPDATE ||
            (s->t->stacks[x->stack].facts & FRAMES_FOREACH) == 0)
            continue;
        if (largest == NULL || s->r->region[x->born] != s->r->region[largest->born]) {
            largest = x;
            continue;
        }
        drop_all(s, x->bytes > largest->bytes ? largest : x);
        largest = x->bytes > largest->bytes ? x : largest;
    }
    judge(s, HELP_FOREACH, found, n);
    if (expandable > 0 && expandable < reserved && reserved - expandable > reserved / WORTH)
        found[(*n)++] = (replan_help){
            .change = HELP_EXPANDABLE, .bytes = reserved - expandable, .stack = TRACE_NONE};
    qsort(found, *n, sizeof *found, by_gain);
    *n = *n < REPLAN_HELPS ? *n : REPLAN_HELPS;
    return SW_OK;
}

sw_status replan_help_find(replan_help out[REPLAN_HELPS], uint32_t *n, const snapshot_trace *t,
                           const trace_lives *l, uint64_t reserved, uint64_t expandable)
{
    replan_help found[REPLAN_CHANGES];
    search s = {.t = t, .l = l, .r = &l->roles};
    const size_t n_less = (size_t)l->n_positions + 1;
    const size_t bytes = n_less * (sizeof *s.less + sizeof *s.ends) +
                         t->n_stacks * (sizeof *s.scopes + sizeof *s.flags);
    SW_TRY(trace_lives_curve(l, &s.live));
    sw_status status = sw_heap_alloc(&s.less, SW_HEAP_PROFILE, bytes);
    if (status == SW_OK) {
        s.scopes = (scope *)(s.less + n_less);
        s.ends = (uint32_t *)(s.scopes + t->n_stacks);
        s.flags = s.ends + n_less;
        for (uint32_t i = 0; i < t->n_stacks; i++)
            s.flags[i] = flag_of(t->stacks[i].op);
        status = try_all(&s, found, n, reserved, expandable);
        sw_heap_free(s.less, SW_HEAP_PROFILE, bytes);
    }
    if (status == SW_OK)
        memcpy(out, found, *n * sizeof *out);
    number_map_free(&s.written);
    trace_lives_curve_free(l, s.live);
    return status;
}
