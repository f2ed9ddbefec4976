/* tools/packages/deb: what the packages of Debian hold, that they can be installed and removed,
 * and that they are the same bytes twice. Quick tests pack the tree of this build; full ones
 * build the last commit too. */
#include "tests/packages/packages.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH "SOURCE_DATE_EPOCH=1700000000"
/* Not packed tightly, which takes most of the time. */
#define ENVIRONMENT                                                                            \
    EPOCH " DPKG_DEB_COMPRESSOR_TYPE=none DEBFULLNAME='A Tester' DEBEMAIL=a@example.org"
static const char *const names[] = {"stepwell", "libstepwell0", "libstepwell-dev"};

/* The reason why packages cannot be built here; NULL: none. */
static const char *missing(void)
{
    static const char *const tools[] = {"dpkg-deb", "dpkg-gencontrol", "dpkg-shlibdeps",
                                        "strip",    "objdump",         "dpkg"};
    static char why[100];
    if (SANITIZED)
        return "the library is built with a sanitizer";
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
        if (!package_tool_is_here(tools[i])) {
            snprintf(why, sizeof why, "%s is not installed", tools[i]);
            return why;
        }
    return NULL;
}

/* The tree of this build with the prefix /usr, and without the CUDA module, which is not
 * packed. */
static const char *usr_tree(void)
{
    static char tree[1100];
    if (tree[0] == '\0') {
        snprintf(tree, sizeof tree, "%s", sw_temp_path("deb-tree"));
        CU_ASSERT_EQUAL_FATAL(
            sw_shell("mkdir '%s' && cp -a '%s%s' '%s/usr' && cd '%s/usr' && "
                     "rm -rf lib*/stepwell lib*/*/stepwell-cuda && "
                     "sed -i 's|^prefix=.*|prefix=/usr|' \"$(find . -name stepwell.pc)\"",
                     tree, package_tree(), package_prefix(), tree, tree),
            0);
    }
    return tree;
}

/* Packed once; the folder of the packages. */
static const char *packed(void)
{
    static char folder[1100];
    if (folder[0] == '\0') {
        snprintf(folder, sizeof folder, "%s", sw_temp_path("debs"));
        const package_answer *a = package_ask(
            ENVIRONMENT " '%s/tools/packages/deb' --tree '%s' --out '%s' --no-lintian",
            sw_source_root(), usr_tree(), folder);
        SW_CHECK(a->status == 0, "%s", a->text);
    }
    return folder;
}

static void packages_say_what_they_are(void)
{
    const char *why = missing();
    if (why != NULL)
        SW_SKIP(why);
    for (int i = 0; i < 3; i++) {
        const package_answer *a =
            package_ask("dpkg-deb --info '%s'/%s_*.deb", packed(), names[i]);
        char line[100];
        snprintf(line, sizeof line, "\n Package: %s\n", names[i]);
        SW_CHECK(a->status == 0 && strstr(a->text, line) != NULL &&
                     strstr(a->text, "\n Version: " SW_VERSION "-1\n") != NULL &&
                     strstr(a->text, "\n Maintainer: A Tester <a@example.org>\n") != NULL &&
                     strstr(a->text, "libc6") != NULL && strstr(a->text, "${") == NULL,
                 "%s", a->text);
        if (i == 2) /* of the same version, to the digit */
            SW_CHECK(strstr(a->text, "libstepwell0 (= " SW_VERSION "-1)") != NULL, "%s",
                     a->text);
        SW_CHECK((strstr(a->text, "triggers") != NULL) == (i == 1), "%s", a->text);
    }
}

/* Every file of the tree is in one package, by its bytes or made smaller; beside them are the
 * documents. All belongs to root, and nothing may be written by others. */
static void every_file_is_in_one_package(void)
{
    const char *why = missing();
    if (why != NULL)
        SW_SKIP(why);
    const package_answer *a = package_ask(
        "cd '%s' && find usr ! -type d | grep -v '/man1/' | sort > '%s' && "
        "for p in '%s'/*.deb; do dpkg-deb --fsys-tarfile \"$p\" | tar -tf - ; done | "
        "sed 's,^\\./,,' | grep '[^/]$' | grep -v -e '^usr/share/doc/' -e '/man1/' | sort | "
        "diff '%s' -",
        usr_tree(), path_of("files"), packed(), path_of("files"));
    SW_CHECK(a->status == 0, "%s", a->text);
    a = package_ask(
        "cd '%s' && for p in *.deb; do dpkg-deb --contents \"$p\" | "
        "grep -v -e '^[-d]rw[-x]r-[-x]r-[-x] root/root ' -e '^lrwxrwxrwx root/root '"
        "; done; true",
        packed());
    CU_ASSERT_STRING_EQUAL(a->text, "");
    a = package_ask("for p in '%s'/*.deb; do dpkg-deb --fsys-tarfile \"$p\" | tar -tf - ; done",
                    packed());
    static const char *const there[] = {"/man1/stepwell-train.1.gz\n",
                                        "/doc/stepwell/copyright\n",
                                        "/doc/libstepwell0/changelog.Debian.gz\n",
                                        "/doc/stepwell/changelog.gz\n",
                                        "/doc/stepwell/tools/docs/memory.md\n",
                                        "/doc/libstepwell-dev/examples/lenet5.c\n",
                                        "/cmake/stepwell/stepwell-config.cmake\n",
                                        "/share/stepwell/python/stepwell/_header.py\n",
                                        "/pkgconfig/stepwell.pc\n"};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        SW_CHECK(strstr(a->text, there[i]) != NULL, "%s", there[i]);
}

