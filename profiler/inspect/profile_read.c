/* From the lines of a profile to records, checked; callers sum them. And to a timeline, in two
 * passes: the first takes the programs and remembers where the runs stand that are kept, the
 * second reads those. */
#include "alloc/base/assert.h"
#include "alloc/base/mem.h"
#include "profiler/inspect/profile_read.h"
#include "profiler/inspect/snapshot.h"
#include "profiler/record/record.h"
#include "profiler/record/utf8.h"
#include <stdio.h>
#include <string.h>

/* ---- lines ------------------------------------------------------------------------------- */

#define FIRST_BYTES ((size_t)256 << 10)
#define LONGEST_BYTES ((size_t)32 << 20) /* a plan of a hundred thousand values is shorter */

sw_status profile_lines_open(profile_lines *l, const char *path)
{
    memset(l, 0, sizeof *l);
    SW_TRY(sw_heap_alloc(&l->buffer, SW_HEAP_FILES, FIRST_BYTES));
    l->capacity = FIRST_BYTES;
    sw_status status = sw_heap_alloc(&l->tree, SW_HEAP_FILES, sizeof *l->tree);
    if (status == SW_OK)
        status = value_tree_open_for(l->tree, path, PROFILE_RECORD_BYTES);
    if (status == SW_OK)
        status = sw_file_open(&l->file, path, SW_FILE_READ);
    if (status == SW_OK) {
        status = sw_file_seek(l->file, 0);
        if (status != SW_OK)
            status = sw_error_set(status, __FILE__, __LINE__,
                                  "%s; a report reads the file twice, so it can be no pipe",
                                  sw_last_error());
    }
    if (status != SW_OK)
        profile_lines_close(l);
    return status;
}

void profile_lines_close(profile_lines *l)
{
    sw_file_drop(l->file);
    sw_heap_free(l->buffer, SW_HEAP_FILES, l->capacity);
    if (l->tree != NULL)
        value_tree_close(l->tree);
    sw_heap_free(l->tree, SW_HEAP_FILES, sizeof *l->tree);
    json_buffer_free(&l->json);
    memset(l, 0, sizeof *l);
}

sw_status profile_lines_seek(profile_lines *l, uint64_t at, uint64_t line)
{
    const uint64_t first = l->next - l->begin; /* of the buffer, in the file */
    if (at >= first && at <= first + l->end) {
        l->begin = (size_t)(at - first);
    } else {
        SW_TRY(sw_file_seek(l->file, at));
        l->begin = l->end = 0;
    }
    l->at_end = false; /* there may be more by now */
    l->next = at;
    l->line = line - 1;
    return SW_OK;
}

sw_status profile_lines_head(profile_lines *l, char *to, size_t bytes, size_t *n)
{
    const uint64_t here = l->next - l->begin + l->end;
    SW_TRY(sw_file_seek(l->file, 0));
    SW_TRY(sw_file_read(l->file, to, bytes, n));
    return sw_file_seek(l->file, here);
}

sw_status profile_lines_next(profile_lines *l, profile_line *line)
{
    size_t searched = 0;
    for (;;) {
        const size_t have = l->end - l->begin;
        const char *from = l->buffer + l->begin;
        const char *newline =
            have > searched ? memchr(from + searched, '\n', have - searched) : NULL;
        if (newline == NULL && !l->at_end) {
            searched = have;
            /* More bytes after the unfinished line. */
            SW_ASSERT(l->begin <= l->end && l->end <= l->capacity);
            if (l->begin > 0) {
                memmove(l->buffer, l->buffer + l->begin, l->end - l->begin);
                l->end -= l->begin;
                l->begin = 0;
            }
            if (l->end == l->capacity) {
                if (l->capacity >= LONGEST_BYTES)
                    SW_FAIL(SW_FORMAT, "%s: line %llu is longer than %zu bytes",
                            sw_file_path(l->file), (unsigned long long)l->line + 1,
                            LONGEST_BYTES);
                SW_TRY(sw_heap_resize(&l->buffer, SW_HEAP_FILES, l->capacity, l->capacity * 2));
                l->capacity *= 2;
            }
            size_t got;
            const size_t wanted = l->capacity - l->end;
            SW_TRY(sw_file_read(l->file, l->buffer + l->end, wanted, &got));
            l->end += got;
            l->at_end = got < wanted;

            continue;
        }
        line->whole = newline != NULL;
        line->n = line->whole ? (size_t)(newline - from) : have;
        line->text = line->whole || have > 0 ? from : NULL;
        if (line->text != NULL) {
            const size_t taken = line->n + line->whole;
            SW_ASSERT(taken > 0 && taken <= l->end - l->begin);
            l->begin += taken;
            l->line++;
            l->at = l->next;
            l->next += taken;
        }
        return SW_OK;
    }
}

