/* bench members --case copy: what an exploit moves. Copies of members beside memcpy of as many
 * bytes between blocks that lie as far apart, taking turns. */
#include "alloc/base/mem.h"
#include "tools/bench/members.h"
#include <string.h>

enum { SIZES = 3, PAIRS = 16, VARIANTS = 2 };

typedef struct {
    const members_opts *opts;
    sw_exec *exec;
    members_group group;
    unsigned char *blocks;
    size_t bytes; /* of a member */
} copies;

/* The i-th of the members goes to the one half of all after it. */
static sw_status turn(void *context, int which)
{
    copies *c = context;
    for (int i = 0; i < PAIRS; i++) {
        if (which == 1)
            memcpy(c->blocks + (size_t)(PAIRS + i) * c->bytes, c->blocks + (size_t)i * c->bytes,
                   c->bytes);
        else
            SW_TRY(sw_member_copy(c->group.members[PAIRS + i], c->group.members[i]));
    }
    return SW_OK;
}

static sw_status measure(copies *c, members_widths w, bench_variant *v)
{
    void *block;
    const sw_exec_opts exec = {.size = sizeof exec};
    SW_TRY(sw_exec_create(&c->exec, &exec));
    SW_TRY(members_group_make(&c->group, c->exec, w, 2 * PAIRS, 0, 1));
    c->bytes = sw_members_bytes(c->group.group);
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_RECORDS, 2 * PAIRS * c->bytes));
    c->blocks = block;
    memset(c->blocks, 1, 2 * PAIRS * c->bytes);
    SW_TRY(turn(c, 0));
    return bench_take_turns(v, VARIANTS, c->opts->loops, turn, c);
}

static void end(copies *c)
{
    sw_heap_free(c->blocks, SW_HEAP_RECORDS, 2 * PAIRS * c->bytes);
    members_group_destroy(&c->group);
    sw_exec_destroy(c->exec);
}

static double rate(const copies *c, uint64_t ns)
{
    return ns > 0 ? (double)PAIRS * (double)c->bytes / (double)ns : 0.0; /* GB/s */
}

static void print(const copies *c, const bench_variant *v)
{
    const uint64_t member = v[0].summary.median, plain = v[1].summary.median;
    printf("%-12s %9.2f %9.2f %9.2f %9.2f %9.0f %%\n", cli_bytes(c->bytes).text,
           rate(c, v[0].summary.min), rate(c, member), rate(c, v[1].summary.min),
           rate(c, plain), member > 0 ? 100.0 * (double)plain / (double)member : 0.0);
}

static void put(sw_json *json, const copies *c, const bench_variant *v)
{
    sw_json_begin(json, '{');
    sw_json_put_u64(json, "member_bytes", c->bytes);
    sw_json_put_i64(json, "copies", PAIRS);
    bench_put(json, "member", &v[0].summary);
    bench_put(json, "memcpy", &v[1].summary);
    sw_json_end(json);
}

int members_copy(const members_opts *o)
{
    static const members_widths widths[SIZES] = {
        {49, 64, 24, 10}, {196, 256, 96, 10}, {784, 1024, 384, 10}};
    sw_status status = SW_OK;
    sw_json json;
    if (o->common.json) {
        result_json_begin(&json);
        sw_json_open(&json, "sizes", '[');
    } else {
        if (!o->common.quiet)
            printf("%d copies of members, beside memcpy, GB/s of what is copied\n\n", PAIRS);
        printf("%-12s %9s %9s %9s %9s %11s\n", "a member", "best", "median", "memcpy", "median",
               "of memcpy");
    }
    for (int i = 0; i < SIZES && status == SW_OK && !cli_interrupted(); i++) {
        copies c = {.opts = o};
        bench_variant v[VARIANTS] = {{.name = "member", .key = "member"},
                                     {.name = "memcpy", .key = "memcpy"}};
        status = measure(&c, widths[i], v);
        if (status == SW_OK && o->common.json)
            put(&json, &c, v);
        else if (status == SW_OK)
            print(&c, v);
        end(&c);
    }
    const int code = cli_interrupted() ? CLI_INTERRUPTED : CLI_DONE;
    if (status != SW_OK) {
        if (o->common.json)
            sw_json_free(&json);
        return cli_library_error(status, false);
    }
    if (o->common.json)
        sw_json_end(&json);
    return o->common.json ? result_json_end(&json, code) : cli_finish(code);
}
