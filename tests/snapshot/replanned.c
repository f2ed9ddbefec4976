/* See replanned.h. */
#include "tests/snapshot/replanned.h"
#include "tests/snapshot/files.h"
#include "tests/support/process.h"
#include "tests/support/suite.h"
#include <stdarg.h>

sw_status replanned(replan *r, const char *path)
{
    snapshot_file f;
    snapshot_trace t = {0};
    *r = (replan){0};
    sw_status status = snapshot_file_open(&f, path);
    if (status == SW_OK)
        status = snapshot_trace_read(&t, &f, 0);
    snapshot_file_close(&f);
    if (status == SW_OK)
        status = replan_make(r, &t, NULL, NULL);
    snapshot_trace_free(&t);
    if (status != SW_OK)
        replan_free(r);
    return status;
}

static void end(void *r)
{
    replan_free(r);
}

const replan *planned(const char *path)
{
    replan *r = sw_block(sizeof *r);
    const sw_status status = replanned(r, path);
    SW_CHECK(status == SW_OK, "%s", sw_last_error());
    CU_ASSERT_EQUAL_FATAL(status, SW_OK);
    sw_after(end, r);
    return r;
}

const char *put_json(const char *name, const char *json)
{
    char *text = sw_textf("%s", json);
    for (char *c = text; (c = strchr(c, '\'')) != NULL;)
        *c = '"';
    return put_file(name, text, strlen(text));
}

const replan *planned_json(const char *json)
{
    return planned(put_json("made.json", json));
}

const char *made_events(const char *events)
{
    char action[32];
    unsigned long long address, bytes;
    const char *all = "";
    for (int at = 0; sscanf(events, " %31s %llu %llu%n", action, &address, &bytes, &at) == 3;) {
        events += at + strspn(events + at, " ");
        const size_t more = strcspn(events, ";");
        all = sw_textf("%s%s{'action':'%s','addr':%llu,'size':%llu,'stream':0%s%.*s}", all,
                       *all != '\0' ? "," : "", action, address, bytes, more > 0 ? "," : "",
                       (int)more, events);
        events += more + (events[more] == ';');
    }
    return all;
}

static void append(void *context, const char *bytes, size_t n)
{
    sw_sink_bytes(&((sink_bytes *)context)->out, bytes, n);
}

const char *planned_text(const replan *r)
{
    sink_bytes out;
    sink_open(&out);
    const sw_writer to = {.put = append, .context = &out};
    const report_style style = {.to = &to};
    sw_json j;
    replan_print_text(r, &style);
    sw_json_growing(&j, SW_HEAP_PROFILE);
    sw_json_begin(&j, '{');
    replan_put_json(&j, r);
    sw_json_end(&j);
    sw_json_begin(&j, '{');
    replan_put_offsets(&j, r);
    sw_json_end(&j);
    CU_ASSERT_EQUAL(j.status, SW_OK);
    append(&out, j.bytes, j.used);
    append(&out, "", 1);
    sw_json_free(&j);
    CU_ASSERT_EQUAL(sw_sink_flush(&out.out), SW_OK);
    sw_after(free, out.bytes);
    return out.bytes;
}

void plain_train(plain_allocator *p, const plain_training *t)
{
    uint64_t *kept = calloc((size_t)t->layers, sizeof *kept);
    CU_ASSERT_PTR_NOT_NULL_FATAL(kept);
    for (int i = 0; i < 2 * t->layers; i++)
        (void)plain_malloc(p, 0, t->weight, 1);
    for (int step = 0; step < t->steps; step++) {
        uint64_t warm = 0;
        for (int i = 0; i < t->layers; i++) {
            if (step == 0 && t->warm > 0 && i == t->layers / 2)
                warm = plain_malloc(p, 0, t->warm, 2);
            kept[i] =
                plain_malloc(p, 0, t->activation + 512 * (uint64_t)(i % 7), 3 + i % t->frames);
            plain_free(p, plain_malloc(p, 0, 2000, 3 + i % t->frames), false);
        }
        for (int i = t->layers - 1; i >= 0; i--) {
            const uint64_t gradient = plain_malloc(p, 0, t->weight, 3 + t->frames);
            plain_free(p, kept[i], false);
            plain_free(p, gradient, false);
        }
        if (warm != 0)
            plain_free(p, warm, false);
    }
    free(kept);
}

int replan_command(const char *format, ...)
{
    char words[6000];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return sw_shell("'%s/tools/stepwell' report %s > '%s' 2>&1", sw_build_root(), words,
                    sw_temp_path("said.txt"));
}

bool replan_said(const char *pattern)
{
    return sw_shell("grep -q -- '%s' '%s'", pattern, sw_temp_path("said.txt")) == 0;
}
