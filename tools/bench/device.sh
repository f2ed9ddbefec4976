#!/bin/sh
# All that wants a GPU, in one go and offline: build, the device suite, the list of kernels that a card has checked,
# compute-sanitizer's tools, the benchmarks; one results file, with date, card and driver.
#   tools/bench/device.sh [--build FOLDER] [--debs FOLDER] [--python PYTHON] [--out FILE] [--seconds N] [--skip WORDS]
#
#   --build    where to build (default: build-device); what is there already is used
#   --debs     Debian packages for what the machine lacks and the network would have (libcunit1-dev, libcunit1,
#              libjemalloc-dev, libjemalloc2...): unpacked below the build folder, not installed
#   --python   an interpreter that has PyTorch (default: python3); without it the page has our figures alone
#   --out      the results file (default: tools/bench/results/DATE-CARD.md; of a rehearsal, a file among the logs)
#   --seconds  for the benchmarks (default: 240); what does not fit is left out and named
#   --skip     any of suite, sanitize, bench, in one word with commas: the page keeps what an earlier run of the same
#              sources and card wrote of these
#
# Status: 0 when all that ran was good, 1 when something was not, 2 for wrong usage, 5 without a card. Logs stay in the
# build folder's device-logs/. With STEPWELL_CUDA_MODULE set to the tests' module, which needs no card, everything but
# the sanitizers runs without one: a rehearsal, whose page says so. Nothing is fetched, nothing is installed, and the
# card's settings stay as they are.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
build=build-device debs='' python=python3 out='' seconds=240 skip=''
usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0"; }
while [ $# -gt 0 ]; do
    case $1 in
    --build | --debs | --python | --out | --seconds | --skip)
        [ $# -ge 2 ] || { echo "device.sh: $1 wants a value" >&2; exit 2; }
        case $1 in
        --build) build=$2 ;;
        --debs) debs=$(CDPATH='' cd -- "$2" && pwd) ;;
        --python) python=$2 ;;
        --out) out=$2 ;;
        --seconds) seconds=$2 ;;
        --skip) skip=$2 ;;
        esac
        shift 2
        ;;
    --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
done
for word in $(printf '%s' "$skip" | tr ',' ' '); do
    case $word in
    suite | sanitize | bench) ;;
    *) echo "device.sh: --skip knows suite, sanitize and bench, not '$word'" >&2; exit 2 ;;
    esac
done
skips() { case ",$skip," in *",$1,"*) return 0 ;; *) return 1 ;; esac; }
# Paths that were given are the caller's; all others are of the tree.
case $out in '' | /*) ;; *) out=$PWD/$out ;; esac
case $build in /*) ;; *) [ "$build" = build-device ] || build=$PWD/$build ;; esac
cd -- "$here"

# ---- the card ------------------------------------------------------------------------------
rehearsal=''
card=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -n 1) || card=''
if [ -z "$card" ]; then
    rehearsal=${STEPWELL_CUDA_MODULE:-}
    if [ -z "$rehearsal" ]; then
        echo "device.sh: nvidia-smi shows no card; for a rehearsal without one set STEPWELL_CUDA_MODULE to the tests' module" >&2
        exit 5
    fi
    card="no card (a rehearsal with $(basename "$rehearsal")), none, none"
fi
name=${card%%,*}
driver=$(printf '%s' "$card" | cut -d , -f 2 | sed 's/^ *//')
short=$(printf '%s' "$name" | tr -cs 'A-Za-z0-9' '-' | sed 's/^-//; s/-$//')
date=$(date +%Y-%m-%d)

# ---- build ---------------------------------------------------------------------------------
mkdir -p "$build"
build=$(CDPATH='' cd -- "$build" && pwd)
logs=$build/device-logs
mkdir -p "$logs"
if [ -z "$out" ]; then
    if [ -n "$rehearsal" ]; then out=$logs/rehearsal.md; else out=tools/bench/results/$date-$short.md; fi
