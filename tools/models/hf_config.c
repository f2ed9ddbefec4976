/* See hf_config.h. The text is read once for where the value of each key lies, and then by key:
 * model_type, which decides what a key means, may come last. */
#include "tools/models/hf_config.h"
#include "profiler/record/json_read.h"
#include "profiler/record/utf8.h"
#include "runtime/base/text_file.h"
#include "runtime/state/model_folder.h"
#include <stdio.h>
#include <string.h>

#define TEXT_MAX ((size_t)1 << 20) /* bytes of a config.json */
#define SIZE_MOST (1 << 24)        /* of any size but the next two */
#define LAYERS_MOST (1 << 12)      /* handles of them are made before weights are looked at */
#define CONTEXT_MOST (1 << 30)
#define SHOWN 80 /* of a value in a message */
#define UNKNOWN sizeof((hf_config *)NULL)->unknown

/* ---- keys -------------------------------------------------------------------------------- */

#define BIT(family) (1u << (family))
#define ALL (BIT(HF_FAMILIES) - 1)
#define ROPED (ALL & ~BIT(HF_GPT2))
#define GPT2 BIT(HF_GPT2)

typedef struct {
    const char *name;
    unsigned families; /* that read it; of others it is an unknown key */
} key;

/* In the order of the names below. */
enum {
    MODEL_TYPE,
    ARCHITECTURES,
    TEXT_CONFIG,
    AUTO_MAP,
    QUANTIZATION,
    VOCABULARY,
    HIDDEN,
    INNER,
    LAYERS,
    HEADS,
    HEADS_KV,
    HEAD_DIM,
    ATTENTION_BIAS,
    MLP_BIAS,
    ROPE_THETA,
    ROPE_SCALING,
    ROPE_PARAMETERS,
    PARTIAL,
    INTERLEAVED,
    TIED,
    RMS_EPSILON,
    WINDOW,
    USE_WINDOW,
    LAYER_TYPES,
    HIDDEN_ACT,
    CONTEXT,
    BOS,
    EOS,
    PAD,
    DTYPE,
    TORCH_DTYPE,
    N_EMBD,
    N_LAYER,
    N_HEAD,
    N_POSITIONS,
    N_INNER,
    EPSILON,
    ACTIVATION,
    SCALE,
    SCALE_BY_LAYER,
    CROSS,
    KEYS
}; /* clang-format off */
static const key keys[KEYS] = {
    {"model_type", ALL}, {"architectures", ALL}, {"text_config", ALL}, {"auto_map", ALL},
    {"quantization_config", ALL}, {"vocab_size", ALL}, {"hidden_size", ROPED},
    {"intermediate_size", ROPED}, {"num_hidden_layers", ROPED},
    {"num_attention_heads", ROPED}, {"num_key_value_heads", ROPED}, {"head_dim", ROPED},
    {"attention_bias", BIT(HF_LLAMA) | BIT(HF_QWEN3)}, {"mlp_bias", BIT(HF_LLAMA)},
    {"rope_theta", ROPED}, {"rope_scaling", ROPED}, {"rope_parameters", ROPED},
    {"partial_rotary_factor", ROPED}, {"rope_interleaved", ROPED},
    {"tie_word_embeddings", ALL}, {"rms_norm_eps", ROPED},
    {"sliding_window", ROPED & ~BIT(HF_LLAMA)},
    {"use_sliding_window", BIT(HF_QWEN2) | BIT(HF_QWEN3)},
    {"layer_types", ROPED & ~BIT(HF_LLAMA)}, {"hidden_act", ROPED},
    {"max_position_embeddings", ROPED}, {"bos_token_id", ALL}, {"eos_token_id", ALL},
    {"pad_token_id", ALL}, {"dtype", ALL}, {"torch_dtype", ALL}, {"n_embd", GPT2},
    {"n_layer", GPT2}, {"n_head", GPT2}, {"n_positions", GPT2}, {"n_inner", GPT2},
    {"layer_norm_epsilon", GPT2}, {"activation_function", GPT2},
    {"scale_attn_weights", GPT2}, {"scale_attn_by_inverse_layer_idx", GPT2},
    {"add_cross_attention", GPT2},
};