/* ---- members ----------------------------------------------------------------------------- */

sw_status profile_damaged(const profile_position *p, const char *what)
{
    SW_FAIL(SW_FORMAT, "%s: line %llu: %s", p->path, (unsigned long long)p->line, what);
}

sw_status profile_wrong(const profile_position *p, const char *key, const char *wanted)
{
    SW_FAIL(SW_FORMAT, "%s: line %llu: '%s' is missing or not %s", p->path,
            (unsigned long long)p->line, key, wanted);
}

sw_status profile_need_u64(const profile_position *p, value o, const char *key, uint64_t *out)
{
    return value_whole(value_at(o, key), out) ? SW_OK : profile_wrong(p, key, "a whole number");
}

sw_status profile_get_u64(const profile_position *p, value o, const char *key,
                          uint64_t otherwise, uint64_t *out)
{
    const value x = value_at(o, key);
    *out = otherwise;
    return x == 0 || x == VALUE_NULL || value_whole(x, out)
               ? SW_OK
               : profile_wrong(p, key, "a whole number");
}

/* The same as it stands there, valid as long as the record. */
static sw_status borrow_text(const profile_position *p, value o, const char *key,
                             const char **out)
{
    const value x = value_at(o, key);
    *out = value_kind_of(x) == VALUE_TEXT ? value_text(x) : "";
    return x == 0 || x == VALUE_NULL || value_kind_of(x) == VALUE_TEXT
               ? SW_OK
               : profile_wrong(p, key, "a string");
}

sw_status profile_take(sw_timeline *t, const profile_position *p, value o,
                       const profile_member *f)
{
    const char *said;
    for (; f->key != NULL; f++)
        if (f->otherwise == PROFILE_TEXT) {
            SW_TRY(borrow_text(p, o, f->key, &said));
            SW_TRY(sw_timeline_string(t, f->to, said));
        } else {
            SW_TRY(f->otherwise == PROFILE_NEEDED
                       ? profile_need_u64(p, o, f->key, f->to)
                       : profile_get_u64(p, o, f->key, f->otherwise, f->to));
        }
    return SW_OK;
}

/* The record's phases, SW_PROF_PHASES of them. */
static sw_status profile_need_phases(const profile_position *p, sw_prof_phase *to)
{
    const value phases = value_at(p->record, "phases");
    if (value_kind_of(phases) != VALUE_DICT)
        return profile_wrong(p, "phases", "an object");
    for (int i = 0; i < SW_PROF_PHASES; i++) {
        const value x = value_at(phases, sw_prof_phase_name(i));
        uint64_t peak, end;
        if (value_kind_of(x) != VALUE_DICT)
            return profile_wrong(p, sw_prof_phase_name(i), "a phase");
        SW_TRY(PROFILE_TAKE(NULL, p, x, {"peak_bytes", &peak, PROFILE_NEEDED},
                            {"end_bytes", &end, PROFILE_NEEDED}, {"ns", &to[i].ns, 0}));
        to[i].peak_bytes = peak;
        to[i].end_bytes = end;
    }
    return SW_OK;
}

sw_status profile_get_in(const profile_position *p, value o, const char *key, uint64_t most,
                         uint64_t otherwise, uint64_t *out)
{
    SW_TRY(profile_get_u64(p, o, key, otherwise, out));
    return *out <= most || *out == otherwise ? SW_OK : profile_wrong(p, key, "in range");
}

#define TRACE ((uint64_t)1 << 31) /* in a key: a trace's number, not a program's */

/* Exec and program, or exec and trace, of a record, as sw_tl_program has it; false: neither. */
static sw_status profile_get_key(const profile_position *p, uint64_t *key, bool *has)
{
    uint64_t exec, program, trace;
    SW_TRY(profile_get_in(p, p->record, "exec", UINT32_MAX, 0, &exec));
    SW_TRY(profile_get_in(p, p->record, "program", TRACE - 1, UINT64_MAX, &program));
    SW_TRY(profile_get_in(p, p->record, "trace", TRACE - 1, UINT64_MAX, &trace));
    *has = program != UINT64_MAX || trace != UINT64_MAX;
    *key = exec << 32 | (program != UINT64_MAX ? program : trace | TRACE);
    return SW_OK;
}

sw_status profile_get_batch(const profile_position *p, int64_t *out)
{
    uint64_t batch;
    SW_TRY(profile_get_u64(p, p->record, "batch", UINT64_MAX, &batch));
    *out = batch <= INT64_MAX ? (int64_t)batch : -1;
    return SW_OK;
}

sw_status profile_get_text(const profile_position *p, value o, const char *key, char *to,
                           size_t bytes)
{
    const char *text;
    SW_TRY(borrow_text(p, o, key, &text));
    sw_utf8_clean(to, bytes, text);
    return SW_OK;
}

