#!/bin/sh
# A first time on a card, in parts that fit short commands: each leaves a page of its own, also where it is killed.
#   tools/bench/device.sh PART --out DIR [--commit TEXT] [--build DIR] [--as-is] [--packages DIR] [--python PYTHON]
#                         [--seconds N] [--jobs N] [--only NAMES]
#
# PART, in the order of worth:
#   build      configure and build what the parts need
#   suite      the device suite: entries of each op in a process of their own, then all other tests
#   gpt124m    whole steps beside PyTorch: eager in TF32, compiled in TF32 and bf16, and the first step of each
#   memcheck   compute-sanitizer over whole steps, then over what suite has, each operand an allocation
#   mlp4096, mbconv, lenet5, card    as gpt124m; card: what its memory and products can do
#   racecheck  racecheck, synccheck and initcheck over whole steps
#   merge      one page of all pages in DIR: DIR/page.md
#
#   --out       gets PART.md; of suite and memcheck PART-ops.txt, of networks PART-figures.md: as they come
#   --commit    the sources, where .git does not travel (default: what git says)
#   --build     where to build (default: build-device); a part builds what is missing there
#   --as-is     build nothing: the programs in --build were made elsewhere
#   --packages  Debian packages of what the machine lacks (libcunit1-dev, libxxhash-dev), or the folder in which they
#               were unpacked (with usr/ in it); nothing is installed, nothing is fetched
#   --python    an interpreter that has PyTorch (default: python3); without PyTorch a page has our figures alone. A build looks
#               for cuBLASLt in its packages too
#   --seconds   after which a part ends, and names what it did not reach (default: 24 minutes for the first four together,
#               300, 360, 420 and 360; 500 for each other)
#   --jobs      processes at a time of suite and memcheck (default: the processors)
#   --only      of suite and memcheck: these ops, and K/40 for a 40th of the other tests, in one word with commas
#
# Status: 0 when all of the part was good, 1 when something was not, 2 for wrong usage, 5 without a card or a program.
# Logs stay in the build folder's device-logs/. With STEPWELL_CUDA_MODULE set to the tests' module, which needs no card,
# a part is a rehearsal, and its page says so. The card's settings stay as they are.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
all='build suite gpt124m memcheck mlp4096 mbconv lenet5 card racecheck'
usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$here/tools/bench/device.sh"; }
wrong() { echo "device.sh: $1; --help lists parts and options" >&2; exit 2; }

part='' out='' commit='' build=build-device as_is='' packages='' python=python3 seconds='' jobs='' only=''
while [ $# -gt 0 ]; do
    case $1 in
    --help) usage; exit 0 ;;
    --as-is) as_is=1 ;;
    --out | --commit | --build | --packages | --python | --seconds | --jobs | --only)
        [ $# -ge 2 ] || wrong "$1 has no value"
        case $1 in
        --out) out=$2 ;;
        --commit) commit=$2 ;;
        --build) build=$2 ;;
        --packages) packages=$2 ;;
        --python) python=$2 ;;
        --seconds) seconds=$2 ;;
        --jobs) jobs=$2 ;;
        --only) only=$2 ;;
        esac
        shift
        ;;
    -*) wrong "there is no option $1" ;;
    *) [ -z "$part" ] || wrong "one part at a time, not '$part' and '$1'"; part=$1 ;;
    esac
    shift
done
case " $all merge " in *" ${part:-none} "*) ;; *) wrong "PART must be one of: $all merge (got '$part')" ;; esac
case $part in build) limit=300 ;; suite | memcheck) limit=360 ;; gpt124m) limit=420 ;; *) limit=500 ;; esac
seconds=${seconds:-$limit}
[ -n "$out" ] || wrong '--out DIR must say where the pages go'
case "$seconds$jobs" in *[!0-9]*) wrong "--seconds and --jobs must be numbers (got '$seconds' and '$jobs')" ;; esac
[ -z "$packages" ] || [ -d "$packages" ] || wrong "--packages: there is no folder $packages"

