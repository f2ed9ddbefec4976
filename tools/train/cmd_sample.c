/* stepwell sample: text from parameters that `train --model gpt` has saved.
 *
 * Its ids are bytes, or tokens: with a vocabulary, or where the prompt is given as ids. The
 * last `context` ids stand in a window of one fixed shape, so one plan serves all; the rest of
 * it is not seen, since attention is causal. Each id is drawn from the scores in the row of the
 * last one: Philox by seed and number, the same text for any number of threads. */
#include "alloc/base/mem.h"
#include "runtime/data/reader.h"
#include "tools/text/chat.h"
#include "tools/train/sample.h"
#include <stdio.h>
#include <string.h>

/* How tokens write what a text has. */
typedef enum {
    SAMPLE_PLAIN,      /* as it is */
    SAMPLE_BYTE_LEVEL, /* GPT-2's: a character for each byte, U+0120 for a blank */
    SAMPLE_PIECES      /* SentencePiece's: U+2581 for a blank */
} sample_style;

typedef struct {
    swi_vocabulary vocabulary;
    const char **token; /* n, in the order of their ids */
    sample_style style;
} sample_tokens;

/* ---- sample tokens ----------------------------------------------------------------------- */

/* Ids and texts by a vocabulary. A text becomes ids by the longest token at each place. That is
 * one of the ways to write it in tokens, and not always the way of the tokenizer that made the
 * training's ids: who needs that gives the ids. */

static const char blank_byte[] = "\xc4\xa0", blank_piece[] = "\xe2\x96\x81";

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static sw_status sample_tokens_open(sample_tokens *t, const char *path)
{
    SW_TRY(swi_vocabulary_read(&t->vocabulary, path, 0));
    SW_TRY(sw_heap_alloc(&t->token, SW_HEAP_FILES, (size_t)t->vocabulary.n * sizeof *t->token));
    const char *at = t->vocabulary.text;
    for (int64_t i = 0; i < t->vocabulary.n; i++, at += strlen(at) + 1) {
        t->token[i] = at;
        if (begins(at, blank_byte))
            t->style = SAMPLE_BYTE_LEVEL;
        else if (begins(at, blank_piece) && t->style == SAMPLE_PLAIN)
            t->style = SAMPLE_PIECES;
    }
    return SW_OK;
}

/* How a byte of a text stands in tokens; ended by a zero. */
static void write_byte(sample_style style, int byte, char to[4])
{
    const int c = style == SAMPLE_BYTE_LEVEL ? byte_character(byte) : 0;
    if (style == SAMPLE_PIECES && byte == ' ')
        memcpy(to, blank_piece, sizeof blank_piece);
    else if (c < 0x80)
        snprintf(to, 4, "%c", byte);
    else
        snprintf(to, 4, "%c%c", 0xc0 | c >> 6, 0x80 | (c & 0x3f));
}

/* ---- from texts -------------------------------------------------------------------------- */

/* How many bytes of `text` the token is the writing of; 0: it does not go on so. */
static size_t matches(sample_style style, const char *text, const char *token)
{
    size_t n = 0;
    while (*token != '\0' && text[n] != '\0') {
        char as[4];
        write_byte(style, (unsigned char)text[n], as);
        if (!begins(token, as))
            return 0;
        token += strlen(as);
        n++;
    }
    return *token == '\0' ? n : 0;
}

/* Call `take` with the ids of a text: at each place the longest token that the text goes on
 * with. SW_INVALID where there is none. */
static sw_status sample_tokens_encode(const sample_tokens *t, const char *text,
                                      void (*take)(void *context, int id), void *context)
{
    for (const char *at = text; *at != '\0';) {
        size_t longest = 0;
        int id = 0;
        for (int64_t i = 0; i < t->vocabulary.n; i++) {
            const size_t n = matches(t->style, at, t->token[i]);
            if (n > longest) {
                longest = n;
                id = (int)i;
            }
        }
        if (longest == 0)
            SW_FAIL(SW_INVALID, "no token of the vocabulary begins as byte %zu of the prompt",
                    (size_t)(at - text) + 1);
        take(context, id);
        at += longest;
    }
    return SW_OK;
}

enum { BYTES = 256 }; /* ids that stand for a byte; of a text no others are drawn */

typedef struct {
    const sample_opts *opts;
    gpt_shape shape;
    sw_exec *exec;
    sw_model *model;
    gpt_net *net;
    int32_t *window; /* context ids */
    int64_t filled;  /* of them */
    bool by_token;   /* ids are tokens, not bytes */
    sample_tokens tokens;
    sample_draws draws;
    bool prompted; /* by a text */
    bool begun;    /* an id was written */
} sampler;

