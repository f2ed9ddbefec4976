/* The program `stepwell`: one command per file. Asked for its version or its help it does
 * nothing but print. */
#include "alloc/base/mem.h"
#include "tools/cli/cli.h"
#include "kernels/dispatch.h"
#include <string.h>

static const cli_tool tools[] = {
    {"train", tool_train, "train a network from planned memory"},
    {"pbt", tool_pbt, "train a population of networks that learn from each other"},
    {"es", tool_es, "train a network by evolution strategies, in the memory of inference"},
    {"evolve", tool_evolve, "evolve architectures under a memory budget"},
    {"plan", tool_plan, "peak and end bytes of every phase, without tensor memory"},
    {"eval", tool_eval, "how good trained parameters are: accuracy, confusion, each class"},
    {"predict", tool_predict, "predictions of trained parameters for each sample"},
    {"report", tool_report, "read a profile that train wrote"},
    {"bench", tool_bench, "pauses, cost of recording, speed"},
    {"place", tool_place, "solve one placement problem"},
    {"sample", tool_sample, "text from a trained gpt"},
    {"tokens", tool_tokens, "which tokens a text or conversation becomes"},
    {"info", tool_info, "what a file is and what it has: parameters, profiles, arrays"},
    {"top", tool_top, "watch a running training"},
};
enum { N_TOOLS = sizeof tools / sizeof *tools };

#if SW_HAVE_ZLIB
#define COMPRESSED "zlib"
#else
#define COMPRESSED "not built in"
#endif

static void print_usage(FILE *to)
{
    fputs("usage: stepwell COMMAND [options]\n\n"
          "Trains neural networks from planned memory: the peak of every phase is known\n"
          "before a byte is allocated, and what is measured equals it.\n\n",
          to);
    for (int i = 0; i < N_TOOLS; i++)
        fprintf(to, "  %-8s %s\n", tools[i].name, tools[i].about);
    fputs("  help     the options of a command, its manual page; completions for bash\n\n"
          "  --help after a command lists its options\n  --version [--verbose]\n",
          to);
}

static int unknown(const char *name)
{
    const bool option = name[0] == '-';
    const char *near = cli_nearest(name, tools, sizeof *tools, N_TOOLS);
    if (option &&
        cli_nearest(name, (const char *const[]){"--version"}, sizeof(char *), 1) != NULL)
        near = "--version";
    if (near != NULL)
        return cli_error(CLI_USAGE, "unknown %s '%s'; did you mean %s?",
                         option ? "option" : "command", name, near);
    return cli_error(CLI_USAGE, "unknown %s '%s'; see stepwell --help",
                     option ? "option" : "command", name);
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* `help NAME` is `NAME --help`. */
static int help_of(const char *name)
{
    char word[32], option[] = "--help";
    char *argv[] = {word, option, NULL};
    snprintf(word, sizeof word, "%s", name);
    for (int i = 0; i < N_TOOLS; i++)
        if (strcmp(tools[i].name, name) == 0)
            return tools[i].run(2, argv);
    return strcmp(name, "help") == 0 ? tool_help(tools, N_TOOLS, 2, argv, &(const char *){NULL})
                                     : unknown(name);
}

static int help(int argc, char **argv)
{
    const char *name = NULL;
    const int status = tool_help(tools, N_TOOLS, argc, argv, &name);
    if (status != CLI_GO)
        return status;
    if (name != NULL)
        return help_of(name);
    print_usage(stdout);
    return cli_finish(CLI_DONE);
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    const bool version = strcmp(name, "--version") == 0;
    const bool verbose = version && argc > 2 && strcmp(argv[2], "--verbose") == 0;
    if ((version || is_help(name)) && argc > 2 + verbose)
        return cli_error(CLI_USAGE, "'%s' is one argument too many after %s", argv[2 + verbose],
                         name);
    if (version) {
        printf("stepwell %s\nheap: %s; compressed data: %s; checksums: xxhash\n", sw_version(),
               sw_heap_backend(), COMPRESSED);
        const int bf16 = sw_cpu_bf16();
        if (verbose)
            printf("CUDA module: " SW_CUDA_MODULE
                   "\ninstruction set: %s\nproducts in bf16: pair by "
                   "%s, tile by %s\n",
                   sw_isa_best(),
                   (bf16 & SW_BF16_DOT_PAYS) != 0 ? "VDPBF16PS"
                   : (bf16 & SW_BF16_DOT) != 0    ? "FMA (VDPBF16PS is there, and slower)"
                                                  : "FMA",
                   (bf16 & SW_BF16_AMX) != 0 ? "AMX" : "FMA");
        return cli_finish(CLI_DONE);
    }
    if (strcmp(name, "help") == 0)
        return help(argc - 1, argv + 1);
    if (is_help(name)) {
        print_usage(stdout);
        return cli_finish(CLI_DONE);
    }
    for (int i = 0; i < N_TOOLS; i++)
        if (strcmp(tools[i].name, name) == 0)
            return tools[i].run(argc - 1, argv + 1);
    return unknown(name);
}

int main(int argc, char **argv)
{
    return cli_main(argc, argv, dispatch);
}
