// What both versions ask of their launch: sizes from the command line, and where the arrays lie.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>

struct Asked {
    int batch, sequence, heads;
    int64_t row, per_batch;
    explicit Asked(char **given)
        : batch(std::atoi(given[1])),
          sequence(std::atoi(given[2])),
          heads(std::atoi(given[3])),
          row(int64_t(heads) * HEAD),
          per_batch(sequence * row) {}
};

// An address for each array: the launch recorder's reader puts the array's own in its place.
inline void *place(int64_t array) { return reinterpret_cast<void *>(array << 44); }

// Arrays of shape (batch, sequence, heads, HEAD) without gaps, as PyTorch makes them.
template <typename Params>
void describe(Params &params, const Asked &asked) {
    params.q_ptr = place(1), params.k_ptr = place(2), params.v_ptr = place(3);
    params.o_ptr = place(4), params.softmax_lse_ptr = place(5);
    params.q_batch_stride = params.k_batch_stride = params.v_batch_stride = params.o_batch_stride = asked.per_batch;
    params.q_row_stride = params.k_row_stride = params.v_row_stride = params.o_row_stride = asked.row;
    params.q_head_stride = params.k_head_stride = params.v_head_stride = params.o_head_stride = HEAD;
    params.b = asked.batch, params.h = params.h_k = asked.heads;
    params.seqlen_q = params.seqlen_k = asked.sequence;
    params.seqlen_q_rounded = params.seqlen_k_rounded = (asked.sequence + 127) / 128 * 128;
    params.d = params.d_rounded = HEAD;
    params.p_dropout = params.rp_dropout = 1.f;
    params.p_dropout_in_uint8_t = 255;
    params.is_causal = CAUSAL;
}
