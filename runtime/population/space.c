/* Spaces of hyper-parameters: what each may be, draws of it, and whether a value is within. */
#include "alloc/base/size.h"
#include "kernels/rng.h"
#include "runtime/base/owner.h"
#include "runtime/population/pbt_internal.h"
#include <math.h>
#include <string.h>

#define EXACT 0x1p53 /* whole numbers up to this are exact */

/* ---- checks ------------------------------------------------------------------------------ */

static sw_status check_name(const char *name)
{
    if (name == NULL)
        SW_FAIL(SW_INVALID, "sw_space_add: the name must not be NULL");
    const size_t n = strnlen(name, SWI_HYPER_NAME);
    if (n == 0 || n == SWI_HYPER_NAME)
        SW_FAIL(SW_INVALID,
                "the name of a hyper-parameter must have 1 to %d bytes (got '%.60s%s')",
                SWI_HYPER_NAME - 1, name, n == 0 ? "" : "...");
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)name[i], low = c | 32;
        if (!((low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
              c == '.'))
            SW_FAIL(
                SW_INVALID,
                "'%s': a name must be of letters, digits, '_', '-' and '.' (byte %zu is not)",
                name, i + 1);
    }
    if (name[0] == '.' || name[n - 1] == '.' || strstr(name, "..") != NULL)
        SW_FAIL(SW_INVALID, "'%s': between two dots, in front and after there must be a name",
                name);
    return SW_OK;
}

/* "a" and "a.b" cannot both have a value in nested objects. */
static sw_status check_new(const sw_space *s, const char *name)
{
    const size_t n = strlen(name);
    for (uint32_t i = 0; i < s->n; i++) {
        const char *other = s->hypers[i].is.name;
        const size_t m = strlen(other), common = n < m ? n : m;
        if (memcmp(name, other, common) != 0)
            continue;
        if (n == m)
            SW_FAIL(SW_INVALID, "'%s': the space has this hyper-parameter already", name);
        if ((n > m ? name : other)[common] == '.')
            SW_FAIL(SW_INVALID, "'%s' cannot be beside '%s': one is a group of the other", name,
                    other);
    }
    return SW_OK;
}

static sw_status check_bounds(const sw_hyper *h)
{
    if (!isfinite(h->low) || !isfinite(h->high))
        SW_FAIL(SW_INVALID, "'%s': low and high must be finite (got %g and %g)", h->name,
                h->low, h->high);
    if (h->low > h->high)
        SW_FAIL(SW_INVALID, "'%s': low must not be above high (got %g and %g)", h->name, h->low,
                h->high);
    if (h->kind == SW_LOG_UNIFORM && h->low <= 0)
        SW_FAIL(SW_INVALID, "'%s': low of a logarithmic range must be above 0 (got %g)",
                h->name, h->low);
    if (h->kind == SW_INTEGER && (h->low != floor(h->low) || h->high != floor(h->high) ||
                                  fabs(h->low) > EXACT || fabs(h->high) > EXACT))
        SW_FAIL(SW_INVALID,
                "'%s': bounds must be whole numbers up to 2^53 (got %.17g and %.17g)", h->name,
                h->low, h->high);
    return SW_OK;
}

static sw_status check_label(const sw_hyper *h, int i)
{
    const char *label = h->labels[i];
    const size_t n = label != NULL ? strnlen(label, SWI_LABEL) : 0;
    if (n == 0 || n == SWI_LABEL)
        SW_FAIL(SW_INVALID, "'%s': label %d must have 1 to %d bytes", h->name, i,
                SWI_LABEL - 1);
    for (int j = 0; j < i; j++)
        if (strcmp(label, h->labels[j]) == 0)
            SW_FAIL(SW_INVALID, "'%s': the label '%s' is there twice", h->name, label);
    return SW_OK;
}

static sw_status check_choices(const sw_hyper *h)
{
    if (h->n_choices < 1 || h->n_choices > SWI_HYPER_CHOICES)
        SW_FAIL(SW_INVALID, "'%s': the list must have 1 to %d choices (got %d)", h->name,
                SWI_HYPER_CHOICES, h->n_choices);
    if (h->choices == NULL)
        SW_FAIL(SW_INVALID, "'%s': choices must not be NULL", h->name);
    for (int i = 0; i < h->n_choices; i++) {
        if (!isfinite(h->choices[i]))
            SW_FAIL(SW_INVALID, "'%s': choice %d must be finite", h->name, i);
        for (int j = 0; j < i; j++)
            if (h->choices[i] == h->choices[j])
                SW_FAIL(SW_INVALID, "'%s': the choice %.17g is there twice", h->name,
                        h->choices[i]);
        if (h->labels != NULL)
            SW_TRY(check_label(h, i));
    }
    return SW_OK;
}

