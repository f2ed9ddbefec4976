/* The installed header in projects of others: it is one file, so nothing that is named like a
 * part of it is taken for one; what the docs show compiles without a warning, in C and in C++.
 */
#include "tests/support/suite.h"
#include "tests/system/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define C_FLAGS "-std=c11 -Wall -Wextra -Werror"
#define CPP_FLAGS "-std=c++17 -Wall -Wextra -Werror"
static const struct {
    const char *name, *flags, *project;
} compilers[] = {{"gcc", C_FLAGS, "own/src/main.c"},
                 {"clang", C_FLAGS, "own/src/main.c"},
                 {"g++", CPP_FLAGS, "own/src/main.cc"},
                 {"clang++", CPP_FLAGS, "own/src/main.cc"}};
#define N_COMPILERS (sizeof compilers / sizeof *compilers)

static bool is_here(const char *tool)
{
    return sw_shell("command -v %s", tool) == 0;
}

/* The folder of the installed header; the test fails where it cannot be installed. */
static const char *include_folder(void)
{
    static char folder[1100];
    if (folder[0] == '\0') {
        CU_ASSERT_EQUAL_FATAL(sw_shell("meson install -C '%s' --no-rebuild --destdir '%s' && "
                                       "ln -s \"$(find '%s' -type d -name include)\" '%s'",
                                       sw_build_root(), path_of("tree"), path_of("tree"),
                                       path_of("include")),
                              0);
        snprintf(folder, sizeof folder, "%s", path_of("include"));
    }
    return folder;
}

/* Whether `file` of the temporary folder compiles without a warning in the folder `from`. */
static bool compiles(size_t compiler, const char *from, const char *paths, const char *file)
{
    return SW_CHECK(sw_shell("cd '%s' && %s %s -fsyntax-only %s '%s'", from,
                             compilers[compiler].name, compilers[compiler].flags, paths,
                             path_of(file)) == 0,
                    "%s %s %s", compilers[compiler].name, paths, file);
}

static void one_header_is_installed(void)
{
    CU_ASSERT_EQUAL(sw_shell("test \"$(cd '%s/' && echo *)\" = 'stepwell.h stepwell.hpp'",
                             include_folder()),
                    0);
    CU_ASSERT_EQUAL(sw_shell("! grep -n '#include \"' '%s/stepwell.h'", include_folder()), 0);
}

/* Files with the names of the header's parts, in the folders of the parts and without them.
 * They have the guards that the parts had, and something of their own that the project uses. */
static const char *const parts[] = {
    "alloc/base/base.h", "kernels/launch.h", "kernels/par.h", "base.h", "launch.h", "par.h"};
#define N_PARTS (sizeof parts / sizeof *parts)

static void write_project(void)
{
    char text[1000], path[200];
    CU_ASSERT_EQUAL_FATAL(sw_shell("mkdir -p '%s/alloc/base' '%s/kernels' '%s/src'",
                                   path_of("own"), path_of("own"), path_of("own")),
                          0);
    for (size_t i = 0; i < N_PARTS; i++) {
        const int n =
            snprintf(text, sizeof text,
                     "#ifndef OWN_%zu\n#define OWN_%zu\n#define SW_BASE_H\n"
                     "#define SW_LAUNCH_H\n#define SW_PAR_H\nenum { own_%zu };\n#endif\n",
                     i, i, i);
        snprintf(path, sizeof path, "own/%s", parts[i]);
        CU_ASSERT(file_write(path_of(path), text, (size_t)n));
    }
    size_t n = 0;
    for (size_t i = 0; i < N_PARTS; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "#include \"%s\"\n", parts[i]);
    n += (size_t)snprintf(text + n, sizeof text - n,
                          "#include <stepwell.h>\nint main(void)\n{\n    sw_par par;\n"
                          "    (void)par, (void)sw_run;\n"
                          "    return (int)own_0 + (int)own_1 + (int)own_2 + (int)own_3 + "
                          "(int)own_4 + (int)own_5 + (int)SW_OK;\n}\n");
    CU_ASSERT(file_write(path_of("own/src/main.c"), text, n));
    CU_ASSERT(file_write(path_of("own/src/main.cc"), text, n));
}

