#!/bin/sh
# nvcc.sh LOG PTX COMMAND...: run it; what it says goes to LOG, and is shown where it fails. The PTX of compute_90 that it makes on
# its way is kept in PTX; "-": there is none.
log=$1 ptx=$2
shift 2
status=0
if [ "$ptx" = - ]; then
    "$@" > "$log" 2>&1 || status=$?
else
    kept=$ptx.steps
    rm -rf "$kept" && mkdir -p "$kept" || exit 1
    "$@" --keep --keep-dir "$kept" > "$log" 2>&1 && mv "$kept"/*.compute_90.ptx "$ptx" || status=$?
    rm -rf "$kept"
fi
[ "$status" = 0 ] || cat "$log" >&2
exit "$status"
