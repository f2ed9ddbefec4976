/* A second build does nothing, so that a second `tools/try test` takes what its tests take. */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdlib.h>

static void a_second_build_does_nothing(void)
{
    if (getenv("MESON_TEST_ITERATION") == NULL)
        SW_SKIP("not under meson test, which builds all first");
    if (sw_shell("command -v ninja") != 0)
        SW_SKIP("ninja is not installed under this name");
    CU_ASSERT_EQUAL(sw_shell("ninja -C '%s' -n -d explain > '%s' 2>&1; "
                             "grep -q 'no work to do' '%s' || { head -n 5 '%s' >&2; exit 1; }",
                             sw_build_root(), path_of("work"), path_of("work"),
                             path_of("work")),
                    0);
}

static const sw_test tests[] = {{"a second build does nothing", a_second_build_does_nothing}};
SW_SUITE("build", tests)