/* That change no number of the net, or only dropouts, which are off. */
static const char *const ignored[] = {
    "_name_or_path", "_attn_implementation_autoset", "transformers_version", "use_cache",
    "initializer_range", "attention_dropout", "pretraining_tp", "attn_pdrop", "embd_pdrop",
    "resid_pdrop", "n_ctx", "reorder_and_upcast_attn", "summary_activation",
    "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
    "task_specific_params", "max_window_layers", "gradient_checkpointing", "return_dict",
    "output_attentions", "output_hidden_states", "id2label", "label2id",
    "chunk_size_feed_forward", "is_encoder_decoder", "problem_type",
};

enum { R_TYPE, R_ROPE_TYPE, R_THETA, R_FACTOR, R_LOW, R_HIGH, R_ORIGINAL, R_PARTIAL,
       R_INTERLEAVED, ROPE_KEYS };
static const key rope_keys[ROPE_KEYS] = {
    {"type", ALL}, {"rope_type", ALL}, {"rope_theta", ALL}, {"factor", ALL},
    {"low_freq_factor", ALL}, {"high_freq_factor", ALL},
    {"original_max_position_embeddings", ALL}, {"partial_rotary_factor", ALL},
    {"rope_interleaved", ALL},
};

enum { G_SAMPLES, G_TEMPERATURE, G_TOP_P, G_TOP_K, G_REPETITION, G_EOS, GENERATION_KEYS };
static const key generation_keys[GENERATION_KEYS] = {
    {"do_sample", ALL}, {"temperature", ALL}, {"top_p", ALL}, {"top_k", ALL},
    {"repetition_penalty", ALL}, {"eos_token_id", ALL},
};
/* clang-format on */

static const struct {
    const char *name, *architecture;
    int64_t context; /* where the file has none */
} families[HF_FAMILIES] = {
    [HF_GPT2] = {"gpt2", "GPT2LMHeadModel", 1024},
    [HF_LLAMA] = {"llama", "LlamaForCausalLM", 2048},
    [HF_QWEN2] = {"qwen2", "Qwen2ForCausalLM", 32768},
    [HF_QWEN3] = {"qwen3", "Qwen3ForCausalLM", 32768},
    [HF_MISTRAL] = {"mistral", "MistralForCausalLM", 131072},
};

const char *hf_family_name(hf_family family)
{
    return families[family].name;
}

/* ---- where values lie -------------------------------------------------------------------- */

typedef struct {
    const char *path, *prefix; /* of names in messages: "rope_scaling." */
    const char *text;
    const key *keys;
    int n_keys;
    bool closed; /* the first unknown key is kept with its value: it is refused */
    struct {
        size_t at, n; /* n 0: not there */
    } value[KEYS];
    char *unknown; /* of hf_config */
} reader;

static sw_status refuse(const reader *r, int k, sw_status status, const char *must)
{
    char value[SHOWN + 1], clean[SHOWN];
    const size_t n = r->value[k].n;
    snprintf(value, sizeof value, "%.*s", (int)(n < SHOWN ? n : SHOWN),
             r->text + r->value[k].at);
    sw_utf8_clean(clean, sizeof clean, value);
    if (n == 0)
        SW_FAIL(status, "%s: '%s%s' is missing: it must be %s", r->path, r->prefix,
                r->keys[k].name, must);
    SW_FAIL(status, "%s: '%s%s' is %s; it must be %s", r->path, r->prefix, r->keys[k].name,
            clean, must);
}

static void list_unknown(const reader *r, const char *name)
{
    const size_t at = strlen(r->unknown);
    char clean[SHOWN];
    sw_utf8_clean(clean, sizeof clean, name);
    snprintf(r->unknown + at, UNKNOWN - at, "%s%s", at > 0 ? ", " : "", clean);
}

static sw_status find_value(sw_json_in *in, const char *name, void *context)
{
    reader *r = context;
    int c, k = 0;
    while (k < r->n_keys && strcmp(r->keys[k].name, name) != 0)
        k++;
    SW_TRY(sw_json_peek(in, &c));
    const size_t at = in->at;
    SW_TRY(sw_json_skip(in));
    if (k < r->n_keys) {
        if (r->value[k].n > 0)
            SW_FAIL(SW_FORMAT, "%s: '%s%s' is there twice", r->path, r->prefix, name);
        r->value[k].at = at;
        r->value[k].n = in->at - at;
        return SW_OK;
    }
    if (r->closed) {
        char value[SHOWN + 1], clean[SHOWN], clean_name[SHOWN];
        const size_t n = in->at - at;
        snprintf(value, sizeof value, "%.*s", (int)(n < SHOWN ? n : SHOWN), r->text + at);
        sw_utf8_clean(clean, sizeof clean, value);
        sw_utf8_clean(clean_name, sizeof clean_name, name);
        if (r->unknown[0] == '\0')
            snprintf(r->unknown, UNKNOWN, "%s' is %s", clean_name, clean);
        return SW_OK;
    }
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        if (strcmp(name, ignored[i]) == 0)
            return SW_OK;
    list_unknown(r, name);
    return SW_OK;
}