# Paths that were given are the caller's; all others are of the tree.
mkdir -p "$out"
out=$(CDPATH='' cd -- "$out" && pwd)
[ -z "$packages" ] || packages=$(CDPATH='' cd -- "$packages" && pwd)
PATH=$PATH:/usr/local/cuda/bin # where nvcc and compute-sanitizer often are
case $build in build-device | /*) ;; *) build=$PWD/$build ;; esac
cd -- "$here"

# ---- one page of all -----------------------------------------------------------------------
merge() {
    {
        printf '# On a device\n\n'
        head -qn 1 "$out"/*.md 2>/dev/null | grep '^<!-- of ' | sort -u > "$out/.stamps" || true
        [ "$(wc -l < "$out/.stamps")" -le 1 ] || printf '**These pages are of several sources or cards; each says its own.**\n\n'
        rm -f "$out/.stamps"
        for each in $all; do
            if [ ! -f "$out/$each.md" ]; then
                printf '## %s\n\n- not run\n\n' "$each"
                continue
            fi
            sed '1d; s/^# /## /' "$out/$each.md"
            ! grep -q '^- \*\*now' "$out/$each.md" || echo '- **killed**: the page ends there'
            [ ! -f "$out/$each-ops.txt" ] || awk '$2 == "good," { good++; next } { print "- " $0 }
                END { printf "- '"$each"'-ops.txt: %d of %d processes that ended were good\n", good, NR }' "$out/$each-ops.txt"
            echo
            [ ! -f "$out/$each-figures.md" ] || { sed '1d; 2d' "$out/$each-figures.md"; echo; }
        done
    } > "$out/page.md.new"
    mv "$out/page.md.new" "$out/page.md"
    echo "written: $out/page.md"
    [ ! -f "$out/DEVICE.md" ] || echo "the list of kernels that a card has checked: copy $out/DEVICE.md to tests/cuda/DEVICE.md"
}
if [ "$part" = merge ]; then
    merge
    exit 0
fi

# ---- the page of this part -----------------------------------------------------------------
now() { date +%s; }
begun=$(now) child='' doing='' list='' ended='' bad=0 spare=0 # seconds that are kept for what comes after
mkdir -p "$build" || wrong "--build: $build cannot be made"
build=$(CDPATH='' cd -- "$build" && pwd)
logs=$build/device-logs/$part
rm -rf "$logs" "$out/$part-ops.txt" "$out/$part-figures.md"
mkdir -p "$logs"
body=$logs/page

# The page is what stands in `body`, and a last line for now: it is whole whatever ends this script.
page() {
    { cat "$body"; [ -z "$1" ] || printf '%s\n' "$1"; } > "$out/$part.md.new"
    mv "$out/$part.md.new" "$out/$part.md"
}
note() { printf '%s\n' "$1" | tee -a "$body"; page ''; }
after() { echo "$(($(now) - begun)) s"; }
quote() { sed 's/^/      /' >> "$body"; page ''; }
lack() {
    note "- BAD: $1"
    echo "device.sh: $1" >&2
    bad=5
    exit 5
}
needs() { command -v "$1" > /dev/null 2>&1 || lack "$1 is not in PATH: $2"; }
killed() {
    [ -z "$child" ] || kill -TERM "$child" 2> /dev/null || true
    note "- **killed** after $(after), in: ${doing:-the begin}"
    [ -z "$list" ] || so_far
    ended=1
    [ -z "$child" ] || wait "$child" || true
    exit 143
}
finish() {
    code=$?
    [ -n "$ended" ] || note "- ended after $(after): $([ "$code" = 0 ] && echo good || echo BAD)"
}
trap killed TERM INT HUP
trap finish EXIT

# Run it, for the time that is left, with its output in a log; $word says how it went. `timeout` hands a TERM on to all
# that it started.
try() {
    doing=$1
    log=$logs/$(printf '%s' "$1" | tr -cs 'A-Za-z0-9' '-').log
    shift
    left=$((begun + seconds - spare - $(now)))
    if [ "$left" -le 0 ]; then
        word='not reached, no time was left' bad=1
        return 0
    fi
    page "- **now**, since $(after): $doing"
    timeout -k 5 "$left" "$@" > "$log" 2>&1 &
    child=$!
    status=0
    wait "$child" || status=$?
    child=''
    case $status in
    0) word=good ;;
    124 | 137) word="BAD, no end in the $left s that were left" bad=1 ;;
    *) word="BAD, status $status" bad=1 ;;
    esac
}
# The same with a line on the page, which ends with what the log says in short; and the log's end where it was bad.
told() {
    try "$@"
    note "- $doing: $word, after $(after)$(grep -hs 'ERROR SUMMARY\|RACECHECK SUMMARY\|beside arenas' "$log" | tail -n 1 | sed 's/^[= ]*/: /')"
    case $word in BAD*) tail -n 8 "$log" | quote ;; esac
}

# ---- the card and the sources --------------------------------------------------------------
rehearsal=''
card=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2> /dev/null | head -n 1) || card=''
if [ -z "$card" ]; then
    rehearsal=${STEPWELL_CUDA_MODULE:-}
    card="no card${rehearsal:+ (a rehearsal with ${rehearsal##*/})}, none, none"
