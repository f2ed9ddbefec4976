/* Options with a value that may be left out, and how often something happens: the parser, the
 * help and the pages. */
#include "tests/support/suite.h"
#include "tools/cli/cli_page.h"
#include <fcntl.h>
#include <unistd.h>

SW_TESTS("options")

static struct {
    const char *resume, *word, *operand;
    cli_every every;
    bool json;
} o;

static int operands; /* that the command takes */

/* Parse the words, which blanks divide; messages go to a file. */
static int parse(const char *words)
{
    static char text[512];
    static char *argv[16];
    const cli_option table[] = {
        {"--resume", "FILE", CLI_OPTIONAL, &o.resume, NULL, "go on", 0, 0, NULL},
        {"--every", "N|Ns", CLI_EVERY, &o.every, "10m", "how often", 0, 0, NULL},
        {"--word", "TEXT", CLI_WORD, &o.word, NULL, "a word", 0, 0, NULL},
        {"--json", NULL, CLI_FLAG, &o.json, NULL, "as JSON", 0, 0, NULL},
        {"--fills-all-the-column", "N|Ns", CLI_EVERY, &o.every, NULL, "no room", 0, 0, NULL},
    };
    const cli_command command =
        SW_INIT(.name = "demo", .usage = "[options]", .about = "Show what options do.",
                .options = table, .n_options = 5, .operand = &o.operand,
                .max_operands = operands);
    int argc = 0;
    memset(&o, 0, sizeof o);
    snprintf(text, sizeof text, "demo %s", words);
    for (char *word = strtok(text, " "); word != NULL && argc < 15; word = strtok(NULL, " "))
        argv[argc++] = word;
    argv[argc] = NULL;
    fflush(stderr);
    const int kept = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)dup2(null, STDERR_FILENO);
    const int status = cli_parse(&command, argc, argv);
    fflush(stderr);
    (void)dup2(kept, STDERR_FILENO);
    close(kept);
    close(null);
    return status;
}

static bool same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

SW_TEST("a value can be left out")
{
    static const struct {
        const char *words, *resume, *operand;
        bool json;
    } cases[] = {
        {"", NULL, NULL, false},
        {"--resume", "", NULL, false},
        {"--resume=old", "old", NULL, false},
        {"--resume old", "old", NULL, false},
        {"--resume --json", "", NULL, true},
        {"--json --resume", "", NULL, true},
        {"--resume old --json", "old", NULL, true},
        {"--resume=-old", "-old", NULL, false},
        {"--resume=--json", "--json", NULL, false},
        {"--resume=a=b", "a=b", NULL, false},
        {"--resume -- old", "", "old", false},
        {"--resume -", "", "-", false},
        {"--resume old new", "old", "new", false},
        {"new --resume", "", "new", false},
        {"--resume one --resume", "", NULL, false},
        {"--resume --resume two", "two", NULL, false},
    };
    operands = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int status = parse(cases[i].words);
        SW_CHECK(status == CLI_GO, "%s: status %d: %s", cases[i].words, status,
                 cli_last_line());
        SW_CHECK(same(o.resume, cases[i].resume) && same(o.operand, cases[i].operand) &&
                     o.json == cases[i].json,
                 "%s: '%s', operand '%s'", cases[i].words, o.resume != NULL ? o.resume : "NULL",
                 o.operand != NULL ? o.operand : "NULL");
    }
    CU_ASSERT_EQUAL(parse("--word --resume"), CLI_USAGE); /* is no value of another option */
    CU_ASSERT_EQUAL(parse("--resume="), CLI_USAGE);
    CU_ASSERT_PTR_NOT_NULL(strstr(cli_last_line(), "--resume= needs a value: FILE; or give "
                                                   "--resume alone"));
}

SW_TEST("steps and times are read")
{
    static const struct {
        const char *text;
        uint64_t steps, ns;
    } cases[] = {
        {"1", 1, 0},
        {"100", 100, 0},
        {"0100", 100, 0},
        {"9223372036854775807", 9223372036854775807u, 0},
        {"1s", 0, 1000000000u},
        {"30s", 0, 30000000000u},
        {"10m", 0, 600000000000u},
        {"2h", 0, 7200000000000u},
        {"1.5m", 0, 90000000000u},
        {"0.25h", 0, 900000000000u},
        {"0.001s", 0, 1000000u},
    };
    operands = 0;
    CU_ASSERT_EQUAL(parse(""), CLI_GO);
    CU_ASSERT(o.every.steps == 0 && o.every.ns == 600000000000u); /* the default, 10m */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *words = sw_textf("--every %s", cases[i].text);
        SW_CHECK(parse(words) == CLI_GO && o.every.steps == cases[i].steps &&
                     o.every.ns == cases[i].ns,
                 "%s: %llu steps, %llu ns: %s", words, (unsigned long long)o.every.steps,
                 (unsigned long long)o.every.ns, cli_last_line());
    }
}

