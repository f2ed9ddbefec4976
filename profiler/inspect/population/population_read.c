/* From a profile to a population. */
#include "profiler/inspect/population/population_take.h"
#include "alloc/base/mem.h"
#include "profiler/record/utf8.h"
#include <string.h>

static sw_status take_header(population_reader *r, const profile_position *at)
{
    population *p = r->p;
    SW_TRY(profile_take_header(p->timeline, at));
    SW_TRY(profile_get_in(at, at->record, "members", UINT32_MAX - 1, 0, &p->members));
    SW_TRY(profile_get_u64(at, at->record, "budget_bytes", 0, &p->budget_bytes));
    SW_TRY(profile_get_u64(at, at->record, "planned_steps", 0, &p->planned_steps));
    return p->members > 0 ? SW_OK : profile_damaged(at, "not the profile of a population");
}

static sw_status take_end(population *p, const profile_position *at)
{
    profile_end e;
    SW_TRY(profile_read_end(at, &e, p->timeline));
    p->wall_ns = e.wall_ns;
    sw_utf8_clean(p->status, sizeof p->status, e.status);
    sw_utf8_clean(p->error, sizeof p->error, e.error);
    p->ended = true;
    return SW_OK;
}

static sw_status take(population_reader *r, const profile_position *at)
{
    if (at->line == 1)
        return take_header(r, at);
    if (strcmp(at->type, "header") == 0)
        return profile_damaged(at, "a second header");
    if (r->p->ended)
        return profile_damaged(at, "a record after the end");
    if (strcmp(at->type, "plan") == 0)
        return profile_take_program(r->p->timeline, at, false);
    if (strcmp(at->type, "shape") == 0)
        return population_take_shape(r, at);
    if (strcmp(at->type, "member") == 0)
        return population_take_member(r, at);
    if (strcmp(at->type, "turn") == 0)
        return population_take_turn(r, at);
    return strcmp(at->type, "end") == 0 ? take_end(r->p, at) : SW_OK;
}

static sw_status read_lines(population_reader *r, profile_lines *lines)
{
    for (bool there = true; there;) {
        profile_line line;
        profile_position at;
        SW_TRY(profile_lines_next(lines, &line));
        if (line.text == NULL)
            return SW_OK;
        SW_TRY(profile_record(lines, &line, &at, &there));
        if (there)
            SW_TRY(take(r, &at));
        r->good = lines->line;
    }
    return SW_OK;
}

static sw_status read_file(population_reader *r, const char *path)
{
    profile_lines lines;
    population *p = r->p;
    SW_TRY(profile_lines_open(&lines, path));
    sw_status status = read_lines(r, &lines);
    if (status == SW_OK && lines.line == 0)
        status = sw_error_set(SW_FORMAT, __FILE__, __LINE__, "%s: the file is empty", path);
    profile_lines_close(&lines);
    p->cut_members = r->opened ? r->open.n : 0;
    population_free_turn(&r->open);
    if (status != SW_FORMAT || r->good == 0)
        return status;
    p->damaged_line = r->good + 1;
    sw_utf8_clean(p->damaged_why, sizeof p->damaged_why, sw_last_error());
    return SW_OK;
}

static const char header_start[] = "{\"type\":\"header\"";

static sw_status has_members(profile_lines *lines, bool *is)
{
    char head[sizeof header_start];
    profile_line line;
    profile_position at;
    size_t n = 0;
    bool there = false;
    SW_TRY(profile_lines_head(lines, head, sizeof head - 1, &n));
    if (n < sizeof head - 1 || memcmp(head, header_start, n) != 0)
        return SW_OK;
    SW_TRY(profile_lines_next(lines, &line));
    if (line.text != NULL)
        SW_TRY(profile_record(lines, &line, &at, &there));
    *is = there && value_at(at.record, "members") != 0;
    return SW_OK;
}

sw_status population_is(const char *path, bool *is)
{
    profile_lines lines;
    *is = false;
    SW_TRY(profile_lines_open(&lines, path));
    const sw_status status = has_members(&lines, is);
    profile_lines_close(&lines);
    return status == SW_FORMAT ? SW_OK : status; /* who reads all of it says what is wrong */
}

sw_status population_open(population **out, const char *path, const population_want *want)
{
    population *p;
    SW_TRY(sw_heap_alloc(&p, SW_HEAP_PROFILE, sizeof(population)));
    *p = (population){.timeline = NULL};
    sw_utf8_clean(p->shown, sizeof p->shown, path);
    population_reader r = {.p = p, .want = want};
    sw_status status = sw_timeline_new(&p->timeline);
    if (status == SW_OK)
        status = sw_timeline_string(p->timeline, &p->timeline->path, path);
    if (status == SW_OK)
        status = read_file(&r, path);
    if (status != SW_OK) {
        population_free(p);
        return status;
    }
    *out = p;
    return SW_OK;
}

void population_free(population *p)
{
    if (p == NULL)
        return;
    for (uint32_t i = 0; i < p->n_turns; i++)
        population_free_turn(&p->turns[i]);
    for (uint32_t i = 0; i < p->n_shapes; i++)
        population_parts_free(&p->shapes[i].parts);
    sw_heap_free(p->turns, SW_HEAP_PROFILE, p->cap_turns * sizeof *p->turns);
    sw_heap_free(p->shapes, SW_HEAP_PROFILE, p->cap_shapes * sizeof *p->shapes);
    sw_timeline_free(p->timeline);
    sw_heap_free(p, SW_HEAP_PROFILE, sizeof *p);
}

const population_turn *population_find(const population *p, uint64_t turn)
{
    for (uint32_t i = 0; i < p->n_turns; i++)
        if (p->turns[i].turn == turn)
            return &p->turns[i];
    return NULL;
}

const population_turn *population_last(const population *p)
{
    return p->seen_turns > 0 ? &p->turns[p->n_turns - 1] : NULL;
}
