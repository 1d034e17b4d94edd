// A launch of FlashAttention-2's forward kernel, FP16, as its flash_api.cpp and launch template make it on an
// H100: HEAD (64 or 128) and CAUSAL (0 or 1) are macros.
#include "attention.h"
#include "flash_fwd_launch_template.h"
#include <cmath>

int main(int, char **given) {
    const Asked asked(given);
    FLASH_NAMESPACE::Flash_fwd_params params = {};
    describe(params, asked);
    params.h_h_k_ratio = 1;
    params.scale_softmax = 1 / std::sqrt(float(HEAD));
    params.scale_softmax_log2 = params.scale_softmax * M_LOG2E;
    params.scale_softmax_rp_dropout = params.scale_softmax;
    params.window_size_left = -1, params.window_size_right = CAUSAL ? 0 : -1;
    params.is_seqlens_k_cumulative = true;
    params.rng_state = static_cast<uint64_t *>(place(6));
    // Tiles of 128 rows and 128 columns, with heads of 128 elements 64: "good for H100", says the template.
    using Traits = Flash_fwd_kernel_traits<HEAD, 128, HEAD == 64 ? 128 : 64, 4, false, false, cutlass::half_t>;
    constexpr bool even_rows = true;
    auto *kernel =
        &FLASH_NAMESPACE::flash_fwd_kernel<Traits, false, CAUSAL, false, false, even_rows, true, false, false>;
    if (asked.sequence % 128) return 2;
    kernel<<<dim3(asked.sequence / 128, asked.batch, asked.heads), Traits::kNThreads, Traits::kSmemSize>>>(params);
}
