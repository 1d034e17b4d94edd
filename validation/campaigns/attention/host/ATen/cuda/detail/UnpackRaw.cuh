// Stands in for PyTorch's header: seed and offset of random numbers.
#pragma once
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <tuple>
namespace at::cuda::philox {
__host__ __device__ inline std::tuple<uint64_t, uint64_t> unpack(at::PhiloxCudaState state) {
    return {state.seed_.val, state.offset_.val};
}
}  // namespace at::cuda::philox
