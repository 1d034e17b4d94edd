// Stands in for PyTorch's header: the state of random numbers that FlashAttention-2's parameters hold.
#pragma once
#include <cstdint>
namespace at {
struct PhiloxCudaState {
    union Payload {
        uint64_t val;
        int64_t *ptr;
    };
    Payload seed_{};
    Payload offset_{};
    uint32_t offset_intragraph_ = 0;
    bool captured_ = false;
};
}  // namespace at