fi
if [ -n "$debs" ]; then
    root=$build/root
    for deb in "$debs"/*.deb; do
        dpkg -x "$deb" "$root"
    done
    for folder in "$root"/usr/lib/*/pkgconfig; do
        [ -d "$folder" ] || continue
        # The packages' own paths begin at /: the unpacked ones begin here.
        sed -i "s#=/usr#=$root/usr#" "$folder"/*.pc
        PKG_CONFIG_PATH=$folder${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
        LD_LIBRARY_PATH=$(dirname "$folder")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    done
    export PKG_CONFIG_PATH LD_LIBRARY_PATH
fi
# Parts that the machine lacks are left out, but for CUDA; nothing is fetched.
if [ ! -f "$build/build.ninja" ]; then
    cuda=''
    [ -n "$rehearsal" ] || cuda=-Dcuda=enabled
    meson setup --wrap-mode=nodownload "$build" . ${cuda:+"$cuda"} > "$logs/configure.log" 2>&1 ||
        { tail -n 20 "$logs/configure.log" >&2; exit 1; }
fi
ninja -C "$build" > "$logs/build.log" 2>&1 || { tail -n 40 "$logs/build.log" >&2; exit 1; }
stepwell=$build/tools/stepwell
tests=$build/tests/cuda
[ -n "$rehearsal" ] || export STEPWELL_CUDA_MODULE="$build/kernels/cuda/libstepwell-cuda.so"

# ---- parts of the page ---------------------------------------------------------------------
bad=0
sources=$(git rev-parse --short HEAD 2>/dev/null || echo 'no commit')
git diff --quiet HEAD -- . ':!tests/cuda/DEVICE.md' ':!tools/bench/results' 2>/dev/null || sources="$sources, with changes"
# A part begins with what it is of: another's is not shown.
stamp="<!-- $sources, $card -->"
begin() { part=$logs/$1.md; printf '%s\n' "$stamp" > "$part"; }
note() { printf '%s\n' "$1" | tee -a "$part"; }
show() { [ -f "$logs/$1.md" ] && [ "$(head -n 1 "$logs/$1.md")" = "$stamp" ] && sed 1d "$logs/$1.md"; }
count() { wc -l < "$1" | tr -d ' '; }
# Run it with its output in a log; $word says how it went.
try() {
    log=$logs/$1.log
    shift
    if "$@" > "$log" 2>&1; then word=good; else word="BAD (status $?, $log)" bad=1; fi
}

suite() {
    passed=$build/device-ops.txt
    begin suite
    if [ ! -x "$tests/test_on_card" ]; then
        bad=1
        note "- device suite: BAD, the tests were not built (they need CUnit and a C++ compiler: --debs)"
        return
    fi
    rm -f "$passed"
    try suite sh tests/run "$build" gpu
    note "- device suite: $word: $(tail -n 1 "$logs/suite.log")"
    grep -ho 'beside arenas of .*' "$build/meson-logs/testlog.txt" | sed 's/^/- /' | tail -n 1 | tee -a "$part"
    if [ ! -s "$passed" ]; then
        bad=1
        note "- kernels that a card has checked: BAD, the suite has named none"
        return
    fi
    list=tests/cuda/DEVICE.md
    [ -z "$rehearsal" ] || list=$logs/DEVICE.md
    if ! python3 tests/cuda/device_list.py . "$build" mark --out "$list" "$date" "$name" "$driver" < "$passed" > "$logs/mark.log" 2>&1; then
        [ -n "$rehearsal" ] || bad=1
        note "- kernels that a card has checked: not written: $(tail -n 1 "$logs/mark.log" 2>/dev/null)"
        return
    fi
    note "- kernels that a card has checked: those of $(count "$passed") ops, in $(basename "$list")"
}

# One run of a tool of compute-sanitizer: a name, the tool, a command.
sanitize_one() {
    what=$1 tool=$2
    shift 2
    try "$tool-$what" "$sanitizer" --tool "$tool" --nvtx yes --error-exitcode 9 "$@"
    note "- compute-sanitizer $tool, $what: $word: $(grep -h 'ERROR SUMMARY\|RACECHECK SUMMARY' "$log" | tail -n 1 | sed 's/^=* *//')"
}

sanitize() {
    begin sanitize
    if [ -n "$rehearsal" ]; then
        note "- compute-sanitizer: not in a rehearsal"
        return
    fi
    sanitizer=$(command -v compute-sanitizer) || sanitizer=/usr/local/cuda/bin/compute-sanitizer
    if [ ! -x "$sanitizer" ]; then
        bad=1
        note "- compute-sanitizer: BAD, not on this machine"
        return
    fi
    # Whole steps: memory of a step is one range, whose parts are named by NVTX.
    for tool in memcheck racecheck initcheck synccheck; do
        set -- "$stepwell" train --device cuda --batch 8 --steps 3 --nvtx ops --quiet --model
        sanitize_one lenet5 "$tool" "$@" lenet5
        sanitize_one gpt "$tool" "$@" gpt --layers 2 --width 64 --context 32 --data text:README.md
        sanitize_one mbconv "$tool" "$@" mbconv --width-factor 0.25 --image-size 32
    done
    # Entries alone: each operand is an allocation, and what reaches beyond it shows.
    [ ! -x "$tests/test_on_card" ] ||
        sanitize_one entries memcheck env STEPWELL_DEVICE_APART=1 "$tests/test_on_card" gpu "entries: "
}

bench() {
    begin bench
    small=''
    [ -z "$rehearsal" ] || small='--share 64 --steps 2 --rounds 1 --copy-bytes 65536 --side 64'
    rm -f "$logs/device.md"
    # shellcheck disable=SC2086 # words
    try bench "$python" tools/bench/device.py "$stepwell" --out "$logs/device.md" --python "$python" --seconds "$seconds" $small
    note "- benchmarks: $word, $(grep -c '^left out' "$logs/bench.log" || true) left out"
    [ ! -f "$logs/device.md" ] || { echo; sed '1s/^# .*/## Benchmarks/' "$logs/device.md"; } >> "$part"
}

skips suite || suite
skips sanitize || sanitize
skips bench || bench

# ---- the page ------------------------------------------------------------------------------
mkdir -p "$(dirname "$out")"
{
    printf '# On a device, %s\n\n' "$date"
    # shellcheck disable=SC2016 # the backticks are Markdown's
    printf 'Card, driver, memory: %s. Written by `tools/bench/device.sh` at %s.\n\n' "$card" "$sources"
    printf '%s; %s\n\n' "$("$stepwell" --version | head -n 1)" "$(nvcc --version 2>/dev/null | tail -n 1)"
    for each in suite sanitize bench; do
        show "$each" || echo "- $each: not run"
    done
} > "$out"
echo "written: $out"
exit $bad
