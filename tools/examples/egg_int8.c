/* A byte-level language model that learns with integers alone, in the manner of nano-egg:
 * weights of int8 with four fraction bits, products of int8, sums of int32, shifts. No gradient
 * is made. Pairs of copies with noise +n and -n, by a counter, read some text; each pair votes
 * for the sign with the smaller loss; a weight moves by one where the votes times its noise add
 * up to more than chance would have them.
 *
 *     train_egg_int8 [FILE [SECONDS [THREADS]]]
 *
 * Without a FILE it reads numbers in words, which it writes itself, for five seconds.
 *
 * The pairs are shared out among members of a group whose step is a callback: what a member
 * needs is its state, so all memory is there, and known, before the first step. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <stepwell.h>

enum {
    WIDTH = 32,    /* of the hidden state */
    SYMBOLS = 256, /* bytes that may occur */
    PAIRS = 1024,  /* of a generation */
    LENGTH = 32,   /* bytes that a copy reads */
    MEMBERS = 16,  /* that share the pairs */
    Z2 = 3,        /* votes must be more than sqrt(Z2) standard deviations from 0 */
    FRACTION = 4,  /* bits */
    SAMPLE = 20000 /* bytes of the test */
};

/* in (symbols, WIDTH), again (WIDTH, WIDTH), out (symbols, WIDTH), bias (symbols): one list. */
typedef struct {
    int64_t in, again, out, bias, n;
} places;
enum { MOST = 2 * SYMBOLS * WIDTH + WIDTH * WIDTH + SYMBOLS };

/* All members read these; each writes the votes of its pairs, or its own weights. */
typedef struct {
    const uint8_t *text; /* as symbols */
    int64_t n_train;
    int symbols, updates; /* updates 1: the weights, 0: the votes */
    places at;
    uint64_t step;
    int8_t weights[MOST], votes[PAIRS];
} world;

/* The state of a member: the copies that it reads with, and sums of votes. */
typedef struct {
    int16_t plus[MOST], minus[MOST]; /* int8 numbers, as wide as products */
    int32_t sum[(MOST + MEMBERS - 1) / MEMBERS + 16];
} work;

/* ---- noise by counter ----------------------------------------------------------------------
 */

