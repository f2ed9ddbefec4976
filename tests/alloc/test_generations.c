/* Replacing with older generations: which stay, which move, what a failure leaves. */
#include "alloc/base/file_trace.h"
#include "alloc/base/sys.h"
#include "tests/alloc/crash.h"
#include "tests/support/heap_sweep.h"
#include "tests/support/suite.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

SW_TESTS("generations")

static char path[1400];

static void begin(const char *name)
{
    saves_begin(sw_textf("generations, %s", name));
    snprintf(path, sizeof path, "%s", saves_at("x"));
}

static const char *generation(int i)
{
    char name[1420];
    CU_ASSERT(sw_generation_name(name, sizeof name, path, i));
    return sw_textf("%s", name);
}

/* The first letter of a file; '-': not there. */
static char letter(const char *name)
{
    char got = '?';
    const int fd = open(name, O_RDONLY);
    if (fd < 0)
        return '-';
    if (read(fd, &got, 1) != 1)
        got = '?';
    close(fd);
    return got;
}

/* The letters of generations 0 to 4 are these. */
static bool stands(const char *letters)
{
    char now[6] = {0};
    for (int i = 0; i < 5; i++)
        now[i] = letter(generation(i));
    return SW_CHECK(strcmp(now, letters) == 0, "%s in the place of %s", now, letters);
}

static sw_status write_letter(void *text, sw_file *file)
{
    return sw_file_write(file, text, strlen(text));
}

static sw_status save(const char *text, int keep, bool drop_old)
{
    char *copy = sw_textf("%s", text);
    return sw_file_replace_with(
        path, &(sw_replace_opts){
                  .write = write_letter, .context = copy, .keep = keep, .drop_old = drop_old});
}

/* ---- what stays -------------------------------------------------------------------------- */

static void run_moving(const char *name)
{
    begin(name);
    for (const char *text = "abcdef"; *text != '\0'; text++) {
        const char one[2] = {*text, '\0'};
        SW_CHECK(save(one, 4, false) == SW_OK, "%s", sw_last_error());
        CU_ASSERT_EQUAL(sw_last_note()[0], '\0');
    }
    CU_ASSERT(stands("fedc-") && saves_count() == 4);
    CU_ASSERT(save("g", 2, false) == SW_OK && stands("gfdc-"));
    CU_ASSERT(save("h", 1, false) == SW_OK && stands("hfdc-"));
    CU_ASSERT(save("i", 0, false) == SW_OK && stands("ifdc-"));
    CU_ASSERT(save("j", 5, false) == SW_OK && stands("jifdc"));
    CU_ASSERT_EQUAL(saves_count(), 5);
}

SW_TEST("older generations move up")
{
    saves_both_ways(run_moving, "moving");
}

/* A missing number takes what would have pushed out the oldest. */
SW_TEST("only the first missing number is filled")
{
    begin("missing");
    saves_put(path, "d");
    saves_put(generation(1), "c");
    saves_put(generation(3), "a");
    CU_ASSERT(save("e", 5, false) == SW_OK && stands("edca-"));
    CU_ASSERT_EQUAL(unlink(generation(1)), 0);
    CU_ASSERT(save("f", 5, false) == SW_OK && stands("feca-"));
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT(save("g", 5, false) == SW_OK && stands("geca-"));
}

SW_TEST("a damaged file does not become a generation")
{
    begin("damaged");
    saves_put(path, "?");
    saves_put(generation(1), "b");
    saves_put(generation(2), "a");
    CU_ASSERT(save("c", 3, true) == SW_OK && stands("cba--"));
    CU_ASSERT_EQUAL(saves_count(), 3);
}

/* A process that ended after the link left one file with two names: it is no generation more.
 */
SW_TEST("what was linked already is not kept twice")
{
    begin("twice");
    saves_put(path, "c");
    saves_put(generation(2), "b");
    CU_ASSERT_EQUAL(link(path, generation(1)), 0);
    CU_ASSERT(save("d", 3, false) == SW_OK && stands("dcb--"));
}

