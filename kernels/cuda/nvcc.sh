#!/bin/sh
# nvcc.sh LOG COMMAND...: run it; what it says goes to LOG, and is shown where it fails.
log=$1
shift
"$@" > "$log" 2>&1 || {
    status=$?
    cat "$log" >&2
    exit $status
}
