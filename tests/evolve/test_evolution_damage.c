/* Damaged files of a run: it goes on, from the generation before where it must, and ends with
 * the bits of a run that nothing happened to. */
#include "alloc/base/fault.h"
#include "runtime/population/evolve/evolution.h"
#include "tests/evolve/evolution_scene.h"
#include "tests/support/files.h"
#include <sys/stat.h>

SW_TESTS("evolution damage")

enum {
    BEFORE = 2,
    END = 3,   /* generations that are complete when the damage comes; the last */
    LONG = 240 /* of the folder's name: the second reason must have room, too */
};

#define FROM_OLDER "; goes on from generation 1 (generation.json.1)"

typedef struct {
    evo_data data;
    sw_exec *exec;
    sw_evolution_opts opts;
    const char *dir;
    evo_tree tree;      /* of a run that was ended after BEFORE generations */
    uint64_t sum, best; /* at its end: of all members, of the best net */
    char *history;      /* without times */
    sw_evolution *e;    /* that goes on */
} scene;

static uint64_t best_sum(sw_evolution *e)
{
    sw_net *best = NULL;
    OK(sw_net_copy(&best, e, UINT32_MAX));
    const uint64_t sum = evo_net_sum(best);
    sw_net_destroy(best);
    return sum;
}

static void end_scene(void *context)
{
    scene *s = context;
    sw_evolution_destroy(s->e);
    *s = (scene){.sum = 0};
}

static scene *new_scene(void)
{
    static scene s;
    static char dir[1024];
    sw_evolution *e = NULL;
    s = (scene){.data = evo_digits(64, 16), .exec = evo_exec(1, NULL)};
    sw_after(end_scene, &s);
    (void)snprintf(dir, sizeof dir, "%s/%0*d", evo_folder(), LONG, 0);
    CU_ASSERT_EQUAL_FATAL(mkdir(dir, 0700), 0);
    s.opts = EVO_OPTS(&s.data);
    s.opts.dir = s.dir = dir;
    OK(sw_evolution_create(&e, s.exec, &s.opts));
    evo_run(e, BEFORE);
    evo_tree_take(&s.tree, dir);
    evo_evaluate(e, END);
    s.sum = evo_sum(e);
    s.best = best_sum(e);
    s.history = evo_history(dir);
    sw_evolution_destroy(e);
    return &s;
}

/* The undamaged files are there, and an evolution that can go on. */
static void begin(scene *s)
{
    sw_evolution_destroy(s->e);
    s->e = NULL;
    evo_tree_put(&s->tree, s->dir);
    OK(sw_evolution_create(&s->e, s->exec, &s->opts));
}

/* It is found, and what was passed over is named; "" where nothing was. */
static void goes_on(scene *s, const char *named, const char *what)
{
    int found = 0;
    const sw_status status = sw_evolution_resume(s->e, &found);
    SW_CHECK(status == SW_OK && found == 1, "%s: %s", what, sw_last_error());
    SW_CHECK(*named == '\0' ? *sw_last_note() == '\0' : strstr(sw_last_note(), named) != NULL,
             "%s: '%s' names no %s", what, sw_last_note(), named);
}

static void ends_well(scene *s, const char *what)
{
    evo_evaluate(s->e, END);
    char *history = evo_history(s->dir);
    SW_CHECK(evo_sum(s->e) == s->sum && best_sum(s->e) == s->best &&
                 strcmp(history, s->history) == 0,
             "%s: the run is another one", what);
}

static const char *name_of(const scene *s, int file)
{
    return s->tree.path[file] + strlen(s->dir) + 1;
}

/* A file of the newest generation, or of the best. */
static bool is_newest(const char *name)
{
    char end[20];
    (void)snprintf(end, sizeof end, "-%d.state", BEFORE);
    return strcmp(name, "generation.json") == 0 ||
           (strncmp(name, "members/member-", 15) == 0 && strstr(name, end) != NULL);
}