SW_TEST("a generation has a name")
{
    char name[8];
    CU_ASSERT(sw_generation_name(name, sizeof name, "file", 0) && strcmp(name, "file") == 0);
    CU_ASSERT(sw_generation_name(name, sizeof name, "file", 12) &&
              strcmp(name, "file.12") == 0);
    CU_ASSERT_FALSE(sw_generation_name(name, sizeof name, "file", 100));
}

/* ---- what is refused --------------------------------------------------------------------- */

static bool written;

static sw_status write_and_say(void *text, sw_file *file)
{
    written = true;
    return write_letter(text, file);
}

/* A folder at a number is found before the work of writing, and nothing moves. */
SW_TEST("a folder at a number is refused")
{
    char text[] = "d";
    begin("folder");
    saves_put(path, "c");
    saves_put(generation(1), "b");
    CU_ASSERT_EQUAL(mkdir(generation(2), 0700), 0);
    const sw_replace_opts opts = {.write = write_and_say, .context = text, .keep = 4};
    written = false;
    CU_ASSERT_EQUAL(sw_file_replace_with(path, &opts), SW_IO);
    SW_CHECK(strstr(sw_last_error(), "/x.2: is a folder") != NULL, "%s", sw_last_error());
    CU_ASSERT(!written && stands("cb?--") && saves_count() == 3);
    CU_ASSERT(save("d", 2, false) == SW_OK && stands("dc?--")); /* it is not reached */
}

/* The longest name has no generations, but can be replaced. */
SW_TEST("a name without room for a number is refused")
{
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    begin("long generations");
    snprintf(path, sizeof path, "%s/%s", saves_folder, name);
    saves_put(path, "a");
    CU_ASSERT_EQUAL(save("b", 2, false), SW_IO);
    SW_CHECK(strstr(sw_last_error(), "name too long") != NULL, "%s", sw_last_error());
    CU_ASSERT(letter(path) == 'a' && save("b", 1, false) == SW_OK && letter(path) == 'b');
    CU_ASSERT_EQUAL(saves_count(), 1);
}

static sw_status write_to_full_disk(void *unused, sw_file *file)
{
    SW_TRY(sw_file_write(file, "half", 4));
    SW_FAIL(SW_IO, "%s: No space left on device", sw_file_path(file));
}

static void run_full(const char *name)
{
    begin(name);
    saves_put(path, "c");
    saves_put(generation(1), "b");
    saves_put(generation(2), "a");
    const sw_replace_opts opts = {.write = write_to_full_disk, .keep = 3};
    CU_ASSERT_EQUAL(sw_file_replace_with(path, &opts), SW_IO);
    SW_CHECK(strstr(sw_last_error(), "/x: No space left") != NULL, "%s", sw_last_error());
    CU_ASSERT(stands("cba--") && saves_count() == 3);
}

SW_TEST("a save that cannot be written moves nothing")
{
    saves_both_ways(run_full, "full");
}

/* ---- before the names --------------------------------------------------------------- */

typedef struct {
    sw_status answer;
    int calls, written;
} in_front;

static sw_status count_write(void *context, sw_file *file)
{
    ((in_front *)context)->written++;
    return sw_file_write(file, "d", 1);
}

static sw_status look_around(void *context)
{
    in_front *its = context;
    its->calls++;
    CU_ASSERT(its->written == its->calls && stands("cba--"));
    if (its->answer != SW_OK)
        SW_FAIL(its->answer, "the log is full");
    return SW_OK;
}

static void run_before(const char *name)
{
    in_front its = {.answer = SW_BUSY};
    const sw_replace_opts opts = {count_write, look_around, &its, 3, false};
    begin(name);
    saves_put(path, "c");
    saves_put(generation(1), "b");
    saves_put(generation(2), "a");
    CU_ASSERT_EQUAL(sw_file_replace_with(path, &opts), SW_BUSY);
    CU_ASSERT(strcmp(sw_last_error(), "the log is full") == 0 && saves_count() == 3);
    its.answer = SW_OK;
    CU_ASSERT(sw_file_replace_with(path, &opts) == SW_OK && stands("dcb--"));
    CU_ASSERT(its.calls == 2 && saves_count() == 3);
}

