/* Logs as they were at a save: pbt_global.txt is cut, and the policies are made of it again. A
 * policy cannot be cut, since a later exploit may have put another one in its place. */
#include "runtime/population/pbt_internal.h"
#include <string.h>

/* A line of the global log, and what its lineage was before. */
typedef struct {
    int64_t before; /* a node; -1 - m: the first values of member m */
    size_t at, bytes;
} node;

typedef struct {
    const sw_pbt *pbt;
    const char *path, *text;
    node *nodes;
    uint64_t n_nodes;
    int64_t *heads; /* of each member */
} lineages;

static sw_status read_line(lineages *l, size_t at, size_t bytes)
{
    uint64_t target, donor;
    sw_json_in in = swi_log_line(l->text + at, bytes - 1, l->path, l->n_nodes + 1);
    SW_TRY(sw_json_expect(&in, '['));
    SW_TRY(sw_json_get_count(&in, &target));
    SW_TRY(sw_json_expect(&in, ','));
    SW_TRY(sw_json_get_count(&in, &donor));
    if (target >= l->pbt->n || donor >= l->pbt->n)
        return sw_json_bad(&in, "there is no such member");
    l->nodes[l->n_nodes] = (node){.before = l->heads[donor], .at = at, .bytes = bytes};
    l->heads[target] = (int64_t)l->n_nodes++;
    return SW_OK;
}

static sw_status read_lines(lineages *l, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const char *end = memchr(l->text + at, '\n', bytes - at);
        if (end == NULL)
            SW_FAIL(SW_FORMAT, "%s: line %llu: is cut, it has no end", l->path,
                    (unsigned long long)l->n_nodes + 1);
        const size_t line = (size_t)(end - l->text) + 1 - at;
        SW_TRY(read_line(l, at, line));
        at += line;
    }
    return SW_OK;
}

/* First values, then the lines of the chain from the oldest on. */
static sw_status write_policy(const lineages *l, uint32_t member)
{
    const sw_pbt *p = l->pbt;
    size_t lines = 0;
    int64_t at = l->heads[member];
    for (; at >= 0; at = l->nodes[at].before)
        lines += l->nodes[at].bytes;
    const uint32_t root = (uint32_t)(-1 - at);
    sw_json j;
    void *block = NULL;
    sw_json_growing(&j, SW_HEAP_FILES);
    swi_policy_first(p, &j, root, p->one[root].first_time, p->first + (size_t)root * p->h);
    const size_t first = j.used, all = first + lines;
    sw_status status = j.status;
    if (status == SW_OK)
        status = sw_heap_alloc(&block, SW_HEAP_FILES, all);
    if (status == SW_OK) {
        char *end = (char *)block + all;
        memcpy(block, j.bytes, first);
        for (at = l->heads[member]; at >= 0; at = l->nodes[at].before) {
            end -= l->nodes[at].bytes;
            memcpy(end, l->text + l->nodes[at].at, l->nodes[at].bytes);
        }
        status = swi_policy_write(p, member, block, all);
        sw_heap_free(block, SW_HEAP_FILES, all);
    }
    sw_json_free(&j);
    return status;
}

static sw_status rebuild(lineages *l, size_t bytes)
{
    for (uint32_t i = 0; i < l->pbt->n; i++)
        l->heads[i] = -1 - (int64_t)i;
    SW_TRY(read_lines(l, bytes));
    for (uint32_t i = 0; i < l->pbt->n; i++)
        SW_TRY(write_policy(l, i));
    return sw_file_cut(l->pbt->log_file, bytes);
}

static uint64_t lines_of(const char *text, size_t bytes)
{
    uint64_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += text[i] == '\n';
    return n;
}

/* The first `bytes` are those that were there: the state has their number and sum. */
static sw_status check_sum(sw_pbt *p, const char *path, const char *text, size_t bytes)
{
    const uint32_t sum = swi_log_sum(SWI_LOG_SUM, text, bytes);
    if (bytes < p->s.log_bytes)
        SW_FAIL(SW_FORMAT, "%s: has %zu bytes, and had %llu when the run was saved", path,
                bytes, (unsigned long long)p->s.log_bytes);
    if (p->s.log_sum != 0 && p->s.log_sum != sum)
        SW_FAIL(SW_FORMAT,
                "%s is damaged: its first %zu bytes are not those that it had when the run "
                "was saved",
                path, bytes);
    p->s.log_sum = sum;
    return SW_OK;
}

sw_status swi_pbt_log_restore(sw_pbt *p)
{
    char path[SWI_LOG_PATH];
    void *text, *nodes = NULL, *heads = NULL;
    size_t bytes;
    swi_pbt_log_path(p, path, -1, "");
    SW_TRY(swi_log_read(path, &text, &bytes));
    const size_t cut = bytes < p->s.log_bytes ? bytes : (size_t)p->s.log_bytes;
    const size_t n_nodes = (size_t)lines_of(text, cut) * sizeof(node);
    const size_t n_heads = p->n * sizeof(int64_t);
    sw_status status = check_sum(p, path, text, cut);
    if (status == SW_OK)
        status = sw_heap_alloc(&nodes, SW_HEAP_FILES, n_nodes);
    if (status == SW_OK)
        status = sw_heap_alloc(&heads, SW_HEAP_FILES, n_heads);
    if (status == SW_OK) {
        lineages l = {.pbt = p, .path = path, .text = text, .nodes = nodes, .heads = heads};
        status = rebuild(&l, cut);
    }
    sw_heap_free(heads, SW_HEAP_FILES, n_heads);
    sw_heap_free(nodes, SW_HEAP_FILES, n_nodes);
    sw_heap_free(text, SW_HEAP_FILES, bytes);
    return status;
}