static sw_json_in value_of(const reader *r, int k)
{
    sw_json_in in = sw_json_in_text(r->text + r->value[k].at, r->value[k].n, r->path);
    in.before = r->value[k].at;
    in.strict = true;
    return in;
}

/* Is the key not there, or null? */
static bool is_none(const reader *r, int k)
{
    return r->value[k].n == 0 ||
           (r->value[k].n == 4 && memcmp(r->text + r->value[k].at, "null", 4) == 0);
}

/* ---- values ------------------------------------------------------------------------------ */

/* A whole number, `other` where the key is not there or null; `other` -1: it must be there. */
static sw_status get_size(const reader *r, int k, int64_t other, int64_t most, int64_t *out)
{
    char must[60];
    sw_json_number x;
    sw_json_in in = value_of(r, k);
    snprintf(must, sizeof must, "a whole number from 1 to %lld", (long long)most);
    *out = other;
    if (is_none(r, k))
        return other >= 0 ? SW_OK : refuse(r, k, SW_FORMAT, must);
    if (sw_json_get_number(&in, &x) != SW_OK || !x.whole || x.minus || x.magnitude < 1 ||
        x.magnitude > (uint64_t)most)
        return refuse(r, k, SW_FORMAT, must);
    *out = (int64_t)x.magnitude;
    return SW_OK;
}

/* A number above `low`, or from 0 on where `low` is below it; `other` below 0: it must be
 * there. */
static sw_status get_real(const reader *r, int k, double other, double low, double most,
                          double *out)
{
    char must[60];
    sw_json_number x;
    sw_json_in in = value_of(r, k);
    snprintf(must, sizeof must, "a number %s %g and at most %g", low < 0.0 ? "from" : "above",
             low < 0.0 ? 0.0 : low, most);
    *out = other;
    if (is_none(r, k))
        return other >= 0.0 ? SW_OK : refuse(r, k, SW_FORMAT, must);
    if (sw_json_get_number(&in, &x) != SW_OK || x.real > most ||
        (low < 0.0 ? x.real < 0.0 : x.real <= low))
        return refuse(r, k, SW_FORMAT, must);
    *out = x.real;
    return SW_OK;
}

static sw_status get_flag(const reader *r, int k, bool other, bool *out)
{
    sw_json_word word;
    sw_json_in in = value_of(r, k);
    *out = other;
    if (is_none(r, k))
        return SW_OK;
    if (sw_json_get_word(&in, &word) != SW_OK)
        return refuse(r, k, SW_FORMAT, "true or false");
    *out = word == SW_JSON_TRUE;
    return SW_OK;
}

/* It is what the net does, or not there. */
static sw_status need_flag(const reader *r, int k, bool must)
{
    bool is;
    SW_TRY(get_flag(r, k, must, &is));
    return is == must ? SW_OK : refuse(r, k, SW_UNSUPPORTED, must ? "true" : "false");
}

static sw_status need_none(const reader *r, int k)
{
    return is_none(r, k) ? SW_OK : refuse(r, k, SW_UNSUPPORTED, "absent: it is not built");
}

static sw_status get_word(const reader *r, int k, char *to, size_t bytes)
{
    sw_json_in in = value_of(r, k);
    to[0] = '\0';
    if (!is_none(r, k) && sw_json_get_text(&in, to, bytes) != SW_OK)
        return refuse(r, k, SW_FORMAT, "a text");
    return SW_OK;
}

static sw_status need_word(const reader *r, int k, const char *must)
{
    char is[40];
    SW_TRY(get_word(r, k, is, sizeof is));
    return is_none(r, k) || strcmp(is, must) == 0 ? SW_OK : refuse(r, k, SW_UNSUPPORTED, must);
}