SW_TEST("what must be durable before is called before")
{
    saves_both_ways(run_before, "before");
}

/* A pipe has no names, but what must be durable before is called there too. */
static sw_status count_call(void *calls)
{
    ++*(int *)calls;
    return SW_OK;
}

static sw_status write_any(void *unused, sw_file *file)
{
    return sw_file_write(file, "x", 1);
}

SW_TEST("a device has no generations")
{
    int calls = 0;
    const sw_replace_opts opts = {write_any, count_call, &calls, 3, false};
    CU_ASSERT_EQUAL(sw_file_replace_with("/dev/null", &opts), SW_OK);
    CU_ASSERT(calls == 1 && !sw_file_taken("/dev/null.1"));
}

/* ---- what the note says ------------------------------------------------------------------ */

SW_TEST("a network file system is noted")
{
    static const struct {
        uint32_t type;
        const char *note;
    } kinds[] = {
        {0x6969, "network file system (NFS)"},      {0x517b, "network file system (SMB)"},
        {0xfe534d42, "network file system (SMB2)"}, {0xff534d42, "network file system (CIFS)"},
        {0x01021997, "network file system (9p)"},   {0x65735546, "of a program (FUSE)"}};
    begin("network");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        sw_fault_file_system(kinds[i].type);
        CU_ASSERT_EQUAL(save("a", 2, false), SW_OK);
        SW_CHECK(strstr(sw_last_note(), "/x: saved, durability unknown: it is on a ") != NULL &&
                     strstr(sw_last_note(), kinds[i].note) != NULL,
                 "%s", sw_last_note());
    }
    sw_fault_file_system(0xef53); /* ext4 */
    CU_ASSERT(save("a", 2, false) == SW_OK && sw_last_note()[0] == '\0');
    sw_fault_file_system(0);
}

/* Without hard links PATH is still there at every moment, so the old file cannot stay. */
SW_TEST("a file system without second names is noted")
{
    begin("no links");
    saves_put(path, "c");
    sw_fault_second_names(false);
    CU_ASSERT(save("d", 3, false) == SW_OK && stands("d----") && saves_count() == 1);
    SW_CHECK(strstr(sw_last_note(), "/x: saved, but no older generation is kept") != NULL, "%s",
             sw_last_note());
    sw_fault_file_system(0x6969);
    CU_ASSERT(save("e", 3, false) == SW_OK && stands("e----"));
    SW_CHECK(strstr(sw_last_note(), "(NFS); no older generation is kept") != NULL, "%s",
             sw_last_note());
    sw_fault_file_system(0);
    sw_fault_second_names(true);
}

/* ---- failures ---------------------------------------------------------------------------- */

/* Generations c, b, a; each call of a save of d fails: c or d stands, the others are whole. */
static void check_failed(sw_fault_kind kind, sw_status status, uint64_t k)
{
    const char now = letter(path), one = letter(generation(1)), two = letter(generation(2));
    SW_CHECK(now == (status == SW_OK ? 'd' : 'c'), "call %llu leaves %c", (unsigned long long)k,
             now);
    SW_CHECK(one == 'c' || one == 'b' || one == '-', "call %llu: %c", (unsigned long long)k,
             one);
    SW_CHECK(two == 'b' || two == 'a', "call %llu: %c", (unsigned long long)k, two);
    const bool behind = strstr(sw_last_error(), ".tmp is left") != NULL;
    const int left = saves_count() - 2 - (one != '-');
    SW_CHECK(left == (status != SW_OK && behind), "call %llu: %d files are left: %s",
             (unsigned long long)k, left, sw_last_error());
    if (status == SW_OK)
        (void)stands("dcb--");
    else if (kind == SW_FAULT_FILE)
        SW_CHECK(strstr(sw_last_error(), "/x") != NULL, "%s", sw_last_error());
    else
        SW_CHECK(status == SW_NOMEM, "%s", sw_status_name(status));
}

