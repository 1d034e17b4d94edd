// Smith-Waterman scores of many pairs of sequences with linear gaps. A warp has one pair, a lane four letters of the
// query; the boundary between lanes goes by shuffles, so nothing waits at a barrier. The target's length is a multiple
// of 32.
#define QUERY 128
#define MATCH 2
#define MISMATCH -1
#define GAP 1
#define ROWS (QUERY / 32)
#define FULL 0xffffffffu

extern "C" __global__ void smith_waterman(const unsigned char *__restrict__ queries,
                                          const unsigned char *__restrict__ targets, int target_length,
                                          int *__restrict__ scores, int pairs)
{
    const int pair = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const int lane = threadIdx.x % 32;
    if (pair >= pairs)
        return;

    int letter[ROWS], left[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        letter[r] = queries[pair * QUERY + lane * ROWS + r];
        left[r] = 0;
    }
    const unsigned char *target = targets + pair * target_length;
    int best = 0, corner = 0, code = 0, loaded = 0;

    for (int step = 0; step < target_length + 31; step++) {
        if (step % 32 == 0 && step < target_length)
            loaded = target[step + lane];
        const int entering = __shfl_sync(FULL, loaded, step % 32);
        code = __shfl_up_sync(FULL, code, 1);
        int above = __shfl_up_sync(FULL, left[ROWS - 1], 1);
        if (lane == 0) {
            code = entering;
            above = 0;
        }
        const int j = step - lane;
        if (j >= 0 && j < target_length) {
            int diagonal = corner;
            corner = above;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                int score = diagonal + (letter[r] == code ? MATCH : MISMATCH);
                score = max(max(score, 0), max(above, left[r]) - GAP);
                diagonal = left[r];
                left[r] = above = score;
                best = max(best, score);
            }
        }
    }

    for (int half = 16; half > 0; half /= 2)
        best = max(best, __shfl_xor_sync(FULL, best, half));
    if (lane == 0)
        scores[pair] = best;
}
