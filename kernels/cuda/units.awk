# The entries SW_CUDA_ENTRY(...) of the module's sources, as kernels/cuda/table.def includes them; one may take several lines.
/^SW_CUDA_ENTRY\(/ { entry = ""; open = 1 }
open {
    sub(/^ +/, "")
    entry = entry (entry == "" || entry ~ /\($/ ? "" : " ") $0
}
open && /\)$/ {
    open = 0
    sub(/SW_CUDA_ENTRY/, "SW_CUDA_KERNEL", entry)
    print entry
    split(entry, column, /, */)
    if (column[4] != "NULL" && !(column[4] in seen)) {
        seen[column[4]]
        print "SW_CUDA_SCRATCH(" column[4] ")"
    }
}