static sw_status u32_of(const profile_position *p, value o, const char *key, uint32_t most,
                        uint32_t *out)
{
    uint64_t x;
    SW_TRY(profile_need_u64(p, o, key, &x));
    if (x > most)
        return profile_wrong(p, key, "in range");
    *out = (uint32_t)x;
    return SW_OK;
}

uint64_t profile_peak(const sw_prof_phase *phase)
{
    uint64_t peak = 0;
    for (int i = 0; i < SW_PROF_PHASES; i++)
        peak = phase[i].peak_bytes > peak ? phase[i].peak_bytes : peak;
    return peak;
}

/* ---- header and programs ----------------------------------------------------------------- */

sw_status profile_take_header(sw_timeline *t, const profile_position *p)
{
    char type[16], format[32];
    uint64_t version;
    SW_TRY(profile_get_text(p, p->record, "type", type, sizeof type));
    if (strcmp(type, "header") != 0)
        return profile_damaged(p, "not a stepwell profile: it does not begin with a header");
    SW_TRY(profile_get_text(p, p->record, "format", format, sizeof format));
    if (strcmp(format, "stepwell-profile") != 0)
        return profile_damaged(p, "not a stepwell profile: the format is another");
    SW_TRY(profile_need_u64(p, p->record, "version", &version));
    if (version != 1)
        SW_FAIL(SW_FORMAT, "%s: profile version %llu; this program reads version 1", p->path,
                (unsigned long long)version);
    SW_TRY(PROFILE_TAKE(t, p, p->record, {"model", &t->model, PROFILE_TEXT},
                        {"device", &t->device, PROFILE_TEXT}, {"data", &t->data, PROFILE_TEXT},
                        {"normalise", &t->normalise, PROFILE_TEXT},
                        {"scores", &t->scores, PROFILE_TEXT},
                        {"created", &t->created, PROFILE_TEXT},
                        {"command", &t->command, PROFILE_TEXT}, {"seed", &t->seed, 0}));
    t->no_seed = t->seed == 0 && *t->command == '\0';
    SW_TRY(profile_get_batch(p, &t->batch));
    t->batch = t->batch > 0 ? t->batch : -1;
    return SW_OK;
}

static sw_status take_value(sw_timeline *t, const profile_position *p, value o,
                            const sw_tl_program *program, sw_tensor *v)
{
    const char *segment;
    uint64_t alias;
    if (value_kind_of(o) != VALUE_DICT)
        return profile_wrong(p, "values", "a list of values");
    SW_TRY(u32_of(p, o, "id", UINT32_MAX - 1, &v->id));
    SW_TRY(profile_get_in(p, o, "alias", UINT32_MAX, SW_TL_NONE, &alias));
    v->alias = (uint32_t)alias;
    SW_TRY(PROFILE_TAKE(t, p, o, {"name", &v->name, PROFILE_TEXT},
                        {"layer", &v->layer, PROFILE_TEXT}, {"op", &v->op, PROFILE_TEXT},
                        {"role", &v->role, PROFILE_TEXT}, {"phase", &v->phase, PROFILE_TEXT},
                        {"dtype", &v->dtype, PROFILE_TEXT},
                        {"segment", &segment, PROFILE_TEXT}));
    v->segment = SW_SEGMENT_STEP;
    for (int s = 0; s < SW_SEGMENTS; s++)
        if (strcmp(segment, sw_segment_name((sw_segment)s)) == 0)
            v->segment = (sw_segment)s;
    SW_TRY(PROFILE_TAKE(NULL, p, o, {"bytes", &v->bytes, PROFILE_NEEDED},
                        {"padding", &v->padding, PROFILE_NEEDED}, {"offset", &v->offset, 0}));
    SW_TRY(u32_of(p, o, "birth", program->n_ops, &v->birth));
    return u32_of(p, o, "death", program->n_ops, &v->death);
}

static sw_status take_ops(sw_timeline *t, const profile_position *p, sw_tl_program *program)
{
    const value ops = value_at(p->record, "ops");
    const value layers = value_at(p->record, "layers"),
                op_layer = value_at(p->record, "op_layer");
    const char *phases = value_text(value_at(p->record, "op_phase"));
    const bool detailed = layers != 0 && op_layer != 0 && phases != NULL;
    if (value_kind_of(ops) != VALUE_LIST || value_count(ops) >= UINT32_MAX)
        return profile_wrong(p, "ops", "a list of names");
    const size_t n = value_count(ops);
    if (detailed && (value_count(op_layer) != n || strlen(phases) != n))
        return profile_wrong(p, "op_layer", "as long as the list of ops");
    SW_TRY(sw_timeline_alloc(t, &program->ops, n, sizeof *program->ops));
    program->n_ops = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        const char *name = value_text(value_item(ops, i));
        if (name == NULL)
            return profile_wrong(p, "ops", "a list of names");
        SW_TRY(sw_timeline_string(t, &program->ops[i].name, name));
        uint64_t layer = 0;
        if (detailed && !value_whole(value_item(op_layer, i), &layer))
            return profile_wrong(p, "op_layer", "a list of numbers");
        SW_TRY(sw_timeline_string(t, &program->ops[i].layer,
                                  detailed ? value_text(value_item(layers, layer)) : NULL));
        program->ops[i].phase = detailed ? (uint8_t)(phases[i] - '0') : 1;
    }
    return SW_OK;
}

