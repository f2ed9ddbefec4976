/* bench members: one step of many small networks, as members of one shape and as models of
 * their own, taking turns; beside a loop of pure arithmetic of the same length. Its other cases
 * are in the files beside this one; members.py adds the loops of other frameworks. */
#include "alloc/base/mem.h"
#include "tools/bench/members.h"
#include <string.h>

enum { VARIANTS = 3 };
static const char *const names[VARIANTS] = {"members", "models", "control"};

typedef struct {
    const members_opts *opts;
    sw_exec *exec, *alone; /* alone: one thread, for models of their own */
    members_group group;
    members_net *nets;
    uint64_t step, turns, first_ns, second_ns;
} subject;

static sw_status run_models(subject *s)
{
    for (int64_t i = 0; i < s->opts->members; i++) {
        const sw_run_args args = {.size = sizeof args,
                                  .fn = members_step,
                                  .user = &s->nets[i],
                                  .models = &s->nets[i].model,
                                  .n_models = 1,
                                  .inputs = s->group.inputs,
                                  .n_inputs = 2,
                                  .mode = SW_TRAIN,
                                  .step = s->step};
        SW_TRY(sw_run(s->alone, &args));
    }
    return SW_OK;
}

static sw_status turn(void *context, int i)
{
    subject *s = context;
    s->step++;
    if (i == 2)
        members_control(s->turns);
    return i == 0 ? members_group_run(&s->group, s->step) : i == 1 ? run_models(s) : SW_OK;
}

static sw_status loop(void *context)
{
    return turn(context, 0);
}

/* The members, and how long they took from their making to the end of the first loop. */
static sw_status make_group(subject *s)
{
    const members_opts *o = s->opts;
    const sw_exec_opts exec = {.size = sizeof exec, .threads = (int)o->common.threads};
    SW_TRY(sw_exec_create(&s->exec, &exec));
    SW_TRY(members_group_batch(&s->group, MEMBERS_SMALL, o->common.batch));
    const uint64_t start = cli_clock_ns();
    SW_TRY(members_group_make(&s->group, s->exec, MEMBERS_SMALL, o->members, 0,
                              o->member_threads));
    SW_TRY(loop(s));
    const uint64_t between = cli_clock_ns();
    SW_TRY(loop(s));
    s->first_ns = between - start;
    s->second_ns = cli_clock_ns() - between;
    return SW_OK;
}

static sw_status make(subject *s)
{
    const members_opts *o = s->opts;
    const sw_exec_opts alone = {.size = sizeof alone, .threads = 1};
    void *block;
    SW_TRY(make_group(s));
    SW_TRY(sw_exec_create(&s->alone, &alone));
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, (size_t)o->members * sizeof *s->nets));
    s->nets = block;
    for (int64_t i = 0; i < o->members; i++) {
        SW_TRY(members_declare(&s->nets[i], MEMBERS_SMALL));
        SW_TRY(sw_model_ready(s->nets[i].model, s->alone, (uint64_t)i));
    }
    for (int i = 0; i < 2; i++)
        SW_TRY(turn(s, 1));
    return members_calibrate(&s->turns, loop, s);
}

static void end(subject *s)
{
    const int64_t n = s->opts->members;
    members_group_destroy(&s->group);
    for (int64_t i = 0; s->nets != NULL && i < n; i++)
        sw_model_destroy(s->nets[i].model);
    sw_heap_free(s->nets, SW_HEAP_RECORDS, (size_t)n * sizeof *s->nets);
    sw_exec_destroy(s->alone);
    sw_exec_destroy(s->exec);
}

/* ---- turns --------------------------------------------------------------------------------
 */

