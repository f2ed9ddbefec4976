#include "tools/models/hf_net.h"
#include "alloc/base/mem.h"
#include "kernels/halves.h"
#include "kernels/stored.h"
#include "runtime/base/checksum.h"
#include "tools/models/hf_tensors.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const hf_weights_words[] = {"file", "f32", "bf16", "int8", "4bit", NULL};

size_t hf_net_bytes(int64_t layers)
{
    return sizeof(hf_net) + (size_t)layers * sizeof(hf_layer);
}

/* ---- names ------------------------------------------------------------------------------- */

/* Modules of a layer and of the whole model, by the names of transformers. */
static const struct {
    const char *name;
    size_t at;
} in_layer[] = {{"input_layernorm", offsetof(hf_layer, norm1)},
                {"self_attn.q_proj", offsetof(hf_layer, q)},
                {"self_attn.k_proj", offsetof(hf_layer, k)},
                {"self_attn.v_proj", offsetof(hf_layer, v)},
                {"self_attn.q_norm", offsetof(hf_layer, q_norm)},
                {"self_attn.k_norm", offsetof(hf_layer, k_norm)},
                {"self_attn.o_proj", offsetof(hf_layer, o)},
                {"post_attention_layernorm", offsetof(hf_layer, norm2)},
                {"mlp.gate_proj", offsetof(hf_layer, gate)},
                {"mlp.up_proj", offsetof(hf_layer, up)},
                {"mlp.down_proj", offsetof(hf_layer, down)},
                {"ln_1", offsetof(hf_layer, norm1)},
                {"attn.c_attn", offsetof(hf_layer, q)},
                {"attn.c_proj", offsetof(hf_layer, o)},
                {"ln_2", offsetof(hf_layer, norm2)},
                {"mlp.c_fc", offsetof(hf_layer, up)},
                {"mlp.c_proj", offsetof(hf_layer, down)}},
  in_net[] = {{"embed_tokens", offsetof(hf_net, tokens)}, {"norm", offsetof(hf_net, norm)},
              {"lm_head", offsetof(hf_net, head)},        {"wte", offsetof(hf_net, tokens)},
              {"wpe", offsetof(hf_net, places)},          {"ln_f", offsetof(hf_net, norm)}};