/* The best's is named after the generation that it was judged in: the last that one has. */
static bool is_best(const scene *s, const char *name)
{
    int last = -1;
    for (int file = 0; file < s->tree.n; file++) {
        const char *its = name_of(s, file);
        if (strncmp(its, "members/best-", 13) == 0 && atoi(strrchr(its, '-') + 1) > last)
            last = atoi(strrchr(its, '-') + 1);
    }
    return (strncmp(name, "members/best-", 13) == 0 ||
            strncmp(name, "members/spare-", 14) == 0) &&
           atoi(strrchr(name, '-') + 1) == last;
}

static bool is_older(const scene *s, const char *name)
{
    return strncmp(name, "members/", 8) == 0 ? !is_newest(name) && !is_best(s, name)
                                             : strcmp(name, "generation.json.1") == 0;
}

/* ---- one file ---------------------------------------------------------------------------- */

typedef enum { CUT, EMPTY, GONE, LONGER, FLIPPED, DAMAGES } damage;

static void damage_file(const scene *s, int file, damage how, size_t at)
{
    const char *path = s->tree.path[file];
    const size_t n = s->tree.size[file];
    char *bytes = sw_block(n + 1);
    memcpy(bytes, s->tree.bytes[file], n);
    bytes[n] = '\n';
    bytes[at] = (char)(bytes[at] ^ (how == FLIPPED ? 1 << at % 7 : 0));
    sw_file_put(path, bytes, how == EMPTY ? 0 : how == CUT ? at : how == LONGER ? n + 1 : n);
    if (how == GONE)
        CU_ASSERT_EQUAL(remove(path), 0);
}

/* Each file that a generation needs, damaged in each way: it is named, and the run ends as if
 * nothing had happened. No one looks at what only the generation before needs. */
SW_TEST("each file may be damaged")
{
    scene *s = new_scene();
    int newest = 0, best = 0, older = 0;
    for (int file = 0; file < s->tree.n; file++) {
        const char *name = name_of(s, file);
        const bool named = is_newest(name) || is_best(s, name);
        newest += is_newest(name);
        best += is_best(s, name);
        older += is_older(s, name);
        if (!named && !is_older(s, name))
            continue;
        for (int how = 0; how < DAMAGES; how++) {
            if (!sw_tests_full() && (file + how) % 3 > 0 && name[0] == 'm')
                continue;
            begin(s);
            damage_file(s, file, (damage)how, s->tree.size[file] / 3);
            goes_on(s, named ? name : "", name);
            SW_CHECK(is_newest(name) == (strstr(sw_last_note(), FROM_OLDER) != NULL), "%s: %s",
                     name, sw_last_note());
            ends_well(s, name);
        }
    }
    SW_CHECK(newest == 7 && best >= 2 && older >= 7, "%d, %d and %d files", newest, best,
             older);
}

/* Every byte counts: of the file of a generation, of a state, of both copies of the best's. */
SW_TEST("each byte may be damaged")
{
    scene *s = new_scene();
    size_t looked = 0;
    for (int file = 0; file < s->tree.n; file++) {
        const char *name = name_of(s, file);
        const size_t n = s->tree.size[file];
        const size_t step = sw_tests_full() ? (*name == 'g' ? 1 : 40) : n / 6;
        if (!is_newest(name) && !is_best(s, name))
            continue;
        begin(s);
        for (size_t at = 0; at < n; at += at + 1 == n || at + step < n ? step : n - 1 - at) {
            damage_file(s, file, FLIPPED, at);
            goes_on(s, name, name);
            looked++;
        }
        damage_file(s, file, CUT, n - 1);
        goes_on(s, name, name);
        ends_well(s, name);
    }
    CU_ASSERT(looked > 50);
}

/* ---- more than one ----------------------------------------------------------------------- */

/* A run that went on from the generation before has two whole ones again: the damaged file does
 * not take the place of that one. */