/* The project's folders stand before ours, after it, and are for quotes alone. */
static void a_project_keeps_its_own_headers(void)
{
    static const char *const ways[][2] = {{"-I. -Ialloc -Ikernels", ""},
                                          {"", "-I. -Ialloc -Ikernels"},
                                          {"", "-iquote. -iquotealloc -iquotekernels"}};
    write_project();
    for (size_t k = 0; k < N_COMPILERS; k++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways && is_here(compilers[k].name); i++) {
            char paths[1300];
            snprintf(paths, sizeof paths, "%s -I'%s' %s", ways[i][0], include_folder(),
                     ways[i][1]);
            (void)compiles(k, path_of("own"), paths, compilers[k].project);
        }
}

/* The examples of the header take these as given. */
static const char given[] =
    "#include <stdio.h>\n#include <stepwell.h>\n"
    "extern sw_exec *exec; extern sw_model *model; extern sw_ctx *ctx; extern sw_knob knob;\n"
    "extern sw_optimizer *optimizer; extern sw_value x, logits, labels; extern float "
    "numbers[6];\nextern sw_param weight, bias; extern sw_run_args args; extern uint64_t "
    "step;\n"
    "extern sw_step_fn fn; extern sw_dataset *dataset; extern sw_loader *loader;\n"
    "extern sw_members *members; extern sw_member member; extern sw_feed *feed;\n"
    "extern sw_checkpoint *checkpoint; extern sw_status status; extern sw_space *space;\n"
    "extern sw_pbt *pbt; extern sw_es *es; extern sw_search_space *search_space;\n"
    "extern sw_genome *genome; extern sw_net *net; extern sw_evolution *evolution;\n"
    "extern sw_op_desc desc; extern sw_task task; extern sw_checkpoint_info saved;\n";

/* The lines of code in the header's own comments, each block a function: those with `= {}` are
 * C++. */
static void what_the_header_shows_is_free_of_warnings(void)
{
    CU_ASSERT(file_write(path_of("given.h"), given, sizeof given - 1));
    for (size_t k = 0; k < N_COMPILERS; k++) {
        if (!is_here(compilers[k].name))
            continue;
        const bool cpp = strcmp(compilers[k].flags, CPP_FLAGS) == 0;
        const char *file = cpp ? "shown.cc" : "shown.c";
        CU_ASSERT_EQUAL(
            sw_shell("awk 'BEGIN { print \"#include \\\"given.h\\\"\" } "
                     "/^ \\*     / { if (!(/= \\{\\}/) == %d) next; "
                     "if (!open++) print \"sw_status example_\" NR \"(void)\\n{\"; "
                     "sub(/ \\*\\/$/, \"\"); print substr($0, 4); next } "
                     "open { print \"return SW_OK;\\n}\"; open = 0 }' '%s/stepwell.h' > '%s'",
                     cpp, include_folder(), path_of(file)),
            0);
        (void)compiles(k, include_folder(), "-Wpedantic -Wno-unused-variable -I.", file);
    }
}

/* An opening comment with five lines of code, which the test before this compiles. */
static void each_part_is_short_and_opens_with_an_example(void)
{
    CU_ASSERT_EQUAL(sw_shell("cd '%s/runtime/api' && ! { for f in *.h; do awk '"
                             "NR == 1 && !/^\\/\\*/ { bad = 1 } /^ \\*     / && !past { n++ } "
                             "/\\*\\// { past = 1 } END { exit bad || n != 5 || NR >= 400 }' "
                             "\"$f\" || echo \"$f\"; done | grep .; }",
                             sw_source_root()),
                    0);
}

/* The documents show two of these, whole. */
static void the_programs_that_are_shown_are_free_of_warnings(void)
{
    for (size_t k = 0; k < 2; k++)
        if (is_here(compilers[k].name))
            CU_ASSERT_EQUAL(sw_shell("%s %s -fsyntax-only -I '%s' '%s'/tools/examples/*.c "
                                     "'%s'/tests/api/*.c",
                                     compilers[k].name, compilers[k].flags, include_folder(),
                                     sw_source_root(), sw_source_root()),
                            0);
}

