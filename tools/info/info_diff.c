/* `stepwell info A --diff B`: tensors in the order of A's data, element by element; what only
 * one of them has; then the metadata. */
#include "alloc/base/mem.h"
#include "profiler/record/json.h"
#include "profiler/record/utf8.h"
#include "tools/info/info.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define PIECE ((size_t)128 << 10) /* of each file; whole elements */
#define NAME_BYTES 200

/* One tensor of both. */
typedef struct {
    uint64_t elements, differing, first; /* the index of the first that differs */
    char a[40], b[40];                   /* its values */
    double largest;                      /* difference; NAN where one of two is no number */
    bool types_differ;
} tensor_diff;

typedef struct {
    const info_file *a, *b;
    unsigned char *block; /* two pieces */
    bool json;
    sw_json *j;
    uint64_t n_differ;              /* tensors in both */
    const swi_tensors_entry *at[2]; /* the first of them */
    tensor_diff first;
} comparing;

/* ---- elements ---------------------------------------------------------------------------- */

static size_t width_of(const char *dtype)
{
    return strcmp(dtype, "F64") == 0                                 ? 8
           : strcmp(dtype, "F32") == 0 || strcmp(dtype, "I32") == 0  ? 4
           : strcmp(dtype, "BF16") == 0 || strcmp(dtype, "U16") == 0 ? 2
                                                                     : 1;
}

static double value_of(const char *dtype, const unsigned char *at)
{
    double f64;
    float f32;
    int32_t i32;
    uint16_t half;
    if (strcmp(dtype, "F64") == 0) {
        memcpy(&f64, at, sizeof f64);
        return f64;
    }
    if (strcmp(dtype, "I32") == 0) {
        memcpy(&i32, at, sizeof i32);
        return i32;
    }
    if (strcmp(dtype, "BF16") == 0) {
        memcpy(&half, at, sizeof half);
        const uint32_t bits = (uint32_t)half << 16;
        memcpy(&f32, &bits, sizeof f32);
        return (double)f32;
    }
    if (strcmp(dtype, "U16") == 0) {
        memcpy(&half, at, sizeof half);
        return half;
    }
    if (strcmp(dtype, "F32") == 0) {
        memcpy(&f32, at, sizeof f32);
        return (double)f32;
    }
    return *at; /* bytes of what is not known here, too */
}

static void take_pieces(tensor_diff *d, const char *dtype, uint64_t index,
                        const unsigned char *a, const unsigned char *b, size_t n)
{
    const size_t width = width_of(dtype);
    if (memcmp(a, b, n) == 0)
        return;
    for (size_t i = 0; i + width <= n; i += width, index++) {
        if (memcmp(a + i, b + i, width) == 0)
            continue;
        const double x = value_of(dtype, a + i), y = value_of(dtype, b + i);
        if (d->differing++ == 0) {
            d->first = index;
            snprintf(d->a, sizeof d->a, "%.9g", x);
            snprintf(d->b, sizeof d->b, "%.9g", y);
            if (strcmp(d->a, d->b) == 0) { /* doubles that are near, and NaNs of other bits */
                snprintf(d->a, sizeof d->a, "%.17g", x);
                snprintf(d->b, sizeof d->b, "%.17g", y);
            }
        }
        if (isnan(x) || isnan(y))
            d->largest = NAN;
        else if (fabs(x - y) > d->largest)
            d->largest = fabs(x - y);
    }
}

static bool same_type(const swi_tensors_entry *a, const swi_tensors_entry *b)
{
    return strcmp(a->dtype, b->dtype) == 0 && a->rank == b->rank &&
           memcmp(a->dim, b->dim, sizeof a->dim) == 0 && a->end - a->begin == b->end - b->begin;
}

static sw_status compare_all(comparing *c)
{
    for (uint32_t i = 0; i < swi_tensors_count(c->a->file); i++) {
        const swi_tensors_entry *a = swi_tensors_at(c->a->file, i);
        const swi_tensors_entry *b = swi_tensors_find(c->b->file, a->name);
        tensor_diff d = {0};
        if (b == NULL)
            continue;
        d.types_differ = !same_type(a, b);
        if (!d.types_differ) {
            const uint64_t all = a->end - a->begin;
            const size_t width = width_of(a->dtype);
            d.elements = all / width;
            for (uint64_t at = 0; at < all; at += PIECE) {
                const size_t n = all - at < PIECE ? (size_t)(all - at) : PIECE;
                SW_TRY(swi_tensors_read_part(c->a->file, a, at, c->block, n));
                SW_TRY(swi_tensors_read_part(c->b->file, b, at, c->block + PIECE, n));
                take_pieces(&d, a->dtype, at / width, c->block, c->block + PIECE, n);
            }
        }
        if ((d.types_differ || d.differing > 0) && c->n_differ++ == 0) {
            c->first = d;
            c->at[0] = a;
            c->at[1] = b;
        }
    }
    return SW_OK;
}

/* ---- what is said ------------------------------------------------------------------------ */

static const char *shown(char *to, const char *name)
{
    sw_utf8_clean(to, NAME_BYTES, name);
    return to;
}

/* Tensors of `one` that the other does not have; how many. */
static uint64_t only_in(const comparing *c, const info_file *one, const info_file *other,
                        const char *key)
{
    uint64_t n = 0;
    if (c->json)
        sw_json_open(c->j, key, '[');
    for (uint32_t i = 0; i < swi_tensors_count(one->file); i++) {
        char name[NAME_BYTES];
        const swi_tensors_entry *entry = swi_tensors_at(one->file, i);
        if (swi_tensors_find(other->file, entry->name) != NULL)
            continue;
        n++;
        if (c->json)
            sw_json_string(c->j, entry->name);
        else
            printf("'%s' is in %s only\n", shown(name, entry->name),
                   swi_tensors_path(one->file));
    }
    if (c->json)
        sw_json_end(c->j);
    return n;
}

