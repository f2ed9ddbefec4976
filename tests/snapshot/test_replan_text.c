/* The text for people: each claim of the report stands in it, with its figures. */
#include "tests/snapshot/made_training.h"
#include "tests/snapshot/replanned.h"
#include "tests/support/suite.h"

SW_TESTS("replan text")

/* Words of the text, whatever its lines. */
static void has(const char *text, const char *words)
{
    const char *at = text;
    for (; *at != '\0'; at++) {
        const char *a = at, *w = words;
        while (*w != '\0' && *a != '\0') {
            if (*w == ' ' && (*a == ' ' || *a == '\n')) {
                a += strspn(a, " \n");
                w++;
            } else if (*a++ != *w++)
                break;
            if (*w == '\0')
                return;
        }
    }
    SW_CHECK(false, "\"%s\" is not in %s", words, text);
}

static const char *text_of(const plain_allocator *p, const char *name)
{
    return planned_text(planned(plain_write(p, name, 0)));
}

/* 8 weights and as many moments of 3 MiB, 8 activations of 2 MiB and a little, a gradient; a
 * warm-up that takes 30 MiB more. */
SW_TEST("a training is described")
{
    const plain_training t = {8, 6, 3, 3 * MIB, 2 * MIB, 30 * MIB};
    plain_allocator *p = plain_new(7);
    plain_train(p, &t);
    const char *text = text_of(p, "told.pickle");
    has(text, "PyTorch reserved 112.00 MiB. At least 97.01 MiB are needed, and a plan takes");
    has(text, "Proof: ");
    has(text, "5 steps are alike; 50,331,648 bytes live through all of a step");
    has(text, "Before that step up to 101,722,624 bytes lived: the warm-up costs 31,457,280 "
              "more.");
    has(text, "PyTorch had reserved 117,440,512 bytes by the end of the step: ");
    has(text, "of that: blocks in use 92,279,808");
    has(text, "net.py:1 layer1 (forward)");
    has(text, "Phases follow from the frames: optimizer, autograd, loss and data are named");
    has(text, "With expandable segments PyTorch would reserve ");
    has(text, "Memory outside of PyTorch's allocator (the context, libraries' own) is not in");
}

/* The gap between the least and the plan is printed. */
SW_TEST("the gap is reported")
{
    plain_allocator *p = plain_new(7);
    for (int i = 0; i < 3; i++)
        (void)plain_malloc(p, 0, 700, 1);
    const char *text = text_of(p, "gap.pickle");
    has(text, "of that: blocks in use 1,024");
    has(text, "Most is lost to rounding and rests by: 324 net.py:1 layer1");
    has(text, "the whole trace 3 2,100 2,748 least +30.86 %");
    has(text, "\"planned_bytes\":2748,\"proved_bytes\":2748,\"least\":true");
}

/* Of a long name the file and the function are cut, never the line; columns have room. */
SW_TEST("lines stay in names that are cut")
{
    static const char *const stacks[] = {
        "",
        "/u/a_file_of_a_model_with_a_very_long_name.py|174|a_function_that_has_one_too_and_is"
        "_longer_than_a_line_of_a_terminal_has_room_for"};
    plain_allocator *p = plain_new(7);
    p->stacks = stacks;
    for (int i = 0; i < 3; i++)
        (void)plain_malloc(p, 0, 4096 * MIB + 700, 1);
    const char *path = plain_write(p, "names.pickle", 0);
    CU_ASSERT(replan_command("'%s'", path) == 0 && replan_said("3 x a_[^ ]*~[^ ]*:174 .*~") &&
              replan_said("forward *12,884,903,988 *12,884,903,988"));
    CU_ASSERT(replan_command("'%s' --replan", path) == 0 &&
              replan_said("activation: a_[^ ]*~[^ ]*:174 .*~") &&
              replan_said("^ *[0-9,]*  a_[^ ]*~[^ ]*:174 "));
}

/* Of what was made before the recording a change names no code; rules by size say so. */
SW_TEST("what was made before is reported")
{
    static made_training m;
    const made_run run = {.steps = 3, .layers = 6, .late_zero = true};
    made_train(&m, &run);
    const size_t first = m.p->n_events * 2 / 5;
    CU_ASSERT_EQUAL(replan_command("'%s' --replan", plain_write(m.p, "before.pickle", first)),
                    0);
    CU_ASSERT(replan_said("made by an optimizer, or a parameter.s size") &&
              replan_said("first made before") && !replan_said("code without frames"));
}

SW_TEST("a request that would have fitted is reported")
{
    uint64_t large[8];
    plain_allocator *p = plain_new(3);
    p->capacity = 330 * MIB;
    for (int i = 0; i < 8; i++) {
        plain_free(p, plain_malloc(p, 0, 40 * MIB, 1), false);
        large[i] = plain_malloc(p, 0, 30 * MIB, 2);
        (void)plain_malloc(p, 0, 10 * MIB, 3);
    }
    for (int i = 0; i < 8; i++)
        plain_free(p, large[i], false);
    CU_ASSERT_EQUAL(plain_malloc(p, 0, 60 * MIB, 4), 0);
    const char *text = text_of(p, "fits.pickle");
    has(text, "60.00 MiB asked, 240.00 MiB were fragmentation: at event ");
    has(text, "by net.py:4 layer4.");
    has(text,
        "This request fits in a planned arena: all requests up to it take 335,544,320 bytes");
    has(text, "and there were 335,556,665."); /* 12,345 of them free on the device */
    CU_ASSERT_PTR_NULL(strstr(text, "Most was held by:"));
}

SW_TEST("a request that does not fit names the holders")
{
    plain_allocator *p = plain_new(3);
    p->capacity = 100 * MIB;
    (void)plain_malloc(p, 0, 60 * MIB, 1);
    (void)plain_malloc(p, 0, 30 * MIB, 2);
    CU_ASSERT_EQUAL(plain_malloc(p, 0, 50 * MIB, 4), 0);
    const char *text = text_of(p, "full.pickle");
    has(text, "50.00 MiB asked, 0 B were fragmentation");
    has(text, "This request does not fit in a planned arena: all requests up to it take "
              "146,800,640 bytes (at least 146,800,640), and there were 94,384,185.");
    has(text, "Most was held by: bytes requests 62,914,560 1 activation: net.py:1 layer1 "
              "(forward) 31,457,280 1 activation: net.py:2 layer2 (forward)");
}
