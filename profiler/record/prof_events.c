/* Event logs in the profile's file: flat numbers, at most 4096 events a line. */
#include "profiler/record/prof_internal.h"
#include "profiler/record/record.h"

enum { LINE_EVENTS = 4096, CHUNK = 256, NUMBERS = 5 };

static void put_log(sw_json *j, const sw_record *log, size_t n)
{
    uint32_t numbers[CHUNK * NUMBERS];
    for (size_t done = 0; done < n;) {
        const size_t some = n - done < CHUNK ? n - done : CHUNK;
        for (size_t i = 0; i < some; i++) {
            const sw_record *x = &log[done + i];
            uint32_t *to = numbers + i * NUMBERS;
            to[0] = x->offset;
            to[1] = x->bytes;
            to[2] = x->id;
            to[3] = x->kind;
            to[4] = x->phase;
        }
        sw_json_u32s(j, numbers, some * NUMBERS);
        done += some;
    }
}

static void write_part(sw_profile *p, const sw_prof_step *x, uint64_t part, size_t from,
                       size_t n)
{
    sw_json *j = &p->json;
    sw_json_begin(j, '{');
    sw_json_put_string(j, "type", "events");
    swi_prof_put_program(j, x->exec, x->program, x->trace);
    sw_json_put_u64(j, "step", x->step);
    if (x->micro > 0)
        sw_json_put_u64(j, "micro", x->micro);
    sw_json_put_u64(j, "part", part);
    sw_json_put_u64(j, "dropped", x->events->dropped);
    sw_json_open(j, "log", '[');
    put_log(j, x->events->log + from, n);
    sw_json_end(j);
    sw_json_end(j);
    sw_json_line(j);
}

void swi_prof_events(sw_profile *p, const sw_prof_step *x)
{
    const size_t n = x->events->n;
    uint64_t part = 0;
    for (size_t from = 0; from < n && swi_prof_writes(p); part++) {
        const size_t some = n - from < LINE_EVENTS ? n - from : LINE_EVENTS;
        write_part(p, x, part, from, some);
        swi_prof_done(p, sw_clock_ns());
        from += some;
    }
}
