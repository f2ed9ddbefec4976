/* Structs that begin with their size: every size of every one, and that none is forgotten. */
#include "runtime/base/structs.h"
#include "tests/runtime/nets.h"
#include "tests/support/files.h"
#include <ctype.h>
#include <unistd.h>

SW_TESTS("structs")

typedef struct {
    sw_exec *exec;
    net *n;
    batch b;
    net *other; /* that is alike */
    sw_run_args args, other_args;
    sw_members_opts group;
    sw_dataset *data;
    sw_genome *genome;
    const char *text_path, *csv_path, *npy_path, *no_folder;
} scene;

/* Bytes of a struct of any size, each struct by its name. */
#define SWI_STRUCT(type, first, now) type type;
#define SWI_SINCE(type, member)
typedef union {
    size_t size;
    unsigned char bytes[8192];
#include "runtime/base/structs.def"
} room;

static const char *a_file(const char *name, const char *text)
{
    const char *path = sw_temp_path(name);
    sw_file_put(path, text, strlen(text));
    return path;
}

/* Two arrays of two numbers, 0 and 0, as one name. */
static const char *two_arrays(void)
{
    static char both[2048];
    both[0] = 0;
    static const char head[] = "\x93NUMPY\1\0v\0{'descr': '|u1', 'fortran_order': False, "
                               "'shape': (2,), }",
                      *const names[] = {"sizes-x.npy", "sizes-y.npy"};
    char whole[130];
    memset(whole, ' ', sizeof whole);
    memcpy(whole, head, sizeof head - 1);
    whole[127] = '\n';
    whole[128] = whole[129] = 0;
    for (int i = 0; i < 2; i++) {
        const char *path = sw_temp_path(names[i]);
        snprintf(both + strlen(both), sizeof both - strlen(both), "%s%s", i > 0 ? "," : "",
                 path);
        sw_file_put(path, whole, sizeof whole);
    }
    return both;
}

static sw_genome *a_genome(void)
{
    static const char text[] =
        "{\"format\": \"stepwell genome 1\", \"name\": \"g\", \"input\": [1, 28, 28], "
        "\"optimizer\": {\"kind\": \"sgd\", \"lr\": 0.01}, \"batch\": 4, \"loss\": {\"kind\": "
        "\"cross_entropy\"}, \"vertices\": [\n{\"name\": \"c\", \"kind\": \"conv2d\", \"in\": "
        "[\"input\"], \"size\": 2, \"kernel\": 3},\n{\"name\": \"p\", \"kind\": "
        "\"global_avg_pool\", \"in\": [\"c\"]},\n{\"name\": \"out\", \"kind\": \"linear\", "
        "\"in\": [\"p\"], \"size\": 10}]}";
    sw_genome *g = NULL;
    OK(sw_genome_parse(&g, text, sizeof text - 1, "text"));
    return g;
}

static void scene_new(scene *s)
{
    *s =
        (scene){.exec = net_exec(NULL), .n = net_new(false, NULL), .b = net_batch(false, 0, 4)};
    s->other = net_new(false, NULL);
    s->args = net_args(s->n, &s->b), s->other_args = net_args(s->other, &s->b);
    s->group = SW_OPTS(sw_members_opts, .shape = s->n->model, .fn = net_step, .user = s->n);
    s->genome = a_genome();
    OK(sw_dataset_synthetic(&s->data, 16, 1));
    s->text_path = a_file("sizes.txt", "some bytes of a text that is long enough for windows");
    s->no_folder = sw_temp_path("no folder");
    s->npy_path = two_arrays();
    s->csv_path = a_file("sizes.csv", "1,2,0\n3,4,1\n5,6,0\n7,8,1\n9,8,1\n");
}

static void scene_end(scene *s)
{
    sw_genome_destroy(s->genome);
    sw_dataset_destroy(s->data);
}

/* ---- one call for each struct ------------------------------------------------------------ */

