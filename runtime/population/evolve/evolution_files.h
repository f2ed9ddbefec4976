/* Between the files of an evolution that write and read its folder. */
#ifndef SW_EVOLUTION_FILES_H
#define SW_EVOLUTION_FILES_H

#include "profiler/record/json.h"
#include "runtime/population/evolve/evolution.h"
#include "runtime/population/evolve/text_read.h"

#define SWI_GENERATION_FORMAT "stepwell evolution 2"
#define SWI_STATE_HEAD "{\"format\":\"stepwell state 1\"," /* a state begins with */
enum { SWI_GENERATIONS_KEPT = 2 }; /* generation.json, generation.json.1 */
/* The text of such a file, which a zero follows, has this format and is what was written; else
 * SW_FORMAT. */
sw_status swi_generation_check(const char *text, size_t n, const char *path);

/* Numbers past 2^53, and sums: "0x..." */
void swi_put_hex(sw_json *j, const char *key, uint64_t x);
sw_status swi_get_hex(sw_json_in *in, uint64_t *out);
sw_status swi_get_count_or(sw_json_in *in, const char *field, uint64_t *out);
/* NaN is null. */
sw_status swi_get_real(sw_json_in *in, double *out);
/* Exactly n numbers. */
void swi_put_counts(sw_json *j, const char *key, const uint64_t *x, size_t n);
sw_status swi_get_counts(sw_json_in *in, uint64_t *x, size_t n);
void swi_put_reals(sw_json *j, const char *key, const double *x, size_t n);
sw_status swi_get_reals(sw_json_in *in, double *x, size_t n);

/* How a member was born; an object. */
void swi_birth_write(sw_json *j, const char *key, const swi_birth *birth);
sw_status swi_birth_read(sw_json_in *in, swi_birth *out);
void swi_ops_write(sw_json *j, const swi_one *one);

/* The options that must be equal where a run goes on. */
void swi_options_write(sw_json *j, const sw_evolution *e);
sw_status swi_options_read(sw_json_in *in, const sw_evolution *e);

void swi_evolution_path(const sw_evolution *e, const char *name, char path[SWI_EVOLUTION_PATH]);

#endif