static sw_status take_bytes(const profile_position *p, sw_tl_program *x)
{
    const uint64_t planned = x->immediate ? 0 : PROFILE_NEEDED; /* nothing of a trace is */
    SW_TRY(profile_get_batch(p, &x->batch));
    SW_TRY(PROFILE_TAKE(NULL, p, p->record, {"model_bytes", &x->model_bytes, planned},
                        {"arena_bytes", &x->arena_bytes, planned},
                        {"data_bytes", &x->data_bytes, planned},
                        {"total_bytes", &x->total_bytes, planned},
                        {"lower_bound_bytes", &x->lower_bound_bytes, planned},
                        {"program_host_bytes", &x->program_host_bytes, 0}));
    if (x->immediate) {
        uint64_t slot;
        SW_TRY(profile_get_u64(p, p->record, "slot_bytes", 0, &slot));
        SW_TRY(profile_get_u64(p, p->record, "data_bytes", slot, &x->data_bytes));
        x->total_bytes = x->model_bytes + x->arena_bytes + x->data_bytes;
    }
    if (!x->immediate || value_at(p->record, "phases") != 0)
        SW_TRY(profile_need_phases(p, x->phase));
    x->peak_bytes = profile_peak(x->phase);
    SW_TRY(profile_get_u64(p, p->record, "peak_bytes", x->peak_bytes, &x->peak_bytes));
    uint64_t peak_op;
    SW_TRY(profile_get_in(p, p->record, "peak_position", UINT32_MAX - 1, 0, &peak_op));
    x->peak_op = (uint32_t)peak_op;
    /* The parts of the peak; plans of earlier versions do not have them. */
    if (x->immediate || value_at(p->record, "lanes_bytes") == 0)
        return SW_OK;
    SW_TRY(PROFILE_TAKE(NULL, p, p->record, {"model_padding_bytes", &x->model_padding_bytes, 0},
                        {"slot_bytes", &x->slot_bytes, 0},
                        {"padding_bytes", &x->padding_bytes, 0},
                        {"lanes_bytes", &x->lanes_bytes, PROFILE_NEEDED}));
    const uint64_t live = x->peak_bytes - x->model_bytes - x->slot_bytes;
    if (x->peak_bytes < x->model_bytes || x->peak_bytes - x->model_bytes < x->slot_bytes ||
        live > x->arena_bytes || x->padding_bytes > live ||
        x->lanes_bytes > live - x->padding_bytes || x->model_padding_bytes > x->model_bytes)
        return profile_wrong(p, "peak_bytes", "what its parts add up to");
    x->has_parts = true;
    return SW_OK;
}

static sw_status take_program(sw_timeline *t, const profile_position *p, bool immediate)
{
    sw_tl_program *program;
    bool has;
    SW_TRY(sw_timeline_add_program(t, &program));
    program->immediate = immediate;
    SW_TRY(profile_get_key(p, &program->key, &has));
    if (!has)
        return profile_wrong(p, immediate ? "trace" : "program", "a number");
    SW_TRY(PROFILE_TAKE(t, p, p->record, {"run", &program->run, PROFILE_TEXT}));
    SW_TRY(take_bytes(p, program));
    SW_TRY(take_ops(t, p, program));
    const value values = value_at(p->record, "values");
    const size_t n = value_count(values);
    if (value_kind_of(values) != VALUE_LIST || n >= UINT32_MAX)
        return profile_wrong(p, "values", "a list of values");
    SW_TRY(sw_timeline_alloc(t, &program->values, n, sizeof *program->values));
    for (size_t i = 0; i < n; i++) {
        SW_TRY(take_value(t, p, value_item(values, i), program, &program->values[i]));
        program->n_values++;
    }
    /* Models and inputs count their offsets apart: here each follows the one before, so that
     * no two share addresses. */
    uint64_t base[SW_SEGMENTS] = {0}, end[SW_SEGMENTS] = {0};
    for (uint32_t j = 0; j < program->n_values; j++) {
        sw_tensor *v = &program->values[j];
        if (v->segment == SW_SEGMENT_STEP)
            continue;
        if (base[v->segment] + v->offset < end[v->segment])
            base[v->segment] = end[v->segment];
        v->offset += base[v->segment];
        end[v->segment] = v->offset + v->bytes + v->padding;
    }
    return timeline_assign_layers(t, program);
}