/* "layers.0.self_attn.q_proj.weight" of "model.layers.0.self_attn.q_proj.weight" */
static const char *bare(const char *name)
{
    static const char *const prefixes[] = {"model.", "transformer."};
    for (int i = 0; i < 2; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return name + strlen(prefixes[i]);
    return name;
}

/* The part that a tensor belongs to, and its module: the bare name without ".weight". */
hf_part *hf_net_part(hf_net *net, const hf_tensor *t, char module[HF_MODULE_BYTES])
{
    char *base = t->layer < 0 ? (char *)net : (char *)&net->layer[t->layer];
    const char *name = module;
    snprintf(module, HF_MODULE_BYTES, "%s", bare(t->name));
    *strrchr(module, '.') = '\0';
    for (int dots = 0; t->layer >= 0 && dots < 2; dots++) /* "layers.0." */
        name = strchr(name, '.') + 1;
    for (size_t i = 0; t->layer >= 0 && i < sizeof in_layer / sizeof *in_layer; i++)
        if (strcmp(in_layer[i].name, name) == 0)
            return (hf_part *)(void *)(base + in_layer[i].at);
    for (size_t i = 0; t->layer < 0 && i < sizeof in_net / sizeof *in_net; i++)
        if (strcmp(in_net[i].name, name) == 0)
            return (hf_part *)(void *)(base + in_net[i].at);
    return NULL;
}

/* ---- declaring --------------------------------------------------------------------------- */

typedef struct {
    hf_net *net;
    sw_model *base, *trained;
    hf_weights kind;
} declaring;

static sw_status declare_adapter(const declaring *d, hf_part *part, const char *module,
                                 int64_t in, int64_t out)
{
    int64_t rank;
    char name[HF_MODULE_BYTES + 16], init[40];
    const double bound = 1.0 / sqrt((double)in); /* Kaiming, as peft: gain of sqrt(5) */
    SW_TRY(hf_adapter_of(&d->net->adapter, d->net->config.family, module, in, out, &rank,
                         &part->scale));
    if (rank == 0)
        return SW_OK;
    snprintf(init, sizeof init, "uniform:%.9g,%.9g", -bound, bound);
    snprintf(name, sizeof name, "%s.lora_A.weight", module);
    part->a = sw_param_new(d->trained, name, SW_F32, SW_SHAPE(rank, in), init);
    snprintf(name, sizeof name, "%s.lora_B.weight", module);
    part->b = sw_param_new(d->trained, name, SW_F32, SW_SHAPE(out, rank), "zeros");
    d->net->trained += (uint64_t)rank * (uint64_t)(in + out);
    return SW_OK;
}

static sw_dtype kind_of(const declaring *d, const hf_tensor *t, int64_t cols)
{
    const char *type = t->data != NULL ? t->data->entry->dtype : d->net->config.dtype;
    if (t->rank == 1 || d->kind == HF_WEIGHTS_F32)
        return SW_F32;
    if (d->kind == HF_WEIGHTS_FILE)
        return strcmp(type, "BF16") == 0 || strcmp(type, "bfloat16") == 0 ? SW_BF16 : SW_F32;
    if (d->kind == HF_WEIGHTS_I8)
        return SW_I8;
    if (d->kind == HF_WEIGHTS_BF16 || t->layer < 0)
        return SW_BF16;
    d->net->not_nf4 += cols % SW_NF4_BLOCK != 0;
    return cols % SW_NF4_BLOCK == 0 ? SW_NF4 : SW_BF16;
}

static sw_status declare_tensor(void *context, const hf_tensor *t)
{
    const declaring *d = context;
    hf_net *net = d->net;
    char module[HF_MODULE_BYTES];
    hf_part *part = hf_net_part(net, t, module);
    if (part == NULL)
        SW_FAIL(SW_UNSUPPORTED, "'%s' is no part of the net", t->name);
    sw_shape shape = {t->rank, {t->dim[t->turned], t->dim[!t->turned]}};
    if (t->rank == 1)
        shape = (sw_shape){1, {t->dim[0]}};
    const int64_t n = t->dim[0] * (t->rank > 1 ? t->dim[1] : 1);
    *(d->base != NULL ? &net->frozen : &net->trained) += (uint64_t)n;
    *(hf_tensor_is_bias(t) ? &part->bias : &part->weight) =
        d->base != NULL
            ? sw_weights_new(d->base, bare(t->name), kind_of(d, t, shape.dim[1]), shape)
            : sw_param_new(d->trained, bare(t->name), SW_F32, shape, "zeros");
    return d->net->adapter.rank > 0 && t->rank > 1 && t->layer >= 0
               ? declare_adapter(d, part, module, shape.dim[1], shape.dim[0])
               : SW_OK;
}

sw_status hf_net_declare(hf_net *net, const char *folder, const hf_config *config,
                         sw_model *base, sw_model *trained, hf_weights kind,
                         const hf_adapter_shape *adapter)
{
    swi_folder *files;
    declaring d = {net, base, trained, kind};
    memset(net, 0, hf_net_bytes(config->layers));
    net->config = *config;
    net->adapter = *adapter;
    net->dropout = (float)adapter->dropout;
    snprintf(net->folder, sizeof net->folder, "%s", folder);
    SW_TRY(hf_weights_open(&files, folder));
    sw_status status = hf_tensors_take(config, files, declare_tensor, &d);
    if (status == SW_OK)
        status = hf_adapter_all_taken(adapter, config->family, trained);
    swi_folder_close(files);
    net->adapter.file = NULL; /* the caller's, who closes it */
    return status;
}

/* ---- reading ----------------------------------------------------------------------------- */

enum { TURNING = 1 << 18 }; /* numbers that are turned at a time */

typedef struct {
    hf_net *net;
    swi_checksum sum;
    const hf_tensor *tensor;
    bool halves, keep;
    float *block; /* TURNING */
} loading;

static void put(void *to, size_t i, float x, bool halves)
{
    if (halves)
        ((uint16_t *)to)[i] = sw_bf16_round(x);
    else
        ((float *)to)[i] = x;
}

/* Numbers [first, first + n) of the weight as the net has it. A turned one is read by pieces of
 * the file's rows. */
static sw_status make_turned(const loading *l, void *to, uint64_t first, uint64_t n)
{
    const hf_tensor *t = l->tensor;
    const uint64_t rows = (uint64_t)t->dim[0], cols = (uint64_t)t->dim[1];
    /* The net's row r is the file's column r; its n numbers may begin inside of one. */
    for (uint64_t r = first / rows; r * rows < first + n;) {
        const uint64_t room = TURNING / rows > 0 ? TURNING / rows : 1;
        const uint64_t end = (first + n + rows - 1) / rows;
        const uint64_t wide = end - r < room ? end - r : room;
        for (uint64_t k = 0; k < rows; k++) {
            SW_TRY(swi_folder_numbers(t->data, k * cols + r, l->block, (size_t)wide));
            for (uint64_t c = 0; c < wide; c++) {
                const uint64_t at = (r + c) * rows + k;
                if (at >= first && at < first + n)
                    put(to, (size_t)(at - first), l->block[c], l->halves);
            }
        }
        r += wide;
    }
    return SW_OK;
}

static sw_status make_numbers(void *context, void *bytes, size_t at, size_t n)
{
    loading *l = context;
    const hf_tensor *t = l->tensor;
    const size_t each = l->halves ? 2 : 4;
    const uint64_t first = at / each, numbers = n / each;
    if (t->turned)
        SW_TRY(make_turned(l, bytes, first, numbers));
    else if (l->halves && strcmp(t->data->entry->dtype, "BF16") == 0)
        SW_TRY(swi_tensors_read_part(t->data->file, t->data->entry, at, bytes, n));
    else if (!l->halves)
        SW_TRY(swi_folder_numbers(t->data, first, bytes, numbers));
    else
        for (uint64_t i = 0; i < numbers; i += TURNING) {
            const size_t part = numbers - i < TURNING ? (size_t)(numbers - i) : TURNING;
            SW_TRY(swi_folder_numbers(t->data, first + i, l->block, part));
            for (size_t k = 0; k < part; k++)
                put(bytes, (size_t)i + k, l->block[k], true);
        }
    swi_checksum_add(&l->sum, bytes, n);
    return SW_OK;
}

/* A weight by pieces, which are kept where it has 8 or 4 bits. */
static sw_status take_pieces(loading *l, sw_param param, const swi_entry *e)
{
    const bool stored = sw_is_stored(e->dtype);
    const sw_stored w = {e->dtype, NULL, e->shape.dim[0], e->shape.dim[1]};
    const int64_t unit = stored ? sw_stored_unit(&w) : 1, all = swi_elements(&e->shape);
    const int64_t most = unit > TURNING ? unit : TURNING / unit * unit;
    const size_t each = l->halves ? sizeof(uint16_t) : sizeof(float);
    float *numbers;
    SW_TRY(sw_heap_alloc(&numbers, SW_HEAP_FILES, (size_t)most * sizeof *numbers));
    sw_status status = SW_OK;
    for (int64_t first = 0; first < all && status == SW_OK; first += most) {
        const int64_t n = all - first < most ? all - first : most;
        status = make_numbers(l, numbers, (size_t)first * each, (size_t)n * each);
        if (status == SW_OK && stored && l->keep)
            status = sw_weights_write(param, first, numbers, n);
    }
    sw_heap_free(numbers, SW_HEAP_FILES, (size_t)most * sizeof *numbers);
    return status;
}

static sw_status load_tensor(void *context, const hf_tensor *t)
{
    loading *l = context;
    char module[HF_MODULE_BYTES];
    const hf_part *part = hf_net_part(l->net, t, module);
    const sw_param param = hf_tensor_is_bias(t) ? part->bias : part->weight;
    const swi_entry *e = swi_entry_of(param);
    l->tensor = t;
    l->halves = e->dtype == SW_BF16;
    swi_checksum_add(&l->sum, e->name, strlen(e->name) + 1);
    swi_checksum_add(&l->sum, &e->shape, sizeof e->shape);
    swi_checksum_add(&l->sum, &e->dtype, sizeof e->dtype);
    return !l->keep || sw_is_stored(e->dtype)
               ? take_pieces(l, param, e)
               : swi_model_fill(param.model, e->offset, e->bytes, make_numbers, l);
}

sw_status hf_net_load(hf_net *net, bool keep, uint64_t *hash)
{
    swi_folder *files;
    loading l = {.net = net, .keep = keep};
    SW_TRY(swi_folder_open(&files, net->folder));
    swi_checksum_begin(&l.sum);
    sw_status status =
        sw_heap_alloc(&l.block, SW_HEAP_FILES, (size_t)TURNING * sizeof *l.block);
    if (status == SW_OK)
        status = hf_tensors_take(&net->config, files, load_tensor, &l);
    sw_heap_free(l.block, SW_HEAP_FILES, (size_t)TURNING * sizeof *l.block);
    swi_folder_close(files);
    sw_heap_trim();
    *hash = swi_checksum_end(&l.sum);
    return status;
}

/* ---- the network ------------------------------------------------------------------------- */

/* x W^T + b, and what the adapter adds to it. B reads few numbers of each row, which are those
 * that are scaled. */
static sw_value linear(sw_ctx *ctx, const hf_net *net, const hf_part *p, sw_value x)
{
    const sw_value y =
        sw_apply_linear(ctx, (sw_linear){.weight = p->weight, .bias = p->bias}, x);
    if (p->a.index == 0)
        return y;
    sw_value z = net->dropout > 0.0f ? sw_dropout(ctx, x, net->dropout) : x;
    z = sw_apply_linear(ctx, (sw_linear){.weight = p->a}, z);
    z = sw_scale_by(ctx, z, p->scale);
    return sw_add(ctx, y, sw_apply_linear(ctx, (sw_linear){.weight = p->b}, z));
}

static sw_value norm(sw_ctx *ctx, const hf_net *net, const hf_part *p, sw_value x)
{
    const float epsilon = (float)net->config.epsilon;
    if (net->config.family == HF_GPT2)
        return sw_apply_layer_norm(
            ctx, (sw_layer_norm){.weight = p->weight, .bias = p->bias, .epsilon = epsilon}, x);
    return sw_apply_rms_norm(ctx, (sw_rms_norm){.weight = p->weight, .epsilon = epsilon}, x);
}

void hf_net_cache(hf_cached *cache, const hf_config *c, sw_model *model, int64_t context)
{
    const sw_shape shape = SW_SHAPE(1, context, c->heads_kv * c->head_dim);
    for (int64_t i = 0; i < 2 * c->layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%lld.%s", (long long)(i / 2), i % 2 ? "v" : "k");
        *(i % 2 ? &cache[i / 2].v : &cache[i / 2].k) = sw_state_new(model, name, SW_F32, shape);
    }
}

/* The rows of the run, and their places. */
typedef struct {
    int64_t batch, rows;
    sw_value positions, first;
    sw_value past; /* rows of a cache before these; {0}: there is none */
} places;

/* Heads of queries or keys, rotated by their positions. */
static sw_value rotated(sw_ctx *ctx, const hf_net *net, const hf_part *head_norm, sw_value x,
                        int64_t heads, const places *at)
{
    const hf_config *c = &net->config;
    const bool llama3 = c->rope.kind == HF_ROPE_LLAMA3;
    const sw_rotary_opts rule =
        SW_OPTS(sw_rotary_opts, .rule = llama3 ? SW_ROTARY_LLAMA3 : SW_ROTARY_DEFAULT,
                .theta = (float)c->rope.theta, .factor = llama3 ? (float)c->rope.factor : 0.0f,
                .low_freq_factor = llama3 ? (float)c->rope.low_freq_factor : 0.0f,
                .high_freq_factor = llama3 ? (float)c->rope.high_freq_factor : 0.0f,
                .original_context = llama3 ? c->rope.original_context : 0);
    if (c->qk_norm) {
        x = sw_reshape(ctx, x, SW_SHAPE(-1, c->head_dim));
        x = norm(ctx, net, head_norm, x);
    }
    x = sw_reshape(ctx, x, SW_SHAPE(at->batch, at->rows, heads * c->head_dim));
    return sw_rotary(ctx, x, at->positions, (int)heads, &rule);
}

static sw_value attend(sw_ctx *ctx, const hf_net *net, const hf_layer *l, sw_value x,
                       const hf_cached *cached, const places *at)
{
    const hf_config *c = &net->config;
    const sw_attention_opts opts =
        SW_OPTS(sw_attention_opts, .heads = (int)c->heads, .heads_kv = (int)c->heads_kv,
                .causal = 1, .first = at->first, .past = at->past);
    const sw_value q = linear(ctx, net, &l->q, x);
    sw_value part[3] = {q};
    if (c->family == HF_GPT2) {
        const sw_shape all = SW_SHAPE(at->batch, at->rows, 3 * c->hidden);
        if (sw_split(ctx, sw_reshape(ctx, q, all), c->hidden, -1, part, 3) != 3)
            return x;
    } else {
        const sw_shape values = SW_SHAPE(at->batch, at->rows, c->heads_kv * c->head_dim);
        part[0] = rotated(ctx, net, &l->q_norm, q, c->heads, at);
        part[1] = rotated(ctx, net, &l->k_norm, linear(ctx, net, &l->k, x), c->heads_kv, at);
        part[2] = sw_reshape(ctx, linear(ctx, net, &l->v, x), values);
    }
    if (cached != NULL) {
        sw_assign_rows(ctx, cached->k, part[1], at->past);
        sw_assign_rows(ctx, cached->v, part[2], at->past);
        part[1] = sw_use(ctx, cached->k);
        part[2] = sw_use(ctx, cached->v);
    }
    const sw_value y = sw_attention_with(ctx, part[0], part[1], part[2], &opts);
    return linear(ctx, net, &l->o, sw_reshape(ctx, y, SW_SHAPE(-1, c->heads * c->head_dim)));
}

sw_value hf_net_features(sw_ctx *ctx, const hf_net *net, sw_value ids, sw_value positions,
                         sw_value first, const hf_cached *cache)
{
    const hf_config *c = &net->config;
    const sw_value none = {0, 0};
    const places at = {sw_dim(ctx, ids, 0), sw_dim(ctx, ids, 1), positions, first,
                       cache != NULL ? sw_slice(ctx, positions, 1, 0, 1) : none};
    sw_value x = sw_apply_embedding(ctx, (sw_embedding){.weight = net->tokens.weight}, ids);
    if (c->family == HF_GPT2)
        x = sw_add(
            ctx, x,
            sw_apply_embedding(ctx, (sw_embedding){.weight = net->places.weight}, positions));
    x = sw_reshape(ctx, x, SW_SHAPE(-1, c->hidden));
    for (int64_t i = 0; i < c->layers; i++) {
        const hf_layer *l = &net->layer[i];
        char name[32];
        snprintf(name, sizeof name, "%s.%lld", c->family == HF_GPT2 ? "h" : "layers",
                 (long long)i);
        sw_scope_begin(ctx, name);
        x = sw_add(ctx, x,
                   attend(ctx, net, l, norm(ctx, net, &l->norm1, x),
                          cache != NULL ? &cache[i] : NULL, &at));
        const sw_value y = norm(ctx, net, &l->norm2, x);
        sw_value up = linear(ctx, net, &l->up, y);
        up = c->family == HF_GPT2 ? sw_gelu_tanh(ctx, up)
                                  : sw_swiglu(ctx, linear(ctx, net, &l->gate, y), up);
        x = sw_add(ctx, x, linear(ctx, net, &l->down, up));
        sw_scope_end(ctx);
    }
    return norm(ctx, net, &net->norm, x);
}

static sw_value head_of(sw_ctx *ctx, const hf_net *net)
{
    return sw_use(ctx, (net->config.tied ? net->tokens : net->head).weight);
}

sw_value hf_net_loss(sw_ctx *ctx, const hf_net *net, sw_value x, sw_value labels)
{
    return sw_linear_ce_with(ctx, x, head_of(ctx, net), (sw_value){0},
                             sw_reshape(ctx, labels, SW_SHAPE(-1)), 0.0f, -100);
}

sw_value hf_net_logits(sw_ctx *ctx, const hf_net *net, sw_value x)
{
    return sw_linear_op(ctx, x, head_of(ctx, net), (sw_value){0});
}
