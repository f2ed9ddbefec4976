/* Frozen weights: read by steps in the type that they are stored in, with the bits of the same
 * numbers in float32; not trained, not saved, and counted among the parameters. */
#include "alloc/base/size.h"
#include "kernels/dispatch.h"
#include "runtime/model/model.h"
#include "tests/runtime/nets.h"
#include "tests/runtime/tuned.h"
#include "tests/support/files.h"
#include <math.h>

SW_TESTS("weights")

/* Of the three matrices. */
static size_t stored_bytes(sw_dtype dtype)
{
    const sw_type types[] = {
        {dtype, SW_PLAIN, {2, {TUNED_VOCABULARY, TUNED_WIDTH}}},
        {dtype, SW_PLAIN, {2, {TUNED_WIDER, TUNED_WIDTH}}},
        {dtype, SW_PLAIN, {2, {TUNED_WIDTH, TUNED_WIDER}}},
    };
    size_t sum = 0;
    for (int i = 0; i < 3; i++)
        sum += sw_size_round(sw_type_bytes(&types[i]));
    return sum;
}

SW_TEST("stored weights have the bits and the arena of the same numbers in float32")
{
    static const char *const isa[] = {"base", "avx2", NULL};
    static const sw_dtype kinds[] = {SW_BF16, SW_I8, SW_NF4};
    CU_ASSERT_EQUAL(stored_bytes(SW_F32), 2 * stored_bytes(SW_BF16));
    CU_ASSERT(stored_bytes(SW_I8) < stored_bytes(SW_F32) * 10 / 36);
    CU_ASSERT(stored_bytes(SW_NF4) < stored_bytes(SW_F32) / 7);
    for (int i = 0; i < 3; i++)
        for (int threads = 1; threads < 3; threads++)
            for (int k = 0; k < 12; k++) {
                sw_plan_info plan[2];
                const sw_dtype kind = kinds[k / 4];
                if (i == 1 && sw_cpu_isa() < SW_ISA_AVX2)
                    continue;
                (void)tuned_same_runs(&SW_OPTS(sw_exec_opts, .isa = isa[i], .threads = threads),
                                      kind, NULL, (int64_t[]){1, 7, 37, TUNED_TOKENS}[k % 4],
                                      plan);
                CU_ASSERT_EQUAL(plan[0].arena_bytes, plan[1].arena_bytes);
                CU_ASSERT_EQUAL(plan[0].model_bytes - plan[1].model_bytes,
                                stored_bytes(SW_F32) - stored_bytes(kind));
            }
}

/* In bf16 a master is rounded as it is read; kept in float32, nothing is widened whole. */
SW_TEST("in a run of bf16 stored weights are read as they are")
{
    sw_plan_info plan[2], wide[2];
    for (int k = 0; k < 12; k++) {
        const sw_dtype kind = k % 3 == 0 ? SW_BF16 : k % 3 == 1 ? SW_I8 : SW_NF4;
        const bool kept = k % 6 >= 3;
        const double exact = tuned_same_runs(NULL, kind, NULL, TUNED_TOKENS, wide);
        const sw_exec_opts opts = SW_OPTS(sw_exec_opts, .compute = SW_BF16,
                                          .bf16_order = k < 6 ? SW_ORDER_PAIR : SW_ORDER_TILE);
        const double loss =
            tuned_same_runs(&opts, kind, kept ? "f32" : NULL, TUNED_TOKENS, plan);
        CU_ASSERT(kept ? loss == exact : loss != exact && fabs(loss - exact) < 1e-2);
        CU_ASSERT(kept ? plan[1].arena_bytes == wide[1].arena_bytes
                       : plan[1].arena_bytes < wide[1].arena_bytes);
    }
}

/* ---- what is not theirs ------------------------------------------------------------------ */

