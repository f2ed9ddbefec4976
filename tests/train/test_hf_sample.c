/* A cache of keys and values against whole windows, the bytes of both programs, and
 * generation_config.json. */
#include "runtime/exec/exec.h"
#include "runtime/model/model.h"
#include "tests/support/files.h"
#include "tests/support/suite.h"
#include "tools/models/hf_sample.h"
#include <stdlib.h>

SW_TESTS("hf sample")

enum { CONTEXT = 150, VOCABULARY = 96 }; /* two pieces, and one that is not whole */

#define SIZES                                                                                  \
    "\"vocab_size\": 96, \"hidden_size\": 32, \"intermediate_size\": 48, "                     \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, "                                   \
    "\"max_position_embeddings\": 160, \"rms_norm_eps\": 1e-6, "
static const char *const configs[] = {
    "{\"model_type\": \"gpt2\", \"vocab_size\": 96, \"n_embd\": 32, \"n_layer\": 2, "
    "\"n_head\": "
    "4, \"n_positions\": 160}",
    "{\"model_type\": \"llama\", " SIZES
    "\"num_key_value_heads\": 2, \"rope_theta\": 500000.0, "
    "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 4.0, \"low_freq_factor\": 1.0, "
    "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 32}}",
    "{\"model_type\": \"qwen2\", " SIZES "\"num_key_value_heads\": 1}",
    "{\"model_type\": \"qwen3\", " SIZES "\"num_key_value_heads\": 2, \"head_dim\": 12}",
    "{\"model_type\": \"mistral\", " SIZES "\"num_key_value_heads\": 4, \"sliding_window\": "
    "null, \"tie_word_embeddings\": true}",
};
enum { CONFIGS = sizeof configs / sizeof *configs };

typedef struct {
    sw_exec *exec;
    sw_budget *budget;
    hf_sampler text;
} bench;

static void end(void *arg)
{
    bench *b = arg;
    hf_sampler_destroy(&b->text);
    sw_exec_destroy(b->exec);
    sw_budget_destroy(b->budget);
    *b = (bench){.exec = NULL};
}

static tool_settings settings_of(const char *config)
{
    tool_settings s = TOOL_SETTINGS_NONE;
    sw_file_put(sw_temp_path("config.json"), config, strlen(config));
    s.context = CONTEXT;
    s.lora = 3;
    s.planned = true;
    CU_ASSERT_EQUAL_FATAL(tool_settings_complete(&tool_hf, &s), CLI_GO);
    CU_ASSERT_EQUAL_FATAL(tool_hf.settle(&s, sw_temp_path("")), CLI_GO);
    return s;
}

/* Numbers for all weights and adapters, without files. */
static void fill(sw_model *model)
{
    sw_dice dice = {model->n_entries};
    for (uint32_t i = 1; i < model->n_entries; i++) {
        const swi_entry *e = &model->entries[i];
        const size_t n = (size_t)swi_elements(&e->shape);
        if (e->role != SWI_ROLE_PARAMETER || e->dtype != SW_F32)
            continue;
        float *x = malloc(n * sizeof *x);
        for (size_t k = 0; k < n; k++)
            x[k] = ((float)sw_dice_below(&dice, 2001) - 1000.0f) / 2500.0f;
        CU_ASSERT_EQUAL(sw_param_write((sw_param){model, i}, x, n * sizeof *x), SW_OK);
        free(x);
    }
}

static void begin(bench *b, const char *config, int threads)
{
    const tool_settings s = settings_of(config);
    sw_after(end, b);
    CU_ASSERT_EQUAL_FATAL(sw_exec_create(&b->exec, &SW_OPTS(sw_exec_opts, .threads = threads)),
                          SW_OK);
    CU_ASSERT_EQUAL_FATAL(hf_sampler_create(&b->text, b->exec, &s), SW_OK);
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL_FATAL(sw_model_ready(b->text.models[i], b->exec, 1), SW_OK);
    fill(b->text.models[0]);
    fill(b->text.models[1]);
}

/* The whole text in one run without a cache. */
static void whole(sw_ctx *c, void *user)
{
    const hf_sampler *s = user;
    const sw_value none = {0, 0};
    const sw_value x =
        hf_net_features(c, s->net.own, sw_input(c, 0), sw_input(c, 1), none, NULL);
    sw_output(c, "scores", hf_net_logits(c, s->net.own, x));
}

static int32_t id_of(int64_t i)
{
    return (int32_t)(i * i * 7 + i * 11) % VOCABULARY;
}

/* Scores after n ids of the cache, or of one run. */
static const float *scores_of(bench *b, int64_t n, bool cached)
{
    hf_sampler *s = &b->text;
    const float *scores;
    sw_array in[2], y;
    if (cached) {
        CU_ASSERT_EQUAL_FATAL(hf_sampler_next(s, NULL, &scores), SW_OK);
        return scores;
    }
    sw_run_args args = hf_sampler_args(s, HF_PROGRAM_TOKEN, 0, in);
    args.fn = whole;
    in[0].shape.dim[1] = in[1].shape.dim[1] = n;
    CU_ASSERT_EQUAL_FATAL(sw_run(b->exec, &args), SW_OK);
    CU_ASSERT_EQUAL_FATAL(sw_output_get(b->exec, "scores", &y), SW_OK);
    return (const float *)y.data + (n - 1) * VOCABULARY;
}