sw_status profile_take_program(sw_timeline *t, const profile_position *p, bool immediate)
{
    const uint32_t before = t->n_programs;
    sw_status status = take_program(t, p, immediate);
    if (status == SW_OK) {
        status = sw_timeline_finish_program(t, &t->programs[before]);
        if (status == SW_FORMAT) { /* which knows the file, but no lines */
            const size_t n = strlen(t->path);
            const char *said = sw_last_error();
            char why[1024];
            snprintf(why, sizeof why, "%s",
                     strncmp(said, t->path, n) == 0 && said[n] == ':' ? said + n + 2 : said);
            status = profile_damaged(p, why);
        }
    }
    if (status != SW_OK)
        t->n_programs = before;
    return status;
}

/* ---- runs and ends ----------------------------------------------------------------------- */

sw_status profile_read_step(const profile_position *p, profile_step *s)
{
    const value o = p->record, loss = value_at(o, "loss"), warm = value_at(o, "warm");
    *s = (profile_step)SW_INIT(.has_loss = value_is_number(loss), .loss = value_real(loss),
                               .says_warm = warm != 0, .warm = warm == VALUE_TRUE,
                               .witnesses = value_at(o, "witnesses"),
                               .clocks = value_at(o, "op_ns"),
                               .has_phases = value_at(o, "phases") != 0);
    SW_TRY(
        PROFILE_TAKE(NULL, p, o, {"step", &s->step, PROFILE_NEEDED}, {"micro", &s->micro, 0}));
    SW_TRY(profile_get_key(p, &s->key, &s->has));
    SW_TRY(profile_get_text(p, o, "measured_by", s->by, sizeof s->by));
    SW_TRY(profile_get_text(p, o, "run", s->run, sizeof s->run));
    SW_TRY(profile_get_text(p, o, "mode", s->mode, sizeof s->mode));
    if (s->has_phases)
        SW_TRY(profile_need_phases(p, s->phase));
    SW_TRY(PROFILE_TAKE(NULL, p, o, {"peak_bytes", &s->peak, profile_peak(s->phase)},
                        {"arena_bytes", &s->arena, 0}, {"model_bytes", &s->model, 0},
                        {"host_bytes", &s->host, 0}, {"process_bytes", &s->process, UINT64_MAX},
                        {"allocations", &s->calls, 0}, {"at_ns", &s->at_ns, SW_TL_AFTER},
                        {"ns", &s->ns, 0}, {"faults", &s->faults, 0}));
    SW_TRY(profile_get_text(p, o, "first_fault", s->first_fault, sizeof s->first_fault));
    if (value_kind_of(s->witnesses) != VALUE_DICT)
        s->witnesses = 0;
    return SW_OK;
}

sw_status profile_check_clocks(const profile_position *p, const profile_step *s,
                               const sw_tl_program *program)
{
    const uint64_t n = value_count(s->clocks);
    uint64_t ns;
    for (uint64_t i = 0; i < n; i++)
        if (!value_whole(value_item(s->clocks, i), &ns))
            return profile_wrong(p, "op_ns", "a list of whole numbers");
    return n == 0 || n == program->n_ops
               ? SW_OK
               : profile_wrong(p, "op_ns", "as long as the list of ops");
}

uint64_t profile_clock(const profile_step *s, uint64_t op)
{
    uint64_t ns;
    return value_whole(value_item(s->clocks, op), &ns) ? ns : 0;
}

/* The index of its program, the latest of that key; SW_TL_NONE: it has none. */
static uint32_t profile_program_of(const sw_timeline *t, const profile_step *s)
{
    for (uint32_t i = t->n_programs; s->has && i > 0; i--)
        if (t->programs[i - 1].key == s->key)
            return i - 1;
    return SW_TL_NONE;
}

bool profile_has_bytes(const profile_step *s)
{
    return s->witnesses == 0 || strcmp(s->by, "access") == 0;
}

static void keep_higher(bool *measured, uint64_t *highest, uint64_t peak)
{
    *highest = peak > *highest ? peak : *highest;
    *measured = true;
}

uint32_t profile_count_step(sw_timeline *t, const profile_step *s)
{
    const uint32_t program = profile_program_of(t, s);
    sw_tl_program none = {0}, *p = program != SW_TL_NONE ? &t->programs[program] : &none;
    t->ran = p->ran = true;
    if (profile_has_bytes(s) && strcmp(s->by, "plan") != 0) {
        keep_higher(&t->measured, &t->measured_bytes, profile_peak(s->phase));
        keep_higher(&p->measured, &p->measured_bytes, profile_peak(s->phase));
    }
    return program;
}

