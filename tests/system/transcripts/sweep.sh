# sweep KIND PARTS BEFORE CHECK WORDS...: about so many of the program's allocations (memory) or file operations (file) fail once each, in full
# all, or with $each every so many; the last $tail always; $mode + fails all from there on. BEFORE is run before each; CHECK must hold after it, with $s the status, and what was printed in o and e. No signal may end it.
sweep() {
    kind=$1 parts=$2 before=$3 check=$4
    shift 4
    n=$(STEPWELL_FAULT=memory:count "$P" "$@" 2>&1 >/dev/null | sed -n "s/.*fault sites:.*$kind \([0-9]*\).*/\1/p")
    [ "$n" -gt ${least:-5} ] || { echo "$kind: $n sites"; return 9; } >&2
    step=$((FULL ? ${each:-1} : n / parts + 1)) k=$((n - 1))
    while [ $k -ge 0 ]; do
        eval "$before"
        STEPWELL_FAULT=$kind:$k$mode "$P" "$@" >o 2>e
        s=$?
        [ $s -lt 128 ] && eval "$check" || { echo "$kind:$k: status $s"; cat e; return 9; } >&2
        k=$((k - (k > n - ${tail:-0} ? 1 : step)))
    done
}