/* Into a root of their own, and out of it again. */
static void packages_are_installed_and_removed(void)
{
    char root[1100];
    const char *why = missing();
    if (why != NULL)
        SW_SKIP(why);
    snprintf(root, sizeof root, "%s", path_of("deb-root"));
    const package_answer *a =
        package_ask("mkdir -p '%s/var/lib/dpkg/updates' '%s/var/lib/dpkg/info' "
                    "'%s/var/lib/dpkg/triggers' && "
                    ": > '%s/var/lib/dpkg/status' && "
                    "dpkg --root='%s' --log=/dev/null --force-not-root,depends,bad-path "
                    "--install '%s'/*.deb",
                    root, root, root, root, root, packed());
    SW_CHECK(a->status == 0, "%s", a->text);
    a = package_ask("cd '%s' && cat var/lib/dpkg/info/*.md5sums | md5sum --quiet -c && "
                    "lib=$(dirname \"$(find \"$PWD/usr\" -name 'libstepwell.so.0')\") && "
                    "usr/bin/stepwell --version && "
                    "cc -o '%s' -I usr/include usr/share/doc/libstepwell-dev/examples/mlp.c "
                    "-L \"$lib\" -lstepwell -lm && LD_LIBRARY_PATH=\"$lib\" '%s'",
                    root, path_of("deb-mlp"), path_of("deb-mlp"));
    SW_CHECK(a->status == 0 && strstr(a->text, SW_VERSION) != NULL &&
                 strstr(a->text, "accuracy") != NULL,
             "%s", a->text);
    a = package_ask(
        "dpkg --root='%s' --log=/dev/null --force-not-root,depends,bad-path --purge "
        "stepwell libstepwell0 libstepwell-dev && cd '%s' && find . -path '*stepwell*'",
        root, root);
    SW_CHECK(a->status == 0 && strstr(a->text, "\n./") == NULL, "%s", a->text);
}

static void the_same_tree_is_the_same_bytes(void)
{
    const char *why = missing();
    if (why != NULL)
        SW_SKIP(why);
    const package_answer *a = package_ask(
        "cp -a '%s' '%s' && find '%s' -exec touch -h {} + && umask 077 && " ENVIRONMENT
        " TZ=Asia/Tokyo '%s/tools/packages/deb' --tree '%s' --out '%s' "
        "--no-lintian && cd '%s' && for p in *.deb; do cmp \"$p\" '%s'/\"$p\" || "
        "exit 1; done",
        usr_tree(), path_of("deb-copy"), path_of("deb-copy"), sw_source_root(),
        path_of("deb-copy"), path_of("debs-again"), path_of("debs-again"), packed());
    SW_CHECK(a->status == 0, "%s", a->text);
}

static void what_cannot_be_packed_is_named(void)
{
    static const struct {
        const char *words, *says; /* %s: an empty folder */
        int status;
    } cases[] = {
        {"--tree", "must be followed by a folder", 2},
        {"--frobnicate", "usage:", 2},
        {"--tree '%s'", "there is no", 1},
        {"--tree / --out /dev/null/x", "/dev/null/x", 1},
    };
    const char *why = missing();
    if (why != NULL)
        SW_SKIP(why);
    CU_ASSERT_EQUAL_FATAL(sw_shell("mkdir -p '%s'", path_of("deb-empty")), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[1200];
        const char *hole = strstr(cases[i].words, "%s");
        snprintf(words, sizeof words, "%.*s%s%s",
                 hole != NULL ? (int)(hole - cases[i].words) : (int)strlen(cases[i].words),
                 cases[i].words, hole != NULL ? path_of("deb-empty") : "",
                 hole != NULL ? hole + 2 : "");
        const package_answer *a =
            package_ask("'%s/tools/packages/deb' %s", sw_source_root(), words);
        SW_CHECK(a->status == cases[i].status && strstr(a->text, cases[i].says) != NULL,
                 "%s: status %d: %s", words, a->status, a->text);
    }
    const package_answer *a =
        package_ask("cp -a '%s' '%s' && : > '%s/usr/lib/stray' && '%s/tools/packages/deb' "
                    "--tree '%s' --out "
                    "'%s'; s=$?; ls -A '%s'; exit $s",
                    usr_tree(), path_of("deb-stray"), path_of("deb-stray"), sw_source_root(),
                    path_of("deb-stray"), path_of("deb-none"), path_of("deb-none"));
    SW_CHECK(a->status == 1 && strstr(a->text, "usr/lib/stray belongs to no package") != NULL &&
                 strstr(a->text, ".deb\n") == NULL,
             "%s", a->text);
}

/* The last commit, from its archive, with lintian where it is installed. */
static void the_last_commit_becomes_packages(void)
{
    const char *why = missing();
    if (why != NULL)
        SW_SKIP(why);
    if (sw_shell("git -C '%s' rev-parse HEAD", sw_source_root()) != 0)
        SW_SKIP("this is no git repository");
    const package_answer *a =
        package_ask("'%s/tools/packages/deb' --out '%s' && cd '%s' && "
                    "dpkg-deb --contents libstepwell0_*.deb | grep -F "
                    "\"./usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)/libstepwell.so.0 \"",
                    sw_source_root(), path_of("debs-built"), path_of("debs-built"));
    SW_CHECK(a->status == 0, "%s", a->text);
}

static const sw_test tests[] = {
    {"packages say what they are", packages_say_what_they_are},
    {"every file is in one package", every_file_is_in_one_package},
    {"packages are installed and removed", packages_are_installed_and_removed},
    {"what cannot be packed is named", what_cannot_be_packed_is_named},
    {"the same tree is the same bytes", the_same_tree_is_the_same_bytes, true},
    {"the last commit becomes packages", the_last_commit_becomes_packages, true},
};
SW_SUITE("deb", tests)
