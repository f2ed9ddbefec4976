/* Nets of folders of transformers, and adapters beside them: every allocation and every
 * operation of files fails once, and 10,000 mutations of the folder. */
#include "tests/data/data_files.h"
#include "tests/support/heap_sweep.h"
#include "tools/models/hf_net.h"

SW_TESTS("hf net")

enum { VOCABULARY = 8, HIDDEN = 8, INNER = 12, KV = 4, LAYERS = 2 }; /* of config_json */

static const char config_json[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 8, \"hidden_size\": 8, \"intermediate_size\": "
    "12, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
    "\"max_position_embeddings\": 32, \"rms_norm_eps\": 1e-5, \"dtype\": \"bfloat16\", "
    "\"hidden_act\": \"silu\", \"rope_theta\": 10000.0, \"tie_word_embeddings\": false}";
static const struct {
    const char *name;
    int rows, cols;
} in_layer[] = {{"input_layernorm", HIDDEN, 0},       {"self_attn.q_proj", HIDDEN, HIDDEN},
                {"self_attn.k_proj", KV, HIDDEN},     {"self_attn.v_proj", KV, HIDDEN},
                {"self_attn.o_proj", HIDDEN, HIDDEN}, {"post_attention_layernorm", HIDDEN, 0},
                {"mlp.gate_proj", INNER, HIDDEN},     {"mlp.up_proj", INNER, HIDDEN},
                {"mlp.down_proj", HIDDEN, INNER}};
#define LINEARS ((HIDDEN + KV + KV + HIDDEN + 3 * INNER) * HIDDEN) /* numbers of a layer */

/* ---- a folder ---------------------------------------------------------------------------- */

typedef struct {
    bytes head, data;
    char map[4000]; /* of the index */
    sw_dice dice;
} shard;

/* Numbers about 0.1: of F32 in norms, else of BF16, as published folders mix them. */
static void put_tensor(shard *s, const char *file, const char *name, int rows, int cols)
{
    const bool halves = cols > 0;
    const size_t from = s->data.n, n = (size_t)rows * (size_t)(halves ? cols : 1);
    for (size_t i = 0; i < n; i++) {
        const float x = 0.1f + (float)sw_dice_below(&s->dice, 100) / 1000.0f;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        bytes_le(&s->data, halves ? bits >> 16 : bits, halves ? 2 : 4);
    }
    const char *line =
        sw_textf("%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%d%s],\"data_offsets\":[%zu,%zu]}",
                 s->head.n > 0 ? "," : "{", name, halves ? "BF16" : "F32", rows,
                 halves ? sw_textf(",%d", cols) : "", from, s->data.n);
    bytes_put(&s->head, line, strlen(line));
    const size_t used = strlen(s->map);
    snprintf(s->map + used, sizeof s->map - used, "%s\"%s\": \"%s\"", used > 0 ? ", " : "",
             name, file);
}

static void put_shard(shard *s, const char *file)
{
    bytes all = {NULL, 0};
    bytes_byte(&s->head, '}');
    bytes_le(&all, s->head.n, 8);
    bytes_put(&all, s->head.at, s->head.n);
    bytes_put(&all, s->data.at, s->data.n);
    dir_put(file, all);
}

static void put_text(const char *file, const char *text)
{
    bytes b = {NULL, 0};
    bytes_put(&b, text, strlen(text));
    dir_put(file, b);
}

#define INDEX "model.safetensors.index.json"
#define SHARD "model-%d.safetensors"

/* A folder of two shards in the test's own. */
static void make_folder(void)
{
    char file[40];
    static shard s[2];
    dir_new();
    memset(s, 0, sizeof s);
    put_text("config.json", config_json);
    snprintf(file, sizeof file, SHARD, 0);
    put_tensor(&s[0], file, "model.embed_tokens.weight", VOCABULARY, HIDDEN);
    for (int i = 0; i < LAYERS; i++) {
        snprintf(file, sizeof file, SHARD, i);
        for (size_t k = 0; k < sizeof in_layer / sizeof *in_layer; k++)
            put_tensor(&s[i], file, sw_textf("model.layers.%d.%s.weight", i, in_layer[k].name),
                       in_layer[k].rows, in_layer[k].cols);
    }
    put_tensor(&s[1], file, "model.norm.weight", HIDDEN, 0);
    put_tensor(&s[1], file, "lm_head.weight", VOCABULARY, HIDDEN);
    for (int i = 0; i < 2; i++)
        put_shard(&s[i], sw_textf(SHARD, i));
    put_text(INDEX, sw_textf("{\"metadata\": {\"total_size\": %zu}, \"weight_map\": {%s, %s}}",
                             s[0].data.n + s[1].data.n, s[0].map, s[1].map));
}

/* ---- using it ---------------------------------------------------------------------------- */

typedef struct {
    const char *adapter, *save; /* folders; NULL: adapters of rank 2; not saved */
    hf_weights kind;
    uint64_t hash, trained, frozen;
    char note[HF_BASE_BYTES];
} use;

static bool scales_are_finite(const hf_net *net)
{
    for (int64_t i = 0; i < net->config.layers; i++)
        for (const hf_part *p = &net->layer[i].norm1; p <= &net->layer[i].down; p++)
            if (!isfinite(p->scale))
                return false;
    return true;
}

/* All that train does with a folder before its first step, and after its last. */
static sw_status use_folder(void *context)
{
    use *u = context;
    sw_exec *exec = NULL;
    sw_model *base = NULL, *trained = NULL;
    hf_config config;
    hf_net *net = NULL;
    hf_adapter_shape adapter = {.rank = 2, .alpha = 4.0};
    char path[SWI_FOLDER_PATH];
    snprintf(path, sizeof path, "%s/config.json", dir_name());
    SW_TRY(hf_config_read(&config, path));
    if (u->adapter != NULL)
        SW_TRY(hf_adapter_open(&adapter, u->adapter));
    snprintf(u->note, sizeof u->note, "%s", adapter.of);
    const size_t net_bytes = hf_net_bytes(config.layers);
    sw_status status = sw_heap_alloc(&net, SW_HEAP_RECORDS, net_bytes);
    if (status == SW_OK)
        status = sw_exec_create(&exec, &SW_OPTS(sw_exec_opts, .threads = 1, .seed = 3));
    if (status == SW_OK)
        status = sw_model_create(&base, "base");
    if (status == SW_OK)
        status = sw_model_create(&trained, "hf");
    if (status == SW_OK)
        status = hf_net_declare(net, dir_name(), &config, base, trained, u->kind, &adapter);
    hf_adapter_close(&adapter);
    if (status == SW_OK)
        status = sw_model_ready(base, exec, 0);
    if (status == SW_OK)
        status = sw_model_ready(trained, exec, 7);
    if (status == SW_OK)
        status = hf_net_load(net, true, &u->hash);
    if (status == SW_OK && u->adapter != NULL)
        status = hf_adapter_load(u->adapter, config.family, trained);
    if (status == SW_OK) {
        u->trained = net->trained;
        u->frozen = net->frozen;
        if (!scales_are_finite(net))
            SW_CHECK(false, "a scale is not finite");
    }
    if (status == SW_OK && u->save != NULL)
        status =
            hf_adapter_save(&adapter, &config, trained, "base", "0123456789abcdef", u->save);
    sw_model_destroy(trained);
    sw_model_destroy(base);
    sw_exec_destroy(exec);
    sw_heap_free(net, SW_HEAP_RECORDS, net_bytes);
    return status;
}

/* The folder, an adapter in it, and what both have. */
static use begin(void)
{
    make_folder();
    use u = {.save = dir_file("adapter")};
    OK(use_folder(&u));
    u.adapter = u.save;
    u.save = NULL;
    OK(use_folder(&u));
    CU_ASSERT_STRING_EQUAL(u.note, "0123456789abcdef");
    CU_ASSERT_EQUAL(u.frozen,
                    LAYERS * (LINEARS + 2 * HIDDEN) + HIDDEN + 2 * VOCABULARY * HIDDEN);
    CU_ASSERT_EQUAL(u.trained, (uint64_t)LAYERS * 2 *
                                   (4 * HIDDEN + 2 * (HIDDEN + KV) + 3 * (HIDDEN + INNER)));
    return u;
}

/* ---- failures ---------------------------------------------------------------------------- */

SW_TEST("every allocation and every operation of files may fail")
{
    static const sw_fault_kind kinds[] = {SW_FAULT_MEMORY, SW_FAULT_FILE};
    use u = begin();
    const uint64_t hash = u.hash;
    u.save = dir_file("again");
    OK(use_folder(&u));
    for (int i = 0; i < 2; i++) {
        sw_sites s = {kinds[i]};
        while (sw_sites_next(&s)) {
            u.hash = 0;
            const sw_status status = SW_AT_SITE(&s, use_folder(&u));
            CU_ASSERT(status != SW_OK || u.hash == hash);
            /* The adapter that was saved before is whole. */
            use again = {.adapter = u.save};
            SW_CHECK(use_folder(&again) == SW_OK && again.hash == hash, "site %llu: %s",
                     (unsigned long long)s.k, sw_last_error());
        }
        CU_ASSERT(s.failed > 30);
    }
}

SW_TEST("kinds and bytes of the weights are in the hash")
{
    use u = begin();
    const uint64_t as_file = u.hash;
    OK(use_folder(&u));
    CU_ASSERT_EQUAL(u.hash, as_file);
    u.kind = HF_WEIGHTS_F32;
    OK(use_folder(&u));
    CU_ASSERT_NOT_EQUAL(u.hash, as_file);
    u.kind = HF_WEIGHTS_BF16; /* as they are */
    OK(use_folder(&u));
    CU_ASSERT_EQUAL(u.hash, as_file);
    const char *file = dir_file("model-1.safetensors");
    bytes was = file_get(file);
    for (size_t at = was.n - 1; at > was.n - 2 * VOCABULARY * HIDDEN; at -= 37) {
        was.at[at] ^= 1;
        sw_file_put(file, was.at, was.n);
        OK(use_folder(&u));
        CU_ASSERT_NOT_EQUAL(u.hash, as_file);
        was.at[at] ^= 1;
    }
}

/* ---- mutations --------------------------------------------------------------------------- */

/* One to three changes: a byte is another, or one that JSON has a meaning for, a digit of a
 * number, or a piece is lost. In files of tensors most are in the header. */
static bytes mutant(const bytes *from, size_t head, sw_dice *dice)
{
    static const char pieces[] = "{}[]\",:/.-0123456789eEatrufl\\ ";
    bytes to = {malloc(from->n), from->n};
    CU_ASSERT_PTR_NOT_NULL_FATAL(to.at);
    memcpy(to.at, from->at, from->n);
    for (uint64_t k = 1 + sw_dice_below(dice, 3); k > 0 && to.n > 0; k--) {
        const size_t within = head < to.n && sw_dice_below(dice, 20) != 0 ? head : to.n;
        size_t at = (size_t)sw_dice_below(dice, within);
        const size_t room = to.n - at;
        const size_t less = (size_t)sw_dice_below(dice, room < 20 ? room : 20);
        switch (sw_dice_below(dice, 4)) {
        case 0:
            to.at[at] = (unsigned char)sw_dice_next(dice);
            break;
        case 1:
            to.at[at] = (unsigned char)pieces[sw_dice_below(dice, sizeof pieces - 1)];
            break;
        case 2:
            while (at < to.n && (to.at[at] < '0' || to.at[at] > '9'))
                at++;
            if (at < to.n)
                to.at[at] = (unsigned char)pieces[11 + sw_dice_below(dice, 11)];
            break;
        default:
            memmove(to.at + at, to.at + at + less, room - less);
            to.n -= less;
        }
    }
    return to;
}

SW_TEST("mutations of a folder are read, or refused by the name of a file")
{
    static const char *const names[] = {"config.json",
                                        INDEX,
                                        "model-0.safetensors",
                                        "model-1.safetensors",
                                        "adapter/adapter_config.json",
                                        "adapter/adapter_model.safetensors"};
    enum { FILES = sizeof names / sizeof *names };
    const int n = sw_tests_full() ? 10000 : 600;
    bytes sound[FILES];
    size_t head[FILES];
    int read[FILES] = {0}, tried[FILES] = {0};
    sw_dice dice = {52};
    use u = begin();
    for (int i = 0; i < FILES; i++) {
        sound[i] = file_get(dir_file(names[i]));
        CU_ASSERT_PTR_NOT_NULL_FATAL(sound[i].at);
        head[i] = strstr(names[i], ".json") != NULL
                      ? sound[i].n
                      : 8 + (sound[i].at[0] | (size_t)sound[i].at[1] << 8);
    }
    for (int i = 0; i < n; i++) {
        const uint64_t which = sw_dice_below(&dice, FILES);
        const char *path = dir_file(names[which]);
        bytes to = mutant(&sound[which], head[which], &dice);
        sw_file_put(path, to.at, to.n);
        free(to.at);
        const heap_watch heap = heap_now();
        const sw_status status = use_folder(&u);
        CHECK_NO_LEAK(heap);
        tried[which]++;
        read[which] += status == SW_OK;
        if (status != SW_OK &&
            ((status != SW_FORMAT && status != SW_IO && status != SW_UNSUPPORTED) ||
             strstr(sw_last_error(), dir_name()) == NULL))
            SW_CHECK(false, "mutation %d of %s: %s: %s", i, names[which],
                     sw_status_name(status), sw_last_error());
        sw_file_put(path, sound[which].at, sound[which].n);
    }
    for (int i = 0; i < FILES; i++) {
        sw_note("%s: %d of %d are read", names[i], read[i], tried[i]);
        CU_ASSERT(tried[i] > n / 10 && read[i] < tried[i]);
    }
    OK(use_folder(&u));
}
