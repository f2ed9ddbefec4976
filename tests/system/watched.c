/* See watched.h. */
#include "tests/system/watched.h"
#include "tests/support/suite.h"
#include <signal.h>
#include <time.h>

static const char *const phase_names[] = {"data", "forward", "loss", "backward", "step"};

void put_header(FILE *f, const char *created)
{
    fprintf(f,
            "{\"type\":\"header\",\"format\":\"stepwell-profile\",\"version\":1,"
            "\"model\":\"tiny\",\"device\":\"cpu\",\"data\":\"synthetic\",\"batch\":16,"
            "\"seed\":1,\"created\":\"%s\",\"command\":\"train\"}\n",
            created);
}

/* Phase i peaks at (i + 1) KiB and ends at half of it, but for step: at 0. */
static void put_phases(FILE *f, uint64_t more)
{
    fputs("\"phases\":{", f);
    for (unsigned i = 0; i < 5; i++)
        fprintf(f, "%s\"%s\":{\"peak_bytes\":%llu,\"end_bytes\":%u,\"ns\":100}",
                i > 0 ? "," : "", phase_names[i],
                (unsigned long long)((i + 1) * 1024 + (i == 3 ? more : 0)),
                i < 4 ? (i + 1) * 512 : 0);
    fputc('}', f);
}

void put_plan(FILE *f)
{
    fputs(
        "{\"type\":\"plan\",\"program\":0,\"run\":\"train\",\"batch\":16,\"model_bytes\":4096,"
        "\"arena_bytes\":8192,\"data_bytes\":1024,\"total_bytes\":13312,"
        "\"lower_bound_bytes\":8192,",
        f);
    put_phases(f, 0);
    fputs(",\"n_ops\":1,\"ops\":[\"x\"],\"values\":[]}\n", f);
}

void put_step(FILE *f, unsigned k, unsigned allocations, uint64_t more)
{
    fprintf(f,
            "{\"type\":\"step\",\"step\":%u,\"program\":0,\"run\":\"train\",\"mode\":"
            "\"planned\",\"loss\":%u,\"measured_by\":\"arena\",",
            k, 1000 - k);
    put_phases(f, more);
    fprintf(f,
            ",\"peak_bytes\":%llu,\"arena_bytes\":8192,\"model_bytes\":4096,\"host_bytes\":%u,"
            "\"process_bytes\":%u,\"allocations\":%u,\"ns\":%u,\"warm\":%s,\"at_ns\":%llu}\n",
            (unsigned long long)(5120 > 4096 + more ? 5120 : 4096 + more), 7000 + k,
            1000000 + k, allocations, STEP_NS + k * 1000, k > 1 ? "true" : "false",
            4000000ull * k);
}

void put_end(FILE *f, const char *status)
{
    fprintf(f,
            "{\"type\":\"end\",\"status\":\"%s\",\"error\":null,\"steps\":1,\"wall_ns\":1}\n",
            status);
}

FILE *open_profile(const char *path, const char *mode)
{
    FILE *f = fopen(path, mode);
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    return f;
}

void watched_rest(long ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

void watched_end(void *pid)
{
    (void)kill((pid_t)(intptr_t)pid, SIGKILL);
}
