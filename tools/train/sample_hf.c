/* stepwell sample --model hf:DIR: what follows a prompt, by a cache of keys and values; and
 * --merge, which puts an adapter into the weights. */
#include "alloc/base/mem.h"
#include "tools/models/hf_sample.h"
#include "tools/models/hf_save.h"
#include "tools/text/chat.h"
#include "tools/train/sample.h"
#include <inttypes.h>
#include <string.h>

typedef struct {
    sample_opts *opts;
    hf_sampler text;
    hf_generation rule;
    sample_draws draws;
    sw_exec *exec;
    sw_budget *budget;
    chat *chat;        /* with --chat */
    tokenizer *tokens; /* with a text as the prompt; NULL: ids */
    token_ids prompt;
    token_text out;
    bool begun; /* an id was written */
} sampler;

/* Ids leave here: as text, or as numbers. */
static sw_status put_id(sampler *s, int32_t id)
{
    size_t bytes;
    if (s->tokens == NULL) {
        printf("%s%d", s->begun ? " " : "", (int)id);
        s->begun = true;
        return SW_OK;
    }
    if (tokenizer_token(s->tokens, id, &bytes) == NULL) /* a hole in its numbers */
        return SW_OK;
    SW_TRY(tokenizer_decode(s->tokens, &s->out, &id, 1, false));
    fwrite(s->out.at, 1, s->out.n, stdout);
    s->out.n = 0;
    return SW_OK;
}

/* The ids of the prompt, whatever it is given as. CLI_GO or an exit status. */
static int make_prompt(sampler *s)
{
    const sample_opts *o = s->opts;
    if (o->chat != NULL) {
        CLI_LIBRARY(chat_open(&s->chat, o->settings.folder, o->chat_template), true);
        s->tokens = chat_tokenizer(s->chat);
        CLI_LIBRARY(chat_prompt(s->chat, &s->prompt, o->chat), false);
    } else if (o->prompt_ids.n == 0) {
        char path[SWI_FOLDER_PATH + 64];
        bool there = true;
        snprintf(path, sizeof path, "%s/tokenizer.json", o->settings.folder);
        if (o->prompt == NULL) /* without one, ids are written as they are */
            CLI_LIBRARY(sw_file_look(path, &there), true);
        if (there)
            CLI_LIBRARY(tokenizer_read(&s->tokens, path), true);
        if (o->prompt != NULL)
            CLI_LIBRARY(tokenizer_encode(s->tokens, &s->prompt, o->prompt, strlen(o->prompt),
                                         true, NULL, NULL, 0),
                        false);
    }
    for (int i = 0; i < o->prompt_ids.n; i++) {
        CLI_LIBRARY(
            sw_heap_reserve(&s->prompt.at, SW_HEAP_DATASETS, &s->prompt.cap, s->prompt.n + 1),
            false);
        s->prompt.at[s->prompt.n++] = (int32_t)o->prompt_ids.at[i];
    }
    if (s->prompt.n > o->settings.context)
        return cli_error(CLI_USAGE, "the prompt has %u ids; --context is %" PRId64, s->prompt.n,
                         o->settings.context);
    for (uint32_t i = 0; i < s->prompt.n; i++)
        if (s->prompt.at[i] >= o->settings.vocabulary)
            return cli_error(CLI_USAGE,
                             "the prompt has the id %d; the vocabulary of the model has "
                             "%" PRId64 " ids",
                             (int)s->prompt.at[i], o->settings.vocabulary);
    return CLI_GO;
}

/* ---- options ----------------------------------------------------------------------------- */

/* Options that were not given are as generation_config.json says. */
static int take_rule(sampler *s)
{
    sample_opts *o = s->opts;
    const char *kinds = cli_given("--top-k --top-p");
    CLI_LIBRARY(hf_generation_read(&s->rule, o->settings.folder, o->settings.vocabulary), true);
    const hf_generation *g = &s->rule;
    if (o->temperature < 0.0)
        o->temperature = g->samples ? g->temperature : 0.0;
    if (kinds != NULL && o->temperature == 0.0)
        return cli_error(CLI_USAGE,
                         "%s has no effect where the most likely id is always taken: give "
                         "--temperature",
                         kinds);
    if (o->top_k > o->settings.vocabulary)
        return cli_error(CLI_USAGE, "--top-k must be from 0 to %" PRId64 " (got %" PRId64 ")",
                         o->settings.vocabulary, o->top_k);
    o->top_k = o->top_k < 0 ? g->top_k : o->top_k;
    if (o->top_p < 0.0)
        o->top_p = g->top_p;
    if (!o->quiet && o->temperature > 0.0)
        cli_note("temperature %g, top-k %" PRId64 ", top-p %g", o->temperature, o->top_k,
                 o->top_p);
    if (!o->quiet && o->temperature == 0.0)
        cli_note("the most likely id each time");
    if (g->repetition != 1.0)
        cli_note("repetition_penalty %g of generation_config.json is not applied",
                 g->repetition);
    return CLI_GO;
}