/* The peak of all runs goes into the timeline. */
static sw_status profile_read_end(const profile_position *p, profile_end *e, sw_timeline *t)
{
    uint64_t peak;
    SW_TRY(borrow_text(p, p->record, "status", &e->status));
    SW_TRY(borrow_text(p, p->record, "error", &e->error));
    if (*e->status == '\0') /* written before there was a status */
        e->status = "done";
    SW_TRY(PROFILE_TAKE(NULL, p, p->record, {"wall_ns", &e->wall_ns, PROFILE_NEEDED},
                        {"steps", &e->steps, 0}, {"measured_peak_bytes", &peak, 0}));
    if (peak > t->measured_bytes && (t->measured || !t->ran)) /* else: as planned */
        keep_higher(&t->measured, &t->measured_bytes, peak);
    return SW_OK;
}

/* ---- records ----------------------------------------------------------------------------- */

sw_status profile_record(profile_lines *lines, const profile_line *line, profile_position *p,
                         bool *there)
{
    value_tree *tree = lines->tree;
    sw_json_in in = sw_json_in_text(line->text, line->n, tree->path);
    *p = (profile_position){.path = tree->path, .line = lines->line};
    in.line = tree->line = lines->line;
    in.strict = true;
    value_tree_reset(tree);
    const sw_status status = json_tree_build(tree, &lines->json, &in, &p->record);
    if (status != SW_OK && (status != SW_FORMAT || tree->full))
        return status;
    *there = status == SW_OK && value_kind_of(p->record) == VALUE_DICT;
    if (!*there && p->line == 1)
        SW_FAIL(SW_FORMAT, "%s: not a stepwell profile: line 1 is not a JSON record", p->path);
    if (!*there && status != SW_OK) /* the message is that of parsing */
        return line->whole ? status : SW_OK;
    if (!*there && line->whole)
        return profile_damaged(p, "not a record");
    if (!*there)
        return SW_OK;
    p->type = value_text(value_at(p->record, "type"));
    return p->type != NULL ? SW_OK : profile_wrong(p, "type", "a string");
}

static sw_status take_record(profile_reading *x, const profile_position *p, sw_timeline *t)
{
    profile_end e;
    if (p->line > 1 && strcmp(p->type, "header") == 0)
        return profile_damaged(p, "a second header");
    if (x->ended)
        return profile_damaged(p, "a record after the end");
    SW_TRY(x->take(x->context, p));
    if (strcmp(p->type, "end") != 0)
        return SW_OK;
    SW_TRY(profile_read_end(p, &e, t));
    x->wall_ns = e.wall_ns;
    x->all_steps = e.steps;
    sw_utf8_clean(x->status, sizeof x->status, e.status);
    sw_utf8_clean(x->error, sizeof x->error, e.error);
    x->ended = true;
    return SW_OK;
}

static sw_status read_lines(profile_reading *x, profile_lines *lines, sw_timeline *t)
{
    for (bool there = true; there;) {
        profile_line line;
        profile_position p;
        SW_TRY(profile_lines_next(lines, &line));
        if (line.text == NULL)
            break;
        if (x->follows && !line.whole)
            return profile_lines_seek(lines, lines->at, lines->line);
        SW_TRY(profile_record(lines, &line, &p, &there));
        if (there)
            SW_TRY(take_record(x, &p, t));
        x->cut = !there;
        x->good = lines->line;
    }
    if (!x->follows && lines->line == 0)
        SW_FAIL(SW_FORMAT, "%s: the file is empty", t->path);
    return SW_OK;
}

sw_status profile_read_all(profile_reading *x, profile_lines *lines, sw_timeline *t)
{
    const sw_status status = read_lines(x, lines, t);
    if (status != SW_FORMAT || x->good == 0 || x->follows)
        return status;
    x->damaged_line = x->good + 1;
    sw_utf8_clean(x->damaged_why, sizeof x->damaged_why, sw_last_error());
    return SW_OK;
}

/* ---- timelines --------------------------------------------------------------------------- */

#define LOG_FIELDS 5 /* numbers of an event */

/* Where a run stands, the events before it included. */
typedef struct {
    uint64_t at, line, weight;
} run_position;

typedef struct {
    run_position *at; /* a ring of cap places, n of them from `first` on */
    uint32_t cap, first, n;
    uint64_t weight;
} run_list;

typedef struct {
    sw_timeline *t;
    const timeline_want *want;
    profile_lines lines;
    run_list front, back;
    uint64_t events_at, events_line; /* of the first events record before the next run */
    bool has_events, second, ended;
    sw_record *log; /* of the run that is read */
    uint32_t n_log, cap_log;
    uint64_t dropped;
} timeline_reader;

