/* NULL for each pointer of each public function, and zeros for each handle and each struct that
 * is given by value: an error by name, and no crash where it is allowed (`OPTIONAL` in
 * generate.py). Functions of a step function are called in one, planned and immediate. */
#define SW_NULLS
#include "alloc/base/error.h"
#include "tests/callbacks/fixture.h"
#include "callbacks_functions.h"
#include "tests/support/suite.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

SW_TESTS("null")

enum { N_NULLS = sizeof nulls / sizeof *nulls };

/* A child writes it: how far it came, and which calls were not refused. */
static struct progress {
    volatile size_t at;
    volatile bool accepted[N_NULLS];
} * seen;

typedef struct {
    fixture *f;
    const null_row *of;
    bool refused;
} calling;

static bool is_refused(const null_row *of, fixture *f)
{
    const uint64_t said = sw_error_count();
    const int status = of->call(f);
    /* Functions that nothing does any more are SW_UNSUPPORTED. */
    return status >= 0 ? status == SW_INVALID || status == SW_UNSUPPORTED
                       : sw_error_count() != said;
}

/* The message has the function's name, the model's, or NULL. */
static bool is_named(const null_row *of)
{
    const char *text = sw_last_error();
    const size_t n = strlen(of->name) - (strstr(of->name, "_with") != NULL ? 5 : 0);
    return strncmp(text, of->name, n) == 0 || strstr(text, of->name) != NULL ||
           strstr(text, "NULL") != NULL || strncmp(text, "model ", 6) == 0;
}

static void step(sw_ctx *ctx, void *user)
{
    calling *c = user;
    c->f->ctx = ctx;
    c->f->value = sw_rand(ctx, "x", SW_SHAPE(2, 2));
    c->refused = is_refused(c->of, c->f);
    c->f->ctx = NULL;
}

/* An error of a ctx stays in it; a call with ctx NULL leaves it without one. */
static bool is_refused_in_a_step(const null_row *of, fixture *f)
{
    calling c = {f, of, false};
    const bool sticks = strcmp(of->parameter, "ctx") != 0;
    bool refused = true;
    for (int immediate = 0; immediate < 2; immediate++) {
        const sw_status status = sw_run(f->exec, &SW_OPTS(sw_run_args, .fn = step, .user = &c,
                                                          .immediate = immediate,
                                                          .variant = (uint64_t)(of - nulls)));
        refused &= sticks ? status != SW_OK && sw_last_error()[0] != '\0' : status == SW_OK;
    }
    return refused && (sticks || c.refused);
}

static void call_from(size_t from)
{
    static fixture f;
    f = (fixture){.type = "", .threads = 1};
    if (!fixture_make(&f, ~0u))
        _exit(1);
    for (seen->at = from; seen->at < N_NULLS; seen->at++) {
        const null_row *of = &nulls[seen->at];
        for (int i = 0; i < 8; i++)
            (void)room(0);
        const bool refused = of->of & CTX
                                 ? is_refused_in_a_step(of, &f)
                                 : is_refused(of, &f) && is_named(of) && rooms_are_empty();
        seen->accepted[seen->at] = !refused && !of->allowed;
    }
    _exit(0);
}

SW_TEST("NULL for any pointer of any function is an error")
{
    int how;
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(seen != MAP_FAILED);
    fflush(NULL);
    (void)sw_temp_path(""); /* a folder that the child makes would stay */
    for (size_t from = 0; from < N_NULLS; from = seen->at + 1) {
        const pid_t child = fork();
        if (child == 0)
            call_from(from);
        CU_ASSERT_EQUAL(waitpid(child, &how, 0), child);
        if (!SW_CHECK(!WIFEXITED(how) || WEXITSTATUS(how) == 0, "no fixture"))
            break;
        if (seen->at < N_NULLS)
            SW_CHECK(false, "%s crashes: %s is NULL", nulls[seen->at].name,
                     nulls[seen->at].parameter);
    }
    for (size_t k = 0; k < N_NULLS; k++)
        SW_CHECK(!seen->accepted[k], "%s: %s is NULL, and not refused by name", nulls[k].name,
                 nulls[k].parameter);
    sw_note("%d calls", N_NULLS);
    munmap(seen, sizeof *seen);
}