fi
if [ -z "$commit" ]; then
    if commit=$(git rev-parse --short HEAD 2> /dev/null); then
        git diff --quiet HEAD -- . ':!tests/cuda/DEVICE.md' ':!tools/bench/results' || commit="$commit, with changes"
    else
        commit='not given (--commit)'
    fi
fi
jobs=${jobs:-$(nproc 2> /dev/null || echo 4)}
printf '<!-- of %s, %s -->\n# %s, %s\n\n- sources: %s; card, driver, memory: %s; %s processors; limit %s s\n' "$commit" "$card" "$part" \
    "$(date +%Y-%m-%d)" "$commit" "$card" "$jobs" "$seconds" > "$body"
page ''
[ -n "$rehearsal" ] || [ "${card#no card}" = "$card" ] || lack "nvidia-smi shows no card: for a rehearsal without one \
set STEPWELL_CUDA_MODULE to the tests' module, BUILD/tests/cuda/libstepwell-cuda-fake.so"
needs timeout 'it is in coreutils'
needs "$python" '--python names an interpreter'

# ---- build ---------------------------------------------------------------------------------
stepwell=$build/tools/stepwell program=$build/tests/cuda/test_on_card
[ -n "$rehearsal" ] || export STEPWELL_CUDA_MODULE="$build/kernels/cuda/libstepwell-cuda.so"
export PYTHONUNBUFFERED=1

unpack() {
    root=$packages
    for deb in "$packages"/*.deb; do
        [ -f "$deb" ] || continue
        root=$build/packages
        mkdir -p "$root"
        needs dpkg "carry the packages unpacked: dpkg -x FILE FOLDER"
        dpkg -x "$deb" "$root"
    done
    [ -d "$root/usr/include" ] || lack "--packages: $packages has neither Debian packages nor usr/include"
    # Where compilers and the loader look besides; pkg-config need not be there.
    export C_INCLUDE_PATH="$root/usr/include" CPLUS_INCLUDE_PATH="$root/usr/include"
    for folder in "$root"/usr/lib "$root"/usr/lib/*-linux-gnu; do
        LIBRARY_PATH=$folder${LIBRARY_PATH:+:$LIBRARY_PATH}
        LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    done
    export LIBRARY_PATH LD_LIBRARY_PATH
}

make_build() {
    needs meson 'carry a build folder and give --as-is, or install it (pip install meson)'
    needs ninja 'carry a build folder and give --as-is, or install it (pip install ninja)'
    needs cc 'a C compiler makes the program; or carry a build folder and give --as-is'
    [ -n "$rehearsal" ] || needs nvcc "it is in the toolkit's bin"
    if [ ! -f "$build/build.ninja" ]; then
        # Parts that the machine lacks are left out, but for CUDA; nothing is fetched.
        told configure env "PATH=$(dirname -- "$(command -v "$python")"):$PATH" meson setup --wrap-mode=nodownload "$build" . \
            "-Dcuda=$([ -n "$rehearsal" ] && echo disabled || echo enabled)"
        [ "$word" = good ] || { rm -f "$build/build.ninja"; exit 1; }
    fi
    set -- tools/stepwell tools/stepwell-bench
    [ -n "$rehearsal" ] || set -- "$@" kernels/cuda/libstepwell-cuda.so
    if grep -q '^build tests/cuda/test_on_card:' "$build/build.ninja"; then
        set -- "$@" tests/cuda/test_on_card
        [ -z "$rehearsal" ] || set -- "$@" tests/cuda/libstepwell-cuda-fake.so
    else
        note '- CUnit was not found: no suite and no entries under memcheck; --packages with libcunit1-dev, or a C++ compiler, is missing'
    fi
    told build ninja -C "$build" "$@"
    [ "$word" = good ] || exit 1
}

[ -z "$packages" ] || unpack
[ -n "$as_is" ] || make_build
for each in "$stepwell" "$stepwell-bench"; do
    [ -x "$each" ] || lack "$each is missing: leave --as-is out, or carry it"
done
{
    "$stepwell" --version --verbose 2>&1 | grep -v '^products' || true
    nvcc --version 2> /dev/null | tail -n 1 || true
} | sed 's/^/- /' >> "$body"

# ---- parts ---------------------------------------------------------------------------------
# One item of suite or memcheck in a process of its own; a line of PART-ops.txt. $0: the item.
one='case $0 in
*/*) set -- "$0"; ops=, ;;
*) set -- "entries: entries do what"; ops=,$0, ;;
esac
name=$(printf %s "$0" | tr / -) begun=$(date +%s) status=0
export STEPWELL_CUDA_OPS="$ops" STEPWELL_DEVICE_OPS="$logs/$name.entries"
timeout --foreground -k 5 "$each_s" $wrap "$program" gpu "$@" > "$logs/$name.log" 2>&1 || status=$?
case $status in 0 | 77) word=good ;; 124 | 137) word="BAD, no end in $each_s s" ;; *) word="BAD, status $status: $(grep -a -h -m 1 -e "\.c:[0-9]*:" -e "^========= [A-Z][a-z]" -e "^FAILED" "$logs/$name.log" | cut -c 1-160)" ;; esac
printf "%s %s, %s s\n" "$0" "$word" "$(($(date +%s) - begun))" >> "$list"'