/* ---- making ------------------------------------------------------------------------------ */

static void *copy_into(swi_hyper *r, size_t *at, const void *from, size_t bytes)
{
    void *to = (char *)r->block + sw_size_part(at, bytes);
    memcpy(to, from, bytes);
    return to;
}

/* Sizes are bounded: SWI_HYPER_CHOICES of at most 80 bytes. */
static sw_status copy_record(swi_hyper *out, const sw_hyper *h)
{
    const size_t name = strlen(h->name) + 1;
    const size_t n = h->kind == SW_CHOICE ? (size_t)h->n_choices : 0;
    const bool labels = n > 0 && h->labels != NULL;
    swi_hyper r = {.is = *h};
    size_t at = 0;
    (void)sw_size_part(&r.block_bytes, name);
    (void)sw_size_part(&r.block_bytes, n * sizeof *h->choices);
    (void)sw_size_part(&r.block_bytes, labels ? n * sizeof *h->labels : 0);
    for (size_t i = 0; labels && i < n; i++)
        (void)sw_size_part(&r.block_bytes, strlen(h->labels[i]) + 1);
    SW_TRY(sw_heap_alloc(&r.block, SW_HEAP_RECORDS, r.block_bytes));
    r.is.name = copy_into(&r, &at, h->name, name);
    if (n > 0)
        r.is.choices = copy_into(&r, &at, h->choices, n * sizeof *h->choices);
    const char **texts = (const char **)(void *)((char *)r.block + at);
    at += labels ? (n * sizeof *texts + 15) & ~(size_t)15 : 0;
    for (size_t i = 0; labels && i < n; i++)
        texts[i] = copy_into(&r, &at, h->labels[i], strlen(h->labels[i]) + 1);
    r.is.labels = labels ? texts : NULL;
    *out = r;
    return SW_OK;
}

sw_status sw_space_create(sw_space **out)
{
    void *block;
    if (out == NULL)
        SW_FAIL(SW_INVALID, "sw_space_create: out must not be NULL");
    SW_TRY(sw_handle_take(&block, SW_HANDLE_SPACE, sizeof(sw_space)));
    *out = block;
    return SW_OK;
}

void swi_space_free(sw_space *s)
{
    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->n; i++)
        sw_heap_free(s->hypers[i].block, SW_HEAP_RECORDS, s->hypers[i].block_bytes);
    sw_heap_free(s->hypers, SW_HEAP_RECORDS, s->cap * sizeof *s->hypers);
    sw_handle_give(s, SW_HANDLE_SPACE, sizeof *s);
}

void sw_space_destroy(sw_space *s)
{
    if (sw_handle_ends(s, SW_HANDLE_SPACE, "sw_space_destroy"))
        swi_space_free(s);
}

sw_status sw_space_add(sw_space *s, const sw_hyper *given)
{
    static const char call[] = "sw_space_add";
    sw_hyper h;
    SW_TRY(sw_handle_check(s, SW_HANDLE_SPACE, call));
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_hyper, &h, given, call));
    SW_TRY(check_name(h.name));
    if ((unsigned)h.kind > SW_CHOICE)
        SW_FAIL(SW_INVALID, "'%s': kind %d is none", h.name, (int)h.kind);
    SW_TRY(h.kind == SW_CHOICE ? check_choices(&h) : check_bounds(&h));
    SW_TRY(check_new(s, h.name));
    if (s->n == SWI_HYPERS)
        SW_FAIL(SW_INVALID, "'%s': a space has at most %d hyper-parameters", h.name,
                SWI_HYPERS);
    void *block = s->hypers;
    SW_TRY(sw_heap_reserve(&block, SW_HEAP_RECORDS, &s->cap, s->n + 1, sizeof *s->hypers));
    s->hypers = block;
    SW_TRY(copy_record(&s->hypers[s->n], &h));
    s->n++;
    return SW_OK;
}

sw_status swi_space_copy(sw_space **out, const sw_space *from)
{
    sw_space *s;
    SW_TRY(sw_space_create(&s));
    sw_status status = SW_OK;
    for (uint32_t i = 0; i < from->n && status == SW_OK; i++)
        status = sw_space_add(s, &from->hypers[i].is);
    if (status != SW_OK)
        swi_space_free(s);
    else
        *out = s;
    return status;
}