SW_TEST("no file has them, and loading leaves them")
{
    sw_exec *exec = net_exec(NULL);
    tuned t;
    tuned_new(&t, exec, SW_BF16, true);
    static uint16_t before[TUNED_WIDTH * TUNED_WIDER], after[TUNED_WIDTH * TUNED_WIDER];
    const char *path = sw_temp_path("weights");
    sw_model *models[] = {t.base, t.own};
    const sw_checkpoint_opts opts = SW_OPTS(sw_checkpoint_opts, .path = sw_temp_path("point"),
                                            .models = models, .n_models = 2);
    sw_checkpoint *point;
    OK(sw_param_read(t.up, before, sizeof before));
    OK(sw_model_save(t.base, path));
    CU_ASSERT(sw_file_bytes(path) < 200);
    OK(sw_model_load(t.base, path));
    OK(sw_checkpoint_create(&point, exec, &opts));
    AFTER(sw_checkpoint_destroy, point);
    OK(sw_checkpoint_save(point, 1));
    const size_t trained = 3 * 4 * sizeof(float) * (TUNED_WIDTH + TUNED_WIDER);
    CU_ASSERT(sw_file_bytes(opts.path) < trained + 4096 &&
              sizeof before + trained > trained + 4096);
    sw_checkpoint_found found = SW_OPTS(sw_checkpoint_found);
    OK(sw_checkpoint_find(point, opts.path, &found));
    OK(sw_checkpoint_load(point));
    OK(sw_param_read(t.up, after, sizeof after));
    CU_ASSERT_EQUAL(memcmp(before, after, sizeof before), 0);
    CU_ASSERT_EQUAL(sw_param_count(t.base), 0);
    CU_ASSERT_NOT_EQUAL(sw_param_find(t.base, "up").index, 0);
}

static void product(sw_ctx *c, void *user)
{
    const sw_param *p = user;
    const sw_value x = sw_reshape(c, sw_use(c, p[1]), SW_SHAPE(1, 8)), none = {0, 0};
    sw_metric(c, "loss", sw_mean(c, sw_linear_op(c, x, sw_use(c, p[0]), none), 0));
}

/* A model of trained and frozen parameters: the first are the optimizer's, alone. */
SW_TEST("optimizers and searches pass over them, freezing does not change them")
{
    sw_exec *exec = net_exec(NULL);
    sw_model *model;
    sw_optimizer *opt;
    OK(sw_model_create(&model, "both"));
    AFTER(sw_model_destroy, model);
    const sw_param w = sw_weights_new(model, "w", SW_BF16, SW_SHAPE(8, 8));
    sw_param both[] = {w, sw_param_new(model, "a", SW_F32, SW_SHAPE(8), "ones")};
    sw_param_freeze(w, 0);
    CU_ASSERT(swi_entry_of(w)->frozen && model->frozen_hash == 0);
    const sw_optimizer_opts named =
        SW_OPTS(sw_optimizer_opts, .kind = "sgd", .params = &w, .n_params = 1);
    OK(sw_optimizer_create(&opt, model, &SW_OPTS(sw_optimizer_opts, .kind = "adam")));
    CU_ASSERT_EQUAL(swi_entry_of(w)->optimizer, SWI_NONE);
    OK(sw_model_ready(model, exec, 1));
    CU_ASSERT_EQUAL(model->role_bytes[SWI_ROLE_PARAMETER], 128 + 64);
    for (uint32_t i = 1; i < model->n_entries; i++)
        CU_ASSERT(strncmp(model->entries[i].name, "w.", 2) != 0);

    sw_zo *zo;
    uint16_t half[64], now[64];
    float a[8];
    const sw_run_args args = SW_OPTS(sw_run_args, .fn = product, .user = both, .models = &model,
                                     .n_models = 1, .mode = SW_EVAL);
    memset(half, 0x3f, sizeof half);
    OK(sw_param_write(w, half, sizeof half));
    OK(sw_zo_create(&zo, model, NULL));
    AFTER(sw_zo_destroy, zo);
    OK(sw_zo_step(zo, exec, &args, "loss", NULL));
    OK(sw_param_read(w, now, sizeof now));
    OK(sw_param_read(both[1], a, sizeof a));
    CU_ASSERT(memcmp(half, now, sizeof now) == 0 && a[0] != 1.0f);

    sw_model *alone;
    OK(sw_model_create(&alone, "alone"));
    AFTER(sw_model_destroy, alone);
    sw_param of = sw_weights_new(alone, "of", SW_F32, SW_SHAPE(2, 3));
    REFUSED(sw_optimizer_create(&opt, alone, &SW_OPTS(sw_optimizer_opts, .kind = "sgd")),
            SW_INVALID, "none of its 0 parameters");
    sw_optimizer_opts own = named;
    own.params = &of;
    REFUSED(sw_optimizer_create(&opt, alone, &own), SW_INVALID, "given no parameter");
}

static void adds(sw_ctx *c, void *user)
{
    sw_output(c, "y", sw_add(c, sw_use(c, *(sw_param *)user), sw_full(c, SW_SCALAR, 1.0f)));
}