static sw_status push_run(run_list *l, run_position x)
{
    if (l->n == l->cap) {
        run_position *to;
        const uint32_t cap = l->cap == 0 ? 64 : l->cap * 2;
        SW_TRY(sw_heap_alloc(&to, SW_HEAP_PROFILE, cap * sizeof *l->at));
        for (uint32_t i = 0; i < l->n; i++)
            to[i] = l->at[(l->first + i) & (l->cap - 1)];
        sw_heap_free(l->at, SW_HEAP_PROFILE, l->cap * sizeof *l->at);
        *l = (run_list){to, cap, 0, l->n, l->weight};
    }
    l->at[(l->first + l->n++) & (l->cap - 1)] = x;
    l->weight += x.weight;
    return SW_OK;
}

static sw_status choose_run(timeline_reader *r, const profile_position *p)
{
    const uint64_t limit =
        (r->want->max_events > 0 ? r->want->max_events : TIMELINE_EVENTS) / 2;
    profile_step s;
    SW_TRY(profile_read_step(p, &s));
    const uint32_t program = profile_count_step(r->t, &s);
    bool wanted = r->want->n_steps == 0;
    for (uint32_t i = 0; i < r->want->n_steps; i++)
        wanted |= r->want->step[i] == s.step;
    if (program == SW_TL_NONE || !wanted || s.witnesses != 0) {
        r->t->skipped_runs += s.witnesses == 0;
        return SW_OK;
    }
    const sw_tl_program *x = &r->t->programs[program];
    const run_position at = {r->has_events ? r->events_at : r->lines.at,
                             r->has_events ? r->events_line : p->line,
                             2 * ((uint64_t)x->n_values + x->n_ops) + 12};
    if (r->back.n == 0 && (r->front.n == 0 || r->front.weight + at.weight <= limit))
        return push_run(&r->front, at);
    SW_TRY(push_run(&r->back, at));
    while (r->back.n > 1 && r->back.weight > limit) {
        r->back.weight -= r->back.at[r->back.first].weight;
        r->back.first = (r->back.first + 1) & (r->back.cap - 1);
        r->back.n--;
        r->t->skipped_runs++;
    }
    return SW_OK;
}

static sw_status take_events(timeline_reader *r, const profile_position *p)
{
    const value log = value_at(p->record, "log");
    const size_t n = value_count(log) / LOG_FIELDS;
    if (value_kind_of(log) != VALUE_LIST || n * LOG_FIELDS != value_count(log) ||
        n >= UINT32_MAX - r->n_log)
        return profile_wrong(p, "log", "a list of events");
    SW_TRY(sw_heap_reserve(&r->log, SW_HEAP_PROFILE, &r->cap_log, r->n_log + (uint32_t)n));
    for (size_t i = 0; i < n; i++) {
        uint64_t x[LOG_FIELDS];
        for (size_t k = 0; k < LOG_FIELDS; k++)
            if (!value_whole(value_item(log, i * LOG_FIELDS + k), &x[k]) ||
                x[k] > (k < 3 ? UINT32_MAX : UINT8_MAX))
                return profile_wrong(p, "log", "a list of events");
        r->log[r->n_log++] = (sw_record){(uint32_t)x[0], (uint32_t)x[1], (uint32_t)x[2],
                                         (uint8_t)x[3],  (uint8_t)x[4],  0};
    }
    return profile_get_u64(p, p->record, "dropped", 0, &r->dropped);
}

static sw_status take_run(timeline_reader *r, const profile_position *p)
{
    sw_tl_run *run;
    profile_step s;
    uint64_t clocked = 0;
    SW_TRY(profile_read_step(p, &s));
    SW_TRY(sw_timeline_add_run(r->t, &run));
    for (int i = 0; i < SW_PROF_PHASES; i++)
        clocked += s.phase[i].ns;
    *run = (sw_tl_run)SW_INIT(.program = profile_program_of(r->t, &s), .step = s.step,
                              .micro = s.micro, .has_loss = s.has_loss, .loss = s.loss,
                              .at_ns = s.at_ns, .ns = s.ns,
                              .clock = clocked > 0 ? SW_TL_PHASES : SW_TL_UNTIMED,
                              .peak_bytes = s.peak);
    memcpy(run->phase, s.phase, sizeof run->phase);
    const size_t n = value_count(s.clocks);
    SW_TRY(profile_check_clocks(p, &s, &r->t->programs[run->program]));
    if (n > 0) {
        uint64_t *to;
        SW_TRY(sw_timeline_alloc(r->t, &to, n, sizeof(uint64_t)));
        for (size_t i = 0; i < n; i++)
            to[i] = profile_clock(&s, i);
        run->op_ns = to;
        run->clock = SW_TL_OPS;
    }
    sw_record *log;
    if (r->n_log == 0)
        return SW_OK;
    SW_TRY(sw_timeline_alloc(r->t, &log, r->n_log, sizeof *r->log));
    memcpy(log, r->log, r->n_log * sizeof *r->log);
    run->log = log;
    run->n_log = r->n_log;
    run->dropped = r->dropped;
    return SW_OK;
}