/* A function that calls with `it`, the struct; `more` is declared before, `end` comes after. */
#define CALL(type, is_result, more, call, end)                                                 \
    enum { result_##type = (is_result) };                                                      \
    static sw_status try_##type(scene *s, room *r)                                             \
    {                                                                                          \
        type *const it = &r->type;                                                             \
        more;                                                                                  \
        const sw_status status = (call);                                                       \
        (void)s, (void)it, end;                                                                \
        return status;                                                                         \
    }
#define GIVEN(type, call) CALL(type, 0, (void)r, call, (void)r)
#define FILLED(type, call) CALL(type, 1, (void)r, call, (void)r)
/* With an object that the call makes, or that `make` makes before it. */
#define MADE(type, object, call)                                                               \
    CALL(type, 0, sw_##object *made = NULL, call, sw_##object##_destroy(made))
#define FILLED_OF(type, object, make, call)                                                    \
    CALL(type, 1, sw_##object *made = NULL, (make) != SW_OK ? SW_NOMEM : (call),               \
         sw_##object##_destroy(made))

/* Both that take the struct; they agree. */
static sw_status both(sw_status one, sw_status other)
{
    CU_ASSERT_EQUAL(one, other);
    return one;
}

/* A struct that is accepted has the call refused for another reason. */
static sw_status but(sw_status expected, const char *reason, sw_status status)
{
    return status == expected && strstr(sw_last_error(), reason) != NULL ? SW_OK : status;
}

MADE(sw_exec_opts, exec, sw_exec_create(&made, it))
FILLED(sw_device_info, sw_exec_device(s->exec, it))

static void conv_step(sw_ctx *ctx, void *user)
{
    const sw_value x = sw_randn(ctx, "x", SW_SHAPE(2, 3, 5, 5)),
                   w = sw_randn(ctx, "w", SW_SHAPE(4, 3, 3, 3));
    (void)sw_conv2d_op_with(ctx, x, w, (sw_value){0, 0}, user);
}

static void transpose_step(sw_ctx *ctx, void *user)
{
    const sw_value x = sw_randn(ctx, "x", SW_SHAPE(2, 3, 5, 5)),
                   w = sw_randn(ctx, "w", SW_SHAPE(3, 4, 3, 3));
    (void)sw_conv_transpose2d_op(ctx, x, w, (sw_value){0, 0}, user);
}

static sw_model *model_at(sw_model **made)
{
    OK(sw_model_create(made, "model"));
    return *made;
}

/* Of a model whose declaration may have failed, and a run of a step function now. */
static sw_status declared_and_run(scene *s, sw_model *m, sw_step_fn fn, void *user)
{
    size_t bytes;
    const sw_run_args a = SW_OPTS(sw_run_args, .fn = fn, .user = user, .immediate = 1);
    return both(sw_model_bytes(m, &bytes), sw_run(s->exec, &a));
}

MADE(sw_conv_opts, model,
     ((void)sw_conv2d_new_with(model_at(&made), "c", 3, 4, 3, it),
      declared_and_run(s, made, conv_step, it)))
MADE(sw_conv_transpose_opts, model,
     ((void)sw_conv_transpose2d_new(model_at(&made), "c", 3, 4, 3, it),
      declared_and_run(s, made, transpose_step, it)))
static void attention_step(sw_ctx *ctx, void *user)
{
    const sw_value x = sw_randn(ctx, "x", SW_SHAPE(2, 3, 4));
    (void)sw_attention_with(ctx, x, x, x, user);
}

static void rotary_step(sw_ctx *ctx, void *user)
{
    const sw_value x = sw_randn(ctx, "x", SW_SHAPE(1, 1, 4));
    const sw_value at = sw_argmax(ctx, sw_randn(ctx, "at", SW_SHAPE(1, 1, 2)), -1, 0);
    (void)sw_rotary(ctx, x, at, 1, user);
}

static sw_status ran(scene *s, sw_step_fn *fn, void *user)
{
    return sw_run(s->exec, &SW_OPTS(sw_run_args, .fn = fn, .user = user, .immediate = 1));
}

GIVEN(sw_attention_opts, (it->heads = 2, ran(s, attention_step, it)))
GIVEN(sw_rotary_opts, ran(s, rotary_step, it))
MADE(sw_optimizer_opts, model,
     ((void)sw_linear_new(model_at(&made), "l", 2, 2), it->kind = "sgd",
      sw_optimizer_create(&(sw_optimizer *){NULL}, made, it)))
GIVEN(sw_schedule, (it->kind = "constant", sw_schedule_at(it, 0, &(float){0})))

static sw_run_args *sized(sw_run_args *it, const sw_run_args *from)
{
    const size_t size = it->size;
    *it = *from;
    it->size = size;
    return it;
}

GIVEN(sw_run_args, both(sw_run(s->exec, sized(it, &s->args)),
                        sw_plan(s->exec, sized(it, &s->args), &SW_OPTS(sw_plan_info))))
FILLED(sw_plan_info, sw_plan(s->exec, &s->args, it))
GIVEN(sw_plan_visitor, sw_plan_visit(s->exec, &s->args, it))
CALL(sw_run_info, 1, room past = *r,
     sw_run(s->exec, &s->args) != SW_OK
         ? SW_IO
         : both(sw_last_run(s->exec, it), sw_run_past(s->exec, 0, &past.sw_run_info)),
     (void)past)
FILLED(sw_witness_info, sw_witness(s->exec, &s->args, SW_WITNESS_EXTENT, it))

/* ---- data: there is no such folder ------------------------------------------------------- */

MADE(sw_cifar_opts, dataset, but(SW_IO, "", sw_dataset_cifar(&made, s->no_folder, "train", it)))
MADE(sw_idx_opts, dataset,
     but(SW_IO, "", sw_dataset_idx_with(&made, s->no_folder, "train", it)))
MADE(sw_images_opts, dataset, but(SW_IO, "", sw_dataset_images(&made, NULL, s->no_folder, it)))
MADE(sw_csv_opts, dataset, sw_dataset_csv(&made, NULL, s->csv_path, it))
MADE(sw_tokens_opts, dataset,
     (it->context = 8, sw_dataset_tokens(&made, NULL, s->text_path, it)))
MADE(sw_text_opts, dataset, (it->context = 8, sw_dataset_text(&made, NULL, s->text_path, it)))
MADE(sw_npy_opts, dataset, sw_dataset_npy(&made, NULL, s->npy_path, it))
MADE(sw_arrays_opts, dataset,
     sw_dataset_arrays(&made, 8, &(sw_samples){.data = "8 bytes", .type = SW_NUMBER_U8}, 1, it))
/* It returns nothing: whether it wrote says whether it was accepted. */
FILLED(sw_dataset_info, (sw_dataset_describe(s->data, it), it->n == 16 ? SW_OK : SW_INVALID))
CALL(sw_class_score, 1, room mean = *r,
     both(sw_confusion_class((const uint64_t[]){1, 0, 0, 1}, 2, 0, it),
          sw_confusion_mean((const uint64_t[]){1, 0, 0, 1}, 2, &mean.sw_class_score)),
     (void)mean)
MADE(sw_loader_opts, loader, (it->batch = 4, sw_loader_create(&made, s->data, it)))
MADE(sw_feed_opts, feed, (it->batch = 4, sw_feed_create(&made, s->data, it)))
CALL(sw_profile_opts, 0, sw_profile *made = NULL, sw_profile_create(&made, it),
     (void)!sw_profile_destroy(made))

/* ---- members and populations ------------------------------------------------------------- */

MADE(sw_members_opts, members,
     (it->shape = s->n->model, it->fn = net_step, it->user = s->n,
      sw_members_create(&made, s->exec, it)))

static sw_status run_one(scene *s, sw_members **made, sw_members_args *it)
{
    sw_member one = {NULL, 0, 0};
    SW_TRY(sw_members_create(made, s->exec, &s->group));
    SW_TRY(sw_member_new(&one, *made, 1));
    it->members = &one, it->n = 1, it->inputs = s->b.in, it->n_inputs = 2;
    return sw_members_run(*made, it);
}
MADE(sw_members_args, members, run_one(s, &made, it))
FILLED_OF(sw_members_memory, members, sw_members_create(&made, s->exec, &s->group),
          sw_members_used(made, it))
/* Of the scene's model to one that is alike. */
GIVEN(sw_resize_opts,
      sw_model_resize_plan(s->other->model, s->n->model, s->exec, &s->other_args, &s->args, it,
                           &SW_OPTS(sw_resize_info)))
FILLED(sw_resize_info, sw_model_resize_plan(s->other->model, s->n->model, s->exec,
                                            &s->other_args, &s->args, NULL, it))
FILLED(sw_packing,
       sw_pack(&(sw_pack_shape){.member_bytes = 64, .members = 1}, 1, 64, 1, &(size_t){0}, it))

static sw_status space_of(sw_space **made, const char *text)
{
    SW_TRY(sw_space_create(made));
    return text != NULL ? sw_space_parse(*made, text) : SW_OK;
}
MADE(sw_hyper, space,
     space_of(&made, NULL) != SW_OK ? SW_NOMEM : (it->name = "x", sw_space_add(made, it)))

/* The call with a population of two, which `it` or the plainest options make. */
static sw_status with_pbt(sw_pbt_opts *it, sw_pbt_event *event, sw_pbt_member *member)
{
    sw_pbt_opts plain = SW_OPTS(sw_pbt_opts), *const o = it != NULL ? it : &plain;
    sw_space *space = NULL;
    sw_pbt *made = NULL;
    sw_status status = space_of(&space, "x=uniform:0..1");
    o->space = space, o->members = 2, o->interval = 1;
    if (status == SW_OK)
        status = sw_pbt_create(&made, o);
    if (status == SW_OK && it == NULL)
        status =
            event != NULL ? sw_pbt_next_event(made, event) : sw_pbt_describe(made, 1, member);
    sw_pbt_destroy(made);
    sw_space_destroy(space);
    return status;
}
GIVEN(sw_pbt_opts, with_pbt(it, NULL, NULL))
FILLED(sw_pbt_event, with_pbt(NULL, it, NULL))
FILLED(sw_pbt_member, with_pbt(NULL, NULL, it))

/* A strategy of a model of its own, with 2 directions; `opts` NULL: the plainest. */
static sw_status es_of(sw_es **made, sw_model *m, const sw_es_opts *opts)
{
    const sw_es_opts plain = SW_OPTS(sw_es_opts, .directions = 2);
    sw_optimizer *optimizer;
    (void)sw_linear_new(m, "l", 2, 2);
    OK(sw_optimizer_create(&optimizer, m, &SW_OPTS(sw_optimizer_opts, .kind = "sgd")));
    return sw_es_create(made, optimizer, opts != NULL ? opts : &plain);
}

static void end_es(sw_es *es, sw_model *m)
{
    sw_es_destroy(es);
    sw_model_destroy(m);
}
#define WITH_ES(type, is_result, call)                                                         \
    CALL(type, is_result, sw_model *m = NULL; sw_es *made = NULL, call, end_es(made, m))
WITH_ES(sw_es_opts, 0, (it->directions = 2, es_of(&made, model_at(&m), it)))
WITH_ES(sw_es_evaluation, 1,
        es_of(&made, model_at(&m), NULL) != SW_OK ? SW_NOMEM : sw_es_ask(made, 0, 1, it))
WITH_ES(sw_es_info, 1,
        es_of(&made, model_at(&m), NULL) != SW_OK ||
                sw_es_tell_slice(made, 0, (const float[]){1, 2, 3, 4}, 4) != SW_OK
            ? SW_NOMEM
            : sw_es_step(made, s->exec, it))
MADE(sw_zo_opts, zo, sw_zo_create(&made, s->n->model, it))

/* ---- genomes and what is made of them ---------------------------------------------------- */

FILLED(sw_vertex, sw_genome_vertex(s->genome, 1, it))
FILLED(sw_genome_info, sw_genome_describe(s->genome, it))
MADE(sw_task, search_space,
     (it->channels = 1, it->height = it->width = 28, it->classes = 10,
      sw_search_space_default(&made, it)))
MADE(sw_net_opts, net, sw_net_create(&made, s->genome, it))
FILLED(sw_price, sw_genome_price(s->genome, s->exec, NULL, SW_U8, it))
MADE(sw_mutate_opts, genome, sw_genome_mutate(&made, s->genome, it))
MADE(sw_crossover_opts, genome, sw_genome_crossover(&made, NULL, s->genome, s->genome, it))

static sw_status evolution_made(sw_evolution **made, scene *s, sw_evolution_opts *it)
{
    const sw_genome *const first[] = {s->genome};
    it->train = it->validation = s->data;
    it->first = first, it->n_first = it->population = 1;
    return sw_evolution_create(made, s->exec, it);
}

/* One candidate has begun. */
static sw_status evolution_of(sw_evolution **made, scene *s, sw_evolution_opts *it)
{
    SW_TRY(evolution_made(made, s, it));
    return sw_evolution_advance(*made, &SW_OPTS(sw_evolve_progress));
}
#define OF_EVOLUTION(type, call)                                                               \
    FILLED_OF(type, evolution,                                                                 \
              evolution_of(&made, s, &SW_OPTS(sw_evolution_opts, .samples = 4)), call)
MADE(sw_evolution_opts, evolution, evolution_of(&made, s, it))
OF_EVOLUTION(sw_candidate, sw_evolution_member(made, 0, it))
OF_EVOLUTION(sw_evolve_progress, sw_evolution_advance(made, it))
OF_EVOLUTION(sw_evolution_memory, sw_evolution_used(made, it))
FILLED_OF(sw_evolution_job, evolution,
          evolution_made(&made, s, &SW_OPTS(sw_evolution_opts, .samples = 4)),
          sw_evolution_ask(made, it))

/* Made without a path, a checkpoint takes no name and no thread. */
static sw_status checkpoint_of(sw_checkpoint **made, scene *s, sw_checkpoint_opts *it)
{
    it->models = &s->n->model, it->n_models = 1;
    return sw_checkpoint_create(made, s->exec, it);
}
#define OF_CHECKPOINT(type, call)                                                              \
    FILLED_OF(type, checkpoint, checkpoint_of(&made, s, &SW_OPTS(sw_checkpoint_opts)), call)
MADE(sw_checkpoint_opts, checkpoint, checkpoint_of(&made, s, it))
OF_CHECKPOINT(sw_checkpoint_info, sw_checkpoint_describe(made, it))
OF_CHECKPOINT(sw_checkpoint_found, sw_checkpoint_find(made, sw_temp_path("no checkpoint"), it))

/* An op can be registered once: what is accepted is refused for its name. */
GIVEN(sw_op_desc,
      (it->name = "", but(SW_INVALID, "1 to 40 bytes", sw_op_register(it, &(uint32_t){0}))))

static const struct {
    sw_status (*of)(scene *s, room *r);
    bool result;
} calls[] = {
#undef SWI_STRUCT
#define SWI_STRUCT(type, first, now) {try_##type, result_##type},
#include "runtime/base/structs.def"
};
#undef SWI_STRUCT
#undef SWI_SINCE

/* Name, size, size in 0.1. */
#define SWI_SINCE(type, member)
#define SWI_STRUCT(type, first, now)                                                           \
    {#type, sizeof(type),                                                                      \
     (offsetof(type, first) + sizeof(((type *)0)->first) + _Alignof(type) - 1) /               \
         _Alignof(type) * _Alignof(type)},
static const struct {
    const char *name;
    size_t bytes, least;
} structs[] = {
#include "runtime/base/structs.def"
};
#undef SWI_STRUCT
#undef SWI_SINCE

/* ---- promises ---------------------------------------------------------------------------- */

static bool all_are(const unsigned char *p, size_t n, unsigned char wanted)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != wanted)
            return false;
    return true;
}

/* Members since 0.1, as the list has them. The row in front keeps the array from being
 * empty. */
#define SWI_STRUCT(type, first, now)
#define SWI_SINCE(type, member)                                                                \
    {SWI_STRUCT_##type, offsetof(type, member),                                                \
     offsetof(type, member) + sizeof(((type *)0)->member)},
static const struct {
    swi_struct of;
    size_t from, end;
} later[] = {
    {SWI_STRUCTS, 0, 0},
#include "runtime/base/structs.def"
};
#undef SWI_STRUCT
#undef SWI_SINCE

static bool is_cut(swi_struct which, size_t size)
{
    bool cut = false;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        cut |= later[i].of == which && size > later[i].from && size < later[i].end;
    return cut;
}

static void try_size(scene *s, size_t c, size_t size)
{
    const swi_struct which = (swi_struct)c;
    static room r;
    memset(&r, 0, sizeof r);
    if (calls[c].result)
        memset(r.bytes, 0xa5, sizeof r);
    else /* what this library does not know has no meaning to it */
        memset(r.bytes + structs[which].bytes, 0xa5, sizeof r - structs[which].bytes);
    r.size = size;
    const bool good =
        size >= structs[which].least && size <= SWI_STRUCT_MOST && !is_cut(which, size);
    const sw_status status = calls[c].of(s, &r);
    SW_CHECK(status == (good ? SW_OK : SW_INVALID), "%s of %zu bytes: %s: %s",
             structs[which].name, size, sw_status_name(status), sw_last_error());
    if (!good) {
        char set[80];
        snprintf(set, sizeof set, "set it to sizeof(%s)", structs[which].name);
        SW_CHECK(strstr(sw_last_error(), set) != NULL, "%s", sw_last_error());
    }
    if (!calls[c].result)
        return;
    size_t room_for = size < structs[which].bytes ? size : structs[which].bytes;
    room_for = good ? room_for : sizeof r.size;
    SW_CHECK(r.size == size && all_are(r.bytes + room_for, sizeof r - room_for, 0xa5),
             "%s of %zu bytes: something was written after it", structs[which].name, size);
}

SW_TEST("every size of every struct is accepted or refused, none is cut")
{
    scene s;
    scene_new(&s);
    for (size_t c = 0; c < SWI_STRUCTS; c++) {
        for (size_t size = 0; size <= structs[c].bytes + 64; size++)
            try_size(&s, c, size);
        try_size(&s, c, SWI_STRUCT_MOST);
        try_size(&s, c, SWI_STRUCT_MOST + 1);
        try_size(&s, c, SIZE_MAX);
    }
    scene_end(&s);
}

/* The way that ended in a crash: nine bytes are half of a pointer. */
SW_TEST("a size that cuts a pointer, or is a pointer's, is refused with the way out")
{
    scene s;
    scene_new(&s);
    sw_run_args a = s.args;
    a.size = 9;
    REFUSED(sw_run(s.exec, &a), SW_INVALID, "sw_run: sw_run_args.size must be ");
    a.size = 0;
    REFUSED(sw_run(s.exec, &a), SW_INVALID,
            "sw_run_args.size is 0: set it to sizeof(sw_run_args)");
    a.size = sizeof(void *); /* sizeof of the pointer to it: all the rest would be dropped */
    REFUSED(sw_run(s.exec, &a), SW_INVALID, "(got 8)");
    scene_end(&s);
}

/* ---- the header against the list --------------------------------------------------------- */

/* The word that ends before `end`, arrays left out. */
static void word_before(const char *end, char *to, size_t bytes)
{
    while (end[-1] == ']') {
        while (*--end != '[')
            ;
    }
    const char *from = end;
    if (from[-1] == ')') { /* void (*storage)(void *to, ...) */
        for (int depth = 0; depth >= 0; from--)
            depth += from[-1] == ')'                 ? 1
                     : from[-1] == '(' && depth == 1 ? -2
                     : from[-1] == '('               ? -1
                                                     : 0;
        end = from;
        while (end[-1] != ')')
            end--;
        end--;
        from = end;
    }
    while (isalnum((unsigned char)from[-1]) || from[-1] == '_')
        from--;
    snprintf(to, bytes, "%.*s", (int)(end - from), from);
}

/* The last member of a struct in stepwell.h; "" where there is no such struct. */
static void last_member(char *text, const char *name, char *to, size_t bytes)
{
    char end[96];
    snprintf(end, sizeof end, "\n} %s;", name);
    to[0] = '\0';
    char *at = strstr(text, end);
    if (at == NULL)
        return;
    while (at[-1] != ';')
        at--;
    word_before(at - 1, to, bytes);
}

#define SWI_STRUCT(type, first, now) {#type, #now},
#define SWI_SINCE(type, member)
static const char *const listed[][2] = {
#include "runtime/base/structs.def"
};

/* So that a member that somebody appends cannot be forgotten, be it in the padding. */
SW_TEST("structs.def has every struct of the header with its last member")
{
    char path[4096];
    snprintf(path, sizeof path, "%s/runtime/installed/stepwell.h", sw_build_root());
    char *text = sw_file_text(path, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    for (char *from; (from = strstr(text, "/*")) != NULL;) {
        const char *end = strstr(from, "*/") + 2;
        memset(from, ' ', (size_t)(end - from));
    }
    size_t found = 0;
    for (size_t i = 0; i < SWI_STRUCTS; i++) {
        char member[96];
        last_member(text, listed[i][0], member, sizeof member);
        SW_CHECK(strcmp(member, listed[i][1]) == 0, "%s ends with '%s' in stepwell.h",
                 listed[i][0], member);
    }
    for (const char *p = text; (p = strstr(p, "{\n    size_t size;")) != NULL; p++)
        found++;
    /* The library fills five itself: sw_launch, sw_plan_storage, sw_plan_layer, sw_share and
     * sw_mutation_record. */
    CU_ASSERT_EQUAL(found, SWI_STRUCTS + 5);
    free(text);
}