static uint64_t hash(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u ^ b * 0xc2b2ae3d27d4eb4fu ^ c * 0x165667b19e3779f9u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The noise of sixteen weights: bits that are set in each four, less two: mean 0, variance 1.
 */
static void noise_of(int8_t to[16], uint64_t step, int64_t pair, int64_t block)
{
    uint64_t v = hash(step, (uint64_t)pair + 1, (uint64_t)block + 1);
    v -= v >> 1 & 0x5555555555555555u;
    v = (v & 0x3333333333333333u) + (v >> 2 & 0x3333333333333333u);
    const uint64_t half[2] = {v & 0x0f0f0f0f0f0f0f0fu, v >> 4 & 0x0f0f0f0f0f0f0f0fu};
    memcpy(to, half, 16);
    for (int i = 0; i < 16; i++)
        to[i] = (int8_t)(to[i] - 2);
}

static int32_t clip(int32_t x)
{
    return x > 127 ? 127 : x < -127 ? -127 : x;
}

/* ---- the model -----------------------------------------------------------------------------
 */

/* 2^(i / 16) and, filled at the start, log2(1 + i / 256) in 1/256: integers too. */
static const uint32_t power[16] = {65536,  68438,  71468,  74632, 77936,  81386,
                                   84990,  88752,  92682,  96785, 101070, 105545,
                                   110218, 115098, 120194, 125515};
static int32_t log_of[256];

static void fill_logs(void)
{
    for (int i = 0; i < 256; i++) {
        uint64_t x = (uint64_t)(256 + i) << 22; /* 1 is 2^30: a square at a time, a bit */
        for (int bit = 0; bit < 8; bit++) {
            x = x * x >> 30;
            log_of[i] = log_of[i] * 2 + (x >> 31 != 0);
            x >>= x >> 31 != 0;
        }
    }
}

static int32_t dot(const int16_t *a, const int16_t *b)
{
    int32_t sum = 0;
    for (int i = 0; i < WIDTH; i++)
        sum += (int32_t)a[i] * b[i];
    return sum;
}

/* h = clip(in of the symbol + again h). */
static void read_symbol(const world *w, const int16_t *weights, int16_t h[WIDTH], int symbol)
{
    int16_t next[WIDTH];
    const int16_t *in = weights + w->at.in + symbol * WIDTH, *again = weights + w->at.again;
    for (int i = 0; i < WIDTH; i++)
        next[i] = (int16_t)clip(in[i] + (dot(again + i * WIDTH, h) >> FRACTION));
    memcpy(h, next, sizeof next);
}

/* Bits that the next symbol costs, in 1/256: log2 of a sum of powers of two, in integers. */
static int32_t cost_of(const world *w, const int16_t *weights, const int16_t h[WIDTH],
                       int symbol)
{
    int32_t z[SYMBOLS], most = INT32_MIN;
    uint64_t sum = 0;
    for (int s = 0; s < w->symbols; s++) {
        z[s] = weights[w->at.bias + s] + (dot(weights + w->at.out + s * WIDTH, h) >> FRACTION);
        most = z[s] > most ? z[s] : most;
    }
    for (int s = 0; s < w->symbols; s++) {
        const int32_t below = most - z[s], whole = (below + 15) >> FRACTION;
        if (whole < 32)
            sum += (uint64_t)power[(whole << FRACTION) - below] << 14 >> whole;
    }
    const int top = 63 - __builtin_clzll(sum);
    return (top - 30) * 256 + log_of[sum >> (top - 8) & 255u] + (most - z[symbol]) * 16;
}

static int64_t cost_of_text(const world *w, const int16_t *weights, int64_t from, int64_t n)
{
    int16_t h[WIDTH] = {0};
    int64_t cost = 0;
    for (int64_t i = from; i < from + n; i++) {
        read_symbol(w, weights, h, w->text[i]);
        cost += cost_of(w, weights, h, w->text[i + 1]);
    }
    return cost;
}

/* ---- a generation --------------------------------------------------------------------------
 */

/* The two copies of a pair. */
static void perturb(const world *w, work *to, int64_t pair)
{
    int8_t noise[16];
    for (int64_t i = 0; i < w->at.n; i += 16) { /* the list ends after a whole block */
        noise_of(noise, w->step, pair, i / 16);
        for (int k = 0; k < 16; k++)
            to->plus[i + k] = (int16_t)clip(w->weights[i + k] + noise[k]);
        for (int k = 0; k < 16; k++)
            to->minus[i + k] = (int16_t)clip(w->weights[i + k] - noise[k]);
    }
}

static void vote(world *w, work *own, int64_t pair)
{
    const uint64_t span = (uint64_t)(w->n_train - LENGTH - 1);
    const int64_t from = (int64_t)(hash(w->step, (uint64_t)pair + 1, 0) % span);
    perturb(w, own, pair);
    const int64_t plus = cost_of_text(w, own->plus, from, LENGTH);
    const int64_t minus = cost_of_text(w, own->minus, from, LENGTH);
    w->votes[pair] = (int8_t)((minus > plus) - (minus < plus));
}

/* Move weights [from, to), whole blocks, by the votes. */
static void update(world *w, work *own, int64_t from, int64_t to)
{
    int64_t voted = 0;
    memset(own->sum, 0, sizeof own->sum);
    for (int64_t pair = 0; pair < PAIRS; pair++) {
        const int sign = w->votes[pair];
        voted += sign != 0;
        for (int64_t i = from; sign != 0 && i < to; i += 16) {
            int8_t noise[16];
            noise_of(noise, w->step, pair, i / 16);
            for (int k = 0; k < 16; k++)
                own->sum[i - from + k] += sign * noise[k];
        }
    }
    for (int64_t i = from; i < to; i++) {
        const int64_t z = own->sum[i - from];
        if (z * z > Z2 * voted)
            w->weights[i] = (int8_t)clip(w->weights[i] + (z > 0 ? 1 : -1));
    }
}

static sw_status turn(sw_member_view *view, void *user)
{
    world *w = user;
    const int64_t blocks = w->at.n / 16, k = (int64_t)view->seed;
    if (w->updates)
        update(w, view->state, blocks * k / MEMBERS * 16, blocks * (k + 1) / MEMBERS * 16);
    else
        for (int64_t pair = PAIRS * k / MEMBERS; pair < PAIRS * (k + 1) / MEMBERS; pair++)
            vote(w, view->state, pair);
    view->score = 0;
    return SW_OK;
}

/* ---- text ----------------------------------------------------------------------------------
 */

static uint8_t *read_text(const char *path, int64_t *n)
{
    FILE *file = fopen(path, "rb");
    uint8_t *text = NULL;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0 && (*n = ftell(file)) > 0) {
        rewind(file);
        text = malloc((size_t)*n);
        if (text != NULL && fread(text, 1, (size_t)*n, file) != (size_t)*n) {
            free(text);
            text = NULL;
        }
    }
    if (file != NULL)
        fclose(file);
    return text;
}