SW_TEST("damage may come again")
{
    scene *s = new_scene();
    char newest[1100];
    (void)snprintf(newest, sizeof newest, "%s/generation.json", s->dir);
    begin(s);
    for (int again = 0; again < 3; again++) {
        sw_file_put(newest, "x", 1);
        goes_on(s, "generation.json", "again");
        evo_run(s->e, BEFORE);
        sw_evolution_destroy(s->e);
        s->e = NULL;
        OK(sw_evolution_create(&s->e, s->exec, &s->opts));
    }
    sw_file_put(newest, "x", 1);
    goes_on(s, "generation.json", "again");
    ends_well(s, "again");
}

/* Both are named, and the evolution can begin anew. */
SW_TEST("two damaged generations are refused")
{
    scene *s = new_scene();
    int found = 7;
    begin(s);
    for (int file = 0; file < s->tree.n; file++)
        if (strncmp(name_of(s, file), "generation.json", 15) == 0)
            damage_file(s, file, FLIPPED, 100);
    REFUSED(sw_evolution_resume(s->e, &found), SW_FORMAT,
            "/generation.json is damaged: it is not what was written; generation.json.1 is "
            "damaged: it is not what was written");
    CU_ASSERT_EQUAL(found, 7);
    evo_tree_put(&s->tree, s->dir);
    for (int file = 0; file < s->tree.n; file++)
        if (strstr(name_of(s, file), "members/best-") != NULL ||
            strstr(name_of(s, file), "members/spare-") != NULL)
            damage_file(s, file, FLIPPED, s->tree.size[file] - 1);
    REFUSED(sw_evolution_resume(s->e, &found), SW_FORMAT, ".state is damaged");
    ends_well(s, "begun anew");
}

/* The folder of an earlier version is refused by name: its sum left out a byte more. */
SW_TEST("another format is named")
{
    scene *s = new_scene();
    char path[1100], digits[24];
    size_t n;
    int found = 7;
    begin(s);
    (void)snprintf(path, sizeof path, "%s/generation.json.1", s->dir);
    CU_ASSERT_EQUAL(remove(path), 0);
    (void)snprintf(path, sizeof path, "%s/generation.json", s->dir);
    char *text = evo_read(path, &n);
    char *format = strstr(text, "stepwell evolution 3"), *sum = strstr(text + n - 29, "0x");
    CU_ASSERT_FATAL(format != NULL && sum != NULL);
    format[19] = '1';
    (void)snprintf(digits, sizeof digits, "%016llx",
                   (unsigned long long)swi_sum_of(text, n - 30, 0));
    memcpy(sum + 2, digits, 16);
    sw_file_put(path, text, n);
    REFUSED(sw_evolution_resume(s->e, &found), SW_FORMAT, "stepwell evolution 1");
    CU_ASSERT_EQUAL(found, 7);
}

/* No run needs it to go on: what is lost of it is said, what is not is there after it. */
SW_TEST("a damaged history ends no run")
{
    scene *s = new_scene();
    int file = 0;
    while (strcmp(name_of(s, file), "history.jsonl") != 0)
        file++;
    const size_t n = s->tree.size[file];
    static const struct {
        damage how;
        int part; /* of four */
        size_t lines;
    } damages[] = {{FLIPPED, 1, 6 * 4},
                   {FLIPPED, 4, 6 * 4},
                   {CUT, 2, 6 * 3},
                   {EMPTY, 2, 6 * 2},
                   {GONE, 2, 6 * 2}};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        char what[40];
        size_t size, lines = 0;
        begin(s);
        damage_file(s, file, damages[i].how, n * (size_t)damages[i].part / 4 - 1);
        (void)snprintf(what, sizeof what, "history %zu", i);
        goes_on(s, damages[i].how == FLIPPED ? "" : "history.jsonl", what);
        evo_evaluate(s->e, END);
        SW_CHECK(evo_sum(s->e) == s->sum && best_sum(s->e) == s->best, "%s", what);
        char *text = evo_read(s->tree.path[file], &size);
        for (const char *x = text; (x = strchr(x, '\n')) != NULL; x++)
            lines++;
        SW_CHECK(lines + 1 >= damages[i].lines && lines <= 6 * 4 && text[size - 1] == '\n',
                 "%s: %d lines", what, (int)lines);
    }
}
