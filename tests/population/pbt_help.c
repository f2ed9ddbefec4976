/* See pbt_help.h. */
#include "tests/population/pbt_help.h"

sw_space *help_space(const char *const *texts, int n)
{
    sw_space *s = NULL;
    OK(sw_space_create(&s));
    AFTER(sw_space_destroy, s);
    for (int i = 0; i < n; i++)
        OK(sw_space_parse(s, texts[i]));
    return s;
}

sw_pbt *help_pbt(const sw_pbt_opts *opts)
{
    sw_pbt *p = NULL;
    OK(sw_pbt_create(&p, opts));
    AFTER(sw_pbt_destroy, p);
    return p;
}

double help_value(const sw_pbt *p, int member, int hyper)
{
    double x = (double)NAN;
    OK(sw_pbt_value(p, member, hyper, &x));
    return x;
}

static void add(uint64_t *sum, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++)
        *sum = (*sum ^ b[i]) * 0x100000001b3ull;
}

void help_add(const sw_pbt *p, uint64_t *sum, const sw_pbt_event *e)
{
    const int what[3] = {(int)e->what, e->member, e->donor};
    const double times[4] = {e->time, e->donor_time, e->score, e->donor_score};
    double x;
    add(sum, what, sizeof what);
    add(sum, times, sizeof times);
    add(sum, &e->number, sizeof e->number);
    for (int k = 0; sw_pbt_value(p, e->member, k, &x) == SW_OK; k++)
        add(sum, &x, sizeof x);
}

static void note(const sw_pbt *p, help_run *r, const sw_pbt_event *e)
{
    help_add(p, &r->sum, e);
    r->keeps += e->what == SW_PBT_KEEP;
    r->drops += e->what == SW_PBT_DROP;
    r->stops += e->what == SW_PBT_STOP;
    if (e->what != SW_PBT_EXPLOIT)
        return;
    r->exploits++;
    r->last = *e;
}

bool help_round(sw_pbt *p, help_run *r, help_score *score, help_event *each, void *user)
{
    int who[64], n = 0;
    double until = 0;
    OK(sw_pbt_next(p, who, 64, &n, &until));
    for (int i = 0; i < n; i++)
        OK(sw_pbt_report(p, who[i], until, score(p, who[i], until, user)));
    for (sw_pbt_event e;;) {
        e.size = sizeof e;
        if (!OK(sw_pbt_next_event(p, &e)) || e.what == SW_PBT_NONE)
            break;
        note(p, r, &e);
        if (each != NULL)
            each(p, &e, user);
    }
    r->turns++;
    r->reports += n;
    return n > 0;
}

void help_rounds(sw_pbt *p, int n, help_run *r, help_score *score, help_event *each, void *user)
{
    while (n-- > 0 && help_round(p, r, score, each, user))
        ;
}

void help_note(const sw_pbt *p, const sw_pbt_event *e, void *list)
{
    help_list *l = list;
    if (e->what != SW_PBT_EXPLOIT || l->n >= 200)
        return;
    for (int k = 0; k < 4; k++)
        (void)!sw_pbt_value(p, e->member, k, &l->now[l->n][k]);
    l->e[l->n++] = *e;
}

double help_random(const sw_pbt *p, int member, double time, void *user)
{
    sw_dice dice = {(uint64_t)member * 1000003 + (uint64_t)(time * 16)};
    return (double)sw_dice_below(&dice, 1000);
}

double help_index(const sw_pbt *p, int member, double time, void *user)
{
    return member;
}
