/* Work of main around that of a program: planned failures. */
#include "alloc/base/fault.h"
#include "tools/cli/cli.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* STEPWELL_FAULT=memory:17 fails one call, file:3+ all from one on; KIND:count shows how many
 * there are. A plan that no call reached says so. For the tests of failures; see
 * alloc/base/fault.h.
 */
static int with_faults(const char *plan, int argc, char **argv,
                       int (*run)(int argc, char **argv))
{
    if (sw_fault_parse(plan) != SW_OK)
        return cli_error(CLI_USAGE, "STEPWELL_FAULT: %s", sw_last_error());
    const int status = run(argc, argv);
    const char *colon = strchr(plan, ':');
    if (colon == NULL || strcmp(colon, ":count") != 0) {
        uint64_t hits = 0;
        for (int kind = 0; kind < SW_FAULT_KINDS; kind++)
            hits += sw_fault_hits((sw_fault_kind)kind);
        if (hits == 0)
            fprintf(stderr, "fault plan %s: no call failed\n", plan);
        return status;
    }
    fputs("fault sites:", stderr);
    for (int kind = 0; kind < SW_FAULT_KINDS; kind++)
        fprintf(stderr, " %s %" PRIu64, sw_fault_kind_name((sw_fault_kind)kind),
                sw_fault_calls((sw_fault_kind)kind));
    fputc('\n', stderr);
    return status;
}

int cli_main(int argc, char **argv, int (*run)(int argc, char **argv))
{
    const char *plan = getenv("STEPWELL_FAULT");
    return plan != NULL && *plan != '\0' ? with_faults(plan, argc, argv, run) : run(argc, argv);
}