SW_TEST("what is no step and no time is refused")
{
    static const char *const texts[] =
        SW_INIT("0", "0s", "0.0m", "-1", "+5", "1.5", "s", "m", "10M", "10ms", "10sm", "1,0",
                "0x10s", "0x10", "nans", "infs", "1e3", ".s", "5d", "1e300h", "100,", "1s2",
                "-3s", "1..5s", "0.0000000001s", "9223372036854775808", "600000000h");
    operands = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *words = sw_textf("--every=%s", texts[i]);
        const int status = parse(words);
        SW_CHECK(status == CLI_USAGE && strstr(cli_last_line(), "above 0 (got '") != NULL &&
                     strstr(cli_last_line(), texts[i]) != NULL,
                 "%s: status %d: %s", words, status, cli_last_line());
    }
    CU_ASSERT_EQUAL(parse("--every=5d"), CLI_USAGE);
    CU_ASSERT_PTR_NOT_NULL(strstr(cli_last_line(), "--every must be steps such as 100, or a "
                                                   "time such as 30s, 10m or 1.5h"));
    CU_ASSERT_EQUAL(parse("--every"), CLI_USAGE);
    CU_ASSERT_PTR_NOT_NULL(strstr(cli_last_line(), "--every needs a value: N|Ns"));
}

/* ---- pages ------------------------------------------------------------------------------- */

/* The text of that page of --help. */
static const char *page_of(cli_page page)
{
    static char text[8192];
    const char *path = sw_temp_path("page");
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO),
              file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    (void)dup2(file, STDOUT_FILENO);
    cli_set_page(page);
    const int status = parse("--help");
    cli_set_page(CLI_PAGE_HELP);
    fflush(stdout);
    (void)dup2(kept, STDOUT_FILENO);
    close(kept);
    close(file);
    CU_ASSERT_EQUAL(status, CLI_DONE);
    FILE *f = fopen(path, "r");
    const size_t n = f != NULL ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = '\0';
    if (f != NULL)
        fclose(f);
    return text;
}

SW_TEST("pages say that the value may be left out")
{
    static const struct {
        cli_page page;
        const char *says;
    } cases[] = {
        {CLI_PAGE_HELP, "  --resume [FILE]          go on\n"},
        {CLI_PAGE_HELP, "  --every N|Ns             how often (default 10m)\n"},
        {CLI_PAGE_HELP, "  --fills-all-the-column N|Ns\n                           no room\n"},
        {CLI_PAGE_MAN, "\\fB\\-\\-resume\\fR [\\fIFILE\\fR]\n"},
        {CLI_PAGE_MAN, "\\fB\\-\\-every\\fR \\fIN|Ns\\fR\n"},
        {CLI_PAGE_BASH, "--resume) words='--resume --every --word --json "
                        "--fills-all-the-column --help' files=1 ;;\n"},
    };
    operands = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = page_of(cases[i].page);
        SW_CHECK(strstr(text, cases[i].says) != NULL, "%s is not in: %.400s", cases[i].says,
                 text);
    }
}

/* After --resume a name is completed, or an option where a dash begins it. */
SW_TEST("an option may follow in bash")
{
    const char *script = sw_temp_path("completion");
    if (system("bash -c 'type compgen' >/dev/null 2>&1") != 0)
        SW_SKIP("there is no bash");
    const char *const lines = page_of(CLI_PAGE_BASH);
    const char *at = strchr(lines, '\n');
    FILE *f = fopen(script, "w");
    CU_ASSERT_FATAL(f != NULL && at != NULL);
    fprintf(f,
            "now=$1 before=--resume words= files=\ncase demo in\n    'demo')%s    esac\n"
            "case $files$now in\n1-*) compgen -W \"$words\" -- \"$now\" ;;\n1*) echo a file "
            ";;\nesac\n",
            at);
    fclose(f);
    CU_ASSERT_EQUAL(system(sw_textf("test \"$(bash '%s' --j)\" = --json", script)), 0);
    CU_ASSERT_EQUAL(system(sw_textf("test \"$(bash '%s' '')\" = 'a file'", script)), 0);
}