/* All that C++ has in its own way: options, shapes, descriptors. */
static const char cpp_program[] =
    "#include <stepwell.h>\n#include <cstdio>\n"
    "struct net {\n    sw_linear layer;\n    sw_optimizer *opt;\n};\n"
    "static void step(sw_ctx *ctx, void *user)\n{\n    net *n = static_cast<net *>(user);\n"
    "    sw_value y = sw_apply_linear(ctx, n->layer, sw_input(ctx, 0));\n"
    "    y = sw_add(ctx, y, sw_randn(ctx, \"noise\", SW_SHAPE(sw_dim(ctx, y, 0), 1)));\n"
    "    sw_value loss = sw_mse(ctx, y, sw_input(ctx, 1));\n"
    "    sw_metric(ctx, \"loss\", sw_reshape(ctx, loss, SW_SCALAR));\n"
    "    sw_backward(ctx, loss, &n->opt, 1);\n    sw_update(ctx, n->opt);\n}\n"
    "#define TRY(call) if ((call) != SW_OK) return std::puts(sw_last_error()), 1\n"
    "int main()\n{\n"
    "    static float x[8 * 3], t[8];\n"
    "    constexpr sw_shape shape = SW_SHAPE(8, 3);\n"
    "    static_assert(shape.rank == 2 && shape.dim[0] == 8 && shape.dim[1] == 3, \"\");\n"
    "    static_assert(SW_SCALAR.rank == 0, \"\");\n"
    "    const sw_array in[] = {{SW_F32, shape, x}, {SW_F32, SW_SHAPE(8, 1), t}};\n"
    "    sw_exec_opts opts = {};\n    opts.size = sizeof opts;\n"
    "    sw_optimizer_opts sgd = {};\n    sgd.size = sizeof sgd;\n    sgd.kind = \"sgd\";\n"
    "    sw_run_args args = {};\n    args.size = sizeof args;\n"
    "    sw_plan_info plan = {};\n    plan.size = sizeof plan;\n"
    "    sw_op_desc op = {};\n    op.size = sizeof op;\n"
    "    sw_exec *exec;\n    sw_model *model;\n    net n;\n    double loss = -1;\n"
    "    uint32_t id;\n"
    "    TRY(sw_exec_create(&exec, &opts));\n    TRY(sw_model_create(&model, \"net\"));\n"
    "    n.layer = sw_linear_new(model, \"layer\", 3, 1);\n"
    "    TRY(sw_optimizer_create(&n.opt, model, &sgd));\n"
    "    TRY(sw_model_ready(model, exec, 1));\n"
    "    args.fn = step, args.user = &n, args.models = &model, args.n_models = 1;\n"
    "    args.inputs = in, args.n_inputs = 2;\n"
    "    TRY(sw_plan(exec, &args, &plan));\n    TRY(sw_run(exec, &args));\n"
    "    TRY(sw_metric_get(exec, \"loss\", &loss));\n"
    "    if (sw_op_register(&op, &id) != SW_INVALID) return 2; /* it has no name */\n"
    "    sw_model_destroy(model);\n    sw_exec_destroy(exec);\n"
    "    return !(loss > 0 && plan.n_ops > 0);\n}\n";

/* SW_OPTS without a field and with some, in an array, and as an argument. */
static const char cpp_opts[] =
    "#include <stepwell.h>\nstatic bool is(const sw_exec_opts &opts, int threads)\n{\n"
    "    return opts.size == sizeof opts && opts.threads == threads;\n}\nint main()\n{\n"
    "    const sw_exec_opts of[] = {SW_OPTS(sw_exec_opts), SW_OPTS(sw_exec_opts, .threads = "
    "2)};\n"
    "    return !(is(of[0], 0) && is(of[1], 2) && is(SW_OPTS(sw_exec_opts, .threads = 3), "
    "3));\n"
    "}\n";

