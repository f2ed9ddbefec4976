/* A child while it is made: each change stays as a whole, or leaves no trace. */
#include "alloc/base/error.h"
#include "runtime/population/evolve/mutate.h"

/* Of a search for sizes: some 2 ms. Mutations of drawn genomes of 22 vertices end by
 * themselves; one crossing in ten does not (without a bound one in a hundred takes 58 ms), and
 * has the best sizes that were found by then. */
#define MOST_NODES 4000

void swi_child_end(swi_child *c)
{
    swi_genome_free(c->before);
    swi_search_space_free(c->own_space);
    swi_utilities_end(&c->utilities);
    sw_heap_free(c->wishes, SW_HEAP_RECORDS, c->wishes_cap * sizeof *c->wishes);
    sw_heap_free(c->names, SW_HEAP_RECORDS, c->names_cap * sizeof *c->names);
    c->before = NULL;
    c->own_space = NULL;
    c->wishes = NULL;
    c->names = NULL;
    c->wishes_cap = c->names_cap = 0;
}

/* The default one is read when it is needed first. */
sw_status swi_child_space(swi_child *c, const sw_search_space **out)
{
    const swi_vertex *input = &c->genome->vertices[0];
    if (c->space == NULL) {
        const sw_task task = SW_OPTS(sw_task, .channels = input->channels,
                                     .height = input->height, .width = input->width,
                                     .classes = c->genome->vertices[c->genome->n - 1].channels);
        SW_TRY(sw_search_space_default(&c->own_space, &task));
        c->space = c->own_space;
    }
    *out = c->space;
    return SW_OK;
}

sw_status swi_child_begin(swi_child *c)
{
    swi_genome_free(c->before);
    c->before = NULL;
    c->asked = false;
    return sw_genome_copy(&c->before, c->genome);
}

sw_status swi_child_fits(swi_child *c, const sw_genome *genome, bool *fits)
{
    *fits = true;
    if (c->opts == NULL || c->opts->fits == NULL)
        return SW_OK;
    const uint64_t errors = sw_error_count();
    const int answer = c->opts->fits(genome, c->opts->fits_user);
    *fits = answer > 0;
    if (answer >= 0)
        return SW_OK;
    const sw_status status = answer >= -(int)SW_STOPPED ? (sw_status)-answer : SW_INVALID;
    if (sw_error_count() == errors)
        SW_FAIL(status, "sw_mutate_opts.fits failed (%d) and recorded no reason", answer);
    return status;
}

static bool is_refusal(sw_status status)
{
    return status == SW_UNSUPPORTED || status == SW_INVALID;
}

static void undo(swi_child *c)
{
    swi_genome_free(c->genome);
    c->genome = c->before;
    c->before = NULL;
}

sw_status swi_child_accept(swi_child *c, sw_status status, bool *stays)
{
    *stays = false;
    if (status == SW_OK)
        status = swi_genome_check(c->genome, NULL);
    if (status != SW_OK) {
        undo(c);
        return is_refusal(status) ? SW_OK : status;
    }
    *stays = c->asked;
    if (!c->asked)
        status = swi_child_fits(c, c->genome, stays);
    if (status != SW_OK || !*stays)
        undo(c);
    return status;
}

sw_status swi_child_align(swi_child *c, const swi_wish *wishes, size_t n_wishes,
                          const swi_tie *ties, size_t n_ties, swi_align_info *info)
{
    swi_align_info own;
    SW_TRY(swi_utilities_of(&c->utilities, c->genome, c->parents));
    const swi_align_opts opts = {.wishes = wishes,
                                 .n_wishes = n_wishes,
                                 .ties = ties,
                                 .n_ties = n_ties,
                                 .relax = true,
                                 .max_size = c->opts != NULL ? c->opts->max_size : 0,
                                 .utilities = c->utilities.list,
                                 .n_utilities = c->utilities.n,
                                 .max_nodes = MOST_NODES};
    return swi_align(c->genome, &opts, info != NULL ? info : &own);
}

void swi_child_record(swi_child *c, sw_mutation_kind kind, const swi_change_note *note)
{
    const sw_mutation_record record =
        SW_OPTS(sw_mutation_record, .kind = kind,
                .vertex = note->vertex[0] != '\0' ? note->vertex : NULL, .text = note->text,
                .exact = note->exact);
    if (c->opts != NULL && c->opts->record != NULL)
        c->opts->record(&record, c->opts->record_user);
}