SW_TEST("a cache has the bits of whole windows at every length, by ids and by pieces")
{
    static float want[CONTEXT + 1][VOCABULARY];
    for (int k = 0; k < CONFIGS; k++) {
        static bench b; /* ends with the test if not before */
        int64_t different = 0;
        begin(&b, configs[k], 1 + k % 2);
        for (int64_t n = 1; n <= CONTEXT; n++) {
            hf_sampler_add(&b.text, id_of(n));
            memcpy(want[n], scores_of(&b, n, false), sizeof *want);
            CU_ASSERT_EQUAL(memcmp(want[n], scores_of(&b, n, true), sizeof *want), 0);
            different += memcmp(want[n], want[n - 1], sizeof *want) != 0;
            CU_ASSERT(want[n][0] == want[n][0]);
        }
        CU_ASSERT_EQUAL(different, CONTEXT);
        /* The same ids at once: all lengths of the last piece, and of those that are full. */
        for (int64_t n = 1; n <= CONTEXT; n += n % 8 == 2 ? 5 : 1) {
            b.text.n = b.text.done = 0;
            for (int64_t i = 1; i <= n; i++)
                hf_sampler_add(&b.text, id_of(i));
            SW_CHECK(memcmp(want[n], scores_of(&b, n, true), sizeof *want) == 0,
                     "config %d: %lld ids by pieces have other scores", k, (long long)n);
        }
        end(&b);
    }
}

SW_TEST("ids after the first are warm, allocate nothing and take what was planned")
{
    static bench b; /* ends with the test if not before */
    sw_plan_info plan[HF_PROGRAMS];
    begin(&b, configs[4], 2);
    CU_ASSERT_EQUAL_FATAL(hf_sampler_plan(&b.text, plan), SW_OK);
    for (int64_t n = 1; n < 6; n++) {
        sw_run_info run = SW_OPTS(sw_run_info);
        hf_sampler_add(&b.text, id_of(n));
        (void)scores_of(&b, n, true);
        CU_ASSERT_EQUAL(sw_last_run(b.exec, &run), SW_OK);
        CU_ASSERT(n == 1 || (run.warm && run.allocations == 0));
        CU_ASSERT_EQUAL(run.peak_bytes, plan[HF_PROGRAM_TOKEN].peak_bytes);
    }
    /* No copy of the cache is in the arena. */
    size_t cache;
    CU_ASSERT_EQUAL(sw_model_bytes(b.text.models[2], &cache), SW_OK);
    SW_CHECK(plan[HF_PROGRAM_TOKEN].arena_bytes < cache / 2, "arena %zu, cache %zu",
             plan[HF_PROGRAM_TOKEN].arena_bytes, cache);
    CU_ASSERT_EQUAL(plan[0].model_bytes, plan[1].model_bytes);
    end(&b);
}

SW_TEST("a budget of the plan's bytes does, and one byte less is refused without weights")
{
    const tool_settings s = settings_of(configs[1]);
    size_t need = 0;
    for (int less = -1; less < 2; less++) {
        static bench b; /* ends with the test if not before */
        sw_plan_info plan[HF_PROGRAMS];
        if (less >= 0)
            CU_ASSERT_EQUAL_FATAL(sw_budget_create(&b.budget, need - (size_t)less), SW_OK);
        CU_ASSERT_EQUAL_FATAL(
            sw_exec_create(&b.exec, &SW_OPTS(sw_exec_opts, .budget = b.budget)), SW_OK);
        CU_ASSERT_EQUAL_FATAL(hf_sampler_create(&b.text, b.exec, &s), SW_OK);
        CU_ASSERT_EQUAL(hf_sampler_plan(&b.text, plan), less < 1 ? SW_OK : SW_NOMEM);
        for (int i = 0; i < HF_PROGRAMS && less < 1; i++) {
            const size_t bytes = plan[i].model_bytes + plan[i].arena_bytes;
            need = bytes > need ? bytes : need;
        }
        /* The folder has no weights. */
        if (less == 0)
            CU_ASSERT_EQUAL(hf_sampler_ready(&b.text), SW_IO);
        end(&b);
    }
}

SW_TEST("generation_config.json is read, and faults are named")
{
    static const struct {
        const char *text, *fault;
    } wrong[] = {
        {"{\"temperature\": \"hot\"}", "'temperature' is"},
        {"{\"temperature\": -1}", "'temperature' is -1"},
        {"{\"top_p\": 1.5}", "from 0 and at most 1"},
        {"{\"top_k\": -3}", "generation_config.json"},
        {"{\"do_sample\": 1}", "generation_config.json"},
        {"{\"eos_token_id\": [1, 2}", "generation_config.json"},
        {"{\"eos_token_id\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", "at most 16"},
        {"{\"eos_token_id\": 128256}", "below 128256"},
        {"{} {}", "after the end"},
    };
    hf_generation g;
    const char *path = sw_temp_path("generation_config.json"), *folder = sw_temp_path("");
    CU_ASSERT_EQUAL(hf_generation_read(&g, folder, 128256), SW_OK);
    CU_ASSERT(!g.samples && g.temperature == 1.0 && g.top_k == 50 && g.n_eos == 0);
    static const char text[] =
        "{\"do_sample\": true, \"temperature\": 0.6, \"top_p\": 0.9, \"top_k\": null, "
        "\"eos_token_id\": [128001, 128008], \"repetition_penalty\": 1.05, \"other\": [{}]}";
    sw_file_put(path, text, strlen(text));
    CU_ASSERT_EQUAL(hf_generation_read(&g, folder, 128256), SW_OK);
    CU_ASSERT(g.samples && g.temperature == 0.6 && g.top_p == 0.9 && g.top_k == 50);
    CU_ASSERT(g.n_eos == 2 && g.eos[0] == 128001 && g.eos[1] == 128008 && g.repetition == 1.05);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sw_file_put(path, wrong[i].text, strlen(wrong[i].text));
        SW_CHECK(hf_generation_read(&g, folder, 128256) == SW_FORMAT &&
                     strstr(sw_last_error(), wrong[i].fault) != NULL,
                 "%s: %s", wrong[i].text, sw_last_error());
    }
}