/* Ids of tokens: a number, or a list; *n 0: none. */
static sw_status get_ids(const reader *r, int k, int64_t vocabulary, int64_t *to, int room,
                         int *n)
{
    char must[80];
    sw_json_in in = value_of(r, k);
    bool list = false, more = true;
    snprintf(must, sizeof must, "an id below %lld, the vocabulary%s", (long long)vocabulary,
             room > 1 ? ", or a list of at most 16" : "");
    *n = 0;
    if (is_none(r, k))
        return SW_OK;
    if (room > 1)
        SW_TRY(sw_json_accept(&in, '[', &list));
    if (list)
        SW_TRY(sw_json_accept(&in, ']', &more));
    for (more = !list || !more; more;) {
        sw_json_number x;
        if (*n == room || sw_json_get_number(&in, &x) != SW_OK || !x.whole ||
            (x.minus && (list || x.magnitude != 1)) ||
            (!x.minus && x.magnitude >= (uint64_t)vocabulary))
            return refuse(r, k, SW_FORMAT, must);
        if (!x.minus) /* -1 is none, as some files say it */
            to[(*n)++] = (int64_t)x.magnitude;
        more = false;
        if (list)
            SW_TRY(sw_json_accept(&in, ',', &more));
    }
    return SW_OK;
}

/* Is `word` in a list of words that are all of `of` (NULL: any)? */
static sw_status has_word(const reader *r, int k, const char *word, const char *const of[2],
                          bool *there)
{
    sw_json_in in = value_of(r, k);
    bool more;
    *there = false;
    if (is_none(r, k))
        return SW_OK;
    if (sw_json_expect(&in, '[') != SW_OK)
        return refuse(r, k, SW_FORMAT, "a list of texts");
    SW_TRY(sw_json_accept(&in, ']', &more));
    for (more = !more; more;) {
        char is[64];
        if (sw_json_get_text(&in, is, sizeof is) != SW_OK)
            return refuse(r, k, SW_FORMAT, "a list of texts");
        if (of != NULL && strcmp(is, of[0]) != 0 && strcmp(is, of[1]) != 0)
            return refuse(r, k, SW_UNSUPPORTED, "a list of full_attention, sliding_attention");
        *there |= strcmp(is, word) == 0;
        SW_TRY(sw_json_accept(&in, ',', &more));
    }
    return SW_OK;
}

/* ---- rope -------------------------------------------------------------------------------- */

/* The object at key k, if one is there. */
static sw_status get_rope(const reader *of, int k, hf_rope *out, bool *has_theta)
{
    char prefix[32], type[24], also[24], unknown[UNKNOWN] = "";
    reader r = {.path = of->path,
                .text = of->text,
                .prefix = prefix,
                .keys = rope_keys,
                .n_keys = ROPE_KEYS,
                .closed = true,
                .unknown = unknown};
    sw_json_in in = value_of(of, k);
    snprintf(prefix, sizeof prefix, "%s.", of->keys[k].name);
    if (of->text[of->value[k].at] != '{')
        return refuse(of, k, SW_FORMAT, "an object");
    /* Places are those in the whole text. */
    in.text = (const unsigned char *)of->text;
    in.bytes = of->value[k].at + of->value[k].n;
    in.at = of->value[k].at;
    in.before = 0;
    SW_TRY(sw_json_get_object(&in, find_value, &r));
    SW_TRY(get_word(&r, R_TYPE, type, sizeof type));
    SW_TRY(get_word(&r, R_ROPE_TYPE, also, sizeof also));
    const int from = is_none(&r, R_ROPE_TYPE) ? R_TYPE : R_ROPE_TYPE;
    const char *is = from == R_TYPE ? type : also;
    const bool llama3 = strcmp(is, "llama3") == 0;
    if (!is_none(&r, R_TYPE) && strcmp(type, is) != 0)
        return refuse(&r, R_TYPE, SW_FORMAT, also);
    if (!llama3 && !is_none(&r, from) && strcmp(is, "default") != 0)
        return refuse(&r, from, SW_UNSUPPORTED, "default or llama3");
    if (unknown[0] != '\0')
        SW_FAIL(SW_UNSUPPORTED, "%s: '%s%s, which is not known here", r.path, prefix, unknown);
    double one;
    SW_TRY(get_real(&r, R_PARTIAL, 1.0, 0.0, 1e30, &one));
    if (one < 1.0 || one > 1.0)
        return refuse(&r, R_PARTIAL, SW_UNSUPPORTED, "1");
    SW_TRY(need_flag(&r, R_INTERLEAVED, false));
    *has_theta = !is_none(&r, R_THETA);
    SW_TRY(get_real(&r, R_THETA, 10000.0, 0.0, 1e30, &out->theta));
    out->kind = HF_ROPE_DEFAULT;
    if (!llama3)
        return SW_OK;
    out->kind = HF_ROPE_LLAMA3;
    SW_TRY(get_real(&r, R_FACTOR, -1.0, 0.0, 1e9, &out->factor));
    SW_TRY(get_real(&r, R_LOW, -1.0, 0.0, 1e9, &out->low_freq_factor));
    SW_TRY(get_real(&r, R_HIGH, -1.0, out->low_freq_factor, 1e9, &out->high_freq_factor));
    return get_size(&r, R_ORIGINAL, -1, CONTEXT_MOST, &out->original_context);
}

