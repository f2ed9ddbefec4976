/* The name of this copy's instruction set: files of this folder are compiled once for each. */
#ifndef SW_ISA_H
#define SW_ISA_H

#if SW_ISA_ID == 2
#define SW_ISA_FN(name) name##_avx512
#elif SW_ISA_ID == 1
#define SW_ISA_FN(name) name##_avx2
#else
#define SW_ISA_FN(name) name##_base
#endif

#endif