SW_TEST("what cannot be is refused by name")
{
    static const struct {
        const char *name;
        sw_dtype dtype;
        int64_t rows;
        const char *words;
    } bad[] = {{"w", SW_U8, 3, "'w' is u8, frozen weights must be f32, bf16, i8 or nf4"},
               {"w", (sw_dtype)77, 3, "frozen weights must be f32, bf16, i8 or"},
               {"w", SW_BF16, 0, "the dims of 'w' must be at least 1"},
               {"w", SW_NF4, 3, "'w' is nf4, which must be a matrix with columns that are a "},
               {"", SW_BF16, 3, "a name must have 1 to"}};
    sw_exec *exec = net_exec(NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sw_model *model;
        OK(sw_model_create(&model, "bad"));
        CU_ASSERT_EQUAL(
            sw_weights_new(model, bad[i].name, bad[i].dtype, SW_SHAPE(bad[i].rows, 2)).index,
            0);
        const sw_status status = sw_model_ready(model, exec, 1);
        SW_CHECK(status != SW_OK && strstr(sw_last_error(), bad[i].words) != NULL, "%s",
                 sw_last_error());
        sw_model_destroy(model);
    }
    sw_model *model;
    OK(sw_model_create(&model, "sum"));
    AFTER(sw_model_destroy, model);
    sw_param w = sw_weights_new(model, "w", SW_BF16, SW_SHAPE(4));
    OK(sw_model_ready(model, exec, 1));
    const sw_run_args args = SW_OPTS(sw_run_args, .fn = adds, .user = &w, .models = &model,
                                     .n_models = 1, .mode = SW_EVAL);
    REFUSED(sw_run(exec, &args), SW_INVALID, "add: input 0 must be f32 (got bf16");
    sw_members *members;
    const sw_members_opts group =
        SW_OPTS(sw_members_opts, .shape = model, .fn = adds, .user = &w);
    REFUSED(sw_members_create(&members, exec, &group), SW_UNSUPPORTED,
            "members have no frozen weights (sw_weights_new): 'w'");
    float numbers[8] = {0};
    REFUSED(sw_weights_write(w, 1, numbers, 4), SW_INVALID, "has 4 numbers");
    REFUSED(sw_weights_write(w, 0, NULL, 4), SW_INVALID, "must not be NULL");

    sw_model *coded;
    OK(sw_model_create(&coded, "coded"));
    AFTER(sw_model_destroy, coded);
    sw_param codes = sw_weights_new(coded, "codes", SW_I8, SW_SHAPE(3, 5));
    const sw_param own = sw_param_new(coded, "own", SW_F32, SW_SHAPE(4), "ones");
    (void)sw_state_new(coded, "state", SW_F32, SW_SHAPE(1));
    OK(sw_model_ready(coded, exec, 1));
    REFUSED(sw_weights_write(codes, 5, numbers, 4), SW_INVALID, "units of 5");
    REFUSED(sw_weights_write(own, 0, numbers, 4), SW_INVALID, "must be of sw_weights_new");
    sw_run_args moves = args;
    moves.models = &coded;
    moves.user = &codes;
    REFUSED(sw_run(exec, &moves), SW_UNSUPPORTED,
            "add: input 0 is a frozen weight in i8, which only linear");
    sw_model *none;
    OK(sw_model_create(&none, "none"));
    AFTER(sw_model_destroy, none);
    (void)sw_state_new(none, "state", SW_I8, SW_SHAPE(3, 5));
    REFUSED(sw_model_ready(none, exec, 1), SW_INVALID, "i8");
    sw_model *other;
    OK(sw_model_create(&other, "sum"));
    AFTER(sw_model_destroy, other);
    sw_param v = sw_weights_new(other, "w", SW_F32, SW_SHAPE(4));
    OK(sw_model_ready(other, exec, 1));
    REFUSED(sw_model_copy(model, other), SW_INVALID, "'w' is declared in two ways");
    sw_model *wider;
    OK(sw_model_create(&wider, "sum"));
    AFTER(sw_model_destroy, wider);
    sw_param u = sw_weights_new(wider, "w", SW_F32, SW_SHAPE(5));
    OK(sw_model_ready(wider, exec, 1));
    sw_run_args to = args, from = args;
    to.models = &wider, from.models = &other;
    to.user = &u, from.user = &v;
    REFUSED(sw_model_resize(wider, other, exec, &to, &from, NULL), SW_UNSUPPORTED,
            "'w' is a frozen weight (sw_weights_new), which cannot be resized");
}