static bool same_number(double a, double b)
{
    return !(a < b) && !(a > b);
}

static bool same_rope(const hf_rope *a, const hf_rope *b)
{
    return a->kind == b->kind && same_number(a->factor, b->factor) &&
           same_number(a->low_freq_factor, b->low_freq_factor) &&
           same_number(a->high_freq_factor, b->high_freq_factor) &&
           a->original_context == b->original_context;
}

/* By rope_theta and rope_scaling (transformers 4) or rope_parameters (5), or both, which then
 * agree. */
static sw_status read_rope(const reader *r, hf_rope *out)
{
    static const int parts[] = {ROPE_SCALING, ROPE_PARAMETERS};
    double one;
    bool there = !is_none(r, ROPE_THETA), before = false;
    *out = (hf_rope){.kind = HF_ROPE_DEFAULT};
    SW_TRY(get_real(r, ROPE_THETA, 10000.0, 0.0, 1e30, &out->theta));
    SW_TRY(get_real(r, PARTIAL, 1.0, 0.0, 1e30, &one));
    if (one < 1.0 || one > 1.0)
        return refuse(r, PARTIAL, SW_UNSUPPORTED, "1");
    SW_TRY(need_flag(r, INTERLEAVED, false));
    for (int i = 0; i < 2; i++) {
        hf_rope rope = {.kind = HF_ROPE_DEFAULT};
        bool theta = false;
        if (is_none(r, parts[i]))
            continue;
        SW_TRY(get_rope(r, parts[i], &rope, &theta));
        if (theta && there && !same_number(rope.theta, out->theta))
            return refuse(r, parts[i], SW_FORMAT, "with the rope_theta that stands beside it");
        if (before && !same_rope(out, &rope))
            return refuse(r, parts[i], SW_FORMAT, "as rope_scaling beside it");
        rope.theta = theta ? rope.theta : out->theta;
        there |= theta;
        before = true;
        *out = rope;
    }
    return SW_OK;
}

/* ---- families ---------------------------------------------------------------------------- */

static sw_status read_gpt2(const reader *r, hf_config *c)
{
    SW_TRY(get_size(r, N_EMBD, -1, SIZE_MOST, &c->hidden));
    SW_TRY(get_size(r, N_LAYER, -1, LAYERS_MOST, &c->layers));
    SW_TRY(get_size(r, N_HEAD, -1, SIZE_MOST, &c->heads));
    SW_TRY(get_size(r, N_POSITIONS, families[HF_GPT2].context, SIZE_MOST, &c->context));
    SW_TRY(get_size(r, N_INNER, 4 * c->hidden, 4 * SIZE_MOST, &c->inner));
    if (c->inner != 4 * c->hidden)
        return refuse(r, N_INNER, SW_UNSUPPORTED, "null, or 4 times n_embd");
    if (c->hidden % c->heads != 0)
        return refuse(r, N_HEAD, SW_FORMAT, "a divisor of n_embd");
    c->heads_kv = c->heads;
    c->head_dim = c->hidden / c->heads;
    c->qkv_bias = c->o_bias = c->mlp_bias = true;
    SW_TRY(get_real(r, EPSILON, 1e-5, 0.0, 1.0, &c->epsilon));
    SW_TRY(need_word(r, ACTIVATION, "gelu_new"));
    SW_TRY(need_flag(r, SCALE, true));
    SW_TRY(need_flag(r, SCALE_BY_LAYER, false));
    return need_flag(r, CROSS, false);
}

