/* Search spaces out of text: what stands beside the tree, and whether parts end. */
#include "runtime/population/evolve/search_space_read.h"
#include <stdio.h>

#define BIT(field) ((uint32_t)1 << (field))

/* ---- training ---------------------------------------------------------------------------- */

static sw_status add_optimizer(sw_json_in *in, void *context)
{
    sw_search_space *s = context;
    const char *kinds[SWI_SPACE_NAMES];
    uint32_t n = 0, which;
    for (; n < SWI_SPACE_NAMES && sw_optimizer_kind(n) != NULL; n++)
        kinds[n] = sw_optimizer_kind(n);
    SW_TRY(swi_read_choice(in, "optimizers", kinds, n, &which));
    if (s->training.n_optimizers == SWI_SPACE_NAMES)
        return swi_read_bad(in, "\"optimizers\" has at most %d names", SWI_SPACE_NAMES);
    s->optimizers[s->training.n_optimizers++] = kinds[which];
    return SW_OK;
}

static sw_status read_all_activations(sw_json_in *in, sw_search_space *s)
{
    uint32_t bits;
    SW_TRY(swi_space_read_activations(in, &bits));
    s->training.n_activations = 0;
    for (int i = 0; swi_activation_name(i) != NULL; i++)
        if ((bits >> i & 1) != 0)
            s->activations[s->training.n_activations++] = swi_activation_name(i);
    return SW_OK;
}

static sw_status read_lr(sw_json_in *in, swi_space_reader *r)
{
    swi_drawn x;
    SW_TRY(swi_space_read_drawn(in, r, "lr", 1e-30, 1e30, false, &x));
    if (x.n > 0)
        return sw_json_bad(in, "\"lr\" must be a number or a range");
    r->space->training.lr_low = x.low;
    r->space->training.lr_high = x.high;
    return SW_OK;
}

static sw_status read_batch(sw_json_in *in, swi_space_reader *r)
{
    sw_search_space *s = r->space;
    swi_drawn x;
    SW_TRY(swi_space_read_whole(in, r, "batch", 1, SWI_MAX_BATCH, &x));
    if (x.step > 1)
        return sw_json_bad(in, "a range of \"batch\" has no \"step\": write a list");
    for (uint32_t i = 0; i < x.n; i++)
        s->batches[i] = (int64_t)s->choices[x.first + i];
    s->training.n_batches = (int)x.n;
    s->training.batch_low = (int64_t)x.low;
    s->training.batch_high = (int64_t)x.high;
    return SW_OK;
}

/* ---- the whole --------------------------------------------------------------------------- */

enum { FORMAT, PARTS, BODY, HEAD, INSERT, OPTIMIZERS, LR, BATCH, ACTIVATIONS, TOPS };
static const char *const tops[TOPS] = {"format",     "parts", "body",  "head",       "insert",
                                       "optimizers", "lr",    "batch", "activations"};

static sw_status read_top(sw_json_in *in, const char *key, void *context)
{
    static const char *const formats[] = {SWI_SPACE_FORMAT};
    swi_space_reader *r = context;
    sw_search_space *s = r->space;
    uint32_t which, found;
    SW_TRY(swi_read_field(in, key, tops, TOPS, "a search space", &r->seen, &which));
    if ((r->seen & BIT(FORMAT)) == 0)
        return sw_json_bad(in, "the first must be \"format\": \"" SWI_SPACE_FORMAT "\"");
    switch (which) {
    case FORMAT:
        return swi_read_choice(in, "format", formats, 1, &found);
    case PARTS:
        return swi_space_read_parts(in, r);
    case BODY:
        return swi_space_read_node(in, r, &s->body);
    case HEAD:
        return swi_space_read_node(in, r, &s->head);
    case INSERT:
        return swi_space_read_nodes(in, r, &s->insert);
    case OPTIMIZERS:
        s->training.n_optimizers = 0;
        return swi_read_list(in, add_optimizer, s);
    case LR:
        return read_lr(in, r);
    case BATCH:
        return read_batch(in, r);
    default:
        return read_all_activations(in, s);
    }
}

/* No part uses itself, over others or not. By depth: what is used is looked at inside what uses
 * it; parts that were left are done. */
static sw_status check_uses(const sw_json_in *in, sw_search_space *s, uint32_t node,
                            uint32_t depth)
{
    const swi_space_node *n = &s->nodes[node];
    if (depth == SWI_SPACE_DEPTH * SWI_SPACE_DEPTH)
        return swi_read_bad_at(in, n->line, "parts use parts too deeply");
    for (uint32_t child = n->first, i = 0; child != 0 && i <= s->n_nodes; i++) {
        SW_TRY(check_uses(in, s, child, depth + 1));
        child = s->nodes[child].next;
    }
    if (n->kind != SWI_SPACE_NODE_USE)
        return SW_OK;
    char what[120];
    swi_space_part *part = &s->parts[n->part];
    snprintf(what, sizeof what,
             part->node == 0 ? "there is no part '%s'" : "part '%s' uses itself", part->name);
    if (part->node == 0 || part->mark == 1)
        return swi_read_bad_at(in, n->line, what);
    if (part->mark == 2)
        return SW_OK;
    part->mark = 1;
    SW_TRY(check_uses(in, s, part->node, depth + 1));
    s->parts[n->part].mark = 2;
    return SW_OK;
}

static sw_status check_all_uses(const sw_json_in *in, sw_search_space *s)
{
    const uint32_t roots[] = {s->body, s->head, s->insert};
    for (uint32_t i = 0; i < s->n_parts; i++)
        if (s->parts[i].node != 0 && s->parts[i].mark == 0) {
            s->parts[i].mark = 1;
            SW_TRY(check_uses(in, s, s->parts[i].node, 0));
            s->parts[i].mark = 2;
        }
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
        if (roots[i] != 0)
            SW_TRY(check_uses(in, s, roots[i], 0));
    return SW_OK;
}

static void set_defaults(sw_search_space *s)
{
    s->optimizers[0] = "adam";
    s->activations[0] = "relu";
    s->batches[0] = 64;
    s->training = (swi_space_training){.optimizers = s->optimizers,
                                       .n_optimizers = 1,
                                       .lr_low = 0.001,
                                       .lr_high = 0.001,
                                       .batches = s->batches,
                                       .n_batches = 1,
                                       .activations = s->activations,
                                       .n_activations = 1};
}

sw_status swi_space_read(sw_search_space *s)
{
    swi_space_reader r = {.space = s};
    sw_json_in in = swi_read_begin(s->text, s->text_bytes, s->path);
    set_defaults(s);
    SW_TRY(sw_json_get_object(&in, read_top, &r));
    if ((r.seen & BIT(FORMAT)) == 0 || s->body == 0)
        return sw_json_bad(&in, "a search space must have \"format\" and \"body\"");
    if (s->training.n_optimizers == 0)
        return sw_json_bad(&in, "\"optimizers\" must have a name at least");
    SW_TRY(swi_read_end(&in));
    return check_all_uses(&in, s);
}