# How far the items have come.
so_far() {
    awk '{ print $1 }' "$list" | sort > "$logs/reached"
    good=$(grep -c ' good, ' "$list" || true) n=$(wc -l < "$logs/items")
    [ "$good" -eq "$n" ] || bad=1
    note "- $doing: $good of $n processes good, after $(after)"
    grep -v ' good, ' "$list" | quote || true
    sort "$logs/items" | comm -23 - "$logs/reached" | tr '\n' ' ' > "$logs/left"
    [ ! -s "$logs/left" ] || note "- not reached, or killed: $(cat "$logs/left")"
}

# Items in processes: what --only names, or the entries of all ops and the other tests, where those of optimizers are.
items() {
    [ -x "$program" ] || lack "$program is missing, it was not built: it needs CUnit (--packages with libcunit1-dev) and a C++ compiler"
    needs xargs 'it is in findutils'
    if [ -n "$only" ]; then printf '%s\n' "$only" | tr ',' '\n'; else
        "$python" tests/cuda/device_list.py . "$build" ops; seq -f '%g/40' 40; fi > "$logs/items"
    list=$out/$part-ops.txt each_s=$((seconds / 3 + 1))
    export logs list each_s program wrap
    : > "$list"
    spare=$((seconds / 12))
    try "$1" xargs -a "$logs/items" -P "$jobs" -n 1 sh -c "$one"
    spare=0
    so_far
}

suite() {
    wrap=''
    items 'entries of each op, and other tests'
    note "- $(cat "$logs"/*.log | grep -a -h -m 1 'launches so far on' | sed 's/.*so far on //')"
    # shellcheck disable=SC2016 # of the other shell
    told 'kernels that a card has checked, DEVICE.md' sh -c 'cat "$0"/*.entries | "$@"' "$logs" "$python" tests/cuda/device_list.py . "$build" mark \
        --out "$out/DEVICE.md" "$(date +%Y-%m-%d)" "${card%%,*}" "$(printf '%s' "$card" | cut -d , -f 2 | sed 's/^ *//')"
    [ -n "$only" ] || told 'memory of a card, when no other process uses it' "$program" gpu 'a card has the arenas'
}

# Whole steps under a tool of compute-sanitizer: memory of a step is one range, whose parts are named by NVTX.
whole_steps() {
    for net in "gpt --layers 2 --width 64 --context 32 --data text:README.md" lenet5 "mbconv --width-factor 0.25 --image-size 32"; do
        # shellcheck disable=SC2086 # words
        told "compute-sanitizer $1, ${net%% *}" compute-sanitizer --tool "$1" --nvtx yes --error-exitcode 9 "$stepwell" train --device cuda --batch 8 \
            --steps 3 --nvtx ops --quiet --model $net
    done
}

memcheck() {
    needs compute-sanitizer "it is in the toolkit's bin"
    [ -n "$only" ] || whole_steps memcheck
    export STEPWELL_DEVICE_APART=1
    wrap='compute-sanitizer --tool memcheck --error-exitcode 9'
    items 'compute-sanitizer memcheck, entries of each op, and other tests'
}

racecheck() {
    needs compute-sanitizer "it is in the toolkit's bin"
    for tool in racecheck synccheck initcheck; do
        whole_steps "$tool"
    done
}

bench() {
    small='' figures=$out/$part-figures.md
    [ -z "$rehearsal" ] || small='--share 64 --steps 2 --rounds 1 --copy-bytes 65536 --side 64'
    # shellcheck disable=SC2086 # words
    told "$1" "$python" tools/bench/device.py "$stepwell" "$1" --out "$figures" --python "$python" --seconds "$((begun + seconds - 5 - $(now)))" $small
    [ "$word" != good ] || ! grep '^left out' "$log" | quote || ! grep -q '^left out' "$log" || bad=1
}

case $part in
build) ;;
mbconv) bench mbconv128 ;;
gpt124m | mlp4096 | lenet5 | card) bench "$part" ;;
*) "$part" ;;
esac
exit $bad
