#!/usr/bin/env python3
"""A build as others get it: it is installed once, and its library and header, programs, projects of CMake, packages of Debian, the guide's first page, the container's recipe and the
memory gate are held to that tree.

usage: test_packages.py SOURCE BUILD [--sanitized] [NAME...]    NAME: only tests with this in their names

$STEPWELL_TESTS=full builds more of the same. Tests without their tools are skipped.
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (os.path.abspath(p) for p in sys.argv[1:3])
SANITIZED = "--sanitized" in sys.argv
FULL = os.environ.get("STEPWELL_TESTS") == "full"
CPP = shutil.which("c++") is not None
LANGUAGES = ["c", "c++"] if CPP else ["c"]


def text(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)
    return path


VERSION = re.search(r"^  version: '(.*)',$", text("meson.build"), flags=re.M).group(1)
PROGRAM = """#include <stepwell.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    sw_exec_opts options = {sizeof options};
    sw_exec *exec = NULL;
    options.device = argc > 1 ? argv[1] : NULL;
    if (sw_exec_create(&exec, &options) != SW_OK) { puts(sw_last_error()); return 1; }
    sw_exec_destroy(exec);
    puts(sw_version());
    return 0;
}
"""


def ask(line, cwd=None, **env):
    """(status, what it prints) of a line by sh."""
    done = subprocess.run(["sh", "-c", line], cwd=cwd, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1200)
    return done.returncode, done.stdout.decode(errors="replace")


class Packages(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        """The tree of this build: `tree` stands for "/", `prefix` lies in it."""
        cls.work = tempfile.mkdtemp(prefix="packages.")
        cls.addClassCleanup(shutil.rmtree, cls.work)
        cls.tree = os.path.join(cls.work, "tree")
        status, said = ask(f"meson install -C '{BUILD}' --no-rebuild --destdir '{cls.tree}'")
        assert status == 0, said
        cls.prefix = os.path.dirname(os.path.dirname(cls.find("bin/stepwell")))
        cls.lib = os.path.dirname(cls.find("libstepwell.so"))
        cls.pkg = f"PKG_CONFIG_SYSROOT_DIR='{cls.tree}' PKG_CONFIG_PATH='{cls.lib}/pkgconfig' pkg-config"

    @classmethod
    def find(cls, end):
        found = [os.path.join(at, name) for at, _, names in os.walk(cls.tree) for name in names if os.path.join(at, name).endswith("/" + end)]
        assert len(found) == 1, (end, found)
        return found[0]

    def path(self, *names):
        return os.path.join(self.work, *names)

    def run_line(self, line, status=0, has="", cwd=None, **env):
        """Run a line that must end so, and say this; what it says."""
        got, said = ask(line, cwd, **env)
        self.assertEqual(got, status, f"{line}\n{said}")
        self.assertIn(has, said, line)
        return said

    def need(self, *tools, sanitized=True):
        if SANITIZED and not sanitized:
            self.skipTest("the library is built with a sanitizer")
        for tool in tools:
            if shutil.which(tool) is None:
                self.skipTest(f"{tool} is not installed")

    def build(self, out, source, flags="", libs=None, compiler="cc"):
        """The program that a line of pkg-config builds."""
        made = self.path(out)
        libs = f"$({self.pkg} --cflags --libs stepwell)" if libs is None else libs
        self.run_line(f"{compiler} {flags} '{source}' -o '{made}' {libs}")
        return made

    def test_a_second_build_does_nothing(self):
        """So that a second `tools/try test` takes what its tests take."""
        self.need("ninja")
        if "MESON_TEST_ITERATION" not in os.environ:
            self.skipTest("not under meson test, which builds all first")
        self.run_line(f"ninja -C '{BUILD}' -n -d explain", has="no work to do")

    # ---- the library and its header, in projects of others

    def exported(self):
        """The names that leave the library, without versions."""
        self.need("nm")
        names = [line.split()[2].split("@")[0] for line in self.run_line(f"nm -D --defined-only '{BUILD}/runtime/libstepwell.so'").splitlines() if " A " not in line]
        self.assertGreater(len(names), 50)
        return names

    def header(self):
        with open(f"{self.prefix}/include/stepwell.h", encoding="utf-8") as file:
            return file.read()

    def test_only_public_names_leave_the_library_and_all_of_them(self):
        names = self.exported()
        self.assertEqual([n for n in names if not n.startswith("sw_")], [])
        declared = set(re.findall(r"^(?:SW_MUST_USE )?SW_API [^;(]*?\b(sw_\w+)\(", self.header(), flags=re.M))
        self.assertGreater(len(declared), 100)
        self.assertEqual(declared - set(names), set())

    def test_the_library_names_its_abi_and_needs_no_device_and_no_blas(self):
        self.need("objdump")
        said = self.run_line(f"objdump -p '{BUILD}/runtime/libstepwell.so'")
        self.assertEqual(re.findall(r"SONAME *(.*)", said), ["libstepwell.so.0"])
        needed = " ".join(re.findall(r"NEEDED *(.*)", said))
        self.assertIn("libc.", needed)
        self.assertNotRegex(needed, "cuda|blas")

    def test_every_object_has_an_owner_in_cpp(self):
        """Each that a function of the C header destroys."""
        cpp, objects = text("runtime/installed/stepwell.hpp"), re.findall(r"(?<=\W)sw_\w+_destroy\(sw_(\w+) \*", self.header())
        self.assertGreaterEqual(len(objects), 17)
        for name in objects:
            self.assertTrue(f"\nSTEPWELL_OWNED(sw_{name})" in cpp or name == "profile", name)
        self.assertEqual(sorted(re.findall(r"^using (\w+) = owner<sw_\1>;$", cpp, flags=re.M)), sorted(objects))

    def test_one_header_is_installed_and_one_for_cpp_over_it(self):
        self.assertEqual(sorted(os.listdir(f"{self.prefix}/include")), ["stepwell.h", "stepwell.hpp"])
        self.assertNotIn('#include "', self.header())

    C, CPP_17 = "-std=c11 -Wall -Wextra -Werror", "-std=c++17 -Wall -Wextra -Werror"
    COMPILERS = [(name, flags) for name, flags in (("gcc", C), ("clang", C), ("g++", CPP_17), ("clang++", CPP_17)) if shutil.which(name)]

    def test_the_header_of_the_sources_is_c_and_cpp(self):
        twice = write(self.path("twice.c"), "#include <stepwell.h>\n#include <stepwell.h>\nint main(void) { return 0; }\n")
        for compiler in ["cc -std=c11 -Wpedantic", *(["c++ -x c++ -std=c++11"] if CPP else [])]:
            self.run_line(f"{compiler} -fsyntax-only -Wall -Wextra -Werror -I'{SOURCE}' -I'{SOURCE}/runtime' '{twice}'")

    def test_a_project_keeps_its_own_headers(self):
        """Files with the names of the header's parts, in the folders of the parts and without them. They have the guards that the parts had, and something of their
        own that the project uses. The project's folders stand before ours, after it, and are for quotes alone."""
        parts, own = ["alloc/base/base.h", "kernels/launch.h", "kernels/par.h", "base.h", "launch.h", "par.h"], self.path("own")
        for i, part in enumerate(parts):
            write(f"{own}/{part}", f"#ifndef OWN_{i}\n#define OWN_{i}\n#define SW_BASE_H\n#define SW_LAUNCH_H\n#define SW_PAR_H\nenum {{ own_{i} }};\n#endif\n")
        main = "".join(f'#include "{part}"\n' for part in parts) + "#include <stepwell.h>\nint main(void)\n{\n    sw_par par;\n    (void)par, (void)sw_run;\n    return " + \
            " + ".join(f"(int)own_{i}" for i in range(6)) + " + (int)SW_OK;\n}\n"
        for end in ("c", "cc"):
            write(f"{own}/src/main.{end}", main)
        for name, flags in self.COMPILERS:
            for before, after in [("-I. -Ialloc -Ikernels", ""), ("", "-I. -Ialloc -Ikernels"), ("", "-iquote. -iquotealloc -iquotekernels")]:
                self.run_line(f"{name} {flags} -fsyntax-only {before} -I'{self.prefix}/include' {after} src/main.{'cc' if '++' in name else 'c'}", cwd=own)

    # The examples of the header take these as given.
    GIVEN = """#include <stdio.h>
#include <stepwell.h>
extern sw_exec *exec; extern sw_model *model; extern sw_ctx *ctx; extern sw_knob knob; extern sw_optimizer *optimizer; extern sw_value x, logits, labels;
extern float numbers[6]; extern sw_param weight, bias; extern sw_run_args args; extern uint64_t step; extern sw_step_fn fn; extern sw_dataset *dataset;
extern sw_loader *loader; extern sw_members *members; extern sw_member member; extern sw_feed *feed; extern sw_checkpoint *checkpoint; extern sw_status status;
extern sw_space *space; extern sw_pbt *pbt; extern sw_es *es; extern sw_search_space *search_space; extern sw_genome *genome; extern sw_net *net;
extern sw_evolution *evolution; extern sw_op_desc desc; extern sw_task task; extern sw_checkpoint_info saved;
"""

    def test_what_is_shown_is_free_of_warnings(self):
        """The lines of code in the header's own comments, each block a function: those with `= {}` are C++. And the programs, of which the documents show two whole."""
        write(self.path("given.h"), self.GIVEN)
        blocks = {False: [[]], True: [[]]}
        for line in self.header().splitlines():
            if not line.startswith(" *     "):
                for found in blocks.values():
                    found.append([])
            else:
                blocks["= {}" in line][-1].append(re.sub(r" \*/$", "", line)[3:])
        for name, flags in self.COMPILERS:
            cpp = "++" in name
            functions = (f"sw_status example_{i}(void)\n{{\n" + "\n".join(lines) + "\nreturn SW_OK;\n}\n" for i, lines in enumerate(blocks[cpp]) if lines)
            shown = write(self.path("shown.cc" if cpp else "shown.c"), '#include "given.h"\n' + "".join(functions))
            self.run_line(f"{name} {flags} -fsyntax-only -Wpedantic -Wno-unused-variable -I. -I'{self.prefix}/include' '{shown}'", cwd=self.work)
            if not cpp:
                self.run_line(f"{name} {flags} -fsyntax-only -I'{self.prefix}/include' '{SOURCE}'/tools/examples/*.c '{SOURCE}'/tests/api/*.c")

    def test_each_part_of_the_header_is_short_and_opens_with_an_example(self):
        """An opening comment with five lines of code, which the test before this compiles."""
        for part in sorted(f for f in os.listdir(f"{SOURCE}/runtime/api") if f.endswith(".h")):
            page = text("runtime/api", part)
            opening = page[:page.index("*/")]
            self.assertEqual((page.startswith("/*"), len(re.findall(r"^ \*     ", opening, flags=re.M))), (True, 5), part)
            self.assertLess(page.count("\n"), 400, part)

    # All that C++ has in its own way: options, shapes, descriptors; SW_OPTS without a field and with some, in an array, and as an argument.
    CPP_NET = """#include <stepwell.h>
#include <cstdio>
struct net {
    sw_linear layer;
    sw_optimizer *opt;
};
static void step(sw_ctx *ctx, void *user)
{
    net *n = static_cast<net *>(user);
    sw_value y = sw_apply_linear(ctx, n->layer, sw_input(ctx, 0));
    y = sw_add(ctx, y, sw_randn(ctx, "noise", SW_SHAPE(sw_dim(ctx, y, 0), 1)));
    sw_value loss = sw_mse(ctx, y, sw_input(ctx, 1));
    sw_metric(ctx, "loss", sw_reshape(ctx, loss, SW_SCALAR));
    sw_backward(ctx, loss, &n->opt, 1);
    sw_update(ctx, n->opt);
}
#define TRY(call) if ((call) != SW_OK) return std::puts(sw_last_error()), 1
int main()
{
    static float x[8 * 3], t[8];
    constexpr sw_shape shape = SW_SHAPE(8, 3);
    static_assert(shape.rank == 2 && shape.dim[0] == 8 && shape.dim[1] == 3, "");
    static_assert(SW_SCALAR.rank == 0, "");
    const sw_array in[] = {{SW_F32, shape, x}, {SW_F32, SW_SHAPE(8, 1), t}};
    sw_exec_opts opts = {};
    opts.size = sizeof opts;
    sw_optimizer_opts sgd = {};
    sgd.size = sizeof sgd;
    sgd.kind = "sgd";
    sw_run_args args = {};
    args.size = sizeof args;
    sw_plan_info plan = {};
    plan.size = sizeof plan;
    sw_op_desc op = {};
    op.size = sizeof op;
    sw_exec *exec;
    sw_model *model;
    net n;
    double loss = -1;
    uint32_t id;
    TRY(sw_exec_create(&exec, &opts));
    TRY(sw_model_create(&model, "net"));
    n.layer = sw_linear_new(model, "layer", 3, 1);
    TRY(sw_optimizer_create(&n.opt, model, &sgd));
    TRY(sw_model_ready(model, exec, 1));
    args.fn = step, args.user = &n, args.models = &model, args.n_models = 1;
    args.inputs = in, args.n_inputs = 2;
    TRY(sw_plan(exec, &args, &plan));
    TRY(sw_run(exec, &args));
    TRY(sw_metric_get(exec, "loss", &loss));
    if (sw_op_register(&op, &id) != SW_INVALID) return 2; /* it has no name */
    sw_model_destroy(model);
    sw_exec_destroy(exec);
    return !(loss > 0 && plan.n_ops > 0);
}
"""
    CPP_OPTS = """#include <stepwell.h>
static bool is(const sw_exec_opts &opts, int threads)
{
    return opts.size == sizeof opts && opts.threads == threads;
}
int main()
{
    const sw_exec_opts of[] = {SW_OPTS(sw_exec_opts), SW_OPTS(sw_exec_opts, .threads = 2)};
    return !(is(of[0], 0) && is(of[1], 2) && is(SW_OPTS(sw_exec_opts, .threads = 3), 3));
}
"""

    def test_a_cpp_program_trains_without_a_warning(self):
        self.need("c++")
        include = f"-I'{self.prefix}/include'"
        opts, net = write(self.path("opts.cc"), self.CPP_OPTS), write(self.path("net.cc"), self.CPP_NET)
        for name, flags in self.COMPILERS[-2:]:
            if "++" not in name:
                continue
            self.run_line(f"{name} {flags} -std=c++20 -Wpedantic -Wno-missing-field-initializers {include} '{opts}' -o opts && ./opts", cwd=self.work)
            if SANITIZED:
                self.run_line(f"{name} {flags} -fsyntax-only {include} '{net}'")
            else:
                self.run_line(f"{name} {flags} {include} '{net}' -o net -L'{self.lib}' -lstepwell && ./net", cwd=self.work, LD_LIBRARY_PATH=self.lib)

    def test_the_reference_is_made_without_a_warning(self):
        """By Doxygen, as the target `docs` does, in a folder of the test."""
        self.need("doxygen")

        def reference(name, header):
            folder = self.path(name)
            os.makedirs(folder)
            made = text("tools/docs/Doxyfile.in")
            for mark, value in (("@VERSION@", "0"), ("@HEADER@", header), ("@FILTER@", f"'{SOURCE}'/tools/docs/doxygen.sed"), ("@OUTPUT@", folder)):
                made = made.replace(mark, value)
            write(f"{folder}/Doxyfile", made)
            return ask("doxygen Doxyfile", cwd=folder)

        status, said = reference("reference", f"{SOURCE}/runtime/stepwell.h {SOURCE}/runtime/api")
        self.assertEqual(status, 0, said)
        self.run_line("grep -q 'Give an exec its profile later' html/*.html && grep -q 'op by op, for control flow' html/*.html", cwd=self.path("reference"))
        bad = write(self.path("bad.h"), "/* Of x. */\n/* Of y: \\nonsense */\nint y(int x);\n")
        self.assertNotEqual(reference("bad", bad)[0], 0)

    # ---- the tree, and programs of pkg-config

    def test_an_installed_tree_is_whole(self):
        program = f"{self.prefix}/bin/stepwell"
        self.assertEqual(self.run_line(f"{self.pkg} --modversion stepwell"), VERSION + "\n")
        self.run_line(f"'{program}' --version && '{program}' bench --help")
        pages = [os.path.join(at, name) for at, _, names in os.walk(f"{self.prefix}/share") for name in names if "stepwell" in name]
        self.assertEqual([sum(("/man1/" in p) == man for p in pages if os.path.getsize(p) > 512) for man in (True, False)], [16, 1], pages)
        self.assertTrue(os.path.isfile(f"{self.lib}/libstepwell.a") and os.path.islink(f"{self.lib}/libstepwell.so"))

    def test_the_python_package_works_installed(self):
        """It finds library and program beside it, with no variable that names them."""
        self.need(sanitized=False)
        self.run_line(f"""env -u STEPWELL -u STEPWELL_LIBRARY '{sys.executable}' -c "import stepwell as sw; assert sw.sw_version() == '{VERSION}'
from stepwell import library as loaded; assert '{self.tree}' in loaded()._name
assert sw.plan(model='lenet5', batch=8)['batch'] == 8" """, PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=f"{self.prefix}/share/stepwell/python")

    def check_module(self, said):
        """Built here it is found, and says what is missing besides; otherwise where it was looked for."""
        built = os.path.exists(f"{BUILD}/kernels/cuda/libstepwell-cuda.so")
        self.assertEqual("no CUDA module" not in said, built, said)
        self.assertTrue(built or "stepwell/libstepwell-cuda.so" in said, said)

    def test_programs_link_in_each_way(self):
        """With what pkg-config says of the shared library; with libstepwell.a; and with everything as archives, where the system has it. The CUDA module is found."""
        self.need("cc", "pkg-config")
        self.check_module(ask(f"'{self.prefix}/bin/stepwell' train --device cuda --steps 1")[1])
        self.need(sanitized=False)
        write(self.path("prog.c"), PROGRAM)
        made = self.build("prog", self.path("prog.c"))
        self.assertEqual(self.run_line(f"'{made}'", LD_LIBRARY_PATH=self.lib), VERSION + "\n")
        self.check_module(ask(f"'{made}' cuda", LD_LIBRARY_PATH=self.lib)[1])
        self.run_line(f"PKG_CONFIG_LIBDIR=/nowhere {self.pkg} --cflags --libs stepwell")  # nothing that only a static link needs
        libs = self.run_line(f"{self.pkg} --cflags --static --libs stepwell").strip()
        write(self.path("empty.c"), "int main(void) { return 0; }\n")
        for flags in ("", "-static"):
            if flags and ask(f"cc -static '{self.path('empty.c')}' -o '{self.path('empty')}' {libs.replace('-lstepwell', '')}")[0]:
                print("no archives of the C library, or of what the library uses")
                continue
            made = self.build("static", f"{SOURCE}/tools/examples/mlp.c", flags, libs.replace("-lstepwell", "-l:libstepwell.a"))
            self.run_line(f"'{made}'", has="accuracy")

    def build_and_run(self, folder, least):
        """Every program of a folder, against the installed header and library."""
        self.need("cc", "pkg-config", sanitized=False)
        files = [f for f in os.listdir(f"{SOURCE}/{folder}") if f.endswith(".c") or f.endswith(".cpp") and CPP]

        def one(name):
            compiler = "c++ -std=c++17" if name.endswith(".cpp") else "cc"
            made = self.build("built-" + name, f"{SOURCE}/{folder}/{name}", compiler=compiler)
            words = ["synthetic", "dense", "0.5"] if name == "binary_mnist.c" and not FULL else []  # it runs for some seconds
            done = subprocess.run([made, *words], env={**os.environ, "LD_LIBRARY_PATH": self.lib}, capture_output=True, text=True, timeout=120)
            self.assertTrue(done.returncode == 0 and done.stdout and not done.stderr, f"{name}: {done}")

        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(one, files))
        self.assertGreaterEqual(len(files), least)

    def test_the_training_programs_build_and_run_installed(self):
        self.build_and_run("tools/examples", 2)

    @unittest.skipUnless(FULL, "quick: the tests api-* run them as built")
    def test_the_example_programs_build_and_run_installed(self):
        self.build_and_run("tests/api", 9)

    # ---- CMake

    PROJECT = """cmake_minimum_required(VERSION 3.10)
project(uses ${LANGUAGES})
find_package(stepwell ${REQUESTED} REQUIRED COMPONENTS ${PARTS})
find_package(stepwell ${REQUESTED} REQUIRED) # twice is fine
foreach(language ${LANGUAGES})
    string(REPLACE CXX cc ending ${language})
    string(REPLACE C c ending ${ending})
    foreach(part ${PARTS})
        add_executable(${language}_${part} uses.${ending})
        string(REPLACE shared stepwell target stepwell::${part})
        string(REPLACE ::static ::stepwell_static target ${target})
        target_link_libraries(${language}_${part} PRIVATE ${target})
    endforeach()
endforeach()
"""

    def configure(self, prefix, languages, asked, parts):
        """CMake in a folder of its own."""
        write(self.path("uses/CMakeLists.txt"), self.PROJECT)
        for end in ("c", "cc"):
            write(self.path("uses/uses." + end), PROGRAM)
        return ask(f"rm -rf out && cmake -S uses -B out -DCMAKE_PREFIX_PATH='{prefix}' -DLANGUAGES='{languages}' -DREQUESTED='{asked}' -DPARTS='{parts}' "
                   "-Wdev -Werror=dev", cwd=self.work)

    def test_projects_of_cmake_build(self):
        """The tree lies below DESTDIR, and is moved to a folder with blanks in its name first."""
        self.need("cmake", sanitized=False)
        moved, both = self.path("a moved tree"), "C;CXX" if CPP else "C"
        shutil.copytree(self.prefix, moved, symlinks=True)
        for prefix, languages, parts in [(moved, both, "shared;static"), *((self.prefix, a, b) for a in both.split(";") for b in ("shared", "static") if FULL)]:
            status, said = self.configure(prefix, languages, "0.1", parts)
            self.assertEqual(status, 0, said)
            self.run_line("cmake --build out", cwd=self.work)
            for program in (f"{a}_{b}" for a in languages.split(";") for b in parts.split(";")):
                self.assertEqual(self.run_line(self.path("out", program)), VERSION + "\n")

    def test_what_cmake_misses_is_named(self):
        self.need("cmake")
        cases = [("nothing", "0.1", "shared", None), ("lib*/libstepwell.a", "", "shared", None), ("lib*/libstepwell.a", "", "static", "the static library is not in"),
                 ("lib*/libstepwell.so*", "", "static", None), ("lib*/libstepwell.so*", "", "shared", "the shared library is not in"),
                 ("lib*/libstepwell.*", "", "shared", f"neither libstepwell.so.{VERSION} nor"), ("include/stepwell.h", "", "shared", "stepwell.h is not there"),
                 ("nothing", "", "cuda", "a component is shared or static"), ("nothing", "99.1", "shared", f"version: {VERSION}")]  # fmt: skip
        broken = self.path("broken tree")
        for remove, asked, parts, says in cases if FULL else cases[2:3]:
            self.run_line(f"rm -rf '{broken}' && cp -a '{self.prefix}' '{broken}' && cd '{broken}' && rm -f {remove}")
            status, said = self.configure(broken, "C", asked, parts)
            self.assertEqual(status == 0, says is None, said)
            self.assertIn(says or "", re.sub(r"\s+", " ", said))  # CMake breaks lines where it likes

    def test_versions_fit_by_the_number_of_the_abi(self):
        """The file of the version alone, as CMake includes it."""
        self.need("cmake")
        script = write(self.path("version.cmake"), 'include("${FILE}")\nif(PACKAGE_VERSION_UNSUITABLE)\n    set(PACKAGE_VERSION_COMPATIBLE FALSE)\nendif()\n'
                       'message("${PACKAGE_VERSION_COMPATIBLE} ${PACKAGE_VERSION_EXACT}")\n')
        between = "_RANGE=0.1...0.999 _MIN_MAJOR=0 _MIN=0.1 _RANGE_MAX=INCLUDE _MAX=0.999"
        for asked, said in [("", "TRUE FALSE"), ("=0.1 _MAJOR=0", "TRUE FALSE"), (f"={VERSION} _MAJOR=0", "TRUE TRUE"), ("=0.999 _MAJOR=0", "FALSE FALSE"),
                            ("=1.0 _MAJOR=1", "FALSE FALSE"), (between, "TRUE FALSE"),
                            (between.replace("0.999", VERSION).replace("...", "...<").replace("INCLUDE", "EXCLUDE"), "FALSE FALSE")]:
            words = " ".join(f"'-DPACKAGE_FIND_VERSION{w}'" for w in asked.split())
            self.assertEqual(self.run_line(f"cmake -DFILE='{self.find('stepwell-config-version.cmake')}' {words} -P '{script}'"), said + "\n", asked)
        self.assertEqual(self.run_line(f"cmake -DFILE='{self.find('stepwell-config-version.cmake')}' -DCMAKE_SIZEOF_VOID_P=2 -P '{script}'"), "FALSE FALSE\n")

    # ---- the MPI module's source

    def test_the_module_is_made_by_another_mpi(self):
        """By the command of the guide, with each mpicc that is here and its launcher; it is opened in place of the one that is installed."""
        command = re.search(r"&& (mpicc .*) -o ~/my-mpi.so\)$", text("tools/docs/packages.md"), flags=re.M).group(1)
        self.assertIn(f"`{command} -o my-mpi.so`", text("runtime/transport/README.md"))
        self.need(sanitized=False)
        folder, program, ran = self.path("mpi"), f"'{self.prefix}/bin/stepwell'", 0
        shutil.copytree(f"{self.prefix}/share/stepwell/mpi", folder)
        words = "es --model mlp --hidden 8 --synthetic-n 100 --population 16 --slice 4 --generations 2 --save-params"
        self.run_line(f"{program} {words} one", cwd=folder)
        for mpi, more in (("openmpi", "--allow-run-as-root --oversubscribe"), ("mpich", "")):
            if shutil.which(f"mpicc.{mpi}") is None or shutil.which(f"mpirun.{mpi}") is None:
                continue
            self.run_line(f"{command.replace('mpicc', 'mpicc.' + mpi)} -Wall -Wextra -Werror -o my-{mpi}.so && rm -f two", cwd=folder)
            run = f"mpirun.{mpi} {more} -n 2 {program} {words} two --json"
            self.assertIn("not-there.so", ask(run, folder, STEPWELL_MPI_MODULE="not-there.so")[1])
            self.run_line(f"{run} && cmp one two", has='"ranks":[{', cwd=folder, STEPWELL_MPI_MODULE=f"./my-{mpi}.so")
            ran += 1
        if ran == 0:
            self.skipTest("no mpicc with its mpirun is here")

    # ---- packages of Debian: quick packs the tree of this build, full the last commit too

    NAMES = ["stepwell", "libstepwell0", "libstepwell-dev"]
    WHO = {"SOURCE_DATE_EPOCH": "1700000000", "DEBFULLNAME": "A Tester", "DEBEMAIL": "a@example.org", "DPKG_DEB_COMPRESSOR_TYPE": "none"}  # not packed tightly: faster

    def deb(self, words, **more):
        return f"'{SOURCE}/tools/packages/deb' {words}", {**self.WHO, **more}

    def debs(self):
        """The folder of the packages and the tree that they are of: with the prefix /usr, and without the CUDA module, which is not packed."""
        self.need("dh", sanitized=False)
        tree, out = self.path("deb-tree"), self.path("debs")
        if not os.path.exists(out):
            self.run_line(f"mkdir '{tree}' && cp -a '{self.prefix}' '{tree}/usr' && cd '{tree}/usr' && rm -rf lib*/stepwell lib*/*/stepwell-cuda && "
                          "sed -i 's|^prefix=.*|prefix=/usr|' \"$(find . -name stepwell.pc)\"")
            line, env = self.deb(f"--tree '{tree}' --out '{out}' --no-lintian")
            self.run_line(line, **env)
        return out, tree

    def test_packages_say_what_they_are(self):
        out, _ = self.debs()
        for name in self.NAMES:
            said = self.run_line(f"dpkg-deb --info '{out}'/{name}_*.deb", has=f"\n Package: {name}\n")
            for part in (f"\n Version: {VERSION}-1\n", "\n Maintainer: A Tester <a@example.org>\n", "libc6"):
                self.assertIn(part, said)
            self.assertNotIn("${", said)
            self.assertEqual("triggers" in said, name == "libstepwell0")
            self.assertEqual(f"libstepwell0 (= {VERSION}-1)" in said, name == "libstepwell-dev")  # of the same version, to the digit

    def test_every_file_is_in_one_package(self):
        """By its bytes or made smaller; beside them are the documents. All belongs to root, and nothing may be written by others."""
        out, tree = self.debs()
        rows = self.run_line(f"for p in '{out}'/*.deb; do dpkg-deb --contents \"$p\"; done").splitlines()
        self.assertEqual([r for r in rows if not re.match(r"([-d]rw[-x]r-[-x]r-[-x]|lrwxrwxrwx) root/root ", r)], [])
        packed = sorted(r.split()[5][2:] for r in rows if not r.startswith("d"))
        installed = [os.path.relpath(os.path.join(at, n), tree) for at, folders, names in os.walk(tree) for n in names]
        is_own = lambda p: not p.startswith("usr/share/doc/") and "/man1/" not in p
        self.assertEqual([p for p in packed if is_own(p)], sorted(filter(is_own, installed)))
        for end in ("/man1/stepwell-train.1.gz", "/doc/stepwell/copyright", "/doc/libstepwell0/changelog.Debian.gz", "/doc/stepwell/changelog.gz", "/doc/stepwell/tools/docs/memory.md",
                    "/doc/libstepwell-dev/examples/lenet5.c", "/cmake/stepwell/stepwell-config.cmake", "/share/stepwell/python/stepwell/_header.py", "/pkgconfig/stepwell.pc"):
            self.assertTrue(any(p.endswith(end) for p in packed), end)

    def test_packages_are_installed_and_removed(self):
        """Into a root of their own, and out of it again."""
        out, _ = self.debs()
        root, dpkg = self.path("deb-root"), f"dpkg --root='{self.path('deb-root')}' --log=/dev/null --force-not-root,depends,bad-path"
        for folder in ("updates", "info", "triggers"):
            os.makedirs(f"{root}/var/lib/dpkg/{folder}")
        write(f"{root}/var/lib/dpkg/status", "")
        self.run_line(f"{dpkg} --install '{out}'/*.deb")
        said = self.run_line("cat var/lib/dpkg/info/*.md5sums | md5sum --quiet -c && lib=$(dirname \"$(find \"$PWD/usr\" -name 'libstepwell.so.0')\") && usr/bin/stepwell --version && "
                             "cc -o mlp -I usr/include usr/share/doc/libstepwell-dev/examples/mlp.c -L \"$lib\" -lstepwell -lm && LD_LIBRARY_PATH=\"$lib\" ./mlp && rm mlp", has="accuracy", cwd=root)
        self.assertIn(VERSION, said)
        self.assertNotIn("\n./", self.run_line(f"{dpkg} --purge {' '.join(self.NAMES)} && find . -path '*stepwell*'", cwd=root))

    @unittest.skipUnless(FULL, "full runs it")
    def test_the_same_tree_is_the_same_bytes(self):
        out, tree = self.debs()
        line, env = self.deb(f"--tree '{tree}-copy' --out '{out}-again' --no-lintian", TZ="Asia/Tokyo")
        self.run_line(f"cp -a '{tree}' '{tree}-copy' && find '{tree}-copy' -exec touch -h {{}} + && umask 077 && {line} && cd '{out}' && for p in *.deb; do cmp \"$p\" '{out}-again'/\"$p\" || exit 1; done", **env)

    def test_what_cannot_be_packed_is_named(self):
        out, tree = self.debs()
        os.mkdir(self.path("deb-empty"))
        for words, says, status in [("--tree", "must be followed by a folder", 2), ("--frobnicate", "usage:", 2), (f"--tree '{self.path('deb-empty')}'", "there is no", 1),
                                    ("--tree / --out /dev/null/x", "/dev/null/x", 1)]:
            self.run_line(self.deb(words)[0], status, says)
        stray = self.path("deb-stray")
        line, env = self.deb(f"--tree '{stray}' --out '{stray}-out'")
        said = self.run_line(f"cp -a '{tree}' '{stray}' && : > '{stray}/usr/lib/stray' && {line}; s=$?; ls -A '{stray}-out'; exit $s", 1, "usr/lib/stray exists in debian/tmp but is not installed", **env)
        self.assertNotIn(".deb\n", said)

    @unittest.skipUnless(FULL, "full runs it")
    def test_the_last_commit_becomes_packages(self):
        """From its archive, with lintian where it is installed."""
        self.debs()
        if ask("git rev-parse HEAD", cwd=SOURCE)[0]:
            self.skipTest("this is no git repository")
        out = self.path("debs-built")
        line, env = self.deb(f"--out '{out}'")
        self.run_line(line, **env)
        self.run_line(f"dpkg-deb --contents '{out}'/libstepwell0_*.deb | grep -F \"./usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)/libstepwell.so.0 \"")

    # ---- the container's recipe, as far as no container is needed

    def packages_of(self, lines):
        found = [re.search(r"--no-install-recommends ([^&]*)", line) for line in lines]
        return [m.group(1).split() for m in found if m]

    def test_what_the_container_copies_is_there_and_enough(self):
        """Every folder and file that meson reads: a copy of them alone is configured, in full mode."""
        copied = [w for line in text("tools/packages/Containerfile").splitlines() if line.startswith("COPY ") and "--from" not in line for w in line.split()[1:-1]]
        self.assertEqual((len(copied), [w for w in copied if not os.path.exists(os.path.join(SOURCE, w))]), (7, []))
        if FULL and not SANITIZED:
            self.run_line(f"mkdir copied && cd copied && (cd '{SOURCE}' && tar -cf - {' '.join(copied)}) | tar -xf - && "
                          "meson setup ../copied-build -Dtests=disabled -Dcuda=disabled -Ddocs=disabled", cwd=self.work)

    def test_the_container_is_built_with_what_tools_try_installs(self):
        """All of it, except tools for tests."""
        installed = set(re.findall(r"printf ' ([a-z0-9.-]*)'", text("tools/try"))) - {"g++", "libcunit1-dev"}
        self.assertGreaterEqual(len(installed), 8)
        self.assertLessEqual(installed, set(self.packages_of(text("tools/packages/Containerfile").splitlines())[0]))

    def test_the_image_has_the_libraries_of_the_program(self):
        """The system says which package a library is of; the C library is in every image."""
        self.need("dpkg-query", "objdump", sanitized=False)
        owners = self.run_line(f"dpkg-query -S $(objdump -p '{BUILD}/tools/stepwell' | sed -n 's:.*NEEDED *:*/*-linux-gnu*/:p') || :")
        first = {}
        for line in owners.splitlines():
            first.setdefault(line.rsplit("/", 1)[-1], line.split(":")[0])
        self.assertLessEqual(set(first.values()) - {"libc6"}, set(self.packages_of(text("tools/packages/Containerfile").splitlines())[-1]))

    def test_the_commands_of_the_container_are_commands(self):
        commands = [line[4:] for line in text("tools/packages/Containerfile").splitlines() if line.startswith("RUN ")]
        self.assertEqual(len(commands), 6)
        for command in commands:
            self.assertEqual(subprocess.run(["sh", "-n", "-c", command]).returncode, 0, command)

    # ---- the guide's first page: each of its answers is three commands that work, with what is installed, in an empty folder

    # One request of 1,000 bytes in a segment of 2 MiB, as PyTorch records it.
    SNAPSHOT = """{"segments": [{"device": 0, "address": 1048576, "total_size": 2097152, "stream": 0, "segment_type": "small", "allocated_size": 1024, "active_size": 1024,
"blocks": [{"address": 1048576, "size": 1024, "requested_size": 1000, "state": "active_allocated"}, {"address": 1049600, "size": 2096128, "state": "inactive"}]}],
"device_traces": [[{"action": "segment_alloc", "addr": 1048576, "size": 2097152, "stream": 0}, {"action": "alloc", "addr": 1048576, "size": 1000, "stream": 0}]]}"""

    def left_out(self, commands):
        """Why these commands are not for this build, this machine or a quick run; None: they are."""
        if not FULL and ("--members" in commands or "evolve" in commands):
            return "full runs it"
        if SANITIZED and (commands.startswith("cp ") or "python3" in commands):
            return "a program of others cannot link a sanitized library"
        return next((tool for tool in ("c++", "python3", "pkg-config") if tool in commands and shutil.which(tool) is None), None)

    def test_each_answer_is_three_commands_that_work(self):
        folder, ran = self.path("first-page"), 0
        write(f"{folder}/snapshot.pickle", self.SNAPSHOT)
        for name in ("tools", "tests"):
            os.symlink(os.path.join(SOURCE, name), os.path.join(folder, name))
        with open(self.find("stepwell.pc"), encoding="utf-8") as file:
            write(f"{folder}/stepwell.pc", re.sub("^prefix=.*", f"prefix={self.prefix}", file.read(), flags=re.M))
        answers = re.findall(r"^```sh\n(.*?)^```$", text("tools/docs/README.md"), flags=re.M | re.S)
        for commands in answers:
            self.assertEqual(len(commands.splitlines()), 3, commands)
            why = self.left_out(commands)
            if why is None:
                self.run_line("set -e\n" + commands, cwd=folder, PATH=f"{self.prefix}/bin:{os.environ['PATH']}", PKG_CONFIG_PATH=folder, LD_LIBRARY_PATH=self.lib)
                ran += 1
            else:
                print(f"left out ({why}): {commands[:40]}")
        self.assertTrue(len(answers) == 9 and ran >= (4 if SANITIZED else 5), (len(answers), ran))

    # ---- the memory gate: its commands as they stand, each by `sh -e` as GitHub runs it

    def workflow(self):
        """The steps of the workflow, (name, whether it always runs, command), and its environment."""
        page = text("tools/packages/memory-gate.yml")
        self.assertNotIn("\t", page)
        env = dict(re.findall(r"^      (\w+): (.*)$", re.search(r"^    env:\n(.*?)^    steps:", page, flags=re.M | re.S).group(1), flags=re.M))
        steps = []
        for step in re.split(r"^      - ", page, flags=re.M)[1:]:
            command = re.search(r"^        run: (?:\|\n((?:(?: {10}.*)?\n)*)|(.*\n))", step, flags=re.M)
            command = "" if command is None else re.sub("^ {10}", "", command.group(1) or command.group(2), flags=re.M)
            steps.append((re.match(r"name: (.*)", step).group(1) if step.startswith("name: ") else "", "\n        if: always()\n" in step, command))
        self.assertEqual(len(steps), 7)
        return steps, {**env, "PATH": f"{BUILD}/tools:{os.environ['PATH']}"}

    def gate(self, folder, steps, env):
        """The name of the first step that fails and what it says; after it come those that come always."""
        failed = None
        for name, always, command in steps:
            if command and (failed is None or always):
                write(f"{folder}/step.sh", command)
                status, said = ask("sh -e step.sh", cwd=folder, GITHUB_STEP_SUMMARY=f"{folder}/summary.md", **env)
                if status and failed is None:
                    failed = (name, said)
                else:
                    self.assertEqual(status, 0, f"{name}: {said}")
        return failed

    def base(self, name, words=""):
        """A folder with the profile of the accepted state, by the line that the file's head and the guide name; with other words where the state is another."""
        steps, env = self.workflow()
        os.makedirs(self.path(name, "memory"))
        train = next(command for step, _, command in steps if step == "Train")
        self.run_line(f"{train.strip()} && mv run.jsonl memory/base.jsonl", cwd=self.path(name), **{**env, "TRAIN": f"{env['TRAIN']} {words}"})
        return self.path(name), steps, env

    def test_the_gate_opens_where_nothing_grew(self):
        folder, steps, env = self.base("gate-open")
        self.assertIsNone(self.gate(folder, steps, env))
        self.run_line("test -s run.html && grep -q 'peak in each phase' summary.md", cwd=folder)

    def test_the_gate_closes_where_the_peak_grew(self):
        folder, steps, env = self.base("gate-closed", "--batch 32")  # the last word counts: the accepted state had smaller batches
        name, said = self.gate(folder, steps, env)
        self.assertEqual(name, "Fail where the peak grew")
        self.assertRegex(said, r"(?s)(?=.*more than --fail-on-increase 2%)(?=.*what grew most)")
        self.run_line("test -s run.html && rm memory/base.jsonl", cwd=folder)  # drawn all the same
        name, said = self.gate(folder, steps, env)
        self.assertEqual((name, "memory/base.jsonl" in said), ("Say what changed", True), said)
        self.assertRegex(self.gate(folder, steps, {**env, "LIMIT": "4KiB"})[0], "^Plan")  # no budget that the plan fits


if __name__ == "__main__":
    chosen = [w for w in sys.argv[3:] if not w.startswith("--")]
    tests = unittest.defaultTestLoader.loadTestsFromTestCase(Packages)
    tests = unittest.TestSuite(t for t in tests if not chosen or any(n in t.id() for n in chosen))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(tests)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(1 if failed or not result.testsRun else 0)
