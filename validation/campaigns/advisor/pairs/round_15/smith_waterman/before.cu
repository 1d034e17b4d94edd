// Smith-Waterman scores of many pairs of sequences with linear gaps. A block has one pair, a thread one letter of the
// query; the block goes along the anti-diagonals of the matrix.
#define QUERY 128
#define MATCH 2
#define MISMATCH -1
#define GAP 1

extern "C" __global__ void smith_waterman(const unsigned char *__restrict__ queries,
                                          const unsigned char *__restrict__ targets, int target_length,
                                          int *__restrict__ scores, int pairs)
{
    __shared__ int before_last[QUERY + 1], last[QUERY + 1], now[QUERY + 1];
    __shared__ int reduced[QUERY];
    const int pair = blockIdx.x;
    const int i = threadIdx.x;
    if (pair >= pairs)
        return;

    const unsigned char letter = queries[pair * QUERY + i];
    const unsigned char *target = targets + pair * target_length;
    before_last[i + 1] = last[i + 1] = now[i + 1] = 0;
    if (i == 0)
        before_last[0] = last[0] = now[0] = 0;
    int best = 0;
    __syncthreads();

    for (int diagonal = 0; diagonal < QUERY + target_length - 1; diagonal++) {
        const int j = diagonal - i;
        if (j >= 0 && j < target_length) {
            int score = before_last[i] + (letter == target[j] ? MATCH : MISMATCH);
            score = max(score, last[i] - GAP);
            score = max(score, last[i + 1] - GAP);
            score = max(score, 0);
            now[i + 1] = score;
            best = max(best, score);
        }
        __syncthreads();
        before_last[i + 1] = last[i + 1];
        last[i + 1] = now[i + 1];
        __syncthreads();
    }

    reduced[i] = best;
    __syncthreads();
    for (int half = QUERY / 2; half > 0; half /= 2) {
        if (i < half)
            reduced[i] = max(reduced[i], reduced[i + half]);
        __syncthreads();
    }
    if (i == 0)
        scores[pair] = reduced[0];
}
