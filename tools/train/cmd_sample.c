/* stepwell sample: text from parameters that `train --model gpt` has saved.
 *
 * The last `context` bytes stand in a window of one fixed shape, so one plan serves all; what
 * is behind the text in it is not seen, since attention is causal. Each byte is drawn from the
 * scores in the row of the last one: Philox by seed and number, the same text for any number of
 * threads. */
#include "alloc/base/mem.h"
#include "kernels/rng.h"
#include "tools/models/models.h"
#include <math.h>
#include <string.h>

enum { BYTES = 256 }; /* ids that stand for a byte; others are never drawn */

typedef struct {
    tool_settings settings;
    const char *load, *prompt;
    int64_t tokens, top_k, seed, threads;
    double temperature;
    bool quiet;
} sample_opts;

typedef struct {
    const sample_opts *opts;
    gpt_shape shape;
    sw_exec *exec;
    sw_model *model;
    gpt_net *net;
    int32_t *window; /* context ids */
    int64_t filled;  /* of them */
} sampler;

/* ---- drawing ----------------------------------------------------------------------------- */

/* Whether fewer than k have a higher score, or the same and a smaller number. */
static bool among(const float *scores, int n, int i, int64_t k)
{
    int64_t above = 0;
    for (int j = 0; j < n; j++)
        above += scores[j] > scores[i] || (scores[j] == scores[i] && j < i);
    return above < k;
}

/* A byte by its scores; `u` in [0, 1). -1 where they are no numbers. */
static int draw(const float *scores, int n, const sample_opts *o, double u)
{
    double share[BYTES], total = 0.0;
    int best = 0;
    for (int i = 1; i < n; i++)
        best = scores[i] > scores[best] ? i : best;
    if (o->temperature == 0.0)
        return scores[best] == scores[best] ? best : -1;
    for (int i = 0; i < n; i++) {
        const bool taken = o->top_k == 0 || among(scores, n, i, o->top_k);
        const double less = ((double)scores[i] - (double)scores[best]) / o->temperature;
        share[i] = taken ? exp(less) : 0.0;
        total += share[i];
    }
    if (!(total > 0.0 && total < (double)INFINITY))
        return -1;
    double left = u * total;
    int last = best;
    for (int i = 0; i < n; i++) {
        if (share[i] == 0.0)
            continue;
        last = i;
        if (left < share[i])
            break;
        left -= share[i];
    }
    return last;
}

/* ---- the network ------------------------------------------------------------------------- */

static void step(sw_ctx *ctx, void *user)
{
    const sampler *s = user;
    sw_output(ctx, "scores", gpt_net_logits(ctx, s->net, sw_input(ctx, 0)));
}

static void append(sampler *s, int id)
{
    if (s->filled == s->shape.context)
        memmove(s->window, s->window + 1, (size_t)--s->filled * sizeof *s->window);
    s->window[s->filled++] = id;
}

static sw_status next_byte(sampler *s, int64_t number, int *out)
{
    const sw_array input = {
        .dtype = SW_I32, .shape = {2, {1, s->shape.context}}, .data = s->window};
    const sw_run_args args = {.size = sizeof args,
                              .fn = step,
                              .user = s,
                              .models = &s->model,
                              .n_models = 1,
                              .inputs = &input,
                              .n_inputs = 1,
                              .mode = SW_EVAL};
    const int64_t vocabulary = s->shape.vocabulary;
    sw_array scores;
    float u;
    SW_TRY(sw_run(s->exec, &args));
    SW_TRY(sw_output_get(s->exec, "scores", &scores));
    sw_rng_uniform(&u, number, 1, (uint64_t)s->opts->seed, sw_rng_stream("sample"), 0, 0);
    *out = draw((const float *)scores.data + (s->filled - 1) * vocabulary,
                vocabulary < BYTES ? (int)vocabulary : BYTES, s->opts, (double)u);
    if (*out < 0)
        SW_FAIL(SW_INVALID, "%s: the scores of byte %lld are not numbers", s->opts->load,
                (long long)number + 1);
    return SW_OK;
}

/* ---- before, the loop, after ------------------------------------------------------------- */

static sw_status open_model(sampler *s)
{
    const sw_exec_opts exec = {.size = sizeof exec, .threads = (int)s->opts->threads};
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, gpt_net_bytes(s->shape.layers)));
    s->net = block;
    SW_TRY(
        sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)s->shape.context * sizeof *s->window));
    s->window = block;
    SW_TRY(sw_exec_create(&s->exec, &exec));
    SW_TRY(sw_model_create(&s->model, "gpt"));
    gpt_net_declare(s->net, s->model, &s->shape);
    return sw_model_ready(s->model, s->exec, 1);
}

static int prepare(sampler *s)
{
    sw_status status = open_model(s);
    if (status != SW_OK)
        return cli_library_error(status, false);
    status = cli_saved(sw_model_load(s->model, s->opts->load));
    if (status != SW_OK)
        return cli_library_error(status, true);
    for (const char *c = s->opts->prompt; *c != '\0'; c++)
        append(s, (unsigned char)*c);
    return CLI_GO;
}

