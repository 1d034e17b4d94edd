// A launch of FlashAttention-3's forward kernel, FP16, as its flash_api.cpp and launch template make it on an
// H100: HEAD (64 or 128) and CAUSAL (0 or 1) are macros.
#include "attention.h"
#include "flash_fwd_launch_template.h"
#include <cmath>

void prepare_varlen_num_blocks(Flash_fwd_params &, cudaStream_t, bool, int, int, bool) {}

int main(int, char **given) {
    const Asked asked(given);
    Flash_fwd_params params = {};
    describe(params, asked);
    params.v_dim_stride = 1;
    params.dv = params.dv_rounded = HEAD;
    params.b_k = asked.batch;
    params.scale_softmax = 1 / std::sqrt(float(HEAD));
    params.window_size_left = params.window_size_right = asked.sequence - 1;
    params.num_splits = 1;
    params.arch = 90, params.num_sm = 132;
    params.tile_count_semaphore = static_cast<int *>(place(6));
    constexpr int tile = HEAD == 64 ? 192 : 128;
    // Clusters of two, where the template makes them: with heads of 128 elements, not causal, tiles in pairs.
    if ((asked.sequence + tile - 1) / tile % 2 && HEAD >= 128 && !CAUSAL) return 2;
    constexpr int cluster = HEAD >= 128 && !CAUSAL ? 2 : 1;
    run_flash_fwd<90, HEAD, HEAD, cluster, cutlass::half_t, cutlass::half_t, CAUSAL, false, false, false, false,
                  false, false, false, false, false>(params, nullptr);
}