static void put_three(void)
{
    (void)unlink(path);
    (void)unlink(generation(1));
    (void)unlink(generation(2));
    saves_put(path, "c");
    saves_put(generation(1), "b");
    saves_put(generation(2), "a");
}

static uint64_t sweep(sw_fault_kind kind, sw_fault_mode mode)
{
    sw_sites sites = {kind, mode, .any = true};
    while (sw_sites_next(&sites)) {
        put_three();
        const sw_status status = SW_AT_SITE(&sites, save("d", 3, false));
        check_failed(kind, status, sites.k);
        if (status == SW_OK)
            continue;
        SW_CHECK(save("d", 3, false) == SW_OK, "%s", sw_last_error()); /* sweeps, too */
        const char one = letter(generation(1)), two = letter(generation(2));
        CU_ASSERT(letter(path) == 'd' && one == 'c' && (two == 'b' || two == 'a'));
        CU_ASSERT_EQUAL(saves_count(), 3);
    }
    CU_ASSERT(sites.k > 1);
    return sites.failed;
}

static void run_sweep(const char *name)
{
    begin(name);
    const uint64_t once = sweep(SW_FAULT_FILE, SW_FAULT_ONCE),
                   from = sweep(SW_FAULT_FILE, SW_FAULT_FROM),
                   memory = sweep(SW_FAULT_MEMORY, SW_FAULT_ONCE);
    (void)sweep(SW_FAULT_MEMORY, SW_FAULT_FROM);
    sw_note("%s: %llu calls of files fail a save, %llu with all after them; %llu blocks", name,
            (unsigned long long)once, (unsigned long long)from, (unsigned long long)memory);
    /* looks at the name, and twice at the generations (2 each), open, mode, write, name, sync,
     * looks at the name, two renames, link */
    CU_ASSERT_EQUAL(once, 14);
    CU_ASSERT(from > once && memory > 0);
}

SW_TEST("every call can fail")
{
    saves_both_ways(run_sweep, "sweep");
}

/* ---- kills ------------------------------------------------------------------------------- */

static void end_here(void *kind, const sw_file_event *event)
{
    if (event->kind == *(const sw_file_event_kind *)kind)
        (void)raise(SIGKILL);
}

/* Ended after the name, a move, the link or the rename: whole files, and the next save sweeps.
 */
static void run_killed(const char *name)
{
    static const sw_file_event_kind kinds[] = {SW_FILE_WRITTEN, SW_FILE_SYNCED, SW_FILE_RENAMED,
                                               SW_FILE_LINKED};
    begin(name);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        sw_file_event_kind kind = kinds[i];
        put_three();
        fflush(stdout);
        const pid_t pid = fork();
        if (pid == 0) {
            sw_file_trace(end_here, &kind);
            _exit(save("d", 3, false) == SW_OK ? 1 : 2);
        }
        int status = 0;
        CU_ASSERT(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
        if (kind == SW_FILE_WRITTEN) /* what has no name goes with its process */
            CU_ASSERT_EQUAL(saves_count(), strstr(name, ", named") != NULL ? 4 : 3);
        const char now = letter(path), one = letter(generation(1)), two = letter(generation(2));
        CU_ASSERT(now == 'c' && (one == 'c' || one == 'b' || one == '-'));
        CU_ASSERT(two == 'b' || two == 'a');
        SW_CHECK(save("d", 3, false) == SW_OK, "%s", sw_last_error());
        CU_ASSERT(stands("dcb--") && saves_count() == 3);
    }
}

SW_TEST("a killed save leaves whole generations")
{
    saves_both_ways(run_killed, "killed");
}