static int write_text(sampler *s)
{
    const uint64_t start = cli_clock_ns();
    int64_t n = 0;
    for (; n < s->opts->tokens && !cli_interrupted() && !ferror(stdout); n++) {
        int byte = 0;
        const sw_status status = next_byte(s, n, &byte);
        if (status != SW_OK)
            return cli_library_error(status, false);
        append(s, byte);
        putchar(byte);
        if (cli_terminal(stdout))
            fflush(stdout);
    }
    const double seconds = (double)(cli_clock_ns() - start) * 1e-9;
    if (cli_terminal(stdout))
        putchar('\n');
    const int status = cli_finish(cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE);
    if (!s->opts->quiet && n > 0 && status != CLI_FAILED)
        cli_note("%lld bytes in %.2f s: %.0f per second", (long long)n, seconds,
                 (double)n / seconds);
    return status;
}

static void close_all(sampler *s)
{
    sw_model_destroy(s->model);
    sw_exec_destroy(s->exec);
    if (s->window != NULL)
        sw_heap_free(s->window, SW_HEAP_RECORDS, (size_t)s->shape.context * sizeof *s->window);
    if (s->net != NULL)
        sw_heap_free(s->net, SW_HEAP_RECORDS, gpt_net_bytes(s->shape.layers));
}

/* ---- options ----------------------------------------------------------------------------- */

static const char notes[] =
    "The options of the model are those that it was trained with. Exit status: 0 done, 1 "
    "failed, 2 wrong usage, 3 damaged or foreign file, 130 interrupted.";

static int parse(sample_opts *o, int argc, char **argv)
{
    cli_option table[TOOL_SETTINGS + 8];
    const cli_option options[] = {
        {"--load-params", "FILE", CLI_WORD, &o->load, NULL,
         "the parameters that train --model gpt --save-params wrote", 0, 0, NULL},
        {"--prompt", "TEXT", CLI_WORD, &o->prompt, NULL,
         "beginning of the text (default an empty line, which is not printed)", 0, 0, NULL},
        {"--tokens", "N", CLI_COUNT, &o->tokens, "500", "bytes to write after the prompt", 1,
         (int64_t)1 << 40, NULL},
        {"--temperature", "X", CLI_REAL, &o->temperature, "0.8",
         "divide the scores by X: a higher X gives more random text; 0: always the most likely "
         "byte",
         0, 0, NULL},
        {"--top-k", "N", CLI_COUNT, &o->top_k, "0",
         "draw from the N most likely bytes; 0: from all", 0, BYTES, NULL},
        {"--seed", "N", CLI_COUNT, &o->seed, "1", "seed of the random draws", 0, 0, NULL},
        {"--threads", "N", CLI_COUNT, &o->threads, "1",
         "threads that compute; the text is the same for any number", 1, 256, NULL},
        {"--quiet", NULL, CLI_FLAG, &o->quiet, NULL, "do not print the speed", 0, 0, NULL},
    };
    const int n = (int)(sizeof options / sizeof *options);
    tool_model model = tool_gpt;
    model.takes[TOOL_DROPOUT] = NULL; /* training's */
    model.takes[TOOL_VOCABULARY] = "256";
    memcpy(table, options, sizeof options);
    const cli_command command = {
        .name = "sample",
        .usage = "--load-params FILE [options]",
        .about = "Write text that a trained gpt makes of a prompt to standard output.",
        .options = table,
        .n_options = tool_settings_options_of(&model, &o->settings, table, n),
        .notes = notes,
    };
    return cli_parse(&command, argc, argv);
}

static int check(const sample_opts *o, const gpt_shape *shape)
{
    if (o->load == NULL)
        return cli_error(CLI_USAGE, "--load-params FILE must be given: a file that train "
                                    "--model gpt --save-params FILE wrote");
    if (gpt_shape_check(shape) != SW_OK)
        return cli_error(CLI_USAGE, "%s", sw_last_error());
    for (const char *c = o->prompt; *c != '\0'; c++)
        if ((unsigned char)*c >= shape->vocabulary)
            return cli_error(
                CLI_USAGE, "--prompt has the byte %d; the vocabulary of the model has %lld ids",
                (unsigned char)*c, (long long)shape->vocabulary);
    return CLI_GO;
}

int tool_sample(int argc, char **argv)
{
    sample_opts opts = {.prompt = NULL};
    sampler s = {.opts = &opts};
    int status = parse(&opts, argc, argv);
    if (status != CLI_GO)
        return status;
    const bool prompted = opts.prompt != NULL;
    opts.prompt = prompted ? opts.prompt : "\n";
    s.shape = tool_gpt_shape(&opts.settings, BYTES);
    s.shape.dropout = 0.0f;
    status = check(&opts, &s.shape);
    if (status != CLI_GO)
        return status;
    cli_catch_interrupt();
    status = prepare(&s);
    if (status == CLI_GO) {
        if (prompted)
            fputs(opts.prompt, stdout);
        status = write_text(&s);
    }
    close_all(&s);
    return status;
}
