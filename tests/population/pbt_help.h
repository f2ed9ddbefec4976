/* Spaces and populations for tests, which end with the test, and runs of them. */
#ifndef SW_TESTS_PBT_HELP_H
#define SW_TESTS_PBT_HELP_H

#include "tests/runtime/nets.h"

sw_space *help_space(const char *const *texts, int n);
sw_pbt *help_pbt(const sw_pbt_opts *opts);

/* The record of a run: a sum of all events and of all values after each exploit, and counts. */
typedef struct {
    uint64_t sum;
    int exploits, keeps, drops, stops, turns, reports;
    sw_pbt_event last; /* exploit */
} help_run;

/* An event and the values of its member, as a part of the sum. */
void help_add(const sw_pbt *pbt, uint64_t *sum, const sw_pbt_event *event);
/* The score of a member at a time. */
typedef double help_score(const sw_pbt *pbt, int member, double time, void *user);

/* One round: ask who runs next, report each at its turn, and take all events. False: none goes
 * on. `each` (NULL: none) sees every event. */
typedef void help_event(const sw_pbt *pbt, const sw_pbt_event *event, void *user);
bool help_round(sw_pbt *pbt, help_run *run, help_score *score, help_event *each, void *user);
void help_rounds(sw_pbt *pbt, int n, help_run *run, help_score *score, help_event *each,
                 void *user);
/* The exploits of a run, and the values of their members after them. */
typedef struct {
    sw_pbt_event e[200];
    double now[200][4];
    int n;
} help_list;
void help_note(const sw_pbt *pbt, const sw_pbt_event *event, void *list);
/* Random scores, a function of member and time. */
double help_random(const sw_pbt *pbt, int member, double time, void *user);
/* The member's index. */
double help_index(const sw_pbt *pbt, int member, double time, void *user);
double help_value(const sw_pbt *pbt, int member, int hyper);

#endif