static int report(subject *s, const bench_variant *v)
{
    const members_opts *o = s->opts;
    const int status = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (o->common.json) {
        sw_json json;
        result_json_begin(&json);
        sw_json_put_i64(&json, "members", o->members);
        sw_json_put_u64(&json, "member_bytes", sw_members_bytes(s->group.group));
        for (int i = 0; i < VARIANTS; i++)
            bench_put(&json, v[i].key, &v[i].summary);
        return result_json_end(&json, status);
    }
    if (!o->common.quiet)
        printf(
            "%lld perceptrons 49-64-24-10, batch %lld, Adam, %lld threads: one step of each; "
            "a member takes %s\n\n",
            (long long)o->members, (long long)o->common.batch, (long long)o->common.threads,
            cli_bytes(sw_members_bytes(s->group.group)).text);
    printf("%-12s %12s %12s %12s %12s\n", "", "min", "median", "p99", "max");
    for (int i = 0; i < VARIANTS; i++)
        bench_print(v[i].name, &v[i].summary);
    return cli_finish(status);
}

int members_loop(const members_opts *o)
{
    subject s = {.opts = o};
    bench_variant v[VARIANTS];
    for (int i = 0; i < VARIANTS; i++)
        v[i] = (bench_variant){.name = names[i], .key = names[i]};
    sw_status status = make(&s);
    if (status == SW_OK && !o->turns)
        status = bench_take_turns(v, VARIANTS, o->loops, turn, &s);
    const bench_answers answers = {names, VARIANTS, turn, &s, s.first_ns, s.second_ns};
    const int code = status != SW_OK ? cli_library_error(status, false)
                     : o->turns      ? bench_answer_turns(&answers)
                                     : report(&s, v);
    end(&s);
    return code;
}

/* ---- the command ------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*run)(const members_opts *opts);
    int64_t members, loops; /* where none are given */
} cases[] = {{"loop", members_loop, 200, 200},         {"pauses", members_pauses, 200, 20000},
             {"first", members_first, 200, 20},        {"sweep", members_sweep, 1920, 20},
             {"distinct", members_distinct, 200, 100}, {"lenet5", members_lenet5, 5, 5},
             {"copy", members_copy, 200, 200}};
enum { CASES = sizeof cases / sizeof *cases };

int bench_members(int argc, char **argv)
{
    static const char *const words[] = {"loop",     "pauses", "first", "sweep",
                                        "distinct", "lenet5", "copy",  NULL};
    members_opts o = {0};
    const cli_option options[] = {
        {"--case", "NAME", CLI_WORD, &o.which, "loop",
         "loop: members, models and arithmetic; pauses: the slowest of many loops; first: new "
         "networks; sweep: larger ones; distinct: of all widths; lenet5: epochs, own orders; "
         "copy: of members, beside memcpy",
         0, 0, words},
        {"--members", "N", CLI_COUNT, &o.members, NULL,
         "networks (200; sweep: 1920 of the smallest; lenet5: 5)", 1, 100000, NULL},
        {"--loops", "N", CLI_COUNT, &o.loops, NULL,
         "steps of all of them (200; pauses: 20000, first and sweep: 20, distinct: 100); "
         "lenet5: epochs (5)",
         1, 1 << 20, NULL},
        {"--member-threads", "N", CLI_COUNT, &o.member_threads, "1", "threads of each network",
         1, 256, NULL},
        {"--data", "SPEC", CLI_WORD, &o.data, "synthetic", "lenet5: synthetic, or idx:DIR", 0,
         0, NULL},
        {"--slice", "N", CLI_COUNT, &o.slice, "7", "lenet5: steps of a network in a row", 1,
         1 << 20, NULL},
        {"--turns", NULL, CLI_FLAG, &o.turns, NULL,
         "answer lines of NAME WARM COUNT on standard input: loops of members, models or "
         "control",
         0, 0, NULL},
    };
    const int parsed =
        bench_parse("bench members",
                    "Steps of many small networks: members of one shape, models, arithmetic.",
                    options, (int)(sizeof options / sizeof *options), &o.common, argc, argv);
    if (parsed != CLI_GO)
        return parsed;
    int i = 0;
    while (i < CASES - 1 && strcmp(o.which, cases[i].name) != 0)
        i++;
    if (o.turns && cases[i].run != members_loop)
        return cli_error(CLI_USAGE, "--turns is for --case loop");
    o.members = o.members > 0 ? o.members : cases[i].members;
    o.loops = o.loops > 0 ? o.loops : cases[i].loops;
    cli_catch_interrupt();
    return cases[i].run(&o);
}