static void a_cpp_program_trains_without_a_warning(void)
{
    int n = 0;
    CU_ASSERT(file_write(path_of("opts.cc"), cpp_opts, sizeof cpp_opts - 1));
    CU_ASSERT(file_write(path_of("net.cc"), cpp_program, sizeof cpp_program - 1));
    for (size_t k = 0; k < N_COMPILERS; k++) {
        if (strcmp(compilers[k].flags, CPP_FLAGS) != 0 || !is_here(compilers[k].name))
            continue;
        n++;
        SW_CHECK(sw_shell("%s %s -std=c++20 -Wpedantic -Wno-missing-field-initializers -I'%s' "
                          "'%s' -o '%s' && '%s'",
                          compilers[k].name, compilers[k].flags, include_folder(),
                          path_of("opts.cc"), path_of("opts"), path_of("opts")) == 0,
                 "%s", compilers[k].name);
        if (SANITIZED) {
            (void)compiles(k, include_folder(), "-I.", "net.cc");
            continue;
        }
        SW_CHECK(sw_shell("%s %s -I'%s' '%s' -o '%s' -L'%s/runtime' -lstepwell && "
                          "LD_LIBRARY_PATH='%s/runtime' '%s'",
                          compilers[k].name, compilers[k].flags, include_folder(),
                          path_of("net.cc"), path_of("net"), sw_build_root(), sw_build_root(),
                          path_of("net")) == 0,
                 "%s", compilers[k].name);
    }
    if (n == 0)
        SW_SKIP("no C++ compiler is installed");
}

/* Runs Doxygen as the target `docs` does, over a header, into a folder of the test. */
static int make_reference(const char *header, const char *folder)
{
    return sw_shell("mkdir -p '%s' && cd '%s' && sed -e 's|@VERSION@|0|' -e 's|@HEADER@|%s|' "
                    "-e \"s|@FILTER@|'%s'/tools/docs/doxygen.sed|\" -e 's|@OUTPUT@|%s|' "
                    "'%s/tools/docs/Doxyfile.in' >Doxyfile && doxygen Doxyfile",
                    folder, folder, header, sw_source_root(), folder, sw_source_root());
}

static void the_reference_is_made_without_a_warning(void)
{
    char header[2200], folder[1100];
    if (!is_here("doxygen"))
        SW_SKIP("doxygen is not installed");
    snprintf(header, sizeof header, "%s/runtime/stepwell.h %s/runtime/api", sw_source_root(),
             sw_source_root());
    snprintf(folder, sizeof folder, "%s", path_of("reference"));
    CU_ASSERT_EQUAL(make_reference(header, folder), 0);
    CU_ASSERT_EQUAL(
        sw_shell("grep -q 'Give an exec its profile later' '%s'/html/*.html", folder), 0);
    CU_ASSERT_EQUAL(sw_shell("grep -q 'op by op, for control flow' '%s'/html/*.html", folder),
                    0);
    CU_ASSERT_EQUAL_FATAL(
        sw_shell("printf '/* Of x. */\\n/* Of y: \\\\nonsense */\\nint y(int x);\\n' "
                 ">'%s'",
                 path_of("bad.h")),
        0);
    CU_ASSERT_NOT_EQUAL(make_reference(path_of("bad.h"), folder), 0);
}

static const sw_test tests[] = {
    {"one header is installed, and one for C++ over it", one_header_is_installed},
    {"a project keeps its own headers", a_project_keeps_its_own_headers},
    {"what the header shows is free of warnings", what_the_header_shows_is_free_of_warnings},
    {"each part of the header is short and opens with an example",
     each_part_is_short_and_opens_with_an_example},
    {"the programs that are shown are free of warnings",
     the_programs_that_are_shown_are_free_of_warnings},
    {"the reference is made without a warning", the_reference_is_made_without_a_warning},
    {"a C++ program trains without a warning", a_cpp_program_trains_without_a_warning},
};
SW_SUITE("header", tests)
