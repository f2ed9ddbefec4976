/* config.json as transformers writes it: real ones, those of the families' classes, and what is
 * refused. */
#include "tests/support/files.h"
#include "tests/support/suite.h"
#include "tools/models/hf_config.h"

SW_TESTS("hf config")

/* ---- texts ------------------------------------------------------------------------------- */

/* As published, or as the family's class writes it (transformers 4 and 5). */
static const char gpt2[] =
    "{\"activation_function\": \"gelu_new\", \"architectures\": [\"GPT2LMHeadModel\"], "
    "\"attn_pdrop\": 0.1, \"bos_token_id\": 50256, \"embd_pdrop\": 0.1, \"eos_token_id\": "
    "50256, "
    "\"initializer_range\": 0.02, \"layer_norm_epsilon\": 1e-05, \"model_type\": \"gpt2\", "
    "\"n_ctx\": 1024, \"n_embd\": 768, \"n_head\": 12, \"n_layer\": 12, \"n_positions\": 1024, "
    "\"resid_pdrop\": 0.1, \"summary_activation\": null, \"summary_first_dropout\": 0.1, "
    "\"summary_proj_to_labels\": true, \"summary_type\": \"cls_index\", \"summary_use_proj\": "
    "true, \"task_specific_params\": {\"text-generation\": {\"do_sample\": true, "
    "\"max_length\": 50}}, \"vocab_size\": 50257}";
static const char qwen2[] =
    "{\"_name_or_path\": \"Qwen2-1.5B-Instruct\", \"architectures\": [\"Qwen2ForCausalLM\"], "
    "\"attention_dropout\": 0.0, \"bos_token_id\": 151643, \"eos_token_id\": 151645, "
    "\"hidden_act\": \"silu\", \"hidden_size\": 1536, \"initializer_range\": 0.02, "
    "\"intermediate_size\": 8960, \"max_position_embeddings\": 32768, \"max_window_layers\": "
    "28, "
    "\"model_type\": \"qwen2\", \"num_attention_heads\": 12, \"num_hidden_layers\": 28, "
    "\"num_key_value_heads\": 2, \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0, "
    "\"sliding_window\": 32768, \"tie_word_embeddings\": true, \"torch_dtype\": \"bfloat16\", "
    "\"transformers_version\": \"4.42.3\", \"use_cache\": true, \"use_sliding_window\": false, "
    "\"vocab_size\": 151936}";
