# awk -f one_header.awk HEADER PART...: HEADER with each of its own includes replaced, once, by the
# PART that it names. One file is installed, so no header of a project can stand in for a part of it.

function copy(path,   line, name, status)
{
    while ((status = (getline line < path)) > 0) {
        if (line !~ /^#include "/) {
            print line
            continue
        }
        split(line, word, "\"")
        name = word[2]
        if (name in done)
            continue
        done[name] = 1
        copy(part_of(name))
    }
    if (status < 0)
        fail("cannot read " path)
    close(path)
}

# The PART with a path that ends in the name.
function part_of(name,   i)
{
    for (i = 2; i < ARGC; i++)
        if (ARGV[i] == name || substr(ARGV[i], length(ARGV[i]) - length(name)) == "/" name)
            return ARGV[i]
    fail(name " is included and is not among the parts")
}

function fail(why)
{
    print "one_header.awk: " why > "/dev/stderr"
    exit 1
}

BEGIN { copy(ARGV[1]) }
