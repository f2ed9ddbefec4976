/* Compiled where the toolkit is installed, and never run: each constant, type and function that
 * the fake's headers declare is the toolkit's. Numbers that are macros differ loudly, as
 * definitions that do not agree. */
#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>
#include <type_traits>

/* Versions differ. */
#undef CUDART_VERSION
#undef CUDA_VERSION
#define SW_FAKE_NAMESPACE
namespace fake
{
#include "include/cublasLt.h"
#include "include/cuda.h"
#include "include/cuda_runtime_api.h"
} // namespace fake

/* Signatures agree by shape: both sides have structs and enums of their own. */
template <class A, class B, bool ENUMS = std::is_enum<A>::value &&std::is_enum<B>::value>
struct agree {
    static constexpr bool value =
        std::is_same<A, B>::value || (std::is_class<A>::value && std::is_class<B>::value);
};
template <class A, class B> struct agree<A, B, true> {
    static constexpr bool value = sizeof(A) == sizeof(B);
};
template <class A, class B> struct agree<A *, B *, false> {
    static constexpr bool value =
        std::is_const<A>::value == std::is_const<B>::value &&
        agree<typename std::remove_const<A>::type, typename std::remove_const<B>::type>::value;
};
template <class R, class... A, class S, class... B> struct agree<R(A...), S(B...), false> {
    static constexpr bool count = sizeof...(A) == sizeof...(B);
    template <class X, class Y, bool SAME> struct each {
        static constexpr bool value = false;
    };
    template <class... X, class... Y> struct each<void(X...), void(Y...), true> {
        static constexpr bool value = (agree<X, Y>::value && ... && true);
    };
    static constexpr bool value =
        agree<R, S>::value && each<void(A...), void(B...), count>::value;
};

#define SWI_C(name)                                                                            \
    static_assert((long long)::name == (long long)fake::name, #name " has another value");
#include "constants.def"
#undef SWI_C

#define SWI_F(name, kind)                                                                      \
    static_assert(agree<decltype(::name), decltype(fake::name)>::value,                        \
                  #name " has another signature");
#include "functions.def"
#undef SWI_F

#define SIZE(type)                                                                             \
    static_assert(sizeof(::type) == sizeof(fake::type) &&                                      \
                      alignof(::type) == alignof(fake::type),                                  \
                  #type " has another size");
#define PLACE(type, field)                                                                     \
    static_assert(offsetof(::type, field) == offsetof(fake::type, field),                      \
                  #type "." #field " lies elsewhere");
SIZE(CUdeviceptr)
SIZE(CUmemGenericAllocationHandle)
SIZE(CUmemLocation)
PLACE(CUmemLocation, id)
SIZE(CUmemAllocationProp)
PLACE(CUmemAllocationProp, requestedHandleTypes)
PLACE(CUmemAllocationProp, location)
PLACE(CUmemAllocationProp, win32HandleMetaData)
PLACE(CUmemAllocationProp, allocFlags)
SIZE(CUmemAccessDesc)
PLACE(CUmemAccessDesc, flags)
SIZE(cublasLtMatmulAlgo_t)
SIZE(cublasLtMatmulHeuristicResult_t)
PLACE(cublasLtMatmulHeuristicResult_t, workspaceSize)
PLACE(cublasLtMatmulHeuristicResult_t, state)
PLACE(cublasLtMatmulHeuristicResult_t, wavesCount)
