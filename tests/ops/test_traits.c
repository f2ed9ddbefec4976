/* Properties of an op that passes ask for stand in its line of ops.def: no pass names an op. */
#include "runtime/base/common.h"
#include "runtime/ops/ops.h"
#include "tests/ops/ops_outside.h"
#include "tests/support/suite.h"
#include <dirent.h>

SW_TESTS("traits")

/* Does the text name an op by its number? */
static bool names_an_op(const char *line)
{
    return strstr(line, "SW_OP_") != NULL;
}

static int look_at_file(const char *folder, const char *name)
{
    char line[1024];
    int lines = 0;
    FILE *file = fopen(sw_textf("%s/%s", folder, name), "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    for (; fgets(line, sizeof line, file) != NULL; lines++)
        SW_CHECK(!names_an_op(line), "%s names an op: %s", name, line);
    fclose(file);
    return lines;
}

static int look_at_folder(const char *folder)
{
    int lines = 0;
    const char *path = sw_textf("%s/%s", sw_source_root(), folder);
    DIR *dir = opendir(path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        if (strlen(e->d_name) > 2 && strcmp(e->d_name + strlen(e->d_name) - 2, ".c") == 0)
            lines += look_at_file(path, e->d_name);
    closedir(dir);
    return lines;
}

SW_TEST("no pass names an op")
{
    CU_ASSERT(names_an_op("if (node->op == SW_OP_finite)"));
    CU_ASSERT(look_at_folder("runtime/plan") > 1000);
    CU_ASSERT(look_at_folder("runtime/plan/recompute") > 1000);
}

/* Is it the name of an op that a step function can apply? */
static bool is_function(const char *word, size_t n)
{
    for (uint32_t id = 0; id < SW_OPS_INSIDE; id++)
        if (strlen(swi_op(id)->name) == n && strncmp(swi_op(id)->name, word, n) == 0)
            return swi_op_traits_of(id)->call < SWI_CALL_INSIDE;
    return false;
}

/* Reports call an op by the name of its function, or by words without underscores. */
SW_TEST("ops have plain words")
{
    for (uint32_t id = 0; id < SW_OPS_INSIDE; id++)
        for (int gradient = 0; gradient < 2; gradient++) {
            char text[SWI_WORDS_BYTES];
            const char *words = swi_op_words(id, gradient, text);
            CU_ASSERT(strlen(words) < SWI_WORDS_BYTES - 1 && strlen(swi_op_word(id)) > 0);
            for (const char *at = words; *at != '\0'; at += strspn(at, " ")) {
                const size_t n = strcspn(at, " ");
                SW_CHECK(memchr(at, '_', n) == NULL || is_function(at, n), "%s: '%s'",
                         swi_op(id)->name, words);
                SW_CHECK(strncmp(at, "n16", 3) != 0, "%s: '%s'", swi_op(id)->name, words);
                at += n;
            }
        }
    char text[SWI_WORDS_BYTES];
    CU_ASSERT_STRING_EQUAL(swi_op_words(SW_OP_to_n16, false, text), "input repacked for SIMD");
    CU_ASSERT_STRING_EQUAL(swi_op_words(SW_OP_to_n16, true, text),
                           "gradient repacked for SIMD");
    CU_ASSERT_STRING_EQUAL(swi_op_words(SW_OP_adam_update, true, text), "update by adam");
    CU_ASSERT_STRING_EQUAL(swi_op_words(SW_OP_linear, false, text), "linear");
}

SW_TEST("an op from outside has the default")
{
    sw_op_desc d = outside_joint;
    uint32_t id = 0;
    d.name = "outside.traits";
    CU_ASSERT_EQUAL_FATAL(sw_op_register(&d, &id), SW_OK);
    const swi_op_traits *t = swi_op_traits_of(id);
    CU_ASSERT(t->call == SWI_CALL_OWN && t->work == SWI_WORK_LOOPS && t->duty == SWI_DUTY_NONE);
    CU_ASSERT(!swi_op_is_private(id));
}

/* Of the duties that decide what a pass does with an operand. */
SW_TEST("duties are those of descriptors that can do them")
{
    int updates = 0;
    for (uint32_t id = 0; id < SW_OPS_INSIDE; id++) {
        const sw_op_desc *d = swi_op(id);
        const swi_op_duty duty = swi_op_traits_of(id)->duty;
        const bool update = duty == SWI_DUTY_UPDATE || duty == SWI_DUTY_UPDATE_WHOLE;
        updates += update;
        SW_CHECK(!update || d->attrs_bytes == sizeof(swi_update_attrs), "%s", d->name);
        SW_CHECK(duty != SWI_DUTY_TICK || d->attrs_bytes == sizeof(swi_tick_attrs), "%s",
                 d->name);
        SW_CHECK(duty != SWI_DUTY_CHECK || d->attrs_bytes == sizeof(swi_finite_attrs), "%s",
                 d->name);
        SW_CHECK(duty != SWI_DUTY_ROWS || d->attrs_bytes >= sizeof(swi_rows_attrs), "%s",
                 d->name);
        SW_CHECK(duty != SWI_DUTY_PARTS || d->attrs_bytes >= sizeof(int64_t), "%s", d->name);
    }
    CU_ASSERT(updates > 4);
    CU_ASSERT_STRING_EQUAL(swi_op(swi_op_with(SWI_DUTY_TILED))->name, "tile_update");
}