static sw_status read_window(const reader *r, hf_config *c)
{
    static const char *const of[] = {"full_attention", "sliding_attention"};
    bool counts = false, slides = false;
    if (c->family == HF_LLAMA)
        return SW_OK;
    SW_TRY(get_flag(r, USE_WINDOW, false, &counts));
    SW_TRY(has_word(r, LAYER_TYPES, of[1], of, &slides));
    /* Of mistral it counts where it is not null, and layers may say that none has it. */
    if (c->family == HF_MISTRAL)
        counts = (r->value[WINDOW].n == 0 || !is_none(r, WINDOW)) && is_none(r, LAYER_TYPES);
    if (!counts && !slides)
        return SW_OK;
    return get_size(r, WINDOW, 4096, CONTEXT_MOST, &c->window);
}

static sw_status read_roped(const reader *r, hf_config *c)
{
    const hf_family f = c->family;
    bool bias;
    SW_TRY(get_size(r, HIDDEN, -1, SIZE_MOST, &c->hidden));
    SW_TRY(get_size(r, INNER, -1, SIZE_MOST, &c->inner));
    SW_TRY(get_size(r, LAYERS, -1, LAYERS_MOST, &c->layers));
    SW_TRY(get_size(r, HEADS, -1, SIZE_MOST, &c->heads));
    const bool absent = f == HF_MISTRAL && r->value[HEADS_KV].n == 0;
    SW_TRY(get_size(r, HEADS_KV, absent ? 8 : c->heads, SIZE_MOST, &c->heads_kv));
    if (c->heads % c->heads_kv != 0)
        return refuse(r, HEADS_KV, SW_FORMAT, "a divisor of num_attention_heads");
    const int64_t other = f == HF_QWEN3 ? 128 : c->hidden / c->heads;
    SW_TRY(get_size(r, HEAD_DIM, other, SIZE_MOST, &c->head_dim));
    if (is_none(r, HEAD_DIM) && f != HF_QWEN3 && c->hidden % c->heads != 0)
        return refuse(r, HEADS, SW_FORMAT, "a divisor of hidden_size, as there is no head_dim");
    if (c->head_dim < 2 || c->head_dim % 2 != 0 || c->head_dim > SIZE_MOST / c->heads)
        SW_FAIL(SW_FORMAT,
                "%s: heads of %lld numbers: head_dim (or hidden_size / num_attention_heads) "
                "must be even, and at most %d in all heads",
                r->path, (long long)c->head_dim, SIZE_MOST);
    SW_TRY(get_flag(r, ATTENTION_BIAS, false, &bias));
    const bool reads = (keys[ATTENTION_BIAS].families & BIT(f)) != 0;
    c->qkv_bias = f == HF_QWEN2 || (reads && bias);
    c->o_bias = reads && bias;
    if (f == HF_LLAMA)
        SW_TRY(get_flag(r, MLP_BIAS, false, &c->mlp_bias));
    c->qk_norm = f == HF_QWEN3;
    SW_TRY(get_real(r, RMS_EPSILON, 1e-6, 0.0, 1.0, &c->epsilon));
    SW_TRY(need_word(r, HIDDEN_ACT, "silu"));
    SW_TRY(get_size(r, CONTEXT, families[f].context, CONTEXT_MOST, &c->context));
    SW_TRY(read_window(r, c));
    return read_rope(r, &c->rope);
}

static sw_status read_all(reader *r, hf_config *c)
{
    char type[40];
    bool there;
    int n, f = 0;
    SW_TRY(get_word(r, MODEL_TYPE, type, sizeof type));
    while (f < HF_FAMILIES && strcmp(families[f].name, type) != 0)
        f++;
    if (f == HF_FAMILIES)
        return refuse(r, MODEL_TYPE, SW_UNSUPPORTED, "gpt2, llama, qwen2, qwen3 or mistral");
    c->family = (hf_family)f;
    for (int k = 0; k < KEYS; k++)
        if (r->value[k].n > 0 && !(keys[k].families & BIT(f)))
            list_unknown(r, keys[k].name);
    SW_TRY(has_word(r, ARCHITECTURES, families[f].architecture, NULL, &there));
    if (!there && !is_none(r, ARCHITECTURES))
        return refuse(r, ARCHITECTURES, SW_UNSUPPORTED, families[f].architecture);
    SW_TRY(need_none(r, TEXT_CONFIG));
    SW_TRY(need_none(r, AUTO_MAP));
    SW_TRY(need_none(r, QUANTIZATION));
    SW_TRY(get_size(r, VOCABULARY, -1, SIZE_MOST, &c->vocabulary));
    SW_TRY(f == HF_GPT2 ? read_gpt2(r, c) : read_roped(r, c));
    SW_TRY(get_flag(r, TIED, f == HF_GPT2, &c->tied));
    c->bos = c->pad = -1;
    SW_TRY(get_ids(r, BOS, c->vocabulary, &c->bos, 1, &n));
    SW_TRY(get_ids(r, PAD, c->vocabulary, &c->pad, 1, &n));
    SW_TRY(get_ids(r, EOS, c->vocabulary, c->eos, HF_EOS_MAX, &c->n_eos));
    return get_word(r, is_none(r, DTYPE) ? TORCH_DTYPE : DTYPE, c->dtype, sizeof c->dtype);
}