/* As messages write them, so that a number of bytes can be taken from one. */
SW_TEST("sizes may have separators")
{
    static const struct {
        const char *text;
        size_t bytes; /* 0: none */
    } sizes[] =
        SW_INIT({"4096", 4096}, {"1,234,567", 1234567}, {"1,024KiB", 1048576},
                {"12,345B", 12345}, {"1,234.5KiB", 1264128}, {"0.5MiB", 524288}, {"1,23", 0},
                {"12,34,567", 0}, {",123", 0}, {"1,,234", 0}, {"1,2345", 0}, {"1234,567", 0},
                {"1,234,", 0}, {"4MB", 0}, {"4mib", 0}, {"4 MiB", 0}, {"0x10", 0}, {"", 0},
                {"1.5", 0}, {"8000000TiB", 8796093022208000000u}, {"9000000TiB", 0});
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = 0;
        const bool good = cli_read_bytes(sizes[i].text, &bytes);
        SW_CHECK(good == (sizes[i].bytes > 0) && bytes == sizes[i].bytes, "%s: %zu",
                 sizes[i].text, bytes);
    }
}

/* ---- options and each other -------------------------------------------------------------- */

static int parse_columns(const char *words)
{
    static char text[256];
    static const char *word, *file, *kind, *other;
    static bool alone;
    char *argv[12] = {text};
    int argc = 1;
    const cli_option table[] = {
        {"--kind", "WORD", CLI_WORD, &kind, "plain", "a kind", 0, 0, NULL},
        {"--word", "TEXT", CLI_WORD, &word, "a", "a word", .with = "--file"},
        {"--file", "FILE", CLI_WORD, &file, NULL, "a file", .excludes = "--none --alone"},
        {"--other", "TEXT", CLI_WORD, &other, NULL, "another", .with = "--kind odd or strange"},
        {"--far", "TEXT", CLI_WORD, &other, NULL, "as in other commands", .with = "--missing"},
        {"--alone", NULL, CLI_FLAG, &alone, NULL, "alone", 0, 0, NULL}};
    const cli_command command = {
        .name = "demo", .usage = "", .about = "", .options = table, .n_options = 6};
    word = file = kind = other = NULL;
    snprintf(text, sizeof text, "demo %s", words);
    strtok(text, " ");
    for (char *at; argc < 12 && (at = strtok(NULL, " ")) != NULL;)
        argv[argc++] = at;
    return cli_parse(&command, argc, argv);
}

/* "with" asks for an option or for one of its values, which may go on; "excludes" for none. */
SW_TEST("columns say what goes together")
{
    static const struct {
        const char *words, *says; /* NULL: it goes together */
    } cases[] = {
        {"", NULL},
        {"--word b", "--word has no effect without --file"},
        {"--word a", NULL}, /* the default one */
        {"--word b --word a", NULL},
        {"--word b --file f", NULL},
        {"--file f --word=b", NULL},
        {"--other x", "--other has no effect without --kind odd or strange"},
        {"--other x --kind even", "--other has no effect without --kind odd or strange"},
        {"--other x --kind odd", NULL},
        {"--other x --kind odd:3", NULL},
        {"--other x --kind strange", NULL},
        {"--far x", NULL}, /* this command has no such option */
        {"--file f --alone", "--file and --alone exclude each other"},
        {"--alone", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int status = parse_columns(cases[i].words);
        SW_CHECK(cases[i].says == NULL
                     ? status == CLI_GO
                     : status == CLI_USAGE && strstr(cli_last_line(), cases[i].says) != NULL,
                 "'%s': %d, %s", cases[i].words, status, cli_last_line());
    }
    (void)parse_columns("--word a --kind odd --file f");
    CU_ASSERT_PTR_NULL(cli_given("--word --alone"));
    CU_ASSERT_STRING_EQUAL(cli_given("--alone --file --kind"), "--file");
    (void)parse_columns("");
    CU_ASSERT_PTR_NULL(cli_given("--file --kind")); /* of the last command line alone */
}

SW_TEST("a command line is cut between words")
{
    char to[24];
    char *argv[] = {"pbt", "--members", "3", "--long-one", "x"};
    cli_command_line(to, sizeof to, 5, argv);
    CU_ASSERT_STRING_EQUAL(to, "stepwell pbt --members");
}
