/* Numbers of search spaces: fixed, one of a list, or from a range. */
#include "runtime/population/evolve/search_space_read.h"

typedef struct {
    swi_space_reader *r;
    const char *field;
    double low, high;
    bool whole;
    swi_drawn *out;
    uint32_t seen;
} number;

static sw_status read_one(sw_json_in *in, const number *x, double *out)
{
    int64_t whole;
    if (x->whole) {
        SW_TRY(swi_read_whole(in, x->field, (int64_t)x->low, (int64_t)x->high, &whole));
        *out = (double)whole;
        return SW_OK;
    }
    SW_TRY(swi_read_real(in, out));
    if (!(*out >= x->low && *out <= x->high))
        return swi_read_bad(in, "\"%s\" must be %g to %g (got %g)", x->field, x->low, x->high,
                            *out);
    return SW_OK;
}

static sw_status add_choice(sw_json_in *in, void *context)
{
    number *x = context;
    sw_search_space *s = x->r->space;
    double choice;
    SW_TRY(read_one(in, x, &choice));
    if (x->out->n == SWI_SPACE_CHOICES)
        return swi_read_bad(in, "\"%s\" has at most %d choices", x->field, SWI_SPACE_CHOICES);
    void *block = s->choices;
    SW_TRY(sw_heap_reserve(&block, SW_HEAP_RECORDS, &s->choices_cap, s->n_choices + 1,
                           sizeof *s->choices));
    s->choices = block;
    s->choices[s->n_choices++] = choice;
    x->out->n++;
    return SW_OK;
}

static sw_status read_bound(sw_json_in *in, const char *key, void *context)
{
    static const char *const bounds[] = {"from", "to", "step"};
    number *x = context;
    uint32_t which;
    SW_TRY(swi_read_field(in, key, bounds, x->whole ? 3 : 2, "a range", &x->seen, &which));
    return read_one(in, x,
                    which == 0   ? &x->out->low
                    : which == 1 ? &x->out->high
                                 : &x->out->step);
}

static sw_status read_range(sw_json_in *in, number *x)
{
    x->out->step = x->whole ? 1 : 0;
    SW_TRY(sw_json_get_object(in, read_bound, x));
    if ((x->seen & 3) != 3)
        return swi_read_bad(in, "\"%s\": a range must have \"from\" and \"to\"", x->field);
    if (x->out->low > x->out->high || (x->whole && x->out->step < 1))
        return swi_read_bad(in,
                            "\"%s\": from must not be above to, and step at least 1 (got %g "
                            "to %g by %g)",
                            x->field, x->out->low, x->out->high, x->out->step);
    return SW_OK;
}

/* A number, a list of choices, or a range. */
sw_status swi_space_read_drawn(sw_json_in *in, swi_space_reader *r, const char *field,
                               double low, double high, bool whole, swi_drawn *out)
{
    number x = {r, field, low, high, whole, out, 0};
    int c;
    *out = (swi_drawn){.first = r->space->n_choices};
    SW_TRY(sw_json_peek(in, &c));
    if (c == '{')
        return read_range(in, &x);
    if (c == '[') {
        SW_TRY(swi_read_list(in, add_choice, &x));
        return out->n > 0 ? SW_OK
                          : swi_read_bad(in, "\"%s\" must have a choice at least", field);
    }
    if (c != '-' && !(c >= '0' && c <= '9'))
        return swi_read_bad(in,
                            "\"%s\" must be a number, a list of choices, or {\"from\": ..., "
                            "\"to\": ...}",
                            field);
    SW_TRY(read_one(in, &x, &out->low));
    out->high = out->low;
    return SW_OK;
}

sw_status swi_space_read_whole(sw_json_in *in, swi_space_reader *r, const char *field,
                               int64_t low, int64_t high, swi_drawn *out)
{
    return swi_space_read_drawn(in, r, field, (double)low, (double)high, true, out);
}

/* The word, which stands for `value`, or numbers. */
sw_status swi_space_read_or_word(sw_json_in *in, swi_space_reader *r, const char *field,
                                 const char *word, double value, swi_drawn *out)
{
    int c;
    uint32_t which;
    SW_TRY(sw_json_peek(in, &c));
    if (c != '"')
        return swi_space_read_whole(in, r, field, 1, SWI_MAX_UNITS, out);
    *out = (swi_drawn){.low = value, .high = value};
    return swi_read_choice(in, field, &word, 1, &which);
}