/* Find the values of a text, which is one object. */
static sw_status find_values(reader *r, size_t bytes)
{
    sw_json_in in = sw_json_in_text(r->text, bytes, r->path);
    int end;
    in.strict = true;
    SW_TRY(sw_json_get_object(&in, find_value, r));
    SW_TRY(sw_json_peek(&in, &end));
    return end == -1 ? SW_OK : sw_json_bad(&in, "text after the end");
}

sw_status hf_config_parse(hf_config *out, const char *text, size_t bytes, const char *path)
{
    hf_config c = {.window = 0};
    reader r = {.path = path,
                .prefix = "",
                .text = text,
                .keys = keys,
                .n_keys = KEYS,
                .unknown = c.unknown};
    SW_TRY(find_values(&r, bytes));
    SW_TRY(read_all(&r, &c));
    *out = c;
    return SW_OK;
}

sw_status hf_config_read(hf_config *out, const char *path)
{
    char *text;
    size_t bytes;
    SW_TRY(swi_text_load(&text, &bytes, path, "a config.json", TEXT_MAX));
    const sw_status status = hf_config_parse(out, text, bytes, path);
    sw_text_free(text, bytes);
    return status;
}

static sw_status read_generation(reader *r, size_t bytes, int64_t vocabulary, hf_generation *g)
{
    double k;
    SW_TRY(find_values(r, bytes));
    SW_TRY(get_flag(r, G_SAMPLES, false, &g->samples));
    SW_TRY(get_real(r, G_TEMPERATURE, 1.0, -1.0, 1e9, &g->temperature));
    SW_TRY(get_real(r, G_TOP_P, 1.0, -1.0, 1.0, &g->top_p));
    SW_TRY(get_real(r, G_REPETITION, 1.0, -1.0, 1e9, &g->repetition));
    SW_TRY(get_real(r, G_TOP_K, 50.0, -1.0, 1e9, &k));
    g->top_k = (int64_t)k;
    return get_ids(r, G_EOS, vocabulary, g->eos, HF_EOS_MAX, &g->n_eos);
}

sw_status hf_generation_read(hf_generation *out, const char *folder, int64_t vocabulary)
{
    char path[SWI_FOLDER_PATH + 64], unknown[UNKNOWN] = "", *text;
    size_t bytes;
    bool there;
    hf_generation g = {.temperature = 1.0, .top_p = 1.0, .repetition = 1.0, .top_k = 50};
    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    SW_TRY(sw_file_look(path, &there));
    if (there) {
        SW_TRY(swi_text_load(&text, &bytes, path, "a generation_config.json", TEXT_MAX));
        reader r = {.path = path,
                    .prefix = "",
                    .text = text,
                    .keys = generation_keys,
                    .n_keys = GENERATION_KEYS,
                    .unknown = unknown};
        const sw_status status = read_generation(&r, bytes, vocabulary, &g);
        sw_text_free(text, bytes);
        SW_TRY(status);
    }
    *out = g;
    return SW_OK;
}

sw_status hf_config_context(const hf_config *c, int64_t context, bool *beyond)
{
    const bool table = c->family == HF_GPT2;
    const int64_t most = table ? c->context : c->window;
    if (context < 1 || (most > 0 && context > most))
        SW_FAIL(SW_INVALID, "a context of this %s must be at least 1%s%s%lld (got %lld)",
                families[c->family].name, most > 0 ? " and at most its " : "",
                most == 0 ? "; positions: "
                : table   ? "positions, "
                          : "sliding window, ",
                (long long)(most > 0 ? most : c->context), (long long)context);
    *beyond = context > c->context;
    return SW_OK;
}