/* Numbers in words. */
static uint8_t *write_text(int64_t *n)
{
    static const char *const digits[10] = {"zero ", "one ", "two ",   "three ", "four ",
                                           "five ", "six ", "seven ", "eight ", "nine "};
    uint8_t *text = malloc(200000);
    *n = 0;
    for (uint64_t i = 0; text != NULL && *n < 200000 - 8; i++) {
        const char *word = digits[hash(3, 4, i) % 10];
        memcpy(text + *n, word, strlen(word));
        *n += (int64_t)strlen(word);
    }
    return text;
}

/* Bytes become symbols, numbered as they come; how many there are. */
static int number(uint8_t *text, int64_t n)
{
    int symbol[SYMBOLS], symbols = 0;
    for (int i = 0; i < SYMBOLS; i++)
        symbol[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        if (symbol[text[i]] < 0)
            symbol[text[i]] = symbols++;
        text[i] = (uint8_t)symbol[text[i]];
    }
    return symbols;
}

/* log2(a / b) in 1/256, rounded down by the table: a and b above 0. */
static int64_t log_ratio(uint64_t a, uint64_t b)
{
    const uint64_t x = (a << 24) / b;
    const int top = 63 - __builtin_clzll(x | 256);
    return (top - 24) * 256 + log_of[(top >= 8 ? x >> (top - 8) : x << (8 - top)) & 255u];
}

/* The cost of the test by counts of the training text, one more than there are: of symbols, and
 * of symbols one after the other. */
static void count_text(const world *w, int64_t n, double *unigram, double *bigram)
{
    static uint32_t one[SYMBOLS], two[SYMBOLS][SYMBOLS];
    const uint64_t s = (uint64_t)w->symbols;
    int64_t cost[2] = {0};
    for (int64_t i = 0; i + 1 < w->n_train; i++) {
        one[w->text[i]]++;
        two[w->text[i]][w->text[i + 1]]++;
    }
    for (int64_t i = w->n_train; i < w->n_train + n; i++) {
        const int a = w->text[i], b = w->text[i + 1];
        cost[0] -= log_ratio((uint64_t)one[b] + 1, (uint64_t)w->n_train + s);
        cost[1] -= log_ratio((uint64_t)two[a][b] + 1, (uint64_t)one[a] + s);
    }
    *unigram = (double)cost[0] / 256 / (double)n;
    *bigram = (double)cost[1] / 256 / (double)n;
}

/* ---- training ------------------------------------------------------------------------------
 */

