/* The price of training a genome: its net, traced and planned as a member of a group is, and
 * forgotten. */
#include "alloc/base/size.h"
#include "alloc/base/sys.h"
#include "runtime/exec/run_internal.h"
#include "runtime/population/evolve/net.h"
#include <string.h>

/* Samples and labels of a batch, as data sets have them. */
static void inputs_of(const sw_genome *g, sw_dtype input, sw_array in[2])
{
    const swi_vertex *x = &g->vertices[0];
    const int64_t classes = g->vertices[g->n - 1].channels;
    in[0] = (sw_array){.dtype = input, .shape = SW_SHAPE(g->batch, x->channels)};
    if (x->height != 0)
        in[0].shape = SW_SHAPE(g->batch, x->channels, x->height, x->width);
    in[1] = (sw_array){.dtype = classes <= 256 ? SW_U8 : SW_I32, .shape = SW_SHAPE(g->batch)};
}

/* As feeds count a batch: each field rounded up. */
static sw_status batch_bytes(const sw_genome *g, const sw_array in[2], size_t *out)
{
    *out = 0;
    for (int i = 0; i < 2; i++) {
        int64_t n;
        size_t bytes;
        if (!sw_size_elements(in[i].shape.dim, in[i].shape.rank, &n) ||
            !sw_size_mul((size_t)n, sw_dtype_bytes(in[i].dtype), &bytes) ||
            !sw_size_align(bytes, SW_ALIGN, &bytes) || !sw_size_add(*out, bytes, out))
            SW_FAIL(SW_NOMEM, "the bytes of a batch of %lld samples overflow",
                    (long long)g->batch);
    }
    return SW_OK;
}

static sw_status look(sw_net *net, sw_exec *exec, const sw_array in[2], uint64_t variant,
                      sw_plan_info *out)
{
    const sw_run_args args = SW_OPTS(sw_run_args, .fn = sw_net_step, .user = net,
                                     .models = &net->model, .n_models = 1, .inputs = in,
                                     .n_inputs = 2, .mode = SW_TRAIN, .variant = variant);
    SW_TRY(swi_enter(exec, &args, SW_FRAME));
    const sw_status status = swi_exec_look(exec, &args, 1, out);
    swi_leave(exec, &args);
    return status;
}

/* With utility each step may be of either variant: the arena is the larger one. */
static sw_status look_at_all(sw_net *net, sw_exec *exec, const sw_array in[2],
                             sw_plan_info *out)
{
    sw_plan_info with;
    SW_TRY(look(net, exec, in, 0, out));
    if (net->opts.utility == 0)
        return SW_OK;
    SW_TRY(look(net, exec, in, 1, &with));
    if (with.arena_bytes > out->arena_bytes)
        out->arena_bytes = with.arena_bytes;
    return SW_OK;
}

/* As for members: a range has at least SW_ALIGN bytes. */
static sw_status sum_up(const sw_net *net, const sw_plan_info *info, sw_price *price)
{
    const sw_genome *g = net->genome;
    price->model_bytes = net->model->bytes > 0 ? net->model->bytes : SW_ALIGN;
    price->arena_bytes = info->arena_bytes;
    if (!sw_size_add(price->model_bytes, price->arena_bytes, &price->peak_bytes) ||
        !sw_size_add(price->peak_bytes, price->batch_bytes, &price->peak_bytes))
        SW_FAIL(SW_NOMEM, "the bytes of model %s, its step and its batch overflow",
                net->model->name);
    price->operations = info->operations;
    price->operations_per_sample = (double)info->operations / (double)g->batch;
    price->parameters = swi_genome_parameters(g);
    return SW_OK;
}

static sw_status price_net(sw_net *net, sw_exec *exec, sw_dtype input, sw_price *price)
{
    sw_array in[2];
    sw_plan_info info;
    inputs_of(net->genome, input, in);
    SW_TRY(batch_bytes(net->genome, in, &price->batch_bytes));
    SW_TRY(look_at_all(net, exec, in, &info));
    return sum_up(net, &info, price);
}

sw_status sw_genome_price(const sw_genome *genome, sw_exec *exec, const sw_net_opts *opts,
                          sw_dtype input, sw_price *out)
{
    static const char call[] = "sw_genome_price";
    const uint64_t start = sw_clock_ns();
    sw_net *net;
    SW_TRY(sw_handle_check(genome, SW_HANDLE_GENOME, call));
    SW_TRY(sw_handle_check(exec, SW_HANDLE_EXEC, call));
    if (out == NULL)
        SW_FAIL(SW_INVALID, "%s: out must not be NULL", call);
    SW_TRY(swi_struct_check(SWI_STRUCT_sw_price, out->size, call));
    if (input != SW_U8 && input != SW_F32)
        SW_FAIL(SW_INVALID, "%s: input must be SW_U8 or SW_F32 (got %d)", call, (int)input);
    SW_TRY(swi_net_create(&net, genome, opts, call));
    sw_price price = SW_OPTS(sw_price);
    const sw_status status = price_net(net, exec, input, &price);
    swi_genome_net_free(net);
    SW_TRY(status);
    price.ns = sw_clock_ns() - start;
    swi_struct_write(SWI_STRUCT_sw_price, out, &price);
    return SW_OK;
}