static int check(sample_opts *o)
{
    const char *no =
        cli_given("--load-params --vocab --precision --bf16-order --layers --width "
                  "--heads --vocabulary");
    if (no != NULL)
        return cli_error(CLI_USAGE, "%s has no effect with --model hf:DIR", no);
    if ((o->prompt != NULL) + (o->chat != NULL) + (o->prompt_ids.n > 0) > 1)
        return cli_error(CLI_USAGE, "--prompt, --chat and --prompt-ids are beginnings: leave "
                                    "all but one out");
    if (o->merge != NULL && o->settings.adapter == NULL)
        return cli_error(CLI_USAGE, "--merge has no effect without --adapter");
    tool_settings settings = TOOL_SETTINGS_NONE;
    settings.context = o->settings.context;
    settings.adapter = o->settings.adapter;
    settings.weights = o->settings.weights;
    o->settings = settings;
    CLI_TRY(tool_settings_complete(&tool_hf, &o->settings));
    CLI_TRY(tool_hf.settle(&o->settings, strchr(o->model, ':') + 1));
    return o->merge != NULL ? job_folder_check("--merge", o->merge, o->settings.folder)
                            : CLI_GO;
}

/* ---- before, the loop, after ------------------------------------------------------------- */

static sw_status open_exec(sampler *s)
{
    const sample_opts *o = s->opts;
    if (o->job.budget_bytes > 0)
        SW_TRY(sw_budget_create(&s->budget, o->job.budget_bytes));
    const int threads = o->threads > 0 ? (int)o->threads : (int)job_all_threads();
    return sw_exec_create(&s->exec,
                          &SW_OPTS(sw_exec_opts, .threads = threads, .budget = s->budget));
}

/* Everything up to the first id that is drawn. CLI_GO or the exit status. */
static int prepare(sampler *s)
{
    sample_opts *o = s->opts;
    sw_plan_info plan[HF_PROGRAMS];
    size_t cache;
    CLI_TRY(check(o));
    CLI_TRY(take_rule(s));
    CLI_TRY(make_prompt(s));
    CLI_LIBRARY(open_exec(s), false);
    CLI_LIBRARY(hf_sampler_create(&s->text, s->exec, &o->settings), true);
    CLI_LIBRARY(hf_sampler_plan(&s->text, plan), false);
    CLI_LIBRARY(sw_model_bytes(s->text.models[2], &cache), false);
    int64_t ids = o->settings.vocabulary; /* those above the tokenizer's are not drawn */
    if (s->tokens != NULL && tokenizer_size(s->tokens) < ids)
        ids = tokenizer_size(s->tokens);
    CLI_LIBRARY(sample_draws_open(&s->draws, ids), false);
    const sw_plan_info *most = &plan[plan[1].total_bytes > plan[0].total_bytes];
    if (!o->quiet)
        cli_note("%s: %s of weights, %s of keys and values of %" PRId64 " ids, an arena of %s",
                 o->settings.folder, cli_bytes(most->model_bytes - cache).text,
                 cli_bytes(cache).text, s->text.context, cli_bytes(most->arena_bytes).text);
    const hf_config *config = &((const hf_net *)s->text.net.own)->config;
    if (s->prompt.n == 0 && config->bos < 0)
        return cli_error(CLI_USAGE,
                         "--prompt, --chat or --prompt-ids must be given: %s/config.json has "
                         "no bos_token_id to begin with",
                         o->settings.folder);
    cli_catch_interrupt();
    CLI_LIBRARY(hf_sampler_ready(&s->text), true);
    if (o->prompt != NULL)
        fputs(o->prompt, stdout);
    for (uint32_t i = 0; i < s->prompt.n; i++) {
        if (s->tokens == NULL)
            CLI_LIBRARY(put_id(s, s->prompt.at[i]), false);
        hf_sampler_add(&s->text, s->prompt.at[i]);
    }
    if (s->prompt.n == 0)
        hf_sampler_add(&s->text, (int32_t)config->bos);
    return CLI_GO;
}