/* How many make a difference. */
static uint64_t compare_notes(const comparing *c)
{
    uint64_t n = 0;
    swi_tensors_note note;
    if (c->json)
        sw_json_open(c->j, "metadata", '[');
    for (int side = 0; side < 2; side++) {
        const info_file *mine = side == 0 ? c->a : c->b, *its = side == 0 ? c->b : c->a;
        for (uint32_t i = 0; swi_tensors_note_at(mine->file, i, &note); i++) {
            const char *other = swi_tensors_text(its->file, note.key);
            const bool said = side == 1 && other != NULL; /* by the first side */
            if (info_is_check(note.key) || said ||
                (other != NULL && strcmp(note.text, other) == 0))
                continue;
            /* When a checkpoint was saved, and by what. */
            n += !(strcmp(note.key, SWI_OWN_PREFIX "created") == 0 ||
                   strcmp(note.key, SWI_OWN_PREFIX "command") == 0);
            const char *a = side == 0 ? note.text : other;
            const char *b = side == 0 ? other : note.text;
            char name[NAME_BYTES], one[NAME_BYTES], two[NAME_BYTES];
            if (c->json) {
                sw_json_begin(c->j, '{');
                sw_json_put_string(c->j, "key", note.key);
                sw_json_put_string(c->j, "a", a);
                sw_json_put_string(c->j, "b", b);
                sw_json_end(c->j);
            } else if (a != NULL && b != NULL)
                printf("metadata %s: '%s' and '%s'\n", shown(name, note.key), shown(one, a),
                       shown(two, b));
            else
                printf("metadata %s: '%s' is in %s only\n", shown(name, note.key),
                       shown(one, a != NULL ? a : b),
                       swi_tensors_path(a != NULL ? c->a->file : c->b->file));
        }
    }
    if (c->json)
        sw_json_end(c->j);
    return n;
}

static int say_all(comparing *c)
{
    if (c->json) {
        sw_json_begin(c->j, '{');
        sw_json_put_string(c->j, "a", swi_tensors_path(c->a->file));
        sw_json_put_string(c->j, "b", swi_tensors_path(c->b->file));
        sw_json_put_u64(c->j, "differing_tensors", c->n_differ);
        if (c->n_differ == 0)
            sw_json_put_null(c->j, "first");
    }
    if (c->n_differ > 0 && c->json) {
        const tensor_diff *d = &c->first;
        char a[INFO_TYPE_TEXT], b[INFO_TYPE_TEXT];
        sw_json_open(c->j, "first", '{');
        sw_json_put_string(c->j, "name", c->at[0]->name);
        sw_json_put_string(c->j, "a_type", info_type(a, c->at[0]));
        sw_json_put_string(c->j, "b_type", info_type(b, c->at[1]));
        sw_json_put_known(c->j, "element", !d->types_differ, d->first);
        sw_json_put_string(c->j, "a", d->types_differ ? NULL : d->a);
        sw_json_put_string(c->j, "b", d->types_differ ? NULL : d->b);
        sw_json_put_known(c->j, "elements", !d->types_differ, d->elements);
        sw_json_put_known(c->j, "differing", !d->types_differ, d->differing);
        sw_json_put_known_f64(c->j, "largest", !d->types_differ, d->largest);
        sw_json_end(c->j);
    } else if (c->n_differ > 0) {
        char name[NAME_BYTES], a[INFO_TYPE_TEXT], b[INFO_TYPE_TEXT];
        const tensor_diff *d = &c->first;
        shown(name, c->at[0]->name);
        if (d->types_differ)
            printf("'%s' is %s and %s\n", name, info_type(a, c->at[0]), info_type(b, c->at[1]));
        else
            printf("'%s' differs first at element %s: %s and %s; %s of %s elements differ, the "
                   "largest difference is %.9g\n",
                   name, cli_digits(d->first).text, d->a, d->b, cli_digits(d->differing).text,
                   cli_digits(d->elements).text, d->largest);
        if (c->n_differ > 1)
            printf("%s more tensor%s differ%s\n", cli_digits(c->n_differ - 1).text,
                   c->n_differ == 2 ? "" : "s", c->n_differ == 2 ? "s" : "");
    }
    uint64_t n = c->n_differ;
    n += only_in(c, c->a, c->b, "only_a");
    n += only_in(c, c->b, c->a, "only_b");
    n += compare_notes(c);
    if (c->json) {
        sw_json_put_bool(c->j, "same", n == 0);
        sw_json_end(c->j);
        sw_json_line(c->j);
    } else if (n == 0) {
        printf("the same: %u tensors\n", swi_tensors_count(c->a->file));
    }
    return n == 0 ? CLI_DONE : CLI_FAILED;
}

int info_diff(const info_file *a, const info_file *b, bool json)
{
    sw_json j;
    comparing c = {.a = a, .b = b, .json = json, .j = &j};
    int end = CLI_FAILED;
    CLI_LIBRARY(sw_heap_alloc(&c.block, SW_HEAP_FILES, 2 * PIECE), false);
    sw_json_growing(&j, SW_HEAP_FILES);
    sw_status status = compare_all(&c);
    if (status == SW_OK) {
        end = say_all(&c);
        status = j.status;
    }
    if (status == SW_OK && json)
        (void)fwrite(j.bytes, 1, j.used, stdout); /* cli_finish says whether it arrived */
    sw_json_free(&j);
    sw_heap_free(c.block, SW_HEAP_FILES, 2 * PIECE);
    return status == SW_OK ? end : cli_library_error(status, true);
}
