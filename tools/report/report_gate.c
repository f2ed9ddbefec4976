/* Gates. The increase is asked for in whole bytes where it can be: 0% and sizes are exact. */
#include "tools/report/report_gate.h"
#include "tools/cli/cli.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool report_gate_asked(const report_limits *l)
{
    return l->max_peak != REPORT_NO_LIMIT || l->increase != NULL;
}

static bool read_percent(const char *text, double *out)
{
    char *end;
    /* No sign, no blank, no word such as inf, and no 0x10, which strtod reads too. */
    if (*text < '0' || *text > '9' || strpbrk(text, "xX") != NULL)
        return false;
    *out = strtod(text, &end);
    return end[0] == '%' && end[1] == '\0' && isfinite(*out);
}

int report_limits_read(report_limits *l, bool base)
{
    if (l->increase == NULL)
        return CLI_GO;
    l->relative = strchr(l->increase, '%') != NULL;
    if (l->relative ? !read_percent(l->increase, &l->percent)
                    : !cli_read_bytes(l->increase, &l->bytes))
        return cli_refuse_bytes("--fail-on-increase", "a percentage such as 0% or 2.5%, or ",
                                l->increase);
    if (!base)
        return cli_error(CLI_USAGE,
                         "--fail-on-increase needs a base: stepwell report FILE --diff BASE");
    return CLI_GO;
}

static bool over_max(const report_gate *g)
{
    return g->run.known && g->run.bytes > g->limits->max_peak;
}

static bool over_base(const report_gate *g)
{
    const report_limits *l = g->limits;
    if (l->increase == NULL || !g->run.known || !g->base.known || g->run.bytes <= g->base.bytes)
        return false;
    const uint64_t more = g->run.bytes - g->base.bytes;
    return l->relative ? (double)more * 100.0 > l->percent * (double)g->base.bytes
                       : more > l->bytes;
}

static bool unknown(const report_gate *g)
{
    return !g->run.known || (g->limits->increase != NULL && !g->base.known);
}

bool report_gate_failed(const report_gate *g)
{
    return over_max(g) || over_base(g) || unknown(g);
}

void report_gate_more(sw_json *j, const void *gate)
{
    const report_gate *g = gate;
    const report_limits *l = g->limits;
    sw_json_open(j, "gate", '{');
    sw_json_put_bool(j, "failed", report_gate_failed(g));
    sw_json_put_known(j, "peak_bytes", g->run.known, g->run.bytes);
    sw_json_put_bool(j, "measured", g->run.measured);
    if (l->max_peak != REPORT_NO_LIMIT) {
        sw_json_put_u64(j, "max_peak_bytes", l->max_peak);
        sw_json_put_bool(j, "above_max_peak", over_max(g));
    }
    if (l->increase != NULL) {
        sw_json_put_known(j, "base_peak_bytes", g->base.known, g->base.bytes);
        sw_json_put_string(j, "allowed_increase", l->increase);
        sw_json_put_bool(j, "above_increase", over_base(g));
        if (g->run.known && g->base.known)
            sw_json_put_i64(j, "increase_bytes", (int64_t)(g->run.bytes - g->base.bytes));
        sw_json_put_string(j, "grew_most", g->grew[0] != '\0' ? g->grew : NULL);
    }
    sw_json_end(j);
}

static const char *how(const report_gate_peak *p)
{
    return p->what != NULL ? p->what : p->measured ? "measured peak" : "predicted peak";
}

static double percent(const report_gate *g)
{
    return g->base.bytes == 0
               ? 0.0
               : 100.0 * ((double)g->run.bytes - (double)g->base.bytes) / (double)g->base.bytes;
}

int report_gate_judge(const report_gate *g, bool tell)
{
    const report_limits *l = g->limits;
    if (!report_gate_asked(l))
        return CLI_DONE;
    cli_flush(); /* the line comes after the report */
    if (unknown(g))
        return cli_error(CLI_FAILED,
                         "%s: it has neither a measured nor a predicted peak to be judged by",
                         g->run.known ? g->base.path : g->run.path);
    if (over_max(g))
        (void)cli_error(
            CLI_FAILED, "%s: the %s of %s bytes%s is above --max-peak %s by %s byte%s",
            g->run.path, how(&g->run), cli_digits(g->run.bytes).text, g->run.in,
            cli_digits(l->max_peak).text, cli_digits(g->run.bytes - l->max_peak).text,
            g->run.bytes - l->max_peak == 1 ? "" : "s");
    if (over_base(g))
        (void)cli_error(CLI_FAILED,
                        "%s: the %s of %s bytes%s is %s byte%s (%.2f%%) above the %s bytes of "
                        "%s, more than --fail-on-increase %s%s%s",
                        g->run.path, how(&g->run), cli_digits(g->run.bytes).text, g->run.in,
                        cli_digits(g->run.bytes - g->base.bytes).text,
                        g->run.bytes - g->base.bytes == 1 ? "" : "s", percent(g),
                        cli_digits(g->base.bytes).text, g->base.path, l->increase,
                        g->grew[0] != '\0' ? "; what grew most: " : "", g->grew);
    if (over_max(g) || over_base(g))
        return CLI_FAILED;
    if (tell) {
        if (l->max_peak != REPORT_NO_LIMIT)
            printf("gate: the %s of %s bytes%s is within --max-peak %s\n", how(&g->run),
                   cli_digits(g->run.bytes).text, g->run.in, cli_digits(l->max_peak).text);
        if (l->increase != NULL)
            printf("gate: peak %s bytes, base %s (%+.2f%%): within --fail-on-increase %s\n",
                   cli_digits(g->run.bytes).text, cli_digits(g->base.bytes).text, percent(g),
                   l->increase);
    }
    return CLI_DONE;
}