static const char llama3[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false, "
    "\"attention_dropout\": 0.0, \"bos_token_id\": 128000, \"eos_token_id\": [128001, 128008, "
    "128009], \"head_dim\": 64, \"hidden_act\": \"silu\", \"hidden_size\": 2048, "
    "\"initializer_range\": 0.02, \"intermediate_size\": 8192, \"max_position_embeddings\": "
    "131072, \"mlp_bias\": false, \"model_type\": \"llama\", \"num_attention_heads\": 32, "
    "\"num_hidden_layers\": 16, \"num_key_value_heads\": 8, \"pretraining_tp\": 1, "
    "\"rms_norm_eps\": 1e-05, \"rope_scaling\": {\"factor\": 32.0, \"high_freq_factor\": 4.0, "
    "\"low_freq_factor\": 1.0, \"original_max_position_embeddings\": 8192, \"rope_type\": "
    "\"llama3\"}, \"rope_theta\": 500000.0, \"tie_word_embeddings\": true, \"torch_dtype\": "
    "\"bfloat16\", \"transformers_version\": \"4.45.0.dev0\", \"use_cache\": true, "
    "\"vocab_size\": 128256}";
static const char smollm2[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false, \"bos_token_id\": "
    "1, "
    "\"eos_token_id\": 2, \"hidden_act\": \"silu\", \"hidden_size\": 576, "
    "\"intermediate_size\": 1536, \"is_llama_config\": true, \"max_position_embeddings\": "
    "8192, "
    "\"mlp_bias\": false, \"model_type\": \"llama\", \"num_attention_heads\": 9, "
    "\"num_hidden_layers\": 30, \"num_key_value_heads\": 3, \"pad_token_id\": 2, "
    "\"rms_norm_eps\": 1e-05, \"rope_interleaved\": false, \"rope_scaling\": null, "
    "\"rope_theta\": 100000, \"tie_word_embeddings\": true, \"torch_dtype\": \"bfloat16\", "
    "\"vocab_size\": 49152}";
static const char qwen3[] =
    "{\"architectures\": [\"Qwen3ForCausalLM\"], \"attention_bias\": false, \"dtype\": "
    "\"bfloat16\", \"eos_token_id\": 151645, \"hidden_act\": \"silu\", \"hidden_size\": 1024, "
    "\"intermediate_size\": 3072, \"layer_types\": [\"full_attention\", \"full_attention\"], "
    "\"max_position_embeddings\": 40960, \"max_window_layers\": 28, \"model_type\": \"qwen3\", "
    "\"num_attention_heads\": 16, \"num_hidden_layers\": 2, \"num_key_value_heads\": 8, "
    "\"rms_norm_eps\": 1e-06, \"rope_parameters\": {\"rope_theta\": 1000000, \"rope_type\": "
    "\"default\"}, \"sliding_window\": null, \"tie_word_embeddings\": true, "
    "\"transformers_version\": \"5.2.0\", \"use_cache\": true, \"use_sliding_window\": false, "
    "\"vocab_size\": 151936}";
static const char mistral[] =
    "{\"architectures\": [\"MistralForCausalLM\"], \"bos_token_id\": 1, \"eos_token_id\": 2, "
    "\"hidden_act\": \"silu\", \"hidden_size\": 4096, \"intermediate_size\": 14336, "
    "\"max_position_embeddings\": 32768, \"model_type\": \"mistral\", \"num_attention_heads\": "
    "32, \"num_hidden_layers\": 32, \"num_key_value_heads\": 8, \"rms_norm_eps\": 1e-05, "
    "\"rope_theta\": 10000.0, \"sliding_window\": 4096, \"tie_word_embeddings\": false, "
    "\"torch_dtype\": \"bfloat16\", \"vocab_size\": 32000}";

static sw_status parse(hf_config *out, const char *text)
{
    return hf_config_parse(out, text, strlen(text), "config.json");
}

static hf_config parsed(const char *text)
{
    hf_config c = {.layers = -7};
    const sw_status status = parse(&c, text);
    SW_CHECK(status == SW_OK, "%.60s...: %s", text, sw_last_error());
    return c;
}

/* With one piece in the place of another, which must be there; "": at the end. */
static const char *with(const char *text, const char *from, const char *to)
{
    if (*from == '\0')
        return sw_textf("%.*s, %s}", (int)strlen(text) - 1, text, to);
    const char *at = strstr(text, from);
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    return sw_textf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

#define SAME(x, y) CU_ASSERT_DOUBLE_EQUAL(x, y, 0)

/* ---- what is read ------------------------------------------------------------------------ */

SW_TEST("published files are read")
{
    hf_config c = parsed(gpt2);
    CU_ASSERT(c.family == HF_GPT2 && c.vocabulary == 50257 && c.hidden == 768);
    CU_ASSERT(c.inner == 3072 && c.layers == 12 && c.heads == 12 && c.heads_kv == 12);
    CU_ASSERT(c.head_dim == 64 && c.context == 1024 && c.window == 0 && c.tied);
    CU_ASSERT(c.qkv_bias && c.o_bias && c.mlp_bias && !c.qk_norm);
    CU_ASSERT(c.rope.kind == HF_ROPE_NONE && c.bos == 50256 && c.pad == -1);
    CU_ASSERT(c.n_eos == 1 && c.eos[0] == 50256 && c.unknown[0] == '\0');
    SAME(c.epsilon, 1e-5);

    c = parsed(qwen2);
    CU_ASSERT(c.family == HF_QWEN2 && c.hidden == 1536 && c.heads == 12 && c.heads_kv == 2);
    CU_ASSERT(c.head_dim == 128 && c.inner == 8960 && c.layers == 28 && c.context == 32768);
    CU_ASSERT(c.qkv_bias && !c.o_bias && !c.mlp_bias && c.tied && c.window == 0);
    CU_ASSERT(c.rope.kind == HF_ROPE_DEFAULT && c.unknown[0] == '\0');
    CU_ASSERT_STRING_EQUAL(c.dtype, "bfloat16");
    SAME(c.rope.theta, 1e6);

    c = parsed(llama3);
    CU_ASSERT(c.family == HF_LLAMA && c.rope.kind == HF_ROPE_LLAMA3 && c.head_dim == 64);
    CU_ASSERT(c.n_eos == 3 && c.eos[2] == 128009 && c.rope.original_context == 8192);
    CU_ASSERT(!c.qkv_bias && !c.o_bias && c.context == 131072);
    SAME(c.rope.theta, 5e5);
    SAME(c.rope.factor, 32);
    SAME(c.rope.low_freq_factor, 1);
    SAME(c.rope.high_freq_factor, 4);

    c = parsed(smollm2);
    CU_ASSERT(c.head_dim == 64 && c.heads_kv == 3 && c.pad == 2);
    CU_ASSERT_STRING_EQUAL(c.unknown, "is_llama_config");

    c = parsed(qwen3);
    CU_ASSERT(c.family == HF_QWEN3 && c.head_dim == 128 && c.qk_norm && !c.qkv_bias);
    CU_ASSERT(c.heads * c.head_dim == 2048 && c.window == 0);
    SAME(c.rope.theta, 1e6);

    c = parsed(mistral);
    CU_ASSERT(c.family == HF_MISTRAL && c.window == 4096 && c.heads_kv == 8 && !c.tied);
    for (hf_family f = 0; f < HF_FAMILIES; f++)
        CU_ASSERT_EQUAL(parsed((const char *[]){gpt2, llama3, qwen2, qwen3, mistral}[f]).family,
                        f);
}

/* A key that is absent or null has the value that the family's class gives it. */
SW_TEST("absent keys have their family's value")
{
    static const char kv[] = "\"num_key_value_heads\": 8, ";
    CU_ASSERT_EQUAL(parsed(with(llama3, kv, "")).heads_kv, 32);
    CU_ASSERT_EQUAL(parsed(with(mistral, kv, "")).heads_kv, 8);
    CU_ASSERT_EQUAL(parsed(with(mistral, "heads\": 8", "heads\": null")).heads_kv, 32);
    CU_ASSERT_EQUAL(parsed(with(llama3, "\"head_dim\": 64, ", "")).head_dim, 64);
    CU_ASSERT_EQUAL(parsed(with(llama3, "\"head_dim\": 64", "\"head_dim\": 96")).head_dim, 96);
    CU_ASSERT_EQUAL(parsed(with(mistral, "\"sliding_window\": 4096, ", "")).window, 4096);
    CU_ASSERT_EQUAL(parsed(with(mistral, "window\": 4096", "window\": null")).window, 0);
    CU_ASSERT_EQUAL(
        parsed(with(qwen2, "sliding_window\": false", "sliding_window\": true")).window, 32768);
    CU_ASSERT_EQUAL(
        parsed(with(with(qwen3, "\"full_", "\"sliding_"), "window\": null", "window\": 512"))
            .window,
        512);
    CU_ASSERT_EQUAL(parsed(with(mistral, "\"max_position_embeddings\": 32768, ", "")).context,
                    131072);
    CU_ASSERT_EQUAL(parsed(with(smollm2, "\"max_position_embeddings\": 8192, ", "")).context,
                    2048);
    CU_ASSERT_EQUAL(parsed(with(qwen2, "\"max_position_embeddings\": 32768, ", "")).context,
                    32768);
    CU_ASSERT_EQUAL(parsed(with(gpt2, "\"n_positions\": 1024, ", "")).context, 1024);
    CU_ASSERT(!parsed(with(llama3, "\"tie_word_embeddings\": true, ", "")).tied);
    CU_ASSERT(!parsed(with(gpt2, "", "\"tie_word_embeddings\": false")).tied);
    SAME(parsed(with(llama3, "\"rms_norm_eps\": 1e-05, ", "")).epsilon, 1e-6);
    SAME(parsed(with(smollm2, "\"rope_theta\": 100000, ", "")).rope.theta, 1e4);
    CU_ASSERT_EQUAL(parsed(with(smollm2, "token_id\": 2", "token_id\": []")).n_eos, 0);
    CU_ASSERT_EQUAL(parsed(with(smollm2, "pad_token_id\": 2", "pad_token_id\": -1")).pad, -1);
    CU_ASSERT_EQUAL(parsed(with(gpt2, "", "\"n_inner\": null")).inner, 3072);
    hf_config c = parsed(with(llama3, "attention_bias\": false", "attention_bias\": true"));
    CU_ASSERT(c.qkv_bias && c.o_bias);
    c = parsed(with(qwen2, "", "\"attention_bias\": true"));
    CU_ASSERT(c.qkv_bias && !c.o_bias);
    CU_ASSERT_STRING_EQUAL(c.unknown, "attention_bias");
    CU_ASSERT(parsed(with(llama3, "mlp_bias\": false", "mlp_bias\": true")).mlp_bias);
}

/* rope_scaling and rope_theta, or rope_parameters; type or rope_type. */
SW_TEST("both spellings of rope are one")
{
    const hf_config a = parsed(llama3);
    const char *five = with(with(llama3, "rope_scaling\": {",
                                 "rope_parameters\": {"
                                 "\"rope_theta\": 500000.0, "),
                            "\"rope_theta\": 500000.0, \"tie", "\"tie");
    hf_config b = parsed(five);
    CU_ASSERT_EQUAL(memcmp(&a.rope, &b.rope, sizeof a.rope), 0);
    b = parsed(with(llama3, "\"rope_type\"", "\"type\""));
    CU_ASSERT_EQUAL(memcmp(&a.rope, &b.rope, sizeof a.rope), 0);
    b = parsed(with(llama3, "\"rope_type\"", "\"type\": \"llama3\", \"rope_type\""));
    CU_ASSERT_EQUAL(memcmp(&a.rope, &b.rope, sizeof a.rope), 0);
}

/* ---- what is refused --------------------------------------------------------------------- */

static const struct {
    const char *text, *from, *to, *says;
    sw_status status;
} bad[] = {
    {gpt2, "\"gpt2\"", "\"gpt_neox\"",
     "'model_type' is \"gpt_neox\"; it must be gpt2, llama, qwen2, qwen3 or mistral",
     SW_UNSUPPORTED},
    {gpt2, "\"model_type\": \"gpt2\", ", "", "'model_type' is missing", SW_UNSUPPORTED},
    {gpt2, "GPT2LMHeadModel", "GPT2ForSequenceClassification",
     "'architectures' is [\"GPT2ForSequenceClassification\"]; it must be GPT2LMHeadModel",
     SW_UNSUPPORTED},
    {gpt2, "[\"GPT2LMHeadModel\"]", "\"GPT2LMHeadModel\"", "a list of texts", SW_FORMAT},
    {gpt2, "", "\"text_config\": {}", "'text_config' is {}; it must be absent", SW_UNSUPPORTED},
    {qwen2, "", "\"auto_map\": {\"a\": 1}", "'auto_map' is {\"a\": 1}", SW_UNSUPPORTED},
    {qwen2, "", "\"quantization_config\": {\"bits\": 4}",
     "'quantization_config' is {\"bits\": 4}", SW_UNSUPPORTED},
    {gpt2, "gelu_new", "relu", "'activation_function' is \"relu\"; it must be gelu_new",
     SW_UNSUPPORTED},
    {qwen2, "\"silu\"", "\"gelu\"", "'hidden_act' is \"gelu\"; it must be silu",
     SW_UNSUPPORTED},
    {qwen2, "\"silu\"", "\"\"", "'hidden_act' is \"\"; it must be silu", SW_UNSUPPORTED},
    {gpt2, "", "\"n_inner\": 1000", "'n_inner' is 1000; it must be null, or 4 times n_embd",
     SW_UNSUPPORTED},
    {gpt2, "", "\"scale_attn_weights\": false",
     "'scale_attn_weights' is false; it must be true", SW_UNSUPPORTED},
    {gpt2, "", "\"scale_attn_by_inverse_layer_idx\": true", "it must be false", SW_UNSUPPORTED},
    {gpt2, "", "\"add_cross_attention\": true", "it must be false", SW_UNSUPPORTED},
    {gpt2, "\"n_head\": 12", "\"n_head\": 11", "'n_head' is 11; it must be a divisor of n_embd",
     SW_FORMAT},
    {gpt2, "\"n_embd\": 768, ", "", "'n_embd' is missing: it must be a whole number",
     SW_FORMAT},
    {gpt2, "\"vocab_size\": 50257", "\"vocab_size\": 0", "'vocab_size' is 0", SW_FORMAT},
    {qwen2, "\"vocab_size\": 151936", "\"vocab_size\": 99999999", "from 1 to 16777216",
     SW_FORMAT},
    {qwen2, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 5",
     "'num_key_value_heads' is 5; it must be a divisor of num_attention_heads", SW_FORMAT},
    {qwen2, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 2.5",
     "'num_key_value_heads' is 2.5", SW_FORMAT},
    {qwen2, "\"hidden_size\": 1536", "\"hidden_size\": \"1536\"", "'hidden_size' is \"1536\"",
     SW_FORMAT},
    {qwen2, "\"hidden_size\": 1536", "\"hidden_size\": 1537", "as there is no head_dim",
     SW_FORMAT},
    {qwen2, "", "\"head_dim\": 127", "must be even", SW_FORMAT},
    {qwen2, "\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": 0", "'rms_norm_eps' is 0", SW_FORMAT},
    {qwen2, "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": 1",
     "'tie_word_embeddings' is 1; it must be true or false", SW_FORMAT},
    {qwen2, "\"rope_theta\": 1000000.0", "\"rope_theta\": -1", "'rope_theta' is -1", SW_FORMAT},
    {qwen2, "", "\"partial_rotary_factor\": 0.5",
     "'partial_rotary_factor' is 0.5; it must be 1", SW_UNSUPPORTED},
    {smollm2, "interleaved\": false", "interleaved\": true", "'rope_interleaved' is true",
     SW_UNSUPPORTED},
    {llama3, "\"llama3\"", "\"yarn\"",
     "'rope_scaling.rope_type' is \"yarn\"; it must be default or llama3", SW_UNSUPPORTED},
    {llama3, "\"llama3\"", "\"linear\"", "'rope_scaling.rope_type' is \"linear\"",
     SW_UNSUPPORTED},
    {llama3, "\"llama3\"", "\"llama3\", \"beta_fast\": 32",
     "'rope_scaling.beta_fast' is 32, which is not known here", SW_UNSUPPORTED},
    {llama3, "\"llama3\"", "\"llama3\", \"type\": \"linear\"",
     "'rope_scaling.type' is \"linear\"; it must be llama3", SW_FORMAT},
    {llama3, "\"factor\": 32.0, ", "", "'rope_scaling.factor' is missing", SW_FORMAT},
    {llama3, "\"high_freq_factor\": 4.0", "\"high_freq_factor\": 0.5",
     "'rope_scaling.high_freq_factor' is 0.5; it must be a number above 1", SW_FORMAT},
    {llama3, "\"original_max_position_embeddings\": 8192, ", "", "is missing", SW_FORMAT},
    {llama3, "\"factor\": 32.0", "\"factor\": 32.0, \"partial_rotary_factor\": 0.25",
     "'rope_scaling.partial_rotary_factor' is 0.25", SW_UNSUPPORTED},
    {llama3, "\"factor\": 32.0", "\"factor\": 32.0, \"factor\": 32.0",
     "'rope_scaling.factor' is there twice", SW_FORMAT},
    {llama3, "\"factor\": 32.0", "\"factor\": 32.0, \"rope_theta\": 1",
     "rope_theta that stands beside it", SW_FORMAT},
    {llama3, "", "\"rope_parameters\": {\"rope_type\": \"default\"}",
     "as rope_scaling beside it", SW_FORMAT},
    {qwen3, "\"rope_parameters\": {\"rope_theta\": 1000000, \"rope_type\": \"default\"}",
     "\"rope_parameters\": 7", "'rope_parameters' is 7; it must be an object", SW_FORMAT},
    {qwen3, "\"full_attention\"", "\"chunked\"", "'layer_types' is [\"chunked\"",
     SW_UNSUPPORTED},
    {llama3, "128009]", "128256]", "an id below 128256", SW_FORMAT},
    {llama3, "\"bos_token_id\": 128000", "\"bos_token_id\": [1]", "'bos_token_id' is [1]",
     SW_FORMAT},
    {gpt2, "", "\"n_embd\": 768", "'n_embd' is there twice", SW_FORMAT},
    {gpt2, "\"n_layer\": 12", "\"n_layer\": 12 12", "'}' was expected", SW_FORMAT},
    {gpt2, "50257}", "50257} x", "text after the end", SW_FORMAT},
    {gpt2, "50257}", "50257", "'}' was expected", SW_FORMAT},
    {gpt2, "{\"activ", "\"activ", "'{' was expected", SW_FORMAT},
};

SW_TEST("what is not built is refused by key and value")
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hf_config c = {.layers = -7};
        const sw_status status = parse(&c, with(bad[i].text, bad[i].from, bad[i].to));
        SW_CHECK(status == bad[i].status && c.layers == -7 &&
                     strstr(sw_last_error(), bad[i].says) != NULL &&
                     strncmp(sw_last_error(), "config.json: ", 13) == 0,
                 "%s: %s: '%s', must have '%s'", bad[i].to, sw_status_name(status),
                 status != SW_OK ? sw_last_error() : "", bad[i].says);
    }
}

/* Whatever a text becomes, it is read as sizes that a net can have, or refused with a reason;
 * no byte beside it is looked at (it ends where its block does). */
SW_TEST("a thousand mutations do no harm")
{
    static const char *const all[] = {gpt2, llama3, qwen2, qwen3, mistral, smollm2};
    static const char pieces[] = "{}[]\",:-.0123456789eEnultrfas\\ ";
    sw_dice dice = {52};
    int read = 0;
    for (int i = 0; i < 1000; i++) {
        const char *text = all[sw_dice_below(&dice, 6)];
        size_t n = strlen(text);
        char *block = malloc(n);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        memcpy(block, text, n);
        for (uint64_t k = 1 + sw_dice_below(&dice, 3); k > 0; k--) {
            const size_t at = (size_t)sw_dice_below(&dice, n), room = n - at,
                         less = (size_t)sw_dice_below(&dice, room < 40 ? room : 40);
            switch (sw_dice_below(&dice, 4)) {
            case 0: /* a byte of any value */
                block[at] = (char)sw_dice_next(&dice);
                break;
            case 1: /* one that JSON has a meaning for */
                block[at] = pieces[sw_dice_below(&dice, sizeof pieces - 1)];
                break;
            case 2: /* a piece is lost */
                memmove(block + at, block + at + less, room - less);
                n -= less;
                break;
            default: /* the end is lost */
                n = i % 7 == 0 ? at + 1 : n;
                break;
            }
        }
        char *exact = malloc(n);
        CU_ASSERT_PTR_NOT_NULL_FATAL(exact);
        memcpy(exact, block, n);
        hf_config c;
        const sw_status status = hf_config_parse(&c, exact, n, "mutant");
        if (status == SW_OK) {
            read++;
            SW_CHECK(c.hidden > 0 && c.layers > 0 && c.heads > 0 && c.heads_kv > 0 &&
                         c.heads % c.heads_kv == 0 && c.head_dim > 0 && c.inner > 0 &&
                         c.vocabulary > 0 && c.context > 0 && c.epsilon > 0 && c.n_eos <= 16 &&
                         (c.family == HF_GPT2 || c.rope.theta > 0),
                     "mutation %d", i);
        } else {
            SW_CHECK((status == SW_FORMAT || status == SW_UNSUPPORTED) &&
                         strstr(sw_last_error(), "mutant") != NULL,
                     "mutation %d: %s: %s", i, sw_status_name(status), sw_last_error());
        }
        free(exact);
        free(block);
    }
    sw_note("%d of 1,000 are still read", read);
    CU_ASSERT(read > 50 && read < 950);
}

SW_TEST("a file is read, and a context is held against it")
{
    hf_config c;
    bool beyond = true;
    sw_file_put(sw_temp_path("config.json"), mistral, strlen(mistral));
    CU_ASSERT_EQUAL(hf_config_read(&c, sw_temp_path("config.json")), SW_OK);
    CU_ASSERT_STRING_EQUAL(hf_family_name(c.family), "mistral");
    CU_ASSERT(hf_config_context(&c, 4096, &beyond) == SW_OK && !beyond);
    CU_ASSERT(hf_config_context(&c, 4097, &beyond) == SW_INVALID &&
              strstr(sw_last_error(), "sliding window, 4096 (got 4097)") != NULL);
    c = parsed(gpt2);
    CU_ASSERT(hf_config_context(&c, 1025, &beyond) == SW_INVALID &&
              strstr(sw_last_error(), "positions, 1024 (got 1025)") != NULL);
    c = parsed(smollm2);
    CU_ASSERT(hf_config_context(&c, 8192, &beyond) == SW_OK && !beyond);
    CU_ASSERT(hf_config_context(&c, 8193, &beyond) == SW_OK && beyond);
    CU_ASSERT_EQUAL(hf_config_context(&c, 0, &beyond), SW_INVALID);
    CU_ASSERT_EQUAL(hf_config_read(&c, sw_temp_path("none.json")), SW_IO);
}
