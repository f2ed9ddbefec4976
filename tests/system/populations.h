/* Small populations by the program, and all that they leave as one text. */
#ifndef SW_TESTS_POPULATIONS_H
#define SW_TESTS_POPULATIONS_H

#include "tests/system/going_on.h"

#define POPULATION 6 /* members, where the words say nothing else */

/* Run `pbt` with these words and a small net, in an empty folder with the folders L (logs) and
 * Z; it writes M.csv, L and P0 to P5. "@" is the folder. */
const sw_outcome *population_run(const char *words, const char *more);
/* The same without files, in the folder as it is. */
const sw_outcome *population_only(const char *words, const char *more);
/* A hash of each file that was written, and what the JSON says of the members: a text to
 * compare and to free. NULL: the run failed, or a file is missing. */
char *population_read(const sw_outcome *out);

/* Of the table after `head`, whose rows begin with `row` (a line's end, "<tr"): how many
 * numbers its column (0: the first) has, a cell after each `cell` (a blank, "<td>"). A failure
 * is reported where two have not the same number of decimals; "none" and "nan" are none. */
int population_column(const char *text, const char *head, const char *row, const char *cell,
                      int column);

#endif