static void begin(world *w)
{
    const int64_t table = (int64_t)w->symbols * WIDTH;
    w->at = (places){0, table, table + WIDTH * WIDTH, 2 * table + WIDTH * WIDTH, 0};
    w->at.n = (w->at.bias + w->symbols + 15) / 16 * 16;
    for (int64_t i = 0; i < w->at.out; i++) { /* out and bias begin at 0 */
        const int r = (int)(hash(1, 2, (uint64_t)i) >> 40);
        w->weights[i] = (int8_t)(i < table ? r % 33 - 16 : r % 3 - 1);
    }
}

static double test(const world *w, int64_t n)
{
    static int16_t copy[MOST];
    for (int64_t i = 0; i < w->at.n; i++)
        copy[i] = w->weights[i];
    return (double)cost_of_text(w, copy, w->n_train, n) / 256 / (double)n;
}

static double seconds(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int train(world *w, int64_t n_test, double limit, int threads)
{
    sw_members_opts of = {.size = sizeof of, .callback = turn, .state_bytes = sizeof(work)};
    const sw_exec_opts how = {.size = sizeof how, .threads = threads};
    sw_exec *exec = NULL;
    sw_model *shape = NULL;
    sw_members *group = NULL;
    sw_member member[MEMBERS];
    of.user = w;
    int bad = sw_exec_create(&exec, &how) || sw_model_create(&shape, "egg");
    sw_knob_new(shape, "none", 0);
    of.shape = shape;
    bad = bad || sw_members_create(&group, exec, &of);
    for (int k = 0; k < MEMBERS && !bad; k++)
        bad = sw_member_new(&member[k], group, (uint64_t)k);
    if (!bad)
        printf("%lld weights of int8; %d members of %zu bytes; nothing more is asked for\n",
               (long long)w->at.n, MEMBERS, sw_members_bytes(group));
    const double start = seconds();
    double now = 0, told = 0;
    sw_members_args run = {.size = sizeof run, .members = member, .n = MEMBERS};
    for (w->step = 1; !bad && now < limit; w->step++) {
        run.step = w->step;
        w->updates = 0;
        bad = sw_members_run(group, &run);
        w->updates = 1;
        bad = bad || sw_members_run(group, &run);
        now = seconds() - start;
        if (now > told || now >= limit) {
            printf("%6.1f s  generation %6llu  %.3f bits per byte\n", now,
                   (unsigned long long)w->step, test(w, n_test));
            fflush(stdout);
            told += limit / 12;
        }
    }
    if (bad)
        fprintf(stderr, "%s\n", sw_last_error());
    sw_members_destroy(group), sw_model_destroy(shape), sw_exec_destroy(exec);
    return bad;
}

int main(int argc, char **argv)
{
    static world w;
    int64_t n = 0;
    double unigram, bigram;
    uint8_t *text = argc > 1 ? read_text(argv[1], &n) : write_text(&n);
    if (text == NULL || n < 20 * LENGTH) {
        fprintf(stderr, "%s: must be a text of at least %d bytes\n", argc > 1 ? argv[1] : "egg",
                20 * LENGTH);
        free(text);
        return 2;
    }
    fill_logs();
    w.symbols = number(text, n);
    w.text = text;
    w.n_train = n - n / 10 < n - SAMPLE - 1 ? n - SAMPLE - 1 : n - n / 10;
    if (n / 10 < SAMPLE)
        w.n_train = n - n / 10;
    const int64_t n_test = n - w.n_train - 1 < SAMPLE ? n - w.n_train - 1 : SAMPLE;
    begin(&w);
    count_text(&w, n_test, &unigram, &bigram);
    printf(
        "%lld bytes held back: %.3f bits each by counts of symbols, %.3f by counts of pairs\n",
        (long long)n_test, unigram, bigram);
    const int bad = train(&w, n_test,
                          argc > 2   ? atof(argv[2])
                          : argc > 1 ? 60
                                     : 5,
                          argc > 3 ? atoi(argv[3]) : 2);
    free(text);
    return bad;
}