/* The next record: the first pass takes programs and places, the second events and runs. *more
 * is false after the last, or where the file is cut. */
static sw_status read_next(timeline_reader *r, bool *more, bool *run_ended)
{
    profile_line line;
    profile_position p;
    profile_end e;
    SW_TRY(profile_lines_next(&r->lines, &line));
    *more = line.text != NULL;
    if (*more)
        SW_TRY(profile_record(&r->lines, &line, &p, more));
    if (!*more)
        return SW_OK;
    if (p.line == 1)
        return profile_take_header(r->t, &p);
    const bool step = strcmp(p.type, "step") == 0, events = strcmp(p.type, "events") == 0;
    *run_ended = step;
    if (r->second)
        return step ? take_run(r, &p) : events ? take_events(r, &p) : SW_OK;
    if (events && !r->has_events) {
        r->has_events = true;
        r->events_at = r->lines.at;
        r->events_line = p.line;
    }
    if (step) {
        SW_TRY(choose_run(r, &p));
        r->has_events = false;
    }
    if (strcmp(p.type, "plan") == 0 || strcmp(p.type, "trace") == 0)
        return profile_take_program(r->t, &p, p.type[0] == 't');
    if (strcmp(p.type, "end") != 0)
        return SW_OK;
    SW_TRY(profile_read_end(&p, &e, r->t));
    SW_TRY(sw_timeline_string(r->t, &r->t->ended, e.status));
    return sw_timeline_string(r->t, &r->t->why, e.error);
}

/* A run of which a record is damaged is none. */
static sw_status read_positions(timeline_reader *r, const run_list *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        const run_position *at = &l->at[(l->first + i) & (l->cap - 1)];
        const size_t before = r->t->n_runs;
        bool more = true, run_ended = false;
        sw_status status = profile_lines_seek(&r->lines, at->at, at->line);
        r->n_log = 0;
        r->dropped = 0;
        while (more && !run_ended && status == SW_OK)
            status = read_next(r, &more, &run_ended);
        if (status != SW_OK) {
            r->t->n_runs = before;
            return status;
        }
    }
    return SW_OK;
}

/* Damage after the header ends the reading, and the part before it stays. */
static sw_status end_at_damage(timeline_reader *r, sw_status status)
{
    char why[4608];
    if (status != SW_FORMAT || r->lines.line <= 1)
        return status;
    sw_utf8_clean(why, sizeof why, sw_last_error());
    return sw_timeline_string(r->t, &r->t->damaged, why);
}

static sw_status read_profile(sw_timeline *t, const timeline_want *want)
{
    timeline_reader r = {.t = t, .want = want};
    bool more = true, run_ended;
    SW_TRY(profile_lines_open(&r.lines, t->path));
    sw_status status = SW_OK;
    while (more && status == SW_OK)
        status = read_next(&r, &more, &run_ended);
    status = end_at_damage(&r, status);
    if (status == SW_OK && r.lines.line == 0)
        status = sw_error_set(SW_FORMAT, __FILE__, __LINE__, "%s: the file is empty", t->path);
    if (status == SW_OK) {
        r.second = true;
        status = read_positions(&r, &r.front);
        if (status == SW_OK)
            status = read_positions(&r, &r.back);
        status = end_at_damage(&r, status);
    }
    if (status == SW_OK)
        status = sw_timeline_finish(t);
    profile_lines_close(&r.lines);
    sw_heap_free(r.front.at, SW_HEAP_PROFILE, r.front.cap * sizeof *r.front.at);
    sw_heap_free(r.back.at, SW_HEAP_PROFILE, r.back.cap * sizeof *r.back.at);
    sw_heap_free(r.log, SW_HEAP_PROFILE, r.cap_log * sizeof *r.log);
    return status;
}

sw_status timeline_open(sw_timeline **out, const char *path, const timeline_want *want)
{
    static const timeline_want all = {0};
    sw_timeline *t;
    SW_TRY(sw_timeline_new(&t));
    bool foreign = false;
    sw_status status = sw_timeline_string(t, &t->path, path);
    if (status == SW_OK)
        status = snapshot_is(path, &foreign);
    if (status == SW_OK)
        status = foreign ? snapshot_read(t) : read_profile(t, want != NULL ? want : &all);
    return SW_GIVE(status, out, t, sw_timeline_free);
}
