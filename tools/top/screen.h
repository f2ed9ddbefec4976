/* A picture that is redrawn in place on the terminal of standard output.
 *
 * screen_open takes the other screen that terminals have for this, hides the cursor, and where
 * standard input is the same terminal lets keys arrive one by one; screen_close puts all back.
 * Ctrl-Z puts it back too while the process sleeps. Where standard output is no terminal
 * nothing is sent to it, and waiting is the same. */
#ifndef STEPWELL_SCREEN_H
#define STEPWELL_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

/* From now on what can end or stop the process is caught (cli_catch_interrupt too). */
void screen_catch(void);
/* Whether it is a terminal. */
bool screen_open(void);
void screen_close(void);

/* Lines of a picture, which may be anything that cli_fitted prints; what does not fit the
 * terminal is left out. Between screen_open and screen_close they are drawn over the one
 * before, else they are printed. */
void screen_begin(void);
void screen_line(const char *text);
void screen_end(void);

typedef enum {
    SCREEN_TIME,   /* it is time, or the size has changed: draw */
    SCREEN_QUIT,   /* q was pressed */
    SCREEN_STOPPED /* Ctrl-C, or a request to end */
} screen_event;
/* Wait until the clock of cli_clock_ns. */
screen_event screen_wait(uint64_t until);

#endif