static bool ends(const sampler *s, int id)
{
    const hf_config *config = &((const hf_net *)s->text.net.own)->config;
    bool is = s->chat != NULL && chat_end(s->chat) == id;
    for (int i = 0; i < config->n_eos; i++)
        is |= config->eos[i] == id;
    for (int i = 0; i < s->rule.n_eos; i++)
        is |= s->rule.eos[i] == id;
    return is;
}

static int write_ids(sampler *s)
{
    const sample_opts *o = s->opts;
    const uint64_t start = cli_clock_ns();
    const char *why = "";
    int64_t n = 0;
    for (; n < o->tokens && *why == '\0' && !ferror(stdout); n++) {
        const float *scores;
        const sw_status status = hf_sampler_next(&s->text, cli_interrupted, &scores);
        CLI_LIBRARY(status, false);
        if (scores == NULL || cli_interrupted())
            break;
        const int id = sample_draw(&s->draws, o, scores, n);
        if (id < 0)
            return cli_error(CLI_FAILED, "%s: the scores of token %" PRId64 " are not numbers",
                             o->settings.folder, n + 1);
        CLI_LIBRARY(put_id(s, id), false);
        if (cli_terminal(stdout))
            fflush(stdout);
        if (ends(s, id))
            why = ", to an end token";
        else if (s->text.n == s->text.context)
            why = ", to the end of the context";
        else
            hf_sampler_add(&s->text, id);
    }
    const double seconds = (double)(cli_clock_ns() - start) * 1e-9;
    if (s->tokens != NULL && tokenizer_decode_end(&s->out) == SW_OK)
        fwrite(s->out.at, 1, s->out.n, stdout);
    putchar('\n');
    const int status = cli_finish(cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE);
    if (!o->quiet && n > 0 && status != CLI_FAILED)
        cli_note("%" PRId64 " tokens in %.2f s: %.1f per second%s", n, seconds,
                 (double)n / seconds, why);
    return status;
}

/* The adapter into the folder's weights, which are read and written row by row. */
static int merge(sampler *s)
{
    sample_opts *o = s->opts;
    hf_adapter_shape adapter;
    uint64_t hash;
    char is[HF_BASE_BYTES];
    CLI_TRY(check(o));
    /* The base has the kind that the adapter was trained beside, so that hashes agree. */
    CLI_LIBRARY(hf_adapter_open(&adapter, o->settings.adapter), true);
    hf_adapter_close(&adapter);
    const char *word = strchr(adapter.of, ' ');
    const int kind = cli_word_at(hf_weights_words, word != NULL ? word + 1 : NULL);
    o->settings.weights = hf_weights_words[kind];
    CLI_LIBRARY(open_exec(s), false);
    CLI_LIBRARY(hf_sampler_create(&s->text, s->exec, &o->settings), true);
    hf_net *net = s->text.net.own;
    CLI_LIBRARY(hf_net_load(net, false, &hash), true);
    snprintf(is, sizeof is, "%016" PRIx64 " %s", hash, hf_weights_words[kind]);
    hf_adapter_tell(&adapter, o->settings.adapter, is, o->settings.folder);
    CLI_LIBRARY(sw_model_ready(s->text.net.model, s->exec, 0), false);
    CLI_LIBRARY(hf_adapter_load(o->settings.adapter, net->config.family, s->text.net.model),
                true);
    CLI_LIBRARY(cli_saved(hf_merge(net, o->merge)), false);
    if (!o->quiet)
        cli_note("%s has the weights of %s with the adapter of %s", o->merge,
                 o->settings.folder, o->settings.adapter);
    return CLI_DONE;
}

int sample_hf(sample_opts *opts)
{
    sampler s = {.opts = opts};
    int status = opts->merge != NULL ? merge(&s) : prepare(&s);
    if (status == CLI_GO)
        status = write_ids(&s);
    if (s.chat == NULL)
        tokenizer_free(s.tokens);
    chat_close(s.chat);
    token_ids_free(&s.prompt);
    token_text_free(&s.out);
    hf_sampler_destroy(&s.text);
    sw_exec_destroy(s.exec);
    sw_budget_destroy(s.budget);
    sample_draws_close(&s.draws);
    return status;
}