static bool draws_tokens(const sample_opts *o)
{
    return o->vocab != NULL || o->prompt_ids.n > 0;
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

static sw_status next_id(sampler *s, int64_t number, int *out)
{
    const sw_array input = {
        .dtype = SW_I32, .shape = {2, {1, s->shape.context}}, .data = s->window};
    const sw_run_args args =
        SW_OPTS(sw_run_args, .fn = step, .user = s, .models = &s->model, .n_models = 1,
                .inputs = &input, .n_inputs = 1, .mode = SW_EVAL);
    const int64_t vocabulary = s->shape.vocabulary;
    sw_array scores;
    SW_TRY(sw_run(s->exec, &args));
    SW_TRY(sw_output_get(s->exec, "scores", &scores));
    *out = sample_draw(&s->draws, s->opts,
                       (const float *)scores.data + (s->filled - 1) * vocabulary, number);
    if (*out < 0)
        SW_FAIL(SW_INVALID, "%s: the scores of %s %lld are not numbers", s->opts->load,
                s->by_token ? "token" : "byte", (long long)number + 1);
    return SW_OK;
}

/* ---- before, the loop, after ------------------------------------------------------------- */

static sw_status open_model(sampler *s)
{
    sw_exec_opts exec = s->opts->job.exec;
    exec.size = sizeof exec;
    exec.threads = (int)s->opts->threads;
    SW_TRY(sw_heap_alloc(&s->net, SW_HEAP_RECORDS, gpt_net_bytes(s->shape.layers)));
    SW_TRY(sw_heap_alloc(&s->window, SW_HEAP_RECORDS,
                         (size_t)s->shape.context * sizeof *s->window));
    SW_TRY(sample_draws_open(&s->draws, s->draws.ids));
    SW_TRY(sw_exec_create(&s->exec, &exec));
    SW_TRY(sw_model_create(&s->model, "gpt"));
    gpt_net_declare(s->net, s->model, &s->shape);
    return sw_model_ready(s->model, s->exec, 1);
}

static void take(void *sampler_, int id)
{
    append(sampler_, id);
}

/* An id, as it is written: a byte, the token's text, or a number. */
static void put_id(sampler *s, int id)
{
    if (!s->by_token)
        putchar(id);
    else if (s->tokens.token != NULL) {
        /* The text of an id; nothing of one that has none. */
        FILE *to = stdout;
        const char *at = id < s->tokens.vocabulary.n ? s->tokens.token[id] : "";
        while (*at != '\0') {
            int c = (unsigned char)*at, n = 1;
            if ((c & 0xe0) == 0xc0 && (at[1] & 0xc0) == 0x80) {
                c = (c & 0x1f) << 6 | (at[1] & 0x3f);
                n = 2;
            }
            const bool character = s->tokens.style == SAMPLE_BYTE_LEVEL && (c < 0x80 || n == 2);
            const int byte = character ? character_byte(c) : -1;
            if (byte >= 0) {
                putc(byte, to);
                at += n;
            } else if (s->tokens.style == SAMPLE_PIECES && begins(at, blank_piece)) {
                putc(' ', to);
                at += strlen(blank_piece);
            } else {
                putc(*at++, to);
            }
        }
    } else
        printf("%s%d", s->begun ? " " : "", id);
    s->begun = true;
}

static int write_text(sampler *s)
{
    const uint64_t start = cli_clock_ns();
    int64_t n = 0;
    for (; n < s->opts->tokens && !cli_interrupted() && !ferror(stdout); n++) {
        int id = 0;
        const sw_status status = next_id(s, n, &id);
        CLI_LIBRARY(status, false);
        append(s, id);
        put_id(s, id);
        if (cli_terminal(stdout))
            fflush(stdout);
    }
    const double seconds = (double)(cli_clock_ns() - start) * 1e-9;
    if (cli_terminal(stdout) || (s->by_token && s->tokens.token == NULL))
        putchar('\n');
    const int status = cli_finish(cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE);
    if (!s->opts->quiet && n > 0 && status != CLI_FAILED)
        cli_note("%lld %s in %.2f s: %.0f per second", (long long)n,
                 s->by_token ? "tokens" : "bytes", seconds, (double)n / seconds);
    return status;
}

/* ---- options ----------------------------------------------------------------------------- */

static const char notes[] =
    "With --vocab the model's ids are tokens, as train --data tokens:FILE reads them: the "
    "prompt becomes ids by the longest token at each place, and what is drawn is written as "
    "text. With --prompt-ids alone ids are written as numbers.\n"
    "The options of the model must be those of the training; the file notes --context, "
    "--vocabulary, --precision and --bf16-order.\n"
    "With --model hf:DIR the prompt is a text (--prompt), a turn of the user (--chat), or ids "
    "(--prompt-ids; ids are then written as numbers), else the model's first token. It goes on "
    "up to an end token of config.json or generation_config.json, or the end of the context. "
    "Keys and values of the ids before are kept, so each id takes one row; plan --model hf:DIR "
    "--sample says the bytes. A repetition_penalty is not applied. Exit status: 0 done, 1 "
    "failed, 2 wrong usage, 3 damaged or foreign file, 4 does not fit the memory, 130 "
    "interrupted.";

static int parse(sample_opts *o, int argc, char **argv)
{
    static const char *const models[] = {"gpt", "hf:", NULL};
    cli_option table[TOOL_SETTINGS + 15 + JOB_OPTIONS_MAX];
    const cli_option options[] = {
        {"--model", "NAME", CLI_WORD, &o->model, "gpt",
         "gpt, or hf:DIR: a folder of transformers, or hf:ORG/NAME of the hub's cache", 0, 0,
         models},
        {"--load-params", "FILE", CLI_WORD, &o->load, NULL,
         "the parameters that train --model gpt --save-params wrote"},
        {"--prompt", "TEXT", CLI_WORD, &o->prompt, NULL,
         "beginning of the text (default an empty line, which is not printed; hf: the begin "
         "token)"},
        {"--prompt-ids", "LIST", CLI_LIST, &o->prompt_ids, NULL,
         "beginning as ids of tokens: 464,2068", 0, INT32_MAX - 1, NULL},
        {"--chat", "TEXT", CLI_WORD, &o->chat, NULL,
         "hf: a turn of the user, which the model answers"},
        {"--chat-template", "NAME", CLI_WORD, &o->chat_template, NULL,
         "with --chat: how a conversation is written (default as the folder has it, where that "
         "template is known)",
         0, 0, chat_templates, .with = "--chat"},
        {"--merge", "DIR", CLI_WORD, &o->merge, NULL,
         "hf: write the folder with the weights of --adapter in its own, instead of a text",
         .excludes = "--prompt --chat --prompt-ids --tokens --temperature --top-k --top-p "
                     "--seed --weights --context"},
        {"--vocab", "FILE", CLI_WORD, &o->vocab, NULL,
         "which token an id stands for, as in train: {token: id}, or a token per line"},
        {"--tokens", "N", CLI_COUNT, &o->tokens, "500",
         "bytes, or tokens, to write after the prompt", 1, (int64_t)1 << 40, NULL},
        {"--temperature", "X", CLI_REAL, &o->temperature, NULL,
         "divide the scores by X: a higher X gives more random text; 0: always the most likely "
         "one (default 0.8; hf: as generation_config.json says, else 0)"},
        {"--top-k", "N", CLI_COUNT, &o->top_k, NULL,
         "draw from the N most likely bytes, or tokens; 0: from all (default 0; hf: as "
         "generation_config.json says, else 50)",
         0, INT32_MAX - 1, NULL},
        {"--top-p", "X", CLI_REAL, &o->top_p, NULL,
         "draw from the most likely ones that together have the probability X; 1: from all "
         "(default 1; hf: as generation_config.json says, else 1)"},
        {"--seed", "N", CLI_COUNT, &o->seed, "1", "seed of the random draws"},
        {"--threads", "N", CLI_COUNT, &o->threads, NULL,
         "threads that compute; the text is the same for any number (default 1; hf: all "
         "processors)",
         1, 256, NULL},
        {"--quiet", NULL, CLI_FLAG, &o->quiet, NULL, "do not print the speed"},
    };
    const job_help help[] = {{&o->job.precision, JOB_PRECISION_TAKEN},
                             {&o->job.budget_bytes,
                              "with --model hf:DIR: hard limit for weights, cache and arena "
                              "together (default none)"}};
    int n = (int)(sizeof options / sizeof *options);
    tool_model model = tool_gpt;
    model.takes[TOOL_DROPOUT] = NULL;                              /* training's */
    model.takes[TOOL_VOCABULARY] = model.takes[TOOL_CONTEXT] = ""; /* as the file says */
    model.takes[TOOL_WEIGHTS] = model.takes[TOOL_ADAPTER] = "";    /* hf's */
    o->temperature = o->top_p = -1.0;
    o->top_k = -1;
    memcpy(table, options, sizeof options);
    n += job_options_but(&o->job, table + n, "--precision --bf16-order --memory-budget", false,
                         help, 2);
    o->job.device = "cpu";
    const cli_command command = {
        .name = "sample",
        .usage = "(--load-params FILE | --model hf:DIR) [options]",
        .about = "Continue a prompt with a trained gpt, or the model of a folder of "
                 "transformers, and write the text to standard output.",
        .options = table,
        .n_options = tool_settings_options_of(&model, &o->settings, table, n),
        .notes = notes,
    };
    for (int i = n; i < command.n_options; i++) {
        if (table[i].to == &o->settings.context)
            table[i].help =
                "positions that attention sees (default as the file says, else 128; hf: as "
                "the model has, at most 1024)";
        if (table[i].to == &o->settings.vocabulary)
            table[i].help = "number of ids (default as the file says, else the tokens of "
                            "--vocab, else 256)";
    }
    CLI_TRY(cli_parse(&command, argc, argv));
    if (o->top_p == 0.0 || o->top_p > 1.0)
        return cli_error(CLI_USAGE, "--top-p must be above 0 and at most 1 (got %g)", o->top_p);
    return job_take_budget(&o->job);
}

/* Of gpt: what only hf takes was not given, and defaults. */
static int settle(sample_opts *o)
{
    const char *alone = cli_given("--adapter --weights --memory-budget --chat --merge");
    if (alone != NULL)
        return cli_error(CLI_USAGE, "%s has no effect without --model hf:DIR", alone);
    o->temperature = o->temperature < 0.0 ? 0.8 : o->temperature;
    o->top_k = o->top_k < 0 ? 0 : o->top_k;
    o->top_p = o->top_p < 0.0 ? 1.0 : o->top_p;
    o->threads = o->threads == 0 ? 1 : o->threads;
    return CLI_GO;
}

/* Options that are not given are as the file says, or as in train. */
static int take_note(sample_opts *o)
{
    const sw_status status = job_trained_read(&o->trained, o->load);
    const job_trained *t = &o->trained;
    CLI_LIBRARY(status, true);
    o->noted = t->sequences && o->settings.vocabulary == 0;
    if (o->noted)
        o->settings.vocabulary = t->vocabulary;
    if (t->sequences && o->settings.context == 0)
        o->settings.context = t->sample.shape.dim[0];
    if (o->noted && t->sample.dtype != SW_U8 && !draws_tokens(o))
        return cli_error(CLI_USAGE,
                         "%s was trained on %lld ids of tokens: --vocab FILE says which text "
                         "each stands for, --prompt-ids gives ids",
                         o->load, (long long)t->ids);
    return tool_settings_complete(&tool_gpt, &o->settings);
}

/* The vocabulary of the training has all its ids, and no more than the model knows. */
static int check_tokens(const sampler *s)
{
    const sample_opts *o = s->opts;
    const int64_t tokens = s->tokens.vocabulary.n;
    if (s->tokens.token == NULL)
        return CLI_GO;
    if (o->noted && (tokens < o->trained.ids || tokens > s->shape.vocabulary))
        return cli_error(CLI_USAGE,
                         "%s has %lld tokens, and %s was trained on %lld ids of %lld: --vocab "
                         "must be the vocabulary of the training",
                         o->vocab, (long long)tokens, o->load, (long long)o->trained.ids,
                         (long long)s->shape.vocabulary);
    if (tokens > s->shape.vocabulary)
        return cli_error(CLI_USAGE,
                         "--vocabulary must be at least %lld, the tokens of %s (got %lld)",
                         (long long)tokens, o->vocab, (long long)s->shape.vocabulary);
    return CLI_GO;
}

static int check(const sample_opts *o, const gpt_shape *shape)
{
    if (o->load == NULL)
        return cli_error(CLI_USAGE, "--load-params FILE must be given: a file that train "
                                    "--model gpt --save-params FILE wrote");
    if (gpt_shape_check(shape) != SW_OK)
        return cli_error(CLI_USAGE, "%s", sw_last_error());
    const int64_t most =
        draws_tokens(o) || shape->vocabulary < BYTES ? shape->vocabulary : BYTES;
    if (o->top_k > most)
        return cli_error(CLI_USAGE, "--top-k must be from 0 to %lld (got %lld)",
                         (long long)most, (long long)o->top_k);
    for (int i = 0; i < o->prompt_ids.n; i++)
        if (o->prompt_ids.at[i] >= shape->vocabulary)
            return cli_error(CLI_USAGE,
                             "--prompt-ids has %lld; the vocabulary of the model has %lld ids",
                             (long long)o->prompt_ids.at[i], (long long)shape->vocabulary);
    for (const char *c = o->prompt; !draws_tokens(o) && *c != '\0'; c++)
        if ((unsigned char)*c >= shape->vocabulary)
            return cli_error(
                CLI_USAGE, "--prompt has the byte %d; the vocabulary of the model has %lld ids",
                (unsigned char)*c, (long long)shape->vocabulary);
    return CLI_GO;
}

/* Everything up to the first id that is drawn. CLI_GO or the exit status. */
static int prepare(sampler *s, sample_opts *opts)
{
    if (opts->load != NULL)
        CLI_TRY(take_note(opts));
    CLI_TRY(job_precision(&opts->job, opts->load));
    if (opts->vocab != NULL)
        CLI_LIBRARY(sample_tokens_open(&s->tokens, opts->vocab), true);
    const bool vocab = s->tokens.token != NULL;
    const int64_t most = vocab ? s->tokens.vocabulary.n : BYTES;
    s->shape = tool_gpt_shape(&opts->settings, most);
    s->shape.dropout = 0.0f;
    CLI_TRY(check(opts, &s->shape));
    /* Ids after the vocabulary's, or the training's, are those that --vocabulary made the model
     * wider by. */
    const int64_t all = s->shape.vocabulary;
    if (s->by_token && !vocab)
        s->draws.ids = opts->noted ? opts->trained.ids : all;
    else
        s->draws.ids = all < most ? all : most;
    CLI_TRY(check_tokens(s));
    cli_catch_interrupt();
    CLI_LIBRARY(open_model(s), false);
    CLI_LIBRARY(cli_saved(sw_model_load(s->model, s->opts->load)), true);
    for (int i = 0; i < opts->prompt_ids.n; i++)
        append(s, (int)opts->prompt_ids.at[i]);
    if (opts->prompt_ids.n > 0)
        return CLI_GO;
    for (const char *c = opts->prompt; !s->by_token && *c != '\0'; c++)
        append(s, (unsigned char)*c);
    if (!s->by_token || sample_tokens_encode(&s->tokens, opts->prompt, take, s) == SW_OK)
        return CLI_GO;
    if (!s->prompted) { /* a vocabulary without a token of an empty line */
        append(s, 0);
        return CLI_GO;
    }
    return cli_error(CLI_USAGE, "--prompt: %s: --prompt-ids gives ids", sw_last_error());
}

int tool_sample(int argc, char **argv)
{
    sample_opts opts = {.prompt = NULL};
    sampler s = {.opts = &opts};
    CLI_TRY(parse(&opts, argc, argv));
    if (tool_model_find(opts.model) == &tool_hf)
        return sample_hf(&opts);
    CLI_TRY(settle(&opts));
    s.prompted = opts.prompt != NULL;
    if (s.prompted && opts.prompt_ids.n > 0)
        return cli_error(CLI_USAGE,
                         "--prompt and --prompt-ids are two beginnings: leave one out");
    opts.prompt = s.prompted ? opts.prompt : "\n";
    s.by_token = draws_tokens(&opts);
    int status = prepare(&s, &opts);
    if (status == CLI_GO) {
        if (s.prompted)
            fputs(opts.prompt, stdout);
        for (int i = 0; i < opts.prompt_ids.n; i++)
            put_id(&s, (int)opts.prompt_ids.at[i]);
        status = write_text(&s);
    }
    sw_model_destroy(s.model);
    sw_exec_destroy(s.exec);
    sw_heap_free(s.tokens.token, SW_HEAP_FILES,
                 (size_t)s.tokens.vocabulary.n * sizeof *s.tokens.token);
    swi_vocabulary_free(&s.tokens.vocabulary); /* all zero is fine */
    sample_draws_close(&s.draws);
    sw_heap_free(s.window, SW_HEAP_RECORDS, (size_t)s.shape.context * sizeof *s.window);
    sw_heap_free(s.net, SW_HEAP_RECORDS, gpt_net_bytes(s.shape.layers));
    return status;
}
