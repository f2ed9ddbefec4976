# The entries SW_CUDA_ENTRY...(...) of the module's sources, as kernels/cuda/table.def includes them, those of an op side by side.
/^SW_CUDA_ENTRY(_OF|_BY)?\(/ { entry = "" }
/^SW_CUDA_ENTRY(_OF|_BY)?\(/, /^$|^{|\)$/ { sub(/^ +/, ""); entry = entry $0 " " }
entry && /^$|^{|\)$/ {
    by = entry ~ /^SW_CUDA_ENTRY_BY/
    sub(/^[A-Z_]+\(/, "", entry)
    split(entry, c, /, *|\)/)
    entry = ""
    which = by ? c[2] : c[2] == "forward" ? -1 : substr(c[2], 5)
    kernel = by ? c[3] : "sw_cuda_" c[1] "_" c[2]
    if (!(c[1] in of)) ops[n++] = c[1]
    of[c[1]] = of[c[1]] "SW_CUDA_KERNEL(" c[1] ", " which ", " kernel ", " c[3 + by] ", " c[4 + by] ")\n"
    if (c[3 + by] != "NULL" && !(c[3 + by] in seen)) {
        seen[c[3 + by]]
        of[c[1]] = of[c[1]] "SW_CUDA_SCRATCH(" c[3 + by] ")\n"
    }
}
END { for (i = 0; i < n; i++) printf "%s", of[ops[i]] }
