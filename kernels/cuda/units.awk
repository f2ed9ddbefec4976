# The lines SW_CUDA_ENTRY(...) of the module's sources, as kernels/cuda/table.def includes them.
/^SW_CUDA_ENTRY\(/ {
    sub(/SW_CUDA_ENTRY/, "SW_CUDA_KERNEL")
    print
    split($0, column, /, */)
    if (column[4] != "NULL" && !(column[4] in seen)) {
        seen[column[4]]
        print "SW_CUDA_SCRATCH(" column[4] ")"
    }
}
